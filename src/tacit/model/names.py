"""States and actions that are given by name or by number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tacit.errors import InvalidModel
from tacit.model.transitions import Layout


def state_names(layout: Layout, count: int) -> tuple[str, ...]:
    """[S] what the states are called; grid cells such as "(0, 1)" are names, too."""
    if not (layout.state_names or layout.is_grid):
        return ()
    return tuple(layout.state_name(s) for s in range(count))


def number_of(given: str | int, count: int, names: Sequence[str], what: str) -> int:
    """The number of a state or action that is given by its number or its name."""
    if isinstance(given, str):
        if given in names:
            return names.index(given)
        hint = f"known are {', '.join(names[:6])}" + (" ..." if len(names) > 6 else "")
        raise InvalidModel(
            f"no {what} is called {given!r}; {hint if names else f'no {what} has a name here'}"
        )
    whole = isinstance(given, int | np.integer) and not isinstance(given, bool)
    if not whole or not 0 <= given < count:
        raise InvalidModel(f"a {what} must be a name or a number in 0..{count - 1}; got {given!r}")
    return int(given)


def numbers_of(
    given: str | int | Iterable[str | int], count: int, names: Sequence[str], what: str
) -> list[int]:
    """The numbers of one or more states or actions, each once."""
    listed = [given] if isinstance(given, str | int | np.integer) else list(given)  # type: ignore
    if not listed:
        raise InvalidModel(f"at least one {what} must be named; got none")
    numbers = [number_of(one, count, names, what) for one in listed]
    if len(set(numbers)) < len(numbers):
        raise InvalidModel(f"every {what} must be named once; got {listed!r:.80}")
    return numbers
