"""The scaled design: features of a task as a linear map from parameters to tables of rewards.

Every feature is scaled to a range of one, so that tolerances and ridges mean the same for all, and
a cost enters with a minus sign. The map is a matrix a block, sparse or not; tables [D, S, A] are
written out on demand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from tacit.model.available import Sites
from tacit.model.features.curves import CurveTerm, same_curves
from tacit.model.objective import Features, is_sparse

if TYPE_CHECKING:
    from tacit.model.objective import FeatureTable

# Ranges of a feature from 0 beyond which it is moved there.
FAR = 10.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Design:
    """The scaled, signed features of a task as a map from parameters to tables, and its transpose.

    Attributes:
        parts: one matrix a block, [S, D_k] of states or [S * A, D_k] of pairs, sparse or not; none
            where the tables alone are there, split over devices.
        shape: (S, A).
        signs: [D] 1 for reward, -1 for cost features.
        scales: [D] what the features were divided by.
        blocks: one slice of the coordinates for the reward, then one per constraint.
        names: [D] what to call each coordinate.
        offsets: [D] what was taken off the scaled, signed features, which moves no action.
        pairs: [S, A] bool, the actions there are, at ends all; None for all of them.
        ending: whether episodes end, so that sums may stop at any time.
        given: [D, S, A] tables that are not made of the parts; None where they are.
        curves: those among the features.
        merged: [D] bool, costs that curves of the reward stand in for; None for none.
    """

    parts: tuple[FeatureTable, ...]
    shape: tuple[int, int]
    signs: np.ndarray
    scales: np.ndarray
    blocks: tuple[slice, ...]
    names: tuple[str, ...]
    offsets: np.ndarray
    pairs: np.ndarray | None = None
    ending: bool = False
    given: Any = None
    curves: tuple[CurveTerm, ...] = ()
    merged: np.ndarray | None = None

    @classmethod
    def of(cls, world: Sites, features: Features) -> Design:
        """The `Design` of these features on this model, each scaled to a range of one."""
        scaled = [
            _scaled_map(world, table, sign=1.0 if k == 0 else -1.0)
            for k, table in enumerate(features.maps)
        ]
        edges = np.concatenate([[0], np.cumsum(features.sizes)])
        blocks = tuple(slice(a, b) for a, b in pairwise(edges.tolist()))
        merged = np.zeros(edges[-1], bool)
        for *_, curve in same_curves(features.curves, features.maps):
            merged[curve.among(blocks)] = True
        return cls(
            parts=tuple(part.table for part in scaled),
            shape=(world.states, world.actions),
            signs=np.concatenate([np.full(len(part.scales), part.sign) for part in scaled]),
            scales=np.concatenate([part.scales for part in scaled]),
            blocks=blocks,
            names=(*features.reward_names, *chain.from_iterable(features.cost_names)),
            offsets=np.concatenate([part.offsets for part in scaled]),
            pairs=world.choices | world.ends[:, None] if world.restricted else None,
            ending=bool(world.ends.any()),
            curves=features.curves,
            merged=merged if merged.any() else None,
        )

    def with_tables(self, tables: np.ndarray) -> Design:
        """The design with other tables [D, S, A]."""
        parts = tuple(tables[b].reshape(b.stop - b.start, -1).T for b in self.blocks)
        return replace(self, parts=parts, shape=tables.shape[1:], given=tables)

    @cached_property
    def tables(self) -> Any:
        """[D, S, A] the features of every state and action, written out once; 0 where none is."""
        if self.given is not None:
            return self.given
        states, actions = self.shape
        tables = np.empty((self.size, states, actions))
        for part, block in zip(self.parts, self.blocks, strict=True):
            columns = (part.toarray() if is_sparse(part) else part).T
            tables[block] = columns.reshape(len(columns), states, -1)
        if self.pairs is not None:
            tables[:, ~self.pairs] = 0.0
        return tables

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
        low, high = self.ranges
        return (high == 0.0) & (low == 0.0)

    @cached_property
    def ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """([D], [D]) the least and the largest number in each table."""
        edges = [_edges(part) for part in self.parts]
        high, low = (np.concatenate(ends) for ends in zip(*edges, strict=True))
        if self.pairs is not None and not self.pairs.all():
            high, low = np.maximum(high, 0.0), np.minimum(low, 0.0)
        return low, high

    def alike(self, states: np.ndarray) -> np.ndarray:
        """[n] bool, of states [n] those in which all actions have the same features."""
        found, (count, actions) = np.ones(len(states), bool), self.shape
        for part in self.parts:
            if part.shape[0] != count and len(states):
                own = part[(states[:, None] * actions + np.arange(actions)).ravel()]
                found &= (np.ptp(own.reshape(len(states), actions, -1), axis=1) == 0).all(axis=1)
        return found

    def in_each(self, states: np.ndarray) -> np.ndarray:
        """[D] bool, the features that some action of each of these states [n] has, as given."""
        found = []
        for part, block in zip(self.parts, self.blocks, strict=True):
            each = part.shape[0] // self.shape[0]
            rows = (states[:, None] * each + np.arange(each)).ravel()
            if is_sparse(part):  # of which nothing was taken off
                found.append(np.asarray((part[rows] != 0).sum(axis=0)).ravel() == len(rows))
                continue
            own = (part[rows] + self.offsets[block]).reshape(len(states), each, -1)
            found.append(own.any(axis=1).all(axis=0))
        return np.concatenate(found)

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
        residual = float(np.abs(np.asarray(part @ weights) - 1.0).max())
        of_costs = np.zeros(self.size - len(weights))
        return np.concatenate([weights, of_costs]) if residual < 1e-9 else None

    def lower(self, *, free_reward: bool) -> np.ndarray:
        """[D] smallest values allowed: 0, or none for a reward of free sign."""
        bounds = np.zeros(self.size)
        if free_reward:
            bounds[self.blocks[0]] = -np.inf
        for curve in self.curves:
            if not curve.basis.shape:
                bounds[curve.among(self.blocks)] = -np.inf
        return bounds if self.merged is None else np.where(self.merged, 0.0, bounds)

    @property
    def upper(self) -> np.ndarray:
        """[D] largest values allowed: none, but 0 where a curve of the reward stands in."""
        return np.where(
            np.zeros(self.size, bool) if self.merged is None else self.merged, 0.0, np.inf
        )

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """[D] what people call each coordinate: that of a curve by the curve's name."""
        names = [*self.names]
        for curve in self.curves:
            for j in curve.among(self.blocks):
                names[j] = curve.name
        return tuple(names)

    @property
    def in_curve(self) -> np.ndarray:
        """[D] bool, the parameters of curves."""
        return np.isin(np.arange(self.size), [j for c in self.curves for j in c.among(self.blocks)])


