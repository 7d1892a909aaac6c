"""Pictures of curves and partial effects: the band around each, and the steps below it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from tacit.data.tally import counts_of
from tacit.errors import InvalidModel
from tacit.inference.curves import GRID, Curve, CurveValues
from tacit.inference.quantities import number_of
from tacit.recovery import Recovery
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
    _draw_band(
        axes,
        found.grid[:, 0],
        found.values,
        found.lower,
        found.upper,
        density=curve.density,
        ends=curve.basis.ends[0],
        colour=series_colour(1 if curve.block else 0),
        bare=curve.absence,
    )


def _draw_band(
    axes: Axes,
    across: np.ndarray,
    values: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    *,
    density: np.ndarray,
    ends: tuple[float, float],
    colour: str,
    bare: str,
) -> None:
    """A line with its band, none where it is bare, and a density below it."""
    axes.axhline(0.0, color=MUTED, lw=0.7)
    if not bare:
        axes.fill_between(across, lower, upper, color=colour, alpha=0.25, lw=0)
    axes.plot(across, values, color=colour, lw=1.6)
    edges_of = [values] if bare else [lower, upper]
    finite = np.concatenate(edges_of)
    finite = finite[np.isfinite(finite)]
    low, high = min(float(finite.min()), 0.0), max(float(finite.max()), 0.0)
    room = (high - low) or 1.0
    bottom = low - (FLOOR + 0.08) * room
    edges = np.linspace(*ends, len(density) + 1)
    heights = FLOOR * room * density / max(float(density.max()), 1e-300)
    look = {"color": MUTED, "alpha": 0.6, "align": "edge", "lw": 0}
    axes.bar(edges[:-1], heights, np.diff(edges), bottom=bottom, **look)
    axes.set(xlim=ends, ylim=(bottom, high + 0.05 * room), ylabel=UNIT)
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


@dataclass(frozen=True, eq=False, kw_only=True)
class PartialEffect:
    """What a feature adds to the utility over its range, relative to its mean where steps were.

    Attributes:
        feature: its name.
        block: 0 for the reward, 1 + k for constraint k.
        values: [n] of the feature.
        effects: [n] in units of the noise; of a cost what it takes away.
        lower: [n] end of the band.
        upper: [n] end of the band.
        density: [n] share of the steps near each value.
        absence: why there is no band; empty where there is.
    """

    feature: str
    block: int
    values: np.ndarray
    effects: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    density: np.ndarray
    absence: str = ""


def partial_effects(recovery: Recovery, feature: str, *, confidence: float) -> PartialEffect:
    """The `PartialEffect` of a feature of states, or of states and actions."""
    origin, own = recovery.origin, recovery.parameters.at(confidence)
    number = number_of(feature, own.names)
    if origin is None or recovery.solution is None:
        raise InvalidModel(
            "a partial effect needs the features that the recovery was made with: give "
            "with_origin(...); of trips and logged rows there is none"
        )
    block = next(b for b, part in enumerate(origin.features.blocks) if number < part.stop)
    column = number - origin.features.blocks[block].start
    if any(one.block == block and column in one.columns for one in recovery.curves):
        raise InvalidModel(f"{feature} is a part of a curve: draw it by plot.curve")
    world = origin.mdp
    table = origin.features.by_action(world.actions)[block][..., column]
    counts = counts_of(world, origin.demonstrations)
    seen = table[world.available]
    edges = np.linspace(seen.min(), seen.max(), GRID)
    half = 0.5 * (edges[1] - edges[0]) if seen.max() > seen.min() else 0.5
    bins = np.append(edges - half, edges[-1] + half)
    density, _ = np.histogram(table, bins, weights=counts)
    centre = float((counts * table).sum() / max(counts.sum(), 1.0))
    sign = -1.0 if block else 1.0
    away = edges - centre
    ends = sign * away[:, None] * own.intervals[number]
    with np.errstate(invalid="ignore"):
        lower, upper = np.nan_to_num(
            np.sort(ends, axis=1).T, nan=0.0, posinf=np.inf, neginf=-np.inf
        )
    return PartialEffect(
        feature=feature,
        block=block,
        values=edges,
        effects=sign * away * own.estimates[number],
        lower=lower,
        upper=upper,
        density=density / max(counts.sum(), 1.0),
        absence=own.reason,
    )


@styled()
def draw_partial_effect(found: PartialEffect, axes: Axes | None = None) -> Axes:
    """The axes, with the line, its band and the density of the steps below it."""
    axes = axes_at(new_figure(COLUMN, 2.5), 0.55, 0.3, COLUMN - 0.7, 1.75) if axes is None else axes
    colour = series_colour(1 if found.block else 0)
    ends = (float(found.values[0]), float(found.values[-1]))
    lines = (found.values, found.effects, found.lower, found.upper)
    _draw_band(axes, *lines, density=found.density, ends=ends, colour=colour, bare=found.absence)
    of = f"cost {found.block - 1}" if found.block else "the reward"
    axes.set_xlabel(plain(found.feature))
    axes.set_title(plain(f"{found.feature} of {of}"))
    return axes


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
