"""Whole files or none, one writer a folder.

A file is written under another name, flushed to the disk, then renamed; several that belong
together are found all old or all new; a lock names its holder.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

# What a JSON file for people holds, by name.
Page = dict[str, Any]
# The ending of a file that is being written; what a killed process leaves has it, too.
PART = ".part"


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Writes the file so that a full disk or a crash never leaves half of it under its name."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}{PART}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY, 0o666)
        try:
            with io.BufferedWriter(_Descriptor(descriptor), 1 << 20) as file:
                write(file)  # type: ignore[arg-type]
            os.fsync(descriptor)
        finally:
            # A full disk may show only here: it must stop the renaming too.
            os.close(descriptor)
        os.replace(temporary, path)
        sync_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if not isinstance(error, OSError):
            raise
        # Say the name that was asked for: the error has the temporary one, or none.
        if error.errno is None:
            raise OSError(f"{path} cannot be written: {error}") from None
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_bytes(path: Path, content: bytes) -> None:
    """Writes these bytes, whole or not at all."""
    write_atomically(path, lambda file: file.write(content))


def sync_folder(folder: Path) -> None:
    """Flushes the names in a folder to the disk, where the system can."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems cannot flush a folder; that is no failure of the writing.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


_BINARY = getattr(os, "O_BINARY", 0)


class _Descriptor(io.RawIOBase):
    """An open file that shows no descriptor: engines that ask for one would write past us."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return os.write(self._descriptor, data)


NEXT = ".next"
BLANK = "0" * 64


def write_bundle(
    folder: Path, page: str, content: Page, files: Mapping[str, Callable[[Path], object]]
) -> None:
    """Writes files and the page that names them, all or nothing.

    Args:
        folder: where; made if need be.
        page: the name of the page, a JSON file.
        content: what the page says beside the checksums of the files.
        files: name -> a function that writes the file at the path it is given.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settle(folder, page, files)
    sums: dict[str, str] = {}
    before = _named(folder / page)
    try:
        for name, write in files.items():
            write(_beside(folder / name))
            sums[name] = hashlib.sha256(_beside(folder / name).read_bytes()).hexdigest()
        write_page(folder / page, {**content, "files": sums})
    finally:
        # After a failure the page on the disk, whichever it is, says which files are right.
        settle(folder, page, files)
    for name in before.keys() - sums.keys():
        (folder / name).unlink(missing_ok=True)


def settle(folder: Path, page: str, names: Iterable[str] = ()) -> None:
    """Finishes what a writer left: names the files that the page means, removes what it does not.

    Args:
        folder: of the bundle.
        page: the name of its page.
        names: of files that a writer may have left, beside those of the page.
    """
    meant = _named(folder / page)
    for name in {*meant, *names}:
        beside = _beside(folder / name)
        if not beside.exists():
            continue
        if meant.get(name) == hashlib.sha256(beside.read_bytes()).hexdigest():
            os.replace(beside, folder / name)
        else:
            beside.unlink()
    for name in {page, *meant, *names}:
        for pattern in (f".{name}.*{PART}", f"..{name}{NEXT}.*{PART}"):
            for path in folder.glob(pattern):
                path.unlink(missing_ok=True)
    sync_folder(folder)


def member(folder: Path, page: Page, name: str) -> Path:
    """Where the file that the page means lies, damaged or not; `OSError` if it is not there."""
    beside = _beside(folder / name)
    with contextlib.suppress(FileNotFoundError):
        if hashlib.sha256(beside.read_bytes()).hexdigest() == page["files"].get(name):
            return beside
    if name not in page["files"]:
        raise OSError(f"{folder} has no {name}")
    return folder / name


def verify(path: Path, page: Page, name: str) -> None:
    """`OSError` unless the file holds what it held when the page was written."""
    if hashlib.sha256(path.read_bytes()).hexdigest() != page["files"][name]:
        raise OSError(f"{path} is damaged or of another run: it has changed since saving")


def write_page(path: Path, content: Page) -> None:
    """Writes a JSON file that holds the checksum of its own text."""
    page = {**content, "checksum": BLANK}
    text = json.dumps(page, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    total = hashlib.sha256(text.encode()).hexdigest()
    at = text.rindex(BLANK)
    write_bytes(path, (text[:at] + total + text[at + len(BLANK) :]).encode())


def read_page(path: Path, *, form: int | None = None) -> Page:
    """The content of a page; `OSError` if it is none, of another `form`, or has changed."""
    raw = path.read_bytes()
    try:
        page = json.loads(raw.decode("utf-8"))
    except ValueError as error:
        raise OSError(f"{path} is no page of a run: {error}") from None
    if not isinstance(page, dict) or (form is not None and page.get("format") != form):
        raise OSError(f"{path} is no page of a run in format {form}")
    total = page.pop("checksum", None)
    if not isinstance(total, str) or len(total) != len(BLANK) or raw.count(total.encode()) != 1:
        raise OSError(f"{path} is damaged: it has lost its checksum")
    blank = raw.replace(total.encode(), BLANK.encode())
    if hashlib.sha256(blank).hexdigest() != total:
        raise OSError(f"{path} is damaged: it has changed since it was written")
    return page


def _named(page: Path) -> dict[str, str]:
    """Name -> checksum of the files that a page means; none if it cannot be read."""
    with contextlib.suppress(OSError):
        return read_page(page).get("files", {})
    return {}


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}{NEXT}")


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
