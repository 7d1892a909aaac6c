"""The value of a noisy expert: the soft Bellman fixed point, by Newton's method.

Newton on V = temperature * logsumexp((reward + discount * P V) / temperature) is soft policy
iteration: each step is the exact value of the current Boltzmann policy, entropy included. It
converges from anywhere, monotonically after the first step, and quadratically at the end.

The code is the same for every engine: `world.arrays` is `jax.numpy` or `numpy`, and
`world.while_loop` is traced or a plain loop.
"""

from __future__ import annotations

from typing import Any

from tacit.forward.world import World

# Residual that a Newton step may leave of the one it starts from.
INEXACT = 0.1


def soft_fixed_point(
    world: World,
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
    xp = world.arrays

    def step(state: Any) -> Any:
        values, backed, policy, error, steps, _ = state
        # As exactly as the error deserves: an early policy is about to change anyway.
        aim = xp.maximum(INEXACT * error, 0.3 * target)
        values = values + world.solve(policy, discount, backed - values, aim)
        backed, policy = world.soft_backup(discount, temperature, reward, values)
        return values, backed, policy, xp.abs(backed - values).max(), steps + 1, error

    def going(state: Any) -> Any:
        _, _, _, error, steps, before = state
        # At rounding level the error stops falling: going on would only walk in circles.
        stuck = (steps > 3) & (error > 0.5 * before) & (error < 1e3 * target)
        return (error > target) & (steps < limit) & xp.logical_not(stuck)

    backed, policy = world.soft_backup(discount, temperature, reward, guess)
    start = (guess, backed, policy, xp.abs(backed - guess).max(), 0, xp.inf)
    values, _, policy, error, _, _ = world.while_loop(going, step, start)
    return values, policy, error
