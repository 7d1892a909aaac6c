"""Which state and which action a name means, whatever file it stands in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.layout import Layout
from tacit.mdp import MDP
from tacit.problems.feature_table import FeatureTable
from tacit.problems.settings import FILE, Settings
from tacit.problems.sheets import nearest, numbered


@dataclass(frozen=True)
class Names:
    """How states and actions are called, in their order; plain numbers where they have no names.

    Attributes:
        states: one name a state.
        actions: one name an action; empty where nothing has told them yet.
    """

    states: tuple[str, ...]
    actions: tuple[str, ...]

    def layout(self, settings: Settings) -> Layout:
        """The layout of these names on the grid of the settings."""
        return Layout(
            settings.rows,
            settings.columns,
            settings.directions,
            () if numbered(self.states) else self.states,
            () if numbered(self.actions) else self.actions,
        )


def lookup(names: tuple[str, ...]) -> dict[str, int]:
    """The number of each name; plain numbers are understood too where no name looks like one."""
    found = {name: number for number, name in enumerate(names)}
    if not any(name.lstrip("-").isdigit() for name in names):
        found |= {str(number): number for number in range(len(names))}
    return found


def known_names(
    settings: Settings, table: FeatureTable | None, vocabulary: Path
) -> tuple[Names, str]:
    """Names that are fixed before transitions are read, and where they come from."""
    states, actions, source = ordered(settings.states), ordered(settings.actions), FILE
    if table is not None:
        source = vocabulary.name
        states = states or ordered(table.states)
        actions = actions or ordered(table.actions)
    return Names(states, actions), source


def ordered(names: Any) -> tuple[str, ...]:
    """The names as found, or sorted where they are just numbers."""
    listed = tuple(names)
    return numbers(len(listed)) if numbered(listed) else listed


def numbers(count: int) -> tuple[str, ...]:
    """The names 0, 1, ... of states or actions without names."""
    return tuple(str(number) for number in range(count))


def refuse_other_names(
    table: FeatureTable, states: Mapping[str, int], actions: Mapping[str, int], mdp: MDP
) -> None:
    """Raises unless the table speaks of exactly the states and actions of the model."""
    for kind, found, known, count in (
        ("state", table.states, states, mdp.states),
        ("action", table.actions, actions, mdp.actions),
    ):
        for name in found:
            if name not in known:
                line = next(n for n, cells in table.rows if name in cells[:2])
                raise InvalidModel(
                    f"{table.sheet.path}, line {line}: {kind} must be one of the model's {count}; "
                    f"got {name!r}{nearest(name, known)}"
                )
        told = {known[name] for name in found}
        if found and len(told) < count:
            missing = next(name for name, number in known.items() if number not in told)
            raise InvalidModel(
                f"{table.sheet.path} must have a row for every {kind} ({count}); "
                f"{missing!r} has none"
            )


def absorbing_states(settings: Settings, states: tuple[str, ...]) -> np.ndarray:
    """[S] bool, the states that stay where nothing else is said."""
    if settings.absorbing == "stay":
        return np.ones(len(states), bool)
    known, stays = lookup(states), np.zeros(len(states), bool)
    for name in settings.absorbing:
        if name not in known:
            raise InvalidModel(
                f"{settings.path}: transitions.absorbing must name states; "
                f"got {name!r}{nearest(name, known)}"
            )
        stays[known[name]] = True
    return stays
