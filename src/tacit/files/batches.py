"""Batches of columns from text tables and Parquet files, and the place of a row for messages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tacit.files.columns import BadRow, Column
from tacit.files.contents import opening, recognised
from tacit.files.delimited import blocks, explain, read_dialect, record_at, uneven
from tacit.files.parquet import ROWS, check_parquet, readable

# Called with what is done and what there is to do, in bytes or rows.
Progress = Callable[[int, int], Any]
Batch = tuple[int, dict[str, Any]]


class TextTable:
    """A text table, read in blocks of whole lines."""

    def __init__(self, path: Path, expected: tuple[str, ...], largest: int) -> None:
        self.path = path
        opening(path, "a table of steps", largest=largest)
        self.dialect = read_dialect(path, expected)
        self.names = self.dialect.columns

    def batches(self, columns: Mapping[str, Column], progress: Progress | None) -> Iterator[Batch]:
        """(number of its first row, series by name) of every batch."""
        total = os.path.getsize(self.path)
        row = 0
        with open(self.path, "rb") as file:
            for line, content in blocks(file, self.dialect):
                frame = self._frame(line, content, columns)
                if frame is not None and len(frame):
                    yield row, {name: frame[name] for name in columns}
                    row += len(frame)
                if progress is not None:
                    progress(file.tell(), total)

    def _frame(self, line: int, content: bytes, columns: Mapping[str, Column]) -> Any:
        """The frame of a block without its blank rows; None where there is nothing else."""
        import polars

        body = content.strip(b"\r\n")
        if not body:
            return None
        # Polars would unpack what looks compressed.
        if recognised(body):
            raise explain(self.path, line, content, self.dialect)
        quick = {name: column.text_type() for name, column in columns.items()}
        slow = dict.fromkeys(columns, polars.String)
        failures = (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError)
        for types in (quick, slow):
            try:
                frame = self._parsed(body, types)
            except failures:
                continue
            if any(frame[name].null_count() for name in columns):
                frame = frame.filter(~polars.all_horizontal(polars.all().is_null()))
            return frame
        raise explain(self.path, line, content, self.dialect)

    def _parsed(self, body: bytes, types: dict[str, Any]) -> Any:
        import polars

        # Columns go by their place: those that are not read may have any name, even the same.
        places = {name: self.names.index(name) for name in types}
        schema = {str(at): polars.String for at in range(len(self.names))}
        schema |= {str(at): types[name] for name, at in places.items()}
        frame = polars.read_csv(
            body,
            has_header=False,
            schema=schema,
            columns=[*places.values()],
            separator=self.dialect.separator,
        )
        return frame.rename({str(at): name for name, at in places.items()})

    def fault(self, bad: BadRow) -> str:
        """What is wrong with a row, and in which line it stands."""
        line, fields = record_at(self.path, self.dialect, bad.row)
        place = f"{self.path}, line {line}"
        if fields and len(fields) != len(self.names):
            return uneven(place, self.dialect, fields)
        return f"{place}: {bad}"


class ParquetTable:
    """A Parquet file, read in slices of rows."""

    def __init__(self, path: Path, largest: int) -> None:
        self.path = path
        self.names, self.rows = check_parquet(path, largest=largest)

    def batches(self, columns: Mapping[str, Column], progress: Progress | None) -> Iterator[Batch]:
        """(number of its first row, series by name) of every batch."""
        import polars

        for row in range(0, self.rows, ROWS):
            with readable(self.path):
                scan = polars.scan_parquet(self.path, glob=False).select(*columns)
                frame = scan.slice(row, ROWS).collect()
            if len(frame) != min(ROWS, self.rows - row):
                raise OSError(f"{self.path} is damaged: it holds fewer rows than it declares")
            yield row, {name: frame[name] for name in columns}
            if progress is not None:
                progress(min(row + ROWS, self.rows), self.rows)

    def fault(self, bad: BadRow) -> str:
        """What is wrong with a row, and which it is."""
        return f"{self.path}, row {bad.row + 1}: {bad}"
