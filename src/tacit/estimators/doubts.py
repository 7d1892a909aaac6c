"""What is known about a constraint, as a set.

A policy that spends f [D] of the features of a constraint keeps a row (w, b) [D + 1] where
w . f <= b. One that keeps several rows keeps all their mixtures: a set of rows is kept where the
corners of a polytope around it are, or where the row that f breaks most is none that it breaks.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from tacit.estimators.explanation.answers import Answers

# Most features of a constraint for which all corners of a box are listed; beyond, its lower ends
# alone make a simplex, with one corner a feature.
FEW = 5


@dataclass(frozen=True, eq=False)
class Ellipsoid:
    """Rows in units of the noise, any multiple of which is the same constraint.

    Attributes:
        point: [n] the estimate.
        axes: [n, q] rows are point + axes z.
        radius: |z| is at most this, for some multiple of the true row.
    """

    point: np.ndarray
    axes: np.ndarray
    radius: float

    def centre(self) -> np.ndarray:
        """[1, n] the estimate."""
        return self.point[None]

    def corners(self) -> np.ndarray:
        """[C, n] rows whose mixtures hold the set, after scaling the multiples away."""
        place, *_ = np.linalg.lstsq(self.axes, self.point, rcond=None)
        basis, radius = np.eye(len(place)), self.radius
        height = float(np.linalg.norm(place))
        if np.allclose(self.axes @ place, self.point, rtol=1e-6, atol=0.0):
            # A ball seen from 0: its shadow on the plane through its centre.
            basis = np.linalg.svd(place[None])[2][1:]
            radius *= height / np.sqrt(height**2 - radius**2)
        sides, stretch = spread_directions(len(basis))
        return self.point + radius * stretch * (sides @ basis) @ self.axes.T

    def worst(self, spent: np.ndarray, share: float) -> np.ndarray:
        """[n] the row of a share of the set that `spent` breaks most."""
        pull = self.axes.T @ np.append(spent, -1.0)
        size = float(np.linalg.norm(pull))
        return self.point + share * self.radius * (self.axes @ pull / size if size > 0 else 0.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Polytope:
    """Weights are mixtures of corners, and what the demonstrator spends is within its errors.

    Attributes:
        point: [D_k + 1] the estimated weights and budget; NaN where none are known.
        vertices: [C, D_k] weights whose mixtures hold the true ones.
        means: [D_k] what the demonstrator spends of each feature.
        margins: [D_k] how much less that may truly be.
        units: [D_k] the most of each feature that one step has.
        answers: answer questions about the set of weights itself; None where there is no other
            than the corners.
        block: number of the constraint in these.
    """

    point: np.ndarray
    vertices: np.ndarray
    means: np.ndarray
    margins: np.ndarray
    units: np.ndarray
    answers: Answers | None
    block: int

    def centre(self) -> np.ndarray:
        """[C, D_k + 1] the estimate, or rows without a budget where there is none."""
        if np.isfinite(self.point).all():
            return self.point[None]
        return np.column_stack([self.vertices, np.full(len(self.vertices), np.inf)])

    def corners(self) -> np.ndarray:
        """[C, D_k + 1] a row for each corner."""
        return np.column_stack([self.vertices, self.vertices @ (self.means - self.margins)])

    def worst(self, spent: np.ndarray, share: float) -> np.ndarray:
        """[D_k + 1] the row of a share of the set that `spent` breaks most.

        Half of a doubt without an estimate allows one step more than all of it, a third two.
        """
        least = self.means - self.margins
        vertices = self.vertices if self.answers is None else self._explanations(spent - least)
        at = np.argmax(vertices @ (spent - least))
        row = np.append(vertices[at], vertices[at] @ least)
        if np.isfinite(self.point).all():
            return self.point + share * (row - self.point)
        more = (1.0 / share - 1.0) * float(vertices[at] @ self.units) if share > 0 else np.inf
        return np.append(row[:-1], row[-1] + more)

    def _explanations(self, direction: np.ndarray) -> np.ndarray:
        """[C, D_k] weights of the explanations met, the one furthest along `direction` included."""
        assert self.answers is not None
        columns = self.answers.columns
        directions = [np.zeros(size) for size in columns.sizes]
        directions[self.block] = direction
        self.answers.most(columns.asks(tuple(directions)), columns.norm(self.block))
        weights_met = [columns.weights(amounts)[self.block] for amounts in self.answers.corners]
        normalised = [weights / weights.sum() for weights in weights_met if weights.sum() > 1e-7]
        silent = np.eye(len(direction))[columns.inert[self.block]]
        return np.concatenate([np.reshape(normalised, (-1, len(direction))), silent])


Doubt = Ellipsoid | Polytope


def box_corners(ends: np.ndarray) -> np.ndarray:
    """[C, D] corners of a polytope that holds every w of sum 1 within ends [D, 2].

    All corners of that set where it has few features; of many, those of the simplex that its lower
    ends make.
    """
    size, (low, high) = len(ends), ends.T
    if size > FEW:
        return low + (1.0 - low.sum()) * np.eye(size)
    found = []
    for rest in range(size):  # all but one entry at an end, the last makes the sum
        others = [j for j in range(size) if j != rest]
        for side in product((False, True), repeat=size - 1):
            corner = np.zeros(size)
            corner[others] = np.where(side, high[others], low[others])
            corner[rest] = 1.0 - corner.sum()
            if low[rest] - 1e-12 <= corner[rest] <= high[rest] + 1e-12:
                found.append(corner.round(15))
    return np.unique(np.array(found), axis=0)


def spread_directions(size: int) -> tuple[np.ndarray, float]:
    """[C, n] unit vectors, and by what to stretch them so that their mixtures hold the unit ball.

    Up to six numbers the corners of a cube and of a cross; beyond, of a cross alone.
    """
    if size == 0:
        return np.zeros((1, 0)), 1.0
    cross = np.concatenate([np.eye(size), -np.eye(size)])
    if size == 1:
        return cross, 1.0
    if size == 2:
        turn = np.arange(8) * np.pi / 4
        return np.stack([np.cos(turn), np.sin(turn)], axis=1), 1.0 / np.cos(np.pi / 8)
    if size > 6:
        return cross, float(np.sqrt(size))
    from scipy.spatial import ConvexHull

    cube = np.array(list(product((-1.0, 1.0), repeat=size))) / np.sqrt(size)
    sides = np.concatenate([cross, cube])
    return sides, float(-1.0 / ConvexHull(sides).equations[:, -1].max())
