"""A task: a world, the features of reward and costs, and the demonstrations seen there.

What is asked of a fit refits a task: on some of its episodes, at another discount, or with features
added. `Trips` are a task whose trajectories each have a goal of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed
from tacit.data.units import Units, units_of
from tacit.errors import InvalidModel
from tacit.inference.expectations import check_task
from tacit.likelihood.start import Options
from tacit.likelihood.steps import StepsChain
from tacit.model.features import Map
from tacit.model.features.design import Design
from tacit.model.mdp import MDP
from tacit.model.objective import Features


@dataclass(frozen=True, eq=False)
class Task:
    """A world, the features of reward and costs, and the demonstrations seen there.

    Attributes:
        mdp: the known world.
        features: what reward and costs may be made of; cost maps mean the same in every task.
        demonstrations: what was seen.
    """

    mdp: MDP
    features: Features
    demonstrations: Demonstrations

    learnt: ClassVar[bool] = False
    """Whether what follows actions is learnt from the demonstrations themselves."""

    def __post_init__(self) -> None:
        check_task(self.mdp, self.features, self.demonstrations)

    def check_in_memory(self) -> None:
        """Raises `InvalidDemonstrations` unless single episodes can be looked at again."""
        check_task(self.mdp, self.features, self.demonstrations, in_memory=True)

    @property
    def without_dropped(self) -> Self:
        """The task without the episodes that a fit leaves out."""
        return self

    def select(self, episodes: np.ndarray) -> Self:
        """The task with the chosen episodes, numbers or [E] bool."""
        return replace(self, demonstrations=self.demonstrations.select(episodes))

    def with_discount(self, discount: float) -> Self:
        """The task at another discount."""
        return replace(self, mdp=replace(self.mdp, discount=float(discount)))

    def with_features(self, added: Map) -> Self:
        """The task with more features of the reward."""
        features, actions = self.features, self.mdp.actions
        by_action = [
            np.repeat(table[:, None], actions, axis=1) if table.ndim == 2 else table
            for table in (np.asarray(features.reward), added.values)
        ]
        widened = Features(
            np.concatenate(by_action, axis=2),
            features.costs,
            (*features.reward_names, *added.names),
            features.cost_names,
            curves=features.curves,
        )
        return replace(self, features=widened)

    def units(self, least: float = np.inf) -> Units:
        """What is independent among the episodes: groups where there are `least` of them."""
        return units_of(self.demonstrations, least)

    def chain(self, options: Options) -> Any:
        """The likelihood of all episodes, a `Chain`."""
        return self._steps

    def prepared(self, options: Options) -> Self:
        """The same with what is chosen once, by all that was seen; here nothing is."""
        return self

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of features of the reward, then of each constraint."""
        return tuple(self.features.sizes)

    def group_chains(self, group: np.ndarray, options: Options) -> Sequence[Any]:
        """The `Chain` of each group of episodes; `group` [E] is the number of an episode's."""
        counts = self._steps.counts
        groups = int(group.max()) + 1
        group_of_step = np.repeat(group, self.demonstrations.lengths)
        cells = group_of_step * counts.size + self.demonstrations.pairs(self.mdp.actions)
        tables = np.bincount(cells, minlength=groups * counts.size).astype(np.float64)
        return [self._steps.reweighted(table) for table in tables.reshape(groups, *counts.shape)]

    @cached_property
    def _steps(self) -> StepsChain:
        return StepsChain.of(self.mdp, Design.of(self.mdp, self.features), self.demonstrations)


def task_of(
    world: MDP | Task,
    features: Features | None,
    demonstrations: Observed | None,
    question: str,
    *,
    in_memory: bool = True,
) -> Task:
    """The task that was handed over, whole or in parts, less the episodes that fits leave out.

    Args:
        world: a task, or the model of one.
        features: what reward and costs may be made of; None with a task.
        demonstrations: what was seen; None with a task.
        question: what is asked of the task, for messages.
        in_memory: whether single episodes are looked at again.
    """
    if isinstance(world, Task):
        if features is not None or demonstrations is not None:
            raise InvalidModel(
                "trips hold their features and demonstrations, as tasks do; got more beside them"
            )
        task = world.without_dropped
    elif features is None or demonstrations is None:
        raise InvalidModel(f"{question} needs a model, features and demonstrations; got fewer")
    elif isinstance(world, MDP):
        task = Task(world, features, cast("Demonstrations", demonstrations))
    else:
        raise InvalidModel(f"{question} needs a world of states; got {type(world).__name__}")
    if in_memory:
        task.check_in_memory()
    return task
