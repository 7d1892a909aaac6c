"""A log of nodes on the network of a table of roads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.sources.logs import Log
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.files.tables import open_table
from tacit.files.wording import natural_order, some
from tacit.model.layout import Layout

FROM, TO = "from", "to"


def on_roads(log: Log, path: str | Path, *, decimal_comma: bool = False) -> Log:
    """The log with the roads of a table for its moves and their attributes for its features.

    Args:
        log: of nodes, with moves inferred.
        path: a .csv or .parquet file with a row for each road, one way: columns `from` and `to`,
            and attributes, which are numbers.
        decimal_comma: whether 3,5 means three and a half.
    """
    if log.moves is None or log.places is not None:
        raise InvalidModel(
            "roads lead from node to node: give the column of nodes as --state, and no --action"
        )
    table = open_table(Path(path), InvalidModel, expected=[FROM, TO])
    table.require(FROM, TO)
    attributes = [name for name in table.names if name not in (FROM, TO)]
    columns = table.read(texts=table.names)
    begins, ends = columns[FROM], columns[TO]
    if not attributes or not len(begins):
        raise InvalidModel(
            f"{path} must have a row for each road and a column of numbers for each attribute; "
            f"it has {len(begins)} rows and the columns {some(table.names)}"
        )
    visited, goals = log.layout.state_names, natural_order(ends.texts or ())
    others = {*(begins.texts or ()), *goals} - {*visited}
    nodes = (*visited, *natural_order(others))
    node = {name: number for number, name in enumerate(nodes)}
    start = begins.numbered(node, "a node")
    taken = ends.numbered({name: number for number, name in enumerate(goals)}, "a node")
    table.refuse_repeats(
        start * len(goals) + taken,
        lambda row: f"the road from {begins.cell(row)} to {ends.cell(row)}",
    )
    moves = np.full((len(nodes), len(goals)), -1, np.int64)
    moves[start, taken] = ends.numbered(node, "a node")
    features = {}
    for name in attributes:
        values = columns[name].measurements(comma=decimal_comma)
        if (odd := ~np.isfinite(values)).any():
            raise columns[name].wrong(int(np.argmax(odd)), "a number")
        features[name] = np.zeros(moves.shape)
        features[name][start, taken] = values
    layout = Layout(state_names=nodes, action_names=tuple(f"{TO} {name}" for name in goals))
    return replace(
        log,
        demonstrations=_along(log, moves, layout, path),
        layout=layout,
        moves=moves,
        features={**log.features, **features},
    )


def _along(log: Log, moves: np.ndarray, layout: Layout, path: str | Path) -> Demonstrations:
    """The demonstrations of a log, each of whose moves is the road there of moves [S, A]."""
    seen, own = log.demonstrations, log.layout.action_names
    number = {name: action for action, name in enumerate(layout.action_names)}
    roads = np.array([number.get(name, -1) for name in own])[seen.actions]
    missing = (roads < 0) | (moves[seen.states, roads] < 0)
    if missing.any():
        first = int(np.argmax(missing))
        raise InvalidDemonstrations(
            f"every move must be a road of {path}; {int(missing.sum())} of {seen.steps} are none, "
            f"such as {layout.state_names[seen.states[first]]} {own[seen.actions[first]]}"
        )
    return replace(seen, actions=roads, layout=layout)
