"""Trips drawn again: intervals by resampling whole trips, and whether groups of them are alike.

Every trip is one draw, whatever its goal. A resampled set is fitted from where the fit of all trips
ended, a few steps of Newton's; a constraint that the recovery does not keep stays out of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tacit.errors import InvalidDemonstrations
from tacit.inverse.batch import Batch
from tacit.inverse.joint.maximum import Found, Likelihoods
from tacit.inverse.joint.traveller import KNOWN, Choices, TripsRecovery
from tacit.inverse.joint.trips import Trips
from tacit.inverse.laws import chi_square_tail
from tacit.inverse.noisy import Bounds
from tacit.inverse.noisy.coordinates import Split, split
from tacit.inverse.noisy.likelihood import Likelihood
from tacit.inverse.parameters import inverse_information
from tacit.inverse.recovery import Recovery

# Simulated likelihood ratios where a coefficient is on its bound.
DRAWS = 199


def replicates_of(
    trips: Trips,
    recovery: TripsRecovery,
    options: Likelihood,
    *,
    replicates: int,
    seed: int,
    told: Callable[[int], None],
) -> Batch:
    """The `Batch` of recoveries from trips drawn with repetition, as many as there are.

    Args:
        trips: the network and its trips.
        recovery: what they gave.
        options: it was made with.
        replicates: how many.
        seed: of the draws.
        told: called with the number that is done.
    """
    seen, random = kept_trips(trips), np.random.default_rng(seed)
    if seen.demonstrations.episodes < 2:
        raise InvalidDemonstrations("resampling needs at least two trips; got one")
    idle = [not np.isfinite(weights).all() for weights in recovery.cost_weights]
    rows = []
    for done in range(replicates):
        many = seen.demonstrations.episodes
        drawn = seen.demonstrations.select(random.integers(many, size=many))
        rows.append(_replicate(replace(seen, demonstrations=drawn), recovery, options, idle))
        told(done + 1)
    gauges, founds = [gauge for gauge, _ in rows], [found for _, found in rows]
    return Batch(
        reward_weights=np.stack([one.reward_weights for one in gauges]),
        cost_weights=tuple(
            np.stack([one.cost_weights[k] for one in gauges]) for k in range(len(idle))
        ),
        multipliers=np.stack([one.multipliers for one in gauges]),
        budgets=np.stack([one.budgets for one in gauges]),
        temperatures=np.array([one.temperature for one in gauges]),
        losses=np.array([one.sums.loss for one in founds]),
        projected_gradients=np.array([one.fitted.projected_gradient for one in founds]),
        converged=np.array([one.fitted.converged for one in founds]),
        deterministic=np.zeros(replicates, bool),
        parameters=np.stack([one.fitted.point.x for one in founds]),
        steps=np.array([one.fitted.steps for one in founds]),
    )


def _replicate(
    trips: Trips, recovery: TripsRecovery, options: Likelihood, idle: list[bool]
) -> tuple[Split, Found]:
    """One resampled set in the gauge, and its fit."""
    likelihoods = Likelihoods(trips.journeys()[0], options)
    space = likelihoods.journeys.space
    bounds = Bounds.of(space, options)
    lower, upper = bounds.lower.copy(), bounds.upper.copy()
    for block, out in zip(space.blocks[1:], idle, strict=True):
        if out:
            lower[block] = upper[block] = 0.0
    start = np.clip(recovery.parameters.estimates * space.scales, lower, upper)
    found = likelihoods.minimum(start, lower, upper)
    many = trips.demonstrations.episodes
    spent, reaction = found.sums.spent / many, found.sums.reaction / many
    return split(space, found.fitted.point.x, spent, reaction), found


def kept_trips(trips: Trips) -> Trips:
    """The same without trajectories that are left out."""
    used = trips.goals > -2
    return trips if used.all() else replace(trips, demonstrations=trips.demonstrations.select(used))


def conduct(found: Recovery) -> tuple[np.ndarray, np.ndarray]:
    """[S, A] what was done, and how often; of trips, by all of them together."""
    if not isinstance(found, TripsRecovery):
        return found.solution.policy, found.solution.visitation
    total = found.flows.sum(axis=1, keepdims=True)
    return found.flows / np.where(total > 0, total, 1.0), found.flows


def random_sums(chosen: Choices, best: np.ndarray) -> np.ndarray:
    """[2, E] log-likelihood of random actions in every trip, and their best steps, `best` [M, A].

    Random among the actions that leave a way to the goal.
    """
    options = chosen.available.sum(axis=1)
    found = np.empty((2, len(chosen.trips)))
    for row, table in zip(found, (-np.log(options), best.sum(axis=1) / options), strict=True):
        sums = np.add.reduceat(table[chosen.steps.states], chosen.steps.offsets[:-1])
        row[np.argsort(np.argsort(chosen.trips))] = sums
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class Alike:
    """Whether groups of trips have the same coefficients.

    Attributes:
        ratio: likelihood ratio of the fits of the groups apart against one fit of all.
        degrees: of freedom of its chi-square; NaN where its law was simulated.
        p_value: chance of a ratio this large if the groups are alike.
        draws: simulated ratios behind it; 0 for a chi-square.
        law: where the chance comes from, in words.
        steps: [G] steps of each group.
    """

    ratio: float
    degrees: float
    p_value: float
    draws: int
    law: str
    steps: np.ndarray


def alike(
    trips: Trips, member: np.ndarray, options: Likelihood, *, draws: int | None, seed: int
) -> Alike:
    """Whether groups of trips share coefficients and noise: a likelihood-ratio test.

    Args:
        trips: of all groups, none of them left out.
        member: [E] number of the group of every trip.
        options: of the fits.
        draws: trips dealt out again; 0 takes the chi-square law, None deals where a coefficient is
            on its bound.
        seed: of the dealing.
    """
    options.check_no_lapses("the test of groups", KNOWN)
    pooled = Likelihoods(trips.journeys()[0], options).best()
    theta = pooled.fitted.point.x / trips.journeys()[0].space.scales
    count = int(member.max()) + 1

    def apart(member: np.ndarray) -> list[Found]:
        found = []
        for g in range(count):
            own = replace(trips, demonstrations=trips.demonstrations.select(member == g))
            likelihoods = Likelihoods(own.journeys()[0], options)
            space = likelihoods.journeys.space
            bounds = Bounds.of(space, options)
            start = np.clip(theta * space.scales, bounds.lower, bounds.upper)
            found.append(likelihoods.minimum(start, bounds.lower, bounds.upper))
        return found

    def ratio_of(parts: list[Found]) -> float:
        return max(0.0, 2.0 * (pooled.sums.loss - sum(one.sums.loss for one in parts)))

    parts = apart(member)
    ratio, degrees = ratio_of(parts), np.nan
    settled = pooled.fitted.problem.lower == pooled.fitted.problem.upper
    bounded = not all((one.fitted.free | settled).all() for one in (pooled, *parts))
    number = (DRAWS if bounded else 0) if draws is None else draws
    if number == 0:
        seen = [_rank(one) for one in (pooled, *parts)]
        degrees = float(max(sum(seen[1:]) - seen[0], 0))
        p_value = chi_square_tail(degrees, ratio) if degrees > 0 else 1.0
        law = f"by a chi-square with {degrees:g} degrees of freedom"
    else:
        random = np.random.default_rng(seed)
        dealt = np.array([ratio_of(apart(random.permutation(member))) for _ in range(number)])
        # One more in both counts: a simulated law cannot vouch for a chance of zero.
        p_value = float((1.0 + (dealt >= ratio * (1.0 - 1e-9)).sum()) / (1.0 + number))
        law = f"by dealing the trips out again {number} times"
    steps = np.bincount(np.repeat(member, trips.demonstrations.lengths), minlength=count)
    return Alike(ratio=ratio, degrees=degrees, p_value=p_value, draws=number, law=law, steps=steps)


def _rank(found: Found) -> int:
    """How many directions of the free parameters the trips tell."""
    free = found.fitted.free
    return int(free.sum()) - len(inverse_information(found.sums.fisher, free)[1])
