"""From rows to episodes: a table of (episode, step, state, action), read, checked, put in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tacit.data.rows import (
    OPTIONAL,
    ORDINARY,
    ROWS,
    TOLD,
    Arguments,
    Episodes,
    of_episodes,
    placed,
    refuse_short,
    stored_arrays,
    without_missing,
)
from tacit.data.weights import positive, weigh
from tacit.errors import InvalidDemonstrations, TacitError
from tacit.files.atomic import LARGEST, read_head
from tacit.files.columns import TOP, Column, Fault, real, whole
from tacit.files.frames import Frame, FrameTable, frame_columns
from tacit.files.tables import PARQUET, TEXT, Progress, Table, open_table
from tacit.files.wording import did_you_mean, natural_order, nearest
from tacit.model.available import first_unavailable

FROM_ONE = "every episode begins at step 1: steps are taken to count from 1"


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


def read_episodes(path: Path, reading: Reading) -> Episodes:
    """The episodes of a .csv, .tsv, .parquet or .npz file."""
    ending = path.suffix.lower()
    if ending == ".npz":
        return Episodes(stored_arrays(path, reading))
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
    have = frame_columns(frame, InvalidDemonstrations)
    named = {name: name for name in OPTIONAL if name in have}
    named |= {name: column for name, column in columns.items() if column is not None}
    table = FrameTable(frame, InvalidDemonstrations, named, what="the frame")
    return read_table(table, replace(reading, find=("state", "action")))


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
        refuse_short(table, void)
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
    repeats = arguments.pop("repeats", None)
    found = states.in_order(arguments, ("states", "final_states"))
    return Episodes(arguments, found, actions.in_order(arguments, ("actions",)), repeats)


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
        column.refuse(column.voids, "integers or names")
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
            (bool(empty) and text not in self.known)
            or (may_miss and text == "-1" and "-1" not in self.known)
            for text, empty in zip(texts, column.voids, strict=True)
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
    if not np.isfinite(value := real(text, comma=True)):
        return ""
    if value == int(value):
        return f": write {int(value)}, without a decimal part"
    return ": positions become states by tacit ingest LOG --x COLUMN --y COLUMN"


def _is_value(text: str) -> bool:
    """Whether a text is a number or a truth value: no name for a state."""
    try:
        float(text)
    except ValueError:
        return text.lower() in ("true", "false")
    return True


def assembled(
    columns: Mapping[str, np.ndarray], labels: Column, fault: Fault, *, missing: str = "refuse"
) -> tuple[Arguments, list[str]]:
    """The arguments of `Demonstrations`, from one row a step in any order, and what was assumed.

    Args:
        columns: by name; a state or an action is -1 where it is missing.
        labels: the column of episodes, for their names.
        fault: makes the error about a row.
        missing: "refuse" or "split", where something is missing before the end of an episode.
    """
    notes, (order, first) = [], row_order(columns, labels, fault)

    def sorted_rows(name: str) -> np.ndarray:
        return columns[name] if order is None else columns[name][order]

    def wrong(at: int, words: str) -> TacitError:
        return fault(int(at if order is None else order[at]), words)

    starts = np.flatnonzero(first)
    lengths = np.diff(np.append(starts, len(first)))
    partial = np.zeros(len(starts), bool)
    if "step" in columns:
        begins = sorted_rows("step")[starts]
        # Some programs count from 1. Otherwise an episode that starts later was joined on its way.
        from_one = bool((begins == 1).all())
        partial = (begins > 0) & (not from_one)
        notes += [FROM_ONE] if from_one else []
    else:
        notes.append("there is no column 'step': rows are taken in the order of the file")
    if "partial" in columns:
        partial |= np.logical_or.reduceat(sorted_rows("partial"), starts)
    told = {name: sorted_rows(name) for name in TOLD if name in columns}
    arguments = {
        "states": sorted_rows("state"),
        "actions": sorted_rows("action"),
        "offsets": np.append(starts, len(first)),
        "partial": partial,
        "names": _episode_names(labels, starts if order is None else order[starts]),
        **(of_episodes(told, starts, lengths, wrong) if told else {}),
        **{name: sorted_rows(name) for name in ROWS if name in columns},
    }
    if min(arguments["states"].min(), arguments["actions"].min()) < 0:
        arguments, said = without_missing(arguments, wrong, missing)
        notes += said
    return arguments, notes


def _episode_names(labels: Column, rows: np.ndarray) -> np.ndarray | None:
    """[E] what the episodes that begin in these rows are called; None where 0, 1, 2, ..."""
    values = labels.values[rows]
    if labels.texts is not None:
        return np.array(labels.texts)[values]
    return None if np.array_equal(values, np.arange(len(values))) else values.astype(str)


def row_order(
    columns: Mapping[str, np.ndarray], labels: Column, fault: Fault
) -> tuple[np.ndarray | None, np.ndarray]:
    """(the rows by episode and step, None where they lie so; [N] whether an episode starts)."""
    episode, step = columns["episode"], columns.get("step")
    order = None
    if not _lies_in_order(episode, step):
        order = placed(episode, step) if step is not None else None
        if order is None:
            order = np.lexsort((episode,) if step is None else (step, episode))
        episode = episode[order]
        step = None if step is None else step[order]
    first = np.ones(len(episode), bool)
    np.not_equal(episode[1:], episode[:-1], out=first[1:])
    if order is not None and step is not None:
        broken = ~first
        broken[1:] &= step[1:] != step[:-1] + 1
        if broken.any():
            at = int(np.argmax(broken))
            row = int(order[at])
            raise fault(
                row,
                "every (episode, step) must be there once, without gaps; episode "
                f"{labels.cell(row)} goes from step {step[at - 1]} to {step[at]} "
                f"(row {row + 1} of the data): "
                + (
                    "delete one of the two rows"
                    if step[at] == step[at - 1]
                    else "tacit ingest LOG --time step --every 1 splits episodes at gaps"
                ),
            )
    return order, first


def _lies_in_order(episode: np.ndarray, step: np.ndarray | None) -> bool:
    """Whether episodes ascend and the steps of each follow each other."""
    if (episode[1:] < episode[:-1]).any():
        return False
    if step is None:
        return True
    follows = step[1:] == step[:-1] + 1
    follows |= episode[1:] != episode[:-1]
    return bool(follows.all())
