"""Checks made after the fit: other discounts or budgets, groups, what was held out, and the like.

A result is recognised by what it holds: `sentences`, a table `columns`, scores of several models,
single numbers. So results that come later are shown as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tacit.folders.recoveries import plain
from tacit.show import Block, Facts, Gallery, Items, Section
from tacit.show.appendix import column_of
from tacit.show.curves import line_picture
from tacit.show.tables import Cell, IntervalEstimate, Table, as_words

TITLES = {
    "holdout": "On trajectories held back",
    "discounts": "If the discount were another",
    "discount_profile": "If the discount were another",
    "groups": "Do the groups differ?",
    "posterior": "And with what was believed before?",
    "profiles": "What the states are",
    "diagnose": "Which assumption do the demonstrations contradict?",
}
MEANING = {
    "assumed": "discount assumed",
    "degrees": "degrees of freedom",
    "draws": "simulated draws",
    "ratio": "likelihood ratio",
}
BELOW = "log-likelihood below the best"
EDGE = -1.92  # where a likelihood ratio ends the 95 % set: half of 3.84
MOST_ROWS, MOST_COLUMNS = 200, 12


def check_sections(extras: Mapping[str, object]) -> list[Section]:
    """One section for each check that holds anything."""
    blocks = {name: blocks_of(plain(result)) for name, result in extras.items()}
    titles = {name: TITLES.get(name, as_words(name).capitalize()) for name in blocks}
    return [Section(titles[name], own) for name, own in blocks.items() if own]


def answers(extras: Mapping[str, object]) -> dict[str, list[str]]:
    """Question -> the sentence that says most, for the checks whose question is known."""
    by_question = {}
    for name in filter(TITLES.__contains__, extras):
        sentences = [str(one) for one in _several(plain(extras[name]).get("sentences"))]
        # What was held back ends with the verdict, the others begin with it.
        by_question[TITLES[name]] = sentences[-1:] if name == "holdout" else sentences[:1]
    return by_question


def blocks_of(result: object) -> list[Block]:
    """A result as blocks: its sentences, its numbers, the records in it, and its columns."""
    if not isinstance(result, Mapping):
        result = {"sentences": result}
    sentences = [str(one) for one in _several(result.get("sentences"))]
    columns = result.get("columns")
    parts = [one for name, part in result.items() if name != "columns" for one in _several(part)]
    records = [one for one in parts if isinstance(one, Mapping)]
    if not isinstance(columns, Mapping):  # a bare table
        lists = {name: one for name, one in result.items() if isinstance(one, list)}
        columns = {} if sentences or records else lists
    facts: dict[str, Cell] = {
        MEANING.get(name, as_words(name)): value
        for name, value in result.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    columns = _below_the_best(columns)
    by_name = {name: [one.get(name) for one in records] for name in (records or [{}])[0]}
    return [
        *([Items(sentences)] if sentences else []),
        *_profile(columns),
        *([Facts(facts)] if facts else []),
        *_table("In numbers", by_name),
        *_table("The numbers", columns),
    ]


def _below_the_best(columns: Mapping[str, object]) -> dict[str, object]:
    """The columns, a log-likelihood over several discounts told against the best of them."""
    if not {"discount", "log_likelihood"} <= {*columns}:
        return dict(columns)
    values = _numbers(columns["log_likelihood"])
    below = np.round(values - values[np.isfinite(values)].max(initial=-np.inf), 6)  # or rounding
    names = {"log_likelihood": BELOW}
    return {names.get(name, name): one for name, one in columns.items()} | {BELOW: below.tolist()}


def _profile(columns: Mapping[str, object]) -> list[Block]:
    """The likelihood, or the share of best actions, against the discount."""
    across = _numbers(columns.get("discount"))
    order = np.argsort(across)
    for name, title, level in ((BELOW, BELOW, EDGE), ("share_optimal", "best actions", None)):
        values = _numbers(columns.get(name))
        if len(values) == len(across) > 1 and np.isfinite(values).any():
            drawn = (title, "discount", across[order], {title: values[order]})
            return [Gallery([line_picture(*drawn, level=level, level_name="95 % set above")])]
    return []


def _table(caption: str, columns: Mapping[str, object]) -> list[Block]:
    """A table of columns; a value and the ends of its interval are one cell."""
    lists = {name: list(_several(column)) for name, column in columns.items()}
    if len({len(column) for column in lists.values()}) != 1 or not any(lists.values()):
        return []
    if {"value", "low", "high"} <= {*lists}:
        numbers = [_numbers(lists.pop(name)) for name in ("value", "low", "high")]
        lists["value"] = [IntervalEstimate(*row) for row in np.stack(numbers, axis=1).tolist()]
    count = max(map(len, lists.values()))
    # Numbers of the same name stand below each other.
    keys = [np.array(lists[name], str) for name in ("name", "quantity") if name in lists]
    order = np.lexsort(keys)[:MOST_ROWS] if len(keys) == 2 else range(min(count, MOST_ROWS))
    rest = len(lists) - MOST_COLUMNS
    note = f"The first {MOST_ROWS} of {count} rows. " if count > MOST_ROWS else ""
    note += f"{rest} more columns are in the files of the run." if rest > 0 else ""
    shown = list(lists.items())[:MOST_COLUMNS]
    cells = [column_of(name, [column[k] for k in order]) for name, column in shown]
    return [Table.of(caption, cells, note)]


def _numbers(values: object) -> np.ndarray:
    """[N] the numbers; NaN for what is none."""
    several = _several(values)
    return np.array([float(v) if isinstance(v, int | float) else np.nan for v in several])


def _several(value: object) -> Sequence[object]:
    if value is None:
        return []
    return value if isinstance(value, list | tuple) else [value]
