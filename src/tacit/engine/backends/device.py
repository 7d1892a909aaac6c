"""A model in JAX: one dense array when small, successor lists when large."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from tacit.engine import Array, Backend, Side, State
from tacit.engine.backends.linear_systems import bicgstab, eliminated, largest, total

if TYPE_CHECKING:
    from tacit.model.mdp import MDP


@dataclass(frozen=True, eq=False, kw_only=True)
class Traced(Backend):
    """What the JAX backends have in common.

    Attributes:
        missing: [S, A] bool, the actions that are not there; None where all are.
        walk: [S, A] at discount 1, a policy that reaches an end for sure; else None.
        length: the states that it passes on average, at most; None likewise.
    """

    missing: Array = None
    walk: Array = None
    length: Array = None

    arrays = jnp
    direct = False

    def leak(self, discount: Array) -> Array:
        """1 - discount; at discount 1, 1 over the length of the walk."""
        return 1 - discount if self.walk is None else 1.0 / self.length

    def while_loop(
        self, going: Callable[[State], Array], step: Callable[[State], State], state: State
    ) -> State:
        """The state after repeating `step` while `going`, as one compiled loop."""
        return jax.lax.while_loop(going, step, state)

    def select(self, condition: Array, new: State, old: State) -> State:
        """`new` if the condition holds, else `old`."""
        return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)

    def soft_backup(
        self, discount: Array, temperature: Array, reward: Array, values: Array
    ) -> tuple[Array, Array]:
        """[S] soft values after one backup, and [S, A] the Boltzmann policy."""
        scaled = (reward + discount * self.expected_next(values)) / temperature
        if self.missing is not None:
            scaled = jnp.where(self.missing, -jnp.inf, scaled)
        best = scaled.max(axis=1, keepdims=True)
        weights = jnp.exp(scaled - best)
        total = weights.sum(axis=1, keepdims=True)
        return (temperature * (best + jnp.log(total)))[:, 0], weights / total


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Dense(Traced):
    """A small model.

    Attributes:
        matrix: [S, A, S] transitions.
        many: whether it is one of a batch under `jax.vmap`.
    """

    matrix: Array
    many: bool = field(default=False, metadata={"static": True})

    direct = True

    def expected_next(self, values: Array) -> Array:
        """[..., S, A] expected value of the next state, for values [..., S]."""
        return jnp.einsum("sat,...t->...sa", self.matrix, values)

    def inflow(self, table: Array) -> Array:
        """[S] what flows into each state."""
        return jnp.einsum("sa,sat->t", table, self.matrix)

    def solve(self, policy: Array, discount: Array, side: Side) -> Array:
        """[..., S] the values x of the policy's chain; transposed, [S] its visits."""
        chain = jnp.einsum("sa,sat->st", policy, self.matrix)
        system = jnp.eye(chain.shape[0]) - discount * chain
        system, columns = system.T if side.transposed else system, jnp.atleast_2d(side.right).T
        return self.linear_solve(system, columns).T.reshape(side.right.shape)

    def linear_solve(self, matrix: Array, right: Array) -> Array:
        """The x of matrix x = right [n, ...], for a matrix that needs no pivoting."""
        # XLA's batched LAPACK calls lock up inside loops on a CPU with few cores, and a GPU's
        # library does one small matrix at a time.
        return eliminated(matrix, right) if self.many else jnp.linalg.solve(matrix, right)


