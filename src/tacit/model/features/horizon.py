"""A world that ends after a known number of steps, laid out in time.

Its states are pairs of a time and a state: what is done, and what is paid, may depend on the time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.model.arguments import integer, numbers
from tacit.model.features.maps import Map
from tacit.model.mdp import MDP
from tacit.model.objective import Features
from tacit.model.transitions import Successors

if TYPE_CHECKING:
    from tacit.data.demonstrations import Demonstrations


@dataclass(frozen=True, eq=False, kw_only=True)
class Horizon:
    """A world of so many steps: its states are those of another one at each time.

    State s at time t is number t * S + s; at time T, after the last step, all states are ends,
    which pay nothing unless they are ends of the world itself.

    Attributes:
        mdp: the world laid out in time, of (T + 1) S states.
        steps: T, of an episode.
        source: the world, of S states.
    """

    mdp: MDP
    steps: int
    source: MDP

    @classmethod
    def of(cls, mdp: MDP, steps: int) -> Horizon:
        """The world in which every episode is over after so many steps.

        Args:
            mdp: the world; its discount may be 1, as every episode ends.
            steps: most steps of an episode.
        """
        count = integer(steps, "horizon")
        states = mdp.states
        moves = mdp.packed
        width = moves.states.shape[2]
        shape = (count, states, mdp.actions, width)
        shift = (np.arange(1, count + 1) * states)[:, None, None, None]
        following = np.broadcast_to(moves.states, shape) + shift
        chances = np.broadcast_to(moves.probabilities, shape)
        last = np.zeros((states, mdp.actions, width))
        lists = Successors(
            np.concatenate([following.reshape(-1, mdp.actions, width), last.astype(np.int64)]),
            np.concatenate([chances.reshape(-1, mdp.actions, width), last]),
        )
        there = np.concatenate([np.tile(mdp.available, (count, 1)), np.zeros_like(mdp.available)])
        initial = np.concatenate([mdp.initial, np.zeros(count * states)])
        world = MDP(lists, initial, mdp.discount, available=there)
        return cls(mdp=world, steps=count, source=mdp)

    def demonstrations(self, seen: Demonstrations) -> Demonstrations:
        """The same steps in the world laid out in time; each episode begins at time 0."""
        lengths = np.diff(seen.offsets)
        if (lengths > self.steps).any():
            e = int(np.argmax(lengths > self.steps))
            raise InvalidDemonstrations(
                f"episodes must have at most the {self.steps} steps of the horizon; episode {e} "
                f"has {lengths[e]}"
            )
        if seen.partial.any():
            raise InvalidDemonstrations(
                "with a horizon the time of every step must be known; "
                f"{int(seen.partial.sum())} episodes were joined on their way"
            )
        states = self.source.states
        time = np.arange(seen.steps) - np.repeat(seen.offsets[:-1], lengths)
        known = seen.final_states >= 0
        finals = np.where(known, seen.final_states + lengths * states, -1)
        over = seen.ended | (lengths == self.steps)
        return replace(
            seen, states=seen.states + time * states, final_states=finals, ended=over, layout=None
        )

    def lifted(self, features: Features) -> Features:
        """The same features at every time; after the last step they are 0 but at ends."""
        maps = [self._lifted(np.asarray(table)) for table in (features.reward, *features.costs)]
        return Features(maps[0], maps[1:], features.reward_names, features.cost_names)

    def placed(self, values: npt.ArrayLike, names: str | list[str]) -> Map:
        """Features that depend on the time, as a map of the world laid out in time.

        Args:
            values: [T, S, D] or [T, S, A, D]; after the last step they are 0.
            names: D of them.
        """
        table = numbers(values, "values")
        if table.ndim not in (3, 4) or table.shape[:2] != (self.steps, self.source.states):
            raise InvalidModel(
                f"values must be [{self.steps}, {self.source.states}, ...], a table for each "
                f"time; got {list(table.shape)}"
            )
        flat = table.reshape(-1, *table.shape[2:])
        after = np.zeros((self.source.states, *table.shape[2:]))
        return Map(np.concatenate([flat, after]), names)

    def by_time(self, table: npt.ArrayLike) -> np.ndarray:
        """[T, S, ...] of a table [(T + 1) S, ...], such as a policy, without what comes after."""
        values = np.asarray(table)
        return values.reshape(self.steps + 1, self.source.states, *values.shape[1:])[:-1]

    def _lifted(self, table: np.ndarray) -> np.ndarray:
        ends = self.source.ends.reshape(-1, *[1] * (table.ndim - 1))
        return np.concatenate([*[table] * self.steps, np.where(ends, table, 0.0)])
