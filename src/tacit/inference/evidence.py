"""What was seen says about the parameters of one fit of noisy experts, in one world or several.

The information of the chains adds up in the joint parameters. Its inverse, mapped to the parameters
of one chain, is that chain's covariance: what is shared is known from every chain that has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tacit.inference.activity import ScoreLaw
from tacit.inference.diagnostics import CountedDynamics
from tacit.inference.dynamics_noise import (
    DynamicsNoise,
    budget_stretch,
    dynamics_findings,
    dynamics_noise,
)
from tacit.inference.expectations import Expectations, Spending, pull_back
from tacit.inference.findings import Finding, Kind, blind_findings
from tacit.inference.gauge import Gauge
from tacit.inference.information import Errors, errors, scatter_of, undecided
from tacit.inference.known import border_findings
from tacit.inference.limits import lower_limits
from tacit.inference.parameters import inverse_information
from tacit.likelihood.problem import Fit
from tacit.likelihood.protocol import LARGEST, ChainEvidence
from tacit.likelihood.rescue import RESCUE, VISIBLE, rescued
from tacit.likelihood.start import silent
from tacit.likelihood.steps import carried
from tacit.model.features.design import Design
from tacit.model.objective import Features

# Directions that nothing is known of, of which each is named.
SHOWN = 20
TOO_MANY = "no table of standard errors is made for so many coefficients: ask for directions"


def pooled(parts: Sequence[np.ndarray], chains: Sequence[ChainEvidence]) -> np.ndarray:
    """[n, n] matrices [D, D] of single chains as one of the joint parameters."""
    pairs = zip(parts, chains, strict=True)
    return np.sum([carried(part, one.inner) for part, one in pairs], axis=0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """What was seen says about the joint parameters of one fit.

    Attributes:
        unregularised: the fit.
        fitted: the same, made finite by a ridge where it is not.
        chains: one per chain; of several kinds of demonstrators one per kind.
        errors: of the parameters.
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

    unregularised: Fit
    fitted: Fit
    chains: tuple[ChainEvidence, ...]
    errors: Errors
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
        ties, chain = self.fitted.problem.ties, self.chains[e].chain
        limits = self.limits[ties.rows[e]] * ties.multiples(e, self.fitted.z)
        return np.where((chain.space.signs < 0) | chain.endless_rewards, limits, np.nan)

    def gauge(self, e: int = 0, unit: np.ndarray | None = None) -> Gauge:
        """A chain's parameters in the gauge, of features that are divided by `unit` [D]."""
        own = self.chains[e]
        space = own.chain.space if unit is None else scaled_by(own.chain.space, unit)
        shut, reaction = np.isfinite(self.own_limits(e)), own.reaction if self.written else None
        return Gauge.of(space, self.fitted.x(e), own.spent, reaction, unbounded=shut)

    @property
    def written(self) -> bool:
        """Whether the law of all parameters is written out."""
        return all(one.chain.writable for one in self.chains)

    @property
    def absence(self) -> str:
        """Why curvature says nothing: the maximum is not there, or was not reached; else empty."""
        if self.boundless:
            return "the likelihood has no maximum: there are no standard errors"
        if not self.fitted.converged:
            return "the search did not converge: there are no standard errors"
        return "" if self.written else TOO_MANY

    @cached_property
    def inverse(self) -> np.ndarray:
        """[n, n] of the information of the parameters that no bound holds."""
        return inverse_information(self.fitted.informed(self.fisher), self.free)[0]

    @property
    def effective(self) -> float:
        """How many directions of the parameters the steps determine, a share of each."""
        return float((self.inverse * self.fisher).sum())

    def own_noise(self, e: int) -> DynamicsNoise | None:
        """What counted dynamics add, to the sums of one chain's own features."""
        if self.noise is None:
            return None
        begin = sum(len(one.inner) for one in self.chains[:e])
        own = slice(begin, begin + len(self.chains[e].inner))
        return replace(self.noise, sums=self.noise.sums[own, own], cross=self.noise.cross[:, own])

    def budget_stretch(self, e: int, gauge: Gauge) -> np.ndarray | None:
        """[K] by what errors of budgets grow as what is spent moves with counted dynamics."""
        noise = self.own_noise(e)
        if noise is None:
            return None
        inner, space = self.chains[e].inner, self.chains[e].chain.space
        law = inner @ self.errors.covariance @ inner.T
        return budget_stretch(space, gauge, inner @ self.inverse, law, noise)

    def spending(
        self, features: Features, seen: Expectations | None, e: int = 0
    ) -> Spending | None:
        """What the fitted demonstrator spends and how it prices that; `seen` is its data's own.

        A price times what it is charged for is linear in the parameters but for what they do to
        the spending: both move together, and their errors with them.
        """
        if self.absence or not self.chains[e].chain.space.constraints:
            return Spending.of_data(features, seen)
        own, noise = self.chains[e], self.own_noise(e)
        space, inner, size = own.chain.space, own.inner, own.chain.space.size
        law = inner @ self.errors.covariance @ inner.T
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