class ScaledMap(NamedTuple):
    """A feature map in the coordinates of the likelihood, each column of range one."""

    table: FeatureTable  # [S, D] or [S * A, D] scaled and signed, less its offsets
    sign: float  # -1 for costs, which are charged
    scales: np.ndarray  # [D] what columns were divided by
    offsets: np.ndarray  # [D] what was taken off the scaled, signed columns


def _scaled_map(world: Sites, table: FeatureTable, *, sign: float) -> ScaledMap:
    """The `ScaledMap` of features [S, D] or [S, A, D]; a constant becomes 0."""
    from scipy.sparse import diags_array

    matrix = table if table.ndim == 2 else table.reshape(-1, table.shape[-1])
    has_choice = world.choices.any(axis=1) if table.ndim == 2 else world.choices.ravel()
    if world.restricted and table.ndim == 3:
        pays = has_choice | np.repeat(world.ends, world.actions)
        matrix = np.where(pays[:, None], np.asarray(matrix), 0.0)
    high, low = _edges(matrix[has_choice] if world.restricted else matrix)
    if world.ends.any():  # 0 comes after an end
        high, low = np.maximum(high, 0.0), np.minimum(low, 0.0)
    largest = np.maximum(np.abs(high), np.abs(low))
    # A constant influences nothing; as zeros it cannot even seem to, by rounding or because
    # trajectories were cut off. Where episodes end it counts their steps: 0 comes after.
    varies = high - low > 1e-12 * largest
    scales = np.where(varies, high - low, np.where(largest > 0, largest, 1.0))
    factors = np.where(varies, sign / scales, 0.0)
    middle = middles(high, low, world)
    if middle.any():  # seldom of a sparse matrix: one 0 is near enough
        dense = matrix.toarray() if is_sparse(matrix) else matrix
        matrix = np.where(np.reshape(has_choice, (-1, 1)), dense - middle, 0.0)
    scaled = matrix @ diags_array(factors) if is_sparse(matrix) else matrix * factors
    scaled = scaled.tocsr() if is_sparse(scaled) else scaled
    return ScaledMap(scaled, sign, scales, factors * middle)


class Centred(Protocol):
    """Scaled features from some of which an offset was taken."""

    @property
    def offsets(self) -> np.ndarray:
        """[D] what was taken off them."""
        ...

    def pull_back(self, visitation: np.ndarray, /) -> np.ndarray:
        """[D] their sums over a visitation [S, A]."""
        ...


def middles(high: np.ndarray, low: np.ndarray, world: Sites) -> np.ndarray:
    """[D] the middles of features [D] that lie far from 0 for their range; 0 for the others.

    What is the same everywhere moves no action, but values that are all of it lose the digits that
    do. Where episodes end it counts their steps, and stays.
    """
    far = np.maximum(np.abs(high), np.abs(low)) > FAR * (high - low)
    return np.where(far & (high > low) & (not world.ends.any()), 0.5 * (high + low), 0.0)


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
