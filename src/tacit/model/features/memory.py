"""States that remember one step: where one was before, or what was done last.

A reward of (place, previous place) has no effect of its own: it is paid on arrival, whatever is
done. History matters as a feature of state and action, such as the price of turning back, and
the state must then hold what the feature asks for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.files.wording import natural_order
from tacit.model.features.maps import Map
from tacit.model.mdp import MDP
from tacit.model.transitions import Successors

if TYPE_CHECKING:
    from tacit.data.demonstrations import Demonstrations

PLACE, ACTION = "state", "action"
NOTHING = -1  # what is remembered where a trajectory begins


@dataclass(frozen=True, eq=False, kw_only=True)
class Memory:
    """A world whose states are pairs of a state and what came before it.

    Attributes:
        mdp: the world of pairs.
        now: [P] the state of each pair.
        before: [P] the state before it or the action that led there; -1 where it is the first.
        of: "state" or "action": what is remembered.
        source: the world that has no memory.
    """

    mdp: MDP
    now: np.ndarray
    before: np.ndarray
    of: str
    source: MDP

    @classmethod
    def of_last(cls, mdp: MDP, what: str = PLACE) -> Memory:
        """The world in which the last state, or the last action, is remembered.

        Args:
            mdp: the world.
            what: "state" or "action".
        """
        if what not in (PLACE, ACTION):
            raise InvalidModel(f"what is remembered must be 'state' or 'action'; got {what!r:.60}")
        moves = mdp.packed
        next_states, chances = np.asarray(moves.states), np.asarray(moves.probabilities)
        possible = (chances > 0.0) & mdp.available[:, :, None]
        states, actions, _ = np.nonzero(possible)
        remembered = states if what == PLACE else actions
        # A pair is coded as state * width + what is remembered + 1, which is 0 at the beginning.
        width = 1 + (mdp.states if what == PLACE else mdp.actions)
        first = np.flatnonzero(mdp.initial > 0.0) * width
        later = next_states[possible] * width + remembered + 1
        codes = np.unique(np.concatenate([first, later]))
        now, before = codes // width, codes % width - 1
        next_before = now[:, None] if what == PLACE else np.arange(mdp.actions)[None]
        next_codes = next_states[now] * width + (next_before + 1)[:, :, None]
        # Moves of chance 0 lead to pair 0: nobody goes there.
        next_pairs = np.searchsorted(codes, next_codes).clip(max=len(codes) - 1)
        next_pairs = np.where(chances[now] > 0.0, next_pairs, 0)
        world = MDP(
            Successors(next_pairs, chances[now]),
            np.where(before == NOTHING, mdp.initial[now], 0.0),
            mdp.discount,
            available=mdp.available[now],
        )
        return cls(mdp=world, now=now, before=before, of=what, source=mdp)

    def demonstrations(self, seen: Demonstrations) -> Demonstrations:
        """The demonstrations in the world of pairs.

        The first step of a partial episode is left out: what came before it was not seen.
        """
        seen = seen.select(np.flatnonzero((seen.lengths > 1) | ~seen.partial))
        is_first = np.isin(np.arange(seen.steps), seen.offsets[:-1])
        remembered = seen.states if self.of == PLACE else seen.actions
        before = np.where(is_first, NOTHING, np.roll(remembered, 1))
        is_known = ~(is_first & np.repeat(seen.partial, seen.lengths))
        has_final = seen.final_states >= 0
        final_pairs = np.full(seen.episodes, NOTHING)
        final_pairs[has_final] = self._pairs(
            seen.final_states[has_final], remembered[seen.offsets[1:] - 1][has_final]
        )
        weights = seen.weights
        if weights is not None and len(weights) == seen.steps:
            weights = weights[is_known]
        return replace(
            seen,
            states=self._pairs(seen.states[is_known], before[is_known]),
            actions=seen.actions[is_known],
            offsets=np.concatenate([[0], np.cumsum(seen.lengths - seen.partial)]),
            weights=weights,
            final_states=final_pairs,
        )

    def lifted(self, features: Map) -> Map:
        """[P, D] or [P, A, D] features of the states, in the world of pairs."""
        return Map(features.values[self.now], features.names)

    def turning_back(self, by: npt.ArrayLike | None = None, name: str = "turning back") -> Map:
        """[P, A, D] the chance that an action leads back to where one was.

        Args:
            by: [S] what kind of state one turns in, a column each; None for one column.
            name: of the feature.
        """
        if self.of != PLACE:
            raise InvalidModel("turning back is known where the last state is remembered")
        moves = self.source.packed
        back = np.asarray(moves.states)[self.now] == self.before[:, None, None]
        chances = (np.asarray(moves.probabilities)[self.now] * back).sum(axis=2)
        return self._by(chances, by, name)

    def repeating(self, by: npt.ArrayLike | None = None, name: str = "repeating") -> Map:
        """[P, A, D] 1 for the action that was done last; arguments as for `turning_back`."""
        if self.of != ACTION:
            raise InvalidModel("repeating is known where the last action is remembered")
        same = self.before[:, None] == np.arange(self.source.actions)
        return self._by(same.astype(float), by, name)

    def _pairs(self, now: np.ndarray, before: np.ndarray) -> np.ndarray:
        """[n] numbers of the pairs of states [n] and what came before them [n]."""
        width = 1 + int(max(self.source.states, self.source.actions))
        codes = self.now * width + self.before + 1
        wanted = now * width + before + 1
        pairs = np.searchsorted(codes, wanted).clip(max=len(codes) - 1)
        impossible = codes[pairs] != wanted
        if impossible.any():
            row = int(np.argmax(impossible))
            last = f"after {self.of} {before[row]}" if before[row] >= 0 else "at the beginning"
            raise InvalidDemonstrations(
                f"every step must be possible in the world; state {now[row]} {last} is not"
            )
        return pairs

    def _by(self, values: np.ndarray, by: npt.ArrayLike | None, name: str) -> Map:
        """The map of values [P, A], with a column for each level of `by` [S] that has any."""
        if by is None:
            return Map(values[:, :, None], name)
        labels = np.asarray(by)
        if labels.shape != (self.source.states,):
            raise InvalidModel(
                f"by must hold one label a state, [{self.source.states}]; got {labels.shape}"
            )
        texts = labels.astype(str)
        levels = [*natural_order(np.unique(texts).tolist())]
        columns = [values * (texts[self.now] == level)[:, None] for level in levels]
        used = [k for k, column in enumerate(columns) if column.any()]
        table = np.stack(columns, axis=2)[:, :, used]
        return Map(table, [f"{name}: {levels[k]}" for k in used])
