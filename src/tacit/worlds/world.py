"""A world: a model, the truth that a recovery should find again, and how to draw it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.layout import Layout
from tacit.mdp import MDP
from tacit.objective import Features, Objective
from tacit.transitions import read_only


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
    layout: Layout = field(default_factory=Layout)
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
