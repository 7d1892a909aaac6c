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
MOST_DEMONSTRATIONS = 10**9
# Beta(1, 9): before anything is seen one candidate in ten is forbidden.
FORBIDDEN, ALLOWED = 1.0, 9.0
# How often chains that do not agree are made twice as long.
DOUBLINGS = 3
# Batches of a chain whose scatter gives its Monte Carlo error.
BATCHES = 20
# Monte Carlo errors by which a chance is taken larger.
MARGIN = 2.0


@dataclass(frozen=True, eq=False)
class SetChain:
    """Sets drawn by a chain, in their order.

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

    def upper(self, values: np.ndarray, errors: float = MARGIN) -> np.ndarray:
        """[...] mean of values [J, ...] plus so many Monte Carlo errors, by batch means."""
        batches = np.array_split(np.arange(len(self.weights)), BATCHES)
        batches = [batch for batch in batches if len(batch)]
        sums = np.array([self.weights[batch] @ values[batch] for batch in batches])
        sizes = np.array([self.weights[batch].sum() for batch in batches])
        mean = sums.sum(axis=0) / sizes.sum()
        deviations = sums - np.multiply.outer(sizes, mean)
        variance = (deviations**2).sum(axis=0) * len(batches) / (len(batches) - 1)
        return mean + errors * np.sqrt(variance) / sizes.sum()

    def joined(self, later: SetChain) -> SetChain:
        """This chain, and a later one after it."""
        return SetChain(
            np.concatenate([self.weights, later.weights]),
            np.concatenate([self.sets, later.sets]),
            np.concatenate([self.allowed, later.allowed]),
            np.concatenate([self.chances, later.chances]),
        )


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
        """Expected number of false names and pairs."""
        return float(self.allowed[self.names].sum()) + sum(chance for *_, chance in self.pairs)

    def withheld(self) -> Belief:
        """The belief without names and pairs: its chances hold only if the likelihood is right."""
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

    sampled: ClassVar[int]  # sets over which `more` averages
    likelihood: Walks | Steps
    possible: np.ndarray
    count: int
    level: float
    episodes: int

    def belief(self, simplest: list[int]) -> Belief:
        """The posterior by one chain from the simplest explanation and one from far away."""
        rng = np.random.default_rng(0)
        start = np.zeros(self.count, bool)
        start[simplest] = True
        chains = self.begun(start, rng)
        for _ in range(DOUBLINGS):
            if self._agree(chains):
                break
            later = [self.run(chain.sets[-1], rng, len(chain.sets)) for chain in chains]
            chains = [chain.joined(more) for chain, more in zip(chains, later, strict=True)]
        chances = np.array([chain.upper(chain.chances) for chain in chains])
        first, second = (set(within_level(of_chain, self.level)) for of_chain in chances)
        largest = chances.max(axis=0)
        allowed = np.ones(self.count)
        allowed[self.possible] = np.minimum(largest, 1.0)
        disputed = any(largest[n] > 0.5 for n in first ^ second)
        names, pairs = [], []
        if not disputed:
            places = within_level(largest, self.level)
            names = self.widest(self.possible[places].tolist())
            pairs = self.pairs(chains, places, float(allowed[names].sum()))
        return Belief(
            allowed=allowed,
            names=names,
            pairs=pairs,
            strict=[self.strict(k, start) for k in names],
            more=self.more(chains),
            agreed=not disputed,
        )

    def _agree(self, chains: list[SetChain]) -> bool:
        """Whether chains name the same, and would without their Monte Carlo errors."""
        named = [
            within_level(chain.upper(chain.chances, errors=errors), self.level)
            for chain in chains
            for errors in (MARGIN, 0.0)
        ]
        return all(set(names) == set(named[0]) for names in named)

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
        rest = np.setdiff1d(np.arange(len(self.possible)), named)
        # Of two, one is allowed with at most (1 + level) / 2: the others have no partner.
        means = [chain.weights @ chain.allowed / chain.weights.sum() for chain in chains]
        allowed = np.max(means, axis=0)
        rest = rest[allowed[rest] + allowed[rest].min(initial=1.0) <= 1.0 + self.level]
        both_allowed = np.zeros((len(rest), len(rest)))
        for chain in chains:
            flags = chain.allowed[:, rest].astype(float)
            mean = (flags * chain.weights[:, None]).T @ flags / chain.weights.sum()
            both_allowed = np.maximum(both_allowed, mean)
        rows, columns = np.triu_indices(len(rest), 1)
        paired: set[int] = set()
        pairs = []
        for i in np.argsort(both_allowed[rows, columns], kind="stable").tolist():
            if spent + both_allowed[rows[i], columns[i]] > self.level:
                break
            one, two = int(rest[rows[i]]), int(rest[columns[i]])
            if {one, two} & paired:
                continue
            chance = max(
                float(chain.upper(chain.allowed[:, [one, two]].all(axis=1).astype(float)))
                for chain in chains
            )
            if spent + chance <= self.level:
                paired |= {one, two}
                spent += chance
                pairs.append((int(self.possible[one]), int(self.possible[two]), chance))
        return pairs

    def strict(self, k: int, simplest: np.ndarray) -> bool:
        """Whether the p-value of candidate k is within level / K whatever else is forbidden.

        Bonferroni over the K candidates. The worst world is sought by local search from three:
        without all else that is possible, without anything else, and without the simplest
        explanation [K].
        """
        least_gain = -np.log(self.level / self.count)
        others = self.possible[self.possible != k]
        everything, nothing = np.zeros(self.count, bool), np.zeros(self.count, bool)
        everything[others] = True
        for start in (everything, nothing, simplest):
            world = start.copy()
            world[k] = False
            while True:
                changes = self.likelihood.changes(world, np.append(others, k))
                if changes[-1] < least_gain:
                    return False
                with_k = self.likelihood.changes(flipped(world, k), others)
                # By what flipping another candidate lowers the gain of forbidding k.
                finite = np.isfinite(changes[:-1]) & np.isfinite(with_k)
                falls = np.full(len(others), -np.inf)
                falls[finite] = changes[:-1][finite] - with_k[finite]
                if not len(others) or falls.max() <= 1e-9:
                    break
                world = flipped(world, int(others[np.argmax(falls)]))
        return True

    def more(self, chains: list[SetChain]) -> np.ndarray:
        """[K] about how many more demonstrations like those seen would name a candidate.

        If it is forbidden: the odds that it is allowed shrink with each by the chance to avoid it,
        in each world that the chains have met, and are averaged over these.
        """
        worlds = np.concatenate([thinned(chain, self.sampled // 2) for chain in chains])
        gains, allowed = [], []
        for world in worlds:
            changes = self.likelihood.changes(world, self.possible)
            # -inf: no world that the demonstrations are from, which nothing more can tell.
            gains.append(np.where(world[self.possible], changes, -changes))
            allowed.append(self.outside(world, self.possible, changes))
        rates = np.minimum(np.array(gains), 0.0) / self.episodes
        chances = np.array(allowed)
        log_allowed = np.log(np.maximum(chances, 1e-300))
        log_forbidden = np.log(np.maximum(1.0 - chances, 1e-300).sum(axis=0))
        limits = np.log(self.level / (1.0 - self.level)) + log_forbidden
        more = np.full(self.count, np.inf)
        more[self.possible] = [
            demonstrations_needed(*of_candidate)
            for of_candidate in zip(log_allowed.T, rates.T, limits, strict=True)
        ]
        return more


def demonstrations_needed(log_chances: np.ndarray, rates: np.ndarray, limit: float) -> float:
    """The least n with log sum exp(log_chances [W] + n * rates [W]) <= limit; infinite for none."""
    from scipy.special import logsumexp

    def is_enough(count: int) -> bool:
        return bool(np.asarray(logsumexp(log_chances + count * rates)) <= limit)

    if not is_enough(MOST_DEMONSTRATIONS):
        return np.inf
    return 1.0 + bisect_left(range(1, MOST_DEMONSTRATIONS), True, key=is_enough)


def within_level(chances: np.ndarray, level: float) -> list[int]:
    """The places of the smallest chances [N] that add up to at most the level."""
    order = np.argsort(chances, kind="stable")
    return order[np.cumsum(chances[order]) <= level].tolist()


def thinned(chain: SetChain, count: int) -> np.ndarray:
    """[count, K] sets of a chain at equal distances of its time."""
    ends = np.cumsum(chain.weights)
    return chain.sets[np.searchsorted(ends, (np.arange(count) + 0.5) / count * ends[-1])]
