"""Continuous logs become states: bins along each axis, or clusters, with the map kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tacit.demonstrations import Demonstrations
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.files.arrays import read_arrays, write_arrays
from tacit.layout import Layout
from tacit.sources.binning import (
    axis_names,
    checked_edges,
    cluster_centres,
    cut,
    middles,
    nearby,
    numbered,
    points_of,
    ranges,
)
from tacit.transitions import numbers, read_only


@dataclass(frozen=True, eq=False)
class Discretiser:
    """A map from points [N, d] to states; `Discretiser.fit` makes it, calling it applies it.

    Two axes of bins make a grid as people draw it: the first axis runs to the right, the second
    upwards, so state 0 is the top left cell. Bins along one or more than two axes are numbered with
    the last axis running fastest; clusters by their first, then second coordinate.

    Attributes:
        centres: [S, d] the middle of each state, in the units of the points.
        edges: one increasing [B + 1] per axis for bins; empty for clusters.
        low: [d] least coordinates that belong to a state.
        high: [d] largest coordinates that belong to a state.
        names: [d] what the axes are called.
        clip: whether a point outside goes to the nearest state instead of being refused.
    """

    centres: Any
    edges: Any
    low: Any
    high: Any
    names: tuple[str, ...]
    clip: bool = False

    @classmethod
    def fit(
        cls,
        points: Any,
        *,
        bins: int | Sequence[int] | None = None,
        clusters: int | None = None,
        quantiles: bool = False,
        names: Sequence[str] | None = None,
        clip: bool = False,
        seed: int = 0,
    ) -> Discretiser:
        """The `Discretiser` of points [N, d].

        Args:
            points: what was logged, one row a point.
            bins: number of bins along each axis, or one number for all axes.
            clusters: instead, number of k-means clusters (needs scikit-learn). Axes in different
                units should be brought to one scale before.
            quantiles: bins of about equally many points, instead of bins of equal width. Where
                points coincide there may be fewer bins than asked for.
            names: one per axis; None says x, y, z, or axis 0 and so on.
            clip: whether a point outside what was seen goes to the nearest state.
            seed: of the clusters' beginning.
        """
        seen = points_of(points)
        names = axis_names(names, seen.shape[1])
        if (bins is None) == (clusters is None):
            raise InvalidModel("either bins or clusters must be given, and not both")
        low, high = seen.min(axis=0), seen.max(axis=0)
        if clusters is not None:
            centres = cluster_centres(seen, clusters, seed)
            return cls(centres, (), low, high, names, clip)
        return cls.from_edges(cut(seen, bins, names, quantiles=quantiles), names=names, clip=clip)

    @classmethod
    def from_edges(
        cls, edges: Sequence[Any], *, names: Sequence[str] | None = None, clip: bool = False
    ) -> Discretiser:
        """The `Discretiser` of bins between these edges, one increasing [B + 1] per axis.

        Args:
            edges: where bins begin and end.
            names: one per axis.
            clip: whether a point outside goes to the nearest state.
        """
        given = checked_edges(edges)
        low, high = ([axis[end] for axis in given] for end in (0, -1))
        return cls(middles(given), given, low, high, axis_names(names, len(given)), clip)

    def __post_init__(self) -> None:
        for name in ("centres", "low", "high"):
            array = np.array(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, read_only(array))
        edges = tuple(read_only(np.array(axis, dtype=np.float64)) for axis in self.edges)
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "names", tuple(map(str, self.names)))

    @property
    def states(self) -> int:
        """S, the number of states."""
        return len(self.centres)

    def __call__(self, points: Any) -> Any:
        """[N] the states of points [N, d]; one number for a single point [d]."""
        given = numbers(points, "points")
        single = given.ndim == (0 if len(self.names) == 1 else 1)
        seen = points_of(given.reshape(1, -1) if single else given)
        if seen.shape[1] != len(self.names):
            raise InvalidDemonstrations(
                f"points must have the {len(self.names)} axes {', '.join(self.names)}; "
                f"got shape {seen.shape}"
            )
        seen = self._inside(seen)
        states = self._cells(seen) if self.edges else self._nearest(seen)
        return int(states[0]) if single else states

    def demonstrations(self, trajectories: Iterable[tuple[Any, Any]]) -> Demonstrations:
        """`Demonstrations` from (points, actions) pairs, one pair an episode.

        Where `points` is one longer than `actions`, its last row is the state after the last one.
        """
        return Demonstrations.from_trajectories(
            (self(points_of(points)), actions) for points, actions in trajectories
        )

    @cached_property
    def layout(self) -> Layout:
        """The names of the states, and the grid that two axes of bins make."""
        if not self.edges:
            return Layout(state_names=nearby(self.names, self.centres))
        state_names = ranges(self.names, self.edges)
        if len(self.edges) != 2:
            return Layout(state_names=state_names)
        columns, rows = (len(axis) - 1 for axis in self.edges)
        return Layout(rows, columns, state_names=state_names)

    def save(self, path: str | Path) -> None:
        """Writes the map as one .npz file, with checksums; `load` reads it back."""
        path = Path(path)
        if path.suffix != ".npz":
            raise InvalidModel(f"a discretiser is saved as .npz; got {path.name}")
        arrays = {f"edges_{j}": axis for j, axis in enumerate(self.edges)}
        arrays |= {"centres": self.centres, "low": self.low, "high": self.high}
        arrays |= {"names": np.array(self.names), "clip": np.array(self.clip)}
        write_arrays(path, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Discretiser:
        """The discretiser saved in this file; `OSError` if it is damaged or something else."""
        arrays = read_arrays(Path(path))
        missing = {"centres", "low", "high", "names", "clip"} - {*arrays}
        if missing:
            raise OSError(f"{path} must hold a discretiser; {min(missing)!r} is missing")
        edges = [arrays[f"edges_{j}"] for j in range(len(arrays)) if f"edges_{j}" in arrays]
        return cls(
            arrays["centres"],
            edges,
            arrays["low"],
            arrays["high"],
            tuple(arrays["names"].tolist()),
            bool(arrays["clip"]),
        )

    def _inside(self, points: np.ndarray) -> np.ndarray:
        """The points, moved to the border where `clip` allows it."""
        outside = (points < self.low) | (points > self.high)
        if outside.any() and not self.clip:
            row, axis = (int(i) for i in np.argwhere(outside)[0])
            raise InvalidDemonstrations(
                f"points must lie within what was seen; {self.names[axis]} must be in "
                f"[{self.low[axis]:g}, {self.high[axis]:g}], row {row} has {points[row, axis]:g} "
                f"({int(outside.any(axis=1).sum())} rows are outside; clip=True moves them in)"
            )
        return np.clip(points, self.low, self.high)

    def _cells(self, points: np.ndarray) -> np.ndarray:
        """[N] the bins that the points fall in; a point on an edge belongs to the bin above it."""
        places = [
            np.searchsorted(edges[1:-1], points[:, j], side="right")
            for j, edges in enumerate(self.edges)
        ]
        return numbered(places, self.edges)

    def _nearest(self, points: np.ndarray) -> np.ndarray:
        from scipy.spatial import KDTree

        return np.asarray(KDTree(self.centres).query(points)[1], dtype=np.int64)
