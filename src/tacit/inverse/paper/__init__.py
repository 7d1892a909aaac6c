"""Lines 4 to 11 of Algorithm 1: the problem to solve, what its policy collects, the projected step.

Weights are held by their logarithms. An exponentiated step (line 9) multiplies them by
exp(-step * gradient), whose range floats do not have; their logarithms do, and a weight that has
shrunk out of that range can grow back. Lines 10 and 11 take the nearest point in relative entropy.
Minus infinity stands for a weight of zero, which stays zero: no finite relative entropy brings it
back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import InvalidModel
from tacit.forward.policies import visitation, visitation_recursion
from tacit.forward.solution import Solution, Status
from tacit.inverse.expectations import Blocks, Expectations, pull_back
from tacit.model.mdp import MDP
from tacit.model.objective import Features

if TYPE_CHECKING:
    from tacit.inverse.paper.alternating import Alternating

# A root is found to this relative width of its bracket: the last bits of a float.
WIDTH = 4e-16
# Doublings of a trial price before the face of least cost is taken for its limit; 1e308 is 2^1023.
DOUBLINGS = 1000
STEPS = 200


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
    return Projection(_normalised(_checked(log_point)), 0.0, True)


def project_simplex_halfspace(
    log_point: np.ndarray, normal: np.ndarray, bound: float
) -> Projection:
    """argmin KL(w | point) over w >= 0, w.sum() == 1, w @ normal <= bound.

    It is w_i proportional to point_i * exp(-price * normal_i), price >= 0 the root of a monotone
    equation. The set is empty exactly when the least normal_i with point_i > 0 exceeds the bound.
    """
    logs = _checked(log_point)
    normal = np.asarray(normal, dtype=np.float64)
    if normal.shape != logs.shape or not (np.isfinite(normal).all() and np.isfinite(bound)):
        raise InvalidModel(
            f"normal must hold {len(logs)} finite numbers and the bound be finite; "
            f"got {normal} and {bound}"
        )
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
    price = _root(logs, over)
    if price == np.inf:
        return Projection(face, np.inf, True)
    return Projection(_tilted(logs, over, price), price, True)


def _root(logs: np.ndarray, over: np.ndarray) -> float:
    """The price at which the tilted point has mean `over` 0: Newton within a shrinking bracket.

    The mean falls in the price, its derivative is minus the variance. The upper end of the bracket
    is returned: there the halfspace is kept.
    """
    low, high = 0.0, 1.0 / float(np.abs(over[logs > -np.inf]).max())
    for _ in range(DOUBLINGS):
        if _mean(_tilted(logs, over, high), over) <= 0.0:
            break
        low, high = high, 2.0 * high
        if high == np.inf:
            return np.inf
    else:
        return np.inf
    trial = high
    for _ in range(STEPS):
        if high - low <= WIDTH * high:
            break
        tilted = _tilted(logs, over, trial)
        mean = _mean(tilted, over)
        low, high = (trial, high) if mean > 0.0 else (low, trial)
        spread = _mean(tilted, np.where(tilted > -np.inf, (over - mean) ** 2, 0.0))
        step = trial + mean / spread if spread > 0.0 else np.nan
        # A step that leaves the bracket, or is no number, becomes a bisection.
        trial = step if low < step < high else 0.5 * (low + high)
    return high


def _tilted(logs: np.ndarray, over: np.ndarray, price: float) -> np.ndarray:
    """[D] log of the point proportional to exp(logs - price * over), summing to 1."""
    with np.errstate(invalid="ignore"):  # minus infinity times zero, replaced below
        tilt = logs - price * over
    return _normalised(np.where(logs > -np.inf, tilt, -np.inf))


def _normalised(logs: np.ndarray) -> np.ndarray:
    """[D] the logarithms shifted so that their exponentials sum to 1."""
    shifted = logs - logs.max()
    return shifted - np.log(np.exp(shifted).sum())


def _mean(logs: np.ndarray, values: np.ndarray) -> float:
    """The mean of `values` where the weights exp(logs) are positive."""
    weights = np.exp(logs)
    return float(weights @ np.where(weights > 0.0, values, 0.0))


def _checked(log_point: np.ndarray) -> np.ndarray:
    logs = np.asarray(log_point, dtype=np.float64)
    if logs.ndim != 1 or not len(logs) or not (logs < np.inf).all() or logs.max() == -np.inf:
        raise InvalidModel(
            "a point must be given by logarithms below infinity, at least one of them finite; "
            f"got {logs}"
        )
    return logs


@dataclass(frozen=True, eq=False)
class Yardsticks:
    """What differences of feature expectations are measured against.

    Attributes:
        scales: one number a block: the largest difference its discounted sums can show.
        bands: ([D], [D_1], ...) differences that are no reason to step.
        noise: relative feature gap of chance alone.
    """

    scales: tuple[float, ...]
    bands: Blocks
    noise: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Stride:
    """One step of all weights.

    Attributes:
        log_weights: ([D], [D_1], ...) logarithms of the weights after it.
        moves: ([D], [D_1], ...) what it took from the logarithms, up to a constant a block.
        change: L1 change of the weights that a step of full size would make.
        pull: largest difference, in the exponent of such a step, by which a weight is favoured over
            the average. It is 0 exactly where no step moves them, and sees a weight that should
            grow and is too small to show it.
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


