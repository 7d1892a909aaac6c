"""Pseudo-counts: with observed transitions they make estimated ones."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from tacit.errors import InvalidModel
from tacit.model.arguments import number

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.model.objective import SparseTable

Choice = TypeVar("Choice", bound=Enum)

# Most entries [S, A, S] of a prior that reaches all states: 400 MB of probabilities and numbers.
LARGEST = 30_000_000


class Over(Enum):
    """Where the pseudo-counts of a row go."""

    SUCCESSORS = "successors"
    ALL = "all"
    STAY = "stay"


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
            `STAY`.
    """

    strength: float = 1.0
    over: Over = Over.SUCCESSORS

    if TYPE_CHECKING:

        def __init__(self, strength: float = 1.0, over: Over | str = Over.SUCCESSORS) -> None: ...

    def __post_init__(self) -> None:
        wanted = "a number of steps, 0 or more"
        strength = number(self.strength, "a prior's strength", wanted, lambda n: 0.0 <= n < np.inf)
        object.__setattr__(self, "strength", strength)
        object.__setattr__(self, "over", _one_of(Over, self.over, "a prior's `over`"))

    @property
    def sentence(self) -> str:
        """What was assumed, for people."""
        if self.strength == 0:
            return "No pseudo-count was added: every observed share was taken as it is."
        places = {
            Over.SUCCESSORS: "spread evenly over the successors seen from that state",
            Over.ALL: "spread evenly over all states",
            Over.STAY: "all of it on the state itself",
        }
        return (
            f"A pseudo-count of {self.strength:g} was added to each pair of state and action, "
            f"{places[self.over]}."
        )

    def means(self, counts: SparseTable) -> csr_array:
        """[S * A, S] shares of the pseudo-count beside counts [S * A, S], distributions."""
        from scipy.sparse import csr_array, eye_array

        pairs, size = counts.shape
        actions = pairs // size
        state_of_row = np.repeat(np.arange(size), actions)
        if self.over is Over.ALL:
            if size * actions * size > LARGEST:
                raise InvalidModel(
                    "a prior over all states needs S * A * S entries, at most "
                    f"{LARGEST}; got {size * actions * size}: choose Over.SUCCESSORS"
                )
            return csr_array(np.full((size * actions, size), 1.0 / size))
        stay = csr_array(eye_array(size))
        if self.over is Over.STAY:
            return stay[state_of_row]
        # Distinct (state, next state), whatever the action.
        rows, next_states = counts.tocoo().coords
        states, next_states = np.unique(np.stack([rows // actions, next_states]), axis=1)
        successors = np.bincount(states, minlength=size)
        seen = csr_array((1.0 / successors[states], (states, next_states)), shape=(size, size))
        never_left = csr_array(stay.multiply((successors == 0)[:, None]))
        return csr_array(seen + never_left)[state_of_row]


def posterior(
    counts: SparseTable,
    prior: Prior,
    unvisited: Unvisited,
    absorbing: np.ndarray,
    available: np.ndarray | None = None,
) -> tuple[csr_array, np.ndarray]:
    """([S * A, S] estimated transitions as CSR, [S, A] observed steps and pseudo-count of a row).

    Args:
        counts: [S * A, S] what was seen.
        prior: the pseudo-counts.
        unvisited: how rows that were never seen are filled.
        absorbing: [S] bool, states known to be left by nothing. Their rows stay for certain, with
            infinitely many steps behind them.
        available: [S, A] bool, which pairs there are; rows of others are empty, for certain. None:
            all of them.
    """
    from scipy.sparse import csr_array, diags_array, eye_array

    pairs, size = counts.shape
    actions = pairs // size
    visits = counts.sum(axis=1)
    unavailable = np.zeros(pairs, bool) if available is None else ~available.ravel()
    certain = np.repeat(absorbing, actions) | unavailable
    unseen = (visits == 0) & ~certain
    if unvisited is Unvisited.REFUSE and unseen.any():
        state, action = divmod(int(np.argmax(unseen)), actions)
        raise InvalidModel(
            f"every action must have been seen in every state; {int(unseen.sum())} of "
            f"{pairs} pairs were not, the first (state {state}, action {action})"
        )
    means = prior.means(counts)
    stay = csr_array(eye_array(size))[np.repeat(np.arange(size), actions)]
    stays = certain | (unseen if unvisited is Unvisited.STAY else np.zeros_like(unseen))
    # A row without data and without a pseudo-count still needs a mean: where a step would lead.
    pseudo_count = np.where(unseen & (prior.strength == 0), 1.0, prior.strength)
    total = np.where(stays, 1.0, np.where(unseen, pseudo_count, visits + prior.strength))
    shares = diags_array(1.0 / total) @ (
        diags_array(np.where(stays, 0.0, 1.0)) @ counts
        + diags_array(np.where(stays, 0.0, pseudo_count)) @ means
        + diags_array(stays.astype(np.float64)) @ stay
    )
    shares = csr_array(shares if available is None else diags_array(1.0 - unavailable) @ shares)
    shares.eliminate_zeros()
    concentration = np.where(certain, np.inf, visits + prior.strength)
    return shares, concentration.reshape(size, actions)


def _one_of(kind: type[Choice], given: object, name: str) -> Choice:
    try:
        return kind(given)
    except ValueError:
        words = ", ".join(repr(member.value) for member in kind)
        raise InvalidModel(f"{name} must be one of {words}; got {given!r:.60}") from None


def unvisited_rule(given: Unvisited | str) -> Unvisited:
    """The rule of that name, or as it is given."""
    return _one_of(Unvisited, given, "unvisited")
