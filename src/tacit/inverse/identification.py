"""What the demonstrations tell about each number of a recovery, and what they cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tacit.inverse.numerics import normal_quantile, normal_tail
from tacit.inverse.parameters import CONFIDENCE, ONE_SIDED, Parameters
from tacit.model.objective import coefficient_names
from tacit.model.transitions import read_only

if TYPE_CHECKING:
    from tacit.inverse.findings import Finding
    from tacit.inverse.recovery import Recovery

# Coefficients up to which matrices over them are kept, even empty ones.
KEPT = 500
# A constraint is barely found where more than this share of those found by chance look as sure.
BARELY = 0.05
# Standard errors that no interval of a price that was left out goes beyond: 1 in 2000 of all data.
FARTHEST = 3.29
# (reward_direction, cost_directions) -> the ends of an interval.
Answer = Callable[[npt.ArrayLike, Iterable[npt.ArrayLike]], tuple[float, float]]


@dataclass(frozen=True)
class ConstraintSet:
    """Constraints that can stand in for each other: one at least is active, which is not told.

    Attributes:
        members: their numbers.
        p_value: of "none of them is active".
    """

    members: tuple[int, ...]
    p_value: float

    @property
    def name(self) -> str:
        """Its members in words, such as "0 or 1"."""
        return ", ".join(map(str, self.members[:-1])) + f" or {self.members[-1]}"


@dataclass(frozen=True, eq=False)
class Selection:
    """How many constraints the data ask for.

    Attributes:
        count: the number with the least BIC, of as good ones the fewest.
        members: which constraints those are.
        criteria: [K + 1] BIC with 0 to K constraints, the least needed left out first.
        log_likelihoods: [K + 1].
    """

    count: int
    members: tuple[int, ...]
    criteria: np.ndarray
    log_likelihoods: np.ndarray


@dataclass(frozen=True, eq=False, kw_only=True)
class Chosen:
    """Which constraints were kept, by tests of the data that the intervals are of.

    An interval that holds in 95 % of all data does not in 95 % of those in which a weak constraint
    is found, or a strong one is missed.

    Attributes:
        p_values: [K] of "this constraint is not active", for all of them together.
        kept: [K] bool.
        level: of the tests; 1 where nothing was chosen.
    """

    p_values: np.ndarray
    kept: np.ndarray
    level: float

    @classmethod
    def of(cls, p_values: np.ndarray, multipliers: np.ndarray, level: float) -> Chosen:
        """Those that have a price, [K] multipliers, in what is reported."""
        return cls(p_values=p_values, kept=multipliers > 0, level=level)

    def barely_found(self, k: int) -> bool:
        """Whether a price of 0 is not excluded, given that it was found.

        Its weights may then be anything: without a price they do nothing, though they look sure.
        """
        return bool(self.kept[k] and BARELY * self.level < self.p_values[k] <= self.level < 1)

    def reach(self, k: int) -> float:
        """Standard errors up to which a price that was left out may be above its estimate.

        Where it is left out, it is within reach with the confidence, unless nearly no data allow
        that. With z of the estimate and c of the least that is found, a price d standard errors
        above has the chance normal(-d) / normal(c - z - d).
        """
        if self.kept[k] or self.level >= 1 or np.isnan(self.p_values[k]):
            return 0.0
        # An estimate on its bound, 0, is no farther from what is found than 0 is.
        other = normal_quantile(1.0 - min(float(self.p_values[k]), 0.5))
        short = normal_quantile(1.0 - self.level) - other
        far = np.arange(ONE_SIDED, FARTHEST, 0.005)
        beyond = normal_tail(far) <= (1.0 - CONFIDENCE) * normal_tail(far - max(short, 0.0))
        return float(far[beyond][0]) if beyond.any() else FARTHEST


@dataclass(frozen=True, eq=False, kw_only=True)
class Identification:
    """How well each number of a recovery is known. NaN where the estimator cannot tell.

    Attributes:
        reward_intervals: [D, 2] lower and upper end for each reward weight.
        cost_intervals: one [D_k, 2] per constraint.
        multiplier_intervals: [K, 2].
        budget_intervals: [K, 2].
        reward_standard_errors: [D].
        cost_standard_errors: one [D_k] per constraint.
        multiplier_standard_errors: [K].
        budget_standard_errors: [K].
        active: [K] bool, whether the constraint was shown to restrain the demonstrator.
        findings: what was and was not found.
        answer: what `interval` asks; None where the estimator cannot tell.
        p_values: [K] of "this constraint is not active", adjusted for all of them by Holm's method;
            NaN where it was not tested.
        confidence: of the intervals.
        unadjusted: [K] the same, each by itself.
        sets: constraints that can stand in for each other, of which one at least is active.
        selection: how many constraints the data ask for; None where that was not asked.
        dynamics_draws: draws of estimated dynamics that errors, intervals and tests count; 0 where
            they take the dynamics for known.
    """

    reward_intervals: np.ndarray
    cost_intervals: Sequence[np.ndarray]
    multiplier_intervals: np.ndarray
    budget_intervals: np.ndarray
    reward_standard_errors: np.ndarray
    cost_standard_errors: Sequence[np.ndarray]
    multiplier_standard_errors: np.ndarray
    budget_standard_errors: np.ndarray
    active: np.ndarray
    findings: tuple[Finding, ...] = ()
    answer: Answer | None = None
    p_values: npt.ArrayLike = ()
    confidence: float = CONFIDENCE
    unadjusted: npt.ArrayLike = ()
    sets: tuple[ConstraintSet, ...] = ()
    selection: Selection | None = None
    dynamics_draws: int = 0

    def __post_init__(self) -> None:
        for name in ("reward_intervals", "multiplier_intervals", "budget_intervals"):
            table = np.array(getattr(self, name), dtype=np.float64).reshape(-1, 2)
            object.__setattr__(self, name, read_only(table))
        for kind in ("reward", "multiplier", "budget"):
            name = f"{kind}_standard_errors"
            object.__setattr__(self, name, read_only(np.array(getattr(self, name), np.float64)))
        for name, tail in (("cost_intervals", (-1, 2)), ("cost_standard_errors", (-1,))):
            parts = (np.array(part, np.float64).reshape(tail) for part in getattr(self, name))
            object.__setattr__(self, name, tuple(read_only(part) for part in parts))
        object.__setattr__(self, "active", read_only(np.array(self.active, dtype=bool)))
        object.__setattr__(self, "findings", tuple(self.findings))
        # Whoever adds a sentence says its kind: logic asks for that.
        assert all(hasattr(one, "kind") for one in self.findings), self.findings
        for name in ("p_values", "unadjusted"):
            tested = np.array(getattr(self, name), dtype=np.float64)
            tested = tested if len(tested) else np.full(len(self.active), np.nan)
            object.__setattr__(self, name, read_only(tested))
        object.__setattr__(self, "sets", tuple(self.sets))

    def set_of(self, constraint: int) -> ConstraintSet | None:
        """The set of stand-ins that a constraint is in; None where it is in none."""
        return next((one for one in self.sets if constraint in one.members), None)

    def interval(
        self, reward_direction: npt.ArrayLike, cost_directions: Iterable[npt.ArrayLike] = ()
    ) -> tuple[float, float]:
        """Least and largest reward_direction . w + sum_k multiplier_k * cost_directions[k] . w_k.

        w are the reward weights, w_k those of constraint k. NaN where the estimator cannot tell.
        Multiples of one reward weight or of one price have the interval of the table. All else is
        exact for an `Explanation`; for a noisy expert it is the delta method, which knows no bounds
        and trusts the curvature: near a bound or with few steps it is rougher than the table.

        Args:
            reward_direction: [D].
            cost_directions: one [D_k] per constraint.
        """
        if self.answer is None:
            return np.nan, np.nan
        return self.answer(reward_direction, cost_directions)


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
    costs = [np.full(len(weights), np.nan) for weights in cost_weights]
    constraints = np.full(len(costs), np.nan)
    reward = np.full(len(reward_weights), np.nan)

    def both_ends(column: np.ndarray) -> np.ndarray:
        return np.stack([column, column], axis=-1)

    return Identification(
        reward_intervals=both_ends(reward),
        cost_intervals=[both_ends(column) for column in costs],
        multiplier_intervals=both_ends(constraints),
        budget_intervals=both_ends(constraints),
        reward_standard_errors=reward,
        cost_standard_errors=costs,
        multiplier_standard_errors=constraints,
        budget_standard_errors=constraints,
        active=np.asarray(active, bool),
        findings=tuple(findings),
    )


def tabled(
    blocks: Sequence[slice],
    ends: np.ndarray,
    spread: np.ndarray,
    *,
    active: npt.ArrayLike,
    findings: Iterable[Finding],
    p_values: npt.ArrayLike,
    answer: Answer | None,
) -> Identification:
    """The `Identification` of intervals and standard errors that lie one after the other.

    Args:
        blocks: of the weights: of the reward, then of each constraint.
        ends: [D + K + K, 2] of weights, multipliers and budgets.
        spread: [D + K + K] likewise.
        active: [K] bool.
        findings: what was and was not found.
        p_values: [K].
        answer: to linear questions.
    """
    size, constraints = blocks[-1].stop, len(blocks) - 1
    prices = slice(size, size + constraints)
    budgets = slice(prices.stop, prices.stop + constraints)
    return Identification(
        reward_intervals=ends[blocks[0]],
        cost_intervals=[ends[block] for block in blocks[1:]],
        multiplier_intervals=ends[prices],
        budget_intervals=ends[budgets],
        reward_standard_errors=spread[blocks[0]],
        cost_standard_errors=[spread[block] for block in blocks[1:]],
        multiplier_standard_errors=spread[prices],
        budget_standard_errors=spread[budgets],
        active=np.asarray(active, bool),
        findings=tuple(findings),
        answer=answer,
        p_values=p_values,
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


def akaike(parameters: Parameters, log_likelihood: float) -> float:
    """Akaike's criterion, smaller is better: 2 * coefficients - 2 * log-likelihood."""
    return 2.0 * parameters.degrees - 2.0 * log_likelihood


