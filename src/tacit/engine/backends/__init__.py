"""Engines that hold a model: dense and direct when small, successor lists when large.

Small models live in NumPy, where nobody waits for a compiler, or in JAX, where it was loaded before
and is faster; batches of them live in JAX. Large ones live on an accelerator in JAX, on a CPU
in compiled loops, or split over many devices. Nothing else in the library knows which. Those on
NumPy arrays are here, with a policy's Markov chain, its linear systems, and soft values on any.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacit.engine import MESH, Array, Backend, State
from tacit.engine.kernels import at_hand, row_blocks, side_by_side
from tacit.engine.kernels.backups import NOTHING, fused_backup
from tacit.engine.kernels.chains import (
    DIRECT_LIMIT,
    eliminate,
    krylov,
    size_of,
    substitute,
)

if TYPE_CHECKING:
    from jax.sharding import Mesh

    from tacit.model.mdp import MDP

# Residual that a Newton step may leave of the one it starts from.
INEXACT = 0.1

# Up to this many states one dense factorisation beats any number of sparse products.
DENSE_LIMIT = 256


def backend_of(mdp: MDP, *, whole: bool = False) -> Backend:
    """The model's dynamics, stored as its size and the machine suggest; kept with the model.

    `whole` is for a batch, which is split by problems: the model stays in one piece, inside
    `tacit.scale.sharded` too, and in JAX, which does many small ones at once.
    """
    mesh = None if whole else MESH.get()
    form = (mesh, whole and mdp.states <= DENSE_LIMIT)
    kept, of = mdp.__dict__.get("_backend", (None, None))
    if kept is None or of != form:
        kept = _build(mdp, mesh, whole)
        mdp.__dict__["_backend"] = (kept, form)
    return kept


@functools.cache
def compiler_is_there() -> bool:
    """Whether JAX was loaded before the first model asked.

    Then nobody waits for it, and many small fits are several times as fast. It is decided once a
    process, so that what comes later in a run does not depend on what came before.
    """
    return "jax" in sys.modules


def _build(mdp: MDP, mesh: Mesh | None, whole: bool) -> Backend:
    if mdp.states <= DENSE_LIMIT and not whole and not compiler_is_there():
        return Direct(mdp)
    import jax

    from tacit.engine.backends.device import dense, sparse

    if mdp.states <= DENSE_LIMIT:
        return dense(mdp)
    # Undiscounted systems need elimination to fall back on, which no split model has.
    if mesh is not None and mdp.discount < 1.0:
        from tacit.engine.backends.sharded import sharded_backend

        return sharded_backend(mdp, mesh)
    return Host(mdp) if jax.default_backend() == "cpu" else sparse(mdp)


def policy_chain(mdp: MDP, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[S, W] next states, ascending in every row, and [S, W] their probabilities."""
    rows, weights = mdp.packed.states, mdp.packed_weights(policy)
    if rows.shape[1] == 1:
        return rows[:, 0, :], weights
    rows, weights = (table.reshape(mdp.states, -1) for table in (rows, weights))
    order = np.argsort(rows, axis=1, kind="stable")
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(weights, order, axis=1)


def chain_solve(
    mdp: MDP,
    rows: np.ndarray,
    weights: np.ndarray,
    right: np.ndarray,
    *,
    transposed: bool,
    target: Array = 0.0,
    guess: np.ndarray | None = None,
) -> np.ndarray:
    """[..., S] the x of (I - discount P) x = right [..., S], or of the transpose, from `guess`.

    The Krylov answer is taken only if its true residual, the largest entry or, transposed, the sum
    of all, is at most `target` or at rounding level; else the system is solved by elimination.
    """
    right = np.ascontiguousarray(right, dtype=np.float64)
    x = np.zeros(right.shape) if guess is None else np.array(guess, dtype=np.float64, order="C")
    if mdp.states <= DIRECT_LIMIT:
        sides = zip(right.reshape(-1, mdp.states), x.reshape(-1, mdp.states), strict=True)
        try:
            with at_hand(mdp.states):
                factors = eliminate(rows, weights, mdp.discount, transposed)
                for side, found in sides:
                    substitute(factors, side, found)
        except ZeroDivisionError:  # singular: at discount 1, a policy that never ends
            x[:] = np.nan
        return x
    if right.ndim > 1:
        targets = np.broadcast_to(target, len(right))

        def single(d: int) -> None:
            given = {"transposed": transposed, "target": targets[d], "guess": x[d]}
            x[d] = chain_solve(mdp, rows, weights, right[d], **given)

        side_by_side(single, range(len(x)))
        return x
    # A solution is at most this much larger than the right side, and rounding is a share of it.
    largest = size_of(right, transposed) / mdp.leak
    if not np.isfinite(largest):
        return np.full(mdp.states, np.nan)
    target = max(target, 1e-15 * largest, 1e-14 * mdp.leak * largest)
    if krylov(rows, weights, mdp.discount, transposed, right, x, target, 4000):
        return x
    from scipy.sparse import coo_array, eye_array
    from scipy.sparse.linalg import splu

    every = np.repeat(np.arange(mdp.states), rows.shape[1])
    chain = coo_array((weights.ravel(), (every, rows.ravel())), shape=(mdp.states,) * 2)
    system = (eye_array(mdp.states) - mdp.discount * chain).tocsc()
    try:
        return splu(system).solve(right, trans="T" if transposed else "N")
    except RuntimeError:  # singular: at discount 1, a policy that never ends
        return np.full(mdp.states, np.nan)


