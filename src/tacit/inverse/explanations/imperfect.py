"""The nearest thing to an explanation of an expert that errs: least slack of what it did.

No amounts make every demonstrated action optimal. Those are taken that make the demonstrated steps
fall short least, counted as often as they were seen, among all for which the demonstrated policy
gains one unit over the uniform one: amounts that cancel gain nothing, so that indifference is no
explanation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.forward.policy_iteration import best_column
from tacit.forward.visitation import visitation
from tacit.inverse.explanations.cone import Cone, most_worth
from tacit.inverse.explanations.program import least

# What the demonstrations must gain over acting at random to set the scale, a unit of a column.
LEAST_GAIN = 1e-3


@dataclass(frozen=True, eq=False)
class Nearest:
    """An objective under which the demonstrations fall short least.

    Attributes:
        amounts: [C] of the columns, of sum one.
        values: [S] optimal values of the Lagrangian reward.
        slack: [S, A] by how much each action falls short of these values.
        violation: by how much the program's own values break one of its inequalities.
    """

    amounts: np.ndarray
    values: np.ndarray
    slack: np.ndarray
    violation: float


def nearest(cone: Cone, counts: np.ndarray) -> Nearest:
    """The `Nearest` of demonstrations with these counts [S, A], which have no explanation."""
    mdp, columns = cone.mdp, cone.columns
    found = _least_slack(cone, counts / counts.sum(), _gains(cone, counts))
    amounts = np.maximum(found[:columns], 0.0)
    size = float(amounts.sum()) or 1.0
    amounts, level = amounts / size, found[columns:] / size
    table = np.tensordot(amounts, cone.tables, 1)
    best = best_column(mdp, table[None], np.ones(1)).values[0]

    def short(values: np.ndarray) -> np.ndarray:
        return values[:, None] - table - mdp.discount * mdp.expected_next(values)

    return Nearest(
        amounts, best, np.maximum(short(best), 0.0), float(max(0.0, -short(level).min()))
    )


def _least_slack(cone: Cone, weights: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """[C + S] amounts, unit . amounts = 1, and values of least slack, as `weights` [S, A] count."""
    from scipy.sparse import block_array, csc_array, eye_array, kron

    mdp, columns = cone.mdp, cone.columns
    gains = cone.tables.reshape(columns, -1).T
    own = kron(eye_array(mdp.states), np.ones((mdp.actions, 1)))
    # Values of states never visited are held below what the columns can be worth there.
    unseen = np.flatnonzero(~cone.visited)
    most = most_worth(mdp, cone.tables)[unseen]
    matrix: Any = block_array(
        [
            [csc_array(gains), csc_array(mdp.discount * cone.moves - own)],
            [csc_array(-most), csc_array(eye_array(mdp.states))[unseen]],
            [csc_array(unit[None]), None],
        ]
    )
    free = np.full(matrix.shape[0] - 1, -np.inf)
    flow = weights.sum(axis=1) - mdp.discount * mdp.inflow(weights)
    return least(
        np.r_[-(weights.ravel() @ gains), flow],
        matrix,
        lower=np.r_[np.zeros(columns), np.full(mdp.states, -np.inf)],
        row_lower=np.r_[free, 1.0],
        row_upper=np.r_[np.zeros(len(free)), 1.0],
    )


def _gains(cone: Cone, counts: np.ndarray) -> np.ndarray:
    """[C] what the demonstrated frequencies gain over the uniform policy, a unit of each column.

    One for all if none gains anything.
    """
    taken = np.where(cone.visited[:, None], counts, 1.0)
    visits = visitation(cone.mdp, taken / taken.sum(axis=1, keepdims=True))
    gains = np.tensordot(cone.tables, visits, 2)
    return gains if (gains > LEAST_GAIN).any() else np.ones(cone.columns)
