"""The dual of one constraint: best policies at trial prices, until two meet at its minimum.

A policy is a line in the price, held in a slot: `lines[slot]` is (price at which it is best, what
it earns, what it spends above the budget), with `policies[slot]` [S] and `values[slot]` [2, S].
Slots 0 and 1 bracket the minimum, 2 keeps the best policy at the lowest point met, 3 is work space.
An infinite price asks for the least cost.

Slots are variables, not numbers in the text: for each number the compiler would make another copy
of everything below, which took a third of the time of a first answer.
"""

from __future__ import annotations

import numpy as np

from tacit.forward.compiled import compiled
from tacit.forward.kernels.policies import iterate


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
def draw_line(world, precision, price, start, lines, policies, values, slot):
    """Puts the best policy at a price into `slot`, found from that of slot `start`."""
    states, probabilities, tables, initial, discount, budget = world
    copy_slot(start, slot, lines, policies, values)
    combination = np.empty(2)
    combination[0] = 0.0 if np.isinf(price) else 1.0
    combination[1] = -1.0 if np.isinf(price) else -price
    _, _, stagnated = iterate(
        states, probabilities, tables, combination, discount, precision,
        values[slot], policies[slot], 1000,
    )  # fmt: skip
    earned, spent = 0.0, 0.0
    for s in range(len(initial)):
        earned += initial[s] * values[slot, 0, s]
        spent += initial[s] * values[slot, 1, s]
    lines[slot, 0], lines[slot, 1], lines[slot, 2] = price, earned, spent - budget
    return stagnated


@compiled
def bracket(world, precision, rounding, lines, policies, values):
    """Widens the prices of slots 0 and 1 until the first overspends and the second does not.

    Where that cannot be (slack at price 0, or too dear at price infinity) the slot stays as it is.
    Returns (evaluations, whether a linear solve stagnated).
    """
    low, high = np.int64(0), np.int64(1)
    lower, upper = lines[low, 0], lines[high, 0]
    width = upper - lower
    stagnated = draw_line(world, precision, lower, low, lines, policies, values, low)
    evaluations = 1
    found = False
    while lines[low, 2] <= rounding and lower > 0.0:
        copy_slot(low, high, lines, policies, values)
        found = True
        lower = lower - width if width < lower else 0.0
        width *= 8.0
        stagnated |= draw_line(world, precision, lower, low, lines, policies, values, low)
        evaluations += 1
    if found or lines[low, 2] <= rounding:
        return evaluations, stagnated
    stagnated |= draw_line(world, precision, upper, low, lines, policies, values, high)
    evaluations += 1
    while lines[high, 2] > rounding and not np.isinf(upper):
        copy_slot(high, low, lines, policies, values)
        upper = upper + width if width < 64.0 * upper else np.inf
        width *= 8.0
        stagnated |= draw_line(world, precision, upper, low, lines, policies, values, high)
        evaluations += 1
    return evaluations, stagnated


@compiled
def search(world, precision, rounding, limit, lines, policies, values):
    """Closes the bracket of slots 0 and 1 on the minimum of the dual; slot 2 is best at its price.

    Every policy is a line in the price, earned - price * over, the dual their upper envelope. The
    height at which the two ends cross is the value of their mixture and a lower bound on the dual,
    so the search ends exactly when no policy rises above the crossing. Trying the crossing each
    time beat interpolating the slopes at every size measured: it alone lands on the corner.
    Returns (evaluations, whether a linear solve stagnated).
    """
    low, high, best, trial = np.int64(0), np.int64(1), np.int64(2), np.int64(3)
    budget = world[5]
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
        stagnated |= draw_line(world, precision, price, start, lines, policies, values, trial)
        evaluations += 1
        height = lines[trial, 1] - price * lines[trial, 2]
        if height < lowest:
            lowest = height
            copy_slot(trial, best, lines, policies, values)
        copy_slot(trial, low if lines[trial, 2] > rounding else high, lines, policies, values)
    return evaluations, stagnated
