"""The parameters of a noisy expert: one number a feature, reward and costs in one vector.

In the Boltzmann model only theta_r = reward weights / temperature and theta_k = multiplier *
weights / temperature act. Inside the library every feature is scaled to a range of one, so that
tolerances and ridges mean the same for all; a cost enters with a minus sign.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidModel
from tacit.inverse.parameters import TWO_SIDED
from tacit.model.features import Design
from tacit.model.mdp import MDP
from tacit.model.objective import Features

# More parameters than this have no curvature [D, D] made of D solves on every step.
MANY = 200
# Features as tables [D, S, A] are at most this many numbers, 320 MB: a search by D solves a step
# holds half a dozen of them.
TABLES = 40_000_000


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The stacked, scaled and signed features of a task.

    Attributes:
        tables: [D, S, A] reward features, then minus the features of each constraint, scaled.
        signs: [D] 1 for reward, -1 for cost features.
        scales: [D] what the features were divided by.
        blocks: one slice of the coordinates for the reward, then one per constraint.
        names: [D] what to call each coordinate.
        ending: whether episodes end, so that sums may stop at any time.
    """

    tables: np.ndarray
    signs: np.ndarray
    scales: np.ndarray
    blocks: tuple[slice, ...]
    _: KW_ONLY
    names: tuple[str, ...]
    ending: bool = False

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
        if mdp.restricted:
            columns = np.where(mdp.choices | mdp.ends[:, None], columns, 0.0)
            span = _span(mdp, columns)
        largest = np.abs(columns).max(axis=(1, 2))
        varies = span > 1e-12 * largest
        scale = np.where(varies, span, np.where(largest > 0, largest, 1.0))
        sign = 1.0 if k == 0 else -1.0
        # A constant influences nothing; as zeros it cannot even seem to, by rounding or because
        # trajectories were cut off. Where episodes end it counts their steps: 0 comes after them.
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
        names=names,
        ending=bool(mdp.ends.any()),
    )


def _span(mdp: MDP, columns: np.ndarray) -> np.ndarray:
    """[D] largest minus smallest value of columns [D, S, A] over the actions that are there.

    Where episodes end, 0 is a value as well: that of all that would come after.
    """
    there = columns[:, mdp.choices]
    high, low = there.max(axis=1), there.min(axis=1)
    if mdp.ends.any():
        high, low = np.maximum(high, 0.0), np.minimum(low, 0.0)
    return high - low


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


@dataclass(frozen=True, eq=False, kw_only=True)
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
    space: Coordinates | Design,
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
        forbidden: [D] bool, features without a finite weight, kept out of the sums that set the
            units so that the other weights stay what they are.
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
    norm = float(parts.bottoms[0] @ x)
    return Split(
        reward_weights=weights[space.blocks[0]],
        cost_weights=tuple(weights[block] for block in space.blocks[1:]),
        multipliers=np.maximum(numbers[size:], 0.0),
        budgets=np.array(budgets),
        temperature=1.0 / norm if norm > 0 else 1.0,
        jacobian=np.concatenate([rows, budget_rows]),
        ratios=parts,
    )


def points(space: Design, x: np.ndarray, spent: np.ndarray) -> Split:
    """The parameters x [D] in the gauge, without derivatives: for more than fit a matrix [D, D].

    `spent` [D] as in `split`.
    """
    theta, reward = x / space.scales, space.blocks[0]
    norm = float(np.abs(theta[reward]).sum())
    temperature = 1.0 / norm if norm > 0 else 1.0
    weights, prices, budgets = [], [], []
    for block in space.blocks[1:]:
        total = float(theta[block].sum())
        own = theta[block] / total if total > 0 else np.full(block.stop - block.start, np.nan)
        weights.append(own)
        prices.append(temperature * total)
        spending = float(own @ (-spent * space.scales)[block])
        budgets.append(spending if total > 0 else np.inf)
    empty = np.zeros((0, len(x)))
    return Split(
        reward_weights=temperature * theta[reward]
        if norm > 0
        else np.full(len(theta[reward]), np.nan),
        cost_weights=tuple(weights),
        multipliers=np.array(prices),
        budgets=np.array(budgets),
        temperature=temperature,
        jacobian=empty,
        ratios=Ratios(empty, empty, np.zeros(0), np.zeros(0)),
    )


def ratios(
    space: Coordinates | Design, x: np.ndarray, forbidden: np.ndarray | None = None
) -> Ratios:
    """The `Ratios` at the parameters `x` [D]; the signs of a free reward are taken from there."""
    inverse = 1.0 / space.scales
    tops = np.concatenate([np.diag(inverse), np.zeros((space.constraints, space.size))])
    bottoms = np.zeros_like(tops)
    reward = space.blocks[0]
    norm = np.zeros(space.size)
    norm[reward] = np.where(x[reward] < 0, -1.0, 1.0) * inverse[reward]
    if forbidden is not None and (x[reward] * ~forbidden[reward]).any():
        norm *= ~forbidden
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

    @classmethod
    def of(
        cls,
        space: Coordinates | Design,
        x: np.ndarray,
        gauge: Split,
        covariance: np.ndarray,
        blind: np.ndarray,
        ends: np.ndarray,
    ) -> DeltaMethod:
        """The answers of a fit with parameters x [D] and this covariance, at 95 %.

        `ends` [D + K or more, 2] begins with the intervals of weights and prices.
        """
        return cls(
            x=x,
            scales=space.scales,
            sizes=np.array([block.stop - block.start for block in space.blocks]),
            temperature=gauge.temperature,
            covariance=covariance,
            blind=blind,
            quantile=TWO_SIDED,
            ends=ends[: space.size + space.constraints],
        )

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
        x, scales, temperature = self.x, self.scales, float(self.temperature)
        own = self._single(direction)
        if own is not None:
            return own
        theta = x / scales
        scaled = np.where(direction != 0, direction * theta, 0.0).sum() * temperature
        slope = direction * temperature
        signs = np.zeros(len(x))
        reward = slice(0, int(self.sizes[0]))
        signs[reward] = np.sign(theta[reward])
        slope = (slope - scaled * temperature * signs) / scales
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
        asked = np.flatnonzero(direction)
        if self.ends is None or len(asked) == 0:
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
        low, high = sorted((factor * self.ends[row]).tolist())
        return low, high


def are_many(mdp: MDP, features: Features) -> bool:
    """Whether there are more features than are fitted with their curvature [D, D]."""
    count = sum(features.sizes)
    return count > MANY or count * mdp.states * mdp.actions > TABLES
