"""How numbers are made: engines, searches, workers. Knows arrays, no noun.

What the smooth algorithms ask of a model, whatever engine holds it, is a `Backend`: expected next
value [S] -> [S, A], its transpose, next-state inflow [S, A] -> [S], the soft backup made of the
first, and the linear systems of the chain that a policy makes of them.

JAX costs about a second to import and defaults to float32. So it is imported where it is needed,
never by `import tacit`, and double precision is switched on around our own calls only: a user's
other JAX code keeps its settings, and its compiled code is kept on disk only by whoever asks.

Everything that falls into independent pieces goes through `each`. So one line before the call,
`joblib.parallel_config(backend="dask")`, hands it to a cluster.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import signal
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar

from tacit import __version__
from tacit.errors import InvalidModel

if TYPE_CHECKING:
    from jax.sharding import Mesh

# At discount 1 an iteration that leaves a residual above this share of its values has no end.
FINITE = 1e-9
# Values larger than this many steps' worth are on their way to infinity.
DIVERGED = 1e9
# Newton's next step would move finite values by less than this share of them.
STEADY = 1e-6
# Longer episodes than this are no longer told from those that never end: rounding in a length.
LONGEST = 1e12

Given = ParamSpec("Given")
Found = TypeVar("Found")
Result = TypeVar("Result")
# A NumPy or a JAX array, or a number in place of one.
Array: TypeAlias = Any
State = TypeVar("State")

# The devices that large models are split over (`tacit.scale.sharded`), a `jax.sharding.Mesh`.
MESH: ContextVar[Mesh | None] = ContextVar("tacit_mesh", default=None)


class Side(NamedTuple):
    """The right side of x = right + discount * P x, P a policy's chain, and how x is sought."""

    right: Array  # [..., S]; [S] where transposed
    target: Array  # [...] largest residual to leave; transposed, the sum of all
    guess: Array = None  # [..., S] where to begin
    transposed: bool = False  # whether it is P' that visits follow


class Backend:
    """The dynamics of a model, and the engine they live in."""

    arrays: Array  # numpy or jax.numpy
    direct: bool  # whether systems are solved by elimination: rough answers cost as much as fine
    missing: Array  # [S, A] bool, the actions that are not there; None where all are
    walk: Array  # [S, A] at discount 1, a policy that reaches an end for sure; else None
    length: Array  # the states that the walk passes on average, at most; None likewise

    def while_loop(
        self, going: Callable[[State], Array], step: Callable[[State], State], state: State
    ) -> State:
        """The state after repeating `step` while `going`."""
        raise NotImplementedError

    def select(self, condition: Array, new: State, old: State) -> State:
        """`new` if the condition holds, else `old`; both are trees of arrays."""
        raise NotImplementedError

    def expected_next(self, values: Array) -> Array:
        """[..., S, A] expected value of the next state, for values [..., S]."""
        raise NotImplementedError

    def inflow(self, table: Array) -> Array:
        """[S] what flows into each state when `table` [S, A] flows out."""
        raise NotImplementedError

    def soft_backup(
        self, discount: Array, temperature: Array, reward: Array, values: Array
    ) -> tuple[Array, Array]:
        """[S] soft values after one backup of `values`, and [S, A] the Boltzmann policy."""
        raise NotImplementedError

    def leak(self, discount: Array) -> Array:
        """1 - discount, by which rounding and residuals are divided; at discount 1, 1 / length."""
        raise NotImplementedError

    def solve(self, policy: Array, discount: Array, side: Side) -> Array:
        """[..., S] the values x of the policy's chain; transposed, [S] its visits."""
        raise NotImplementedError

    def linear_solve(self, matrix: Array, right: Array) -> Array:
        """The x of matrix x = right [n, ...], for a small matrix that needs no pivoting."""
        return self.arrays.linalg.solve(matrix, right)


