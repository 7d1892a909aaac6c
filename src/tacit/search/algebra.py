"""Least squares within signs, roots of matrices and of functions, and the order of equals.

SciPy is imported where it is used: `import tacit` does without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacit.search.operators import BLIND

MANY_COLUMNS = 16  # beyond, compiled least squares are quicker
STEADY = 1e-6  # smallest to largest of a triangle, from which one equation more may be added to it
ROUNDING = float(np.finfo(float).eps)
AT_ONCE = 2**15  # columns of a product at a time
COARSE = 20  # bits of numbers that are put in order: beyond, they are equal


def least_squares(rows: np.ndarray, goal: np.ndarray) -> tuple[np.ndarray, float]:
    """[n] the z >= 0 of the smallest |rows z - goal|, for rows [m, n], and that."""
    from scipy.optimize import nnls

    if not rows.shape[1]:  # SciPy ends the process
        return np.zeros(0), float(np.linalg.norm(goal))
    place, missed = nnls(rows, goal, maxiter=100 * rows.shape[1])
    return place, float(missed)


class Approach:
    """How near the cone of `rows` [m, n] comes to `goal` [m] where one more equation must hold."""

    def __init__(self, rows: np.ndarray, goal: np.ndarray) -> None:
        self.rows, self.goal = rows, goal
        self._squares, self._length = (rows * rows).sum(axis=0), float(goal @ goal)
        self._faces: dict[tuple[int, ...], Face | None] = {}
        self._all = self._last = tuple(range(rows.shape[1]))

    def missed(self, row: np.ndarray, level: float) -> float:
        """The smallest |rows z - goal|^2 + (row . z - level)^2 over z >= 0, for a row [n].

        The equation moves the least squares of some columns along one direction. The columns that
        an equation nearby needed are tried first; `least_squares` decides where none are found.
        """
        chosen, size = self._last, len(row)
        for _ in range(4 * size if size <= MANY_COLUMNS else 0):
            if (face := self._face(chosen)) is None:
                break
            own = row[face.inside]
            move = face.inverse @ own
            loose = 1.0 + float(own @ move)
            short = level - float(own @ face.place)
            place = face.place + (short / loose) * move
            if place.min(initial=math.inf) <= 0.0:
                chosen = tuple(face.inside[place > 0.0].tolist())
            elif (new := self._leading(face, row, level, short / loose, move)) is None:
                self._last = chosen
                return face.missed + short * short / loose
            else:
                chosen = tuple(sorted((*chosen, new)))
        rows, goal = np.concatenate([self.rows, row[None]]), np.append(self.goal, level)
        return least_squares(rows, goal)[1] ** 2

    def _leading(
        self, face: Face, row: np.ndarray, level: float, share: float, move: np.ndarray
    ) -> int | None:
        """The column at 0 that leads nearest to the goal from a place that far along a move."""
        if not len(face.outside):
            return None
        own = row[face.outside]
        slopes = face.slopes + share * (own - face.products @ move)
        best = int(slopes.argmax())
        if slopes[best] <= 0.0:
            return None
        new = int(face.outside[best])
        least = (self._length + level * level) * (self._squares[new] + own[best] * own[best])
        rounding = 10.0 * (1 + max(self.rows.shape)) * ROUNDING * math.sqrt(least)
        return new if slopes[best] > rounding else None

    def _face(self, chosen: tuple[int, ...]) -> Face | None:
        """The least squares of the chosen columns; None where they nearly depend on one another."""
        if chosen not in self._faces:
            inside = np.array(chosen, np.intp)
            outside = np.array([j for j in self._all if j not in chosen], np.intp)
            columns, others = self.rows[:, inside], self.rows[:, outside]
            turn, triangle = np.linalg.qr(columns)
            sizes = np.abs(np.diagonal(triangle))
            self._faces[chosen] = None
            if len(sizes) == len(chosen) and not (sizes <= STEADY * sizes.max(initial=0.0)).any():
                inverse = np.linalg.inv(triangle)
                place = inverse @ (self.goal @ turn)
                rest = self.goal - columns @ place
                self._faces[chosen] = Face(
                    inside=inside,
                    outside=outside,
                    inverse=inverse @ inverse.T,
                    place=place,
                    missed=float(rest @ rest),
                    slopes=rest @ others,
                    products=others.T @ columns,
                )
        return self._faces[chosen]


class Face(NamedTuple):
    """The least squares of p of n columns towards a goal, the others at 0."""

    inside: np.ndarray  # [p] numbers of the columns
    outside: np.ndarray  # [n - p] those of the others
    inverse: np.ndarray  # [p, p] of the products of the columns
    place: np.ndarray  # [p] their weights
    missed: float  # squared length of what they leave of the goal
    slopes: np.ndarray  # [n - p] products of that with the other columns
    products: np.ndarray  # [n - p, p] of the others with the columns


def square_roots(matrix: np.ndarray, blind: float = BLIND) -> tuple[np.ndarray, np.ndarray]:
    """[r, n] R with R' R = matrix, and [r, n] the transpose of its inverse, where it has one."""
    units = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    units = np.where(units > 0, units, 1.0)
    values, vectors = np.linalg.eigh(matrix / np.outer(units, units))
    seen = values > blind * max(float(values.max(initial=0.0)), 0.0)
    root = np.sqrt(values[seen])
    return (vectors[:, seen] * root).T * units, (vectors[:, seen] / root).T / units


