"""In and out: a problem's `mdp.npz`, `features.npz`, `truth.npz`, `places.csv`, and sound runs.

A checksum says that nothing changed since somebody wrote it, not that tacit did. So everything that
a run folder holds is looked at here, once, while it is read. Code that comes afterwards, such as
that of a report, may rely on it; what goes wrong there is a bug of ours and no bad input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.files.arrays import BROKEN, Tree, write_arrays
from tacit.files.atomic import BadFile, Page, naming, write_bytes
from tacit.files.columns import did_you_mean
from tacit.files.formats import read_arrays
from tacit.files.tables import open_table
from tacit.folders.reading import looked_up
from tacit.folders.settings import FILE, VERSION, lookup, toml_lines
from tacit.model.evidence import ENTRIES, Evidence
from tacit.model.features.priors import SPARSE, sparse_entries, sparse_matrix
from tacit.model.mdp import MDP, Successors
from tacit.model.objective import Features, Objective, is_sparse
from tacit.model.transitions import Layout

if TYPE_CHECKING:
    from tacit.folders.problem import Problem
    from tacit.inverse.parameters import Parameters
    from tacit.inverse.recovery import Recovery
    from tacit.inverse.standardised import Standard

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
            centres=_centres(arrays.get("centres"), mdp.states),
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


def _centres(given: np.ndarray | None, states: int) -> tuple[tuple[float, float], ...]:
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


# Array and the shape it must have, by what it is called.
Wanted = dict[str, tuple[np.ndarray, tuple[int, ...]]]


@contextmanager
def sound(path: Path, wanted: str) -> Iterator[None]:
    """Inside, what sealed but malformed content raises becomes one line of `BadFile`.

    Args:
        path: of the file or the folder that it came from.
        wanted: what it should have held.
    """
    try:
        yield
    except BROKEN as error:
        reason = " ".join(str(error).split()) or "nothing"
        raise BadFile(f"{path} must hold {wanted}; {type(error).__name__}: {reason:.120}") from None
    except BadFile as error:
        raise BadFile(f"{path} must hold {wanted}; {error!s:.160}") from None


def shape_of(found: Recovery) -> tuple[int, int]:
    """S and A: of the policy, or of the flows of trips; of several, those of the first."""
    found = getattr(found, "types", getattr(found, "recoveries", (found,)))[0]
    trips = found.solution is None
    table = np.asarray(getattr(found, "flows", None) if trips else found.solution.policy)
    if table.ndim != 2:
        raise BadFile(f"it must have a table by state and action; got {table.shape}")
    return table.shape[0], table.shape[1]


def check_recovery(found: Recovery) -> None:
    """Raises `BadFile` where arrays of a recovery do not belong together."""
    known, solution, objective = found.identification, found.solution, found.objective
    (states, actions), untold = shape_of(found), np.shape(found.goodness.residuals)
    costs, rewards = len(found.multipliers), len(found.reward_weights)
    wanted: Wanted = {
        "prices": (found.multipliers, (costs,)),
        "reward": (objective.reward, (states, actions)[: np.ndim(objective.reward)]),
        "costs": (objective.costs, (costs, states, actions)[: np.ndim(objective.costs)]),
        "reward weights": (found.reward_weights, (len(found.reward_names),)),
        "reward intervals": (known.reward_intervals, (rewards, 2)),
        "budgets": (found.budgets, (costs,)),
        "names of costs": (np.zeros(len(found.cost_names)), (costs,)),
        "active": (known.active, (costs,)),
        "multiplier intervals": (known.multiplier_intervals, (costs, 2)),
        "budget intervals": (known.budget_intervals, (costs, 2)),
        "reward errors": (known.reward_standard_errors, (rewards,)),
        "multiplier errors": (known.multiplier_standard_errors, (costs,)),
        "budget errors": (known.budget_standard_errors, (costs,)),
        "residuals": (found.goodness.residuals, untold if 0 in untold else (states, actions)),
    }
    if solution is not None:  # trips have one for every goal
        wanted |= {
            "policy": (solution.policy, (len(objective.reward), actions)),
            "visitation": (solution.visitation, (states, actions)),
            "values": (solution.values, (states,)),
            "costs spent": (solution.spent, (costs,)),
            "prices of the solution": (solution.multipliers, (costs,)),
        }
    for k, (weights, names) in enumerate(zip(found.cost_weights, found.cost_names, strict=True)):
        wanted[f"weights of cost {k}"] = (weights, (len(names),))
        wanted[f"intervals of cost {k}"] = (known.cost_intervals[k], (len(names), 2))
        wanted[f"errors of cost {k}"] = (known.cost_standard_errors[k], (len(names),))
    if found.standard is not None:
        wanted |= _wanted_units(found.standard, [rewards, *map(len, found.cost_names)])
    for name, column in found.history.columns.items():
        wanted[f"history of {name}"] = (column, np.shape(column))
    if np.ndim(objective.costs) not in (2, 3) or np.ndim(objective.reward) not in (1, 2):
        raise BadFile("its reward must be tables by state, and action; and so its costs")
    check_shapes(wanted | _wanted_of(found.parameters))


def _wanted_units(units: Standard, sizes: list[int]) -> Wanted:
    """The arrays about standardised features, of so many each, and the shapes they must have."""
    many = sum(sizes) + 2 * (len(sizes) - 1) if len(units.intervals) else 0
    deviations = zip(units.deviations, sizes, strict=True)
    return {
        "standardised intervals": (units.intervals, (many, 2)),
        "standardised errors": (units.standard_errors, (many,)),
        **{f"deviations {k}": (part, (size,)) for k, (part, size) in enumerate(deviations)},
    }


def check_shapes(wanted: Wanted) -> None:
    """Raises `BadFile` where an array is not of numbers, or of another shape."""
    for name, (array, shape) in wanted.items():
        if np.shape(array) != shape or np.asarray(array).dtype.kind not in "biuf":
            raise BadFile(f"its {name} must be numbers {shape}; got {np.shape(array)}")


def _wanted_of(found: Parameters) -> Wanted:
    """The arrays about the coefficients, and the shapes that they must have."""
    count, fitted = len(found.names), len(np.ravel(found.gradient))
    if np.asarray(found.free).dtype != bool:
        raise BadFile("the freedom of its coefficients must be true or false")
    wanted: Wanted = {
        "jacobian": (found.jacobian, (count, fitted)),
        "gradient": (found.gradient, (fitted,)),
        "freedom": (found.free, (fitted,)),
    }
    for name in ("information", "outer", "scatter", "dynamics"):
        if name != "dynamics" or found.dynamics is not None:
            wanted[name] = (getattr(found, name), (fitted, fitted))
    for name in ("estimates", "lower", "limits", "unrestricted", "upper"):
        array = getattr(found, name)
        if array is not None or name not in ("unrestricted", "upper"):
            wanted[name] = (np.asarray(array), (count,))
    return wanted


def layout_of(page: Page, recovery: Recovery) -> Layout:
    """The layout on the page of a run; `BadFile` unless it fits the recovery."""
    layout = dict(page.get("layout", {}))
    layout["directions"] = tuple(map(tuple, layout.get("directions", ())))
    for name, count in zip(("state_names", "action_names"), shape_of(recovery), strict=True):
        layout[name] = tuple(layout.get(name, ()))
        texts = all(isinstance(one, str) for one in layout[name])
        if not texts or len(layout[name]) not in (0, count):
            raise BadFile(f"its {name} must be {count} texts")
    sides = [layout.get("rows", 0), layout.get("columns", 0)]
    steps = [step for direction in layout["directions"] for step in direction]
    if not all(isinstance(one, int) for one in (*sides, *steps)) or min(sides) < 0:
        raise BadFile("its rows, columns and directions must be whole numbers")
    if any(len(direction) != 2 for direction in layout["directions"]):
        raise BadFile("its directions must be pairs of steps")
    states, actions = shape_of(recovery)
    try:
        layout["hexagon"] = float(layout.get("hexagon", 0.0))
        spots = np.array(layout.get("centres", ()), dtype=float)
        layout["centres"] = _centres(spots, states) if spots.size else ()
        leads = np.array(layout.get("leads", ()), dtype=np.int64).reshape(-1, actions)
        if len(leads) not in (0, states) or not ((leads >= -1) & (leads < states)).all():
            raise ValueError
        layout["leads"] = tuple(map(tuple, leads.tolist()))
    except (ValueError, TypeError, OverflowError):
        raise BadFile("its centres and leads must be those of its states") from None
    return Layout(**layout)


def check_extras(extras: Tree) -> None:
    """Raises `BadFile` unless further results are what they must be: parts by name."""
    if not (isinstance(extras, dict) and all(isinstance(one, dict) for one in extras.values())):
        raise BadFile("they must have names")
    for name, curve in extras.get("prices", {}).items():
        if not (str(name).isdecimal() and isinstance(curve, dict) and _is_price_curve(curve)):
            raise BadFile(f"the prices of other budgets of constraint {name!r:.20} are odd")


def _is_price_curve(curve: Tree) -> bool:
    """Whether arrays of a price curve at P budgets belong together, and hold numbers."""
    names, corners = ("budgets", "values", "multipliers", "spent", "noise"), curve.get("corners")
    arrays = [curve.get(name) for name in names] + ([] if corners is None else [corners])
    if not all(isinstance(one, np.ndarray) and one.dtype.kind in "fiu" for one in arrays):
        return False
    shapes = [one.shape for one in arrays[: len(names)]]
    paired = corners is None or (corners.ndim == 2 and corners.shape[1] == 2)
    alike = len(shapes[0]) == 1 and len(shapes[0]) and all(one == shapes[0] for one in shapes)
    whole = isinstance(curve.get("constraint"), int) and shapes[0] != (0,)
    return bool(whole and alike and paired and all(np.isfinite(one).all() for one in arrays))
