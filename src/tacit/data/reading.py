"""Reading episodes: rows of (episode, step, state, action) of a table, or arrays of an npz file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import InvalidDemonstrations
from tacit.files.arrays import read_arrays
from tacit.files.columns import TOP, Column, Fault, whole
from tacit.files.formats import LARGEST, did_you_mean, natural_order, nearest, read_head
from tacit.files.tables import PARQUET, TEXT, Progress, Table, open_table
from tacit.model.names import first_unavailable

# Columns of a table; those of the second line may be absent.
ORDINARY = ("episode", "step", "state", "action")
OPTIONAL = ("group", "ended", "final_state", "partial")
# Arrays of an npz file; those of the second line may be absent.
NEEDED = ("states", "actions", "offsets")
STORED_EXTRAS = ("ended", "final_states", "partial", "groups")
# What `Demonstrations` is made from, by name: arrays, and notes.
Arguments = dict[str, Any]
FROM_ONE = "every episode begins at step 1: steps are taken to count from 1"


@dataclass(frozen=True, eq=False, kw_only=True)
class Reading:
    """How a file of episodes is to be read.

    Attributes:
        state_names: names of the states, in order; empty where they are unknown.
        action_names: names of the actions, in order; empty where they are unknown.
        source: where the names come from, for messages.
        find: "state", "action": whose names are collected from the table where none are given.
        states: number of states; 0 where it is unknown.
        actions: number of actions; 0 where it is unknown.
        available: [S, A] bool, which actions there are in each state; None where all are.
        largest: most bytes of memory that the table may take.
        progress: called with what is done and what there is to do, in bytes or rows.
    """

    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    source: str = "the layout"
    find: tuple[str, ...] = ()
    states: int = 0
    actions: int = 0
    available: np.ndarray | None = None
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
        return _read_table(path, reading)
    read_head(path, "demonstrations as .parquet, .csv or .npz")  # a folder or a pickle is named
    raise InvalidDemonstrations(
        f"demonstrations are read from .parquet, .csv or .npz; got {path.name}"
    )


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


def _read_table(path: Path, reading: Reading) -> Episodes:
    known = (*ORDINARY, *OPTIONAL)
    table = open_table(path, InvalidDemonstrations, expected=known, largest=reading.largest)
    notes = _check_names(table)
    states = _Names(reading.state_names, "state" in reading.find, reading.states, reading.source)
    actions = _Names(
        reading.action_names, "action" in reading.find, reading.actions, reading.source
    )
    texts = ["group", *(["state", "final_state"] if states.only else [])]
    columns = table.read(
        [name for name in known if name in table.names],
        texts=[*texts, *(["action"] if actions.only else [])],
        plain=["episode"],
        progress=reading.progress,
    )
    episode = columns["episode"]
    if not len(episode):
        raise InvalidDemonstrations(f"{path} must hold at least one step; got none")
    checks: dict[str, Callable[[Column], np.ndarray]] = {
        "episode": Column.labels,
        "step": Column.integers,
        "state": states.numbers,
        "action": actions.numbers,
        "group": Column.labels,
        "ended": Column.flags,
        "final_state": lambda column: states.numbers(column, may_miss=True),
        "partial": Column.flags,
    }
    groups = columns["group"].texts if "group" in columns else None
    values = {name: checks[name](columns.pop(name)) for name in checks if name in columns}
    if reading.available is not None:
        taken = values["state"], values["action"]
        if (odd := first_unavailable(reading.available, *taken)) is not None:
            raise table.fault(odd.row, odd.sentence(reading.state_names, reading.action_names))
    arguments, assumed = _assembled(values, episode, table.fault)
    if groups is not None:
        arguments["groups"] = np.array(groups)[arguments["groups"]]
    arguments["notes"] = (*notes, *assumed)
    return Episodes(
        arguments,
        states.in_order(arguments, ("states", "final_states")),
        actions.in_order(arguments, ("actions",)),
    )


def _check_names(table: Table) -> list[str]:
    """Notes on columns that may be misspelt; raises where one is missing or there twice."""
    others = [name for name in table.names if name not in (*ORDINARY, *OPTIONAL)]
    # Without steps the order of the file is taken; not where they are there, misspelt.
    free = "step" not in table.names and not nearest("step", others, cutoff=0.7)
    needed = [name for name in ORDINARY if not (free and name == "step")]
    table.require(*needed, unique=(*ORDINARY, *OPTIONAL))
    pairs = [(name, nearest(name, others, cutoff=0.8)) for name in OPTIONAL]
    return [
        f"the column {near!r} is not read; if {name!r} is meant, rename it"
        for name, near in pairs
        if near and name not in table.names
    ]


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
        """[N] the numbers in a column, or those of its names; -1 where one may be missing."""
        least = -1 if may_miss else 0
        if column.texts is None and self.kind != "names":
            self.kind = "numbers"
            return column.integers(least, self.most)
        column = column.spelled()
        texts = column.texts or ()
        void = [may_miss and text in ("", "-1") for text in texts]
        found = [None if self.only else whole(text) for text in texts]
        span = f" to {self.most}" if self.most < TOP else ""
        wanted = f"integers from 0{span}{' or names' if self.find else ''}"
        column.refuse([not (text or may_miss) for text in texts], wanted)
        if not (self.known or self.find):
            named = [
                number is None and not (empty or _is_value(text))
                for text, number, empty in zip(texts, found, void, strict=True)
            ]
            hint = "; names need a layout: Demonstrations.load_named finds it"
            column.refuse(named, wanted, hint)
            odd = [n is None and not empty for n, empty in zip(found, void, strict=True)]
            column.refuse(odd, wanted)
        self._check_kind(column, ["names" if n is None else "numbers" for n in found], void)
        if self.kind == "names":
            table = self._looked_up(column, void, wanted)
        else:
            table = [-1 if empty else n or 0 for n, empty in zip(found, void, strict=True)]
        values = np.array(table, np.int64)[column.values]
        return replace(column, values=values, texts=None).integers(least, self.most)

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
            column.refuse(
                [_is_value(t) and not empty for t, empty in zip(texts, void, strict=True)], wanted
            )
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


def _is_value(text: str) -> bool:
    """Whether a text is a number or a truth value: no name for a state."""
    try:
        float(text)
    except ValueError:
        return text.lower() in ("true", "false")
    return True


def _assembled(
    columns: Mapping[str, np.ndarray], labels: Column, fault: Fault
) -> tuple[Arguments, list[str]]:
    """The arguments of `Demonstrations`, from one row a step in any order, and what was assumed."""
    notes = []
    order, first = _order(columns, labels, fault)

    def sorted_rows(name: str) -> np.ndarray:
        return columns[name] if order is None else columns[name][order]

    def refuse(odd: np.ndarray, words: str) -> None:
        if odd.any():
            at = int(np.argmax(odd))
            raise fault(int(at if order is None else order[at]), words)

    starts = np.flatnonzero(first)
    lengths = np.diff(np.append(starts, len(first)))
    lasts = starts + lengths - 1
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
    whole_episodes: dict[str, np.ndarray] = {}
    if "ended" in columns:  # in all rows of an episode, or in the last alone
        flags = sorted_rows("ended")
        ended = flags[lasts]
        count = np.add.reduceat(flags.astype(np.int64), starts)
        odd = np.repeat((count != ended) & (count != lengths), lengths) & flags
        refuse(odd, "ended must be true at the last step of an episode, or at none; got true")
        whole_episodes["ended"] = ended
    for name, field, at in (("final_state", "final_states", lasts), ("group", "groups", starts)):
        if name in columns:
            values = sorted_rows(name)
            other = values != np.repeat(values[at], lengths)
            other &= (values != -1) if name == "final_state" else True
            refuse(other, f"{name} must be the same in all rows of an episode; here it differs")
            whole_episodes[field] = values[at]
    return {
        "states": sorted_rows("state"),
        "actions": sorted_rows("action"),
        "offsets": np.append(starts, len(first)),
        "partial": partial,
        **whole_episodes,
    }, notes


def _order(
    columns: Mapping[str, np.ndarray], labels: Column, fault: Fault
) -> tuple[np.ndarray | None, np.ndarray]:
    """(the rows by episode and step, None where they lie so; [N] whether an episode starts)."""
    episode, step = columns["episode"], columns.get("step")
    order = None
    if not _lies_in_order(episode, step):
        order = _placed(episode, step) if step is not None else None
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
                f"(row {row + 1} of the data)",
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


def _placed(episode: np.ndarray, step: np.ndarray) -> np.ndarray | None:
    """The rows by episode and step, each put where it belongs; None where that takes a sort.

    Steps without gaps tell their own places, so that no comparison is needed. Repeated or missing
    ones, and episodes that are numbered far apart, are left to the sort.
    """
    count, least = len(episode), int(episode.min())
    span = int(episode.max()) - least + 1
    if span > 4 * count + 1024 or count > TOP:
        return None
    code = (episode - least).astype(np.int32)
    lengths = np.bincount(code, minlength=span).astype(np.int32)
    starts = np.cumsum(lengths, dtype=np.int32) - lengths
    begins = np.full(span, TOP, np.int32)
    np.minimum.at(begins, code, step)
    place = step - begins[code]
    if (place >= lengths[code]).any():
        return None
    place += starts[code]
    order = np.full(count, -1, np.int64)
    order[place] = np.arange(count)
    return None if (order < 0).any() else order
