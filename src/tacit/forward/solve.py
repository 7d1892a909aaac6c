"""The verb of the forward half, Objective -> Solution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast, overload

from tacit.errors import InvalidModel
from tacit.forward.column_generation import ColumnGeneration
from tacit.forward.solution import Solution
from tacit.model.mdp import MDP
from tacit.model.objective import Objective

if TYPE_CHECKING:
    from tacit.forward.sharded import ShardedSolution
    from tacit.forward.soft_dual import SoftDual
    from tacit.model.sharded import Rows, ShardedMDP


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
            from tacit.forward.sharded import solve_sharded

            rows = cast("Rows[Objective]", objective)
            return solve_sharded(mdp, rows, solver=solver, throw=throw)
    if not isinstance(mdp, MDP) or not isinstance(objective, Objective):
        got = f"{type(mdp).__name__} and {type(objective).__name__}"
        raise InvalidModel(f"solve takes an MDP and an Objective; got {got}")
    solver = ColumnGeneration() if solver is None else solver
    if isinstance(solver, type) or not hasattr(solver, "solve"):
        raise InvalidModel(f"solver must be one like ColumnGeneration(); got {solver!r:.60}")
    return solver.solve(mdp, objective, throw=throw)
