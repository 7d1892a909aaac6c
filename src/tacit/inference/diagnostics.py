"""How well the numbers of a recovery are known, and whether the model fits what was seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from tacit.inference.findings import (
    LEVEL,
    NAMED,
    Finding,
    Kind,
    chance,
    in_order,
    listed,
    named_directions,
)
from tacit.inference.goodness import (
    ACTIONS,
    NOISE,
    SERIAL,
    STEPS,
    TIME,
    TIMES,
    TRAJECTORIES,
    FittedChoices,
    FitTests,
    Part,
    Worst,
    fit_tests,
    percentage,
)
from tacit.inference.parameters import CONFIDENCE
from tacit.inference.tails import holm
from tacit.model.arguments import read_only
from tacit.search.algebra import first_largest

if TYPE_CHECKING:
    from tacit.data.observed import Observed
    from tacit.inference.activity import ConstraintSet, Selection

# Power below which a test that says nothing means nothing.
LEAST_POWER = 0.2
# (reward_direction, cost_directions) -> the ends of an interval.
Answer = Callable[[npt.ArrayLike, Iterable[npt.ArrayLike]], tuple[float, float]]

# What could mend each part of a goodness.
MENDS = {
    ACTIONS: (
        "some steps may be lapses, it may plan with another discount, or a feature may be missing"
    ),
    TRAJECTORIES: (
        "there may be several kinds of demonstrators, in what they want or in their noise: fit "
        "them apart"
    ),
    TIME: "what it wants may change on the way, as in learning or tiring: fit early and late apart",
    TIMES: (
        "what it wants, or its noise, may depend on the time: make the time a part of the state, "
        "or fit its times apart"
    ),
    SERIAL: (
        "it may repeat or avoid what it did just before, or have plans of several steps: make the "
        "last action, or the last state, a part of the state (`features.Memory`)"
    ),
    STEPS: "it errs: `Likelihood` is the estimator for an expert with noise",
    NOISE: "the reward that was given, or its noise, may be another: leave `temperature` out",
}


@dataclass(frozen=True, kw_only=True)
class Power:
    """How often a demonstrator whom the model cannot describe would have been noticed.

    Attributes:
        expert: who it is, in words.
        chance: that data like these would have been said not to fit.
        low: a tenth of what that may be, the fit being uncertain; `chance` where trajectories are
            many.
        high: nine tenths likewise.
    """

    expert: str
    chance: float
    low: float
    high: float

    @property
    def sentence(self) -> str:
        """The chance in words."""
        if self.high - self.low > 0.1:
            return f"{_about(self.low)} to {_about(self.high)} % for {self.expert}"
        return f"about {_about(self.chance)} % for {self.expert}"


class Study(Protocol):
    """What knows, when it is asked, what would have been noticed."""

    @property
    def found(self) -> tuple[Power, ...]:
        """The power against each of some other demonstrators."""
        ...


# A field that is not written: what it computes is.
LAZY = {"packed": ""}


@dataclass(frozen=True, eq=False, kw_only=True)
class Goodness:
    """Whether the model fits what was seen, and where it does not.

    Attributes:
        statistic: of the part that speaks most against the model.
        p_value: of all parts together, by Holm; NaN where nothing could be tested.
        adequate: whether nothing speaks against the model at this level.
        level: of the test.
        residuals: [S, A] signed, by state and action: (seen - expected) / sqrt(expected), for
            optimal experts what the steps there fall short in all; NaN where nothing was chosen.
        trajectory_residuals: [E] how far beyond chance each trajectory is from the model, in
            standard deviations; empty where single trajectories are not known.
        parts: the tests.
        worst: the action by which the model fails most; None where it is not known.
        share: of steps that no explanation allows; NaN for noisy experts.
        weight: share of the gain that those steps forgo; NaN likewise.
        absence: why nothing could be tested; empty where something was.
        settled: `p_value` if estimated dynamics were the true ones, where only the doubt about them
            may keep misfit from being said; NaN where they are known, or misfit is said anyway.
        farthest: name of the trajectory that is farthest from the model; empty where it has none.
        unseen: names of parameters that together rest on fewer than five expected steps: the tests
            of trajectories, time and order leave them out.
        noticed: `power`, where it was read from a file.
        study: what computes it; None where nothing does.
    """

    statistic: float = np.nan
    p_value: float = np.nan
    adequate: bool = True
    level: float = LEVEL
    residuals: np.ndarray
    trajectory_residuals: np.ndarray
    parts: tuple[Part, ...] = ()
    worst: Worst | None = None
    share: float = np.nan
    weight: float = np.nan
    absence: str = ""
    settled: float = np.nan
    farthest: str = ""
    unseen: tuple[tuple[str, ...], ...] = ()
    noticed: tuple[Power, ...] = field(default=(), repr=False, metadata={"packed": "power"})
    study: Study | None = field(default=None, repr=False, metadata=LAZY)

    def __post_init__(self) -> None:
        for name in ("residuals", "trajectory_residuals"):
            array = np.array(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, read_only(array))
        object.__setattr__(self, "parts", tuple(self.parts))

    def __repr__(self) -> str:
        verdict = "adequate" if self.adequate else "not adequate"
        verdict = f"not tested: {self.absence}" if self.absence else verdict
        return f"Goodness({verdict}, p_value={self.p_value:.3g})"

    @property
    def verdict(self) -> str:
        """One of "fits", "misfit", "untested", "no power" where next to nobody would be noticed."""
        if not self.adequate:
            return "misfit"
        if self.absence:
            return "untested"
        weak = [one.chance < LEAST_POWER for one in self.power]
        return "no power" if self.hidden or (weak and all(weak)) else "fits"

    @property
    def power(self) -> tuple[Power, ...]:
        """What would have been noticed at this sample size; empty where it is not known.

        Computed when it is first asked for, in some tenths of a second.
        """
        if self.study is None or not self.adequate or self.absence:
            return self.noticed
        return self.study.found

    def power_sentence(self) -> str:
        """What would have been noticed, for people; empty where it is not known."""
        if not self.power:
            return ""
        chances = "; ".join(one.sentence for one in self.power)
        return f"Power of the test at this sample size: {chances}."

    @property
    def hidden(self) -> bool:
        """Whether only the doubt about estimated dynamics keeps misfit from being said."""
        return self.adequate and self.settled <= self.level

    @property
    def _farthest(self) -> int:
        return first_largest(self.trajectory_residuals)

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the parts that speak against the model, the worst first."""
        bad = [part for part in self.parts if part.adjusted <= self.level]
        return tuple(part.name for part in sorted(bad, key=lambda part: part.adjusted))

    def sentence(self, states: Sequence[str] = (), actions: Sequence[str] = ()) -> str:
        """What a person should read first, with the names [S] and [A] if there are any."""
        if self.absence:
            return f"Whether the model fits could not be tested: {self.absence}."
        noisy = np.isnan(self.share)
        if self.hidden:
            return (
                "Whether the model fits cannot be told. With the dynamics as estimated it does not "
                f"({chance(self.settled)}); their uncertainty leaves it open "
                f"({chance(self.p_value)}). A wrong discount looks much like wrong dynamics. More "
                "steps to estimate the dynamics from would help most."
            )
        if self.adequate:
            return (
                f"The model fits what was seen ({chance(self.p_value)})."
                if noisy
                else "The model fits what was seen: some objective explains every step."
                if self.share == 0.0
                else "The model fits what was seen: some objective explains all but "
                f"{percentage(self.share)} of the steps, which errors may have been."
            )
        sentence = (
            f"The model does not fit what was seen ({chance(self.p_value)})"
            if noisy
            else f"The model does not fit: no explanation allows {percentage(self.share)} of the "
            "steps"
        )
        # What is done where comes first: it can be looked at, and often explains the others.
        order = (STEPS, NOISE, ACTIONS, SERIAL, TRAJECTORIES, TIME, TIMES)
        failed = sorted(self.failed or (STEPS,), key=order.index)
        where = []
        if self.worst is not None and failed[0] in (ACTIONS, STEPS):
            where.append(self.worst.sentence(states, actions))
        if TRAJECTORIES in failed:
            who = f"episode {self.farthest}" if self.farthest else f"number {self._farthest}"
            where.append(f"trajectories differ more than chance allows, {who} most")
        if SERIAL in failed:
            where.append("an action depends on the one before it")
        if TIMES in failed and TIME not in failed:
            where.append("choices depend on the time within a trajectory")
        if TIME in failed:
            where.append("choices drift from the first to the last steps")
        sentence += ": " + "; ".join(where) if where else ""
        mends = "; ".join(MENDS[name] for name in failed)
        about = " All numbers are about the best approximation within the model." if noisy else ""
        return f"{sentence}. What could mend it: {mends}.{about}"

    def findings(self) -> list[Finding]:
        """The finding of misfit, or that only the doubt about the dynamics hides it, if any."""
        if self.hidden:
            return [Finding(self.sentence(), Kind.NOT_IDENTIFIED, number=self.settled)]
        if self.adequate:
            return []
        about = {} if (bad := self.worst) is None else {"state": bad.state, "action": bad.action}
        about |= {"trajectory": self._farthest} if TRAJECTORIES in self.failed else {}
        number = self.p_value if np.isnan(self.share) else self.share
        sentence = replace(self, farthest="").sentence()  # a run that is shared names nobody
        return [Finding(sentence, Kind.MISFIT, **about, number=number)]

    def unseen_findings(self, others: Iterable[Finding] = ()) -> list[Finding]:
        """One finding for each direction that next to no step tells of, and no other names."""
        named = {one.about.feature for one in others}
        return [
            Finding(
                f"The demonstrations hardly inform about {_what(names)}: fewer than five expected "
                "steps depend on it.",
                Kind.NOT_IDENTIFIED,
                feature=names[0],
            )
            for names in dict.fromkeys(self.unseen)
            if not named & {*names}
        ]


