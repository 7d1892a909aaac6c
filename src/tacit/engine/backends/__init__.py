"""Engines that hold a model: dense and direct when small, successor lists when large.

Small models live in NumPy, where nobody waits for a compiler; batches of them live in JAX. Large
ones live on an accelerator in JAX, on a CPU in compiled loops, or split over many devices. Sizes
and devices alone decide, in `engine_of`, never what happens to be loaded: a number must not depend
on what was imported. Those on NumPy arrays are here, with soft values on any, and how functions of
a backend are run: traced by JAX or step by step, and rows of a large model side by side on all
cores.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from tacit.engine import MESH, Array, Backend, Compiled, Found, Given, Result, Side, State, cores
from tacit.engine.kernels.backups import NOTHING, fused_backup
from tacit.engine.kernels.chains import chain_solve, policy_chain

if TYPE_CHECKING:
    from jax.sharding import Mesh

    from tacit.model.mdp import MDP

Item = TypeVar("Item")

# Rows of one piece of work: enough to be worth handing out, few enough to stay in a core's cache.
BLOCK = 2**15
# Residual that a Newton step may leave of the one it starts from.
INEXACT = 0.1
# Up to this many states one dense factorisation beats any number of sparse products.
DENSE_LIMIT = 256
# Features as tables [D, S, A] that are searched with their curvature are at most this many numbers
# on a CPU, 320 MB; a search holds so many times their bytes, which an accelerator must have free.
HOST_TABLES, TABLE_COPIES = 40_000_000, 16
# Bytes of an accelerator that does not say what it has.
UNKNOWN_MEMORY = 2**33


class Engine(Enum):
    """What holds a model and solves its systems."""

    DIRECT = auto()  # NumPy, by elimination
    DENSE = auto()  # JAX, by elimination, many problems at once
    HOST = auto()  # compiled loops on the cores
    LISTS = auto()  # JAX on an accelerator
    SPLIT = auto()  # JAX on many devices


class Device(NamedTuple):
    """What JAX computes on.

    Attributes:
        accelerator: whether it is more than the cores.
        memory: its bytes.
    """

    accelerator: bool
    memory: int


def this_device() -> Device:
    """The `Device` of this process."""
    import jax

    # Of several processes each knows the memory of its own devices alone.
    stats = jax.local_devices()[0].memory_stats() or {}
    return Device(jax.default_backend() != "cpu", stats.get("bytes_limit", UNKNOWN_MEMORY))


def engine_of(
    states: int, *, whole: bool = False, split: bool = False, device: Device | None = None
) -> Engine:
    """The engine for a model of this size.

    Args:
        states: S.
        whole: for a batch of problems, which is split by problems.
        split: over many devices, where it is large.
        device: what JAX computes on; None asks it, for a large model only.
    """
    if states <= DENSE_LIMIT:
        return Engine.DENSE if whole else Engine.DIRECT
    if split:
        return Engine.SPLIT
    device = this_device() if device is None else device
    return Engine.LISTS if device.accelerator else Engine.HOST


def tables_fit(entries: int, device: Device | None = None) -> bool:
    """Whether tables of so many numbers are searched with their curvature, on this device."""
    if entries <= HOST_TABLES:
        return True
    device = this_device() if device is None else device
    return device.accelerator and 8 * TABLE_COPIES * entries <= device.memory


def backend_of(mdp: MDP, *, whole: bool = False) -> Backend:
    """The model's dynamics, stored as its size and the machine suggest; kept with the model.

    `whole` is for a batch, which is split by problems: the model stays in one piece, inside
    `tacit.scale.sharded` too, and in JAX, which does many small ones at once.
    """
    mesh = None if whole else MESH.get()
    form = (mesh, whole and mdp.states <= DENSE_LIMIT)
    backend, of = mdp.__dict__.get("_backend", (None, None))
    if backend is None or of != form:
        backend = _build(mdp, mesh, whole)
        mdp.__dict__["_backend"] = (backend, form)
    return backend


def _build(mdp: MDP, mesh: Mesh | None, whole: bool) -> Backend:
    # Undiscounted systems need elimination to fall back on, which no split model has.
    engine = engine_of(mdp.states, whole=whole, split=mesh is not None and mdp.discount < 1.0)
    if engine is Engine.DIRECT:
        return Direct(mdp)
    if engine is Engine.HOST:
        return Host(mdp)
    from tacit.engine.backends.device import dense, sparse

    if engine is Engine.DENSE:
        return dense(mdp)
    if engine is Engine.LISTS:
        return sparse(mdp)
    from tacit.engine.backends.sharded import sharded_backend

    assert mesh is not None
    return sharded_backend(mdp, mesh)


def policy_visits(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """[S] discounted visits of a policy [S, A] from where the model starts."""
    engine = engine_of(mdp.states, split=MESH.get() is not None)
    if engine is Engine.DIRECT:  # held as one dense array anyway
        side = Side(mdp.initial, None, transposed=True)
        visits = backend_of(mdp).solve(policy, mdp.discount, side)
    elif engine is Engine.LISTS and mdp.discount < 1.0:
        visits = _visits(backend_of(mdp), policy, mdp.discount, mdp.initial)
    else:
        visits = chain_solve(mdp, *policy_chain(mdp, policy), mdp.initial, transposed=True)
    return np.maximum(visits, 0.0)


class Stepwise(Backend):
    """What the backends on NumPy arrays have in common: algorithms run step by step."""

    arrays = np

    def leak(self, discount: Array) -> Array:
        """1 - discount; at discount 1, 1 over the length of the walk."""
        return 1 - discount if self.length is None else 1.0 / self.length

    def while_loop(
        self, going: Callable[[State], Array], step: Callable[[State], State], state: State
    ) -> State:
        """The state after repeating `step` while `going`."""
        while going(state):
            state = step(state)
        return state

    def select(self, condition: Array, new: State, old: State) -> State:
        """`new` if the condition holds, else `old`."""
        return new if condition else old


class Direct(Stepwise):
    """The linear maps of one small model as a dense array, every system solved by elimination.

    A compiler takes seconds before its first answer, and at this size gains little after it: most
    of the work is LAPACK's either way.
    """

    direct = True

    def __init__(self, mdp: MDP) -> None:
        self.missing, self.walk, self.length = mdp.limits
        self._matrix = mdp.dense()
        self._rows = self._matrix.reshape(-1, mdp.states)
        self._identity = np.eye(mdp.states)
        self._last: tuple[Array, Array, np.ndarray] | None = None  # policy, discount, system

    def expected_next(self, values: Array) -> Array:
        """[..., S, A] expected value of the next state, for values [..., S]."""
        later = values @ self._rows.T
        return later.reshape(*values.shape[:-1], *self._matrix.shape[:2])

    def inflow(self, table: Array) -> Array:
        """[S] what flows into each state."""
        return table.ravel() @ self._rows

    def soft_backup(
        self, discount: Array, temperature: Array, reward: Array, values: Array
    ) -> tuple[Array, Array]:
        """[S] soft values after one backup, and [S, A] the Boltzmann policy."""
        policy = self.expected_next(values)  # in place from here: small arrays cost what calls do
        policy *= discount
        policy += reward
        policy /= temperature
        if self.missing is not None:
            policy[self.missing] = -np.inf
        best = np.maximum.reduce(policy, axis=1, keepdims=True)
        policy -= best
        np.exp(policy, out=policy)
        total = np.add.reduce(policy, axis=1, keepdims=True)
        policy /= total
        backed = best[:, 0] + np.log(total[:, 0])
        return temperature * backed, policy

    def solve(self, policy: Array, discount: Array, side: Side) -> Array:
        """[..., S] the values x of the policy's chain; transposed, [S] its visits."""
        system = self._system(policy, discount)
        return self.linear_solve(system.T if side.transposed else system, side.right.T).T

    def linear_solve(self, matrix: Array, right: Array) -> Array:
        """The x of matrix x = right [n, ...]; NaN where the matrix is singular."""
        try:
            return np.linalg.solve(matrix, right)
        except np.linalg.LinAlgError:
            return np.full(np.shape(right), np.nan)

    def _system(self, policy: Array, discount: Array) -> np.ndarray:
        last = self._last
        if last is not None and last[0] is policy and last[1] == discount:  # values, then visits
            return last[2]
        system = np.matmul(policy[:, None, :], self._matrix)[:, 0]
        system *= -discount
        system += self._identity
        self._last = (policy, discount, system)
        return system


