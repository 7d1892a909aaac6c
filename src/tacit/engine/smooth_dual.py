"""The value of a noisy expert: the soft Bellman fixed point, by Newton's method.

Newton on V = temperature * logsumexp((reward + discount * P V) / temperature) is soft policy
iteration: each step is the exact value of the current Boltzmann policy, entropy included. It
converges from anywhere, monotonically after the first step, and quadratically at the end.

The code is the same for every engine: `backend.arrays` is `jax.numpy` or `numpy`, and
`backend.while_loop` is traced or a plain loop.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tacit.engine.backends import Backend
from tacit.engine.precision import compiled_in_double

# Residual that a Newton step may leave of the one it starts from.
INEXACT = 0.1


def soft_fixed_point(
    backend: Backend,
    discount: Any,
    temperature: Any,
    reward: Any,
    guess: Any,
    target: Any,
    limit: int = 100,
) -> tuple[Any, Any, Any]:
    """[S] values, [S, A] policy, and the largest residual |backup(values) - values| left.

    Args:
        backend: the dynamics.
        discount: scalar.
        temperature: scalar, above 0.
        reward: [S, A].
        guess: [S] values to start from.
        target: residual to reach.
        limit: most Newton steps.
    """
    xp = backend.arrays

    def step(state: Any) -> Any:
        values, backed, policy, error, steps, _ = state
        # As exactly as the error deserves: an early policy is about to change anyway.
        aim = xp.maximum(INEXACT * error, 0.3 * target)
        values = values + backend.solve(policy, discount, backed - values, aim)
        backed, policy = backend.soft_backup(discount, temperature, reward, values)
        return values, backed, policy, xp.abs(backed - values).max(), steps + 1, error

    def going(state: Any) -> Any:
        _, _, _, error, steps, before = state
        # At rounding level the error stops falling: going on would only walk in circles.
        stuck = (steps > 3) & (error > 0.5 * before) & (error < 1e3 * target)
        return (error > target) & (steps < limit) & xp.logical_not(stuck)

    backed, policy = backend.soft_backup(discount, temperature, reward, guess)
    start = (guess, backed, policy, xp.abs(backed - guess).max(), 0, xp.inf)
    values, _, policy, error, _, _ = backend.while_loop(going, step, start)
    return values, policy, error


def newton_step(backend: Backend, problem: Dual, point: Point) -> Any:
    """[D] the step from a point, never far beyond doubling a coordinate.

    Goes to the minimum of the quadratic model; a coordinate that meets its bound on the way stays
    there, and the others go on. The model falls along every leg, so the step as a whole leads
    downhill; clipping the plain Newton step would bend it, at times uphill.
    """
    xp = backend.arrays
    low, high = problem.lower - point.x, problem.upper - point.x
    free = ((low < 0) | (point.gradient < 0)) & ((high > 0) | (point.gradient > 0))
    longest = 2.0 * xp.abs(point.x) + problem.unit
    diagonal = xp.diagonal(point.curvature)
    # A coordinate that the policy does not react to yet still goes downhill; directions without
    # any information stay where they are.
    steep = xp.abs(point.gradient) / longest
    ridge = xp.where(diagonal > 0, 1e-10 * diagonal, xp.where(steep > 0, steep, 1.0))
    model = point.curvature + xp.diag(ridge)

    def leg(state: Any) -> Any:
        direction, free, _, legs = state
        both = free[:, None] & free[None, :]
        held = xp.diag(xp.where(free, 0.0, 1.0))
        slope = point.gradient + model @ direction
        move = backend.linear_solve(xp.where(both, model, 0.0) + held, -xp.where(free, slope, 0.0))
        room = xp.where(move < 0, low - direction, high - direction)
        share = xp.where(move != 0, room / xp.where(move != 0, move, 1.0), xp.inf)
        length = xp.minimum(1.0, share.min())
        blocked = free & (share <= length) & (length < 1.0)
        bound = xp.where(move < 0, low, high)
        direction = xp.where(blocked, bound, direction + length * move)
        return direction, free & xp.logical_not(blocked), length < 1.0, legs + 1

    # Every leg but the last ends at a bound, so there are no more than coordinates and one.
    start = (xp.zeros_like(point.x), free, True, 0)
    direction, *_ = backend.while_loop(lambda s: s[2] & (s[3] <= len(point.x)), leg, start)
    # Shorten the step as a whole: shortening coordinates would bend it away from descent.
    return direction / xp.maximum(1.0, xp.max(xp.abs(direction) / longest))


# A point is evaluated to this share of the last one's distance from the minimum, to the square of
# that distance where Newton's steps square it, and to `ROUGH` at worst.
CARE, ROUGH = 0.1, 0.1
# Newton's step in one coordinate is stretched after one that left this share of the slope.
SHORT, LONGER = 0.4, 2.0
# Error of the values, as a share of the tolerance of a point.
VALUE_CARE = 1e-2
# What the visits may create or lose, likewise.
VISIT_CARE = 1e-1


class Dual(NamedTuple):
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
    backend: Backend, problem: Dual, x: Any, values: Any, tolerance: Any, max_steps: Any
) -> tuple[Point, Any]:
    """The `Point` of the minimum over lower <= x <= upper, and the evaluations it took."""
    start = begin(problem, x, values, arrays=backend.arrays)
    end = _advanced(backend, problem, start, tolerance, max_steps)
    return end.point, end.steps


@compiled_in_double
def advance(
    backend: Backend, problem: Dual, search: Search, tolerance: Any, max_steps: Any, until: Any
) -> Search:
    """The `Search` after `until` evaluations in all, or where it ends before.

    The bound is a number like any other: a search made in pieces runs the same machine code as one
    made at once, and ends at the same bits.
    """
    limit = backend.arrays.minimum(max_steps, until)
    return _advanced(backend, problem, search, tolerance, limit)


def begin(problem: Dual, x: Any, values: Any, *, arrays: Any = np) -> Search:
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
    backend: Backend, problem: Dual, search: Search, tolerance: Any, max_steps: Any
) -> Search:
    xp = backend.arrays

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
        look_closely = backend.direct or len(problem.target) == 0
        precision = tolerance if look_closely else xp.maximum(tolerance, rough)
        fresh = evaluate(backend, problem, trial, guess, precision, near=point)
        slope = xp.minimum(point.gradient @ move, 0.0)
        rounding = 1e-13 * (xp.abs(point.loss) + xp.abs(point.x) @ xp.abs(problem.target))
        doubt = VALUE_CARE * (precision + known) * xp.abs(problem.start).sum()
        accept = (steps == 0) | (fresh.loss <= point.loss + 1e-4 * slope + rounding + doubt)
        # Much of the slope is left where the curvature falls: the next step will fall short too.
        # Along one coordinate, that is; among several, stretched steps were seen to stray.
        short = (len(problem.target) == 1) & (fresh.gradient @ move < SHORT * slope)
        point = backend.select(accept, fresh, point)
        if len(problem.target):
            direction = xp.where(accept, newton_step(backend, problem, point), direction)
        length = xp.where(accept, xp.where(short, LONGER, 1.0), 0.25 * length)
        known = xp.where(accept, precision, known)
        return Search(point, direction, length, steps + 1, known)

    def distance(point: Point) -> Any:
        """How far the gradient is from 0, as a share of its own scale and of what it could gain."""
        missed = xp.abs(projected_gradient(backend, problem, point))
        worth = xp.maximum(1.0 / problem.scale, xp.abs(point.x) / xp.maximum(1, abs(point.loss)))
        return (missed * worth).max(initial=0.0)

    def going(search: Search) -> Any:
        far = (distance(search.point) > 0.1 * tolerance) | (search.precision > tolerance)
        return (search.steps == 0) | (far & (search.steps < max_steps) & (search.length > 1e-12))

    return Search(*backend.while_loop(going, step, search))


@compiled_in_double
def loss_at(backend: Backend, problem: Dual, x: Any, values: Any, tolerance: Any) -> Any:
    """The objective at x, found from the values of a point nearby."""
    values, *_ = _expert(backend, problem, x, values, tolerance)
    return _loss(problem, x, values)


@compiled_in_double
def point_at(backend: Backend, problem: Dual, x: Any, values: Any, tolerance: Any) -> Point:
    """The `Point` at x, found from the values of a point nearby."""
    return evaluate(backend, problem, x, values, tolerance)


def projected_gradient(backend: Backend, problem: Dual, point: Point) -> Any:
    """[D] the gradient, 0 where a bound holds it back."""
    xp = backend.arrays
    free = ((point.x > problem.lower) | (point.gradient < 0)) & (
        (point.x < problem.upper) | (point.gradient > 0)
    )
    return xp.where(free, point.gradient, 0.0)


def evaluate(
    backend: Backend,
    problem: Dual,
    x: Any,
    guess: Any,
    tolerance: Any,
    *,
    near: Point | None = None,
) -> Point:
    """The objective at x, with gradient and curvature by linear solves of the same chain.

    The solves begin from the values `guess` [S] and from what they found at the point `near`.
    """
    xp, discount = backend.arrays, problem.discount
    values, policy, residual = _expert(backend, problem, x, guess, tolerance)
    fine = xp.maximum(1e-14 / (1 - discount), 1e-2 * tolerance * (1 - discount))
    seen, known = (None, None) if near is None else (near.visits, near.table_values)
    # The visits weigh the curvature and nothing else: they need not be so exact.
    enough = VISIT_CARE * tolerance * xp.abs(problem.start).sum()
    visits = backend.solve_transposed(policy, discount, problem.start, enough, guess=seen)
    average = (policy * problem.tables).sum(axis=2)
    aim = fine * xp.abs(average).max(axis=1, initial=0.0) + 1e-300
    table_values = backend.solve(policy, discount, average, aim, guess=known)
    # Advantages: how much more of a table an action brings than the policy does on average.
    later = backend.expected_next(table_values)
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
    backend: Backend, problem: Dual, x: Any, guess: Any, tolerance: Any
) -> tuple[Any, Any, Any]:
    """[S] values and [S, A] policy of the noisy expert at x, and the Bellman residual left."""
    xp, discount, temperature = backend.arrays, problem.discount, problem.temperature
    reward = problem.base + xp.tensordot(x, problem.tables, 1)
    size = xp.abs(reward).max() + temperature * xp.log(1.0 + reward.shape[1])
    # A residual e moves the values by e / (1 - discount): aim well below the tolerance, but not
    # below what rounding leaves.
    precision = xp.maximum(VALUE_CARE * tolerance * (1 - discount), 4e-16 / (1 - discount) * size)
    return soft_fixed_point(backend, discount, temperature, reward, guess, precision)


def _loss(problem: Dual, x: Any, values: Any) -> Any:
    """The objective at x, given the values [S] there."""
    return problem.start @ values - x @ problem.target + 0.5 * problem.ridge @ (x * x)
