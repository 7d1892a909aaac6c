"""The chains that draw sets of forbidden candidates from their posterior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from tacit.estimators.forbidden.posterior import ALLOWED, FORBIDDEN, SetChain, SetPosterior
from tacit.estimators.forbidden.steps import Steps, flipped
from tacit.estimators.forbidden.walks import Walks

# Jumps of a chain over complete walks, at least; moves a candidate of one over single solutions,
# and at least and at most how many; the share that forgets the beginning.
JUMPS, MOVES, RANGE, FORGOTTEN = 2000, 100, (2000, 8000), 0.15
# Most candidates within a wide one that are drawn together with it.
TOGETHER = 4
# Nats of the posterior below which a chain is lost: a set that it may stay at for ever.
HOPELESS = 10.0
# Share of swaps among moves: they cross where two candidates stand in for each other.
SWAPS = 0.25


@dataclass(frozen=True, eq=False, kw_only=True)
class WalksPosterior(SetPosterior):
    """Chains where the changes of the likelihood by all flips are known at once."""

    sampled = 30
    likelihood: Walks

    def begun(self, simplest: np.ndarray, rng: np.random.Generator) -> list[SetChain]:
        """From the simplest explanation [K], and from where all is forbidden."""
        every = np.zeros(self.count, bool)
        every[self.possible] = True
        return [self.run(start, rng) for start in (simplest, every)]

    def run(self, start: np.ndarray, rng: np.random.Generator, longer: int = 0) -> SetChain:
        """Heat bath without rejection: each jump flips a candidate, after the time it takes.

        Wide candidates take long to ask: each is drawn afresh once in a unit of time, and asked
        only then, together with candidates within it.
        """
        count = longer or max(JUMPS, 3 * len(self.possible))
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
        remembered = slice(int(FORGOTTEN * count), None)
        return SetChain(
            weights[remembered], sets[remembered], allowed[remembered], chances[remembered]
        )

    def drawn_afresh(self, chosen: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
        """[K] the set, a wide candidate drawn together with some of those within it.

        One at a time would take long: all that stand in for it must be forbidden before it is
        allowed.
        """
        from scipy.special import betaln, softmax

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
        parts = [set(part.tolist()) for part in self.likelihood.parts]
        return {
            k: np.array([o for o in self.possible.tolist() if o != k and parts[o] <= parts[k]], int)
            for k in self.possible[self.likelihood.wide[self.possible]].tolist()
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class StepsPosterior(SetPosterior):
    """Chains where every set is a world of its own, to be solved.

    Single solutions tell stand-ins apart, and chains rarely cross: they begin at the best that
    flips find from nothing, and from all that can be forbidden together.
    """

    sampled = 4
    likelihood: Steps

    def begun(self, simplest: np.ndarray, rng: np.random.Generator) -> list[SetChain]:
        """Two chains, one that ended where next to nothing is believed begun where the other did.

        Barriers of likelihood may hold a chain; what is far less likely has no part in the law.
        """
        nothing, widest = np.zeros(self.count, bool), np.zeros(self.count, bool)
        for k in self.possible.tolist():
            if np.isfinite(self.likelihood(wider := flipped(widest, k))):
                widest = wider
        chains = [self.run(start, rng) for start in (self.steepest(nothing), self.swept(widest))]
        heights = [self.height(chain.sets[-1]) for chain in chains]
        worse = int(np.argmin(heights))
        if heights[1 - worse] - heights[worse] > HOPELESS:
            chains[worse] = self.run(chains[1 - worse].sets[-1], rng)
        return chains

    def run(self, start: np.ndarray, rng: np.random.Generator, longer: int = 0) -> SetChain:
        """Metropolis by flips and swaps: a set is solved once, its neighbours only if proposed."""
        count = longer or int(np.clip(MOVES * len(self.possible), *RANGE))
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
        remembered = slice(int(FORGOTTEN * count), None)
        held = allowed[remembered]
        return SetChain(np.ones(len(held)), sets[remembered], held, held.astype(float))

    def height(self, chosen: np.ndarray) -> float:
        """The log of the posterior of a set [K] bool, but for a constant."""
        from scipy.special import betaln

        size = int(chosen.sum())
        prior = betaln(FORBIDDEN + size, ALLOWED + self.count - size)
        return self.likelihood(chosen) + float(prior)

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
