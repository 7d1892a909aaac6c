"""Names in sentences, listed, sorted, guessed where they are misspelt; tables as plain text."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Iterable, Sequence
from itertools import count

from tacit.files.atomic import harmless


def listed(items: Sequence[str], most: int | None = None) -> str:
    """The items as one phrase: a, b and c; beyond `most` of them, how many more there are."""
    shown = list(items)
    if most is not None and len(shown) > most:
        shown = [*shown[:most], f"{len(shown) - most} more"]
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]


def capital(sentence: str) -> str:
    """The sentence with a capital letter, also where a name begins it."""
    return sentence[:1].upper() + sentence[1:]


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The known name that a name may be a misspelling of; "" where none is."""
    folded = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=cutoff)
    return folded[near[0]] if near else ""


def some(names: Sequence[str], most: int = 12) -> str:
    """The first of some names, in a row; dots say that there are more."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """A hint at the name that was meant, to end a message with; "" where none is near."""
    near = nearest(name, known, cutoff=cutoff)
    return f" (did you mean {near!r}?)" if near else ""


def natural_order(names: Iterable[str]) -> tuple[str, ...]:
    """The names sorted as people do: "room 2" comes before "room 10"."""

    def key(name: str) -> tuple[list[tuple[int, int, str]], str]:
        parts = re.split(r"([0-9]+)", name)
        # Digits stand at the odd places; text and numbers must not be compared with each other.
        return [
            (0, int(part), "") if at % 2 else (1, 0, part) for at, part in enumerate(parts)
        ], name

    return tuple(sorted(names, key=key))


def unused_name(name: str, taken: Collection[str]) -> str:
    """The name with the first number behind it that makes it another than those taken."""
    return next(new for n in count(2) if (new := f"{name} ({n})") not in taken)


def table_text(
    headings: Sequence[str], rows: Sequence[Sequence[str | float | None]], title: str = ""
) -> str:
    """The rows under their headings as plain text, indented; numbers stand to the right.

    Args:
        headings: one a column.
        rows: one sequence of cells a row.
        title: line above the table; empty for none.
    """
    cells = [list(map(harmless, headings)), *(list(map(cell_text, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    columns = zip(*rows, strict=True) if rows else [("",)] * len(headings)
    is_right = [not any(isinstance(one, str) for one in column) for column in columns]
    lines = [title] if title else []
    for row in cells:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_right, strict=True)
        ]
        lines.append(("  " + "  ".join(padded)).rstrip())
    return "\n".join(lines)


def cell_text(cell: str | float | None) -> str:
    """A cell of a table as plain text: a number with five digits, none as a dash."""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "-"
    return f"{cell:.5g}" if isinstance(cell, float) else harmless(str(cell)).replace("\n", "\\n")
