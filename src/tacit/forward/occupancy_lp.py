"""The second, independent solver: the linear program over visitations, by HiGHS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.errors import InvalidModel
from tacit.forward.linear_program import new_highs, run
from tacit.forward.solution import Infeasibility, Solution, conclude, delivered
from tacit.mdp import MDP
from tacit.objective import Objective


# HiGHS meets rows to 1e-10 at best, and calls budgets at the least cost infeasible.
ROUNDING = 1e-9


@dataclass(frozen=True)
class OccupancyLP:
    """Maximises reward over all visitations within the budgets; multipliers are the rows' duals.

    Attributes:
        tolerance: largest entry of the certificate that still counts as converged.
        max_seconds: time after which HiGHS gives up.
    """

    tolerance: float = 1e-7
    max_seconds: float = np.inf

    def solve(
        self,
        mdp: MDP,
        objective: Objective,
        *,
        guess: Solution | None = None,
        throw: bool = True,
    ) -> Solution:
        """The `Solution` at a vertex; `guess` is not used."""
        if not self.tolerance > 0 or not self.max_seconds > 0:
            raise InvalidModel(
                "tolerance and max_seconds must be positive; "
                f"got {self.tolerance} and {self.max_seconds}"
            )
        reward, costs = objective.tables(mdp)
        bounded = np.isfinite(objective.budgets)
        costs, budgets = costs[bounded], objective.budgets[bounded]
        loss, proof = -reward.ravel(), None
        columns, values, prices = _run(mdp, loss, costs, budgets, self.max_seconds)
        if columns is None:
            columns, values, prices, proof = self._least_violation(mdp, costs, budgets)
            if proof.least <= proof.allowed + ROUNDING * (1.0 + abs(proof.allowed)):
                # Exactly at the least cost: HiGHS needs room for rounding.
                room = budgets + ROUNDING * np.maximum(1.0, np.abs(budgets))
                columns, values, prices = _run(mdp, loss, costs, room, self.max_seconds)
                proof = None
        if columns is None:
            raise RuntimeError("HiGHS could not solve the program of the visitations")
        multipliers = np.zeros(objective.constraints)
        if proof is None:
            multipliers[bounded] = np.maximum(prices, 0.0)
        else:
            weights = np.zeros(objective.constraints)
            weights[bounded] = proof.weights
            proof = Infeasibility(weights, proof.least, proof.allowed)
        return delivered(
            conclude(
                mdp,
                objective,
                np.maximum(columns.reshape(mdp.states, mdp.actions), 0.0),
                values,
                multipliers,
                tolerance=self.tolerance,
                infeasibility=proof,
                iterations=1,
            ),
            throw,
        )

    def _least_violation(self, mdp: MDP, costs: np.ndarray, budgets: np.ndarray):
        """The visitation whose largest violation is smallest, and the weights that prove it."""
        scale = np.maximum(1.0, np.abs(budgets))
        nothing = np.zeros(mdp.states * mdp.actions)
        columns, values, prices = _run(
            mdp, nothing, costs, budgets, self.max_seconds, violation=scale
        )
        if columns is None:
            raise RuntimeError("HiGHS found no visitation at all")
        weights = np.maximum(prices, 0.0)
        weights /= weights.sum()
        # By duality the weighted least cost is that of the minimiser itself.
        least = float(weights @ np.tensordot(costs, columns.reshape(costs.shape[1:]), 2))
        return columns, values, prices, Infeasibility(weights, least, float(weights @ budgets))


def _run(
    mdp: MDP,
    loss: np.ndarray,
    costs: np.ndarray,
    budgets: np.ndarray,
    seconds: float,
    *,
    violation: np.ndarray | None = None,
):
    """(visitation [S * A], values [S], prices [K]) of the minimum; visitation None if infeasible.

    With `violation` [K] an extra variable lets every budget be exceeded by it times that scale, and
    is all that is minimised.
    """
    import highspy
    from scipy.sparse import csc_array, eye_array, hstack, kron, vstack

    outflow = kron(eye_array(mdp.states), np.ones((1, mdp.actions)))
    flow = outflow - mdp.discount * mdp.sparse().T
    matrix = vstack([flow, csc_array(costs.reshape(len(costs), loss.size))]).tocsc()
    lower = np.zeros(loss.size)
    if violation is not None:
        extra = np.r_[np.zeros(mdp.states), -violation][:, None]
        matrix = hstack([matrix, csc_array(extra)]).tocsc()
        loss, lower = np.r_[loss, 1.0], np.r_[lower, -np.inf]
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = loss.size, matrix.shape[0]
    program.col_cost_, program.col_lower_ = loss, lower
    program.col_upper_ = np.full(loss.size, np.inf)
    program.row_lower_ = np.r_[mdp.initial, np.full(len(budgets), -np.inf)]
    program.row_upper_ = np.r_[mdp.initial, budgets]
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = matrix.indptr.astype(np.int32)
    program.a_matrix_.index_ = matrix.indices.astype(np.int32)
    program.a_matrix_.value_ = matrix.data
    solver = new_highs(time_limit=float(seconds))
    solver.passModel(program)
    if not run(solver):
        return None, None, None
    solution = solver.getSolution()
    duals = -np.array(solution.row_dual)
    columns = np.array(solution.col_value)[: mdp.states * mdp.actions]
    return columns, duals[: mdp.states], duals[mdp.states :]
