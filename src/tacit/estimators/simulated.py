"""A recovery used again: demonstrations drawn from it, and a fit with other options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidModel
from tacit.estimators.tasks import SharedLikelihood
from tacit.estimators.trips.world import goal_world
from tacit.files.wording import some
from tacit.forward.simulation import simulate
from tacit.inference.action_chances import LapsingChoices

if TYPE_CHECKING:
    from tacit.estimators.trips.traveller import TripsRecovery
    from tacit.inference.action_chances import ChoiceModel
    from tacit.model.mdp import MDP
    from tacit.recovery import Recovery


def simulated(
    recovery: Recovery, trajectories: int, *, steps: int, seed: int, world: MDP | None
) -> Demonstrations:
    """Demonstrations of what was recovered; see `Recovery.simulate`."""
    origin = recovery.origin
    if world is None and origin is None:
        raise InvalidModel("the world to simulate in is not known: give world=")
    if world is None and origin is not None:
        return simulate(
            origin.mdp, recovery.behaviour, trajectories=trajectories, steps=steps, seed=seed
        )
    assert world is not None
    model = recovery.choice_model(world=world)
    if model is None:
        raise InvalidModel("features in another world are not known: give with_origin(...)")
    policy = _policy_of(recovery, model, world)
    return simulate(world, policy, trajectories=trajectories, steps=steps, seed=seed)


def simulated_trips(
    recovery: TripsRecovery, trajectories: int, *, steps: int, seed: int, world: MDP | None
) -> Demonstrations:
    """Trips between origins and goals drawn from those that were seen."""
    network = recovery.network if world is None else world
    ended = np.flatnonzero(recovery.destinations >= 0)
    drawn = np.random.default_rng(seed).choice(ended, trajectories)
    parts = []
    for goal in np.unique(recovery.destinations[drawn]).tolist():
        begun = recovery.origins[drawn[recovery.destinations[drawn] == goal]]
        start = np.bincount(begun, minlength=network.states) / len(begun)
        model = recovery.choice_model(goals=goal, world=world)
        own = goal_world(network, goal, start, recovery.discount)
        policy = _policy_of(recovery, model, own)
        parts.append(simulate(own, policy, trajectories=len(begun), steps=steps, seed=seed + goal))
    return reduce(Demonstrations.__add__, parts)


def _policy_of(recovery: Recovery, model: ChoiceModel, world: MDP) -> np.ndarray:
    """[S, A] chances of actions at the coefficients of the recovery; any where there is none."""
    point = recovery.parameters.estimates
    if recovery.lapses is not None:
        model, point = LapsingChoices(model), np.append(point, recovery.lapses.share)
    policy = np.where(world.choices, 1.0, 0.0)
    policy /= policy.sum(axis=1, keepdims=True)
    policy[model.labels["state"]] = model.scored(point)[0]
    return policy


def refitted(recovery: Any, options: Mapping[str, Any], *, throw: bool) -> Any:
    """The recovery from the same demonstrations with other options; see `Recovery.refit`."""
    from tacit.estimators.recover import recover
    from tacit.estimators.trips.traveller import TripsRecovery

    origin = recovery.origin
    if origin is None or origin.estimator is None or isinstance(origin.estimator, SharedLikelihood):
        raise InvalidModel(
            "refit needs what the recovery was made from, by itself: one that was loaded is told "
            "by with_origin(...), types and tasks are recovered again together"
        )
    known = [field.name for field in fields(origin.estimator)]
    strange = [name for name in options if name not in known]
    if strange:
        raise InvalidModel(f"options must be some of {some(known, 30)}; got {strange[0]!r:.60}")
    estimator = replace(origin.estimator, **options)
    if isinstance(recovery, TripsRecovery):
        return recover(recovery.trips(origin.demonstrations), estimator=estimator, throw=throw)
    task = origin.mdp, origin.features, origin.demonstrations
    return recover(*task, estimator=estimator, allow_impossible=True, throw=throw)
