"""Tables in CSV and Parquet files: one reader, which can name the line of every row.

`open_table` looks at the first line and `TableSource.read` gives columns. A column is whole numbers
where every cell is one, else texts; what it must be is asked of it afterwards (`RawColumn.reals`).
Only when a message must name a row is the file read again, up to its line.
"""

from __future__ import annotations

import csv
import io
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError
from tacit.files.atomic import LARGEST, check_text, known_format, write_bytes
from tacit.files.columns import RawColumn, compact, real_cells, whole
from tacit.files.parquet import ROWS, check_parquet, readable, write_parquet
from tacit.files.wording import did_you_mean, some

if TYPE_CHECKING:
    import polars


TEXT = (".csv", ".tsv", ".txt")
PARQUET = (".parquet", ".pq")
SEPARATORS = ",;\t|"
BOM = b"\xef\xbb\xbf"
HEADER = 2**20  # most bytes of the first line
COLUMNS = 2**14  # most columns of a table, which is what spreadsheets hold
BLOCK = 2**23  # bytes of a text table that are in memory at once
# Called with what is done and what there is to do, in bytes or rows.
Progress = Callable[[int, int], object]


def open_table(
    path: Path, error: type[TacitError], *, expected: Sequence[str] = (), largest: int = LARGEST
) -> TableSource:
    """The table of a file, its column names read and its rows not yet.

    Args:
        path: of a Parquet file or, whatever else the ending of its name, of a text table.
        error: raised where the table is not as it should be.
        expected: names of columns, some of which should be there; they tell the separator.
        largest: most bytes of memory that the table may take.
    """
    if path.suffix.lower() in PARQUET:
        return ParquetTable(path, error, largest)
    return TextTable(path, error, tuple(expected), largest)


