"""Out to the tools people use: Gymnasium environments, wrappers, frames and plain tables.

An environment or a wrapper pays the reward and charges the costs of an objective. Tables are of an
objective or a recovery: CSV, Parquet, npz arrays, Polars and pandas frames, xarray datasets.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tacit.data.sources.gymnasium import numbered, terminal_states
from tacit.data.sources.recordings import where_over
from tacit.errors import InvalidModel, optional
from tacit.export.frames import actions_of, dataset, frame, memberships, objective_of, tables
from tacit.inverse.recovery import Recovery
from tacit.judge.transfers import limited
from tacit.model.mdp import MDP
from tacit.model.objective import Objective
from tacit.model.transitions import Layout

if TYPE_CHECKING:
    from gymnasium import Env

__all__ = ["dataset", "environment", "frame", "memberships", "tables", "wrapper"]

Info = dict[str, object]
StateOf = Callable[[Any], npt.ArrayLike]  # of an observation, or of an action: anything


def environment(
    mdp: MDP,
    objective: Objective | Recovery,
    *,
    layout: Layout | None = None,
    max_steps: int | None = None,
) -> Env:
    """A `gymnasium.Env` in which an agent lives in this world and is paid by this objective.

    Observations and actions are numbers of states and actions. Every step gives the reward of the
    state it was taken in and of the action; `info["costs"]` [K] holds what it costs each
    constraint and `info["cost"]` their sum, as safe reinforcement learning has it. Nothing is
    discounted: `unwrapped.discount` and `unwrapped.budgets` say what the objective asks for.

    An episode terminates at an end, and in a state that no action leaves and where nothing is paid
    or charged any more. What an end pays and charges comes with the step that leads there, times
    the discount: it is due one step later, when nobody asks any more. An episode is truncated after
    `max_steps`; one that starts at an end is over after one step, whatever is done.

    `info["action_mask"]` [A] holds 1 for each action that is available in the new state, else 0;
    what a recovery forbids is not. An action that is not available changes nothing, pays the worst
    that there is (and not more than 0), charges the most, and sets `info["refused"]`.

    Args:
        mdp: the world.
        objective: what pays and what it costs; or a recovery of it.
        layout: names of states and actions, given in `info` as `state` and `action`.
        max_steps: most steps of an episode; None for no limit.
    """
    if not isinstance(mdp, MDP):
        raise InvalidModel(
            f"environment takes an MDP; got {type(mdp).__name__}: tacit.export.wrapper pays an "
            "environment of your own"
        )
    if max_steps is not None and (isinstance(max_steps, bool) or not max_steps >= 1):
        raise InvalidModel(f"max_steps must be a positive integer; got {max_steps!r}")
    if (mask := getattr(objective, "available", None)) is not None:
        mdp = limited(mdp, mask)
    return _environment_class()(mdp, objective_of(objective), layout, max_steps)


def charges(charged: np.ndarray) -> Info:
    """The entries `cost` and `costs` of an `info`, from what each constraint is charged [K]."""
    charged = np.array(charged)
    return {"cost": float(charged.sum()), "costs": charged}


@cache
def _environment_class() -> type:
    """The class, made when it is asked for: its parent is Gymnasium's."""
    gymnasium = optional("gymnasium", "this needs Gymnasium", "gymnasium")

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

        def reset(
            self, *, seed: int | None = None, options: Info | None = None
        ) -> tuple[int, Info]:
            super().reset(seed=seed)
            self._state = int(self.np_random.choice(self.mdp.states, p=self.mdp.initial))
            self._steps = 0
            return self._state, self._named()

        def step(self, action: int) -> tuple[int, float, bool, bool, Info]:
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
            return self.layout.state_name(self._state)

        def _named(self) -> Info:
            mask = self.mdp.available[self._state].astype(np.int8)
            return {"state": self.layout.state_name(self._state), "action_mask": mask}

    return TacitEnvironment


