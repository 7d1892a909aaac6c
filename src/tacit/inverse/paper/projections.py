"""Nearest points in relative entropy, in logarithms throughout (lines 10 and 11 of Algorithm 1).

An exponentiated step multiplies weights by exp(-step * gradient), whose range floats do not have;
their logarithms do. A point is given by its logarithms, minus infinity for a weight of zero: such a
weight stays zero, since no finite relative entropy brings it back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.errors import InvalidModel

# A root is found to this relative width of its bracket: the last bits of a float.
WIDTH = 4e-16
# Doublings of a trial price before the face of least cost is taken for its limit; 1e308 is 2^1023.
DOUBLINGS = 1000
STEPS = 200


@dataclass(frozen=True, eq=False)
class Projection:
    """The nearest point of a set, and the price of the halfspace that bounds it.

    Attributes:
        log_weights: [D] logarithms of the nearest point.
        price: multiplier of the halfspace; 0 inside it, infinite on the face of least cost.
        feasible: whether the set has a point at all; if not, the point given is the limit of
            raising the price: all mass on the entries of least cost.
    """

    log_weights: np.ndarray
    price: float
    feasible: bool

    @property
    def weights(self) -> np.ndarray:
        """[D] the nearest point."""
        return np.exp(self.log_weights)


def project_simplex(log_point: np.ndarray) -> Projection:
    """argmin KL(w | point) over w >= 0, w.sum() == 1: the point divided by its sum."""
    return Projection(_normalised(_checked(log_point)), 0.0, True)


def project_simplex_halfspace(
    log_point: np.ndarray, normal: np.ndarray, bound: float
) -> Projection:
    """argmin KL(w | point) over w >= 0, w.sum() == 1, w @ normal <= bound.

    It is w_i proportional to point_i * exp(-price * normal_i), price >= 0 the root of a monotone
    equation. The set is empty exactly when the least normal_i with point_i > 0 exceeds the bound.
    """
    logs = _checked(log_point)
    normal = np.asarray(normal, dtype=np.float64)
    if normal.shape != logs.shape or not (np.isfinite(normal).all() and np.isfinite(bound)):
        raise InvalidModel(
            f"normal must hold {len(logs)} finite numbers and the bound be finite; "
            f"got {normal} and {bound}"
        )
    possible = logs > -np.inf
    over = np.where(possible, normal - bound, np.inf)
    least = float(over.min())
    inside = _normalised(logs)
    if _mean(inside, over) <= 0.0:
        return Projection(inside, 0.0, True)
    # On the face of least cost, and beyond it, only the limit of an infinite price is left.
    face = _normalised(np.where(over == least, logs, -np.inf))
    if least >= 0.0:
        return Projection(face, np.inf, least == 0.0)
    price = _root(logs, over)
    if price == np.inf:
        return Projection(face, np.inf, True)
    return Projection(_tilted(logs, over, price), price, True)


def _root(logs: np.ndarray, over: np.ndarray) -> float:
    """The price at which the tilted point has mean `over` 0: Newton within a shrinking bracket.

    The mean falls in the price, its derivative is minus the variance. The upper end of the bracket
    is returned: there the halfspace is kept.
    """
    low, high = 0.0, 1.0 / float(np.abs(over[logs > -np.inf]).max())
    for _ in range(DOUBLINGS):
        if _mean(_tilted(logs, over, high), over) <= 0.0:
            break
        low, high = high, 2.0 * high
        if high == np.inf:
            return np.inf
    else:
        return np.inf
    trial = high
    for _ in range(STEPS):
        if high - low <= WIDTH * high:
            break
        tilted = _tilted(logs, over, trial)
        mean = _mean(tilted, over)
        low, high = (trial, high) if mean > 0.0 else (low, trial)
        spread = _mean(tilted, np.where(tilted > -np.inf, (over - mean) ** 2, 0.0))
        step = trial + mean / spread if spread > 0.0 else np.nan
        # A step that leaves the bracket, or is no number, becomes a bisection.
        trial = step if low < step < high else 0.5 * (low + high)
    return high


def _tilted(logs: np.ndarray, over: np.ndarray, price: float) -> np.ndarray:
    """[D] log of the point proportional to exp(logs - price * over), summing to 1."""
    with np.errstate(invalid="ignore"):  # minus infinity times zero, replaced below
        tilt = logs - price * over
    return _normalised(np.where(logs > -np.inf, tilt, -np.inf))


def _normalised(logs: np.ndarray) -> np.ndarray:
    """[D] the logarithms shifted so that their exponentials sum to 1."""
    shifted = logs - logs.max()
    return shifted - np.log(np.exp(shifted).sum())


def _mean(logs: np.ndarray, values: np.ndarray) -> float:
    """The mean of `values` where the weights exp(logs) are positive."""
    weights = np.exp(logs)
    return float(weights @ np.where(weights > 0.0, values, 0.0))


def _checked(log_point: np.ndarray) -> np.ndarray:
    logs = np.asarray(log_point, dtype=np.float64)
    if logs.ndim != 1 or not len(logs) or not (logs < np.inf).all() or logs.max() == -np.inf:
        raise InvalidModel(
            "a point must be given by logarithms below infinity, at least one of them finite; "
            f"got {logs}"
        )
    return logs
