"""Any log becomes episodes: positions to cells, time stamps to steps, moves to actions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from errno import ENOENT
from pathlib import Path

import numpy as np

from tacit.data import Reals, check_weights, missing_rows, voids
from tacit.data.demonstrations import Demonstrations
from tacit.data.rows import Frame, FrameTable
from tacit.data.sources.places import Places
from tacit.data.sources.rasters import (
    Raster,
    check_systems,
    class_codes,
    class_shares,
    holds_classes,
    read_raster,
    without_background,
)
from tacit.data.sources.times import seconds, time_stamps
from tacit.data.sources.tracks import Degrees, Log, Track, cut_track, infer_actions, places_by
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.files.columns import Column
from tacit.files.parquet import check_parquet, readable
from tacit.files.tables import PARQUET, Table, open_table
from tacit.files.wording import did_you_mean, natural_order, some
from tacit.model.features import depends_on_action, filled, means_at
from tacit.model.transitions import Layout

# Most values of a column of words that become features.
MOST_WORDS = 24
# Most whole numbers of a map that may be codes of classes: those of one byte.
MOST_CODES = 256
# Farther than any position, in any unit.
FARTHEST = 1e12
ISO = "ISO 8601"


def ingest(
    log: Frame | str | Path,
    *,
    episode: str,
    time: str | None = None,
    every: str | float | None = None,
    state: str | None = None,
    x: str | None = None,
    y: str | None = None,
    cell: float | None = None,
    hexagon: float | None = None,
    clusters: int | None = None,
    action: str | None = None,
    group: str | None = None,
    individual: str | None = None,
    weight: str | None = None,
    sampling_weight: str | None = None,
    columns: Sequence[str] = (),
    action_columns: Sequence[str] = (),
    ends: Sequence[str] = (),
    maps: Mapping[str, str | Path] | None = None,
    classes: Mapping[str, str | None] | None = None,
    origin: tuple[float, float] | None = None,
    decimal_comma: bool = False,
    seed: int = 0,
) -> Log:
    """The `Log` of a table: one row a moment, in any order.

    A gap in time, a missing position and a move beyond a neighbouring cell end an episode; what
    follows is another one, of the same individual.

    Args:
        log: a .csv or .parquet file, or a pandas or Polars frame.
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
        origin: x and y of a corner of some square cell; None takes the lower left corner of the
            first map that has one, and for degrees without a map that of the positions.
        decimal_comma: whether 3,5 means three and a half.
        seed: of the clusters.
    """
    if isinstance(log, str | Path) and not Path(log).is_file():
        near = did_you_mean(Path(log).name, [one.name for one in Path(log).parent.glob("*.*")])
        raise FileNotFoundError(ENOENT, f"there is no such log{near}", str(log))
    if (state is None) == (x is None or y is None):
        raise InvalidDemonstrations(
            "a log needs a column of states (--state), or two of positions (--x and --y); not both"
            + ("" if isinstance(log, str | Path) else f"; it has {some([*log])}")
        )
    asked = {"episode": episode, "time": time, "state": state, "x": x, "y": y, "action": action}
    asked |= {"group": group, "individual": individual, "weight": weight}
    asked |= {"sampling_weight": sampling_weight}
    if both := {*columns} & {*action_columns}:
        said = "a column must be given to --columns or to --action-columns, not to both"
        raise InvalidModel(f"{said}; got {min(both)!r}")
    asked |= {f"columns {c}": c for c in columns}
    asked |= {f"action_columns {c}": c for c in action_columns}
    rows = _Rows.read(log, {role: name for role, name in asked.items() if name is not None})
    reals = Reals(decimal_comma)
    paths = maps or {}
    rasters = {name: read_raster(path) for name, path in paths.items()}
    for name in classes or {}:
        if name not in rasters:
            near = did_you_mean(name, rasters)
            raise InvalidModel(f"classes must be maps: {some([*rasters])}; got {name!r}{near}")
    corners = (one.corner for one in rasters.values() if math.isfinite(one.left))
    origin = origin or next(corners, None)
    points, frame_of = np.zeros((len(rows.who), 2)), Degrees(origin or (0.0, 0.0))
    rows, said = rows.within_individuals()
    if state is None:
        points = np.stack([reals(rows["x"]), reals(rows["y"])], axis=1)
        for axis, name in enumerate(("x", "y")):
            far = np.abs(points[:, axis]) > FARTHEST
            if far.any():
                raise rows[name].wrong(int(np.argmax(far)), "a position", ": write NA if unknown")
        axes = (str(x), str(y))
        frame_of, told = Degrees.found(points, axes, origin)
        said += told
        in_degrees = frame_of.scale is not None
        check_systems(rasters, paths, points, axes=axes, degrees=in_degrees)
        points = frame_of.metres(points)
        known = np.all(np.isfinite(points), axis=1)
    else:
        known = ~missing_rows(rows["state"])
    if not known.any():
        raise InvalidDemonstrations(f"{rows.source} must have a row that says where; all lack it")
    track, places = _track(rows, known, every, reals), None
    if state is None:
        widths = {"cell": cell, "hexagon": hexagon, "clusters": clusters}
        places = places_by(points[track.rows], widths, origin=frame_of.start, seed=seed)
        where, names = places(points[track.rows]), places.names
        if len(names) == 1:
            wide = np.ptp(points[known], axis=0)
            raise InvalidDemonstrations(
                f"{rows.source}: all positions lie in one cell, of {wide[0]:.3g} x {wide[1]:.3g}"
                ": give a smaller --cell; degrees are in columns called lon and lat"
            )
    else:
        texts = rows.texts("state", track.rows)
        names = natural_order({*texts})
        place = {name: at for at, name in enumerate(names)}
        where = np.array([place[text] for text in texts])
    layout, moves = places.layout if places else Layout(state_names=names), None
    if action is None:
        found = infer_actions(where, track, names, places)
        track, taken, moves = found.track, found.taken, found.moves
        leads = tuple(map(tuple, moves.tolist())) if layout.centres else ()
        layout = replace(layout, action_names=found.names, leads=leads)
    else:
        taken = rows.texts("action", track.rows, void=None)
        words = natural_order({word for word in taken if word is not None})
        layout = replace(layout, action_names=words, directions=(), leads=())
    frame, alone = _frame(rows, track, [names[s] for s in where.tolist()], taken)
    seen = Demonstrations.from_frame(frame, layout, missing="split")
    over = _end_states(ends, names, seen)
    if over:
        seen = replace(seen, ended=np.isin(seen.final_states, over))
    if moves is not None and over:
        moves = moves.copy()
        moves[over] = -1
    notes = [*said, *track.notes, *alone, *seen.notes]
    called = {"states": names, "actions": layout.action_names}
    called |= {} if seen.groups is None else {"groups": dict.fromkeys(seen.groups.tolist())}
    notes += [note for what, each in called.items() for note in _alike_names([*each], what)]
    features: dict[str, np.ndarray] = {}
    code = {word: at for at, word in enumerate(layout.action_names)}
    acts = np.array([-1 if word is None else code[word] for word in taken])
    shape = (len(names), len(code))
    for name in (*columns, *action_columns):
        column = rows[f"{'action_' * (name in action_columns)}columns {name}"]
        column = replace(column, values=column.values[track.rows])
        if name in action_columns:  # what was done is known of these rows alone
            told = replace(column, values=column.values[acts >= 0])
            place = where[acts >= 0] * len(code) + acts[acts >= 0]
            found = _column_features(told, name, place, len(names) * len(code), reals)
            for title, means in found.items():
                features[title] = means.reshape(shape)
                features[title][over] = 0.0  # nothing is done there
            continue
        features |= _column_features(column, name, where, len(names), reals)
        values = np.array([reals.number(text) for text in column.texts or ()])[column.values]
        notes += depends_on_action(name, values, where, taken if action else ())
    for name, raster in rasters.items():
        if places is None:
            raise InvalidModel(f"a map needs positions, x and y; the log has states, for {name!r}")
        layers, told = _map_features(name, frame_of.map(raster), places, classes)
        features |= layers
        notes += told
    for name, values in features.items():
        features[name], lost, whence = filled(values, places and places.centres)
        if lost == values.size:
            raise InvalidModel(
                f"{name} must be known in at least one state; all {lost} have no value of it: "
                "leave it out, or correct what stands for a missing value"
            )
        if lost:
            what = "states" if values.ndim == 1 else "pairs of state and action"
            notes.append(f"{lost} of {values.size} {what} have no {name}: {whence} is taken")
    return Log(
        demonstrations=replace(seen, notes=tuple(notes)),
        layout=layout,
        places=places,
        moves=moves,
        features=features,
        points=points[track.rows],
        notes=tuple(notes),
    )


def _map_features(
    name: str, raster: Raster, places: Places, classes: Mapping[str, str | None] | None
) -> tuple[dict[str, np.ndarray], list[str]]:
    """(Feature -> [S] of a map, the mean over each cell or the share of each class; notes)."""
    notes = []
    if not math.isfinite(raster.left):
        first, last = places.names[0], places.names[-1]
        notes.append(
            f"{name} does not say where it lies: it was laid over all cells, {first} to {last}"
        )
    if holds_classes(raster.values) if classes is None else name in classes:
        shares, told = class_shares(raster, name, places, (classes or {}).get(name))
        return shares, [*notes, told]
    codes = len(class_codes(raster.values))
    if classes is None and 2 < codes <= MOST_CODES:
        notes.append(
            f"{name} holds {codes} whole numbers, taken for amounts: their mean in each cell "
            f"(--classes {name} takes them for classes, --classes without names says that they "
            "are none)"
        )
    drawn = without_background(raster.values)
    if drawn is not raster.values:
        lone = raster.values[np.isfinite(raster.values)][0]
        notes.append(f"{name} holds {lone:g} or no value: no value is taken for 0, {lone:g} for 1")
    return {name: replace(raster, values=drawn).over(places)}, notes


@dataclass(frozen=True, eq=False)
class _Rows:
    """The columns of a log as texts, by what they are to us."""

    source: str
    columns: Mapping[str, Column]

    @classmethod
    def read(cls, log: Frame | str | Path, asked: Mapping[str, str]) -> _Rows:
        table, names = _opened(log, asked)
        found = table.read([*dict.fromkeys(names.values())], texts=[*names.values()])
        rows = cls(str(table.path), {role: found[name] for role, name in names.items()})
        if not len(rows.who):
            raise InvalidDemonstrations(
                f"{table.path} must hold at least one row below its header; got none"
            )
        return rows

    def __getitem__(self, role: str) -> Column:
        return self.columns[role]

    @property
    def who(self) -> np.ndarray:
        """[N] the place of each row's episode among the texts; none may be missing."""
        column = self.columns["episode"]
        column.refuse(voids(column), "the name of an episode")
        return column.values

    def within_individuals(self) -> tuple[_Rows, list[str]]:
        """The rows, an episode's name made with its individual's where several have one of it."""
        if "individual" not in self.columns:
            return self, []
        episode, whose = self["episode"], self["individual"]
        pairs, at = np.unique(np.stack([whose.values, self.who]), axis=1, return_inverse=True)
        if len(np.unique(pairs[1])) == pairs.shape[1] or missing_rows(whose).any():
            return self, []
        told = [f"{(whose.texts or ())[w]} {(episode.texts or ())[e]}" for w, e in pairs.T.tolist()]
        column = replace(episode, values=at.ravel(), texts=tuple(told))
        note = f"individuals have episodes of the same name: {len(told)} in all, such as {told[0]}"
        return replace(self, columns={**self.columns, "episode": column}), [note]

    def texts(self, role: str, rows: np.ndarray, void: object = "refuse") -> list:
        """The texts of these rows; `void` stands where one is missing, unless that is refused."""
        column = self.columns[role]
        asked = column if void is None else replace(column, values=column.values[rows])
        if void == "refuse" and missing_rows(asked).any():
            row = int(rows[np.argmax(missing_rows(asked))])
            mend = f": fill it in, or leave out --{role.replace('_', '-')}"
            raise column.wrong(row, "a weight" if role.endswith("weight") else "a name", mend)
        pairs = zip(column.texts or (), voids(column), strict=True)
        table = [void if empty else text for text, empty in pairs]
        return [table[code] for code in column.values[rows].tolist()]


