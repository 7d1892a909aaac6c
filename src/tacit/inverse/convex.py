"""Maximum causal entropy: one convex problem instead of alternation (feature matching).

Minimises p0 . V_soft(theta) - theta . expectations over the parameters of reward and constraints
together. Jointly convex for any dynamics, so the minimum is global; at it the noisy expert collects
what the demonstrations collect, and every budget with a price binds by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.demonstrations import Demonstrations
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.inverse.boltzmann import Fit, expert_solution, fit, looks_deterministic
from tacit.inverse.coordinates import Coordinates, coordinates
from tacit.inverse.expectations import Expectations, expectations, pull_back
from tacit.inverse.findings import data_findings, feature_findings
from tacit.inverse.gauge import split
from tacit.inverse.identification import unidentified
from tacit.inverse.inference import (
    advantages,
    blind_sentences,
    information,
    inverse_information,
)
from tacit.inverse.recovery import (
    History,
    Recovery,
    RecoveryCertificate,
    RecoveryStatus,
    delivered,
)
from tacit.mdp import MDP
from tacit.objective import Features

# Pull towards 0 taken when the demonstrations alone determine no finite parameters.
RESCUE = 1e-3


@dataclass(frozen=True)
class Convex:
    """Matches discounted feature expectations by maximum causal entropy, to a global optimum.

    Attributes:
        free_reward: let reward weights take either sign.
        ridge: pull of the parameters towards 0, on features scaled to range one.
        tolerance: projected gradient to reach, relative to the largest possible expectation.
        max_steps: most evaluations of the loss.
    """

    free_reward: bool = False
    ridge: float = 0.0
    tolerance: float = 1e-9
    max_steps: int = 300

    def fit(
        self,
        mdp: MDP,
        features: Features,
        demonstrations: Demonstrations,
        *,
        throw: bool = True,
    ) -> Recovery:
        """The recovery whose noisy expert has the demonstrations' feature expectations."""
        if demonstrations.partial.all():
            raise InvalidDemonstrations(
                "Convex matches discounted sums from the start: it needs trajectories that begin "
                "there; got partial ones only (use Likelihood)"
            )
        whole = demonstrations.select(~demonstrations.partial)
        seen = expectations(mdp, features, whole)
        return self.match(mdp, features, seen, whole, throw=throw)

    def match(
        self,
        mdp: MDP,
        features: Features,
        seen: Expectations,
        demonstrations: Demonstrations | None = None,
        *,
        throw: bool = True,
    ) -> Recovery:
        """The recovery that matches given expectations, of demonstrations or exact ones."""
        if not self.ridge >= 0 or not self.tolerance > 0 or self.max_steps < 1:
            raise InvalidModel(
                "ridge must be at least 0, tolerance positive, max_steps at least 1; "
                f"got {self.ridge}, {self.tolerance}, {self.max_steps}"
            )
        space = coordinates(mdp, features)
        fitted, ridge, sentences = self._fitted(mdp, space, seen)
        scores = advantages(mdp, space, fitted)
        reaction = information(scores, fitted.point.policy, np.maximum(fitted.point.visits, 0.0))
        visitation = np.maximum(fitted.point.visits, 0.0)[:, None] * fitted.point.policy
        reached = space.pull_back(visitation)
        gauge = split(space, fitted.point.x, reached, reaction)
        objective, solution = expert_solution(mdp, features, fitted, gauge)
        _, blind = inverse_information(reaction, fitted.free)
        sentences += feature_findings(features) + blind_sentences(space, blind)
        if demonstrations is not None:
            sentences += data_findings(mdp, demonstrations)
        for k in np.flatnonzero(gauge.multipliers == 0):
            sentences.append(f"Constraint {k} is not identified: no price on it is needed.")
        status = RecoveryStatus.CONVERGED if fitted.converged else RecoveryStatus.NOT_CONVERGED
        if ridge > self.ridge:
            status = RecoveryStatus.EXPERT_DETERMINISTIC
        recovery = Recovery(
            gauge.reward_weights,
            gauge.cost_weights,
            gauge.multipliers,
            gauge.budgets,
            gauge.temperature,
            objective,
            solution,
            status,
            RecoveryCertificate(
                feature_gap=seen.gap(pull_back(features, visitation)),
                sampling_noise=seen.noise,
                truncation=seen.relative_truncation,
                projected_gradient=fitted.projected_gradient,
                objective_gap=fitted.objective_gap,
            ),
            History({"loss": [fitted.point.loss], "evaluations": [fitted.steps]}),
            unidentified(
                gauge.reward_weights,
                gauge.cost_weights,
                active=gauge.multipliers > 0,
                findings=sentences,
            ),
            repr(self),
            features.reward_names,
            features.cost_names,
        )
        return delivered(recovery, throw)

    def _fitted(
        self, mdp: MDP, space: Coordinates, seen: Expectations
    ) -> tuple[Fit, float, list[str]]:
        """The fit, the ridge it took, and what has to be said about that."""
        target = space.pull_back(seen.visitation)

        def run(ridge: float) -> Fit:
            return fit(
                mdp,
                space,
                mdp.initial,
                target,
                lower=space.lower(free_reward=self.free_reward),
                tolerance=self.tolerance,
                max_steps=self.max_steps,
                ridge=ridge,
            )

        fitted = run(self.ridge)
        if self.ridge > 0 or (fitted.converged and not looks_deterministic(mdp, fitted, 1e-6)):
            return fitted, self.ridge, []
        said = (
            "The expert looks deterministic: its expectations lie on the edge of what any policy "
            f"can reach, where no finite parameters match them. A ridge of {RESCUE:g} on scaled "
            "features was added; the scale of the answer depends on it."
        )
        return run(RESCUE), RESCUE, [said]
