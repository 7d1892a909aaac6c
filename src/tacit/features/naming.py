"""Which state or action is meant: a number, or a name that a layout knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.layout import Layout
from tacit.mdp import MDP


def known_states(world: Any, layout: Layout | None = None) -> tuple[int, Layout]:
    """(S, the layout that names them) of a number of states, an `MDP` or a `Layout`."""
    if isinstance(world, Layout):
        layout, count = world, len(world.state_names) or world.rows * world.columns
        if count == 0:
            raise InvalidModel("this layout does not tell the number of states: pass an MDP")
    elif isinstance(world, MDP):
        count = world.states
    elif isinstance(world, int | np.integer) and not isinstance(world, bool) and world > 0:
        count = int(world)
    else:
        raise InvalidModel(
            f"the world must be an MDP, a Layout or the number of states; got {world!r:.60}"
        )
    layout = layout or Layout()
    if layout.state_names and len(layout.state_names) != count:
        raise InvalidModel(
            f"the layout must name all {count} states; it names {len(layout.state_names)}"
        )
    return count, layout


def found(given: Any, count: int, names: Sequence[str], what: str) -> int:
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


def state_names(layout: Layout, count: int) -> tuple[str, ...]:
    """[S] what the states are called; grid cells such as "(0, 1)" are names, too."""
    if not (layout.state_names or layout.is_grid):
        return ()
    return tuple(layout.state_name(s) for s in range(count))


def several(given: Any, count: int, names: Sequence[str], what: str) -> list[int]:
    """The numbers of one or more states or actions, each once."""
    listed = [given] if isinstance(given, str | int | np.integer) else list(given)
    if not listed:
        raise InvalidModel(f"at least one {what} must be named; got none")
    numbers = [found(one, count, names, what) for one in listed]
    if len(set(numbers)) < len(numbers):
        raise InvalidModel(f"every {what} must be named once; got {listed!r:.80}")
    return numbers
