"""Runs that last: a folder with one writer, a journal to go on from, and all it takes to report."""

from tacit.runs.claim import Claim, claimed
from tacit.runs.journal import checkpoint
from tacit.runs.run import Run

__all__ = ["Claim", "Run", "checkpoint", "claimed"]
