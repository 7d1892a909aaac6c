"""What may be chosen at rows, and how chances follow coefficients and errors of the regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy.special import logsumexp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tacit.inference.evidence import Evidence

# Relative variance of errors that are left out.
FAINT = 1e-6


class Continuation(Protocol):
    """What follows every action: expected soft values of the next row."""

    @property
    def reference(self) -> np.ndarray:
        """[D] the coefficients that values are of."""
        ...

    @property
    def shared(self) -> np.ndarray:
        """[D, r] covariance of the coefficients and of errors, in r standard normal numbers."""
        ...

    def worth(self, observations: np.ndarray, /) -> np.ndarray:
        """[n, A] at rows [n, d]."""
        ...

    def slopes(self, observations: np.ndarray, /) -> np.ndarray:
        """[n, A, D + r] its derivative in the coefficients, and in the numbers of the errors."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class RowChoices:
    """Choices at rows: a `ChoiceModel`.

    Attributes:
        labels: name -> [n] the measurements.
        signed: [n, A, D] features, those of costs negative.
        later: [n, A] what follows, discounted, at the coefficients of reference.
        slopes: [n, A, D + r] its derivative.
        reference: [D].
        shared: [D, r] covariance of coefficients and errors.
    """

    labels: Mapping[str, np.ndarray]
    signed: np.ndarray
    later: np.ndarray
    slopes: np.ndarray
    reference: np.ndarray
    shared: np.ndarray

    @property
    def available(self) -> np.ndarray:
        """[n, A] bool, all actions."""
        return np.ones(self.later.shape, bool)

    def scored(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[n, A] chances at coefficients and errors [D + r], and [D + r, n, A] slopes of logs.

        What follows is taken as linear in the coefficients, around those of reference.
        """
        size = len(self.reference)
        moved = coefficients - np.pad(self.reference, (0, len(coefficients) - size))
        worth = self.signed @ coefficients[:size] + self.later + self.slopes @ moved
        chances = np.exp(worth - np.asarray(logsumexp(worth, axis=1, keepdims=True)))
        slopes = self.slopes.copy()
        slopes[:, :, :size] += self.signed
        average = np.einsum("na,nad->nd", chances, slopes)
        return chances, np.moveaxis(slopes - average[:, None], 2, 0)


@dataclass(frozen=True, eq=False)
class RegressionErrors:
    """Errors of the coefficients of a regression.

    Attributes:
        spread: [P, r] by which r standard normal numbers move them.
        shared: [D, r] covariance of these numbers and the coefficients of reward and costs.
    """

    spread: np.ndarray
    shared: np.ndarray


def regression_errors(evidence: Evidence, e: int = 0) -> RegressionErrors:
    """Those of the regression of chain e, at given coefficients of reward and costs."""
    own = evidence.chains[e]
    chain, solved = own.chain, own.part.solved
    influence = chain.dynamics.score_influence(solved, own.part.scores[0], chain.visits)
    law, across = chain.dynamics.coefficient_covariance(solved, influence @ own.inner)
    sizes, axes = np.linalg.eigh(law)
    kept = sizes > FAINT * max(float(sizes[-1]), 0.0)
    axes, roots = axes[:, kept], np.sqrt(sizes[kept])
    shared = own.inner @ evidence.inverse @ (across.T @ (axes / roots))
    return RegressionErrors(axes * roots, shared / chain.space.scales[:, None])
