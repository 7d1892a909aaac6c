"""How a map of a grid is painted: a coloured number in every cell, and the bar of its colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import Normalize
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

from tacit.model.transitions import Layout
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
MOST_PARTED = 20  # beyond it lines between the cells would cover them
SMALLEST_TEXT, CLEAR_TEXT = 4.5, 5.5  # points: below the first nothing is printed

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
    areas = bool(layout.centres) and not layout.is_grid
    table = np.asarray(values, dtype=float)
    table = table[: len(layout.centres)] if areas else layout.grid(table)
    table = np.where(np.isfinite(table), table, np.nan)
    scale = Scale.of([table]) if scale is None else scale
    norm = Normalize(*(limits_of([table]) if limits is None else limits))
    drawn = (_paint_areas if areas else _paint_cells)(table, axes, layout, norm, colours)
    if not np.isfinite(table).any():
        axes.text(0.5, 0.5, missing, transform=axes.transAxes, ha="center", va="center",
                  color=MUTED, style="italic")  # fmt: skip
        return axes
    size = text_size(axes, layout, map(scale.number, table.flat))
    if size < SMALLEST_TEXT:
        return axes
    look = {"ha": "center", "va": "center_baseline", "size": size}
    cells = [(column, row) for row, column in np.ndindex(layout.rows, layout.columns)]
    for at, value in zip(layout.centres if areas else cells, table.flat, strict=False):
        # It can be read on the colour of its value.
        shade = EMPTY if np.isnan(value) else drawn.cmap(float(norm(value)))[:3]
        axes.text(*at, scale.number(value), color=ink_on(shade), **look)
    return axes


def _paint_cells(
    table: np.ndarray, axes: Axes, layout: Layout, norm: Normalize, colours: str
) -> ScalarMappable:
    """The drawn cells of a grid, each in the colour of its number."""
    axes.set_facecolor(EMPTY)
    masked = np.ma.masked_invalid(table)
    image = axes.imshow(masked, cmap=colours, norm=norm, interpolation="none")
    frame(axes, layout)
    return image


def _paint_areas(
    table: np.ndarray, axes: Axes, layout: Layout, norm: Normalize, colours: str
) -> ScalarMappable:
    """The drawn areas of the states, each in the colour of its number."""
    paint = colormaps[colours].with_extremes(bad=EMPTY)
    width = 0.8 if len(table) <= MOST_NUMBERED**2 else 0.4 if len(table) <= 400 else 0.0
    line = {"edgecolors": PAPER if width else "face", "linewidths": width or 0.2}
    drawn = PolyCollection(outlines(layout), cmap=paint, norm=norm, **line)
    drawn.set_array(np.ma.masked_invalid(table))
    axes.add_collection(drawn, autolim=False)
    frame_areas(axes, layout)
    return drawn


def outlines(layout: Layout) -> list[np.ndarray]:
    """[S] the corners [K, 2] of the area of each state: its hexagon, or all that is nearest to it.

    What is nearest to it ends at the border of the map (`extent`).
    """
    centres = np.array(layout.centres)
    if layout.hexagon:
        angles = np.pi / 6 + np.pi / 3 * np.arange(6)
        around = np.stack([np.cos(angles), np.sin(angles)], axis=1) * layout.hexagon / np.sqrt(3.0)
        return [centre + around for centre in centres]
    from scipy.spatial import Voronoi  # pyright: ignore[reportAttributeAccessIssue]

    # Mirrored at each side of the map, the centres have areas that end there.
    mirrored = [centres]
    for axis, ends in enumerate(extent(layout)):
        for end in ends:
            image = centres.copy()
            image[:, axis] = 2.0 * end - image[:, axis]
            mirrored.append(image)
    found = Voronoi(np.concatenate(mirrored))
    return [found.vertices[found.regions[found.point_region[s]]] for s in range(len(centres))]


def extent(layout: Layout) -> tuple[tuple[float, float], tuple[float, float]]:
    """(left, right) and (bottom, top) of the map of states that lie on a grid or have centres."""
    if layout.is_grid:
        return (-0.5, layout.columns - 0.5), (layout.rows - 0.5, -0.5)
    centres = np.array(layout.centres)
    low, high = centres.min(axis=0), centres.max(axis=0)
    size = float((high - low).max()) or 1.0
    pad = np.array([0.52, 0.6]) * layout.hexagon if layout.hexagon else np.full(2, 0.08 * size)
    (left, bottom), (right, top) = (low - pad).tolist(), (high + pad).tolist()
    return (left, right), (bottom, top)


def nearest_distances(centres: np.ndarray) -> np.ndarray:
    """[S] how far the nearest other of these centres [S, 2] is; 0 where there is none."""
    from scipy.spatial import cKDTree  # pyright: ignore[reportAttributeAccessIssue]

    near, _ = cKDTree(centres).query(centres, k=min(2, len(centres)))
    return near.reshape(len(centres), -1)[:, -1]


def frame_areas(axes: Axes, layout: Layout) -> None:
    """The limits of the map, without numbers: its cells have names."""
    across, up = extent(layout)
    axes.set(xlim=across, ylim=up, xticks=[], yticks=[], aspect="equal")
    axes.spines[:].set_visible(False)


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
    if not layout.is_grid:
        return Scale.of(tables, digits=2)
    if max(layout.rows, layout.columns) > MOST_NUMBERED:
        return scale
    texts = [scale.number(float(v)) for table in tables for v in np.ravel(layout.grid(table))]
    if text_size(axes, layout, texts) >= CLEAR_TEXT:
        return scale
    return Scale.of(tables, digits=2)


def frame(axes: Axes, layout: Layout) -> None:
    """Numbered rows and columns, and white lines between cells that are few."""
    largest = max(layout.rows, layout.columns)
    across, down = map_names(layout)
    for axis, labels in ((axes.xaxis, across), (axes.yaxis, down)):
        places = range(0, len(labels), _every(len(labels)))
        axis.set_ticks(places, [labels[at] for at in places])
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
    widest = max(sum(_em(character) for character in text) for text in texts)
    return min(TEXT, 0.86 * cell / widest, 0.5 * cell)


def _em(character: str) -> float:
    return _NARROW if character == "." else _DIGIT if character.isdigit() else _WIDE


@styled()
def places_figure(log: Log) -> Figure:
    """A figure of the cells, darker where more steps were taken, and of the positions in them."""
    places = log.places
    assert places is not None
    visits = np.bincount(log.demonstrations.states, minlength=places.states)
    half = places.size / 2
    low, high = places.centres.min(axis=0) - half, places.centres.max(axis=0) + half
    width = PAGE_WIDTH - 1.0
    height = float(np.clip(width * (high - low)[1] / max((high - low)[0], 1e-12), 1.5, 9.0))
    figure = new_figure(PAGE_WIDTH, height + 1.0)
    axes = axes_at(figure, 0.8, 0.4, width, height)
    shade = 0.08 + 0.62 * np.sqrt(visits / max(1, visits.max()))
    areas = places.corners() or outlines(log.layout)
    for corner, count, strength in zip(areas, visits, shade, strict=True):
        fill = (*(1 - strength * (1 - np.array([0.0, 0.447, 0.698]))), 1.0)
        axes.fill(*corner.T, facecolor=fill if count else "white", edgecolor=FAINT, lw=0.6)
    chosen = np.random.default_rng(0).permutation(len(log.points))[:DRAWN]
    axes.plot(*log.points[chosen].T, ".", color=VERMILLION, ms=2.4, alpha=0.7, mew=0)
    if places.kind == "clusters":
        axes.plot(*places.centres.T, "o", color=INK, ms=4)
    if places.states <= NAMED:
        for name, centre in zip(places.names, places.centres, strict=True):
            up = 8 if places.kind == "clusters" else 0  # above its dot
            look = {"ha": "center", "va": "center", "size": 6, "color": INK}
            axes.annotate(name, centre, (0, up), textcoords="offset points", **look)
    axes.set_aspect("equal")
    axes.margins(0.01)
    axes.ticklabel_format(style="plain", useOffset=False)
    axes.set_xlabel("to the east")
    axes.set_ylabel("to the north")
    seen, what = log.demonstrations, "clusters" if places.kind == "clusters" else "cells"
    axes.set_title(f"{places.states} {what}, {seen.steps} steps of {seen.episodes} episodes")
    middles = "   black: middles" if places.kind == "clusters" else ""
    told = f"blue: steps taken   orange: positions{middles}"
    axes.set_title(told, loc="right", size=6, color=MUTED, weight="normal")
    return figure
