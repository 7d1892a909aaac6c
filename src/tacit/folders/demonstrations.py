"""The demonstrations of a problem folder, in any of their forms, and lines of them in messages."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.episodes import row_order
from tacit.data.reading import Reading, read_file
from tacit.errors import InvalidDemonstrations, InvalidModel, TacitError
from tacit.estimators.trips.world import BadTrip
from tacit.files.tables import Progress, open_table
from tacit.folders.names import Names, numbers, to_look_up
from tacit.model.layout import Layout

FILES = ("demonstrations.parquet", "demonstrations.csv", "demonstrations.npz")
OTHERS = (".xlsx", ".xls", ".ods", ".tsv")  # tables that people keep, and no part of a problem


def one_of(folder: Path, *names: str) -> Path | None:
    """The only file of these that is there, or None; a part given twice is an error."""
    paths = [folder / name for name in names if (folder / name).exists()]
    if len(paths) > 1:
        both = " and ".join(path.name for path in paths)
        raise InvalidModel(f"{folder} must give each part once; it holds {both}")
    for stray in (folder / f"{Path(name).stem}{end}" for name in names for end in OTHERS):
        if not paths and stray.exists():
            raise InvalidModel(f"{stray} must be {' or '.join(names)}: save the table as CSV")
    return paths[0] if paths else None


def read_demonstrations(
    path: Path,
    names: Names,
    *,
    available: np.ndarray | None = None,
    places: bool = False,
    progress: Progress | None = None,
) -> tuple[Demonstrations, tuple[str, ...]]:
    """The demonstrations of a file, and the names of all actions.

    Args:
        path: of the file.
        names: of states and actions; where actions have none yet, they are taken from here.
        available: [S, A] bool, which actions there are; None where all are, or nobody knows.
        places: whether numbers are always places, 0 the first, as they are in arrays.
        progress: called now and then with what is done and what there is to do.
    """
    places = places or path.suffix == ".npz"
    states, actions = (
        to_look_up(listed, places=places) for listed in (names.states, names.actions)
    )
    reading = Reading(
        layout=Layout(state_names=states, action_names=actions),
        sources=names.sources,
        find=() if names.actions else ("action",),
        states=len(names.states),
        actions=len(names.actions),
        available=available,
        progress=progress,
    )
    seen = read_file(path, reading)
    own_names = seen.layout.action_names if seen.layout else ()
    return seen, names.actions or own_names or numbers(int(seen.actions.max()) + 1)


def bad_line(path: Path, error: BadTrip, layout: Layout, seen: Demonstrations) -> TacitError:
    """What is wrong with a trip, by name, with the line of the file where its step stands."""
    message = error.sentence(layout)
    if path.suffix == ".npz":
        return InvalidDemonstrations(f"{path}, row {error.row + 1}: {message}")
    table = open_table(path, InvalidDemonstrations, expected=("episode", "step"))
    columns = table.read([n for n in ("episode", "step") if n in table.names], plain=["episode"])
    values = {"episode": columns["episode"].labels()}
    if "step" in columns:
        values["step"] = columns["step"].integers()
    order, first = row_order(values, columns["episode"], table.fault)
    # Steps are numbered within their episode: the last row of one may be where it ended.
    place = error.row - int(seen.offsets[error.trajectory])
    row = int(np.flatnonzero(first)[error.trajectory]) + place
    return table.fault(row if order is None else int(order[row]), message)
