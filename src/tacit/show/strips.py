"""Many repetitions in one line each: every dot, the median, and the middle half."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import ArrayLike

from tacit.show.canvas import (
    FAINT,
    HEAD,
    INK,
    MUTED,
    PAGE_WIDTH,
    PAPER,
    TINY,
    axes_at,
    fit_text,
    headline,
    new_figure,
    plain,
    readable,
    series_colour,
    series_mark,
    styled,
)
from tacit.show.numbers import log_ticks, short

_ROW = 0.3  # inches a group


@dataclass(frozen=True, eq=False)
class Group:
    """The repetitions of one way of doing it.

    Attributes:
        name: of the way.
        samples: [M] one number per repetition; NaN where it gave none.
        null: whether it is the baseline that knows nothing, drawn in grey.
    """

    name: str
    samples: ArrayLike
    null: bool = False


@dataclass(frozen=True, eq=False)
class Interval:
    """What is known about one number.

    Attributes:
        name: of the number.
        estimate: the best guess; NaN where there is none.
        low: lower end; minus infinity where there is none.
        high: upper end; infinity where there is none.
        truth: what it really is; None where nobody knows.
    """

    name: str
    estimate: float
    low: float
    high: float
    _: KW_ONLY
    truth: float | None = None


@styled()
def draw_spread(groups: Sequence[Group], axes: Axes, *, logarithmic: bool = False) -> Axes:
    """The axes, with a row per group: a dot per repetition, the middle half as a box, the median.

    Args:
        groups: from top to bottom.
        axes: what to draw on.
        logarithmic: whether the axis is; what is not positive is then left out.
    """
    if logarithmic:
        axes.set_xscale("log")
    coloured, negative = 0, False
    for row, group in enumerate(groups):
        colour, mark = (
            (MUTED, "|") if group.null else (series_colour(coloured), series_mark(coloured))
        )
        coloured += not group.null
        samples = np.asarray(group.samples, dtype=float).ravel()
        kept = np.sort(samples[np.isfinite(samples) & ((samples > 0) | (not logarithmic))])
        if not kept.size:
            look = {"va": "center", "size": TINY, "style": "italic", "color": MUTED}
            axes.text(0.02, row, "no number", transform=axes.get_yaxis_transform(), **look)
            continue
        negative |= kept[0] < 0
        low, middle, high = np.percentile(kept, (25, 50, 75))
        axes.add_patch(
            Rectangle((low, row - 0.26), high - low, 0.52, facecolor=colour, alpha=0.18, lw=0)
        )
        # Neighbours of the same size alternate above and below, so that none is hidden.
        shift = np.array([0.0, 0.13, -0.13])[np.arange(kept.size) % 3]
        axes.plot(kept, row + shift, ls="", marker=mark, ms=4, mfc="none", mec=colour, mew=0.9)
        axes.plot([middle, middle], [row - 0.32, row + 0.32], color=readable(colour), lw=2.2)
    axes.set_yticks(range(len(groups)), [plain(group.name) for group in groups])
    if not logarithmic and axes.get_xlim()[0] < 0.3 * axes.get_xlim()[1]:
        # Distances are read from zero; what is negative keeps its place.
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]) if negative else 0.0)
    for label, group in zip(axes.get_yticklabels(), groups, strict=True):
        label.set_fontstyle("italic" if group.null else "normal")
    _tidy(axes, len(groups))
    return axes


@styled()
def draw_intervals(
    intervals: Sequence[Interval], axes: Axes, *, limits: tuple[float, float] | None = None
) -> Axes:
    """The axes, with a row per number: its interval, its estimate and, where known, the truth.

    Args:
        intervals: from top to bottom.
        axes: what to draw on.
        limits: of the axis; wide enough for everything finite unless given. An infinite end is an
            arrow at the edge.
    """
    ends = [(i.estimate, i.low, i.high, i.truth) for i in intervals]
    finite = [float(x) for row in ends for x in row if x is not None and np.isfinite(x)]
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
        if interval.truth is not None:
            axes.plot(
                interval.truth, row, ls="", marker="D", ms=5, mfc=PAPER, mec=INK, mew=1.0, zorder=4
            )
    axes.set_yticks(range(len(intervals)), [plain(interval.name) for interval in intervals])
    axes.set_xlim(left, right)
    _tidy(axes, len(intervals))
    return axes


@styled()
def spread_figure(
    measures: Sequence[tuple[str, Sequence[Group]]],
    *,
    title: str = "",
    logarithmic: bool = False,
) -> Figure:
    """A figure with a panel per measure, (its name, its groups); all have the same groups.

    Args:
        measures: one panel each, side by side, three a row.
        title: a line above everything.
        logarithmic: whether the axes of the measures are.
    """
    rows = max(len(groups) for _, groups in measures)
    across = min(3, len(measures))
    down = -(-len(measures) // across)
    names, gap, head = 1.25, 0.22, HEAD if title else 0.0
    width = (PAGE_WIDTH - names - 0.12 - (across - 1) * gap) / across
    block = 0.3 + rows * _ROW + 0.28
    figure = new_figure(PAGE_WIDTH, head + down * block)
    if title:
        headline(figure, title)
    for index, (name, groups) in enumerate(measures):
        row, column = divmod(index, across)
        left, top = names + column * (width + gap), head + row * block + 0.3
        axes = axes_at(figure, left, top, width, rows * _ROW)
        draw_spread(groups, axes, logarithmic=logarithmic)
        axes.tick_params(labelleft=column == 0)
        fit_text(axes.set_title(plain(name)), axes)
    return figure


@styled()
def interval_figure(intervals: Sequence[Interval], *, title: str = "") -> Figure:
    """A figure of one panel of intervals, as tall as they need."""
    height = 0.26 * max(1, len(intervals))
    figure = new_figure(PAGE_WIDTH, 0.34 + height + 0.34)
    axes = axes_at(figure, 1.9, 0.34, PAGE_WIDTH - 2.1, height)
    draw_intervals(intervals, axes)
    axes.set_title(plain(title))
    truth = "   ◇ truth" if any(interval.truth is not None for interval in intervals) else ""
    axes.set_title(f"● estimate{truth}", loc="right", size=TINY, color=MUTED, weight="normal")
    return figure


def _tidy(axes: Axes, rows: int) -> None:
    """Rows from top to bottom, few numbers, faint upright lines."""
    axes.set_ylim(max(1, rows) - 0.5, -0.5)
    axes.grid(axis="x", color=FAINT)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", length=0, labelcolor=MUTED)
    axes.spines["left"].set_visible(False)
    if axes.get_xscale() == "log":
        axes.xaxis.set_major_locator(FixedLocator(log_ticks(*axes.get_xlim(), most=5)))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
