"""The loops of the exact solver: a chain's linear systems, and policy iteration over them.

A chain is held in rows: state s leads to `states[s, w]` with probability `weights[s, w]`, next
states in ascending order. Both systems of the library, values (I - discount P) x = b and visitation
(I - discount P)' x = b, are solved by elimination when small and by BiCGSTAB when large.

The Krylov method works on the chain without its self-loops, split into its moves to lower and to
higher states, I - L - U, preconditioned by symmetric Gauss-Seidel: one sweep up, one sweep down. On
worlds where states are numbered along space that carries a value across the whole world at once.
By Eisenstat's identity, with z = (I - U)^-1 y,

    (I - L)^-1 (I - L - U) (I - U)^-1 y = z + (I - L)^-1 (y - z),

the preconditioned product costs no more than the plain one.

BiCGSTAB can stagnate and was seen to report success with a wrong answer, so its recurrence is never
trusted: every claim below is of b - A x computed afresh.

All compiled loops live in this one file: the cache on disk follows a file's own changes only.
"""

from __future__ import annotations

import numpy as np

from tacit.forward.compiled import compiled

# Below this many states elimination (n^3 / 3) beats the bookkeeping of a Krylov method.
DIRECT_LIMIT = 64


@compiled
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


@compiled
def solve_upper(states, moves, middle, transposed, y, z):
    """Puts (I - U)^-1 y, or (I - L')^-1 y when transposed, into z: from the last state down."""
    count, width = states.shape
    if transposed:
        for s in range(count):
            z[s] = y[s]
        for s in range(count - 1, -1, -1):
            flow = z[s]
            for w in range(middle[s]):
                z[states[s, w]] += moves[s, w] * flow
    else:
        for s in range(count - 1, -1, -1):
            total = y[s]
            for w in range(middle[s], width):
                total += moves[s, w] * z[states[s, w]]
            z[s] = total


@compiled
def solve_lower(states, moves, middle, transposed, y, z):
    """Puts (I - L)^-1 y, or (I - U')^-1 y when transposed, into z: from the first state up."""
    count, width = states.shape
    if transposed:
        for s in range(count):
            z[s] = y[s]
        for s in range(count):
            flow = z[s]
            for w in range(middle[s], width):
                z[states[s, w]] += moves[s, w] * flow
    else:
        for s in range(count):
            total = y[s]
            for w in range(middle[s]):
                total += moves[s, w] * z[states[s, w]]
            z[s] = total


@compiled
def product(states, moves, middle, transposed, y, z, u, out):
    """Puts the preconditioned matrix times y into out; z and u are left as work."""
    solve_upper(states, moves, middle, transposed, y, z)
    if transposed:
        for s in range(len(y)):
            out[s] = y[s] - z[s]
        solve_lower(states, moves, middle, transposed, out, u)
        for s in range(len(y)):
            out[s] = z[s] + u[s]
    else:  # the same, in one pass over memory
        for s in range(len(y)):
            total = y[s] - z[s]
            for w in range(middle[s]):
                total += moves[s, w] * u[states[s, w]]
            u[s] = total
            out[s] = z[s] + total


@compiled
def residual(states, weights, discount, transposed, x, b, out):
    """The largest entry of |b - A x|, A = I - discount P or its transpose; b - A x goes to out."""
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
    worst = 0.0
    for s in range(count):
        if not abs(out[s]) <= worst:  # NaN must not pass for small
            worst = abs(out[s])
    return worst


