"""Lapses: a demonstrator who means what it does, but in a share of its steps acts at random.

The policy is (1 - e) softmax + e / number of available actions. Whether a step was a lapse is not
seen: lapses are a kind of steps that wants nothing (`em.py`). The errors count that they are not
known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.inference.counted_rows import CountedRows
from tacit.inference.goodness import FittedChoices
from tacit.inference.tails import TWO_SIDED, chi_square_tail
from tacit.inverse.diagnostics import Goodness, goodness_of, untested
from tacit.inverse.findings import Finding, Kind, chance
from tacit.inverse.noisy.counted import policy_noise
from tacit.inverse.noisy.em import (
    MOST,
    Kinds,
    Search,
    Units,
    climb,
    expectation,
    lost_information,
    random_policy,
)
from tacit.inverse.noisy.evidence import evidence_of
from tacit.inverse.noisy.types import constraint_tests
from tacit.inverse.sets import Lapses
from tacit.likelihood.problem import Fit
from tacit.likelihood.start import maximum
from tacit.likelihood.steps import StepsChain
from tacit.search.algebra import root_between

if TYPE_CHECKING:
    from tacit.data.observed import Observed
    from tacit.inverse.assembly import Estimate
    from tacit.inverse.noisy.likelihood import Likelihood
    from tacit.model.objective import Features

# Most rounds of EM, and the gain (nats) still to come that ends it; where it is only compared.
ROUNDS, TOLERANCE, COMPARED = 500, 1e-6, 1e-3
# Smallest share looked at: a lapse in a billion steps.
LEAST = 1e-9
# Discounts looked at, at most.
HIGHEST = 0.995


def with_lapses(
    steps: StepsChain,
    options: Search,
    near: Fit,
    share: float,
    *,
    given: bool = False,
    tolerance: float = TOLERANCE,
) -> Kinds:
    """The likeliest parameters and share of lapses, by EM: kinds of steps, lapses the last.

    Args:
        steps: what was seen.
        options: of the fit.
        near: a fit to begin from.
        share: of lapses to begin from.
        given: whether it stays.
        tolerance: gain (nats) still to come, by the rate of the last rounds, that ends the search.
    """
    units, fits, shares = Units.steps(steps), (near, None), np.array([1.0 - share, share])
    chances, _ = expectation(units, fits, shares)
    # Bounds may not hold at the fit nearby: its own likelihood is nothing to compare with.
    begin = Kinds(
        fits=fits, shares=shares, membership=chances, trace=(), converged=False, given=given
    )
    return climb(units, options, begin, rounds=ROUNDS, tolerance=tolerance)


def meant(steps: StepsChain, found: Kinds) -> np.ndarray:
    """[S, A] chance that a step was no lapse."""
    return found.membership[:, 0].reshape(steps.counts.shape)


def share_interval(steps: StepsChain, options: Search, found: Kinds) -> tuple[float, float]:
    """95 % likelihood interval of the share of lapses, everything else refitted."""

    def likely(share: float) -> float:
        about = {"given": True, "tolerance": COMPARED}
        return with_lapses(steps, options, found.experts[0], share, **about).log_likelihood

    return likelihood_interval(likely, found.shares[-1], found.log_likelihood, LEAST, MOST)


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


def steps_at(whole: StepsChain, discount: float) -> StepsChain:
    """The likelihood of the same steps in the world with another discount."""
    world = replace(whole.mdp, discount=float(discount))
    return StepsChain.counted(world, whole.space, whole.counts)


def best_discount(
    whole: StepsChain, likely: Callable[[StepsChain], float], top: float, care: float = 1e-3
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
    whole: StepsChain, options: Search, base: Fit
) -> tuple[float, tuple[float, float], float]:
    """The likeliest discount, its 95 % likelihood interval, and the log-likelihood there."""

    def likely(steps: StepsChain) -> float:
        return -maximum(steps, options, near=base).loss

    best, top = best_discount(whole, likely, -base.loss)
    ends = likelihood_interval(lambda d: likely(steps_at(whole, d)), best, top, 0.0, HIGHEST)
    return best, ends, top


def observed_scores(steps: StepsChain, found: Kinds) -> tuple[np.ndarray, np.ndarray]:
    """[D + 1, S, A] scores of the observed steps, that of the share last, and [S, A] the policy."""
    fitted, share, uniform = found.experts[0], found.shares[-1], random_policy(steps)
    policy = np.asarray(fitted.parts[0].policy)
    mixed = np.maximum((1.0 - share) * policy + share * uniform, 1e-300)
    of_share = np.where(steps.mdp.choices, (uniform - policy) / mixed, 0.0)
    scores = steps.scores(fitted.parts[0]) * meant(steps, found)
    return np.concatenate([scores, of_share[None]]), mixed


def estimate_with_lapses(
    options: Likelihood,
    features: Features,
    demonstrations: Observed,
    steps: StepsChain,
    estimate_of_steps: Callable[..., Estimate],
) -> Estimate:
    """The estimate of the likeliest parameters of a demonstrator with lapses.

    `estimate_of_steps` makes the estimate of a fit.
    """
    how = Search(options.free_reward, options.tolerance)
    long = replace(how, max_steps=options.max_steps)
    plain = maximum(steps, long)
    given = options.lapses is not True
    begin, units = float(options.lapses) if given else 0.1, Units.steps(steps)
    full = with_lapses(steps, how, plain, begin, given=given)
    rules = {"level": options.level, "rounds": ROUNDS, "tolerance": TOLERANCE}
    kept, (verdict,) = constraint_tests(units, full, how, **rules, seed=options.seed)
    lapses = _lapses(steps, how, kept, plain)
    weighted = replace(
        units.parts(kept.membership)[0],
        tally=steps.tally,
        lost=lost_information(units, kept)[0][0],
    )
    assert steps.tally is not None  # these are demonstrations
    fits = [
        maximum(weighted, long, near=one, upper=one.problem.upper)
        for one in (*full.experts, *kept.experts)
    ]
    found = estimate_of_steps(
        options,
        features,
        steps.tally,
        wide=evidence_of([steps.tally], fits[0], options.max_steps, counted=False),
        kept=fits[1],
        verdict=verdict,
        goodness=_goodness(options, demonstrations, steps, full),
    )
    findings = [_finding(lapses)]
    if not kept.converged:
        said = "EM for the lapses stopped before its tolerance was met."
        findings.append(Finding(said, Kind.NOT_CONVERGED))
    return replace(
        found,
        lapses=lapses,
        counts=steps.counts,
        log_likelihood=kept.log_likelihood,
        findings=(*found.findings, *findings),
    )


def _goodness(
    options: Likelihood, demonstrations: Observed, steps: StepsChain, full: Kinds
) -> Goodness:
    """Whether the model with its lapses fits what was seen."""
    if not full.converged:
        return untested("the search did not converge")
    scores, mixed = observed_scores(steps, full)
    free = np.append(full.experts[0].free, not full.given)
    rows, moved, point = CountedRows.of(steps.mdp), None, full.experts[0].parts[0]
    if rows is not None:  # lapses do not depend on the dynamics
        chosen = full.shares[0] * point.policy / np.maximum(mixed, 1e-300)
        moved = np.log1p(chosen * np.expm1(policy_noise(rows, point.policy, point.values)))
    choices = FittedChoices(
        counts=steps.counts,
        policy=mixed * steps.mdp.choices,
        scores=scores[free],
        choices=steps.mdp.available.sum(axis=1),
        doubt=moved,
        names=[
            name
            for name, here in zip((*steps.space.names, "the share of lapses"), free, strict=True)
            if here
        ],
    )
    return goodness_of(demonstrations, choices, level=options.level, seed=options.seed)


def _lapses(steps: StepsChain, how: Search, kept: Kinds, plain: Fit) -> Lapses:
    share = float(kept.shares[-1])
    if kept.given:
        return Lapses(share, (share, share), np.nan)
    ratio = max(2.0 * (kept.log_likelihood + plain.loss), 0.0)
    # No lapses are a point on the border: half of the law is at 0.
    p_value = 0.5 * chi_square_tail(1, ratio) if ratio > 0 else 1.0
    return Lapses(share, share_interval(steps, how, kept), p_value)


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
