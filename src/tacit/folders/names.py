"""Which state and which action a name means, whatever file it stands in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.folders.settings import FILE, Settings
from tacit.folders.sheets import nearest, numbered
from tacit.folders.tables import FeatureTable
from tacit.model.mdp import MDP
from tacit.model.names import Layout


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


def read_demonstrations(
    path: Path,
    names: Names,
    *,
    source: str,
    places: bool = False,
    progress: Callable[[int, int], Any] | None = None,
) -> tuple[Demonstrations, tuple[str, ...]]:
    """The demonstrations of a file, and the names of all actions.

    Args:
        path: of the file.
        names: of states and actions; actions may not be known yet, then they are taken from here.
        source: where the names of the states come from, for messages.
        places: whether numbers are always places, 0 the first; else numbers may be names where
            states or actions are called 1, 2, 3 or 10, 20, 30.
        progress: called now and then with what is done and what there is to do.
    """
    # Arrays hold places, whatever the names.
    places = places or path.suffix == ".npz"
    if names.actions and (places or not (_odd(names.states) or _odd(names.actions))):
        plain = Layout(
            state_names=() if numbered(names.states) or _odd(names.states) else names.states,
            action_names=() if numbered(names.actions) or _odd(names.actions) else names.actions,
        )
        seen = Demonstrations.load(
            path,
            plain,
            states=len(names.states),
            actions=len(names.actions),
            progress=progress,
        )
        return seen, names.actions
    demonstrations, found = Demonstrations.load_named(path, progress=progress)
    demonstrations = _translated(demonstrations, "state", found, names.states, path, source)
    if not names.actions:
        return demonstrations, found.action_names or numbers(int(demonstrations.actions.max()) + 1)
    demonstrations = _translated(demonstrations, "action", found, names.actions, path, source)
    return demonstrations, names.actions


def _odd(names: tuple[str, ...]) -> bool:
    """Whether some names look like numbers but are not places: 1, 2, 3 or 10, 20, 30."""
    return not numbered(names) and any(name.lstrip("-").isdigit() for name in names)


def _by_value(names: tuple[str, ...], kind: str, path: Path, source: str) -> dict[int, str]:
    """Number -> the name that reads so: a table of 007 and 012 was read as 7 and 12."""
    found: dict[int, str] = {}
    for name in names:
        if not name.isdecimal():
            continue
        if int(name) in found:
            raise InvalidDemonstrations(
                f"{path}: {found[int(name)]!r} and {name!r} of {source} are one number where every "
                f"{kind} is a number: rename one"
            )
        found[int(name)] = name
    return found


def _translated(
    demonstrations: Demonstrations,
    kind: str,
    layout: Layout,
    names: tuple[str, ...],
    path: Path,
    source: str,
) -> Demonstrations:
    """The demonstrations with the numbers that these names have in the problem."""
    found = layout.state_names if kind == "state" else layout.action_names
    if not found and not _odd(names):
        return demonstrations  # numbers, and meant as such
    columns = {"state": ("states", "final_states"), "action": ("actions",)}[kind]
    known = lookup(names)
    padded = {} if found else _by_value(names, kind, path, source)
    translated = {}
    for column in columns:
        old = getattr(demonstrations, column)
        new = np.full(len(old), -1, np.int64)
        for code in np.unique(old):
            if code < 0:
                continue  # the final state was not recorded
            name = found[code] if found else padded.get(int(code), str(code))
            rows = old == code
            if name not in known:
                row = int(np.argmax(rows))
                where = f"episode {row}, final state"
                if column != "final_states":
                    where = (
                        f"episode {demonstrations.episode[row]}, step {demonstrations.step[row]}"
                    )
                raise InvalidDemonstrations(
                    f"{path}, {_line(path, kind, layout, name) or where}: every {kind} must be a "
                    f"name of {source}; got {name!r}{nearest(name, known)}"
                )
            new[rows] = known[name]
        translated[column] = new
    return replace(demonstrations, **translated)


def _line(path: Path, kind: str, layout: Layout, name: str) -> str:
    """The line of the file that has this name first; empty where that cannot be told."""
    key = f"{kind}_names"
    others = tuple(each for each in getattr(layout, key) if each != name)
    if not others:
        return ""
    try:
        # Lines are not kept: the reader, which knows them, is asked again for all but this name.
        Demonstrations.load(path, replace(layout, **{key: others}))
    except InvalidDemonstrations as error:
        place, _, told = str(error).removeprefix(f"{path}, ").partition(": ")
        return place if repr(name) in told else ""
    return ""
