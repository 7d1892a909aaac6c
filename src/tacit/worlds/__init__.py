"""Worlds with a known truth: the paper's grid, published worlds, random models, Gymnasium's.

Here stand Rust's buses, and the bricks of worlds of one's own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.model.arguments import distributions, integer
from tacit.model.layout import Layout
from tacit.model.mdp import MDP, Successors
from tacit.model.objective import Features
from tacit.worlds.draws import (
    Hill,
    PublishedFigure,
    hill_grid,
    published_figure,
    published_values,
    random,
)
from tacit.worlds.objects import objectworld, windy_moves
from tacit.worlds.world import World, gymnasium, neighbours, recipe

__all__ = [
    "Hill",
    "Layout",
    "PublishedFigure",
    "World",
    "buses",
    "gymnasium",
    "hill_grid",
    "integer",
    "neighbours",
    "objectworld",
    "published_figure",
    "published_values",
    "random",
    "recipe",
    "windy_moves",
]

# --- Rust's buses ---------------------------------------------------------------------------------

BINS, MILES = 90, 5_000
# Replacement cost and maintenance (thousandths a bin) as published of the group of buses 4.
ENGINE_COSTS = (10.0750, 2.2930)


def buses(
    usage: Sequence[float] = (0.3919, 0.5953, 0.0128),
    *,
    weights: Sequence[float] = ENGINE_COSTS,
    discount: float = 0.9999,
    bins: int = BINS,
) -> World:
    """Rust's (1987) bus engines: keep (0) or replace (1), at so many bins of 5 000 miles.

    Mileage grows by the usage of the month, from where it is or, after a replacement, from 0.
    Replacing costs the first weight, keeping .001 times the second for every bin. Temperature 1.

    Args:
        usage: chances to drive on by 0, 1, 2, ... bins in a month.
        weights: replacement cost and maintenance.
        discount: of a month.
        bins: how many there are; the last one keeps.
    """
    asked = {"usage": list(map(float, usage)), "weights": list(map(float, weights))}
    asked |= {"discount": discount, "bins": integer(bins, "bins", 2)}
    shares = distributions(usage, (len(usage),), "usage", "bin")
    after = np.minimum(np.arange(bins)[:, None] + np.arange(len(shares)), bins - 1)
    renewed = np.minimum(np.broadcast_to(np.arange(len(shares)), after.shape), bins - 1)
    states = np.stack([after, renewed], axis=1)
    mdp = MDP(
        Successors(states, np.broadcast_to(shares / shares.sum(), states.shape)),
        np.eye(bins)[0],
        discount,
    )
    table = np.zeros((bins, 2, 2))
    table[:, 1, 0] = -1.0
    table[:, 0, 1] = -0.001 * np.arange(bins)
    features = Features(table, reward_names=["replacement", "maintenance"])
    spare = {"weights": list(ENGINE_COSTS), "discount": 0.9999, "bins": BINS}
    return World.of(
        mdp,
        features,
        np.asarray(weights, float),
        layout=Layout(
            state_names=tuple(f"{b * BINS * MILES / bins:,.0f} miles" for b in range(bins)),
            action_names=("keep", "replace"),
        ),
        recipe=recipe("buses", asked, spare),
    )
