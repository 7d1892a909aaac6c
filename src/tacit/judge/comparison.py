"""A recovered objective judged against the true one by every metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidModel
from tacit.forward.solution import Solution, Status, check_policy
from tacit.forward.solution import visitation as visitation_of
from tacit.forward.solve import Solver, solve
from tacit.judge import behaviour, outcomes
from tacit.judge.behaviour import Behaviours, FeasibleAgreement, FeatureGap, SetAgreement
from tacit.model.mdp import MDP
from tacit.model.objective import Features, Objective


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison:
    """How a recovered objective, and the behaviour it leads to, stand against the truth.

    NaN where a question has no answer. K is the number of true constraints; with as many recovered
    ones they are compared in order.

    Attributes:
        starc: STARC distance of the rewards, in [0, 1]; blind to scale, shift and shaping.
        lagrangian_starc: STARC distance of the rewards less what the multipliers charge: all that
            behaviour depends on. In [0, 1].
        cost_starcs: [K] STARC distance of each cost, in [0, 1]; 0.5 for a recovered cost that is 0.
        reward_correlation: Pearson's correlation of the rewards over (s, a), in [-1, 1].
        cost_correlations: [K] Pearson's correlation of each cost over (s, a), in [-1, 1].
        regret: true reward lost by the recovered policy; negative for a violator.
        relative_regret: that regret in units of what policies can earn at most less at least,
            with no budget; in [-1, 1].
        violation: max over k of (spent - budget)+ / max(1, |budget|) in the true problem, >= 0.
        excess: [K] true cost of the recovered policy less the true budget.
        lagrangian_regret: loss of the recovered policy at the true prices, >= 0.
        relative_lagrangian_regret: that regret in units of what policies can reach at those prices
            at most less at least; in [0, 1] for an exact expert.
        multipliers: [K] true ones, in the gauge of canonical norms 1.
        recovered_multipliers: recovered ones, in that gauge.
        multiplier_errors: [K] absolute differences of the two, >= 0.
        feasible_set: which behaviours the budgets allow, agreement in [0, 1].
        costly_set: which pairs break a budget if paid for ever, agreement in [0, 1].
        visitation_distance: total variation of the normalised state-action visitations, in [0, 1].
        state_distance: total variation of the state visitations, which no choice between actions of
            equal consequences moves; in [0, 1].
        policy_distance: total variation of the actions, averaged over the states as the true expert
            visits them; in [0, 1].
        policy_agreement: share of the true expert's visits made to states where the recovered
            policy takes only actions that are optimal at the true prices; in [0, 1], and NaN for a
            noisy expert, which takes every action.
        feature_gap: distance to the demonstrations' feature expectations against its sampling
            noise; NaN without features and demonstrations.
        log_likelihood: of the demonstrations under the recovered policy, in nats a step, <= 0; NaN
            without demonstrations.
        true_log_likelihood: of the demonstrations under the true policy.
        temperature: noise of the true expert; 0 for an optimal one.
        status: how the true problem's solve ended.
        recovered_status: how the recovered one's ended. Where it was infeasible the policy of least
            violation was judged.
    """

    starc: float
    lagrangian_starc: float
    cost_starcs: np.ndarray
    reward_correlation: float
    cost_correlations: np.ndarray
    regret: float
    relative_regret: float
    violation: float
    excess: np.ndarray
    lagrangian_regret: float
    relative_lagrangian_regret: float
    multipliers: np.ndarray
    recovered_multipliers: np.ndarray
    multiplier_errors: np.ndarray
    feasible_set: FeasibleAgreement
    costly_set: SetAgreement
    visitation_distance: float
    state_distance: float
    policy_distance: float
    policy_agreement: float
    feature_gap: FeatureGap
    log_likelihood: float
    true_log_likelihood: float
    temperature: float
    status: Status
    recovered_status: Status

    def scalars(self) -> dict[str, float]:
        """One number a metric, for tables; of several constraints the worst one's."""
        return {
            "starc": self.starc,
            "lagrangian_starc": self.lagrangian_starc,
            "cost_starc": _worst(self.cost_starcs, np.max),
            "reward_correlation": self.reward_correlation,
            "cost_correlation": _worst(self.cost_correlations, np.min),
            "regret": self.regret,
            "relative_regret": self.relative_regret,
            "violation": self.violation,
            "lagrangian_regret": self.lagrangian_regret,
            "relative_lagrangian_regret": self.relative_lagrangian_regret,
            "multiplier_error": _worst(self.multiplier_errors, np.max),
            "feasible_jaccard": self.feasible_set.jaccard,
            "feasible_balanced": self.feasible_set.balanced,
            "costly_f1": self.costly_set.f1,
            "visitation_distance": self.visitation_distance,
            "state_distance": self.state_distance,
            "policy_distance": self.policy_distance,
            "policy_agreement": self.policy_agreement,
            "feature_gap": self.feature_gap.gap,
            "feature_noise": self.feature_gap.noise,
            "log_likelihood": self.log_likelihood,
        }

    def __repr__(self) -> str:
        return (
            f"Comparison(starc={self.starc:.4g}, regret={self.regret:.4g}, "
            f"violation={self.violation:.4g}, visitation_distance={self.visitation_distance:.4g})"
        )


