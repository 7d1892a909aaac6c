"""Lines 7 to 11 of Algorithm 1: from what a policy collects to the next weights.

Weights are held by their logarithms: a step multiplies a weight by exp(-step * gradient), and one
that has shrunk out of the range of floats must be able to grow back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.inverse.expectations import Blocks, Expectations
from tacit.inverse.paper.projections import project_simplex, project_simplex_halfspace

if TYPE_CHECKING:
    from tacit.inverse.paper.alternating import Alternating


@dataclass(frozen=True, eq=False)
class Yardsticks:
    """What differences of feature expectations are measured against.

    Attributes:
        scales: one number a block: the largest difference its discounted sums can show.
        bands: ([D], [D_1], ...) differences that are no reason to step.
        noise: relative feature gap that sampling makes.
    """

    scales: tuple[float, ...]
    bands: Blocks
    noise: float


@dataclass(frozen=True, eq=False)
class Stride:
    """One step of all weights.

    Attributes:
        log_weights: ([D], [D_1], ...) logarithms of the weights after it.
        moves: ([D], [D_1], ...) what it took from the logarithms, up to a constant a block.
        change: L1 change of the weights that a step of full size would make.
        pull: largest difference, in the exponent of such a step, by which a weight is favoured over
            the average. It is 0 exactly at rest on the simplex, and sees a weight that should grow
            and is too small to show it.
        empty: number of halfspaces without a point.
    """

    log_weights: Blocks
    moves: Blocks
    change: float
    pull: float
    empty: int


def yardsticks(seen: Expectations, band: float) -> Yardsticks:
    """The `Yardsticks` of demonstrations; without standard errors (one trajectory), no band."""
    horizon = seen.horizons.longest
    return Yardsticks(
        scales=tuple(float(span.max()) * horizon or 1.0 for span in seen.spans),
        bands=tuple(band * np.nan_to_num(error) for error in seen.standard_errors),
        noise=seen.noise,
    )


def matched(seen: Expectations, sticks: Yardsticks, reached: Blocks) -> bool:
    """Whether every feature expectation is within its band of the demonstrations'."""
    # Identical trajectories have no standard error, and rounding is no difference.
    parts = zip(reached, seen.means, sticks.bands, sticks.scales, strict=True)
    return all((np.abs(r - m) <= band + 1e-9 * scale).all() for r, m, band, scale in parts)


def first_weights(seen: Expectations, *, seed: int, start: int) -> Blocks:
    """([D], [D_1], ...) logarithms of random positive weights, each vector of 2-norm 1 (line 1)."""
    random = np.random.default_rng([seed, abs(start), int(start < 0)])
    drawn = [np.abs(random.standard_normal(len(part))) for part in seen.means]
    return tuple(np.log(part / np.linalg.norm(part)) for part in drawn)


def gradients(seen: Expectations, reached: Blocks, prices: np.ndarray) -> Blocks:
    """([D], [D_1], ...) of the loss: PFE_r - EFE_r and price * (EFE_c - PFE_c) (eq. 11, line 7)."""
    costs = zip(prices, seen.costs, reached[1:], strict=True)
    return (reached[0] - seen.reward, *(price * (mean - part) for price, mean, part in costs))


def stride(
    seen: Expectations,
    sticks: Yardsticks,
    rules: Alternating,
    *,
    logs: Blocks,
    reached: Blocks,
    prices: np.ndarray,
    share: float,
    free: bool = False,
) -> Stride:
    """The step from the weights exp(logs), whose policy collects `reached`.

    Args:
        seen: expectations of the demonstrations.
        sticks: to measure differences against.
        rules: the options.
        logs: ([D], [D_1], ...) logarithms of the weights.
        reached: ([D], [D_1], ...) feature expectations of their policy.
        prices: [K] multipliers.
        share: size of the step, as a share of the first one.
        free: leave the weights of the constraints as they are.
    """
    pulls = _pulls(seen, sticks, rules, reached, prices, share)
    after, moves, change, pull, empty = [], [], 0.0, 0.0, 0
    for block, (old, taken) in enumerate(zip(logs, pulls, strict=True)):
        point = old if free and block else old - taken
        found = project_simplex(point)  # line 10
        if block and not rules.calibrated and not free:  # line 11
            normal = reached[block] if rules.bounded_by_policy else seen.means[block]
            within = project_simplex_halfspace(point, normal, 1.0)
            # Where no weights meet the bound the simplex alone holds them, so that none is lost.
            found, empty = (within, empty) if within.feasible else (found, empty + 1)
        before = project_simplex(old).log_weights
        alive = before > -np.inf
        move = np.zeros(len(old))
        move[alive] = before[alive] - found.log_weights[alive]
        weights = np.exp(before)
        change += float(np.abs(found.weights - weights).sum())
        pull = max(pull, float(weights[alive] @ move[alive] - move[alive].min()))
        after.append(found.log_weights)
        moves.append(move)
    return Stride(tuple(after), tuple(moves), change / share, pull / share, empty)


def _pulls(
    seen: Expectations,
    sticks: Yardsticks,
    rules: Alternating,
    reached: Blocks,
    prices: np.ndarray,
    share: float,
) -> list[np.ndarray]:
    """([D], [D_1], ...) what the step subtracts from the logarithms (lines 8 and 9)."""
    if rules.constant:  # as published: the step size times the gradient
        return [rules.step_size * part for part in gradients(seen, reached, prices)]
    # In units of what the features of a block can differ by. The multiplier, a positive factor of
    # all entries of a gradient, cancels; so the weights of a slack budget turn too.
    parts = gradients(seen, reached, np.ones(len(prices)))
    return [
        rules.step_size * share / scale * np.sign(part) * np.maximum(np.abs(part) - band, 0.0)
        for part, scale, band in zip(parts, sticks.scales, sticks.bands, strict=True)
    ]
