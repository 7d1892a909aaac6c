"""The second, independent solver: the linear program over visitations, by HiGHS.

And a thin hand on HiGHS for others: `optimum` of a program that is all there, `LinearProgram` for
columns that arrive one at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tacit.forward.policies import deterministic_values, deterministic_visitation
from tacit.forward.solution import Infeasibility, Solution, conclude
from tacit.forward.solver import BuiltInSolver, of_all_budgets
from tacit.model.ends import inside_table
from tacit.model.mdp import MDP
from tacit.model.objective import Objective

if TYPE_CHECKING:
    import highspy

# [m, n] rows of a program, dense or sparse.
Matrix: TypeAlias = Any
# HiGHS meets rows to 1e-10 at best, and calls budgets at the least cost infeasible.
ROUNDING = 1e-9


@dataclass(frozen=True)
class OccupancyLP(BuiltInSolver):
    """Maximises reward over all visitations within the budgets; multipliers are the rows' duals.

    Attributes:
        tolerance: largest entry of the certificate that still counts as converged.
    """

    tolerance: float = 1e-7

    def _solved(self, mdp: MDP, objective: Objective, guess: Solution | None) -> Solution:
        """The `Solution` at a vertex; `guess` is not used."""
        reward, costs = objective.tables(mdp)
        bounded = np.isfinite(objective.budgets)
        costs, budgets = costs[bounded], objective.budgets[bounded]
        reward, costs = inside_table(mdp, reward), inside_table(mdp, costs)
        loss, proof = -reward.ravel(), None
        vertex = _vertex(mdp, loss, costs, budgets)
        if vertex is None and len(budgets) == 0 and mdp.discount == 1.0:
            return unbounded(mdp, objective, self.tolerance)
        if vertex is None:
            vertex, proof = self._least_violation(mdp, costs, budgets)
            if proof.least <= proof.allowed + ROUNDING * (1.0 + abs(proof.allowed)):
                # Exactly at the least cost: HiGHS needs room for rounding.
                room = budgets + ROUNDING * np.maximum(1.0, np.abs(budgets))
                again, proof = _vertex(mdp, loss, costs, room), None
                if again is None and mdp.discount == 1.0:  # feasible, and still no optimum
                    return unbounded(mdp, objective, self.tolerance)
                vertex = again or vertex
        multipliers = np.zeros(objective.constraints)
        if proof is None:
            multipliers = of_all_budgets(bounded, vertex.prices)
        else:
            proof = replace(proof, weights=of_all_budgets(bounded, proof.weights))
        return conclude(
            mdp,
            objective,
            vertex.visitation,
            vertex.values,
            multipliers,
            tolerance=self.tolerance,
            infeasibility=proof,
            iterations=1,
        )

    def _least_violation(
        self, mdp: MDP, costs: np.ndarray, budgets: np.ndarray
    ) -> tuple[Vertex, Infeasibility]:
        """The visitation whose largest violation is smallest, and the weights that prove it."""
        scale = np.maximum(1.0, np.abs(budgets))
        nothing = np.zeros(mdp.states * mdp.actions)
        vertex = _vertex(mdp, nothing, costs, budgets, violation=scale)
        if vertex is None:
            raise RuntimeError("HiGHS could not solve the program of the visitations")
        weights = vertex.prices / vertex.prices.sum()
        # By duality the weighted least cost is that of the minimiser itself.
        least = float(weights @ np.tensordot(costs, vertex.visitation, 2))
        return vertex, Infeasibility(weights, least, float(weights @ budgets))


def unbounded(mdp: MDP, objective: Objective, tolerance: float) -> Solution:
    """The `Solution` that says that there is no finite value; its policy is the shortest walk."""
    reward, _ = objective.tables(mdp)
    every, walk = np.arange(mdp.states), mdp.walk[0]
    visitation = np.zeros((mdp.states, mdp.actions))
    visitation[every, walk] = deterministic_visitation(mdp, walk)
    return conclude(
        mdp,
        objective,
        visitation,
        deterministic_values(mdp, walk, reward[every, walk]),
        np.zeros(objective.constraints),
        tolerance=tolerance,
        policy=np.eye(mdp.actions)[walk],
        unbounded=True,
    )


class Vertex(NamedTuple):
    """An optimal vertex of the program."""

    visitation: np.ndarray  # [S, A]
    values: np.ndarray  # [S] duals of the flow rows
    prices: np.ndarray  # [K] duals of the cost rows


def _vertex(
    mdp: MDP,
    loss: np.ndarray,
    costs: np.ndarray,
    budgets: np.ndarray,
    *,
    violation: np.ndarray | None = None,
) -> Vertex | None:
    """The visitation of least `loss` [S * A] within the budgets; None if there is none.

    With `violation` [K] an extra variable lets every budget be exceeded by it times that scale, and
    is all that is minimised.
    """
    from scipy.sparse import csc_array, eye_array, hstack, kron, vstack

    outflow = kron(eye_array(mdp.states), np.ones((1, mdp.actions)))
    flow = outflow - mdp.discount * mdp.sparse().T
    matrix = csc_array(vstack([flow, csc_array(costs.reshape(len(costs), loss.size))]))
    there = np.flatnonzero(mdp.choices) if mdp.restricted else slice(None)
    if mdp.restricted:  # no variable for what is not there; an end has one, its arrivals
        matrix, loss = matrix[:, there], loss[there]
    lower, pairs = np.zeros(loss.size), loss.size
    if violation is not None:
        extra = np.r_[np.zeros(mdp.states), -violation][:, None]
        matrix = hstack([matrix, csc_array(extra)])
        loss, lower = np.r_[loss, 1.0], np.r_[lower, -np.inf]
    solution = optimum(
        loss,
        matrix,
        lower=lower,
        row_lower=np.r_[mdp.initial, np.full(len(budgets), -np.inf)],
        row_upper=np.r_[mdp.initial, budgets],
    )
    if solution is None:
        return None
    duals = -np.array(solution.row_dual)
    visitation = np.zeros(mdp.states * mdp.actions)
    visitation[there] = np.maximum(np.array(solution.col_value)[:pairs], 0.0)
    return Vertex(
        visitation.reshape(mdp.states, mdp.actions),
        duals[: mdp.states],
        np.maximum(duals[mdp.states :], 0.0),
    )


def optimum(
    cost: np.ndarray,
    matrix: Matrix,
    *,
    lower: np.ndarray,
    upper: ArrayLike = np.inf,
    row_lower: np.ndarray,
    row_upper: np.ndarray,
    **options: float,
) -> highspy.HighsSolution | None:
    """Where cost . x is least over lower <= x <= upper, row_lower <= matrix x <= row_upper.

    The matrix [m, n] is sparse. None if HiGHS finds no optimum.
    """
    import highspy
    from scipy.sparse import csc_array

    matrix = csc_array(matrix)
    program = highspy.HighsLp()
    program.num_row_, program.num_col_ = matrix.shape
    program.col_cost_, program.col_lower_ = cost, lower
    program.col_upper_ = np.broadcast_to(upper, len(cost))
    program.row_lower_, program.row_upper_ = row_lower, row_upper
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = matrix.indptr.astype(np.int32)
    program.a_matrix_.index_ = matrix.indices.astype(np.int32)
    program.a_matrix_.value_ = matrix.data.astype(np.float64)
    solver = new_highs(**options)
    solver.passModel(program)
    return solver.getSolution() if run(solver) else None


class LinearProgram:
    """min cost . x over x within bounds, row_lower <= A x <= row_upper; columns may be added."""

    def __init__(self, row_lower: np.ndarray, row_upper: np.ndarray) -> None:
        self._solver = new_highs()
        for low, high in zip(row_lower, row_upper, strict=True):
            self._solver.addRow(float(low), float(high), 0, np.zeros(0, np.int32), np.zeros(0))

    def add_column(self, cost: float, entries: np.ndarray, *, lower: float = 0.0) -> None:
        """One more variable, in [lower, inf), with these entries in the rows."""
        rows = np.flatnonzero(entries).astype(np.int32)
        self._solver.addCol(float(cost), lower, np.inf, len(rows), rows, entries[rows])

    def minimise(self) -> tuple[float, np.ndarray, np.ndarray] | None:
        """The minimum, the price of every row (non-negative where an upper bound binds), and x.

        None if HiGHS finds no feasible point.
        """
        if not run(self._solver):
            return None
        solution = self._solver.getSolution()
        # HiGHS gives a binding upper row of a minimisation a negative dual.
        prices = -np.array(solution.row_dual)
        return self._solver.getInfo().objective_function_value, prices, np.array(solution.col_value)


def new_highs(**options: float | bool | str) -> highspy.Highs:
    """A silent HiGHS with tolerances near its limit of 1e-10."""
    import highspy

    solver = highspy.Highs()
    settings = {
        "output_flag": False,
        "primal_feasibility_tolerance": 1e-10,
        "dual_feasibility_tolerance": 1e-10,
        **options,
    }
    for name, value in settings.items():
        solver.setOptionValue(name, value)
    return solver


def run(solver: highspy.Highs) -> bool:
    """Runs HiGHS; whether it found an optimum."""
    import highspy

    solver.run()
    if solver.getModelStatus() == highspy.HighsModelStatus.kUnknown:
        # Seen on badly scaled rows at the tightest tolerance: the usual one gets through.
        for name in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
            solver.setOptionValue(name, 1e-7)
        solver.setOptionValue("presolve", "off")
        solver.run()
    return solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
