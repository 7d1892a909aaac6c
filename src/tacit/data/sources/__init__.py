"""Demonstrations from anywhere, and a guess at what the columns of a log are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.data.sources.discretise import Discretiser
from tacit.data.sources.gymnasium import action_masks, terminal_states
from tacit.data.sources.logs import Log, LogReader
from tacit.data.sources.places import Places, clusters, hexagons, square_cells
from tacit.data.sources.positions import DEGREES, METRES, is_called
from tacit.data.sources.rasters import read_raster
from tacit.data.sources.recordings import from_imitation, from_minari, rollouts
from tacit.data.sources.times import UNITS, time_stamps
from tacit.errors import InvalidDemonstrations
from tacit.files.columns import MISSING, real, whole
from tacit.files.tables import open_table

if TYPE_CHECKING:
    import polars

__all__ = [
    "ColumnGuess",
    "Discretiser",
    "Log",
    "LogReader",
    "Places",
    "action_masks",
    "clusters",
    "from_imitation",
    "from_minari",
    "guess_columns",
    "hexagons",
    "read_raster",
    "rollouts",
    "square_cells",
    "terminal_states",
]

# Rows that are looked at, and most columns that may matter.
SAMPLE, MOST_COLUMNS = 5000, 4
# Most values of a column that tells groups apart.
MOST_GROUPS = 12
# Cells across the log, at least and at most.
FEWEST_ACROSS, MOST_ACROSS = 5, 30
# What columns are called, by what they are to `LogReader`; the earlier the likelier.
CALLED = {
    "x": "x lon longitude long lng länge laenge longitud east easting",
    "y": "y lat latitude breite latitud north northing",
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
USUAL = {"s": (1, 2, 5, 10, 15, 20, 30), "min": (1, 2, 5, 10, 15, 20, 30), "h": (1, 2, 3, 4, 6, 8)}
USUAL |= {"d": (0.5, 1, 7)}


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
        named = {role: (name,) for role, name in given.items() if isinstance(name, str)}
        named = {role: names for role, names in named.items() if names[0] in self.texts}
        return replace(self, roles={**self.roles, **named})._options(given)

    def _options(self, given: Mapping[str, object]) -> dict[str, str | bool | list[str]]:
        found: dict[str, str | bool | list[str]] = {}
        sought = ["episode", "time"]
        if "state" not in given:
            has_positions = {"x", "y"} & {*given} or "x" in self.roles
            sought += ["x", "y"] if has_positions else ["state"]
        taken = {name for names in self.roles.values() for name in names}
        words = [n for n, kind in self.holds.items() if kind == "words" and n not in taken]
        spare = len(words) > ("state" not in self.roles) and "x" not in sought
        for role in (*sought, "action", "group"):
            if role in self.roles:
                found[role] = self.roles[role][0]
            elif role in ("episode", "state", "x", "y") or (role == "action" and spare):
                found[role] = "COLUMN"
        found = {role: name for role, name in found.items() if role not in given}
        if "time" in found and "every" not in given and (step := self._time_step()):
            found["every"] = step
        if "x" in sought and not {"cell", "hexagon", "clusters"} & {*given}:
            found["cell"] = f"{self._width() or 1.0:.9g}"
        if "columns" in self.roles and "columns" not in given:
            found["columns"] = [*self.roles["columns"]]
        used = [name for names in self.roles.values() for name in names]
        commas = any(
            "," in cell for n in used if self.holds[n] == "numbers" for cell in self.texts[n]
        )
        if commas and "decimal_comma" not in given:
            found["decimal_comma"] = True
        return found

    def _followers(self) -> np.ndarray:
        """[N - 1] bool, whether a row is of the same episode as the one before."""
        if "episode" not in self.roles:
            return np.ones(len(next(iter(self.texts.values()))) - 1, bool)
        who = self.texts[self.roles["episode"][0]]
        return who[1:] == who[:-1]

    def _time_step(self) -> str:
        """The usual time step that is nearest to the median between rows; "" if none is near."""
        name = self.roles["time"][0]
        if self.holds[name] != "time stamps":
            return ""
        between = np.diff(time_stamps(self.texts[name].tolist())[0])[self._followers()]
        between = between[between > 0]
        if not len(between):
            return ""
        usual = {f"{n:g}{unit}": n * UNITS[unit] for unit, ns in USUAL.items() for n in ns}
        middle = float(np.median(between))
        near = min(usual, key=lambda one: abs(np.log(usual[one] / middle)))
        return near if abs(usual[near] / middle - 1.0) < 0.1 else ""

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
        moves = np.abs(np.diff(points, axis=0)[self._followers()]).max(axis=1)
        moves, seen = moves[moves > 0], points[np.isfinite(points).all(axis=1)]
        if not len(moves) or not len(seen):
            return None
        # Stray positions do not say how wide the log is.
        across = float(np.ptp(np.quantile(seen, [0.01, 0.99], axis=0), axis=0).max())
        width = np.clip(np.quantile(moves, 0.75), across / MOST_ACROSS, across / FEWEST_ACROSS)
        digits = 10.0 ** np.floor(np.log10(width)) * np.array([1.0, 2.0, 5.0, 10.0])
        return float(f"{digits[np.argmin(np.abs(np.log(digits / width)))]:g}")


def guess_columns(log: str | Path) -> ColumnGuess:
    """The `ColumnGuess` of a .csv or .parquet log, by its columns' names and first rows."""
    import polars

    table = open_table(Path(log), InvalidDemonstrations)
    first_rows = next(table.batches(table.names), None)
    if first_rows is None:
        raise InvalidDemonstrations(f"{log} must hold at least one row below its header; got none")
    cells = polars.all().cast(polars.String).fill_null("").str.strip_chars()
    rows = first_rows.head(SAMPLE).with_columns(cells)
    first = {name: str(rows[name][0]) for name in rows.columns}
    texts = {name: _known(rows[name]) for name in rows.columns}
    holds = {name: _kind(cells) for name, cells in texts.items()}
    count = {name: len(np.unique(cells[cells != ""])) for name, cells in texts.items()}
    roles: dict[str, tuple[str, ...]] = {}

    def take(role: str, fits: Callable[[str], bool]) -> str | None:
        taken = {name for names in roles.values() for name in names}
        free = [name for name in texts if name not in taken and fits(name)]
        best = min(free, key=lambda name: _rank(name, role), default=None)
        if best is None or _rank(best, role) == NEVER:
            return None
        roles[role] = (best,)
        return best

    def repeats(name: str) -> bool:
        return count[name] < len(rows) and holds[name] in ("words", "numbers")

    if not (
        take("x", lambda name: holds[name] == "numbers")
        and take("y", lambda name: holds[name] == "numbers")
    ):
        roles.clear()
        take("state", repeats)
    take("action", repeats)
    # Time stamps before numbers, whatever they are called.
    if not take("time", lambda name: holds[name] == "time stamps"):
        moments = [name for name in texts if holds[name] == "time stamps"]
        if moments:
            roles["time"] = (moments[0],)
        else:
            take("time", lambda name: holds[name] == "numbers")
    who = take("episode", repeats)
    taken = {name for names in roles.values() for name in names}
    free = [name for name in texts if name not in taken]
    if who is None and (words := [n for n in free if holds[n] == "words" and repeats(n)]):
        who = max(words, key=count.__getitem__)
        roles["episode"] = (who,)
        free.remove(who)
    if who is not None:
        told = [name for name in free if _tells_apart(rows, name, who, count)]
        named = [name for name in told if _rank(name, "group") < NEVER]
        worded = [name for name in told if holds[name] == "words"]
        if named or worded:
            roles["group"] = ((named or worded)[0],)
        free = [name for name in free if name not in told]
    matters = [n for n in free if holds[n] == "numbers" and count[n] > 1 and not _counts(texts[n])]
    roles |= {"columns": tuple(matters[:MOST_COLUMNS])} if matters else {}
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


