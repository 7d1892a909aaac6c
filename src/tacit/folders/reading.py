"""From a folder to the parts of a `Problem`: each part from its npz file or from its text twin."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.reading import Reading
from tacit.errors import InvalidModel
from tacit.files.tables import Progress
from tacit.folders.archives import read_features, read_model, read_places, read_truth
from tacit.folders.settings import (
    FILE,
    Names,
    Settings,
    absorbing_states,
    first_states,
    given_start,
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
from tacit.inverse.findings import Finding, Kind, listed
from tacit.model.ends import steps_to_end
from tacit.model.mdp import MDP
from tacit.model.objective import Features, Objective
from tacit.model.transitions import Layout, Successors, with_directions

NAMED = 5  # most states that one sentence names
OTHERS = (".xlsx", ".xls", ".ods", ".tsv")  # tables that people keep, and no part of a problem
NEEDED = "a problem needs features.csv or features.npz, or features of the states in problem.toml"
SEEN = ("demonstrations.parquet", "demonstrations.csv", "demonstrations.npz")


def read_problem(folder: Path, progress: Progress | None = None) -> dict[str, Any]:
    """The arguments of `Problem`, read from its folder."""
    if not folder.exists():
        raise FileNotFoundError(errno.ENOENT, "there is no such problem folder", str(folder))
    if not folder.is_dir():
        said = "a problem must be a folder (tacit ingest makes one of a log); this is a file"
        raise NotADirectoryError(errno.ENOTDIR, said, str(folder))
    settings = read_settings(folder)
    archive = one_of(folder, "mdp.npz", "transitions.csv")
    vocabulary = one_of(folder, "features.npz", "features.csv")
    seen = one_of(folder, *SEEN)
    alone = settings.reward == () and not any(settings.costs)  # of the states, without a file
    if vocabulary is None and not alone:
        said = "this is a run, not a problem" if (folder / "run.json").exists() else NEEDED
        raise FileNotFoundError(errno.ENOENT, said, str(folder))
    vocabulary = vocabulary or settings.path
    table = read_feature_table(vocabulary) if vocabulary.suffix == ".csv" else None
    if vocabulary.suffix == ".npz" and settings.reward is not None:
        raise InvalidModel(
            f"{folder} must give each part once; features.npz holds the features, and "
            f"[features] of {FILE} names them again"
        )
    if archive is not None and archive.suffix == ".npz":
        parts = _from_archive(archive, settings, seen, progress)
    else:
        parts = _from_text(settings, archive, table, vocabulary, seen, progress)
    mdp, layout = parts["mdp"], parts["layout"]
    if (folder / "places.csv").exists():
        places = layout.state_names or numbers(mdp.states)
        layout = read_places(folder / "places.csv", layout, places)
    states = lookup(layout.state_names or numbers(mdp.states))
    actions = lookup(layout.action_names or numbers(mdp.actions))
    if table is not None:
        table.check_names(states, actions, mdp)
    if vocabulary.suffix == ".npz":
        features = read_features(vocabulary)
    else:
        features = table_features(table, settings, states, actions)
    seen_notes = () if parts["demonstrations"] is None else parts["demonstrations"].notes
    if settings.goal:
        parts |= {name: getattr(settings, name) for name in ("goal", "unended")}
        parts["discount"] = mdp.discount if settings.discount is None else settings.discount
    moves = mdp.transitions
    return parts | {
        "layout": with_directions(layout, moves.states, moves.probabilities),
        "features": features,
        "truth": _truth(folder, settings, features),
        "notes": (*seen_notes, *parts.get("notes", ())),
        "coefficients": settings.coefficients,
        "link_size": settings.link_size,
    }


def one_of(folder: Path, *names: str) -> Path | None:
    """The only file of these that is there, or None; a part given twice is an error."""
    found = [folder / name for name in names if (folder / name).exists()]
    if len(found) > 1:
        both = " and ".join(path.name for path in found)
        raise InvalidModel(f"{folder} must give each part once; it holds {both}")
    for stray in (folder / f"{Path(name).stem}{end}" for name in names for end in OTHERS):
        if not found and stray.exists():
            raise InvalidModel(f"{stray} must be {' or '.join(names)}: save the table as CSV")
    return found[0] if found else None


def _from_archive(
    path: Path, settings: Settings, seen: Path | None, progress: Progress | None
) -> dict[str, Any]:
    """Model, layout and demonstrations, the model from `mdp.npz`."""
    for key in ("discount", "initial", "states", "actions", "rows", "absorbing"):
        # Trips have a discount of their own.
        if getattr(settings, key) and not (key == "discount" and settings.goal):
            raise InvalidModel(
                f"{path.parent} must give each part once; {path.name} holds the model, and "
                f"{FILE} gives {key} again"
            )
    mdp, layout, notes = read_model(path)
    names = Names(
        layout.state_names or numbers(mdp.states), layout.action_names or numbers(mdp.actions)
    )
    demonstrations = None
    if seen is not None:
        demonstrations, _ = read_demonstrations(
            seen,
            names,
            source=path.name,
            available=mdp.available if mdp.restricted else None,
            places=True,
            progress=progress,
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
    if moves is None and vocabulary.name == FILE and not settings.states:
        raise InvalidModel(f"{settings.path} must list states in [names]; no other file does")
    source = FILE if table is None or settings.states else vocabulary.name
    acts = (vocabulary if table and table.actions else moves or vocabulary).name
    acts = FILE if settings.actions else acts
    names = Names(
        ordered(settings.states or (table.states if table else ())),
        ordered(settings.actions or (table.actions if table else ())),
    )
    lists = there = None
    if moves is not None:
        rows = read_transitions(moves, names, source=source)
        names = rows.names
        lists, there = successors(rows, absorbing_states(settings, names.states))
    asked = table.available(names, settings) if table and names.actions else None
    if asked is not None and table is not None and there is not None:
        table.refuse_empty(asked, there, names)
    there = asked if there is None else there if asked is None else there & asked
    demonstrations = None
    if seen is not None:
        demonstrations, actions = read_demonstrations(
            seen, names, source=(source, acts), available=there, progress=progress
        )
        known, names = names.actions, replace(names, actions=actions)
        if table and not known:  # what a state alone says needs no names of actions
            there = table.available(names, settings)
    layout = names.layout(settings)
    start = given_start(settings, names.states, table)
    if lists is None:
        assert demonstrations is not None
        return _estimated(settings, names, layout, demonstrations, start, there)
    notes = _told_to_stay(settings)
    if start is None and settings.goal and demonstrations is None:
        start = np.full(len(names.states), 1.0 / len(names.states))  # of no account
    if start is None:
        start, said = first_states(settings, demonstrations, len(names.states))
        notes += () if settings.goal else said  # trips start where they do
    with _naming_states(settings, lists, start, there, names):
        mdp = MDP(lists, start, _network_discount(settings, lists, there), available=there)
    if demonstrations is not None and seen is not None:
        check_against(demonstrations, mdp, seen)
    return {"mdp": mdp, "layout": layout, "demonstrations": demonstrations, "notes": notes}


def _network_discount(settings: Settings, lists: Successors, there: np.ndarray | None) -> float:
    """The discount of the model: that of the file, or 0 where only its trips end."""
    assert settings.discount is not None
    if not settings.goal or settings.discount < 1.0:
        return settings.discount
    model = MDP(lists, np.eye(len(lists.states))[0], 0.0, available=there)
    return 1.0 if np.isfinite(steps_to_end(model)).all() else 0.0


def read_demonstrations(
    path: Path,
    names: Names,
    *,
    source: str | tuple[str, str],
    available: np.ndarray | None = None,
    places: bool = False,
    progress: Progress | None = None,
) -> tuple[Demonstrations, tuple[str, ...]]:
    """The demonstrations of a file, and the names of all actions.

    Args:
        path: of the file.
        names: of states and actions; actions may not be known yet, then they are taken from here.
        source: where names come from, for messages; two where actions have another source.
        available: [S, A] bool, which actions there are; None where all are, or nobody knows.
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
            source=source if isinstance(source, str) else source[0],
            action_source=source if isinstance(source, str) else source[1],
            find=() if names.actions else ("action",),
            states=len(names.states),
            actions=len(names.actions),
            available=available,
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
    there: np.ndarray | None,
) -> dict[str, Any]:
    from tacit.model.counts import Prior

    discount = settings.discount or 0.0
    mdp = MDP.from_transitions(
        demonstrations,
        discount=min(discount, 0.5),
        n_states=len(names.states),
        n_actions=len(names.actions),
        initial=start,
        prior=Prior(settings.prior, settings.over),
        unvisited=settings.unvisited,
        absorbing=np.flatnonzero(absorbing_states(settings, names.states)),
        available=there,
    )
    if discount == 1.0:
        discount = _network_discount(settings, mdp.transitions, mdp.available)
    with _naming_states(settings, mdp.transitions, mdp.initial, mdp.available, names):
        mdp = replace(mdp, discount=discount)
    evidence = mdp.evidence
    assert evidence is not None
    return {
        "mdp": mdp,
        "layout": layout,
        "demonstrations": demonstrations,
        "notes": evidence.sentences(layout, ends=mdp.ends),
    }


