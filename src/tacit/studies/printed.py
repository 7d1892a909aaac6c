"""What the paper's own figure says: the numbers that its printed panels allow to compute."""

from __future__ import annotations

import numpy as np

from tacit.judge.outcomes import correlation
from tacit.studies.draws import FIGURE
from tacit.studies.records import Draw
from tacit.worlds.hills import published_values


def published_correlations() -> tuple[float, float]:
    """Correlation of the published recovered reward and cost with the published true ones."""
    printed = published_values()
    row, column = np.divmod(np.arange(len(printed.cost)), 5)
    places = np.stack([row, column], axis=1)
    reward = correlation(places @ printed.reward_weights, places @ printed.recovered_reward_weights)
    return reward, correlation(printed.cost, printed.recovered_cost)


def published_row(draw: Draw) -> dict[str, float]:
    """The metrics that the published figure allows to compute."""
    assert draw.seed == FIGURE
    printed = published_values()
    reward, cost = published_correlations()
    gaps = np.abs(printed.recovered_reward_weights - printed.reward_weights)
    return {
        "reward_error": float(gaps.sum()),
        "reward_correlation": reward,
        "cost_correlation": cost,
        "cells": 1.0,
        "peak": float(printed.cost[int(printed.recovered_cost.argmax())] >= printed.cost.max()),
    }


def published_spread() -> float:
    """Standard deviation of the published recovered reward over the grid, in true ones."""
    printed = published_values()
    return float(
        np.linalg.norm(printed.recovered_reward_weights) / np.linalg.norm(printed.reward_weights)
    )
