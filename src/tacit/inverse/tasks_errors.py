"""Error bars of a joint fit: what all tasks together say about each number of each task.

The information of the tasks adds up in the joint parameters; its inverse, mapped to the parameters
of one task and through the gauge, is that task's covariance. A shared direction is so known from
every task that pays for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.demonstrations import Demonstrations
from tacit.forward.visitation import visitation
from tacit.inverse.boltzmann import LARGEST
from tacit.inverse.gauge import Split, split
from tacit.inverse.inference import (
    CLUSTERS,
    ONE_SIDED,
    TWO_SIDED,
    Errors,
    advantages,
    gauge_errors,
    information,
    inverse_information,
    undecided,
    upper_ends,
)
from tacit.inverse.separation import SUSPICIOUS
from tacit.inverse.tasks_search import directions
from tacit.inverse.tasks_stack import Stack, StackFit


@dataclass(frozen=True, eq=False)
class Pooled:
    """What all tasks say about the joint parameters.

    Attributes:
        errors: covariance [n, n] and blind directions [B, n] of the joint parameters.
        tops: [n] one-sided upper limits of those on their lower bound, else NaN.
        limits: [n] lower limits of those without an upper one (forbidden costs), else NaN.
    """

    errors: Errors
    tops: np.ndarray
    limits: np.ndarray


@dataclass(frozen=True, eq=False)
class Numbers:
    """One task in the gauge, every number with its error and its interval.

    Attributes:
        gauge: the numbers themselves.
        spread: [D + sum D_k + K + K] standard errors of weights, multipliers and budgets.
        ends: [D + sum D_k + K + K, 2] their 95 % intervals.
    """

    gauge: Split
    spread: np.ndarray
    ends: np.ndarray


def pooled(stack: Stack, fitted: StackFit, seen: Sequence[Demonstrations]) -> Pooled:
    """What the steps `seen` of all tasks say about the joint parameters of a fit."""
    here = directions(fitted)
    fisher = here.information(stack.information(fitted))
    limits = _forbidden(stack, fitted)
    shut = np.isfinite(limits)
    free = here.free & ~shut
    tops = upper_ends(fitted.whole, fisher, free)
    inverse, blind = inverse_information(fisher, undecided(fitted.whole, fisher, free) & ~shut)
    many = sum(one.episodes for one in seen)
    clustered = many >= CLUSTERS * max(int(free.sum()), 1)
    if clustered:
        inverse = inverse @ _clusters(stack, fitted, seen, here.jacobians) @ inverse
        inverse *= many / (many - 1.0)
    return Pooled(Errors(inverse, blind, clustered), tops, limits)


def numbers_of(stack: Stack, fitted: StackFit, told: Pooled, task: int) -> Numbers:
    """The `Numbers` of one task."""
    steps, part, shape = stack.steps[task], fitted.parts[task], fitted.link
    space, mdp = steps.space, steps.mdp
    rows, inner = shape.rows[task], shape.jacobian(task, fitted.z)
    shut = np.isfinite(told.limits[rows]) & (space.signs < 0)
    from_start = visitation(mdp, part.point.policy)
    scores = advantages(mdp, space, part)
    reaction = information(scores, part.point.policy, from_start.sum(axis=1))
    gauge = split(space, part.point.x, space.pull_back(from_start), reaction, forbidden=shut)
    mine = Errors(
        inner @ told.errors.covariance @ inner.T, told.errors.blind @ inner.T, told.errors.clustered
    )
    spread = gauge_errors(gauge, mine)
    points = np.concatenate(
        [gauge.reward_weights, *gauge.cost_weights, gauge.multipliers, gauge.budgets]
    )
    ends = np.stack([points - TWO_SIDED * spread, points + TWO_SIDED * spread], axis=1)
    size = space.size
    # What one unit of the joint parameter behind each of the task's own is in the gauge.
    with np.errstate(divide="ignore", invalid="ignore"):
        prices = gauge.multipliers / gauge.temperature
        totals = np.array([1.0 / gauge.temperature, *np.where(prices > 0, prices, np.nan)])
    counts = [block.stop - block.start for block in space.blocks]
    unit = shape.factors[task] * fitted.z[shape.sizes[task]] / space.scales
    unit = unit / np.repeat(totals, counts)
    top, limit = told.tops[rows] * unit, told.limits[rows] * unit
    held = ~np.isnan(top)
    ends[:size][held] = np.stack([np.zeros(size), top], axis=1)[held]
    bounded = np.isfinite(shape.lower[rows])
    ends[:size] = np.clip(ends[:size], np.where(bounded, 0.0, -1.0)[:, None], 1.0)
    ends[:size][shut] = np.stack([limit, np.full(size, np.inf)], axis=1)[shut]
    spread[:size] = np.where(held | shut, np.nan, spread[:size])
    of_prices = slice(size, size + space.constraints)
    ends[of_prices, 0] = np.maximum(ends[of_prices, 0], 0.0)
    return Numbers(gauge, spread, ends)


def largest_price(stack: Stack, alone: StackFit, told: Pooled, task: int, k: int) -> float:
    """Upper limit of a multiplier, from a fit of the task alone that has the constraint."""
    found = numbers_of(stack, alone, told, task)
    space = stack.steps[task].space
    if found.gauge.multipliers[k] > 0:
        return float(found.ends[space.size + k, 1])
    block = space.blocks[1 + k]
    tops = told.tops[alone.link.rows[task][block]] / space.scales[block]
    return float(found.gauge.temperature * np.nansum(tops))


def _clusters(
    stack: Stack,
    fitted: StackFit,
    seen: Sequence[Demonstrations],
    jacobians: Sequence[np.ndarray],
) -> np.ndarray:
    """[n, n] sum over trajectories of the squared scores of the joint parameters."""
    total = np.zeros((len(fitted.z), len(fitted.z)))
    for steps, part, one, inner in zip(stack.steps, fitted.parts, seen, jacobians, strict=True):
        scores = advantages(steps.mdp, steps.space, part)
        index = one.states.astype(np.int64) * steps.mdp.actions + one.actions
        sums = [np.add.reduceat(table.ravel()[index], one.offsets[:-1]) for table in scores]
        mapped = np.stack(sums).T @ inner
        total += mapped.T @ mapped
    return total


def _forbidden(stack: Stack, fitted: StackFit) -> np.ndarray:
    """[n] lower limits of the joint parameters of costs that have no upper one; NaN elsewhere.

    As for one task: sending the parameter to the largest value costs no likelihood, in any task.
    """
    shape, z, point = fitted.link, fitted.z, fitted.whole.point
    limits, costs = np.full(len(z), np.nan), np.zeros(len(z), bool)
    for rows, steps in zip(shape.rows, stack.steps, strict=True):
        costs[rows[steps.space.signs < 0]] = True
    for j in np.flatnonzero(costs & shape.movable & (z > SUSPICIOUS)):
        if z[j] ** 2 * point.curvature[j, j] > 4.0:
            continue  # well determined: its loss is curved on the scale of the parameter itself
        trial = z.copy()
        trial[j] = LARGEST
        if stack.loss_at(fitted, trial) - fitted.loss > 0.01:
            continue
        low, high = 0.0, z[j]
        for _ in range(30):
            trial[j] = 0.5 * (low + high)
            if stack.loss_at(fitted, trial) - fitted.loss > 0.5 * ONE_SIDED**2:
                low = trial[j]
            else:
                high = trial[j]
        limits[j] = high
    return limits
