"""Columns given in Python, as lists or arrays: checked, and joined from trajectories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tacit.errors import InvalidDemonstrations
from tacit.files.columns import TOP


def join(
    trajectories: Iterable[tuple[Any, Any]],
    state_names: Sequence[str] = (),
    action_names: Sequence[str] = (),
) -> dict[str, Any]:
    """The arguments of `Demonstrations`, from (states, actions) pairs of numbers or known names."""
    states, actions, final = [], [], []
    for number, trajectory in enumerate(trajectories):
        try:
            seen, taken = trajectory
        except (TypeError, ValueError):
            raise InvalidDemonstrations(
                f"trajectory {number} must be a pair (states, actions); got {trajectory!r:.60}"
            ) from None
        seen = _numbered(seen, state_names, f"trajectory {number}: states")
        taken = _numbered(taken, action_names, f"trajectory {number}: actions")
        if len(seen) not in (len(taken), len(taken) + 1):
            raise InvalidDemonstrations(
                f"trajectory {number} must hold as many states as actions, or one more; "
                f"got {len(seen)} and {len(taken)}"
            )
        if len(taken) == 0:
            raise InvalidDemonstrations(f"trajectory {number} holds no step")
        final.append(int(seen[-1]) if len(seen) > len(taken) else -1)
        states.append(seen[: len(taken)])
        actions.append(taken)
    if not states:
        raise InvalidDemonstrations("demonstrations must hold at least one trajectory; got none")
    return {
        "states": np.concatenate(states),
        "actions": np.concatenate(actions),
        "offsets": np.concatenate([[0], np.cumsum([len(taken) for taken in actions])]),
        "final_states": final,
    }


def _numbered(values: Any, names: Sequence[str], what: str) -> np.ndarray:
    """[N] the integers of a list of integers or of known names."""
    if not names or not isinstance(values, list | tuple | np.ndarray):
        return integers(values, what)
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "UTO":
        return integers(array, what)
    places = {name: at for at, name in enumerate(names)}
    strange = next((value for value in array.tolist() if value not in places), None)
    if strange is not None:
        raise InvalidDemonstrations(f"{what} must be names of the layout; got {strange!r:.60}")
    return np.array([places[value] for value in array.tolist()], dtype=np.int32)


def flags(values: Any, name: str) -> np.ndarray:
    """[E] the column as booleans; `InvalidDemonstrations` if it is anything but true and false."""
    array = np.array(values)
    if array.dtype.kind in "iu" and ((array == 0) | (array == 1)).all():
        array = array.astype(bool)
    if array.size and array.dtype != bool:
        raise InvalidDemonstrations(f"{name} must be true or false; got {array.dtype}")
    return array.astype(bool)


def texts(values: Any, name: str) -> np.ndarray:
    """[E] the column as texts; `InvalidDemonstrations` if one is missing."""
    array = np.asarray(values)
    if array.dtype.kind == "O" or array.dtype.kind not in "UTiu":
        listed = array.ravel().tolist()
        odd = next(
            (at for at, value in enumerate(listed) if not isinstance(value, str | int)), None
        )
        if odd is not None:
            raise InvalidDemonstrations(f"{name} must be names; entry {odd} is {listed[odd]!r:.40}")
    return array.astype(str)


def integers(values: Any, name: str) -> np.ndarray:
    """[N] the column as integers of at most 32 bits; `InvalidDemonstrations` if it is not."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidDemonstrations(f"{name} must be one column; got ragged rows") from None
    if array.ndim != 1:
        raise InvalidDemonstrations(f"{name} must be one column; got shape {array.shape}")
    if len(array) and not np.issubdtype(array.dtype, np.integer):
        raise InvalidDemonstrations(f"{name} must be integers; got {array.dtype}")
    # Held in 32 bits: a larger number would wrap round to a state that exists.
    if len(array) and not -TOP - 1 <= array.min() <= array.max() <= TOP:
        row = int(np.argmax((array < -TOP - 1) | (array > TOP)))
        raise InvalidDemonstrations(f"{name} must fit in 32 bits; row {row} is {array[row]}")
    return array.astype(np.int32)
