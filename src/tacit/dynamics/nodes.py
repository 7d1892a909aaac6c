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

# Residual of the values, relative to their size.
SETTLED = 1e-12


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
    learnt = None

    @property
    def discount(self) -> float:
        """Of the world."""
        return self.world.discount

    @cached_property
    def available(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """[N + n, A] bool, none where an episode ends."""
        places = np.concatenate([self.rows, self.world.nodes.points])
        return np.repeat(~self.world.over(places)[:, None], self.world.actions, axis=1)

    @cached_property
    def moves(self) -> csr_array:
        """[N * A, n] chances of the nodes after each row and action; none where it is over."""
        moves = self.world.moves(self.rows)
        moves.data *= np.repeat(self.available[: len(self.rows)].ravel(), np.diff(moves.indptr))
        return moves

    def solve(self, table: np.ndarray, near: Solved | None) -> Solved | None:
        """The solution for utilities [N + n, A]: an end pays its first column, on arrival."""
        paid, own = np.where(self.ends[:, None], table[:, :1], table), self._nodes
        guess = np.zeros(self.world.nodes.size) if near is None else near.unknowns
        target = SETTLED * (1.0 + np.abs(paid).max() + np.abs(guess).max())
        numbers = np.float64(self.discount), np.float64(1.0), paid[own], guess, target
        later, _, error = soft_fixed_point(self._backend, *numbers)
        if not np.isfinite(later).all() or error > SETTLED**0.5 * (1.0 + np.abs(later).max()):
            return None
        worth = paid + self.discount * self._after(later)
        values = np.where(self.ends, paid[:, 0], np.logaddexp.reduce(worth, axis=1))
        log_policy = np.where(self.ends[:, None], 0.0, worth - values[:, None])
        policy = np.exp(log_policy)
        policy[self.ends] = np.eye(1, self.world.actions)
        return Solved(values[None], log_policy[None], policy[None], unknowns=later)

    def adjoint(self, solved: Solved, seen: np.ndarray) -> np.ndarray:
        """[1, N + n] visits from what was seen [1, N + n, A] and did not flow in."""
        return self._visits(solved, seen[0].sum(axis=1), -seen[0])

    def reach(self, solved: Solved, start: np.ndarray) -> np.ndarray:
        """[1, N + n] expected discounted visits of episodes that start so [1, N + n]."""
        return self._visits(solved, start[0], np.zeros(solved.policy.shape[1:]))

    def respond(self, solved: Solved, jacobian: np.ndarray) -> np.ndarray:
        """[1, N + n, A, D] derivative of what an action is worth with all that follows it."""
        policy = solved.policy[0, self._nodes]
        here = np.einsum("sa,sad->ds", policy, jacobian[self._nodes])
        later = self._backend.solve(policy, np.float64(self.discount), Side(here, 0.0))
        after = np.stack([self._after(one) for one in later], axis=-1)
        return (jacobian + self.discount * after)[None]

    def _visits(self, solved: Solved, start: np.ndarray, flow: np.ndarray) -> np.ndarray:
        """[1, N + n] visits from a start [N + n] and a flow [N + n, A] of steps beside it."""
        visits, policy, own = start.astype(float), solved.policy[0], self._nodes
        rows = slice(len(self.rows))
        into = self.world.mdp.inflow(np.ascontiguousarray(flow[own]))
        into = into + self.moves.T @ (visits[rows, None] * policy[rows] + flow[rows]).ravel()
        side = Side(visits[own] + self.discount * into, 0.0, transposed=True)
        visits[own] = self._backend.solve(policy[own], np.float64(self.discount), side)
        return visits[None]

    def _after(self, values: np.ndarray) -> np.ndarray:
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
