"""Observed transitions become counts, and counts with a prior become estimated dynamics.

Counts are sparse and mergeable: parts of a stream are counted one by one and added up, so that
millions of rows need little more memory than the distinct transitions among them. Rows of any kind
are summed by group and place in the same way.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.files.columns import integers
from tacit.model import ObservedSteps, guessed_rows
from tacit.model.transitions import Transitions, read_only

if TYPE_CHECKING:
    from scipy.sparse import csr_array, csr_matrix

    from tacit.data.demonstrations import Demonstrations

# Entries of a table of groups that is kept dense.
DENSE_GROUPS = 1_000_000

Choice = TypeVar("Choice", bound=Enum)

# Rows counted at once: their keys fit in a few dozen MiB.
CHUNK = 2_000_000
# Most entries [S, A, S] of a prior that reaches all states: 400 MB of probabilities and numbers.
LARGEST = 30_000_000


@dataclass(frozen=True, eq=False)
class TransitionCounts:
    """How often each action in each state led where; two counts of one world add up with `+`.

    Attributes:
        states: S, the number of states.
        actions: A, the number of actions.
        rows: [M] state * A + action of each distinct transition, in order.
        next_states: [M] where it led, in order within a row.
        counts: [M] how often it was seen; positive.
    """

    states: int
    actions: int
    _: KW_ONLY
    rows: np.ndarray
    next_states: np.ndarray
    counts: np.ndarray

    @property
    def visits(self) -> np.ndarray:
        """[S, A] how often each action was taken in each state, and seen to lead somewhere."""
        total = np.bincount(self.rows, weights=self.counts, minlength=self.states * self.actions)
        return total.reshape(self.states, self.actions)

    @property
    def matrix(self) -> csr_array:
        """[S * A, S] the counts as a scipy.sparse CSR array, row s * A + a."""
        from scipy.sparse import csr_array

        shape = (self.states * self.actions, self.states)
        return csr_array((self.counts, (self.rows, self.next_states)), shape=shape)

    def __add__(self, other: TransitionCounts) -> TransitionCounts:
        if (self.states, self.actions) != (other.states, other.actions):
            raise InvalidDemonstrations(
                "counts add up only within one world; got S, A = "
                f"{(self.states, self.actions)} and {(other.states, other.actions)}"
            )
        keys = np.concatenate([self._keys, other._keys])
        counts = np.concatenate([self.counts, other.counts])
        return _gathered(keys, counts, self.states, self.actions)

    @property
    def _keys(self) -> np.ndarray:
        return self.rows * self.states + self.next_states

    def __repr__(self) -> str:
        return (
            f"TransitionCounts(states={self.states}, actions={self.actions}, "
            f"distinct={len(self.rows)}, steps={self.counts.sum():g})"
        )


def count_transitions(
    states: ArrayLike,
    actions: ArrayLike,
    next_states: ArrayLike,
    *,
    n_states: int | None = None,
    n_actions: int | None = None,
) -> TransitionCounts:
    """The `TransitionCounts` of rows (state, action, next state), in any order.

    Args:
        states: [N] where each step began.
        actions: [N] what was done there.
        next_states: [N] where it led.
        n_states: S; None takes one more than the largest number seen.
        n_actions: A; None takes one more than the largest number seen.
    """
    given = {"states": states, "actions": actions, "next_states": next_states}
    columns = {name: _column(column, name) for name, column in given.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidDemonstrations(
            f"states, actions and next_states must be as many; got {[*lengths.values()]}"
        )
    if lengths["states"] == 0 and (n_states is None or n_actions is None):
        raise InvalidDemonstrations("there must be at least one transition; got none")
    largest = {name: int(column.max(initial=-1)) for name, column in columns.items()}
    n_states = _size(n_states, max(largest["states"], largest["next_states"]) + 1, "n_states")
    n_actions = _size(n_actions, largest["actions"] + 1, "n_actions")
    for name, column in columns.items():
        count = n_actions if name == "actions" else n_states
        outside = (column < 0) | (column >= count)
        if outside.any():
            row = int(np.argmax(outside))
            got = f"row {row} has {column[row]}"
            raise InvalidDemonstrations(f"{name} must be in 0..{count - 1}; {got}")
    total = _gathered(np.zeros(0, np.int64), None, n_states, n_actions)
    for first in range(0, lengths["states"], CHUNK):
        s, a, following = (column[first : first + CHUNK] for column in columns.values())
        keys = (s.astype(np.int64) * n_actions + a) * n_states + following
        total = total + _gathered(keys, None, n_states, n_actions)
    return total


def observed_steps(demonstrations: Demonstrations) -> ObservedSteps:
    """The steps of `Demonstrations` whose outcome is known: all but some last ones.

    A state in which an episode `ended` is one that nothing leaves: demonstrations in which another
    step leaves it are refused. Where something was done in it, and it stayed, time goes on there.
    """
    last = demonstrations.offsets[1:] - 1
    following = np.empty(demonstrations.steps, np.int32)
    following[:-1] = demonstrations.states[1:]
    following[last] = demonstrations.final_states
    known = following >= 0
    states = demonstrations.states[known]
    following = following[known]
    final = demonstrations.final_states
    ends = np.unique(final[demonstrations.ended & (final >= 0)]).astype(np.int64)
    left = np.isin(states, ends) & (following != states)
    if left.any():
        row = int(np.flatnonzero(known)[np.argmax(left)])
        state = int(demonstrations.states[row])
        raise InvalidDemonstrations(
            f"nothing may leave a state in which an episode has ended; state {state} ends one, but "
            f"episode {demonstrations.episode[row]} leaves it at step {demonstrations.step[row]}: "
            "clear `ended`, or let it lead to a state of its own (rollouts: ends=np.full(S, S))"
        )
    acted = np.isin(ends, demonstrations.states)
    whole = ~demonstrations.partial
    return ObservedSteps(
        states=states,
        actions=demonstrations.actions[known],
        next_states=following,
        starts=demonstrations.states[demonstrations.offsets[:-1][whole]],
        ends=ends[~acted],
        stays=ends[acted],
        uncounted=int(demonstrations.steps - known.sum()),
    )


def _column(values: ArrayLike, name: str) -> np.ndarray:
    """[N] integers; columns of demonstrations, 32 bits wide, are not copied."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype == np.int32:
        return values
    return integers(values, name)


