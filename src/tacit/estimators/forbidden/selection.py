"""Forward selection: the fewest candidates that explain what no demonstration does.

Each is tested given those before it, as if nothing else were forbidden. The p-value of a candidate
is the chance h to avoid it where no demonstration takes it and 1 otherwise, and h is known
beforehand: testing only the candidates with the smallest h, as long as these add up to at most the
level, errs with at most that chance. Every candidate counts, whether it was taken or not.

That is the simplest explanation and no more: a place that only leads past a forbidden one is
avoided as well. Which candidates may be named at a level `posterior.py` says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tacit.estimators.forbidden.candidates import Candidate
from tacit.forward.avoidance import Avoiding, Coverage
from tacit.model.closure import Closure, close
from tacit.model.mdp import MDP


@dataclass(frozen=True, eq=False, kw_only=True)
class ReducedWorld:
    """One world without the chosen candidates, and what it says of all.

    Attributes:
        mdp: the world, with the mask.
        own: what is gone in it.
        closure: what would be gone without each candidate, too.
        logs: [K] log p-values of "this candidate is allowed", given that the chosen are not.
        broken: [K] bool, whether a demonstration contradicts the candidate.
        idle: [K] bool, whether nothing more is gone without the candidate.
    """

    mdp: MDP
    own: Closure
    closure: Closure
    logs: np.ndarray
    broken: np.ndarray
    idle: np.ndarray

    def tested(self, level: float) -> np.ndarray:
        """[K] bool, the candidates whose p-values, the smallest first, add up to at most level."""
        order = np.argsort(self.logs, kind="stable")
        tested = np.zeros(len(order), bool)
        tested[order] = np.cumsum(np.exp(self.logs[order])) <= level
        return tested & (self.logs < 0.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class ForwardSelection:
    """Forward selection among candidates.

    Attributes:
        mdp: the model, with everything allowed.
        candidates: K of them.
        seen: what the demonstrations did.
        policy: (world) -> [S, A] what the demonstrator would do there, 0 in the rows of ends.
        level: of the tests.
        worlds: those met so far, by the numbers of the candidates that they are without.
        sites: mask and policy of the same.
    """

    mdp: MDP
    candidates: list[Candidate]
    seen: Coverage
    policy: Callable[[MDP], np.ndarray]
    level: float
    worlds: dict[frozenset[int], ReducedWorld] = field(default_factory=dict)
    sites: dict[frozenset[int], tuple[MDP, np.ndarray]] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether moves are certain, nothing is discounted and all trips came to their end.

        The gain in likelihood of forbidding something is then the chance to avoid it.
        """
        certain = (self.mdp.transitions.probabilities > 0).sum(axis=2) <= 1
        return self.mdp.discount == 1.0 and bool(certain.all()) and not self.seen.lengths.any()

    def closure(self, chosen: Sequence[int]) -> Closure:
        """What is gone without the chosen candidates."""
        return close(self.mdp, [[self.candidates[k] for k in sorted(chosen)]])

    def site(self, chosen: Sequence[int], own: Closure) -> tuple[MDP, np.ndarray]:
        """The model without these candidates, of this closure, and the policy there."""
        key = frozenset(chosen)
        if key not in self.sites:
            mdp = self.narrowed(own)
            self.sites[key] = mdp, self.policy(mdp)
        return self.sites[key]

    def narrowed(self, own: Closure) -> MDP:
        """The model without what is gone in the only world of this closure."""
        there = self.mdp.available & ~own.removed.reshape(self.mdp.available.shape)
        return replace(self.mdp, available=there) if own.removed.any() else self.mdp

    def world(self, chosen: Sequence[int]) -> ReducedWorld:
        """The world without the chosen candidates."""
        key = frozenset(chosen)
        if key not in self.worlds:
            base, own = [self.candidates[k] for k in sorted(key)], self.closure(chosen)
            closure = close(self.mdp, [[*base, one] for one in self.candidates])
            mdp, policy = self.site(chosen, own)
            seen, avoiding = self.seen, Avoiding(mdp, policy, closure.removed, closure.dead)
            self.worlds[key] = ReducedWorld(
                mdp=mdp,
                own=own,
                closure=closure,
                logs=avoiding.total(seen.starts, seen.lengths, seen.many),
                broken=closure.broken_by(seen.taken, seen.visited),
                idle=closure.within(own),
            )
        return self.worlds[key]

    def log_chance(self, k: int, others: Sequence[int]) -> float:
        """The log p-value of "candidate k is allowed", given that the others are forbidden."""
        seen, more = self.seen, self.closure([*others, k])
        mdp, policy = self.site(others, self.closure(others))
        avoiding = Avoiding(mdp, policy, more.removed, more.dead)
        return float(avoiding.total(seen.starts, seen.lengths, seen.many)[0])

    def simplest(self) -> list[int]:
        """What is found one after the other, each still unlikely given all others."""
        found: list[int] = []
        while (best := self._best(found)) is not None:
            found.append(best)
        while len(found) > 1:
            rest = [[other for other in found if other != k] for k in found]
            logs = [self.log_chance(k, others) for k, others in zip(found, rest, strict=True)]
            worst = int(np.argmax(logs))
            if logs[worst] <= np.log(self.level):
                break
            found.pop(worst)
        return found

    def _best(self, chosen: list[int]) -> int | None:
        """The next candidate: the smallest set that explains what the least likely one does."""
        world, level = self.world(chosen), self.level
        open_to = world.tested(level) & ~world.broken & ~world.idle
        found = [k for k in np.argsort(world.logs, kind="stable").tolist() if open_to[k]]
        if not found:
            return None
        best = found[0]
        for k in found[1:]:
            less, more = world.closure.one(k), world.closure.one(best)
            nested = less.within(more)[0] and not more.within(less)[0]
            if nested and not self.world([*chosen, k]).tested(level)[best]:
                best = k
        return best
