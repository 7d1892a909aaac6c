"""A problem as the text files that people write, for the tests of their readers."""

import csv
from pathlib import Path

import numpy as np

from tacit.files.tables import write_columns
from tacit.folders.ingested import layout_lines
from tacit.folders.names import Names
from tacit.folders.problem import Problem
from tacit.folders.settings import coefficient_table, toml_lines
from tacit.model.objective import is_sparse


def save_text(problem: Problem, folder: Path) -> Path:
    """The folder, made with the text files of a problem."""
    folder.mkdir(parents=True)
    mdp, layout = problem.mdp, problem.layout
    names = Names.of(mdp, layout)
    states, actions = names.states, names.actions
    lists = mdp.transitions
    ways = [
        [states[s], actions[a], states[lists.states[s, a, b]], lists.probabilities[s, a, b].item()]
        for s, a, b in np.argwhere(lists.probabilities > 0)
    ]
    write_rows(folder / "transitions.csv", ["state", "action", "next_state", "probability"], ways)
    columns, groups = feature_columns(problem.features, mdp.actions, states)
    if columns:
        write_features(folder / "features.csv", columns, states, actions)
    begins = {states[s]: mdp.initial[s].item() for s in np.flatnonzero(mdp.initial)}
    top = {"discount": mdp.discount, "initial": begins}
    if problem.goal:
        top |= {"discount": problem.discount, "goal": problem.goal}
        top |= {} if problem.unended == "refuse" else {"unended": problem.unended}
    made = [list(part) if part else {"one_hot": "state"} for part in groups]
    lines = [
        *toml_lines(top),
        *toml_lines({"reward": made[0], "costs": made[1:]}, "features"),
        *layout_lines(layout),
        *toml_lines(coefficient_table(problem.coefficients), "coefficients"),
        *toml_lines(truth_weights(problem), "truth"),
    ]
    (folder / "problem.toml").write_text("\n".join([*lines, ""]), encoding="utf-8")
    if layout.centres:
        places = [[n, x, y, layout.hexagon] for n, (x, y) in zip(states, layout.centres)]  # noqa: B905
        width = 4 if layout.hexagon else 3
        heads = ["state", "x", "y", "hexagon"][:width]
        write_rows(folder / "places.csv", heads, [row[:width] for row in places])
    if problem.demonstrations is not None:
        seen = problem.demonstrations.table(states, actions)
        write_columns(folder / "demonstrations.csv", seen)
    return folder


def truth_weights(problem: Problem) -> dict[str, list]:
    """The truth as weights of features, which it must be made of; nothing where there is none."""
    if problem.truth is None:
        return {}
    known = {k: weights.tolist() for k, weights in problem.true_weights().items()}
    assert len(known) == 1 + problem.truth.constraints
    reward = known.pop(-1)
    return {
        "reward": reward,
        "costs": [known[k] for k in sorted(known)],
        "budgets": problem.truth.budgets.tolist(),
    }


def write_rows(path, header, rows) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def feature_columns(features, actions, states) -> tuple[dict[str, np.ndarray], list[list[str]]]:
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
            own, column, number = name.strip() or "feature", table[..., j], 2
            # One name may mean two things in reward and costs: the second gets a number.
            while own in ("state", "action") or not np.array_equal(
                columns.get(own, column), column
            ):
                own, number = f"{name} ({number})", number + 1
            columns[own] = column
            groups[-1].append(own)
    return columns, groups


def is_one_hot(table, names, states) -> bool:
    """Whether this is one plain indicator a state, called as the state is."""
    size = len(states)
    if not is_sparse(table) or table.shape != (size, size) or tuple(names) != tuple(states):
        return False
    return bool((table.toarray() == np.eye(size)).all())


def write_features(path, columns, states, actions) -> None:
    by_action = any(column.ndim == 2 for column in columns.values())
    rows = []
    for s, state in enumerate(states):
        for a, action in enumerate(actions if by_action else [""]):
            values = [column[(s, a) if by_action else s].item() for column in columns.values()]
            rows.append([state, *([action] if by_action else []), *values])
    write_rows(path, ["state", *(["action"] if by_action else []), *columns], rows)
