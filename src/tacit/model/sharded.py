"""A model of which every process holds its own states only, built from rows.

`MDP` holds the whole model in every process. Where that is too much, give functions of a range of
states instead: each process asks for its own states and for no others. And the job that these
processes are, which ends where one of them is lost (`join`).
"""

from __future__ import annotations

import atexit
import os
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TypeAlias, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh
from numpy.typing import ArrayLike

from tacit.engine import keep_compiled_code
from tacit.engine.backends.sharded import (
    Sharded,
    at_home,
    border_of,
    mesh_of,
    origin,
    sharded,
    share,
    split_rows,
)
from tacit.errors import InvalidModel
from tacit.model.arguments import ROW_SUM_TOLERANCE
from tacit.model.mdp import checked_discount
from tacit.model.transitions import Successors, shared_successors, successor_lists

__all__ = ["ShardedMDP", "join", "keep_compiled_code", "sharded"]


def __dir__() -> list[str]:
    """What is in this namespace."""
    return sorted(__all__)


Part = TypeVar("Part")
# (start, stop) -> what belongs to the states start..stop-1.
Rows: TypeAlias = Callable[[int, int], Part]
# States asked for at once: what is sorted on the way in is as large as several copies of it.
CHUNK = 2**18


@dataclass(frozen=True, eq=False)
class ShardedMDP:
    """A Markov decision process without a reward, split over devices by states.

    Attributes:
        backend: its dynamics.
        initial: [N] distribution of the first state, split; N is S made even.
        discount: weight of the next step against this one.
    """

    backend: Sharded
    initial: jax.Array
    discount: float

    @classmethod
    def from_rows(
        cls,
        rows: Rows[Successors],
        initial: Rows[ArrayLike] | int,
        *,
        states: int,
        discount: float,
        devices: Sequence[object] | None = None,
    ) -> ShardedMDP:
        """The model whose states start..stop-1 have the transitions `rows(start, stop)`.

        Under `jax.distributed` every process calls this, and is asked for its own states only.

        Args:
            rows: (start, stop) -> `Successors`, each [stop - start, A, B], of numbers in 0..S-1.
            initial: the number of the first state, or (start, stop) -> [stop - start] probability
                of each.
            states: S.
            discount: of the model.
            devices: to split it over; all of the job if None.
        """
        if not 0 < states < 2**31:
            raise InvalidModel(f"states must be a number in 1..{2**31 - 1}; got {states}")
        discount, mesh = checked_discount(discount), mesh_of(devices)
        begins = _start(initial, states)
        parts: list[tuple[int, Successors]] = []
        fault, mass, shape = None, 0.0, (0, 1, 1, 0)
        try:
            parts = [part for first in _firsts(mesh, states) for part in _read(rows, first, states)]
            mass = sum(float(begins(*_span(part)).sum()) for part in parts)
            shape = _shape(parts)
        except InvalidModel as error:
            fault = error
        # Every process hears of a fault, or the others would wait for this one for ever.
        agreed = _heard([*shape, fault is not None, mass])
        if fault is not None:
            raise fault
        if agreed[:, 4].any():
            raise InvalidModel("another process of this job was given rows that are not valid")
        actions, lanes, width, longest = (int(n) for n in agreed[:, :4].max(axis=0))
        total = float(agreed[:, 5].sum())
        if not abs(total - 1.0) <= ROW_SUM_TOLERANCE:
            raise InvalidModel(f"initial must be a distribution; it sums to {total:.10g}")
        if (agreed[:, 0] != actions)[agreed[:, 0] > 0].any():
            raise InvalidModel(f"all rows must have as many actions; got {agreed[:, 0].tolist()}")
        border = border_of(mesh, states, longest)
        backend = _backend(mesh, parts, (states, actions, lanes, width, border))
        start = split_rows(mesh, (states,), lambda i, j: begins(i, j) / total)
        return cls(backend, start, discount)

    @property
    def states(self) -> int:
        """S, the number of states."""
        return self.backend.count

    @property
    def actions(self) -> int:
        """A, the number of actions."""
        return self.backend.probabilities.shape[1]

    def table(self, rows: Rows[np.ndarray], *lead: int, actions: bool = True) -> jax.Array:
        """[*lead, N, A] or [*lead, N] the table of which `rows(start, stop)` are these states'."""
        shape = (*lead, self.states, *((self.actions,) if actions else ()))
        return split_rows(self.backend.mesh, shape, rows, axis=len(lead))

    def zeros(self, *, actions: bool = False) -> jax.Array:
        """[N] or [N, A] zeros, split."""
        return self.table(lambda start, stop: np.zeros(()), actions=actions)


