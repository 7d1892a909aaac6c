"""The answer of a solve where no process holds the whole model: it stays split as well.

Its certificate is made of the sums over all devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacit.engine.backends import compiled_in_double
from tacit.errors import InvalidModel, NotConverged
from tacit.forward.soft_dual import SoftDual, priced_dual
from tacit.forward.solution import (
    Certificate,
    Status,
    certificate_of,
    spending_scales,
    status_of,
    value_scale,
)
from tacit.search.smooth_dual import minimum

if TYPE_CHECKING:
    import jax

    from tacit.engine.backends import Array
    from tacit.engine.backends.sharded import Sharded
    from tacit.model.objective import Objective
    from tacit.model.sharded import Rows, ShardedMDP
    from tacit.search.smooth_dual import Dual


@dataclass(frozen=True, eq=False, kw_only=True)
class ShardedSolution:
    """A noisy expert within budgets; tables stay split, [N] or [N, A] with N = S made even.

    Attributes:
        policy: [N, A] split.
        visits: [N] discounted visits of each state, split.
        values: [N] value of the Lagrangian, split.
        multipliers: [K] price of each budget.
        value: expected discounted reward of the policy.
        spent: [K] expected discounted cost of the policy.
        temperature: noise of the policy.
        status: how the solve ended, derived from the certificate.
        certificate: what the status rests on.
        iterations: outer steps taken.
    """

    policy: jax.Array
    visits: jax.Array
    values: jax.Array
    multipliers: np.ndarray
    value: float
    spent: np.ndarray
    temperature: float
    status: Status
    certificate: Certificate
    iterations: int

    def __repr__(self) -> str:
        numbers = np.array2string(self.multipliers, precision=6)
        return f"ShardedSolution({self.status.name}, value={self.value:.6g}, multipliers={numbers})"


def solve_sharded(
    mdp: ShardedMDP, objective: Rows[Objective], *, solver: object = None, throw: bool = True
) -> ShardedSolution:
    """The `ShardedSolution` of the objective of which `objective(start, stop)` is one part.

    Budgets that no policy meets are not told apart from a search that missed its tolerance.

    Args:
        mdp: the model.
        objective: (start, stop) -> `Objective` of these states, all with the same finite budgets.
        solver: temperature, tolerance and most steps.
        throw: raise `NotConverged` where the tolerance was missed.
    """
    solver = SoftDual() if solver is None else solver
    if not isinstance(solver, SoftDual):
        raise InvalidModel(f"a sharded model is solved by SoftDual(); got {solver!r:.60}")
    budgets = _finite_budgets(mdp, objective)
    reward = mdp.table(lambda i, j: _tables(mdp, objective, i, j)[0])
    tables = mdp.table(lambda i, j: -_tables(mdp, objective, i, j)[1], len(budgets))
    largest_reward, largest_costs = largest_entries(mdp.backend, reward, tables)
    horizon = 1.0 / (1.0 - mdp.discount)
    units = spending_scales(horizon, largest_costs, budgets)
    gain = float(largest_reward) + solver.temperature * float(np.log(mdp.actions + 1.0))
    problem = priced_dual(
        start=mdp.initial,
        discount=mdp.discount,
        temperature=solver.temperature,
        reward=reward,
        tables=tables,
        budgets=budgets,
        unit=gain / np.maximum(largest_costs, 1e-300),
        scale=units,
        information=mdp.zeros(),
    )
    start_prices = np.zeros(len(budgets))
    point, steps = minimum(
        mdp.backend, problem, start_prices, mdp.zeros(), solver.tolerance, solver.max_steps
    )
    sums = certificate_sums(mdp.backend, problem, point)
    primal = float(sums.primal)
    certificate = certificate_of(
        flow_residual=float(sums.flow_residual),
        primal=primal,
        dual=float(sums.start_value) + float(sums.bellman_residual) * horizon,
        multipliers=point.x,
        budgets=budgets,
        spent=sums.spent,
        unit=value_scale(primal, gain * horizon),
        units=units,
    )
    solution = ShardedSolution(
        policy=point.policy,
        visits=point.visits,
        values=point.values,
        multipliers=point.x,
        value=float(sums.value),
        spent=sums.spent,
        temperature=solver.temperature,
        status=status_of(certificate, solver.tolerance),
        certificate=certificate,
        iterations=int(steps),
    )
    if throw and solution.status is not Status.CONVERGED:
        raise NotConverged(
            f"{solution.status.value}, or check that the budgets can be met "
            f"(duality gap {certificate.duality_gap:.2e}, violation {certificate.violation:.2e})",
            solution,
        )
    return solution


class SplitSums(NamedTuple):
    """The sums over all states that a certificate is made of."""

    flow_residual: Array  # L1 norm of what the visitation creates or loses
    value: Array  # reward collected
    spent: Array  # [D] minus what the tables collect
    primal: Array  # reward and entropy
    start_value: Array  # expected value of the first state
    bellman_residual: Array  # the largest, at least 0


@compiled_in_double
def certificate_sums(backend: Sharded, problem: Dual, point: Array) -> SplitSums:
    """The sums of a point, by the formulas of `certify`, each over all devices."""
    import jax.numpy as jnp

    discount, temperature = problem.discount, problem.temperature
    visits = jnp.maximum(point.visits, 0.0)
    visitation = visits[:, None] * point.policy
    flow = visitation.sum(axis=1) - discount * backend.inflow(visitation) - problem.start
    positive = jnp.where(point.policy > 0, point.policy, 1.0)
    entropy = -(point.policy * jnp.log(positive)).sum(axis=1)
    value = (visitation * problem.base).sum()
    reward = problem.base + jnp.tensordot(point.x, problem.tables, 1)
    backed, _ = backend.soft_backup(discount, temperature, reward, point.values)
    is_state = jnp.arange(len(visits)) < backend.count
    return SplitSums(
        flow_residual=jnp.abs(flow).sum(),
        value=value,
        spent=-(problem.tables * visitation).sum(axis=(1, 2)),
        primal=value + temperature * (visits @ entropy),
        start_value=problem.start @ point.values,
        bellman_residual=jnp.where(is_state, backed - point.values, 0.0).max(initial=0.0),
    )


@compiled_in_double
def largest_entries(backend: Sharded, base: Array, tables: Array) -> tuple[Array, Array]:
    """The largest absolute value of `base` [N, A], and [D] of each of the tables."""
    import jax.numpy as jnp

    return jnp.abs(base).max(), jnp.abs(tables).max(axis=(1, 2), initial=0.0)


def _finite_budgets(mdp: ShardedMDP, objective: Rows[Objective]) -> np.ndarray:
    """[K] the budgets, where the objective is a function and all of them are finite."""
    if not callable(objective):
        raise InvalidModel(
            "the objective of a sharded model must be a function (start, stop) -> Objective; "
            f"got {type(objective).__name__}"
        )
    _, _, budgets = _tables(mdp, objective, 0, 1)
    if not np.isfinite(budgets).all():
        raise InvalidModel(f"budgets must be finite here: leave the others out; got {budgets}")
    return budgets


def _tables(
    mdp: ShardedMDP, objective: Rows[Objective], start: int, stop: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[n, A] reward, [K, n, A] costs and [K] budgets of these states."""
    part = objective(start, stop)
    return *part.tables_of(stop - start, mdp.actions), part.budgets
