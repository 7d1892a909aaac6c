"""Text tables row by row: every cell is text, every row knows its line."""

from __future__ import annotations

import csv
import difflib
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tacit.errors import InvalidModel
from tacit.files.contents import opening, recognised

SEPARATORS = ",;\t"
# Read into memory as text, cell by cell: a larger table belongs into an npz file.
LARGEST = 2**31


@dataclass(frozen=True)
class Sheet:
    """A CSV file that has a header.

    Attributes:
        path: of the file.
        header: names of the columns.
        separator: comma, semicolon or tab, whichever the header uses.
        content: the whole text.
    """

    path: Path
    header: tuple[str, ...]
    separator: str
    content: str

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """(line number, cells) of every row that is not blank."""
        reader = csv.reader(io.StringIO(self.content), delimiter=self.separator, strict=True)
        try:
            next(cells for cells in reader if any(cell.strip() for cell in cells))
            for cells in reader:
                if not any(cell.strip() for cell in cells):
                    continue
                if len(cells) != len(self.header):
                    raise InvalidModel(
                        f"{self.path}, line {reader.line_num}: every row must have "
                        f"{len(self.header)} fields ({', '.join(self.header)}); got {len(cells)}"
                    )
                yield reader.line_num, [cell.strip() for cell in cells]
        except csv.Error as error:
            raise InvalidModel(f"{self.path}, line {reader.line_num}: {error}") from None

    def place(self, column: str, *, why: str = "") -> int:
        """The position of a column; one line with the nearest name where it is missing."""
        if column in self.header:
            return self.header.index(column)
        hint = nearest(column, self.header)
        raise InvalidModel(
            f"{self.path} must have the column {column!r}{why}; "
            f"it has {', '.join(self.header)}{hint}"
        )


def read_sheet(path: Path, needed: Sequence[str]) -> Sheet:
    """The sheet of a file, with at least the columns `needed`."""
    if found := recognised(opening(path, "a text table", largest=LARGEST)):
        raise OSError(f"{path} must be a text table; it is {found}")
    try:
        content = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidModel(
            f"{path} must be a table in UTF-8 text; byte {error.start + 1} is not"
        ) from None
    first = next((line for line in content.splitlines() if line.strip()), "")
    if not first:
        raise InvalidModel(
            f"{path} must be a table with the columns {', '.join(needed)}; it is empty"
        )
    separator = max(SEPARATORS, key=first.count)
    header = tuple(name.strip() for name in next(csv.reader([first], delimiter=separator)))
    sheet = Sheet(path, header, separator, content)
    for name in needed:
        sheet.place(name)
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise InvalidModel(f"{path}, line 1: every column must be named once; {twice!r} is twice")
    return sheet


def number(text: str, *, path: Path, line: int, field: str) -> float:
    """The finite number in a cell; one line that names file, line, field and value if it is none.

    Args:
        text: of the cell.
        path: of the file.
        line: of the row.
        field: name of the column.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or "_" in text:
        got = f"got {text!r}" if text else "it is empty"
        raise InvalidModel(f"{path}, line {line}: {field} must be a finite number; {got}")
    return value


def numbered(names: Iterable[str]) -> bool:
    """Whether these names are just 0, 1, ..., each once, in any order."""
    listed = list(names)
    return len(listed) > 0 and set(listed) == {str(i) for i in range(len(listed))}


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint at the name that was meant, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
