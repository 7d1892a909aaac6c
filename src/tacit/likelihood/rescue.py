"""Fits whose maximum is infinite, and the ridge that makes them finite: the only rescue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

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


class Rescued(NamedTuple):
    """A fit with finite parameters."""

    fitted: Fit
    boundless: bool  # whether that took a ridge, because the best parameters are infinite
    unattainable: bool  # whether no policy collects what was to be matched


def rescued(
    fitted: Fit, threshold: float, max_steps: int, *, ridge: float = RESCUE
) -> tuple[Fit, bool]:
    """A fit with finite parameters, and whether that took a ridge because the best are infinite."""
    if fitted.problem.ridged or fitted.problem.penalised:
        return fitted, False
    moving = fitted.problem.movable & ~fitted.problem.ties.shares
    settled = fitted.converged and fitted.steps < max_steps
    flat = settled and looks_deterministic(fitted, threshold)
    if not is_infinite(fitted.z, moving, settled=settled, flat=flat):
        return fitted, False
    chains = [replace(chain, ridge=ridge) for chain in fitted.problem.chains]
    return fitted.refit(fitted.problem.with_chains(chains), max_steps=max_steps), True


def rescued_match(
    plain: Fit, target: np.ndarray, threshold: float, max_steps: int, *, ridge: float
) -> Rescued:
    """The same of a fit that matches the sums `target` [D], and whether any policy has them."""
    fitted, boundless = rescued(plain, threshold, max_steps, ridge=ridge)
    if not boundless or not fitted.converged:
        return Rescued(fitted, boundless=boundless, unattainable=False)
    # A policy that collects what was seen would keep the loss above its entropy, which is never
    # below 0, at every parameter. Rounding is relative to the terms that cancel.
    terms = float(np.abs(plain.z) @ np.abs(target))
    unattainable = plain.lagrangian(plain.z) < -1e-9 * (1.0 + terms)
    return Rescued(fitted, boundless=boundless, unattainable=bool(unattainable))


def is_infinite(
    z: np.ndarray, moving: np.ndarray, *, settled: np.ndarray | bool, flat: np.ndarray | bool
) -> np.ndarray:
    """[...] bool, whether the best of the `moving` parameters are infinite where searches are.

    A search that took all its steps is after something, however little of the gradient is left.

    Args:
        z: [..., D] where the searches are.
        moving: [D] or [..., D] bool, parameters that are not given.
        settled: [...] whether they ended there.
        flat: [...] whether the loss is flat beyond a settled one, as `is_boundless` says.
    """
    far = (np.abs(z) * moving).max(axis=-1, initial=0.0) > FAR
    return np.where(settled, flat, far)


def looks_deterministic(fitted: Fit, threshold: float) -> bool:
    """Whether larger parameters explain the expert as well: its noise is too small to see."""
    problem, ties = fitted.problem, fitted.problem.ties
    blocks: list[tuple[Any, Operator]] = [(slice(None), fitted.operator)]
    if ties.shares.any():  # of kinds, any may be without noise
        whole, kinds = np.asarray(fitted.curvature), [ties.rows[e] for e, _ in problem.wanting]
        blocks = [(rows, Matrices(whole[np.ix_(rows, rows)][None])) for rows in kinds]
    here = cache(lambda: fitted.lagrangian(fitted.z))

    def boundless(rows: Any, curvature: Operator) -> bool:
        def rise(places: np.ndarray, _: np.ndarray) -> np.ndarray:
            z = fitted.z.copy()
            z[rows] = places[0]
            return np.array([fitted.lagrangian(z) - here()])

        ends = {"lower": problem.lower[rows], "upper": problem.upper[rows]}
        given = {"curvature": curvature, "threshold": threshold, **ends}
        return bool(is_boundless(rise, fitted.z[rows][None], **given)[0])

    return any(boundless(*block) for block in blocks)


def is_boundless(
    rise: Callable[[np.ndarray, np.ndarray], np.ndarray],
    z: np.ndarray,
    *,
    lower: np.ndarray,
    upper: np.ndarray,
    curvature: Operator,
    threshold: float,
) -> np.ndarray:
    """[N] bool, whether minima at z [N, D] are infinite: losses are flat along larger parameters.

    At a proper optimum doubling costs half the parameters' own information; an expert without noise
    sends the scale to infinity, along which the loss is flat. Where all but a few choices are
    certain, those few stay as they are meanwhile (`outward_step`).

    Args:
        rise: (places [n, D], which problems [n]) -> [n] by how much their losses are above z's.
        z: the minima.
        lower: [D] or [N, D] smallest values allowed.
        upper: likewise the largest.
        curvature: of the losses.
        threshold: what larger parameters must cost.
    """
    upper = np.where(upper < LARGEST, upper, np.inf)
    moving = upper > lower  # a parameter that is given runs nowhere
    step = np.clip(np.where(moving, 2.0, 1.0) * z, lower, upper) - z
    large = (np.abs(z) * moving).max(axis=1, initial=0.0) > 1.0
    large &= np.abs(step).max(axis=1, initial=0.0) > 1.0  # else its bounds keep it here
    found = np.zeros(len(z), bool)
    if not large.any():
        return found
    bent = outward_step(step, curvature)
    rows = np.flatnonzero(large & ((bent * curvature.times(bent)).sum(axis=1) <= DEAR * threshold))
    with np.errstate(invalid="ignore"):  # at discount 1 both may be infinite: nothing is seen
        if rows.size:
            found[rows] = rise((z + step)[rows], rows) < threshold
        rows = rows[~found[rows]]
        if rows.size:
            flat = rise(np.clip(z + bent, lower, upper)[rows], rows) < threshold
            # A direction of which nothing is known is as flat from 0.
            gained = rise(bent[rows], rows) - rise(0.0 * bent[rows], rows)
            found[rows] = flat & (np.abs(gained) >= threshold)
    return found


def outward_step(step: np.ndarray, curvature: Operator) -> np.ndarray:
    """[N, D] steps [N, D] bent to where curvatures see least of them.

    Every coordinate goes at least half of its way. Two actions that are taken equally often, by an
    expert whose other choices are certain, pin down one sum of large parameters: to double that sum
    would be dear, and parameters may run off to infinity beside it.
    """
    slope, leeway = curvature.times(step), 0.5 * np.abs(step)
    share = np.full(len(step), BENT)
    return step + curvature.bounded_step(slope, -leeway, leeway, ties=None, share=share)
