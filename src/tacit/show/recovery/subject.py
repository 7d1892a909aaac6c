"""What a report is about: a recovery with names, and the tables by state that its parts show."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tacit.inverse.recovery import Recovery
from tacit.model.names import Layout


@dataclass(frozen=True, eq=False)
class Subject:
    """A recovery with names for everything, and its tables by state.

    Attributes:
        recovery: what was recovered.
        layout: how states and actions are named.
    """

    recovery: Recovery
    layout: Layout

    @property
    def states(self) -> int:
        """S, the number of states."""
        return len(self.recovery.solution.policy)

    @property
    def actions(self) -> int:
        """A, the number of actions."""
        return self.recovery.solution.policy.shape[1]

    @property
    def constraints(self) -> int:
        """K, the number of constraints."""
        return len(self.recovery.cost_weights)

    @cached_property
    def policy(self) -> np.ndarray:
        """[S, A] what it does."""
        return np.asarray(self.recovery.solution.policy, dtype=float)

    @cached_property
    def time(self) -> np.ndarray:
        """[S] share of its discounted time that the recovered policy spends in each state."""
        visits = np.asarray(self.recovery.solution.visitation, dtype=float).sum(axis=1)
        return visits / (visits.sum() or 1.0)

    @cached_property
    def reward(self) -> np.ndarray:
        """[S] reward of a step in each state, averaged over what it does there."""
        return self._by_state(self.recovery.objective.reward)

    @cached_property
    def costs(self) -> np.ndarray:
        """[K, S] cost of a step in each state, NaN where the constraint is not identified."""
        known = self.identified
        tables = [
            self._by_state(table) if known[k] else np.full(self.states, np.nan)
            for k, table in enumerate(self.recovery.objective.costs)
        ]
        return np.array(tables).reshape(self.constraints, self.states)

    @property
    def identified(self) -> list[bool]:
        """Of each constraint, whether its weights are known."""
        return [bool(np.isfinite(weights).all()) for weights in self.recovery.cost_weights]

    @property
    def whole_set(self) -> bool:
        """Whether intervals hold all explanations, and are not a matter of chance."""
        return self.recovery.estimator.startswith("Explanation")

    def constraint(self, k: int) -> str:
        """The name of a constraint: its only feature, or its number."""
        names = self.recovery.cost_names[k]
        if len(names) == 1:
            return names[0]
        return "the cost" if self.constraints == 1 else f"constraint {k}"

    def cost_title(self, k: int) -> str:
        """What a chart of the cost of a constraint is called."""
        name = self.constraint(k)
        return "cost" if name == "the cost" else f"cost: {name}"

    def state(self, state: int) -> str:
        """The name of a state."""
        return self.layout.state_name(int(state))

    def action(self, action: int) -> str:
        """The name of an action."""
        return self.layout.action_name(int(action))

    def doing(self, state: int, *, most: int = 3) -> str:
        """What is done in a state, in words: the likeliest actions with their shares."""
        return self.told(self.policy[state], most=most)

    def told(self, chances: np.ndarray, *, most: int = 3) -> str:
        """The likeliest actions in words, with their shares."""
        order = [a for a in np.argsort(-chances, kind="stable")[:most] if chances[a] >= 0.01]
        if not order or chances[order[0]] > 0.995:
            return self.action(order[0]) if order else "–"
        return ", ".join(f"{self.action(a)} {100 * chances[a]:.0f}\u00a0%" for a in order)

    def _by_state(self, table: np.ndarray) -> np.ndarray:
        table = np.asarray(table, dtype=float)
        return table if table.ndim == 1 else (table * self.policy).sum(axis=1)
