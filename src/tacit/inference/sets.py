"""Sets in place of numbers: ranges, nothing at all.

What is reported where demonstrations, or an estimator, leave more open than an interval says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import numpy.typing as npt

from tacit.inference.diagnostics import Identification
from tacit.inference.parameters import Parameters
from tacit.model.objective import coefficient_names

if TYPE_CHECKING:
    from tacit.inference.findings import Finding
    from tacit.model.features.design import Design
    from tacit.recovery import Recovery

# Coefficients up to which matrices over them are kept, even empty ones.
KEPT = 500


@dataclass(frozen=True, eq=False)
class Ends:
    """Least and largest value of each number; NaN where there is no such number.

    Attributes:
        reward: [D, 2] of the reward weights, of L1 norm 1.
        costs: one [D_k, 2] per constraint, of its weights, of sum 1.
        multipliers: [K, 2] at reward weights of L1 norm 1; ends may be infinite.
        budgets: [K, 2] of what the weights make of the expert's expectations.
    """

    reward: np.ndarray
    costs: list[np.ndarray]
    multipliers: np.ndarray
    budgets: np.ndarray

    def beside(
        self,
        silent: Sequence[np.ndarray],
        expectations: Sequence[np.ndarray],
        *,
        free_reward: bool = False,
    ) -> Ends:
        """The same where silent features, which change no choice, may have any weight.

        These ends are of silent features without a weight. What such a feature takes of the norm of
        the reward makes the other reward weights and all prices smaller, as small as one likes;
        what it takes of a cost makes that cost's other weights smaller, its price larger without a
        limit, and its budget a mixture with what the silent feature is spent of. That is the exact
        range over all of them, a linear-fractional program solved by its corners.

        Args:
            silent: one [D] bool for the reward, then one [D_k] per constraint.
            expectations: one [D_k, 2] per constraint, of each feature.
            free_reward: whether reward weights may be negative.
        """
        least = -1.0 if free_reward else 0.0
        reward, prices, budgets = self.reward.copy(), self.multipliers.copy(), self.budgets.copy()
        if silent[0].any():
            reward = _with_zero(reward)
            reward[silent[0]] = (least, 1.0)
            prices[:, 0] = np.where(np.isnan(prices[:, 0]), np.nan, 0.0)
        costs = []
        for k, (part, quiet, spent) in enumerate(
            zip(self.costs, silent[1:], expectations, strict=True)
        ):
            part = part.copy()
            if quiet.any():
                part = _with_zero(part)
                part[quiet] = (0.0, 1.0)
                budgets[k, 0] = np.fmin(budgets[k, 0], spent[quiet, 0].min())
                budgets[k, 1] = np.fmax(budgets[k, 1], spent[quiet, 1].max())
                prices[k, 1] = np.nan if np.isnan(prices[k, 1]) else np.inf
            costs.append(part)
        return Ends(reward, costs, prices, budgets)


def _with_zero(ends: np.ndarray) -> np.ndarray:
    """[n, 2] the intervals, widened to hold 0; NaN stays."""
    return np.stack([np.minimum(ends[:, 0], 0.0), np.maximum(ends[:, 1], 0.0)], axis=1)


def unidentified(
    reward_weights: np.ndarray,
    cost_weights: Iterable[np.ndarray],
    *,
    active: npt.ArrayLike,
    findings: Iterable[Finding] = (),
) -> Identification:
    """The `Identification` of an estimator that gives points only: no interval is known.

    Args:
        reward_weights: [D], for their number.
        cost_weights: one [D_k] per constraint, for their number.
        active: [K] bool.
        findings: what was and was not found.
    """
    reward, *costs = (np.full(len(w), np.nan) for w in (reward_weights, *cost_weights))
    constraints = np.full(len(costs), np.nan)
    return Identification(
        reward_intervals=np.tile(reward, 2),
        cost_intervals=[np.tile(column, 2) for column in costs],
        multiplier_intervals=np.tile(constraints, 2),
        budget_intervals=np.tile(constraints, 2),
        reward_standard_errors=reward,
        cost_standard_errors=costs,
        multiplier_standard_errors=constraints,
        budget_standard_errors=constraints,
        active=np.asarray(active, bool),
        findings=tuple(findings),
    )


def unmeasured(
    names: Iterable[str], estimates: npt.ArrayLike, *, lower: npt.ArrayLike, absence: str
) -> Parameters:
    """The `Parameters` of an estimator without standard errors, or without coefficients at all.

    Args:
        names: [P].
        estimates: [P]; NaN where there is no temperature.
        lower: [P] bounds.
        absence: why there are no standard errors.
    """
    points = np.array(estimates, float)
    size = len(points)
    wide = size if size <= KEPT else 0
    nothing = np.full((wide, wide), np.nan)
    return Parameters(
        names=tuple(names),
        estimates=points,
        jacobian=np.eye(size) if wide else np.zeros((size, 0)),
        information=nothing,
        outer=nothing,
        scatter=nothing,
        gradient=np.full(wide, np.nan),
        free=np.ones(wide, bool),
        lower=np.broadcast_to(np.asarray(lower, float), points.shape),
        limits=np.full(size, np.nan),
        absence=absence,
    )


def weights_as_parameters(recovery: Recovery) -> Parameters:
    """The `Parameters` of a recovery that has weights and perhaps a temperature, but no errors."""
    names = coefficient_names(recovery.reward_names, recovery.cost_names)
    if not recovery.temperature > 0:
        absence = "there are no coefficients: this demonstrator has no temperature"
        return unmeasured(names, np.full(len(names), np.nan), lower=-np.inf, absence=absence)
    points, rewards = coefficients(recovery), len(recovery.reward_weights)
    lower = np.where(np.arange(len(points)) < rewards, np.minimum(points, 0.0), 0.0)
    lower = np.where(lower < 0, -np.inf, lower)
    return unmeasured(names, points, lower=lower, absence="this estimator has no standard errors")


def coefficients(recovery: Recovery) -> np.ndarray:
    """[P] what the weights and prices of a recovery make of every feature, in units of the noise.

    Weights that are NaN belong to a block whose coefficients are all 0.
    """
    pairs = zip(recovery.multipliers, recovery.cost_weights, strict=True)
    costs = [price * np.nan_to_num(weights) for price, weights in pairs]
    return np.concatenate([np.nan_to_num(recovery.reward_weights), *costs]) / recovery.temperature


@dataclass(frozen=True)
class Lapses:
    """The share of steps taken at random, whatever was wanted.

    Attributes:
        share: of all steps.
        interval: 95 % likelihood interval; the share twice where it was given.
        p_value: of "there are no lapses"; NaN where the share was given.
    """

    share: float
    interval: tuple[float, float]
    p_value: float


@dataclass(frozen=True, kw_only=True)
class HardConstraint:
    """Something that a demonstrator never does.

    Attributes:
        kind: "state", "action", "pair", "feature" or "group".
        index: its number; of a pair (state, action); of a feature among reward and cost features.
        name: what it is called.
        p_value: of "it is allowed", if nothing else were forbidden but what is named and the
            simplest explanation; NaN where that was not tested.
        allowed: posterior chance that it is allowed, whatever else may be forbidden; NaN where sets
            were not sought.
        strict: of a name, whether its p-value is small whatever else is forbidden.
        more: about how many more demonstrations would name it if it is forbidden; 0 where it is
            named, infinite where none would.
        rival: name of the other of a pair of which one is forbidden; "" where it is in none.
        neither: posterior chance that neither of the pair is forbidden; NaN where it is in none.
        states: those that it forbids to be in; empty where it is about actions.
    """

    kind: str
    index: int | tuple[int, int]
    name: str
    p_value: float = np.nan
    allowed: float = np.nan
    strict: bool = False
    more: float = np.nan
    rival: str = ""
    neither: float = np.nan
    states: tuple[int, ...] = ()


class NeverIncurred(TypedDict):
    """Costs without an upper limit, as the fields of a recovery that name them."""

    forbidden: tuple[HardConstraint, ...]
    undecided: tuple[HardConstraint, ...]


def never_incurred(
    space: Design, limits: np.ndarray, at_starts: np.ndarray | None = None
) -> NeverIncurred:
    """`forbidden` and `undecided` of a recovery: costs without an upper limit.

    Those where the reward pulls there, and the others.

    Args:
        space: of the coefficients.
        limits: [n] lower limits of those without an upper one, else NaN.
        at_starts: [n] bool, what is incurred where all begin is not forbidden.
    """

    def records(chosen: np.ndarray) -> tuple[HardConstraint, ...]:
        return tuple(
            HardConstraint(kind="feature", index=int(j), name=space.names[j])
            for j in np.flatnonzero(chosen)
        )

    endless = (space.signs < 0) & np.isfinite(limits)
    endless &= True if at_starts is None else ~at_starts
    pulled = endless & (limits > 0)
    return {"forbidden": records(pulled), "undecided": records(endless & ~pulled)}
