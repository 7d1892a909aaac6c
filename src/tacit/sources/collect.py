"""Demonstrations collected in a Gymnasium environment, by any policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tacit.demonstrations import Demonstrations
from tacit.errors import InvalidModel
from tacit.sources.spaces import element, made, number, size
from tacit.transitions import ROW_SUM_TOLERANCE


def rollouts(
    environment: Any,
    policy: Any,
    *,
    episodes: int = 100,
    seed: int = 0,
    max_steps: int = 1000,
    sink: bool = False,
) -> Demonstrations:
    """Demonstrations of a policy in a discrete environment.

    An episode that the environment terminates has `ended`; one that it truncates, or that is cut
    after `max_steps`, has not. The same seed gives the same episodes, if the environment keeps to
    its own seed. Nothing is closed.

    Args:
        environment: a Gymnasium environment whose observations and actions are discrete, or its
            name. Elements of compound spaces are numbered in row-major order.
        policy: [S, A] one distribution over actions a state; a row S for the sink may follow. Or a
            function from the number of a state to that of an action.
        episodes: how many to collect.
        seed: of the environment and of the choices.
        max_steps: most steps of an episode.
        sink: whether a terminated episode ends in an added state, number S, as the world of
            `tacit.worlds.gymnasium` has it; else in the state that was observed last.
    """
    environment = made(environment) if isinstance(environment, str) else environment
    states = size(environment.observation_space, "observations")
    actions = size(environment.action_space, "actions")
    for name, value in (("episodes", episodes), ("max_steps", max_steps)):
        if value < 1:
            raise InvalidModel(f"{name} must be at least 1; got {value}")
    choose = _chooser(policy, states, actions, np.random.default_rng(seed))
    seen: list[int] = []
    taken: list[int] = []
    offsets, ended, final = [0], [], []
    for episode in range(episodes):
        observation, _ = environment.reset(seed=seed if episode == 0 else None)
        terminated = truncated = False
        for _ in range(max_steps):
            state = int(number(environment.observation_space, observation, "observations"))
            action = choose(state)
            seen.append(state)
            taken.append(action)
            chosen = element(environment.action_space, action)
            observation, _, terminated, truncated, _ = environment.step(chosen)
            if terminated or truncated:
                break
        offsets.append(len(seen))
        ended.append(bool(terminated))
        last = int(number(environment.observation_space, observation, "observations"))
        final.append(states if sink and terminated else last)
    return Demonstrations(seen, taken, offsets, ended, final)


def _chooser(
    policy: Any, states: int, actions: int, random: np.random.Generator
) -> Callable[[int], int]:
    """A function from a state to an action: the given one, checked, or draws from a table."""
    if callable(policy):

        def ask(state: int) -> int:
            action = np.asarray(policy(state))
            if action.dtype.kind not in "iu" or action.ndim or not 0 <= action < actions:
                raise InvalidModel(
                    f"the policy must return an action from 0 to {actions - 1}; "
                    f"got {action!s:.40} in state {state}"
                )
            return int(action)

        return ask
    table = np.asarray(policy, dtype=np.float64)
    if table.shape not in ((states, actions), (states + 1, actions)):
        raise InvalidModel(
            f"the policy must be a function, or a table of shape {(states, actions)}; "
            f"got shape {table.shape}"
        )
    odd = ~((table >= 0).all(axis=1) & (np.abs(table.sum(axis=1) - 1) <= ROW_SUM_TOLERANCE))
    if odd.any():
        state = int(np.argmax(odd))
        raise InvalidModel(
            f"the policy must be distributions over actions; state {state} has {table[state]}"
        )
    likely = np.cumsum(table, axis=1)
    # Rounding must not choose an action beyond the last one that is possible.
    last = actions - 1 - np.argmax(table[:, ::-1] > 0, axis=1)

    def draw(state: int) -> int:
        chosen = int(np.searchsorted(likely[state], random.random(), side="right"))
        return min(chosen, int(last[state]))

    return draw
