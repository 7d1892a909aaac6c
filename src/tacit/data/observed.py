"""Demonstrations in files too large for memory; and what was seen, however it is held.

It is held in memory, in such files, or as sums alone (`Observed`). Estimators ask `tally_of` and
its kin and nothing else. Each answer is a sum over episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.episodes import FROM_ONE
from tacit.data.tally import Moves, Scatter, Sums, SumSpread, Tally
from tacit.engine import each
from tacit.errors import InvalidDemonstrations
from tacit.files.atomic import LARGEST
from tacit.files.parquet import readable
from tacit.files.tables import PARQUET, Progress
from tacit.model.layout import Layout
from tacit.model.mdp import MDP
from tacit.model.objective import Features

Loader = Callable[[Path], Demonstrations]
# What is lost of individuals where only sums are kept.
UNTOLD = (
    "The column individual is not used in files that are read one by one: error bars take their "
    "episodes as independent, and are too small where individuals differ. Load them into memory."
)


def write_partitions(parts: Iterable[Demonstrations], folder: str | Path) -> int:
    """How many files were written, one for each part, its episodes numbered on from the last's.

    Args:
        parts: demonstrations, one after the other: only one of them need be in memory.
        folder: where; made if need be. It must hold no Parquet file yet.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if _files(folder):
        raise FileExistsError(f"{folder} must hold no Parquet files yet; it has some")
    number = episodes = 0
    for number, part in enumerate(parts, start=1):
        replace(part, names=None).save(folder / f"part-{number - 1:05d}.parquet", first=episodes)
        episodes += part.episodes
    return number


def _files(folder: Path) -> list[Path]:
    """The Parquet files in a folder and those inside, in the order of their names."""
    return sorted(
        path
        for ending in PARQUET
        for path in folder.rglob(f"*{ending}")
        if path.is_file()
        and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    )


