"""Which maps of a grid world a page shows, reward, costs, policy and visits, to point at."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tacit.model.layout import Layout
from tacit.search.algebra import first_largest, largest_first
from tacit.show import Block, Cells, Gallery, Picture
from tacit.show.arrows import draw_key, draw_policy
from tacit.show.canvas import (
    COST_MAP,
    REWARD_MAP,
    VISIT_MAP,
    axes_at,
    box_of,
    fit_text,
    new_figure,
    plain,
    styled,
    svg,
)
from tacit.show.curves import points_on
from tacit.show.grid import cell_scale, draw_colour_bar, draw_values, extent, limits_of, middles
from tacit.show.quantities import NamedRecovery
from tacit.show.tables import MISSING, Head, Scale, Table, cell, short

MOST_TOLD = 26_000  # values that can be pointed at, all maps together
MOST_LISTED = 200  # hard constraints
FEW = 2_500  # cells whose values are told in full

_WIDTH = 3.0  # inches of a map
_LEFT, _RIGHT, _TITLE, _BELOW = 0.24, 0.06, 0.26, 0.62


def map_gallery(named: NamedRecovery) -> Gallery:
    """The maps side by side; those of several costs share their colours."""
    layout, cells, pointable = named.layout, len(middles(named.layout)), are_pointable(named)
    limits = limits_of(named.costs[:, :cells])
    shares, bar = 100.0 * named.time, "share of its time, in %"
    pictures = [
        value_map(layout, named.reward, "reward", colours=REWARD_MAP, pointable=pointable),
        *(
            value_map(layout, cost, named.cost_title(k), limits=limits, pointable=pointable)
            for k, cost in enumerate(named.costs)
        ),
        policy_map(named, pointable=pointable),
        value_map(
            layout, shares, "visits", colours=VISIT_MAP, unit=" %", bar=bar, pointable=pointable
        ),
    ]
    return Gallery(pictures)


def are_pointable(named: NamedRecovery) -> bool:
    """Whether the values of all maps can be pointed at, and the page stays small."""
    return len(middles(named.layout)) * (3 + named.constraints) <= MOST_TOLD


def forbidden_blocks(named: NamedRecovery) -> list[Block]:
    """What is forbidden and what is undecided: a map of the states, and a table of all."""
    recovery = named.recovery
    candidates = [*recovery.forbidden, *recovery.undecided]
    if not candidates:
        return []
    suspicion = np.full(named.states, np.nan)
    for one in reversed(candidates):  # the least suspicious first: others overwrite it
        allowed = one.allowed if np.isfinite(one.allowed) else 0.5
        sure = one in recovery.forbidden
        suspicion[list(one.states)] = 1.0 if sure else min(1.0 - allowed, 0.99)
    blocks: list[Block] = []
    if named.layout.is_map and np.isfinite(suspicion).any():
        bar = "1 where forbidden, else the posterior chance"
        scale = {"limits": (0.0, 1.0), "bar": bar, "pointable": are_pointable(named)}
        blocks.append(Gallery([value_map(named.layout, suspicion, "forbidden", **scale)]))
    simplest, listed = {one.name for one in recovery.simplest}, candidates[:MOST_LISTED]
    verdicts = ["forbidden"] * len(recovery.forbidden) + ["undecided"] * len(recovery.undecided)
    columns = {
        Head("What"): [one.name for one in listed],
        Head("Kind"): [one.kind for one in listed],
        Head("Verdict"): verdicts[:MOST_LISTED],
        Head("Allowed", "posterior chance"): [one.allowed for one in listed],
        Head("Strict", "whatever else is forbidden"): [cell(one.strict) for one in listed],
        Head("Simplest", "part of the simplest explanation, which has no error rate"): [
            cell(one.name in simplest) for one in listed
        ],
        Head("p-value", "if it is allowed, given what else was found"): [
            one.p_value for one in listed
        ],
        Head("More", "demonstrations that would tell, about; ∞: none would"): [
            one.more for one in listed
        ],
        Head("Or", "one of the two is forbidden"): [one.rival or MISSING for one in listed],
    }
    note = f"The {MOST_LISTED} first of {len(candidates)}." if len(candidates) > MOST_LISTED else ""
    table = Table.of("Forbidden and undecided", columns.items(), note, listed=True)
    return [*blocks, table]


def value_map(
    layout: Layout,
    values: np.ndarray,
    title: str,
    *,
    colours: str = COST_MAP,
    limits: tuple[float, float] | None = None,
    unit: str = "",
    bar: str = "",
    pointable: bool = True,
) -> Picture:
    """The picture of one number [S] a state.

    Args:
        layout: where the states lie.
        values: [S]; NaN is drawn as an empty cell.
        title: what they are.
        colours: name of a sequential colour map.
        limits: values of the first and the last colour; those of the table unless given.
        unit: what follows a number.
        bar: what stands under the colour bar; the title unless given.
        pointable: whether each value can be pointed at.
    """
    table = np.asarray(values, dtype=float)[: len(middles(layout))]
    limits = limits_of([table]) if limits is None else limits
    figure, axes, below = _panels(layout, title)
    scale = cell_scale(axes, layout, [table])
    draw_values(table, axes, layout=layout, limits=limits, scale=scale, colours=colours)
    if np.isfinite(table).any():
        ends = Scale.of([limits])
        draw_colour_bar(below, limits=limits, scale=ends, name=bar or title, colours=colours)
        low, high = first_largest(-table), first_largest(table)
        alt = (
            f"Map of {title}. Lowest {short(table[low])}{unit} at {layout.state_name(low)}, "
            f"highest {short(table[high])}{unit} at {layout.state_name(high)}."
        )
    else:
        below.set_axis_off()
        alt = f"Map of {title}: not identified."
    digits = 3 if len(table) <= FEW else 2
    texts = [f"{short(v, digits=digits)}{unit}" for v in table] if pointable else []
    picture = _picture(figure, layout, title, texts, alt)
    return replace(picture, bright=colours == VISIT_MAP)


def policy_map(named: NamedRecovery, *, pointable: bool = True) -> Picture:
    """The picture of what is done in each cell."""
    layout = named.layout
    policy = named.policy[: len(middles(layout))]
    figure, axes, below = _panels(layout, "policy")
    draw_policy(policy, axes, layout=layout, unseen=named.unseen, assumed=named.assumed)
    draw_key(below, [axes])
    most = 3 if len(policy) <= FEW else 1
    texts = [named.action_shares(chances, most=most) for chances in policy] if pointable else []
    counts = np.bincount(policy.argmax(axis=1), minlength=named.actions)
    common = [f"{named.action(a)} in {counts[a]}" for a in largest_first(counts)[:4]]
    alt = f"Map of the policy. Likeliest action: {', '.join(common)} cells."
    return _picture(figure, layout, "policy", texts, alt)


@styled()
def _panels(layout: Layout, title: str) -> tuple[Figure, Axes, Axes]:
    """A figure as tall as its map asks, the axes of the map, and those of what explains it."""
    (left, right), (bottom, top) = extent(layout)
    width = _WIDTH - _LEFT - _RIGHT
    height = width * float(np.clip(abs(top - bottom) / (right - left), 0.3, 2.2))
    figure = new_figure(_WIDTH, _TITLE + height + _BELOW)
    axes = axes_at(figure, _LEFT, _TITLE, width, height)
    fit_text(axes.set_title(plain(title)), axes)
    return figure, axes, axes_at(figure, _LEFT, _TITLE + height + 0.24, width, 0.09)


def _picture(figure: Figure, layout: Layout, title: str, texts: list[str], alt: str) -> Picture:
    """The drawn map, its values [S] to be pointed at, where there are any."""
    axes, cells = figure.axes[0], []
    axes.set_aspect("auto")
    names = layout.state_names[: len(texts)]
    if texts and layout.is_grid:
        rows, columns = layout.rows, layout.columns
        box = box_of(axes)
        cells = [Cells(title, box, rows=rows, columns=columns, values=texts, names=names)]
    elif texts:
        cells = [points_on(axes, title, middles(layout), texts, names)]
    return Picture(svg(figure), alt, cells=cells)
