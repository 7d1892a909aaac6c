"""Parquet files, looked at before they are read."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.files.atomic import LARGEST, check_size, known_format, read_head, write_bytes

if TYPE_CHECKING:
    import polars

ROWS = 2**20  # of one slice


def check_parquet(path: Path, *, largest: int = LARGEST) -> tuple[tuple[str, ...], int]:
    """(names of the columns, number of rows); `OSError` unless it may be read."""
    import polars

    head = read_head(path, "a Parquet file", largest=largest)
    with open(path, "rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - 4))
        tail = file.read()
    if not (head.startswith(b"PAR1") and tail == b"PAR1" and size >= 12):
        what = known_format(head) or ("something else" if head else "an empty file")
        words = "it is cut off or damaged" if what == "Parquet" else f"it is {what}"
        raise OSError(f"{path} is no table that can be read: expected Parquet; {words}")
    with readable(path):
        scan = polars.scan_parquet(path, glob=False)
        names = tuple(scan.collect_schema())
        rows = int(scan.select(polars.len()).collect().item())
    # What a file declares may be thousands of times its own size: look before reading.
    check_size(path, 8 * rows * len(names), largest)
    return names, rows


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Within, what Polars says of a file that it cannot read becomes one line of `OSError`."""
    import polars

    try:
        yield
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise OSError(f"{path} is no table that can be read: {lines[0]:.160}") from None


def read_columns(path: Path) -> dict[str, np.ndarray]:
    """The columns of a Parquet file, by name; `OSError` if it is no such table."""
    import polars

    check_parquet(path)
    with readable(path):
        frame = polars.read_parquet(path.read_bytes())
        return {name: frame[name].to_numpy() for name in frame.columns}


def write_parquet(path: Path, frame: polars.DataFrame) -> None:
    """Writes a Polars frame as Parquet."""
    frame.write_parquet(buffer := io.BytesIO())
    write_bytes(path, buffer.getbuffer())
