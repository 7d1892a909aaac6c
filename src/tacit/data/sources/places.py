"""Where positions belong: square cells, hexagons or clusters, and their neighbours."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tacit.data.sources.discretise import cluster_centres, points_of
from tacit.errors import InvalidModel
from tacit.model.arguments import read_only
from tacit.model.features import means_at
from tacit.model.layout import COMPASS as DIRECTIONS
from tacit.model.layout import Layout

# Most states that positions may become: more would wait for an answer for hours.
MOST = 20_000
STAY = "stay"
# Steps on a grid, (row, column), down and right being positive.
COMPASS = {name: step for step, name in DIRECTIONS.items() if name != STAY}
# Steps on hexagons that stand on a corner, in even and in odd rows: odd ones lie half to the right.
HEXAGONAL = {
    "north-east": ((-1, 0), (-1, 1)),
    "east": ((0, 1), (0, 1)),
    "south-east": ((1, 0), (1, 1)),
    "south-west": ((1, -1), (1, 0)),
    "west": ((0, -1), (0, -1)),
    "north-west": ((-1, -1), (-1, 0)),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Places:
    """The states that positions belong to; calling it tells the state of each position.

    Attributes:
        kind: "grid", "hexagons" or "clusters".
        centres: [S, 2] the middle of each state, x and y.
        names: [S] what the states are called: column and row from the top left, such as C4.
        size: width of a cell; 0 for clusters.
        rows: of cells; 0 for clusters.
        columns: of cells; 0 for clusters.
        radius: how many cells a move leads at most.
        moves: [A] names of the moves to a neighbour; empty for clusters, which have none.
        neighbours: [S, A] the state where each move leads; -1 where there is none.
    """

    kind: str
    centres: np.ndarray
    names: tuple[str, ...]
    size: float = 0.0
    rows: int = 0
    columns: int = 0
    radius: int = 1
    moves: tuple[str, ...] = ()
    neighbours: np.ndarray

    def __post_init__(self) -> None:
        for name in ("centres", "neighbours"):
            object.__setattr__(self, name, read_only(np.array(getattr(self, name))))

    @property
    def states(self) -> int:
        """S, the number of states."""
        return len(self.centres)

    @property
    def layout(self) -> Layout:
        """The names of states and moves, and where they lie."""
        named = Layout(state_names=self.names, action_names=self.moves)
        if self.kind == "grid":
            steps = steps_within(self.radius)
            directions = tuple(steps.get(move, (0, 0)) for move in self.moves)
            return replace(named, rows=self.rows, columns=self.columns, directions=directions)
        centres = tuple(map(tuple, self.centres.tolist()))
        leads = tuple(map(tuple, self.neighbours.tolist())) if self.moves else ()
        return replace(named, centres=centres, hexagon=self.size, leads=leads)

    def __call__(self, points: npt.ArrayLike) -> np.ndarray:
        """[N] the states of positions [N, 2]; -1 where one lies outside all cells."""
        from scipy.spatial import cKDTree  # pyright: ignore[reportAttributeAccessIssue]

        seen = points_of(points)
        if self.kind == "grid":
            # A position on an edge belongs to the cell above it, or to its right.
            left, bottom = self.centres.min(axis=0) - self.size / 2
            up = _floor((seen[:, 1] - bottom) / self.size, self.rows)
            right = _floor((seen[:, 0] - left) / self.size, self.columns)
            inside = (up >= 0) & (up < self.rows) & (right >= 0) & (right < self.columns)
            return np.where(inside, (self.rows - 1 - up) * self.columns + right, -1)
        # Hexagons, too, hold what is nearest to their middle.
        distance, state = cKDTree(self.centres).query(seen)
        outside = distance > self.size / math.sqrt(3.0) * (1 + 1e-9)
        return np.where(outside & (self.kind == "hexagons"), -1, state).astype(np.int64)

    def corners(self) -> list[np.ndarray]:
        """[S] the corners [K, 2] of each cell, for drawing; of clusters none."""
        if self.kind == "clusters":
            return []
        if self.kind == "grid":
            around = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * self.size / 2
        else:
            angles = np.pi / 6 + np.pi / 3 * np.arange(6)
            around = np.stack([np.cos(angles), np.sin(angles)], axis=1) * self.size / math.sqrt(3.0)
        return [centre + around for centre in self.centres]

    def within(self, radius: int) -> Places:
        """The same square cells with moves of up to so many cells."""
        shape = self.rows, self.columns
        return _squares(self.centres, self.size, shape, radius)

    @property
    def lengths(self) -> np.ndarray:
        """[A] how long each move is, in widths of a cell; none for clusters."""
        here = np.arange(self.states)[:, None]
        away = np.where(self.neighbours >= 0, self.neighbours, here)
        between = np.linalg.norm(self.centres[away] - self.centres[:, None], axis=2)
        return between.max(axis=0, initial=0.0) / (self.size or 1.0)

    def mean(self, values: np.ndarray, points: np.ndarray) -> np.ndarray:
        """[S] the mean of values [N] at positions [N, 2] in each state; NaN where there is none."""
        state = self(points)
        return means_at(values[state >= 0], state[state >= 0], self.states)


def _floor(place: np.ndarray, count: int) -> np.ndarray:
    """[N] the whole part; what rounding puts just outside of 0..count is inside."""
    inside = (place > -1e-9) & (place < count + 1e-9)
    floor = np.floor(place).astype(np.int64)
    return np.where(inside, np.clip(floor, 0, count - 1), floor)


def square_cells(
    points: npt.ArrayLike,
    size: float,
    *,
    origin: tuple[float, float] = (0.0, 0.0),
) -> Places:
    """Square cells of this width that cover the positions, with eight moves and staying.

    Args:
        points: [N, 2] positions.
        size: width of a cell.
        origin: x and y of a corner of some cell.
    """
    seen, size = points_of(points), _width(size)
    left, bottom = np.floor((seen.min(axis=0) - origin) / size) * size + origin
    columns, rows = (int(n) for n in np.floor((seen.max(axis=0) - (left, bottom)) / size) + 1)
    _refuse_many(rows * columns, size, seen)
    row, column = np.divmod(np.arange(rows * columns), columns)
    x = left + (column + 0.5) * size
    y = bottom + (rows - row - 0.5) * size
    return _squares(np.stack([x, y], axis=1), size, (rows, columns), 1)


def _squares(centres: np.ndarray, size: float, shape: tuple[int, int], radius: int) -> Places:
    """Square cells in rows and columns, with moves of up to so many of them."""
    rows, ways = shape[0], steps_within(radius)
    steps = {name: (np.full(rows, r), np.full(rows, c)) for name, (r, c) in ways.items()}
    return replace(_cells("grid", centres, size, shape, steps), radius=radius)


def steps_within(radius: int) -> dict[str, tuple[int, int]]:
    """Name -> (row, column) of every step of up to so many cells, the nearest first."""
    around = range(-radius, radius + 1)
    farther = [(r, c) for r in around for c in around if max(abs(r), abs(c)) > 1]
    steps = dict(COMPASS)
    for r, c in sorted(farther, key=lambda step: (max(map(abs, step)), step)):
        parts = [(abs(r), "north" if r < 0 else "south"), (abs(c), "west" if c < 0 else "east")]
        steps[" ".join(f"{n} {way}" for n, way in parts if n)] = (r, c)
    return steps


def hexagons(points: npt.ArrayLike, size: float) -> Places:
    """Hexagons of this width that cover the positions, with six moves and staying."""
    seen, size = points_of(points), _width(size)
    height = size * math.sqrt(3.0) / 2  # between rows
    left, bottom = seen.min(axis=0)
    columns = math.ceil((seen[:, 0].max() - left) / size) + 1
    rows = math.ceil((seen[:, 1].max() - bottom) / height) + 1
    _refuse_many(rows * columns, size, seen)
    row, column = np.divmod(np.arange(rows * columns), columns)
    x = left + (column - 0.5 * (row % 2 == 0)) * size + 0.25 * size
    y = bottom + (rows - 1 - row) * height
    odd = np.arange(rows) % 2
    steps = {
        name: (np.where(odd, late[0], early[0]), np.where(odd, late[1], early[1]))
        for name, (early, late) in HEXAGONAL.items()
    }
    return _cells("hexagons", np.stack([x, y], axis=1), size, (rows, columns), steps)


def clusters(points: npt.ArrayLike, count: int, *, seed: int = 0) -> Places:
    """That many k-means clusters of the positions (needs scikit-learn), called place 1, 2, ..."""
    centres = cluster_centres(points_of(points), count, seed)
    return Places(
        kind="clusters",
        centres=centres,
        names=tuple(f"place {n + 1}" for n in range(len(centres))),
        neighbours=np.zeros((len(centres), 0), np.int64),
    )


def _width(size: float) -> float:
    if not (math.isfinite(size) and size > 0):
        raise InvalidModel(f"the width of a cell must be a number above 0; got {size}")
    return float(size)


def _refuse_many(count: int, size: float, seen: np.ndarray) -> None:
    if count > MOST:
        off = np.abs(seen - np.median(seen, axis=0)).max(axis=1)
        x, y = seen[np.argmax(off)]
        stray = off.max() > 10 * np.quantile(off, 0.9)
        mend = f", or write NA in the place of ({x:.9g}, {y:.9g}), far from the others"
        wider = size * math.sqrt(count / MOST)
        raise InvalidModel(
            f"cells must be at most {MOST}; a width of {size:g} makes {count}: take at least "
            f"{wider:.2g}{mend if stray else ''}"
        )


def _cell_names(rows: int, columns: int) -> tuple[str, ...]:
    """Names as on a map, row by row: A1 is the top left cell, B1 the one to its right."""
    letters = []
    for number in range(columns):
        word, rest = "", number + 1
        while rest:
            rest, digit = divmod(rest - 1, 26)
            word = chr(ord("A") + digit) + word
        letters.append(word)
    return tuple(f"{letters[c]}{r + 1}" for r in range(rows) for c in range(columns))


def _cells(
    kind: str,
    centres: np.ndarray,
    size: float,
    shape: tuple[int, int],
    steps: Mapping[str, tuple[np.ndarray, np.ndarray]],
) -> Places:
    """The `Places` of cells in rows and columns: steps by name, each down and right by row."""
    (rows, columns), every = shape, np.arange(shape[0] * shape[1])
    row, column = np.divmod(every, columns)
    neighbours = []
    for down, right in steps.values():
        r, c = row + down[row], column + right[row]
        inside = (r >= 0) & (r < rows) & (c >= 0) & (c < columns)
        neighbours.append(np.where(inside, r * columns + c, -1))
    return Places(
        kind=kind,
        centres=centres,
        names=_cell_names(rows, columns),
        size=size,
        rows=rows,
        columns=columns,
        moves=(*steps, STAY),
        neighbours=np.stack([*neighbours, every], axis=1),
    )
