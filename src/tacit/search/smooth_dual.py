"""The smooth dual of a soft constrained problem: its loss, with gradient and curvature.

The values of the noisy expert are found by Newton's method, which is soft policy iteration
(`soft_fixed_point`): each step is the exact value of the current Boltzmann policy with its entropy.
It converges from anywhere, monotonically after the first step, and quadratically at the end.
Gradient and curvature are linear solves of the expert's own chain (`evaluate`).

The code is the same for every backend: `backend.arrays` is `jax.numpy` or `numpy`. On a device the
tables stay there while parameters are sought (`DualProblem`): only losses, gradients and [D, D]
cross.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.engine import Side, undiscounted_fixed_point
from tacit.engine.backends import (
    Array,
    Backend,
    compiled_in_double,
    fetched,
    placed,
    soft_fixed_point,
)
from tacit.search import minimise
from tacit.search.operators import Matrices

# Error of the values, as a share of the tolerance of a point.
VALUE_CARE = 1e-2
# What the visits may create or lose, likewise.
VISIT_CARE = 1e-1
# Advantages that are this share of the values are rounding.
INERT = 1e-12


class Dual(NamedTuple):
    """The dual of one problem: all that stays fixed while x is sought."""

    start: Array  # [S] weights of the states in the objective; p0 for a dual proper
    discount: Array
    temperature: Array
    base: Array  # [S, A] reward that does not depend on x
    tables: Array  # [D, S, A]
    target: Array  # [D]
    lower: Array  # [D]
    upper: Array  # [D]
    ridge: Array  # [D]
    unit: Array  # [D] step that a coordinate may take from 0 without looking back
    scale: Array  # [D] size of a gradient entry that counts as one
    information: Array  # [S] state weights of the curvature where visits are not positive


def restricted(dual: Dual, x: Array, moving: Array) -> Dual:
    """The dual of the moving parameters, [D] bool; the others are fixed as in x [D].

    What those add to the loss by themselves is not in it.
    """
    names = ("tables", "target", "lower", "upper", "ridge", "unit", "scale")
    base = dual.base + np.tensordot(x[~moving], dual.tables[~moving], 1)
    return dual._replace(base=base, **{name: getattr(dual, name)[moving] for name in names})


class DualPoint(NamedTuple):
    """The objective and its derivatives at one x."""

    x: Array  # [D]
    loss: Array  # scalar
    gradient: Array  # [D]
    curvature: Array  # [D, D]
    values: Array  # [S]
    table_values: Array  # [D, S] derivative of the values in x
    policy: Array  # [S, A]
    visits: Array  # [S] discounted visits from `start` under the policy
    residual: Array  # Bellman residual left

    @property
    def lean(self) -> bool:
        """Whether second derivatives were done without: never here."""
        return False


@compiled_in_double
def loss_at(backend: Backend, dual: Dual, x: Array, values: Array, tolerance: Array) -> Array:
    """The objective at x, found from the values of a point nearby."""
    values, _, residual = _expert(backend, dual, x, values, tolerance)
    return _loss(backend, dual, x, values, residual)


def evaluate(
    backend: Backend,
    dual: Dual,
    x: Array,
    values: Array,
    tolerance: Array,
    *,
    near: DualPoint | None = None,
) -> DualPoint:
    """The objective at x, with gradient and curvature by linear solves of the same chain.

    The solves begin from `values` [S], or from what was found at a point `near`, moved along.
    """
    xp, discount = backend.arrays, dual.discount
    leak = backend.leak(discount)
    if near is not None:
        values = near.values + (x - near.x) @ near.table_values
    values, policy, residual = _expert(backend, dual, x, values, tolerance)
    seen, known = (None, None) if near is None else (near.visits, near.table_values)
    average, enough, aim = (policy * dual.tables).sum(axis=2), None, None
    if not (xp is np and backend.direct):  # elimination is as exact as it is
        # The visits weigh the curvature and nothing else: they need not be so exact.
        enough = VISIT_CARE * tolerance * xp.abs(dual.start).sum()
        fine = xp.maximum(1e-14 / leak, 1e-2 * tolerance * leak)
        aim = fine * xp.abs(average).max(axis=1, initial=0.0) + 1e-300
    visits = backend.solve(policy, discount, Side(dual.start, enough, seen, transposed=True))
    table_values = backend.solve(policy, discount, Side(average, aim, known))
    # Advantages: how much more of a table an action brings than the policy does on average.
    later = backend.expected_next(table_values)
    advantages = dual.tables + discount * later - table_values[:, :, None]
    gradient = table_values @ dual.start - dual.target
    # A table that shifts all values alike moves no action: what is left of it is rounding, which a
    # Newton step would divide by its own square.
    largest = xp.abs(table_values).max(axis=1, initial=0.0)
    apart = xp.where(policy > 0, xp.abs(advantages), 0.0)  # what is never done shifts nothing
    inert = apart.max(axis=(1, 2), initial=0.0) <= INERT * largest
    if xp is not np or inert.any():
        advantages = xp.where(inert[:, None, None], 0.0, advantages)
        rounding = 1e-11 * (largest * xp.abs(dual.start).sum() + xp.abs(dual.target))
        gradient = xp.where(inert & (xp.abs(gradient) <= rounding), 0.0, gradient)
    # With a start below zero some visits may be too, and the true curvature indefinite.
    weights = xp.where(visits > 0, visits, dual.information)
    weighted = advantages * (weights[:, None] * policy)
    flat = (len(x), -1)
    curvature = weighted.reshape(flat) @ advantages.reshape(flat).T if len(x) else xp.zeros((0, 0))
    return DualPoint(
        x,
        _loss(backend, dual, x, values, residual),
        gradient + dual.ridge * x,
        curvature / dual.temperature + xp.diag(dual.ridge),
        values,
        table_values,
        policy,
        visits,
        residual,
    )


point_at = compiled_in_double(evaluate)
# The same, its arrays left where they were computed.
point_there = compiled_in_double(evaluate, kept=True)


def _expert(
    backend: Backend, dual: Dual, x: Array, guess: Array, tolerance: Array
) -> tuple[Array, Array, Array]:
    """[S] values and [S, A] policy of the noisy expert at x, and the Bellman residual left."""
    xp, discount, temperature = backend.arrays, dual.discount, dual.temperature
    if xp is np:  # what `tensordot` does, without its detours
        added = x[None] @ dual.tables.reshape(len(x), dual.base.size)
        reward = dual.base + added.reshape(dual.base.shape)
    else:
        reward = dual.base + xp.tensordot(x, dual.tables, 1)
    leak = backend.leak(discount)
    size = xp.abs(reward).max() + temperature * xp.log(1.0 + reward.shape[1])
    # A residual e moves the values by e / (1 - discount): aim well below the tolerance, but not
    # below what rounding leaves.
    precision = xp.maximum(VALUE_CARE * tolerance * leak, 4e-16 / leak * size)
    if backend.walk is not None:
        iterate = soft_fixed_point
        return undiscounted_fixed_point(backend, iterate, temperature, reward, guess, precision)
    return soft_fixed_point(backend, discount, temperature, reward, guess, precision)


def _loss(backend: Backend, dual: Dual, x: Array, values: Array, residual: Array) -> Array:
    """The objective at x, given the values [S] there; infinite where there are no finite ones."""
    loss = dual.start @ values - x @ dual.target + 0.5 * dual.ridge @ (x * x)
    if backend.walk is None:
        return loss
    return backend.arrays.where(residual < backend.arrays.inf, loss, backend.arrays.inf)


def blank(dual: Dual, x: np.ndarray, values: np.ndarray) -> DualPoint:
    """A `DualPoint` at x [D] of which nothing is known: where no value is finite."""
    size, (states, actions) = len(dual.target), dual.base.shape
    return DualPoint(
        x=np.array(x, dtype=float),
        loss=np.asarray(np.inf),
        gradient=np.zeros(size),
        curvature=np.zeros((size, size)),
        values=np.asarray(values, dtype=float),
        table_values=np.zeros((size, states)),
        policy=np.zeros((states, actions)),
        visits=np.zeros(states),
        residual=np.asarray(np.inf),
    )


def extended(dual: Dual, x: Array, moving: Array, part: DualPoint) -> DualPoint:
    """The `DualPoint` of a dual that was `restricted`, at x [D] and what the moving ones came to.

    Derivatives in parameters that were fixed are 0.
    """
    fixed = np.where(moving, 0.0, x)
    loss = part.loss + fixed @ (0.5 * dual.ridge * fixed - dual.target)
    whole = blank(dual, fixed, part.values)._replace(loss=loss)
    whole.x[moving], whole.gradient[moving] = part.x, part.gradient
    whole.curvature[np.ix_(moving, moving)] = part.curvature
    whole.table_values[moving] = part.table_values
    return whole._replace(policy=part.policy, visits=part.visits, residual=part.residual)


class DualProblem:
    """One smooth dual as the search asks for it, its tables on the device that solves it."""

    def __init__(
        self, backend: Backend, dual: Dual, values: Array, *, ties: np.ndarray | None = None
    ) -> None:
        self.lower, self.upper = dual.lower, dual.upper
        self.unit, self.ties, self._scale = dual.unit, ties, dual.scale
        self.exact = backend.direct or len(dual.target) == 0
        self._backend, self._dual, self._values = backend, placed(backend, dual), values
        self._begun = None
        if backend.arrays is not np and isinstance(values, np.ndarray):
            # With it the first evaluation is compiled like all others.
            self._begun = placed(backend, blank(dual, np.zeros(len(dual.target)), values))
        self._starts = float(mass(backend, self._dual.start))
        self._target = np.abs(dual.target)

    def at(
        self,
        z: np.ndarray,
        rows: np.ndarray,
        near: minimise.Point | None,
        precision: np.ndarray,
        *,
        lean: bool = False,
    ) -> minimise.Point:
        """The loss and its derivatives at z [1, D]; see `minimise.SearchProblem`."""
        before = self._begun if near is None else near.detail
        values = self._values if before is None else before.values
        given = (self._dual, z[0], values, float(precision[0]))
        point = point_there(self._backend, *given, near=before)
        loss = np.asarray(point.loss, dtype=float)[None]
        return minimise.Point(
            loss=loss,
            gradient=np.asarray(point.gradient)[None],
            curvature=Matrices(np.asarray(point.curvature)[None]),
            error=loss_error(loss, z, self._target, precision * self._starts),
            scale=self._scale[None],
            detail=point,
        )


@compiled_in_double
def mass(backend: Backend, start: Array) -> Array:
    """What all starts amount to."""
    return backend.arrays.abs(start).sum()


def loss_error(
    loss: np.ndarray, z: np.ndarray, target: np.ndarray, rough: np.ndarray
) -> np.ndarray:
    """[N] what rounding and values of this precision may add to a loss, over all starts."""
    rounding = 5e-14 * (np.abs(loss) + (np.abs(z) * target).sum(axis=1))
    return np.where(np.isfinite(loss), VALUE_CARE * rough + rounding, 0.0)


def minimum(
    backend: Backend,
    dual: Dual,
    x: np.ndarray,
    values: Array,
    tolerance: float,
    max_steps: int,
    *,
    ties: np.ndarray | None = None,
    stage: minimise.Stage | None = None,
) -> tuple[DualPoint, int]:
    """The `DualPoint` of the minimum over lower <= x <= upper, and the evaluations it took.

    Sought from x [D] and values [S]. What ties [E, D] say of x stays as it is.
    """
    problem = DualProblem(backend, dual, values, ties=ties)
    start = minimise.begin(np.asarray(x, dtype=float)[None])
    end = minimise.minimise(problem, start, tolerance=tolerance, max_steps=max_steps, stage=stage)
    assert end.point is not None
    return fetched(backend, end.point.detail), int(end.evaluations[0])
