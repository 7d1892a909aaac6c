"""Numbers as a reader wants them, few digits and one scale for what is compared; tables of them."""

from __future__ import annotations

import math
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from tacit.files.wording import cell_text, table_text

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


def _exponent(value: float, digits: int) -> int:
    """The power of ten of the first digit after rounding: 9.999 to three digits is 10.0."""
    return int(f"{abs(value):.{digits - 1}e}".partition("e")[2])


def _trimmed(text: str) -> str:
    """Without the zeros after the point that say nothing."""
    return text.rstrip("0").rstrip(".") if "." in text else text


MOST_IN_TEXT = 12  # rows
NARROWEST = 40  # columns of a terminal that text is wrapped to
WIDTH = 88  # columns of a terminal, at most
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
class IntervalEstimate:
    """One number of an answer and how well it is known.

    Attributes:
        value: NaN where it is not known at all.
        low: lower end of its interval; NaN where nothing is known.
        high: upper end of its interval.
    """

    value: float
    low: float = math.nan
    high: float = math.nan

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "not known"
        if not self.has_interval or self.low == self.high:
            return f"{self.value:.4g}"
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"

    @property
    def has_interval(self) -> bool:
        """Whether both ends of an interval are known; they may be infinite."""
        return not (math.isnan(self.low) or math.isnan(self.high))

    def is_apart(self, other: IntervalEstimate) -> bool:
        """Whether the two intervals do not overlap; never where an end is not known."""
        known = self.has_interval and other.has_interval
        return known and (self.low > other.high or other.low > self.high)

    def range(self, scale: float = 1.0) -> str:
        """The interval as text, its ends multiplied by the scale."""
        return interval_words(self.low, self.high, scale)


@dataclass(frozen=True)
class Bar(IntervalEstimate):
    """A number with its bar; with an interval, the interval and a mark at the number.

    Attributes:
        value: the number; NaN where there is none.
        low: lower end of its interval; NaN where nothing is known.
        high: upper end; infinite ends are arrows.
        limits: (left, right) end of the scale, the same for all bars that are compared.
    """

    limits: tuple[float, float] = (0.0, 1.0)

    def place(self, value: float) -> float:
        """Where on the scale a value lies, from 0 to 100."""
        left, right = self.limits
        if math.isinf(value):
            return 100.0 if value > 0 else 0.0
        share = (value - left) / (right - left) if right > left else 0.0
        return 100.0 * min(max(share, 0.0), 1.0)


Cell = str | float | int | IntervalEstimate | None


def bars(
    values: ArrayLike, ends: ArrayLike | None = None, limits: tuple[float, float] | None = None
) -> list[Bar]:
    """[N] a column of numbers with bars on one scale.

    Args:
        values: [N]; NaN where there is none.
        ends: [N, 2] their intervals; None where they have none.
        limits: (left, right) of the scale; None for one that holds 0 and every number here.
    """
    numbers = np.asarray(values, dtype=float).ravel()
    intervals = np.full((len(numbers), 2), np.nan) if ends is None else np.asarray(ends, float)
    scale = bar_scale(numbers, intervals) if limits is None else limits
    pairs = zip(numbers.tolist(), intervals.tolist(), strict=True)
    return [Bar(value, *interval, limits=scale) for value, interval in pairs]


