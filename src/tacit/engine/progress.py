"""Long searches step by step, for whoever watches: events, early stops, checkpoints.

A search is a state and a function that moves it on. Nobody watching, it runs in one go; watched,
step by step through the same code, to the same bits. The stages of a run come in the same order
every time, so a journal that keeps the end of each finished stage, and the last state of the one
under way, in a folder, is enough to go on after any interruption.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TextIO, TypeVar, cast

import numpy as np

from tacit.errors import TacitError
from tacit.files.arrays import BROKEN, Tree, digest, pack, unpack, write_arrays
from tacit.files.atomic import BadFile
from tacit.files.formats import read_arrays

CURRENT, HEAD = "current.npz", "head"
# Seconds between two writes: what an interruption without warning may cost.
EVERY = 2.0
# Times as long as a write takes, at least: a large state must not spend the run on being kept.
RARELY = 20.0
# Bytes of finished stages that are kept: ten constraints are 65 searches, and each ends with the
# derivatives of all values (20 MB at 100 000 states).
MOST = 2**29


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
        told = "".join(f", {name.replace('_', ' ')} {n:.6g}" for name, n in numbers.items())
        return f"{self.stage}: {step}{told}"


# Returns True, or raises `StopEarly`, to end the search there.
Callback = Callable[[Event], object]

State = TypeVar("State")


class StopEarly(Exception):
    """Raised by a callback to end the search; what was reached is returned, and says so."""


class Journal(Protocol):
    """Where a run keeps its stages, so that it can go on after an interruption."""

    def recall(self, stage: str, inputs: object, kinds: Sequence[type]) -> tuple[Any, bool] | None:
        """The last state of the stage and whether that was its end; None if it is not known."""
        ...

    def keep(self, stage: str, inputs: object, state: object, *, finished: bool) -> None:
        """Remembers where the stage stands."""
        ...

    def flush(self) -> None:
        """Writes what has not been written yet."""
        ...


class _Watch:
    """Who watches, how often each stage was begun, and where somebody asked to stop."""

    def __init__(
        self, callbacks: tuple[Callback, ...], journal: Journal | None, outer: _Watch | None
    ) -> None:
        self.callbacks, self.outer = callbacks, outer
        self.journal = journal or (outer.journal if outer else None)
        self.begun: dict[str, int] = outer.begun if outer else {}
        self.asked: Event | None = None

    @property
    def stopped(self) -> Event | None:
        return self.asked or (self.outer.stopped if self.outer else None)

    def named(self, stage: str) -> str:
        self.begun[stage] = self.begun.get(stage, 0) + 1
        return f"{stage} {self.begun[stage]}"

    def tell(self, event: Event) -> None:
        try:
            # Everybody hears of it, also after the first who asks to stop.
            stop = [callback(event) is True for callback in self.callbacks]
        except StopEarly:
            stop = [True]
        if any(stop) and self.asked is None:
            self.asked = event
        if self.outer is not None:
            self.outer.tell(event)


_WATCH: ContextVar[_Watch | None] = ContextVar("tacit_watch", default=None)


@contextmanager
def watching(callbacks: Sequence[Callback] = (), journal: Journal | None = None) -> Iterator[None]:
    """Searches inside run step by step and tell these callbacks, and those of a watch around.

    Args:
        callbacks: called with every `Event`, in this order.
        journal: where to keep the stages; if None, a callback that is one, or that of a watch
            around.
    """
    if journal is None:
        journal = next((c for c in callbacks if hasattr(c, "recall")), None)  # type: ignore
    watch = _Watch(tuple(callbacks), journal, _WATCH.get())
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)
        for listener in {id(one): one for one in (*callbacks, journal)}.values():
            if hasattr(listener, "flush"):
                listener.flush()  # type: ignore


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
    kinds: Sequence[type] = (),
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
        inputs: everything that the end depends on, as a tree of arrays; a journal compares it.
        kinds: the classes that states are made of.
    """
    watch = _WATCH.get()
    if watch is None:
        return advance(state, None)
    name, journal, done = watch.named(stage), watch.journal, False
    if watch.stopped is not None:
        journal = None  # what comes after a stop is not what an unbroken run does
    known = None if journal is None else journal.recall(name, inputs, kinds)
    if known is not None:
        state, done = known
    while not done:
        until = int(step(state)) + 1
        state = advance(state, until)
        # The search itself says that it is over, by not going on: a second opinion, computed
        # elsewhere, could round differently.
        if step(state) < until:
            break
        if journal is not None:
            journal.keep(name, inputs, state, finished=False)
        watch.tell(Event(name, until, numbers(state)))
        if watch.stopped is not None:
            return state
    if journal is not None and not done:
        journal.keep(name, inputs, state, finished=True)
    return state


def once(
    stage: str, compute: Callable[[], State], *, inputs: object = None, kinds: Sequence[type] = ()
) -> State:
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
        kinds=kinds,
    )
    return cast("State", end)


def log(stream: TextIO | None = None, *, every: int = 1) -> Callback:
    """A callback that writes a line on every so many steps; to standard error by default."""

    def callback(event: Event) -> None:
        if event.step % every == 0:
            (sys.stderr if stream is None else stream).write(f"{event}\n")

    return callback


