"""What is hidden: the reward a demonstrator wants and the costs it keeps within budgets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import InvalidModel
from tacit.model.ends import alike_at_ends
from tacit.model.transitions import numbers, read_only

if TYPE_CHECKING:
    from tacit.model.mdp import MDP

# Of features in size. Beyond, sums of squares overflow, or their inverses do.
LARGEST = 1e100


@dataclass(frozen=True, eq=False)
class Objective:
    """What a demonstrator wants and refuses. The same type for a truth and for what is recovered.

    Costs may be negative: a budget then bounds a net cost, and the budget itself may be negative.

    Attributes:
        reward: [S] or [S, A] gain of each state or action.
        costs: [K, S] or [K, S, A] what each constraint charges; K = 0 by default.
        budgets: [K] largest expected discounted cost allowed.
    """

    reward: np.ndarray
    costs: np.ndarray = None  # pyright: ignore[reportAssignmentType]
    budgets: np.ndarray = None  # pyright: ignore[reportAssignmentType]

    if TYPE_CHECKING:

        def __init__(
            self,
            reward: ArrayLike,
            costs: ArrayLike | None = None,
            budgets: ArrayLike | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        reward = _finite(self.reward, "reward", "[S] or [S, A]", (1, 2))
        states = reward.shape[0]
        costs = _cost_tables(self.costs, states)
        budgets = np.atleast_1d(numbers([] if self.budgets is None else self.budgets, "budgets"))
        if costs.shape[1] != states:
            raise InvalidModel(
                f"reward and costs must speak of the same states; got {states} and {costs.shape[1]}"
                f" (reward {reward.shape}, costs {costs.shape})"
            )
        if reward.ndim == 2 and costs.ndim == 3 and reward.shape[1] != costs.shape[2]:
            raise InvalidModel(
                "reward and costs must speak of the same actions; "
                f"got {reward.shape[1]} and {costs.shape[2]}"
            )
        if budgets.shape != costs.shape[:1]:
            raise InvalidModel(
                "budgets must hold one number a constraint; "
                f"got {budgets.shape} for {costs.shape[0]} cost tables"
            )
        bad = np.isnan(budgets) | (budgets == -np.inf)
        if bad.any():
            k = int(np.argmax(bad))
            raise InvalidModel(
                f"budgets must be numbers above minus infinity; budget {k} is {budgets[k]}"
            )
        object.__setattr__(self, "reward", read_only(reward))
        object.__setattr__(self, "costs", read_only(costs))
        object.__setattr__(self, "budgets", read_only(budgets))

    @property
    def constraints(self) -> int:
        """K, the number of constraints."""
        return self.costs.shape[0]

    def tables(self, mdp: MDP) -> tuple[np.ndarray, np.ndarray]:
        """[S, A] reward and [K, S, A] costs, checked against the model they are used with."""
        reward, costs = self.tables_of(mdp.states, mdp.actions)
        if mdp.restricted:
            alike_at_ends(mdp, reward, "reward")
            for k, cost in enumerate(costs):
                alike_at_ends(mdp, cost, f"cost {k}")
        return reward, costs

    def tables_of(self, states: int, actions: int) -> tuple[np.ndarray, np.ndarray]:
        """The same for so many states and actions."""
        shape = (states, actions)
        reward, costs = self.reward, self.costs
        if reward.shape[0] != shape[0] or (reward.ndim == 2 and reward.shape[1] != shape[1]):
            raise InvalidModel(
                f"reward must have shape [S] or [S, A] with S, A = {shape}; got {reward.shape}"
            )
        if costs.ndim == 3 and costs.shape[2] != shape[1]:
            raise InvalidModel(
                f"costs must have shape [K, S] or [K, S, A] with S, A = {shape}; got {costs.shape}"
            )
        kept = self.__dict__.get("_tables")
        if kept is None or kept[0].shape != shape:
            reward = reward if reward.ndim == 2 else np.repeat(reward[:, None], shape[1], axis=1)
            costs = costs if costs.ndim == 3 else np.repeat(costs[:, :, None], shape[1], axis=2)
            kept = (read_only(reward), read_only(costs))
            self.__dict__["_tables"] = kept
        return kept

    def __repr__(self) -> str:
        return (
            f"Objective(states={self.reward.shape[0]}, constraints={self.constraints}, "
            f"budgets={np.array2string(self.budgets, precision=4)})"
        )


@dataclass(frozen=True, eq=False)
class Features:
    """The vocabulary of an explanation: what a reward and each cost may be made of.

    Attributes:
        reward: [S, D] or [S, A, D] features of the reward.
        costs: one [S, D_k] or [S, A, D_k] feature map per constraint.
        reward_names: one name per reward feature.
        cost_names: one tuple of names per constraint.
    """

    reward: np.ndarray
    costs: tuple[np.ndarray, ...] = ()
    reward_names: tuple[str, ...] = None  # pyright: ignore[reportAssignmentType]
    cost_names: tuple[tuple[str, ...], ...] = None  # pyright: ignore[reportAssignmentType]

    if TYPE_CHECKING:

        def __init__(
            self,
            reward: ArrayLike,
            costs: Sequence[ArrayLike] | None = (),
            reward_names: Iterable[str] | None = None,
            cost_names: Sequence[Iterable[str] | None] | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        reward = _sized(self.reward, "reward features")
        given = self.costs
        if isinstance(given, np.ndarray) and given.ndim in (2, 3) and given.dtype != object:
            raise InvalidModel(
                "costs must be a list with one feature map per constraint; "
                f"got one array of shape {given.shape}: write costs=[array]"
            )
        costs = tuple(
            _sized(table, f"cost features {k}")
            for k, table in enumerate(() if given is None else given)
        )
        actions = {table.shape[1] for table in (reward, *costs) if table.ndim == 3}
        if len(actions) > 1:
            raise InvalidModel(
                f"all feature maps must speak of the same actions; got {sorted(actions)}"
            )
        for k, table in enumerate(costs):
            if table.shape[0] != reward.shape[0]:
                raise InvalidModel(
                    f"all feature maps must speak of the same states; "
                    f"got {reward.shape[0]} for the reward and {table.shape[0]} for cost {k}"
                )
        names = _names(self.reward_names, reward.shape[-1], "reward feature")
        given_names = [None] * len(costs) if self.cost_names is None else list(self.cost_names)
        if len(given_names) != len(costs):
            raise InvalidModel(
                f"cost_names must hold one list per constraint ({len(costs)}); "
                f"got {len(given_names)}"
            )
        only = len(costs) == 1
        cost_names = tuple(
            _names(given_names[k], table.shape[-1], "cost feature" if only else f"cost {k} feature")
            for k, table in enumerate(costs)
        )
        object.__setattr__(self, "reward", read_only(reward))
        object.__setattr__(self, "costs", tuple(read_only(table) for table in costs))
        object.__setattr__(self, "reward_names", names)
        object.__setattr__(self, "cost_names", cost_names)

    @property
    def constraints(self) -> int:
        """K, the number of constraints."""
        return len(self.costs)

    def check(self, mdp: MDP) -> None:
        """`InvalidModel` if a feature differs between the actions of a state that ends episodes."""
        for name, table in (("reward features", self.reward), *self._cost_maps()):
            if table.ndim == 3 and mdp.restricted:
                alike_at_ends(mdp, np.moveaxis(table, 2, 0), name)

    def _cost_maps(self) -> list[tuple[str, np.ndarray]]:
        return [(f"cost features {k}", table) for k, table in enumerate(self.costs)]

    def objective(
        self,
        reward_weights: ArrayLike,
        cost_weights: Sequence[ArrayLike] | None = (),
        budgets: ArrayLike = (),
    ) -> Objective:
        """The `Objective` whose reward and costs are these weighted sums of features.

        Args:
            reward_weights: [D].
            cost_weights: one [D_k] per constraint.
            budgets: [K].
        """
        given = () if cost_weights is None else cost_weights
        weights = [
            numbers(reward_weights, "reward_weights"),
            *(numbers(w, f"cost_weights[{k}]") for k, w in enumerate(given)),
        ]
        if len(weights) - 1 != self.constraints:
            raise InvalidModel(
                f"cost_weights must hold one vector per constraint ({self.constraints}); "
                f"got {len(weights) - 1}"
            )
        for name, table, w in zip(
            ["reward_weights", *(f"cost_weights[{k}]" for k in range(self.constraints))],
            [self.reward, *self.costs],
            weights,
            strict=True,
        ):
            if w.shape != table.shape[-1:]:
                raise InvalidModel(f"{name} must have shape {table.shape[-1:]}; got {w.shape}")
        reward = self.reward @ weights[0]
        tables = [table @ w for table, w in zip(self.costs, weights[1:], strict=True)]
        if any(t.ndim == 2 for t in tables):  # mixed state and state-action costs share one axis
            width = max(t.shape[1] for t in tables if t.ndim == 2)
            tables = [t if t.ndim == 2 else np.repeat(t[:, None], width, axis=1) for t in tables]
        return Objective(reward, np.stack(tables) if tables else None, budgets)


def _cost_tables(given: ArrayLike | None, states: int) -> np.ndarray:
    costs = numbers([] if given is None else given, "costs")
    if costs.size == 0:
        return np.zeros((0, states))
    return _finite(costs, "costs", "[K, S] or [K, S, A]", (2, 3))


def _finite(array: ArrayLike, name: str, axes: str, dimensions: Sequence[int]) -> np.ndarray:
    table = numbers(array, name)
    if table.ndim not in dimensions or 0 in table.shape:
        raise InvalidModel(f"{name} must be a non-empty array {axes}; got shape {table.shape}")
    bad = ~np.isfinite(table)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InvalidModel(f"{name} must be finite; entry {where} is {table[where]}")
    return table


def _sized(array: ArrayLike, name: str) -> np.ndarray:
    """A feature map of which squares and their inverses are numbers, too."""
    table = _finite(array, name, "[S, D] or [S, A, D]", (2, 3))
    sizes = np.abs(table).max(axis=tuple(range(table.ndim - 1)))
    bad = (sizes > LARGEST) | ((sizes > 0) & (sizes < 1.0 / LARGEST))
    if bad.any():
        j = int(np.argmax(bad))
        raise InvalidModel(
            f"{name} must be numbers between {1 / LARGEST:g} and {LARGEST:g} in size; "
            f"column {j} goes up to {sizes[j]:g}: choose another unit"
        )
    return table


def _names(given: Iterable[str] | None, count: int, label: str) -> tuple[str, ...]:
    if given is None:
        return tuple(f"{label} {j}" for j in range(count))
    names = tuple(str(name) for name in given)
    if len(names) != count:
        raise InvalidModel(f"{label} names: {count} features need {count} names; got {len(names)}")
    return names
