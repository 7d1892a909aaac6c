"""Which actions there are in each state, and steps that took another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import InvalidModel


class Unavailable(NamedTuple):
    """A step that took an action where there is none such."""

    row: int  # of the step
    state: int  # where it was taken
    action: int  # that was taken
    ends: bool  # whether the state has no action at all, so that the episode is over there

    def sentence(self, states: Sequence[str] = (), actions: Sequence[str] = ()) -> str:
        """What must hold, and what was got, by name where there are names."""
        state = repr(states[self.state]) if states else self.state
        action = repr(actions[self.action]) if actions else self.action
        must = "every action taken must be available in its state"
        if self.ends:
            must = "nothing may be done in a state where episodes end, which can only come last"
        return f"{must}; got action {action} in state {state}"


def first_unavailable(
    available: np.ndarray, states: np.ndarray, actions: np.ndarray
) -> Unavailable | None:
    """The first of these steps [N] that `available` [S, A] does not allow, or None."""
    taken = available[states, actions]
    if taken.all():
        return None
    row = int(np.argmin(taken))
    state = int(states[row])
    return Unavailable(row, state, int(actions[row]), not available[state].any())


def available_pairs(given: ArrayLike | None, shape: tuple[int, int]) -> np.ndarray:
    """[S, A] bool, which actions there are; all where nothing is given."""
    if given is None:
        return np.ones(shape, bool)
    try:
        table = np.array(given)
    except ValueError:
        table = np.array(None)
    if table.shape != shape:
        raise InvalidModel(
            f"available must have shape [S, A] = {shape}, true where the action is there; "
            f"got {table.shape}"
        )
    if table.dtype != bool and not (table.dtype.kind in "iuf" and np.isin(table, (0, 1)).all()):
        raise InvalidModel(f"available must hold true or false (1 or 0); got {table.dtype}")
    return table.astype(bool)
