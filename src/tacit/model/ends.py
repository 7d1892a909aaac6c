"""Where episodes end: states without an available action, the ways there, and how long they are.

Where something is taken out of a world, what leads into it for certain or into a dead end is not
there either: `close` finds all of that.

Without a discount no residual shrinks by itself: an upper bound on values is found by `lift`, along
the expected length of what is left of an episode.

Inside the engine an end is a state with one action, its action 0, that leads nowhere: an empty row.
Its value is then what it pays, its visits are its arrivals, and every linear system of a chain just
works. Outside, the policy of an end is 0 and its arrivals are spread evenly over its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tacit.engine.kernels.chains import chain_solve, policy_chain
from tacit.errors import InvalidModel

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.model.mdp import MDP

# Policies tried for the shortest walk: any of them is one, the last ones are only shorter.
TRIES = 100
# How often a lift that is too small is doubled.
DOUBLINGS = 40
# Roundings in a value: of the sum over next states, of the reward and of the difference.
LAST_DIGITS = 16.0 * np.finfo(np.float64).eps
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
        kept = taken.ravel()[pairs] > 0
        pairs, following = pairs[kept], following[kept]
    # Backwards, and from one place beyond all ends.
    ends = np.flatnonzero(mdp.ends)
    begin = np.r_[following, np.full(len(ends), mdp.states)]
    reach = np.r_[pairs // mdp.actions, ends]
    shape = (mdp.states + 1, mdp.states + 1)
    graph = csr_array((np.ones(len(begin)), (begin, reach)), shape=shape)
    return dijkstra(graph, unweighted=True, indices=mdp.states)[: mdp.states] - 1.0


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

    every, moves = np.arange(mdp.states), mdp.sparse()
    away = steps_to_end(mdp)
    entries = moves.tocoo()
    at = entries.coords[0] // mdp.actions
    nearer = away[entries.coords[1]] < away[at]
    likely = np.bincount(
        entries.coords[0], weights=entries.data * nearer, minlength=mdp.states * mdp.actions
    ).reshape(mdp.states, mdp.actions)
    policy = np.where(mdp.choices, likely, -1.0).argmax(axis=1)
    lengths = np.zeros(mdp.states)
    for _ in range(TRIES):
        chain = moves[every * mdp.actions + policy]
        lengths = splu((eye_array(mdp.states) - chain).tocsc()).solve(np.ones(mdp.states))
        after = 1.0 + (moves @ lengths).reshape(mdp.states, mdp.actions)
        after = np.where(mdp.choices, after, np.inf)
        shorter = after.min(axis=1) < lengths * (1.0 - 1e-9)
        if not shorter.any():
            break
        policy = np.where(shorter, after.argmin(axis=1), policy)
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
    """[..., S, A] the same table, 0 for actions that are not there: they set no scale."""
    return np.where(mdp.choices, table, 0.0) if mdp.restricted else table


def uniform_policy(mdp: MDP) -> np.ndarray:
    """[S, A] every available action alike; 0 in the rows of ends."""
    return mdp.available / np.maximum(mdp.available.sum(axis=1, keepdims=True), 1)


@dataclass(frozen=True, eq=False)
class Closure:
    """What is not there any more in each of K worlds without some removals.

    Attributes:
        removed: [S * A, K] bool, available pairs that are gone: forbidden, or such that they may
            lead into a dead state.
        dead: [S, K] bool, forbidden states, and states in which nothing is left to be done (at
            discount 1: from which no end can be reached any more). They keep their actions: nobody
            comes there.
    """

    removed: np.ndarray
    dead: np.ndarray

    def broken_by(self, taken: np.ndarray, visited: np.ndarray) -> np.ndarray:
        """[K] bool, whether pairs taken [S * A] are removed, or states visited [S] dead."""
        odd = np.any(self.removed & taken[:, None], axis=0)
        return np.asarray(odd | np.any(self.dead & visited[:, None], axis=0))

    def within(self, other: Closure) -> np.ndarray:
        """[K] bool, whether all that is gone here is gone in the other's only world, too.

        Pairs of states that are dead there are gone with them.
        """
        gone = other.removed | np.repeat(other.dead, len(self.removed) // len(self.dead), axis=0)
        pairs = np.any(self.removed & ~gone, axis=0)
        return np.asarray(~(pairs | np.any(self.dead & ~other.dead, axis=0)))

    def one(self, k: int) -> Closure:
        """That of world k alone."""
        return Closure(self.removed[:, [k]], self.dead[:, [k]])


class Removal(Protocol):
    """Something that may be taken out of a world."""

    @property
    def pairs(self) -> np.ndarray:
        """[P] pairs s * A + a that are not to be taken."""
        ...

    @property
    def states(self) -> np.ndarray:
        """[Q] states that are not to be entered."""
        ...


def close(mdp: MDP, sets: Sequence[Sequence[Removal]]) -> Closure:
    """The `Closure` of K worlds, each without all of these removals."""
    allowed = np.repeat(mdp.available.reshape(-1, 1), len(sets), axis=1)
    viable = np.ones((mdp.states, len(sets)), bool)
    for k, chosen in enumerate(sets):
        for one in chosen:
            allowed[one.pairs, k] = False
            viable[one.states, k] = False
    moves = mdp.sparse()
    shape = (mdp.states, mdp.actions, len(sets))
    while True:
        left = allowed & ~_some(moves, ~viable)
        going = left.reshape(shape).any(axis=1)
        if mdp.discount == 1.0:
            going = _reaching(moves, left, mdp.ends, shape)
        after = viable & (mdp.ends[:, None] | going)
        if (after == viable).all():
            break
        viable = after
    there = np.repeat(viable, mdp.actions, axis=0) & mdp.available.reshape(-1, 1)
    return Closure(there & ~left, ~viable)


def _some(moves: csr_array, states: np.ndarray) -> np.ndarray:
    """[S * A, K] bool, the pairs that may lead into some of the states [S, K]."""
    return (moves @ states.astype(np.float64)) > 0


def _reaching(
    moves: csr_array, left: np.ndarray, ends: np.ndarray, shape: tuple[int, int, int]
) -> np.ndarray:
    """[S, K] bool, whether an end can be reached by the pairs that are left [S * A, K]."""
    reach = np.repeat(ends[:, None], shape[2], axis=1)
    while True:
        more = reach | (left & _some(moves, reach)).reshape(shape).any(axis=1)
        if (more == reach).all():
            return reach
        reach = more


def lift(mdp: MDP, reward: np.ndarray, values: np.ndarray, temperature: float) -> np.ndarray | None:
    """[S] what to add to `values` [S] so that no backup exceeds them; None if nothing was found.

    Then they bound every policy's value from above. The lift goes along the expected length w of
    the rest of an episode: one backup lowers c * w by about c.

    Args:
        mdp: the model, at discount 1.
        reward: [S, A] of the Lagrangian.
        values: [S].
        temperature: of the backup; 0 for a hard one.
    """
    if not np.isfinite(values).all():
        return None
    scale = np.abs(reward) + np.abs(values)[:, None] + mdp.expected_next(np.abs(values))
    rounding = LAST_DIGITS * np.where(mdp.choices, scale + temperature, 0.0).max(axis=1)
    utility = np.where(mdp.choices, reward + mdp.expected_next(values), -np.inf)
    if temperature == 0.0:
        slack = values[:, None] - utility
        slack = np.where(slack >= -rounding[:, None], np.maximum(slack, 0.0), slack)
        if slack.min() >= 0.0:
            return np.zeros(mdp.states)
        for policy in np.eye(mdp.actions)[[utility.argmax(axis=1), mdp.walk[0]]]:
            found = _straight(mdp, slack, _lengths(mdp, policy))
            if found is not None:
                return found
        return None
    from scipy.special import logsumexp, softmax

    def backed(utility: np.ndarray) -> np.ndarray:
        return temperature * np.asarray(logsumexp(utility / temperature, axis=1))

    above = backed(utility) - values
    if (above <= rounding).all():
        return np.zeros(mdp.states)
    lengths = _lengths(mdp, softmax(utility / temperature, axis=1))
    if lengths is None:
        return None
    height = float(above.max())
    for _ in range(DOUBLINGS):
        raised = values + height * lengths
        utility = np.where(mdp.choices, reward + mdp.expected_next(raised), -np.inf)
        over = backed(utility) - raised
        if (over <= LAST_DIGITS * height * lengths + rounding).all():
            return height * lengths
        height *= 2.0
    return None


def _straight(mdp: MDP, slack: np.ndarray, lengths: np.ndarray | None) -> np.ndarray | None:
    """[S] c * lengths with slack + c * (lengths - P lengths) >= 0 for all pairs; None if no c."""
    if lengths is None:
        return None
    fall = lengths[:, None] - mdp.expected_next(lengths)
    wrong = slack < 0.0
    if (fall[wrong] <= 0.0).any():
        return None
    height = float((-slack[wrong] / fall[wrong]).max())
    rises = mdp.choices & (fall < 0.0)
    if (slack[rises] + height * fall[rises] < 0.0).any():
        return None
    return height * lengths


def _lengths(mdp: MDP, policy: np.ndarray) -> np.ndarray | None:
    """[S] the states that a policy [S, A] passes on average; None where it does not end."""
    lengths = chain_solve(mdp, *policy_chain(mdp, policy), np.ones(mdp.states), transposed=False)
    left = 1.0 + (policy * mdp.expected_next(lengths)).sum(axis=1) - lengths
    fine = np.isfinite(lengths).all() and lengths.min() > 0.0
    return lengths if fine and np.abs(left).max() < 0.5 else None


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
