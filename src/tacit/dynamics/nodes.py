"""Continuous worlds on nodes: values are solved for at the nodes, and asked for at rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tacit.dynamics import Solved
from tacit.engine import Backend, Side
from tacit.engine.backends import Direct, Engine, Host, engine_of, soft_fixed_point
from tacit.model.available import Sites
from tacit.model.nodes import Interpolated

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Largest residual of the values, relative to their size: the one that is asked for, and the one
# up to which values are still used.
TARGET_RESIDUAL, LARGEST_RESIDUAL = 1e-12, 1e-12**0.5


@dataclass(frozen=True, eq=False)
class OnNodes(Sites):
    """A known continuous world: sites are rows, which nobody enters, then its nodes.

    Attributes:
        world: the nodes, and where steps lead.
        rows: [N, d] where utilities are asked for beside the nodes.
    """

    world: Interpolated
    rows: np.ndarray

    layers = 1
    estimated = None

    @property
    def discount(self) -> float:
        """The discount of the world."""
        return self.world.discount

    @cached_property
    def available(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """[N + n, A] bool, the available actions: none where an episode ends, all elsewhere."""
        points = np.concatenate([self.rows, self.world.nodes.points])
        return np.repeat(~self.world.over(points)[:, None], self.world.actions, axis=1)

    @cached_property
    def moves(self) -> csr_array:
        """[N * A, n] chances of the nodes after each row and action; 0 after an end."""
        moves = self.world.moves(self.rows)
        moves.data *= np.repeat(self.available[: len(self.rows)].ravel(), np.diff(moves.indptr))
        return moves

    def solve(self, table: np.ndarray, near: Solved | None) -> Solved | None:
        """The solution for utilities [N + n, A]: an end pays its first column, on arrival."""
        utility = np.where(self.ends[:, None], table[:, :1], table)
        guess = np.zeros(self.world.nodes.size) if near is None else near.unknowns
        target = TARGET_RESIDUAL * (1.0 + np.abs(utility).max() + np.abs(guess).max())
        discount, temperature = np.float64(self.discount), np.float64(1.0)
        node_values, _, residual = soft_fixed_point(
            self._backend, discount, temperature, utility[self._nodes], guess, target
        )
        if not np.isfinite(node_values).all():
            return None
        if residual > LARGEST_RESIDUAL * (1.0 + np.abs(node_values).max()):
            return None
        action_values = utility + self.discount * self._expected_next(node_values)
        soft_maximum = np.logaddexp.reduce(action_values, axis=1)
        values = np.where(self.ends, utility[:, 0], soft_maximum)
        log_policy = np.where(self.ends[:, None], 0.0, action_values - values[:, None])
        policy = np.exp(log_policy)
        policy[self.ends] = np.eye(1, self.world.actions)
        return Solved(values[None], log_policy[None], policy[None], unknowns=node_values)

    def adjoint(self, solved: Solved, counts: np.ndarray) -> np.ndarray:
        """[1, N + n] visits under the policy from b: counts less expected arrivals."""
        return self._visits(solved, counts[0].sum(axis=1), -counts[0])

    def visits_from(self, solved: Solved, start: np.ndarray) -> np.ndarray:
        """[1, N + n] expected discounted visits of episodes that begin as start [1, N + n] says."""
        return self._visits(solved, start[0], np.zeros(solved.policy.shape[1:]))

    def respond(self, solved: Solved, jacobian: np.ndarray) -> np.ndarray:
        """[1, N + n, A, D] derivative of action values, from that of utilities, [N + n, A, D]."""
        policy = solved.policy[0, self._nodes]
        average = np.einsum("sa,sad->ds", policy, jacobian[self._nodes])
        value_slopes = self._backend.solve(policy, np.float64(self.discount), Side(average, 0.0))
        expected = np.stack([self._expected_next(slope) for slope in value_slopes], axis=-1)
        return (jacobian + self.discount * expected)[None]

    def _visits(self, solved: Solved, start: np.ndarray, flow: np.ndarray) -> np.ndarray:
        """[1, N + n] visits from a start [N + n] and a flow [N + n, A] of steps beside it."""
        visits, policy = start.astype(float), solved.policy[0]
        rows, nodes = slice(len(self.rows)), self._nodes
        row_flow = visits[rows, None] * policy[rows] + flow[rows]
        inflow = self.world.mdp.inflow(np.ascontiguousarray(flow[nodes]))
        inflow = inflow + self.moves.T @ row_flow.ravel()
        side = Side(visits[nodes] + self.discount * inflow, 0.0, transposed=True)
        visits[nodes] = self._backend.solve(policy[nodes], np.float64(self.discount), side)
        return visits[None]

    def _expected_next(self, values: np.ndarray) -> np.ndarray:
        """[N + n, A] expected value after each site and action, of values [n]; 0 after ends."""
        rows = (self.moves @ values).reshape(-1, self.world.actions)
        return np.concatenate([rows, self.world.mdp.expected_next(values)])

    @property
    def _nodes(self) -> slice:
        """The sites that are nodes."""
        return slice(len(self.rows), None)

    @cached_property
    def _backend(self) -> Backend:
        """The nodes on the host: a search asks for few, large systems."""
        mdp = self.world.mdp
        return Direct(mdp) if engine_of(mdp.states) is Engine.DIRECT else Host(mdp)
