"""Reading episodes: rows of (episode, step, state, action) of a table, or arrays of an npz file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tacit.data import positive, weigh
from tacit.data.rows import MISSING, ROWS, Arguments, Frame, FrameTable, assembled
from tacit.errors import InvalidDemonstrations
from tacit.files.atomic import LARGEST, read_head
from tacit.files.columns import TOP, Column, did_you_mean, natural_order, nearest, whole
from tacit.files.formats import read_arrays
from tacit.files.tables import PARQUET, TEXT, Progress, Table, TextTable, open_table
from tacit.model import first_unavailable

# Columns of a table; those of the second line may be absent.
ORDINARY = ("episode", "step", "state", "action")
OPTIONAL = (
    "group", "individual", "weight", "sampling_weight", "ended", "final_state", "partial",
)  # fmt: skip
# Arrays of an npz file; those of the second line may be absent.
NEEDED = ("states", "actions", "offsets")
STORED_EXTRAS = ("ended", "final_states", "partial", "groups", "individuals", "names", "weights")


@dataclass(frozen=True, eq=False, kw_only=True)
class Reading:
    """How a file of episodes is to be read.

    Attributes:
        state_names: names of the states, in order; empty where they are unknown.
        action_names: names of the actions, in order; empty where they are unknown.
        source: where the names come from, for messages.
        action_source: where those of the actions come from; "" where from the same.
        find: "state", "action": whose names are collected from the table where none are given.
        states: number of states; 0 where it is unknown.
        actions: number of actions; 0 where it is unknown.
        available: [S, A] bool, which actions there are in each state; None where all are.
        missing: "refuse" or "split", where a state or an action is missing within an episode.
        largest: most bytes of memory that the table may take.
        progress: called with what is done and what there is to do, in bytes or rows.
    """

    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    source: str = "the layout"
    action_source: str = ""
    find: tuple[str, ...] = ()
    states: int = 0
    actions: int = 0
    available: np.ndarray | None = None
    missing: str = "refuse"
    largest: int = LARGEST
    progress: Progress | None = None


@dataclass(frozen=True)
class Episodes:
    """What a file of episodes holds.

    Attributes:
        arguments: of `Demonstrations`.
        state_names: names found, in order of their numbers; empty where there are none.
        action_names: names of the actions, likewise.
    """

    arguments: Arguments
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()


def read_episodes(path: Path, reading: Reading) -> Episodes:
    """The episodes of a .csv, .tsv, .parquet or .npz file."""
    ending = path.suffix.lower()
    if ending == ".npz":
        return Episodes(_read_arrays(path, reading))
    if ending in (*TEXT, *PARQUET):
        known = (*ORDINARY, *OPTIONAL)
        table = open_table(path, InvalidDemonstrations, expected=known, largest=reading.largest)
        return read_table(table, reading)
    read_head(path, "demonstrations as .parquet, .csv or .npz")  # a folder or a pickle is named
    raise InvalidDemonstrations(
        f"demonstrations are read from .parquet, .csv or .npz; got {path.name}"
    )


def read_frame(frame: Frame, columns: Mapping[str, str | None], reading: Reading) -> Episodes:
    """The episodes of a frame in memory, given the names of its columns by ours."""
    if reading.missing not in ("refuse", "split"):
        said = f"missing must be 'refuse' or 'split'; got {reading.missing!r:.40}"
        raise InvalidDemonstrations(said)
    if strange := next((name for name in columns if name not in (*ORDINARY, *OPTIONAL)), None):
        raise InvalidDemonstrations(
            f"a frame has the columns {', '.join((*ORDINARY, *OPTIONAL))}; got {strange!r}"
            f"{did_you_mean(strange, OPTIONAL)}"
        )
    if hasattr(frame, "collect"):  # a lazy one
        frame = frame.collect()
    have = {str(name) for name in getattr(frame, "columns", frame)}
    named = {name: name for name in OPTIONAL if name in have}
    named |= {name: column for name, column in columns.items() if column is not None}
    table = FrameTable(frame, InvalidDemonstrations, named, what="the frame")
    return read_table(table, replace(reading, find=("state", "action")))


def _read_arrays(path: Path, reading: Reading) -> dict[str, np.ndarray]:
    arrays = read_arrays(path, largest=reading.largest)
    for name in NEEDED:
        if name not in arrays:
            raise InvalidDemonstrations(
                f"{path} must hold {name!r}; got {[*arrays]}{did_you_mean(name, arrays)}"
            )
    states = reading.states or len(reading.state_names)
    actions = reading.actions or len(reading.action_names)
    for name, least, count in (
        ("states", 0, states),
        ("actions", 0, actions),
        ("final_states", -1, states),
    ):
        values = arrays.get(name, np.zeros(0, int))
        if values.dtype.kind not in "iu":
            continue  # `Demonstrations` says what is wrong with it
        odd = (values < least) | (values >= (count or TOP + 1))
        if odd.any():
            at = int(np.argmax(odd))
            raise InvalidDemonstrations(
                f"{path}: {name} must be integers from {least} to {(count or TOP + 1) - 1}; "
                f"row {at + 1} is {values.ravel()[at]}"
            )
    return {name: arrays[name] for name in (*NEEDED, *STORED_EXTRAS) if name in arrays}


def read_table(table: Table, reading: Reading) -> Episodes:
    """The episodes of a table, one row a step in any order."""
    notes = _check_names(table)
    states = _Names(reading.state_names, "state" in reading.find, reading.states, reading.source)
    source = reading.action_source or reading.source
    actions = _Names(reading.action_names, "action" in reading.find, reading.actions, source)
    texts = ["group", "individual", *(["state", "final_state"] if states.only else [])]
    columns = table.read(
        [name for name in (*ORDINARY, *OPTIONAL) if name in table.names],
        texts=[*texts, *(["action"] if actions.only else [])],
        plain=["episode"],
        progress=reading.progress,
    )
    episode = columns["episode"]
    if not len(episode):
        raise InvalidDemonstrations(f"{table.path} must hold at least one step, got none: add rows")
    checks: dict[str, Callable[[Column], np.ndarray]] = {
        "episode": _labels,
        "step": Column.integers,
        "state": states.numbers,
        "action": actions.numbers,
        "group": _labels,
        "individual": _labels,
        "weight": positive,
        "sampling_weight": positive,
        "ended": Column.flags,
        "final_state": lambda column: states.numbers(column, may_miss=True),
        "partial": Column.flags,
    }
    who = {name: columns[name].texts for name in ("group", "individual") if name in columns}
    values = {name: checks[name](columns.pop(name)) for name in checks if name in columns}
    if len(void := np.flatnonzero((values["state"] < 0) | (values["action"] < 0))):
        _refuse_short(table, void)
    if reading.available is not None:
        taken = values["state"], values["action"]
        known_rows = np.flatnonzero((taken[0] >= 0) & (taken[1] >= 0))
        taken = taken[0][known_rows], taken[1][known_rows]
        if (odd := first_unavailable(reading.available, *taken)) is not None:
            row = int(known_rows[odd.row])
            raise table.fault(row, odd.sentence(reading.state_names, reading.action_names))
    arguments, assumed = assembled(values, episode, table.fault, missing=reading.missing)
    for name, labels in who.items():
        arguments[f"{name}s"] = np.array(labels)[arguments[f"{name}s"]]
    if any(name in arguments for name in ROWS):
        arguments, said = weigh(arguments, table.path, reading.largest)
        assumed += said
    arguments["notes"] = (*notes, *assumed)
    return Episodes(
        arguments,
        states.in_order(arguments, ("states", "final_states")),
        actions.in_order(arguments, ("actions",)),
    )


def _refuse_short(table: Table, rows: np.ndarray) -> None:
    """Raises where one of these rows of a text table was cut off, with fewer fields than names."""
    if not isinstance(table, TextTable):
        return
    asked, row = {*rows.tolist()}, 0
    with open(table.path, "rb") as file:
        for _, content in table.blocks(file):
            for _, fields in table.records(content):
                if row in asked and len(fields) != len(table.names):
                    raise table.fault(row, "the row is cut off")
                row += 1


def _check_names(table: Table) -> list[str]:
    """Notes on columns that may be misspelt; raises where one is missing or there twice."""
    others = [name for name in table.names if name not in (*ORDINARY, *OPTIONAL)]
    # Without steps the order of the file is taken; not where they are there, misspelt.
    free = "step" not in table.names and not nearest("step", others, cutoff=0.7)
    needed = [name for name in ORDINARY if not (free and name == "step")]
    try:
        table.require(*needed, unique=(*ORDINARY, *OPTIONAL))
    except InvalidDemonstrations as error:
        lost = next((name for name in needed if name not in table.names), None)
        if lost is None or not {*needed} & {*table.names}:
            raise
        mend = f"rename a column, or name it: tacit ingest LOG --{lost} COLUMN"
        raise InvalidDemonstrations(f"{error}: {mend}") from None
    pairs = [(n, nearest(n, others, cutoff=0.6 if n == "final_state" else 0.8)) for n in OPTIONAL]
    return [
        f"the column {near!r} is not read; if {name!r} is meant, rename it"
        for name, near in pairs
        if near and name not in table.names
    ]


def _labels(column: Column) -> np.ndarray:
    """[N] the numbers, or the place of each row's name; one that is missing is refused."""
    if column.texts is not None:
        column.refuse([text.casefold() in MISSING for text in column.texts], "integers or names")
    return column.labels()


