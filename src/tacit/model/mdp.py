"""The known world: states, actions, transitions, where it starts, and how it discounts.

Three ways to give the transitions (dense, scipy.sparse, successor lists) become one storage: padded
successor lists. Everything the algorithms ask of the dynamics is two linear maps, the expected next
value [S] -> [S, A] and its transpose, the inflow [S, A] -> [S].
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from tacit.engine.backends import row_blocks, side_by_side
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.model.arguments import distributions, numbers, read_only
from tacit.model.available import Sites, available_pairs
from tacit.model.counts import CountedSteps, count_steps, count_transitions, start_shares
from tacit.model.ends import check_ends_are_reached, shortest_walk
from tacit.model.estimation import estimated, start_of
from tacit.model.evidence import DynamicsEvidence
from tacit.model.pseudo_counts import Prior, Unvisited
from tacit.model.transitions import Successors, Transitions, shared_successors, successor_lists

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.data.demonstrations import Demonstrations


@dataclass(frozen=True, eq=False)
class MDP(Sites):
    """A Markov decision process without a reward: what everybody knows.

    Attributes:
        transitions: as given: dense [S, A, S], scipy.sparse [S * A, S] with row s * A + a,
            or `Successors`; held as `Successors` with sorted, merged next states.
        initial: [S] distribution of the first state.
        discount: weight of the next step against this one, in [0, 1); 1 where every state can
            reach an end.
        evidence: what the transitions rest on where they were estimated; None where they are known.
        available: [S, A] bool, which actions are there; all by default. A state without any ends
            the episode: what it pays it pays once, on arrival, and nothing comes after it. The
            transitions of pairs that are not there are ignored, and held empty.
    """

    transitions: Successors
    initial: np.ndarray
    discount: float
    evidence: DynamicsEvidence | None = None
    available: np.ndarray = field(default=None, kw_only=True)  # pyright: ignore[reportAssignmentType]

    if TYPE_CHECKING:

        def __init__(
            self,
            transitions: Transitions,
            initial: ArrayLike,
            discount: float,
            evidence: DynamicsEvidence | None = None,
            *,
            available: ArrayLike | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        discount = checked_discount(self.discount, ends=True)
        given = self.available
        successors = successor_lists(self.transitions, available=given)
        start = np.atleast_1d(numbers(self.initial, "initial"))
        initial = distributions(start, successors.states.shape[:1], "initial", "state")
        object.__setattr__(self, "transitions", successors)
        object.__setattr__(self, "initial", read_only(initial / initial.sum()))
        object.__setattr__(self, "discount", discount)
        shape = successors.states.shape[:2]
        object.__setattr__(self, "available", read_only(available_pairs(given, shape)))
        if self.evidence is not None and self.evidence.visits.shape != shape:
            raise InvalidModel(
                f"evidence must speak of S, A = {shape}; got {self.evidence.visits.shape}"
            )
        if discount == 1.0:
            check_ends_are_reached(self)

    @classmethod
    def from_transitions(
        cls,
        states: ArrayLike | Demonstrations,
        actions: ArrayLike | None = None,
        next_states: ArrayLike | None = None,
        *,
        discount: float,
        n_states: int | None = None,
        n_actions: int | None = None,
        initial: ArrayLike | None = None,
        prior: Prior | float | None = None,
        unvisited: Unvisited | str = Unvisited.PRIOR,
        absorbing: ArrayLike = (),
        available: ArrayLike | None = None,
    ) -> MDP:
        """An MDP estimated from what was seen; `evidence` says how much stands behind each row.

        Probabilities are the observed shares, with the pseudo-counts of the prior added. So
        is a pair of state and action that was never seen: by default every successor seen from its
        state is taken to be as likely. `mdp.evidence.sentences()` says all that was assumed.

        Args:
            states: [N] where each step began; or `Demonstrations`, and nothing for the next two.
                Their consecutive steps and final states are counted, and a state in which an
                episode ended, and nothing was done, is taken for an end.
            actions: [N] what was done there.
            next_states: [N] where it led.
            discount: of the model.
            n_states: S; None takes one more than the largest number seen.
            n_actions: A; None takes one more than the largest number seen.
            initial: [S] distribution of the first state, or its number; None counts the first
                states of the episodes that were seen from their start.
            prior: pseudo-counts added to the observed steps, as a `Prior` or a number; None
                adds one to every row, spread over the successors seen from its state.
            unvisited: pairs that were never seen follow the "prior", "stay", or "refuse" to go on.
            absorbing: states known to be left by nothing, where every action stays.
            available: [S, A] bool, which actions are there; all by default. A pair that was never
                seen is unknown, not unavailable.
        """
        sizes = {"n_states": n_states, "n_actions": n_actions}
        demonstrations = cast(
            "Demonstrations | None", states if hasattr(states, "offsets") else None
        )
        if demonstrations is None:
            rows = cast("tuple[ArrayLike, ArrayLike, ArrayLike]", (states, actions, next_states))
            steps = CountedSteps(count_transitions(*rows, **sizes))
        elif actions is not None or next_states is not None:
            raise InvalidDemonstrations("demonstrations hold their own actions and next states")
        else:
            steps = count_steps(demonstrations, **sizes)
        transitions, evidence, there = estimated(
            steps, prior=prior, unvisited=unvisited, absorbing=absorbing, available=available
        )
        if initial is None:
            start = start_shares(demonstrations, len(evidence.visits))
            evidence = replace(
                evidence, episodes=int((~demonstrations.partial).sum()) if demonstrations else 0
            )
        else:
            start = start_of(initial, len(evidence.visits))
        return cls(transitions, start, discount, evidence, available=there)

    @property
    def visits(self) -> np.ndarray | None:
        """[S, A] the observed steps behind estimated transitions; None where they are known."""
        return None if self.evidence is None else self.evidence.visits

    def __repr__(self) -> str:
        parts = [
            f"states={self.states}",
            f"actions={self.actions}",
            f"successors={self.transitions.states.shape[2]}",
            f"discount={self.discount:g}",
        ]
        if self.restricted:
            parts.append(f"available={int(self.available.sum())}/{self.available.size}")
            parts.append(f"ends={int(self.ends.sum())}")
        return f"MDP({', '.join(parts)})"

    def __getstate__(self) -> dict[str, object]:
        """Without the engine's own copy: JAX arrays lose half of their bits on the way."""
        return {name: part for name, part in self.__dict__.items() if name != "_backend"}

    def restricted_to(self, allowed: np.ndarray) -> MDP:
        """The model with these pairs [S, A] only; a state left without any keeps its own."""
        if allowed.shape != self.available.shape:
            known = f"{self.available.shape} states and actions, as the world has"
            raise InvalidModel(f"what is available must be of {known}; it is of {allowed.shape}")
        left = self.available & allowed
        available = np.where(left.any(axis=1, keepdims=True), left, self.available)
        return replace(self, available=available)

    @cached_property
    def horizon(self) -> float:
        """1 / (1 - discount); at discount 1, the states that the longest `walk` passes on average.

        The length of an episode, for scales and tolerances. At discount 1 it bounds nothing.
        """
        return 1.0 / (1.0 - self.discount) if self.discount < 1.0 else float(self.walk[1].max())

    @cached_property
    def leak(self) -> float:
        """1 - discount, by which residuals and rounding are divided; at discount 1, 1 / horizon."""
        return 1.0 - self.discount if self.discount < 1.0 else 1.0 / self.horizon

    @cached_property
    def walk(self) -> tuple[np.ndarray, np.ndarray]:
        """[S] actions of the shortest walk to an end, and [S] the states it passes on average.

        Of models in which every state can reach an end.
        """
        actions, lengths = shortest_walk(self)
        return read_only(actions), read_only(lengths)

    @property
    def limits(self) -> tuple[np.ndarray | None, np.ndarray | None, float | None]:
        """What an engine holds of the actions that are not there, and of the way to an end.

        [S, A] bool, None where all actions are there; [S, A] the shortest walk as a policy and the
        states that it passes on average, at most, None below discount 1.
        """
        missing = ~self.choices if self.restricted else None
        if self.discount < 1.0:
            return missing, None, None
        return missing, np.eye(self.actions)[self.walk[0]], self.horizon

    @cached_property
    def packed(self) -> Successors:
        """The same transitions, with the next states shared between actions where that is smaller.

        Its `states` are [S, 1, W] or [S, A, W], its `probabilities` [S, A, W]. On a grid all
        actions lead to the same few neighbours: one gather then serves every action, and a
        policy's chain has W entries a row instead of A * B.
        """
        return shared_successors(self.transitions)

    def expected_next(self, values: np.ndarray) -> np.ndarray:
        """[S, A] expected value of the next state, for `values` [S]."""
        if self._matrix is not None:
            return (self._matrix @ values).reshape(self.states, self.actions)
        later = np.empty((self.states, self.actions))

        def some(rows: slice) -> None:
            later[rows] = self.expected_next_of(rows, values)

        side_by_side(some, row_blocks(self.states))
        return later

    def expected_next_of(self, rows: slice | np.ndarray, values: np.ndarray) -> np.ndarray:
        """[R, A] the same for some of the states, those of `rows`."""
        if self._matrix is not None:
            return self.expected_next(values)[rows]
        chances = self.packed.probabilities[rows]
        # One gather serves all actions where they share their next states.
        gathered = np.broadcast_to(values[self.packed.states[rows]], chances.shape)
        return np.einsum("saw,saw->sa", chances, gathered)

    def inflow(self, table: np.ndarray) -> np.ndarray:
        """[S] what flows into each state when `table` [S, A] flows out.

        The transpose of `expected_next`.
        """
        if self._matrix is not None:
            return table.ravel() @ self._matrix
        reached = self.packed.states
        weights = self.packed_weights(table)
        return np.bincount(reached.ravel(), weights=weights.ravel(), minlength=self.states)

    def packed_weights(self, table: np.ndarray) -> np.ndarray:
        """The weights of the packed next states when `table` [S, A] weighs the actions.

        [S, W] where actions share their next states, [S, A, W] where they do not.
        """
        chances = self.packed.probabilities
        if self.packed.states.shape[1] > 1:
            return table[:, :, None] * chances
        weights = np.empty((self.states, chances.shape[2]))

        def some(rows: slice) -> None:
            np.einsum("sa,saw->sw", table[rows], chances[rows], out=weights[rows])

        side_by_side(some, row_blocks(self.states))
        return weights

    @cached_property
    def _matrix(self) -> np.ndarray | None:
        """[S * A, S] dense transitions of a tiny model: one product costs less than one gather."""
        tiny = self.states * self.actions * self.states <= 20_000
        return self.dense().reshape(-1, self.states) if tiny else None

    @cached_property
    def absorbing(self) -> np.ndarray:
        """[S] bool, the states that have actions, none of which leaves them."""
        # No tolerance: a state left once in a million steps is left.
        own = self.transitions.states == np.arange(self.states)[:, None, None]
        stays = (own | (self.transitions.probabilities == 0)).all(axis=(1, 2))
        return read_only(stays & ~self.ends)

    def dense(self) -> np.ndarray:
        """[S, A, S] the transitions as one dense array."""
        table = np.zeros((self.states, self.actions, self.states))
        s, a = np.ogrid[: self.states, : self.actions]
        s, a = s[:, :, None], a[:, :, None]
        np.add.at(table, (s, a, self.transitions.states), self.transitions.probabilities)
        return table

    def sparse(self) -> csr_array:
        """[S * A, S] the transitions as a scipy.sparse CSR array, row s * A + a."""
        from scipy.sparse import csr_array

        shape = self.transitions.states.shape
        rows = np.repeat(np.arange(shape[0] * shape[1]), shape[2])
        keep = self.transitions.probabilities.ravel() > 0
        entries = (rows[keep], self.transitions.states.ravel()[keep])
        return csr_array(
            (self.transitions.probabilities.ravel()[keep], entries),
            shape=(shape[0] * shape[1], shape[0]),
        )


