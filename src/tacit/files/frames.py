"""Frames in memory as tables: pandas, Polars, or a mapping from names to columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import TacitError
from tacit.files.tables import Progress, TableSource
from tacit.files.wording import did_you_mean, some

if TYPE_CHECKING:
    import polars

# A frame of somebody else's: Polars, pandas, or a mapping from names to columns.
Frame = Any


class FrameTable(TableSource):
    """A frame in memory as a table, its columns under the names that tacit gives them."""

    def __init__(
        self,
        frame: Frame,
        error: type[TacitError],
        columns: Mapping[str, str] | None = None,
        *,
        what: str,
    ) -> None:
        """Raises `error` where one of `columns`, ours -> theirs, is missing; None takes all."""
        have = frame_columns(frame, error)
        columns = {name: name for name in have} if columns is None else columns
        for name, column in columns.items():
            if column not in have:
                index = column in getattr(getattr(frame, "index", None), "names", ())  # pandas
                hint = ": it is the index, reset_index() makes a column of it" if index else ""
                raise error(
                    f"{what} must have the column {column!r}, its {name}; it has {some(have)}"
                    f"{hint or did_you_mean(column, have)}"
                )
            if have.count(column) > 1:
                raise error(f"{what} must have the column {column!r} once; it has several")
        super().__init__(what, error, tuple(columns))
        self.columns, self._frame = dict(columns), frame

    def batches(
        self, names: Sequence[str], progress: Progress | None = None
    ) -> Iterator[polars.DataFrame]:
        """The frame itself, with the columns asked for."""
        import polars

        columns = {name: series(self._frame, self.columns[name]) for name in names}
        if len({len(column) for column in columns.values()}) > 1:
            raise self.error(f"{self.path} must have columns of equal length, one entry a row")
        yield polars.DataFrame(columns)


def frame_columns(frame: Frame, error: type[TacitError]) -> list[str]:
    """The names of the columns of a frame."""
    columns = frame if isinstance(frame, Mapping) else getattr(frame, "columns", None)
    if columns is None:
        raise error(
            "a frame must be a pandas or Polars frame, or a dictionary of columns; "
            f"got {type(frame).__name__}"
        )
    return [str(name) for name in columns]


def series(frame: Frame, name: str) -> polars.Series:
    """One column of a frame as Polars holds it: what is missing is null, whole numbers whole."""
    import polars

    column = frame[name]
    if not isinstance(column, polars.Series):
        column = _from_values(np.asarray(column), name)
    if column.dtype.is_float():  # whole numbers among missing ones are floats in pandas
        column = column.fill_nan(None)
        rest = column.drop_nulls().to_numpy()
        if len(rest) and (rest == np.floor(rest)).all() and np.abs(rest).max() < 2**53:
            column = column.cast(polars.Int64)
    return column.alias(name)


def _from_values(values: np.ndarray, name: str) -> polars.Series:
    import polars

    if values.dtype.kind not in "OSU":
        return polars.Series(name, values)
    cells = [None if _is_void(cell) else cell for cell in values.tolist()]
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {int, float} or kinds <= {bool}:
        return polars.Series(name, cells, strict=False)
    return polars.Series(name, [None if cell is None else str(cell) for cell in cells])


def _is_void(cell: object) -> bool:
    """Whether a cell of somebody else's frame says that it is missing."""
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or cell != cell
