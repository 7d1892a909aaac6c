"""Intervals and levels on axes: a row a number, marks of several beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

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
from tacit.show.grid import limits_of
from tacit.show.tables import log_ticks, short

MOST_ROWS = 24  # of a chart with a row each
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
    if axis.get_scale() == "log":
        axis.set_major_locator(FixedLocator(log_ticks(*limits, most=most)))
        axis.set_minor_locator(NullLocator())
    else:
        axis.set_major_locator(MaxNLocator(most - 1, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))


@dataclass(frozen=True)
class Interval:
    """What is known about one number.

    Attributes:
        name: of the number.
        estimate: the best guess; NaN where there is none.
        low: lower end; minus infinity where there is none.
        high: upper end; infinity where there is none.
    """

    name: str
    estimate: float
    low: float
    high: float


@styled()
def draw_intervals(
    intervals: Sequence[Interval], axes: Axes, *, limits: tuple[float, float] | None = None
) -> Axes:
    """The axes, with a row per number: its interval and its estimate.

    Args:
        intervals: from top to bottom.
        axes: what to draw on.
        limits: of the axis; wide enough for everything finite unless given. An infinite end is an
            arrow at the edge.
    """
    ends = [(i.estimate, i.low, i.high) for i in intervals]
    finite = [float(x) for row in ends for x in row if np.isfinite(x)]
    left, right = limits or (min([0.0, *finite]), max(finite, default=1.0) * 1.04 or 1.0)
    for row, interval in enumerate(intervals):
        low, high = max(interval.low, left), min(interval.high, right)
        axes.plot(
            [low, high], [row, row], color=series_colour(0), lw=5, alpha=0.35, solid_capstyle="butt"
        )
        for end, edge, mark in ((interval.low, left, "<"), (interval.high, right, ">")):
            if np.isinf(end):
                axes.plot(edge, row, marker=mark, ms=6, color=series_colour(0), clip_on=False)
        axes.plot(interval.estimate, row, ls="", marker="o", ms=5, color=series_colour(0))
    axes.set_yticks(range(len(intervals)), [plain(interval.name) for interval in intervals])
    axes.set_xlim(left, right)
    tidy_rows(axes, len(intervals))
    return axes


def tidy_rows(axes: Axes, rows: int) -> None:
    """Rows from top to bottom, few numbers, faint upright lines."""
    axes.set_ylim(max(1, rows) - 0.5, -0.5)
    _few_numbers(axes.xaxis, axes.get_xlim(), most=5)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelcolor=MUTED)
    axes.spines["left"].set_visible(False)


@styled()
def draw_beside(rows: Mapping[str, Sequence[Interval]], axes: Axes | None, label: str) -> Axes:
    """The axes, with intervals of the same name in one row, a mark for each that has it.

    Args:
        rows: who -> its intervals; what only some have stands for those alone.
        axes: what to draw on; a new figure unless given.
        label: of the numbers.
    """
    features = list(dict.fromkeys(row.name for each in rows.values() for row in each))
    if len(features) > MOST_ROWS:
        label += f" ({MOST_ROWS} of {len(features)})"
    features = features[:MOST_ROWS]
    axes = row_axes(axes, len(features), features, each=max(ROW, 0.11 * len(rows)))
    every = [(row.estimate, row.low, row.high) for each in rows.values() for row in each]
    low, high = limits_of([np.array([*every, (0.0, 0.0, 0.0)])])
    far = high - low  # what has no end leaves the picture
    for k, (name, each) in enumerate(rows.items()):
        found = {row.name: row for row in each}
        shift = 0.6 * ((k + 0.5) / len(rows) - 0.5)
        places = [i for i, feature in enumerate(features) if feature in found]
        kept = [found[features[i]] for i in places]
        middle = np.array([row.estimate for row in kept])
        ends = np.array([[row.low, row.high] for row in kept]).reshape(-1, 2).T
        errors = np.nan_to_num(np.abs(np.clip(ends, low - far, high + far) - middle))
        look = {"color": series_colour(k), "marker": series_mark(k), "ms": 4, "capsize": 0}
        axes.errorbar(
            middle, np.array(places) + shift, xerr=errors, ls="", label=plain(name), **look
        )
    axes.axvline(0.0, color=MUTED, lw=0.7)
    axes.legend(**legend_above(len(rows)))
    axes.set(xlabel=label, xlim=(low - 0.05 * far, high + 0.05 * far))
    return axes
