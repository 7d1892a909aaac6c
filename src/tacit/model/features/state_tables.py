"""Tables with one row a state, or one a state and action."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tacit.errors import InvalidModel
from tacit.files.columns import RawColumn
from tacit.files.frames import Frame, FrameTable
from tacit.files.tables import PARQUET, TEXT, TableSource, open_table
from tacit.model.layout import Layout, looks_numeric, lookup, state_names


def opened_table(table: str | Path | Frame, state: str) -> TableSource:
    """The table of a .csv or .parquet file, or of a frame, to be read."""
    if not isinstance(table, str | Path):
        return FrameTable(table, InvalidModel, what="the table")
    path = Path(table)
    if path.suffix.lower() not in (*TEXT, *PARQUET):
        raise InvalidModel(f"a table of features is a .csv or .parquet file; got {path.name}")
    return open_table(path, InvalidModel, expected=(state,))


def numbered_rows(
    column: RawColumn, count: int, names: tuple[str, ...], what: str = "state"
) -> np.ndarray:
    """[N] the number of the state, or of the action, of each row."""
    known = lookup(names or tuple(map(str, range(count))))
    wanted = f"a{'n' * (what[0] in 'aeiou')} {what} in 0..{count - 1}" + (
        " or the name of one" if names else ""
    )
    spelled = column.spelled()
    hint = "" if names or any(map(looks_numeric, spelled.texts or ())) else ", or a layout names it"
    return spelled.numbered(known, wanted + hint)


def state_numbers(table: TableSource, column: RawColumn, count: int, layout: Layout) -> np.ndarray:
    """[N] the number of the state of each row; every state exactly once."""
    rows = numbered_rows(column, count, state_names(layout, count))
    table.refuse_repeats(rows, lambda row: f"the state {column.cell(row)!r}")
    if len(rows) < count:
        lost = int(np.setdiff1d(np.arange(count), rows)[0])
        raise InvalidModel(
            f"{table.path}, column {column.name!r}: must name every state once; "
            f"{layout.state_name(lost)!r} is missing ({len(rows)} rows for {count} states)"
        )
    return rows


def pair_numbers(
    table: TableSource, columns: tuple[RawColumn, RawColumn], layout: Layout
) -> tuple[np.ndarray, tuple[int, int]]:
    """([N] the number s * A + a of each row's state and action, (S, A)); every pair once."""
    shape = (
        len(layout.state_names) or layout.rows * layout.columns or distinct(columns[0]),
        len(layout.action_names) or distinct(columns[1]),
    )
    names = state_names(layout, shape[0]), layout.action_names
    states, actions = (
        numbered_rows(*one) for one in zip(columns, shape, names, ("state", "action"), strict=True)
    )
    pairs = states * shape[1] + actions
    cells = [column.cell for column in columns]
    table.refuse_repeats(pairs, lambda row: f"the pair {cells[0](row)!r}, {cells[1](row)!r}")
    if len(pairs) < shape[0] * shape[1]:
        state, action = divmod(
            int(np.setdiff1d(np.arange(shape[0] * shape[1]), pairs)[0]), shape[1]
        )
        raise InvalidModel(
            f"{table.path} must have a row for every state and action; the pair "
            f"{layout.state_name(state)!r}, {layout.action_name(action)!r} is missing: of an "
            "action that is not available any numbers will do"
        )
    return pairs, shape


def distinct(column: RawColumn) -> int:
    """How many different cells a column has."""
    return len(np.unique(column.values))
