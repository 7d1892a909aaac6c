"""Moves and starts that were seen although the world never has them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.demonstrations import Demonstrations
from tacit.mdp import MDP

# Steps looked at in one go: the successor lists of all would not fit for millions.
AT_ONCE = 1_000_000


@dataclass(frozen=True)
class Moves:
    """What a world cannot have done; `a + b` is that of both, the episodes of `b` numbered on.

    Attributes:
        episodes: how many were looked at.
        impossible: observed moves of probability 0.
        move: (episode, step, state, action, next state) of the first of them, or None.
        misplaced: trajectories that begin where the world never starts.
        start: (episode, state) of the first of them, or None.
    """

    episodes: int
    impossible: int = 0
    move: tuple[int, int, int, int, int] | None = None
    misplaced: int = 0
    start: tuple[int, int] | None = None

    @classmethod
    def of(cls, mdp: MDP, demonstrations: Demonstrations) -> Moves:
        """The impossible moves and misplaced starts of demonstrations in this world."""
        states, actions = demonstrations.states, demonstrations.actions
        step = demonstrations.step
        inside = np.flatnonzero(step[1:] > 0)  # rows followed by a row of the same episode
        bad, first = 0, -1
        for rows in np.array_split(inside, max(1, len(inside) // AT_ONCE)):
            lists = mdp.transitions.states[states[rows], actions[rows]]
            chances = mdp.transitions.probabilities[states[rows], actions[rows]]
            met = ((lists == states[rows + 1][:, None]) & (chances > 0)).any(axis=1)
            if not met.all():
                first = int(rows[~met][0]) if first < 0 else first
                bad += int((~met).sum())
        move = None
        if bad:
            episode = int(np.searchsorted(demonstrations.offsets, first, side="right")) - 1
            here, after = int(states[first]), int(states[first + 1])
            move = (episode, int(step[first]), here, int(actions[first]), after)
        begins = states[demonstrations.offsets[:-1]]
        odd = np.flatnonzero((mdp.initial[begins] == 0) & ~demonstrations.partial)
        start = (int(odd[0]), int(begins[odd[0]])) if len(odd) else None
        return cls(demonstrations.episodes, bad, move, len(odd), start)

    def __add__(self, other: Moves) -> Moves:
        if not isinstance(other, Moves):
            return NotImplemented
        move, start = self.move, self.start
        if move is None and other.move is not None:
            move = (other.move[0] + self.episodes, *other.move[1:])
        if start is None and other.start is not None:
            start = (other.start[0] + self.episodes, other.start[1])
        return Moves(
            self.episodes + other.episodes,
            self.impossible + other.impossible,
            move,
            self.misplaced + other.misplaced,
            start,
        )
