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

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np

from tacit.forward.simulation import MOST, fewest
from tacit.inverse.forbidden.steps import Steps, flipped
from tacit.inverse.forbidden.walks import Walks

# Beta(1, 9): before anything is seen one candidate in ten is forbidden.
FORBIDDEN, ALLOWED = 1.0, 9.0
# Jumps of a chain over complete walks, at least; moves a candidate of one over single solutions,
# and at least and at most how many; the share that forgets the beginning.
JUMPS, MOVES, RANGE, FORGOTTEN = 2000, 100, (2000, 8000), 0.15
# How often both chains are made twice as long until they name the same, and until their Monte
# Carlo errors change no name.
LONGER = 3
# Most candidates within a wide one that are drawn together with it.
TOGETHER = 4
# Nats of the posterior below which a chain is lost: a set that it may stay at for ever.
HOPELESS = 10.0
# Share of swaps among moves: they cross where two candidates stand in for each other.
SWAPS = 0.25
# Parts of a chain whose scatter is its Monte Carlo error, and errors that a chance is taken larger.
PARTS, ERRORS = 20, 2.0
# Sets at which is asked how many more demonstrations would tell.
ASKED = {Walks: 30, Steps: 4}


@dataclass(frozen=True, eq=False)
class Chain:
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

    def joined(self, later: Chain) -> Chain:
        """Both, one after the other."""
        names = ("weights", "sets", "allowed", "chances")
        return Chain(*(np.concatenate([getattr(self, n), getattr(later, n)]) for n in names))


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
class Posterior:
    """The posterior over sets of candidates.

    Attributes:
        likelihood: of sets, [K] bool each.
        possible: [N] numbers of the candidates that no demonstration takes.
        count: K, how many candidates there are.
        level: what chances of false statements may add up to.
        episodes: how many demonstrations there are.
    """

    likelihood: Walks | Steps
    possible: np.ndarray
    count: int
    level: float
    episodes: int

    def belief(self, simplest: list[int]) -> Belief:
        """What is believed, by one chain from the simplest explanation and one from far away."""
        rng, chains, longer = np.random.default_rng(0), [], 0
        begin = np.zeros(self.count, bool)
        begin[simplest] = True
        for start in self.beginnings(begin):
            chains.append(self.run(start, rng))
        if isinstance(self.likelihood, Steps):
            chains = self.not_lost(chains, rng)
        while True:
            every = [chain.upper(chain.chances) for chain in chains]
            named = [set(within_level(one, self.level)) for one in every]
            means = [chain.upper(chain.chances, errors=0.0) for chain in chains]
            exact = [set(within_level(one, self.level)) for one in means]
            if longer == LONGER or named[0] == named[1] == exact[0] == exact[1]:
                break
            chains = [one.joined(self.run(one.sets[-1], rng, len(one.sets))) for one in chains]
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

    # --- chains -----------------------------------------------------------------------------------

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

    def run(self, start: np.ndarray, rng: np.random.Generator, longer: int = 0) -> Chain:
        """A chain from this set [K] bool; a `longer` one has that many sets."""
        if isinstance(self.likelihood, Walks):
            return self.jumps(start, rng, longer or max(JUMPS, 3 * len(self.possible)))
        count = int(np.clip(MOVES * len(self.possible), *RANGE))
        return self.moves(start, rng, longer or count)

    def jumps(self, start: np.ndarray, rng: np.random.Generator, count: int) -> Chain:
        """Heat bath without rejection: each jump flips a candidate, after the time it takes.

        Wide candidates take long to ask: each is drawn afresh once in a unit of time, and asked
        only then, together with candidates within it.
        """
        assert isinstance(self.likelihood, Walks)
        chosen, draws = start.copy(), rng.random(count)
        wide = self.likelihood.wide[self.possible]
        narrow, broad = self.possible[~wide], self.possible[wide]
        weights, size = np.empty(count), (count, len(self.possible))
        sets = np.empty((count, self.count), bool)
        allowed, chances = np.empty(size, bool), np.empty(size)
        for j in range(count):
            changes = self.likelihood.changes(chosen, narrow)
            out = self.outside(chosen, narrow, changes)
            idle = self.likelihood.idle(chosen)[self.possible]
            flips = np.where(chosen[narrow], out, 1.0 - out)
            rates = np.cumsum(np.concatenate([flips, np.ones(len(broad))]))
            sets[j], weights[j] = chosen, 1.0 / rates[-1]
            allowed[j] = ~chosen[self.possible] & ~idle
            chances[j] = allowed[j]
            chances[j, ~wide] = np.where(idle[~wide], 0.0, out)
            place = min(int(np.searchsorted(rates, draws[j] * rates[-1])), len(rates) - 1)
            if place < len(narrow):
                chosen[narrow[place]] ^= True
            else:
                chosen = self.drawn_afresh(chosen, int(broad[place - len(narrow)]), rng)
        kept = slice(int(FORGOTTEN * count), None)
        return Chain(weights[kept], sets[kept], allowed[kept], chances[kept])

    def drawn_afresh(self, chosen: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
        """[K] the set, a wide candidate drawn together with some of those within it.

        One at a time would take long: all that stand in for it must be forbidden before it is
        allowed.
        """
        from scipy.special import betaln, softmax

        assert isinstance(self.likelihood, Walks)
        drawn = [k, *rng.permutation(self.within[k])[:TOGETHER]]
        sets = np.tile(chosen, (2 ** len(drawn), 1))
        sets[:, drawn] = list(product((True, False), repeat=len(drawn)))
        sizes = sets.sum(axis=1)
        prior = betaln(FORBIDDEN + sizes, ALLOWED + self.count - sizes)
        odds = softmax(prior + self.likelihood.changes_to(chosen, sets))
        return sets[rng.choice(len(sets), p=odds)]

    @cached_property
    def within(self) -> dict[int, np.ndarray]:
        """The possible candidates within each wide one."""
        assert isinstance(self.likelihood, Walks)
        parts = [set(part.tolist()) for part in self.likelihood.parts]
        return {
            k: np.array([o for o in self.possible.tolist() if o != k and parts[o] <= parts[k]], int)
            for k in self.possible[self.likelihood.wide[self.possible]].tolist()
        }

    def moves(self, start: np.ndarray, rng: np.random.Generator, count: int) -> Chain:
        """Metropolis by flips and swaps: a set is solved once, its neighbours only if proposed."""
        chosen, size = start.copy(), (count, len(self.possible))
        now, idle = self.height(chosen), self.likelihood.idle(chosen)[self.possible]
        sets, allowed = np.empty((count, self.count), bool), np.empty(size, bool)
        for j in range(count):
            trial, inside = chosen.copy(), chosen[self.possible]
            if rng.random() < SWAPS and inside.any() and not inside.all():
                trial[rng.choice(self.possible[inside])] = False
                trial[rng.choice(self.possible[~inside])] = True
            else:
                trial[rng.choice(self.possible)] ^= True
            height = self.height(trial)
            if np.log(rng.random()) < height - now:
                chosen, now = trial, height
                idle = self.likelihood.idle(chosen)[self.possible]
            sets[j], allowed[j] = chosen, ~chosen[self.possible] & ~idle
        kept = slice(int(FORGOTTEN * count), None)
        held = allowed[kept]
        return Chain(np.ones(len(held)), sets[kept], held, held.astype(float))

    def not_lost(self, chains: list[Chain], rng: np.random.Generator) -> list[Chain]:
        """Two chains, one that ended where next to nothing is believed begun where the other did.

        Barriers of likelihood may hold a chain; what is far less likely has no part in the law.
        """
        heights = [self.height(chain.sets[-1]) for chain in chains]
        worse = int(np.argmin(heights))
        if heights[1 - worse] - heights[worse] > HOPELESS:
            chains[worse] = self.run(chains[1 - worse].sets[-1], rng)
        return chains

    def height(self, chosen: np.ndarray) -> float:
        """The log of the posterior of a set [K] bool, but for a constant."""
        from scipy.special import betaln

        assert isinstance(self.likelihood, Steps)
        size = int(chosen.sum())
        prior = betaln(FORBIDDEN + size, ALLOWED + self.count - size)
        return self.likelihood(chosen) + float(prior)

    def beginnings(self, simplest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where two chains begin: at the simplest explanation [K], and where all is forbidden.

        Single solutions tell stand-ins apart, and chains rarely cross: they begin at the best that
        flips find from nothing, and from all that can be forbidden together.
        """
        every = np.zeros(self.count, bool)
        every[self.possible] = True
        if isinstance(self.likelihood, Walks):
            return simplest, every
        nothing, widest = np.zeros(self.count, bool), np.zeros(self.count, bool)
        for k in self.possible.tolist():
            if np.isfinite(self.likelihood(wider := flipped(widest, k))):
                widest = wider
        return self.steepest(nothing), self.swept(widest)

    def steepest(self, chosen: np.ndarray) -> np.ndarray:
        """[K] the set after the best flips, one after the other, while the posterior rises."""
        while True:
            others = [flipped(chosen, k) for k in self.possible.tolist()]
            heights = [self.height(other) for other in others]
            if max(heights) <= self.height(chosen):
                return chosen
            chosen = others[int(np.argmax(heights))]

    def swept(self, chosen: np.ndarray) -> np.ndarray:
        """[K] the set after flips of each in turn, while one of them raises the posterior."""
        while True:
            before = self.height(chosen)
            for k in self.possible.tolist():
                other = flipped(chosen, k)
                chosen = other if self.height(other) > self.height(chosen) else chosen
            if self.height(chosen) <= before:
                return chosen

    # --- what follows -----------------------------------------------------------------------------

    def widest(self, names: list[int]) -> list[int]:
        """The names but for those that another one takes away with it."""
        kept: list[int] = []
        parts = [set(part.tolist()) for part in self.likelihood.parts]
        for k in sorted(names, key=lambda k: -len(parts[k])):
            if not any(parts[k] <= parts[other] for other in kept):
                kept.append(k)
        return [k for k in names if k in kept]

    def pairs(
        self, chains: list[Chain], named: list[int], spent: float
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
        cut, others = np.log(self.level / self.count), self.possible[self.possible != k]
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

    def more(self, chains: list[Chain]) -> np.ndarray:
        """[K] about how many more demonstrations like those seen would name a candidate.

        If it is forbidden: the odds that it is allowed shrink with each by the chance to avoid it,
        in each world that the chains have met, and are averaged over these.
        """
        from scipy.special import logsumexp

        found, often = np.full(self.count, np.inf), ASKED[type(self.likelihood)]
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

            found[k] = fewest(told) if told(MOST) else np.inf
        return found


def within_level(chances: np.ndarray, level: float) -> list[int]:
    """The places of the smallest chances [N] that add up to at most the level."""
    order = np.argsort(chances, kind="stable")
    return order[np.cumsum(chances[order]) <= level].tolist()


def thinned(chain: Chain, count: int) -> np.ndarray:
    """[count, K] sets of a chain at equal distances of its time."""
    ends = np.cumsum(chain.weights)
    return chain.sets[np.searchsorted(ends, (np.arange(count) + 0.5) / count * ends[-1])]
