"""Likelihoods of sets of forbidden candidates where moves are chance, or trajectories were cut off.

Each set is a world of its own, solved once.
"""

from __future__ import annotations

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.estimators.forbidden.selection import ForwardSelection
from tacit.estimators.forbidden.walks import removed_pairs


class Steps:
    """Log-likelihoods of sets of candidates, of the steps that were taken.

    Attributes:
        parts: the pairs that each candidate takes away.
        found: those met so far, by the bytes of the set.
    """

    def __init__(self, search: ForwardSelection, demonstrations: Demonstrations) -> None:
        self._search = search
        self._counts = demonstrations.counts(search.mdp)
        self.parts = [removed_pairs(search.mdp, candidate) for candidate in search.candidates]
        self.found: dict[bytes, float] = {}

    def __call__(self, chosen: np.ndarray) -> float:
        """The log-likelihood of a set [K] bool; -inf where demonstrations contradict it."""
        key = np.packbits(chosen).tobytes()
        if key not in self.found:
            search, numbers = self._search, np.flatnonzero(chosen).tolist()
            own, total = search.closure(numbers), -np.inf
            if not own.broken_by(search.seen.taken, search.seen.visited)[0]:
                policy = search.policy(search.narrowed(own))
                seen = self._counts > 0
                total = float(self._counts[seen] @ np.log(np.maximum(policy[seen], 1e-300)))
            self.found[key] = total
        return self.found[key]

    def changes(self, chosen: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """[asked] change of the log-likelihood by flipping each candidate of this set [K] bool."""
        here = self(chosen)
        return np.array([self(flipped(chosen, k)) - here for k in asked.tolist()])

    def idle(self, chosen: np.ndarray) -> np.ndarray:
        """[K] bool, whether the others of the set take away all that a candidate would."""
        cover = np.zeros(self._search.mdp.available.size, int)
        for k in np.flatnonzero(chosen).tolist():
            cover[self.parts[k]] += 1
        pairs = zip(self.parts, chosen.tolist(), strict=True)
        return np.array([bool((cover[part] > inside).all()) for part, inside in pairs])


def flipped(chosen: np.ndarray, k: int) -> np.ndarray:
    """[K] the set, candidate k forbidden or allowed instead."""
    other = chosen.copy()
    other[k] = not other[k]
    return other
