"""Whole files or none: written under another name, flushed to the disk, then renamed."""

from __future__ import annotations

import contextlib
import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

# The ending of a file that is being written; what a killed process leaves has it, too.
PART = ".part"


def write_atomically(path: Path, write: Callable[[BinaryIO], Any]) -> None:
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
