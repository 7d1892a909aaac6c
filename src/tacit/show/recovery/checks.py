"""Checks made after the fit: other discounts, groups, what was held out, or anything like them.

A result is recognised by what it holds: `sentences`, a table `columns`, scores of several models,
single numbers. So results that come later are shown as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tacit.folders.runs import plain
from tacit.show.canvas import (
    INK,
    axes_at,
    box_of,
    new_figure,
    series_colour,
    series_mark,
    styled,
    svg,
)
from tacit.show.canvas import plain as plain_text
from tacit.show.curves import draw_level, tidy_values
from tacit.show.document import Block, Cells, Facts, Gallery, Items, Picture, Section, anchor
from tacit.show.numbers import scale_of, short
from tacit.show.tables import Bar, Cell, Column, Row, Table

TITLES = {
    "holdout": "On trajectories held back",
    "discounts": "If the discount were another",
    "discount_profile": "If the discount were another",
    "groups": "Do the groups differ?",
}
MEANING = {
    "assumed": "discount assumed",
    "degrees": "degrees of freedom",
    "draws": "simulated draws",
    "p_value": "p-value",
    "ratio": "likelihood ratio",
}
BELOW = "log-likelihood below the best"
EDGE = -1.92  # where a likelihood ratio ends the 95 % set: half of 3.84
MOST_ROWS, MOST_COLUMNS = 200, 12


def check_sections(extras: Mapping[str, Any]) -> list[Section]:
    """One section for each further result that holds anything."""
    found = [(name, blocks_of(plain(result))) for name, result in extras.items()]
    return [
        Section(TITLES.get(name, words(name).capitalize()), blocks)
        for name, blocks in found
        if blocks
    ]


def answers(extras: Mapping[str, Any]) -> dict[str, list[str]]:
    """Question -> the sentence that says most, for the further results that have some."""
    found = {
        TITLES[name]: [str(one) for one in _several(plain(result).get("sentences"))]
        for name, result in extras.items()
        if name in TITLES
    }
    # What was held back ends with the verdict, the others begin with it.
    return {
        title: said[-1:] if title == TITLES["holdout"] else said[:1]
        for title, said in found.items()
    }


def blocks_of(result: Any) -> list[Block]:
    """A result as blocks: its sentences first, then what they rest on."""
    if not isinstance(result, Mapping):
        return [Items([str(one) for one in _several(result)])] if _several(result) else []
    sentences = [str(one) for one in _several(result.get("sentences"))]
    columns = result.get("columns")
    columns = _compared(columns) if isinstance(columns, Mapping) else {}
    if not columns and not sentences:  # a bare table
        columns = {k: v for k, v in result.items() if isinstance(v, list)}
    blocks: list[Block] = [Items(sentences)] if sentences else []
    blocks += _scores(result) + _profile(columns)
    facts: dict[str, Cell] = {
        MEANING.get(k, words(k)): v
        for k, v in result.items()
        if isinstance(v, int | float) and not isinstance(v, bool)
    }
    if facts:
        blocks.append(Facts(facts))
    return blocks + _columns(columns)


def words(name: str) -> str:
    """A name of a program as words."""
    return str(name).replace("_", " ")


def _scores(result: Mapping[str, Any]) -> list[Block]:
    """One row a model, where a result compares how well several predict."""
    scores = [v for v in result.values() if isinstance(v, Mapping) and "log_likelihood" in v]
    if len(scores) < 2:
        return []
    rows = [
        Row(
            [
                str(score.get("name", "")),
                _with_error(score, "log_likelihood"),
                Bar(100.0 * _number(score.get("share_optimal")), (0.0, 100.0)),
            ]
        )
        for score in scores
    ]
    columns = [
        Column("Model"),
        Column("Log-likelihood", "mean of a step, ± standard error"),
        Column("Best actions", "% of the steps"),
    ]
    return [Table("How well each predicts them", columns, rows)]


def _with_error(score: Mapping[str, Any], name: str) -> str:
    value, error = _number(score.get(name)), _number(score.get(f"{name}_error"))
    # Rounding alone is no error.
    known = error > 1e-9 * abs(value)
    return f"{short(value)} ± {short(error, digits=2)}" if known else short(value)


def _profile(columns: Mapping[str, Any]) -> list[Block]:
    """The likelihood, or the share of best actions, against the discount."""
    across = np.array([_number(v) for v in _several(columns.get("discount"))])
    if len(across) < 2:
        return []
    order = np.argsort(across)
    for name, title, level in ((BELOW, BELOW, EDGE), ("share_optimal", "best actions", None)):
        values = np.array([_number(v) for v in _several(columns.get(name))])
        if len(values) == len(across) and np.isfinite(values).any():
            picture = line_picture(
                title,
                across[order],
                values[order],
                across_name="discount",
                level=level,
                level_name="95 % set above",
            )
            return [Gallery([picture])]
    return []


def _compared(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns, with a log-likelihood over several discounts told against the best of them."""
    if "discount" not in columns or "log_likelihood" not in columns:
        return dict(columns)
    values = np.array([_number(v) for v in _several(columns["log_likelihood"])])
    best = np.nanmax(values) if np.isfinite(values).any() else 0.0
    told = {BELOW: np.round(values - best, 6).tolist()}  # less is rounding
    return {
        key: column
        for name, value in columns.items()
        for key, column in (told if name == "log_likelihood" else {name: value}).items()
    }


