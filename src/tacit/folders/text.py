"""A problem as text: `transitions.csv` read, and all of its files written; beside them archives."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.files.arrays import write_arrays
from tacit.files.atomic import naming, write_bytes, write_csv
from tacit.files.columns import Column
from tacit.files.tables import Progress, Table, open_table, write_columns
from tacit.folders.archives import (
    feature_arrays,
    model_arrays,
    read_model,
    write_places,
)
from tacit.folders.reading import LARGEST, NAMED, looked_up, read_demonstrations, refuse_repeats
from tacit.folders.settings import FILE, Names, Settings, names_of, ordered
from tacit.inverse.findings import Finding, Kind, listed
from tacit.model.ends import steps_to_end
from tacit.model.features.priors import is_one_hot
from tacit.model.mdp import MDP
from tacit.model.objective import Features, is_sparse
from tacit.model.transitions import ROW_SUM_TOLERANCE, Layout, Transitions

if TYPE_CHECKING:
    from tacit.folders.problem import Problem


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


def from_archive(
    path: Path, settings: Settings, seen: Path | None, progress: Progress | None
) -> dict[str, Any]:
    """Model, layout and demonstrations, the model from `mdp.npz`."""
    for key in ("discount", "initial", "states", "actions", "rows", "absorbing"):
        # Trips have a discount of their own.
        if getattr(settings, key) and not (key == "discount" and settings.goal):
            raise InvalidModel(
                f"{path.parent} must give each part once; {path.name} holds the model, and "
                f"{FILE} gives {key} again"
            )
    mdp, layout, notes = read_model(path)
    demonstrations = None
    if seen is not None:
        demonstrations, _ = read_demonstrations(
            seen,
            names_of(mdp, layout),
            source=path.name,
            available=mdp.available if mdp.restricted else None,
            places=True,
            progress=progress,
        )
        with naming(seen, InvalidDemonstrations):
            demonstrations.check(mdp)
    return {"mdp": mdp, "layout": layout, "demonstrations": demonstrations, "notes": notes}


def network_discount(settings: Settings, moves: Transitions, there: np.ndarray) -> float:
    """The discount of the model: that of the file, or 0 where only its trips end."""
    assert settings.discount is not None
    if not settings.goal or settings.discount < 1.0:
        return settings.discount
    model = MDP(moves, np.eye(len(there))[0], 0.0, available=there)
    return 1.0 if np.isfinite(steps_to_end(model)).all() else 0.0


def told_to_stay(settings: Settings) -> tuple[str, ...]:
    """The sentence on states in which time goes on though nothing leaves them."""
    if not settings.absorbing:
        return ()
    said = (
        f"In {listed(settings.absorbing, NAMED)} every action is taken to stay, and time goes on: "
        "[transitions] names them absorbing."
    )
    return (Finding(said, Kind.ASSUMED, number=len(settings.absorbing)),)


def write_archives(problem: Problem, folder: Path) -> None:
    """Writes the problem into an existing folder, as npz and Parquet files."""
    notes = {"notes": np.array(problem.notes, str)} if problem.notes else {}
    write_arrays(folder / "mdp.npz", model_arrays(problem.mdp, problem.layout) | notes)
    write_arrays(folder / "features.npz", feature_arrays(problem.features))
    if problem.demonstrations is not None:
        problem.demonstrations.save(folder / "demonstrations.parquet")
    _write_settings(problem, folder, trip_lines(problem) if problem.goal else [])


def write_text(problem: Problem, folder: Path) -> None:
    """Writes the problem into an existing folder, as text wherever there is a text twin."""
    mdp, layout = problem.mdp, problem.layout
    names = names_of(mdp, layout)
    states, actions = names.states, names.actions
    columns, groups = _feature_columns(problem.features, mdp.actions, states)
    write_csv(folder / "transitions.csv", *_transition_rows(mdp, states, actions))
    if columns:
        write_csv(folder / "features.csv", *_feature_rows(columns, states, actions))
    lines = trip_lines(problem) if problem.goal else [f"discount = {mdp.discount!r}"]
    lines += _initial(mdp, states)
    made = [toml(names) if names else '{ one_hot = "state" }' for names in groups]
    lines += ["", "[features]", f"reward = {made[0]}", f"costs = [{', '.join(made[1:])}]"]
    lines += layout_lines(layout)
    if layout.centres:
        write_places(folder / "places.csv", layout, states)
    _write_settings(problem, folder, lines)
    if problem.demonstrations is not None:
        seen = problem.demonstrations.columns(states, actions)
        write_columns(folder / "demonstrations.csv", seen)


def _write_settings(problem: Problem, folder: Path, lines: list[str]) -> None:
    """Writes `problem.toml`, if it says anything, and the truth, where it is known."""
    if lines := [*lines, *coefficient_lines(problem.coefficients)]:
        write_bytes(folder / FILE, "\n".join([*lines, ""]).encode())
    if problem.truth is not None:
        parts = {name: getattr(problem.truth, name) for name in ("reward", "costs", "budgets")}
        write_arrays(folder / "truth.npz", parts)


def trip_lines(problem: Problem) -> list[str]:
    """What `problem.toml` says of trips."""
    lines = [f"discount = {problem.discount!r}", f"goal = {toml(problem.goal)}"]
    return lines + ([f"unended = {toml(problem.unended)}"] if problem.unended != "refuse" else [])


def coefficient_lines(known: dict[str, dict[str, Any]]) -> list[str]:
    """What `problem.toml` says of coefficients; nothing where there is nothing."""
    told: dict[str, dict[str, float]] = {}
    for name, ends in known.get("bounds", {}).items():
        pairs = zip(("lower", "upper"), ends, strict=True)
        told.setdefault(name, {}).update({word: end for word, end in pairs if end is not None})
    for word in ("fixed", "start"):
        for name, value in known.get(word, {}).items():
            told.setdefault(name, {})[word] = value
    lines = [
        f"{toml(name)} = {{ {', '.join(f'{word} = {float(x)!r}' for word, x in one.items())} }}"
        for name, one in told.items()
    ]
    return ["", "[coefficients]", *lines] if lines else []


def toml(value: object) -> str:
    """A text, number or list of them as TOML spells it, which is nearly as JSON does."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _transition_rows(
    mdp: MDP, states: Sequence[str], actions: Sequence[str]
) -> tuple[list[str], Sequence[Sequence[object]]]:
    lists = mdp.transitions
    there = np.nonzero(lists.probabilities > 0)
    columns = (*there[:2], lists.states[there], lists.probabilities[there])
    cells = zip(*(column.tolist() for column in columns), strict=True)
    return [*COLUMNS], [[states[s], actions[a], states[t], repr(p)] for s, a, t, p in cells]


