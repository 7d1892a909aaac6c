"""A network of links, each as wide as the flow over it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from tacit.estimators.trips.traveller import TripsRecovery
from tacit.model.layout import Layout
from tacit.search.algebra import largest_first
from tacit.show import Picture
from tacit.show.canvas import (
    FAINT,
    INK,
    MUTED,
    SMALL,
    TINY,
    VERMILLION,
    axes_at,
    new_figure,
    styled,
    svg,
)
from tacit.show.quantities import NamedRecovery
from tacit.show.tables import short

WIDEST = 5.0  # points, of the line of the largest flow
NAMED = 60  # nodes whose names fit into a map
GOALS = 12  # goals that are marked
ASIDE = 0.06  # shares of a link by which traffic keeps to its side


def is_network(named: NamedRecovery) -> bool:
    """Whether trips go from node to node, and it is known where the nodes lie."""
    layout = named.layout
    return isinstance(named.recovery, TripsRecovery) and bool(layout.centres) and not layout.hexagon


@styled()
def draw_network(named: NamedRecovery, axes: Axes) -> Axes:
    """The axes, with every link as wide as the flow over it, and the goals as dots."""
    places, leads = np.array(named.layout.centres), np.array(named.layout.leads)
    begin, action = np.nonzero(leads >= 0)
    start, way = places[begin], places[leads[begin, action]] - places[begin]
    # Two ways between the same places lie beside each other, as traffic does.
    start = start + ASIDE * np.stack([way[:, 1], -way[:, 0]], axis=1)
    lines = np.stack([start, start + way], axis=1)
    flow = named.visits[begin, action]
    widths = WIDEST * flow / (flow.max(initial=0.0) or 1.0)
    thin = LineCollection([*lines], colors=FAINT, linewidths=0.8)
    axes.add_collection(thin)
    axes.add_collection(LineCollection([*lines], colors=INK, linewidths=widths, capstyle="butt"))
    trips = named.recovery
    assert isinstance(trips, TripsRecovery)
    goals, counts = np.unique(trips.destinations[trips.destinations >= 0], return_counts=True)
    goals = goals[largest_first(counts)[:GOALS]]
    axes.scatter(*places.T, s=9, color=MUTED, zorder=3)
    axes.scatter(*places[goals].T, s=36, color=VERMILLION, zorder=4)
    for at in range(len(places)) if len(places) <= NAMED else goals.tolist():
        look = {"size": SMALL if at in goals else TINY, "color": INK if at in goals else MUTED}
        offset = {"xytext": (5, 5), "textcoords": "offset points"}
        axes.annotate(named.state(at), places[at], **offset, **look, zorder=5)
    axes.set_aspect("equal")
    axes.margins(0.08)
    axes.set_axis_off()
    return axes


def network_picture(named: NamedRecovery) -> Picture:
    """The network, each link as wide as the flow over it."""
    figure = _figure(named.layout, lambda axes: draw_network(named, axes))
    leads, visits = np.array(named.layout.leads), named.visits
    busiest = int(np.where(leads >= 0, visits, -1.0).argmax())
    begin, action = divmod(busiest, leads.shape[1])
    ends = f"from {named.state(begin)} to {named.state(leads[begin, action])}"
    alt = (
        f"Map of the network: lines as wide as the expected flow, dots the goals. The busiest link "
        f"is that {ends}, {short(float(visits[begin, action]))} uses by all trips."
    )
    return Picture(figure, alt, caption="Expected flows; orange dots are goals.")


@styled()
def _figure(layout: Layout, draw: Callable[[Axes], Axes]) -> str:
    low, high = np.min(layout.centres, axis=0), np.max(layout.centres, axis=0)
    tall = float(np.clip((high - low)[1] / max((high - low)[0], 1e-12), 0.4, 1.6))
    width = 3.9
    figure = new_figure(width, width * tall)
    draw(axes_at(figure, 0.05, 0.05, width - 0.1, width * tall - 0.1))
    return svg(figure)
