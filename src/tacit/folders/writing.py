"""From a `Problem` to its text twins: `problem.toml`, `transitions.csv`, `features.csv`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.files.arrays import write_arrays
from tacit.files.atomic import write_atomically
from tacit.files.tables import write_columns
from tacit.folders.archives import truth_arrays
from tacit.model.mdp import MDP
from tacit.model.names import Layout
from tacit.model.objective import Features

if TYPE_CHECKING:
    from tacit.folders.problem import Problem


def write_text(problem: Problem, folder: Path) -> None:
    """Writes the problem into an existing folder, as text wherever there is a text twin."""
    mdp, layout = problem.mdp, problem.layout
    states = layout.state_names or tuple(str(s) for s in range(mdp.states))
    actions = layout.action_names or tuple(str(a) for a in range(mdp.actions))
    columns, reward, costs = _feature_columns(problem.features, mdp.actions)
    write_csv(folder / "transitions.csv", *_transition_rows(mdp, states, actions))
    write_csv(folder / "features.csv", *_feature_rows(columns, states, actions))
    lines = [f"discount = {mdp.discount!r}", *_initial(mdp, states)]
    lines += ["", "[features]", f"reward = {toml(reward)}", f"costs = {toml(costs)}"]
    lines += _names(layout)
    if layout.is_grid or layout.directions:
        lines += ["", "[grid]", f"rows = {layout.rows}", f"columns = {layout.columns}"]
        if layout.directions:
            lines += [f"directions = {toml([list(step) for step in layout.directions])}"]
    content = "\n".join([*lines, ""]).encode()
    write_atomically(folder / "problem.toml", lambda file: file.write(content))
    if problem.truth is not None:
        write_arrays(folder / "truth.npz", truth_arrays(problem.truth))
    if problem.demonstrations is not None:
        write_columns(
            folder / "demonstrations.csv", _steps(problem.demonstrations, states, actions)
        )


def _steps(
    seen: Demonstrations, states: Sequence[str], actions: Sequence[str]
) -> dict[str, np.ndarray]:
    """The columns of `demonstrations.csv`: names, and of whole episodes what is unusual."""
    columns = {
        "episode": seen.episode,
        "step": seen.step,
        "state": np.array(states)[seen.states],
        "action": np.array(actions)[seen.actions],
    }
    final = np.array([*states, "-1"])[seen.final_states]  # -1, not recorded, is the last
    for name, part, unusual in (
        ("ended", seen.ended, seen.ended),
        ("final_state", final, seen.final_states >= 0),
        ("partial", seen.partial, seen.partial),
    ):
        if unusual.any():
            columns[name] = np.repeat(part, seen.lengths)
    if seen.groups is not None:
        columns["group"] = np.repeat(seen.groups, seen.lengths)
    return columns


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Writes a table with a header; numbers keep every digit."""
    shown = io.StringIO()
    table = csv.writer(shown, lineterminator="\n")
    table.writerow(header)
    table.writerows(rows)
    content = shown.getvalue().encode()
    write_atomically(path, lambda file: file.write(content))


def toml(value: Any) -> str:
    """A text, number or list of them as TOML spells it, which is nearly as JSON does."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _transition_rows(
    mdp: MDP, states: Sequence[str], actions: Sequence[str]
) -> tuple[list[str], list[list[Any]]]:
    lists = mdp.transitions
    rows = [
        [
            states[s],
            actions[a],
            states[lists.states[s, a, b]],
            repr(float(lists.probabilities[s, a, b])),
        ]
        for s, a, b in np.argwhere(lists.probabilities > 0)
    ]
    return ["state", "action", "next_state", "probability"], rows


def _feature_columns(
    features: Features, actions: int
) -> tuple[dict[str, np.ndarray], list[str], list[list[str]]]:
    """Columns [S] or [S, A] by name, and the names of the reward and of each constraint."""
    tables = (features.reward, *features.costs)
    by_action = any(table.ndim == 3 for table in tables)
    columns: dict[str, np.ndarray] = {}
    groups: list[list[str]] = []
    for table, names in zip(tables, (features.reward_names, *features.cost_names), strict=True):
        if by_action and table.ndim == 2:
            table = np.repeat(table[:, None, :], actions, axis=1)
        groups.append([])
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
    return columns, groups[0], groups[1:]


def _feature_rows(
    columns: dict[str, np.ndarray], states: Sequence[str], actions: Sequence[str]
) -> tuple[list[str], list[list[Any]]]:
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


def _names(layout: Layout) -> list[str]:
    lines = [
        f"{kind} = {toml(list(names))}"
        for kind, names in (("states", layout.state_names), ("actions", layout.action_names))
        if names
    ]
    return ["", "[names]", *lines] if lines else []
