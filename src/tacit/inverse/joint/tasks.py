"""Several tasks at once: the constraint is what all of them have in common.

Tasks share cost directions, and reward directions if told so; multipliers, budgets and temperatures
are their own. First every task is fitted alone, which is one convex problem each; then jointly with
shared directions, from there; and it is tested whether the tasks agree on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import block_diag

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidModel, NotConverged
from tacit.inference.activity import BoundedFit, ScoreLaw, Verdict, active_constraints
from tacit.inference.boundary import ratio_p_value
from tacit.search.algebra import largest_first
from tacit.inverse.expectations import check_task
from tacit.inverse.joint import Link, Tie, link
from tacit.inverse.joint.counted import sources, tasks_noise
from tacit.inverse.joint.inference import AGREEMENT_LEVEL, directions
from tacit.inverse.joint.recovery import JointRecovery, report
from tacit.inverse.joint.stack import Stack, StackFit
from tacit.inverse.noisy.activity import bounded
from tacit.likelihood.rescue import rescued
from tacit.likelihood.rescue import VISIBLE
from tacit.inverse.noisy.likelihood import Likelihood
from tacit.likelihood.chain import Coordinates, Chain, coordinates
from tacit.inverse.parameters import inverse_information
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


def shared_likelihood(
    estimator: Likelihood | SharedLikelihood | None, share_reward: bool
) -> SharedLikelihood:
    """The estimator of several tasks that was asked for, by that of one where it is one's."""
    chosen = SharedLikelihood() if estimator is None else estimator
    if isinstance(chosen, Likelihood):
        chosen = SharedLikelihood(likelihood=chosen)
    if not isinstance(chosen, SharedLikelihood):
        raise InvalidModel(
            "several tasks are recovered by Likelihood or SharedLikelihood; "
            f"got {type(chosen).__name__}"
        )
    return replace(chosen, share_reward=True) if share_reward else chosen


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


# Tasks whose own direction is tried as a start, the clearest first.
STARTS = 3


@dataclass(frozen=True, eq=False, kw_only=True)
class TaskFits:
    """What was fitted, and what the tests between the fits say.

    Attributes:
        stack: the likelihoods.
        alone: every task by itself, with every constraint.
        joint: all together, without the constraints that were not shown to be active.
        boundless: [E] bool, the tasks whose likelihood has no maximum, so that a ridge was taken.
        restrained: [K, E] bool, whether each constraint was kept in each task.
        verdict: of the tests of "this constraint restrains no task", one a constraint.
        sizes: [K, E] p-values of "it does not restrain this task"; NaN where not tested.
        agreement: [1 + K] p-values of "the tasks share this direction"; NaN where not tested.
    """

    stack: Stack
    alone: StackFit
    joint: StackFit
    boundless: np.ndarray
    restrained: np.ndarray
    verdict: Verdict
    sizes: np.ndarray
    agreement: np.ndarray


def search(options: SharedLikelihood, tasks: Sequence[Task]) -> TaskFits:
    """The fits and tests of these tasks."""
    likelihood = options.likelihood
    likelihood.check()
    steps = tuple(
        Chain.of(task.mdp, coordinates(task.mdp, task.features), task.demonstrations)
        for task in tasks
    )
    tried = [rescued(s.mdp, s.fit(likelihood), VISIBLE, likelihood.max_steps) for s in steps]
    own = [fitted for fitted, _ in tried]
    stack = Stack(
        steps, tuple(fit.problem for fit in own), likelihood.tolerance, likelihood.max_steps
    )
    spaces = [one.space for one in steps]
    apart = [Tie.OWN] * len(spaces[0].blocks)
    shape = link(spaces, apart, [0] * len(apart), free_reward=likelihood.free_reward)
    points = [fit.point for fit in own]
    alone = stack.fit(shape, shape.start([point.x for point in points]), points)
    # The search of every task has been made: this one only puts them side by side.
    taken = max(fit.steps for fit in own)
    alone = replace(alone, whole=replace(alone.whole, steps=taken))
    return _together(options, stack, alone, np.array([boundless for _, boundless in tried]))


def ties_of(options: SharedLikelihood, space: Coordinates) -> list[Tie]:
    """One per block, as the options say; one cost feature has no direction to share."""
    shared = Tie.SAME if options.share_temperature else Tie.DIRECTION
    sizes = [block.stop - block.start for block in space.blocks[1:]]
    costs = [Tie.DIRECTION if size > 1 else Tie.OWN for size in sizes]
    return [shared if options.share_reward else Tie.OWN, *costs]


