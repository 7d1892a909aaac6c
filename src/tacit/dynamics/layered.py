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

    estimated = None

    @property
    def discount(self) -> float:
        """The discount of the world."""
        return self.mdp.discount

    def solve(self, table: np.ndarray, near: Solved | None) -> Solved:
        """The solution for utilities [S, A]: an end pays once, on arrival."""
        mdp = self.mdp
        utility = np.where(mdp.choices, table, -np.inf)
        values = np.empty((self.layers, len(table)))
        log_policy = np.empty((self.layers, *table.shape))
        end_values = np.where(mdp.ends, table[:, 0], 0.0)
        next_values = end_values
        for t in reversed(range(self.layers)):
            action_values = utility + self.discount * mdp.expected_next(next_values)
            soft_maximum = np.asarray(logsumexp(action_values, axis=1))
            values[t] = np.where(mdp.ends, end_values, soft_maximum)
            log_policy[t] = np.where(mdp.choices, action_values - values[t][:, None], 0.0)
            next_values = values[t]
        policy = np.where(mdp.choices, np.exp(log_policy), 0.0)
        policy[:, mdp.ends, 0] = 1.0  # what an end pays is its first column's
        return Solved(values, log_policy, policy)

    def adjoint(self, solved: Solved, counts: np.ndarray) -> np.ndarray:
        """[T, S] visits under the policy from b: counts less arrivals from the layer before."""
        inflow = [self.discount * self.mdp.inflow(np.ascontiguousarray(layer)) for layer in counts]
        start = counts.sum(axis=2)
        start[1:] -= inflow[:-1]
        return self._visits(solved, start, late_arrivals=-inflow[-1])

    def visits_from(self, solved: Solved, start: np.ndarray) -> np.ndarray:
        """[T, S] expected discounted visits of episodes that begin as start [T, S] says."""
        return self._visits(solved, start, late_arrivals=np.zeros(start.shape[1]))

    def _visits(
        self, solved: Solved, start: np.ndarray, *, late_arrivals: np.ndarray
    ) -> np.ndarray:
        """[T, S] expected discounted visits from start [T, S].

        Whoever arrives at an end after the last step is paid, too, and counts as a visit of it in
        the last layer; `late_arrivals` [S] are added to these.
        """
        visits = start.astype(float)
        for t in range(self.layers):
            steps = np.where(self.mdp.choices, solved.policy[t], 0.0)
            flow = self.discount * self.mdp.inflow(visits[t][:, None] * steps)
            if t + 1 < self.layers:
                visits[t + 1] += flow
            else:
                visits[t] += np.where(self.mdp.ends, flow + late_arrivals, 0.0)
        return visits

    def respond(self, solved: Solved, jacobian: np.ndarray) -> np.ndarray:
        """[T, S, A, D] derivative of action values, from that of utilities, [S, A, D]."""
        transitions, choices = self.mdp.sparse(), self.mdp.choices[..., None]
        responses = np.empty((self.layers, *jacobian.shape))
        value_slopes = np.where(self.mdp.ends[:, None], jacobian[:, 0], 0.0)
        for t in reversed(range(self.layers)):
            expected = (transitions @ value_slopes).reshape(jacobian.shape)
            responses[t] = jacobian + self.discount * np.where(choices, expected, 0.0)
            value_slopes = np.einsum("sa,sad->sd", solved.policy[t], responses[t])
        return responses
