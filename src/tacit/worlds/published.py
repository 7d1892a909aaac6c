"""The one draw whose results were published, read off the authors' slides cell by cell."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tacit.model.transitions import read_only
from tacit.worlds.hills import Hill, hill_features, hill_grid
from tacit.worlds.world import World, recipe

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
    return replace(
        world, recipe=recipe("published_figure", asked, {"discount": 0.9, "tightness": None})
    )


def _mirrored(quarter: tuple[tuple[float, ...], ...]) -> np.ndarray:
    """[25] the grid whose rows and columns 0 to 2 are `quarter`, symmetric about (2, 2)."""
    order = [0, 1, 2, 1, 0]
    return np.array(quarter)[np.ix_(order, order)].ravel()
