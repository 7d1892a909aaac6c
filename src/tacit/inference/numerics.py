"""Numerical methods without SciPy: tails of laws of chance, roots, least squares with signs.

SciPy's `special` and `optimize` take longer to import than most small fits to be made: an answer
must not wait for them. Where the numbers are large or many, SciPy is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacit.engine.soft_search import BLIND

MANY_COLUMNS = 16  # beyond, compiled least squares are worth their import
STEADY = 1e-6  # smallest to largest of a triangle, from which one equation more may be added to it
ROUNDING = float(np.finfo(float).eps)
AT_ONCE = 2**15  # columns of a product at a time
COARSE = 20  # bits of numbers that are put in order: beyond, they are equal
# Draws of a simulated law, and those where the first do not tell on which side of a level it is.
DRAWS, MORE_DRAWS = 4000, 64_000
MANY_TAILS = 2000  # beyond, compiled tails are worth their import
LARGE_SHAPE = 1e4  # beyond, the terms of a gamma law are many
LARGE_DEGREES = 1e3  # beyond, logarithms of gamma functions lose digits in their differences
_erfc = np.frompyfunc(math.erfc, 1, 1)


def normal_tail(z: npt.ArrayLike) -> np.ndarray:
    """[...] the chance that a standard normal number is larger than z [...]."""
    return np.asarray(0.5 * np.asarray(_erfc(np.asarray(z, float) / math.sqrt(2.0)), float))


def normal_quantile(probability: float) -> float:
    """What a standard normal number is below with this probability."""
    if not 0.0 < probability < 1.0:
        return {0.0: -math.inf, 1.0: math.inf}.get(probability, math.nan)
    return NormalDist().inv_cdf(probability)


def chi_square_tail(degrees: float, value: float) -> float:
    """The chance that a chi-square number with these degrees of freedom is larger."""
    return float(gamma_tails(0.5 * degrees, 0.5 * value)[1])


def gamma_tails(shape: npt.ArrayLike, value: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """[...] the chances that gamma numbers of these shapes and scale 1 are smaller, and larger."""
    a, x = np.broadcast_arrays(np.asarray(shape, float), np.asarray(value, float))
    few = a.size <= MANY_TAILS
    if not (few and np.all(a > 0) and np.all(a <= LARGE_SHAPE) and np.all(x >= 0)):
        from scipy.special import gammainc, gammaincc

        return np.asarray(gammainc(a, x)), np.asarray(gammaincc(a, x))
    found = [
        _gamma_tails(*pair) for pair in zip(a.ravel().tolist(), x.ravel().tolist(), strict=True)
    ]
    lower, upper = np.array(found).reshape(-1, 2).T
    return lower.reshape(a.shape), upper.reshape(a.shape)


def _gamma_tails(a: float, x: float) -> tuple[float, float]:
    """The chances that one gamma number is smaller than x, and larger."""
    if x in (0.0, math.inf):
        return (0.0, 1.0) if x == 0.0 else (1.0, 0.0)
    if x < a + 1.0:
        below = min(_gamma_density(a, x) * _series(a, x), 1.0)
        return below, 1.0 - below
    above = _gamma_density(a, x) * a * _fraction(a, x)
    return 1.0 - above, above


def _gamma_density(a: float, x: float) -> float:
    """x^a e^-x / gamma(a + 1); by Stirling's series where a is large, which keeps digits."""
    if a <= 30.0:
        return math.exp(a * math.log(x) - x - math.lgamma(a + 1.0))
    inverse = 1.0 / (a * a)
    rest = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / a
    away = (x - a) / a
    if away <= -1.0:  # x is nothing beside a
        return 0.0
    return math.exp(a * (math.log1p(away) - away) - 0.5 * math.log(2.0 * math.pi * a) - rest)


def _series(a: float, x: float) -> float:
    """1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ..."""
    term = total = n = 1.0
    while term > 0.01 * ROUNDING * total:
        term *= x / (a + n)
        total, n = total + term, n + 1.0
    return total