def _about(chance: float) -> str:
    """A share in per cent, to the five that a hundred draws tell."""
    return f"{5 * round(20.0 * chance)}"


def _what(names: Sequence[str]) -> str:
    """What one number, or the sum of several, would be."""
    return f"how much {names[0]} weighs" if len(names) == 1 else f"{listed(names, NAMED)} apart"


def untested(reason: str) -> Goodness:
    """The `Goodness` where nothing could be tested, and why."""
    return Goodness(residuals=np.zeros((0, 0)), trajectory_residuals=np.zeros(0), absence=reason)


def judged(tests: FitTests, level: float) -> Goodness:
    """The `Goodness` of several tests, by Holm's method."""
    tested = [part for part in tests.parts if not np.isnan(part.p_value)]
    if not tested:
        absences = [part.absence for part in tests.parts if part.absence]
        reason = absences[0] if absences else "there is nothing to test"
        return replace(untested(reason), residuals=tests.residuals, parts=tests.parts)
    adjusted = holm([part.p_value for part in tested])
    by_name = dict(zip([part.name for part in tested], adjusted.tolist(), strict=True))
    least = min(tested, key=lambda part: part.p_value)
    p_value = float(adjusted.min())
    return Goodness(
        statistic=least.statistic,
        p_value=p_value,
        adequate=p_value > level,
        level=level,
        residuals=tests.residuals,
        trajectory_residuals=tests.trajectory_residuals,
        parts=tuple(replace(part, adjusted=by_name.get(part.name, np.nan)) for part in tests.parts),
        worst=tests.worst,
    )


