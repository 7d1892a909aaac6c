"""What else is done with a smooth dual than searched step by step (`newton_search.py`).

It is minimised in one go (`minimise`), and sampled as the law whose density is exp(-loss). With
very many coordinates its curvature is known by products alone: then come steps from those
(`bounded_step`) and sparse factors of it and of chains (`inverse_by_values`, `Factors`).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from tacit.engine.backends import Array, Backend, compiled_in_double
from tacit.engine.newton_search import Dual, Point, advanced, begin, evaluate

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Numbers apart that neighbours may be, over the root of all: states of a plane.
NARROW = 10
# Products by which the largest eigenvalue of a matrix is found.
STRETCH = 8


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


class Matrix(Protocol):
    """A symmetric matrix, not negative, that is known by its products with vectors."""

    def __matmul__(self, vector: np.ndarray, /) -> np.ndarray:
        """[D] the product with a vector [D]."""
        ...


def conjugate_gradients(
    matrix: Matrix,
    right: np.ndarray,
    free: np.ndarray,
    *,
    share: float,
    most: int,
    rough: Callable[[np.ndarray], np.ndarray],
) -> tuple[np.ndarray, int, float]:
    """[D] x with matrix x = right on the free coordinates; products taken; residual left.

    Args:
        matrix: of the system.
        right: [D].
        free: [D] bool; the others stay 0.
        share: of the right side, at which to stop.
        most: products.
        rough: an approximate inverse.
    """
    x, residual = np.zeros(len(right)), np.where(free, right, 0.0)
    whole = float(np.linalg.norm(residual))
    best, least = x, 1.0
    if whole == 0.0:
        return x, 0, 0.0
    direction = np.where(free, rough(residual), 0.0)
    square = float(residual @ direction)
    for taken in range(1, most + 1):
        image = np.where(free, matrix @ direction, 0.0)
        bend = float(direction @ image)
        if not bend > 1e-14 * float(direction @ direction):  # flat: nothing is known there
            return best, taken, least
        length = square / bend
        x, residual = x + length * direction, residual - length * image
        left = float(np.linalg.norm(residual)) / whole
        if left < least:
            best, least = x, left
        if left <= share:
            return best, taken, least
        ahead = np.where(free, rough(residual), 0.0)
        fresh = float(residual @ ahead)
        direction, square = ahead + fresh / square * direction, fresh
    return best, most, least


def bounded_step(
    matrix: Matrix,
    gradient: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    share: float,
    most: int,
) -> tuple[np.ndarray, int]:
    """[D] the step d to the minimum of d . matrix d / 2 + gradient . d within bounds; products.

    Conjugate gradients among the coordinates inside; where one meets its bound, a step of steepest
    descent that is cut off there; and off the bounds again where the slope leads inside and weighs
    more than what is left to gain (Dostal and Schoeberl, 2005).

    Args:
        matrix: of the quadratic model.
        gradient: [D] at no step.
        low: [D] at most 0.
        high: [D] at least 0.
        share: of the projected gradient, at which to stop.
        most: products.
    """
    can, d, g = high > low, np.zeros(len(gradient)), gradient
    fixed, products = 1.5 / max(_largest_eigenvalue(matrix, len(gradient)), 1e-300), STRETCH

    def slopes() -> tuple[np.ndarray, np.ndarray]:
        at_low, at_high = d <= low, d >= high
        inward = np.where(at_low, np.minimum(g, 0.0), np.where(at_high, np.maximum(g, 0.0), 0.0))
        return np.where(can & ~at_low & ~at_high, g, 0.0), np.where(can, inward, 0.0)

    inside, inward = slopes()
    aim, p = share * np.linalg.norm(inside + inward), inside
    while np.linalg.norm(inside + inward) > aim and products < most:
        room = np.where(inside > 0, d - low, d - high) / fixed
        reduced = np.where(inside > 0, np.minimum(room, inside), np.maximum(room, inside))
        leaving = bool(inward @ inward > reduced @ inside)
        p = inward if leaving else p
        image = matrix @ p
        bend = float(p @ image)
        room = np.where(p > 0, d - low, d - high) / np.where(p != 0, p, 1.0)
        furthest = float(np.where(p != 0, room, np.inf).min())
        length = float(g @ p) / bend if bend > 1e-14 * float(p @ p) else np.inf
        step = min(length, furthest)
        if not np.isfinite(step):  # flat, and no bound ahead
            break
        d, g, products = np.clip(d - step * p, low, high), g - step * image, products + 1
        blocked = length > furthest
        if blocked and not leaving:
            d = np.clip(d - fixed * np.where(can, g, 0.0), low, high)
            g, products = gradient + matrix @ d, products + 1
        inside, inward = slopes()
        p = inside if blocked or leaving else inside - float(inside @ image) / bend * p
    return d, products


def _largest_eigenvalue(matrix: Matrix, size: int) -> float:
    """About the largest eigenvalue, by powers of the matrix."""
    x, found = np.random.default_rng(0).normal(size=size), 0.0
    for _ in range(STRETCH):
        x = matrix @ (x / max(float(np.linalg.norm(x)), 1e-300))
        found = float(np.linalg.norm(x))
    return 1.2 * found


def inverse_by_values(
    moves: csr_array,
    policy: np.ndarray,
    visits: np.ndarray,
    discount: float,
    worth: np.ndarray,
    penalty: csr_array,
) -> Callable[[np.ndarray], np.ndarray] | None:
    """What divides by a curvature and its penalty, where every state has a feature of its own.

    A direction d has the values V of (I - discount P) V = worth d, in which all is sparse: the
    curvature is V' K V with K = sum_s visits(s) Cov_a[discount p(. | s, a)]. So one factorisation
    serves every right side. None where states lie so that it would fill up: on no line or plane.

    Args:
        moves: [S * A, S] chances of the next state.
        policy: [S, A].
        visits: [S] not negative.
        discount: of the values.
        worth: [S] what a parameter of one pays in its state, not 0.
        penalty: [S, S].
    """
    from scipy.sparse import csc_array, csr_array, diags_array, eye_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee
    from scipy.sparse.linalg import splu

    states, actions = policy.shape
    places = np.arange(states * actions), np.arange(0, states * actions + 1, actions)
    average = csr_array((policy.ravel(), *places), shape=(states, states * actions))
    ahead = discount * moves
    mean = csr_array(average @ ahead)
    rank = np.argsort(reverse_cuthill_mckee(csr_array(mean + mean.T), True))
    if (
        np.abs(rank[mean.nonzero()[0]] - rank[mean.nonzero()[1]]).max(initial=0)
        > NARROW * states**0.5
    ):
        return None
    weights = diags_array((visits[:, None] * policy).ravel())
    spread = ahead.T @ weights @ ahead - mean.T @ diags_array(visits) @ mean
    back = csr_array(diags_array(1.0 / worth) @ (eye_array(states) - mean))
    # What neither steps nor the penalty know of, and rounding does, must not be multiplied.
    held = penalty + 1e-4 * float(penalty.diagonal().mean()) * eye_array(states)
    factor = splu(
        csc_array(spread + back.T @ held @ back),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    return lambda right: back @ factor.solve(back.T @ right)


@compiled_in_double
def minimise(
    backend: Backend, dual: Dual, x: Array, values: Array, tolerance: Array, max_steps: Array
) -> tuple[Point, Array]:
    """The `Point` of the minimum over lower <= x <= upper, and the evaluations it took."""
    start = begin(dual, x, values, arrays=backend.arrays)
    end = advanced(backend, dual, start, tolerance, max_steps)
    return end.point, end.steps