class _Names:
    """The names of states or of actions, shared by the columns that speak of them.

    Names are given (look them up), found (write them down), or none (numbers only). A column of
    numbers is taken as numbers, unless some of the given names are numbers themselves.
    """

    def __init__(self, names: tuple[str, ...], find: bool, count: int, source: str) -> None:
        self.known = {name: at for at, name in enumerate(names)}
        self.find = find and not names
        self.most = (len(names) or count or TOP + 1) - 1
        self.only = any(whole(name) is not None for name in names)
        self.kind = "names" if self.only else ""
        self.source = source

    def numbers(self, column: Column, *, may_miss: bool = False) -> np.ndarray:
        """[N] the numbers in a column, or those of its names; -1 where it is missing.

        `may_miss` says that -1 is another word for missing.
        """
        if column.texts is None and self.kind != "names":
            self.kind = "numbers"
            return column.integers(-1 if may_miss else 0, self.most)
        column = column.spelled()
        texts = column.texts or ()
        void = [
            (text.casefold() in MISSING and text not in self.known)
            or (may_miss and text == "-1" and "-1" not in self.known)
            for text in texts
        ]
        found = [None if self.only else whole(text) for text in texts]
        span = f" to {self.most}" if self.most < TOP else ""
        wanted = f"integers from 0{span}{' or names' if self.find else ''}"
        if not (self.known or self.find):
            named = [
                number is None and not (empty or _is_value(text))
                for text, number, empty in zip(texts, found, void, strict=True)
            ]
            hint = "; names need a layout: Demonstrations.load_named finds it"
            column.refuse(named, wanted, hint)
            odd = [n is None and not empty for n, empty in zip(found, void, strict=True)]
            column.refuse(odd, wanted, _mend(column, odd))
        self._check_kind(column, ["names" if n is None else "numbers" for n in found], void)
        if self.kind == "names":
            table = self._looked_up(column, void, wanted)
        else:
            below = [n is not None and n < 0 and not e for n, e in zip(found, void, strict=True)]
            column.refuse(below, wanted)
            table = [-1 if empty else n or 0 for n, empty in zip(found, void, strict=True)]
        values = np.array(table, np.int64)[column.values]
        return replace(column, values=values, texts=None).integers(-1, self.most)

    def _check_kind(self, column: Column, kinds: list[str], void: list[bool]) -> None:
        """Numbers and names must not stand in one column: nobody could tell what 3 means."""
        real = np.flatnonzero(~np.array(void, bool)[column.values])
        if len(real) and not self.kind:
            self.kind = kinds[column.values[real[0]]]
        other = [kind != self.kind and not empty for kind, empty in zip(kinds, void, strict=True)]
        column.refuse(other, "all integers or all names", f" among {self.kind}")

    def _looked_up(self, column: Column, void: list[bool], wanted: str) -> list[int]:
        """The number of each text of a column of names."""
        texts = column.texts or ()
        if self.find:
            odd = [_is_value(t) and not empty for t, empty in zip(texts, void, strict=True)]
            column.refuse(odd, wanted, _mend(column, odd))
            for text, empty in zip(texts, void, strict=True):
                if not empty:
                    self.known.setdefault(text, len(self.known))
            self.most = len(self.known) - 1
        empty = [text for text, e in zip(texts, void, strict=True) if e]
        wanted = f"one of the {len(self.known)} names of {self.source}"
        column.refuse_strangers(self.known, wanted, empty)
        return [-1 if e else self.known[t] for t, e in zip(texts, void, strict=True)]

    def in_order(self, arguments: Arguments, fields: tuple[str, ...]) -> tuple[str, ...]:
        """The names that were found, sorted; the columns are renumbered to fit."""
        if not self.find or self.kind != "names":
            return ()
        names = natural_order(self.known)
        places = np.empty(len(names) + 1, np.int32)
        places[[self.known[name] for name in names]] = np.arange(len(names))
        places[-1] = -1  # what was not recorded stays so
        for field in fields:
            if field in arguments:
                arguments[field] = places[arguments[field]]
        return names


def _mend(column: Column, odd: list[bool]) -> str:
    """What to do about the first of these texts, to end a message with."""
    rows = np.flatnonzero(np.array(odd, bool)[column.values])
    text = str(column.cell(int(rows[0]))) if len(rows) else ""
    if (value := _number(text.replace(",", "."))) is None:
        return ""
    if value == int(value):
        return f": write {int(value)}, without a decimal part"
    return ": positions become states by tacit ingest LOG --x COLUMN --y COLUMN"


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def _is_value(text: str) -> bool:
    """Whether a text is a number or a truth value: no name for a state."""
    try:
        float(text)
    except ValueError:
        return text.lower() in ("true", "false")
    return True
