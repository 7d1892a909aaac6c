"""The projected step of Algorithm 1, lines 7 to 11: the gradient, and the nearest weights.

Weights are held by their logarithms. An exponentiated step (line 9) multiplies them by
exp(-step * gradient), whose range floats do not have; their logarithms do, and a weight that has
shrunk out of that range can grow back. Lines 10 and 11 take the nearest point in relative entropy.
Minus infinity stands for a weight of zero, which stays zero: no finite relative entropy brings it
back. A projected step subtracts the gradient itself and takes the nearest point in the plain
distance, which reaches zeros and leaves them again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.estimators.paper.setting import yardsticks
from tacit.inference.expectations import Blocks, Expectations

if TYPE_CHECKING:
    from tacit.estimators.paper.alternating import Alternating

# Relative tolerance of a root: the last bits of a float.
ROOT_TOLERANCE = 9e-16


@dataclass(frozen=True, eq=False)
class Projection:
    """The nearest point of a set, and the price of the halfspace that bounds it.

    Attributes:
        log_weights: [D] logarithms of the nearest point.
        price: multiplier of the halfspace; 0 inside it, infinite on the face of least cost.
        feasible: whether the set has a point at all; if not, the point given is the limit of
            raising the price: all mass on the entries of least cost.
    """

    log_weights: np.ndarray
    price: float
    feasible: bool

    @property
    def weights(self) -> np.ndarray:
        """[D] the nearest point."""
        return np.exp(self.log_weights)


def project_simplex(log_point: np.ndarray) -> Projection:
    """argmin KL(w | point) over w >= 0, w.sum() == 1: the point divided by its sum."""
    return Projection(_normalised(log_point), 0.0, True)


def project_simplex_halfspace(logs: np.ndarray, normal: np.ndarray, bound: float) -> Projection:
    """argmin KL(w | exp(logs)) over w >= 0, w.sum() == 1, w @ normal <= bound.

    It is w_i proportional to exp(logs_i - price * normal_i), price >= 0 the root of a monotone
    equation. The set is empty exactly when the least normal_i of a finite logarithm exceeds the
    bound.
    """
    positive = logs > -np.inf
    over = np.where(positive, normal - bound, np.inf)
    least = float(over.min())
    on_simplex = _normalised(logs)
    if _mean(on_simplex, over) <= 0.0:
        return Projection(on_simplex, 0.0, True)
    # On the face of least cost, and beyond it, only the limit of an infinite price is left.
    face = _normalised(np.where(over == least, logs, -np.inf))
    if least >= 0.0:
        return Projection(face, np.inf, least == 0.0)

    scale = float(np.abs(over[positive]).max())
    price = _root(lambda price: _mean(_tilted(logs, over, price), over), scale)
    if price == np.inf:
        return Projection(face, np.inf, True)
    return Projection(_tilted(logs, over, price), price, True)


def nearest_simplex(point: np.ndarray) -> Projection:
    """argmin |w - point| over w >= 0, w.sum() == 1: all entries less a number, none below 0."""
    falling = np.sort(point)[::-1]
    excess = (np.cumsum(falling) - 1.0) / np.arange(1, len(point) + 1)
    # The largest entries stay as long as they exceed what must be taken from each of them.
    weights = np.maximum(point - excess[np.flatnonzero(falling > excess)[-1]], 0.0)
    return Projection(_logarithms(weights / weights.sum()), 0.0, True)


def nearest_simplex_halfspace(point: np.ndarray, normal: np.ndarray, bound: float) -> Projection:
    """argmin |w - point| over w >= 0, w.sum() == 1, w @ normal <= bound.

    It is the nearest point of the simplex to point - price * normal, price >= 0 the root of a
    monotone equation, piecewise linear.
    """
    over = normal - bound
    least = float(over.min())
    on_simplex = nearest_simplex(point)
    if on_simplex.weights @ over <= 0.0:
        return on_simplex
    if least >= 0.0:  # the face of least cost, or nothing at all
        face = np.where(over == least, 0.0, -np.inf)
        face[over == least] = nearest_simplex(point[over == least]).log_weights
        return Projection(face, np.inf, least == 0.0)

    def spent(price: float) -> float:
        return float(nearest_simplex(point - price * over).weights @ over)

    price = _root(spent, float(np.abs(over).max()))
    return Projection(nearest_simplex(point - price * over).log_weights, price, True)


def _root(mean_at: Callable[[float], float], scale: float) -> float:
    """The price at which a mean, at most `scale` in size and falling, is 0; infinite for none."""
    from scipy.optimize import brentq

    low, high = 0.0, 1.0 / scale
    while mean_at(high) > 0.0:
        low, high = high, 2.0 * high
        if high == np.inf:
            return np.inf
    return float(brentq(mean_at, low, high, xtol=1e-300, rtol=ROOT_TOLERANCE))  # type: ignore[arg-type]


def _tilted(logs: np.ndarray, over: np.ndarray, price: float) -> np.ndarray:
    """[D] log of the point proportional to exp(logs - price * over), summing to 1."""
    with np.errstate(invalid="ignore"):  # minus infinity times zero, replaced below
        tilt = logs - price * over
    return _normalised(np.where(logs > -np.inf, tilt, -np.inf))


def _normalised(logs: np.ndarray) -> np.ndarray:
    """[D] the logarithms shifted so that their exponentials sum to 1."""
    shifted = logs - logs.max()
    return shifted - np.log(np.exp(shifted).sum())


def _logarithms(weights: np.ndarray) -> np.ndarray:
    """[D] minus infinity where a weight is 0."""
    with np.errstate(divide="ignore"):
        return np.log(weights)


def _mean(logs: np.ndarray, values: np.ndarray) -> float:
    """The mean of `values` where the weights exp(logs) are positive."""
    weights = np.exp(logs)
    return float(weights @ np.where(weights > 0.0, values, 0.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class Stride:
    """One step of all weights.

    Attributes:
        log_weights: ([D], [D_1], ...) logarithms of the weights after it.
        moves: ([D], [D_1], ...) what it took from the logarithms, up to a constant a block; from
            the weights, where the update is a projected one.
        change: L1 change of the weights that a step of full size would make.
        pull: largest difference, in the exponent of a full step, by which a weight is favoured over
            the average. It is 0 exactly where no step moves them, and sees a weight that should
            grow and is too small to show it. Of a projected step: the largest change of a weight.
        empty: number of halfspaces without a point.
    """

    log_weights: Blocks
    moves: Blocks
    change: float
    pull: float
    empty: int


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
    rules: Alternating,
    *,
    logs: Blocks,
    reached: Blocks,
    prices: np.ndarray,
    share: float,
    free: bool = False,
) -> Stride:
    """The step from the weights exp(logs), whose policy collects `reached` at `prices` [K].

    Its size is a `share` of the first one; a `free` step leaves the weights of the constraints.
    """
    steps = _steps(seen, rules, reached, prices, share)
    after, moves, change, pull, empty = [], [], 0.0, 0.0, 0
    for block, (old, step) in enumerate(zip(logs, steps, strict=True)):
        bound = None
        if block and rules.budget == "one" and not free:  # line 11
            bound = reached[block] if rules.bound == "policy" else seen.means[block]
        before = project_simplex(old)
        if free and block:
            nearest, is_empty = before, False
        else:
            nearest, is_empty = _nearest_weights(rules, old, step, bound)
        if rules.update == "exponentiated":
            move, block_pull = _log_move(before, nearest)
        else:  # a weight at 0 shows by itself whether it should grow
            move = before.weights - nearest.weights
            block_pull = float(np.abs(move).max())
        pull = max(pull, block_pull)
        change += float(np.abs(nearest.weights - before.weights).sum())
        empty += int(is_empty)
        after.append(nearest.log_weights)
        moves.append(move)
    return Stride(
        log_weights=tuple(after),
        moves=tuple(moves),
        change=change / share,
        pull=pull / share,
        empty=empty,
    )


def _nearest_weights(
    rules: Alternating, logs: np.ndarray, step: np.ndarray, normal: np.ndarray | None
) -> tuple[Projection, bool]:
    """The nearest weights after a step (lines 9 to 11), and whether no weights meet the bound.

    Where a `normal` is given, weights @ normal <= 1 is asked for. Where no weights meet that the
    simplex alone holds them, so that none is lost.
    """
    if rules.update == "exponentiated":
        point, on_simplex, bounded = logs - step, project_simplex, project_simplex_halfspace
    else:
        point = project_simplex(logs).weights - step
        on_simplex, bounded = nearest_simplex, nearest_simplex_halfspace
    if normal is not None:
        nearest = bounded(point, normal, 1.0)
        if nearest.feasible:
            return nearest, False
    return on_simplex(point), normal is not None


def _log_move(before: Projection, after: Projection) -> tuple[np.ndarray, float]:
    """[D] what a step took from the logarithms, and the `Stride.pull` of that; zeros stay."""
    positive = before.log_weights > -np.inf
    move = np.zeros(len(positive))
    move[positive] = before.log_weights[positive] - after.log_weights[positive]
    mean = before.weights[positive] @ move[positive]
    return move, float(mean - move[positive].min())


def _steps(
    seen: Expectations, rules: Alternating, reached: Blocks, prices: np.ndarray, share: float
) -> list[np.ndarray]:
    """([D], [D_1], ...) what the step subtracts, from logarithms or weights (lines 8 and 9)."""
    if rules.step == "constant":  # as published: the step size times the gradient
        return [rules.step_size * part for part in gradients(seen, reached, prices)]
    # In units of what the features of a block can differ by. The multiplier, a positive factor of
    # all entries of a gradient, cancels; so the weights of a slack budget turn too.
    parts = gradients(seen, reached, np.ones(len(prices)))
    return [
        rules.step_size * share / scale * np.sign(part) * np.maximum(np.abs(part) - band, 0.0)
        for part, scale, band in zip(parts, *yardsticks(seen, rules.band), strict=True)
    ]
