"""Fits whose maximum is infinite, and the ridge that makes them finite: the only rescue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tacit.likelihood.problem import Fit
from tacit.likelihood.protocol import LARGEST
from tacit.search.operators import Matrices, Operator

# Likelihood (nats) that doubling all parameters must cost, or the expert looks deterministic.
VISIBLE = 1e-3
# A search that has come this far without an end (in nats a step) is after an infinite parameter.
FAR = 30.0
# A step whose loss would rise by half as many thresholds, were it a parabola, is not flat.
DEAR = 1e3
# Share of a slope that is small enough to be left where a step is bent.
BENT = 0.01
# Pull towards 0 taken when the demonstrations alone determine no finite parameters.
RESCUE = 1e-3


def rescued(
    fitted: Fit, threshold: float, max_steps: int, *, ridge: float = RESCUE
) -> tuple[Fit, bool]:
    """A fit with finite parameters, and whether that took a ridge because the best are infinite."""
    if fitted.problem.ridged or fitted.problem.penalised:
        return fitted, False
    moving = fitted.problem.movable & ~fitted.problem.ties.shares
    far = float(np.abs(fitted.z[moving]).max(initial=0.0)) > FAR
    # One that took all its steps is after something, however little of the gradient is left.
    settled = fitted.converged and fitted.steps < max_steps
    runs_away = looks_deterministic(fitted, threshold) if settled else far
    if not runs_away:
        return fitted, False
    chains = [replace(chain, ridge=ridge) for chain in fitted.problem.chains]
    return fitted.refit(fitted.problem.with_chains(chains), max_steps=max_steps), True


def looks_deterministic(fitted: Fit, threshold: float) -> bool:
    """Whether larger parameters explain the expert as well: its noise is too small to see."""
    problem, ties = fitted.problem, fitted.problem.ties
    if not ties.shares.any():
        ends = {"lower": problem.lower, "upper": problem.upper, "threshold": threshold}
        return is_boundless(fitted.lagrangian, fitted.z, curvature=fitted.operator, **ends)

    def of_kind(rows: np.ndarray) -> bool:
        own = Matrices(np.asarray(fitted.curvature)[np.ix_(rows, rows)][None])
        ends = {"lower": problem.lower[rows], "upper": problem.upper[rows], "threshold": threshold}

        def loss(x: np.ndarray) -> float:
            z = fitted.z.copy()
            z[rows] = x
            return fitted.lagrangian(z)

        return is_boundless(loss, fitted.z[rows], curvature=own, **ends)

    return any(of_kind(ties.rows[e]) for e, _ in problem.wanting)


def is_boundless(
    loss: Callable[[np.ndarray], float],
    x: np.ndarray,
    *,
    lower: np.ndarray,
    upper: np.ndarray,
    curvature: Operator,
    threshold: float,
) -> bool:
    """Whether the minimum at x [D] is an infinite one: the loss is flat along larger parameters.

    At a proper optimum doubling costs half the parameters' own information; an expert without noise
    sends the scale to infinity, along which the loss is flat. Where all but a few choices are
    certain, those few stay as they are meanwhile (`outward_step`).
    """
    moving = upper > lower  # a parameter that is given runs nowhere
    if not np.abs(x[moving]).max(initial=0.0) > 1.0:
        return False
    upper = np.where(upper < LARGEST, upper, np.inf)
    step = np.clip(np.where(moving, 2.0, 1.0) * x, lower, upper) - x
    if not np.abs(step).max(initial=0.0) > 1.0:  # its bounds keep it here
        return False
    bent = outward_step(step[None], curvature)[0]
    if bent @ curvature.times(bent[None])[0] > DEAR * threshold:  # no need to look
        return False
    here = loss(x)
    if loss(x + step) - here < threshold:
        return True
    if not loss(np.clip(x + bent, lower, upper)) - here < threshold:
        return False
    # A direction of which nothing is known is as flat from 0.
    return abs(loss(bent) - loss(np.zeros(len(x)))) >= threshold


def outward_step(step: np.ndarray, curvature: Operator) -> np.ndarray:
    """[N, D] steps [N, D] bent to where curvatures see least of them.

    Every coordinate goes at least half of its way. Two actions that are taken equally often, by an
    expert whose other choices are certain, pin down one sum of large parameters: to double that sum
    would be dear, and parameters may run off to infinity beside it.
    """
    slope, leeway = curvature.times(step), 0.5 * np.abs(step)
    share = np.full(len(step), BENT)
    return step + curvature.bounded_step(slope, -leeway, leeway, ties=None, share=share)
