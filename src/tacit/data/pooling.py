"""Two sets of demonstrations as one: episodes side by side, names that are the same as one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import InvalidDemonstrations
from tacit.files.wording import natural_order, unused_name
from tacit.model.layout import Layout

if TYPE_CHECKING:
    from tacit.data.demonstrations import Demonstrations


def pooled(first: Demonstrations, second: Demonstrations) -> Demonstrations:
    """The episodes of the first, then those of the second.

    Individuals and groups of one name are one. Where the names of states or actions differ, both
    are numbered anew, as if they had been read from one table.
    """
    columns: dict[str, np.ndarray | None] = {}
    for name in ("groups", "individuals", "weights"):
        parts = [getattr(one, name) for one in (first, second)]
        if sum(part is None for part in parts) == 1:
            lacks = "first" if parts[0] is None else "second"
            raise InvalidDemonstrations(
                f"demonstrations that are pooled must both have {name}, or neither; the {lacks} "
                f"have none: replace({lacks}, {name}=...) gives them some"
            )
        columns[name] = None if parts[0] is None else np.concatenate(parts)
    states, actions = (_common_names(first, second, kind) for kind in ("state", "action"))
    parts = [_renumbered(one, states, actions) for one in (first, second)]
    for name in ("states", "actions", "final_states", "ended", "partial"):
        columns[name] = np.concatenate([getattr(one, name) for one in parts])
    layouts = [one.layout for one in (first, second) if one.layout is not None]
    layout = replace(layouts[0], state_names=states, action_names=actions) if layouts else None
    return replace(
        first,
        **columns,  # pyright: ignore[reportArgumentType]
        offsets=np.append(first.offsets, first.steps + second.offsets[1:]),
        names=_episode_names(first, second),
        notes=tuple(dict.fromkeys((*first.notes, *second.notes))),
        layout=layout,
    )


def _common_names(first: Demonstrations, second: Demonstrations, kind: str) -> tuple[str, ...]:
    """The names of both; those of one where the other has none and is no longer than they are."""
    own, other = (getattr(one.layout or Layout(), f"{kind}_names") for one in (first, second))
    if own and other:
        return own if {*other} <= {*own} else natural_order({*own, *other})
    for names, unnamed in ((own, second), (other, first)):
        column = getattr(unnamed, f"{kind}s")
        if names and column.max() >= len(names):
            raise InvalidDemonstrations(
                f"{kind}s of demonstrations that are pooled must be numbers or names in both; one "
                f"has {len(names)} names, the other {kind} {column.max()} without one: read both "
                "with one layout"
            )
    return own or other


def _renumbered(
    seen: Demonstrations, states: tuple[str, ...], actions: tuple[str, ...]
) -> Demonstrations:
    """The same with the numbers that its states and actions have among these names."""
    layout = seen.layout or Layout()
    columns = {}
    for names, own, fields in (
        (states, layout.state_names, ("states", "final_states")),
        (actions, layout.action_names, ("actions",)),
    ):
        if own and own != names:
            number = {name: number for number, name in enumerate(names)}
            numbers = np.array([*(number[name] for name in own), -1])  # not recorded stays so
            columns |= {field: numbers[getattr(seen, field)] for field in fields}
    return replace(seen, **columns)


def _episode_names(first: Demonstrations, second: Demonstrations) -> np.ndarray | None:
    """[E] names of all episodes, each once; None where they are numbers in both."""
    if first.names is None and second.names is None:
        return None
    names = [first.episode_name(e) for e in range(first.episodes)]
    taken = {*names}
    for name in map(second.episode_name, range(second.episodes)):
        names.append(unused_name(name, taken) if name in taken else name)
        taken.add(names[-1])
    return np.array(names)
