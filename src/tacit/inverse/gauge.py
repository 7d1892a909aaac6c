"""From the parameters of a noisy expert to weights, multipliers, budgets and temperature, and back.

Only theta acts on behaviour; how it is split is a choice of units. The gauge: reward weights of L1
norm 1, which makes temperature = 1 / |theta_r|; weights of each constraint that sum to 1, which
makes its multiplier = temperature * sum(theta_k); and the budget is what the expert spends. Without
any reward the noise is the unit: temperature 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.inverse.coordinates import Coordinates


@dataclass(frozen=True, eq=False)
class Ratios:
    """Weights and multipliers are ratios of two linear forms of the parameters.

    Attributes:
        tops: [D + K, D] the numerators: of every weight, then of every multiplier.
        bottoms: [D + K, D] the denominators.
        constants: [D + K] what is added to them.
        sizes: [D + K] values of the denominators; NaN where there is no such weight.
    """

    tops: np.ndarray
    bottoms: np.ndarray
    constants: np.ndarray
    sizes: np.ndarray


@dataclass(frozen=True, eq=False)
class Split:
    """One parameter vector in the gauge.

    Attributes:
        reward_weights: [D] of L1 norm 1; NaN if all parameters of the reward are 0.
        cost_weights: one [D_k] per constraint, sum 1; NaN if its parameters are all 0.
        multipliers: [K].
        budgets: [K] what the expert spends, infinite for an inactive constraint.
        temperature: 1 / |theta_r|, or 1 if all parameters of the reward are 0.
        jacobian: [D + sum D_k + K + K, D] derivative of all of these but the temperature, stacked
            in this order, in the scaled coordinates.
        ratios: what weights and multipliers are made of.
    """

    reward_weights: np.ndarray
    cost_weights: tuple[np.ndarray, ...]
    multipliers: np.ndarray
    budgets: np.ndarray
    temperature: float
    jacobian: np.ndarray
    ratios: Ratios


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
    parts = ratios(space, x, forbidden)
    numbers = parts.tops @ x / parts.sizes
    rows = (parts.tops - numbers[:, None] * parts.bottoms) / parts.sizes[:, None]
    weights, size = numbers[: space.size], space.size
    # Cost features enter with a minus sign and scaled: undo both.
    expectations = -spent * space.scales
    reactions = -reaction * space.scales[:, None]
    budgets, budget_rows = [], np.full((space.constraints, size), np.nan)
    for k, block in enumerate(space.blocks[1:]):
        if np.isnan(weights[block]).any():
            budgets.append(np.inf)
            rows[size + k] = np.nan
            continue
        budgets.append(float(weights[block] @ expectations[block]))
        budget_rows[k] = expectations[block] @ rows[block] + weights[block] @ reactions[block]
    norm = float(np.abs(x / space.scales)[space.blocks[0]].sum())
    return Split(
        weights[space.blocks[0]],
        tuple(weights[block] for block in space.blocks[1:]),
        np.maximum(numbers[size:], 0.0),
        np.array(budgets),
        1.0 / norm if norm > 0 else 1.0,
        np.concatenate([rows, budget_rows]),
        parts,
    )


def ratios(space: Coordinates, x: np.ndarray, forbidden: np.ndarray | None = None) -> Ratios:
    """The `Ratios` at the parameters `x` [D]; the signs of a free reward are taken from there."""
    inverse = 1.0 / space.scales
    tops = np.concatenate([np.diag(inverse), np.zeros((space.constraints, space.size))])
    bottoms = np.zeros_like(tops)
    reward = space.blocks[0]
    norm = np.zeros(space.size)
    norm[reward] = np.where(x[reward] < 0, -1.0, 1.0) * inverse[reward]
    wanted = float(norm @ x) > 0
    bottoms[reward] = norm
    for k, block in enumerate(space.blocks[1:]):
        total = np.zeros(space.size)
        total[block] = inverse[block]
        if forbidden is not None and (x[block] * ~forbidden[block]).any():
            total *= ~forbidden
        bottoms[block] = total
        tops[space.size + k] = total
        bottoms[space.size + k] = norm if wanted else 0.0
    constants = np.zeros(len(tops))
    constants[space.size :] = 0.0 if wanted else 1.0
    sizes = bottoms @ x + constants
    return Ratios(tops, bottoms, constants, np.where(sizes > 0, sizes, np.nan))


def budget_one(split: Split) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """([K] multipliers, one [D_k] weights per constraint) in the paper's gauge: every budget is 1.

    Both gauges describe the same expert: multiplier * weights is the same, and so is weights /
    budget. An inactive constraint has multiplier 0 and NaN weights; a budget that is not positive
    cannot be scaled to 1, and both are NaN.
    """
    active = np.isfinite(split.budgets)
    scale = np.where(active & (split.budgets > 0), split.budgets, np.nan)
    multipliers = np.where(active, split.multipliers * scale, 0.0)
    return multipliers, tuple(w / b for w, b in zip(split.cost_weights, scale, strict=True))
