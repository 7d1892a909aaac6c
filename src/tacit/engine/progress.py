"""Long searches step by step, for whoever watches: events, early stops, checkpoints.

A search is a state and a function that moves it on. Nobody watching, it runs in one go; watched,
step by step through the same code, to the same bits. The searches of a run come in the same order
every time, so a checkpoint with the place that each has reached is enough to go on after any
interruption: each begins from there, and ends at the same answer to its tolerance.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO, TypeVar, cast

from tacit.errors import TacitError
from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.trees import Tree, digest, pack, sound, unpack

__all__ = [
    "Callback",
    "Checkpoint",
    "Event",
    "StopEarly",
    "checkpoint",
    "log",
    "stopped",
    "unwatched",
    "watching",
]


def __dir__() -> list[str]:
    """What is in this namespace."""
    return sorted(__all__)


# Seconds between two writes: what an interruption without warning may cost.
SECONDS_BETWEEN_WRITES = 2.0
# Least time between two writes, in units of what a write takes: a large state must not spend the
# run on being written.
LEAST_PAUSE = 20.0


@dataclass(frozen=True)
class Event:
    """One step of a search.

    Attributes:
        stage: the name of the search, with its number within the run.
        step: how many steps it has made.
        numbers: what there is to follow, by name; "of" is how many steps there will be.
    """

    stage: str
    step: int
    numbers: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        numbers = dict(self.numbers)
        total = numbers.pop("of", None)
        step = f"step {self.step}" if total is None else f"{self.step} of {total:.0f}"
        words = "".join(f", {name.replace('_', ' ')} {n:.6g}" for name, n in numbers.items())
        return f"{self.stage}: {step}{words}"


Callback = Callable[[Event], object]
"""What is called with every `Event`: it returns True, or raises `StopEarly`, to end the search."""

State = TypeVar("State")


class StopEarly(Exception):
    """Raised by a callback to end the search; what was reached is returned, and says so."""


class _Watch:
    """The callbacks that watch, how often each stage was begun, and the event of a stop."""

    def __init__(
        self, callbacks: tuple[Callback, ...], checkpoint: Checkpoint | None, outer: _Watch | None
    ) -> None:
        self.callbacks, self.outer = callbacks, outer
        self.checkpoint = checkpoint or (outer.checkpoint if outer else None)
        self.begun: dict[str, int] = outer.begun if outer else {}
        self.stop_event: Event | None = None

    @property
    def stopped(self) -> Event | None:
        """The event at which a callback of this watch, or of one around it, asked to stop."""
        return self.stop_event or (self.outer.stopped if self.outer else None)

    def number(self, stage: str) -> str:
        """The stage with its number within the run."""
        self.begun[stage] = self.begun.get(stage, 0) + 1
        return f"{stage} {self.begun[stage]}"

    def tell(self, event: Event) -> None:
        """Calls all callbacks, and those of the watch around; remembers the first stop."""
        try:
            # Everybody hears of it, also after the first who asks to stop.
            stop = [callback(event) is True for callback in self.callbacks]
        except StopEarly:
            stop = [True]
        if any(stop) and self.stop_event is None:
            self.stop_event = event
        if self.outer is not None:
            self.outer.tell(event)


_WATCH: ContextVar[_Watch | None] = ContextVar("tacit_watch", default=None)


@contextmanager
def watching(callbacks: Sequence[Callback] = ()) -> Iterator[None]:
    """Searches inside run step by step and tell these callbacks, and those of a watch around.

    A `Checkpoint` among them keeps where the searches stand.
    """
    checkpoint = next((each for each in callbacks if isinstance(each, Checkpoint)), None)
    token = _WATCH.set(_Watch(tuple(callbacks), checkpoint, _WATCH.get()))
    try:
        yield
    finally:
        _WATCH.reset(token)
        for callback in callbacks:
            if hasattr(callback, "flush"):
                callback.flush()  # type: ignore


@contextmanager
def unwatched() -> Iterator[None]:
    """Searches inside run in one go, whoever watches outside."""
    token = _WATCH.set(None)
    try:
        yield
    finally:
        _WATCH.reset(token)


def stopped() -> Event | None:
    """The event at which a callback asked to stop, if one did."""
    watch = _WATCH.get()
    return None if watch is None else watch.stopped


def pursue(
    stage: str,
    state: State,
    advance: Callable[[State, int | None], State],
    *,
    step: Callable[[State], int],
    numbers: Callable[[State], Mapping[str, float]],
    inputs: object = None,
    save: Callable[[State], Tree] = lambda state: state,
    restore: Callable[[Tree], State] = lambda tree: tree,
) -> State:
    """The state at the end of a search, or where a callback stopped it.

    After a stop, every later search makes one step, so that it has something to return.

    Args:
        stage: what the search is called.
        state: where it begins.
        advance: (state, until) -> the state after `until` steps in all, or fewer where the search
            ends before; None goes to the end.
        step: how many steps a state has made.
        numbers: what to tell of a state.
        inputs: the data and options of the search, as a tree of arrays; a checkpoint compares those
            of the first search.
        save: what a checkpoint keeps of a state: the parameters, where these are enough.
        restore: the state that begins from what was kept.
    """
    watch = _WATCH.get()
    if watch is None:
        return advance(state, None)
    name = watch.number(stage)
    # What comes after a stop is not what an unbroken run does: it is not kept.
    checkpoint = watch.checkpoint if watch.stopped is None else None
    place = None if checkpoint is None else checkpoint.recall(name, inputs)
    if place is not None:
        state = restore(place)
    while True:
        until = int(step(state)) + 1
        state = advance(state, until)
        if checkpoint is not None:
            checkpoint.keep(name, save(state))
        # The search itself says that it is over, by not going on: a second opinion, computed
        # elsewhere, could round differently.
        if step(state) < until:
            return state
        watch.tell(Event(name, until, numbers(state)))
        if watch.stopped is not None:
            return state


def once(stage: str, compute: Callable[[], State], *, inputs: object = None) -> State:
    """What `compute` returns, as a search of one step."""

    def computed(state: State | None, until: int | None) -> State | None:
        return compute() if state is None else state

    end = pursue(
        stage,
        None,
        computed,
        step=lambda state: int(state is not None),
        numbers=lambda state: {},
        inputs=inputs,
    )
    return cast("State", end)


def log(stream: TextIO | None = None) -> Callback:
    """A callback that writes a line on every step; to standard error by default."""

    def callback(event: Event) -> None:
        (sys.stderr if stream is None else stream).write(f"{event}\n")

    return callback


class Checkpoint:
    """The places that the searches of a run have reached, in one file; also a callback.

    Attributes:
        path: of the file.
        every: seconds between two writes, at least.
        about: what the file says besides.
    """

    def __init__(
        self, path: Path, *, every: float = SECONDS_BETWEEN_WRITES, about: Tree = None
    ) -> None:
        self.path, self.every, self.about = path, every, about
        self._problem = ""  # digest of what the first search is about
        self._places: dict[str, Tree] = {}  # where each search stands, by stage
        self._written = time.monotonic()  # when the file was
        self._pause = every  # seconds until it is again
        self._is_new = False  # whether there is a place that the file lacks

    def __call__(self, event: Event) -> None:
        """Nothing: places come by `keep`."""

    def recall(self, stage: str, inputs: Tree) -> Tree | None:
        """The place that the stage had reached; None if it is not known."""
        if not self._problem:
            self._problem = digest(inputs)
            if self.path.exists():
                content = read_checkpoint(self.path)
                if content["problem"] not in ("", self._problem):
                    raise TacitError(
                        f"{self.path} was made from other data or settings; begin again with "
                        "--overwrite"
                    )
                self._places = content["places"]
        return self._places.get(stage)

    def keep(self, stage: str, place: Tree) -> None:
        """Remembers where the stage stands, and writes the file if it is time."""
        # The place itself, not a copy: states are never changed, only replaced.
        self._places[stage], self._is_new = place, True
        if time.monotonic() - self._written >= self._pause:
            self.flush()

    def flush(self) -> None:
        """Writes the file where something is to be written."""
        if self._is_new:
            self.write()

    def write(self) -> None:
        """Writes the file, whatever it holds."""
        began = time.monotonic()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = {"about": self.about, "problem": self._problem, "places": self._places}
        write_arrays(self.path, pack(content))
        self._written, self._is_new = time.monotonic(), False
        if self.every:
            self._pause = max(self.every, LEAST_PAUSE * (self._written - began))
        else:
            self._pause = 0.0


def read_checkpoint(path: Path) -> Tree:
    """The `about`, `problem` and `places` by stage of a checkpoint."""
    with sound(path, "a checkpoint"):
        content = unpack(read_arrays(path))
        return {name: content[name] for name in ("about", "problem", "places")}


def checkpoint(path: str | Path, *, every: float = SECONDS_BETWEEN_WRITES) -> Checkpoint:
    """A callback that keeps a recovery in a file, to go on after an interruption.

    `tacit.recover(..., callbacks=[tacit.runs.checkpoint("kept.npz")])`, called again with the same
    arguments, goes on where it was left. Remove the file when the answer is there.

    Args:
        path: of the file.
        every: seconds between two writes, more where writing takes long; 0 writes at every step.
    """
    return Checkpoint(Path(path), every=every)
