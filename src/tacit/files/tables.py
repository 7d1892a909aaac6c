"""Columns in a Parquet or CSV file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tacit.files.atomic import write_atomically


def write_columns(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Writes columns of equal length, as Parquet or as CSV by the ending of the name."""
    import polars

    frame = polars.DataFrame(dict(columns))
    if path.suffix == ".csv":
        write_atomically(path, frame.write_csv)
    else:
        write_atomically(path, frame.write_parquet)


def read_columns(path: Path) -> dict[str, np.ndarray]:
    """The columns of a Parquet or CSV file, by name; `OSError` if it is no such table."""
    import polars

    try:
        content = path.read_bytes()
        frame = polars.read_csv(content) if path.suffix == ".csv" else polars.read_parquet(content)
    except polars.exceptions.PolarsError as error:
        raise OSError(
            f"{path} is no table that can be read: {str(error).splitlines()[0]}"
        ) from None
    return {name: frame[name].to_numpy() for name in frame.columns}
