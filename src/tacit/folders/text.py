"""The tables of a problem as text, read: `transitions.csv` and `features.csv`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import InvalidModel
from tacit.files.columns import Column, did_you_mean, nearest
from tacit.files.tables import Table, open_table
from tacit.folders.settings import FILE, Names, Settings, lookup, ordered
from tacit.model.mdp import MDP
from tacit.model.objective import Features, is_sparse
from tacit.model.transitions import ROW_SUM_TOLERANCE, Successors

if TYPE_CHECKING:
    from tacit.model.objective import FeatureTable as MapTable
    from tacit.model.objective import GivenTable

COLUMNS = ("state", "action", "next_state", "probability")
# The column of `features.csv` that says which actions there are.
MASK = "available"
# Text is read cell by cell: a larger table belongs into an npz file.
LARGEST = 2**31


@dataclass(frozen=True, eq=False)
class TransitionTable:
    """The rows of `transitions.csv`, with states and actions as numbers.

    Attributes:
        table: the file.
        names: of all states and actions.
        rows: [N, 3] state, action and next state of each row.
        probabilities: [N] of each row.
    """

    table: Table
    names: Names
    rows: np.ndarray
    probabilities: np.ndarray


def read_transitions(path: Path, names: Names, *, source: str) -> TransitionTable:
    """The table of `transitions.csv`.

    Args:
        path: of the file.
        names: of states and actions; where there are none they are taken as they are found.
        source: where the names of the states come from, for messages.
    """
    table = open_table(path, InvalidModel, expected=COLUMNS, largest=LARGEST)
    table.require(*COLUMNS)
    strange = next((name for name in table.names if name not in COLUMNS), None)
    if strange is not None:
        raise InvalidModel(f"{path}: unknown column {strange!r}; it holds {', '.join(COLUMNS)}")
    cells = table.read(COLUMNS, texts=COLUMNS[:3], reals=COLUMNS[3:])
    state, action, following, probability = (cells[name] for name in COLUMNS)
    if not len(state):
        raise InvalidModel(f"{path} must have one row for each way an action can go; it has none")
    known = f"a name of {source}"
    for column in (state, action, following):
        wanted = "a known action" if column is action else known
        column.refuse([not text for text in column.texts or ()], wanted)
    names = Names(
        names.states or ordered(_as_found(state, following)),
        names.actions or ordered(_as_found(action)),
    )
    rows = [
        _looked_up(state, names.states, known),
        _looked_up(action, names.actions, "a known action"),
        _looked_up(following, names.states, known),
    ]
    chances = probability.reals()
    odd = (chances < 0) | (chances > 1.0 + ROW_SUM_TOLERANCE)
    if odd.any():
        raise probability.wrong(int(np.argmax(odd)), "in [0, 1]")
    return TransitionTable(table, names, np.stack(rows, axis=1), chances)


def _as_found(*columns: Column) -> dict[str, None]:
    """The names in columns of text, in the order of the rows."""
    cells = [np.array(column.texts, dtype=object)[column.values] for column in columns]
    return dict.fromkeys(np.stack(cells, axis=1).ravel().tolist())


def _looked_up(column: Column, names: Sequence[str], wanted: str) -> np.ndarray:
    """[N] the number of each row's name; one line names the first that is not known."""
    known, texts = lookup(names), column.texts or ()
    column.refuse_strangers(known, wanted)
    return np.array([known[text] for text in texts], dtype=np.int64)[column.values]


