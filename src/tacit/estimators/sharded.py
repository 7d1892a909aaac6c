"""Recovery on a model of which no process holds the whole: the noisy estimators, in short.

The parameters, their split into weights, prices and budgets, and standard errors. The tests and
sentences of a `Recovery` need the whole model in one place, and are not here.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.engine import Side
from tacit.engine.backends import Array, compiled_in_double, fetched
from tacit.engine.backends.sharded import Sharded
from tacit.errors import InvalidModel, NotConverged
from tacit.estimators.convex import VISIBLE, Convex
from tacit.estimators.likelihood import Likelihood
from tacit.inference.gauge import Gauge
from tacit.inference.information import inverse_information, row_errors
from tacit.likelihood.problem import Fit, LikelihoodProblem
from tacit.likelihood.protocol import LARGEST, Beginning, HostView, OneKind
from tacit.likelihood.rescue import RESCUE, rescued_match
from tacit.likelihood.rescue import VISIBLE as VISIBLE_STEPS
from tacit.likelihood.start import check_plain
from tacit.model.features.design import Design
from tacit.model.objective import Features
from tacit.model.sharded import Rows, ShardedMDP
from tacit.recovery import RecoveryStatus, status_of
from tacit.search.smooth_dual import Dual, DualPoint, loss_at, loss_error, mass, point_there


@dataclass(frozen=True, eq=False, kw_only=True)
class ShardedRecovery:
    """What a demonstrator wants and refuses; tables stay split, N being S made even.

    Attributes:
        reward_weights: [D] of L1 norm 1.
        cost_weights: one [D_k] per constraint, sum 1; NaN where its price is 0.
        multipliers: [K] price of each constraint.
        budgets: [K] what the expert spends; infinite where the price is 0.
        temperature: noise of the expert.
        standard_errors: [D + sum D_k + K + K] of all weights, multipliers and budgets, in this
            order; steps taken for independent. NaN for `Convex`, and where there is no maximum.
        status: how the search ended.
        projected_gradient: largest entry of the gradient that no bound holds back, on its scale.
        policy: [N, A] of the expert, split.
        values: [N] its values over the temperature, split.
        evaluations: of the loss.
    """

    reward_weights: np.ndarray
    cost_weights: tuple[np.ndarray, ...]
    multipliers: np.ndarray
    budgets: np.ndarray
    temperature: float
    standard_errors: np.ndarray
    status: RecoveryStatus
    projected_gradient: float
    policy: jax.Array
    values: jax.Array
    evaluations: int

    @classmethod
    def of(cls, fitted: Fit, status: RecoveryStatus, *, likely: bool) -> ShardedRecovery:
        """Of a fit that ended so; with standard errors where it is that of a likelihood."""
        (moments,), point = fitted.evidence([None]), fitted.parts[0]
        space = fitted.problem.chains[0].space
        gauge = Gauge.of(space, point.x, moments.spent, moments.reaction)
        errors = np.full(len(gauge.jacobian), np.nan)
        # Curvature says nothing about a maximum that is not there or was not reached.
        if likely and status in (RecoveryStatus.CONVERGED, RecoveryStatus.LOCAL_OPTIMUM):
            law = inverse_information(moments.fisher, fitted.free)
            errors = row_errors(gauge.jacobian, *law)
        return cls(
            reward_weights=gauge.reward_weights,
            cost_weights=gauge.cost_weights,
            multipliers=gauge.multipliers,
            budgets=gauge.budgets,
            temperature=gauge.temperature,
            standard_errors=errors,
            status=status,
            projected_gradient=fitted.projected_gradient,
            policy=point.policy,
            values=point.values,
            evaluations=fitted.steps,
        )


def recover_sharded(
    mdp: ShardedMDP,
    features: Rows[Features],
    seen: Rows[np.ndarray],
    *,
    estimator: object = None,
    throw: bool = True,
) -> ShardedRecovery:
    """The `ShardedRecovery` from what was seen in each state; every constraint is kept.

    Args:
        mdp: the model.
        features: (start, stop) -> `Features` of these states.
        seen: (start, stop) -> [stop - start, A] of these states: how often each action was taken
            for `Likelihood`, its mean discounted visits for `Convex`.
        estimator: `Likelihood` if None.
        throw: raise `NotConverged` where the tolerance was missed.
    """
    chosen = Likelihood() if estimator is None else estimator
    if not isinstance(chosen, Likelihood | Convex):
        raise InvalidModel(
            f"a sharded model is recovered by Likelihood() or Convex(); got {chosen!r:.60}"
        )
    check_plain(chosen, "a sharded model")
    if not callable(features) or not callable(seen):
        raise InvalidModel(
            "features and demonstrations of a sharded model must be functions of (start, stop); "
            f"got {type(features).__name__} and {type(seen).__name__}"
        )
    space = _design(mdp, features)
    counts = mdp.table(lambda i, j: np.asarray(seen(i, j), float))
    data = gathered(mdp.backend, mdp.discount, space.tables, counts)
    if not data.total > 0:
        raise InvalidModel("seen must hold some steps; all its entries are 0")
    likely = isinstance(chosen, Likelihood)
    start, weight = (data.start, float(data.size)) if likely else (mdp.initial, 1.0)
    ones = np.ones(space.size)
    dual = Dual(
        start=start,
        discount=mdp.discount,
        temperature=1.0,
        base=mdp.zeros(actions=True),
        tables=space.tables,
        target=data.target,
        lower=-np.inf * ones,
        upper=np.inf * ones,
        ridge=0.0 * ones,
        unit=ones,
        scale=weight / (1.0 - mdp.discount) * ones,
        information=data.visits if likely else mdp.zeros(),
    )
    chain = ShardedChain(mdp, space, dual, 0.0 if likely else chosen.ridge)
    bounds = space.lower(free_reward=chosen.free_reward), np.full(space.size, LARGEST)
    rules = {"tolerance": chosen.tolerance, "max_steps": chosen.max_steps}
    plain = LikelihoodProblem.of(chain, *bounds).minimum(np.zeros(space.size), **rules)
    visible = VISIBLE_STEPS if likely else VISIBLE
    ridge = RESCUE if likely else RESCUE / (1.0 - mdp.discount)
    fitted, boundless, unattainable = rescued_match(
        plain, data.target, visible, chosen.max_steps, ridge=ridge
    )
    unattainable &= not likely
    status = status_of(
        converged=fitted.converged,
        unattainable=unattainable,
        deterministic=boundless and not unattainable,
        proven=bool(data.convex) or not likely,
    )
    recovery = ShardedRecovery.of(fitted, status, likely=likely)
    if throw and recovery.status is RecoveryStatus.NOT_CONVERGED:
        raise NotConverged(
            f"{recovery.status.value} (projected gradient {recovery.projected_gradient:.2e})",
            recovery,
        )
    return recovery


@dataclass(frozen=True, eq=False)
class ShardedChain(HostView, OneKind):
    """A smooth dual of which no process holds the whole, as a problem asks for it.

    Attributes:
        mdp: the model.
        space: its coordinates, split.
        bare: the dual without bounds and ridge.
        ridge: pull of the parameters towards 0.
    """

    mdp: ShardedMDP
    space: Design
    bare: Dual
    ridge: float

    exact = False
    large = False
    penalty = None
    writable = False
    convex = True
    inputs = ()

    @property
    def dual(self) -> Dual:
        """With its ridge."""
        return self.bare._replace(ridge=np.full(self.space.size, self.ridge))

    @property
    def scale(self) -> np.ndarray:
        """[D] size of a gradient entry that counts as one."""
        return self.bare.scale

    def view(self, x: np.ndarray, moving: np.ndarray | None) -> ShardedChain:
        """Itself: all of it is on its devices."""
        return self

    def at(
        self, x: np.ndarray, near: DualPoint, precision: float, *, lean: bool = False
    ) -> DualPoint:
        """The loss at x [D] and its derivatives; tables stay split."""
        known = None if near.table_values is None else near
        return point_there(self.mdp.backend, self.dual, x, near.values, precision, near=known)

    def ended(self, point: DualPoint) -> DualPoint:
        """The point, its small parts in NumPy arrays."""
        return fetched(self.mdp.backend, point)

    def loss_at(self, x: np.ndarray, near: DualPoint, precision: float) -> float:
        """The loss at x [D] without its ridge."""
        return float(loss_at(self.mdp.backend, self.bare, x, near.values, precision))

    def error(self, point: DualPoint, x: np.ndarray, precision: float) -> float:
        """By what rounding and rough solves may mistake the loss."""
        loss = np.asarray(point.loss, float)[None]
        starts = float(mass(self.mdp.backend, self.bare.start))
        rough = np.array([precision * starts])
        return float(loss_error(loss, x[None], np.abs(self.bare.target), rough)[0])

    def evidence(self, point: DualPoint, inner: np.ndarray, seen: object) -> Any:
        """What the steps say at a point, in short: `Moments`."""
        visits = self.bare.information
        return moments_of(self.mdp.backend, self.dual, point, self.mdp.initial, visits)

    def unsettled(self, point: DualPoint) -> bool:
        """Whether the values are not those of a policy."""
        return not bool(values_hold(self.mdp.backend, point.values, point.residual))

    def blank(self, x: np.ndarray) -> DualPoint:
        """A point of which nothing is known."""
        nothing = np.zeros((len(x), len(x)))
        values = self.mdp.zeros()
        return DualPoint(x, np.inf, 0.0 * x, nothing, values, None, None, None, np.inf)

    def beginning(
        self, x: np.ndarray, near: DualPoint | None, problem: LikelihoodProblem, precision: float
    ) -> Beginning:
        """At x [D]: with a discount values are finite everywhere."""
        return Beginning(x, self.blank(x) if near is None else near, False)


def _design(mdp: ShardedMDP, features: Rows[Features]) -> Design:
    """The features of all states, scaled as `Design.of` does, split."""
    one: Features = features(0, 1)
    sizes = [table.shape[-1] for table in (one.reward, *one.costs)]
    ends = np.cumsum([0, *sizes])
    signs = np.repeat([1.0] + [-1.0] * len(one.costs), sizes)

    def rows(start: int, stop: int) -> np.ndarray:
        part: Features = features(start, stop)
        columns = [
            np.moveaxis(table if table.ndim == 3 else table[:, None, :], 2, 0)
            for table in (part.reward, *part.costs)
        ]
        shape = (stop - start, mdp.actions)
        return np.concatenate([np.broadcast_to(c, (len(c), *shape)) for c in columns])

    tables, scales = rescaled(mdp.backend, mdp.table(rows, int(ends[-1])), signs)
    blocks = tuple(slice(int(a), int(b)) for a, b in pairwise(ends))
    names = (*one.reward_names, *(name for group in one.cost_names for name in group))
    return Design(
        parts=(),
        shape=(mdp.states, mdp.actions),
        signs=signs,
        scales=scales,
        blocks=blocks,
        names=names,
        offsets=np.zeros(len(scales)),
        given=tables,
    )


@compiled_in_double
def rescaled(backend: Sharded, tables: Array, signs: Array) -> tuple[Array, Array]:
    """[D, N, A] tables divided by their range over states that are real, and [D] what by.

    Constants become 0.
    """
    real = (jnp.arange(tables.shape[1]) < backend.count)[:, None]
    low = jnp.where(real, tables, jnp.inf).min(axis=(1, 2))
    high = jnp.where(real, tables, -jnp.inf).max(axis=(1, 2))
    largest = jnp.maximum(jnp.abs(low), jnp.abs(high))
    varies = high - low > 1e-12 * largest
    scales = jnp.where(varies, high - low, jnp.where(largest > 0, largest, 1.0))
    return jnp.where(varies, signs / scales, 0.0)[:, None, None] * tables, scales


class ShardSums(NamedTuple):
    """The demonstrations as coefficients of the likelihood."""

    start: Array  # [N]
    visits: Array  # [N]
    target: Array  # [D]
    total: Array
    size: Array  # L1 norm of the start
    convex: Array  # whether the likelihood is, for certain


@compiled_in_double
def gathered(backend: Sharded, discount: Array, tables: Array, counts: Array) -> ShardSums:
    """The sums of what was seen, `counts` [N, A]."""
    visits = counts.sum(axis=1)
    start = visits - discount * backend.inflow(counts)
    total = visits.sum()
    return ShardSums(
        start,
        visits,
        (tables * counts).sum(axis=(1, 2)),
        total,
        jnp.abs(start).sum(),
        start.min() >= -1e-9 * total,
    )


class Moments(NamedTuple):
    """Sums over states of a fitted policy."""

    spent: Array  # [D] what the expert collects of the tables
    reaction: Array  # [D, D] its derivative in the parameters
    fisher: Array  # [D, D] information of the steps seen


@compiled_in_double
def moments_of(
    backend: Sharded, problem: Dual, point: DualPoint, start: Array, visits: Array
) -> Moments:
    """The sums over states of a fit, for the initial distribution `start` [N]."""
    discount = problem.discount
    fine = 1e-14 / (1 - discount) * jnp.abs(start).max()
    begun = backend.solve(point.policy, discount, Side(start, fine, transposed=True))
    later = backend.expected_next(point.table_values)
    scores = problem.tables + discount * later - point.table_values[:, :, None]
    flat = scores.reshape(len(scores), -1)

    def information(weights: Array) -> Array:
        return (flat * (weights[:, None] * point.policy).ravel()) @ flat.T

    begun = jnp.maximum(begun, 0.0)
    spent = (problem.tables * (begun[:, None] * point.policy)).sum(axis=(1, 2))
    return Moments(spent, information(begun), information(visits))


@compiled_in_double
def values_hold(backend: Sharded, values: Array, residual: Array) -> Array:
    """Whether the residual is so small that the values are those of a policy."""
    return residual <= 1e-8 * (1.0 + jnp.abs(values).max())
