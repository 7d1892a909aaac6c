"""Tables of steps (episode, step, state, action, ...) from CSV and Parquet, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import InvalidDemonstrations
from tacit.files.batches import ParquetTable, Progress, TextTable
from tacit.files.choices import Book, Choices
from tacit.files.columns import BadRow, Column, Flags, Labels, whole
from tacit.files.contents import LARGEST, natural_order, near_column
from tacit.files.episodes import assemble

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
