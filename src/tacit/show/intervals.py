"""Intervals and levels on axes: a row a number, marks of several beside each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from tacit.errors import InvalidModel
from tacit.show.canvas import (
    FAINT,
    MUTED,
    ROW,
    TINY,
    legend_above,
    plain,
    row_axes,
    series_colour,
    series_mark,
    styled,
)
from tacit.show.quantities import MOST_ROWS, Group
from tacit.show.tables import short

DECADES = 30.0  # how far an axis must reach for powers of ten alone to be its numbers
_BESIDE = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}


def draw_level(axes: Axes, level: float | None, name: str, colour: str) -> None:
    """A dashed line at that level, its name on its left end: what converges starts elsewhere."""
    logarithmic = axes.get_yscale() == "log"
    if level is None or not np.isfinite(level) or (logarithmic and level <= 0):
        return
    axes.axhline(level, color=colour, ls=(0, (4, 2.5)), lw=0.9, zorder=1.5)
    low, high = axes.get_ylim()
    low = min(low, level * 0.7 if logarithmic else level)
    top = level * (high / low) ** 0.1 if logarithmic else level + 0.1 * (high - low)
    axes.set_ylim(low, max(high, top))  # there is room for the name
    look = {"ha": "left", "va": "bottom", "size": TINY, "color": colour}
    axes.annotate(plain(name), (0, level), xytext=(2, 1.5), **_BESIDE, **look)


def tidy_values(axes: Axes) -> None:
    """Few numbers and faint lines on the upright axis, that of the values."""
    _few_numbers(axes.yaxis, axes.get_ylim(), most=6)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="both", labelcolor=MUTED)


def _few_numbers(axis: XAxis | YAxis, limits: tuple[float, float], *, most: int) -> None:
    """Round numbers, at most so many, and a faint line at each."""
    axis.grid(color=FAINT)
    axis.set_tick_params(length=0)
    low, high = limits
    if axis.get_scale() == "log" and high > DECADES * low:
        axis.set_major_locator(LogLocator(numticks=most))
    else:
        axis.set_major_locator(MaxNLocator(most - 1, steps=[1, 2, 2.5, 5, 10]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))


def tidy_rows(axes: Axes, rows: int) -> None:
    """Rows from top to bottom, few numbers, faint upright lines."""
    axes.set_ylim(max(1, rows) - 0.5, -0.5)
    _few_numbers(axes.xaxis, axes.get_xlim(), most=5)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelcolor=MUTED)
    axes.spines["left"].set_visible(False)


@styled()
def draw_beside(groups: Mapping[str, Group], axes: Axes | None, label: str) -> Axes:
    """The axes, with numbers of the same name in one row, a mark and an interval for each group.

    An infinite end is an arrow at the edge.

    Args:
        groups: who -> name -> number; what only some have stands for those alone.
        axes: what to draw on; a new figure unless given.
        label: of the numbers.
    """
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    if not names:
        raise InvalidModel("nothing here was identified, so there is nothing to draw")
    if len(names) > MOST_ROWS:
        label += f" ({MOST_ROWS} of {len(names)})"
    places = {name: row for row, name in enumerate(names[:MOST_ROWS])}
    axes = row_axes(axes, len(places), list(places), each=max(ROW, 0.11 * len(groups)))
    numbers = [n for group in groups.values() for one in group.values() for n in astuple(one)]
    finite = [number for number in numbers if np.isfinite(number)]
    left, right = 1.04 * min([0.0, *finite]), 1.04 * max([0.0, *finite]) or 1.0
    width = 5 if len(groups) == 1 else 3
    for k, (who, group) in enumerate(groups.items()):
        colour, mark = series_colour(k), series_mark(k)
        for name in filter(places.__contains__, group):
            one, y = group[name], places[name] + 0.6 * ((k + 0.5) / len(groups) - 0.5)
            ends = np.clip([one.low, one.high], left, right)
            axes.plot(ends, [y, y], color=colour, lw=width, alpha=0.35, solid_capstyle="butt")
            for end, edge, arrow in ((one.low, left, "<"), (one.high, right, ">")):
                if np.isinf(end):
                    axes.plot(edge, y, marker=arrow, ms=width + 1, color=colour, clip_on=False)
            axes.plot(one.value, y, ls="", marker=mark, ms=5, color=colour, clip_on=False)
        if len(groups) > 1:
            axes.plot([], [], marker=mark, ms=5, lw=3, color=colour, label=plain(who))
    axes.set(xlabel=label, xlim=(left, right))
    tidy_rows(axes, len(places))
    if left < 0:
        axes.axvline(0.0, color=MUTED, lw=0.7)
    if len(groups) > 1:
        axes.legend(**legend_above(len(groups)))
    return axes
