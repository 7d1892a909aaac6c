"""Linear systems in JAX: batches of small ones by elimination, large ones by checked Krylov steps.

BiCGSTAB's own residual drifts from the true one, and it was seen to report success with a wrong
answer: every claim below is of right - A x computed afresh.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from tacit.model.mdp import MDP


# A loop on an accelerator asks the host whether to go on: not after every step.
AT_ONCE = 8
# Steps between two looks at the true residual, and in all.
PATIENCE, LIMIT = 300, 4000
# Plain steps at once, and in all: enough for a discount of 0.999 to gain twelve digits.
BLOCK, PLAIN = 32, 30_000


def eliminated(matrix: Any, right: Any) -> Any:
    """The x of matrix x = right, by Gauss and Jordan's elimination without pivoting.

    Made of plain array operations, so that a batch of small systems is one program. Stable for what
    it is used for: I - discount P, which is diagonally dominant, and positive definite matrices.
    """
    size = len(matrix)
    columns = right.reshape(size, -1)

    def step(k: Any, table: Any) -> Any:
        row = table[k] / table[k, k]
        rest = table - jnp.outer(table[:, k], row)
        return jnp.where((jnp.arange(size) == k)[:, None], row, rest)

    table = jax.lax.fori_loop(0, size, step, jnp.concatenate([matrix, columns], axis=1))
    return table[:, size:].reshape(right.shape)


def largest(residual: Any) -> Any:
    """The size of a residual that matters for values: its largest entry."""
    return jnp.abs(residual).max()


def total(residual: Any) -> Any:
    """The size of a residual that matters for visits: in a million states small ones add up."""
    return jnp.abs(residual).sum()


def solve_chain(
    rows: Any,
    weights: Any,
    discount: Any,
    right: Any,
    target: Any,
    guess: Any = None,
    size: Any = largest,
) -> Any:
    """[S] the x of x - discount * sum_w weights[s, w] x[rows[s, w]] = right, from `guess`."""

    def product(x: Any) -> Any:
        return x - discount * (weights * x[rows]).sum(axis=1)

    x = jnp.zeros_like(right) if guess is None else guess
    return bicgstab(product, right, target, x, size)


def bicgstab(product: Any, right: Any, target: Any, x: Any, size: Any = largest) -> Any:
    """The x of product(x) = right, to a true residual of size `target` where that can be had.

    `product` is I - discount P. Where the Krylov steps no longer gain, plain steps x + residual go
    on: they shrink the residual by the discount each, whatever the chain.
    """

    def restart(state: Any) -> Any:
        x, residual, spent, _ = state
        zero = jnp.zeros_like(x)
        # Uneven weights: the residual itself breaks down after one step where it is an eigenvector
        # of the transpose, as an even start is for the visits of any policy.
        shadow = residual * (1.0 + 0.5 * jnp.cos(jnp.arange(len(x), dtype=x.dtype)))
        found, *_, steps = jax.lax.while_loop(
            lambda s: (size(s[1]) > 0.5 * target) & (s[8] < PATIENCE) & (s[6] != 0.0),
            some_steps,
            (x, residual, shadow, zero, 1.0, 1.0, 1.0, zero, 0),
        )
        fresh = right - product(found)
        before, after = size(residual), size(fresh)
        better = after < before  # not where it is NaN
        x, residual = jnp.where(better, found, x), jnp.where(better, fresh, residual)
        return x, residual, spent + steps, after < 0.5 * before

    def some_steps(state: Any) -> Any:
        for _ in range(AT_ONCE):
            state = _bicgstab_step(product, state)
        return state

    def plain(state: Any) -> Any:
        x, residual, spent, _ = state
        one = lambda _, s: (s[0] + s[1], right - product(s[0] + s[1]))  # noqa: E731
        x, fresh = jax.lax.fori_loop(0, BLOCK, one, (x, residual))
        # At rounding level it stops falling.
        return x, fresh, spent + BLOCK, size(fresh) < 0.98 * size(residual)

    def going(limit: int) -> Any:
        return lambda state: (size(state[1]) > target) & (state[2] < limit) & state[3]

    state = jax.lax.while_loop(going(LIMIT), restart, (x, right - product(x), 0, True))
    return jax.lax.while_loop(going(PLAIN), plain, (*state[:2], 0, True))[0]


def _bicgstab_step(product: Any, state: Any) -> Any:
    x, residual, shadow, direction, rho, alpha, omega, image, steps = state
    fresh = shadow @ residual
    direction = residual + fresh / rho * (alpha / omega) * (direction - omega * image)
    image = product(direction)
    alpha = fresh / (shadow @ image)
    middle = residual - alpha * image
    other = product(middle)
    size = other @ other
    omega = jnp.where(size > 0, (other @ middle) / jnp.where(size > 0, size, 1.0), 0.0)
    x = x + alpha * direction + omega * middle
    residual = middle - omega * other
    finite = jnp.isfinite(alpha) & jnp.isfinite(omega) & (fresh != 0)
    keep = lambda new, old: jnp.where(finite, new, old)  # noqa: E731 - a breakdown keeps the last x
    return (
        keep(x, state[0]),
        keep(residual, state[1]),
        shadow,
        direction,
        fresh,
        alpha,
        jnp.where(finite, omega, 0.0),
        image,
        steps + 1,
    )


class Traced:
    """What the JAX backends have in common."""

    arrays = jnp
    direct = False
    expected_next: Any

    def while_loop(self, going: Any, step: Any, state: Any) -> Any:
        """The state after repeating `step` while `going`, as one compiled loop."""
        return jax.lax.while_loop(going, step, state)

    def select(self, condition: Any, new: Any, old: Any) -> Any:
        """`new` if the condition holds, else `old`."""
        return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)

    def linear_solve(self, matrix: Any, right: Any) -> Any:
        """The x of matrix x = right [n, ...], for a small matrix."""
        return jnp.linalg.solve(matrix, right)

    def soft_backup(
        self, discount: Any, temperature: Any, reward: Any, values: Any
    ) -> tuple[Any, Any]:
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

    matrix: Any
    many: bool = field(default=False, metadata={"static": True})

    direct = True

    def expected_next(self, values: Any) -> Any:
        """[..., S, A] expected value of the next state, for values [..., S]."""
        return jnp.einsum("sat,...t->...sa", self.matrix, values)

    def inflow(self, table: Any) -> Any:
        """[S] what flows into each state."""
        return jnp.einsum("sa,sat->t", table, self.matrix)

    def solve(
        self, policy: Any, discount: Any, right: Any, target: Any, *, guess: Any = None
    ) -> Any:
        """[..., S] the values x of the policy's chain: x = right + discount * P x."""
        return self._solved(self._system(policy, discount), right)

    def solve_transposed(
        self, policy: Any, discount: Any, right: Any, target: Any, *, guess: Any = None
    ) -> Any:
        """[S] the visits x of the policy's chain: x = right + discount * P' x."""
        return self._solved(self._system(policy, discount).T, right)

    def _system(self, policy: Any, discount: Any) -> Any:
        chain = jnp.einsum("sa,sat->st", policy, self.matrix)
        return jnp.eye(chain.shape[0]) - discount * chain

    def _solved(self, system: Any, right: Any) -> Any:
        """Solves for the last axis of `right`, by one factorisation."""
        return self.linear_solve(system, jnp.atleast_2d(right).T).T.reshape(right.shape)

    def linear_solve(self, matrix: Any, right: Any) -> Any:
        """The x of matrix x = right [n, ...], for a matrix that needs no pivoting."""
        # XLA's batched LAPACK calls lock up inside loops on a CPU with few cores, and a GPU's
        # library does one small matrix at a time.
        return eliminated(matrix, right) if self.many else jnp.linalg.solve(matrix, right)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Sparse(Traced):
    """A large model, as successor lists shared between actions where possible (`MDP.layout`).

    Attributes:
        states: [S, 1, W] or [S, A, W] next states.
        probabilities: [S, A, W].
        predecessors: [S, V] for each state, the entries of a flattened chain [S * W] that lead to
            it, padded with S * W: gathering them beats scattering. [S, 0] where some state has
            too many.
    """

    states: Any
    probabilities: Any
    predecessors: Any

    def expected_next(self, values: Any) -> Any:
        """[..., S, A] expected value of the next state, for values [..., S]."""
        if values.ndim > 1:
            return jax.vmap(self.expected_next)(values)
        return (self.probabilities * values[self.states]).sum(axis=2)

    def inflow(self, table: Any) -> Any:
        """[S] what flows into each state."""
        weights = self._chain(table)[1]
        return (
            self._reversed(weights)[1].sum(axis=1)
            if self.predecessors.shape[1]
            else self._scatter(weights)
        )

    def solve(
        self, policy: Any, discount: Any, right: Any, target: Any, *, guess: Any = None
    ) -> Any:
        """[..., S] the values x of the policy's chain: x = right + discount * P x."""
        if right.ndim > 1:
            guess = jnp.zeros_like(right) if guess is None else guess
            return jax.vmap(lambda r, t, g: self.solve(policy, discount, r, t, guess=g))(
                right, target, guess
            )
        return solve_chain(*self._chain(policy), discount, right, target, guess)

    def solve_transposed(
        self, policy: Any, discount: Any, right: Any, target: Any, *, guess: Any = None
    ) -> Any:
        """[S] the visits x of the policy's chain: x = right + discount * P' x."""
        _, weights = self._chain(policy)
        if self.predecessors.shape[1]:
            return solve_chain(*self._reversed(weights), discount, right, target, guess, total)

        def product(x: Any) -> Any:
            return x - discount * self._scatter(weights * x[:, None])

        x = jnp.zeros_like(right) if guess is None else guess
        return bicgstab(product, right, target, x, total)

    def _chain(self, table: Any) -> tuple[Any, Any]:
        """[S, W] next states and [S, W] weights when `table` [S, A] weighs the actions."""
        if self.states.shape[1] == 1:
            return self.states[:, 0], jnp.einsum("sa,saw->sw", table, self.probabilities)
        count = self.states.shape[0]
        weights = (table[:, :, None] * self.probabilities).reshape(count, -1)
        return self.states.reshape(count, -1), weights

    def _reversed(self, weights: Any) -> tuple[Any, Any]:
        """[S, V] the states before each state, and [S, V] the chain's weights from there."""
        taken = jnp.take(weights.ravel(), self.predecessors, mode="fill", fill_value=0.0)
        last = weights.shape[0] - 1
        return jnp.minimum(self.predecessors // weights.shape[1], last), taken

    def _scatter(self, weights: Any) -> Any:
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
    layout = mdp.layout
    shared = layout.states.shape[1] == 1
    reached = layout.states[:, 0] if shared else layout.states.reshape(mdp.states, -1)
    used = (layout.probabilities > 0).any(axis=1) if shared else layout.probabilities > 0
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
            jnp.asarray(layout.states), jnp.asarray(layout.probabilities), jnp.asarray(predecessors)
        )
