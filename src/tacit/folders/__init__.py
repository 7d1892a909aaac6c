"""Problems and runs on disk; here how a run is claimed by one writer, kept, and gone on with.

A run makes the same stages in the same order every time. Going on means to begin again and to read
back what is known, so the end is the same to the last bit. Each stage is kept with a checksum of
everything it depends on: a journal of other data is noticed, not used.
"""

from __future__ import annotations

import contextlib
import errno
import json
import platform
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.engine.progress import Event
from tacit.errors import InvalidDemonstrations, InvalidModel, TacitError
from tacit.files.arrays import (
    BROKEN,
    Tree,
    digest,
    pack,
    settle,
    unpack,
    write_arrays,
    write_bundle,
)
from tacit.files.atomic import (
    PART,
    BadFile,
    Page,
    check_folder,
    check_plain,
    locked,
    read_page,
    write_page,
)
from tacit.files.formats import read_arrays
from tacit.folders.problem import Problem
from tacit.folders.runs import FILES, FORMAT, JOURNAL, PAGE, SETTINGS, Run, versions

if TYPE_CHECKING:
    from tacit.inverse.joint.trips import Trips
    from tacit.model.transitions import Layout


__all__ = ["Claim", "Problem", "Run", "checkpoint", "claimed"]

CURRENT, HEAD = "current.npz", "head"
# Seconds between two writes: what an interruption without warning may cost.
EVERY = 2.0
# Times as long as a write takes, at least: a large state must not spend the run on being kept.
RARELY = 20.0
# Bytes of finished stages that are kept: ten constraints are 65 searches, and each ends with the
# derivatives of all values (20 MB at 100 000 states).
MOST = 2**29


class FolderJournal:
    """A `tacit.progress.Journal` in a folder; also a callback, which asks for nothing.

    Attributes:
        folder: where the stages are.
        every: seconds between two writes.
        recalled: whether a stage was read back from it.

    Of many large stages those are kept that took longest for their bytes, up to `MOST`; the others
    are made again, from where they began, to the same bits.
    """

    def __init__(self, folder: Path, *, every: float = EVERY) -> None:
        self.folder, self.every, self.recalled = folder, every, False
        self._seconds: dict[str, float] = {}  # that finished stages took, by file
        self._ended, self._gaps = time.monotonic(), False
        self._digests: dict[str, str] = {}
        self._waiting: dict[str, tuple[dict[str, object], Tree]] = {}
        self._last, self._pause = time.monotonic(), every

    def __call__(self, event: Event) -> None:
        """Nothing: states come by `keep`."""

    def recall(self, stage: str, inputs: Tree, kinds: Sequence[type]) -> tuple[Tree, bool] | None:
        """The last state of the stage and whether that was its end; None if it is not known."""
        self._digests[stage] = digest(inputs)
        for name in (_file(stage), CURRENT):
            path = self.folder / name
            if not path.exists():
                continue
            arrays = read_arrays(path)
            try:
                head = json.loads(str(arrays.pop(HEAD)))
                if head["stage"] != stage:
                    continue
                finished, seconds = bool(head["finished"]), float(head.get("seconds", 0.0))
                state = unpack(arrays, kinds) if head["inputs"] == self._digests[stage] else None
            except (*BROKEN, BadFile) as error:
                reason = " ".join(str(error).split())
                raise BadFile(f"{path} is no record of a stage: {reason:.120}") from None
            if head["inputs"] != self._digests[stage]:
                if self._gaps:  # it began where another processor's digits were
                    continue
                raise TacitError(
                    f"{path} was made from other data or settings than {stage} has now; "
                    "begin again with --overwrite"
                )
            self.recalled = True
            if finished:
                self._seconds[name], self._ended = seconds, time.monotonic()
            return state, finished
        self._gaps = self.recalled
        return None

    def keep(self, stage: str, inputs: Tree, state: Tree, *, finished: bool) -> None:
        """Remembers where the stage stands, and writes it down if it is time."""
        if stage not in self._digests:
            self._digests[stage] = digest(inputs)
        head = {"stage": stage, "inputs": self._digests[stage], "finished": finished}
        if finished:
            head["seconds"] = self._seconds[_file(stage)] = time.monotonic() - self._ended
            self._ended = time.monotonic()
        # The state itself, not a copy: states are never changed, only replaced.
        self._waiting[_file(stage) if finished else CURRENT] = (head, state)
        if time.monotonic() - self._last >= self._pause:
            self.flush()

    def flush(self) -> None:
        """Writes what has not been written yet, finished stages first."""
        began = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in sorted(self._waiting, key=lambda name: name == CURRENT):
            head, state = self._waiting[name]
            write_arrays(self.folder / name, {HEAD: np.array(json.dumps(head)), **pack(state)})
            del self._waiting[name]
        self._drop()
        self._last = time.monotonic()
        if self.every > 0:
            self._pause = max(self.every, RARELY * (self._last - began))

    def _drop(self) -> None:
        """Removes finished stages beyond `MOST` bytes, the quickest for their bytes first."""
        paths = [self.folder / name for name in self._seconds]
        sizes = {path: path.stat().st_size for path in paths if path.exists()}
        for path in sorted(sizes, key=lambda path: self._seconds[path.name] / sizes[path]):
            if sum(sizes.values()) <= MOST:
                break
            path.unlink()
            del sizes[path]


