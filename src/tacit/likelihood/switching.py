"""Units one after the other whose kind may switch: a hidden Markov chain of kinds.

The chance of a sequence of units is start' E_1 P_2 E_2 P_3 ... E_n 1, with start [K] the shares of
kinds at its first unit, P_u [K, K] the chances to switch on the way to unit u, and E_u what every
kind makes of it. One pass forward and one back give it and all its first derivatives (Baum and
others 1970). One more pass, of the derivatives of what went before, gives the second ones, which is
Louis' information of everything that is not known of the kinds.

A unit by itself is a sequence of one: nothing switches, and no table of switches is asked for.
Nothing is divided by a chance, so that they may be 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

# Logarithm of how much likelier than under all kinds a unit may be under one that nobody is of: of
# units that were never seen more would not be a finite number, nor tell anything.
UNSEEN = 300.0


class Mixing(NamedTuple):
    """What says who is of which kind: the parameters that are in nobody's utility."""

    start: np.ndarray  # [K] shares of the kinds at the first unit of a sequence
    switching: np.ndarray  # [G, K, K] chances to go on as a kind, from each, one a table

    @classmethod
    def sticky(cls, shares: np.ndarray, tables: int, dwell: float) -> Mixing:
        """Shares [K], and tables by which a kind goes on for so many units on average."""
        leaving = min(1.0 / dwell, 0.5)
        table = (1.0 - leaving) * np.eye(len(shares)) + leaving * shares
        return cls(shares, np.tile(table, (tables, 1, 1)))

    @classmethod
    def of(cls, flat: np.ndarray, kinds: int) -> Mixing:
        """That of the parameters, shares first."""
        return cls(flat[:kinds], flat[kinds:].reshape(-1, kinds, kinds))

    @property
    def flat(self) -> np.ndarray:
        """The parameters, shares first."""
        return np.concatenate([self.start, self.switching.ravel()])

    def ordered(self, order: np.ndarray) -> Mixing:
        """The same with its kinds in another order."""
        return Mixing(self.start[order], self.switching[:, order][:, :, order])


