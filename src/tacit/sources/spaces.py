"""The states and actions of Gymnasium's discrete spaces, as numbers from 0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit.errors import InvalidDemonstrations, InvalidModel

MOST = 2**31 - 1


def size(space: Any, what: str) -> int:
    """The number of elements of a discrete space; `InvalidDemonstrations` for any other one."""
    count = _count(space)
    if count is None:
        raise InvalidDemonstrations(
            f"{what} must be discrete; got {space!s:.80}: discretise first, "
            "for example with tacit.sources.Discretiser"
        )
    if not 0 < count <= MOST:
        raise InvalidDemonstrations(f"{what} must be at most {MOST}; {space!s:.80} has {count}")
    return count


def number(space: Any, value: Any, what: str) -> np.ndarray:
    """The number of an element of a discrete space, or of each of an array of elements.

    The parts of a compound space are counted in row-major order, the last one fastest.
    """
    kind = type(space).__name__
    if kind in ("Tuple", "Dict"):
        parts = [number(part, value[key], what) for key, part in _parts(space)]
        counts = [size(part, what) for _, part in _parts(space)]
        return _raveled(parts, counts, value, what)
    array = np.asarray(value)
    if array.dtype.kind not in "iub":
        raise InvalidDemonstrations(f"{what} must be integers; got {array.dtype}")
    array = array.astype(np.int64) - getattr(space, "start", 0)
    counts = [space.n] if kind == "Discrete" else [*np.ravel(_lengths(space))]
    if kind == "Discrete":
        return _raveled([array], counts, value, what)
    flat = array.reshape(*array.shape[: array.ndim - _lengths(space).ndim], -1)
    return _raveled([*np.moveaxis(flat, -1, 0)], counts, value, what)


def element(space: Any, index: int) -> Any:
    """The element of a discrete space that has this number."""
    kind = type(space).__name__
    if kind in ("Tuple", "Dict"):
        counts = [size(part, "part") for _, part in _parts(space)]
        places = np.unravel_index(index, counts)
        pairs = zip(_parts(space), places, strict=True)
        chosen = {key: element(part, int(place)) for (key, part), place in pairs}
        return tuple(chosen.values()) if kind == "Tuple" else chosen
    if kind == "Discrete":
        return int(index) + int(space.start)
    lengths = _lengths(space)
    places = np.array(np.unravel_index(index, [*np.ravel(lengths)]))
    return (places.reshape(lengths.shape) + getattr(space, "start", 0)).astype(space.dtype)


def _parts(space: Any) -> list[tuple[Any, Any]]:
    spaces = space.spaces
    return [*spaces.items()] if hasattr(spaces, "items") else [*enumerate(spaces)]


def _lengths(space: Any) -> np.ndarray:
    return np.asarray(space.nvec) if hasattr(space, "nvec") else np.full(space.shape, 2)


def _count(space: Any) -> int | None:
    kind = type(space).__name__
    if kind == "Discrete":
        return int(space.n)
    if kind in ("MultiDiscrete", "MultiBinary"):
        return math.prod(np.ravel(_lengths(space)).tolist())
    if kind in ("Tuple", "Dict"):
        counts = [_count(part) for _, part in _parts(space)]
        return None if None in counts else math.prod(count or 0 for count in counts)
    return None


def _raveled(parts: list[np.ndarray], counts: list[int], value: Any, what: str) -> np.ndarray:
    try:
        return np.asarray(np.ravel_multi_index(tuple(parts), tuple(map(int, counts))))
    except ValueError:
        raise InvalidDemonstrations(
            f"{what} must lie in their space, of {math.prod(map(int, counts))} elements; "
            f"got {value!r:.60}"
        ) from None


def made(name: str) -> Any:
    """The Gymnasium environment of that name."""
    try:
        import gymnasium
    except ImportError:
        raise InvalidModel(
            f"{name!r} needs Gymnasium, which is not installed: pip install 'tacit[gymnasium]'"
        ) from None
    try:
        return gymnasium.make(name)
    except gymnasium.error.Error as error:
        reason = " ".join(str(error).split())
        raise InvalidModel(f"Gymnasium cannot make {name!r}: {reason:.120}") from None
