"""The recovered numbers with their intervals, and the way the search came to them."""

from __future__ import annotations

from collections.abc import Sequence

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
from tacit.show.numbers import MISSING, scale_of, short
from tacit.show.recovery.states import NamedRecovery
from tacit.show.tables import Bar, Cell, Column, Row, Table

MOST_FEATURES = 60  # of a table of weights


def weight_tables(named: NamedRecovery) -> list[Block]:
    """A table of weights for the reward and for each identified constraint, and the prices."""
    recovery, known = named.recovery, named.recovery.identification
    kind = (
        "Bands hold every explanation of the demonstrations."
        if named.whole_set
        else f"Bands are {named.confidence} intervals."
    )
    if np.isnan(known.reward_intervals).all():
        kind = "This answer has no intervals."
    blocks: list[Block] = []
    if np.isfinite(recovery.reward_weights).all():
        blocks.append(
            _weights(
                "What it wants: weights of the reward",
                recovery.reward_names,
                recovery.reward_weights,
                known.reward_intervals,
                f"Weights have absolute values of sum 1. {kind}",
            )
        )
    for k, weights in enumerate(recovery.cost_weights):
        if named.identified[k]:
            of = "the cost" if named.constraints == 1 else f"constraint {k}"
            caption = f"What it refuses: weights of {of}"
            blocks.append(
                _weights(caption, recovery.cost_names[k], weights, known.cost_intervals[k], "")
            )
    return blocks + _prices(named) + _coefficients(named)


def _weights(
    caption: str, names: Sequence[str], weights: np.ndarray, ends: np.ndarray, note: str
) -> Table:
    order = np.argsort(-np.abs(weights), kind="stable")[:MOST_FEATURES]
    limits = _shared_scale(np.append(weights, 1.0), ends)
    rows = [Row([names[j], _bar(weights[j], limits, ends[j])]) for j in map(int, order)]
    if len(weights) > MOST_FEATURES:
        note = f"The {MOST_FEATURES} heaviest of {len(weights)}. {note}".strip()
    scale = f"scale {short(limits[0])} to {short(limits[1])}"
    return Table(caption, [Column("Feature"), Column("Weight", scale)], rows, note)


def _prices(named: NamedRecovery) -> list[Block]:
    recovery, known = named.recovery, named.recovery.identification
    if not named.constraints:
        return []
    budgets = _shared_scale(recovery.budgets, known.budget_intervals)
    prices = _shared_scale(recovery.multipliers, known.multiplier_intervals)
    rows = []
    for k in range(named.constraints):
        spent = recovery.solution.spent[k] if named.identified[k] else np.nan
        budget, price = recovery.budgets[k], recovery.multipliers[k]
        cells: list[Cell] = [
            named.constraint(k),
            _bar(budget, budgets, known.budget_intervals[k]) if budget < np.inf else "none seen",
            float(spent),
            _bar(price, prices, known.multiplier_intervals[k]),
            "yes" if known.active[k] else "not shown",
        ]
        rows.append(Row(cells))
    columns = [
        Column("Constraint"),
        Column("Budget", "largest expected discounted cost"),
        Column("Spent", "by the recovered policy"),
        Column("Price", "reward for one more unit"),
        Column("Holds it back"),
    ]
    return [Table("Budgets and prices", columns, rows)]


def _chance(p_value: float) -> str:
    """A p-value as people write it."""
    if np.isnan(p_value):
        return MISSING
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _coefficients(named: NamedRecovery) -> list[Block]:
    """The model's own coefficients with their standard errors; nothing where there are none."""
    found = named.recovery.parameters
    if not np.isfinite(found.standard_errors).any():
        return []
    limits = _shared_scale(found.estimates, found.intervals)
    rows = [
        Row(
            [
                found.names[j],
                _bar(found.estimates[j], limits, found.intervals[j]),
                error,
                _chance(p_value),
            ]
        )
        for j, (error, p_value) in enumerate(
            zip(found.standard_errors.tolist(), found.p_values.tolist(), strict=True)
        )
    ]
    interval = f"and its {100 * found.confidence:g} % interval"
    columns = [Column("Coefficient"), Column("Estimate", interval), Column("Standard error")]
    columns.append(Column("p-value", "if it were 0"))
    note = f"In units of the demonstrator's noise; {found.errors} standard errors."
    return [Table("Coefficients of the model", columns, rows[:MOST_FEATURES], note)]


def _shared_scale(values: np.ndarray, ends: np.ndarray) -> tuple[float, float]:
    """(left, right) of a scale for these numbers, with room beyond them for an open end."""
    left, right = scale_of(np.concatenate([values, np.ravel(ends)]))
    return left, right * (1.3 if np.isposinf(ends).any() else 1.0)


def _bar(value: float, limits: tuple[float, float], ends: np.ndarray) -> Bar:
    return Bar(float(value), limits, low=float(ends[0]), high=float(ends[1]))


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
