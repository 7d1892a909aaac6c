"""Points become states: bins along axes, or clusters; how they are numbered and called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidDemonstrations, InvalidModel, optional
from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.atomic import BadFile
from tacit.files.trees import pack, unpack
from tacit.model.arguments import is_integer, numbers, read_only
from tacit.model.layout import Layout

# Most states that bins may make: every one of them gets a name.
LARGEST = 1_000_000


def points_of(values: npt.ArrayLike) -> np.ndarray:
    """[N, d] finite numbers; one column where [N] is given."""
    points = numbers(values, "points")
    points = points[:, None] if points.ndim == 1 else points
    if points.ndim != 2 or 0 in points.shape:
        raise InvalidDemonstrations(f"points must have shape [N, d], N, d > 0; got {points.shape}")
    bad = ~np.isfinite(points)
    if bad.any():
        row, axis = (int(i) for i in np.argwhere(bad)[0])
        raise InvalidDemonstrations(
            f"points must be finite; row {row}, axis {axis} is {points[row, axis]} "
            f"({int(bad.any(axis=1).sum())} rows are not)"
        )
    return points


def axis_names(names_given: Sequence[str] | None, axes: int) -> tuple[str, ...]:
    """[d] the names as given; else x, y, z, or axis 0 and so on where there are more."""
    if names_given is None:
        return ("x", "y", "z")[:axes] if axes <= 3 else tuple(f"axis {j}" for j in range(axes))
    names = (names_given,) if isinstance(names_given, str) else tuple(map(str, names_given))
    if len(names) != axes:
        raise InvalidModel(f"{axes} axes need {axes} names; got {len(names)}")
    return names


def cut(
    points: np.ndarray, bins: int | Sequence[int], names: Sequence[str], *, quantiles: bool
) -> list[np.ndarray]:
    """One increasing [B + 1] per axis: bins of equal width, or of about equally many points."""
    axes = points.shape[1]
    counts = np.broadcast_to(bins, (axes,)) if np.ndim(bins) == 0 else np.asarray(bins)
    if (
        counts.shape != (axes,)
        or not np.issubdtype(counts.dtype, np.integer)
        or not (counts >= 1).all()
    ):
        raise InvalidModel(
            f"bins must be a positive integer, or one for each of {axes} axes; got {bins!r:.60}"
        )
    edges = []
    for j, count in enumerate(counts):
        column = points[:, j]
        if column.min() == column.max():
            raise InvalidModel(
                f"{names[j]} is {column[0]:g} in every point: leave it out, or give its edges"
            )
        if quantiles:
            # Points that coincide share an edge: no bin is empty of meaning.
            edges.append(np.unique(np.quantile(column, np.linspace(0.0, 1.0, count + 1))))
        else:
            edges.append(np.linspace(column.min(), column.max(), count + 1))
    return edges


def checked_edges(given: Sequence[npt.ArrayLike]) -> list[np.ndarray]:
    """The edges of each axis, finite and increasing, of no more than a million bins in all."""
    edges = [numbers(axis, f"edges of axis {j}") for j, axis in enumerate(given)]
    for j, axis in enumerate(edges):
        if axis.ndim != 1 or len(axis) < 2 or not (np.diff(axis) > 0).all():
            raise InvalidModel(
                f"edges of axis {j} must be two or more increasing numbers; got {given[j]!r:.60}"
            )
        if not np.isfinite(axis).all():
            raise InvalidModel(f"edges of axis {j} must be finite; got {given[j]!r:.60}")
    total = np.prod([float(len(axis) - 1) for axis in edges])
    if not edges or total > LARGEST:
        raise InvalidModel(f"bins must make 1 to {LARGEST} states; got {total if edges else 0:g}")
    return edges


def numbered(places: Sequence[np.ndarray], edges: Sequence[np.ndarray]) -> np.ndarray:
    """[N] the state of each cell, given its place along each axis.

    Two axes make a picture, row by row from the top: the second axis runs upwards.
    """
    shape = [len(axis) - 1 for axis in edges]
    if len(shape) == 2:
        return (shape[1] - 1 - places[1]) * shape[0] + places[0]
    return np.ravel_multi_index(tuple(places), shape)


def cells(edges: Sequence[np.ndarray]) -> np.ndarray:
    """[S, d] the place of each state along each axis, in the order of the states."""
    shape = [len(axis) - 1 for axis in edges]
    if len(shape) == 2:
        row, column = np.divmod(np.arange(shape[0] * shape[1]), shape[0])
        return np.stack([column, shape[1] - 1 - row], axis=1)
    return np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)


def middles(edges: Sequence[np.ndarray]) -> np.ndarray:
    """[S, d] the middle of each cell."""
    place = cells(edges)
    halves = [(axis[1:] + axis[:-1]) / 2 for axis in edges]
    return np.stack([half[place[:, j]] for j, half in enumerate(halves)], axis=1)


def cluster_centres(points: np.ndarray, count: int, seed: int) -> np.ndarray:
    """[S, d] the centres of k-means clusters, ordered by their coordinates."""
    distinct = len(np.unique(points, axis=0))
    if not is_integer(count) or not 1 <= count <= distinct:
        raise InvalidModel(
            f"clusters must be an integer in 1..{distinct}, the number of different points; "
            f"got {count!r:.60}"
        )
    kmeans = optional("sklearn.cluster", "clusters need scikit-learn", "clusters").KMeans
    fitted = kmeans(n_clusters=int(count), n_init=4, random_state=seed).fit(points)
    centres = np.asarray(fitted.cluster_centers_, dtype=np.float64)
    return centres[np.lexsort(centres.T[::-1])]


def checked_ends(values: npt.ArrayLike, states: int) -> np.ndarray:
    """[S] where an episode is over that terminates in each state, -1 for the state itself."""
    ends = np.array(values)
    if ends.shape != (states,) or ends.dtype.kind not in "iu":
        raise InvalidModel(
            f"ends must hold the number of a state for each of {states}; got {ends.dtype} of "
            f"shape {ends.shape}"
        )
    return ends.astype(np.int64)


def ranges(names: Sequence[str], edges: Sequence[np.ndarray]) -> tuple[str, ...]:
    """[S] names such as "x in [0, 0.5), y in [1, 2]"; the last bin of an axis has its end in it."""
    words = []
    for name, axis in zip(names, edges, strict=True):
        shown, last = spelled(axis), len(axis) - 2
        words.append(
            [
                f"{name} in [{shown[i]}, {shown[i + 1]}{']' if i == last else ')'}"
                for i in range(last + 1)
            ]
        )
    return tuple(", ".join(words[j][i] for j, i in enumerate(cell)) for cell in cells(edges))


def nearby(names: Sequence[str], centres: np.ndarray) -> tuple[str, ...]:
    """[S] names such as "x near 0.31, y near 2"."""

    def spell(digits: int) -> list[str]:
        return [
            ", ".join(f"{name} near {x:.{digits}g}" for name, x in zip(names, centre, strict=True))
            for centre in centres.tolist()
        ]

    return tuple(_told_apart(spell))


def spelled(values: np.ndarray) -> list[str]:
    """The numbers as text."""
    return _told_apart(lambda digits: [f"{x:.{digits}g}" for x in values.tolist()])


def _told_apart(spell: Callable[[int], list[str]]) -> list[str]:
    """What `spell` gives with the fewest digits, three or more, that make all texts different."""
    every = (spell(digits) for digits in range(3, 18))
    return next((texts for texts in every if len(set(texts)) == len(texts)), spell(17))


@dataclass(frozen=True, eq=False, kw_only=True)
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
        ends: [S] the state in which an episode is over that terminates in each one, -1 for the
            state itself; None for the state itself everywhere. `with_ends` sets them.
    """

    centres: np.ndarray
    edges: tuple[np.ndarray, ...]
    low: np.ndarray
    high: np.ndarray
    names: tuple[str, ...]
    clip: bool = False
    ends: np.ndarray | None = None

    def __repr__(self) -> str:
        sizes = " x ".join(str(len(one) - 1) for one in self.edges)
        made = f"{sizes} bins" if self.edges else f"{len(self.centres)} clusters"
        return f"Discretiser({made} of {', '.join(self.names)})"

    @classmethod
    def fit(
        cls,
        points: npt.ArrayLike,
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
            return cls(centres=centres, edges=(), low=low, high=high, names=names, clip=clip)
        assert bins is not None
        return cls.from_edges(cut(seen, bins, names, quantiles=quantiles), names=names, clip=clip)

    @classmethod
    def from_edges(
        cls,
        edges: Sequence[npt.ArrayLike],
        *,
        names: Sequence[str] | None = None,
        clip: bool = False,
    ) -> Discretiser:
        """The `Discretiser` of bins between these edges, one increasing [B + 1] per axis.

        Args:
            edges: where bins begin and end.
            names: one per axis.
            clip: whether a point outside goes to the nearest state.
        """
        checked = checked_edges(edges)
        return cls(
            centres=middles(checked),
            edges=tuple(checked),
            low=np.array([axis[0] for axis in checked]),
            high=np.array([axis[-1] for axis in checked]),
            names=axis_names(names, len(checked)),
            clip=clip,
        )

    def __post_init__(self) -> None:
        for name in ("centres", "low", "high"):
            array = np.array(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, read_only(array))
        edges = tuple(read_only(np.array(axis, dtype=np.float64)) for axis in self.edges)
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "names", tuple(map(str, self.names)))
        if self.ends is not None:
            object.__setattr__(self, "ends", read_only(checked_ends(self.ends, self.states)))

    @property
    def states(self) -> int:
        """S, the number of states."""
        return len(self.centres)

    def with_ends(self, ends: npt.ArrayLike) -> Discretiser:
        """The same map, where episodes that terminate lead to states of their own.

        `tacit.data.sources.rollouts`, `from_minari` and `tacit.export.wrapper` read the ends here:
        what was recovered with them is paid with them.

        Args:
            ends: [S] the state in which an episode is over that terminates in each one, -1 for the
                state itself; or one number for all: `cells.with_ends(cells.states)`.
        """
        ends = np.asarray(ends)
        return replace(self, ends=np.full(self.states, ends) if ends.ndim == 0 else ends)

    def __call__(self, points: npt.ArrayLike) -> np.ndarray | int:
        """[N] the states of points [N, d]; one number for a single point [d]."""
        values = numbers(points, "points")
        single = values.ndim == (0 if len(self.names) == 1 else 1)
        seen = points_of(values.reshape(1, -1) if single else values)
        if seen.shape[1] != len(self.names):
            raise InvalidDemonstrations(
                f"points must have the {len(self.names)} axes {', '.join(self.names)}; "
                f"got shape {seen.shape}"
            )
        seen = self._inside(seen)
        states = self._cells(seen) if self.edges else self._nearest(seen)
        return int(states[0]) if single else states

    def demonstrations(
        self, trajectories: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]]
    ) -> Demonstrations:
        """`Demonstrations` from (points, actions) pairs, one pair an episode.

        Where `points` is one longer than `actions`, its last row is the state after the last one.
        """
        return Demonstrations.from_trajectories(
            (self(points_of(points)), actions) for points, actions in trajectories
        )

    @cached_property
    def layout(self) -> Layout:
        """The names of the states, and the grid that two axes of bins make."""
        edges = self.edges
        names = ranges(self.names, edges) if edges else nearby(self.names, self.centres)
        columns, rows = (len(axis) - 1 for axis in edges) if len(edges) == 2 else (0, 0)
        return Layout(rows, columns, state_names=names)

    def save(self, path: str | Path) -> None:
        """Writes the map as one .npz file, with checksums; `load` reads it back."""
        path = Path(path)
        if path.suffix != ".npz":
            raise InvalidModel(f"a discretiser is saved as .npz; got {path.name}")
        write_arrays(path, pack(self, small=0))

    @classmethod
    def load(cls, path: str | Path) -> Discretiser:
        """The discretiser saved in this file; `OSError` if it is damaged or something else."""
        arrays = read_arrays(Path(path))
        try:
            discretiser = unpack(arrays)
        except BadFile as error:
            raise OSError(f"{path} must hold a discretiser; {error}") from None
        if not isinstance(discretiser, cls):
            raise OSError(
                f"{path} must hold a discretiser; it holds a {type(discretiser).__name__}"
            )
        return discretiser

    def _inside(self, points: np.ndarray) -> np.ndarray:
        """The points, moved to the border where `clip` allows it."""
        # Environments count in 32 bits: their -1.2 lies a hair outside ours.
        hair = np.finfo(np.float32).eps * np.maximum(np.abs(self.low), np.abs(self.high))
        outside = (points < self.low - hair) | (points > self.high + hair)
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
