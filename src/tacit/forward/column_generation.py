"""The exact solution of a constrained MDP at any size: policies priced one at a time.

The Lagrangian dual g(prices) = p0 . V*(reward - prices . costs) + prices . budgets is convex and
piecewise linear, and each evaluation is one UNCONSTRAINED MDP, whose best policy is a column of the
master problem: mix the policies met so far so as to keep the budgets. With one constraint the
master is two lines and their crossing (`price_one`); with several it is a small linear program
(`price_many`). Either way the optimum is exact: a mixture of at most K + 1 deterministic policies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tacit.forward import BuiltInSolver, of_all_budgets
from tacit.forward.occupancy_lp import OccupancyLP, unbounded
from tacit.forward.policies import Unbounded, deterministic_values, deterministic_visitation
from tacit.forward.pricing import Column, Priced, best_column, no_room, price_many, price_one
from tacit.forward.solution import Infeasibility, Mixture, Solution, Status, conclude, status_of
from tacit.model.ends import inside_table
from tacit.model.mdp import MDP, inside_policy
from tacit.model.objective import Features, Objective

# Probabilities that are sums of the same numbers in another order differ by a few last bits.
SAME = 1e-12


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
        if mdp.discount == 1.0:
            return self._undiscounted(mdp, objective, tables, start)
        priced = None
        if len(budgets) == 0:
            column = best_column(mdp, tables, np.ones(1), start=start)
            priced = Priced(np.zeros(0), [column], np.ones(1), None, iterations=1)
        elif len(budgets) == 1:
            similar = guess is not None and len(guess.multipliers) == objective.constraints
            expected = float(guess.multipliers[bounded][0]) if guess and similar else 0.0
            priced = price_one(
                mdp, tables, budgets, start=start, expected=expected, limit=self.max_steps
            )
        if priced is None:
            priced = price_many(mdp, tables, budgets, start=start, limit=self.max_steps)
        solution = self._solution(mdp, objective, bounded, priced)
        cut_short = priced.iterations >= self.max_steps
        if solution.status is Status.TOLERANCE_MISSED and len(budgets) > 1 and not cut_short:
            tight = no_room(mdp, tables, budgets)
            status = status_of(solution.certificate, self.tolerance, no_room=tight)
            solution = replace(solution, status=status)
        return solution

    def _undiscounted(
        self, mdp: MDP, objective: Objective, tables: np.ndarray, start: Column | None
    ) -> Solution:
        """The `Solution` at discount 1, where a price may have no best policy.

        Going round for ever pays at such a price. The budgets may still forbid it: then rounds are
        a part of the optimum that no mixture of deterministic policies holds, but the linear
        program does.
        """
        bounded = np.isfinite(objective.budgets)
        budgets = objective.budgets[bounded]
        try:
            if len(budgets) == 0:
                column = best_column(mdp, tables, np.ones(1), start=start, limit=self.max_steps)
                priced = Priced(np.zeros(0), [column], np.ones(1), None, iterations=1)
            else:
                priced = price_many(mdp, tables, budgets, start=start, limit=self.max_steps)
        except Unbounded:
            if len(budgets):
                return OccupancyLP(self.tolerance).solve(mdp, objective, throw=False)
            return unbounded(mdp, objective, self.tolerance)
        return self._solution(mdp, objective, bounded, priced)

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
            weights = of_all_budgets(bounded, proof.weights)
            proof = Infeasibility(weights, proof.least, proof.allowed)
        best = priced.best or priced.columns[0]
        policy = None
        if mdp.discount == 1.0:
            visits = visitation.sum(axis=1, keepdims=True)
            shares = visitation / np.where(visits > 0.0, visits, 1.0)
            policy = np.where(visits > 0.0, shares, np.eye(mdp.actions)[best.policy])
        return conclude(
            mdp,
            objective,
            visitation,
            best.values[0] - priced.prices @ best.values[1:],
            of_all_budgets(bounded, priced.prices),
            tolerance=self.tolerance,
            mixture=Mixture(priced.weights, np.array([c.policy for c in priced.columns])),
            infeasibility=proof,
            iterations=priced.iterations,
            policy=policy,
        )


def _first_column(mdp: MDP, tables: np.ndarray, guess: Solution | None) -> Column | None:
    """A column to start from: the most likely actions of the guess, evaluated."""
    if guess is None or guess.policy.shape != tables.shape[1:]:
        return None
    policy = inside_policy(mdp, guess.policy).argmax(axis=1).astype(np.int32)
    if mdp.restricted and not mdp.choices[np.arange(mdp.states), policy].all():
        return None
    values = deterministic_values(mdp, policy, tables[:, np.arange(mdp.states), policy])
    return Column(policy, values, values @ mdp.initial, np.inf, steps=0)


# Actions with the same consequences: two moves into walls from a corner lead to the same places and
# have the same features. No weights tell them apart, so a solver's choice is arbitrary; the
# demonstrated one is preferred.


def favourites(mdp: MDP, features: Features, visitation: np.ndarray) -> np.ndarray:
    """[S, A] for each action, the one with the same consequences that `visitation` [S, A] favours.

    An action is its own favourite where none of its twins was taken more often.
    """
    chosen = np.tile(np.arange(mdp.actions), (mdp.states, 1))
    taken = visitation.copy()
    for first in range(mdp.actions):
        for second in range(mdp.actions):
            if first == second:
                continue
            rows = np.flatnonzero(visitation[:, second] > taken[:, first])
            rows = rows[_twins(mdp, features, rows, first, second)]
            chosen[rows, first] = second
            taken[rows, first] = visitation[rows, second]
    return chosen


def with_favourites(solution: Solution, chosen: np.ndarray) -> Solution:
    """The same solution with the mass of each action on its favourite [S, A].

    Value, costs and certificate stay, since the consequences do. A noisy policy is left as it is:
    its model takes twins equally often.
    """
    own = np.arange(chosen.shape[1])
    if solution.temperature > 0 or (chosen == own).all():
        return solution
    rows = np.arange(len(chosen))[:, None]
    policy, visitation = np.zeros_like(solution.policy), np.zeros_like(solution.visitation)
    np.add.at(policy, (rows, chosen), solution.policy)
    np.add.at(visitation, (rows, chosen), solution.visitation)
    mixture = solution.mixture
    if mixture is not None:
        moved = chosen[rows[:, 0], mixture.policies].astype(mixture.policies.dtype)
        mixture = Mixture(mixture.weights, moved)
    return replace(solution, policy=policy, visitation=visitation, mixture=mixture)


def _twins(mdp: MDP, features: Features, rows: np.ndarray, first: int, second: int) -> np.ndarray:
    """[R] bool, in which of the states `rows` [R] the two actions have the same consequences."""
    lists = mdp.transitions
    same = (lists.states[rows, first] == lists.states[rows, second]).all(axis=1)
    gap = np.abs(lists.probabilities[rows, first] - lists.probabilities[rows, second])
    same &= gap.max(axis=1, initial=0.0) <= SAME
    for table in (features.reward, *features.costs):
        if table.ndim == 3:
            same &= (table[rows, first] == table[rows, second]).all(axis=1)
    return same
