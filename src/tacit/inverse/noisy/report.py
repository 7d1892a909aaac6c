"""From a maximum of the likelihood to a `Recovery`: gauge, error bars, intervals and findings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.data.observed import Observed
from tacit.forward.visitation import visitation
from tacit.inverse.expectations import Blocks, Expectations, expectations_from_start, pull_back
from tacit.inverse.findings import (
    data_findings,
    feature_findings,
    guarantee_findings,
    more_data_findings,
)
from tacit.inverse.identification import Identification
from tacit.inverse.noisy.boltzmann import RESCUE, Fit, expert_solution, rescued
from tacit.inverse.noisy.coordinates import Split, split
from tacit.inverse.noisy.inference import (
    Errors,
    advantages,
    blind_sentences,
    errors,
    forbidden_limits,
    information,
    silent,
    undecided,
)
from tacit.inverse.noisy.intervals import intervals
from tacit.inverse.parameters import Parameters, coefficient_names, unmeasured
from tacit.inverse.questions import delta_method
from tacit.inverse.recovery import (
    History,
    Recovery,
    RecoveryCertificate,
    RecoveryStatus,
    action_log_likelihoods,
)
from tacit.model.mdp import MDP
from tacit.model.objective import Features

if TYPE_CHECKING:
    from tacit.inverse.noisy.likelihood import Likelihood, Steps

# Likelihood (nats) that doubling all parameters must cost, or the expert looks deterministic.
VISIBLE = 1e-3


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the steps say about the parameters of one fit.

    Attributes:
        fitted: the fit.
        gauge: its parameters in the gauge.
        found: errors of the parameters.
        fisher: [D, D] information of all steps.
        outer: [D, D] sum over all steps of score times score.
        free: [D] bool, the parameters that no bound holds for certain.
        reached: [S, A] discounted visitation of its policy.
        limits: [D] lower limits of forbidden costs, NaN elsewhere.
        boundless: whether the likelihood has no maximum, so that a ridge was taken.
    """

    fitted: Fit
    gauge: Split
    found: Errors
    fisher: np.ndarray
    outer: np.ndarray
    free: np.ndarray
    reached: np.ndarray
    limits: np.ndarray
    boundless: bool


def report(
    estimator: Likelihood,
    mdp: MDP,
    features: Features,
    demonstrations: Observed,
    steps: Steps,
    full: Fit,
    kept: Fit,
    p_values: np.ndarray,
) -> Recovery:
    """The `Recovery` of the fit `kept`; `full` has every constraint, shown to be active or not."""
    evidence = _evidence(estimator, demonstrations, steps, kept)
    gauge, fitted = evidence.gauge, evidence.fitted
    ends, spread = _numbers(estimator, demonstrations, steps, full, evidence)
    seen = expectations_from_start(mdp, features, demonstrations, steps.tally)
    reached = pull_back(features, evidence.reached)
    findings = (
        *_constraint_sentences(steps, evidence, p_values),
        *_parameter_sentences(steps, evidence),
        *feature_findings(features),
        *data_findings(mdp, demonstrations),
        *_method_sentences(steps, evidence),
        *more_data_findings(
            list(steps.space.names),
            ends[: steps.space.size],
            demonstrations,
            evidence.found.clustered,
        ),
        *([] if seen is None else guarantee_findings(seen, reached)),
    )
    objective, solution = expert_solution(mdp, features, fitted, gauge, evidence.reached)
    return Recovery(
        gauge.reward_weights,
        gauge.cost_weights,
        gauge.multipliers,
        gauge.budgets,
        gauge.temperature,
        objective,
        solution,
        _status(steps, evidence),
        _certificate(seen, reached, steps, fitted),
        History({"loss": [fitted.point.loss], "evaluations": [fitted.steps]}),
        replace(
            _identification(steps, gauge, ends, spread, findings),
            p_values=p_values if full.converged else (),
            answer=delta_method(steps.space, fitted.point.x, gauge, evidence.found),
        ),
        repr(estimator),
        features.reward_names,
        features.cost_names,
        _parameters(steps, features, evidence),
        *action_log_likelihoods(steps.counts, fitted.point.policy),
        int(steps.counts.sum()),
    )