def _told_to_stay(settings: Settings) -> tuple[str, ...]:
    """The sentence on states in which time goes on though nothing leaves them."""
    if not settings.absorbing:
        return ()
    said = (
        f"In {listed(settings.absorbing, NAMED)} every action is taken to stay, and time goes on: "
        "[transitions] names them absorbing."
    )
    return (Finding(said, Kind.ASSUMED, number=len(settings.absorbing)),)


@contextmanager
def _naming_states(
    settings: Settings,
    transitions: Successors,
    initial: np.ndarray,
    available: np.ndarray | None,
    names: Names,
) -> Iterator[None]:
    """Inside, an `InvalidModel` is told with the file, and by name which state reaches no end."""
    try:
        yield
    except InvalidModel as error:
        if settings.discount != 1.0:
            raise InvalidModel(f"{settings.path.parent}: {error}") from None
        model = MDP(transitions, initial, 0.0, available=available)
        lost = np.flatnonzero(~np.isfinite(steps_to_end(model)))
        if not len(lost):
            raise InvalidModel(f"{settings.path.parent}: {error}") from None
        shown = listed([repr(names.states[s]) for s in lost], NAMED)
        raise InvalidModel(
            f"{settings.path}: discount = 1 needs an end, a state without transitions, that every "
            f"state can reach; got {shown}, from where none is reached: correct the transitions, "
            "or take a discount below 1"
        ) from None


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
        weights = [settings.truth.get(name, []) for name in ("reward", "costs", "budgets")]
        return features.objective(*weights)
    except InvalidModel as error:
        raise InvalidModel(f"{settings.path}: [truth]: {error}") from None


