"""The laws of chance, and roots, without SciPy where numbers are small.

Its `special` and `optimize` take longer to import than most small fits to be made: a first answer
must not wait for them. Where the numbers are large or many, SciPy is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

ROUNDING = float(np.finfo(float).eps)
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
