"""Is a constraint active? A likelihood-ratio test with its true null law.

Without the constraint its parameters sit on their bound, where the ratio follows no chi-square: it
is the squared length of a normal vector's projection onto a cone, a chi-bar-square whose weights
depend on the information left after the free parameters have adapted. The law is simulated.
"""

from __future__ import annotations

import numpy as np

from tacit.inverse.inference import BLIND, inverse_information

DRAWS = 4000


def activity_p_value(
    ratio: float,
    fisher: np.ndarray,
    tested: np.ndarray,
    free: np.ndarray,
    held: np.ndarray,
    *,
    seed: int = 0,
) -> float:
    """The chance of a likelihood ratio this large if the tested parameters are all 0.

    Args:
        ratio: twice the log-likelihood gained by the tested parameters.
        fisher: [D, D] information, at the fit without them.
        tested: [D] bool, the parameters of the constraint, at least 0.
        free: [D] bool, nuisance parameters that no bound holds in the fit without them.
        held: [D] bool, nuisance parameters on their bound: they enter both fits as cones.
        seed: of the simulated law.
    """
    from scipy.stats import chi2

    if not tested.any():
        return 1.0
    inverse, _ = inverse_information(fisher, free & ~tested)
    cone = np.flatnonzero(tested | held)
    left = fisher - fisher @ inverse @ fisher
    left = left[np.ix_(cone, cone)]
    scale = np.sqrt(np.maximum(np.diagonal(fisher)[cone], 0.0))
    visible = np.diagonal(left) > BLIND * np.where(scale > 0, scale, 1.0) ** 2
    cone, left = cone[visible], left[np.ix_(visible, visible)]
    if not tested[cone].any():
        return 1.0  # nothing the free parameters could not do as well: not testable
    # The law never exceeds a plain chi-square: far out in its tail no draw would be this large.
    if chi2.sf(ratio, len(cone)) < 1e-3 / DRAWS:
        return 1.0 / (1 + DRAWS)
    unit = np.sqrt(np.diagonal(left))
    left = left / np.outer(unit, unit)  # the law does not depend on units, the search would
    values, vectors = np.linalg.eigh(left)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    draws = np.random.default_rng(seed).standard_normal((DRAWS, len(cone))) @ root.T
    both = _gain(left, draws, np.ones(len(cone), bool))
    without = _gain(left, draws, ~tested[cone])
    # One more in both counts: a simulated law cannot vouch for a chance of zero.
    return float((1 + (both - without >= ratio).sum()) / (1 + DRAWS))


def _gain(matrix: np.ndarray, scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """[n] max over y >= 0, 0 outside `allowed`, of 2 y . score - y' matrix y, for scores [n, d].

    Coordinate ascent on all draws at once; each step is exact in its coordinate.
    """
    y = np.zeros_like(scores)
    diagonal = np.diagonal(matrix)
    for _ in range(500):
        before = y.copy()
        for j in np.flatnonzero(allowed & (diagonal > 0)):
            rest = scores[:, j] - y @ matrix[:, j] + diagonal[j] * y[:, j]
            y[:, j] = np.maximum(rest / diagonal[j], 0.0)
        if np.abs(y - before).max() <= 1e-9 * (1.0 + np.abs(y).max()):
            break
    return 2.0 * (y * scores).sum(axis=1) - np.einsum("nd,de,ne->n", y, matrix, y)
