"""Everything that is wrong with a problem folder, not only the first thing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacit.demonstrations import Demonstrations
from tacit.errors import TacitError
from tacit.problems.archives import read_features, read_model, read_truth
from tacit.problems.feature_table import read_feature_table, table_features
from tacit.problems.naming import lookup, ordered
from tacit.problems.reading import SEEN
from tacit.problems.settings import read_settings
from tacit.problems.transition_table import read_transition_table


def faults(folder: Path, first: Exception) -> tuple[str, ...]:
    """The error met first, and what else is wrong in files that can be read by themselves.

    Args:
        folder: of the problem.
        first: what loading it raised.
    """
    found = [" ".join(str(first).split())]

    def untold(name: str) -> bool:
        """Whether the file is there and nothing has been said about it yet."""
        return (folder / name).is_file() and str(folder / name) not in found[0]

    def attempt(read: Callable[[], Any]) -> Any:
        try:
            return read()
        except (TacitError, OSError) as error:
            said = " ".join(str(error).split())
            if said not in found:
                found.append(said)
            return None

    settings = attempt(lambda: read_settings(folder))
    states = None
    if untold("features.csv"):
        table = attempt(lambda: read_feature_table(folder / "features.csv"))
        if table is not None:
            states = lookup(ordered(table.states))
            actions = lookup(ordered(table.actions))
            if settings is not None:
                attempt(lambda: table_features(table, settings, states, actions))
    if untold("transitions.csv") and states is not None:
        path = folder / "transitions.csv"
        attempt(lambda: read_transition_table(path, states, None, source="features.csv"))
    for name, read in (
        ("mdp.npz", read_model),
        ("features.npz", read_features),
        ("truth.npz", read_truth),
        *((name, Demonstrations.load_named) for name in SEEN),
    ):
        if untold(name):
            attempt(lambda read=read, name=name: read(folder / name))
    return tuple(found)
