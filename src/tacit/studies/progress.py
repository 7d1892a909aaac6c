"""How far a long run is: a bar with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Teller(Protocol):
    """What a run tells about itself."""

    def done(self, name: str) -> None:
        """One more unit is done."""
        ...

    def say(self, text: str) -> None:
        """What happens now."""
        ...


class _Silent:
    def done(self, name: str) -> None:
        pass

    def say(self, text: str) -> None:
        pass


class _Lines:
    """A line for about every tenth of the units."""

    def __init__(self, total: int, already: int, stream: Any) -> None:
        self.total, self.count, self.first = total, already, already
        self.stream, self.start = stream, time.monotonic()

    def done(self, name: str) -> None:
        self.count += 1
        every = max(1, self.total // 10)
        if self.count % every and self.count != self.total:
            return
        spent = time.monotonic() - self.start
        left = spent / (self.count - self.first) * (self.total - self.count)
        self.say(f"{self.count} of {self.total} units, about {left:.0f} s left")

    def say(self, text: str) -> None:
        self.stream.write(f"{text}\n")
        self.stream.flush()


class _Bar:
    def __init__(self, bar: Any, task: Any) -> None:
        self.bar, self.task = bar, task

    def done(self, name: str) -> None:
        self.bar.update(self.task, advance=1, description=name)

    def say(self, text: str) -> None:
        self.bar.update(self.task, description=text)


@contextmanager
def telling(total: int, *, already: int = 0, silent: bool = False) -> Iterator[Teller]:
    """A `Teller` on standard error for so many units, some of which are done already.

    Args:
        total: number of units.
        already: how many of them were done before.
        silent: tell nothing.
    """
    if silent:
        yield _Silent()
        return
    if not sys.stderr.isatty():
        yield _Lines(total, already, sys.stderr)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        yield _Bar(bar, bar.add_task("reproducing", total=total, completed=already))