@dataclass(frozen=True, eq=False)
class Lists(Traced):
    """A large model as successor lists, shared between actions where possible (`MDP.packed`).

    Attributes:
        states: [S, 1, W] or [S, A, W] next states.
        probabilities: [S, A, W].
    """

    states: Array
    probabilities: Array

    def inflow(self, table: Array) -> Array:
        """[S] what flows into each state."""
        return self._backward(*self._chain(table))(jnp.ones(len(table)))

    def solve(self, policy: Array, discount: Array, side: Side) -> Array:
        """[..., S] the values x of the policy's chain; transposed, [S] its visits."""
        along = (self._backward if side.transposed else self._forward)(*self._chain(policy))
        size = total if side.transposed else largest

        def one(right: Array, target: Array, guess: Array) -> Array:
            return bicgstab(lambda x: x - discount * along(x), right, target, guess, size)

        guess = jnp.zeros_like(side.right) if side.guess is None else side.guess
        return (jax.vmap(one) if side.right.ndim > 1 else one)(side.right, side.target, guess)

    def _chain(self, table: Array) -> tuple[Array, Array]:
        """[S, W] next states and [S, W] weights when `table` [S, A] weighs the actions."""
        if self.states.shape[1] == 1:
            return self.states[:, 0], jnp.einsum("sa,saw->sw", table, self.probabilities)
        count = self.states.shape[0]
        weights = (table[:, :, None] * self.probabilities).reshape(count, -1)
        return self.states.reshape(count, -1), weights

    def _forward(self, rows: Array, weights: Array) -> Callable[[Array], Array]:
        """x [S] -> [S] the sum over the next states of a chain, rows and weights [S, W]."""
        raise NotImplementedError

    def _backward(self, rows: Array, weights: Array) -> Callable[[Array], Array]:
        """x [S] -> [S] the sum over the states before each state: the transpose."""
        raise NotImplementedError


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class SparseLists(Lists):
    """A large model on one device.

    Attributes:
        predecessors: [S, V] for each state, the entries of a flattened chain [S * W] that lead to
            it, padded with S * W: gathering them beats scattering. [S, 0] where some state has
            too many.
    """

    predecessors: Array

    def expected_next(self, values: Array) -> Array:
        """[..., S, A] expected value of the next state, for values [..., S]."""
        if values.ndim > 1:
            return jax.vmap(self.expected_next)(values)
        return (self.probabilities * values[self.states]).sum(axis=2)

    def _forward(self, rows: Array, weights: Array) -> Callable[[Array], Array]:
        return lambda x: (weights * x[rows]).sum(axis=1)

    def _backward(self, rows: Array, weights: Array) -> Callable[[Array], Array]:
        if self.predecessors.shape[1] == 0:
            return lambda x: jnp.zeros(len(weights)).at[rows].add(weights * x[:, None])
        taken = jnp.take(weights.ravel(), self.predecessors, mode="fill", fill_value=0.0)
        before = jnp.minimum(self.predecessors // weights.shape[1], len(weights) - 1)
        return self._forward(before, taken)


def dense(mdp: MDP) -> Dense:
    """The model as one dense array."""
    with jax.enable_x64(True):
        return Dense(jnp.asarray(mdp.dense()), **_limits(mdp))


def _limits(mdp: MDP) -> dict[str, Array]:
    parts = zip(("missing", "walk", "length"), mdp.limits, strict=True)
    return {name: None if part is None else jnp.asarray(part) for name, part in parts}


def sparse(mdp: MDP) -> SparseLists:
    """The model as successor and predecessor lists."""
    packed = mdp.packed
    shared = packed.states.shape[1] == 1
    reached = packed.states[:, 0] if shared else packed.states.reshape(mdp.states, -1)
    used = (packed.probabilities > 0).any(axis=1) if shared else packed.probabilities > 0
    target = np.where(used.reshape(reached.shape), reached, mdp.states).ravel()
    degree = np.bincount(target, minlength=mdp.states + 1)[: mdp.states]
    width = max(int(degree.max()), 1)
    # One hub (an absorbing end, say) would pad every other state's list to its own length.
    if width * mdp.states > 4 * target.size:
        predecessors = np.zeros((mdp.states, 0), np.int32)
    else:
        order = np.argsort(target, kind="stable")[: int(degree.sum())]
        predecessors = np.full((mdp.states, width), target.size, np.int32)
        first = np.concatenate([[0], np.cumsum(degree)[:-1]])
        slot = np.arange(len(order)) - np.repeat(first, degree)
        predecessors[target[order], slot] = order
    with jax.enable_x64(True):
        return SparseLists(
            jnp.asarray(packed.states),
            jnp.asarray(packed.probabilities),
            jnp.asarray(predecessors),
            **_limits(mdp),
        )
