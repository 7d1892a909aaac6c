"""Columns that grow batch by batch: whole numbers, names, labels, flags, each checked as it comes.

A batch is a Polars series. Text is looked at once a distinct value, never once a row, so that
names cost little more than numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tacit.errors import InvalidDemonstrations

TOP = 2**31 - 1  # states and actions are held in 32 bits: a larger number would wrap round
FLAGS = {"true": True, "false": False, "1": True, "0": False}


class BadRow(Exception):
    """A row of the data that cannot be, and what it should have been; the reader says where."""

    def __init__(self, row: int, words: str) -> None:
        super().__init__(words)
        self.row = int(row)


def whole(text: str) -> int | None:
    """The integer of at most 18 digits that a text spells, or None."""
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII) else None


def distinct(series: Any) -> tuple[list[str], np.ndarray]:
    """(distinct texts in order of appearance, [N] which of them each row holds); null as ""."""
    import polars

    series = series.fill_null("") if series.null_count() else series
    texts = series.unique(maintain_order=True)
    codes = series.cast(polars.Enum(texts)).to_physical().to_numpy()
    return [text.strip() for text in texts.to_list()], codes


class Column:
    """A column of [N] values, added batch by batch, each with the number of its first row."""

    def __init__(self, name: str, kind: type = np.int32) -> None:
        self.name = name
        self.kind = kind
        self.parts: list[np.ndarray] = []
        self.as_text = False

    @property
    def wanted(self) -> str:
        """What the values must be, for messages."""
        return "integers from 0"

    def text_type(self) -> Any:
        """How a text table should be read for this column: the quickest that may succeed."""
        import polars

        return polars.String if self.as_text else polars.Int32

    def add(self, series: Any, row: int) -> None:
        """Appends a batch; `BadRow` where a value cannot be."""
        import polars

        if series.dtype in (polars.Categorical, polars.Enum):
            series = series.cast(polars.String)
        if series.dtype == polars.String:
            texts, codes = distinct(series)
            values = self.from_texts(texts, codes, row)
        elif series.dtype.is_integer():
            if series.null_count():
                self.missing(row + int(np.argmax(series.is_null().to_numpy())))
            values = self.from_numbers(series.to_numpy(), row)
        else:
            values = self.from_others(series, row)
        self.parts.append(np.ascontiguousarray(values, dtype=self.kind))

    def from_texts(self, texts: list[str], codes: np.ndarray, row: int) -> np.ndarray:
        """[N] the values of a batch of texts that should be numbers."""
        numbers = [whole(text) for text in texts]
        self.refuse(texts, codes, [number is None for number in numbers], row)
        table = np.array([number or 0 for number in numbers], dtype=np.int64)
        return self.from_numbers(table[codes], row)

    def from_numbers(self, values: np.ndarray, row: int) -> np.ndarray:
        """[N] the values of a batch of integers, all within range."""
        return self.inside(values, row, 0, TOP)

    def from_others(self, series: Any, row: int) -> np.ndarray:
        """[N] the values of a batch of another type; most columns refuse it."""
        values = series.to_list()
        odd = [at for at, value in enumerate(values) if isinstance(value, float) and value % 1]
        odd = odd or [at for at, value in enumerate(values) if value is not None] or [0]
        if values[odd[0]] is None:
            self.missing(row)
        raise BadRow(
            row + odd[0],
            f"{self.name} must be {self.wanted}; got {values[odd[0]]!r} ({series.dtype})",
        )

    def inside(self, values: np.ndarray, row: int, least: int, most: int) -> np.ndarray:
        """[N] the values; `BadRow` where one lies out of the range."""
        if len(values) and not (least <= values.min() and values.max() <= most):
            at = int(np.argmax((values < least) | (values > most)))
            limits = f"integers from {least} to {most}"
            raise BadRow(row + at, f"{self.name} must be {limits}; got {values[at]}")
        return values

    def refuse(
        self, texts: list[str], codes: np.ndarray, bad: list[bool], row: int, hint: str = ""
    ) -> None:
        """Raises `BadRow` for the first row that holds one of the bad texts, if any is bad."""
        if any(bad):
            at = int(np.argmax(np.array(bad)[codes]))
            text = texts[codes[at]]
            if not text:
                self.missing(row + at)
            shown = text if len(text) <= 40 else text[:40] + "..."
            raise BadRow(row + at, f"{self.name} must be {self.wanted}; got {shown!r}{hint}")

    def missing(self, row: int) -> None:
        """Raises `BadRow`: there is nothing in the row."""
        raise BadRow(row, f"{self.name} must be {self.wanted}; it is missing")

    def values(self) -> np.ndarray:
        """[N] everything that was added; the batches are let go."""
        joined = np.concatenate(self.parts) if self.parts else np.zeros(0, self.kind)
        self.parts.clear()
        return joined


class Flags(Column):
    """True or false, or 1 or 0."""

    def __init__(self, name: str) -> None:
        super().__init__(name, np.bool_)
        self.as_text = True

    @property
    def wanted(self) -> str:
        """What the values must be, for messages."""
        return "true or false"

    def from_texts(self, texts: list[str], codes: np.ndarray, row: int) -> np.ndarray:
        """[N] the flags of a batch of texts."""
        flags = [FLAGS.get(text.lower()) for text in texts]
        self.refuse(texts, codes, [flag is None for flag in flags], row)
        return np.array(flags, dtype=bool)[codes]

    def from_numbers(self, values: np.ndarray, row: int) -> np.ndarray:
        """[N] the flags of a batch of 0 and 1."""
        odd = (values != 0) & (values != 1)
        if odd.any():
            at = int(np.argmax(odd))
            raise BadRow(row + at, f"{self.name} must be {self.wanted}; got {values[at]}")
        return values == 1

    def from_others(self, series: Any, row: int) -> np.ndarray:
        """[N] the flags of a batch of booleans."""
        import polars

        if series.dtype != polars.Boolean:
            return super().from_others(series, row)
        if series.null_count():
            self.missing(row + int(np.argmax(series.is_null().to_numpy())))
        return series.to_numpy()


class Labels(Column):
    """Any number or text, such as the name of an episode; texts are numbered as they appear."""

    def __init__(self, name: str, *, text: bool = False) -> None:
        super().__init__(name, np.int64)
        self.as_text = text
        self._plain = text  # whether "007" and "7" are two labels
        self.names: dict[str, int] = {}

    @property
    def wanted(self) -> str:
        """What the values must be, for messages."""
        return "integers or names"

    def text_type(self) -> Any:
        """How a text table should be read for this column."""
        import polars

        return polars.String if self.as_text else polars.Int64

    def from_texts(self, texts: list[str], codes: np.ndarray, row: int) -> np.ndarray:
        """[N] the numbers themselves where all are numbers, else the place of each name."""
        self.refuse(texts, codes, [not text for text in texts], row)
        numbers = [whole(text) for text in texts]
        if not self.as_text and None not in numbers:
            return np.array(numbers, dtype=np.int64)[codes]
        self._become_text()
        if not self._plain:
            pairs = zip(texts, numbers, strict=True)
            texts = [text if number is None else str(number) for text, number in pairs]
        return self._numbered(texts)[codes]

    def from_numbers(self, values: np.ndarray, row: int) -> np.ndarray:
        """[N] the numbers, or the place of each as a name where earlier ones were names."""
        if not self.as_text:
            return values
        found, codes = np.unique(values, return_inverse=True)
        return self._numbered([str(value) for value in found.tolist()])[codes]

    def _numbered(self, texts: list[str]) -> np.ndarray:
        return np.array([self.names.setdefault(text, len(self.names)) for text in texts])

    def _become_text(self) -> None:
        if not self.as_text:
            self.as_text = True
            self.parts = [self.from_numbers(part, 0) for part in self.parts]

    def label(self, value: int) -> str:
        """The label of a value, as the file has it."""
        return [*self.names][value] if self.as_text else str(value)


def join(
    trajectories: Iterable[tuple[Any, Any]],
    state_names: Sequence[str] = (),
    action_names: Sequence[str] = (),
) -> dict[str, Any]:
    """The arguments of `Demonstrations`, from (states, actions) pairs of numbers or known names."""
    states, actions, final = [], [], []
    for number, trajectory in enumerate(trajectories):
        try:
            seen, taken = trajectory
        except (TypeError, ValueError):
            raise InvalidDemonstrations(
                f"trajectory {number} must be a pair (states, actions); got {trajectory!r:.60}"
            ) from None
        seen = _numbered(seen, state_names, f"trajectory {number}: states")
        taken = _numbered(taken, action_names, f"trajectory {number}: actions")
        if len(seen) not in (len(taken), len(taken) + 1):
            raise InvalidDemonstrations(
                f"trajectory {number} must hold as many states as actions, or one more; "
                f"got {len(seen)} and {len(taken)}"
            )
        if len(taken) == 0:
            raise InvalidDemonstrations(f"trajectory {number} holds no step")
        final.append(int(seen[-1]) if len(seen) > len(taken) else -1)
        states.append(seen[: len(taken)])
        actions.append(taken)
    if not states:
        raise InvalidDemonstrations("demonstrations must hold at least one trajectory; got none")
    return {
        "states": np.concatenate(states),
        "actions": np.concatenate(actions),
        "offsets": np.concatenate([[0], np.cumsum([len(taken) for taken in actions])]),
        "final_states": final,
    }


def _numbered(values: Any, names: Sequence[str], what: str) -> np.ndarray:
    """[N] the integers of a list of integers or of known names."""
    if not names or not isinstance(values, list | tuple | np.ndarray):
        return integers(values, what)
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "UTO":
        return integers(array, what)
    places = {name: at for at, name in enumerate(names)}
    strange = next((value for value in array.tolist() if value not in places), None)
    if strange is not None:
        raise InvalidDemonstrations(f"{what} must be names of the layout; got {strange!r:.60}")
    return np.array([places[value] for value in array.tolist()], dtype=np.int32)


def flags(values: Any, name: str) -> np.ndarray:
    """[E] the column as booleans; `InvalidDemonstrations` if it is anything but true and false."""
    array = np.array(values)
    if array.dtype.kind in "iu" and ((array == 0) | (array == 1)).all():
        array = array.astype(bool)
    if array.size and array.dtype != bool:
        raise InvalidDemonstrations(f"{name} must be true or false; got {array.dtype}")
    return array.astype(bool)


def texts(values: Any, name: str) -> np.ndarray:
    """[E] the column as texts; `InvalidDemonstrations` if one is missing."""
    array = np.asarray(values)
    if array.dtype.kind == "O" or array.dtype.kind not in "UTiu":
        listed = array.ravel().tolist()
        odd = next(
            (at for at, value in enumerate(listed) if not isinstance(value, str | int)), None
        )
        if odd is not None:
            raise InvalidDemonstrations(f"{name} must be names; entry {odd} is {listed[odd]!r:.40}")
    return array.astype(str)


def integers(values: Any, name: str) -> np.ndarray:
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
