"""Logs that are still written: rows are read once each, in order, from where the last read ended.

A batch is a fixed number of rows, so that a reader who is stopped and begins again sees the same
batches. A log that shrank, changed its columns or went back in time is refused in one line.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

import numpy as np

from tacit.data.numbering import Numbering
from tacit.errors import InvalidDemonstrations
from tacit.files.frames import FrameTable
from tacit.files.tables import PARQUET, ParquetTable, TextTable
from tacit.model.available import first_unavailable
from tacit.model.mdp import MDP

if TYPE_CHECKING:
    import polars

NEEDED = ("state", "action")
OPTIONAL = ("episode", "step")
# Last bytes before a position that are read again, to see that the log only grew.
TAIL_BYTES = 64
# Limit of size for readers of tables; no log reaches it.
ANY_SIZE = 2**62
# Bytes that are read at once.
BLOCK_BYTES = 2**20
# Most episodes whose last step is remembered.
MOST_EPISODES = 1024


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where a reader of a log stands.

    Attributes:
        rows: that were read, since the beginning.
        place: bytes of a text, or rows of the file of a folder, that were read.
        columns: names of the columns; empty before the first row.
        tail: the last bytes that were read, in hexadecimal.
        file: name of the file of a folder that is read; empty before the first.
        files: number of files of the folder up to that one.
        steps: name of an episode -> its last step, of the latest episodes.
    """

    rows: int = 0
    place: int = 0
    columns: tuple[str, ...] = ()
    tail: str = ""
    file: str = ""
    files: int = 0
    steps: dict[str, int] = field(default_factory=dict)


class GrowingLog(Protocol):
    """Rows that go on arriving."""

    def read(self, position: Position, rows: int) -> tuple[list[polars.DataFrame], Position]:
        """At most so many rows from a position on, and the position where they end."""
        ...

    @property
    def ended(self) -> bool:
        """Whether no more can come."""
        ...


