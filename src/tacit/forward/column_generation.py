"""The exact solution of a constrained MDP at any size: policies priced one at a time.

The Lagrangian dual g(prices) = p0 . V*(reward - prices . costs) + prices . budgets is convex and
piecewise linear, and each evaluation is one UNCONSTRAINED MDP, whose best policy is a column of the
master problem: mix the policies met so far so as to keep the budgets. With one constraint the
master is two lines and their crossing (`price_one`); with several it is a small linear program
(`price_many`). Either way the optimum is exact: a mixture of at most K + 1 deterministic policies.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from tacit.engine.kernels import at_hand
from tacit.engine.kernels.backups import bracket, search
from tacit.forward.occupancy_lp import LinearProgram, OccupancyLP, unbounded
from tacit.forward.policies import (
    EXACT,
    PolicyColumn,
    Unbounded,
    best_column,
    deterministic_values,
    deterministic_visitation,
    first_choices,
    listed_model,
)
from tacit.forward.solution import (
    Infeasibility,
    PolicyMixture,
    Solution,
    Status,
    conclude,
    stationary_policy,
    status_of,
)
from tacit.forward.solver import BuiltInSolver, of_all_budgets
from tacit.model.ends import inside_table
from tacit.model.mdp import MDP, inside_policy
from tacit.model.objective import Objective

# Budgets within rounding of the least cost count as met: demonstrations calibrate them in floats.
FEASIBILITY = 1e-12
# From this many states on, exact policies are dear and the first bracket is made of rough ones.
ROUGH_FROM = 2000
ROUGH = 1e-4
# Differences below this, relative to the numbers compared, are rounding of the linear solves.
ROUNDING = 1e-11
# Trial prices keep this share of the way from the master's corner to the best prices so far: while
# there are few columns the corners jump about.
SMOOTHING = 0.5


@dataclass(frozen=True)
class ColumnGeneration(BuiltInSolver):
    """Exact solver: one warm-started policy iteration per trial price of the constraints.

    Attributes:
        tolerance: largest entry of the certificate that still counts as converged.
        max_steps: most unconstrained problems to solve.
    """

    tolerance: float = 1e-9
    max_steps: int = 500

    def _solved(self, mdp: MDP, objective: Objective, guess: Solution | None) -> Solution:
        """The exact `Solution`."""
        reward, costs = objective.tables(mdp)
        bounded = np.isfinite(objective.budgets)
        tables = np.concatenate([reward[None], costs if bounded.all() else costs[bounded]])
        tables = inside_table(mdp, tables)
        budgets = objective.budgets[bounded]
        start = _first_column(mdp, tables, guess)
        ending, limit, priced = mdp.discount == 1.0, self.max_steps, None
        try:
            if len(budgets) == 0:
                tries = limit if ending else 1000
                column = best_column(mdp, tables, np.ones(1), start=start, limit=tries)
                priced = Priced(np.zeros(0), [column], np.ones(1), 1)
            elif len(budgets) == 1 and not ending:
                similar = guess is not None and len(guess.multipliers) == objective.constraints
                expected = float(guess.multipliers[bounded][0]) if guess and similar else 0.0
                priced = price_one(
                    mdp, tables, budgets, start=start, expected=expected, limit=limit
                )
            if priced is None:
                priced = price_many(mdp, tables, budgets, start=start, limit=limit)
        except Unbounded:
            # At discount 1 a price may have no best policy: going round for ever pays there. The
            # budgets may still forbid it: then rounds are a part of the optimum that no mixture of
            # deterministic policies holds, but the linear program does.
            if len(budgets):
                return OccupancyLP(self.tolerance).solve(mdp, objective, throw=False)
            return unbounded(mdp, objective, self.tolerance)
        solution = self._solution(mdp, objective, bounded, priced)
        done = priced.iterations < limit and not ending
        if solution.status is Status.TOLERANCE_MISSED and len(budgets) > 1 and done:
            tight = no_room(mdp, tables, budgets)
            status = status_of(solution.certificate, self.tolerance, no_room=tight)
            solution = replace(solution, status=status)
        return solution

    def _solution(
        self, mdp: MDP, objective: Objective, bounded: np.ndarray, priced: Priced
    ) -> Solution:
        every = np.arange(mdp.states)
        visitation = np.zeros((mdp.states, mdp.actions))
        for weight, column in zip(priced.weights, priced.columns, strict=True):
            visitation[every, column.policy] += weight * deterministic_visitation(
                mdp, column.policy
            )
        proof = priced.proof
        if proof is not None:
            proof = replace(proof, weights=of_all_budgets(bounded, proof.weights))
        best = priced.best or priced.columns[0]
        policy = None
        if mdp.discount == 1.0:
            policy = stationary_policy(visitation, best.policy.__getitem__)
        return conclude(
            mdp,
            objective,
            visitation,
            best.values[0] - priced.prices @ best.values[1:],
            of_all_budgets(bounded, priced.prices),
            tolerance=self.tolerance,
            mixture=PolicyMixture(priced.weights, np.array([c.policy for c in priced.columns])),
            infeasibility=proof,
            iterations=priced.iterations,
            policy=policy,
        )


def _first_column(mdp: MDP, tables: np.ndarray, guess: Solution | None) -> PolicyColumn | None:
    """A column to start from: the most likely actions of the guess, evaluated."""
    if guess is None or guess.policy.shape != tables.shape[1:]:
        return None
    policy = inside_policy(mdp, guess.policy).argmax(axis=1).astype(np.int32)
    if mdp.restricted and not mdp.choices[np.arange(mdp.states), policy].all():
        return None
    values = deterministic_values(mdp, policy, tables[:, np.arange(mdp.states), policy])
    return PolicyColumn(policy, values, values @ mdp.initial)


class Priced(NamedTuple):
    """What a master problem hands back."""

    prices: np.ndarray  # [K] multipliers
    columns: list[PolicyColumn]  # policies of the optimal mixture
    weights: np.ndarray  # [M] probability of each
    iterations: int  # unconstrained problems solved
    proof: Infeasibility | None = None  # that no policy meets the budgets, if so
    best: PolicyColumn | None = None  # the best policy at the prices, if it is another


def price_one(
    mdp: MDP,
    tables: np.ndarray,
    budgets: np.ndarray,
    *,
    start: PolicyColumn | None,
    expected: float,
    limit: int,
) -> Priced | None:
    """The price of one budget, and the mixture of at most two policies that spends it exactly.

    None if a linear solve stagnated: then the caller prices by other means.

    Args:
        mdp: the model.
        tables: [2, S, A] reward and cost.
        budgets: [1].
        start: a policy to begin from.
        expected: a price to begin from; 0 if there is none.
        limit: most unconstrained problems to solve.
    """
    budget = float(budgets[0])
    model = (*listed_model(mdp), tables, mdp.initial, mdp.discount, budget)
    rounding = FEASIBILITY * max(1.0, abs(budget))
    lines = np.zeros((4, 3))
    lines[:2, 0] = (0.9 * expected, 1.1 * expected) if expected > 0.0 else (0.0, np.inf)
    policies = np.zeros((4, mdp.states), np.int32)
    values = np.zeros((4, 2, mdp.states))
    policies[0] = first_choices(mdp, tables[0]) if start is None else start.policy
    if start is not None:
        values[0] = start.values
    evaluations = 0
    precisions = (ROUGH, EXACT) if mdp.states >= ROUGH_FROM and not expected else (EXACT,)
    for precision in precisions:
        with at_hand(mdp.states):
            spent, stagnated = bracket(model, precision, rounding, lines, policies, values)
        evaluations += spent
        is_bracketed = lines[0, 2] > rounding >= lines[1, 2] and lines[0, 0] != lines[1, 0]
        if is_bracketed and not stagnated:
            left = max(limit - evaluations, 0)
            with at_hand(mdp.states):
                spent, stagnated = search(model, precision, rounding, left, lines, policies, values)
            evaluations += spent
        if stagnated:
            return None

    def column(slot: int) -> PolicyColumn:
        totals = np.array([lines[slot, 1], lines[slot, 2] + budget])
        return PolicyColumn(policies[slot], values[slot], totals)

    if lines[0, 2] <= rounding:  # slack: the best policy at price 0 is within the budget
        return Priced(np.zeros(1), [column(0)], np.ones(1), evaluations)
    if lines[1, 2] > rounding:  # even the least cost is too dear
        proof = Infeasibility(np.ones(1), float(lines[1, 2] + budget), budget)
        return Priced(np.zeros(1), [column(1)], np.ones(1), evaluations, proof)
    share = min(max(lines[1, 2] / (lines[1, 2] - lines[0, 2]), 0.0), 1.0)
    columns, weights = [column(0), column(1)], np.array([share, 1.0 - share])
    if share == 0.0:
        columns, weights = columns[1:], weights[1:]
    return Priced(lines[2, :1], columns, weights, evaluations, best=column(2))


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
    columns: list[PolicyColumn] = field(default_factory=list)

    def price(
        self, reward: float, prices: np.ndarray, start: PolicyColumn | None = None
    ) -> PolicyColumn:
        """The best policy for reward * r - prices . c, not yet in the pool."""
        if start is None and self.columns:
            start = self.columns[-1]
        return best_column(self.mdp, self.tables, np.r_[reward, -prices], start=start)

    @property
    def full(self) -> bool:
        """Whether the steps are used up."""
        return len(self.columns) >= self.limit

    def mixture(self, weights: np.ndarray) -> tuple[list[PolicyColumn], np.ndarray]:
        """The columns of positive weight, and their weights."""
        keep = np.flatnonzero(weights > 1e-13)
        return [self.columns[i] for i in keep], weights[keep] / weights[keep].sum()


def price_many(
    mdp: MDP, tables: np.ndarray, budgets: np.ndarray, *, start: PolicyColumn | None, limit: int
) -> Priced:
    """As `price_one` for K budgets: a mixture of at most K + 1 policies keeps them.

    Tables are [1 + K, S, A] reward and costs, budgets [K].
    """
    pool = Pool(mdp, tables, limit)
    first = pool.price(1.0, np.zeros(len(budgets)), start)
    pool.columns.append(first)
    if (first.totals[1:] - budgets <= ROUNDING * np.maximum(1.0, np.abs(budgets))).all():
        return Priced(np.zeros(len(budgets)), [first], np.ones(1), 1)
    left, infeasible = _least_violation(pool, budgets)
    if infeasible is not None:
        return infeasible
    for room in (0.0, 1e-10, 1e-9, 1e-8):  # on the edge HiGHS may see no room where there is none
        priced = _best_mixture(pool, budgets + left + room * np.maximum(1.0, np.abs(budgets)))
        if priced is not None:
            return priced
    raise RuntimeError("HiGHS refuses a mixture that phase one found")


def smaller(budgets: np.ndarray) -> np.ndarray:
    """[K] budgets smaller by a ten-millionth: where they cannot be met there is no room at all."""
    sizes = np.where(np.isfinite(budgets), np.abs(budgets), 0.0)
    return budgets - 1e-7 * np.maximum(1.0, sizes)


def no_room(mdp: MDP, tables: np.ndarray, budgets: np.ndarray) -> bool:
    """Whether budgets any smaller could not be met together."""
    pool = Pool(mdp, tables, limit=1000)
    pool.columns.append(pool.price(0.0, np.ones(len(budgets))))
    return _least_violation(pool, smaller(budgets))[1] is not None


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
        _, duals, weights = optimum
        mixed = weights[1:] @ np.stack([c.totals[1:] for c in pool.columns])
        # Asked of the mixture itself: HiGHS tells 0 from 1e-10 no better than it pleases.
        violation = float(((mixed - budgets) / scale).max())
        pressure = np.maximum(duals[:count], 0.0) / scale
        if violation <= 0.0 or not pressure.any():
            return np.zeros(count), None
        pressure /= pressure.sum()
        column = pool.price(0.0, pressure)
        least, allowed = float(pressure @ column.totals[1:]), float(pressure @ budgets)
        rounding = ROUNDING * (abs(least) + abs(allowed) + float(pressure @ np.abs(mixed)))
        settled = float(pressure @ mixed) <= least + rounding or pool.full
        # The same room as with one budget: the number of constraints is no part of the question.
        if settled and least > allowed + FEASIBILITY * float(pressure @ scale):
            mixture, proof = pool.mixture(weights[1:]), Infeasibility(pressure, least, allowed)
            nothing = np.zeros(count)
            return nothing, Priced(nothing, *mixture, len(pool.columns), proof)
        if settled:
            return max(violation, 0.0) * scale, None
        pool.columns.append(column)
        master.add_column(0.0, np.r_[(column.totals[1:] - budgets) / scale, 1.0])


def _best_mixture(pool: Pool, budgets: np.ndarray) -> Priced | None:
    """The optimal mixture, from a pool that contains a feasible one; None if HiGHS sees none."""
    count = len(budgets)
    # HiGHS has absolute tolerances: give it numbers of order one.
    sizes = np.abs(pool.tables).max(axis=(1, 2)) / pool.mdp.leak
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
    return Priced(best_prices, *pool.mixture(weights), len(pool.columns), best=best)
