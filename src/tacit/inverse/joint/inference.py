"""Error bars of a joint fit: what all tasks together say about each number of each task.

The information of the tasks adds up in the joint parameters; its inverse, mapped to the parameters
of one task and through the gauge, is that task's covariance. A shared direction is so known from
every task that pays for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.tally import Scatter
from tacit.forward.solution import visitation
from tacit.inference.boundary import Directions
from tacit.inference.counted_rows import CountedRows
from tacit.inference.gauge import Gauge
from tacit.inference.limits import lower_limits
from tacit.inverse.diagnostics import CountedDynamics
from tacit.inverse.findings import Finding, Kind, chance
from tacit.inverse.joint import Link
from tacit.inverse.joint.counted import tasks_noise
from tacit.inverse.joint.stack import Stack, StackFit
from tacit.likelihood.problem import Fit
from tacit.likelihood.chain import LARGEST
from tacit.inverse.noisy.counted import DynamicsNoise, budget_stretch
from tacit.inverse.noisy.inference import CLUSTERS, Errors, advantages, at_least, undecided
from tacit.likelihood.chain import information
from tacit.inverse.noisy.intervals import Numbers, intervals
from tacit.inverse.parameters import Parameters, inverse_information
from tacit.inverse.sets import unmeasured
from tacit.model.features import sums_as_given
from tacit.model.mdp import outside_policy

# Level of the tests whether tasks agree on what they share.
AGREEMENT_LEVEL = 0.01


def directions(shape: Link, z: np.ndarray) -> Directions:
    """Where the joint parameters may move from z [n]."""
    return Directions(
        [shape.jacobian(e, z) for e in range(len(shape.rows))],
        (z > shape.lower) & (z < shape.upper),
        shape.movable & (z <= shape.lower),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Pooled:
    """What all tasks say about the joint parameters.

    Attributes:
        fisher: [n, n] information of all steps.
        errors: covariance, blind directions and scatter of the joint parameters.
        moving: [n] bool, the joint parameters that are free, or on a bound perhaps by chance.
        limits: [n] lower limits of those without an upper one (forbidden costs), else NaN.
        outer: [n, n] sum over all steps of score times score.
        noise: what counted dynamics add to the joint parameters; None where all are known.
        dynamics: how much that is, one a task; None likewise.
    """

    fisher: np.ndarray
    errors: Errors
    moving: np.ndarray
    limits: np.ndarray
    outer: np.ndarray
    noise: DynamicsNoise | None = None
    dynamics: tuple[CountedDynamics | None, ...] = ()


def pooled(stack: Stack, fitted: StackFit, seen: Sequence[Demonstrations]) -> Pooled:
    """What the steps `seen` of all tasks say about the joint parameters of a fit."""
    here, scores = directions(fitted.link, fitted.z), stack.scores(fitted)
    fisher = here.information(stack.information(fitted))
    limits = _limits(stack, fitted)
    shut = np.isfinite(limits)
    moving = undecided(fitted.whole, fisher, here.free & ~shut) & ~shut
    inverse, blind = inverse_information(fisher, moving)
    many, scatter, clusters = sum(one.episodes for one in seen), None, None
    if many < sum(one.steps for one in seen):
        products = [Scatter.of(*pair).products for pair in zip(scores, seen, strict=True)]
        clusters = Scatter(many, here.information(products))
        if many >= CLUSTERS * max(int(moving.sum()), 1):
            scatter = at_least(fisher, clusters.products * (many / (many - 1.0)))
            inverse = inverse @ scatter @ inverse
    found = Errors(inverse, blind, scatter is not None, scatter, clusters=clusters)
    taken = [(one.counts, np.ones(one.mdp.states)) for one in stack.steps]
    squares = [information(one, *pair) for one, pair in zip(scores, taken, strict=True)]
    outer = here.information(squares)
    told = Pooled(fisher=fisher, errors=found, moving=moving, limits=limits, outer=outer)
    made = tasks_noise(stack, fitted, bread=fisher, free=moving)
    if made is None or stack.ridged or not fitted.whole.converged:
        return told
    noise, plain = made[0], inverse_information(fisher, moving)[0]
    counted = noise.on(found, fisher, plain)
    dynamics = [
        None
        if (rows := CountedRows.of(one.mdp)) is None
        else noise.summary(rows, one.visits, found, counted)
        for one in stack.steps
    ]
    return replace(told, errors=counted, noise=noise, dynamics=tuple(dynamics))


def together(parts: Sequence[Parameters]) -> Parameters:
    """The `Parameters` of several tasks that were fitted as one, task after task."""
    return replace(
        parts[0],
        names=tuple(f"{name} (task {e})" for e, part in enumerate(parts) for name in part.names),
        **{
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("estimates", "jacobian", "lower", "limits")
        },
    )


def parameters_of(
    stack: Stack, fitted: StackFit, told: Pooled, task: int, names: tuple[str, ...]
) -> Parameters:
    """The coefficients of one task, known from all of them together."""
    shape, z, space = fitted.link, fitted.z, stack.steps[task].space
    points = fitted.parts[task].z / space.scales
    lower = np.where(np.isfinite(shape.lower[shape.rows[task]]), 0.0, -np.inf)
    if stack.ridged or not fitted.whole.converged:
        absence = "the likelihood has no maximum" if stack.ridged else "the search did not converge"
        return unmeasured(names, points, lower=lower, absence=f"no standard errors: {absence}")
    kept = shape.movable | (z == 0.0)
    inner = np.ix_(kept, kept)
    per_entry = shape.factors[task] * z[shape.sizes[task]] / space.scales
    limits = np.where(space.signs < 0, told.limits[shape.rows[task]] * per_entry, np.nan)
    clusters = told.errors.clusters
    products = np.full(told.fisher.shape, np.nan) if clusters is None else clusters.products
    return Parameters(
        names=names,
        estimates=points,
        jacobian=shape.jacobian(task, z)[:, kept] / space.scales[:, None],
        information=told.fisher[inner],
        outer=told.outer[inner],
        scatter=products[inner],
        gradient=fitted.whole.gradient[kept],
        free=told.moving[kept],
        lower=lower,
        limits=limits,
        trajectories=0 if clusters is None else clusters.episodes,
        errors="clustered" if told.errors.clustered else "fisher",
        dynamics=None if told.noise is None else told.noise.added()[inner],
        attenuation=1.0 if told.noise is None else told.noise.attenuation,
    )


def numbers_of(
    stack: Stack, fitted: StackFit, told: Pooled, task: int, unit: np.ndarray | None = None
) -> Numbers:
    """The `Numbers` of one task, by the rules of a single one; its features divided by `unit` [D].

    What the other tasks add is the information about its parameters that is left when all other
    joint parameters adapt.
    """
    steps, part, shape = stack.steps[task], fitted.parts[task], fitted.link
    space, mdp, rows = steps.space, steps.mdp, shape.rows[task]
    limits = np.where(space.signs < 0, told.limits[rows], np.nan)
    from_start = visitation(mdp, outside_policy(mdp, part.parts[0].policy))
    scores = advantages(mdp, space, part)
    reaction = information(scores, part.parts[0].policy, from_start.sum(axis=1))
    spent = sums_as_given(space, from_start)
    if unit is not None:
        space = replace(space, scales=space.scales / unit)
    unbounded = np.isfinite(limits)
    gauge = Gauge.of(space, part.z, spent, reaction, unbounded=unbounded)
    inner, adapted = shape.jacobian(task, fitted.z), _adapted(fitted, told, task)
    covariance = inner @ told.errors.covariance @ inner.T
    scatter = told.errors.scatter
    found = Errors(
        covariance,
        told.errors.blind @ inner.T,
        told.errors.clustered,
        None if scatter is None else adapted.T @ scatter @ adapted,
    )
    # The likelihood of all tasks as a function of this one's parameters.
    idle = part.z == 0.0
    settled = idle & ~(shape.movable[rows] & (fitted.z[shape.sizes[task]] > 0))
    seen_alone = Fit(
        part.problem._replace(
            lower=np.where(np.isfinite(shape.lower[rows]), 0.0, -np.inf),
            upper=np.where(settled, 0.0, LARGEST),
        ),
        part.point._replace(gradient=adapted.T @ fitted.whole.gradient),
        part.steps,
        part.tolerance,
    )
    fisher = adapted.T @ told.fisher @ adapted
    # A factor * z[size] of the joint parameter is the task's own.
    per_entry = shape.factors[task] * fitted.z[shape.sizes[task]]
    about = (space, seen_alone, gauge, found)
    stretch = _stretch(stack, told, task, gauge, inner, covariance)
    ends, spread = intervals(*about, fisher=fisher, limits=limits * per_entry, stretch=stretch)
    if not fitted.whole.converged or stack.ridged:
        # Curvature says nothing about a maximum that is not there or was not reached.
        ends[:], spread[:] = np.nan, np.nan
    return Numbers(gauge, ends, spread)


def _stretch(
    stack: Stack, told: Pooled, task: int, gauge: Gauge, inner: np.ndarray, law: np.ndarray
) -> np.ndarray | None:
    """[K] by what errors of a task's budgets grow as what is spent moves with counted dynamics.

    `inner` [D, n] is the derivative of its parameters, `law` [D, D] their covariance.
    """
    if told.noise is None:
        return None
    begin = sum(steps.space.size for steps in stack.steps[:task])
    own = slice(begin, begin + len(inner))
    noise = replace(told.noise, sums=told.noise.sums[own, own], across=told.noise.across[:, own])
    inverse = inner @ inverse_information(told.fisher, told.moving)[0]
    return budget_stretch(stack.steps[task].space, gauge, inverse, law, noise)


def _adapted(fitted: StackFit, told: Pooled, task: int) -> np.ndarray:
    """[n, D] how the joint parameters follow when one of this task's moves, all others adapting."""
    shape, z = fitted.link, fitted.z
    kept = told.moving.copy()
    for entries in (shape.rows[task], shape.sizes[task]):
        kept[entries] = shape.movable[entries]
    kept &= np.isnan(told.limits)
    inner = shape.jacobian(task, z)[:, kept]
    follow = np.zeros((len(z), len(inner)))
    if not kept.any():
        return follow
    back = np.linalg.pinv(inner)
    _, sizes, axes = np.linalg.svd(inner)
    rank = int((sizes > 1e-12 * sizes.max(initial=0.0)).sum())
    rest = axes[rank:].T  # joint directions that leave this task alone
    fisher = told.fisher[np.ix_(kept, kept)]
    inverse, _ = inverse_information(rest.T @ fisher @ rest, np.ones(rest.shape[1], bool))
    follow[kept] = back - rest @ inverse @ rest.T @ fisher @ back
    return follow


