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
        following, chances = np.asarray(moves.states), np.asarray(moves.probabilities)
        left, done, _ = np.nonzero((chances > 0.0) & mdp.available[:, :, None])
        place = following[(chances > 0.0) & mdp.available[:, :, None]]
        kept = left if what == PLACE else done
        width = 1 + (mdp.states if what == PLACE else mdp.actions)
        starts = np.flatnonzero(mdp.initial > 0.0) * width
        codes = np.unique(np.concatenate([starts, place * width + kept + 1]))
        now, before = codes // width, codes % width - 1
        came = now[:, None] if what == PLACE else np.arange(mdp.actions)[None]
        ahead = following[now] * width + (came + 1)[:, :, None]
        # Pairs that cannot be stand for nothing: nobody goes there.
        at = np.searchsorted(codes, ahead).clip(max=len(codes) - 1)
        at = np.where(chances[now] > 0.0, at, 0)
        initial = np.where(before == NOTHING, mdp.initial[now], 0.0)
        world = MDP(
            Successors(at, chances[now]), initial, mdp.discount, available=mdp.available[now]
        )
        return cls(mdp=world, now=now, before=before, of=what, source=mdp)

    def demonstrations(self, seen: Demonstrations) -> Demonstrations:
        """The same steps in the world of pairs.

        Of episodes that were joined on the way the first step is left out: what came before it was
        not seen.
        """
        seen = seen.select(np.flatnonzero((seen.lengths > 1) | ~seen.partial))
        first = np.isin(np.arange(seen.steps), seen.offsets[:-1])
        kept = np.roll(seen.states if self.of == PLACE else seen.actions, 1)
        kept = np.where(first, NOTHING, kept)
        shut = first & np.repeat(seen.partial, seen.lengths)
        offsets = np.concatenate([[0], np.cumsum(seen.lengths - seen.partial)])
        last = seen.offsets[1:] - 1
        came = (seen.states if self.of == PLACE else seen.actions)[last]
        known = seen.final_states >= 0
        final = np.where(known, seen.final_states, 0)
        pairs = self._pairs(seen.states[~shut], kept[~shut])
        ends = np.full(len(final), NOTHING)
        ends[known] = self._pairs(final[known], came[known])
        about = {"states": pairs, "actions": seen.actions[~shut], "offsets": offsets}
        weights = seen.weights
        if weights is not None and len(weights) == seen.steps:
            about["weights"] = weights[~shut]
        return replace(seen, **about, final_states=ends)

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
        """[n] numbers of pairs."""
        width = 1 + int(max(self.source.states, self.source.actions))
        codes = self.now * width + self.before + 1
        asked = now * width + before + 1
        found = np.searchsorted(codes, asked).clip(max=len(codes) - 1)
        lost = np.flatnonzero(codes[found] != asked)
        if len(lost):
            one = lost[0]
            came = f"after {self.of} {before[one]}" if before[one] >= 0 else "at the beginning"
            raise InvalidDemonstrations(
                f"every step must be possible in the world; state {now[one]} {came} is not"
            )
        return found

    def _by(self, values: np.ndarray, by: npt.ArrayLike | None, name: str) -> Map:
        if by is None:
            return Map(values[:, :, None], name)
        labels = np.asarray(by)
        if labels.shape != (self.source.states,):
            raise InvalidModel(
                f"by must hold one label a state, [{self.source.states}]; got {labels.shape}"
            )
        texts = labels.astype(str)
        levels = [*natural_order(np.unique(texts).tolist())]
        each = np.stack([values * (texts[self.now] == level)[:, None] for level in levels], axis=2)
        told = np.asarray(each.any(axis=(0, 1)))
        names = [f"{name}: {level}" for level, one in zip(levels, told, strict=True) if one]
        return Map(each[:, :, told], names)
