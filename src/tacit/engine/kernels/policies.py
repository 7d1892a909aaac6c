"""Policy iteration for one combination of reward and costs."""

from __future__ import annotations

import numpy as np

from tacit.engine.kernels.chains import chain_values
from tacit.engine.process import compiled

# Share of the Bellman error to which a policy that is about to change is evaluated.
FORCING = 0.2


@compiled
def improve(
    states, probabilities, missing, reward, discount, values, policy, margin, rows, weights
):
    """Switches to the greedy actions and fills the chain; (largest Bellman residual, switches).

    An action is left only for one better by more than `margin`: ties must not make policies cycle.
    `missing` [S, A] are the actions that are not there, or an empty table.
    """
    count, actions, width = probabilities.shape
    masked = len(missing) > 0
    shared = states.shape[1] == 1
    error, switches = 0.0, 0
    for s in range(count):
        best, chosen, kept = -np.inf, 0, 0.0
        for a in range(actions):
            if masked and missing[s, a]:
                continue
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
def iterate(
    states, probabilities, missing, tables, combination, discount, precision, values, policy, limit
):
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
            states, probabilities, missing, reward, discount, value, policy, target, rows, weights
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


@compiled
def copy_slot(source, slot, lines, policies, values):
    """Copies one line with its policy and values into another slot."""
    for j in range(3):
        lines[slot, j] = lines[source, j]
    for s in range(policies.shape[1]):
        policies[slot, s] = policies[source, s]
        values[slot, 0, s] = values[source, 0, s]
        values[slot, 1, s] = values[source, 1, s]


@compiled
def draw_line(model, precision, price, start, lines, policies, values, slot):
    """Puts the best policy at a price into `slot`, found from that of slot `start`."""
    states, probabilities, missing, tables, initial, discount, budget = model
    copy_slot(start, slot, lines, policies, values)
    combination = np.empty(2)
    combination[0] = 0.0 if np.isinf(price) else 1.0
    combination[1] = -1.0 if np.isinf(price) else -price
    _, _, stagnated = iterate(
        states, probabilities, missing, tables, combination, discount, precision,
        values[slot], policies[slot], 1000,
    )  # fmt: skip
    earned, spent = 0.0, 0.0
    for s in range(len(initial)):
        earned += initial[s] * values[slot, 0, s]
        spent += initial[s] * values[slot, 1, s]
    lines[slot, 0], lines[slot, 1], lines[slot, 2] = price, earned, spent - budget
    return stagnated


@compiled
def bracket(model, precision, rounding, lines, policies, values):
    """Widens the prices of slots 0 and 1 until the first overspends and the second does not.

    Where that cannot be (slack at price 0, or too dear at price infinity) the slot stays as it is.
    Returns (evaluations, whether a linear solve stagnated).
    """
    low, high = np.int64(0), np.int64(1)
    lower, upper = lines[low, 0], lines[high, 0]
    width = upper - lower
    stagnated = draw_line(model, precision, lower, low, lines, policies, values, low)
    evaluations = 1
    found = False
    while lines[low, 2] <= rounding and lower > 0.0:
        copy_slot(low, high, lines, policies, values)
        found = True
        lower = lower - width if width < lower else 0.0
        width *= 8.0
        stagnated |= draw_line(model, precision, lower, low, lines, policies, values, low)
        evaluations += 1
    if found or lines[low, 2] <= rounding:
        return evaluations, stagnated
    stagnated |= draw_line(model, precision, upper, low, lines, policies, values, high)
    evaluations += 1
    while lines[high, 2] > rounding and not np.isinf(upper):
        copy_slot(high, low, lines, policies, values)
        upper = upper + width if width < 64.0 * upper else np.inf
        width *= 8.0
        stagnated |= draw_line(model, precision, upper, low, lines, policies, values, high)
        evaluations += 1
    return evaluations, stagnated


@compiled
def search(model, precision, rounding, limit, lines, policies, values):
    """Closes the bracket of slots 0 and 1 on the minimum of the dual; slot 2 is best at its price.

    Every policy is a line in the price, earned - price * over, the dual their upper envelope. The
    height at which the two ends cross is the value of their mixture and a lower bound on the dual,
    so the search ends exactly when no policy rises above the crossing. Trying the crossing each
    time beat interpolating the slopes at every size measured: it alone lands on the corner.
    Returns (evaluations, whether a linear solve stagnated).
    """
    low, high, best, trial = np.int64(0), np.int64(1), np.int64(2), np.int64(3)
    budget = model[6]
    evaluations, stagnated = 0, False
    lowest = np.inf
    for end in (low, high):
        height = lines[end, 1] - lines[end, 0] * lines[end, 2]
        if np.isfinite(lines[end, 0]) and height < lowest:
            lowest = height
            copy_slot(end, best, lines, policies, values)
    while True:
        price = (lines[low, 1] - lines[high, 1]) / (lines[low, 2] - lines[high, 2])
        crossing = lines[low, 1] - price * lines[low, 2]
        size = abs(lines[low, 2]) + abs(lines[high, 2]) + abs(budget)
        done = lowest - crossing <= 3.0 * precision * (abs(crossing) + abs(price) * size)
        # Outside the bracket means at the resolution of floats.
        if done or not lines[low, 0] < price < lines[high, 0] or evaluations >= limit or stagnated:
            break
        start = low if price - lines[low, 0] < lines[high, 0] - price else high
        stagnated |= draw_line(model, precision, price, start, lines, policies, values, trial)
        evaluations += 1
        height = lines[trial, 1] - price * lines[trial, 2]
        if height < lowest:
            lowest = height
            copy_slot(trial, best, lines, policies, values)
        copy_slot(trial, low if lines[trial, 2] > rounding else high, lines, policies, values)
    return evaluations, stagnated
