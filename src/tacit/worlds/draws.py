"""Worlds that are drawn: the paper's grid of hills, and random ones of any size.

The grid is that of the section "Experiments": walk towards a corner, pay for climbing a hill. The
one draw of it whose results were published was read off the authors' slides cell by cell.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidModel
from tacit.model.arguments import integer, number
from tacit.model.layout import Layout
from tacit.model.mdp import MDP, Successors
from tacit.model.objective import Features
from tacit.worlds.world import World, budgets_between, neighbours, recipe

ACTIONS = ("up", "down", "left", "right")
DIRECTIONS = ((-1, 0), (1, 0), (0, -1), (0, 1))
REWARD_SCALE = 2.5e-3
COST_SCALE = 0.1
# Slack that budgets leave a randomly drawn policy, as a share of what costs can differ by.
MARGIN = 0.005


class Hill(Enum):
    """How the cost falls away from the peak. The value is the word for the command line."""

    ABSOLUTE = "absolute"
    AS_WRITTEN = "as-written"

    def height(self, slope: float, peak: int, positions: np.ndarray) -> np.ndarray:
        """exp(-slope |peak - x|), or exp(-slope (peak - x)) as the paper prints it: no hill."""
        distance = peak - positions
        return np.exp(-slope * (np.abs(distance) if self is Hill.ABSOLUTE else distance))


def hill_grid(
    seed: int = 0,
    *,
    size: int = 5,
    discount: float = 0.9,
    hill: Hill | str = Hill.ABSOLUTE,
    budget: float = 1.0,
    tightness: float | None = None,
    slip: float = 0.3,
    slip_to_intended: bool = False,
    slip_into_walls: bool = True,
    slopes: npt.ArrayLike | None = None,
    peak: npt.ArrayLike | None = None,
    reward_weights: npt.ArrayLike | None = None,
    cost_weights: npt.ArrayLike | None = None,
) -> World:
    """The paper's grid `World`, at the draw of this seed. State = row * size + column; start 0.

    x is the row, y the column. Drawn from `numpy.random.default_rng(seed)`, always all and in this
    order: slopes c1, c2 ~ U[0, 1]; peak h1, h2 ~ U{1..size-2}; q ~ U[0, 1] for reward weights
    [q, 1 - q]; a, b ~ U[0, 1] for cost weights [a, 1 - a, b, 1 - b]. So naming one of them does not
    change the others. The published cost weights sum to 2; `World.in_gauge` has them sum to 1.

    Args:
        seed: names the draw.
        size: rows and columns, at least 3.
        discount: not given in the paper.
        hill: `Hill` or its word, "absolute" or "as-written".
        budget: largest expected discounted cost; not read where `tightness` is given.
        tightness: in (0, 1); places the budget at least cost + tightness * (cost of the
            reward-optimal policy - least cost), where it surely binds.
        slip: probability of moving into any of the neighbouring cells instead, all equally likely.
        slip_to_intended: whether the intended cell counts among those. If not, an action succeeds
            with probability 1 - slip exactly.
        slip_into_walls: whether a wall counts among those; to slip into it is to stay. An
            intended move into a wall always stays.
        slopes: (c1, c2) instead of the draw.
        peak: (h1, h2) instead of the draw.
        reward_weights: [2] instead of the draw.
        cost_weights: [4] instead of the draw.
    """
    asked = dict(locals())
    kind, size = _hill(hill), integer(size, "size", 3)  # or there is no cell for a hill inside
    slip = number(slip, "slip", "a probability", lambda p: 0.0 <= p <= 1.0)
    drawn = _draw(seed, size)
    c, h, w_r, w_c = (
        draw if asked[name] is None else _vector(asked[name], len(draw), name)
        for name, draw in drawn.items()
    )
    features = hill_features(size, hill=kind, slopes=c, peak=h)
    moves = _moves(size, slip, slip_to_intended, slip_into_walls)
    start = np.zeros(size * size)
    start[0] = 1.0
    mdp = MDP(moves, start, discount)
    budgets = np.array([number(budget, "budget", "a number", lambda _: True)])
    if tightness is not None:
        truth = features.objective(w_r, [w_c], budgets)
        budgets = budgets_between(mdp, truth, tightness)
    asked |= {"discount": mdp.discount, "hill": kind}
    asked |= {name: np.asarray(asked[name]) for name in drawn if asked[name] is not None}
    layout = Layout(size, size, directions=DIRECTIONS, action_names=ACTIONS)
    call = recipe("hill_grid", asked, hill_grid.__kwdefaults__)
    return World.of(mdp, features, w_r, [w_c], budgets, layout=layout, recipe=call)


def hill_features(size: int, *, hill: Hill, slopes: np.ndarray, peak: np.ndarray) -> Features:
    """The paper's `Features`: reward [S, 2] of row and column, cost [S, 4] of hill and border."""
    cells = np.arange(size * size)
    x, y = cells // size, cells % size
    climb = [hill.height(slopes[0], peak[0], x), hill.height(slopes[1], peak[1], y)]
    border = [np.minimum(np.abs(size - 1 - x), x), np.minimum(np.abs(size - 1 - y), y)]
    return Features(
        reward=REWARD_SCALE * np.stack([x, y], axis=1),
        costs=[COST_SCALE * np.stack([*climb, *border], axis=1)],
        reward_names=("row", "column"),
        cost_names=[("hill by row", "hill by column", "border by row", "border by column")],
    )


