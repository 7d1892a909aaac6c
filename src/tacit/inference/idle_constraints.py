"""Which constraints a fit needs, in which of its chains, and the sentences about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.inference.activity import (
    BoundedFit,
    ConstraintSet,
    ScoreLaw,
    Selection,
    Trial,
    Verdict,
    active_constraints,
    selection_of,
)
from tacit.inference.findings import Finding, Kind, chance, listed
from tacit.likelihood.problem import Fit, LikelihoodProblem


@dataclass(frozen=True)
class Restraint:
    """A constraint, and the chains in which it may or may not restrain the expert."""

    constraint: int
    chains: tuple[int, ...]


class Trials:
    """Fits without some restraints, each begun from the nearest that is known."""

    def __init__(
        self,
        full: Fit,
        asked: Sequence[Restraint],
        law_of: Callable[[Fit], ScoreLaw | None],
        max_steps: int,
    ) -> None:
        self._asked, self._law_of, self._max_steps = asked, law_of, max_steps
        self.fits: dict[tuple[int, ...], Fit] = {(): full}

    def tested(self, members: tuple[int, ...]) -> BoundedFit[tuple[int, ...]]:
        """The fit without these, as it is tested."""
        full = self.fits[()]
        if members not in self.fits:
            problem = full.problem
            for number in members:
                one = self._asked[number]
                problem = problem.without(1 + one.constraint, one.chains)
            near = self.fits[max((one for one in self.fits if set(one) <= set(members)), key=len)]
            self.fits[members] = near.refit(problem, max_steps=self._max_steps)
        fit = self.fits[members]
        return BoundedFit(
            fitted=members,
            loss=fit.loss,
            x=fit.z,
            lower=fit.problem.lower,
            upper=fit.problem.upper,
            law=lambda: self._law_of(fit.completed),
        )

    def trial(self, members: Sequence[int]) -> Trial[tuple[int, ...]]:
        """What the fit without these explains."""
        less = self.tested(tuple(sorted(members)))
        return Trial(less.fitted, less.loss, int(less.free.sum()), lambda: 1.0)


def without_idle_constraints(
    full: Fit,
    asked: Sequence[Restraint],
    law_of: Callable[[Fit], ScoreLaw | None],
    *,
    level: float,
    steps: float,
    max_steps: int,
    seed: int,
    scattered: bool,
    groups: Sequence[range] = (),
    trials: Trials | None = None,
) -> tuple[Fit, tuple[int, ...], Verdict]:
    """The fit with only the restraints that the data ask for, those without, the verdict on all.

    Args:
        full: the fit with all of them.
        asked: the restraints.
        law_of: a fit with all derivatives -> the law of its scores.
        level: of the tests.
        steps: number of observed steps.
        max_steps: most evaluations of the loss, each fit.
        seed: of the simulated laws.
        scattered: whether scores may scatter otherwise than the information says.
        groups: of restraints that can stand in for each other at all; empty where these are the
            constraints themselves: then it is asked how many are needed.
        trials: the fits without some, where more is asked of them than this.
    """
    if not full.converged or not asked:  # a search cut short has shown nothing
        return full, (), Verdict.of(np.ones(len(asked)))
    if full.problem.penalised:
        return full, (), Verdict.none(len(asked), "under a prior no law is known")
    trials = Trials(full, asked, law_of, max_steps) if trials is None else trials
    idle, verdict = active_constraints(
        trials.tested(()),
        len(asked),
        trials.tested,
        level=level,
        steps=steps,
        seed=seed,
        given=priced(full.problem, asked),
        groups=groups,
        scattered=scattered,
    )
    return trials.fits[idle].completed, idle, verdict


def without_idle_prices(
    full: Fit, law_of: Callable[[Fit], ScoreLaw | None], *, steps: float, **rules: Any
) -> tuple[Fit, list[Verdict]]:
    """The fit of kinds with only the constraints that each is shown to need, a verdict on each.

    P-values are adjusted over all kinds and constraints; those that can stand in for each other are
    tested as a set. So can a constraint of one kind for that of another, which takes its units
    over: of such a set the kind that explains most has it. Arguments are as in
    `without_idle_constraints`.
    """
    kinds = full.problem.wanting
    count = kinds[0][1].space.constraints
    asked = [Restraint(k, (e,)) for e, _ in kinds for k in range(count)]
    groups = [range(first, first + count) for first in range(0, len(asked), count or 1)]
    trials, given = Trials(full, asked, law_of, rules["max_steps"]), priced(full.problem, asked)
    rules |= {"scattered": False, "groups": (range(len(asked)),), "trials": trials}
    kept, idle, verdict = without_idle_constraints(full, asked, law_of, steps=steps, **rules)
    if not full.converged or not count:
        return kept, [Verdict.of(np.ones(count)) for _ in kinds]
    verdict = _without_sets_across(verdict, idle, count)

    def chosen(group: range) -> Selection:
        fixed = [k for k in group if k in given]
        return selection_of([k for k in group if k not in given], trials.trial, steps, fixed)

    return kept, [verdict.among(group, chosen(group)) for group in groups]


def _without_sets_across(verdict: Verdict, idle: Sequence[int], count: int) -> Verdict:
    """The verdict, of each set over several kinds only the member that is kept, as active."""
    active, p_values = np.array(verdict.active, bool), verdict.p_values.copy()
    within = []
    for one in verdict.sets:
        if len({member // count for member in one.members}) == 1:
            within.append(one)
            continue
        (member,) = (m for m in one.members if m not in idle)
        active[member], p_values[member] = True, one.p_value
    return replace(verdict, active=active, p_values=p_values, sets=tuple(within))


def priced(problem: LikelihoodProblem, asked: Sequence[Restraint]) -> tuple[int, ...]:
    """The numbers of the restraints whose price is above 0 by what is known beforehand."""
    above = problem.lower > 0
    return tuple(
        number
        for number, one in enumerate(asked)
        if any(above[problem.ties.steering(1 + one.constraint, e)].any() for e in one.chains)
    )


def verdict_findings(
    verdict: Verdict,
    multipliers: np.ndarray,
    *,
    converged: bool = True,
    robust: bool = False,
) -> list[Finding]:
    """Which constraints were shown to restrain the demonstrator, which sets, and how many.

    Args:
        verdict: of the tests.
        multipliers: [K] prices of the fit that is reported.
        converged: whether its search did.
        robust: whether the model does not fit, so that tests are sandwich ones.
    """
    count, in_sets = len(multipliers), {k for one in verdict.sets for k in one.members}
    findings = [
        _constraint_finding(verdict, k, multipliers, converged=converged, robust=robust)
        for k in range(count)
        if k not in in_sets
    ]
    findings += [_set_finding(one, multipliers, robust=robust) for one in verdict.sets]
    findings += level_findings(verdict)
    if verdict.selection is not None and count > 1 and converged:
        findings.append(_selection_finding(verdict.selection, count))
    return findings


def _constraint_finding(
    verdict: Verdict, k: int, multipliers: np.ndarray, *, converged: bool, robust: bool
) -> Finding:
    """Whether one constraint was shown to restrain the demonstrator."""
    p_value, count = float(verdict.p_values[k]), len(multipliers)
    chances = f"{'at most ' if verdict.bounded else ''}{chance(p_value)}"
    family = f", by Holm's method over {count} constraints" if count > 1 else ""
    if np.isnan(p_value) and converged:
        sentence = f"Constraint {k} was not tested: its price was fixed beforehand."
        if verdict.absence:
            sentence = f"Whether constraint {k} is active was not tested: {verdict.absence}."
        kind = Kind.NOTE if verdict.absence else Kind.ASSUMED
    elif not multipliers[k] > 0:
        kind = Kind.INACTIVE
        cautious = "; with so many features the test is cautious" if verdict.bounded else ""
        sentence = (
            f"Constraint {k} is not identified: the demonstrations do not show that it "
            f"restrains the expert ({chances} if it does not{family}{cautious})."
        )
    elif not converged:
        kind = Kind.NOT_CONVERGED
        reason = verdict.absence or "the search did not converge"
        sentence = f"Whether constraint {k} is active is not known: {reason}."
    else:
        # What was not shown to be active has no price in the reported fit.
        assert verdict.active is None or verdict.active[k]
        kind = Kind.ACTIVE
        where = " in the best approximation, since the model does not fit" if robust else ""
        test = ", by a sandwich test" if robust else ""
        sentence = f"Constraint {k} is active{where} ({chances} if it were not{family}{test})."
    return Finding(sentence, kind, constraint=k, number=p_value)


def _set_finding(tested: ConstraintSet, multipliers: np.ndarray, *, robust: bool) -> Finding:
    """That some constraint of a set is active, and which one the reported fit takes."""
    priced_one = max(tested.members, key=lambda k: multipliers[k])
    test = ", by a sandwich test" if robust else ""
    sentence = (
        f"Constraint {tested.name} is active ({chance(tested.p_value)} if none of them "
        f"were{test}); the data do not tell which. The answer given puts all on constraint "
        f"{priced_one}; each price interval includes the case that another carries all."
    )
    numbers = {"constraints": tested.members, "number": tested.p_value}
    return Finding(sentence, Kind.NOT_IDENTIFIED, **numbers)


def _selection_finding(selection: Selection, count: int) -> Finding:
    """How many of the constraints the best BIC takes."""
    criteria = enumerate(selection.criteria.tolist())
    compared = listed([f"{bic:.6g} with {n}" for n, bic in criteria if np.isfinite(bic)])
    sentence = (
        f"The data ask for {selection.count} of {count} constraints: the least BIC is the best "
        f"({compared})."
    )
    return Finding(sentence, constraints=selection.members, number=float(selection.count))


def level_findings(verdict: Verdict) -> list[Finding]:
    """Which tests the error of a simulated law may have decided."""
    close = () if verdict.at_level is None else np.flatnonzero(verdict.at_level).tolist()
    return [
        Finding(
            f"The test of constraint {k} is at the level: its simulated p-value is within the "
            "Monte Carlo error of what decides.",
            constraint=k,
            number=float(verdict.p_values[k]),
        )
        for k in close
    ]
