"""Linear systems of one policy's Markov chain by a preconditioned Krylov method, checked.

A chain is held in rows: state s leads to `states[s, w]` with probability `weights[s, w]`, next
states in ascending order. The systems are those of values, (I - discount P) x = b, and of visits,
(I - discount P)' x = b.

The method is BiCGSTAB on the chain without its self-loops, split into its moves to lower and to
higher states, I - L - U, preconditioned by symmetric Gauss-Seidel: one sweep up, one sweep down. On
worlds where states are numbered along space that carries a value across the whole world at once.
By Eisenstat's identity, with z = (I - U)^-1 y,

    (I - L)^-1 (I - L - U) (I - U)^-1 y = z + (I - L)^-1 (y - z),

the preconditioned product costs no more than the plain one.

BiCGSTAB can stagnate and was seen to report success with a wrong answer, so its recurrence is never
trusted: every claim below is of b - A x computed afresh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tacit.engine import Array
from tacit.engine.kernels import SMALL, Loop, at_hand

if TYPE_CHECKING:
    from tacit.model.mdp import MDP


@Loop
def split(states, weights, discount):
    """What a solve needs: moves [S, W], their split point [S], and the scale [S] of the rows.

    Row s of I - discount P is scale[s] times row s of I - L - U; L holds moves[s, :middle[s]].
    """
    count, width = states.shape
    moves = np.empty((count, width))
    middle = np.empty(count, np.int32)
    scale = np.empty(count)
    for s in range(count):
        stay = 0.0
        low = 0
        for w in range(width):
            if states[s, w] == s:
                stay += weights[s, w]
            elif states[s, w] < s and low == w:
                low = w + 1
        scale[s] = 1.0 - discount * stay
        factor = discount / scale[s]
        for w in range(width):
            moves[s, w] = 0.0 if states[s, w] == s else factor * weights[s, w]
        middle[s] = low
    return moves, middle, scale


@Loop
def sweep(states, moves, middle, transposed, down, y, z):
    """Solves with one half of the split into z: from the last state down, or from the first up.

    Down that is (I - U)^-1 y, up (I - L)^-1 y; transposed, (I - L')^-1 y and (I - U')^-1 y.
    """
    count, width = states.shape
    if transposed:
        for s in range(count):
            z[s] = y[s]
    for i in range(count):
        s = count - 1 - i if down else i
        first, last = (0, middle[s]) if down == transposed else (middle[s], width)
        if transposed:
            flow = z[s]
            for w in range(first, last):
                z[states[s, w]] += moves[s, w] * flow
        else:
            total = y[s]
            for w in range(first, last):
                total += moves[s, w] * z[states[s, w]]
            z[s] = total


@Loop
def product(states, moves, middle, transposed, y, z, u, out):
    """Puts the preconditioned matrix times y into out; z and u are left as work."""
    sweep(states, moves, middle, transposed, True, y, z)
    if transposed:
        for s in range(len(y)):
            out[s] = y[s] - z[s]
        sweep(states, moves, middle, transposed, False, out, u)
        for s in range(len(y)):
            out[s] = z[s] + u[s]
    else:  # the same, in one pass over memory
        for s in range(len(y)):
            total = y[s] - z[s]
            for w in range(middle[s]):
                total += moves[s, w] * u[states[s, w]]
            u[s] = total
            out[s] = z[s] + total


@Loop
def residual(states, weights, discount, transposed, x, b, out):
    """The size of b - A x, A = I - discount P or its transpose; b - A x goes to out."""
    count, width = states.shape
    for s in range(count):
        out[s] = b[s] - x[s]
    for s in range(count):
        if transposed:
            flow = discount * x[s]
            for w in range(width):
                out[states[s, w]] += weights[s, w] * flow
        else:
            total = 0.0
            for w in range(width):
                total += weights[s, w] * x[states[s, w]]
            out[s] += discount * total
    return size_of(out, transposed)


@Loop
def size_of(x, transposed):
    """What counts of a vector: of values the largest entry, of visits the sum of all.

    In a million states errors that are small everywhere may still add up.
    """
    total, worst = 0.0, 0.0
    for s in range(len(x)):
        total += abs(x[s])
        worst = max(worst, abs(x[s]))
    # No comparison sees NaN, but every sum does.
    return worst if np.isfinite(total) and not transposed else total


@Loop
def krylov(states, weights, discount, transposed, b, x, target, limit):
    """Improves `x` in place until the true residual meets `target`; whether it does.

    Restarts from the true residual whenever the recurrence claims success, breaks down, or has run
    for 200 steps: rounding makes the claimed and the true residual drift apart. Where it stagnates,
    the caller falls back.
    """
    count = len(b)
    moves, middle, scale = split(states, weights, discount)
    r, v, t = np.empty(count), np.empty(count), np.empty(count)
    p, shadow = np.empty(count), np.empty(count)
    # Padding reads z and u before they are written, with weight 0: that must not be garbage.
    y, z, u = np.empty(count), np.zeros(count), np.zeros(count)
    worst = residual(states, weights, discount, transposed, x, b, r)
    spent, stuck, tighten = 0, 0, 0.5
    while worst > target and spent < limit and stuck < 3:
        if not transposed:
            for s in range(count):
                r[s] /= scale[s]
        sweep(states, moves, middle, transposed, False, r, r)
        # The recurrence sees a preconditioned 2-norm, the target is of another: aim lower after
        # every round that fell short.
        aim = (tighten * target / worst) ** 2
        tighten *= 0.2
        rho, size = 0.0, 0.0
        for s in range(count):
            shadow[s] = r[s]
            if transposed:
                # Visits begin in few states and fade along their paths: a shadow that fades as fast
                # sees nothing of the far ends, and the recurrence was seen to explode.
                shadow[s] = np.sign(r[s]) * np.sqrt(abs(r[s])) * (1.0 + 0.5 * np.cos(s))
            p[s] = r[s]
            y[s] = 0.0
            rho += shadow[s] * r[s]
            size += r[s] * r[s]
        claim = aim * size
        for _ in range(200):
            spent += 1
            product(states, moves, middle, transposed, p, z, u, v)
            slope = 0.0
            for s in range(count):
                slope += shadow[s] * v[s]
            if slope == 0.0 or not np.isfinite(slope):
                break
            alpha = rho / slope
            for s in range(count):
                r[s] -= alpha * v[s]
            product(states, moves, middle, transposed, r, z, u, t)
            along = 0.0
            across = 0.0
            for s in range(count):
                along += t[s] * r[s]
                across += t[s] * t[s]
            omega = along / across if across > 0.0 else 0.0
            size = 0.0
            fresh = 0.0
            for s in range(count):
                y[s] += alpha * p[s] + omega * r[s]
                r[s] -= omega * t[s]
                size += r[s] * r[s]
                fresh += shadow[s] * r[s]
            if size <= claim or fresh == 0.0 or omega == 0.0 or not np.isfinite(size):
                break
            beta = fresh / rho * (alpha / omega)
            rho = fresh
            for s in range(count):
                p[s] = r[s] + beta * (p[s] - omega * v[s])
        sweep(states, moves, middle, transposed, True, y, z)
        for s in range(count):
            x[s] += z[s] / scale[s] if transposed else z[s]
        before = worst
        worst = residual(states, weights, discount, transposed, x, b, r)
        stuck = 0 if worst < 0.5 * before else stuck + 1
    return worst <= target


def eliminate_arrays(states, weights, discount, transposed):
    """The twin of `eliminate`: every entry has its terms taken off in the same order."""
    count, width = states.shape
    factors, every = np.eye(count), np.arange(count)
    for w in range(width):  # a state's next states may repeat: one of them at a time
        where = (states[:, w], every) if transposed else (every, states[:, w])
        factors[where] -= discount * weights[:, w]
    for pivot in range(count):
        if factors[pivot, pivot] == 0.0:
            raise ZeroDivisionError
        below = factors[pivot + 1 :]
        below[:, pivot] *= 1.0 / factors[pivot, pivot]
        below[:, pivot + 1 :] -= np.outer(below[:, pivot], factors[pivot, pivot + 1 :])
    return factors


def substitute_arrays(factors, b, x):
    """The twin of `substitute`: every entry has its terms taken off in the same order."""
    x[:] = b
    for column in range(len(b)):
        x[column + 1 :] -= factors[column + 1 :, column] * x[column]
    for column in range(len(b) - 1, -1, -1):
        x[column] /= factors[column, column]
        x[:column] -= factors[:column, column] * x[column]


@partial(Loop, twin=eliminate_arrays)
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
        # Beyond the last entry of the pivot's row there is nothing to take off: most of a row,
        # where states are numbered along space.
        last = count - 1
        while last > pivot and factors[pivot, last] == 0.0:
            last -= 1
        for row in range(pivot + 1, count):
            factor = factors[row, pivot] * inverse
            if factor != 0.0:
                factors[row, pivot] = factor
                for column in range(pivot + 1, last + 1):
                    factors[row, column] -= factor * factors[pivot, column]
    return factors


@partial(Loop, twin=substitute_arrays)
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
        for column in range(count - 1, row, -1):
            total -= factors[row, column] * x[column]
        x[row] = total / factors[row, row]


@Loop
def chain_values(rows, weights, discount, right, x, aim):
    """Solves (I - discount P) x = right from the guess x, in place; whether the aim was met."""
    if len(right) <= SMALL:
        substitute(eliminate(rows, weights, discount, False), right, x)
        return True
    return krylov(rows, weights, discount, False, right, x, aim, 2000)


def policy_chain(mdp: MDP, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[S, W] next states, ascending in every row, and [S, W] their probabilities."""
    rows, weights = mdp.packed.states, mdp.packed_weights(policy)
    if rows.shape[1] == 1:
        return rows[:, 0, :], weights
    rows, weights = (table.reshape(mdp.states, -1) for table in (rows, weights))
    order = np.argsort(rows, axis=1, kind="stable")
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(weights, order, axis=1)


