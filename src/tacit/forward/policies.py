"""Policies: where one goes, what it collects, and the best one for given prices, warm-started.

Each step of policy iteration is one greedy backup and one solve of the policy's chain, the latter
only as exact as the Bellman error of the moment deserves (inexact Newton): early policies are about
to change anyway. Where a chain is too hard for that it is eliminated.

Without a discount policy iteration starts from the walk to the nearest end and leaves an action
only for one that is strictly better; a policy that does not end, met on the way, goes round where
every round pays, and proves that there is no finite value.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacit.engine.backends import side_by_side
from tacit.engine.kernels import at_hand
from tacit.engine.kernels.backups import NOTHING, iterate
from tacit.engine.kernels.chains import chain_solve, policy_chain
from tacit.errors import InvalidModel, NotConverged
from tacit.forward.solution import PolicyMixture, Solution, check_policy, visitation
from tacit.model.arguments import integer
from tacit.model.ends import never_ending, uniform_policy
from tacit.model.mdp import MDP, deterministic_chain, outside_visitation
from tacit.model.objective import Features

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# The public `tacit.policies`: what a policy does, and two policies.
__all__ = ["policy_values", "uniform_policy", "visitation", "visitation_recursion"]


def __dir__() -> list[str]:
    """What is in this namespace."""
    return sorted(__all__)


# Bellman residual of an exact policy, relative to the largest reward.
EXACT = 1e-12
# Probabilities that are sums of the same numbers in another order differ by a few last bits.
SAME = 1e-12


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
    visits = mdp.initial.copy()
    total = visits.copy()
    for _ in range(integer(steps, "steps") - 1):
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
    chain = deterministic_chain(mdp, actions)
    return chain_solve(mdp, *chain, gains, transposed=False, several=side_by_side)


class PolicyColumn(NamedTuple):
    """A deterministic policy with what it earns and spends."""

    policy: np.ndarray  # [S] the action taken in each state
    values: np.ndarray  # [1 + K, S] value of the reward and of each cost under the policy
    totals: np.ndarray  # [1 + K] the same from the initial distribution


class Unbounded(NotConverged):
    """A policy that goes round for ever and gains on every round."""


def eliminated_column(
    mdp: MDP, tables: np.ndarray, combination: np.ndarray, start: np.ndarray | None, limit: int
) -> PolicyColumn:
    """As `best_column`, by sparse elimination, from actions [S].

    At discount 1 these are used if they end, and the walk if not.
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
            return PolicyColumn(policy, values, values @ mdp.initial)
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
    best = (-np.inf, int(inside[0]))
    for number in np.flatnonzero(~leaves):
        own = np.flatnonzero(label == number)
        system = (eye_array(len(own)) - part[own][:, own]).T.tolil()
        system[0] = np.ones(len(own))
        shares = splu(system.tocsc()).solve(np.eye(len(own))[0])
        gain = float(shares @ reward[inside[own]])
        best = max(best, (gain, int(inside[own[0]])))
    return best


def best_column(
    mdp: MDP,
    tables: np.ndarray,
    combination: np.ndarray,
    *,
    start: PolicyColumn | None = None,
    limit: int = 1000,
) -> PolicyColumn:
    """The best policy for the reward sum_k combination[k] * tables[k].

    Args:
        mdp: the model.
        tables: [1 + K, S, A] reward, then costs.
        combination: [1 + K] one and minus the prices; or zero and minus weights for a least cost.
        start: a column to begin from.
        limit: most policies to try.
    """
    if mdp.discount == 1.0:
        first = None if start is None else start.policy
        return eliminated_column(mdp, tables, combination, first, limit)
    if start is None:
        values = np.zeros(tables.shape[:2])
        combined = combination[None] @ tables.reshape(len(tables), -1)
        policy = first_choices(mdp, combined.reshape(tables.shape[1:]))
    else:
        values, policy = start.values.copy(), start.policy.copy()
    with at_hand(mdp.states):
        exactly = (combination, mdp.discount, EXACT)
        missed = iterate(*listed_model(mdp), tables, *exactly, values, policy, limit)
    if missed:  # a chain on which the Krylov method stagnates
        return eliminated_column(mdp, tables, combination, policy, limit)
    return PolicyColumn(policy, values, values @ mdp.initial)


def first_choices(mdp: MDP, reward: np.ndarray) -> np.ndarray:
    """[S] the actions of the largest reward [S, A] at once, of those that are there."""
    worth = np.where(mdp.choices, reward, -np.inf) if mdp.restricted else reward
    return worth.argmax(axis=1).astype(np.int32)


def listed_model(mdp: MDP) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`MDP.packed`, and [S, A] bool, the actions that are not there; empty where all are."""
    missing = ~mdp.choices if mdp.restricted else NOTHING
    return mdp.packed.states, mdp.packed.probabilities, missing


# Actions with the same consequences: two moves into walls from a corner lead to the same places and
# have the same features. No weights tell them apart, so a solver's choice is arbitrary; the
# demonstrated one is preferred.


def favourites(mdp: MDP, features: Features, visitation: np.ndarray) -> np.ndarray:
    """[S, A] for each action, the one with the same consequences that `visitation` [S, A] favours.

    An action is its own favourite where none of its twins was taken more often.
    """
    chosen = np.tile(np.arange(mdp.actions), (mdp.states, 1))
    taken = visitation.copy()
    for first in range(mdp.actions):
        for second in range(mdp.actions):
            if first == second:
                continue
            rows = np.flatnonzero(visitation[:, second] > taken[:, first])
            rows = rows[_twins(mdp, features, rows, first, second)]
            chosen[rows, first] = second
            taken[rows, first] = visitation[rows, second]
    return chosen


def with_favourites(solution: Solution, chosen: np.ndarray) -> Solution:
    """The same solution with the mass of each action on its favourite [S, A].

    Value, costs and certificate stay, since the consequences do. A noisy policy is left as it is:
    its model takes twins equally often.
    """
    own = np.arange(chosen.shape[1])
    if solution.temperature > 0 or (chosen == own).all():
        return solution
    rows = np.arange(len(chosen))[:, None]
    policy, visitation = np.zeros_like(solution.policy), np.zeros_like(solution.visitation)
    np.add.at(policy, (rows, chosen), solution.policy)
    np.add.at(visitation, (rows, chosen), solution.visitation)
    mixture = solution.mixture
    if mixture is not None:
        moved = chosen[rows[:, 0], mixture.policies].astype(mixture.policies.dtype)
        mixture = PolicyMixture(mixture.weights, moved)
    return replace(solution, policy=policy, visitation=visitation, mixture=mixture)


def _twins(mdp: MDP, features: Features, rows: np.ndarray, first: int, second: int) -> np.ndarray:
    """[R] bool, in which of the states `rows` [R] the two actions have the same consequences."""
    lists = mdp.transitions
    same = (lists.states[rows, first] == lists.states[rows, second]).all(axis=1)
    gap = np.abs(lists.probabilities[rows, first] - lists.probabilities[rows, second])
    same &= gap.max(axis=1, initial=0.0) <= SAME
    for table in (features.reward, *features.costs):
        if table.ndim == 3:
            same &= (table[rows, first] == table[rows, second]).all(axis=1)
    return same
