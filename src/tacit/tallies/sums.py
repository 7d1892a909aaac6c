"""How sums over single episodes vary: a second reading, with tables, merged like the first.

Error bars take episodes as the independent units, so they need a sum for each of them. Those sums
live only while a part of the data is read: what stays is their scatter, [D] or [D, D].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.demonstrations import Demonstrations
from tacit.mdp import MDP
from tacit.objective import Features
from tacit.tallies.tally import last_states


@dataclass(frozen=True, eq=False)
class Scatter:
    """Products of sums over single episodes, added up; `a + b` is that of both.

    Attributes:
        episodes: how many there are.
        products: [D, D] sum over episodes of g g', with g [D] the sums of an episode.
    """

    episodes: int
    products: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray, demonstrations: Demonstrations) -> Scatter:
        """The scatter of the episodes' sums of tables [D, S, A]."""
        actions = scores.shape[2]
        index = demonstrations.states.astype(np.int64) * actions + demonstrations.actions
        starts = demonstrations.offsets[:-1]
        sums = np.empty((len(scores), len(starts)))
        for d, table in enumerate(scores):  # one at a time: [N, D] would not fit for millions
            sums[d] = np.add.reduceat(table.ravel()[index], starts)
        return cls(demonstrations.episodes, sums @ sums.T)

    def __add__(self, other: Scatter) -> Scatter:
        if not isinstance(other, Scatter):
            return NotImplemented
        return Scatter(self.episodes + other.episodes, self.products + other.products)


@dataclass(frozen=True, eq=False)
class Spread:
    """How discounted sums vary between trajectories; `a + b` is that of both.

    Attributes:
        number: how many trajectories there are.
        means: [D] of their sums.
        squares: [D] squared distances from the means, added up.
    """

    number: int
    means: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, mdp: MDP, features: Features, demonstrations: Demonstrations) -> Spread:
        """The spread of the discounted feature sums, of all maps one after the other."""
        maps = (features.reward, *features.costs)
        size = sum(table.shape[-1] for table in maps)
        partial = demonstrations.partial
        if partial.all():
            return cls(0, np.zeros(size), np.zeros(size))
        whole = demonstrations.select(~partial) if partial.any() else demonstrations
        powers = mdp.discount ** np.arange(int(whole.lengths.max()) + 1)
        weights = powers[whole.step]
        final = last_states(whole)
        rest = powers[whole.lengths] / (1.0 - mdp.discount)
        tail = np.where(known_rest(mdp, features)[final], rest, 0.0)
        index = whole.states.astype(np.int64) * mdp.actions + whole.actions
        means, squares = np.empty(size), np.empty(size)
        # One column at a time: [N, D] would not fit for millions.
        columns = (table[..., j] for table in maps for j in range(table.shape[-1]))
        for d, column in enumerate(columns):
            at_end = column if column.ndim == 1 else column.mean(axis=1)
            seen = np.ascontiguousarray(column).ravel()[whole.states if column.ndim == 1 else index]
            sums = np.add.reduceat(weights * seen, whole.offsets[:-1]) + tail * at_end[final]
            means[d] = sums.mean()
            squares[d] = ((sums - means[d]) ** 2).sum()
        return cls(whole.episodes, means, squares)

    def __add__(self, other: Spread) -> Spread:
        if not isinstance(other, Spread):
            return NotImplemented
        number = self.number + other.number
        if self.number == 0 or other.number == 0:
            return other if self.number == 0 else self
        # Chan, Golub and LeVeque (1979): no large numbers are subtracted from each other.
        apart, share = other.means - self.means, other.number / number
        return Spread(
            number,
            self.means + share * apart,
            self.squares + other.squares + self.number * share * apart**2,
        )

    @property
    def deviations(self) -> np.ndarray:
        """[D] standard deviations; NaN where there is a single trajectory."""
        if self.number < 2:
            return np.full(len(self.means), np.nan)
        return np.sqrt(self.squares / (self.number - 1))


def known_rest(mdp: MDP, features: Features) -> np.ndarray:
    """[S] bool, states that no action leaves, with features that no action changes."""
    known = mdp.absorbing
    for table in (features.reward, *features.costs):
        if table.ndim == 3:
            known = known & (np.ptp(table, axis=1) == 0).all(axis=1)
    return known
