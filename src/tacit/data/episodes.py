"""Rows of (episode, step, state, action) become whole episodes, or one line says why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

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
        order = _placed(episode, step) if step is not None else None
        if order is None:
            order = np.lexsort((episode,) if step is None else (step, episode))
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


def _placed(episode: np.ndarray, step: np.ndarray) -> np.ndarray | None:
    """The rows by episode and step, each put where it belongs; None where that takes a sort.

    Steps without gaps tell their own places, so that no comparison is needed. Repeated or missing
    ones, and episodes that are numbered far apart, are left to the sort.
    """
    count, least = len(episode), int(episode.min())
    span = int(episode.max()) - least + 1
    if span > 4 * count + 1024 or count > TOP:
        return None
    code = (episode - least).astype(np.int32)
    lengths = np.bincount(code, minlength=span).astype(np.int32)
    starts = np.cumsum(lengths, dtype=np.int32) - lengths
    begins = np.full(span, TOP, np.int32)
    np.minimum.at(begins, code, step)
    place = step - begins[code]
    if (place >= lengths[code]).any():
        return None
    place += starts[code]
    order = np.full(count, -1, np.int64)
    order[place] = np.arange(count)
    return None if (order < 0).any() else order


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
