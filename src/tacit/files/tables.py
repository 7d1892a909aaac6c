"""Columns in a Parquet or CSV file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tacit.files.atomic import write_atomically
from tacit.files.contents import opening, recognised
from tacit.files.parquet import check_parquet, readable, write_parquet


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

    if path.suffix == ".csv":
        if found := recognised(opening(path, "a CSV table")):
            raise OSError(f"{path} must be a text table; it is {found}")
    else:
        check_parquet(path)
    with readable(path):
        content = path.read_bytes()
        frame = polars.read_csv(content) if path.suffix == ".csv" else polars.read_parquet(content)
        return {name: frame[name].to_numpy() for name in frame.columns}
