"""Which constraints are active: tests of one, of several at once, and how many are asked for.

Closed testing (Marcus et al. 1976): a constraint, or a set of which one must be active, is reported
only below a test of all constraints that are still in doubt, so that any wrong finding at all is as
rare as the level says. Constraints that can stand in for each other are each not needed beside the
other, and yet one of them is: such sets are reported as sets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from tacit.inference.boundary import activity_p_value, is_beyond
from tacit.inference.tails import DRAWS, at_level, chi_square_tail, holm

Fitted = TypeVar("Fitted")

# Share of a loss that the end of its search leaves open.
ROUNDING = 1e-9
# Steps a parameter below which likelihood ratios are those of a small sample.
FEW = 10
# The least that a simulated law says.
LEAST = 1.0 / (1 + DRAWS)


@dataclass(frozen=True)
class ConstraintSet:
    """Constraints that can stand in for each other: one at least is active, which is not told.

    Attributes:
        members: their numbers.
        p_value: of "none of them is active".
    """

    members: tuple[int, ...]
    p_value: float

    @property
    def name(self) -> str:
        """Its members in words, such as "0 or 1"."""
        return ", ".join(map(str, self.members[:-1])) + f" or {self.members[-1]}"


@dataclass(frozen=True, eq=False)
class Selection:
    """How many constraints the data ask for.

    Attributes:
        count: the number with the least BIC, of as good ones the fewest.
        members: which constraints those are.
        criteria: [K + 1] BIC with 0 to K constraints, the least needed left out first.
        log_likelihoods: [K + 1].
    """

    count: int
    members: tuple[int, ...]
    criteria: np.ndarray
    log_likelihoods: np.ndarray


@dataclass(frozen=True, eq=False, kw_only=True)
class Verdict:
    """What the tests say about the constraints.

    Attributes:
        unadjusted: [K] p-values of "this constraint is not active", each beside all the others.
        p_values: [K] the same, for all of them together.
        active: [K] bool, those shown to be active by themselves; None where those kept are.
        sets: constraints that can stand in for each other, of which one at least is active.
        selection: how many constraints the data ask for.
        if_dynamics_known: [K] `unadjusted` if the dynamics were as estimated; None where they are
            known.
        at_level: [K] bool, whether the error of a simulated law decided; None where it did not.
        bounded: whether p-values are upper bounds, as no law could be simulated.
        absence: why nothing was tested; empty where it was.
    """

    unadjusted: np.ndarray
    p_values: np.ndarray
    active: np.ndarray | None = None
    sets: tuple[ConstraintSet, ...] = ()
    selection: Selection | None = None
    if_dynamics_known: np.ndarray | None = None
    at_level: np.ndarray | None = None
    bounded: bool = False
    absence: str = ""

    @classmethod
    def of(cls, p_values: np.ndarray, level: float = 1.0) -> Verdict:
        """The verdict of tests that were each made by itself, at a level."""
        decided = at_level(p_values, level)
        return cls(unadjusted=p_values, p_values=p_values, at_level=decided)

    @classmethod
    def none(cls, count: int, absence: str) -> Verdict:
        """No verdict on so many constraints, and why."""
        nothing = np.full(count, np.nan)
        return cls(unadjusted=nothing, p_values=nothing, absence=absence)

    def among(self, group: range, chosen: Selection) -> Verdict:
        """The verdict on a group of the constraints, numbered from 0; so many are `chosen`."""
        mine, first = slice(group.start, group.stop), group.start

        def moved(members: Sequence[int]) -> tuple[int, ...]:
            return tuple(k - first for k in members)

        return replace(
            self,
            unadjusted=self.unadjusted[mine],
            p_values=self.p_values[mine],
            active=None if self.active is None else self.active[mine],
            sets=tuple(
                replace(one, members=moved(one.members))
                for one in self.sets
                if one.members[0] in group
            ),
            selection=replace(chosen, members=moved(chosen.members)),
            at_level=None if self.at_level is None else self.at_level[mine],
        )


class ScoreLaw(NamedTuple):
    """Law of the scores at a fit.

    Attributes:
        information: [D, D] of the loss.
        scatter: [D, D] covariance of the scores; None where it is the information.
        if_dynamics_known: [D, D] the same if counted dynamics were as estimated; None where that is
            the scatter.
    """

    information: np.ndarray
    scatter: np.ndarray | None = None
    if_dynamics_known: np.ndarray | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class BoundedFit(Generic[Fitted]):
    """A maximum of the likelihood within bounds, as arrays.

    Attributes:
        fitted: the fit.
        loss: minus its log-likelihood.
        x: [D] its parameters.
        lower: [D] bounds.
        upper: [D] bounds; those of what is left out are equal.
        law: () -> the law of the scores there; None where it is too large to be written down.
    """

    fitted: Fitted
    loss: float
    x: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    law: Callable[[], ScoreLaw | None] = lambda: None

    @property
    def free(self) -> np.ndarray:
        """[D] bool, the parameters that no bound holds."""
        return (self.x > self.lower) & (self.x < self.upper)

    @property
    def movable(self) -> np.ndarray:
        """[D] bool, the parameters that are not fixed."""
        return self.upper > self.lower


@dataclass(frozen=True, eq=False)
class Trial(Generic[Fitted]):
    """A fit without some of the constraints.

    Attributes:
        fitted: the fit.
        loss: minus its log-likelihood.
        degrees: how many of its parameters no bound holds.
        p_value: () -> chance of what was lost, if the constraints left out were all idle.
    """

    fitted: Fitted
    loss: float
    degrees: int
    p_value: Callable[[], float]


def active_constraints(
    full: BoundedFit[Fitted],
    count: int,
    restricted: Callable[[tuple[int, ...]], BoundedFit[Fitted]],
    *,
    level: float,
    steps: float,
    seed: int = 0,
    given: Sequence[int] = (),
    groups: Sequence[Sequence[int]] = (),
    scattered: bool = False,
) -> tuple[Fitted, Verdict]:
    """The fit with only the constraints that the data ask for, and the verdict on all K.

    Every test is a likelihood ratio on the boundary, its law that of `boundary`; where that is too
    large to be written down the p-value is an upper bound, by the chi-square law of all parameters
    on their bounds.

    Args:
        full: the fit with every constraint. A search cut short has shown nothing: ask none then.
        count: K.
        restricted: numbers of constraints -> the fit without them.
        level: of the tests.
        steps: number of observed steps.
        seed: of the simulated laws.
        given: constraints that have a price by what was known beforehand: they are not tested.
        groups: of constraints that can stand in for each other, as in `judge`.
        scattered: whether scores may scatter otherwise than the information says.
    """
    levels, correction = holm_levels(level, count), small_sample(steps, full.free.sum())
    laws: dict[tuple[int, ...], tuple[BoundedFit[Fitted], ScoreLaw | None]] = {}

    def ratio_of(loss: float) -> float:
        return 2.0 * max(loss - full.loss, 0.0) * correction

    def clear(loss: float) -> bool:
        if not np.isfinite(loss):
            return True  # without them nothing has a finite value
        return not scattered and is_beyond(len(full.x), ratio_of(loss))

    def chance_of(less: BoundedFit[Fitted], law: ScoreLaw | None) -> float:
        ratio, held = ratio_of(less.loss), less.movable & ~less.free
        tested = full.movable & ~less.movable
        if law is None:
            return chi_square_tail(int(tested.sum() + held.sum()), ratio)
        about = {"levels": levels, "seed": seed, "scatter": law.scatter}
        return activity_p_value(ratio, law.information, tested, less.free, held, **about)

    def drop(members: tuple[int, ...]) -> Trial[Fitted]:
        less = restricted(members)

        def p_value() -> float:
            if clear(less.loss):
                return LEAST
            if not (full.x[full.movable & ~less.movable] > 0).any():
                return 1.0
            laws[members] = less, less.law()
            return chance_of(*laws[members])

        return Trial(less.fitted, less.loss, int(less.free.sum()), p_value)

    whole = Trial(full.fitted, full.loss, int(full.free.sum()), lambda: 1.0)
    rules = {"level": level, "steps": steps, "given": given, "groups": groups}
    kept, verdict = judge(whole, count, drop, **rules, clear=clear)
    if any(law is None for _, law in laws.values()):
        verdict = replace(verdict, bounded=True, at_level=None)
    if any(law is not None and law.if_dynamics_known is not None for _, law in laws.values()):
        known = verdict.unadjusted.copy()
        for k in range(count):
            less, law = laws.get((k,), (full, None))
            if law is not None:
                known[k] = chance_of(less, law._replace(scatter=law.if_dynamics_known))
        verdict = replace(verdict, if_dynamics_known=known)
    return kept, verdict


def judge(
    full: Trial[Fitted],
    count: int,
    drop: Callable[[tuple[int, ...]], Trial[Fitted]],
    *,
    level: float,
    steps: float,
    given: Sequence[int] = (),
    groups: Sequence[Sequence[int]] = (),
    clear: Callable[[float], bool] | None = None,
) -> tuple[Fitted, Verdict]:
    """The fit with only the constraints that the data ask for, and the verdict on all K.

    Of a set that can stand in for each other, the fit has the one that explains most.

    Args:
        full: the fit with every constraint. A search cut short has shown nothing: judge none then.
        count: K.
        drop: constraints, in order -> the fit without them.
        level: of the tests.
        steps: number of observed steps.
        given: constraints that have a price by what was known beforehand: they are not tested.
        groups: of constraints that can stand in for each other at all, where not all can; how many
            are asked for is then left to who knows the groups.
        clear: the loss without a constraint -> whether that is so large that no set with it has a
            larger p-value than it has alone.
    """
    trial = cache(lambda members: drop(members) if members else full)
    chance_of = cache(lambda members: trial(members).p_value())

    def without(members: Sequence[int]) -> Trial[Fitted]:
        return trial(tuple(sorted(members)))

    def p_of(members: Sequence[int]) -> float:
        return chance_of(tuple(sorted(members)))

    every = [k for k in range(count) if k not in given]
    alone, adjusted, reached = np.full(count, np.nan), np.ones(count), 0.0
    for k in every:
        alone[k] = p_of([k])
    left, active = list(every), np.isin(np.arange(count), list(given))
    close = np.zeros(count, bool)
    adjusted[active] = np.nan
    while left:
        # Holm's method, below a test of all that are left at once.
        k = min(left, key=lambda one: alone[one])
        if clear is None or not clear(without([k]).loss):
            reached = max(reached, p_of(left))
            close[k] = at_level(p_of(left), level)
        close[k] |= bool(at_level(alone[k], level / len(left)))
        reached = adjusted[k] = max(reached, min(len(left) * alone[k], 1.0))
        if reached > level:
            break
        active[k] = True
        left.remove(k)
    adjusted[left] = np.maximum(holm(alone[left].tolist()), reached)
    parts = [[k for k in left if k in group] for group in groups or [left]]
    open_parts = [part for part in parts if len(part) > 1 and p_of(left) <= level]
    own = level / max(len(open_parts), 1)
    sets = [one for part in open_parts for one in constraint_sets(part, p_of, own)]
    kept = np.flatnonzero(active).tolist()
    for one in sets:
        close[list(one.members)] |= bool(at_level(one.p_value, own))
        others = [[j for j in every if j not in (*kept, k)] for k in one.members]
        losses = np.array([without(other).loss for other in others])
        near = losses.min() + ROUNDING * np.abs(losses.min())  # of copies the first
        kept.append(one.members[int(np.argmax(losses <= near))])
    found = without([k for k in every if k not in kept]).fitted
    return found, Verdict(
        unadjusted=alone,
        p_values=adjusted,
        active=active,
        sets=tuple(sets),
        selection=None if groups else selection_of(every, without, steps, given),
        at_level=close,
    )


def selection_of(
    every: Sequence[int],
    without: Callable[[Sequence[int]], Trial[Fitted]],
    steps: float,
    given: Sequence[int] = (),
) -> Selection:
    """What each number of constraints explains, from all down to none, the least needed first.

    Fewer than those that are given explain nothing. What is lost without a constraint grows with
    those that are gone already: one that lost more before than another does now is not fitted.
    """
    gone, rest = list[int](), list(every)
    path = [(tuple(every), without(()))]
    lost = dict.fromkeys(every, -np.inf)  # at least, without each
    while rest:
        best = np.inf
        for k in sorted(rest, key=lost.__getitem__):
            if lost[k] > best + ROUNDING * abs(best):
                break
            lost[k] = without([*gone, k]).loss
            best = min(best, lost[k])
        gone.append(next(k for k in rest if lost[k] <= best + ROUNDING * abs(best)))
        rest.remove(gone[-1])
        path.append((tuple(rest), without(gone)))
    path.reverse()
    losses = np.array([trial.loss for _, trial in path])
    degrees = np.array([trial.degrees for _, trial in path])
    criteria = 2.0 * losses + np.log(max(steps, 1.0)) * degrees
    # Of as good ones the fewest: rounding must not choose.
    best = int(np.argmax(criteria <= criteria.min() + 1e-6 * np.log(max(steps, 2.0))))
    below, members = np.full(len(given), np.inf), tuple(sorted((*given, *path[best][0])))
    return Selection(
        count=best + len(given),
        members=members,
        criteria=np.concatenate([below, criteria]),
        log_likelihoods=-np.concatenate([below, losses]),
    )


def constraint_sets(
    left: Sequence[int], p_of: Callable[[Sequence[int]], float], level: float
) -> tuple[ConstraintSet, ...]:
    """The smallest sets among what is left in doubt of which one at least is active."""
    found, rest = [], list(left)
    while len(rest) > 1 and p_of(rest) <= level:
        members = list(rest)
        while len(members) > 2:
            smaller = [[j for j in members if j != k] for k in members]
            best = min(smaller, key=p_of)
            if p_of(best) > level:
                break
            members = best
        found.append(ConstraintSet(tuple(members), p_of(members)))
        rest = [k for k in rest if k not in members]
    return tuple(found)


def holm_levels(level: float, count: int) -> np.ndarray:
    """[count] what p-values are compared with by Holm's method."""
    return level / np.arange(1, max(count, 1) + 1)


def small_sample(steps: float, parameters: float) -> float:
    """By what a likelihood ratio is multiplied where there are few steps for the free parameters.

    Of n steps and q free parameters it is about n / (n - q) times what its law says, as in a test
    of means; where there are more parameters than steps it says nothing. From `FEW` steps a
    parameter on that is less than chance does, and 1.
    """
    few = float(steps) < FEW * float(parameters)
    return max(1.0 - float(parameters) / max(float(steps), 1.0), 0.0) if few else 1.0
