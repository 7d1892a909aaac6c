"""From a maximum of the likelihood to a `Recovery`: gauge, error bars, intervals and findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.demonstrations import Demonstrations
from tacit.forward.visitation import visitation
from tacit.inverse.boltzmann import Fit, expert_solution, looks_deterministic
from tacit.inverse.expectations import expectations, pull_back
from tacit.inverse.findings import data_findings, feature_findings
from tacit.inverse.gauge import Split, split
from tacit.inverse.identification import Identification
from tacit.inverse.inference import (
    TWO_SIDED,
    Errors,
    advantages,
    blind_sentences,
    errors,
    gauge_errors,
    information,
    undecided,
    upper_ends,
)
from tacit.inverse.recovery import History, Recovery, RecoveryCertificate, RecoveryStatus
from tacit.inverse.separation import forbidden_limits
from tacit.mdp import MDP
from tacit.objective import Features

if TYPE_CHECKING:
    from tacit.inverse.likelihood import Likelihood, Steps


def report(
    estimator: Likelihood,
    mdp: MDP,
    features: Features,
    demonstrations: Demonstrations,
    steps: Steps,
    full: Fit,
    kept: Fit,
    p_values: np.ndarray,
) -> Recovery:
    """The `Recovery` of the fit `kept`; `full` has every constraint, shown to be active or not."""
    space = steps.space
    limits = forbidden_limits(mdp, space, kept)
    forbidden = np.isfinite(limits)
    gauge, found, fisher = _judged(mdp, demonstrations, steps, kept, forbidden)
    identification = _identification(
        mdp, features, demonstrations, steps, full, kept, gauge, found, fisher, limits, p_values
    )
    objective, solution = expert_solution(mdp, features, kept, gauge)
    reached = visitation(mdp, kept.point.policy)
    gap = noise = truncation = np.nan
    whole = ~demonstrations.partial
    if whole.any():
        seen = expectations(mdp, features, demonstrations.select(whole))
        gap, noise = seen.gap(pull_back(features, reached)), seen.noise
        truncation = seen.relative_truncation
    status = RecoveryStatus.CONVERGED if steps.convex else RecoveryStatus.LOCAL_OPTIMUM
    if not kept.converged:
        status = RecoveryStatus.NOT_CONVERGED
    elif looks_deterministic(mdp, kept, 1e-3):
        status = RecoveryStatus.EXPERT_DETERMINISTIC
    return Recovery(
        gauge.reward_weights,
        gauge.cost_weights,
        gauge.multipliers,
        gauge.budgets,
        gauge.temperature,
        objective,
        solution,
        status,
        RecoveryCertificate(
            feature_gap=gap,
            sampling_noise=noise,
            truncation=truncation,
            projected_gradient=kept.projected_gradient,
            objective_gap=kept.objective_gap if steps.convex else np.nan,
        ),
        History({"loss": [kept.point.loss], "evaluations": [kept.steps]}),
        identification,
        repr(estimator),
        features.reward_names,
        features.cost_names,
    )


def _judged(
    mdp: MDP, demonstrations: Demonstrations, steps: Steps, fitted: Fit, forbidden: np.ndarray
) -> tuple[Split, Errors, np.ndarray]:
    """The fit in the gauge, the errors of its parameters, and the information of the steps."""
    space = steps.space
    scores = advantages(mdp, space, fitted)
    fisher = information(scores, fitted.point.policy, steps.visits)
    free = undecided(fitted, fisher, fitted.free & ~forbidden) & ~forbidden
    found = errors(fisher, free, scores, demonstrations, mdp.actions)
    from_start = visitation(mdp, fitted.point.policy)
    reaction = information(scores, fitted.point.policy, from_start.sum(axis=1))
    reached = space.pull_back(from_start)
    gauge = split(space, fitted.point.x, reached, reaction, forbidden=forbidden)
    return gauge, found, fisher


def _identification(
    mdp: MDP,
    features: Features,
    demonstrations: Demonstrations,
    steps: Steps,
    full: Fit,
    kept: Fit,
    gauge: Split,
    found: Errors,
    fisher: np.ndarray,
    limits: np.ndarray,
    p_values: np.ndarray,
) -> Identification:
    space = steps.space
    spread = gauge_errors(gauge, found)
    points = np.concatenate(
        [gauge.reward_weights, *gauge.cost_weights, gauge.multipliers, gauge.budgets]
    )
    ends = np.stack([points - TWO_SIDED * spread, points + TWO_SIDED * spread], axis=1)
    size, count = space.size, space.constraints
    low, high = kept.problem.lower / space.scales, np.inf
    units = np.concatenate(
        [
            np.full(block.stop - block.start, _unit(gauge, k, kept.point.x, space, block))
            for k, block in enumerate(space.blocks)
        ]
    )
    tops = upper_ends(kept, fisher, kept.free & np.isnan(limits)) / space.scales * units
    held = np.isfinite(tops) | np.isinf(tops)
    ends[:size][held] = np.stack([np.zeros(size), tops], axis=1)[held]
    bounded = low * 0.0 == 0.0  # a lower bound of 0, not of minus infinity
    ends[:size, 0] = np.where(bounded, np.maximum(ends[:size, 0], 0.0), ends[:size, 0])
    ends[:size, 1] = np.minimum(ends[:size, 1], 1.0)
    ends[:size, 0] = np.maximum(ends[:size, 0], -1.0)
    shut = np.isfinite(limits)
    ends[:size][shut] = np.stack([limits / space.scales * units, np.full(size, high)], axis=1)[shut]
    spread[:size] = np.where(held | shut, np.nan, spread[:size])
    prices = slice(size, size + count)
    budgets = slice(size + count, size + 2 * count)
    ends[prices, 0] = np.maximum(ends[prices, 0], 0.0)
    active = gauge.multipliers > 0
    sentences = _sentences(mdp, features, demonstrations, steps, kept, found, limits, p_values)
    if not active.all():
        other, wide, _ = _judged(mdp, demonstrations, steps, full, np.zeros(size, bool))
        margins = gauge_errors(other, wide)[prices]
        for k in np.flatnonzero(~active):
            top = other.multipliers[k] + TWO_SIDED * np.nan_to_num(margins[k], nan=0.0)
            ends[prices][k] = (0.0, top)
            ends[budgets][k] = (np.nan, np.inf)
    return Identification(
        ends[space.blocks[0]],
        [ends[block] for block in space.blocks[1:]],
        ends[prices],
        ends[budgets],
        spread[space.blocks[0]],
        [spread[block] for block in space.blocks[1:]],
        spread[prices],
        spread[budgets],
        active,
        tuple(sentences),
    )


def _unit(gauge: Split, k: int, x: np.ndarray, space, block: slice) -> float:
    """What one unit of a parameter of block k is in the gauge's weights."""
    if k == 0:
        return gauge.temperature
    theta, weights = x[block] / space.scales[block], gauge.cost_weights[k - 1]
    heaviest = int(theta.argmax())
    return float(weights[heaviest] / theta[heaviest]) if theta[heaviest] > 0 else np.nan


