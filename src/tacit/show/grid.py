"""Panels of a grid world: a number a state, coloured and printed; an arrow an action, its key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import BoundaryNorm, ListedColormap, Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.path import Path
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

from tacit.model.names import Layout
from tacit.show.canvas import (
    BLUE,
    COST_MAP,
    INK,
    MUTED,
    ORANGE,
    PAPER,
    SKY,
    SMALL,
    TEXT,
    TINY,
    VERMILLION,
    YELLOW,
    Colour,
    figure_of,
    fit_text,
    ink_on,
    plain,
    styled,
)
from tacit.show.tables import Scale

MOST_NUMBERED = 9  # rows or columns; beyond it numbers in the cells are too small for print
MOST_PARTED = 20  # beyond it lines between the cells would cover them
SMALLEST_TEXT, CLEAR_TEXT = 4.5, 5.5  # points: below the first nothing is printed

EMPTY = "#e8e8e8"

# Widths of the glyphs of DejaVu Sans, in em: the widest of the common fonts, so that what fits
# in it fits in any other.
_NARROW, _DIGIT, _WIDE = 0.32, 0.64, 0.84


def limits_of(tables: Iterable[ArrayLike]) -> tuple[float, float]:
    """(low, high) over all finite numbers of the tables, never equal."""
    finite = [t[np.isfinite(t)] for t in (np.asarray(t, dtype=float) for t in tables)]
    numbers = np.concatenate([*finite, np.zeros(0)])
    if not numbers.size:
        return 0.0, 1.0
    low, high = float(numbers.min()), float(numbers.max())
    # A table of one number is drawn in the middle of the colours.
    pad = 0.0 if high - low > 1e-12 * max(abs(low), abs(high)) else (abs(high) or 1.0)
    return low - pad, high + pad


@styled()
def draw_values(
    values: ArrayLike,
    axes: Axes,
    *,
    layout: Layout,
    limits: tuple[float, float] | None = None,
    scale: Scale | None = None,
    colours: str = COST_MAP,
    missing: str = "not identified",
) -> Axes:
    """The axes, with one number [S] a state as the colour of its cell, and printed where it fits.

    Args:
        values: [S]; NaN is drawn as an empty cell.
        axes: what to draw on; its size decides the size of the numbers.
        layout: where the states lie.
        limits: values of the first and the last colour; those of the table unless given.
        scale: how numbers are printed; for this table alone unless given.
        colours: name of a sequential colour map.
        missing: what is said where the table holds no number at all.
    """
    table = np.ma.masked_invalid(layout.grid(np.asarray(values, dtype=float)))
    low, high = limits_of([table.filled(np.nan)]) if limits is None else limits
    scale = Scale.of([table.filled(np.nan)]) if scale is None else scale
    axes.set_facecolor(EMPTY)
    image = axes.imshow(table, cmap=colours, vmin=low, vmax=high, interpolation="none")
    frame(axes, layout)
    if table.count() == 0:
        middle = (layout.columns / 2 - 0.5, layout.rows / 2 - 0.5)
        axes.text(*middle, missing, ha="center", va="center", color=MUTED, style="italic")
        return axes
    if max(layout.rows, layout.columns) > MOST_NUMBERED:
        return axes
    numbers = [[scale.number(float(v)) for v in row] for row in table.filled(np.nan)]
    size = text_size(axes, layout, [text for row in numbers for text in row])
    if size < SMALLEST_TEXT:
        return axes
    paint, place = colormaps[colours], {"ha": "center", "va": "center_baseline", "size": size}
    for (row, column), value in np.ndenumerate(table.filled(np.nan)):
        shade = EMPTY if np.isnan(value) else paint(float(np.asarray(image.norm(value))))[:3]
        axes.text(column, row, numbers[row][column], color=ink_on(shade), **place)
    return axes


@styled()
def draw_colour_bar(
    axes: Axes, *, limits: tuple[float, float], scale: Scale, name: str, colours: str
) -> None:
    """The axes, filled with a colour bar that says its name and few numbers.

    Args:
        axes: what to fill.
        limits: values of the first and the last colour.
        scale: how numbers are printed.
        name: of what the colours show.
        colours: name of the colour map.
    """
    figure = figure_of(axes)
    shades = ScalarMappable(Normalize(*limits), colours)
    bar = figure.colorbar(shades, cax=axes, orientation="horizontal")
    ticks = [t for t in MaxNLocator(4).tick_values(*limits) if limits[0] <= t <= limits[1]]
    bar.ax.xaxis.set_major_locator(FixedLocator(ticks))
    bar.ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: scale.tick(value)))
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    bar.ax.tick_params(labelsize=TINY, length=2, pad=2)
    bar.set_label(scale.label(name), size=SMALL, labelpad=2)
    fit_text(bar.ax.xaxis.label, bar.ax)


def cell_scale(axes: Axes, layout: Layout, tables: Sequence[np.ndarray]) -> Scale:
    """Three digits if they can be read in the cells of these axes, two if not."""
    scale = Scale.of(tables)
    if max(layout.rows, layout.columns) > MOST_NUMBERED:
        return scale
    texts = [scale.number(float(v)) for table in tables for v in np.ravel(layout.grid(table))]
    if text_size(axes, layout, texts) >= CLEAR_TEXT:
        return scale
    return Scale.of(tables, digits=2)


def frame(axes: Axes, layout: Layout) -> None:
    """Numbered rows and columns, and white lines between cells that are few."""
    largest = max(layout.rows, layout.columns)
    axes.set_xticks(range(0, layout.columns, _every(layout.columns)))
    axes.set_yticks(range(0, layout.rows, _every(layout.rows)))
    axes.tick_params(length=0, pad=2.5, labelsize=6, labelcolor=MUTED)
    axes.spines[:].set_visible(False)
    axes.set(xlim=(-0.5, layout.columns - 0.5), ylim=(layout.rows - 0.5, -0.5))
    if largest > MOST_PARTED:
        return
    width = 0.8 if largest <= MOST_NUMBERED else 0.4
    down = [[(x - 0.5, -0.5), (x - 0.5, layout.rows - 0.5)] for x in range(1, layout.columns)]
    across = [[(-0.5, y - 0.5), (layout.columns - 0.5, y - 0.5)] for y in range(1, layout.rows)]
    axes.add_collection(
        LineCollection(down + across, colors=PAPER, linewidths=width), autolim=False
    )


def _every(cells: int) -> int:
    """Which rows or columns are numbered: all of a few, at most twenty of many."""
    if cells <= MOST_NUMBERED:
        return 1
    return 5 if cells <= 50 else 10 ** len(str(cells // 20))


def text_size(axes: Axes, layout: Layout, texts: list[str]) -> float:
    """Points at which the widest text leaves a margin in its cell."""
    figure = figure_of(axes)
    width, height = figure.get_size_inches() * 72.0
    box = axes.get_position()
    cell = min(width * box.width / layout.columns, height * box.height / layout.rows)
    widest = max(sum(_em(character) for character in text) for text in texts)
    return min(TEXT, 0.86 * cell / widest, 0.5 * cell)


def _em(character: str) -> float:
    return _NARROW if character == "." else _DIGIT if character.isdigit() else _WIDE


MOST_ARROWED = 20  # beyond it arrows are specks and the most likely action becomes a colour
LEAST_SHARE = 0.01  # of the probability of a state: less is drawn by no arrow

CELL, MARKED = "#f3f3f1", "#fbdcc4"
# Four steps from dark to bright, for the actions of a grid that is too large for arrows.
_ACTIONS = (BLUE, VERMILLION, SKY, YELLOW, INK, ORANGE, PAPER)

_WIDTH, _HEAD = 0.055, 4.0  # of an arrow's shaft, in cells; of its head, in shafts
_ALONE, _SHORT, _LONG = 0.62, 0.23, 0.33  # lengths in cells: alone, and of a share 0 and 1
_APART = 0.13  # from the middle of the cell, where several arrows start: no head meets another


@styled()
def draw_policy(
    policy: ArrayLike,
    axes: Axes,
    *,
    layout: Layout,
    ties: ArrayLike | None = None,
    marked: ArrayLike | None = None,
) -> Axes:
    """The axes, with an arrow for every action that a state takes.

    A state that takes one action has one arrow; a mixed one has an arrow for each, longer for more
    likely ones. Actions that are as good as those taken, but are not taken, are outlined arrows. On
    grids too large for arrows, or where actions point nowhere, the most likely action is a colour.

    Args:
        policy: [S, A] probabilities.
        axes: what to draw on.
        layout: where the states lie and where the actions point.
        ties: [S, A] whether an action is as good as those taken.
        marked: [S] whether to mark a cell.
    """
    cells = layout.rows * layout.columns
    policy = np.asarray(policy, dtype=float)[:cells]
    taken = policy > LEAST_SHARE
    if not has_arrows(layout):
        return _draw_likeliest(policy, axes, layout)
    tied = np.zeros_like(taken) if ties is None else np.asarray(ties, bool)[:cells] & ~taken
    marks = np.zeros(cells, bool) if marked is None else np.asarray(marked, bool)[:cells]
    _background(axes, layout, marks)
    alone = (taken | tied).sum(axis=1) == 1
    length = np.where(alone[:, None], _ALONE, _SHORT + (_LONG - _SHORT) * policy)
    outlined = np.full_like(length, (_SHORT + _LONG) / 2)
    _arrows(axes, layout, taken, length, alone, label="taken", colour=INK)
    _arrows(axes, layout, tied, outlined, alone, label="tied", colour=PAPER)
    return axes


def differs(policy: ArrayLike, reference: ArrayLike, ties: ArrayLike | None = None) -> np.ndarray:
    """[S] whether two policies overlap in less than half of their probability.

    What a policy does counts as the same where the reference finds the action as good.
    """
    policy, reference = np.asarray(policy, dtype=float), np.asarray(reference, dtype=float)
    overlap = np.minimum(policy, reference).sum(axis=1)
    if ties is not None:
        overlap = np.maximum(overlap, (policy * np.asarray(ties, bool)).sum(axis=1))
    return overlap < 0.5


def action_colours(actions: int) -> list[Colour]:
    """One colour per action, for grids too large for arrows."""
    if actions <= len(_ACTIONS):
        return list(_ACTIONS[:actions])
    return [colormaps[COST_MAP](i / (actions - 1)) for i in range(actions)]


def has_arrows(layout: Layout) -> bool:
    """Whether `draw_policy` draws arrows on this layout, not colours."""
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
    units = {"angles": "xy", "scale_units": "xy", "scale": 1.0, "units": "xy"}
    shape = {"width": _WIDTH, "headwidth": _HEAD, "headlength": _HEAD, "minlength": 0.0}
    filled = colour == INK
    look = {"facecolor": colour, "edgecolor": INK, "linewidth": 0.0 if filled else 0.6}
    axes.quiver(*ends, **units, **shape, **look, headaxislength=0.85 * _HEAD, minshaft=1.0,
                zorder=3 if filled else 2.9, label=label)  # fmt: skip


def _background(axes: Axes, layout: Layout, marked: np.ndarray) -> None:
    """Plain cells; the marked ones filled and framed, so that a copy in grey shows them too."""
    axes.imshow(
        layout.grid(marked.astype(float)),
        cmap=ListedColormap([CELL, MARKED]),
        vmin=0,
        vmax=1,
        interpolation="none",
    )
    frame(axes, layout)
    frames = [
        Rectangle((state % layout.columns - 0.45, state // layout.columns - 0.45), 0.9, 0.9)
        for state in np.flatnonzero(marked)
    ]
    if frames:
        axes.add_collection(
            PatchCollection(frames, facecolor="none", edgecolor=VERMILLION, linewidth=1.0),
            autolim=False,
        )


def _draw_likeliest(policy: np.ndarray, axes: Axes, layout: Layout) -> Axes:
    """The axes, with the most likely action of each state as a colour; no policy, no colour."""
    known = np.asarray(np.isfinite(policy).all(axis=1))
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
    axes: Axes, layout: Layout, actions: int, *, tied: bool, mixed: bool, first: str = ""
) -> None:
    """What the arrows, or the colours, mean; only what occurs is explained.

    Args:
        axes: what to draw on.
        layout: where the actions point.
        actions: how many there are.
        tied: whether actions as good, but not taken, are drawn.
        mixed: whether a state takes several actions.
        first: the policy that marked cells differ from; empty where none is marked.
    """
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    handles: list[tuple[Artist, str]] = []
    if has_arrows(layout):
        handles.append((_sample(INK), "action taken" + (", longer if likelier" if mixed else "")))
        if tied:
            handles.append((_sample(PAPER), "as good, not taken"))
        if first:
            frame = Rectangle((0, 0), 1, 1, facecolor=MARKED, edgecolor=VERMILLION, linewidth=1)
            handles.append((frame, f"differs from the {first} policy"))
    else:
        for action, colour in enumerate(action_colours(actions)):
            patch = Rectangle((0, 0), 1, 1, facecolor=colour, edgecolor=MUTED, linewidth=0.4)
            handles.append((patch, plain(layout.action_name(action))))
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
