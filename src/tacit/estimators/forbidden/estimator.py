"""`Forbidden`: what nobody with this reward would have left undone by chance.

Reward and noise are known, or fitted in the world of the simplest explanation; the posterior over
sets of candidates then names what is forbidden (`posterior.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed
from tacit.errors import InvalidModel
from tacit.estimators.assembly import Estimate, recovery
from tacit.estimators.baselines import ConstraintOnly, RewardOnly
from tacit.estimators.forbidden.candidates import KINDS, candidates_of, check_left, members
from tacit.estimators.forbidden.chains import StepsPosterior, WalksPosterior
from tacit.estimators.forbidden.posterior import Belief, SetPosterior
from tacit.estimators.forbidden.selection import ForwardSelection
from tacit.estimators.forbidden.sentences import (
    apart_finding,
    misfit_finding,
    record_findings,
    rule_findings,
)
from tacit.estimators.forbidden.steps import Steps
from tacit.estimators.forbidden.walks import Walks
from tacit.forward.avoidance import Coverage
from tacit.forward.soft_dual import SoftDual
from tacit.forward.solution import Status
from tacit.inference.diagnostics import Identification, goodness_of, judged
from tacit.inference.expectations import check_task
from tacit.inference.findings import Finding
from tacit.inference.goodness import NOISE, FittedChoices, FitTests, Part
from tacit.inference.sets import HardConstraint, unidentified
from tacit.inference.standardised import standard_of
from tacit.model.arguments import numbers, read_only
from tacit.model.mdp import MDP
from tacit.model.objective import Features
from tacit.recovery import Recovery, delivered


@dataclass(frozen=True)
class Forbidden:
    """What a demonstrator never does although its reward would have it done.

    A candidate is named by the posterior over all sets that may be forbidden; beside the names
    stand their p-values and the simplest explanation. Where reward and noise do not fit, nothing is
    named.

    Attributes:
        reward: [D] weights of the reward features where they are known; None to recover them, of
            either sign, in the world without what is forbidden.
        temperature: the demonstrator's noise, in units of the known reward; None to estimate it.
        candidates: what may be forbidden: "states", "actions", "features" (their values or level
            sets) and "pairs".
        groups: further candidates: name -> states, or pairs (state, action).
        level: that the chances of false names may add up to.
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
            return self._as_given(mdp, features, demonstrations)
        if self.reward is not None:
            return self._known().fit(mdp, features, demonstrations, throw=False)
        only = RewardOnly(free_reward=True, tolerance=self.tolerance, max_steps=self.max_steps)
        return only.fit(mdp, features, demonstrations, throw=False)

    def _as_given(self, mdp: MDP, features: Features, demonstrations: Demonstrations) -> Recovery:
        """The recovery of an expert of whom all is known: nothing is fitted, the fit is tested."""
        assert self.reward is not None
        assert self.temperature is not None
        given = np.array(self.reward)
        size = float(np.abs(given).sum())
        weights, objective = given / size, features.objective(given / size)
        solver = SoftDual(self.temperature / size, self.tolerance, self.max_steps)
        solution = solver.solve(mdp, objective, throw=False)
        counts = demonstrations.counts(mdp)
        choices = FittedChoices(
            counts=counts,
            policy=solution.policy,
            scores=np.zeros((0, *counts.shape)),  # nothing was fitted
            choices=mdp.available.sum(axis=1),
        )

        def certain(weights: np.ndarray) -> Identification:
            return replace(
                unidentified(weights, [], active=[]),
                reward_intervals=np.stack([weights, weights], axis=1),
                reward_standard_errors=np.zeros(len(weights)),
            )

        standard = standard_of(mdp, features)
        scaled = weights * standard.stacked
        found = Estimate(
            objective=objective,
            solution=solution,
            reward_weights=weights,
            cost_weights=[],
            multipliers=np.zeros(0),
            converged=solution.status is Status.CONVERGED,
            findings=[Finding("Reward weights and temperature were given.")],
            known=certain(weights),
            standard=standard.knowing(certain(scaled / np.abs(scaled).sum())),
            goodness=goodness_of(demonstrations, choices, level=self.level),
        )
        return recovery("", mdp, features, demonstrations, found)

    def policy(self, mdp: MDP, features: Features, demonstrations: Demonstrations) -> np.ndarray:
        """[S, A] what the demonstrator would do in a world, 0 in the rows of ends."""
        if self.reward is None or self.temperature is None:
            return self.expert(mdp, features, demonstrations).solution.policy
        solver = SoftDual(self.temperature, self.tolerance, self.max_steps)
        return solver.solve(mdp, features.objective(self.reward)).policy

    def selection(
        self, mdp: MDP, features: Features, demonstrations: Demonstrations
    ) -> ForwardSelection:
        """The candidates in this world, to be tested on what was seen there."""
        alone, groups = features.reward_alone, list(self.groups.items())
        return ForwardSelection(
            mdp=mdp,
            candidates=candidates_of(mdp, features, self.candidates, groups),  # type: ignore[arg-type]
            seen=Coverage.of(mdp, demonstrations),
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
        simplest = search.simplest()
        if self.reward is None or self.temperature is None:
            # Further names do not change what the expert of that world wants.
            expert = self.expert(search.world(simplest).mdp, alone, demonstrations)
            solver = SoftDual(expert.temperature, self.tolerance)
            search = replace(
                search,
                policy=lambda world: solver.solve(world, expert.objective, throw=False).policy,
                worlds={},
                sites={},
            )
        belief = _posterior(search, demonstrations).belief(simplest)
        removed = sorted({*simplest, *belief.names})
        if search.closure(removed).broken_by(search.seen.taken, search.seen.visited)[0]:
            removed = sorted(belief.names)  # by chance both may lead into a dead end together
        world = search.world(removed).mdp
        recovery = self.expert(world, alone, demonstrations)
        if self.reward is not None and self.temperature is not None:
            free = replace(self, temperature=None).expert(world, alone, demonstrations)
            recovery = _with_noise_tested(recovery, free)
        report = _Report(search, belief, simplest=simplest, removed=removed)
        return delivered(report.added_to(recovery, self), throw)


def _posterior(search: ForwardSelection, demonstrations: Demonstrations) -> SetPosterior:
    """The posterior over the sets of these candidates."""
    nothing, seen = search.world(()), search.seen
    possible = np.flatnonzero(~nothing.broken & nothing.closure.removed.any(axis=0))
    known = {"possible": possible, "count": len(search.candidates)}
    known |= {"level": search.level, "episodes": seen.episodes}
    if not search.exact:
        return StepsPosterior(likelihood=Steps(search, demonstrations), **known)
    policy = search.site((), nothing.own)[1]
    walks = Walks(search.mdp, policy, search.candidates, seen)
    return WalksPosterior(likelihood=walks, **known)


@dataclass(frozen=True, eq=False)
class _Report:
    """What is forbidden and what is undecided, as records and in words.

    Attributes:
        search: the candidates.
        belief: the posterior: what is named, and how surely.
        simplest: numbers of the candidates of the simplest explanation.
        removed: numbers of all that the world of the recovery is without.
    """

    search: ForwardSelection
    belief: Belief
    _: KW_ONLY
    simplest: list[int]
    removed: list[int]

    def added_to(self, recovery: Recovery, options: Forbidden) -> Recovery:
        """The recovery in that world, with records and findings; no names if it does not fit."""
        report, fit = self, recovery.goodness
        if not fit.adequate:
            report = replace(self, belief=self.belief.withheld())
        strict = dict(zip(report.belief.names, report.belief.strict, strict=True))
        forbidden = tuple(report._record(k, more=0.0, strict=strict[k]) for k in strict)
        undecided = report._undecided()
        simplest = tuple(report._record(k, more=np.nan) for k in self.simplest)
        candidates = self.search.candidates
        withheld = [candidates[k].name for k in self.belief.names] if not fit.adequate else []
        is_fitted = options.reward is None or options.temperature is None
        findings = [
            *([misfit_finding(withheld, fit.p_value)] if withheld else []),
            *([] if self.belief.agreed else [apart_finding()]),
            *record_findings(forbidden, undecided, simplest),
            *rule_findings(len(candidates), options.level, report.belief.spent, is_fitted),
        ]
        return replace(
            recovery,
            identification=recovery.identification.with_findings(findings),
            estimator=repr(options),
            forbidden=forbidden,
            undecided=tuple(undecided),
            simplest=simplest,
            available=read_only(self.search.world(self.removed).mdp.available),
        )

    def _record(self, k: int, **fields: object) -> HardConstraint:
        """The record of a candidate, with its p-value in the world of the recovery."""
        if k in self.removed:
            log_chance = self.search.log_chance(k, [j for j in self.removed if j != k])
        else:
            log_chance = self.search.world(self.removed).logs[k]
        known = {"p_value": float(np.exp(log_chance)), "allowed": float(self.belief.allowed[k])}
        record = self.search.candidates[k].record()
        return replace(record, **(known | fields))  # type: ignore[arg-type]

    def _undecided(self) -> list[HardConstraint]:
        """Records of what may or may not be forbidden, the likeliest first."""
        search, belief = self.search, self.belief
        world, nothing = search.world(self.removed), search.world(())
        is_open = ~world.broken & ~nothing.broken
        is_open &= ~world.closure.within(search.closure(belief.names))
        is_open &= nothing.closure.removed.any(axis=0)  # what nobody can do is no question
        # What explains what was seen and is not named is undecided.
        is_open[[*self.simplest, *self.removed]] = True
        is_open[belief.names] = False
        rivals = {}
        for one, two, chance in belief.pairs:
            rivals[one] = (search.candidates[two].name, chance)
            rivals[two] = (search.candidates[one].name, chance)
        records = []
        for k in np.flatnonzero(is_open).tolist():
            rival, neither = rivals.get(k, ("", np.nan))
            more = float(belief.more[k])
            records.append(self._record(k, more=more, rival=rival, neither=neither))
        return sorted(records, key=lambda record: (record.allowed, record.p_value))


def _with_noise_tested(recovery: Recovery, free: Recovery) -> Recovery:
    """The recovery of a given noise, its goodness with a test against one of a free noise.

    A likelihood ratio test of one degree of freedom.
    """
    from scipy.special import chdtrc

    untested, identification = recovery.goodness, recovery.identification
    ratio = max(0.0, 2.0 * (free.log_likelihood - recovery.log_likelihood))
    p_value = float(chdtrc(1.0, ratio))
    part = Part(name=NOISE, statistic=ratio, p_value=p_value, method="chi-square", degrees=1.0)
    tests = FitTests(
        parts=(*untested.parts, part),
        residuals=untested.residuals,
        trajectory_residuals=untested.trajectory_residuals,
        worst=untested.worst,
    )
    goodness = judged(tests, untested.level)
    old = untested.findings()
    others = [finding for finding in identification.findings if finding not in old]
    findings = (*goodness.findings(), *others)
    return replace(
        recovery,
        goodness=goodness,
        identification=replace(identification, findings=findings),
    )
