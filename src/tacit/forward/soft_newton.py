"""Projected Newton on the soft dual: one compiled call a problem."""

from __future__ import annotations

from typing import Any, NamedTuple

from tacit.engine import compiled_in_double
from tacit.forward.soft_values import soft_fixed_point
from tacit.forward.world import World


class Point(NamedTuple):
    """The dual and its derivatives at one vector of prices."""

    prices: Any  # [K]
    dual: Any  # scalar
    gradient: Any  # [K] budgets - spent
    curvature: Any  # [K, K]
    values: Any  # [S]
    cost_values: Any  # [K, S]; minus the derivative of the values in the prices
    policy: Any  # [S, A]
    visits: Any  # [S]


class Problem(NamedTuple):
    """Everything that stays fixed during the search."""

    world: World
    initial: Any
    discount: Any
    temperature: Any
    reward: Any
    costs: Any
    budgets: Any
    precision: Any  # Bellman residual to reach


@compiled_in_double
def minimise_dual(
    world: World,
    initial: Any,
    discount: Any,
    temperature: Any,
    reward: Any,
    costs: Any,
    budgets: Any,
    prices: Any,
    values: Any,
    tolerance: Any,
    max_steps: Any,
) -> tuple[Any, Any, Any, Any, Any]:
    """[K] prices, [S] values, [S, A] policy, [S] visits and evaluations, at the dual's minimum."""
    xp = world.arrays
    scale = xp.abs(reward).max() + temperature * xp.log(1.0 + reward.shape[1])
    # A residual e moves the values by e / (1 - discount): aim well below the tolerance, but not
    # below what rounding leaves.
    precision = xp.maximum(1e-3 * tolerance * (1 - discount), 4e-16 / (1 - discount) * scale)
    problem = Problem(world, initial, discount, temperature, reward, costs, budgets, precision)
    first = _evaluate(problem, prices, values)
    if len(budgets) == 0:
        return prices, first.values, first.policy, first.visits, 1
    # While the policy hardly reacts to the prices, Newton's steps are far too long.
    unit = scale / xp.maximum(xp.abs(costs).max(axis=(1, 2)), 1e-300)

    def step(state: Any) -> Any:
        point, direction, length, steps = state
        trial = xp.maximum(point.prices + length * direction, 0.0)
        guess = point.values - (trial - point.prices) @ point.cost_values
        fresh = _evaluate(problem, trial, guess)
        slope = point.gradient @ (trial - point.prices)
        rounding = 1e-13 * (xp.abs(point.dual) + xp.abs(point.prices) @ xp.abs(budgets))
        accept = fresh.dual <= point.dual + 1e-4 * slope + rounding
        point = world.select(accept, fresh, point)
        direction = xp.where(accept, _direction(world, point, unit), direction)
        return point, direction, xp.where(accept, 1.0, 0.25 * length), steps + 1

    def going(state: Any) -> Any:
        point, _, length, steps = state
        missed = xp.where(point.prices > 0, xp.abs(point.gradient), -point.gradient)
        weight = xp.maximum(1.0, point.prices / xp.maximum(1.0, xp.abs(point.dual)))
        missed = (missed * weight / xp.maximum(1.0, xp.abs(budgets))).max()
        return (missed > 0.1 * tolerance) & (steps < max_steps) & (length > 1e-12)

    start = (first, _direction(world, first, unit), 1.0, 1)
    point, _, _, steps = world.while_loop(going, step, start)
    return point.prices, point.values, point.policy, point.visits, steps


def _evaluate(problem: Problem, prices: Any, guess: Any) -> Point:
    """The dual at these prices, with gradient and Hessian by linear solves of the same chain."""
    world, discount = problem.world, problem.discount
    xp = world.arrays
    lagrangian = problem.reward - xp.tensordot(prices, problem.costs, 1)
    values, policy, _ = soft_fixed_point(
        world, discount, problem.temperature, lagrangian, guess, problem.precision
    )
    fine = 1e-14 / (1 - discount)
    visits = world.solve_transposed(policy, discount, problem.initial, fine)
    per_state = (policy * problem.costs).sum(axis=2)
    cost_values = [
        world.solve(policy, discount, cost, fine * xp.abs(cost).max() + 1e-300)
        for cost in per_state
    ]
    cost_values = xp.stack(cost_values) if cost_values else per_state
    # Advantages: how much more an action costs than the policy's average in that state.
    later = [world.expected_next(value) for value in cost_values]
    ahead = [cost + discount * n for cost, n in zip(problem.costs, later, strict=True)]
    advantages = xp.stack(ahead) - cost_values[:, :, None] if ahead else problem.costs
    weighted = advantages * (visits[:, None] * policy)
    curvature = xp.einsum("ksa,lsa->kl", weighted, advantages) / problem.temperature
    return Point(
        prices,
        problem.initial @ values + prices @ problem.budgets,
        problem.budgets - cost_values @ problem.initial,
        curvature,
        values,
        cost_values,
        policy,
        visits,
    )


def _direction(world: World, point: Point, unit: Any) -> Any:
    """Newton's step on the prices that are free to move, at most doubling them."""
    xp = world.arrays
    free = (point.prices > 0) | (point.gradient < 0)
    both = free[:, None] & free[None, :]
    diagonal = xp.diagonal(point.curvature)
    ridge = xp.diag(xp.where(free, 1e-12 * diagonal + 1e-300, 1.0))
    hessian = xp.where(both, point.curvature, 0.0) + ridge
    newton = xp.linalg.solve(hessian, -xp.where(free, point.gradient, 0.0))
    longest = 2.0 * point.prices + unit
    # A blind direction (no curvature at all) still goes downhill.
    downhill = -xp.sign(point.gradient) * longest
    newton = xp.where(xp.isfinite(newton) & (newton * point.gradient <= 0), newton, downhill)
    return xp.where(free, xp.clip(newton, -longest, longest), 0.0)
