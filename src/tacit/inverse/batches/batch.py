"""The answer of many recoveries, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from tacit.forward.smooth_dual import Problem
from tacit.inverse.batches.search import Found
from tacit.inverse.coordinates import Coordinates
from tacit.transitions import read_only


@dataclass(frozen=True, eq=False)
class Batch:
    """N recoveries as arrays; entry n is problem n. The gauge is that of `Recovery`.

    Attributes:
        reward_weights: [N, D], L1 norm 1; NaN where the reward is not identified.
        cost_weights: one [N, D_k] per constraint; NaN where it does not restrain.
        multipliers: [N, K] price of each budget.
        budgets: [N, K]; infinite where a constraint does not restrain.
        temperatures: [N].
        losses: [N] of the estimator.
        projected_gradients: [N] largest entry that no bound holds back, relative to its scale.
        converged: [N] bool.
        deterministic: [N] bool, experts without visible noise: a ridge sets the scale there.
        parameters: [N, D + sum D_k] what acts, in scaled coordinates: where to begin another fit.
        steps: [N] evaluations.
    """

    reward_weights: np.ndarray
    cost_weights: tuple[np.ndarray, ...]
    multipliers: np.ndarray
    budgets: np.ndarray
    temperatures: np.ndarray
    losses: np.ndarray
    projected_gradients: np.ndarray
    converged: np.ndarray
    deterministic: np.ndarray
    parameters: np.ndarray
    steps: np.ndarray

    def __post_init__(self) -> None:
        for field in fields(self):
            part = getattr(self, field.name)
            for array in part if isinstance(part, tuple) else (part,):
                read_only(array)

    def __len__(self) -> int:
        return len(self.losses)

    def __repr__(self) -> str:
        return f"Batch(problems={len(self)}, converged={int(self.converged.sum())})"


def in_gauge(
    space: Coordinates,
    spaces: Sequence[Coordinates],
    problem: Problem,
    found: Found,
    boundless: np.ndarray,
    tolerance: float,
) -> Batch:
    """The `Batch` of searches that ended at `found`; `spaces` is one for all, or one a problem."""
    scales = np.stack([s.scales for s in spaces])  # [1 or N, D]
    held = (found.x <= problem.lower) & (found.gradient > 0)
    held |= (found.x >= problem.upper) & (found.gradient < 0)
    gradient = np.abs(np.where(held, 0.0, found.gradient / problem.scale)).max(axis=1, initial=0.0)
    theta, spent = found.x / scales, -found.spent * scales
    norm = np.abs(theta[:, space.blocks[0]]).sum(axis=1)
    temperature = np.where(norm > 0, 1.0 / np.where(norm > 0, norm, 1.0), 1.0)
    weights, prices, budgets = [], [], []
    for block in space.blocks[1:]:
        total = theta[:, block].sum(axis=1)
        active = total > 0
        share = theta[:, block] / np.where(active, total, np.nan)[:, None]
        weights.append(share)
        prices.append(np.where(active, temperature * total, 0.0))
        budgets.append(np.where(active, (share * spent[:, block]).sum(axis=1), np.inf))
    size = 1.0 + np.abs(found.values).max(axis=1)
    return Batch(
        reward_weights=theta[:, space.blocks[0]] / np.where(norm > 0, norm, np.nan)[:, None],
        cost_weights=tuple(weights),
        multipliers=np.stack(prices, axis=1) if prices else np.zeros((len(norm), 0)),
        budgets=np.stack(budgets, axis=1) if budgets else np.zeros((len(norm), 0)),
        temperatures=temperature,
        losses=np.asarray(found.loss),
        projected_gradients=gradient,
        converged=(gradient <= tolerance) & (found.residual <= 1e-8 * size),
        deterministic=boundless,
        parameters=np.asarray(found.x),
        steps=np.asarray(found.steps),
    )
