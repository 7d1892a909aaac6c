"""One-sided limits of parameters without an estimate: costs that are never incurred.

The likelihood of such a parameter rises for ever. What the data say of it is one-sided: where its
profile likelihood has fallen from what it reaches at infinity by the one-sided quantile.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit.inference.tails import ONE_SIDED

# Parameters below this (nats per step at most) are far from forbidding anything.
SUSPICIOUS = 3.0
# Likelihood (nats) that may be lost on the way to infinity.
FLAT = 0.01
# Curvature times squared parameter from which it is well determined.
DETERMINED = 4.0
# Bisections with all other parameters fixed, and then with those adapting.
FIXED, ADAPTING = 30, 8


def lower_limits(
    x: np.ndarray,
    curvature: np.ndarray,
    candidates: np.ndarray,
    *,
    loss: Callable[[np.ndarray], float],
    refitted_loss: Callable[[int, float], float],
    largest: float,
    design: float = 1.0,
) -> np.ndarray:
    """[D] one-sided 95 % limits of the parameters that have none on the other side; else NaN.

    A parameter is unbounded if sending it to the largest value costs no likelihood. Its limit is
    where moving it towards 0, all others adapting, has cost the one-sided quantile; 0 where the
    others make up for it altogether.

    Args:
        x: [D] the fit.
        curvature: [D] second derivatives of the loss there.
        candidates: [D] bool, the parameters that may be unbounded on the side where they are.
        loss: x [D] -> minus the log-likelihood.
        refitted_loss: (j, value) -> its minimum with parameter j held at the value.
        largest: what stands for infinity.
        design: effect of sampling weights, by which the quantile is multiplied.
    """
    limits = np.full(len(x), np.nan)
    asked = candidates & (np.abs(x) > SUSPICIOUS) & (x**2 * curvature <= DETERMINED)
    best = loss(x) if asked.any() else np.nan
    ceiling = best + 0.5 * design * ONE_SIDED**2
    for j in np.flatnonzero(asked).tolist():
        sign = float(np.sign(x[j]))

        def moved(size: float, j: int = j, sign: float = sign) -> np.ndarray:
            return np.where(np.arange(len(x)) == j, sign * size, x)

        def too_low(size: float) -> bool:
            return loss(moved(size)) > ceiling

        def too_low_adapting(size: float, j: int = j, sign: float = sign) -> bool:
            return too_low(size) and refitted_loss(j, sign * size) > ceiling

        if loss(moved(largest)) - best <= FLAT:
            # With the others fixed a value costs more: the cheap search first.
            high = bisected(too_low, abs(float(x[j])), FIXED)
            limits[j] = sign * bisected(too_low_adapting, high, ADAPTING)
    return limits


def bisected(fails: Callable[[float], bool], high: float, steps: int) -> float:
    """The upper end of the last bracket of where `fails` turns false; 0 where it never fails."""
    low = 0.0
    if not fails(low):
        return low
    for _ in range(steps):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fails(middle) else (low, middle)
    return high
