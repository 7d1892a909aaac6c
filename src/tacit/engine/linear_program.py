"""A thin hand on HiGHS: minimise over columns that arrive one at a time, warm-started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import highspy


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
    """Runs HiGHS; True at an optimum or where a limit left a point for the certificate to judge."""
    import highspy

    solver.run()
    if solver.getModelStatus() == highspy.HighsModelStatus.kUnknown:
        # Seen on badly scaled rows at the tightest tolerance: the usual one gets through.
        for name in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
            solver.setOptionValue(name, 1e-7)
        solver.setOptionValue("presolve", "off")
        solver.run()
    return solver.getModelStatus() in (
        highspy.HighsModelStatus.kOptimal,
        highspy.HighsModelStatus.kTimeLimit,
        highspy.HighsModelStatus.kIterationLimit,
    )
