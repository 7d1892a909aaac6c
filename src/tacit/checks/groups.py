"""Do groups of trajectories (mice, clinicians, sites) follow the same weights?

Every group is fitted by itself and all together; twice the difference of their log-likelihoods is
the likelihood ratio. Its law is a chi-square only while no weight sits on its bound; otherwise it
is found by dealing the episodes out to the groups again, or by drawing new actions from the fit of
all, and refitting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.checks.likelihood_ratio import (
    Deck,
    alike,
    degrees_of_freedom,
    fitted_apart,
    ratio_of,
    simulated,
)
from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.inverse.expectations import check_task
from tacit.inverse.findings import Finding, Kind
from tacit.inverse.noisy.coordinates import coordinates
from tacit.inverse.noisy.likelihood import Likelihood, Steps
from tacit.inverse.recovery import Recovery
from tacit.model.mdp import MDP
from tacit.model.objective import Features

# Simulated likelihood ratios where there is no other law.
DRAWS = 199
LEVEL = 0.05
# Groups named in one sentence.
NAMED = 6


@dataclass(frozen=True, eq=False)
class EqualWeightsTest:
    """Whether groups share reward weights, cost weights and prices, and each group's own.

    Attributes:
        groups: [G] their names, in order.
        episodes: [G] how many trajectories each has.
        steps: [G] how many steps.
        own_noise: whether the groups may differ in their noise; if not, that must be equal, too.
        ratio: likelihood ratio of the separate fits against groups that are alike.
        degrees: degrees of freedom of its chi-square; NaN where its law was simulated.
        p_value: chance of a ratio this large if the groups are equal.
        draws: simulated ratios behind the chance; 0 for a chi-square.
        law: where the chance comes from, in words.
        pooled: recovery from all groups together.
        recoveries: one per group.
    """

    groups: tuple[str, ...]
    episodes: np.ndarray
    steps: np.ndarray
    own_noise: bool
    ratio: float
    degrees: float
    p_value: float
    draws: int
    law: str
    pooled: Recovery
    recoveries: tuple[Recovery, ...]

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Name -> column of a table: group, quantity, name, value, low, high, standard_error."""
        rows = [
            (group, *row)
            for group, recovery in zip(self.groups, self.recoveries, strict=True)
            for row in _numbers(recovery)
        ]
        names = ("group", "quantity", "name", "value", "low", "high", "standard_error")
        return dict(zip(names, (np.array(c) for c in zip(*rows, strict=True)), strict=True))

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """What came out, as findings."""
        named = [
            f"{g} ({n} episode{'s' if n != 1 else ''})"
            for g, n in zip(self.groups, self.episodes, strict=True)
        ]
        if len(named) > NAMED:
            named = [*named[:NAMED], f"{len(named) - NAMED} more"]
        who = " and ".join([", ".join(named[:-1]), named[-1]])
        shown = f"p = {self.p_value:.3f}" if self.p_value >= 0.001 else "p < 0.001"
        basis = f"likelihood ratio {self.ratio:.4g}, {shown} {self.law}"
        if self.p_value > LEVEL:
            said = f"Nothing shows that {who} differ in what they want and refuse ({basis})."
            return (Finding(said, number=self.p_value),)
        what = "weights and prices" if self.own_noise else "weights, prices and noise"
        said = f"{who} do not follow the same {what} ({basis})."
        return (Finding(said, Kind.MISFIT, number=self.p_value), *self._widest())

    def _widest(self) -> list[Finding]:
        """The number in which two groups differ most, in standard errors."""
        table = [list(_numbers(one)) for one in self.recoveries]
        best, said = 0.0, []
        for rows in zip(*table, strict=True):
            values, errors = (np.array([row[i] for row in rows]) for i in (2, 5))
            apart = np.abs(values[:, None] - values)
            with np.errstate(divide="ignore", invalid="ignore"):
                scores = np.nan_to_num(apart / np.hypot(errors[:, None], errors), posinf=0.0)
            if rows[0][0] == "budget" or scores.max() <= best:
                continue
            best = float(scores.max())
            pair = np.unravel_index(int(np.argmax(scores)), scores.shape)
            each = [
                f"{rows[g][2]:.3g} [{rows[g][3]:.3g}, {rows[g][4]:.3g}] for {self.groups[g]}"
                for g in sorted(pair)
            ]
            kind, name = rows[0][:2]
            what = f"{kind} {name}" if kind == "price" else f"the {kind} weight of {name}"
            feature = None if kind == "price" else str(name)
            text = f"They differ most in {what}: {each[0]}, {each[1]}."
            said = [Finding(text, feature=feature, number=best)]
        return said


