"""Linear systems in JAX: batches of small ones by elimination, large ones by checked Krylov steps.

BiCGSTAB's own residual drifts from the true one, and it was seen to report success with a wrong
answer: every claim below is of right - A x computed afresh, in double precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

# Single precision gains this factor on the residual before it is computed afresh.
GAIN = 1e-4
# Steps between two looks at the true residual, and in all.
PATIENCE, LIMIT = 300, 4000


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


def solve_chain(
    rows: Any, weights: Any, discount: Any, right: Any, target: Any, guess: Any = None
) -> Any:
    """[S] the x of x - discount * sum_w weights[s, w] x[rows[s, w]] = right, from `guess`.

    To a largest true residual of `target`. Most of the way goes in single precision, correction by
    correction, which halves the memory that a step has to move; double precision does the rest
    where that no longer gains.
    """

    def product_with(weights: Any) -> Callable[[Any], Any]:
        return lambda x: x - discount.astype(x.dtype) * (weights * x[rows]).sum(axis=1)

    discount = jnp.asarray(discount, jnp.float64)
    return refined(
        product_with(weights),
        product_with(weights.astype(jnp.float32)),
        right,
        target,
        jnp.zeros_like(right) if guess is None else guess,
    )


def refined(product: Any, rough: Any, right: Any, target: Any, x: Any) -> Any:
    """The x of product(x) = right, improved by solves with `rough` in single precision."""

    def correct(state: Any) -> Any:
        x, residual, spent, _ = state
        size = jnp.abs(residual).max()
        share = (residual / size).astype(jnp.float32)
        aim = jnp.maximum(GAIN, 0.5 * target / size).astype(jnp.float32)
        move, steps = _steps(rough, jnp.zeros_like(share), share, aim)
        x = x + size * move.astype(x.dtype)
        fresh = right - product(x)
        return x, fresh, spent + steps, jnp.abs(fresh).max() < 0.1 * size

    return bicgstab(product, right, target, _restarted(correct, product, right, target, x))


def bicgstab(product: Any, right: Any, target: Any, x: Any) -> Any:
    """The x of product(x) = right, to a largest true residual of `target` where that can be had."""

    def restart(state: Any) -> Any:
        x, residual, spent, _ = state
        x, steps = _steps(product, x, residual, 0.5 * target)
        fresh = right - product(x)
        better = jnp.abs(fresh).max() < 0.5 * jnp.abs(residual).max()
        return x, fresh, spent + steps, better

    return _restarted(restart, product, right, target, x)


def _restarted(restart: Any, product: Any, right: Any, target: Any, x: Any) -> Any:
    def going(state: Any) -> Any:
        return (jnp.abs(state[1]).max() > target) & (state[2] < LIMIT) & state[3]

    return jax.lax.while_loop(going, restart, (x, right - product(x), 0, True))[0]


def _steps(product: Any, x: Any, residual: Any, target: Any) -> tuple[Any, Any]:
    """x after as many steps as its own residual asks for, and their number."""
    zero, one = jnp.zeros_like(x), jnp.ones((), x.dtype)
    state = (x, residual, residual, zero, one, one, one, zero, 0)
    x, *_, steps = jax.lax.while_loop(
        lambda s: (jnp.abs(s[1]).max() > target) & (s[8] < PATIENCE) & (s[6] != 0.0),
        lambda s: _bicgstab_step(product, s),
        state,
    )
    return x, steps


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
