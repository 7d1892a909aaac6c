"""Which constraints a fit needs, in which of its chains, and the sentences about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.inference.activity import (
    BoundedFit,
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
    count, most = len(multipliers), "at most " if verdict.bounded else ""
    care = "; with so many features the test is cautious" if verdict.bounded else ""
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
            said = f"Constraint {k} was not tested: its price was fixed beforehand."
            if verdict.absence:
                said = f"Whether constraint {k} is active was not tested: {verdict.absence}."
            kind = Kind.NOTE if verdict.absence else Kind.ASSUMED
        elif not price > 0:
            kind = Kind.INACTIVE
            said = (
                f"Constraint {k} is not identified: the demonstrations do not show that it "
                f"restrains the expert ({shown} if it does not{family}{care})."
            )
        elif not converged:
            kind = Kind.NOT_CONVERGED
            reason = verdict.absence or "the search did not converge"
            said = f"Whether constraint {k} is active is not known: {reason}."
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
            f"The test of constraint {k} is at the level: its simulated p-value is within the "
            "Monte Carlo error of what decides.",
            constraint=k,
            number=float(verdict.p_values[k]),
        )
        for k in close
    ]
