"""The states and actions of Gymnasium's discrete spaces, as numbers from 0."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.model.transitions import ROW_SUM_TOLERANCE

MOST = 2**31 - 1

# Spaces, their elements and environments: Gymnasium is not needed to import this.
Foreign = Any


def size(space: Foreign, what: str) -> int:
    """The number of elements of a discrete space; `InvalidDemonstrations` for any other one."""
    count = _count(space)
    if count is None:
        raise InvalidDemonstrations(
            f"{what} must be discrete; got {space!s:.80}: discretise first, "
            "for example with tacit.data.sources.Discretiser"
        )
    if not 0 < count <= MOST:
        raise InvalidDemonstrations(f"{what} must be at most {MOST}; {space!s:.80} has {count}")
    return count


def number(space: Foreign, value: Foreign, what: str) -> np.ndarray:
    """The number of an element of a discrete space, or of each of an array of elements.

    The parts of a compound space are counted in row-major order, the last one fastest.
    """
    kind = type(space).__name__
    if kind in ("Tuple", "Dict"):
        parts = [number(part, value[key], what) for key, part in _parts(space)]
        counts = [size(part, what) for _, part in _parts(space)]
        return _raveled(parts, counts, value, what)
    array = np.asarray(value)
    if array.dtype.kind not in "iub":
        raise InvalidDemonstrations(f"{what} must be integers; got {array.dtype}")
    array = array.astype(np.int64) - getattr(space, "start", 0)
    counts = [space.n] if kind == "Discrete" else [*np.ravel(_lengths(space))]
    if kind == "Discrete":
        return _raveled([array], counts, value, what)
    flat = array.reshape(*array.shape[: array.ndim - _lengths(space).ndim], -1)
    return _raveled([*np.moveaxis(flat, -1, 0)], counts, value, what)


def element(space: Foreign, index: int) -> Foreign:
    """The element of a discrete space that has this number."""
    kind = type(space).__name__
    if kind in ("Tuple", "Dict"):
        counts = [size(part, "part") for _, part in _parts(space)]
        places = np.unravel_index(index, counts)
        pairs = zip(_parts(space), places, strict=True)
        chosen = {key: element(part, int(place)) for (key, part), place in pairs}
        return tuple(chosen.values()) if kind == "Tuple" else chosen
    if kind == "Discrete":
        return int(index) + int(space.start)
    lengths = _lengths(space)
    places = np.array(np.unravel_index(index, [*np.ravel(lengths)]))
    return (places.reshape(lengths.shape) + getattr(space, "start", 0)).astype(space.dtype)


def _parts(space: Foreign) -> list[tuple[Foreign, Foreign]]:
    spaces = space.spaces
    return [*spaces.items()] if hasattr(spaces, "items") else [*enumerate(spaces)]


def _lengths(space: Foreign) -> np.ndarray:
    return np.asarray(space.nvec) if hasattr(space, "nvec") else np.full(space.shape, 2)


def _count(space: Foreign) -> int | None:
    kind = type(space).__name__
    if kind == "Discrete":
        return int(space.n)
    if kind in ("MultiDiscrete", "MultiBinary"):
        return math.prod(np.ravel(_lengths(space)).tolist())
    if kind in ("Tuple", "Dict"):
        counts = [_count(part) for _, part in _parts(space)]
        return None if None in counts else math.prod(count or 0 for count in counts)
    return None


def _raveled(parts: list[np.ndarray], counts: list[int], value: Foreign, what: str) -> np.ndarray:
    try:
        return np.asarray(np.ravel_multi_index(tuple(parts), tuple(map(int, counts))))
    except ValueError:
        raise InvalidDemonstrations(
            f"{what} must lie in their space, of {math.prod(map(int, counts))} elements; "
            f"got {value!r:.60}"
        ) from None


def made(name: str) -> Foreign:
    """The Gymnasium environment of that name."""
    try:
        import gymnasium
    except ImportError:
        raise InvalidModel(
            f"{name!r} needs Gymnasium, which is not installed: pip install 'tacit-irl[gymnasium]'"
        ) from None
    try:
        return gymnasium.make(name)
    except gymnasium.error.Error as error:
        reason = " ".join(str(error).split())
        raise InvalidModel(f"Gymnasium cannot make {name!r}: {reason:.120}") from None


def rollouts(
    environment: Foreign,
    policy: npt.ArrayLike | Callable[[int], int],
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
    return Demonstrations(
        np.array(seen), np.array(taken), np.array(offsets), np.array(ended), np.array(final)
    )


def _chooser(
    policy: npt.ArrayLike | Callable[[int], int],
    states: int,
    actions: int,
    random: np.random.Generator,
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
