"""Reading a problem for a command: with a progress bar where it takes a while."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tacit.cli.answer import is_quiet

if TYPE_CHECKING:
    from tacit.folders.problem import Problem

# Shares of the work after which a plain line is written where there is no terminal.
TOLD = 0.25
# What takes less than this many units, bytes or rows, is done before anyone could read a line.
QUICK = 50_000_000


def load_problem(folder: Path) -> Problem:
    """The problem of a folder; how far the reading is stands on standard error."""
    from tacit.folders.problem import Problem

    with reading_bar(sys.stderr, quiet=is_quiet()) as tell:
        return Problem.load(folder, progress=tell)


@contextmanager
def reading_bar(stream: TextIO, *, quiet: bool) -> Iterator[Callable[[int, int], Any]]:
    """A function of (done, total): a bar on a terminal, a few lines elsewhere, nothing if quick.

    Args:
        stream: where to tell it.
        quiet: tell nothing.
    """
    if quiet:
        yield lambda done, total: None
    elif not stream.isatty():
        told = [0.0]

        def line(done: int, total: int) -> None:
            if total >= QUICK and done / total >= told[0] + TOLD:
                told[0] = done / total
                stream.write(f"reading the demonstrations: {done / total:.0%}\n")
                stream.flush()

        yield line
    else:
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(file=stream), transient=True) as bar:
            task = bar.add_task("reading the demonstrations", total=None, visible=False)

            def update(done: int, total: int) -> None:
                bar.update(task, completed=done, total=total, visible=total >= QUICK)

            yield update
