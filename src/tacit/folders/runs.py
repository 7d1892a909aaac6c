"""A run: everything that a recovery left behind, in a folder written whole or not at all."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.atomic import Page
from tacit.files.bundles import member, write_bundle
from tacit.files.parquet import read_columns
from tacit.files.tables import write_columns
from tacit.files.trees import Tree, as_tuples, digest, pack, sound, unpack
from tacit.folders.recoveries import (
    CHECKPOINT,
    EXTRAS,
    FILES,
    PAGE,
    TRAJECTORIES,
    Files,
    contents,
    load,
    plain,
    read_run_page,
    versions,
)
from tacit.folders.settings import FILE
from tacit.model.layout import Layout
from tacit.model.mdp import MDP
from tacit.model.objective import Features, is_sparse, is_too_large_to_compare

if TYPE_CHECKING:
    from tacit.estimators.trips.world import Trips
    from tacit.folders.rows_problem import RowsProblem
    from tacit.recovery import Recovery


def row_hashes(problem: RowsProblem) -> dict[str, str]:
    """Part of a problem of rows -> SHA-256 of what it says."""
    seen = problem.demonstrations
    parts = (seen.observations, seen.actions, seen.offsets, seen.ended, seen.final_states)
    who = [None if one is None else [*map(str, one)] for one in (seen.groups, seen.individuals)]
    return {
        "measurements": digest((repr(problem.settings), problem.mdp.discount)),
        "demonstrations": digest((parts, who)),
    }


def data_hashes(mdp: MDP, features: Features, demonstrations: Demonstrations) -> dict[str, str]:
    """Part of the problem -> SHA-256 of what it says, whatever the format of its file."""
    model = (mdp.transitions.states, mdp.transitions.probabilities, mdp.initial, mdp.discount)
    names = (features.reward_names, [list(part) for part in features.cost_names])
    # Written out where that is possible: the same numbers are the same problem.
    maps = [
        t.toarray() if is_sparse(t) and not is_too_large_to_compare(t) else t for t in features.maps
    ]
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

    def __repr__(self) -> str:
        beside = f", extras {', '.join(self.extras)}" if self.extras else ""
        return f"Run({self.recovery!r}{beside})"

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


def read_run(folder: Path, *, several: bool) -> dict[str, Any]:
    """The arguments of `Run`, of a folder; one of `several` tasks or types only if asked for."""
    if not folder.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "there is no such folder; tacit recover makes one", str(folder)
        )
    if not (folder / PAGE).exists():
        if (folder / CHECKPOINT).exists():
            raise OSError(
                f"{folder} holds a run that is not finished: tacit recover --resume continues it"
            )
        message = f"the folder holds no run: {PAGE} is missing"
        if (folder / FILE).exists():
            message = "this is a problem, not a run; tacit recover makes one"
        raise FileNotFoundError(errno.ENOENT, message, str(folder))
    page = read_run_page(folder / PAGE)
    parts: dict[str, Tree] = {"recovery": load(folder, None if several else "Recovery")}
    if EXTRAS in page["files"]:
        with sound(path := member(folder, page, EXTRAS), "further results"):
            parts["extras"] = unpack(read_arrays(path))
    if TRAJECTORIES in page["files"]:
        parts["trajectories"] = read_columns(member(folder, page, TRAJECTORIES))
    with sound(folder / PAGE, "the page of a run"):
        for name in ("config", "data", "versions", "hashes"):
            parts[name] = dict(page.get(name, {}))
        layout = {name: as_tuples(part) for name, part in page.get("layout", {}).items()}
        parts |= {"notes": tuple(page.get("notes", ())), "layout": Layout(**layout)}
    return parts | {"seed": page.get("seed")}


def trajectory_columns(
    columns: Mapping[str, np.ndarray],
    episodes: np.ndarray,
    seen: Demonstrations,
    layout: Layout,
    trips: Trips | None = None,
) -> dict[str, np.ndarray]:
    """Name -> column: who these trajectories are of, where trips go, and what else is known.

    Args:
        columns: what is known of them, their names among it.
        episodes: [N] their numbers.
        seen: the demonstrations.
        layout: how states are called.
        trips: the same as trips to goals, if they are any.
    """
    who = {"episode": columns["episode"]}
    groups = {"individual": seen.individuals, "group": seen.groups}
    who |= {name: of[episodes] for name, of in groups.items() if of is not None}
    if trips is not None:
        origins = trips.demonstrations.states[trips.demonstrations.offsets[:-1][episodes]]
        goals = trips.goals[episodes].tolist()
        who["origin"] = np.array([layout.state_name(state) for state in origins.tolist()])
        who["goal"] = np.array([layout.state_name(goal) if goal >= 0 else "none" for goal in goals])
    return who | {name: column for name, column in columns.items() if name != "episode"}
