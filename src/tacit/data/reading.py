"""Demonstrations from files and frames: a table of (episode, step, state, action), or arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.episodes import PEOPLE, episodes
from tacit.data.measurements import Measurements
from tacit.data.numbering import Numbering
from tacit.data.weights import positive
from tacit.errors import InvalidDemonstrations
from tacit.files.arrays import read_arrays
from tacit.files.atomic import LARGEST, naming, read_head
from tacit.files.columns import TOP, RawColumn
from tacit.files.frames import Frame, FrameTable, frame_columns
from tacit.files.tables import PARQUET, TEXT, Progress, TableSource, TextTable, open_table
from tacit.files.wording import did_you_mean, listed, nearest
from tacit.model.available import first_unavailable
from tacit.model.layout import Layout

# Columns of a table; those of the second line may be absent.
ORDINARY = ("episode", "step", "state", "action")
OPTIONAL = (
    "group", "individual", "weight", "sampling_weight", "ended", "final_state", "partial",
)  # fmt: skip
# Arrays of an npz file; those of the second line may be absent.
NEEDED = ("states", "actions", "offsets")
STORED = (
    *NEEDED, "ended", "final_states", "partial", "groups", "individuals", "names", "weights",
)  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class Reading:
    """How a file of episodes is to be read.

    Attributes:
        layout: names of states and actions, in order, as far as they are known.
        sources: where the names of states, and those of actions, come from, for messages.
        find: "state", "action": whose names are collected from the table where none are given.
        states: number of states; 0 where it is unknown.
        actions: number of actions; 0 where it is unknown.
        available: [S, A] bool, which actions there are in each state; None where all are.
        missing: "refuse" or "split", where a state or an action is missing within an episode.
        measured: columns of measurements, which make each row a state of its own; empty for all
            that have no other meaning, None where states are numbered.
        largest: most bytes of memory that the table may take.
        progress: called with what is done and what there is to do, in bytes or rows.
    """

    layout: Layout = field(default_factory=Layout)
    sources: tuple[str, str] = ("the layout", "the layout")
    find: tuple[str, ...] = ()
    states: int = 0
    actions: int = 0
    available: np.ndarray | None = None
    missing: str = "refuse"
    measured: tuple[str, ...] | None = None
    largest: int = LARGEST
    progress: Progress | None = None


def read_file(path: Path, reading: Reading) -> Demonstrations:
    """The demonstrations of a .csv, .tsv, .parquet or .npz file."""
    ending = path.suffix.lower()
    if reading.measured is not None:
        reading = replace(reading, find=("action",))
    if ending not in (".npz", *TEXT, *PARQUET):
        read_head(path, "demonstrations as .parquet, .csv or .npz")  # names a folder or a pickle
        raise InvalidDemonstrations(
            f"demonstrations are read from .parquet, .csv or .npz; got {path.name}"
        )
    if ending != ".npz":
        known = (*ORDINARY, *OPTIONAL)
        table = open_table(path, InvalidDemonstrations, expected=known, largest=reading.largest)
        return read_table(table, reading)
    arrays = read_arrays(path, largest=reading.largest)
    with naming(path, InvalidDemonstrations):
        if "terminals" in arrays and "states" not in arrays:
            from tacit.data.sources.offline import from_offline

            rows = from_offline(arrays)
            return rows.measuring(reading.measured) if reading.measured else rows
        for name in NEEDED:
            if name not in arrays:
                near = did_you_mean(name, arrays)
                raise InvalidDemonstrations(f"it must hold {name!r}; got {[*arrays]}{near}")
        stored: dict[str, Any] = {name: arrays[name] for name in STORED if name in arrays}
        seen = Demonstrations(**stored)
        if reading.measured is not None or "observations" in arrays:
            return _stored_rows(seen, arrays, reading.measured or ())
        states, actions = len(reading.layout.state_names), len(reading.layout.action_names)
        seen.check_range(reading.states or states or TOP, reading.actions or actions or TOP)
    return seen


def read_frame(frame: Frame, columns: Mapping[str, str | None], reading: Reading) -> Demonstrations:
    """The demonstrations of a frame in memory, given the names of its columns by ours."""
    if reading.missing not in ("refuse", "split"):
        message = f"missing must be 'refuse' or 'split'; got {reading.missing!r:.40}"
        raise InvalidDemonstrations(message)
    if strange := next((name for name in columns if name not in (*ORDINARY, *OPTIONAL)), None):
        raise InvalidDemonstrations(
            f"a frame has the columns {', '.join((*ORDINARY, *OPTIONAL))}; got {strange!r}"
            f"{did_you_mean(strange, OPTIONAL)}"
        )
    if hasattr(frame, "collect"):  # a lazy one
        frame = frame.collect()
    have = frame_columns(frame, InvalidDemonstrations)
    measured = reading.measured or ()
    named = {name: name for name in OPTIONAL if name in have}
    named |= {name: column for name, column in columns.items() if column is not None}
    taken = next((name for name in measured if named.get(name, name) != name), None)
    if taken is not None:
        raise InvalidDemonstrations(
            f"the measurement {taken!r} has the name of what {named[taken]!r} holds: rename it"
        )
    named |= {name: name for name in measured}
    table = FrameTable(frame, InvalidDemonstrations, named, what="the frame")
    return read_table(table, replace(reading, find=("state", "action")))


def read_table(table: TableSource, reading: Reading) -> Demonstrations:
    """The demonstrations of a table, one row a step in any order."""
    ordinary, optional, measured = _meanings(table, reading.measured)
    notes = _check_names(table, ordinary, optional, measured)
    if reading.measured == ():
        notes.append(f"the columns {listed(measured, 12)} are taken for measurements")
    known, sources = reading.layout, reading.sources
    states = Numbering(known.state_names, "state" in reading.find, reading.states, sources[0])
    actions = Numbering(known.action_names, "action" in reading.find, reading.actions, sources[1])
    texts = ["group", "individual", *(["state", "final_state"] if states.only_names else [])]
    known_columns = (*ordinary, *optional)
    columns = table.read(
        dict.fromkeys(name for name in (*known_columns, *measured) if name in table.names),
        texts=[*texts, *(["action"] if actions.only_names else [])],
        plain=["episode"],
        reals=[name for name in measured if name not in ordinary],
        progress=reading.progress,
    )
    episode = columns["episode"]
    if not len(episode):
        raise InvalidDemonstrations(f"{table.path} must hold at least one step, got none: add rows")
    rows = [
        columns[name].reals() if name in ordinary else columns[name].values for name in measured
    ]
    checks: dict[str, Callable[[RawColumn], np.ndarray]] = {
        "episode": RawColumn.labels,
        "step": RawColumn.integers,
        "state": states.numbers,
        "action": actions.numbers,
        "group": RawColumn.labels,
        "individual": RawColumn.labels,
        "weight": positive,
        "sampling_weight": positive,
        "ended": RawColumn.flags,
        "final_state": lambda column: states.numbers(column, may_miss=True),
        "partial": RawColumn.flags,
    }
    who = {name: columns[name].texts or () for name in PEOPLE if name in columns}
    values = {
        name: checks[name](columns.pop(name))
        for name in checks
        if name in columns and name in known_columns
    }
    observations = np.stack(rows, axis=1) if measured else np.empty((0, 0))
    if measured:  # a row is the state that has its number
        blank = np.isnan(observations).all(axis=1) & (values["action"] < 0)
        values["state"] = np.where(blank, -1, np.arange(len(observations)))
    if len(void := np.flatnonzero((values["state"] < 0) | (values["action"] < 0))):
        _refuse_short(table, void)
    if reading.available is not None:
        taken = values["state"], values["action"]
        known_rows = np.flatnonzero((taken[0] >= 0) & (taken[1] >= 0))
        taken = taken[0][known_rows], taken[1][known_rows]
        if (odd := first_unavailable(reading.available, *taken)) is not None:
            row = int(known_rows[odd.row])
            raise table.fault(row, odd.sentence(known.state_names, known.action_names))
    layout = replace(
        known,
        state_names=states.sort(values, "state", "final_state") or known.state_names,
        action_names=actions.sort(values, "action") or known.action_names,
    )
    seen = episodes(
        values,
        episode,
        table.fault,
        missing=reading.missing,
        people=who,
        source=str(table.path),
        layout=None if layout == Layout() else layout,
        largest=reading.largest,
    )
    seen = replace(seen, notes=(*notes, *seen.notes))
    return Measurements.at_sites(seen, observations, measured) if measured else seen


def _stored_rows(
    sites: Demonstrations, arrays: Mapping[str, np.ndarray], measured: tuple[str, ...]
) -> Measurements:
    """The measurements of an npz file, given their sites; of some columns, or of all."""
    for name in ("observations", "columns"):
        if name not in arrays:
            raise InvalidDemonstrations(
                f"it must hold {name!r}, as measurements do; got {[*arrays]}"
            )
    columns, actions = (
        tuple(map(str, arrays[name].tolist())) if name in arrays else ()
        for name in ("columns", "action_names")
    )
    layout = Layout(action_names=actions) if actions else None
    rows = Measurements.at_sites(replace(sites, layout=layout), arrays["observations"], columns)
    return rows.measuring(measured) if measured else rows


def _meanings(
    table: TableSource, measured: tuple[str, ...] | None
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The names of columns that must be there, that may be, and of those of measurements."""
    if measured is None:
        return ORDINARY, OPTIONAL, ()
    ordinary = tuple(name for name in ORDINARY if name != "state")
    optional = tuple(name for name in OPTIONAL if name not in ("final_state", *measured))
    others = tuple(name for name in table.names if name not in (*ordinary, *optional))
    if not (measured or others):
        raise InvalidDemonstrations(f"{table.path} must have columns of measurements; it has none")
    return ordinary, optional, measured or others


