"""Several tasks at once: the constraint is what all of them have in common.

Tasks share cost directions, and reward directions if told so; multipliers, budgets and temperatures
are their own. First every task is fitted alone, which is one convex problem each; then jointly with
shared directions, from there; and it is tested whether the tasks agree on them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidModel, NotConverged
from tacit.inverse.expectations import check_task
from tacit.inverse.joint.recovery import JointRecovery, report
from tacit.inverse.joint.search import search
from tacit.inverse.noisy.likelihood import Likelihood
from tacit.inverse.recovery import RecoveryStatus
from tacit.model.mdp import MDP
from tacit.model.objective import Features


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
    tasks: Iterable[Task],
    *,
    estimator: Likelihood | SharedLikelihood | None = None,
    share_reward: bool = False,
    throw: bool = True,
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
    options.likelihood.check_no_lapses("the fit of several tasks")
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
