"""How alike two behaviours are, and how well one explains what was seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.demonstrations import Demonstrations
from tacit.forward.visitation import check_policy
from tacit.inverse.expectations import check_task, expectations_from_start, pull_back
from tacit.judge.outcomes import best_values
from tacit.mdp import MDP
from tacit.objective import Features

# Mass that the arithmetic of a mixture may leave on an action it does not take.
DUST = 1e-6


@dataclass(frozen=True)
class FeatureGap:
    """How far a behaviour misses the feature expectations of demonstrations. Each in [0, inf).

    Attributes:
        gap: relative distance of the two expectations.
        noise: root mean square of what `gap` is for the demonstrator itself, from the standard
            errors over trajectories; NaN for a single one. A gap of this size is no error.
        truncation: bound on the part of the gap that is due to trajectories cut off.
    """

    gap: float
    noise: float
    truncation: float


def visitation_distance(mdp: MDP, first: np.ndarray, second: np.ndarray) -> float:
    """Total variation of two normalised visitations [S, A]. Range [0, 1].

    0.5 * (1 - discount) * sum |first - second|: a metric. Times the width of a table it bounds the
    difference of the two normalised returns. Two actions with the same consequences are still two:
    where that is not meant, pass the sums over actions, [S].
    """
    gap = 0.5 * (1.0 - mdp.discount) * np.abs(np.asarray(first) - np.asarray(second)).sum()
    return float(min(1.0, gap))


def policy_distance(first: np.ndarray, second: np.ndarray, *, visits: np.ndarray) -> float:
    """Mean over states of the total variation of two policies' actions. Range [0, 1]; symmetric.

    Args:
        first: [S, A] a policy.
        second: [S, A] a policy.
        visits: [S] weight of each state, in any unit.
    """
    gaps = 0.5 * np.abs(np.asarray(first) - np.asarray(second)).sum(axis=1)
    return float(min(1.0, visits @ gaps / visits.sum()))


def policy_agreement(
    mdp: MDP,
    table: np.ndarray,
    policy: np.ndarray,
    *,
    visits: np.ndarray,
    tolerance: float = 1e-6,
) -> float:
    """Share of states where all mass of the policy lies on optimal actions. Range [0, 1].

    An action is optimal if its value is within `tolerance` of the best one's, in units of the
    largest such gap anywhere, so ties count as optimal; a mass of 1e-6 is none. Invariant to
    positive scale, shift and shaping of the table. With the policy's own visits it is 1 exactly
    when the policy has no Lagrangian regret.

    Args:
        mdp: the model.
        table: [S, A] reward to be optimal for: the true Lagrangian.
        policy: [S, A] the policy to judge.
        visits: [S] weight of each state, in any unit.
        tolerance: relative gap up to which an action still counts as optimal.
    """
    policy = check_policy(mdp, policy)
    values = best_values(mdp, table)
    worth = table + mdp.discount * mdp.expected_next(values)
    gaps = worth.max(axis=1, keepdims=True) - worth
    # The second term is rounding: where all actions tie, gaps are nothing else.
    rounding = 1e-11 * (np.abs(table).max() + np.abs(values).max())
    wrong = np.where(gaps > tolerance * gaps.max() + rounding, policy, 0.0).sum(axis=1)
    return 1.0 - float(visits[wrong > DUST].sum() / visits.sum())


def log_likelihood(mdp: MDP, policy: np.ndarray, demonstrations: Demonstrations) -> float:
    """Mean log probability of the observed actions under the policy, in nats a step.

    Range [-inf, 0]: -log A for the uniform policy, -inf as soon as one observed action has
    probability 0, as an exactly optimal policy gives to any slip. The order of steps and episodes
    does not matter. Meant for demonstrations that the policy was not fitted to.
    """
    policy = check_policy(mdp, policy)
    counts = demonstrations.counts(mdp)
    seen = counts > 0
    with np.errstate(divide="ignore"):
        return float(counts[seen] @ np.log(np.minimum(policy[seen], 1.0)) / counts.sum())


def feature_gap(
    mdp: MDP, visitation: np.ndarray, *, features: Features, demonstrations: Demonstrations
) -> FeatureGap:
    """The `FeatureGap` of a behaviour [S, A] against demonstrations.

    The Euclidean norm of (policy's - demonstrations') expected discounted features, relative to the
    norm of the demonstrations', for each feature map apart; root mean square over the maps.
    Invariant to the unit of a whole map. NaN where no demonstration begins at the start.
    """
    check_task(mdp, features, demonstrations)
    seen = expectations_from_start(mdp, features, demonstrations)
    if seen is None:
        return FeatureGap(np.nan, np.nan, np.nan)
    return FeatureGap(
        seen.gap(pull_back(features, visitation)), seen.noise, seen.relative_truncation
    )
