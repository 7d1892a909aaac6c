"""Worlds with a known truth: the paper's grid, random models, and Gymnasium's toy-text ones."""

from tacit.model.names import Layout
from tacit.worlds.hills import Hill, PublishedFigure, hill_grid, published_figure, published_values
from tacit.worlds.toy_text import gymnasium
from tacit.worlds.world import World, random

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
