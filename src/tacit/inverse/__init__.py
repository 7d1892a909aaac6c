"""From demonstrations to an objective; here, the laws of chance by which all of it is judged.

Tails, roots and least squares with signs, in NumPy alone. SciPy has them, too, and its `special`
and `optimize` take longer to import than most small fits to be made: a first answer must not wait
for them. Where the numbers are large, SciPy is asked.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tacit.engine.smooth_dual import BLIND

ROUNDING = float(np.finfo(float).eps)
LARGE_SHAPE = 1e4  # beyond, the terms of a gamma law are many
LARGE_DEGREES = 1e3  # beyond, logarithms of gamma functions lose digits in their differences
MANY_COLUMNS = 16  # beyond, compiled least squares are worth their import
_erfc = np.frompyfunc(math.erfc, 1, 1)
_lgamma = np.frompyfunc(math.lgamma, 1, 1)


def normal_tail(z: npt.ArrayLike) -> np.ndarray:
    """[...] the chance that a standard normal number is larger than z [...]."""
    return np.asarray(0.5 * np.asarray(_erfc(np.asarray(z, float) / math.sqrt(2.0)), float))


def normal_quantile(probability: float) -> float:
    """What a standard normal number is below with this probability."""
    if not 0.0 < probability < 1.0:
        return {0.0: -math.inf, 1.0: math.inf}.get(probability, math.nan)
    tail = min(probability, 1.0 - probability)
    root = math.sqrt(-2.0 * math.log(tail))
    z = root - (2.30753 + 0.27061 * root) / (1.0 + root * (0.99229 + 0.04481 * root))
    for _ in range(3):  # Halley's steps: the first guess has three digits
        wrong = 0.5 * math.erfc(z / math.sqrt(2.0)) - tail
        step = wrong * math.sqrt(2.0 * math.pi) * math.exp(0.5 * z * z)
        z += step / (1.0 - 0.5 * z * step)
    return z if probability > 0.5 else -z


def chi_square_tail(degrees: float, value: float) -> float:
    """The chance that a chi-square number with these degrees of freedom is larger."""
    return float(gamma_tails(0.5 * degrees, 0.5 * value)[1])


def gamma_tails(shape: npt.ArrayLike, value: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """[...] the chances that gamma numbers of these shapes and scale 1 are smaller, and larger."""
    a, x = np.broadcast_arrays(np.asarray(shape, float), np.asarray(value, float))
    if not (np.all(a > 0) and np.all(a <= LARGE_SHAPE) and np.all(x >= 0)):
        from scipy.special import gammainc, gammaincc

        return np.asarray(gammainc(a, x)), np.asarray(gammaincc(a, x))
    with np.errstate(all="ignore"):
        density = np.exp(_log_density(a, x))
        near = x < a + 1.0
        below = np.where(near, density * _series(a, np.where(near, x, 0.0)), 0.0)
        far = ~near & np.isfinite(x)
        above = np.where(far, density * a * _fraction(a, np.where(far, x, a + 1.0)), 0.0)
    lower = np.where(near, np.minimum(below, 1.0), 1.0 - above)
    return lower, np.where(near, 1.0 - lower, above)


def _log_density(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """log(x^a e^-x / gamma(a + 1)); by Stirling's series where a is large, which keeps digits."""
    safe = np.where(x > 0, x, 1.0)
    plain = a * np.log(safe) - x - np.asarray(_lgamma(a + 1.0), float)
    inverse = 1.0 / (a * a)
    rest = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / a
    away = (safe - a) / a
    large = a * (np.log1p(away) - away) - 0.5 * np.log(2.0 * np.pi * a) - rest
    return np.where(x > 0, np.where(a > 30.0, large, plain), -np.inf)