def scaled_by(space: Design, unit: np.ndarray) -> Design:
    """The design of features that are divided by `unit` [D]."""
    return replace(space, scales=space.scales / unit)


def evidence_of(
    seen: Sequence[Any],
    kept: Fit,
    max_steps: int,
    *,
    robust: bool = False,
    counted: bool = True,
    seed: int = 0,
) -> Evidence:
    """The `Evidence` of a fit, made finite by a ridge where it is not.

    Args:
        seen: one per chain, what was seen.
        kept: the fit.
        max_steps: most evaluations of the loss, where a ridge is needed.
        robust: whether the model does not fit.
        counted: whether errors allow for dynamics that were counted.
        seed: of worlds that are drawn from what is known of them.
    """
    fitted, boundless = rescued(kept, VISIBLE, max_steps)
    fitted = fitted.completed
    boundless |= fitted.problem.ridged
    chains = fitted.evidence(seen)
    if not all(one.chain.writable for one in chains):
        return _unwritten(kept, fitted, chains, boundless)
    # An expert without noise forbids everything it does not do: nothing in particular is forbidden.
    limits = np.full(len(fitted.z), np.nan) if boundless else _limits(fitted)
    shut = np.isfinite(limits)
    fisher = pooled([one.curvature if robust else one.fisher for one in chains], chains)
    sure = fitted.informed(fisher)
    free = undecided(fitted, sure, fitted.free & ~shut) & ~shut
    known = errors(
        sure,
        free,
        chains,
        robust=robust,
        fisher=fisher,
        certain=fitted.conditioned(fisher) - fisher,
        moving=fitted.problem.movable,
        prior=fitted.prior,
    )
    noise, dynamics = None, tuple[CountedDynamics | None, ...]()
    if counted and fitted.converged and not boundless:
        by_chain = dynamics_noise(fitted, chains, information=sure, free=free, sums=True, seed=seed)
        if by_chain is not None:
            noise, plain = by_chain.noise, known
            inverse = inverse_information(sure, free)[0]
            known = noise.added_to(plain, fisher, inverse, fitted.prior)
            dynamics = by_chain.summaries(fitted, plain, known)
    return Evidence(
        unregularised=kept,
        fitted=fitted,
        chains=tuple(one for own in chains for one in own.kinds),
        errors=known,
        fisher=fisher,
        outer=np.sum([one.outer for one in chains], axis=0),
        free=free,
        limits=limits,
        boundless=boundless,
        robust=robust,
        noise=noise,
        dynamics=dynamics,
    )


def _unwritten(
    kept: Fit, fitted: Fit, chains: tuple[ChainEvidence, ...], boundless: bool
) -> Evidence:
    """The `Evidence` of so many parameters that only single questions are answered."""
    size, none = len(fitted.z), np.zeros((0, 0))
    pairs = [(one.source, one) for one in chains]
    return Evidence(
        unregularised=kept,
        fitted=fitted,
        chains=chains,
        errors=Errors(none, np.zeros((0, size)), False),
        fisher=none,
        outer=none,
        free=fitted.free,
        limits=np.full(size, np.nan),
        boundless=boundless,
        dynamics=tuple(
            None if own is None else CountedDynamics(unseen=own.unseen_share(one.chain.visits))
            for own, one in pairs
        ),
    )


def score_law(
    fitted: Fit,
    seen: Sequence[Any],
    *,
    size: int,
    robust: bool = False,
    counted: bool = True,
    seed: int = 0,
) -> ScoreLaw | None:
    """The law of the scores at a fit; None where it is too large to be written down.

    Args:
        fitted: the fit.
        seen: one per chain, what was seen.
        size: free parameters of the fit that it is compared with.
        robust: whether the model does not fit.
        counted: whether it allows for dynamics that were counted.
        seed: of worlds that are drawn from what is known of them.
    """
    chains = fitted.evidence(seen)
    if not all(one.chain.writable for one in chains):
        return None
    bread = scatter = pooled([one.fisher for one in chains], chains)
    if robust:
        bread = pooled([one.curvature for one in chains], chains)
        scatter = scatter_of(chains, size, robust=True).scatter
        assert scatter is not None
    bread, by_chain = fitted.informed(bread), None
    if counted:
        by_chain = dynamics_noise(fitted, chains, information=bread, free=fitted.free, seed=seed)
    if by_chain is None:
        return ScoreLaw(bread, scatter if robust else None)
    return ScoreLaw(bread, by_chain.noise.total_scatter(scatter), scatter)


