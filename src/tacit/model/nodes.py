"""Continuous worlds whose steps are known: nodes of a box, between which values are multilinear.

Expected interpolation weights are never negative and add up to one, so they are the transitions of
a Markov chain on the nodes, and all that holds for tables holds for them. Rows that were logged
lead to nodes from their own places, and nobody enters them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidModel
from tacit.model.arguments import distributions, finite, integer, numbers, read_only
from tacit.model.mdp import MDP

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# (observations [n, d], action number) -> [n, d] where that leads, before the noise.
Step: TypeAlias = Callable[[np.ndarray, int], npt.ArrayLike]
# Nodes of a normal law's quadrature along one axis: exact for polynomials of degree nine.
QUADRATURE = 5
# Fewest nodes an axis: halved twice, there must still be a cell.
FEWEST = 5
# Most entries of the transitions.
LARGEST = 200_000_000


@dataclass(frozen=True, eq=False)
class Nodes:
    """A grid of nodes in a box.

    Attributes:
        axes: one increasing [n_j] per dimension.
    """

    axes: tuple[np.ndarray, ...]

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return int(np.prod([len(axis) for axis in self.axes]))

    @cached_property
    def points(self) -> np.ndarray:
        """[n, d] where they lie, the last axis running fastest."""
        return np.stack(np.meshgrid(*self.axes, indexing="ij"), axis=-1).reshape(self.size, -1)

    @property
    def coarser(self) -> Nodes:
        """Every other node."""
        return Nodes(tuple(axis[::2] for axis in self.axes))

    def weights(self, points: np.ndarray) -> csr_array:
        """[m, n] multilinear interpolation weights of points [m, d]; outside, of the box's edge."""
        from scipy.sparse import csr_array

        # Of every axis: the two nodes around each point, as steps through the list of nodes, and
        # the weights of both. A node is a corner of the cell around the point.
        steps, shares = [], []
        strides = np.cumprod([1, *(len(axis) for axis in self.axes[:0:-1])])[::-1]
        for axis, stride, place in zip(self.axes, strides, points.T, strict=True):
            inside = np.clip(place, axis[0], axis[-1])
            low = np.clip(np.searchsorted(axis, inside, side="right") - 1, 0, len(axis) - 2)
            share = (inside - axis[low]) / (axis[low + 1] - axis[low])
            steps.append((low * stride, (low + 1) * stride))
            shares.append((1.0 - share, share))
        columns = np.stack([sum(corner) for corner in product(*steps)], axis=1)
        weights = np.stack([np.prod(corner, axis=0) for corner in product(*shares)], axis=1)
        offsets = np.arange(len(points) + 1) * columns.shape[1]
        entries = weights.ravel(), columns.ravel(), offsets
        return csr_array(entries, shape=(len(points), self.size))


