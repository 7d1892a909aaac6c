"""What was seen says about the parameters of one fit of noisy experts, in one world or several.

The information of the chains adds up in the joint parameters. Its inverse, mapped to the parameters
of one chain, is that chain's covariance: what is shared is known from every chain that has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tacit.data.observed import Observed
from tacit.forward.solution import visitation
from tacit.inference.activity import ScoreLaw
from tacit.inference.gauge import Gauge
from tacit.inference.limits import lower_limits
from tacit.inverse.diagnostics import CountedDynamics
from tacit.inverse.expectations import Expectations, Spending, pull_back
from tacit.inverse.findings import Finding, Kind, blind_findings
from tacit.inverse.noisy import weight_findings
from tacit.inverse.noisy.counted import (
    DynamicsNoise,
    budget_stretch,
    dynamics_findings,
    dynamics_noise,
)
from tacit.inverse.noisy.inference import Errors, errors, score_scatter, undecided
from tacit.inverse.noisy.known import border_findings
from tacit.inverse.parameters import inverse_information
from tacit.likelihood.chain import LARGEST, Chain, Coordinates, curvature, information
from tacit.likelihood.problem import Fit
from tacit.likelihood.rescue import RESCUE, VISIBLE, rescued
from tacit.likelihood.start import silent
from tacit.model.features import sums_as_given
from tacit.model.mdp import outside_policy
from tacit.model.objective import Features
from tacit.search.smooth_dual import Point


@dataclass(frozen=True, eq=False, kw_only=True)
class ChainEvidence:
    """One chain at a fit: its scores, and what its expert collects.

    Attributes:
        chain: what was seen.
        part: of the fit.
        inner: [D, n] derivative of its parameters in the joint ones.
        scores: [D, S, A] of one step, in its own parameters.
        reached: [S, A] discounted visitation of its policy.
        spent: [D] expected discounted sums of the scaled, signed features.
        reaction: [D, D] derivative of these in its parameters.
    """

    chain: Chain
    part: Point
    inner: np.ndarray
    scores: np.ndarray
    reached: np.ndarray
    spent: np.ndarray
    reaction: np.ndarray

    @classmethod
    def of(cls, fitted: Fit, e: int) -> ChainEvidence:
        """Chain e at a fit."""
        chain, part = fitted.problem.chains[e], fitted.parts[e]
        scores = chain.scores(part)
        reached = visitation(chain.mdp, outside_policy(chain.mdp, part.policy))
        return cls(
            chain=chain,
            part=part,
            inner=fitted.problem.ties.jacobian(e, fitted.z),
            scores=scores,
            reached=reached,
            spent=sums_as_given(chain.space, reached),
            reaction=information(scores, part.policy, reached.sum(axis=1)),
        )

    @cached_property
    def joint_scores(self) -> np.ndarray:
        """[n, S, A] the scores of one step in the joint parameters."""
        return in_joint(self.scores, self.inner)

    @cached_property
    def fisher(self) -> np.ndarray:
        """[D, D] information of the steps about its own parameters."""
        found = information(self.scores, self.part.policy, self.chain.visits)
        return found if self.chain.lost is None else found - self.chain.lost


def in_joint(scores: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """[n, ...] scores [D, ...] in the joint parameters, of which these have the derivative [D, n].

    Those of a chain that is alone are themselves.
    """
    if inner.shape[0] == inner.shape[1] and np.array_equal(inner, np.eye(len(inner))):
        return scores
    return np.tensordot(inner.T, scores, 1)


def pooled(parts: Sequence[np.ndarray], inner: Sequence[np.ndarray]) -> np.ndarray:
    """[n, n] matrices [D, D] of single chains as one of the joint parameters."""
    pairs = zip(parts, inner, strict=True)
    return np.sum([own.T @ part @ own for part, own in pairs], axis=0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """What was seen says about the joint parameters of one fit.

    Attributes:
        asked: the fit.
        fitted: the same, made finite by a ridge where it is not.
        chains: one per chain.
        found: errors of the parameters.
        fisher: [n, n] information of all steps.
        outer: [n, n] sum over all steps of score times score.
        free: [n] bool, the parameters that no bound holds for certain.
        limits: [n] lower limits of forbidden costs, NaN elsewhere.
        boundless: whether the likelihood has no maximum, so that a ridge was taken.
        robust: whether the model does not fit, so that errors are about its best approximation and
            `fisher` is the curvature of the loss.
        noise: what counted dynamics add, which errors and intervals have in them; None where the
            dynamics are known, or nothing is known of the errors.
        dynamics: how much that is, one a chain; None for known ones.
    """

    asked: Fit
    fitted: Fit
    chains: tuple[ChainEvidence, ...]
    found: Errors
    fisher: np.ndarray
    outer: np.ndarray
    free: np.ndarray
    limits: np.ndarray
    boundless: bool
    robust: bool = False
    noise: DynamicsNoise | None = None
    dynamics: tuple[CountedDynamics | None, ...] = ()

    def own_limits(self, e: int) -> np.ndarray:
        """[D] the limits of a chain's own costs."""
        ties, space = self.fitted.problem.ties, self.chains[e].chain.space
        limits = self.limits[ties.rows[e]] * ties.multiples(e, self.fitted.z)
        return np.where(space.signs < 0, limits, np.nan)

    def gauge(self, e: int = 0, unit: np.ndarray | None = None) -> Gauge:
        """A chain's parameters in the gauge, of features that are divided by `unit` [D]."""
        own = self.chains[e]
        space = own.chain.space if unit is None else scaled_by(own.chain.space, unit)
        shut = np.isfinite(self.own_limits(e))
        return Gauge.of(space, self.fitted.x(e), own.spent, own.reaction, unbounded=shut)

    @property
    def absence(self) -> str:
        """Why curvature says nothing: the maximum is not there, or was not reached; else empty."""
        if self.boundless:
            return "the likelihood has no maximum: there are no standard errors"
        return "" if self.fitted.converged else "the search did not converge: there are none"

    @cached_property
    def inverse(self) -> np.ndarray:
        """[n, n] of the information of the parameters that no bound holds."""
        return inverse_information(self.fisher, self.free)[0]

    def own_noise(self, e: int) -> DynamicsNoise | None:
        """What counted dynamics add, to the sums of one chain's own features."""
        if self.noise is None:
            return None
        begin = sum(len(one.inner) for one in self.chains[:e])
        own = slice(begin, begin + len(self.chains[e].inner))
        sums, across = self.noise.sums[own, own], self.noise.across[:, own]
        return replace(self.noise, sums=sums, across=across)

    def budget_stretch(self, e: int, gauge: Gauge) -> np.ndarray | None:
        """[K] by what errors of budgets grow as what is spent moves with counted dynamics."""
        noise = self.own_noise(e)
        if noise is None:
            return None
        inner, space = self.chains[e].inner, self.chains[e].chain.space
        law = inner @ self.found.covariance @ inner.T
        return budget_stretch(space, gauge, inner @ self.inverse, law, noise)

    def spending(self, features: Features, seen: Expectations | None, e: int = 0) -> Spending | None:
        """What the fitted demonstrator spends and how it prices that; `seen` is its data's own.

        A price times what it is charged for is linear in the parameters but for what they do to
        the spending: both move together, and their errors with them.
        """
        if self.absence:
            return Spending.of_data(features, seen)
        own, noise = self.chains[e], self.own_noise(e)
        space, inner, size = own.chain.space, own.inner, own.chain.space.size
        law = inner @ self.found.covariance @ inner.T
        spread = np.pad(law, (0, size))
        if noise is not None:
            spread = noise.with_sums(law, inner @ self.inverse)
        theta = self.fitted.x(e) / space.scales
        means, errors, prices, covariances = [], [], [], []
        for block, mean in zip(space.blocks[1:], pull_back(features, own.reached)[1:], strict=True):
            sums = -np.eye(size)[block] * space.scales
            slopes = np.concatenate([sums @ own.reaction, sums], axis=1)
            rows = np.eye(2 * size)[:size][block] / np.tile(space.scales, 2)
            rows = np.concatenate([rows, (theta[block] @ slopes + mean @ rows)[None]])
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


