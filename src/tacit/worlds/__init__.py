"""Worlds with a known truth: the paper's grid and its published draw, random models, Gymnasium's.

And the bricks of worlds of one's own.
"""

from __future__ import annotations

from tacit.model.arguments import distributions, integer, number
from tacit.model.layout import Layout
from tacit.worlds.continuous import interpolated
from tacit.worlds.draws import (
    Hill,
    hill_grid,
    published_figure,
    random,
)
from tacit.worlds.world import World, gymnasium, neighbours, recipe

__all__ = [
    "Hill",
    "Layout",
    "World",
    "distributions",
    "gymnasium",
    "hill_grid",
    "integer",
    "interpolated",
    "neighbours",
    "number",
    "published_figure",
    "random",
    "recipe",
]


def __dir__() -> list[str]:
    """What is in this namespace."""
    return sorted(__all__)
