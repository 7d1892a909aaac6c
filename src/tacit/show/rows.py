"""Tables as HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tacit.show.bars import bar
from tacit.show.digits import MISSING, Scale, short
from tacit.show.tables import Bar, Best, Cell, Kind, Row, Spread, Table
from tacit.show.words import inline

MOST_COLUMNS = 8  # more than that may be wider than the text
MOST_ROWS = 14  # of a table that is sorted and searched; more scroll in a frame of their own
SMALL = 1e-2  # a column of numbers below it has their power of ten in its head


def table(block: Table, name: str) -> str:
    """The table in a frame that scrolls, under its caption; `name` is its own in the page."""
    search = ""
    if block.searchable:
        search = (
            f'<p class="search"><label for="{name}-search">Search</label> '
            f'<input type="search" id="{name}-search" data-table="{name}" '
            f'aria-describedby="{name}-caption" '
            'autocomplete="off"> <output></output></p>'
        )
    powers = [_power(block, index) for index in range(len(block.columns))]
    head = "".join(_head(block, index, power) for index, power in enumerate(powers))
    best = [_best(block, index) for index in range(len(block.columns))]
    body = "\n".join(
        _row(row, powers, [number in column for column in best], block.sortable)
        for number, row in enumerate(block.rows)
    )
    broad = " broad" if len(block.columns) > MOST_COLUMNS else ""
    broad += " tall" if block.sortable and len(block.rows) > MOST_ROWS else ""
    note = f'<p class="note">{inline(block.note)}</p>' if block.note else ""
    return (
        f'<figure class="table{broad}"><figcaption id="{name}-caption">{inline(block.caption)}'
        f"</figcaption>{search}"
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{name}-caption">'
        f'<table id="{name}"><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>'
        f"</div>{note}</figure>"
    )


def content(cell: Cell, *, power: int = 0) -> str:
    """What stands in a cell: words, a number, or a median over its middle half.

    Args:
        cell: what to say.
        power: the power of ten that is said elsewhere.
    """
    if isinstance(cell, str):
        return inline(cell)
    scale = 10.0**-power
    if isinstance(cell, Bar):
        return bar(cell, scale)
    if isinstance(cell, Spread):
        if math.isnan(cell.middle):
            return MISSING
        low, high = (short(end * scale, digits=2) for end in (cell.low, cell.high))
        between = " to " if "−" in low + high else "–"  # no dash beside a minus
        return f'{short(cell.middle * scale)} <span class="range">{low}{between}{high}</span>'
    return short(cell * scale if power and cell is not None else cell)


def _power(block: Table, column: int) -> int:
    """The power of ten to say once in the head of a column of small numbers; 0 for others."""
    numbers = [_number(row.cells[column]) for row in block.rows]
    finite = [abs(number) for number in numbers if number is not None and math.isfinite(number)]
    if max(finite, default=0.0) >= SMALL:
        return 0
    return Scale.of([finite]).exponent


def _head(block: Table, index: int, power: int) -> str:
    """The head of a column: at the right, as numbers are, if it holds nothing else."""
    column = block.columns[index]
    words = index == 0 or any(isinstance(row.cells[index], str) for row in block.rows)
    note = ", ".join(filter(None, (column.note, Scale(power, 0).power)))
    small = f"<small>{inline(note)}</small>" if note else ""
    side = "" if words else ' class="n"'
    name = inline(column.name)
    if block.sortable:
        name, side = f'<button type="button">{name}</button>', f'{side} aria-sort="none"'
    return f'<th scope="col"{side}>{name}{small}</th>'


def _row(row: Row, powers: Sequence[int], best: Sequence[bool], sortable: bool) -> str:
    tag = f' <span class="tag">{row.kind.value}</span>' if row.kind.value else ""
    written = f'<th scope="row">{content(row.cells[0])}{tag}</th>'
    for cell, power, first in list(zip(row.cells, powers, best, strict=True))[1:]:
        names = ["n"] * (not isinstance(cell, str)) + ["b"] * isinstance(cell, Bar)
        names += ["best"] * first
        kind = f' class="{" ".join(names)}"' if names else ""
        number = _number(cell) if sortable else None
        key = "" if number is None else f' data-number="{number:.4g}"'
        written += f"<td{kind}{key}>{content(cell, power=power)}</td>"
    return (
        f'<tr class="{row.kind.value}">{written}</tr>' if row.kind.value else f"<tr>{written}</tr>"
    )


def _best(table: Table, column: int) -> set[int]:
    """The plain rows that hold the best number of the column, judged as it is printed."""
    wanted = table.columns[column].best
    if wanted is Best.NONE:
        return set()
    numbers = {
        index: value
        for index, row in enumerate(table.rows)
        if row.kind is Kind.PLAIN and (value := _number(row.cells[column])) is not None
    }
    if len(numbers) < 2:  # one alone is not the best of anything
        return set()
    top = (min if wanted is Best.LOWEST else max)(numbers.values())
    return {index for index, value in numbers.items() if short(value) == short(top)}


def _number(cell: Cell) -> float | None:
    value = cell.middle if isinstance(cell, Spread) else cell
    value = value.value if isinstance(value, Bar) else value
    return None if value is None or isinstance(value, str) or math.isnan(value) else float(value)