def scaled_by(space: Coordinates, unit: np.ndarray) -> Coordinates:
    """The coordinates of features that are divided by `unit` [D]."""
    return replace(space, scales=space.scales / unit)


def evidence_of(
    seen: Sequence[Observed],
    kept: Fit,
    max_steps: int,
    *,
    robust: bool = False,
    seed: int = 0,
) -> Evidence:
    """The `Evidence` of a fit, made finite by a ridge where it is not.

    Args:
        seen: one per chain, what was seen.
        kept: the fit.
        max_steps: most evaluations of the loss, where a ridge is needed.
        robust: whether the model does not fit.
        seed: of worlds that are drawn from what is known of them.
    """
    fitted, boundless = rescued(kept, VISIBLE, max_steps)
    boundless |= fitted.problem.ridged
    # An expert without noise forbids everything it does not do: nothing in particular is forbidden.
    limits = np.full(len(fitted.z), np.nan) if boundless else _limits(fitted)
    shut = np.isfinite(limits)
    chains = tuple(ChainEvidence.of(fitted, e) for e in range(len(fitted.parts)))
    inner = [one.inner for one in chains]
    fisher = pooled([one.fisher for one in chains], inner)
    if robust:
        fisher = pooled([curvature(one.chain, one.part, one.scores) for one in chains], inner)
    sure = fitted.informed(fisher)
    free = undecided(fitted, sure, fitted.free & ~shut) & ~shut
    squares = [c.counts if c.squares is None else c.squares for c in fitted.problem.chains]
    scores = [one.joint_scores for one in chains]
    found = errors(sure, free, scores, seen, squares if robust else None, floor=fisher)
    noise, dynamics = None, tuple[CountedDynamics | None, ...]()
    if fitted.converged and not boundless:
        asked = {"scores": [one.scores for one in chains], "bread": sure, "free": free}
        reached = [one.reached.sum(axis=1) for one in chains]
        made = dynamics_noise(fitted, **asked, reached=reached, seed=seed)
        if made is not None:
            noise, plain = made.noise, found
            found = noise.on(plain, fisher, inverse_information(sure, free)[0])
            dynamics = made.summaries(fitted, plain, found)
    pairs = zip(scores, squares, strict=True)
    return Evidence(
        asked=kept,
        fitted=fitted,
        chains=chains,
        found=found,
        fisher=fisher,
        outer=np.sum([information(one, own, np.ones(len(own))) for one, own in pairs], axis=0),
        free=free,
        limits=limits,
        boundless=boundless,
        robust=robust,
        noise=noise,
        dynamics=dynamics,
    )


