"""Problems and runs on disk; here how a run is read back: all of it checked, or one line.

`run.json` is for people; the numbers are in `recovery.npz`, all fields of a recovery by name,
whichever they are.
"""

from __future__ import annotations

import errno
from dataclasses import is_dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tacit import names_on_demand
from tacit.files.arrays import Tree, manifest, member, unpack
from tacit.files.atomic import BadFile, Page, read_page
from tacit.files.formats import read_arrays, read_columns
from tacit.folders.archives import check_extras, check_recovery, check_shapes, layout_of, sound

if TYPE_CHECKING:
    from tacit.engine.progress import checkpoint
    from tacit.files.atomic import check_folder, locked, write_bytes, write_page
    from tacit.folders.problem import Problem
    from tacit.folders.runs import Claim, Run, claimed, versions

__all__ = [
    "BadFile",
    "Claim",
    "Problem",
    "Run",
    "check_folder",
    "checkpoint",
    "claimed",
    "locked",
    "read_page",
    "sound",
    "versions",
    "write_bytes",
    "write_page",
]

_HOME, __getattr__ = names_on_demand(__name__)
if TYPE_CHECKING:  # the names above are public, these here are not
    from tacit.inverse.joint.recovery import JointRecovery
    from tacit.inverse.joint.trips import Trips
    from tacit.inverse.noisy.mixture import MixtureRecovery
    from tacit.model.transitions import Layout

FORMAT = 3
PAGE, ARRAYS, HISTORY = "run.json", "recovery.npz", "history.parquet"
TRAJECTORIES, EXTRAS = "trajectories.parquet", "extras.npz"
FILES = (ARRAYS, HISTORY, TRAJECTORIES, EXTRAS)
# Within the folder of a run that is under way; settings say what its searches depend on.
CHECKPOINT, SEARCHES, SETTINGS = "checkpoint", "searches.npz", "settings.json"
# Rooms whose classes a recovery may be made of.
ROOMS = ("tacit.inference.", "tacit.model.", "tacit.forward.", "tacit.inverse.")
# What a folder may hold, in words, and what loads it.
HELD = {
    "Recovery": ("the recovery of one task", "tacit.Recovery.load"),
    "JointRecovery": ("several tasks", "tacit.JointRecovery.load"),
    "MixtureRecovery": ("a mixture of types", "tacit.Mixture.load"),
    "TripsRecovery": ("trips to goals of their own", "tacit.Recovery.load"),
}
# Kinds that count as others.
ALSO = {"TripsRecovery": "Recovery"}


def difference(folder: Path, held: Page, wanted: Page) -> str | None:
    """One line that says what of the run in the folder is not as asked; None if all is."""
    told = []
    for part, word in (("hashes", "data"), ("config", "setting"), ("versions", "version")):
        old, new = held.get(part, {}), wanted.get(part, {})
        if not isinstance(old, dict):
            raise BadFile(f"{folder} holds no run that can be gone on with: its {part} are none")
        for name in {**old, **new}:
            if old.get(name) != new.get(name):
                told.append(
                    f"{word} {name}: {_short(old.get(name))} there, {_short(new.get(name))} now"
                )
    if not told:
        return None
    more = f" and {len(told) - 4} more" if len(told) > 4 else ""
    return (
        f"{folder} holds a run of another kind ({'; '.join(told[:4])}{more}): choose another "
        "folder, or begin again with --overwrite"
    )


def _short(value: object) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 24 else f"{text[:16]}..."


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


def _page(folder: Path) -> Page:
    """What the page of a run says; `OSError` if it is damaged, `TacitError` if it is none."""
    page = read_page(folder / PAGE, form=FORMAT)
    manifest(folder / PAGE, page, FILES)
    return page


def read_run(folder: Path, *, several: bool) -> dict[str, Any]:
    """The arguments of `Run`, of a folder; one of `several` tasks or types only if asked for."""
    if not folder.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "there is no such folder; tacit recover makes one", str(folder)
        )
    if not (folder / PAGE).exists():
        if (folder / CHECKPOINT / SETTINGS).exists():
            raise OSError(
                f"{folder} holds a run that is not finished: tacit recover --resume continues it"
            )
        said = f"the folder holds no run: {PAGE} is missing"
        if (folder / "problem.toml").exists():
            said = "this is a problem, not a run; tacit recover makes one"
        raise FileNotFoundError(errno.ENOENT, said, str(folder))
    page = _page(folder)
    found: dict[str, Tree] = {"recovery": load(folder, None if several else "Recovery")}
    if EXTRAS in page["files"]:
        with sound(path := member(folder, page, EXTRAS), "further results"):
            found["extras"] = unpack(read_arrays(path))
            check_extras(found["extras"])
    if TRAJECTORIES in page["files"]:
        found["trajectories"] = read_columns(member(folder, page, TRAJECTORIES))
    with sound(folder / PAGE, "the page of a run"):
        for name in ("config", "data", "versions", "hashes"):
            found[name] = dict(page.get(name, {}))
        notes, seed = page.get("notes", []), page.get("seed")
        if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
            raise BadFile("its notes must be a list of texts")
        if not (seed is None or isinstance(seed, int)):
            raise BadFile("its seed must be a whole number")
        layout = layout_of(page, found["recovery"])
    return found | {"notes": tuple(notes), "seed": seed, "layout": layout}


def ends_of(layout: Layout, trips: Trips, episodes: np.ndarray) -> dict[str, np.ndarray]:
    """Where these trips began and where they went, by name."""
    seen, name = trips.demonstrations, layout.state_name
    goals = trips.goals[episodes].tolist()
    origins = seen.states[seen.offsets[:-1][episodes]].tolist()
    return {
        "origin": np.array([name(state) for state in origins]),
        "goal": np.array(["none" if goal < 0 else name(goal) for goal in goals]),
    }
