"""A problem: everything a recovery is asked about, and the folder it lives in."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.reading import row_order
from tacit.errors import InvalidDemonstrations, InvalidModel, TacitError
from tacit.files.arrays import write_arrays
from tacit.files.atomic import beside_for_now, sync_folder, unfinished, write_bytes, write_csv
from tacit.files.columns import did_you_mean
from tacit.files.tables import Progress, open_table, write_columns
from tacit.folders.archives import feature_arrays, model_arrays, truth_arrays, write_places
from tacit.folders.text import is_one_hot
from tacit.inverse.joint.goals import link_size
from tacit.inverse.joint.trips import BadTrip, Trips
from tacit.inverse.noisy.coordinates import Bounds
from tacit.inverse.noisy.likelihood import Likelihood
from tacit.model.features import Design
from tacit.model.mdp import MDP
from tacit.model.objective import Features, Objective, is_sparse
from tacit.model.transitions import Layout


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

    @classmethod
    def load(cls, folder: str | Path, *, progress: Progress | None = None) -> Problem:
        """The problem of a folder: npz files, their text twins, or some of each.

        `tacit.InvalidModel` or `tacit.InvalidDemonstrations` says in one line which file, row and
        field is wrong; `OSError` what cannot be read.

        Args:
            folder: of the problem.
            progress: called now and then, while demonstrations are read, with what is done and
                what there is to do.
        """
        from tacit.folders.reading import read_problem

        parts = read_problem(Path(folder), progress)
        sizes = parts.pop("link_size")
        parts["coefficients"] = _coefficients(parts["coefficients"], Path(folder) / "problem.toml")
        try:
            if sizes and parts["demonstrations"] is not None:
                task = (parts[name] for name in ("mdp", "features", "demonstrations"))
                trips = Trips(*task, discount=parts["discount"], unended=parts["unended"])
                trips.journeys()  # raises where one is no trip
                parts["features"] = trips.with_features(link_size(trips, sizes)).features
            return cls(**parts)
        except BadTrip as error:
            from tacit.folders.reading import SEEN, one_of

            path = one_of(Path(folder), *SEEN)
            assert path is not None
            assert parts["demonstrations"] is not None  # one of them is the trip
            raise bad_line(path, error, parts["layout"], parts["demonstrations"]) from None
        except (InvalidModel, InvalidDemonstrations) as error:
            raise type(error)(f"{folder}: {error}") from None

    def save(self, folder: str | Path, *, text: bool = False) -> None:
        """Writes a new folder that `load` reads back; all of it, or nothing.

        Args:
            folder: to be made; it must not exist, or be empty.
            text: whether to write the text twins instead of npz and Parquet files.
        """
        if text:
            write_folder(Path(folder), lambda inside: _write_text(self, inside))
        else:
            write_folder(Path(folder), self._write_archives)

    def _write_archives(self, folder: Path) -> None:
        notes = {"notes": np.array(self.notes, str)} if self.notes else {}
        write_arrays(folder / "mdp.npz", model_arrays(self.mdp, self.layout) | notes)
        write_arrays(folder / "features.npz", feature_arrays(self.features))
        if self.truth is not None:
            write_arrays(folder / "truth.npz", truth_arrays(self.truth))
        if self.demonstrations is not None:
            self.demonstrations.save(folder / "demonstrations.parquet")
        lines = _trip_lines(self) if self.goal else []
        if lines := [*lines, *_coefficient_lines(self.coefficients)]:
            write_bytes(folder / "problem.toml", "\n".join([*lines, ""]).encode())

    def __repr__(self) -> str:
        seen = "none" if self.demonstrations is None else f"{self.demonstrations.episodes}"
        return (
            f"Problem(states={self.mdp.states}, actions={self.mdp.actions}, "
            f"constraints={self.features.constraints}, episodes={seen})"
        )


def bad_line(path: Path, error: BadTrip, layout: Layout, seen: Demonstrations) -> TacitError:
    """What is wrong with a trip, by name, with the line of the file where its step stands."""
    said = error.sentence(layout)
    if path.suffix == ".npz":
        return InvalidDemonstrations(f"{path}, row {error.row + 1}: {said}")
    table = open_table(path, InvalidDemonstrations, expected=("episode", "step"))
    names = [name for name in ("episode", "step") if name in table.names]
    columns = table.read(names, plain=["episode"])
    values = {"episode": columns["episode"].labels()}
    if "step" in columns:
        values["step"] = columns["step"].integers()
    order, first = row_order(values, columns["episode"], table.fault)
    # Steps are numbered within their episode: the last row of one may be where it ended.
    place = error.row - int(seen.offsets[error.trajectory])
    row = int(np.flatnonzero(first)[error.trajectory]) + place
    return table.fault(row if order is None else int(order[row]), said)


def _write_text(problem: Problem, folder: Path) -> None:
    """Writes the problem into an existing folder, as text wherever there is a text twin."""
    mdp, layout = problem.mdp, problem.layout
    states = layout.state_names or tuple(str(s) for s in range(mdp.states))
    actions = layout.action_names or tuple(str(a) for a in range(mdp.actions))
    columns, groups = _feature_columns(problem.features, mdp.actions, states)
    write_csv(folder / "transitions.csv", *_transition_rows(mdp, states, actions))
    if columns:
        write_csv(folder / "features.csv", *_feature_rows(columns, states, actions))
    lines = _trip_lines(problem) if problem.goal else [f"discount = {mdp.discount!r}"]
    lines += _initial(mdp, states)
    made = [toml(names) if names else '{ one_hot = "state" }' for names in groups]
    lines += ["", "[features]", f"reward = {made[0]}", f"costs = [{', '.join(made[1:])}]"]
    lines += _names(layout)
    if layout.is_grid or layout.directions:
        lines += ["", "[grid]", f"rows = {layout.rows}", f"columns = {layout.columns}"]
        if layout.directions:
            lines += [f"directions = {toml([list(step) for step in layout.directions])}"]
    if layout.centres:
        write_places(folder / "places.csv", layout, states)
    lines += _coefficient_lines(problem.coefficients)
    content = "\n".join([*lines, ""]).encode()
    write_bytes(folder / "problem.toml", content)
    if problem.truth is not None:
        write_arrays(folder / "truth.npz", truth_arrays(problem.truth))
    if problem.demonstrations is not None:
        seen = problem.demonstrations.columns(states, actions)
        write_columns(folder / "demonstrations.csv", seen)


def _trip_lines(problem: Problem) -> list[str]:
    """What `problem.toml` says of trips."""
    lines = [f"discount = {problem.discount!r}", f"goal = {toml(problem.goal)}"]
    return lines + ([f"unended = {toml(problem.unended)}"] if problem.unended != "refuse" else [])


def _coefficients(table: object, path: Path) -> dict[str, dict[str, Any]]:
    """[coefficients] of `problem.toml`: a number for a fixed one, or lower, upper and start."""
    found: dict[str, dict[str, Any]] = {}
    if not isinstance(table, dict):
        raise InvalidModel(
            f"{path}: coefficients must be a table, [coefficients]; got {table!r:.60}"
        )
    words = ("fixed", "lower", "upper", "start")
    for name, told in table.items():
        about = told if isinstance(told, dict) else {"fixed": told}
        for word, value in about.items():
            if word not in words:
                hint = did_you_mean(word, words) or f"; it may hold {', '.join(words)}"
                raise InvalidModel(f"{path}: unknown key {word!r} in coefficients.{name}{hint}")
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InvalidModel(
                    f"{path}: coefficients.{name}: {word} must be a number; got {value!r:.60}"
                )
            if word in ("fixed", "start"):
                found.setdefault(word, {})[name] = float(value)
        if {"lower", "upper"} & {*about}:
            found.setdefault("bounds", {})[name] = (about.get("lower"), about.get("upper"))
    return found


def _coefficient_lines(known: dict[str, dict[str, Any]]) -> list[str]:
    """What `problem.toml` says of coefficients; nothing where there is nothing."""
    told: dict[str, dict[str, float]] = {}
    for name, ends in known.get("bounds", {}).items():
        pairs = zip(("lower", "upper"), ends, strict=True)
        told.setdefault(name, {}).update({word: end for word, end in pairs if end is not None})
    for word in ("fixed", "start"):
        for name, value in known.get(word, {}).items():
            told.setdefault(name, {})[word] = value
    lines = [
        f"{toml(name)} = {{ {', '.join(f'{word} = {float(x)!r}' for word, x in one.items())} }}"
        for name, one in told.items()
    ]
    return ["", "[coefficients]", *lines] if lines else []


def toml(value: object) -> str:
    """A text, number or list of them as TOML spells it, which is nearly as JSON does."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _transition_rows(
    mdp: MDP, states: Sequence[str], actions: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    lists = mdp.transitions
    rows = [
        [
            states[s],
            actions[a],
            states[int(lists.states[s, a, b])],
            repr(float(lists.probabilities[s, a, b])),
        ]
        for s, a, b in np.argwhere(lists.probabilities > 0)
    ]
    return ["state", "action", "next_state", "probability"], rows


