"""Further results of a run, whatever they are: sentences, single numbers, columns, curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np

from tacit.show.document import Block, Facts, Gallery, Items, Picture, Section
from tacit.show.recovery.lines import line_picture
from tacit.show.tables import Cell, Column, Row, Table

TITLES = {
    "holdout": "On demonstrations held back",
    "discounts": "If the discount were another",
    "discount_profile": "If the discount were another",
    "groups": "Do the groups differ?",
}
MOST_ROWS = 200
MOST_FACTS = 12


def further_sections(extras: Mapping[str, Any]) -> list[Section]:
    """One section for each further result that holds anything."""
    sections = []
    for name, result in extras.items():
        blocks = blocks_of(plain(result))
        if blocks:
            title = TITLES.get(name, name.replace("_", " ").capitalize())
            sections.append(Section(title, blocks))
    return sections


def blocks_of(result: Any) -> list[Block]:
    """A result as blocks: its sentences first, then its curve, its numbers and its columns."""
    if not isinstance(result, Mapping):
        return [Items([str(one) for one in _several(result)])] if result not in (None, []) else []
    sentences = [str(s) for key in ("sentences", "findings") for s in _several(result.get(key))]
    rest = {k: v for k, v in result.items() if k not in ("sentences", "findings")}
    facts = {words(k): v for k, v in rest.items() if isinstance(v, str | int | float | None)}
    columns = {k: v for k, v in rest.items() if _is_column(v)}
    blocks: list[Block] = [Items(sentences)] if sentences else []
    blocks += _profile(columns)
    if facts:
        blocks.append(Facts(dict(list(facts.items())[:MOST_FACTS])))
    for length in dict.fromkeys(len(column) for column in columns.values()):
        blocks += _columns({k: v for k, v in columns.items() if len(v) == length})
    for name, value in rest.items():
        if isinstance(value, Mapping):
            blocks += blocks_of(value) if len(rest) == 1 else _named(name, value)
    return blocks


def plain(value: Any) -> Any:
    """The value made of dicts, lists, numbers and text alone."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value if isinstance(value, str | int | float | None) else str(value)


def words(name: str) -> str:
    """A name of a program as words."""
    return str(name).replace("_", " ")


def _named(name: str, value: Mapping[str, Any]) -> list[Block]:
    """A result within a result: a table of one row a name."""
    pairs = [(k, v) for k, v in value.items() if isinstance(v, str | int | float | None)]
    if len(pairs) < len(value):
        return blocks_of(value)
    rows = [Row([str(k), v]) for k, v in pairs[:MOST_ROWS]]
    return [Table(words(name).capitalize(), [Column("Name"), Column("Value")], rows)]


def _profile(columns: Mapping[str, Sequence[Any]]) -> list[Block]:
    """The likelihood against the discount, where a result has both."""
    discounts = columns.get("discount") or columns.get("discounts")
    heights = columns.get("log_likelihood")
    if not discounts or not heights or len(discounts) != len(heights) or len(discounts) < 2:
        return []
    across = np.array(discounts, float)
    order = np.argsort(across)
    values = np.array([np.nan if h is None else h for h in heights], float)
    picture: Picture = line_picture(
        "log-likelihood", across[order], values[order], "discount", point="discount"
    )
    return [Gallery([picture])]


def _columns(columns: Mapping[str, Sequence[Any]]) -> list[Block]:
    if not columns:
        return []
    length = len(next(iter(columns.values())))
    rows = [
        Row([_cell(column[i]) for column in columns.values()])
        for i in range(min(length, MOST_ROWS))
    ]
    note = "" if length <= MOST_ROWS else f"The first {MOST_ROWS} of {length}."
    heads = [Column(words(name).capitalize()) for name in columns]
    return [Table(", ".join(map(words, columns)).capitalize(), heads, rows, note)]


def _cell(value: Any) -> Cell:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_text(one) for one in value)
    return value


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _is_column(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and not isinstance(value[0], Mapping)


def _several(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
