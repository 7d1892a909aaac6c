"""Machine code for the loops of the exact solver; interpreted where numba is missing.

The exact solver follows discrete switches of policies: long chains of small, branching steps, for
which a compiled loop on the host beats an array engine by far (a 25-state problem takes a fraction
of a millisecond, and nothing is compiled anew for another shape). Without numba the answers are the
same and the wait is longer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled once for all shapes and kept on disk between processes."""
    try:
        from numba import njit
    except ImportError:
        return function
    # Sums may be reordered (that is what lets them use vector units); NaN and infinity keep their
    # meaning, since a guard that cannot see them is no guard.
    return njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"})(function)