def _draw(seed: int, size: int) -> dict[str, np.ndarray]:
    """Slopes [2], peak [2], reward weights [2] and cost weights [4] of this seed, by name."""
    random = np.random.default_rng(integer(seed, "seed", 0))
    slopes = random.random(2)
    peak = random.integers(1, size - 1, size=2)
    q, a, b = random.random(3)
    return {
        "slopes": slopes,
        "peak": peak,
        "reward_weights": np.array([q, 1 - q]),
        "cost_weights": np.array([a, 1 - a, b, 1 - b]),
    }


def _moves(size: int, slip: float, to_intended: bool, into_walls: bool) -> Successors:
    """Transitions of the grid: 1 - slip where intended, else any neighbour, equally likely."""
    cell, inside = neighbours(size, DIRECTIONS)
    open_to_slip = np.logical_or(inside, into_walls)[:, None, :] & (
        to_intended | ~np.eye(4, dtype=bool)
    )
    probabilities = slip * open_to_slip / open_to_slip.sum(axis=2, keepdims=True)
    probabilities[:, range(4), range(4)] += 1.0 - slip
    return Successors(np.repeat(cell[:, None, :], 4, axis=1), probabilities)


def _hill(word: Hill | str) -> Hill:
    try:
        return Hill(word)
    except ValueError:
        words = " or ".join(repr(h.value) for h in Hill)
        raise InvalidModel(f"hill must be {words}; got {word!r:.60}") from None


def _vector(given: npt.ArrayLike, length: int, name: str) -> np.ndarray:
    try:
        vector = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        vector = np.empty(0)
    if vector.shape != (length,) or not np.isfinite(vector).all():
        raise InvalidModel(f"{name} must hold {length} finite numbers; got {given!r:.60}")
    return vector


# Of the fit to the published figure; the slides print no slopes.
_SLOPES, _PEAK = (0.62, 0.73), (2, 2)
# The non-negative least-squares fit to its 25 printed costs.
_FITTED = (1.0024509493324052, 1.5755472623128506, 0.3227713755631529, 0.0747608833709418)


def published_figure(*, discount: float = 0.9, tightness: float | None = None) -> World:
    """The `World` of the published figure: reward .68 row + .32 column, hill at (2, 2).

    The four cost weights are the non-negative least-squares fit to the 25 printed costs, which it
    meets to 0.004. They sum to about 3: neither to 2, as in the text, nor to 1, as its algorithm.

    Args:
        discount: not given in the paper.
        tightness: as of `hill_grid`; None keeps the published budget of 1.
    """
    world = hill_grid(
        discount=discount,
        tightness=tightness,
        slopes=_SLOPES,
        peak=_PEAK,
        reward_weights=(0.68, 0.32),
        cost_weights=_FITTED,
    )
    asked = {"discount": world.mdp.discount, "tightness": tightness}
    call = recipe("published_figure", asked, published_figure.__kwdefaults__)
    return replace(world, recipe=call)