def _together(
    options: SharedLikelihood, stack: Stack, alone: StackFit, boundless: np.ndarray
) -> TaskFits:
    """The joint fit from the tasks alone, less what the tests drop, and the tests of the ties."""
    likelihood, spaces = options.likelihood, [steps.space for steps in stack.steps]
    every, constraints = range(len(spaces)), range(spaces[0].constraints)
    ties, clarity = ties_of(options, spaces[0]), _clarity(stack, alone)
    leaders = clarity.argmax(axis=1).tolist()
    anywhere = [Restraint(k, tuple(every)) for k in constraints]
    idle, verdict = _judged(stack, alone, anywhere, likelihood, alike=True)
    restrained = np.ones((len(anywhere), len(every)), bool)
    restrained[[one.constraint for one in idle]] = False

    def shaped(ties: Sequence[Tie]) -> Link:
        shape = link(spaces, ties, leaders, free_reward=likelihood.free_reward)
        for k in constraints:
            without = np.flatnonzero(~restrained[k]).tolist()
            shape = shape.without(1 + k, without) if without else shape
        return shape

    joint = _best(stack, alone, shaped(ties), largest_first(clarity.sum(axis=0)).tolist()[:STARTS])
    steered = [
        Restraint(k, (e,))
        for k in constraints
        for e in every
        if joint.link.steering(1 + k, e).any()
    ]
    idle, of_sizes = _judged(stack, joint, steered, likelihood, alike=False)
    sizes = np.full(restrained.shape, np.nan)
    for one, p_value in zip(steered, of_sizes.p_values.tolist(), strict=True):
        sizes[one.constraint, one.tasks] = p_value
        restrained[one.constraint, one.tasks] = one not in idle
    if idle:
        shape = shaped(ties)
        joint = stack.fit(shape, np.clip(joint.z, shape.lower, shape.upper), joint.points)
    agreement = np.full(len(ties), np.nan)
    for b, tie in enumerate(ties):
        sharing = len(spaces) if b == 0 else int(restrained[b - 1].sum())
        if tie is not Tie.OWN and sharing > 1:
            apart = [Tie.OWN if other == b else own for other, own in enumerate(ties)]
            agreement[b] = _p_agreement(stack, joint, shaped(apart), likelihood.seed)
    return TaskFits(
        stack=stack,
        alone=alone,
        joint=joint,
        boundless=boundless,
        restrained=restrained,
        verdict=verdict,
        sizes=sizes,
        agreement=agreement,
    )


@dataclass(frozen=True)
class Restraint:
    """A constraint, and the tasks in which it may or may not restrain the expert."""

    constraint: int
    tasks: tuple[int, ...]


def _judged(
    stack: Stack,
    full: StackFit,
    asked: Sequence[Restraint],
    options: Likelihood,
    *,
    alike: bool,
) -> tuple[list[Restraint], Verdict]:
    """What is not needed of the restraints `asked`, and the verdict on all of them.

    `alike` says that these are the constraints themselves: then it is asked how many are needed.
    """
    if not full.whole.converged or not asked:  # a search cut short has shown nothing
        return [], Verdict.of(np.ones(len(asked)))

    def law_of(less: StackFit) -> ScoreLaw:
        here = directions(less.link, less.z)
        fisher = here.information(stack.information(less))
        noise = tasks_noise(stack, less, bread=fisher, free=here.free, seed=options.seed)
        return ScoreLaw(fisher) if noise is None else ScoreLaw(fisher, noise[0].total(fisher))

    def restricted(members: tuple[int, ...]) -> BoundedFit[tuple[int, ...]]:
        shape = full.link
        for number in members:
            shape = shape.without(1 + asked[number].constraint, asked[number].tasks)
        less = stack.fit(shape, np.clip(full.z, shape.lower, shape.upper), full.points)
        return bounded(members, less.whole, lambda: law_of(less))

    idle, verdict = active_constraints(
        bounded(tuple[int, ...](), full.whole),
        len(asked),
        restricted,
        level=options.level,
        steps=sum(float(one.counts.sum()) for one in stack.steps),
        seed=options.seed,
        groups=() if alike else (range(len(asked)),),
        scattered=bool(sources([one.mdp for one in stack.steps])),
    )
    return [asked[number] for number in idle], verdict


def _clarity(stack: Stack, alone: StackFit) -> np.ndarray:
    """[1 + K, E] how many squared standard errors each block of each task is away from 0."""
    found = np.zeros((len(alone.link.ties), len(alone.parts)))
    for e, (part, fisher) in enumerate(zip(alone.parts, stack.information(alone), strict=True)):
        for b, block in enumerate(alone.link.blocks[e]):
            others = part.free.copy()
            others[block] = False
            inverse, _ = inverse_information(fisher, others)
            x = np.zeros(len(fisher))
            x[block] = part.z[block]
            found[b, e] = x @ (fisher - fisher @ inverse @ fisher) @ x
    return found


def _best(stack: Stack, alone: StackFit, shape: Link, order: Sequence[int]) -> StackFit:
    """The best joint fit from several starts: the leaders' directions, then each task's own."""
    own = [point.x for point in alone.points]
    starts = [shape.start(own)]
    if not shape.linear:
        starts += [shape.start(shape.pointing(own, e)) for e in order]
    fits = [stack.fit(shape, z, alone.points) for z in starts]
    return min(fits, key=lambda fitted: fitted.loss)


def _p_agreement(stack: Stack, narrow: StackFit, wide: Link, seed: int) -> float:
    """The p-value of the ties that `wide` does without."""
    z = wide.start([point.x for point in narrow.points])
    loose = stack.fit(wide, z, narrow.points)
    ratio, fishers = 2.0 * (narrow.loss - loose.loss), stack.information(narrow)
    before, after = directions(wide, z), directions(narrow.link, narrow.z)
    bread, scatter = after.information(fishers), None
    made = tasks_noise(stack, narrow, bread=bread, free=after.free, seed=seed)
    if made is not None:
        noise, own = made
        scatter = noise.attenuation**2 * (block_diag(*fishers) + own)
    about = {"levels": AGREEMENT_LEVEL, "seed": seed, "scatter": scatter}
    return ratio_p_value(ratio, fishers, before, after, **about)
