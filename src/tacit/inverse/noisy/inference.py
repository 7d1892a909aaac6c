"""Error bars for a fitted noisy expert: information, standard errors, intervals, blind directions.

The score of a step is the advantage of its features, psi(s, a) - V_psi(s), a martingale difference:
the Fisher information of all steps is their covariance, summed over visits, whatever the law of the
states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed, scatter_of
from tacit.data.tally import Scatter
from tacit.inverse.findings import Finding, Kind
from tacit.inverse.noisy.boltzmann import LARGEST, Fit, loss_of, refit
from tacit.inverse.noisy.coordinates import Coordinates, Split
from tacit.inverse.parameters import BLIND, ONE_SIDED, inverse_information
from tacit.model.mdp import MDP

# Information a step below which a feature influences nothing but rounding.
SILENT = 1e-20
# Most features that one sentence lists.
NAMED = 6
# What scores are taken to be independent between, where it is nothing larger.
STEPS = "steps"
# Trajectories per parameter from which the clustered sandwich is trusted.
CLUSTERS = 10


@dataclass(frozen=True, eq=False)
class Errors:
    """What the data say about the parameters, in scaled coordinates.

    Attributes:
        covariance: [D, D] of the estimates; 0 for parameters on a bound.
        blind: [B, D] unit directions in which the parameters can move freely.
        clustered: whether trajectories or individuals, not steps, were the independent units.
        scatter: [D, D] covariance of the scores of all units; None where those are steps, so that
            it is the information.
        clusters: sums of squared scores of the units that trajectories make; None where they are
            not known.
        unit: what was taken for independent: "steps", "trajectories", "individuals" or "groups".
    """

    covariance: np.ndarray
    blind: np.ndarray
    clustered: bool
    scatter: np.ndarray | None = None
    clusters: Scatter | None = None
    unit: str = STEPS


def advantages(mdp: MDP, space: Coordinates, fitted: Fit) -> np.ndarray:
    """[D, S, A] the score of one step: its features and all that follow, less the average."""
    result = np.empty(space.tables.shape)
    for d, values in enumerate(fitted.point.table_values):
        later = mdp.discount * mdp.expected_next(np.ascontiguousarray(values))
        result[d] = space.tables[d] + later - values[:, None]
    if mdp.restricted:
        result[:, ~mdp.choices] = 0.0  # never taken, and nothing at an end is chosen
    return result


def information(scores: np.ndarray, policy: np.ndarray, visits: np.ndarray) -> np.ndarray:
    """[D, D] sum over states of visits [S] times the covariance of the scores under the policy."""
    flat = scores.reshape(len(scores), -1)
    return (flat * (visits[:, None] * policy).ravel()) @ flat.T


def square_roots(matrix: np.ndarray, blind: float = BLIND) -> tuple[np.ndarray, np.ndarray]:
    """[r, n] R with R' R = matrix, and [r, n] the transpose of its inverse, where it has one."""
    units = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    units = np.where(units > 0, units, 1.0)
    values, vectors = np.linalg.eigh(matrix / np.outer(units, units))
    seen = values > blind * max(float(values.max(initial=0.0)), 0.0)
    root = np.sqrt(values[seen])
    return (vectors[:, seen] * root).T * units, (vectors[:, seen] / root).T / units


def errors(
    fisher: np.ndarray,
    free: np.ndarray,
    scores: np.ndarray,
    demonstrations: Observed,
) -> Errors:
    """The `Errors` of the free parameters, clustered by trajectory where those are many.

    Args:
        fisher: [D, D] information of all steps.
        free: [D] bool, the parameters that no bound holds.
        scores: [D, S, A].
        demonstrations: the steps.
    """
    inverse, blind = inverse_information(fisher, free)
    least = CLUSTERS * max(int(free.sum()), 1)
    found, unit = clusters_of(scores, demonstrations, least)
    if found is None or found.episodes < least:
        return Errors(inverse, blind, False, None, found)
    scatter = found.products * (found.episodes / (found.episodes - 1.0))
    return Errors(inverse @ scatter @ inverse, blind, True, scatter, found, unit)