class TableSource:
    """A table in a file.

    Attributes:
        path: of the file.
        error: raised where the table is not as it should be.
        names: of the columns.
    """

    header = 1  # line that names the columns

    def __init__(self, path: Path | str, error: type[TacitError], names: tuple[str, ...]) -> None:
        if len(names) > COLUMNS:
            raise error(f"{path} must have at most {COLUMNS} columns; it has {len(names)}")
        self.path, self.error, self.names = path, error, names

    def require(self, *needed: str, unique: Collection[str] | None = None) -> None:
        """Raises unless the columns are there; those in `unique`, or all, must be named once."""
        shown = some(self.names)
        if not {*self.names} & {*needed} and any(whole(name) is not None for name in self.names):
            raise self.error(
                f"{self.path}, line {self.header} must name the columns ({', '.join(needed)}); "
                f"got {shown!r}: is a header missing?"
            )
        for name in needed:
            if name not in self.names:
                others = [other for other in self.names if other not in needed]
                raise self.error(
                    f"{self.path} must have the column {name!r}; it has {shown}"
                    f"{did_you_mean(name, others)}"
                )
        for name in self.names if unique is None else unique:
            if self.names.count(name) > 1:
                raise self.error(
                    f"{self.path}, line {self.header}: every column must be named once; "
                    f"{name!r} is twice"
                )

    def read(
        self,
        names: Iterable[str] | None = None,
        *,
        texts: Collection[str] = (),
        plain: Collection[str] = (),
        reals: Collection[str] = (),
        progress: Progress | None = None,
    ) -> dict[str, RawColumn]:
        """The columns by name.

        Args:
            names: of the columns to read; None for all. A row in which all are empty is skipped.
            texts: names of columns that are read as texts, whatever they hold.
            plain: names of columns whose numbers must be spelled plainly.
            reals: names of columns of measurements: numbers, and NaN where one is missing.
            progress: called now and then with what is done and what there is to do.
        """
        import polars

        asked = self.names if names is None else [*names]
        kinds = {name: {"is_text": name in texts, "is_plain": name in plain} for name in asked}
        parts: dict[str, list[polars.Series]] = {name: [] for name in asked if name not in reals}
        measured: dict[str, list[np.ndarray]] = {name: [] for name in asked if name in reals}
        rows = 0
        for batch in self.batches(asked, progress):
            with readable(Path(self.path)):
                batch = batch.cast({name: polars.String for name in asked if name in texts})
            for name, cells in parts.items():
                cells.append(compact(batch[name], **kinds[name]))
            for name, values in measured.items():
                values.append(self._measured(batch[name], rows))
            rows += len(batch)
        columns = {
            name: RawColumn.of(name, cells, self.fault, **kinds[name])
            for name, cells in parts.items()
        }
        for name, values in measured.items():
            columns[name] = RawColumn(name, np.concatenate([*values, []]), None, self.fault)
        return columns

    def _measured(self, cells: polars.Series, before: int) -> np.ndarray:
        """[n] measurements, NaN where one is missing; raises for a cell that is no number."""
        values, odd = real_cells(cells)
        if odd.any():
            row = int(np.argmax(odd))
            mend = "code names as columns of 0 and 1, one a name; leave empty what is missing"
            if re.fullmatch(r"\s*[+-]?\d+,\d+\s*", str(cells[row])):
                mend = "write a point instead of the decimal comma"
            words = f"{cells.name} must be a finite number; got {cells[row]!r:.60}: {mend}"
            raise self.fault(before + row, words)
        return values

    def refuse_repeats(self, key: np.ndarray, called: Callable[[int], str]) -> None:
        """Raises where two rows have the same key [N]; `called` says what a row is about."""
        order = np.argsort(key, kind="stable")
        again = np.flatnonzero(np.diff(key[order]) == 0)
        if len(again):
            first, second = (int(order[again[0] + i]) for i in (0, 1))
            where = self.place(first)
            raise self.fault(second, f"{called(second)} must have one row; {where} has it too")

    def batches(
        self, names: Sequence[str], progress: Progress | None = None
    ) -> Iterator[polars.DataFrame]:
        """Frames of some rows of these columns each, without blank rows."""
        raise NotImplementedError

    def place(self, row: int) -> str:
        """Where a row stands, such as "line 3"."""
        return f"row {row + 1}"

    def fault(self, row: int, words: str) -> TacitError:
        """The error that says what is wrong with a row, and where it stands."""
        return self.error(f"{self.path}, {self.place(row)}: {words}")


class ParquetTable(TableSource):
    """A Parquet file, read in slices of rows."""

    def __init__(self, path: Path, error: type[TacitError], largest: int) -> None:
        names, self.rows = check_parquet(path, largest=largest)
        super().__init__(path, error, names)

    def batches(
        self, names: Sequence[str], progress: Progress | None = None
    ) -> Iterator[polars.DataFrame]:
        """Frames of some rows each."""
        import polars

        for row in range(0, self.rows, ROWS):
            with readable(Path(self.path)):
                scan = polars.scan_parquet(self.path, glob=False).select(names)
                frame = scan.slice(row, ROWS).collect()
            if len(frame) != min(ROWS, self.rows - row):
                raise OSError(f"{self.path} is damaged: it holds fewer rows than it declares")
            yield frame
            if progress is not None:
                progress(min(row + ROWS, self.rows), self.rows)