def _limits(stack: Stack, fitted: StackFit) -> np.ndarray:
    """[n] limits of the joint parameters of forbidden costs, as `lower_limits`."""
    shape, z = fitted.link, fitted.z
    if stack.ridged:
        return np.full(len(z), np.nan)  # an expert without noise forbids nothing in particular
    costs = np.zeros(len(z), bool)
    for rows, steps in zip(shape.rows, stack.steps, strict=True):
        costs[rows[steps.space.signs < 0]] = True

    def refitted_loss(j: int, value: float) -> float:
        mine = np.arange(len(z)) == j
        start = np.where(mine, value, z)
        return stack.fit(shape.settled(mine, value), start, fitted.points).loss

    return lower_limits(
        z,
        np.diagonal(fitted.whole.curvature),
        costs & shape.movable & (z > 0),
        loss=lambda z: stack.loss_at(fitted, z),
        refitted_loss=refitted_loss,
        largest=LARGEST,
    )


def agreement_findings(p_values: np.ndarray) -> list[Finding]:
    """Whether the tasks agree on the weights of the reward, then of each constraint [1 + K]."""
    findings = []
    for b, p in enumerate(p_values.tolist()):
        if np.isnan(p):
            continue
        what, constraint = ("the reward", None) if b == 0 else (f"constraint {b - 1}", b - 1)
        said = f"The tasks agree on the weights of {what} ({chance(p)} if they share them)."
        kind = Kind.MISFIT if p < AGREEMENT_LEVEL else Kind.NOTE
        if kind is Kind.MISFIT:
            said = (
                f"The tasks disagree on the weights of {what} ({chance(p)} if they shared them): "
                "the shared weights are a compromise that fits none of them well."
            )
        findings.append(Finding(said, kind, constraint=constraint, number=float(p)))
    return findings
