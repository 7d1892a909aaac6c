"""What is known about a constraint, as a set, and what is believed about coefficients, as a law.

A policy that spends f [D] of the features of a constraint keeps a row (w, b) [D + 1] where
w . f <= b. One that keeps several rows keeps all their mixtures: a set of rows is kept where the
corners of a polytope around it are, or where the row that f breaks most is none that it breaks.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from tacit.inverse.findings import Finding, Kind
from tacit.inverse.optimal.questions import Questions

if TYPE_CHECKING:
    from tacit.search.sampler import Chains

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
        questions: answer questions about the set of weights itself; None where there is no other
            than the corners.
        block: number of the constraint in these.
    """

    point: np.ndarray
    vertices: np.ndarray
    means: np.ndarray
    margins: np.ndarray
    units: np.ndarray
    questions: Questions | None
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
        vertices = self.vertices if self.questions is None else self._explanations(spent - least)
        at = np.argmax(vertices @ (spent - least))
        row = np.append(vertices[at], vertices[at] @ least)
        if np.isfinite(self.point).all():
            return self.point + share * (row - self.point)
        more = (1.0 / share - 1.0) * float(vertices[at] @ self.units) if share > 0 else np.inf
        return np.append(row[:-1], row[-1] + more)

    def _explanations(self, direction: np.ndarray) -> np.ndarray:
        """[C, D_k] weights of the explanations met, the one furthest along `direction` included."""
        assert self.questions is not None
        columns = self.questions.columns
        asked = [np.zeros(size) for size in columns.sizes]
        asked[self.block] = direction
        self.questions.most(columns.asks(tuple(asked)), columns.norm(self.block))
        found = [columns.weights(amounts)[self.block] for amounts in self.questions.corners]
        kept = [weights / weights.sum() for weights in found if weights.sum() > 1e-7]
        silent = np.eye(len(direction))[columns.inert[self.block]]
        return np.concatenate([np.reshape(kept, (-1, len(direction))), silent])


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


# Draws of a posterior, and those before that forget where it began.
POSTERIOR_DRAWS, FORGOTTEN = 4000, 200
# Chains agree where their potential scale reduction is below this, and say enough about the ends of
# intervals where they are worth so many independent draws.
AGREED, ENOUGH = 1.01, 400.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Posterior:
    """What is believed about the coefficients after the demonstrations.

    Attributes:
        names: [P] of the coefficients, as in `recovery.parameters`.
        means: [P].
        deviations: [P] posterior standard deviations.
        intervals: [P, 2] between the tails of equal size.
        draws: [N, P] from the posterior; by Laplace's approximation independent or nearly so, by
            NUTS of all chains, one after the other.
        prior: [P, 2] mean and standard deviation believed before; NaN and infinite without any.
        confidence: of the intervals.
        sampler: "laplace" or "nuts".
        r_hat: [P] potential scale reduction, 1 where all halves of all chains agree; NaN without
            chains, as the next.
        effective: [P] independent draws that those of the chains are worth.
        divergences: steps at which the sampler lost its way; 0 without one.
        reliable: whether the three are as they should be.
        findings: what it rests on.
    """

    names: tuple[str, ...]
    means: np.ndarray
    deviations: np.ndarray
    intervals: np.ndarray
    draws: np.ndarray
    prior: np.ndarray
    confidence: float
    sampler: str
    r_hat: np.ndarray
    effective: np.ndarray
    divergences: int
    reliable: bool
    findings: tuple[Finding, ...] = ()

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """What to know about it, what is wrong first."""
        return self.findings

    @property
    def columns(self) -> dict[str, list[str] | np.ndarray]:
        """The same as a table, a row for each coefficient."""
        found: dict[str, list[str] | np.ndarray] = {
            "coefficient": [*self.names],
            "mean": self.means,
            "deviation": self.deviations,
            "from": self.intervals[:, 0],
            "to": self.intervals[:, 1],
            "believed before": self.prior[:, 0],
            "give or take": self.prior[:, 1],
        }
        if self.sampler == "nuts":
            found |= {"R-hat": self.r_hat, "effective draws": self.effective}
        return found

    @property
    def text(self) -> str:
        """A line for each coefficient."""
        rows = zip(self.names, self.means, self.deviations, self.intervals, strict=True)
        wide = max(len(name) for name in self.names)
        head = f"believed of the coefficients, {self.confidence:.0%} of it between the ends:"
        return "\n".join(
            [head]
            + [f"  {n:<{wide}}  {m:.4g} ± {d:.2g}  [{e[0]:.4g}, {e[1]:.4g}]" for n, m, d, e in rows]
        )

    def __str__(self) -> str:
        return self.text


def chain_findings(chains: Chains, names: tuple[str, ...]) -> tuple[Finding, ...]:
    """What is wrong with the draws."""
    found, rate = [], float(chains.divergences) / chains.draws[..., 0].size
    worst, least = int(np.argmax(chains.r_hat)), int(np.argmin(chains.effective))
    if not chains.r_hat[worst] < AGREED:
        said = f"The chains do not agree about {names[worst]}: R-hat {chains.r_hat[worst]:.3f}, "
        said += f"where {AGREED:g} would do. Do not trust the draws."
        found.append(Finding(said, Kind.NOT_CONVERGED, number=float(chains.r_hat[worst])))
    if not chains.effective[least] >= ENOUGH:
        said = f"The draws of {names[least]} are worth {chains.effective[least]:.0f} independent "
        said += f"ones, fewer than the {ENOUGH:.0f} that intervals need."
        found.append(Finding(said, Kind.NOT_CONVERGED, number=float(chains.effective[least])))
    if chains.divergences:
        said = f"{rate:.2%} of the sampler's steps diverged: a part of the law may be missing."
        found.append(Finding(said, Kind.NOT_CONVERGED, number=float(chains.divergences)))
    return tuple(found)


def truncated(
    rng: np.random.Generator, mean: np.ndarray, precision: np.ndarray, lower: np.ndarray
) -> np.ndarray:
    """[N, P] draws of a normal law cut at its lower bounds [P], coordinate by coordinate."""
    from scipy.special import ndtr, ndtri

    x = np.maximum(mean, np.where(np.isfinite(lower), lower, mean))
    spread = 1.0 / np.sqrt(np.diagonal(precision))
    draws = np.empty((POSTERIOR_DRAWS, len(mean)))
    for i in range(-FORGOTTEN, POSTERIOR_DRAWS):
        for j in range(len(mean)):
            rest = precision[j] @ (x - mean) - precision[j, j] * (x[j] - mean[j])
            middle = mean[j] - rest / precision[j, j]
            # The upper tail, which keeps its digits far from the middle.
            most = ndtr((middle - lower[j]) / spread[j]) if np.isfinite(lower[j]) else 1.0
            x[j] = middle - spread[j] * ndtri(max(rng.uniform() * most, 1e-300))
            x[j] = max(x[j], lower[j])
        draws[max(i, 0)] = x
    return draws