class TextTable(TableSource):
    """A text table, read in blocks of whole records.

    Attributes:
        path: of the file.
        error: raised where the table is not as it should be.
        names: of the columns, in the first line that is not empty.
        separator: between the fields of a line.
        start: bytes before the first row.
        line: number of the line in which the first row may stand.
        carriage: whether a lone carriage return ends a line.
    """

    def __init__(
        self, path: Path, error: type[TacitError], expected: tuple[str, ...], largest: int
    ) -> None:
        check_text(path, "a text table", largest=largest)
        with open(path, "rb") as file:
            content = file.read(HEADER)
        mark = len(BOM) if content.startswith(BOM) else 0
        self.carriage = b"\n" not in content and b"\r" in content
        end = b"\r" if self.carriage else b"\n"
        start = len(content) - len(content[mark:].lstrip(b"\r\n"))
        first = content[start:].partition(end)[0]
        self.start = start + len(first) + len(end)
        self.header = content[mark:start].count(end) + 1
        self.line = self.header + 1
        if not first.strip():
            named = f" {', '.join(expected[:4])}" if expected else ""
            raise error(f"{path} is empty; its first line must name the columns{named}")
        if len(first) == HEADER - start:
            raise error(f"{path} must be a text table; its first line never ends")
        place = f"{path}, line {self.header} must"
        try:
            text = first.decode().rstrip("\r")
        except UnicodeDecodeError:
            words = f"be UTF-8 text that names the columns; got {first[:20]!r}"
            raise error(f"{place} {words}") from None
        if is_garbled(text):
            words = f"got {text[:60]!r}: is it damaged, or a quote left open?"
            raise error(f"{place} name the columns; {words}")
        splits = {separator: header_names(text, separator) for separator in SEPARATORS}
        # The separator that gives the most expected names; then the one that gives the most names.
        self.separator = max(
            splits, key=lambda one: (len({*splits[one]} & {*expected}), len(splits[one]))
        )
        super().__init__(path, error, splits[self.separator])
        self._read = range(len(self.names))

    def batches(
        self, names: Sequence[str], progress: Progress | None = None
    ) -> Iterator[polars.DataFrame]:
        """Frames of some rows each, all cells as texts, without blank rows."""
        self._read = [self.names.index(name) for name in names]
        total = os.path.getsize(self.path)
        with open(self.path, "rb") as file:
            for line, content in self.blocks(file):
                body = content.lstrip(b"\r\n")
                line += content.count(b"\n", 0, len(content) - len(body))
                if body:
                    yield self._frame(line, body.rstrip(b"\r\n"))
                if progress is not None:
                    progress(file.tell(), total)

    def frame(self, names: Sequence[str], content: bytes, line: int) -> polars.DataFrame:
        """The frame of some whole lines, the first of them with this number, without blank rows."""
        self._read = [self.names.index(name) for name in names]
        return self._frame(line, content.rstrip(b"\r\n"))

    def blocks(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """(number of its first line, content) of every block, line ends as LF."""
        file.seek(self.start)
        line, rest, more = self.line, b"", True
        while more:
            read = file.read(BLOCK)
            more = len(read) == BLOCK
            content = rest + (read.replace(b"\r", b"\n") if self.carriage else read)
            end = last_record(content) if more else len(content)
            if end == 0 and len(content) > 4 * BLOCK:
                raise self.error(
                    f"{self.path}, line {line}: a quote is opened and never closed, or the line is "
                    f"longer than {4 * BLOCK} bytes"
                )
            if end:
                yield line, content[:end]
                line += content.count(b"\n", 0, end)
            rest = content[end:]

    def _frame(self, line: int, body: bytes) -> polars.DataFrame:
        """The frame of a block without its blank rows."""
        import polars

        lone = re.search(rb"\r(?!\n)", body) if b"\r" in body else None
        if lone is not None:
            line += body.count(b"\n", 0, lone.start())
            raise self.error(f"{self.path}, line {line}: a cell must hold no carriage return")
        try:
            if known_format(body):
                raise OSError  # Polars would unpack what looks compressed
            # Columns go by their place: those that are not read may have any name, even the same.
            frame = polars.read_csv(
                body,
                has_header=False,
                schema={str(at): polars.String for at in range(len(self.names))},
                columns=[*self._read],
                separator=self.separator,
            )
        except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError):
            raise self.error(self._explain(line, body)) from None
        return _without_blank_rows(frame).rename({str(at): self.names[at] for at in self._read})

    def records(self, content: bytes) -> Iterator[tuple[int, list[str]]]:
        """(line within the content from 0, fields) of every record that is not blank."""
        text = io.StringIO(content.decode(errors="replace"), newline="")
        reader = csv.reader(text, delimiter=self.separator)
        before = 0
        for fields in reader:
            if any(fields[at].strip() for at in self._read if at < len(fields)):
                yield before, fields
            before = reader.line_num

    def _explain(self, first: int, content: bytes) -> str:
        """What is wrong with a block that Polars could not split into fields."""
        try:
            closed = content.decode().count('"') % 2 == 0
            for line, fields in self.records(content):
                if len(fields) > len(self.names) or (closed and len(fields) < len(self.names)):
                    return f"{self.path}, line {first + line}: {self._uneven(fields)}"
            words = "the lines cannot be split into fields; is a quote left open?"
        except UnicodeDecodeError as error:
            line = first + content.count(b"\n", 0, error.start)
            byte = content[error.start]
            return f"{self.path}, line {line} must be UTF-8 text; got the byte 0x{byte:02x}"
        except csv.Error as error:
            words = f"it is no text table: {error}"
        return f"{self.path}, from line {first}: {words}"

    def _uneven(self, fields: list[str]) -> str:
        names = f"{len(self.names)} fields ({some(self.names)})"
        return f"every row must have {names}; got {len(fields)}"

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """(line number in the file, fields) of every row of the data, read from the beginning."""
        with open(self.path, "rb") as file:
            for first, content in self.blocks(file):
                yield from ((first + line, fields) for line, fields in self.records(content))

    def _record(self, row: int) -> tuple[int, list[str]]:
        return next(islice(self.rows(), row, None), (0, []))

    def place(self, row: int) -> str:
        """The line in which a row begins."""
        return f"line {self._record(row)[0]}"

    def fault(self, row: int, words: str) -> TacitError:
        """The error that says what is wrong with a row, and in which line it stands."""
        line, fields = self._record(row)
        uneven = fields and len(fields) != len(self.names)
        return self.error(f"{self.path}, line {line}: {self._uneven(fields) if uneven else words}")


