"""Columns of a table: whole numbers where every cell is one, else texts; checked when asked.

Text is looked at once a distinct value, never once a row, so names cost little more than numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidDemonstrations, TacitError
from tacit.files.wording import did_you_mean, nearest, some

if TYPE_CHECKING:
    import polars


TOP = 2**31 - 1  # states and actions are held in 32 bits: a larger number would wrap round
# Cells that say nothing, in small letters: never a name.
MISSING = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "-")
FLAGS = {"true": True, "false": False, "1": True, "0": False}
# Rows that are looked at for names nobody knows, and how many of those are shown beside the first.
STRANGERS, SHOWN = 1000, 5
_whole = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII).fullmatch
# Makes the error that says where a row stands and what is wrong with it.
Fault = Callable[[int, str], TacitError]


def whole(text: str) -> int | None:
    """The integer of at most 18 digits that a text spells, or None."""
    return int(text) if _whole(text) else None


@dataclass(frozen=True, eq=False)
class Column:
    """A column of a table, as it stands in the file.

    Attributes:
        name: of the column.
        values: [N] integers, floats or booleans; or the place in `texts` of each row's text.
        texts: the distinct texts of the column, stripped; None where it holds numbers.
        fault: makes the error about a row.
    """

    name: str
    values: np.ndarray
    texts: tuple[str, ...] | None
    fault: Fault

    def __len__(self) -> int:
        return len(self.values)

    def cell(self, row: int) -> object:
        """What stands in a row."""
        return self.values[row].item() if self.texts is None else self.texts[self.values[row]]

    def wrong(self, row: int, wanted: str, hint: str = "") -> TacitError:
        """The error that says what a row must hold and what it holds."""
        cell = self.cell(row)
        got = f"it is missing{hint}" if cell == "" else f"got {cell!r:.60}{hint}"
        if self.texts is None and self.values.dtype.kind in "fb":
            got += " (Float64)" if self.values.dtype.kind == "f" else " (Boolean)"
        return self.fault(row, f"{self.name} must be {wanted}; {got}")

    def refuse(self, bad: Sequence[bool] | np.ndarray, wanted: str, hint: str = "") -> None:
        """Raises for the first bad row, if any: `bad` has one entry a row, or one a text."""
        odd = np.asarray(bad, dtype=bool)
        if odd.any():
            rows = odd if self.texts is None else odd[self.values]
            if rows.any():
                raise self.wrong(int(np.argmax(rows)), wanted, hint)

    def refuse_strangers(
        self, known: Collection[str], wanted: str, void: Collection[str] = ()
    ) -> None:
        """Raises for the first row of text that is neither known nor void, with a near name."""
        texts = self.texts or ()
        odd = np.array([text not in known and text not in void for text in texts], dtype=bool)
        if odd.any():
            rows = np.flatnonzero(odd[self.values])
            strange = list(dict.fromkeys(str(self.cell(int(row))) for row in rows[:STRANGERS]))
            if len(rows) > STRANGERS:  # all of them, but not by looking at every row
                strange += [t for t, o in zip(texts, odd, strict=True) if o and t not in strange]
            hint = did_you_mean(strange[0], known)
            if others := strange[1:]:
                shown = [f"{text!r}{did_you_mean(text, known)}" for text in others[:SHOWN]]
                rest = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
                are = "so is one other" if len(others) == 1 else f"so are {len(others)} others"
                hint += f"; {are}: {', '.join(shown)}{rest}"
            hint += _instead(strange[0], known)
            self.refuse(odd, wanted, hint)

    @cached_property
    def voids(self) -> np.ndarray:
        """[T] bool, whether each text says that it is missing."""
        return np.array([text.casefold() in MISSING for text in self.texts or ()], bool)

    @cached_property
    def missing(self) -> np.ndarray:
        """[N] bool, whether each row of a column of texts is missing."""
        return self.voids[self.values]

    def select(self, rows: np.ndarray) -> Column:
        """The column of these rows."""
        return replace(self, values=self.values[rows])

    def measurements(self, *, comma: bool) -> np.ndarray:
        """[N] numbers of a column of texts, with decimal commas or not; NaN where one is missing.

        A cell that is neither a number nor missing is refused.
        """
        numbers = np.array([real(text, comma=comma) for text in self.texts or ()])
        if (odd := ~np.isfinite(numbers) & ~self.voids).any():
            text = str(self.cell(int(np.argmax(odd[self.values]))))
            has_comma = not comma and re.fullmatch(r"[+-]?\d+,\d+", text)
            hint = f": for decimal commas give --decimal-comma, or write {text.replace(',', '.')}"
            self.refuse(odd, "a number", hint if has_comma else "")
        return numbers[self.values]

    def spelled(self) -> Column:
        """The same column with its numbers as texts."""
        if self.texts is not None:
            return self
        found, codes = np.unique(self.values, return_inverse=True)
        return replace(self, values=codes, texts=tuple(str(value) for value in found.tolist()))

    def integers(self, least: int = 0, most: int = TOP, wanted: str = "integers") -> np.ndarray:
        """[N] whole numbers from `least` to `most`, as 32-bit integers."""
        span = f"{wanted} from {least}" + (f" to {most}" if most < TOP else "")
        values = self.values
        if self.texts is not None:
            numbers = [whole(text) for text in self.texts]
            dates = [
                bool(re.match(r"[0-9]{4}[-/][0-9]{1,2}[-/]|[0-9]+:[0-9]", t)) for t in self.texts
            ]
            hint = f": time stamps become steps by tacit ingest LOG --time {self.name} --every 1h"
            self.refuse(dates, span, hint)
            self.refuse([number is None for number in numbers], span)
            values = np.array([number or 0 for number in numbers], np.int64)[self.values]
        elif values.dtype.kind not in "iu":
            odd = values != np.floor(values) if values.dtype.kind == "f" else values < 0
            odd |= ~np.isfinite(values)
            raise self.wrong(int(np.argmax(odd)), span)
        if len(values) and not (least <= values.min() and values.max() <= most):
            row = int(np.argmax((values < least) | (values > most)))
            huge = most == TOP and values[row] > most
            hint = ": number them from 0, or give names with a letter in them" if huge else ""
            raise self.wrong(row, f"{wanted} from {least} to {most}", hint)
        return values.astype(np.int32, copy=False)

    def reals(self) -> np.ndarray:
        """[N] finite numbers."""
        if self.texts is None:
            self.refuse(~np.isfinite(self.values), "a finite number")
            return self.values.astype(np.float64)
        numbers = _reals(self.texts)
        odd = ~np.isfinite(numbers)
        if odd.any():
            commas = [bool(re.fullmatch(r"[+-]?[0-9]+,[0-9]+", text)) for text in self.texts]
            self.refuse(commas, "a finite number", ": write a point instead of the decimal comma")
            self.refuse(odd, "a finite number")
        return numbers[self.values]

    def flags(self) -> np.ndarray:
        """[N] bool, from true and false or 1 and 0."""
        if self.texts is None:
            self.refuse((self.values != 0) & (self.values != 1), "true or false")
            return self.values == 1
        flags = [FLAGS.get(text.lower()) for text in self.texts]
        self.refuse([flag is None for flag in flags], "true or false")
        return np.array(flags, dtype=bool)[self.values]

    def labels(self) -> np.ndarray:
        """[N] the numbers, or the place of each row's name in `texts`; none may be missing."""
        if self.texts is not None:
            self.refuse([not text for text in self.texts], "integers or names")
        elif self.values.dtype.kind not in "iu" and len(self.values):
            raise self.wrong(0, "integers or names")
        return self.values


