"""Panels of a policy on a map: an arrow an action, as long as it is likely, and their key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.lines import Line2D
from matplotlib.quiver import Quiver
from numpy.typing import ArrayLike

from tacit.model.layout import Layout
from tacit.show.canvas import (
    CELL,
    COST_MAP,
    EMPTY,
    FAINT,
    INK,
    MARKED,
    MUTED,
    PAINTED,
    PAPER,
    TINY,
    VERMILLION,
    Colour,
    plain,
    styled,
)
from tacit.show.grid import extent, frame, middles, nearest_distances, outlines, paint_cells

MOST_ARROWED = 20  # beyond it arrows are specks and the most likely action becomes a colour
WIDEST, LEAST_FLOW = 6.0, 0.002  # points, of the line of the largest flow; less is not drawn
LEAST_SHARE = 0.01  # of the probability of a state: less is drawn by no arrow
ALIKE = 0.05  # chances that differ by less say nothing about what is preferred

# Beside the room between the middle of a cell and its border: how long an arrow is that is alone
# in a cell of a grid; how far from the middle those start that are several.
_ALONE, _APART = 1.24, 0.08
# How long the likeliest of several is, and how wide a shaft, on a grid and elsewhere, where arrows
# may reach into the next cell.
_ON_GRID, _ELSEWHERE = (0.88, 0.09), (1.5, 0.054)
_HEAD = 3.4  # shafts

# What each artist of a policy is called: the words of the key.
TAKEN, TIED, STAYS = "action, as long as it is likely", "as good, not taken", "stays"
NO_PREFERENCE, NEVER_VISITED, ASSUMED = "no preference", "never visited", "moves assumed"

# How all arrows are drawn, and what stands for a state without a preference.
ARROW = {
    "angles": "xy", "scale_units": "xy", "scale": 1.0, "units": "xy", "headwidth": _HEAD,
    "headlength": _HEAD, "headaxislength": 0.85 * _HEAD, "minlength": 0.0, "minshaft": 1.0,
}  # fmt: skip
RING = {"ls": "", "marker": "o", "ms": 4, "mfc": "none", "mec": MUTED}


@styled()
def draw_policy(
    policy: ArrayLike,
    axes: Axes,
    *,
    layout: Layout,
    ties: ArrayLike | None = None,
    marked: ArrayLike | None = None,
    reference: str = "first",
    unseen: ArrayLike | None = None,
    assumed: bool = False,
) -> Axes:
    """The axes, with an arrow for every action that a state takes, as long as it is likely.

    On a grid, a state that takes one action has one arrow across its cell. One without a preference
    has a ring. Actions that are as good as those taken, but are not taken, are outlined arrows. On
    grids too large for arrows, or where actions point nowhere, the most likely action is a colour.

    Args:
        policy: [S, A] probabilities.
        axes: what to draw on.
        layout: where the states lie and where the actions point.
        ties: [S, A] whether an action is as good as those taken.
        marked: [S] whether to mark a cell, where the policy differs from another.
        reference: what that other policy is called.
        unseen: [S] whether no demonstration was there; hatched.
        assumed: whether the moves in unseen cells are assumptions; dotted.
    """
    policy = np.asarray(policy, dtype=float)[: len(middles(layout))]
    tied = np.zeros(policy.shape, bool) if ties is None else np.asarray(ties, bool)[: len(policy)]
    if has_arrows(layout):
        look = {"facecolors": CELL, "edgecolors": PAPER, "linewidths": 0.8}
        axes.add_collection(PolyCollection(outlines(layout), **look), autolim=False)
        frame(axes, layout)
        _draw_arrows(policy, tied & (policy <= LEAST_SHARE), axes, layout)
    else:
        _draw_likeliest(policy, axes, layout)
    look = {"facecolors": MARKED, "edgecolors": VERMILLION, "linewidths": 1.0}
    _fill(axes, layout, marked, label=f"differs from the {reference} policy", **look)
    name, hatch = (ASSUMED, "....") if assumed else (NEVER_VISITED, "////")
    look = {"facecolors": "none", "edgecolors": FAINT, "linewidths": 0.0, "zorder": 1.5}
    _fill(axes, layout, unseen, label=name, hatch=hatch, **look)
    return axes


def _fill(axes: Axes, layout: Layout, chosen: ArrayLike | None, **look: Any) -> None:
    """Fills or hatches the chosen cells [S], a little inside their borders; not cells like sand."""
    if chosen is not None and max(layout.rows, layout.columns) <= MOST_ARROWED:
        shapes = zip(outlines(layout), middles(layout), np.asarray(chosen, bool), strict=False)
        areas = [middle + 0.9 * (area - middle) for area, middle, wanted in shapes if wanted]
        if areas:
            axes.add_collection(PolyCollection(areas, **look), autolim=False)


def _draw_arrows(policy: np.ndarray, tied: np.ndarray, axes: Axes, layout: Layout) -> None:
    """The arrows of the actions taken and of those as good, dots for staying, and rings."""
    places, ways = middles(layout), ways_of(layout, policy.shape)
    taken = policy > LEAST_SHARE
    alike = indifferent(policy) & ~tied.any(axis=1)
    if alike.any():
        axes.plot(*places[alike].T, label=NO_PREFERENCE, **RING)
    known = np.isfinite(ways).all(axis=2)
    shown = taken & known & ~alike[:, None]
    room, longest, alone = _room(layout), 1.0, (taken | tied).sum(axis=1) == 1
    reach, width = _ON_GRID if layout.is_grid else _ELSEWHERE
    if not layout.is_grid:  # the likeliest move of the map is as long as there is room
        longest, alone = policy[shown].max(initial=LEAST_SHARE), np.zeros(len(policy), bool)
    for label, which, chances, colour in (
        (TIED, tied & known, np.ones_like(policy), PAPER),
        (TAKEN, shown, policy, INK),
    ):
        state, action = np.nonzero(which)
        way, size, share = ways[state, action], room[state], chances[state, action] / longest
        far = np.hypot(*way.T)
        length = np.where(alone[state], _ALONE * size, np.minimum(reach * share * size, far))
        begin = np.where(alone[state], -length / 2, _APART * size)
        unit = way / np.where(far > 0, far, 1.0)[:, None]
        moves = far > 0
        if moves.any():
            x, y = (places[state] + unit * begin[:, None])[moves].T
            right, up = (unit * length[:, None])[moves].T
            look = {"facecolor": colour, "edgecolor": INK, "width": width * float(np.median(room))}
            look["linewidth"] = 0.6 if label == TIED else 0.0
            axes.quiver(x, y, right, up, **ARROW, **look, zorder=3, label=label)
        if not moves.all():
            x, y = places[state[~moves]].T
            look = {"facecolor": colour, "edgecolor": INK, "linewidth": 0.6, "zorder": 3}
            axes.scatter(x, y, 24.0 * share[~moves], label=STAYS, **look)


def ways_of(layout: Layout, shape: tuple[int, ...]) -> np.ndarray:
    """[S, A, 2] the way from each state to where each action leads; NaN where nobody knows."""
    if layout.is_grid:
        return np.broadcast_to(np.array(layout.directions, dtype=float)[:, ::-1], (*shape, 2))
    if not layout.leads:
        return np.full((*shape, 2), np.nan)
    places, leads = middles(layout), np.array(layout.leads)
    return np.where(leads[..., None] >= 0, places[leads] - places[:, None], np.nan)


def has_ways(layout: Layout) -> bool:
    """Whether it is known where actions lead on the map."""
    return layout.is_map and bool(layout.directions if layout.is_grid else layout.leads)


def draw_flow_lines(visits: np.ndarray, axes: Axes, layout: Layout) -> None:
    """The moves of visits [S, A] as lines, as wide as they are frequent."""
    places = middles(layout)
    flow, ways = visits[: len(places)], ways_of(layout, visits[: len(places)].shape)
    low, high = np.sort(extent(layout), axis=1).T
    ends = places[:, None] + ways
    is_move = ways.any(axis=2) & ((low < ends) & (ends < high)).all(axis=2)
    share = flow / (flow[is_move].max(initial=0.0) or 1.0)
    is_move &= share > LEAST_FLOW
    way, start = ways[is_move], places[np.nonzero(is_move)[0]]
    # Two ways between the same places lie beside each other, as traffic does.
    start = start + 0.1 * np.stack([-way[:, 1], way[:, 0]], axis=1)
    lines = list(np.stack([start, start + 0.92 * way], axis=1))
    widths = WIDEST * share[is_move]
    axes.add_collection(LineCollection(lines, colors=INK, linewidths=widths, capstyle="butt"))


def _room(layout: Layout) -> np.ndarray:
    """[S] how far each cell reaches from its middle: half of the way to its nearest neighbour."""
    if layout.is_grid or layout.hexagon:
        return np.full(len(middles(layout)), 0.5 if layout.is_grid else 0.5 * layout.hexagon)
    near = nearest_distances(middles(layout))
    return np.maximum(0.5 * near, 0.25 * np.median(near))


def indifferent(policy: np.ndarray) -> np.ndarray:
    """[S] whether several actions are taken and none is likelier than another; ends are not."""
    taken = policy > LEAST_SHARE
    low = np.where(taken, policy, np.inf).min(axis=1, initial=np.inf)
    return (taken.sum(axis=1) > 1) & (policy.max(axis=1, initial=0.0) - low < ALIKE)


def action_colours(actions: int) -> list[Colour]:
    """One colour per action, for grids too large for arrows."""
    if actions <= len(PAINTED):
        return list(PAINTED[:actions])
    return [colormaps[COST_MAP](i / (actions - 1)) for i in range(actions)]


def has_arrows(layout: Layout) -> bool:
    """Whether `draw_policy` draws arrows on this layout, not colours."""
    if not layout.is_grid:
        return bool(layout.centres)
    return bool(layout.directions) and max(layout.rows, layout.columns) <= MOST_ARROWED


def _draw_likeliest(policy: np.ndarray, axes: Axes, layout: Layout) -> None:
    """The most likely action of each state as a colour; no preference, no colour."""
    policy = np.nan_to_num(policy)
    alike, colours = indifferent(policy), action_colours(policy.shape[1])
    likeliest = np.where(policy.any(axis=1) & ~alike, policy.argmax(axis=1), np.nan)
    norm = BoundaryNorm(np.arange(len(colours) + 1) - 0.5, len(colours))
    paint_cells(likeliest, axes, layout, norm, ListedColormap(colours), means=False)
    named = {plain(layout.action_name(a)): colour for a, colour in enumerate(colours)}
    named |= {NO_PREFERENCE: EMPTY} if alike.any() else {}
    for name, colour in named.items():
        axes.plot([], [], ls="", marker="s", ms=6, mfc=colour, mec=MUTED, mew=0.4, label=name)


@styled()
def draw_key(axes: Axes, panels: Iterable[Axes]) -> None:
    """The axes, with what the arrows or the colours of a policy mean on these panels."""
    axes.set_axis_off()
    drawn = [artist for panel in panels for artist in (*panel.collections, *panel.lines)]
    named = {str(artist.get_label()): artist for artist in drawn}
    handles = {
        name: _sample(artist) if isinstance(artist, Quiver) else artist
        for name, artist in named.items()
        if name and not name.startswith("_")
    }
    sizes = {"handlelength": 1.4, "handleheight": 0.9, "handletextpad": 0.6, "columnspacing": 1.2}
    tight = {"borderpad": 0, "borderaxespad": 0, "labelspacing": 0.35, "frameon": False}
    where = {"loc": "upper left", "bbox_to_anchor": (0, 1.6), "ncols": 1 + (len(handles) > 4)}
    axes.legend(handles.values(), handles.keys(), fontsize=TINY, **where, **sizes, **tight)


def _sample(arrows: Quiver) -> Artist:
    """An arrow for the key, in the colour of these."""
    colour = arrows.get_facecolor()[0]
    return Line2D([], [], ls="", marker="$\u279e$", ms=9, mfc=colour, mec=INK, mew=0.4)
