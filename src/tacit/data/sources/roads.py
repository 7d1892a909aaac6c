"""A log of nodes on the network of a table of roads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

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
    if not attributes or not len(columns[FROM]):
        raise InvalidModel(
            f"{path} must have a row for each road and a column of numbers for each attribute; "
            f"it has {len(columns[FROM])} rows and the columns {some(table.names)}"
        )
    begins, ends = (
        [column.cell(row) for row in range(len(column))] for column in (columns[FROM], columns[TO])
    )
    visited = log.layout.state_names
    nodes = (*visited, *natural_order({*map(str, begins), *map(str, ends)} - {*visited}))
    goals = natural_order({*map(str, ends)})
    node = {name: at for at, name in enumerate(nodes)}
    move = {f"{TO} {name}": at for at, name in enumerate(goals)}
    at = np.array([node[str(name)] for name in begins])
    taken = np.array([move[f"{TO} {name}"] for name in ends])
    moves = np.full((len(nodes), len(goals)), -1, np.int64)
    for row, place in enumerate(zip(at.tolist(), taken.tolist(), strict=True)):
        if moves[place] >= 0:
            raise table.fault(row, f"there must be one road from {begins[row]} to {ends[row]}")
        moves[place] = node[str(ends[row])]
    features = {}
    for name in attributes:
        values = columns[name].measurements(comma=decimal_comma)
        columns[name].refuse(~np.isfinite(values[np.unique(columns[name].values)]), "a number")
        features[name] = np.zeros(moves.shape)
        features[name][at, taken] = values
    seen = log.demonstrations
    done = [log.layout.action_names[action] for action in seen.actions.tolist()]
    roads = np.array([move.get(name, -1) for name in done])
    missing = (roads < 0) | (moves[seen.states, roads] < 0)
    if missing.any():
        first = int(np.argmax(missing))
        raise InvalidDemonstrations(
            f"every move must be a road of {path}; {int(missing.sum())} of {len(done)} are none, "
            f"such as {visited[seen.states[first]]} {done[first]}"
        )
    layout = Layout(state_names=nodes, action_names=tuple(move))
    return replace(
        log,
        demonstrations=replace(seen, actions=roads, layout=layout),
        layout=layout,
        moves=moves,
        features={**log.features, **features},
    )