def _opened(log: Frame | str | Path, asked: Mapping[str, str]) -> tuple[Table, dict[str, str]]:
    """The table of a log, and the name that each column we ask for has in it."""
    frame, what, names = log, "the log", {role: role for role in asked}
    if isinstance(log, str | Path) and Path(log).suffix.lower() in PARQUET:
        import polars

        check_parquet(Path(log))
        with readable(Path(log)):
            frame, what = polars.read_parquet(log, columns=None), str(log)
    elif isinstance(log, str | Path):
        table = open_table(Path(log), InvalidDemonstrations, expected=[*asked.values()])
        for role, name in asked.items():
            if name not in table.names:
                option = role.split()[0].replace("_", "-")
                raise InvalidDemonstrations(
                    f"{log} must have the column {name!r}, given for {option}; it has "
                    f"{some(table.names)}{did_you_mean(name, table.names)}: give one of them to "
                    f"--{option}"
                )
        return table, dict(asked)
    return FrameTable(frame, InvalidDemonstrations, asked, what=what, as_texts=True), names


def _moments(column: Column, reals: Reals) -> tuple[np.ndarray, str]:
    """([N] the times of a column, in seconds where they are time stamps; how those are written)."""
    texts = column.texts or ()
    column.refuse(voids(column), "a time")
    numbers = np.array([reals.number(text) for text in texts])
    if np.isfinite(numbers).all():
        return numbers[column.values], ""
    found, order = time_stamps(texts)
    hint = ": write it as 2024-05-31 18:30:00"
    column.refuse(~np.isfinite(found), "a time stamp, or a number in all rows", hint)
    return found[column.values], order or ISO