@dataclass(frozen=True, eq=False, kw_only=True)
class Interpolated:
    """A continuous world whose steps are known, on nodes.

    Attributes:
        nodes: where values are solved for.
        step: (observations [n, d], action number) -> [n, d] where that leads, before the noise.
        actions: A.
        discount: of the world.
        shifts: [Q, d] what the noise adds to a step.
        chances: [Q] of each.
        ends: observations [n, d] -> [n] bool, where episodes end; None where they do not. Let the
            box end where episodes do: between nodes on both sides of an edge values are mixed.
        columns: [d] names of the coordinates.
    """

    nodes: Nodes
    step: Step
    actions: int
    discount: float
    shifts: np.ndarray
    chances: np.ndarray
    ends: Callable[[np.ndarray], npt.ArrayLike] | None = None
    columns: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        step: Step,
        box: npt.ArrayLike,
        *,
        actions: int,
        nodes: int | Sequence[int],
        discount: float,
        noise: npt.ArrayLike | tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        ends: Callable[[np.ndarray], npt.ArrayLike] | None = None,
        columns: Sequence[str] = (),
    ) -> Interpolated:
        """The world on a grid of nodes.

        Args:
            step: (observations [n, d], action number) -> [n, d] where that leads.
            box: [d, 2] least and largest value of every coordinate; what leads out stays at its
                edge.
            actions: how many there are.
            nodes: along every axis, or one number for each; odd ones, so that every other node is a
                coarser grid with the same edges.
            discount: of the world; 1 where every node can reach an end.
            noise: [d] standard deviations of a normal law that is added to every step; or shifts
                [Q, d] and their chances [Q]. None for certain steps.
            ends: observations [n, d] -> [n] bool, where episodes end.
            columns: names of the coordinates.
        """
        edges = finite(box, "box", "[d, 2]", (2,))
        if edges.shape[1] != 2 or not (edges[:, 0] < edges[:, 1]).all():
            raise InvalidModel(
                f"box must have shape [d, 2], each row (least, largest); got {edges.tolist()!r:.80}"
            )
        dimensions = len(edges)
        given = np.asarray(nodes).tolist()
        counts: list[Any] = given if isinstance(given, list) else [given] * dimensions
        if len(counts) != dimensions:
            raise InvalidModel(f"nodes must be one number, or {dimensions}; got {len(counts)}")
        for count in counts:
            if integer(count, "nodes", FEWEST) % 4 != 1:
                raise InvalidModel(
                    f"nodes must be 4 k + 1 along every axis (5, 9, 13, ... 41, 81), so that they "
                    f"can be halved twice; got {count}"
                )
        shifts, chances = _noise(noise, dimensions)
        names = tuple(columns) or tuple(f"x{j}" for j in range(dimensions))
        if len(names) != dimensions:
            raise InvalidModel(f"columns must be {dimensions} names; got {len(names)}")
        return cls(
            nodes=Nodes(
                tuple(
                    np.linspace(low, high, n) for (low, high), n in zip(edges, counts, strict=True)
                )
            ),
            step=step,
            actions=integer(actions, "actions"),
            discount=discount,
            shifts=shifts,
            chances=chances,
            ends=ends,
            columns=names,
        )

    @property
    def coarser(self) -> Interpolated:
        """The world on every other node."""
        return replace(self, nodes=self.nodes.coarser)

    @cached_property
    def mdp(self) -> MDP:
        """The world of the nodes as a table; it begins anywhere."""
        points, available = self.nodes.points, None
        start = np.full(len(points), 1.0 / len(points))
        if self.ends is not None:
            available = np.repeat(~self.over(points)[:, None], self.actions, axis=1)
        return MDP(self.moves(points), start, self.discount, available=available)

    def over(self, places: np.ndarray) -> np.ndarray:
        """[m] bool, the places [m, d] where an episode ends."""
        if self.ends is None:
            return np.zeros(len(places), bool)
        return np.asarray(self.ends(places), bool).reshape(len(places))

    def moves(self, places: np.ndarray) -> csr_array:
        """[m * A, n] chances of the nodes from places [m, d], row place * A + action."""
        from scipy.sparse import csr_array, vstack

        entries = places.size * self.actions * len(self.chances) * 2 ** len(self.nodes.axes)
        if entries > LARGEST:
            raise InvalidModel(
                f"steps from {len(places)} places lead to up to {entries} others, more than "
                f"{LARGEST}: take fewer nodes, or noise of fewer terms"
            )
        stacked = csr_array(vstack([self._moves(places, a) for a in range(self.actions)]))
        order = np.arange(len(places) * self.actions).reshape(self.actions, -1).T.ravel()
        return stacked[order]

    def _moves(self, places: np.ndarray, action: int) -> csr_array:
        """[m, n] chances of the nodes after an action: the mean of interpolation weights."""
        targets = numbers(self.step(places, action), "what step returns")
        if targets.shape != places.shape:
            raise InvalidModel(
                f"step must return [n, d] = {places.shape}, one row an observation; got "
                f"{targets.shape} for action {action}"
            )
        bad = ~np.isfinite(targets).all(axis=1)
        if bad.any():
            where = places[int(np.argmax(bad))]
            raise InvalidModel(
                f"step must lead somewhere finite; action {action} at {where} does not"
            )
        total = self.chances[0] * self.nodes.weights(targets + self.shifts[0])
        for shift, chance in zip(self.shifts[1:], self.chances[1:], strict=True):
            total = total + chance * self.nodes.weights(targets + shift)
        total.sum_duplicates()
        return total


def _noise(given: object, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """Shifts [Q, d] and chances [Q] of what is added to a step."""
    if given is None:
        return np.zeros((1, dimensions)), np.ones(1)
    if isinstance(given, tuple) and len(given) == 2 and np.ndim(given[0]) == 2:
        shifts = finite(given[0], "noise", "[Q, d]", (2,))
        if shifts.shape[1] != dimensions:
            raise InvalidModel(f"noise must have shape [Q, {dimensions}]; got {shifts.shape}")
        chances = distributions(given[1], (len(shifts),), "chances of the noise", "entry")
        return read_only(shifts), read_only(chances / chances.sum())
    deviations = finite(given, "noise", "[d]", (1,))
    if deviations.shape != (dimensions,) or (deviations < 0).any():
        raise InvalidModel(
            f"noise must be {dimensions} standard deviations, none negative, or shifts and "
            f"chances; got {deviations.tolist()!r:.60}"
        )
    points, weights = np.polynomial.hermite_e.hermegauss(QUADRATURE)
    shifts, chances = np.zeros((1, dimensions)), np.ones(1)
    for j in np.flatnonzero(deviations):
        along_axis = np.outer(deviations[j] * points, np.eye(dimensions)[j])
        shifts = (shifts[:, None] + along_axis).reshape(-1, dimensions)
        chances = np.outer(chances, weights / weights.sum()).ravel()
    return read_only(shifts), read_only(chances)
