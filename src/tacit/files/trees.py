"""Nested tuples, lists, dictionaries and dataclasses as named arrays, and back. Never pickle.

What is built on reading is named by the reader: the classes that may occur are given, and nothing
else is looked up, let alone run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from tacit.files.arrays import checksum

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