class Host(Stepwise):
    """The linear maps of one large model, in compiled loops over its successor lists."""

    direct = False

    def __init__(self, mdp: MDP) -> None:
        self.missing, self.walk, self.length = mdp.limits
        self._mdp = mdp
        self._masked = NOTHING if self.missing is None else self.missing

    def expected_next(self, values: Array) -> Array:
        """[..., S, A] expected value of the next state, for values [..., S]."""
        if values.ndim == 1:
            return self._mdp.expected_next(values)
        later = side_by_side(self._mdp.expected_next, values)
        return np.stack(later) if later else np.empty((0, self._mdp.states, self._mdp.actions))

    def inflow(self, table: Array) -> Array:
        """[S] what flows into each state."""
        return self._mdp.inflow(table)

    def soft_backup(
        self, discount: Array, temperature: Array, reward: Array, values: Array
    ) -> tuple[Array, Array]:
        """[S] soft values after one backup, and [S, A] the Boltzmann policy."""
        backed, policy = np.empty(self._mdp.states), np.empty(np.shape(reward))
        packed = self._mdp.packed
        model = (packed.states, packed.probabilities, float(discount), float(temperature))
        side_by_side(
            lambda rows: fused_backup(
                *model, reward, values, self._masked, backed, policy, rows.start, rows.stop
            ),
            row_blocks(self._mdp.states),
        )
        return backed, policy

    def solve(self, policy: Array, discount: Array, side: Side) -> Array:
        """[..., S] the values x of the policy's chain; transposed, [S] its visits."""
        chain = policy_chain(self._mdp, policy)
        return chain_solve(self._mdp, *chain, several=side_by_side, **side._asdict())


