"""How well the numbers of a recovery are known, and whether the model fits what was seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tacit.inference.numerics import gamma_tails, student_tail
from tacit.inverse.findings import LEVEL, Finding, Kind, chance
from tacit.inverse.parameters import CONFIDENCE
from tacit.model.transitions import read_only

if TYPE_CHECKING:
    from tacit.inverse.sets import ConstraintSet, Selection

# (reward_direction, cost_directions) -> the ends of an interval.
Answer = Callable[[npt.ArrayLike, Iterable[npt.ArrayLike]], tuple[float, float]]

# The parts of a goodness, and what could mend each.
ACTIONS, TRAJECTORIES, TIME, STEPS, NOISE = "actions", "trajectories", "time", "steps", "noise"
MENDS = {
    ACTIONS: (
        "some steps may be lapses, it may plan with another discount, or a feature may be missing"
    ),
    TRAJECTORIES: (
        "there may be several kinds of demonstrators, in what they want or in their noise: fit "
        "them apart"
    ),
    TIME: "what it wants may change on the way, as in learning or tiring: fit early and late apart",
    STEPS: "it errs: `Likelihood` is the estimator for an expert with noise",
    NOISE: "the reward that was given, or its noise, may be another: leave `temperature` out",
}


@dataclass(frozen=True, kw_only=True)
class Part:
    """One test of the fit.

    Attributes:
        name: "actions" (given states), "trajectories" (between them), "time" (within them), "noise"
            (that was given), or "steps" that no explanation allows.
        statistic: what is large where the model fails; NaN where it could not be tested.
        p_value: chance of one this large if the model is right; NaN where there is none.
        adjusted: the same after Holm's correction for the other parts.
        method: law of the statistic: "chi-square", "bootstrap", "moments", "exact", or "between
            episodes" where choices decide how long these last.
        degrees: of freedom of the chi-square; NaN for other laws.
        draws: of the bootstrap; 0 for other laws.
        absence: why it could not be tested; empty where it was.
    """

    name: str
    statistic: float = np.nan
    p_value: float = np.nan
    adjusted: float = np.nan
    method: str = ""
    degrees: float = np.nan
    draws: int = 0
    absence: str = ""


@dataclass(frozen=True, kw_only=True)
class Worst:
    """The action by which the model fails most.

    Attributes:
        state: where.
        action: which.
        observed: share of the visits in which it was taken.
        expected: the share that the model says.
    """

    state: int
    action: int
    observed: float
    expected: float

    def sentence(self, states: Sequence[str] = (), actions: Sequence[str] = ()) -> str:
        """It in words, with names where they are given."""
        where = states[self.state] if states else f"state {self.state}"
        what = actions[self.action] if actions else f"action {self.action}"
        return (
            f"in {where} it takes {what} in {_percent(self.observed)} of visits, the model says "
            f"{_percent(self.expected)}"
        )


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

    def __post_init__(self) -> None:
        for name in ("residuals", "trajectory_residuals"):
            array = np.array(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, read_only(array))
        object.__setattr__(self, "parts", tuple(self.parts))

    def __repr__(self) -> str:
        told = "adequate" if self.adequate else "not adequate"
        told = f"not tested: {self.absence}" if self.absence else told
        return f"Goodness({told}, p_value={self.p_value:.3g})"

    @property
    def hidden(self) -> bool:
        """Whether only the doubt about estimated dynamics keeps misfit from being said."""
        return self.adequate and self.settled <= self.level

    @property
    def _farthest(self) -> int:
        return int(np.nanargmax(self.trajectory_residuals))

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
                "Whether the model fits cannot be told: with the dynamics as estimated it does not "
                f"({chance(self.settled)}), and only the doubt about them leaves it open "
                f"({chance(self.p_value)}). Another discount, above all, looks like other "
                "dynamics: more steps to estimate them from would help more than anything else."
            )
        if self.adequate:
            return (
                f"The model fits what was seen ({chance(self.p_value)})."
                if noisy
                else "The model fits what was seen: some objective explains every step."
                if self.share == 0.0
                else "The model fits what was seen: some objective explains all but "
                f"{_percent(self.share)} of the steps, which errors may have been."
            )
        said = (
            f"The model does not fit what was seen ({chance(self.p_value)})"
            if noisy
            else f"The model does not fit: no explanation allows {_percent(self.share)} of the "
            "steps"
        )
        # What is done where comes first: it can be looked at, and often explains the others.
        order = (STEPS, NOISE, ACTIONS, TRAJECTORIES, TIME)
        failed = sorted(self.failed or (STEPS,), key=order.index)
        where = []
        if self.worst is not None and failed[0] in (ACTIONS, STEPS):
            where.append(self.worst.sentence(states, actions))
        if TRAJECTORIES in failed:
            who = f"episode {self.farthest}" if self.farthest else f"number {self._farthest}"
            where.append(f"trajectories differ more than chance allows, {who} most")
        if TIME in failed:
            where.append("its choices change on the way from the first to the last steps")
        said += ": " + "; ".join(where) if where else ""
        mends = "; ".join(MENDS[name] for name in failed)
        about = " All numbers are about the best approximation within the model." if noisy else ""
        return f"{said}. What could mend it: {mends}.{about}"

    def findings(self) -> list[Finding]:
        """The finding of misfit, or that only the doubt about the dynamics hides it, if any."""
        if self.hidden:
            return [Finding(self.sentence(), Kind.NOT_IDENTIFIED, number=self.settled)]
        if self.adequate:
            return []
        about = {} if (bad := self.worst) is None else {"state": bad.state, "action": bad.action}
        about |= {"trajectory": self._farthest} if TRAJECTORIES in self.failed else {}
        number = self.p_value if np.isnan(self.share) else self.share
        said = replace(self, farthest="").sentence()  # a run that is shared names nobody
        return [Finding(said, Kind.MISFIT, **about, number=number)]


def worst_action(counts: np.ndarray, policy: np.ndarray) -> Worst | None:
    """The state whose steps lose most likelihood, and there the action seen most too often."""
    visits = counts.sum(axis=1)
    expected = visits[:, None] * policy
    with np.errstate(divide="ignore", invalid="ignore"):
        lost = np.where(counts > 0, counts * np.log(counts / np.maximum(expected, 1e-300)), 0.0)
    state = int(lost.sum(axis=1).argmax())
    if not visits[state] > 0:
        return None
    action = int(np.abs(counts[state] - expected[state]).argmax())
    taken = float(counts[state, action] / visits[state])
    return Worst(state=state, action=action, observed=taken, expected=float(policy[state, action]))


def drawn_part(name: str, statistic: float, law: np.ndarray) -> Part:
    """The test of a statistic by its rank among draws of its law."""
    # Ties by rounding count as at least as large.
    p = float((1 + (law >= statistic * (1.0 - 1e-12)).sum()) / (1 + len(law)))
    return Part(name=name, statistic=statistic, p_value=p, method="bootstrap", draws=len(law))


def moments_part(name: str, statistic: float, mean: float, variance: float, draws: int) -> Part:
    """The test by a scaled chi-square law that has this mean and variance."""
    if not (mean > 0 and variance > 0):
        return Part(name=name, absence="nothing was left to chance")
    p = gamma_tail(statistic, mean, variance)
    return Part(name=name, statistic=statistic, p_value=p, method="moments", draws=draws)


def gamma_tail(statistic: float, mean: float, variance: float) -> float:
    """The chance that a scaled chi-square number of this mean and variance is larger."""
    return float(gamma_tails(mean**2 / variance, max(statistic, 0.0) * mean / variance)[1])


def excess_p(excess: np.ndarray) -> float:
    """The chance of a mean as large as that of these numbers [E], if their expectation is 0."""
    many, spread = len(excess), float(excess.std(ddof=1)) if len(excess) > 1 else 0.0
    if not spread > 0:
        return np.nan
    return student_tail(many - 1, float(excess.mean()) / spread * np.sqrt(many))


def untested(reason: str) -> Goodness:
    """The `Goodness` where nothing could be tested, and why."""
    return Goodness(residuals=np.zeros((0, 0)), trajectory_residuals=np.zeros(0), absence=reason)


def combined(
    parts: Iterable[Part],
    *,
    level: float,
    residuals: np.ndarray,
    trajectory_residuals: np.ndarray,
    worst: Worst | None,
) -> Goodness:
    """The `Goodness` of several tests, by Holm's method; the arguments are fields of it."""
    chosen = list(parts)
    tested = [part for part in chosen if not np.isnan(part.p_value)]
    if not tested:
        reason = next((part.absence for part in chosen if part.absence), "there is nothing to test")
        return replace(untested(reason), residuals=residuals, parts=tuple(chosen))
    adjusted = holm([part.p_value for part in tested])
    told = dict(zip([part.name for part in tested], adjusted.tolist(), strict=True))
    least = min(tested, key=lambda part: part.p_value)
    p_value = float(adjusted.min())
    return Goodness(
        statistic=least.statistic,
        p_value=p_value,
        adequate=p_value > level,
        level=level,
        residuals=residuals,
        trajectory_residuals=trajectory_residuals,
        parts=tuple(replace(part, adjusted=told.get(part.name, np.nan)) for part in chosen),
        worst=worst,
    )


