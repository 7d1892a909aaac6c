"""Which device holds which states, and arrays split that way.

Devices stand in a row and hold as many states each, in order of their numbers. Where the states do
not divide evenly, dead ones are added at the end: they lead nowhere, earn nothing, and are never
reached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from tacit.errors import InvalidModel

AXIS = "states"


def mesh_of(devices: Sequence[Any] | None = None) -> Mesh:
    """One axis of these devices, of all if None."""
    if devices is not None and not isinstance(devices, Sequence | np.ndarray):
        raise InvalidModel(f"devices must be a list of JAX devices; got {devices!r}")
    chosen = np.array(jax.devices() if devices is None else list(devices), dtype=object)
    if chosen.ndim != 1 or not len(chosen):
        raise InvalidModel(f"devices must be a list of JAX devices; got {devices!r}")
    return Mesh(chosen, (AXIS,), axis_types=(AxisType.Auto,))


def at_home(states: np.ndarray, probabilities: np.ndarray, every: np.ndarray) -> np.ndarray:
    """The next states [n, 1 or A, W], those of probability 0 replaced by the state itself."""
    used = probabilities > 0
    used = used if states.shape[1] > 1 or used.shape[1] == 1 else used.any(axis=1, keepdims=True)
    return np.where(used, states, every).astype(np.int32)


def border_of(mesh: Mesh, count: int, longest: int) -> int:
    """How many states on either side a device must see, steps being `longest`; 0 for all."""
    own = share(mesh, count)
    border = max(longest, 1)
    return border if border <= own and own + 2 * border < own * mesh.size else 0


def origin(border: int, start: int) -> int:
    """The number of the state at place 0 of the view of the device whose states begin there."""
    return 0 if border == 0 else start - border


def share(mesh: Mesh, count: int) -> int:
    """How many states each device of the mesh holds."""
    return -(-count // mesh.size)


def spread(
    mesh: Mesh,
    shape: tuple[int, ...],
    rows: Callable[[int, int], np.ndarray],
    *,
    axis: int = 0,
    dtype: Any = np.float64,
) -> jax.Array:
    """The array of this shape split along an axis of states, 0 in the added ones.

    `rows(start, stop)` is asked only for the states of this process's devices.
    """
    count, own = shape[axis], share(mesh, shape[axis])
    padded = (*shape[:axis], own * mesh.size, *shape[axis + 1 :])

    def part(index: Any) -> np.ndarray:
        start = index[axis].start or 0
        stop = min(start + own, count)
        block = np.zeros((*shape[:axis], own, *shape[axis + 1 :]), dtype)
        if start < stop:
            block[(*(slice(None),) * axis, slice(stop - start))] = rows(start, stop)
        return block

    split = NamedSharding(mesh, PartitionSpec(*(None,) * axis, AXIS))
    with jax.enable_x64(True):
        return jax.make_array_from_callback(padded, split, part, dtype=dtype)


def whole(array: jax.Array) -> np.ndarray:
    """The array as NumPy's, brought together from all processes where it must be."""
    if array.is_fully_addressable or array.is_fully_replicated:
        return np.asarray(array)
    from jax.experimental.multihost_utils import process_allgather

    return np.asarray(process_allgather(array, tiled=True))
