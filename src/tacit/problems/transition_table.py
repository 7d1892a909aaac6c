"""`transitions.csv`: one row for each way an action can go, with its probability."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit.errors import InvalidModel
from tacit.problems.settings import FILE
from tacit.problems.sheets import nearest, number, read_sheet
from tacit.transitions import ROW_SUM_TOLERANCE, Successors

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
