"""Problems and runs on disk: folders that are read, written, claimed and gone on with."""

from tacit.folders.problem import Problem
from tacit.folders.resume import Claim, checkpoint, claimed
from tacit.folders.runs import Run

__all__ = ["Claim", "Problem", "Run", "checkpoint", "claimed"]
