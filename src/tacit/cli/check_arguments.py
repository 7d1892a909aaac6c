"""What `tacit check` is asked: read by the command line, so no numerics are imported here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Check:
    """Say what is wrong with a problem folder, where, and how to mend it; warn of the rest.

    Exit code 0 if it can be used, warnings or not; 2 if it cannot.
    """

    problem: Path
    """folder of the problem"""
