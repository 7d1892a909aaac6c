"""Behaviour cloning: what was done, without a reason for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.data.observed import Observed
from tacit.data.tally import counts_of
from tacit.estimators.methods import (
    Estimate,
    PointEstimator,
    cloned_policy,
    left_out,
    table_objective,
)
from tacit.forward.solution import conclude, visitation
from tacit.inference.findings import Finding, Kind
from tacit.model.mdp import MDP
from tacit.model.objective import Features

# Chance of what was never done, in the logarithm that makes a reward of a policy.
NEVER = 1e-12


@dataclass(frozen=True)
class Cloning(PointEstimator):
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

    def find(self, mdp: MDP, features: Features, demonstrations: Observed) -> Estimate:
        """The clone as the policy of a reward; there are no weights."""
        policy = cloned_policy(mdp, counts_of(mdp, demonstrations), self.pseudo_count)
        # Of pairs that are not there the reward is not read.
        reward = np.where(mdp.available, np.log(np.maximum(policy, NEVER)), 0.0)
        objective = table_objective(mdp, features, reward)
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
        sentence = [
            Finding(
                "A clone is a policy: its reward is the logarithm of that policy and says no more.",
                Kind.NOT_IDENTIFIED,
            ),
            *left_out(features, "a clone has no constraints"),
        ]
        return Estimate(
            objective=objective, solution=solution, reward_weights=None, findings=sentence
        )
