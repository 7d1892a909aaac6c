"""What a fit gives: its point as an `Estimate`, and its coefficients with their errors."""

from __future__ import annotations

import numpy as np

from tacit.forward.solution import conclude
from tacit.inference.gauge import Gauge
from tacit.inverse.assembly import Estimate, objective_of
from tacit.inverse.noisy.evidence import TOO_MANY, Evidence
from tacit.inverse.parameters import Parameters
from tacit.inverse.sets import unmeasured
from tacit.likelihood.problem import Fit
from tacit.likelihood.protocol import ChainEvidence
from tacit.model.objective import Features, coefficient_names

# Most coefficients whose errors are kept as tables [D, D].
TABLED = 1000


def estimate_of(
    features: Features,
    fitted: Fit,
    gauge: Gauge,
    reached: np.ndarray,
    *,
    off: float,
    e: int = 0,
    own: ChainEvidence | None = None,
) -> Estimate:
    """The `Estimate` of chain e of a fit, of which is still to be said how well it is known.

    Nothing is solved again: `reached` [S, A] is the visitation of the fitted policy, and
    temperature * values of the fit are the values at that temperature. `off` was taken off all
    values with the features. Of several kinds of demonstrators, `own` is what is known of this one.
    """
    objective = objective_of(features, gauge)
    chain, part = fitted.problem.chains[e], fitted.parts[e]
    if own is not None:
        chain, part = own.chain, own.part
    solution = conclude(
        chain.mdp,
        objective,
        reached,
        gauge.temperature * (part.values + off),
        gauge.multipliers,
        tolerance=1e-6,
        temperature=gauge.temperature,
        policy=part.policy,
        iterations=fitted.steps,
    )
    return Estimate(
        objective=objective,
        solution=solution,
        reward_weights=gauge.reward_weights,
        cost_weights=gauge.cost_weights,
        converged=fitted.converged,
        history={"loss": [fitted.loss], "evaluations": [fitted.steps]},
        certificate={"projected_gradient": fitted.projected_gradient},
    )


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
    space, fitted, found = evidence.chains[e].chain.space, evidence.fitted, evidence.found
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
    if known is not None:
        # None is more than all of the reward; a hair above, where one is all of it, is no bound.
        upper = np.where(known.matrix[0] != 0, known.values[0] * (1.0 + 1e-12), np.inf)
    moves = problem.movable | (fitted.z == 0.0) if len(evidence.chains) > 1 else slice(None)
    inner = np.where(given[:, None], 0.0, evidence.chains[e].inner) / space.scales[:, None]

    def among(matrix: np.ndarray) -> np.ndarray:
        return matrix[moves][:, moves]

    noise, nothing = evidence.noise, np.full(evidence.fisher.shape, np.nan)
    return Parameters(
        names=names,
        estimates=points,
        jacobian=inner[:, moves],
        information=among(fitted.informed(evidence.fisher)),
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
        dynamics=None if noise is None else among(noise.added()),
        attenuation=1.0 if noise is None else noise.attenuation,
    )