def _known(column: polars.Series) -> np.ndarray:
    """[N] the texts of a column, "" where one says that it is missing."""
    return np.array(["" if cell.casefold() in MISSING else cell for cell in column], dtype=object)


def _reals(cells: Sequence[str] | np.ndarray) -> np.ndarray:
    """[N] the numbers that texts spell, with a point or a comma; NaN where one spells none."""
    return np.array([real(cell, comma=True) for cell in cells], np.float64)


def _kind(cells: np.ndarray) -> str:
    there = cells[cells != ""]
    if not len(there):
        return "nothing"
    if np.isfinite(_reals(there)).all():
        return "numbers"
    return "time stamps" if np.isfinite(time_stamps(there.tolist())[0]).all() else "words"


def _rank(name: str, role: str) -> int:
    """The place of the first of a role's words that a name has; `NEVER` if it has none."""
    apart = "".join(f" {c}" if c.isupper() else c if c.isalnum() else " " for c in name)
    words = {*apart.casefold().split(), name.casefold()}
    return next((at for at, w in enumerate(CALLED[role].split()) if w in words), NEVER)


def _tells_apart(rows: polars.DataFrame, name: str, who: str, count: Mapping[str, int]) -> bool:
    """Whether a column says the same in all rows of an episode, and few things in all."""
    pairs = len(rows.select(name, who).unique())
    return pairs == count[who] and 1 < count[name] <= min(MOST_GROUPS, count[who] - 1)


def _counts(cells: np.ndarray) -> bool:
    """Whether a column only numbers the rows."""
    found = [whole(cell) for cell in cells]
    return None not in found and len({*found}) == len(found)
