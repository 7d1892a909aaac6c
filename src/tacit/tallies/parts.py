"""The files of a folder of demonstrations: which they are, whether they fit together, new ones."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from tacit.demonstrations import Demonstrations
from tacit.errors import InvalidDemonstrations
from tacit.files.recorded import OPTIONAL, write_recorded

FROM_ONE = "steps are taken to count from 1"


def write_partitions(parts: Iterable[Demonstrations], folder: str | Path) -> int:
    """How many files were written, one for each part, its episodes numbered on from the last's.

    Args:
        parts: demonstrations, one after the other: only one of them need be in memory.
        folder: where; made if need be. It must hold no Parquet file yet.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if files_of(folder):
        raise FileExistsError(f"{folder} must hold no Parquet files yet; it has some")
    number = episodes = 0
    for number, part in enumerate(parts, start=1):
        whole = {name: getattr(part, name) for name in ("offsets", *OPTIONAL)}
        rows = {"states": part.states, "actions": part.actions}
        path = folder / f"part-{number - 1:05d}.parquet"
        write_recorded(path, rows, whole, first=episodes)
        episodes += part.episodes
    return number


def check_whole(files: tuple[Path, ...], labels: list[np.ndarray]) -> None:
    """Raises `InvalidDemonstrations` where an episode is in two files."""
    home = np.repeat(np.arange(len(files)), [len(part) for part in labels])
    every = np.concatenate(labels)
    order = np.argsort(every, kind="stable")
    twice = np.flatnonzero(every[order[1:]] == every[order[:-1]])
    if len(twice):
        first, second = order[twice[0]], order[twice[0] + 1]
        raise InvalidDemonstrations(
            f"every episode must be whole in one file; episode {every[first]} is in "
            f"{files[home[first]]} and in {files[home[second]]}"
        )


def check_counting(files: tuple[Path, ...], notes: list[tuple[str, ...]]) -> None:
    """Raises `InvalidDemonstrations` where some files count steps from 1 and others from 0."""
    from_one = [any(FROM_ONE in note for note in part) for part in notes]
    if any(from_one) and not all(from_one):
        raise InvalidDemonstrations(
            "all files must count steps from 0, or all from 1; "
            f"every episode of {files[from_one.index(True)]} begins at step 1, "
            f"not so in {files[from_one.index(False)]}"
        )


def files_of(folder: Path) -> list[Path]:
    """The Parquet files in a folder and those inside, in the order of their names."""
    found = [path for ending in (".parquet", ".pq") for path in folder.rglob(f"*{ending}")]
    return sorted(
        path
        for path in found
        if path.is_file()
        and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    )


def stamp_of(path: Path) -> tuple[int, int]:
    """Size and time of a file: other ones mean that it has changed."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns
