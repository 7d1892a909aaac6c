"""Runs as folders, each claimed by one writer, gone on with, and written whole or not at all.

A run makes the same searches in the same order every time. Going on means to begin again, each
search from the place that it had reached: the end is the same to the tolerance of the searches. The
settings beside the checkpoint say what it depends on: one of other data is noticed, not used.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.metadata
import json
import platform
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit import __version__
from tacit.data.demonstrations import Demonstrations
from tacit.engine.progress import EVERY, Checkpoint
from tacit.errors import InvalidDemonstrations, InvalidModel, TacitError
from tacit.files.arrays import BROKEN, Tree, digest, pack, settle, write_arrays, write_bundle
from tacit.files.atomic import (
    PART,
    BadFile,
    Page,
    check_folder,
    check_plain,
    locked,
    read_page,
    write_page,
)
from tacit.files.tables import write_columns
from tacit.folders import (
    ARRAYS,
    CHECKPOINT,
    EXTRAS,
    FILES,
    FORMAT,
    HISTORY,
    PAGE,
    SEARCHES,
    SETTINGS,
    TRAJECTORIES,
    difference,
    read_run,
)
from tacit.model.features.priors import hashable_map
from tacit.model.mdp import MDP
from tacit.model.objective import Features, is_sparse
from tacit.model.transitions import Layout

if TYPE_CHECKING:  # recoveries save themselves through this module, so it must not need them
    from tacit.inverse.joint.recovery import JointRecovery
    from tacit.inverse.noisy.mixture import MixtureRecovery
    from tacit.inverse.recovery import History, Recovery

    AnyRecovery = Recovery | JointRecovery | MixtureRecovery

# What is left of a file that was being written has a random part in its name.
_REST = re.compile(rf"\..+\.[0-9a-f]+{re.escape(PART)}")
Files = dict[str, Callable[[Path], None]]


def save(result: AnyRecovery, folder: Path) -> None:
    """Writes the folder, all or nothing; an older run in it stays until the new one is whole."""
    write_bundle(folder, PAGE, *contents(result), known=FILES)


def contents(result: AnyRecovery) -> tuple[Page, Files]:
    """What the page of a run says about a recovery, and how to write its files."""
    arrays, certificate = pack(result, small=0), asdict(result.certificate)
    page: Page = {
        "format": FORMAT,
        "holds": type(result).__name__,
        "estimator": result.estimator,
        "status": result.status.name,
        "sentence": result.status.value,
        # JSON has no word for what is not finite.
        "certificate": {k: v if np.isfinite(v) else str(v) for k, v in certificate.items()},
        "findings": [_told(finding) for finding in result.identification.findings],
        "versions": versions(),
        "reward_names": plain(getattr(result, "reward_names", ())),
        "cost_names": plain(getattr(result, "cost_names", ())),
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
        return cls(**read_run(Path(folder), several=several))


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


def identity(config: Mapping[str, object], hashes: Mapping[str, str]) -> Page:
    """All that must be the same for a run to be gone on with."""
    here = {"system": platform.system(), "machine": platform.machine()}
    whole = {"config": config, "hashes": hashes, "versions": {**versions(), **here}}
    # Through JSON, so that a tuple and a list, a path and its text compare as they are read back.
    return json.loads(json.dumps(whole, default=str))


@dataclass(frozen=True, eq=False)
class Claim:
    """A folder that this process may write a run to.

    Attributes:
        folder: where.
        checkpoint: where the fit keeps the places that its searches have reached.
        done: whether a finished run of the same kind lies there, so that nothing is left to do.
        identity: what the run depends on.
    """

    folder: Path
    checkpoint: Checkpoint
    done: bool
    identity: Page

    def finish(self, run: Run) -> None:
        """Writes the run, all or nothing, and forgets the way to it."""
        page, files = run.contents()
        write_bundle(self.folder, PAGE, {**page, "identity": self.identity}, files, known=FILES)
        _forget(self.folder)


@contextmanager
def claimed(
    folder: str | Path,
    identity: Page,
    *,
    resume: bool = False,
    overwrite: bool = False,
    break_lock: bool = False,
    every: float = EVERY,
) -> Iterator[Claim]:
    """A `Claim` on the folder, held inside.

    `OSError` if another process holds it, or if a run lies there that must not be lost, or other
    things; `TacitError` if it is no run of the same kind. Input that turns out to be bad inside
    leaves no run behind: there would be nothing to go on with.

    Args:
        folder: of the run; made if need be.
        identity: what the run depends on, from `tacit.folders.runs`.
        resume: go on with a run of the same kind that was interrupted; begin if there is none.
        overwrite: begin again; an older run stays until the new one is whole.
        break_lock: take the folder from a writer on another machine that is surely gone.
        every: seconds between two writes of the checkpoint.
    """
    folder = Path(folder)
    if resume and overwrite:
        raise TacitError("--resume continues a run, --overwrite begins again: choose one")
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder, broken=break_lock):
            done = _begun(folder, identity, resume, overwrite)
            checkpoint = Checkpoint(folder / CHECKPOINT / SEARCHES, every=every)
            try:
                yield Claim(folder, checkpoint, done, identity)
            except (InvalidModel, InvalidDemonstrations):
                _forget(folder)
                raise
            except BROKEN as error:
                if not checkpoint.resumed or isinstance(error, TacitError):
                    raise
                # What was read back may be sealed and still be no state of this search.
                raise BadFile(
                    f"{folder} cannot be gone on with ({type(error).__name__}: {error!s:.80}): "
                    "begin again with --overwrite"
                ) from error
    except (InvalidModel, InvalidDemonstrations):
        if new:
            with contextlib.suppress(OSError):  # somebody else put something there meanwhile
                folder.rmdir()
        raise


def _begun(folder: Path, identity: Page, resume: bool, overwrite: bool) -> bool:
    """Makes a folder ready for the run; whether a finished run of the same kind lies there."""
    check_folder(folder / CHECKPOINT)
    for path in (folder / PAGE, folder / CHECKPOINT / SETTINGS):
        check_plain(path)
    if not (folder / PAGE).exists() and not (folder / CHECKPOINT / SETTINGS).exists():
        _refuse_others(folder)
    # Who begins again need not be able to read what was there.
    finished, under_way = (None, None) if overwrite else _held(folder)
    held = finished if under_way is None else under_way
    if held is not None and not resume:
        what = "a run" if under_way is None else "an unfinished run"
        cure = "--resume continues it, --overwrite begins again"
        raise FileExistsError(errno.EEXIST, f"the folder holds {what} ({cure})", str(folder))
    if held is not None and (other := difference(folder, held, identity)) is not None:
        raise TacitError(other)
    settle(folder, PAGE, FILES)  # before anything is removed: it refuses a page that lies
    if not resume or under_way is None:
        _forget(folder)
    if resume and finished is not None and under_way is None:
        return True
    (folder / CHECKPOINT).mkdir(exist_ok=True)
    write_page(folder / CHECKPOINT / SETTINGS, identity)
    return False


def _held(folder: Path) -> tuple[Page | None, Page | None]:
    """What the finished and the unfinished run in a folder depend on; None where there is none."""
    finished = under_way = None
    if (folder / PAGE).exists():
        finished = read_page(folder / PAGE, form=FORMAT).get("identity", {})
        if not isinstance(finished, dict):
            raise BadFile(f"{folder / PAGE} must say what its run depends on; it does not")
    if (folder / CHECKPOINT / SETTINGS).exists():
        under_way = read_page(folder / CHECKPOINT / SETTINGS)
    return finished, under_way


def _refuse_others(folder: Path) -> None:
    """Raises `FileExistsError` where the folder holds what is no run: it is somebody's."""
    held = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if held == [folder / CHECKPOINT] and held[0].is_dir() and not held[0].is_symlink():
        # What a writer leaves that died before it wrote its settings, or lost them.
        held = [path for path in held[0].iterdir() if not _is_ours(path)]
    if held:
        raise FileExistsError(errno.EEXIST, "the folder holds other things than a run", str(folder))


def _forget(folder: Path) -> None:
    """Removes the checkpoint, its settings last: without them it is none. Nothing of others."""
    place = folder / CHECKPOINT
    if not place.is_dir():
        return
    for path in place.iterdir():
        if _is_ours(path):
            path.unlink()
    (place / SETTINGS).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not empty: somebody keeps other things there
        place.rmdir()


def _is_ours(path: Path) -> bool:
    """Whether a file of a checkpoint is the places of its searches, or what a writer left of it."""
    return path.name == SEARCHES or _REST.fullmatch(path.name) is not None
