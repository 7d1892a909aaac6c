"""Runs as folders: arrays, tables and a page of text with the checksums of all. Never pickle.

A folder is written whole or not at all (`tacit.files.atomic`), and one whose files do not belong
together does not load. `run.json` is for people; the numbers are in `recovery.npz`, all fields of a
recovery by name, whichever they are.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.metadata
import platform
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field, fields, is_dataclass, replace
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tacit import __version__
from tacit.data.demonstrations import Demonstrations
from tacit.files.arrays import (
    Tree,
    digest,
    manifest,
    member,
    pack,
    unpack,
    write_arrays,
    write_bundle,
)
from tacit.files.atomic import BadFile, Page, read_page
from tacit.files.formats import read_arrays, read_columns
from tacit.files.tables import write_columns
from tacit.folders.archives import check_extras, check_recovery, check_shapes, layout_of, sound
from tacit.model.features.priors import hashable_map
from tacit.model.mdp import MDP
from tacit.model.objective import Features, is_sparse
from tacit.model.transitions import Layout

if TYPE_CHECKING:  # recoveries save themselves through this module, so it must not need them
    from tacit.folders.problem import Problem
    from tacit.inverse.joint.recovery import JointRecovery
    from tacit.inverse.noisy.mixture import MixtureRecovery
    from tacit.inverse.recovery import History, Recovery

    AnyRecovery = Recovery | JointRecovery | MixtureRecovery

FORMAT = 3
PAGE, ARRAYS, HISTORY = "run.json", "recovery.npz", "history.parquet"
TRAJECTORIES, EXTRAS = "trajectories.parquet", "extras.npz"
FILES = (ARRAYS, HISTORY, TRAJECTORIES, EXTRAS)
# Within the folder of a run that is under way; settings say what its stages depend on.
JOURNAL, SETTINGS = "journal", "settings.json"
# Rooms whose classes a recovery may be made of.
ROOMS = ("tacit.model.", "tacit.forward.", "tacit.inverse.")
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


def save(result: AnyRecovery, folder: Path) -> None:
    """Writes the folder, all or nothing; an older run in it stays until the new one is whole."""
    write_bundle(folder, PAGE, *contents(result), known=FILES)


def contents(result: AnyRecovery) -> tuple[Page, Files]:
    """What the page of a run says about a recovery, and how to write its files."""
    arrays = pack(result, small=0)
    page: Page = {
        "format": FORMAT,
        "holds": type(result).__name__,
        "estimator": result.estimator,
        "status": result.status.name,
        "sentence": result.status.value,
        "certificate": {k: _readable(v) for k, v in asdict(result.certificate).items()},
        "findings": [_told(finding) for finding in result.identification.findings],
        "versions": versions(),
    }
    for name in ("reward_names", "cost_names"):
        page[name] = plain(getattr(result, name, ()))
    page["tasks"] = len(getattr(result, "recoveries", [result]))
    columns = _table(result.history)
    return page, {
        ARRAYS: lambda path: write_arrays(path, arrays),
        HISTORY: lambda path: write_columns(path, columns),
    }


def load(folder: Path, kind: str | None = None) -> Any:
    """The recovery of this kind, or any, in a folder; `OSError` if a file is missing or damaged."""
    page = _page(folder)
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


def _kind(name: str) -> type | None:
    """The class of that name, if a recovery may hold it."""
    module, _, own = name.rpartition(".")
    if not f"{module}.".startswith(ROOMS):
        return None
    found = getattr(import_module(module), own)
    plain = isinstance(found, type) and (
        is_dataclass(found) or issubclass(found, Enum | str | tuple)
    )
    return found if plain else None


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


def _page(folder: Path) -> Page:
    """What the page of a run says; `OSError` if it is damaged, `TacitError` if it is none."""
    page = read_page(folder / PAGE, form=FORMAT)
    manifest(folder / PAGE, page, FILES)
    return page


def _readable(number: float) -> float | str:
    """The number, or its name where JSON has none."""
    return number if np.isfinite(number) else str(number)


def versions() -> dict[str, str]:
    """The versions that a result depends on to the last bit, by name."""
    found = {"tacit": __version__, "python": platform.python_version()}
    for name in ("numpy", "scipy", "jax", "jaxlib", "numba", "highspy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def data_hashes(mdp: MDP, features: Features, demonstrations: Demonstrations) -> dict[str, str]:
    """Part of the problem -> SHA-256 of what it says, whatever the format of its file."""
    model = (mdp.transitions.states, mdp.transitions.probabilities, mdp.initial, mdp.discount)
    names = (features.reward_names, [list(part) for part in features.cost_names])
    maps = [hashable_map(table) if is_sparse(table) else table for table in features.maps]
    parts = ("states", "actions", "offsets", "ended", "final_states", "partial", "weights")
    seen = [part for name in parts if (part := getattr(demonstrations, name, None)) is not None]
    groups = getattr(demonstrations, "groups", None)
    if getattr(demonstrations, "individuals", None) is not None:
        seen.append([str(one) for one in demonstrations.individuals])  # type: ignore[union-attr]
    return {
        "mdp": digest(model),
        "features": digest((maps[0], maps[1:], names)),
        "demonstrations": digest((seen, None if groups is None else [str(g) for g in groups])),
    }


def data_summary(mdp: MDP, demonstrations: Demonstrations) -> Page:
    """What the demonstrations are, in numbers, for people."""
    lengths = np.diff(demonstrations.offsets)
    counts = demonstrations.counts(mdp)
    reached = np.isin(np.arange(mdp.states), demonstrations.final_states) & mdp.ends
    groups = getattr(demonstrations, "groups", None)
    found: Page = {
        "episodes": demonstrations.episodes,
        "steps": demonstrations.steps,
        "shortest_episode": int(lengths.min()),
        "longest_episode": int(lengths.max()),
        "ended_episodes": int(demonstrations.ended.sum()),
        "episodes_joined_on_the_way": int(demonstrations.partial.sum()),
        "states": mdp.states,
        "states_visited": int((reached | (counts.sum(axis=1) > 0)).sum()),
        "actions": mdp.actions,
        "state_action_pairs_seen": int((counts > 0).sum()),
        "moves_estimated": mdp.evidence is not None,
        "discount": mdp.discount,
    }
    if groups is not None:
        names, sizes = np.unique(np.asarray(groups, dtype=str), return_counts=True)
        found["groups"] = dict(zip(names.tolist(), sizes.tolist(), strict=True))
    return found


def summary_of(problem: Problem, seen: Demonstrations) -> Page:
    """What the demonstrations are, in numbers; of trips the goals, too."""
    found = data_summary(problem.mdp, seen)
    if problem.trips is not None:
        goals = replace(problem.trips, demonstrations=seen).goals
        found |= {"goals": len(set(goals[goals >= 0].tolist())), "discount": problem.discount}
    return found


@dataclass(frozen=True, eq=False)
class Run:
    """Everything a recovery left behind, without the problem it came from.

    Attributes:
        recovery: what was recovered.
        layout: how states and actions are called and drawn.
        config: the arguments of the command.
        data: what the demonstrations are, in numbers.
        notes: sentences about what was assumed or estimated.
        trajectories: name -> column, one entry an episode, the worst fit first.
        extras: further results by name: what was held out, other discounts, groups.
        versions: of tacit and what it computes with.
        seed: of everything random in it.
        hashes: part of the problem -> SHA-256 of what it says.
    """

    recovery: Recovery
    layout: Layout = field(default_factory=Layout)
    config: Mapping[str, object] = field(default_factory=dict)
    data: Mapping[str, object] = field(default_factory=dict)
    _: KW_ONLY
    notes: tuple[str, ...] = ()
    trajectories: Mapping[str, np.ndarray] = field(default_factory=dict)
    extras: Mapping[str, Tree] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=versions)
    seed: int | None = None
    hashes: Mapping[str, str] = field(default_factory=dict)

    def save(self, folder: str | Path) -> None:
        """Writes the folder, all or nothing; an older run in it stays until this one is whole."""
        write_bundle(Path(folder), PAGE, *self.contents(), known=FILES)

    def contents(self) -> tuple[Page, Files]:
        """What the page says, and how to write the files."""
        page, files = contents(self.recovery)
        page |= {
            "config": plain(self.config),
            "versions": plain(self.versions),
            "seed": self.seed,
            "hashes": plain(self.hashes),
            "data": plain(self.data),
            "notes": list(self.notes),
            "layout": plain(asdict(self.layout)),
        }
        columns = {name: np.asarray(column) for name, column in self.trajectories.items()}
        extras = pack(plain(self.extras, arrays=True))
        files[EXTRAS] = lambda path: write_arrays(path, extras)
        if columns:
            files[TRAJECTORIES] = lambda path: write_columns(path, columns)
        return page, files

    @classmethod
    def load(cls, folder: str | Path, *, several: bool = False) -> Run:
        """The run of a folder, all checked; a recovery saved by itself, or `several`, is one."""
        folder = Path(folder)
        if not folder.is_dir():
            raise FileNotFoundError(
                errno.ENOENT, "there is no such folder; tacit recover makes one", str(folder)
            )
        if not (folder / PAGE).exists() and (folder / JOURNAL / SETTINGS).exists():
            raise OSError(
                f"{folder} holds a run that is not finished: tacit recover --resume continues it"
            )
        if not (folder / PAGE).exists() and (folder / "problem.toml").exists():
            raise FileNotFoundError(
                errno.ENOENT, "this is a problem, not a run; tacit recover makes one", str(folder)
            )
        if not (folder / PAGE).exists():
            said = f"the folder holds no run: {PAGE} is missing"
            raise FileNotFoundError(errno.ENOENT, said, str(folder))
        page = _page(folder)
        recovery = load(folder, None if several else "Recovery")
        extras, trajectories = {}, {}
        if EXTRAS in page["files"]:
            with sound(path := member(folder, page, EXTRAS), "further results"):
                extras = unpack(read_arrays(path))
                check_extras(extras)
        if TRAJECTORIES in page["files"]:
            trajectories = read_columns(member(folder, page, TRAJECTORIES))
        with sound(folder / PAGE, "the page of a run"):
            return _assembled(page, recovery, extras, trajectories)


def _assembled(
    page: Page, recovery: Recovery, extras: dict[str, Tree], trajectories: dict[str, np.ndarray]
) -> Run:
    """The run of a page and its files."""
    parts = {name: dict(page.get(name, {})) for name in ("config", "data", "versions", "hashes")}
    notes = page.get("notes", [])
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise BadFile("its notes must be a list of texts")
    seed = page.get("seed")
    if not (seed is None or isinstance(seed, int)):
        raise BadFile("its seed must be a whole number")
    return Run(
        recovery=recovery,
        layout=layout_of(page, recovery),
        notes=tuple(notes),
        trajectories=trajectories,
        extras=extras,
        seed=seed,
        **parts,
    )


def plain(value: object, *, arrays: bool = False) -> Tree:
    """The value as dictionaries, lists, numbers and text: what a page and a report can hold.

    Of a dataclass its fields, its `sentences`, `columns` and `text`; recoveries in it are left out,
    being runs of their own.

    Args:
        value: anything made of these.
        arrays: leave arrays of numbers as they are.
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
