"""Do the tasks agree? A likelihood-ratio test of what they are told to share, with its null law.

Locally the likelihood is a quadratic with the information as its curvature, and a model is the cone
of directions in which its parameters may move. Twice the gain of the wider model over the narrower
is then the difference of two squared lengths of projections of one normal vector: a chi-square if
no parameter sits on its bound, and simulated otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.inverse.inference import BLIND, inverse_information

DRAWS = 2000


@dataclass(frozen=True, eq=False)
class Directions:
    """Where the parameters of all tasks may move from a point, as a model allows.

    Attributes:
        jacobians: one [D, n] per task, derivative of its parameters in those of the model.
        free: [n] bool, the parameters of the model that no bound holds.
        one_sided: [n] bool, those on their lower bound.
    """

    jacobians: Sequence[np.ndarray]
    free: np.ndarray
    one_sided: np.ndarray

    def information(self, fishers: Sequence[np.ndarray]) -> np.ndarray:
        """[n, n] about the parameters of the model, from [D, D] of each task about its own."""
        pairs = zip(self.jacobians, fishers, strict=True)
        return sum((inner.T @ fisher @ inner for inner, fisher in pairs), start=np.zeros(()))


def agreement_p_value(
    ratio: float,
    fishers: Sequence[np.ndarray],
    wide: Directions,
    narrow: Directions,
    *,
    seed: int = 0,
) -> float:
    """The chance of a likelihood ratio this large if the narrower model is true.

    Args:
        ratio: twice the log-likelihood gained by the wider model.
        fishers: one [D, D] per task, information of its steps about its own parameters.
        wide: where the wider model may move from the fit of the narrower one.
        narrow: where the narrower model may move.
        seed: of the simulated law.
    """
    from scipy.stats import chi2

    if not (wide.one_sided.any() or narrow.one_sided.any()):
        degrees = _rank(wide, fishers) - _rank(narrow, fishers)
        return float(chi2.sf(max(ratio, 0.0), degrees)) if degrees > 0 else 1.0
    random = np.random.default_rng(seed)
    scores = []
    for fisher in fishers:
        values, vectors = np.linalg.eigh(fisher)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        scores.append(random.standard_normal((DRAWS, len(fisher))) @ root.T)
    gained = _gain(wide, fishers, scores) - _gain(narrow, fishers, scores)
    # One more in both counts: a simulated law cannot vouch for a chance of zero.
    return float((1 + (gained >= ratio).sum()) / (1 + DRAWS))


def _rank(model: Directions, fishers: Sequence[np.ndarray]) -> int:
    _, blind = inverse_information(model.information(fishers), model.free)
    return int(model.free.sum()) - len(blind)


def _gain(
    model: Directions, fishers: Sequence[np.ndarray], scores: Sequence[np.ndarray]
) -> np.ndarray:
    """[n] twice the log-likelihood that the model can gain from each draw of the scores."""
    from scipy.optimize import nnls

    pairs = zip(scores, model.jacobians, strict=True)
    slopes = sum((score @ inner for score, inner in pairs), start=np.zeros(()))
    fisher = model.information(fishers)
    inverse, _ = inverse_information(fisher, model.free)
    gained = np.einsum("nd,de,ne->n", slopes, inverse, slopes)
    # What is left for the parameters on their bound after the free ones have adapted.
    left = fisher - fisher @ inverse @ fisher
    seen = model.one_sided & (np.diagonal(left) > BLIND * np.diagonal(fisher))
    if not seen.any():
        return gained
    rest = (slopes - slopes @ inverse @ fisher)[:, seen]
    values, vectors = np.linalg.eigh(left[np.ix_(seen, seen)])
    kept = values > BLIND * values.max()
    root = np.sqrt(values[kept])
    # max over y >= 0 of 2 y . rest - y' left y is a least-squares problem in the root of `left`.
    matrix, targets = root[:, None] * vectors[:, kept].T, rest @ vectors[:, kept] / root
    short = np.array([nnls(matrix, target)[1] for target in targets])
    return gained + (targets**2).sum(axis=1) - short**2
