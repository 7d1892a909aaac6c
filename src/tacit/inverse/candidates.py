"""What may be forbidden: states, actions, pairs, values of features, named groups.

A candidate is a set of pairs (state, action) that are not taken and of states that are not entered.
In a world without it, what leads for certain into a forbidden state or into a dead end is not there
either: `Closure` finds all of that.

If a set C is allowed, the chance that a trajectory avoids it is h(start), with
h(s) = sum over a not in C of pi(a|s) sum p h and h(end) = 1; a trajectory that was cut off after T
steps needs T products instead. The p-value of "C is allowed" is the product over trajectories. For
complete trips in a world without chance it equals exp(-gain in log-likelihood) by forbidding C.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidModel
from tacit.model.mdp import MDP
from tacit.model.objective import Features

if TYPE_CHECKING:
    from scipy.sparse import csr_array

KINDS = ("states", "actions", "features", "pairs")
# Distinct values up to which each value of a feature is a candidate; beyond, level sets are.
VALUES = 6
# Shares of the pairs below and above which the level sets of a feature lie.
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)

# Entries of the arrays of one block of candidates.
AT_ONCE = 4_000_000
# States up to which chains are dense.
DENSE = 300
# A chain that cannot leave some states leaves them so often, which makes its system regular.
LEAK = 1e-14

# A named group: states, or pairs of state and action.
Members = tuple[int, ...] | tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidate:
    """Something that may be forbidden.

    Attributes:
        kind: "state", "action", "pair", "feature" or "group".
        index: its number; of a pair (state, action); of a feature among reward and cost features.
        name: what it is called.
        pairs: [P] the pairs s * A + a that it forbids.
        states: [Q] the states that it forbids to be in.
    """

    kind: str
    index: int | tuple[int, int]
    name: str
    pairs: np.ndarray
    states: np.ndarray

    @property
    def key(self) -> tuple[bytes, bytes]:
        """The same for candidates that forbid the same."""
        return self.pairs.tobytes(), self.states.tobytes()


NOTHING = np.zeros(0, np.int64)


def candidates_of(
    mdp: MDP, features: Features, kinds: Sequence[str], groups: Sequence[tuple[str, Members]]
) -> list[Candidate]:
    """All candidates of these kinds, the named groups first; of those that are the same the first.

    Args:
        mdp: the model.
        features: whose values may be forbidden.
        kinds: of `KINDS`.
        groups: (name, members) each.
    """
    makers = {"states": _states, "actions": _actions, "pairs": _pairs}
    found = list(_groups(mdp, groups))
    for kind in KINDS:
        if kind in kinds:
            found += _features(mdp, features) if kind == "features" else makers[kind](mdp)
    once: dict[tuple[bytes, bytes], Candidate] = {}
    for one in found:
        if len(one.pairs) or len(one.states):
            once.setdefault(one.key, one)
    return list(once.values())


def _states(mdp: MDP) -> Iterator[Candidate]:
    for s in range(mdp.states):
        yield Candidate(
            kind="state", index=s, name=f"state {s}", pairs=NOTHING, states=np.array([s])
        )


def _actions(mdp: MDP) -> Iterator[Candidate]:
    for a in range(mdp.actions):
        pairs = np.flatnonzero(mdp.available[:, a]) * mdp.actions + a
        yield Candidate(kind="action", index=a, name=f"action {a}", pairs=pairs, states=NOTHING)


def _pairs(mdp: MDP) -> Iterator[Candidate]:
    for s, a in zip(*(part.tolist() for part in np.nonzero(mdp.available)), strict=True):
        pair = np.array([s * mdp.actions + a])
        name = f"action {a} in state {s}"
        yield Candidate(kind="pair", index=(s, a), name=name, pairs=pair, states=NOTHING)


def _features(mdp: MDP, features: Features) -> Iterator[Candidate]:
    names = [*features.reward_names, *(name for part in features.cost_names for name in part)]
    columns = [
        table[..., j]
        for table in (features.reward, *features.costs)
        for j in range(table.shape[-1])
    ]
    for j, (name, column) in enumerate(zip(names, columns, strict=True)):
        full = column if column.ndim == 2 else np.repeat(column[:, None], mdp.actions, axis=1)
        there = full[mdp.choices]
        values = np.unique(there)
        sets: list[tuple[str, np.ndarray]] = []
        if len(values) <= VALUES:
            # What most pairs have is no mark that could be forbidden.
            usual = values[np.argmax([(there == value).sum() for value in values])]
            sets = [(f"{name} = {v:g}", column == v) for v in values.tolist() if v != usual]
        else:
            for cut in np.unique(np.quantile(there, SHARES)).tolist():
                sets += [(f"{name} <= {cut:.4g}", column <= cut)]
                sets += [(f"{name} > {cut:.4g}", column > cut)]
        for said, where in sets:
            yield Candidate(kind="feature", index=j, name=said, **_members(mdp, where))


def _members(mdp: MDP, where: np.ndarray) -> dict[str, np.ndarray]:
    """The pairs and states of a set, given as [S] or [S, A] bool."""
    if where.ndim == 1:
        return {"pairs": NOTHING, "states": np.flatnonzero(where)}
    # What an end has it has on arrival.
    ends = np.flatnonzero(mdp.ends & where.any(axis=1))
    return {"pairs": np.flatnonzero(where & mdp.available), "states": ends}


def _groups(mdp: MDP, groups: Sequence[tuple[str, Members]]) -> Iterator[Candidate]:
    """The named groups, checked: within the model, not empty, and none in two of them."""
    owner: dict[int, str] = {}  # pair -> name of its group
    for g, (name, members) in enumerate(groups):
        table = np.array(members)
        sizes = np.array([mdp.states, mdp.actions][: 1 if table.ndim == 1 else 2])
        if table.size == 0:
            raise InvalidModel(f"a group must hold states or pairs; group {name!r} holds none")
        rows = table.reshape(len(table), -1)
        outside = ((rows < 0) | (rows >= sizes)).any(axis=1)
        if outside.any():
            odd = members[int(np.argmax(outside))]
            raise InvalidModel(
                f"groups must hold states in 0..{mdp.states - 1} or pairs (state, action) with "
                f"actions in 0..{mdp.actions - 1}; group {name!r} has {odd}"
            )
        if table.ndim == 1:
            own = (table[:, None] * mdp.actions + np.arange(mdp.actions)).ravel()
            held = {"pairs": NOTHING, "states": np.unique(table)}
        else:
            own = table[:, 0] * mdp.actions + table[:, 1]
            held = {"pairs": np.unique(own), "states": NOTHING}
        for pair in own.tolist():
            if owner.setdefault(pair, name) != name:
                raise InvalidModel(
                    f"groups must not overlap; {owner[pair]!r} and {name!r} both hold state "
                    f"{pair // mdp.actions}" + (f", action {pair % mdp.actions}" * (table.ndim - 1))
                )
        yield Candidate(kind="group", index=g, name=name, **held)


@dataclass(frozen=True, eq=False)
class Closure:
    """What is not there any more in each of K worlds without some candidates.

    Attributes:
        removed: [S * A, K] bool, available pairs that are gone: forbidden, or such that they may
            lead into a dead state.
        dead: [S, K] bool, forbidden states, and states in which nothing is left to be done (at
            discount 1: from which no end can be reached any more). They keep their actions: nobody
            comes there.
    """

    removed: np.ndarray
    dead: np.ndarray

    def broken_by(self, seen: Seen) -> np.ndarray:
        """[K] bool, whether a demonstration takes what is removed or is where it is dead."""
        taken = np.any(self.removed & seen.taken[:, None], axis=0)
        return np.asarray(taken | np.any(self.dead & seen.visited[:, None], axis=0))

    def within(self, other: Closure) -> np.ndarray:
        """[K] bool, whether all that is gone here is gone in the other's only world, too."""
        pairs = np.any(self.removed & ~other.removed, axis=0)
        return np.asarray(~(pairs | np.any(self.dead & ~other.dead, axis=0)))

    def one(self, k: int) -> Closure:
        """That of world k alone."""
        return Closure(self.removed[:, [k]], self.dead[:, [k]])


