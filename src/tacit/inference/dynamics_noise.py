"""What estimated dynamics add to the errors of a fit: noise of its scores, attenuation and bias.

To first order, errors of the dynamics move a fit through its scores. They are also errors in the
regressors, the features with all that follows them, which makes all coefficients smaller together:
attenuation k, between 1 and 2, and bias are measured by refits in worlds drawn in opposite pairs.
The estimate is left as it is. With the information I, the scatter J of the steps' scores, the
covariance M that errors of the dynamics give the scores, and the bias b, its covariance is

    k^2 I^-1 (J + M) I^-1 + b b'

(theory page, "Counted dynamics").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.dynamics import Source
from tacit.dynamics.counted import CountedRows, moved_policies
from tacit.inference.diagnostics import CountedDynamics
from tacit.inference.findings import Finding, Kind
from tacit.inference.gauge import Gauge
from tacit.inference.information import Errors, sandwich
from tacit.inference.parameters import inverse_information
from tacit.likelihood.problem import Fit, LikelihoodProblem
from tacit.likelihood.protocol import ChainEvidence
from tacit.model.features.design import Design
from tacit.model.mdp import MDP
from tacit.search.algebra import square_roots

# Newton's steps of a refit in a drawn world, and the tolerance of its values.
NEWTON_STEPS, ROUGH_TOLERANCE = 2, 1e-6
# Largest factor by which coefficients are taken to be too small.
LARGEST_ATTENUATION = 2.0
# Largest share of the information of a direction that is taken for errors in variables.
LARGEST_NOISE_SHARE = 0.75
# Draws of policies for the tests of the fit: as many as have so many entries, within these bounds.
POLICY_ENTRIES, FEWEST_POLICIES, MOST_POLICIES = 20_000_000, 20, 100
# Share of steps to unseen next states, and bias in standard errors, from which they are findings.
NOTICED_UNSEEN, NOTICED_BIAS = 0.05, 0.5
# Factor of standard errors below which a finding says that they hardly change.
NOTICED_GROWTH = 1.05
# Attenuation, less 1, above which a finding says how large it is.
NOTICED_ATTENUATION = 0.005


@dataclass(frozen=True, eq=False, kw_only=True)
class DynamicsNoise:
    """What errors of the dynamics do to a fit of D parameters.

    Attributes:
        scores: [D, D] covariance that they give the scores of all steps.
        sums: [m, m] covariance that they give expected sums of features, at fixed parameters.
        cross: [D, m] covariance of scores and sums.
        bias: [D] of the parameters: what errors of the dynamics shift them by on average.
        score_bias: [D] information times bias.
        attenuation: factor by which the coefficients are too small, 1 to 2.
    """

    scores: np.ndarray
    sums: np.ndarray
    cross: np.ndarray
    bias: np.ndarray
    score_bias: np.ndarray
    attenuation: float

    def added_scatter(self) -> np.ndarray:
        """[D, D] what the dynamics add to attenuation^2 times the scatter of the steps' scores."""
        return self.attenuation**2 * self.scores + np.outer(self.score_bias, self.score_bias)

    def total_scatter(self, scatter: np.ndarray) -> np.ndarray:
        """[D, D] scatter of the scores: that of the steps, [D, D], and all that dynamics add."""
        return self.attenuation**2 * scatter + self.added_scatter()

    def with_sums(self, covariance: np.ndarray, inverse: np.ndarray) -> np.ndarray:
        """[D + m, D + m] covariance of the parameters, and of m sums at fixed parameters.

        `covariance` [D, D] is that of the parameters, `inverse` [D, D] that of their information.
        """
        cross = inverse @ self.cross
        return np.block([[covariance, cross], [cross.T, self.sums]])

    def added_to(
        self,
        errors: Errors,
        fisher: np.ndarray,
        inverse: np.ndarray,
        prior: np.ndarray | None = None,
    ) -> Errors:
        """The errors with those of the dynamics; `inverse` [D, D] is that of the information."""
        scatter = self.total_scatter(fisher if errors.scatter is None else errors.scatter)
        units = self.total_scatter(fisher if errors.units is None else errors.units)
        covariance = sandwich(inverse, scatter, prior)
        return replace(errors, scatter=scatter, units=units, covariance=covariance)

    def summary(
        self, source: Source, visits: np.ndarray, before: Errors, after: Errors
    ) -> CountedDynamics:
        """How errors grew from `before` to `after`, for steps that visit states [S] times."""
        old, new = np.diagonal(before.covariance), np.diagonal(after.covariance)
        known = (old > 0) & (new > 0)
        errors = np.sqrt(new[known])
        growth = np.sqrt(new[known] / old[known])
        return CountedDynamics(
            growth=float(np.median(growth)) if known.any() else 1.0,
            attenuation=self.attenuation,
            bias=float((np.abs(self.bias[known]) / errors).max(initial=0.0)),
            unseen=source.unseen_share(visits),
            made=source.description,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ChainsNoise:
    """What errors of the dynamics do to a fit of one or several chains.

    Attributes:
        noise: of the joint parameters; its sums are those of all chains, one after the other.
        chain_scores: [N, N] covariance of the scores of every chain's own parameters, likewise.
        sources: one per chain, the data that its dynamics were estimated from; None where they
            are known.
    """

    noise: DynamicsNoise
    chain_scores: np.ndarray
    sources: tuple[Source | None, ...]

    def summaries(
        self, fitted: Fit, before: Errors, after: Errors
    ) -> tuple[CountedDynamics | None, ...]:
        """How errors grew from `before` to `after`, a chain each; None where they are known."""
        pairs = zip(self.sources, fitted.problem.chains, strict=True)
        return tuple(
            None if source is None else self.noise.summary(source, chain.visits, before, after)
            for source, chain in pairs
        )


def grouped_by_source(evidence: Sequence[ChainEvidence]) -> list[tuple[Source, list[int]]]:
    """The data that dynamics were estimated from, each with the numbers of its chains."""
    groups: list[tuple[Source, list[int]]] = []
    for number, chain in enumerate(evidence):
        group = next((members for data, members in groups if data.same_steps(chain.source)), None)
        if group is not None:
            group.append(number)
        elif chain.source is not None:
            groups.append((chain.source, [number]))
    return groups


def dynamics_noise(
    fitted: Fit,
    evidence: Sequence[ChainEvidence],
    *,
    information: np.ndarray,
    free: np.ndarray,
    sums: bool = False,
    seed: int = 0,
) -> ChainsNoise | None:
    """What errors of the dynamics do to a fit; None where all dynamics are known.

    Args:
        fitted: the fit.
        evidence: one per chain, what was seen says at the fit.
        information: [n, n] information, or curvature, of all steps.
        free: [n] bool, the joint parameters that move.
        sums: whether discounted feature sums from the start are asked about, too.
        seed: of the drawn worlds.
    """
    groups = grouped_by_source(evidence)
    if not groups:
        return None
    covariance = _covariance_by_chain(evidence, groups, sums=sums)
    z = fitted.z
    inner = np.concatenate([chain.inner for chain in evidence])
    count = len(inner)
    jacobian = np.zeros((len(covariance), len(z) + sums * count))  # sums are of no parameters
    jacobian[:count, : len(z)] = inner
    jacobian[count:, len(z) :] = np.eye(sums * count)
    bias = _refit_bias(fitted, groups, free, seed)
    bias += _regressor_bias(evidence, information, free)
    joint = jacobian.T @ covariance @ jacobian
    return ChainsNoise(
        noise=_noise_at(np.where(free, z, 0.0), joint, bias, information),
        chain_scores=covariance[:count, :count],
        sources=tuple(chain.source for chain in evidence),
    )


def _covariance_by_chain(
    evidence: Sequence[ChainEvidence], groups: Sequence[tuple[Source, list[int]]], *, sums: bool
) -> np.ndarray:
    """[N, N] covariance, by errors of the dynamics, of all chains' scores; then of their sums.

    Chains with the same data have the same errors: their effects are added before they are squared.
    """
    edges = np.cumsum([0, *(len(chain.inner) for chain in evidence)])
    count = int(edges[-1])
    covariance = np.zeros(((1 + sums) * count,) * 2)
    for source, numbers in groups:
        influences, places = list[Any](), []
        for e in numbers:
            scores = np.arange(edges[e], edges[e + 1])
            influences += evidence[e].dynamics_influence(sums=sums)
            places += [scores, scores + count] if sums else [scores]
        at = np.concatenate(places)
        covariance[np.ix_(at, at)] += source.joint_covariance(influences)
    return covariance


def _refit_bias(
    fitted: Fit, groups: Sequence[tuple[Source, list[int]]], free: np.ndarray, seed: int
) -> np.ndarray:
    """[n] mean shift of refits in drawn worlds, over opposite pairs; 0 where none can be drawn."""
    draws = [
        source.drawn_worlds(seed + i, fitted.parts[numbers[0]].policy)
        for i, (source, numbers) in enumerate(groups)
    ]
    members = [numbers for _, numbers in groups]
    # Larger sources draw fewer worlds: all are used as often as the fewest.
    shifts = [
        _refit_shift(fitted, _in_worlds(fitted, members, worlds), free)
        for worlds in zip(*draws, strict=False)
    ]
    pairs = np.reshape(shifts, (len(shifts) // 2, 2, len(fitted.z))).mean(axis=1)
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    return pairs.mean(axis=0) if len(pairs) else np.zeros(len(fitted.z))


def _in_worlds(
    fitted: Fit, members: Sequence[list[int]], worlds: Sequence[MDP]
) -> LikelihoodProblem:
    """The problem of a fit with the chains of each group in the transitions of its world."""
    chains = list(fitted.problem.chains)
    for numbers, world in zip(members, worlds, strict=True):
        for e in numbers:
            mdp = chains[e].mdp
            moved = MDP(world.transitions, mdp.initial, mdp.discount, available=mdp.available)
            chains[e] = chains[e].elsewhere(moved)
    return fitted.problem.with_chains(chains)


def _refit_shift(fitted: Fit, problem: LikelihoodProblem, free: np.ndarray) -> np.ndarray:
    """[n] how far a few Newton's steps in another problem lead from a fit."""
    z = fitted.z
    for _ in range(NEWTON_STEPS):
        step = _newton_step(fitted, problem, z, free)
        # Never far beyond doubling: where little is known a parabola is not to be trusted.
        z = z + step / max(1.0, float((np.abs(step) / (np.abs(z) + 1.0)).max()))
    return z - fitted.z


def _newton_step(
    fitted: Fit, problem: LikelihoodProblem, z: np.ndarray, free: np.ndarray
) -> np.ndarray:
    """[n] Newton's step of the free parameters; NaN where gradient or curvature is not finite."""
    parts = problem.parts(z, fitted.parts, ROUGH_TOLERANCE)
    point = problem.joined(z, parts, ROUGH_TOLERANCE)
    assert point.curvature is not None
    gradient = point.gradient[0] + fitted.pull
    curvature = fitted.informed(point.curvature.bent_up(free[None])[0])
    if not (np.isfinite(gradient).all() and np.isfinite(curvature).all()):
        return np.full(len(z), np.nan)
    return -inverse_information(curvature, free)[0] @ gradient


def _regressor_bias(
    evidence: Sequence[ChainEvidence], information: np.ndarray, free: np.ndarray
) -> np.ndarray:
    """[n] shift of the free parameters by errors in variables, where no worlds can be drawn.

    Minus the inverse of the information less the part that is errors, times what scores lack.
    """
    noise_information = np.zeros(information.shape)
    score_bias = np.zeros(len(information))
    for chain in evidence:
        noise = chain.regressor_noise
        if noise is not None:
            noise_information += chain.inner.T @ noise.information @ chain.inner
            score_bias += chain.inner.T @ noise.score_bias
    bias = np.zeros(len(information))
    if not free.any() or not score_bias.any():
        return bias
    _, half = square_roots(information[np.ix_(free, free)])
    shares, axes = np.linalg.eigh(half @ noise_information[np.ix_(free, free)] @ half.T)
    kept = 1.0 - np.minimum(shares, LARGEST_NOISE_SHARE)
    directions = axes.T @ half
    bias[free] = -directions.T @ ((directions @ score_bias[free]) / kept)
    return bias


def _noise_at(
    x: np.ndarray, joint: np.ndarray, bias: np.ndarray, information: np.ndarray
) -> DynamicsNoise:
    """The noise at parameters x [D], of this bias [D] and information [D, D].

    `joint` [D + m, D + m] is the covariance of the scores and of m sums, perhaps none. Attenuation
    is by how much the bias shortens x, measured by the information.
    """
    size, score_bias = len(x), information @ bias
    length = float(x @ information @ x)
    attenuation = 1.0 - float(x @ score_bias) / length if length > 0 else 1.0
    return DynamicsNoise(
        scores=joint[:size, :size],
        sums=joint[size:, size:],
        cross=joint[:size, size:],
        bias=bias,
        score_bias=score_bias,
        attenuation=float(np.clip(attenuation, 1.0, LARGEST_ATTENUATION)),
    )


def budget_stretch(
    space: Design,
    gauge: Gauge,
    inverse: np.ndarray,
    covariance: np.ndarray,
    noise: DynamicsNoise,
) -> np.ndarray:
    """[K] factor by which errors of budgets grow as the dynamics move what is spent, too.

    `inverse` [D, D] is that of the information, `covariance` [D, D] that of the parameters.
    """
    size, joint = space.size, noise.with_sums(covariance, inverse)
    stretch = np.ones(space.constraints)
    for k, block in enumerate(space.blocks[1:]):
        slopes = np.concatenate([gauge.jacobian[size + space.constraints + k], np.zeros(size)])
        by_parameters = float(slopes @ joint @ slopes)
        slopes[size:][block] = -gauge.cost_weights[k] * space.scales[block]
        if by_parameters > 0:
            stretch[k] = np.sqrt(max(float(slopes @ joint @ slopes) / by_parameters, 0.0))
    return stretch


def policy_noise(rows: CountedRows, policy: np.ndarray, values: np.ndarray) -> np.ndarray:
    """[m, S, A] draws of first-order errors of the log of a fitted policy, by those of the rows."""
    draws = int(np.clip(POLICY_ENTRIES // policy.size, FEWEST_POLICIES, MOST_POLICIES))
    return moved_policies(rows, policy, values, draws=draws, seed=0)


def uncounted_findings(mdp: MDP, reason: str) -> list[Finding]:
    """A finding that errors take counted dynamics for known, and why; none where they are known."""
    if mdp.evidence is None:
        return []
    sentence = (
        f"The dynamics were counted, and errors, intervals and tests take them for known: {reason}."
    )
    return [Finding(sentence, Kind.ERRORS, number=0.0)]


def dynamics_findings(known: CountedDynamics) -> list[Finding]:
    """That errors count those of the dynamics, how much, and where this is not to be trusted."""
    findings = [_growth_finding(known)]
    if known.unseen > NOTICED_UNSEEN:
        sentence = (
            f"Unseen successors: about {known.unseen:.0%} of the steps from visited states lead to "
            "states that were never seen to follow there. No interval counts them; more counted "
            "steps would."
        )
        findings.append(Finding(sentence, Kind.NOT_IDENTIFIED, number=known.unseen))
    if known.bias > NOTICED_BIAS:
        small = known.attenuation - 1.0
        together = f", all of them together to about {small:.0%} too small"
        sentence = (
            f"Attenuation: errors in dynamics that were {known.made} shift coefficients on average "
            f"by up to {known.bias:.2g} standard errors"
            f"{together if small > NOTICED_ATTENUATION else ''}. Intervals allow for it; ratios of "
            "coefficients are hardly affected."
        )
        findings.append(Finding(sentence, Kind.ERRORS, number=known.attenuation))
    return findings


def _growth_finding(known: CountedDynamics) -> Finding:
    """How much larger standard errors are by those of the dynamics."""
    if np.isnan(known.growth):
        sentence = (
            "The dynamics were counted. Their sampling error is part of the answers to questions, "
            "without attenuation; tests take the dynamics for known."
        )
        return Finding(sentence, Kind.ERRORS, number=known.growth)
    effect = f"multiplies standard errors by {known.growth:.2g} (median)"
    if known.growth < NOTICED_GROWTH:
        effect = "hardly changes standard errors"
    sentence = (
        f"The dynamics were {known.made}. Their sampling error is part of standard errors, "
        f"intervals and tests; it {effect}."
    )
    return Finding(sentence, Kind.ERRORS, number=known.growth)
