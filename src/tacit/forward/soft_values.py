"""The value of a noisy expert: the soft Bellman fixed point, by Newton's method, in JAX.

Newton on V = temperature * logsumexp((reward + discount * P V) / temperature) is soft policy
iteration: each step is the exact value of the current Boltzmann policy, entropy included. It
converges from anywhere, monotonically after the first step, and quadratically at the end.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tacit.forward.dynamics import Dense, Sparse


def soft_backup(
    world: Dense | Sparse, discount: Any, temperature: Any, reward: Any, values: Any
) -> tuple[Any, Any]:
    """[S] the soft values after one backup of `values`, and [S, A] the Boltzmann policy."""
    scaled = (reward + discount * world.expected_next(values)) / temperature
    best = scaled.max(axis=1, keepdims=True)
    weights = jnp.exp(scaled - best)
    total = weights.sum(axis=1, keepdims=True)
    return (temperature * (best + jnp.log(total)))[:, 0], weights / total


def soft_fixed_point(
    world: Dense | Sparse,
    discount: Any,
    temperature: Any,
    reward: Any,
    guess: Any,
    target: Any,
    limit: int = 100,
) -> tuple[Any, Any, Any]:
    """[S] values, [S, A] policy, and the largest residual |backup(values) - values| left.

    Args:
        world: the dynamics.
        discount: scalar.
        temperature: scalar, above 0.
        reward: [S, A].
        guess: [S] values to start from.
        target: residual to reach.
        limit: most Newton steps.
    """

    def step(state: Any) -> Any:
        values, backed, policy, error, steps, _ = state
        # As exactly as the error deserves: an early policy is about to change anyway.
        aim = jnp.maximum(0.02 * error, 0.3 * target)
        values = values + world.solve(policy, discount, backed - values, aim)
        backed, policy = soft_backup(world, discount, temperature, reward, values)
        fresh = jnp.abs(backed - values).max()
        return values, backed, policy, fresh, steps + 1, error

    def going(state: Any) -> Any:
        _, _, _, error, steps, before = state
        # At rounding level the error stops falling: going on would only walk in circles.
        stuck = (steps > 3) & (error > 0.5 * before) & (error < 1e3 * target)
        return (error > target) & (steps < limit) & ~stuck

    backed, policy = soft_backup(world, discount, temperature, reward, guess)
    error = jnp.abs(backed - guess).max()
    start = (guess, backed, policy, error, 0, jnp.inf)
    values, _, policy, error, _, _ = jax.lax.while_loop(going, step, start)
    return values, policy, error
