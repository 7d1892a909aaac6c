"""Where a policy goes and what it collects, by checked linear solves."""

from __future__ import annotations

import numpy as np

from tacit.errors import InvalidModel
from tacit.forward.kernels.elimination import DIRECT_LIMIT, eliminate, substitute
from tacit.forward.kernels.krylov import krylov, size_of
from tacit.mdp import MDP


def visitation(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """[S, A] discounted visitation of a stationary policy [S, A]; sums to 1 / (1 - discount)."""
    policy = check_policy(mdp, policy)
    visits = chain_solve(mdp, *policy_chain(mdp, policy), mdp.initial, transposed=True)
    return np.maximum(visits, 0.0)[:, None] * policy


def policy_values(mdp: MDP, policy: np.ndarray, table: np.ndarray) -> np.ndarray:
    """[S] expected discounted sum of `table` [S, A] or [S] under the policy [S, A]."""
    policy = check_policy(mdp, policy)
    table = np.asarray(table, float)
    if table.shape not in (policy.shape, policy.shape[:1]):
        raise InvalidModel(
            f"table must have shape [S, A] = {policy.shape} or [S]; got {table.shape}"
        )
    if not np.isfinite(table).all():
        raise InvalidModel("table must hold finite numbers; got NaN or infinity")
    gain = (policy * table).sum(axis=1) if table.ndim == 2 else table.copy()
    return chain_solve(mdp, *policy_chain(mdp, policy), gain, transposed=False)


def visitation_recursion(mdp: MDP, policy: np.ndarray, steps: int) -> np.ndarray:
    """[S, A] visitation of the first `steps` steps, by the recursion of the paper's eq. 5.

    d_1 = p0, d_{t+1}(s') = discount * sum_{s,a} d_t(s) policy(s,a) p(s'|s,a); the sum of all d_t.
    """
    policy = check_policy(mdp, policy)
    if steps < 1:
        raise InvalidModel(f"steps must be at least 1; got {steps}")
    visits = mdp.initial.copy()
    total = visits.copy()
    for _ in range(steps - 1):
        visits = mdp.discount * mdp.inflow(visits[:, None] * policy)
        total += visits
        if not visits.any():  # discount 0, or underflow: nothing more can come
            break
    return total[:, None] * policy


def deterministic_visitation(mdp: MDP, actions: np.ndarray) -> np.ndarray:
    """[S] discounted visits of the policy that takes `actions` [S]."""
    chain = deterministic_chain(mdp, actions)
    return np.maximum(chain_solve(mdp, *chain, mdp.initial, transposed=True), 0.0)


def deterministic_values(mdp: MDP, actions: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """[S] discounted sum of `gain` [S] under the policy that takes `actions` [S]."""
    return chain_solve(mdp, *deterministic_chain(mdp, actions), gain, transposed=False)


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


def check_policy(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """The policy as float64 [S, A], or `InvalidModel` naming the worst row."""
    policy = np.asarray(policy, dtype=np.float64)
    if policy.shape != (mdp.states, mdp.actions):
        raise InvalidModel(
            f"policy must have shape [S, A] = ({mdp.states}, {mdp.actions}); got {policy.shape}"
        )
    error = np.abs(policy.sum(axis=1) - 1.0) - 2.0 * np.minimum(policy, 0.0).sum(axis=1)
    error = np.where(np.isfinite(error), error, np.inf)
    worst = int(error.argmax())
    if error[worst] > 1e-6:
        raise InvalidModel(
            f"policy must hold a distribution over actions for every state; "
            f"state {worst} has {policy[worst]}"
        )
    return policy
