"""Sets of coefficients that hold at all times at once, and how much more must be seen.

Every batch is predicted by the fit to what came before it. Of the true coefficients the likelihood
of all steps since falls behind these predictions by log(1 / level) nats, ever, with at most the
chance `level` (Ville's inequality): those that have not fallen so far behind are the set. One may
look after every batch, and stop whenever it is narrow enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import InvalidModel
from tacit.files.wording import did_you_mean, some
from tacit.inference.findings import Finding, Kind
from tacit.inference.origin import Predictions
from tacit.inference.parameters import inverse_information
from tacit.likelihood.problem import Fit, LikelihoodProblem
from tacit.likelihood.protocol import LARGEST
from tacit.likelihood.steps import information
from tacit.model.arguments import number
from tacit.model.objective import coefficient_names
from tacit.stream.updating import origin_of, problem_of

if TYPE_CHECKING:
    from tacit.recovery import Recovery

# Draws of the coefficients from their law, and the share of them between the ends that are told.
DRAWS, TOLD = 100, 0.8
# Refits from the inside of the set to its end, and nats by which that may be missed.
SEARCHES, CLOSE = 30, 1e-3


@dataclass(frozen=True, eq=False, kw_only=True)
class AnytimeSet:
    """Coefficients that hold at all times at once.

    Attributes:
        names: [P] of the coefficients, as in `recovery.parameters`.
        intervals: [P, 2] each over the whole set; NaN where no demonstrator of the model is in it.
        confidence: that the truth never leaves the set.
        steps: that were predicted, those since the first recovery.
        leeway: nats by which coefficients may fall behind the likeliest; below 0 for an empty set.
    """

    names: tuple[str, ...]
    intervals: np.ndarray
    confidence: float
    steps: int
    leeway: float

    @property
    def finding(self) -> Finding:
        """What is promised, or that nothing is left."""
        if self.leeway < 0:
            said = (
                "No demonstrator of this model explains the steps since the first recovery as well "
                "as their predictions: it has changed, or the model does not fit."
            )
            return Finding(said, Kind.MISFIT, number=self.leeway)
        said = (
            f"The true coefficients are in these intervals, after every batch at once, with "
            f"{self.confidence:.0%} confidence: one may look at any time and stop. It holds for "
            f"any number of steps, here {self.steps}, if the model does and the demonstrator stays."
        )
        return Finding(said, Kind.NOTE, number=self.steps)


def anytime(recovery: Recovery, *, confidence: float) -> AnytimeSet:
    """The set of coefficients that holds at all times; see `Recovery.anytime`."""
    number(confidence, "confidence", "in (0, 1)", lambda share: 0.0 < share < 1.0)
    seen, problem = _predicted(recovery), problem_of(recovery)
    chain = problem.chains[0]
    later = chain.reweighted(seen.counts)
    place = recovery.parameters.tested * chain.space.scales
    fit = replace(problem, chains=(later,)).minimum(
        np.clip(np.nan_to_num(place), problem.lower, problem.upper), tolerance=1e-9, max_steps=300
    )
    most = -seen.log_likelihood - np.log(1.0 - confidence)
    leeway = most - fit.loss
    intervals = np.full((chain.space.size, 2), np.nan)
    if leeway >= 0:
        for j in range(chain.space.size):
            ends = [_end(fit, j, side, most) for side in (-1.0, 1.0)]
            intervals[j] = np.array(ends) / chain.space.scales[j]
    features = origin_of(recovery).features
    return AnytimeSet(
        names=coefficient_names(features.reward_names, features.cost_names),
        intervals=intervals,
        confidence=confidence,
        steps=round(float(seen.counts.sum())),
        leeway=float(leeway),
    )


def falls_behind(recovery: Recovery, coefficients: np.ndarray) -> float:
    """Nats by which coefficients [P] have fallen behind the predictions of all steps since."""
    seen, problem = _predicted(recovery), problem_of(recovery)
    later = problem.chains[0].reweighted(seen.counts)
    x = np.asarray(coefficients, float) * later.space.scales
    return seen.log_likelihood + float(later.at(x, later.blank(x), 1e-9).loss)


def _end(fit: Fit, j: int, side: float, most: float) -> float:
    """Where coefficient j, the others fitted, reaches this loss on one side.

    Its bound where it does not; infinite where there is none.
    """
    problem, here = fit.problem, float(fit.z[j])
    bound = float(problem.lower[j] if side < 0 else problem.upper[j])
    edge = bound if abs(bound) < LARGEST else side * np.inf
    which = np.arange(len(fit.z)) == j
    inverse, _ = inverse_information(np.asarray(fit.curvature), problem.movable)
    step = side * np.sqrt(max(2.0 * (most - fit.loss) * inverse[j, j], 1e-12))
    inside, outside, last = here, side * np.inf, fit
    for _ in range(SEARCHES):
        place = inside + step if np.isinf(outside) else 0.5 * (inside + outside)
        if side * (place - edge) >= 0:
            place = edge
        if abs(place) > LARGEST:
            return side * np.inf
        last = last.held(which, place)
        missed = last.loss - most
        if missed <= 0:
            if place == edge:
                return edge
            inside, step = place, 2.0 * step
        else:
            outside = place
        if abs(missed) < CLOSE:
            return place
    return outside  # no narrower than the set


def _predicted(recovery: Recovery) -> Predictions:
    origin = origin_of(recovery)
    if origin.predictions is None:
        raise InvalidModel(
            "a set that holds at all times rests on steps that were predicted: it begins with the "
            "first recovery.updated(more), and there is none where old steps are forgotten"
        )
    return origin.predictions


@dataclass(frozen=True, kw_only=True)
class MoreNeeded:
    """How many more demonstrations make an interval as narrow as was asked for.

    Attributes:
        name: of the number.
        width: that was asked for.
        now: width of its interval.
        steps: more of them that it takes; 0 where it is narrow enough, infinite where no number of
            them will do.
        trajectories: the same in trajectories as long as those seen.
        steps_interval: between which it lies with a chance of 80 %, by what is not known yet.
    """

    name: str
    width: float
    now: float
    steps: float
    trajectories: float
    steps_interval: tuple[float, float]

    def __str__(self) -> str:
        if np.isinf(self.steps):
            return f"No number of such steps makes the interval of {self.name} {self.width:g} wide."
        low, high = self.steps_interval
        return (
            f"About {self.steps:.0f} more steps ({self.trajectories:.0f} trajectories like these) "
            f"make the interval of {self.name} {self.width:g} wide, which is {self.now:.3g} now; "
            f"between {low:.0f} and {high:.0f} with a chance of {TOLD:.0%}."
        )


def more_needed(recovery: Recovery, width: float, name: str | None) -> MoreNeeded:
    """How many more demonstrations an interval takes; see `Recovery.more_needed`."""
    number(width, "width", "a number above 0", lambda size: 0.0 < size < np.inf)
    problem, widths = problem_of(recovery), widths_of(recovery)
    if name is None:
        name = max(widths, key=lambda one: (np.isfinite(widths[one]), widths[one]))
    if name not in widths:
        hint = did_you_mean(name, list(widths)) or f"; the numbers are {some(list(widths))}"
        raise InvalidModel(f"no weight or price is named {name!r:.60}{hint}")
    chain, law = problem.chains[0], recovery.parameters.law
    now, steps = widths[name], float(chain.counts.sum())
    row = list(widths).index(name)
    error = partial(_error, problem, row)
    here = np.nan if law.absence else error(recovery.parameters.tested)
    if not (np.isfinite(now) and np.isfinite(here) and here > 0):
        infinite = (np.inf, np.inf)
        about = {"name": name, "width": float(width), "now": float(now), "steps_interval": infinite}
        return MoreNeeded(**about, steps=np.inf, trajectories=np.inf)
    drawn = np.array([error(one) for one in law.draws(DRAWS)]) / here
    ends = np.nanquantile(drawn, [0.5 - 0.5 * TOLD, 0.5 + 0.5 * TOLD])
    low, middle, high = (
        max(0.0, steps * ((now * ratio / width) ** 2 - 1.0)) for ratio in (ends[0], 1.0, ends[1])
    )
    episodes = chain.tally.episodes if chain.tally is not None else 1
    return MoreNeeded(
        name=name,
        width=float(width),
        now=float(now),
        steps=middle,
        trajectories=middle * episodes / steps,
        steps_interval=(min(low, middle), max(high, middle)),
    )


def widths_of(recovery: Recovery) -> dict[str, float]:
    """Name -> width of its interval: every weight, then every price."""
    known = recovery.identification
    parts = [(recovery.reward_names, known.reward_intervals)]
    parts += zip(recovery.cost_names, known.cost_intervals, strict=True)
    prices = [f"price {k}" for k in range(len(recovery.multipliers))]
    parts.append((tuple(prices), known.multiplier_intervals))
    return {
        name: float(high - low)
        for names, ends in parts
        for name, (low, high) in zip(names, np.asarray(ends), strict=True)
    }


def _error(problem: LikelihoodProblem, row: int, coefficients: np.ndarray) -> float:
    """Standard error of a weight or price if these coefficients [P] were the true ones.

    Their information is that of the states that were visited.
    """
    chain = problem.chains[0]
    space = chain.space
    x = np.clip(coefficients * space.scales, problem.lower, problem.upper)
    part = chain.at(x, chain.blank(x), 1e-9)
    if not np.isfinite(part.loss):
        return np.nan
    own = information(chain.scores(part), part.policy, chain.visits)
    free = problem.movable & (x > problem.lower)
    inverse, _ = inverse_information(own, free)
    theta, slope = x / space.scales, np.zeros(space.size)
    blocks, reward = space.blocks, space.blocks[0]
    total = float(np.abs(theta[reward]).sum())
    if row < space.size:
        block = next(one for one in blocks if one.start <= row < one.stop)
        size = float(np.abs(theta[block]).sum())
        slope[block] = -np.sign(theta[block]) * theta[row] / max(size, 1e-300) ** 2
        slope[row] += 1.0 / max(size, 1e-300)
    else:
        block = blocks[1 + row - space.size]
        price = float(theta[block].sum())
        slope[block] = 1.0 / max(total, 1e-300)
        slope[reward] = -np.sign(theta[reward]) * price / max(total, 1e-300) ** 2
    slope = slope / space.scales
    return float(np.sqrt(max(slope @ inverse @ slope, 0.0)))