@functools.cache
def is_trusted(folder: str | Path, *, like: str | None = None) -> bool:
    """Whether code kept in a folder may be run: nobody writes there who could not change ours.

    Args:
        folder: where compiled code is kept; one that is not there yet will be made by us.
        like: a file of ours, whose owner and group may write there, too.
    """
    if not hasattr(os, "getuid"):  # a system of other permissions
        return True
    try:
        status = os.stat(folder)
        ours = None if like is None else os.stat(os.path.dirname(like) or ".")
    except OSError:
        return True
    owners = {0, os.getuid()} | (set() if ours is None else {ours.st_uid})
    groups = {ours.st_gid} if ours is not None and ours.st_mode & stat.S_IWGRP else set()
    by_group = status.st_mode & stat.S_IWGRP and status.st_gid not in groups
    return status.st_uid in owners and not by_group and not status.st_mode & stat.S_IWOTH


def numba_folder(file: str) -> str:
    """Where numba keeps what it compiles from a file."""
    beside = os.path.join(os.path.dirname(file), "__pycache__")
    return os.environ.get("NUMBA_CACHE_DIR") or beside


class Compiled(Protocol[Given, Found]):
    """A compiled function; `__wrapped__` is the plain one, for use inside another."""

    __wrapped__: Callable[Given, Found]

    def __call__(self, *arguments: Given.args, **keywords: Given.kwargs) -> Found:
        """What the function returns, in NumPy arrays of 64 bits."""
        ...


def keep_compiled_code() -> Path | None:
    """The folder in which JAX now keeps what it compiles in this process; None if it keeps nothing.

    The setting is the whole process's, so only its owner may make it: the command line and worker
    processes call this, `tacit.solve` and `tacit.recover` never do. A folder that JAX was told of
    before stays, unless others can write there; else it is `tacit/jax` in the user's folder for
    caches.
    """
    loaded = sys.modules.get("jax")
    chosen = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if loaded is not None:
        chosen = loaded.config.values.get("jax_compilation_cache_dir")
    if chosen is not None:
        if is_trusted(chosen):
            return Path(chosen)
        if loaded is not None:
            loaded.config.update("jax_compilation_cache_dir", None)
        os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
        return None
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    place = Path(home) / "tacit" / "jax"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None  # no home, or a read-only one: compile anew each time
    if not os.access(place, os.W_OK) or not is_trusted(place):
        return None  # what others put there would be run as ours
    # The default keeps only what took a second to compile; ours are many and small.
    settings = {
        "jax_compilation_cache_dir": str(place),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
    }
    for name, value in settings.items():
        if loaded is not None:
            loaded.config.update(name, value)
        else:  # JAX reads these when it is imported, which takes a second: not now
            os.environ[name.upper()] = str(value)
    return place


def each(
    function: Callable[..., Result],
    pieces: Iterable[tuple],
    *,
    workers: int | None = None,
    ordered: bool = True,
) -> Iterator[Result]:
    """The results of the function on every piece's arguments, as they are done.

    Args:
        function: of a module, so that another process can find it.
        pieces: its arguments, piece by piece.
        workers: processes; None for what joblib was told, or one per core if nothing. A cluster
            decides by itself.
        ordered: whether the results come in the order of the pieces.
    """
    if workers is not None and workers < 1:
        raise InvalidModel(f"workers must be at least 1; got {workers}")
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    pieces = list(pieces)
    cluster, told_workers = cluster_is_told()
    come = "generator" if ordered else "generator_unordered"
    if not getattr(get_active_backend()[0], "supports_return_generator", True):
        come = "list"  # Ray's gives all at once, at the end
    if workers is None and not cluster and told_workers is None:
        workers = min(cores(), max(1, len(pieces)))
    # A batch holds one piece: a worker that dies loses one, and progress is seen.
    many = Parallel(
        n_jobs=workers,
        return_as=come,
        batch_size=1,  # pyright: ignore[reportArgumentType]
    )
    here = (os.getpid(), __version__)
    yield from many(delayed(_worked)(here, function, *piece) for piece in pieces)  # pyright: ignore[reportGeneralTypeIssues, reportReturnType]


def _worked(caller: tuple[int, str], function: Callable[..., Result], *piece: object) -> Result:
    """What the function returns; a process of workers keeps what JAX compiles there.

    Args:
        caller: process and version of tacit that ask for it. Another version could find other
            numbers, and mix them with those of the rest: it is refused.
        function: to be called.
        piece: its arguments.
    """
    process, version = caller
    if version != __version__:
        raise InvalidModel(
            f"workers must have tacit {version}, as the caller has; the one on "
            f"{platform.node()} has {__version__}: install the same version there"
        )
    if os.getpid() != process:
        keep_compiled_code()
        with contextlib.suppress(ValueError):  # a thread of a cluster's worker, not ours to tell
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asked for this work ends it
    return function(*piece)


