"""Array work on several cores: it lets go of the interpreter, so plain threads will do."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tacit.workers import cores as allowed_cores

Item = TypeVar("Item")

# Rows of one piece of work: enough to be worth handing out, few enough to stay in a core's cache.
BLOCK = 2**15

_here = threading.local()


def cores() -> int:
    """How many threads to use: what this process may run on, or OMP_NUM_THREADS where it is set.

    Worker processes of joblib and Dask set that to 1, so that they do not fight for the cores.
    """
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    return allowed_cores()


def row_blocks(count: int) -> list[slice]:
    """The rows in blocks that do not depend on the cores, so that sums over them do not either."""
    return [slice(first, min(first + BLOCK, count)) for first in range(0, count, BLOCK)]


def side_by_side(call: Callable[[Item], Any], items: Iterable[Item]) -> list[Any]:
    """What `call` returns for each item, computed on all cores.

    Work that is itself a part of such work is done in its own thread: waiting for others that
    wait for a thread would be for ever.
    """
    items = list(items)
    if len(items) < 2 or cores() < 2 or getattr(_here, "is_worker", False):
        return [call(item) for item in items]
    return list(_pool(os.getpid(), cores()).map(call, items))


@functools.lru_cache(maxsize=1)
def _pool(process: int, workers: int) -> ThreadPoolExecutor:
    """The threads of this process: a forked child must not wait for those of its parent."""
    return ThreadPoolExecutor(workers, thread_name_prefix="tacit", initializer=_mark)


def _mark() -> None:
    _here.is_worker = True
