"""Draws of the law whose density is exp(-loss) of a smooth dual, by the No-U-Turn sampler."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import numpy as np

from tacit.engine.backends import Array, Backend
from tacit.search.smooth_dual import Dual, evaluate


class Chains(NamedTuple):
    """Draws of x by the No-U-Turn sampler, and what tells whether they can be believed."""

    draws: np.ndarray  # [C, N, D]
    r_hat: np.ndarray  # [D] potential scale reduction of the halves of all chains
    effective: np.ndarray  # [D] independent draws that they are worth
    divergences: int  # steps that left the energy: a part of the law may not have been reached


def sampled(
    backend: Backend,
    dual: Dual,
    *,
    around: tuple[np.ndarray, np.ndarray],
    prior: tuple[np.ndarray, np.ndarray],
    chains: int,
    draws: int,
    seed: int,
) -> Chains:
    """Draws of the law whose density is exp(-loss) times a normal prior, x within its lower bounds.

    Bounded coordinates are walked by the logarithm of their distance from the bound. The gradient
    is that of the envelope theorem: nothing is differentiated through the fixed point.

    Args:
        backend: the dynamics, in JAX.
        dual: the loss.
        around: [D] centre and [D] spread of the law, roughly.
        prior: [D] means and [D] precisions; precision 0 for none.
        chains: walked one after the other, each from a start of its own.
        draws: kept of each chain; as many before them tune the steps.
        seed: of everything random.
    """
    import jax
    import jax.numpy as jnp

    blackjax = import_module("blackjax")  # an extra, which need not be installed
    centre, spread = around
    means, precisions = prior
    bounded = np.isfinite(dual.lower)
    lower = np.where(bounded, dual.lower, 0.0)
    start = np.maximum(centre - lower, 0.1 * spread)

    def place(u: Array) -> Array:
        return jnp.where(bounded, lower + jnp.exp(jnp.where(bounded, u, 0.0)), centre + spread * u)

    def walk(u: Array) -> tuple[Array, Array]:
        x = place(u)
        point = evaluate(backend, dual, x, jnp.zeros(len(dual.start)), 1e-9)
        loss = point.loss + 0.5 * (precisions * (x - means) ** 2).sum()
        slope = point.gradient + precisions * (x - means)
        slope = slope * jnp.where(bounded, x - lower, spread) - bounded
        density = jnp.where(bounded, u, 0.0).sum() - loss
        there = jnp.isfinite(density) & jnp.isfinite(slope).all()
        return jnp.where(there, density, -jnp.inf), jnp.where(there, -slope, 0.0)

    @jax.custom_vjp
    def density(u: Array) -> Array:
        return walk(u)[0]

    density.defvjp(walk, lambda slope, back: (back * slope,))

    def chain(given: tuple[Array, Array]) -> tuple[Array, Array]:
        key, begin = given
        tuning, drawing = jax.random.split(key)
        tuned = blackjax.window_adaptation(
            blackjax.nuts, density, is_mass_matrix_diagonal=False, target_acceptance_rate=0.9
        )
        (state, parameters), _ = tuned.run(tuning, begin, num_steps=draws)
        kernel = blackjax.nuts(density, **parameters).step

        def step(state: Array, key: Array) -> tuple[Array, tuple[Array, Array]]:
            state, info = kernel(key, state)
            return state, (place(state.position), info.is_divergent)

        return jax.lax.scan(step, state, jax.random.split(drawing, draws))[1]

    rng = np.random.default_rng(seed)
    apart = np.where(bounded, np.minimum(spread / start, 1.0), 1.0)
    begin = np.where(bounded, np.log(start), 0.0) + apart * rng.normal(size=(chains, len(centre)))
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(seed), chains)
        found, diverged = jax.jit(lambda given: jax.lax.map(chain, given))((keys, begin))
        halves = found[:, : draws - draws % 2].reshape(2 * chains, draws // 2, -1)
        r_hat = blackjax.diagnostics.potential_scale_reduction(halves)
        effective = blackjax.diagnostics.effective_sample_size(found)
        shown = [np.asarray(one) for one in (found, jnp.atleast_1d(r_hat))]
        worth = np.asarray(jnp.atleast_1d(effective))
    return Chains(*shown, effective=worth, divergences=int(np.asarray(diverged).sum()))