def within_bands(seen: Expectations, sticks: Yardsticks, reached: Blocks) -> bool:
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
    """The step from the weights exp(logs), whose policy collects `reached` at `prices` [K].

    Its size is a `share` of the first one; a `free` step leaves the weights of the constraints.
    """
    pulls = _steps(seen, sticks, rules, reached, prices, share)
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
    return Stride(
        log_weights=tuple(after),
        moves=tuple(moves),
        change=change / share,
        pull=pull / share,
        empty=empty,
    )


def _steps(
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


def visits_of(mdp: MDP, rules: Alternating, solution: Solution) -> np.ndarray:
    """[S, A] visitation of a solution, over the horizon that the rules ask for (line 5)."""
    if rules.steps is None:
        return solution.visitation
    return visitation_recursion(mdp, solution.policy, rules.steps)


def budgets_of(
    features: Features,
    seen: Expectations,
    rules: Alternating,
    weights: Blocks,
    later: Blocks,
    free: bool,
) -> np.ndarray:
    """[K] budgets for these weights; `later` is what a policy collects after the horizon."""
    if free or not rules.calibrated:
        return np.full(features.constraints, np.inf if free else 1.0)
    parts = zip(weights[1:], seen.costs, later[1:], strict=True)
    return np.array([w @ (mean + after) for w, mean, after in parts])


def later_of(mdp: MDP, features: Features, rules: Alternating, solution: Solution) -> Blocks:
    """([D], [D_1], ...) what the policy collects after `rules.steps` steps.

    The problem to solve has no horizon: its budget is what cut-off demonstrations spend, and what
    the policy of the moment would have spent after them.
    """
    if rules.steps is None:
        return pull_back(features, np.zeros((mdp.states, mdp.actions)))
    whole = visitation(mdp, solution.policy)
    return pull_back(features, whole - visitation_recursion(mdp, solution.policy, rules.steps))


def solve_round(
    mdp: MDP,
    features: Features,
    rules: Alternating,
    weights: Blocks,
    budgets: np.ndarray,
    guess: Solution,
) -> tuple[Solution, np.ndarray, bool]:
    """The solution for these weights, its budgets [K], and whether they were raised (line 4)."""
    objective = features.objective(weights[0], weights[1:], budgets)
    solution = rules.solver.solve(mdp, objective, guess=guess, throw=False)
    if not rules.calibrated or solution.status is not Status.INFEASIBLE:
        return solution, budgets, False
    # Sampled expectations may be lower than any policy's: allow what the thriftiest one spends.
    budgets = np.maximum(budgets, solution.spent)
    objective = features.objective(weights[0], weights[1:], budgets)
    return rules.solver.solve(mdp, objective, guess=guess, throw=False), budgets, True


def price_scale(features: Features, weights: Blocks) -> np.ndarray:
    """[K] reward over cost: the size of a multiplier that matters."""
    costs = weights[1:]
    tables = features.objective(weights[0], costs, np.zeros(len(costs)))
    reward = float(np.abs(tables.reward).max())
    return reward / np.maximum(np.array([np.abs(c).max() for c in tables.costs]), 1e-300)