class Stepwise:
    """What the backends on NumPy arrays have in common: algorithms run step by step."""

    arrays = np

    def __init__(self, mdp: MDP) -> None:
        self.missing, self.walk, self.length = mdp.limits

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

    def linear_solve(self, matrix: Array, right: Array) -> Array:
        """The x of matrix x = right [n, ...], for a small matrix."""
        return np.linalg.solve(matrix, right)


class Direct(Stepwise):
    """The linear maps of one small model as a dense array, every system solved by elimination.

    A compiler takes seconds before its first answer, and at this size gains little after it: most
    of the work is LAPACK's either way.
    """

    direct = True

    def __init__(self, mdp: MDP) -> None:
        super().__init__(mdp)
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

    def solve(
        self,
        policy: Array,
        discount: Array,
        right: Array,
        target: Array,
        *,
        guess: Array = None,
    ) -> Array:
        """[..., S] the values x of the policy's chain: x = right + discount * P x."""
        return self._solved(self._system(policy, discount), right)

    def solve_transposed(
        self,
        policy: Array,
        discount: Array,
        right: Array,
        target: Array,
        *,
        guess: Array = None,
    ) -> Array:
        """[S] the visits x of the policy's chain: x = right + discount * P' x."""
        return self._solved(self._system(policy, discount).T, right)

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

    def _solved(self, system: np.ndarray, right: Array) -> np.ndarray:
        """Solves for the last axis of `right`, by one factorisation."""
        return self.linear_solve(system, np.atleast_2d(right).T).T.reshape(right.shape)


class Host(Stepwise):
    """The linear maps of one large model, in compiled loops over its successor lists."""

    direct = False

    def __init__(self, mdp: MDP) -> None:
        super().__init__(mdp)
        self._mdp = mdp
        self._masked = NOTHING if self.missing is None else self.missing

    def expected_next(self, values: Array) -> Array:
        """[..., S, A] expected value of the next state, for values [..., S]."""
        if values.ndim == 1:
            return self._mdp.expected_next(values)
        later = np.empty((len(values), self._mdp.states, self._mdp.actions))

        def one(d: int) -> None:
            later[d] = self._mdp.expected_next(values[d])

        side_by_side(one, range(len(values)))
        return later

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

    def solve(
        self,
        policy: Array,
        discount: Array,
        right: Array,
        target: Array,
        *,
        guess: Array = None,
    ) -> Array:
        """[..., S] the values x of the policy's chain: x = right + discount * P x."""
        return self._solved(policy, right, target, guess, transposed=False)

    def solve_transposed(
        self,
        policy: Array,
        discount: Array,
        right: Array,
        target: Array,
        *,
        guess: Array = None,
    ) -> Array:
        """[S] the visits x of the policy's chain: x = right + discount * P' x."""
        return self._solved(policy, right, target, guess, transposed=True)

    def _solved(
        self, policy: Array, right: Array, target: Array, guess: Array, *, transposed: bool
    ) -> np.ndarray:
        given = {"transposed": transposed, "target": target, "guess": guess}
        return chain_solve(self._mdp, *policy_chain(self._mdp, policy), right, **given)


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
        values = at.values + backend.solve(at.policy, discount, at.backed - at.values, aim)
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