@dataclass(frozen=True)
class TextLog:
    """A text table to which lines are added, one a row.

    Attributes:
        path: of the file.
    """

    path: Path
    ended = False

    def read(self, position: Position, rows: int) -> tuple[list[polars.DataFrame], Position]:
        """At most so many rows, of lines that are whole."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if size < position.place:
            raise InvalidDemonstrations(
                f"{self.path} must not shrink: {position.place} bytes of it were read, it has "
                f"{size} now"
            )
        if not size:
            return [], position
        with open(self.path, "rb") as file:
            if not position.columns and b"\n" not in file.read(BLOCK_BYTES):
                return [], position  # its first line is being written
            table = TextTable(self.path, InvalidDemonstrations, (*NEEDED, *OPTIONAL), ANY_SIZE)
            _check_columns(self.path, position, table.names)
            if not position.columns:
                position = replace(position, place=table.start, columns=table.names)
            tail = bytes.fromhex(position.tail)
            file.seek(position.place - len(tail))
            if file.read(len(tail)) != tail:
                raise InvalidDemonstrations(
                    f"{self.path} must only grow: what was read before byte {position.place} is "
                    "another text now"
                )
            content = _lines(file, rows)
        if not content:
            return [], position
        frames = _frames(table, content, position)
        return frames, _after(position, content, content.count(b"\n"))


@dataclass(frozen=True)
class InputLog:
    """A text table that comes in as it is written, and can be read once.

    Attributes:
        stream: of bytes.
        skipped: rows at the beginning that were read by somebody before.
    """

    stream: BinaryIO
    skipped: int = 0
    _progress: dict = field(default_factory=dict, repr=False)

    @property
    def ended(self) -> bool:
        """Whether the writer has closed it."""
        return self._progress.get("ended", False)

    def read(self, position: Position, rows: int) -> tuple[list[polars.DataFrame], Position]:
        """So many rows; fewer at the end. Waits for them."""
        if "table" not in self._progress:
            head = self.stream.readline()
            if not head.strip():
                self._progress["ended"] = True
                return [], position
            self._progress["table"] = _table_of(head)
            for _ in range(self.skipped):
                self.stream.readline()
        table = self._progress["table"]
        _check_columns("standard input", position, table.names)
        position = replace(position, columns=table.names)
        lines = []
        while len(lines) < rows:
            line = self.stream.readline()
            if not line:
                self._progress["ended"] = True
                break
            lines.append(line)
        content = b"".join(lines)
        if not content:
            return [], position
        return _frames(table, content, position), _after(position, content, len(lines))


@dataclass(frozen=True)
class FolderLog:
    """A folder to which Parquet files are added, whole, in the order of their names.

    Attributes:
        path: of the folder.
    """

    path: Path
    ended = False

    def read(self, position: Position, rows: int) -> tuple[list[polars.DataFrame], Position]:
        """At most so many rows, of one file or of several."""
        files = sorted(
            path
            for path in self.path.iterdir()
            if path.suffix.lower() in PARQUET and path.name[0] not in "._" and path.is_file()
        )
        last_read = [path.name for path in files[: position.files]][-1:]
        if position.file and (len(files) < position.files or last_read != [position.file]):
            raise InvalidDemonstrations(
                f"{self.path} must only grow, in the order of names: {position.files} files up to "
                f"{position.file} were read, others are there now"
            )
        frames, missing = [], rows
        for path in files[max(position.files - 1, 0) :]:
            if path.name != position.file:
                position = replace(position, file=path.name, files=position.files + 1, place=0)
            table = ParquetTable(path, InvalidDemonstrations, ANY_SIZE)
            _check_columns(path, position, table.names)
            if table.rows < position.place:
                raise InvalidDemonstrations(
                    f"{path} must not shrink: {position.place} of its rows were read, it has "
                    f"{table.rows} now"
                )
            count = min(missing, table.rows - position.place)
            if count:
                frames.append(_slice(path, table, position.place, count))
            position = replace(
                position,
                columns=table.names,
                rows=position.rows + count,
                place=position.place + count,
            )
            missing -= count
            if not missing:
                break
        return frames, position


def counts_of(
    frames: list[polars.DataFrame],
    before: Position,
    after: Position,
    mdp: MDP,
    *,
    names: tuple[tuple[str, ...], tuple[str, ...]],
    source: str,
) -> tuple[np.ndarray, Position]:
    """([S, A] how often each action was taken in these rows, where they end).

    Args:
        frames: of the rows.
        before: where they begin.
        after: where they end.
        mdp: the world.
        names: those of states and of actions; empty where they are numbers.
        source: of the rows, for messages.
    """
    counts = np.zeros((mdp.states, mdp.actions))
    first, steps = before.rows, dict(before.steps)
    state_numbers, action_numbers = (
        Numbering(labels, find=False, count=count, source="the problem")
        for labels, count in zip(names, counts.shape, strict=True)
    )
    numbering = {"state": state_numbers, "action": action_numbers}
    texts = [name for name in NEEDED if numbering[name].only_names]
    for frame in frames:
        what = f"{source}, after row {first}"
        table = FrameTable(frame, InvalidDemonstrations, what=what)
        columns = table.read(texts=texts)
        states = state_numbers.numbers(columns["state"])
        actions = action_numbers.numbers(columns["action"], may_miss=True)
        is_step = actions >= 0  # the last row of an episode may lack its action
        states, actions = states[is_step], actions[is_step]
        odd = first_unavailable(mdp.available, states, actions) if mdp.restricted else None
        if odd is not None:
            raise InvalidDemonstrations(f"{what}: {odd.sentence()}")
        pairs = states.astype(np.int64) * mdp.actions + actions
        counts += np.bincount(pairs, minlength=counts.size).reshape(counts.shape)
        if "episode" in columns and "step" in columns:
            labels = np.asarray(columns["episode"].labels()).astype(str)
            steps = _in_time(labels, columns["step"].integers(), steps, what)
        first += len(frame)
    return counts, replace(after, steps=steps)


def _in_time(
    episodes: np.ndarray, steps: np.ndarray, before: dict[str, int], what: str
) -> dict[str, int]:
    """Episode -> its last step; one line where a step of an episode comes after a later one."""
    names, number = np.unique(episodes, return_inverse=True)
    order = np.argsort(number, kind="stable")
    number, ordered = number[order], steps[order]
    begins = np.r_[True, number[1:] != number[:-1]]
    previous = np.r_[-1, ordered[:-1]]
    previous[begins] = [before.get(str(name), -1) for name in names]
    backward = order[ordered <= previous]
    if len(backward):
        row = int(backward.min())
        raise InvalidDemonstrations(
            f"{what}, row {row + 1} of these: steps of an episode must go up; episode "
            f"{episodes[row]} goes back to step {steps[row]}"
        )
    ends = ordered[np.r_[begins[1:], True]]
    last = {str(name): int(step) for name, step in zip(names, ends, strict=True)}
    older = {name: step for name, step in before.items() if name not in last}
    return dict(list((older | last).items())[-MOST_EPISODES:])


def _check_columns(path: object, position: Position, names: tuple[str, ...]) -> None:
    """Raises `InvalidDemonstrations` unless the columns are those that there were."""
    if position.columns and position.columns != names:
        raise InvalidDemonstrations(
            f"{path} must keep its columns {', '.join(position.columns)}; it has "
            f"{', '.join(names)} now"
        )
    if lost := [name for name in NEEDED if name not in names]:
        raise InvalidDemonstrations(
            f"{path} must have the columns state and action; {lost[0]} is missing among "
            f"{', '.join(names)}"
        )


def _lines(file: BinaryIO, rows: int) -> bytes:
    """At most so many whole lines."""
    content, missing = b"", rows
    while missing > 0 and (block := file.read(BLOCK_BYTES)):
        content += block
        missing -= block.count(b"\n")
    end = content.rfind(b"\n") + 1
    for _ in range(max(0, -missing)):
        end = content.rfind(b"\n", 0, end - 1) + 1
    return content[:end]


def _frames(table: TextTable, content: bytes, position: Position) -> list[polars.DataFrame]:
    """The frame of some lines; none where they are blank."""
    names = [name for name in (*NEEDED, *OPTIONAL) if name in table.names]
    if not content.strip():
        return []
    return [table.frame(names, content, table.line + position.rows)]


def _slice(path: Path, table: ParquetTable, first: int, count: int) -> polars.DataFrame:
    """So many rows of a Parquet file, from the first on."""
    import polars

    names = [name for name in (*NEEDED, *OPTIONAL) if name in table.names]
    return polars.scan_parquet(path, glob=False).select(names).slice(first, count).collect()


def _after(position: Position, content: bytes, rows: int) -> Position:
    """Where a text stands after some more of it."""
    tail = (bytes.fromhex(position.tail) + content)[-TAIL_BYTES:]
    place, rows = position.place + len(content), position.rows + rows
    return replace(position, place=place, rows=rows, tail=tail.hex())


def _table_of(head: bytes) -> TextTable:
    """The table of a stream, by its first line."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder) / "head.csv"
        path.write_bytes(head)
        table = TextTable(path, InvalidDemonstrations, (*NEEDED, *OPTIONAL), ANY_SIZE)
    table.path = "standard input"
    return table
