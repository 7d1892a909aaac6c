"""A model in JAX: one dense array when small, successor lists when large."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from tacit.engine import Array, State
from tacit.engine.backends.linear_systems import bicgstab, eliminated, for_each, solve_chain, total

if TYPE_CHECKING:
    from tacit.model.mdp import MDP


class Traced:
    """What the JAX backends have in common."""

    arrays = jnp
    direct = False
    expected_next: Array
    missing: Array = None
    walk: Array = None
    length: Array = None

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

    def linear_solve(self, matrix: Array, right: Array) -> Array:
        """The x of matrix x = right [n, ...], for a small matrix."""
        return jnp.linalg.solve(matrix, right)

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
        missing: [S, A] bool, the actions that are not there; None where all are.
        walk: [S, A] at discount 1, a policy that reaches an end for sure; else None.
        length: the states that it passes on average, at most; None likewise.
        many: whether it is one of a batch under `jax.vmap`.
    """

    matrix: Array
    missing: Array = field(default=None, kw_only=True)
    walk: Array = field(default=None, kw_only=True)
    length: Array = field(default=None, kw_only=True)
    many: bool = field(default=False, metadata={"static": True})

    direct = True

    def expected_next(self, values: Array) -> Array:
        """[..., S, A] expected value of the next state, for values [..., S]."""
        return jnp.einsum("sat,...t->...sa", self.matrix, values)

    def inflow(self, table: Array) -> Array:
        """[S] what flows into each state."""
        return jnp.einsum("sa,sat->t", table, self.matrix)

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

    def _system(self, policy: Array, discount: Array) -> Array:
        chain = jnp.einsum("sa,sat->st", policy, self.matrix)
        return jnp.eye(chain.shape[0]) - discount * chain

    def _solved(self, system: Array, right: Array) -> Array:
        """Solves for the last axis of `right`, by one factorisation."""
        return self.linear_solve(system, jnp.atleast_2d(right).T).T.reshape(right.shape)

    def linear_solve(self, matrix: Array, right: Array) -> Array:
        """The x of matrix x = right [n, ...], for a matrix that needs no pivoting."""
        # XLA's batched LAPACK calls lock up inside loops on a CPU with few cores, and a GPU's
        # library does one small matrix at a time.
        return eliminated(matrix, right) if self.many else jnp.linalg.solve(matrix, right)


class Lists(Traced):
    """A large model as successor lists, `states` [S, 1 or A, W] and `probabilities` [S, A, W]."""

    states: Array
    probabilities: Array

    def _chain(self, table: Array) -> tuple[Array, Array]:
        """[S, W] next states and [S, W] weights when `table` [S, A] weighs the actions."""
        if self.states.shape[1] == 1:
            return self.states[:, 0], jnp.einsum("sa,saw->sw", table, self.probabilities)
        count = self.states.shape[0]
        weights = (table[:, :, None] * self.probabilities).reshape(count, -1)
        return self.states.reshape(count, -1), weights


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Sparse(Lists):
    """A large model, as successor lists shared between actions where possible (`MDP.packed`).

    Attributes:
        states: [S, 1, W] or [S, A, W] next states.
        probabilities: [S, A, W].
        predecessors: [S, V] for each state, the entries of a flattened chain [S * W] that lead to
            it, padded with S * W: gathering them beats scattering. [S, 0] where some state has
            too many.
        missing: [S, A] bool, the actions that are not there; None where all are.
        walk: [S, A] at discount 1, a policy that reaches an end for sure; else None.
        length: the states that it passes on average, at most; None likewise.
    """

    states: Array
    probabilities: Array
    predecessors: Array
    missing: Array = field(default=None, kw_only=True)
    walk: Array = field(default=None, kw_only=True)
    length: Array = field(default=None, kw_only=True)

    def expected_next(self, values: Array) -> Array:
        """[..., S, A] expected value of the next state, for values [..., S]."""
        if values.ndim > 1:
            return jax.vmap(self.expected_next)(values)
        return (self.probabilities * values[self.states]).sum(axis=2)

    def inflow(self, table: Array) -> Array:
        """[S] what flows into each state."""
        weights = self._chain(table)[1]
        return (
            self._reversed(weights)[1].sum(axis=1)
            if self.predecessors.shape[1]
            else self._scatter(weights)
        )

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
        rows, weights = self._chain(policy)

        def one(right: Array, target: Array, guess: Array) -> Array:
            return solve_chain(rows, weights, discount, right, target, guess)

        return for_each(one, right, target, guess)

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
        _, weights = self._chain(policy)
        if self.predecessors.shape[1]:
            return solve_chain(*self._reversed(weights), discount, right, target, guess, total)

        def product(x: Array) -> Array:
            return x - discount * self._scatter(weights * x[:, None])

        return bicgstab(product, right, target, guess, total)

    def _reversed(self, weights: Array) -> tuple[Array, Array]:
        """[S, V] the states before each state, and [S, V] the chain's weights from there."""
        taken = jnp.take(weights.ravel(), self.predecessors, mode="fill", fill_value=0.0)
        last = weights.shape[0] - 1
        return jnp.minimum(self.predecessors // weights.shape[1], last), taken

    def _scatter(self, weights: Array) -> Array:
        """[S] the sum of the chain's entries [S, W] that lead to each state."""
        rows = jnp.broadcast_to(self.states, self.probabilities.shape)
        rows = self.states[:, 0] if self.states.shape[1] == 1 else rows.reshape(len(rows), -1)
        return jnp.zeros(weights.shape[0]).at[rows].add(weights)


def dense(mdp: MDP) -> Dense:
    """The model as one dense array."""
    with jax.enable_x64(True):
        return Dense(jnp.asarray(mdp.dense()), **_limits(mdp))


def _limits(mdp: MDP) -> dict[str, Array]:
    parts = zip(("missing", "walk", "length"), mdp.limits, strict=True)
    return {name: None if part is None else jnp.asarray(part) for name, part in parts}


def sparse(mdp: MDP) -> Sparse:
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
        return Sparse(
            jnp.asarray(packed.states),
            jnp.asarray(packed.probabilities),
            jnp.asarray(predecessors),
            **_limits(mdp),
        )