def _check_names(
    table: TableSource,
    ordinary: Sequence[str],
    optional: Sequence[str],
    measured: Sequence[str],
) -> list[str]:
    """Notes on columns that may be misspelt; raises where one is missing or there twice."""
    used = (*ordinary, *optional, *measured)
    others = [name for name in table.names if name not in used]
    # Without steps the order of the file is taken; not where they are there, misspelt.
    free = "step" not in table.names and not nearest("step", others, cutoff=0.7)
    needed = [name for name in (*ordinary, *measured) if not (free and name == "step")]
    try:
        table.require(*needed, unique=used)
    except InvalidDemonstrations as error:
        lost = next((name for name in needed if name not in table.names), None)
        if lost is None or lost in measured or not {*needed} & {*table.names}:
            raise
        mend = f"rename a column, or name it: tacit ingest LOG --{lost} COLUMN"
        mend += "; columns of measurements: state=[...]" if lost == "state" else ""
        raise InvalidDemonstrations(f"{error}: {mend}") from None
    pairs = [(n, nearest(n, others, cutoff=0.6 if n == "final_state" else 0.8)) for n in optional]
    return [
        f"the column {near!r} is not read; if {name!r} is meant, rename it"
        for name, near in pairs
        if near and name not in table.names
    ]


def _refuse_short(table: TableSource, rows: np.ndarray) -> None:
    """Raises where one of these rows of a text table was cut off, with fewer fields than names."""
    if not isinstance(table, TextTable):
        return
    asked = {*rows.tolist()}
    for row, (_, fields) in enumerate(table.rows()):
        if row in asked and len(fields) != len(table.names):
            raise table.fault(row, "the row is cut off")
