"""Hard constraints: what nobody with this reward would have left undone by chance.

The p-value of a candidate is the chance h to avoid it where no demonstration takes it and 1
otherwise, and h is known beforehand: testing only the candidates with the smallest h, as long as
these add up to at most the level, errs with at most that chance. Every candidate counts, whether it
was taken or not.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed
from tacit.errors import InvalidModel
from tacit.forward.soft_dual import SoftDual
from tacit.inverse.candidates import (
    KINDS,
    Candidate,
    Closure,
    Members,
    Seen,
    avoidance,
    candidates_of,
    close,
    first_breach,
)
from tacit.inverse.expectations import check_task
from tacit.inverse.families.baselines import ConstraintOnly, RewardOnly
from tacit.inverse.findings import Finding, Kind, chance, listed
from tacit.inverse.noisy.convex import known_expert
from tacit.inverse.recovery import HardConstraint, Recovery, delivered
from tacit.model.mdp import MDP
from tacit.model.objective import Features
from tacit.model.transitions import numbers, read_only

# Candidates named in the sentence on what is undecided.
NAMED = 5
# Demonstrations beyond which nobody will wait for a decision.
MOST = 10**9


@dataclass(frozen=True, eq=False, kw_only=True)
class World:
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

    def demonstrations_needed(self, k: int, episodes: int, level: float) -> float:
        """Demonstrations like these after which candidate k would be tested; infinite if never."""
        rates = self.logs / episodes
        others = rates[(rates <= rates[k]) & np.isfinite(rates)]
        high = 1
        while np.exp(high * others).sum() > level:
            high *= 2
            if high > MOST:
                return np.inf
        tried = range(high // 2, high + 1)
        return float(tried[bisect_left(tried, -level, key=lambda n: -np.exp(n * others).sum())])


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
    """

    mdp: MDP
    candidates: list[Candidate]
    seen: Seen
    policy: Callable[[MDP], np.ndarray]
    level: float
    worlds: dict[frozenset[int], World] = field(default_factory=dict)

    def world(self, chosen: Sequence[int]) -> World:
        """The world without the chosen candidates."""
        key = frozenset(chosen)
        if key not in self.worlds:
            base = [self.candidates[k] for k in sorted(key)]
            own = close(self.mdp, [base])
            closure = close(self.mdp, [[*base, one] for one in self.candidates])
            there = self.mdp.available & ~own.removed.reshape(self.mdp.available.shape)
            mdp = replace(self.mdp, available=there) if own.removed.any() else self.mdp
            policy = self.policy(mdp)
            logs, broken = avoidance(mdp, policy, closure, self.seen), closure.broken_by(self.seen)
            idle = closure.within(own)
            self.worlds[key] = World(
                mdp=mdp, own=own, closure=closure, logs=logs, broken=broken, idle=idle
            )
        return self.worlds[key]

    def select(self) -> list[int]:
        """The forbidden candidates, in the order in which they were found."""
        chosen: list[int] = []
        while (best := self._best(chosen)) is not None:
            chosen.append(best)
        while len(chosen) > 1:
            p_values = self.p_values(chosen)
            worst = int(np.argmax(p_values))
            if p_values[worst] <= self.level:
                break
            chosen.pop(worst)
        return chosen

    def _best(self, chosen: list[int]) -> int | None:
        """The next candidate: the smallest set that explains what the least likely one does."""
        world, level = self.world(chosen), self.level
        found = np.flatnonzero(world.tested(level) & ~world.broken & ~world.idle)
        if not len(found):
            return None
        found = found[np.argsort(world.logs[found], kind="stable")]
        best = int(found[0])
        for k in found[1:].tolist():
            less, more = world.closure.one(k), world.closure.one(best)
            nested = less.within(more)[0] and not more.within(less)[0]
            if nested and not self.world([*chosen, k]).tested(level)[best]:
                best = k
        return best

    def twins(self, chosen: Sequence[int]) -> list[Finding]:
        """Candidates that would take away the same as a chosen one, so that nobody can tell."""
        findings, gone = [], self.world(chosen).own.removed
        for c in chosen:
            world = self.world([other for other in chosen if other != c])
            for k in np.flatnonzero((world.closure.removed == gone).all(axis=0)).tolist():
                if k not in chosen:
                    one, other = self.candidates[c].name, self.candidates[k].name
                    said = f"Whether {one} or {other} is forbidden makes no difference here."
                    findings.append(Finding(said, Kind.NOT_IDENTIFIED, feature=other))
        return findings

    def p_values(self, chosen: Sequence[int]) -> list[float]:
        """Of "this one is allowed", given that the other chosen ones are not."""
        return [
            float(np.exp(self.world([other for other in chosen if other != k]).logs[k]))
            for k in chosen
        ]


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
    level: float = 0.05
    tolerance: float = 1e-9
    max_steps: int = 300

    def __post_init__(self) -> None:
        kinds = (self.candidates,) if isinstance(self.candidates, str) else tuple(self.candidates)
        unknown = [kind for kind in kinds if kind not in KINDS]
        if unknown:
            raise InvalidModel(f"candidates must be of {', '.join(KINDS)}; got {unknown[0]!r:.60}")
        object.__setattr__(self, "candidates", kinds)
        object.__setattr__(self, "groups", {str(n): _members(n, g) for n, g in self.groups.items()})
        if not kinds and not self.groups:
            raise InvalidModel("there must be something that may be forbidden; got no candidates")
        if not 0.0 < self.level < 1.0 or not self.tolerance > 0 or self.max_steps < 1:
            raise InvalidModel(
                "level must be in (0, 1), tolerance positive, max_steps at least 1; "
                f"got {self.level}, {self.tolerance}, {self.max_steps}"
            )
        if self.reward is None:
            if self.temperature is not None:
                raise InvalidModel(
                    "a temperature is in units of a known reward: give `reward`, or leave "
                    f"`temperature` out; got temperature {self.temperature}"
                )
            return
        self._known()  # checks both
        weights = np.atleast_1d(numbers(self.reward, "reward"))
        object.__setattr__(self, "reward", tuple(weights.tolist()))

    def _known(self) -> ConstraintOnly:
        """The fit of what is not known beside the reward: the temperature, if anything."""
        assert self.reward is not None
        return ConstraintOnly(
            self.reward, self.temperature, tolerance=self.tolerance, max_steps=self.max_steps
        )

    def expert(self, mdp: MDP, features: Features, demonstrations: Demonstrations) -> Recovery:
        """The recovery of what is not known of the expert in a world without hard constraints.

        Features are those of the reward alone.
        """
        if self.reward is not None and self.temperature is not None:
            return known_expert(
                mdp,
                features,
                demonstrations,
                reward_weights=self.reward,
                solver=SoftDual(self.temperature, self.tolerance, self.max_steps),
                level=self.level,
            )
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

    def fit(
        self, mdp: MDP, features: Features, demonstrations: Observed, *, throw: bool = True
    ) -> Recovery:
        """The recovery in the world without what is forbidden: `forbidden`, `undecided`, findings.

        Cost features only make candidates: the recovery has a reward and hard constraints.
        """
        check_task(mdp, features, demonstrations, in_memory=True)
        assert isinstance(demonstrations, Demonstrations)
        alone = Features(features.reward, reward_names=features.reward_names)
        if self.reward is not None and len(self.reward) != features.reward.shape[-1]:
            raise InvalidModel(
                f"reward must have shape ({features.reward.shape[-1]},); got ({len(self.reward)},)"
            )
        groups = [(name, tuple(members)) for name, members in self.groups.items()]
        found = candidates_of(mdp, features, self.candidates, groups)  # type: ignore[arg-type]
        seen = Seen.of(mdp, demonstrations)
        _check_left(mdp, demonstrations, found, seen)
        search = Selection(
            mdp=mdp,
            candidates=found,
            seen=seen,
            policy=lambda world: self.policy(world, alone, demonstrations),
            level=self.level,
        )
        chosen = search.select()
        recovery = self.expert(search.world(chosen).mdp, alone, demonstrations)
        return delivered(_reported(self, search, chosen, recovery), throw)


