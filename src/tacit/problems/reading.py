"""From a folder to the parts of a `Problem`: each part from its npz file or from its text twin."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.demonstrations import Demonstrations
from tacit.errors import InvalidModel
from tacit.layout import Layout
from tacit.mdp import MDP
from tacit.objective import Features, Objective
from tacit.problems.archives import read_features, read_model, read_truth
from tacit.problems.demonstration_names import read_demonstrations
from tacit.problems.feature_table import FeatureTable, read_feature_table, table_features
from tacit.problems.naming import (
    Names,
    absorbing_states,
    known_names,
    lookup,
    numbers,
    ordered,
    refuse_other_names,
)
from tacit.problems.settings import FILE, Settings, read_settings
from tacit.problems.start import first_states, given_start
from tacit.problems.transition_table import read_transition_table, renumbered, successors

Progress = Callable[[int, int], Any]

SEEN = ("demonstrations.parquet", "demonstrations.csv", "demonstrations.npz")


def read_problem(folder: Path, progress: Progress | None = None) -> dict[str, Any]:
    """The arguments of `Problem`, read from its folder."""
    if not folder.exists():
        raise FileNotFoundError(errno.ENOENT, "there is no such problem folder", str(folder))
    if not folder.is_dir():
        raise NotADirectoryError(
            errno.ENOTDIR, "a problem must be a folder; this is a file", str(folder)
        )
    settings = read_settings(folder)
    archive = one_of(folder, "mdp.npz", "transitions.csv")
    vocabulary = one_of(folder, "features.npz", "features.csv")
    seen = one_of(folder, *SEEN)
    if vocabulary is None and (folder / "run.json").exists():
        raise FileNotFoundError(errno.ENOENT, "this is a run, not a problem", str(folder))
    if vocabulary is None:
        raise FileNotFoundError(
            errno.ENOENT, "a problem needs features.csv or features.npz", str(folder)
        )
    table = read_feature_table(vocabulary) if vocabulary.suffix == ".csv" else None
    if table is None and settings.reward is not None:
        raise InvalidModel(
            f"{folder} must give each part once; features.npz holds the features, and "
            f"[features] of {FILE} names them again"
        )
    if archive is not None and archive.suffix == ".npz":
        parts = _from_archive(archive, settings, seen, progress)
    else:
        parts = _from_text(settings, archive, table, vocabulary, seen, progress)
    mdp, layout = parts["mdp"], parts["layout"]
    if table is None:
        features = read_features(vocabulary)
    else:
        states = lookup(layout.state_names or numbers(mdp.states))
        actions = lookup(layout.action_names or numbers(mdp.actions))
        refuse_other_names(table, states, actions, mdp)
        features = table_features(table, settings, states, actions)
    seen_notes = () if parts["demonstrations"] is None else parts["demonstrations"].notes
    return parts | {
        "features": features,
        "truth": _truth(folder, settings, features),
        "notes": (*seen_notes, *parts.get("notes", ())),
    }


def one_of(folder: Path, *names: str) -> Path | None:
    """The only file of these that is there, or None; a part given twice is an error."""
    found = [folder / name for name in names if (folder / name).exists()]
    if len(found) > 1:
        both = " and ".join(path.name for path in found)
        raise InvalidModel(f"{folder} must give each part once; it holds {both}")
    return found[0] if found else None


def _from_archive(
    path: Path, settings: Settings, seen: Path | None, progress: Progress | None
) -> dict[str, Any]:
    """Model, layout and demonstrations, the model from `mdp.npz`."""
    for key in ("discount", "initial", "states", "actions", "rows"):
        if getattr(settings, key):
            raise InvalidModel(
                f"{path.parent} must give each part once; {path.name} holds the model, and "
                f"{FILE} gives {key} again"
            )
    mdp, layout, notes = read_model(path, stay=settings.absorbing == "stay")
    names = Names(
        layout.state_names or numbers(mdp.states), layout.action_names or numbers(mdp.actions)
    )
    demonstrations = None
    if seen is not None:
        demonstrations, _ = read_demonstrations(
            seen, names, source=path.name, places=True, progress=progress
        )
        check_against(demonstrations, mdp, seen)
    return {"mdp": mdp, "layout": layout, "demonstrations": demonstrations, "notes": notes}


def _from_text(
    settings: Settings,
    moves: Path | None,
    table: FeatureTable | None,
    vocabulary: Path,
    seen: Path | None,
    progress: Progress | None,
) -> dict[str, Any]:
    """Model, layout, demonstrations and notes, the model from text or from the demonstrations."""
    if settings.discount is None:
        raise InvalidModel(f"{settings.path} must give discount, such as discount = 0.9")
    if moves is None and seen is None:
        raise FileNotFoundError(
            errno.ENOENT,
            "a problem needs transitions.csv, or demonstrations to estimate them from",
            str(vocabulary.parent),
        )
    names, source = known_names(settings, table, vocabulary)
    lists = None
    if moves is not None:
        given = None if names.states == () else lookup(names.states)
        known = None if names.actions == () else lookup(names.actions)
        rows = read_transition_table(moves, given, known, source=source)
        names = Names(names.states or ordered(rows.states), names.actions or ordered(rows.actions))
        rows = renumbered(rows, lookup(names.states), lookup(names.actions))
        stays = absorbing_states(settings, names.states)
        lists = successors(rows, (names.states, names.actions), stays)
    demonstrations = None
    if seen is not None:
        demonstrations, actions = read_demonstrations(seen, names, source=source, progress=progress)
        names = replace(names, actions=actions)
    layout = names.layout(settings)
    start = given_start(settings, names.states, table)
    if lists is None:
        assert demonstrations is not None
        return _estimated(settings, names, layout, demonstrations, start)
    notes: tuple[str, ...] = ()
    if start is None:
        start, notes = first_states(settings, demonstrations, len(names.states))
    mdp = MDP(lists, start, settings.discount)
    if demonstrations is not None and seen is not None:
        check_against(demonstrations, mdp, seen)
    return {"mdp": mdp, "layout": layout, "demonstrations": demonstrations, "notes": notes}


def check_against(demonstrations: Demonstrations, mdp: MDP, path: Path) -> None:
    """Raises `InvalidDemonstrations`, naming the file, unless the model has all that was seen."""
    try:
        demonstrations.check(mdp)
    except ValueError as error:
        raise type(error)(f"{path}: {error}") from None


def _estimated(
    settings: Settings,
    names: Names,
    layout: Layout,
    demonstrations: Demonstrations,
    start: np.ndarray | None,
) -> dict[str, Any]:
    from tacit.dynamics_prior import Prior

    mdp = MDP.from_transitions(
        demonstrations,
        discount=settings.discount or 0.0,
        n_states=len(names.states),
        n_actions=len(names.actions),
        initial=start,
        prior=Prior(settings.prior, settings.over),
        unvisited=settings.unvisited,
        absorbing=np.flatnonzero(absorbing_states(settings, names.states)),
    )
    evidence = mdp.evidence
    assert evidence is not None
    return {
        "mdp": mdp,
        "layout": layout,
        "demonstrations": demonstrations,
        "notes": evidence.sentences(layout),
    }


def _truth(folder: Path, settings: Settings, features: Features) -> Objective | None:
    path = folder / "truth.npz"
    if not settings.truth:
        return read_truth(path) if path.exists() else None
    if path.exists():
        raise InvalidModel(
            f"{folder} must give each part once; truth.npz holds the truth, and "
            f"[truth] of {FILE} again"
        )
    try:
        weights = settings.truth
        return features.objective(
            weights["reward"], weights.get("costs", []), weights.get("budgets", [])
        )
    except InvalidModel as error:
        raise InvalidModel(f"{settings.path}: [truth]: {error}") from None
