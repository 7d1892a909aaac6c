"""Which actions there are in each state, and steps that took another one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import InvalidModel
from tacit.model.arguments import read_only


class Sites:
    """Where actions are chosen: the states of an `MDP`, or rows that were logged.

    `available` [S, A] says which actions are there; a site without any is an end.
    """

    available: np.ndarray

    @property
    def states(self) -> int:
        """S, the number of sites."""
        return self.available.shape[0]

    @property
    def actions(self) -> int:
        """A, the number of actions."""
        return self.available.shape[1]

    @cached_property
    def restricted(self) -> bool:
        """Whether any action is not there in some state."""
        return not bool(self.available.all())

    @cached_property
    def ends(self) -> np.ndarray:
        """[S] bool, the states without an available action, where episodes end."""
        return read_only(np.logical_not(self.available.any(axis=1)))

    @cached_property
    def choices(self) -> np.ndarray:
        """[S, A] bool, the available actions, and at ends action 0, which leads nowhere.

        The form in which solvers see the model: no row is without a choice.
        """
        if not self.ends.any():
            return self.available
        choices = self.available.copy()
        choices[self.ends, 0] = True
        return read_only(choices)


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
