"""What several tasks have in common, and what each wants and refuses by itself: `JointRecovery`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from tacit.data.observed import Observed
from tacit.inference.diagnostics import Goodness, Identification
from tacit.inference.findings import Finding, Kind, chance
from tacit.inference.parameters import CONFIDENCE, Parameters, together
from tacit.inference.standardised import shown
from tacit.inference.tails import holm
from tacit.model.arguments import read_only
from tacit.recovery import History, Recovery, RecoveryCertificate, RecoveryStatus, Several

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tacit.estimators.certified import PolicyCertificate
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
        return least_fitting([one.goodness for one in self.recoveries])

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


def least_fitting(fits: Sequence[Goodness]) -> int:
    """The number of the fit with the least p-value; those not tested come last."""
    return int(np.argmin([np.nan_to_num(one.p_value, nan=2.0) for one in fits]))


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