def clusters_of(
    scores: np.ndarray, demonstrations: Observed, least: int
) -> tuple[Scatter | None, str]:
    """Sums of squared scores of the units, None where only steps are known; and what these are.

    Individuals where they are named; else groups, which name who was seen, where there are `least`
    of them; else trajectories.
    """
    if demonstrations.episodes == demonstrations.steps:
        return None, STEPS
    who, unit = getattr(demonstrations, "individuals", None), "individuals"
    groups = getattr(demonstrations, "groups", None)
    if who is None and groups is not None and len(set(groups.tolist())) >= max(least, 2):
        who, unit = groups, "groups"
    if who is None:
        return scatter_of(scores, demonstrations), "trajectories"
    named = cast(Demonstrations, demonstrations)  # nothing else says who was seen
    return Scatter.of(scores, named, np.unique(who, return_inverse=True)[1]), unit


def robust_errors(
    bread: np.ndarray,
    free: np.ndarray,
    scores: np.ndarray,
    counts: np.ndarray,
    demonstrations: Observed,
) -> Errors:
    """The `Errors` where the model does not fit: those of its best approximation.

    Args:
        bread: [D, D] curvature of the loss.
        free: [D] bool, the parameters that no bound holds.
        scores: [D, S, A].
        counts: [S, A] how often each action was taken.
        demonstrations: the steps.
    """
    inverse, blind = inverse_information(bread, free)
    found, scatter, unit = score_scatter(scores, counts, int(free.sum()), demonstrations)
    return Errors(inverse @ scatter @ inverse, blind, found is not None, scatter, found, unit)


def score_scatter(
    scores: np.ndarray, counts: np.ndarray, size: int, demonstrations: Observed
) -> tuple[Scatter | None, np.ndarray, str]:
    """Sums of the units' squared scores, None where steps must do; [D, D] their scatter; the unit.

    Individuals or trajectories are the units where there are enough for so many parameters.
    """
    found, unit = clusters_of(scores, demonstrations, 2 * size + 2)
    if found is None or found.episodes < 2 * size + 2:
        return None, information(scores, counts, np.ones(len(counts))), STEPS
    return found, found.products * (found.episodes / (found.episodes - 1.0)), unit


def undecided(fitted: Fit, fisher: np.ndarray, free: np.ndarray) -> np.ndarray:
    """[D] bool, the free parameters and those that only chance may have put on their bound.

    A parameter whose unbounded estimate is within two standard errors of the bound could as well
    be inside: taking it for fixed would make the others look surer than they are.
    """
    inverse, _ = inverse_information(fisher, free)
    left = np.diagonal(fisher) - np.einsum("ij,jk,ik->i", fisher, inverse, fisher)
    slope = np.abs(fitted.point.gradient)
    near = slope < 2.0 * np.sqrt(np.maximum(left, 0.0))
    open_ended = fitted.problem.upper > fitted.problem.lower
    return np.asarray(free | (near & open_ended & (left > BLIND * np.diagonal(fisher))))


def gauge_errors(split: Split, found: Errors) -> np.ndarray:
    """Standard errors of weights, multipliers and budgets, in the order of `split.jacobian`.

    Infinite where a blind direction moves the number, NaN where there is none.
    """
    rows = split.jacobian
    known = np.asarray(np.isfinite(rows).all(axis=1))
    safe = np.where(known[:, None], rows, 0.0)
    variance = np.einsum("ij,jk,ik->i", safe, found.covariance, safe)
    result = np.where(known, np.sqrt(np.maximum(variance, 0.0)), np.nan)
    if len(found.blind):
        moved = np.abs(safe @ found.blind.T).max(axis=1)
        size = np.maximum(np.abs(safe).max(axis=1), 1e-300)
        result = np.where(known & (moved > 1e-5 * size), np.inf, result)
    return result


def upper_ends(fitted: Fit, fisher: np.ndarray, free: np.ndarray) -> np.ndarray:
    """[D] one-sided upper limits of the parameters that sit on their lower bound, else NaN.

    The loss rises from the bound with its gradient and the information left after the free
    parameters have adapted; the limit is where it has risen by the one-sided 95 % quantile.
    """
    inverse, _ = inverse_information(fisher, free)
    x, gradient = fitted.point.x, fitted.point.gradient
    result = np.full(len(x), np.nan)
    rise = 0.5 * ONE_SIDED**2
    for j in np.flatnonzero((x <= fitted.problem.lower) & (fitted.problem.upper > x)):
        left = fisher[j, j] - fisher[j] @ inverse @ fisher[j]
        slope = max(float(gradient[j]), 0.0)
        if left <= BLIND * max(fisher[j, j], 1e-300):
            result[j] = np.inf if slope == 0.0 else x[j] + rise / slope
        else:
            result[j] = x[j] + (np.sqrt(slope**2 + 2.0 * rise * left) - slope) / left
    return result


