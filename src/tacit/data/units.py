"""Which episodes are independent: those of one individual are not, of each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidDemonstrations

# What episodes are called where nothing is known of who is behind them, and where it is.
EPISODES, INDIVIDUALS, GROUPS = "trajectories", "individuals", "groups"


@dataclass(frozen=True, eq=False)
class Units:
    """What is independent among episodes: those of one individual are not, of each other.

    Attributes:
        number: [E] unit of each episode, from 0.
        called: `INDIVIDUALS`, `GROUPS` or `EPISODES`.
        names: [U] what the units are called; None where they have no names.
    """

    number: np.ndarray
    called: str
    names: np.ndarray | None = None

    @classmethod
    def alone(cls, episodes: int) -> Units:
        """Every episode by itself."""
        return cls(np.arange(episodes), EPISODES)

    def across(self, member: np.ndarray) -> Units:
        """The units; single episodes where each group of `member` [E] is one unit by itself."""
        pairs = {*zip(self.number.tolist(), member.tolist(), strict=True)}
        groups = int(member.max()) + 1
        return Units.alone(len(member)) if len(pairs) <= groups else self

    @property
    def doubt(self) -> str:
        """What to say of a law that takes all episodes for independent."""
        phrase = f", as if all episodes of {self.called} were independent"
        return "" if self.called == EPISODES else phrase

    def __len__(self) -> int:
        return int(self.number.max()) + 1

    def drawn(self, random: np.random.Generator) -> np.ndarray:
        """The episodes of as many units as there are, drawn with repetition."""
        if len(self) < 2:
            raise InvalidDemonstrations(f"resampling needs at least two {self.called}; got one")
        by_unit = np.argsort(self.number, kind="stable")
        sizes = np.bincount(self.number)
        chosen = random.integers(len(self), size=len(self))
        # The episodes of a unit lie side by side in `by_unit`: each draw is a run of places there.
        run_ends, run_lengths = np.cumsum(sizes)[chosen], sizes[chosen]
        shifts = run_ends - np.cumsum(run_lengths)
        return by_unit[np.repeat(shifts, run_lengths) + np.arange(run_lengths.sum())]

    def parted(self, member: np.ndarray) -> np.ndarray:
        """[U] bool, the units with episodes in several of the groups `member` [E]."""
        first_group = member[np.unique(self.number, return_index=True)[1]]
        others = np.bincount(self.number, weights=first_group[self.number] != member)
        return np.asarray(others > 0)

    def dealt(self, member: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """[E] the groups of the episodes, `member` [E], dealt out again to whole units.

        Groups of a unit that has episodes in several are shuffled within it.
        """
        parted = self.parted(member)
        unit_groups = member[np.unique(self.number, return_index=True)[1]]
        unit_groups[~parted] = random.permutation(unit_groups[~parted])
        result = unit_groups[self.number]
        if parted.any():
            shuffled = np.lexsort((random.random(len(member)), self.number))
            ordered = np.argsort(self.number, kind="stable")
            within = parted[self.number[ordered]]
            result[ordered[within]] = member[shuffled[within]]
        return result

    def dealing(self, member: np.ndarray, name: str) -> str:
        """What `dealt` does, in words; episodes are called `whole`."""
        if self.called == EPISODES:
            return f"dealing the {name} out again"
        phrase = f"dealing the {len(self)} {self.called} out again"
        parted = self.parted(member).sum()
        if parted == 0:
            return phrase
        within = f"shuffling groups within the {parted} {self.called} that are in several"
        return within if parted == len(self) else f"{phrase}, and {within},"

    def least_chance(self, member: np.ndarray) -> float:
        """The smallest p-value that dealing groups `member` [E] out again can give."""
        parted = self.parted(member)
        unit_groups = member[np.unique(self.number, return_index=True)[1]]
        sizes = np.bincount(unit_groups[~parted])
        ways = _ways(sizes)
        for unit in np.flatnonzero(parted):
            ways *= _ways(np.bincount(member[self.number == unit]))
        # Groups of the same size may change their names, and nothing else.
        same = np.unique(sizes[sizes > 0], return_counts=True)[1] if not parted.any() else []
        return float(np.prod([math.factorial(int(n)) for n in same]) / ways)


def units_of(demonstrations: Demonstrations, least: float = np.inf) -> Units:
    """Individuals where they are named; else groups, where there are `least`; else trajectories.

    Groups name who was seen: a mouse, a site.
    """
    who, called = demonstrations.individuals, INDIVIDUALS
    groups = demonstrations.groups
    if who is None and groups is not None and len(set(groups.tolist())) >= max(least, 2):
        who, called = groups, GROUPS
    if who is None:
        return Units.alone(demonstrations.episodes)
    names, number = np.unique(who, return_inverse=True)
    return Units(number.ravel(), called, names)


def jointly_numbered(parts: Sequence[Units]) -> list[Units]:
    """The units of several data sets with numbers of all: who is in two of them is one unit.

    Units without names are those of one data set.
    """
    numbers: dict[object, int] = {}
    joint = []
    for index, part in enumerate(parts):
        if part.names is None:
            keys = [(part.called, index, unit) for unit in range(len(part))]
        else:
            keys = [(part.called, None, name) for name in part.names.tolist()]
        number = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
        joint.append(Units(number[part.number], part.called))
    return joint


def _ways(sizes: np.ndarray) -> float:
    """How many ways there are to deal out groups of these sizes; infinite beyond all numbers."""
    logarithm = math.lgamma(sizes.sum() + 1.0) - sum(math.lgamma(n + 1.0) for n in sizes)
    return round(math.exp(logarithm)) if logarithm < 40.0 else math.inf
