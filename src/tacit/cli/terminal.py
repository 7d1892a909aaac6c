"""The terminal: what a command hands back, how that is printed, progress, and signals.

Plain text, nothing with `--quiet`; progress is one living bar on a terminal, lines elsewhere.

A signal raises, so that files are whole or not there, and is remembered: inside a callback of an
engine an exception is dropped, and the next event raises it again.
"""

from __future__ import annotations

import math
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import Field, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TextIO

from tacit.cli.offers import offered
from tacit.files.atomic import harmless
from tacit.files.wording import table_text

if TYPE_CHECKING:
    from rich.progress import Progress

    from tacit.engine.progress import Callback, Event
    from tacit.folders.problem import Problem
    from tacit.show import Headline

# The public `tacit.terminal`: what a command of one's own is made of.
__all__ = [
    "Answer",
    "Terminal",
    "finding_data",
    "headline_data",
    "offered",
    "shown_default",
    "table_text",
    "to_json",
]


def __dir__() -> list[str]:
    """What is in this namespace."""
    return sorted(__all__)


# Seconds before the first plain line about progress, and between two of them at least.
PAUSE = 2.0
# Later lines come more rarely: after this share of the time gone by.
SHARE = 0.1
CODES: dict[int, int] = {signal.SIGINT: 130, signal.SIGTERM: 143}


@dataclass(frozen=True, eq=False)
class Answer:
    """What a command hands back. The command line prints it.

    Attributes:
        parts: text for people, one under the other.
        data: the same for programs, printed by `--json`: numbers, text, lists, mappings, arrays.
        code: exit code: 0 done, 2 bad input, 3 infeasible or not converged.
        errors: lines for standard error, each about one thing that is wrong.
    """

    parts: Sequence[str] = ()
    data: Mapping[str, object] = field(default_factory=dict)
    code: int = 0
    errors: Sequence[str] = ()


LONGEST = 300


def print_safely(text: str) -> None:
    """Prints what the encoding can say and a terminal shows, and escapes the rest."""
    encoding = sys.stdout.encoding or "utf-8"
    print(harmless(text).encode(encoding, "backslashreplace").decode(encoding), flush=True)


def error_line(text: str) -> str:
    """One harmless line for standard error, of at most 300 characters."""
    line = f"tacit: {harmless(' '.join(text.split()))}"
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 85]} ... {line[-80:]}"


def shown_default(text: str) -> object:
    """An annotation of an argument that is None by default: what its help says instead."""
    from tyro.conf import arg

    return arg(help_behavior_hint=f"(default: {text})")


def flat_fields(command: type) -> Iterator[Field[object]]:
    """The arguments of a command, those of its groups of options in their place.

    A group is a field whose default is a dataclass.
    """
    for one in fields(command):
        if is_dataclass(one.default):
            yield from flat_fields(type(one.default))
        else:
            yield one


def flat_values(command: object) -> dict[str, object]:
    """Argument -> value of a command, those of its groups of options in their place."""
    values = {}
    for one in fields(command):  # pyright: ignore[reportArgumentType]
        value = getattr(command, one.name)
        values |= flat_values(value) if is_dataclass(value) else {one.name: value}
    return values


def command_line(command: str, about: object, options: Mapping[str, object]) -> str:
    """What one types to ask for a command about something, with these options."""
    words = ["tacit", command, str(about)]
    for name, value in options.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            several = value if isinstance(value, list | tuple) else [value]
            words += [f"--{option}", *map(str, several)]
    return shlex.join(words)


def to_json(value: object) -> object:
    """The value with arrays as lists, paths and names as text, and no NaN or infinity.

    JSON has no word for those: they become null.
    """
    if isinstance(value, Mapping):
        return {str(key): to_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(entry) for entry in value]
    if hasattr(value, "tolist"):  # NumPy arrays and numbers
        return to_json(value.tolist())  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def finding_data(sentence: str) -> dict[str, object]:
    """A finding for programs: its sentence, its kind, and what it is about."""
    from tacit.inference.findings import Finding

    finding = sentence if isinstance(sentence, Finding) else Finding(sentence)
    about = {name: value for name, value in asdict(finding.about).items() if value is not None}
    return {"sentence": str(finding), "kind": finding.kind.name, "about": about}


def headline_data(headline: Headline) -> dict[str, str]:
    """What stands on top of a page, for programs."""
    text = headline.text.replace("**", "")
    return {"label": headline.label, "text": text, "verdict": headline.verdict}


