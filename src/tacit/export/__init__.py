"""Out to the tools people use: Gymnasium environments, wrappers, frames and draws for ArviZ.

An environment or a wrapper pays the reward and charges the costs of an objective. Frames are of an
objective or a recovery; draws of its coefficients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tacit.data.sources.discretise import Discretiser
from tacit.data.sources.gymnasium import terminal_states
from tacit.data.sources.recordings import ends_of, where_over
from tacit.errors import InvalidModel, optional
from tacit.export.coefficients import draws, inference_data
from tacit.export.frames import actions_of, frame, intention_shares, memberships, objective_of
from tacit.model.layout import Layout
from tacit.model.mdp import MDP
from tacit.model.objective import Objective
from tacit.recovery import Recovery

if TYPE_CHECKING:
    from gymnasium import Env

__all__ = [
    "draws",
    "environment",
    "frame",
    "inference_data",
    "intention_shares",
    "memberships",
    "wrapper",
]


def __dir__() -> list[str]:
    """What is in this namespace."""
    return sorted(__all__)


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
        mdp = mdp.restricted_to(mask)
    optional("gymnasium", "this needs Gymnasium", "gymnasium")
    from tacit.export.environments import TacitEnvironment

    return TacitEnvironment(mdp, objective_of(objective), layout, max_steps)


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
            has a table `P` and numbers its states, else for the state itself. A `Discretiser`
            carries its own (`with_ends`). Where the objective knows more states than are observed,
            they must be said.
    """
    gymnasium = optional("gymnasium", "this needs Gymnasium", "gymnasium")
    if not isinstance(env, gymnasium.Env):
        raise InvalidModel(f"a Gymnasium environment must be given; got {type(env).__name__}")
    payoffs = objective_of(objective)
    space: Any
    for space, rule, name, count in (
        (env.observation_space, state_of, "state_of", payoffs.reward.shape[0]),
        (env.action_space, action_of, "action_of", actions_of(payoffs)),
    ):
        if rule is not None:
            continue
        if not isinstance(space, gymnasium.spaces.Discrete):
            wanted = f"which number a value of {space} has: it is no Discrete space"
            raise InvalidModel(f"{name} must say {wanted}")
        if count and (space.start != 0 or space.n > count):
            known = f"the objective knows {count} numbers, from 0"
            raise InvalidModel(f"{known}; got {space}: pass {name}")
    over = _ends(env, payoffs, ends_of(ends, state_of), state_of)
    if ends is None and state_of is not None and not isinstance(state_of, Discretiser):
        over = np.where(_may_end(objective, len(over)), over, -1)
    if not 0.0 <= discount <= 1.0:
        raise InvalidModel(f"discount must be in [0, 1]; got {discount!r:.60}")
    from tacit.export.environments import RecoveredObjective

    return RecoveredObjective(env, payoffs, (state_of, action_of), replace_reward, discount, over)


def _may_end(objective: Objective | Recovery, states: int) -> np.ndarray:
    """[S] bool where an episode may be over: at the ends of a recovery, if it has any."""
    solution = getattr(objective, "solution", None)
    if solution is None or solution.policy.any(axis=1).all():
        return np.ones(states, bool)
    return ~solution.policy.any(axis=1)


def _ends(
    env: Env, objective: Objective, ends: npt.ArrayLike | None, state_of: StateOf | None
) -> np.ndarray:
    """[S] the state of the objective in which an episode is over that terminates in each one."""
    known = len(objective.reward)
    observed: int = getattr(env.observation_space, "n", known) if state_of is None else known
    observed = state_of.states if isinstance(state_of, Discretiser) else int(observed)
    if ends is None and state_of is None:
        terminal = terminal_states(env)
        # An objective of fewer states was recovered without the ends that are split off.
        fits = terminal is not None and len(terminal) == observed and terminal.max() < known
        ends = terminal if fits else None
    if ends is None and observed < known:
        raise InvalidModel(
            f"the objective knows {known} states and {observed} are observed: say by ends= in "
            "which state an episode is over that terminates in each of them (a Discretiser "
            "carries its ends: with_ends)"
        )
    if (most := np.max(-1 if ends is None else ends, initial=-1)) >= known:
        raise InvalidModel(f"ends must be states of the objective, 0..{known - 1}; got {most}")
    return where_over(ends, observed)
