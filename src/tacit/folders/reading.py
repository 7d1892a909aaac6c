"""The tables of a problem, read: `features.csv` and demonstrations; and what the model lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.episodes import row_order
from tacit.data.reading import Reading, read_file
from tacit.errors import InvalidDemonstrations, InvalidModel, TacitError
from tacit.files.columns import Column
from tacit.files.tables import Progress, Table, open_table
from tacit.files.wording import did_you_mean, nearest
from tacit.folders.settings import Names, Settings, looks_numeric, lookup, numbered, numbers
from tacit.inverse.findings import Finding, Kind, listed
from tacit.inverse.joint.trips import BadTrip
from tacit.model.layout import Layout
from tacit.model.mdp import MDP
from tacit.model.objective import Features

if TYPE_CHECKING:
    from tacit.model.objective import GivenTable


SEEN = ("demonstrations.parquet", "demonstrations.csv", "demonstrations.npz")
OTHERS = (".xlsx", ".xls", ".ods", ".tsv")  # tables that people keep, and no part of a problem
# The column of `features.csv` that says which actions there are.
MASK = "available"
PLACED = ("state", "x", "y", "hexagon")  # columns of `places.csv`
# Text is read cell by cell: larger models are made in Python and saved as arrays.
LARGEST = 2**31
NAMED = 5  # most states that one sentence names


def one_of(folder: Path, *names: str) -> Path | None:
    """The only file of these that is there, or None; a part given twice is an error."""
    found = [folder / name for name in names if (folder / name).exists()]
    if len(found) > 1:
        both = " and ".join(path.name for path in found)
        raise InvalidModel(f"{folder} must give each part once; it holds {both}")
    for stray in (folder / f"{Path(name).stem}{end}" for name in names for end in OTHERS):
        if not found and stray.exists():
            raise InvalidModel(f"{stray} must be {' or '.join(names)}: save the table as CSV")
    return found[0] if found else None


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """The table of `features.csv`, its names checked, its numbers not yet.

    Attributes:
        table: the file.
        columns: by name.
        states: distinct names of states, as found.
        actions: distinct names of actions, as found; empty where a row speaks of a state alone.
    """

    table: Table
    columns: Mapping[str, Column]
    states: tuple[str, ...]
    actions: tuple[str, ...]

    @property
    def path(self) -> Path:
        """Of the file."""
        return Path(self.table.path)

    def available(self, names: Names, settings: Settings) -> np.ndarray | None:
        """[S, A] bool, what the column `available` says; None where there is none, or as a feature.

        Args:
            names: of states and actions.
            settings: of `problem.toml`.
        """
        named = {*(settings.reward or ()), *(name for names in settings.costs for name in names)}
        spare = [name for name in self.offered if name not in named and name != settings.initial]
        if MASK not in spare:
            near = None if MASK in self.offered else nearest(MASK, spare, cutoff=0.8)
            if near:
                raise InvalidModel(
                    f"{self.path}: unknown column {near!r}, did you mean {MASK!r}? If it is "
                    "something else, rename it"
                )
            return None
        mask = np.ones((len(names.states), len(names.actions)), bool)
        told = self.columns[MASK].flags()
        mask[self._pairs(*names.lookups)] = told if self.actions else told[:, None]
        return mask

    def refuse_empty(self, asked: np.ndarray, given: np.ndarray, names: Names) -> None:
        """Raises, with its line, where a pair is said to be available but leads nowhere.

        Args:
            asked: [S, A] bool, what the column `available` says.
            given: [S, A] bool, the pairs that have a row in `transitions.csv`.
            names: of states and actions.
        """
        rows, taken = self._pairs(*names.lookups)
        empty = asked[rows, taken] & ~given[rows, taken]
        empty = empty if self.actions else asked[rows].any(axis=1) & ~given[rows].any(axis=1)
        if empty.any():
            raise self.table.fault(
                int(np.argmax(empty)),
                f"{MASK} must be false where transitions.csv has no row; got true",
            )

    def _pairs(
        self, states: Mapping[str, int], actions: Mapping[str, int]
    ) -> tuple[np.ndarray, np.ndarray | slice]:
        """[N] the state of each row, and [N] its action, or all, given their numbers by name."""
        rows = looked_up(self.columns["state"], states, "a known state")
        if not self.actions:
            return rows, slice(None)
        return rows, looked_up(self.columns["action"], actions, "a known action")

    @property
    def offered(self) -> tuple[str, ...]:
        """The columns that may be features."""
        return tuple(name for name in self.columns if name not in ("state", "action"))

    def gives(self, name: str) -> bool:
        """Whether there is a column of that name with one entry a state."""
        return not self.actions and name in self.offered

    def column(
        self, name: str, states: Mapping[str, int], actions: Mapping[str, int]
    ) -> np.ndarray:
        """[S] or [S, A] the numbers of a column.

        Args:
            name: of the column.
            states: number of each state, by name.
            actions: number of each action, by name.
        """
        rows, taken = self._pairs(states, actions)
        if not self.actions:
            values = np.full(len(set(states.values())), np.nan)
            values[rows] = self.columns[name].reals()
            return values
        # A pair without a row is not available. At an end one row is enough: it speaks for all.
        values = np.zeros((len(set(states.values())), len(set(actions.values()))))
        told = np.zeros(values.shape, bool)
        values[rows, taken], told[rows, taken] = self.columns[name].reals(), True
        some = values[np.arange(len(values)), told.argmax(axis=1)]
        return np.where(told, values, some[:, None])

    def check_names(self, states: Mapping[str, int], actions: Mapping[str, int], mdp: MDP) -> None:
        """Raises unless the table speaks of exactly the states and actions of the model."""
        for kind, known, count in (("state", states, mdp.states), ("action", actions, mdp.actions)):
            if kind not in self.columns:
                continue
            column = self.columns[kind]
            looked_up(column, known, f"one of the model's {count}")
            met = {known[name] for name in column.texts or ()}
            if len(met) < count and not (kind == "action" and mdp.restricted):
                missing = next(name for name, number in known.items() if number not in met)
                raise InvalidModel(
                    f"{self.path} must have a row for every {kind} ({count}); {missing!r} has none"
                )
        told = np.zeros((mdp.states, mdp.actions), bool)
        told[self._pairs(states, actions)] = True
        if (lost := mdp.available & ~told).any():
            state, action = (int(i) for i in np.argwhere(lost)[0])
            place = next(name for name, number in states.items() if number == state)
            what = next(name for name, number in actions.items() if number == action)
            raise InvalidModel(
                f"{self.path} must have a row for every state and action that is available; "
                f"state {place!r} has none for action {what!r}"
            )


def read_feature_table(path: Path) -> FeatureTable:
    """The table of `features.csv`, its names checked, its numbers not yet."""
    table = open_table(path, InvalidModel, expected=("state", "action"), largest=LARGEST)
    table.require("state")
    columns = table.read(texts=("state", "action"))
    front = [columns[name] for name in ("state", "action") if name in columns]
    key = np.zeros(len(front[0]), np.int64)
    for column in front:
        column.refuse([not text for text in column.texts or ()], "a name")
        key = key * len(column.texts or ()) + column.values
    if not len(key):
        raise InvalidModel(f"{path} must have one row a state; it has a header alone")
    refuse_repeats(table, key, lambda row: " and ".join(f"{c.name} {c.cell(row)!r}" for c in front))
    states, actions = (front[0].texts or ()), (front[1].texts or () if len(front) > 1 else ())
    return FeatureTable(table, columns, states, actions)


def refuse_repeats(table: Table, key: np.ndarray, called: Callable[[int], str]) -> None:
    """Raises where two rows have the same key [N]; `called` says what a row is about."""
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(np.diff(key[order]) == 0)
    if len(again):
        first, second = (int(order[again[0] + i]) for i in (0, 1))
        said = f"{called(second)} must have one row; {table.place(first)} has it too"
        raise table.fault(second, said)


def table_features(
    table: FeatureTable | None,
    settings: Settings,
    states: Mapping[str, int],
    actions: Mapping[str, int],
) -> Features:
    """The `Features` that `problem.toml` names among the columns, or makes of the states.

    Args:
        table: of `features.csv`; None where no column is needed.
        settings: of `problem.toml`.
        states: number of each state, by name, names before numbers.
        actions: number of each action, by name.
    """
    path, offered = (table.path, table.offered) if table else (settings.path, ())
    if settings.reward is None:
        raise InvalidModel(
            f"{settings.path} must say which columns of {path.name} matter: under [features], "
            f"reward = [...] and costs = [[...]]; {path.name} has {', '.join(offered)}"
        )
    for key, names in (
        ("features.reward", settings.reward),
        *((f"features.costs[{k}]", names) for k, names in enumerate(settings.costs)),
    ):
        for name in names:
            if name not in offered:
                raise InvalidModel(
                    f"{settings.path}: {key} must name columns of {path.name} "
                    f"({', '.join(offered)}); got {name!r}{did_you_mean(name, offered)}"
                )
    every = tuple(states)[: len({*states.values()})]

    def stacked(names: tuple[str, ...]) -> GivenTable:
        if not names or table is None:
            from scipy.sparse import eye_array

            return eye_array(len(every), format="csr")
        return np.stack([table.column(name, states, actions) for name in names], axis=-1)

    try:
        return Features(
            stacked(settings.reward),
            [stacked(names) for names in settings.costs],
            settings.reward or every,
            [names or every for names in settings.costs],
        )
    except InvalidModel as error:
        said = str(error)
        raise InvalidModel(said if str(path) in said else f"{path}: {said}") from None


def looked_up(column: Column, known: Mapping[str, int], wanted: str) -> np.ndarray:
    """[N] the number of each row's name; one line names the first that is not known."""
    column.refuse_strangers(known, wanted)
    numbers = [known[text] for text in column.texts or ()]
    return np.array(numbers, dtype=np.int64)[column.values]


