"""Linear programs over the cone of explanations: rows arrive when they are needed.

Only the objective changes between questions, so each starts from the last optimal corner. A corner
that breaks an inequality of the cone, for the optimal policy in the states of the rest, is cut off
by it, until none is broken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.estimators.explanation.cone import ExplanationCone, full_forms, rows, slack, values
from tacit.forward.occupancy_lp import Matrix, new_highs, optimum
from tacit.forward.policies import PolicyColumn

# Rows added at once, the most violated first.
BATCH = 400
# Rounds of cutting off one corner: none was seen to need more than some dozens.
ROUNDS = 500
PRIMAL, DUAL = 4, 1
# Nearly dependent rows can make HiGHS lose its way. What then helps, in this order.
REMEDIES = (
    {},
    {"simplex_scale_strategy": 4},
    {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
    {"primal_feasibility_tolerance": 1e-7, "dual_feasibility_tolerance": 1e-7},
    {"solver": "ipm"},
)
USUAL = {
    "simplex_scale_strategy": 2,
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
    "solver": "simplex",
}


class Program:
    """max objective . (x, extra) over explanations x with amounts that sum to at most one.

    The extra variable is a margin: the slack of each pair in `strict` must be at least as large.
    Or, in `most_slack`, a total. It is 0 unless bounds are set.
    """

    def __init__(
        self, cone: ExplanationCone, *, strict: np.ndarray | None = None, tolerance: float = 1e-9
    ) -> None:
        self.cone = cone
        self.strict = np.zeros_like(cone.observed) if strict is None else strict
        self.tolerance = tolerance
        self.start: PolicyColumn | None = None
        self.solved = 0
        self._held = cone.restricted
        self._known: set[tuple[int, bytes]] = set()  # rows: the pair, and the policy in the rest
        self._forms: tuple[bytes, np.ndarray] | None = None
        self._sums: list[int] = []  # rows of sums of slack
        self._solver = self._model()

    def maximise(self, objective: np.ndarray, extra: float = 0.0) -> np.ndarray:
        """[n + 1] a corner x, extra where objective [n] . x + extra * (the extra) is largest."""
        return self._cut(np.r_[objective, extra], None)

    def most_slack(self, pairs: np.ndarray) -> np.ndarray:
        """[n + 1] an explanation x where the slack of `pairs` [S, A] is largest in sum; the sum."""
        assert not self.strict.any(), "the extra variable cannot be margin and sum at once"
        bound = 4.0 * np.abs(self.cone.tables).max(initial=0.0) * max(1, int(pairs.sum()))
        self.bound_extra(0.0, bound / self.share)
        corner = self._cut(np.r_[np.zeros(self.cone.size), 1.0], pairs.astype(float))
        self._solver.deleteRows(len(self._sums), np.array(self._sums, np.int32))
        self.bound_extra(0.0, 0.0)
        return corner

    @property
    def share(self) -> float:
        """Of an episode that one step is: slack is at most the tables' size over it.

        At discount 1 slack has no bound, and one far beyond any that matters is taken.
        """
        mdp = self.cone.mdp
        return 1.0 - mdp.discount if mdp.discount < 1.0 else 1e-3 / mdp.horizon

    def bound_extra(self, lower: float, upper: float) -> None:
        """Sets the bounds of the extra variable."""
        self._solver.changeColBounds(self.cone.size, lower, upper)

    def allow(self, columns: np.ndarray) -> None:
        """Keeps amounts of other columns than `columns` [C] bool at 0."""
        for j, allowed in enumerate(columns):
            self._solver.changeColBounds(j, 0.0, np.inf if allowed else 0.0)

    def _cut(self, objective: np.ndarray, pairs: np.ndarray | None) -> np.ndarray:
        """[n + 1] the best corner; with `pairs`, the extra variable is at most their slack in sum.

        That sum is concave: each policy in the rest gives a linear bound, one row.
        """
        count = len(objective)
        self._solver.changeColsCost(count, np.arange(count, dtype=np.int32), -objective)
        self._sums = []
        self._optimum(PRIMAL)
        corner = np.array(self._solver.getSolution().col_value)
        for _ in range(ROUNDS):
            x, extra = corner[:-1], corner[-1]
            level, best = values(self.cone, x, self.start)
            self.start = best
            short = slack(self.cone, x, level)
            broken = np.where(self._held, self.strict * extra - short, 0.0)
            surplus = 0.0 if pairs is None else extra - float((short * pairs).sum())
            added = self._add_broken(broken, best)
            if pairs is not None and surplus > self.tolerance * max(1.0, pairs.sum() ** 0.5):
                self._sums.append(self._solver.getNumRow())
                self._add(total(self.cone, self._forms_at(best), pairs)[None], 1.0)
                added = True
            if not added:
                break
            self._optimum(DUAL)
            corner = np.array(self._solver.getSolution().col_value)
        return corner

    def _add_broken(self, broken: np.ndarray, best: PolicyColumn | None) -> bool:
        """Adds the most broken inequalities that are not yet rows; whether there were any."""
        index = np.flatnonzero(broken > self.tolerance)
        if len(index) == 0:
            return False
        index = index[np.argsort(-broken.ravel()[index], kind="stable")][:BATCH]
        mark = b"" if best is None else best.policy[self.cone.rest].tobytes()
        fresh = np.array([i for i in index if (int(i), mark) not in self._known], dtype=int)
        if len(fresh) == 0:
            return False
        self._known.update((int(i), mark) for i in fresh)
        states, actions = np.unravel_index(fresh, broken.shape)
        block = rows(self.cone, self._forms_at(best), states, actions)
        self._add(block, self.strict[states, actions])
        return True

    def _forms_at(self, best: PolicyColumn | None) -> np.ndarray:
        """[S, n] the linear forms of the values for this policy in the rest, the last one kept."""
        if best is None:
            return self.cone.forms
        mark = best.policy[self.cone.rest].tobytes()
        if self._forms is None or self._forms[0] != mark:
            self._forms = (mark, full_forms(self.cone, best.policy))
        return self._forms[1]

    def _add(
        self,
        block: Matrix,
        extra: npt.ArrayLike = 0.0,
        *,
        lower: float = -np.inf,
        upper: float = 0.0,
    ) -> None:
        """More rows, lower <= block [p, n] . x + extra [p] * (the extra one) <= upper."""
        from scipy.sparse import csr_array, hstack

        count = block.shape[0]
        last = csr_array(np.broadcast_to(np.asarray(extra, dtype=float), count)[:, None])
        table = csr_array(hstack([csr_array(block), last]))
        low, high = np.full(count, lower), np.full(count, upper)
        starts, index = table.indptr[:-1].astype(np.int32), table.indices.astype(np.int32)
        self._solver.addRows(
            count, low, high, table.nnz, starts, index, np.asarray(table.data, float)
        )

    def _model(self) -> Any:
        cone = self.cone
        solver = new_highs(presolve="off", small_matrix_value=1e-12, **USUAL)
        for _ in range(cone.width):
            solver.addVar(0.0, np.inf)
        for _ in range(cone.size - cone.width):
            solver.addVar(-np.inf, np.inf)
        solver.addVar(0.0, 0.0)
        self._solver = solver
        amounts = np.zeros((1, cone.size))
        amounts[0, : cone.width] = 1.0
        self._add(amounts, upper=1.0)
        if cone.equalities.shape[0]:
            self._add(cone.equalities, lower=-self.tolerance, upper=self.tolerance)
        if cone.ceilings.shape[0]:
            self._add(cone.ceilings)
        if cone.plain:  # so many would be needed that all may come at once
            states, actions = np.nonzero(self._held)
            self._add(rows(cone, cone.forms, states, actions), self.strict[states, actions])
        return solver

    def _optimum(self, strategy: int) -> None:
        """Runs HiGHS from the last corner, and again from nothing if it loses its way."""
        import highspy

        self.solved += 1
        self._solver.setOptionValue("simplex_strategy", strategy)
        if self.cone.plain:  # from the last corner takes longer than an interior point from nothing
            self._solver.setOptionValue("solver", "ipm")
            self._solver.clearSolver()
        self._solver.run()
        for remedy in REMEDIES:
            if self._solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
                break
            self._solver.clearSolver()
            for name, value in remedy.items():
                self._solver.setOptionValue(name, value)
            self._solver.run()
        for name, value in USUAL.items():
            self._solver.setOptionValue(name, value)
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            raise RuntimeError(
                "HiGHS found no optimum over the explanations: "
                + self._solver.modelStatusToString(self._solver.getModelStatus())
            )


def least(cost: np.ndarray, matrix: Matrix, **limits: Any) -> np.ndarray:
    """[n] argmin of cost [n] . x within the `limits` of `optimum`, solved once and from nothing."""
    found = optimum(cost, matrix, small_matrix_value=1e-12, **limits)
    if found is None:
        raise RuntimeError("HiGHS found no optimum")
    return np.array(found.col_value)


def total(cone: ExplanationCone, forms: Matrix, weights: np.ndarray) -> np.ndarray:
    """[n] the sum of backup minus value over all pairs, weighted by `weights` [S, A]."""
    flow = cone.mdp.discount * cone.mdp.inflow(weights) - weights.sum(axis=1)
    found = flow @ forms
    found[: cone.width] += np.tensordot(cone.tables, weights, 2)
    return found
