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

# Relative width to which a root is found: the last bits of a float.
WIDTH = 9e-16


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
    possible = logs > -np.inf
    over = np.where(possible, normal - bound, np.inf)
    least = float(over.min())
    inside = _normalised(logs)
    if _mean(inside, over) <= 0.0:
        return Projection(inside, 0.0, True)
    # On the face of least cost, and beyond it, only the limit of an infinite price is left.
    face = _normalised(np.where(over == least, logs, -np.inf))
    if least >= 0.0:
        return Projection(face, np.inf, least == 0.0)

    scale = float(np.abs(over[possible]).max())
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
    found, least = nearest_simplex(point), float(over.min())
    if found.weights @ over <= 0.0:
        return found
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
    return float(brentq(mean_at, low, high, xtol=1e-300, rtol=WIDTH))  # type: ignore[arg-type]


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
        pull: largest difference, in the exponent of such a step, by which a weight is favoured over
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
    pulls = _steps(seen, rules, reached, prices, share)
    after, moves, change, pull, empty = [], [], 0.0, 0.0, 0
    for block, (old, taken) in enumerate(zip(logs, pulls, strict=True)):
        before = project_simplex(old).log_weights
        weights = np.exp(before)
        held = free and block
        if rules.update == "exponentiated":  # line 9
            point, nearest, within = old - taken, project_simplex, project_simplex_halfspace
        else:
            point, nearest, within = weights - taken, nearest_simplex, nearest_simplex_halfspace
        found = project_simplex(old) if held else nearest(point)  # line 10
        if block and rules.budget == "one" and not free:  # line 11
            normal = reached[block] if rules.bound == "policy" else seen.means[block]
            bounded = within(point, normal, 1.0)
            # Where no weights meet the bound the simplex alone holds them, so that none is lost.
            found, empty = (bounded, empty) if bounded.feasible else (found, empty + 1)
        alive = before > -np.inf
        move = np.zeros(len(old))
        if rules.update == "exponentiated":
            move[alive] = before[alive] - found.log_weights[alive]
            pull = max(pull, float(weights[alive] @ move[alive] - move[alive].min()))
        else:  # a weight at 0 shows by itself whether it should grow
            move = weights - found.weights
            pull = max(pull, float(np.abs(move).max()))
        change += float(np.abs(found.weights - weights).sum())
        after.append(found.log_weights)
        moves.append(move)
    return Stride(
        log_weights=tuple(after),
        moves=tuple(moves),
        change=change / share,
        pull=pull / share,
        empty=empty,
    )


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
