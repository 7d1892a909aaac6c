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
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from tacit.errors import TacitError


class BadFile(TacitError, OSError):
    """A file that can be read and cannot be what it claims to be: bad input, not a failing disk."""


# Names the variable of the environment that says how many bytes a file may take in memory.
LIMIT = "TACIT_LARGEST"
# Most bytes of a page, which is for people, and of what is read of a lock.
LARGEST_PAGE, LARGEST_LOCK = 2**26, 2**12


def largest_allowed() -> int:
    """Most bytes that a file may take: what was asked for, or half of the memory, 8 GiB at most."""
    asked = os.environ.get(LIMIT, "")
    if asked.isdecimal():
        return int(asked)
    try:
        return min(2**33, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
    except (AttributeError, ValueError, OSError):  # a system that does not tell
        return 2**33


# What a JSON file for people holds, by name.
Page = dict[str, Any]
# The ending of a file that is being written; what a killed process leaves has it, too.
PART = ".part"
# What this process is writing at the moment, and the locks that it holds.
UNDER_WAY: set[Path] = set()


def remove_unfinished() -> None:
    """Removes what this process is writing: for one that ends at once, whatever else it does."""
    for path in tuple(UNDER_WAY):
        with contextlib.suppress(OSError):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def unfinished(path: Path) -> Iterator[None]:
    """Inside, the path is one that `remove_unfinished` removes."""
    UNDER_WAY.add(path)
    try:
        yield
    finally:
        UNDER_WAY.discard(path)


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Writes the file so that a full disk or a crash never leaves half of it under its name.

    What it is written to first is made anew, under a name that nobody can foresee: in a folder that
    others write to, a link that waits there would be followed.
    """
    temporary, ours = beside_for_now(path), False
    try:
        descriptor = os.open(temporary, _ANEW, 0o666)
        ours = True
        with unfinished(temporary):
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
            if ours:
                temporary.unlink()
        if not isinstance(error, OSError):
            raise
        # Say the name that was asked for: the error has the temporary one, or none.
        if error.errno is None:
            raise OSError(f"{path} cannot be written: {error}") from None
        raise OSError(error.errno, error.strerror, str(path)) from None


def beside_for_now(path: Path) -> Path:
    """A name for what will have this one when it is whole."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}{PART}")


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


_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_ANEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | getattr(os, "O_BINARY", 0)


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
    folder: Path,
    page: str,
    content: Page,
    files: Mapping[str, Callable[[Path], object]],
    *,
    known: Collection[str],
) -> None:
    """Writes files and the page that names them, all or nothing.

    Args:
        folder: where; made if need be.
        page: the name of the page, a JSON file.
        content: what the page says beside the checksums of the files.
        files: name -> a function that writes the file at the path it is given.
        known: all names that a file of such a bundle may have; nothing else is ever touched.
    """
    assert {*files} <= {*known}, "a file of a bundle has another name"
    folder.mkdir(parents=True, exist_ok=True)
    settle(folder, page, known)
    sums: dict[str, str] = {}
    before = _named(folder / page, known)
    try:
        for name, write in files.items():
            write(_beside(folder / name))
            sums[name] = _checksum(_beside(folder / name))
        write_page(folder / page, {**content, "files": sums})
    finally:
        # After a failure the page on the disk, whichever it is, says which files are right.
        settle(folder, page, known)
    for name in before.keys() - sums.keys():
        (folder / name).unlink(missing_ok=True)


def settle(folder: Path, page: str, known: Collection[str]) -> None:
    """Finishes what a writer left: names the files that the page means, removes what it does not.

    `BadFile`, with nothing touched, where the page means files that are none of a bundle.

    Args:
        folder: of the bundle.
        page: the name of its page.
        known: all names that a file of such a bundle may have.
    """
    meant = _named(folder / page, known)
    for name in known:
        for path in (folder / name, _beside(folder / name)):
            check_plain(path)
    for name in known:
        beside = _beside(folder / name)
        if not beside.exists():
            continue
        if meant.get(name) == _checksum(beside):
            os.replace(beside, folder / name)
        else:
            beside.unlink()
    for name in {page, *known}:
        for pattern in (f".{name}.*{PART}", f"..{name}{NEXT}.*{PART}"):
            for path in folder.glob(pattern):
                path.unlink(missing_ok=True)
    sync_folder(folder)


