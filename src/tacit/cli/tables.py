"""A small table: drawn by rich on a terminal, aligned plain text anywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """Rows under headings, numbers to the right.

    Attributes:
        headings: one a column.
        rows: one sequence of cells a row; floats are shown with five digits.
        title: said above it; empty for none.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""

    def __str__(self) -> str:
        cells = [list(self.headings), *([shown(cell) for cell in row] for row in self.rows)]
        widths = [max(len(row[j]) for row in cells) for j in range(len(self.headings))]
        right = self._right()
        lines = [self.title] if self.title else []
        for row in cells:
            padded = [
                cell.rjust(width) if to_right else cell.ljust(width)
                for cell, width, to_right in zip(row, widths, right, strict=True)
            ]
            lines.append(("  " + "  ".join(padded)).rstrip())
        return "\n".join(lines)

    def __rich__(self) -> Any:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as Drawn
        from rich.text import Text

        drawn = Drawn(box=SIMPLE_HEAD, title=Text(self.title) if self.title else None)
        drawn.title_justify = "left"
        for heading, to_right in zip(self.headings, self._right(), strict=True):
            drawn.add_column(Text(heading), justify="right" if to_right else "left")
        for row in self.rows:
            drawn.add_row(*(Text(shown(cell)) for cell in row))
        return drawn

    def _right(self) -> list[bool]:
        """Whether each column holds numbers only."""
        columns = zip(*self.rows, strict=True) if self.rows else ([""] for _ in self.headings)
        return [
            all(isinstance(cell, int | float) or hasattr(cell, "dtype") for cell in column)
            for column in columns
        ]


def shown(cell: Any) -> str:
    """The text of one cell."""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{float(cell):.5g}"
    return str(cell)
