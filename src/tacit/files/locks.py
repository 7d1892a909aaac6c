"""One writer a folder: a lock that names its holder and is free when the holder is gone."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = ".lock"
# Seconds to wait: a file that its last holder removes at this moment is made anew.
PATIENCE = 0.1


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Inside, nobody else writes to the folder; `OSError` says in one line who does.

    The system drops the lock when its holder dies. Where the holder sits on another machine, whose
    locks may not be seen from here, the file itself is believed.
    """
    from filelock import FileLock, Timeout

    path = folder / LOCK
    lock = FileLock(path, timeout=PATIENCE, poll_interval=PATIENCE / 5, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise _taken(path, *_holder(path)) from None
    try:
        process, host = _holder(path)
        if host not in ("", platform.node()):
            raise _taken(path, process, host)
        path.write_text(f"{os.getpid()}\n{platform.node()}\n", encoding="utf-8")
        try:
            yield
        finally:
            # While still held: whoever opened the file before finds out that it is gone. Where it
            # cannot be removed, the next one finds that nobody holds it.
            with contextlib.suppress(OSError):
                path.unlink()
    finally:
        lock.release()


def _holder(path: Path) -> tuple[str, str]:
    """(process number, machine) in a lock file; empty where it does not say."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return "", ""
    return (lines[0], lines[1]) if len(lines) > 1 else ("", "")


def _taken(path: Path, process: str, host: str) -> OSError:
    who = f"process {process} on {host}" if process else "another process"
    return OSError(
        f"{path.parent} is being written by {who}; wait for it, or choose another folder "
        f"(if it is surely gone, delete {path})"
    )
