"""One writer a folder: a lock that names its holder, and is recovered when the holder is gone."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.errors import InvalidDemonstrations, InvalidModel, TacitError
from tacit.files.atomic import PART, read_page, settle, write_bundle, write_page
from tacit.folders.journal import CURRENT, EVERY, JOURNAL, SETTINGS, FolderJournal
from tacit.folders.recoveries import FORMAT, PAGE
from tacit.folders.runs import Run, difference

LOCK = ".lock"
# Another process may remove the file between our opening and locking it; each try is one such.
TRIES = 100


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Inside, nobody else writes to the folder; `OSError` says in one line who does.

    The system drops the lock when its holder dies. Where it has no such locks, or the holder sits
    on another machine, the process number, its start time and the machine in the file decide.
    """
    path = folder / LOCK
    descriptor = _acquired(path)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(_holder()).encode(), 0)
        yield
    finally:
        # While still held: whoever opened the file before finds out that it is gone. Where it
        # cannot be removed, the next one finds that nobody holds it.
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _acquired(path: Path) -> int:
    for _ in range(TRIES):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        try:
            system = _system_lock(descriptor)
            holder = _read(descriptor)
            if system is False or (holder and _lives(holder, locks_work=system is True)):
                who = (
                    f"process {holder.get('pid')} on {holder.get('host')}" if holder else "another"
                )
                raise OSError(
                    f"{path.parent} is being written by {who}; wait for it, or choose another "
                    f"folder (if it is surely gone, delete {path})"
                )
            if _same_file(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise OSError(f"{path} changes hands too often to be locked")


def _system_lock(descriptor: int) -> bool | None:
    """Whether the system gave us the lock; None where it has no locks to give."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _lives(holder: dict[str, Any], *, locks_work: bool) -> bool:
    """Whether the holder named in a lock file may still be writing."""
    if holder.get("host") != platform.node():
        return True  # nobody can tell from here
    if locks_work:
        return False  # it would have kept us from the lock
    started = started_at(int(holder.get("pid", -1)))
    return started is not None and started == holder.get("started")


def _holder() -> dict[str, Any]:
    return {"pid": os.getpid(), "host": platform.node(), "started": started_at(os.getpid())}


def started_at(pid: int) -> str | None:
    """When a process of this machine began, in words of the system; None if there is none."""
    try:
        # The name may hold spaces and brackets: the 22nd field is counted from the last bracket.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[19]
    except (OSError, IndexError):
        pass
    if os.name == "nt" or Path("/proc/self").exists():
        return None
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError):
        return None
    return "unknown"


def _read(descriptor: int) -> dict[str, Any]:
    try:
        found = json.loads(os.pread(descriptor, 4096, 0) or b"{}")
    except ValueError:
        return {}  # a writer that died while it wrote its name
    return found if isinstance(found, dict) else {}


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


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
        identity: what the run depends on, from `tacit.folders.runs`.
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