def silent(fisher: np.ndarray, steps: float) -> np.ndarray:
    """[D] bool, the parameters that no action ever depends on."""
    return np.asarray(np.diagonal(fisher) <= SILENT * max(steps, 1.0))


def blind_findings(space: Coordinates, blind: np.ndarray) -> list[Finding]:
    """One finding for each direction in which the parameters can move freely."""
    findings = []
    for direction in _echelon(blind):
        heavy = np.abs(direction) > 1e-3 * np.abs(direction).max()
        names = [space.names[d] for d in np.flatnonzero(heavy)]
        said = (
            f"{names[0]} cannot be told from these demonstrations: no weight on it changes what "
            "the demonstrator would do."
        )
        if len(names) > 1:
            more = len(names) - NAMED
            last = names[-1] if more <= 0 else f"{more + 1} more"
            listed = ", ".join(names[: min(len(names), NAMED) - 1]) + " and " + last
            said = f"{listed} trade off freely: these demonstrations cannot tell them apart."
        feature = names[0] if len(names) == 1 else None
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, feature=feature))
    return findings


def _echelon(rows: np.ndarray) -> np.ndarray:
    """[B, D] rows that span the same directions, each with few entries: two pairs stay pairs."""
    rows = rows.copy()
    for done in range(len(rows)):
        at, pivot = np.unravel_index(np.abs(rows[done:]).argmax(), rows[done:].shape)
        if abs(rows[done + at, pivot]) < 1e-9:  # the rest depends on what is done
            return rows[:done]
        rows[[done, done + at]] = rows[[done + at, done]]
        rows[done] /= rows[done, pivot]
        others = np.arange(len(rows)) != done
        rows[others] -= np.outer(rows[others, pivot], rows[done])
    return rows


# Parameters below this (nats per step at most) are far from forbidding anything.
SUSPICIOUS = 3.0
# Likelihood (nats) that may be lost on the way to infinity.
FLAT = 0.01


def forbidden_limits(mdp: MDP, space: Coordinates, fitted: Fit) -> np.ndarray:
    """[D] one-sided 95 % lower limits of the parameters that have no upper one; NaN elsewhere.

    A cost is forbidden if sending its parameter to the largest value costs no likelihood. The
    limit is where lowering it, the others adapting, has cost the one-sided quantile; 0 where the
    others make up for it altogether.
    """
    limits = np.full(space.size, np.nan)
    x, best = fitted.point.x, loss_of(mdp, fitted, fitted.point.x)
    for j in np.flatnonzero((space.signs < 0) & (x > SUSPICIOUS)):
        if x[j] ** 2 * fitted.point.curvature[j, j] > 4.0:
            continue  # well determined: its loss is curved on the scale of the parameter itself
        trial = x.copy()
        trial[j] = LARGEST
        if loss_of(mdp, fitted, trial) - best <= FLAT:
            limits[j] = _limit(mdp, fitted, int(j), best + 0.5 * ONE_SIDED**2)
    return limits


def _limit(mdp: MDP, fitted: Fit, j: int, ceiling: float) -> float:
    """The smallest value of parameter j at which the loss, over all others, meets the ceiling."""
    problem, x = fitted.problem, fitted.point.x
    trial = x.copy()

    def too_low(value: float, adapting: bool) -> bool:
        trial[j] = value
        if loss_of(mdp, fitted, trial) <= ceiling:
            return False
        if not adapting:
            return True
        lower, upper = problem.lower.copy(), problem.upper.copy()
        lower[j] = upper[j] = value
        near = refit(mdp, fitted, lower=lower, upper=upper)
        return loss_of(mdp, fitted, near.point.x) > ceiling

    # With the others fixed a value costs more: the cheap search first, then the true limit below.
    high = bisected(lambda value: too_low(value, False), float(x[j]), 30)
    return bisected(lambda value: too_low(value, True), high, 8)


def bisected(fails: Callable[[float], bool], high: float, steps: int) -> float:
    """The upper end of the last bracket of where `fails` turns false; 0 where it never fails."""
    low = 0.0
    if not fails(low):
        return low
    for _ in range(steps):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fails(middle) else (low, middle)
    return high
