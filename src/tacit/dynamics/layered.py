"""Worlds that end after a known number of steps: values and policies by one backward pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from tacit.dynamics import Solved
from tacit.model.mdp import MDP


@dataclass(frozen=True, eq=False)
class Layered:
    """A finite horizon: layer t are the states before step t, and nothing comes after the last.

    Attributes:
        mdp: the world; its discount may be 1, as every episode ends.
        layers: steps of an episode.
    """

    mdp: MDP
    layers: int

    learnt = None

    @property
    def discount(self) -> float:
        """Of the world."""
        return self.mdp.discount

    def solve(self, table: np.ndarray, near: Solved | None) -> Solved:
        """The solution for utilities [S, A]: an end pays once, on arrival."""
        mdp, states = self.mdp, len(table)
        utility = np.where(mdp.choices, table, -np.inf)
        values, log_policy = np.empty((self.layers, states)), np.empty((self.layers, *table.shape))
        ends = np.where(mdp.ends, table[:, 0], 0.0)
        later = ends
        for t in reversed(range(self.layers)):
            worth = utility + self.discount * mdp.expected_next(later)
            best = np.where(mdp.ends, ends, np.asarray(logsumexp(worth, axis=1)))
            log_policy[t] = np.where(mdp.choices, worth - best[:, None], 0.0)
            later = values[t] = best
        policy = np.where(mdp.choices, np.exp(log_policy), 0.0)
        policy[:, mdp.ends, 0] = 1.0  # what an end pays is its first column's
        return Solved(values, log_policy, policy)

    def adjoint(self, solved: Solved, seen: np.ndarray) -> np.ndarray:
        """[T, S] the visits from what was seen [T, S, A] in each layer and did not flow in."""
        inflow = [self.discount * self.mdp.inflow(np.ascontiguousarray(part)) for part in seen]
        start = seen.sum(axis=2)
        start[1:] -= inflow[:-1]
        return self._visits(solved, start, -inflow[-1])

    def reach(self, solved: Solved, start: np.ndarray) -> np.ndarray:
        """[T, S] expected discounted visits of episodes that start so [T, S]."""
        return self._visits(solved, start, np.zeros(start.shape[1]))

    def _visits(self, solved: Solved, start: np.ndarray, after: np.ndarray) -> np.ndarray:
        """[T, S] the same, with arrivals after the last step, and `after` [S] more of them.

        An end pays whenever it is reached: those arrivals count as visits of it in the last layer.
        """
        visits = start.astype(float)
        for t in range(self.layers):
            steps = np.where(self.mdp.choices, solved.policy[t], 0.0)
            flow = self.discount * self.mdp.inflow(visits[t][:, None] * steps)
            if t + 1 < self.layers:
                visits[t + 1] += flow
            else:
                visits[t] += np.where(self.mdp.ends, flow + after, 0.0)
        return visits

    def respond(self, solved: Solved, jacobian: np.ndarray) -> np.ndarray:
        """[T, S, A, D] derivative of what an action is worth with all that follows it."""
        moves, count = self.mdp.sparse(), jacobian.shape[2]
        found = np.empty((self.layers, *jacobian.shape))
        later = np.where(self.mdp.ends[:, None], jacobian[:, 0], 0.0)
        for t in reversed(range(self.layers)):
            after = (moves @ later).reshape(*jacobian.shape[:2], count)
            found[t] = jacobian + self.discount * np.where(self.mdp.choices[..., None], after, 0.0)
            later = np.einsum("sa,sad->sd", solved.policy[t], found[t])
        return found
