"""Episodes in a file of any known format, by the ending of its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.batches import Book, Choices, ParquetTable, Progress, TextTable
from tacit.data.episodes import assemble
from tacit.errors import InvalidDemonstrations
from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.columns import BadRow, Column, Flags, Labels, whole
from tacit.files.contents import LARGEST, natural_order, near_column, opening
from tacit.files.tables import TEXT, write_columns

NEEDED = ("states", "actions", "offsets")
STORED_EXTRAS = ("ended", "final_states", "partial", "groups")


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
    return {name: columns[name] for name in (*NEEDED, *STORED_EXTRAS) if name in columns}


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


ORDINARY = ("episode", "step", "state", "action")
OPTIONAL = ("group", "ended", "final_state", "partial")
PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class Reading:
    """How a table of steps is to be read.

    Attributes:
        state_names: names of the states, in order; empty where they are unknown.
        action_names: names of the actions, in order; empty where they are unknown.
        find: whether names that are not given are collected from the table.
        states: number of states; 0 where it is unknown.
        actions: number of actions; 0 where it is unknown.
        largest: most bytes of memory that the table may take.
        progress: called with what is done and what there is to do, in bytes or rows.
    """

    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    find: bool = False
    states: int = 0
    actions: int = 0
    largest: int = LARGEST
    progress: Progress | None = None


@dataclass(frozen=True)
class Steps:
    """What a table of steps holds.

    Attributes:
        arguments: of `Demonstrations`.
        state_names: names of the states in order of their numbers; empty where they are numbers.
        action_names: names of the actions, likewise.
    """

    arguments: dict[str, Any]
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]


def read_steps(path: Path, reading: Reading) -> Steps:
    """The steps of a CSV or Parquet file; `InvalidDemonstrations` names the line that is wrong."""
    parquet = path.suffix.lower() in PARQUET
    known = (*ORDINARY, *OPTIONAL)
    table = (
        ParquetTable(path, reading.largest) if parquet else TextTable(path, known, reading.largest)
    )
    notes = _check_names(path, table.names)
    state_book = Book(reading.state_names, find=reading.find, count=reading.states)
    action_book = Book(reading.action_names, find=reading.find, count=reading.actions)
    episodes, groups = Labels("episode"), Labels("group", text=True)
    columns: dict[str, Column] = {
        "episode": episodes,
        "step": Column("step"),
        "state": Choices("state", state_book),
        "action": Choices("action", action_book),
        "group": groups,
        "ended": Flags("ended"),
        "final_state": Choices("final_state", state_book, may_miss=True),
        "partial": Flags("partial"),
    }
    columns = {name: column for name, column in columns.items() if name in table.names}
    try:
        for row, batch in table.batches(columns, reading.progress):
            for name, series in batch.items():
                columns[name].add(series, row)
        values = {name: column.values() for name, column in columns.items()}
        if not len(values["episode"]):
            raise InvalidDemonstrations(f"{path} must hold at least one step; got none")
        arguments, assumed = assemble(values, episodes.label)
    except BadRow as bad:
        raise InvalidDemonstrations(table.fault(bad)) from None
    if "groups" in arguments:
        arguments["groups"] = np.array([*groups.names])[arguments["groups"]]
    arguments["notes"] = (*notes, *assumed)
    state_names = _in_order(state_book, arguments, ("states", "final_states"))
    action_names = _in_order(action_book, arguments, ("actions",))
    return Steps(arguments, state_names, action_names)


def _check_names(path: Path, names: tuple[str, ...]) -> list[str]:
    """Notes on columns that may be misspelt; `InvalidDemonstrations` where one is missing."""
    others = [name for name in names if name not in (*ORDINARY, *OPTIONAL)]
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    wanted = ", ".join(ORDINARY)
    if len(others) == len(names) and any(whole(name) is not None for name in names):
        raise InvalidDemonstrations(
            f"{path}, line 1 must name the columns ({wanted}); got {shown!r}: is a header missing?"
        )
    for name in ORDINARY:
        near = near_column(name, others)
        # Without steps the order of the file is taken; not where they are there, misspelt.
        if name not in names and (near or name != "step"):
            hint = f"; is {near!r} meant?" if near else ""
            raise InvalidDemonstrations(
                f"{path} must have the columns {wanted}; {name!r} is missing among {shown}{hint}"
            )
    for name in (*ORDINARY, *OPTIONAL):
        if names.count(name) > 1:
            raise InvalidDemonstrations(f"{path} must have one column {name!r}; got two")
    pairs = [(name, near_column(name, others, cutoff=0.8)) for name in OPTIONAL]
    return [
        f"the column {near!r} is not read; if {name!r} is meant, rename it"
        for name, near in pairs
        if near and name not in names
    ]


def _in_order(book: Book, arguments: dict[str, Any], fields: tuple[str, ...]) -> tuple[str, ...]:
    """The names that were found, sorted; the columns are renumbered to fit."""
    if not book.find or book.kind != "names":
        return ()
    names = natural_order(book.known)
    places = np.empty(len(names) + 1, np.int32)
    places[[book.known[name] for name in names]] = np.arange(len(names))
    places[-1] = -1  # what was not recorded stays so
    for field in fields:
        if field in arguments:
            arguments[field] = places[arguments[field]]
    return names
