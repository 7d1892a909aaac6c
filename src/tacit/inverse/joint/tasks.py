"""Several tasks at once: the constraint is what all of them have in common.

Tasks share cost directions, and reward directions if told so; multipliers, budgets and temperatures
are their own. First every task is fitted alone, which is one convex problem each; then jointly with
shared directions, from there; and it is tested whether the tasks agree on them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidModel, NotConverged
from tacit.inverse.expectations import check_task
from tacit.inverse.findings import Finding
from tacit.inverse.identification import Identification
from tacit.inverse.noisy.likelihood import Likelihood
from tacit.inverse.parameters import Parameters, together
from tacit.inverse.recovery import (
    Criteria,
    History,
    Recovery,
    RecoveryCertificate,
    RecoveryStatus,
)
from tacit.model.mdp import MDP
from tacit.model.objective import Features
from tacit.model.transitions import read_only


@dataclass(frozen=True, eq=False)
class Task:
    """One of several tasks: a world of its own, and what was seen there.

    Attributes:
        mdp: the known world.
        features: what reward and costs may be made of; cost maps mean the same in every task.
        demonstrations: what was seen.
    """

    mdp: MDP
    features: Features
    demonstrations: Demonstrations

    def __post_init__(self) -> None:
        check_task(self.mdp, self.features, self.demonstrations, in_memory=True)


@dataclass(frozen=True, eq=False)
class JointRecovery(Criteria):
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
    """

    recoveries: tuple[Recovery, ...]
    reward_weights: Any
    cost_weights: Any
    status: RecoveryStatus
    certificate: RecoveryCertificate
    history: History
    identification: Identification
    estimator: str = ""

    def __post_init__(self) -> None:
        def fixed(weights: Any) -> np.ndarray:
            return read_only(np.array(weights, dtype=np.float64))

        object.__setattr__(self, "recoveries", tuple(self.recoveries))
        many = isinstance(self.reward_weights, tuple | list)
        reward = tuple(map(fixed, self.reward_weights)) if many else fixed(self.reward_weights)
        object.__setattr__(self, "reward_weights", reward)
        object.__setattr__(self, "cost_weights", tuple(map(fixed, self.cost_weights)))

    @cached_property
    def parameters(self) -> Parameters:
        """The coefficients of every task, task after task."""
        return together([one.parameters for one in self.recoveries])

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
    def findings(self) -> tuple[Finding, ...]:
        """Findings about what was and was not found in all tasks together."""
        return self.identification.findings

    def summary(self) -> str:
        """The page a person reads first: what is shared, then each task, as plain text."""
        from tacit.show.summary import summarise_joint as summarise

        return summarise(self)

    def save(self, folder: str | Path) -> None:
        """Writes a folder: `joint.npz` with all tasks, and `run.json`."""
        from tacit.folders.runs import save

        save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> JointRecovery:
        """The joint recovery saved in this folder, every array checked against its checksum."""
        from tacit.folders.runs import load

        return load(Path(folder), JointRecovery)

    def __repr__(self) -> str:
        weights = [np.array2string(w, precision=4, threshold=6) for w in self.cost_weights]
        return (
            f"JointRecovery({self.status.name}, tasks={len(self.recoveries)}, "
            f"cost_weights=[{', '.join(weights)}])"
        )


@dataclass(frozen=True)
class SharedLikelihood:
    """Maximum likelihood of several tasks whose cost weights are the same, up to a size each.

    Attributes:
        share_reward: whether the tasks share the reward weights too.
        share_temperature: whether they share the temperature as well, with the reward.
        likelihood: how each task is fitted, and the level of the tests.
    """

    share_reward: bool = False
    share_temperature: bool = False
    likelihood: Likelihood = field(default_factory=Likelihood)

    def fit(self, tasks: Iterable[Task], *, throw: bool = True) -> JointRecovery:
        """The `JointRecovery` under which the observed actions of all tasks are most likely."""
        from tacit.inverse.joint.report import report
        from tacit.inverse.joint.search import search

        chosen = tuple(tasks)
        _check(chosen, self)
        recovery = report(self, chosen, search(self, chosen))
        if throw and recovery.status is RecoveryStatus.NOT_CONVERGED:
            raise NotConverged(
                f"{recovery.status.value} (projected gradient "
                f"{recovery.certificate.projected_gradient:.2e}); "
                "pass throw=False to get it, or raise `max_steps`",
                recovery,
            )
        return recovery


def recover_tasks(
    tasks: Iterable[Task], *, estimator: Any = None, share_reward: bool = False, throw: bool = True
) -> JointRecovery:
    """The `JointRecovery` of several tasks.

    Args:
        tasks: at least one `Task`.
        estimator: a `Likelihood` for its options, a `SharedLikelihood`, or None.
        share_reward: whether the tasks share the reward weights, too.
        throw: raise `NotConverged` instead of returning a recovery that says so.
    """
    chosen = SharedLikelihood() if estimator is None else estimator
    if isinstance(chosen, Likelihood):
        chosen = SharedLikelihood(likelihood=chosen)
    if not isinstance(chosen, SharedLikelihood):
        raise InvalidModel(
            "several tasks are recovered by Likelihood or SharedLikelihood; "
            f"got {type(chosen).__name__}"
        )
    if share_reward:
        chosen = replace(chosen, share_reward=True)
    return chosen.fit(tasks, throw=throw)


def _check(tasks: tuple[Task, ...], options: SharedLikelihood) -> None:
    """Raises `InvalidModel` unless the tasks can share what they are told to share."""
    if not tasks:
        raise InvalidModel("tasks must hold at least one Task; got none")
    for e, task in enumerate(tasks):
        if not isinstance(task, Task):
            raise InvalidModel(f"tasks must be Task objects; task {e} is {type(task).__name__}")
    if options.share_temperature and not options.share_reward:
        raise InvalidModel("tasks that share the temperature must share the reward")
    first = tasks[0].features
    for e, task in enumerate(tasks[1:], start=1):
        if task.features.cost_names != first.cost_names:
            raise InvalidModel(
                "tasks share cost weights, so they must have the same cost features; "
                f"task 0 has {first.cost_names}, task {e} has {task.features.cost_names}"
            )
        if options.share_reward and task.features.reward_names != first.reward_names:
            raise InvalidModel(
                "tasks that share reward weights must have the same reward features; "
                f"task 0 has {first.reward_names}, task {e} has {task.features.reward_names}"
            )
