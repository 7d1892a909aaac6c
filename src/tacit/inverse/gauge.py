"""From the parameters of a noisy expert to weights, multipliers, budgets and temperature, and back.

Only theta acts on behaviour; how it is split is a choice of units. The gauge: reward weights of L1
norm 1, which makes temperature = 1 / |theta_r|; weights of each constraint that sum to 1, which
makes its multiplier = temperature * sum(theta_k); and the budget is what the expert spends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.inverse.coordinates import Coordinates


@dataclass(frozen=True, eq=False)
class Split:
    """One parameter vector in the gauge.

    Attributes:
        reward_weights: [D] of L1 norm 1; NaN if all parameters of the reward are 0.
        cost_weights: one [D_k] per constraint, sum 1; NaN if its parameters are all 0.
        multipliers: [K].
        budgets: [K] what the expert spends, infinite for an inactive constraint.
        temperature: 1 / |theta_r|.
        jacobian: [D + sum D_k + K + K, D] derivative of all of these but the temperature, stacked
            in this order, in the scaled coordinates.
    """

    reward_weights: np.ndarray
    cost_weights: tuple[np.ndarray, ...]
    multipliers: np.ndarray
    budgets: np.ndarray
    temperature: float
    jacobian: np.ndarray


def split(
    space: Coordinates,
    x: np.ndarray,
    spent: np.ndarray,
    reaction: np.ndarray,
    *,
    forbidden: np.ndarray | None = None,
) -> Split:
    """The parameters `x` [D] (scaled coordinates) in the gauge.

    Args:
        space: the coordinates.
        x: [D].
        spent: [D] expected discounted sums of the scaled, signed features.
        reaction: [D, D] derivative of `spent` in x.
        forbidden: [D] bool, cost features without a finite weight, kept out of the sums that set
            the units so that the other weights stay what they are.
    """
    theta = x / space.scales
    finite = np.ones(space.size, bool) if forbidden is None else ~forbidden
    to_theta = np.diag(1.0 / space.scales)
    reward = space.blocks[0]
    norm = np.abs(theta[reward]).sum()
    temperature = 1.0 / norm if norm > 0 else np.inf
    sign_row = np.zeros(space.size)
    sign_row[reward] = np.sign(theta[reward])
    weights = theta[reward] / norm if norm > 0 else np.full(len(theta[reward]), np.nan)
    rows = [(to_theta[reward] - np.outer(weights, sign_row @ to_theta)) * temperature]
    costs, multipliers, budgets, cost_rows, price_rows, budget_rows = [], [], [], [], [], []
    for block in space.blocks[1:]:
        count = block.stop - block.start
        counted = np.zeros(space.size)
        counted[block] = finite[block] if finite[block].any() else 1.0
        total = float(counted @ theta)
        price = temperature * total if total > 0 else 0.0
        multipliers.append(price)
        if total <= 0:
            costs.append(np.full(count, np.nan))
            budgets.append(np.inf)
            cost_rows.append(np.full((count, space.size), np.nan))
            price_rows.append(np.full(space.size, np.nan))
            budget_rows.append(np.full(space.size, np.nan))
            continue
        weight = theta[block] / total
        d_weight = (to_theta[block] - np.outer(weight, counted @ to_theta)) / total
        costs.append(weight)
        cost_rows.append(d_weight)
        d_price = temperature * (counted @ to_theta) - price * temperature * (sign_row @ to_theta)
        price_rows.append(d_price)
        # Cost features enter with a minus sign and scaled: undo both.
        expectation = -spent[block] * space.scales[block]
        d_expectation = -reaction[block] * space.scales[block][:, None]
        budgets.append(float(weight @ expectation))
        budget_rows.append(expectation @ d_weight + weight @ d_expectation)
    jacobian = np.concatenate(
        [*rows, *cost_rows, *(row[None] for row in price_rows), *(row[None] for row in budget_rows)]
    )
    return Split(
        weights,
        tuple(costs),
        np.array(multipliers),
        np.array(budgets),
        temperature,
        jacobian,
    )


def budget_one(split: Split) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """([K] multipliers, one [D_k] weights per constraint) in the paper's gauge: every budget is 1.

    Both gauges describe the same expert: multiplier * weights is the same, and so is weights /
    budget. Infinite or NaN where a constraint is inactive or its budget is not positive.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        multipliers = np.where(np.isfinite(split.budgets), split.multipliers * split.budgets, 0.0)
        weights = tuple(w / b for w, b in zip(split.cost_weights, split.budgets, strict=True))
    return multipliers, weights
