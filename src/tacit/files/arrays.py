"""Arrays in one npz file, sealed by checksums that travel in it; whoever wrote it, none is pickled.

One flipped byte is silent in most formats. The checksums of arrays travel in their archive, as the
entry `checksums`; one made elsewhere, without them, is read as it is.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import math
import os
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from tacit.files.atomic import (
    LARGEST,
    LIMIT,
    BadFile,
    check_size,
    known_format,
    read_head,
    write_bytes,
)

# What content raises that is sealed and is no such thing as it should be.
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


# What damaged archives and headers raise, in the standard library and in NumPy.
DAMAGE = (
    *BROKEN,
    SyntaxError,
    RuntimeError,
    EOFError,
    OSError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
)
# Times its own size that a file may unpack to, where that is more than so many bytes: honest
# tables stay far below, and what is made to fill the memory lies far above.
PACKED, SPARED = 100, 2**28
SUMS = "checksums"


def checksum(array: np.ndarray) -> str:
    """SHA-256 of the array's type, shape and bytes."""
    array = np.ascontiguousarray(array)
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
    digest.update(array.tobytes())
    return digest.hexdigest()


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes the arrays and their checksums as one npz file."""
    sums = json.dumps({name: checksum(array) for name, array in arrays.items()})
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays, **{SUMS: np.array(sums)})
    write_bytes(path, buffer.getbuffer())


def check_unpacked(path: Path, size: int, largest: int) -> None:
    """Raises `BadFile` where a file declares more than is allowed, or than its size may hold."""
    check_size(path, size, largest)
    there = path.stat().st_size
    if size > max(SPARED, PACKED * there) and not os.environ.get(LIMIT, "").isdecimal():
        raise BadFile(
            f"{path} has {there:,} bytes and declares {size:,}, more than {PACKED} times as many: "
            f"set {LIMIT} to that many bytes if it is meant to be so"
        )


def read_arrays(path: Path, *, largest: int = LARGEST) -> dict[str, np.ndarray]:
    """The arrays of an npz file; `OSError` if it cannot be read or an array has changed.

    Args:
        path: of the file.
        largest: most bytes that it may unpack to; more is refused before anything is unpacked.
    """
    path = Path(path)
    head = read_head(path, "an npz archive", largest=largest)
    if not head.startswith(b"PK"):
        found = known_format(head) if head else "an empty file"
        raise OSError(
            f"{path} holds no arrays that can be read: no npz archive{found and f' but {found}'}"
        )
    with open(path, "rb") as file:
        with _damage_told(path):
            archive = zipfile.ZipFile(file)
            sizes = sum(entry.file_size for entry in archive.infolist())
        if len(set(archive.namelist())) < len(archive.infolist()):
            raise BadFile(f"{path} must hold each array once; it holds two of the same name")
        check_unpacked(path, sizes, largest)
        with _damage_told(path):
            arrays = {
                entry.filename.removesuffix(".npy"): _array(archive.read(entry))
                for entry in archive.infolist()
            }
    return _verified(path, arrays)


@contextmanager
def _damage_told(path: Path) -> Iterator[None]:
    """Inside, what a damaged archive raises becomes one line of `OSError`."""
    try:
        yield
    except DAMAGE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise OSError(f"{path} holds no arrays that can be read: {reason:.120}") from None


def _array(content: bytes) -> np.ndarray:
    """The array of one npy entry. The header is believed only where the bytes are there."""
    stream = io.BytesIO(content)
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    with warnings.catch_warnings():
        # A damaged header may be odd Python: that is an error below, not a warning.
        warnings.simplefilter("ignore")
        shape, fortran, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, a pickle, which are never loaded")
    start = stream.tell()
    count = math.prod(shape)
    if count * dtype.itemsize != len(content) - start:
        raise ValueError(
            f"an array of shape {shape} and type {dtype} does not fit "
            f"the {len(content) - start} bytes that are there"
        )
    if count == 0:
        return np.zeros(shape, dtype)
    flat = np.frombuffer(content, dtype, count, start)
    return np.array(flat.reshape(shape, order="F" if fortran else "C"))


def _verified(path: Path, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays without their checksums; `OSError` where one does not agree."""
    sums = arrays.pop(SUMS, None)
    if sums is None:
        return arrays
    try:
        expected = dict(json.loads(str(sums)))
    except (ValueError, TypeError, RecursionError):
        raise OSError(f"{path} is damaged: its checksums cannot be read") from None
    for name, value in expected.items():
        if name not in arrays or checksum(arrays[name]) != value:
            raise OSError(f"{path} is damaged: {name} has changed since it was written")
    return arrays
