"""A folder claimed by one writer, for a run that is gone on with and written whole or not at all.

A run makes the same searches in the same order every time. Going on means to begin again, each
search from the place that it had reached: the end is the same to the tolerance of the searches. The
settings beside the checkpoint say what it depends on: one of other data is noticed, not used.
"""

from __future__ import annotations

import contextlib
import errno
import json
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tacit.engine.progress import EVERY, Checkpoint
from tacit.errors import InvalidDemonstrations, InvalidModel, TacitError
from tacit.files.arrays import BROKEN
from tacit.files.atomic import (
    PART,
    BadFile,
    Page,
    locked,
    read_page,
    write_page,
)
from tacit.files.bundles import settle, write_bundle
from tacit.folders.recoveries import (
    CHECKPOINT,
    FILES,
    PAGE,
    SEARCHES,
    SETTINGS,
    read_run_page,
    versions,
)
from tacit.folders.runs import Run

# What is left of a file that was being written has a random part in its name.
_REST = re.compile(rf"\..+\.[0-9a-f]+{re.escape(PART)}")


def identity(config: Mapping[str, object], hashes: Mapping[str, str]) -> Page:
    """All that must be the same for a run to be gone on with."""
    here = {"system": platform.system(), "machine": platform.machine()}
    whole = {"config": config, "hashes": hashes, "versions": {**versions(), **here}}
    # Through JSON, so that a tuple and a list, a path and its text compare as they are read back.
    return json.loads(json.dumps(whole, default=str))


@dataclass(frozen=True, eq=False)
class Claim:
    """A folder that this process may write a run to.

    Attributes:
        folder: where.
        checkpoint: where the fit keeps the places that its searches have reached.
        done: whether a finished run of the same kind lies there, so that nothing is left to do.
        identity: what the run depends on.
    """

    folder: Path
    checkpoint: Checkpoint
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

    `OSError` if another process holds it, or if a run lies there that must not be lost, or other
    things; `TacitError` if it is no run of the same kind. Input that turns out to be bad inside
    leaves no run behind: there would be nothing to go on with.

    Args:
        folder: of the run; made if need be.
        identity: what the run depends on, from `tacit.folders.runs`.
        resume: go on with a run of the same kind that was interrupted; begin if there is none.
        overwrite: begin again; an older run stays until the new one is whole.
        break_lock: take the folder from a writer on another machine that is surely gone.
        every: seconds between two writes of the checkpoint.
    """
    folder = Path(folder)
    if resume and overwrite:
        raise TacitError("--resume continues a run, --overwrite begins again: choose one")
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder, broken=break_lock):
            done = _begun(folder, identity, resume, overwrite)
            checkpoint = Checkpoint(folder / CHECKPOINT / SEARCHES, every=every)
            try:
                yield Claim(folder, checkpoint, done, identity)
            except (InvalidModel, InvalidDemonstrations):
                _forget(folder)
                raise
            except BROKEN as error:
                if not checkpoint.resumed or isinstance(error, TacitError):
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
    if not (folder / PAGE).exists() and not (folder / CHECKPOINT / SETTINGS).exists():
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
    (folder / CHECKPOINT).mkdir(exist_ok=True)
    write_page(folder / CHECKPOINT / SETTINGS, identity)
    return False


def _held(folder: Path) -> tuple[Page | None, Page | None]:
    """What the finished and the unfinished run in a folder depend on; None where there is none."""
    finished = under_way = None
    if (folder / PAGE).exists():
        finished = read_run_page(folder / PAGE).get("identity", {})
        if not isinstance(finished, dict):
            raise BadFile(f"{folder / PAGE} must say what its run depends on; it does not")
    if (folder / CHECKPOINT / SETTINGS).exists():
        under_way = read_page(folder / CHECKPOINT / SETTINGS)
    return finished, under_way


def _refuse_others(folder: Path) -> None:
    """Raises `FileExistsError` where the folder holds what is no run: it is somebody's."""
    held = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if held == [folder / CHECKPOINT] and held[0].is_dir() and not held[0].is_symlink():
        # What a writer leaves that died before it wrote its settings, or lost them.
        held = [path for path in held[0].iterdir() if not _is_ours(path)]
    if held:
        raise FileExistsError(errno.EEXIST, "the folder holds other things than a run", str(folder))


def _forget(folder: Path) -> None:
    """Removes the checkpoint, its settings last: without them it is none. Nothing of others."""
    place = folder / CHECKPOINT
    if not place.is_dir():
        return
    for path in place.iterdir():
        if _is_ours(path):
            path.unlink()
    (place / SETTINGS).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not empty: somebody keeps other things there
        place.rmdir()


def _is_ours(path: Path) -> bool:
    """Whether a file of a checkpoint is the places of its searches, or what a writer left of it."""
    return path.name == SEARCHES or _REST.fullmatch(path.name) is not None


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