def checkpoint(folder: str | Path, *, every: float = EVERY) -> FolderJournal:
    """A callback that keeps a recovery in a folder, to go on after an interruption.

    `tacit.recover(..., callbacks=[tacit.runs.checkpoint("kept")])`, called again with the same
    arguments, goes on where it was left. Remove the folder when the answer is there.

    Args:
        folder: where to keep it.
        every: seconds between two writes, more where writing takes long; 0 writes at every step.
    """
    return FolderJournal(Path(folder), every=every)


def _file(stage: str) -> str:
    return re.sub(r"[^0-9A-Za-z]+", "-", stage) + ".npz"


def identity(config: Mapping[str, object], hashes: Mapping[str, str]) -> Page:
    """All that must be the same for a run to be gone on with."""
    here = {"system": platform.system(), "machine": platform.machine()}
    whole = {"config": config, "hashes": hashes, "versions": {**versions(), **here}}
    # Through JSON, so that a tuple and a list, a path and its text compare as they are read back.
    return json.loads(json.dumps(whole, default=str))


def difference(folder: Path, held: Page, wanted: Page) -> str | None:
    """One line that says what of the run in the folder is not as asked; None if all is."""
    told = []
    for part, word in (("hashes", "data"), ("config", "setting"), ("versions", "version")):
        old, new = held.get(part, {}), wanted.get(part, {})
        if not isinstance(old, dict):
            raise BadFile(f"{folder} holds no run that can be gone on with: its {part} are none")
        for name in {**old, **new}:
            if old.get(name) != new.get(name):
                told.append(
                    f"{word} {name}: {_short(old.get(name))} there, {_short(new.get(name))} now"
                )
    if not told:
        return None
    more = f" and {len(told) - 4} more" if len(told) > 4 else ""
    return (
        f"{folder} holds a run of another kind ({'; '.join(told[:4])}{more}): choose another "
        "folder, or begin again with --overwrite"
    )


def _short(value: object) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 24 else f"{text[:16]}..."


@dataclass(frozen=True, eq=False)
class Claim:
    """A folder that this process may write a run to.

    Attributes:
        folder: where.
        journal: where the fit keeps its stages.
        done: whether a finished run of the same kind lies there, so that nothing is left to do.
        identity: what the run depends on.
    """

    folder: Path
    journal: FolderJournal
    done: bool
    identity: Page

    def finish(self, run: Run) -> None:
        """Writes the run, all or nothing, and forgets the way to it."""
        page, files = run.contents()
        write_bundle(self.folder, PAGE, {**page, "identity": self.identity}, files, known=FILES)
        _forget(self.folder)


@contextmanager
def claimed(
    folder: str | Path,
    identity: Page,
    *,
    resume: bool = False,
    overwrite: bool = False,
    break_lock: bool = False,
    every: float = EVERY,
) -> Iterator[Claim]:
    """A `Claim` on the folder, held inside.

    `OSError` if another process holds it, or if a run lies there that must not be lost, or
    something else; `TacitError` if it is no run of the same kind. Input that turns
    out to be bad inside leaves no run behind: there would be nothing to go on with.

    Args:
        folder: of the run; made if need be.
        identity: what the run depends on, from `tacit.folders.runs`.
        resume: go on with a run of the same kind that was interrupted; begin if there is none.
        overwrite: begin again; an older run stays until the new one is whole.
        break_lock: take the folder from a writer on another machine that is surely gone.
        every: seconds between two writes of the journal.
    """
    folder = Path(folder)
    if resume and overwrite:
        raise TacitError("--resume continues a run, --overwrite begins again: choose one")
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder, broken=break_lock):
            done = _begun(folder, identity, resume, overwrite)
            journal = FolderJournal(folder / JOURNAL, every=every)
            try:
                yield Claim(folder, journal, done, identity)
            except (InvalidModel, InvalidDemonstrations):
                _forget(folder)
                raise
            except BROKEN as error:
                if not journal.recalled or isinstance(error, TacitError):
                    raise
                # What was read back may be sealed and still be no state of this search.
                raise BadFile(
                    f"{folder} cannot be gone on with ({type(error).__name__}: {error!s:.80}): "
                    "begin again with --overwrite"
                ) from error
    except (InvalidModel, InvalidDemonstrations):
        if new:
            with contextlib.suppress(OSError):  # somebody else put something there meanwhile
                folder.rmdir()
        raise