def checked_discount(discount: float, *, ends: bool = False) -> float:
    """The discount as a number in [0, 1); in [0, 1] where the model may have ends."""
    allowed = "in [0, 1), or 1 where every state can reach an end" if ends else "in [0, 1)"
    try:
        number = float(discount)
    except (TypeError, ValueError):
        raise InvalidModel(f"discount must be a number {allowed}; got {discount!r}") from None
    if not 0.0 <= number <= 1.0 or (number == 1.0 and not ends):
        raise InvalidModel(f"discount must be {allowed}; got {number:g}")
    return number


def outside_visitation(mdp: MDP, visitation: np.ndarray) -> np.ndarray:
    """[S, A] the same visits, those of ends spread evenly over their rows."""
    if not mdp.restricted:  # ends have no action at all
        return visitation
    spread = np.array(visitation)
    spread[mdp.ends] = visitation[mdp.ends].sum(axis=1, keepdims=True) / mdp.actions
    return spread


def outside_policy(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """[S, A] the same policy, 0 in the rows of ends."""
    return np.where(mdp.ends[:, None], 0.0, policy) if mdp.restricted else policy


def inside_policy(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """[S, A] the same policy, with the one action 0 in the rows of ends."""
    if not mdp.restricted:  # ends have no action at all
        return policy
    inside = np.array(policy)
    inside[mdp.ends] = np.arange(mdp.actions) == 0
    return inside


def deterministic_chain(mdp: MDP, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[S, W] next states, ascending in every row, and [S, W] their probabilities."""
    packed = mdp.packed
    every = np.arange(mdp.states)
    lane = 0 if packed.states.shape[1] == 1 else actions
    return packed.states[every, lane], packed.probabilities[every, actions]
