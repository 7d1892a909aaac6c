"""Tables of a report: what stands in them, which rows are baselines, which numbers are best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np


class Kind(Enum):
    """What a row of a table is. The value is the tag beside its name."""

    PLAIN = ""
    NULL = "null"
    PUBLISHED = "published"


class Best(Enum):
    """Which number of a column is the best one."""

    NONE = "none"
    LOWEST = "lowest"
    HIGHEST = "highest"


@dataclass(frozen=True)
class Spread:
    """A number over repetitions: its median and the middle half.

    Attributes:
        middle: the median.
        low: the lower quartile.
        high: the upper quartile.
    """

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: Any) -> Spread:
        """The spread of the samples [M]; NaN among them is left out."""
        samples = np.asarray(samples, dtype=float).ravel()
        finite = samples[~np.isnan(samples)]
        if not finite.size:
            return cls(np.nan, np.nan, np.nan)
        # The nearest sample, not a mean of two: infinities have none.
        low, middle, high = np.quantile(finite, (0.25, 0.5, 0.75), method=_method(finite))
        return cls(float(middle), float(low), float(high))


@dataclass(frozen=True)
class Bar:
    """A number with its bar; with an interval, the interval and a mark at the number.

    Attributes:
        value: the number; NaN where there is none.
        limits: (left, right) end of the scale, the same for all bars that are compared.
        low: lower end of its interval; NaN where nothing is known.
        high: upper end; infinite ends are arrows.
        unit: what follows the number, such as " %".
    """

    value: float
    limits: tuple[float, float]
    low: float = np.nan
    high: float = np.nan
    unit: str = ""

    @property
    def has_interval(self) -> bool:
        """Whether an interval is known."""
        return not (np.isnan(self.low) or np.isnan(self.high))


Cell = str | float | int | Spread | Bar | None


@dataclass(frozen=True)
class Column:
    """The head of a column.

    Attributes:
        name: what it holds.
        note: unit or meaning, in small print below the name.
        best: which of its numbers is set in bold; rows that are not plain do not compete.
    """

    name: str
    note: str = ""
    best: Best = Best.NONE


@dataclass(frozen=True)
class Row:
    """One row of a table; its first cell is its name.

    Attributes:
        cells: one per column; None and NaN become a dash.
        kind: whether it is a result, a null baseline, or a published number.
    """

    cells: Sequence[Cell]
    kind: Kind = Kind.PLAIN


@dataclass(frozen=True)
class Table:
    """A table that scrolls inside its own frame where it is wider than the page.

    Attributes:
        caption: what it shows.
        columns: their heads; the first is the head of the names.
        rows: from top to bottom.
        note: how to read it, below.
        searchable: whether there is a field that filters the rows.
        sortable: whether the head of a column sorts the rows by it.
    """

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    note: str = ""
    searchable: bool = False
    sortable: bool = False

    def __post_init__(self) -> None:
        for index, row in enumerate(self.rows):
            if len(row.cells) != len(self.columns):
                raise ValueError(
                    f"row {index} of table {self.caption!r} must have {len(self.columns)} cells; "
                    f"got {len(row.cells)}"
                )


def _method(samples: np.ndarray) -> Any:
    return "linear" if np.isfinite(samples).all() else "nearest"
