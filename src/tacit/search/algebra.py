"""Least squares within signs, roots of matrices and of functions, and the order of equals.

SciPy is imported where it is used: `import tacit` does without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacit.search.operators import BLIND

CLOSE = 1e-7  # relative distance from a crossing, or width of what holds it, that ends its search
# Exchanges of columns that one equation more is given before least squares are begun afresh, and
# faces of a cone that are kept.
EXCHANGES, FACES = 8, 64
# Ratio of the variance of a column's weight to that of the column alone beyond which columns depend
# on each other too much to be told apart by their products.
DEPENDENT = 1e5
ROUNDING = float(np.finfo(float).eps)
AT_ONCE = 2**15  # columns of a product at a time
COARSE = 20  # bits of numbers that are put in order: beyond, they are equal


def crossing(
    function: Callable[[float], float], guess: float = math.inf, close: float = CLOSE
) -> float:
    """Where a function that is below 0 at 0 and above it at 1 crosses 0, by secants from a guess.

    Each third step halves what two have not. Where the function jumps over 0, the place before.
    """
    low, high = (0.0, function(0.0)), (1.0, function(1.0))
    last, secant, width, steps = low, guess, 1.0, 0
    while (left := high[0] - low[0]) > close:
        chord, middle = low[0] - low[1] * left / (high[1] - low[1]), low[0] + 0.5 * left
        slow = steps % 3 == 2 and left > 0.5 * width
        width, steps = left if steps % 3 == 2 else width, steps + 1
        tried = (middle,) if slow else (secant, chord, middle)
        at = next(place for place in tried if low[0] < place < high[0])
        value = function(at)
        if abs(value) <= close:
            return at
        low, high = ((at, value), high) if value < 0.0 else (low, (at, value))
        change = value - last[1]
        secant = at - value * (at - last[0]) / change if change else math.inf
        last = at, value
    return low[0]


def least_squares(rows: np.ndarray, goal: np.ndarray) -> tuple[np.ndarray, float]:
    """[n] the z >= 0 of the smallest |rows z - goal|, for rows [m, n], and that."""
    from scipy.optimize import nnls

    if not rows.shape[1]:  # SciPy ends the process
        return np.zeros(0), float(np.linalg.norm(goal))
    place, missed = nnls(rows, goal, maxiter=100 * rows.shape[1])
    return place, float(missed)


class Approach:
    """How near the cone of `rows` [m, n] comes to `goal` [m] where one more equation must hold.

    Equations are asked one after the other that differ by little: the columns that the last one
    needed are tried first, and `least_squares` decides where they are not nearly those.
    """

    def __init__(self, rows: np.ndarray, goal: np.ndarray) -> None:
        self.rows, self.goal = rows, goal
        self._products, self._aims = rows.T @ rows, goal @ rows
        self._length = float(goal @ goal)
        self._faces: dict[bytes, Face | None] = {}
        self._last = least_squares(rows, goal)[0] > 0.0

    def nearest(self, row: np.ndarray, level: float) -> tuple[np.ndarray, float]:
        """[n] the z >= 0 of the smallest |rows z - goal|^2 + (row . z - level)^2, and that.

        The equation moves the least squares of some columns along one direction.
        """
        chosen = self._last
        for _ in range(EXCHANGES):
            if (face := self._face(chosen)) is None:
                break
            own, others = row[face.inside], row[face.outside]
            move = face.inverse @ own
            loose = 1.0 + float(own @ move)
            short = level - float(own @ face.place)
            share = short / loose
            place = face.place + share * move
            slopes = face.slopes + share * (others - face.products @ move)
            leading = slopes > self._rounding(face.outside, others, level)
            if place.min(initial=math.inf) > 0.0 and not leading.any():
                self._last, found = chosen, np.zeros(len(row))
                found[face.inside] = place
                return found, face.missed + short * share
            chosen = chosen.copy()
            chosen[face.inside] = place > 0.0
            chosen[face.outside] = leading
        rows, goal = np.concatenate([self.rows, row[None]]), np.append(self.goal, level)
        found, missed = least_squares(rows, goal)
        self._last = found > 0.0
        return found, missed**2

    def _rounding(self, outside: np.ndarray, others: np.ndarray, level: float) -> np.ndarray:
        """[n - p] the slopes of columns that may be rounding alone."""
        sizes = np.diagonal(self._products)[outside] + others**2
        least = (self._length + level * level) * sizes
        return 10.0 * (1 + max(self.rows.shape)) * ROUNDING * np.sqrt(least)

    def _face(self, chosen: np.ndarray) -> Face | None:
        """The least squares of the chosen [n] bool; None where they nearly depend on each other."""
        key = chosen.tobytes()
        if key not in self._faces:
            while len(self._faces) >= FACES:
                del self._faces[next(iter(self._faces))]
            inside, outside = np.flatnonzero(chosen), np.flatnonzero(~chosen)
            products = self._products[np.ix_(inside, inside)]
            sizes = np.diagonal(products)
            self._faces[key] = None
            try:
                inverse = np.linalg.inv(products)
            except np.linalg.LinAlgError:
                return None
            # How much less is known of a column than were it alone.
            if (np.abs(np.diagonal(inverse)) * sizes <= DEPENDENT).all():
                place, across = inverse @ self._aims[inside], self._products[outside][:, inside]
                self._faces[key] = Face(
                    inside=inside,
                    outside=outside,
                    inverse=inverse,
                    place=place,
                    missed=max(self._length - float(place @ self._aims[inside]), 0.0),
                    slopes=self._aims[outside] - across @ place,
                    products=across,
                )
        return self._faces[key]


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


def covariance_root(matrix: np.ndarray, sizes: np.ndarray | None = None) -> np.ndarray:
    """[n, n] R with R R' = matrix, for draws of this covariance.

    Eigenvectors have signs that hang on the last bit; this is symmetric but for units, and has
    none: draws follow it. With `sizes` [n] its columns are in the order of these, so that draws do
    not depend on how the entries are numbered either.
    """
    units = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    units = np.where(units > 0, units, 1.0)
    values, vectors = np.linalg.eigh(matrix / np.outer(units, units))
    root = units[:, None] * (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root if sizes is None else root[:, largest_first(sizes)]


def at_least(
    fisher: np.ndarray, scatter: np.ndarray, moving: np.ndarray | None = None
) -> np.ndarray:
    """[D, D] the scatter of units, made no less than the information in any direction.

    Units can only scatter more than their steps do. That they seem to scatter less is chance, which
    few units, or few that tell anything, have much of: intervals would be too narrow by it. Of
    parameters that are known only those `moving` [D] bool are asked, as if there were no others.
    """
    if moving is not None and not moving.all():
        found, own = scatter.copy(), np.ix_(moving, moving)
        found[own] = at_least(fisher[own], scatter[own])
        return found
    half, inverse = square_roots(fisher)
    values, vectors = np.linalg.eigh(inverse @ scatter @ inverse.T)
    root = half.T @ vectors * np.sqrt(np.maximum(values, 1.0))
    return root @ root.T


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
