"""The arguments of `tacit report`. No numerics are imported here: help must answer at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Report:
    """One offline HTML page about a run: what was found on top, everything it rests on below."""

    run: Path
    """folder of the run, as `tacit recover` writes it"""
    out: Path | None = None
    """file of the page; RUN/report.html unless given, with the figures in RUN/figures"""
