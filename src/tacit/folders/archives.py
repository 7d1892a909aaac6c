"""The arrays of a problem: `mdp.npz`, `features.npz` and `truth.npz`, read and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.atomic import BadFile, naming, write_bytes
from tacit.files.tables import open_table
from tacit.files.wording import did_you_mean
from tacit.folders.reading import looked_up
from tacit.folders.settings import FILE, VERSION, lookup, toml_lines
from tacit.model.evidence import ENTRIES, Evidence
from tacit.model.features.priors import SPARSE, sparse_entries, sparse_matrix
from tacit.model.mdp import MDP, Successors
from tacit.model.objective import Features, Objective, is_sparse
from tacit.model.transitions import Layout

if TYPE_CHECKING:
    from tacit.folders.problem import Problem

MODEL = ("successors", "probabilities", "initial", "discount")
PLACES = ("available", "state_names", "action_names", "rows", "columns", "directions", "notes")
PLACES += ("centres", "hexagon")
PLACED = ("state", "x", "y", "hexagon")  # columns of `places.csv`


def model_arrays(mdp: MDP, layout: Layout) -> dict[str, np.ndarray]:
    """The entries of `mdp.npz`: the model, and of the layout what there is."""
    arrays = {
        "successors": mdp.transitions.states,
        "probabilities": mdp.transitions.probabilities,
        "initial": mdp.initial,
        "discount": np.array(mdp.discount),
    }
    if mdp.restricted:
        arrays["available"] = mdp.available
    if layout.is_grid:
        arrays |= {"rows": np.array(layout.rows), "columns": np.array(layout.columns)}
    if layout.centres:
        arrays["hexagon"] = np.array(layout.hexagon)
    for name in ("directions", "centres", "state_names", "action_names"):
        if told := getattr(layout, name):
            arrays[name] = np.array(told)
    return arrays if mdp.evidence is None else arrays | mdp.evidence.arrays()


def read_model(path: Path) -> tuple[MDP, Layout, tuple[str, ...]]:
    """The model, the layout and the notes of `mdp.npz`."""
    arrays = _entries(path, MODEL, PLACES + ENTRIES)
    with naming(path):
        successors = Successors(arrays["successors"], arrays["probabilities"])
        discount = _scalar(arrays["discount"], "discount")
        evidence = Evidence.from_arrays(arrays)
        there, zero = arrays.get("available"), np.array(0)
        mdp = MDP(successors, arrays["initial"], discount, evidence, available=there)
        layout = Layout(
            rows=_count(arrays.get("rows", zero), "rows"),
            columns=_count(arrays.get("columns", zero), "columns"),
            directions=_directions(arrays.get("directions", np.zeros((0, 2), int))),
            state_names=_names(arrays, "state_names", mdp.states),
            action_names=_names(arrays, "action_names", mdp.actions),
            centres=centres_of(arrays.get("centres"), mdp.states),
            hexagon=float(_scalar(arrays.get("hexagon", zero), "hexagon")),
        )
    return mdp, layout, tuple(str(note) for note in arrays.get("notes", np.array([])).ravel())


def feature_arrays(features: Features) -> dict[str, np.ndarray]:
    """The entries of `features.npz`."""
    arrays: dict[str, np.ndarray] = {}
    labels = (features.reward_names, *features.cost_names)
    for k, (table, names) in enumerate(zip(features.maps, labels, strict=True)):
        name = f"costs_{k - 1}" if k else "reward"
        if is_sparse(table):  # stays so: a feature a state would fill S * S numbers
            arrays |= sparse_entries(table, name)
        else:
            arrays[name] = table
        arrays[f"{name}_names"] = np.array(names, str)
    return arrays


def read_features(path: Path) -> Features:
    """The features of `features.npz`."""
    arrays = read_arrays(path)
    costs = 0
    while {f"costs_{costs}", f"costs_{costs}_data"} & {*arrays}:
        costs += 1
    tables = ["reward", *(f"costs_{k}" for k in range(costs))]
    ends = ("", "_names", *(f"_{part}" for part in SPARSE))
    _refuse_strangers(path, arrays, tuple(name + end for end in ends for name in tables))
    if not {"reward", "reward_data"} & {*arrays}:
        raise InvalidModel(f"{path} must hold 'reward'; got {', '.join(arrays) or 'nothing'}")
    told = [arrays.get(f"{name}_names") for name in tables]
    names = [None if one is None else one.ravel() for one in told]
    with naming(path):
        try:
            found = [sparse_matrix(arrays, name) for name in tables]
        except BadFile as error:
            raise InvalidModel(str(error)) from None
        maps = [arrays[n] if one is None else one for n, one in zip(tables, found, strict=True)]
        return Features(maps[0], maps[1:], names[0], names[1:])


def read_truth(path: Path) -> Objective:
    """The objective of `truth.npz`."""
    arrays = _entries(path, ("reward",), ("costs", "budgets"))
    with naming(path):
        return Objective(arrays["reward"], arrays.get("costs"), arrays.get("budgets"))


def write_archives(problem: Problem, folder: Path) -> None:
    """Writes the problem into an existing folder: arrays, and settings that arrays cannot say."""
    notes = {"notes": np.array(problem.notes, str)} if problem.notes else {}
    write_arrays(folder / "mdp.npz", model_arrays(problem.mdp, problem.layout) | notes)
    write_arrays(folder / "features.npz", feature_arrays(problem.features))
    if problem.demonstrations is not None:
        problem.demonstrations.save(folder / "demonstrations.parquet")
    if problem.truth is not None:
        parts = {name: getattr(problem.truth, name) for name in ("reward", "costs", "budgets")}
        write_arrays(folder / "truth.npz", parts)
    trips = {"discount": problem.discount, "goal": problem.goal, "unended": problem.unended}
    lines = toml_lines({"version": VERSION} | (trips if problem.goal else {}))
    lines += toml_lines(coefficient_table(problem.coefficients), "coefficients")
    write_bytes(folder / FILE, "\n".join([*lines, ""]).encode())


def coefficient_table(known: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Lower, upper, fixed and start of each coefficient, by its name."""
    told: dict[str, dict[str, float]] = {}
    for name, ends in known.get("bounds", {}).items():
        pairs = zip(("lower", "upper"), ends, strict=True)
        told.setdefault(name, {}).update({word: float(x) for word, x in pairs if x is not None})
    for word in ("fixed", "start"):
        for name, value in known.get(word, {}).items():
            told.setdefault(name, {})[word] = float(value)
    return told


