"""What a report opens with: the answer as a picture, or of trips as a table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tacit.estimators.trips.traveller import TripsRecovery
from tacit.model.layout import Layout
from tacit.show import Block, Facts, Gallery, Paragraph, Picture
from tacit.show.arrows import draw_flow_lines, has_ways
from tacit.show.canvas import REWARD_MAP, axes_at, new_figure, styled, svg
from tacit.show.grid import draw_colour_bar, draw_values, extent, limits_of, middles
from tacit.show.network import is_network, network_picture
from tacit.show.plot import overview_of
from tacit.show.quantities import (
    NamedRecovery,
    coefficient_tables,
    likelihoods,
    values_of_time,
)
from tacit.show.tables import Scale, short

WIDTH = 3.4  # inches of each picture


def opening(named: NamedRecovery) -> list[Block]:
    """The answer at one look: blocks that stand above all sentences."""
    if isinstance(named.recovery, TripsRecovery):
        return [
            *trip_blocks(named.recovery),
            *([network_picture(named)] if is_network(named) else []),
        ]
    pictures = []
    if named.tabular and has_ways(named.layout):
        pictures.append(_map_picture(named))
    if named.weight_rows() or named.price_rows:
        pictures.append(_number_picture(named))
    return [Gallery(pictures)] if pictures else []


def trip_blocks(trips: TripsRecovery) -> list[Block]:
    """Of trips: coefficients, the value of time, and how well the choices are explained."""
    values = [Paragraph(one) for one in values_of_time(trips)]
    facts = likelihoods(trips)
    return [*coefficient_tables(trips), *values, *([Facts(facts)] if facts else [])]


@styled()
def _map_picture(named: NamedRecovery) -> Picture:
    """What a step is worth in each cell, costs at their prices, with the ways taken on it."""
    layout = named.layout
    (left, right), (bottom, top) = extent(layout)
    tall = float(np.clip(WIDTH * abs(top - bottom) / (right - left), 1.2, 5.0))
    figure = new_figure(WIDTH, tall + 0.95)
    axes = axes_at(figure, 0.25, 0.3, WIDTH - 0.35, tall)
    worth = net_worth(named)[: len(middles(layout))]
    draw_values(worth, axes, layout=layout, colours=REWARD_MAP)
    for text in list(axes.texts):
        text.remove()
    draw_flow_lines(named.visits, axes, layout)
    axes.set_aspect("auto")
    axes.set_title("Wanted, refused, and the ways taken")
    below, limits = axes_at(figure, 0.25, 0.54 + tall, WIDTH - 0.35, 0.09), limits_of([worth])
    look = {"name": "reward of a step less its costs", "colours": REWARD_MAP}
    draw_colour_bar(below, limits=limits, scale=Scale.of([limits]), **look)
    best, worst = int(np.nanargmax(worth)), int(np.nanargmin(worth))
    alt = (
        f"Map of what a step is worth, costs at their prices: most in {named.state(best)}, least "
        f"in {named.state(worst)}. Lines are the ways taken, as wide as they are frequent."
    )
    return Picture(svg(figure), alt)


def net_worth(named: NamedRecovery) -> np.ndarray:
    """[S] the reward of a step less its costs at their prices, where these are identified."""
    prices = np.nan_to_num(named.recovery.multipliers, posinf=0.0)
    return named.reward - prices @ np.nan_to_num(named.costs)


def _number_picture(named: NamedRecovery) -> Picture:
    """Every weight and price with its interval."""
    figure = overview_of({"": replace(named, layout=Layout())})
    rows = named.weight_rows() | {f"price of {k}": v for k, v in named.price_rows.items()}
    said = ", ".join(f"{name} {short(one.value)}" for name, one in [*rows.items()][:6])
    return Picture(svg(figure), f"Weights and prices with their intervals: {said}.")
