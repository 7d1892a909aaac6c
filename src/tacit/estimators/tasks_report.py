"""What is reported of several tasks: of each by itself, and of what all of them have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.data.observed import Observed
from tacit.estimators.estimate import filled
from tacit.estimators.joint_recovery import agreement_findings, shared_numbers
from tacit.estimators.setting import StepsSetting, chain_goodness
from tacit.estimators.strength import prior_findings
from tacit.inference.activity import Verdict
from tacit.inference.diagnostics import Goodness, Identification, untested
from tacit.inference.dynamics_noise import dynamics_findings
from tacit.inference.evidence import Evidence, evidence_of
from tacit.inference.findings import Finding, Kind, blind_findings, chance, feature_findings
from tacit.inference.gauged_intervals import Numbers, numbers_of
from tacit.inference.idle_constraints import level_findings, verdict_findings
from tacit.inference.known import bound_findings, given_temperature_findings
from tacit.inference.sets import unidentified
from tacit.inference.standardised import Standard
from tacit.inference.tails import holm
from tacit.likelihood.problem import Fit
from tacit.likelihood.rescue import RESCUE
from tacit.likelihood.start import Bounds
from tacit.recovery import Recovery

if TYPE_CHECKING:
    from tacit.estimators.tasks import SharedLikelihood, Task, TaskFits


def goodness_of_tasks(
    alone: Fit, seen: Sequence[Observed], *, level: float, seed: int
) -> list[Goodness]:
    """Whether the model fits each task, its p-value adjusted for all tasks by Holm's method.

    Asked of every task's own fit: whether they share what they are told to is another test.
    """
    if not alone.converged:
        return [untested("the search did not converge") for _ in seen]
    tests = [
        chain_goodness(own, alone, observed, level, seed, e)
        for e, (own, observed) in enumerate(zip(alone.evidence(seen), seen, strict=True))
    ]
    tested = [one for one in tests if not one.absence]
    adjusted = iter(holm([one.p_value for one in tested]).tolist())
    tests = [one if one.absence else replace(one, p_value=next(adjusted)) for one in tests]
    return [replace(one, adequate=bool(one.absence) or one.p_value > one.level) for one in tests]


def numbers_of_tasks(
    found: TaskFits,
    evidence: Evidence,
    seen: Sequence[Observed],
    units: Sequence[np.ndarray] | None = None,
) -> list[Numbers]:
    """The `Numbers` of every task, its features divided by its `units` [D]."""
    each = list(enumerate([None] * len(seen) if units is None else units))
    numbers = [numbers_of(evidence, e, unit=unit) for e, unit in each]
    if not any((one.gauge.multipliers == 0).any() for one in numbers):
        return numbers
    # How large a price may be that was not shown to be paid: ask the fit that has it.
    alone = evidence_of(seen, found.alone, 0, robust=evidence.robust)
    others = [numbers_of(alone, e, unit=unit) for e, unit in each]
    return [_completed(one, other) for one, other in zip(numbers, others, strict=True)]


def task_recovery(
    options: SharedLikelihood,
    task: Task,
    found: TaskFits,
    numbers: Numbers,
    evidence: Evidence,
    goodness: Goodness,
    standard: Standard,
    e: int,
) -> Recovery:
    """The task's own `Recovery`, its weights those of all tasks together."""
    space, joint = evidence.chains[e].chain.space, found.joint
    setting = StepsSetting(task.mdp, task.features, task.demonstrations)
    dynamics = evidence.dynamics[e] if evidence.dynamics else None
    # An untested size has the p-value of its constraint.
    sizes = found.sizes[:, e]
    p_values = np.where(np.isnan(sizes), found.verdict.p_values, sizes)
    verdict = Verdict.of(p_values, options.likelihood.level)
    bounds, strength = Bounds.of(space, options.of_task(task)), found.strengths[e]
    point = setting.point(evidence, e)
    about = {"given": bounds.given, "strength": strength}
    estimate = replace(
        filled(point, task.features, evidence, evidence, e, **about),
        converged=found.alone.converged and joint.converged,
        deterministic=bool(found.boundless[e]),
        known=numbers.identification(space, verdict=verdict, dynamics=dynamics),
        standard=standard,
        findings=[
            *_idle_findings(found, numbers.gauge.multipliers, p_values),
            *level_findings(verdict),
            *bound_findings(bounds, space, joint.x(e)),
            *([] if strength is None else prior_findings(strength, evidence, e)),
            *([] if dynamics is None else dynamics_findings(dynamics)),
        ],
        goodness=goodness,
    )
    return setting.recovery(f"{options!r}, task {e} of {len(found.chains)}", estimate, evidence, e)


