"""Panels of lines over iterations and amounts of data, and of repetitions, one line each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import ArrayLike

from tacit.show.canvas import (
    FAINT,
    INK,
    MUTED,
    PAPER,
    SMALL,
    TINY,
    figure_of,
    plain,
    readable,
    separate,
    series_colour,
    series_dash,
    series_mark,
    styled,
)
from tacit.show.tables import log_ticks, short

_BESIDE = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}


@dataclass(frozen=True, eq=False)
class Curve:
    """A line of measurements, several at each position.

    Attributes:
        name: what stands at its end.
        positions: [N] where it was measured.
        samples: [N, M] what was measured there in M repetitions; NaN where one is missing.
    """

    name: str
    positions: Sequence[float]
    samples: ArrayLike

    def quartiles(self) -> np.ndarray:
        """[3, N] lower quartile, median and upper quartile of the samples at each position."""
        samples = np.asarray(self.samples, dtype=float)
        rows = [row[np.isfinite(row)] for row in samples.reshape(len(samples), -1)]
        return np.array(
            [np.percentile(row, (25, 50, 75)) if row.size else (np.nan,) * 3 for row in rows]
        ).T


@dataclass(frozen=True, eq=False)
class Convergence:
    """What an estimator saw on its way.

    Attributes:
        feature_gap: [N] distance of the feature expectations after each iteration.
        weight_change: [N] how far the weights moved.
        multipliers: [N, K] price of each budget.
        noise: the feature gap that sampling alone would leave; None where nobody estimated it.
        tolerance: the weight change at which the estimator stops; None where it has none.
        true_multipliers: [K] what the prices should become; None where there is no truth.
        best: the iteration whose weights were kept; None for the last one.
    """

    feature_gap: ArrayLike
    weight_change: ArrayLike
    multipliers: ArrayLike
    _: KW_ONLY
    noise: float | None = None
    tolerance: float | None = None
    true_multipliers: ArrayLike | None = None
    best: int | None = None


@styled()
def draw_history(
    values: ArrayLike,
    axes: Axes,
    *,
    names: Sequence[str] = (),
    levels: ArrayLike | None = None,
    level_name: str = "",
    best: int | None = None,
    logarithmic: bool = True,
) -> Axes:
    """The axes, with one line over the iterations for each column of the values [N] or [N, K].

    Args:
        values: [N] or [N, K]; on a logarithmic axis, what is not positive is left out.
        axes: what to draw on.
        names: one name per column, written at the end of its line.
        levels: what the lines are judged by, dashed: one number, or one for each column.
        level_name: what stands on them.
        best: the iteration to mark.
        logarithmic: whether the axis of the values is.
    """
    table = np.asarray(values, dtype=float)
    table = table[:, None] if table.ndim == 1 else table
    steps = np.arange(1, len(table) + 1)
    logarithmic = logarithmic and bool((table > 0).any())
    shown = np.where(table > 0, table, np.nan) if logarithmic else table
    if logarithmic:
        axes.set_yscale("log")
    for k, column in enumerate(shown.T):
        # One point makes no line.
        mark = series_mark(k) if np.isfinite(column).sum() < 2 else ""
        axes.plot(
            steps, column, color=series_colour(k), ls=series_dash(k), lw=1.3, marker=mark, ms=4
        )
        if best is not None and 0 <= best < len(column):
            axes.plot(
                steps[best], column[best], ls="", marker="o", ms=5, mfc=PAPER, mec=series_colour(k)
            )
    if not logarithmic:
        axes.set_ylim(min(0.0, axes.get_ylim()[0]), axes.get_ylim()[1] if table.any() else 1.0)
    judges = np.zeros(0) if levels is None else np.ravel(levels)
    for k, level in enumerate(judges):
        colour = readable(series_colour(k)) if len(judges) > 1 else INK
        draw_level(axes, float(level), level_name, colour)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlim(0, max(2, len(steps)))
    axes.set_xlabel("iteration" if best is None else "iteration (○ kept)")
    tidy_values(axes)
    if names:
        name_ends(axes, zip(shown.T, names, strict=True))
    return axes


@styled()
def draw_study(
    curves: Sequence[Curve],
    axes: Axes,
    *,
    null: float | None = None,
    null_name: str = "random weights",
    positions_name: str = "",
    logarithmic: bool = False,
) -> Axes:
    """The axes, with the median of each curve, a band from quartile to quartile, and its name.

    Args:
        curves: what was measured.
        axes: what to draw on.
        null: what knowing nothing achieves, a dashed line.
        null_name: what stands at its end.
        positions_name: what the positions count.
        logarithmic: whether the axis of the values is; that of the positions always is.
    """
    axes.set_xscale("log")
    if logarithmic:
        axes.set_yscale("log")
    for k, curve in enumerate(curves):
        colour = series_colour(k)
        low, middle, high = curve.quartiles()
        axes.fill_between(curve.positions, low, high, color=colour, alpha=0.16, linewidth=0)
        look = {"ls": series_dash(k), "lw": 1.4, "marker": series_mark(k), "ms": 4}
        axes.plot(curve.positions, middle, color=colour, label=plain(curve.name), **look)
    measured = sorted({float(x) for curve in curves for x in curve.positions})
    axes.set_xlim(measured[0] / 1.12, measured[-1] * 1.12)
    axes.xaxis.set_major_locator(FixedLocator(legible_ticks(measured, axes)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.set_xlabel(plain(positions_name))
    if not logarithmic:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    draw_level(axes, null, "", INK)
    tidy_values(axes)
    medians = [(curve.quartiles()[1], curve.name) for curve in curves]
    more = [] if null is None else [(null, null_name)]
    name_ends(axes, medians, levels=more)
    return axes


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


def name_ends(
    axes: Axes, lines: Iterable[tuple[np.ndarray, str]], *, levels: Sequence[tuple[float, str]] = ()
) -> None:
    """The names at the right ends of lines, moved apart where they would meet.

    Args:
        axes: on which they are drawn, in their final limits.
        lines: (values [N], name) of each, in the order of their colours.
        levels: (value, name) of dashed lines, in ink.
    """
    ends = [
        (float(values[np.isfinite(values)][-1]), name, readable(series_colour(k)))
        for k, (values, name) in enumerate(lines)
        if np.isfinite(values).any()
    ]
    ends += [(value, name, INK) for value, name in levels if np.isfinite(value)]
    if not ends:
        return
    heights = axes.transData.transform([(1.0, value) for value, _, _ in ends])[:, 1]
    figure = figure_of(axes)
    point = figure.dpi / 72.0
    places = separate([float(height) for height in heights], 1.25 * SMALL * point)
    for (value, name, colour), height, place in zip(ends, heights, places, strict=True):
        look = {"ha": "left", "va": "center", "size": SMALL, "color": colour}
        shift = (4, (place - height) / point)
        axes.annotate(
            plain(name), (1, value), xytext=shift, annotation_clip=False, **_BESIDE, **look
        )


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


def legible_ticks(positions: Sequence[float], axes: Axes) -> list[float]:
    """Those positions whose numbers do not touch on a logarithmic axis, the last one always."""
    figure = figure_of(axes)
    width = axes.get_position().width * figure.get_figwidth() * 72.0
    reach = np.log(positions[-1] / positions[0]) or 1.0
    kept: list[float] = []
    for position in reversed(positions):
        # Half of either number, and a space between them.
        gap = np.log(kept[-1] / position) / reach * width if kept else np.inf
        letters = (len(f"{position:.0f}") + len(f"{kept[-1]:.0f}")) / 2 if kept else 0
        if gap >= (letters + 1.6) * 0.64 * SMALL:
            kept.append(position)
    return kept[::-1]


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
    _tidy_rows(axes, len(groups))
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
    _tidy_rows(axes, len(intervals))
    return axes


def _tidy_rows(axes: Axes, rows: int) -> None:
    """Rows from top to bottom, few numbers, faint upright lines."""
    axes.set_ylim(max(1, rows) - 0.5, -0.5)
    _few_numbers(axes.xaxis, axes.get_xlim(), most=5)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelcolor=MUTED)
    axes.spines["left"].set_visible(False)
