"""The way the search came to its answer: curves, and a slider over its iterations."""

from __future__ import annotations

import numpy as np

from tacit.show.canvas import axes_at, box_of, new_figure, plain, styled, svg
from tacit.show.curves import draw_history
from tacit.show.document import (
    Block,
    Cells,
    Choice,
    Gallery,
    Option,
    Paragraph,
    Picture,
    Selector,
    anchor,
)
from tacit.show.numbers import short
from tacit.show.recovery.states import NamedRecovery
from tacit.show.tables import Bar, Column, Row, Table

MOST_FOLLOWED = 12  # features followed over the iterations
MOST_STOPS = 40  # of the slider
MOST_POINTS = 400  # of a curve that can be told apart under a pointer

MEANING = {  # of the columns of a history that are drawn
    "feature_gap": "feature gap",
    "weight_change": "change of the weights",
    "loss": "loss",
    "projected_gradient": "gradient",
    "violation": "violation",
}


def convergence_blocks(named: NamedRecovery) -> list[Block]:
    """The curves of the search, and a slider over its iterations; nothing if it has no history."""
    history = named.recovery.history
    rows = _kept_rows(named)
    names = [name for name in MEANING if name in history.columns]
    if len(rows) < 2:
        facts = ", ".join(
            f"{name.replace('_', ' ')} {short(float(np.ravel(column)[-1]))}"
            for name, column in history.columns.items()
            if len(column) and column.ndim == 1
        )
        at_the_end = f" At its end: {facts}." if facts else ""
        return [Paragraph(f"The search keeps no record of its steps.{at_the_end}")]
    noise = named.recovery.certificate.sampling_noise
    curves = [(MEANING[n], history[n][rows], noise if n == "feature_gap" else None) for n in names]
    pictures: list[Block] = [
        history_picture(title, np.asarray(values, float), level)
        for title, values, level in curves
        if values.ndim == 1 and np.isfinite(np.asarray(values, float)).any()
    ]
    blocks: list[Block] = [Gallery(pictures)] if pictures else []
    return blocks + _slider(named, rows)


def _kept_rows(named: NamedRecovery) -> np.ndarray:
    """The rows of the history that led to the answer: of several starts, the one that was kept."""
    history = named.recovery.history
    rows = np.arange(len(history))
    if "start" not in history.columns or "reward_weights" not in history.columns:
        return rows
    distance = np.abs(history["reward_weights"] - named.recovery.reward_weights).sum(axis=1)
    for k, weights in enumerate(named.recovery.cost_weights):
        name = f"cost_weights_{k}"
        if named.identified[k] and name in history.columns:
            distance = distance + np.abs(history[name] - weights).sum(axis=1)
    distance = np.where(np.isfinite(distance), distance, np.inf)
    return rows[history["start"] == history["start"][int(distance.argmin())]]


def _slider(named: NamedRecovery, rows: np.ndarray) -> list[Block]:
    """The weights and prices at chosen iterations; the last is shown at first."""
    history, recovery = named.recovery.history, named.recovery
    groups = [("wants", "reward_weights", recovery.reward_names)]
    groups += [
        ("refuses", f"cost_weights_{k}", names) for k, names in enumerate(recovery.cost_names)
    ]
    groups = [group for group in groups if group[1] in history.columns]
    if not groups:
        return []
    spread = np.linspace(0, len(rows) - 1, min(len(rows), MOST_STOPS))
    stops = np.unique(spread.round().astype(int))
    columns = [Column("Feature"), Column("Part"), Column("Weight", "scale 0 to 1")]
    order = {
        name: np.argsort(-np.abs(np.nan_to_num(history[name][rows[-1]])), kind="stable")
        for _, name, _ in groups
    }
    options = []
    for index in reversed(range(len(stops))):
        row = rows[stops[index]]
        table = [
            Row([names[j], part, Bar(float(history[name][row, j]), (0.0, 1.0))])
            for part, name, names in groups
            for j in order[name][:MOST_FOLLOWED]
        ]
        prices = history["multipliers"][row] if "multipliers" in history.columns else []
        said = ", ".join(short(float(price)) for price in np.ravel(prices))
        note = f"Price of the budget: {said}." if said else ""
        caption = f"Iteration {stops[index] + 1} of {len(rows)}"
        options.append(Option((index,), [Table(caption, columns, table, note)]))
    selector = Selector("iteration", [str(stop + 1) for stop in stops], slider=True)
    return [Choice([selector], options)]


@styled()
def history_picture(title: str, values: np.ndarray, level: float | None) -> Picture:
    """One number [N] over the iterations.

    Args:
        title: what it is.
        values: [N].
        level: the sampling noise it is judged by; None where there is none.
    """
    figure = new_figure(3.0, 2.3)
    axes = axes_at(figure, 0.5, 0.3, 2.35, 1.55)
    known = level is not None and np.isfinite(level)
    draw_history(values, axes, levels=level if known else None, level_name="sampling noise")
    axes.set_title(plain(title), x=-0.17)
    count = len(values)
    stops = np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).round().astype(int))
    low, high = axes.get_ylim()
    box = box_of(axes, (0.5, count + 0.5), (high, low))
    names = [f"iteration {i + 1}" for i in stops]
    told = [short(float(values[i])) for i in stops]
    cells = Cells(title, box, rows=1, columns=len(stops), values=told, names=names)
    alt = f"{title} over {count} iterations, from {short(values[0])} to {short(values[-1])}"
    return Picture(svg(figure), alt, cells=[cells], name=anchor(title))
