"""Named arrays in one npz file, each with a checksum that is verified on reading.

One flipped byte is silent in most formats: the checksums travel in the file itself, as the entry
`checksums`, and an archive made elsewhere, without them, is read as it is.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tacit.files.atomic import write_atomically

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
    write_atomically(path, lambda file: file.write(buffer.getvalue()))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an npz file; `OSError` if it cannot be read or an array has changed."""
    try:
        # From memory: NumPy would leave a damaged file open.
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
            if not hasattr(archive, "files"):
                raise OSError(f"{path} must be an npz archive of named arrays")
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, zipfile.BadZipFile, EOFError, KeyError, AttributeError) as error:
        # NumPy calls any unknown content "pickled data": say what it means.
        reason = "no npz archive" if "pickle" in str(error) else str(error)
        raise OSError(f"{path} holds no arrays that can be read: {reason}") from None
    sums = arrays.pop(SUMS, None)
    if sums is not None:
        for name, expected in json.loads(str(sums)).items():
            if name not in arrays or checksum(arrays[name]) != expected:
                raise OSError(f"{path} is damaged: {name} has changed since it was written")
    return arrays