def equal_weights_test(
    mdp: MDP,
    features: Features,
    demonstrations: Demonstrations,
    groups: Any = None,
    *,
    estimator: Likelihood | None = None,
    own_noise: bool = False,
    draws: int | None = None,
    seed: int = 0,
) -> EqualWeightsTest:
    """The `EqualWeightsTest` of groups of episodes.

    Args:
        mdp: the known world, the same for all groups.
        features: what reward and costs may be made of.
        demonstrations: the trajectories of all groups.
        groups: [E] the group of every episode; None takes `demonstrations.groups`.
        estimator: a `Likelihood`; its default by default.
        own_noise: let every group have a noise of its own, so that only weights and prices count.
        draws: simulated likelihood ratios; 0 takes the chi-square law, None simulates where a
            weight sits on its bound.
        seed: of the simulation.
    """
    check_task(mdp, features, demonstrations, in_memory=True)
    options = Likelihood() if estimator is None else estimator
    if not isinstance(options, Likelihood):
        raise InvalidModel(f"the test compares likelihoods: use Likelihood(); got {options!r:.60}")
    if draws is not None and draws < 0:
        raise InvalidModel(f"draws must be at least 0; got {draws}")
    names, member = _members(demonstrations, groups)
    deck = Deck.of(mdp, demonstrations, member, len(names))
    counts = deck.counts(member)
    whole = Steps.of(mdp, coordinates(mdp, features), demonstrations)
    pooled = whole.fit(options)
    apart = fitted_apart(whole, options, counts, pooled)
    model = alike(pooled, apart, mdp, own_noise=own_noise)
    ratio = ratio_of(model, apart)
    bounded = not all(one.free.all() for one in (pooled, *apart))
    number = (DRAWS if bounded else 0) if draws is None else draws
    if number == 0:
        degrees = degrees_of_freedom(whole, pooled, counts, own_noise=own_noise)
        p_value, law = _tail(ratio, degrees), f"by a chi-square with {degrees:g} degrees of freedom"
    else:
        ratios, law = simulated(whole, options, model, deck, number, own_noise=own_noise, seed=seed)
        # One more in both counts: a simulated law cannot vouch for a chance of zero.
        p_value = (1.0 + (ratios >= ratio * (1.0 - 1e-9)).sum()) / (1.0 + number)
        degrees = np.nan
    return EqualWeightsTest(
        names,
        np.bincount(member, minlength=len(names)),
        np.bincount(member, weights=demonstrations.lengths, minlength=len(names)).astype(np.int64),
        own_noise,
        ratio,
        degrees,
        float(p_value),
        number,
        law,
        options.fit(mdp, features, demonstrations, throw=False),
        tuple(
            options.fit(mdp, features, demonstrations.select(member == g), throw=False)
            for g in range(len(names))
        ),
    )


def _members(demonstrations: Demonstrations, groups: Any) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the groups, and [E] the number of every episode's group."""
    given = getattr(demonstrations, "groups", None) if groups is None else groups
    if given is None:
        raise InvalidDemonstrations(
            "groups must name the group of every episode: pass them, or load a table with a "
            "`group` column"
        )
    labels = np.array([str(label) for label in np.asarray(given).ravel()])
    if labels.shape != (demonstrations.episodes,):
        raise InvalidDemonstrations(
            f"groups must hold one entry an episode ({demonstrations.episodes}); got {len(labels)}"
        )
    names, member = np.unique(labels, return_inverse=True)
    if len(names) < 2:
        raise InvalidDemonstrations(
            f"at least two groups are needed to compare them; got {[str(n) for n in names]}"
        )
    return tuple(str(name) for name in names), member.ravel()


def _tail(ratio: float, degrees: float) -> float:
    from scipy.stats import chi2

    return float(chi2.sf(ratio, degrees)) if degrees > 0 else 1.0


def _numbers(recovery: Recovery) -> Iterator[tuple[str, str, float, float, float, float]]:
    """(quantity, name, value, low, high, standard error) of every number of a recovery."""
    known = recovery.identification
    parts = [("reward", recovery.reward_names, recovery.reward_weights)]
    ends, errors = [known.reward_intervals], [known.reward_standard_errors]
    for k, names in enumerate(recovery.cost_names):
        parts.append((f"cost {k}", names, recovery.cost_weights[k]))
        ends.append(known.cost_intervals[k])
        errors.append(known.cost_standard_errors[k])
    constraints = tuple(str(k) for k in range(len(recovery.multipliers)))
    parts += [("price", constraints, recovery.multipliers)]
    parts += [("budget", constraints, recovery.budgets)]
    ends += [known.multiplier_intervals, known.budget_intervals]
    errors += [known.multiplier_standard_errors, known.budget_standard_errors]
    for (quantity, names, values), limits, spread in zip(parts, ends, errors, strict=True):
        for name, value, (low, high), error in zip(names, values, limits, spread, strict=True):
            yield quantity, name, float(value), float(low), float(high), float(error)