def _start(initial: Rows[ArrayLike] | int, states: int) -> Rows[np.ndarray]:
    """(start, stop) -> probability of each state, from such a function or one state's number."""
    if callable(initial):
        return lambda start, stop: _checked_start(np.asarray(initial(start, stop), float), start)
    if not 0 <= initial < states:
        raise InvalidModel(f"initial must be the number of a state, 0..{states - 1}; got {initial}")
    return lambda start, stop: (np.arange(start, stop) == initial).astype(float)


def _checked_start(part: np.ndarray, start: int) -> np.ndarray:
    if not (part >= 0).all():
        worst = int(np.argmin(part >= 0))
        raise InvalidModel(
            f"initial must be a distribution; state {start + worst} has {part[worst]}"
        )
    return part


def _firsts(mesh: Mesh, states: int) -> list[range]:
    """The states of each device of this process."""
    own = share(mesh, states)
    return [
        range(i * own, min((i + 1) * own, states))
        for i, device in enumerate(mesh.devices.ravel())
        if device.process_index == jax.process_index() and i * own < states
    ]


def _read(rows: Rows[Successors], own: range, states: int) -> list[tuple[int, Successors]]:
    """The lists of these states, checked, in chunks."""
    chunks = []
    for start in range(own.start, own.stop, CHUNK):
        stop = min(start + CHUNK, own.stop)
        try:
            lists = successor_lists(rows(start, stop), reached=states)
            if len(lists.states) != stop - start:
                raise InvalidModel(f"{stop - start} states were asked for; got {len(lists.states)}")
        except InvalidModel as error:
            raise InvalidModel(f"rows({start}, {stop}), counted from its first: {error}") from None
        shared = shared_successors(lists, reached=states)
        every = np.arange(start, stop, dtype=np.int32)[:, None, None]
        home = at_home(shared.states, shared.probabilities, every)
        chunks.append((start, Successors(home, shared.probabilities)))
    return chunks


def _span(part: tuple[int, Successors]) -> tuple[int, int]:
    return part[0], part[0] + len(part[1].states)


def _shape(parts: list[tuple[int, Successors]]) -> tuple[int, int, int, int]:
    """Actions, lanes (1 where actions share their lists), width of the lists, longest step."""
    actions = {lists.probabilities.shape[1] for _, lists in parts}
    if len(actions) > 1:
        raise InvalidModel(f"all rows must have as many actions; got {sorted(actions)}")
    lanes = max((lists.states.shape[1] for _, lists in parts), default=1)
    width = max((lists.states.shape[2] for _, lists in parts), default=1)
    longest = 0
    for start, lists in parts:
        every = np.arange(start, start + len(lists.states))[:, None, None]
        longest = max(longest, int(np.abs(lists.states - every).max()))
    return max(actions, default=0), lanes, width, longest


def _heard(numbers: list[float]) -> np.ndarray:
    """[processes, n] these numbers of every process."""
    if jax.process_count() == 1:
        return np.array([numbers], float)
    from jax.experimental.multihost_utils import process_allgather

    with jax.enable_x64(True):
        return np.asarray(process_allgather(np.array(numbers, float)))


def _backend(
    mesh: Mesh, parts: list[tuple[int, Successors]], shape: tuple[int, int, int, int, int]
) -> Sharded:
    """The parts in one shape, on the devices."""
    states, actions, lanes, width, border = shape

    def filled(block: np.ndarray, start: int, name: str) -> np.ndarray:
        for first, lists in parts:
            if start <= first < start + len(block):
                part = getattr(lists, name)
                block[first - start :][: len(part), :, : part.shape[2]] = part
        return block

    def places(start: int, stop: int) -> np.ndarray:
        # Padding stays with the state itself, which every view holds.
        own = np.arange(start, stop, dtype=np.int32)[:, None, None]
        block = np.repeat(np.repeat(own, lanes, axis=1), width, axis=2)
        return filled(block, start, "states") - origin(border, start)

    def chances(start: int, stop: int) -> np.ndarray:
        return filled(np.zeros((stop - start, actions, width)), start, "probabilities")

    return Sharded(
        split_rows(mesh, (states, lanes, width), places, dtype=np.int32),
        split_rows(mesh, (states, actions, width), chances),
        mesh,
        states,
        border=border,
        gathered=False,
    )


# Seconds without a word after which a process counts as lost, and in which the others must connect.
PATIENCE = 15
LOST = 4  # the exit code of what cannot be read or written, as of the command line
# Where the others find process 0, in JAX's store, and what a process says that is done.
PLACE, DONE = "tacit/partners", b"."
# What an engine's error says where the network, and so another process, failed it.
NETWORK = ("Gloo", "NCCL", "UNAVAILABLE", "DEADLINE_EXCEEDED", "Connection reset", "heartbeat")
_ending = threading.Lock()  # held by the one that ends this process