def availability(mdp: MDP, layout: Layout, folder: Path) -> tuple[Finding, ...]:
    """How many actions are not available and which states are ends, as findings; none if all are.

    Args:
        mdp: that was read.
        layout: how states and actions are called.
        folder: from which it was read.
    """
    found = []
    pairs = np.argwhere(~mdp.available & ~mdp.ends[:, None])
    why = " (no row in transitions.csv)" if (folder / "transitions.csv").exists() else ""
    if len(pairs):
        names = [
            f"{layout.action_name(a)} in {layout.state_name(s)}" for s, a in pairs[: NAMED + 1]
        ]
        names += [""] * (len(pairs) - len(names))
        total = int((~mdp.ends).sum()) * mdp.actions
        said = (
            f"{len(pairs)} of {total} pairs of state and action are not available"
            f"{why}: {listed(names, NAMED)}."
        )
        found.append(Finding(said, Kind.ASSUMED, number=len(pairs)))
    ends = np.flatnonzero(mdp.ends)
    if len(ends):
        names = [layout.state_name(int(s)) for s in ends]
        one = len(ends) == 1
        said = (
            f"{len(ends)} of {mdp.states} states {'ends an episode' if one else 'end episodes'}"
            f"{why}: {listed(names, NAMED)}. What such a state pays it pays once, on arrival."
        )
        found.append(Finding(said, Kind.ASSUMED, number=len(ends)))
    return tuple(found)
