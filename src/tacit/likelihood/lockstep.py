"""One search for a whole batch of problems of the same shape, one compiled call an evaluation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tacit.engine import each, told_of_workers
from tacit.engine.backends import Array, Backend, compiled_in_double, placed, this_device
from tacit.likelihood.rescue import RESCUE, is_boundless, is_infinite
from tacit.search import minimise, smooth_dual
from tacit.search.operators import Matrices
from tacit.search.smooth_dual import Dual, loss_error

# Problems in one compiled call on a CPU, which does them one after the other, and fewest on an
# accelerator: few shapes are compiled.
AT_ONCE = 256

# Pieces of a batch for workers: several for each of a few dozen workers' cores.
PIECES = 64

Progress = Callable[[int], None]


class Duals(NamedTuple):
    """Smooth duals of one shape, and where their searches begin.

    What all problems share has the axes of one; anything else has the batch in front.
    """

    backend: Backend  # the dynamics, or a stack of dense models
    dual: Dual
    initial: Array  # [S] or [N, S]
    x: Array  # [D] or [N, D]
    values: Array  # [S] or [N, S]

    def taken(self, rows: Array) -> Duals:
        """Those of these rows [n], or the one of this row."""
        backend = self.backend
        if _is_stack(backend):
            import jax

            backend = jax.tree.map(lambda part: part[rows], backend)
        places = (minimise.of(part, rows) for part in (self.initial, self.x, self.values))
        return Duals(backend, _rows_of(self.dual, _batched(self.dual), rows), *places)


class Minima(NamedTuple):
    """Where the searches of N problems ended."""

    x: Array  # [N, D]
    loss: Array  # [N]
    gradient: Array  # [N, D]
    spent: Array  # [N, D] discounted sums of the tables from the initial states
    values: Array  # [N, S]
    residual: Array  # [N] Bellman residual left
    boundless: Array  # [N] bool, see `is_boundless`
    steps: Array  # [N] evaluations

    def met(self, dual: Dual, limit: float) -> tuple[np.ndarray, np.ndarray]:
        """[N] the projected gradients of searches, and whether these ended within the limit."""
        held = (self.x <= dual.lower) & (self.gradient > 0)
        held |= (self.x >= dual.upper) & (self.gradient < 0)
        left = np.where(held, 0.0, self.gradient / dual.scale)
        gradient = np.abs(left).max(axis=1, initial=0.0)
        size = 1.0 + np.abs(self.values).max(axis=1)
        return gradient, (gradient <= limit) & (self.residual <= 1e-8 * size)

    @classmethod
    def joined(cls, parts: Sequence[Minima]) -> Minima:
        """All parts, one after the other."""
        return cls(*(np.concatenate(field) for field in zip(*parts, strict=True)))


# Axes of one problem's fields.
_AXES = Dual(
    start=1,
    discount=0,
    temperature=0,
    base=2,
    tables=3,
    target=1,
    lower=1,
    upper=1,
    ridge=1,
    unit=1,
    scale=1,
    information=1,
)


def minima(
    duals: Duals,
    count: int,
    *,
    tolerance: float,
    max_steps: int,
    visible: float = 0.0,
    ridge: np.ndarray | float = RESCUE,
    chunk: int | None = None,
    progress: Progress = lambda done: None,
) -> Minima:
    """The `Minima` of `count` problems, with a ridge where the best parameters are infinite.

    Args:
        duals: the problems.
        count: N.
        tolerance: of every search.
        max_steps: likewise.
        visible: loss that larger parameters must cost; 0 where no ridge is to be taken.
        ridge: [D] or [N, D] pull of the parameters towards 0 that is taken then.
        chunk: problems at once; None takes as many as fit.
        progress: called with the number of problems done.
    """
    rules: dict[str, Any] = {"tolerance": tolerance, "max_steps": max_steps, "chunk": chunk}
    ends = _minima_anywhere(duals, count, visible=visible, progress=progress, **rules)
    if visible == 0.0:
        return ends
    dual = duals.dual
    settled = ends.met(dual, tolerance)[1] & (ends.steps < max_steps)
    moving = np.asarray(dual.lower < dual.upper)
    infinite = is_infinite(ends.x, moving, settled=settled, flat=ends.boundless)
    if infinite.any():
        rows = np.flatnonzero(infinite)
        pull = ridge * infinite[:, None] + np.zeros_like(dual.ridge)
        begin = duals._replace(dual=dual._replace(ridge=pull), x=ends.x, values=ends.values)
        finite = _minima_anywhere(begin.taken(rows), len(rows), **rules)
        for every, fresh in zip(ends, finite, strict=True):
            every[rows] = fresh
    return ends._replace(boundless=infinite)


def _minima_anywhere(
    duals: Duals,
    count: int,
    *,
    tolerance: float,
    max_steps: int,
    visible: float = 0.0,
    chunk: int | None,
    progress: Progress = lambda done: None,
) -> Minima:
    """Where the searches end, by workers where there are some."""
    search = partial(
        _minima_here, tolerance=tolerance, max_steps=max_steps, visible=visible, chunk=chunk
    )
    if count < 2 or not told_of_workers():
        return search(duals, count, progress=progress)
    if duals.backend.arrays is not np:  # NumPy arrays keep their 64 bits on the way to a worker
        import jax

        duals = duals._replace(backend=jax.tree.map(np.asarray, duals.backend))
    split = np.array_split(np.arange(count), min(PIECES, count))
    parts, done = [], 0
    for part in each(search, ((duals.taken(rows), len(rows)) for rows in split)):
        parts.append(part)
        done += len(part.steps)
        progress(done)
    return Minima.joined(parts)


def _minima_here(
    duals: Duals,
    count: int,
    *,
    tolerance: float,
    max_steps: int,
    visible: float,
    chunk: int | None,
    progress: Progress = lambda done: None,
) -> Minima:
    """The same in this process."""
    parts, rules = [], (tolerance, max_steps, visible)
    if duals.backend.arrays is np:  # a large model on a CPU: one problem fills the machine
        for n in range(count):
            one = duals.taken(n)
            problem = smooth_dual.DualProblem(one.backend, one.dual, one.values)
            parts.append(_minima(problem, one, 1, *rules))
            progress(n + 1)
        return Minima.joined(parts)
    together = this_device().accelerator
    if together and hasattr(duals.backend, "many"):
        backend = dataclasses.replace(duals.backend, many=True)  # type: ignore[type-var]
        duals = duals._replace(backend=backend)
    if chunk is None:  # a power of two: batches of about the same number share compiled code
        most = 1 << (count - 1).bit_length()
        chunk = min(_fitting(duals.dual), most) if together else AT_ONCE
    for first in range(0, count, chunk):
        used = min(chunk, count - first)
        # The last chunk repeats its end: another shape would compile.
        some = duals.taken(np.minimum(np.arange(first, first + chunk), count - 1))
        problem = DualProblems(some, chunk, together=together)
        parts.append(_minima(problem, some, used, *rules))
        progress(first + used)
    return Minima.joined(parts)


class Kept(NamedTuple):
    """What evaluations of a batch begin from, on its device."""

    x: Array  # [n, D]
    values: Array  # [n, S]
    table_values: Array  # [n, D, S]
    residual: Array  # [n] Bellman residual left


@dataclasses.dataclass(frozen=True, eq=False)
class DeviceParts:
    """What is kept of some problems, at these places [n] of longer arrays of one shape."""

    backend: Backend
    kept: Kept
    places: np.ndarray

    def taken(self, mask: np.ndarray) -> DeviceParts:
        """That of the problems in a mask [n]."""
        return dataclasses.replace(self, places=self.places[mask])

    def replaced(self, rows: np.ndarray, fresh: DeviceParts) -> DeviceParts:
        """The same with that of these problems new."""
        targets = np.full(len(fresh.kept.x), len(self.kept.x))  # beyond the end: left out
        targets[fresh.places] = rows
        return dataclasses.replace(
            self, kept=_replaced(self.backend, self.kept, fresh.kept, targets)
        )


class DualProblems:
    """Smooth duals of one shape as the search asks for them: one compiled call an evaluation."""

    ties = None

    def __init__(self, duals: Duals, count: int, *, together: bool) -> None:
        dual, backend = duals.dual, duals.backend
        self.lower, self.upper, self.unit = dual.lower, dual.upper, dual.unit
        self.exact = backend.direct
        size, states = dual.target.shape[-1], dual.base.shape[-2]
        self._starts = np.broadcast_to(np.abs(dual.start).sum(axis=-1), count)
        self._target = np.broadcast_to(np.abs(dual.target), (count, size))
        self._scale = np.broadcast_to(dual.scale, (count, size))
        self._axes, self._together = _batched(dual), together
        self._dual = placed(backend, dual)
        begun = Kept(
            x=np.broadcast_to(duals.x, (count, size)),
            values=np.broadcast_to(duals.values, (count, states)),
            table_values=np.zeros((count, size, states)),
            residual=np.zeros(count),
        )
        self._begun = DeviceParts(backend, placed(backend, begun), np.arange(count))

    def at(
        self,
        z: np.ndarray,
        rows: np.ndarray,
        near: minimise.Point | None,
        precision: np.ndarray,
        *,
        lean: bool = False,
    ) -> minimise.Point:
        """The losses and their derivatives at z [n, D]; see `minimise.SearchProblem`."""
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
            detail=DeviceParts(before.backend, kept, np.arange(used)),
        )


def _minima(
    problem: smooth_dual.DualProblem | DualProblems,
    duals: Duals,
    count: int,
    tolerance: float,
    max_steps: int,
    visible: float,
) -> Minima:
    """Where the searches of the first `count` problems end."""
    rows, dual = np.arange(count), duals.dual
    start = minimise.begin(np.zeros((count, np.shape(duals.x)[-1])) + minimise.of(duals.x, rows))
    end = minimise.minimise(problem, start, tolerance=tolerance, max_steps=max_steps)
    point = end.point
    assert point is not None

    def rise(places: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """[n] what these places of some problems add to the loss, the ridge not counted."""
        there = problem.at(places, rows, point, np.full(len(rows), tolerance)).loss
        ridge = 0.5 * minimise.of(dual.ridge, rows) * (places**2 - end.z[rows] ** 2)
        return (there - point.loss[rows]) - ridge.sum(axis=1)

    assert isinstance(point.curvature, Matrices)
    boundless = np.zeros(count, bool)
    if visible > 0.0:
        ends = (dual.lower, dual.upper)
        lower, upper = (minimise.of(np.asarray(one), rows) for one in ends)
        curvature = Matrices(point.curvature.values[:count])
        boundless = is_boundless(
            rise, end.z, lower=lower, upper=upper, curvature=curvature, threshold=visible
        )
    kept = point.detail.kept if isinstance(point.detail, DeviceParts) else point.detail
    values, slopes, residual = (
        np.asarray(part).reshape(-1, *np.shape(part)[-axes:] if axes else ())[:count]
        for part, axes in ((kept.values, 1), (kept.table_values, 2), (kept.residual, 0))
    )
    initial = np.broadcast_to(minimise.of(duals.initial, rows), values.shape)
    return Minima(
        x=end.z,
        loss=point.loss,
        gradient=point.gradient,
        spent=(slopes @ initial[:, :, None])[:, :, 0],
        values=values,
        residual=residual,
        boundless=boundless,
        steps=end.evaluations,
    )


def _evaluate_each(
    backend: Backend,
    dual: Dual,
    kept: Kept,
    x: Array,
    which: Array,
    precision: Array,
    used: Array,
    *,
    axes: Dual,
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


def _is_stack(backend: Backend) -> bool:
    """Whether this is a stack of models, one a problem."""
    return np.ndim(getattr(backend, "matrix", np.zeros(3))) == 4


def _batched(dual: Dual) -> Dual:
    """0 for every field that has the batch in front, None for the others."""
    return Dual(*(0 if np.ndim(p) > axes else None for p, axes in zip(dual, _AXES, strict=True)))


def _rows_of(dual: Dual, batched: Dual, rows: Array) -> Dual:
    """The dual with these rows of what has the batch in front."""
    pairs = zip(dual, batched, strict=True)
    return Dual(*(part if axis is None else part[rows] for part, axis in pairs))


def _fitting(problem: Dual) -> int:
    """How many problems fit into the memory at once."""
    size, states, actions = np.shape(problem.tables)[-3:]
    # The elimination holds a few [S, S + D], the derivatives a few [D, S, A].
    bytes_each = 8 * states * (6 * (states + size) + 4 * actions * (size + 1))
    return max(1, int(this_device().memory // 8 // bytes_each))