def wrapper(
    env: Env,
    objective: Objective | Recovery,
    *,
    state_of: StateOf | None = None,
    action_of: StateOf | None = None,
    replace_reward: bool = True,
    discount: float = 1.0,
    ends: npt.ArrayLike | None = None,
) -> Env:
    """The environment, with the reward and the costs of the objective added to every step.

    A step is paid by the state it was taken in and by its action. One that terminates the episode
    also gets what its end pays and charges, once, times the discount. `info` gets
    `recovered_reward`, `environment_reward`, `costs` [K] and their sum `cost`.

    Args:
        env: a Gymnasium environment.
        objective: what pays and what it costs; or a recovery of it.
        state_of: the number of the state of an observation; a `Discretiser` is one. None where
            observations are these numbers.
        action_of: the number of an action; None where actions are these numbers.
        replace_reward: whether the reward of a step is the recovered one, or stays as it is.
        discount: of the model: what an end pays comes a step early, with the last one.
        ends: [S] the state in which an episode is over, by the one that is observed as it
            terminates; None for those of `tacit.data.sources.terminal_states` where the environment
            has a table `P` and numbers its states, else for the state itself.
    """
    gymnasium = optional("gymnasium", "this needs Gymnasium", "gymnasium")
    if not isinstance(env, gymnasium.Env):
        raise InvalidModel(f"a Gymnasium environment must be given; got {type(env).__name__}")
    found = objective_of(objective)
    space: Any
    for space, given, name, count in (
        (env.observation_space, state_of, "state_of", found.reward.shape[0]),
        (env.action_space, action_of, "action_of", actions_of(found)),
    ):
        if given is not None:
            continue
        if not isinstance(space, gymnasium.spaces.Discrete):
            wanted = f"which number a value of {space} has: it is no Discrete space"
            raise InvalidModel(f"{name} must say {wanted}")
        if count and (space.start != 0 or space.n > count):
            known = f"the objective knows {count} numbers, from 0"
            raise InvalidModel(f"{known}; got {space}: pass {name}")
    over = where_over(*_terminals(env, found, ends, state_of is None))
    if not 0.0 <= discount <= 1.0:
        raise InvalidModel(f"discount must be in [0, 1]; got {discount!r:.60}")
    return _wrapper_class()(env, found, (state_of, action_of), replace_reward, discount, over)


def _terminals(
    env: Env, objective: Objective, ends: npt.ArrayLike | None, plain: bool
) -> tuple[npt.ArrayLike | None, int]:
    """The states in which episodes end, None for all as observed; how many. `plain`: numbered."""
    known = len(objective.reward)
    count = int(getattr(env.observation_space, "n", known)) if plain else known
    if ends is None:
        found = terminal_states(env) if plain else None
        # An objective of fewer states was recovered without the ends that are split off.
        fits = found is not None and len(found) == count and found.max() < known
        return found if fits else None, count
    if (most := np.max(ends, initial=-1)) >= known:
        raise InvalidModel(f"ends must be states of the objective, 0..{known - 1}; got {most}")
    return ends, count


@cache
def _wrapper_class() -> type:
    """The class, made when it is asked for: its parent is Gymnasium's."""
    gymnasium = optional("gymnasium", "this needs Gymnasium", "gymnasium")

    class RecoveredObjective(gymnasium.Wrapper):
        """An environment paid by a recovered objective."""

        def __init__(
            self,
            env: Env,
            objective: Objective,
            rules: tuple[StateOf | None, StateOf | None],
            replace_reward: bool,
            discount: float,
            ends: np.ndarray,
        ) -> None:
            super().__init__(env)
            actions = actions_of(objective)
            states = objective.reward.shape[0]
            self.rewards, self.costs = objective.tables_of(states, actions or 1)
            self.budgets = objective.budgets
            self._rules, self._by_action = rules, actions > 0
            self._discount, self._ends = discount, ends
            self._state, self._replace = 0, replace_reward

        def reset(self, **options: Any) -> tuple[npt.ArrayLike, Info]:
            observation, info = self.env.reset(**options)
            self._see(observation)
            return observation, info

        def step(self, action: npt.ArrayLike) -> tuple[npt.ArrayLike, float, bool, bool, Info]:
            state, taken = self._state, 0
            if self._by_action:
                taken = numbered(action, self._rules[1], self.rewards.shape[1], "action_of")
            observation, reward, terminated, truncated, info = self.env.step(action)
            self._see(observation)
            paid, charged = self.rewards[state, taken], self.costs[:, state, taken]
            if terminated:
                end = int(self._ends[self._state])
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
            return observation, paid if self._replace else reward, terminated, truncated, info

        def _see(self, observation: npt.ArrayLike) -> None:
            count = self.rewards.shape[0]
            self._state = numbered(observation, self._rules[0], count, "state_of")

    return RecoveredObjective
