"""Independent pieces of work on processes, or on the cluster that joblib was told of.

Everything that falls into independent pieces goes through here. So one line before the call,
`joblib.parallel_config(backend="dask")`, hands it to a cluster.
"""

from __future__ import annotations

import functools
import os
import platform
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tacit import __version__
from tacit.engine.compiled import keep_compiled_code
from tacit.errors import InvalidModel

Item = TypeVar("Item")
Result = TypeVar("Result")


def each(
    function: Callable[..., Result],
    pieces: Iterable[tuple],
    *,
    workers: int | None = None,
    ordered: bool = True,
) -> Iterator[Result]:
    """The results of the function on every piece's arguments, as they are done.

    Args:
        function: of a module, so that another process can find it.
        pieces: its arguments, piece by piece.
        workers: processes; None for what joblib was told, or one per core if nothing. A cluster
            decides by itself.
        ordered: whether the results come in the order of the pieces.
    """
    if workers is not None and workers < 1:
        raise InvalidModel(f"workers must be at least 1; got {workers}")
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    pieces = list(pieces)
    cluster, told = cluster_is_told()
    come = "generator" if ordered else "generator_unordered"
    if not getattr(get_active_backend()[0], "supports_return_generator", True):
        come = "list"  # Ray's gives all at once, at the end
    if workers is None and not cluster and told is None:
        workers = min(cores(), max(1, len(pieces)))
    # A batch holds one piece: a worker that dies loses one, and progress is seen.
    many = Parallel(
        n_jobs=workers,
        return_as=come,
        batch_size=1,  # pyright: ignore[reportArgumentType]
    )
    here = (os.getpid(), __version__)
    yield from many(delayed(_worked)(here, function, *piece) for piece in pieces)  # pyright: ignore[reportGeneralTypeIssues, reportReturnType]


def _worked(caller: tuple[int, str], function: Callable[..., Result], *piece: object) -> Result:
    """What the function returns; a process of workers keeps what JAX compiles there.

    Args:
        caller: process and version of tacit that ask for it. Another version could find other
            numbers, and mix them with those of the rest: it is refused.
        function: to be called.
        piece: its arguments.
    """
    process, version = caller
    if version != __version__:
        raise InvalidModel(
            f"workers must have tacit {version}, as the caller has; the one on "
            f"{platform.node()} has {__version__}: install the same version there"
        )
    if os.getpid() != process:
        keep_compiled_code()
    return function(*piece)


def cluster_is_told() -> tuple[bool, object]:
    """Whether joblib was told of another engine than its own processes, and of how many."""
    from joblib._parallel_backends import LokyBackend
    from joblib.parallel import get_active_backend

    backend, told = get_active_backend()
    return not isinstance(backend, LokyBackend), told


def told_of_workers() -> bool:
    """Whether joblib was told of a cluster or of several processes; not inside one of the latter.

    Work that one machine does well in one piece asks here first.
    """
    if "joblib" not in sys.modules:  # nobody has told it anything
        return False
    from joblib.parallel import get_active_backend

    if (getattr(get_active_backend()[0], "nesting_level", 0) or 0) > 0:
        return False
    cluster, told = cluster_is_told()
    return cluster or told not in (None, 1)


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Rows of one piece of work: enough to be worth handing out, few enough to stay in a core's cache.
BLOCK = 2**15

_here = threading.local()


def threads_allowed() -> int:
    """How many threads to use: what this process may run on, or OMP_NUM_THREADS where it is set.

    Worker processes of joblib and Dask set that to 1, so that they do not fight for the cores.
    """
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    return cores()


def row_blocks(count: int) -> list[slice]:
    """The rows in blocks that do not depend on the cores, so that sums over them do not either."""
    return [slice(first, min(first + BLOCK, count)) for first in range(0, count, BLOCK)]


def side_by_side(call: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """What `call` returns for each item, computed on all cores.

    Work that is itself a part of such work is done in its own thread: waiting for others that
    wait for a thread would be for ever.
    """
    items = list(items)
    if len(items) < 2 or threads_allowed() < 2 or getattr(_here, "is_worker", False):
        return [call(item) for item in items]
    return list(_pool(os.getpid(), threads_allowed()).map(call, items))


@functools.lru_cache(maxsize=1)
def _pool(process: int, workers: int) -> ThreadPoolExecutor:
    """The threads of this process: a forked child must not wait for those of its parent."""
    return ThreadPoolExecutor(workers, thread_name_prefix="tacit", initializer=_mark)


def _mark() -> None:
    _here.is_worker = True
