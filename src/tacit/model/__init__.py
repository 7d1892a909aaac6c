"""What everybody knows: MDP, Objective, Features, names, and dynamics estimated from counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import InvalidModel


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
    """

    rows: int = 0
    columns: int = 0
    _: KW_ONLY
    directions: tuple[tuple[int, int], ...] = ()
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    centres: tuple[tuple[float, float], ...] = field(default=(), kw_only=True)
    hexagon: float = field(default=0.0, kw_only=True)
    leads: tuple[tuple[int, ...], ...] = field(default=(), kw_only=True)

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


def with_directions(layout: Layout, successors: np.ndarray, probabilities: np.ndarray) -> Layout:
    """The layout, with the directions of actions told by where they lead, and so named.

    About centres every state has its own: `leads`.

    An action points where more than half of what it moves goes; one that moves nothing stays.
    Where one action points nowhere so, or the layout has directions or no grid, it stays as it is.

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
    found = []
    for action in range(successors.shape[1]):
        moved = chance[:, action] * (after[:, action] != here[:, 0])
        down, right = (step[:, action][moved > 0] for step in steps)
        ways, which = np.unique(np.stack([down, right]), axis=1, return_inverse=True)
        weight = np.bincount(which.ravel(), weights=moved[moved > 0], minlength=ways.shape[1])
        if not len(weight):
            found.append((0, 0))
        elif weight.max() > ONE_WAY * weight.sum():
            row, column = ways[:, weight.argmax()].tolist()
            found.append((row, column))
        else:
            return layout
    if not any(map(any, found)):
        return layout
    names = tuple(COMPASS.get(step, "") for step in found)
    told = layout.action_names or (names if all(names) and len({*names}) == len(names) else ())
    return replace(layout, directions=tuple(found), action_names=told)


@dataclass(frozen=True)
class Unavailable:
    """A step that took an action where there is none such.

    Attributes:
        row: of the step.
        state: where it was taken.
        action: that was taken.
        ends: whether the state has no action at all, so that the episode is over there.
    """

    row: int
    state: int
    action: int
    ends: bool

    def sentence(self, states: Sequence[str] = (), actions: Sequence[str] = ()) -> str:
        """What must hold, and what was got, by name where there are names."""
        state = repr(states[self.state]) if states else self.state
        action = repr(actions[self.action]) if actions else self.action
        must = "every action taken must be available in its state"
        if self.ends:
            must = "nothing may be done in a state where episodes end, which can only come last"
        return f"{must}; got action {action} in state {state}"


def first_unavailable(
    available: np.ndarray, states: np.ndarray, actions: np.ndarray
) -> Unavailable | None:
    """The first of these steps [N] that `available` [S, A] does not allow, or None."""
    taken = available[states, actions]
    if taken.all():
        return None
    row = int(np.argmin(taken))
    state = int(states[row])
    return Unavailable(row, state, int(actions[row]), not available[state].any())


def found(given: str | int, count: int, names: Sequence[str], what: str) -> int:
    """The number of a state or action that is given by its number or its name."""
    if isinstance(given, str):
        if given in names:
            return names.index(given)
        hint = f"known are {', '.join(names[:6])}" + (" ..." if len(names) > 6 else "")
        raise InvalidModel(
            f"no {what} is called {given!r}; {hint if names else f'no {what} has a name here'}"
        )
    whole = isinstance(given, int | np.integer) and not isinstance(given, bool)
    if not whole or not 0 <= given < count:
        raise InvalidModel(f"a {what} must be a name or a number in 0..{count - 1}; got {given!r}")
    return int(given)


def state_names(layout: Layout, count: int) -> tuple[str, ...]:
    """[S] what the states are called; grid cells such as "(0, 1)" are names, too."""
    if not (layout.state_names or layout.is_grid):
        return ()
    return tuple(layout.state_name(s) for s in range(count))


def several(
    given: str | int | Iterable[str | int], count: int, names: Sequence[str], what: str
) -> list[int]:
    """The numbers of one or more states or actions, each once."""
    listed = [given] if isinstance(given, str | int | np.integer) else list(given)  # type: ignore
    if not listed:
        raise InvalidModel(f"at least one {what} must be named; got none")
    numbers = [found(one, count, names, what) for one in listed]
    if len(set(numbers)) < len(numbers):
        raise InvalidModel(f"every {what} must be named once; got {listed!r:.80}")
    return numbers


def coefficient_names(
    reward_names: Iterable[str], cost_names: Iterable[Iterable[str]]
) -> tuple[str, ...]:
    """[P] the names of the features, costs with their number in front where names repeat."""
    costs = [[str(name) for name in names] for names in cost_names]
    plain = (*reward_names, *(name for names in costs for name in names))
    if len(set(plain)) == len(plain):
        return plain
    told = (f"cost {k}: {name}" for k, names in enumerate(costs) for name in names)
    return (*plain[: len(plain) - sum(len(names) for names in costs)], *told)
