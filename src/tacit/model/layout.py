"""What states and actions are called, and where they lie; numbers of those given by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import InvalidModel
from tacit.model.arguments import is_integer

# What a step on a grid is called, (row, column) down and right being positive.
COMPASS = {
    (-1, 0): "north",
    (-1, 1): "north-east",
    (0, 1): "east",
    (1, 1): "south-east",
    (1, 0): "south",
    (1, -1): "south-west",
    (0, -1): "west",
    (-1, -1): "north-west",
    (0, 0): "stay",
}
# Share of what an action moves that must go one way for it to point there.
ONE_WAY = 0.5


@dataclass(frozen=True)
class Layout:
    """How states and actions are named and, on a grid, where they lie.

    On a grid, states 0 to rows * columns - 1 are its cells, row by row; later ones lie off it.

    Attributes:
        rows: number of rows of the grid; 0 where the world is no grid.
        columns: number of columns of the grid; 0 where the world is no grid.
        directions: one (row, column) step per action, down and right being positive; empty where
            actions do not point anywhere.
        state_names: one name per state; empty where they have none.
        action_names: one name per action; empty where they have none.
        centres: (x, y) of the middle of each state that lies on no grid, y growing upwards; empty
            where nobody knows.
        hexagon: width of the hexagons about the centres; 0 where a state is what is nearest to it.
        leads: for each state, where each action mostly leads, -1 where it is not available; told
            for states that have centres.
        corner: (x, y) of the upper left corner of the grid; empty where nobody knows.
        cell_size: width and height of a cell of the grid, in units of x and y; empty likewise.
    """

    rows: int = 0
    columns: int = 0
    _: KW_ONLY
    directions: tuple[tuple[int, int], ...] = ()
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    centres: tuple[tuple[float, float], ...] = ()
    hexagon: float = 0.0
    leads: tuple[tuple[int, ...], ...] = ()
    corner: tuple[float, ...] = ()
    cell_size: tuple[float, ...] = ()

    def check(self, states: int, actions: int) -> None:
        """`InvalidModel` unless names, directions and grid are of so many states and actions."""
        for kind, what, named, count in (
            ("state", "names", self.state_names, states),
            ("action", "names", self.action_names, actions),
            ("action", "directions", self.directions, actions),
        ):
            if named and len(named) != count:
                raise InvalidModel(f"{count} {kind}s need {count} {what}; got {len(named)}")
        if self.rows * self.columns > states:
            raise InvalidModel(
                f"a grid of {self.rows} x {self.columns} cells needs as many states; there are "
                f"{states}"
            )

    @property
    def is_map(self) -> bool:
        """Whether it is known where states lie: on a grid, or about centres."""
        return self.is_grid or bool(self.centres)

    @property
    def is_grid(self) -> bool:
        """Whether states lie on a grid."""
        return self.rows > 0 and self.columns > 0

    def grid(self, values: ArrayLike) -> np.ndarray:
        """[rows, columns] the values [S] of the cells, as they lie."""
        if not self.is_grid:
            raise InvalidModel("this world is no grid: its layout has no rows and columns")
        cells = self.rows * self.columns
        values = np.asarray(values)
        if values.ndim != 1 or len(values) < cells:
            raise InvalidModel(
                f"values must hold one entry a state, {cells} or more; got {values.shape}"
            )
        return values[:cells].reshape(self.rows, self.columns)

    @property
    def middles(self) -> np.ndarray:
        """[S, 2] x and y of the middle of each state, as far as it is known; else rows of NaN."""
        if self.centres:
            return np.array(self.centres, float)
        if not (self.is_grid and self.corner and self.cell_size):
            return np.full((len(self.state_names), 2), np.nan)
        row, column = np.divmod(np.arange(self.rows * self.columns), self.columns)
        x = self.corner[0] + (column + 0.5) * self.cell_size[0]
        y = self.corner[1] - (row + 0.5) * self.cell_size[1]
        return np.stack([x, y], axis=1)

    def cell(self, state: int) -> tuple[int, int] | None:
        """(row, column) of a state; None if it lies off the grid."""
        inside = self.is_grid and 0 <= state < self.rows * self.columns
        return divmod(int(state), self.columns) if inside else None

    def state_name(self, state: int) -> str:
        """The name of a state, or its number or cell where it has none."""
        if self.state_names:
            return self.state_names[state]
        cell = self.cell(state)
        return f"state {state}" if cell is None else f"({cell[0]}, {cell[1]})"

    def action_name(self, action: int) -> str:
        """The name of an action, or its number where it has none."""
        return self.action_names[action] if self.action_names else f"action {action}"


def with_directions(layout: Layout, successors: np.ndarray, probabilities: np.ndarray) -> Layout:
    """The layout, with the directions of actions told by where they lead, and so named.

    An action points where more than half of what it moves goes; one that moves nothing stays.
    Where one action points nowhere so, or the layout has directions or no grid, it stays as it is.
    About centres every state has its own: `leads`.

    Args:
        layout: how states and actions are called.
        successors: [S, A, B] next states.
        probabilities: [S, A, B] of each; 0 where an action is not available.
    """
    if layout.centres and not layout.leads:
        likeliest = np.take_along_axis(successors, probabilities.argmax(2)[..., None], 2)[..., 0]
        leads = np.where(probabilities.any(axis=2), likeliest, -1)
        return replace(layout, leads=tuple(map(tuple, leads.tolist())))
    cells = layout.rows * layout.columns
    if not cells or layout.directions:
        return layout
    after, chance = successors[:cells], probabilities[:cells]
    here = np.arange(cells)[:, None, None]
    steps = [after // layout.columns - here // layout.columns]
    steps += [after % layout.columns - here % layout.columns]
    chance = np.where(after < cells, chance, 0.0)  # what leaves the grid points nowhere
    directions = []
    for action in range(successors.shape[1]):
        moved = chance[:, action] * (after[:, action] != here[:, 0])
        down, right = (step[:, action][moved > 0] for step in steps)
        ways, which = np.unique(np.stack([down, right]), axis=1, return_inverse=True)
        weight = np.bincount(which.ravel(), weights=moved[moved > 0], minlength=ways.shape[1])
        if not len(weight):
            directions.append((0, 0))
        elif weight.max() > ONE_WAY * weight.sum():
            row, column = ways[:, weight.argmax()].tolist()
            directions.append((row, column))
        else:
            return layout
    if not any(map(any, directions)):
        return layout
    names = tuple(COMPASS.get(step, "") for step in directions)
    action_names = layout.action_names or (
        names if all(names) and len({*names}) == len(names) else ()
    )
    return replace(layout, directions=tuple(directions), action_names=action_names)


def state_names(layout: Layout, count: int) -> tuple[str, ...]:
    """[S] what the states are called; grid cells such as "(0, 1)" are names, too."""
    if not (layout.state_names or layout.is_grid):
        return ()
    return tuple(layout.state_name(s) for s in range(count))


def number_of(given: str | int, count: int, names: Sequence[str], what: str) -> int:
    """The number of a state or action that is given by its number or its name."""
    if isinstance(given, str):
        if given in names:
            return names.index(given)
        hint = f"known are {', '.join(names[:6])}" + (" ..." if len(names) > 6 else "")
        raise InvalidModel(
            f"no {what} is called {given!r}; {hint if names else f'no {what} has a name here'}"
        )
    if not is_integer(given) or not 0 <= given < count:
        raise InvalidModel(f"a {what} must be a name or a number in 0..{count - 1}; got {given!r}")
    return int(given)


def numbers_of(
    given: str | int | Iterable[str | int], count: int, names: Sequence[str], what: str
) -> list[int]:
    """The numbers of one or more states or actions, each once."""
    listed = [given] if isinstance(given, str | int | np.integer) else list(given)  # type: ignore
    if not listed:
        raise InvalidModel(f"at least one {what} must be named; got none")
    numbers = [number_of(one, count, names, what) for one in listed]
    if len(set(numbers)) < len(numbers):
        raise InvalidModel(f"every {what} must be named once; got {listed!r:.80}")
    return numbers


def lookup(names: Sequence[str]) -> dict[str, int]:
    """The number of each name; plain numbers are understood too where no name looks like one."""
    numbers = {name: number for number, name in enumerate(names)}
    if not any(map(looks_numeric, names)):
        numbers |= {str(number): number for number in range(len(names))}
    return numbers


def looks_numeric(name: str) -> bool:
    """Whether a name is spelled like a whole number."""
    return name.lstrip("-").isdigit()
