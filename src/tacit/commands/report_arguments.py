"""The arguments of `tacit report`. No numerics are imported here: help must answer at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Report:
    """One offline HTML page about a run: what was found on top, everything it rests on below."""

    run: Path
    """The folder of the run, as `tacit recover` writes it."""
    out: Path | None = None
    """File of the page; RUN/report.html unless given. Figures are saved beside the latter only."""
