"""Discount 1: policies that must end, policy iteration among them, and what bounds a value there.

Without a discount no residual shrinks by itself. Policy iteration starts from the walk to the
nearest end and leaves an action only for one that is strictly better; a policy that does not end,
met on the way, goes round where every round pays, and proves that there is no finite value. An
upper bound is found by lifting values along the expected length of what is left of an episode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.engine.backends.host import chain_solve, policy_chain
from tacit.errors import NotConverged
from tacit.forward.policies import greedy_policy, soft_policy, soft_values
from tacit.model.ends import never_ending
from tacit.model.mdp import MDP

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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
            return Column(policy, values, values @ mdp.initial, error, steps)
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
