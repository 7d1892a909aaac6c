"""Metrics of behaviours, of weights and of sets.

The feasible sets of two objectives are compared on a sample of behaviours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidModel
from tacit.forward.solution import check_policy
from tacit.forward.solve import solve
from tacit.inference.expectations import check_task, expectations_from_start, pull_back
from tacit.inference.gauge import normalised
from tacit.judge.outcomes import best_values
from tacit.model.mdp import MDP
from tacit.model.objective import Features, Objective
from tacit.recovery import Recovery

# Mass that the arithmetic of a mixture may leave on an action it does not take.
NEGLIGIBLE_MASS = 1e-6
# Spending this close to a budget, relative to the largest a cost can sum to, is within it.
AT_BUDGET = 1e-9


@dataclass(frozen=True)
class SetAgreement:
    """How well a recovered set meets a true one. Every score is in [0, 1].

    Attributes:
        precision: share of the recovered set that is true; NaN where nothing was recovered.
        recall: share of the true set that was recovered; NaN where nothing is true.
        f1: 2 * both / (true + recovered), the harmonic mean of the two; 1 where both are empty.
        jaccard: both / either; 1 where both are empty. f1 and jaccard are symmetric.
    """

    precision: float
    recall: float
    f1: float
    jaccard: float


def set_agreement(truth: npt.ArrayLike, recovered: npt.ArrayLike) -> SetAgreement:
    """The scores of a recovered set against a true one, as two boolean arrays of one shape."""
    first, second = np.asarray(truth, bool), np.asarray(recovered, bool)
    if first.shape != second.shape:
        raise InvalidModel(f"sets must have one shape; got {first.shape} and {second.shape}")
    both = int((first & second).sum())
    either = int((first | second).sum())
    true = int(first.sum())
    positive = int(second.sum())
    return SetAgreement(
        precision=both / positive if positive else float("nan"),
        recall=both / true if true else float("nan"),
        f1=2 * both / (true + positive) if either else 1.0,
        jaccard=both / either if either else 1.0,
    )


def costly_pairs(mdp: MDP, objective: Objective) -> np.ndarray:
    """[S, A] bool, the pairs that break some budget when paid for at every step.

    cost(s, a) / (1 - discount) > budget for some constraint: a set that does not depend on the
    scale of a cost with its budget, nor on a shift of both. It depends on shaping. At discount 1
    the steps of `mdp.horizon` stand for 1 / (1 - discount). An end is paid for once: all of its row
    is in the set where its cost alone is more than the budget. Unavailable pairs are not.
    """
    _, costs = objective.tables(mdp)
    per_step = 1.0 - mdp.discount if mdp.discount < 1.0 else 1.0 / mdp.horizon
    # A cost at its limit must not be flipped by the rounding of a rescaling.
    rounding = AT_BUDGET * np.abs(costs).max(axis=(1, 2), initial=0.0)
    limits = (per_step * objective.budgets + rounding)[:, None, None]
    if mdp.restricted:
        end_limits = (objective.budgets + rounding)[:, None, None]
        limits = np.where(mdp.ends[:, None], end_limits, np.where(mdp.available, limits, np.inf))
    return np.asarray((costs > limits).any(axis=0))


def weight_error(truth: npt.ArrayLike, recovered: npt.ArrayLike) -> float:
    """Full L1 distance of two weight vectors [D], each scaled to L1 norm 1 first. Range [0, 2].

    Weights that are all 0 stay 0. Symmetric, invariant to the positive scale of either vector. NaN
    where a weight is NaN, as for an inactive constraint, whose weights cannot be known.
    """
    one, other = normalised(truth)[0], normalised(recovered)[0]
    if one.shape != other.shape:
        raise InvalidModel(f"weights must be as many; got {one.shape} and {other.shape}")
    return float(np.abs(one - other).sum())


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
    where that is not meant, pass the sums over actions, [S]. Where episodes end, behaviours take
    differently long: sum |first - second| / sum (first + second) is the same where they do not.
    """
    if mdp.ends.any():
        total = float(np.sum(first) + np.sum(second))
        return float(np.abs(np.asarray(first) - np.asarray(second)).sum() / total)
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
    visits = np.where(np.asarray(first).any(axis=1), visits, 0.0)  # nothing is done at ends
    return float(min(1.0, visits @ gaps / visits.sum()))


