"""Panels of a policy on a grid: an arrow an action, as long as it is likely, and their key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection, PolyCollection
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.path import Path
from numpy.typing import ArrayLike

from tacit.model.transitions import Layout
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
from tacit.show.grid import frame, frame_areas, nearest_distances, outlines

MOST_ARROWED = 20  # beyond it arrows are specks and the most likely action becomes a colour
LEAST_SHARE = 0.01
"""Share of the probability of a state below which no arrow is drawn."""

_WIDTH, _HEAD = 0.045, 3.4  # of an arrow's shaft, in cells; of its head, in shafts
_ALONE, _LONG = 0.62, 0.44  # lengths in cells: alone, and of a share of 1 among several
_APART = 0.04  # from the middle of the cell, where several arrows start
ALIKE = 0.05  # chances that differ by less say nothing about what is preferred

# How all arrows are drawn, and what stands for a state without a preference.
ARROW = {
    "angles": "xy", "scale_units": "xy", "scale": 1.0, "units": "xy", "headwidth": _HEAD,
    "headlength": _HEAD, "headaxislength": 0.85 * _HEAD, "minlength": 0.0, "minshaft": 1.0,
}  # fmt: skip
RING = {"ls": "", "marker": "o", "ms": 4, "mfc": "none", "mec": MUTED}
NO_PREFERENCE, NEVER_VISITED, ASSUMED = "no preference", "never visited", "moves assumed"


@styled()
def draw_policy(
    policy: ArrayLike,
    axes: Axes,
    *,
    layout: Layout,
    ties: ArrayLike | None = None,
    marked: ArrayLike | None = None,
    unseen: ArrayLike | None = None,
    assumed: bool = False,
) -> Axes:
    """The axes, with an arrow for every action that a state takes, as long as it is likely.

    A state that takes one action has one arrow across its cell; a mixed one has an arrow for each,
    its length in proportion to its chance; one without a preference has a ring. Actions that are as
    good as those taken, but are not taken, are outlined arrows. On grids too large for arrows, or
    where actions point nowhere, the most likely action is a colour.

    Args:
        policy: [S, A] probabilities.
        axes: what to draw on.
        layout: where the states lie and where the actions point.
        ties: [S, A] whether an action is as good as those taken.
        marked: [S] whether to mark a cell.
        unseen: [S] whether no demonstration was there; hatched.
        assumed: whether the moves in unseen cells are assumptions; dotted.
    """
    cells = layout.rows * layout.columns if layout.is_grid else len(layout.centres)
    policy = np.asarray(policy, dtype=float)[:cells]
    taken = policy > LEAST_SHARE
    hatched = np.zeros(cells, bool) if unseen is None else np.asarray(unseen, bool)[:cells]
    if layout.centres and not layout.is_grid:
        return _draw_leads(policy, axes, layout, hatched, assumed)
    if has_arrows(layout):
        tied = np.zeros_like(taken) if ties is None else np.asarray(ties, bool)[:cells] & ~taken
        marks = np.zeros(cells, bool) if marked is None else np.asarray(marked, bool)[:cells]
        _background(axes, layout, marks)
        alike = indifferent(policy) & ~tied.any(axis=1)
        alone = (taken | tied).sum(axis=1) == 1
        shown = taken & ~alike[:, None]
        length = np.where(alone[:, None], _ALONE, _LONG * policy)
        _arrows(axes, layout, shown, length, alone, label="taken", colour=INK)
        _arrows(axes, layout, tied, np.full_like(length, _LONG), alone, label="tied", colour=PAPER)
        if alike.any():
            rows, columns = np.divmod(np.flatnonzero(alike), layout.columns)
            axes.plot(columns, rows, label=NO_PREFERENCE, **RING)
    else:
        _draw_likeliest(policy, axes, layout)
    if max(layout.rows, layout.columns) <= MOST_ARROWED:
        for state in np.flatnonzero(hatched).tolist():
            axes.add_patch(_unseen(state % layout.columns, state // layout.columns, assumed))
    return axes


def _draw_leads(
    policy: np.ndarray, axes: Axes, layout: Layout, unseen: np.ndarray, assumed: bool
) -> Axes:
    """The axes, with an arrow from the middle of each state to where its actions lead."""
    areas = outlines(layout)
    plain_look = {"facecolors": CELL, "edgecolors": PAPER, "linewidths": 0.8}
    axes.add_collection(PolyCollection(areas, **plain_look), autolim=False)
    frame_areas(axes, layout)
    if unseen.any():
        look = {"facecolors": "none", "edgecolors": FAINT, "linewidths": 0.0}
        hatched = [area for area, one in zip(areas, unseen, strict=True) if one]
        marks = "...." if assumed else "////"
        axes.add_collection(PolyCollection(hatched, hatch=marks, **look), autolim=False)
    if not layout.leads:
        return axes
    centres, leads = np.array(layout.centres), np.array(layout.leads)
    alike = indifferent(policy)
    state, action = np.nonzero((policy > LEAST_SHARE) & (leads >= 0) & ~alike[:, None])
    away = centres[leads[state, action]] - centres[state]
    far = np.hypot(*away.T)
    room = _room(centres, layout)[state]
    # In proportion to their chances, the likeliest move of the map as long as there is room.
    shares = policy[state, action]
    longest = float(shares[far > 0].max(initial=LEAST_SHARE))
    length = np.minimum(1.6 * shares / longest * room, far)
    step = away * np.divide(length, far, out=np.zeros_like(far), where=far > 0)[:, None]
    still = far == 0
    if still.any():
        size = 24.0 * shares[still] / max(longest, float(shares.max()))
        axes.scatter(*centres[state[still]].T, s=size, color=INK, lw=0, zorder=3, label="stay")
    look = {"color": INK, "width": 1.2 * _WIDTH * float(np.median(_room(centres, layout)))}
    ends = (*centres[state[~still]].T, *step[~still].T)
    axes.quiver(*ends, **ARROW, **look, zorder=3, label="taken")
    if alike.any():
        axes.plot(*centres[alike].T, label=NO_PREFERENCE, **RING)
    return axes


def _room(centres: np.ndarray, layout: Layout) -> np.ndarray:
    """[S] half of the way from each state to its nearest neighbour: as far as arrows may reach."""
    if layout.hexagon:
        return np.full(len(centres), 0.5 * layout.hexagon)
    near = nearest_distances(centres)
    return np.maximum(0.5 * near, 0.25 * np.median(near))


def indifferent(policy: np.ndarray) -> np.ndarray:
    """[S] whether several actions are taken and none is likelier than another; ends are not."""
    taken = policy > LEAST_SHARE
    low = np.where(taken, policy, np.inf).min(axis=1, initial=np.inf)
    return (taken.sum(axis=1) > 1) & (policy.max(axis=1, initial=0.0) - low < ALIKE)


def _unseen(column: float, row: float, assumed: bool) -> Rectangle:
    """The hatching of a cell where nobody was seen."""
    look = {"facecolor": "none", "edgecolor": FAINT, "linewidth": 0.0, "zorder": 1.5}
    hatch = "...." if assumed else "////"
    return Rectangle((column - 0.5, row - 0.5), 1, 1, hatch=hatch, **look)


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


def _arrows(
    axes: Axes,
    layout: Layout,
    shown: np.ndarray,
    length: np.ndarray,
    centred: np.ndarray,
    *,
    label: str,
    colour: str,
) -> None:
    """One quiver with an arrow of that length for every (state, action) shown."""
    if not shown.any():
        return
    state, action = np.nonzero(shown)
    step = np.array(layout.directions, dtype=float)[action]  # (row, column)
    norm = np.linalg.norm(step, axis=1, keepdims=True)
    step = np.divide(step, norm, out=np.zeros_like(step), where=norm > 0)
    reach = length[state, action][:, None]
    middle = np.stack(np.divmod(state, layout.columns), axis=1).astype(float)
    start = middle + step * np.where(centred[state][:, None], -reach / 2, _APART)
    step *= reach
    still = norm[:, 0] == 0
    if still.any():  # to stay is a dot
        dot = {"ls": "", "marker": "o", "ms": 4, "mfc": colour, "mec": INK}
        axes.plot(middle[still, 1], middle[still, 0], label=f"{label}: stay", **dot)
    moving = ~still
    ends = (start[moving, 1], start[moving, 0], step[moving, 1], step[moving, 0])
    filled = colour == INK
    look = {"facecolor": colour, "edgecolor": INK, "linewidth": 0.0 if filled else 0.6}
    order = 3 if filled else 2.9
    axes.quiver(*ends, **ARROW, **look, width=_WIDTH, zorder=order, label=label)


def _background(axes: Axes, layout: Layout, marked: np.ndarray) -> None:
    """Plain cells; the marked ones filled and framed, so that a copy in grey shows them too."""
    axes.set_facecolor(CELL)
    frame(axes, layout)
    frames = [
        Rectangle((state % layout.columns - 0.45, state // layout.columns - 0.45), 0.9, 0.9)
        for state in np.flatnonzero(marked)
    ]
    if frames:
        axes.add_collection(
            PatchCollection(frames, facecolor=MARKED, edgecolor=VERMILLION, linewidth=1.0),
            autolim=False,
        )


def _draw_likeliest(policy: np.ndarray, axes: Axes, layout: Layout) -> Axes:
    """The axes, with the most likely action of each state as a colour; no preference, no colour."""
    known = np.asarray(np.isfinite(policy).all(axis=1)) & ~indifferent(np.nan_to_num(policy))
    known &= np.nan_to_num(policy).any(axis=1)
    likeliest = np.where(known, np.where(known[:, None], policy, 0.0).argmax(axis=1), np.nan)
    colours = action_colours(policy.shape[1])
    axes.set_facecolor(EMPTY)
    axes.imshow(
        np.ma.masked_invalid(layout.grid(likeliest)),
        cmap=ListedColormap(colours),
        norm=BoundaryNorm(np.arange(len(colours) + 1) - 0.5, len(colours)),
        interpolation="none",
    )
    frame(axes, layout)
    return axes


@styled()
def draw_key(
    axes: Axes,
    layout: Layout,
    actions: int,
    *,
    tied: bool,
    mixed: bool,
    first: str = "",
    also: Sequence[str] = (),
) -> None:
    """What the arrows, or the colours, mean; only what occurs is explained.

    Args:
        axes: what to draw on.
        layout: where the actions point.
        actions: how many there are.
        tied: whether actions as good, but not taken, are drawn.
        mixed: whether a state takes several actions.
        first: the policy that marked cells differ from; empty where none is marked.
        also: which of no preference, never visited and moves assumed are drawn.
    """
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    handles: list[tuple[Artist, str]] = []
    if has_arrows(layout):
        handles.append(
            (_sample(INK), "action" + (", as long as it is likely" if mixed else " taken"))
        )
        if tied:
            handles.append((_sample(PAPER), "as good, not taken"))
        if first:
            frame = Rectangle((0, 0), 1, 1, facecolor=MARKED, edgecolor=VERMILLION, linewidth=1)
            handles.append((frame, f"differs from the {first} policy"))
    else:
        for action, colour in enumerate(action_colours(actions)):
            patch = Rectangle((0, 0), 1, 1, facecolor=colour, edgecolor=MUTED, linewidth=0.4)
            handles.append((patch, plain(layout.action_name(action))))
    if NO_PREFERENCE in also:
        grey = Rectangle((0, 0), 1, 1, facecolor=EMPTY, edgecolor=MUTED, linewidth=0.4)
        handles.append((Line2D([], [], **RING) if has_arrows(layout) else grey, NO_PREFERENCE))
    for name in (NEVER_VISITED, ASSUMED):
        if name in also:
            handles.append((_unseen(0.5, 0.5, name == ASSUMED), name))
    marks, labels = [mark for mark, _ in handles], [label for _, label in handles]
    sizes = {"handlelength": 1.4, "handleheight": 0.9, "handletextpad": 0.6, "columnspacing": 1.2}
    tight = {"borderpad": 0, "borderaxespad": 0, "labelspacing": 0.35, "frameon": False}
    columns = 1 if has_arrows(layout) else 2
    where = {"loc": "upper left", "bbox_to_anchor": (0, 1.6), "ncols": columns}
    axes.legend(marks, labels, fontsize=TINY, **where, **sizes, **tight)


def _sample(colour: str) -> Line2D:
    """An arrow for the key."""
    upper = [(-1, -0.2), (0.1, -0.2), (0.1, -0.75), (1, 0)]
    arrow = Path([*upper, *((x, -y) for x, y in reversed(upper[:-1])), upper[0]])
    return Line2D([], [], ls="", marker=arrow, ms=9, mfc=colour, mec=INK, mew=0.6)
