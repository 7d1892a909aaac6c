"""The Markov chain that a policy makes of a model, and its checked linear systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.forward.kernels.elimination import DIRECT_LIMIT, eliminate, substitute
from tacit.forward.kernels.krylov import krylov, size_of

if TYPE_CHECKING:
    from tacit.mdp import MDP


def deterministic_chain(mdp: MDP, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[S, W] next states, ascending in every row, and [S, W] their probabilities."""
    layout = mdp.layout
    every = np.arange(mdp.states)
    lane = 0 if layout.states.shape[1] == 1 else actions
    return layout.states[every, lane], layout.probabilities[every, actions]


def policy_chain(mdp: MDP, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[S, W] next states, ascending in every row, and [S, W] their probabilities."""
    rows, weights = mdp.layout.states, mdp.layout_weights(policy)
    if rows.shape[1] == 1:
        return rows[:, 0, :], weights
    rows, weights = (table.reshape(mdp.states, -1) for table in (rows, weights))
    order = np.argsort(rows, axis=1, kind="stable")
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(weights, order, axis=1)


def chain_solve(
    mdp: MDP,
    rows: np.ndarray,
    weights: np.ndarray,
    right: np.ndarray,
    *,
    transposed: bool,
    target: float = 0.0,
    guess: np.ndarray | None = None,
) -> np.ndarray:
    """[S] the solution of (I - discount P) x = right, or of its transpose, sought from `guess`.

    The Krylov answer is taken only if its true residual, the largest entry or, transposed, the sum
    of all, is at most `target` or at rounding level; else the system is solved by elimination.
    """
    right = np.ascontiguousarray(right, dtype=np.float64)
    x = np.zeros(mdp.states) if guess is None else np.array(guess, dtype=np.float64)
    if mdp.states <= DIRECT_LIMIT:
        substitute(eliminate(rows, weights, mdp.discount, transposed), right, x)
        return x
    # A solution is at most this much larger than the right side, and rounding is a share of it.
    largest = size_of(right, transposed) / (1.0 - mdp.discount)
    if not np.isfinite(largest):
        return np.full(mdp.states, np.nan)
    target = max(target, 1e-15 * largest, 1e-14 * (1.0 - mdp.discount) * largest)
    if krylov(rows, weights, mdp.discount, transposed, right, x, target, 4000):
        return x
    from scipy.sparse import coo_array, eye_array
    from scipy.sparse.linalg import splu

    every = np.repeat(np.arange(mdp.states), rows.shape[1])
    chain = coo_array((weights.ravel(), (every, rows.ravel())), shape=(mdp.states,) * 2)
    factors = splu((eye_array(mdp.states) - mdp.discount * chain).tocsc())
    return factors.solve(right, trans="T" if transposed else "N")
