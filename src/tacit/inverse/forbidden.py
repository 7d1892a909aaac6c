"""Hard constraints: what nobody with this reward would have left undone by chance.

The p-value of a candidate is the chance h to avoid it where no demonstration takes it and 1
otherwise, and h is known beforehand: testing only the candidates with the smallest h, as long as
these add up to at most the level, errs with at most that chance. Every candidate counts, whether it
was taken or not.

That holds of a candidate where nothing else is forbidden but what was found before it. Something
that leads past a forbidden place is avoided as well, and without that being chance: a candidate is
found only if it is no chance either where any one other candidate, its rival, is forbidden instead.
Where the rival is no chance either, one of the two is forbidden. A part of the other is named in
its place, neither if both are as likely, and else the one that was found, with its rival. What is
left to chance only together with that one, its rival and another forbidden instead, has one, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed
from tacit.errors import InvalidModel
from tacit.forward.simulation import Avoiding, Seen
from tacit.forward.soft_dual import SoftDual
from tacit.inverse import doubts
from tacit.inverse.candidates import (
    ASSURED,
    KINDS,
    Candidate,
    Forecast,
    Outcome,
    Rival,
    World,
    candidates_of,
    check_left,
    members,
)
from tacit.inverse.expectations import check_task
from tacit.inverse.families.baselines import ConstraintOnly, RewardOnly, told_after_fit
from tacit.inverse.noisy.convex import known_expert
from tacit.inverse.recovery import Recovery, delivered
from tacit.inverse.sets import HardConstraint
from tacit.model.ends import Closure, close
from tacit.model.mdp import MDP
from tacit.model.objective import Features
from tacit.model.transitions import numbers, read_only

NEARLY = 0.9  # what is avoided so often anyway is no rival: without it hardly anything changes
EXCUSED = 2.0  # how many times the level a p-value may be where a rival is forbidden
EVEN = 0.01  # of two whose log-likelihoods differ no more, naming one would be tossing a coin


@dataclass(frozen=True, eq=False, kw_only=True)
class Selection:
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
    seen: Seen
    policy: Callable[[MDP], np.ndarray]
    level: float
    worlds: dict[frozenset[int], World] = field(default_factory=dict)
    sites: dict[frozenset[int], tuple[MDP, np.ndarray]] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether the chance to avoid two is that to avoid one, times the other's without it."""
        certain = (self.mdp.transitions.probabilities > 0).sum(axis=2) <= 1
        return self.mdp.discount == 1.0 and bool(certain.all()) and not self.seen.lengths.any()

    def site(self, key: frozenset[int], own: Closure) -> tuple[MDP, np.ndarray]:
        """The model without these candidates, of this closure, and the policy there."""
        if key not in self.sites:
            there = self.mdp.available & ~own.removed.reshape(self.mdp.available.shape)
            mdp = replace(self.mdp, available=there) if own.removed.any() else self.mdp
            self.sites[key] = mdp, self.policy(mdp)
        return self.sites[key]

    def world(self, chosen: Sequence[int]) -> World:
        """The world without the chosen candidates."""
        key = frozenset(chosen)
        if key not in self.worlds:
            base = [self.candidates[k] for k in sorted(key)]
            own = close(self.mdp, [base])
            closure = close(self.mdp, [[*base, one] for one in self.candidates])
            mdp, policy = self.site(key, own)
            kinds = Avoiding(mdp, policy, closure.removed, closure.dead)
            seen = self.seen
            self.worlds[key] = World(
                mdp=mdp,
                policy=policy,
                own=own,
                closure=closure,
                logs=kinds.total(seen.starts, seen.lengths, seen.many),
                broken=closure.broken_by(seen.taken, seen.visited),
                idle=closure.within(own),
            )
        return self.worlds[key]

    def alone(self, chosen: Sequence[int], given: Sequence[int]) -> Avoiding | None:
        """What avoids the chosen where the given ones are forbidden; None where these imply it."""
        base = [self.candidates[other] for other in given]
        both = close(self.mdp, [base, [*base, *(self.candidates[k] for k in chosen)]])
        own, more = both.one(0), both.one(1)
        if more.within(own)[0]:
            return None
        return Avoiding(*self.site(frozenset(given), own), more.removed, more.dead)

    def log_chance(self, chosen: Sequence[int], given: Sequence[int]) -> float:
        """The log-chance to avoid the chosen where the given are forbidden; -inf if implied."""
        if (avoiding := self.alone(chosen, given)) is None:
            return -np.inf
        return float(avoiding.total(self.seen.starts, self.seen.lengths, self.seen.many)[0])

    def rivals_of(
        self, k: int, others: Sequence[int], dropped: Sequence[int]
    ) -> tuple[Rival, Rival]:
        """The rivals in whose place candidate k looks most like chance, the others forbidden.

        First of those that are likely avoided anyway, which leave nothing to be said of k; then of
        those that are not, with which one of the two is forbidden. Where one that was dropped
        may be forbidden as well, rivals are sought there, too.
        """
        worst, seen = [Rival(), Rival()], self.seen
        for extra in [(), *((other,) for other in dropped)]:
            given = (*others, *extra)
            world = self.world(given)
            broken = world.own.broken_by(seen.taken, seen.visited)[0]
            if k in given or world.idle[k] or broken:
                continue
            # A rival can raise a chance by its own at most, where conditioning is forbidding.
            own = world.logs[k] - np.log(EXCUSED * self.level) if self.exact else 0.0
            possible = ~world.broken & ~world.idle & (world.logs <= min(own, np.log(NEARLY)))
            found = world.logs <= np.log(self.level)
            for j in np.flatnonzero(possible).tolist():
                log = -np.inf if j == k else self.log_chance([k], (*given, j))
                if log > worst[which := int(found[j])].log:
                    worst[which] = Rival(log, j, (*given, j))
        return worst[0], worst[1]

    def named(self, k: int, doubt: Rival) -> list[int]:
        """Candidate k, the rival that is a part of it, or neither where both are as likely."""
        world, rival = self.world(doubt.given[:-1]), doubt.given[-1]
        if world.closure.one(rival).within(world.closure.one(k))[0]:
            return [rival]
        return [k] if abs(world.logs[rival] - world.logs[k]) > EVEN else []

    def outlast(self, chosen: Sequence[int]) -> Outcome:
        """Those of the chosen that outlast their rivals, and what is found when others go."""
        kept, dropped, bar = list(chosen), [], np.log(EXCUSED * self.level)
        parted: list[int] = []  # each once: what is found again beside its part stays
        while True:
            rivals = [self.rivals_of(k, [one for one in kept if one != k], dropped) for k in kept]
            worst = int(np.argmax([one.log for one, _ in rivals])) if kept else 0
            if kept and rivals[worst][0].log > bar:
                dropped.append(kept.pop(worst))
                continue
            pairs = [(k, two) for k, (_, two) in zip(kept, rivals, strict=True) if two.log > bar]
            named = ((k, self.named(k, two)) for k, two in pairs if k not in parted)
            if other := next(((k, better) for k, better in named if better != [k]), None):
                k, better = other
                (parted if better else dropped).append(k)
                kept = self.extended([*(one for one in kept if one != k), *better], dropped)
                continue
            more = self.extended(kept, dropped)
            if set(more) <= set(kept):
                rivals = self._contested(kept, {k: two.given[-1] for k, two in pairs})
                return Outcome(kept, [rivals.get(k) for k in kept], dropped)
            kept = more

    def _contested(self, kept: Sequence[int], rivals: dict[int, int]) -> dict[int, int]:
        """Rivals of those kept, also those that explain it together with another's rival."""
        found, bar = dict(rivals), np.log(EXCUSED * self.level)
        for k, less in ((k, less) for k in kept if k not in rivals for less in rivals):
            given = (*(one for one in kept if one not in (k, less)), rivals[less])
            own = Rival(self.log_chance([k], given), given[-1], given)
            for doubt in sorted((own, *self.rivals_of(k, given, ())), key=lambda one: one.log):
                if doubt.log > bar and self.log_chance([k, less], doubt.given) > bar:
                    found[k] = doubt.given[-1]
        return found

    def extended(self, chosen: Sequence[int], barred: Sequence[int]) -> list[int]:
        """The chosen, then what is found beside them, each still unlikely given all others."""
        found = list(chosen)
        while (best := self._best(found, barred)) is not None:
            found.append(best)
        while len(found) > 1:
            p_values = self.p_values(found)
            worst = int(np.argmax(p_values))
            if p_values[worst] <= self.level:
                break
            found.pop(worst)
        return found

    def _best(self, chosen: list[int], barred: Sequence[int]) -> int | None:
        """The next candidate: the smallest set that explains what the least likely one does."""
        world, level = self.world(chosen), self.level
        open_to = world.tested(level) & ~world.broken & ~world.idle
        open_to[list(barred)] = False
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

    def twins(self, chosen: Sequence[int]) -> list[tuple[str, str]]:
        """A chosen candidate and one that would take away the same, so that nobody can tell."""
        found, gone, names = [], self.world(chosen).own.removed, [c.name for c in self.candidates]
        for c in chosen:
            world = self.world([other for other in chosen if other != c])
            same = np.flatnonzero((world.closure.removed == gone).all(axis=0)).tolist()
            found += [(names[c], names[k]) for k in same if k not in chosen]
        return found

    def p_values(self, chosen: Sequence[int]) -> list[float]:
        """Of "this one is allowed", given that the other chosen ones are not."""
        rest = ([other for other in chosen if other != k] for k in chosen)
        return [float(np.exp(self.world(r).logs[k])) for k, r in zip(chosen, rest, strict=True)]


