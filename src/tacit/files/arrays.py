"""Named arrays in one npz file, each with a checksum that is verified on reading.

One flipped byte is silent in most formats: the checksums travel in the file itself, as the entry
`checksums`, and an archive made elsewhere, without them, is read as it is.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import math
import struct
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from tacit.files.atomic import write_atomically
from tacit.files.contents import LARGEST, check_size, opening, recognised

SUMS = "checksums"

# What damaged archives and headers raise, in the standard library and in NumPy.
DAMAGE = (
    ValueError,
    TypeError,
    SyntaxError,
    LookupError,
    AttributeError,
    RuntimeError,
    ArithmeticError,
    MemoryError,
    EOFError,
    OSError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
)


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
    write_atomically(path, lambda file: file.write(buffer.getbuffer()))


def read_arrays(path: Path, *, largest: int = LARGEST) -> dict[str, np.ndarray]:
    """The arrays of an npz file; `OSError` if it cannot be read or an array has changed.

    Args:
        path: of the file.
        largest: most bytes that it may unpack to; more is refused before anything is unpacked.
    """
    path = Path(path)
    head = opening(path, "an npz archive", largest=largest)
    if not head.startswith(b"PK"):
        found = recognised(head) if head else "an empty file"
        raise OSError(
            f"{path} holds no arrays that can be read: no npz archive{found and f' but {found}'}"
        )
    with open(path, "rb") as file:
        try:
            archive = zipfile.ZipFile(file)
            sizes = sum(entry.file_size for entry in archive.infolist())
        except DAMAGE as error:
            raise _unreadable(path, error) from None
        check_size(path, sizes, largest)
        try:
            arrays = {
                entry.filename.removesuffix(".npy"): _array(archive.read(entry))
                for entry in archive.infolist()
            }
        except DAMAGE as error:
            raise _unreadable(path, error) from None
    return _verified(path, arrays)


def _unreadable(path: Path, error: BaseException) -> OSError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return OSError(f"{path} holds no arrays that can be read: {reason:.120}")


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
    except (ValueError, TypeError):
        raise OSError(f"{path} is damaged: its checksums cannot be read") from None
    for name, value in expected.items():
        if name not in arrays or checksum(arrays[name]) != value:
            raise OSError(f"{path} is damaged: {name} has changed since it was written")
    return arrays