def close(mdp: MDP, sets: Sequence[Sequence[Candidate]]) -> Closure:
    """The `Closure` of K worlds, each without all of its candidates."""
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


@dataclass(frozen=True, eq=False)
class Seen:
    """What the demonstrations did, as far as candidates are concerned.

    Attributes:
        taken: [S * A] bool, the pairs that were taken.
        visited: [S] bool, the states that they were in, the last ones included.
        starts: [E] first state of each.
        lengths: [E] steps of each; 0 for one that came to its end.
    """

    taken: np.ndarray
    visited: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, mdp: MDP, demonstrations: Demonstrations) -> Seen:
        """What these did in this world."""
        counts = demonstrations.counts(mdp)
        final = demonstrations.final_states
        visited = np.array(counts.any(axis=1))
        visited[final[final >= 0]] = True
        complete = demonstrations.ended | ((final >= 0) & mdp.ends[final])
        starts = demonstrations.states[demonstrations.offsets[:-1]]
        lengths = np.where(complete, 0, demonstrations.lengths)
        return cls(counts.ravel() > 0, visited, starts.astype(np.int64), lengths)


def first_breach(demonstrations: Demonstrations, actions: int, closure: Closure) -> str:
    """The first step at which a demonstration does what the closure of one world forbids."""
    pairs = demonstrations.states.astype(np.int64) * actions + demonstrations.actions
    odd = closure.removed[pairs, 0] | closure.dead[demonstrations.states, 0]
    if not odd.any():
        final = demonstrations.final_states
        episode = int(np.argmax((final >= 0) & closure.dead[final, 0]))
        return f"episode {demonstrations.episode_name(episode)} ends in state {final[episode]}"
    row = int(np.argmax(odd))
    name = demonstrations.episode_name(demonstrations.episode[row])
    return (
        f"episode {name}, step {demonstrations.step[row]} takes action "
        f"{demonstrations.actions[row]} in state {demonstrations.states[row]}"
    )


