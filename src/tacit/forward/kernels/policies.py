"""Policy iteration for one combination of reward and costs."""

from __future__ import annotations

import numpy as np

from tacit.forward.compiled import compiled
from tacit.forward.kernels.elimination import chain_values

# Share of the Bellman error to which a policy that is about to change is evaluated.
FORCING = 0.2


@compiled
def improve(states, probabilities, reward, discount, values, policy, margin, rows, weights):
    """Switches to the greedy actions and fills the chain; (largest Bellman residual, switches).

    An action is left only for one better by more than `margin`: ties must not make policies cycle.
    """
    count, actions, width = probabilities.shape
    shared = states.shape[1] == 1
    error, switches = 0.0, 0
    for s in range(count):
        best, chosen, kept = -np.inf, 0, 0.0
        for a in range(actions):
            lane = 0 if shared else a
            total = 0.0
            for w in range(width):
                total += probabilities[s, a, w] * values[states[s, lane, w]]
            worth = reward[s, a] + discount * total
            if worth > best:
                best, chosen = worth, a
            if a == policy[s]:
                kept = worth
        if best > kept + margin:
            policy[s] = chosen
            switches += 1
        gap = abs(best - values[s])
        if not gap <= error:
            error = gap
        lane = 0 if shared else policy[s]
        for w in range(width):
            rows[s, w] = states[s, lane, w]
            weights[s, w] = probabilities[s, policy[s], w]
    return error, switches


@compiled
def choose(table, policy, chosen):
    """Puts the entries of the policy's actions into `chosen` [S]; returns the largest size."""
    largest = 0.0
    for s in range(len(policy)):
        chosen[s] = table[s, policy[s]]
        largest = max(largest, abs(chosen[s]))
    return largest


@compiled
def combine(tables, combination, reward, values, value):
    """Puts the combined tables into `reward` [S, A], the combined values into `value` [S]."""
    count, actions = reward.shape
    largest = 0.0
    for s in range(count):
        value[s] = 0.0
        for k in range(len(tables)):
            value[s] += combination[k] * values[k, s]
        for a in range(actions):
            reward[s, a] = 0.0
            for k in range(len(tables)):
                reward[s, a] += combination[k] * tables[k, s, a]
            largest = max(largest, abs(reward[s, a]))
    return largest


@compiled
def iterate(states, probabilities, tables, combination, discount, precision, values, policy, limit):
    """Policy iteration in place on `values` [1 + K, S] and `policy` [S].

    Returns (policies tried, Bellman residual, whether a linear solve stagnated).
    """
    count, actions, width = probabilities.shape
    reward, value, right = np.empty((count, actions)), np.empty(count), np.empty(count)
    rows, weights = np.empty((count, width), np.int32), np.empty((count, width))
    largest = combine(tables, combination, reward, values, value)
    # Rounding leaves about 1e-16 of the values, which are reward / (1 - discount) large.
    precision = max(precision, 2e-15 / (1.0 - discount))
    target = precision * largest
    steps, stagnated = 0, False
    while True:
        error, switches = improve(
            states, probabilities, reward, discount, value, policy, target, rows, weights
        )
        if error <= target or steps >= limit or stagnated:
            break
        steps += 1
        choose(reward, policy, right)
        # As exactly as the Bellman error deserves, until the policy settles.
        aim = 0.3 * target if switches == 0 else max(0.3 * target, FORCING * error)
        stagnated = not chain_values(rows, weights, discount, right, value, aim)
    # Inexact steps can go in circles on long, badly ordered chains: exact ones cannot.
    stagnated |= error > 10.0 * target and steps >= limit
    # What the policy spends and earns. The costs are solved for; the reward follows from the
    # Lagrangian, unless its price is so small beside theirs that the subtraction would cancel.
    follows = combination[0] * choose(tables[0], policy, right) > 1e-3 * largest
    for k in range(1 if follows else 0, len(tables)):
        aim = 0.3 * precision * choose(tables[k], policy, right)
        stagnated |= not chain_values(rows, weights, discount, right, values[k], aim)
    if follows:
        for s in range(count):
            for k in range(1, len(tables)):
                value[s] -= combination[k] * values[k, s]
            values[0, s] = value[s] / combination[0]
    return steps, error, stagnated
