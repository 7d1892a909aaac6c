"""One compiled search for a whole batch of problems of the same shape."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from tacit.engine import each, told_of_workers
from tacit.engine.backends import Array, Backend, compiled_in_double, this_device
from tacit.engine.soft_search import Dual, loss_at, minimise

# Problems in one compiled call on a CPU, which does them one after the other.
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
    doubled: Array  # [N] what twice the parameters would add to the loss, the ridge not counted
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
        chunk: problems at once; None takes as many as fit.
        told: called with the number of problems done.
    """
    parts = []
    if backend.arrays is np:  # a large model on a CPU: one problem fills the machine
        for n in range(count):
            parts.append(_search_one(*some_of(backend, problem, start, n), tolerance, max_steps))
            told(n + 1)
        return Found(*(np.stack(field) for field in zip(*parts, strict=True)))
    together = this_device().accelerator
    if together and hasattr(backend, "many"):
        backend = dataclasses.replace(backend, many=True)  # type: ignore[type-var]
    axes = 0 if _is_stack(backend) else None, _axes(problem, _DIMENSIONS), _axes(start, _START)
    if chunk is None:  # a power of two: batches of about the same number share compiled code
        chunk = min(_fitting(problem), 1 << (count - 1).bit_length()) if together else AT_ONCE
    for first in range(0, count, chunk):
        used = min(chunk, count - first)
        # The last chunk repeats its end: another shape would compile.
        rows = np.minimum(np.arange(first, first + chunk), count - 1)
        given = (*some_of(backend, problem, start, rows), tolerance, max_steps, used)
        parts.append(_searched(*given, axes=axes, chunk=chunk, together=together))
        told(first + used)
    return _joined(parts, count)


def _found(backend: Backend, problem: Dual, start: Start, tolerance: Array, limit: Array) -> Found:
    xp = backend.arrays
    point, steps = minimise.__wrapped__(backend, problem, start.x, start.values, tolerance, limit)
    bare = problem._replace(ridge=xp.zeros_like(problem.ridge))
    twice = loss_at.__wrapped__(backend, bare, 2.0 * point.x, point.values, tolerance)
    once = point.loss - 0.5 * problem.ridge @ (point.x * point.x)
    return Found(
        point.x,
        point.loss,
        point.gradient,
        point.table_values @ start.initial,
        point.values,
        point.residual,
        twice - once,
        steps,
    )


_search_one = compiled_in_double(_found)


def _batched(
    backend: Backend,
    problem: Dual,
    start: Start,
    tolerance: Array,
    limit: Array,
    used: Array,
    *,
    axes: tuple,
    chunk: int,
    together: bool,
) -> Found:
    """All searches in lockstep, or one after the other in one compiled loop.

    An accelerator wants many at once. A core does not: each then works in its cache, and none waits
    for the slowest.
    """
    import jax

    def one(backend: Backend, problem: Dual, start: Start) -> Found:
        return _found(backend, problem, start, tolerance, limit)

    if together:
        return jax.vmap(one, in_axes=axes)(backend, problem, start)
    backend_axis, *rest = axes

    def numbered(n: Array) -> Found:
        here = backend if backend_axis is None else jax.tree.map(lambda part: part[n], backend)
        own = (_rows_of(part, axis, n) for part, axis in zip((problem, start), rest, strict=True))
        return one(here, *own)

    def fill(n: Array, kept: Found) -> Found:
        return jax.tree.map(lambda part, fresh: part.at[n].set(fresh), kept, numbered(n))

    shapes = jax.eval_shape(numbered, 0)
    empty = jax.tree.map(lambda part: jax.numpy.zeros((chunk, *part.shape), part.dtype), shapes)
    return jax.lax.fori_loop(0, used, fill, empty)


_searched = compiled_in_double(_batched, static=("axes", "chunk", "together"))


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
