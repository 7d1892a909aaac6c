"""Curves: lines of numbers against another, told under the pointer; how a search converged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from tacit.estimators.joint_recovery import JointRecovery
from tacit.estimators.kinds import KindsRecovery
from tacit.recovery import Recovery
from tacit.show import Cells, Gallery, Paragraph, Picture, Section
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
NOISE = "sampling noise"

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
    step = -(-len(across) * len(lines) // MOST_POINTS)
    across, table = across[::step], np.array([*lines.values()], dtype=float)[:, ::step]
    key = 0.14 * -(-len(lines) // 2) if len(lines) > 1 else 0.0  # inches
    axes = axes_at(new_figure(3.0, 2.3 + key), 0.5, 0.3, 2.35, 1.55)
    if logarithmic and (table > 0).any():
        axes.set_yscale("log")
        table = np.where(table > 0, table, np.nan)
    for k, (name, values) in enumerate(zip(lines, table, strict=True)):
        look = {"color": series_colour(k), "ls": series_dash(k), "marker": ".", "lw": 1.3}
        axes.plot(across, values, label=plain(name), **look)
    axes.set_xlabel(plain(across_name))
    axes.set_title(plain(title), x=-0.17)
    if len(lines) > 1:
        place = {"loc": "upper left", "bbox_to_anchor": (-0.17, -0.22), "ncols": 2}
        axes.legend(**place, fontsize=TINY, frameon=False)
    draw_level(axes, level, level_name, INK)
    tidy_values(axes)
    line, at = np.nonzero(np.isfinite(table))
    spots, names = np.stack([across[at], table[line, at]], axis=1), list(lines)
    which = [f" ({names[k]})" if len(lines) > 1 else "" for k in line]
    texts = [f"{short(value)}{name}" for value, name in zip(spots[:, 1], which, strict=True)]
    cells = points_on(axes, title, spots, texts, [f"{across_name} {short(x)}" for x in spots[:, 0]])
    highest = short(spots[spots[:, 1].argmax(), 0])
    alt = f"{title} against {across_name}, from {short(across[0])} to {short(across[-1])}; highest"
    return Picture(svg(figure_of(axes)), f"{alt} at {highest}", cells=[cells])


def points_on(
    axes: Axes, label: str, spots: np.ndarray, values: Sequence[str], names: Sequence[str]
) -> Cells:
    """What can be read off a drawing at these spots [N, 2], in the units of its axes."""
    shares = (axes.transScale + axes.transLimits).transform(spots)
    points = [(x, 1.0 - y) for x, y in shares.tolist()]
    return Cells(label, box_of(axes), rows=0, columns=0, values=values, names=names, points=points)


def convergence_section(result: Recovery | JointRecovery | KindsRecovery) -> Section:
    """The curves of what the search is judged by."""
    columns, rows = result.history.columns, _rows_of_best_start(result)
    noise, pictures = result.certificate.sampling_noise, []
    for name in filter(columns.__contains__, FOLLOWED):
        values = np.asarray(columns[name], dtype=float)[rows]
        if len(rows) > 1 and values.ndim == 1 and np.isfinite(values).any():
            values = values - (values[-1] if name == "log_likelihood" else 0.0)
            level = {"level": noise if name == "feature_gap" else None, "level_name": NOISE}
            drawn = FOLLOWED[name], "iteration", np.arange(1.0, len(rows) + 1), {"": values}
            pictures.append(line_picture(*drawn, **level, logarithmic=True))
    silent = Paragraph("The search keeps no record of its steps.")
    return Section("Convergence", [Gallery(pictures) if pictures else silent])


def _rows_of_best_start(result: Recovery | JointRecovery | KindsRecovery) -> np.ndarray:
    """The rows of the history that led to the answer: of several starts, the one that was kept."""
    history = result.history
    if "start" not in history.columns or not isinstance(result, Recovery):
        return np.arange(len(history))
    distance = np.abs(history["reward_weights"] - result.reward_weights).sum(axis=1)
    for k, weights in enumerate(result.cost_weights):
        if np.isfinite(weights).all():
            distance = distance + np.abs(history[f"cost_weights_{k}"] - weights).sum(axis=1)
    nearest = int(np.where(np.isfinite(distance), distance, np.inf).argmin())
    return np.flatnonzero(history["start"] == history["start"][nearest])
