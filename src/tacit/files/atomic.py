"""One file: what it is by its first bytes, written whole or not at all, by one writer at a time.

A wrong file is named before anything tries to read it. A new one is written under another name,
flushed to the disk, then renamed. A page, which is for people, too, holds the checksum of its own
text. A lock names its holder.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tacit.errors import InvalidModel, TacitError


class BadFile(TacitError, OSError):
    """A file that can be read and cannot be what it claims to be: bad input, not a failing disk."""


@contextmanager
def naming(place: object, kind: type[TacitError] = InvalidModel) -> Iterator[None]:
    """Inside, an error of this kind is told with its place, such as a file, in front."""
    try:
        yield
    except kind as error:
        raise type(error)(f"{place}: {error}") from None


# Names the variable of the environment that says how many bytes a file may take in memory.
LIMIT = "TACIT_LARGEST"


def largest_allowed() -> int:
    """Most bytes that a file may take: what was asked for, or half of the memory, 8 GiB at most."""
    asked = os.environ.get(LIMIT, "")
    if asked.isdecimal():
        return int(asked)
    try:
        return min(2**33, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
    except (AttributeError, ValueError, OSError):  # a system that does not tell
        return 2**33


# Files are read into memory: what would need more than this is refused unless asked for.
LARGEST = largest_allowed()
SIGNATURES = (
    (b"PAR1", "Parquet"),
    (b"PK\x03\x04", "a zip archive (npz or a spreadsheet, perhaps: save that as CSV)"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"\x93NUMPY", "a single NumPy array (npy)"),
    (b"\x89HDF", "HDF5"),
    (b"ARROW1", "Arrow"),
    (b"\x1f\x8b", "compressed (gzip): unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed (zstd): unpack it first"),
    (b"BZh", "compressed (bzip2): unpack it first"),
    (b"\xfd7zXZ", "compressed (xz): unpack it first"),
    (b"\xff\xfe", "UTF-16 text: save it as UTF-8 (spreadsheets call it CSV UTF-8)"),
    (b"\xfe\xff", "UTF-16 text: save it as UTF-8 (spreadsheets call it CSV UTF-8)"),
    (b"SQLite", "an SQLite database"),
)
PICKLE = "a pickle, which is never loaded since it could run any code"


def known_format(head: bytes) -> str:
    """What the first bytes say that the file is, in words; "" where they say nothing."""
    if re.match(rb"\x80[\x02-\x05]", head):
        return PICKLE
    return next((words for start, words in SIGNATURES if head.startswith(start)), "")


def read_head(path: Path, wanted: str, *, largest: int = LARGEST) -> bytes:
    """The first 16 bytes of a file; `OSError` where it is none, too large, or a pickle.

    Args:
        path: of the file.
        wanted: what it should be, for messages.
        largest: most bytes that it may have.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected {wanted}")
    if path.exists() and not path.is_file():  # reading might wait, or go on, for ever
        raise OSError(f"{path} is a pipe or a device; expected {wanted}, in a file")
    with open(path, "rb") as file:
        head = file.read(16)
    if path.suffix in (".pkl", ".pickle") or known_format(head) == PICKLE:
        raise OSError(f"{path} is {PICKLE}; expected {wanted}")
    check_size(path, path.stat().st_size, largest)
    return head


def check_text(path: Path, wanted: str, *, largest: int = LARGEST) -> None:
    """Raises `OSError` unless the file may be text."""
    if what := known_format(read_head(path, wanted, largest=largest)):
        raise OSError(f"{path} must be {wanted}; it is {what}")


def check_size(path: Path, size: int, largest: int) -> None:
    """Raises `BadFile` where reading the file would take more bytes than allowed."""
    if size > largest:
        raise BadFile(
            f"{path} would take {size:,} bytes of memory, more than the {largest:,} allowed: "
            f"raise `largest`, or set {LIMIT} to more bytes, if it is meant to be that large"
        )


