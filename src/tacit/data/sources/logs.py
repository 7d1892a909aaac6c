"""Any log becomes episodes: positions to cells, time stamps to steps, moves to actions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from errno import ENOENT
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.episodes import PEOPLE, ROWS, episodes
from tacit.data.sources.log_rows import LogRows
from tacit.data.sources.places import Places, clusters, hexagons, square_cells
from tacit.data.sources.positions import Degrees
from tacit.data.sources.rasters import Raster, check_systems, map_features, read_raster
from tacit.data.sources.times import seconds
from tacit.data.sources.tracks import Track, cut_track, infer_actions
from tacit.errors import InvalidDemonstrations, InvalidModel, TacitError
from tacit.files.columns import RawColumn, real
from tacit.files.frames import Frame
from tacit.files.wording import did_you_mean, natural_order, some
from tacit.model.features import depends_on_action, filled, means_at
from tacit.model.features.formulas import FormulaFeatures, features_of_columns
from tacit.model.features.notation import formula_of, terms_of
from tacit.model.features.terms import columns_of
from tacit.model.layout import Layout
from tacit.model.mdp import MDP
from tacit.model.objective import Features
from tacit.model.transitions import Successors

# Most values of a column of words that become features.
MOST_WORDS = 24
# Most cells that a move may lead, and the share of moves that may lead farther than allowed.
FARTHEST_MOVE, FEW_FARTHER = 3, 0.05
# Farther than any position, in any unit.
FARTHEST = 1e12
# Columns of a log that say the same in all rows of an episode, or weigh rows.
PASSED_ON = (*PEOPLE, *ROWS)


@dataclass(frozen=True, eq=False, kw_only=True)
class Log:
    """A log as states, moves and features.

    Attributes:
        demonstrations: the episodes, named after those of the log.
        layout: names of states and actions, and the grid if there is one.
        places: the cells that positions fell into; None where the log has states itself.
        moves: [S, A] where each action leads, -1 where it is not available; None where the log has
            actions itself, of which nobody knows where they lead.
        features: name -> [S] what may matter in each state, or [S, A] by action.
        spare: names of features that nothing is made of unless they are named, such as staying and
            the length of a step.
        points: [N, 2] the positions that were used, in units of the cells; empty without positions.
        notes: sentences on what was done and assumed.
        made_by: what other logs are read by, for `problem.toml`.
    """

    demonstrations: Demonstrations
    layout: Layout
    places: Places | None = None
    moves: np.ndarray | None = None
    features: Mapping[str, np.ndarray] = field(default_factory=dict)
    spare: tuple[str, ...] = ()
    points: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    notes: tuple[str, ...] = ()
    made_by: Mapping[str, Any] = field(default_factory=dict)

    def mdp(self, discount: float) -> MDP:
        """The world: moves lead where they lead; actions of the log are counted."""
        seen = self.demonstrations
        if self.moves is None:
            return MDP.from_transitions(
                seen,
                discount=discount,
                n_states=len(self.layout.state_names),
                n_actions=len(self.layout.action_names),
            )
        begins = seen.states[seen.offsets[:-1]][~seen.partial]
        start = np.bincount(begins, minlength=len(self.moves)) / max(1, len(begins))
        there = self.moves >= 0
        lists = Successors(np.where(there, self.moves, 0)[:, :, None], there[:, :, None] * 1.0)
        return MDP(lists, start, discount, available=there)

    def maps(
        self,
        reward: Sequence[str] | str | None = None,
        costs: Sequence[Sequence[str] | str] = (),
    ) -> Features:
        """The `Features` of these names, or of formulas over them, such as "scale(slope) + road".

        Args:
            reward: names or a formula; None for all that no constraint has.
            costs: names or a formula, for each constraint.
        """
        reward, costs = self.made_of(reward, costs)
        if isinstance(reward, str) or any(isinstance(one, str) for one in costs):
            first, *others = (
                one if isinstance(one, str) else formula_of(one) for one in (reward, *costs)
            )
            formulas = FormulaFeatures(reward=first, costs=tuple(others))
            shape = len(self.layout.state_names), len(self.layout.action_names)
            there = np.ones(shape, bool) if self.moves is None else self.moves >= 0
            return features_of_columns(formulas, self.features, self.layout.action_names, there)

        def stacked(names: Sequence[str]) -> np.ndarray:
            parts = [self.features[name] for name in names]
            if len({part.ndim for part in parts}) > 1:  # what the action changes, and what not
                shape = (*parts[0].shape[:1], len(self.layout.action_names))
                parts = [np.broadcast_to(p.reshape(len(p), -1), shape) for p in parts]
            return np.stack(parts, axis=-1)

        return Features(
            stacked(reward), [stacked(names) for names in costs], reward, [[*n] for n in costs]
        )

    def made_of(
        self, reward: Sequence[str] | str | None, costs: Sequence[Sequence[str] | str]
    ) -> tuple[Sequence[str] | str, list[Sequence[str] | str]]:
        """What reward and costs are made of: names, or formulas in which classes are shares."""
        costs = [self._spelled(one) if isinstance(one, str) else one for one in costs]
        refused = [name for names in costs if not isinstance(names, str) for name in names]
        if isinstance(reward, str):
            reward, wanted = self._spelled(reward), ["a formula"]
        elif reward is None:
            of_costs = {*refused, *self.spare}
            of_costs |= columns_of(terms_of(c) for c in costs if isinstance(c, str))
            wanted = reward = [name for name in self.features if name not in of_costs]
        else:
            wanted = reward
        for name in (*(() if isinstance(reward, str) else reward), *refused):
            if name not in self.features:
                raise InvalidModel(
                    f"a feature must be one of {', '.join(self.features) or 'none'}; got {name!r}"
                    f"{did_you_mean(name, self.features)}"
                )
        if not wanted:
            raise InvalidModel(
                "a reward must be made of at least one feature; got none: name one that no "
                "constraint has, or one of them for the reward as well"
            )
        return reward, costs

    def _spelled(self, formula: str) -> str:
        """The formula, a column of classes being the sum of the shares of its classes."""
        shares: dict[str, list[str]] = {}
        for name in self.features:
            column, colon, _ = name.partition(": ")
            if colon and column not in self.features:
                shares.setdefault(column, []).append(name)
        for column, names in shares.items():
            quoted = rf"`{re.escape(column)}`|\b{re.escape(column)}\b"
            called = rf"C\(\s*(?:{quoted})\s*\)|{quoted}"
            formula = re.sub(called, f"({formula_of(names)})".replace("\\", r"\\"), formula)
        return formula


@dataclass(frozen=True, kw_only=True)
class LogReader:
    """How a log becomes a `Log`: one row a moment, in any order.

    A gap in time, a missing position and a move beyond a neighbouring cell end an episode; what
    follows is another one, of the same individual.

    Attributes:
        episode: name of the column that tells who, or which track, was seen.
        time: name of the column of time: time stamps, or numbers. None takes the rows as they come.
        every: the time step, such as "15min", "2h" or, for numbers, 1; None takes the median.
        state: name of the column of states, where the log has them.
        x: instead, name of the column of positions to the east. Columns called lon and lat hold
            degrees, which become metres.
        y: of positions to the north.
        cell: width of square cells that positions fall into.
        hexagon: or of hexagons.
        clusters: or how many clusters they make.
        action: name of the column of actions; None infers them from the moves.
        group: name of the column of groups to compare.
        individual: name of the column of individuals; None where episodes were split takes
            `episode`.
        weight: name of the column that says how many tracks like that of a row were seen.
        sampling_weight: or how much a row stands for, as of a survey.
        columns: names of columns that may matter: the mean of each in every state, or of words
            their shares.
        action_columns: the same of those that depend on what is done: in every state, by action.
        ends: names of states that end an episode, such as discharged: nothing is done there.
        maps: name of a feature -> .asc, .tif or .npy file of a map, in the coordinates of x and y.
        classes: name of a map whose numbers are classes -> the class that the others are compared
            with, None for the commonest; a feature each is then its share of a cell. None takes
            maps of few whole numbers that look so, and says it.
        radius: how many square cells a move leads at most; None takes what all but few moves need.
        extent: west, south, east and north of the land; None for where positions are. Positions
            beyond it are gaps.
        origin: x and y of a corner of some square cell; None takes the lower left corner of the
            first map that has one, and for degrees without a map that of the positions.
        decimal_comma: whether 3,5 means three and a half.
        seed: of the clusters.
    """

    episode: str
    time: str | None = None
    every: str | float | None = None
    state: str | None = None
    x: str | None = None
    y: str | None = None
    cell: float | None = None
    hexagon: float | None = None
    clusters: int | None = None
    action: str | None = None
    group: str | None = None
    individual: str | None = None
    weight: str | None = None
    sampling_weight: str | None = None
    columns: Sequence[str] = ()
    action_columns: Sequence[str] = ()
    ends: Sequence[str] = ()
    maps: Mapping[str, str | Path] = field(default_factory=dict)
    classes: Mapping[str, str | None] | None = None
    radius: int | None = None
    extent: tuple[float, float, float, float] | None = None
    origin: tuple[float, float] | None = None
    decimal_comma: bool = False
    seed: int = 0

    def read(self, log: Frame | str | Path) -> Log:
        """The `Log` of a .csv or .parquet file, or of a pandas or Polars frame."""
        if isinstance(log, str | Path) and not Path(log).is_file():
            near = did_you_mean(Path(log).name, [one.name for one in Path(log).parent.glob("*.*")])
            raise FileNotFoundError(ENOENT, f"there is no such log{near}", str(log))
        self._check(log)
        rows, notes = LogRows.read(log, self._roles).within_individuals()
        rasters = {name: read_raster(path) for name, path in self.maps.items()}
        points, frame = np.zeros((len(rows.who), 2)), Degrees(self.origin or (0.0, 0.0))
        if self.state is None:
            points, frame, more_notes = self._positions(rows, rasters)
            notes = [*notes, *more_notes]
            known = np.asarray(np.isfinite(points).all(axis=1))
        else:
            known = ~rows["state"].missing
        if not known.any():
            raise InvalidDemonstrations(
                f"{rows.source} must have a row that says where; all lack it"
            )
        beyond = known & ~self._inside(points, frame) if self.state is None else ~known
        if self.state is None and beyond.any():
            known &= ~beyond
            notes = [*notes, f"{int(beyond.sum())} positions lie beyond the extent: they are gaps"]
            if not known.any():
                raise InvalidDemonstrations(
                    f"{rows.source} must have positions within the extent, west south east north; "
                    "all lie beyond it"
                )
        track, places, moves = self._track(rows, known), None, None
        if self.state is None:
            places = self._places(points[track.rows], frame)
            where = places(points[track.rows])
            if places.kind == "grid":
                places = places.within(self.radius or _radius(places, where, track))
            layout = replace(places.layout, **_corner(places, frame))
            if places.states == 1:
                wide = np.ptp(points[known], axis=0)
                raise InvalidDemonstrations(
                    f"{rows.source}: all positions lie in one cell, of {wide[0]:.3g} x "
                    f"{wide[1]:.3g}: give a smaller --cell; degrees are in columns called lon and "
                    "lat"
                )
        else:
            where, names = rows.numbered("state", track.rows)
            layout = Layout(state_names=names)
        if self.action is None:
            inferred = infer_actions(where, track, layout.state_names, places)
            track, taken, moves = inferred.track, inferred.taken, inferred.moves
            leads = tuple(map(tuple, moves.tolist())) if layout.centres else ()
            layout = replace(layout, action_names=inferred.names, leads=leads)
        else:
            taken, words = rows.numbered("action", track.rows)
            layout = replace(layout, action_names=words, directions=(), leads=())
        seen, alone = episodes_of(rows, track, where, taken, layout)
        over = _end_states(self.ends, layout.state_names, seen)
        if over:
            seen = replace(seen, ended=np.isin(seen.final_states, over))
        if moves is not None and over:
            moves = moves.copy()
            moves[over] = -1
        notes = [*notes, *track.notes, *alone, *seen.notes, *_alike(seen, layout)]
        features, more_notes = self._features(rows, track, where, taken, layout, over)
        for name, raster in rasters.items():
            assert places is not None  # maps without positions were refused
            layers, map_notes = map_features(name, frame.map(raster), places, self.classes)
            features |= layers
            more_notes += map_notes
        features, missing = _filled(features, places)
        movement = {} if places is None or self.action is not None else movement_terms(places)
        features |= {name: term for name, term in movement.items() if name not in features}
        notes = (*notes, *more_notes, *missing)
        return Log(
            demonstrations=replace(seen, notes=notes),
            layout=layout,
            places=places,
            moves=moves,
            features=features,
            spare=tuple(movement),
            points=points[track.rows],
            notes=notes,
        )

    def _check(self, log: Frame | str | Path) -> None:
        """Raises where options do not go together."""
        if (self.state is None) == (self.x is None or self.y is None):
            has = "" if isinstance(log, str | Path) else f"; it has {some([*log])}"
            raise InvalidDemonstrations(
                "a log needs a column of states (--state), or two of positions (--x and --y); not "
                f"both{has}"
            )
        if both := {*self.columns} & {*self.action_columns}:
            message = "a column must be given to --columns or to --action-columns, not to both"
            raise InvalidModel(f"{message}; got {min(both)!r}")
        for name in self.classes or {}:
            if name not in self.maps:
                near = did_you_mean(name, self.maps)
                raise InvalidModel(
                    f"classes must be maps: {some([*self.maps])}; got {name!r}{near}"
                )
        if self.maps and self.state is not None:
            raise InvalidModel(
                f"a map needs positions, x and y; the log has states, for {next(iter(self.maps))!r}"
            )

    @property
    def _roles(self) -> dict[str, str]:
        """What columns are to us -> their names in the log."""
        one = ("episode", "time", "state", "x", "y", "action", *PASSED_ON)
        roles = {role: getattr(self, role) for role in one}
        for role in ("columns", "action_columns"):
            roles |= {f"{role} {name}": name for name in getattr(self, role)}
        return {role: name for role, name in roles.items() if name is not None}

    def _positions(
        self, rows: LogRows, rasters: Mapping[str, Raster]
    ) -> tuple[np.ndarray, Degrees, list[str]]:
        """[N, 2] positions as cells count, how that is, and the sentence that says so."""
        columns = [rows[name].measurements(comma=self.decimal_comma) for name in ("x", "y")]
        for name, column in zip(("x", "y"), columns, strict=True):
            if (far := np.abs(column) > FARTHEST).any():
                raise rows[name].wrong(int(np.argmax(far)), "a position", ": write NA if unknown")
        points, axes = np.stack(columns, axis=1), (str(self.x), str(self.y))
        corners = (one.corner for one in rasters.values() if math.isfinite(one.left))
        frame, notes = Degrees.found(points, axes, self.origin or next(corners, None))
        in_degrees = frame.scale is not None
        check_systems(rasters, self.maps, points, axes=axes, degrees=in_degrees)
        return frame.metres(points), frame, notes

    def _inside(self, points: np.ndarray, frame: Degrees) -> np.ndarray:
        """[N] bool, the positions within the extent."""
        if self.extent is None:
            return np.ones(len(points), bool)
        low, high = self._corners(frame)
        return ((points >= low) & (points < high)).all(axis=1)

    def _corners(self, frame: Degrees) -> np.ndarray:
        """[2, 2] the lower left and the upper right corner of the extent, as cells count."""
        west, south, east, north = np.asarray(self.extent, float)
        if not (west < east and south < north):
            raise InvalidModel(
                "an extent must be west, south, east and north, the first two below the others; "
                f"got {' '.join(f'{one:g}' for one in self.extent or ())}"
            )
        return frame.metres(np.array([[west, south], [east, north]]))

    def _places(self, points: np.ndarray, frame: Degrees) -> Places:
        """The cells or clusters of the one among cell, hexagon and clusters that has a number."""
        widths = {"cell": self.cell, "hexagon": self.hexagon, "clusters": self.clusters}
        chosen = [name for name, number in widths.items() if number is not None]
        if len(chosen) != 1:
            raise InvalidModel(
                "positions need one of cell, hexagon and clusters: a width, a width, or how many; "
                f"got {' and '.join(chosen) or 'none'}"
            )
        if self.clusters is not None:
            return clusters(points, int(self.clusters), seed=self.seed)
        if self.hexagon is not None:
            return hexagons(points, self.hexagon)
        if self.extent is None:
            return square_cells(points, self.cell or 0.0, origin=frame.start)
        low, high = self._corners(frame)
        inner = np.array([low, np.maximum(high - 1e-9 * (high - low), low)])
        return square_cells(inner, self.cell or 0.0, origin=(float(low[0]), float(low[1])))

    def _track(self, rows: LogRows, known: np.ndarray) -> Track:
        """The rows in order, cut at gaps."""
        if self.time is None:
            return cut_track(rows.who, known, time=None, every=None, unit="")
        time, written, is_stamp = rows.moments(comma=self.decimal_comma)
        every = self.every
        if isinstance(every, str):
            plain = real(every, comma=self.decimal_comma)
            if is_stamp and math.isfinite(plain):
                raise InvalidModel(
                    "a time step between time stamps needs a unit, such as 15min; got "
                    f"{self.every!r}"
                )
            every = plain if math.isfinite(plain) else seconds(every)
        if every is not None and not (math.isfinite(every) and every > 0):
            raise InvalidModel(f"a time step must be above 0; got {every}")
        track = cut_track(rows.who, known, time=time, every=every, unit="s" if is_stamp else "")
        notes = (f"dates were read as {written}",) if written else ()
        return replace(track, notes=(*notes, *track.notes))

    def _features(
        self,
        rows: LogRows,
        track: Track,
        where: np.ndarray,
        taken: np.ndarray,
        layout: Layout,
        over: Sequence[int],
    ) -> tuple[dict[str, np.ndarray], list[str]]:
        """Feature -> [S], or [S, A] by action, of the columns of the log; and notes."""
        features: dict[str, np.ndarray] = {}
        notes: list[str] = []
        states, actions = len(layout.state_names), len(layout.action_names)
        for name in self.columns:
            column = rows[f"columns {name}"].select(track.rows)
            features |= self._means(column, name, where, states)
            if self.action is not None:
                values = column.numbers(comma=self.decimal_comma)[column.values]
                notes += depends_on_action(name, values, where, taken)
        done = taken >= 0
        for name in self.action_columns:  # what was done is known of these rows alone
            column = rows[f"action_columns {name}"].select(track.rows[done])
            pairs = (where * actions + taken)[done]
            for title, means in self._means(column, name, pairs, states * actions).items():
                features[title] = means.reshape(states, actions)
                features[title][list(over)] = 0.0  # nothing is done there
        return features, notes

    def _means(
        self, column: RawColumn, name: str, place: np.ndarray, places: int
    ) -> dict[str, np.ndarray]:
        """Feature -> [places] means of a column of numbers in each, or the shares of its words."""
        texts, empty = column.texts or (), column.voids
        numbers = column.numbers(comma=self.decimal_comma)
        is_word = np.isnan(numbers) & ~empty
        if is_word.any() and len(texts) > MOST_WORDS:
            column.measurements(comma=self.decimal_comma)  # names the first that is no number
        kinds = {name: numbers}
        if is_word.any():
            words = natural_order(text for text, void in zip(texts, empty, strict=True) if not void)
            kinds = {f"{name}: {word}": np.array(texts) == word for word in words}
        return {
            title: means_at(np.where(empty, np.nan, values)[column.values], place, places)
            for title, values in kinds.items()
        }


def _radius(places: Places, where: np.ndarray, track: Track) -> int:
    """The least radius within which all but a few moves stay, `FARTHEST_MOVE` at most."""
    follows = np.flatnonzero(track.follows())
    steps = [np.divmod(where[rows], places.columns) for rows in (follows, follows + 1)]
    far = np.abs(np.array(steps[1]) - np.array(steps[0])).max(axis=0, initial=0)
    radius = 1
    while radius < FARTHEST_MOVE and (far > radius).mean() > FEW_FARTHER:
        radius += 1
    return radius


def _corner(places: Places, frame: Degrees) -> dict[str, tuple[float, float]]:
    """The upper left corner of square cells and their size, as the log counts."""
    if places.kind != "grid":
        return {}
    low, high = places.centres.min(axis=0), places.centres.max(axis=0)
    corner = np.array([low[0] - places.size / 2, high[1] + places.size / 2])
    scale = np.ones(2) if frame.scale is None else frame.scale
    origin = np.zeros(2) if frame.scale is None else np.array(frame.origin)
    left, top = (corner / scale + origin).tolist()
    wide, tall = (places.size / scale).tolist()
    return {"corner": (left, top), "cell_size": (wide, tall)}


def movement_terms(places: Places) -> dict[str, np.ndarray]:
    """Name -> [S, A] how an animal moves, whatever the land: staying, and the length of a step."""
    if not places.moves:
        return {}
    shape, lengths = places.neighbours.shape, places.lengths
    terms = {"staying": lengths == 0.0, "step length": lengths}
    if len(np.unique(lengths)) < 3:  # of hexagons all steps are one cell long
        del terms["step length"]
    return {name: np.broadcast_to(term * 1.0, shape).copy() for name, term in terms.items()}


def _filled(
    features: Mapping[str, np.ndarray], places: Places | None
) -> tuple[dict[str, np.ndarray], list[str]]:
    """The features with something in place of every missing value, and what that is."""
    complete: dict[str, np.ndarray] = {}
    notes: list[str] = []
    for name, values in features.items():
        complete[name], lost, whence = filled(values, places and places.centres)
        if lost == values.size:
            raise InvalidModel(
                f"{name} must be known in at least one state; all {lost} have no value of it: "
                "leave it out, or correct what stands for a missing value"
            )
        if lost:
            what = "states" if values.ndim == 1 else "pairs of state and action"
            notes.append(f"{lost} of {values.size} {what} have no {name}: {whence} is taken")
    return complete, notes


def episodes_of(
    rows: LogRows,
    track: Track,
    where: np.ndarray,
    taken: np.ndarray,
    layout: Layout,
    *,
    finals: np.ndarray | None = None,
) -> tuple[Demonstrations, list[str]]:
    """The pieces of a track as episodes, and how many moments stand alone.

    The last moment of a piece is where its last action led, where that was inferred.

    Args:
        rows: of the log.
        track: in order, cut into pieces.
        where: [M] state of each row of the track.
        taken: [M] action; -1 where none is known.
        layout: of states and actions.
        finals: [E] the state after each piece, where its last row has an action.
    """
    used_rows, notes, begins = np.ones(len(where), bool), [], np.flatnonzero(track.first)
    columns = {
        "episode": track.piece,
        "step": track.step,
        "state": where,
        "action": taken,
        "partial": track.part > 0,
    }
    if finals is not None:
        columns["final_state"] = finals[track.piece]
    elif "action" not in rows.columns:
        used_rows, ends = track.follows(), np.append(begins[1:], len(where)) - 1
        if not used_rows.any():
            raise InvalidDemonstrations(
                f"{rows.source} must have moments that follow each other at the time step; none do"
            )
        columns["final_state"] = where[ends][track.piece]
        if alone := int((begins == ends).sum()):
            notes = [f"{alone} moments stand alone, without one before or after: they are left out"]
    used, people = track.rows[used_rows], {}
    columns = {name: column[used_rows] for name, column in columns.items()}
    for role in [name for name in PASSED_ON if name in rows.columns]:
        if role in PEOPLE:
            columns[role], people[role] = rows.labels(role, used), rows[role].texts or ()
        else:
            columns[role] = rows.weights(role, used)
    owners = rows["episode"]
    if "individual" not in people and track.part.any():
        columns["individual"], people["individual"] = owners.values[used], owners.texts or ()
    called = [str(owners.cell(row)) for row in track.rows[begins].tolist()]
    parts = track.part[begins].tolist()
    names = [f"{name} ({n + 1})" if n else name for name, n in zip(called, parts, strict=True)]

    def fault(row: int, words: str) -> TacitError:
        return owners.fault(int(used[row]), words)

    labels = RawColumn("episode", columns["episode"], tuple(names), fault)
    options = {"people": people, "source": rows.source, "layout": layout}
    return episodes(columns, labels, fault, missing="split", **options), notes


def _end_states(ends: Sequence[str], names: Sequence[str], seen: Demonstrations) -> list[int]:
    """The numbers of the states that end an episode; nothing may be done in them."""
    for name in ends:
        if name not in names:
            near = did_you_mean(name, names)
            raise InvalidDemonstrations(f"ends must be states: {some(names)}; got {name!r}{near}")
        if done := int((seen.states == names.index(name)).sum()):
            raise InvalidDemonstrations(
                f"nothing must be done in an end; in {name!r} something is, in {done} rows: leave "
                "it out of --ends, or clear the action of these rows"
            )
    return [names.index(name) for name in ends]


def _alike(seen: Demonstrations, layout: Layout) -> list[str]:
    """Sentences about names that differ in capitals or spaces only, where there are some."""
    groups = () if seen.groups is None else dict.fromkeys(seen.groups.tolist())
    notes = []
    for what, names in (
        ("states", layout.state_names),
        ("actions", layout.action_names),
        ("groups", groups),
    ):
        same: dict[str, list[str]] = {}
        for name in names:
            same.setdefault(" ".join(name.casefold().split()), []).append(repr(name))
        if twice := [" and ".join(each) for each in same.values() if len(each) > 1]:
            notes.append(
                f"{what} differ in capitals or spaces only and count apart: "
                f"{'; '.join(twice[:3])}; if they are the same, spell them alike in the log"
            )
    return notes
