"""The problem that one round of the alternation solves: its budgets, its solution, its visits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.forward.solution import Solution, Status
from tacit.forward.visitation import visitation, visitation_recursion
from tacit.inverse.expectations import Blocks, Expectations, pull_back
from tacit.mdp import MDP
from tacit.objective import Features

if TYPE_CHECKING:
    from tacit.inverse.alternating import Alternating


def visits_of(mdp: MDP, rules: Alternating, solution: Solution) -> np.ndarray:
    """[S, A] visitation of a solution, over the horizon that the rules ask for (line 5)."""
    if rules.steps is None:
        return solution.visitation
    return visitation_recursion(mdp, solution.policy, rules.steps)


def budgets_of(
    features: Features,
    seen: Expectations,
    rules: Alternating,
    weights: Blocks,
    later: Blocks,
    free: bool,
) -> np.ndarray:
    """[K] budgets for these weights; `later` is what a policy collects after the horizon."""
    if free or not rules.calibrated:
        return np.full(features.constraints, np.inf if free else 1.0)
    parts = zip(weights[1:], seen.costs, later[1:], strict=True)
    return np.array([w @ (mean + after) for w, mean, after in parts])


def later_of(mdp: MDP, features: Features, rules: Alternating, solution: Solution) -> Blocks:
    """([D], [D_1], ...) what the policy collects after `rules.steps` steps.

    The problem to solve has no horizon: its budget is what cut-off demonstrations spend, and what
    the policy of the moment would have spent after them.
    """
    if rules.steps is None:
        return pull_back(features, np.zeros((mdp.states, mdp.actions)))
    whole = visitation(mdp, solution.policy)
    return pull_back(features, whole - visitation_recursion(mdp, solution.policy, rules.steps))


def solved(
    mdp: MDP,
    features: Features,
    rules: Alternating,
    weights: Blocks,
    budgets: np.ndarray,
    guess: Solution,
) -> tuple[Solution, np.ndarray, bool]:
    """The solution for these weights, its budgets [K], and whether they were raised (line 4)."""
    objective = features.objective(weights[0], weights[1:], budgets)
    solution = rules.solver.solve(mdp, objective, guess=guess, throw=False)
    if not rules.calibrated or solution.status is not Status.INFEASIBLE:
        return solution, budgets, False
    # Sampled expectations may be lower than any policy's: allow what the thriftiest one spends.
    budgets = np.maximum(budgets, solution.spent)
    objective = features.objective(weights[0], weights[1:], budgets)
    return rules.solver.solve(mdp, objective, guess=guess, throw=False), budgets, True
