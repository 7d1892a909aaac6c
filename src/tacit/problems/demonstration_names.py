"""Demonstrations of a problem: names in them mean what they mean in its other files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.demonstrations import Demonstrations
from tacit.errors import InvalidDemonstrations
from tacit.layout import Layout
from tacit.problems.naming import Names, lookup, numbers
from tacit.problems.sheets import nearest, numbered


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
