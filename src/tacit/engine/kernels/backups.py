"""Backups, compiled: policy iteration for one combination of reward and costs, and the soft backup.

The soft one runs at the speed of memory: one pass over the transitions, exp and log in vectors.
What was measured (`benchmarks/bandwidth.py`, 1e6 states, 4 actions, 5 successors), and so chosen:

- The exponentials, not the memory, held a plain loop back. `exponentials` and `logarithms` are
  polynomials without a branch, so that the compiler makes vector code of them; both are right to
  two units in the last place.
- They need states side by side, the transitions lie row by row. A block of states is gathered row
  by row into a small table [A, BLOCK] that stays in the cache, and treated there: as fast as
  storing the transitions in blocks, which would be a second copy of them.
- Next states are four bytes and shared between actions where they can be, which makes the model
  smaller; probabilities of four bytes would move the answer in the eighth digit.
- A block never waits for another, so threads take a range of states each.
"""

from __future__ import annotations

import numpy as np

from tacit.engine.kernels import Loop
from tacit.engine.kernels.chains import chain_values

# Share of the Bellman error to which a policy that is about to change is evaluated.
FORCING = 0.2


@Loop
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
        best, chosen, current = -np.inf, 0, 0.0
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
                current = worth
        if best > current + margin:
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


@Loop
def choose(table, policy, chosen):
    """Puts the entries of the policy's actions into `chosen` [S]; returns the largest size."""
    largest = 0.0
    for s in range(len(policy)):
        chosen[s] = table[s, policy[s]]
        largest = max(largest, abs(chosen[s]))
    return largest


@Loop
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


@Loop
def iterate(
    states, probabilities, missing, tables, combination, discount, precision, values, policy, limit
):
    """Policy iteration in place on `values` [1 + K, S] and `policy` [S]; whether it stagnated."""
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
    return stagnated


@Loop
def copy_slot(source, slot, lines, policies, values):
    """Copies one line with its policy and values into another slot."""
    for j in range(3):
        lines[slot, j] = lines[source, j]
    for s in range(policies.shape[1]):
        policies[slot, s] = policies[source, s]
        values[slot, 0, s] = values[source, 0, s]
        values[slot, 1, s] = values[source, 1, s]


@Loop
def draw_line(model, precision, price, start, lines, policies, values, slot):
    """Puts the best policy at a price into `slot`, found from that of slot `start`."""
    states, probabilities, missing, tables, initial, discount, budget = model
    copy_slot(start, slot, lines, policies, values)
    combination = np.empty(2)
    combination[0] = 0.0 if np.isinf(price) else 1.0
    combination[1] = -1.0 if np.isinf(price) else -price
    stagnated = iterate(
        states, probabilities, missing, tables, combination, discount, precision,
        values[slot], policies[slot], 1000,
    )  # fmt: skip
    earned, spent = 0.0, 0.0
    for s in range(len(initial)):
        earned += initial[s] * values[slot, 0, s]
        spent += initial[s] * values[slot, 1, s]
    lines[slot, 0], lines[slot, 1], lines[slot, 2] = price, earned, spent - budget
    return stagnated


@Loop
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
    is_bracketed = False
    while lines[low, 2] <= rounding and lower > 0.0:
        copy_slot(low, high, lines, policies, values)
        is_bracketed = True
        lower = lower - width if width < lower else 0.0
        width *= 8.0
        stagnated |= draw_line(model, precision, lower, low, lines, policies, values, low)
        evaluations += 1
    if is_bracketed or lines[low, 2] <= rounding:
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


@Loop
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


# The soft backup ----------------------------------------------------------------------------------

BLOCK = 512
# In place of a table of the actions that are not there, where all are.
NOTHING = np.zeros((0, 0), np.bool_)

# 1.5 * 2**52: a number added to it leaves its nearest integer in the lowest bits.
ROUNDER = 6755399441055744.0
ROUNDER_BITS = 0x4338000000000000
# ln 2 = high + low. The high part has 32 bits, so that its products with exponents are exact.
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
# Bits of the square root of 1/2, below which a mantissa counts to the next power of two.
ROOT_HALF_BITS = 0x3FE6A09E667F3BCD


@Loop
def fused_backup(
    states, probabilities, discount, temperature, reward, values, missing, backed, policy, first,
    last,
):  # fmt: skip
    """One pass over some rows: soft values into `backed` [S], Boltzmann policy into `policy`.

    `missing` [S, A] are the actions that are not there, or `NOTHING`.
    """
    actions = probabilities.shape[1]
    table = np.zeros((actions, BLOCK))
    peak, mass, spare = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    for start in range(first, last, BLOCK):
        count = min(BLOCK, last - start)
        utilities(states, probabilities, discount, temperature, reward, values, table, start, count)
        if len(missing):
            for i in range(count):
                for a in range(actions):
                    if missing[start + i, a]:
                        table[a, i] = -np.inf
        normalise(table, peak, mass, spare)
        for i in range(count):
            backed[start + i] = temperature * peak[i]
        for i in range(count):
            for a in range(actions):
                policy[start + i, a] = table[a, i]
        if len(missing):  # exponentials end at exp(-708)
            for i in range(count):
                for a in range(actions):
                    if missing[start + i, a]:
                        policy[start + i, a] = 0.0


