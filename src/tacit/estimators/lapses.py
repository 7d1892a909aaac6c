"""Lapses: a demonstrator who means what it does, but in a share of its steps acts at random.

The policy is (1 - e) softmax + e / number of available actions. Whether a step was a lapse is not
seen: lapses are a kind of steps that wants nothing (`likelihood/kinds.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.data.observed import Observed
from tacit.dynamics.counted import CountedRows
from tacit.estimators.assembly import Estimate
from tacit.inference.diagnostics import Goodness, goodness_of
from tacit.inference.dynamics_noise import policy_noise
from tacit.inference.evidence import Evidence
from tacit.inference.findings import Finding, Kind, chance
from tacit.inference.goodness import FittedChoices
from tacit.inference.sets import Lapses
from tacit.inference.tails import TWO_SIDED, chi_square_tail
from tacit.likelihood.kinds import MOST, KindsChain, log_likelihood, problem_of_kinds
from tacit.likelihood.problem import Fit
from tacit.likelihood.start import Bounds, Options
from tacit.search.algebra import crossing

# Smallest share looked at: a lapse in a billion steps; and where the search begins.
LEAST, BEGUN = 1e-9, 0.1


def with_lapses(units: Any, options: Options, near: Fit, *, share: float = BEGUN) -> Fit:
    """The likeliest parameters and share of lapses: two kinds of steps, lapses the last.

    Args:
        units: single steps.
        options: of the fit, their lapses and prior where they have any.
        near: a fit to begin from, without lapses or with them.
        share: of lapses to begin from.
    """
    asked, prior = getattr(options, "lapses", True), getattr(options, "prior", None)
    given = None if asked in (True, False) else float(asked)
    strength = 0.0 if prior is None else float(prior.strength)
    chain = KindsChain(units=units, experts=1, idle=True, prior=strength)
    problem = problem_of_kinds(chain, Bounds.of(units.whole.space, options), share=given)
    share = share if given is None else given
    start = problem.ties.start([near.x(), np.array([1.0 - share, share])])
    return problem.minimum(start, tolerance=options.tolerance, max_steps=options.max_steps)


def share_interval(found: Fit) -> tuple[float, float]:
    """95 % likelihood interval of the share of lapses, everything else refitted."""
    which = np.arange(len(found.z)) == len(found.z) - 1
    return likelihood_interval(
        lambda share: -found.held(which, share).loss, float(found.z[-1]), -found.loss, LEAST, MOST
    )


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
        way = end - best
        if abs(way) < 1e-9 or excess(end) <= 0:
            ends.append(said)
        else:
            ends.append(
                best + way * crossing(lambda t, way=way: excess(best + t * way), close=1e-4)
            )
    return ends[0], ends[1]


def goodness_with_lapses(
    evidence: Evidence, demonstrations: Observed, level: float, seed: int
) -> Goodness:
    """Whether the model with its lapses fits what was seen."""
    fitted, own = evidence.fitted, evidence.chains[0]
    whole, part, known = fitted.problem.chains[0].whole, fitted.parts[0], fitted.problem.equalities
    shape, point = whole.counts.shape, own.part
    mixed = np.exp(-part.losses).reshape(shape)
    rows, moved = CountedRows.of(whole.mdp), None
    if rows is not None:  # lapses do not depend on the dynamics
        chosen = part.shares[0] * point.policy / np.maximum(mixed, 1e-300)
        moved = np.log1p(chosen * np.expm1(policy_noise(rows, point.policy, point.values)))
    free = fitted.free
    moves = np.eye(len(free))[free] if known is None else known.tangents(free)
    names = [whole.space.names[j] for j in np.flatnonzero(free[fitted.problem.ties.rows[0]])]
    names += ["the share of lapses"] * (len(moves) - len(names))
    slopes = fitted.problem.inner(0, fitted.z).T @ part.slopes.T
    choices = FittedChoices(
        counts=whole.counts,
        policy=mixed * whole.mdp.choices,
        scores=-(moves @ slopes).reshape(-1, *shape),
        choices=whole.mdp.available.sum(axis=1),
        doubt=moved,
        names=names if fitted.known() is None else [],
    )
    return goodness_of(demonstrations, choices, level=level, seed=seed)


def saying_lapses(found: Estimate, kept: Fit, plain: Fit) -> Estimate:
    """What was found of all but the lapses, and those; `plain` is the fit without them."""
    lapses = lapses_of(kept, plain)
    return replace(
        found,
        lapses=lapses,
        log_likelihood=log_likelihood(kept),
        findings=(*found.findings, _finding(lapses)),
    )


def lapses_of(kept: Fit, plain: Fit) -> Lapses:
    """The share of lapses of a fit, and what it explains beside the fit without them."""
    share = float(kept.parts[0].shares[-1])
    if not kept.problem.movable[-1]:
        return Lapses(share, (share, share), np.nan)
    ratio = max(2.0 * (log_likelihood(kept) - log_likelihood(plain)), 0.0)
    # No lapses are a point on the border: half of the law is at 0.
    p_value = 0.5 * chi_square_tail(1, ratio) if ratio > 0 else 1.0
    return Lapses(share, share_interval(kept), p_value)


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
