"""What a fit gives: the one report of a noisy expert, as an `Estimate`, from what was seen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.estimators.assembly import Estimate, objective_of
from tacit.estimators.strength import Strength, prior_findings
from tacit.forward.solution import Solution, conclude
from tacit.inference.activity import Verdict
from tacit.inference.delta_method import DeltaMethod
from tacit.inference.diagnostics import Goodness
from tacit.inference.evidence import TOO_MANY, Evidence, method_findings, parameter_findings
from tacit.inference.expectations import pull_back
from tacit.inference.findings import (
    Finding,
    Kind,
    guarantee_findings,
    more_data_findings,
    selection_findings,
    undecided_findings,
)
from tacit.inference.gauge import Gauge
from tacit.inference.gauged_intervals import Numbers, OwnFit, numbers_of
from tacit.inference.idle_constraints import verdict_findings
from tacit.inference.information import Chosen, delta_method
from tacit.inference.known import (
    MANY,
    bound_findings,
    given_temperature_findings,
    temperature_findings,
    zero_findings,
)
from tacit.inference.parameters import Parameters
from tacit.inference.questions import AskedByProducts
from tacit.inference.sets import never_incurred, unmeasured
from tacit.inference.standardised import standard_of
from tacit.likelihood.problem import Fit
from tacit.likelihood.protocol import ChainEvidence
from tacit.likelihood.start import Bounds
from tacit.model.features.design import values_off
from tacit.model.objective import Features, coefficient_names

if TYPE_CHECKING:
    from tacit.estimators.likelihood import Likelihood
    from tacit.estimators.setting import Setting

# Most coefficients whose errors are kept as tables [D, D].
TABLED = 1000


def point_of(
    features: Features, fitted: Fit, gauge: Gauge, solution: Solution | None = None
) -> Estimate:
    """The `Estimate` of a fit in the gauge, of which is still to be said how well it is known."""
    return Estimate(
        objective=objective_of(features, gauge),
        solution=solution,
        reward_weights=gauge.reward_weights,
        cost_weights=gauge.cost_weights,
        multipliers=gauge.multipliers,
        temperature=gauge.temperature,
        converged=fitted.converged,
        history={"loss": [fitted.loss], "evaluations": [fitted.steps]},
        certificate={"projected_gradient": fitted.projected_gradient},
    )


def solution_of(
    features: Features,
    fitted: Fit,
    gauge: Gauge,
    reached: np.ndarray,
    *,
    own: ChainEvidence | None = None,
    e: int = 0,
) -> Solution:
    """The `Solution` of chain e of a fit.

    Nothing is solved again: `reached` [S, A] is the visitation of the fitted policy, and
    temperature * values of the fit are the values at that temperature. Of several kinds of
    demonstrators, `own` is what is known of this one.
    """
    chain, part = fitted.problem.chains[0], fitted.parts[0]
    if own is not None:
        chain, part = own.chain, own.part
    off = values_off(chain.space, fitted.x(e), chain.discount)
    return conclude(
        chain.mdp,
        objective_of(features, gauge),
        reached,
        gauge.temperature * (part.values + off),
        gauge.multipliers,
        tolerance=1e-6,
        temperature=gauge.temperature,
        policy=part.policy,
        iterations=fitted.steps,
    )


def estimate_of(
    options: Likelihood,
    setting: Setting,
    *,
    full: Evidence,
    reduced: Evidence,
    verdict: Verdict,
    goodness: Goodness,
    unknown: Fit | None = None,
    strength: Strength | None = None,
    e: int = 0,
) -> Estimate:
    """The `Estimate` of chain e of a fit with the evidence `reduced`; `full` has all constraints.

    All errors and intervals are those of `full`: what was left out was chosen by the same data. A
    fit that does not know the temperature is `unknown`, where it was given; `strength` is that of a
    prior.
    """
    fitted, gauge, own, features = (
        reduced.fitted,
        reduced.gauge(e),
        reduced.chains[e],
        setting.features,
    )
    chain, x, rows = own.chain, fitted.x(e), fitted.problem.ties.rows[e]
    space, weigh = chain.space, chain.squares is not None
    chosen = Chosen.of(verdict.p_values, gauge.multipliers, options.level)
    numbers = numbers_of(full, e, features=features, chosen=chosen).reported(gauge)
    standard, scaled = standard_of(setting.mdp, features), numbers
    if not standard.uniform:
        unit = standard.stacked
        scaled = numbers_of(full, e, features=features, chosen=chosen, unit=unit)
        scaled = scaled.reported(reduced.gauge(e, unit=unit))
        standard = standard.knowing(scaled.identification(space, verdict=verdict))
    point, bounds = setting.point(reduced, e), Bounds.of(space, options)
    weights, clustered = scaled.ends[: space.size], full.errors.clustered
    weights = np.where(space.in_curve[:, None], np.nan, weights)  # these have bands
    findings = [
        *constraint_findings(reduced, verdict, chosen, e, misfit=not weigh),
        *([] if strength is None else prior_findings(strength, full, e)),
        *bound_findings(bounds, space, x, reduced.free[rows]),
        *parameter_findings(reduced, e),
        *setting.findings(reduced, e),
        *method_findings(full),
        *(
            temperature_findings(full, OwnFit.of(full, e), unknown, e)
            if unknown
            else given_temperature_findings(fitted, e)
        ),
        *(zero_findings(full, e) if (full.fitted.x(e) == 0.0).sum() >= MANY else []),
        *more_data_findings(list(space.names), weights, setting.seen, clustered),
    ]
    if point.seen is not None and not weigh:
        reached = pull_back(features, own.reached)
        findings += guarantee_findings(point.seen, reached, standard.deviations)
    lost = bool(verdict.absence) and full.boundless
    known = numbers.identification(
        space,
        verdict=verdict if full.unregularised.converged and not lost else None,
        dynamics=full.dynamics[e] if full.dynamics else None,
        answer=answer_of(full, gauge, x, numbers, e),
    )
    found = filled(point, features, full, reduced, e, given=bounds.given, strength=strength)
    return replace(found, known=known, findings=findings, goodness=goodness, standard=standard)


def filled(
    point: Estimate,
    features: Features,
    full: Evidence,
    reduced: Evidence,
    e: int = 0,
    *,
    given: np.ndarray,
    strength: Strength | None = None,
) -> Estimate:
    """The `point` of chain e of a fit, with what its evidence says of coefficients and costs.

    Coefficients that are `given` [D] bool were fixed beforehand.
    """
    fitted, chain = reduced.fitted, reduced.chains[e].chain
    gap = fitted.objective_gap if fitted.problem.proven else np.nan
    return replace(
        point,
        deterministic=reduced.boundless,
        proven=fitted.problem.proven,
        history=point.history if strength is None else strength.history(fitted),
        certificate={**point.certificate, "objective_gap": gap},
        parameters=coefficients_of(features, full, fitted, e, given=given),
        **never_incurred(chain.space, reduced.own_limits(e), chain.at_starts),
        spending=full.spending(features, point.seen, e) if point.solution else None,
    )


def answer_of(
    full: Evidence, gauge: Gauge, x: np.ndarray, numbers: Numbers, e: int
) -> DeltaMethod | None:
    """What answers linear questions about chain e of a fit at x [D]; None where nothing does."""
    if full.fitted.converged and not full.boundless and not full.written:
        return AskedByProducts.of(full.fitted, gauge)
    if full.absence:
        return None
    own = full.chains[e]
    law, blind = own.inner @ full.errors.covariance @ own.inner.T, full.errors.blind @ own.inner.T
    return delta_method(own.chain.space, x, gauge, law, blind, numbers.ends)


def constraint_findings(
    evidence: Evidence,
    verdict: Verdict,
    chosen: Chosen | None = None,
    e: int = 0,
    *,
    misfit: bool = True,
) -> list[Finding]:
    """Which constraints were shown to restrain the demonstrator, and which of them barely.

    `misfit` says that robust evidence is so because the model does not fit, not for weights.
    """
    gauge = evidence.gauge(e)
    # A search that found no maximum has tested nothing, even where a ridge then gave a point.
    lost = bool(verdict.absence) and evidence.boundless
    tested = evidence.fitted.converged and evidence.unregularised.converged and not lost
    misfit &= evidence.robust
    findings = verdict_findings(verdict, gauge.multipliers, converged=tested, robust=misfit)
    if tested and chosen is not None:
        findings += selection_findings(chosen)
        findings += undecided_findings(chosen, verdict.unadjusted, verdict.if_dynamics_known)
    if np.isnan(gauge.reward_weights).any():
        said = (
            "The reward is not identified: the demonstrations are explained without it. Prices are "
            "in units of the temperature."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED))
    return findings


def bounds_of(
    lower: np.ndarray, upper: np.ndarray, scales: np.ndarray, given: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """[D] smallest and largest coefficients allowed, None where none is the largest.

    Those that are `given` [D] bool have none: no test or interval of theirs meets a bound.
    """
    lower = np.where(given | np.isinf(lower), -np.inf, lower) / scales
    upper = np.where(given | np.isinf(upper), np.inf, upper) / scales
    return lower, None if np.isinf(upper).all() else upper


def coefficients_of(
    features: Features,
    evidence: Evidence,
    kept: Fit,
    e: int = 0,
    *,
    given: np.ndarray | None = None,
) -> Parameters:
    """The coefficients of chain e of the fit `kept`, with the errors of the one with all.

    Those that are `given` [D] bool were fixed beforehand: they have no error.
    """
    space, fitted, found = evidence.chains[e].chain.space, evidence.fitted, evidence.errors
    problem, ties, known = fitted.problem, fitted.problem.ties, fitted.known(e)
    names = coefficient_names(features.reward_names, features.cost_names)
    given = np.zeros(space.size, bool) if given is None else given
    points = kept.x(e) / space.scales
    least, most = (ties.own_bounds(e, fitted.z, end) for end in (problem.lower, fitted.upper))
    # A constraint that was dropped is on its bound like any other cost without a price.
    most = np.where(most > least, most, np.inf)
    lower, upper = bounds_of(least, most, space.scales, given)
    absence = evidence.absence or (TOO_MANY if space.size > TABLED else "")
    if absence:
        return unmeasured(names, points, lower=lower, absence=absence)
    if (norm := fitted.norm(e)) is not None:
        # None is more than all of the reward; a hair above, where one is all of it, is no bound.
        whole = np.where(norm.matrix[0] != 0, norm.values[0] * (1.0 + 1e-12), np.inf)
        upper = whole if upper is None else np.minimum(upper, whole)
    moves = problem.movable | (fitted.z == 0.0)
    if len(evidence.chains) == 1:
        moves[:] = True
        moves[ties.rows[e][given]] = False
    inner = np.where(given[:, None], 0.0, evidence.chains[e].inner) / space.scales[:, None]

    def among(matrix: np.ndarray) -> np.ndarray:
        return matrix[moves][:, moves]

    noise, nothing = evidence.noise, np.full(evidence.fisher.shape, np.nan)
    small = found.small
    sure = fitted.informed(evidence.fisher)
    return Parameters(
        names=names,
        estimates=points,
        jacobian=inner[:, moves],
        information=among(sure),
        outer=among(fitted.informed(evidence.outer)),
        scatter=among(nothing if found.clusters is None else found.clusters.products),
        gradient=fitted.gradient[moves],
        free=evidence.free[moves],
        lower=lower,
        limits=evidence.own_limits(e) / space.scales,
        trajectories=0 if found.clusters is None else found.clusters.episodes,
        errors="clustered" if found.clustered else "sandwich" if evidence.robust else "fisher",
        unrestricted=None if kept is fitted else fitted.x(e) / space.scales,
        conditions=0 if known is None else len(known.values),
        upper=upper,
        weighted=evidence.chains[e].chain.squares is not None,
        dynamics=None if noise is None else among(noise.added_scatter()),
        attenuation=1.0 if noise is None else noise.attenuation,
        student=None if small is None else small.degrees(evidence.chains[e].inner),
        prior=among(sure - fitted.conditioned(evidence.fisher)),
    )
