"""Arrays in one npz file, never pickled; the checksums of zip notice a changed byte."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tacit.files.atomic import (
    LARGEST,
    BadFile,
    check_size,
    known_format,
    read_head,
    write_bytes,
)

# What content raises that is whole and is no such thing as it should be.
BROKEN = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    ImportError,
    RecursionError,
    MemoryError,
)


def checksum(array: np.ndarray) -> str:
    """SHA-256 of the array's type, shape and bytes."""
    array = np.ascontiguousarray(array)
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
    digest.update(array.tobytes())
    return digest.hexdigest()


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes the arrays as one npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    write_bytes(path, buffer.getbuffer())


def read_arrays(path: Path, *, largest: int = LARGEST) -> dict[str, np.ndarray]:
    """The arrays of an npz file; `OSError` if it cannot be read or has changed.

    Args:
        path: of the file.
        largest: most bytes that it may unpack to; more is refused before anything is unpacked.
    """
    path = Path(path)
    head = read_head(path, "an npz archive", largest=largest)
    if not head.startswith(b"PK"):
        what = known_format(head) if head else "an empty file"
        raise OSError(
            f"{path} holds no arrays that can be read: no npz archive{what and f' but {what}'}"
        )
    try:
        with zipfile.ZipFile(path) as archive:
            check_size(path, sum(entry.file_size for entry in archive.infolist()), largest)
            # Whole, and so compared with their checksums, before their headers are believed.
            entries = {name: archive.read(name) for name in archive.namelist()}
        return {name.removesuffix(".npy"): _array(entry) for name, entry in entries.items()}
    except BadFile:
        raise
    except Exception as error:  # zipfile, zlib, struct and NumPy each have errors of their own
        reason = " ".join(str(error).split()) or type(error).__name__
        raise OSError(f"{path} holds no arrays that can be read: {reason:.120}") from None


def _array(entry: bytes) -> np.ndarray:
    return np.lib.format.read_array(io.BytesIO(entry), allow_pickle=False)
