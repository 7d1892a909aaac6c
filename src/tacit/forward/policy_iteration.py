"""The best policy for one price of the constraints: warm-started policy iteration.

Each step is one greedy backup and one solve of the policy's chain, the latter only as exact as the
Bellman error of the moment deserves (inexact Newton): early policies are about to change anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.forward.kernels.policies import iterate
from tacit.forward.solution import Infeasibility
from tacit.mdp import MDP


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


@dataclass(frozen=True, eq=False)
class Priced:
    """What a master problem hands back.

    Attributes:
        prices: [K] multipliers.
        columns: policies of the optimal mixture.
        weights: [M] probability of each.
        proof: evidence that no policy meets the budgets, if so.
        iterations: unconstrained problems solved.
        best: the best policy at the prices, if it is another.
    """

    prices: np.ndarray
    columns: list[Column]
    weights: np.ndarray
    proof: Infeasibility | None
    iterations: int
    best: Column | None = None


def best_column(
    mdp: MDP,
    tables: np.ndarray,
    combination: np.ndarray,
    *,
    start: Column | None = None,
    limit: int = 1000,
    precision: float = 1e-12,
) -> Column:
    """The best policy for the reward sum_k combination[k] * tables[k].

    Args:
        mdp: the model.
        tables: [1 + K, S, A] reward, then costs.
        combination: [1 + K] one and minus the prices; or zero and minus weights for a least cost.
        start: a column to begin from.
        limit: most policies to try.
        precision: Bellman residual to reach, relative to the largest reward.
    """
    layout = mdp.layout
    if start is None:
        values = np.zeros(tables.shape[:2])
        policy = np.tensordot(combination, tables, 1).argmax(axis=1).astype(np.int32)
    else:
        values, policy = start.values.copy(), start.policy.copy()
    steps, error, missed = iterate(
        layout.states,
        layout.probabilities,
        tables,
        combination,
        mdp.discount,
        precision,
        values,
        policy,
        limit,
    )
    if missed > 0.0:
        return _direct_column(mdp, tables, combination, policy, limit)
    return Column(policy, values, values @ mdp.initial, error, steps)


def _direct_column(
    mdp: MDP,
    tables: np.ndarray,
    combination: np.ndarray,
    policy: np.ndarray,
    limit: int,
) -> Column:
    """Policy iteration by sparse elimination, for chains on which the Krylov method stagnates."""
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import splu

    every = np.arange(mdp.states)
    reward = np.tensordot(combination, tables, 1)
    target = np.abs(reward).max() * max(1e-13, 2e-15 / (1.0 - mdp.discount))
    transitions, steps = mdp.sparse(), 0
    while True:
        chain = transitions[every * mdp.actions + policy]
        factors = splu((eye_array(mdp.states) - mdp.discount * chain).tocsc())
        values = np.stack([factors.solve(table[every, policy]) for table in tables])
        worth = reward + mdp.discount * mdp.expected_next(combination @ values)
        error = float(np.abs(worth.max(axis=1) - combination @ values).max())
        better = worth.max(axis=1) > worth[every, policy] + target
        if error <= target or steps >= limit or not better.any():  # else only rounding is left
            return Column(policy, values, values @ mdp.initial, error, steps)
        policy = np.where(better, worth.argmax(axis=1), policy).astype(np.int32)
        steps += 1
