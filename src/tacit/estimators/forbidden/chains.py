"""The chains that draw sets of forbidden candidates from their posterior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from tacit.estimators.forbidden.posterior import ALLOWED, FORBIDDEN, SetChain, SetPosterior
from tacit.estimators.forbidden.steps import Steps, flipped
from tacit.estimators.forbidden.walks import Walks

# Fewest jumps of a chain over complete walks.
FEWEST_JUMPS = 2000
# Moves a candidate of a chain that solves a world for each set, and fewest and most of them.
MOVES_A_CANDIDATE = 100
FEWEST_MOVES, MOST_MOVES = 2000, 8000
# Share of a chain that is dropped: it forgets where it began.
BURN_IN = 0.15
# Most candidates within a wide one that are drawn together with it.
MOST_TOGETHER = 4
# Nats of the posterior below the other chain at which one is lost: it may stay there for ever.
LOST = 10.0
# Share of swaps among moves: they cross where two candidates stand in for each other.
SWAP_SHARE = 0.25


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
        count = longer or max(FEWEST_JUMPS, 3 * len(self.possible))
        chosen, draws = start.copy(), rng.random(count)
        is_wide = self.likelihood.wide[self.possible]
        narrow, wide = self.possible[~is_wide], self.possible[is_wide]
        weights = np.empty(count)
        sets = np.empty((count, self.count), bool)
        allowed = np.empty((count, len(self.possible)), bool)
        chances = np.empty(allowed.shape)
        for j in range(count):
            changes = self.likelihood.changes(chosen, narrow)
            allowed_chances = self.outside(chosen, narrow, changes)
            idle = self.likelihood.idle(chosen)[self.possible]
            flips = np.where(chosen[narrow], allowed_chances, 1.0 - allowed_chances)
            rates = np.cumsum(np.concatenate([flips, np.ones(len(wide))]))
            sets[j] = chosen
            weights[j] = 1.0 / rates[-1]
            allowed[j] = ~chosen[self.possible] & ~idle
            chances[j] = allowed[j]
            chances[j, ~is_wide] = np.where(idle[~is_wide], 0.0, allowed_chances)
            place = min(int(np.searchsorted(rates, draws[j] * rates[-1])), len(rates) - 1)
            if place < len(narrow):
                chosen[narrow[place]] ^= True
            else:
                chosen = self.drawn_afresh(chosen, int(wide[place - len(narrow)]), rng)
        kept = slice(int(BURN_IN * count), None)
        return SetChain(weights[kept], sets[kept], allowed[kept], chances[kept])

    def drawn_afresh(self, chosen: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
        """[K] the set, a wide candidate drawn together with some of those within it.

        One at a time would take long: all that stand in for it must be forbidden before it is
        allowed.
        """
        from scipy.special import betaln, softmax

        drawn = [k, *rng.permutation(self.within[k])[:MOST_TOGETHER]]
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
        """Two chains; one that ends among far less likely sets is begun anew where the other is.

        Barriers of likelihood may hold a chain; what is far less likely has no part in the law.
        """
        nothing, widest = np.zeros(self.count, bool), np.zeros(self.count, bool)
        for k in self.possible.tolist():
            wider = flipped(widest, k)
            if np.isfinite(self.likelihood(wider)):
                widest = wider
        chains = [self.run(start, rng) for start in (self.steepest(nothing), self.swept(widest))]
        heights = [self.height(chain.sets[-1]) for chain in chains]
        worse = int(np.argmin(heights))
        if heights[1 - worse] - heights[worse] > LOST:
            chains[worse] = self.run(chains[1 - worse].sets[-1], rng)
        return chains

    def run(self, start: np.ndarray, rng: np.random.Generator, longer: int = 0) -> SetChain:
        """Metropolis by flips and swaps: a set is solved once, its neighbours only if proposed."""
        count = longer or int(
            np.clip(MOVES_A_CANDIDATE * len(self.possible), FEWEST_MOVES, MOST_MOVES)
        )
        chosen, height = start.copy(), self.height(start)
        idle = self.likelihood.idle(chosen)[self.possible]
        sets = np.empty((count, self.count), bool)
        allowed = np.empty((count, len(self.possible)), bool)
        for j in range(count):
            trial, inside = chosen.copy(), chosen[self.possible]
            if rng.random() < SWAP_SHARE and inside.any() and not inside.all():
                trial[rng.choice(self.possible[inside])] = False
                trial[rng.choice(self.possible[~inside])] = True
            else:
                trial[rng.choice(self.possible)] ^= True
            trial_height = self.height(trial)
            if np.log(rng.random()) < trial_height - height:
                chosen, height = trial, trial_height
                idle = self.likelihood.idle(chosen)[self.possible]
            sets[j] = chosen
            allowed[j] = ~chosen[self.possible] & ~idle
        kept = slice(int(BURN_IN * count), None)
        return SetChain(np.ones(len(sets[kept])), sets[kept], allowed[kept], allowed[kept] * 1.0)

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
                if self.height(other) > self.height(chosen):
                    chosen = other
            if self.height(chosen) <= before:
                return chosen
