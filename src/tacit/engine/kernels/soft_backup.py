"""The soft backup at the speed of memory: one pass over the transitions, exp and log in vectors.

What was measured (`benchmarks/bandwidth.py`, 1e6 states, 4 actions, 5 successors), and so chosen:

- The exponentials, not the memory, held a plain loop back: four calls of the C library's exp and
  one of its log for each state. `exponentials` and `logarithms` are polynomials without a branch,
  so that the compiler makes vector code of them; both are right to two units in the last place.
- They need states side by side, the transitions lie row by row. A block of states is gathered row
  by row into a small table [A, BLOCK] that stays in the cache, and treated there: as fast as
  storing the transitions in blocks, which would be a second copy of them.
- Next states are four bytes and shared between actions where they can be, probabilities are eight.
  Neither makes this loop quicker, which now waits for its arithmetic; the first makes the model
  smaller, and probabilities of four bytes would move the answer in the eighth digit.
- A block never waits for another, so threads take a range of states each.
"""

from __future__ import annotations

import numpy as np

from tacit.engine.process import compiled

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


@compiled
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


@compiled
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


@compiled
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


@compiled
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


@compiled
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
