"""Trees of values as arrays by name, and a skeleton that says how they belong together."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from tacit.files.arrays import BROKEN, checksum
from tacit.files.atomic import BadFile

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
    arrays: dict[str, np.ndarray] = {}
    skeleton = json.dumps(_packed(tree, "", small, arrays))
    return arrays | {SKELETON: np.array(skeleton)}


def kind_name(kind: type) -> str:
    """The name of a class in a skeleton, with its module."""
    return f"{kind.__module__}.{kind.__qualname__}"


def digest(tree: Tree) -> str:
    """SHA-256 of everything a tree holds."""
    found = hashlib.sha256()
    for name, array in pack(tree).items():
        found.update(f"{name} {checksum(array)} ".encode())
    return found.hexdigest()


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
        case tuple() | list():
            parts = all_of({str(at): part for at, part in enumerate(tree)})
            return {"tuple" if isinstance(tree, tuple) else "list": [*parts.values()]}
    assert is_dataclass(tree), f"cannot keep a {type(tree)}"
    # A field may be written as what an attribute of another name says, or by "" not at all.
    kept = [part for part in fields(tree) if part.init]
    sources = {part.name: part.metadata.get("packed", part.name) for part in kept}
    parts = {name: getattr(tree, source) for name, source in sources.items() if source}
    return {"kind": kind_name(type(tree)), "fields": all_of(parts)}


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


def unpack(
    arrays: Mapping[str, np.ndarray], kinds: Sequence[type] | Callable[[str], type | None] = ()
) -> Tree:
    """The tree of these arrays.

    Args:
        arrays: as `pack` gave them.
        kinds: the classes that it may hold; or what gives the class of a name, None for any other.
    """
    find = kinds if callable(kinds) else {kind_name(kind): kind for kind in kinds}.get
    try:
        return _unpacked(json.loads(str(arrays[SKELETON])), arrays, find)
    except BadFile:
        raise
    except BROKEN as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise BadFile(f"it holds nothing that can be read: {reason:.120}") from None


def _unpacked(
    node: Node, arrays: Mapping[str, np.ndarray], kinds: Callable[[str], type | None]
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
                for name, part in parts.items():
                    if not _fits(part, _hints(kind).get(name, object)):
                        raise BadFile(f"{kind.__name__}.{name} cannot be {part!r:.40}")
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
