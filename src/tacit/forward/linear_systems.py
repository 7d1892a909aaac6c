"""Linear systems in JAX: batches of small ones by elimination, large ones by checked Krylov steps.

BiCGSTAB's own residual drifts from the true one, and it was seen to report success with a wrong
answer: every claim below is of right - A x computed afresh.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

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