def _evidence(estimator: Likelihood, demonstrations: Observed, steps: Steps, kept: Fit) -> Evidence:
    """The `Evidence` of a fit, made finite by a ridge where it is not."""
    mdp, space = steps.mdp, steps.space
    fitted, boundless = rescued(mdp, kept, VISIBLE, estimator.max_steps)
    nothing = np.full(space.size, np.nan)
    # An expert without noise forbids everything it does not do: nothing in particular is forbidden.
    limits = nothing if boundless else forbidden_limits(mdp, space, fitted)
    shut = np.isfinite(limits)
    scores = advantages(mdp, space, fitted)
    policy = fitted.point.policy
    fisher = information(scores, policy, steps.visits)
    free = undecided(fitted, fisher, fitted.free & ~shut) & ~shut
    found = errors(fisher, free, scores, demonstrations, mdp.actions)
    reached = visitation(mdp, policy)
    reaction = information(scores, policy, reached.sum(axis=1))
    gauge = split(space, fitted.point.x, space.pull_back(reached), reaction, forbidden=shut)
    outer = information(scores, steps.counts, np.ones(mdp.states))
    return Evidence(fitted, gauge, found, fisher, outer, free, reached, limits, boundless)


def _parameters(steps: Steps, features: Features, evidence: Evidence) -> Parameters:
    """The coefficients of a fit, with what their standard errors rest on."""
    space, fitted, found = steps.space, evidence.fitted, evidence.found
    names = coefficient_names(features.reward_names, features.cost_names)
    points = fitted.point.x / space.scales
    # A constraint that was dropped is on its bound like any other cost without a price.
    lower = np.where(np.isfinite(fitted.problem.lower), 0.0, -np.inf)
    if evidence.boundless or not fitted.converged:
        absence = (
            "the likelihood has no maximum" if evidence.boundless else "the search did not converge"
        )
        return unmeasured(names, points, lower=lower, absence=f"no standard errors: {absence}")
    nothing = np.full(evidence.fisher.shape, np.nan)
    return Parameters(
        names=names,
        estimates=points,
        jacobian=np.diag(1.0 / space.scales),
        information=evidence.fisher,
        outer=evidence.outer,
        scatter=nothing if found.clusters is None else found.clusters.products,
        gradient=fitted.point.gradient,
        free=evidence.free,
        lower=lower,
        limits=evidence.limits / space.scales,
        trajectories=0 if found.clusters is None else found.clusters.episodes,
        errors="clustered" if found.clustered else "fisher",
    )


def _numbers(
    estimator: Likelihood,
    demonstrations: Observed,
    steps: Steps,
    full: Fit,
    evidence: Evidence,
) -> tuple[np.ndarray, np.ndarray]:
    """Intervals and standard errors of all weights, then multipliers, then budgets."""
    ends, spread = _intervals(steps, evidence)
    idle = np.flatnonzero(evidence.gauge.multipliers == 0)
    if len(idle):
        # How large a price may be that was not shown to be paid: ask the fit that has it.
        other = _evidence(estimator, demonstrations, steps, full)
        wide, _ = _intervals(steps, other)
        prices = steps.space.size + idle
        ends[prices, 0] = 0.0
        ends[prices, 1] = np.where(np.isnan(wide[prices, 1]), np.inf, wide[prices, 1])
        ends[prices + steps.space.constraints] = (np.nan, np.inf)
        spread[prices] = np.nan
    return ends, spread


def _intervals(steps: Steps, evidence: Evidence) -> tuple[np.ndarray, np.ndarray]:
    e = evidence
    ends, spread = intervals(steps.space, e.fitted, e.gauge, e.found, e.fisher, e.limits)
    if e.boundless or not e.fitted.converged:
        # Curvature says nothing about a maximum that is not there or was not reached.
        ends[:], spread[:] = np.nan, np.nan
    return ends, spread