class Terminated(BaseException):
    """SIGTERM came. Unwinds like an interrupt, so that half-written files are cleaned up."""


class Signals:
    """What the process was asked by SIGINT and SIGTERM.

    Attributes:
        asked: the number of the signal that came first; 0 for none.
    """

    def __init__(self) -> None:
        self.asked = 0

    def check(self) -> None:
        """Raises `KeyboardInterrupt` or `Terminated` where somebody asked for it."""
        if self.asked:
            raise Terminated if self.asked == signal.SIGTERM else KeyboardInterrupt

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Inside, a signal raises, and is remembered: inside a callback of an engine it is lost."""

        def raise_it(number: int, frame: FrameType | None) -> None:
            self.asked = self.asked or number
            self.check()

        # A signal that is ignored here, as in the background of a shell, stays so; outside the main
        # thread signals are somebody else's business.
        main = threading.current_thread() is threading.main_thread()
        caught = [one for one in CODES if main and signal.getsignal(one) is not signal.SIG_IGN]
        unraisable, before = sys.unraisablehook, {one: signal.getsignal(one) for one in caught}
        # What an engine drops is raised again at the next event: nothing is to be said of it.
        sys.unraisablehook = lambda lost: None if self.asked else unraisable(lost)
        try:
            for one in caught:
                signal.signal(one, raise_it)
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
            sys.unraisablehook = unraisable
        self.check()


@dataclass(frozen=True)
class Terminal:
    """Where a command tells what it found, on standard output, and how far it is, beside that.

    Attributes:
        quiet: whether `--quiet` was given, so that nothing is told.
        signals: what this process was asked meanwhile.
        machine: whether one object for programs is all that is printed, at the end.
    """

    quiet: bool = False
    signals: Signals = field(default_factory=Signals)
    machine: bool = False

    def tell(self, parts: Iterable[str]) -> None:
        """Prints what a command found, now."""
        for part in () if self.quiet or self.machine else parts:
            print_safely(part)

    @contextmanager
    def progress(self) -> Iterator[Callback]:
        """A callback that shows every `Event`: one living bar on a terminal, lines elsewhere.

        It ends the command where a signal asked for it.
        """
        with self._shown() as show:

            def tell(event: Event) -> None:
                self.signals.check()
                show(event)

            yield tell

    @contextmanager
    def _shown(self) -> Iterator[Callback]:
        if self.quiet:
            yield lambda event: None
        elif not sys.stderr.isatty():
            yield _Lines(sys.stderr)
        else:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
            with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
                yield _Bar(bar)

    @contextmanager
    def resumable(self, kept: str) -> Iterator[None]:
        """Inside, an end says this line, how to continue."""
        try:
            yield
            self.signals.check()
        except BaseException as error:
            if not isinstance(error, Exception):
                self.note(kept)
            raise

    def note(self, line: str) -> None:
        """Writes a line on standard error."""
        if not self.quiet:
            sys.stderr.write(f"{harmless(line)}\n")

    def load_problem(self, folder: Path, *, rows: bool = False) -> Problem:
        """The problem of a folder, telling how far the reading of demonstrations is.

        `rows` of measurements are refused unless they are expected.
        """
        from tacit.engine.progress import Event
        from tacit.folders.problem import Problem

        stage = "percent of the demonstrations read"
        with self.progress() as tell:
            problem = Problem.load(
                folder,
                progress=lambda done, total: tell(
                    Event(stage, round(100 * done / max(total, 1)), {"of": 100})
                ),
            )
        if not rows:
            problem.check_tabular()
        return problem


class _Lines:
    """A line after a while, then one more rarely; what is over before that is not told."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.start = self.last = time.monotonic()

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        if now - self.last >= max(PAUSE, SHARE * (self.last - self.start)):
            self.last = now
            self.stream.write(f"{event}\n")
            self.stream.flush()


class _Bar:
    """One bar, begun anew with every stage."""

    def __init__(self, bar: Progress) -> None:
        self.bar, self.stage = bar, ""
        self.task = bar.add_task("", total=None, visible=False)

    def __call__(self, event: Event) -> None:
        if event.stage != self.stage:
            self.stage = event.stage
            self.bar.reset(self.task, visible=True)
        self.bar.update(
            self.task, description=str(event), total=event.numbers.get("of"), completed=event.step
        )
