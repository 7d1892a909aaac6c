"""Lines over iterations and over the amount of data, each with the level it is judged by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import ArrayLike

from tacit.show.canvas import (
    FAINT,
    HEAD,
    INK,
    MUTED,
    PAGE_WIDTH,
    PAPER,
    SMALL,
    TINY,
    axes_at,
    headline,
    new_figure,
    plain,
    readable,
    separate,
    series_colour,
    series_dash,
    series_mark,
    styled,
)
from tacit.show.numbers import log_ticks, short

_LEFT, _TITLE, _HEIGHT, _UNDER = 0.52, 0.3, 1.6, 0.46  # inches
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
        last = [column[np.isfinite(column)][-1:] for column in shown.T]
        ends = [
            (float(end[0]), name, readable(series_colour(k)))
            for k, (end, name) in enumerate(zip(last, names, strict=True))
            if end.size
        ]
        name_ends(axes, ends)
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
    medians = [curve.quartiles()[1] for curve in curves]
    ends = [
        (float(median[np.isfinite(median)][-1]), curve.name, readable(series_colour(k)))
        for k, (median, curve) in enumerate(zip(medians, curves, strict=True))
        if np.isfinite(median).any()
    ]
    if null is not None and np.isfinite(null):
        ends.append((null, null_name, INK))
    name_ends(axes, ends)
    return axes


@styled()
def convergence_figure(run: Convergence, *, title: str = "") -> Figure:
    """A figure of three panels: feature gap with its noise, weight change, multipliers."""
    prices = np.asarray(run.multipliers, dtype=float)
    prices = prices.reshape(len(prices), -1)
    names = [str(k + 1) for k in range(prices.shape[1])] if prices.shape[1] > 1 else []
    titles = ["feature gap", "change of the weights", "multipliers" if names else "multiplier"]
    figure, panels = panel_row(titles, title=title, names=names)
    gap, change, price = panels
    draw_history(run.feature_gap, gap, levels=run.noise, level_name="sampling noise", best=run.best)
    draw_history(
        run.weight_change, change, levels=run.tolerance, level_name="tolerance", best=run.best
    )
    draw_history(
        prices,
        price,
        names=names,
        levels=run.true_multipliers,
        level_name="true",
        best=run.best,
        logarithmic=False,
    )
    return figure


@styled()
def study_figure(
    studies: Sequence[tuple[str, Sequence[Curve], float | None]],
    *,
    positions_name: str,
    title: str = "",
    logarithmic: bool = False,
) -> Figure:
    """A figure with one panel per measure: (its name, its curves, what knowing nothing achieves).

    Args:
        studies: one measure each.
        positions_name: what the positions count.
        title: a line above everything.
        logarithmic: whether the axes of the measures are.
    """
    ends = {curve.name for _, curves, _ in studies for curve in curves} | {"random weights"}
    figure, panels = panel_row([name for name, _, _ in studies], title=title, names=ends, across=2)
    for axes, (_, curves, null) in zip(panels, studies, strict=True):
        draw_study(curves, axes, null=null, positions_name=positions_name, logarithmic=logarithmic)
    return figure


def panel_row(
    titles: Sequence[str], *, title: str = "", names: Iterable[str] = (), across: int = 3
) -> tuple[Figure, list[Axes]]:
    """A figure of the page's width and its panels, with room for the names of lines beside them.

    Args:
        titles: one per panel.
        title: a line above everything.
        names: what will be written at the ends of lines.
        across: panels side by side.
    """
    across = min(len(titles), across)
    down = -(-len(titles) // across)
    cell = PAGE_WIDTH / across
    # 0.62 em a letter is generous, for the widest common font as well.
    room = 0.1 + max((len(name) for name in names), default=0) * 0.62 * SMALL / 72.0
    head = HEAD if title else 0.0
    block = _TITLE + _HEIGHT + _UNDER
    figure = new_figure(PAGE_WIDTH, head + down * block)
    if title:
        headline(figure, title)
    width = max(cell - _LEFT - room, 0.3 * cell)
    panels = []
    for index, name in enumerate(titles):
        row, column = divmod(index, across)
        axes = axes_at(figure, column * cell + _LEFT, head + row * block + _TITLE, width, _HEIGHT)
        # It starts where the numbers do.
        axes.set_title(plain(name), x=(0.1 - _LEFT) / width)
        panels.append(axes)
    return figure, panels


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


def name_ends(axes: Axes, ends: Sequence[tuple[float, str, str]]) -> None:
    """The names (value, name, colour) at the right, moved apart where they would meet."""
    if not ends:
        return
    heights = axes.transData.transform([(1.0, value) for value, _, _ in ends])[:, 1]
    figure = axes.get_figure(root=True)
    assert figure is not None
    point = figure.dpi / 72.0
    places = separate([float(height) for height in heights], 1.25 * SMALL * point)
    for (value, name, colour), height, place in zip(ends, heights, places, strict=True):
        look = {"ha": "left", "va": "center", "size": SMALL, "color": colour}
        shift = (4, (place - height) / point)
        axes.annotate(
            plain(name), (1, value), xytext=shift, annotation_clip=False, **_BESIDE, **look
        )


def tidy_values(axes: Axes) -> None:
    """Few numbers and faint lines on the axis of the values."""
    axes.grid(axis="y", color=FAINT)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    if axes.get_yscale() == "log":
        axes.yaxis.set_major_locator(FixedLocator(log_ticks(*axes.get_ylim())))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.tick_params(axis="both", labelcolor=MUTED)


def legible_ticks(positions: Sequence[float], axes: Axes) -> list[float]:
    """Those positions whose numbers do not touch on a logarithmic axis, the last one always."""
    figure = axes.get_figure(root=True)
    assert figure is not None
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
