"""One constraint: the price at which the best policies turn from overspending to saving."""

from __future__ import annotations

import numpy as np

from tacit.forward.kernels.pricing import bracket, search
from tacit.forward.policy_iteration import Column, Priced
from tacit.forward.solution import Infeasibility
from tacit.mdp import MDP

# Budgets within rounding of the least cost count as met: demonstrations calibrate them in floats.
FEASIBILITY = 1e-12
EXACT = 1e-12
# From this many states on, exact policies are dear and the first bracket is made of rough ones.
ROUGH_FROM = 2000
ROUGH = 1e-4


def price_one(
    mdp: MDP,
    tables: np.ndarray,
    budgets: np.ndarray,
    *,
    start: Column | None,
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
    world = (
        mdp.layout.states,
        mdp.layout.probabilities,
        tables,
        mdp.initial,
        mdp.discount,
        budget,
    )
    rounding = FEASIBILITY * max(1.0, abs(budget))
    lines = np.zeros((4, 3))
    lines[:2, 0] = (0.9 * expected, 1.1 * expected) if expected > 0.0 else (0.0, np.inf)
    policies = np.zeros((4, mdp.states), np.int32)
    values = np.zeros((4, 2, mdp.states))
    policies[0] = tables[0].argmax(axis=1) if start is None else start.policy
    if start is not None:
        values[0] = start.values
    evaluations = 0
    precisions = (ROUGH, EXACT) if mdp.states >= ROUGH_FROM and not expected else (EXACT,)
    for precision in precisions:
        spent, stagnated = bracket(world, precision, rounding, lines, policies, values)
        evaluations += spent
        found = lines[0, 2] > rounding >= lines[1, 2] and lines[0, 0] != lines[1, 0]
        if found and not stagnated:
            left = max(limit - evaluations, 0)
            spent, stagnated = search(world, precision, rounding, left, lines, policies, values)
            evaluations += spent
        if stagnated:
            return None

    def column(slot: int) -> Column:
        totals = np.array([lines[slot, 1], lines[slot, 2] + budget])
        return Column(policies[slot], values[slot], totals, 0.0, 0)

    if lines[0, 2] <= rounding:  # slack: the best policy at price 0 is within the budget
        return Priced(np.zeros(1), [column(0)], np.ones(1), None, evaluations)
    if lines[1, 2] > rounding:  # even the least cost is too dear
        proof = Infeasibility(np.ones(1), float(lines[1, 2] + budget), budget)
        return Priced(np.zeros(1), [column(1)], np.ones(1), proof, evaluations)
    share = min(max(lines[1, 2] / (lines[1, 2] - lines[0, 2]), 0.0), 1.0)
    if share == 0.0:
        return Priced(lines[2, :1], [column(1)], np.ones(1), None, evaluations, column(2))
    weights = np.array([share, 1.0 - share])
    return Priced(lines[2, :1], [column(0), column(1)], weights, None, evaluations, column(2))
