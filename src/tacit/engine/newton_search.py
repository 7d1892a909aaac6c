"""The search for the minimum of the smooth dual: Newton's step within bounds, and when it ends.

Every step goes towards the minimum of the quadratic model within the bounds, is shortened until the
loss falls enough, and looks as closely as the distance to the minimum deserves. The search ends
where the projected gradient is within the tolerance (`distance`, `going`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.engine.backends import Array, Backend
from tacit.engine.process import compiled_in_double
from tacit.engine.smooth_dual import VALUE_CARE, Dual, Point, evaluate

# A point is evaluated to this share of the last one's distance from the minimum, to the square of
# that distance where Newton's steps square it, and to `ROUGH` at worst.
CARE, ROUGH = 0.1, 0.1
# Newton's step in one coordinate is stretched after one that left this share of the slope.
SHORT, LONGER = 0.4, 2.0
# Share of the tolerance at which the search stops.
REST = 0.1
# A step shortened to less than this share of Newton's gains nothing more.
SHORTEST = 1e-12


class Search(NamedTuple):
    """Where a search stands: all that its next step needs."""

    point: Point
    direction: Array  # [D] to go from there
    length: Array  # share of the direction to try next
    steps: Array  # evaluations made
    precision: Array  # tolerance that the point was evaluated to


@compiled_in_double
def minimise(
    backend: Backend, dual: Dual, x: Array, values: Array, tolerance: Array, max_steps: Array
) -> tuple[Point, Array]:
    """The `Point` of the minimum over lower <= x <= upper, and the evaluations it took."""
    start = begin(dual, x, values, arrays=backend.arrays)
    end = _advanced(backend, dual, start, tolerance, max_steps)
    return end.point, end.steps


@compiled_in_double
def advance(
    backend: Backend, dual: Dual, search: Search, tolerance: Array, max_steps: Array, until: Array
) -> Search:
    """The `Search` after `until` evaluations in all, or where it ends before.

    The bound is a number like any other: a search made in pieces runs the same machine code as one
    made at once, and ends at the same bits.
    """
    limit = backend.arrays.minimum(max_steps, until)
    return _advanced(backend, dual, search, tolerance, limit)


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


def _advanced(
    backend: Backend, dual: Dual, search: Search, tolerance: Array, max_steps: Array
) -> Search:
    xp = backend.arrays

    def step(search: Search) -> Search:
        point, direction, steps = search.point, search.direction, search.steps
        missed = distance(backend, dual, point)
        # At the minimum, as far as a rough look can tell: look again, from where it is.
        move = xp.where(missed > REST * tolerance, search.length * direction, 0.0)
        trial = xp.clip(point.x + move, dual.lower, dual.upper)
        move = trial - point.x
        guess = point.values + move @ point.table_values
        # Far from the minimum a rough look will do: the next step is only as good as its model.
        rough = xp.minimum(ROUGH, xp.minimum(CARE, missed) * missed)
        rough = xp.where(steps == 0, ROUGH, rough)
        look_closely = backend.direct or len(dual.target) == 0
        precision = tolerance if look_closely else xp.maximum(tolerance, rough)
        fresh = evaluate(backend, dual, trial, guess, precision, near=point)
        slope = xp.minimum(point.gradient @ move, 0.0)
        rounding = 1e-13 * (xp.abs(point.loss) + xp.abs(point.x) @ xp.abs(dual.target))
        doubt = VALUE_CARE * (precision + search.precision) * xp.abs(dual.start).sum()
        accept = (steps == 0) | (fresh.loss <= point.loss + 1e-4 * slope + rounding + doubt)
        # Much of the slope is left where the curvature falls: the next step will fall short too.
        # Along one coordinate, that is; among several, stretched steps were seen to stray.
        short = (len(dual.target) == 1) & (fresh.gradient @ move < SHORT * slope)
        point = backend.select(accept, fresh, point)
        if len(dual.target):
            direction = xp.where(accept, newton_step(backend, dual, point), direction)
        length = xp.where(accept, xp.where(short, LONGER, 1.0), 0.25 * search.length)
        known = xp.where(accept, precision, search.precision)
        return Search(point, direction, length, steps + 1, known)

    def going(search: Search) -> Array:
        return goes_on(backend, dual, search, tolerance, max_steps)

    return backend.while_loop(going, step, search)


def goes_on(
    backend: Backend, dual: Dual, search: Search, tolerance: Array, max_steps: Array
) -> Array:
    """Whether the search makes another step: the stopping rule."""
    far = distance(backend, dual, search.point) > REST * tolerance
    unsure = search.precision > tolerance
    able = (search.steps < max_steps) & (search.length > SHORTEST)
    return (search.steps == 0) | ((far | unsure) & able)


def distance(backend: Backend, dual: Dual, point: Point) -> Array:
    """How far the gradient is from 0, as a share of its own scale and of what it could gain."""
    xp = backend.arrays
    missed = xp.abs(projected_gradient(backend, dual, point))
    worth = xp.maximum(1.0 / dual.scale, xp.abs(point.x) / xp.maximum(1, abs(point.loss)))
    return (missed * worth).max(initial=0.0)


def projected_gradient(backend: Backend, dual: Dual, point: Point) -> Array:
    """[D] the gradient, 0 where a bound holds it back."""
    xp = backend.arrays
    free = ((point.x > dual.lower) | (point.gradient < 0)) & (
        (point.x < dual.upper) | (point.gradient > 0)
    )
    return xp.where(free, point.gradient, 0.0)


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
    diagonal = xp.diagonal(point.curvature)
    # A coordinate that the policy does not react to yet still goes downhill; directions without
    # any information stay where they are.
    steep = xp.abs(point.gradient) / longest
    ridge = xp.where(diagonal > 0, 1e-10 * diagonal, xp.where(steep > 0, steep, 1.0))
    model = point.curvature + xp.diag(ridge)

    def leg(at: Leg) -> Leg:
        direction, free = at.direction, at.free
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
        return Leg(direction, free & xp.logical_not(blocked), length < 1.0, at.legs + 1)

    # Every leg but the last ends at a bound, so there are no more than coordinates and one.
    start = Leg(xp.zeros_like(point.x), free, True, 0)
    going = lambda at: at.blocked & (at.legs <= len(point.x))  # noqa: E731
    direction = backend.while_loop(going, leg, start).direction
    # Shorten the step as a whole: shortening coordinates would bend it away from descent.
    return direction / xp.maximum(1.0, xp.max(xp.abs(direction) / longest))
