"""Objectworld: a grid whose rewards depend on the distance to objects of two colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tacit.errors import InvalidModel
from tacit.model.arguments import integer, number
from tacit.model.layout import Layout
from tacit.model.mdp import MDP, Successors
from tacit.model.objective import Features
from tacit.worlds.world import World, neighbours, recipe

# (row, column) steps of four moves, and the names of these and of staying.
MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))
MOVE_NAMES = ("right", "down", "left", "up", "stay")


def objectworld(
    seed: int = 0, *, size: int = 32, objects: int = 50, wind: float = 0.3, discount: float = 0.9
) -> World:
    """A fresh Objectworld (Levine et al. 2011, as of Kalweit et al. 2020); state = x + size * y.

    Objects lie in cells of their own, each with an inner and an outer one of two colours. A cell
    within 3 steps of outer colour 0 is worth -1, and 1 if it is also within 2 steps of outer colour
    1; all others 0. The source pays on arrival: the same as the reward of the state over the
    discount, up to what the start pays. So the features are one a cell, and the weights are the
    worth of the cells over the discount.

    Args:
        seed: names the draw.
        size: rows and columns.
        objects: how many there are.
        wind: chance of a random move; what it would blow off the grid stays.
        discount: of the model.
    """
    asked = dict(locals())
    size, objects = integer(size, "size", 2), integer(objects, "objects", 1)
    if objects > size * size:
        raise InvalidModel(f"objects must fit into {size * size} cells; got {objects}")
    draw = np.random.default_rng(integer(seed, "seed", 0))
    cells = draw.choice(size * size, objects, replace=False)
    colours = draw.integers(0, 2, size=(objects, 2))
    worth = object_worth(size, cells, colours[:, 1])
    world = _object_world(worth, np.full(size * size, 1.0 / size**2), wind, discount)
    return replace(world, recipe=recipe("objectworld", asked, objectworld.__kwdefaults__))


def object_worth(size: int, cells: np.ndarray, outer: np.ndarray) -> np.ndarray:
    """[S] worth of each cell, for objects in these cells with these outer colours."""
    every = np.arange(size * size)[:, None]
    far = np.abs(every % size - cells % size) + np.abs(every // size - cells // size)
    near = [(far[:, outer == colour] <= reach).any(axis=1) for colour, reach in ((0, 3), (1, 2))]
    return np.where(near[0], np.where(near[1], 1.0, -1.0), 0.0)


def _object_world(worth: np.ndarray, start: np.ndarray, wind: float, discount: float) -> World:
    from scipy.sparse import eye_array

    size = round(np.sqrt(len(worth)))
    mdp = MDP(windy_moves(size, (*MOVES, (0, 0)), wind), start, discount)
    if not mdp.discount > 0:
        raise InvalidModel(f"discount must be above 0; got {discount}")
    layout = Layout(size, size, directions=(*MOVES, (0, 0)), action_names=MOVE_NAMES)
    return World.of(mdp, Features(eye_array(size * size)), worth / mdp.discount, layout=layout)


def windy_moves(size: int, moves: Sequence[tuple[int, int]], wind: float) -> Successors:
    """Transitions [S, A, 5] of a grid with state = x + size * y, as the sources of two worlds have.

    A move succeeds with 1 - wind + wind / A, every other neighbour has wind / A; what would leave
    the grid stays. Rows that do not add up to 1 are scaled, as where staying is an action.
    """
    wind = number(wind, "wind", "a probability", lambda p: 0.0 <= p <= 1.0)
    reached, inside = neighbours(size, (*MOVES, (0, 0)))
    inside = inside[:, :4]
    many, share = len(moves), wind / len(moves)
    chances = np.zeros((size * size, many, 5))
    for a, move in enumerate(moves):
        chances[:, a, :4] = share * np.ones_like(inside)
        if move == (0, 0):  # blown against a wall is no way of staying, if one stays on purpose
            chances[:, a, :4] *= inside
            chances[:, a, 4] = 1.0 - wind + share
        else:
            chances[:, a, MOVES.index(move)] += 1.0 - wind
    chances /= chances.sum(axis=2, keepdims=True)
    return Successors(np.repeat(reached[:, None], many, axis=1), chances)