def _feature_columns(
    features: Features, actions: int, states: Sequence[str]
) -> tuple[dict[str, np.ndarray], list[list[str]]]:
    """Columns [S] or [S, A] by name, and the names of each map: none if of one hot state."""
    tables = features.maps
    by_action = any(table.ndim == 3 for table in tables)
    columns: dict[str, np.ndarray] = {}
    groups: list[list[str]] = []
    for table, names in zip(tables, (features.reward_names, *features.cost_names), strict=True):
        groups.append([])
        if is_one_hot(table, names, states):
            continue
        table = table.toarray() if is_sparse(table) else table
        if by_action and table.ndim == 2:
            table = np.repeat(table[:, None, :], actions, axis=1)
        for j, name in enumerate(names):
            own, column = name.strip() or "feature", table[..., j]
            # One name may mean two things in reward and costs: the second gets a number.
            number = 2
            while own in ("state", "action") or not np.array_equal(
                columns.get(own, column), column
            ):
                own, number = f"{name} ({number})", number + 1
            columns[own] = column
            groups[-1].append(own)
    return columns, groups


def _feature_rows(
    columns: dict[str, np.ndarray], states: Sequence[str], actions: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    by_action = any(column.ndim == 2 for column in columns.values())
    rows = []
    for s, state in enumerate(states):
        for a, action in enumerate(actions if by_action else [""]):
            place = (s, a) if by_action else (s,)
            values = [repr(float(column[place])) for column in columns.values()]
            rows.append([state, action, *values] if by_action else [state, *values])
    return ["state", *(["action"] if by_action else []), *columns], rows


def _initial(mdp: MDP, states: Sequence[str]) -> list[str]:
    begins = np.flatnonzero(mdp.initial)
    if len(begins) == 1:
        return [f"initial = {toml(states[int(begins[0])])}"]
    return [
        "",
        "[initial]",
        *(f"{toml(states[int(s)])} = {float(mdp.initial[s])!r}" for s in begins),
    ]


def _names(layout: Layout) -> list[str]:
    lines = [
        f"{kind} = {toml(list(names))}"
        for kind, names in (("states", layout.state_names), ("actions", layout.action_names))
        if names
    ]
    return ["", "[names]", *lines] if lines else []


def write_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Makes the folder with what `write` puts into it, or leaves nothing behind."""
    refuse_taken(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # A sibling, so that the last step is a rename within one file system.
    temporary, ours = beside_for_now(folder), False
    try:
        temporary.mkdir()
        ours = True
        with unfinished(temporary):
            write(temporary)
            os.replace(temporary, folder)
        sync_folder(folder.parent)
    except BaseException as error:
        if ours:
            shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError) and error.errno is not None:
            # Say the name that was asked for, not the temporary one.
            told = str(error.filename or folder).replace(str(temporary), str(folder))
            raise type(error)(error.errno, error.strerror, told) from None
        raise


def refuse_taken(folder: Path) -> None:
    """Raises `FileExistsError` where something is there already that would be lost."""
    if folder.is_dir():
        if any(folder.iterdir()):
            raise FileExistsError(errno.EEXIST, "the folder is not empty", str(folder))
    elif folder.exists():
        raise FileExistsError(errno.EEXIST, "a file has the name of the folder", str(folder))