def _members(name: str, given: Sequence[int] | Sequence[tuple[int, int]]) -> Members:
    """A group as plain numbers, states or pairs."""
    table = np.array(given)
    plain = table.ndim == 1 or (table.ndim == 2 and table.shape[1] == 2)
    if not plain or (table.size and table.dtype.kind not in "iu"):
        raise InvalidModel(
            f"a group must hold states or pairs (state, action), as whole numbers; group {name!r} "
            f"is {given!r:.60}"
        )
    return tuple(table.tolist() if table.ndim == 1 else map(tuple, table.tolist()))


def _check_left(
    mdp: MDP, demonstrations: Demonstrations, found: list[Candidate], seen: Seen
) -> None:
    """`InvalidModel` where a demonstration takes a given group, or where none is left to test."""
    closure = close(mdp, [[one] for one in found])
    broken = closure.broken_by(seen)
    for k, one in enumerate(found):
        if broken[k] and one.kind == "group":
            breach = first_breach(demonstrations, mdp.actions, closure.one(k))
            raise InvalidModel(
                f"a group that may be forbidden must not be taken by a demonstration; {one.name!r} "
                f"is: {breach}. Leave the group or the episode out"
            )
    if broken.all():
        raise InvalidModel(
            f"there must be something that no demonstration takes; all {len(found)} candidates "
            'are: add others ("pairs", or groups), or nothing can be forbidden here'
        )


