"""The fits of several tasks: each alone, then all together, and the tests between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import InvalidModel
from tacit.forward.smooth_dual import Point
from tacit.inverse.activity import activity_p_value
from tacit.inverse.coordinates import Coordinates, coordinates
from tacit.inverse.inference import inverse_information
from tacit.inverse.likelihood import Steps
from tacit.inverse.tasks_agreement import Directions, agreement_p_value
from tacit.inverse.tasks_link import Link, Tie, link
from tacit.inverse.tasks_stack import Stack, StackFit

if TYPE_CHECKING:
    from tacit.inverse.tasks import SharedLikelihood, Task

# Tasks whose own direction is tried as a start, the clearest first.
STARTS = 3


@dataclass(frozen=True, eq=False)
class Search:
    """What was fitted, and what the tests between the fits say.

    Attributes:
        stack: the likelihoods.
        alone: every task by itself, with every constraint.
        joint: all together, without the constraints that were not shown to be active.
        leaders: one task per block, the one that speaks most clearly of it.
        restrained: [K, E] bool, whether each constraint was kept in each task.
        activity: [K] p-values of "this constraint restrains no task".
        sizes: [K, E] p-values of "it does not restrain this task"; NaN where not tested.
        agreement: [1 + K] p-values of "the tasks share this direction"; NaN where not tested.
    """

    stack: Stack
    alone: StackFit
    joint: StackFit
    leaders: tuple[int, ...]
    restrained: np.ndarray
    activity: np.ndarray
    sizes: np.ndarray
    agreement: np.ndarray


def search(options: SharedLikelihood, tasks: Sequence[Task]) -> Search:
    """The fits and tests of these tasks."""
    likelihood = options.likelihood
    if not 0 < likelihood.level <= 1 or not likelihood.tolerance > 0 or likelihood.max_steps < 1:
        raise InvalidModel(
            "level must be in (0, 1], tolerance positive, max_steps at least 1; "
            f"got {likelihood.level}, {likelihood.tolerance}, {likelihood.max_steps}"
        )
    steps = tuple(
        Steps.of(task.mdp, coordinates(task.mdp, task.features), task.demonstrations)
        for task in tasks
    )
    own = [one.fit(likelihood) for one in steps]
    stack = Stack(
        steps, tuple(fit.problem for fit in own), likelihood.tolerance, likelihood.max_steps
    )
    spaces = [one.space for one in steps]
    apart = [Tie.OWN] * len(spaces[0].blocks)
    shape = link(spaces, apart, [0] * len(apart), free_reward=likelihood.free_reward)
    points = [fit.point for fit in own]
    alone = stack.minimise(shape, shape.start([point.x for point in points]), points)
    return _together(options, stack, spaces, alone)


def ties_of(options: SharedLikelihood, space: Coordinates) -> list[Tie]:
    """One per block, as the options say; one cost feature has no direction to share."""
    reward = Tie.OWN
    if options.share_reward:
        reward = Tie.SAME if options.share_temperature else Tie.DIRECTION
    costs = [
        Tie.DIRECTION if block.stop - block.start > 1 else Tie.OWN for block in space.blocks[1:]
    ]
    return [reward, *costs]


def directions(fitted: StackFit) -> Directions:
    """Where the joint parameters may move from a fit."""
    shape, z = fitted.link, fitted.z
    return Directions(
        [shape.jacobian(e, z) for e in range(len(shape.rows))],
        fitted.whole.free,
        shape.movable & (z <= shape.lower),
    )


def _together(
    options: SharedLikelihood, stack: Stack, spaces: list[Coordinates], alone: StackFit
) -> Search:
    """The joint fit from the tasks alone, less what the tests drop, and the tests of the ties."""
    likelihood, every = options.likelihood, range(len(spaces))
    ties = ties_of(options, spaces[0])
    clarity = _clarity(stack, alone, len(ties))
    leaders = clarity.argmax(axis=1).tolist()
    activity = np.ones(len(ties) - 1)
    for k in range(len(activity)):
        activity[k] = _p_without(stack, alone, 1 + k, every, likelihood.seed)
    # A search cut short has shown nothing, not even that a constraint is idle.
    dropped = (activity > likelihood.level) & alone.whole.converged

    def shaped(ties: Sequence[Tie]) -> Link:
        shape = link(spaces, ties, leaders, free_reward=likelihood.free_reward)
        for k in np.flatnonzero(dropped):
            shape = shape.without(1 + int(k), every)
        return shape

    joint = _best(stack, alone, shaped(ties), np.argsort(-clarity.sum(axis=0)).tolist()[:STARTS])
    sizes = np.full((len(activity), len(spaces)), np.nan)
    for k in np.flatnonzero(~dropped):
        for e in every:
            if joint.link.steering(1 + int(k), e).any():
                sizes[k, e] = _p_without(stack, joint, 1 + int(k), [e], likelihood.seed)
    idle = (sizes > likelihood.level) & joint.whole.converged
    if idle.any():
        shape = _without(joint.link, idle)
        joint = stack.minimise(shape, np.clip(joint.z, shape.lower, shape.upper), _points(joint))
    restrained = ~dropped[:, None] & ~idle
    agreement = np.full(len(ties), np.nan)
    for b, tie in enumerate(ties):
        told = len(spaces) if b == 0 else int(restrained[b - 1].sum())
        if tie is not Tie.OWN and told > 1:
            apart = [Tie.OWN if other == b else own for other, own in enumerate(ties)]
            wide = _without(shaped(apart), idle)
            agreement[b] = _p_agreement(stack, joint, wide, likelihood.seed)
    return Search(stack, alone, joint, tuple(leaders), restrained, activity, sizes, agreement)


def _clarity(stack: Stack, alone: StackFit, blocks: int) -> np.ndarray:
    """[1 + K, E] how many squared standard errors each block of each task is away from 0."""
    found = np.zeros((blocks, len(alone.parts)))
    for e, (part, fisher) in enumerate(zip(alone.parts, stack.information(alone), strict=True)):
        for b, block in enumerate(alone.link.blocks[e]):
            others = part.free.copy()
            others[block] = False
            inverse, _ = inverse_information(fisher, others)
            x = np.zeros(len(fisher))
            x[block] = part.point.x[block]
            found[b, e] = x @ (fisher - fisher @ inverse @ fisher) @ x
    return found


def _best(stack: Stack, alone: StackFit, shape: Link, order: Sequence[int]) -> StackFit:
    """The best joint fit from several starts: the leaders' directions, then each task's own."""
    own = [part.point.x for part in alone.parts]
    starts = [shape.start(own)]
    if not shape.linear:
        starts += [shape.start(shape.pointing(own, e)) for e in order]
    fits = [stack.minimise(shape, z, _points(alone)) for z in starts]
    return min(fits, key=lambda fitted: fitted.loss)


def _p_without(stack: Stack, full: StackFit, b: int, tasks: Sequence[int], seed: int) -> float:
    """The p-value of "block b is 0 in these tasks"."""
    shape = full.link.without(b, tasks)
    tested = full.link.movable & ~shape.movable
    if not (full.z[tested] > 0).any():
        return 1.0
    less = stack.minimise(shape, np.clip(full.z, shape.lower, shape.upper), _points(full))
    here = directions(less)
    fisher = here.information(stack.information(less))
    ratio = 2.0 * (less.loss - full.loss)
    return activity_p_value(ratio, fisher, tested, here.free, here.one_sided, seed=seed)


def _p_agreement(stack: Stack, narrow: StackFit, wide: Link, seed: int) -> float:
    """The p-value of the ties that `wide` does without."""
    x = [part.point.x for part in narrow.parts]
    z = wide.start(x)
    loose = stack.minimise(wide, z, _points(narrow))
    before = Directions(
        [wide.jacobian(e, z) for e in range(len(x))],
        wide.movable & (z > wide.lower) & (z < wide.upper),
        wide.movable & (z <= wide.lower),
    )
    ratio = 2.0 * (narrow.loss - loose.loss)
    fishers = stack.information(narrow)
    return agreement_p_value(ratio, fishers, before, directions(narrow), seed=seed)


def _without(shape: Link, idle: np.ndarray) -> Link:
    """The link without the constraints that are idle [K, E] in a task."""
    for k, e in np.argwhere(idle):
        shape = shape.without(1 + int(k), [int(e)])
    return shape


def _points(fitted: StackFit) -> list[Point]:
    return [part.point for part in fitted.parts]
