"""Episodes in a file of any known format, by the ending of its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import InvalidDemonstrations
from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.contents import near_column, opening
from tacit.files.steps import PARQUET, Reading, Steps, read_steps
from tacit.files.tables import TEXT, write_columns

NEEDED = ("states", "actions", "offsets")
OPTIONAL = ("ended", "final_states", "partial", "groups")


def read_recorded(path: Path, reading: Reading) -> Steps:
    """The episodes of a .csv, .tsv, .parquet or .npz file."""
    ending = path.suffix.lower()
    if ending == ".npz":
        return Steps(_read_npz(path, reading), (), ())
    if ending in (*TEXT, *PARQUET):
        return read_steps(path, reading)
    opening(path, "demonstrations as .parquet, .csv or .npz")  # a folder or a pickle is named
    raise InvalidDemonstrations(
        f"demonstrations are read from .parquet, .csv or .npz; got {path.name}"
    )


def _read_npz(path: Path, reading: Reading) -> dict[str, Any]:
    columns = read_arrays(path, largest=reading.largest)
    for name in NEEDED:
        if name not in columns:
            near = near_column(name, columns)
            hint = f"; is {near!r} meant?" if near else ""
            raise InvalidDemonstrations(f"{path} must hold {name!r}; got {[*columns]}{hint}")
    states = reading.states or len(reading.state_names)
    actions = reading.actions or len(reading.action_names)
    for name, least, count in (
        ("states", 0, states),
        ("actions", 0, actions),
        ("final_states", -1, states),
    ):
        values = columns.get(name, np.zeros(0, int))
        if values.dtype.kind not in "iu":
            continue  # `Demonstrations` says what is wrong with it
        odd = (values < least) | (values >= (count or 2**31))
        if odd.any():
            at = int(np.argmax(odd))
            span = f" to {count - 1}" if count else " to 2147483647"
            raise InvalidDemonstrations(
                f"{path}: {name} must be integers from {least}{span}; "
                f"row {at + 1} is {values.ravel()[at]}"
            )
    return {name: columns[name] for name in (*NEEDED, *OPTIONAL) if name in columns}


def write_recorded(
    path: Path, rows: Mapping[str, Any], episodes: Mapping[str, Any], *, first: int = 0
) -> None:
    """Writes episodes as a table or as arrays, by the ending of the name.

    Args:
        path: of the file.
        rows: `states` and `actions`, one entry a step.
        episodes: `offsets`, and `ended`, `final_states`, `partial`, `groups` or None, one entry an
            episode. A table repeats in every row what is unusual.
        first: number of the first episode in a table.
    """
    if path.suffix == ".npz":
        arrays = {**rows, **episodes}
        write_arrays(path, {name: part for name, part in arrays.items() if part is not None})
        return
    if path.suffix not in (".parquet", ".csv"):
        raise InvalidDemonstrations(
            f"demonstrations are saved as .parquet, .csv or .npz; got {path.name}"
        )
    import polars

    offsets = episodes["offsets"]
    lengths = np.diff(offsets)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    columns = {
        "episode": first + episode,
        "step": np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths),
        "state": rows["states"],
        "action": rows["actions"],
    }
    for name, column, usual in (
        ("ended", "ended", False),
        ("final_states", "final_state", -1),
        ("partial", "partial", False),
        ("groups", "group", None),
    ):
        part = episodes[name]
        if part is None or not (part != usual).any():
            continue
        if part.dtype.kind == "U":
            # NumPy would hold every row's text at the length of the longest.
            part = polars.Series(part.tolist())
        columns[column] = part[episode]
    write_columns(path, columns)
