"""Which estimator suits the demonstrations, and why: for the newcomer who has not chosen one."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, overload, runtime_checkable

import numpy as np

from tacit.data.observed import Observed
from tacit.data.tally import tally_of
from tacit.engine.progress import Callback, stopped, watching
from tacit.errors import InvalidModel
from tacit.inference.expectations import are_weighted, check_task
from tacit.inference.findings import MIN_VISITS, Finding, Kind, check_possible, single_minded
from tacit.inference.origin import Origin
from tacit.model.mdp import MDP
from tacit.model.objective import Features
from tacit.recovery import Recovery, delivered, status_of
from tacit.search.algebra import first_largest

if TYPE_CHECKING:
    from tacit.data.demonstrations import Demonstrations
    from tacit.data.measurements import Measurements
    from tacit.estimators.bootstrap import Resampling
    from tacit.estimators.convex import Convex
    from tacit.estimators.joint_recovery import JointRecovery
    from tacit.estimators.likelihood import Likelihood
    from tacit.estimators.logged.nodes import NodesRecovery
    from tacit.estimators.logged.recovery import LoggedRecovery
    from tacit.estimators.logged.world import Logged, LoggedTask
    from tacit.estimators.mixture import Mixture, MixtureRecovery
    from tacit.estimators.sharded import ShardedRecovery
    from tacit.estimators.task import Task
    from tacit.estimators.tasks import SharedLikelihood
    from tacit.estimators.trips.traveller import TripsRecovery
    from tacit.estimators.trips.world import Trips
    from tacit.folders.problem import Problem
    from tacit.model.features import RowFeatures
    from tacit.model.nodes import Interpolated
    from tacit.model.sharded import Rows, ShardedMDP

Result = TypeVar(
    "Result", "LoggedRecovery", "TripsRecovery", "Recovery", "JointRecovery", "MixtureRecovery"
)
# Above this share of steps in states where the expert always does the same, noise is not seen.
DETERMINISTIC = 0.9


def choose(
    mdp: MDP, features: Features, demonstrations: Observed, *, seed: int = 0
) -> tuple[Estimator, Finding]:
    """The estimator picked by evidence, and the finding that says so.

    An expert who varies where it could do the same is noisy, and the likelihood of its steps uses
    every one of them. One who does not is taken for optimal if any objective explains all that it
    did, and the set of all explanations is exact there, where the likelihood has no maximum.
    """
    from tacit.estimators.explanation.estimator import Explanation, explainable
    from tacit.estimators.likelihood import Likelihood

    if are_weighted(demonstrations):
        said = "Likelihood was picked: it is the estimator that counts sampling weights."
        return Likelihood(seed=seed), Finding(said, Kind.CHOICE)
    tally = tally_of(mdp, demonstrations)
    counts = tally.counts
    options = mdp.choices.sum(axis=1)
    share = single_minded(counts, options)
    known = int(((counts.sum(axis=1) >= MIN_VISITS) & ((options > 1) | (mdp.actions == 1))).sum())
    seen = "trajectories" if tally.trajectories else "loose pairs"
    if share > DETERMINISTIC and not explainable(mdp, features, demonstrations):
        reason = (
            f"Likelihood was picked: {share:.0%} of the steps in the {known} states with at least "
            f"{MIN_VISITS} visits were taken where the expert always did the same, but no "
            "objective explains every step, as it would for an optimal expert. "
            "`Explanation(errors=0.02)` allows for a share of wrong steps instead."
        )
        return Likelihood(seed=seed), Finding(reason, Kind.CHOICE, number=share)
    if share > DETERMINISTIC:
        reason = (
            f"Explanation was picked: {share:.0%} of the steps in the {known} states with at least "
            f"{MIN_VISITS} visits were taken where the expert always did the same, as an optimal "
            "expert does."
        )
        return Explanation(), Finding(reason, Kind.CHOICE, number=share)
    if known:
        reason = (
            f"Likelihood was picked for these {seen}: {1 - share:.0%} of the steps in the {known} "
            f"states with at least {MIN_VISITS} visits were taken where the expert varied, as a "
            "noisy expert does."
        )
    else:
        steps = "1 step" if counts.sum() == 1 else f"{int(np.sum(counts))} steps"
        reason = (
            f"Likelihood was picked for these {seen}: no state has {MIN_VISITS} visits, too few to "
            f"tell an optimal expert from a noisy one ({steps} in all)."
        )
    return Likelihood(seed=seed), Finding(reason, Kind.CHOICE, number=share)


@runtime_checkable
class Estimator(Protocol):
    """Frozen hyperparameters and one verb."""

    def fit(
        self, mdp: MDP, features: Features, demonstrations: Observed, *, throw: bool = True
    ) -> Recovery:
        """A recovery with its certificate."""
        ...


@overload
def recover(
    world: MDP,
    features: Features,
    demonstrations: Observed,
    *,
    estimator: Estimator | None = None,
    bootstrap: int = 0,
    seed: int = 0,
    callbacks: Sequence[Callback] = (),
    allow_impossible: bool = False,
    horizon: int | None = None,
    throw: bool = True,
) -> Recovery: ...


@overload
def recover(
    world: MDP,
    features: Features,
    demonstrations: Observed,
    *,
    estimator: Mixture,
    allow_impossible: bool = False,
    throw: bool = True,
) -> MixtureRecovery: ...


@overload
def recover(
    world: Logged,
    features: RowFeatures,
    demonstrations: Measurements,
    *,
    estimator: Likelihood | None = None,
    callbacks: Sequence[Callback] = (),
    throw: bool = True,
) -> LoggedRecovery: ...


@overload
def recover(
    world: Interpolated,
    features: RowFeatures,
    demonstrations: Measurements,
    *,
    estimator: Likelihood | None = None,
    callbacks: Sequence[Callback] = (),
    throw: bool = True,
) -> NodesRecovery: ...


@overload
def recover(
    world: ShardedMDP,
    features: Rows[Features],
    demonstrations: Rows[np.ndarray],
    *,
    estimator: Likelihood | Convex | None = None,
    throw: bool = True,
) -> ShardedRecovery: ...


@overload
def recover(
    world: Trips,
    *,
    estimator: Likelihood | None = None,
    bootstrap: int = 0,
    seed: int = 0,
    callbacks: Sequence[Callback] = (),
    throw: bool = True,
) -> TripsRecovery: ...


@overload
def recover(
    world: Task,
    *,
    estimator: Estimator | None = None,
    bootstrap: int = 0,
    seed: int = 0,
    callbacks: Sequence[Callback] = (),
    allow_impossible: bool = False,
    throw: bool = True,
) -> Recovery: ...


@overload
def recover(
    world: Iterable[Task],
    *,
    estimator: Estimator | SharedLikelihood | None = None,
    share_reward: bool = False,
    callbacks: Sequence[Callback] = (),
    allow_impossible: bool = False,
    throw: bool = True,
) -> JointRecovery: ...


@overload
def recover(
    world: Problem | Path | str,
    *,
    estimator: Estimator | None = None,
    bootstrap: int = 0,
    seed: int = 0,
    callbacks: Sequence[Callback] = (),
    allow_impossible: bool = False,
    throw: bool = True,
) -> Recovery | TripsRecovery: ...


def recover(
    world: Any,
    features: Any = None,
    demonstrations: Any = None,
    *,
    estimator: Any = None,
    share_reward: bool = False,
    bootstrap: int = 0,
    seed: int = 0,
    callbacks: Sequence[Callback] = (),
    allow_impossible: bool = False,
    horizon: int | None = None,
    throw: bool = True,
) -> Recovery | JointRecovery | MixtureRecovery | ShardedRecovery:
    """The `Recovery` of what the demonstrator wants and refuses; of a list of `Task`s, the joint.

    Args:
        world: the known `MDP`; `Logged`, where only a log of rows is known, or nodes of a
            continuous world (`tacit.worlds.interpolated`); or what holds its
            features and demonstrations itself, and comes alone: a problem or the path of its
            folder, a `Task`, `Trips`, each to a goal of its own, or a list of tasks that share cost
            weights. Or a `tacit.scale.ShardedMDP`, of which no process holds the whole: features
            and demonstrations are then functions (start, stop) of a range of states: its
            `Features`, and [stop - start, A] how often each action was taken there (`Convex`: its
            mean discounted visits).
        features: what reward and costs may be made of; one cost map per constraint.
        demonstrations: what was seen: in memory, as `PartitionedDemonstrations` in files, or as a
            `Tally` of their sums.
        estimator: how to recover; None picks by evidence, and a finding of kind CHOICE says what
            and why: the first one, unless the model does not fit.
        share_reward: whether several tasks share the reward weights, too.
        bootstrap: how many times to resample the trajectories for the intervals; 0 keeps those of
            the estimator.
        seed: of the resampling, and of the estimator where it is picked.
        callbacks: called with a `tacit.progress.Event` on every step; one that returns True or
            raises `tacit.progress.StopEarly` ends the search, and the recovery says so.
        allow_impossible: let moves pass to which a known world gives probability 0, as a finding;
            otherwise they are refused. Where the dynamics are estimated they always pass.
        horizon: steps after which every episode is over, where that is known: policies then depend
            on the time, and the recovery is of the world laid out in time, as
            `tacit.features.Horizon` makes it; None for episodes without a known end.
        throw: raise `NotConverged` instead of returning a recovery that says so.
    """
    if horizon is not None:
        world, features, demonstrations = _laid_out(world, features, demonstrations, horizon)
    request = Request(
        estimator=estimator,
        share_reward=share_reward,
        bootstrap=bootstrap,
        seed=seed,
        callbacks=callbacks,
        allow_impossible=allow_impossible,
        throw=throw,
    )
    return request.recovery(world, features, demonstrations)


def _laid_out(
    world: Any, features: Any, demonstrations: Any, horizon: int
) -> tuple[MDP, Features, Demonstrations]:
    """World, features and demonstrations laid out in time."""
    from tacit.data.demonstrations import Demonstrations
    from tacit.model.features.horizon import Horizon

    if not isinstance(world, MDP):
        raise InvalidModel(
            "a horizon is of one known MDP: trips end at their goals, rows and shards have no "
            f"layers, and tasks are laid out one by one by tacit.features.Horizon; got "
            f"{type(world).__name__}"
        )
    if world.evidence is not None:
        raise InvalidModel(
            "a horizon needs known dynamics: these were counted, and would be counted anew at each "
            "time; give their table as known"
        )
    if not isinstance(demonstrations, Demonstrations):
        raise InvalidModel("with a horizon demonstrations must be in memory, episode by episode")
    laid_out = Horizon.of(world, horizon)
    return laid_out.mdp, laid_out.lifted(features), laid_out.demonstrations(demonstrations)


@dataclass(frozen=True, eq=False, kw_only=True)
class Request:
    """What is asked of a recovery, whatever is recovered; the arguments of `recover`."""

    estimator: Any
    share_reward: bool
    bootstrap: int
    seed: int
    callbacks: Sequence[Callback]
    allow_impossible: bool
    throw: bool
    near: Recovery | None = None  # where the search of a `Likelihood` begins

    def recovery(self, world: Any, features: Any, demonstrations: Any) -> Any:
        """The recovery, by what the world is."""
        if isinstance(world, _loaded("tacit.model.sharded", "ShardedMDP")):  # JAX is there, too
            return self._of_sharded(world, features, demonstrations)
        if self.bootstrap:
            from tacit.estimators.bootstrap import check_replicates

            check_replicates(self.bootstrap)  # now: the recovery itself may take an hour
        with watching(self.callbacks) if self.callbacks else nullcontext():
            if isinstance(world, _loaded("tacit.estimators.logged.world", "Logged")):
                from tacit.estimators.logged.world import logged_task

                return self._of_logged(logged_task(world, features, demonstrations))
            if isinstance(world, _loaded("tacit.model.nodes", "Interpolated")):
                from tacit.estimators.logged.nodes import nodes_task

                return self._of_logged(nodes_task(world, features, demonstrations))
            if isinstance(world, MDP):
                return self._of_steps(world, features, demonstrations)
            if features is not None or demonstrations is not None:
                raise InvalidModel(
                    "trips, tasks and problems hold their own features and demonstrations"
                )
            return self._of_whole(world)

    def _of_whole(self, world: Any) -> Any:
        """That of something that holds its features and demonstrations itself."""
        from tacit.estimators.task import Task
        from tacit.estimators.trips.world import Trips

        if isinstance(world, str | Path):
            world = problem_at(world)
        if isinstance(world, _loaded("tacit.folders.problem", "Problem")):
            estimator = world.with_coefficients(self.estimator, seed=self.seed)
            request = replace(self, estimator=estimator)
            if isinstance(world, _loaded("tacit.folders.rows_problem", "RowsProblem")):
                return request._of_logged(world.task)
            if world.trips is None:
                return request._of_steps(world.mdp, world.features, world.seen)
            return request._of_trips(world.trips)
        if isinstance(world, Trips):
            return self._of_trips(world)
        if isinstance(world, _loaded("tacit.estimators.logged.world", "LoggedTask")):
            return self._of_logged(world)
        if isinstance(world, Task):
            return self._of_steps(world.mdp, world.features, world.demonstrations)
        if isinstance(world, Iterable):
            return self._of_tasks(tuple(world))
        raise InvalidModel(
            "mdp must be a MDP, or what holds features and demonstrations itself: trips, a list of "
            f"tasks, a problem or its folder; got {type(world).__name__}"
        )

    def _of_sharded(self, world: ShardedMDP, features: Any, demonstrations: Any) -> ShardedRecovery:
        from tacit.estimators.sharded import recover_sharded

        if self.share_reward or self.bootstrap or self.callbacks:
            raise InvalidModel(
                "a sharded model is recovered without share_reward, bootstrap and callbacks"
            )
        asked = {"estimator": self.estimator, "throw": self.throw}
        return recover_sharded(world, features, demonstrations, **asked)

    def _of_trips(self, trips: Trips) -> TripsRecovery:
        from tacit.estimators.likelihood import Likelihood
        from tacit.estimators.trips.traveller import recover_trips

        if self.share_reward:
            raise InvalidModel("trips are recovered without share_reward: they share it")
        recovery = recover_trips(trips, estimator=self.estimator, throw=False)
        options = Likelihood(free_reward=True) if self.estimator is None else self.estimator
        if isinstance(recovery, Recovery):
            about = {"features": trips.features, "demonstrations": trips.demonstrations}
            origin = Origin(mdp=trips.mdp, **about, estimator=options)
            recovery = replace(recovery, origin=origin)
        recovery = self._ended(_with_name(recovery, trips.demonstrations))
        return self._resampled(trips, recovery, options)

    def _of_logged(self, task: LoggedTask) -> LoggedRecovery:
        from tacit.estimators.likelihood import Likelihood
        from tacit.estimators.logged.nodes import NodesTask, recover_on_nodes
        from tacit.estimators.logged.setting import recover_logged

        if self.share_reward:
            raise InvalidModel("share_reward is about several tasks; got one")
        recovered = recover_on_nodes if isinstance(task, NodesTask) else recover_logged
        recovery = cast("Any", recovered)(task, estimator=self.estimator, throw=False)
        recovery = self._ended(_with_name(recovery, task.demonstrations))
        options = Likelihood(free_reward=True) if self.estimator is None else self.estimator
        return self._resampled(task, recovery, options)

    def _of_tasks(self, tasks: tuple[Task, ...]) -> JointRecovery:
        from tacit.estimators.task import Task
        from tacit.estimators.tasks import shared_likelihood

        if any(
            isinstance(one, _loaded("tacit.estimators.logged.world", "LoggedTask")) for one in tasks
        ):
            raise InvalidModel(
                "tasks in logged worlds are recovered one by one: each has a basis of its own"
            )
        for number, task in enumerate(tasks):
            if isinstance(task, Task) and not self.allow_impossible:
                check_possible(task.mdp, task.demonstrations, f"task {number}: ")
            if isinstance(task, Task) and self.bootstrap:
                task.check_in_memory()
        shared = shared_likelihood(self.estimator, self.share_reward)
        fits = shared.search(tasks)
        joint = shared.report(tasks, fits)
        parts = zip(joint.recoveries, tasks, strict=True)
        each = [_of_task(*pair, estimator=shared) for pair in parts]
        joint = self._ended(replace(joint, recoveries=each))
        if not self.bootstrap:
            return joint
        from tacit.estimators.bootstrap import jointly_resampled

        return jointly_resampled(tasks, joint, fits, shared, self._resampling)

    def _of_steps(self, mdp: MDP, features: Features, demonstrations: Any) -> Recovery:
        estimator, findings = self.estimator, []
        if self.share_reward:
            raise InvalidModel("share_reward is about several tasks; got one")
        check_task(mdp, features, demonstrations, weighted=not self.bootstrap)
        fits = isinstance(estimator, Estimator) and not isinstance(estimator, type)
        if estimator is not None and not fits:
            raise InvalidModel(
                f"estimator must be one like Likelihood() or Explanation(); got {estimator!r:.60}"
            )
        if not self.allow_impossible:
            check_possible(mdp, demonstrations)
        if estimator is None:
            estimator, reason = choose(mdp, features, demonstrations, seed=self.seed)
            findings.append(reason)
        # Asked not to throw: after an early stop there is more to be said first.
        near = {} if self.near is None else {"near": self.near}
        recovery = estimator.fit(mdp, features, demonstrations, throw=False, **near)
        recovery = _with_name(recovery, demonstrations)
        if mdp.evidence is not None:
            findings += _dynamics_findings(recovery)
        recovery = _saying(recovery, findings)
        about = {"mdp": mdp, "features": features, "demonstrations": demonstrations}
        if isinstance(recovery, Recovery):
            recovery = replace(recovery, origin=Origin(**about, estimator=estimator))
        elif types := getattr(recovery, "types", ()):
            of_one = Origin(**about, estimator=None)
            recovery = replace(recovery, types=[replace(one, origin=of_one) for one in types])
        recovery = self._ended(recovery)
        if not self.bootstrap:
            return recovery
        from tacit.estimators.task import Task

        return self._resampled(Task(mdp, features, demonstrations), recovery, estimator)

    def _resampled(self, task: Task, recovery: Any, estimator: Any) -> Any:
        """The recovery, with intervals of its bootstrap where that was asked for."""
        if not self.bootstrap:
            return recovery
        from tacit.estimators.bootstrap import resampled

        return resampled(task, recovery, estimator=estimator, resampling=self._resampling)

    @property
    def _resampling(self) -> Resampling:
        from tacit.estimators.bootstrap import Resampling

        return Resampling(replicates=self.bootstrap, seed=self.seed, callbacks=self.callbacks)

    def _ended(self, recovery: Result) -> Result:
        """The recovery, that says where it was stopped; or `NotConverged`."""
        return delivered(_say_if_stopped(recovery), self.throw)


def _of_task(recovery: Recovery, task: Task, *, estimator: SharedLikelihood) -> Recovery:
    """The recovery of one task of several, that knows its world."""
    about = {"features": task.features, "demonstrations": task.demonstrations}
    return replace(recovery, origin=Origin(mdp=task.mdp, **about, estimator=estimator))


def _loaded(module: str, name: str) -> Any:
    """A class, for `isinstance`; () where its module was not loaded, so that nothing is one."""
    return getattr(sys.modules.get(module), name, ())


def problem_at(folder: str | Path) -> Problem:
    """The problem in a folder."""
    from tacit.folders.problem import Problem

    return Problem.load(folder)


def _with_name(recovery: Result, demonstrations: Observed) -> Result:
    """The recovery, the trajectory that fits it worst called by its name, where it has one."""
    names, goodness = getattr(demonstrations, "names", None), getattr(recovery, "goodness", None)
    far = getattr(goodness, "trajectory_residuals", np.zeros(0))
    if goodness is None or names is None or len(far) != len(names) or not np.isfinite(far).any():
        return recovery
    told = replace(goodness, farthest=str(names[first_largest(far)]))
    return replace(recovery, goodness=told)  # type: ignore[call-arg]


def _dynamics_findings(recovery: Recovery) -> list[Finding]:
    """That an answer takes estimated dynamics for known, if it does."""
    known = getattr(recovery, "identification", None)
    if known is None or known.dynamics is not None:
        return []
    said = (
        "The dynamics were counted, and this answer takes them for known: Likelihood() counts "
        "what that leaves in doubt, and mdp.evidence.draw gives others to recover with."
    )
    return [Finding(said, Kind.ERRORS, number=0.0)]


def _saying(recovery: Result, findings: Iterable[Finding]) -> Result:
    """The recovery with further findings."""
    return replace(recovery, identification=recovery.identification.with_findings(findings))


def _say_if_stopped(recovery: Result) -> Result:
    """The recovery, with a status and a finding that say so if a callback stopped a search."""
    event = stopped()
    if event is None:
        return recovery
    said = Finding(
        f"Stopped early by a callback, at step {event.step} of {event.stage}.",
        Kind.NOT_CONVERGED,
        number=event.step,
    )
    return _saying(replace(recovery, status=status_of(converged=False)), [said])