def _reals(texts: Sequence[str]) -> np.ndarray:
    """[N] the number that each text spells, NaN where it spells none."""
    if "_" not in "".join(texts):  # which Python would take for a comma
        try:  # all at once: there may be a hundred thousand
            return np.fromiter(map(float, texts), np.float64, len(texts))
        except ValueError:
            pass
    return np.array([real(text) for text in texts], np.float64)


def real(text: str, *, comma: bool = False) -> float:
    """The number that a text spells, with a point or a decimal comma; NaN where it spells none."""
    try:
        return np.nan if "_" in text else float(text.replace(",", ".", 1) if comma else text)
    except ValueError:
        return np.nan


def _instead(text: str, known: Collection[str]) -> str:
    """What to type in the place of a name that nobody knows, to end a message with."""
    if re.fullmatch(r"[+-]?[0-9]+\.[0-9]+", text):
        return ": positions become states by tacit ingest LOG --x COLUMN --y COLUMN --cell WIDTH"
    names = [*known]
    if nearest(text, names) or not names:
        return ""
    return f": take one of {some(names, SHOWN)}"


class Growing:
    """A column that grows batch by batch, each a Polars series.

    Attributes:
        name: of the column.
        is_text: whether its cells are texts: some batch was not all numbers, or it was asked for.
        is_plain: whether a number that is not spelled plainly, such as 007, is a name: 0 and 00
            are not taken for one.
        is_real: whether numbers with a point are read as such, not as texts that spell them.
    """

    def __init__(
        self, name: str, *, is_text: bool = False, is_plain: bool = False, is_real: bool = False
    ) -> None:
        self.name, self.is_text, self.is_plain, self.is_real = name, is_text, is_plain, is_real
        self._keep = is_text  # whether "007" and "7" are two texts
        self._parts: list[np.ndarray] = []
        self._places: dict[str, int] = {}

    def kind(self, content: bytes) -> type[polars.DataType]:
        """What the column of this text may be read as, without a look at its cells."""
        import polars

        if self.is_text or (self.is_plain and _oddly_spelled(content)):
            return polars.String
        return polars.Float64 if self.is_real else polars.Int64

    def add(self, series: polars.Series) -> tuple[int, str] | None:
        """Appends a batch; (row, what is wrong) where a column cannot hold it."""
        import polars

        kind = series.dtype
        wide = kind.is_integer() and "128" in str(kind)  # NumPy has none
        if (
            wide
            or kind in (polars.Categorical, polars.Enum, polars.Null)
            or (series.null_count() and (kind.is_numeric() or kind == polars.Boolean))
        ):
            series = series.cast(polars.String)
        if series.dtype == polars.String:
            return self._add_texts(series)
        if kind.is_integer() or (not self._keep and (kind.is_float() or kind == polars.Boolean)):
            self._add_numbers(series.to_numpy())
        elif len(series):
            return (
                0,
                f"{self.name} must be integers or names; got {series.to_list()[0]!r:.60} ({kind})",
            )
        return None

    def _add_texts(self, series: polars.Series) -> tuple[int, str] | None:
        import polars

        series = series.fill_null("") if series.null_count() else series
        distinct = series.unique(maintain_order=True)
        if len(distinct) == len(series):  # as measurements are
            codes = np.arange(len(series), dtype=np.uint32)
        else:
            codes = series.cast(polars.Enum(distinct)).to_physical().to_numpy()
        broken = distinct.str.contains("\r", literal=True)
        if broken.any():
            at = int(np.argmax(broken.to_numpy()[codes]))
            return at, f"{self.name} must hold no carriage return; got {series[at]!r:.60}"
        texts = list(map(str.strip, distinct.to_list()))
        # Most that are no whole numbers have a point.
        numbers = [None if self._keep or "." in text else whole(text) for text in texts]
        if self.is_plain:  # 007 is a name, and so is all that stands beside it
            pairs = zip(texts, numbers, strict=True)
            numbers = [n if n is not None and str(n) == t else None for t, n in pairs]
        if texts and None not in numbers:
            self._add_numbers(np.array(numbers, np.int64)[codes])
            return None
        if not self.is_text:  # numbers so far
            self.is_text = True
            earlier, self._parts = self._parts, []
            for part in earlier:
                self._add_numbers(part)
        pairs = zip(texts, numbers, strict=True)
        self._append([text if number is None else str(number) for text, number in pairs], codes)
        return None

    def _add_numbers(self, values: np.ndarray) -> None:
        if self.is_text:
            found, codes = np.unique(values, return_inverse=True)
            self._append([str(value) for value in found.tolist()], codes)
        else:
            fits = values.dtype.kind == "i" and (
                not len(values) or -TOP <= values.min() <= values.max() <= TOP
            )
            self._parts.append(values.astype(np.int32) if fits else values)

    def _append(self, texts: list[str], codes: np.ndarray) -> None:
        places = self._places
        table = [places.setdefault(text, len(places)) for text in texts]
        self._parts.append(np.array(table, np.int32)[codes])

    def finish(self, fault: Fault) -> Column:
        """The column of all batches, which are let go."""
        values = np.concatenate(self._parts) if self._parts else np.zeros(0, np.int32)
        self._parts.clear()
        if self.is_plain and self.is_text:
            self._refuse_twins(values, fault)
        return Column(self.name, values, tuple(self._places) if self.is_text else None, fault)

    def _refuse_twins(self, values: np.ndarray, fault: Fault) -> None:
        """Raises where two texts are one number: nobody could tell whether 0 and 00 are one."""
        seen: dict[int, str] = {}
        for text in self._places:
            number = whole(text)
            if number is None:
                continue
            other = seen.setdefault(number, text)
            if other != text:
                odd = text if text != str(number) else other
                raise fault(
                    int(np.argmax(values == self._places[odd])),
                    f"{self.name} must be integers spelled plainly, or names; got {odd!r} beside "
                    f"{text if odd == other else other!r}: write {number} in both, or add a letter "
                    "if they are names",
                )


