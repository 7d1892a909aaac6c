"""The verb of the forward half: Objective -> Solution."""

from __future__ import annotations

from typing import Protocol

from tacit.errors import InvalidModel
from tacit.forward.column_generation import ColumnGeneration
from tacit.forward.solution import Solution
from tacit.model.mdp import MDP
from tacit.model.objective import Objective


class Solver(Protocol):
    """Frozen hyperparameters and one verb."""

    def solve(
        self, mdp: MDP, objective: Objective, *, guess: Solution | None = None, throw: bool = True
    ) -> Solution:
        """A solution with its certificate."""
        ...


def solve(
    mdp: MDP, objective: Objective, *, solver: Solver | None = None, throw: bool = True
) -> Solution:
    """The `Solution` of a constrained MDP, with multipliers, certificate and status.

    Args:
        mdp: the known world.
        objective: what is wanted and what is refused; any number of constraints.
        solver: `ColumnGeneration()` (exact, the default), `OccupancyLP()` or
            `SoftDual(temperature=...)`.
        throw: raise `Infeasible` or `NotConverged` instead of returning a solution that says so.
    """
    if not isinstance(mdp, MDP) or not isinstance(objective, Objective):
        got = f"{type(mdp).__name__} and {type(objective).__name__}"
        raise InvalidModel(f"solve takes an MDP and an Objective; got {got}")
    if isinstance(solver, type) or not hasattr(solver or ColumnGeneration(), "solve"):
        raise InvalidModel(f"solver must be one like ColumnGeneration(); got {solver!r:.60}")
    return (solver or ColumnGeneration()).solve(mdp, objective, throw=throw)
