"""Costs without a finite weight: never incurred although the reward pulls there (separation).

The likelihood then rises for ever with the weight. It is reported as forbidden, with the lower
limit that the data do set and no upper one.
"""

from __future__ import annotations

import numpy as np

from tacit.inverse.boltzmann import LARGEST, Fit, loss_of
from tacit.inverse.coordinates import Coordinates
from tacit.inverse.inference import ONE_SIDED
from tacit.mdp import MDP

# Parameters below this (nats per step at most) are far from forbidding anything.
SUSPICIOUS = 3.0


def forbidden_limits(mdp: MDP, space: Coordinates, fitted: Fit) -> np.ndarray:
    """[D] one-sided 95 % lower limits of the parameters that have no upper one; NaN elsewhere.

    A cost is forbidden if sending its parameter to the largest value costs no likelihood. The
    limit is where lowering it, all others fixed, has cost the one-sided quantile.
    """
    limits = np.full(space.size, np.nan)
    x, best = fitted.point.x, fitted.point.loss
    rise = 0.5 * ONE_SIDED**2
    for j in np.flatnonzero((space.signs < 0) & (x > SUSPICIOUS)):
        if x[j] ** 2 * fitted.point.curvature[j, j] > 4.0:
            continue  # well determined: its loss is curved on the scale of the parameter itself
        trial = x.copy()
        trial[j] = LARGEST
        if loss_of(mdp, fitted, trial) - best > 0.01:
            continue
        low, high = 0.0, x[j]
        for _ in range(30):
            trial[j] = 0.5 * (low + high)
            if loss_of(mdp, fitted, trial) - best > rise:
                low = trial[j]
            else:
                high = trial[j]
        limits[j] = high
    return limits
