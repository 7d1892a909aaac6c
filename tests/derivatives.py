"""Derivatives of a chain of the likelihood against differences of its own losses."""

from typing import Any

import numpy as np


def check_derivatives(chain: Any, x: np.ndarray, step: float = 1e-5) -> None:
    """Gradient and curvature at x [D] are those of differences."""
    here = chain.at(x, chain.blank(x), 1e-9)
    pairs = [(x + step * e, x - step * e) for e in np.eye(len(x))]
    slope = [
        (chain.loss_at(up, here, 0) - chain.loss_at(down, here, 0)) / (2 * step)
        for up, down in pairs
    ]
    bend = [
        (chain.at(up, here, 0).gradient - chain.at(down, here, 0).gradient) / (2 * step)
        for up, down in pairs
    ]
    np.testing.assert_allclose(here.gradient, slope, rtol=1e-6, atol=1e-4)
    np.testing.assert_allclose(here.curvature, bend, rtol=1e-6, atol=1e-4)