def compare(
    mdp: MDP,
    truth: Objective,
    recovered: Objective,
    *,
    solver: Solver | None = None,
    true_solution: Solution | None = None,
    recovered_solution: Solution | None = None,
    recovered_policy: np.ndarray | None = None,
    features: Features | None = None,
    demonstrations: Demonstrations | None = None,
    behaviours: Behaviours | None = None,
    seed: int = 0,
) -> Comparison:
    """The `Comparison` of a recovered objective with the true one, in a model.

    Args:
        mdp: the model.
        truth: what the demonstrator wants and refuses; its budgets must be attainable.
        recovered: what was found; the number of its constraints may differ.
        solver: for both problems where no solution is given; None solves exactly. A noisy expert
            must be solved at its temperature: `SoftDual(temperature)`.
        true_solution: of `truth`, where it is known already.
        recovered_solution: of `recovered`, where it is known already, as `recovery.solution`.
        recovered_policy: [S, A] the behaviour to judge instead of the recovered solution's.
        features: what reward and costs are made of: directions for the feasible set, and the
            features of the feature gap.
        demonstrations: held out, for the log-likelihood and the feature gap.
        behaviours: to ask the feasible set about, of `sample_behaviours`; None draws them.
        seed: of that draw.
    """
    expert = true_solution or solve(mdp, truth, solver=solver)
    answer = recovered_solution or solve(mdp, recovered, solver=solver, throw=False)
    _check_solution("true", expert, mdp, truth)
    _check_solution("recovered", answer, mdp, recovered)
    policy, visits = answer.policy, answer.visitation
    if recovered_policy is not None:
        policy = check_policy(mdp, recovered_policy)
        visits = visitation_of(mdp, policy)
    if behaviours is None:
        behaviours = behaviour.sample_behaviours(mdp, features=features, seed=seed)
    true_reward, true_costs = truth.tables(mdp)
    reward, costs = recovered.tables(mdp)
    pairs = mdp.choices if mdp.restricted else slice(None)  # an end counts once
    true_lagrangian = outcomes.lagrangian(mdp, truth, expert.multipliers)
    lagrangian = outcomes.lagrangian(mdp, recovered, answer.multipliers)
    true_multipliers = outcomes.gauged_multipliers(mdp, truth, expert.multipliers)
    multipliers = outcomes.gauged_multipliers(mdp, recovered, answer.multipliers)
    regret = outcomes.regret(mdp, truth, visits, optimum=expert.value)
    lagrangian_regret = outcomes.lagrangian_regret(
        mdp, true_lagrangian, visits, temperature=expert.temperature
    )
    expert_visits = expert.visitation.sum(axis=1)
    agreement = likelihood = true_likelihood = np.nan
    if expert.temperature == 0:
        agreement = behaviour.policy_agreement(mdp, true_lagrangian, policy, visits=expert_visits)
    if demonstrations is not None:
        likelihood = behaviour.log_likelihood(mdp, policy, demonstrations)
        true_likelihood = behaviour.log_likelihood(mdp, expert.policy, demonstrations)
    gap = FeatureGap(np.nan, np.nan, np.nan)
    if features is not None and demonstrations is not None:
        gap = behaviour.feature_gap(mdp, visits, features=features, demonstrations=demonstrations)
    return Comparison(
        starc=outcomes.starc(mdp, true_reward, reward),
        lagrangian_starc=outcomes.starc(mdp, true_lagrangian, lagrangian),
        cost_starcs=_by_constraint(partial(outcomes.starc, mdp), true_costs, costs),
        reward_correlation=outcomes.correlation(true_reward[pairs], reward[pairs]),
        cost_correlations=_by_constraint(
            lambda true, cost: outcomes.correlation(true[pairs], cost[pairs]), true_costs, costs
        ),
        regret=regret,
        relative_regret=outcomes.relative(regret, outcomes.return_range(mdp, true_reward)),
        violation=outcomes.violation(mdp, truth, visits),
        excess=outcomes.excess(mdp, truth, visits),
        lagrangian_regret=lagrangian_regret,
        relative_lagrangian_regret=outcomes.relative(
            lagrangian_regret, outcomes.return_range(mdp, true_lagrangian)
        ),
        multipliers=true_multipliers,
        recovered_multipliers=multipliers,
        multiplier_errors=outcomes.multiplier_errors(true_multipliers, multipliers),
        feasible_set=behaviour.feasible_agreement(mdp, truth, recovered, behaviours=behaviours),
        costly_set=behaviour.set_agreement(
            behaviour.costly_pairs(mdp, truth), behaviour.costly_pairs(mdp, recovered)
        ),
        visitation_distance=behaviour.visitation_distance(mdp, expert.visitation, visits),
        state_distance=behaviour.visitation_distance(mdp, expert_visits, visits.sum(axis=1)),
        policy_distance=behaviour.policy_distance(expert.policy, policy, visits=expert_visits),
        policy_agreement=agreement,
        feature_gap=gap,
        log_likelihood=likelihood,
        true_log_likelihood=true_likelihood,
        temperature=expert.temperature,
        status=expert.status,
        recovered_status=answer.status,
    )


def _check_solution(name: str, solution: Solution, mdp: MDP, objective: Objective) -> None:
    """Raises `InvalidModel` unless the shapes of a solution are those of its problem."""
    shapes = solution.policy.shape, solution.multipliers.shape
    wanted = (mdp.states, mdp.actions), (objective.constraints,)
    if shapes != wanted:
        raise InvalidModel(
            f"{name}_solution must solve the {name} objective, with shapes {wanted}; got {shapes}"
        )


def _by_constraint(
    metric: Callable[[np.ndarray, np.ndarray], float], truth: np.ndarray, recovered: np.ndarray
) -> np.ndarray:
    """[K] a metric of each true cost [K, S, A] and the recovered one of its number.

    NaN where the numbers of constraints differ: nothing says which belong together.
    """
    if len(truth) != len(recovered):
        return np.full(len(truth), np.nan)
    return np.array([metric(*costs) for costs in zip(truth, recovered, strict=True)])


def _worst(values: np.ndarray, pick: Callable[[np.ndarray], float]) -> float:
    """The value picked as the worst; NaN of none."""
    return float(pick(values)) if len(values) else float("nan")