def read_places(path: Path, layout: Layout, states: Sequence[str]) -> Layout:
    """The layout with the centres, and hexagons, that `places.csv` tells of its states."""
    table = open_table(path, InvalidModel, expected=PLACED)
    table.require(*PLACED[:3])
    cells = table.read([name for name in PLACED if name in table.names], texts=["state"])
    row = looked_up(cells.pop("state"), lookup(states), "a name of a state")
    if not np.array_equal(np.sort(row), np.arange(len(states))):
        raise InvalidModel(
            f"{path} must have one row for each of the {len(states)} states; it has {len(row)}, "
            f"of {len(np.unique(row))}"
        )
    x, y, *widths = (column.reals()[np.argsort(row)].tolist() for column in cells.values())
    centres, hexagon = tuple(zip(x, y, strict=True)), widths[0][0] if widths else 0.0
    return replace(layout, centres=centres, hexagon=hexagon)


def read_demonstrations(
    path: Path,
    names: Names,
    *,
    source: str | tuple[str, str],
    available: np.ndarray | None = None,
    places: bool = False,
    progress: Progress | None = None,
) -> tuple[Demonstrations, tuple[str, ...]]:
    """The demonstrations of a file, and the names of all actions.

    Args:
        path: of the file.
        names: of states and actions; actions may not be known yet, then they are taken from here.
        source: where names come from, for messages; two where actions have another source.
        available: [S, A] bool, which actions there are; None where all are, or nobody knows.
        places: whether numbers are always places, 0 the first; else numbers may be names where
            states or actions are called 1, 2, 3 or 10, 20, 30.
        progress: called now and then with what is done and what there is to do.
    """
    places = places or path.suffix == ".npz"  # arrays hold places, whatever the names

    def to_look_up(names: tuple[str, ...]) -> tuple[str, ...]:
        odd = any(looks_numeric(name) for name in names)
        return () if numbered(names) or (places and odd) else names

    reading = Reading(
        layout=Layout(state_names=to_look_up(names.states), action_names=to_look_up(names.actions)),
        sources=(source, source) if isinstance(source, str) else source,
        find=() if names.actions else ("action",),
        states=len(names.states),
        actions=len(names.actions),
        available=available,
        progress=progress,
    )
    seen = read_file(path, reading)
    found = seen.layout.action_names if seen.layout else ()
    return seen, names.actions or found or numbers(int(seen.actions.max()) + 1)


