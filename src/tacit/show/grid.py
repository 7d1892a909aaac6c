"""How a map of a grid is painted: a coloured number in every cell, and the bar of its colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import Colormap, Normalize
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

from tacit.model.layout import Layout
from tacit.show.canvas import (
    COST_MAP,
    EMPTY,
    FAINT,
    INK,
    MUTED,
    PAGE_WIDTH,
    PAPER,
    SMALL,
    TEXT,
    TINY,
    VERMILLION,
    VISIT_MAP,
    axes_at,
    figure_of,
    fit_text,
    ink_on,
    new_figure,
    styled,
)
from tacit.show.tables import Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tacit.data.sources import Log

MOST_NUMBERED = 9  # rows or columns; beyond it numbers in the cells are too small for print
# Most cells whose names fit into the picture of a log, and most positions that are drawn.
NAMED, DRAWN = 150, 20_000
MOST_PARTED = 20  # rows or columns; beyond it lines between the cells would cover them
MOST_EXACT = 200  # rows or columns that are drawn each, as they are
SMALLEST_TEXT, CLEAR_TEXT = 4.5, 5.5  # points: below the first nothing is printed


def limits_of(tables: Iterable[ArrayLike]) -> tuple[float, float]:
    """(low, high) over all finite numbers of the tables, never equal."""
    numbers = np.concatenate([np.zeros(0), *(np.ravel(np.asarray(t, float)) for t in tables)])
    numbers = numbers[np.isfinite(numbers)]
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
) -> Axes:
    """The axes, with one number [S] a state as the colour of its cell, and printed where it fits.

    Args:
        values: [S]; NaN is drawn as an empty cell.
        axes: what to draw on; its size decides the size of the numbers.
        layout: where the states lie.
        limits: values of the first and the last colour; those of the table unless given.
        scale: how numbers are printed; for this table alone unless given.
        colours: name of a sequential colour map.
    """
    places = middles(layout)
    table = np.asarray(values, dtype=float)[: len(places)]
    table = np.where(np.isfinite(table), table, np.nan)
    scale = Scale.of([table]) if scale is None else scale
    norm = Normalize(*(limits_of([table]) if limits is None else limits))
    paint = colormaps[colours].with_extremes(bad=EMPTY)
    paint_cells(table, axes, layout, norm, paint)
    middle: dict[str, Any] = {"ha": "center", "va": "center_baseline"}
    if not np.isfinite(table).any():
        look = {"color": MUTED, "style": "italic", "transform": axes.transAxes}
        axes.text(0.5, 0.5, "not identified", **look, **middle)
        return axes
    texts = [scale.number(value) for value in table]
    size = text_size(axes, layout, texts)
    if size >= SMALLEST_TEXT:
        for (x, y), value, text in zip(places.tolist(), table, texts, strict=True):
            # It can be read on the colour of its value.
            shade = EMPTY if np.isnan(value) else paint(float(norm(value)))[:3]
            axes.text(x, y, text, size=size, color=ink_on(shade), **middle)
    return axes


def paint_cells(
    values: np.ndarray,
    axes: Axes,
    layout: Layout,
    norm: Normalize,
    colours: Colormap,
    *,
    means: bool = True,
) -> None:
    """The cells of a map, each in the colour of its number [S].

    Of a grid of more cells than a page has dots, a dot shows their mean, or one of them.
    """
    if layout.is_grid or not layout.centres:
        axes.set_facecolor(EMPTY)
        exact = max(layout.rows, layout.columns) <= MOST_EXACT
        fine = "none" if exact else "antialiased" if means else "nearest"
        table = np.ma.masked_invalid(layout.grid(values))
        axes.imshow(table, colours, norm, interpolation=fine, interpolation_stage="data")
    else:
        # Lines between areas that are many would cover them.
        line = {"edgecolors": PAPER, "linewidths": 0.6} if len(values) <= MOST_PARTED**2 else {}
        areas = PolyCollection(outlines(layout), cmap=colours, norm=norm, **line)
        areas.set_array(np.ma.masked_invalid(values))
        axes.add_collection(areas, autolim=False)
    frame(axes, layout)


def middles(layout: Layout) -> np.ndarray:
    """[S, 2] (x, y) of the middle of each state on the map; on a grid its column and its row."""
    if not layout.is_grid:
        return np.array(layout.centres, dtype=float)
    rows, columns = np.divmod(np.arange(layout.rows * layout.columns), layout.columns)
    return np.stack([columns, rows], axis=1)


def outlines(layout: Layout) -> list[np.ndarray]:
    """[S] the corners [K, 2] of the area of each state: its cell, or all that is nearest to it.

    What is nearest to it ends at the border of the map (`extent`).
    """
    places = middles(layout)
    if layout.is_grid or layout.hexagon:
        corners, width = (
            (4, np.sqrt(2.0)) if layout.is_grid else (6, 2.0 / np.sqrt(3.0) * layout.hexagon)
        )
        angles = np.pi / corners + 2.0 * np.pi / corners * np.arange(corners)
        around = 0.5 * width * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return [place + around for place in places]
    from scipy.spatial import Voronoi  # pyright: ignore[reportAttributeAccessIssue]

    # Mirrored at each side of the map, the middles have areas that end there.
    mirrored = [places]
    for axis, ends in enumerate(extent(layout)):
        for end in ends:
            image = places.copy()
            image[:, axis] = 2.0 * end - image[:, axis]
            mirrored.append(image)
    cells = Voronoi(np.concatenate(mirrored))
    return [cells.vertices[cells.regions[cells.point_region[s]]] for s in range(len(places))]


def extent(layout: Layout) -> tuple[tuple[float, float], tuple[float, float]]:
    """(left, right) and (bottom, top) of the map of states that lie on a grid or have centres."""
    if layout.is_grid:
        return (-0.5, layout.columns - 0.5), (layout.rows - 0.5, -0.5)
    places = middles(layout)
    low, high = places.min(axis=0), places.max(axis=0)
    size = float((high - low).max()) or 1.0
    pad = np.array([0.52, 0.6]) * layout.hexagon if layout.hexagon else np.full(2, 0.08 * size)
    (left, bottom), (right, top) = (low - pad).tolist(), (high + pad).tolist()
    return (left, right), (bottom, top)


def nearest_distances(centres: np.ndarray) -> np.ndarray:
    """[S] how far the nearest other of these centres [S, 2] is; 0 where there is none."""
    from scipy.spatial import cKDTree  # pyright: ignore[reportAttributeAccessIssue]

    near, _ = cKDTree(centres).query(centres, k=min(2, len(centres)))
    return near.reshape(len(centres), -1)[:, -1]


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
    if layout.is_grid and max(layout.rows, layout.columns) > MOST_NUMBERED:
        return scale
    texts = [scale.number(float(value)) for table in tables for value in np.ravel(table)]
    is_clear = layout.is_grid and text_size(axes, layout, texts) >= CLEAR_TEXT
    return scale if is_clear else Scale.of(tables, digits=2)


def frame(axes: Axes, layout: Layout) -> None:
    """The limits of the map; of a grid its numbered rows and columns, white lines between cells."""
    across, up = extent(layout)
    axes.set(xlim=across, ylim=up, xticks=[], yticks=[], aspect="equal")
    axes.spines[:].set_visible(False)
    if not layout.is_grid:  # its cells have names
        return
    for axis, names in zip((axes.xaxis, axes.yaxis), map_names(layout), strict=True):
        places = range(0, len(names), _every(len(names)))
        axis.set_ticks(places, [names[at] for at in places])
    axes.tick_params(length=0, pad=2.5, labelsize=6, labelcolor=MUTED)
    if (largest := max(layout.rows, layout.columns)) <= MOST_PARTED:
        axes.set_xticks(np.arange(0.5, layout.columns - 1), minor=True)
        axes.set_yticks(np.arange(0.5, layout.rows - 1), minor=True)
        axes.tick_params(which="minor", length=0)
        axes.grid(which="minor", color=PAPER, lw=0.8 if largest <= MOST_NUMBERED else 0.4)


def map_names(layout: Layout) -> tuple[list[str], list[str]]:
    """What columns and rows are called: as in the names of the cells, such as A1, or by number."""
    names, (rows, columns) = layout.state_names, (layout.rows, layout.columns)
    heads = [name[:-1] for name in names[:columns]]
    wanted = [f"{head}{row + 1}" for row in range(rows) for head in heads]
    if names and all(heads) and [*names[: rows * columns]] == wanted:
        return heads, [str(row + 1) for row in range(rows)]
    return [str(n) for n in range(columns)], [str(n) for n in range(rows)]


def _every(cells: int) -> int:
    """Which rows or columns are numbered: all of a few, at most twenty of many."""
    if cells <= MOST_NUMBERED:
        return 1
    return 5 if cells <= 50 else 10 ** len(str(cells // 20))


def text_size(axes: Axes, layout: Layout, texts: Iterable[str]) -> float:
    """Points at which the widest text leaves a margin in its cell; 0 where none is printed."""
    width, height = figure_of(axes).get_size_inches() * 72.0
    box = axes.get_position()
    if layout.is_grid and max(layout.rows, layout.columns) <= MOST_NUMBERED:
        cell = min(width * box.width / layout.columns, height * box.height / layout.rows)
    elif layout.hexagon and not layout.is_grid:
        (left, right), _ = extent(layout)
        cell = width * box.width * layout.hexagon / (right - left)
    else:  # cells that are many, and places of many sizes, have no room for numbers of one
        return 0.0
    # In em: the digits of DejaVu Sans, the widest of the common fonts.
    widest = 0.64 * max(map(len, texts))
    return min(TEXT, 0.86 * cell / widest, 0.5 * cell)


@styled()
def places_figure(log: Log) -> Figure:
    """A figure of the cells, darker where more steps were taken, and of the positions in them."""
    places = log.places
    assert places is not None
    visits = np.bincount(log.demonstrations.states, minlength=places.states)
    corners = np.concatenate([places.centres - places.size / 2, places.centres + places.size / 2])
    span = np.ptp(corners, axis=0)
    width = PAGE_WIDTH - 1.0
    height = float(np.clip(width * span[1] / max(span[0], 1e-12), 1.5, 9.0))
    axes = axes_at(new_figure(PAGE_WIDTH, height + 1.0), 0.8, 0.4, width, height)
    shade = np.where(visits > 0, 0.1 + np.sqrt(visits / max(1, visits.max())), 0.0)
    look = {"cmap": VISIT_MAP, "norm": Normalize(0.0, 1.6), "edgecolors": FAINT, "linewidths": 0.6}
    cells = PolyCollection(places.corners() or outlines(log.layout), **look)
    cells.set_array(shade)
    axes.add_collection(cells)
    chosen = np.random.default_rng(0).permutation(len(log.points))[:DRAWN]
    axes.plot(*log.points[chosen].T, ".", color=VERMILLION, ms=2.4, alpha=0.7, mew=0)
    what, up, key = "cells", 0, "blue: steps taken   orange: positions"
    if places.kind == "clusters":
        what, up, key = "clusters", 8, f"{key}   black: middles"  # names stand above their dots
        axes.plot(*places.centres.T, "o", color=INK, ms=4)
    if places.states <= NAMED:
        for name, centre in zip(places.names, places.centres, strict=True):
            look = {"ha": "center", "va": "center", "size": TINY, "color": INK}
            axes.annotate(name, centre, (0, up), textcoords="offset points", **look)
    axes.set_aspect("equal")
    axes.margins(0.01)
    axes.ticklabel_format(style="plain", useOffset=False)
    axes.set(xlabel="to the east", ylabel="to the north")
    seen = log.demonstrations
    axes.set_title(f"{places.states} {what}, {seen.steps} steps of {seen.episodes} episodes")
    axes.set_title(key, loc="right", size=TINY, color=MUTED, weight="normal")
    return figure_of(axes)
