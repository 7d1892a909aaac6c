"""Policies: the formulas of optimal and noisy choice, where a policy goes, what it collects.

Without a discount no residual shrinks by itself. Policy iteration starts from the walk to the
nearest end and leaves an action only for one that is strictly better; a policy that does not end,
met on the way, goes round where every round pays, and proves that there is no finite value. An
upper bound is found by `lift`, along the expected length of what is left of an episode.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.engine.backends import chain_solve, policy_chain
from tacit.errors import InvalidModel, NotConverged
from tacit.model.ends import never_ending
from tacit.model.mdp import MDP, deterministic_chain, inside_policy, outside_visitation

if TYPE_CHECKING:
    from scipy.sparse import csr_array


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


# Discount 1 -------------------------------------------------------------------------------------

# Roundings in a value: of the sum over next states, of the reward and of the difference.
ROUNDING = 16.0 * np.finfo(np.float64).eps
# How often a lift that is too small is doubled.
DOUBLINGS = 40


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


def undiscounted_column(
    mdp: MDP,
    tables: np.ndarray,
    combination: np.ndarray,
    start: np.ndarray | None,
    limit: int,
) -> Column:
    """The best policy at discount 1 for the reward sum_k combination[k] * tables[k].

    Args:
        mdp: the model.
        tables: [1 + K, S, A] reward, then costs.
        combination: [1 + K] as in `best_column`.
        start: [S] actions to begin from, used if they end.
        limit: most policies to try.
    """
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import splu

    every, transitions = np.arange(mdp.states), mdp.sparse()
    reward = np.tensordot(combination, tables, 1)
    margin = np.abs(reward).max() * max(1e-13, 2e-15 / mdp.leak)
    policy = mdp.walk[0]
    if start is not None and _is_proper(mdp, start):
        policy = start
    steps = 0
    while True:
        chain = transitions[every * mdp.actions + policy]
        factors = splu((eye_array(mdp.states) - chain).tocsc())
        values = factors.solve(np.ascontiguousarray(tables[:, every, policy].T)).T
        value = combination @ values
        worth = np.where(mdp.choices, reward + mdp.expected_next(value), -np.inf)
        best = worth.max(axis=1)
        error = float(np.abs(best - value).max())
        better = best > worth[every, policy] + margin
        if not better.any() or steps >= limit:
            return Column(policy, values, values @ mdp.initial, error, steps=steps)
        switched = np.where(better, worth.argmax(axis=1), policy)
        policy = _kept_proper(mdp, reward, policy, switched, margin)
        steps += 1


def _is_proper(mdp: MDP, policy: np.ndarray) -> bool:
    every = np.arange(mdp.states)
    there = mdp.choices[every, policy].all()
    chain = mdp.sparse()[every * mdp.actions + policy]
    return bool(there) and not never_ending(mdp, chain).any()


def _kept_proper(
    mdp: MDP, reward: np.ndarray, old: np.ndarray, new: np.ndarray, margin: float
) -> np.ndarray:
    """[S] the new actions, the old ones where new ones go round for nothing but rounding."""
    every, transitions = np.arange(mdp.states), mdp.sparse()
    while True:
        chain = transitions[every * mdp.actions + new]
        lost = never_ending(mdp, chain)
        if not lost.any():
            return new.astype(np.int32)
        gain, state = _largest_gain(chain, reward[every, new], lost)
        if gain > margin:
            raise Unbounded(
                f"no finite value at these weights: a policy goes round through state {state} "
                f"for ever and gains {gain:.3g} a step",
                None,
            )
        new = np.where(lost, old, new)


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


def lift(mdp: MDP, reward: np.ndarray, values: np.ndarray, temperature: float) -> np.ndarray | None:
    """[S] what to add to `values` [S] so that no backup exceeds them; None if nothing was found.

    Then they bound every policy's value from above. The lift goes along the expected length w of
    the rest of an episode: one backup lowers c * w by about c.

    Args:
        mdp: the model, at discount 1.
        reward: [S, A] of the Lagrangian.
        values: [S].
        temperature: of the backup; 0 for a hard one.
    """
    if not np.isfinite(values).all():
        return None
    scale = np.abs(reward) + np.abs(values)[:, None] + mdp.expected_next(np.abs(values))
    rounding = ROUNDING * np.where(mdp.choices, scale + temperature, 0.0).max(axis=1)
    utility = np.where(mdp.choices, reward + mdp.expected_next(values), -np.inf)
    if temperature == 0.0:
        slack = values[:, None] - utility
        slack = np.where(slack >= -rounding[:, None], np.maximum(slack, 0.0), slack)
        if slack.min() >= 0.0:
            return np.zeros(mdp.states)
        for policy in (greedy_policy(utility), np.eye(mdp.actions)[mdp.walk[0]]):
            found = _straight(mdp, slack, _lengths(mdp, policy))
            if found is not None:
                return found
        return None
    above = soft_values(utility, temperature) - values
    if (above <= rounding).all():
        return np.zeros(mdp.states)
    lengths = _lengths(mdp, soft_policy(utility, temperature))
    if lengths is None:
        return None
    height = float(above.max())
    for _ in range(DOUBLINGS):
        raised = values + height * lengths
        utility = np.where(mdp.choices, reward + mdp.expected_next(raised), -np.inf)
        over = soft_values(utility, temperature) - raised
        if (over <= ROUNDING * height * lengths + rounding).all():
            return height * lengths
        height *= 2.0
    return None


def _straight(mdp: MDP, slack: np.ndarray, lengths: np.ndarray | None) -> np.ndarray | None:
    """[S] c * lengths with slack + c * (lengths - P lengths) >= 0 for all pairs; None if no c."""
    if lengths is None:
        return None
    fall = lengths[:, None] - mdp.expected_next(lengths)
    wrong = slack < 0.0
    if (fall[wrong] <= 0.0).any():
        return None
    height = float((-slack[wrong] / fall[wrong]).max())
    rises = mdp.choices & (fall < 0.0)
    if (slack[rises] + height * fall[rises] < 0.0).any():
        return None
    return height * lengths


def _lengths(mdp: MDP, policy: np.ndarray) -> np.ndarray | None:
    """[S] the states that a policy [S, A] passes on average; None where it does not end."""
    lengths = chain_solve(mdp, *policy_chain(mdp, policy), np.ones(mdp.states), transposed=False)
    left = 1.0 + (policy * mdp.expected_next(lengths)).sum(axis=1) - lengths
    fine = np.isfinite(lengths).all() and lengths.min() > 0.0
    return lengths if fine and np.abs(left).max() < 0.5 else None
