"""How far a fit can be relied on: how well each trajectory fits, and doubt about its dynamics.

The fits are one pass over the steps. Every step is a look-up in tables [S, A] or [S], summed by
episode, so that millions of steps need the memory of one batch.

For the doubt, estimated rows are redrawn from what is known of them and everything is recovered
anew. How far the answers move adds, as a variance, to the error bars that took the dynamics for
known (the rules of multiple imputation).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from tacit.checks import DynamicsUncertainty, TrajectoryFits
from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidModel, TacitError
from tacit.forward.solution import priced
from tacit.inference.numerics import first_largest, gamma_tails, normal_tail
from tacit.inverse.findings import Finding, Kind
from tacit.inverse.joint.traveller import Choices, TripsRecovery
from tacit.inverse.parameters import CONFIDENCE
from tacit.inverse.recover import Estimator, choose, recover
from tacit.inverse.recovery import Recovery, RecoveryStatus
from tacit.model.mdp import MDP
from tacit.model.objective import Features
from tacit.model.transitions import read_only

if TYPE_CHECKING:
    from tacit.inverse.noisy.likelihood import Likelihood

# Steps looked up at a time.
BATCH = 1 << 18
# Actions whose worth differs by less, relative to the largest difference of worths, tie.
TIE = 1e-6
# Variance of a log-likelihood (squared nats) below which only rounding is left.
ROUNDING = 1e-18
# An array, or one a constraint.
Numbers = np.ndarray | list[np.ndarray]
# What is recovered -> what holds it, and the limits of its intervals.
NUMBERS = {
    "reward": ("reward_weights", 0.0, 1.0),
    "cost": ("cost_weights", 0.0, 1.0),
    "multiplier": ("multipliers", 0.0, np.inf),
    "budget": ("budgets", -np.inf, np.inf),
}


def trajectory_fits(
    recovery: Recovery, demonstrations: Demonstrations, *, mdp: MDP | None = None
) -> TrajectoryFits:
    """The `TrajectoryFits` of these demonstrations, the worst first.

    Args:
        recovery: what was recovered, from these demonstrations or from others.
        demonstrations: the trajectories to judge.
        mdp: the world. With it, every action that ties for the best counts as optimal; without it,
            only those that the recovered policy takes.
    """
    if isinstance(recovery, TripsRecovery):
        return called(trip_fits(recovery.choices(demonstrations)), demonstrations)
    policy, best = recovery.behaviour, optimal_actions(recovery, mdp)
    demonstrations.check_range(*recovery.solution.policy.shape)
    fits = _ordered(recovery.temperature > 0, *_totals(policy, best, demonstrations))
    return called(fits, demonstrations)


def called(fits: TrajectoryFits, seen: Demonstrations) -> TrajectoryFits:
    """The fits with the names of the episodes, where they have some."""
    return fits if seen.names is None else replace(fits, names=seen.names[fits.episode])


def trip_fits(choices: Choices) -> TrajectoryFits:
    """The `TrajectoryFits` of trips, each on its way to its goal, the worst first."""
    found = _ordered(True, *_totals(choices.policy, likeliest(choices.policy), choices.steps))
    return replace(found, episode=read_only(choices.trips[found.episode]))


def _totals(policy: np.ndarray, best: np.ndarray, seen: Demonstrations) -> np.ndarray:
    """[6, E] sums over each episode: steps, and what `_tables` has."""
    tables = _tables(policy, best)
    totals = np.zeros((len(tables) + 1, seen.episodes))
    totals[0] = seen.lengths
    for episode, index in _batches(seen, policy.shape[1]):
        starts = np.flatnonzero(np.diff(episode, prepend=-1))
        for row, table in zip(totals[1:], tables, strict=True):
            row[episode[starts]] += np.add.reduceat(table[index], starts)
    return totals


def likeliest(policy: np.ndarray) -> np.ndarray:
    """[S, A] bool, the actions that no other is likelier than."""
    return policy >= (1.0 - TIE) * policy.max(axis=1, keepdims=True)


def log_policy(policy: np.ndarray) -> np.ndarray:
    """[S, A] logarithm of a policy [S, A]; what underflowed counts as the smallest number."""
    return np.log(np.maximum(policy, np.finfo(np.float64).tiny))


def optimal_actions(recovery: Recovery, mdp: MDP | None = None) -> np.ndarray:
    """[S, A] bool, the best actions under the recovered objective; with the world, all that tie."""
    solution = recovery.solution
    if recovery.temperature > 0:
        return likeliest(solution.policy)
    if mdp is None:
        return solution.policy > TIE
    worth = priced(*recovery.objective.tables(mdp), solution.multipliers)
    worth = worth + mdp.discount * mdp.expected_next(solution.values)
    worth = np.where(mdp.choices, worth, -np.inf)
    loss = worth.max(axis=1, keepdims=True) - worth
    return (loss <= TIE * max(loss[mdp.choices].max(), 1e-300)) | (solution.policy > TIE)


def _tables(policy: np.ndarray, best: np.ndarray) -> list[np.ndarray]:
    """[S * A] each: log-likelihood, its mean, variance and third moment in that state, optimal."""
    logarithm = log_policy(policy)
    mean = (policy * logarithm).sum(axis=1, keepdims=True)
    moments = [(policy * (logarithm - mean) ** n).sum(axis=1, keepdims=True) for n in (2, 3)]
    tables = (logarithm, mean, *moments, best.astype(np.float64))
    return [np.broadcast_to(table, policy.shape).ravel() for table in tables]


def _ordered(noisy: bool, *totals: np.ndarray) -> TrajectoryFits:
    """The fits from sums over each episode, the worst first."""
    number = np.flatnonzero(totals[0])  # an episode without a step has no fit
    steps, likelihood, mean, variance, third, optimal = (total[number] for total in totals)
    z_score, p_value = _unusual(likelihood - mean, variance, third)
    share = optimal / steps
    # The longer of two equally bad ones says more.
    order = np.lexsort((-steps, likelihood / steps, z_score) if noisy else (-steps, share))
    nothing = np.full(len(steps), np.nan)
    columns = [number, steps.astype(np.int64)]
    columns += [likelihood / steps, mean / steps, z_score, p_value] if noisy else [nothing] * 4
    found = zip(fields(TrajectoryFits), [*columns, share], strict=False)  # no names yet
    return TrajectoryFits(**{one.name: read_only(column[order]) for one, column in found})


def _unusual(
    excess: np.ndarray, variance: np.ndarray, third: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """[E] z-scores and [E] lower tail chances of sums with these central moments.

    A log-likelihood is skewed, so that the normal law would call short trajectories unusual too
    often: the tail is that of a shifted gamma law with the same first three moments.
    """
    certain = variance <= ROUNDING
    spread = np.sqrt(np.where(certain, 1.0, variance))
    score = np.where(certain, 0.0, excess / spread)
    skew = np.where(certain, 0.0, third / spread**3)
    normal = np.abs(skew) < 1e-3
    shape = 4.0 / np.where(normal, 1.0, skew) ** 2
    at = np.maximum(shape + np.sign(skew) * np.sqrt(shape) * score, 0.0)
    below, above = gamma_tails(shape, at)
    tail = np.where(skew < 0, above, below)
    tail = np.where(normal, normal_tail(-score), tail)
    # Where every action was certain, another one is out of the question.
    wrong = certain & (excess < -1e-9)
    return np.where(wrong, -np.inf, score), np.where(certain, np.where(wrong, 0.0, 1.0), tail)


def _batches(seen: Demonstrations, actions: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Episode and s * A + a of the steps, in batches: never a column for all of them."""
    for low in range(0, seen.steps, BATCH):
        high = min(low + BATCH, seen.steps)
        first = int(np.searchsorted(seen.offsets, low, side="right")) - 1
        last = int(np.searchsorted(seen.offsets, high, side="left"))
        lengths = np.diff(np.clip(seen.offsets[first : last + 1], low, high))
        index = seen.states[low:high].astype(np.int64) * actions + seen.actions[low:high]
        yield np.repeat(np.arange(first, last), lengths), index


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
        estimator, _ = choose(mdp, features, demonstrations)
    pooling = hasattr(estimator, "dynamics_draws")
    alone = replace(cast("Likelihood", estimator), dynamics_draws=0) if pooling else estimator
    plain = recovery
    if plain is None or plain.identification.dynamics_draws:
        # What counts the dynamics already would count them twice.
        plain = recover(
            mdp, features, demonstrations, estimator=alone, dynamics_draws=0, throw=False
        )
    rng, found = np.random.default_rng(seed), []
    for _ in range(draws):
        moves = mdp.evidence.draw(mdp.transitions, rng)
        drawn = MDP(moves, mdp.initial, mdp.discount, available=mdp.available)
        with suppress(TacitError):
            answer = alone.fit(drawn, features, demonstrations, throw=False)
            found += [] if answer.status is RecoveryStatus.NOT_CONVERGED else [answer]
    if len(found) < 2:
        raise InvalidModel(
            f"at least 2 draws of the dynamics must have an answer; {len(found)} of {draws} have: "
            "the dynamics are too uncertain for this estimator"
        )
    summary = _summary(plain, found, draws)
    if not pooling:
        return summary
    counted = replace(cast("Likelihood", estimator), dynamics_draws=draws)
    return _tested(summary, counted.fit(mdp, features, demonstrations, throw=False))


