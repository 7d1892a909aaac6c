"""The smooth dual of a soft constrained problem, and the Newton search for its minimum.

A point is the loss with gradient and curvature, by linear solves of the noisy expert's own chain
(`evaluate`). Every step goes towards the minimum of the quadratic model within the bounds, is
shortened until the loss falls enough, and looks as closely as the distance to the minimum deserves.
The search ends where the gradient that no bound holds back is within the tolerance (`goes_on`).

The values of the noisy expert are found by Newton's method, too, which is soft policy iteration
(`soft_fixed_point`): each step is the exact value of the current Boltzmann policy with its entropy.
It converges from anywhere, monotonically after the first step, and quadratically at the end.

The code is the same for every backend: `backend.arrays` is `jax.numpy` or `numpy`, and
`backend.while_loop` is traced or a plain loop.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.engine import Side, undiscounted_fixed_point
from tacit.engine.backends import Array, Backend, compiled_in_double, soft_fixed_point

# Error of the values, as a share of the tolerance of a point.
VALUE_CARE = 1e-2
# What the visits may create or lose, likewise.
VISIT_CARE = 1e-1
# Relative eigenvalue below which a curvature says nothing about a direction.
BLIND = 1e-9
# Root of the information below which a parameter, of a table of range one, is not told at all.
FAINT = 1e-15
# A point is evaluated to this share of the last one's distance from the minimum, to the square of
# that distance where Newton's steps square it, and to `ROUGH` at worst.
CARE, ROUGH = 0.1, 0.1
# Newton's step in one coordinate is stretched after one that left this share of the slope.
SHORT, LONGER = 0.4, 2.0
# Share of the tolerance at which the search stops.
REST = 0.1
# A step shortened to less than this share of Newton's gains nothing more.
SHORTEST = 1e-12


class Dual(NamedTuple):
    """The dual of one problem: all that stays fixed while x is sought."""

    start: Array  # [S] weights of the states in the objective; p0 for a dual proper
    discount: Array
    temperature: Array
    base: Array  # [S, A] reward that does not depend on x
    tables: Array  # [D, S, A]
    target: Array  # [D]
    lower: Array  # [D]
    upper: Array  # [D]
    ridge: Array  # [D]
    unit: Array  # [D] step that a coordinate may take from 0 without looking back
    scale: Array  # [D] size of a gradient entry that counts as one
    information: Array  # [S] state weights of the curvature where visits are not positive


def restricted(dual: Dual, x: Array, moving: Array) -> Dual:
    """The dual of the moving parameters, [D] bool; the others are fixed as in x [D].

    What those add to the loss by themselves is not in it.
    """
    names = ("tables", "target", "lower", "upper", "ridge", "unit", "scale")
    base = dual.base + np.tensordot(x[~moving], dual.tables[~moving], 1)
    return dual._replace(base=base, **{name: getattr(dual, name)[moving] for name in names})


class Point(NamedTuple):
    """The objective and its derivatives at one x."""

    x: Array  # [D]
    loss: Array  # scalar
    gradient: Array  # [D]
    curvature: Array  # [D, D]
    values: Array  # [S]
    table_values: Array  # [D, S] derivative of the values in x
    policy: Array  # [S, A]
    visits: Array  # [S] discounted visits from `start` under the policy
    residual: Array  # Bellman residual left


@compiled_in_double
def loss_at(backend: Backend, dual: Dual, x: Array, values: Array, tolerance: Array) -> Array:
    """The objective at x, found from the values of a point nearby."""
    values, _, residual = _expert(backend, dual, x, values, tolerance)
    return _loss(backend, dual, x, values, residual)


def evaluate(
    backend: Backend,
    dual: Dual,
    x: Array,
    values: Array,
    tolerance: Array,
    *,
    near: Point | None = None,
) -> Point:
    """The objective at x, with gradient and curvature by linear solves of the same chain.

    The solves begin from the `values` [S] of a point nearby, and from what was found at `near`.
    """
    xp, discount = backend.arrays, dual.discount
    leak = backend.leak(discount)
    values, policy, residual = _expert(backend, dual, x, values, tolerance)
    seen, known = (None, None) if near is None else (near.visits, near.table_values)
    average, enough, aim = (policy * dual.tables).sum(axis=2), None, None
    if not (xp is np and backend.direct):  # elimination is as exact as it is
        # The visits weigh the curvature and nothing else: they need not be so exact.
        enough = VISIT_CARE * tolerance * xp.abs(dual.start).sum()
        fine = xp.maximum(1e-14 / leak, 1e-2 * tolerance * leak)
        aim = fine * xp.abs(average).max(axis=1, initial=0.0) + 1e-300
    visits = backend.solve(policy, discount, Side(dual.start, enough, seen, transposed=True))
    table_values = backend.solve(policy, discount, Side(average, aim, known))
    # Advantages: how much more of a table an action brings than the policy does on average.
    later = backend.expected_next(table_values)
    advantages = dual.tables + discount * later - table_values[:, :, None]
    gradient = table_values @ dual.start - dual.target
    # A table that shifts all values alike moves no action: what is left of it is rounding, which a
    # Newton step would divide by its own square.
    largest = xp.abs(table_values).max(axis=1, initial=0.0)
    inert = xp.abs(advantages).max(axis=(1, 2), initial=0.0) <= 1e-12 * largest
    if xp is not np or inert.any():
        advantages = xp.where(inert[:, None, None], 0.0, advantages)
        rounding = 1e-11 * (largest * xp.abs(dual.start).sum() + xp.abs(dual.target))
        gradient = xp.where(inert & (xp.abs(gradient) <= rounding), 0.0, gradient)
    # With a start below zero some visits may be too, and the true curvature indefinite.
    weights = xp.where(visits > 0, visits, dual.information)
    weighted = advantages * (weights[:, None] * policy)
    flat = (len(x), -1)
    curvature = weighted.reshape(flat) @ advantages.reshape(flat).T if len(x) else xp.zeros((0, 0))
    return Point(
        x,
        _loss(backend, dual, x, values, residual),
        gradient + dual.ridge * x,
        curvature / dual.temperature + xp.diag(dual.ridge),
        values,
        table_values,
        policy,
        visits,
        residual,
    )


point_at = compiled_in_double(evaluate)


def _expert(
    backend: Backend, dual: Dual, x: Array, guess: Array, tolerance: Array
) -> tuple[Array, Array, Array]:
    """[S] values and [S, A] policy of the noisy expert at x, and the Bellman residual left."""
    xp, discount, temperature = backend.arrays, dual.discount, dual.temperature
    if xp is np:  # what `tensordot` does, without its detours
        added = x[None] @ dual.tables.reshape(len(x), dual.base.size)
        reward = dual.base + added.reshape(dual.base.shape)
    else:
        reward = dual.base + xp.tensordot(x, dual.tables, 1)
    leak = backend.leak(discount)
    size = xp.abs(reward).max() + temperature * xp.log(1.0 + reward.shape[1])
    # A residual e moves the values by e / (1 - discount): aim well below the tolerance, but not
    # below what rounding leaves.
    precision = xp.maximum(VALUE_CARE * tolerance * leak, 4e-16 / leak * size)
    if backend.walk is not None:
        iterate = soft_fixed_point
        return undiscounted_fixed_point(backend, iterate, temperature, reward, guess, precision)
    return soft_fixed_point(backend, discount, temperature, reward, guess, precision)


def _loss(backend: Backend, dual: Dual, x: Array, values: Array, residual: Array) -> Array:
    """The objective at x, given the values [S] there; infinite where there are no finite ones."""
    loss = dual.start @ values - x @ dual.target + 0.5 * dual.ridge @ (x * x)
    if backend.walk is None:
        return loss
    return backend.arrays.where(residual < backend.arrays.inf, loss, backend.arrays.inf)


def inverse_information(fisher: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[D, D] the inverse on the free parameters, and [B, D] the directions it knows nothing of."""
    size = len(fisher)
    covariance, kept = np.zeros((size, size)), np.flatnonzero(free)
    if len(kept) == 0:
        return covariance, np.zeros((0, size))
    block = fisher[np.ix_(kept, kept)]
    units = np.sqrt(np.maximum(np.diagonal(block), 0.0))
    faint = units <= FAINT
    units[faint], block[faint], block[:, faint] = 1.0, 0.0, 0.0
    eigenvalues, vectors = np.linalg.eigh(block / np.outer(units, units))
    seen = np.asarray(eigenvalues > BLIND * max(eigenvalues.max(), 0.0))
    half = vectors[:, seen] / np.sqrt(eigenvalues[seen])
    covariance[np.ix_(kept, kept)] = (half @ half.T) / np.outer(units, units)
    directions = np.zeros((int(np.logical_not(seen).sum()), size))
    directions[:, kept] = (vectors[:, np.logical_not(seen)] / units[:, None]).T
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    return covariance, directions / np.where(lengths > 0, lengths, 1.0)


