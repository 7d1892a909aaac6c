"""Confidence sets of coefficients that hold at all times at once; how many more steps are needed.

Every batch is predicted by the fit to all steps before it. The log-likelihood of the true
coefficients ever falls log(1 / level) nats behind these predictions with at most the chance `level`
(Ville's inequality). The set is the coefficients that have not fallen so far behind. One may look
after every batch, and stop whenever it is narrow enough.
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
from tacit.model.features.design import Design
from tacit.model.objective import coefficient_names
from tacit.stream.updating import origin_of, problem_of

if TYPE_CHECKING:
    from tacit.recovery import Recovery

# Draws of the coefficients from their law, for the interval of the steps that are needed.
DRAWS = 100
# Confidence of that interval.
STEPS_CONFIDENCE = 0.8
# Most refits in the search for an end of the set.
MOST_FITS = 30
# Nats by which the loss at an end may miss the set's limit.
CLOSE = 1e-3


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
    predictions, problem = _predicted(recovery), problem_of(recovery)
    space = problem.chains[0].space
    since = replace(problem, chains=(problem.chains[0].reweighted(predictions.counts),))
    start = np.nan_to_num(recovery.parameters.tested * space.scales)
    fit = since.minimum(np.clip(start, problem.lower, problem.upper), tolerance=1e-9, max_steps=300)
    largest_loss = -predictions.log_likelihood - np.log(1.0 - confidence)
    leeway = largest_loss - fit.loss
    intervals = np.full((space.size, 2), np.nan)
    if leeway >= 0:
        for j, scale in enumerate(space.scales):
            ends = [_end(fit, j, side, largest_loss) for side in (-1.0, 1.0)]
            intervals[j] = np.array(ends) / scale
    features = origin_of(recovery).features
    return AnytimeSet(
        names=coefficient_names(features.reward_names, features.cost_names),
        intervals=intervals,
        confidence=confidence,
        steps=round(float(predictions.counts.sum())),
        leeway=float(leeway),
    )


def falls_behind(recovery: Recovery, coefficients: np.ndarray) -> float:
    """Nats by which coefficients [P] have fallen behind the predictions of all steps since."""
    predictions = _predicted(recovery)
    chain = problem_of(recovery).chains[0].reweighted(predictions.counts)
    x = np.asarray(coefficients, float) * chain.space.scales
    return predictions.log_likelihood + float(chain.at(x, chain.blank(x), 1e-9).loss)


def _end(fit: Fit, j: int, side: float, largest_loss: float) -> float:
    """Where coefficient j, the others fitted, reaches this loss on one side: -1 below, 1 above.

    Its bound where it does not; infinite where there is none. The step is that of a quadratic loss,
    doubled until the end is passed; then the interval that holds the end is halved.
    """
    problem = fit.problem
    bound = float(problem.lower[j] if side < 0 else problem.upper[j])
    edge = bound if abs(bound) < LARGEST else side * np.inf
    coefficient = np.arange(len(fit.z)) == j
    inverse, _ = inverse_information(np.asarray(fit.curvature), problem.movable)
    step = side * np.sqrt(max(2.0 * (largest_loss - fit.loss) * inverse[j, j], 1e-12))
    inside, outside = float(fit.z[j]), side * np.inf
    for _ in range(MOST_FITS):
        place = inside + step if np.isinf(outside) else 0.5 * (inside + outside)
        if side * (place - edge) >= 0:
            place = edge
        if abs(place) > LARGEST:
            return side * np.inf
        fit = fit.held(coefficient, place)
        excess = fit.loss - largest_loss
        if excess <= 0 and place == edge:
            return edge
        if abs(excess) < CLOSE:
            return place
        if excess <= 0:
            inside = place
            step *= 2.0
        else:
            outside = place
    return outside  # no narrower than the set


def _predicted(recovery: Recovery) -> Predictions:
    """The steps since the first recovery, and how well they were predicted."""
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
        steps: more of them that are needed; 0 where the interval is narrow enough, infinite where
            no number of steps will do.
        trajectories: as many steps in trajectories as long as those seen.
        steps_interval: 80 % interval of `steps`, by how uncertain the coefficients are.
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
            f"between {low:.0f} and {high:.0f} with a chance of {STEPS_CONFIDENCE:.0%}."
        )


def more_needed(recovery: Recovery, width: float, name: str | None) -> MoreNeeded:
    """How many more demonstrations an interval takes; see `Recovery.more_needed`."""
    number(width, "width", "a number above 0", lambda size: 0.0 < size < np.inf)
    problem, widths = problem_of(recovery), widths_of(recovery)
    if name is None:
        name = max(widths, key=lambda name: (np.isfinite(widths[name]), widths[name]))
    if name not in widths:
        hint = did_you_mean(name, list(widths)) or f"; the numbers are {some(list(widths))}"
        raise InvalidModel(f"no weight or price is named {name!r:.60}{hint}")
    chain, law = problem.chains[0], recovery.parameters.law
    now, steps = widths[name], float(chain.counts.sum())
    error_of = partial(_error, problem, list(widths).index(name))
    error = np.nan if law.absence else error_of(recovery.parameters.tested)
    needed = [np.inf, np.inf, np.inf]
    if np.isfinite(now) and np.isfinite(error) and error > 0:
        ratios = np.array([error_of(draw) for draw in law.draws(DRAWS)]) / error
        tail = 0.5 - 0.5 * STEPS_CONFIDENCE
        low, high = np.nanquantile(ratios, [tail, 1.0 - tail])
        # Widths shrink as the root of the number of steps.
        needed = [
            max(0.0, steps * ((now * ratio / width) ** 2 - 1.0)) for ratio in (low, 1.0, high)
        ]
    low, middle, high = needed
    episodes = chain.tally.episodes if chain.tally is not None else 1
    return MoreNeeded(
        name=name,
        width=float(width),
        now=float(now),
        steps=middle,
        trajectories=middle * episodes / (steps or 1.0),
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
    fisher = information(chain.scores(part), part.policy, chain.visits)
    inverse, _ = inverse_information(fisher, problem.movable & (x > problem.lower))
    slope = _gauge_slope(x / space.scales, row, space) / space.scales
    return float(np.sqrt(max(slope @ inverse @ slope, 0.0)))


def _gauge_slope(theta: np.ndarray, row: int, space: Design) -> np.ndarray:
    """[D] derivative of a weight, or of a price, by the coefficients theta [D].

    Row j < D is the weight theta_j / |theta of its map|, row D + k the price
    sum(theta of cost k) / |theta of the reward|, with L1 norms.
    """

    def norm(block: slice) -> float:
        return max(float(np.abs(theta[block]).sum()), 1e-300)

    slope = np.zeros(space.size)
    reward = space.blocks[0]
    if row < space.size:
        block = next(block for block in space.blocks if block.start <= row < block.stop)
        slope[block] = -np.sign(theta[block]) * theta[row] / norm(block) ** 2
        slope[row] += 1.0 / norm(block)
    else:
        block = space.blocks[1 + row - space.size]
        price = float(theta[block].sum())
        slope[block] = 1.0 / norm(reward)
        slope[reward] = -np.sign(theta[reward]) * price / norm(reward) ** 2
    return slope
