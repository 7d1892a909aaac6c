"""Projected Newton on the smooth dual that the soft solver and the noisy estimators share.

    F(x) = start . V_soft(base + sum_d x_d tables_d) - x . target + ridge . x^2 / 2

is convex in x for start >= 0. With base = reward, tables = -costs and target = -budgets it is the
dual of the soft constrained problem in the prices x; with base = 0, tables = features and target =
the demonstrations' feature expectations it is maximum causal entropy recovery; with start and
target from step counts, minus the log-likelihood of the steps. Its gradient and Hessian need only
linear solves of the current policy's chain. One compiled call a problem, or one a step where
somebody watches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tacit.engine import compiled_in_double
from tacit.forward.newton_step import newton_step
from tacit.forward.soft_values import soft_fixed_point
from tacit.forward.world import World

# A point is evaluated to this share of the last one's distance from the minimum, to the square of
# that distance where Newton's steps square it, and to `ROUGH` at worst.
CARE, ROUGH = 0.1, 0.1
# Newton's step in one coordinate is stretched after one that left this share of the slope.
SHORT, LONGER = 0.4, 2.0
# Error of the values, as a share of the tolerance of a point.
VALUE_CARE = 1e-2
# What the visits may create or lose, likewise.
VISIT_CARE = 1e-1


class Problem(NamedTuple):
    """Everything that stays fixed during the search."""

    start: Any  # [S] weights of the states in the objective; p0 for a dual proper
    discount: Any
    temperature: Any
    base: Any  # [S, A] reward that does not depend on x
    tables: Any  # [D, S, A]
    target: Any  # [D]
    lower: Any  # [D]
    upper: Any  # [D]
    ridge: Any  # [D]
    unit: Any  # [D] step that a coordinate may take from 0 without looking back
    scale: Any  # [D] size of a gradient entry that counts as one
    information: Any  # [S] state weights of the curvature where visits are not positive


class Point(NamedTuple):
    """The objective and its derivatives at one x."""

    x: Any  # [D]
    loss: Any  # scalar
    gradient: Any  # [D]
    curvature: Any  # [D, D]
    values: Any  # [S]
    table_values: Any  # [D, S] derivative of the values in x
    policy: Any  # [S, A]
    visits: Any  # [S] discounted visits from `start` under the policy
    residual: Any  # Bellman residual left


class Search(NamedTuple):
    """Where a search stands: all that its next step needs."""

    point: Point
    direction: Any  # [D] to go from there
    length: Any  # share of the direction to try next
    steps: Any  # evaluations made
    precision: Any  # tolerance that the point was evaluated to


@compiled_in_double
def minimise(
    world: World, problem: Problem, x: Any, values: Any, tolerance: Any, max_steps: Any
) -> tuple[Point, Any]:
    """The `Point` of the minimum over lower <= x <= upper, and the evaluations it took."""
    start = begin(problem, x, values, arrays=world.arrays)
    end = _advanced(world, problem, start, tolerance, max_steps)
    return end.point, end.steps


@compiled_in_double
def advance(
    world: World, problem: Problem, search: Search, tolerance: Any, max_steps: Any, until: Any
) -> Search:
    """The `Search` after `until` evaluations in all, or where it ends before.

    The bound is a number like any other: a search made in pieces runs the same machine code as one
    made at once, and ends at the same bits.
    """
    limit = world.arrays.minimum(max_steps, until)
    return _advanced(world, problem, search, tolerance, limit)


def begin(problem: Problem, x: Any, values: Any, *, arrays: Any = np) -> Search:
    """A `Search` that has not evaluated anything: its first step looks at x [D] itself."""
    size, (states, actions) = len(problem.target), problem.base.shape
    x, values = arrays.asarray(x, dtype=float), arrays.asarray(values, dtype=float)
    nothing = Point(
        x,
        arrays.asarray(np.inf),
        arrays.zeros(size),
        arrays.zeros((size, size)),
        values,
        arrays.zeros((size, states)),
        arrays.zeros((states, actions)),
        arrays.zeros(states),
        arrays.asarray(np.inf),
    )
    whole, none, unknown = (arrays.asarray(v) for v in (1.0, 0, np.inf))
    return Search(nothing, arrays.zeros(size), whole, none, unknown)


def _advanced(
    world: World, problem: Problem, search: Search, tolerance: Any, max_steps: Any
) -> Search:
    xp = world.arrays

    def step(search: Search) -> Search:
        point, direction, length, steps, known = search
        missed = distance(point)
        # At the minimum, as far as a rough look can tell: look again, from where it is.
        move = xp.where(missed > 0.1 * tolerance, length * direction, 0.0)
        trial = xp.clip(point.x + move, problem.lower, problem.upper)
        move = trial - point.x
        guess = point.values + move @ point.table_values
        # Far from the minimum a rough look will do: the next step is only as good as its model.
        rough = xp.minimum(ROUGH, xp.minimum(CARE, missed) * missed)
        rough = xp.where(steps == 0, ROUGH, rough)
        look_closely = world.direct or len(problem.target) == 0
        precision = tolerance if look_closely else xp.maximum(tolerance, rough)
        fresh = evaluate(world, problem, trial, guess, precision, near=point)
        slope = xp.minimum(point.gradient @ move, 0.0)
        rounding = 1e-13 * (xp.abs(point.loss) + xp.abs(point.x) @ xp.abs(problem.target))
        doubt = VALUE_CARE * (precision + known) * xp.abs(problem.start).sum()
        accept = (steps == 0) | (fresh.loss <= point.loss + 1e-4 * slope + rounding + doubt)
        # Much of the slope is left where the curvature falls: the next step will fall short too.
        # Along one coordinate, that is; among several, stretched steps were seen to stray.
        short = (len(problem.target) == 1) & (fresh.gradient @ move < SHORT * slope)
        point = world.select(accept, fresh, point)
        if len(problem.target):
            direction = xp.where(accept, newton_step(world, problem, point), direction)
        length = xp.where(accept, xp.where(short, LONGER, 1.0), 0.25 * length)
        known = xp.where(accept, precision, known)
        return Search(point, direction, length, steps + 1, known)

    def distance(point: Point) -> Any:
        """How far the gradient is from 0, as a share of its own scale and of what it could gain."""
        missed = xp.abs(projected_gradient(world, problem, point))
        worth = xp.maximum(1.0 / problem.scale, xp.abs(point.x) / xp.maximum(1, abs(point.loss)))
        return (missed * worth).max(initial=0.0)

    def going(search: Search) -> Any:
        far = (distance(search.point) > 0.1 * tolerance) | (search.precision > tolerance)
        return (search.steps == 0) | (far & (search.steps < max_steps) & (search.length > 1e-12))

    return Search(*world.while_loop(going, step, search))


@compiled_in_double
def loss_at(world: World, problem: Problem, x: Any, values: Any, tolerance: Any) -> Any:
    """The objective at x, found from the values of a point nearby."""
    values, *_ = _expert(world, problem, x, values, tolerance)
    return _loss(problem, x, values)


@compiled_in_double
def point_at(world: World, problem: Problem, x: Any, values: Any, tolerance: Any) -> Point:
    """The `Point` at x, found from the values of a point nearby."""
    return evaluate(world, problem, x, values, tolerance)


def projected_gradient(world: World, problem: Problem, point: Point) -> Any:
    """[D] the gradient, 0 where a bound holds it back."""
    xp = world.arrays
    free = ((point.x > problem.lower) | (point.gradient < 0)) & (
        (point.x < problem.upper) | (point.gradient > 0)
    )
    return xp.where(free, point.gradient, 0.0)


def evaluate(
    world: World,
    problem: Problem,
    x: Any,
    guess: Any,
    tolerance: Any,
    *,
    near: Point | None = None,
) -> Point:
    """The objective at x, with gradient and curvature by linear solves of the same chain.

    The solves begin from the values `guess` [S] and from what they found at the point `near`.
    """
    xp, discount = world.arrays, problem.discount
    values, policy, residual = _expert(world, problem, x, guess, tolerance)
    fine = xp.maximum(1e-14 / (1 - discount), 1e-2 * tolerance * (1 - discount))
    seen, known = (None, None) if near is None else (near.visits, near.table_values)
    # The visits weigh the curvature and nothing else: they need not be so exact.
    enough = VISIT_CARE * tolerance * xp.abs(problem.start).sum()
    visits = world.solve_transposed(policy, discount, problem.start, enough, guess=seen)
    average = (policy * problem.tables).sum(axis=2)
    aim = fine * xp.abs(average).max(axis=1, initial=0.0) + 1e-300
    table_values = world.solve(policy, discount, average, aim, guess=known)
    # Advantages: how much more of a table an action brings than the policy does on average.
    later = world.expected_next(table_values)
    advantages = problem.tables + discount * later - table_values[:, :, None]
    gradient = table_values @ problem.start - problem.target
    # A table that shifts all values alike moves no action: what is left of it is rounding, which a
    # Newton step would divide by its own square.
    largest = xp.abs(table_values).max(axis=1, initial=0.0)
    inert = xp.abs(advantages).max(axis=(1, 2), initial=0.0) <= 1e-12 * largest
    advantages = xp.where(inert[:, None, None], 0.0, advantages)
    rounding = 1e-11 * (largest * xp.abs(problem.start).sum() + xp.abs(problem.target))
    gradient = xp.where(inert & (xp.abs(gradient) <= rounding), 0.0, gradient)
    # With a start below zero some visits may be too, and the true curvature indefinite.
    spread = xp.where(visits > 0, visits, problem.information)
    weighted = advantages * (spread[:, None] * policy)
    flat = (len(x), -1)
    curvature = weighted.reshape(flat) @ advantages.reshape(flat).T if len(x) else xp.zeros((0, 0))
    return Point(
        x,
        _loss(problem, x, values),
        gradient + problem.ridge * x,
        curvature / problem.temperature + xp.diag(problem.ridge),
        values,
        table_values,
        policy,
        visits,
        residual,
    )


def _expert(
    world: World, problem: Problem, x: Any, guess: Any, tolerance: Any
) -> tuple[Any, Any, Any]:
    """[S] values and [S, A] policy of the noisy expert at x, and the Bellman residual left."""
    xp, discount, temperature = world.arrays, problem.discount, problem.temperature
    reward = problem.base + xp.tensordot(x, problem.tables, 1)
    size = xp.abs(reward).max() + temperature * xp.log(1.0 + reward.shape[1])
    # A residual e moves the values by e / (1 - discount): aim well below the tolerance, but not
    # below what rounding leaves.
    precision = xp.maximum(VALUE_CARE * tolerance * (1 - discount), 4e-16 / (1 - discount) * size)
    return soft_fixed_point(world, discount, temperature, reward, guess, precision)


def _loss(problem: Problem, x: Any, values: Any) -> Any:
    """The objective at x, given the values [S] there."""
    return problem.start @ values - x @ problem.target + 0.5 * problem.ridge @ (x * x)
