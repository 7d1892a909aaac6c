"""Recoveries with very many features, or with a prior on their weights.

The prior is a penalty: its strength is given, or chosen by the likelihood of trajectories that are
held out. Error bars are those of the posterior law, Gaussian around the estimate: of every weight
where the curvature [D, D] can be written out, else of the directions that are asked for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed
from tacit.data.tally import random_loss, tally_of
from tacit.errors import InvalidModel
from tacit.forward.solution import visitation
from tacit.inference.activity import Verdict
from tacit.inference.gauge import Gauge
from tacit.inverse.assembly import Estimate, recovery
from tacit.inverse.diagnostics import Goodness
from tacit.inverse.expectations import action_log_likelihoods, expectations_from_start, pull_back
from tacit.inverse.findings import Finding, Kind, guarantee_findings, listed
from tacit.inverse.noisy.activity import verdict_findings
from tacit.inverse.noisy.adjoint import Loss, Place, begin, curvature, descend
from tacit.inverse.noisy.counted import dynamics_findings
from tacit.inverse.noisy.estimate import estimate_of
from tacit.inverse.noisy.inference import described
from tacit.inverse.noisy.intervals import Numbers
from tacit.inverse.noisy.known import bound_findings
from tacit.inverse.noisy.posterior import Ended, Posterior, coefficients, minimised
from tacit.inverse.noisy.verdicts import goodness_of_many, many_without_idle_constraints
from tacit.inverse.recovery import Recovery
from tacit.inverse.standardised import standard_of
from tacit.likelihood.problem import Fit
from tacit.likelihood.rescue import RESCUE
from tacit.likelihood.start import Bounds
from tacit.model.ends import uniform_policy
from tacit.model.features import Ridge, Smooth, Sparse
from tacit.model.features.design import Design, sums_as_given, values_off
from tacit.model.mdp import MDP, outside_policy
from tacit.model.objective import Features

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.inverse.noisy.likelihood import Likelihood

# Strengths that are tried, the strongest first; after so many worse ones no weaker is tried.
STRENGTHS = 10.0 ** np.arange(3.0, -3.25, -0.5)
WORSE = 3
# Parts that the trajectories are divided into; each is held out once.
FOLDS = 4
# Projected gradient to reach, steps to take, where only a prediction is wanted; and the tolerance
# of values, finer: else the loss is not seen to fall any more before the gradient is reached.
ROUGHLY, BRIEFLY, FINE = 1e-7, 60, 1e-9
# Features that one sentence lists.
NAMED = 6


class Choice(NamedTuple):
    """How the strength of a prior was chosen."""

    strength: float  # NaN without a prior
    tried: np.ndarray  # [n] strengths; empty where it was given
    held_out: np.ndarray  # [n] mean log-likelihood of a step held out
    random: float  # the same of random actions


def penalty_of(prior: Ridge | Smooth, mdp: MDP, design: Design) -> csr_array:
    """[D, D] the penalty of a prior of strength one."""
    from scipy.sparse import block_diag, csr_array, eye_array

    if isinstance(prior, Ridge):
        return csr_array(eye_array(design.size))
    rough, blocks = prior.roughness(mdp), []
    for part in design.parts:
        by_state = part
        if part.shape[0] != mdp.states:  # pairs: what the actions of a state pay on average
            by_pair = part.reshape(*design.shape, -1) * uniform_policy(mdp)[:, :, None]
            by_state = by_pair.sum(axis=1)
        blocks.append(csr_array(by_state.T @ csr_array(rough @ by_state)))
    return csr_array(block_diag(blocks, format="csr"))


def choose_strength(
    options: Likelihood, mdp: MDP, design: Design, demonstrations: Observed, penalty: csr_array
) -> Choice:
    """The strength under which trajectories that are held out are likeliest.

    Every part of the trajectories is held out once. The fits go from the strongest to weaker ones,
    each begun where the last one ended.
    """
    if not isinstance(demonstrations, Demonstrations) or demonstrations.episodes < 2:
        raise InvalidModel(
            "the strength of a prior is chosen by trajectories held out, of which two or more must "
            f"be in memory; got {demonstrations!r:.60}: give the strength, as in "
            f"{type(options.prior).__name__}(strength=1.0)"
        )
    episodes, bounds = demonstrations.episodes, Bounds.of(design, options)
    folds = min(FOLDS, episodes)
    part = np.random.default_rng(options.seed).permutation(episodes) % folds
    kept = [demonstrations.select(np.flatnonzero(part != k)).counts(mdp) for k in range(folds)]
    held = [demonstrations.select(np.flatnonzero(part == k)).counts(mdp) for k in range(folds)]
    starts: list[Place | None] = [None] * folds
    found: list[float] = []
    for strength in STRENGTHS:
        total = 0.0
        for k in range(folds):
            loss = Loss.of(mdp, design, kept[k], bounds=bounds, penalty=strength * penalty)
            near = starts[k]
            place = begin(loss, FINE) if near is None else loss.at(near.x, near.values, FINE)
            end = descend(
                loss, place, tolerance=FINE, aim=ROUGHLY, max_steps=BRIEFLY, stage="strength"
            )
            starts[k] = end.place
            total += action_log_likelihoods(held[k], end.place.policy, mdp.choices)[0]
        found.append(total / demonstrations.steps)
        if len(found) - 1 - int(np.argmax(found)) >= WORSE:
            break
    return Choice(
        strength=float(STRENGTHS[int(np.argmax(found))]),
        tried=STRENGTHS[: len(found)],
        held_out=np.array(found),
        random=-random_loss(sum(held), mdp.choices) / demonstrations.steps,  # pyright: ignore
    )


def maximise_many(
    options: Likelihood, mdp: MDP, features: Features, demonstrations: Observed
) -> Recovery:
    """The recovery of the likeliest parameters under the prior, if there is one."""
    if options.lapses is not False:
        raise InvalidModel(
            "a fit with a prior, or of more than 200 features (fewer in very many states), knows "
            f"no lapses: leave lapses out; got lapses={options.lapses}"
        )
    design, counts = Design.of(mdp, features), tally_of(mdp, demonstrations).counts
    prior, penalty, bounds = options.prior, None, Bounds.of(design, options)
    choice = Choice(np.nan, np.zeros(0), np.zeros(0), np.nan)
    if isinstance(prior, Ridge | Smooth):
        unit = penalty_of(prior, mdp, design)
        choice = (
            choose_strength(options, mdp, design, demonstrations, unit)
            if prior.strength is None
            else choice._replace(strength=float(prior.strength))
        )
        penalty = choice.strength * unit
    loss = Loss.of(mdp, design, counts, bounds=bounds, penalty=penalty)
    near = None
    if bounds.start is not None:
        near = loss.at(bounds.start, np.zeros(mdp.states), options.tolerance)

    def within(fitted: Ended, upper: np.ndarray) -> Ended:
        return minimised(replace(fitted.loss, upper=upper), options, fitted.descent.place)

    full = minimised(loss, options, near)
    goodness = goodness_of_many(demonstrations, full, options)
    robust = not goodness.adequate
    asked = (demonstrations, full, options, within)
    kept, verdict = many_without_idle_constraints(*asked, robust=robust)
    prices = [kept.descent.place.x[block].max(initial=0.0) for block in design.blocks[1:]]
    told = verdict_findings(verdict, np.array(prices), robust=robust)
    found = _estimate(options, features, demonstrations, kept, choice, verdict, told, goodness)
    return recovery(described(options), mdp, features, demonstrations, found)


def _estimate(
    options: Likelihood,
    features: Features,
    demonstrations: Observed,
    ended: Ended,
    choice: Choice,
    verdict: Verdict,
    told: list[Finding],
    goodness: Goodness,
) -> Estimate:
    """The `Estimate` of a fit; what is `told` of its constraints is among the findings."""
    loss, fitted = ended.loss, ended.fit(options.tolerance)
    mdp, design, place = loss.mdp, loss.design, ended.descent.place
    reached = visitation(mdp, outside_policy(mdp, place.policy))
    spent = pull_back(features, reached)
    known, standard = None, standard_of(mdp, features)
    if fitted.converged and not ended.boundless:
        unit = None if standard.uniform else standard.stacked
        known = Posterior.of(ended, fitted, reached, unit)
    if known is not None and known.scaled is not None:
        standard = standard.knowing(known.scaled.identification(design, verdict=verdict))
    gauge = (
        Gauge.of(design, place.x, sums_as_given(design, reached)) if known is None else known.gauge
    )
    seen = expectations_from_start(mdp, features, demonstrations)
    convex = bool(loss.start[~mdp.ends].min(initial=0.0) >= -1e-9 * loss.seen.sum())
    gap = np.nan
    if convex and fitted.converged:
        step, *_ = curvature(loss, place).inverse_times(place.gradient, fitted.free, share=0.1)
        gap = 0.5 * float(place.gradient @ step)
    before = np.full(len(choice.tried), np.nan)
    nothing = np.full((design.size + 2 * design.constraints, 2), np.nan)
    bounds = Bounds.of(design, options)
    findings = (
        *told,
        *bound_findings(bounds, design, place.x),
        *_prior_findings(options.prior, choice),
        *_silent_findings(loss, known),
        *_method_findings(ended, fitted, known, convex=convex),
        *([] if seen is None else guarantee_findings(seen, spent, standard.deviations)),
    )
    ends, spread = (nothing, nothing[:, 0]) if known is None else (known.ends, known.spread)
    off = values_off(design, place.x, mdp.discount)
    estimate = estimate_of(features, fitted, gauge, reached, off=off)
    return replace(
        estimate,
        deterministic=ended.boundless,
        proven=convex,
        seen=seen,
        certificate={**estimate.certificate, "objective_gap": gap},
        history={
            "strength": np.append(choice.tried, choice.strength),
            "held_out": np.append(choice.held_out, np.nan),
            "loss": np.append(before, place.loss),
            "evaluations": np.append(before, ended.descent.steps),
        },
        known=Numbers(gauge, ends, spread).identification(
            design,
            verdict=verdict,
            answer=None if known is None else known.answer,
            dynamics=None if known is None else known.dynamics,
        ),
        parameters=coefficients(features, design, fitted, known, bounds.given),
        findings=findings,
        goodness=goodness,
        standard=standard,
    )


def _prior_findings(prior: Ridge | Smooth | Sparse | None, choice: Choice) -> list[Finding]:
    """That the estimates are penalised, how strongly, and what chose the strength."""
    if not isinstance(prior, Ridge | Smooth):  # a sparse one is never of many features
        return []
    what = (
        "pulls every weight towards 0"
        if isinstance(prior, Ridge)
        else "pulls what neighbouring states pay towards each other"
    )
    said = f"A {prior} prior of strength {choice.strength:g} {what}: estimates are penalised"
    if not len(choice.tried):
        return [Finding(f"{said}.", Kind.ASSUMED, number=choice.strength)]
    best = float(choice.held_out.max())
    said += (
        f". Trajectories held out chose it among {len(choice.tried)} strengths from "
        f"{choice.tried[-1]:g} to {choice.tried[0]:g}: {best:.4g} log-likelihood a step, random "
        f"actions {choice.random:.4g}."
    )
    findings = [Finding(said, Kind.ASSUMED, number=choice.strength)]
    if not best > choice.random:
        said = (
            "No strength of the prior predicts held-out trajectories better than random actions: "
            "these demonstrations are too few to tell what is wanted."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, number=best - choice.random))
    return findings


def _silent_findings(loss: Loss, known: Posterior | None) -> list[Finding]:
    """Features that mean nothing, a constant that changes nothing, and what steps do not tell."""
    design, size, findings = loss.design, loss.design.size, []
    empty = [design.names[j] for j in np.flatnonzero(design.empty)]
    if empty:
        what = "is the same everywhere: it" if len(empty) == 1 else "are the same everywhere: they"
        said = f"{listed(empty, NAMED)} {what} cannot influence anything."
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, feature=empty[0], number=len(empty)))
    if not loss.mdp.ends.any() and design.constant is not None:
        said = (
            "These features can add the same number to the reward of every state, which changes "
            "nothing that anybody does: reward weights are identified up to such a constant, and "
            "those given are one choice of it."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED))
    if known is not None and known.blind:
        said = (
            f"{known.blind} of {size} directions of the weights change nothing in the states that "
            "were visited, and no prior speaks of them: their intervals are infinite."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, number=known.blind))
    if known is not None and loss.penalty is not None and np.isfinite(known.effective):
        said = (
            f"The demonstrations determine as much as {known.effective:.3g} of {size} weights, the "
            "prior the rest."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, number=known.effective))
    return findings


def _method_findings(
    ended: Ended, fitted: Fit, known: Posterior | None, *, convex: bool
) -> list[Finding]:
    """What the optimum and the error bars rest on."""
    findings = []
    if not convex:
        said = (
            "The likelihood is not certain to be convex at these counts: the optimum is a local "
            "one, sought from weights 0."
        )
        findings.append(Finding(said, Kind.LOCAL_OPTIMUM))
    if ended.boundless:
        said = (
            "The likelihood has no maximum: larger parameters are always likelier, as they are "
            f"where there are many features and few steps. A ridge of {RESCUE:g} on scaled "
            "features was added, on which the answer depends. No intervals are given: "
            "Likelihood(prior=tacit.features.Ridge()) chooses a prior that predicts."
        )
        return [*findings, Finding(said, Kind.DETERMINISTIC, number=RESCUE)]
    if not fitted.converged or known is None:
        said = "The search stopped before its tolerance was met: no error bars are given."
        return [*findings, Finding(said, Kind.NOT_CONVERGED)]
    said = "Standard errors treat steps as independent"
    if ended.loss.penalty is not None:
        said += (
            " and are those of the posterior law, the strength of the prior taken as known: "
            "intervals hold on average over weights that the prior would draw, not for each"
        )
    if not len(known.precision):
        said += (
            ". With so many features no table of intervals is made: identification.interval "
            "answers for any direction that is asked"
        )
    said += ". AIC and BIC count every feature."
    findings.append(Finding(said, Kind.ERRORS))
    return [*findings, *([] if known.dynamics is None else dynamics_findings(known.dynamics))]