@dataclass(frozen=True)
class Forbidden:
    """What a demonstrator never does although its reward would have it done, with p-values.

    Attributes:
        reward: [D] weights of the reward features where they are known; None to recover them, of
            either sign, in the world without what is forbidden.
        temperature: the demonstrator's noise, in units of the known reward; None to estimate it.
        candidates: what may be forbidden: "states", "actions", "features" (their values or level
            sets) and "pairs".
        groups: further candidates: name -> states, or pairs (state, action).
        level: chance of a false finding.
        tolerance: of the expert's values, and of the fits.
        max_steps: most evaluations of a loss.
    """

    reward: Sequence[float] | None = None
    temperature: float | None = None
    candidates: Sequence[str] = ("states", "actions", "features")
    groups: Mapping[str, Sequence[int] | Sequence[tuple[int, int]]] = field(default_factory=dict)
    _: KW_ONLY
    level: float = 0.05
    tolerance: float = 1e-9
    max_steps: int = 300

    def __post_init__(self) -> None:
        kinds = (self.candidates,) if isinstance(self.candidates, str) else tuple(self.candidates)
        unknown = [kind for kind in kinds if kind not in KINDS]
        if unknown:
            raise InvalidModel(f"candidates must be of {', '.join(KINDS)}; got {unknown[0]!r:.60}")
        object.__setattr__(self, "candidates", kinds)
        object.__setattr__(self, "groups", {str(n): members(n, g) for n, g in self.groups.items()})
        if not kinds and not self.groups:
            raise InvalidModel("there must be something that may be forbidden; got no candidates")
        if not 0.0 < self.level < 1.0 or not self.tolerance > 0 or self.max_steps < 1:
            must = "level must be in (0, 1), tolerance positive, max_steps at least 1"
            raise InvalidModel(f"{must}; got {self.level}, {self.tolerance}, {self.max_steps}")
        if self.reward is None and self.temperature is not None:
            must = "a temperature is in units of a known reward: give `reward`, or leave it out"
            raise InvalidModel(f"{must}; got temperature {self.temperature}")
        if self.reward is not None:
            self._known()  # checks both
            weights = np.atleast_1d(numbers(self.reward, "reward"))
            object.__setattr__(self, "reward", tuple(weights.tolist()))

    def _known(self) -> ConstraintOnly:
        """The fit of what is not known beside the reward: the temperature, if anything."""
        assert self.reward is not None
        limits = {"tolerance": self.tolerance, "max_steps": self.max_steps}
        return ConstraintOnly(self.reward, self.temperature, **limits)

    def expert(self, mdp: MDP, features: Features, demonstrations: Demonstrations) -> Recovery:
        """The recovery of what is not known of the expert in a world, by reward features alone."""
        if self.reward is not None and self.temperature is not None:
            solver = SoftDual(self.temperature, self.tolerance, self.max_steps)
            known = {"reward_weights": self.reward, "solver": solver, "level": self.level}
            return known_expert(mdp, features, demonstrations, **known)
        if self.reward is not None:
            return self._known().fit(mdp, features, demonstrations, throw=False)
        only = RewardOnly(free_reward=True, tolerance=self.tolerance, max_steps=self.max_steps)
        return only.fit(mdp, features, demonstrations, throw=False)

    def policy(self, mdp: MDP, features: Features, demonstrations: Demonstrations) -> np.ndarray:
        """[S, A] what the demonstrator would do in a world, 0 in the rows of ends."""
        if self.reward is None or self.temperature is None:
            return self.expert(mdp, features, demonstrations).solution.policy
        solver = SoftDual(self.temperature, self.tolerance, self.max_steps)
        return solver.solve(mdp, features.objective(self.reward)).policy

    def selection(self, mdp: MDP, features: Features, demonstrations: Demonstrations) -> Selection:
        """The candidates in this world, to be tested on what was seen there."""
        alone, groups = features.reward_alone, list(self.groups.items())
        return Selection(
            mdp=mdp,
            candidates=candidates_of(mdp, features, self.candidates, groups),  # type: ignore[arg-type]
            seen=Seen.of(mdp, demonstrations),
            policy=lambda world: self.policy(world, alone, demonstrations),
            level=self.level,
        )

    def fit(
        self, mdp: MDP, features: Features, demonstrations: Observed, *, throw: bool = True
    ) -> Recovery:
        """The recovery in the world without what is forbidden: `forbidden`, `undecided`, findings.

        Cost features only make candidates: the recovery has a reward and hard constraints.
        """
        check_task(mdp, features, demonstrations, in_memory=True)
        assert isinstance(demonstrations, Demonstrations)
        alone = features.reward_alone
        if self.reward is not None and len(self.reward) != (size := features.reward.shape[-1]):
            raise InvalidModel(f"reward must have shape ({size},); got ({len(self.reward)},)")
        search = self.selection(mdp, features, demonstrations)
        check_left(mdp, demonstrations, search.candidates, search.seen)
        chosen = search.extended([], ())
        if self.reward is None or self.temperature is None:  # rivals do not change what it wants
            found = self.expert(search.world(chosen).mdp, alone, demonstrations)
            held = SoftDual(found.temperature, self.tolerance)
            search = replace(
                search,
                policy=lambda w: held.solve(w, found.objective, throw=False).policy,
                worlds={},
                sites={},
            )
        outcome = search.outlast(chosen)
        left = search.world(outcome.chosen).mdp, alone, demonstrations
        recovery = self.expert(*left)
        if self.reward is not None and self.temperature is not None:
            free = replace(self, temperature=None).expert(*left)
            recovery = doubts.with_noise_tested(recovery, free)
        return delivered(_reported(self, search, outcome, recovery), throw)