def _entries(path: Path, needed: tuple[str, ...], spare: tuple[str, ...]) -> dict[str, np.ndarray]:
    arrays = read_arrays(path)
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise InvalidModel(
            f"{path} must hold {', '.join(needed)}; {missing[0]!r} is missing, "
            f"it holds {', '.join(arrays) or 'nothing'}"
        )
    _refuse_strangers(path, arrays, needed + spare)
    return arrays


def _refuse_strangers(path: Path, arrays: dict[str, np.ndarray], known: tuple[str, ...]) -> None:
    strange = next((name for name in arrays if name not in known), None)
    if strange is not None:
        hint = did_you_mean(strange, known) or f"; it may hold {', '.join(known)}"
        raise InvalidModel(f"{path} holds the unknown entry {strange!r}{hint}")


def _scalar(array: np.ndarray, name: str) -> float:
    if array.shape not in ((), (1,)) or array.dtype.kind not in "biuf":
        raise InvalidModel(f"{name} must be one number; got {array.dtype} {array.shape}")
    return array.reshape(()).item()


def _count(array: np.ndarray, name: str) -> int:
    if array.shape not in ((), (1,)) or array.dtype.kind not in "iu" or array.min() < 0:
        raise InvalidModel(f"{name} must be a whole number, 0 or more; got {array.tolist()!r:.60}")
    return int(array.reshape(()))


def read_places(path: Path, layout: Layout, states: Sequence[str]) -> Layout:
    """The layout with the centres, and hexagons, that `places.csv` tells of its states."""
    table = open_table(path, InvalidModel, expected=PLACED)
    table.require(*PLACED[:3])
    cells = table.read([name for name in PLACED if name in table.names], texts=["state"])
    row = looked_up(cells.pop("state"), lookup(states), "a name of a state")
    if not np.array_equal(np.sort(row), np.arange(len(states))):
        raise InvalidModel(
            f"{path} must have one row for each of the {len(states)} states; it has {len(row)}, "
            f"of {len(np.unique(row))}"
        )
    x, y, *widths = (column.reals()[np.argsort(row)].tolist() for column in cells.values())
    centres, hexagon = tuple(zip(x, y, strict=True)), widths[0][0] if widths else 0.0
    return replace(layout, centres=centres, hexagon=hexagon)


def _directions(given: np.ndarray) -> tuple[tuple[int, int], ...]:
    if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iu":
        raise InvalidModel(
            f"directions must be integers [A, 2], (row, column) each; got {given.shape}"
        )
    return tuple((int(row), int(column)) for row, column in given)


def centres_of(given: np.ndarray | None, states: int) -> tuple[tuple[float, float], ...]:
    """The middles of the states [S, 2], as a layout has them; none where nothing is given."""
    if given is None:
        return ()
    if given.shape != (states, 2) or given.dtype.kind not in "iuf" or not np.isfinite(given).all():
        raise InvalidModel(f"centres must be {states} pairs of x and y; got {given.shape}")
    return tuple((float(x), float(y)) for x, y in given)


def _names(arrays: dict[str, np.ndarray], entry: str, count: int) -> tuple[str, ...]:
    if entry not in arrays:
        return ()
    names = tuple(str(name) for name in arrays[entry].ravel())
    if len(names) != count:
        raise InvalidModel(f"{entry} must hold {count} names; got {len(names)}")
    if len(set(names)) < count:
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidModel(f"{entry} must be different from each other; {twice!r} stands twice")
    return names
