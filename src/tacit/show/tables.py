"""Numbers as a reader wants them, few digits and one scale for what is compared; tables of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

MISSING = "–"


def short(value: float | None, *, digits: int = 3) -> str:
    """The number with that many digits that count; a dash where there is none.

    >>> print(*map(short, (0.0331, 12345.6, 0.000162, 1e-9, 1, -2.5, float("inf"), float("nan"))))
    0.0331 12300 1.62×10⁻⁴ 10⁻⁹ 1 −2.5 ∞ –
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


def bar_scale(values: ArrayLike, ends: ArrayLike) -> tuple[float, float]:
    """(left, right) of a scale for numbers and their intervals, with room for an open end."""
    left, right = scale_of(np.concatenate([np.ravel(values), np.ravel(ends)]))
    return left, right * (1.3 if np.isposinf(np.asarray(ends)).any() else 1.0)


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


@dataclass(frozen=True, eq=False)
class Bars:
    """A column of numbers with bars on one scale.

    Attributes:
        values: [N]; NaN where there is none.
        ends: [N, 2] their intervals; None where they have none.
        limits: (left, right) of the scale; None for one that holds 0 and every number here.
        unit: what follows a number, such as " %".
    """

    values: ArrayLike
    ends: ArrayLike | None = None
    limits: tuple[float, float] | None = None
    _: KW_ONLY
    unit: str = ""

    @property
    def cells(self) -> list[Cell]:
        """[N] the cells of the column."""
        values = np.asarray(self.values, dtype=float).ravel()
        ends = np.full((len(values), 2), np.nan) if self.ends is None else np.asarray(self.ends)
        limits = bar_scale(values, ends) if self.limits is None else self.limits
        known = zip(values.tolist(), ends.astype(float).tolist(), strict=True)
        return [Bar(x, limits, low=low, high=high, unit=self.unit) for x, (low, high) in known]


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

    @classmethod
    def of(
        cls,
        caption: str,
        columns: Iterable[tuple[str | Column, Sequence[Cell] | np.ndarray | Bars]],
        note: str = "",
        *,
        listed: bool = False,
    ) -> Table:
        """The table of columns: the head of each and what is below it.

        Args:
            caption: what it shows.
            columns: the first holds the names of the rows.
            note: how to read it, below.
            listed: whether it is a long list, to be searched and sorted.
        """
        heads, cells = [], []
        for head, column in columns:
            heads.append(Column(head) if isinstance(head, str) else head)
            column = column.tolist() if isinstance(column, np.ndarray) else column
            cells.append(column.cells if isinstance(column, Bars) else column)
        rows = [Row(row) for row in zip(*cells, strict=True)]
        return cls(caption, heads, rows, note, searchable=listed, sortable=listed)

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


def cell_text(cell: Cell) -> str:
    """A cell as text: a number, and its interval where it has one.

    >>> cell_text(Bar(0.5, (0.0, 1.0), low=0.25, high=float("inf"))), cell_text(None)
    ('0.5 (0.25 or more)', '–')
    """
    if isinstance(cell, str):
        return cell
    number = short(number_in(cell))
    if isinstance(cell, Spread) or (isinstance(cell, Bar) and cell.has_interval):
        return f"{number} ({cell.range()})"
    return number


def as_words(name: str) -> str:
    """A name of a program as words."""
    return str(name).replace("_", " ")


def cell(value: object) -> Cell:
    """A value as it stands in a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, int | float | str | None) else str(value)


def by_state(table: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """[S] what a step in each state pays under a policy, and what an end pays on arrival."""
    if table.ndim == 1:
        return table
    return np.where(policy.any(axis=1), (table * policy).sum(axis=1), table.mean(axis=1))
