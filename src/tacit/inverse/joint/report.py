"""From the fits of several tasks to a `JointRecovery`: gauge, intervals, findings, status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.forward.visitation import visitation
from tacit.inverse.expectations import expectations, pull_back
from tacit.inverse.findings import Finding, Kind, chance, data_findings, feature_findings
from tacit.inverse.identification import Identification
from tacit.inverse.joint.errors import Numbers, Pooled, numbers_of, parameters_of, pooled
from tacit.inverse.joint.search import Search
from tacit.inverse.noisy.boltzmann import RESCUE, expert_solution
from tacit.inverse.noisy.inference import blind_findings
from tacit.inverse.parameters import coefficient_names
from tacit.inverse.recovery import (
    History,
    Recovery,
    RecoveryCertificate,
    RecoveryStatus,
    action_log_likelihoods,
)

if TYPE_CHECKING:
    from tacit.inverse.joint.tasks import JointRecovery, SharedLikelihood, Task

# Chance below which tasks are said to disagree on what they share.
DISAGREE = 0.01


def report(options: SharedLikelihood, tasks: Sequence[Task], found: Search) -> JointRecovery:
    """The `JointRecovery` of these fits."""
    from tacit.inverse.joint.tasks import JointRecovery

    seen = [task.demonstrations for task in tasks]
    told = pooled(found.stack, found.joint, seen)
    every = range(len(tasks))
    numbers = [numbers_of(found.stack, found.joint, told, e) for e in every]
    if any((one.gauge.multipliers == 0).any() for one in numbers):
        # How large a price may be that was not shown to be paid: ask the fit that has it.
        wide = pooled(found.stack, found.alone, seen)
        others = [numbers_of(found.stack, found.alone, wide, e) for e in every]
        numbers = [_completed(one, other) for one, other in zip(numbers, others, strict=True)]
    recoveries = [_recovery(options, tasks[e], found, numbers[e], told, e) for e in every]
    status = _status([one.status for one in recoveries])
    whole = found.joint.whole
    shared = _shared(options, found, recoveries)

    def together(name: str) -> float:
        return float(np.sqrt(np.mean([getattr(one.certificate, name) ** 2 for one in recoveries])))

    own = tuple(one.reward_weights for one in recoveries)
    return JointRecovery(
        tuple(recoveries),
        own[found.joint.link.leaders[0]] if options.share_reward else own,
        [recoveries[e].cost_weights[k] for k, e in enumerate(_speakers(found))],
        status,
        RecoveryCertificate(
            feature_gap=together("feature_gap"),
            sampling_noise=together("sampling_noise"),
            truncation=together("truncation"),
            projected_gradient=whole.projected_gradient,
            objective_gap=whole.objective_gap if status is RecoveryStatus.CONVERGED else np.nan,
        ),
        History(
            {
                "loss": [found.alone.loss, found.joint.loss],
                "evaluations": [found.alone.whole.steps, whole.steps],
            }
        ),
        replace(shared, findings=tuple(_findings(found, told, tasks[0]))),
        repr(options),
    )


def _recovery(
    options: SharedLikelihood, task: Task, found: Search, numbers: Numbers, told: Pooled, e: int
) -> Recovery:
    """The task's own `Recovery`, its weights those of all tasks together."""
    gauge, part = numbers.gauge, found.joint.parts[e]
    visits = visitation(task.mdp, part.point.policy)
    objective, solution = expert_solution(task.mdp, task.features, part, gauge, visits)
    counts = found.stack.steps[e].counts
    names = coefficient_names(task.features.reward_names, task.features.cost_names)
    gap = noise = truncation = np.nan
    whole = ~task.demonstrations.partial
    if whole.any():
        seen = expectations(task.mdp, task.features, task.demonstrations.select(whole))
        reached = pull_back(task.features, visits)
        gap, noise, truncation = seen.gap(reached), seen.noise, seen.relative_truncation
    return Recovery(
        gauge.reward_weights,
        gauge.cost_weights,
        gauge.multipliers,
        gauge.budgets,
        gauge.temperature,
        objective,
        solution,
        _task_status(found, e),
        RecoveryCertificate(
            feature_gap=gap,
            sampling_noise=noise,
            truncation=truncation,
            projected_gradient=found.joint.whole.projected_gradient,
        ),
        History({"loss": [part.point.loss], "evaluations": [part.steps]}),
        _identification(task, found, numbers, e),
        f"{options!r}, task {e} of {len(found.stack.steps)}",
        task.features.reward_names,
        task.features.cost_names,
        parameters_of(found.stack, found.joint, told, e, names),
        *action_log_likelihoods(counts, part.point.policy),
        int(counts.sum()),
    )


