"""Where to put budgets so that they bind and can be met."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.mdp import MDP
from tacit.objective import Objective

# Costs closer than this, relative to their size, cannot be told apart after a solve to 1e-9.
SAME_COST = 1e-7


def budgets_between(mdp: MDP, truth: Objective, tightness: float) -> np.ndarray:
    """[K] budgets between the most careful policy's cost (tightness 0) and the reckless one's (1).

    budgets = careful + tightness * (reckless - careful), where the careful policy minimises the sum
    of the costs and the reckless one maximises the reward alone. A mixture of the two spends just
    the budgets, so they can be met jointly; their sum is below what the reckless policy spends, so
    at least one of them binds.

    Args:
        mdp: the model.
        truth: reward and costs; its budgets are not read.
        tightness: in (0, 1).
    """
    if not isinstance(tightness, int | float | np.number) or not 0.0 < tightness < 1.0:
        raise InvalidModel(f"tightness must be in (0, 1); got {tightness!r:.60}")
    reward, costs = truth.tables(mdp)
    if not len(costs):
        raise InvalidModel("tightness places budgets, and this world has no constraint")

    from tacit.forward.solve import solve

    def spent(wanted: Any) -> np.ndarray:
        visits = solve(mdp, Objective(wanted)).visitation
        return costs.reshape(len(costs), -1) @ visits.ravel()

    careful, reckless = spent(-costs.sum(axis=0)), spent(reward)
    scale = max(1e-300, float(np.abs(costs).max()) / (1.0 - mdp.discount))
    if reckless.sum() - careful.sum() <= SAME_COST * scale:
        raise InvalidModel(
            "no budget can bind: the reward-optimal policy already spends the least cost, "
            f"{careful.sum():.6g}; choose another seed"
        )
    return careful + tightness * (reckless - careful)
