"""What the columns of a log seem to be, by their names and first rows, and what to type then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tacit.data.sources.positions import DEGREES, METRES, is_called
from tacit.data.sources.times import seconds, time_stamps
from tacit.errors import InvalidDemonstrations
from tacit.files.columns import MISSING, real, whole
from tacit.files.tables import open_table

# Rows that are looked at, and most columns that may matter.
SAMPLE, MOST_COLUMNS = 5000, 4
# Most values of a column that tells groups apart.
MOST_GROUPS = 12
# Cells across the log, at least and at most.
FEWEST_ACROSS, MOST_ACROSS = 5, 30
# What columns are called, by what they are to `LogReader`; the earlier the likelier.
CALLED = {
    "x": "x lon longitude long lng länge laenge longitud east easting utm_e utm_x",
    "y": "y lat latitude breite latitud north northing utm_n utm_y",
    "state": "state cell room node place zone site station patch location area link severity "
    "stage status",
    "action": "action move choice decision treatment therapy drug medication dose",
    "time": "time timestamp datetime when date t step frame hour day",
    "episode": "episode trip track trajectory bout session trial run individual animal subject "
    "patient tag id name user vehicle",
    "group": "group region sex condition cohort species genotype population clinic hospital ward",
}
NEVER = 1000  # rank of a name that has none of the words
# Time steps that people choose.
USUAL = (
    "1s 2s 5s 10s 15s 20s 30s 1min 2min 5min 10min 15min 20min 30min 1h 2h 3h 4h 6h 8h 0.5d 1d 7d"
)


@dataclass(frozen=True, eq=False)
class ColumnGuess:
    """What the columns of a log seem to be, by their names and its first rows.

    Attributes:
        holds: of each column: numbers, time stamps, words or nothing.
        first: of each column, the first cell.
        roles: attribute of `LogReader` -> names of the columns that seem to be it.
        texts: of each column the first cells, by episode and time; "" where one is missing.
    """

    holds: Mapping[str, str]
    first: Mapping[str, str]
    roles: Mapping[str, tuple[str, ...]]
    texts: Mapping[str, np.ndarray]

    def options(self, given: Mapping[str, object]) -> dict[str, str | bool | list[str]]:
        """What else to tell a `LogReader`; COLUMN stands for a column that was not found."""
        named = {role: (name,) for role, name in given.items() if str(name) in self.texts}
        guess = replace(self, roles={**self.roles, **named})
        roles, used = guess.roles, [name for names in guess.roles.values() for name in names]
        place = ("x", "y") if {"x", "y"} & {*given, *roles} else ("state",)
        place = () if "state" in given else place
        needed = ["episode", *place]
        words = [n for n, kind in self.holds.items() if kind == "words" and n not in used]
        if "x" not in needed and len(words) > ("state" not in roles):
            needed.append("action")
        options: dict[str, str | bool | list[str]] = {}
        for role in ("episode", "time", *place, "action", "group"):
            if role not in given and (role in roles or role in needed):
                options[role] = roles.get(role, ("COLUMN",))[0]
        if "time" in options and "every" not in given and (step := guess._time_step()):
            options["every"] = step
        if "x" in needed and not {"cell", "hexagon", "clusters"} & {*given}:
            options["cell"] = f"{guess._width() or 1.0:.9g}"
        if "columns" in roles and "columns" not in given:
            options["columns"] = [*roles["columns"]]
        numbers = [self.texts[name] for name in used if self.holds[name] == "numbers"]
        if "decimal_comma" not in given and any("," in cell for cells in numbers for cell in cells):
            options["decimal_comma"] = True
        return options

    def _changes(self, values: np.ndarray) -> np.ndarray:
        """[M] or [M, 2] by how much values change from row to row of one episode."""
        who = self.texts[self.roles["episode"][0]] if "episode" in self.roles else None
        change = np.diff(values, axis=0)
        return change if who is None else change[who[1:] == who[:-1]]

    def _time_step(self) -> str:
        """The usual time step that is nearest to the median between rows; "" if none is near."""
        name = self.roles["time"][0]
        if self.holds[name] != "time stamps":
            return ""
        between = self._changes(time_stamps(self.texts[name].tolist())[0])
        if not (between > 0).any():
            return ""
        middle = float(np.median(between[between > 0]))
        near = min(USUAL.split(), key=lambda step: abs(np.log(seconds(step) / middle)))
        return near if abs(seconds(near) / middle - 1.0) < 0.1 else ""

    def _width(self) -> float | None:
        """A width of cells that most moves do not skip, as a round number; None if nothing moves.

        Three moves of four are no longer. There are between five and thirty cells across the log.
        """
        names = [self.roles[axis][0] for axis in ("x", "y") if axis in self.roles]
        if len(names) < 2:
            return None
        points = np.stack([_reals(self.texts[name]) for name in names], axis=1)
        if all(map(is_called, names, DEGREES)):
            points *= METRES * np.array([np.cos(np.radians(np.nanmean(points[:, 1]))), 1.0])
        moves = np.abs(self._changes(points)).max(axis=1)
        moves, seen = moves[moves > 0], points[np.isfinite(points).all(axis=1)]
        if not len(moves) or not len(seen):
            return None
        # Stray positions do not say how wide the log is.
        across = float(np.ptp(np.quantile(seen, [0.01, 0.99], axis=0), axis=0).max())
        width = np.clip(np.quantile(moves, 0.75), across / MOST_ACROSS, across / FEWEST_ACROSS)
        digits = 10.0 ** np.floor(np.log10(width)) * np.array([1.0, 2.0, 5.0, 10.0])
        return float(f"{digits[np.argmin(np.abs(np.log(digits / width)))]:g}")


def is_measured(log: str | Path, column: str) -> bool:
    """Whether a column holds numbers with fractions that seldom come again: no names of states."""
    guess = guess_columns(log)
    if column not in guess.texts:
        return False
    cells = guess.texts[column]
    values = _reals(cells[cells != ""])
    numbers = values[np.isfinite(values)]
    recurs = 2 * len(np.unique(numbers)) <= len(numbers)
    return 2 * len(numbers) > len(values) and not recurs and bool((numbers % 1.0 > 0).any())


def guess_columns(log: str | Path) -> ColumnGuess:
    """The `ColumnGuess` of a .csv or .parquet log, by its columns' names and first rows."""
    import polars

    table = open_table(Path(log), InvalidDemonstrations)
    rows = next(table.batches(table.names), None)
    if rows is None:
        raise InvalidDemonstrations(f"{log} must hold at least one row below its header; got none")
    cells = polars.all().cast(polars.String).fill_null("").str.strip_chars()
    rows = rows.head(SAMPLE).with_columns(cells)
    first = {name: str(rows[name][0]) for name in rows.columns}
    is_void = polars.all().str.to_lowercase().is_in(MISSING)
    rows = rows.with_columns(polars.when(~is_void).then(polars.all()).otherwise(polars.lit("")))
    texts = {name: rows[name].to_numpy() for name in rows.columns}
    holds = {name: _kind(cells[cells != ""]) for name, cells in texts.items()}
    count = {name: len({*cells} - {""}) for name, cells in texts.items()}
    roles: dict[str, tuple[str, ...]] = {}

    def free(*kinds: str, repeated: bool = False) -> list[str]:
        """The columns without a role that hold this, each value in several rows if `repeated`."""
        taken = {name for names in roles.values() for name in names}
        found = [name for name in texts if name not in taken and holds[name] in kinds]
        return [name for name in found if not repeated or count[name] < len(rows)]

    def take(role: str, names: list[str]) -> bool:
        """Whether one of these is called like the role, which the likeliest then has."""
        best = min(names, key=lambda name: _rank(name, role), default=None)
        if best is None or _rank(best, role) == NEVER:
            return False
        roles[role] = (best,)
        return True

    if not (take("x", free("numbers")) and take("y", free("numbers"))):
        roles.clear()
        take("state", free("words", "numbers", repeated=True))
    take("action", free("words", "numbers", repeated=True))
    # Time stamps before numbers, whatever they are called.
    if (stamps := free("time stamps")) and not take("time", stamps):
        roles["time"] = (stamps[0],)
    if not stamps:
        take("time", free("numbers"))
    if not take("episode", free("words", "numbers", repeated=True)):
        words = free("words", repeated=True)
        roles |= {"episode": (max(words, key=count.__getitem__),)} if words else {}
    constant_within = []
    if "episode" in roles:
        (who,) = roles["episode"]
        few = min(MOST_GROUPS, count[who] - 1)
        constant_within = [
            name for name in free("words", "numbers", "time stamps") if 1 < count[name] <= few
        ]
        constant_within = [
            name for name in constant_within if len(rows.select(name, who).unique()) == count[who]
        ]
        if constant_within and not take("group", constant_within):
            words = [name for name in constant_within if holds[name] == "words"]
            roles |= {"group": (words[0],)} if words else {}
    matters = [name for name in free("numbers") if name not in constant_within and count[name] > 1]
    matters = [name for name in matters if not _numbers_the_rows(texts[name])][:MOST_COLUMNS]
    roles |= {"columns": tuple(matters)} if matters else {}
    return ColumnGuess(holds, first, roles, _in_order(texts, roles))


