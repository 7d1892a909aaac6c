"""A wrapper that pays a user's own environment by a recovered objective."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.export.environment import charges, gymnasium_module, objective_of
from tacit.inverse.recovery import Recovery
from tacit.objective import Objective

StateOf = Callable[[Any], Any]


def wrapper(
    env: Any,
    objective: Objective | Recovery,
    *,
    state_of: StateOf | None = None,
    action_of: StateOf | None = None,
    replace_reward: bool = True,
) -> Any:
    """The environment, with the reward and the costs of the objective added to every step.

    A step is paid by the state it was taken in and by its action. `info` gets `recovered_reward`,
    `environment_reward`, `costs` [K] and their sum `cost`.

    Args:
        env: a Gymnasium environment.
        objective: what pays and what it costs; or a recovery of it.
        state_of: the number of the state of an observation; a `Discretiser` is one. None where
            observations are these numbers.
        action_of: the number of an action; None where actions are these numbers.
        replace_reward: whether the reward of a step is the recovered one, or stays as it is.
    """
    gymnasium = gymnasium_module()
    if not isinstance(env, gymnasium.Env):
        raise InvalidModel(f"a Gymnasium environment must be given; got {type(env).__name__}")
    found = objective_of(objective)
    for space, given, name, count in (
        (env.observation_space, state_of, "state_of", found.reward.shape[0]),
        (env.action_space, action_of, "action_of", _actions(found)),
    ):
        if given is not None:
            continue
        if not isinstance(space, gymnasium.spaces.Discrete):
            raise InvalidModel(
                f"{name} must say which number a value of {space} has: it is no Discrete space"
            )
        if count is not None and (space.start != 0 or space.n > count):
            raise InvalidModel(
                f"the objective knows {count} numbers, from 0; got {space}: pass {name}"
            )
    return _wrapper_class()(env, found, state_of, action_of, replace_reward)


def _actions(objective: Objective) -> int | None:
    """A, where the objective tells it."""
    if objective.reward.ndim == 2:
        return objective.reward.shape[1]
    return objective.costs.shape[2] if objective.costs.ndim == 3 else None


def _numbered(given: Any, rule: StateOf | None, count: int, name: str) -> int:
    """The number of an observation or an action, checked."""
    number = np.asarray(given if rule is None else rule(given))
    if number.size != 1 or not np.issubdtype(number.dtype, np.integer):
        raise InvalidModel(f"{name} must give one integer; got {number!r:.60}")
    if not 0 <= (found := int(number.reshape(()))) < count:
        raise InvalidModel(f"{name} must give a number in 0..{count - 1}; got {found}")
    return found


@cache
def _wrapper_class() -> type:
    """The class, made when it is asked for: its parent is Gymnasium's."""
    gymnasium = gymnasium_module()

    class RecoveredObjective(gymnasium.Wrapper):
        """An environment paid by a recovered objective."""

        def __init__(
            self,
            env: Any,
            objective: Objective,
            state_of: StateOf | None,
            action_of: StateOf | None,
            replace_reward: bool,
        ) -> None:
            super().__init__(env)
            actions = _actions(objective)
            size = SimpleNamespace(states=objective.reward.shape[0], actions=actions or 1)
            self.rewards, self.costs = objective.tables(size)
            self.budgets = objective.budgets
            self._rules, self._by_action = (state_of, action_of), actions is not None
            self._replace = replace_reward
            self._state = 0

        def reset(self, **options: Any) -> tuple[Any, dict]:
            observation, info = self.env.reset(**options)
            self._see(observation)
            return observation, info

        def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
            state = self._state
            taken = 0
            if self._by_action:
                taken = _numbered(action, self._rules[1], self.rewards.shape[1], "action_of")
            observation, reward, terminated, truncated, info = self.env.step(action)
            self._see(observation)
            paid = float(self.rewards[state, taken])
            info = {**info, **charges(self.costs, state, taken)}
            info |= {"recovered_reward": paid, "environment_reward": reward}
            return observation, paid if self._replace else reward, terminated, truncated, info

        def _see(self, observation: Any) -> None:
            count = self.rewards.shape[0]
            self._state = _numbered(observation, self._rules[0], count, "state_of")

    return RecoveredObjective