def _sentences(
    mdp: MDP,
    features: Features,
    demonstrations: Demonstrations,
    steps: Steps,
    kept: Fit,
    found: Errors,
    limits: np.ndarray,
    p_values: np.ndarray,
) -> list[str]:
    space = steps.space
    sentences = []
    for k, p_value in enumerate(p_values):
        shown = "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
        if (kept.point.x[space.blocks[1 + k]] > 0).any():
            sentences.append(f"Constraint {k} is active ({shown} if it were not).")
        else:
            sentences.append(
                f"Constraint {k} is not identified: the demonstrations do not show that it "
                f"restrains the expert ({shown} if it does not)."
            )
    for j in np.flatnonzero(np.isfinite(limits)):
        sentences.append(
            f"{space.names[j]} is forbidden: its cost was never incurred although the reward "
            "pulls there, so the demonstrations set a lower limit on its weight and no upper one."
        )
    sentences += blind_sentences(space, found.blind)
    sentences += feature_findings(features)
    sentences += data_findings(mdp, demonstrations)
    if not steps.convex:
        sentences.append(
            "The likelihood is not convex for certain at these counts: the optimum is a local one, "
            "started from the convex fit."
        )
    unit = "trajectories" if found.clustered else "steps"
    sentences.append(f"Standard errors take {unit} as the independent units.")
    return sentences
