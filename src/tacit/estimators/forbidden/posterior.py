"""What is believed about sets of forbidden candidates, and what may be named by it.

The likelihood only grows with the set, so no data speak against a larger one; only a prior tells a
candidate from several others that could stand in for it. Each of K candidates is forbidden with the
same unknown chance q ~ Beta(1, 9), integrated out: given m of the others, the prior odds are
(1 + m) / (9 + K - 1 - m). The posterior odds of "allowed" are then the p-value of the candidate,
over those odds, averaged over what else may be forbidden.

Named is what adds up to at most the level in posterior chances to be allowed, the smallest first;
then pairs of which one is forbidden, their chances that neither is added to the same sum. Over
worlds where each candidate is as likely forbidden as any other, the expected number of false
statements, and so the chance of any, is at most the level. For one layout made to mislead that is
no guarantee: a name is `strict` where its p-value is small whatever else is forbidden.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tacit.estimators.forbidden.steps import Steps, flipped
from tacit.estimators.forbidden.walks import Walks

# Demonstrations beyond which nobody will wait.
MOST = 10**9
# Beta(1, 9): before anything is seen one candidate in ten is forbidden.
FORBIDDEN, ALLOWED = 1.0, 9.0
# How often both chains are made twice as long until they name the same, and until their Monte
# Carlo errors change no name.
LONGER = 3
# Parts of a chain whose scatter is its Monte Carlo error, and errors that a chance is taken larger.
PARTS, ERRORS = 20, 2.0


@dataclass(frozen=True, eq=False)
class SetChain:
    """Sets in the order of a chain.

    Attributes:
        weights: [J] how long each set was held.
        sets: [J, K] bool, what is forbidden.
        allowed: [J, K] bool, what neither the set nor its other members take away.
        chances: [J, K] the chance of that, given the rest of the set, where the chain has it.
    """

    weights: np.ndarray
    sets: np.ndarray
    allowed: np.ndarray
    chances: np.ndarray

    def upper(self, values: np.ndarray, errors: float = ERRORS) -> np.ndarray:
        """[...] mean of values [J, ...], with so many Monte Carlo errors."""
        parts = [part for part in np.array_split(np.arange(len(self.weights)), PARTS) if len(part)]
        sums = np.array([self.weights[part] @ values[part] for part in parts])
        sizes = np.array([self.weights[part].sum() for part in parts])
        middle = sums.sum(axis=0) / sizes.sum()
        away = sums - np.multiply.outer(sizes, middle)
        spread = np.sqrt((away**2).sum(axis=0) * len(parts) / (len(parts) - 1)) / sizes.sum()
        return middle + errors * spread

    def joined(self, later: SetChain) -> SetChain:
        """Both, one after the other."""
        names = ("weights", "sets", "allowed", "chances")
        return SetChain(*(np.concatenate([getattr(self, n), getattr(later, n)]) for n in names))


@dataclass(frozen=True, eq=False, kw_only=True)
class Belief:
    """The posterior over sets.

    Attributes:
        allowed: [K] chance that a candidate is allowed, 1 where a demonstration takes it: the
            larger of two chains, with two Monte Carlo errors.
        names: candidates whose chances add up to at most the level, none within another one.
        pairs: (candidate, candidate, chance that neither is forbidden), of what is not named.
        strict: of each name whether its p-value is small whatever else is forbidden.
        more: [K] about how many more demonstrations would tell that a candidate is forbidden, if
            it is; infinite where none would.
        agreed: whether both chains say the same; nothing is named where they do not.
    """

    allowed: np.ndarray
    names: list[int]
    pairs: list[tuple[int, int, float]]
    strict: list[bool]
    more: np.ndarray
    agreed: bool

    @property
    def spent(self) -> float:
        """How many of the names and pairs are expected to be false."""
        return float(self.allowed[self.names].sum()) + sum(chance for *_, chance in self.pairs)

    def withheld(self) -> Belief:
        """The same without names and pairs: the chances hold for a likelihood that is right."""
        unknown = np.full(len(self.allowed), np.nan)
        return replace(self, names=[], pairs=[], strict=[], more=unknown)


@dataclass(frozen=True, eq=False, kw_only=True)
class SetPosterior:
    """The posterior over sets of candidates.

    Attributes:
        likelihood: of sets, [K] bool each.
        possible: [N] numbers of the candidates that no demonstration takes.
        count: K, how many candidates there are.
        level: what chances of false statements may add up to.
        episodes: how many demonstrations there are.
    """

    sampled: ClassVar[int]  # sets at which is asked how many more demonstrations would tell
    likelihood: Walks | Steps
    possible: np.ndarray
    count: int
    level: float
    episodes: int

    def belief(self, simplest: list[int]) -> Belief:
        """What is believed, by one chain from the simplest explanation and one from far away."""
        rng, longer = np.random.default_rng(0), 0
        begin = np.zeros(self.count, bool)
        begin[simplest] = True
        chains = self.begun(begin, rng)
        while True:
            every = [chain.upper(chain.chances) for chain in chains]
            named = [set(within_level(one, self.level)) for one in every]
            means = [chain.upper(chain.chances, errors=0.0) for chain in chains]
            exact = [set(within_level(one, self.level)) for one in means]
            if longer == LONGER or named[0] == named[1] == exact[0] == exact[1]:
                break
            later = [self.run(one.sets[-1], rng, len(one.sets)) for one in chains]
            chains = [one.joined(more) for one, more in zip(chains, later, strict=True)]
            longer += 1
        allowed = np.ones(self.count)
        allowed[self.possible] = np.minimum(np.max(every, axis=0), 1.0)
        apart = [k for k in named[0] ^ named[1] if max(one[k] for one in every) > 0.5]
        names, pairs = [], []
        if not apart:
            places = within_level(np.max(every, axis=0), self.level)
            names = self.widest(self.possible[places].tolist())
            pairs = self.pairs(chains, places, float(allowed[names].sum()))
        return Belief(
            allowed=allowed,
            names=names,
            pairs=pairs,
            strict=[self.strict(k, begin) for k in names],
            more=self.more(chains),
            agreed=not apart,
        )

    def begun(self, simplest: np.ndarray, rng: np.random.Generator) -> list[SetChain]:
        """Two chains, one from the simplest explanation [K] or near it and one from far away."""
        raise NotImplementedError

    def run(self, start: np.ndarray, rng: np.random.Generator, longer: int = 0) -> SetChain:
        """A chain from this set [K] bool; a `longer` one has that many sets."""
        raise NotImplementedError

    def outside(self, chosen: np.ndarray, asked: np.ndarray, changes: np.ndarray) -> np.ndarray:
        """[asked] the chance that each of these is allowed, given the rest of the set.

        Args:
            chosen: [K] bool, the set.
            asked: numbers of candidates.
            changes: [asked] of the log-likelihood by flipping each.
        """
        inside = chosen[asked]
        others = chosen.sum() - inside
        prior = np.log((FORBIDDEN + others) / (ALLOWED + self.count - 1.0 - others))
        odds = prior + np.where(inside, -changes, changes)
        return 1.0 / (1.0 + np.exp(np.clip(odds, -700.0, 700.0)))

    def widest(self, names: list[int]) -> list[int]:
        """The names but for those that another one takes away with it."""
        kept: list[int] = []
        parts = [set(part.tolist()) for part in self.likelihood.parts]
        for k in sorted(names, key=lambda k: -len(parts[k])):
            if not any(parts[k] <= parts[other] for other in kept):
                kept.append(k)
        return [k for k in names if k in kept]

    def pairs(
        self, chains: list[SetChain], named: list[int], spent: float
    ) -> list[tuple[int, int, float]]:
        """Disjoint pairs of which one is forbidden, while the sum of all stays within the level.

        Args:
            chains: both.
            named: places of the names among those that are possible.
            spent: the sum of the names.
        """
        left = np.setdiff1d(np.arange(len(self.possible)), named)
        # Of two, one is allowed with at most (1 + level) / 2: the others have no partner.
        alone = np.max([one.weights @ one.allowed / one.weights.sum() for one in chains], axis=0)
        left = left[alone[left] + alone[left].min(initial=1.0) <= 1.0 + self.level]
        neither = np.zeros((len(left), len(left)))
        for chain in chains:
            held = chain.allowed[:, left].astype(float)
            middle = (held * chain.weights[:, None]).T @ held / chain.weights.sum()
            neither = np.maximum(neither, middle)
        rows, columns = np.triu_indices(len(left), 1)
        order = np.argsort(neither[rows, columns], kind="stable")
        used: set[int] = set()
        found = []
        for i in order.tolist():
            one, two = int(left[rows[i]]), int(left[columns[i]])
            if spent + neither[rows[i], columns[i]] > self.level:
                break
            if {one, two} & used:
                continue
            chance = max(
                float(chain.upper((chain.allowed[:, one] & chain.allowed[:, two]).astype(float)))
                for chain in chains
            )
            if spent + chance <= self.level:
                used |= {one, two}
                spent += chance
                found.append((int(self.possible[one]), int(self.possible[two]), chance))
        return found

    def strict(self, k: int, simplest: np.ndarray) -> bool:
        """Whether the p-value of candidate k is within level / K whatever else is forbidden.

        By a local search for the worst world from three: without anything else, without the
        simplest explanation [K], and without all else that is possible.
        """
        cut, others = (
            np.log(self.level / self.count),
            self.possible[self.possible != k],
        )
        every, nothing = np.zeros(self.count, bool), np.zeros(self.count, bool)
        every[others] = True
        for start in (every, nothing, simplest):
            world = start.copy()
            world[k] = False
            while True:
                beside = flipped(world, k)
                here = self.likelihood.changes(world, np.append(others, k))
                if here[-1] < -cut:
                    return False
                there = self.likelihood.changes(beside, others)
                with np.errstate(invalid="ignore"):
                    gains = here[:-1] - there
                gains = np.where(np.isfinite(here[:-1]) & np.isfinite(there), gains, -np.inf)
                if not len(others) or gains.max() <= 1e-9:
                    break
                world = flipped(world, int(others[np.argmax(gains)]))
        return True

    def more(self, chains: list[SetChain]) -> np.ndarray:
        """[K] about how many more demonstrations like those seen would name a candidate.

        If it is forbidden: the odds that it is allowed shrink with each by the chance to avoid it,
        in each world that the chains have met, and are averaged over these.
        """
        from scipy.special import logsumexp

        found, often = np.full(self.count, np.inf), self.sampled
        worlds = np.concatenate([thinned(chain, often // 2) for chain in chains])
        logs, out = [], []
        for world in worlds:
            changes = self.likelihood.changes(world, self.possible)
            # -inf: no world that the demonstrations are from, which nothing more can tell.
            logs.append(np.where(world[self.possible], changes, -changes))
            out.append(self.outside(world, self.possible, changes))
        rates = np.minimum(np.array(logs), 0.0) / self.episodes
        outside = np.log(np.maximum(np.array(out), 1e-300))
        bound = np.log(self.level / (1.0 - self.level)) + np.log(
            np.maximum(1.0 - np.array(out), 1e-300).sum(axis=0)
        )
        for n, k in enumerate(self.possible.tolist()):

            def told(count: int, n: int = n) -> bool:
                return logsumexp(outside[:, n] + count * rates[:, n]) <= bound[n]

            found[k] = 1.0 + bisect_left(range(1, MOST), True, key=told) if told(MOST) else np.inf
        return found


def within_level(chances: np.ndarray, level: float) -> list[int]:
    """The places of the smallest chances [N] that add up to at most the level."""
    order = np.argsort(chances, kind="stable")
    return order[np.cumsum(chances[order]) <= level].tolist()


def thinned(chain: SetChain, count: int) -> np.ndarray:
    """[count, K] sets of a chain at equal distances of its time."""
    ends = np.cumsum(chain.weights)
    return chain.sets[np.searchsorted(ends, (np.arange(count) + 0.5) / count * ends[-1])]
