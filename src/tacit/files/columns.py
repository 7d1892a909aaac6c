"""Columns of a table: whole numbers where every cell is one, else texts; checked when asked.

Text is looked at once a distinct value, never once a row, so names cost little more than numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

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
# What to do about an action that is a fraction, to end a message with.
CLASSES = ": cut actions into classes first, such as none, low and high"
SHOWN = 5  # names that nobody knows, beside the first, that a message shows
_whole = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII).fullmatch
# Makes the error that says where a row stands and what is wrong with it.
Fault = Callable[[int, str], TacitError]


def whole(text: str) -> int | None:
    """The integer of at most 18 digits that a text spells, or None."""
    return int(text) if _whole(text) else None


def real(text: str, *, comma: bool = False) -> float:
    """The number that a text spells, with a point or a decimal comma; NaN where it spells none."""
    try:
        return np.nan if "_" in text else float(text.replace(",", ".", 1) if comma else text)
    except ValueError:
        return np.nan


def frame_of(columns: Mapping[str, Any], *, pandas: bool = False) -> Any:
    """Columns as a frame of Polars, or of pandas."""
    import polars

    made = polars.DataFrame(columns)
    return made.to_pandas() if pandas else made


def compact(cells: polars.Series, *, is_text: bool, is_plain: bool) -> polars.Series:
    """The cells as whole numbers where every one is spelled as such; else texts, each held once.

    Args:
        cells: of a part of a column.
        is_text: whether they are texts even where all are numbers.
        is_plain: whether numbers must be spelled plainly: 007 is a name.
    """
    import polars

    if cells.dtype != polars.String:
        return cells
    if not is_text:
        numbers = cells.cast(polars.Int64, strict=False)
        is_name = numbers.is_null()
        if is_plain:
            is_name |= numbers.cast(polars.String) != cells
        if not is_name.any():
            return numbers
    return cells.cast(polars.Categorical)


def real_cells(cells: polars.Series) -> tuple[np.ndarray, np.ndarray]:
    """([n] the numbers in cells, NaN where none is; [n] bool, cells that are neither or infinite).

    Missing is what `MISSING` lists; true and false are 1 and 0 where the cells are truth values.
    """
    import polars

    kind = cells.dtype
    if kind in (polars.String, polars.Categorical, polars.Enum):
        cells = cells.cast(polars.String).str.strip_chars()
        void = cells.fill_null("").str.to_lowercase().is_in(MISSING)
    elif kind.is_numeric() or kind in (polars.Boolean, polars.Null):
        cells = cells.cast(polars.Float64).fill_nan(None)
        void = cells.is_null()
    else:  # dates and lists are no numbers
        cells, void = cells.is_null().cast(polars.Float64) * np.inf, cells.is_null()
    values = cells.cast(polars.Float64, strict=False).fill_null(np.nan).to_numpy()
    return np.where(void, np.nan, values), ~np.isfinite(values) & ~void.to_numpy()


@dataclass(frozen=True, eq=False)
class RawColumn:
    """A column of a table, as it stands in the file.

    Attributes:
        name: of the column.
        values: [N] integers, floats or booleans; or the place in `texts` of each row's text.
        texts: the distinct texts of the column, stripped, in the order of the rows; None where it
            holds numbers.
        fault: makes the error about a row.
    """

    name: str
    values: np.ndarray
    texts: tuple[str, ...] | None
    fault: Fault

    @classmethod
    def of(
        cls,
        name: str,
        parts: Sequence[polars.Series],
        fault: Fault,
        *,
        is_text: bool = False,
        is_plain: bool = False,
    ) -> RawColumn:
        """The column of Polars series, one below the other.

        Args:
            name: of the column.
            parts: the series; numbers among texts are texts.
            fault: makes the error about a row.
            is_text: whether its cells are texts, spelled as they are, even where all are numbers.
            is_plain: whether its numbers must be spelled plainly.
        """
        import polars

        parts = list(parts) or [polars.Series([], dtype=polars.Int64)]
        if len({part.dtype for part in parts}) > 1:
            parts = [part.cast(polars.String) for part in parts]
        cells = polars.concat(parts)
        kind = cells.dtype
        is_number = kind.is_numeric() or kind == polars.Boolean
        is_wide = "128" in str(kind)  # NumPy has none
        if kind == polars.Null or (is_number and (is_wide or cells.null_count())):
            cells = cells.cast(polars.String)
        if cells.dtype in (polars.String, polars.Categorical, polars.Enum):
            return cls._of_texts(name, cells, fault, is_text=is_text, is_plain=is_plain)
        if len(cells) and not is_number:
            got = f"got {cells.to_list()[0]!r:.60} ({kind})"
            raise fault(0, f"{name} must be integers or names; {got}")
        values = cells.to_numpy()
        if values.dtype.kind == "i" and np.array_equal(values, narrow := values.astype(np.int32)):
            values = narrow
        return cls(name, values, None, fault)

    @classmethod
    def _of_texts(
        cls, name: str, cells: polars.Series, fault: Fault, *, is_text: bool, is_plain: bool
    ) -> RawColumn:
        import polars

        cells = cells.cast(polars.Categorical).fill_null("")
        distinct = cells.unique(maintain_order=True).cast(polars.String)
        codes = cells.cast(polars.Enum(distinct)).to_physical().to_numpy()
        broken = distinct.str.contains("\r", literal=True).to_numpy()[codes]
        if broken.any():
            row = int(np.argmax(broken))
            raise fault(row, f"{name} must hold no carriage return; got {cells[row]!r:.60}")
        texts = [text.strip() for text in distinct]
        numbers = [None if is_text else whole(text) for text in texts]
        pairs = list(zip(texts, numbers, strict=True))
        # 007 is a name where numbers must be plain, and so is all that stands beside it.
        plain = [n if not is_plain or str(n) == text else None for text, n in pairs]
        if texts and None not in plain:
            return cls(name, np.array(plain, np.int64)[codes], None, fault)
        if is_plain:
            _refuse_twins(name, pairs, codes, fault)
        else:
            texts = [text if number is None else str(number) for text, number in pairs]
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        table = np.array([places[text] for text in texts], np.int32)
        return cls(name, table[codes] if texts else np.zeros(0, np.int32), tuple(places), fault)

    def __len__(self) -> int:
        return len(self.values)

    def cell(self, row: int) -> object:
        """What stands in a row."""
        return self.values[row].item() if self.texts is None else self.texts[self.values[row]]

    def wrong(self, row: int, wanted: str, hint: str = "") -> TacitError:
        """The error that says what a row must hold and what it holds."""
        cell = self.cell(row)
        got = f"it is missing{hint}" if cell == "" else f"got {cell!r:.60}{hint}"
        if self.texts is None:
            got += {"f": " (Float64)", "b": " (Boolean)"}.get(self.values.dtype.kind, "")
        return self.fault(row, f"{self.name} must be {wanted}; {got}")

    def refuse(self, bad: Sequence[bool] | np.ndarray, wanted: str, hint: str = "") -> None:
        """Raises for the first bad row, if any: `bad` has one entry a row, or one a text."""
        odd = np.asarray(bad, dtype=bool)
        rows = odd if self.texts is None or not odd.any() else odd[self.values]
        if rows.any():
            raise self.wrong(int(np.argmax(rows)), wanted, hint)

    def refuse_strangers(
        self, known: Collection[str], wanted: str, void: Collection[str] = ()
    ) -> None:
        """Raises for the first row of text that is neither known nor void, with a near name."""
        texts = self.texts or ()
        odd = [text not in known and text not in void for text in texts]
        first, *others = [text for text, is_odd in zip(texts, odd, strict=True) if is_odd] or [""]
        hint = did_you_mean(first, known)
        if others:
            shown = [f"{text!r}{did_you_mean(text, known)}" for text in others[:SHOWN]]
            rest = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
            are = "so is one other" if len(others) == 1 else f"so are {len(others)} others"
            hint += f"; {are}: {', '.join(shown)}{rest}"
        self.refuse(odd, wanted, hint + _instead(first, known))

    def numbered(self, known: Mapping[str, int], wanted: str) -> np.ndarray:
        """[N] the number of each row's text; one line names the first that is not known."""
        self.refuse_strangers(known, wanted)
        return np.array([known[text] for text in self.texts or ()], np.int64)[self.values]

    @cached_property
    def voids(self) -> np.ndarray:
        """[T] bool, whether each text says that it is missing."""
        return np.array([text.casefold() in MISSING for text in self.texts or ()], bool)

    @cached_property
    def missing(self) -> np.ndarray:
        """[N] bool, whether each row of a column of texts is missing."""
        return self.voids[self.values]

    def select(self, rows: np.ndarray) -> RawColumn:
        """The column of these rows; messages name them by where they stand in the file."""

        def fault(row: int, words: str) -> TacitError:
            return self.fault(int(rows[row]), words)

        return replace(self, values=self.values[rows], fault=fault)

    def spelled(self) -> RawColumn:
        """The same column with its numbers as texts."""
        if self.texts is not None:
            return self
        distinct, codes = np.unique(self.values, return_inverse=True)
        return replace(self, values=codes, texts=tuple(map(str, distinct.tolist())))

    def numbers(self, *, comma: bool = False) -> np.ndarray:
        """[T] the number that each text spells, with decimal commas or not; NaN for none."""
        return np.array([real(text, comma=comma) for text in self.texts or ()], np.float64)

    def measurements(self, *, comma: bool) -> np.ndarray:
        """[N] numbers of a column of texts, with decimal commas or not; NaN where one is missing.

        A cell that is neither a number nor missing is refused.
        """
        numbers = self.numbers(comma=comma)
        odd = ~np.isfinite(numbers) & ~self.voids
        if odd.any():
            text = str(self.cell(int(np.argmax(odd[self.values]))))
            has_comma = not comma and re.fullmatch(r"[+-]?\d+,\d+", text)
            hint = f": for decimal commas give --decimal-comma, or write {text.replace(',', '.')}"
            self.refuse(odd, "a number", hint if has_comma else "")
        return numbers[self.values]

    def integers(self, least: int = 0, most: int = TOP, wanted: str = "integers") -> np.ndarray:
        """[N] whole numbers from `least` to `most`, as 32-bit integers."""
        span = f"{wanted} from {least}" + (f" to {most}" if most < TOP else "")
        values = self.values
        if self.texts is not None:
            date = re.compile(r"[0-9]{4}[-/][0-9]{1,2}[-/]|[0-9]+:[0-9]").match
            hint = f": time stamps become steps by tacit ingest LOG --time {self.name} --every 1h"
            self.refuse([bool(date(text)) for text in self.texts], span, hint)
            numbers = [whole(text) for text in self.texts]
            self.refuse([number is None for number in numbers], span)
            values = np.array([number or 0 for number in numbers], np.int64)[values]
        elif values.dtype.kind not in "iu":
            odd = ~(np.isfinite(values) & (values == np.floor(values)))
            raise self.wrong(int(np.argmax(odd)), span, CLASSES if self.name == "action" else "")
        outside = (values < least) | (values > most)
        if outside.any():
            row = int(np.argmax(outside))
            huge = most == TOP and values[row] > most
            hint = ": number them from 0, or give names with a letter in them" if huge else ""
            raise self.wrong(row, f"{wanted} from {least} to {most}", hint)
        return values.astype(np.int32, copy=False)

    def reals(self) -> np.ndarray:
        """[N] finite numbers."""
        if self.texts is None:
            numbers = self.values.astype(np.float64)
            self.refuse(~np.isfinite(numbers), "a finite number")
            return numbers
        numbers = self.numbers()
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
            self.refuse(self.voids, "integers or names")
        elif self.values.dtype.kind not in "iu" and len(self.values):
            raise self.wrong(0, "integers or names")
        return self.values


