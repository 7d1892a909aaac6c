"""The text files that a log becomes, for people to look at and to correct."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.files.atomic import write_bytes
from tacit.files.tables import write_columns
from tacit.folders.settings import FILE, VERSION, toml_lines

if TYPE_CHECKING:
    from tacit.data.sources import Log
    from tacit.model.layout import Layout


def write_log(
    folder: Path,
    log: Log,
    made_of: Mapping[str, object],
    settings: Mapping[str, object],
    options: Mapping[str, object],
) -> None:
    """Writes the text files of a problem into an existing folder.

    Args:
        folder: of the problem.
        log: that was ingested. Where it has actions of its own, nobody knows where they lead: they
            are counted from the demonstrations whenever the folder is read.
        made_of: what `[features]` of `problem.toml` says.
        settings: what stands at the top of `problem.toml`.
        options: of `tacit ingest`, by which other logs are read alike.
    """
    layout, seen = log.layout, log.demonstrations
    states, actions = np.array(layout.state_names), np.array(layout.action_names)
    lines = [
        "# Made by tacit ingest. docs/formats.md explains every key.",
        *toml_lines({"version": VERSION, **settings}),
        *toml_lines(made_of, "features"),
        *layout_lines(layout),
        *toml_lines(options, "ingest"),
    ]
    write_bytes(folder / FILE, "\n".join([*lines, ""]).encode())
    write_columns(folder / "features.csv", _feature_columns(log))
    if layout.centres:
        x, y = np.array(layout.centres).T
        places = {"state": states, "x": x, "y": y}
        if layout.hexagon:
            places["hexagon"] = np.full(len(x), layout.hexagon)
        write_columns(folder / "places.csv", places)
    if log.moves is not None:
        begin, taken = np.nonzero(log.moves >= 0)
        ways = {
            "state": states[begin],
            "action": actions[taken],
            "next_state": states[log.moves[begin, taken]],
            "probability": np.ones(len(begin), int),
        }
        write_columns(folder / "transitions.csv", ways)
    columns = seen.table(layout.state_names, layout.action_names)
    write_columns(folder / "demonstrations.csv", columns)


def _feature_columns(log: Log) -> dict[str, np.ndarray]:
    """The columns of `features.csv`: one row a state, or a state and an available action."""
    states, actions = np.array(log.layout.state_names), np.array(log.layout.action_names)
    columns = dict(log.features)
    if log.places is not None:
        for axis, name in enumerate(("x of its middle", "y of its middle")):
            columns[name] = log.places.centres[:, axis]
    if all(column.ndim == 1 for column in columns.values()):
        return {"state": states, **columns}
    there = np.ones((len(states), len(actions)), bool) if log.moves is None else log.moves >= 0
    begin, taken = np.nonzero(there)
    rows = {
        name: column[begin] if column.ndim == 1 else column[begin, taken]
        for name, column in columns.items()
    }
    return {"state": states[begin], "action": actions[taken], **rows}


def layout_lines(layout: Layout) -> list[str]:
    """What `problem.toml` says of names, and of the grid where there is one."""
    names = {"states": layout.state_names, "actions": layout.action_names}
    grid: dict[str, object] = {}
    if layout.is_grid or layout.directions:
        grid = {"rows": layout.rows, "columns": layout.columns}
    if layout.directions:
        grid["directions"] = layout.directions
    if layout.corner and layout.cell_size:
        grid |= {"corner": layout.corner, "cell_size": layout.cell_size}
    named = {name: part for name, part in names.items() if part}
    return [*toml_lines(named, "names"), *toml_lines(grid, "grid")]
