"""The ground of the maps: a grid, made coarser where it has more cells than a page can hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tacit.model.names import Layout
from tacit.show.recovery.subject import Subject

MOST_DRAWN = 64_000  # cells that are drawn, all maps together
MOST_TOLD = 26_000  # values that can be pointed at, all maps together


@dataclass(frozen=True, eq=False)
class Ground:
    """What all maps of one world share.

    Attributes:
        layout: where the states lie.
        maps: how many there are.
    """

    layout: Layout
    maps: int

    @classmethod
    def of(cls, subject: Subject) -> Ground:
        """The ground of the maps of a recovery: reward, costs, policy and visits."""
        return cls(subject.layout, 3 + subject.constraints)

    @cached_property
    def factor(self) -> int:
        """Rows, and columns, that are drawn as one; 1 where every cell is drawn."""
        cells = self.layout.rows * self.layout.columns
        return max(1, int(np.ceil(np.sqrt(cells * self.maps / MOST_DRAWN))))

    @cached_property
    def drawn(self) -> Layout:
        """The grid as it is drawn."""
        rows, columns = (-(-n // self.factor) for n in (self.layout.rows, self.layout.columns))
        return replace(self.layout, rows=rows, columns=columns, state_names=())

    @property
    def cells(self) -> int:
        """Number of cells that are drawn."""
        return self.drawn.rows * self.drawn.columns

    @property
    def told(self) -> bool:
        """Whether values can be pointed at, and the page stays small."""
        return self.cells * self.maps <= MOST_TOLD

    def pooled(self, values: np.ndarray) -> np.ndarray:
        """[cells] or [cells, A] the means of values [S] or [S, A] over what is drawn as one."""
        layout, factor = self.layout, self.factor
        table = np.asarray(values, dtype=float)[: layout.rows * layout.columns]
        if factor == 1:
            return table
        table = table.reshape(layout.rows, layout.columns, -1)
        rows, columns = (np.arange(0, n, factor) for n in (layout.rows, layout.columns))
        sums = np.add.reduceat(np.add.reduceat(table, rows, axis=0), columns, axis=1)
        counts = np.outer(
            np.diff(rows, append=layout.rows), np.diff(columns, append=layout.columns)
        )
        means = (sums / counts[:, :, None]).reshape(self.cells, -1)
        return means if np.ndim(values) == 2 else means[:, 0]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """One name a drawn cell; empty where row and column name it."""
        if self.factor == 1:
            return self.layout.state_names[: self.cells]

        def span(index: int, count: int) -> str:
            first = index * self.factor
            return f"{first} to {min(first + self.factor, count) - 1}"

        rows = [span(i, self.layout.rows) for i in range(self.drawn.rows)]
        columns = [span(j, self.layout.columns) for j in range(self.drawn.columns)]
        return tuple(f"rows {row}, columns {column}" for row in rows for column in columns)
