"""Which device holds which states, and arrays split that way.

Devices stand in a row and hold as many states each, in order of their numbers. Where the states do
not divide evenly, dead ones are added at the end: they lead nowhere, earn nothing, and are never
reached.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from tacit.engine import MESH, Array
from tacit.engine.backends.device import Lists
from tacit.engine.backends.linear_systems import eliminated
from tacit.errors import InvalidModel

if TYPE_CHECKING:
    from tacit.model.mdp import MDP

AXIS = "states"


def mesh_of(devices: Sequence[object] | None = None) -> Mesh:
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


def split_rows(
    mesh: Mesh,
    shape: tuple[int, ...],
    rows: Callable[[int, int], np.ndarray],
    *,
    axis: int = 0,
    dtype: type | np.dtype = np.float64,
) -> jax.Array:
    """The array of this shape split along an axis of states, 0 in the added ones.

    `rows(start, stop)` is asked only for the states of this process's devices.
    """
    count, own = shape[axis], share(mesh, shape[axis])
    padded = (*shape[:axis], own * mesh.size, *shape[axis + 1 :])

    def part(index: Array) -> np.ndarray:
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


# Which axis of the arrays of a search, by their names, counts states.
STATE_AXES = {
    "start": 0,
    "base": 0,
    "tables": 1,
    "information": 0,
    "values": 0,
    "table_values": 1,
    "policy": 0,
    "visits": 0,
}


@contextmanager
def sharded(devices: Sequence[object] | None = None) -> Iterator[Mesh]:
    """Soft solves and noisy recoveries inside split large models over these devices.

    All devices of the job by default, those of other processes too: under `jax.distributed` every
    process runs the same code and gets the same answer. Models that are solved as one dense array
    stay on one device.
    """
    mesh = mesh_of(devices)
    token = MESH.set(mesh)
    try:
        yield mesh
    finally:
        MESH.reset(token)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Sharded(Lists):
    """A large model split over the devices of a mesh, with dead states added to make it even.

    All is of N states, not of S; next states are places in the view of their device.

    Attributes:
        mesh: the devices.
        count: S, the states of the model; N is the next multiple of the devices.
        border: how many states on either side a device looks at; 0 where it looks at all.
        gathered: whether every process gets whole NumPy arrays back.
    """

    mesh: Mesh = field(metadata={"static": True})
    count: int = field(metadata={"static": True})
    _: KW_ONLY
    border: int = field(metadata={"static": True})
    gathered: bool = field(default=True, metadata={"static": True})

    def expected_next(self, values: Array) -> Array:
        """[..., N, A] expected value of the next state, for values [..., N]."""
        if values.ndim > 1:
            return jax.vmap(self.expected_next)(values)

        def local(states: Array, probabilities: Array, values: Array) -> Array:
            return (probabilities * self._view(values)[states]).sum(axis=2)

        return self._everywhere(local, 3)(self.states, self.probabilities, values)

    def linear_solve(self, matrix: Array, right: Array) -> Array:
        """The x of matrix x = right [n, ...], for a small matrix that needs no pivoting."""
        # A library call on every device inside a loop waits for threads that the others hold.
        return eliminated(matrix, right)

    def place(self, name: str, value: Array) -> Array:
        """The argument of a search, its arrays over states split over the devices."""
        if isinstance(value, tuple):
            fields = getattr(value, "_fields", ())
            return type(value)(*(self.place(n, v) for n, v in zip(fields, value, strict=True)))
        if name not in STATE_AXES or isinstance(value, jax.Array):
            return value
        return _split(self.mesh, np.asarray(value, dtype=np.float64), axis=STATE_AXES[name])

    def fetch(self, value: Array, name: str = "") -> Array:
        """The result of a search as NumPy arrays, without the added states."""
        if isinstance(value, tuple):
            fields = getattr(value, "_fields", ("",) * len(value))
            parts = [self.fetch(v, n) for n, v in zip(fields, value, strict=True)]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if name not in STATE_AXES:
            return whole(value)
        if not self.gathered:
            return value
        before = (slice(None),) * STATE_AXES[name]
        return whole(value)[(*before, slice(self.count))]

    def _forward(self, rows: Array, weights: Array) -> Callable[[Array], Array]:
        def local(rows: Array, weights: Array, x: Array) -> Array:
            return (weights * self._view(x)[rows]).sum(axis=1)

        return functools.partial(self._everywhere(local, 3), rows, weights)

    def _backward(self, rows: Array, weights: Array) -> Callable[[Array], Array]:
        def local(rows: Array, weights: Array, x: Array) -> Array:
            places = self.mesh.size * len(x) if self.border == 0 else len(x) + 2 * self.border
            return self._home(jnp.zeros(places).at[rows].add(weights * x[:, None]))

        return functools.partial(self._everywhere(local, 3), rows, weights)

    def _everywhere(self, local: Callable, arguments: int) -> Callable:
        """The function run by every device on its own states."""
        own = PartitionSpec(AXIS)
        return jax.shard_map(local, mesh=self.mesh, in_specs=(own,) * arguments, out_specs=own)

    def _view(self, x: Array) -> Array:
        """What this device sees of a vector: its own part x [n], and what its steps lead to."""
        if self.border == 0:
            return jax.lax.all_gather(x, AXIS, tiled=True)
        left = jax.lax.ppermute(x[len(x) - self.border :], AXIS, self._rightwards)
        right = jax.lax.ppermute(x[: self.border], AXIS, self._leftwards)
        return jnp.concatenate([left, x, right])

    def _home(self, view: Array) -> Array:
        """[n] the sum of what all devices have in their views of this device's states."""
        if self.border == 0:
            return jax.lax.psum_scatter(view, AXIS, tiled=True)
        edge, size = self.border, len(view) - 2 * self.border
        right = jax.lax.ppermute(view[:edge], AXIS, self._leftwards)
        left = jax.lax.ppermute(view[size + edge :], AXIS, self._rightwards)
        own = view[edge : size + edge].at[:edge].add(left)
        return own.at[size - edge :].add(right)

    @property
    def _rightwards(self) -> list[tuple[int, int]]:
        return [(i, i + 1) for i in range(self.mesh.size - 1)]

    @property
    def _leftwards(self) -> list[tuple[int, int]]:
        return [(i + 1, i) for i in range(self.mesh.size - 1)]


def sharded_backend(mdp: MDP, mesh: Mesh) -> Sharded:
    """The model, discounted, split over the devices of the mesh."""
    packed, missing = mdp.packed, mdp.limits[0]
    every = np.arange(mdp.states, dtype=np.int32)[:, None, None]
    states = at_home(packed.states, packed.probabilities, every)
    border = border_of(mesh, mdp.states, int(np.abs(states - every).max()))

    def places(start: int, stop: int) -> np.ndarray:
        return states[start:stop] - origin(border, start)

    return Sharded(
        split_rows(mesh, states.shape, places, dtype=np.int32),
        _split(mesh, packed.probabilities),
        mesh,
        mdp.states,
        border=border,
        missing=missing if missing is None else _split(mesh, missing),
    )


def _split(mesh: Mesh, table: np.ndarray, *, axis: int = 0) -> jax.Array:
    def rows(start: int, stop: int) -> np.ndarray:
        return table[(*(slice(None),) * axis, slice(start, stop))]

    return split_rows(mesh, table.shape, rows, axis=axis, dtype=table.dtype)
