"""How a recovery is kept: all of its fields by name, in files that a page names by checksum."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit import __version__
from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.atomic import BadFile, Page, read_page
from tacit.files.bundles import member, write_bundle
from tacit.files.tables import write_columns
from tacit.files.trees import Tree, pack, sound, unpack

if TYPE_CHECKING:  # recoveries save themselves through this module, so it must not need them
    from tacit.estimators.joint_recovery import JointRecovery
    from tacit.estimators.kinds import KindsRecovery
    from tacit.recovery import History, Recovery

    AnyRecovery = Recovery | JointRecovery | KindsRecovery

# Of the form of a run. Older ones than the first are refused, and so are later ones.
VERSION = 1
PAGE, ARRAYS, HISTORY = "run.json", "recovery.npz", "history.parquet"
TRAJECTORIES, EXTRAS = "trajectories.parquet", "extras.npz"
# Where a watch stands, whose run this is.
BOOKMARK = "bookmark.npz"
FILES = (ARRAYS, HISTORY, TRAJECTORIES, EXTRAS, BOOKMARK)
# In the folder of a run that is under way: what it depends on, and where its searches stand.
CHECKPOINT = "checkpoint.npz"
# What a folder may hold, in words, and what loads it.
HELD = {
    "Recovery": ("the recovery of one task", "tacit.Recovery.load"),
    "JointRecovery": ("several tasks", "tacit.JointRecovery.load"),
    "MixtureRecovery": ("a mixture of types", "tacit.Mixture.load"),
    "IntentionsRecovery": ("intentions that switch", "tacit.Intentions.load"),
    "TripsRecovery": ("trips to goals of their own", "tacit.Recovery.load"),
    "LoggedRecovery": ("the recovery of a logged world", "tacit.Recovery.load"),
}
# Kinds that count as others.
ALSO = {"TripsRecovery": "Recovery", "LoggedRecovery": "Recovery"}
Files = dict[str, Callable[[Path], None]]


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
    numbers = {"tacit": __version__, "python": platform.python_version()}
    for name in ("numpy", "scipy", "jax", "jaxlib", "numba", "highspy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            numbers[name] = importlib.metadata.version(name)
    return numbers


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
        recovery = unpack(arrays)
        if type(recovery).__name__ != held:
            raise BadFile(f"it holds a {type(recovery).__name__}")
    return recovery


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
    if not isinstance(page.get("files"), dict):
        raise BadFile(f"{path} must list the files of the run; it does not")
    return page


def shape_of(recovery: Recovery) -> tuple[int, int]:
    """S and A: of the policy, or of the flows of trips; of several, those of the first."""
    recovery = recovery.parts[0]
    trips = recovery.solution is None
    table = np.asarray(getattr(recovery, "flows", None) if trips else recovery.solution.policy)
    return table.shape[0], table.shape[1]