def _fraction(a: float, x: float) -> float:
    """The larger tail over x^a e^-x / gamma(a), by Lentz's continued fraction."""
    b, c, n = x + 1.0 - a, 1e300, 1.0
    h = d = 1.0 / b
    while True:
        turn = n * (a - n)
        b += 2.0
        d, c = 1.0 / (turn * d + b), b + turn / c
        h, n = h * (d * c), n + 1.0
        if abs(d * c - 1.0) < 4.0 * ROUNDING:
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
    places, missed = SignedSums(rows).nearest_each(goal[None])
    return places[0], float(missed[0])


class SignedSums:
    """The sums of the columns of a matrix, `rows` [m, n], with weights of at least 0."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows
        self._factors: dict[bytes, tuple[np.ndarray, np.ndarray] | None] = {}

    def nearest_each(self, goals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[N, n] the weights of the nearest sums to goals [N, m], and [N] the distances.

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


class Approach:
    """How near the cone of `rows` [m, n] comes to `goal` [m] where one more equation must hold."""

    def __init__(self, rows: np.ndarray, goal: np.ndarray) -> None:
        self.rows, self.goal = rows, goal
        self._squares, self._length = (rows * rows).sum(axis=0), float(goal @ goal)
        self._faces: dict[tuple[int, ...], Face | None] = {}
        self._all = self._last = tuple(range(rows.shape[1]))

    def missed(self, row: np.ndarray, level: float) -> float:
        """The smallest |rows z - goal|^2 + (row . z - level)^2 over z >= 0, for a row [n].

        The equation moves the least squares of some columns along one direction. The columns that
        an equation nearby needed are tried first; `least_squares` decides where none are found.
        """
        chosen, size = self._last, len(row)
        for _ in range(4 * size if size <= MANY_COLUMNS else 0):
            if (face := self._face(chosen)) is None:
                break
            own = row[face.inside]
            move = face.inverse @ own
            loose = 1.0 + float(own @ move)
            short = level - float(own @ face.place)
            place = face.place + (short / loose) * move
            if place.min(initial=math.inf) <= 0.0:
                chosen = tuple(face.inside[place > 0.0].tolist())
            elif (new := self._leading(face, row, level, short / loose, move)) is None:
                self._last = chosen
                return face.missed + short * short / loose
            else:
                chosen = tuple(sorted((*chosen, new)))
        rows, goal = np.concatenate([self.rows, row[None]]), np.append(self.goal, level)
        return least_squares(rows, goal)[1] ** 2

    def _leading(
        self, face: Face, row: np.ndarray, level: float, share: float, move: np.ndarray
    ) -> int | None:
        """The column at 0 that leads nearest to the goal from a place that far along a move."""
        if not len(face.outside):
            return None
        own = row[face.outside]
        slopes = face.slopes + share * (own - face.products @ move)
        best = int(slopes.argmax())
        if slopes[best] <= 0.0:
            return None
        new = int(face.outside[best])
        least = (self._length + level * level) * (self._squares[new] + own[best] * own[best])
        rounding = 10.0 * (1 + max(self.rows.shape)) * ROUNDING * math.sqrt(least)
        return new if slopes[best] > rounding else None

    def _face(self, chosen: tuple[int, ...]) -> Face | None:
        """The least squares of the chosen columns; None where they nearly depend on one another."""
        if chosen not in self._faces:
            inside = np.array(chosen, np.intp)
            outside = np.array([j for j in self._all if j not in chosen], np.intp)
            columns, others = self.rows[:, inside], self.rows[:, outside]
            turn, triangle = np.linalg.qr(columns)
            sizes = np.abs(np.diagonal(triangle))
            self._faces[chosen] = None
            if len(sizes) == len(chosen) and not (sizes <= STEADY * sizes.max(initial=0.0)).any():
                inverse = np.linalg.inv(triangle)
                place = inverse @ (self.goal @ turn)
                rest = self.goal - columns @ place
                self._faces[chosen] = Face(
                    inside=inside,
                    outside=outside,
                    inverse=inverse @ inverse.T,
                    place=place,
                    missed=float(rest @ rest),
                    slopes=rest @ others,
                    products=others.T @ columns,
                )
        return self._faces[chosen]


class Face(NamedTuple):
    """The least squares of p of n columns towards a goal, the others at 0."""

    inside: np.ndarray  # [p] numbers of the columns
    outside: np.ndarray  # [n - p] those of the others
    inverse: np.ndarray  # [p, p] of the products of the columns
    place: np.ndarray  # [p] their weights
    missed: float  # squared length of what they leave of the goal
    slopes: np.ndarray  # [n - p] products of that with the other columns
    products: np.ndarray  # [n - p, p] of the others with the columns


def square_roots(matrix: np.ndarray, blind: float = BLIND) -> tuple[np.ndarray, np.ndarray]:
    """[r, n] R with R' R = matrix, and [r, n] the transpose of its inverse, where it has one."""
    units = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    units = np.where(units > 0, units, 1.0)
    values, vectors = np.linalg.eigh(matrix / np.outer(units, units))
    seen = values > blind * max(float(values.max(initial=0.0)), 0.0)
    root = np.sqrt(values[seen])
    return (vectors[:, seen] * root).T * units, (vectors[:, seen] / root).T / units