def _gathered(
    keys: np.ndarray, weights: np.ndarray | None, states: int, actions: int
) -> TransitionCounts:
    """Counts with each distinct key once."""
    distinct, place = np.unique(keys, return_inverse=True)
    counts = np.bincount(place, weights=weights, minlength=len(distinct)).astype(np.float64)
    rows, following, counts = map(read_only, (*np.divmod(distinct, states), counts))
    return TransitionCounts(states, actions, rows=rows, next_states=following, counts=counts)


def _size(given: int | None, seen: int, name: str) -> int:
    if given is None:
        return seen
    whole = isinstance(given, int | np.integer) and not isinstance(given, bool)
    if not whole or given < 1:
        raise InvalidDemonstrations(f"{name} must be a positive integer; got {given!r:.60}")
    return int(given)


class Over(Enum):
    """Where the pseudo-counts of a row go."""

    SUCCESSORS = "successors"
    ALL = "all"
    STAY = "stay"
    GIVEN = "given"


class Unvisited(Enum):
    """What happens to a pair of state and action that was never seen."""

    PRIOR = "prior"
    STAY = "stay"
    REFUSE = "refuse"


@dataclass(frozen=True, eq=False)
class Prior:
    """Pseudo-counts added to the observed steps, as many in every row (state, action).

    Attributes:
        strength: pseudo-count of a row; 0 takes the observed shares as they are.
        over: where it goes, in equal parts: the `SUCCESSORS` of the state that were seen under
            any action (of a state that was never left, itself), `ALL` states, or the state itself,
            `STAY`. Or a guess of the transitions, in any form that `MDP` takes: the pseudo-count
            then follows it (read back from a file, only that it was `GIVEN` is known).
    """

    strength: float = 1.0
    over: Transitions = Over.SUCCESSORS

    def __post_init__(self) -> None:
        try:
            strength = float(self.strength)
        except (TypeError, ValueError):
            strength = np.nan
        if not 0.0 <= strength < np.inf:
            raise InvalidModel(
                f"a prior's strength must be a number of steps, 0 or more; got {self.strength!r}"
            )
        object.__setattr__(self, "strength", strength)
        if isinstance(self.over, str):
            object.__setattr__(self, "over", _one_of(Over, self.over, "a prior's `over`"))

    @property
    def kind(self) -> Over:
        """Where the pseudo-count goes; `GIVEN` for a guess of the transitions."""
        return self.over if isinstance(self.over, Over) else Over.GIVEN

    @property
    def sentence(self) -> str:
        """What was assumed, for people."""
        if self.strength == 0:
            return "No pseudo-count was added: every observed share was taken as it is."
        places = {
            Over.SUCCESSORS: "spread evenly over the successors seen from that state",
            Over.ALL: "spread evenly over all states",
            Over.STAY: "all of it on the state itself",
            Over.GIVEN: "divided as in a given guess of the transitions",
        }
        return (
            f"A pseudo-count of {self.strength:g} was added to each pair of state and action, "
            f"{places[self.kind]}."
        )

    def means(self, counts: TransitionCounts) -> csr_array:
        """[S * A, S] shares of the pseudo-count, as a scipy.sparse CSR array of distributions."""
        from scipy.sparse import csr_array, eye_array

        size, actions = counts.states, counts.actions
        each = np.repeat(np.arange(size), actions)
        if not isinstance(self.over, Over):
            return guessed_rows(self.over, size, actions)
        if self.over is Over.GIVEN:
            raise InvalidModel("a prior that follows a guess needs the guess: over=transitions")
        if self.over is Over.ALL:
            if size * actions * size > LARGEST:
                raise InvalidModel(
                    "a prior over all states needs S * A * S entries, at most "
                    f"{LARGEST}; got {size * actions * size}: choose Over.SUCCESSORS"
                )
            return csr_array(np.full((size * actions, size), 1.0 / size))
        stay = csr_array(eye_array(size))
        if self.over is Over.STAY:
            return stay[each]
        # Distinct (state, next state), whatever the action.
        pairs = np.unique((counts.rows // actions) * size + counts.next_states)
        own, following = np.divmod(pairs, size)
        many = np.bincount(own, minlength=size)
        seen = csr_array((1.0 / many[own], (own, following)), shape=(size, size))
        lost = csr_array(stay.multiply((many == 0)[:, None]))
        return csr_array(seen + lost)[each]


def posterior(
    counts: TransitionCounts,
    prior: Prior,
    unvisited: Unvisited,
    absorbing: np.ndarray,
    available: np.ndarray | None = None,
) -> tuple[csr_array, np.ndarray]:
    """([S * A, S] estimated transitions as CSR, [S, A] observed steps and pseudo-count of a row).

    Args:
        counts: what was seen.
        prior: the pseudo-counts.
        unvisited: how rows that were never seen are filled.
        absorbing: [S] bool, states known to be left by nothing. Their rows stay for certain, with
            infinitely many steps behind them.
        available: [S, A] bool, which pairs there are; rows of others are empty, for certain. None:
            all of them.
    """
    from scipy.sparse import csr_array, diags_array, eye_array

    size, actions = counts.states, counts.actions
    visits = counts.visits.ravel()
    lost = np.zeros(size * actions, bool) if available is None else ~available.ravel()
    certain = np.repeat(absorbing, actions) | lost
    empty = (visits == 0) & ~certain
    if unvisited is Unvisited.REFUSE and empty.any():
        state, action = divmod(int(np.argmax(empty)), actions)
        raise InvalidModel(
            f"every action must have been seen in every state; {int(empty.sum())} of "
            f"{size * actions} pairs were not, the first (state {state}, action {action})"
        )
    means = prior.means(counts)
    stay = csr_array(eye_array(size))[np.repeat(np.arange(size), actions)]
    still = certain | (empty if unvisited is Unvisited.STAY else np.zeros_like(empty))
    # A row without data and without a pseudo-count still needs a mean: where a step would lead.
    weight = np.where(empty & (prior.strength == 0), 1.0, prior.strength)
    total = np.where(still, 1.0, np.where(empty, weight, visits + prior.strength))
    mixed = diags_array(1.0 / total) @ (
        diags_array(np.where(still, 0.0, 1.0)) @ counts.matrix
        + diags_array(np.where(still, 0.0, weight)) @ means
        + diags_array(still.astype(np.float64)) @ stay
    )
    mixed = csr_array(mixed if available is None else diags_array(1.0 - lost) @ mixed)
    mixed.eliminate_zeros()
    behind = np.where(certain, np.inf, visits + prior.strength)
    return mixed, behind.reshape(size, actions)


def _one_of(kind: type[Choice], given: object, name: str) -> Choice:
    try:
        return kind(given)
    except ValueError:
        words = ", ".join(repr(member.value) for member in kind if member is not Over.GIVEN)
        raise InvalidModel(f"{name} must be one of {words}; got {given!r:.60}") from None


def unvisited_rule(given: Unvisited | str) -> Unvisited:
    """The rule of that name, or as it is given."""
    return _one_of(Unvisited, given, "unvisited")


def group_sums(
    weights: np.ndarray | None, places: np.ndarray, offsets: np.ndarray, size: int
) -> np.ndarray | csr_matrix:
    """[G, n] sums of the rows' weights [N] at their places [N], by group; sparse if large.

    Args:
        weights: of the rows; None where each counts 1.
        places: from 0 to n - 1.
        offsets: [G + 1] group g holds the rows offsets[g] to offsets[g + 1], at least one.
        size: n.
    """
    many = len(offsets) - 1
    if many * size > DENSE_GROUPS:
        from scipy.sparse import csr_matrix

        weights = np.ones(len(places)) if weights is None else weights
        return csr_matrix((weights, places, offsets), shape=(many, size))
    index = np.zeros(len(places), np.int64)
    index[offsets[1:-1]] = size
    np.cumsum(index, out=index)
    index += places
    sums = np.bincount(index, weights, minlength=many * size)
    return sums.reshape(many, size).astype(np.float64, copy=False)
