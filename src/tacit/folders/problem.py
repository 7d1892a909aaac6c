"""A problem: everything a recovery is asked about, read from its folder.

What tacit holds in memory it writes as arrays, all in one file; what people write is text.
"""

from __future__ import annotations

import errno
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.estimators.convex import Convex
from tacit.estimators.intentions import Intentions
from tacit.estimators.likelihood import Likelihood
from tacit.estimators.mixture import Mixture
from tacit.estimators.trips.goals import link_size
from tacit.estimators.trips.world import BadTrip, Trips
from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.atomic import naming, write_bytes, write_folder
from tacit.files.tables import Progress
from tacit.files.trees import pack, sound, unpack
from tacit.folders.demonstrations import FILES, bad_line, one_of, read_demonstrations
from tacit.folders.names import Names
from tacit.folders.settings import (
    FILE,
    VERSION,
    ProblemSettings,
    check_version,
    coefficient_table,
    read_settings,
    toml_lines,
)
from tacit.folders.text_problem import read_text
from tacit.likelihood.start import Bounds
from tacit.model.features.design import Design
from tacit.model.layout import Layout, with_directions
from tacit.model.mdp import MDP
from tacit.model.objective import Features, Objective

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
        free_reward: whether weights of the reward may have either sign, as those of trips may.
        coefficients: bounds, fixed and start of coefficients, as `tacit.Likelihood` takes them.
        ingest: options of `tacit ingest` that made the folder, by which other logs are read.
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
    free_reward: bool = False
    coefficients: dict[str, dict[str, Any]] = field(default_factory=dict)
    ingest: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.features.check(self.mdp)
        if self.truth is not None:
            self.truth.tables(self.mdp)
        if self.demonstrations is not None:
            self.demonstrations.check(self.mdp)
        self.layout.check(self.mdp.states, self.mdp.actions)
        object.__setattr__(self, "notes", tuple(self.notes))
        if self.coefficients:
            known = replace(Likelihood(free_reward=True), **self.coefficients)
            Bounds.of(Design.of(self.mdp, self.features), known)
        if self.discount is None:
            object.__setattr__(self, "discount", self.mdp.discount)
        if self.trips is not None:
            self.trips.journeys()  # raises where one is no trip

    def check_tabular(self) -> None:
        """Raises `InvalidModel` where there is no table of states; here there is one."""

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
            replace(self.demonstrations, layout=self.layout),
            discount=self.discount,
            unended=self.unended,
        )

    def with_coefficients(self, estimator: Any, *, seed: int = 0) -> Any:
        """The estimator with what the folder knows of coefficients; None where nothing picks it.

        Weights of trips, and where the folder says so, may have either sign.
        """
        is_free = bool(self.goal) or self.free_reward
        if estimator is None and (self.coefficients or self.free_reward):
            estimator = Likelihood(free_reward=is_free, seed=seed)  # nothing else knows bounds
        if is_free and isinstance(estimator, Likelihood | Mixture | Intentions):
            estimator = replace(estimator, free_reward=True)
        if not self.coefficients:
            return estimator
        if not isinstance(estimator, Likelihood | Mixture | Intentions | Convex):
            raise InvalidModel(
                "[coefficients] of problem.toml is for --estimator likelihood, mixture, "
                f"intentions or convex; the estimator is {estimator!r:.60}"
            )
        return replace(estimator, **self.coefficients)

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
        settings = read_settings(Path(folder)) if Path(folder).is_dir() else None
        if settings is not None and settings.measurements is not None:
            from tacit.folders.rows_problem import RowsProblem, read_rows

            return RowsProblem(**read_rows(Path(folder), settings, progress))
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
            path = one_of(Path(folder), *FILES)
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
        curves = [self.features.curves] if self.features.curves else []
        parts["features"] = (maps[0], maps[1:], *names, *curves)  # sparse ones stay so
        write_arrays(folder / ARCHIVE, pack({"version": VERSION, **parts}))
        if self.demonstrations is not None:
            self.demonstrations.save(folder / "demonstrations.parquet")
        trips = {"discount": self.discount, "goal": self.goal, "unended": self.unended}
        signs = {"free_reward": True} if self.free_reward else {}
        lines = toml_lines({"version": VERSION} | (trips if self.goal else {}) | signs)
        lines += toml_lines(coefficient_table(self.coefficients), "coefficients")
        lines += toml_lines(self.ingest, "ingest")
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
        message = "a problem must be a folder (tacit ingest makes one of a log); this is a file"
        raise NotADirectoryError(errno.ENOTDIR, message, str(folder))
    settings, seen = read_settings(folder), one_of(folder, *FILES)
    if (folder / ARCHIVE).exists():
        parts = _from_arrays(folder / ARCHIVE, settings, seen, progress)
    else:
        parts = read_text(folder, settings, seen, progress)
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
        "ingest": settings.ingest,
        "free_reward": settings.free_reward,
    }


def _from_arrays(
    path: Path, settings: ProblemSettings, seen: Path | None, progress: Progress | None
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
        *maps_and_names, curves = (*parts["features"], ())[:5]
        parts["features"] = Features(*maps_and_names, curves=curves)
    check_version(f"{path}: version", held.get("version"))
    demonstrations = None
    if seen is not None:
        mdp: MDP = parts["mdp"]
        there = mdp.available if mdp.restricted else None
        names = Names.of(mdp, parts["layout"], path.name)
        demonstrations, _ = read_demonstrations(
            seen, names, available=there, places=True, progress=progress
        )
    return parts | {"demonstrations": demonstrations}
