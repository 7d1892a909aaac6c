"""`transitions.csv`: where actions lead, one row for each way, as sparse transitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tacit.errors import InvalidModel
from tacit.files.columns import RawColumn
from tacit.files.tables import TableSource, open_table
from tacit.folders.names import Names, in_order
from tacit.folders.settings import FILE, LARGEST_TABLE
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

    table: TableSource
    names: Names
    rows: np.ndarray
    probabilities: np.ndarray

    @classmethod
    def read(cls, path: Path, names: Names) -> TransitionTable:
        """The table of a file; names that nothing has said yet are taken as they are found."""
        table = open_table(path, InvalidModel, expected=COLUMNS, largest=LARGEST_TABLE)
        table.require(*COLUMNS)
        strange = next((name for name in table.names if name not in COLUMNS), None)
        if strange is not None:
            raise InvalidModel(f"{path}: unknown column {strange!r}; it holds {', '.join(COLUMNS)}")
        cells = table.read(COLUMNS, texts=COLUMNS[:3])
        state, action, following, probability = (cells[name] for name in COLUMNS)
        if not len(state):
            raise InvalidModel(
                f"{path} must have one row for each way an action can go; it has none"
            )
        known, known_action = f"a name of {names.sources[0]}", "a known action"
        for column, wanted in ((state, known), (action, known_action), (following, known)):
            column.refuse([not text for text in column.texts or ()], wanted)
        names = replace(
            names,
            states=names.states or in_order(_as_found(state, following)),
            actions=names.actions or in_order(_as_found(action)),
        )
        rows = [
            state.numbered(names.state_numbers, known),
            action.numbered(names.action_numbers, known_action),
            following.numbered(names.state_numbers, known),
        ]
        chances = probability.reals()
        odd = (chances < 0) | (chances > 1.0 + ROW_SUM_TOLERANCE)
        if odd.any():
            raise probability.wrong(int(np.argmax(odd)), "in [0, 1]")
        return cls(table, names, np.stack(rows, axis=1), chances)

    def transitions(self, absorbing: np.ndarray) -> tuple[Transitions, np.ndarray]:
        """([S * A, S] sparse transitions, each row a distribution; [S, A] bool, available).

        A pair without a row is not available.

        Args:
            absorbing: [S] bool, the states where every action stays; the table must not leave them.
        """
        from scipy.sparse import csr_array

        states, actions = shape = self.names.shape
        begin, taken, following = self.rows.T
        row = begin * actions + taken
        self.table.refuse_repeats(row * states + following, self._called)
        left = absorbing[begin] & (following != begin)
        if left.any():
            first = int(np.argmax(left))
            name = self.names.states[begin[first]]
            message = f"nothing may leave {name!r}, which is absorbing in {FILE}"
            raise self.table.fault(first, message)
        sums = np.bincount(row, weights=self.probabilities, minlength=states * actions)
        there = np.bincount(row, minlength=states * actions) > 0
        off = there & (np.abs(sums - 1.0) > ROW_SUM_TOLERANCE)
        if off.any():
            raise InvalidModel(self._sum_message(row, sums, off))
        home = np.flatnonzero(np.repeat(absorbing, actions) & ~there)
        places = np.append(row, home), np.append(following, home // actions)
        chances = np.append(self.probabilities, np.ones(len(home)))
        there[home] = True
        return csr_array((chances, places), shape=(states * actions, states)), there.reshape(shape)

    def _called(self, row: int) -> str:
        """What a row is about, in words."""
        called = (self.names.states, self.names.actions, self.names.states)
        cells = zip(COLUMNS, called, self.rows[row].tolist(), strict=False)
        return ", ".join(f"{name} {names[number]!r}" for name, names, number in cells)

    def _sum_message(self, row: np.ndarray, sums: np.ndarray, off: np.ndarray) -> str:
        """What is wrong where the probabilities of some pairs [S * A] do not sum to 1."""
        nothing = np.flatnonzero(off & (sums == 0))
        worst = int(nothing[0] if len(nothing) else np.argmax(np.abs(sums - 1.0) * off))
        s, a = divmod(worst, len(self.names.actions))
        message = (
            f"{self.table.path}: the probabilities of a state and action must sum to 1; state "
            f"{self.names.states[s]!r}, action {self.names.actions[a]!r} sums to "
            f"{sums[worst]:.10g} ({self.table.place(int(np.argmax(row == worst)))})"
        )
        others = int(off.sum()) - 1
        message += f", and {others} more do not" if others else ""
        return message + ("; an action that is not available has no row" if len(nothing) else "")


def _as_found(*columns: RawColumn) -> dict[str, None]:
    """The names in columns of text, in the order of the rows."""
    cells = [np.array(column.texts, dtype=object)[column.values] for column in columns]
    return dict.fromkeys(np.stack(cells, axis=1).ravel().tolist())