def _identification(
    steps: Steps, gauge: Split, ends: np.ndarray, spread: np.ndarray, findings: tuple[str, ...]
) -> Identification:
    reward, *costs = steps.space.blocks
    prices = slice(steps.space.size, steps.space.size + steps.space.constraints)
    budgets = slice(prices.stop, prices.stop + steps.space.constraints)
    return Identification(
        ends[reward],
        [ends[block] for block in costs],
        ends[prices],
        ends[budgets],
        spread[reward],
        [spread[block] for block in costs],
        spread[prices],
        spread[budgets],
        gauge.multipliers > 0,
        findings,
    )


def _status(steps: Steps, evidence: Evidence) -> RecoveryStatus:
    if not evidence.fitted.converged:
        return RecoveryStatus.NOT_CONVERGED
    if evidence.boundless:
        return RecoveryStatus.EXPERT_DETERMINISTIC
    return RecoveryStatus.CONVERGED if steps.convex else RecoveryStatus.LOCAL_OPTIMUM


def _certificate(
    seen: Expectations | None, reached: Blocks, steps: Steps, fitted: Fit
) -> RecoveryCertificate:
    gap = noise = truncation = np.nan
    if seen is not None:
        gap, noise, truncation = seen.gap(reached), seen.noise, seen.relative_truncation
    return RecoveryCertificate(
        feature_gap=gap,
        sampling_noise=noise,
        truncation=truncation,
        projected_gradient=fitted.projected_gradient,
        objective_gap=fitted.objective_gap if steps.convex else np.nan,
    )


def _constraint_sentences(steps: Steps, evidence: Evidence, p_values: np.ndarray) -> list[str]:
    sentences = []
    for k, (price, p_value) in enumerate(zip(evidence.gauge.multipliers, p_values, strict=True)):
        shown = "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
        if price > 0:
            sentences.append(f"Constraint {k} is active ({shown} if it were not).")
        else:
            sentences.append(
                f"Constraint {k} is not identified: the demonstrations do not show that it "
                f"restrains the expert ({shown} if it does not)."
            )
    if np.isnan(evidence.gauge.reward_weights).any():
        sentences.append(
            "The reward is not identified: the demonstrations need none. Multipliers are in units "
            "of the noise."
        )
    return sentences


def _parameter_sentences(steps: Steps, evidence: Evidence) -> list[str]:
    names, sentences = steps.space.names, []
    for j in np.flatnonzero(np.isfinite(evidence.limits)):
        if evidence.limits[j] > 0:
            sentences.append(
                f"{names[j]} is forbidden: its cost was never incurred although the reward pulls "
                "there, so the demonstrations set a lower limit on its weight and no upper one."
            )
        else:
            sentences.append(f"{names[j]} has no upper limit: its cost was never incurred.")
    mute = silent(evidence.fisher, float(steps.visits.sum())) & ~evidence.fitted.free
    mute &= steps.space.tables.any(axis=(1, 2))  # constants are among the findings on features
    alone = np.eye(steps.space.size)[mute]
    return sentences + blind_sentences(steps.space, np.concatenate([alone, evidence.found.blind]))


def _method_sentences(steps: Steps, evidence: Evidence) -> list[str]:
    sentences = []
    if not steps.convex:
        sentences.append(
            "The likelihood is not convex for certain at these counts: the optimum is a local one, "
            "started from the convex fit."
        )
    if evidence.boundless:
        sentences.append(
            "The expert looks deterministic to the likelihood: it rises for ever with the "
            f"parameters. A ridge of {RESCUE:g} on scaled features was added, on which the scale "
            "of the answer depends, and no intervals are given: Explanation gives them."
        )
    else:
        unit = "trajectories" if evidence.found.clustered else "steps"
        sentences.append(f"Standard errors take {unit} as the independent units.")
    return sentences
