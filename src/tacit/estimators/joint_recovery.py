"""What several tasks have in common, and what each wants and refuses by itself: `JointRecovery`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from tacit.data.observed import Observed
from tacit.estimators.assembly import common
from tacit.estimators.estimate import coefficients_of
from tacit.estimators.setting import StepsSetting, chain_goodness
from tacit.estimators.strength import prior_findings
from tacit.inference.activity import Verdict
from tacit.inference.diagnostics import Goodness, Identification, untested
from tacit.inference.dynamics_noise import dynamics_findings
from tacit.inference.evidence import Evidence, evidence_of
from tacit.inference.expectations import Spending
from tacit.inference.findings import Finding, Kind, blind_findings, chance, feature_findings
from tacit.inference.gauged_intervals import Numbers, numbers_of
from tacit.inference.idle_constraints import level_findings, verdict_findings
from tacit.inference.known import bound_findings, given_temperature_findings
from tacit.inference.parameters import CONFIDENCE, Parameters, together
from tacit.inference.sets import never_incurred, unidentified
from tacit.inference.standardised import Standard, shown, standards_of
from tacit.inference.tails import holm
from tacit.likelihood.problem import Fit
from tacit.likelihood.rescue import RESCUE
from tacit.likelihood.start import Bounds
from tacit.model.arguments import read_only
from tacit.recovery import (
    History,
    Recovery,
    RecoveryCertificate,
    RecoveryStatus,
    Several,
    status_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tacit.estimators.certified import PolicyCertificate
    from tacit.estimators.tasks import SharedLikelihood, Task, TaskFits
    from tacit.forward.solution import Solution
    from tacit.model.mdp import MDP

# Level of the tests whether tasks agree on what they share.
AGREEMENT_LEVEL = 0.01


@dataclass(frozen=True, eq=False, kw_only=True)
class JointRecovery(Several):
    """What several tasks have in common, and what each wants and refuses by itself.

    A constraint that does not restrain a task has multiplier 0 and NaN weights in that task's own
    recovery, as in any other; the shared weights come from the tasks that it does restrain.

    Attributes:
        recoveries: one `Recovery` per task, in the order given.
        reward_weights: [D] if the tasks share them, else one [D] per task.
        cost_weights: one [D_k] per constraint, shared by the tasks; NaN if it restrains none.
        status: how the recovery ended, derived from the certificate.
        certificate: of the joint fit; the feature gap is the root mean square over the tasks.
        history: the loss of the tasks alone, then of all together.
        identification: of the shared weights. What tasks have for themselves, multipliers, budgets
            and rewards that are not shared, is in their recoveries and NaN or empty here.
        estimator: the call that made it.
        agreement: [1 + K] p-values that the tasks have the same weights of the reward and of each
            constraint, NaN where that is not tested.
    """

    recoveries: tuple[Recovery, ...]
    reward_weights: np.ndarray | tuple[np.ndarray, ...]
    cost_weights: tuple[np.ndarray, ...]
    status: RecoveryStatus
    certificate: RecoveryCertificate
    history: History
    identification: Identification
    estimator: str = ""
    agreement: np.ndarray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        def fixed(weights: npt.ArrayLike) -> np.ndarray:
            return read_only(np.array(weights, dtype=np.float64))

        object.__setattr__(self, "recoveries", tuple(self.recoveries))
        object.__setattr__(self, "agreement", fixed(self.agreement))
        many = isinstance(self.reward_weights, tuple | list)
        reward = tuple(map(fixed, self.reward_weights)) if many else fixed(self.reward_weights)
        object.__setattr__(self, "reward_weights", reward)
        object.__setattr__(self, "cost_weights", tuple(map(fixed, self.cost_weights)))

    @cached_property
    def parameters(self) -> Parameters:
        """The coefficients of every task, task after task."""
        return together([one.parameters for one in self.recoveries], "task")

    @property
    def worst(self) -> int:
        """The task that the model fits least, by its p-value adjusted for all tasks."""
        return _worst([one.goodness for one in self.recoveries])

    @property
    def goodness(self) -> Goodness:
        """Whether the model fits what was seen, in the task that it fits least."""
        return self.recoveries[self.worst].goodness

    @property
    def log_likelihood(self) -> float:
        """Of the observed actions of all tasks."""
        return sum(one.log_likelihood for one in self.recoveries)

    @property
    def null_log_likelihood(self) -> float:
        """The same of actions at random."""
        return sum(one.null_log_likelihood for one in self.recoveries)

    @property
    def observed_steps(self) -> int:
        """Number of observed actions in all tasks."""
        return sum(one.observed_steps for one in self.recoveries)

    @property
    def degrees(self) -> int:
        """Number of free coefficients of all tasks."""
        return self.parameters.degrees

    @property
    def parts(self) -> tuple[Recovery, ...]:
        """The recoveries of the tasks."""
        return self.recoveries

    def with_parts(self, parts: Sequence[Recovery]) -> Self:
        """The same with other recoveries of its tasks."""
        return replace(self, recoveries=tuple(parts))

    def certify(
        self, policy: npt.ArrayLike | Solution, world: MDP, *, confidence: float = CONFIDENCE
    ) -> PolicyCertificate:
        """Which budgets a policy keeps that all demonstrators kept, and how sure that is.

        Args:
            policy: [S, A], or a solution.
            world: where it acts.
            confidence: for all budgets at once.
        """
        from tacit.estimators.certified import certify_by_tasks

        return certify_by_tasks(self, policy, world, confidence=confidence)

    def updated(
        self, more: Sequence[Observed], *, forget: float | None = None, keep_rows: bool = False
    ) -> JointRecovery:
        """The recovery of everything seen so far, by merged sums; see `Recovery.updated`.

        Args:
            more: what was seen since, one part a task.
            forget: half-life in steps of a task.
            keep_rows: keep what was seen for `refresh`, in memory; else sums alone.
        """
        from tacit.stream.updating import updated_tasks

        return updated_tasks(self, more, forget=forget, keep_rows=keep_rows)

    def refresh(self) -> JointRecovery:
        """The recovery by a full pass over all that was seen, where its rows were kept."""
        from tacit.stream.updating import refreshed_tasks

        return refreshed_tasks(self)

    @cached_property
    def standardised(self) -> JointRecovery:
        """The same about features divided by their standard deviations in all tasks together."""
        each, known = [one.standardised for one in self.recoveries], self.identification
        ends = [known.reward_intervals, *known.cost_intervals]
        parts = [one.identification for one in self.recoveries]
        own = [(one.reward_intervals, *one.cost_intervals) for one in parts]
        speakers = [
            int(np.argmax([np.array_equal(one[b], shared, equal_nan=True) for one in own]))
            for b, shared in enumerate(ends)
        ]
        rewards = tuple(one.reward_weights for one in each)
        shared = not isinstance(self.reward_weights, tuple)
        return replace(
            self.speaking(each, speakers),
            reward_weights=rewards[speakers[0]] if shared else rewards,
            cost_weights=tuple(each[e].cost_weights[k] for k, e in enumerate(speakers[1:])),
        )

    def speaking(self, recoveries: Sequence[Recovery], speakers: Sequence[int]) -> JointRecovery:
        """The same with other recoveries of its tasks, what is shared as one of them knows it.

        Args:
            recoveries: one per task.
            speakers: one task for the reward, then one per constraint.
        """
        shared = shared_numbers(recoveries, speakers, reward=np.ndim(self.reward_weights) == 1)
        known = replace(self.identification, **shared)
        return replace(self, recoveries=tuple(recoveries), identification=known)

    def plot(self, *, raw_units: bool = False) -> Figure:
        """One figure of the weights and prices of all tasks, beside each other."""
        from tacit.show.plot import overview

        each = shown(self, raw_units=raw_units).recoveries
        return overview({f"task {e}": one for e, one in enumerate(each)})

    def __repr__(self) -> str:
        weights = [np.array2string(w, precision=4, threshold=6) for w in self.cost_weights]
        told = f"tasks={len(self.recoveries)}, cost_weights=[{', '.join(weights)}]"
        return f"JointRecovery({self.status.name}, {told})"


def shared_numbers(
    recoveries: Sequence[Recovery], speakers: Sequence[int], *, reward: bool
) -> dict[str, Any]:
    """Intervals and errors of what tasks share, as fields of `Identification`.

    Args:
        recoveries: of the tasks.
        speakers: one task for the reward, then one per constraint: those whose numbers they are.
        reward: whether the reward is shared.
    """
    first, *own = (recoveries[e].identification for e in speakers)
    shared: dict[str, Any] = {
        "cost_intervals": [one.cost_intervals[k] for k, one in enumerate(own)],
        "cost_standard_errors": [one.cost_standard_errors[k] for k, one in enumerate(own)],
    }
    if reward:
        shared["reward_intervals"] = first.reward_intervals
        shared["reward_standard_errors"] = first.reward_standard_errors
    return shared


def report(options: SharedLikelihood, tasks: Sequence[Task], found: TaskFits) -> JointRecovery:
    """The `JointRecovery` of these fits."""
    seen, joint, fits = [task.demonstrations for task in tasks], found.joint, found.goodness
    evidence = evidence_of(seen, joint, options.likelihood.max_steps, robust=found.robust)
    standards = standards_of([(task.mdp, task.features) for task in tasks])
    numbers = _numbers(found, evidence, seen)
    if not all(one.uniform for one in standards):
        scaled = _numbers(found, evidence, seen, [one.stacked for one in standards])
        pairs = zip(scaled, found.chains, strict=True)
        known = [one.identification(chain.space, verdict=None) for one, chain in pairs]
        standards = [own.knowing(one) for own, one in zip(standards, known, strict=True)]
    recoveries = [
        _recovery(options, task, found, numbers[e], evidence, fits[e], standards[e], e)
        for e, task in enumerate(tasks)
    ]
    worst, own = _worst(fits), tuple(one.reward_weights for one in recoveries)
    misfit = [
        Finding(f"Task {worst}: {said}", said.kind, **asdict(said.about))
        for said in fits[worst].findings()
    ] + _findings(found, evidence, tasks[0])
    status = status_of(converged=joint.converged, proven=joint.problem.proven)
    return JointRecovery(
        recoveries=tuple(recoveries),
        reward_weights=own[joint.problem.ties.leaders[0]] if options.share_reward else own,
        cost_weights=tuple(recoveries[e].cost_weights[k] for k, e in enumerate(found.speakers)),
        history=History(
            {
                "loss": [found.alone.loss, joint.loss],
                "evaluations": [found.alone.steps, joint.steps],
            }
        ),
        identification=_shared(options, found, recoveries, misfit),
        estimator=repr(options),
        agreement=np.asarray(found.agreement, dtype=np.float64),
        **common(recoveries, joint, status),
    )


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


def _numbers(
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


def _recovery(
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
    gauge, joint, space = numbers.gauge, found.joint, evidence.chains[e].chain.space
    setting = StepsSetting(task.mdp, task.features, task.demonstrations)
    point = setting.point(evidence, e)
    dynamics = evidence.dynamics[e] if evidence.dynamics else None
    # An untested size has the p-value of its constraint.
    sizes = found.sizes[:, e]
    p_values = np.where(np.isnan(sizes), found.verdict.p_values, sizes)
    verdict = Verdict.of(p_values, options.likelihood.level)
    findings = [*_idle_findings(found, gauge.multipliers, p_values), *level_findings(verdict)]
    bounds, strength = Bounds.of(space, options.of_task(task)), found.strengths[e]
    findings += bound_findings(bounds, space, joint.x(e))
    findings += [] if strength is None else prior_findings(strength, evidence, e)
    findings += [] if dynamics is None else dynamics_findings(dynamics)
    estimate = replace(
        point,
        converged=found.alone.converged and joint.converged,
        deterministic=bool(found.boundless[e]),
        proven=joint.problem.proven,
        known=numbers.identification(space, verdict=verdict, dynamics=dynamics),
        standard=standard,
        parameters=coefficients_of(task.features, evidence, evidence.fitted, e, given=bounds.given),
        findings=findings,
        goodness=goodness,
        spending=Spending.of_data(task.features, point.seen),
        **never_incurred(space, evidence.own_limits(e)),
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


def _shared(
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


def _worst(fits: Sequence[Goodness]) -> int:
    """The number of the fit with the least p-value; those not tested come last."""
    return int(np.argmin([np.nan_to_num(one.p_value, nan=2.0) for one in fits]))


def _findings(found: TaskFits, evidence: Evidence, first: Task) -> list[Finding]:
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


def agreement_findings(p_values: np.ndarray) -> list[Finding]:
    """Whether the tasks agree on the weights of the reward, then of each constraint [1 + K]."""
    findings, tested = [], np.flatnonzero(~np.isnan(p_values)).tolist()
    how = ", adjusted by Holm's method" if len(tested) > 1 else ""
    for b, p in zip(tested, holm(p_values[tested].tolist()).tolist(), strict=True):
        what, constraint = ("the reward", None) if b == 0 else (f"constraint {b - 1}", b - 1)
        said = f"The tasks agree on the weights of {what} ({chance(p)} if they share them{how})."
        kind = Kind.MISFIT if p < AGREEMENT_LEVEL else Kind.NOTE
        if kind is Kind.MISFIT:
            said = (
                f"The tasks disagree on the weights of {what} ({chance(p)} if they shared "
                f"them{how}): the shared weights are a compromise that fits none of them well."
            )
        findings.append(Finding(said, kind, constraint=constraint, number=p))
    return findings
