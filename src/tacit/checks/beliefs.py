"""What is believed about coefficients after the demonstrations, with and without belief before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tacit.errors import InvalidModel
from tacit.inference.findings import Finding, Kind
from tacit.inference.parameters import BLIND, CONFIDENCE, Parameters
from tacit.recovery import Recovery

# Draws of a posterior, and those before that forget where it began.
POSTERIOR_DRAWS, BURN_IN = 4000, 200


@dataclass(frozen=True, eq=False, kw_only=True)
class Posterior:
    """What is believed about the coefficients after the demonstrations.

    Attributes:
        names: [P] of the coefficients, as in `recovery.parameters`.
        means: [P].
        deviations: [P] posterior standard deviations.
        intervals: [P, 2] between the tails of equal size.
        draws: [N, P] from the posterior, independent or nearly so.
        prior: [P, 2] mean and standard deviation believed before; NaN and infinite without any.
        confidence: of the intervals.
        findings: what it rests on.
    """

    names: tuple[str, ...]
    means: np.ndarray
    deviations: np.ndarray
    intervals: np.ndarray
    draws: np.ndarray
    prior: np.ndarray
    confidence: float
    findings: tuple[Finding, ...] = ()

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """What to know about it."""
        return self.findings

    @property
    def columns(self) -> dict[str, list[str] | np.ndarray]:
        """The same as a table, a row for each coefficient."""
        return {
            "coefficient": [*self.names],
            "mean": self.means,
            "deviation": self.deviations,
            "from": self.intervals[:, 0],
            "to": self.intervals[:, 1],
            "mean before": self.prior[:, 0],
            "standard deviation before": self.prior[:, 1],
        }

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

    def __repr__(self) -> str:
        pairs = list(zip(self.names, self.means, self.deviations, strict=True))
        shown = ", ".join(f"{name} {mean:.4g} ± {wide:.2g}" for name, mean, wide in pairs[:6])
        return f"Posterior({shown}{', ...' * (len(pairs) > 6)})"

    def __str__(self) -> str:
        return self.text


def posterior(
    recovery: Recovery,
    belief: Mapping[str, tuple[float, float]] | None = None,
    *,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Posterior:
    """The `Posterior` of the coefficients within their bounds.

    The belief is normal and independent, and cut at the bounds: a cost is never liked, and no
    reward weight negative unless it was let be. By Laplace's approximation the likelihood is taken
    as quadratic around its maximum. With long demonstrations and no belief the intervals are those
    of the recovery.

    Args:
        recovery: of a noisy demonstrator, with standard errors.
        belief: name of a coefficient -> mean and standard deviation believed beforehand, in the
            units of `recovery.parameters`, those of the noise.
        confidence: of the intervals.
        seed: of the draws.
    """
    if not 0.0 < confidence < 1.0:
        raise InvalidModel(f"confidence must be in (0, 1); got {confidence}")
    table, believed = recovery.parameters, dict(belief or {})
    likelihood = _quadratic_likelihood(table)
    prior = _prior_table(table.names, believed)
    prior_precision = 1.0 / prior[:, 1] ** 2
    precision = likelihood.precision + np.diag(prior_precision)
    pull = likelihood.pull + prior_precision * np.nan_to_num(prior[:, 0])
    sizes = np.sqrt(np.diagonal(precision))
    if (sizes == 0).any() or np.linalg.cond(precision / np.outer(sizes, sizes)) > 1.0 / BLIND:
        raise InvalidModel(
            "the demonstrations leave a combination of coefficients open: give a belief about "
            "one of those that a finding says trade off freely"
        )
    covariance = np.linalg.inv(precision)
    means, deviations = covariance @ pull, np.sqrt(np.diagonal(covariance))
    rng = np.random.default_rng(seed)
    draws = rng.multivariate_normal(means, covariance, POSTERIOR_DRAWS, method="cholesky")
    if ((means - table.lower) < 6.0 * deviations).any():  # a bound cuts some of it off
        draws = truncated(rng, means, precision, table.lower)
        means, deviations = draws.mean(axis=0), draws.std(axis=0)
    tails = 0.5 + np.array([-0.5, 0.5]) * confidence
    sentence = (
        "The posterior is Laplace's approximation: the likelihood is taken as quadratic around its "
        f"maximum, with a belief about {len(believed)} of {len(table)} coefficients."
    )
    return Posterior(
        names=table.names,
        means=means,
        deviations=deviations,
        intervals=np.quantile(draws, tails, axis=0).T,
        draws=draws,
        prior=prior,
        confidence=confidence,
        findings=(Finding(sentence, Kind.ERRORS, number=float(len(believed))),),
    )


class QuadraticLikelihood(NamedTuple):
    """A log-likelihood b . precision b / -2 + pull . b of the coefficients b [P]."""

    precision: np.ndarray  # [P, P]
    pull: np.ndarray  # [P]


def _quadratic_likelihood(table: Parameters) -> QuadraticLikelihood:
    """The likelihood around its maximum, bounds left aside."""
    reason = table.reason or table.with_errors("fisher").reason
    if reason or np.isnan(table.information).any():
        raise InvalidModel(
            "a posterior needs a likelihood and its curvature; this recovery has none"
            + (f": {reason}" if reason else "")
        )
    centre = table.estimates if table.unrestricted is None else table.unrestricted
    back = np.linalg.inv(table.jacobian)
    precision = back.T @ table.information @ back
    return QuadraticLikelihood(precision, precision @ centre - back.T @ table.gradient)


def _prior_table(names: tuple[str, ...], belief: Mapping[str, tuple[float, float]]) -> np.ndarray:
    """[P, 2] mean and deviation believed of each coefficient; NaN and infinity where nothing is."""
    prior = np.stack([np.full(len(names), np.nan), np.full(len(names), np.inf)], axis=1)
    for name, pair in belief.items():
        mean, deviation = (float(number) for number in pair)
        # Their squares must be numbers, too.
        if names.count(name) != 1 or not (abs(mean) < 1e100 and deviation > 1e-100):
            raise InvalidModel(
                "belief must name coefficients and give each a mean and a positive standard "
                f"deviation; got {name!r:.60}: {pair!r:.60}; the names are {', '.join(names[:8])}"
            )
        prior[names.index(name)] = mean, deviation
    return prior


def truncated(
    rng: np.random.Generator, mean: np.ndarray, precision: np.ndarray, lower: np.ndarray
) -> np.ndarray:
    """[N, P] draws of a normal law cut at its lower bounds [P], by Gibbs sampling."""
    from scipy.special import ndtr, ndtri

    x = np.maximum(mean, np.where(np.isfinite(lower), lower, mean))
    spread = 1.0 / np.sqrt(np.diagonal(precision))
    draws = np.empty((POSTERIOR_DRAWS, len(mean)))
    for i in range(-BURN_IN, POSTERIOR_DRAWS):
        for j in range(len(mean)):
            rest = precision[j] @ (x - mean) - precision[j, j] * (x[j] - mean[j])
            middle = mean[j] - rest / precision[j, j]
            # The upper tail, which keeps its digits far from the middle.
            most = ndtr((middle - lower[j]) / spread[j]) if np.isfinite(lower[j]) else 1.0
            x[j] = middle - spread[j] * ndtri(max(rng.uniform() * most, 1e-300))
            x[j] = max(x[j], lower[j])
        draws[max(i, 0)] = x
    return draws
