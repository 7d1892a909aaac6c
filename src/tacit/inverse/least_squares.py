"""Least squares with signs, in NumPy where columns are few, and square roots of matrices."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tacit.engine.smooth_dual import BLIND
from tacit.inverse.laws import ROUNDING

MANY_COLUMNS = 16  # beyond, compiled least squares are worth their import
STEADY = 1e-6  # smallest to largest of a triangle, from which one equation more may be added to it


def least_squares(rows: np.ndarray, goal: np.ndarray) -> tuple[np.ndarray, float]:
    """[n] the z >= 0 of the smallest |rows z - goal|, for rows [m, n], and that."""
    places, missed = SignedSums(rows).nearest_each(goal[None])
    return places[0], float(missed[0])


class SignedSums:
    """The sums of the columns of a matrix with weights of at least 0.

    Attributes:
        rows: [m, n].
    """

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows
        self._factors: dict[bytes, tuple[np.ndarray, np.ndarray] | None] = {}

    def nearest_each(self, goals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[N, n] the same for goals [N, m], and [N].

        Lawson and Hanson's active set, begun where the solution without signs is positive: goals
        that begin with the same set are solved together, and for most of them that is the end.
        """
        size = self.rows.shape[1]
        if size > MANY_COLUMNS:
            from scipy.optimize import nnls

            found = [nnls(self.rows, goal, maxiter=100 * size) for goal in goals]
            return np.array([z for z, _ in found]), np.array([missed for _, missed in found])
        free = self._solved(goals, np.ones(size, bool))
        passive = free > 0
        places, open_ = np.zeros(passive.shape), np.ones(len(goals), bool)
        if len(goals) == 1 and passive.all():  # the usual case inside: nothing to look for
            places, open_ = free, ~open_
        while open_.any():  # a start: what is positive stays, until all of it is
            sets = passive[open_]
            for chosen in sets if len(sets) == 1 else np.unique(sets, axis=0):
                same = open_ & (passive == chosen).all(axis=1)
                places[same] = self._solved(goals[same], chosen)
            open_ = (passive & (places <= 0)).any(axis=1)
            passive &= places > 0
        scale = 10.0 * max(self.rows.shape) * ROUNDING * np.linalg.norm(goals, axis=1)
        least = scale[:, None] * np.linalg.norm(self.rows, axis=0)
        rest = goals - places @ self.rows.T
        for i in np.flatnonzero((~passive & (rest @ self.rows > least)).any(axis=1)):
            places[i] = self._widened(goals[i], places[i], least[i])
        return places, np.linalg.norm(goals - places @ self.rows.T, axis=1)

    def _widened(self, goal: np.ndarray, place: np.ndarray, least: np.ndarray) -> np.ndarray:
        """[n] the weights of the goal, from those of a set that is too small."""
        passive = place > 0
        for _ in range(100 * len(place)):
            slope = np.where(passive, -np.inf, (goal - self.rows @ place) @ self.rows - least)
            aim, new = place, -1
            while new < 0:
                new = int(slope.argmax())
                if not slope[new] > 0.0:
                    return place
                passive[new] = True
                aim = self._solved(goal[None], passive)[0]
                if aim[new] <= 0.0:  # its slope was rounding
                    passive[new], slope[new], new = False, -np.inf, -1
            while (aim[passive] <= 0.0).any():
                falling = np.flatnonzero(passive & (aim <= 0.0))
                shares = place[falling] / (place[falling] - aim[falling])
                place = place + shares.min() * (aim - place)
                passive[falling[shares.argmin()]] = False
                passive &= place > 0.0
                place = np.where(passive, place, 0.0)
                aim = self._solved(goal[None], passive)[0]
            place = aim
        return place

    def _solved(self, goals: np.ndarray, passive: np.ndarray) -> np.ndarray:
        """[N, n] the least squares of the chosen columns for goals [N, m], 0 elsewhere."""
        places, key = np.zeros((len(goals), len(passive))), passive.tobytes()
        if not passive.any():
            return places
        if key not in self._factors:
            turn, triangle = np.linalg.qr(self.rows[:, passive])
            sizes = np.abs(np.diagonal(triangle))
            whole = len(sizes) == passive.sum() and sizes.min() > 1e-12 * sizes.max()
            self._factors[key] = (turn, triangle) if whole else None
        factors = self._factors[key]
        if factors is None:  # columns that others can stand in for
            found = np.linalg.lstsq(self.rows[:, passive], goals.T, rcond=None)[0]
        else:
            found = np.linalg.solve(factors[1], factors[0].T @ goals.T)
        places[:, passive] = found.T
        return places


class Approach:
    """How near the cone of a matrix comes to one goal where one more equation has to hold.

    Attributes:
        rows: [m, n] the matrix.
        goal: [m].
    """

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
    """The least squares of p of n columns towards a goal, the others at 0.

    Attributes:
        inside: [p] numbers of the columns.
        outside: [n - p] those of the others.
        inverse: [p, p] of the products of the columns.
        place: [p] their weights.
        missed: squared length of what they leave of the goal.
        slopes: [n - p] products of that with the other columns.
        products: [n - p, p] of the others with the columns.
    """

    inside: np.ndarray
    outside: np.ndarray
    inverse: np.ndarray
    place: np.ndarray
    missed: float
    slopes: np.ndarray
    products: np.ndarray


def square_roots(matrix: np.ndarray, blind: float = BLIND) -> tuple[np.ndarray, np.ndarray]:
    """[r, n] R with R' R = matrix, and [r, n] the transpose of its inverse, where it has one."""
    units = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    units = np.where(units > 0, units, 1.0)
    values, vectors = np.linalg.eigh(matrix / np.outer(units, units))
    seen = values > blind * max(float(values.max(initial=0.0)), 0.0)
    root = np.sqrt(values[seen])
    return (vectors[:, seen] * root).T * units, (vectors[:, seen] / root).T / units


def at_least(fisher: np.ndarray, scatter: np.ndarray) -> np.ndarray:
    """[D, D] the scatter of units, made no less than the information in any direction.

    Units can only scatter more than their steps do. That they seem to scatter less is chance, which
    few units, or few that tell anything, have much of: intervals would be too narrow by it.
    """
    half, inverse = square_roots(fisher)
    values, vectors = np.linalg.eigh(inverse @ scatter @ inverse.T)
    root = half.T @ vectors * np.sqrt(np.maximum(values, 1.0))
    return root @ root.T
