"""Pictures of recovered curves: the band around each, and where the steps are below it."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from tacit.inverse.curves import Curve, CurveValues
from tacit.show import Gallery, Picture, Section
from tacit.show.canvas import (
    COLUMN,
    COST_MAP,
    INK,
    MUTED,
    REWARD_MAP,
    TINY,
    axes_at,
    figure_of,
    new_figure,
    plain,
    series_colour,
    styled,
    svg,
)
from tacit.show.curves import points_on
from tacit.show.intervals import tidy_values
from tacit.show.quantities import NamedRecovery
from tacit.show.tables import short

# Share of the height that the density of the steps has, below the curve.
FLOOR = 0.16
READ = 40  # places of a curve that can be pointed at
UNIT = "in units of the noise"
LEAD = (
    "The line is as smooth as the steps ask for; its band holds each value with 95 % confidence, "
    "and the bars below say where the steps were."
)


@styled()
def draw_curve(curve: Curve, axes: Axes | None = None, *, simultaneous: bool = False) -> Axes:
    """The axes, with a curve, its band and the density of the steps; of a surface a map.

    Args:
        curve: what was recovered.
        axes: what to draw on; a new figure unless given.
        simultaneous: whether the band holds the whole curve, not each value for itself.
    """
    axes = axes_at(new_figure(COLUMN, 2.5), 0.55, 0.3, COLUMN - 0.7, 1.75) if axes is None else axes
    found = curve.at(simultaneous=simultaneous)
    (_draw_line if len(curve.variables) == 1 else _draw_map)(axes, curve, found)
    axes.set_xlabel(plain(curve.variables[0]))
    axes.set_title(plain(curve.title))
    return axes


def _draw_line(axes: Axes, curve: Curve, found: CurveValues) -> None:
    across, colour = found.grid[:, 0], series_colour(1 if curve.block else 0)
    axes.axhline(0.0, color=MUTED, lw=0.7)
    if not curve.absence:
        axes.fill_between(across, found.lower, found.upper, color=colour, alpha=0.25, lw=0)
    axes.plot(across, found.values, color=colour, lw=1.6)
    ends = [found.values] if curve.absence else [found.lower, found.upper]
    low, high = min(float(np.min(ends)), 0.0), max(float(np.max(ends)), 0.0)
    room = (high - low) or 1.0
    bottom = low - (FLOOR + 0.08) * room
    edges = np.linspace(*curve.basis.ends[0], len(curve.density) + 1)
    heights = FLOOR * room * curve.density / max(float(curve.density.max()), 1e-300)
    look = {"color": MUTED, "alpha": 0.6, "align": "edge", "lw": 0}
    axes.bar(edges[:-1], heights, np.diff(edges), bottom=bottom, **look)
    axes.set(xlim=curve.basis.ends[0], ylim=(bottom, high + 0.05 * room), ylabel=UNIT)
    tidy_values(axes)


def _draw_map(axes: Axes, curve: Curve, found: CurveValues) -> None:
    side = round(len(found.values) ** 0.5)
    (left, right), (low, high) = curve.basis.ends
    table = found.values.reshape(side, side).T
    colours = COST_MAP if curve.block else REWARD_MAP
    look = {"origin": "lower", "aspect": "auto", "extent": (left, right, low, high)}
    image = axes.imshow(table, colours, **look)
    doubt = ((found.lower <= 0.0) & (found.upper >= 0.0)).reshape(side, side).T
    across, up = (np.linspace(*end, side) for end in curve.basis.ends)
    if doubt.any() and not curve.absence:  # hatched where it may be 0
        axes.contourf(across, up, doubt, levels=[0.5, 1.5], colors="none", hatches=["////"])
    rows, columns = np.nonzero(curve.density.T)
    sizes = curve.density.T[rows, columns]
    middles = [low_end + (np.arange(side) + 0.5) * (high_end - low_end) / side
               for low_end, high_end in curve.basis.ends]  # fmt: skip
    dots = {"s": 12.0 * sizes / sizes.max(initial=1e-300), "color": INK, "lw": 0}
    axes.scatter(middles[0][columns], middles[1][rows], **dots)
    axes.set_ylabel(plain(curve.variables[1]))
    bar = figure_of(axes).colorbar(image, ax=axes)
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    bar.ax.tick_params(labelsize=TINY, length=0)
    bar.set_label(UNIT, size=TINY)


def curve_picture(curve: Curve) -> Picture:
    """A curve with its band, told under the pointer."""
    axes = draw_curve(curve)
    title, cells = curve.title, []
    if len(curve.variables) == 1:
        found = curve.at(curve.even_grid(READ))
        texts = [short(value) for value in found.values]
        if not curve.absence:
            pairs = zip(found.lower, found.upper, strict=True)
            ends = [f" [{short(low)}, {short(high)}]" for low, high in pairs]
            texts = [text + end for text, end in zip(texts, ends, strict=True)]
        spots = np.stack([found.grid[:, 0], found.values], axis=1)
        names = [f"{curve.variables[0]} {short(x)}" for x in spots[:, 0]]
        cells = [points_on(axes, title, spots, texts, names)]
    values = curve.at().values
    alt = (
        f"{title}, from {short(values.min())} to {short(values.max())} {UNIT}, with its 95 % band "
        "and the density of the steps"
    )
    caption = "Dots: steps; hatched where the surface may be 0." if len(curve.variables) > 1 else ""
    return Picture(svg(figure_of(axes)), alt, caption=caption, cells=cells)


def curve_section(named: NamedRecovery) -> list[Section]:
    """The curves of a recovery as pictures, where there are any."""
    curves = named.recovery.curves
    return [Section("Curves", [Gallery([*map(curve_picture, curves)])], LEAD)] if curves else []
