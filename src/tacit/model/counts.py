"""Observed transitions become counts.

Counts are sparse and mergeable: parts of a stream are counted one by one and added up, so that
millions of rows need little more memory than the distinct transitions among them.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.files.columns import integers
from tacit.model.transitions import read_only

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.data.demonstrations import Demonstrations

# Rows counted at once: their keys fit in a few dozen MiB.
CHUNK = 2_000_000
NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class TransitionCounts:
    """How often each action in each state led where; two counts of one world add up with `+`.

    Attributes:
        states: S, the number of states.
        actions: A, the number of actions.
        rows: [M] state * A + action of each distinct transition, in order.
        next_states: [M] where it led, in order within a row.
        counts: [M] how often it was seen; positive.
    """

    states: int
    actions: int
    _: KW_ONLY
    rows: np.ndarray
    next_states: np.ndarray
    counts: np.ndarray

    @property
    def visits(self) -> np.ndarray:
        """[S, A] how often each action was taken in each state, and seen to lead somewhere."""
        total = np.bincount(self.rows, weights=self.counts, minlength=self.states * self.actions)
        return total.reshape(self.states, self.actions)

    @property
    def matrix(self) -> csr_array:
        """[S * A, S] the counts as a scipy.sparse CSR array, row s * A + a."""
        from scipy.sparse import csr_array

        shape = (self.states * self.actions, self.states)
        return csr_array((self.counts, (self.rows, self.next_states)), shape=shape)

    def __add__(self, other: TransitionCounts) -> TransitionCounts:
        if (self.states, self.actions) != (other.states, other.actions):
            raise InvalidDemonstrations(
                "counts add up only within one world; got S, A = "
                f"{(self.states, self.actions)} and {(other.states, other.actions)}"
            )
        keys = np.concatenate([self._keys, other._keys])
        counts = np.concatenate([self.counts, other.counts])
        return _gathered(keys, counts, self.states, self.actions)

    @property
    def _keys(self) -> np.ndarray:
        return self.rows * self.states + self.next_states

    def __repr__(self) -> str:
        return (
            f"TransitionCounts(states={self.states}, actions={self.actions}, "
            f"distinct={len(self.rows)}, steps={self.counts.sum():g})"
        )


def count_transitions(
    states: ArrayLike,
    actions: ArrayLike,
    next_states: ArrayLike,
    *,
    n_states: int | None = None,
    n_actions: int | None = None,
) -> TransitionCounts:
    """The `TransitionCounts` of rows (state, action, next state), in any order.

    Args:
        states: [N] where each step began.
        actions: [N] what was done there.
        next_states: [N] where it led.
        n_states: S; None takes one more than the largest number seen.
        n_actions: A; None takes one more than the largest number seen.
    """
    given = {"states": states, "actions": actions, "next_states": next_states}
    columns = {name: _column(column, name) for name, column in given.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidDemonstrations(
            f"states, actions and next_states must be as many; got {[*lengths.values()]}"
        )
    if lengths["states"] == 0 and (n_states is None or n_actions is None):
        raise InvalidDemonstrations("there must be at least one transition; got none")
    largest = {name: int(column.max(initial=-1)) for name, column in columns.items()}
    n_states = _size(n_states, max(largest["states"], largest["next_states"]) + 1, "n_states")
    n_actions = _size(n_actions, largest["actions"] + 1, "n_actions")
    for name, column in columns.items():
        count = n_actions if name == "actions" else n_states
        outside = (column < 0) | (column >= count)
        if outside.any():
            row = int(np.argmax(outside))
            got = f"row {row} has {column[row]}"
            raise InvalidDemonstrations(f"{name} must be in 0..{count - 1}; {got}")
    total = _gathered(np.zeros(0, np.int64), None, n_states, n_actions)
    for first in range(0, lengths["states"], CHUNK):
        s, a, following = (column[first : first + CHUNK] for column in columns.values())
        keys = (s.astype(np.int64) * n_actions + a) * n_states + following
        total = total + _gathered(keys, None, n_states, n_actions)
    return total


class ObservedSteps(NamedTuple):
    """Transitions that were observed, and what is known of where episodes ended."""

    states: ArrayLike  # [N] where each step with a known outcome began
    actions: ArrayLike  # [N] what was done there
    next_states: ArrayLike  # [N] where it led
    ends: np.ndarray = NONE  # distinct states in which an episode ended, and nothing was done
    stays: np.ndarray = NONE  # distinct states in which one ended and all that was done stayed
    uncounted: int = 0  # number of last steps whose outcome was not recorded


def observed_steps(demonstrations: Demonstrations) -> ObservedSteps:
    """The steps of `Demonstrations` whose outcome is known: all but some last ones.

    A state in which an episode `ended` is one that nothing leaves: demonstrations in which another
    step leaves it are refused. Where something was done in it, and it stayed, time goes on there.
    """
    last = demonstrations.offsets[1:] - 1
    following = np.empty(demonstrations.steps, np.int32)
    following[:-1] = demonstrations.states[1:]
    following[last] = demonstrations.final_states
    known = following >= 0
    states = demonstrations.states[known]
    following = following[known]
    final = demonstrations.final_states
    ends = np.unique(final[demonstrations.ended & (final >= 0)]).astype(np.int64)
    left = np.isin(states, ends) & (following != states)
    if left.any():
        row = int(np.flatnonzero(known)[np.argmax(left)])
        state = int(demonstrations.states[row])
        raise InvalidDemonstrations(
            f"nothing may leave a state in which an episode has ended; state {state} ends one, but "
            f"episode {demonstrations.episode[row]} leaves it at step {demonstrations.step[row]}: "
            "clear `ended`, or let it lead to a state of its own (rollouts: ends=np.full(S, S))"
        )
    acted = np.isin(ends, demonstrations.states)
    return ObservedSteps(
        states=states,
        actions=demonstrations.actions[known],
        next_states=following,
        ends=ends[~acted],
        stays=ends[acted],
        uncounted=int(demonstrations.steps - known.sum()),
    )


def start_shares(demonstrations: Demonstrations | None, states: int) -> np.ndarray:
    """[S] the shares of the first states of the episodes that were seen from their start."""
    whole = None if demonstrations is None else ~demonstrations.partial
    if demonstrations is None or whole is None or not whole.any():
        raise InvalidModel(
            "initial must be given, a distribution [S] or the number of a state: no episode was "
            "seen from its start"
        )
    rows = demonstrations.offsets[:-1][whole]
    total = np.bincount(demonstrations.states[rows], demonstrations.shares[rows], states)
    return total / total.sum()


def _column(values: ArrayLike, name: str) -> np.ndarray:
    """[N] integers; columns of demonstrations, 32 bits wide, are not copied."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype == np.int32:
        return values
    return integers(values, name)


def _gathered(
    keys: np.ndarray, weights: np.ndarray | None, states: int, actions: int
) -> TransitionCounts:
    """Counts with each distinct key once."""
    distinct, place = np.unique(keys, return_inverse=True)
    counts = np.bincount(place, weights=weights, minlength=len(distinct)).astype(np.float64)
    rows, following, counts = map(read_only, (*np.divmod(distinct, states), counts))
    return TransitionCounts(states, actions, rows=rows, next_states=following, counts=counts)


def _size(given: int | None, seen: int, name: str) -> int:
    if given is None:
        return seen
    whole = isinstance(given, int | np.integer) and not isinstance(given, bool)
    if not whole or given < 1:
        raise InvalidDemonstrations(f"{name} must be a positive integer; got {given!r:.60}")
    return int(given)
