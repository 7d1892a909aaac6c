"""Taking a folder for a run: one writer, the same data and settings, or one line why not."""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.errors import InvalidDemonstrations, InvalidModel, TacitError
from tacit.files.atomic import PART
from tacit.files.bundle import read_page, settle, write_bundle, write_page
from tacit.inverse.storage import FORMAT, PAGE
from tacit.runs.identity import difference
from tacit.runs.journal import CURRENT, EVERY, JOURNAL, SETTINGS, FolderJournal
from tacit.runs.lock import locked
from tacit.runs.run import Run


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
    identity: Mapping[str, Any]

    def finish(self, run: Run) -> None:
        """Writes the run, all or nothing, and forgets the way to it."""
        page, files = run.contents()
        write_bundle(self.folder, PAGE, {**page, "identity": self.identity}, files)
        _forget(self.folder)


@contextmanager
def claimed(
    folder: str | Path,
    identity: Mapping[str, Any],
    *,
    resume: bool = False,
    overwrite: bool = False,
    every: float = EVERY,
) -> Iterator[Claim]:
    """A `Claim` on the folder, held inside.

    `OSError` if another process holds it, or something else than a run lies there; `TacitError` if
    a run lies there that must not be lost, or one that cannot be gone on with. Input that turns
    out to be bad inside leaves no run behind: there would be nothing to go on with.

    Args:
        folder: of the run; made if need be.
        identity: what the run depends on, from `tacit.runs.identity`.
        resume: go on with a run of the same kind that was interrupted; begin if there is none.
        overwrite: begin again; an older run stays until the new one is whole.
        every: seconds between two writes of the journal.
    """
    folder = Path(folder)
    if resume and overwrite:
        raise TacitError("go on with a run, or begin again: --resume and --overwrite exclude")
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder):
            done = _begun(folder, identity, resume, overwrite)
            try:
                yield Claim(folder, FolderJournal(folder / JOURNAL, every=every), done, identity)
            except (InvalidModel, InvalidDemonstrations):
                _forget(folder)
                raise
    except (InvalidModel, InvalidDemonstrations):
        if new:
            with contextlib.suppress(OSError):  # somebody else put something there meanwhile
                folder.rmdir()
        raise


def _begun(folder: Path, identity: Mapping[str, Any], resume: bool, overwrite: bool) -> bool:
    """Makes a folder ready for the run; whether a finished run of the same kind lies there."""
    if not (folder / PAGE).exists() and not (folder / JOURNAL / SETTINGS).exists():
        _refuse_others(folder)
    # Who begins again need not be able to read what was there.
    finished, under_way = (None, None) if overwrite else _held(folder)
    held = finished if under_way is None else under_way
    if held is not None and not resume:
        what = "a run" if under_way is None else "an unfinished run"
        raise TacitError(
            f"{folder} holds {what}: --resume goes on with it, --overwrite begins again"
        )
    if held is not None and (other := difference(folder, held, identity)) is not None:
        raise TacitError(other)
    settle(folder, PAGE)
    if not resume or under_way is None:
        _forget(folder)
    if resume and finished is not None and under_way is None:
        return True
    (folder / JOURNAL).mkdir(exist_ok=True)
    write_page(folder / JOURNAL / SETTINGS, identity)
    return False


def _held(folder: Path) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """What the finished and the unfinished run in a folder depend on; None where there is none."""
    finished = under_way = None
    if (folder / PAGE).exists():
        finished = read_page(folder / PAGE, form=FORMAT).get("identity", {})
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


# The stages of a run are numbered; a file under way has the name of its writer's process.
_STAGE = re.compile(rf"[0-9A-Za-z-]+-\d+\.npz|\..+\.\d+{re.escape(PART)}")
