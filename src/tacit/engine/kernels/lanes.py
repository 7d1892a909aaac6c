"""Many linear systems at once, of one pattern or of one matrix, and the flows that solve them.

One entry of a matrix serves all right sides, one place of a pattern all its lanes while it is at
hand: SciPy's own substitution takes right sides one by one.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tacit.engine.kernels import compiled

if TYPE_CHECKING:
    from scipy.sparse import csc_array

# Entries times right sides below which SciPy's own substitution does not wait for a compiler.
SMALL = 200_000


@compiled
def eliminate_lanes(starts, columns, diagonal, entries):
    """Factorises as many matrices of one pattern as there are lanes, in place: entries [N, n].

    Row i has the columns of starts[i] to starts[i + 1], ascending, its own at diagonal[i]; the
    pattern has room for all that fills in. The rows are those of I - discount P: no pivots. Left
    are both triangles, the upper one with its diagonal inverted. Whether there was room.
    """
    count, lanes = len(diagonal), entries.shape[1]
    place, factor = np.full(count, -1), np.empty(lanes)
    for i in range(count):
        for k in range(starts[i], starts[i + 1]):
            place[columns[k]] = k
        for k in range(starts[i], diagonal[i]):
            pivot = columns[k]
            own, inverse = entries[k], entries[diagonal[pivot]]
            for c in range(lanes):
                factor[c] = own[c] * inverse[c]
                own[c] = factor[c]
            for m in range(diagonal[pivot] + 1, starts[pivot + 1]):
                at = place[columns[m]]
                if at < 0:
                    return False
                filled, above = entries[at], entries[m]
                for c in range(lanes):
                    filled[c] -= factor[c] * above[c]
        last = entries[diagonal[i]]
        for c in range(lanes):
            last[c] = 1.0 / last[c] if last[c] != 0.0 else np.nan
        for k in range(starts[i], starts[i + 1]):
            place[columns[k]] = -1
    return True


@compiled
def take_lanes(own, entry, other):
    """Takes entry [n] times other [m, n] off own [m, n]."""
    sides, lanes = own.shape
    for d in range(sides):
        for c in range(lanes):
            own[d, c] -= entry[c] * other[d, c]


@compiled
def substitute_lanes(starts, columns, diagonal, entries, transposed, x):
    """Solves with the factors of `eliminate_lanes` in place: x [S, m, n], m right sides a lane."""
    count, sides, lanes = x.shape
    for i in range(count):
        if transposed:
            for d in range(sides):
                for c in range(lanes):
                    x[i, d, c] *= entries[diagonal[i], c]
            for k in range(diagonal[i] + 1, starts[i + 1]):
                take_lanes(x[columns[k]], entries[k], x[i])
        else:
            for k in range(starts[i], diagonal[i]):
                take_lanes(x[i], entries[k], x[columns[k]])
    for i in range(count - 1, -1, -1):
        if transposed:
            for k in range(starts[i], diagonal[i]):
                take_lanes(x[columns[k]], entries[k], x[i])
        else:
            for k in range(diagonal[i] + 1, starts[i + 1]):
                take_lanes(x[i], entries[k], x[columns[k]])
            for d in range(sides):
                for c in range(lanes):
                    x[i, d, c] *= entries[diagonal[i], c]


@compiled
def flow_moments(tails, heads, chances, gains, z, y, slopes, used, moments):
    """Adds to used [E] what flows along every pair, and to moments [D, D, n] its scores' squares.

    The flow of lane c along the pair e is chances[e] y[tails[e], c] z[heads[e], c], its score
    gains[:, e] plus the difference of slopes [D, S, n]; with no slopes there are no moments. Only
    the lower triangle is filled in.
    """
    lanes = z.shape[1]
    flow, weighted, scores = np.empty(lanes), np.empty(lanes), np.empty((len(slopes), lanes))
    for e in range(len(tails)):
        tail, head, chance, total = tails[e], heads[e], chances[e], 0.0
        out, into = y[tail], z[head]
        for c in range(lanes):
            flow[c] = chance * out[c] * into[c]
        for c in range(lanes):
            total += flow[c]
        used[e] += total
        if total == 0.0:
            continue
        for d in range(len(slopes)):
            gain, own, here, there = gains[d, e], scores[d], slopes[d, tail], slopes[d, head]
            for c in range(lanes):
                own[c] = gain + (there[c] - here[c])
            for c in range(lanes):
                weighted[c] = flow[c] * own[c]
            for k in range(d + 1):
                other, sums = scores[k], moments[d, k]
                for c in range(lanes):
                    sums[c] += weighted[c] * other[c]


@compiled
def substitute_rows(starts, columns, entries, downward, x):
    """Solves a triangular system for many right sides at once, in place: x [S, n].

    The rows lie one after the other, those of `starts`; each holds its diagonal. Upper triangles
    are solved from the last row down, `downward`. One entry serves all sides while it is at hand.
    """
    count, sides = x.shape
    for step in range(count):
        row = count - 1 - step if downward else step
        own = x[row]
        diagonal = 1.0
        for k in range(starts[row], starts[row + 1]):
            entry = entries[k]
            if columns[k] == row:
                diagonal = entry
                continue
            other = x[columns[k]]
            for c in range(sides):
                own[c] -= entry * other[c]
        for c in range(sides):
            own[c] /= diagonal


class Factors:
    """A sparse factorisation of I - M, M not negative, and its solves for many right sides.

    SciPy's own substitution takes the right sides one by one.
    """

    def __init__(self, matrix: csc_array) -> None:
        from scipy.sparse.linalg import splu

        # Without pivots: where the values are finite no sum below has terms of two signs, so that
        # even the smallest z has all its digits.
        self._factors = splu(matrix, permc_spec="COLAMD", diag_pivot_thresh=0.0)
        self._lower, self._upper = self._factors.L, self._factors.U
        self.size = self._lower.nnz + self._upper.nnz

    @cached_property
    def _rows(self) -> tuple:
        return self._lower.tocsr(), self._upper.tocsr()

    def solve(self, right: np.ndarray, *, transposed: bool = False) -> np.ndarray:
        """[S, n] the solutions for right sides [S, n], of the transposed system if asked."""
        first, last = self._factors.perm_r, self._factors.perm_c
        if self.size * right.shape[1] < SMALL:
            return self._factors.solve(right, trans="T" if transposed else "N")
        lower, upper = self._rows
        if transposed:  # columns of one triangle are rows of the other, transposed
            first, last = last, first
            lower, upper = self._upper, self._lower
        x = right.take(np.argsort(first), axis=0)
        substitute_rows(lower.indptr, lower.indices, lower.data, False, x)
        substitute_rows(upper.indptr, upper.indices, upper.data, True, x)
        return x.take(last, axis=0)