def cluster_is_told() -> tuple[bool, object]:
    """Whether joblib was told of another engine than its own processes, and of how many."""
    from joblib._parallel_backends import LokyBackend
    from joblib.parallel import get_active_backend

    backend, workers = get_active_backend()
    return not isinstance(backend, LokyBackend), workers


def told_of_workers() -> bool:
    """Whether joblib was told of a cluster or of several processes; not inside one of the latter.

    Work that one machine does well in one piece asks here first.
    """
    if "joblib" not in sys.modules:  # nobody has told it anything
        return False
    from joblib.parallel import get_active_backend

    if (getattr(get_active_backend()[0], "nesting_level", 0) or 0) > 0:
        return False
    cluster, workers = cluster_is_told()
    return cluster or workers not in (None, 1)


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def undiscounted_fixed_point(
    backend: Backend,
    soft_fixed_point: Callable[..., tuple[Array, Array, Array]],
    temperature: Array,
    reward: Array,
    guess: Array,
    target: Array,
) -> tuple[Array, Array, Array]:
    """As `soft_fixed_point` at discount 1: the values may be infinite, and then the residual is.

    From the guess; and, where that leads nowhere, from the values of the walk to the nearest end,
    below the values sought: from there each step is exact, finite and upwards, unless there is no
    upper end. Where there are no finite values, those of the walk come back with its policy.
    """
    import numpy as np

    xp = backend.arrays

    def is_finite(values: Array, policy: Array, error: Array) -> Array:
        return is_finite_fixed_point(backend, temperature, reward, target, values, policy, error)

    first = soft_fixed_point(backend, 1.0, temperature, reward, guess, target)
    first_is_finite = is_finite(*first)
    if xp is np and first_is_finite:
        return first
    walk_reward = (backend.walk * reward).sum(axis=1)
    walk_values = backend.solve(backend.walk, 1.0, Side(walk_reward, 1e-3 * target))
    # A compiled function runs both iterations: the second has nothing to do where the first did.
    start = xp.where(first_is_finite, first[0], walk_values)
    left = xp.where(first_is_finite, xp.inf, target)
    second = soft_fixed_point(backend, 1.0, temperature, reward, start, left)
    best = backend.select(first_is_finite, first, second)
    return backend.select(is_finite(*best), best, (walk_values, backend.walk, xp.inf))


def is_finite_fixed_point(
    backend: Backend,
    temperature: Array,
    reward: Array,
    target: Array,
    values: Array,
    policy: Array,
    error: Array,
) -> Array:
    """Whether values [S] with this residual are a fixed point at discount 1, and finite.

    A small residual is no proof: it vanishes, too, where values diverge.
    """
    xp = backend.arrays
    unit = xp.abs(reward).max() + temperature
    largest = xp.abs(values).max()
    # Values of more steps' worth than that have residuals of rounding alone.
    is_solved = error <= xp.maximum(1e3 * target, FINITE * (largest + unit))  # not where it is NaN
    # At the very border of finite values the residual vanishes and Newton's steps do not.
    backed, _ = backend.soft_backup(1.0, temperature, reward, values)
    right = xp.stack([backed - values, xp.ones_like(values)])
    targets = xp.stack([1e-3 * target, xp.asarray(1e-3)])
    step, lengths = backend.solve(policy, 1.0, Side(right, targets))
    is_steady = xp.abs(step).max() <= STEADY * (largest + unit)
    # Values far beyond all payments can repeat themselves by rounding alone, under a policy
    # that never ends. No lengths meet their equation there, in no norm below 1.
    next_lengths = (policy * backend.expected_next(lengths)).sum(axis=1)
    lengths_residual = xp.abs(1.0 + next_lengths - lengths).max()
    ends = (lengths_residual <= 0.5) & (xp.abs(lengths).max() <= LONGEST)
    return is_solved & is_steady & ends & (largest <= DIVERGED * unit)
