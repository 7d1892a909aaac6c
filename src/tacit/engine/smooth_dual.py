"""The smooth dual of the soft constrained dual: its values, loss, gradient and curvature.

The values of a noisy expert are the fixed point V = temperature * logsumexp((reward + discount *
P V) / temperature), found by Newton's method, which is soft policy iteration: each step is the
exact value of the current Boltzmann policy, entropy included. It converges from anywhere,
monotonically after the first step, and quadratically at the end.

The code is the same for every backend: `backend.arrays` is `jax.numpy` or `numpy`, and
`backend.while_loop` is traced or a plain loop. The search for the minimum is in `newton_search.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import numpy as np

from tacit.engine.backends import Array, Backend
from tacit.engine.kernels import compiled_in_double

# Residual that a Newton step may leave of the one it starts from.
INEXACT = 0.1
# Error of the values, as a share of the tolerance of a point.
VALUE_CARE = 1e-2
# What the visits may create or lose, likewise.
VISIT_CARE = 1e-1
# Relative eigenvalue below which a curvature says nothing about a direction.
BLIND = 1e-9
# Root of the information below which a parameter, of a table of range one, is not told at all.
FAINT = 1e-15


class Dual(NamedTuple):
    """The dual of one problem: all that stays fixed while x is sought."""

    start: Array  # [S] weights of the states in the objective; p0 for a dual proper
    discount: Array
    temperature: Array
    base: Array  # [S, A] reward that does not depend on x
    tables: Array  # [D, S, A]
    target: Array  # [D]
    lower: Array  # [D]
    upper: Array  # [D]
    ridge: Array  # [D]
    unit: Array  # [D] step that a coordinate may take from 0 without looking back
    scale: Array  # [D] size of a gradient entry that counts as one
    information: Array  # [S] state weights of the curvature where visits are not positive


class Point(NamedTuple):
    """The objective and its derivatives at one x."""

    x: Array  # [D]
    loss: Array  # scalar
    gradient: Array  # [D]
    curvature: Array  # [D, D]
    values: Array  # [S]
    table_values: Array  # [D, S] derivative of the values in x
    policy: Array  # [S, A]
    visits: Array  # [S] discounted visits from `start` under the policy
    residual: Array  # Bellman residual left


@compiled_in_double
def loss_at(backend: Backend, dual: Dual, x: Array, values: Array, tolerance: Array) -> Array:
    """The objective at x, found from the values of a point nearby."""
    values, _, residual = _expert(backend, dual, x, values, tolerance)
    return _loss(backend, dual, x, values, residual)


@compiled_in_double
def point_at(backend: Backend, dual: Dual, x: Array, values: Array, tolerance: Array) -> Point:
    """The `Point` at x, found from the values of a point nearby."""
    return evaluate(backend, dual, x, values, tolerance)


def evaluate(
    backend: Backend,
    dual: Dual,
    x: Array,
    guess: Array,
    tolerance: Array,
    *,
    near: Point | None = None,
) -> Point:
    """The objective at x, with gradient and curvature by linear solves of the same chain.

    The solves begin from the values `guess` [S] and from what they found at the point `near`.
    """
    xp, discount = backend.arrays, dual.discount
    leak = backend.leak(discount)
    values, policy, residual = _expert(backend, dual, x, guess, tolerance)
    seen, known = (None, None) if near is None else (near.visits, near.table_values)
    average, enough, aim = (policy * dual.tables).sum(axis=2), None, None
    if not (xp is np and backend.direct):  # elimination is as exact as it is
        # The visits weigh the curvature and nothing else: they need not be so exact.
        enough = VISIT_CARE * tolerance * xp.abs(dual.start).sum()
        fine = xp.maximum(1e-14 / leak, 1e-2 * tolerance * leak)
        aim = fine * xp.abs(average).max(axis=1, initial=0.0) + 1e-300
    visits = backend.solve_transposed(policy, discount, dual.start, enough, guess=seen)
    table_values = backend.solve(policy, discount, average, aim, guess=known)
    # Advantages: how much more of a table an action brings than the policy does on average.
    later = backend.expected_next(table_values)
    advantages = dual.tables + discount * later - table_values[:, :, None]
    gradient = table_values @ dual.start - dual.target
    # A table that shifts all values alike moves no action: what is left of it is rounding, which a
    # Newton step would divide by its own square.
    largest = xp.abs(table_values).max(axis=1, initial=0.0)
    inert = xp.abs(advantages).max(axis=(1, 2), initial=0.0) <= 1e-12 * largest
    if xp is not np or inert.any():
        advantages = xp.where(inert[:, None, None], 0.0, advantages)
        rounding = 1e-11 * (largest * xp.abs(dual.start).sum() + xp.abs(dual.target))
        gradient = xp.where(inert & (xp.abs(gradient) <= rounding), 0.0, gradient)
    # With a start below zero some visits may be too, and the true curvature indefinite.
    weights = xp.where(visits > 0, visits, dual.information)
    weighted = advantages * (weights[:, None] * policy)
    flat = (len(x), -1)
    curvature = weighted.reshape(flat) @ advantages.reshape(flat).T if len(x) else xp.zeros((0, 0))
    return Point(
        x,
        _loss(backend, dual, x, values, residual),
        gradient + dual.ridge * x,
        curvature / dual.temperature + xp.diag(dual.ridge),
        values,
        table_values,
        policy,
        visits,
        residual,
    )


def _expert(
    backend: Backend, dual: Dual, x: Array, guess: Array, tolerance: Array
) -> tuple[Array, Array, Array]:
    """[S] values and [S, A] policy of the noisy expert at x, and the Bellman residual left."""
    xp, discount, temperature = backend.arrays, dual.discount, dual.temperature
    if xp is np:  # what `tensordot` does, without its detours
        added = x[None] @ dual.tables.reshape(len(x), dual.base.size)
        reward = dual.base + added.reshape(dual.base.shape)
    else:
        reward = dual.base + xp.tensordot(x, dual.tables, 1)
    leak = backend.leak(discount)
    size = xp.abs(reward).max() + temperature * xp.log(1.0 + reward.shape[1])
    # A residual e moves the values by e / (1 - discount): aim well below the tolerance, but not
    # below what rounding leaves.
    precision = xp.maximum(VALUE_CARE * tolerance * leak, 4e-16 / leak * size)
    if backend.walk is not None:
        return undiscounted_fixed_point(backend, temperature, reward, guess, precision)
    return soft_fixed_point(backend, discount, temperature, reward, guess, precision)


def _loss(backend: Backend, dual: Dual, x: Array, values: Array, residual: Array) -> Array:
    """The objective at x, given the values [S] there; infinite where there are no finite ones."""
    loss = dual.start @ values - x @ dual.target + 0.5 * dual.ridge @ (x * x)
    if backend.walk is None:
        return loss
    return backend.arrays.where(residual < backend.arrays.inf, loss, backend.arrays.inf)


class Iterate(NamedTuple):
    """Where the iteration for the values stands."""

    values: Array  # [S]
    backed: Array  # [S] the values after one backup
    policy: Array  # [S, A] the Boltzmann policy of that backup
    error: Array  # largest difference of the two
    steps: Array
    before: Array  # the error one step ago


def soft_fixed_point(
    backend: Backend,
    discount: Array,
    temperature: Array,
    reward: Array,
    guess: Array,
    target: Array,
    limit: int = 100,
) -> tuple[Array, Array, Array]:
    """[S] values, [S, A] policy, and the largest residual |backup(values) - values| left.

    Args:
        backend: the dynamics.
        discount: scalar.
        temperature: scalar, above 0.
        reward: [S, A].
        guess: [S] values to start from.
        target: residual to reach.
        limit: most Newton steps.
    """
    xp = backend.arrays

    def step(at: Iterate) -> Iterate:
        aim = None
        if not (xp is np and backend.direct):
            # As exactly as the error deserves: an early policy is about to change anyway.
            aim = xp.maximum(INEXACT * at.error, 0.3 * target)
        values = at.values + backend.solve(at.policy, discount, at.backed - at.values, aim)
        backed, policy = backend.soft_backup(discount, temperature, reward, values)
        error = xp.abs(backed - values).max()
        return Iterate(values, backed, policy, error, at.steps + 1, at.error)

    def going(at: Iterate) -> Array:
        # At rounding level the error stops falling: going on would only walk in circles.
        stuck = (at.steps > 3) & (at.error > 0.5 * at.before) & (at.error < 1e3 * target)
        return (at.error > target) & (at.steps < limit) & (stuck ^ True)

    backed, policy = backend.soft_backup(discount, temperature, reward, guess)
    start = Iterate(guess, backed, policy, xp.abs(backed - guess).max(), 0, xp.inf)
    end = backend.while_loop(going, step, start)
    return end.values, end.policy, end.error


# At discount 1 an iteration that leaves a residual above this share of its values has no end.
FINITE = 1e-9
# Values larger than this many steps' worth are on their way to infinity.
DIVERGED = 1e9
# Newton's next step would move finite values by less than this share of them.
STEADY = 1e-6
# Longer episodes than this are no longer told from those that never end: rounding in a length.
LONGEST = 1e12


def undiscounted_fixed_point(
    backend: Backend, temperature: Array, reward: Array, guess: Array, target: Array
) -> tuple[Array, Array, Array]:
    """The same at discount 1: the values may be infinite, and then the residual is.

    From the guess; and, where that leads nowhere, from the values of the walk to the nearest end,
    below the values sought: from there each step is exact, finite and upwards, unless there is no
    upper end. Where there are no finite values, those of the walk come back with its policy.
    """
    xp = backend.arrays

    def settled(values: Array, policy: Array, error: Array) -> Array:
        unit = xp.abs(reward).max() + temperature
        largest = xp.abs(values).max()
        # Beyond that many steps' worth the residual is rounding: it vanishes where values diverge.
        close = error <= xp.maximum(1e3 * target, FINITE * (largest + unit))  # not where it is NaN
        # At the very border of finite values the residual vanishes and Newton's steps do not.
        backed, _ = backend.soft_backup(1.0, temperature, reward, values)
        asked = xp.stack([backed - values, xp.ones_like(values)])
        aims = xp.stack([1e-3 * target, xp.asarray(1e-3)])
        step, lengths = backend.solve(policy, 1.0, asked, aims)
        steady = xp.abs(step).max() <= STEADY * (largest + unit)
        # Values far beyond all payments can repeat themselves by rounding alone, under a policy
        # that never ends. No lengths meet their equation there, in no norm below 1.
        later = (policy * backend.expected_next(lengths)).sum(axis=1)
        ends = (xp.abs(1.0 + later - lengths).max() <= 0.5) & (xp.abs(lengths).max() <= LONGEST)
        return close & steady & ends & (largest <= DIVERGED * unit)

    values, policy, error = soft_fixed_point(backend, 1.0, temperature, reward, guess, target)
    good = settled(values, policy, error)
    if xp is np and good:
        return values, policy, error
    gain = (backend.walk * reward).sum(axis=1)
    below = backend.solve(backend.walk, 1.0, gain, 1e-3 * target)
    # A second iteration that has nothing to do where the first has done it.
    begin = xp.where(good, values, below)
    again = soft_fixed_point(
        backend, 1.0, temperature, reward, begin, xp.where(good, xp.inf, target)
    )
    values = xp.where(good, values, again[0])
    policy = xp.where(good, policy, again[1])
    error = xp.where(good, error, again[2])
    good = settled(values, policy, error)
    return (
        xp.where(good, values, below),
        xp.where(good, policy, backend.walk),
        xp.where(good, error, xp.inf),
    )


def inverse_information(fisher: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[D, D] the inverse on the free parameters, and [B, D] the directions it knows nothing of."""
    size = len(fisher)
    covariance, kept = np.zeros((size, size)), np.flatnonzero(free)
    if len(kept) == 0:
        return covariance, np.zeros((0, size))
    block = fisher[np.ix_(kept, kept)]
    units = np.sqrt(np.maximum(np.diagonal(block), 0.0))
    faint = units <= FAINT
    units[faint], block[faint], block[:, faint] = 1.0, 0.0, 0.0
    eigenvalues, vectors = np.linalg.eigh(block / np.outer(units, units))
    seen = np.asarray(eigenvalues > BLIND * max(eigenvalues.max(), 0.0))
    half = vectors[:, seen] / np.sqrt(eigenvalues[seen])
    covariance[np.ix_(kept, kept)] = (half @ half.T) / np.outer(units, units)
    directions = np.zeros((int(np.logical_not(seen).sum()), size))
    directions[:, kept] = (vectors[:, np.logical_not(seen)] / units[:, None]).T
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    return covariance, directions / np.where(lengths > 0, lengths, 1.0)


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
