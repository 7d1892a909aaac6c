"""The grid of the paper's section "Experiments": walk towards a corner, pay for climbing a hill."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.model.mdp import MDP, Successors
from tacit.model.names import Layout
from tacit.model.objective import Features
from tacit.worlds.world import World, budgets_between, recipe

ACTIONS = ("up", "down", "left", "right")
DIRECTIONS = ((-1, 0), (1, 0), (0, -1), (0, 1))
REWARD_SCALE = 2.5e-3
COST_SCALE = 0.1


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
    slopes: Any = None,
    peak: Any = None,
    reward_weights: Any = None,
    cost_weights: Any = None,
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
    hill, size = _hill(hill), _size(size)
    if not isinstance(slip, int | float | np.number) or not 0.0 <= slip <= 1.0:
        raise InvalidModel(f"slip must be a probability; got {slip!r:.60}")
    drawn = _draw(seed, size)
    given = (slopes, peak, reward_weights, cost_weights)
    names = ("slopes", "peak", "reward_weights", "cost_weights")
    c, h, w_r, w_c = (
        d if g is None else _vector(g, len(d), name)
        for name, g, d in zip(names, given, drawn, strict=True)
    )
    features = hill_features(size, hill=hill, slopes=c, peak=h)
    start = np.zeros(size * size)
    start[0] = 1.0
    mdp = MDP(_moves(size, float(slip), slip_to_intended, slip_into_walls), start, discount)
    truth = features.objective(w_r, [w_c], [_budget(budget)])
    if tightness is not None:
        truth = features.objective(w_r, [w_c], budgets_between(mdp, truth, tightness))
    arguments = dict(zip(names, (None if g is None else np.asarray(g) for g in given), strict=True))
    asked = {
        "seed": int(seed),
        "size": size,
        "discount": mdp.discount,
        "hill": hill,
        "budget": budget,
        "tightness": tightness,
        "slip": slip,
        "slip_to_intended": slip_to_intended,
        "slip_into_walls": slip_into_walls,
        **arguments,
    }
    return World(
        mdp, features, truth, w_r, [w_c], _layout(size), recipe("hill_grid", asked, _DEFAULTS)
    )


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


def _draw(seed: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Slopes [2], peak [2], reward weights [2] and cost weights [4] of this seed."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidModel(f"seed must be a non-negative integer; got {seed!r:.60}")
    random = np.random.default_rng(seed)
    slopes = random.random(2)
    peak = random.integers(1, size - 1, size=2)
    q, a, b = random.random(3)
    return slopes, peak, np.array([q, 1 - q]), np.array([a, 1 - a, b, 1 - b])


def _moves(size: int, slip: float, to_intended: bool, into_walls: bool) -> Successors:
    """Transitions of the grid: 1 - slip where intended, else any neighbour, equally likely."""
    cells = np.arange(size * size)
    place = np.stack([cells // size, cells % size], axis=1)
    target = place[:, None, :] + np.array(DIRECTIONS)  # [S, 4, 2]
    inside = ((target >= 0) & (target < size)).all(axis=2)
    # [S, 4] the cell in each direction; a wall sends back to where one stands.
    cell = np.where(inside, target @ np.array([size, 1]), cells[:, None])
    open_to_slip = np.logical_or(inside, into_walls)[:, None, :] & (
        to_intended | ~np.eye(4, dtype=bool)
    )
    probabilities = slip * open_to_slip / open_to_slip.sum(axis=2, keepdims=True)
    probabilities[:, range(4), range(4)] += 1.0 - slip
    return Successors(np.repeat(cell[:, None, :], 4, axis=1), probabilities)


def _layout(size: int) -> Layout:
    return Layout(size, size, DIRECTIONS, action_names=ACTIONS)


def _hill(word: Any) -> Hill:
    try:
        return Hill(word)
    except ValueError:
        words = " or ".join(repr(h.value) for h in Hill)
        raise InvalidModel(f"hill must be {words}; got {word!r:.60}") from None


def _size(size: Any) -> int:
    whole = isinstance(size, int | np.integer) and not isinstance(size, bool)
    if not whole or size < 3:
        raise InvalidModel(
            f"size must be an integer of at least 3, for a hill inside; got {size!r:.60}"
        )
    return int(size)


def _budget(budget: Any) -> float:
    try:
        return float(budget)
    except (TypeError, ValueError):
        raise InvalidModel(f"budget must be a number; got {budget!r:.60}") from None


def _vector(given: Any, length: int, name: str) -> np.ndarray:
    try:
        vector = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidModel(f"{name} must hold {length} numbers; got {given!r:.60}") from None
    if vector.shape != (length,) or not np.isfinite(vector).all():
        raise InvalidModel(f"{name} must hold {length} finite numbers; got {given!r:.60}")
    return vector


_DEFAULTS = dict(hill_grid.__kwdefaults__ or {})
