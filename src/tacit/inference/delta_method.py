"""Answers to linear questions about a recovery, by the delta method from a covariance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidModel


@dataclass(frozen=True, eq=False, kw_only=True)
class DeltaMethod:
    """Answers to linear questions about a recovery.

    About single numbers, multiples of one reward weight or of one price, it answers by their own
    intervals; about all else by the delta method, from a covariance.

    Attributes:
        x: [D] the parameters, scaled.
        scales: [D] what the features were divided by.
        sizes: [1 + K] features of the reward, then of each constraint.
        temperature: the demonstrator's noise.
        covariance: [D, D] of the parameters.
        blind: [B, D] directions in which they can move freely.
        quantile: standard errors to either side.
        ends: [D + K, 2] intervals of weights and prices; None where there are none.
    """

    x: np.ndarray
    scales: np.ndarray
    sizes: np.ndarray
    temperature: float
    covariance: np.ndarray
    blind: np.ndarray
    quantile: float
    ends: np.ndarray | None = None

    def __call__(
        self, reward_direction: npt.ArrayLike, cost_directions: Iterable[npt.ArrayLike] = ()
    ) -> tuple[float, float]:
        """The ends of the interval of the directions times the weights."""
        parts = [np.asarray(part, float) for part in (reward_direction, *cost_directions)]
        for k, (part, size) in enumerate(zip(parts, self.sizes, strict=False)):
            if part.shape != (size,) or not np.isfinite(part).all():
                name = f"cost_directions[{k - 1}]" if k else "reward_direction"
                raise InvalidModel(f"{name} must hold {size} finite numbers; got {part!r:.60}")
        parts = parts[: len(self.sizes)]  # constraints that were left out have no price
        parts += [np.zeros(size) for size in self.sizes[len(parts) :]]
        direction = np.concatenate(parts)
        own = self._single(direction)
        if own is not None:
            return own
        theta, temperature = self.x / self.scales, float(self.temperature)
        scaled = np.where(direction != 0, direction * theta, 0.0).sum() * temperature
        signs = np.where(np.arange(len(theta)) < self.sizes[0], np.sign(theta), 0.0)
        slope = (direction * temperature - scaled * temperature * signs) / self.scales
        moved = np.abs(self.blind @ slope).max(initial=0.0)
        if moved > 1e-5 * np.abs(slope).max(initial=1e-300):
            return -np.inf, np.inf
        margin = float(self.quantile) * float(np.sqrt(max(self.variance(slope), 0.0)))
        return float(scaled) - margin, float(scaled) + margin

    def variance(self, slope: np.ndarray) -> float:
        """Of slope [D] . parameters."""
        return float(slope @ self.covariance @ slope)

    def _single(self, direction: np.ndarray) -> tuple[float, float] | None:
        """The ends from the table, where the direction [D] is a multiple of one of its numbers."""
        found = None if self.ends is None else self._number(direction)
        if self.ends is None or found is None:
            return None
        row, factor = found
        low, high = sorted((factor * self.ends[row]).tolist())
        return low, high

    def _number(self, direction: np.ndarray) -> tuple[int, float] | None:
        """The number of a reward weight, or D and that of a price, of which this is a multiple."""
        asked = np.flatnonzero(direction)
        if len(asked) == 0:
            return None
        factor, row = float(direction[asked[0]]), int(asked[0])
        if len(asked) > 1 or row >= self.sizes[0]:
            # The weights of a constraint sum to 1: all of them alike ask for its price.
            edges = np.cumsum(self.sizes)
            k = int(np.searchsorted(edges, row, side="right"))
            whole = np.arange(len(direction)) >= edges[k - 1]
            whole &= np.arange(len(direction)) < edges[k]
            if k == 0 or not np.array_equal(direction, factor * whole):
                return None
            row = len(direction) + k - 1
        return row, factor