def _refuse_twins(
    name: str, pairs: Sequence[tuple[str, int | None]], codes: np.ndarray, fault: Fault
) -> None:
    """Raises where two texts are one number: nobody could tell whether 0 and 00 are one."""
    first: dict[int, tuple[int, str]] = {}
    for place, (text, number) in enumerate(pairs):
        if number is None:
            continue
        other_place, other = first.setdefault(number, (place, text))
        if other == text:
            continue
        if text == str(number):
            place, text, other = other_place, other, text
        raise fault(
            int(np.argmax(codes == place)),
            f"{name} must be integers spelled plainly, or names; got {text!r} beside {other!r}: "
            f"write {number} in both, or add a letter if they are names",
        )


def _instead(text: str, known: Collection[str]) -> str:
    """What to type in the place of a name that nobody knows, to end a message with."""
    if re.fullmatch(r"[+-]?[0-9]+\.[0-9]+", text):
        return ": positions become states by tacit ingest LOG --x COLUMN --y COLUMN --cell WIDTH"
    names = [*known]
    if nearest(text, names) or not names:
        return ""
    return f": take one of {some(names, SHOWN)}"


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
    outside = (array < -TOP - 1) | (array > TOP)
    if outside.any():
        row = int(np.argmax(outside))
        raise InvalidDemonstrations(f"{name} must fit in 32 bits; row {row} is {array[row]}")
    return array.astype(np.int32)


def flags(values: npt.ArrayLike, name: str) -> np.ndarray:
    """[E] the column as booleans; `InvalidDemonstrations` if it is anything but true and false."""
    array = np.array(values)
    if array.dtype.kind in "iu" and np.isin(array, (0, 1)).all():
        array = array.astype(bool)
    if array.size and array.dtype != bool:
        raise InvalidDemonstrations(f"{name} must be true or false; got {array.dtype}")
    return array.astype(bool)


def texts(values: npt.ArrayLike, name: str) -> np.ndarray:
    """[E] the column as texts; `InvalidDemonstrations` if one is missing."""
    array = np.asarray(values)
    if array.dtype.kind not in "UTiu":
        cells = array.ravel().tolist()
        odd = next((at for at, cell in enumerate(cells) if not isinstance(cell, str | int)), None)
        if odd is not None:
            raise InvalidDemonstrations(f"{name} must be names; entry {odd} is {cells[odd]!r:.40}")
    return array.astype(str)
