"""Features that people can write: builders of named columns over states and actions.

Every builder gives a `Map`; `+` puts maps side by side, and `combine` makes the `Features` that
estimators take. `columns` reads them from a table with one row a state: a CSV or Parquet file, or
columns in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidModel
from tacit.files.columns import Column
from tacit.files.formats import did_you_mean
from tacit.files.tables import PARQUET, TEXT, Progress, Table, open_table
from tacit.model.features.maps import (
    Map,
    action_one_hot,
    bumps,
    combine,
    coordinates,
    distance_to,
    one_hot,
    product,
    scaled,
)
from tacit.model.names import Layout, state_names

__all__ = [
    "Map",
    "action_one_hot",
    "bumps",
    "columns",
    "combine",
    "coordinates",
    "distance_to",
    "one_hot",
    "product",
    "scaled",
]

Frame = Any  # of pandas or Polars: columns by name


def columns(
    table: str | Path | Mapping[str, npt.ArrayLike] | Frame,
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
    opened = _opened(table, state)
    opened.require(state)
    listed = [names] if isinstance(names, str) else names
    chosen = [name for name in opened.names if name != state] if listed is None else [*listed]
    missing = next((name for name in chosen if name not in opened.names), None)
    if missing is not None:
        raise InvalidModel(
            f"{opened.path} has no column {missing!r}; got the columns {', '.join(opened.names)}"
            f"{did_you_mean(missing, opened.names)}"
        )
    layout = layout or Layout()
    given = states or len(layout.state_names) or layout.rows * layout.columns
    read = opened.read(dict.fromkeys([state, *chosen]), texts=[state] if layout.state_names else [])
    count = given or len(read[state])
    if not chosen or not len(read[state]):
        raise InvalidModel(
            f"{opened.path} must have at least one row and one column of features; got none"
        )
    cells = np.stack([read[name].reals() for name in chosen], axis=1)
    values = np.empty((count, len(chosen)))
    values[_states(opened, read[state], count, layout)] = cells
    return Map(values, chosen)


def _opened(table: str | Path | Mapping[str, npt.ArrayLike] | Frame, state: str) -> Table:
    if isinstance(table, str | Path):
        path = Path(table)
        if path.suffix.lower() not in (*TEXT, *PARQUET):
            raise InvalidModel(f"a table of features is a .csv or .parquet file; got {path.name}")
        return open_table(path, InvalidModel, expected=(state,))
    if not isinstance(table, Mapping) and not hasattr(table, "columns"):
        raise InvalidModel(
            f"a table of features is a path, a dict of columns or a data frame; got {table!r:.60}"
        )
    return _MemoryTable({str(key): np.asarray(table[key]) for key in _names(table)})


def _names(table: Mapping[str, npt.ArrayLike] | Frame) -> Sequence[str]:
    return [*(table.keys() if isinstance(table, Mapping) else table.columns)]


class _MemoryTable(Table):
    """Columns by name, read like those of a file."""

    def __init__(self, columns: Mapping[str, np.ndarray]) -> None:
        super().__init__("the table", InvalidModel, tuple(columns))
        lengths = {len(column) if column.ndim == 1 else -1 for column in columns.values()}
        if len(lengths) != 1 or -1 in lengths:
            raise InvalidModel("the table must have columns of equal length, one entry a row")
        self.columns = columns

    def read(
        self,
        names: Iterable[str] | None = None,
        *,
        texts: Collection[str] = (),
        plain: Collection[str] = (),
        progress: Progress | None = None,
    ) -> dict[str, Column]:
        """The columns by name; what is no number is text."""
        return {name: self._column(name) for name in (names or self.names)}

    def _column(self, name: str) -> Column:
        values = self.columns[name]
        if values.dtype.kind in "iufb":
            return Column(name, values, None, self.fault)
        texts = ["" if entry is None else str(entry).strip() for entry in values.tolist()]
        places = {text: at for at, text in enumerate(dict.fromkeys(texts))}
        codes = np.array([places[text] for text in texts], int)
        return Column(name, codes, tuple(places), self.fault)

    def place(self, row: int) -> str:
        """The number of a row."""
        return f"row {row}"


def _states(table: Table, column: Column, count: int, layout: Layout) -> np.ndarray:
    """[N] the number of the state of each row; every state exactly once."""
    known = {name: s for s, name in enumerate(state_names(layout, count))}
    wanted = f"a state in 0..{count - 1}" + (" or the name of one" if known else "")
    # Names first: states may be called "1", "2" and "3".
    spelled = column.spelled()
    texts = spelled.texts or ()
    found = [known.get(text, -1) for text in texts]
    if max(found) < 0:
        found = [_whole(text) for text in texts]
    hint = "" if known or any(_whole(text) >= 0 for text in texts) else ", or a layout must name it"
    spelled.refuse([not 0 <= number < count for number in found], wanted + hint)
    rows = np.array(found)[spelled.values]
    order = np.argsort(rows, kind="stable")
    again = np.flatnonzero(np.diff(rows[order]) == 0)
    if len(again):
        one, two = (int(order[again[0] + i]) for i in (0, 1))
        raise column.wrong(two, f"a state of its own, but {table.place(one)} is about it")
    if len(rows) < count:
        lost = int(np.setdiff1d(np.arange(count), rows)[0])
        raise InvalidModel(
            f"{table.path}, column {column.name!r}: must name every state once; "
            f"{layout.state_name(lost)!r} is missing ({len(rows)} rows for {count} states)"
        )
    return rows


def _whole(text: str) -> int:
    """The number of a state, or -1 where the text spells none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