def random(
    seed: int = 0,
    *,
    states: int = 20,
    actions: int = 3,
    constraints: int = 1,
    discount: float = 0.9,
    successors: int | None = None,
    features: int = 3,
    by_action: bool = True,
    tightness: float | None = None,
) -> World:
    """A random `World` whose budgets can be met; it prints as the call that makes it again.

    Next states are uniform, their probabilities and the initial distribution flat on the simplex;
    features are uniform on [0, 1]; weights are flat on the simplex, so the truth is in the gauge of
    a recovery. Budgets are what a randomly drawn policy that takes every action spends, and 0.5 %
    of the largest less the least cost for ever: any number of them hold jointly, strictly; a single
    one binds in two of five draws. Transitions, reward and each cost have a random stream of their
    own: more constraints, say, leave the transitions as they are.

    Args:
        seed: names the draw.
        states: S.
        actions: A.
        constraints: K, 0 or more.
        discount: of the model.
        successors: next states drawn for each action (repeats add up); None draws min(S, 5).
        features: D, of the reward and of each cost.
        by_action: whether features are [S, A, D] or [S, D].
        tightness: in (0, 1); places the budgets between those of the most careful and of
            the reward-optimal policy, where at least one binds.
    """
    asked = dict(locals())
    for name, least in _LEAST.items():
        integer(asked[name], name, least)
    width = min(states, 5) if successors is None else integer(successors, "successors", 1)
    seeds = np.random.SeedSequence(int(seed)).spawn(4)
    moves, wants, plays = (np.random.default_rng(s) for s in seeds[:3])
    charges = [np.random.default_rng(s) for s in seeds[3].spawn(int(constraints))]

    next_states = moves.integers(0, states, size=(states, actions, width), dtype=np.int32)
    transitions = Successors(next_states, _simplex(moves, (states, actions, width)))
    mdp = MDP(transitions, _simplex(moves, (states,)), discount)

    shape = (states, actions, features) if by_action else (states, features)
    maps = Features(wants.random(shape), [draw.random(shape) for draw in charges])
    reward_weights = _simplex(wants, (features,))
    cost_weights = [_simplex(draw, (features,)) for draw in charges]
    truth = maps.objective(reward_weights, cost_weights, np.full(constraints, np.inf))
    if tightness is not None:
        budgets = budgets_between(mdp, truth, tightness)
    else:
        budgets = _budgets_with_margin(mdp, truth.tables(mdp)[1], plays)
    asked["discount"] = mdp.discount
    called = recipe("random", asked, _OPTIONS)
    return World.of(mdp, maps, reward_weights, cost_weights, budgets, recipe=called)


def _budgets_with_margin(mdp: MDP, costs: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """[K] what a randomly drawn policy spends, and a little more."""
    if not len(costs):
        return np.zeros(0)
    from tacit.forward.solution import visitation

    policy = _simplex(draw, (mdp.states, mdp.actions))
    flat, visits = costs.reshape(len(costs), -1), visitation(mdp, policy).ravel()
    # One product a row: a matrix product rounds differently with the number of rows.
    spent = np.array([np.vdot(row, visits) for row in flat])
    spread = (flat.max(axis=1) - flat.min(axis=1)) / (1.0 - mdp.discount)
    return spent + MARGIN * np.where(spread > 0, spread, 1.0)


def _simplex(draw: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform on the simplex along the last axis; every entry is positive."""
    # Exponentials over their sum are a flat Dirichlet. An exponential of exactly 0 is possible.
    gaps = np.maximum(draw.standard_exponential(shape), 1e-12)
    return gaps / gaps.sum(axis=-1, keepdims=True)


# The smallest value of each number.
_LEAST = {"states": 1, "actions": 1, "constraints": 0, "features": 1, "seed": 0}
# Seed and size are always printed; the other arguments only where they are not the default.
_SIZE = ("states", "actions", "constraints", "discount")
_OPTIONS = {k: v for k, v in (random.__kwdefaults__ or {}).items() if k not in _SIZE}
