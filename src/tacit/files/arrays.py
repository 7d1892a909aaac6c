"""Named arrays in one npz file, each with a checksum that is verified on reading.

One flipped byte is silent in most formats: the checksums travel in the file itself, as the entry
`checksums`, and an archive made elsewhere, without them, is read as it is.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import lzma
import math
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.lib import format as npy

from tacit.files.atomic import BadFile, write_atomically
from tacit.files.formats import (
    LARGEST,
    SPARSE,
    check_members,
    check_sparse,
    check_unpacked,
    known_format,
    listed_members,
    read_head,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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
    head = read_head(path, "an npz archive", largest=largest)
    if not head.startswith(b"PK"):
        found = known_format(head) if head else "an empty file"
        raise OSError(
            f"{path} holds no arrays that can be read: no npz archive{found and f' but {found}'}"
        )
    with open(path, "rb") as file:
        check_members(path, *listed_members(file))
        try:
            archive = zipfile.ZipFile(file)
            sizes = sum(entry.file_size for entry in archive.infolist())
        except DAMAGE as error:
            raise _unreadable(path, error) from None
        check_members(path, len(archive.infolist()))
        if len(set(archive.namelist())) < len(archive.infolist()):
            raise BadFile(f"{path} must hold each array once; it holds two of the same name")
        check_unpacked(path, sizes, largest)
        try:
            arrays = {
                entry.filename.removesuffix(".npy"): _array(archive.read(entry))
                for entry in archive.infolist()
            }
        except DAMAGE as error:
            raise _unreadable(path, error) from None
    return _verified(path, arrays)


def sparse_entries(table: csr_array, name: str) -> dict[str, np.ndarray]:
    """The entries of a sparse matrix that `sparse_matrix` reads, as it is stored."""
    parts = (table.data, table.indices, table.indptr, np.array(table.shape))
    return {f"{name}_{part}": array for part, array in zip(SPARSE, parts, strict=True)}


def sparse_matrix(arrays: Mapping[str, np.ndarray], name: str) -> csr_array | None:
    """[S, D] the sparse matrix of that name, or None; `BadFile` where its entries are none."""
    found = [f"{name}_{part}" for part in SPARSE if f"{name}_{part}" in arrays]
    if not found:
        return None
    if name in arrays:
        raise BadFile(f"{name} must be there once; {found[0]} gives it again")
    if len(found) < len(SPARSE):
        wanted = ", ".join(f"{name}_{part}" for part in SPARSE)
        raise BadFile(f"a sparse {name} must have {wanted}; got {', '.join(found)}")
    data, indices, pointers, shape = (arrays[entry] for entry in found)
    check_sparse(data, indices, pointers, shape, name=name)
    from scipy.sparse import csr_array

    parts = (data, indices.astype(np.int64), pointers.astype(np.int64))
    return csr_array(parts, shape=(int(shape[0]), int(shape[1])))


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
    except (ValueError, TypeError, RecursionError):
        raise OSError(f"{path} is damaged: its checksums cannot be read") from None
    for name, value in expected.items():
        if name not in arrays or checksum(arrays[name]) != value:
            raise OSError(f"{path} is damaged: {name} has changed since it was written")
    return arrays


SKELETON = "skeleton"
# Arrays up to this size are written among the words: a file of a thousand tiny entries is slow.
SMALL = 64

# A tree is made of None, numbers, text, arrays, lists, tuples, dictionaries, enumerations and
# (named tuples, dataclasses, text that carries fields) of them.
Tree = Any
Node = dict[str, Any]  # of a skeleton


def pack(tree: Tree, *, small: int = SMALL) -> dict[str, np.ndarray]:
    """The arrays of a tree, named by where they stand in it, and its `skeleton` as text.

    Args:
        tree: what to keep.
        small: entries up to which an array is written into the skeleton.
    """
    packer = _Packer(small)
    skeleton = json.dumps(packer.pack(tree, ""))
    return packer.arrays | {SKELETON: np.array(skeleton)}


def unpack(
    arrays: Mapping[str, np.ndarray], kinds: Sequence[type] | Callable[[str], type | None] = ()
) -> Tree:
    """The tree of these arrays.

    Args:
        arrays: as `pack` gave them.
        kinds: the classes that it may hold; or what gives the class of a name, None for any other.
    """
    find = kinds if callable(kinds) else {_kind_name(kind): kind for kind in kinds}.get
    try:
        return _unpacked(json.loads(str(arrays[SKELETON])), arrays, find)
    except BadFile:
        raise
    except BROKEN as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise BadFile(f"it holds nothing that can be read: {reason:.120}") from None


def _kind_name(kind: type) -> str:
    """The name of a class in a skeleton, with its module."""
    return f"{kind.__module__}.{kind.__qualname__}"


def digest(tree: Tree) -> str:
    """SHA-256 of everything a tree holds."""
    found = hashlib.sha256()
    for name, array in pack(tree).items():
        found.update(f"{name} {checksum(array)} ".encode())
    return found.hexdigest()


class _Packer:
    """Takes a tree apart.

    Attributes:
        small: entries up to which an array is written into the skeleton.
        arrays: all others, by name.
    """

    def __init__(self, small: int) -> None:
        self.small = small
        self.arrays: dict[str, np.ndarray] = {}

    def pack(self, tree: Tree, place: str) -> Node:
        match tree:
            case Enum():
                return {"kind": _kind_name(type(tree)), "member": tree.name}
            case str() if type(tree) is not str:
                # A text that says more in its fields.
                parts = self._parts(vars(tree), place)
                return {"kind": _kind_name(type(tree)), "text": str(tree), "fields": parts}
            case None | bool() | str():
                return {"value": tree}
            case int() | float() if not isinstance(tree, np.generic):
                return {"value": tree}
            case np.ndarray() | np.generic():
                return self._pack_array(tree, place)
            case Mapping():
                assert all(isinstance(name, str) for name in tree), "names must be text"
                return {"dict": self._parts(tree, place)}
            case tuple() if hasattr(tree, "_fields"):
                parts = self._parts(tree._asdict(), place)  # type: ignore[attr-defined]
                return {"kind": _kind_name(type(tree)), "fields": parts}
            case tuple() | list():
                parts = self._parts({str(at): part for at, part in enumerate(tree)}, place)
                return {"tuple" if isinstance(tree, tuple) else "list": [*parts.values()]}
        assert is_dataclass(tree), f"cannot keep a {type(tree)}"
        parts = {part.name: getattr(tree, part.name) for part in fields(tree) if part.init}
        return {"kind": _kind_name(type(tree)), "fields": self._parts(parts, place)}

    def _parts(self, parts: Mapping[str, Tree], place: str) -> Node:
        return {
            name: self.pack(part, f"{place}.{name}" if place else name)
            for name, part in parts.items()
        }

    def _pack_array(self, array: np.ndarray | np.generic, place: str) -> Node:
        scalar = isinstance(array, np.generic)
        array = np.asarray(array)
        assert array.dtype.kind in "biufU", f"cannot keep an array of {array.dtype}"
        if array.size > self.small:
            self.arrays[place or "array"] = array
            return {"array": place or "array"}
        # Python writes floats so that they come back bit for bit.
        small: Node = {"type": array.dtype.str, "shape": list(array.shape)}
        return small | {"numbers": array.ravel().tolist()} | ({"scalar": True} if scalar else {})


def _unpacked(
    node: Node,
    arrays: Mapping[str, np.ndarray],
    kinds: Callable[[str], type | None],
) -> Tree:
    def all_of(parts: Mapping[str, Node]) -> dict[str, Tree]:
        return {name: _unpacked(part, arrays, kinds) for name, part in parts.items()}

    match node:
        case {"value": value}:
            return value
        case {"array": name}:
            return arrays[name]
        case {"type": kind, "shape": shape, "numbers": numbers}:
            array = np.array(numbers, dtype=kind).reshape(shape)
            return array[()] if "scalar" in node else array
        case {"dict": parts}:
            return all_of(parts)
        case {"list": parts}:
            return [_unpacked(part, arrays, kinds) for part in parts]
        case {"tuple": parts}:
            return tuple(_unpacked(part, arrays, kinds) for part in parts)
        case {"kind": name} if (kind := kinds(name)) is not None:
            if "member" in node:
                return kind[node["member"]]  # type: ignore[index]
            if "text" not in node:
                parts = all_of(node["fields"])
                _check_types(kind, parts)
                return kind(**parts)
            text = str.__new__(kind, node["text"])  # type: ignore[type-var]
            vars(text).update(all_of(node["fields"]))
            return text
    raise BadFile(f"it holds something that is not expected here: {node!r:.60}")


@functools.cache
def _hints(kind: type) -> dict[str, object]:
    """Field -> type, as a class annotates them; none where they cannot be told."""
    try:
        return get_type_hints(kind)
    except (NameError, TypeError):  # named for the type checker only
        return {}


def _check_types(kind: type, parts: Mapping[str, Tree]) -> None:
    """Raises `BadFile` where a part is not of the type that the class annotates."""
    for name, part in parts.items():
        if not _fits(part, _hints(kind).get(name, object)):
            raise BadFile(f"{kind.__name__}.{name} cannot be {part!r:.40}")


def _fits(value: Tree, hint: object) -> bool:
    """Whether a value may stand where this is annotated; True where that cannot be told."""
    origin, inner = get_origin(hint), get_args(hint)
    if isinstance(value, np.ndarray) and value.ndim == 0 and hint in (float, int, bool):
        value = value.item()  # a number is kept as an array without axes
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if hint is None or hint is type(None):
        return value is None
    if hint is float or hint is int:
        plain = isinstance(value, int | np.integer) or (
            hint is float and isinstance(value, float | np.floating)
        )
        return plain and not isinstance(value, bool | np.bool_)
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    if origin is tuple and Ellipsis not in inner:
        return isinstance(value, tuple | list) and [*map(_fits, value, inner)] == [True] * len(
            inner
        )
    if origin in (tuple, list, Sequence):
        return isinstance(value, tuple | list) and all(_fits(one, inner[0]) for one in value)
    if origin in (dict, Mapping):
        return isinstance(value, dict) and all(_fits(one, inner[1]) for one in value.values())
    if origin is np.ndarray:
        return isinstance(value, np.ndarray)
    try:
        return isinstance(value, hint)  # pyright: ignore[reportArgumentType]
    except TypeError:
        return True
