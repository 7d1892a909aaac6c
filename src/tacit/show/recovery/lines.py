"""Small line charts whose points are told by pointing at them."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tacit.show.canvas import axes_at, new_figure, plain, styled, svg
from tacit.show.curves import draw_history
from tacit.show.digits import short
from tacit.show.palette import INK, series_colour, series_mark
from tacit.show.panels import draw_level, tidy_values
from tacit.show.pictures import Cells, Picture, box_of
from tacit.show.words import anchor

MOST_POINTS = 400  # that can be told apart under a pointer


@styled()
def history_picture(title: str, values: np.ndarray, level: float | None) -> Picture:
    """One number [N] over the iterations.

    Args:
        title: what it is.
        values: [N].
        level: the sampling noise it is judged by; None where there is none.
    """
    figure, axes = _page()
    known = level is not None and np.isfinite(level)
    draw_history(values, axes, levels=level if known else None, level_name="sampling noise")
    axes.set_title(plain(title), x=-0.17)
    count = len(values)
    stops = np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).round().astype(int))
    low, high = axes.get_ylim()
    box = box_of(axes, (0.5, count + 0.5), (high, low))
    names = [f"iteration {i + 1}" for i in stops]
    cells = Cells(title, box, 1, len(stops), [short(float(values[i])) for i in stops], names)
    alt = f"{title} over {count} iterations, from {short(values[0])} to {short(values[-1])}"
    return Picture(svg(figure), alt, cells=[cells], name=anchor(title))


@styled()
def line_picture(
    title: str,
    across: np.ndarray,
    values: np.ndarray,
    *,
    across_name: str,
    level: float | None = None,
    level_name: str = "",
) -> Picture:
    """One number [N] against another.

    Args:
        title: what is drawn.
        across: [N] where it was measured, in rising order.
        values: [N] what was measured there.
        across_name: what stands under the axis, and before the position of a point.
        level: what it is judged by, a dashed line; None for none.
        level_name: what stands on it.
    """
    figure, axes = _page()
    axes.plot(across, values, color=series_colour(0), marker=series_mark(0), ms=4, lw=1.3)
    axes.set_xlabel(plain(across_name))
    draw_level(axes, level, level_name, INK)
    tidy_values(axes)
    axes.set_title(plain(title), x=-0.17)
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    # A lattice is even, and points need not be: every place tells the point nearest to it.
    places = np.linspace(left, right, 2 * min(100, 4 * len(across)) + 1)
    middles = (places[:-1] + places[1:]) / 2
    nearest = np.abs(middles[:, None] - across[None, :]).argmin(axis=1)
    cells = Cells(
        title,
        box_of(axes, (left, right), (high, low)),
        1,
        len(middles),
        [short(float(values[i])) for i in nearest],
        [f"{across_name} {short(float(across[i]))}" for i in nearest],
    )
    known = np.where(np.isfinite(values), values, -np.inf)
    alt = (
        f"{title} against {across_name}, from {short(across[0])} to {short(across[-1])}; highest "
        f"at {short(across[int(known.argmax())])}"
    )
    return Picture(svg(figure), alt, cells=[cells], name=anchor(title))


def _page() -> tuple[Figure, Axes]:
    figure = new_figure(3.0, 2.3)
    return figure, axes_at(figure, 0.5, 0.3, 2.35, 1.55)
