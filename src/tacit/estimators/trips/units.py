"""What of trips is of one kind: whole trips, or single steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tacit.estimators.trips.chain import TripsChain
from tacit.estimators.trips.flows import Sums, products


@dataclass(frozen=True, eq=False)
class TripUnits:
    """Units of trips of unknown kinds, as `KindsChain` asks for them.

    Attributes:
        whole: the likelihood of all trips.
        number: [N] unit of each step, from 0.
    """

    whole: TripsChain
    number: np.ndarray

    cells = False

    @classmethod
    def trips(cls, whole: TripsChain) -> TripUnits:
        """Whole trips, in the order of the demonstrations."""
        return cls(whole, np.unique(whole.journeys.trips, return_inverse=True)[1])

    @classmethod
    def steps(cls, whole: TripsChain) -> TripUnits:
        """Single steps."""
        return cls(whole, np.arange(len(whole.journeys.trips)))

    def __len__(self) -> int:
        return int(self.number.max()) + 1

    @cached_property
    def repeats(self) -> np.ndarray:
        """[U] ones: no unit stands for several."""
        return np.ones(len(self))

    @cached_property
    def lengths(self) -> np.ndarray:
        """[U] steps of each unit."""
        return np.bincount(self.number).astype(float)

    @cached_property
    def idle(self) -> np.ndarray:
        """[U] minus the logarithms of the chances of each unit if every action is as likely."""
        return np.bincount(self.number, np.log(self.whole.journeys.choices.sum(axis=1)))

    def point(self, x: np.ndarray, near: Sums, precision: float) -> Sums:
        """Where a kind with parameters x [D] is, with the policy at every step."""
        return self.whole.sums(x, detailed=True)

    def losses(self, sums: Sums) -> np.ndarray:
        """[U] minus the logarithms of the chances of each unit."""
        done = self.whole.journeys.actions[sums.rows]
        chances = np.maximum(sums.policy[np.arange(len(done)), done], np.finfo(float).tiny)
        return np.bincount(self.number[sums.rows], -np.log(chances), len(self))

    def scores(self, sums: Sums) -> np.ndarray:
        """[U, D] of each unit."""
        number = self.number[sums.rows]
        return np.stack([np.bincount(number, one, len(self)) for one in sums.scores.T], axis=1)

    def weighted(
        self, points: Sequence[Sums], membership: np.ndarray, precision: float
    ) -> tuple[tuple[TripsChain, ...], tuple[Sums, ...]]:
        """Every kind's own likelihood, units weighted by their chances [T, U], and its sums.

        The information of the steps stands in the place of the curvature: it needs no flows that
        would begin and end at every step of unknown kind.
        """
        pairs = zip(points, membership, strict=True)
        return (self.whole,) * len(points), tuple(self._told(*pair) for pair in pairs)

    def _told(self, sums: Sums, chances: np.ndarray) -> Sums:
        weights = chances[self.number[sums.rows]]
        scores = np.moveaxis(sums.advantages, 2, 0)
        fisher = products(scores, weights[:, None] * sums.policy)
        slope = -weights @ sums.scores
        return sums._replace(gradient=slope, curvature=fisher, fisher=fisher)
