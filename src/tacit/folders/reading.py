"""From a folder to the parts of a `Problem`: each part from its npz file or from its text twin."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.reading import Reading
from tacit.errors import InvalidModel, TacitError
from tacit.files.formats import did_you_mean
from tacit.files.tables import Progress
from tacit.folders.archives import read_features, read_model, read_truth
from tacit.folders.settings import (
    FILE,
    Names,
    Settings,
    absorbing_states,
    looks_numeric,
    lookup,
    numbered,
    numbers,
    ordered,
    read_settings,
)
from tacit.folders.text import (
    FeatureTable,
    read_feature_table,
    read_transitions,
    successors,
    table_features,
)
from tacit.model.mdp import MDP
from tacit.model.names import Layout
from tacit.model.objective import Features, Objective

T = TypeVar("T")

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
        table.check_names(states, actions, mdp)
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
    source = FILE if table is None else vocabulary.name
    names = Names(
        ordered(settings.states or (table.states if table else ())),
        ordered(settings.actions or (table.actions if table else ())),
    )
    lists = None
    if moves is not None:
        rows = read_transitions(moves, names, source=source)
        names = rows.names
        lists = successors(rows, absorbing_states(settings, names.states))
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


def read_demonstrations(
    path: Path,
    names: Names,
    *,
    source: str,
    places: bool = False,
    progress: Progress | None = None,
) -> tuple[Demonstrations, tuple[str, ...]]:
    """The demonstrations of a file, and the names of all actions.

    Args:
        path: of the file.
        names: of states and actions; actions may not be known yet, then they are taken from here.
        source: where the names of the states come from, for messages.
        places: whether numbers are always places, 0 the first; else numbers may be names where
            states or actions are called 1, 2, 3 or 10, 20, 30.
        progress: called now and then with what is done and what there is to do.
    """
    places = places or path.suffix == ".npz"  # arrays hold places, whatever the names

    def to_look_up(names: tuple[str, ...]) -> tuple[str, ...]:
        odd = any(looks_numeric(name) for name in names)
        return () if numbered(names) or (places and odd) else names

    seen, found = Demonstrations.read(
        path,
        Reading(
            state_names=to_look_up(names.states),
            action_names=to_look_up(names.actions),
            source=source,
            find=() if names.actions else ("action",),
            states=len(names.states),
            actions=len(names.actions),
            progress=progress,
        ),
    )
    if not names.actions:
        return seen, found.action_names or numbers(int(seen.actions.max()) + 1)
    return seen, names.actions


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
    from tacit.model.prior import Prior

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


def faults(folder: Path, first: Exception) -> tuple[str, ...]:
    """The error met first, and what else is wrong in files that can be read by themselves.

    Args:
        folder: of the problem.
        first: what loading it raised.
    """
    found = [" ".join(str(first).split())]

    def untold(name: str) -> bool:
        """Whether the file is there and nothing has been said about it yet."""
        return (folder / name).is_file() and str(folder / name) not in found[0]

    def attempt(read: Callable[[], T]) -> T | None:
        try:
            return read()
        except (TacitError, OSError) as error:
            said = " ".join(str(error).split())
            if said not in found:
                found.append(said)
            return None

    settings = attempt(lambda: read_settings(folder))
    table = None
    if untold("features.csv"):
        table = attempt(lambda: read_feature_table(folder / "features.csv"))
    if table is not None:
        names = Names(ordered(table.states), ordered(table.actions))
        if settings is not None:
            states, actions = lookup(names.states), lookup(names.actions)
            attempt(lambda: table_features(table, settings, states, actions))
        if untold("transitions.csv"):
            path, known = folder / "transitions.csv", Names(names.states, ())
            attempt(lambda: read_transitions(path, known, source="features.csv"))
    for name, read in (
        ("mdp.npz", read_model),
        ("features.npz", read_features),
        ("truth.npz", read_truth),
        *((name, Demonstrations.load_named) for name in SEEN),
    ):
        if untold(name):
            attempt(lambda read=read, name=name: read(folder / name))
    return tuple(found)


def given_start(
    settings: Settings, states: tuple[str, ...], table: FeatureTable | None
) -> np.ndarray | None:
    """[S] the distribution of the first state; None where `problem.toml` does not say."""
    given, known = settings.initial, lookup(states)
    if given is None:
        return None
    if isinstance(given, str) and given not in known and table and table.gives(given):
        shares = table.column(given, known, {"": 0})
        return _distribution(shares, f"{table.path}: the column {given!r}, initial,")
    start = np.zeros(len(states))
    for name, share in {given: 1.0}.items() if isinstance(given, str) else given.items():
        if name not in known:
            raise InvalidModel(
                f"{settings.path}: initial must name a state; got {name!r}"
                f"{did_you_mean(name, known)}"
            )
        start[known[name]] = share
    return _distribution(start, f"{settings.path}: initial")


def _distribution(shares: np.ndarray, what: str) -> np.ndarray:
    if shares.ndim != 1 or not (shares >= 0).all() or abs(shares.sum() - 1.0) > 1e-6:
        total = f"; it sums to {shares.sum():g}" if (shares >= 0).all() else "; one is negative"
        raise InvalidModel(f"{what} must be probabilities of states that sum to 1{total}")
    return shares


def first_states(
    settings: Settings, demonstrations: Demonstrations | None, states: int
) -> tuple[np.ndarray, tuple[str, ...]]:
    """[S] the shares of the first states that were seen, and the sentence that says so."""
    whole = None if demonstrations is None else np.flatnonzero(~demonstrations.partial)
    if demonstrations is None or whole is None or not len(whole):
        raise InvalidModel(
            f'{settings.path} must give initial, such as initial = "name of a state": there are no '
            "demonstrations seen from their start to take it from"
        )
    begins = demonstrations.states[demonstrations.offsets[:-1][whole]]
    inside = begins[(begins >= 0) & (begins < states)]
    shares = np.bincount(inside, minlength=states) / max(1, len(inside))
    note = (
        f"Where episodes start was not given: the shares of the first states of {len(whole)} "
        "episodes were taken."
    )
    return shares, (note,)
