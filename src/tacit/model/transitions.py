"""Where actions lead, and what they and the states are called.

Transitions in three forms (dense, scipy.sparse, successor lists) become one: padded lists. They are
validated here, once: inside the library the lists are trusted. The `Layout` names states, says
where they lie, and is told by the transitions which way actions point (`with_directions`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from tacit.errors import InvalidModel

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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
MISSING = ": where the action is not there, say so in `available`"
MISSING_PART = ": a model held in parts knows neither unavailable actions nor ends"
# A row that was normalised in float32, or written with seven digits, must still count as a row.
ROW_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Successors:
    """Transitions as lists: where each action can lead, and how likely. Padding has probability 0.

    Attributes:
        states: [S, A, B] next states.
        probabilities: [S, A, B] their probabilities; repeated next states add up.
    """

    states: np.ndarray
    probabilities: np.ndarray

    if TYPE_CHECKING:  # array-likes are welcome; `MDP` makes arrays of them

        def __init__(self, states: ArrayLike, probabilities: ArrayLike) -> None: ...


# Dense [S, A, S], `Successors`, or a scipy.sparse [S * A, S], which has no public type.
Transitions: TypeAlias = ArrayLike | Successors | object


def successor_lists(
    transitions: Transitions,
    *,
    reached: int | None = None,
    available: Callable[[tuple[int, int]], np.ndarray] | None = None,
) -> Successors:
    """Sorted, merged successor lists from any of the three forms, validated.

    Args:
        transitions: as given.
        reached: the number of next states, where the lists are those of some of the states only.
        available: (S, A) -> [S, A] bool, the pairs that are there; the rows of all others are
            ignored and come back empty.
    """
    if isinstance(transitions, Successors):
        states, probabilities = _from_lists(transitions, reached, available)
    elif (rows := getattr(transitions, "tocsr", None)) is not None:
        states, probabilities = _from_sparse(rows())
    else:
        states, probabilities = _from_dense(transitions)
    there = None if available is None else available((states.shape[0], states.shape[1]))
    if there is not None and not there.all():
        probabilities = np.where(there[:, :, None], probabilities, 0.0)
    whole = reached is None
    _check_rows(states, probabilities, there, MISSING if whole else MISSING_PART)
    return Successors(*_merged(states, probabilities, reached))


def _from_lists(
    given: Successors,
    reached: int | None,
    available: Callable[[tuple[int, int]], np.ndarray] | None,
) -> tuple[np.ndarray, np.ndarray]:
    states = numbers(given.states, "successor states", None)
    probabilities = numbers(given.probabilities, "successor probabilities")
    if states.ndim != 3 or states.shape != probabilities.shape:
        raise InvalidModel(
            "successor states and probabilities must both have shape [S, A, B]; "
            f"got {states.shape} and {probabilities.shape}"
        )
    if 0 in states.shape:
        raise InvalidModel(
            f"an MDP needs at least one state, action and successor; got {states.shape}"
        )
    if not np.issubdtype(states.dtype, np.integer):
        raise InvalidModel(f"successor states must be integers; got {states.dtype}")
    count = states.shape[0] if reached is None else reached
    outside = (states < 0) | (states >= count)
    if available is not None and outside.any():
        absent = ~available((states.shape[0], states.shape[1]))[:, :, None]
        states = np.where(outside & absent, 0, states)
        outside &= ~absent
    if outside.any():
        s, a, b = (int(i) for i in np.argwhere(outside)[0])
        raise InvalidModel(
            f"successor states must be in 0..{count - 1}; "
            f"entry (state {s}, action {a}, {b}) is {states[s, a, b]}"
        )
    return states.astype(np.int32), probabilities


def _from_sparse(matrix: csr_array) -> tuple[np.ndarray, np.ndarray]:
    if matrix.ndim != 2:
        raise InvalidModel(f"sparse transitions must have shape [S * A, S]; got {matrix.shape}")
    rows, count = (int(size) for size in matrix.shape or ())
    if count == 0 or rows == 0:
        raise InvalidModel(f"an MDP needs at least one state and one action; got {matrix.shape}")
    if rows % count:
        raise InvalidModel(
            "sparse transitions must have shape [S * A, S], row s * A + a; "
            f"got {matrix.shape}, whose rows are no multiple of its columns"
        )
    matrix = matrix.copy()
    matrix.sum_duplicates()
    lengths = np.diff(matrix.indptr)
    width = max(int(lengths.max()), 1)
    states = np.zeros((rows, width), dtype=np.int32)
    probabilities = np.zeros((rows, width))
    row = np.repeat(np.arange(rows), lengths)
    column = np.arange(len(matrix.indices)) - np.repeat(matrix.indptr[:-1], lengths)
    states[row, column] = matrix.indices
    probabilities[row, column] = numbers(matrix.data, "sparse transitions")
    shape = (count, rows // count, width)
    return states.reshape(shape), probabilities.reshape(shape)


def _from_dense(table: object) -> tuple[np.ndarray, np.ndarray]:
    dense = numbers(table, "dense transitions")
    if dense.ndim != 3 or dense.shape[0] != dense.shape[2]:
        raise InvalidModel(
            f"dense transitions must have shape [S, A, S] (state, action, next state); "
            f"got {dense.shape}"
        )
    if 0 in dense.shape:
        raise InvalidModel(f"an MDP needs at least one state and one action; got {dense.shape}")
    # `!= 0`, not `> 0`: negative and NaN entries must survive to be reported.
    width = max(int((dense != 0).sum(axis=2).max()), 1)
    order = np.argsort(dense == 0, axis=2, kind="stable")[:, :, :width]
    return order.astype(np.int32), np.take_along_axis(dense, order, axis=2)


def _check_rows(
    states: np.ndarray, probabilities: np.ndarray, there: np.ndarray | None, empty: str
) -> None:
    bad = ~(probabilities >= 0)  # also catches NaN
    if bad.any():
        s, a, b = (int(i) for i in np.argwhere(bad)[0])
        raise InvalidModel(
            "transition probabilities must be non-negative numbers; "
            f"(state {s}, action {a}, next state {states[s, a, b]}) has {probabilities[s, a, b]:g}"
        )
    sums = probabilities.sum(axis=2)
    error = np.where(np.isfinite(sums), np.abs(sums - 1.0), np.inf)
    if there is not None:
        error[~there] = 0.0
    s, a = (int(i) for i in np.unravel_index(np.argmax(error), error.shape))
    if error[s, a] > ROW_SUM_TOLERANCE:
        raise InvalidModel(
            "transitions must be distributions over the next state; "
            f"row (state {s}, action {a}) sums to {sums[s, a]:.10g}{'' if sums[s, a] else empty}"
        )


def _merged(
    states: np.ndarray, probabilities: np.ndarray, reached: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """The rows normalised exactly, next states sorted, repeats added up, zeros dropped.

    An empty row leads, with probability 0, to its own state.
    """
    rows_given, actions, width = states.shape
    count = rows_given if reached is None else reached
    sums = probabilities.sum(axis=2, keepdims=True)
    # A row that is off by rounding alone stays as it is: normalised again it would drift.
    exact = (np.abs(sums - 1.0) <= width * np.finfo(np.float64).eps) | (sums == 0.0)
    probabilities = (probabilities / np.where(exact, 1.0, sums)).reshape(-1, width)
    states = np.where(probabilities > 0, states.reshape(-1, width), count)  # padding sorts last
    order = np.argsort(states, axis=1, kind="stable")
    states = np.take_along_axis(states, order, axis=1)
    probabilities = np.take_along_axis(probabilities, order, axis=1)
    first = np.ones_like(states, dtype=bool)
    first[:, 1:] = states[:, 1:] != states[:, :-1]
    slot = np.cumsum(first, axis=1) - 1
    width = max(int((first & (states < count)).sum(axis=1).max()), 1)
    slot = np.minimum(slot, width - 1)  # only zero-probability padding can lie beyond
    rows = np.arange(len(states))[:, None]
    merged = np.zeros((len(states), width))
    np.add.at(merged, (rows, slot), probabilities)
    # Padding repeats the row's first next state: in range, and already in the cache.
    own = np.arange(len(states))[:, None] // actions if reached is None else 0
    targets = np.repeat(np.where(states[:, :1] < count, states[:, :1], own), width, axis=1)
    real = states < count
    targets[np.broadcast_to(rows, states.shape)[real], slot[real]] = states[real]
    shape = (rows_given, actions, width)
    return targets.reshape(shape).astype(np.int32), merged.reshape(shape)


def shared_successors(successors: Successors, *, reached: int | None = None) -> Successors:
    """The same transitions with `states` [S, 1, W], if W is small enough; else as they are."""
    size, actions, width = successors.states.shape
    if actions == 1:
        return successors
    count = size if reached is None else reached
    flat = np.where(successors.probabilities > 0, successors.states, count).reshape(size, -1)
    order = np.argsort(flat, axis=1, kind="stable")
    ordered = np.take_along_axis(flat, order, axis=1)
    first = np.ones_like(ordered, dtype=bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    shared = int((first & (ordered < count)).sum(axis=1).max())
    # Sharing costs zero entries where actions differ; up to twice the width, saved gathers win.
    if shared > 2 * width:
        return successors
    slot = np.minimum(np.cumsum(first, axis=1) - 1, max(shared, 1) - 1)
    back = np.empty_like(slot)
    np.put_along_axis(back, order, slot, axis=1)
    rows = np.arange(size)[:, None]
    real = ordered < count
    shared = max(shared, 1)
    own = rows if reached is None else 0
    states = np.repeat(np.where(real[:, :1], ordered[:, :1], own), shared, axis=1)
    states[np.broadcast_to(rows, ordered.shape)[real], slot[real]] = ordered[real]
    probabilities = np.zeros((size, actions, shared))
    action = np.repeat(np.arange(actions), width)[None, :]
    # Merged successors are distinct, so plain assignment of the non-zero entries loses nothing.
    keep = successors.probabilities.reshape(size, -1) > 0
    index = (np.broadcast_to(rows, keep.shape)[keep], np.broadcast_to(action, keep.shape)[keep])
    probabilities[(*index, back[keep])] = successors.probabilities.reshape(size, -1)[keep]
    return frozen(Successors(states.astype(np.int32)[:, None, :], probabilities))


def numbers(values: object, name: str, dtype: DTypeLike | None = np.float64) -> np.ndarray:
    """A fresh array of real numbers; `InvalidModel` for text, ragged lists and complex entries."""
    try:
        array = np.array(values)
        if np.iscomplexobj(array):
            raise TypeError
        return array if dtype is None else array.astype(dtype, copy=False)
    except (TypeError, ValueError):
        kind = getattr(values, "dtype", None) or type(values).__name__
        raise InvalidModel(
            f"{name} must be an array of real numbers, all rows equally long; got {kind}"
        ) from None


def frozen(successors: Successors) -> Successors:
    """The same lists, no longer writable."""
    return Successors(read_only(successors.states), read_only(successors.probabilities))


def read_only(array: np.ndarray) -> np.ndarray:
    """The array, contiguous and no longer writable."""
    array = np.ascontiguousarray(array)
    array.setflags(write=False)
    return array


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
