"""Lapses: a demonstrator who means what it does, but in a share of its steps acts at random.

The policy is (1 - e) softmax + e / number of available actions. Whether a step was a lapse is not
seen: EM weighs every step by the chance that it was none, so that the fit is an ordinary one on
weighted counts. The errors count that lapses are not known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.inference.activity import BoundedFit, ScoreLaw, Verdict, active_constraints
from tacit.inference.counted_rows import CountedRows
from tacit.inference.goodness import FittedChoices
from tacit.inference.numerics import TWO_SIDED, chi_square_tail, root_between
from tacit.inverse.diagnostics import Goodness, goodness_of, untested
from tacit.inverse.findings import Finding, Kind, chance
from tacit.inverse.noisy.activity import bounded
from tacit.inverse.noisy.boltzmann import Fit
from tacit.inverse.noisy.counted import policy_noise
from tacit.inverse.noisy.em import Search
from tacit.inverse.noisy.evidence import evidence_of
from tacit.inverse.noisy.inference import advantages, information
from tacit.inverse.noisy.steps import Steps, of_constraints
from tacit.inverse.sets import Lapses

if TYPE_CHECKING:
    from tacit.data.observed import Observed
    from tacit.inverse.noisy.likelihood import Likelihood
    from tacit.inverse.recovery import Recovery
    from tacit.model.objective import Features

# Most rounds of EM, and the gain (nats) still to come that ends it; where it is only compared.
ROUNDS, TOLERANCE, COMPARED = 500, 1e-6, 1e-3
# Shares looked at: between a lapse in a billion steps and nearly nothing else.
LEAST, MOST = 1e-9, 0.999
# Discounts looked at, at most.
HIGHEST = 0.995


@dataclass(frozen=True, eq=False, kw_only=True)
class Lapsed:
    """Where EM stands.

    Attributes:
        share: of lapses.
        fitted: the fit of the steps that were none.
        weights: [S, A] chance that a step was none, under this fit.
        log_likelihood: of all actions.
        converged: whether the gain was down to the tolerance.
    """

    share: float
    fitted: Fit
    weights: np.ndarray
    log_likelihood: float
    converged: bool


def random_policy(steps: Steps) -> np.ndarray:
    """[S, A] every available action as likely."""
    choices = steps.mdp.choices
    return choices / choices.sum(axis=1, keepdims=True)


def expectation(steps: Steps, fitted: Fit, share: float) -> tuple[np.ndarray, float]:
    """[S, A] chance that a step was no lapse, and the log-likelihood of all actions."""
    meant = (1.0 - share) * np.asarray(fitted.point.policy)
    mixed = np.maximum(meant + share * random_policy(steps), np.finfo(np.float64).tiny)
    return meant / mixed, float((steps.counts * np.log(mixed)).sum())


def climb(
    steps: Steps,
    options: Search,
    near: Fit,
    share: float,
    *,
    given: bool = False,
    upper: np.ndarray | None = None,
    tolerance: float = TOLERANCE,
) -> Lapsed:
    """The likeliest parameters and share of lapses, by EM.

    Args:
        steps: what was seen.
        options: of the fit.
        near: a fit to begin from.
        share: of lapses to begin from.
        given: whether it stays.
        upper: [D] the largest parameters allowed; none by default.
        tolerance: gain (nats) still to come, by the rate of the last rounds, that ends the search.
    """
    weights, _ = expectation(steps, near, share)
    # Bounds may not hold at the fit nearby: its own likelihood is nothing to compare with.
    fitted, likely, before, converged = near, -np.inf, np.inf, False
    for _ in range(ROUNDS):
        kept = steps.counts * weights
        if not given:
            share = float(np.clip(1.0 - kept.sum() / steps.counts.sum(), 0.0, MOST))
        fitted = steps.reweighted(kept).fit(options, near=fitted, upper=upper)
        weights, now = expectation(steps, fitted, share)
        gain, likely = now - likely, now
        rest = gain * gain / (before - gain) if before > gain else np.inf
        if max(gain, rest) <= tolerance:
            converged = True
            break
        before = gain
    return Lapsed(
        share=share, fitted=fitted, weights=weights, log_likelihood=likely, converged=converged
    )


def share_interval(steps: Steps, options: Search, found: Lapsed) -> tuple[float, float]:
    """95 % likelihood interval of the share of lapses, everything else refitted."""

    def likely(share: float) -> float:
        return climb(
            steps, options, found.fitted, share, given=True, tolerance=COMPARED
        ).log_likelihood

    return likelihood_interval(likely, found.share, found.log_likelihood, LEAST, MOST)


def likelihood_interval(
    likely: Callable[[float], float], best: float, top: float, least: float, most: float
) -> tuple[float, float]:
    """Where a profile falls by what 95 % allow: the ends `least` and `most` where it never does.

    Args:
        likely: the log-likelihood at a value, everything else refitted.
        best: where it is largest.
        top: its largest value.
        least: smallest value looked at; 0 is said where it is inside.
        most: largest value looked at.
    """

    def excess(value: float) -> float:
        return float(np.sqrt(max(2.0 * (top - likely(value)), 0.0))) - TWO_SIDED

    ends = []
    for end, said in ((least, 0.0), (most, most)):
        inside = abs(best - end) < 1e-9 or excess(end) <= 0
        ends.append(said if inside else root_between(excess, best, end, 1e-4))
    return ends[0], ends[1]


def steps_at(whole: Steps, discount: float) -> Steps:
    """The likelihood of the same steps in the world with another discount."""
    world = replace(whole.mdp, discount=float(discount))
    return Steps.counted(world, whole.space, whole.counts)


def best_discount(
    whole: Steps, likely: Callable[[Steps], float], top: float, care: float = 1e-3
) -> tuple[float, float]:
    """The likeliest discount, to `care`, and the log-likelihood there: `top` at the present one.

    `likely` gives that of the steps in a world.
    """
    from scipy.optimize import OptimizeResult, minimize_scalar

    best = own = whole.mdp.discount
    for low, high in ((0.0, own), (own, HIGHEST)):
        found: OptimizeResult = minimize_scalar(  # type: ignore[assignment]
            lambda d: -likely(steps_at(whole, d)),
            bounds=(low, high),
            method="bounded",
            options={"xatol": care},
        )
        if -float(found["fun"]) > top:
            top, best = -float(found["fun"]), float(found["x"])
    return best, top


def fitted_discount(
    whole: Steps, options: Search, base: Fit
) -> tuple[float, tuple[float, float], float]:
    """The likeliest discount, its 95 % likelihood interval, and the log-likelihood there."""

    def likely(steps: Steps) -> float:
        return -float(steps.fit(options, near=base).point.loss)

    best, top = best_discount(whole, likely, -float(base.point.loss))
    ends = likelihood_interval(lambda d: likely(steps_at(whole, d)), best, top, 0.0, HIGHEST)
    return best, ends, top


def observed_scores(steps: Steps, found: Lapsed) -> tuple[np.ndarray, np.ndarray]:
    """[D + 1, S, A] scores of the observed steps, that of the share last, and [S, A] the policy."""
    policy, uniform = np.asarray(found.fitted.point.policy), random_policy(steps)
    mixed = np.maximum((1.0 - found.share) * policy + found.share * uniform, 1e-300)
    of_share = np.where(steps.mdp.choices, (uniform - policy) / mixed, 0.0)
    scores = advantages(steps.mdp, steps.space, found.fitted) * found.weights
    return np.concatenate([scores, of_share[None]]), mixed


def lost_information(steps: Steps, found: Lapsed) -> np.ndarray:
    """[D, D] information that not knowing which steps were lapses takes, and how many."""
    both, mixed = observed_scores(steps, found)
    full, size = information(both, mixed, steps.visits), steps.space.size
    row = full[:size, size]
    left = full[:size, :size] - np.outer(row, row) / max(float(full[size, size]), 1e-300)
    kept = steps.reweighted(steps.counts * found.weights)
    scores = advantages(steps.mdp, steps.space, found.fitted)
    return information(scores, found.fitted.point.policy, kept.visits) - left


def maximise_with_lapses(
    options: Likelihood,
    features: Features,
    demonstrations: Observed,
    steps: Steps,
    report: Callable[..., Recovery],
) -> Recovery:
    """The recovery of the likeliest parameters of a demonstrator with lapses.

    `report` makes the recovery of a fit.
    """
    how = Search(options.free_reward, options.tolerance)
    plain = steps.fit(replace(how, max_steps=options.max_steps))
    given = options.lapses is not True
    begin = float(options.lapses) if given else 0.1
    full = climb(steps, how, plain, begin, given=given)
    kept, verdict = _active(options, steps, how, full, given)
    lapses = _lapses(steps, how, kept, plain, given)
    weighted = replace(
        steps.reweighted(steps.counts * kept.weights),
        tally=steps.tally,
        lost=lost_information(steps, kept),
    )
    assert steps.tally is not None  # these are demonstrations
    fits = [
        weighted.fit(replace(how, max_steps=options.max_steps), near=one, upper=one.problem.upper)
        for one in (full.fitted, kept.fitted)
    ]
    found = report(
        options,
        features,
        steps.tally,
        weighted,
        wide=evidence_of(steps.tally, weighted, fits[0], options.max_steps),
        kept=fits[1],
        verdict=verdict,
        goodness=_goodness(options, demonstrations, steps, full, given),
    )
    findings = [_finding(lapses)]
    if not kept.converged:
        said = "EM for the lapses stopped before its tolerance was met."
        findings.append(Finding(said, Kind.NOT_CONVERGED))
    return replace(
        found,
        lapses=lapses,
        log_likelihood=kept.log_likelihood,
        observed_steps=int(steps.counts.sum()),
        identification=found.identification.with_findings(findings),
    )


def _goodness(
    options: Likelihood, demonstrations: Observed, steps: Steps, full: Lapsed, given: bool
) -> Goodness:
    """Whether the model with its lapses fits what was seen."""
    if not full.converged:
        return untested("the search did not converge")
    scores, mixed = observed_scores(steps, full)
    rows, moved, point = CountedRows.of(steps.mdp), None, full.fitted.point
    if rows is not None:  # lapses do not depend on the dynamics
        chosen = (1.0 - full.share) * point.policy / np.maximum(mixed, 1e-300)
        moved = np.log1p(chosen * np.expm1(policy_noise(rows, point.policy, point.values)))
    choices = FittedChoices(
        counts=steps.counts,
        policy=mixed * steps.mdp.choices,
        scores=scores[np.append(full.fitted.free, not given)],
        choices=steps.mdp.available.sum(axis=1),
        doubt=moved,
        names=[
            name
            for name, free in zip(
                (*steps.space.names, "the share of lapses"),
                np.append(full.fitted.free, not given),
                strict=True,
            )
            if free
        ],
    )
    return goodness_of(demonstrations, choices, level=options.level, seed=options.seed)


def _lapses(steps: Steps, how: Search, kept: Lapsed, plain: Fit, given: bool) -> Lapses:
    if given:
        return Lapses(kept.share, (kept.share, kept.share), np.nan)
    ratio = max(2.0 * (kept.log_likelihood + float(plain.point.loss)), 0.0)
    # No lapses are a point on the border: half of the law is at 0.
    p_value = 0.5 * chi_square_tail(1, ratio) if ratio > 0 else 1.0
    return Lapses(kept.share, share_interval(steps, how, kept), p_value)


def _finding(lapses: Lapses) -> Finding:
    if np.isnan(lapses.p_value):
        said = f"Lapses: {lapses.share:.1%} of the steps, as given."
    else:
        low, high = lapses.interval
        said = (
            f"Lapses: {lapses.share:.1%} of the steps (95 % interval {low:.1%} to {high:.1%}; "
            f"{chance(lapses.p_value)} if there were none)."
        )
    return Finding(said, Kind.ASSUMED, number=lapses.share)


def _active(
    options: Likelihood, steps: Steps, how: Search, full: Lapsed, given: bool
) -> tuple[Lapsed, Verdict]:
    """The fit with only the constraints that the steps ask for, and the verdict on all of them."""
    space = steps.space
    if not full.converged:
        return full, Verdict.of(np.ones(space.constraints))

    def law_of(less: Lapsed) -> ScoreLaw:
        scores = advantages(steps.mdp, space, less.fitted)
        visits = (steps.counts * less.weights).sum(axis=1)
        complete = information(scores, less.fitted.point.policy, visits)
        return ScoreLaw(complete - lost_information(steps, less))

    def as_tested(found: Lapsed) -> BoundedFit[Lapsed]:
        return bounded(found, found.fitted, lambda: law_of(found), loss=-found.log_likelihood)

    def restricted(members: tuple[int, ...]) -> BoundedFit[Lapsed]:
        out = of_constraints(space.blocks, members, space.size)
        upper = np.where(out, 0.0, full.fitted.problem.upper)
        return as_tested(climb(steps, how, full.fitted, full.share, given=given, upper=upper))

    about = {"level": options.level, "steps": float(steps.counts.sum()), "seed": options.seed}
    return active_constraints(as_tested(full), space.constraints, restricted, **about)
