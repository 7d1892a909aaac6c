"""Batches of columns from text tables and Parquet files, and the place of a row for messages."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tacit.files.columns import TOP, BadRow, Column, whole
from tacit.files.contents import opening, recognised
from tacit.files.parquet import ROWS, check_parquet, readable
from tacit.files.tables import blocks, explain, read_dialect, record_at, uneven

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


class Book:
    """The names of states or of actions, shared by the columns that speak of them.

    Names are given (look them up), found (write them down), or none (numbers only). A column of
    numbers is taken as numbers, unless some of the given names are numbers themselves.
    """

    def __init__(self, names: tuple[str, ...] = (), *, find: bool = False, count: int = 0) -> None:
        self.known = {name: at for at, name in enumerate(names)}
        self.find = find and not names
        self.count = len(names) or count or TOP + 1
        self.only_names = any(whole(name) is not None for name in names)
        self.kind = "names" if self.only_names else ""


class Choices(Column):
    """States or actions: numbers, or names from a `Book`."""

    def __init__(self, name: str, book: Book, *, may_miss: bool = False) -> None:
        super().__init__(name)
        self.book = book
        self.may_miss = may_miss
        self.as_text = book.only_names

    @property
    def wanted(self) -> str:
        """What the values must be, for messages."""
        if self.book.kind == "names" and self.book.known and not self.book.find:
            return f"one of the {self.book.count} names of the layout"
        span = f" to {self.book.count - 1}" if self.book.count <= TOP else ""
        return f"integers from 0{span}" + (" or names" if self.book.find else "")

    def text_type(self) -> Any:
        """How a text table should be read for this column."""
        self.as_text = self.book.kind == "names"
        return super().text_type()

    def from_numbers(self, values: np.ndarray, row: int) -> np.ndarray:
        """[N] the numbers, checked against the number of states or actions."""
        if self.book.kind == "names":
            found, codes = np.unique(values, return_inverse=True)
            return self.from_texts([str(value) for value in found.tolist()], codes, row)
        if len(values):
            self.book.kind = "numbers"
        least = -1 if self.may_miss else 0
        return self.inside(values, row, least, self.book.count - 1)

    def from_texts(self, texts: list[str], codes: np.ndarray, row: int) -> np.ndarray:
        """[N] the numbers, or the place of each name."""
        void = [self.may_miss and text in ("", "-1") for text in texts]
        numbers = [None if self.book.only_names else whole(text) for text in texts]
        self.refuse(texts, codes, [not (text or self.may_miss) for text in texts], row)
        if not (self.book.known or self.book.find):
            odd = [n is None and not v for n, v in zip(numbers, void, strict=True)]
            hint = "; names need a layout: Demonstrations.load_named finds it"
            self.refuse(texts, codes, odd, row, "" if _numeric(texts, codes, odd) else hint)
        kinds = ["numbers" if number is not None else "names" for number in numbers]
        self._one_kind(texts, codes, kinds, void, row)
        if self.book.kind == "names":
            table = self._looked_up(texts, codes, void, row)
        else:
            table = [-1 if v else n or 0 for n, v in zip(numbers, void, strict=True)]
        return self.inside(
            np.array(table)[codes], row, -1 if self.may_miss else 0, self.book.count - 1
        )

    def _one_kind(
        self, texts: list[str], codes: np.ndarray, kinds: list[str], void: list[bool], row: int
    ) -> None:
        """Numbers and names must not stand in one column: nobody could tell what 3 means."""
        real = [at for at in range(len(texts)) if not void[at]]
        if real and not self.book.kind:
            self.book.kind = kinds[real[0]]
        other = [not v and kind != self.book.kind for kind, v in zip(kinds, void, strict=True)]
        if any(other):
            at = int(np.argmax(np.array(other)[codes]))
            raise BadRow(
                row + at,
                f"{self.name} must be all integers or all names; got {texts[codes[at]]!r} "
                f"among {self.book.kind}",
            )

    def _looked_up(
        self, texts: list[str], codes: np.ndarray, void: list[bool], row: int
    ) -> list[int]:
        known = self.book.known
        if self.book.find:
            odd = [not v and _looks_like_a_value(text) for text, v in zip(texts, void, strict=True)]
            self.refuse(texts, codes, odd, row)
            for text, v in zip(texts, void, strict=True):
                if not v:
                    known.setdefault(text, len(known))
        strange = [not v and text not in known for text, v in zip(texts, void, strict=True)]
        if any(strange):
            text = texts[codes[int(np.argmax(np.array(strange)[codes]))]]
            near = difflib.get_close_matches(text, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            self.refuse(texts, codes, strange, row, hint)
        return [-1 if v else known[text] for text, v in zip(texts, void, strict=True)]


def _looks_like_a_value(text: str) -> bool:
    """Whether a text is a number or a truth value: no name for a state."""
    try:
        float(text)
    except ValueError:
        return text.lower() in ("true", "false")
    return True


def _numeric(texts: list[str], codes: np.ndarray, odd: list[bool]) -> bool:
    """Whether the first odd text looks like a value: then a layout would not help."""
    return any(odd) and _looks_like_a_value(texts[codes[int(np.argmax(np.array(odd)[codes]))]])
