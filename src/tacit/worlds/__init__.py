"""Worlds with a known truth: the paper's grid, published worlds, random models, Gymnasium's.

Here stand the published worlds whose budgets are met in expectation, and Rust's buses.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidModel
from tacit.files.tables import open_table
from tacit.model.mdp import MDP, Successors
from tacit.model.objective import Features
from tacit.model.transitions import Layout
from tacit.worlds.draws import (
    Hill,
    PublishedFigure,
    hill_grid,
    published_figure,
    published_values,
    random,
)
from tacit.worlds.published import (
    MOVE_NAMES,
    MOVES,
    Recorded,
    data_folder,
    nine_by_nine,
    objectworld,
    recorded,
    recorded_nine_by_nine,
    recorded_objectworld,
    walls,
    windy_moves,
)
from tacit.worlds.world import World, gymnasium, integer, neighbours, recipe

__all__ = [
    "Hill",
    "Layout",
    "PublishedFigure",
    "Recorded",
    "World",
    "buses",
    "demonstrator_rewards",
    "gymnasium",
    "hill_grid",
    "nine_by_nine",
    "objectworld",
    "published_figure",
    "published_values",
    "random",
    "recorded_buses",
    "recorded_nine_by_nine",
    "recorded_objectworld",
    "six_by_six",
    "three_by_three",
    "walls",
]

# --- known constraints: 6 x 6 ---------------------------------------------------------------------


def six_by_six(seed: int | None = None, *, budget: float = 0.02, noise: float = 0.1) -> World:
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
    asked = {} if seed is None else {"seed": integer(seed, "seed", 0)}
    asked |= {"budget": budget, "noise": noise}
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
    return World.of(
        MDP(moves, free / free.sum(), 0.9),
        features,
        0.5 * np.isin(border, goals),
        [np.ones(1), np.ones(1)],
        [budget, budget],
        layout=Layout(6, 6, directions=MOVES, action_names=MOVE_NAMES[:4]),
        recipe=recipe("six_by_six", asked, six_by_six.__kwdefaults__),
    )


# --- demonstrators with other rewards: 3 x 3 ------------------------------------------------------

THREE = ((0, -1), (0, 1), (-1, 0), (1, 0), (0, 0))  # (row, column) steps
THREE_NAMES = ("left", "right", "up", "down", "stay")


def three_by_three(seed: int = 0, *, random_actions: float = 0.0) -> World:
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
    from tacit.forward.solution import Status
    from tacit.forward.solve import solve

    asked = {"seed": integer(seed, "seed", 0), "random_actions": random_actions}
    if not isinstance(random_actions, int | float | np.number) or not 0 <= random_actions <= 1:
        raise InvalidModel(f"random_actions must be a probability; got {random_actions!r:.60}")
    draw, share = np.random.default_rng(seed), float(random_actions)
    sure = np.eye(9)[neighbours(3, THREE)[0]]  # [9, 5, 9]; what would leave the grid stays
    moves = (1.0 - share) * sure + share * sure.mean(axis=1, keepdims=True)
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
        kept = solve(mdp, truth, throw=False).status is not Status.INFEASIBLE
        if kept or attempt == 10_000:
            break
    return World.of(
        mdp,
        features,
        goals,
        costs,
        limits,
        layout=Layout(3, 3, directions=THREE, action_names=THREE_NAMES),
        recipe=recipe("three_by_three", asked, three_by_three.__kwdefaults__),
    )


def demonstrator_rewards(
    world: World, count: int, *, seed: int = 0, same: bool = True
) -> np.ndarray:
    """[count, 9] reward weights of demonstrators in a 3 x 3 world, as its authors draw them.

    Args:
        world: of `three_by_three`.
        count: how many.
        seed: names the draw.
        same: around one mean, N(mean, .1); otherwise each is a draw of its own, a new task.
    """
    draw = np.random.default_rng(integer(seed, "seed", 0))
    free = np.flatnonzero(sum(world.cost_weights) == 0)

    def one() -> np.ndarray:
        weights = np.zeros(9)
        weights[draw.choice(free, 2)] = draw.uniform(0.0, 1.0, size=2)  # twice the same is one goal
        return weights

    if not same:
        return np.array([one() for _ in range(integer(count, "count", 1))])
    return draw.normal(one(), 0.1, size=(integer(count, "count", 1), 9))


# --- Rust's buses ---------------------------------------------------------------------------------

BINS, MILES = 90, 5_000
# Replacement cost and maintenance (thousandths a bin) as published, by groups of buses.
ENGINE_COSTS = {
    (4,): (10.0750, 2.2930),
    (1, 2, 3): (11.7270, 4.8259),
    (1, 2, 3, 4): (9.7558, 2.6275),
}


def buses(
    usage: Sequence[float] = (0.3919, 0.5953, 0.0128),
    *,
    weights: Sequence[float] = ENGINE_COSTS[(4,)],
    discount: float = 0.9999,
    bins: int = BINS,
) -> World:
    """Rust's (1987) bus engines: keep (0) or replace (1), at so many bins of 5 000 miles.

    Mileage grows by the usage of the month, from where it is or, after a replacement, from 0.
    Replacing costs the first weight, keeping .001 times the second for every bin. Temperature 1.

    Args:
        usage: chances to drive on by 0, 1, 2, ... bins in a month.
        weights: replacement cost and maintenance.
        discount: of a month.
        bins: how many there are; the last one keeps.
    """
    asked = {"usage": list(map(float, usage)), "weights": list(map(float, weights))}
    asked |= {"discount": discount, "bins": integer(bins, "bins", 2)}
    shares = np.asarray(usage, float)
    if shares.ndim != 1 or not (shares >= 0).all() or abs(shares.sum() - 1.0) > 1e-6:
        raise InvalidModel(
            f"usage must be a distribution over 0, 1, 2, ... bins; got {usage!r:.60}"
        )
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
    spare = {"weights": list(ENGINE_COSTS[(4,)]), "discount": 0.9999, "bins": BINS}
    return World.of(
        mdp,
        features,
        np.asarray(weights, float),
        layout=Layout(
            state_names=tuple(f"{b * BINS * MILES / bins:,.0f} miles" for b in range(bins)),
            action_names=("keep", "replace"),
        ),
        recipe=recipe("buses", asked, spare),
    )


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
    walks, usage, names, miles = [], [], [], BINS * MILES / integer(bins, "bins", 2)
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
    called = f"tacit.worlds.recorded_buses({wanted})"
    return recorded(world, (seen,), {"usage": months}, called)


def _columns(path: Path) -> dict[str, np.ndarray]:
    """The columns of a table of readings by name, as numbers."""
    table = open_table(path, InvalidModel, expected=("group", "bus", "odometer"))
    table.require("group", "bus", "odometer")
    read = table.read(("group", "bus", "odometer"))
    for column in read.values():
        if column.texts is not None:
            raise column.wrong(0, "a number")
    return {name: column.values.astype(float) for name, column in read.items()}
