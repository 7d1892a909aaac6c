"""Linear systems beside those of one chain: many at once, and such as products alone are known of.

Many right sides of one matrix (`SparseFactors`), or many matrices of one pattern, one a lane: an
entry, or its place, serves them all while it is at hand. With very many coordinates a curvature is
known by its products, or by sparse factors (`inverse_by_values`): then come steps from those
(`bounded_step`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tacit.engine.kernels import Loop

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array

# Numbers apart that neighbours may be, over the root of all: states of a plane.
NARROW = 10
# Products by which the largest eigenvalue of a matrix is found.
STRETCH = 8

# Entries times right sides below which SciPy's own substitution does not wait for a compiler.
SMALL = 200_000


@Loop
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


@Loop
def take_lanes(own, entry, other):
    """Takes entry [n] times other [m, n] off own [m, n]."""
    sides, lanes = own.shape
    for d in range(sides):
        for c in range(lanes):
            own[d, c] -= entry[c] * other[d, c]


@Loop
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


@Loop
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


@Loop
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


class SparseFactors:
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


class Matrix(Protocol):
    """A symmetric matrix, not negative, that is known by its products with vectors."""

    def __matmul__(self, vector: np.ndarray, /) -> np.ndarray:
        """[D] the product with a vector [D]."""
        ...


def conjugate_gradients(
    matrix: Matrix,
    right: np.ndarray,
    free: np.ndarray,
    *,
    share: float,
    most: int,
    rough: Callable[[np.ndarray], np.ndarray],
) -> tuple[np.ndarray, int, float]:
    """[D] x with matrix x = right on the free coordinates; products taken; residual left.

    Args:
        matrix: of the system.
        right: [D].
        free: [D] bool; the others stay 0.
        share: of the right side, at which to stop.
        most: products.
        rough: an approximate inverse.
    """
    x, residual = np.zeros(len(right)), np.where(free, right, 0.0)
    norm = float(np.linalg.norm(residual))
    best, least = x, 1.0
    if norm == 0.0:
        return x, 0, 0.0
    direction = np.where(free, rough(residual), 0.0)
    square = float(residual @ direction)
    for taken in range(1, most + 1):
        image = np.where(free, matrix @ direction, 0.0)
        bend = float(direction @ image)
        if not bend > 1e-14 * float(direction @ direction):  # flat: nothing is known there
            return best, taken, least
        length = square / bend
        x, residual = x + length * direction, residual - length * image
        left = float(np.linalg.norm(residual)) / norm
        if left < least:
            best, least = x, left
        if left <= share:
            return best, taken, least
        ahead = np.where(free, rough(residual), 0.0)
        fresh = float(residual @ ahead)
        direction, square = ahead + fresh / square * direction, fresh
    return best, most, least


def bounded_step(
    matrix: Matrix,
    gradient: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    share: float,
    most: int,
) -> tuple[np.ndarray, int]:
    """[D] the step d to the minimum of d . matrix d / 2 + gradient . d within bounds; products.

    Conjugate gradients among the coordinates inside; where one meets its bound, a step of steepest
    descent that is cut off there; and off the bounds again where the slope leads inside and weighs
    more than what is left to gain (Dostal and Schoeberl, 2005).

    Args:
        matrix: of the quadratic model.
        gradient: [D] at no step.
        low: [D] at most 0.
        high: [D] at least 0.
        share: of the projected gradient, at which to stop.
        most: products.
    """
    can, d, g = high > low, np.zeros(len(gradient)), gradient
    fixed, products = 1.5 / max(_largest_eigenvalue(matrix, len(gradient)), 1e-300), STRETCH

    def slopes() -> tuple[np.ndarray, np.ndarray]:
        at_low, at_high = d <= low, d >= high
        inward = np.where(at_low, np.minimum(g, 0.0), np.where(at_high, np.maximum(g, 0.0), 0.0))
        return np.where(can & ~at_low & ~at_high, g, 0.0), np.where(can, inward, 0.0)

    inside, inward = slopes()
    aim, p = share * np.linalg.norm(inside + inward), inside
    while np.linalg.norm(inside + inward) > aim and products < most:
        room = np.where(inside > 0, d - low, d - high) / fixed
        reduced = np.where(inside > 0, np.minimum(room, inside), np.maximum(room, inside))
        leaving = bool(inward @ inward > reduced @ inside)
        p = inward if leaving else p
        image = matrix @ p
        bend = float(p @ image)
        room = np.where(p > 0, d - low, d - high) / np.where(p != 0, p, 1.0)
        furthest = float(np.where(p != 0, room, np.inf).min())
        length = float(g @ p) / bend if bend > 1e-14 * float(p @ p) else np.inf
        step = min(length, furthest)
        if not np.isfinite(step):  # flat, and no bound ahead
            break
        d, g, products = np.clip(d - step * p, low, high), g - step * image, products + 1
        blocked = length > furthest
        if blocked and not leaving:
            d = np.clip(d - fixed * np.where(can, g, 0.0), low, high)
            g, products = gradient + matrix @ d, products + 1
        inside, inward = slopes()
        p = inside if blocked or leaving else inside - float(inside @ image) / bend * p
    return d, products


def _largest_eigenvalue(matrix: Matrix, size: int) -> float:
    """About the largest eigenvalue, by powers of the matrix."""
    x, eigenvalue = np.random.default_rng(0).normal(size=size), 0.0
    for _ in range(STRETCH):
        x = matrix @ (x / max(float(np.linalg.norm(x)), 1e-300))
        eigenvalue = float(np.linalg.norm(x))
    return 1.2 * eigenvalue


def inverse_by_values(
    moves: csr_array,
    policy: np.ndarray,
    visits: np.ndarray,
    discount: float,
    worth: np.ndarray,
    penalty: csr_array,
) -> Callable[[np.ndarray], np.ndarray] | None:
    """What divides by a curvature and its penalty, where every state has a feature of its own.

    A direction d has the values V of (I - discount P) V = worth d, in which all is sparse: the
    curvature is V' K V with K = sum_s visits(s) Cov_a[discount p(. | s, a)]. So one factorisation
    serves every right side. None where states lie so that it would fill up: on no line or plane.

    Args:
        moves: [S * A, S] chances of the next state.
        policy: [S, A].
        visits: [S] not negative.
        discount: of the values.
        worth: [S] what a parameter of one pays in its state, not 0.
        penalty: [S, S].
    """
    from scipy.sparse import csc_array, csr_array, diags_array, eye_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee
    from scipy.sparse.linalg import splu

    states, actions = policy.shape
    places = np.arange(states * actions), np.arange(0, states * actions + 1, actions)
    average = csr_array((policy.ravel(), *places), shape=(states, states * actions))
    ahead = discount * moves
    mean = csr_array(average @ ahead)
    rank = np.argsort(reverse_cuthill_mckee(csr_array(mean + mean.T), True))
    if (
        np.abs(rank[mean.nonzero()[0]] - rank[mean.nonzero()[1]]).max(initial=0)
        > NARROW * states**0.5
    ):
        return None
    weights = diags_array((visits[:, None] * policy).ravel())
    spread = ahead.T @ weights @ ahead - mean.T @ diags_array(visits) @ mean
    back = csr_array(diags_array(1.0 / worth) @ (eye_array(states) - mean))
    # What neither steps nor the penalty know of, and rounding does, must not be multiplied.
    held = penalty + 1e-4 * float(penalty.diagonal().mean()) * eye_array(states)
    factor = splu(
        csc_array(spread + back.T @ held @ back),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    return lambda right: back @ factor.solve(back.T @ right)
