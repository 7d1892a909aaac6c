"""The parameters of a noisy expert: one number a feature, reward and costs in one vector.

In the Boltzmann model only theta_r = reward weights / temperature and theta_k = multiplier *
weights / temperature act. Inside the library every feature is scaled to a range of one, so that
tolerances and ridges mean the same for all; a cost enters with a minus sign.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.mdp import MDP
from tacit.objective import Features


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The stacked, scaled and signed features of a task.

    Attributes:
        tables: [D, S, A] reward features, then minus the features of each constraint, scaled.
        signs: [D] 1 for reward, -1 for cost features.
        scales: [D] what the features were divided by.
        blocks: one slice of the coordinates for the reward, then one per constraint.
        names: [D] what to call each coordinate.
    """

    tables: np.ndarray
    signs: np.ndarray
    scales: np.ndarray
    blocks: tuple[slice, ...]
    names: tuple[str, ...]

    @property
    def size(self) -> int:
        """D, reward and cost features together."""
        return len(self.scales)

    @property
    def constraints(self) -> int:
        """K, the number of constraints."""
        return len(self.blocks) - 1

    def pull_back(self, visitation: np.ndarray) -> np.ndarray:
        """[D] sums of the tables over a visitation [S, A]."""
        return self.tables.reshape(self.size, -1) @ visitation.ravel()

    def lower(self, *, free_reward: bool) -> np.ndarray:
        """[D] smallest values allowed: 0, or none for a reward of free sign."""
        bounds = np.zeros(self.size)
        if free_reward:
            bounds[self.blocks[0]] = -np.inf
        return bounds


def coordinates(mdp: MDP, features: Features) -> Coordinates:
    """The `Coordinates` of these features on this model."""
    maps = (features.reward, *features.costs)
    tables, signs, scales, blocks, at = [], [], [], [], 0
    for k, table in enumerate(maps):
        full = table if table.ndim == 3 else np.repeat(table[:, None, :], mdp.actions, axis=1)
        columns = np.moveaxis(full, 2, 0)
        span = np.ptp(columns, axis=(1, 2))
        largest = np.abs(columns).max(axis=(1, 2))
        varies = span > 1e-12 * largest
        scale = np.where(varies, span, np.where(largest > 0, largest, 1.0))
        sign = 1.0 if k == 0 else -1.0
        # A constant influences nothing; as zeros it cannot even seem to, by rounding or because
        # trajectories were cut off.
        tables.append(np.where(varies, sign / scale, 0.0)[:, None, None] * columns)
        signs.append(np.full(len(scale), sign))
        scales.append(scale)
        blocks.append(slice(at, at + len(scale)))
        at += len(scale)
    names = (*features.reward_names, *(name for group in features.cost_names for name in group))
    return Coordinates(
        np.ascontiguousarray(np.concatenate(tables)),
        np.concatenate(signs),
        np.concatenate(scales),
        tuple(blocks),
        names,
    )
