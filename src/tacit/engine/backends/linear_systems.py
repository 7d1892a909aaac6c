"""Linear systems in JAX: batches of small ones by elimination, large ones by checked Krylov steps.

BiCGSTAB's own residual drifts from the true one, and it was seen to report success with a wrong
answer: every claim below is of right - A x computed afresh.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.engine import Array

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


class SolveProgress(NamedTuple):
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

    def restart(at: SolveProgress) -> SolveProgress:
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
        return SolveProgress(x, residual, at.spent + end.steps, after < 0.5 * before)

    def some_steps(state: Recurrence) -> Recurrence:
        for _ in range(AT_ONCE):
            state = _bicgstab_step(product, state)
        return state

    def plain(at: SolveProgress) -> SolveProgress:
        one = lambda _, s: (s[0] + s[1], right - product(s[0] + s[1]))  # noqa: E731
        x, fresh = jax.lax.fori_loop(0, BLOCK, one, (at.x, at.residual))
        # At rounding level it stops falling.
        return SolveProgress(x, fresh, at.spent + BLOCK, size(fresh) < 0.98 * size(at.residual))

    def going(limit: int) -> Callable[[SolveProgress], Array]:
        return lambda at: (size(at.residual) > target) & (at.spent < limit) & at.gaining

    x = jnp.zeros_like(right) if guess is None else guess
    start = SolveProgress(x, right - product(x), 0, True)
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