def last_record(content: bytes) -> int:
    """The number of bytes up to the last line end that lies outside quotes."""
    end = content.rfind(b"\n") + 1
    quotes = content.count(b'"', 0, end)
    while end and quotes % 2:
        before = content.rfind(b"\n", 0, end - 1) + 1
        quotes -= content.count(b'"', before, end)
        end = before
    return end


def header_names(text: str, separator: str) -> tuple[str, ...]:
    """The names of columns in the first line of a text table; () where it cannot be split."""
    try:
        fields = next(csv.reader([text], delimiter=separator), [])
    except csv.Error:
        return ()
    return tuple(" ".join(name.split()) for name in fields)


def is_garbled(header: str) -> bool:
    """Whether a line cannot be meant to name columns: controls, lost letters, an open quote."""
    lost = any(
        unicodedata.category(letter) in ("Cc", "Cn", "Co", "Cs") and letter != "\t"
        for letter in header
    )
    return lost or "\ufffd" in header or header.count('"') % 2 == 1


def _without_blank_rows(frame: polars.DataFrame) -> polars.DataFrame:
    """The frame without rows whose cells are all empty; the first column tells if there are any."""
    import polars

    is_blank = polars.all().str.strip_chars().fill_null("") == ""
    if not frame.select(polars.nth(0).str.strip_chars().fill_null("") == "").to_series().any():
        return frame
    return frame.filter(~polars.all_horizontal(is_blank))


def write_columns(path: Path, columns: Mapping[str, npt.ArrayLike]) -> None:
    """Writes columns of equal length, as Parquet or as CSV by the ending of the name."""
    import polars

    frame = polars.DataFrame(dict(columns))
    if path.suffix != ".csv":
        return write_parquet(path, frame)
    frame.write_csv(buffer := io.BytesIO())
    write_bytes(path, buffer.getbuffer())
