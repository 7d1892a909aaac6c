"""The answer of a published method, and the two methods whose answer is a table.

These ask no feature: they read nothing but how often each action was taken in each state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tacit.data.observed import Observed, counts_of
from tacit.errors import InvalidModel
from tacit.forward.policies import policy_values, soft_policy, visitation
from tacit.forward.solution import Solution, conclude
from tacit.inverse.expectations import check_task, expectations_from_start, pull_back
from tacit.inverse.findings import Finding, Kind, data_findings
from tacit.inverse.goodness import action_log_likelihoods
from tacit.inverse.identification import unidentified, unmeasured
from tacit.inverse.parameters import coefficient_names
from tacit.inverse.recovery import (
    History,
    Recovery,
    RecoveryCertificate,
    delivered,
    status_of,
)
from tacit.model.ends import led_to_an_end, uniform_policy
from tacit.model.mdp import MDP
from tacit.model.objective import Features, Objective

# Chance of what was never done, in the logarithm that makes a reward of a policy.
NEVER = 1e-12


def left_out(features: Features, why: str) -> list[Finding]:
    """One finding a constraint that a method does not look for."""
    return [
        Finding(f"Constraint {k} was left out: {why}.", Kind.INACTIVE, constraint=k)
        for k in range(features.constraints)
    ]


def published_answer(
    estimator: object,
    mdp: MDP,
    features: Features,
    demonstrations: Observed,
    *,
    objective: Objective,
    solution: Solution,
    reward_weights: np.ndarray | None,
    cost_weights: Sequence[np.ndarray] | None = None,
    cost_names: tuple[tuple[str, ...], ...] | None = None,
    multipliers: np.ndarray | None = None,
    converged: bool = True,
    proven: bool = True,
    findings: Iterable[Finding] = (),
    history: dict[str, list[float]] | None = None,
    **numbers_of_certificate: float,
) -> Recovery:
    """The recovery of a published method, which has points and no error bars.

    Args:
        estimator: the method; it prints as the call that makes it.
        mdp: the model.
        features: what was offered.
        demonstrations: what was seen.
        objective: what was found, as tables.
        solution: of it, by the method's own model.
        reward_weights: [D] in the gauge; None where the answer is a table, not weights.
        cost_weights: one [D_k] per constraint of the objective; None where there are none.
        cost_names: of the features of these constraints; None for those offered.
        multipliers: [K]; None for those of the solution.
        converged: whether the method's own tolerance is met.
        proven: whether the optimum is the global one.
        findings: of the method; those about the data are added.
        history: name -> one number an iteration.
        numbers_of_certificate: further fields of `RecoveryCertificate`.
    """
    size = features.reward.shape[-1]
    empty = [np.full(table.shape[-1], np.nan) for table in features.costs]
    names = features.cost_names if cost_names is None else cost_names
    weights = np.full(size, np.nan) if reward_weights is None else reward_weights
    costs = empty if cost_weights is None else [np.asarray(w, float) for w in cost_weights]
    prices = solution.multipliers if multipliers is None else multipliers
    likely, null = np.nan, np.nan
    if solution.temperature > 0:
        counts = counts_of(mdp, demonstrations)
        likely, null = action_log_likelihoods(counts, solution.policy, mdp.choices)
    said = [*findings, *data_findings(mdp, demonstrations)]
    if not converged:
        stopped = "The method stopped before its tolerance was met: the last point is given."
        said.insert(0, Finding(stopped, Kind.NOT_CONVERGED))
    labels = coefficient_names(features.reward_names, names)
    table_only = "there are no coefficients: the answer is a table, not weights of features"
    more = {} if reward_weights is not None else {
        "parameters": unmeasured(
            labels, np.full(len(labels), np.nan), lower=-np.inf, absence=table_only
        )
    }  # fmt: skip
    return Recovery(
        reward_weights=weights,
        cost_weights=costs,
        multipliers=prices,
        budgets=objective.budgets,
        temperature=solution.temperature,
        objective=objective,
        solution=solution,
        status=status_of(converged=converged, proven=proven),
        certificate=RecoveryCertificate.of(
            expectations_from_start(mdp, features, demonstrations),
            pull_back(features, solution.visitation),
            **numbers_of_certificate,
        ),
        history=History(history or {"loss": [-likely]}),
        identification=unidentified(weights, costs, active=prices > 0, findings=said),
        estimator=repr(estimator),
        reward_names=features.reward_names,
        cost_names=names,
        log_likelihood=likely,
        null_log_likelihood=null,
        observed_steps=demonstrations.steps,
        **more,
    )


@dataclass(frozen=True)
class Cloning:
    """Behaviour cloning (Pomerleau 1991): do in each state what was done there, as often.

    policy(a|s) = (N(s, a) + pseudo_count) / (N(s) + A(s) pseudo_count), uniform where nobody was
    seen. The objective is the reward log policy(a|s), whose noisy optimum at temperature 1 is the
    clone itself, with values 0: every policy is the optimum of some reward, and this one says
    nothing more than the policy does.

    Known weakness: it says nothing about states that were not visited, and errors add up along the
    way (Ross and Bagnell 2010: with the square of the horizon). It knows neither reward nor
    constraint, so nothing carries over to a changed world.

    Attributes:
        pseudo_count: added to every available action of a visited state.
    """

    pseudo_count: float = 0.0

    def __post_init__(self) -> None:
        _check_number(self.pseudo_count, "pseudo_count")

    def fit(
        self, mdp: MDP, features: Features, demonstrations: Observed, *, throw: bool = True
    ) -> Recovery:
        """The recovery whose policy is the clone; it has no weights."""
        check_task(mdp, features, demonstrations)
        policy = cloned_policy(mdp, counts_of(mdp, demonstrations), self.pseudo_count)
        # Of pairs that are not there the reward is not read.
        reward = np.where(mdp.available, np.log(np.maximum(policy, NEVER)), 0.0)
        objective = _table(mdp, features, reward)
        solution = conclude(
            mdp,
            objective,
            visitation(mdp, policy),
            np.zeros(mdp.states),
            np.zeros(features.constraints),
            tolerance=1e-6,
            temperature=1.0,
            policy=policy,
        )
        said = [
            Finding(
                "The answer is a policy: the reward is its logarithm and says no more than it.",
                Kind.NOT_IDENTIFIED,
            ),
            *left_out(features, "a clone has no constraints"),
        ]
        recovery = published_answer(
            self,
            mdp,
            features,
            demonstrations,
            objective=objective,
            solution=solution,
            reward_weights=None,
            findings=said,
        )
        return delivered(recovery, throw)


def cloned_policy(mdp: MDP, counts: np.ndarray, pseudo_count: float = 0.0) -> np.ndarray:
    """[S, A] the shares of the actions taken [S, A]; uniform where none was, 0 at ends.

    At discount 1 a state from which these come to no end takes one step of the shortest walk.
    """
    visited = counts.sum(axis=1, keepdims=True) > 0
    table = np.where(visited, counts + pseudo_count, 1.0) * mdp.available
    table = led_to_an_end(mdp, table + 0.0) * mdp.available
    return table / np.maximum(table.sum(axis=1, keepdims=True), 1e-300)


@dataclass(frozen=True)
class InverseActionValues:
    """Inverse action-value iteration (Kalweit et al. 2020, eqs. 5 to 9, algorithm 1).

    The expert is Boltzmann at temperature 1 over the OPTIMAL action values: its log-chances differ
    as these do (eq. 4). With eta(s, a) = log policy(a|s) - discount E max Q(next) (eq. 6) the
    reward solves r(s, a) - mean_b r(s, b) = eta(s, a) - mean_b eta(s, b) (eqs. 7 to 9); least
    squares makes the mean 0. Then Q = log policy + c(s), and the maxima V of Q solve ONE linear
    system of the uniform policy, V = max_a log policy - mean_a log policy + discount P_uniform V:
    a closed form, where the published code sweeps over all states until nothing moves.

    The reward is a table; its optimum is `recovery.solution`, `choice_probabilities` are the noisy
    policy of the paper.

    Known weakness: that noisy policy IS the clone (plus `floor`): nothing is learnt beyond it where
    nobody was. Every action that was never taken has the reward of the floor, whatever it is.

    Attributes:
        floor: added to every chance, so that its logarithm exists (1e-6 in the published code).
        pseudo_count: added to every available action of a visited state.
    """

    floor: float = 1e-6
    pseudo_count: float = 0.0

    def __post_init__(self) -> None:
        _check_number(self.pseudo_count, "pseudo_count")
        if not 0.0 < self.floor < 1.0:
            raise InvalidModel(f"floor must be in (0, 1); got {self.floor!r:.60}")

    def fit(
        self, mdp: MDP, features: Features, demonstrations: Observed, *, throw: bool = True
    ) -> Recovery:
        """The recovery whose reward is a table [S, A], with its optimum."""
        check_task(mdp, features, demonstrations)
        if mdp.discount == 1.0:
            raise InvalidModel(
                "inverse action values need a discount below 1: their rewards add up to gains "
                "without end otherwise; got 1"
            )
        cloned = cloned_policy(mdp, counts_of(mdp, demonstrations), self.pseudo_count)
        logs = np.log(cloned + self.floor)
        best = np.where(mdp.available, logs, -np.inf).max(axis=1)
        gain = np.where(mdp.ends, 0.0, best - _mean(mdp, logs))
        values = policy_values(mdp, uniform_policy(mdp), gain)
        eta = logs - mdp.discount * mdp.expected_next(values)
        reward = np.where(mdp.available, eta - _mean(mdp, eta)[:, None], 0.0)
        objective = _table(mdp, features, reward)
        greedy = np.eye(mdp.actions)[np.where(mdp.available, logs, -np.inf).argmax(axis=1)]
        greedy[mdp.ends] = 0.0
        solution = conclude(
            mdp,
            objective,
            visitation(mdp, greedy),
            values,
            np.zeros(features.constraints),
            tolerance=1e-6,
            policy=greedy,
        )
        said = [
            Finding(
                "The reward is a table over states and actions whose mean over actions is 0; its "
                "noisy policy is the clone of the demonstrations.",
                Kind.NOT_IDENTIFIED,
            ),
            *left_out(features, "the reward alone had to explain the demonstrations"),
        ]
        recovery = published_answer(
            self,
            mdp,
            features,
            demonstrations,
            objective=objective,
            solution=solution,
            reward_weights=None,
            findings=said,
        )
        return delivered(recovery, throw)


def choice_probabilities(mdp: MDP, recovery: Recovery, temperature: float = 1.0) -> np.ndarray:
    """[S, A] Boltzmann choice over the action values of a recovery's own solution; 0 at ends.

    Of `InverseActionValues` it is the policy that the paper evaluates.
    """
    reward, costs = recovery.objective.tables(mdp)
    prices = recovery.solution.multipliers
    own = reward - np.tensordot(prices, costs, 1) if len(prices) else reward
    utility = own + mdp.discount * mdp.expected_next(recovery.solution.values)
    utility = np.where(mdp.choices, utility, -np.inf)
    return np.where(mdp.ends[:, None], 0.0, soft_policy(utility, temperature))


def _mean(mdp: MDP, table: np.ndarray) -> np.ndarray:
    """[S] mean over the available actions; 0 at ends."""
    return (table * uniform_policy(mdp)).sum(axis=1)


def _table(mdp: MDP, features: Features, reward: np.ndarray) -> Objective:
    """The objective of this reward [S, A] alone; every constraint has no cost and no budget."""
    nothing = np.zeros((features.constraints, mdp.states, mdp.actions))
    return Objective(reward, nothing, np.full(features.constraints, np.inf))


def _check_number(number: float, name: str) -> None:
    if not isinstance(number, int | float | np.number) or not 0.0 <= number < np.inf:
        raise InvalidModel(f"{name} must be a number of at least 0; got {number!r:.60}")