def goodness_of(
    demonstrations: Observed,
    fit: FittedChoices,
    *,
    level: float,
    seed: int = 0,
    states: int | None = None,
) -> Goodness:
    """The `Goodness` of a fitted policy, whose sites are states where nobody says how many are."""
    usual, states = level if level < 1.0 else LEVEL, states or len(fit.policy)
    tests = fit_tests(demonstrations, fit, states=states, level=usual, seed=seed)
    found = judged(tests, usual)
    return replace(found, unseen=named_directions(fit.names, tests.unseen)) if fit.names else found


@dataclass(frozen=True, kw_only=True)
class CountedDynamics:
    """What it does to errors that the dynamics were counted.

    Attributes:
        growth: by what standard errors of the fitted numbers grow, in the median.
        attenuation: by about what all coefficients are too small, as errors of the dynamics blur
            what the expert reacts to; 1 to 2. Errors have it in them, estimates do not.
        bias: the largest that makes, in standard errors.
        unseen: share of steps from the states of the demonstrations that lead to states never seen
            to follow there, by Good and Turing. No interval knows of them.
        made: what they were: counted, or only logged.

    Growth, attenuation and bias are NaN where the law of all numbers is not written out: questions
    then count the dynamics, but not their attenuation.
    """

    growth: float = np.nan
    attenuation: float = np.nan
    bias: float = np.nan
    unseen: float
    made: str = "counted"

    @property
    def price(self) -> float:
        """By what share of itself the variance grows: what a simulator would save."""
        return self.growth**2 - 1.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Identification:
    """How well each number of a recovery is known. NaN where the estimator cannot tell.

    Attributes:
        reward_intervals: [D, 2] lower and upper end for each reward weight.
        cost_intervals: one [D_k, 2] per constraint.
        multiplier_intervals: [K, 2].
        budget_intervals: [K, 2].
        reward_standard_errors: [D].
        cost_standard_errors: one [D_k] per constraint.
        multiplier_standard_errors: [K].
        budget_standard_errors: [K].
        active: [K] bool, whether the constraint was shown to restrain the demonstrator.
        findings: what was and was not found, by kind.
        answer: what `interval` asks; None where the estimator cannot tell.
        p_values: [K] of "this constraint is not active", adjusted for all of them by Holm's method;
            NaN where it was not tested.
        confidence: of the intervals.
        unadjusted: [K] the same, each by itself.
        sets: constraints that can stand in for each other, of which one at least is active.
        selection: how many constraints the data ask for; None where that was not asked.
        at_level: [K] bool, whether the p-value is so near to what decides that the draws of its law
            do not tell on which side it is.
        dynamics: what counted dynamics add to errors, intervals and tests; None where these take
            the dynamics for known.
    """

    reward_intervals: np.ndarray
    cost_intervals: Sequence[np.ndarray]
    multiplier_intervals: np.ndarray
    budget_intervals: np.ndarray
    reward_standard_errors: np.ndarray
    cost_standard_errors: Sequence[np.ndarray]
    multiplier_standard_errors: np.ndarray
    budget_standard_errors: np.ndarray
    active: np.ndarray
    findings: tuple[Finding, ...] = ()
    answer: Answer | None = None
    p_values: npt.ArrayLike = ()
    confidence: float = CONFIDENCE
    unadjusted: npt.ArrayLike = ()
    sets: tuple[ConstraintSet, ...] = ()
    selection: Selection | None = None
    at_level: npt.ArrayLike = ()
    dynamics: CountedDynamics | None = None

    def __post_init__(self) -> None:
        def frozen(numbers: npt.ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
            return read_only(np.array(numbers, dtype=np.float64).reshape(shape))

        for what, shape in (("intervals", (-1, 2)), ("standard_errors", (-1,))):
            for kind in ("reward", "multiplier", "budget"):
                name = f"{kind}_{what}"
                object.__setattr__(self, name, frozen(getattr(self, name), shape))
            name = f"cost_{what}"
            parts = tuple(frozen(part, shape) for part in getattr(self, name))
            object.__setattr__(self, name, parts)
        object.__setattr__(self, "active", read_only(np.array(self.active, dtype=bool)))
        object.__setattr__(self, "findings", in_order(self.findings))
        for name in ("p_values", "unadjusted"):
            tested = np.array(getattr(self, name), dtype=np.float64)
            tested = tested if len(tested) else np.full(len(self.active), np.nan)
            object.__setattr__(self, name, read_only(tested))
        decided = np.array(self.at_level, bool)
        decided = decided if len(decided) else np.zeros(len(self.active), bool)
        object.__setattr__(self, "at_level", read_only(decided))
        object.__setattr__(self, "sets", tuple(self.sets))

    def __repr__(self) -> str:
        active = [k for k, is_active in enumerate(self.active.tolist()) if is_active]
        return (
            f"Identification({self.confidence:.0%} intervals, active constraints {active} of "
            f"{len(self.active)}, {len(self.findings)} findings)"
        )

    def with_findings(self, findings: Iterable[Finding]) -> Identification:
        """The same with further findings."""
        return replace(self, findings=(*self.findings, *findings))

    def stacked(self, what: str) -> np.ndarray:
        """[N, ...] the "intervals" or the "standard_errors" of all numbers, in one array.

        Weights of the reward, of each cost, multipliers, budgets.
        """
        kinds = ("reward", "cost", "multiplier", "budget")
        reward, costs, multipliers, budgets = (getattr(self, f"{kind}_{what}") for kind in kinds)
        return np.concatenate([reward, *costs, multipliers, budgets])

    def with_stacked(self, *, intervals: np.ndarray, standard_errors: np.ndarray) -> Identification:
        """The same numbers with other intervals [N, 2] and errors [N], stacked likewise."""
        sizes = [len(self.reward_intervals), *map(len, self.cost_intervals), len(self.active)]
        reward, *costs, multipliers, budgets = np.split(intervals, np.cumsum(sizes))
        errors = np.split(standard_errors, np.cumsum(sizes))
        return replace(
            self,
            reward_intervals=reward,
            cost_intervals=costs,
            multiplier_intervals=multipliers,
            budget_intervals=budgets,
            reward_standard_errors=errors[0],
            cost_standard_errors=errors[1:-2],
            multiplier_standard_errors=errors[-2],
            budget_standard_errors=errors[-1],
        )

    def set_of(self, constraint: int) -> ConstraintSet | None:
        """The set of stand-ins that a constraint is in; None where it is in none."""
        return next((one for one in self.sets if constraint in one.members), None)

    def interval(
        self, reward_direction: npt.ArrayLike, cost_directions: Iterable[npt.ArrayLike] = ()
    ) -> tuple[float, float]:
        """Least and largest reward_direction . w + sum_k multiplier_k * cost_directions[k] . w_k.

        w are the reward weights, w_k those of constraint k. NaN where the estimator cannot tell.
        Multiples of one reward weight or of one price have the interval of the table. All else is
        exact for an `Explanation`; for a noisy expert it is the delta method, which knows no bounds
        and trusts the curvature: near a bound or with few steps it is rougher than the table.

        Args:
            reward_direction: [D].
            cost_directions: one [D_k] per constraint.
        """
        if self.answer is None:
            return np.nan, np.nan
        return self.answer(reward_direction, cost_directions)