def bad_line(path: Path, error: BadTrip, layout: Layout, seen: Demonstrations) -> TacitError:
    """What is wrong with a trip, by name, with the line of the file where its step stands."""
    said = error.sentence(layout)
    if path.suffix == ".npz":
        return InvalidDemonstrations(f"{path}, row {error.row + 1}: {said}")
    table = open_table(path, InvalidDemonstrations, expected=("episode", "step"))
    names = [name for name in ("episode", "step") if name in table.names]
    columns = table.read(names, plain=["episode"])
    values = {"episode": columns["episode"].labels()}
    if "step" in columns:
        values["step"] = columns["step"].integers()
    order, first = row_order(values, columns["episode"], table.fault)
    # Steps are numbered within their episode: the last row of one may be where it ended.
    place = error.row - int(seen.offsets[error.trajectory])
    row = int(np.flatnonzero(first)[error.trajectory]) + place
    return table.fault(row if order is None else int(order[row]), said)


def availability(mdp: MDP, layout: Layout, folder: Path | None) -> tuple[Finding, ...]:
    """How many actions are not available and which states are ends, as findings; none if all are.

    Args:
        mdp: that was read.
        layout: how states and actions are called.
        folder: from which it was read; None where that does not say all of it.
    """
    found = []
    pairs = np.argwhere(~mdp.available & ~mdp.ends[:, None])
    told = folder is not None and (folder / "transitions.csv").exists()
    why = " (no row in transitions.csv)" if told else ""
    if len(pairs):
        names = [
            f"{layout.action_name(a)} in {layout.state_name(s)}" for s, a in pairs[: NAMED + 1]
        ]
        names += [""] * (len(pairs) - len(names))
        total = int((~mdp.ends).sum()) * mdp.actions
        said = (
            f"{len(pairs)} of {total} pairs of state and action are not available"
            f"{why}: {listed(names, NAMED)}."
        )
        found.append(Finding(said, Kind.ASSUMED, number=len(pairs)))
    ends = np.flatnonzero(mdp.ends)
    if len(ends):
        names = [layout.state_name(int(s)) for s in ends]
        one = len(ends) == 1
        said = (
            f"{len(ends)} of {mdp.states} states {'ends an episode' if one else 'end episodes'}"
            f"{why}: {listed(names, NAMED)}. What such a state pays it pays once, on arrival."
        )
        found.append(Finding(said, Kind.ASSUMED, number=len(ends)))
    return tuple(found)
