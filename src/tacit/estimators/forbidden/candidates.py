"""What may be forbidden: states, actions, pairs, values of features, named groups.

A candidate is a set of pairs (state, action) that are not taken and of states that are not entered.
In a world without it, what leads for certain into a forbidden state or into a dead end is not there
either: `Closure` finds all of that.

If a set C is allowed, the p-value of "C is allowed" is the chance that all trajectories avoid it
(`forward.simulation.avoidance`). For complete trips in a world without chance it equals
exp(-gain in log-likelihood) by forbidding C.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidModel
from tacit.forward.avoidance import Coverage
from tacit.inference.sets import HardConstraint
from tacit.model.closure import Closure, close
from tacit.model.mdp import MDP
from tacit.model.objective import Features

KINDS = ("states", "actions", "features", "pairs")
# Distinct values up to which each value of a feature is a candidate; beyond, level sets are.
MOST_VALUES = 6
# Quantiles, over the pairs, at which the level sets of a feature are cut.
LEVEL_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)

# A named group: states, or pairs of state and action.
Members = tuple[int, ...] | tuple[tuple[int, int], ...]
NOTHING = np.zeros(0, np.int64)


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
    pairs: np.ndarray = field(default_factory=lambda: NOTHING)
    states: np.ndarray = field(default_factory=lambda: NOTHING)

    def record(self) -> HardConstraint:
        """The record of it in a recovery."""
        held = tuple(self.states.tolist())
        return HardConstraint(kind=self.kind, index=self.index, name=self.name, states=held)

    @property
    def key(self) -> tuple[bytes, bytes]:
        """The same for candidates that forbid the same."""
        return self.pairs.tobytes(), self.states.tobytes()


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
    candidates = list(_groups(mdp, groups))
    for kind in KINDS:
        if kind in kinds:
            candidates += _features(mdp, features) if kind == "features" else makers[kind](mdp)
    distinct: dict[tuple[bytes, bytes], Candidate] = {}
    for candidate in candidates:
        if len(candidate.pairs) or len(candidate.states):
            distinct.setdefault(candidate.key, candidate)
    return list(distinct.values())


def _states(mdp: MDP) -> Iterator[Candidate]:
    for s in range(mdp.states):
        yield Candidate(kind="state", index=s, name=f"state {s}", states=np.array([s]))


def _actions(mdp: MDP) -> Iterator[Candidate]:
    for a in range(mdp.actions):
        pairs = np.flatnonzero(mdp.available[:, a]) * mdp.actions + a
        yield Candidate(kind="action", index=a, name=f"action {a}", pairs=pairs)


def _pairs(mdp: MDP) -> Iterator[Candidate]:
    for s, a in zip(*(part.tolist() for part in np.nonzero(mdp.available)), strict=True):
        pair, name = np.array([s * mdp.actions + a]), f"action {a} in state {s}"
        yield Candidate(kind="pair", index=(s, a), name=name, pairs=pair)


def _features(mdp: MDP, features: Features) -> Iterator[Candidate]:
    """Single values of each feature but the commonest; level sets where there are many values."""
    names = [*features.reward_names, *(name for part in features.cost_names for name in part)]
    columns = [
        table[..., j]
        for table in (features.reward, *features.costs)
        for j in range(table.shape[-1])
    ]
    for j, (name, column) in enumerate(zip(names, columns, strict=True)):
        by_action = column if column.ndim == 2 else np.repeat(column[:, None], mdp.actions, axis=1)
        of_pairs = by_action[mdp.choices]
        values = np.unique(of_pairs)
        sets: list[tuple[str, np.ndarray]] = []
        if len(values) <= MOST_VALUES:
            # What most pairs have is no mark that could be forbidden.
            usual = values[np.argmax([(of_pairs == value).sum() for value in values])]
            sets = [(f"{name} = {v:g}", column == v) for v in values.tolist() if v != usual]
        else:
            for cut in np.unique(np.quantile(of_pairs, LEVEL_QUANTILES)).tolist():
                sets += [(f"{name} <= {cut:.4g}", column <= cut)]
                sets += [(f"{name} > {cut:.4g}", column > cut)]
        for label, where in sets:
            yield Candidate(kind="feature", index=j, name=label, **_members(mdp, where))


def _members(mdp: MDP, where: np.ndarray) -> dict[str, np.ndarray]:
    """The pairs and states of a set, given as [S] or [S, A] bool."""
    if where.ndim == 1:
        return {"states": np.flatnonzero(where)}
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
            held = {"states": np.unique(table)}
        else:
            own = table[:, 0] * mdp.actions + table[:, 1]
            held = {"pairs": np.unique(own)}
        for pair in own.tolist():
            if owner.setdefault(pair, name) != name:
                raise InvalidModel(
                    f"groups must not overlap; {owner[pair]!r} and {name!r} both hold state "
                    f"{pair // mdp.actions}" + (f", action {pair % mdp.actions}" * (table.ndim - 1))
                )
        yield Candidate(kind="group", index=g, name=name, **held)


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


def members(name: str, given: Sequence[int] | Sequence[tuple[int, int]]) -> Members:
    """A group as plain numbers, states or pairs."""
    table = np.array(given)
    plain = table.ndim == 1 or (table.ndim == 2 and table.shape[1] == 2)
    if not plain or (table.size and table.dtype.kind not in "iu"):
        raise InvalidModel(
            f"a group must hold states or pairs (state, action), as whole numbers; group {name!r} "
            f"is {given!r:.60}"
        )
    return tuple(table.tolist() if table.ndim == 1 else map(tuple, table.tolist()))


def check_left(
    mdp: MDP, demonstrations: Demonstrations, found: list[Candidate], seen: Coverage
) -> None:
    """`InvalidModel` where a demonstration takes a given group, or where none is left to test."""
    closure = close(mdp, [[one] for one in found])
    broken = closure.broken_by(seen.taken, seen.visited)
    for k, one in enumerate(found):
        if broken[k] and one.kind == "group":
            own = Closure(np.zeros((mdp.available.size, 1), bool), np.zeros((mdp.states, 1), bool))
            own.removed[one.pairs], own.dead[one.states] = True, True
            # What is of the group itself says more than what only leads there for certain.
            worst = own if own.broken_by(seen.taken, seen.visited)[0] else closure.one(k)
            breach = first_breach(demonstrations, mdp.actions, worst)
            raise InvalidModel(
                f"a group that may be forbidden must not be taken by a demonstration; {one.name!r} "
                f"is: {breach}. Leave the group or the episode out"
            )
    if broken.all():
        raise InvalidModel(
            f"there must be something that no demonstration takes; all {len(found)} candidates "
            'are: add others ("pairs", or groups), or nothing can be forbidden here'
        )
