"""Bars in the cells of a table: a number, its interval if known, and both on a common scale."""

from __future__ import annotations

import math

from tacit.show.digits import MISSING, short
from tacit.show.tables import Bar

_HEIGHT = 12.0  # of the drawing; its width is 100


def bar(cell: Bar, scale: float = 1.0) -> str:
    """The number, its interval in words, and the drawing.

    Args:
        cell: what to say.
        scale: what numbers are multiplied by; the head of the column says the power of ten.
    """
    number = f"{short(cell.value * scale)}{cell.unit}"
    words = interval_words(cell, scale) if cell.has_interval else ""
    drawn = _interval(cell) if words else _plain(cell)
    words = f' <span class="range">{words}</span>' if words else ""
    if math.isnan(cell.value) and not words:
        return MISSING
    return (
        f'{number}{words}<svg class="bar" viewBox="0 0 100 {_HEIGHT:g}" '
        f'preserveAspectRatio="none" aria-hidden="true">{_zero(cell)}{drawn}</svg>'
    )


def interval_words(cell: Bar, scale: float = 1.0) -> str:
    """The interval as text.

    >>> interval_words(Bar(0.2, (0, 1), 0.1, float("inf"))), interval_words(Bar(0, (0, 1), -1, 1))
    ('0.1 or more', '−1 to 1')
    """
    low = high = ""
    for digits in (2, 3, 4):  # enough to tell the ends apart
        low, high = (short(end * scale, digits=digits) for end in (cell.low, cell.high))
        if low != high:
            break
    if math.isinf(cell.low) and math.isinf(cell.high):
        return "anything"
    if math.isinf(cell.high):
        return f"{low} or more"
    return f"{high} or less" if math.isinf(cell.low) else f"{low} to {high}"


def _plain(cell: Bar) -> str:
    start, end = sorted((_at(cell, 0.0), _at(cell, cell.value)))
    if math.isnan(cell.value):
        return ""
    return f'<rect class="fill" x="{start:.1f}" y="2" width="{end - start:.1f}" height="8"/>'


def _interval(cell: Bar) -> str:
    """The interval as a band, arrows at open ends, and a mark at the number."""
    low, high = _at(cell, cell.low), _at(cell, cell.high)
    width = max(high - low, 0.6)  # a point is seen as well
    text = f'<rect class="span" x="{low:.1f}" y="3" width="{width:.1f}" height="6"/>'
    if math.isinf(cell.high):
        text += '<path class="fill" d="M95 2l5 4-5 4z"/>'
    if math.isinf(cell.low):
        text += '<path class="fill" d="M5 2l-5 4 5 4z"/>'
    if not math.isnan(cell.value):
        at = min(max(_at(cell, cell.value) - 0.9, 0.0), 98.2)
        text += f'<rect class="fill" x="{at:.1f}" y="1" width="1.8" height="10"/>'
    return text


def _zero(cell: Bar) -> str:
    """A line at zero, where the scale goes to both sides of it."""
    if not cell.limits[0] < 0 < cell.limits[1]:
        return ""
    return f'<rect class="zero" x="{_at(cell, 0.0):.1f}" y="0" width=".5" height="{_HEIGHT:g}"/>'


def _at(cell: Bar, value: float) -> float:
    """Where on the scale a value lies, from 0 to 100."""
    left, right = cell.limits
    if math.isinf(value):
        return 100.0 if value > 0 else 0.0
    share = (value - left) / (right - left) if right > left else 0.0
    return 100.0 * min(max(share, 0.0), 1.0)