def _reported(
    options: Forbidden, search: Selection, outcome: Outcome, recovery: Recovery
) -> Recovery:
    """The recovery with what is forbidden, what is undecided, and both in words."""
    chosen, world = outcome.chosen, search.world(outcome.chosen)

    def record(k: int, p: float, more: float, rival: int | None) -> HardConstraint:
        one, name = search.candidates[k], "" if rival is None else search.candidates[rival].name
        return replace(one.record(), p_value=p, more=more, rival=name)

    found = zip(chosen, search.p_values(chosen), outcome.rivals, strict=True)
    forbidden = [record(k, p, 0.0, rival) for k, p, rival in found]
    undecided, forecast = [], Forecast.of(world, search.seen)
    bar = np.log(EXCUSED * options.level)
    for k in np.flatnonzero(~world.broken & ~world.idle).tolist():
        worst, instead = Rival(float(world.logs[k])), None
        if worst.log <= np.log(options.level):
            others = [one for one in outcome.dropped if one != k]
            doubt = max(search.rivals_of(k, chosen, others), key=lambda one: one.log)
            if doubt.log > bar and (avoiding := search.alone([k], doubt.given)) is not None:
                worst, instead = doubt, (doubt.log - bar, avoiding)
        more = forecast.needed(k, options.level, instead)
        undecided.append(record(k, float(np.exp(worst.log)), more, worst.rival))
    undecided.sort(key=lambda one: one.p_value)
    guessed = options.reward is None or options.temperature is None
    said = [
        *doubts.forbidden_findings(forbidden),
        *doubts.twin_findings(search.twins(chosen)),
        *doubts.undecided_findings(undecided, ASSURED),
        doubts.tested_finding(len(search.candidates), options.level, guessed),
    ]
    return replace(
        recovery,
        identification=replace(recovery.identification, findings=told_after_fit(recovery, said)),
        estimator=repr(options),
        forbidden=tuple(forbidden),
        undecided=tuple(undecided),
        available=read_only(world.mdp.available),
    )
