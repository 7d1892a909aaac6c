"""What the steps say about the parameters of one fit of a noisy expert.

Where the dynamics were estimated, the scores of a fit are taken in worlds drawn from what is known
of them: how far they move adds to what the scores of the steps scatter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tacit.data.observed import Observed
from tacit.engine.backends import backend_of
from tacit.engine.soft_search import point_at, restricted
from tacit.forward.solution import visitation
from tacit.inverse.expectations import Expectations, Spending, pull_back
from tacit.inverse.findings import Finding, Kind, blind_findings
from tacit.inverse.noisy import Split, weight_findings
from tacit.inverse.noisy.boltzmann import LARGEST, RESCUE, Fit, loss_of, refit, rescued, silent
from tacit.inverse.noisy.inference import (
    Errors,
    advantages,
    errors,
    information,
    informed,
    split,
    undecided,
)
from tacit.inverse.noisy.known import border_findings
from tacit.inverse.noisy.steps import Coordinates, Steps, curvature
from tacit.inverse.parameters import CONFIDENCE, ONE_SIDED, TWO_SIDED, inverse_information
from tacit.model.mdp import MDP, outside_policy
from tacit.model.objective import Features

# Likelihood (nats) that doubling all parameters must cost, or the expert looks deterministic.
VISIBLE = 1e-3
# Parameters below this (nats per step at most) are far from forbidding anything.
SUSPICIOUS = 3.0
# Likelihood (nats) that may be lost on the way to infinity.
FLAT = 0.01


@dataclass(frozen=True, eq=False)
class Doubt:
    """What is not known about estimated dynamics, as worlds drawn from what is.

    Attributes:
        steps: the steps in the world as it was estimated.
        worlds: the drawn ones.
    """

    steps: Steps
    worlds: tuple[MDP, ...]

    @classmethod
    def of(cls, steps: Steps, draws: int, seed: int) -> Doubt | None:
        """So many draws of the dynamics; None where they are known, or no draws were asked for."""
        mdp, rng = steps.mdp, np.random.default_rng(seed)
        if mdp.evidence is None or draws == 0:
            return None
        rows = [mdp.evidence.draw(mdp.transitions, rng) for _ in range(draws)]
        worlds = [MDP(one, mdp.initial, mdp.discount, available=mdp.available) for one in rows]
        return cls(steps, tuple(worlds))

    def scatter(self, fitted: Fit) -> np.ndarray:
        """[D, D] how the gradient of the loss at a fit scatters with the dynamics.

        About the gradient in the world as estimated, not about the mean: draws that all move it one
        way show a bias. Few draws count as Student's law has it.
        """
        problem, point = fitted.problem, fitted.point
        moved = []
        for world in self.worlds:
            start = self.steps.visits - world.discount * world.inflow(self.steps.counts)
            dual = problem._replace(start=start)
            here = point_at(backend_of(world), dual, point.x, point.values, fitted.tolerance)
            apart = np.asarray(here.gradient) - point.gradient
            if np.isfinite(apart).all():
                moved.append(apart)
        many = len(moved)
        if many < 2:
            return np.zeros((len(point.x), len(point.x)))
        table = np.stack(moved)
        return _few(many) * (table.T @ table) / many

    def policies(self, fitted: Fit) -> np.ndarray:
        """[m, S, A] how the logarithm of a fitted policy moves with the dynamics, draw by draw."""
        point, problem = fitted.point, fitted.problem
        alone = restricted(problem, point.x, np.zeros(len(point.x), bool))
        moved = []
        for world in self.worlds:
            here = point_at(backend_of(world), alone, point.x[:0], point.values, fitted.tolerance)
            if np.isfinite(float(here.loss)):
                policy = np.maximum(np.asarray(here.policy), 1e-300)
                there = (point.policy > 0) & (policy > 1e-300)
                apart = np.log(policy) - np.log(np.maximum(point.policy, 1e-300))
                moved.append(np.where(there, apart, 0.0))
        if len(moved) < 2:
            return np.zeros((0, *point.policy.shape))
        return np.sqrt(_few(len(moved))) * np.stack(moved)


def _few(draws: int) -> float:
    """How much more so many draws count: as Student's law has it, and the estimate is one more."""
    from scipy.stats import t

    inflation = (float(t.ppf(0.5 + 0.5 * CONFIDENCE, draws - 1)) / TWO_SIDED) ** 2
    return inflation * (1.0 + 1.0 / draws)


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
        reached: [S, A] discounted visitation of its policy.
        reaction: [D, D] derivative of its scaled, signed feature sums in the parameters.
        limits: [D] lower limits of forbidden costs, NaN elsewhere.
        boundless: whether the likelihood has no maximum, so that a ridge was taken.
        robust: whether the model does not fit, so that errors are about its best approximation and
            `fisher` is the curvature of the loss.
        draws: of estimated dynamics that the errors count.
        growth: how many times as large they make the errors of the parameters, in the median.
    """

    asked: Fit
    fitted: Fit
    gauge: Split
    found: Errors
    fisher: np.ndarray
    outer: np.ndarray
    free: np.ndarray
    reached: np.ndarray
    reaction: np.ndarray
    limits: np.ndarray
    boundless: bool
    robust: bool = False
    draws: int = 0
    growth: float = 1.0

    @property
    def absence(self) -> str:
        """Why curvature says nothing: the maximum is not there, or was not reached; else empty."""
        if self.boundless:
            return "the likelihood has no maximum: there are no standard errors"
        return "" if self.fitted.converged else "the search did not converge: there are none"

    def spending(
        self, space: Coordinates, features: Features, seen: Expectations | None
    ) -> Spending | None:
        """What the fitted demonstrator spends and how it prices that; `seen` is its data's own.

        A price times what it is charged for is linear in the parameters but for what they do to
        the spending: both move together, and their errors with them.
        """
        if self.absence:
            return Spending.of_data(features, seen)
        spread, theta = self.found.covariance, self.fitted.point.x / space.scales
        means, errors, prices, covariances = [], [], [], []
        for block, mean in zip(
            space.blocks[1:], pull_back(features, self.reached)[1:], strict=True
        ):
            slopes = -self.reaction[block] * space.scales[block][:, None]
            own = np.eye(space.size)[block] / space.scales
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
    doubt: Doubt | None = None,
) -> Evidence:
    """The `Evidence` of a fit, made finite by a ridge where it is not.

    Args:
        demonstrations: what was seen.
        steps: the same as a likelihood.
        kept: the fit.
        max_steps: most evaluations of the loss, where a ridge is needed.
        robust: whether the model does not fit.
        doubt: about the dynamics, where they were estimated.
    """
    mdp, space = steps.mdp, steps.space
    fitted, boundless = rescued(mdp, kept, VISIBLE, max_steps)
    nothing = np.full(space.size, np.nan)
    # An expert without noise forbids everything it does not do: nothing in particular is forbidden.
    limits = nothing if boundless else forbidden_limits(mdp, space, fitted, steps.design)
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
    squares = steps.counts if steps.squares is None else steps.squares
    found = errors(sure, free, scores, demonstrations, squares if robust else None)
    growth = 1.0
    if doubt is not None:
        scatter = (fisher if found.scatter is None else found.scatter) + doubt.scatter(fitted)
        found, growth = _doubted(found, scatter, inverse_information(sure, free)[0])
    return Evidence(
        asked=kept,
        fitted=fitted,
        gauge=split(space, fitted.point.x, space.pull_back(reached), reaction, forbidden=shut),
        found=found,
        fisher=fisher,
        outer=information(scores, squares, np.ones(mdp.states)),
        free=free,
        reached=reached,
        reaction=reaction,
        limits=limits,
        boundless=boundless,
        robust=robust,
        draws=0 if doubt is None else len(doubt.worlds),
        growth=growth,
    )


def forbidden_limits(mdp: MDP, space: Coordinates, fitted: Fit, design: float = 1.0) -> np.ndarray:
    """[D] one-sided 95 % lower limits of the parameters that have no upper one; NaN elsewhere.

    A cost is forbidden if sending its parameter to the largest value costs no likelihood. The
    limit is where lowering it, the others adapting, has cost the one-sided quantile, times the
    `design` effect of weights; 0 where the others make up for it altogether.
    """
    limits = np.full(space.size, np.nan)
    x, endless = fitted.point.x, fitted.problem.upper >= LARGEST
    # Well determined is a parameter whose loss is curved on the scale of itself.
    vague = x**2 * np.diagonal(fitted.point.curvature) <= 4.0
    asked = np.flatnonzero((space.signs < 0) & (x > SUSPICIOUS) & endless & vague)
    best = loss_of(mdp, fitted, x) if len(asked) else np.nan
    for j in asked:
        trial = x.copy()
        trial[j] = LARGEST
        if loss_of(mdp, fitted, trial) - best <= FLAT:
            limits[j] = _limit(mdp, fitted, int(j), best + 0.5 * design * ONE_SIDED**2)
    return limits


def _limit(mdp: MDP, fitted: Fit, j: int, ceiling: float) -> float:
    """The smallest value of parameter j at which the loss, over all others, meets the ceiling."""
    problem, x = fitted.problem, fitted.point.x
    trial = x.copy()

    def too_low(value: float, adapting: bool) -> bool:
        trial[j] = value
        if loss_of(mdp, fitted, trial) <= ceiling:
            return False
        if not adapting:
            return True
        lower, upper = problem.lower.copy(), problem.upper.copy()
        lower[j] = upper[j] = value
        near = refit(mdp, fitted, lower=lower, upper=upper)
        return loss_of(mdp, fitted, near.point.x) > ceiling

    # With the others fixed a value costs more: the cheap search first, then the true limit below.
    high = bisected(lambda value: too_low(value, False), float(x[j]), 30)
    return bisected(lambda value: too_low(value, True), high, 8)


def bisected(fails: Callable[[float], bool], high: float, steps: int) -> float:
    """The upper end of the last bracket of where `fails` turns false; 0 where it never fails."""
    low = 0.0
    if not fails(low):
        return low
    for _ in range(steps):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fails(middle) else (low, middle)
    return high


def _doubted(found: Errors, scatter: np.ndarray, inverse: np.ndarray) -> tuple[Errors, float]:
    """The errors with this scatter of the scores, which counts the dynamics; how much they grow."""
    covariance = inverse @ scatter @ inverse
    before, after = np.diagonal(found.covariance), np.diagonal(covariance)
    known = before > 0
    growth = float(np.median(np.sqrt(after[known] / before[known]))) if known.any() else 1.0
    return replace(found, scatter=scatter, covariance=covariance), growth


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
    if evidence.draws:
        said = (
            f"The dynamics were estimated: {evidence.draws} draws from what is known of them are "
            "counted in intervals, standard errors and tests of constraints, whose errors are "
            f"{evidence.growth:.2g} times as large by it (median), and in the tests of the fit. "
            "Those of the coefficients take the dynamics for known."
        )
        findings.append(Finding(said, Kind.ERRORS, number=float(evidence.draws)))
    return findings
