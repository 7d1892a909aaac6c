"""The grid of the paper's section "Experiments": walk towards a corner, pay for climbing a hill.

And the one draw of it whose results were published, read off the authors' slides cell by cell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidModel
from tacit.model.mdp import MDP, Successors
from tacit.model.names import Layout
from tacit.model.objective import Features
from tacit.model.transitions import read_only
from tacit.worlds.world import World, budgets_between, integer, recipe

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
    kind, size = _hill(hill), integer(size, "size", 3, ", for a hill inside")
    if not isinstance(slip, int | float | np.number) or not 0.0 <= slip <= 1.0:
        raise InvalidModel(f"slip must be a probability; got {slip!r:.60}")
    drawn = _draw(seed, size)
    c, h, w_r, w_c = (
        draw if asked[name] is None else _vector(asked[name], len(draw), name)
        for name, draw in drawn.items()
    )
    features = hill_features(size, hill=kind, slopes=c, peak=h)
    start = np.zeros(size * size)
    start[0] = 1.0
    mdp = MDP(_moves(size, float(slip), slip_to_intended, slip_into_walls), start, discount)
    truth = features.objective(w_r, [w_c], [_number(budget, "budget")])
    if tightness is not None:
        truth = features.objective(w_r, [w_c], budgets_between(mdp, truth, tightness))
    asked |= {"discount": mdp.discount, "hill": kind}
    asked |= {name: np.asarray(asked[name]) for name in drawn if asked[name] is not None}
    return World(
        mdp=mdp,
        features=features,
        truth=truth,
        reward_weights=w_r,
        cost_weights=[w_c],
        layout=Layout(size, size, DIRECTIONS, action_names=ACTIONS),
        recipe=recipe("hill_grid", asked, hill_grid.__kwdefaults__),
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


def _hill(word: Hill | str) -> Hill:
    try:
        return Hill(word)
    except ValueError:
        words = " or ".join(repr(h.value) for h in Hill)
        raise InvalidModel(f"hill must be {words}; got {word!r:.60}") from None


def _number(given: float, name: str) -> float:
    try:
        return float(given)
    except (TypeError, ValueError):
        raise InvalidModel(f"{name} must be a number; got {given!r:.60}") from None


def _vector(given: npt.ArrayLike, length: int, name: str) -> np.ndarray:
    try:
        vector = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        vector = np.empty(0)
    if vector.shape != (length,) or not np.isfinite(vector).all():
        raise InvalidModel(f"{name} must hold {length} finite numbers; got {given!r:.60}")
    return vector


# Both cost panels are symmetric about the hill at (2, 2): rows 0 to 2 and columns 0 to 2 say all.
_TRUE_COST = ((0.069, 0.11, 0.20), (0.12, 0.17, 0.26), (0.20, 0.25, 0.34))
_RECOVERED_COST = ((0.041, 0.11, 0.23), (0.096, 0.17, 0.28), (0.16, 0.23, 0.35))
_SLOPES = (0.62, 0.73)  # of the fit; the slides print none
_PEAK = (2, 2)
_REWARD_WEIGHTS = (0.68, 0.32)
_RECOVERED_REWARD_WEIGHTS = (0.97, 0.03)
_DOWN, _RIGHT = 1, 3


@dataclass(frozen=True, eq=False)
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
        reward_weights=read_only(np.array(_REWARD_WEIGHTS)),
        recovered_reward_weights=read_only(np.array(_RECOVERED_REWARD_WEIGHTS)),
        cost=read_only(_mirrored(_TRUE_COST)),
        recovered_cost=read_only(_mirrored(_RECOVERED_COST)),
        policy=read_only(np.repeat([_DOWN, _RIGHT], [20, 5])),
    )


def published_figure(*, discount: float = 0.9, tightness: float | None = None) -> World:
    """The `World` of the published figure: reward .68 row + .32 column, hill at (2, 2).

    The four cost weights are the non-negative least-squares fit to the 25 printed costs, which it
    meets to 0.004. They sum to about 3: neither to 2, as in the text, nor to 1, as its algorithm.

    Args:
        discount: not given in the paper.
        tightness: as of `hill_grid`; None keeps the published budget of 1.
    """
    from scipy.optimize import nnls

    hill = hill_features(5, hill=Hill.ABSOLUTE, slopes=np.array(_SLOPES), peak=np.array(_PEAK))
    cost_weights, _ = nnls(hill.costs[0], _mirrored(_TRUE_COST))
    world = hill_grid(
        discount=discount,
        tightness=tightness,
        slopes=_SLOPES,
        peak=_PEAK,
        reward_weights=_REWARD_WEIGHTS,
        cost_weights=cost_weights,
    )
    asked = {"discount": world.mdp.discount, "tightness": tightness}
    call = recipe("published_figure", asked, published_figure.__kwdefaults__)
    return replace(world, recipe=call)


def _mirrored(quarter: tuple[tuple[float, ...], ...]) -> np.ndarray:
    """[25] the grid whose rows and columns 0 to 2 are `quarter`, symmetric about (2, 2)."""
    order = [0, 1, 2, 1, 0]
    return np.array(quarter)[np.ix_(order, order)].ravel()