def _oddly_spelled(content: bytes) -> bool:
    """Whether some number in a text may have a sign, or zeros that it does not need."""
    if b"+" in content or b"-0" in content or re.match(rb"0[0-9]", content):
        return True
    codes = np.frombuffer(content, np.uint8)
    digits = codes - ord("0") <= 9
    odd = codes[1:-1] == ord("0")
    odd &= digits[2:]
    odd &= ~digits[:-2]
    odd &= codes[:-2] != ord(".")
    return bool(odd.any())


def integers(values: npt.ArrayLike, name: str) -> np.ndarray:
    """[N] the column as integers of at most 32 bits; `InvalidDemonstrations` if it is not."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidDemonstrations(f"{name} must be one column; got ragged rows") from None
    if array.ndim != 1:
        raise InvalidDemonstrations(f"{name} must be one column; got shape {array.shape}")
    if len(array) and not np.issubdtype(array.dtype, np.integer):
        raise InvalidDemonstrations(f"{name} must be integers; got {array.dtype}")
    # Held in 32 bits: a larger number would wrap round to a state that exists.
    if len(array) and not -TOP - 1 <= array.min() <= array.max() <= TOP:
        row = int(np.argmax((array < -TOP - 1) | (array > TOP)))
        raise InvalidDemonstrations(f"{name} must fit in 32 bits; row {row} is {array[row]}")
    return array.astype(np.int32)


def flags(values: npt.ArrayLike, name: str) -> np.ndarray:
    """[E] the column as booleans; `InvalidDemonstrations` if it is anything but true and false."""
    array = np.array(values)
    if array.dtype.kind in "iu" and ((array == 0) | (array == 1)).all():
        array = array.astype(bool)
    if array.size and array.dtype != bool:
        raise InvalidDemonstrations(f"{name} must be true or false; got {array.dtype}")
    return array.astype(bool)


def texts(values: npt.ArrayLike, name: str) -> np.ndarray:
    """[E] the column as texts; `InvalidDemonstrations` if one is missing."""
    array = np.asarray(values)
    if array.dtype.kind == "O" or array.dtype.kind not in "UTiu":
        listed = array.ravel().tolist()
        odd = next((at for at, one in enumerate(listed) if not isinstance(one, str | int)), None)
        if odd is not None:
            raise InvalidDemonstrations(f"{name} must be names; entry {odd} is {listed[odd]!r:.40}")
    return array.astype(str)
