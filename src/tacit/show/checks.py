"""Checks made after the fit: other discounts or budgets, groups, what was held out, and the like.

A result is recognised by what it holds: `sentences`, a table `columns`, scores of several models,
single numbers. So results that come later are shown as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tacit.folders.recoveries import plain
from tacit.show import Block, Facts, Gallery, Items, Section
from tacit.show.curves import line_picture
from tacit.show.tables import Bars, Cell, Column, Table, as_words, cell, scale_of, short

TITLES = {
    "holdout": "On trajectories held back",
    "discounts": "If the discount were another",
    "discount_profile": "If the discount were another",
    "groups": "Do the groups differ?",
    "posterior": "And with what was believed before?",
    "cautious": "What to deploy to be on the safe side?",
    "diagnose": "Which assumption do the demonstrations contradict?",
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


def check_sections(extras: Mapping[str, object]) -> list[Section]:
    """One section for each check that holds anything."""
    found = {name: blocks_of(plain(result)) for name, result in extras.items()}
    titles = {name: TITLES.get(name, as_words(name).capitalize()) for name in found}
    return [Section(titles[name], blocks) for name, blocks in found.items() if blocks]


def answers(extras: Mapping[str, object]) -> dict[str, list[str]]:
    """Question -> the sentence that says most, for the checks whose question is known."""
    found = {}
    for name in filter(TITLES.__contains__, extras):
        sentences = [str(one) for one in _several(plain(extras[name]).get("sentences"))]
        # What was held back ends with the verdict, the others begin with it.
        found[TITLES[name]] = sentences[-1:] if name == "holdout" else sentences[:1]
    return found


def blocks_of(result: object) -> list[Block]:
    """A result as blocks: its sentences first, then what they rest on."""
    if not isinstance(result, Mapping):
        return [Items([str(one) for one in _several(result)])] if _several(result) else []
    sentences = [str(one) for one in _several(result.get("sentences"))]
    columns = result.get("columns")
    columns = _with_ratios(columns) if isinstance(columns, Mapping) else {}
    if not columns and not sentences:  # a bare table
        columns = {name: value for name, value in result.items() if isinstance(value, list)}
    facts: dict[str, Cell] = {
        MEANING.get(name, as_words(name)): value
        for name, value in result.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    blocks: list[Block] = [Items(sentences)] if sentences else []
    blocks += [*_scores(result), *_profile(columns), *([Facts(facts)] if facts else [])]
    return blocks + _table(columns)


def _scores(result: Mapping[str, object]) -> list[Block]:
    """One row a model, where a result compares how well several predict."""
    scores = [v for v in result.values() if isinstance(v, Mapping) and "log_likelihood" in v]
    if len(scores) < 2:
        return []
    value, error, best = (
        _numbers([score.get(name) for score in scores])
        for name in ("log_likelihood", "log_likelihood_error", "share_optimal")
    )
    known = error > 1e-9 * np.abs(value)  # rounding alone is no error
    told = [
        f"{short(x)} ± {short(e, digits=2)}" if k else short(x)
        for x, e, k in zip(value.tolist(), error.tolist(), known, strict=True)
    ]
    columns = [
        ("Model", [str(score.get("name", "")) for score in scores]),
        (Column("Log-likelihood", "mean of a step, ± standard error"), told),
        (Column("Best actions", "% of the steps"), Bars(100.0 * best, limits=(0.0, 100.0))),
    ]
    return [Table.of("How well each predicts them", columns)]


def _profile(columns: Mapping[str, object]) -> list[Block]:
    """The likelihood, or the share of best actions, against the discount."""
    across = _numbers(columns.get("discount"))
    order = np.argsort(across)
    for name, title, level in ((BELOW, BELOW, EDGE), ("share_optimal", "best actions", None)):
        values = _numbers(columns.get(name))
        if len(values) == len(across) > 1 and np.isfinite(values).any():
            ends = {"level": level, "level_name": "95 % set above"}
            drawn = {title: values[order]}
            picture = line_picture(title, "discount", across[order], drawn, **ends)
            return [Gallery([picture])]
    return []


def _with_ratios(columns: Mapping[str, object]) -> dict[str, object]:
    """The columns, a log-likelihood over several discounts told against the best of them."""
    if "discount" not in columns:
        return dict(columns)
    values = _numbers(columns.get("log_likelihood"))
    best = values[np.isfinite(values)].max(initial=-np.inf)
    below = np.round(values - best, 6).tolist()  # less is rounding
    return {
        BELOW if name == "log_likelihood" else name: below if name == "log_likelihood" else column
        for name, column in columns.items()
    }


def _table(columns: Mapping[str, object]) -> list[Block]:
    """A table of columns; a value with its ends is drawn as a bar."""
    lists = {name: _several(column) for name, column in columns.items()}
    lengths = {len(column) for column in lists.values()}
    if len(lengths) != 1 or not max(lengths):
        return []
    if {"value", "low", "high", "quantity", "name", "group"} <= set(lists):
        return [_group_table(lists)]
    count, left = lengths.pop(), len(lists) - MOST_COLUMNS
    note = f"The first {MOST_ROWS} of {count} rows. " if count > MOST_ROWS else ""
    note += f"{left} more columns are in the files of the run." if left > 0 else ""
    shown = [
        (as_words(name).capitalize(), [cell(value) for value in column[:MOST_ROWS]])
        for name, column in list(lists.items())[:MOST_COLUMNS]
    ]
    return [Table.of("The numbers", shown, note)]


def _group_table(columns: Mapping[str, Sequence[object]]) -> Table:
    """The numbers of each group, those of the same name below each other."""
    labels = np.array([columns[name] for name in ("quantity", "name", "group")], dtype=str)
    order = np.lexsort(labels[::-1])[:MOST_ROWS]
    quantities, names, groups = labels[:, order]
    value, *ends = (_numbers(columns[name])[order] for name in ("value", "low", "high"))
    ends = np.stack(ends, axis=1)
    bars: list[Cell] = []
    for x, pair, quantity in zip(value, ends, quantities, strict=True):
        own = quantities == quantity
        bars += Bars([x], [pair], scale_of(np.append(value[own], ends[own]))).cells
    numbers = [f"{q} {n}".strip() for q, n in zip(quantities, names, strict=True)]
    interval = Column("Value", "and its 95 % interval")
    shown = [("Number", numbers), ("Group", groups), (interval, bars)]
    return Table.of("Each group by itself", shown)


def _numbers(values: object) -> np.ndarray:
    """[N] the numbers; NaN for what is none."""
    several = _several(values)
    return np.array([float(v) if isinstance(v, int | float) else np.nan for v in several])


def _several(value: object) -> Sequence[object]:
    if value is None:
        return []
    return value if isinstance(value, list | tuple) else [value]
