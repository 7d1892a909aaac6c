"""The search for the minimum of the smooth dual: Newton's step within bounds, and when it ends.

Every step goes towards the minimum of the quadratic model within the bounds, is shortened until the
loss falls enough, and looks as closely as the distance to the minimum deserves. The search ends
where the projected gradient is within the tolerance (`distance`, `going`). With very many
coordinates the step is found from products with the curvature alone (`bounded_step`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from tacit.engine.backends import Array, Backend
from tacit.engine.kernels import compiled_in_double
from tacit.engine.smooth_dual import VALUE_CARE, Dual, Point, evaluate

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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
    look_closely = backend.direct or len(dual.target) == 0
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
        move = xp.where(missed > REST * tolerance, search.length * direction, 0.0)
        trial = xp.clip(point.x + move, dual.lower, dual.upper)
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
        doubt = VALUE_CARE * (precision + search.precision) * xp.abs(dual.start).sum()
        accept = (steps == 0) | (fresh.loss <= point.loss + 1e-4 * slope + rounding + doubt)
        # Much of the slope is left where the curvature falls: the next step will fall short too.
        # Along one coordinate, that is; among several, stretched steps were seen to stray.
        short = (len(dual.target) == 1) & (fresh.gradient @ move < SHORT * slope)
        point = backend.select(accept, fresh, point)
        if len(dual.target):
            direction = xp.where(accept, newton_step(backend, dual, point), direction)
        length = xp.where(accept, xp.where(short, LONGER, 1.0), 0.25 * search.length)
        care = xp.where(accept, precision, search.precision)
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
    return direction / xp.maximum(1.0, xp.max(xp.abs(direction) / longest))


class Matrix(Protocol):
    """A symmetric matrix, not negative, that is known by its products with vectors."""

    def __matmul__(self, vector: np.ndarray, /) -> np.ndarray:
        """[D] the product with a vector [D]."""
        ...


# Numbers apart that neighbours may be, over the root of all: states of a plane.
NARROW = 10
# Products by which the largest eigenvalue of a matrix is found.
STRETCH = 8


def conjugate_gradients(
    matrix: Matrix,
    right: np.ndarray,
    free: np.ndarray,
    *,
    share: float,
    most: int,
    rough: Callable[[np.ndarray], np.ndarray],
) -> tuple[np.ndarray, int, float]:
    """[D] x with matrix x = right on the free coordinates; products taken; residual left.

    Args:
        matrix: of the system.
        right: [D].
        free: [D] bool; the others stay 0.
        share: of the right side, at which to stop.
        most: products.
        rough: an approximate inverse.
    """
    x, residual = np.zeros(len(right)), np.where(free, right, 0.0)
    whole = float(np.linalg.norm(residual))
    best, least = x, 1.0
    if whole == 0.0:
        return x, 0, 0.0
    direction = np.where(free, rough(residual), 0.0)
    square = float(residual @ direction)
    for taken in range(1, most + 1):
        image = np.where(free, matrix @ direction, 0.0)
        bend = float(direction @ image)
        if not bend > 1e-14 * float(direction @ direction):  # flat: nothing is known there
            return best, taken, least
        length = square / bend
        x, residual = x + length * direction, residual - length * image
        left = float(np.linalg.norm(residual)) / whole
        if left < least:
            best, least = x, left
        if left <= share:
            return best, taken, least
        ahead = np.where(free, rough(residual), 0.0)
        fresh = float(residual @ ahead)
        direction, square = ahead + fresh / square * direction, fresh
    return best, most, least


def bounded_step(
    matrix: Matrix,
    gradient: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    share: float,
    most: int,
) -> tuple[np.ndarray, int]:
    """[D] the step d to the minimum of d . matrix d / 2 + gradient . d within bounds; products.

    Conjugate gradients among the coordinates inside; where one meets its bound, a step of steepest
    descent that is cut off there; and off the bounds again where the slope leads inside and weighs
    more than what is left to gain (Dostal and Schoeberl, 2005).

    Args:
        matrix: of the quadratic model.
        gradient: [D] at no step.
        low: [D] at most 0.
        high: [D] at least 0.
        share: of the projected gradient, at which to stop.
        most: products.
    """
    can, d, g = high > low, np.zeros(len(gradient)), gradient
    fixed, products = 1.5 / max(_largest_eigenvalue(matrix, len(gradient)), 1e-300), STRETCH

    def slopes() -> tuple[np.ndarray, np.ndarray]:
        at_low, at_high = d <= low, d >= high
        inward = np.where(at_low, np.minimum(g, 0.0), np.where(at_high, np.maximum(g, 0.0), 0.0))
        return np.where(can & ~at_low & ~at_high, g, 0.0), np.where(can, inward, 0.0)

    inside, inward = slopes()
    aim, p = share * np.linalg.norm(inside + inward), inside
    while np.linalg.norm(inside + inward) > aim and products < most:
        room = np.where(inside > 0, d - low, d - high) / fixed
        reduced = np.where(inside > 0, np.minimum(room, inside), np.maximum(room, inside))
        leaving = bool(inward @ inward > reduced @ inside)
        p = inward if leaving else p
        image = matrix @ p
        bend = float(p @ image)
        room = np.where(p > 0, d - low, d - high) / np.where(p != 0, p, 1.0)
        furthest = float(np.where(p != 0, room, np.inf).min())
        length = float(g @ p) / bend if bend > 1e-14 * float(p @ p) else np.inf
        step = min(length, furthest)
        if not np.isfinite(step):  # flat, and no bound ahead
            break
        d, g, products = np.clip(d - step * p, low, high), g - step * image, products + 1
        blocked = length > furthest
        if blocked and not leaving:
            d = np.clip(d - fixed * np.where(can, g, 0.0), low, high)
            g, products = gradient + matrix @ d, products + 1
        inside, inward = slopes()
        p = inside if blocked or leaving else inside - float(inside @ image) / bend * p
    return d, products


def inverse_by_values(
    moves: csr_array,
    policy: np.ndarray,
    visits: np.ndarray,
    discount: float,
    worth: np.ndarray,
    penalty: csr_array,
) -> Callable[[np.ndarray], np.ndarray] | None:
    """What divides by a curvature and its penalty, where every state has a feature of its own.

    A direction d has the values V of (I - discount P) V = worth d, in which all is sparse: the
    curvature is V' K V with K = sum_s visits(s) Cov_a[discount p(. | s, a)]. So one factorisation
    serves every right side. None where states lie so that it would fill up: on no line or plane.

    Args:
        moves: [S * A, S] chances of the next state.
        policy: [S, A].
        visits: [S] not negative.
        discount: of the values.
        worth: [S] what a parameter of one pays in its state, not 0.
        penalty: [S, S].
    """
    from scipy.sparse import csc_array, csr_array, diags_array, eye_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee
    from scipy.sparse.linalg import splu

    states, actions = policy.shape
    places = np.arange(states * actions), np.arange(0, states * actions + 1, actions)
    average = csr_array((policy.ravel(), *places), shape=(states, states * actions))
    ahead = discount * moves
    mean = csr_array(average @ ahead)
    rank = np.argsort(reverse_cuthill_mckee(csr_array(mean + mean.T), True))
    if (
        np.abs(rank[mean.nonzero()[0]] - rank[mean.nonzero()[1]]).max(initial=0)
        > NARROW * states**0.5
    ):
        return None
    weights = diags_array((visits[:, None] * policy).ravel())
    spread = ahead.T @ weights @ ahead - mean.T @ diags_array(visits) @ mean
    back = csr_array(diags_array(1.0 / worth) @ (eye_array(states) - mean))
    # What neither steps nor the penalty know of, and rounding does, must not be multiplied.
    held = penalty + 1e-4 * float(penalty.diagonal().mean()) * eye_array(states)
    factor = splu(
        csc_array(spread + back.T @ held @ back),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    return lambda right: back @ factor.solve(back.T @ right)


def _largest_eigenvalue(matrix: Matrix, size: int) -> float:
    """About the largest eigenvalue, by powers of the matrix."""
    x, found = np.random.default_rng(0).normal(size=size), 0.0
    for _ in range(STRETCH):
        x = matrix @ (x / max(float(np.linalg.norm(x)), 1e-300))
        found = float(np.linalg.norm(x))
    return 1.2 * found
