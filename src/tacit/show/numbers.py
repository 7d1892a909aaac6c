"""Numbers as a reader wants them: few digits, one scale for what is compared."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

MISSING = "–"


def short(value: float | None, *, digits: int = 3) -> str:
    """The number with that many digits that count; a dash where there is none.

    >>> [short(x) for x in (0.0331, 12345.6, 0.000162, 1e-9, 1, -2.5, float("inf"), float("nan"))]
    ['0.0331', '12300', '1.62×10⁻⁴', '10⁻⁹', '1', '−2.5', '∞', '–']
    """
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if isinstance(value, int | np.integer):
        return str(int(value)).replace("-", "−")
    exponent = _exponent(value, digits)
    if not -4 < exponent < 6:
        mantissa = _trimmed(f"{value / 10.0**exponent:.{digits - 1}f}")
        power = f"10{str(exponent).translate(_RAISED)}"
        return power if mantissa == "1" else f"{mantissa}×{power}".replace("-", "−")
    rounded = round(value, digits - 1 - exponent)
    return _trimmed(f"{rounded:.{max(0, digits - 1 - exponent)}f}").replace("-", "−")


def share(value: float | None) -> str:
    """A share of 1 in per cent, without digits nobody needs.

    >>> [share(x) for x in (0.984, 1.0, 0.9999, 0.004, 0.0001, 0.0, float("nan"))]
    ['98 %', '100 %', 'over 99.9 %', '0.4 %', 'under 0.1 %', '0 %', '–']
    """
    if value is None or math.isnan(value):
        return MISSING
    per_cent = 100.0 * value
    # Neither "100 %" nor "0 %" is said of what is not.
    if 0 < per_cent < 0.1 or 99.9 < per_cent < 100:
        return "under 0.1 %" if per_cent < 1 else "over 99.9 %"
    near_an_end = 0 < per_cent < 1 or 99 < per_cent < 100
    return f"{per_cent:.1f} %" if near_an_end else f"{per_cent:.0f} %"


def interval_words(low: float, high: float, scale: float = 1.0) -> str:
    """The interval as text, its ends multiplied by the scale.

    >>> interval_words(0.1, float("inf")), interval_words(-1, 1)
    ('0.1 or more', '−1 to 1')
    """
    if math.isinf(low) and math.isinf(high):
        return "anything"
    left = right = ""
    for digits in (2, 3, 4):  # enough to tell the ends apart
        left, right = short(low * scale, digits=digits), short(high * scale, digits=digits)
        if left != right:
            break
    if math.isinf(high):
        return f"{left} or more"
    return f"{right} or less" if math.isinf(low) else f"{left} to {right}"


def scale_of(values: ArrayLike) -> tuple[float, float]:
    """(left, right) of a scale that holds zero and every finite value."""
    numbers = np.asarray(values, dtype=float)
    finite = numbers[np.isfinite(numbers)]
    low, high = float(finite.min(initial=0.0)), float(finite.max(initial=0.0))
    return (low, high) if high > low else (0.0, 1.0)


@dataclass(frozen=True)
class Scale:
    """How the numbers of several tables are printed, so that they can be compared at a glance.

    Attributes:
        exponent: the power of ten that stands in the label instead of in every number.
        decimals: digits after the point.
    """

    exponent: int
    decimals: int

    @classmethod
    def of(cls, tables: Iterable[ArrayLike], *, digits: int = 3) -> Scale:
        """The scale at which the largest number of the tables shows that many digits."""
        finite = [np.abs(t[np.isfinite(t)]) for t in (np.asarray(t, float) for t in tables)]
        largest = max((float(t.max()) for t in finite if t.size), default=0.0)
        if largest == 0.0:
            return cls(0, 0)
        exponent = _exponent(largest, digits)
        power = 0 if -1 <= exponent <= 3 else 3 * math.floor(exponent / 3)
        return cls(power, max(0, digits - 1 - (exponent - power)))

    def number(self, value: float) -> str:
        """The value as printed, without the power of ten."""
        if math.isnan(value):
            return MISSING
        if math.isinf(value):
            return short(value)
        text = f"{value / 10.0**self.exponent:.{self.decimals}f}"
        negative_zero = not text.strip("-0.")
        return (text.lstrip("-") if negative_zero else text).replace("-", "−")

    def tick(self, value: float) -> str:
        """The value as printed on an axis: with the digits it has, however few the cells show.

        >>> Scale(-3, 0).tick(0.0025)
        '2.5'
        """
        return short(value / 10.0**self.exponent)

    def label(self, text: str) -> str:
        """The text with the power of ten, where there is one.

        >>> Scale(-3, 1).label("reward"), Scale(0, 2).label("cost")
        ('reward (×10⁻³)', 'cost')
        """
        return f"{text} ({self.power})" if self.exponent else text

    @property
    def power(self) -> str:
        """The power of ten as it stands in a label; nothing where there is none."""
        return f"×10{str(self.exponent).translate(_RAISED)}" if self.exponent else ""


def log_ticks(low: float, high: float, *, most: int = 6) -> list[float]:
    """Round numbers for a logarithmic axis: as many as allowed, evenly spread.

    >>> log_ticks(0.02, 0.7), log_ticks(1e-6, 2.0, most=4)
    ([0.02, 0.05, 0.1, 0.2, 0.5], [1e-06, 0.0001, 0.01, 1.0])
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for steps in ((1, 2, 5), (1, 3), (1,)):
        ticks = [float(f"{s}e{k}") for k in range(first, last + 1) for s in steps]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= most:
            return ticks
    skip = -(-len(ticks) // most)
    return ticks[::skip]


def _exponent(value: float, digits: int) -> int:
    """The power of ten of the first digit after rounding: 9.999 to three digits is 10.0."""
    return int(f"{abs(value):.{digits - 1}e}".partition("e")[2])


def _trimmed(text: str) -> str:
    """Without the zeros after the point that say nothing."""
    return text.rstrip("0").rstrip(".") if "." in text else text
