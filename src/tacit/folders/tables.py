"""`transitions.csv`: one row for each way an action can go, with its probability."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit.errors import InvalidModel
from tacit.folders.settings import FILE, Settings
from tacit.folders.sheets import Sheet, nearest, number, read_sheet
from tacit.model.objective import Features
from tacit.model.transitions import ROW_SUM_TOLERANCE, Successors

COLUMNS = ("state", "action", "next_state", "probability")


@dataclass(frozen=True, eq=False)
class TransitionTable:
    """The rows of `transitions.csv`, with states and actions as numbers.

    Attributes:
        path: of the file.
        states: number of each state, by name; as found where it was not known before.
        actions: number of each action, by name; as found where it was not known before.
        rows: [N, 3] state, action and next state of each row.
        probabilities: [N] of each row.
        lines: [N] line of each row.
    """

    path: Path
    states: Mapping[str, int]
    actions: Mapping[str, int]
    rows: np.ndarray
    probabilities: np.ndarray
    lines: np.ndarray


def read_transition_table(
    path: Path,
    states: Mapping[str, int] | None,
    actions: Mapping[str, int] | None,
    *,
    source: str,
) -> TransitionTable:
    """The table of `transitions.csv`.

    Args:
        path: of the file.
        states: number of each state, by name; None takes them as they are found.
        actions: number of each action, by name; None takes them as they are found.
        source: where the names of the states come from, for messages.
    """
    sheet = read_sheet(path, COLUMNS)
    places = [sheet.place(name) for name in COLUMNS]
    known = (states, actions, states)
    found: tuple[dict[str, int], dict[str, int]] = ({}, {})
    lookup = [dict(states) if states is not None else found[0]]
    lookup += [dict(actions) if actions is not None else found[1], lookup[0]]
    rows, probabilities, lines = array("q"), array("d"), array("q")
    for line, cells in sheet.rows():
        for field, place, table, fixed in zip(COLUMNS, places, lookup, known, strict=False):
            name = cells[place]
            if name not in table:
                if fixed is not None or not name:
                    expected = f"a name of {source}" if field != "action" else "a known action"
                    raise InvalidModel(
                        f"{path}, line {line}: {field} must be {expected}; "
                        f"got {name!r}{nearest(name, table)}"
                    )
                table[name] = len(table)
            rows.append(table[name])
        value = number(cells[places[3]], path=path, line=line, field="probability")
        if not 0.0 <= value <= 1.0 + ROW_SUM_TOLERANCE:
            raise InvalidModel(
                f"{path}, line {line}: probability must be in [0, 1]; got {cells[places[3]]}"
            )
        probabilities.append(value)
        lines.append(line)
    if not lines:
        raise InvalidModel(f"{path} must have one row for each way an action can go; it has none")
    table = TransitionTable(
        path,
        lookup[0],
        lookup[1],
        np.array(rows, dtype=np.int64).reshape(-1, 3),
        np.array(probabilities),
        np.array(lines),
    )
    return table


def renumbered(
    table: TransitionTable, states: Mapping[str, int], actions: Mapping[str, int]
) -> TransitionTable:
    """The same table with other numbers for its names."""
    order = np.zeros(max(table.states.values()) + 1, np.int64)
    moves = np.zeros(max(table.actions.values()) + 1, np.int64)
    for name, place in table.states.items():
        order[place] = states[name]
    for name, place in table.actions.items():
        moves[place] = actions[name]
    rows = np.stack(
        [order[table.rows[:, 0]], moves[table.rows[:, 1]], order[table.rows[:, 2]]], axis=1
    )
    return TransitionTable(table.path, states, actions, rows, table.probabilities, table.lines)


def successors(
    table: TransitionTable,
    names: tuple[tuple[str, ...], tuple[str, ...]],
    absorbing: np.ndarray,
) -> Successors:
    """Successor lists [S, A, B] of the table, every row checked to be a distribution.

    Args:
        table: with final numbers.
        names: of all states and of all actions.
        absorbing: [S] bool, the states that stay where the table has no row for them.
    """
    states, actions = len(names[0]), len(names[1])
    row = table.rows[:, 0] * actions + table.rows[:, 1]
    _refuse_repeats(table, row, names)
    sums = np.bincount(row, weights=table.probabilities, minlength=states * actions)
    stays = np.repeat(absorbing, actions) & (sums == 0)
    error = np.where(stays, 0.0, np.abs(sums - 1.0))
    worst = int(np.argmax(error))
    if error[worst] > ROW_SUM_TOLERANCE:
        raise InvalidModel(f"{table.path}: {_sum_message(table, row, sums, error, worst, names)}")
    count = np.bincount(row, minlength=states * actions)
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
    return Successors(target.reshape(shape), probability.reshape(shape))


def _refuse_repeats(
    table: TransitionTable, row: np.ndarray, names: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    key = row * len(names[0]) + table.rows[:, 2]
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(key[order][1:] == key[order][:-1])
    if len(again):
        first, second = order[again[0]], order[again[0] + 1]
        s, a, following = (int(i) for i in table.rows[second])
        raise InvalidModel(
            f"{table.path}, line {table.lines[second]}: state {names[0][s]!r}, action "
            f"{names[1][a]!r}, next_state {names[0][following]!r} must have one row; "
            f"line {table.lines[first]} has it too"
        )


def _sum_message(
    table: TransitionTable,
    row: np.ndarray,
    sums: np.ndarray,
    error: np.ndarray,
    worst: int,
    names: tuple[tuple[str, ...], tuple[str, ...]],
) -> str:
    wrong = error > ROW_SUM_TOLERANCE
    nothing = np.flatnonzero(wrong & (sums == 0))
    where = int(nothing[0]) if len(nothing) else worst
    s, a = divmod(where, len(names[1]))
    rows = np.flatnonzero(row == where)
    line = f" (line {table.lines[rows[0]]})" if len(rows) else ""
    said = (
        f"the probabilities of a state and action must sum to 1; state {names[0][s]!r}, "
        f"action {names[1][a]!r} sums to {sums[where]:.10g}{line}"
    )
    if int(wrong.sum()) > 1:
        said += f", and {int(wrong.sum()) - 1} more do not"
    if len(nothing):
        said += (
            f'; where nothing leaves a state write absorbing = "stay" under [transitions] of {FILE}'
        )
    return said


@dataclass(frozen=True)
class FeatureTable:
    """The rows of `features.csv`, and the names it uses.

    Attributes:
        sheet: the file.
        rows: (line number, cells) of each row.
        states: distinct names of states, as found.
        actions: distinct names of actions, as found; empty where a row speaks of a state alone.
    """

    sheet: Sheet
    rows: tuple[tuple[int, list[str]], ...]
    states: tuple[str, ...]
    actions: tuple[str, ...]

    @property
    def offered(self) -> tuple[str, ...]:
        """The columns that may be features."""
        return tuple(name for name in self.sheet.header if name not in ("state", "action"))

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
        place = self.sheet.header.index(name)
        shape = (len(set(states.values())), len(set(actions.values())) if self.actions else 1)
        values = np.full(shape, np.nan)
        for line, cells in self.rows:
            value = number(cells[place], path=self.sheet.path, line=line, field=name)
            values[states[cells[0]], actions[cells[1]] if self.actions else 0] = value
        return values if self.actions else values[:, 0]


def read_feature_table(path: Path) -> FeatureTable:
    """The table of `features.csv`, its names checked, its numbers not yet read."""
    sheet = read_sheet(path, ["state"])
    by_action = "action" in sheet.header
    front = [sheet.header.index(name) for name in (["state", "action"] if by_action else ["state"])]
    order = front + [j for j in range(len(sheet.header)) if j not in front]
    sheet = Sheet(path, tuple(sheet.header[j] for j in order), sheet.separator, sheet.content)
    rows, lines = [], {}
    for line, cells in sheet.rows():
        cells = [cells[j] for j in order]
        key = tuple(cells[: len(front)])
        for field, name in zip(("state", "action"), key, strict=False):
            if not name:
                raise InvalidModel(f"{path}, line {line}: {field} must have a name; it is empty")
        if key in lines:
            what = " and ".join(
                f"{f} {n!r}" for f, n in zip(("state", "action"), key, strict=False)
            )
            raise InvalidModel(
                f"{path}, line {line}: {what} must have one row; line {lines[key]} has it too"
            )
        lines[key] = line
        rows.append((line, cells))
    if not rows:
        raise InvalidModel(f"{path} must have one row a state; it has a header alone")
    states = tuple(dict.fromkeys(key[0] for key in lines))
    actions = tuple(dict.fromkeys(key[1] for key in lines)) if by_action else ()
    for state in states:
        for action in actions:
            if (state, action) not in lines:
                raise InvalidModel(
                    f"{path} must have a row for every state and action; "
                    f"state {state!r} has none for action {action!r}"
                )
    return FeatureTable(sheet, tuple(rows), states, actions)


def table_features(
    table: FeatureTable,
    settings: Settings,
    states: Mapping[str, int],
    actions: Mapping[str, int],
) -> Features:
    """The `Features` that `problem.toml` names among the columns.

    Args:
        table: of `features.csv`.
        settings: of `problem.toml`.
        states: number of each state, by name.
        actions: number of each action, by name.
    """
    path = table.sheet.path
    if settings.reward is None:
        raise InvalidModel(
            f"{settings.path} must say which columns of {path.name} matter: under [features], "
            f"reward = [...] and costs = [[...]]; {path.name} has {', '.join(table.offered)}"
        )
    for key, names in (
        ("features.reward", settings.reward),
        *((f"features.costs[{k}]", names) for k, names in enumerate(settings.costs)),
    ):
        if not names:
            raise InvalidModel(f"{settings.path}: {key} must name at least one column; got none")
        for name in names:
            if name not in table.offered:
                raise InvalidModel(
                    f"{settings.path}: {key} must name columns of {path.name} "
                    f"({', '.join(table.offered)}); got {name!r}{nearest(name, table.offered)}"
                )

    def stacked(names: tuple[str, ...]) -> np.ndarray:
        return np.stack([table.column(name, states, actions) for name in names], axis=-1)

    try:
        return Features(
            stacked(settings.reward),
            [stacked(names) for names in settings.costs],
            settings.reward,
            settings.costs,
        )
    except InvalidModel as error:
        said = str(error)
        raise InvalidModel(said if str(path) in said else f"{path}: {said}") from None
