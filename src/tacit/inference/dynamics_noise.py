"""What counted dynamics add to the errors of one fit: noise of the scores, attenuation, and signs.

Errors of the rows move the fit as they move its scores. They are errors of the regressors, too,
which make all coefficients smaller together: how much is measured in worlds drawn in opposite
pairs, two of Newton's steps each. The estimate is left as it is; its errors grow by the
attenuation and by the bias.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from tacit.likelihood.problem import Fit
from tacit.likelihood.protocol import ChainEvidence
from tacit.model.features.design import Design
from tacit.model.mdp import MDP
from tacit.search.algebra import square_roots

# Newton's steps in a drawn world, and the tolerance of its values.
STEPS, ROUGHLY = 2, 1e-6
# Largest factor by which coefficients are taken to be too small.
MOST = 2.0
# Largest share of what is known of a direction that is taken for errors alone.
MOST_BLURRED = 0.75
# Draws of policies for the tests of the fit, and numbers that they are at most.
DRAWS, NUMBERS = 100, 20_000_000
# Share of steps to unseen next states, and bias in standard errors, from which they are findings.
UNSEEN, BIASED = 0.05, 0.5
NOTICED = 1.05  # factor of standard errors below which they hardly change


@dataclass(frozen=True, eq=False, kw_only=True)
class DynamicsNoise:
    """What errors of counted rows do to a fit of D parameters.

    Attributes:
        scores: [D, D] covariance that they give the scores of all steps.
        sums: [m, m] that they give expected sums of features, the parameters being fixed.
        across: [D, m] of scores and sums.
        bias: [D] how far the parameters are from those of the true dynamics on average.
        shift: [D] the same as scores.
        attenuation: by what the coefficients are too small, 1 to 2.
    """

    scores: np.ndarray
    sums: np.ndarray
    across: np.ndarray
    bias: np.ndarray
    shift: np.ndarray
    attenuation: float

    def added(self) -> np.ndarray:
        """[D, D] what the dynamics add to attenuation^2 times the scatter of the steps' scores."""
        return self.attenuation**2 * self.scores + np.outer(self.shift, self.shift)

    def total(self, scatter: np.ndarray) -> np.ndarray:
        """[D, D] scatter of the scores, that of the steps [D, D] and all that the dynamics add."""
        return self.attenuation**2 * scatter + self.added()

    def with_sums(self, law: np.ndarray, inverse: np.ndarray) -> np.ndarray:
        """[D + m, D + m] covariance of the parameters and of m sums at fixed ones.

        `law` [D, D] is that of the parameters, `inverse` [D, D] that of their information.
        """
        across = inverse @ self.across
        return np.block([[law, across], [across.T, self.sums]])

    def on(
        self,
        found: Errors,
        fisher: np.ndarray,
        inverse: np.ndarray,
        prior: np.ndarray | None = None,
    ) -> Errors:
        """The errors with those of the dynamics; `inverse` [D, D] is that of the information."""
        scatter = self.total(fisher if found.scatter is None else found.scatter)
        units = self.total(fisher if found.units is None else found.units)
        covariance = sandwich(inverse, scatter, prior)
        return replace(found, scatter=scatter, units=units, covariance=covariance)

    def summary(
        self, source: Source, visits: np.ndarray, before: Errors, after: Errors
    ) -> CountedDynamics:
        """How much that is, of errors before and after, where the steps visit states [S]."""
        own, whole = np.diagonal(before.covariance), np.diagonal(after.covariance)
        known = (own > 0) & (whole > 0)
        growth, biased = np.sqrt(whole[known] / own[known]), np.abs(self.bias[known])
        return CountedDynamics(
            growth=float(np.median(growth)) if known.any() else 1.0,
            attenuation=self.attenuation,
            bias=float((biased / np.sqrt(whole[known])).max(initial=0.0)),
            unseen=source.unseen(visits),
            made=source.made,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ChainsNoise:
    """What counted dynamics do to a fit of one or several chains.

    Attributes:
        noise: of the joint parameters; its sums are those of all chains, one after the other.
        own: covariance of the scores of each chain's own parameters, likewise.
        sources: one per chain, what its dynamics are known from; None where they are known.
    """

    noise: DynamicsNoise
    own: np.ndarray
    sources: tuple[Source | None, ...]

    def summaries(
        self, fitted: Fit, before: Errors, after: Errors
    ) -> tuple[CountedDynamics | None, ...]:
        """How much that is, chain by chain, of errors before and after."""
        pairs = zip(self.sources, fitted.problem.chains, strict=True)
        return tuple(
            None if source is None else self.noise.summary(source, chain.visits, before, after)
            for source, chain in pairs
        )


def sources(evidence: Sequence[ChainEvidence]) -> list[tuple[Source, list[int]]]:
    """What the dynamics of chains are known from, each with the numbers of the chains."""
    known: list[tuple[Source, list[int]]] = []
    for number, own in enumerate(evidence):
        same = next((those for source, those in known if source.same(own.source)), None)
        if same is not None:
            same.append(number)
        elif own.source is not None:
            known.append((own.source, [number]))
    return known


def dynamics_noise(
    fitted: Fit,
    evidence: Sequence[ChainEvidence],
    *,
    bread: np.ndarray,
    free: np.ndarray,
    sums: bool = False,
    seed: int = 0,
) -> ChainsNoise | None:
    """What counted dynamics do to a fit; None where none were counted.

    Chains that were counted from one log have the same errors in their rows: what these do to the
    parameters is added up before it is squared.

    Args:
        fitted: the fit.
        evidence: one per chain, what was seen says at the fit.
        bread: [n, n] information, or curvature, of all steps.
        free: [n] bool, the joint parameters that move.
        sums: whether discounted sums from the start are asked about, too.
        seed: of the drawn worlds.
    """
    problem, z, known = fitted.problem, fitted.z, sources(evidence)
    if not known:
        return None
    chains, edges = problem.chains, np.cumsum([0, *(len(own.inner) for own in evidence)])
    many = int(edges[-1])
    joint = np.zeros(((1 + sums) * many,) * 2)
    for source, numbers in known:
        slopes, places = list[Any](), []
        for e in numbers:
            own = np.arange(edges[e], edges[e + 1])
            slopes += evidence[e].slopes(sums=sums)
            places += [own, own + many] if sums else [own]
        at = np.concatenate(places)
        joint[np.ix_(at, at)] += source.covariance_of(slopes)
    inner = np.concatenate([own.inner for own in evidence])
    whole = np.zeros((len(joint), len(z) + sums * many))
    whole[:many, : len(z)] = inner
    whole[many:, len(z) :] = np.eye(sums * many)

    drawn = [
        (numbers, source.worlds(seed + i, fitted.parts[numbers[0]].policy))
        for i, (source, numbers) in enumerate(known)
    ]

    def shifted(worlds: Sequence[MDP]) -> np.ndarray:
        moved = list(chains)
        for (numbers, _), world in zip(drawn, worlds, strict=True):
            for e in numbers:
                own = chains[e].mdp
                there = MDP(world.transitions, own.initial, own.discount, available=own.available)
                moved[e] = chains[e].elsewhere(there)
        elsewhere = problem.with_chains(moved)

        def way(place: np.ndarray) -> np.ndarray:
            here = elsewhere.joined(place, elsewhere.parts(place, fitted.parts, ROUGHLY), ROUGHLY)
            assert here.curvature is not None
            convex = here.curvature.bent_up(free[None])[0]
            return newton_way(here.gradient[0] + fitted.pull, fitted.informed(convex), free)

        return shifted_by(way, z)

    moves = [shifted(worlds) for worlds in zip(*(each for _, each in drawn), strict=False)]
    bias = mean_shift(moves) if moves else np.zeros(len(z))
    bias += blurred_shift(evidence, bread, free)
    noise = noise_around(whole.T @ joint @ whole, bias, bread, np.where(free, z, 0.0))
    own = tuple(one.source for one in evidence)
    return ChainsNoise(noise=noise, own=joint[:many, :many], sources=own)


def blurred_shift(
    evidence: Sequence[ChainEvidence], bread: np.ndarray, free: np.ndarray
) -> np.ndarray:
    """[n] how far errors of learnt features move the free parameters, as errors of regressors do.

    Without what of the information [n, n] is errors, and with what scores are too small by, the
    parameters would be elsewhere.
    """
    information, pull = np.zeros(bread.shape), np.zeros(len(bread))
    blurs = [(own.blur, own.inner) for own in evidence]
    for blur, inner in blurs:
        if blur is not None:
            information += inner.T @ blur.information @ inner
            pull += inner.T @ blur.pull
    shift = np.zeros(len(bread))
    if not free.any() or not pull.any():
        return shift
    _, inverse = square_roots(bread[np.ix_(free, free)])
    shares, axes = np.linalg.eigh(inverse @ information[np.ix_(free, free)] @ inverse.T)
    left = 1.0 - np.minimum(shares, MOST_BLURRED)
    ways = axes.T @ inverse
    shift[free] = -ways.T @ ((ways @ pull[free]) / left)
    return shift


def noise_around(
    joint: np.ndarray, bias: np.ndarray, bread: np.ndarray, x: np.ndarray
) -> DynamicsNoise:
    """The `DynamicsNoise` at parameters x [D] of this bias [D], and information [D, D].

    `joint` [D + m, D + m] is the covariance of the scores and of m sums, perhaps none.
    """
    size, shift = len(x), bread @ bias
    length = float(x @ bread @ x)
    shrunk = 1.0 - float(x @ shift) / length if length > 0 else 1.0
    return DynamicsNoise(
        scores=joint[:size, :size],
        sums=joint[size:, size:],
        across=joint[:size, size:],
        bias=bias,
        shift=shift,
        attenuation=float(np.clip(shrunk, 1.0, MOST)),
    )


def mean_shift(moves: Sequence[np.ndarray]) -> np.ndarray:
    """[D] mean of moves [D] in worlds that come in opposite pairs; those without one left out."""
    pairs = np.array(moves).reshape(-1, 2, len(moves[0])).mean(axis=1)
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    return pairs.mean(axis=0) if len(pairs) else np.zeros(pairs.shape[1])


def newton_way(gradient: np.ndarray, bent: np.ndarray, free: np.ndarray) -> np.ndarray:
    """[D] Newton's step of the free parameters; NaN where gradient or curvature is not finite."""
    if not (np.isfinite(gradient).all() and np.isfinite(bent).all()):
        return np.full(len(gradient), np.nan)
    return -inverse_information(bent, free)[0] @ gradient


def shifted_by(way: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """[D] how far so many steps lead from x [D]; `way` gives the step at a place."""
    place = x
    for _ in range(STEPS):
        step = way(place)
        # Never far beyond doubling: where little is known a parabola is not to be trusted.
        place = place + step / max(1.0, float((np.abs(step) / (np.abs(place) + 1.0)).max()))
    return place - x


def budget_stretch(
    space: Design,
    gauge: Gauge,
    inverse: np.ndarray,
    law: np.ndarray,
    noise: DynamicsNoise,
) -> np.ndarray:
    """[K] by what errors of budgets grow as counted dynamics move what is spent, too.

    `inverse` [D, D] is that of the information, `law` [D, D] the covariance of the parameters.
    """
    size, whole = space.size, noise.with_sums(law, inverse)
    stretch = np.ones(space.constraints)
    for k, block in enumerate(space.blocks[1:]):
        row = np.concatenate([gauge.jacobian[size + space.constraints + k], np.zeros(size)])
        alone = float(row @ whole @ row)
        row[size:][block] = -gauge.cost_weights[k] * space.scales[block]
        if alone > 0:
            stretch[k] = np.sqrt(max(float(row @ whole @ row) / alone, 0.0))
    return stretch


def policy_noise(rows: CountedRows, policy: np.ndarray, values: np.ndarray) -> np.ndarray:
    """[m, S, A] draws of what the logarithm of a fitted policy is mistaken by."""
    draws = int(np.clip(NUMBERS // policy.size, 20, DRAWS))
    return moved_policies(rows, policy, values, draws=draws, seed=0)


def uncounted_findings(mdp: MDP, reason: str) -> list[Finding]:
    """That errors take counted dynamics for known, and why; nothing where these are known."""
    if mdp.evidence is None:
        return []
    said = (
        f"The dynamics were counted, and errors, intervals and tests take them for known: {reason}."
    )
    return [Finding(said, Kind.ERRORS, number=0.0)]


def dynamics_findings(known: CountedDynamics) -> list[Finding]:
    """That errors count the dynamics, and where these are too little known to be trusted."""
    larger = f"multiplies standard errors by {known.growth:.2g} (median)"
    if known.growth < NOTICED:
        larger = "hardly changes standard errors"
    said = (
        f"The dynamics were {known.made}. Their sampling error is part of standard errors, "
        "intervals and "
        f"tests; it {larger}."
    )
    if np.isnan(known.growth):
        said = (
            "The dynamics were counted. Their sampling error is part of the answers to questions, "
            "without attenuation; tests take the dynamics for known."
        )
    findings = [Finding(said, Kind.ERRORS, number=known.growth)]
    if known.unseen > UNSEEN:
        said = (
            f"Unseen successors: about {known.unseen:.0%} of the steps from visited states lead to "
            "states that were never seen to follow there. No interval counts them; more counted "
            "steps would."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, number=known.unseen))
    if known.bias > BIASED:
        small = known.attenuation - 1.0
        said = (
            f"Attenuation: errors in dynamics that were {known.made} shift coefficients on average "
            f"by up to {known.bias:.2g} standard errors"
        )
        said += f", all of them together to about {small:.0%} too small" if small > 0.005 else ""
        said += ". Intervals allow for it; ratios of coefficients are hardly affected."
        findings.append(Finding(said, Kind.ERRORS, number=known.attenuation))
    return findings
