"""Columns in a Parquet or CSV file.

A flipped byte is silent in Parquet: whole numbers and flags are written with their checksums.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tacit.files.atomic import write_atomically
from tacit.files.contents import opening, recognised

SUMS = "tacit.checksums"


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Within, what Polars says of a file that it cannot read becomes one line of `OSError`."""
    import polars

    try:
        yield
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise OSError(f"{path} is no table that can be read: {lines[0]:.160}") from None


def write_columns(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Writes columns of equal length, as Parquet or as CSV by the ending of the name."""
    import polars

    frame = polars.DataFrame(dict(columns))
    if path.suffix == ".csv":
        write_atomically(path, frame.write_csv)
        return
    sums = {
        name: sum_of(part) for name, part in columns.items() if np.asarray(part).dtype.kind in "iub"
    }
    metadata = {SUMS: json.dumps(sums)}
    write_atomically(path, lambda file: frame.write_parquet(file, metadata=metadata))


def read_columns(path: Path) -> dict[str, np.ndarray]:
    """The columns of a Parquet or CSV file, by name; `OSError` if it is no such table."""
    import polars

    head = opening(path, "a Parquet or CSV table")
    with readable(path):
        if path.suffix == ".csv":
            if found := recognised(head):
                raise OSError(f"{path} must be a text table; it is {found}")
            frame = polars.read_csv(path.read_bytes())
        else:
            check_parquet(path, head)
            frame = polars.read_parquet(path.read_bytes())
    columns = {name: frame[name].to_numpy() for name in frame.columns}
    if path.suffix != ".csv":
        verify_columns(path, columns)
    return columns


def check_parquet(path: Path, head: bytes) -> None:
    """Raises `OSError` unless the file begins and ends as Parquet does."""
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 4))
        whole = head.startswith(b"PAR1") and file.read() == b"PAR1" and size >= 12
    if not whole:
        found = recognised(head) or ("an empty file" if not head else "something else")
        words = "cut off or damaged" if found == "Parquet" else f"it is {found}"
        raise OSError(f"{path} is no table that can be read: expected Parquet; {words}")


def verify_columns(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Raises `OSError` where a column is not what was written, as far as the file tells."""
    import polars

    with readable(path):
        text = polars.read_parquet_metadata(path).get(SUMS)
    if text is None:
        return
    try:
        expected = dict(json.loads(text))
    except (ValueError, TypeError):
        raise OSError(f"{path} is damaged: its checksums cannot be read") from None
    for name in expected.keys() & columns.keys():
        if sum_of(columns[name]) != expected[name]:
            raise OSError(
                f"{path} is damaged: {name} has changed since it was written "
                f"(if another program wrote it, have it drop the metadata {SUMS!r})"
            )


def sum_of(values: np.ndarray) -> int:
    """CRC-32 of the values as 64-bit integers, whatever width they are held in."""
    return zlib.crc32(np.ascontiguousarray(values, dtype="<i8").data)
