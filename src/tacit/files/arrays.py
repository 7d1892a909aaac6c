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
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

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


SKELETON = "skeleton"
# Arrays up to this size are written among the words: a file of a thousand tiny entries is slow.
SMALL = 64


def pack(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a tree, numbered, and its `skeleton` as text."""
    arrays: list[np.ndarray] = []
    skeleton = json.dumps(_packed(tree, arrays))
    return {str(i): array for i, array in enumerate(arrays)} | {SKELETON: np.array(skeleton)}


def unpack(arrays: Mapping[str, np.ndarray], kinds: Sequence[type] = ()) -> Any:
    """The tree of these arrays; `kinds` are the classes that it may hold."""
    known = {kind.__name__: kind for kind in kinds}
    return _unpacked(json.loads(str(arrays[SKELETON])), arrays, known)


def digest(tree: Any) -> str:
    """SHA-256 of everything a tree holds."""
    found = hashlib.sha256()
    for name, array in pack(tree).items():
        found.update(f"{name} {checksum(array)} ".encode())
    return found.hexdigest()


def _packed(tree: Any, arrays: list[np.ndarray]) -> Any:
    match tree:
        case Enum():
            return {"kind": type(tree).__name__, "member": tree.name}
        case None | bool() | str():
            return {"value": tree}
        case int() | float() if not isinstance(tree, np.generic):
            return {"value": tree}
        case np.ndarray() | np.generic():
            return _packed_array(tree, arrays)
        case dict():
            assert all(isinstance(name, str) for name in tree), "names must be text"
            return {"dict": {name: _packed(part, arrays) for name, part in tree.items()}}
        case tuple() if hasattr(tree, "_fields"):
            parts = {name: _packed(getattr(tree, name), arrays) for name in tree._fields}  # type: ignore[attr-defined]
            return {"kind": type(tree).__name__, "fields": parts}
        case tuple() | list():
            name = "tuple" if isinstance(tree, tuple) else "list"
            return {name: [_packed(part, arrays) for part in tree]}
    assert is_dataclass(tree), f"cannot keep a {type(tree)}"
    named = {part.name: _packed(getattr(tree, part.name), arrays) for part in fields(tree)}  # type: ignore[arg-type]
    return {"kind": type(tree).__name__, "fields": named}


def _packed_array(array: Any, arrays: list[np.ndarray]) -> Any:
    scalar = isinstance(array, np.generic)
    array = np.asarray(array)
    assert array.dtype.kind in "biuf", f"cannot keep an array of {array.dtype}"
    if array.size > SMALL:
        arrays.append(array)
        return {"array": len(arrays) - 1}
    # Python writes floats so that they come back bit for bit.
    small = {"type": array.dtype.str, "shape": list(array.shape), "numbers": array.ravel().tolist()}
    return small | ({"scalar": True} if scalar else {})


def _unpacked(node: dict[str, Any], arrays: Mapping[str, np.ndarray], known: dict) -> Any:
    match node:
        case {"value": value}:
            return value
        case {"array": index}:
            return arrays[str(index)]
        case {"type": kind, "shape": shape, "numbers": numbers}:
            array = np.array(numbers, dtype=kind).reshape(shape)
            return array[()] if "scalar" in node else array
        case {"dict": parts}:
            return {name: _unpacked(part, arrays, known) for name, part in parts.items()}
        case {"list": parts}:
            return [_unpacked(part, arrays, known) for part in parts]
        case {"tuple": parts}:
            return tuple(_unpacked(part, arrays, known) for part in parts)
        case {"kind": kind, "member": name} if kind in known:
            return known[kind][name]
        case {"kind": kind, "fields": parts} if kind in known:
            return known[kind](
                **{name: _unpacked(part, arrays, known) for name, part in parts.items()}
            )
    raise OSError(f"holds something that is not expected here: {node!r:.60}")
