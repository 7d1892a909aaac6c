"""`transitions.csv`: where actions lead, one row for each way, as sparse transitions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit.errors import InvalidModel
from tacit.files.columns import Column
from tacit.files.tables import Table, open_table
from tacit.folders.reading import LARGEST, looked_up, refuse_repeats
from tacit.folders.settings import FILE, Names, ordered
from tacit.model.arguments import ROW_SUM_TOLERANCE
from tacit.model.transitions import Transitions

COLUMNS = ("state", "action", "next_state", "probability")


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
    cells = table.read(COLUMNS, texts=COLUMNS[:3])
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
    states, actions = names.lookups
    rows = [
        looked_up(state, states, known),
        looked_up(action, actions, "a known action"),
        looked_up(following, states, known),
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


def successors(table: TransitionTable, absorbing: np.ndarray) -> tuple[Transitions, np.ndarray]:
    """Sparse transitions [S * A, S], each row checked to be a distribution, and [S, A] available.

    A pair without a row is not available.

    Args:
        table: of `transitions.csv`.
        absorbing: [S] bool, the states where every action stays; the table must not leave them.
    """
    from scipy.sparse import csr_array

    states, actions = len(table.names.states), len(table.names.actions)
    row = table.rows[:, 0] * actions + table.rows[:, 1]
    called = (table.names.states, table.names.actions, table.names.states)

    def told(at: int) -> str:
        cells = zip(COLUMNS, called, table.rows[at].tolist(), strict=False)
        return ", ".join(f"{name} {names[number]!r}" for name, names, number in cells)

    refuse_repeats(table.table, row * states + table.rows[:, 2], told)
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
    if error.max() > ROW_SUM_TOLERANCE:
        raise InvalidModel(_sum_message(table, row, sums, error))
    home = np.flatnonzero(stays)
    places = np.append(row, home), np.append(table.rows[:, 2], home // actions)
    chances = np.append(table.probabilities, np.ones(len(home)))
    moves = csr_array((chances, places), shape=(states * actions, states))
    return moves, ((count > 0) | stays).reshape(states, actions)


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