def _each(kind: str, make: Callable[..., np.ndarray], *numbers: object) -> Numbers:
    """What is made of arrays of this kind: of costs, one a constraint."""
    parts = [one if kind == "cost" else [one] for one in numbers]
    made = [make(*part) for part in zip(*cast("list[list]", parts), strict=True)]
    return made if kind == "cost" else made[0]


def _summary(plain: Recovery, found: Sequence[Recovery], draws: int) -> DynamicsUncertainty:
    """What the draws say beside the plain recovery, its intervals widened."""
    known, count = plain.identification, len(found)
    moved, wide = {}, {}
    for kind, (name, least, most) in NUMBERS.items():
        points, drawn = getattr(plain, name), [getattr(one, name) for one in found]
        ends, errors = (getattr(known, f"{kind}_{of}") for of in ("intervals", "standard_errors"))
        widen = partial(_widen, draws=count, least=least, most=most)
        moved[kind] = _each(kind, _deviations, points, *drawn)
        wide[f"{kind}_intervals"] = _each(kind, widen, points, ends, moved[kind])
        wide[f"{kind}_standard_errors"] = _each(kind, _add, errors, moved[kind])
    moved["cost"] = tuple(moved["cost"])
    active = np.mean([one.identification.active for one in found], axis=0).reshape(-1)
    finding = _finding(plain, moved, active, count, draws)
    # A question answered later would take the dynamics for known.
    known = replace(known, **wide, findings=(finding, *known.findings), answer=None)
    return DynamicsUncertainty(
        recovery=replace(plain, identification=known),
        plain=plain,
        **{f"{kind}_deviations": one for kind, one in moved.items()},
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
    base, fits = found.recovery, pooled.goodness.adequate
    wide, other = base.identification, pooled.identification
    tables = {
        name: _each(kind, _hull, getattr(wide, name), getattr(other, name))
        for kind in NUMBERS
        for name in (f"{kind}_intervals",)
    }
    tests, plain = (Kind.ACTIVE, Kind.INACTIVE), base.goodness.findings()
    told = [one for one in wide.findings if one.kind not in tests and not one.about.constraints]
    told = [one for one in told if one not in (*plain, found.finding)]
    said = [one for one in other.findings if one.kind in tests or one.about.constraints]
    changed = base.goodness.adequate != fits
    if changed:  # what took the dynamics for known answers another question
        told, said = [one for one in other.findings if one not in pooled.goodness.findings()], []
    if changed or not np.array_equal(pooled.multipliers > 0, base.multipliers > 0):
        base = pooled
        # Standard errors are those of the pooled scores: how much they grow is said by theirs.
        own = [one for one in other.findings if _of_draws(one, found.draws + found.failed)]
        told = [one for one in told if one not in own]
        found = replace(found, finding=own[0]) if own else found
        names = ("cost_intervals", *(f"{kind}_standard_errors" for kind in NUMBERS))
        tables |= {name: getattr(other, name) for name in names}
    kept = ("active", "p_values", "unadjusted", "at_level", "sets", "selection")
    known = replace(
        wide,
        **tables,
        **{name: getattr(other, name) for name in kept},
        dynamics_draws=found.draws,
        findings=(*pooled.goodness.findings(), found.finding, *said, *told),
    )
    return replace(found, recovery=replace(base, identification=known, goodness=pooled.goodness))


def _of_draws(finding: Finding, draws: int) -> bool:
    """Whether a finding says what so many draws of the dynamics do to errors."""
    return finding.kind is Kind.ERRORS and finding.about.number == draws


def _hull(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """[n, 2] the intervals that hold both; one where the other is NaN."""
    low, high = np.fmin(one[:, 0], other[:, 0]), np.fmax(one[:, 1], other[:, 1])
    return np.stack([low, high], axis=1)


def _deviations(point: np.ndarray, *drawn: np.ndarray) -> np.ndarray:
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
    *,
    draws: int,
    least: float,
    most: float,
) -> np.ndarray:
    """[n, 2] each side of the intervals widened by what the dynamics add, within the limits."""
    from scipy.special import stdtrit

    if not len(ends):
        return ends
    reach = float(stdtrit(draws - 1, 0.5 + 0.5 * CONFIDENCE)) * np.nan_to_num(deviations)[:, None]
    with np.errstate(invalid="ignore"):
        away = np.hypot(np.abs(ends - point[:, None]), reach) * np.array([-1.0, 1.0])
    # A weight of free sign has no limit at 0.
    low = min(least, -1.0) if (ends < 0).any() else least
    new = np.clip(point[:, None] + away, low, most)
    return np.where(np.isfinite(ends) & np.isfinite(point)[:, None], new, ends)


def _times(growth: np.ndarray) -> str:
    """How many times as large all of them are, from the least to the most."""
    if np.nanmax(growth) <= 1.05:
        return "hardly larger"
    ends = [f"{end:.2g}" for end in (np.nanmin(growth), np.nanmax(growth))]
    return f"{' to '.join(dict.fromkeys(ends))} times as large"


def _finding(
    plain: Recovery, moved: Mapping[str, Numbers], active: np.ndarray, draws: int, asked: int
) -> Finding:
    """What so many draws, of those asked for, come to."""
    known = plain.identification
    weights = np.concatenate([moved["reward"], *moved["cost"]])
    names = [*plain.reward_names, *(name for part in plain.cost_names for name in part)]
    own = np.concatenate([known.reward_standard_errors, *known.cost_standard_errors])
    text = f"The dynamics were estimated; redrawn {draws} times from what is known of them, they "
    if np.isfinite(weights).any():
        most = first_largest(weights)
        text += f"move the weights by up to {weights[most]:.2g} ({names[most]})"
    else:
        text += "leave the weights unknown"
    sure = np.isfinite(own) & (own > 0)
    if sure.any():
        text += (
            f", which makes their standard errors {_times(_add(own, weights)[sure] / own[sure])}"
        )
    prices = np.asarray(known.multiplier_standard_errors, float)
    wider = _add(prices, np.asarray(moved["multiplier"])) / np.where(prices > 0, prices, np.nan)
    if np.isfinite(wider).any():
        whose = "those" if sure.any() else "make the standard errors"
        text += f", and {whose} of the prices {_times(wider)}"
    for k, share in enumerate(active):
        if bool(known.active[k]) and share < 1:
            text += f"; constraint {k} is active in {share:.0%} of the draws"
    if draws < asked:
        text += f"; {asked - draws} draws had no answer"
    text += ". Standard errors and intervals of the coefficients still take the dynamics for known"
    return Finding(text + ".", Kind.ERRORS, number=float(draws))
