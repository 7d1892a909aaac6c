"""What `tacit compare` is asked: read by the command line, so no numerics are imported here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Compare:
    """Put two runs side by side, or a run and the truth of a problem: weights, prices, behaviour.

    A number is marked where the intervals of the two exclude each other.
    """

    first: Path
    """folder of a run"""
    second: Path
    """folder of another run, or of a problem whose truth is known"""
