"""Machine code for loops on the host; interpreted where numba is missing.

The exact solver follows discrete switches of policies: long chains of small, branching steps, for
which a compiled loop on the host beats an array engine by far (a 25-state problem takes a fraction
of a millisecond, and nothing is compiled anew for another shape). Without numba the answers are the
same and the wait is longer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# NaN and infinity keep their meaning: a guard that cannot see them is no guard.
SAFE = {"contract", "nsz"}


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled once for all shapes and kept on disk between processes.

    Its sums may be reordered: that is what lets them use vector units.
    """
    return _njit(function, SAFE | {"reassoc", "arcp"})


def compiled_as_written(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same, for arithmetic whose rounding is the point: (x + big) - big is not x."""
    return _njit(function, SAFE)


def _njit(function: Callable[..., Any], fastmath: set[str]) -> Callable[..., Any]:
    try:
        from numba import njit
    except ImportError:
        return function
    return njit(cache=True, nogil=True, fastmath=fastmath)(function)