def check_plain(path: Path) -> None:
    """Raises `BadFile` where the name is taken by a link, a folder or a device."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        kind = "a link" if stat.S_ISLNK(mode) else "a folder or a device"
        raise BadFile(f"{path} must be a plain file; it is {kind}, and nothing was touched")


def check_folder(path: Path) -> None:
    """Raises `BadFile` where the name of a folder is taken by a link: it leads elsewhere."""
    if path.is_symlink():
        raise BadFile(f"{path} must be a folder; it is a link, and nothing was touched")


def manifest(path: Path, page: Page, known: Collection[str]) -> dict[str, str]:
    """Name -> checksum of the files that a page means; `BadFile` unless they may be its files.

    Args:
        path: of the page, for the message.
        page: what it says.
        known: all names that its files may have.
    """
    files = page.get("files")
    if not isinstance(files, dict):
        raise BadFile(f"{path} must list the files of the run; it does not")
    for name, total in files.items():
        if name not in known:
            raise BadFile(
                f"{path} may name {', '.join(known)}; it names {name!r:.60}, and nothing was "
                "touched: choose another folder"
            )
        if not isinstance(total, str) or not re.fullmatch("[0-9a-f]{64}", total):
            raise BadFile(f"{path} must hold the SHA-256 of {name}; it holds {total!r:.40}")
    return files


def member(folder: Path, page: Page, name: str) -> Path:
    """Where the file that the page means lies; `OSError` if it is not there, or has changed."""
    beside, total = _beside(folder / name), page["files"].get(name)
    for path in (beside, folder / name):
        check_plain(path)
    if total is None:
        raise OSError(f"{folder} has no {name}")
    with contextlib.suppress(FileNotFoundError):
        if _checksum(beside) == total:
            return beside
    path = folder / name
    if _checksum(path) != total:
        raise OSError(f"{path} is damaged or of another run: it has changed since saving")
    return path


def _checksum(path: Path) -> str:
    if (size := path.stat().st_size) > largest_allowed():
        raise BadFile(f"{path} has {size:,} bytes: set {LIMIT} to more if it is meant to be so")
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_page(path: Path, content: Page, *, strict: bool = True) -> None:
    """Writes a JSON file that holds the checksum of its own text.

    It is for people, too, or, where not `strict`, one line that may hold NaN as Python writes it.
    """
    page, indent = {**content, "checksum": BLANK}, 2 if strict else None
    text = json.dumps(page, indent=indent, allow_nan=not strict, ensure_ascii=False) + "\n"
    total = hashlib.sha256(text.encode()).hexdigest()
    at = text.rindex(BLANK)
    write_bytes(path, (text[:at] + total + text[at + len(BLANK) :]).encode())


def read_page(path: Path, *, form: int | None = None) -> Page:
    """The content of a page; `OSError` if it is none, of another `form`, or has changed."""
    check_plain(path)  # a pipe would be waited for, a device be read for ever
    with open(path, "rb") as file:
        raw = file.read(LARGEST_PAGE + 1)
    if len(raw) > LARGEST_PAGE:
        raise BadFile(f"{path} is no page of a run: it has more than {LARGEST_PAGE:,} bytes")
    try:
        page = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
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


def _named(page: Path, known: Collection[str]) -> dict[str, str]:
    """What the page's `manifest` says; nothing if it cannot be read."""
    try:
        content = read_page(page)
    except OSError:
        return {}
    return manifest(page, content, known) if "files" in content else {}


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}{NEXT}")


LOCK = ".lock"
# Seconds to wait: a file that its last holder removes at this moment is made anew.
PATIENCE = 0.1


@contextmanager
def locked(folder: Path, *, broken: bool = False) -> Iterator[None]:
    """Inside, nobody else writes to the folder; `OSError` says in one line who does.

    The system drops the lock when its holder dies. Where the holder sits on another machine, whose
    locks may not be seen from here, the file itself is believed.

    Args:
        folder: to be written to.
        broken: whether not to believe a holder on another machine: somebody knows that it is gone.
    """
    from filelock import FileLock, Timeout

    path = folder / LOCK
    check_plain(path)
    if broken and _holder(path)[1] not in ("", platform.node()):
        path.unlink(missing_ok=True)
    lock = FileLock(path, timeout=PATIENCE, poll_interval=PATIENCE / 5, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise _taken(path, *_holder(path)) from None
    try:
        process, host = _holder(path)
        if host not in ("", platform.node()):
            raise _taken(path, process, host)
        try:
            with unfinished(path):
                descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | _NO_FOLLOW)
                try:
                    os.write(descriptor, f"{os.getpid()}\n{platform.node()}\n".encode())
                finally:
                    os.close(descriptor)
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
        with open(path, encoding="utf-8") as file:
            lines = file.read(LARGEST_LOCK).splitlines()
    except (OSError, ValueError):
        return "", ""
    return (lines[0], lines[1]) if len(lines) > 1 else ("", "")


def _taken(path: Path, process: str, host: str) -> OSError:
    who = f"process {process:.20} on {host:.60}" if process else "another process"
    cure = "" if host in ("", platform.node()) else "; if it is surely gone, give --break-lock"
    return OSError(
        f"{path.parent} is being written by {who}: wait for it, or choose another folder{cure}"
    )
