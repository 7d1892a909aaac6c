"""How a recovery is kept: all of its fields by name, and all of it checked where it is read.

A checksum says that nothing changed since somebody wrote it, not that tacit did. So everything that
a run folder holds is looked at here, once, while it is read. Code that comes afterwards, such as
that of a report, may rely on it; what goes wrong there is a bug of ours and no bad input.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tacit import __version__
from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.atomic import BadFile, Page, read_page
from tacit.files.bundles import manifest, member, write_bundle
from tacit.files.tables import write_columns
from tacit.files.trees import Tree, pack, sound, unpack

if TYPE_CHECKING:  # recoveries save themselves through this module, so it must not need them
    from tacit.inverse.joint.recovery import JointRecovery
    from tacit.inverse.noisy.mixture import MixtureRecovery
    from tacit.inverse.parameters import Parameters
    from tacit.inverse.recovery import History, Recovery
    from tacit.inverse.standardised import Standard

    AnyRecovery = Recovery | JointRecovery | MixtureRecovery

# Of the form of a run. Older ones than the first are refused, and so are later ones.
VERSION = 1
PAGE, ARRAYS, HISTORY = "run.json", "recovery.npz", "history.parquet"
TRAJECTORIES, EXTRAS = "trajectories.parquet", "extras.npz"
FILES = (ARRAYS, HISTORY, TRAJECTORIES, EXTRAS)
# Within the folder of a run that is under way; settings say what its searches depend on.
CHECKPOINT, SEARCHES, SETTINGS = "checkpoint", "searches.npz", "settings.json"
# Rooms whose classes a recovery may be made of.
ROOMS = (
    "inference", "model", "dynamics", "forward", "inverse", "likelihood", "recovery", "estimators",
)  # fmt: skip
# What a folder may hold, in words, and what loads it.
HELD = {
    "Recovery": ("the recovery of one task", "tacit.Recovery.load"),
    "JointRecovery": ("several tasks", "tacit.JointRecovery.load"),
    "MixtureRecovery": ("a mixture of types", "tacit.Mixture.load"),
    "TripsRecovery": ("trips to goals of their own", "tacit.Recovery.load"),
}
# Kinds that count as others.
ALSO = {"TripsRecovery": "Recovery"}
Files = dict[str, Callable[[Path], None]]
# Array and the shape it must have, by what it is called.
Wanted = dict[str, tuple[np.ndarray, tuple[int, ...]]]


def plain(value: object, *, arrays: bool = False) -> Tree:
    """The value as dictionaries, lists, numbers and text: what a page and a report can hold.

    Of a dataclass its fields, its `sentences`, `columns` and `text`; recoveries in it are left out,
    being runs of their own. With `arrays`, arrays of numbers stay as they are.
    """
    if is_dataclass(value) and not isinstance(value, type):
        parts = {part.name: getattr(value, part.name) for part in fields(value)}
        for name in ("sentences", "columns", "text"):
            if name not in parts and not callable(found := getattr(value, name, None)) and found:
                parts[name] = found
        value = {k: v for k, v in parts.items() if not _holds_recovery(v)}
    if isinstance(value, Mapping):
        return {str(name): plain(part, arrays=arrays) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(part, arrays=arrays) for part in value]
    if isinstance(value, np.ndarray) and arrays and value.dtype.kind in "biuf":
        return value
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _holds_recovery(value: object) -> bool:
    if isinstance(value, list | tuple):
        return any(_holds_recovery(part) for part in value)
    return hasattr(value, "identification")


def versions() -> dict[str, str]:
    """The versions that a result depends on to the last bit, by name."""
    found = {"tacit": __version__, "python": platform.python_version()}
    for name in ("numpy", "scipy", "jax", "jaxlib", "numba", "highspy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def save(result: AnyRecovery, folder: Path) -> None:
    """Writes the folder, all or nothing; an older run in it stays until the new one is whole."""
    write_bundle(folder, PAGE, *contents(result), known=FILES)


def contents(result: AnyRecovery) -> tuple[Page, Files]:
    """What the page of a run says about a recovery, and how to write its files."""
    arrays, certificate = pack(result, small=0), asdict(result.certificate)
    page: Page = {
        "version": VERSION,
        "holds": type(result).__name__,
        "estimator": result.estimator,
        "status": result.status.name,
        "sentence": result.status.value,
        # JSON has no word for what is not finite.
        "certificate": {k: v if np.isfinite(v) else str(v) for k, v in certificate.items()},
        "findings": [_told(finding) for finding in result.identification.findings],
        "reward_names": getattr(result, "reward_names", ()),
        "cost_names": getattr(result, "cost_names", ()),
        "versions": versions(),
        "tasks": len(getattr(result, "recoveries", [result])),
    }
    columns = _table(result.history)
    return page, {
        ARRAYS: lambda path: write_arrays(path, arrays),
        HISTORY: lambda path: write_columns(path, columns),
    }


def _told(finding: str) -> Page | str:
    """A finding as the page has it: the sentence, its kind, and what it is about, if known."""
    kind, about = getattr(finding, "kind", None), getattr(finding, "about", None)
    if kind is None:
        return str(finding)
    parts = plain(about) if about else {}
    named = {k: v for k, v in parts.items() if v not in (None, np.inf, -np.inf) and v == v}
    return {"sentence": str(finding), "kind": kind.name} | ({"about": named} if named else {})


def _table(history: History) -> dict[str, np.ndarray]:
    """One column an entry: "name" for [I], "name[j]" for [I, n]."""
    flat = {}
    for name, column in history.columns.items():
        if column.ndim == 1:
            flat[name] = column
        else:
            parts = np.ascontiguousarray(column.reshape(len(column), -1).T)
            flat |= {f"{name}[{j}]": part for j, part in enumerate(parts)}
    return flat


def load(folder: Path, kind: str | None = None) -> Any:
    """The recovery of this kind, or any, in a folder; `OSError` if a file is missing or damaged."""
    page = read_run_page(folder / PAGE)
    held = str(page.get("holds"))
    if held not in HELD or kind not in (None, held, ALSO.get(held)):
        what, loader = HELD.get(held, ("something else", "the tacit that wrote it"))
        raise BadFile(f"{folder} holds {what}: load it by {loader}")
    member(folder, page, HISTORY)
    path = member(folder, page, ARRAYS)
    arrays = read_arrays(path)
    with sound(path, "a recovery that can be read"):
        found = unpack(arrays, _kind)
        if type(found).__name__ != held:
            raise BadFile(f"it holds a {type(found).__name__}")
        for one in getattr(found, "recoveries", getattr(found, "types", [found])):
            if type(one).__name__ in ("Recovery", *ALSO):
                check_recovery(one)
        _check_several(found)
    return found


def _check_several(found: object) -> None:
    """Raises `BadFile` where arrays about several recoveries do not belong together."""
    if hasattr(found, "types"):
        mixture = cast("MixtureRecovery", found)
        count = len(mixture.types)
        check_shapes(
            {
                "shares": (mixture.shares, (count,)),
                "share intervals": (mixture.share_intervals, (count, 2)),
                "membership": (mixture.membership, (len(mixture.membership), count)),
                "criteria": (mixture.criteria, np.shape(mixture.tried)),
            }
        )
    elif hasattr(found, "recoveries"):
        joint = cast("JointRecovery", found)
        shared = not isinstance(joint.reward_weights, tuple)
        each = (joint.reward_weights,) * len(joint.recoveries) if shared else joint.reward_weights
        pairs = [(own, one.reward_names) for own, one in zip(each, joint.recoveries, strict=True)]
        pairs += zip(joint.cost_weights, joint.recoveries[0].cost_names, strict=True)
        check_shapes({f"weights of {names}": (own, (len(names),)) for own, names in pairs})


def read_run_page(path: Path) -> Page:
    """What the page of a run says; one line that says what to do where it is of another form."""
    page = read_page(path)
    version = page.get("version")
    if type(version) is not int:
        raise BadFile(
            f"{path} must say the version of its form; it was saved before there were versions: "
            f"recover again, tacit recover PROBLEM --out {path.parent} --overwrite"
        )
    if not 1 <= version <= VERSION:
        raise BadFile(
            f"{path} must be of version {VERSION} of its form or less, which this tacit reads; it "
            f"is of version {version}: update tacit"
        )
    manifest(path, page, FILES)
    return page


def _kind(name: str) -> type | None:
    """The class of that name, if a recovery may hold it; one that has moved since is looked for."""
    module, _, own = name.rpartition(".")
    homes = [module, *(m for m in _modules() if m != module)]
    for home in homes if module.startswith("tacit.") else ():
        found = getattr(import_module(home), own, None) if home in _modules() else None
        if isinstance(found, type) and found.__module__ == home:
            plain = is_dataclass(found) or issubclass(found, Enum | str | tuple)
            return found if plain else None
    return None


@functools.cache
def _modules() -> tuple[str, ...]:
    """The modules whose classes a recovery may be made of."""
    rooms = (f"tacit.{room}" for room in ROOMS)
    there = [room for room in rooms if find_spec(room) is not None]
    inside = (walk_packages(getattr(import_module(r), "__path__", ()), f"{r}.") for r in there)
    return (*there, *(one.name for found in inside for one in found))


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