def _track(rows: _Rows, known: np.ndarray, every: str | float | None, reals: Reals) -> Track:
    """The rows in order, cut at gaps."""
    if "time" not in rows.columns:
        return cut_track(rows.who, known, time=None, every=None, unit="")
    time, written = _moments(rows["time"], reals)
    if isinstance(every, str):
        plain = reals.number(every)
        if written and math.isfinite(plain):
            raise InvalidModel(
                f"a time step between time stamps needs a unit, such as 15min; got {every!r}"
            )
        every = plain if math.isfinite(plain) else seconds(every)
    if every is not None and not (math.isfinite(every) and every > 0):
        raise InvalidModel(f"a time step must be above 0; got {every}")
    track = cut_track(rows.who, known, time=time, every=every, unit="s" if written else "")
    notes = () if written in ("", ISO) else (f"dates were read as {written}",)
    return replace(track, notes=(*notes, *track.notes))


def _frame(
    rows: _Rows, track: Track, states: Sequence[str], actions: Sequence[str | None]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """A frame with the columns of demonstrations, and how many moments stand alone.

    The last moment of a piece is where its last action led, where that was inferred.
    """
    names, part, follows = rows.texts("episode", track.rows), track.part, track.follows()
    frame = {
        "episode": [f"{n} ({k + 1})" if k else n for n, k in zip(names, part, strict=True)],
        "step": track.step,
        "state": states,
        "action": actions,
        "partial": part > 0,
    }
    for role in ("group", "individual", "weight", "sampling_weight"):
        if role in rows.columns:
            frame[role] = rows.texts(role, track.rows)
            if role.endswith("weight"):
                check_weights(rows[role], track.rows)
                frame[role] = [text.replace(",", ".", 1) for text in frame[role]]
    if "individual" not in frame and (part > 0).any():
        frame["individual"] = names
    if "action" in rows.columns:
        return {name: np.array(column, object) for name, column in frame.items()}, []
    if not follows.any():
        raise InvalidDemonstrations(
            f"{rows.source} must have moments that follow each other at the time step; none do"
        )
    last = np.flatnonzero(np.append(track.first[1:], True))
    frame["final_state"] = np.array(states, object)[last][track.piece]
    alone = int((np.diff(np.append(-1, last)) == 1).sum())
    note = f"{alone} moments stand alone, without one before or after: they are left out"
    kept = {name: np.array(column, object)[follows] for name, column in frame.items()}
    return kept, [note] if alone else []


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


def _column_features(
    column: Column, name: str, place: np.ndarray, places: int, reals: Reals
) -> dict[str, np.ndarray]:
    """Feature -> [places] the means of a column of numbers in each, or the shares of its words."""
    texts, empty = column.texts or (), voids(column)
    numbers = np.array([reals.number(text) for text in texts])
    words = [t for t, n, e in zip(texts, numbers, empty, strict=True) if n != n and not e]
    if words and len(texts) > MOST_WORDS:
        reals(column)  # names the first row that is no number

    def means(values: np.ndarray) -> np.ndarray:
        return means_at(np.where(empty, np.nan, values)[column.values], place, places)

    if not words:
        return {name: means(numbers)}
    shown = natural_order(t for t, e in zip(texts, empty, strict=True) if not e)
    return {f"{name}: {word}": means(np.array([t == word for t in texts], float)) for word in shown}


def _alike_names(names: Sequence[str], what: str) -> list[str]:
    """A sentence about names that differ in capitals or spaces only, where there are some."""
    same: dict[str, list[str]] = {}
    for name in names:
        same.setdefault(" ".join(name.casefold().split()), []).append(name)
    twice = [" and ".join(map(repr, each)) for each in same.values() if len(each) > 1]
    said = f"{what} differ in capitals or spaces only and count apart: {'; '.join(twice[:3])}"
    return [f"{said}; if they are the same, spell them alike in the log"] if twice else []
