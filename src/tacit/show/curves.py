"""Curves: lines of numbers against another, told under the pointer; how a search converged."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from tacit.inverse.joint.recovery import JointRecovery
from tacit.inverse.noisy.mixture import MixtureRecovery
from tacit.inverse.recovery import Recovery
from tacit.search.algebra import largest_first
from tacit.show import Cells, Gallery, Paragraph, Picture, Section, anchor
from tacit.show.canvas import (
    INK,
    TINY,
    axes_at,
    box_of,
    figure_of,
    new_figure,
    plain,
    series_colour,
    series_dash,
    styled,
    svg,
)
from tacit.show.intervals import draw_level, tidy_values
from tacit.show.tables import short

MOST_POINTS = 600  # of all lines of a picture
MOST_FOLLOWED = 6  # features followed over the iterations

FOLLOWED = {  # columns of a history that are drawn
    "feature_gap": "feature gap",
    "weight_change": "change of the weights",
    "loss": "loss",
    "projected_gradient": "gradient",
    "violation": "violation",
    "log_likelihood": "log-likelihood, less that at the end",
}


@styled()
def line_picture(
    title: str,
    across_name: str,
    across: np.ndarray,
    lines: Mapping[str, ArrayLike],
    *,
    level: float | None = None,
    level_name: str = "",
    logarithmic: bool = False,
) -> Picture:
    """Numbers against another, a line each, told under the pointer.

    Args:
        title: what is drawn.
        across_name: what stands under the axis, and before the position of a point.
        across: [N] where it was measured, in rising order.
        lines: name -> [N] what was measured there; that of a line alone is not shown.
        level: what they are judged by, a dashed line; None for none.
        level_name: what stands on it.
        logarithmic: whether the upright axis is, where anything is positive.
    """
    several = len(lines) > 1
    key = 0.14 * -(-len(lines) // 2) if several else 0.0  # inches
    axes = axes_at(new_figure(3.0, 2.3 + key), 0.5, 0.3, 2.35, 1.55)
    step = -(-len(across) * len(lines) // MOST_POINTS)
    across, table = across[::step], np.array([*lines.values()], dtype=float)[:, ::step]
    if logarithmic and (table > 0).any():
        axes.set_yscale("log")
        table = np.where(table > 0, table, np.nan)
    for k, (name, values) in enumerate(zip(lines, table, strict=True)):
        look = {"color": series_colour(k), "ls": series_dash(k), "marker": ".", "lw": 1.3}
        axes.plot(across, values, label=plain(name), **look)
    axes.set_xlabel(plain(across_name))
    axes.set_title(plain(title), x=-0.17)
    if several:
        place = {"loc": "upper left", "bbox_to_anchor": (-0.17, -0.22), "ncols": 2}
        axes.legend(**place, fontsize=TINY, frameon=False)
    draw_level(axes, level, level_name, INK)
    tidy_values(axes)
    line, at = np.nonzero(np.isfinite(table))
    spots, whose = np.stack([across[at], table[line, at]], axis=1), [*lines]
    cells = Cells(
        title,
        box_of(axes),
        rows=0,
        columns=0,
        values=[
            f"{short(value)} ({whose[k]})" if several else short(value)
            for value, k in zip(spots[:, 1].tolist(), line, strict=True)
        ],
        names=[f"{across_name} {short(place)}" for place in spots[:, 0].tolist()],
        points=[(x, 1.0 - y) for x, y in (axes.transScale + axes.transLimits).transform(spots)],
    )
    alt = (
        f"{title} against {across_name}, from {short(across[0])} to {short(across[-1])}; highest "
        f"at {short(spots[spots[:, 1].argmax(), 0])}"
    )
    return Picture(svg(figure_of(axes)), alt, cells=[cells], name=anchor(title))


def convergence_section(found: Recovery | JointRecovery | MixtureRecovery) -> Section:
    """The curves of the search: what it is judged by, and the weights and prices on the way."""
    history, rows = found.history, _kept_rows(found)
    title, lead = "Convergence", ""
    if len(rows) < 2:
        facts = ", ".join(
            f"{name.replace('_', ' ')} {short(float(np.ravel(column)[-1]))}"
            for name, column in history.columns.items()
            if len(column) and column.ndim == 1
        )
        at_the_end = f" At its end: {facts}." if facts else ""
        return Section(title, [Paragraph(f"The search keeps no record of its steps.{at_the_end}")])
    noise = found.certificate.sampling_noise
    steps, pictures = np.arange(1.0, len(rows) + 1), []
    for name in filter(history.columns.__contains__, FOLLOWED):
        values = np.asarray(history[name], dtype=float)[rows]
        if values.ndim == 1 and np.isfinite(values).any():
            values = values - (values[-1] if name == "log_likelihood" else 0.0)
            level = {"level": noise if name == "feature_gap" else None, "logarithmic": True}
            drawn = (FOLLOWED[name], "iteration", steps, {"": values})
            pictures.append(line_picture(*drawn, **level, level_name="sampling noise"))
    if isinstance(found, Recovery):
        groups = {"weights of the reward": ("reward_weights", found.reward_names)}
        for k, names in enumerate(found.cost_names):
            of = "the cost" if len(found.cost_names) == 1 else f"cost {k}"
            groups[f"weights of {of}"] = (f"cost_weights_{k}", names)
        for what, (column, names) in groups.items():
            if column in history.columns and np.isfinite(last := history[column][rows[-1]]).all():
                heaviest = largest_first(np.abs(last))[:MOST_FOLLOWED]
                drawn = {names[j]: history[column][rows, j] for j in heaviest}
                pictures.append(line_picture(what, "iteration", steps, drawn))
                lead = "Weights on the way are in the units of the features as given."
    return Section(title, [Gallery(pictures)] if pictures else [], lead)


def _kept_rows(found: Recovery | JointRecovery | MixtureRecovery) -> np.ndarray:
    """The rows of the history that led to the answer: of several starts, the one that was kept."""
    history = found.history
    rows = np.arange(len(history))
    if "start" not in history.columns or "reward_weights" not in history.columns:
        return rows
    assert isinstance(found, Recovery)
    distance = np.abs(history["reward_weights"] - found.reward_weights).sum(axis=1)
    for k, weights in enumerate(found.cost_weights):
        name = f"cost_weights_{k}"
        if np.isfinite(weights).all() and name in history.columns:
            distance = distance + np.abs(history[name] - weights).sum(axis=1)
    distance = np.where(np.isfinite(distance), distance, np.inf)
    return rows[history["start"] == history["start"][int(distance.argmin())]]
