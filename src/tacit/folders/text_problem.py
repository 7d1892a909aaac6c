"""A problem that somebody wrote as text: tables and `problem.toml`, the model perhaps counted."""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidModel
from tacit.files.atomic import naming
from tacit.files.tables import Progress, open_table
from tacit.files.wording import did_you_mean, listed
from tacit.folders.demonstrations import one_of, read_demonstrations
from tacit.folders.feature_table import FeatureTable, table_features
from tacit.folders.names import Names, are_numbers, in_order
from tacit.folders.settings import FILE, ProblemSettings
from tacit.folders.transition_table import TransitionTable
from tacit.inference.findings import Finding, Kind
from tacit.model.counts import start_shares
from tacit.model.ends import EndUnreached
from tacit.model.layout import Layout, lookup
from tacit.model.mdp import MDP
from tacit.model.objective import Features, Objective

NEEDED = "a problem needs features.csv, or features of the states in problem.toml"
PLACED = ("state", "x", "y", "hexagon")  # columns of `places.csv`
NAMED = 5  # most states that one sentence names


def read_text(
    folder: Path, settings: ProblemSettings, seen: Path | None, progress: Progress | None
) -> dict[str, Any]:
    """The parts of a problem: model, features, truth, layout, demonstrations and notes.

    Args:
        folder: of the problem.
        settings: of its `problem.toml`.
        seen: the file of the demonstrations; None where there is none.
        progress: called while demonstrations are read.
    """
    moves = one_of(folder, "transitions.csv")
    table, names = _vocabulary(folder, settings, moves, seen)
    ways = None if moves is None else TransitionTable.read(moves, names)
    names = names if ways is None else ways.names
    stays = _absorbing(settings, names.states)
    there = asked = table.available(names, settings) if table and names.actions else None
    lists = None
    if ways is not None:
        lists, there = ways.transitions(stays)
        if table is not None and asked is not None:
            table.refuse_empty(asked, there, names)
            there = there & asked
    demonstrations = None
    if seen is not None:
        demonstrations, actions = read_demonstrations(
            seen, names, available=there, progress=progress
        )
        known, names = names.actions, replace(names, actions=actions)
        if table and not known:  # what a state alone says needs no names of actions
            there = table.available(names, settings)
    start, notes = _start(settings, names, table, demonstrations)
    if lists is None:
        assert demonstrations is not None
        make = partial(
            MDP.from_transitions,
            demonstrations,
            n_states=len(names.states),
            n_actions=len(names.actions),
            initial=start,
            prior=settings.prior,
            unvisited=settings.unvisited,
            absorbing=np.flatnonzero(stays),
            available=there,
        )
    else:
        start = start_shares(demonstrations, len(names.states)) if start is None else start
        make = partial(MDP, lists, start, available=there)
    mdp, layout = _model(make, settings, names), _layout(folder, settings, names)
    if mdp.evidence is not None:
        notes = mdp.evidence.sentences(layout, ends=mdp.ends)
    if table is not None:
        table.check_names(names, mdp)
    features = table_features(table, settings, names, mdp.available)
    return {
        "mdp": mdp,
        "features": features,
        "truth": _truth(settings, features),
        "layout": layout,
        "demonstrations": demonstrations,
        "notes": notes,
    }


def _vocabulary(
    folder: Path, settings: ProblemSettings, moves: Path | None, seen: Path | None
) -> tuple[FeatureTable | None, Names]:
    """The table of features, None where none is needed, and the names known before others are read.

    `FileNotFoundError` or `InvalidModel` where a file or a setting is missing that must be there.
    """
    path = one_of(folder, "features.csv")
    is_of_states = settings.reward == () and not any(settings.costs)  # which needs no file
    if path is None and not is_of_states:
        message = "this is a run, not a problem" if (folder / "run.json").exists() else NEEDED
        raise FileNotFoundError(errno.ENOENT, message, str(folder))
    table = None if path is None else FeatureTable.read(path)
    if settings.discount is None:
        raise InvalidModel(f"{settings.path} must give discount, such as discount = 0.9")
    if moves is None and seen is None:
        message = "a problem needs transitions.csv, or demonstrations to estimate them from"
        raise FileNotFoundError(errno.ENOENT, message, str(folder))
    if moves is None and table is None and not settings.states:
        raise InvalidModel(f"{settings.path} must list states in [names]; no other file does")
    source = (path or settings.path).name
    action_source = source if (table and table.actions) or moves is None else moves.name
    return table, Names(
        in_order(settings.states or (table.states if table else ())),
        in_order(settings.actions or (table.actions if table else ())),
        (FILE if settings.states else source, FILE if settings.actions else action_source),
    )


def _model(make: Callable[..., MDP], settings: ProblemSettings, names: Names) -> MDP:
    """What `make` makes at the discount of the settings, or at 0 where only its trips end."""
    try:
        return make(discount=settings.discount)
    except EndUnreached as error:
        if settings.goal:
            return make(discount=0.0)
        lost = listed([repr(names.states[s]) for s in error.states], NAMED)
        raise InvalidModel(
            f"{settings.path}: discount = 1 needs an end, a state without transitions, that every "
            f"state can reach; got {lost}, from where none is reached: correct the transitions, "
            "or take a discount below 1"
        ) from None
    except InvalidModel as error:
        raise InvalidModel(f"{settings.path.parent}: {error}") from None


