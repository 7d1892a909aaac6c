"""Compiled loops on several cores: they let go of the interpreter, so plain threads will do."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tacit.workers import cores as allowed_cores

Item = TypeVar("Item")

# Rows below which handing out work costs more than it saves.
WORTH = 50_000


def cores() -> int:
    """How many threads to use: what this process may run on, or OMP_NUM_THREADS where it is set.

    Worker processes of joblib and Dask set that to 1, so that they do not fight for the cores.
    """
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return allowed_cores()


def row_blocks(count: int) -> list[tuple[int, int]]:
    """First and last rows of one block a core; a single block where that is too little work."""
    parts = cores() if count >= WORTH else 1
    ends = [count * k // parts for k in range(parts + 1)]
    return list(itertools.pairwise(ends))


def side_by_side(call: Callable[[Item], Any], items: Iterable[Item]) -> list[Any]:
    """What `call` returns for each item, computed on all cores."""
    items = list(items)
    if len(items) < 2 or cores() < 2:
        return [call(item) for item in items]
    return list(_pool(os.getpid(), cores()).map(call, items))


@functools.lru_cache(maxsize=1)
def _pool(process: int, workers: int) -> ThreadPoolExecutor:
    """The threads of this process: a forked child must not wait for those of its parent."""
    return ThreadPoolExecutor(workers, thread_name_prefix="tacit")
