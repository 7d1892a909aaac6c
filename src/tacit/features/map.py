"""A feature map: columns of numbers over states, or states and actions, each with a name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.objective import Features
from tacit.transitions import numbers, read_only


@dataclass(frozen=True, eq=False)
class Map:
    """Named columns of features; `+` puts two maps side by side, `-` turns the sign of one.

    Attributes:
        values: [S, D] or [S, A, D].
        names: [D] what people call each column; no name twice.
    """

    values: Any
    names: Any

    def __post_init__(self) -> None:
        values = numbers(self.values, "feature values")
        if values.ndim not in (2, 3) or 0 in values.shape:
            raise InvalidModel(
                f"feature values must be a non-empty array [S, D] or [S, A, D]; got {values.shape}"
            )
        names = (self.names,) if isinstance(self.names, str) else tuple(map(str, self.names))
        if len(names) != values.shape[-1]:
            raise InvalidModel(
                f"{values.shape[-1]} feature columns need as many names; got {len(names)}"
            )
        twice = next((name for j, name in enumerate(names) if name in names[:j]), None)
        if twice is not None:
            raise InvalidModel(f"every feature needs a name of its own; {twice!r} is there twice")
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            *place, column = (int(i) for i in bad[0])
            where = f"state {place[0]}" + (f", action {place[1]}" if len(place) > 1 else "")
            raise InvalidModel(
                f"feature {names[column]!r} must be finite; it is "
                f"{values[tuple(bad[0])]} in {where}"
            )
        object.__setattr__(self, "values", read_only(values))
        object.__setattr__(self, "names", names)

    @property
    def states(self) -> int:
        """S, the number of states."""
        return self.values.shape[0]

    @property
    def by_action(self) -> bool:
        """Whether the features differ between actions: values are [S, A, D]."""
        return self.values.ndim == 3

    def __add__(self, other: Map) -> Map:
        mine, others = _alike(self, other)
        return Map(np.concatenate([mine, others], axis=-1), (*self.names, *other.names))

    def __neg__(self) -> Map:
        return Map(-self.values, [f"minus {name}" for name in self.names])

    def __getitem__(self, names: str | Iterable[str]) -> Map:
        """The columns of these names, in this order."""
        chosen = (names,) if isinstance(names, str) else tuple(names)
        for name in chosen:
            if name not in self.names:
                raise InvalidModel(f"no feature is called {name!r}; there are {[*self.names]}")
        return Map(self.values[..., [self.names.index(name) for name in chosen]], chosen)

    def renamed(self, *names: str) -> Map:
        """The same columns under other names, one for each."""
        return Map(self.values, names)

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.values.shape))
        return f"Map([{shape}], names={[*self.names]})"


def combine(reward: Map | Iterable[Map], costs: Iterable[Map | Iterable[Map]] = ()) -> Features:
    """The `Features` of a reward map and one cost map per constraint, with all their names.

    Args:
        reward: a map, or several to put side by side.
        costs: one entry per constraint: a map, or several to put side by side.
    """
    if isinstance(costs, Map):
        raise InvalidModel("costs must be a list with one map per constraint: write costs=[map]")
    wanted = _joined(reward, "reward")
    refused = [_joined(entry, f"costs[{k}]") for k, entry in enumerate(costs)]
    return Features(
        wanted.values,
        [entry.values for entry in refused],
        reward_names=wanted.names,
        cost_names=[entry.names for entry in refused],
    )


def product(left: Map, right: Map) -> Map:
    """Every column of one map times every column of the other: "sun times noon"."""
    mine, others = _alike(left, right)
    table = mine[..., :, None] * others[..., None, :]
    names = [f"{a} times {b}" for a in left.names for b in right.names]
    return Map(table.reshape(*table.shape[:-2], -1), names)


def scaled(features: Map, low: float = 0.0, high: float = 1.0) -> Map:
    """Every column moved and stretched so that it runs from `low` to `high`; names stay."""
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InvalidModel(f"a scale must run from low to high; got {low} and {high}")
    flat = features.values.reshape(-1, features.values.shape[-1])
    least, span = flat.min(axis=0), np.ptp(flat, axis=0)
    if not span.all():
        same = features.names[int(np.argmin(span))]
        raise InvalidModel(f"feature {same!r} is the same everywhere and cannot be scaled")
    return Map(low + (high - low) * ((features.values - least) / span), features.names)


def _joined(given: Map | Iterable[Map], what: str) -> Map:
    parts = (given,) if isinstance(given, Map) else tuple(given)
    if not parts or not all(isinstance(part, Map) for part in parts):
        kinds = [type(part).__name__ for part in parts] or "nothing"
        raise InvalidModel(f"{what} must be a map of tacit.features, or several; got {kinds}")
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _alike(left: Map, right: Map) -> tuple[np.ndarray, np.ndarray]:
    """The values of both, [S, A, .] where one of them is."""
    if left.states != right.states:
        raise InvalidModel(
            f"maps must speak of the same states; got {left.states} ({left.names[0]}) and "
            f"{right.states} ({right.names[0]})"
        )
    actions = {part.values.shape[1] for part in (left, right) if part.by_action}
    if len(actions) > 1:
        raise InvalidModel(f"maps must speak of the same actions; got {sorted(actions)}")
    if not actions:
        return left.values, right.values
    width = actions.pop()
    mine, others = (
        part.values if part.by_action else np.repeat(part.values[:, None], width, axis=1)
        for part in (left, right)
    )
    return mine, others
