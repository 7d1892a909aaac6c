"""Actions with the same consequences: no weights tell them apart, only the demonstrations do.

Two moves into walls from a corner lead to the same places and have the same features. Every optimal
policy may take either, so a solver's choice is arbitrary; the demonstrated one is preferred.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tacit.forward.solution import Mixture, Solution
from tacit.mdp import MDP
from tacit.objective import Features

# Probabilities that are sums of the same numbers in another order differ by a few last bits.
SAME = 1e-12


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
        mixture = Mixture(mixture.weights, moved)
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
