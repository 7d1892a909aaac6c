"""Few independent units: their scores at a fit scatter less than they do, and nobody knows by much.

The fit follows every unit, the more the larger its share B_i of the information is: its score is
s_i less B_i times the sum of all. Scores divided by (1 - B_i)^(1/2) scatter as they should (Bell
and McCaffrey 2002), and a variance made of so few has the degrees of freedom of Satterthwaite.
These depend on how scores scatter: by B_i, as their steps do, or by B_i^2, as units differ. The
fewer degrees are taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tacit.inference.tails import TWO_SIDED
from tacit.search.algebra import square_roots

# Units from which no correction is worth its while.
MANY = 60
# Largest share of the information that a unit is taken to have.
LARGEST = 0.98


@dataclass(frozen=True, eq=False)
class FewUnits:
    """Shares of few units in what is known.

    Attributes:
        shares: [U, r, r] of each unit in the information, which is 1 in these coordinates.
        half: [r, m] R with R'R the information of the m free parameters.
        inverse: [r, m] the transpose of its inverse.
        free: [n] bool, these among all parameters.
    """

    shares: np.ndarray
    half: np.ndarray
    inverse: np.ndarray
    free: np.ndarray

    @classmethod
    def of(cls, information: np.ndarray, free: np.ndarray) -> FewUnits:
        """Of units with these informations [U, n, n]."""
        own = information[:, free][:, :, free]
        half, inverse = square_roots(own.sum(axis=0))
        return cls(inverse @ own @ inverse.T, half, inverse, free)

    @cached_property
    def leverage(self) -> np.ndarray:
        """[U, r, r] (1 - share)^(-1/2) of each unit."""
        values, vectors = np.linalg.eigh(self.shares)
        factors = 1.0 / np.sqrt(1.0 - np.clip(values, 0.0, LARGEST))
        return (vectors * factors[:, None, :]) @ vectors.transpose(0, 2, 1)

    def adjusted(self, scores: np.ndarray) -> np.ndarray:
        """[U, n] the scores [U, n] as they would be if the fit had not followed them."""
        found = scores.copy()
        turned = self.leverage @ (scores[:, self.free] @ self.inverse.T)[..., None]
        found[:, self.free] = turned[..., 0] @ self.half
        return found

    def degrees(self, rows: np.ndarray) -> np.ndarray:
        """[q] of freedom of the variances of forms [q, n]; infinite where nothing moves one."""
        found = np.full(len(rows), np.inf)
        whole = (self.shares @ self.shares).sum(axis=0)
        for k, row in enumerate(rows[:, self.free]):
            direction = self.inverse @ row
            if not direction.any():
                continue
            lean = self.leverage @ direction
            once = (self.shares @ lean[..., None])[..., 0]
            twice = (self.shares @ once[..., None])[..., 0]
            as_steps = np.diag((lean * once).sum(axis=1)) - once @ once.T
            across = twice @ once.T
            as_units = np.diag((lean * twice).sum(axis=1)) - across - across.T
            as_units += once @ whole @ once.T
            each = [float(np.trace(one) ** 2 / (one**2).sum()) for one in (as_steps, as_units)]
            found[k] = max(min(each), 1.0)
        return found

    def widened(self, scatter: np.ndarray) -> np.ndarray:
        """[n, n] the scatter of scores by which normal 95 % intervals are those of Student's law.

        Every parameter's variance grows by its own squared ratio of quantiles.
        """
        from scipy.stats import t

        count = len(self.free)
        degrees = self.degrees(np.eye(count)[self.free])
        growth = np.where(np.isfinite(degrees), t.ppf(0.975, degrees) / TWO_SIDED, 1.0)
        bread = self.half.T @ self.half
        inverse = self.inverse.T @ self.inverse
        turn = bread @ (growth[:, None] * inverse)
        found, own = scatter.copy(), np.ix_(self.free, self.free)
        found[own] = turn @ scatter[own] @ turn.T
        return found
