"""How far a fit is: one living line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from tacit.engine.progress import Callback, Event

# Seconds between two plain lines.
PAUSE = 2.0


@contextmanager
def telling(*, quiet: bool, stream: TextIO | None = None) -> Iterator[Callback]:
    """A callback that tells every event on standard error.

    Args:
        quiet: tell nothing.
        stream: where to tell it instead.
    """
    target = sys.stderr if stream is None else stream
    if quiet:
        yield lambda event: None
    elif not target.isatty():
        yield _Lines(target)
    else:
        from rich.console import Console

        with Console(file=target).status("reading") as status:
            yield lambda event: status.update(words(event))


class _Lines:
    def __init__(self, stream: TextIO) -> None:
        self.stream, self.last = stream, -PAUSE

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        if now - self.last >= PAUSE:
            self.last = now
            self.stream.write(f"{words(event)}\n")
            self.stream.flush()


def words(event: Event) -> str:
    """An event as one line."""
    numbers: dict[str, Any] = dict(event.numbers)
    total = numbers.pop("of", None)
    step = f"step {event.step}" if total is None else f"step {event.step} of {total:.0f}"
    told = "".join(f", {name.replace('_', ' ')} {n:.4g}" for name, n in numbers.items())
    return f"{event.stage}: {step}{told}"
