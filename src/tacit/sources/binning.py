"""Where bins and clusters lie, how they are numbered, and what they are called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.transitions import numbers

# Most states that bins may make: every one of them gets a name.
LARGEST = 1_000_000


def points_of(given: Any) -> np.ndarray:
    """[N, d] finite numbers; one column where [N] is given."""
    points = numbers(given, "points")
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


def axis_names(given: Sequence[str] | None, axes: int) -> tuple[str, ...]:
    """[d] the names as given; else x, y, z, or axis 0 and so on where there are more."""
    if given is None:
        return ("x", "y", "z")[:axes] if axes <= 3 else tuple(f"axis {j}" for j in range(axes))
    names = (given,) if isinstance(given, str) else tuple(map(str, given))
    if len(names) != axes:
        raise InvalidModel(f"{axes} axes need {axes} names; got {len(names)}")
    return names


def cut(
    points: np.ndarray, bins: Any, names: Sequence[str], *, quantiles: bool
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


def checked_edges(given: Sequence[Any]) -> list[np.ndarray]:
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


def cluster_centres(points: np.ndarray, count: Any, seed: int) -> np.ndarray:
    """[S, d] the centres of k-means clusters, ordered by their coordinates."""
    whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
    distinct = len(np.unique(points, axis=0))
    if not whole or not 1 <= count <= distinct:
        raise InvalidModel(
            f"clusters must be an integer in 1..{distinct}, the number of different points; "
            f"got {count!r:.60}"
        )
    try:
        kmeans = import_module("sklearn.cluster").KMeans
    except ImportError:
        raise InvalidModel(
            "clusters need scikit-learn, which is not installed: pip install 'tacit[clusters]'"
        ) from None
    fitted = kmeans(n_clusters=int(count), n_init=4, random_state=seed).fit(points)
    centres = np.asarray(fitted.cluster_centers_, dtype=np.float64)
    return centres[np.lexsort(centres.T[::-1])]


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
    return next((found for found in every if len(set(found)) == len(found)), spell(17))