def _stamp(path: Path) -> tuple[int, int]:
    """Size and time of a file: other ones mean that it has changed."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


class _Part(NamedTuple):
    """What the first reading of one file leaves."""

    labels: np.ndarray  # [E] numbers or names of its episodes
    notes: tuple[str, ...]
    tally: Tally
    moves: Moves


@dataclass(frozen=True, eq=False)
class PartitionedDemonstrations:
    """Demonstrations in a folder of Parquet files, never in memory as a whole.

    `tacit.recover` takes them like `Demonstrations`, and finds the same. The files have the columns
    that `Demonstrations.load` reads. Each holds whole episodes, and no two episodes of the folder
    have the same name. Folders inside are looked into; names that begin with "." or "_" are not
    read.

    Attributes:
        folder: that holds the files.
        layout: names of states and actions, where the files have names instead of numbers.
        workers: processes that read; None for what joblib was told, or one per core if nothing.
        largest: most bytes of memory to take for one file.
        progress: called after every file with how many are done and how many there are.
    """

    folder: Path
    _: KW_ONLY
    layout: Layout | None = None
    workers: int | None = None
    largest: int = LARGEST
    progress: Progress | None = None
    _kept: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        folder = Path(self.folder).absolute()  # workers may stand elsewhere
        object.__setattr__(self, "folder", folder)
        if not folder.is_dir():
            raise NotADirectoryError(f"{folder} must be a folder of Parquet files; it is none")
        self._kept["files"] = {path: _stamp(path) for path in _files(folder)}
        if not self.files:
            raise InvalidDemonstrations(f"{folder} must hold .parquet files; got none")

    @property
    def files(self) -> tuple[Path, ...]:
        """The files, in the order of their names."""
        return tuple(self._kept["files"])

    @property
    def episodes(self) -> int:
        """E, the number of episodes."""
        return self._size()[0]

    @property
    def steps(self) -> int:
        """N, the number of observed steps."""
        return self._size()[1]

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what was assumed when the files were read."""
        return self._kept.get("notes", ())

    def check(self, mdp: MDP) -> None:
        """Raises `InvalidDemonstrations` unless every state and action exists in the model."""
        self._first(mdp)

    def counts(self, mdp: MDP) -> np.ndarray:
        """[S, A] how often each action was taken in each state."""
        return self.tally(mdp).counts

    def tally(self, mdp: MDP) -> Tally:
        """The `Tally` of all files in this world."""
        return self._first(mdp)[0]

    def moves(self, mdp: MDP) -> Moves:
        """The `Moves` of all files that this world cannot have done."""
        return self._first(mdp)[1]

    def spread(self, mdp: MDP, features: Features) -> SumSpread:
        """The `SumSpread` of the trajectories' discounted feature sums."""
        asked, spread = self._kept.get("spread", (None, None))
        if asked is None or asked[0] is not mdp or asked[1] is not features:
            spread = self.reduce(partial(SumSpread.of, mdp, features))
            self._kept["spread"] = ((mdp, features), spread)
        return spread

    def scatter(self, scores: np.ndarray) -> Scatter:
        """The `Scatter` of the episodes' sums of tables [D, S, A]."""
        return self.reduce(partial(Scatter.of, scores))

    def reduce(self, function: Callable[[Demonstrations], Sums]) -> Sums:
        """The sum of what the function makes of each file's demonstrations.

        Args:
            function: of a module, not a lambda; what it returns is added up by `+`.
        """
        return reduce(add, self._each(partial(_reduced, function)))  # type: ignore[type-var]

    def _each(self, work: Callable[[Path, Loader], Sums], mdp: MDP | None = None) -> Iterator[Sums]:
        """What the work makes of every file, in their order whoever is first."""
        for path, stamp in self._kept["files"].items():
            if _stamp(path) != stamp:
                raise OSError(f"{path} has changed since the folder was opened: open it again")
        limits = {}
        if mdp is not None:
            limits = {"states": mdp.states, "actions": mdp.actions}
            limits |= {"available": mdp.available} if mdp.restricted else {}
        # Tables travel inside `load` and `work`. As plain arguments Dask would put them on one
        # worker, and lose them with it.
        load = partial(Demonstrations.load, layout=self.layout, largest=self.largest, **limits)
        results = each(work, [(path, load) for path in self.files], workers=self.workers)
        for done, result in enumerate(results, start=1):
            if self.progress is not None:
                self.progress(done, len(self.files))
            yield result

    def _first(self, mdp: MDP) -> tuple[Tally, Moves]:
        """Tally and moves of all files, read once for each model that asks in turn."""
        asked, sums_before = self._kept.get("first", (None, None))
        if sums_before is not None and asked is mdp:
            return sums_before
        labels, notes, sums = [], [], None
        for part in self._each(partial(_first_part, mdp), mdp):
            labels.append(part.labels)
            notes.append(part.notes)
            new = (part.tally, part.moves)
            sums = new if sums is None else (sums[0] + new[0], sums[1] + new[1])
        assert sums is not None  # there is a file
        self._check_whole(labels)
        from_one = [FROM_ONE in part for part in notes]
        if any(from_one) and not all(from_one):
            raise InvalidDemonstrations(
                "all files must count steps from 0, or all from 1; "
                f"every episode of {self.files[from_one.index(True)]} begins at step 1, "
                f"not so in {self.files[from_one.index(False)]}"
            )
        self._kept["notes"] = tuple(dict.fromkeys(note for part in notes for note in part))
        self._kept["first"] = (mdp, sums)
        self._kept["size"] = (sums[0].episodes, sums[0].steps)
        return sums

    def _size(self) -> tuple[int, int]:
        """How many episodes and steps there are."""
        if "size" not in self._kept:
            labels, episodes, steps = zip(*self._each(_size_part), strict=True)
            self._check_whole(list(labels))
            self._kept["size"] = (sum(episodes), sum(steps))
        return self._kept["size"]

    def _check_whole(self, labels: list[np.ndarray]) -> None:
        """Raises `InvalidDemonstrations` where an episode is in two files."""
        home = np.repeat(np.arange(len(self.files)), [len(part) for part in labels])
        every = np.concatenate(labels)
        order = np.argsort(every, kind="stable")
        twice = np.flatnonzero(every[order[1:]] == every[order[:-1]])
        if len(twice):
            first, second = order[twice[0]], order[twice[0] + 1]
            raise InvalidDemonstrations(
                f"every episode must be whole in one file; episode {every[first]} is in "
                f"{self.files[home[first]]} and in {self.files[home[second]]}"
            )

    def __repr__(self) -> str:
        return f"PartitionedDemonstrations({str(self.folder)!r}, files={len(self.files)})"


def _reduced(function: Callable[[Demonstrations], Sums], path: Path, load: Loader) -> Sums:
    return function(load(path))


def _first_part(mdp: MDP, path: Path, load: Loader) -> _Part:
    seen = load(path)
    if seen.weights is not None:
        raise InvalidDemonstrations(f"{path} must have no sampling weights: load it into memory")
    notes = seen.notes if seen.individuals is None else (*seen.notes, UNTOLD)
    return _Part(_labels(path), notes, Tally.of(mdp, seen), Moves.of(mdp, seen))


def _size_part(path: Path, load: Loader) -> tuple[np.ndarray, int, int]:
    seen = load(path)  # looks at the file before the engine does
    return _labels(path), seen.episodes, seen.steps


def _labels(path: Path) -> np.ndarray:
    """[E] the numbers or names of the episodes in a file."""
    import polars

    with readable(path):
        column = polars.scan_parquet(path, glob=False).select("episode").collect().to_series()
    return column.unique().to_numpy()


Observed = Demonstrations | PartitionedDemonstrations | Tally
"""What a recovery can be made from: demonstrations in memory, in partitions, or their sums."""