def _limits(fitted: Fit) -> np.ndarray:
    """[n] limits of forbidden costs, as `lower_limits`; sampling weights have a `design` effect."""
    problem, z = fitted.problem, fitted.z
    asked, endless = np.zeros(len(z), bool), np.isneginf(problem.lower)
    for e, chain in problem.wanting:
        rows = problem.ties.rows[e]
        asked[rows[chain.space.signs < 0]] = True
        asked[rows] &= ~endless[rows]  # a curve without a sign forbids nothing
        asked[rows] |= chain.endless_rewards & endless[rows]

    def refitted_loss(j: int, value: float) -> float:
        less = fitted.held(np.arange(len(z)) == j, value)
        return fitted.lagrangian(less.z) if np.isfinite(less.loss) else np.inf

    asked &= problem.movable & np.where(z > 0, problem.upper >= LARGEST, endless)
    if not asked.any() or fitted.diagonal is None:
        return np.full(len(z), np.nan)
    return lower_limits(
        z,
        fitted.diagonal,
        asked,
        loss=fitted.lagrangian,
        refitted_loss=refitted_loss,
        largest=LARGEST,
        design=problem.chains[0].design,
    )


def parameter_findings(evidence: Evidence, e: int = 0) -> list[Finding]:
    """Costs without an upper limit, and what the demonstrations say nothing about."""
    own, limits, findings = evidence.chains[e], evidence.own_limits(e), []
    chain, rows = own.chain, evidence.fitted.problem.ties.rows[e]
    space = chain.space
    names = space.labels
    for j in np.flatnonzero(np.isfinite(limits) & (space.signs < 0)):
        said = f"{names[j]} has no upper limit: its cost was never incurred."
        if limits[j] > 0:
            said = (
                f"{names[j]} is forbidden: its cost was never incurred although the reward pulls "
                "there, so the demonstrations set a lower limit on its weight and no upper one."
            )
        if chain.at_starts[j]:
            said = f"{names[j]} has no upper limit: its cost was incurred only without a choice."
        low = float(limits[j] / space.scales[j])
        kind = Kind.NOT_IDENTIFIED if chain.at_starts[j] else Kind.FORBIDDEN
        findings.append(Finding(said, kind, feature=names[j], number=low))
    if not evidence.written:
        return findings
    sure = evidence.fitted.informed(evidence.fisher)
    mute = (silent(sure, chain.steps) & ~evidence.fitted.free)[rows]
    mute &= ~space.empty  # constants are among the findings on features
    blind = evidence.errors.blind[:, rows]
    blind = np.concatenate([np.eye(space.size)[mute], blind[blind.any(axis=1)]])
    if len(blind) <= SHOWN:
        return findings + blind_findings(names, blind)
    said = (
        f"{len(blind)} of {space.size} directions of the weights change nothing in the states that "
        "were visited, and no prior speaks of them: their intervals are infinite."
    )
    return [*findings, Finding(said, Kind.NOT_IDENTIFIED, number=len(blind))]


def method_findings(evidence: Evidence) -> list[Finding]:
    """What the error bars rest on, or why there are none."""
    weighted = any(one.chain.squares is not None for one in evidence.chains)
    if evidence.boundless:
        said = (
            "The expert looks deterministic: the likelihood has no maximum, since larger "
            f"parameters are always likelier. A ridge of {RESCUE:g} on scaled features was added, "
            "on which the scale of the answer depends. No intervals are given"
        )
        said += ": Explanation gives them." if len(evidence.chains[0].reached) else "."
        return [Finding(said, Kind.DETERMINISTIC, number=RESCUE)]
    if not evidence.fitted.converged:
        said = "The search stopped before its tolerance was met: no error bars are given."
        return [*border_findings(evidence.fitted), Finding(said, Kind.NOT_CONVERGED)]
    taken = evidence.errors.taken
    said = f"Standard errors treat {taken}."
    small = evidence.errors.small
    kind = "clustered" if evidence.errors.clustered else "sandwich"
    if evidence.robust:
        why = "about the best approximation within the model, since it does not fit"
        why = why if not weighted else "since weights are no counts"
        said = f"Standard errors and intervals are {kind} ones, {why}; they treat {taken}."
    if evidence.fitted.problem.penalised:
        said += (
            " They are those of the posterior law, the strength of the prior taken as known: "
            "intervals hold on average over weights that the prior would draw, not for each."
        )
    if not evidence.written:
        said += (
            " With so many features no table of intervals is made: identification.interval "
            "answers for any direction that is asked."
        )
    if small is not None and small.free.any():
        degrees = small.degrees(np.eye(len(small.free))[small.free])
        ends = dict.fromkeys(f"{end:.0f}" for end in (degrees.min(), degrees.max()))
        said += (
            f" They are few: scores are adjusted for their leverage, and intervals and tests are "
            f"those of Student's law with {' to '.join(ends)} degrees of freedom."
        )
    findings = [Finding(said, Kind.ERRORS)]
    for dynamics in evidence.dynamics:
        findings += [] if dynamics is None else dynamics_findings(dynamics)
    return findings
