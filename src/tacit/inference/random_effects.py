"""Coefficients that vary between individuals: restricted likelihood of normal approximations.

Individual i has coefficients theta_i = theta + Z b_i with b_i normal of standard deviations s, and
what was seen of it is a log-likelihood that is quadratic around theta_i: information H_i and pull
h_i = H_i y_i, where y_i is its maximum. Its marginal precision is

    W_i = (H_i^-1 + Z S^2 Z')^-1 = H_i - H_i Z S (I + S Z' H_i Z S)^-1 S Z' H_i,

which needs no inverse of H_i and no s above 0. Where the likelihood is not quadratic this is one
step of Laplace's approximation, repeated at the modes until they rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.stats import chi2, t

# Relative step of derivatives in standard deviations, and of the search that ends.
STEP, TOLERANCE = 1e-3, 1e-10
# Largest standard deviation looked at, as a multiple of how far apart individuals are.
WIDEST = 30.0


@dataclass(frozen=True, eq=False, kw_only=True)
class NormalEffects:
    """Individuals whose log-likelihoods are quadratic, and how they differ.

    Attributes:
        information: [G, D, D] of each individual.
        pull: [G, D] information times where the likelihood of each is largest.
        varying: [q] numbers of the coefficients that differ.
        spread: [q] standard deviations between individuals.
    """

    information: np.ndarray
    pull: np.ndarray
    varying: np.ndarray
    spread: np.ndarray

    def __len__(self) -> int:
        return len(self.information)

    def at(self, spread: np.ndarray) -> NormalEffects:
        """The same with other standard deviations."""
        return replace(self, spread=np.asarray(spread, dtype=float))

    @cached_property
    def effect_covariance(self) -> np.ndarray:
        """[G, q, q] of the effects, the means taken as known: S (I + S Z' H Z S)^-1 S."""
        own = self.information[:, self.varying][:, :, self.varying]
        inner = np.eye(len(self.spread)) + self.spread[:, None] * own * self.spread
        return self.spread[:, None] * np.linalg.inv(inner) * self.spread

    @cached_property
    def precision(self) -> np.ndarray:
        """[G, D, D] marginal precision of each individual."""
        rows = self.information[:, self.varying]
        return self.information - rows.transpose(0, 2, 1) @ self.effect_covariance @ rows

    @cached_property
    def covariance(self) -> np.ndarray:
        """[D, D] of the means of the population."""
        return np.linalg.inv(self.precision.sum(axis=0))

    @cached_property
    def means(self) -> np.ndarray:
        """[D] of the population."""
        return self.covariance @ self._marginal_pull.sum(axis=0)

    @cached_property
    def _marginal_pull(self) -> np.ndarray:
        """[G, D] marginal precision times where each likelihood is largest."""
        rows = self.information[:, self.varying]
        own = self.effect_covariance @ self.pull[:, self.varying, None]
        return self.pull - (rows.transpose(0, 2, 1) @ own)[..., 0]

    @cached_property
    def loss(self) -> float:
        """Minus the restricted log-likelihood, up to what no standard deviation changes."""
        own = self.information[:, self.varying][:, :, self.varying]
        inner = np.eye(len(self.spread)) + self.spread[:, None] * own * self.spread
        pull = self.pull[:, self.varying]
        gained = np.einsum("gi,gij,gj->", pull, self.effect_covariance, pull)
        whole = self._marginal_pull.sum(axis=0)
        logarithms = np.linalg.slogdet(inner)[1].sum()
        logarithms += np.linalg.slogdet(self.precision.sum(axis=0))[1]
        return 0.5 * float(logarithms - gained - whole @ self.covariance @ whole)

    @property
    def effects(self) -> np.ndarray:
        """[G, q] expected departures of the individuals from the means, shrunken towards 0."""
        rest = self.pull - self.information @ self.means
        return (self.effect_covariance @ rest[:, self.varying, None])[..., 0]

    @property
    def individuals(self) -> np.ndarray:
        """[G, D] expected coefficients of each individual."""
        found = np.repeat(self.means[None], len(self), axis=0)
        found[:, self.varying] += self.effects
        return found

    @property
    def individual_covariance(self) -> np.ndarray:
        """[G, D, D] of these, the means being uncertain, too."""
        size = self.pull.shape[1]
        kept = np.zeros((len(self), size, size))
        kept[:, self.varying] = self.effect_covariance @ self.information[:, self.varying]
        left = np.eye(size) - kept
        found = left @ self.covariance @ left.transpose(0, 2, 1)
        places = np.ix_(np.arange(len(self)), self.varying, self.varying)
        found[places] += self.effect_covariance
        return found

    @cached_property
    def scale(self) -> np.ndarray:
        """[q] how far apart individuals seem to be, or could be without anybody noticing."""
        own = np.diagonal(self.information, axis1=1, axis2=2)[:, self.varying]
        known = np.maximum(own, 1e-300)
        places = np.where(own > 0, self.pull[:, self.varying] / known, 0.0)
        middle = np.average(places, axis=0, weights=known)
        apart = np.sqrt(np.average((places - middle) ** 2, axis=0, weights=known))
        return np.maximum(apart, 1.0 / np.sqrt(known.mean(axis=0)))

    def fitted(self, held: dict[int, float] | None = None) -> NormalEffects:
        """The same with the likeliest standard deviations, some of which may be held."""
        held, size = held or {}, len(self.spread)
        free = np.array([k for k in range(size) if k not in held], dtype=int)
        base = self.spread.copy()
        for k, value in held.items():
            base[k] = value
        if not len(free):
            return self.at(base)

        def loss(shares: np.ndarray) -> float:
            spread = base.copy()
            spread[free] = shares * self.scale[free]
            return self.at(spread).loss

        found, least = None, np.inf
        for begin in (
            np.clip(base[free] / self.scale[free], 0.05, WIDEST),
            np.full(len(free), 0.3),
        ):
            one = minimize(
                loss, begin, method="L-BFGS-B", bounds=[(0.0, WIDEST)] * len(free), tol=TOLERANCE
            )
            if one.fun < least:
                found, least = one.x, one.fun
        assert found is not None
        base[free] = np.where(found < STEP, 0.0, found) * self.scale[free]
        return self.at(base)

    def spread_interval(self, k: int, confidence: float) -> tuple[float, float]:
        """Where the profile of the restricted likelihood does not exclude a deviation."""
        cut = 0.5 * float(chi2.ppf(confidence, 1))
        best, unit = self.loss, float(self.scale[k])

        def excess(value: float) -> float:
            return self.fitted({k: value}).loss - best - cut

        def root(left: float, right: float) -> float:
            return float(cast("float", brentq(excess, left, right, xtol=1e-4 * unit)))

        here, low = float(self.spread[k]), 0.0
        if here > 0 and excess(0.0) > 0:
            low = root(0.0, here)
        high = max(here, 0.1 * unit)
        while excess(high) < 0 and high < WIDEST * unit:
            high *= 1.7
        if excess(high) < 0:
            return low, np.inf
        return low, root(here, high)

    def spread_p_value(self, k: int) -> float:
        """Of "the coefficient is the same for all": half a chi-square law, on the bound 0."""
        ratio = 2.0 * max(self.fitted({k: 0.0}).loss - self.loss, 0.0)
        return 0.5 * float(chi2.sf(ratio, 1)) if ratio > 0 else 1.0

    @cached_property
    def degrees(self) -> np.ndarray:
        """[D] of freedom of the means, by Satterthwaite: as their variances are estimates."""
        moving = np.flatnonzero(self.spread > 0)
        variances, count = np.diagonal(self.covariance), len(moving)
        if not count:
            return np.full(len(variances), np.inf)
        squares = self.spread[moving] ** 2
        steps = 1e-2 * squares

        def at(change: np.ndarray) -> NormalEffects:
            spread = self.spread.copy()
            spread[moving] = np.sqrt(squares + change)
            return self.at(spread)

        units = np.diag(steps)
        slopes = [
            (np.diagonal(at(u).covariance) - np.diagonal(at(-u).covariance)) / (2.0 * u.sum())
            for u in units
        ]
        curvature = np.empty((count, count))
        for i, first in enumerate(units):
            for j, second in enumerate(units):
                signs = ((1, 1, 1.0), (1, -1, -1.0), (-1, 1, -1.0), (-1, -1, 1.0))
                total = sum(w * at(a * first + b * second).loss for a, b, w in signs)
                curvature[i, j] = total / (4.0 * first.sum() * second.sum())
        doubt = np.linalg.pinv(curvature, hermitian=True)
        table = np.stack(slopes)
        spread = np.maximum(np.einsum("id,ij,jd->d", table, doubt, table), 1e-300)
        return np.clip(2.0 * variances**2 / spread, 1.0, np.inf)


def quantiles(degrees: np.ndarray, confidence: float) -> np.ndarray:
    """[D] of Student's laws with these degrees of freedom, two-sided."""
    return t.ppf(0.5 + 0.5 * confidence, degrees)


def tails(statistics: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """[D] two-sided chances of statistics this large under Student's laws."""
    return 2.0 * t.sf(np.abs(statistics), degrees)
