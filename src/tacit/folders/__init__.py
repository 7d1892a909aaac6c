"""Problems and runs on disk."""

from typing import TYPE_CHECKING

from tacit import names_on_demand

if TYPE_CHECKING:
    from tacit.engine.progress import checkpoint
    from tacit.files.atomic import (
        BadFile,
        locked,
        read_page,
        write_bytes,
        write_page,
    )
    from tacit.files.trees import sound
    from tacit.folders.claims import Claim, claimed
    from tacit.folders.problem import Problem
    from tacit.folders.runs import Run, versions

__all__ = [
    "BadFile",
    "Claim",
    "Problem",
    "Run",
    "checkpoint",
    "claimed",
    "locked",
    "read_page",
    "sound",
    "versions",
    "write_bytes",
    "write_page",
]

_HOME, __getattr__, __dir__ = names_on_demand(__name__)
