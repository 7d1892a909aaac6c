"""Several constraints: a small linear program over the policies met so far (Dantzig-Wolfe).

Phase one mixes policies to make the largest violation as small as possible; if that stays positive,
its dual weights prove with one unconstrained MDP that no policy meets the budgets (Farkas pricing).
Phase two mixes for reward within the budgets. Both are priced by policy iteration.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tacit.forward.linear_program import LinearProgram
from tacit.forward.policy_iteration import Column, Priced, best_column
from tacit.forward.solution import Infeasibility
from tacit.mdp import MDP

# Differences below this, relative to the numbers compared, are rounding of the linear solves.
ROUNDING = 1e-11
# Trial prices keep this share of the way from the master's corner to the best prices so far: while
# there are few columns the corners jump about.
SMOOTHING = 0.5


@dataclass(frozen=True, eq=False)
class Pool:
    """The policies met so far.

    Attributes:
        mdp: the model.
        tables: [1 + K, S, A] reward and costs.
        limit: most unconstrained problems to solve.
        columns: the policies, in order of discovery.
    """

    mdp: MDP
    tables: np.ndarray
    limit: int
    columns: list[Column] = field(default_factory=list)

    def price(self, reward: float, prices: np.ndarray, start: Column | None = None) -> Column:
        """The best policy for reward * r - prices . c, not yet in the pool."""
        if start is None and self.columns:
            start = self.columns[-1]
        return best_column(self.mdp, self.tables, np.r_[reward, -prices], start=start)

    @property
    def full(self) -> bool:
        """Whether the steps are used up."""
        return len(self.columns) >= self.limit

    def mixture(self, weights: np.ndarray) -> tuple[list[Column], np.ndarray]:
        """The columns of positive weight, and their weights."""
        keep = np.flatnonzero(weights > 1e-13)
        return [self.columns[i] for i in keep], weights[keep] / weights[keep].sum()


def price_many(
    mdp: MDP, tables: np.ndarray, budgets: np.ndarray, *, start: Column | None, limit: int
) -> Priced:
    """The prices of K budgets, and a mixture of at most K + 1 policies that keeps them.

    Args:
        mdp: the model.
        tables: [1 + K, S, A] reward and costs.
        budgets: [K].
        start: a policy to begin from.
        limit: most unconstrained problems to solve.
    """
    pool = Pool(mdp, tables, limit)
    first = pool.price(1.0, np.zeros(len(budgets)), start)
    pool.columns.append(first)
    if (first.totals[1:] - budgets <= ROUNDING * np.maximum(1.0, np.abs(budgets))).all():
        return Priced(np.zeros(len(budgets)), [first], np.ones(1), None, 1)
    left, infeasible = _least_violation(pool, budgets)
    if infeasible is not None:
        return infeasible
    for room in (0.0, 1e-10, 1e-9, 1e-8):  # on the edge HiGHS may see no room where there is none
        priced = _best_mixture(pool, budgets + left + room * np.maximum(1.0, np.abs(budgets)))
        if priced is not None:
            return priced
    raise RuntimeError("HiGHS refuses a mixture that phase one found")


def no_room(mdp: MDP, tables: np.ndarray, budgets: np.ndarray) -> bool:
    """Whether budgets smaller by a ten-millionth could not be met together."""
    less = budgets - 1e-7 * np.maximum(1.0, np.abs(budgets))
    pool = Pool(mdp, tables, limit=1000)
    pool.columns.append(pool.price(0.0, np.ones(len(budgets))))
    return _least_violation(pool, less)[1] is not None


def _least_violation(pool: Pool, budgets: np.ndarray) -> tuple[np.ndarray, Priced | None]:
    """[K] overspend that is left for rounding, or the mixture of least violation with its proof."""
    scale = np.maximum(1.0, np.abs(budgets))
    count = len(budgets)
    master = LinearProgram(np.r_[np.full(count, -np.inf), 1.0], np.r_[np.zeros(count), 1.0])
    master.add_column(1.0, np.r_[-np.ones(count), 0.0], lower=-np.inf)  # the largest violation
    master.add_column(0.0, np.r_[(pool.columns[0].totals[1:] - budgets) / scale, 1.0])
    while True:
        optimum = master.minimise()
        assert optimum is not None, "any mixture is feasible for the least violation"
        violation, duals, weights = optimum
        if violation <= 0.0:
            return np.zeros(count), None
        pressure = np.maximum(duals[:count], 0.0) / scale
        pressure /= pressure.sum()
        column = pool.price(0.0, pressure)
        least, allowed = float(pressure @ column.totals[1:]), float(pressure @ budgets)
        mixed = weights[1:] @ np.stack([c.totals[1:] for c in pool.columns])
        rounding = ROUNDING * (abs(least) + abs(allowed) + float(pressure @ np.abs(mixed)))
        settled = float(pressure @ mixed) <= least + rounding or pool.full
        if settled and least > allowed + rounding:
            columns, shares = pool.mixture(weights[1:])
            proof = Infeasibility(pressure, least, allowed)
            steps = len(pool.columns)
            return np.zeros(count), Priced(np.zeros(count), columns, shares, proof, steps)
        if settled:
            return max(violation, 0.0) * scale, None
        pool.columns.append(column)
        master.add_column(0.0, np.r_[(column.totals[1:] - budgets) / scale, 1.0])


def _best_mixture(pool: Pool, budgets: np.ndarray) -> Priced | None:
    """The optimal mixture, from a pool that contains a feasible one; None if HiGHS sees none."""
    count = len(budgets)
    # HiGHS has absolute tolerances: give it numbers of order one.
    sizes = np.abs(pool.tables).max(axis=(1, 2)) / (1.0 - pool.mdp.discount)
    sizes = np.where(sizes > 0.0, sizes, 1.0)
    master = LinearProgram(np.r_[np.full(count, -np.inf), 1.0], np.r_[budgets / sizes[1:], 1.0])
    for column in pool.columns:
        master.add_column(-column.totals[0] / sizes[0], np.r_[column.totals[1:] / sizes[1:], 1.0])
    best, best_prices, lowest = pool.columns[0], np.zeros(count), np.inf
    smoothing = SMOOTHING
    while True:
        optimum = master.minimise()
        if optimum is None:
            return None
        loss, duals, weights = optimum
        value = -loss * sizes[0]
        corner = np.maximum(duals[:count], 0.0) * sizes[0] / sizes[1:]
        toward = 0.0 if np.isinf(lowest) else smoothing
        trial = toward * best_prices + (1.0 - toward) * corner
        column = pool.price(1.0, trial)
        dual = float(column.totals[0] - trial @ (column.totals[1:] - budgets))
        if dual < lowest:
            best, best_prices, lowest = column, trial, dual
        rounding = ROUNDING * (
            abs(value) + float(corner @ (np.abs(budgets) + np.abs(column.totals[1:])))
        )
        if lowest - value <= rounding or pool.full:
            break
        # What the column adds at the master's corner; nothing, if smoothing led astray.
        if column.totals[0] - corner @ (column.totals[1:] - budgets) - value > rounding:
            pool.columns.append(column)
            master.add_column(
                -column.totals[0] / sizes[0], np.r_[column.totals[1:] / sizes[1:], 1.0]
            )
            smoothing = SMOOTHING
        elif toward == 0.0:
            break
        else:
            smoothing = 0.0
    columns, shares = pool.mixture(weights)
    return Priced(best_prices, columns, shares, None, len(pool.columns), best)