def first_largest(values: npt.ArrayLike) -> int:
    """The place of the first of the largest values [...], flat: rounding chooses among no equals.

    NaN is never it, unless all are.
    """
    known = coarse(np.ravel(values))
    return int(np.argmax(np.where(np.isnan(known), -np.inf, known)))


def largest_first(values: npt.ArrayLike) -> np.ndarray:
    """[n] places of the values [...], flat, from the largest on; equal ones keep their order."""
    return np.argsort(-coarse(np.ravel(values)), kind="stable")


def coarse(values: npt.ArrayLike) -> np.ndarray:
    """[...] the values to a millionth of themselves: what is equal but for rounding is equal."""
    parts, powers = np.frexp(np.asarray(values, float))
    return np.ldexp(np.round(parts * 2.0**COARSE), powers - COARSE)


def weighted_products(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """[n, n] rows [n, N] times weights [N] times the rows transposed, a block at a time."""
    total = np.zeros((len(rows), len(rows)))
    for first in range(0, max(len(weights), 1), AT_ONCE):  # blocks that stay in a core's cache
        block = rows[:, first : first + AT_ONCE]
        total += (block * weights[first : first + AT_ONCE]) @ block.T
    return total


def covariance_root(matrix: np.ndarray) -> np.ndarray:
    """[n, n] R with R R' = matrix, for draws of this covariance: symmetric but for units.

    Eigenvectors have signs that hang on the last bit; this has none, and draws follow it.
    """
    units = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    units = np.where(units > 0, units, 1.0)
    values, vectors = np.linalg.eigh(matrix / np.outer(units, units))
    return units[:, None] * (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def at_level(p_value: npt.ArrayLike, level: npt.ArrayLike, draws: int = MORE_DRAWS) -> np.ndarray:
    """[...] bool, whether a simulated p-value is within three errors of a level."""
    error = np.sqrt(np.multiply(level, np.subtract(1.0, level)) / draws)
    return np.abs(np.subtract(p_value, level)) < 3.0 * error


def simulated_chance(
    larger: Callable[[np.random.Generator, int], int],
    *,
    seed: int,
    levels: npt.ArrayLike,
    draws: tuple[int, int] = (DRAWS, MORE_DRAWS),
) -> float:
    """The chance of a statistic this large by draws of its law, by more of them at a level.

    Args:
        larger: (generator, n) -> how many of n draws are at least as large.
        seed: of the draws.
        levels: what the chance is compared with.
        draws: how many at first, and how many in all where those do not tell.
    """
    random, count, done, p_value = np.random.default_rng(seed), 0, 0, 1.0
    for goal in draws:
        while done < goal:
            count, done = count + larger(random, draws[0]), done + draws[0]
        # One more in both counts: a simulated law cannot vouch for a chance of zero.
        p_value = (1.0 + count) / (1.0 + done)
        if not at_level(p_value, levels, done).any():
            break
    return p_value


def at_least(fisher: np.ndarray, scatter: np.ndarray) -> np.ndarray:
    """[D, D] the scatter of units, made no less than the information in any direction.

    Units can only scatter more than their steps do. That they seem to scatter less is chance, which
    few units, or few that tell anything, have much of: intervals would be too narrow by it.
    """
    half, inverse = square_roots(fisher)
    values, vectors = np.linalg.eigh(inverse @ scatter @ inverse.T)
    root = half.T @ vectors * np.sqrt(np.maximum(values, 1.0))
    return root @ root.T