def _idle_findings(found: TaskFits, multipliers: np.ndarray, p_values: np.ndarray) -> list[Finding]:
    """What is said of the constraints that do not restrain a task, and of those that do."""
    findings = []
    for k in np.flatnonzero((multipliers == 0) & ~np.isnan(p_values)).tolist():
        said = (
            f"Constraint {k} is not identified in this task: its demonstrations do not show that "
            f"it restrains the expert ({chance(p_values[k])} if it does not)."
        )
        findings.append(Finding(said, Kind.INACTIVE, constraint=k, number=float(p_values[k])))
    if len(found.chains) > 1 and multipliers.any():
        findings.append(Finding("Cost weights are those of all tasks together."))
    return findings


def _completed(own: Numbers, other: Numbers) -> Numbers:
    """The same, with the prices of idle constraints at most what another fit allows."""
    ends, spread = own.ends.copy(), own.spread.copy()
    count = len(own.gauge.multipliers)
    prices = len(ends) - 2 * count + np.flatnonzero(own.gauge.multipliers == 0)
    top = other.ends[prices, 1]
    ends[prices, 0], ends[prices, 1] = 0.0, np.where(np.isnan(top), np.inf, top)
    ends[prices + count] = (np.nan, np.inf)
    spread[prices] = np.nan
    return Numbers(own.gauge, ends, spread)


def what_is_shared(
    options: SharedLikelihood,
    found: TaskFits,
    recoveries: Sequence[Recovery],
    findings: list[Finding],
) -> Identification:
    """What is known of the weights that the tasks share, as a task knows it that pays for it."""
    speakers, verdict = (found.joint.problem.ties.leaders[0], *found.speakers), found.verdict
    shared = shared_numbers(recoveries, speakers, reward=options.share_reward)
    active, costs = found.restrained.any(axis=1), shared["cost_standard_errors"]
    return replace(
        unidentified(np.empty(0), costs, active=active, findings=findings),
        **shared,
        p_values=verdict.p_values,
        unadjusted=verdict.unadjusted,
        sets=verdict.sets,
        selection=verdict.selection,
        at_level=() if verdict.at_level is None else verdict.at_level,
    )


def joint_findings(found: TaskFits, evidence: Evidence, first: Task) -> list[Finding]:
    """What all tasks together say."""
    names = found.joint.problem.ties.names
    findings = [*_activity_findings(found), *agreement_findings(found.agreement)]
    for j in np.flatnonzero(np.isfinite(evidence.limits)):
        said = (
            f"{names[j]} is forbidden: its cost was never incurred although the reward pulls "
            "there, so the demonstrations set a lower limit on its weight and no upper one."
        )
        findings.append(Finding(said, Kind.FORBIDDEN, feature=names[j]))
    findings += given_temperature_findings(found.joint)
    findings += blind_findings(names, evidence.errors.blind)
    findings += feature_findings(first.features, first.mdp)
    if found.joint.problem.bilinear:
        said = (
            "Directions and sizes are fitted together, which is convex in each but not in both: "
            "the optimum is the best one found from the directions of the tasks."
        )
        findings.append(Finding(said, Kind.LOCAL_OPTIMUM))
    if found.boundless.any():
        which = ", ".join(str(e) for e in np.flatnonzero(found.boundless))
        said = (
            f"The expert looks deterministic in task {which}: the likelihood has no maximum, since "
            f"larger parameters are always likelier. A ridge of {RESCUE:g} on scaled features was "
            "added there, on which the scale of the answer depends, and no intervals are given."
        )
        return [*findings, Finding(said, Kind.DETERMINISTIC)]
    unit, count = evidence.errors.unit, len(found.chains)
    said = f"Standard errors take the {unit} of all {count} tasks as independent units."
    return [*findings, Finding(said, Kind.ERRORS)]


def _activity_findings(found: TaskFits) -> list[Finding]:
    """Which constraints restrain the expert, and which tasks say nothing about them."""
    prices = np.array([one.max(initial=0.0) for one in found.restrained.astype(float)])
    about = {"converged": found.alone.converged, "robust": found.robust}
    findings = verdict_findings(found.verdict, prices, **about)
    for k in np.flatnonzero(prices > 0):
        for e in np.flatnonzero(~found.restrained[k]):
            own = float(found.sizes[k, e])
            said = (
                f"Task {e} says nothing about constraint {k}: it is not shown to restrain the "
                f"expert there ({chance(own)} if it does not)."
            )
            findings.append(Finding(said, Kind.NOT_IDENTIFIED, constraint=int(k), number=own))
    return findings