def schwarz(parameters: Parameters, log_likelihood: float, steps: int) -> float:
    """Schwarz's criterion, smaller is better: coefficients * log(steps) - 2 * log-likelihood."""
    return parameters.degrees * float(np.log(max(steps, 1))) - 2.0 * log_likelihood


def weights_as_parameters(recovery: Recovery) -> Parameters:
    """The `Parameters` of a recovery that has weights and perhaps a temperature, but no errors."""
    names = coefficient_names(recovery.reward_names, recovery.cost_names)
    if not recovery.temperature > 0:
        absence = "there are no coefficients: this demonstrator has no temperature"
        return unmeasured(names, np.full(len(names), np.nan), lower=-np.inf, absence=absence)
    # Weights that are NaN belong to a block whose coefficients are all 0.
    parts = [np.nan_to_num(recovery.reward_weights)]
    for price, weights in zip(recovery.multipliers, recovery.cost_weights, strict=True):
        parts.append(price * (weights if price else np.zeros(len(weights))))
    points = np.concatenate(parts) / recovery.temperature
    lower = np.where(np.arange(len(points)) < len(parts[0]), np.minimum(points, 0.0), 0.0)
    lower = np.where(lower < 0, -np.inf, lower)
    return unmeasured(names, points, lower=lower, absence="this estimator has no standard errors")
