"""What is not there any more where something is taken out of a world.

What leads into it for certain or into a dead end is gone, too: `close` finds all of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.model.mdp import MDP


@dataclass(frozen=True, eq=False)
class Closure:
    """What is not there any more in each of K worlds without some removals.

    Attributes:
        removed: [S * A, K] bool, available pairs that are gone: forbidden, or such that they may
            lead into a dead state.
        dead: [S, K] bool, forbidden states, and states in which nothing is left to be done (at
            discount 1: from which no end can be reached any more). They keep their actions: nobody
            comes there.
    """

    removed: np.ndarray
    dead: np.ndarray

    def broken_by(self, taken: np.ndarray, visited: np.ndarray) -> np.ndarray:
        """[K] bool, whether pairs taken [S * A] are removed, or states visited [S] dead."""
        odd = np.any(self.removed & taken[:, None], axis=0)
        return np.asarray(odd | np.any(self.dead & visited[:, None], axis=0))

    def within(self, other: Closure) -> np.ndarray:
        """[K] bool, whether all that is gone here is gone in the other's only world, too.

        Pairs of states that are dead there are gone with them.
        """
        gone = other.removed | np.repeat(other.dead, len(self.removed) // len(self.dead), axis=0)
        pairs = np.any(self.removed & ~gone, axis=0)
        return np.asarray(~(pairs | np.any(self.dead & ~other.dead, axis=0)))

    def one(self, k: int) -> Closure:
        """That of world k alone."""
        return Closure(self.removed[:, [k]], self.dead[:, [k]])


class Removal(Protocol):
    """Something that may be taken out of a world."""

    @property
    def pairs(self) -> np.ndarray:
        """[P] pairs s * A + a that are not to be taken."""
        ...

    @property
    def states(self) -> np.ndarray:
        """[Q] states that are not to be entered."""
        ...


def close(mdp: MDP, sets: Sequence[Sequence[Removal]]) -> Closure:
    """The `Closure` of K worlds, each without all of these removals."""
    allowed = np.repeat(mdp.available.reshape(-1, 1), len(sets), axis=1)
    viable = np.ones((mdp.states, len(sets)), bool)
    for k, chosen in enumerate(sets):
        for one in chosen:
            allowed[one.pairs, k] = False
            viable[one.states, k] = False
    moves = mdp.sparse()
    shape = (mdp.states, mdp.actions, len(sets))
    while True:
        left = allowed & ~_some(moves, ~viable)
        going = left.reshape(shape).any(axis=1)
        if mdp.discount == 1.0:
            going = _reaching(moves, left, mdp.ends, shape)
        after = viable & (mdp.ends[:, None] | going)
        if (after == viable).all():
            break
        viable = after
    there = np.repeat(viable, mdp.actions, axis=0) & mdp.available.reshape(-1, 1)
    return Closure(there & ~left, ~viable)


def _some(moves: csr_array, states: np.ndarray) -> np.ndarray:
    """[S * A, K] bool, the pairs that may lead into some of the states [S, K]."""
    return (moves @ states.astype(np.float64)) > 0


def _reaching(
    moves: csr_array, left: np.ndarray, ends: np.ndarray, shape: tuple[int, int, int]
) -> np.ndarray:
    """[S, K] bool, whether an end can be reached by the pairs that are left [S * A, K]."""
    reach = np.repeat(ends[:, None], shape[2], axis=1)
    while True:
        more = reach | (left & _some(moves, reach)).reshape(shape).any(axis=1)
        if (more == reach).all():
            return reach
        reach = more