def join(
    coordinator: str | None = None, processes: int | None = None, number: int | None = None
) -> None:
    """Makes this process one of a job: `jax.distributed.initialize`, and an end where it is lost.

    Where another process of the job dies, this one says so in one line and ends with exit code 4,
    within half a minute: there is nothing left that it could do. To be called before anything else
    touches JAX.

    Args:
        coordinator: host and port of process 0; where None, from the cluster's own variables.
        processes: how many there are; likewise.
        number: of this one, from 0; likewise.
    """
    jax.distributed.initialize(
        coordinator,
        processes,
        number,
        heartbeat_timeout_seconds=PATIENCE,
        shutdown_timeout_seconds=PATIENCE,
    )
    partners = Partners()
    with suppress(OSError, RuntimeError, AttributeError, ImportError):
        partners.connect()
    partners.watch()


class Partners:
    """The connections of this process to the others of its job.

    Every process holds one to process 0, beside JAX's, closed for it when it dies, whatever
    it dies of; one that is done says so before. They begin with a secret from JAX's own store:
    nobody else ends a job by knocking. Where none can be made, JAX's heartbeats are left. Of the
    loss of process 0, which runs JAX's service, JAX hears as soon, and may say lines of its own.
    """

    def __init__(self) -> None:
        self.connections: list[socket.socket] = []
        self.failed = False

    def connect(self) -> None:
        """Connects every process to process 0."""
        from jax._src import distributed

        job = distributed.global_state
        client = job.client
        if client is None:
            return
        host = str(job.coordinator_address).rsplit(":", 1)[0].strip("[]")
        if jax.process_index() == 0:
            secret = secrets.token_bytes(16)
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            with socket.create_server(("", 0), family=family) as door:
                door.settimeout(PATIENCE)
                client.key_value_set(PLACE, f"{door.getsockname()[1]} {secret.hex()}")
                while len(self.connections) < jax.process_count() - 1:
                    self._admit(door, secret)
        else:
            port, secret = client.blocking_key_value_get(PLACE, 1000 * PATIENCE).split()
            one = socket.create_connection((host, int(port)), timeout=PATIENCE)
            one.sendall(bytes.fromhex(secret))
            self._keep(one)

    def _admit(self, door: socket.socket, secret: bytes) -> None:
        """Keeps the next connection that knows the secret; any other is closed."""
        one, _ = door.accept()
        one.settimeout(PATIENCE)
        answer = b""
        with suppress(OSError):
            answer = one.recv(len(secret), socket.MSG_WAITALL)
        if secrets.compare_digest(answer, secret):
            self._keep(one)
        else:
            one.close()

    def _keep(self, one: socket.socket) -> None:
        """Keeps a connection, and lets the system find out where the other host is gone."""
        one.settimeout(None)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 3), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, name):
                one.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self.connections.append(one)

    def watch(self) -> None:
        """Ends this process where a connection closes or the engine says that one was lost."""
        for one in self.connections:
            threading.Thread(target=_wait, args=(one,), daemon=True).start()
        before = sys.excepthook

        def ended(
            kind: type[BaseException], error: BaseException, at: TracebackType | None
        ) -> None:
            ours = isinstance(error, jax.errors.JaxRuntimeError | ValueError | RuntimeError)
            if ours and any(word in str(error) for word in NETWORK):
                end()  # an engine sees a closed connection as soon as we do
            before(kind, error, at)
            self.failed = True

        sys.excepthook = ended
        atexit.register(self._leave)  # before JAX leaves: what is registered last is called first

    def _leave(self) -> None:
        """Tells the others that this process is done; one that failed is lost to them."""
        if self.failed:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)  # JAX would wait for the others, and they for this one
        for one in self.connections:
            with suppress(OSError):
                one.sendall(DONE)


def _wait(one: socket.socket) -> None:
    """Returns when the other process is done; ends this one where it is lost."""
    answer = b""
    with suppress(OSError):
        answer = one.recv(1)
    if answer != DONE:
        end()


def end() -> None:
    """Ends this process, whose job has lost another, with one line."""
    _ending.acquire()  # never released: who finds the same loss a moment later waits here
    line = "tacit: another process of this job was lost, so this one ends; see what that one said\n"
    with suppress(OSError):
        stream = os.dup(2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # an engine is on its way to say more
        os.write(stream, line.encode())
    os._exit(LOST)