@compiled
def krylov(states, weights, discount, transposed, b, x, target, limit):
    """Improves `x` in place until the largest true residual is at most `target`; returns it.

    Restarts from the true residual whenever the recurrence claims success, breaks down, or has run
    for 200 steps: rounding makes the claimed and the true residual drift apart.
    """
    count = len(b)
    moves, middle, scale = split(states, weights, discount)
    r, v, t = np.empty(count), np.empty(count), np.empty(count)
    # Padding reads z and u before they are written, with weight 0: that must not be garbage.
    y, z, u = np.empty(count), np.zeros(count), np.zeros(count)
    worst = residual(states, weights, discount, transposed, x, b, r)
    spent, stuck, tighten = 0, 0, 0.5
    while worst > target and spent < limit and stuck < 3:
        if not transposed:
            for s in range(count):
                r[s] /= scale[s]
        solve_lower(states, moves, middle, transposed, r, r)
        # The recurrence sees a preconditioned 2-norm, the target is the largest entry: aim lower
        # after every round that fell short.
        aim = (tighten * target / worst) ** 2
        tighten *= 0.2
        shadow = r.copy()
        p = r.copy()
        rho = np.dot(r, r)
        claim = aim * rho
        for s in range(count):
            y[s] = 0.0
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
        solve_upper(states, moves, middle, transposed, y, z)
        for s in range(count):
            x[s] += z[s] / scale[s] if transposed else z[s]
        before = worst
        worst = residual(states, weights, discount, transposed, x, b, r)
        stuck = 0 if worst < 0.5 * before else stuck + 1
    return worst  # above the target after stagnation or breakdown: the caller falls back


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
def improve(states, probabilities, reward, discount, values, policy, margin, rows, weights):
    """Switches to the greedy actions and fills the chain; returns the largest Bellman residual.

    An action is left only for one better by more than `margin`: ties must not make policies cycle.
    """
    count, actions, width = probabilities.shape
    shared = states.shape[1] == 1
    error = 0.0
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
        gap = abs(best - values[s])
        if not gap <= error:
            error = gap
        lane = 0 if shared else policy[s]
        for w in range(width):
            rows[s, w] = states[s, lane, w]
            weights[s, w] = probabilities[s, policy[s], w]
    return error


@compiled
def iterate(states, probabilities, tables, combination, discount, precision, values, policy, limit):
    """Policy iteration in place on `values` [1 + K, S] and `policy` [S].

    Returns (policies tried, Bellman residual, whether a linear solve stagnated).
    """
    count, actions, width = probabilities.shape
    reward = np.zeros((count, actions))
    value = np.zeros(count)
    for k in range(len(tables)):
        if combination[k] != 0.0:
            reward += combination[k] * tables[k]
            value += combination[k] * values[k]
    # Rounding leaves about 1e-16 of the values, which are reward / (1 - discount) large.
    precision = max(precision, 2e-15 / (1.0 - discount))
    target = precision * np.abs(reward).max()
    rows, weights = np.empty((count, width), np.int32), np.empty((count, width))
    right = np.empty(count)
    steps, stagnated = 0, False
    while True:
        error = improve(
            states, probabilities, reward, discount, value, policy, target, rows, weights
        )
        if error <= target or steps >= limit or stagnated:
            break
        steps += 1
        for s in range(count):
            right[s] = reward[s, policy[s]]
        if count <= DIRECT_LIMIT:
            substitute(eliminate(rows, weights, discount, False), right, value)
        else:  # as exactly as the Bellman error deserves, no more
            aim = max(0.3 * target, 0.1 * error)
            stagnated = not krylov(rows, weights, discount, False, right, value, aim, 2000) <= aim
    # What the policy spends and earns. The costs are solved for; the reward follows from the
    # Lagrangian, unless its price is so small beside theirs that the subtraction would cancel.
    follows = combination[0] * np.abs(tables[0]).max() > 1e-3 * np.abs(reward).max()
    factors = np.empty((0, 0))
    if count <= DIRECT_LIMIT and (len(tables) > 1 or not follows):
        factors = eliminate(rows, weights, discount, False)
    for k in range(1 if follows else 0, len(tables)):
        for s in range(count):
            right[s] = tables[k][s, policy[s]]
        if count <= DIRECT_LIMIT:
            substitute(factors, right, values[k])
        else:
            aim = 0.3 * precision * np.abs(right).max()
            solved = krylov(rows, weights, discount, False, right, values[k], aim, 2000) <= aim
            stagnated = stagnated or not solved
    if follows:
        for k in range(1, len(tables)):
            if combination[k] != 0.0:
                value -= combination[k] * values[k]
        values[0] = value / combination[0]
    return steps, error, stagnated


@compiled
def draw_line(world, precision, price, start, lines, policies, values, slot):
    """Puts the best policy at a price into `slot`, found from that of slot `start`."""
    states, probabilities, tables, initial, discount, budget = world
    if slot != start:
        policies[slot] = policies[start]
        values[slot] = values[start]
    combination = np.array([1.0, -price])
    if np.isinf(price):
        combination = np.array([0.0, -1.0])
    _, _, stagnated = iterate(
        states, probabilities, tables, combination, discount, precision,
        values[slot], policies[slot], 1000,
    )  # fmt: skip
    lines[slot, 0] = price
    lines[slot, 1] = np.dot(initial, values[slot, 0])
    lines[slot, 2] = np.dot(initial, values[slot, 1]) - budget
    return stagnated


