"""Features of rows of measurements: functions of a row and an action, or formulas over columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, cast

import numpy as np

from tacit.errors import InvalidModel
from tacit.files.wording import did_you_mean, some
from tacit.model.arguments import integer
from tacit.model.features.imputing import Imputing
from tacit.model.objective import Features

# From observations [n, d] and the number of an action to one number a row [n].
RowFunction = Callable[[np.ndarray, int], np.ndarray]
# Functions by the name of their feature; the name of a column stands for the column.
RowFunctions = Mapping[str, RowFunction | str] | Sequence[str]


class MeasuredRows(Protocol):
    """Rows of measurements, as `tacit.Measurements` are."""

    @property
    def observations(self) -> np.ndarray:
        """[n, d] what was measured; NaN where it is missing."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """D names."""
        ...

    @property
    def action_names(self) -> tuple[str, ...]:
        """A names of actions, their numbers where they have none."""
        ...


class RowFeatures(ABC):
    """The vocabulary of an explanation where states are rows of measurements."""

    @property
    @abstractmethod
    def reward_names(self) -> tuple[str, ...]:
        """One name per reward feature."""

    @property
    @abstractmethod
    def cost_names(self) -> tuple[tuple[str, ...], ...]:
        """One tuple of names per constraint."""

    @property
    def reward_alone(self) -> Self:
        """The same without any constraint."""
        return replace(cast("Any", self), costs=())

    @abstractmethod
    def fitted(self, rows: MeasuredRows) -> RowFeatures:
        """The same with what it learns from rows, such as medians for what is missing."""

    @abstractmethod
    def on(self, observations: np.ndarray, actions: int) -> Features:
        """The `Features` [n, A, D] of these rows and of so many actions, once it is fitted."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FunctionFeatures(RowFeatures):
    """Features that are functions of observations [n, d] and the number of an action.

    Where a measurement is missing the functions see the median of its column.

    Attributes:
        reward: name and function, or column, of each feature of the reward.
        costs: the same, one tuple per constraint.
        imputing: what is put where a measurement is missing; None before it is fitted.
    """

    reward: tuple[tuple[str, RowFunction | str], ...]
    costs: tuple[tuple[tuple[str, RowFunction | str], ...], ...]
    imputing: Imputing | None = None

    @classmethod
    def of(cls, reward: RowFunctions, costs: Sequence[RowFunctions] = ()) -> FunctionFeatures:
        """The features of functions by name; `InvalidModel` where there are none."""
        if isinstance(costs, Mapping):
            raise InvalidModel(
                "costs must be a list with one dictionary of functions per constraint; got one "
                "dictionary: write costs=[{...}]"
            )
        return cls(
            reward=_named(reward, "reward"),
            costs=tuple(_named(cost, f"costs[{k}]") for k, cost in enumerate(costs)),
        )

    @property
    def reward_names(self) -> tuple[str, ...]:
        """One name per reward feature."""
        return tuple(name for name, _ in self.reward)

    @property
    def cost_names(self) -> tuple[tuple[str, ...], ...]:
        """One tuple of names per constraint."""
        return tuple(tuple(name for name, _ in cost) for cost in self.costs)

    def fitted(self, rows: MeasuredRows) -> FunctionFeatures:
        """The same with the medians of these rows for what is missing."""
        for what in (one for block in (self.reward, *self.costs) for _, one in block):
            if isinstance(what, str) and what not in rows.columns:
                raise InvalidModel(
                    f"features must be functions or columns of the rows, {some(rows.columns)}; "
                    f"got {what!r}{did_you_mean(what, rows.columns)}"
                )
        return replace(self, imputing=Imputing.of(rows.observations, rows.columns))

    def on(self, observations: np.ndarray, actions: int) -> Features:
        """The `Features` [n, A, D] of these rows and of so many actions."""
        if self.imputing is None:
            raise InvalidModel("features of rows must be fitted first: features.fitted(rows)")
        complete = self.imputing.filled(observations)
        count = integer(actions, "actions")
        columns = self.imputing.columns
        tables = [
            np.stack([_values(*one, complete, columns, count) for one in block], axis=2)
            for block in (self.reward, *self.costs)
        ]
        return Features(tables[0], tables[1:], self.reward_names, self.cost_names)


def _named(block: RowFunctions, what: str) -> tuple[tuple[str, RowFunction | str], ...]:
    if isinstance(block, str) or not isinstance(block, Mapping | Sequence) or not block:
        raise InvalidModel(
            f"{what} must be a dictionary from names to functions (observations, action), or a "
            f"list of columns; got {block!r:.60}"
        )
    pairs = [*block.items()] if isinstance(block, Mapping) else [(name, name) for name in block]
    for name, given in pairs:
        if not (callable(given) or isinstance(given, str)):
            raise InvalidModel(
                f"{what}: feature {name!r} must be a function (observations, action) or the name "
                f"of a column; got {given!r:.60}"
            )
    names = [str(name) for name, _ in pairs]
    if len({*names}) < len(names):
        raise InvalidModel(f"{what}: every feature must have its own name; got {some(names)}")
    return tuple(zip(names, [given for _, given in pairs], strict=True))


def _values(
    name: str, feature: RowFunction | str, rows: np.ndarray, columns: tuple[str, ...], actions: int
) -> np.ndarray:
    """[n, A] a feature of every row and action, checked."""
    if isinstance(feature, str):
        return np.repeat(rows[:, columns.index(feature), None], actions, axis=1)
    table = np.empty((len(rows), actions))
    for action in range(actions):
        given = feature(rows, action)
        try:
            values = np.asarray(given)
            if values.dtype.kind not in "biuf":
                raise TypeError
        except (TypeError, ValueError):
            got = getattr(given, "dtype", type(given).__name__)
            raise InvalidModel(
                f"feature {name!r} must give one real number a row; action {action} gives {got}"
            ) from None
        if values.shape != (len(rows),):
            raise InvalidModel(
                f"feature {name!r} must give one number a row, shape ({len(rows)},); action "
                f"{action} gives shape {values.shape}"
            )
        table[:, action] = values
    odd = ~np.isfinite(table)
    if odd.any():
        row, action = np.argwhere(odd)[0].tolist()
        raise InvalidModel(
            f"feature {name!r} must be finite; row {row}, action {action} gives "
            f"{table[row, action]}"
        )
    return table