def successors(table: TransitionTable, absorbing: np.ndarray) -> tuple[Successors, np.ndarray]:
    """Successor lists [S, A, B], every row checked to be a distribution, and [S, A] available.

    A pair without a row is not available.

    Args:
        table: of `transitions.csv`.
        absorbing: [S] bool, the states where every action stays; the table must not leave them.
    """
    states, actions = len(table.names.states), len(table.names.actions)
    row = table.rows[:, 0] * actions + table.rows[:, 1]
    _refuse_repeats(table, row)
    left = absorbing[table.rows[:, 0]] & (table.rows[:, 2] != table.rows[:, 0])
    if left.any():
        first = int(np.argmax(left))
        raise table.table.fault(
            first,
            f"nothing may leave {table.names.states[table.rows[first, 0]]!r}, which is absorbing "
            f"in {FILE}",
        )
    sums = np.bincount(row, weights=table.probabilities, minlength=states * actions)
    count = np.bincount(row, minlength=states * actions)
    stays = np.repeat(absorbing, actions) & (count == 0)
    error = np.where(count > 0, np.abs(sums - 1.0), 0.0)
    worst = int(np.argmax(error))
    if error[worst] > ROW_SUM_TOLERANCE:
        raise InvalidModel(_sum_message(table, row, sums, error))
    order = np.argsort(row, kind="stable")
    slot = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    target = np.repeat(np.arange(states), actions)[:, None].repeat(max(1, count.max()), axis=1)
    probability = np.zeros(target.shape)
    probability[stays, 0] = 1.0
    target[row[order], slot] = table.rows[order, 2]
    probability[row[order], slot] = table.probabilities[order]
    probability[stays, 0] = 1.0
    target[stays] = (np.flatnonzero(stays) // actions)[:, None]
    shape = (states, actions, -1)
    lists = Successors(target.reshape(shape), probability.reshape(shape))
    return lists, ((count > 0) | stays).reshape(states, actions)


def _refuse_repeats(table: TransitionTable, row: np.ndarray) -> None:
    key = row * len(table.names.states) + table.rows[:, 2]
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(key[order][1:] == key[order][:-1])
    if len(again):
        first, second = (int(order[again[0] + i]) for i in (0, 1))
        s, a, following = (int(i) for i in table.rows[second])
        raise table.table.fault(
            second,
            f"state {table.names.states[s]!r}, action {table.names.actions[a]!r}, next_state "
            f"{table.names.states[following]!r} must have one row; "
            f"{table.table.place(first)} has it too",
        )


def _sum_message(
    table: TransitionTable, row: np.ndarray, sums: np.ndarray, error: np.ndarray
) -> str:
    wrong = error > ROW_SUM_TOLERANCE
    nothing = np.flatnonzero(wrong & (sums == 0))
    where = int(nothing[0]) if len(nothing) else int(np.argmax(error))
    s, a = divmod(where, len(table.names.actions))
    line = f" ({table.table.place(int(np.argmax(row == where)))})"
    said = (
        f"{table.table.path}: the probabilities of a state and action must sum to 1; state "
        f"{table.names.states[s]!r}, action {table.names.actions[a]!r} sums to "
        f"{sums[where]:.10g}{line}"
    )
    if int(wrong.sum()) > 1:
        said += f", and {int(wrong.sum()) - 1} more do not"
    if len(nothing):
        said += "; an action that is not available has no row"
    return said


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
        mask[self._pairs(names)] = told if self.actions else told[:, None]
        return mask

    def refuse_empty(self, asked: np.ndarray, given: np.ndarray, names: Names) -> None:
        """Raises, with its line, where a pair is said to be available but leads nowhere.

        Args:
            asked: [S, A] bool, what the column `available` says.
            given: [S, A] bool, the pairs that have a row in `transitions.csv`.
            names: of states and actions.
        """
        rows, taken = self._pairs(names)
        empty = asked[rows, taken] & ~given[rows, taken]
        empty = empty if self.actions else asked[rows].any(axis=1) & ~given[rows].any(axis=1)
        if empty.any():
            raise self.table.fault(
                int(np.argmax(empty)),
                f"{MASK} must be false where transitions.csv has no row; got true",
            )

    def _pairs(self, names: Names) -> tuple[np.ndarray, np.ndarray | slice]:
        """[N] the state of each row, and [N] its action, or all."""
        rows = _looked_up(self.columns["state"], names.states, "a known state")
        if not self.actions:
            return rows, slice(None)
        return rows, _looked_up(self.columns["action"], names.actions, "a known action")

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
        rows = np.array([states[text] for text in self.states])[self.columns["state"].values]
        if not self.actions:
            values = np.full(len(set(states.values())), np.nan)
            values[rows] = self.columns[name].reals()
            return values
        taken = np.array([actions[text] for text in self.actions])[self.columns["action"].values]
        # A pair without a row is not available. At an end one row is enough: it speaks for all.
        values = np.zeros((len(set(states.values())), len(set(actions.values()))))
        told = np.zeros(values.shape, bool)
        values[rows, taken], told[rows, taken] = self.columns[name].reals(), True
        some = values[np.arange(len(values)), told.argmax(axis=1)]
        return np.where(told, values, some[:, None])

    def check_names(self, states: Mapping[str, int], actions: Mapping[str, int], mdp: MDP) -> None:
        """Raises unless the table speaks of exactly the states and actions of the model."""
        for kind, known, count in (
            ("state", states, mdp.states),
            ("action", actions, mdp.actions),
        ):
            if kind not in self.columns:
                continue
            column = self.columns[kind]
            _looked_up(column, [*known], f"one of the model's {count}")
            told = {known[name] for name in column.texts or ()}
            if len(told) < count and not (kind == "action" and mdp.restricted):
                missing = next(name for name, number in known.items() if number not in told)
                raise InvalidModel(
                    f"{self.path} must have a row for every {kind} ({count}); {missing!r} has none"
                )
        if self.actions:
            self._check_pairs(states, actions, mdp)

    def _check_pairs(self, states: Mapping[str, int], actions: Mapping[str, int], mdp: MDP) -> None:
        """Raises unless every pair that is available has a row."""
        told = np.zeros((mdp.states, mdp.actions), bool)
        rows = np.array([states[text] for text in self.states])[self.columns["state"].values]
        taken = np.array([actions[text] for text in self.actions])[self.columns["action"].values]
        told[rows, taken] = True
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
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(np.diff(key[order]) == 0)
    if len(again):
        first, second = (int(order[again[0] + i]) for i in (0, 1))
        what = " and ".join(f"{column.name} {column.cell(second)!r}" for column in front)
        raise table.fault(second, f"{what} must have one row; {table.place(first)} has it too")
    states, actions = (front[0].texts or ()), (front[1].texts or () if len(front) > 1 else ())
    return FeatureTable(table, columns, states, actions)


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


def is_one_hot(table: MapTable, names: Sequence[str], states: Sequence[str]) -> bool:
    """Whether a map is what `one_hot = "state"` says: sparse, one indicator a state, so called."""
    if not is_sparse(table) or table.shape[0] != table.shape[1] or tuple(names) != tuple(states):
        return False
    own = np.arange(table.shape[0] + 1)
    alone = np.array_equal(table.indptr, own) and np.array_equal(table.indices, own[:-1])
    return alone and bool((table.data == 1.0).all())
