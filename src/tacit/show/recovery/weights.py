"""The recovered numbers with their intervals: weights, budgets and prices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.show.document import Block
from tacit.show.numbers import scale_of, short
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


def _coefficients(named: NamedRecovery) -> list[Block]:
    """The model's own coefficients with their standard errors; nothing where there are none."""
    found = named.recovery.parameters
    if not np.isfinite(found.standard_errors).any():
        return []
    limits = _shared_scale(found.estimates, found.intervals)
    rows = [
        Row([found.names[j], _bar(found.estimates[j], limits, found.intervals[j]), error, p_value])
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
