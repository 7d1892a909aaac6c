"""Features that people can write: builders of named columns over states and actions.

Every builder gives a `Map`; `+` puts maps side by side, and `combine` makes the `Features` that
estimators take. `columns` reads them from a table with one row a state: a CSV or Parquet file, or
columns in memory. `Ridge`, `Smooth` and `Sparse` are priors on the weights of features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tacit.errors import InvalidModel
from tacit.files.columns import RawColumn
from tacit.files.frames import Frame, FrameTable
from tacit.files.tables import PARQUET, TEXT, TableSource, open_table
from tacit.files.wording import did_you_mean
from tacit.model.features.maps import (
    Map,
    action_one_hot,
    bumps,
    combine,
    coordinates,
    distance_to,
    one_hot,
    product,
    scaled,
)
from tacit.model.features.priors import Ridge, Smooth, Sparse
from tacit.model.layout import Layout, looks_numeric, lookup, state_names
from tacit.model.mdp import MDP
from tacit.model.objective import Features, is_sparse

__all__ = [
    "Map",
    "Ridge",
    "Smooth",
    "Sparse",
    "action_one_hot",
    "bumps",
    "columns",
    "combine",
    "coordinates",
    "distance_to",
    "one_hot",
    "product",
    "scaled",
]

if TYPE_CHECKING:
    from tacit.model.objective import FeatureTable

# Share of how a column varies within states from which the action is what it depends on.
BY_ACTION = 0.5
# Ranges of a feature from 0 beyond which it is moved there.
FAR = 10.0


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
    opened = _opened(table, state)
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
    values[_states(opened, read[state], count, layout)] = cells
    return Map(values, chosen)


def _opened(table: str | Path | Frame, state: str) -> TableSource:
    if not isinstance(table, str | Path):
        return FrameTable(table, InvalidModel, what="the table")
    path = Path(table)
    if path.suffix.lower() not in (*TEXT, *PARQUET):
        raise InvalidModel(f"a table of features is a .csv or .parquet file; got {path.name}")
    return open_table(path, InvalidModel, expected=(state,))


def _states(table: TableSource, column: RawColumn, count: int, layout: Layout) -> np.ndarray:
    """[N] the number of the state of each row; every state exactly once."""
    named = state_names(layout, count)
    known = lookup(named or tuple(map(str, range(count))))
    wanted = f"a state in 0..{count - 1}" + (" or the name of one" if named else "")
    spelled = column.spelled()
    hint = "" if named or any(map(looks_numeric, spelled.texts or ())) else ", or a layout names it"
    rows = spelled.numbered(known, wanted + hint)
    table.refuse_repeats(rows, lambda row: f"the state {column.cell(row)!r}")
    if len(rows) < count:
        lost = int(np.setdiff1d(np.arange(count), rows)[0])
        raise InvalidModel(
            f"{table.path}, column {column.name!r}: must name every state once; "
            f"{layout.state_name(lost)!r} is missing ({len(rows)} rows for {count} states)"
        )
    return rows


@dataclass(frozen=True, eq=False, kw_only=True)
class Design:
    """The scaled, signed features of a task as a map from parameters to tables, and its transpose.

    Attributes:
        parts: one matrix a block, [S, D_k] of states or [S * A, D_k] of pairs, sparse or not.
        shape: (S, A).
        signs: [D] 1 for reward, -1 for cost features.
        scales: [D] what the features were divided by.
        blocks: one slice of the coordinates for the reward, then one per constraint.
        names: [D] what to call each coordinate.
        offsets: [D] what was taken off the scaled, signed features, which moves no action.
    """

    parts: tuple[FeatureTable, ...]
    shape: tuple[int, int]
    signs: np.ndarray
    scales: np.ndarray
    blocks: tuple[slice, ...]
    names: tuple[str, ...]
    offsets: np.ndarray

    @classmethod
    def of(cls, mdp: MDP, features: Features) -> Design:
        """The `Design` of these features on this model, each scaled to a range of one."""
        from scipy.sparse import diags_array

        parts, signs, scales, offsets = [], [], [], []
        for k, table in enumerate(features.maps):
            matrix = table if table.ndim == 2 else table.reshape(-1, table.shape[-1])
            there = mdp.choices.any(axis=1) if table.ndim == 2 else mdp.choices.ravel()
            if mdp.restricted and table.ndim == 3:
                paying = there | np.repeat(mdp.ends, mdp.actions)
                matrix = np.where(paying[:, None], np.asarray(matrix), 0.0)
            inside = matrix[there] if mdp.restricted else matrix
            high, low = _edges(inside)
            if mdp.ends.any():  # 0 comes after an end
                high, low = np.maximum(high, 0.0), np.minimum(low, 0.0)
            largest = np.maximum(np.abs(high), np.abs(low))
            varies = high - low > 1e-12 * largest
            scale = np.where(varies, high - low, np.where(largest > 0, largest, 1.0))
            sign = 1.0 if k == 0 else -1.0
            factors = np.where(varies, sign / scale, 0.0)
            middle = middles(high, low, mdp)
            if middle.any():  # seldom of a sparse matrix: one 0 is near enough
                matrix = (matrix.toarray() if is_sparse(matrix) else matrix) - middle
                matrix = np.where(np.reshape(there, (-1, 1)), matrix, 0.0)
            offsets.append(factors * middle)
            made = matrix @ diags_array(factors) if is_sparse(matrix) else matrix * factors
            parts.append(made.tocsr() if is_sparse(made) else made)
            signs.append(np.full(len(scale), sign))
            scales.append(scale)
        edges = np.concatenate([[0], np.cumsum(features.sizes)])
        return cls(
            parts=tuple(parts),
            shape=(mdp.states, mdp.actions),
            signs=np.concatenate(signs),
            scales=np.concatenate(scales),
            blocks=tuple(slice(a, b) for a, b in pairwise(edges.tolist())),
            names=(*features.reward_names, *(n for group in features.cost_names for n in group)),
            offsets=np.concatenate(offsets),
        )

    @property
    def size(self) -> int:
        """D, reward and cost features together."""
        return len(self.scales)

    @property
    def constraints(self) -> int:
        """K, the number of constraints."""
        return len(self.blocks) - 1

    def table(self, x: np.ndarray) -> np.ndarray:
        """[S, A] the features times parameters [D]."""
        total = np.zeros(self.shape)
        for part, block in zip(self.parts, self.blocks, strict=True):
            made = np.asarray(part @ x[block])
            total += made[:, None] if len(made) == self.shape[0] else made.reshape(self.shape)
        return total

    def rows(self, states: slice) -> np.ndarray:
        """[n * A, D] the features of all pairs of some states."""
        blocks, (count, actions) = [], self.shape
        for part in self.parts:
            each = part.shape[0] // count  # rows a state: one, or one an action
            some = part[each * states.start : each * states.stop]
            dense = some.toarray() if is_sparse(some) else some
            blocks.append(np.repeat(dense, actions // each, axis=0))
        return np.concatenate(blocks, axis=1)

    def pull_back(self, table: np.ndarray) -> np.ndarray:
        """[D] sums of the features over a table [S, A]."""
        visits = table.sum(axis=1)
        of_states = [part.shape[0] == self.shape[0] for part in self.parts]
        return np.concatenate(
            [
                np.asarray(part.T @ (visits if plain else table.ravel()))
                for part, plain in zip(self.parts, of_states, strict=True)
            ]
        )

    @property
    def empty(self) -> np.ndarray:
        """[D] bool, the features that are the same everywhere and so influence nothing."""
        edges = [_edges(part) for part in self.parts]
        return np.concatenate([(high == 0.0) & (low == 0.0) for high, low in edges])

    @property
    def own_features(self) -> np.ndarray | None:
        """[S] what each state's own parameter pays there; None unless the features are these."""
        part, states = self.parts[0], self.shape[0]
        if len(self.parts) > 1 or part.shape != (states, states) or not is_sparse(part):
            return None
        worth = np.asarray(part.diagonal())
        return worth if part.nnz == states and worth.all() else None

    @cached_property
    def constant(self) -> np.ndarray | None:
        """[D] parameters of the reward that pay 1 in every state and action; None without any."""
        from scipy.sparse.linalg import lsqr

        part = self.parts[0]
        weights = lsqr(part, np.ones(part.shape[0]), atol=1e-12, btol=1e-12, iter_lim=200)[0]
        missed = float(np.abs(np.asarray(part @ weights) - 1.0).max())
        rest = np.zeros(self.size - len(weights))
        return np.concatenate([weights, rest]) if missed < 1e-9 else None

    def lower(self, *, free_reward: bool) -> np.ndarray:
        """[D] smallest values allowed: 0, or none for a reward of free sign."""
        bounds = np.zeros(self.size)
        if free_reward:
            bounds[self.blocks[0]] = -np.inf
        return bounds


