"""Panels side by side, and what their axes share: levels, names of lines, few numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from tacit.show.canvas import (
    HEAD,
    PAGE_WIDTH,
    SMALL,
    TINY,
    apart,
    axes_at,
    headline,
    new_figure,
    plain,
)
from tacit.show.digits import log_ticks, short
from tacit.show.palette import FAINT, MUTED

_LEFT, _TITLE, _HEIGHT, _UNDER = 0.52, 0.3, 1.6, 0.46  # inches


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
    axes.annotate(
        plain(name),
        (0, level),
        xycoords=("axes fraction", "data"),
        xytext=(2, 1.5),
        textcoords="offset points",
        ha="left",
        va="bottom",
        size=TINY,
        color=colour,
    )


def name_ends(axes: Axes, ends: Sequence[tuple[float, str, str]]) -> None:
    """The names (value, name, colour) at the right, moved apart where they would meet."""
    if not ends:
        return
    heights = axes.transData.transform([(1.0, value) for value, _, _ in ends])[:, 1]
    figure = axes.get_figure(root=True)
    assert figure is not None
    point = figure.dpi / 72.0
    places = apart([float(height) for height in heights], 1.25 * SMALL * point)
    for (value, name, colour), height, place in zip(ends, heights, places, strict=True):
        axes.annotate(
            plain(name),
            (1, value),
            xycoords=("axes fraction", "data"),
            xytext=(4, (place - height) / point),
            textcoords="offset points",
            ha="left",
            va="center",
            size=SMALL,
            color=colour,
            annotation_clip=False,
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
