"""Policies: where one goes, what it collects, and the best one by policy iteration, eliminating.

Without a discount policy iteration starts from the walk to the nearest end and leaves an action
only for one that is strictly better; a policy that does not end, met on the way, goes round where
every round pays, and proves that there is no finite value.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.engine.backends import chain_solve, policy_chain
from tacit.errors import InvalidModel, NotConverged
from tacit.forward.solution import check_policy
from tacit.model.ends import never_ending
from tacit.model.mdp import MDP, deterministic_chain, outside_visitation

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def soft_policy(utility: np.ndarray, temperature: float) -> np.ndarray:
    """[S, A] the Boltzmann policy of action values `utility` [S, A]."""
    weights = np.exp((utility - utility.max(axis=1, keepdims=True)) / temperature)
    return weights / weights.sum(axis=1, keepdims=True)


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


def deterministic_values(mdp: MDP, actions: np.ndarray, gains: np.ndarray) -> np.ndarray:
    """[..., S] discounted sums of `gains` [..., S] under the policy that takes `actions` [S]."""
    return chain_solve(mdp, *deterministic_chain(mdp, actions), gains, transposed=False)


@dataclass(frozen=True, eq=False)
class Column:
    """A deterministic policy with what it earns and spends.

    Attributes:
        policy: [S] the action taken in each state.
        values: [1 + K, S] value of the reward and of each cost under the policy.
        totals: [1 + K] the same from the initial distribution.
        error: largest Bellman residual of the Lagrangian at these values.
        steps: policies tried on the way.
    """

    policy: np.ndarray
    values: np.ndarray
    totals: np.ndarray
    error: float
    _: KW_ONLY
    steps: int


class Unbounded(NotConverged):
    """A policy that goes round for ever and gains on every round."""


def eliminated_column(
    mdp: MDP,
    tables: np.ndarray,
    combination: np.ndarray,
    start: np.ndarray | None,
    limit: int,
) -> Column:
    """The best policy for the reward sum_k combination[k] * tables[k], by sparse elimination.

    Args:
        mdp: the model.
        tables: [1 + K, S, A] reward, then costs.
        combination: [1 + K] as in `best_column`.
        start: [S] actions to begin from; at discount 1 used if they end, and the walk if not.
        limit: most policies to try.
    """
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import splu

    every, transitions = np.arange(mdp.states), mdp.sparse()
    reward = np.tensordot(combination, tables, 1)
    margin = np.abs(reward).max() * max(1e-13, 2e-15 / mdp.leak)
    endless, steps, policy = mdp.discount == 1.0, 0, start
    if policy is None or (endless and not _is_proper(mdp, policy)):
        policy = mdp.walk[0]
    while True:
        chain = transitions[every * mdp.actions + policy]
        factors = splu((eye_array(mdp.states) - mdp.discount * chain).tocsc())
        values = factors.solve(np.ascontiguousarray(tables[:, every, policy].T)).T
        value = combination @ values
        later = mdp.discount * mdp.expected_next(value)
        worth = np.where(mdp.choices, reward + later, -np.inf)
        best = worth.max(axis=1)
        error = float(np.abs(best - value).max())
        better = best > worth[every, policy] + margin
        if error <= margin or not better.any() or steps >= limit:  # else only rounding is left
            return Column(policy, values, values @ mdp.initial, error, steps=steps)
        switched = np.where(better, worth.argmax(axis=1), policy).astype(np.int32)
        policy = _kept_proper(mdp, reward, policy, switched, margin) if endless else switched
        steps += 1


def _is_proper(mdp: MDP, policy: np.ndarray) -> bool:
    there = mdp.choices[np.arange(mdp.states), policy].all()
    return bool(there) and not never_ending(mdp, np.eye(mdp.actions)[policy]).any()


def _kept_proper(
    mdp: MDP, reward: np.ndarray, old: np.ndarray, new: np.ndarray, margin: float
) -> np.ndarray:
    """[S] the new actions, the old ones where new ones go round for nothing but rounding."""
    every, transitions = np.arange(mdp.states), mdp.sparse()
    while (lost := never_ending(mdp, np.eye(mdp.actions)[new])).any():
        chain = transitions[every * mdp.actions + new]
        gain, state = _largest_gain(chain, reward[every, new], lost)
        if gain > margin:
            raise Unbounded(
                f"no finite value at these weights: a policy goes round through state {state} "
                f"for ever and gains {gain:.3g} a step",
                None,
            )
        new = np.where(lost, old, new)
    return new


def _largest_gain(chain: csr_array, reward: np.ndarray, lost: np.ndarray) -> tuple[float, int]:
    """The largest average reward of a class of states that the chain does not leave; one of it."""
    from scipy.sparse import eye_array
    from scipy.sparse.csgraph import connected_components
    from scipy.sparse.linalg import splu

    inside = np.flatnonzero(lost)
    part = chain[inside][:, inside]
    count, label = connected_components(part, connection="strong")
    moves = part.tocoo()
    leaves = np.zeros(count, bool)
    leaves[label[moves.coords[0]][label[moves.coords[0]] != label[moves.coords[1]]]] = True
    found = (-np.inf, int(inside[0]))
    for number in np.flatnonzero(~leaves):
        own = np.flatnonzero(label == number)
        system = (eye_array(len(own)) - part[own][:, own]).T.tolil()
        system[0] = np.ones(len(own))
        shares = splu(system.tocsc()).solve(np.eye(len(own))[0])
        gain = float(shares @ reward[inside[own]])
        found = max(found, (gain, int(inside[own[0]])))
    return found
