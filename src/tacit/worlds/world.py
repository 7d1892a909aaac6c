"""A world: a model, the truth that a recovery should find again, and how to draw it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.mdp import MDP
from tacit.objective import Features, Objective
from tacit.transitions import read_only


@dataclass(frozen=True)
class Layout:
    """How states and actions are named and, on a grid, where they lie.

    On a grid, states 0 to rows * columns - 1 are its cells, row by row; later ones lie off it.

    Attributes:
        rows: number of rows of the grid; 0 where the world is no grid.
        columns: number of columns of the grid; 0 where the world is no grid.
        directions: one (row, column) step per action, down and right being positive; empty where
            actions do not point anywhere.
        state_names: one name per state; empty where they have none.
        action_names: one name per action; empty where they have none.
    """

    rows: int = 0
    columns: int = 0
    directions: tuple[tuple[int, int], ...] = ()
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()

    @property
    def is_grid(self) -> bool:
        """Whether states lie on a grid."""
        return self.rows > 0 and self.columns > 0

    def grid(self, values: Any) -> np.ndarray:
        """[rows, columns] the values [S] of the cells, as they lie."""
        if not self.is_grid:
            raise InvalidModel("this world is no grid: its layout has no rows and columns")
        cells = self.rows * self.columns
        values = np.asarray(values)
        if values.ndim != 1 or len(values) < cells:
            raise InvalidModel(
                f"values must hold one entry a state, {cells} or more; got {values.shape}"
            )
        return values[:cells].reshape(self.rows, self.columns)

    def cell(self, state: int) -> tuple[int, int] | None:
        """(row, column) of a state; None if it lies off the grid."""
        inside = self.is_grid and 0 <= state < self.rows * self.columns
        return divmod(int(state), self.columns) if inside else None

    def state_name(self, state: int) -> str:
        """The name of a state, or its number or cell where it has none."""
        if self.state_names:
            return self.state_names[state]
        cell = self.cell(state)
        return f"state {state}" if cell is None else f"({cell[0]}, {cell[1]})"

    def action_name(self, action: int) -> str:
        """The name of an action, or its number where it has none."""
        return self.action_names[action] if self.action_names else f"action {action}"


@dataclass(frozen=True, eq=False)
class World:
    """A model, the features to explain behaviour with, and the truth made of them.

    `truth` is `features.objective(reward_weights, cost_weights, truth.budgets)`.

    Attributes:
        mdp: what everybody knows.
        features: what reward and costs are made of.
        truth: the objective of the demonstrator.
        reward_weights: [D] true weights of the reward features.
        cost_weights: one [D_k] per constraint, true weights of its features.
        layout: how to name and draw states and actions.
        recipe: the call that makes this world again; it is what the world prints as.
    """

    mdp: MDP
    features: Features
    truth: Objective
    reward_weights: Any
    cost_weights: Any
    layout: Layout = Layout()
    recipe: str = ""

    def __post_init__(self) -> None:
        reward_weights = read_only(np.array(self.reward_weights, dtype=np.float64))
        cost_weights = tuple(read_only(np.array(w, dtype=np.float64)) for w in self.cost_weights)
        object.__setattr__(self, "reward_weights", reward_weights)
        object.__setattr__(self, "cost_weights", cost_weights)
        for kind, names, count in (
            ("state", self.layout.state_names, self.mdp.states),
            ("action", self.layout.action_names, self.mdp.actions),
        ):
            if names and len(names) != count:
                raise InvalidModel(f"{count} {kind}s need {count} names; got {len(names)}")

    @property
    def in_gauge(self) -> World:
        """The same world with every weight vector scaled to L1 norm 1, as recoveries report them.

        Each budget is divided by the norm of its weights, which changes no constraint; a multiplier
        is multiplied by that norm and divided by the norm of the reward weights. Weights that are
        all zero stay as they are.
        """
        scales = [float(np.abs(w).sum()) or 1.0 for w in (self.reward_weights, *self.cost_weights)]
        reward_weights = self.reward_weights / scales[0]
        cost_weights = tuple(w / c for w, c in zip(self.cost_weights, scales[1:], strict=True))
        budgets = self.truth.budgets / np.array(scales[1:])
        return replace(
            self,
            truth=self.features.objective(reward_weights, cost_weights, budgets),
            reward_weights=reward_weights,
            cost_weights=cost_weights,
            recipe=f"{self}.in_gauge",
        )

    def __repr__(self) -> str:
        return self.recipe or f"World({self.mdp}, {self.truth})"


def recipe(name: str, given: dict[str, Any], defaults: dict[str, Any] | None = None) -> str:
    """The call `tacit.worlds.name(...)` with these arguments, those equal to a default left out."""
    spare = defaults or {}
    shown = [
        f"{key}={_literal(value)}"
        for key, value in given.items()
        if key not in spare or _literal(value) != _literal(spare[key])
    ]
    return f"tacit.worlds.{name}({', '.join(shown)})"


def _literal(value: Any) -> str:
    """What to type for this value; arrays become lists, at full precision."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return repr(value.value if hasattr(value, "value") else value)
