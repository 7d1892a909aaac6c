"""Features that people can write: builders of named columns over states and actions.

Every builder gives a `Map`; `+` puts maps side by side, and `combine` makes the `Features` that
estimators take. `columns` reads them from a table with one row a state: a CSV or Parquet file, or
columns in memory. `Ridge`, `Smooth` and `Sparse` are priors on the weights of features.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tacit.errors import InvalidModel
from tacit.files.frames import Frame
from tacit.files.wording import did_you_mean
from tacit.model.features.formulas import FormulaFeatures
from tacit.model.features.horizon import Horizon
from tacit.model.features.maps import (
    Map,
    action_one_hot,
    bumps,
    combine,
    coordinates,
    curve,
    distance_to,
    one_hot,
    product,
    scaled,
    surface,
)
from tacit.model.features.memory import Memory
from tacit.model.features.priors import Ridge, Smooth, Sparse
from tacit.model.features.rows import RowFeatures
from tacit.model.features.state_tables import opened_table, state_numbers
from tacit.model.layout import Layout

__all__ = [
    "FormulaFeatures",
    "Horizon",
    "Map",
    "Memory",
    "Ridge",
    "RowFeatures",
    "Smooth",
    "Sparse",
    "action_one_hot",
    "bumps",
    "columns",
    "combine",
    "coordinates",
    "curve",
    "distance_to",
    "one_hot",
    "product",
    "scaled",
    "surface",
]


def __dir__() -> list[str]:
    """What is in this namespace."""
    return sorted(__all__)


# Share of how a column varies within states from which the action is what it depends on.
BY_ACTION = 0.5


def columns(
    table: str | Path | Frame,
    names: Sequence[str] | str | None = None,
    layout: Layout | None = None,
    *,
    states: int | None = None,
    state: str = "state",
) -> Map:
    """[S, D] columns of a table with one row a state, in the order of the states.

    Args:
        table: path of a .csv or .parquet file; or columns by name, as a dict or a data frame.
        names: columns to take; None takes all but the one that says the state.
        layout: names of the states, where the table gives names and not numbers.
        states: S; None takes what the layout says, or as many as there are rows.
        state: the column that says which state a row is about, by name or by number.
    """
    opened = opened_table(table, state)
    opened.require(state)
    listed = [names] if isinstance(names, str) else names
    chosen = [name for name in opened.names if name != state] if listed is None else [*listed]
    missing = next((name for name in chosen if name not in opened.names), None)
    if missing is not None:
        raise InvalidModel(
            f"{opened.path} has no column {missing!r}; got the columns {', '.join(opened.names)}"
            f"{did_you_mean(missing, opened.names)}"
        )
    layout = layout or Layout()
    known_count = states or len(layout.state_names) or layout.rows * layout.columns
    read = opened.read(dict.fromkeys([state, *chosen]), texts=[state] if layout.state_names else [])
    count = known_count or len(read[state])
    if not chosen or not len(read[state]):
        raise InvalidModel(
            f"{opened.path} must have at least one row and one column of features; got none"
        )
    cells = np.stack([read[name].reals() for name in chosen], axis=1)
    values = np.empty((count, len(chosen)))
    values[state_numbers(opened, read[state], count, layout)] = cells
    return Map(values, chosen)


def means_at(values: np.ndarray, place: np.ndarray, places: int) -> np.ndarray:
    """[places] the mean of the values [M] that are known, NaN being none, in each place [M]."""
    known = np.isfinite(values)
    count = np.bincount(place[known], minlength=places)
    total = np.bincount(place[known], weights=values[known], minlength=places)
    return np.divide(total, count, out=np.full(places, np.nan), where=count > 0)


def filled(values: np.ndarray, centres: np.ndarray | None) -> tuple[np.ndarray, int, str]:
    """([S] or [S, A] the values, filled in where there is none; how many were, and with what).

    A pair of state and action has the mean of the action elsewhere; a state that of the nearest
    one, where their `centres` [S, 2] are known.
    """
    lost = ~np.isfinite(values)
    complete, many = np.where(lost, 0.0, values), int(lost.sum())
    if not many or lost.all():
        return complete, many, "0"
    if values.ndim == 2:
        seen = (~lost).sum(axis=0)
        usual = np.where(
            seen > 0, complete.sum(axis=0) / np.maximum(seen, 1), complete.sum() / seen.sum()
        )
        return np.where(lost, usual, complete), many, "that of the action elsewhere"
    if centres is None:
        return complete, many, "0"
    from scipy.spatial import cKDTree  # pyright: ignore[reportAttributeAccessIssue]

    _, near = cKDTree(centres[~lost]).query(centres[lost])
    complete[lost] = values[~lost][near]
    return complete, many, "that of the nearest one"


def depends_on_action(
    name: str, values: np.ndarray, where: np.ndarray, taken: np.ndarray
) -> list[str]:
    """A sentence where [M] values vary by the action taken, so that means by state hide it."""
    known = np.isfinite(values) & (taken >= 0)
    if not known.any():
        return []
    value, states, code = values[known], where[known], taken[known]

    def spread(groups: np.ndarray) -> float:
        _, at, count = np.unique(groups, axis=1, return_inverse=True, return_counts=True)
        rest = value - (np.bincount(at.ravel(), value) / count)[at.ravel()]
        return float(rest @ rest) / max(len(value) - len(count), 1)

    within, left = spread(states[None]), spread(np.stack([states, code]))
    if not within > 1e-9 * np.var(value) or left >= (1.0 - BY_ACTION) * within:
        return []
    said = f"{name} depends on the action, and its means by state hide that: give it to "
    return [f"{said}--action-columns instead of --columns, and each action has its own"]
