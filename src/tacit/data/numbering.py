"""States and actions in columns: numbers, or names that are looked up or found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tacit.files.columns import CLASSES, TOP, RawColumn, real, whole
from tacit.files.wording import natural_order


class Numbering:
    """The numbers of states or of actions, shared by the columns that speak of them.

    Names are given (look them up), found (write them down), or none (numbers only). A column of
    numbers is taken as numbers, unless some of the given names are numbers themselves.
    """

    def __init__(self, names: tuple[str, ...], find: bool, count: int, source: str) -> None:
        self.known = {name: at for at, name in enumerate(names)}
        self.find = find and not names
        self.most = (len(names) or count or TOP + 1) - 1
        self.only_names = any(whole(name) is not None for name in names)
        self.kind = "names" if self.only_names else ""
        self.source = source

    def numbers(self, column: RawColumn, *, may_miss: bool = False) -> np.ndarray:
        """[N] the numbers in a column, or those of its names; -1 where it is missing.

        `may_miss` says that -1 is another word for missing.
        """
        if column.texts is None and self.kind != "names":
            self.kind = "numbers"
            return column.integers(-1 if may_miss else 0, self.most)
        column = column.spelled()
        texts = column.texts or ()
        known = np.array([text in self.known for text in texts], bool)
        void = (column.voids | (np.array(texts) == "-1" if may_miss else False)) & ~known
        numbers = [None if self.only_names else whole(text) for text in texts]
        is_name = np.array([number is None for number in numbers], bool)
        span = f" to {self.most}" if self.most < TOP else ""
        wanted = f"integers from 0{span}{' or names' if self.find else ''}"
        if not (self.known or self.find):
            odd = is_name & ~void
            column.refuse(odd, wanted, _mend(column, odd))
        there = np.flatnonzero(~void[column.values])
        if len(there) and not self.kind:  # numbers and names in one column: what would 3 mean?
            self.kind = "names" if is_name[column.values[there[0]]] else "numbers"
        other = (is_name != (self.kind == "names")) & ~void
        column.refuse(other, "all integers or all names", f" among {self.kind}")
        if self.kind == "names":
            numbers = self._looked_up(column, void, wanted)
        below = [number is not None and number < 0 for number in numbers] & ~void
        column.refuse(below, wanted)
        table = [-1 if lost else number or 0 for number, lost in zip(numbers, void, strict=True)]
        values = np.array(table, np.int64)[column.values]
        return replace(column, values=values, texts=None).integers(-1, self.most)

    def _looked_up(self, column: RawColumn, void: np.ndarray, wanted: str) -> list[int | None]:
        """The number of each text of a column of names; None where it is void."""
        texts = column.texts or ()
        if self.find:
            odd = np.array([_is_value(text) for text in texts], bool) & ~void
            column.refuse(odd, wanted, _mend(column, odd))
            for text, lost in zip(texts, void, strict=True):
                if not lost:
                    self.known.setdefault(text, len(self.known))
            self.most = len(self.known) - 1
        lost = [text for text, is_void in zip(texts, void, strict=True) if is_void]
        wanted = f"one of the {len(self.known)} names of {self.source}"
        column.refuse_strangers(self.known, wanted, lost)
        return [self.known.get(text) for text in texts]

    def sort(self, columns: dict[str, np.ndarray], *fields: str) -> tuple[str, ...]:
        """The names that were found, sorted; these columns are renumbered to fit."""
        if not self.find or self.kind != "names":
            return ()
        names = natural_order(self.known)
        places = np.empty(len(names) + 1, np.int32)
        places[[self.known[name] for name in names]] = np.arange(len(names))
        places[-1] = -1  # what was not recorded stays so
        columns |= {field: places[columns[field]] for field in fields if field in columns}
        return names


def _mend(column: RawColumn, odd: Sequence[bool] | np.ndarray) -> str:
    """What to do about the first of these texts, to end a message with."""
    rows = np.flatnonzero(np.asarray(odd)[column.values])
    text = str(column.cell(int(rows[0]))) if len(rows) else ""
    if not _is_value(text):
        return "; names need a layout: Demonstrations.load_named finds it"
    if not np.isfinite(value := real(text)):
        return ""
    if value == int(value):
        return f": write {int(value)}, without a decimal part"
    if column.name == "action":
        return CLASSES
    return ": positions become states by tacit ingest LOG --x COLUMN --y COLUMN"


def _is_value(text: str) -> bool:
    """Whether a text is a number or a truth value: no name for a state."""
    try:
        float(text)
    except ValueError:
        return text.lower() in ("true", "false")
    return True