class Iterate(NamedTuple):
    """Where the iteration for the values stands."""

    values: Array  # [S]
    backed: Array  # [S] the values after one backup
    policy: Array  # [S, A] the Boltzmann policy of that backup
    error: Array  # largest difference of the two
    steps: Array
    before: Array  # the error one step ago


def soft_fixed_point(
    backend: Backend,
    discount: Array,
    temperature: Array,
    reward: Array,
    guess: Array,
    target: Array,
    limit: int = 100,
) -> tuple[Array, Array, Array]:
    """[S] values, [S, A] policy, and the largest residual |backup(values) - values| left.

    Args:
        backend: the dynamics.
        discount: scalar.
        temperature: scalar, above 0.
        reward: [S, A].
        guess: [S] values to start from.
        target: residual to reach.
        limit: most Newton steps.
    """
    xp = backend.arrays

    def step(at: Iterate) -> Iterate:
        aim = None
        if not (xp is np and backend.direct):
            # As exactly as the error deserves: an early policy is about to change anyway.
            aim = xp.maximum(INEXACT * at.error, 0.3 * target)
        values = at.values + backend.solve(at.policy, discount, Side(at.backed - at.values, aim))
        backed, policy = backend.soft_backup(discount, temperature, reward, values)
        error = xp.abs(backed - values).max()
        return Iterate(values, backed, policy, error, at.steps + 1, at.error)

    def going(at: Iterate) -> Array:
        # At rounding level the error stops falling: going on would only walk in circles.
        stuck = (at.steps > 3) & (at.error > 0.5 * at.before) & (at.error < 1e3 * target)
        return (at.error > target) & (at.steps < limit) & (stuck ^ True)

    backed, policy = backend.soft_backup(discount, temperature, reward, guess)
    start = Iterate(guess, backed, policy, xp.abs(backed - guess).max(), 0, xp.inf)
    end = backend.while_loop(going, step, start)
    return end.values, end.policy, end.error