class Centred(Protocol):
    """Features of which some were moved towards 0."""

    @property
    def offsets(self) -> np.ndarray:
        """[D] what was taken off them."""
        ...

    def pull_back(self, visitation: np.ndarray, /) -> np.ndarray:
        """[D] their sums over a visitation [S, A]."""
        ...


def middles(high: np.ndarray, low: np.ndarray, mdp: MDP) -> np.ndarray:
    """[D] the middles of features [D] that lie far from 0 for their range; 0 for the others.

    What is the same everywhere moves no action, but values that are all of it lose the digits that
    do. Where episodes end it counts their steps, and stays.
    """
    far = np.maximum(np.abs(high), np.abs(low)) > FAR * (high - low)
    return np.where(far & (high > low) & (not mdp.ends.any()), 0.5 * (high + low), 0.0)


def sums_as_given(space: Centred, visitation: np.ndarray) -> np.ndarray:
    """[D] sums of the scaled, signed features over a visitation [S, A], nothing taken off them."""
    return space.pull_back(visitation) + space.offsets * visitation.sum()


def values_off(space: Centred, x: np.ndarray, discount: float) -> float:
    """What of all values was taken off with the features, at parameters x [D]."""
    total = float(space.offsets @ x)
    return total / (1.0 - discount) if total else 0.0


def _edges(matrix: FeatureTable) -> tuple[np.ndarray, np.ndarray]:
    """([D], [D]) the largest and the smallest entry of each column."""
    if is_sparse(matrix):
        return matrix.max(axis=0).toarray(), matrix.min(axis=0).toarray()
    return matrix.max(axis=0), matrix.min(axis=0)


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
