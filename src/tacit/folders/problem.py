"""A problem: everything a recovery is asked about, read from its folder.

What tacit holds in memory it writes as arrays, all in one file; what people write is text.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.atomic import naming, write_bytes, write_folder
from tacit.files.tables import Progress
from tacit.files.trees import pack, sound, unpack
from tacit.folders.reading import (
    NAMED,
    SEEN,
    FeatureTable,
    bad_line,
    one_of,
    read_demonstrations,
    read_feature_table,
    read_places,
    table_features,
)
from tacit.folders.settings import (
    FILE,
    VERSION,
    Names,
    Settings,
    absorbing_states,
    check_version,
    coefficient_table,
    given_start,
    names_of,
    ordered,
    read_settings,
    toml_lines,
)
from tacit.folders.transition_table import read_transitions, successors
from tacit.inverse.findings import Finding, Kind, listed
from tacit.inverse.joint.goals import link_size
from tacit.inverse.joint.trips import BadTrip, Trips
from tacit.inverse.noisy.likelihood import Likelihood
from tacit.likelihood.start import Bounds
from tacit.model.counts import start_shares
from tacit.model.ends import EndUnreached
from tacit.model.features.design import Design
from tacit.model.layout import Layout, with_directions
from tacit.model.mdp import MDP
from tacit.model.objective import Features, Objective

NEEDED = "a problem needs features.csv, or features of the states in problem.toml"
# All that is known, as tacit writes it, in the place of these tables and settings.
PARTS = ("mdp", "features", "truth", "layout", "notes")
ARCHIVE, TABLES = "problem.npz", ("transitions.csv", "features.csv", "places.csv")
KNOWN = ("discount", "initial", "states", "actions", "rows", "absorbing", "reward", "truth")


@dataclass(frozen=True, eq=False)
class Problem:
    """What is known and what was seen, as one folder holds it.

    Attributes:
        mdp: the known world.
        features: what reward and costs may be made of.
        demonstrations: what was seen; None where nothing was.
        truth: the objective that was followed, where it is known; else None.
        layout: how states and actions are called and drawn.
        notes: sentences about what was assumed or estimated while reading.
        goal: "last" where every trajectory is a trip to its last state; "" where it is not.
        discount: of the trips, where they are some; the model's own otherwise.
        unended: what to do with trips that did not end, as in `tacit.Trips`.
        coefficients: bounds, fixed and start of coefficients, as `tacit.Likelihood` takes them.
    """

    mdp: MDP
    features: Features
    demonstrations: Demonstrations | None = None
    _: KW_ONLY
    truth: Objective | None = None
    layout: Layout = field(default_factory=Layout)
    notes: tuple[str, ...] = ()
    goal: str = ""
    discount: float | None = None
    unended: str = "refuse"
    coefficients: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        states, actions = self.mdp.states, self.mdp.actions
        for k, table in enumerate(self.features.maps):
            name = f"cost features {k - 1}" if k else "reward features"
            if table.shape[0] != states:
                raise InvalidModel(
                    f"{name} must have one row a state ({states}); got {table.shape[0]}"
                )
            if table.ndim == 3 and table.shape[1] != actions:
                raise InvalidModel(
                    f"{name} must speak of the {actions} actions; got {table.shape[1]}"
                )
        self.features.check(self.mdp)
        if self.truth is not None:
            self.truth.tables(self.mdp)
        if self.demonstrations is not None:
            self.demonstrations.check(self.mdp)
        for kind, names, count in (
            ("state", self.layout.state_names, states),
            ("action", self.layout.action_names, actions),
            ("action", self.layout.directions, actions),
        ):
            if names and len(names) != count:
                what = "directions" if names is self.layout.directions else "names"
                raise InvalidModel(f"{count} {kind}s need {count} {what}; got {len(names)}")
        if self.layout.rows * self.layout.columns > states:
            raise InvalidModel(
                f"a grid of {self.layout.rows} x {self.layout.columns} cells needs as many states; "
                f"there are {states}"
            )
        object.__setattr__(self, "notes", tuple(self.notes))
        if self.coefficients:
            known = replace(Likelihood(free_reward=True), **self.coefficients)
            Bounds.of(Design.of(self.mdp, self.features), known)
        if self.discount is None:
            object.__setattr__(self, "discount", self.mdp.discount)
        if self.trips is not None:
            self.trips.journeys()  # raises where one is no trip

    @property
    def seen(self) -> Demonstrations:
        """The demonstrations; `InvalidDemonstrations` where there are none."""
        if self.demonstrations is None:
            raise InvalidDemonstrations(
                "the folder must hold demonstrations to recover from: demonstrations.parquet, .csv "
                "or .npz; it holds none"
            )
        return self.demonstrations

    @cached_property
    def trips(self) -> Trips | None:
        """The trajectories as trips, each to its last state; None where they are not, or none."""
        if not self.goal or self.demonstrations is None:
            return None
        return Trips(
            self.mdp,
            self.features,
            self.demonstrations,
            discount=self.discount,
            unended=self.unended,
        )

    def true_weights(self) -> dict[int, np.ndarray]:
        """Cost -> [D_k] its true weights, and -1 -> those of the reward, as features make them."""
        if self.truth is None:
            return {}
        reward, costs = self.truth.tables(self.mdp)
        tables = {-1: (self.features.reward, reward)}
        if self.truth.constraints == self.features.constraints:
            tables |= dict(enumerate(zip(self.features.costs, costs, strict=True)))
        found = {
            k: weights_that_make(table, of=features) for k, (features, table) in tables.items()
        }
        return {k: weights for k, weights in found.items() if weights is not None}

    @classmethod
    def load(cls, folder: str | Path, *, progress: Progress | None = None) -> Problem:
        """The problem of a folder: arrays, text tables, or some of each.

        `tacit.InvalidModel` or `tacit.InvalidDemonstrations` says in one line which file, row and
        field is wrong; `OSError` what cannot be read.

        Args:
            folder: of the problem.
            progress: called now and then, while demonstrations are read, with what is done and
                what there is to do.
        """
        parts = read_problem(Path(folder), progress)
        sizes = parts.pop("link_size")
        try:
            if sizes and parts["demonstrations"] is not None:
                task = (parts[name] for name in ("mdp", "features", "demonstrations"))
                trips = Trips(*task, discount=parts["discount"], unended=parts["unended"])
                trips.journeys()  # raises where one is no trip
                parts["features"] = trips.with_features(link_size(trips, sizes)).features
            return cls(**parts)
        except BadTrip as error:
            path = one_of(Path(folder), *SEEN)
            assert path is not None
            assert parts["demonstrations"] is not None  # one of them is the trip
            raise bad_line(path, error, parts["layout"], parts["demonstrations"]) from None
        except (InvalidModel, InvalidDemonstrations) as error:
            raise type(error)(f"{folder}: {error}") from None

    def save(self, folder: str | Path) -> None:
        """Writes a new folder that `load` reads back, as arrays; all of it, or nothing.

        Args:
            folder: to be made; it must not exist, or be empty.
        """
        write_folder(Path(folder), self._write)

    def _write(self, folder: Path) -> None:
        parts = {name: getattr(self, name) for name in PARTS}
        parts["layout"] = replace(self.layout, leads=())  # as the transitions say
        maps, names = self.features.maps, (self.features.reward_names, self.features.cost_names)
        parts["features"] = (maps[0], maps[1:], *names)  # sparse ones stay so
        write_arrays(folder / ARCHIVE, pack({"version": VERSION, **parts}))
        if self.demonstrations is not None:
            self.demonstrations.save(folder / "demonstrations.parquet")
        trips = {"discount": self.discount, "goal": self.goal, "unended": self.unended}
        lines = toml_lines({"version": VERSION} | (trips if self.goal else {}))
        lines += toml_lines(coefficient_table(self.coefficients), "coefficients")
        write_bytes(folder / FILE, "\n".join([*lines, ""]).encode())

    def __repr__(self) -> str:
        seen = "none" if self.demonstrations is None else f"{self.demonstrations.episodes}"
        return (
            f"Problem(states={self.mdp.states}, actions={self.mdp.actions}, "
            f"constraints={self.features.constraints}, episodes={seen})"
        )


def weights_that_make(table: np.ndarray, *, of: np.ndarray) -> np.ndarray | None:
    """[D] weights with which features [S, D] or [S, A, D] sum to a table [S, A]; None if none."""
    features = np.repeat(of[:, None, :], table.shape[1], axis=1) if of.ndim == 2 else of
    columns = features.reshape(-1, features.shape[-1])
    weights, _, rank, _ = np.linalg.lstsq(columns, table.ravel(), rcond=None)
    rest = np.abs(columns @ weights - table.ravel()).max()
    exact = rest <= 1e-9 * max(1.0, float(np.abs(table).max())) and rank == columns.shape[1]
    return weights if exact else None


def read_problem(folder: Path, progress: Progress | None = None) -> dict[str, Any]:
    """The arguments of `Problem`, read from its folder."""
    if not folder.exists():
        raise FileNotFoundError(errno.ENOENT, "there is no such problem folder", str(folder))
    if not folder.is_dir():
        said = "a problem must be a folder (tacit ingest makes one of a log); this is a file"
        raise NotADirectoryError(errno.ENOTDIR, said, str(folder))
    settings, seen = read_settings(folder), one_of(folder, *SEEN)
    if (folder / ARCHIVE).exists():
        parts = _from_arrays(folder / ARCHIVE, settings, seen, progress)
    else:
        parts = _from_text(folder, settings, seen, progress)
    mdp, demonstrations = parts["mdp"], parts["demonstrations"]
    if seen is not None and mdp.evidence is None:
        with naming(seen, InvalidDemonstrations):
            demonstrations.check(mdp)
    if settings.goal:
        parts |= {name: getattr(settings, name) for name in ("goal", "unended")}
        parts["discount"] = mdp.discount if settings.discount is None else settings.discount
    layout = with_directions(parts["layout"], mdp.transitions.states, mdp.transitions.probabilities)
    seen_notes = () if demonstrations is None else demonstrations.notes
    return parts | {
        "layout": layout,
        "notes": (*seen_notes, *parts["notes"]),
        "coefficients": settings.coefficients,
        "link_size": settings.link_size,
    }


def _from_arrays(
    path: Path, settings: Settings, seen: Path | None, progress: Progress | None
) -> dict[str, Any]:
    """The parts of a problem that tacit wrote: all but demonstrations, trips and coefficients."""
    again = [name for name in TABLES if (path.parent / name).exists()]
    known = [key for key in KNOWN if getattr(settings, key)]
    # Trips have a discount of their own.
    again += [f"{key} of {FILE}" for key in known if not (key == "discount" and settings.goal)]
    if again:
        raise InvalidModel(
            f"{path.parent} must give each part once; {path.name} holds them, and so does "
            f"{again[0]}"
        )
    arrays = read_arrays(path)
    with sound(path, "a problem"):
        held = unpack(arrays)
        parts: dict[str, Any] = {name: held[name] for name in PARTS}
        parts["features"] = Features(*parts["features"])
    check_version(f"{path}: version", held.get("version"))
    demonstrations = None
    if seen is not None:
        mdp, names = parts["mdp"], names_of(parts["mdp"], parts["layout"])
        there = mdp.available if mdp.restricted else None
        demonstrations, _ = read_demonstrations(
            seen, names, source=path.name, available=there, places=True, progress=progress
        )
    return parts | {"demonstrations": demonstrations}


def _from_text(
    folder: Path, settings: Settings, seen: Path | None, progress: Progress | None
) -> dict[str, Any]:
    """The parts of a problem that somebody wrote as text, the model perhaps counted."""
    moves, vocabulary = one_of(folder, "transitions.csv"), one_of(folder, "features.csv")
    alone = settings.reward == () and not any(settings.costs)  # of the states, without a file
    if vocabulary is None and not alone:
        said = "this is a run, not a problem" if (folder / "run.json").exists() else NEEDED
        raise FileNotFoundError(errno.ENOENT, said, str(folder))
    table = None if vocabulary is None else read_feature_table(vocabulary)
    vocabulary = vocabulary or settings.path
    if settings.discount is None:
        raise InvalidModel(f"{settings.path} must give discount, such as discount = 0.9")
    if moves is None and seen is None:
        said = "a problem needs transitions.csv, or demonstrations to estimate them from"
        raise FileNotFoundError(errno.ENOENT, said, str(folder))
    if moves is None and table is None and not settings.states:
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
    start, said = _start(settings, names, table, demonstrations)
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
            absorbing=np.flatnonzero(absorbing_states(settings, names.states)),
            available=there,
        )
    else:
        if start is None:
            start = start_shares(demonstrations, len(names.states))
        make = partial(MDP, lists, start, available=there)
    mdp, layout = _model(make, settings, names), names.layout(settings)
    if mdp.evidence is not None:
        said = mdp.evidence.sentences(layout, ends=mdp.ends)
    if (folder / "places.csv").exists():
        layout = read_places(folder / "places.csv", layout, names.states)
    if table is not None:
        table.check_names(*names.lookups, mdp)
    features = table_features(table, settings, *names.lookups)
    truth = None
    if settings.truth:
        with naming(f"{settings.path}: [truth]"):
            weights = [settings.truth.get(name, []) for name in ("reward", "costs", "budgets")]
            truth = features.objective(*weights)
    return {
        "mdp": mdp,
        "features": features,
        "truth": truth,
        "layout": layout,
        "demonstrations": demonstrations,
        "notes": said,
    }


def _model(make: Callable[..., MDP], settings: Settings, names: Names) -> MDP:
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


def _start(
    settings: Settings,
    names: Names,
    table: FeatureTable | None,
    demonstrations: Demonstrations | None,
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """[S] the distribution of the first state, None where it is counted; sentences about that."""
    notes = told_to_stay(settings)
    if (start := given_start(settings, names.states, table)) is not None:
        return start, notes
    whole = 0 if demonstrations is None else int((~demonstrations.partial).sum())
    if settings.goal and not whole:  # of no account: trips start where they do
        return np.full(len(names.states), 1.0 / len(names.states)), notes
    if not whole:
        raise InvalidModel(
            f'{settings.path} must give initial, such as initial = "name of a state": there are no '
            "demonstrations seen from their start to take it from"
        )
    said = (
        f"Where episodes start was not given: the shares of the first states of {whole} "
        "episodes were taken."
    )
    return None, notes if settings.goal else (*notes, said)


def told_to_stay(settings: Settings) -> tuple[str, ...]:
    """The sentence on states in which time goes on though nothing leaves them."""
    if not settings.absorbing:
        return ()
    said = (
        f"In {listed(settings.absorbing, NAMED)} every action is taken to stay, and time goes on: "
        "[transitions] names them absorbing."
    )
    return (Finding(said, Kind.ASSUMED, number=len(settings.absorbing)),)
