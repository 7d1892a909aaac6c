"""The one assembly of a result: what an estimator found becomes a `Recovery`.

What is the same for all of them is made here: the status from facts, the certificate, likelihoods,
units, and the findings on the fit and on the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tacit.data.observed import Observed
from tacit.data.tally import counts_of
from tacit.forward.solution import Solution
from tacit.inference.curves import Curve
from tacit.inference.diagnostics import Goodness, Identification
from tacit.inference.expectations import (
    Blocks,
    Expectations,
    Spending,
    action_log_likelihoods,
    are_weighted,
    expectations_from_start,
    pull_back,
)
from tacit.inference.findings import Finding, Kind, data_findings
from tacit.inference.gauge import Gauge
from tacit.inference.parameters import Parameters
from tacit.inference.sets import HardConstraint, Lapses, unidentified, unmeasured
from tacit.inference.standardised import Standard, standard_of
from tacit.likelihood.problem import Fit
from tacit.model.mdp import MDP
from tacit.model.objective import Features, Objective, coefficient_names
from tacit.recovery import (
    NO_PARAMETERS,
    UNTESTED,
    History,
    Recovery,
    RecoveryCertificate,
    RecoveryStatus,
    Several,
    status_of,
    worst_of,
)

Result = TypeVar("Result", bound=Recovery)
Whole = TypeVar("Whole", bound=Several)


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimate:
    """What an estimator found; what it leaves out is as for a method of points, without error bars.

    Attributes:
        objective: what was found, as tables; None where there are no states.
        solution: of it, by the estimator's own model; None where there is more than one policy.
        reward_weights: [D] in the gauge; None where the answer is a table, not weights.
        cost_weights: one [D_k] per constraint of the objective; None where there are none.
        cost_names: of the features of these constraints; None for those offered.
        multipliers: [K]; None for those of the solution.
        budgets: [K]; None for those of the objective.
        temperature: the demonstrator's noise; None for that of the solution.
        converged: whether the method's own tolerance is met.
        deterministic: whether no finite point is the best, because no noise is seen.
        unattainable: whether no policy has the demonstrations' expectations.
        unexplained: whether no objective makes the demonstrations the best.
        proven: whether the optimum is the global one.
        findings: of the method; those about the fit and the data are added.
        forbidden: what was found to be.
        undecided: what may or may not be forbidden.
        history: name -> one number an iteration.
        certificate: further fields of `RecoveryCertificate`.
        seen: expectations of the demonstrations; None for those that begin at the start, if any.
        reached: expected discounted sums of the features; None for those of the solution.
        known: intervals and errors; None where there are points only.
        standard: the units of standardised features, with what is known in them; None for units.
        parameters: the model's own coefficients; None for those that weights and noise make.
        curves: those among the features.
        goodness: whether the model fits.
        lapses: the share of random steps, where it was asked for.
        spending: what is spent of each cost feature; None where that is not known.
        counts: [S, A] the actions that likelihoods are about; None for all that were observed.
        log_likelihood: of these; None for that under the policy of the solution.
        null_log_likelihood: the same of actions at random; None for that of all available ones.
    """

    objective: Objective | None
    solution: Solution | None
    reward_weights: np.ndarray | None
    cost_weights: Sequence[np.ndarray] | None = None
    cost_names: tuple[tuple[str, ...], ...] | None = None
    multipliers: np.ndarray | None = None
    budgets: np.ndarray | None = None
    temperature: float | None = None
    converged: bool = True
    deterministic: bool = False
    unattainable: bool = False
    unexplained: bool = False
    proven: bool = True
    findings: Sequence[Finding] = ()
    forbidden: tuple[HardConstraint, ...] = ()
    undecided: tuple[HardConstraint, ...] = ()
    history: Mapping[str, npt.ArrayLike] = field(default_factory=dict)
    certificate: Mapping[str, float] = field(default_factory=dict)
    seen: Expectations | None = None
    reached: Blocks | None = None
    known: Identification | None = None
    standard: Standard | None = None
    parameters: Parameters | None = None
    curves: tuple[Curve, ...] = ()
    goodness: Goodness = UNTESTED
    lapses: Lapses | None = None
    spending: Spending | None = None
    counts: np.ndarray | None = None
    log_likelihood: float | None = None
    null_log_likelihood: float | None = None


def objective_of(features: Features, gauge: Gauge) -> Objective:
    """The tables of numbers in the gauge; what is not identified counts as 0."""
    costs = [w if np.isfinite(w).all() else np.zeros(len(w)) for w in gauge.cost_weights]
    return features.objective(np.nan_to_num(gauge.reward_weights), costs, gauge.budgets)


def recovery(
    estimator: str,
    mdp: MDP,
    features: Features,
    demonstrations: Observed | None,
    found: Estimate,
    *,
    result: Callable[..., Result] = Recovery,
) -> Result:
    """The recovery of what an estimator found.

    Args:
        estimator: the call that makes it.
        mdp: the world.
        features: what reward and costs may be made of.
        demonstrations: what was seen; None where nothing is said of the data.
        found: in them.
        result: the type of the answer, where it holds more than a `Recovery`.
    """
    found = _with_solution(found)
    if found.objective is not None and found.budgets is None:
        found = replace(found, budgets=found.objective.budgets)
    assert found.multipliers is not None
    assert found.temperature is not None
    cost_names = features.cost_names if found.cost_names is None else found.cost_names
    weights, costs, parameters = _weights(features, found, cost_names)
    own = found.cost_names is None  # units are of the features that were offered
    standard = found.standard or (standard_of(mdp, features) if own else None)
    known = found.known or unidentified(weights, costs, active=found.multipliers > 0)
    likely, null, steps = _likelihoods(mdp, demonstrations, found, found.temperature)
    return result(
        reward_weights=weights,
        cost_weights=costs,
        multipliers=found.multipliers,
        budgets=found.budgets,
        temperature=found.temperature,
        objective=found.objective,
        solution=found.solution,
        status=status_of(
            converged=found.converged,
            unattainable=found.unattainable,
            unexplained=found.unexplained,
            deterministic=found.deterministic,
            proven=found.proven,
        ),
        certificate=_certificate(mdp, features, demonstrations, found),
        history=History(found.history or {"loss": [-likely]}),
        identification=known.with_findings(
            [*_findings(mdp, demonstrations, found), *_curve_findings(features, found)]
        ),
        estimator=estimator,
        reward_names=features.reward_names,
        cost_names=cost_names,
        parameters=parameters,
        curves=found.curves,
        log_likelihood=likely,
        null_log_likelihood=null,
        observed_steps=steps,
        goodness=found.goodness,
        lapses=found.lapses,
        forbidden=found.forbidden,
        undecided=found.undecided,
        spending=found.spending,
        standard=standard,
    )


def several(
    kind: Callable[..., Whole],
    parts: Sequence[Recovery],
    fitted: Fit,
    *,
    converged: bool,
    proven: bool,
    history: Mapping[str, npt.ArrayLike],
    **own: Any,
) -> Whole:
    """The result of parts that were fitted together: its status is the worst, gaps are their means.

    Args:
        kind: the type of the result, such as `JointRecovery`.
        parts: the recoveries that it is made of.
        fitted: the fit of all of them.
        converged: whether its search ended.
        proven: whether the optimum is the global one.
        history: name -> one number an iteration.
        own: the fields that only this kind of result has, its parts among them.
    """
    status = worst_of(
        [status_of(converged=converged, proven=proven), *(one.status for one in parts)]
    )
    gaps = {  # root mean squares
        name: float(np.sqrt(np.mean([getattr(one.certificate, name) ** 2 for one in parts])))
        for name in ("feature_gap", "sampling_noise", "truncation")
    }
    gap = fitted.objective_gap if status is RecoveryStatus.CONVERGED else np.nan
    certificate = RecoveryCertificate(
        **gaps, projected_gradient=fitted.projected_gradient, objective_gap=gap
    )
    return kind(status=status, certificate=certificate, history=History(history), **own)


def _weights(
    features: Features, found: Estimate, cost_names: Sequence[Sequence[str]]
) -> tuple[np.ndarray, Sequence[np.ndarray], Parameters]:
    """Reward weights, cost weights and coefficients; NaN where there are none."""
    costs, parameters = found.cost_weights, found.parameters
    if costs is None:
        costs = [np.full(table.shape[-1], np.nan) for table in features.costs]
    if found.reward_weights is not None:
        return found.reward_weights, costs, NO_PARAMETERS if parameters is None else parameters
    labels = coefficient_names(features.reward_names, cost_names)
    nothing = np.full(len(labels), np.nan)
    absence = "there are no coefficients: the answer is a table, not weights of features"
    parameters = unmeasured(labels, nothing, lower=-np.inf, absence=absence)
    return np.full(features.reward.shape[-1], np.nan), costs, parameters


def _curve_findings(features: Features, found: Estimate) -> list[Finding]:
    """That curves are there and were not smoothed, where that is so."""
    if found.curves or not features.curves:
        return []
    said = (
        "Curves were not smoothed here, and have no bands: their parameters are those of a "
        "regression spline. Likelihood smooths them, of one demonstrator, without lapses and "
        "without a prior on weights."
    )
    return [Finding(said, Kind.ASSUMED)]


def _with_solution(found: Estimate) -> Estimate:
    """The estimate with prices and noise of its solution, where it has none of its own."""
    solution = found.solution
    if solution is None:
        return found
    prices, noise = found.multipliers, found.temperature
    return replace(
        found,
        multipliers=solution.multipliers if prices is None else prices,
        temperature=solution.temperature if noise is None else noise,
    )


def _certificate(
    mdp: MDP, features: Features, demonstrations: Observed | None, found: Estimate
) -> RecoveryCertificate:
    """How far what the policy collects is from what the demonstrations did."""
    seen, reached = found.seen, found.reached
    if seen is None and demonstrations is not None:
        seen = expectations_from_start(mdp, features, demonstrations)
    if reached is None and found.solution is not None:
        reached = pull_back(features, found.solution.visitation)
    return RecoveryCertificate.of(seen, reached or (), **found.certificate)


def _findings(mdp: MDP, demonstrations: Observed | None, found: Estimate) -> list[Finding]:
    """Those on the fit, of the method, and on the data."""
    findings = [*found.goodness.findings(), *found.findings]
    findings += [] if demonstrations is None else data_findings(mdp, demonstrations)
    return [*findings, *found.goodness.unseen_findings(findings)]


def _likelihoods(
    mdp: MDP, demonstrations: Observed | None, estimate: Estimate, temperature: float
) -> tuple[float, float, int]:
    """Log-likelihood of the observed actions, that of actions at random, and their number."""
    counts = estimate.counts
    if counts is None:
        counts = np.zeros(0) if demonstrations is None else counts_of(mdp, demonstrations)
    steps = round(counts.sum())
    if not temperature > 0 or (demonstrations is not None and are_weighted(demonstrations)):
        return np.nan, np.nan, steps
    likely, null = estimate.log_likelihood, estimate.null_log_likelihood
    if likely is None or null is None:
        assert estimate.solution is not None
        own = action_log_likelihoods(counts, estimate.solution.policy, mdp.choices)
        likely = own[0] if likely is None else likely
        null = own[1] if null is None else null
    return likely, null, steps