def chain_solve(
    mdp: MDP,
    rows: np.ndarray,
    weights: np.ndarray,
    right: np.ndarray,
    *,
    transposed: bool,
    target: Array = 0.0,
    guess: np.ndarray | None = None,
    several: Callable[..., Iterable[object]] = map,
) -> np.ndarray:
    """[..., S] the x of (I - discount P) x = right [..., S], or of the transpose, from `guess`.

    The Krylov answer is taken only if its true residual, the largest entry or, transposed, the sum
    of all, is at most `target` or at rounding level; else the system is solved by elimination.
    Several right sides of a large model are done one after the other, or as `several` does them.
    """
    right = np.ascontiguousarray(right, dtype=np.float64)
    x = np.zeros(right.shape) if guess is None else np.array(guess, dtype=np.float64, order="C")
    if mdp.states <= SMALL:
        sides = zip(right.reshape(-1, mdp.states), x.reshape(-1, mdp.states), strict=True)
        try:
            with at_hand(mdp.states):
                factors = eliminate(rows, weights, mdp.discount, transposed)
                for side, answer in sides:
                    substitute(factors, side, answer)
        except ZeroDivisionError:  # singular: at discount 1, a policy that never ends
            x[:] = np.nan
        return x
    if right.ndim > 1:
        targets = np.broadcast_to(target, len(right))

        def single(d: int) -> None:
            options = {"transposed": transposed, "target": targets[d], "guess": x[d]}
            x[d] = chain_solve(mdp, rows, weights, right[d], **options)

        list(several(single, range(len(x))))
        return x
    # A solution is at most this much larger than the right side, and rounding is a share of it.
    largest = size_of(right, transposed) / mdp.leak
    if not np.isfinite(largest):
        return np.full(mdp.states, np.nan)
    target = max(target, 1e-15 * largest, 1e-14 * mdp.leak * largest)
    if krylov(rows, weights, mdp.discount, transposed, right, x, target, 4000):
        return x
    from scipy.sparse import coo_array, eye_array
    from scipy.sparse.linalg import splu

    every = np.repeat(np.arange(mdp.states), rows.shape[1])
    chain = coo_array((weights.ravel(), (every, rows.ravel())), shape=(mdp.states,) * 2)
    system = (eye_array(mdp.states) - mdp.discount * chain).tocsc()
    try:
        return splu(system).solve(right, trans="T" if transposed else "N")
    except RuntimeError:  # singular: at discount 1, a policy that never ends
        return np.full(mdp.states, np.nan)