def _columns(columns: Mapping[str, Any]) -> list[Block]:
    """A table of columns; a value with its ends is drawn as a bar."""
    lengths = {len(_several(column)) for column in columns.values()}
    if len(lengths) != 1 or not max(lengths):
        return []
    if {"value", "low", "high", "quantity", "name", "group"} <= set(columns):
        return [_by_group(columns)]
    count = lengths.pop()
    shown = dict(list(columns.items())[:MOST_COLUMNS])
    rows = [
        Row([_cell(column[i]) for column in shown.values()]) for i in range(min(count, MOST_ROWS))
    ]
    left = len(columns) - len(shown)
    note = f"The first {MOST_ROWS} of {count} rows. " if count > MOST_ROWS else ""
    note += f"{left} more columns are in the files of the run." if left > 0 else ""
    heads = [Column(words(name).capitalize()) for name in shown]
    return [Table("The numbers", heads, rows, note)]


def _by_group(columns: Mapping[str, Any]) -> Table:
    """The numbers of each group, those of the same name below each other."""
    names = ("quantity", "name", "group", "value", "low", "high")
    rows = list(zip(*(columns[name] for name in names), strict=True))
    rows.sort(key=lambda row: tuple(map(str, row[:3])))
    scales = {
        quantity: scale_of(
            np.array([_number(v) for row in rows if row[0] == quantity for v in row[3:]])
        )
        for quantity in {row[0] for row in rows}
    }
    cells: list[Row] = []
    for quantity, name, group, *numbers in rows[:MOST_ROWS]:
        value, low, high = map(_number, numbers)
        bar = Bar(value, scales[quantity], low=low, high=high)
        cells.append(Row([f"{quantity} {name}".strip(), str(group), bar]))
    heads = [Column("Number"), Column("Group"), Column("Value", "and its 95 % interval")]
    return Table("Each group by itself", heads, cells)


def _cell(value: Any) -> Cell:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, int | float | str | None) else str(value)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else np.nan


def _several(value: Any) -> Sequence[Any]:
    if value is None:
        return []
    return value if isinstance(value, list | tuple) else [value]


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
    figure = new_figure(3.0, 2.3)
    axes = axes_at(figure, 0.5, 0.3, 2.35, 1.55)
    axes.plot(across, values, color=series_colour(0), marker=series_mark(0), ms=4, lw=1.3)
    axes.set_xlabel(plain_text(across_name))
    draw_level(axes, level, level_name, INK)
    tidy_values(axes)
    axes.set_title(plain_text(title), x=-0.17)
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    # A lattice is even, and points need not be: every place tells the point nearest to it.
    places = np.linspace(left, right, 2 * min(100, 4 * len(across)) + 1)
    middles = (places[:-1] + places[1:]) / 2
    nearest = np.abs(middles[:, None] - across[None, :]).argmin(axis=1)
    cells = Cells(
        title,
        box_of(axes, (left, right), (high, low)),
        rows=1,
        columns=len(middles),
        values=[short(float(values[i])) for i in nearest],
        names=[f"{across_name} {short(float(across[i]))}" for i in nearest],
    )
    known = np.where(np.isfinite(values), values, -np.inf)
    alt = (
        f"{title} against {across_name}, from {short(across[0])} to {short(across[-1])}; highest "
        f"at {short(across[int(known.argmax())])}"
    )
    return Picture(svg(figure), alt, cells=[cells], name=anchor(title))
