"""The gauge of an explanation: weights of norm 1, prices, and budgets that its actions can spend.

A budget that binds is spent exactly, so it is the expectation of the cost. The mean over the
demonstrations is off by sampling, often to where no policy made of demonstrated actions gets, and
an optimal policy would then need others. What the policy of the demonstrated frequencies spends is
within reach by construction, and is a sample of the actions only: the transitions are known.
"""

from __future__ import annotations

import numpy as np

from tacit.estimators.explanation.program import least
from tacit.forward.policies import Unbounded, best_column
from tacit.forward.solution import costs_of, visitation
from tacit.inference.expectations import Expectations
from tacit.model.ends import led_to_an_end
from tacit.model.mdp import MDP, outside_policy
from tacit.model.objective import Features
from tacit.model.transitions import Successors

# Bounds on the sampling error of expectations hold jointly with this probability.
CONFIDENCE = 0.999
# Budgets moved by less than this, relative to their size, were not moved.
MOVED = 1e-9


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
    for k, full in enumerate(features.by_action(mdp.actions)[1:]):
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
