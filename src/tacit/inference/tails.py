"""Tails of laws, by the names we use, and p-values: simulated, at a level, of several tests.

SciPy is imported where it is used: `import tacit` does without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

# Two-sided 95 % of the normal law, and the one-sided 95 % used where a bound cuts a side off.
TWO_SIDED = 1.959963984540054
ONE_SIDED = 1.6448536269514722
# Draws of a simulated law, and those where the first do not tell on which side of a level it is.
DRAWS, MORE_DRAWS = 4000, 64_000


def normal_tail(z: npt.ArrayLike) -> np.ndarray:
    """[...] the chance that a standard normal number is larger than z [...]."""
    from scipy.special import ndtr

    return np.asarray(ndtr(-np.asarray(z, float)))


def normal_quantile(probability: float) -> float:
    """What a standard normal number is below with this probability."""
    from scipy.special import ndtri

    return float(ndtri(probability))


def chi_square_tail(degrees: float, value: float) -> float:
    """The chance that a chi-square number with these degrees of freedom is larger."""
    return float(gamma_tails(0.5 * degrees, 0.5 * value)[1])


def gamma_tails(shape: npt.ArrayLike, value: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """[...] the chances that gamma numbers of these shapes and scale 1 are smaller, and larger."""
    from scipy.special import gammainc, gammaincc

    return np.asarray(gammainc(shape, value)), np.asarray(gammaincc(shape, value))


def student_tail(degrees: float, value: float) -> float:
    """The chance that a number of Student's law is larger."""
    from scipy.special import stdtr

    return float(stdtr(degrees, -value))


def student_tails(degrees: npt.ArrayLike, values: npt.ArrayLike) -> np.ndarray:
    """[...] the same of several laws; of infinite degrees the normal one."""
    from scipy.special import stdtr

    many = np.asarray(degrees, float)
    known = stdtr(np.where(np.isfinite(many), many, 1.0), -np.asarray(values, float))
    return np.where(np.isfinite(many), known, normal_tail(values))


def student_quantile(degrees: npt.ArrayLike, probability: float) -> np.ndarray:
    """[...] what numbers of Student's laws are below with this probability."""
    from scipy.special import stdtrit

    many = np.asarray(degrees, float)
    known = stdtrit(np.where(np.isfinite(many), many, 1.0), probability)
    return np.where(np.isfinite(many), known, normal_quantile(probability))


def ratio_tail(top: float, bottom: float, value: float) -> float:
    """The chance that a number of Fisher's law with these degrees of freedom is larger."""
    from scipy.special import fdtrc

    return float(fdtrc(top, bottom, value))


def at_level(p_value: npt.ArrayLike, level: npt.ArrayLike, draws: int = MORE_DRAWS) -> np.ndarray:
    """[...] bool, whether a simulated p-value is within three errors of a level."""
    error = np.sqrt(np.multiply(level, np.subtract(1.0, level)) / draws)
    return np.abs(np.subtract(p_value, level)) < 3.0 * error


def holm(p_values: Sequence[float]) -> np.ndarray:
    """[n] p-values adjusted by Holm's method, which needs no independence."""
    p = np.asarray(p_values, float)
    order = np.argsort(p, kind="stable")
    steps = p[order] * (len(p) - np.arange(len(p)))
    result = np.empty(len(p))
    result[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return result


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
