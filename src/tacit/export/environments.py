"""Gymnasium's classes: a world of tacit as an environment, and a wrapper of any environment.

Gymnasium is needed to import this; `tacit.export` imports it when it is asked for one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from tacit.data.sources.gymnasium import checked_number
from tacit.errors import InvalidModel
from tacit.export.frames import actions_of
from tacit.model.layout import Layout
from tacit.model.mdp import MDP
from tacit.model.objective import Objective

Info = dict[str, object]
StateOf = Callable[[Any], npt.ArrayLike]  # of an observation, or of an action: anything


class TacitEnvironment(gymnasium.Env):
    """A world of tacit, paid by an objective."""

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012

    def __init__(
        self, mdp: MDP, objective: Objective, layout: Layout | None, max_steps: int | None
    ) -> None:
        self.mdp, self.layout, self.max_steps = mdp, layout or Layout(), max_steps
        self.reward, self.costs = objective.tables(mdp)
        self.discount, self.budgets = mdp.discount, objective.budgets
        self.observation_space = gymnasium.spaces.Discrete(mdp.states)
        self.action_space = gymnasium.spaces.Discrete(mdp.actions)
        self.render_mode = "ansi"
        quiet = ~self.reward.any(axis=1) & ~self.costs.any(axis=(0, 2))
        self._over = mdp.ends | (mdp.absorbing & quiet)
        # Never better than any action that is there, nor than an end.
        self._worst = min(0.0, float(self.reward[mdp.choices].min()))
        self._dearest = self.costs[:, mdp.choices].max(axis=1, initial=0.0)
        self._likely = np.cumsum(mdp.transitions.probabilities, axis=2)
        self._state, self._steps = 0, 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[int, Info]:
        """The first state, drawn, and its `info`."""
        super().reset(seed=seed)
        self._state = int(self.np_random.choice(self.mdp.states, p=self.mdp.initial))
        self._steps = 0
        return self._state, self._named()

    def step(self, action: int) -> tuple[int, float, bool, bool, Info]:
        """The state that an action leads to, its reward, whether the episode is over, `info`."""
        state, action = self._state, int(action)
        if not 0 <= action < self.mdp.actions:
            raise InvalidModel(f"an action must be in 0..{self.mdp.actions - 1}; got {action}")
        reward, charged = self._worst, self._dearest
        if taken := bool(self.mdp.available[state, action]):
            sums = self._likely[state, action]
            # Scaled by the true last sum: rounding may leave it below 1.
            place = np.searchsorted(sums, self.np_random.random() * sums[-1], side="right")
            self._state = int(self.mdp.transitions.states[state, action, place])
            reward, charged = self.reward[state, action], self.costs[:, state, action]
        if self.mdp.ends[self._state]:  # an end pays once; the same for all actions
            if not taken:
                reward, charged = 0.0, np.zeros(len(self.costs))
            weight = self.discount if taken else 1.0
            reward = reward + weight * self.reward[self._state, 0]
            charged = charged + weight * self.costs[:, self._state, 0]
        self._steps += 1
        truncated = self.max_steps is not None and self._steps >= self.max_steps
        info = charges(charged) | self._named() | {"action": self.layout.action_name(action)}
        info |= {} if taken else {"refused": True}
        return self._state, float(reward), bool(self._over[self._state]), truncated, info

    def render(self) -> str:
        """The name of the state."""
        return self.layout.state_name(self._state)

    def _named(self) -> Info:
        mask = self.mdp.available[self._state].astype(np.int8)
        return {"state": self.layout.state_name(self._state), "action_mask": mask}


class RecoveredObjective(gymnasium.Wrapper, gymnasium.utils.RecordConstructorArgs):
    """An environment paid by a recovered objective."""

    def __init__(
        self,
        env: gymnasium.Env,
        objective: Objective,
        rules: tuple[StateOf | None, StateOf | None],
        replace_reward: bool,
        discount: float,
        ends: np.ndarray,
    ) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(
            self,
            objective=objective,
            rules=rules,
            replace_reward=replace_reward,
            discount=discount,
            ends=ends,
        )
        gymnasium.Wrapper.__init__(self, env)
        actions = actions_of(objective)
        states = objective.reward.shape[0]
        self.rewards, self.costs = objective.tables_of(states, actions or 1)
        self.budgets = objective.budgets
        self._rules, self._by_action = rules, actions > 0
        self._discount, self._ends = discount, ends
        self._state, self._replace = 0, replace_reward

    def reset(
        self, *, seed: int | None = None, options: Info | None = None
    ) -> tuple[npt.ArrayLike, Info]:
        """The first observation of the environment, and its `info`."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._see(observation)
        return observation, info

    def step(self, action: npt.ArrayLike) -> tuple[npt.ArrayLike, float, bool, bool, Info]:
        """What the environment gives for an action, paid and charged by the objective."""
        state, taken = self._state, 0
        if self._by_action:
            taken = checked_number(action, self._rules[1], self.rewards.shape[1], "action_of")
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._see(observation)
        paid, charged = self.rewards[state, taken], self.costs[:, state, taken]
        if terminated:
            if (end := int(self._ends[self._state])) < 0:
                raise InvalidModel(
                    f"the episode is over in state {self._state}, which is no end of what was "
                    "recovered: say by ends= which end it is"
                )
            rows = np.concatenate([self.rewards[None, end], self.costs[:, end]])
            if np.ptp(rows, axis=1).any():
                raise InvalidModel(
                    "the objective must pay the same for all actions where an episode ends; "
                    f"it does not in state {end}: pass `ends`"
                )
            paid = paid + self._discount * rows[0, 0]
            charged = charged + self._discount * rows[1:, 0]
        paid = float(paid)
        info = {**info, **charges(charged)}
        info |= {"recovered_reward": paid, "environment_reward": reward}
        shown = paid if self._replace else float(reward)
        return observation, shown, terminated, truncated, info

    def _see(self, observation: npt.ArrayLike) -> None:
        count = self.rewards.shape[0]
        self._state = checked_number(observation, self._rules[0], count, "state_of")


def charges(charged: np.ndarray) -> Info:
    """The entries `cost` and `costs` of an `info`, from what each constraint is charged [K]."""
    charged = np.array(charged)
    return {"cost": float(charged.sum()), "costs": charged}