def _completed(one: Numbers, other: Numbers) -> Numbers:
    """The numbers, with the prices of idle constraints at most what another fit allows."""
    ends, spread = one.ends.copy(), one.spread.copy()
    count = len(one.gauge.multipliers)
    idle = np.flatnonzero(one.gauge.multipliers == 0)
    prices = len(ends) - 2 * count + idle
    top = other.ends[prices, 1]
    ends[prices, 0], ends[prices, 1] = 0.0, np.where(np.isnan(top), np.inf, top)
    ends[prices + count] = (np.nan, np.inf)
    spread[prices] = np.nan
    return Numbers(one.gauge, ends, spread)


def _identification(task: Task, found: Search, numbers: Numbers, e: int) -> Identification:
    space = found.stack.steps[e].space
    spread, ends = numbers.spread, numbers.ends
    prices = slice(space.size, space.size + space.constraints)
    budgets = slice(prices.stop, prices.stop + space.constraints)
    active = numbers.gauge.multipliers > 0
    findings = []
    for k in np.flatnonzero(~active).tolist():
        p = found.activity[k] if np.isnan(found.sizes[k, e]) else found.sizes[k, e]
        said = (
            f"Constraint {k} is not identified in this task: its demonstrations do not show that "
            f"it restrains the expert ({chance(p)} if it does not)."
        )
        findings.append(Finding(said, Kind.INACTIVE, constraint=k, number=float(p)))
    if len(found.stack.steps) > 1 and active.any():
        findings.append(Finding("Cost weights are those of all tasks together."))
    return Identification(
        ends[space.blocks[0]],
        [ends[block] for block in space.blocks[1:]],
        ends[prices],
        ends[budgets],
        spread[space.blocks[0]],
        [spread[block] for block in space.blocks[1:]],
        spread[prices],
        spread[budgets],
        active,
        (*findings, *data_findings(task.mdp, task.demonstrations)),
        p_values=np.where(np.isnan(found.sizes[:, e]), found.activity, found.sizes[:, e]),
    )


def _shared(
    options: SharedLikelihood, found: Search, recoveries: Sequence[Recovery]
) -> Identification:
    """What is known of the weights that the tasks share, as a task knows it that pays for it."""
    speakers = (found.joint.link.leaders[0], *_speakers(found))
    known = [recoveries[e].identification for e in speakers]
    nothing = np.full(len(known) - 1, np.nan)
    shares = options.share_reward
    return Identification(
        known[0].reward_intervals if shares else np.empty((0, 2)),
        [one.cost_intervals[k] for k, one in enumerate(known[1:])],
        np.stack([nothing, nothing], axis=1),
        np.stack([nothing, nothing], axis=1),
        known[0].reward_standard_errors if shares else np.empty(0),
        [one.cost_standard_errors[k] for k, one in enumerate(known[1:])],
        nothing,
        nothing,
        found.restrained.any(axis=1),
        p_values=found.activity,
    )


def _speakers(found: Search) -> list[int]:
    """[K] a task that each constraint restrains: the leader, if it does."""
    chosen = []
    for kept, leader in zip(found.restrained, found.joint.link.leaders[1:], strict=True):
        chosen.append(leader if kept[leader] or not kept.any() else int(kept.argmax()))
    return chosen


