"""Features from a table with one row a state: a CSV or Parquet file, or columns in memory."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.files.tables import read_columns
from tacit.model.features.maps import Map
from tacit.model.names import Layout, state_names

SEPARATORS = ",;\t"


def columns(
    table: Any,
    names: Sequence[str] | str | None = None,
    layout: Layout | None = None,
    *,
    states: int | None = None,
    state: str = "state",
) -> Map:
    """[S, D] columns of a table with one row a state, in the order of the states.

    Args:
        table: path of a .csv or .parquet file; or columns by name, as a dict or a data frame.
        names: columns to take; None takes all but the one that says the state.
        layout: names of the states, where the table gives names and not numbers.
        states: S; None takes what the layout says, or as many as there are rows.
        state: the column that says which state a row is about, by name or by number.
    """
    read = _read(table)
    listed = ", ".join(read.columns)
    if state not in read.columns:
        raise InvalidModel(
            f"{read.name} must have a column {state!r} that says which state a row is about; "
            f"got the columns {listed}"
        )
    chosen = [names] if isinstance(names, str) else names
    chosen = [name for name in read.columns if name != state] if chosen is None else list(chosen)
    missing = next((name for name in chosen if name not in read.columns), None)
    if missing is not None:
        raise InvalidModel(f"{read.name} has no column {missing!r}; got the columns {listed}")
    if not chosen or not len(read.places):
        raise InvalidModel(
            f"{read.name} must have at least one row and one column of features; got none"
        )
    layout = layout or Layout()
    grid = layout.rows * layout.columns
    count = states or len(layout.state_names) or grid or len(read.places)
    rows = _states(read, state, count, layout)
    values = np.empty((count, len(chosen)))
    for j, name in enumerate(chosen):
        values[rows, j] = _real(read, name)
    return Map(values, chosen)


@dataclass(frozen=True, eq=False)
class _Table:
    """Columns of equal length, and what to call each row in a message.

    Attributes:
        columns: by name; text in a CSV file.
        name: of the table.
        places: "line 2" and so on, one a row.
    """

    columns: Mapping[str, Any]
    name: str
    places: Sequence[str]

    def wrong(self, column: str, row: int, wanted: str) -> InvalidModel:
        entry = self.columns[column][row]
        entry = entry.item() if hasattr(entry, "item") else entry
        got = "nothing" if entry in (None, "") else repr(entry)
        return InvalidModel(
            f"{self.name}, {self.places[row]}, column {column!r}: must be {wanted}; got {got}"
        )


def _read(table: Any) -> _Table:
    if isinstance(table, str | Path):
        path = Path(table)
        if path.suffix == ".csv":
            return _text_table(path)
        if path.suffix != ".parquet":
            raise InvalidModel(f"a table of features is a .csv or .parquet file; got {path.name}")
        read, name = read_columns(path), str(path)
    elif isinstance(table, Mapping) or hasattr(table, "columns"):
        listed = table.keys() if isinstance(table, Mapping) else table.columns
        read, name = {str(key): np.asarray(table[key]) for key in listed}, "the table"
    else:
        raise InvalidModel(
            f"a table of features is a path, a dict of columns or a data frame; got {table!r:.60}"
        )
    lengths = {len(column) if column.ndim == 1 else -1 for column in read.values()}
    if len(lengths) != 1 or -1 in lengths:
        raise InvalidModel(f"{name} must have columns of equal length, one entry a row")
    return _Table(read, name, [f"row {row}" for row in range(lengths.pop())])


def _text_table(path: Path) -> _Table:
    """A CSV file, its separator told by the header; byte order mark and blank lines are skipped."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OSError(f"{path} must be UTF-8 text; byte {error.start} is not") from None
    header = next((line for line in text.splitlines() if line.strip()), "")
    separator = max(SEPARATORS, key=header.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows, places = [], []
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                rows.append([cell.strip() for cell in cells])
                places.append(f"line {reader.line_num}")
    except csv.Error as error:
        raise InvalidModel(f"{path}, line {reader.line_num}: {error}") from None
    if not rows:
        raise InvalidModel(f"{path} is empty; its first line must name the columns")
    head = [" ".join(cell.split()) for cell in rows[0]]  # names are one line
    twice = next((name for j, name in enumerate(head) if name in head[:j]), None)
    if twice is not None:
        raise InvalidModel(f"{path}, {places[0]}: the column {twice!r} is there twice")
    for cells, place in zip(rows[1:], places[1:], strict=True):
        if len(cells) != len(head):
            raise InvalidModel(
                f"{path}, {place}: must have {len(head)} fields ({', '.join(head)}); "
                f"got {len(cells)}"
            )
    parts = zip(*rows[1:], strict=True) if len(rows) > 1 else [()] * len(head)
    return _Table(dict(zip(head, parts, strict=True)), str(path), places[1:])


def _states(table: _Table, column: str, count: int, layout: Layout) -> np.ndarray:
    """[N] the number of the state of each row; every state exactly once."""
    entries = table.columns[column]
    known = {name: s for s, name in enumerate(state_names(layout, count))}
    # Names first: states may be called "1", "2" and "3".
    found = np.array([known.get(e, -1) if isinstance(e, str) else -1 for e in entries])
    wanted = f"a state in 0..{count - 1}" + (" or the name of one" if known else "")
    if (found < 0).all():
        found = np.array([_whole(entry) for entry in entries])
    bad = (found < 0) | (found >= count)
    if bad.any():
        row = int(np.argmax(bad))
        named = isinstance(entries[row], str) and _whole(entries[row]) < 0 and not known
        raise table.wrong(column, row, wanted + (", or a layout must name it" if named else ""))
    order = np.argsort(found, kind="stable")
    again = np.flatnonzero(np.diff(found[order]) == 0)
    if len(again):
        one, two = (int(order[again[0] + i]) for i in (0, 1))
        raise table.wrong(column, two, f"a state of its own, but {table.places[one]} is about it")
    if len(found) < count:
        lost = int(np.setdiff1d(np.arange(count), found)[0])
        raise InvalidModel(
            f"{table.name}, column {column!r}: must name every state once; "
            f"{layout.state_name(lost)!r} is missing ({len(found)} rows for {count} states)"
        )
    return found


def _real(table: _Table, column: str) -> np.ndarray:
    """[N] the column as finite numbers; the first row that is none is named."""
    numbers = np.array([_number(entry) for entry in table.columns[column]])
    bad = ~np.isfinite(numbers)
    if bad.any():
        raise table.wrong(column, int(np.argmax(bad)), "a finite number")
    return numbers


def _number(entry: Any) -> float:
    try:
        return float(entry)
    except (TypeError, ValueError):
        return np.nan


def _whole(entry: Any) -> int:
    """The number of a state, or -1 where the entry spells none."""
    if isinstance(entry, str):
        return int(entry) if entry.isascii() and entry.isdigit() and len(entry) < 10 else -1
    whole = isinstance(entry, int | np.integer) and not isinstance(entry, bool)
    return int(entry) if whole and abs(entry) < 2**31 else -1
