"""Columns in a Parquet or CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tacit.errors import InvalidDemonstrations
from tacit.files.atomic import write_atomically
from tacit.files.contents import opening, recognised
from tacit.files.parquet import check_parquet, readable, write_parquet

TEXT = (".csv", ".tsv", ".txt")
SEPARATORS = ",;\t|"  # a comma where there are none


def write_columns(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Writes columns of equal length, as Parquet or as CSV by the ending of the name."""
    import polars

    frame = polars.DataFrame(dict(columns))
    if path.suffix == ".csv":
        write_atomically(path, frame.write_csv)
    else:
        write_parquet(path, frame)


def read_columns(path: Path) -> dict[str, np.ndarray]:
    """The columns of a Parquet or CSV file, by name; `OSError` if it is no such table."""
    import polars

    text = path.suffix in TEXT
    if not text:
        check_parquet(path)
    elif found := recognised(opening(path, "a CSV table")):
        raise OSError(f"{path} must be a text table; it is {found}")
    with readable(path):
        content = path.read_bytes()
        if text:
            first = content.lstrip().partition(b"\n")[0]
            separator = max(SEPARATORS, key=lambda mark: first.count(mark.encode()))
            frame = polars.read_csv(content, separator=separator)
        else:
            frame = polars.read_parquet(content)
        return {name: frame[name].to_numpy() for name in frame.columns}


BOM = b"\xef\xbb\xbf"
HEADER = 2**20
BLOCK = 2**23


@dataclass(frozen=True)
class Dialect:
    """How a text table is written.

    Attributes:
        separator: between the fields of a line.
        columns: the names in the first line, without spaces around them.
        wanted: places of the columns that are read; a row is blank where all of them are empty.
        start: bytes before the first row.
        line: number of the line in which the first row may stand.
        carriage: whether a lone carriage return ends a line.
    """

    separator: str
    columns: tuple[str, ...]
    wanted: tuple[int, ...]
    start: int
    line: int
    carriage: bool


def read_dialect(path: Path, expected: Sequence[str]) -> Dialect:
    """The dialect of a text table whose first line should hold some of the expected names."""
    with open(path, "rb") as file:
        content = file.read(HEADER)
    if found := recognised(content):
        raise OSError(f"{path} must be a text table; it is {found}")
    mark = len(BOM) if content.startswith(BOM) else 0
    carriage = b"\n" not in content and b"\r" in content
    end = b"\r" if carriage else b"\n"
    blank = len(content) - len(content[mark:].lstrip(b"\r\n")) - mark
    start = mark + blank
    first, _, _ = content[start:].partition(end)
    if not first.strip():
        raise InvalidDemonstrations(
            f"{path} is empty; its first line must name the columns {', '.join(expected[:4])}"
        )
    if len(first) == HEADER - start:
        raise InvalidDemonstrations(f"{path} must be a text table; its first line never ends")
    line = content[mark:start].count(end) + 1
    try:
        text = first.decode().rstrip("\r")
    except UnicodeDecodeError:
        raise InvalidDemonstrations(
            f"{path}, line {line} must be UTF-8 text that names the columns; got {first[:20]!r}"
        ) from None
    splits = [_names(text, separator) for separator in SEPARATORS]
    # The separator that gives the most expected names; then the one that gives the most names.
    best = max(range(len(splits)), key=lambda i: (len({*splits[i]} & {*expected}), len(splits[i])))
    columns = splits[best]
    wanted = tuple(at for at, name in enumerate(columns) if name in expected)
    after = start + len(first) + len(end)
    return Dialect(SEPARATORS[best], columns, wanted, after, line + 1, carriage)


def _names(text: str, separator: str) -> tuple[str, ...]:
    try:
        fields = next(csv.reader([text], delimiter=separator), [])
    except csv.Error:
        return ()
    return tuple(name.strip() for name in fields)


def blocks(file: BinaryIO, dialect: Dialect, *, size: int = BLOCK) -> Iterator[tuple[int, bytes]]:
    """(line number of its first line, content) of every block of whole records, line ends as LF."""
    file.seek(dialect.start)
    line, rest, more = dialect.line, b"", True
    while more:
        read = file.read(size)
        more = len(read) == size
        content = rest + (read.replace(b"\r", b"\n") if dialect.carriage else read)
        end = _last_record(content) if more else len(content)
        if end == 0 and len(content) > 4 * size:
            raise InvalidDemonstrations(
                f"{getattr(file, 'name', 'the table')}, line {line}: a quote is opened and never "
                f"closed, or the line is longer than {4 * size} bytes"
            )
        if end:
            yield line, content[:end]
            line += content.count(b"\n", 0, end)
        rest = content[end:]


def _last_record(content: bytes) -> int:
    """The number of bytes up to the last line end that lies outside quotes."""
    end = content.rfind(b"\n") + 1
    quotes = content.count(b'"', 0, end)
    while end and quotes % 2:
        before = content.rfind(b"\n", 0, end - 1) + 1
        quotes -= content.count(b'"', before, end)
        end = before
    return end


def records(content: bytes, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """(line within the content from 0, fields) of every record that is not blank."""
    text = io.StringIO(content.decode(errors="replace"), newline="")
    reader = csv.reader(text, delimiter=dialect.separator)
    before = 0
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InvalidDemonstrations(f"it is no text table: {error}") from None
        if any(fields[at] for at in dialect.wanted if at < len(fields)):
            yield before, fields
        before = reader.line_num


def record_at(path: Path, dialect: Dialect, row: int) -> tuple[int, list[str]]:
    """(line number in the file, fields) of a row of the data; for messages: it reads slowly."""
    seen = 0
    with open(path, "rb") as file:
        for first, content in blocks(file, dialect):
            for line, fields in records(content, dialect):
                if seen == row:
                    return first + line, fields
                seen += 1
    return 0, []


def explain(path: Path, first: int, content: bytes, dialect: Dialect) -> InvalidDemonstrations:
    """What is wrong with a block that Polars could not split into fields."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = first + content.count(b"\n", 0, error.start)
        byte = content[error.start]
        return InvalidDemonstrations(
            f"{path}, line {line} must be UTF-8 text; got the byte 0x{byte:02x}"
        )
    try:
        for line, fields in records(content, dialect):
            if len(fields) > len(dialect.columns):
                return InvalidDemonstrations(
                    uneven(f"{path}, line {first + line}", dialect, fields)
                )
    except InvalidDemonstrations as error:
        return InvalidDemonstrations(f"{path}, from line {first}: {error}")
    return InvalidDemonstrations(
        f"{path}, from line {first}: the lines cannot be split into fields; is a quote left open?"
    )


def uneven(place: str, dialect: Dialect, fields: list[str]) -> str:
    """Says that a line holds another number of fields than the first line."""
    return (
        f"{place} must hold {len(dialect.columns)} fields, as the first line does; "
        f"got {len(fields)}"
    )