class Search(NamedTuple):
    """Where a search stands: all that its next step needs."""

    point: Point
    direction: Array  # [D] to go from there
    length: Array  # share of the direction to try next
    steps: Array  # evaluations made
    precision: Array  # tolerance that the point was evaluated to


@compiled_in_double
def advance(
    backend: Backend, dual: Dual, search: Search, tolerance: Array, max_steps: Array, until: Array
) -> Search:
    """The `Search` after `until` evaluations in all, or where it ends before.

    The bound is a number like any other: a search made in pieces runs the same machine code as one
    made at once, and ends at the same bits.
    """
    limit = backend.arrays.minimum(max_steps, until)
    return advanced(backend, dual, search, tolerance, limit)


def begin(dual: Dual, x: Array, values: Array, *, arrays: Array = np) -> Search:
    """A `Search` that has not evaluated anything: its first step looks at x [D] itself."""
    size, (states, actions) = len(dual.target), dual.base.shape
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


def extended(dual: Dual, x: Array, moving: Array, part: Point) -> Point:
    """The `Point` of a dual that was `restricted`, at x [D] and what the moving ones came to.

    Derivatives in parameters that were fixed are 0.
    """
    fixed = np.where(moving, 0.0, x)
    loss = part.loss + fixed @ (0.5 * dual.ridge * fixed - dual.target)
    whole = begin(dual, fixed, part.values).point._replace(loss=loss)
    whole.x[moving], whole.gradient[moving] = part.x, part.gradient
    whole.curvature[np.ix_(moving, moving)] = part.curvature
    whole.table_values[moving] = part.table_values
    return whole._replace(policy=part.policy, visits=part.visits, residual=part.residual)


