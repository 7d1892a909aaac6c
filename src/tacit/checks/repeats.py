"""How often intervals hold, in data simulated at the fit: on demand, and in seconds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.data.tally import Tally, tally_of
from tacit.errors import InvalidModel
from tacit.estimators.likelihood import Likelihood
from tacit.files.wording import some
from tacit.forward.simulation import simulate
from tacit.inference.findings import Finding, Kind
from tacit.model.arguments import integer
from tacit.recovery import Recovery

# Chance of a coverage this low, were it nominal, from which it is said to be too low.
LEVEL = 0.01


@dataclass(frozen=True, eq=False, kw_only=True)
class Calibration:
    """How often the intervals of a recovery held, in simulated repeats at its fit.

    Attributes:
        names: [Q] of the coefficients, then of the prices.
        shares: [Q] of the repeats in which each interval held; NaN where there was never one.
        repeats: [Q] in which there was an interval.
        draws: how many repeats there were.
        confidence: of the intervals.
    """

    names: tuple[str, ...]
    shares: np.ndarray
    repeats: np.ndarray
    draws: int
    confidence: float

    @property
    def too_low(self) -> np.ndarray:
        """[Q] bool, where less held than chance explains, for all of them at once."""
        from scipy.stats import binom

        counts = np.nan_to_num(self.shares * self.repeats).round()
        chances = binom.cdf(counts, self.repeats, self.confidence)
        return (self.repeats > 0) & (chances <= LEVEL / len(self.names))

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """The mean, the worst, and whether that is chance."""
        known = self.repeats > 0
        if not known.any():
            return (Finding("There was no interval to be calibrated.", Kind.ERRORS),)
        mean, worst = float(self.shares[known].mean()), int(np.nanargmin(self.shares))
        said = (
            f"In {self.draws} simulated repeats at this fit the {self.confidence:.0%} intervals "
            f"held {mean:.0%} of the time, least that of {self.names[worst]}, "
            f"{self.shares[worst]:.0%}."
        )
        low = [self.names[j] for j in np.flatnonzero(self.too_low)]
        if low:
            said += f" That is less than chance explains for {some(low)}: take them for too narrow."
        return (Finding(said, Kind.ERRORS, feature=self.names[worst], number=mean),)

    @property
    def columns(self) -> dict[str, list[str] | np.ndarray]:
        """The same as a table, a row for each number."""
        return {"number": [*self.names], "held": self.shares, "repeats": self.repeats}


def calibration(recovery: Recovery, *, draws: int = 200, seed: int = 0) -> Calibration:
    """The `Calibration` of a recovery by `Likelihood`, its fit taken for the truth.

    As many trajectories are simulated as were seen, each as long as they were on average.

    Args:
        recovery: that knows what it was made from.
        draws: how many repeats.
        seed: of the first; the others follow.
    """
    integer(draws, "draws")
    origin = recovery.origin
    if origin is None or not isinstance(origin.estimator, Likelihood):
        raise InvalidModel(
            "calibration simulates the data of a recovery by Likelihood again, and needs to know "
            f"what it was made from; got one by {recovery.estimator:.60}"
        )
    mdp, truth = origin.mdp, recovery.parameters.estimates
    tally = tally_of(mdp, origin.demonstrations)
    steps = max(1, round(float(tally.counts.sum()) / tally.episodes))
    goals = np.concatenate([truth, recovery.multipliers])
    held, repeats = np.zeros(len(goals)), np.zeros(len(goals), int)
    for draw in range(draws):
        again = simulate(
            mdp, recovery.behaviour, trajectories=tally.episodes, steps=steps, seed=seed + draw
        )
        fit = origin.estimator.fit(
            mdp, origin.features, Tally.of(mdp, again), throw=False, near=recovery
        )
        ends = np.concatenate([fit.parameters.intervals, fit.identification.multiplier_intervals])
        there = np.isfinite(goals) & ~np.isnan(ends).any(axis=1)
        repeats += there
        held += there & (ends[:, 0] <= goals) & (goals <= ends[:, 1])
    with np.errstate(invalid="ignore"):
        shares = held / repeats
    prices = [f"price {k}" for k in range(len(recovery.multipliers))]
    return Calibration(
        names=(*recovery.parameters.names, *prices),
        shares=shares,
        repeats=repeats,
        draws=draws,
        confidence=recovery.parameters.confidence,
    )
