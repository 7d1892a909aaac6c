"""Which constraints the steps of one expert need, and the sentences about it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit.inference.activity import BoundedFit, Fitted, ScoreLaw, Verdict, active_constraints
from tacit.inverse.findings import Finding, Kind, chance, listed
from tacit.inverse.noisy.boltzmann import Fit, completed, refit_moving
from tacit.inverse.noisy.steps import Steps, of_constraints, priced


def bounded(
    fitted: Fitted,
    fit: Fit,
    law: Callable[[], ScoreLaw | None] = lambda: None,
    *,
    loss: float | None = None,
) -> BoundedFit[Fitted]:
    """A fit as its tests see it; `loss` is that of what was fitted, where it is not the fit's."""
    problem, point = fit.problem, fit.point
    return BoundedFit(
        fitted=fitted,
        loss=float(point.loss) if loss is None else loss,
        x=point.x,
        lower=problem.lower,
        upper=problem.upper,
        law=law,
    )


def without_idle_constraints(
    steps: Steps,
    full: Fit,
    law_of: Callable[[Fit], ScoreLaw],
    *,
    level: float,
    max_steps: int,
    seed: int,
    scattered: bool,
) -> tuple[Fit, Verdict]:
    """The fit with only the constraints that the steps ask for, and the verdict on all of them.

    Args:
        steps: what was seen.
        full: the fit with every constraint.
        law_of: a fit -> the law of its scores.
        level: of the tests.
        max_steps: most evaluations of the loss, each fit.
        seed: of the simulated laws.
        scattered: whether scores may scatter otherwise than the information says.
    """
    space = steps.space
    if not full.converged:  # a search cut short has shown nothing
        return full, Verdict.of(np.ones(space.constraints))
    fits: dict[tuple[int, ...], Fit] = {(): full}

    def restricted(members: tuple[int, ...]) -> BoundedFit[Fit]:
        out = of_constraints(space.blocks, members, space.size)
        lower, upper = (np.where(out, 0.0, end) for end in (full.problem.lower, full.problem.upper))
        near = fits[max((one for one in fits if set(one) <= set(members)), key=len)]
        less = refit_moving(steps.mdp, full, near, max_steps=max_steps, lower=lower, upper=upper)
        fits[members] = less
        return bounded(less, less, lambda: law_of(completed(steps.mdp, less)))

    kept, verdict = active_constraints(
        bounded(full, full),
        space.constraints,
        restricted,
        level=level,
        steps=float(steps.counts.sum()),
        seed=seed,
        given=priced(space.blocks, full.problem.lower),
        scattered=scattered,
    )
    return kept if kept is full else completed(steps.mdp, kept), verdict


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
