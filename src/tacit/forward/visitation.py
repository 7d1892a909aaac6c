"""Where a policy goes and what it collects, by checked linear solves."""

from __future__ import annotations

import numpy as np

from tacit.engine.backends.host import chain_solve, deterministic_chain, policy_chain
from tacit.errors import InvalidModel
from tacit.model.mdp import MDP


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
