"""Columns in a Parquet or CSV file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

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