def _layout(folder: Path, settings: ProblemSettings, names: Names) -> Layout:
    """What states and actions are called, and where they lie on a grid or by `places.csv`."""
    layout = Layout(
        rows=settings.rows,
        columns=settings.columns,
        directions=settings.directions,
        corner=settings.corner,
        cell_size=settings.cell_size,
        state_names=() if are_numbers(names.states) else names.states,
        action_names=() if are_numbers(names.actions) else names.actions,
    )
    path = folder / "places.csv"
    return _with_places(path, layout, names.states) if path.exists() else layout


def _with_places(path: Path, layout: Layout, states: Sequence[str]) -> Layout:
    """The layout with the centres, and hexagons, that `places.csv` tells of its states."""
    table = open_table(path, InvalidModel, expected=PLACED)
    table.require(*PLACED[:3])
    cells = table.read([name for name in PLACED if name in table.names], texts=["state"])
    row = cells.pop("state").numbered(lookup(states), "a name of a state")
    if not np.array_equal(np.sort(row), np.arange(len(states))):
        raise InvalidModel(
            f"{path} must have one row for each of the {len(states)} states; it has {len(row)}, "
            f"of {len(np.unique(row))}"
        )
    x, y, *widths = (column.reals()[np.argsort(row)].tolist() for column in cells.values())
    centres, hexagon = tuple(zip(x, y, strict=True)), widths[0][0] if widths else 0.0
    return replace(layout, centres=centres, hexagon=hexagon)


def _truth(settings: ProblemSettings, features: Features) -> Objective | None:
    """The objective that was followed, where `problem.toml` says it."""
    if not settings.truth:
        return None
    with naming(f"{settings.path}: [truth]"):
        return features.objective(
            *(settings.truth.get(name, []) for name in ("reward", "costs", "budgets"))
        )


def _absorbing(settings: ProblemSettings, states: tuple[str, ...]) -> np.ndarray:
    """[S] bool, the states that are said to stay."""
    must = f"{settings.path}: transitions.absorbing must name states"
    stays = np.zeros(len(states), bool)
    stays[_numbers_of(settings.absorbing, lookup(states), must)] = True
    return stays


def _numbers_of(names: Collection[str], known: Mapping[str, int], must: str) -> list[int]:
    """The number of each name; one line, which begins with `must`, where one is not known."""
    if (odd := next((name for name in names if name not in known), None)) is not None:
        raise InvalidModel(f"{must}; got {odd!r}{did_you_mean(odd, known)}")
    return [known[name] for name in names]


def _start(
    settings: ProblemSettings,
    names: Names,
    table: FeatureTable | None,
    demonstrations: Demonstrations | None,
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """[S] the distribution of the first state, None where it is counted; sentences about that."""
    notes = _staying(settings)
    if settings.initial is not None:
        return _given_start(settings, settings.initial, names, table), notes
    begun = 0 if demonstrations is None else int((~demonstrations.partial).sum())
    if settings.goal and not begun:  # of no account: trips start where they do
        return np.full(len(names.states), 1.0 / len(names.states)), notes
    if not begun:
        raise InvalidModel(
            f'{settings.path} must give initial, such as initial = "name of a state": there are no '
            "demonstrations seen from their start to take it from"
        )
    note = (
        f"Where episodes start was not given: the shares of the first states of {begun} "
        "episodes were taken."
    )
    return None, notes if settings.goal else (*notes, note)


def _given_start(
    settings: ProblemSettings,
    initial: str | dict[str, float],
    names: Names,
    table: FeatureTable | None,
) -> np.ndarray:
    """[S] what `initial` says: a column of `features.csv`, a state, or shares by state."""
    known, what = names.state_numbers, f"{settings.path}: initial"
    if isinstance(initial, str) and initial not in known and table and table.gives(initial):
        start, what = (
            table.column(initial, names),
            f"{table.path}: the column {initial!r}, initial,",
        )
    else:
        shares = {initial: 1.0} if isinstance(initial, str) else initial
        start = np.zeros(len(names.states))
        start[_numbers_of(shares, known, f"{what} must name a state")] = [*shares.values()]
    is_positive = (start >= 0).all()
    if not is_positive or abs(start.sum() - 1.0) > 1e-6:
        why = f"it sums to {start.sum():g}" if is_positive else "one is negative"
        raise InvalidModel(f"{what} must be probabilities of states that sum to 1; {why}")
    return start


def _staying(settings: ProblemSettings) -> tuple[str, ...]:
    """The sentence on states in which time goes on though nothing leaves them."""
    if not settings.absorbing:
        return ()
    sentence = (
        f"In {listed(settings.absorbing, NAMED)} every action is taken to stay, and time goes on: "
        "[transitions] names them absorbing."
    )
    return (Finding(sentence, Kind.ASSUMED, number=len(settings.absorbing)),)
