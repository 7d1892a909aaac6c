"""The gauge of an explanation: weights of norm 1, prices, and budgets that its actions can spend.

A budget that binds is spent exactly, so it is the expectation of the cost. The mean over the
demonstrations is off by sampling, often to where no policy made of demonstrated actions gets, and
an optimal policy would then need others. What the policy of the demonstrated frequencies spends is
within reach by construction, and is a sample of the actions only: the transitions are known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tacit.data.observed import Observed
from tacit.forward.policies import Unbounded, best_column
from tacit.forward.solution import costs_of, visitation
from tacit.inference.gauge import Gauge
from tacit.inverse.expectations import Expectations
from tacit.inverse.findings import Finding, Kind
from tacit.inverse.optimal import Columns, Cone, cone
from tacit.inverse.optimal.program import least
from tacit.inverse.optimal.questions import NOTHING, Questions
from tacit.model.ends import led_to_an_end
from tacit.model.mdp import MDP, outside_policy
from tacit.model.objective import Features, Objective
from tacit.model.transitions import Successors

# Bounds on the sampling error of expectations hold jointly with this probability.
CONFIDENCE = 0.999
# Budgets moved by less than this, relative to their size, were not moved.
MOVED = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """What a recovery is made from.

    Attributes:
        mdp: the model.
        features: what reward and costs may be made of.
        demonstrations: what was seen.
        columns: the columns of the features.
        cone: all explanations.
        seen: expectations of the trajectories seen from their start; None if there are none.
        estimator: the call that makes the recovery.
        counts: [S, A] how often each action was seen, less those that errors may have taken.
        errors: largest chance that a step is wrong.
    """

    mdp: MDP
    features: Features
    demonstrations: Observed
    columns: Columns
    cone: Cone
    seen: Expectations | None
    estimator: str
    counts: np.ndarray
    errors: float = 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Parts:
    """An objective in the gauge.

    Attributes:
        reward_weights: [D] of L1 norm 1; NaN if the reward is 0.
        cost_weights: one [D_k] per constraint, of sum 1; NaN if it is inactive.
        multipliers: [K].
        budgets: [K] infinite if inactive.
        active: [K] bool.
    """

    reward_weights: np.ndarray
    cost_weights: list[np.ndarray]
    multipliers: np.ndarray
    budgets: np.ndarray
    active: np.ndarray


def calibrated_parts(
    evidence: Evidence, amounts: np.ndarray, values: np.ndarray
) -> tuple[Parts, list[Finding]]:
    """The `Parts` of these amounts [C], budgets calibrated; findings about moved budgets."""
    columns, mdp = evidence.columns, evidence.mdp
    theta = columns.weights(amounts)
    large = [amounts[columns.block == b].sum() > NOTHING for b in range(len(theta))]
    parts = [part * big for part, big in zip(theta, large, strict=True)]
    edges = np.cumsum([0, *map(len, parts)]).tolist()
    x, blocks = np.concatenate(parts), tuple(slice(*pair) for pair in pairwise(edges))
    scaled = Gauge(x, np.ones(len(x)), blocks, spent=np.zeros(len(x)))
    active, costs = scaled.multipliers > 0, list(scaled.cost_weights)
    needed = np.isfinite(scaled.reward_weights).all()
    gains = columns.table(amounts) + mdp.discount * mdp.expected_next(values)
    gains = np.where(mdp.choices, gains, -np.inf)
    budgets, moved = _budgets(evidence, costs, active, gains.argmax(axis=1))
    findings = [
        Finding(
            f"The budget {f'of constraint {k} ' if len(active) > 1 else ''}was moved from "
            f"{old:.6g} to {budgets[k]:.6g}: policies that use only demonstrated actions cannot "
            "spend the former.",
            Kind.UNATTAINABLE,
            constraint=k,
            number=old,
        )
        for k, old in moved
    ]
    found = Parts(
        reward_weights=scaled.reward_weights,
        cost_weights=costs,
        multipliers=np.where(active & ~needed, np.inf, scaled.multipliers),
        budgets=budgets,
        active=active,
    )
    return found, findings


def _budgets(
    evidence: Evidence, costs: list[np.ndarray], active: np.ndarray, greedy: np.ndarray
) -> tuple[np.ndarray, list[tuple[int, float]]]:
    """[K] budgets, and (constraint, what the demonstrations spend) for those that were moved."""
    budgets = np.full(len(active), np.inf)
    if not active.any():
        return budgets, []
    mdp, seen = evidence.mdp, evidence.seen
    tables = objective_of(evidence, None, costs, budgets).tables(mdp)[1][active]
    wanted = np.full(len(tables), np.nan)
    if seen is not None and not evidence.errors:
        wanted = np.array([costs[k] @ seen.costs[k] for k in np.flatnonzero(active)])
    budgets[active], moved = calibrate(mdp, tables, wanted, evidence.counts, greedy)
    which = np.flatnonzero(active)[moved]
    return budgets, list(zip(which.tolist(), wanted[moved].tolist(), strict=True))


def objective_of(
    evidence: Evidence,
    reward_weights: np.ndarray | None,
    cost_weights: list[np.ndarray],
    budgets: np.ndarray,
) -> Objective:
    """The objective of these weights; NaN weights count as 0."""
    features = evidence.features
    width = features.reward.shape[-1]
    reward = np.zeros(width) if reward_weights is None else np.nan_to_num(reward_weights)
    return features.objective(reward, [np.nan_to_num(w) for w in cost_weights], budgets)


def expectation_ranges(
    mdp: MDP, features: Features, observed: np.ndarray, seen: Expectations | None
) -> list[np.ndarray]:
    """One [D_k, 2] per constraint: between what the expectation of each feature must lie.

    Within reach of policies that take demonstrated actions in visited states and any elsewhere;
    and near the demonstrations' own expectations, where these are known. Infinite where, at
    discount 1, such a policy can go round for ever.
    """
    allowed = mdp.choices & (observed | ~observed.any(axis=1, keepdims=True))
    allowed = led_to_an_end(mdp, allowed) > 0
    narrow, chosen = _restrict(mdp, allowed)
    every = np.arange(mdp.states)[:, None]
    ranges = []
    for k, given in enumerate(features.costs):
        full = given if given.ndim == 3 else np.repeat(given[:, None, :], mdp.actions, axis=1)
        ends = np.empty((full.shape[-1], 2))
        for j in range(full.shape[-1]):
            table = np.ascontiguousarray(full[every, chosen, j])[None]
            for end, sign in enumerate((-1.0, 1.0)):
                ends[j, end] = _farthest(narrow, table, sign)
        if seen is not None:
            ends = _intersect(ends, seen, k)
        ranges.append(ends)
    return ranges


def _farthest(mdp: MDP, table: np.ndarray, sign: float) -> float:
    """The largest sum of a table [1, S, A], for a sign of -1 the least; infinite without one."""
    try:
        return float(best_column(mdp, table, np.array([sign])).totals[0])
    except Unbounded:
        return sign * np.inf


def _intersect(ends: np.ndarray, seen: Expectations, k: int) -> np.ndarray:
    """[D_k, 2] the part of the ranges near the means of constraint k; or all, if none is."""
    error = np.minimum(seen.hoeffding(CONFIDENCE)[k + 1], seen.bernstein(CONFIDENCE)[k + 1])
    error = error + seen.truncation[k + 1]
    low = np.maximum(ends[:, 0], seen.costs[k] - error)
    high = np.minimum(ends[:, 1], seen.costs[k] + error)
    return np.where((low <= high)[:, None], np.stack([low, high], axis=1), ends)


def calibrate(
    mdp: MDP, costs: np.ndarray, wanted: np.ndarray, counts: np.ndarray, fallback: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """[K] what the policy spends that takes actions as often as they were seen; [K] moved.

    Moved are those that the demonstrations spend on average and that no policy made of demonstrated
    actions can.

    Args:
        mdp: the model.
        costs: [K, S, A].
        wanted: [K] what the demonstrations spend on average; NaN if none was seen from its start.
        counts: [S, A] how often each action was seen.
        fallback: [S] the action taken in states that were never visited.
    """
    unseen = counts.sum(axis=1) == 0
    taken = counts.copy()
    taken[unseen, fallback[unseen]] = 1.0
    taken = led_to_an_end(mdp, taken)
    policy = taken / taken.sum(axis=1, keepdims=True)
    spent = costs_of(costs, visitation(mdp, outside_policy(mdp, policy)))
    kept = np.zeros(len(spent), bool)
    if np.isnan(wanted).any():
        return spent, kept
    spread = np.ptp(costs.reshape(len(costs), -1), axis=1)
    spread = spread / (1.0 - mdp.discount) if mdp.discount < 1.0 else spread * mdp.horizon
    scale = np.maximum(np.maximum(spread, np.abs(wanted)), 1e-300)
    if _distance(mdp, costs, wanted, taken > 0, scale) <= MOVED:
        return spent, kept
    return spent, np.abs(spent - wanted) > MOVED * scale


def _distance(
    mdp: MDP, costs: np.ndarray, wanted: np.ndarray, allowed: np.ndarray, scale: np.ndarray
) -> float:
    """How far the costs of policies of `allowed` [S, A] actions stay from `wanted`, in scales."""
    from scipy.sparse import block_array, csc_array, eye_array, kron

    pairs = np.flatnonzero(allowed.ravel())
    outflow = csc_array(kron(eye_array(mdp.states), np.ones((1, mdp.actions))))
    flow = csc_array(outflow - mdp.discount * mdp.sparse().T)[:, pairs]
    prices = csc_array(costs.reshape(len(costs), -1)[:, pairs] / scale[:, None])
    off = csc_array(np.hstack([np.eye(len(wanted)), -np.eye(len(wanted))]))
    right = np.r_[mdp.initial, wanted / scale]
    found = least(
        np.r_[np.zeros(len(pairs)), np.ones(2 * len(wanted))],
        block_array([[flow, None], [prices, off]]),
        lower=np.zeros(len(pairs) + 2 * len(wanted)),
        row_lower=right,
        row_upper=right,
    )
    return float(found[len(pairs) :].sum())


def _restrict(mdp: MDP, allowed: np.ndarray) -> tuple[MDP, np.ndarray]:
    """The model in which actions not allowed do what the first allowed one does; [S, A] which.

    Where some are not there anyway, the others are not there either.
    """
    if mdp.restricted:
        there = allowed & mdp.available
        if mdp.discount == 1.0:  # what nobody comes to must not be endless
            there &= _reached(mdp, there)[:, None]
        narrow = MDP(mdp.transitions, mdp.initial, mdp.discount, available=there)
        return narrow, np.tile(np.arange(mdp.actions), (mdp.states, 1))
    first = allowed.argmax(axis=1)
    chosen = np.where(allowed, np.arange(mdp.actions), first[:, None])
    every = np.arange(mdp.states)[:, None]
    lists = mdp.transitions
    narrow = Successors(lists.states[every, chosen], lists.probabilities[every, chosen])
    return MDP(narrow, mdp.initial, mdp.discount), chosen


def _reached(mdp: MDP, allowed: np.ndarray) -> np.ndarray:
    """[S] bool, the states that some policy of `allowed` [S, A] actions comes to."""
    reached, more = mdp.initial > 0.0, True
    while more:
        wider = reached | (mdp.inflow(1.0 * (allowed & reached[:, None])) > 0.0)
        more, reached = bool((wider != reached).any()), wider
    return reached


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers to linear questions over all explanations, in a form that a file can keep.

    Attributes:
        mdp: the model.
        columns: what explanations are made of.
        observed: [S, A] bool, the pairs that were demonstrated.
        tolerance: by how much an inequality may be broken, amounts summing to one.
    """

    mdp: MDP
    columns: Columns
    observed: np.ndarray
    tolerance: float

    @classmethod
    def of(cls, questions: Questions) -> Answers:
        """The answers to questions whose cone was built already."""
        found = questions.cone
        answers = cls(found.mdp, questions.columns, found.observed, questions.tolerance)
        vars(answers)["questions"] = questions
        return answers

    @cached_property
    def questions(self) -> Questions:
        """About the set of explanations, which is built when it is first asked."""
        found = cone(self.mdp, self.columns.tables, self.observed.astype(float))
        return Questions(found, self.columns, self.tolerance)

    def __call__(
        self, reward_direction: npt.ArrayLike, cost_directions: Iterable[npt.ArrayLike] = ()
    ) -> tuple[float, float]:
        """The least and largest value over all explanations; see `Questions`."""
        return self.questions(reward_direction, cost_directions)