def advanced(
    backend: Backend, dual: Dual, search: Search, tolerance: Array, max_steps: Array
) -> Search:
    """The `Search` after so many evaluations in all, or where it ends before: not compiled."""
    xp, select = backend.arrays, backend.select
    look_closely = backend.direct or len(dual.target) == 0
    starts = xp.abs(dual.start).sum()
    known: list[tuple[Point, Array]] = []

    def missed_at(point: Point) -> Array:
        """The distance, which a plain loop has known since it asked whether to go on."""
        if xp is np and known and known[0][0] is point:
            return known[0][1]
        found = distance(backend, dual, point)
        known[:] = [(point, found)] if xp is np else []
        return found

    def step(search: Search) -> Search:
        point, direction, steps = search.point, search.direction, search.steps
        missed = missed_at(point)
        # At the minimum, as far as a rough look can tell: look again, from where it is.
        nowhere = xp.zeros(direction.shape)
        move = select(missed > REST * tolerance, search.length * direction, nowhere)
        trial = xp.minimum(xp.maximum(point.x + move, dual.lower), dual.upper)
        move = trial - point.x
        guess = point.values + move @ point.table_values
        precision = tolerance
        if not look_closely:
            # Far from the minimum a rough look will do: the next step is only as good as its model.
            rough = xp.minimum(ROUGH, xp.minimum(CARE, missed) * missed)
            rough = xp.where(steps == 0, ROUGH, rough)
            precision = xp.maximum(tolerance, rough)
        fresh = evaluate(backend, dual, trial, guess, precision, near=point)
        slope = xp.minimum(point.gradient @ move, 0.0)
        rounding = 1e-13 * (xp.abs(point.loss) + xp.abs(point.x) @ xp.abs(dual.target))
        doubt = VALUE_CARE * (precision + search.precision) * starts
        accept = (steps == 0) | (fresh.loss <= point.loss + 1e-4 * slope + rounding + doubt)
        # Much of the slope is left where the curvature falls: the next step will fall short too.
        # Along one coordinate, that is; among several, stretched steps were seen to stray.
        short = (len(dual.target) == 1) & (fresh.gradient @ move < SHORT * slope)
        point = select(accept, fresh, point)
        if len(dual.target):
            direction = select(accept, newton_step(backend, dual, point), direction)
        length = select(accept, select(short, LONGER, 1.0), 0.25 * search.length)
        care = select(accept, precision, search.precision)
        return Search(point, direction, length, steps + 1, care)

    def going(search: Search) -> Array:
        return goes_on(missed_at(search.point), search, tolerance, max_steps)

    return backend.while_loop(going, step, search)


