"""The same linear systems by elimination, for small chains."""

from __future__ import annotations

import numpy as np

from tacit.forward.compiled import compiled
from tacit.forward.kernels.krylov import krylov

# Below this many states elimination (n^3 / 3) beats the bookkeeping of a Krylov method.
DIRECT_LIMIT = 64


@compiled
def eliminate(states, weights, discount, transposed):
    """[S, S] the factors of A by Gaussian elimination.

    The rows of I - discount P (the columns of its transpose) are strictly diagonally dominant, so
    elimination without pivoting is stable.
    """
    count, width = states.shape
    factors = np.zeros((count, count))
    for s in range(count):
        factors[s, s] += 1.0
        for w in range(width):
            if transposed:
                factors[states[s, w], s] -= discount * weights[s, w]
            else:
                factors[s, states[s, w]] -= discount * weights[s, w]
    for pivot in range(count):
        inverse = 1.0 / factors[pivot, pivot]
        for row in range(pivot + 1, count):
            factor = factors[row, pivot] * inverse
            if factor != 0.0:
                factors[row, pivot] = factor
                for column in range(pivot + 1, count):
                    factors[row, column] -= factor * factors[pivot, column]
    return factors


@compiled
def substitute(factors, b, x):
    """Solves with the factors of `eliminate`; the answer is left in `x`."""
    count = len(b)
    for row in range(count):
        total = b[row]
        for column in range(row):
            total -= factors[row, column] * x[column]
        x[row] = total
    for row in range(count - 1, -1, -1):
        total = x[row]
        for column in range(row + 1, count):
            total -= factors[row, column] * x[column]
        x[row] = total / factors[row, row]


@compiled
def chain_values(rows, weights, discount, right, x, aim):
    """Solves (I - discount P) x = right from the guess x, in place; whether the aim was met."""
    if len(right) <= DIRECT_LIMIT:
        substitute(eliminate(rows, weights, discount, False), right, x)
        return True
    return krylov(rows, weights, discount, False, right, x, aim, 2000)