@dataclass(frozen=True, eq=False)
class Sequences:
    """Units in the order in which they were done.

    Attributes:
        offsets: [E + 1] where each sequence begins among the units, and where the last one ends.
        entered: [U] number of the table by which kinds switch on the way to a unit; of the first of
            a sequence it does not count.
        tables: G, how many of those there are; 0 where every unit is by itself.
    """

    offsets: np.ndarray
    entered: np.ndarray
    tables: int

    @classmethod
    def alone(cls, units: int) -> Sequences:
        """Every unit by itself."""
        return cls(np.arange(units + 1), np.zeros(units, np.intp), 0)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """[E] units of each."""
        return np.diff(self.offsets)

    @property
    def number(self) -> np.ndarray:
        """[U] the sequence of each unit."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def first(self) -> np.ndarray:
        """[E] the first unit of each."""
        return self.offsets[:-1]

    @cached_property
    def ranks(self) -> list[np.ndarray]:
        """The first unit of every sequence, then every second one, and so on; the longest first."""
        order = np.argsort(-self.lengths, kind="stable")
        going_on = np.searchsorted(-self.lengths[order], -np.arange(self.lengths.max(initial=0)))
        begun = self.first[order]
        return [begun[:many] + rank for rank, many in enumerate(going_on.tolist())]

    def select(self, which: np.ndarray) -> tuple[Sequences, np.ndarray]:
        """Those sequences [E] bool alone, and [U] bool, their units."""
        units = np.repeat(which, self.lengths)
        offsets = np.concatenate([[0], np.cumsum(self.lengths[which])])
        return Sequences(offsets, self.entered[units], self.tables), units

    def cut(self, length: int) -> np.ndarray:
        """[U] number of the piece of at most so many units that each is in."""
        rank = np.arange(self.offsets[-1]) - np.repeat(self.first, self.lengths)
        begins = rank % length == 0
        return np.cumsum(begins) - 1

    def sums(self, rows: np.ndarray) -> np.ndarray:
        """[E, n] sums of rows [U, n] over every sequence."""
        if len(self) == len(rows):
            return rows
        return np.add.reduceat(rows, self.first, axis=0)


class Passes(NamedTuple):
    """What one pass forward and one back say of the kinds of all units."""

    losses: np.ndarray  # [E] minus the logarithm of the chance of each sequence
    coming: np.ndarray  # [U, K] chance of each kind, by all units before
    likely: np.ndarray  # [U, K] by what factor the unit itself changes that
    known: np.ndarray  # [U, K] chance of each kind, by all units up to this one
    ratios: np.ndarray  # [U, K] by what factor this unit and all later ones change the chance

    @property
    def membership(self) -> np.ndarray:
        """[K, U] chances that a unit is of each kind, by all units of its sequence."""
        return (self.coming * self.ratios).T


def passes(sequences: Sequences, logs: np.ndarray, mixing: Mixing) -> Passes:
    """The `Passes` over units with logarithms of chances [U, K] under each kind."""
    coming, likely, known = (np.empty(logs.shape) for _ in range(3))
    scales = np.empty(len(logs))
    for rank, units in enumerate(sequences.ranks):
        if rank == 0:
            here = np.broadcast_to(mixing.start, (len(units), logs.shape[1]))
        else:
            tables = mixing.switching[sequences.entered[units]]
            here = (known[units - 1][:, None] @ tables)[:, 0]
        own = logs[units]
        top = np.where(here > 0, own, -np.inf).max(axis=1)
        chances = np.exp(np.minimum(own - top[:, None], UNSEEN))
        total = (here * chances).sum(axis=1)
        coming[units], likely[units] = here, chances / total[:, None]
        known[units] = here * likely[units]
        scales[units] = top + np.log(total)
    ratios = likely.copy()
    for units, later in zip(sequences.ranks[-2::-1], sequences.ranks[:0:-1], strict=True):
        before = units[: len(later)]
        tables = mixing.switching[sequences.entered[later]]
        ahead = (tables @ ratios[later][:, :, None])[:, :, 0]
        ratios[before] = np.minimum(ratios[before] * ahead, np.exp(UNSEEN))
    return Passes(-sequences.sums(scales[:, None])[:, 0], coming, likely, known, ratios)


def slopes_of_mixing(sequences: Sequences, found: Passes) -> np.ndarray:
    """[U, K + G * K * K] derivatives of the log chances in the mixing, unit by unit."""
    units, kinds = found.ratios.shape
    slopes = np.zeros((units, kinds + sequences.tables * kinds * kinds))
    slopes[sequences.first, :kinds] = found.ratios[sequences.first]
    for later in sequences.ranks[1:]:
        pairs = found.known[later - 1][:, :, None] * found.ratios[later][:, None]
        at = kinds + sequences.entered[later][:, None] * kinds * kinds + np.arange(kinds * kinds)
        slopes[later[:, None], at] = pairs.reshape(len(later), -1)
    return slopes


def products_with_earlier(
    sequences: Sequences,
    found: Passes,
    scores: Sequence[np.ndarray],
    mixing: Mixing,
    repeats: np.ndarray,
) -> np.ndarray:
    """[n, n] expected sum over units of score times the scores of all that went before it.

    Rows and columns are the parameters of every kind that wants something, then the mixing. Being
    of a kind goes before what it does.

    Args:
        sequences: of the units.
        found: the passes over them.
        scores: one [U, D] a kind that wants something.
        mixing: of the kinds.
        repeats: [E] how often each sequence was seen.
    """
    kinds, width = found.ratios.shape[1], scores[0].shape[1]
    own = [slice(k * width, (k + 1) * width) for k in range(len(scores))]
    begin = len(scores) * width
    tail, size = begin + kinds, begin + len(mixing.flat)
    total, first = np.zeros((size, size)), sequences.first
    for k, rows in enumerate(own):
        total[rows, begin + k] = (repeats * found.ratios[first, k]) @ scores[k][first]
    ranks = sequences.ranks
    if len(ranks) < 2:
        return total
    often = repeats[sequences.number]
    before = np.zeros((len(ranks[1]), kinds, size))  # derivatives of `known`
    begun = ranks[0][: len(ranks[1])]
    before[:, np.arange(kinds), begin + np.arange(kinds)] = found.likely[begun]
    for k, rows in enumerate(own):
        before[:, k, rows] = found.known[begun, k, None] * scores[k][begun]
    every = np.arange(kinds)
    for rank, units in enumerate(ranks[1:], 1):
        before, entered = before[: len(units)], sequences.entered[units]
        weights = often[units, None] * found.ratios[units]
        for table in np.unique(entered).tolist():
            there = entered == table
            switched = np.tensordot(weights[there], before[there], (0, 0))  # [to, from, n]
            at = tail + table * kinds * kinds + every[:, None] * kinds + every
            total[at] += switched.transpose(1, 0, 2)
        coming = mixing.switching[entered].transpose(0, 2, 1) @ before
        at = tail + entered[:, None] * kinds * kinds + every * kinds  # of each origin, to kind 0
        for k in range(kinds):
            coming[np.arange(len(units))[:, None], k, at + k] += found.known[units - 1]
        for k, rows in enumerate(own):
            total[rows] += (weights[:, k, None] * scores[k][units]).T @ coming[:, k]
        if rank + 1 == len(ranks):
            break
        before = found.likely[units][:, :, None] * coming
        for k, rows in enumerate(own):
            before[:, k, rows] += found.known[units, k, None] * scores[k][units]
    return total


def drawn_kinds(
    sequences: Sequences, found: Passes, mixing: Mixing, rng: np.random.Generator
) -> np.ndarray:
    """[U] kinds drawn by all that is known of them, the last unit of a sequence first."""
    kinds = np.zeros(len(found.known), np.intp)
    last = sequences.offsets[1:] - 1
    kinds[last] = _drawn(found.known[last], rng)
    for units, later in zip(sequences.ranks[-2::-1], sequences.ranks[:0:-1], strict=True):
        before = units[: len(later)]
        ahead = mixing.switching[sequences.entered[later], :, kinds[later]]
        kinds[before] = _drawn(found.known[before] * ahead, rng)
    return kinds


def _drawn(chances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """[n] a column of each row of chances [n, K], which need not sum to 1."""
    edges = np.cumsum(chances, axis=1)
    spots = rng.random(len(chances)) * edges[:, -1]
    return (spots[:, None] >= edges[:, :-1]).sum(axis=1)
