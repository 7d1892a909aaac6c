"""A task: a world, what reward and costs may be made of, and what was seen there.

Whatever is asked about a fit is asked of a task: of some of its episodes, at another discount, with
features added. `Trips` are a task whose trajectories each have a goal of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, cast

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
    """A world, what reward and costs may be made of, and what was seen there.

    Attributes:
        mdp: the known world.
        features: what reward and costs may be made of; cost maps mean the same in every task.
        demonstrations: what was seen.
    """

    mdp: MDP
    features: Features
    demonstrations: Demonstrations

    def __post_init__(self) -> None:
        check_task(self.mdp, self.features, self.demonstrations)

    def check_in_memory(self) -> None:
        """Raises `InvalidDemonstrations` unless single episodes can be looked at again."""
        check_task(self.mdp, self.features, self.demonstrations, in_memory=True)

    @property
    def used(self) -> Self:
        """The same without the episodes that a fit leaves out."""
        return self

    def select(self, episodes: np.ndarray) -> Self:
        """The same with the chosen episodes, numbers or [E] bool."""
        return replace(self, demonstrations=self.demonstrations.select(episodes))

    def with_discount(self, discount: float) -> Self:
        """The same at another discount."""
        return replace(self, mdp=replace(self.mdp, discount=float(discount)))

    def with_features(self, added: Map) -> Self:
        """The same with more features of the reward."""
        own, more = self.features, added.values
        tables = [
            np.repeat(np.asarray(one)[:, None], self.mdp.actions, axis=1) if one.ndim == 2 else one
            for one in (own.reward, more)
        ]
        names = (*own.reward_names, *added.names)
        whole = Features(
            np.concatenate(tables, axis=2), own.costs, names, own.cost_names, curves=own.curves
        )
        return replace(self, features=whole)

    def units(self, least: float = np.inf) -> Units:
        """What is independent among the episodes; groups where there are `least`."""
        return units_of(self.demonstrations, least)

    def chain(self, options: Options) -> Any:
        """The likelihood of all episodes."""
        return self._steps

    def parts(self, member: np.ndarray, options: Options) -> list[Any]:
        """The likelihood of each group of episodes, `member` [E] being its number."""
        size, groups = self._steps.counts.size, int(member.max()) + 1
        pairs = self.demonstrations.pairs(self.mdp.actions)
        own = np.repeat(member * size, self.demonstrations.lengths)
        tables = np.bincount(own + pairs, minlength=groups * size).astype(np.float64)
        tables = tables.reshape(groups, *self._steps.counts.shape)
        return [self._steps.reweighted(tables[group]) for group in range(groups)]

    @cached_property
    def _steps(self) -> StepsChain:
        return StepsChain.of(self.mdp, Design.of(self.mdp, self.features), self.demonstrations)


def task_of(
    mdp: Any,
    features: Any,
    demonstrations: Observed | None,
    what: str,
    *,
    in_memory: bool = True,
    logged: bool = False,
) -> Task:
    """The task that was handed over, whole or in parts, less the episodes that fits leave out.

    `in_memory` asks for demonstrations whose episodes can be looked at again; `logged` says that
    the world may be a `Logged` one.
    """
    if isinstance(mdp, Task):
        if features is not None or demonstrations is not None:
            raise InvalidModel(
                "trips hold their features and demonstrations, as tasks do; got more beside them"
            )
        task = mdp.used
    elif features is None or demonstrations is None:
        raise InvalidModel(f"{what} needs a model, features and demonstrations; got fewer")
    elif isinstance(mdp, MDP):
        task = Task(mdp, features, cast("Demonstrations", demonstrations))
    elif not logged:
        raise InvalidModel(f"{what} needs a world of states; got {type(mdp).__name__}")
    else:
        from tacit.estimators.logged.world import logged_task

        task = logged_task(mdp, features, demonstrations)
    if in_memory:
        task.check_in_memory()
    return task
