"""One search for a whole batch of problems of the same shape, one compiled call an evaluation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tacit.engine import each, told_of_workers
from tacit.engine.backends import Array, Backend, compiled_in_double, placed, this_device
from tacit.likelihood.rescue import DEAR, outward_step
from tacit.search import minimise, smooth_dual
from tacit.search.operators import Matrices
from tacit.search.smooth_dual import Dual, loss_error

# Problems in one compiled call on a CPU, which does them one after the other, and fewest on an
# accelerator: few shapes are compiled.
AT_ONCE = 256

Told = Callable[[int], None]


class Found(NamedTuple):
    """Where the searches of a batch ended."""

    x: Array  # [N, D]
    loss: Array  # [N]
    gradient: Array  # [N, D]
    spent: Array  # [N, D] discounted sums of the tables from the initial states
    values: Array  # [N, S]
    residual: Array  # [N] Bellman residual left
    boundless: Array  # [N] bool, see `is_boundless`
    steps: Array  # [N] evaluations


class Start(NamedTuple):
    """What a search needs besides its problem."""

    initial: Array  # [S] or [N, S]
    x: Array  # [D] or [N, D]
    values: Array  # [S] or [N, S]


Fields = TypeVar("Fields", Dual, Start)

# Dimensions of one problem's fields: a field with one more has the batch in front.
_DIMENSIONS = Dual(1, 0, 0, 2, 3, 1, 1, 1, 1, 1, 1, 1)
_START = Start(1, 1, 1)


def search_here(
    backend: Backend,
    problem: Dual,
    start: Start,
    count: int,
    *,
    tolerance: float,
    max_steps: int,
    visible: float = 0.0,
    chunk: int | None = None,
    told: Told = lambda done: None,
) -> Found:
    """The minima of `count` problems that share the shape, and the backend or a stack of models.

    Args:
        backend: the dynamics; of a stack, every array has the batch in front.
        problem: fields of one problem, shared by all, or with the batch in front.
        start: likewise.
        count: N.
        tolerance: of every search.
        max_steps: likewise.
        visible: loss that larger parameters must cost; 0 where that is not asked.
        chunk: problems at once; None takes as many as fit.
        told: called with the number of problems done.
    """
    parts = []
    settings = {"tolerance": tolerance, "max_steps": max_steps, "visible": visible}
    if backend.arrays is np:  # a large model on a CPU: one problem fills the machine
        for n in range(count):
            one, dual, begin = some_of(backend, problem, start, n)
            alone = smooth_dual.DualProblem(one, dual, begin.values)
            parts.append(_found(alone, dual, begin, 1, **settings))
            told(n + 1)
        return _joined(parts, count)
    together = this_device().accelerator
    if together and hasattr(backend, "many"):
        backend = dataclasses.replace(backend, many=True)  # type: ignore[type-var]
    if chunk is None:  # a power of two: batches of about the same number share compiled code
        chunk = min(_fitting(problem), 1 << (count - 1).bit_length()) if together else AT_ONCE
    for first in range(0, count, chunk):
        used = min(chunk, count - first)
        # The last chunk repeats its end: another shape would compile.
        rows = np.minimum(np.arange(first, first + chunk), count - 1)
        some, dual, begin = some_of(backend, problem, start, rows)
        many = DualProblems(some, dual, begin, chunk, together=together)
        parts.append(_found(many, dual, begin, used, **settings))
        told(first + used)
    return _joined(parts, count)


class Kept(NamedTuple):
    """What evaluations of a batch begin from, on its device."""

    x: Array  # [n, D]
    values: Array  # [n, S]
    table_values: Array  # [n, D, S]
    residual: Array  # [n] Bellman residual left


@dataclasses.dataclass(frozen=True, eq=False)
class Details:
    """What is kept of some problems, at these places [n] of longer arrays of one shape."""

    backend: Backend
    kept: Kept
    places: np.ndarray

    def taken(self, mask: np.ndarray) -> Details:
        """That of the problems in a mask [n]."""
        return dataclasses.replace(self, places=self.places[mask])

    def replaced(self, rows: np.ndarray, fresh: Details) -> Details:
        """The same with that of these problems new."""
        targets = np.full(len(fresh.kept.x), len(self.kept.x))  # beyond the end: left out
        targets[fresh.places] = rows
        return dataclasses.replace(
            self, kept=_replaced(self.backend, self.kept, fresh.kept, targets)
        )


class DualProblems:
    """Smooth duals of one shape as the search asks for them: one compiled call an evaluation."""

    ties = None

    def __init__(
        self, backend: Backend, dual: Dual, start: Start, count: int, *, together: bool
    ) -> None:
        self.lower, self.upper, self.unit = dual.lower, dual.upper, dual.unit
        self.exact = backend.direct
        self._starts = np.broadcast_to(np.abs(dual.start).sum(axis=-1), count)
        shape = count, dual.target.shape[-1]
        self._target = np.broadcast_to(np.abs(dual.target), shape)
        self._scale = np.broadcast_to(dual.scale, shape)
        self._axes, self._together = _axes(dual, _DIMENSIONS), together
        size, states = dual.target.shape[-1], dual.base.shape[-2]
        self._dual = placed(backend, dual)
        begun = Kept(
            x=np.broadcast_to(start.x, (count, size)),
            values=np.broadcast_to(start.values, (count, states)),
            table_values=np.zeros((count, size, states)),
            residual=np.zeros(count),
        )
        self._begun = Details(backend, placed(backend, begun), np.arange(count))

    def at(
        self,
        z: np.ndarray,
        rows: np.ndarray,
        near: minimise.Point | None,
        precision: np.ndarray,
        *,
        lean: bool = False,
    ) -> minimise.Point:
        """The losses and their derivatives at z [n, D]; see `minimise.Problem`."""
        before = self._begun if near is None else near.detail
        count, used = len(before.kept.x), len(rows)
        width = count
        if self._together:
            width = min(count, max(AT_ONCE, 1 << (used - 1).bit_length()))
        padded = np.minimum(np.arange(width), used - 1)
        loss, gradient, curvature, kept = _evaluated(
            before.backend,
            self._dual,
            before.kept,
            z[padded],
            rows[padded],
            precision[padded],
            used,
            axes=self._axes,
            together=self._together,
        )
        loss = np.asarray(loss)[:used]
        rough = precision * self._starts[rows]
        return minimise.Point(
            loss=loss,
            gradient=np.asarray(gradient)[:used],
            curvature=Matrices(np.asarray(curvature)[:used]),
            error=loss_error(loss, z, self._target[rows], rough),
            scale=self._scale[rows],
            detail=Details(before.backend, kept, np.arange(used)),
        )


def _found(
    problem: Any,
    dual: Dual,
    start: Start,
    count: int,
    *,
    tolerance: float,
    max_steps: int,
    visible: float,
) -> Found:
    """Where the searches of the first `count` problems end."""
    rows = np.arange(count)
    begun = minimise.begin(np.zeros((count, np.shape(start.x)[-1])) + minimise.of(start.x, rows))
    end = minimise.minimise(problem, begun, tolerance=tolerance, max_steps=max_steps)
    assert end.point is not None
    x, loss = end.z, end.point.loss
    boundless = _boundless(problem, dual, end, rows, tolerance, visible)
    detail = end.point.detail
    kept = detail.kept if isinstance(detail, Details) else detail
    values, slopes, residual = (
        np.asarray(part).reshape(-1, *np.shape(part)[-axes:] if axes else ())[:count]
        for part, axes in ((kept.values, 1), (kept.table_values, 2), (kept.residual, 0))
    )
    initial = np.broadcast_to(minimise.of(start.initial, rows), values.shape)
    return Found(
        x=x,
        loss=loss,
        gradient=end.point.gradient,
        spent=(slopes @ initial[:, :, None])[:, :, 0],
        values=values,
        residual=residual,
        boundless=boundless,
        steps=end.evaluations,
    )


def _boundless(
    problem: Any,
    dual: Dual,
    end: minimise.Search,
    rows: np.ndarray,
    tolerance: float,
    visible: float,
) -> np.ndarray:
    """[N] bool, for which of these problems `is_boundless` would be true."""
    x, near = end.z, end.point
    assert near is not None
    assert isinstance(near.curvature, Matrices)

    def added(places: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """[n] what these places of some problems add to the loss, the ridge not counted."""
        there = problem.at(places, rows, near, np.full(len(rows), tolerance)).loss
        ridge = 0.5 * minimise.of(dual.ridge, rows) * (places**2 - x[rows] ** 2)
        return (there - near.loss[rows]) - ridge.sum(axis=1)

    boundless, curvature = np.zeros(len(rows), bool), near.curvature.values[: len(rows)]
    step = outward_step(x[rows], Matrices(curvature))
    rise = (step[:, None, :] @ curvature @ step[:, :, None])[:, 0, 0]
    large = np.abs(x[rows]).max(axis=1, initial=0.0) > 1.0
    some = np.flatnonzero(large & (rise <= DEAR * visible))
    if some.size:
        boundless[some] = added(2.0 * x[some], some) < visible
    some = some[~boundless[some]]
    if some.size:
        ahead, alone = x[some] + step[some], step[some]
        with np.errstate(invalid="ignore"):  # at discount 1 both may be infinite: nothing is seen
            seen = np.abs(added(alone, some) - added(0.0 * alone, some)) >= visible
        boundless[some] = (added(ahead, some) < visible) & seen
    return boundless


def _evaluate_each(
    backend: Backend,
    dual: Dual,
    kept: Kept,
    x: Array,
    which: Array,
    precision: Array,
    used: Array,
    *,
    axes: tuple,
    together: bool,
) -> tuple[Array, Array, Array, Kept]:
    """Losses, gradients, curvatures and `Kept` of problems, in lockstep or one after the other.

    An accelerator wants many at once. A core does not: each then works in its cache.
    """
    import jax

    stack = _is_stack(backend)

    def one(n: Array) -> tuple[Array, Array, Array, Kept]:
        i = which[n]
        here = jax.tree.map(lambda part: part[i], backend) if stack else backend
        near = Kept(*(part[i] for part in kept))
        values = near.values + (x[n] - near.x) @ near.table_values
        point = smooth_dual.evaluate(here, _rows_of(dual, axes, i), x[n], values, precision[n])
        fresh = Kept(point.x, point.values, point.table_values, point.residual)
        return point.loss, point.gradient, point.curvature, fresh

    if together:
        return jax.vmap(one)(jax.numpy.arange(len(which)))
    shapes = jax.eval_shape(one, 0)
    empty = jax.tree.map(lambda s: jax.numpy.zeros((len(which), *s.shape), s.dtype), shapes)

    def fill(n: Array, made: Any) -> Any:
        return jax.tree.map(lambda part, fresh: part.at[n].set(fresh), made, one(n))

    return jax.lax.fori_loop(0, used, fill, empty)


_evaluated = compiled_in_double(_evaluate_each, static=("axes", "together"), kept=True)


@partial(compiled_in_double, kept=True)
def _replaced(backend: Backend, kept: Kept, fresh: Kept, targets: Array) -> Kept:
    """What is kept, with the fresh in these places [n]."""
    pairs = zip(kept, fresh, strict=True)
    return Kept(*(part.at[targets].set(new, mode="drop") for part, new in pairs))


def some_of(
    backend: Backend, problem: Dual, start: Start, rows: Array
) -> tuple[Backend, Dual, Start]:
    """Some rows [M] of a batch, or one."""
    if _is_stack(backend):
        import jax

        backend = jax.tree.map(lambda part: part[rows], backend)
    return (
        backend,
        _rows_of(problem, _axes(problem, _DIMENSIONS), rows),
        _rows_of(start, _axes(start, _START), rows),
    )


def _joined(parts: list[Found], count: int) -> Found:
    """The first `count` problems of the parts, as one."""
    return Found(*(np.concatenate(field)[:count].copy() for field in zip(*parts, strict=True)))


def _is_stack(backend: Backend) -> bool:
    """Whether this is a stack of models, one a problem."""
    return np.ndim(getattr(backend, "matrix", np.zeros(3))) == 4


def _axes(fields: Fields, dimensions: Fields) -> Fields:
    """0 for every field that has the batch in front, None for the others."""
    pairs = zip(fields, dimensions, strict=True)
    return type(fields)(*(0 if np.ndim(part) > plain else None for part, plain in pairs))


def _rows_of(fields: Array, axes: tuple, rows: Array) -> Array:
    pairs = zip(fields, axes, strict=True)
    return type(fields)(*(part if axis is None else part[rows] for part, axis in pairs))


def _fitting(problem: Dual) -> int:
    """How many problems fit into the memory at once."""
    size, states, actions = np.shape(problem.tables)[-3:]
    # The elimination holds a few [S, S + D], the derivatives a few [D, S, A].
    bytes_each = 8 * states * (6 * (states + size) + 4 * actions * (size + 1))
    return max(1, int(this_device().memory // 8 // bytes_each))


# Pieces of a batch for workers: several for each of a few dozen workers' cores.
PIECES = 64


def search_many(
    backend: Backend,
    problem: Dual,
    start: Start,
    count: int,
    *,
    told: Told = lambda done: None,
    **settings: Array,
) -> Found:
    """What `search_here` finds with these settings, wherever that is done."""
    search = partial(search_here, **settings)
    if count < 2 or not told_of_workers():
        return search(backend, problem, start, count, told=told)
    if backend.arrays is not np:  # NumPy arrays keep their 64 bits on the way to a worker
        import jax

        backend = jax.tree.map(np.asarray, backend)
    split = np.array_split(np.arange(count), min(PIECES, count))
    pieces = ((*some_of(backend, problem, start, rows), len(rows)) for rows in split)
    parts, done = [], 0
    for found in each(search, pieces):
        parts.append(found)
        done += len(found.steps)
        told(done)
    return _joined(parts, count)
