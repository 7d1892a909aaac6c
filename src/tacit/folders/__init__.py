"""Problems and runs on disk: folders that are read, written, claimed and gone on with."""

from tacit.folders.claim import Claim, claimed
from tacit.folders.journal import checkpoint
from tacit.folders.problem import Problem
from tacit.folders.runs import Run

__all__ = ["Claim", "Problem", "Run", "checkpoint", "claimed"]
