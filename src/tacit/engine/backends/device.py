"""Linear systems in JAX: batches of small ones by elimination, large ones by checked Krylov steps.

BiCGSTAB's own residual drifts from the true one, and it was seen to report success with a wrong
answer: every claim below is of right - A x computed afresh.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.engine.backends.protocol import Array, State

if TYPE_CHECKING:
    from tacit.model.mdp import MDP


# A loop on an accelerator asks the host whether to go on: not after every step.
AT_ONCE = 8
# Steps between two looks at the true residual, and in all.
PATIENCE, LIMIT = 300, 4000
# Plain steps at once, and in all: enough for a discount of 0.999 to gain twelve digits.
BLOCK, PLAIN = 32, 30_000


Size = Callable[[Array], Array]


def eliminated(matrix: Array, right: Array) -> Array:
    """The x of matrix x = right, by Gauss and Jordan's elimination without pivoting.

    Made of plain array operations, so that a batch of small systems is one program. Stable for what
    it is used for: I - discount P, which is diagonally dominant, and positive definite matrices.
    """
    size = len(matrix)
    columns = right.reshape(size, -1)

    def step(k: Array, table: Array) -> Array:
        row = table[k] / table[k, k]
        rest = table - jnp.outer(table[:, k], row)
        return jnp.where((jnp.arange(size) == k)[:, None], row, rest)

    table = jax.lax.fori_loop(0, size, step, jnp.concatenate([matrix, columns], axis=1))
    return table[:, size:].reshape(right.shape)


def largest(residual: Array) -> Array:
    """The size of a residual that matters for values: its largest entry."""
    return jnp.abs(residual).max()


def total(residual: Array) -> Array:
    """The size of a residual that matters for visits: in a million states small ones add up."""
    return jnp.abs(residual).sum()


def solve_chain(
    rows: Array,
    weights: Array,
    discount: Array,
    right: Array,
    target: Array,
    guess: Array = None,
    size: Size = largest,
) -> Array:
    """[S] the x of x - discount * sum_w weights[s, w] x[rows[s, w]] = right, from `guess`."""

    def product(x: Array) -> Array:
        return x - discount * (weights * x[rows]).sum(axis=1)

    return bicgstab(product, right, target, guess, size)


class Approach(NamedTuple):
    """How far a solve has come, by the true residual."""

    x: Array
    residual: Array  # right - product(x), computed afresh
    spent: Array  # steps so far
    gaining: Array  # whether the last steps made the residual smaller


class Recurrence(NamedTuple):
    """The vectors and numbers of BiCGSTAB, and the residual that it believes in."""

    x: Array
    residual: Array
    shadow: Array
    direction: Array
    rho: Array
    alpha: Array
    omega: Array  # 0 after a breakdown
    image: Array
    steps: Array


def bicgstab(
    product: Callable[[Array], Array],
    right: Array,
    target: Array,
    guess: Array = None,
    size: Size = largest,
) -> Array:
    """The x of product(x) = right, to a true residual of size `target` where that can be had.

    `product` is I - discount P. Where the Krylov steps no longer gain, plain steps x + residual go
    on: they shrink the residual by the discount each, whatever the chain.
    """

    def restart(at: Approach) -> Approach:
        zero = jnp.zeros_like(at.x)
        # Uneven weights: the residual itself breaks down after one step where it is an eigenvector
        # of the transpose, as an even start is for the visits of any policy.
        shadow = at.residual * (1.0 + 0.5 * jnp.cos(jnp.arange(len(at.x), dtype=at.x.dtype)))
        end = jax.lax.while_loop(
            lambda s: (size(s.residual) > 0.5 * target) & (s.steps < PATIENCE) & (s.omega != 0.0),
            some_steps,
            Recurrence(at.x, at.residual, shadow, zero, 1.0, 1.0, 1.0, zero, 0),
        )
        fresh = right - product(end.x)
        before, after = size(at.residual), size(fresh)
        better = after < before  # not where it is NaN
        x, residual = jnp.where(better, end.x, at.x), jnp.where(better, fresh, at.residual)
        return Approach(x, residual, at.spent + end.steps, after < 0.5 * before)

    def some_steps(state: Recurrence) -> Recurrence:
        for _ in range(AT_ONCE):
            state = _bicgstab_step(product, state)
        return state

    def plain(at: Approach) -> Approach:
        one = lambda _, s: (s[0] + s[1], right - product(s[0] + s[1]))  # noqa: E731
        x, fresh = jax.lax.fori_loop(0, BLOCK, one, (at.x, at.residual))
        # At rounding level it stops falling.
        return Approach(x, fresh, at.spent + BLOCK, size(fresh) < 0.98 * size(at.residual))

    def going(limit: int) -> Callable[[Approach], Array]:
        return lambda at: (size(at.residual) > target) & (at.spent < limit) & at.gaining

    x = jnp.zeros_like(right) if guess is None else guess
    start = Approach(x, right - product(x), 0, True)
    end = jax.lax.while_loop(going(LIMIT), restart, start)
    return jax.lax.while_loop(going(PLAIN), plain, end._replace(spent=0, gaining=True)).x


def _bicgstab_step(product: Callable[[Array], Array], at: Recurrence) -> Recurrence:
    fresh = at.shadow @ at.residual
    direction = at.residual + fresh / at.rho * (at.alpha / at.omega) * (
        at.direction - at.omega * at.image
    )
    image = product(direction)
    alpha = fresh / (at.shadow @ image)
    middle = at.residual - alpha * image
    other = product(middle)
    size = other @ other
    omega = jnp.where(size > 0, (other @ middle) / jnp.where(size > 0, size, 1.0), 0.0)
    x = at.x + alpha * direction + omega * middle
    residual = middle - omega * other
    finite = jnp.isfinite(alpha) & jnp.isfinite(omega) & (fresh != 0)
    return Recurrence(
        x=jnp.where(finite, x, at.x),  # a breakdown keeps the last x
        residual=jnp.where(finite, residual, at.residual),
        shadow=at.shadow,
        direction=direction,
        rho=fresh,
        alpha=alpha,
        omega=jnp.where(finite, omega, 0.0),
        image=image,
        steps=at.steps + 1,
    )


def for_each(one: Callable[..., Array], right: Array, target: Array, guess: Array) -> Array:
    """[..., S] what `one` finds for right sides [..., S], targets [...] and guesses [..., S]."""
    guess = jnp.zeros_like(right) if guess is None else guess
    return (jax.vmap(one) if right.ndim > 1 else one)(right, target, guess)


class Traced:
    """What the JAX backends have in common."""

    arrays = jnp
    direct = False
    expected_next: Array

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
    """

    states: Array
    probabilities: Array
    predecessors: Array

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
        return Dense(jnp.asarray(mdp.dense()))


def sparse(mdp: MDP) -> Sparse:
    """The model as successor and predecessor lists."""
    packed = mdp.packed
    shared = packed.states.shape[1] == 1
    reached = packed.states[:, 0] if shared else packed.states.reshape(mdp.states, -1)
    used = (packed.probabilities > 0).any(axis=1) if shared else packed.probabilities > 0
    target = np.where(used.reshape(reached.shape), reached, mdp.states).ravel()
    degree = np.bincount(target, minlength=mdp.states + 1)[: mdp.states]
    width = int(degree.max())
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
            jnp.asarray(packed.states), jnp.asarray(packed.probabilities), jnp.asarray(predecessors)
        )
