"""Where episodes end: states without an available action, the ways there, and how long they are.

Inside the engine an end is a state with one action, its action 0, that leads nowhere: an empty row.
Its value is then what it pays, its visits are its arrivals, and every linear system of a chain just
works. Outside, the policy of an end is 0 and its arrivals are spread evenly over its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import InvalidModel

if TYPE_CHECKING:
    from tacit.model.mdp import MDP

# Most policies tried for the shortest walk: each of them ends, the last ones are only shorter.
MOST_POLICIES = 100
# Differences this small, relative to the largest entry of a table, are rounding of a sum of
# features: libraries add up equal rows in different orders.
ROUNDING = 1e-10


class EndUnreached(InvalidModel):
    """At discount 1 there are states from which no end can be reached: no sum there is finite.

    Attributes:
        states: [M] those states.
    """

    def __init__(self, message: str, states: Sequence[int] | np.ndarray = ()) -> None:
        super().__init__(message)
        self.states = states


def check_ends_are_reached(mdp: MDP) -> None:
    """`EndUnreached` unless every state can reach an end."""
    if not mdp.ends.any():
        raise EndUnreached(
            "discount must be in [0, 1), or 1 where every state can reach an end; got 1, and no "
            "state is an end: an end has no available action (all of available[s] false)",
            np.arange(mdp.states),
        )
    lost = np.flatnonzero(~np.isfinite(steps_to_end(mdp)))
    if len(lost):
        more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
        raise EndUnreached(
            f"discount 1 needs an end that every state can reach; state {lost[0]}{more} reaches "
            "none: leave it out, make an action that leads on available, make it an end itself "
            "(all of available[s] false), or take a discount in [0, 1)",
            lost,
        )


def steps_to_end(mdp: MDP, taken: np.ndarray | None = None) -> np.ndarray:
    """[S] the fewest steps in which an end can be reached, infinite where none can.

    By any pair of state and action, or by those that are `taken` [S, A], with more than 0.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    pairs, following = mdp.sparse().tocoo().coords
    if taken is not None:
        is_taken = taken.ravel()[pairs] > 0
        pairs, following = pairs[is_taken], following[is_taken]
    shape = (mdp.states, mdp.states)
    back = csr_array((np.ones(len(pairs)), (following, pairs // mdp.actions)), shape=shape)
    return dijkstra(back, unweighted=True, indices=np.flatnonzero(mdp.ends), min_only=True)


def never_ending(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """[S] bool, the states from which a policy [S, A] comes to no end."""
    return ~np.isfinite(steps_to_end(mdp, policy))


def led_to_an_end(mdp: MDP, counts: np.ndarray) -> np.ndarray:
    """[S, A] these counts of `choices`, with one step of the walk where they come to no end.

    The frequencies of trajectories that were cut off may go round for ever, which at discount 1 is
    no policy that anything can be said of.
    """
    if mdp.discount < 1.0:
        return counts
    lost = never_ending(mdp, counts)
    led = np.array(counts, float)
    led[lost, mdp.walk[0][lost]] += 1.0
    return led


def shortest_walk(mdp: MDP) -> tuple[np.ndarray, np.ndarray]:
    """[S] actions that lead to an end, and [S] how many states they pass on average, ends included.

    As few as possible, by policy iteration from the actions that are likeliest to come a step
    nearer. Every one of these policies reaches an end for sure.
    """
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import splu

    first_rows, moves = np.arange(mdp.states) * mdp.actions, mdp.sparse()
    shape = (mdp.states, mdp.actions)
    steps = steps_to_end(mdp)
    entries = moves.tocoo()
    pairs, next_states = entries.coords
    leads_nearer = steps[next_states] < steps[pairs // mdp.actions]
    chances = np.bincount(pairs, weights=entries.data * leads_nearer, minlength=shape[0] * shape[1])
    policy = np.where(mdp.choices, chances.reshape(shape), -1.0).argmax(axis=1)
    lengths = np.zeros(mdp.states)
    for _ in range(MOST_POLICIES):
        chain = moves[first_rows + policy]
        lengths = splu((eye_array(mdp.states) - chain).tocsc()).solve(np.ones(mdp.states))
        by_action = np.where(mdp.choices, 1.0 + (moves @ lengths).reshape(shape), np.inf)
        is_shorter = by_action.min(axis=1) < lengths * (1.0 - 1e-9)
        if not is_shorter.any():
            break
        policy = np.where(is_shorter, by_action.argmin(axis=1), policy)
    return policy.astype(np.int32), lengths


def alike_at_ends(mdp: MDP, table: np.ndarray, name: str) -> None:
    """`InvalidModel` unless `table` [..., S, A] pays the same for all actions of an end.

    Nothing is done there: what an end pays it pays once, on arrival. Rounding is no difference.
    """
    if not mdp.ends.any():
        return
    rows = table[..., mdp.ends, :]
    apart = np.abs(rows - rows[..., :1]).max(axis=-1)
    uneven = apart > 0.0
    if uneven.any():
        uneven = apart > ROUNDING * np.abs(table).max(axis=(-2, -1))[..., None]
    if uneven.any():
        where = np.argwhere(uneven)[0]
        state = int(np.flatnonzero(mdp.ends)[where[-1]])
        row = np.array2string(table[(*where[:-1], state)], precision=6, threshold=6)
        raise InvalidModel(
            f"{name} must be the same for all actions where an episode ends; "
            f"state {state} has {row}: nothing is done there, so give its rows one value"
        )


def inside_table(mdp: MDP, table: np.ndarray) -> np.ndarray:
    """[..., S, A] the table, 0 for actions that are not there: they set no scale."""
    return np.where(mdp.choices, table, 0.0) if mdp.restricted else table


def uniform_policy(mdp: MDP) -> np.ndarray:
    """[S, A] every available action alike; 0 in the rows of ends."""
    return mdp.available / np.maximum(mdp.available.sum(axis=1, keepdims=True), 1)


def check_available(mdp: MDP, policy: np.ndarray) -> None:
    """`InvalidModel` where a policy [S, A] does what is not there."""
    stray = np.where(mdp.choices, 0.0, policy)
    if stray.any():
        s, a = (int(i) for i in np.argwhere(stray)[0])
        raise InvalidModel(
            f"policy must be 0 where an action is not available; "
            f"(state {s}, action {a}) has {policy[s, a]:g}"
        )


def check_it_ends(mdp: MDP, policy: np.ndarray) -> None:
    """`InvalidModel` where a policy [S, A] never ends at discount 1."""
    if mdp.discount == 1.0 and (lost := never_ending(mdp, policy)).any():
        raise InvalidModel(
            f"policy must come to an end from every state at discount 1; "
            f"state {int(lost.argmax())} goes on for ever"
        )