@dataclass(frozen=True)
class Head:
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
        listed: whether it is a long list, to be searched and sorted.
    """

    caption: str
    columns: Sequence[Head]
    rows: Sequence[Row]
    note: str = ""
    _: KW_ONLY
    listed: bool = False

    @classmethod
    def of(
        cls,
        caption: str,
        columns: Iterable[tuple[str | Head, Sequence[Cell] | np.ndarray]],
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
        pairs = list(columns)
        heads = [Head(head) if isinstance(head, str) else head for head, _ in pairs]
        cells = [one.tolist() if isinstance(one, np.ndarray) else one for _, one in pairs]
        rows = [Row(row) for row in zip(*cells, strict=True)]
        return cls(caption, heads, rows, note, listed=listed)

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
        sizes = [np.abs(one[np.isfinite(one)]) for one in self._numbers.T]
        return [Scale(0, 0) if max(one, default=0.0) >= SMALL else Scale.of([one]) for one in sizes]

    @cached_property
    def best_rows(self) -> list[set[int]]:
        """Of each column, the plain rows that hold its best number, judged as it is printed."""
        plain = np.array([row.kind is RowKind.PLAIN for row in self.rows], dtype=bool)
        competing = np.where(plain[:, None], self._numbers, np.nan).T
        pairs = zip(self.columns, competing.tolist(), strict=True)
        return [_best_rows(column.best, numbers) for column, numbers in pairs]

    def holds_text(self, column: int) -> bool:
        """Whether the column holds names or words, which start at the left."""
        return column == 0 or any(isinstance(row.cells[column], str) for row in self.rows)

    @cached_property
    def _numbers(self) -> np.ndarray:
        """[rows, columns] the numbers of the cells, NaN where they have none."""
        cells = [[number_in(cell) for cell in row.cells] for row in self.rows]
        return np.array(cells, dtype=float).reshape(len(self.rows), len(self.columns))

    def text(self, *, most: int = MOST_IN_TEXT) -> str:
        """The table as plain text: its first rows, how many more there are, and its note.

        What is too wide for a terminal is a sentence a row.
        """
        heads = [column.name for column in self.columns]
        rows = [[plain_cell(cell) for cell in row.cells] for row in self.rows[:most]]
        text = table_text(heads, rows, self.caption)
        if max(map(len, text.splitlines())) > line_width():
            lines = [self.caption]
            for name, *cells in rows:
                pairs = zip(heads[1:], map(cell_text, cells), strict=True)
                lines.append(indented(f"{name}: " + ", ".join(f"{h} {cell}" for h, cell in pairs)))
            text = "\n".join(lines)
        rest = len(self.rows) - most
        below = [f"and {rest} more" if rest > 0 else "", self.note]
        return "\n".join([text, *map(indented, filter(None, below))])


def line_width() -> int:
    """Columns that a line of text may have: those of the terminal, and no more than 88."""
    columns = shutil.get_terminal_size(fallback=(WIDTH, 24)).columns
    return max(min(columns, WIDTH), NARROWEST)


def indented(sentence: str) -> str:
    """The sentence as lines of a terminal, indented like the rows of a table."""
    return textwrap.fill(sentence, line_width(), initial_indent="  ", subsequent_indent="  ")


def _best_rows(wanted: Best, numbers: Sequence[float]) -> set[int]:
    """Where the best of these numbers stands; NaN does not compete."""
    known = [number for number in numbers if not math.isnan(number)]
    if wanted is Best.NONE or len(known) < 2:  # one alone is not the best of anything
        return set()
    best = short(min(known) if wanted is Best.LOWEST else max(known))
    return {index for index, number in enumerate(numbers) if short(number) == best}


def number_in(cell: Cell) -> float | None:
    """The number of a cell; None where it has none."""
    number = cell.value if isinstance(cell, IntervalEstimate) else cell
    return None if number is None or isinstance(number, str) or math.isnan(number) else number


def plain_cell(cell: Cell) -> str | float | None:
    """What stands in a cell of a plain table: words, a number, or a number with its interval.

    >>> plain_cell(Bar(0.5, 0.25, float("inf"))), plain_cell(Bar(0.5)), plain_cell("x")
    ('0.5 [0.25, inf]', 0.5, 'x')
    """
    if isinstance(cell, IntervalEstimate):
        cell = str(cell) if cell.has_interval else cell.value
    return float(f"{cell:.4g}") if isinstance(cell, float) else cell


def as_words(name: str) -> str:
    """A name of a program as words."""
    return str(name).replace("_", " ")


def cell(value: object) -> Cell:
    """A value as it stands in a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, int | float | str | IntervalEstimate | None) else str(value)


def by_state(table: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """[S] what a step in each state pays under a policy, and what an end pays on arrival."""
    if table.ndim == 1:
        return table
    return np.where(policy.any(axis=1), (table * policy).sum(axis=1), table.mean(axis=1))