def compiled_in_double(
    function: Callable[Given, Found], *, static: Sequence[str] = (), kept: bool = False
) -> Compiled[Given, Found]:
    """The function under `jax.jit`, traced and called with 64-bit numbers.

    Its first argument is the backend. One on NumPy arrays runs the same function step by step; one
    on many devices places the arguments there, by their names, and fetches the results.

    Args:
        function: of the backend and of arrays.
        static: names of its arguments that are no arrays.
        kept: whether results stay where they were computed, until they are `fetched`.
    """

    @functools.cache
    def traced() -> Callable[..., Any]:
        import jax

        return jax.jit(function, static_argnames=tuple(static))

    names = tuple(inspect.signature(function).parameters)[1:]

    @functools.wraps(function)
    def call(backend: Any, *arguments: Any, **keywords: Any) -> Any:
        if backend.arrays is np:
            # What overflows is seen in the result, as in compiled code, which warns of nothing.
            with np.errstate(all="ignore"):
                return function(backend, *arguments, **keywords)  # pyright: ignore[reportCallIssue]
        import jax

        with jax.enable_x64(True):
            if hasattr(backend, "place"):
                pairs = zip(names, arguments, strict=False)
                arguments = tuple(backend.place(name, value) for name, value in pairs)
                keywords = {n: backend.place(n, a) for n, a in keywords.items()}
            result = traced()(backend, *arguments, **keywords)
            return result if kept else fetched(backend, result)

    return call  # pyright: ignore[reportReturnType]


def placed(backend: Any, fields: State) -> State:
    """The same tuple of arrays on the device of the backend."""
    if backend.arrays is np:
        return fields
    import jax

    with jax.enable_x64(True):
        if hasattr(backend, "place"):
            return backend.place("", fields)
        return jax.tree.map(jax.numpy.asarray, fields)


def fetched(backend: Any, result: State) -> State:
    """A result as NumPy arrays: a stray JAX operation outside would fall to float32."""
    if backend.arrays is np:
        return result
    import jax

    return backend.fetch(result) if hasattr(backend, "place") else jax.tree.map(np.asarray, result)


@compiled_in_double
def _visits(backend: Backend, policy: Array, discount: Array, start: Array) -> Array:
    """[S] discounted visits of a policy [S, A] from a start [S], to rounding."""
    target = 1e-14 * backend.arrays.abs(start).sum() / backend.leak(discount)
    return backend.solve(policy, discount, Side(start, target, transposed=True))


def threads_allowed() -> int:
    """How many threads to use: what this process may run on, or OMP_NUM_THREADS where it is set.

    Worker processes of joblib and Dask set that to 1, so that they do not fight for the cores.
    """
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    return cores()


def row_blocks(count: int) -> list[slice]:
    """The rows in blocks that do not depend on the cores, so that sums over them do not either."""
    return [slice(first, min(first + BLOCK, count)) for first in range(0, count, BLOCK)]


def side_by_side(call: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """What `call` returns for each item, computed on all cores.

    Work that is itself a part of such work is done in its own thread: waiting for others that
    wait for a thread would be for ever.
    """
    items = list(items)
    if len(items) < 2 or threads_allowed() < 2 or getattr(_thread, "is_worker", False):
        return [call(item) for item in items]
    return list(_pool(os.getpid(), threads_allowed()).map(call, items))


_thread = threading.local()


@functools.lru_cache(maxsize=1)
def _pool(process: int, workers: int) -> ThreadPoolExecutor:
    """The threads of this process: a forked child must not wait for those of its parent."""
    mark = (_thread, "is_worker", True)
    return ThreadPoolExecutor(workers, "tacit", initializer=setattr, initargs=mark)
