"""Gymnasium: discrete spaces as numbers from 0, tables `P`, and action masks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidDemonstrations, InvalidModel, optional

MOST = 2**31 - 1
# How a discretiser of actions is given, to end a message with.
ACTIONS = ", and give it as action_discretiser"

# Spaces, their elements and environments: Gymnasium is not needed to import this.
Foreign = Any
# P[state][action]: (probability, next state, reward, done) of every outcome.
OutcomeTable = Mapping[int, Any] | Sequence[Any]


def size(space: Foreign, what: str) -> int:
    """The number of elements of a discrete space; `InvalidDemonstrations` for any other one."""
    counts = _counts(space)
    if counts is None:
        raise InvalidDemonstrations(
            f"{what} must be discrete; got {space!s:.80}: discretise first, "
            f"for example with tacit.data.sources.Discretiser{ACTIONS if 'action' in what else ''}"
        )
    if not 0 < (count := math.prod(counts)) <= MOST:
        raise InvalidDemonstrations(f"{what} must be at most {MOST}; {space!s:.80} has {count}")
    return count


def number(space: Foreign, value: Foreign, what: str) -> np.ndarray:
    """The number of an element of a discrete space, or of each of an array of elements.

    The parts of a compound space are counted in row-major order, the last one fastest.
    """
    count, digits = size(space, what), _digits(space, value, what)
    try:
        return np.asarray(np.ravel_multi_index(tuple(digits), _counts(space) or []))
    except ValueError:
        raise InvalidDemonstrations(
            f"{what} must lie in their space, of {count} elements; got {value!r:.60}"
        ) from None


def element(space: Foreign, index: int) -> Foreign:
    """The element of a discrete space that has this number."""
    digits = np.unravel_index(index, _counts(space) or [])
    return _element(space, iter([int(digit) for digit in digits]))


def _element(space: Foreign, digits: Iterator[int]) -> Foreign:
    """The element whose parts have these numbers, each from 0."""
    if hasattr(space, "spaces"):
        chosen = {key: _element(part, digits) for key, part in _parts(space)}
        return tuple(chosen.values()) if isinstance(space.spaces, tuple) else chosen
    start, lengths = getattr(space, "start", 0), _lengths(space)
    if lengths.ndim == 0:
        return next(digits) + int(start)
    own = np.array([next(digits) for _ in range(lengths.size)])
    return (own.reshape(lengths.shape) + start).astype(space.dtype)


def _digits(space: Foreign, value: Foreign, what: str) -> list[np.ndarray]:
    """The numbers of the parts of an element, each from 0; arrays of elements alike."""
    if hasattr(space, "spaces"):
        parts = [_digits(part, value[key], what) for key, part in _parts(space)]
        return [digit for part in parts for digit in part]
    array = np.asarray(value)
    if array.dtype.kind not in "iub":
        raise InvalidDemonstrations(f"{what} must be integers; got {array.dtype}")
    array, axes = array.astype(np.int64) - getattr(space, "start", 0), _lengths(space).ndim
    flat = array.reshape(*array.shape[: array.ndim - axes], -1) if axes else array[..., None]
    return [*np.moveaxis(flat, -1, 0)]


def _parts(space: Foreign) -> list[tuple[Foreign, Foreign]]:
    """(key, space) of the parts of a `Tuple` or a `Dict`."""
    spaces = space.spaces
    return [*spaces.items()] if hasattr(spaces, "items") else [*enumerate(spaces)]


def _lengths(space: Foreign) -> np.ndarray:
    """How many elements a `Discrete`, `MultiDiscrete` or `MultiBinary` space has in each place."""
    if type(space).__name__ == "MultiBinary":
        return np.full(space.shape, 2)
    return np.asarray(space.nvec if hasattr(space, "nvec") else space.n)


def _counts(space: Foreign) -> list[int] | None:
    """How many elements each part of a space has, one after the other; None if not discrete."""
    if hasattr(space, "spaces"):
        parts = [_counts(part) for _, part in _parts(space)]
        return None if None in parts else [count for part in parts for count in part or ()]
    if type(space).__name__ not in ("Discrete", "MultiDiscrete", "MultiBinary"):
        return None
    return np.ravel(_lengths(space)).tolist()


def is_discrete(space: Foreign) -> bool:
    """Whether the elements of a space can be numbered."""
    return _counts(space) is not None


def measurement_names(space: Foreign, name: str = "", what: str = "observations") -> list[str]:
    """D names of what is measured in a space: parts of a `Dict` by key, of a box by number."""
    inside = f"{name}_" if name else "x"
    if hasattr(space, "spaces"):
        prefix = f"{name}_" if name else ""
        parts = [measurement_names(part, f"{prefix}{key}", what) for key, part in _parts(space)]
        return [one for names in parts for one in names]
    count = (
        1 if type(space).__name__ == "Discrete" else math.prod(getattr(space, "shape", ()) or (1,))
    )
    if type(space).__name__ != "Box" and _counts(space) is None:
        raise InvalidDemonstrations(
            f"{what} must be numbers of a fixed length; got {space!s:.80}: wrap the environment to "
            "give an array"
        )
    return [name] if name and count == 1 else [f"{inside}{at}" for at in range(count)]


def measurements(space: Foreign, values: Foreign, count: int) -> np.ndarray:
    """[count, d] so many elements of a space, its parts side by side; a discrete one is a number.

    Args:
        space: as `measurement_names` knows it.
        values: one element, or arrays of `count` of them.
        count: how many.
    """
    if hasattr(space, "spaces"):
        parts = [measurements(part, values[key], count) for key, part in _parts(space)]
        return np.concatenate(parts, axis=1)
    return np.asarray(values, np.float64).reshape(count, -1)


def made(name: str) -> Foreign:
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
        rewards: [M] what it pays.
        done: [M] bool, whether it ends the episode.
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
                rows += [(s, a, *outcome) for outcome in _listed(table, s, a)]
        columns = np.array(rows, dtype=np.float64)
        inside = np.isin(columns[:, 3], np.arange(states))  # false for fractions and NaN too
        if not inside.all():
            s, a, _, following = columns[int(np.argmin(inside)), :4]
            raise InvalidModel(
                f"next states must be in 0..{states - 1}; P[{s:.0f}][{a:.0f}] has {following:g}"
            )
        moves = columns[:, [0, 1, 3]].astype(np.int64)
        return cls(
            shape=(states, actions),
            moves=moves,
            probabilities=columns[:, 2],
            rewards=columns[:, 4],
            done=columns[:, 5] != 0,
        )

    def terminals(self, initial: np.ndarray) -> np.ndarray:
        """[S] where an episode is over that is `done` in each state; -1 where none is.

        `done` sits on outcomes, not on states. A state that nothing enters in another way is an end
        itself: nobody acts there, whatever its rows say. One that is also entered without `done`,
        or started in, is two: the end has a number of its own, S or more, in the order of states.

        Args:
            initial: [S] distribution of the first state.
        """
        begin, after, likely = self.moves[:, 0], self.moves[:, 2], self.probabilities > 0
        acting = (initial > 0) | ~np.isin(np.arange(self.shape[0]), after[self.done & likely])
        while True:  # each round lets another state act, or is the last
            entered = acting.copy()
            entered[after[~self.done & likely & acting[begin]]] = True
            if (entered == acting).all():
                break
            acting = entered
        over = np.zeros_like(acting)
        over[after[self.done & likely & acting[begin]]] = True
        places = np.where(acting, -1, np.arange(self.shape[0]))
        places[acting & over] = self.shape[0] + np.arange(int((acting & over).sum()))
        return places


def _listed(
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


def terminal_states(environment: Foreign) -> np.ndarray | None:
    """[S] where an episode is over that terminates in each state, -1 where none does.

    None for an environment without a table `P`. The numbers are those of `tacit.worlds.gymnasium`:
    a state that is also entered without an end has a second one for its end, number S or more.

    Args:
        environment: a Gymnasium environment, or its name.
    """
    source = made(environment) if isinstance(environment, str) else environment
    source = getattr(source, "unwrapped", source)
    table, start = getattr(source, "P", None), getattr(source, "initial_state_distrib", None)
    if table is None:
        return None
    start = np.arange(len(table)) == 0 if start is None else np.asarray(start)
    return Outcomes.of(table).terminals(start)


def action_masks(environment: Foreign) -> np.ndarray | None:
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


def numbered(
    element: npt.ArrayLike, rule: Callable[[Foreign], npt.ArrayLike] | None, count: int, name: str
) -> int:
    """The number of an observation or an action, checked."""
    number = np.asarray(element if rule is None else rule(element))
    if number.size != 1 or not np.issubdtype(number.dtype, np.integer):
        raise InvalidModel(f"{name} must give one integer; got {number!r:.60}")
    if not 0 <= (index := int(number.reshape(()))) < count:
        raise InvalidModel(f"{name} must give a number in 0..{count - 1}; got {index}")
    return index
