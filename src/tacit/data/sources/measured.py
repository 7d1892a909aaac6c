"""A log of measurements: every row is a state of its own, in the order of time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from errno import ENOENT
from pathlib import Path

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.measurements import Measurements
from tacit.data.sources.log_rows import LogRows
from tacit.errors import InvalidDemonstrations
from tacit.files.columns import FLAGS, RawColumn
from tacit.files.frames import Frame

# Columns of a log that are read as they are, by their roles.
PEOPLE = ("group", "individual")
MOST_OUTCOMES = 12  # ways in which an episode may end


@dataclass(frozen=True, kw_only=True)
class MeasuredReader:
    """How a log becomes `Measurements`: one row a moment, in any order.

    Attributes:
        episode: name of the column that tells who, or which stay, was seen.
        measured: names of the columns of measurements; a missing cell is NaN.
        action: name of the column of actions; the last row of an episode may lack it.
        time: name of the column of time: time stamps, or numbers. None takes the rows as they come.
        ended: name of the column that says, in some row, that an episode ended: true or 1, or a
            word such as died or discharged; None where none is known to have.
        group: name of the column of groups to compare.
        individual: name of the column of individuals, whose episodes are not independent.
        decimal_comma: whether 3,5 means three and a half.
    """

    episode: str
    measured: tuple[str, ...]
    action: str
    time: str | None = None
    ended: str | None = None
    group: str | None = None
    individual: str | None = None
    decimal_comma: bool = False

    def read(self, log: Frame | str | Path) -> Measurements:
        """The rows of a .csv or .parquet file, or of a pandas or Polars frame."""
        if isinstance(log, str | Path) and not Path(log).is_file():
            raise FileNotFoundError(ENOENT, "there is no such log", str(log))
        rows, notes = LogRows.read(log, self._roles).within_individuals()
        who, size = rows.who, len(rows.who)
        step = np.arange(size)
        if self.time is not None:
            time, written, _ = rows.moments(comma=self.decimal_comma)
            notes += [f"dates were read as {written}"] if written else []
            order = np.lexsort((time, who))
            step = np.empty(size, np.int64)
            same = (np.diff(time[order]) == 0) & (np.diff(who[order]) == 0)
            if same.any():
                at = int(order[int(np.argmax(same)) + 1])
                raise InvalidDemonstrations(
                    f"{rows.source}: every moment of an episode must have a time of its own; "
                    f"{rows['episode'].cell(at)} has {rows['time'].cell(at)} twice"
                )
            step[order] = np.arange(size)
        frame: dict[str, object] = {"episode": _texts(rows, "episode"), "step": _ranks(who, step)}
        frame["action"] = _texts(rows, "action")
        for name in self.measured:
            frame[name] = rows[f"state {name}"].measurements(comma=self.decimal_comma)
        for role in PEOPLE:
            if getattr(self, role) is not None:
                frame[role] = _texts(rows, role)
        if self.ended is not None:
            over = np.zeros(int(who.max()) + 1, bool)
            np.logical_or.at(over, who, _outcomes(rows["ended"], self.ended) != "")
            frame["ended"] = over[who]
        seen = Demonstrations.from_frame(frame, state=list(self.measured))
        assert isinstance(seen, Measurements)
        return replace(seen, notes=(*notes, *seen.notes))

    def outcomes(self, log: Frame | str | Path) -> dict[str, str]:
        """Episode -> how it ended, such as died; the name of the column where that says true."""
        if self.ended is None:
            return {}
        rows, _ = LogRows.read(log, self._roles).within_individuals()
        words = _outcomes(rows["ended"], self.ended)
        names = _texts(rows, "episode")
        found: dict[str, str] = {}
        for row in np.flatnonzero(words != "").tolist():
            before = found.setdefault(str(names[row]), str(words[row]))
            if before != words[row]:
                words_of = f"{before!r} and {str(words[row])!r}"
                raise rows["ended"].fault(
                    row, f"an episode must end in one way; {names[row]} ends in {words_of}"
                )
        return found

    @property
    def _roles(self) -> dict[str, str]:
        """Role -> name of the column."""
        plain = ("episode", "time", "action", "ended", *PEOPLE)
        roles = {role: getattr(self, role) for role in plain}
        roles |= {f"state {name}": name for name in self.measured}
        return {role: name for role, name in roles.items() if name is not None}


def _outcomes(column: RawColumn, name: str) -> np.ndarray:
    """[N] how an episode ended by each row: a word, the column's name for true, "" for nothing."""
    texts = [text.casefold() for text in column.texts or ()]
    known = [FLAGS.get(text, False if void else None)
             for text, void in zip(texts, column.voids, strict=True)]  # fmt: skip
    if None not in known:
        return np.array([name if flag else "" for flag in known])[column.values]
    if any(text in FLAGS for text in texts) or len(texts) > MOST_OUTCOMES:
        column.refuse([flag is None for flag in known], "true or false, or few words in all rows")
    words = [
        text if flag is None else "" for text, flag in zip(column.texts or (), known, strict=True)
    ]
    return np.array(words)[column.values]


def _texts(rows: LogRows, role: str) -> list[str | None]:
    """[N] the texts of a column, None where one is missing."""
    column = rows[role]
    lost, texts = column.missing, column.texts or ()
    pairs = zip(column.values.tolist(), lost.tolist(), strict=True)
    return [None if is_lost else str(texts[at]) for at, is_lost in pairs]


def _ranks(who: np.ndarray, step: np.ndarray) -> np.ndarray:
    """[N] the place of each row among those of its episode, by their steps."""
    order = np.lexsort((step, who))
    first = np.flatnonzero(np.diff(who[order], prepend=-1))
    ranks = np.empty(len(who), np.int64)
    sizes = np.diff(np.append(first, len(who)))
    ranks[order] = np.arange(len(who)) - np.repeat(first, sizes)
    return ranks
