"""Features of where a state lies: which one it is, its coordinates, and bumps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.features.map import Map
from tacit.features.naming import known_states, several, state_names
from tacit.layout import Layout
from tacit.mdp import MDP
from tacit.transitions import numbers


def one_hot(world: Any, layout: Layout | None = None, *, only: Any = None) -> Map:
    """[S, D] a column for each state, 1 there and 0 elsewhere, named after the state.

    Args:
        world: an `MDP`, a `Layout`, or the number of states.
        layout: names of the states; not needed where `world` is one.
        only: names or numbers of the states that get a column; None for all.
    """
    count, layout = known_states(world, layout)
    chosen = list(range(count))
    if only is not None:
        chosen = several(only, count, state_names(layout, count), "state")
    return Map(np.eye(count)[:, chosen], [layout.state_name(s) for s in chosen])


def action_one_hot(mdp: MDP, layout: Layout | None = None, *, only: Any = None) -> Map:
    """[S, A, D] a column for each action, 1 where it is taken, named after the action.

    Args:
        mdp: the world.
        layout: names of the actions.
        only: names or numbers of the actions that get a column; None for all.
    """
    layout = layout or Layout()
    chosen = list(range(mdp.actions))
    if only is not None:
        chosen = several(only, mdp.actions, layout.action_names, "action")
    table = np.broadcast_to(np.eye(mdp.actions)[:, chosen], (mdp.states, mdp.actions, len(chosen)))
    return Map(table, [layout.action_name(a) for a in chosen])


def coordinates(world: Any, names: Sequence[str] | None = None, *, off_grid: Any = None) -> Map:
    """[S, d] where each state lies: row and column on a grid, or the points that are given.

    Args:
        world: the `Layout` of a grid; or points [S, d].
        names: one per coordinate; None says "row" and "column", or "coordinate 0" and so on.
        off_grid: (row, column) of states that lie off the grid.
    """
    if not isinstance(world, Layout):
        points = numbers(world, "coordinates")
        points = points[:, None] if points.ndim == 1 else points
        if points.ndim != 2:
            raise InvalidModel(f"coordinates must have shape [S, d]; got {points.shape}")
        return Map(points, names or [f"coordinate {j}" for j in range(points.shape[1])])
    if not world.is_grid:
        raise InvalidModel("this layout is no grid: give the coordinates [S, d] of the states")
    count, _ = known_states(world)
    cells = world.rows * world.columns
    inside = np.stack(np.divmod(np.arange(cells), world.columns), axis=1).astype(np.float64)
    if count > cells and off_grid is None:
        raise InvalidModel(
            f"{world.state_name(cells)!r} lies off the grid: pass off_grid=(row, column) for it"
        )
    outside = np.broadcast_to([0.0, 0.0] if off_grid is None else off_grid, (count - cells, 2))
    return Map(np.concatenate([inside, outside]), names or ["row", "column"])


def bumps(
    centres: Any, widths: Any, coordinates: Any, *, names: Sequence[str] | None = None
) -> Map:
    """[S, C] exp(-distance^2 / (2 width^2)) to each centre: 1 there, fading with distance.

    Args:
        centres: [C, d] points.
        widths: one width, or one per centre.
        coordinates: [S, d] where the states lie, as points or as a map of `coordinates`.
        names: one per centre; None says "near (x, y)".
    """
    points = points_of(coordinates)
    middle = numbers(centres, "centres")
    middle = middle[:, None] if middle.ndim == 1 and points.shape[1] == 1 else middle
    if middle.ndim != 2 or middle.shape[1] != points.shape[1]:
        raise InvalidModel(
            f"centres must have shape [C, {points.shape[1]}], as the coordinates; "
            f"got {middle.shape}"
        )
    width = numbers(widths, "widths")
    if width.shape not in ((), (len(middle),)) or not (width > 0).all():
        raise InvalidModel(
            f"widths must be positive, one or {len(middle)} of them; got {widths!r:.60}"
        )
    square = ((points[:, None, :] - middle[None, :, :]) ** 2).sum(axis=2)
    shown = [", ".join(f"{x:.4g}" for x in centre) for centre in middle]
    return Map(np.exp(-0.5 * square / width**2), names or [f"near ({text})" for text in shown])


def points_of(given: Any) -> np.ndarray:
    """[S, d] the coordinates, from points or a map."""
    if isinstance(given, Map) and given.by_action:
        raise InvalidModel("coordinates must be of states; got a map over actions, too")
    return coordinates(given.values if isinstance(given, Map) else given).values