def _task_status(found: Search, e: int) -> RecoveryStatus:
    if not (found.alone.whole.converged and found.joint.whole.converged):
        return RecoveryStatus.NOT_CONVERGED
    if found.boundless[e]:
        return RecoveryStatus.EXPERT_DETERMINISTIC
    convex = found.joint.link.linear and all(steps.convex for steps in found.stack.steps)
    return RecoveryStatus.CONVERGED if convex else RecoveryStatus.LOCAL_OPTIMUM


def _status(parts: Sequence[RecoveryStatus]) -> RecoveryStatus:
    """The worst of the tasks'."""
    for status in (RecoveryStatus.NOT_CONVERGED, RecoveryStatus.EXPERT_DETERMINISTIC):
        if status in parts:
            return status
    return parts[0]


def _findings(found: Search, told: Pooled, first: Task) -> list[Finding]:
    """What all tasks together say."""
    names = found.joint.link.names
    findings = [*_activity_findings(found), *_agreement_findings(found)]
    for j in np.flatnonzero(np.isfinite(told.limits)):
        said = (
            f"{names[j]} is forbidden: its cost was never incurred although the reward pulls "
            "there, so the demonstrations set a lower limit on its weight and no upper one."
        )
        findings.append(Finding(said, Kind.FORBIDDEN, feature=names[j]))
    space = replace(found.stack.steps[0].space, names=names)
    findings += blind_findings(space, told.errors.blind)
    findings += feature_findings(first.features)
    if not found.joint.link.linear:
        said = (
            "Directions and sizes are fitted together, which is convex in each but not in both: "
            "the optimum is the best one found from the directions of the tasks."
        )
        findings.append(Finding(said, Kind.LOCAL_OPTIMUM))
    if found.boundless.any():
        which = ", ".join(str(e) for e in np.flatnonzero(found.boundless))
        said = (
            f"The expert looks deterministic to the likelihood in task {which}: it rises for ever "
            f"with the parameters. A ridge of {RESCUE:g} on scaled features was added there, on "
            "which the scale of the answer depends, and no intervals are given."
        )
        return [*findings, Finding(said, Kind.DETERMINISTIC)]
    unit, count = "trajectories" if told.errors.clustered else "steps", len(found.stack.steps)
    said = f"Standard errors take the {unit} of all {count} tasks as independent units."
    return [*findings, Finding(said, Kind.ERRORS)]


def _activity_findings(found: Search) -> list[Finding]:
    """Which constraints restrain the expert, and which tasks say nothing about them."""
    findings = []
    for k, p in enumerate(found.activity.tolist()):
        if not found.restrained[k].any():
            said = (
                f"Constraint {k} is not identified: no task shows that it restrains the expert "
                f"({chance(p)} if it restrains none)."
            )
            findings.append(Finding(said, Kind.INACTIVE, constraint=k, number=p))
            continue
        said = f"Constraint {k} is active ({chance(p)} if it restrained no task)."
        findings.append(Finding(said, Kind.ACTIVE, constraint=k, number=p))
        for e in np.flatnonzero(~found.restrained[k]):
            own = float(found.sizes[k, e])
            said = (
                f"Task {e} says nothing about constraint {k}: it is not shown to restrain the "
                f"expert there ({chance(own)} if it does not)."
            )
            findings.append(Finding(said, Kind.NOT_IDENTIFIED, constraint=k, number=own))
    return findings


def _agreement_findings(found: Search) -> list[Finding]:
    """Whether the tasks agree on the weights that they share."""
    findings = []
    for b, p in enumerate(found.agreement):
        if np.isnan(p):
            continue
        what, constraint = ("the reward", None) if b == 0 else (f"constraint {b - 1}", b - 1)
        said, kind = (
            f"The tasks agree on the weights of {what} ({chance(p)} if they share them).",
            Kind.NOTE,
        )
        if p < DISAGREE:
            kind = Kind.MISFIT
            said = (
                f"The tasks disagree on the weights of {what} ({chance(p)} if they shared them): "
                "the shared weights are a compromise that fits none of them well."
            )
        findings.append(Finding(said, kind, constraint=constraint, number=float(p)))
    return findings
