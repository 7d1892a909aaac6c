"""The columns of a log as texts, by what they are to the reader of the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tacit.data.sources.times import doubtful_date, time_stamps
from tacit.data.weights import positive
from tacit.errors import InvalidDemonstrations
from tacit.files.columns import RawColumn
from tacit.files.frames import Frame, FrameTable
from tacit.files.tables import TableSource, open_table
from tacit.files.wording import did_you_mean, natural_order, some


@dataclass(frozen=True, eq=False)
class LogRows:
    """The rows of a log.

    Attributes:
        source: of the log, for messages.
        columns: as texts, by their roles.
    """

    source: str
    columns: Mapping[str, RawColumn]

    @classmethod
    def read(cls, log: Frame | str | Path, roles: Mapping[str, str]) -> LogRows:
        """The columns of a log that have these roles -> their names."""
        table, names = _opened(log, roles)
        asked = [*dict.fromkeys(names.values())]
        columns = table.read(asked, texts=asked)
        rows = cls(str(table.path), {role: columns[name] for role, name in names.items()})
        if not len(rows["episode"]):
            raise InvalidDemonstrations(
                f"{table.path} must hold at least one row below its header; got none"
            )
        return rows

    def __getitem__(self, role: str) -> RawColumn:
        return self.columns[role]

    @property
    def who(self) -> np.ndarray:
        """[N] the place of each row's episode among the texts; none may be missing."""
        column = self["episode"]
        column.refuse(column.voids, "the name of an episode")
        return column.values

    def within_individuals(self) -> tuple[LogRows, list[str]]:
        """The rows, an episode's name made with its individual's where several have one of it."""
        if "individual" not in self.columns:
            return self, []
        episode, whose = self["episode"], self["individual"]
        pairs, at = np.unique(np.stack([whose.values, self.who]), axis=1, return_inverse=True)
        if len(np.unique(pairs[1])) == pairs.shape[1] or whose.missing.any():
            return self, []
        who, what = whose.texts or (), episode.texts or ()
        names = tuple(f"{who[w]} {what[e]}" for w, e in pairs.T.tolist())
        column = replace(episode, values=at.ravel(), texts=names)
        note = f"individuals have episodes of one name: {len(names)} in all, such as {names[0]}"
        return replace(self, columns={**self.columns, "episode": column}), [note]

    def numbered(self, role: str, rows: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
        """([n] the numbers of these rows' texts, -1 where missing; the texts, sorted)."""
        column = self[role].select(rows)
        texts = np.array(column.texts or (), object)
        names = natural_order({*texts[column.values[~column.missing]]})
        number = {name: at for at, name in enumerate(names)}
        return np.array([number.get(text, -1) for text in texts])[column.values], names

    def labels(self, role: str, rows: np.ndarray) -> np.ndarray:
        """[n] the place of each of these rows' texts in the column; none may be missing."""
        column = self[role].select(rows)
        mend = f": fill it in, or leave out --{role.replace('_', '-')}"
        column.refuse(column.voids, "a name", mend)
        return column.values

    def weights(self, role: str, rows: np.ndarray) -> np.ndarray:
        """[n] the numbers of these rows; all must be above 0."""
        return positive(self[role].select(rows), comma=True)

    def moments(self, *, comma: bool) -> tuple[np.ndarray, str, bool]:
        """([N] times, how dates were read if that was guessed, whether they are time stamps)."""
        column = self["time"]
        column.refuse(column.voids, "a time")
        numbers = column.numbers(comma=comma)
        if np.isfinite(numbers).all():
            return numbers[column.values], "", False
        stamps, order = time_stamps(column.texts or ())
        unread = np.flatnonzero(~np.isfinite(stamps))
        texts = column.texts or ()
        doubt = doubtful_date(texts[int(unread[0])]) if unread.size else ""
        hint = doubt or ": write it as 2024-05-31 18:30:00"
        column.refuse(~np.isfinite(stamps), "a time stamp, or a number in all rows", hint)
        return stamps[column.values], order, True


def _opened(
    log: Frame | str | Path, roles: Mapping[str, str]
) -> tuple[TableSource, dict[str, str]]:
    """The table of a log, and the name that the column of each role has in it."""
    if not isinstance(log, str | Path):
        return FrameTable(log, InvalidDemonstrations, roles, what="the log"), {r: r for r in roles}
    table = open_table(Path(log), InvalidDemonstrations, expected=[*roles.values()])
    for role, name in roles.items():
        if name not in table.names:
            option = role.split()[0].replace("_", "-")
            raise InvalidDemonstrations(
                f"{log} must have the column {name!r}, given for {option}; it has "
                f"{some(table.names)}{did_you_mean(name, table.names)}: give one of them to "
                f"--{option}"
            )
    return table, dict(roles)
