"""Times in logs: time stamps, time steps, and durations in words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from tacit.errors import InvalidModel

# Two numbers, day and month in whichever order, and the year.
DATE = r"(\d{1,2})([./])(\d{1,2})[./](\d{4})(.*)"
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}  # of durations, in seconds


def time_stamps(texts: Sequence[str]) -> tuple[np.ndarray, str]:
    """([N] seconds since 1970 of time stamps, NaN where a text is none; the order of their parts).

    The order is "" for ISO 8601. Otherwise it is one that all dates allow: with points the day
    comes first, with strokes a number above 12 must tell. Without a zone they are those of
    Greenwich.
    """
    parts = [re.fullmatch(DATE, text) for text in texts]
    dates, order = [part for part in parts if part is not None], ""
    if dates:
        late = [max(int(date[place]) for date in dates) > 12 for place in (1, 3)]
        if late == [False, True]:
            order = "month, day and year"
        elif late[0] or all(date[2] == "." for date in dates):
            order = "day, month and year"
    month, day = (1, 3) if order.startswith("month") else (3, 1)
    stamps = []
    for text, date in zip(texts, parts, strict=True):
        if date is not None and order:
            text = f"{date[4]}-{int(date[month]):02d}-{int(date[day]):02d}{date[5]}"
        stamps.append(_stamp(text.replace("/", "-")))
    return np.array(stamps), order


def doubtful_date(text: str) -> str:
    """Why a date with strokes was not read, and how to mend it; "" where it is no such date."""
    part = re.fullmatch(DATE, text)
    if part is None or part[2] != "/":
        return ""
    first, second = (int(part[place]) for place in (1, 3))
    return (
        f": it may be day {first} of month {second} or day {second} of month {first}, as no date "
        f"has a number above 12: write {part[4]}-{second:02d}-{first:02d} or "
        f"{part[4]}-{first:02d}-{second:02d}"
    )


def _stamp(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return math.nan
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def duration(length: float, unit: str) -> str:
    """A duration in seconds as people say it, such as "15 min"; plain numbers without a unit."""
    if not unit:
        return f"{length:g}"
    name = max((u for u in UNITS if UNITS[u] <= length), key=UNITS.__getitem__, default="s")
    return f"{length / UNITS[name]:.4g} {name}"


def seconds(text: str) -> float:
    """The seconds of a duration such as "15min" or "2 h"."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([a-z]+)\s*", text.casefold())
    unit = next((u for u in UNITS if match and (match[2] == u or match[2].startswith(u))), None)
    if match is None or unit is None or not float(match[1]) > 0:
        raise InvalidModel(
            f"a time step must be a number with s, min, h or d, such as 15min; got {text!r:.40}"
        )
    return float(match[1]) * UNITS[unit]
