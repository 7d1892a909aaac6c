"""Worlds with a known truth: the paper's grid, published worlds, random models, Gymnasium's."""

from tacit.model import Layout
from tacit.worlds.budgeted import (
    buses,
    demonstrator_rewards,
    recorded_buses,
    six_by_six,
    three_by_three,
)
from tacit.worlds.draws import (
    Hill,
    PublishedFigure,
    hill_grid,
    published_figure,
    published_values,
    random,
)
from tacit.worlds.published import (
    Recorded,
    nine_by_nine,
    objectworld,
    recorded_nine_by_nine,
    recorded_objectworld,
    walls,
)
from tacit.worlds.world import World, gymnasium

__all__ = [
    "Hill",
    "Layout",
    "PublishedFigure",
    "Recorded",
    "World",
    "buses",
    "demonstrator_rewards",
    "gymnasium",
    "hill_grid",
    "nine_by_nine",
    "objectworld",
    "published_figure",
    "published_values",
    "random",
    "recorded_buses",
    "recorded_nine_by_nine",
    "recorded_objectworld",
    "six_by_six",
    "three_by_three",
    "walls",
]
