"""Rows of (episode, step, state, action) become whole episodes, or one line says why not."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.errors import InvalidDemonstrations


def episodes_from_columns(columns: dict[str, np.ndarray], where: str) -> dict[str, Any]:
    """The arguments of `Demonstrations`, from columns with one row a step, in any order."""
    needed = ("episode", "step", "state", "action")
    for name in needed:
        if name not in columns:
            raise InvalidDemonstrations(
                f"{where} must have the columns {', '.join(needed)}; {name!r} is missing"
            )
    episode, step = (integers(columns[name], f"{where}: {name}") for name in needed[:2])
    order = np.lexsort((step, episode))
    episode, step = episode[order], step[order]
    first = np.ones(len(episode), bool)
    first[1:] = episode[1:] != episode[:-1]
    broken = ~first
    broken[1:] &= step[1:] != step[:-1] + 1
    if broken.any():
        row = int(np.flatnonzero(broken)[0])
        raise InvalidDemonstrations(
            f"{where}: the steps of an episode must follow each other; episode {episode[row]} goes "
            f"from step {step[row - 1]} to {step[row]} (row {int(order[row]) + 1} of the data)"
        )
    starts = np.flatnonzero(first)
    whole = {
        name: columns[column][order][starts] if column in columns else None
        for name, column in (("ended", "ended"), ("final_states", "final_state"))
    }
    # An episode recorded from a later step on was joined on its way.
    partial = step[starts] > 0
    if "partial" in columns:
        partial = partial | columns["partial"][order][starts].astype(bool)
    return {
        "states": columns["state"][order],
        "actions": columns["action"][order],
        "offsets": np.append(starts, len(episode)),
        "partial": partial,
        **whole,
    }


def integers(values: Any, name: str) -> np.ndarray:
    """[N] the column as 64-bit integers; `InvalidDemonstrations` if it is anything else."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidDemonstrations(f"{name} must be one column; got ragged rows") from None
    if array.ndim != 1:
        raise InvalidDemonstrations(f"{name} must be one column; got shape {array.shape}")
    if len(array) and not np.issubdtype(array.dtype, np.integer):
        raise InvalidDemonstrations(f"{name} must be integers; got {array.dtype}")
    # Held in 32 bits: a larger number would wrap round to a state that exists.
    if len(array) and not -(2**31) <= array.min() <= array.max() < 2**31:
        row = int(np.argmax((array < -(2**31)) | (array >= 2**31)))
        raise InvalidDemonstrations(f"{name} must fit in 32 bits; row {row} is {array[row]}")
    return array.astype(np.int64)
