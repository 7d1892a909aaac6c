"""The columns of a log as texts, by what they are to the reader of the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tacit.data.sources.times import time_stamps
from tacit.data.weights import weight_mend
from tacit.errors import InvalidDemonstrations
from tacit.files.columns import Column
from tacit.files.frames import Frame, FrameTable
from tacit.files.tables import Table, open_table
from tacit.files.wording import did_you_mean, natural_order, some


@dataclass(frozen=True, eq=False)
class LogRows:
    """The rows of a log.

    Attributes:
        source: of the log, for messages.
        columns: as texts, by their roles.
    """

    source: str
    columns: Mapping[str, Column]

    @classmethod
    def read(cls, log: Frame | str | Path, roles: Mapping[str, str]) -> LogRows:
        """The columns of a log that have these roles -> their names."""
        table, names = _opened(log, roles)
        found = table.read([*dict.fromkeys(names.values())], as_texts=True)
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
        told = [f"{(whose.texts or ())[w]} {(episode.texts or ())[e]}" for w, e in pairs.T.tolist()]
        column = replace(episode, values=at.ravel(), texts=tuple(told))
        note = f"individuals have episodes of the same name: {len(told)} in all, such as {told[0]}"
        return replace(self, columns={**self.columns, "episode": column}), [note]

    def numbered(self, role: str, rows: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
        """([n] the numbers of these rows' texts, -1 where missing; the texts, sorted)."""
        column = self.columns[role].select(rows)
        texts = np.array(column.texts or (), object)
        names = natural_order({*texts[column.values[~column.missing]]})
        place = {name: at for at, name in enumerate(names)}
        return np.array([place.get(text, -1) for text in texts])[column.values], names

    def labels(self, role: str, rows: np.ndarray) -> np.ndarray:
        """[n] the place of each of these rows' texts in the column; none may be missing."""
        column = self.columns[role]
        if (lost := column.missing[rows]).any():
            mend = f": fill it in, or leave out --{role.replace('_', '-')}"
            raise column.wrong(int(rows[np.argmax(lost)]), "a name", mend)
        return column.values[rows]

    def weights(self, role: str, rows: np.ndarray) -> np.ndarray:
        """[n] the numbers of these rows; all must be above 0."""
        column = self[role]
        found = column.numbers(comma=True)[column.values]
        if (odd := ~((found > 0) & np.isfinite(found))[rows]).any():
            row = int(rows[odd].min())
            raise column.wrong(row, "a number above 0", weight_mend(float(found[row])))
        return found[rows]

    def moments(self, *, comma: bool) -> tuple[np.ndarray, str, bool]:
        """([N] times, how dates were read if that was guessed, whether they are time stamps)."""
        column = self["time"]
        texts = column.texts or ()
        column.refuse(column.voids, "a time")
        numbers = column.numbers(comma=comma)
        if np.isfinite(numbers).all():
            return numbers[column.values], "", False
        found, order = time_stamps(texts)
        hint = ": write it as 2024-05-31 18:30:00"
        column.refuse(~np.isfinite(found), "a time stamp, or a number in all rows", hint)
        return found[column.values], order, True


def _opened(log: Frame | str | Path, roles: Mapping[str, str]) -> tuple[Table, dict[str, str]]:
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