def holm(p_values: Sequence[float]) -> np.ndarray:
    """[n] p-values adjusted by Holm's method, which needs no independence."""
    p = np.asarray(p_values, float)
    order = np.argsort(p, kind="stable")
    steps = p[order] * (len(p) - np.arange(len(p)))
    result = np.empty(len(p))
    result[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return result


def _percent(share: float) -> str:
    """A share in words that never rounds one step to nothing."""
    if 0.0 < share < 0.001:
        return "less than 0.1 %"
    return f"{100.0 * share:.2g} %" if share < 0.995 else f"{100.0 * share:.3g} %"


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
        findings: what was and was not found.
        answer: what `interval` asks; None where the estimator cannot tell.
        p_values: [K] of "this constraint is not active", adjusted for all of them by Holm's method;
            NaN where it was not tested.
        confidence: of the intervals.
        unadjusted: [K] the same, each by itself.
        sets: constraints that can stand in for each other, of which one at least is active.
        selection: how many constraints the data ask for; None where that was not asked.
        at_level: [K] bool, whether the p-value is so near to what decides that the draws of its law
            do not tell on which side it is.
        dynamics_draws: draws of estimated dynamics that errors, intervals and tests count; 0 where
            they take the dynamics for known.
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
    dynamics_draws: int = 0

    def __post_init__(self) -> None:
        for name in ("reward_intervals", "multiplier_intervals", "budget_intervals"):
            table = np.array(getattr(self, name), dtype=np.float64).reshape(-1, 2)
            object.__setattr__(self, name, read_only(table))
        for kind in ("reward", "multiplier", "budget"):
            name = f"{kind}_standard_errors"
            object.__setattr__(self, name, read_only(np.array(getattr(self, name), np.float64)))
        for name, tail in (("cost_intervals", (-1, 2)), ("cost_standard_errors", (-1,))):
            parts = (np.array(part, np.float64).reshape(tail) for part in getattr(self, name))
            object.__setattr__(self, name, tuple(read_only(part) for part in parts))
        object.__setattr__(self, "active", read_only(np.array(self.active, dtype=bool)))
        object.__setattr__(self, "findings", tuple(self.findings))
        # Whoever adds a sentence says its kind: logic asks for that.
        assert all(hasattr(one, "kind") for one in self.findings), self.findings
        for name in ("p_values", "unadjusted"):
            tested = np.array(getattr(self, name), dtype=np.float64)
            tested = tested if len(tested) else np.full(len(self.active), np.nan)
            object.__setattr__(self, name, read_only(tested))
        decided = np.array(self.at_level, bool)
        decided = decided if len(decided) else np.zeros(len(self.active), bool)
        object.__setattr__(self, "at_level", read_only(decided))
        object.__setattr__(self, "sets", tuple(self.sets))

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
