"""Checks made after the fit: other discounts or budgets, groups, what was held out, and the like.

A result is recognised by what it holds: `sentences`, a table `columns`, scores of several models,
single numbers. So results that come later are shown as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tacit.folders.recoveries import plain
from tacit.show import (
    Block,
    Cells,
    Facts,
    Gallery,
    Items,
    Picture,
    Section,
    anchor,
)
from tacit.show.canvas import (
    INK,
    axes_at,
    box_of,
    figure_of,
    new_figure,
    series_colour,
    series_mark,
    styled,
    svg,
)
from tacit.show.canvas import plain as plain_text
from tacit.show.intervals import draw_level, tidy_values
from tacit.show.tables import Bars, Cell, Column, Table, scale_of, short

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
MOST_MARKED, MOST_TOLD = 30, 400  # points of a line that have a mark each, that are told


def check_sections(extras: Mapping[str, object]) -> list[Section]:
    """One section for each check that holds anything."""
    found = {name: blocks_of(plain(result)) for name, result in extras.items()}
    titles = {name: TITLES.get(name, words(name).capitalize()) for name in found}
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
        MEANING.get(name, words(name)): value
        for name, value in result.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    blocks: list[Block] = [Items(sentences)] if sentences else []
    blocks += [*_scores(result), *_profile(columns), *([Facts(facts)] if facts else [])]
    return blocks + _table(columns)


def words(name: str) -> str:
    """A name of a program as words."""
    return str(name).replace("_", " ")


def cell(value: object) -> Cell:
    """A value as it stands in a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, int | float | str | None) else str(value)


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
            picture = line_picture(title, across[order], values[order], "discount", **ends)
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
        (words(name).capitalize(), [cell(value) for value in column[:MOST_ROWS]])
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


@styled()
def line_picture(
    title: str,
    across: np.ndarray,
    values: np.ndarray,
    across_name: str,
    *,
    level: float | None = None,
    level_name: str = "",
    logarithmic: bool = False,
) -> Picture:
    """One number [N] against another, each told under the pointer.

    Args:
        title: what is drawn.
        across: [N] where it was measured, in rising order.
        values: [N] what was measured there.
        across_name: what stands under the axis, and before the position of a point.
        level: what it is judged by, a dashed line; None for none.
        level_name: what stands on it.
        logarithmic: whether the upright axis is, where anything is positive.
    """
    axes = axes_at(new_figure(3.0, 2.3), 0.5, 0.3, 2.35, 1.55)
    if logarithmic and (values > 0).any():
        axes.set_yscale("log")
        values = np.where(values > 0, values, np.nan)
    mark = series_mark(0) if len(across) <= MOST_MARKED else ""
    axes.plot(across, values, color=series_colour(0), marker=mark, ms=4, lw=1.3)
    if logarithmic and axes.get_yscale() == "linear":
        axes.set_ylim(min(0.0, axes.get_ylim()[0]), axes.get_ylim()[1] if values.any() else 1.0)
    axes.set_xlabel(plain_text(across_name))
    axes.set_title(plain_text(title), x=-0.17)
    draw_level(axes, level, level_name, INK)
    tidy_values(axes)
    # A lattice is even, and points need not be: every place tells the point nearest to it.
    gaps, places_told = np.diff(across), 2 * min(100, 4 * len(across))
    if len(gaps) and np.ptp(gaps) < 1e-9 * gaps.max():
        axes.set_xlim(across[0] - gaps[0] / 2, across[-1] + gaps[0] / 2)
        places_told = min(len(across), MOST_TOLD)
    places = np.linspace(*axes.get_xlim(), places_told + 1)
    middles = (places[:-1] + places[1:]) / 2
    nearest = np.abs(middles[:, None] - across[None, :]).argmin(axis=1)
    told = [short(float(value)) for value in values[nearest]]
    names = [f"{across_name} {short(float(across[i]))}" for i in nearest]
    cells = Cells(title, box_of(axes), rows=1, columns=len(told), values=told, names=names)
    known = np.where(np.isfinite(values), values, -np.inf)
    alt = (
        f"{title} against {across_name}, from {short(across[0])} to {short(across[-1])}; highest "
        f"at {short(across[int(known.argmax())])}"
    )
    return Picture(svg(figure_of(axes)), alt, cells=[cells], name=anchor(title))


def history_picture(title: str, values: np.ndarray, level: float | None = None) -> Picture:
    """One number [N] over the iterations, beside the sampling noise where it is judged by that."""
    steps = np.arange(1.0, len(values) + 1)
    ends = {"level": level, "level_name": "sampling noise"}
    return line_picture(title, steps, values, "iteration", **ends, logarithmic=True)
