"""What a result depends on: the data by checksums, the settings, the versions."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tacit.demonstrations import Demonstrations
from tacit.files.trees import digest
from tacit.inverse.storage import versions
from tacit.mdp import MDP
from tacit.objective import Features


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