def weighted_products(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """[n, n] rows [n, N] times weights [N] times the rows transposed, a block at a time."""
    total = np.zeros((len(rows), len(rows)))
    for first in range(0, max(len(weights), 1), AT_ONCE):  # blocks that stay in a core's cache
        block = rows[:, first : first + AT_ONCE]
        total += (block * weights[first : first + AT_ONCE]) @ block.T
    return total


def covariance_root(matrix: np.ndarray) -> np.ndarray:
    """[n, n] R with R R' = matrix, for draws of this covariance: symmetric but for units.

    Eigenvectors have signs that hang on the last bit; this has none, and draws follow it.
    """
    units = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    units = np.where(units > 0, units, 1.0)
    values, vectors = np.linalg.eigh(matrix / np.outer(units, units))
    return units[:, None] * (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def at_least(fisher: np.ndarray, scatter: np.ndarray) -> np.ndarray:
    """[D, D] the scatter of units, made no less than the information in any direction.

    Units can only scatter more than their steps do. That they seem to scatter less is chance, which
    few units, or few that tell anything, have much of: intervals would be too narrow by it.
    """
    half, inverse = square_roots(fisher)
    values, vectors = np.linalg.eigh(inverse @ scatter @ inverse.T)
    root = half.T @ vectors * np.sqrt(np.maximum(values, 1.0))
    return root @ root.T


def root_between(
    function: Callable[[float], float], low: float, high: float, tolerance: float
) -> float:
    """Where a function that changes its sign between two numbers is 0, by Brent's method.

    Where only rounding keeps both values on one side of 0, the end that is nearer to it.
    """
    from scipy.optimize import brentq

    value = cache(function)
    if value(low) * value(high) > 0.0:
        return low if abs(value(low)) < abs(value(high)) else high
    root = brentq(value, low, high, xtol=tolerance, disp=False)
    return float(np.asarray(root))


def first_largest(values: npt.ArrayLike) -> int:
    """The place of the first of the largest values [...], flat: rounding chooses among no equals.

    NaN is never it, unless all are.
    """
    known = coarse(np.ravel(values))
    return int(np.argmax(np.where(np.isnan(known), -np.inf, known)))


def largest_first(values: npt.ArrayLike) -> np.ndarray:
    """[n] places of the values [...], flat, from the largest on; equal ones keep their order."""
    return np.argsort(-coarse(np.ravel(values)), kind="stable")


def coarse(values: npt.ArrayLike) -> np.ndarray:
    """[...] the values to a millionth of themselves: what is equal but for rounding is equal."""
    parts, powers = np.frexp(np.asarray(values, float))
    return np.ldexp(np.round(parts * 2.0**COARSE), powers - COARSE)