def early_stop(number: str = "loss", *, patience: int = 10, least: float = 0.0) -> Callback:
    """A callback that stops when a number has not fallen for so many steps of a stage.

    Args:
        number: which of the event's numbers to follow; stages without it are let be.
        patience: how many steps to wait.
        least: by how much it must fall to count.
    """
    best: dict[str, tuple[float, int]] = {}

    def callback(event: Event) -> bool:
        if number not in event.numbers:
            return False
        now = event.numbers[number]
        lowest, at = best.get(event.stage, (float("inf"), event.step))
        if now < lowest - least:
            lowest, at = now, event.step
        best[event.stage] = (lowest, at)
        return event.step - at >= patience

    return callback


def tensorboard(folder: str | Path) -> Callback:
    """A callback that writes every number for TensorBoard; needs the extra `tensorboard`."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        said = "tensorboard(...) needs tensorboardX: pip install 'tacit-irl[tensorboard]'"
        raise ImportError(said) from None
    return _Board(SummaryWriter(str(folder)))


class _Board:
    def __init__(self, writer: Any) -> None:
        self.writer = writer

    def __call__(self, event: Event) -> None:
        for name, number in event.numbers.items():
            self.writer.add_scalar(f"{event.stage}/{name}", number, event.step)

    def flush(self) -> None:
        self.writer.flush()


class FolderJournal:
    """A `tacit.progress.Journal` in a folder; also a callback, which asks for nothing.

    Attributes:
        folder: where the stages are.
        every: seconds between two writes.
        recalled: whether a stage was read back from it.

    Of many large stages those are kept that took longest for their bytes, up to `MOST`; the others
    are made again, from where they began, to the same bits.
    """

    def __init__(self, folder: Path, *, every: float = EVERY) -> None:
        self.folder, self.every, self.recalled = folder, every, False
        self._seconds: dict[str, float] = {}  # that finished stages took, by file
        self._ended, self._gaps = time.monotonic(), False
        self._digests: dict[str, str] = {}
        self._waiting: dict[str, tuple[dict[str, object], Tree]] = {}
        self._last, self._pause = time.monotonic(), every

    def __call__(self, event: Event) -> None:
        """Nothing: states come by `keep`."""

    def recall(self, stage: str, inputs: Tree, kinds: Sequence[type]) -> tuple[Tree, bool] | None:
        """The last state of the stage and whether that was its end; None if it is not known."""
        self._digests[stage] = digest(inputs)
        for name in (_file(stage), CURRENT):
            path = self.folder / name
            if not path.exists():
                continue
            arrays = read_arrays(path)
            try:
                head = json.loads(str(arrays.pop(HEAD)))
                if head["stage"] != stage:
                    continue
                finished, seconds = bool(head["finished"]), float(head.get("seconds", 0.0))
                state = unpack(arrays, kinds) if head["inputs"] == self._digests[stage] else None
            except (*BROKEN, BadFile) as error:
                reason = " ".join(str(error).split())
                raise BadFile(f"{path} is no record of a stage: {reason:.120}") from None
            if head["inputs"] != self._digests[stage]:
                if self._gaps:  # it began where another processor's digits were
                    continue
                raise TacitError(
                    f"{path} was made from other data or settings than {stage} has now; "
                    "begin again with --overwrite"
                )
            self.recalled = True
            if finished:
                self._seconds[name], self._ended = seconds, time.monotonic()
            return state, finished
        self._gaps = self.recalled
        return None

    def keep(self, stage: str, inputs: Tree, state: Tree, *, finished: bool) -> None:
        """Remembers where the stage stands, and writes it down if it is time."""
        if stage not in self._digests:
            self._digests[stage] = digest(inputs)
        head = {"stage": stage, "inputs": self._digests[stage], "finished": finished}
        if finished:
            head["seconds"] = self._seconds[_file(stage)] = time.monotonic() - self._ended
            self._ended = time.monotonic()
        # The state itself, not a copy: states are never changed, only replaced.
        self._waiting[_file(stage) if finished else CURRENT] = (head, state)
        if time.monotonic() - self._last >= self._pause:
            self.flush()

    def flush(self) -> None:
        """Writes what has not been written yet, finished stages first."""
        began = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in sorted(self._waiting, key=lambda name: name == CURRENT):
            head, state = self._waiting[name]
            write_arrays(self.folder / name, {HEAD: np.array(json.dumps(head)), **pack(state)})
            del self._waiting[name]
        self._drop()
        self._last = time.monotonic()
        if self.every > 0:
            self._pause = max(self.every, RARELY * (self._last - began))

    def _drop(self) -> None:
        """Removes finished stages beyond `MOST` bytes, the quickest for their bytes first."""
        paths = [self.folder / name for name in self._seconds]
        sizes = {path: path.stat().st_size for path in paths if path.exists()}
        for path in sorted(sizes, key=lambda path: self._seconds[path.name] / sizes[path]):
            if sum(sizes.values()) <= MOST:
                break
            path.unlink()
            del sizes[path]


def checkpoint(folder: str | Path, *, every: float = EVERY) -> FolderJournal:
    """A callback that keeps a recovery in a folder, to go on after an interruption.

    `tacit.recover(..., callbacks=[tacit.runs.checkpoint("kept")])`, called again with the same
    arguments, goes on where it was left. Remove the folder when the answer is there.

    Args:
        folder: where to keep it.
        every: seconds between two writes, more where writing takes long; 0 writes at every step.
    """
    return FolderJournal(Path(folder), every=every)


def _file(stage: str) -> str:
    return re.sub(r"[^0-9A-Za-z]+", "-", stage) + ".npz"
