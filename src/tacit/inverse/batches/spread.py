"""A batch where joblib says: in this process, or in pieces on others and on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from tacit.forward.smooth_dual import Problem
from tacit.forward.world import World
from tacit.inverse.batches.search import Found, Start, joined, search_here, some_of
from tacit.workers import each, told_to_spread

# Pieces of a batch that is spread: several for each of a few dozen workers' cores.
PIECES = 64


def search_many(
    world: World,
    problem: Problem,
    start: Start,
    count: int,
    *,
    told: Callable[[int], Any] | None = None,
    **settings: Any,
) -> Found:
    """What `search_here` finds with these settings, wherever that is done."""
    search = partial(search_here, **settings)
    if count < 2 or not told_to_spread():
        return search(world, problem, start, count, told=told)
    parts, done = [], 0
    for found in each(search, _pieces(world, problem, start, count)):
        parts.append(found)
        done += len(found.steps)
        if told is not None:
            told(done)
    return joined(parts, count)


def search_some(
    world: World, problem: Problem, start: Start, rows: np.ndarray, **settings: Any
) -> Found:
    """`search_many` of some rows [M] of a batch only."""
    return search_many(*some_of(world, problem, start, rows), len(rows), **settings)


def _pieces(
    world: World, problem: Problem, start: Start, count: int
) -> Iterator[tuple[World, Problem, Start, int]]:
    """The batch in pieces that can travel: NumPy arrays keep their 64 bits on the way."""
    if world.arrays is not np:
        import jax

        world = jax.tree.map(np.asarray, world)
    for rows in np.array_split(np.arange(count), min(PIECES, count)):
        yield *some_of(world, problem, start, rows), len(rows)
