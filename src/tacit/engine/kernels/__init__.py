"""How loops over arrays are run: compiled or not.

They are compiled when they are worth it, and run as NumPy before (`Loop`, `at_hand`). A compiler
takes ten seconds where it has never run and more than one to be loaded where it has. A small
problem takes NumPy a few milliseconds. So the loops that a small problem spends its time in have
twins on whole arrays (below), the others run as they are written, and a process begins with those;
the compiler is asked for by models beyond `SMALL` states, and by a process that has spent
`ALLOWANCE` seconds without it.

Which of the two runs changes no bit: the twins add in the order of the loops, one term after the
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
from typing import Generic, cast

import numpy as np

from tacit.engine import Found, Given, is_trusted, numba_folder

# Up to this many states a chain's systems are eliminated, by the loops and by their twins.
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
        twin: the same on whole arrays, for where nothing is compiled; it may return
            `NotImplemented`. None where the function is run as it is written.
    """

    def __init__(
        self, function: Callable[Given, Found], twin: Callable[Given, object] | None = None
    ) -> None:
        functools.update_wrapper(self, function)
        self.written = function
        self.twin = twin
        self._machine: Callable[Given, Found] | None = None

    def __call__(self, *arguments: Given.args, **keywords: Given.kwargs) -> Found:
        """What the function returns."""
        if _here.plainly:
            return self.plain(*arguments, **keywords)
        return (self._machine or self.machine)(*arguments, **keywords)

    def plain(self, *arguments: Given.args, **keywords: Given.kwargs) -> Found:
        """What the function returns, without a compiler."""
        if self.twin is not None:
            found = self.twin(*arguments, **keywords)
            if found is not NotImplemented:
                return cast("Found", found)
        return self.written(*arguments, **keywords)

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
        function, file = self.written, inspect.getfile(self.written)
        # The compiler knows its own functions only: the loops that this one calls become those.
        around = function.__globals__
        names = {name: around[name] for name in function.__code__.co_names if name in around}
        called = {n: one.machine if isinstance(one, Loop) else one for n, one in names.items()}
        own = types.FunctionType(
            function.__code__, {"__name__": function.__module__} | called, function.__name__
        )
        own.__qualname__, own.__module__ = function.__qualname__, function.__module__
        kept = is_trusted(numba_folder(file), like=file)
        return njit(cache=kept, nogil=True)(own)


compiled = Loop  # run as it is written where nothing is compiled


def compiled_or(
    twin: Callable[..., object],
) -> Callable[[Callable[Given, Found]], Loop[Given, Found]]:
    """Makes a function a `Loop` for which `twin` stands where nothing is compiled."""
    return lambda function: Loop(function, twin)


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


def eliminate_arrays(
    states: np.ndarray, weights: np.ndarray, discount: float, transposed: bool
) -> np.ndarray:
    """[S, S] the factors: whole blocks at once, every entry with its terms taken off in order."""
    count, width = states.shape
    factors, every = np.eye(count), np.arange(count)
    for w in range(width):  # a state's next states may repeat: one of them at a time
        where = (states[:, w], every) if transposed else (every, states[:, w])
        factors[where] -= discount * weights[:, w]
    for pivot in range(count):
        own = factors[pivot]
        if own[pivot] == 0.0:
            raise ZeroDivisionError("division by zero")
        shares = factors[pivot + 1 :, pivot] * (1.0 / own[pivot])
        below = np.flatnonzero(shares)
        filled = np.flatnonzero(own[pivot + 1 :])
        if len(below) == 0:
            continue
        shares, below = shares[below], below + (pivot + 1)
        factors[below, pivot] = shares
        if len(filled):
            columns = slice(pivot + 1, pivot + 2 + int(filled[-1]))
            factors[below, columns] -= shares[:, None] * own[columns]
    return factors


def substitute_arrays(factors: np.ndarray, b: np.ndarray, x: np.ndarray) -> None:
    """Solves into `x`: down by columns, up by rows, so that every sum keeps its order."""
    count = len(b)
    columns = np.ascontiguousarray(factors.T)
    x[:] = b
    for column in range(count - 1):
        x[column + 1 :] -= columns[column, column + 1 :] * x[column]
    terms = np.empty(count)
    for row in range(count - 1, -1, -1):
        used = count - row
        terms[0] = x[row]
        np.multiply(factors[row, row + 1 :], x[row + 1 :], out=terms[1:used])
        # One after the other: a sum would be taken in pairs.
        x[row] = np.subtract.accumulate(terms[:used])[-1] / factors[row, row]


def improve_arrays(
    states: np.ndarray,
    probabilities: np.ndarray,
    missing: np.ndarray,
    reward: np.ndarray,
    discount: float,
    values: np.ndarray,
    policy: np.ndarray,
    margin: float,
    rows: np.ndarray,
    weights: np.ndarray,
) -> tuple[float, int]:
    """(largest Bellman residual, switches): all states at once, next states one after the other."""
    every = np.arange(len(policy))
    later = np.add.accumulate(probabilities * values[states], axis=2)[:, :, -1]
    worth = reward + discount * later
    kept = worth[every, policy]
    if len(missing):
        worth = np.where(missing, -np.inf, worth)
        kept = np.where(missing[every, policy], 0.0, kept)
    best = worth.max(axis=1)
    if not np.isfinite(best).all():  # comparisons with NaN go as they are written
        return NotImplemented
    better = best > kept + margin
    policy[better] = worth.argmax(axis=1)[better]
    rows[:] = states[every, 0 if states.shape[1] == 1 else policy]
    weights[:] = probabilities[every, policy]
    return float(np.abs(best - values).max()), int(better.sum())


def choose_arrays(table: np.ndarray, policy: np.ndarray, chosen: np.ndarray) -> float:
    """The largest size of the policy's entries, which go to `chosen` [S]."""
    chosen[:] = table[np.arange(len(policy)), policy]
    return float(np.abs(chosen).max())


def combine_arrays(
    tables: np.ndarray,
    combination: np.ndarray,
    reward: np.ndarray,
    values: np.ndarray,
    value: np.ndarray,
) -> float:
    """The largest size of the combined tables, which are added one after the other."""
    value[:], reward[:] = 0.0, 0.0
    for k in range(len(tables)):
        value += combination[k] * values[k]
        reward += combination[k] * tables[k]
    return float(np.abs(reward).max())


def copy_arrays(
    source: int, slot: int, lines: np.ndarray, policies: np.ndarray, values: np.ndarray
) -> None:
    """Copies one line with its policy and values into another slot."""
    for table in (lines, policies, values):
        table[slot] = table[source]


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
