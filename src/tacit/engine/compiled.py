"""Compiled code: loops on the host by numba, array programs by JAX in double precision.

The exact solver follows discrete switches of policies: long chains of small, branching steps, for
which a compiled loop on the host beats an array engine by far (a 25-state problem takes a fraction
of a millisecond, and nothing is compiled anew for another shape). Without numba the answers are the
same and the wait is longer.

JAX costs about a second to import and defaults to float32. So it is imported where it is needed,
never by `import tacit`, and double precision is switched on around our own calls only: a user's
other JAX code keeps its settings, and its compiled code is kept on disk only by whoever asks.
"""

from __future__ import annotations

import functools
import inspect
import os
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

Function = TypeVar("Function", bound=Callable[..., object])
Given = ParamSpec("Given")
Found = TypeVar("Found")


def compiled(function: Function) -> Function:
    """The function, compiled once for all shapes and kept on disk between processes.

    Its arithmetic is done as written: no sum is reordered, no product and sum are fused. A function
    that others call is compiled again within each of them, and which of the copies runs depends on
    which was loaded first: were the compiler free to round as it likes, a process that finds them
    compiled would differ in the last digits from one that compiles them. It costs nothing that was
    measured: these loops wait for memory.
    """
    try:
        from numba import njit
    except ImportError:
        return function
    kept = is_trusted(_numba_folder(inspect.getfile(function)), like=inspect.getfile(function))
    return njit(cache=kept, nogil=True)(function)  # pyright: ignore[reportReturnType]


@functools.cache
def is_trusted(folder: str | Path, *, like: str | None = None) -> bool:
    """Whether code kept in a folder may be run: nobody writes there who could not change ours.

    Args:
        folder: where compiled code is kept; one that is not there yet will be made by us.
        like: a file of ours, whose owner and group may write there, too.
    """
    if not hasattr(os, "getuid"):  # a system of other permissions
        return True
    try:
        found = os.stat(folder)
        ours = None if like is None else os.stat(os.path.dirname(like) or ".")
    except OSError:
        return True
    owners = {0, os.getuid()} | (set() if ours is None else {ours.st_uid})
    groups = {ours.st_gid} if ours is not None and ours.st_mode & stat.S_IWGRP else set()
    by_group = found.st_mode & stat.S_IWGRP and found.st_gid not in groups
    return found.st_uid in owners and not by_group and not found.st_mode & stat.S_IWOTH


def _numba_folder(file: str) -> str:
    """Where numba keeps what it compiles from a file."""
    beside = os.path.join(os.path.dirname(file), "__pycache__")
    return os.environ.get("NUMBA_CACHE_DIR") or beside


class Compiled(Protocol[Given, Found]):
    """A compiled function; `__wrapped__` is the plain one, for use inside another."""

    __wrapped__: Callable[Given, Found]

    def __call__(self, *arguments: Given.args, **keywords: Given.kwargs) -> Found:
        """What the function returns, in NumPy arrays of 64 bits."""
        ...


def compiled_in_double(
    function: Callable[Given, Found], *, static: Sequence[str] = ()
) -> Compiled[Given, Found]:
    """The function under `jax.jit`, traced and called with 64-bit numbers.

    Its first argument is the backend. One on NumPy arrays runs the same function step by step; one
    on many devices places the arguments there, by their names, and fetches the results.

    Args:
        function: of the backend and of arrays.
        static: names of its arguments that are no arrays.
    """
    import numpy as np

    @functools.cache
    def traced() -> Callable[..., Any]:
        import jax

        return jax.jit(function, static_argnames=tuple(static))

    names = tuple(inspect.signature(function).parameters)[1:]

    @functools.wraps(function)
    def call(backend: Any, *arguments: Any, **keywords: Any) -> Any:
        if backend.arrays is np:
            return function(backend, *arguments, **keywords)  # pyright: ignore[reportCallIssue]
        import jax

        with jax.enable_x64(True):
            if hasattr(backend, "place"):
                placed = [backend.place(n, a) for n, a in zip(names, arguments, strict=False)]
                keywords = {n: backend.place(n, a) for n, a in keywords.items()}
                return backend.fetch(traced()(backend, *placed, **keywords))
            # NumPy arrays come back: a stray JAX operation outside would fall to float32.
            return jax.tree.map(np.asarray, traced()(backend, *arguments, **keywords))

    return call  # pyright: ignore[reportReturnType]


def keep_compiled_code(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """The folder in which JAX now keeps what it compiles in this process; None if it keeps nothing.

    The setting is the whole process's, so only its owner may make it: the command line and worker
    processes call this, `tacit.solve` and `tacit.recover` never do. A folder that JAX was told of
    before stays, unless another is given.

    Args:
        folder: where; by default `tacit/jax` in the user's folder for caches.
    """
    loaded = sys.modules.get("jax")
    chosen = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if loaded is not None:
        chosen = loaded.config.values.get("jax_compilation_cache_dir")
    if chosen is not None and folder is None:
        return Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    place = Path(home) / "tacit" / "jax" if folder is None else Path(folder)
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None  # no home, or a read-only one: compile anew each time
    if not os.access(place, os.W_OK) or not is_trusted(place):
        return None  # what others put there would be run as ours
    # The default keeps only what took a second to compile; ours are many and small.
    settings = {
        "jax_compilation_cache_dir": str(place),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
    }
    for name, value in settings.items():
        if loaded is not None:
            loaded.config.update(name, value)
        else:  # JAX reads these when it is imported, which takes a second: not now
            os.environ[name.upper()] = str(value)
    return place
