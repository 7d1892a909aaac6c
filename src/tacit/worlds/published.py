"""Worlds of published studies, exact to their sources, and fresh draws of the same kind by seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tacit.errors import InvalidModel
from tacit.model.mdp import MDP, Successors
from tacit.model.objective import Features
from tacit.model.transitions import Layout
from tacit.worlds.world import World, integer, neighbours, recipe

# (row, column) steps of four moves, and the names of these and of staying.
MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))
MOVE_NAMES = ("right", "down", "left", "up", "stay")

# --- Objectworld ----------------------------------------------------------------------------------


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
    if not isinstance(wind, int | float | np.number) or not 0.0 <= wind <= 1.0:
        raise InvalidModel(f"wind must be a probability; got {wind!r:.60}")
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


# --- grids with forbidden places ------------------------------------------------------------------

# Moves of the 9 x 9 grid as (row, column), in the order of its file.
EIGHT = ((0, -1), (0, 1), (1, 0), (-1, 0), (1, -1), (1, 1), (-1, -1), (-1, 1))
EIGHT_NAMES = ("left", "right", "down", "up", "down left", "down right", "up left", "up right")
NINE_STATES, NINE_ACTIONS = (31, 39, 41, 47, 51), (4, 5)
COLOURS = {"blue": (4, 13, 22), "green": (58, 67, 76)}
# Goal and unsafe cells (row, column) of the four settings; all start in (0, 0).
WALLS = {
    1: ((6, 0), [(3, c) for c in range(5)]),
    2: ((6, 6), [(r, c) for r in range(2, 5) for c in range(2, 5)]),
    3: ((6, 6), [(r, c) for r in range(1, 6) for c in range(1, 6)]),
    4: ((6, 6), [(2, c) for c in range(5)] + [(4, c) for c in range(2, 7)]),
}


def walls(number: int | None = None, *, seed: int = 0) -> World:
    """Settings 1 to 4 of the constraint benchmark of Liu et al. (2023), 7 x 7, or a fresh one.

    Eight moves that always succeed, walls stay, discount .99; reward 1 on reaching the goal, where
    the episode ends. Unsafe cells cost 1 and the budget is 0. The shortest safe ways take 10, 9, 11
    and 14 steps.

    Args:
        number: 1 to 4; None draws three straight walls of one to five cells and a goal in a corner.
        seed: names the draw, where the number is None.
    """
    if number is not None and number not in WALLS:
        raise InvalidModel(f"walls are numbered 1 to 4, or None for a fresh draw; got {number!r}")
    asked = {"number": number} if number is not None else {"seed": integer(seed, "seed", 0)}
    draw = np.random.default_rng(seed)
    while True:
        goal, cells = WALLS[number] if number is not None else _drawn_walls(draw)
        mdp = eight_moves(7, goal, stay=True)
        unsafe = np.isin(np.arange(49), [r * 7 + c for r, c in cells])
        if number is not None or _way_around(mdp, unsafe):
            break
    at_goal = np.eye(49)[goal[0] * 7 + goal[1]]
    names = [f"state {s}" for s in range(49)]
    features = Features(at_goal[:, None], [np.eye(49)], ["goal"], [names])
    truth = (np.ones(1), [unsafe.astype(float)], [0.0])
    called = recipe("walls", asked)
    return World.of(mdp, features, *truth, layout=_eight_layout(7), recipe=called)


def _drawn_walls(draw: np.random.Generator) -> tuple[tuple[int, int], list[tuple[int, int]]]:
    goal = [(6, 0), (6, 6), (0, 6)][draw.integers(3)]
    cells: set[tuple[int, int]] = set()
    for _ in range(3):
        row, column, length, along = draw.integers([0, 0, 1, 0], [7, 7, 6, 2]).tolist()
        for k in range(length):
            cells.add((row + k * along, column + k * (1 - along)))
    cells = {c for c in cells if max(c) < 7} - {(0, 0), goal}
    return goal, sorted(cells)


def _way_around(mdp: MDP, shut: np.ndarray, shut_actions: Sequence[int] = ()) -> bool:
    """Whether some way from state 0 to an end avoids these states [S] and actions."""
    reach = mdp.ends.copy()
    open_to = np.setdiff1d(np.arange(mdp.actions), shut_actions)
    for _ in range(mdp.states):
        ahead = mdp.expected_next(reach.astype(float))[:, open_to] > 0
        reach = (reach | ahead.any(axis=1)) & ~shut
    return bool(reach[0])


def _eight_layout(size: int) -> Layout:
    return Layout(size, size, directions=EIGHT, action_names=EIGHT_NAMES)


def eight_moves(size: int, goal: tuple[int, int], *, stay: bool) -> MDP:
    """A grid of eight moves that ends at a goal; moves off it `stay`, or are not there.

    Discount .99 where they stay and 1 where not, as in the two sources. Start in the first cell.
    """
    reached, inside = neighbours(size, EIGHT)
    there = np.ones_like(inside) if stay else inside
    there[goal[0] * size + goal[1]] = False
    moves = Successors(reached[:, :, None], np.ones((*reached.shape, 1)))
    return MDP(moves, np.eye(size * size)[0], 0.99 if stay else 1.0, available=there)


def nine_by_nine(seed: int | None = None) -> World:
    """The 9 x 9 grid of Scobee and Sastry (2020), or a fresh one of the same kind.

    Start 0, goal 8, where the episode ends; every step costs 4, also a diagonal one, the goal pays
    10; nothing is discounted, and moves off the grid are not there. Five states, two moves and two
    colours of three states are forbidden: cost 1 each, budget 0. The expert has temperature 1.

    Args:
        seed: None for the published constraints, or a draw of as many others.
    """
    mdp = eight_moves(9, (0, 8), stay=False)
    states, actions, colours = NINE_STATES, NINE_ACTIONS, COLOURS
    if seed is not None:
        draw = np.random.default_rng(integer(seed, "seed", 0))
        while True:
            free = np.setdiff1d(np.arange(81), [0, 8])
            cells = draw.choice(free, 11, replace=False).tolist()
            states, actions = tuple(cells[:5]), tuple(draw.choice(8, 2, replace=False).tolist())
            colours = {"blue": tuple(cells[5:8]), "green": tuple(cells[8:])}
            if _way_around(mdp, np.isin(np.arange(81), cells), actions):
                break
    at_goal = np.eye(81)[8]
    charges = np.zeros((81, 8, 91))
    charges[np.arange(81), :, np.arange(81)] = 1.0
    charges[:, range(8), range(81, 89)] = (1.0 - at_goal)[:, None]
    for j, cells in enumerate(colours.values()):
        charges[list(cells), :, 89 + j] = 1.0
    names = [f"state {s}" for s in range(81)] + [f"action {a}" for a in range(8)] + list(colours)
    features = Features(
        np.stack([1.0 - at_goal, at_goal], axis=1), [charges], ["step", "goal"], [names]
    )
    weights = np.isin(names, [f"state {s}" for s in states] + [f"action {a}" for a in actions])
    weights = (weights | np.isin(names, list(colours))).astype(float)
    truth = (np.array([-4.0, 10.0]), [weights], [0.0])
    called = recipe("nine_by_nine", {} if seed is None else {"seed": seed})
    return World.of(mdp, features, *truth, layout=_eight_layout(9), recipe=called)
