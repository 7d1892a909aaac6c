"""Tables of a report: what stands in them, which rows are baselines, which numbers are best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from tacit.show.numbers import Scale, interval_words, short

SMALL = 1e-2  # a column of numbers below it has their power of ten in its head


class RowKind(Enum):
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
    def of(cls, samples: ArrayLike) -> Spread:
        """The spread of the samples [M]; NaN among them is left out."""
        numbers = np.asarray(samples, dtype=float).ravel()
        numbers = numbers[~np.isnan(numbers)]
        if not numbers.size:
            return cls(np.nan, np.nan, np.nan)
        # The nearest sample, not a mean of two, where there are infinities: they have none.
        method = "linear" if np.isfinite(numbers).all() else "nearest"
        low, middle, high = np.quantile(numbers, (0.25, 0.5, 0.75), method=method)
        return cls(float(middle), float(low), float(high))

    def range(self, scale: float = 1.0) -> str:
        """The middle half as text, its ends multiplied by the scale."""
        low, high = (short(end * scale, digits=2) for end in (self.low, self.high))
        between = " to " if self.low < 0 or self.high < 0 else "–"  # no dash beside a minus
        return f"{low}{between}{high}"


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
    _: KW_ONLY
    low: float = np.nan
    high: float = np.nan
    unit: str = ""

    @property
    def has_interval(self) -> bool:
        """Whether an interval is known."""
        return not (math.isnan(self.low) or math.isnan(self.high))

    def range(self, scale: float = 1.0) -> str:
        """The interval as text, its ends multiplied by the scale."""
        return interval_words(self.low, self.high, scale)

    def place(self, value: float) -> float:
        """Where on the scale a value lies, from 0 to 100."""
        left, right = self.limits
        if math.isinf(value):
            return 100.0 if value > 0 else 0.0
        share = (value - left) / (right - left) if right > left else 0.0
        return 100.0 * min(max(share, 0.0), 1.0)


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
    kind: RowKind = RowKind.PLAIN


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
    _: KW_ONLY
    searchable: bool = False
    sortable: bool = False

    def __post_init__(self) -> None:
        for index, row in enumerate(self.rows):
            if len(row.cells) != len(self.columns):
                raise ValueError(
                    f"row {index} of table {self.caption!r} must have {len(self.columns)} cells; "
                    f"got {len(row.cells)}"
                )

    @cached_property
    def scales(self) -> list[Scale]:
        """Of each column, the power of ten to say once in its head if its numbers are small."""
        return [self._scale(column) for column in range(len(self.columns))]

    @cached_property
    def best_rows(self) -> list[set[int]]:
        """Of each column, the plain rows that hold its best number, judged as it is printed."""
        return [self._best_rows(column) for column in range(len(self.columns))]

    def _scale(self, column: int) -> Scale:
        numbers = [number_in(row.cells[column]) for row in self.rows]
        finite = [abs(number) for number in numbers if number is not None and math.isfinite(number)]
        return Scale(0, 0) if max(finite, default=0.0) >= SMALL else Scale.of([finite])

    def holds_text(self, column: int) -> bool:
        """Whether the column holds names or words, which start at the left."""
        return column == 0 or any(isinstance(row.cells[column], str) for row in self.rows)

    def _best_rows(self, column: int) -> set[int]:
        wanted = self.columns[column].best
        numbers = {
            index: number
            for index, row in enumerate(self.rows)
            if row.kind is RowKind.PLAIN and (number := number_in(row.cells[column])) is not None
        }
        if wanted is Best.NONE or len(numbers) < 2:  # one alone is not the best of anything
            return set()
        top = (min if wanted is Best.LOWEST else max)(numbers.values())
        return {index for index, number in numbers.items() if short(number) == short(top)}


def number_in(cell: Cell) -> float | None:
    """The number of a cell; None where it has none."""
    number = cell.middle if isinstance(cell, Spread) else cell
    number = number.value if isinstance(number, Bar) else number
    return (
        None if number is None or isinstance(number, str) or math.isnan(number) else float(number)
    )
