"""Trees of values as arrays by name, and a skeleton that says how they belong together."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from itertools import chain
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import numpy as np

from tacit.files.arrays import BROKEN, checksum
from tacit.files.atomic import BadFile

SKELETON = "skeleton"
# Rooms that a class is looked for in where it has moved since it was written.
ROOMS = ("data", "model", "search", "forward", "inference", "recovery", "estimators", "checks")
SPARSE = ("data", "indices", "indptr")  # arrays of a sparse matrix
# Arrays up to this size are written among the words: a file of a thousand tiny entries is slow.
SMALL = 64
# A tree is made of None, numbers, text, arrays, sparse matrices, lists, tuples, dictionaries,
# enumerations and (named tuples, dataclasses, text that carries fields) of them.
Tree = Any
Node = dict[str, Any]  # of a skeleton


def pack(tree: Tree, *, small: int = SMALL) -> dict[str, np.ndarray]:
    """The arrays of a tree, named by where they stand in it, and its `skeleton` as text.

    Args:
        tree: what to keep.
        small: entries up to which an array is written into the skeleton.
    """
    arrays: dict[str, np.ndarray] = {}
    skeleton = json.dumps(_packed(tree, "", small, arrays))
    return arrays | {SKELETON: np.array(skeleton)}


def kind_name(kind: type) -> str:
    """The name of a class in a skeleton, with its module."""
    return f"{kind.__module__}.{kind.__qualname__}"


def digest(tree: Tree) -> str:
    """SHA-256 of everything a tree holds."""
    total = hashlib.sha256()
    for name, array in pack(tree).items():
        total.update(f"{name} {checksum(array)} ".encode())
    return total.hexdigest()


def _packed(tree: Tree, place: str, small: int, arrays: dict[str, np.ndarray]) -> Node:
    """The skeleton of a tree; arrays of more entries than `small` are put among the others."""

    def all_of(parts: Mapping[str, Tree]) -> Node:
        places = {name: f"{place}.{name}" if place else name for name in parts}
        return {name: _packed(part, places[name], small, arrays) for name, part in parts.items()}

    match tree:
        case Enum():
            return {"kind": kind_name(type(tree)), "member": tree.name}
        case str() if type(tree) is not str:
            # A text that says more in its fields.
            text = {"kind": kind_name(type(tree)), "text": str(tree)}
            return text | {"fields": all_of(vars(tree))}
        case None | bool() | str():
            return {"value": tree}
        case int() | float() if not isinstance(tree, np.generic):
            return {"value": tree}
        case np.ndarray() | np.generic():
            array = np.asarray(tree)
            assert array.dtype.kind in "biufU", f"cannot keep an array of {array.dtype}"
            if array.size > small:
                arrays[place or "array"] = array
                return {"array": place or "array"}
            # Python writes floats so that they come back bit for bit.
            node: Node = {"type": array.dtype.str, "shape": list(array.shape)}
            scalar = {"scalar": True} if isinstance(tree, np.generic) else {}
            return node | {"numbers": array.ravel().tolist()} | scalar
        case Mapping():
            assert all(isinstance(name, str) for name in tree), "names must be text"
            return {"dict": all_of(tree)}
        case tuple() if hasattr(tree, "_fields"):
            named = tree._asdict()  # type: ignore[attr-defined]
            return {"kind": kind_name(type(tree)), "fields": all_of(named)}
        case tuple() if _is_plain(tree):
            return {"tuples": tree}
        case tuple() | list():
            parts = all_of({str(at): part for at, part in enumerate(tree)})
            return {"tuple" if isinstance(tree, tuple) else "list": [*parts.values()]}
    if hasattr(tree, "indptr"):  # a sparse matrix, by rows
        parts = {name: getattr(tree, name) for name in SPARSE}
        return {"sparse": all_of(parts), "shape": [int(size) for size in tree.shape]}
    assert is_dataclass(tree), f"cannot keep a {type(tree)}"
    # A field may be written as what an attribute of another name says, or by "" not at all.
    written = [part for part in fields(tree) if part.init]
    sources = {part.name: part.metadata.get("packed", part.name) for part in written}
    parts = {name: getattr(tree, source) for name, source in sources.items() if source}
    return {"kind": kind_name(type(tree)), "fields": all_of(parts)}


def _is_plain(tree: Tree) -> bool:
    """Whether this is text, a number or nothing, or a tuple of such, and of tuples of them."""
    if type(tree) is tuple:
        return all(map(_is_plain, tree))
    return tree is None or type(tree) in (str, int, float, bool)


def as_tuples(part: Tree) -> Tree:
    """Lists, which JSON has in the place of tuples, as tuples again."""
    return tuple(map(as_tuples, part)) if isinstance(part, list) else part


@contextmanager
def sound(path: Path, wanted: str) -> Iterator[None]:
    """Inside, what sealed but malformed content raises becomes one line of `BadFile`.

    Args:
        path: of the file or the folder that it came from.
        wanted: what it should have held.
    """
    try:
        yield
    except BROKEN as error:
        reason = " ".join(str(error).split()) or "nothing"
        raise BadFile(f"{path} must hold {wanted}; {type(error).__name__}: {reason:.120}") from None
    except BadFile as error:
        raise BadFile(f"{path} must hold {wanted}; {error!s:.160}") from None


def unpack(arrays: Mapping[str, np.ndarray]) -> Tree:
    """The tree of these arrays, as `pack` gave them; of classes, it may hold those of tacit."""
    try:
        return _unpacked(json.loads(str(arrays[SKELETON])), arrays)
    except BadFile:
        raise
    except BROKEN as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise BadFile(f"it holds nothing that can be read: {reason:.120}") from None


def _unpacked(node: Node, arrays: Mapping[str, np.ndarray]) -> Tree:
    def all_of(parts: Mapping[str, Node]) -> dict[str, Tree]:
        return {name: _unpacked(part, arrays) for name, part in parts.items()}

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
        case {"tuples": parts}:
            return as_tuples(parts)
        case {"sparse": parts, "shape": shape}:
            from scipy.sparse import csr_array

            stored = all_of(parts)
            return csr_array(tuple(stored[name] for name in SPARSE), shape=tuple(shape))
        case {"list": parts}:
            return [_unpacked(part, arrays) for part in parts]
        case {"tuple": parts}:
            return tuple(_unpacked(part, arrays) for part in parts)
        case {"kind": name} if (kind := _find_class(name)) is not None:
            if "member" in node:
                return kind[node["member"]]  # type: ignore[index]
            if "text" not in node:
                return kind(**all_of(node["fields"]))
            text = str.__new__(kind, node["text"])  # type: ignore[type-var]
            vars(text).update(all_of(node["fields"]))
            return text
    raise BadFile(f"it holds something that is not expected here: {node!r:.60}")


@functools.cache
def _find_class(name: str) -> type | None:
    """The class of tacit of that name, if it is data, in its module or wherever it is by now."""
    module, _, own = name.rpartition(".")
    for home in chain([module], _modules()) if module.startswith("tacit.") else ():
        with suppress(ImportError):
            kind = getattr(import_module(home), own, None)
            if isinstance(kind, type) and kind.__module__ == home:
                is_data = is_dataclass(kind) or issubclass(kind, Enum | str | tuple)
                return kind if is_data else None
    return None


def _modules() -> Iterator[str]:
    """The names of the modules in `ROOMS`."""
    for room in ROOMS:
        module = import_module(f"tacit.{room}")
        yield module.__name__
        inside = walk_packages(getattr(module, "__path__", ()), f"{module.__name__}.")
        yield from (one.name for one in inside)
