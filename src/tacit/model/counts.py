"""Counts of observed transitions, as a sparse table: as large as what was seen is varied."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.files.columns import integers
from tacit.model.arguments import integer

if TYPE_CHECKING:
    from tacit.data.demonstrations import Demonstrations
    from tacit.model.objective import SparseTable

# Rows counted at once: their keys fit in a few dozen MiB.
ROWS_AT_ONCE = 2_000_000
NONE = np.zeros(0, np.int64)


def count_transitions(
    states: ArrayLike,
    actions: ArrayLike,
    next_states: ArrayLike,
    *,
    n_states: int | None = None,
    n_actions: int | None = None,
) -> SparseTable:
    """[S * A, S] how often each action in each state led where, row s * A + a.

    Args:
        states: [N] where each step began.
        actions: [N] what was done there.
        next_states: [N] where it led.
        n_states: S; None takes one more than the largest number seen.
        n_actions: A; None takes one more than the largest number seen.
    """
    from scipy.sparse import csr_array

    given = {"states": states, "actions": actions, "next_states": next_states}
    columns = {name: _column(column, name) for name, column in given.items()}
    lengths = [len(column) for column in columns.values()]
    if len(set(lengths)) > 1:
        raise InvalidDemonstrations(
            f"states, actions and next_states must be as many; got {lengths}"
        )
    if lengths[0] == 0 and (n_states is None or n_actions is None):
        raise InvalidDemonstrations("there must be at least one transition; got none")
    largest = {name: int(column.max(initial=-1)) for name, column in columns.items()}
    if n_states is None:
        n_states = max(largest["states"], largest["next_states"]) + 1
    n_states = integer(n_states, "n_states", error=InvalidDemonstrations)
    n_actions = largest["actions"] + 1 if n_actions is None else n_actions
    n_actions = integer(n_actions, "n_actions", error=InvalidDemonstrations)
    for name, column in columns.items():
        _check_range(column, name, n_actions if name == "actions" else n_states)
    total = csr_array((n_states * n_actions, n_states))
    for first in range(0, lengths[0], ROWS_AT_ONCE):
        s, a, next_s = (column[first : first + ROWS_AT_ONCE] for column in columns.values())
        entries = (s.astype(np.int64) * n_actions + a, next_s)
        total = total + csr_array((np.ones(len(s)), entries), shape=total.shape)
    return cast("SparseTable", total)


def _check_range(column: np.ndarray, name: str, count: int) -> None:
    """Raises `InvalidDemonstrations` unless all numbers of a column are in 0..count - 1."""
    outside = (column < 0) | (column >= count)
    if outside.any():
        row = int(np.argmax(outside))
        got = f"row {row} has {column[row]}"
        raise InvalidDemonstrations(f"{name} must be in 0..{count - 1}; {got}")


class CountedSteps(NamedTuple):
    """Transitions that were counted, and what is known of where episodes ended."""

    counts: SparseTable  # [S * A, S] of steps with a known outcome, row s * A + a
    ends: np.ndarray = NONE  # distinct states in which an episode ended, and nothing was done
    stays: np.ndarray = NONE  # distinct states in which one ended and all that was done stayed
    uncounted: int = 0  # number of last steps whose outcome was not recorded


def count_steps(
    demonstrations: Demonstrations, *, n_states: int | None, n_actions: int | None
) -> CountedSteps:
    """The steps of `Demonstrations` whose outcome is known: all but some last ones.

    A state in which an episode `ended` is one that nothing leaves: demonstrations in which another
    step leaves it are refused. Where something was done in it, and it stayed, time goes on there.
    """
    states, next_states = demonstrations.states, demonstrations.next_states
    known = next_states >= 0
    final = demonstrations.final_states
    ends = np.unique(final[demonstrations.ended & (final >= 0)]).astype(np.int64)
    left = known & np.isin(states, ends) & (next_states != states)
    if left.any():
        row = int(np.argmax(left))
        raise InvalidDemonstrations(
            f"nothing may leave a state in which an episode has ended; state {states[row]} ends "
            f"one, but episode {demonstrations.episode[row]} leaves it at step "
            f"{demonstrations.step[row]}: clear `ended`, or let it lead to a state of its own "
            "(rollouts: ends=np.full(S, S))"
        )
    # Steps with an unknown outcome are not counted, but their states and actions exist.
    counts = count_transitions(
        states[known],
        demonstrations.actions[known],
        next_states[known],
        n_states=int(max(states.max(), final.max())) + 1 if n_states is None else n_states,
        n_actions=int(demonstrations.actions.max()) + 1 if n_actions is None else n_actions,
    )
    acted = np.isin(ends, states)
    return CountedSteps(counts, ends[~acted], ends[acted], int((~known).sum()))


def start_shares(demonstrations: Demonstrations | None, states: int) -> np.ndarray:
    """[S] the shares of the first states of the episodes that were seen from their start."""
    from_start = None if demonstrations is None else ~demonstrations.partial
    if demonstrations is None or from_start is None or not from_start.any():
        raise InvalidModel(
            "initial must be given, a distribution [S] or the number of a state: no episode was "
            "seen from its start"
        )
    rows = demonstrations.offsets[:-1][from_start]
    total = np.bincount(demonstrations.states[rows], demonstrations.shares[rows], states)
    return total / total.sum()


def _column(values: ArrayLike, name: str) -> np.ndarray:
    """[N] integers; columns of demonstrations, 32 bits wide, are not copied."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype == np.int32:
        return values
    return integers(values, name)