def _in_order(
    texts: dict[str, np.ndarray], roles: Mapping[str, tuple[str, ...]]
) -> dict[str, np.ndarray]:
    """The cells by episode and time, as far as these are known."""
    keys = []
    if "time" in roles:
        cells = texts[roles["time"][0]]
        numbers = _reals(cells)
        keys.append(numbers if np.isfinite(numbers).any() else time_stamps(cells.tolist())[0])
    if "episode" in roles:
        keys.append(texts[roles["episode"][0]].astype(str))
    order = np.lexsort(keys) if keys else slice(None)
    return {name: cells[order] for name, cells in texts.items()}


def _reals(cells: np.ndarray) -> np.ndarray:
    """[N] the numbers that texts spell, with a point or a comma; NaN where one spells none."""
    return np.array([real(cell, comma=True) for cell in cells], np.float64)


def _kind(cells: np.ndarray) -> str:
    if not len(cells):
        return "nothing"
    if np.isfinite(_reals(cells)).all():
        return "numbers"
    return "time stamps" if np.isfinite(time_stamps(cells.tolist())[0]).all() else "words"


def _rank(name: str, role: str) -> int:
    """The place of the first of a role's words that a name has; `NEVER` if it has none."""
    apart = "".join(f" {c}" if c.isupper() else c if c.isalnum() else " " for c in name)
    words = {*apart.casefold().split(), name.casefold()}
    return next((at for at, w in enumerate(CALLED[role].split()) if w in words), NEVER)


def _numbers_the_rows(cells: np.ndarray) -> bool:
    numbers = [whole(cell) for cell in cells]
    return None not in numbers and len({*numbers}) == len(numbers)
