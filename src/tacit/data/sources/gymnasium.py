"""Gymnasium: discrete spaces as numbers from 0, tables `P`, and action masks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidDemonstrations, InvalidModel, optional

# Most elements of a space: numbers of states and actions fit 32 bits.
MOST_ELEMENTS = 2**31 - 1

# Nouns of Gymnasium, which is not needed to import this.
Space: TypeAlias = Any
Element: TypeAlias = Any
Environment: TypeAlias = Any
# P[state][action]: (probability, next state, reward, done) of every outcome.
OutcomeTable = Mapping[int, Any] | Sequence[Any]


def size(space: Space, what: str) -> int:
    """The number of elements of a discrete space; `InvalidDemonstrations` for any other one."""
    counts = _counts(space)
    if counts is None:
        option = ", and give it as action_discretiser" if "action" in what else ""
        raise InvalidDemonstrations(
            f"{what} must be discrete; got {space!s:.80}: discretise first, "
            f"for example with tacit.data.sources.Discretiser{option}"
        )
    count = math.prod(counts)
    if not 0 < count <= MOST_ELEMENTS:
        raise InvalidDemonstrations(
            f"{what} must be at most {MOST_ELEMENTS}; {space!s:.80} has {count}"
        )
    return count


def number(space: Space, value: Element, what: str) -> np.ndarray:
    """The number of an element of a discrete space, or of each of an array of elements.

    The parts of a compound space are counted in row-major order, the last one fastest.
    """
    count = size(space, what)
    digits = tuple(_digits(space, value, what))
    try:
        return np.asarray(np.ravel_multi_index(digits, _counts(space) or []))
    except ValueError:
        raise InvalidDemonstrations(
            f"{what} must lie in their space, of {count} elements; got {value!r:.60}"
        ) from None


def element(space: Space, index: int) -> Element:
    """The element of a discrete space that has this number."""
    digits = np.unravel_index(index, _counts(space) or [])
    return _element(space, map(int, digits))


def _element(space: Space, digits: Iterator[int]) -> Element:
    """The element whose parts have the next of these numbers, each from 0."""
    if hasattr(space, "spaces"):
        elements = {key: _element(part, digits) for key, part in _parts(space)}
        return tuple(elements.values()) if isinstance(space.spaces, tuple) else elements
    start, lengths = getattr(space, "start", 0), _lengths(space)
    if lengths.ndim == 0:
        return next(digits) + int(start)
    numbers = np.array([next(digits) for _ in range(lengths.size)])
    return (numbers.reshape(lengths.shape) + start).astype(space.dtype)


def _digits(space: Space, value: Element, what: str) -> list[np.ndarray]:
    """The numbers of the parts of an element, each from 0; arrays of elements alike."""
    if hasattr(space, "spaces"):
        parts = [_digits(part, value[key], what) for key, part in _parts(space)]
        return [digit for part in parts for digit in part]
    array = np.asarray(value)
    if array.dtype.kind not in "iub":
        raise InvalidDemonstrations(f"{what} must be integers; got {array.dtype}")
    array = array.astype(np.int64) - getattr(space, "start", 0)
    leading = array.ndim - _lengths(space).ndim  # axes of an array of elements
    flat = array.reshape(*array.shape[:leading], math.prod(array.shape[leading:]))
    return [*np.moveaxis(flat, -1, 0)]


def _parts(space: Space) -> list[tuple[str | int, Space]]:
    """(key, space) of the parts of a `Tuple` or a `Dict`."""
    spaces = space.spaces
    return [*spaces.items()] if hasattr(spaces, "items") else [*enumerate(spaces)]


def _lengths(space: Space) -> np.ndarray:
    """How many elements a `Discrete`, `MultiDiscrete` or `MultiBinary` space has in each place."""
    if type(space).__name__ == "MultiBinary":
        return np.full(space.shape, 2)
    return np.asarray(space.nvec if hasattr(space, "nvec") else space.n)


def _counts(space: Space) -> list[int] | None:
    """How many elements each part of a space has, one after the other; None if not discrete."""
    if hasattr(space, "spaces"):
        parts = [_counts(part) for _, part in _parts(space)]
        return None if None in parts else [count for part in parts for count in part or ()]
    if type(space).__name__ not in ("Discrete", "MultiDiscrete", "MultiBinary"):
        return None
    return np.ravel(_lengths(space)).tolist()


def is_discrete(space: Space) -> bool:
    """Whether the elements of a space can be numbered."""
    return _counts(space) is not None


def measurement_names(space: Space, name: str = "", what: str = "observations") -> list[str]:
    """D names of what is measured in a space: parts of a `Dict` by key, of a box by number."""
    prefix = f"{name}_" if name else ""
    if hasattr(space, "spaces"):
        parts = [measurement_names(part, f"{prefix}{key}", what) for key, part in _parts(space)]
        return [part_name for names in parts for part_name in names]
    if type(space).__name__ != "Box" and _counts(space) is None:
        raise InvalidDemonstrations(
            f"{what} must be numbers of a fixed length; got {space!s:.80}: wrap the environment to "
            "give an array"
        )
    shape = () if type(space).__name__ == "Discrete" else getattr(space, "shape", ())
    count = math.prod(shape or (1,))
    if name and count == 1:
        return [name]
    return [f"{prefix or 'x'}{number}" for number in range(count)]


def measurements(space: Space, values: Element, count: int) -> np.ndarray:
    """[count, d] the measurements of elements of a space, its parts side by side.

    A discrete element is one measurement, its number.

    Args:
        space: as `measurement_names` knows it.
        values: one element, or arrays of `count` of them.
        count: how many.
    """
    if hasattr(space, "spaces"):
        parts = [measurements(part, values[key], count) for key, part in _parts(space)]
        return np.concatenate(parts, axis=1)
    return np.asarray(values, np.float64).reshape(count, -1)


def make_environment(name: str) -> Environment:
    """The Gymnasium environment of that name."""
    gymnasium = optional("gymnasium", f"{name!r} needs Gymnasium", "gymnasium")
    try:
        return gymnasium.make(name)
    except gymnasium.error.Error as error:
        reason = " ".join(str(error).split())
        raise InvalidModel(f"Gymnasium cannot make {name!r}: {reason:.120}") from None


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcomes:
    """The outcomes listed in a table `P`, one after the other, in M rows.

    Attributes:
        shape: (S, A), how many states and actions there are.
        moves: [M, 3] state, action and next state.
        probabilities: [M] of each outcome.
        rewards: [M] of each outcome.
        done: [M] bool, whether the outcome ends the episode.
    """

    shape: tuple[int, int]
    moves: np.ndarray
    probabilities: np.ndarray
    rewards: np.ndarray
    done: np.ndarray

    @classmethod
    def of(cls, table: OutcomeTable) -> Outcomes:
        """The outcomes of a table, checked entry by entry."""
        states, actions = len(table), len(table[0])
        rows = []
        for s in range(states):
            if len(table[s]) != actions:
                raise InvalidModel(
                    f"every state of P must have the same {actions} actions; "
                    f"state {s} has {len(table[s])}"
                )
            for a in range(actions):
                rows += [(s, a, *outcome) for outcome in _outcomes(table, s, a)]
        columns = np.array(rows, dtype=np.float64).T
        state, action, probability, next_state, reward, done = columns
        is_state = np.isin(next_state, np.arange(states))  # false for fractions and NaN too
        if not is_state.all():
            row = int(np.argmin(is_state))
            raise InvalidModel(
                f"next states must be in 0..{states - 1}; "
                f"P[{state[row]:.0f}][{action[row]:.0f}] has {next_state[row]:g}"
            )
        return cls(
            shape=(states, actions),
            moves=np.column_stack([state, action, next_state]).astype(np.int64),
            probabilities=probability,
            rewards=reward,
            done=done != 0,
        )

    def terminals(self, initial: np.ndarray) -> np.ndarray:
        """[S] where an episode is over that is `done` in each state; -1 where none is.

        `done` sits on outcomes, not on states. A state that nothing enters in another way is an end
        itself: nobody acts there, whatever its rows say. One that is also entered without `done`,
        or started in, is two: the end has a number of its own, S or more, in the order of states.

        Args:
            initial: [S] distribution of the first state.
        """
        states = self.shape[0]
        state, _, next_state = self.moves.T
        ending = self.done & (self.probabilities > 0)
        going_on = ~self.done & (self.probabilities > 0)
        acting = (initial > 0) | ~np.isin(np.arange(states), next_state[ending])
        while True:  # each round lets another state act, or is the last
            entered = acting.copy()
            entered[next_state[going_on & acting[state]]] = True
            if (entered == acting).all():
                break
            acting = entered
        is_end = np.zeros_like(acting)
        is_end[next_state[ending & acting[state]]] = True
        ends = np.where(acting, -1, np.arange(states))
        twins = np.flatnonzero(acting & is_end)
        ends[twins] = states + np.arange(len(twins))
        return ends


def _outcomes(
    table: OutcomeTable, state: int, action: int
) -> list[tuple[float, float, float, float]]:
    """The outcomes (probability, next state, reward, done) of one action, as numbers."""
    place = f"P[{state}][{action}]"
    try:
        outcomes = [(float(p), float(n), float(r), float(d)) for p, n, r, d in table[state][action]]
    except (TypeError, ValueError, KeyError, IndexError):
        raise InvalidModel(
            f"{place} must be a list of (probability, next state, reward, done)"
        ) from None
    if not outcomes:
        raise InvalidModel(f"{place} must list at least one outcome; got none")
    return outcomes


def terminal_states(environment: Environment) -> np.ndarray | None:
    """[S] where an episode is over that terminates in each state, -1 where none does.

    None for an environment without a table `P`. The numbers are those of `tacit.worlds.gymnasium`:
    a state that is also entered without an end has a second one for its end, number S or more.

    Args:
        environment: a Gymnasium environment, or its name.
    """
    if isinstance(environment, str):
        environment = make_environment(environment)
    source = getattr(environment, "unwrapped", environment)
    table = getattr(source, "P", None)
    if table is None:
        return None
    initial = getattr(source, "initial_state_distrib", None)
    if initial is None:
        initial = np.arange(len(table)) == 0
    return Outcomes.of(table).terminals(np.asarray(initial))


def action_masks(environment: Environment) -> np.ndarray | None:
    """[S, A] bool, the actions that `action_mask(state)` of an environment allows, as Taxi's does.

    None where it has no such method.

    Args:
        environment: a Gymnasium environment whose observations and actions are discrete.
    """
    mask_of = getattr(environment.unwrapped, "action_mask", None)
    if not callable(mask_of):
        return None
    states = size(environment.observation_space, "observations")
    actions = size(environment.action_space, "actions")
    masks = np.array([mask_of(state) for state in range(states)]).astype(bool)
    if masks.shape != (states, actions):
        raise InvalidModel(f"action masks must have shape {(states, actions)}; got {masks.shape}")
    return masks


def checked_number(
    element: npt.ArrayLike, rule: Callable[[Element], npt.ArrayLike] | None, count: int, name: str
) -> int:
    """The number of an observation or an action, below `count`.

    Args:
        element: the observation or action.
        rule: gives its number; None where it is one.
        count: how many there are.
        name: of the rule, for messages.
    """
    answer = np.asarray(element if rule is None else rule(element))
    if answer.size != 1 or not np.issubdtype(answer.dtype, np.integer):
        raise InvalidModel(f"{name} must give one integer; got {answer!r:.60}")
    index = int(answer.reshape(()))
    if not 0 <= index < count:
        raise InvalidModel(f"{name} must give a number in 0..{count - 1}; got {index}")
    return index
