"""Where actions lead: transitions in three forms become one, padded lists.

Dense, scipy.sparse and successor lists are validated here, once: inside the library the lists are
trusted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import InvalidModel
from tacit.model.arguments import ROW_SUM_TOLERANCE, numbers, read_only
from tacit.model.available import available_pairs

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MISSING = ": where the action is not there, say so in `available`"
MISSING_PART = ": a model held in parts knows neither unavailable actions nor ends"


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


# (S, A); then row s * A + a, next state and probability of each transition.
Entries: TypeAlias = tuple[tuple[int, int], np.ndarray, np.ndarray, np.ndarray]


def successor_lists(
    transitions: Transitions, *, reached: int | None = None, available: ArrayLike | None = None
) -> Successors:
    """Sorted, merged successor lists from any of the three forms, validated.

    An empty row leads, with probability 0, to its own state.

    Args:
        transitions: as given.
        reached: the number of next states, where the lists are those of some of the states only.
        available: [S, A] bool, the pairs that are there; the rows of all others are ignored and
            come back empty. None: all of them.
    """
    rows, (states, actions) = transition_rows(transitions, reached=reached, available=available)
    own = np.repeat(np.arange(states), actions) if reached is None else 0
    lists, *places = _padded(rows, own)
    probabilities = np.zeros(lists.shape)
    probabilities[*places] = rows.data
    shape = (states, actions, lists.shape[1])
    return Successors(read_only(lists.reshape(shape)), read_only(probabilities.reshape(shape)))


def transition_rows(
    transitions: Transitions, *, reached: int | None = None, available: ArrayLike | None = None
) -> tuple[csr_array, tuple[int, int]]:
    """([S * A, S] distributions as sorted CSR rows, row s * A + a, validated; S and A).

    The arguments are those of `successor_lists`.
    """
    from scipy.sparse import csr_array

    if isinstance(transitions, Successors):
        shape, *entries = _from_lists(transitions)
    elif hasattr(transitions, "tocsr"):
        shape, *entries = _from_sparse(transitions)
    else:
        shape, *entries = _from_dense(transitions)
    count, there = shape[0] if reached is None else reached, np.ones(shape, bool)
    if available is not None:
        there = available_pairs(available, shape)
        is_there = there.ravel()[entries[0]]
        entries = [part[is_there] for part in entries]
    rows, following, chances = entries
    _check_entries(rows, following, chances, (*shape, count))
    sums = np.bincount(rows, chances, there.size)
    _check_sums(sums.reshape(shape), there, MISSING if reached is None else MISSING_PART)
    # A row that is off by rounding alone stays as it is: normalised again it would drift.
    width = np.bincount(rows, minlength=there.size)
    off = np.abs(sums - 1.0) > width * np.finfo(np.float64).eps
    chances = chances / np.where(off & (sums > 0.0), sums, 1.0)[rows]
    table = csr_array((chances, (rows, following)), shape=(there.size, count))
    table.sum_duplicates()
    table.eliminate_zeros()
    return table, shape


def _from_lists(given: Successors) -> Entries:
    states = numbers(given.states, "successor states", None)
    probabilities = numbers(given.probabilities, "successor probabilities")
    if states.ndim != 3 or states.shape != probabilities.shape:
        raise InvalidModel(
            "successor states and probabilities must both have shape [S, A, B]; "
            f"got {states.shape} and {probabilities.shape}"
        )
    _refuse_empty(states.shape)
    if not np.issubdtype(states.dtype, np.integer):
        raise InvalidModel(f"successor states must be integers; got {states.dtype}")
    count, actions, width = states.shape
    rows = np.repeat(np.arange(count * actions), width)
    return (count, actions), rows, states.ravel(), probabilities.ravel()


def _from_sparse(given: Any) -> Entries:
    matrix = given.tocsr().tocoo()
    if matrix.ndim != 2:
        raise InvalidModel(f"sparse transitions must have shape [S * A, S]; got {matrix.shape}")
    rows, count = matrix.shape
    _refuse_empty(matrix.shape)
    if rows % count:
        raise InvalidModel(
            "sparse transitions must have shape [S * A, S], row s * A + a; "
            f"got {matrix.shape}, whose rows are no multiple of its columns"
        )
    chances = numbers(matrix.data, "sparse transitions")
    return (count, rows // count), matrix.row, matrix.col, chances


def _from_dense(table: object) -> Entries:
    dense = numbers(table, "dense transitions")
    if dense.ndim != 3 or dense.shape[0] != dense.shape[2]:
        raise InvalidModel(
            f"dense transitions must have shape [S, A, S] (state, action, next state); "
            f"got {dense.shape}"
        )
    _refuse_empty(dense.shape)
    shape, flat = dense.shape[:2], dense.reshape(-1, len(dense))
    rows, following = np.nonzero(flat)  # negative and NaN entries, too: they are reported
    return shape, rows, following, flat[rows, following]


def _refuse_empty(shape: tuple[int, ...]) -> None:
    if 0 in shape:
        raise InvalidModel(f"an MDP needs at least one state and one action; got {shape}")


def _check_entries(
    rows: np.ndarray, following: np.ndarray, chances: np.ndarray, shape: tuple[int, int, int]
) -> None:
    """Raises for the first transition that leads nowhere, or has no probability."""
    _, actions, count = shape
    outside = (following < 0) | (following >= count)
    odd = outside | ~(chances >= 0)  # also catches NaN
    if not odd.any():
        return
    at = int(np.argmax(odd))
    s, a = divmod(int(rows[at]), actions)
    if outside[at]:
        raise InvalidModel(
            f"successor states must be in 0..{count - 1}; one of (state {s}, action {a}) is "
            f"{following[at]}"
        )
    raise InvalidModel(
        "transition probabilities must be non-negative numbers; "
        f"(state {s}, action {a}, next state {following[at]}) has {chances[at]:g}"
    )


def _check_sums(sums: np.ndarray, there: np.ndarray, empty: str) -> None:
    """Raises for the row [S, A] that is farthest from a distribution."""
    error = np.where(np.isfinite(sums), np.abs(sums - 1.0), np.inf)
    error[~there] = 0.0
    s, a = (int(i) for i in np.unravel_index(np.argmax(error), error.shape))
    if error[s, a] > ROW_SUM_TOLERANCE:
        raise InvalidModel(
            "transitions must be distributions over the next state; "
            f"row (state {s}, action {a}) sums to {sums[s, a]:.10g}{'' if sums[s, a] else empty}"
        )


def _padded(table: csr_array, own: np.ndarray | int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """([n, W] the columns of each row, ascending; row and place therein of every entry)."""
    lengths = np.diff(table.indptr)
    width = max(int(lengths.max()), 1)
    # Padding repeats the row's first next state: in range, and already in the cache.
    first = np.append(table.indices, 0)[table.indptr[:-1]]
    lists = np.repeat(np.where(lengths > 0, first, own)[:, None], width, axis=1).astype(np.int32)
    row = np.repeat(np.arange(len(lengths)), lengths)
    slot = np.arange(len(row)) - table.indptr[row]
    lists[row, slot] = table.indices
    return lists, row, slot


def shared_successors(successors: Successors, *, reached: int | None = None) -> Successors:
    """The same transitions with `states` [S, 1, W], if W is small enough; else as they are."""
    from scipy.sparse import csr_array

    size, actions, width = successors.states.shape
    if actions == 1:
        return successors
    s, a, b = np.nonzero(successors.probabilities)
    following = successors.states[s, a, b]
    shape = (size, size if reached is None else reached)
    reach = csr_array((np.ones(len(s)), (s, following)), shape=shape)
    # Sharing costs zero entries where actions differ; up to twice the width, saved gathers win.
    if np.diff(reach.indptr).max() > 2 * width:
        return successors
    lists, _, slot = _padded(reach, np.arange(size) if reached is None else 0)
    reach.data = slot
    probabilities = np.zeros((size, actions, lists.shape[1]))
    probabilities[s, a, reach[s, following]] = successors.probabilities[s, a, b]
    return Successors(read_only(lists[:, None, :]), read_only(probabilities))