def avoidance(mdp: MDP, policy: np.ndarray, closure: Closure, seen: Seen) -> np.ndarray:
    """[K] log-probabilities that the seen starts, under a policy, avoid what each closure removes.

    Args:
        mdp: the model.
        policy: [S, A] of the expert to whom all of it is allowed; 0 in the rows of ends.
        closure: of K worlds.
        seen: where the trajectories start, and how long they are.
    """
    worlds = closure.dead.shape[1]
    total = np.zeros(worlds)
    size = mdp.states * max(mdp.actions, mdp.states if mdp.states <= DENSE else 1)
    block = max(1, AT_ONCE // size)
    for begin in range(0, worlds, block):
        part = slice(begin, begin + block)
        weights = policy.reshape(-1, 1) * ~closure.removed[:, part]
        total[part] = _complete(mdp, policy, weights, closure.dead[:, part], seen)
        total[part] += _cut_off(mdp, weights, closure.dead[:, part], seen)
    return total


def _complete(
    mdp: MDP, policy: np.ndarray, weights: np.ndarray, dead: np.ndarray, seen: Seen
) -> np.ndarray:
    """[K] the part of `avoidance` of trajectories that came to their end; weights are [S * A, K].

    Given that they came there, which in a world without a discount they do for certain.
    """
    starts = seen.starts[seen.lengths == 0]
    if not len(starts):
        return np.zeros(dead.shape[1])
    stop = mdp.ends | mdp.absorbing
    every = np.zeros((mdp.states, 1), bool)
    ending = _solved(mdp, policy.reshape(-1, 1), every, stop)
    found = _solved(mdp, weights, dead, stop)
    # Where this world never ends, its trajectories cannot have, and say nothing.
    given = np.divide(found, ending, out=np.ones_like(found), where=ending > 0)
    with np.errstate(divide="ignore"):
        return np.log(np.minimum(given, 1.0))[starts].sum(axis=0)


def _solved(mdp: MDP, weights: np.ndarray, dead: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """[S, K] chances to come to a stop [S] by weights [S * A, K], past what is dead [S, K]."""
    from scipy.sparse import csr_array, eye_array
    from scipy.sparse.linalg import splu

    worlds, shape = dead.shape[1], (mdp.states, mdp.actions)
    target = (stop[:, None] & ~dead).astype(np.float64)
    going = ~(stop[:, None] | dead)
    if mdp.states <= DENSE:
        table = (weights.reshape(*shape, worlds) * going[:, None]).transpose(2, 0, 1)
        chains = np.einsum("ksa,sat->kst", table, mdp.dense(), optimize=True)
        systems = np.eye(mdp.states) - (1.0 - LEAK) * chains
        return np.linalg.solve(systems, target.T[:, :, None])[:, :, 0].T.clip(0.0)
    found, moves = np.empty((mdp.states, worlds)), mdp.sparse()
    rows = np.repeat(np.arange(mdp.states), mdp.actions)
    for k in range(worlds):
        own = weights[:, k] * np.repeat(going[:, k], mdp.actions)
        choose = csr_array((own, (rows, np.arange(len(own)))), (mdp.states, len(own)))
        system = eye_array(mdp.states) - (1.0 - LEAK) * (choose @ moves)
        found[:, k] = splu(system.tocsc()).solve(target[:, k])
    return found.clip(0.0)


def _cut_off(mdp: MDP, weights: np.ndarray, dead: np.ndarray, seen: Seen) -> np.ndarray:
    """[K] the part of `avoidance` of trajectories that were cut off: as many steps as they have."""
    total = np.zeros(dead.shape[1])
    longest = int(seen.lengths.max(initial=0))
    if longest == 0:
        return total
    moves, shape = mdp.sparse(), (mdp.states, mdp.actions, dead.shape[1])
    h = (~dead).astype(np.float64)
    for step in range(1, longest + 1):
        h_next = (weights * (moves @ h)).reshape(shape).sum(axis=1)
        h_next[mdp.ends] = 1.0
        h = np.where(dead, 0.0, h_next)
        starts = seen.starts[seen.lengths == step]
        if len(starts):
            with np.errstate(divide="ignore"):
                total += np.log(np.minimum(h, 1.0))[starts].sum(axis=0)
    return total
