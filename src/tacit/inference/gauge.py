"""The gauge of a noisy expert: weights, prices, budgets and temperature of its parameters.

Steps tell weights and prices over the temperature alone. The gauge makes numbers of them: reward
weights of L1 norm 1 and a temperature, cost weights of sum 1 and a price. All are ratios of linear
forms of the parameters.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tacit.model.features.design import Design


@dataclass(frozen=True, eq=False)
class GaugeRatios:
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
class Gauge:
    """Parameters in the gauge: the numbers at once, their derivatives where these are asked for.

    Of many problems of one shape the arrays have a leading axis, and no derivatives.

    Attributes:
        x: [..., D] parameters of the scaled features.
        scales: [..., D] what the features were divided by.
        blocks: one slice of the parameters for the reward, then one per constraint.
        spent: [..., D] expected discounted sums of the scaled, signed features.
        reaction: [D, D] derivative of `spent` in x; None where no derivatives are wanted.
        unbounded: [D] bool, features without a finite weight, kept out of the sums that set the
            units so that the other weights stay what they are; None for none.
    """

    x: np.ndarray
    scales: np.ndarray
    blocks: tuple[slice, ...]
    _: KW_ONLY
    spent: np.ndarray
    reaction: np.ndarray | None = None
    unbounded: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        space: Design,
        x: np.ndarray,
        spent: np.ndarray,
        reaction: np.ndarray | None = None,
        *,
        unbounded: np.ndarray | None = None,
    ) -> Gauge:
        """The gauge of parameters x [D] of these features."""
        known = {"spent": spent, "reaction": reaction, "unbounded": unbounded}
        return cls(x, space.scales, space.blocks, **known)

    @property
    def reward_weights(self) -> np.ndarray:
        """[..., D_0] of L1 norm 1; NaN if all parameters of the reward are 0."""
        return self._theta[..., self.blocks[0]] / _positive(self._norm)[..., None]

    @cached_property
    def cost_weights(self) -> tuple[np.ndarray, ...]:
        """One [..., D_k] per constraint, of L1 norm 1; NaN if its parameters are all 0."""
        totals = [_positive(self._total(block))[..., None] for block in self.blocks[1:]]
        pairs = zip(self.blocks[1:], totals, strict=True)
        return tuple(self._theta[..., block] / total for block, total in pairs)

    @cached_property
    def multipliers(self) -> np.ndarray:
        """[..., K] prices in units of the reward weights; of the noise where the reward is 0."""
        prices = [self.temperatures * self._total(block) for block in self.blocks[1:]]
        return np.maximum(self._columns(prices), 0.0)

    @cached_property
    def budgets(self) -> np.ndarray:
        """[..., K] what the expert spends; infinite for a constraint without a price."""
        # Cost features enter with a minus sign and scaled: undo both.
        expectations = -self.spent * self.scales
        pairs = zip(self.blocks[1:], self.cost_weights, strict=True)
        spending = [(own * expectations[..., block]).sum(axis=-1) for block, own in pairs]
        found = self._columns(spending)
        return np.where(np.isnan(found), np.inf, found)

    @cached_property
    def temperatures(self) -> np.ndarray:
        """[...] one over the norm of the parameters of the reward; 1 where these are all 0."""
        return np.where(self._norm > 0, 1.0 / np.where(self._norm > 0, self._norm, 1.0), 1.0)

    @property
    def temperature(self) -> float:
        """The same of a single problem."""
        return float(self.temperatures)

    @cached_property
    def ratios(self) -> GaugeRatios:
        """What weights and multipliers are made of; the signs of a free reward are those of x."""
        size, inverse = len(self.x), 1.0 / self.scales
        count, wanted = len(self.blocks) - 1, bool(self._norm > 0)
        tops = np.concatenate([np.diag(inverse), np.zeros((count, size))])
        bottoms, norm = np.zeros_like(tops), np.zeros(size)
        reward = self.blocks[0]
        norm[reward] = np.where(self.x[reward] < 0, -1.0, 1.0) * inverse[reward]
        norm[reward] *= self._counted(reward)
        bottoms[reward] = norm
        for k, block in enumerate(self.blocks[1:]):
            total = np.zeros(size)
            total[block] = np.where(self.x[block] < 0, -1.0, 1.0) * inverse[block]
            total[block] *= self._counted(block)
            bottoms[block] = total
            tops[size + k] = total
            bottoms[size + k] = norm if wanted else 0.0
        constants = np.zeros(len(tops))
        constants[size:] = 0.0 if wanted else 1.0
        return GaugeRatios(tops, bottoms, constants, _positive(bottoms @ self.x + constants))

    @cached_property
    def jacobian(self) -> np.ndarray:
        """[D + K + K, D] derivative of weights, multipliers and budgets in x; NaN without one."""
        assert self.reaction is not None
        parts, size = self.ratios, len(self.x)
        numbers = parts.tops @ self.x / parts.sizes
        rows = (parts.tops - numbers[:, None] * parts.bottoms) / parts.sizes[:, None]
        expectations = -self.spent * self.scales
        reactions = -self.reaction * self.scales[:, None]
        of_budgets = np.full((len(self.blocks) - 1, size), np.nan)
        for k, block in enumerate(self.blocks[1:]):
            if np.isinf(self.budgets[k]):
                rows[size + k] = np.nan
                continue
            of_budgets[k] = expectations[block] @ rows[block]
            of_budgets[k] += self.cost_weights[k] @ reactions[block]
        return np.concatenate([rows, of_budgets])

    @cached_property
    def _theta(self) -> np.ndarray:
        return self.x / self.scales

    @cached_property
    def _norm(self) -> np.ndarray:
        return self._total(self.blocks[0])

    def _total(self, block: slice) -> np.ndarray:
        return np.asarray(np.abs(self._theta[..., block] * self._counted(block)).sum(axis=-1))

    def _counted(self, block: slice) -> np.ndarray | float:
        """[D_k] bool, the features that set the unit of a block: all, where none has a number."""
        if self.unbounded is None or not (self.x[block] * ~self.unbounded[block]).any():
            return 1.0
        return ~self.unbounded[block]

    def _columns(self, parts: list[np.ndarray]) -> np.ndarray:
        return np.stack(parts, axis=-1) if parts else np.zeros((*self._norm.shape, 0))


def normalised(weights: npt.ArrayLike) -> tuple[np.ndarray, float]:
    """Weights [D] of L1 norm 1, and the norm that they had; 0 stay what they are, of norm 1."""
    vector = np.asarray(weights, float)
    norm = float(np.abs(vector).sum()) or 1.0
    return vector / norm, norm


def _positive(sizes: np.ndarray) -> np.ndarray:
    """[...] sizes; NaN where they are not positive."""
    return np.where(sizes > 0, sizes, np.nan)
