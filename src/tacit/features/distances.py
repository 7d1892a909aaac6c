"""Features of how far it is: the fewest steps through the transitions, or a straight line."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.features.map import Map
from tacit.features.naming import known_states, several, state_names
from tacit.features.places import points_of
from tacit.layout import Layout
from tacit.mdp import MDP


def distance_to(
    targets: Any,
    world: Any,
    layout: Layout | None = None,
    *,
    nearest: bool = False,
    likely: float = 0.0,
    unreachable: float | None = None,
) -> Map:
    """[S, D] distance of each state to each target, "distance to water"; 0 at the target itself.

    Args:
        targets: names or numbers of one or more states.
        world: an `MDP`, for the fewest steps with which any actions can lead there; the `Layout` of
            a grid, for the fewest moves between cells; or coordinates [S, d], as points or as a
            map, for the straight line.
        layout: names of the states; not needed where `world` is one.
        nearest: one column, the distance to the nearest target, instead of one for each.
        likely: transitions of this probability or less are not counted as a way.
        unreachable: the distance of states from which no way leads there; None refuses them.
    """
    if isinstance(world, MDP | Layout):
        count, layout = known_states(world, layout)
        chosen = several(targets, count, state_names(layout, count), "state")
        ways = _moves(world) if isinstance(world, Layout) else _ways(world, likely)
        table = _fewest_steps(*ways, chosen, count)
    else:
        points = points_of(world)
        count, layout = known_states(len(points), layout)
        chosen = several(targets, count, state_names(layout, count), "state")
        table = np.linalg.norm(points[:, None, :] - points[None, chosen, :], axis=2)
    names = [f"distance to {layout.state_name(s)}" for s in chosen]
    if nearest:
        table = table.min(axis=1, keepdims=True)
        names = ["distance to " + " or ".join(layout.state_name(s) for s in chosen)]
    lost = np.argwhere(np.isinf(table))
    if len(lost) and unreachable is None:
        state, column = (int(i) for i in lost[0])
        more = len(lost) - 1
        others = f" and {more} other state{'' if more == 1 else 's'}" if more else ""
        raise InvalidModel(
            f"{names[column]}: no way leads there from {layout.state_name(state)}{others}: "
            "pass unreachable=NUMBER to say how far they are"
        )
    table[np.isinf(table)] = unreachable
    return Map(table, names)


def _ways(mdp: MDP, likely: float) -> tuple[np.ndarray, np.ndarray]:
    """(from, to) of every transition that some action makes with more than this probability."""
    s, a, b = np.nonzero(mdp.transitions.probabilities > likely)
    return s, mdp.transitions.states[s, a, b]


def _moves(layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """(from, to) of every move between cells: the layout's directions, or the four neighbours."""
    if not layout.is_grid:
        raise InvalidModel("this layout is no grid: pass the MDP, or the coordinates of the states")
    row, column = np.divmod(np.arange(layout.rows * layout.columns), layout.columns)
    start, end = [], []
    for down, right in layout.directions or ((0, 1), (1, 0), (0, -1), (-1, 0)):
        r, c = row + down, column + right
        inside = (r >= 0) & (r < layout.rows) & (c >= 0) & (c < layout.columns)
        start.append(np.flatnonzero(inside))
        end.append((r * layout.columns + c)[inside])
    return np.concatenate(start), np.concatenate(end)


def _fewest_steps(start: np.ndarray, end: np.ndarray, targets: list[int], count: int) -> np.ndarray:
    """[S, D] fewest steps from each state to each target; infinite where no way leads there."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    # Backwards from the targets: one search each, whatever the number of states.
    graph = csr_array((np.ones(len(start)), (end, start)), shape=(count, count))
    return np.asarray(dijkstra(graph, indices=targets, unweighted=True)).T.copy()