def goes_on(missed: Array, search: Search, tolerance: Array, max_steps: Array) -> Array:
    """Whether the search makes another step, so far from the minimum: the stopping rule."""
    far = missed > REST * tolerance
    unsure = search.precision > tolerance
    able = (search.steps < max_steps) & (search.length > SHORTEST)
    return (search.steps == 0) | ((far | unsure) & able)


def distance(backend: Backend, dual: Dual, point: Point) -> Array:
    """How far the gradient that no bound holds back is from 0, as a share of scale and of gain."""
    xp = backend.arrays
    free = ((point.x > dual.lower) | (point.gradient < 0)) & (
        (point.x < dual.upper) | (point.gradient > 0)
    )
    missed = xp.abs(xp.where(free, point.gradient, 0.0))
    worth = xp.maximum(1.0 / dual.scale, xp.abs(point.x) / xp.maximum(1, abs(point.loss)))
    return (missed * worth).max(initial=0.0)


class Leg(NamedTuple):
    """A step on its way from bound to bound."""

    direction: Array  # [D] gone so far
    free: Array  # [D] bool, coordinates that have met no bound
    blocked: Array  # whether the last leg ended at a bound
    legs: Array


def newton_step(backend: Backend, dual: Dual, point: Point) -> Array:
    """[D] the step from a point, never far beyond doubling a coordinate.

    Goes to the minimum of the quadratic model; a coordinate that meets its bound on the way stays
    there, and the others go on. The model falls along every leg, so the step as a whole leads
    downhill; clipping the plain Newton step would bend it, at times uphill.
    """
    xp = backend.arrays
    low, high = dual.lower - point.x, dual.upper - point.x
    free = ((low < 0) | (point.gradient < 0)) & ((high > 0) | (point.gradient > 0))
    longest = 2.0 * xp.abs(point.x) + dual.unit
    diagonal = point.curvature.diagonal()
    # A coordinate that the policy does not react to yet still goes downhill; directions without
    # any information stay where they are.
    steep = xp.abs(point.gradient) / longest
    ridge = xp.where(diagonal > 0, 1e-10 * diagonal, xp.where(steep > 0, steep, 1.0))
    model = point.curvature + xp.diag(ridge)

    def leg(at: Leg) -> Leg:
        direction, free = at.direction, at.free
        slope = point.gradient + model @ direction
        if xp is np and free.all():
            move = backend.linear_solve(model, -slope)
            if ((low - direction <= move) & (move <= high - direction)).all():  # no bound is met
                return Leg(direction + move, free, False, at.legs + 1)
        else:
            both = free[:, None] & free[None, :]
            held = xp.diag(xp.where(free, 0.0, 1.0))
            within = xp.where(both, model, 0.0) + held
            move = backend.linear_solve(within, -xp.where(free, slope, 0.0))
        room = xp.where(move < 0, low - direction, high - direction)
        share = xp.where(move != 0, room / xp.where(move != 0, move, 1.0), xp.inf)
        length = xp.minimum(1.0, share.min())
        blocked = free & (share <= length) & (length < 1.0)
        bound = xp.where(move < 0, low, high)
        direction = xp.where(blocked, bound, direction + length * move)
        return Leg(direction, free & xp.logical_not(blocked), length < 1.0, at.legs + 1)

    # Every leg but the last ends at a bound, so there are no more than coordinates and one.
    start = Leg(xp.zeros(point.x.shape), free, True, 0)
    going = lambda at: at.blocked & (at.legs <= len(point.x))  # noqa: E731
    direction = backend.while_loop(going, leg, start).direction
    # Shorten the step as a whole: shortening coordinates would bend it away from descent.
    return direction / xp.maximum(1.0, (xp.abs(direction) / longest).max())


@compiled_in_double
def minimise(
    backend: Backend, dual: Dual, x: Array, values: Array, tolerance: Array, max_steps: Array
) -> tuple[Point, Array]:
    """The `Point` of the minimum over lower <= x <= upper, and the evaluations it took."""
    start = begin(dual, x, values, arrays=backend.arrays)
    end = advanced(backend, dual, start, tolerance, max_steps)
    return end.point, end.steps