def _begun(folder: Path, identity: Page, resume: bool, overwrite: bool) -> bool:
    """Makes a folder ready for the run; whether a finished run of the same kind lies there."""
    check_folder(folder / JOURNAL)
    for path in (folder / PAGE, folder / JOURNAL / SETTINGS):
        check_plain(path)
    if not (folder / PAGE).exists() and not (folder / JOURNAL / SETTINGS).exists():
        _refuse_others(folder)
    # Who begins again need not be able to read what was there.
    finished, under_way = (None, None) if overwrite else _held(folder)
    held = finished if under_way is None else under_way
    if held is not None and not resume:
        what = "a run" if under_way is None else "an unfinished run"
        cure = "--resume continues it, --overwrite begins again"
        raise FileExistsError(errno.EEXIST, f"the folder holds {what} ({cure})", str(folder))
    if held is not None and (other := difference(folder, held, identity)) is not None:
        raise TacitError(other)
    settle(folder, PAGE, FILES)  # before anything is removed: it refuses a page that lies
    if not resume or under_way is None:
        _forget(folder)
    if resume and finished is not None and under_way is None:
        return True
    (folder / JOURNAL).mkdir(exist_ok=True)
    write_page(folder / JOURNAL / SETTINGS, identity)
    return False


def _held(folder: Path) -> tuple[Page | None, Page | None]:
    """What the finished and the unfinished run in a folder depend on; None where there is none."""
    finished = under_way = None
    if (folder / PAGE).exists():
        finished = read_page(folder / PAGE, form=FORMAT).get("identity", {})
        if not isinstance(finished, dict):
            raise BadFile(f"{folder / PAGE} must say what its run depends on; it does not")
    if (folder / JOURNAL / SETTINGS).exists():
        under_way = read_page(folder / JOURNAL / SETTINGS)
    return finished, under_way


def _refuse_others(folder: Path) -> None:
    """Raises `FileExistsError` where the folder holds what is no run: it is somebody's."""
    held = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if held == [folder / JOURNAL] and held[0].is_dir() and not held[0].is_symlink():
        # What a writer leaves that died before it wrote its settings, or lost them.
        held = [path for path in held[0].iterdir() if not _is_ours(path)]
    if held:
        raise FileExistsError(errno.EEXIST, "the folder holds other things than a run", str(folder))


def _forget(folder: Path) -> None:
    """Removes the journal, its stages first: one without settings is none. Nothing of others."""
    journal = folder / JOURNAL
    if not journal.is_dir():
        return
    for path in journal.iterdir():
        if _is_ours(path):
            path.unlink()
    (journal / SETTINGS).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not empty: somebody keeps other things there
        journal.rmdir()


def _is_ours(path: Path) -> bool:
    """Whether a file of a journal is a stage, or what a writer left of one."""
    return path.name == CURRENT or _STAGE.fullmatch(path.name) is not None


# The stages of a run are numbered; a file under way has a random part in its name.
_STAGE = re.compile(rf"[0-9A-Za-z-]+-\d+\.npz|\..+\.[0-9a-f]+{re.escape(PART)}")


def ends_of(layout: Layout, trips: Trips, episodes: np.ndarray) -> dict[str, np.ndarray]:
    """Where these trips began and where they went, by name."""
    seen, name = trips.demonstrations, layout.state_name
    goals = trips.goals[episodes].tolist()
    origins = seen.states[seen.offsets[:-1][episodes]].tolist()
    return {
        "origin": np.array([name(state) for state in origins]),
        "goal": np.array(["none" if goal < 0 else name(goal) for goal in goals]),
    }
