"""One writer a folder: a lock that names its holder, and is recovered when the holder is gone."""

from __future__ import annotations

import contextlib
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