def _reported(
    options: Forbidden, search: Selection, chosen: list[int], recovery: Recovery
) -> Recovery:
    """The recovery with what is forbidden, what is undecided, and both in words."""
    world, episodes = search.world(chosen), len(search.seen.starts)

    def record(k: int, p: float, more: float = 0.0) -> HardConstraint:
        one = search.candidates[k]
        return HardConstraint(kind=one.kind, index=one.index, name=one.name, p_value=p, more=more)

    forbidden = [record(k, p) for k, p in zip(chosen, search.p_values(chosen), strict=True)]
    left = np.flatnonzero(~world.broken & ~world.idle)
    left = left[np.argsort(world.logs[left], kind="stable")]
    undecided = []
    for k in left.tolist():
        needed = world.demonstrations_needed(k, episodes, options.level)
        undecided.append(record(k, float(np.exp(world.logs[k])), max(needed - episodes, 0.0)))
    said = [*_forbidden_findings(forbidden), *search.twins(chosen)]
    said += _open_findings(undecided, len(search.candidates), options)
    known = recovery.identification
    return replace(
        recovery,
        identification=replace(known, findings=(*said, *known.findings)),
        estimator=repr(options),
        forbidden=tuple(forbidden),
        undecided=tuple(undecided),
        available=read_only(world.mdp.available),
    )


def _about(one: HardConstraint) -> dict[str, int | str]:
    """The fields of `About` for a hard constraint."""
    if isinstance(one.index, tuple):
        return {"state": one.index[0], "action": one.index[1]}
    known = {"state": one.index, "action": one.index}
    return {one.kind: known[one.kind]} if one.kind in known else {"feature": one.name}


def _forbidden_findings(forbidden: Sequence[HardConstraint]) -> list[Finding]:
    findings = []
    for one in forbidden:
        said = (
            f"{one.name} is forbidden: no demonstration takes it, which would be chance if it were "
            f"allowed with {chance(one.p_value)}."
        )
        said = said[0].upper() + said[1:]
        findings.append(Finding(said, Kind.FORBIDDEN, **_about(one), number=one.p_value))
    return findings


def _open_findings(
    undecided: Sequence[HardConstraint], tested: int, options: Forbidden
) -> list[Finding]:
    findings = []
    if undecided:
        named = [
            f"{one.name} ({chance(one.p_value)}; "
            + (f"{one.more:.0f} more demonstrations would tell)" if one.more < MOST else "never)")
            for one in undecided[:NAMED]
        ]
        named += [f"{len(undecided) - NAMED} more"] if len(undecided) > NAMED else []
        verb = "is" if len(undecided) == 1 else "are"
        said = (
            f"Whether {listed(named)} {verb} forbidden cannot be told: the demonstrator would "
            "hardly have gone there anyway."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, number=len(undecided)))
    said = (
        f"{tested} candidates were tested together at the level {options.level:g}, each given what "
        "was found before it"
    )
    if options.reward is None or options.temperature is None:
        said += "; p-values take the recovered reward and noise for the true ones"
    return [*findings, Finding(f"{said}.", Kind.ERRORS, number=tested)]
