"""The verb of the forward half, Objective -> Solution, and its answer where the model is split.

On a model of which no process holds the whole (`tacit.scale`) the answer stays split as well; its
certificate is made of the sums over all devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast, overload

import numpy as np

from tacit.engine.backends import compiled_in_double
from tacit.errors import InvalidModel, NotConverged
from tacit.forward.column_generation import ColumnGeneration
from tacit.forward.soft_dual import SoftDual
from tacit.forward.solution import Certificate, Solution, Status, status_of
from tacit.model.mdp import MDP
from tacit.model.objective import Objective

if TYPE_CHECKING:
    import jax

    from tacit.engine.backends import Array
    from tacit.engine.backends.sharded import Sharded
    from tacit.model.sharded import Rows, ShardedMDP
    from tacit.search.smooth_dual import Dual


class Solver(Protocol):
    """Frozen hyperparameters and one verb."""

    def solve(
        self, mdp: MDP, objective: Objective, *, guess: Solution | None = None, throw: bool = True
    ) -> Solution:
        """A solution with its certificate."""
        ...


@overload
def solve(
    mdp: MDP, objective: Objective, *, solver: Solver | None = None, throw: bool = True
) -> Solution: ...


@overload
def solve(
    mdp: ShardedMDP,
    objective: Rows[Objective],
    *,
    solver: SoftDual | None = None,
    throw: bool = True,
) -> ShardedSolution: ...


def solve(
    mdp: MDP | ShardedMDP,
    objective: Objective | Rows[Objective],
    *,
    solver: Solver | None = None,
    throw: bool = True,
) -> Solution | ShardedSolution:
    """The `Solution` of a constrained MDP, with multipliers, certificate and status.

    Args:
        mdp: the known world; or a `tacit.scale.ShardedMDP`, of which no process holds the whole.
        objective: what is wanted and what is refused; any number of constraints. For a sharded
            model, (start, stop) -> `Objective` of these states, all with the same finite budgets.
        solver: `ColumnGeneration()` (exact, the default), `OccupancyLP()` or
            `SoftDual(temperature=...)`, the only one for a sharded model.
        throw: raise `Infeasible` or `NotConverged` instead of returning a solution that says so.
    """
    if not isinstance(mdp, MDP):
        from tacit.model.sharded import ShardedMDP  # JAX, which the exact solvers do without

        if isinstance(mdp, ShardedMDP):
            rows = cast("Rows[Objective]", objective)
            return solve_sharded(mdp, rows, solver=solver, throw=throw)
    if not isinstance(mdp, MDP) or not isinstance(objective, Objective):
        got = f"{type(mdp).__name__} and {type(objective).__name__}"
        raise InvalidModel(f"solve takes an MDP and an Objective; got {got}")
    solver = ColumnGeneration() if solver is None else solver
    if isinstance(solver, type) or not hasattr(solver, "solve"):
        raise InvalidModel(f"solver must be one like ColumnGeneration(); got {solver!r:.60}")
    return solver.solve(mdp, objective, throw=throw)


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
    from tacit.search.smooth_dual import Dual, minimum

    solver = SoftDual() if solver is None else solver
    if not isinstance(solver, SoftDual):
        raise InvalidModel(f"a sharded model is solved by SoftDual(); got {solver!r:.60}")
    if not callable(objective):
        raise InvalidModel(
            "the objective of a sharded model must be a function (start, stop) -> Objective; "
            f"got {type(objective).__name__}"
        )
    budgets = _tables(mdp, objective, 0, 1)[2]
    if not np.isfinite(budgets).all():
        raise InvalidModel(f"budgets must be finite here: leave the others out; got {budgets}")
    size = len(budgets)
    reward = mdp.table(lambda i, j: _tables(mdp, objective, i, j)[0])
    costs = mdp.table(lambda i, j: -_tables(mdp, objective, i, j)[1], size)
    wanted, refused = extremes(mdp.backend, reward, costs)
    nothing = np.zeros(size)
    problem = Dual(
        start=mdp.initial,
        discount=mdp.discount,
        temperature=solver.temperature,
        base=reward,
        tables=costs,
        target=-budgets,
        lower=nothing,
        upper=np.full(size, np.inf),
        ridge=nothing,
        # The price at which a cost weighs as much as the reward and the noise.
        unit=(wanted + solver.temperature * np.log(mdp.actions + 1.0))
        / np.maximum(refused, 1e-300),
        scale=np.maximum(1.0, np.abs(budgets)),
        information=mdp.zeros(),
    )
    point, steps = minimum(
        mdp.backend, problem, nothing, mdp.zeros(), solver.tolerance, solver.max_steps
    )
    seen = judged(mdp.backend, problem, point)
    certificate = _certificate(mdp, budgets, point.x, seen)
    status = status_of(certificate, solver.tolerance)
    solution = ShardedSolution(
        policy=point.policy,
        visits=point.visits,
        values=point.values,
        multipliers=point.x,
        value=float(seen.value),
        spent=seen.spent,
        temperature=solver.temperature,
        status=status,
        certificate=certificate,
        iterations=int(steps),
    )
    if throw and status is not Status.CONVERGED:
        raise NotConverged(
            f"{status.value}, or check that the budgets can be met "
            f"(duality gap {certificate.duality_gap:.2e}, violation {certificate.violation:.2e})",
            solution,
        )
    return solution


class Judged(NamedTuple):
    """Sums over all states that a certificate is made of."""

    flow: Array  # L1 norm of what the visitation creates or loses
    value: Array  # reward collected
    spent: Array  # [D] minus what the tables collect
    primal: Array  # reward and entropy
    begun: Array  # values where it starts
    lift: Array  # largest Bellman residual, at least 0


@compiled_in_double
def judged(backend: Sharded, problem: Dual, point: Array) -> Judged:
    """The sums of a point, by the formulas of `certify`, each over all devices."""
    import jax.numpy as jnp

    discount, temperature = problem.discount, problem.temperature
    visits = jnp.maximum(point.visits, 0.0)
    visitation = visits[:, None] * point.policy
    flow = visitation.sum(axis=1) - discount * backend.inflow(visitation) - problem.start
    safe = jnp.where(point.policy > 0, point.policy, 1.0)
    entropy = -(point.policy * jnp.log(safe)).sum(axis=1)
    value = (visitation * problem.base).sum()
    reward = problem.base + jnp.tensordot(point.x, problem.tables, 1)
    backed, _ = backend.soft_backup(discount, temperature, reward, point.values)
    real = jnp.arange(len(visits)) < backend.count
    return Judged(
        jnp.abs(flow).sum(),
        value,
        -(problem.tables * visitation).sum(axis=(1, 2)),
        value + temperature * (visits @ entropy),
        problem.start @ point.values,
        jnp.where(real, backed - point.values, 0.0).max(initial=0.0),
    )


@compiled_in_double
def extremes(backend: Sharded, base: Array, tables: Array) -> tuple[Array, Array]:
    """The largest entry of `base` in size, and [D] of each table."""
    import jax.numpy as jnp

    return jnp.abs(base).max(), jnp.abs(tables).max(axis=(1, 2), initial=0.0)


def _certificate(
    mdp: ShardedMDP, budgets: np.ndarray, prices: np.ndarray, seen: Judged
) -> Certificate:
    """What `certify` says, from the sums."""
    scale = max(1.0, abs(float(seen.primal)))
    dual = float(seen.begun + seen.lift / (1.0 - mdp.discount) + prices @ budgets)
    over = (seen.spent - budgets) / np.maximum(1.0, np.abs(budgets))
    return Certificate(
        flow_residual=float(seen.flow),
        violation=float(np.maximum(over, 0.0).max(initial=0.0)),
        duality_gap=(dual - float(seen.primal)) / scale,
        slackness=float(np.abs(prices * (budgets - seen.spent)).max(initial=0.0)) / scale,
    )


def _tables(
    mdp: ShardedMDP, objective: Rows[Objective], start: int, stop: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[n, A] reward, [K, n, A] costs and [K] budgets of these states."""
    part = objective(start, stop)
    return *part.tables_of(stop - start, mdp.actions), part.budgets
