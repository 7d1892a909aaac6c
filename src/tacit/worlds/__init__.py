"""Worlds with a known truth: the paper's grid, random models, and Gymnasium's toy-text ones."""

from tacit.model.names import Layout
from tacit.worlds.draws import (
    Hill,
    PublishedFigure,
    hill_grid,
    published_figure,
    published_values,
    random,
)
from tacit.worlds.world import World, gymnasium

__all__ = [
    "Hill",
    "Layout",
    "PublishedFigure",
    "World",
    "gymnasium",
    "hill_grid",
    "published_figure",
    "published_values",
    "random",
]