def score_law(
    fitted: Fit, seen: Sequence[Observed], *, size: int, robust: bool = False, seed: int = 0
) -> ScoreLaw:
    """The law of the scores at a fit.

    Args:
        fitted: the fit.
        seen: one per chain, what was seen.
        size: free parameters of the fit that it is compared with.
        robust: whether the model does not fit.
        seed: of worlds that are drawn from what is known of them.
    """
    chains, ties = fitted.problem.chains, fitted.problem.ties
    scores = [chain.scores(part) for chain, part in zip(chains, fitted.parts, strict=True)]
    inner = [ties.jacobian(e, fitted.z) for e in range(len(chains))]
    each = list(zip(chains, fitted.parts, scores, strict=True))
    bread = scatter = pooled([information(s, p.policy, c.visits) for c, p, s in each], inner)
    if robust:
        bread = pooled([curvature(*one) for one in each], inner)
        joint = [in_joint(own, move) for own, move in zip(scores, inner, strict=True)]
        squares = [chain.counts if chain.squares is None else chain.squares for chain in chains]
        scatter = score_scatter(joint, squares, size, seen)[1]
    bread = fitted.informed(bread)
    made = dynamics_noise(fitted, scores=scores, bread=bread, free=fitted.free, seed=seed)
    if made is None:
        return ScoreLaw(bread, scatter if robust else None)
    return ScoreLaw(bread, made.noise.total(scatter), scatter)


def _limits(fitted: Fit) -> np.ndarray:
    """[n] limits of forbidden costs, as `lower_limits`; sampling weights have a `design` effect."""
    problem, z = fitted.problem, fitted.z
    costs = np.zeros(len(z), bool)
    for rows, chain in zip(problem.ties.rows, problem.chains, strict=True):
        costs[rows[chain.space.signs < 0]] = True

    def refitted_loss(j: int, value: float) -> float:
        less = fitted.held(np.arange(len(z)) == j, value)
        return fitted.lagrangian(less.z) if np.isfinite(less.loss) else np.inf

    return lower_limits(
        z,
        np.diagonal(fitted.curvature),
        costs & (z > 0) & problem.movable & (problem.upper >= LARGEST),
        loss=fitted.lagrangian,
        refitted_loss=refitted_loss,
        largest=LARGEST,
        design=problem.chains[0].design,
    )


def parameter_findings(steps: Chain, evidence: Evidence) -> list[Finding]:
    """Costs without an upper limit, and what the demonstrations say nothing about."""
    names, limits, findings = steps.space.names, evidence.own_limits(0), []
    for j in np.flatnonzero(np.isfinite(limits)):
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


def method_findings(steps: Chain, evidence: Evidence) -> list[Finding]:
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
        findings += border_findings(evidence.fitted)
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
    for dynamics in evidence.dynamics:
        findings += [] if dynamics is None else dynamics_findings(dynamics)
    return findings
