"""Features from a table with one row a state: a CSV or Parquet file, or columns in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.features.map import Map
from tacit.features.naming import state_names
from tacit.files.tables import read_columns
from tacit.layout import Layout


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
    read, where, first = _read(table)
    if state not in read:
        raise InvalidModel(
            f"{where} must have a column {state!r} that says which state a row is about; "
            f"got the columns {', '.join(read)}"
        )
    if isinstance(names, str):
        names = [names]
    chosen = [name for name in read if name != state] if names is None else list(names)
    missing = next((name for name in chosen if name not in read), None)
    if missing is not None:
        raise InvalidModel(f"{where} has no column {missing!r}; got the columns {', '.join(read)}")
    if not chosen:
        raise InvalidModel(f"{where} must have at least one column of features; got none")
    layout = layout or Layout()
    grid = layout.rows * layout.columns
    count = states or len(layout.state_names) or grid or len(read[state])
    rows = _rows(read[state], count, layout, f"{where}: column {state!r}", first)
    values = np.empty((count, len(chosen)))
    for j, name in enumerate(chosen):
        values[rows, j] = _real(read[name], f"{where}: column {name!r}", first)
    return Map(values, chosen)


def _read(table: Any) -> tuple[dict[str, np.ndarray], str, tuple[str, int]]:
    """(columns by name, what to call the table, ("line" or "row", number of the first one))."""
    if isinstance(table, str | Path):
        path = Path(table)
        if path.suffix not in (".csv", ".parquet"):
            raise InvalidModel(f"a table of features is a .csv or .parquet file; got {path.name}")
        # The header is line 1 of a CSV file.
        return read_columns(path), str(path), ("line", 2) if path.suffix == ".csv" else ("row", 0)
    if not (isinstance(table, Mapping) or hasattr(table, "columns")):
        raise InvalidModel(
            f"a table of features is a path, a dict of columns or a data frame; got {table!r:.60}"
        )
    listed = table.keys() if isinstance(table, Mapping) else table.columns
    read = {str(name): np.asarray(table[name]) for name in listed}
    if len({column.shape for column in read.values()}) > 1:
        raise InvalidModel("the columns of the table must be equally long")
    return read, "the table", ("row", 0)


def _rows(
    column: np.ndarray, count: int, layout: Layout, where: str, first: tuple[str, int]
) -> np.ndarray:
    """[N] the number of the state of each row; every state exactly once."""
    word, start = first
    if np.issubdtype(column.dtype, np.integer):
        numbers = column.astype(np.int64)
        bad = (numbers < 0) | (numbers >= count)
        expected = f"a state in 0..{count - 1}"
    elif column.dtype.kind in "fb":  # an empty cell makes floats of a column of integers
        numbers = np.full(len(column), -1)
        bad = np.isnan(column) if np.isnan(column).any() else numbers < 0
        expected = "states as whole numbers or names"
    else:
        known = {name: s for s, name in enumerate(state_names(layout, count))}
        if not known:
            raise InvalidModel(
                f"{where} must hold the numbers of states, or a layout must name them; "
                f"got {_shown(column[0])} in {word} {start}"
            )
        numbers = np.array([known.get(_text(entry), -1) for entry in column], np.int64)
        bad = numbers < 0
        expected = "the name of a state"
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidModel(
            f"{where} must hold {expected}; {word} {start + row} has {_shown(column[row])}"
        )
    order = np.argsort(numbers, kind="stable")
    again = np.flatnonzero(np.diff(numbers[order]) == 0)
    if len(again):
        one, two = (int(order[again[0] + i]) for i in (0, 1))
        raise InvalidModel(
            f"{where} must name every state once; {_shown(column[one])} is in {word} {start + one} "
            f"and again in {word} {start + two}"
        )
    if len(numbers) < count:
        lost = int(np.setdiff1d(np.arange(count), numbers)[0])
        raise InvalidModel(
            f"{where} must name every state once; {layout.state_name(lost)!r} is missing "
            f"({len(numbers)} rows for {count} states)"
        )
    return numbers


def _real(column: np.ndarray, where: str, first: tuple[str, int]) -> np.ndarray:
    """[N] the column as finite numbers; the first line that is none is named."""
    word, start = first
    if column.dtype.kind in "biuf":
        numbers = column.astype(np.float64)
    else:
        numbers = np.array([_number(entry) for entry in column])
    bad = ~np.isfinite(numbers)
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidModel(
            f"{where} must hold finite numbers; {word} {start + row} has {_shown(column[row])}"
        )
    return numbers


def _shown(entry: Any) -> str:
    plain = entry.item() if hasattr(entry, "item") else entry
    return "nothing" if plain is None else repr(plain)


def _number(entry: Any) -> float:
    try:
        return float(entry)
    except (TypeError, ValueError):
        return np.nan


def _text(entry: Any) -> str:
    """The name in a cell; numbers of a column that also holds text are names, too."""
    return entry.strip() if isinstance(entry, str) else str(entry)