# What a terminal would obey instead of showing: controls, and marks that turn the writing round.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """The text with all that a terminal or a page would obey written as an escape."""
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


# The ending of a file that is being written; what a killed process leaves has it, too.
PART = ".part"


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


Made = TypeVar("Made")
_ANEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


@contextmanager
def _whole_or_none(path: Path, make: Callable[[Path], Made]) -> Iterator[tuple[Path, Made]]:
    """Inside, what `make` made beside this path; it gets the name at the end, or is removed."""
    temporary, ours = beside_for_now(path), False
    try:
        made = make(temporary)
        ours = True
        yield temporary, made
        os.replace(temporary, path)
        sync_folder(path.parent)
    except BaseException as error:
        if ours:
            _remove(temporary)
        if not isinstance(error, OSError) or error.errno is None:
            raise
        # Say the name that was asked for: the error has the temporary one, or none.
        name = str(error.filename or path).replace(str(temporary), str(path))
        raise type(error)(error.errno, error.strerror, name) from None


def write_bytes(path: Path, content: bytes | bytearray | memoryview) -> None:
    """Writes the file so that a full disk or a crash never leaves half of it under its name."""
    with _whole_or_none(path, lambda name: os.open(name, _ANEW, 0o666)) as (_, descriptor):
        try:
            rest = memoryview(content)
            while rest:  # the system may take a part of it
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        finally:
            # A full disk may show only here: it must stop the renaming too.
            os.close(descriptor)


def beside_for_now(path: Path) -> Path:
    """A name for what will have this one when it is whole."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}{PART}")


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


# What a JSON file for people holds, by name.
Page = dict[str, Any]
BLANK = "0" * 64


def write_page(path: Path, content: Page, *, strict: bool = True) -> None:
    """Writes a JSON file that holds the checksum of its own text.

    It is for people, too, or, where not `strict`, one line that may hold NaN as Python writes it.
    """
    page, indent = {**content, "checksum": BLANK}, 2 if strict else None
    text = json.dumps(page, indent=indent, allow_nan=not strict, ensure_ascii=False) + "\n"
    total = hashlib.sha256(text.encode()).hexdigest()
    at = text.rindex(BLANK)
    write_bytes(path, (text[:at] + total + text[at + len(BLANK) :]).encode())


def read_page(path: Path) -> Page:
    """The content of a page; `OSError` if it is none, or has changed."""
    raw = path.read_bytes()
    try:
        page = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise OSError(f"{path} is no page of a run: {error}") from None
    if not isinstance(page, dict):
        raise OSError(f"{path} is no page of a run: it holds no names")
    total = page.pop("checksum", None)
    if not isinstance(total, str) or len(total) != len(BLANK) or raw.count(total.encode()) != 1:
        raise OSError(f"{path} is damaged: it has lost its checksum")
    blank = raw.replace(total.encode(), BLANK.encode())
    if hashlib.sha256(blank).hexdigest() != total:
        raise OSError(f"{path} is damaged: it has changed since it was written")
    return page


def file_checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
            path.write_text(f"{os.getpid()}\n{platform.node()}\n", encoding="utf-8")
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
    who = f"process {process:.20} on {host:.60}" if process else "another process"
    cure = "" if host in ("", platform.node()) else "; if it is surely gone, give --break-lock"
    return OSError(
        f"{path.parent} is being written by {who}: wait for it, or choose another folder{cure}"
    )


def write_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Makes the folder with what `write` puts into it, or leaves nothing behind."""
    refuse_taken(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # A sibling, so that the last step is a rename within one file system.
    with _whole_or_none(folder, Path.mkdir) as (temporary, _):
        write(temporary)


def refuse_taken(folder: Path) -> None:
    """Raises `FileExistsError` where something is there already that would be lost."""
    if folder.is_dir():
        if any(folder.iterdir()):
            raise FileExistsError(errno.EEXIST, "the folder is not empty", str(folder))
    elif folder.exists():
        raise FileExistsError(errno.EEXIST, "a file has the name of the folder", str(folder))
