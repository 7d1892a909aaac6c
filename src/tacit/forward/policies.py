"""Policies: the formulas of optimal and noisy choice, where a policy goes, what it collects."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from tacit.engine.backends.host import chain_solve, deterministic_chain, policy_chain
from tacit.errors import InvalidModel
from tacit.model.ends import inside_policy, never_ending, outside_visitation
from tacit.model.mdp import MDP


def greedy_values(utility: np.ndarray) -> np.ndarray:
    """[S] the best action's value, for action values `utility` [S, A]."""
    return row_maxima(utility)


def soft_values(utility: np.ndarray, temperature: float) -> np.ndarray:
    """[S] temperature * logsumexp(utility / temperature) over actions, without overflow."""
    best = row_maxima(utility)
    return best + temperature * np.log(row_sums(np.exp((utility - best[:, None]) / temperature)))


def soft_policy(utility: np.ndarray, temperature: float) -> np.ndarray:
    """[S, A] the Boltzmann policy of action values `utility` [S, A]."""
    weights = np.exp((utility - utility.max(axis=1, keepdims=True)) / temperature)
    return weights / weights.sum(axis=1, keepdims=True)


def greedy_policy(utility: np.ndarray) -> np.ndarray:
    """[S, A] all mass on the first best action."""
    policy = np.zeros_like(utility)
    policy[np.arange(len(utility)), utility.argmax(axis=1)] = 1.0
    return policy


def entropy(policy: np.ndarray) -> np.ndarray:
    """[S] entropy of the actions, in nats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(policy > 0, -policy * np.log(policy), 0.0)
    return row_sums(terms)


def row_sums(table: np.ndarray) -> np.ndarray:
    """[S] sums over the actions of `table` [S, A], as a product: several times faster."""
    return table @ np.ones(table.shape[1])


def row_maxima(table: np.ndarray) -> np.ndarray:
    """[S] maxima over the actions of `table` [S, A], column by column where those are few."""
    states, actions = table.shape
    if states < 1000 or actions > 16:
        return table.max(axis=1)
    return functools.reduce(np.maximum, table.T)


def largest_entry(table: np.ndarray) -> float:
    """The largest absolute value of a table, without a table of absolute values."""
    return max(float(table.max()), -float(table.min()))


def stationary_policy(
    visitation: np.ndarray, fallback: Callable[[], np.ndarray] | None = None
) -> np.ndarray:
    """[S, A] the stationary policy with this visitation.

    States that are never visited take the greedy action of `fallback()` [S, A], which is minus
    infinity for actions that are not there, or are uniform.
    """
    visits = row_sums(visitation)[:, None]
    if visits.min() > 0:
        return visitation / visits
    visited = visits[:, 0] > 0
    policy = visitation / np.where(visits > 0, visits, 1.0)
    policy[~visited] = 1.0 / visitation.shape[1]
    if fallback is not None:
        policy[~visited] = greedy_policy(fallback()[~visited])
    return policy


def visitation(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """[S, A] discounted visitation of a stationary policy [S, A]; sums to 1 / (1 - discount).

    Where episodes end it sums to their expected discounted length; the arrivals in an end are
    spread evenly over its row.
    """
    policy = check_policy(mdp, policy)
    visits = chain_solve(mdp, *policy_chain(mdp, policy), mdp.initial, transposed=True)
    return outside_visitation(mdp, np.maximum(visits, 0.0)[:, None] * policy)


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
    return outside_visitation(mdp, total[:, None] * policy)


def deterministic_visitation(mdp: MDP, actions: np.ndarray) -> np.ndarray:
    """[S] discounted visits of the policy that takes `actions` [S]."""
    chain = deterministic_chain(mdp, actions)
    return np.maximum(chain_solve(mdp, *chain, mdp.initial, transposed=True), 0.0)


def deterministic_values(mdp: MDP, actions: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """[S] discounted sum of `gain` [S] under the policy that takes `actions` [S]."""
    return chain_solve(mdp, *deterministic_chain(mdp, actions), gain, transposed=False)


def check_policy(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """The policy as float64 [S, A], or `InvalidModel` naming the worst row.

    Rows of ends, 0 outside, come back with the one choice that solvers see there.
    """
    policy = np.asarray(policy, dtype=np.float64)
    if policy.shape != (mdp.states, mdp.actions):
        raise InvalidModel(
            f"policy must have shape [S, A] = ({mdp.states}, {mdp.actions}); got {policy.shape}"
        )
    policy = inside_policy(mdp, policy)
    error = np.abs(policy.sum(axis=1) - 1.0) - 2.0 * np.minimum(policy, 0.0).sum(axis=1)
    error = np.where(np.isfinite(error), error, np.inf)
    worst = int(error.argmax())
    if error[worst] > 1e-6:
        raise InvalidModel(
            f"policy must hold a distribution over actions for every state; "
            f"state {worst} has {policy[worst]}"
        )
    if mdp.restricted:
        _check_available(mdp, policy)
    return policy


def _check_available(mdp: MDP, policy: np.ndarray) -> None:
    """`InvalidModel` where a policy does what is not there, or at discount 1 never ends."""
    stray = np.where(mdp.choices, 0.0, policy)
    if stray.any():
        s, a = (int(i) for i in np.argwhere(stray)[0])
        raise InvalidModel(
            f"policy must be 0 where an action is not available; "
            f"(state {s}, action {a}) has {policy[s, a]:g}"
        )
    if mdp.discount == 1.0:
        from scipy.sparse import csr_array

        rows, weights = policy_chain(mdp, policy)
        at = np.repeat(np.arange(mdp.states), rows.shape[1])
        shape = (mdp.states, mdp.states)
        chain = csr_array((weights.ravel(), (at, rows.ravel())), shape=shape)
        lost = never_ending(mdp, chain)
        if lost.any():
            raise InvalidModel(
                f"policy must come to an end from every state at discount 1; "
                f"state {int(lost.argmax())} goes on for ever"
            )
