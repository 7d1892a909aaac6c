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
from tacit.estimators.baselines import ConstraintOnly, RewardOnly
from tacit.estimators.convex import known_expert
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
from tacit.inference.diagnostics import judged
from tacit.inference.expectations import check_task
from tacit.inference.goodness import NOISE, FitTests, Part
from tacit.inference.sets import HardConstraint
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
        if (
            self.reward is None or self.temperature is None
        ):  # more names do not change what it wants
            found = self.expert(search.world(simplest).mdp, alone, demonstrations)
            held = SoftDual(found.temperature, self.tolerance)
            search = replace(
                search,
                policy=lambda w: held.solve(w, found.objective, throw=False).policy,
                worlds={},
                sites={},
            )
        belief = _posterior(search, demonstrations).belief(simplest)
        gone = sorted({*simplest, *belief.names})
        if search.closure(gone).broken_by(search.seen.taken, search.seen.visited)[0]:
            gone = sorted(belief.names)  # by chance both may lead into a dead end together
        left = search.world(gone).mdp, alone, demonstrations
        recovery = self.expert(*left)
        if self.reward is not None and self.temperature is not None:
            free = replace(self, temperature=None).expert(*left)
            recovery = _with_noise_tested(recovery, free)
        return delivered(_reported(self, search, belief, (simplest, gone), recovery), throw)


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


def _reported(
    options: Forbidden,
    search: ForwardSelection,
    belief: Belief,
    numbers: tuple[list[int], list[int]],
    recovery: Recovery,
) -> Recovery:
    """The recovery with what is forbidden, what is undecided, and both in words.

    Args:
        options: of the estimator.
        search: the candidates.
        belief: what is named, and how surely.
        numbers: the simplest explanation, and all that the world of the recovery is without.
        recovery: in that world.
    """
    (simplest, gone), found, fit = numbers, search.candidates, recovery.goodness
    seeming = [found[k].name for k in belief.names]
    if not fit.adequate:
        belief = belief.withheld()
    world, partners = search.world(gone), {}
    for one, two, chance in belief.pairs:
        partners |= {one: (found[two].name, chance), two: (found[one].name, chance)}

    def record(k: int, **more: object) -> HardConstraint:
        log = search.log_chance(k, [g for g in gone if g != k]) if k in gone else world.logs[k]
        known = {"p_value": float(np.exp(log)), "allowed": float(belief.allowed[k])}
        return replace(found[k].record(), **(known | more))  # type: ignore[arg-type]

    strict = dict(zip(belief.names, belief.strict, strict=True))
    forbidden = tuple(record(k, more=0.0, strict=strict[k]) for k in belief.names)
    named = search.closure(belief.names)
    nothing = search.world(())
    open_to = ~world.broken & ~nothing.broken & ~world.closure.within(named)
    open_to &= nothing.closure.removed.any(axis=0)  # what nobody can do is no question
    open_to[[*simplest, *gone]] = True  # what explains what was seen and is not named is undecided
    open_to[belief.names] = False
    undecided = []
    for k in np.flatnonzero(open_to).tolist():
        rival, neither = partners.get(k, ("", np.nan))
        undecided.append(record(k, more=float(belief.more[k]), rival=rival, neither=neither))
    undecided.sort(key=lambda one: (one.allowed, one.p_value))
    plain = tuple(record(k, more=np.nan) for k in simplest)
    guessed = options.reward is None or options.temperature is None
    sentence = [
        *([] if fit.adequate or not seeming else [misfit_finding(seeming, fit.p_value)]),
        *([] if belief.agreed else [apart_finding()]),
        *record_findings(forbidden, undecided, plain),
        *rule_findings(len(found), options.level, belief.spent, guessed),
    ]
    return replace(
        recovery,
        identification=recovery.identification.with_findings(sentence),
        estimator=repr(options),
        forbidden=forbidden,
        undecided=tuple(undecided),
        simplest=plain,
        available=read_only(world.mdp.available),
    )


def _with_noise_tested(recovery: Recovery, free: Recovery) -> Recovery:
    """The recovery of a given noise, its goodness with a test against one of a free noise."""
    from scipy.special import chdtrc

    untested, known = recovery.goodness, recovery.identification
    gain = max(0.0, 2.0 * (free.log_likelihood - recovery.log_likelihood))
    p = float(chdtrc(1.0, gain))
    part = Part(name=NOISE, statistic=gain, p_value=p, method="chi-square", degrees=1.0)
    tests = FitTests(
        parts=(*untested.parts, part),
        residuals=untested.residuals,
        trajectory_residuals=untested.trajectory_residuals,
        worst=untested.worst,
    )
    goodness = judged(tests, untested.level)
    rest = [one for one in known.findings if one not in untested.findings()]
    identification = replace(known, findings=(*goodness.findings(), *rest))
    return replace(recovery, goodness=goodness, identification=identification)