def _feature_columns(
    features: Features, actions: int, states: Sequence[str]
) -> tuple[dict[str, np.ndarray], list[list[str]]]:
    """Columns [S] or [S, A] by name, and the names of each map: none if of one hot state."""
    tables = features.maps
    by_action = any(table.ndim == 3 for table in tables)
    columns: dict[str, np.ndarray] = {}
    groups: list[list[str]] = []
    for table, names in zip(tables, (features.reward_names, *features.cost_names), strict=True):
        groups.append([])
        if is_one_hot(table, names, states):
            continue
        table = table.toarray() if is_sparse(table) else table
        if by_action and table.ndim == 2:
            table = np.repeat(table[:, None, :], actions, axis=1)
        for j, name in enumerate(names):
            own, column = name.strip() or "feature", table[..., j]
            # One name may mean two things in reward and costs: the second gets a number.
            number = 2
            while own in ("state", "action") or not np.array_equal(
                columns.get(own, column), column
            ):
                own, number = f"{name} ({number})", number + 1
            columns[own] = column
            groups[-1].append(own)
    return columns, groups


def _feature_rows(
    columns: dict[str, np.ndarray], states: Sequence[str], actions: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    by_action = any(column.ndim == 2 for column in columns.values())
    rows = []
    for s, state in enumerate(states):
        for a, action in enumerate(actions if by_action else [""]):
            place = (s, a) if by_action else (s,)
            values = [repr(float(column[place])) for column in columns.values()]
            rows.append([state, action, *values] if by_action else [state, *values])
    return ["state", *(["action"] if by_action else []), *columns], rows


def _initial(mdp: MDP, states: Sequence[str]) -> list[str]:
    begins = np.flatnonzero(mdp.initial)
    if len(begins) == 1:
        return [f"initial = {toml(states[int(begins[0])])}"]
    return [
        "",
        "[initial]",
        *(f"{toml(states[int(s)])} = {float(mdp.initial[s])!r}" for s in begins),
    ]


def layout_lines(layout: Layout) -> list[str]:
    """What `problem.toml` says of names, and of the grid where there is one."""
    lines = [
        f"{kind} = {toml(list(names))}"
        for kind, names in (("states", layout.state_names), ("actions", layout.action_names))
        if names
    ]
    lines = ["", "[names]", *lines] if lines else []
    if layout.is_grid or layout.directions:
        lines += ["", "[grid]", f"rows = {layout.rows}", f"columns = {layout.columns}"]
    if layout.directions:
        lines += [f"directions = {toml([list(step) for step in layout.directions])}"]
    return lines
