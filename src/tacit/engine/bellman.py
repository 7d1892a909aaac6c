"""One formula each: what a table of action values is worth to an optimal and to a noisy expert."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np


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

    States that are never visited take the greedy action of `fallback()` [S, A], or are uniform.
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
