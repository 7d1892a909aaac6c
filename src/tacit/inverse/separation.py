"""Costs without a finite weight: never incurred although the reward pulls there (separation).

The likelihood then rises for ever with the weight. It is reported as forbidden, with the lower
limit that the data do set and no upper one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit.inverse.boltzmann import LARGEST, Fit, loss_of, refit
from tacit.inverse.coordinates import Coordinates
from tacit.inverse.inference import ONE_SIDED
from tacit.mdp import MDP

# Parameters below this (nats per step at most) are far from forbidding anything.
SUSPICIOUS = 3.0
# Likelihood (nats) that may be lost on the way to infinity.
FLAT = 0.01


def forbidden_limits(mdp: MDP, space: Coordinates, fitted: Fit) -> np.ndarray:
    """[D] one-sided 95 % lower limits of the parameters that have no upper one; NaN elsewhere.

    A cost is forbidden if sending its parameter to the largest value costs no likelihood. The
    limit is where lowering it, the others adapting, has cost the one-sided quantile; 0 where the
    others make up for it altogether.
    """
    limits = np.full(space.size, np.nan)
    x, best = fitted.point.x, loss_of(mdp, fitted, fitted.point.x)
    for j in np.flatnonzero((space.signs < 0) & (x > SUSPICIOUS)):
        if x[j] ** 2 * fitted.point.curvature[j, j] > 4.0:
            continue  # well determined: its loss is curved on the scale of the parameter itself
        trial = x.copy()
        trial[j] = LARGEST
        if loss_of(mdp, fitted, trial) - best <= FLAT:
            limits[j] = _limit(mdp, fitted, int(j), best + 0.5 * ONE_SIDED**2)
    return limits


def _limit(mdp: MDP, fitted: Fit, j: int, ceiling: float) -> float:
    """The smallest value of parameter j at which the loss, over all others, meets the ceiling."""
    problem, x = fitted.problem, fitted.point.x
    trial = x.copy()

    def too_low(value: float, adapting: bool) -> bool:
        trial[j] = value
        if loss_of(mdp, fitted, trial) <= ceiling:
            return False
        if not adapting:
            return True
        lower, upper = problem.lower.copy(), problem.upper.copy()
        lower[j] = upper[j] = value
        near = refit(mdp, fitted, lower=lower, upper=upper)
        return loss_of(mdp, fitted, near.point.x) > ceiling

    # With the others fixed a value costs more: the cheap search first, then the true limit below.
    high = bisected(lambda value: too_low(value, False), float(x[j]), 30)
    return bisected(lambda value: too_low(value, True), high, 8)


def bisected(fails: Callable[[float], bool], high: float, steps: int) -> float:
    """The upper end of the last bracket of where `fails` turns false; 0 where it never fails."""
    low = 0.0
    if not fails(low):
        return low
    for _ in range(steps):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fails(middle) else (low, middle)
    return high
