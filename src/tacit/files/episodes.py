"""Rows of (episode, step, state, action) become whole episodes, or one line says why not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tacit.errors import InvalidDemonstrations
from tacit.files.columns import TOP, BadRow


def assemble(
    columns: Mapping[str, np.ndarray], label: Callable[[int], str] = str
) -> tuple[dict[str, Any], list[str]]:
    """The arguments of `Demonstrations`, and notes on what was assumed.

    Args:
        columns: one row a step, in any order; `step`, `ended`, `final_state`, `partial` and `group`
            (numbered) may be absent.
        label: what an episode is called, for messages.
    """
    notes = []
    order, first = _order(columns, label)

    def sorted_rows(name: str) -> np.ndarray:
        return columns[name] if order is None else columns[name][order]

    def row(at: Any) -> int:
        return int(at if order is None else order[at])

    starts = np.flatnonzero(first)
    lasts = np.append(starts[1:], len(first)) - 1
    if "step" in columns:
        begins = sorted_rows("step")[starts]
        # Some programs count from 1. Otherwise an episode that starts later was joined on its way.
        from_one = bool((begins == 1).all())
        partial = (begins > 0) & (not from_one)
        if from_one:
            notes.append("every episode begins at step 1: steps are taken to count from 1")
    else:
        partial = np.zeros(len(starts), bool)
        notes.append("there is no column 'step': rows are taken in the order of the file")
    if "partial" in columns:
        partial |= np.logical_or.reduceat(sorted_rows("partial"), starts)
    whole: dict[str, Any] = {}
    if "ended" in columns:
        whole["ended"] = _ended(sorted_rows("ended"), starts, lasts, row)
    if "final_state" in columns:
        values = sorted_rows("final_state")
        final = values[lasts]
        _constant(values, final, starts, row, "final_state", unless=-1)
        whole["final_states"] = final
    if "group" in columns:
        values = sorted_rows("group")
        whole["groups"] = values[starts]
        _constant(values, values[starts], starts, row, "group")
    return {
        "states": sorted_rows("state"),
        "actions": sorted_rows("action"),
        "offsets": np.append(starts, len(first)),
        "partial": partial,
        **whole,
    }, notes


def _order(
    columns: Mapping[str, np.ndarray], label: Callable[[int], str]
) -> tuple[np.ndarray | None, np.ndarray]:
    """(the rows by episode and step, None where they lie so; [N] whether an episode starts)."""
    episode, step = columns["episode"], columns.get("step")
    order = None
    if not _lies_in_order(episode, step):
        keys = (episode,) if step is None else (step, episode)
        order = np.lexsort(keys)
        episode = episode[order]
        step = None if step is None else step[order]
    first = np.ones(len(episode), bool)
    np.not_equal(episode[1:], episode[:-1], out=first[1:])
    if order is not None and step is not None:
        broken = ~first
        broken[1:] &= step[1:] != step[:-1] + 1
        if broken.any():
            at = int(np.argmax(broken))
            row = int(order[at])
            raise BadRow(
                row,
                "every (episode, step) must be there once, without gaps; episode "
                f"{label(int(episode[at]))} goes from step {step[at - 1]} to {step[at]} "
                f"(row {row + 1} of the data)",
            )
    return order, first


def _lies_in_order(episode: np.ndarray, step: np.ndarray | None) -> bool:
    """Whether episodes ascend and the steps of each follow each other."""
    if (episode[1:] < episode[:-1]).any():
        return False
    if step is None:
        return True
    follows = step[1:] == step[:-1] + 1
    follows |= episode[1:] != episode[:-1]
    return bool(follows.all())


def _ended(
    flags: np.ndarray, starts: np.ndarray, lasts: np.ndarray, row: Callable[[Any], int]
) -> np.ndarray:
    """[E] whether each episode ended; the flag may stand in all its rows, or in the last alone."""
    ended = flags[lasts]
    count = np.add.reduceat(flags.astype(np.int64), starts)
    odd = (count != ended) & (count != lasts - starts + 1)
    if odd.any():
        episode = int(np.argmax(odd))
        at = starts[episode] + int(np.argmax(flags[starts[episode] : lasts[episode] + 1]))
        raise BadRow(
            row(at), "ended must be true at the last step of an episode, or at none; got true"
        )
    return ended


def _constant(
    values: np.ndarray,
    chosen: np.ndarray,
    starts: np.ndarray,
    row: Callable[[Any], int],
    name: str,
    unless: int | None = None,
) -> None:
    """Raises `BadRow` where a value is not the one chosen for its episode."""
    lengths = np.diff(np.append(starts, len(values)))
    other = values != np.repeat(chosen, lengths)
    if unless is not None:
        other &= values != unless
    if other.any():
        at = int(np.argmax(other))
        raise BadRow(row(at), f"{name} must be the same in all rows of an episode; here it differs")


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
