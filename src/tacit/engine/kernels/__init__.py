"""How loops over arrays are run: compiled or not.

They are compiled when they are worth it, and run as they are written before (`Loop`, `at_hand`). A
compiler takes ten seconds where it has never run and more than one to be loaded where it has. A
small problem takes a few milliseconds without. So a process begins without; the compiler is asked
for by models beyond `SMALL` states, and by a process that has spent `ALLOWANCE` seconds without it.
What takes longest then, elimination, has a twin on whole arrays (`chains.py`).

Which of the two runs changes no bit: a twin adds in the order of the loop, one term after the
other, and the compiler is free in nothing (`Loop.machine`). So it may depend on the clock.

Beside this: a chain's linear systems (`chains.py`), others (`systems.py`), policy iteration and
pricing (`backups.py`). Those follow discrete switches of policies, long chains of small, branching
steps, for which a compiled loop on the host beats an array engine by far.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import time
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Generic

import numpy as np

from tacit.engine import Found, Given, is_trusted, numba_folder

# Up to this many states a chain's systems are eliminated.
SMALL = 200
# Seconds that a process spends without a compiler before it asks for one.
ALLOWANCE = 1.5


class _Here(threading.local):
    """What this thread is doing."""

    plainly = False  # whether loops run without a compiler


_here = _Here()
_compiling = threading.RLock()


class Clock:
    """What this process has spent on loops that were not compiled."""

    spent = 0.0
    started = False  # whether the compiler was asked for


class Loop(Generic[Given, Found]):
    """A function of arrays and numbers, made of loops, and what it is run as.

    Attributes:
        written: the function itself.
        plain: what is run without a compiler: a twin on whole arrays, or the function as written.
    """

    def __init__(
        self, function: Callable[Given, Found], twin: Callable[Given, Found] | None = None
    ) -> None:
        functools.update_wrapper(self, function)
        self.written = function
        self.plain = twin or function
        self._machine: Callable[Given, Found] | None = None

    def __call__(self, *arguments: Given.args, **keywords: Given.kwargs) -> Found:
        """What the function returns."""
        if _here.plainly:
            return self.plain(*arguments, **keywords)
        return (self._machine or self.machine)(*arguments, **keywords)

    @property
    def machine(self) -> Callable[Given, Found]:
        """The function, compiled once for all shapes and kept on disk between processes.

        Its arithmetic is done as written: no sum is reordered, no product and sum are fused. A
        function that others call is compiled again within each of them, and which of the copies
        runs depends on which was loaded first: were the compiler free to round as it likes, a
        process that finds them compiled would differ in the last digits from one that compiles
        them. It costs nothing that was measured: these loops wait for memory.
        """
        if self._machine is None:
            with _compiling:
                self._machine = self._machine or self._compiled()
        return self._machine

    def _compiled(self) -> Callable[Given, Found]:
        try:
            from numba import njit
        except ImportError:  # the same answers, after a longer wait
            return self.plain
        Clock.started = True
        function = self.written
        # The compiler knows its own functions only: the loops that this one calls become those.
        around = function.__globals__
        names = {name: around[name] for name in function.__code__.co_names if name in around}
        called = {n: one.machine if isinstance(one, Loop) else one for n, one in names.items()}
        own = types.FunctionType(
            function.__code__, {"__name__": function.__module__} | called, function.__name__
        )
        own.__qualname__, own.__module__ = function.__qualname__, function.__module__
        file = inspect.getfile(function)
        may_cache = is_trusted(numba_folder(file), like=file)
        return njit(cache=may_cache, nogil=True)(own)


def runs_plainly(states: int) -> bool:
    """Whether a model of so many states is worth no compiler yet."""
    return states <= SMALL and not Clock.started and Clock.spent < ALLOWANCE


def at_hand(states: int) -> AbstractContextManager[None]:
    """Within it loops on a model of so many states run as what is at hand: NumPy, or compiled."""
    return nullcontext() if _here.plainly or not runs_plainly(states) else _uncompiled()


@contextmanager
def _uncompiled() -> Iterator[None]:
    began = time.thread_time()
    _here.plainly = True
    try:
        with np.errstate(all="ignore"):  # compiled loops do not warn either
            yield
    finally:
        _here.plainly = False
        Clock.spent += time.thread_time() - began


def _forget_stale_code(folder: Path) -> None:
    """Drops compiled code older than any source here.

    The cache of compiled code follows each file's own changes only, but these files call each
    other: an edit of one would leave the others running its old code.
    """
    newest = max(path.stat().st_mtime for path in folder.glob("*.py"))
    for index in folder.glob("__pycache__/*.nbi"):
        if index.stat().st_mtime < newest:
            index.unlink(missing_ok=True)


with contextlib.suppress(OSError):  # a read-only or zipped installation, which nobody edits
    _forget_stale_code(Path(__file__).parent)