def policy_agreement(
    mdp: MDP, table: np.ndarray, policy: np.ndarray, *, visits: np.ndarray, tolerance: float = 1e-6
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
    action_values = table + mdp.discount * mdp.expected_next(values)
    best = np.where(mdp.choices, action_values, -np.inf).max(axis=1, keepdims=True)
    gaps = np.where(mdp.choices, best - action_values, 0.0)
    visits = np.where(mdp.ends, 0.0, visits)
    # The second term is rounding: where all actions tie, gaps are nothing else.
    rounding = 1e-11 * (np.abs(table).max() + np.abs(values).max())
    suboptimal_mass = np.where(gaps > tolerance * gaps.max() + rounding, policy, 0.0).sum(axis=1)
    return 1.0 - float(visits[suboptimal_mass > NEGLIGIBLE_MASS].sum() / visits.sum())


def log_likelihood(
    mdp: MDP, policy: np.ndarray | Recovery, demonstrations: Demonstrations
) -> float:
    """Mean log probability of the observed actions under the policy, in nats a step.

    Range [-inf, 0]: -log A for the uniform policy where all A actions are available, -inf as soon
    as one observed action has probability 0, as an exactly optimal policy gives to any slip. The
    order of steps and episodes does not matter. Meant for demonstrations that the policy was not
    fitted to. A recovery is judged by its behaviour, lapses included.
    """
    policy = check_policy(mdp, policy.behaviour if isinstance(policy, Recovery) else policy)
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


@dataclass(frozen=True, eq=False)
class Behaviours:
    """Visitations to ask about: vertices, and convex combinations of two of them each.

    Attributes:
        vertices: [V, S, A] visitations of optimal policies of random rewards.
        members: [N, 2] which vertices each combination mixes.
        weights: [N, 2] how much of each.
        seed: names the draw.
    """

    vertices: np.ndarray
    members: np.ndarray
    weights: np.ndarray
    seed: int

    @property
    def count(self) -> int:
        """Number of behaviours, V + N."""
        return len(self.vertices) + len(self.members)

    def spent(self, costs: np.ndarray) -> np.ndarray:
        """[V + N, K] expected discounted costs [K, S, A] of every behaviour, vertices first."""
        at_vertices = np.tensordot(self.vertices, costs, ((1, 2), (1, 2)))
        mixed = (self.weights[:, :, None] * at_vertices[self.members]).sum(axis=1)
        return np.concatenate([at_vertices, mixed])


@dataclass(frozen=True, kw_only=True)
class FeasibleAgreement:
    """How far two objectives allow the same behaviours.

    Attributes:
        jaccard: behaviours allowed by both / by either; 1 where neither allows any. Range [0, 1],
            symmetric.
        balanced: mean of the shares judged right among those truly allowed and among those truly
            refused, or the one of the two that exists. Range [0, 1]; a constraint that allows
            everything, or nothing, gets 0.5 where both exist.
        true_share: share of the behaviours allowed by the truth.
        recovered_share: share allowed by the recovered objective.
        samples: number of behaviours asked about.
        seed: of their draw.
    """

    jaccard: float
    balanced: float
    true_share: float
    recovered_share: float
    samples: int
    seed: int


def sample_behaviours(
    mdp: MDP,
    *,
    features: Features | None = None,
    vertices: int = 128,
    combinations: int = 4000,
    seed: int = 0,
) -> Behaviours:
    """Behaviours that want something: the `vertices` of random rewards, and mixtures of pairs.

    Random policies would not do: they wander, are never within a budget that binds, and so make any
    cost look right. Mixtures of many vertices crowd in the middle for the same reason: two it is.

    Args:
        mdp: the model.
        features: rewards are standard normal weights times all reward and cost features, each
            column scaled to standard deviation 1 over (s, a). None: a standard normal reward for
            every state.
        vertices: number of rewards drawn.
        combinations: number of pairs drawn, with a uniform share each.
        seed: names the draw.

    At discount 1 the largest entry of a reward, and its standard deviation, are taken off every
    step: without, going round for ever would pay.
    """
    if vertices < 2 or combinations < 0:
        raise InvalidModel(
            "vertices must be at least 2 and combinations at least 0; "
            f"got {vertices} and {combinations}"
        )
    random = np.random.default_rng(seed)
    basis = None if features is None else _standardised(mdp, features)
    visitations = np.empty((vertices, mdp.states, mdp.actions))
    for visitation in visitations:
        if basis is None:
            reward = random.standard_normal(mdp.states)
        else:
            reward = basis @ random.standard_normal(basis.shape[2])
        if mdp.discount == 1.0:
            reward = reward - reward.max() - reward.std()
        visitation[:] = solve(mdp, Objective(reward)).visitation
    first = random.integers(vertices, size=combinations)
    second = (first + random.integers(1, vertices, size=combinations)) % vertices  # another one
    share = random.random(combinations)
    members = np.stack([first, second], axis=1)
    weights = np.stack([share, 1.0 - share], axis=1)
    return Behaviours(visitations, members, weights, seed)


def allowed(mdp: MDP, objective: Objective, behaviours: Behaviours) -> np.ndarray:
    """[V + N] bool, which behaviours keep all budgets of the objective."""
    _, costs = objective.tables(mdp)
    slack = AT_BUDGET * np.abs(costs).max(axis=(1, 2), initial=0.0) * mdp.horizon
    return (behaviours.spent(costs) <= objective.budgets + slack).all(axis=1)


def feasible_agreement(
    mdp: MDP, truth: Objective, recovered: Objective, *, behaviours: Behaviours
) -> FeasibleAgreement:
    """The agreement of two feasible sets on the behaviours sampled; rewards are not read.

    Invariant to the scale of a cost with its budget, and to shifts and shaping of a cost with the
    matching shift of its budget. The numbers of constraints may differ.

    Args:
        mdp: the model.
        truth: costs and budgets.
        recovered: costs and budgets.
        behaviours: of `sample_behaviours`, on the same model.
    """
    true = allowed(mdp, truth, behaviours)
    judged = allowed(mdp, recovered, behaviours)
    either = int((true | judged).sum())
    shares_right = [right.mean() for right in (judged[true], ~judged[~true]) if len(right)]
    return FeasibleAgreement(
        jaccard=float((true & judged).sum() / either) if either else 1.0,
        balanced=float(np.mean(shares_right)),
        true_share=float(true.mean()),
        recovered_share=float(judged.mean()),
        samples=behaviours.count,
        seed=behaviours.seed,
    )


def _standardised(mdp: MDP, features: Features) -> np.ndarray:
    """[S, A, D] all reward and cost features, each column of standard deviation 1 or all zeros."""
    columns = np.concatenate(features.by_action(mdp.actions), axis=2)
    spread = columns.std(axis=(0, 1))
    # A constant column moves no policy; its spread is rounding.
    varies = spread > 1e-12 * np.abs(columns).max(axis=(0, 1))
    return np.where(varies, columns, 0.0) / np.where(varies, spread, 1.0)
