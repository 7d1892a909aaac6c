"""Maximum causal entropy: one convex problem instead of alternation (feature matching).

Minimises p0 . V_soft(theta) - theta . expectations over the parameters of reward and constraints
together. Jointly convex for any dynamics, so the minimum is global; at it the noisy expert collects
what the demonstrations collect, and every budget with a price binds by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tacit.data.observed import Observed
from tacit.data.tally import counts_of
from tacit.dynamics.counted import CountedRows
from tacit.errors import InvalidModel
from tacit.estimators.assembly import recovery
from tacit.estimators.estimate import point_of, solution_of
from tacit.inference.diagnostics import goodness_of, untested
from tacit.inference.dynamics_noise import policy_noise
from tacit.inference.expectations import Expectations, Spending, expectations
from tacit.inference.findings import LEVEL, Finding, Kind, blind_findings, feature_findings
from tacit.inference.gauge import Gauge
from tacit.inference.goodness import FittedChoices
from tacit.inference.information import described, fitted_scores
from tacit.inference.known import (
    border_findings,
    bound_findings,
    check_temperature,
    given_temperature_findings,
)
from tacit.inference.parameters import inverse_information
from tacit.likelihood.problem import LikelihoodProblem
from tacit.likelihood.rescue import RESCUE, Rescued, rescued_match
from tacit.likelihood.start import NOWHERE, Bounds, Label, Range, within_temperature
from tacit.likelihood.steps import StepsChain, information, over_an_episode
from tacit.model.features.design import Design, sums_as_given
from tacit.model.mdp import MDP, outside_visitation
from tacit.model.objective import Features
from tacit.recovery import Recovery, delivered, warned

# Loss (nats an episode) that doubling all parameters must cost, or the expert looks deterministic.
VISIBLE = 1e-6


@dataclass(frozen=True)
class Convex:
    """Matches discounted feature expectations by maximum causal entropy, to a global optimum.

    Attributes:
        free_reward: let reward weights take either sign.
        ridge: pull of the parameters towards 0, on features scaled to range one.
        tolerance: projected gradient to reach, relative to the largest possible expectation.
        max_steps: most evaluations of the loss.
        temperature: the expert's noise where it is known, in units of reward weights that sum to 1.
            Those over the temperature then sum to 1 / temperature, and what is collected of the
            reward is matched up to one number for all of its features.
        bounds: {coefficient: (least, largest)}, as of `Likelihood`.
        fixed: {coefficient: value}, likewise.
        start: {coefficient: value}, likewise.
    """

    free_reward: bool = False
    ridge: float = 0.0
    tolerance: float = 1e-9
    max_steps: int = 300
    temperature: float | None = field(default=None, repr=False, kw_only=True)
    bounds: Mapping[Label, Range] = field(
        default_factory=dict, repr=False, hash=False, kw_only=True
    )
    fixed: Mapping[Label, float] = field(default_factory=dict, repr=False, hash=False, kw_only=True)
    start: Mapping[Label, float] = field(default_factory=dict, repr=False, hash=False, kw_only=True)

    def fit(
        self, mdp: MDP, features: Features, demonstrations: Observed, *, throw: bool = True
    ) -> Recovery:
        """The recovery whose noisy expert has the demonstrations' feature expectations."""
        seen = expectations(mdp, features, demonstrations)
        return self.match(mdp, features, seen, demonstrations, throw=throw)

    def match(
        self,
        mdp: MDP,
        features: Features,
        seen: Expectations,
        demonstrations: Observed | None = None,
        *,
        throw: bool = True,
    ) -> Recovery:
        """The recovery that matches given expectations, of demonstrations or exact ones."""
        if not self.ridge >= 0 or not self.tolerance > 0 or self.max_steps < 1:
            raise InvalidModel(
                "ridge must be at least 0, tolerance positive, max_steps at least 1; "
                f"got {self.ridge}, {self.tolerance}, {self.max_steps}"
            )
        if self.temperature is not None:
            check_temperature(self)
        space = Design.of(mdp, features)
        if seen.visitation.shape != (mdp.states, mdp.actions):
            raise InvalidModel(
                f"expectations must be those of a visitation [S, A] = {(mdp.states, mdp.actions)}; "
                f"got {seen.visitation.shape}"
            )
        fitted, boundless, unattainable = self._matched(mdp, space, seen)
        ending = None
        if boundless and fitted.converged:
            ending = Kind.UNATTAINABLE if unattainable else Kind.DETERMINISTIC
        chain, part = fitted.problem.chains[0], fitted.parts[0]
        visits = np.maximum(part.visits, 0.0)
        scores = chain.scores(part)
        reaction = information(scores, part.policy, visits)
        known = fitted.problem.equalities
        goodness = untested("there are no demonstrations, only expectations")
        if demonstrations is not None:
            rows = CountedRows.of(mdp)
            choices = FittedChoices(
                counts=counts_of(mdp, demonstrations),
                policy=part.policy,
                scores=fitted_scores(fitted, scores),
                choices=mdp.available.sum(axis=1),
                doubt=None if rows is None else policy_noise(rows, part.policy, part.values),
                names=[] if known else [space.names[j] for j in np.flatnonzero(fitted.free)],
            )
            goodness = goodness_of(demonstrations, choices, level=LEVEL)
        visitation = outside_visitation(mdp, visits[:, None] * part.policy)
        gauge = Gauge.of(space, fitted.z, sums_as_given(space, visitation), reaction)
        _, blind = inverse_information(fitted.informed(reaction), fitted.free)
        solution = solution_of(features, fitted, gauge, visitation)
        estimate = point_of(features, fitted, gauge, solution)
        found = replace(
            estimate,
            unattainable=ending is Kind.UNATTAINABLE,
            deterministic=ending is Kind.DETERMINISTIC,
            seen=seen,
            certificate={**estimate.certificate, "objective_gap": fitted.objective_gap},
            findings=(
                *border_findings(fitted),
                *_ending_findings(mdp, ending),
                *feature_findings(features, mdp),
                *blind_findings(space.names, blind),
                *given_temperature_findings(fitted),
                *bound_findings(Bounds.of(space, self), space, fitted.z),
                *_need_findings(gauge),
            ),
            goodness=goodness,
            spending=Spending.of_data(features, seen),
        )
        matched = recovery(described(self), mdp, features, demonstrations, found)
        if known is not None:  # a number less was fitted
            parameters = replace(matched.parameters, conditions=1)
            matched = replace(matched, parameters=parameters)
        return delivered(warned(matched), throw)

    def _matched(self, mdp: MDP, space: Design, seen: Expectations) -> Rescued:
        """The fit that matches what was seen."""
        chain = StepsChain.matching(mdp, space, seen.visitation, ridge=self.ridge)
        known = Bounds.of(space, self)
        begin = np.zeros(space.size) if known.start is None else known.start
        plain = LikelihoodProblem.of(chain, known.lower, known.upper).minimum(
            begin, tolerance=self.tolerance, max_steps=self.max_steps, stage="fit"
        )
        if mdp.discount == 1.0 and np.isinf(plain.loss):
            raise InvalidModel(NOWHERE)
        if self.temperature is not None:
            plain = within_temperature(plain, self.temperature, self.max_steps)
        # A scaled feature is missed by at most 1 / (1 - discount), so the parameters stay below
        # 1000. At discount 1 the length of a walk to an end is the scale.
        ridge = over_an_episode(mdp, RESCUE)
        return rescued_match(plain, chain.target, VISIBLE, self.max_steps, ridge=ridge)


def _ending_findings(mdp: MDP, ending: Kind | None) -> list[Finding]:
    """Why the expectations determine no finite parameters, where they do not."""
    if ending is None:
        return []
    ridge = over_an_episode(mdp, RESCUE)
    reason = (
        "No policy collects what the demonstrations do: they are few, or were cut off."
        if ending is Kind.UNATTAINABLE
        else "The expert looks deterministic: its expectations lie on the edge of what any policy "
        "can reach, where no finite parameters match them."
    )
    added = f"A ridge of {ridge:g} on scaled features was added; the scale of the answer depends"
    return [Finding(f"{reason} {added} on it.", ending, number=ridge)]


def _need_findings(gauge: Gauge) -> list[Finding]:
    """Constraints that need no price, and a reward that is not needed."""
    findings = []
    for k in np.flatnonzero(gauge.multipliers == 0).tolist():
        said = f"Constraint {k} is not identified: no price on it is needed."
        findings.append(Finding(said, Kind.INACTIVE, constraint=k))
    if np.isnan(gauge.reward_weights).any():
        said = (
            "The reward is not identified: the expectations are explained without it. Prices are "
            "in units of the temperature."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED))
    return findings
