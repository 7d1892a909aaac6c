"""What a result depends on: the data by checksums, the settings, the versions."""

from __future__ import annotations

import errno
import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.files.arrays import digest, pack, read_arrays, unpack, write_arrays
from tacit.files.atomic import member, read_page, verify, write_bundle
from tacit.files.tables import read_columns, write_columns
from tacit.folders.journal import JOURNAL, SETTINGS
from tacit.folders.recoveries import FORMAT, PAGE, contents, versions
from tacit.inverse.recovery import Recovery
from tacit.model.mdp import MDP
from tacit.model.names import Layout
from tacit.model.objective import Features


def data_hashes(mdp: MDP, features: Features, demonstrations: Demonstrations) -> dict[str, str]:
    """Part of the problem -> SHA-256 of what it says, whatever the format of its file."""
    model = (mdp.transitions.states, mdp.transitions.probabilities, mdp.initial, mdp.discount)
    names = (features.reward_names, [list(part) for part in features.cost_names])
    seen = [
        getattr(demonstrations, name)
        for name in ("states", "actions", "offsets", "ended", "final_states", "partial")
    ]
    groups = getattr(demonstrations, "groups", None)
    return {
        "mdp": digest(model),
        "features": digest((features.reward, list(features.costs), names)),
        "demonstrations": digest((seen, None if groups is None else [str(g) for g in groups])),
    }


def identity(config: Mapping[str, Any], hashes: Mapping[str, str]) -> dict[str, Any]:
    """All that must be the same for a run to be gone on with."""
    here = {"system": platform.system(), "machine": platform.machine()}
    whole = {"config": config, "hashes": hashes, "versions": {**versions(), **here}}
    # Through JSON, so that a tuple and a list, a path and its text compare as they are read back.
    return json.loads(json.dumps(whole, default=str))


def difference(folder: Path, held: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    """One line that says what of the run in the folder is not as asked; None if all is."""
    told = []
    for part, word in (("hashes", "data"), ("config", "setting"), ("versions", "version")):
        old, new = held.get(part, {}), wanted.get(part, {})
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


def data_summary(mdp: MDP, demonstrations: Demonstrations) -> dict[str, Any]:
    """What the demonstrations are, in numbers, for people."""
    lengths = np.diff(demonstrations.offsets)
    counts = demonstrations.counts(mdp)
    groups = getattr(demonstrations, "groups", None)
    found: dict[str, Any] = {
        "episodes": demonstrations.episodes,
        "steps": demonstrations.steps,
        "shortest_episode": int(lengths.min()),
        "longest_episode": int(lengths.max()),
        "ended_episodes": int(demonstrations.ended.sum()),
        "episodes_joined_on_the_way": int(demonstrations.partial.sum()),
        "states": mdp.states,
        "states_visited": int((counts.sum(axis=1) > 0).sum()),
        "actions": mdp.actions,
        "state_action_pairs_seen": int((counts > 0).sum()),
    }
    if groups is not None:
        names, sizes = np.unique(np.asarray(groups, dtype=str), return_counts=True)
        found["groups"] = dict(zip(names.tolist(), sizes.tolist(), strict=True))
    return found


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 24 else f"{text[:16]}..."


TRAJECTORIES, EXTRAS = "trajectories.parquet", "extras.npz"


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
    config: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    trajectories: Mapping[str, np.ndarray] = field(default_factory=dict)
    extras: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=versions)
    seed: int | None = None
    hashes: Mapping[str, str] = field(default_factory=dict)

    def save(self, folder: str | Path) -> None:
        """Writes the folder, all or nothing; an older run in it stays until this one is whole."""
        write_bundle(Path(folder), PAGE, *self.contents())

    def contents(self) -> tuple[dict[str, Any], dict[str, Callable[[Path], Any]]]:
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
    def load(cls, folder: str | Path) -> Run:
        """The run of a folder, everything checked; a recovery saved by itself is one, too."""
        folder = Path(folder)
        if not (folder / PAGE).exists() and (folder / JOURNAL / SETTINGS).exists():
            raise OSError(
                f"{folder} holds a run that is not finished: tacit recover --resume goes on with it"
            )
        if not (folder / PAGE).exists() and (folder / "problem.toml").exists():
            raise FileNotFoundError(
                errno.ENOENT, "this is a problem, not a run; tacit recover makes one", str(folder)
            )
        page = read_page(folder / PAGE, form=FORMAT)
        recovery = Recovery.load(folder)
        extras, trajectories = {}, {}
        if EXTRAS in page["files"]:
            path = member(folder, page, EXTRAS)
            extras = unpack(read_arrays(path))
            verify(path, page, EXTRAS)
        if TRAJECTORIES in page["files"]:
            path = member(folder, page, TRAJECTORIES)
            trajectories = read_columns(path)
            verify(path, page, TRAJECTORIES)
        layout = dict(page.get("layout", {}))
        layout["directions"] = tuple(map(tuple, layout.get("directions", ())))
        for name in ("state_names", "action_names"):
            layout[name] = tuple(layout.get(name, ()))
        return cls(
            recovery,
            Layout(**layout),
            page.get("config", {}),
            page.get("data", {}),
            tuple(page.get("notes", ())),
            trajectories,
            extras,
            page["versions"],
            page.get("seed"),
            page.get("hashes", {}),
        )


def plain(value: Any, *, arrays: bool = False) -> Any:
    """The value as dictionaries, lists, numbers and text: what a page and a report can hold.

    Of a dataclass its fields, its `sentences` and its `columns`; recoveries in it are left out,
    being runs of their own.

    Args:
        value: anything made of these.
        arrays: leave arrays of numbers as they are.
    """
    if is_dataclass(value) and not isinstance(value, type):
        parts = {part.name: getattr(value, part.name) for part in fields(value)}
        for name in ("sentences", "columns"):
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
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _holds_recovery(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(isinstance(part, Recovery) for part in value)
    return isinstance(value, Recovery)
