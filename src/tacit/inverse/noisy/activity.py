"""Which constraints the steps need: tests of one, of several at once, and how many are asked for.

Constraints that can stand in for each other are each not needed beside the other, and yet one of
them is: what is tested first is all of them at once against none. A finding about one constraint
or about a set of them is made only below a test of all that are still in doubt, so that any wrong
finding at all is as rare as the level says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from tacit.inference.boundary import activity_p_value, is_beyond
from tacit.inference.numerics import (
    DRAWS,
    at_level,
)
from tacit.inverse.diagnostics import holm
from tacit.inverse.findings import Finding, Kind, chance, listed
from tacit.inverse.noisy.boltzmann import Fit, completed, refit_moving
from tacit.inverse.noisy.inference import advantages, information, informed
from tacit.inverse.noisy.steps import Steps, curvature, of_constraints, priced, small_sample
from tacit.inverse.sets import ConstraintSet, Fitted, Selection, Trial, constraint_sets

# Share of a loss that the end of its search leaves open.
ROUNDING = 1e-9

Scattering = Callable[[Fit, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False, kw_only=True)
class Verdict:
    """What the tests say about the constraints.

    Attributes:
        unadjusted: [K] p-values of "this constraint is not active", each beside all the others.
        p_values: [K] the same, for all of them together.
        active: [K] bool, those shown to be active by themselves; None where those kept are.
        sets: constraints that can stand in for each other, of which one at least is active.
        selection: how many constraints the data ask for.
        settled: [K] `unadjusted` if the dynamics were as estimated; None where they are known.
        at_level: [K] bool, whether the error of a simulated law decided; None where it did not.
    """

    unadjusted: np.ndarray
    p_values: np.ndarray
    active: np.ndarray | None = None
    sets: tuple[ConstraintSet, ...] = ()
    selection: Selection | None = None
    settled: np.ndarray | None = None
    at_level: np.ndarray | None = None

    @classmethod
    def of(cls, p_values: np.ndarray, level: float = 1.0) -> Verdict:
        """The verdict of tests that were each made by itself, at a level."""
        decided = at_level(p_values, level)
        return cls(unadjusted=p_values, p_values=p_values, at_level=decided)


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


def active_constraints(
    steps: Steps,
    full: Fit,
    *,
    level: float,
    max_steps: int,
    seed: int,
    scatter: Scattering | None = None,
    settled: Scattering | None = None,
    robust: bool = False,
) -> tuple[Fit, Verdict]:
    """The fit with only the constraints that the steps ask for, and the verdict on all of them.

    Args:
        steps: what was seen.
        full: the fit with every constraint.
        level: of the tests.
        max_steps: most evaluations of the loss, each fit.
        seed: of the simulated laws.
        scatter: (fit, scores [D, S, A]) -> [D, D] what these scatter, where that is not the
            information: the model does not fit, or the dynamics were estimated.
        settled: the same if the dynamics were as estimated; None where they are known.
        robust: whether the model does not fit, so that the loss bends otherwise than it should.
    """
    space = steps.space
    if not full.converged:  # a search cut short has shown nothing
        return full, Verdict.of(np.ones(space.constraints))

    fits: dict[tuple[int, ...], Fit] = {(): full}
    laws: dict[tuple[int, ...], Callable[[Scattering | None], float]] = {}

    def ratio_of(loss: float) -> float:
        return 2.0 * (loss - full.point.loss) * small_sample(steps.counts.sum(), full.free.sum())

    def clear(loss: float) -> bool:
        return scatter is None and is_beyond(space.size, ratio_of(loss))

    def drop(members: tuple[int, ...]) -> Trial[tuple[int, ...]]:
        tested = of_constraints(space.blocks, members, space.size)
        lower = np.where(tested, 0.0, full.problem.lower)
        upper = np.where(tested, 0.0, full.problem.upper)
        near = fits[max((one for one in fits if set(one) <= set(members)), key=len)]
        lean = refit_moving(steps.mdp, full, near, max_steps=max_steps, lower=lower, upper=upper)
        fits[members], loss = lean, float(lean.point.loss)

        def p_value(scatter: Scattering | None = scatter) -> float:
            if not np.isfinite(loss) or clear(loss):
                return 1.0 / (1 + DRAWS)  # without it nothing has a finite value, or all fits ill
            if not (full.point.x[tested] > 0).any():
                return 1.0
            less = fits[members] = completed(steps.mdp, lean)
            scores = advantages(steps.mdp, space, less)
            fisher = information(scores, less.point.policy, steps.visits)
            fisher = informed(less, curvature(steps, less, scores) if robust else fisher)
            meat = None if scatter is None else scatter(less, scores)
            held = (upper > lower) & ~less.free
            law = (fisher, tested, less.free, held)
            tests = holm_levels(level, space.constraints)
            return activity_p_value(ratio_of(loss), *law, seed=seed, levels=tests, scatter=meat)

        laws[members] = p_value
        return Trial(members, loss, int(lean.free.sum()), p_value)

    whole = Trial[tuple[int, ...]]((), float(full.point.loss), int(full.free.sum()), lambda: 1.0)
    given = priced(space.blocks, full.problem.lower)
    asked = (whole, space.constraints, drop)
    many = float(steps.counts.sum())
    kept, verdict = judge(*asked, level=level, steps=many, given=given, clear=clear)
    if settled is not None:
        chances = [laws[k,](settled) if (k,) in laws else np.nan for k in range(space.constraints)]
        verdict = replace(verdict, settled=np.array(chances))
    return completed(steps.mdp, fits[kept]) if kept else full, verdict


def verdict_findings(
    verdict: Verdict,
    multipliers: np.ndarray,
    *,
    converged: bool = True,
    robust: bool = False,
    cautious: bool | None = None,
) -> list[Finding]:
    """Which constraints were shown to restrain the demonstrator, which sets, and how many.

    Args:
        verdict: of the tests.
        multipliers: [K] prices of the fit that is reported.
        converged: whether its search did.
        robust: whether the model does not fit, so that tests are sandwich ones.
        cautious: whether p-values are upper limits, of very many features; None of fewer.
    """
    count, most = len(multipliers), "at most " if cautious else ""
    care = "; with so many features the test is cautious" if cautious else ""
    family = f", by Holm's method over {count} constraints" if count > 1 else ""
    by = ", by a sandwich test" if robust else ""
    where = " in the best approximation, since the model does not fit" if robust else ""
    active = multipliers > 0 if verdict.active is None else verdict.active
    findings = []
    for k, (price, p) in enumerate(zip(multipliers, verdict.p_values.tolist(), strict=True)):
        shown = f"{most}{chance(p)}"
        if any(k in one.members for one in verdict.sets):
            continue
        if np.isnan(p) and converged:
            said = f"Constraint {k} has a price by what was fixed beforehand: it was not tested."
            if cautious is None:
                findings.append(Finding(said, Kind.ASSUMED, constraint=k))
                continue
            kind = Kind.NOTE
            said = (
                f"Whether constraint {k} is active was not tested: under a prior, or where the "
                "search did not converge, no law is known; nor where its price was fixed."
            )
        elif not price > 0:
            kind = Kind.INACTIVE
            said = (
                f"Constraint {k} is not identified: the demonstrations do not show that it "
                f"restrains the expert ({shown} if it does not{family}{care})."
            )
        elif not converged:
            kind = Kind.NOT_CONVERGED
            said = f"Whether constraint {k} is active is not known: the search did not converge."
        else:
            assert active[k]  # what was not shown to be active has no price in the reported fit
            kind = Kind.ACTIVE
            said = f"Constraint {k} is active{where} ({shown} if it were not{family}{by})."
        findings.append(Finding(said, kind, constraint=k, number=p))
    for one in verdict.sets:
        given = max(one.members, key=lambda k: multipliers[k])
        said = (
            f"Constraint {one.name} is active ({chance(one.p_value)} if none of them "
            f"were{by}); the data do not tell which. The answer given puts all on constraint "
            f"{given}; each price interval includes the case that another carries all."
        )
        findings.append(
            Finding(said, Kind.NOT_IDENTIFIED, constraints=one.members, number=one.p_value)
        )
    findings += level_findings(verdict)
    if verdict.selection is not None and count > 1 and converged:
        chosen = verdict.selection
        told = listed(
            [f"{b:.6g} with {n}" for n, b in enumerate(chosen.criteria.tolist()) if np.isfinite(b)]
        )
        said = (
            f"The data ask for {chosen.count} of {count} constraints: the least BIC is the best "
            f"({told})."
        )
        findings.append(Finding(said, constraints=chosen.members, number=float(chosen.count)))
    return findings


def level_findings(verdict: Verdict) -> list[Finding]:
    """Which tests the error of a simulated law may have decided."""
    close = () if verdict.at_level is None else np.flatnonzero(verdict.at_level).tolist()
    return [
        Finding(
            f"The test of constraint {k} is at the level: its p-value is so near to what decides "
            "that the draws of its law do not tell on which side it is.",
            constraint=k,
            number=float(verdict.p_values[k]),
        )
        for k in close
    ]


def holm_levels(level: float, count: int) -> np.ndarray:
    """[count] what p-values are compared with by Holm's method."""
    return level / np.arange(1, max(count, 1) + 1)
