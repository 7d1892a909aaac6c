"""What the steps say about the parameters of one fit of a noisy expert."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tacit.data.observed import Observed
from tacit.forward.solution import visitation
from tacit.inference.counted_rows import CountedRows
from tacit.inference.gauge import Gauge
from tacit.inference.limits import lower_limits
from tacit.inverse.diagnostics import CountedDynamics
from tacit.inverse.expectations import Expectations, Spending, pull_back
from tacit.inverse.findings import Finding, Kind, blind_findings
from tacit.inverse.noisy import weight_findings
from tacit.inverse.noisy.boltzmann import LARGEST, RESCUE, Fit, loss_of, refit, rescued, silent
from tacit.inverse.noisy.counted import (
    DynamicsNoise,
    budget_stretch,
    dynamics_findings,
    dynamics_noise,
)
from tacit.inverse.noisy.inference import (
    Errors,
    advantages,
    errors,
    information,
    informed,
    undecided,
)
from tacit.inverse.noisy.known import border_findings
from tacit.inverse.noisy.steps import Coordinates, Steps, curvature
from tacit.inverse.parameters import inverse_information
from tacit.model.features import sums_as_given
from tacit.model.mdp import MDP, outside_policy
from tacit.model.objective import Features

# Likelihood (nats) that doubling all parameters must cost, or the expert looks deterministic.
VISIBLE = 1e-3


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """What the steps say about the parameters of one fit.

    Attributes:
        asked: the fit.
        fitted: the same, made finite by a ridge where it is not.
        gauge: its parameters in the gauge.
        found: errors of the parameters.
        fisher: [D, D] information of all steps.
        outer: [D, D] sum over all steps of score times score.
        free: [D] bool, the parameters that no bound holds for certain.
        reached: [S, A] discounted visitation of its policy; empty of trips.
        spent: [D] expected discounted sums of the scaled, signed features.
        reaction: [D, D] derivative of its scaled, signed feature sums in the parameters.
        limits: [D] lower limits of forbidden costs, NaN elsewhere.
        boundless: whether the likelihood has no maximum, so that a ridge was taken.
        robust: whether the model does not fit, so that errors are about its best approximation and
            `fisher` is the curvature of the loss.
        noise: what counted dynamics add, which errors and intervals have in them; None where the
            dynamics are known, or nothing is known of the errors.
        dynamics: how much that is.
    """

    asked: Fit
    fitted: Fit
    gauge: Gauge
    found: Errors
    fisher: np.ndarray
    outer: np.ndarray
    free: np.ndarray
    reached: np.ndarray
    spent: np.ndarray
    reaction: np.ndarray
    limits: np.ndarray
    boundless: bool
    robust: bool = False
    noise: DynamicsNoise | None = None
    dynamics: CountedDynamics | None = None

    def in_units(self, space: Coordinates, unit: np.ndarray) -> Gauge:
        """The fit in the gauge of features that are divided by `unit` [D]."""
        scaled = replace(space, scales=space.scales / unit)
        shut, x = np.isfinite(self.limits), self.fitted.point.x
        return Gauge.of(scaled, x, self.spent, self.reaction, unbounded=shut)

    @property
    def absence(self) -> str:
        """Why curvature says nothing: the maximum is not there, or was not reached; else empty."""
        if self.boundless:
            return "the likelihood has no maximum: there are no standard errors"
        return "" if self.fitted.converged else "the search did not converge: there are none"

    @property
    def with_sums(self) -> np.ndarray:
        """[2 D, 2 D] covariance of the parameters, and of the sums of features at fixed ones."""
        own = self.found.covariance
        if self.noise is None:
            return np.pad(own, (0, len(own)))
        return self.noise.with_sums(own, inverse_information(self.fisher, self.free)[0])

    def budget_stretch(self, space: Coordinates) -> np.ndarray | None:
        """[K] by what errors of budgets grow as what is spent moves with counted dynamics."""
        if self.noise is None:
            return None
        inverse = inverse_information(self.fisher, self.free)[0]
        return budget_stretch(space, self.gauge, inverse, self.found.covariance, self.noise)

    def spending(
        self, space: Coordinates, features: Features, seen: Expectations | None
    ) -> Spending | None:
        """What the fitted demonstrator spends and how it prices that; `seen` is its data's own.

        A price times what it is charged for is linear in the parameters but for what they do to
        the spending: both move together, and their errors with them.
        """
        if self.absence:
            return Spending.of_data(features, seen)
        theta, spread = self.fitted.point.x / space.scales, self.with_sums
        means, errors, prices, covariances = [], [], [], []
        for block, mean in zip(
            space.blocks[1:], pull_back(features, self.reached)[1:], strict=True
        ):
            sums = -np.eye(space.size)[block] * space.scales
            slopes = np.concatenate([sums @ self.reaction, sums], axis=1)
            own = np.eye(2 * space.size)[: space.size][block] / np.tile(space.scales, 2)
            rows = np.concatenate([own, (theta[block] @ slopes + mean @ own)[None]])
            means.append(mean)
            errors.append(np.sqrt(np.maximum(np.diagonal(slopes @ spread @ slopes.T), 0.0)))
            prices.append(np.append(theta[block], theta[block] @ mean))
            covariances.append(rows @ spread @ rows.T)
        return Spending(
            maps=features.costs,
            means=tuple(means),
            errors=tuple(errors),
            prices=tuple(prices),
            covariances=tuple(covariances),
        )


def evidence_of(
    demonstrations: Observed,
    steps: Steps,
    kept: Fit,
    max_steps: int,
    *,
    robust: bool = False,
    rows: CountedRows | None = None,
    seed: int = 0,
) -> Evidence:
    """The `Evidence` of a fit, made finite by a ridge where it is not.

    Args:
        demonstrations: what was seen.
        steps: the same as a likelihood.
        kept: the fit.
        max_steps: most evaluations of the loss, where a ridge is needed.
        robust: whether the model does not fit.
        rows: of counted dynamics; None where they are known.
        seed: of worlds that are drawn from what is known of them.
    """
    mdp, space = steps.mdp, steps.space
    fitted, boundless = rescued(mdp, kept, VISIBLE, max_steps)
    nothing = np.full(space.size, np.nan)
    # An expert without noise forbids everything it does not do: nothing in particular is forbidden.
    limits = nothing if boundless else _limits(mdp, space, fitted, steps.design)
    shut = np.isfinite(limits)
    scores = advantages(mdp, space, fitted)
    policy = fitted.point.policy
    fisher = information(scores, policy, steps.visits)
    fisher = fisher if steps.lost is None else fisher - steps.lost
    if robust:
        fisher = curvature(steps, fitted, scores)
    sure = informed(fitted, fisher)
    free = undecided(fitted, sure, fitted.free & ~shut) & ~shut
    reached = visitation(mdp, outside_policy(mdp, policy))
    reaction = information(scores, policy, reached.sum(axis=1))
    spent = sums_as_given(space, reached)
    squares = steps.counts if steps.squares is None else steps.squares
    found = errors(sure, free, scores, demonstrations, squares if robust else None, floor=fisher)
    noise = dynamics = None
    if rows is not None and fitted.converged and not boundless:
        asked = {"scores": scores, "bread": sure, "free": free, "reached": reached.sum(axis=1)}
        noise = dynamics_noise(rows, steps, fitted, **asked, seed=seed)
        plain, found = found, noise.on(found, fisher, inverse_information(sure, free)[0])
        dynamics = noise.summary(rows, steps.visits, plain, found)
    return Evidence(
        asked=kept,
        fitted=fitted,
        gauge=Gauge.of(space, fitted.point.x, spent, reaction, unbounded=shut),
        found=found,
        fisher=fisher,
        outer=information(scores, squares, np.ones(mdp.states)),
        free=free,
        reached=reached,
        spent=spent,
        reaction=reaction,
        limits=limits,
        boundless=boundless,
        robust=robust,
        noise=noise,
        dynamics=dynamics,
    )


def _limits(mdp: MDP, space: Coordinates, fitted: Fit, design: float) -> np.ndarray:
    """[D] limits of forbidden costs, as `lower_limits`; sampling weights have a `design` effect."""
    problem, x = fitted.problem, fitted.point.x

    def refitted_loss(j: int, value: float) -> float:
        mine = np.arange(len(x)) == j
        lower, upper = (np.where(mine, value, end) for end in (problem.lower, problem.upper))
        return loss_of(mdp, fitted, refit(mdp, fitted, lower=lower, upper=upper).point.x)

    return lower_limits(
        x,
        np.diagonal(fitted.point.curvature),
        (space.signs < 0) & (x > 0) & (problem.upper >= LARGEST),
        loss=lambda x: loss_of(mdp, fitted, x),
        refitted_loss=refitted_loss,
        largest=LARGEST,
        design=design,
    )


def parameter_findings(steps: Steps, evidence: Evidence) -> list[Finding]:
    """Costs without an upper limit, and what the demonstrations say nothing about."""
    names, limits, findings = steps.space.names, evidence.limits, []
    for j in np.flatnonzero(np.isfinite(limits) & (steps.space.signs < 0)):
        said = f"{names[j]} has no upper limit: its cost was never incurred."
        if limits[j] > 0:
            said = (
                f"{names[j]} is forbidden: its cost was never incurred although the reward pulls "
                "there, so the demonstrations set a lower limit on its weight and no upper one."
            )
        if steps.at_starts[j]:
            said = f"{names[j]} has no upper limit: its cost was incurred only without a choice."
        low = float(limits[j] / steps.space.scales[j])
        kind = Kind.NOT_IDENTIFIED if steps.at_starts[j] else Kind.FORBIDDEN
        findings.append(Finding(said, kind, feature=names[j], number=low))
    mute = silent(evidence.fisher, float(steps.visits.sum())) & ~evidence.fitted.free
    mute &= steps.space.tables.any(axis=(1, 2))  # constants are among the findings on features
    alone = np.eye(steps.space.size)[mute]
    return findings + blind_findings(
        steps.space.names, np.concatenate([alone, evidence.found.blind])
    )


def method_findings(steps: Steps, evidence: Evidence) -> list[Finding]:
    """What the optimum and the error bars rest on."""
    findings = [] if steps.squares is None else weight_findings(steps)
    if not steps.convex:
        said = (
            "The likelihood is not certain to be convex at these counts: the optimum is a local "
            "one, sought from the convex fit."
        )
        findings.append(Finding(said, Kind.LOCAL_OPTIMUM))
    if evidence.boundless:
        said = (
            "The expert looks deterministic to the likelihood: it has no maximum, since larger "
            f"parameters are always likelier. A ridge of {RESCUE:g} on scaled features was added, "
            "on which the scale of the answer depends. No intervals are given: Explanation gives "
            "them."
        )
        return [*findings, Finding(said, Kind.DETERMINISTIC, number=RESCUE)]
    if not evidence.fitted.converged:
        findings += border_findings(steps.mdp, evidence.fitted)
        said = "The search stopped before its tolerance was met: no error bars are given."
        return [*findings, Finding(said, Kind.NOT_CONVERGED)]
    taken = evidence.found.taken
    said = f"Standard errors treat {taken}."
    kind = "clustered" if evidence.found.clustered else "sandwich"
    if evidence.robust:
        why = "about the best approximation within the model, since it does not fit"
        why = why if steps.squares is None else "since weights are no counts"
        said = f"Standard errors and intervals are {kind} ones, {why}; they treat {taken}."
    findings.append(Finding(said, Kind.ERRORS))
    if evidence.dynamics is not None:
        findings += dynamics_findings(evidence.dynamics)
    return findings
