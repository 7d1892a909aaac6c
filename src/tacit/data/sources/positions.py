"""Positions in a log: degrees or metres, on maps in the same coordinates."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.data.sources.rasters import Raster
from tacit.errors import InvalidDemonstrations

# Names of columns that hold degrees, in small letters.
DEGREES = (
    ("lon", "long", "longitude", "lng", "länge", "laenge", "longitud"),
    ("lat", "latitude", "breite", "latitud"),
)
METRES = 111_320.0  # in one degree of latitude, nearly


def is_called(name: str, words: Sequence[str]) -> bool:
    """Whether a column is called by one of these words, or ends in one, as location-long does."""
    return re.split(r"[\W_]+", name.casefold())[-1] in words


@dataclass(frozen=True, eq=False)
class Degrees:
    """How positions are counted: from a corner in metres where they are degrees, else as they are.

    Attributes:
        origin: x and y of a corner of some cell, as the log counts.
        scale: metres in a degree to the east and north; None where positions are no degrees.
    """

    origin: tuple[float, float]
    scale: np.ndarray | None = None

    @classmethod
    def found(
        cls, points: np.ndarray, names: tuple[str, str], origin: tuple[float, float] | None
    ) -> tuple[Degrees, list[str]]:
        """What columns of these names hold, and the sentence that says so."""
        if all(map(is_called, names, reversed(DEGREES))):
            raise InvalidDemonstrations(
                f"x must be the column to the east, and y that to the north; got {names[0]} and "
                f"{names[1]}: give --x {names[1]} --y {names[0]}"
            )
        if not all(map(is_called, names, DEGREES)):
            return cls(origin or (0.0, 0.0)), []
        most = np.nanmax(np.abs(points), axis=0)
        if most[1] > 90 or most[0] > 360:
            raise InvalidDemonstrations(
                f"{names[0]} and {names[1]} must be degrees; the largest are {most.tolist()}: "
                "rename the columns if they are metres"
            )
        corner = origin or (float(np.nanmin(points[:, 0])), float(np.nanmin(points[:, 1])))
        middle = math.radians(float(np.nanmean(points[:, 1])))
        note = (
            f"{names[0]} and {names[1]} were taken for degrees and became metres to the east and "
            f"north of ({corner[0]:.6g}, {corner[1]:.6g}): widths of cells are in metres"
        )
        return cls(corner, METRES * np.array([math.cos(middle), 1.0])), [note]

    @property
    def start(self) -> tuple[float, float]:
        """The origin, as cells count."""
        return self.origin if self.scale is None else (0.0, 0.0)

    def metres(self, points: np.ndarray) -> np.ndarray:
        """[N, 2] positions, as cells count."""
        return points if self.scale is None else (points - self.origin) * self.scale

    def map(self, raster: Raster) -> Raster:
        """A map, as cells count."""
        if self.scale is None:
            return raster
        return raster.scaled(np.array(self.origin), self.scale)
