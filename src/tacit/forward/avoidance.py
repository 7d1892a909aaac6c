"""The chance that demonstrations of a policy avoid something."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.model.mdp import MDP

# Entries of the arrays of one block of sets to avoid.
AT_ONCE = 4_000_000
# States up to which chains are dense.
DENSE = 300
# A chain that cannot leave some states leaves them so often, which makes its system regular.
LEAK = 1e-14


class Coverage(NamedTuple):
    """What the demonstrations did, as far as avoiding is concerned."""

    taken: np.ndarray  # [S * A] bool, the pairs that were taken
    visited: np.ndarray  # [S] bool, the states that they were in, the last ones included
    starts: np.ndarray  # [C] first states, of each kind of trajectory
    lengths: np.ndarray  # [C] steps, of each kind; 0 for those that came to their end
    many: np.ndarray  # [C] trajectories of each kind

    @property
    def episodes(self) -> int:
        """How many trajectories there are."""
        return int(self.many.sum())

    @classmethod
    def of(cls, mdp: MDP, demonstrations: Demonstrations) -> Coverage:
        """What these did in this world."""
        counts = demonstrations.counts(mdp)
        final = demonstrations.final_states
        visited = np.array(counts.any(axis=1))
        visited[final[final >= 0]] = True
        complete = demonstrations.ended | ((final >= 0) & mdp.ends[final])
        starts = demonstrations.states[demonstrations.offsets[:-1]].astype(np.int64)
        lengths = np.where(complete, 0, demonstrations.lengths)
        kinds, many = np.unique(np.stack([starts, lengths]), axis=1, return_counts=True)
        return cls(counts.ravel() > 0, visited, kinds[0], kinds[1], many)


@dataclass(frozen=True, eq=False)
class Avoiding:
    """What trajectories of some kinds must not touch, in each of K cases.

    With pi the policy, the chance that a trajectory from s does not is h(s), where
    h(s) = sum over a not removed of pi(a|s) sum p h and h(end) = 1, 0 where s is dead; one that was
    cut off after T steps needs T products instead. A world that may never end counts its complete
    trajectories given that they came to an end.

    Attributes:
        mdp: the model.
        policy: [S, A] of the demonstrator; 0 in the rows of ends.
        removed: [S * A, K] bool, pairs that must not be taken.
        dead: [S, K] bool, states that must not be entered.
    """

    mdp: MDP
    policy: np.ndarray
    removed: np.ndarray
    dead: np.ndarray

    def logs(self, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """[C, K] log-chances of one trajectory of each kind: first state, steps (0: complete)."""
        return np.concatenate([part for _, part in self._blocks(starts, lengths)], axis=1)

    def total(self, starts: np.ndarray, lengths: np.ndarray, many: np.ndarray) -> np.ndarray:
        """[K] log-chances of so many trajectories [C] of each kind."""
        total = np.zeros(self.dead.shape[1])
        for part, logs in self._blocks(starts, lengths):
            total[part] = many @ logs
        return total

    def _blocks(
        self, starts: np.ndarray, lengths: np.ndarray
    ) -> Iterator[tuple[slice, np.ndarray]]:
        mdp, cases = self.mdp, self.dead.shape[1]
        size = mdp.states * max(mdp.actions, mdp.states if mdp.states <= DENSE else 1)
        block = max(1, AT_ONCE // size)
        for begin in range(0, cases, block):
            part = slice(begin, begin + block)
            weights = self.policy.reshape(-1, 1) * ~self.removed[:, part]
            dead = self.dead[:, part]
            chances = np.empty((len(starts), dead.shape[1]))
            complete = lengths == 0
            if complete.any():
                chances[complete] = self._complete(weights, dead)[starts[complete]]
            for step, h in enumerate(self._cut_off(weights, dead, int(lengths.max(initial=0))), 1):
                own = lengths == step
                chances[own] = h[starts[own]]
            with np.errstate(divide="ignore"):
                yield part, np.log(np.minimum(chances, 1.0))

    def _complete(self, weights: np.ndarray, dead: np.ndarray) -> np.ndarray:
        """[S, K] chances of trajectories that came to their end; weights are [S * A, K]."""
        mdp = self.mdp
        stop = mdp.ends | mdp.absorbing
        every = np.zeros((mdp.states, 1), bool)
        ending = arrival(mdp, self.policy.reshape(-1, 1), every, stop)
        avoiding = arrival(mdp, weights, dead, stop)
        # Where this world never ends, its trajectories cannot have, and say nothing.
        return np.divide(avoiding, ending, out=np.ones_like(avoiding), where=ending > 0)

    def _cut_off(self, weights: np.ndarray, dead: np.ndarray, longest: int) -> Iterator[np.ndarray]:
        """[S, K] chances of trajectories of 1, 2, ... steps, up to the longest."""
        mdp = self.mdp
        moves, shape = mdp.sparse(), (mdp.states, mdp.actions, dead.shape[1])
        h = (~dead).astype(np.float64)
        for _ in range(longest):
            h_next = (weights * (moves @ h)).reshape(shape).sum(axis=1)
            h_next[mdp.ends] = 1.0
            h = np.where(dead, 0.0, h_next)
            yield h


def arrival(mdp: MDP, weights: np.ndarray, dead: np.ndarray, stop: np.ndarray) -> np.ndarray:
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
    chances, moves = np.empty((mdp.states, worlds)), mdp.sparse()
    rows = np.repeat(np.arange(mdp.states), mdp.actions)
    for k in range(worlds):
        own = weights[:, k] * np.repeat(going[:, k], mdp.actions)
        choose = csr_array((own, (rows, np.arange(len(own)))), (mdp.states, len(own)))
        system = eye_array(mdp.states) - (1.0 - LEAK) * (choose @ moves)
        chances[:, k] = splu(system.tocsc()).solve(target[:, k])
    return chances.clip(0.0)