@Loop
def utilities(states, probabilities, discount, temperature, reward, values, table, start, count):
    """Puts (reward + discount * P values) / temperature of some states into table [A, BLOCK]."""
    _, actions, width = probabilities.shape
    lanes = states.shape[1]  # 1 where all actions share their next states
    scale = 1.0 / temperature
    for i in range(count):
        s = start + i
        for a in range(actions):
            lane = 0 if lanes == 1 else a
            total = 0.0
            for w in range(width):
                # Unsigned: a signed index would be tested for counting from the end.
                total += probabilities[s, a, w] * values[np.uint32(states[s, lane, w])]
            table[a, i] = (reward[s, a] + discount * total) * scale


@Loop
def normalise(table, peak, mass, spare):
    """Makes table [A, BLOCK] its softmax down the columns, and `peak` [BLOCK] the logsumexp."""
    actions = len(table)
    for i in range(BLOCK):
        peak[i] = table[0, i]
        mass[i] = 0.0
    for a in range(1, actions):
        for i in range(BLOCK):
            peak[i] = max(peak[i], table[a, i])
    for a in range(actions):
        exponentials(table[a], peak, mass, spare)
    for i in range(BLOCK):
        spare[i] = 1.0 / mass[i]
    for a in range(actions):
        for i in range(BLOCK):
            table[a, i] *= spare[i]
    logarithms(mass, spare)
    for i in range(BLOCK):
        # Zero times a probability: NaN if that is, which the bits of a logarithm do not show.
        peak[i] += spare[i] + 0.0 * table[0, i]


@Loop
def exponentials(x, peak, mass, spare):
    """Replaces x by exp(x - peak) for x <= peak, never below exp(-708), and adds it to `mass`.

    exp(v) = 2**k exp(r) with |r| <= ln(2) / 2, and a Taylor polynomial for exp(r).
    """
    bits = spare.view(np.int64)
    for i in range(BLOCK):
        v = max(x[i] - peak[i], -708.0)
        rounded = v * 1.4426950408889634 + ROUNDER
        spare[i] = rounded
        k = rounded - ROUNDER
        r = (v - k * LN2_HIGH) - k * LN2_LOW
        p = 1.6059043836821613e-10  # 1 / 13!
        p = p * r + 2.08767569878681e-09
        p = p * r + 2.505210838544172e-08
        p = p * r + 2.755731922398589e-07
        p = p * r + 2.7557319223985893e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 0.0001984126984126984
        p = p * r + 0.001388888888888889
        p = p * r + 0.008333333333333333
        p = p * r + 0.041666666666666664
        p = p * r + 0.16666666666666666
        p = p * r + 0.5
        p = p * r + 1.0
        x[i] = p * r + 1.0
    for i in range(BLOCK):
        bits[i] = (bits[i] + 1023) << 52  # 2**k
    for i in range(BLOCK):
        x[i] *= spare[i]
        mass[i] += x[i]


@Loop
def logarithms(x, out):
    """Puts log(x) into `out`, for x >= 1; x is used up.

    log(2**k m) = k ln(2) + log(m) with m between the roots of 1/2 and 2, and with s = f / (2 + f),
    f = m - 1, log(m) = 2 atanh(s) = 2 s + 2/3 s^3 + 2/5 s^5 + ..., of which 2 s = f - s f.
    """
    bits, fields = x.view(np.int64), out.view(np.int64)
    for i in range(BLOCK):
        k = (bits[i] - ROOT_HALF_BITS) >> 52
        fields[i] = k + ROUNDER_BITS
        bits[i] -= k << 52
    for i in range(BLOCK):
        f = x[i] - 1.0
        s = f / (2.0 + f)
        z = s * s
        p = 0.09523809523809523  # 2 / 21
        p = p * z + 0.10526315789473684
        p = p * z + 0.11764705882352941
        p = p * z + 0.13333333333333333
        p = p * z + 0.15384615384615385
        p = p * z + 0.18181818181818182
        p = p * z + 0.2222222222222222
        p = p * z + 0.2857142857142857
        p = p * z + 0.4
        p = p * z + 0.6666666666666666
        k = out[i] - ROUNDER
        out[i] = k * LN2_HIGH + ((f - s * (f - p * z)) + k * LN2_LOW)
