"""How much doubt about estimated dynamics adds to the doubt about weights, prices and budgets.

Estimated rows are redrawn from what is known of them and everything is recovered anew. How far the
answers move adds, as a variance, to the error bars that took the dynamics for known (the rules of
multiple imputation).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidModel, TacitError
from tacit.inverse.findings import Finding, Kind
from tacit.inverse.parameters import CONFIDENCE
from tacit.inverse.recover import Estimator, recover
from tacit.inverse.recovery import Recovery, RecoveryStatus
from tacit.model.mdp import MDP
from tacit.model.objective import Features

if TYPE_CHECKING:
    from tacit.inverse.noisy.likelihood import Likelihood


@dataclass(frozen=True, eq=False, kw_only=True)
class DynamicsUncertainty:
    """What doubt about the dynamics does to a recovery.

    Attributes:
        recovery: the recovery, its intervals and standard errors widened and the finding added.
        plain: the same before: as if the estimated dynamics were the true ones.
        reward_deviations: [D] how far each reward weight moves with the dynamics, root mean square.
        cost_deviations: one [D_k] per constraint, over the draws in which it is active.
        multiplier_deviations: [K].
        budget_deviations: [K], over the draws in which the constraint is active.
        active_share: [K] share of the draws in which each constraint is active.
        draws: number of draws that were recovered.
        failed: number of draws without an answer.
        finding: what it comes to.
    """

    recovery: Recovery
    plain: Recovery
    reward_deviations: np.ndarray
    cost_deviations: tuple[np.ndarray, ...]
    multiplier_deviations: np.ndarray
    budget_deviations: np.ndarray
    active_share: np.ndarray
    draws: int
    failed: int
    finding: Finding


def dynamics_uncertainty(
    mdp: MDP,
    features: Features,
    demonstrations: Demonstrations,
    *,
    estimator: Estimator | None = None,
    recovery: Recovery | None = None,
    draws: int = 20,
    seed: int = 0,
) -> DynamicsUncertainty:
    """The recovery with error bars that count the doubt about estimated dynamics, too.

    Args:
        mdp: a world made by `MDP.from_transitions`.
        features: what reward and costs may be made of.
        demonstrations: what was seen.
        estimator: how to recover; None picks one by evidence, and keeps it for every draw.
        recovery: what this estimator found in `mdp`, if that is known already.
        draws: how many times the dynamics are drawn and everything is recovered anew.
        seed: of the draws.
    """
    if mdp.evidence is None:
        raise InvalidModel(
            "the dynamics of this MDP are given, not estimated: there is no doubt about them to "
            "count; use MDP.from_transitions"
        )
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 2:
        raise InvalidModel(f"draws must be an integer, 2 or more; got {draws!r:.60}")
    if estimator is None:
        from tacit.inverse.recover import choose

        estimator, _ = choose(mdp, features, demonstrations)
    pooling = hasattr(estimator, "dynamics_draws")
    alone = estimator
    if pooling:
        alone = replace(cast("Likelihood", estimator), dynamics_draws=0)
    plain = recovery
    if plain is None or plain.identification.dynamics_draws:
        # What counts the dynamics already would count them twice.
        plain = recover(
            mdp, features, demonstrations, estimator=alone, dynamics_draws=0, throw=False
        )
    pooled = None
    if pooling:
        counted = replace(cast("Likelihood", estimator), dynamics_draws=draws)
        pooled = counted.fit(mdp, features, demonstrations, throw=False)
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        drawn = MDP(
            mdp.evidence.draw(mdp.transitions, rng),
            mdp.initial,
            mdp.discount,
            available=mdp.available,
        )
        answer = _answer(alone, drawn, features, demonstrations)
        found += [] if answer is None else [answer]
    if len(found) < 2:
        raise InvalidModel(
            f"at least 2 draws of the dynamics must have an answer; {len(found)} of {draws} have: "
            "the dynamics are too uncertain for this estimator"
        )
    found = _summary(plain, found, draws)
    return found if pooled is None else _tested(found, pooled)


def _answer(
    estimator: Estimator, mdp: MDP, features: Features, demonstrations: Demonstrations
) -> Recovery | None:
    """The recovery in one drawn world; None where there is none to speak of."""
    try:
        recovery = estimator.fit(mdp, features, demonstrations, throw=False)
    except TacitError:
        return None
    return None if recovery.status is RecoveryStatus.NOT_CONVERGED else recovery


def _summary(plain: Recovery, found: Sequence[Recovery], draws: int) -> DynamicsUncertainty:
    reward = _deviations(plain.reward_weights, [r.reward_weights for r in found])
    costs = tuple(
        _deviations(weights, [r.cost_weights[k] for r in found])
        for k, weights in enumerate(plain.cost_weights)
    )
    prices = _deviations(plain.multipliers, [r.multipliers for r in found])
    budgets = _deviations(plain.budgets, [r.budgets for r in found])
    active = np.mean([r.identification.active for r in found], axis=0).reshape(-1)
    known = plain.identification
    finding = _finding(plain, reward, costs, prices, active, len(found), draws)
    count = len(found)
    wide = replace(
        known,
        reward_intervals=_widen(plain.reward_weights, known.reward_intervals, reward, count),
        cost_intervals=[
            _widen(weights, ends, moved, count)
            for weights, ends, moved in zip(
                plain.cost_weights, known.cost_intervals, costs, strict=True
            )
        ],
        multiplier_intervals=_widen(
            plain.multipliers, known.multiplier_intervals, prices, count, most=np.inf
        ),
        budget_intervals=_widen(
            plain.budgets, known.budget_intervals, budgets, count, None, np.inf
        ),
        reward_standard_errors=_add(known.reward_standard_errors, reward),
        cost_standard_errors=[
            _add(error, moved)
            for error, moved in zip(known.cost_standard_errors, costs, strict=True)
        ],
        multiplier_standard_errors=_add(known.multiplier_standard_errors, prices),
        budget_standard_errors=_add(known.budget_standard_errors, budgets),
        findings=(finding, *known.findings),
        answer=None,  # it takes the dynamics for known
    )
    return DynamicsUncertainty(
        recovery=replace(plain, identification=wide),
        plain=plain,
        reward_deviations=reward,
        cost_deviations=costs,
        multiplier_deviations=prices,
        budget_deviations=budgets,
        active_share=active,
        draws=count,
        failed=draws - count,
        finding=finding,
    )


def _tested(found: DynamicsUncertainty, pooled: Recovery) -> DynamicsUncertainty:
    """The same, with constraints tested and kept by a law that counts the doubt, too.

    Where that leaves one out, point and intervals are those without it; intervals hold both those
    of the draws and those of the pooled scores.
    """
    wide, other = found.recovery.identification, pooled.identification
    tables = {}
    for name in ("reward_intervals", "multiplier_intervals", "budget_intervals"):
        tables[name] = _hull(getattr(wide, name), getattr(other, name))
    pairs = zip(wide.cost_intervals, other.cost_intervals, strict=True)
    tables["cost_intervals"] = [_hull(*pair) for pair in pairs]
    tests, plain = (Kind.ACTIVE, Kind.INACTIVE), found.recovery.goodness.findings()
    told = [one for one in wide.findings if one.kind not in tests and not one.about.constraints]
    told = [one for one in told if one not in (*plain, found.finding)]
    said = [one for one in other.findings if one.kind in tests or one.about.constraints]
    base, fits = found.recovery, pooled.goodness.adequate
    if base.goodness.adequate != fits:  # what took the dynamics for known answers another question
        told, said = [one for one in other.findings if one not in pooled.goodness.findings()], []
    if base.goodness.adequate != fits or not np.array_equal(
        pooled.multipliers > 0, base.multipliers > 0
    ):
        base = pooled
        tables |= {
            f"{kind}_standard_errors": getattr(other, f"{kind}_standard_errors")
            for kind in ("reward", "cost", "multiplier", "budget")
        }
        tables["cost_intervals"] = other.cost_intervals
    known = replace(
        wide,
        **tables,
        active=other.active,
        p_values=other.p_values,
        unadjusted=other.unadjusted,
        sets=other.sets,
        selection=other.selection,
        dynamics_draws=found.draws,
        findings=(*pooled.goodness.findings(), found.finding, *said, *told),
    )
    base = replace(base, identification=known, goodness=pooled.goodness)
    return replace(found, recovery=base)


def _hull(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """[n, 2] the intervals that hold both; one where the other is NaN."""
    low, high = np.fmin(one[:, 0], other[:, 0]), np.fmax(one[:, 1], other[:, 1])
    return np.stack([low, high], axis=1)


def _deviations(point: np.ndarray, drawn: Sequence[np.ndarray]) -> np.ndarray:
    """[n] root mean square distance of the draws to the point; NaN where neither is a number.

    About the point and not about their mean: draws that all lie to one side of it show a bias.
    """
    table = np.stack([np.asarray(d, dtype=np.float64) for d in drawn])
    with np.errstate(invalid="ignore"):  # an open end less another
        apart = np.where(np.isfinite(table) & np.isfinite(point), table - point, np.nan)
    many = np.isfinite(apart).sum(axis=0)
    square = np.nansum(apart**2, axis=0) / np.maximum(many, 1)
    # One draw more: the point itself is one of finitely many.
    return np.where(many > 1, np.sqrt(square * (1.0 + 1.0 / np.maximum(many, 1))), np.nan)


def _add(errors: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """[n] the total standard errors: variances add up."""
    return np.sqrt(errors**2 + np.nan_to_num(deviations) ** 2)


def _widen(
    point: np.ndarray,
    ends: np.ndarray,
    deviations: np.ndarray,
    draws: int,
    least: float | None = 0.0,
    most: float = 1.0,
) -> np.ndarray:
    """[n, 2] each side of the intervals widened by what the dynamics add, within the limits."""
    from scipy.special import stdtrit

    if not len(ends):
        return ends
    reach = float(stdtrit(draws - 1, 0.5 + 0.5 * CONFIDENCE)) * np.nan_to_num(deviations)[:, None]
    with np.errstate(invalid="ignore"):
        away = np.hypot(np.abs(ends - point[:, None]), reach) * np.array([-1.0, 1.0])
    # A weight of free sign has no limit at 0.
    low = -np.inf if least is None else (-1.0 if (ends < 0).any() else least)
    new = np.clip(point[:, None] + away, low, most)
    return np.where(np.isfinite(ends) & np.isfinite(point)[:, None], new, ends)


def _finding(
    plain: Recovery,
    reward: np.ndarray,
    costs: Sequence[np.ndarray],
    moved_prices: np.ndarray,
    active: np.ndarray,
    draws: int,
    asked: int,
) -> Finding:
    known = plain.identification
    moved = np.concatenate([reward, *costs])
    names = [*plain.reward_names, *(name for part in plain.cost_names for name in part)]
    own = np.concatenate([known.reward_standard_errors, *known.cost_standard_errors])
    text = f"The dynamics were estimated; redrawn {draws} times from what is known of them, they "
    if np.isfinite(moved).any():
        most = int(np.nanargmax(moved))
        text += f"move the weights by up to {moved[most]:.2g} ({names[most]})"
    else:
        text += "leave the weights unknown"
    sure = np.isfinite(own) & (own > 0)
    if sure.any():
        ratio = np.median(_add(own, moved)[sure] / own[sure])
        grown = f"{ratio:.2g} times as large" if ratio > 1.05 else "hardly larger"
        text += f", which makes their standard errors {grown} (median)"
    prices = np.asarray(known.multiplier_standard_errors, float)
    wider = _add(prices, moved_prices) / np.where(prices > 0, prices, np.nan)
    if np.isfinite(wider).any():
        whose = "those" if sure.any() else "make the standard errors"
        text += f", and {whose} of the prices up to {np.nanmax(wider):.2g} times"
    for k, share in enumerate(active):
        if bool(known.active[k]) and share < 1:
            text += f"; constraint {k} is active in {share:.0%} of the draws"
    if draws < asked:
        text += f"; {asked - draws} draws had no answer"
    text += ". Standard errors and intervals of the coefficients still take the dynamics for known"
    return Finding(text + ".", Kind.ERRORS, number=float(draws))
