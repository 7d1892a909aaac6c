"""What is put where a measurement is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.model.arguments import numbers, read_only


@dataclass(frozen=True, eq=False)
class Imputing:
    """The median of each column for what is missing, learned from rows.

    Attributes:
        columns: d names.
        medians: [d] of what is known in each column.
        missing: [d] how often each was missing in the rows it was learned from.
        rows: how many rows these were.
    """

    columns: tuple[str, ...]
    medians: np.ndarray
    missing: np.ndarray
    rows: int

    @classmethod
    def of(cls, observations: np.ndarray, columns: Sequence[str]) -> Imputing:
        """That of observations [n, d]; `InvalidDemonstrations` where a column has no number."""
        lost = np.isnan(observations)
        missing = lost.sum(axis=0)
        if (missing == len(observations)).any():
            name = columns[int(np.argmax(missing == len(observations)))]
            raise InvalidDemonstrations(
                f"every column must be measured in some row; {name!r} is missing in all "
                f"{len(observations)}: leave it out"
            )
        medians = np.nanmedian(observations, axis=0)
        return cls(tuple(columns), read_only(medians), read_only(missing), len(observations))

    def stored(self) -> dict[str, Any]:
        """All that it is, as texts, numbers and lists: for JSON or TOML."""
        return {
            "columns": [*self.columns],
            "medians": self.medians.tolist(),
            "missing": self.missing.tolist(),
            "rows": self.rows,
        }

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> Imputing:
        """What `stored` gave, again."""
        return cls(
            tuple(stored["columns"]),
            np.array(stored["medians"], np.float64),
            np.array(stored["missing"], np.int64),
            int(stored["rows"]),
        )

    @property
    def indicators(self) -> tuple[str, ...]:
        """Names of the columns that `prepared` adds: where a measurement was missing."""
        pairs = zip(self.columns, self.missing, strict=True)
        return tuple(f"{name} is missing" for name, count in pairs if count)

    def filled(self, observations: np.ndarray) -> np.ndarray:
        """[n, d] the observations with the median for what is missing."""
        rows = numbers(observations, "observations")
        if rows.ndim != 2 or rows.shape[1] != len(self.columns):
            raise InvalidModel(
                f"observations must have shape [n, {len(self.columns)}], one column a "
                f"measurement; got {rows.shape}"
            )
        return np.where(np.isnan(rows), self.medians, rows)

    def prepared(self, observations: np.ndarray) -> np.ndarray:
        """[n, d + m] `filled`, then 1 where a column lacks what it lacked when this was learned."""
        rows = self.filled(observations)
        lost = np.isnan(np.asarray(observations, dtype=np.float64))[:, self.missing > 0]
        return np.concatenate([rows, lost], axis=1)
