"""Worlds of published studies that need a study to make sense, and what was recorded in others.

Recorded data have owners of their own and are no part of tacit: they are read from the folder that
the environment variable TACIT_DATA names, or from one that is given.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from tacit import (
    MDP,
    Demonstrations,
    Features,
    InvalidModel,
    Status,
    Successors,
    solve,
    worlds,
)

HERE = "tacit_lab.worlds"
# (row, column) steps of four moves, and their names.
MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))
MOVE_NAMES = ("right", "down", "left", "up")
STAYING = (*MOVES, (0, 0))

# --- the paper's figure ---------------------------------------------------------------------------

# Both cost panels are symmetric about the hill at (2, 2): rows 0 to 2 and columns 0 to 2 say all.
TRUE_COST = ((0.069, 0.11, 0.20), (0.12, 0.17, 0.26), (0.20, 0.25, 0.34))
RECOVERED_COST = ((0.041, 0.11, 0.23), (0.096, 0.17, 0.28), (0.16, 0.23, 0.35))


@dataclass(frozen=True, eq=False, kw_only=True)
class PublishedFigure:
    """What the published figure shows, truth and recovery, two digits as printed.

    Attributes:
        reward_weights: [2] of row and column, true.
        recovered_reward_weights: [2] of row and column, recovered by the authors.
        cost: [25] true cost of each cell.
        recovered_cost: [25] cost of each cell recovered by the authors.
        policy: [25] action of each cell; the figure shows the same for truth and recovery.
    """

    reward_weights: np.ndarray
    recovered_reward_weights: np.ndarray
    cost: np.ndarray
    recovered_cost: np.ndarray
    policy: np.ndarray


def published_values() -> PublishedFigure:
    """The numbers of the published figure, as a `PublishedFigure`."""
    return PublishedFigure(
        reward_weights=np.array([0.68, 0.32]),
        recovered_reward_weights=np.array([0.97, 0.03]),
        cost=_mirrored(TRUE_COST),
        recovered_cost=_mirrored(RECOVERED_COST),
        policy=np.repeat([1, 3], [20, 5]),  # down, then right
    )


def _mirrored(quarter: tuple[tuple[float, ...], ...]) -> np.ndarray:
    """[25] the grid whose rows and columns 0 to 2 are `quarter`, symmetric about (2, 2)."""
    order = [0, 1, 2, 1, 0]
    return np.array(quarter)[np.ix_(order, order)].ravel()


# --- known constraints: 6 x 6 ---------------------------------------------------------------------


def six_by_six(
    seed: int | None = None, *, budget: float = 0.02, noise: float = 0.1
) -> worlds.World:
    """The 6 x 6 grid of Schlaginhaufen and Kamgarpour (2023), or a fresh one; state = x + 6 y.

    Four moves that succeed with 1 - noise + noise / 4, walls stay, discount .9; reward 1/2 in two
    absorbing states; two costs of 1 on strips of cells, each with the same budget; start uniform
    over cells without cost; the expert is noisy at temperature 1. Reward features are one for each
    boundary cell, and each cost is one known column. Of the source's transitions 12 rows do not add
    up to 1; here they do.

    Args:
        seed: None for the published places, or a draw of others: absorbing states on the boundary,
            strips of four and of two cells inside.
        budget: of each cost.
        noise: chance of a random move.
    """
    recipe = {} if seed is None else {"seed": worlds.integer(seed, "seed", 0)}
    recipe |= {"budget": budget, "noise": noise}
    cells = np.arange(36)
    x, y = cells % 6, cells // 6
    border = np.flatnonzero((np.minimum(x, y) == 0) | (np.maximum(x, y) == 5))
    goals, strips = np.array([5, 33]), [(y == 1) & (x >= 1) & (x <= 4), (y == 3) & (x // 2 == 1)]
    if seed is not None:
        draw = np.random.default_rng(seed)
        goals = draw.choice(border, 2, replace=False)
        rows = draw.choice(np.arange(1, 5), 2, replace=False)
        begin = int(draw.integers(1, 4))
        strips = [
            (y == rows[0]) & (x >= 1) & (x <= 4),
            (y == rows[1]) & ((x == begin) | (x == begin + 1)),
        ]
    costs = np.array(strips, float)
    moves = MDP(windy_moves(6, MOVES, noise), np.eye(36)[0], 0.9).dense()
    moves[goals] = 0.0
    moves[goals, :, goals] = 1.0
    free = (costs.sum(axis=0) == 0).astype(float)
    features = Features(
        np.eye(36)[:, border],
        [cost[:, None] for cost in costs],
        [f"cell ({y[c]}, {x[c]})" for c in border],
        [["strip 0"], ["strip 1"]],
    )
    return worlds.World.of(
        MDP(moves, free / free.sum(), 0.9),
        features,
        0.5 * np.isin(border, goals),
        [np.ones(1), np.ones(1)],
        [budget, budget],
        layout=worlds.Layout(6, 6, directions=MOVES, action_names=MOVE_NAMES),
        recipe=worlds.recipe("six_by_six", recipe, six_by_six.__kwdefaults__, module=HERE),
    )


# --- rewards by the distance to objects: Objectworld --------------------------------------------


def objectworld(
    seed: int = 0, *, size: int = 32, objects: int = 50, wind: float = 0.3, discount: float = 0.9
) -> worlds.World:
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
    from scipy.sparse import eye_array

    recipe = {"seed": seed, "size": size, "objects": objects, "wind": wind, "discount": discount}
    size, objects = worlds.integer(size, "size", 2), worlds.integer(objects, "objects", 1)
    if objects > size * size:
        raise InvalidModel(f"objects must fit into {size * size} cells; got {objects}")
    draw = np.random.default_rng(worlds.integer(seed, "seed", 0))
    cells = draw.choice(size * size, objects, replace=False)
    colours = draw.integers(0, 2, size=(objects, 2))
    worth = object_worth(size, cells, colours[:, 1])
    mdp = MDP(windy_moves(size, STAYING, wind), np.full(size * size, 1.0 / size**2), discount)
    if not mdp.discount > 0:
        raise InvalidModel(f"discount must be above 0; got {discount}")
    return worlds.World.of(
        mdp,
        Features(eye_array(size * size)),
        worth / mdp.discount,
        layout=worlds.Layout(size, size, directions=STAYING, action_names=(*MOVE_NAMES, "stay")),
        recipe=worlds.recipe("objectworld", recipe, objectworld.__kwdefaults__, module=HERE),
    )


def object_worth(size: int, cells: np.ndarray, outer: np.ndarray) -> np.ndarray:
    """[S] worth of each cell, for objects in these cells with these outer colours."""
    every = np.arange(size * size)[:, None]
    far = np.abs(every % size - cells % size) + np.abs(every // size - cells // size)
    near = [(far[:, outer == colour] <= reach).any(axis=1) for colour, reach in ((0, 3), (1, 2))]
    return np.where(near[0], np.where(near[1], 1.0, -1.0), 0.0)


def windy_moves(size: int, moves: Sequence[tuple[int, int]], wind: float) -> Successors:
    """Transitions [S, A, 5] of a grid with state = x + size * y, as the sources of two worlds have.

    A move succeeds with 1 - wind + wind / A, every other neighbour has wind / A; what would leave
    the grid stays. Rows that do not add up to 1 are scaled, as where staying is an action.
    """
    wind = worlds.number(wind, "wind", "a probability", lambda p: 0.0 <= p <= 1.0)
    reached, inside = worlds.neighbours(size, STAYING)
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


# --- Rust's buses ---------------------------------------------------------------------------------

BINS, MILES = 90, 450_000  # which the bins divide
# Replacement cost and maintenance (thousandths a bin) as published, by groups of buses.
ENGINE_COSTS = {
    (4,): (10.0750, 2.2930),
    (1, 2, 3): (11.7270, 4.8259),
    (1, 2, 3, 4): (9.7558, 2.6275),
}


def buses(
    usage: Sequence[float] = (0.3919, 0.5953, 0.0128),
    *,
    weights: Sequence[float] = ENGINE_COSTS[4,],
    discount: float = 0.9999,
    bins: int = BINS,
) -> worlds.World:
    """Rust's (1987) bus engines: keep (0) or replace (1), at so many bins of 5 000 miles.

    Mileage grows by the usage of the month, from where it is or, after a replacement, from 0.
    Replacing costs the first weight, keeping .001 times the second for every bin. Temperature 1.

    Args:
        usage: chances to drive on by 0, 1, 2, ... bins in a month.
        weights: replacement cost and maintenance.
        discount: of a month.
        bins: how many there are; the last one keeps.
    """
    recipe = {"usage": list(map(float, usage)), "weights": list(map(float, weights))}
    recipe |= {"discount": discount, "bins": worlds.integer(bins, "bins", 2)}
    shares = worlds.distributions(usage, (len(usage),), "usage", "bin")
    after = np.minimum(np.arange(bins)[:, None] + np.arange(len(shares)), bins - 1)
    renewed = np.minimum(np.broadcast_to(np.arange(len(shares)), after.shape), bins - 1)
    states = np.stack([after, renewed], axis=1)
    mdp = MDP(
        Successors(states, np.broadcast_to(shares / shares.sum(), states.shape)),
        np.eye(bins)[0],
        discount,
    )
    table = np.zeros((bins, 2, 2))
    table[:, 1, 0] = -1.0
    table[:, 0, 1] = -0.001 * np.arange(bins)
    features = Features(table, reward_names=["replacement", "maintenance"])
    spare = {"weights": list(ENGINE_COSTS[4,]), "discount": 0.9999, "bins": BINS}
    return worlds.World.of(
        mdp,
        features,
        np.asarray(weights, float),
        layout=worlds.Layout(
            state_names=tuple(f"{b * MILES / bins:,.0f} miles" for b in range(bins)),
            action_names=("keep", "replace"),
        ),
        recipe=worlds.recipe("buses", recipe, spare, module=HERE),
    )


# --- demonstrators with other rewards: 3 x 3 ------------------------------------------------------

THREE = ((0, -1), (0, 1), (-1, 0), (1, 0), (0, 0))  # (row, column) steps
THREE_NAMES = ("left", "right", "up", "down", "stay")


def three_by_three(seed: int = 0, *, random_actions: float = 0.0) -> worlds.World:
    """A fresh 3 x 3 grid of Lindner et al. (2024); state = x + 3 y.

    Five actions, of which the world takes a random one with chance `random_actions`; discount .9,
    start uniform. Two goals are worth 1; three other cells are charged 1, each by one of two
    constraints with limits from U[0, 1]. All is drawn again until some policy keeps both limits,
    and after every hundred draws the largest limit doubles. Rewards and costs count on arrival: a
    feature is the chance of the cell to which an action leads, for the reward and for each cost.

    Args:
        seed: names the draw.
        random_actions: chance that a random action is taken instead.
    """
    recipe = {"seed": worlds.integer(seed, "seed", 0), "random_actions": random_actions}
    if not isinstance(random_actions, int | float | np.number) or not 0 <= random_actions <= 1:
        raise InvalidModel(f"random_actions must be a probability; got {random_actions!r:.60}")
    draw, share = np.random.default_rng(seed), float(random_actions)
    certain_moves = np.eye(9)[
        worlds.neighbours(3, THREE)[0]
    ]  # [9, 5, 9]; what would leave the grid stays
    moves = (1.0 - share) * certain_moves + share * certain_moves.mean(axis=1, keepdims=True)
    mdp = MDP(moves, np.full(9, 1.0 / 9.0), 0.9)
    features = Features(moves, [moves, moves])
    attempt = 0
    while True:
        attempt += 1
        cells = draw.choice(9, 5, replace=False)
        goals = np.isin(np.arange(9), cells[:2]).astype(float)
        owner = draw.integers(0, 2, size=3)
        costs = [np.isin(np.arange(9), cells[2:][owner == k]).astype(float) for k in range(2)]
        limits = draw.uniform(0.0, 2.0 ** (attempt // 100), size=2)
        truth = features.objective(goals, costs, limits)
        is_feasible = solve(mdp, truth, throw=False).status is not Status.INFEASIBLE
        if is_feasible or attempt == 10_000:
            break
    return worlds.World.of(
        mdp,
        features,
        goals,
        costs,
        limits,
        layout=worlds.Layout(3, 3, directions=THREE, action_names=THREE_NAMES),
        recipe=worlds.recipe("three_by_three", recipe, three_by_three.__kwdefaults__, module=HERE),
    )


def demonstrator_rewards(
    world: worlds.World, count: int, *, seed: int = 0, same: bool = True
) -> np.ndarray:
    """[count, 9] reward weights of demonstrators in a 3 x 3 world, as its authors draw them.

    Args:
        world: of `three_by_three`.
        count: how many.
        seed: names the draw.
        same: around one mean, N(mean, .1); otherwise each is a draw of its own, a new task.
    """
    draw = np.random.default_rng(worlds.integer(seed, "seed", 0))
    free = np.flatnonzero(sum(world.cost_weights) == 0)

    def one() -> np.ndarray:
        weights = np.zeros(9)
        weights[draw.choice(free, 2)] = draw.uniform(0.0, 1.0, size=2)  # twice the same is one goal
        return weights

    if not same:
        return np.array([one() for _ in range(worlds.integer(count, "count", 1))])
    return draw.normal(one(), 0.1, size=(worlds.integer(count, "count", 1), 9))


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


def walls(number: int | None = None, *, seed: int = 0) -> worlds.World:
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
    recipe = {"number": number} if number is not None else {"seed": worlds.integer(seed, "seed", 0)}
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
    called = worlds.recipe("walls", recipe, module=HERE)
    return worlds.World.of(mdp, features, *truth, layout=_eight_layout(7), recipe=called)


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


def _eight_layout(size: int) -> worlds.Layout:
    return worlds.Layout(size, size, directions=EIGHT, action_names=EIGHT_NAMES)


def eight_moves(size: int, goal: tuple[int, int], *, stay: bool) -> MDP:
    """A grid of eight moves that ends at a goal; moves off it `stay`, or are not there.

    Discount .99 where they stay and 1 where not, as in the two sources. Start in the first cell.
    """
    reached, inside = worlds.neighbours(size, EIGHT)
    there = np.ones_like(inside) if stay else inside
    there[goal[0] * size + goal[1]] = False
    moves = Successors(reached[:, :, None], np.ones((*reached.shape, 1)))
    return MDP(moves, np.eye(size * size)[0], 0.99 if stay else 1.0, available=there)


def nine_by_nine(seed: int | None = None) -> worlds.World:
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
        draw = np.random.default_rng(worlds.integer(seed, "seed", 0))
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
    called = worlds.recipe("nine_by_nine", {} if seed is None else {"seed": seed}, module=HERE)
    return worlds.World.of(mdp, features, *truth, layout=_eight_layout(9), recipe=called)


# --- what was recorded ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Recorded(worlds.World):
    """A published world together with what was recorded in it.

    Attributes:
        demonstrations: the sets that were recorded; one where there is one.
        tables: name -> further arrays of the source, by state.
    """

    demonstrations: tuple[Demonstrations, ...]
    tables: Mapping[str, np.ndarray]


def data_folder(name: str, folder: str | Path | None = None) -> Path:
    """The folder of this name with recorded data, below the one given or named by TACIT_DATA."""
    root = os.environ.get("TACIT_DATA") if folder is None else folder
    if root is None:
        raise InvalidModel(
            f"the recordings of {name} are no part of tacit: the environment variable TACIT_DATA "
            "must name the folder that holds them, or `folder` must; got neither"
        )
    if not (Path(root) / name).is_dir():
        raise InvalidModel(f"the folder of recordings must hold a folder {name}; got {root}")
    return Path(root) / name


def recorded_objectworld(trajectories: int = 512, *, folder: str | Path | None = None) -> Recorded:
    """The published Objectworld with its 4, 32, 128 or 512 trajectories of 8 steps.

    `tables` has "distances" [S, 4] to the nearest object by inner and outer colour, "start" [S] and
    "cloned_policy" [S, A] as the source counted it.
    """
    file = data_folder("objectworld", folder) / "objectworld.npz"
    known = (4, 32, 128, 512)
    if trajectories not in known:
        raise InvalidModel(f"trajectories must be one of {known}; got {trajectories!r:.60}")
    try:
        with np.load(file) as held:
            arrays = dict(held)
    except (ValueError, BadZipFile) as error:
        raise InvalidModel(f"{file} must be an archive of arrays: {error}") from error
    worth = arrays[f"reward_{trajectories}"].astype(float)
    start = arrays[f"start_{trajectories}"].astype(float)
    steps = arrays[f"trajectories_{trajectories}"].astype(np.int64)  # [n, 8, 4]
    states = np.concatenate([steps[:, :, 0], steps[:, -1:, 3]], axis=1)
    seen = Demonstrations.from_trajectories(zip(states, steps[:, :, 1], strict=True))
    tables = {
        "distances": arrays[f"features_{trajectories}"],
        "start": start,
        "cloned_policy": arrays[f"cloned_policy_{trajectories}"],
    }
    fresh = objectworld()  # the same but for where its objects lie, and its start
    mdp = replace(fresh.mdp, initial=start / start.sum())
    world = worlds.World.of(mdp, fresh.features, worth / mdp.discount, layout=fresh.layout)
    called = f"tacit_lab.worlds.recorded_objectworld({trajectories})"
    return recorded(world, (seen,), tables, called)


def recorded_nine_by_nine(*, folder: str | Path | None = None) -> Recorded:
    """The published 9 x 9 grid with its ten sets of 100 demonstrations."""
    path = data_folder("scobee", folder) / "scobee_example_trajectories.json"
    sets = json.loads(path.read_text())[0]["trajs"]
    seen = tuple(
        Demonstrations.from_trajectories(
            zip(one["state_seq"], one["action_seq"], strict=True),
            ended=np.ones(len(one["state_seq"]), bool),
        )
        for one in sets
    )
    return recorded(nine_by_nine(), seen, {}, "tacit_lab.worlds.recorded_nine_by_nine()")


def recorded_buses(
    groups: Sequence[int] = (4,),
    *,
    discount: float = 0.9999,
    bins: int = BINS,
    folder: str | Path | None = None,
) -> Recorded:
    """Rust's buses of these groups, 1 to 8: usage by counts, one history a bus, truth as published.

    Bins divide 450 000 miles; Rust has 90 or 175 of them.

    The first month of a bus is dropped. Mileage counts from the last replacement; after one, usage
    is rounded up. `tables` has "usage" [N], the bins driven in each month. Where nothing was
    published about the groups the truth is that of groups 1 to 4.
    """
    wanted = tuple(sorted(set(map(int, groups))))
    path = data_folder("rust", folder)
    readings, renewals = (_columns(path / f"{name}.csv") for name in ("odometer", "replacements"))
    chosen = np.isin(readings["group"], wanted)
    if not chosen.any():
        known = np.unique(readings["group"]).astype(int).tolist()
        raise InvalidModel(f"groups must be of {known}; got {list(groups)!r:.60}")
    walks, usage, names, miles = [], [], [], MILES / worlds.integer(bins, "bins", 2)
    for bus in dict.fromkeys(readings["bus"][chosen].tolist()):
        reading = readings["odometer"][chosen & (readings["bus"] == bus)]
        at = np.sort(renewals["odometer"][(renewals["bus"] == bus) & (renewals["odometer"] > 0)])
        number = np.searchsorted(at, reading)
        place = (reading - np.r_[0.0, at][number]) / miles
        state, replaced = place.astype(int), np.diff(number) > 0
        # A new engine is at 0 somewhere within the month: its usage is rounded up.
        usage.append(np.where(replaced, np.ceil(place[1:]).astype(int), np.diff(state)))
        walks.append((state[1:], np.r_[replaced[1:], False].astype(int)))
        names.append(f"{bus:.0f}")
    months = np.concatenate(usage)
    shares = np.bincount(months) / len(months)
    truth = ENGINE_COSTS.get(wanted, ENGINE_COSTS[(1, 2, 3, 4)])
    world = buses(shares.tolist(), weights=truth, discount=discount, bins=bins)
    seen = Demonstrations.from_trajectories(walks, groups=names)
    called = f"tacit_lab.worlds.recorded_buses({wanted})"
    return recorded(world, (seen,), {"usage": months}, called)


def _columns(path: Path) -> dict[str, np.ndarray]:
    """The columns of a table of readings by name, as numbers."""
    needed = ("group", "bus", "odometer")
    with open(path, encoding="utf-8") as file:
        names = file.readline().strip().split(",")
        if missing := set(needed) - set(names):
            raise InvalidModel(f"{path} must have a column {min(missing)}; got {', '.join(names)}")
        try:
            places = [names.index(name) for name in needed]
            table = np.loadtxt(file, delimiter=",", usecols=places, ndmin=2)
        except ValueError as error:
            raise InvalidModel(
                f"{path} must hold numbers of {', '.join(needed)}: {error}"
            ) from error
    return dict(zip(needed, table.T, strict=True))


def recorded(
    world: worlds.World,
    seen: tuple[Demonstrations, ...],
    tables: Mapping[str, np.ndarray],
    called: str,
) -> Recorded:
    """The world, with what was recorded in it."""
    own = {
        name: getattr(world, name) for name in worlds.World.__dataclass_fields__ if name != "recipe"
    }
    return Recorded(**own, recipe=called, demonstrations=seen, tables=tables)
