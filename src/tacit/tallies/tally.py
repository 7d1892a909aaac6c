"""The sums of one reading of demonstrations: all that the estimators fit.

Of each episode nothing is kept but its part of the sums, so their size is that of the world, not of
the data. The sums of parts add up to those of the whole: `a + b`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tacit.demonstrations import Demonstrations
from tacit.errors import InvalidDemonstrations
from tacit.mdp import MDP
from tacit.transitions import read_only


@dataclass(frozen=True)
class Horizons:
    """How many discounted steps trajectories cover, each at most 1 / (1 - discount).

    Attributes:
        number: E, how many trajectories there are.
        mean: of the steps covered.
        square: mean of their squares.
        longest: the most that one covers.
    """

    number: int
    mean: float
    square: float
    longest: float


@dataclass(frozen=True, eq=False)
class Tally:
    """What demonstrations add up to in a world; `a + b` is the tally of both.

    A trajectory is an episode that begins at the start: a partial one is none. Where a trajectory
    was cut off, what is missing depends on the features of its last known state, so those sums are
    kept by that state.

    Attributes:
        counts: [S, A] how often each action was taken in each state, by all episodes.
        discounted: [S, A] discounted visits, summed over trajectories.
        starts: [S] how many trajectories begin in each state.
        cut: [S] discounted steps after the last one seen, summed over the trajectories that have
            their last known state there.
        squares: [S] squares of the discounted steps seen, likewise.
        longest: [S] most discounted steps seen, likewise; 0 where there is no trajectory.
        ends: [S] how many trajectories those are.
        discount: of the sums.
        episodes: E, how many episodes of either kind there are.
    """

    counts: np.ndarray
    discounted: np.ndarray
    starts: np.ndarray
    cut: np.ndarray
    squares: np.ndarray
    longest: np.ndarray
    ends: np.ndarray
    discount: float
    episodes: int

    def __post_init__(self) -> None:
        for field in fields(self):
            part = getattr(self, field.name)
            if isinstance(part, np.ndarray):
                read_only(part)

    @classmethod
    def of(cls, mdp: MDP, demonstrations: Demonstrations) -> Tally:
        """The tally of demonstrations in this world."""
        counts = demonstrations.counts(mdp)
        many = demonstrations.episodes
        partial = demonstrations.partial
        if partial.all():
            none = np.zeros(mdp.states)
            empty = np.zeros_like(counts)
            return cls(counts, empty, none, none, none, none, none, mdp.discount, many)
        whole = demonstrations.select(~partial) if partial.any() else demonstrations
        powers = mdp.discount ** np.arange(int(whole.lengths.max()) + 1)
        index = whole.states.astype(np.int64) * mdp.actions + whole.actions
        size = mdp.states * mdp.actions
        visits = np.bincount(index, weights=powers[whole.step], minlength=size)
        final = last_states(whole)
        rest = powers[whole.lengths] / (1.0 - mdp.discount)
        seen = 1.0 / (1.0 - mdp.discount) - rest
        longest = np.zeros(mdp.states)
        np.maximum.at(longest, final, seen)
        return cls(
            counts,
            visits.reshape(counts.shape),
            _binned(mdp, whole.states[whole.offsets[:-1]]),
            _binned(mdp, final, rest),
            _binned(mdp, final, seen**2),
            longest,
            _binned(mdp, final),
            mdp.discount,
            many,
        )

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        if (self.counts.shape, self.discount) != (other.counts.shape, other.discount):
            raise InvalidDemonstrations(
                "tallies that are merged must be of the same world; got S, A, discount = "
                f"{(*self.counts.shape, self.discount)} and {(*other.counts.shape, other.discount)}"
            )
        return Tally(
            self.counts + other.counts,
            self.discounted + other.discounted,
            self.starts + other.starts,
            self.cut + other.cut,
            self.squares + other.squares,
            np.maximum(self.longest, other.longest),
            self.ends + other.ends,
            self.discount,
            self.episodes + other.episodes,
        )

    @property
    def steps(self) -> int:
        """N, the number of observed steps."""
        return int(self.counts.sum())

    @property
    def trajectories(self) -> int:
        """How many episodes begin at the start."""
        return int(self.starts.sum())

    def visitation(self, known: np.ndarray) -> np.ndarray:
        """[S, A] mean discounted visitation of the trajectories.

        `known` [S] bool says where the rest of a trajectory is known: it stays, whatever it does.
        """
        rest = np.where(known, self.cut, 0.0)[:, None] / self.counts.shape[1]
        return (self.discounted + rest) / self.trajectories

    def missing(self, known: np.ndarray) -> float:
        """Discounted steps that the mean trajectory lacks because it was cut off."""
        return float(self.cut[~known].sum() / self.trajectories)

    def horizons(self, known: np.ndarray) -> Horizons:
        """How many discounted steps the trajectories cover, with the rest where it is known."""
        full = 1.0 / (1.0 - self.discount)
        squares = np.where(known, full**2 * self.ends, self.squares)
        longest = np.where(known & (self.ends > 0), full, self.longest)
        number = self.trajectories
        return Horizons(
            number,
            full - self.missing(known),
            float(squares.sum() / number),
            float(longest.max()),
        )

    def check(self, mdp: MDP) -> None:
        """Raises `InvalidDemonstrations` unless these are sums in this world."""
        own = (*self.counts.shape, self.discount)
        if own != (mdp.states, mdp.actions, mdp.discount):
            raise InvalidDemonstrations(
                "a tally must be of the world it is used with; it has S, A, discount = "
                f"{own}, the world {(mdp.states, mdp.actions, mdp.discount)}"
            )

    def __repr__(self) -> str:
        return f"Tally(episodes={self.episodes}, steps={self.steps})"


def last_states(demonstrations: Demonstrations) -> np.ndarray:
    """[E] the last known state of every episode."""
    last = demonstrations.states[demonstrations.offsets[1:] - 1]
    return np.where(demonstrations.final_states < 0, last, demonstrations.final_states)


def _binned(mdp: MDP, states: np.ndarray, weights: Any = None) -> np.ndarray:
    """[S] how many of these states each one is, or the sum of their weights."""
    return np.bincount(states, weights=weights, minlength=mdp.states).astype(np.float64)
