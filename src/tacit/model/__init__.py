"""What everybody knows: MDP, Objective, Features, names, and dynamics estimated from counts.

Here, states and actions that are given by name or taken where there are none, sparse features and
transitions, and what demonstrations show of the dynamics.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacit.errors import InvalidModel
from tacit.model.transitions import Transitions, successor_lists

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.model.objective import FeatureTable
    from tacit.model.transitions import Layout


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


def found(given: str | int, count: int, names: Sequence[str], what: str) -> int:
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


def several(
    given: str | int | Iterable[str | int], count: int, names: Sequence[str], what: str
) -> list[int]:
    """The numbers of one or more states or actions, each once."""
    listed = [given] if isinstance(given, str | int | np.integer) else list(given)  # type: ignore
    if not listed:
        raise InvalidModel(f"at least one {what} must be named; got none")
    numbers = [found(one, count, names, what) for one in listed]
    if len(set(numbers)) < len(numbers):
        raise InvalidModel(f"every {what} must be named once; got {listed!r:.80}")
    return numbers


def sparse_moments(
    maps: Sequence[FeatureTable],
    groups: np.ndarray,
    weights: np.ndarray,
    states: np.ndarray,
    last: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """([D], [D]) means over groups of sums of state features, and squared distances from them.

    Args:
        maps: [S, D_k] each.
        groups: [N] the group of each visit, 0 to G - 1.
        weights: [N] of each visit.
        states: [N] where it was.
        last: ([G], [G]) one more state of each group, and its weight.
    """
    from scipy.sparse import csr_array, hstack

    number = len(last[0])
    shape, places = (number, maps[0].shape[0]), (np.arange(number), last[0])
    visits = csr_array((weights, (groups, states)), shape=shape)
    visits = visits + csr_array((last[1], places), shape=shape)
    sums = csr_array(hstack([csr_array(visits @ csr_array(table)) for table in maps]))
    means = np.asarray(sums.sum(axis=0)).ravel() / number
    squares = np.asarray((sums * sums).sum(axis=0)).ravel() - number * means**2
    return means, np.maximum(squares, 0.0)


class ObservedSteps(NamedTuple):
    """The transitions inside demonstrations, and what is known of where they begin and end."""

    states: np.ndarray  # [N] where each step with a known outcome began
    actions: np.ndarray  # [N] what was done there
    next_states: np.ndarray  # [N] where it led
    starts: np.ndarray  # [E'] first state of every episode that was seen from its start
    ends: np.ndarray  # distinct states in which an episode ended for good, and nothing was done
    stays: np.ndarray  # distinct states in which one ended for good and all that was done stayed
    uncounted: int  # number of last steps whose outcome was not recorded


def guessed_rows(transitions: Transitions, states: int, actions: int) -> csr_array:
    """[S * A, S] the rows of a guess, from any form of transitions or something that has them."""
    from scipy.sparse import csr_array

    lists = successor_lists(getattr(transitions, "transitions", transitions))
    shape = lists.states.shape
    if shape[:2] != (states, actions):
        raise InvalidModel(f"a prior's guess must have S, A = {(states, actions)}; got {shape[:2]}")
    rows = np.repeat(np.arange(states * actions), shape[2])
    entries = (rows, lists.states.ravel())
    return csr_array((lists.probabilities.ravel(), entries), shape=(states * actions, states))