def _series(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ..."""
    term, total, n = np.ones(a.shape), np.ones(a.shape), 1.0
    while np.any(term > 0.01 * ROUNDING * total):
        term = term * (x / (a + n))
        total, n = total + term, n + 1.0
    return total


def _fraction(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The larger tail over x^a e^-x / gamma(a), by Lentz's continued fraction."""
    b = x + 1.0 - a
    c, d = np.full(a.shape, 1e300), 1.0 / b
    h, n, ended = d, 1.0, np.zeros(a.shape, bool)
    while not ended.all():
        turn = n * (a - n)
        b = b + 2.0
        d, c = 1.0 / (turn * d + b), b + turn / c
        h, n = np.where(ended, h, h * (d * c)), n + 1.0
        ended |= np.abs(d * c - 1.0) < 4.0 * ROUNDING
    return h


def student_tail(degrees: float, value: float) -> float:
    """The chance that a number of Student's law is larger."""
    if not 0 < degrees <= LARGE_DEGREES:
        from scipy.special import stdtr

        return float(stdtr(degrees, -value))
    tail = 0.5 * _beta_tail(0.5 * degrees, 0.5, degrees / (degrees + value * value))
    return tail if value >= 0 else 1.0 - tail


def ratio_tail(top: float, bottom: float, value: float) -> float:
    """The chance that a number of Fisher's law with these degrees of freedom is larger."""
    if not (0 < top <= LARGE_DEGREES and 0 < bottom <= LARGE_DEGREES and value >= 0):
        from scipy.special import fdtrc

        return float(fdtrc(top, bottom, value))
    return _beta_tail(0.5 * bottom, 0.5 * top, bottom / (bottom + top * value))


def _beta_tail(a: float, b: float, x: float) -> float:
    """The chance that a beta number of these shapes is smaller than x."""
    if not 0.0 < x < 1.0:
        return x if x in (0.0, 1.0) else math.nan
    if x > (a + 1.0) / (a + b + 2.0):  # the fraction of the other tail converges faster
        return 1.0 - _beta_tail(b, a, 1.0 - x)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(front + a * math.log(x) + b * math.log1p(-x)) / a
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    h = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = h
        for turn in (even, odd):
            d, c = 1.0 / (1.0 + turn * d), 1.0 + turn / c
            h *= d * c
        if abs(h - before) <= ROUNDING * abs(h):
            break
    return front * h


def root_between(
    function: Callable[[float], float], low: float, high: float, tolerance: float
) -> float:
    """Where a function that changes its sign between two numbers is 0, by Brent's method."""
    before, here = low, high
    value_before, value = float(function(before)), float(function(here))
    if value_before == 0.0:
        return before
    if value == 0.0:
        return here
    other, value_other, step, last = before, value_before, here - before, here - before
    for _ in range(100):
        if value_before != 0.0 and (value < 0) != (value_before < 0):
            other, value_other = before, value_before
            step = last = here - before
        if abs(value_other) < abs(value):
            before, here, other = here, other, here
            value_before, value, value_other = value, value_other, value
        least = 0.5 * (tolerance + 4.0 * ROUNDING * abs(here))
        half = 0.5 * (other - here)
        if value == 0.0 or abs(half) < least:
            return here
        if abs(step) > least and abs(value) < abs(value_before):
            if before == other:
                trial = -value * (here - before) / (value - value_before)
            else:
                one = (value_before - value) / (before - here)
                two = (value_other - value) / (other - here)
                top = -value * (value_other * two - value_before * one)
                bottom = two * one * (value_other - value_before)
                trial = top / bottom if bottom else math.inf
            if 2.0 * abs(trial) < min(abs(step), 3.0 * abs(half) - least):
                step, last = last, trial
            else:
                step = last = half
        else:
            step = last = half
        before, value_before = here, value
        here += last if abs(last) > least else math.copysign(least, half)
        value = float(function(here))
    return here


def least_squares(rows: np.ndarray, goal: np.ndarray) -> tuple[np.ndarray, float]:
    """[n] the z >= 0 of the smallest |rows z - goal|, for rows [m, n], and that."""
    return Cone(rows).nearest(goal)


class Cone:
    """The sums of the columns of a matrix with weights of at least 0.

    Attributes:
        rows: [m, n].
    """

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows
        self._factors: dict[bytes, tuple[np.ndarray, np.ndarray] | None] = {}

    def nearest(self, goal: np.ndarray) -> tuple[np.ndarray, float]:
        """[n] the weights z of the smallest |rows z - goal|, for a goal [m], and that.

        The start of `nearest_each` on one triangle, in a quarter of its time: intervals ask often.
        """
        height, size = self.rows.shape
        if height > size and size <= MANY_COLUMNS:
            whole = _triangle(np.column_stack([self.rows, goal]))
            chosen, part = np.arange(size), whole
            while _is_whole(part):
                place = np.linalg.solve(part[:-1, :-1], part[:-1, -1])
                if (place > 0).all():
                    found = np.zeros(size)
                    found[chosen] = place
                    rest = goal - self.rows @ found  # what rounding does to a place it hardly feels
                    if len(chosen) == size or not self._could_widen(found, rest, goal):
                        return found, math.sqrt(rest @ rest)
                    break
                chosen = chosen[place > 0]
                part = _triangle(whole[:, [*chosen, size]])
        places, missed = self.nearest_each(goal[None])
        return places[0], float(missed[0])

    def _could_widen(self, place: np.ndarray, rest: np.ndarray, goal: np.ndarray) -> bool:
        """Whether a column at 0 leads nearer to the goal than this place, which leaves a rest."""
        scale = 10.0 * max(self.rows.shape) * ROUNDING * math.sqrt(goal @ goal)
        least = scale * np.sqrt((self.rows * self.rows).sum(axis=0))
        return bool(((place == 0) & (rest @ self.rows > least)).any())

    def nearest_each(self, goals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[N, n] the same for goals [N, m], and [N].

        Lawson and Hanson's active set, begun where the solution without signs is positive: goals
        that begin with the same set are solved together, and for most of them that is the end.
        """
        size = self.rows.shape[1]
        if size > MANY_COLUMNS:
            from scipy.optimize import nnls

            found = [nnls(self.rows, goal, maxiter=100 * size) for goal in goals]
            return np.array([z for z, _ in found]), np.array([missed for _, missed in found])
        free = self._solved(goals, np.ones(size, bool))
        passive = free > 0
        places, open_ = np.zeros(passive.shape), np.ones(len(goals), bool)
        if len(goals) == 1 and passive.all():  # the usual case inside: nothing to look for
            places, open_ = free, ~open_
        while open_.any():  # a start: what is positive stays, until all of it is
            sets = passive[open_]
            for chosen in sets if len(sets) == 1 else np.unique(sets, axis=0):
                same = open_ & (passive == chosen).all(axis=1)
                places[same] = self._solved(goals[same], chosen)
            open_ = (passive & (places <= 0)).any(axis=1)
            passive &= places > 0
        scale = 10.0 * max(self.rows.shape) * ROUNDING * np.linalg.norm(goals, axis=1)
        least = scale[:, None] * np.linalg.norm(self.rows, axis=0)
        rest = goals - places @ self.rows.T
        for i in np.flatnonzero((~passive & (rest @ self.rows > least)).any(axis=1)):
            places[i] = self._widened(goals[i], places[i], least[i])
        return places, np.linalg.norm(goals - places @ self.rows.T, axis=1)

    def _widened(self, goal: np.ndarray, place: np.ndarray, least: np.ndarray) -> np.ndarray:
        """[n] the weights of the goal, from those of a set that is too small."""
        passive = place > 0
        for _ in range(100 * len(place)):
            slope = np.where(passive, -np.inf, (goal - self.rows @ place) @ self.rows - least)
            aim, new = place, -1
            while new < 0:
                new = int(slope.argmax())
                if not slope[new] > 0.0:
                    return place
                passive[new] = True
                aim = self._solved(goal[None], passive)[0]
                if aim[new] <= 0.0:  # its slope was rounding
                    passive[new], slope[new], new = False, -np.inf, -1
            while (aim[passive] <= 0.0).any():
                falling = np.flatnonzero(passive & (aim <= 0.0))
                shares = place[falling] / (place[falling] - aim[falling])
                place = place + shares.min() * (aim - place)
                passive[falling[shares.argmin()]] = False
                passive &= place > 0.0
                place = np.where(passive, place, 0.0)
                aim = self._solved(goal[None], passive)[0]
            place = aim
        return place

    def _solved(self, goals: np.ndarray, passive: np.ndarray) -> np.ndarray:
        """[N, n] the least squares of the chosen columns for goals [N, m], 0 elsewhere."""
        places, key = np.zeros((len(goals), len(passive))), passive.tobytes()
        if not passive.any():
            return places
        if key not in self._factors:
            turn, triangle = np.linalg.qr(self.rows[:, passive])
            sizes = np.abs(np.diagonal(triangle))
            whole = len(sizes) == passive.sum() and sizes.min() > 1e-12 * sizes.max()
            self._factors[key] = (turn, triangle) if whole else None
        factors = self._factors[key]
        if factors is None:  # columns that others can stand in for
            found = np.linalg.lstsq(self.rows[:, passive], goals.T, rcond=None)[0]
        else:
            found = np.linalg.solve(factors[1], factors[0].T @ goals.T)
        places[:, passive] = found.T
        return places


@functools.cache
def _upper(size: int) -> np.ndarray:
    return np.triu(np.ones((size, size)))


def _triangle(matrix: np.ndarray) -> np.ndarray:
    """[n, n] the triangle that a turn makes of a matrix [m, n] with at least as many rows."""
    size = matrix.shape[1]
    return np.linalg.qr(matrix, mode="raw")[0].T[:size] * _upper(size)


def _is_whole(triangle: np.ndarray) -> bool:
    """Whether no column of a triangle but the last can stand in for others."""
    sizes = np.abs(np.diagonal(triangle)[:-1])
    return len(sizes) == 0 or bool(sizes.min() > 1e-12 * sizes.max())


def square_roots(matrix: np.ndarray, blind: float = BLIND) -> tuple[np.ndarray, np.ndarray]:
    """[r, n] R with R' R = matrix, and [r, n] the transpose of its inverse, where it has one."""
    units = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    units = np.where(units > 0, units, 1.0)
    values, vectors = np.linalg.eigh(matrix / np.outer(units, units))
    seen = values > blind * max(float(values.max(initial=0.0)), 0.0)
    root = np.sqrt(values[seen])
    return (vectors[:, seen] * root).T * units, (vectors[:, seen] / root).T / units


def at_least(fisher: np.ndarray, scatter: np.ndarray) -> np.ndarray:
    """[D, D] the scatter of units, made no less than the information in any direction.

    Units can only scatter more than their steps do. That they seem to scatter less is chance, which
    few units, or few that tell anything, have much of: intervals would be too narrow by it.
    """
    half, inverse = square_roots(fisher)
    values, vectors = np.linalg.eigh(inverse @ scatter @ inverse.T)
    root = half.T @ vectors * np.sqrt(np.maximum(values, 1.0))
    return root @ root.T