@compiled
def bracket(world, precision, rounding, lines, policies, values):
    """Widens the prices of slots 0 and 1 until the first overspends and the second does not.

    Where that cannot be (slack at price 0, or too dear at price infinity) the slot stays as it is.
    Returns (evaluations, whether a linear solve stagnated).
    """
    lower, upper = lines[0, 0], lines[1, 0]
    width = upper - lower
    stagnated = draw_line(world, precision, lower, 0, lines, policies, values, 0)
    evaluations = 1
    found = False
    while lines[0, 2] <= rounding and lower > 0.0:
        lines[1], policies[1], values[1] = lines[0], policies[0], values[0]
        found = True
        lower = lower - width if width < lower else 0.0
        width *= 8.0
        stagnated |= draw_line(world, precision, lower, 0, lines, policies, values, 0)
        evaluations += 1
    if found or lines[0, 2] <= rounding:
        return evaluations, stagnated
    stagnated |= draw_line(world, precision, upper, 0, lines, policies, values, 1)
    evaluations += 1
    while lines[1, 2] > rounding and not np.isinf(upper):
        lines[0], policies[0], values[0] = lines[1], policies[1], values[1]
        upper = upper + width if width < 64.0 * upper else np.inf
        width *= 8.0
        stagnated |= draw_line(world, precision, upper, 0, lines, policies, values, 1)
        evaluations += 1
    return evaluations, stagnated


@compiled
def search(world, precision, rounding, limit, lines, policies, values):
    """Closes the bracket of slots 0 and 1 on the minimum of the dual; slot 2 is best at its price.

    Every policy is a line in the price, earned - price * over, the dual their upper envelope.
    The height at which the two ends cross is the value of their mixture and a lower bound on the
    dual, so the search ends exactly when no policy rises above the crossing. While many pieces lie
    between the ends, trying the crossing merely halves the bracket, as on any smooth curve; the
    minimum of the cubic through both heights and slopes then does far better. So they take turns.
    Returns (evaluations, whether a linear solve stagnated).
    """
    budget = world[5]
    evaluations, stagnated, smooth, width = 0, False, False, np.inf
    best = 0 if np.isinf(lines[1, 0]) else -1
    if best < 0:
        low = lines[0, 1] - lines[0, 0] * lines[0, 2]
        best = 0 if low <= lines[1, 1] - lines[1, 0] * lines[1, 2] else 1
    lines[2], policies[2], values[2] = lines[best], policies[best], values[best]
    while True:
        price = (lines[0, 1] - lines[1, 1]) / (lines[0, 2] - lines[1, 2])
        crossing = lines[0, 1] - price * lines[0, 2]
        size = abs(lines[0, 2]) + abs(lines[1, 2]) + abs(budget)
        lowest = lines[2, 1] - lines[2, 0] * lines[2, 2]
        if lowest - crossing <= 3.0 * precision * (abs(crossing) + abs(price) * size):
            break
        low, high = lines[0, 0], lines[1, 0]
        trial = price
        if smooth:
            mean = (lines[1, 1] - high * lines[1, 2] - lines[0, 1] + low * lines[0, 2]) / (
                high - low
            )
            bend = -lines[0, 2] - lines[1, 2] - 3.0 * mean
            root = np.sqrt(max(0.0, bend * bend - lines[0, 2] * lines[1, 2]))
            trial = high - (high - low) * (root - lines[1, 2] - bend) / (
                lines[0, 2] - lines[1, 2] + 2.0 * root
            )
        if not low < trial < high:
            trial = price
        if not low < trial < high or evaluations >= limit or stagnated:
            break  # at the resolution of floats, or out of steps
        start = 0 if trial - low < high - trial else 1
        stagnated |= draw_line(world, precision, trial, start, lines, policies, values, 3)
        evaluations += 1
        if lines[3, 1] - trial * lines[3, 2] < lowest:
            lines[2], policies[2], values[2] = lines[3], policies[3], values[3]
        side = 0 if lines[3, 2] > rounding else 1
        lines[side], policies[side], values[side] = lines[3], policies[3], values[3]
        # A crossing that cut the bracket to less than a third is on its way to the exact corner.
        shrunk = (lines[1, 0] - lines[0, 0]) / width if width < np.inf else 1.0
        smooth = not smooth and shrunk > 0.3 and not np.isinf(lines[1, 0])
        width = lines[1, 0] - lines[0, 0]
    return evaluations, stagnated
