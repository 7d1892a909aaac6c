"""The loops of the exact solver, compiled: a chain's linear systems, policy iteration, pricing.

The exact solver follows discrete switches of policies: long chains of small, branching steps, for
which a compiled loop on the host beats an array engine by far (a 25-state problem takes a fraction
of a millisecond, and nothing is compiled anew for another shape). Before a compiler has been worth
its time, and without numba, the answers are the same and the wait for each is longer (`loops.py`).
"""

from __future__ import annotations

import contextlib
from pathlib import Path


def _forget_stale_code(folder: Path) -> None:
    """Drops compiled code older than any source here.

    The cache of compiled code follows each file's own changes only, but these files call each
    other: an edit of one would leave the others running its old code.
    """
    newest = max(path.stat().st_mtime for path in folder.glob("*.py"))
    for index in folder.glob("__pycache__/*.nbi"):
        if index.stat().st_mtime < newest:
            index.unlink(missing_ok=True)


with contextlib.suppress(OSError):  # a read-only or zipped installation, which nobody edits
    _forget_stale_code(Path(__file__).parent)
