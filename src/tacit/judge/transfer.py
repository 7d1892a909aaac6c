"""A recovered objective carried to another task, and judged there."""

from __future__ import annotations

import numpy as np

from tacit.forward.solve import Solver
from tacit.judge.comparison import Comparison, compare
from tacit.mdp import MDP
from tacit.objective import Features, Objective


def transfer(
    mdp: MDP,
    truth: Objective,
    recovered: Objective,
    *,
    reward: np.ndarray | None = None,
    budget_factors: np.ndarray | float = 1.0,
    solver: Solver | None = None,
    features: Features | None = None,
    seed: int = 0,
) -> Comparison:
    """The `Comparison` in another task than the one the objective was recovered from.

    Both objectives are changed in the same way, solved anew and judged in the new task. What was
    recovered as an objective must carry over; a policy that was merely copied would not.

    Args:
        mdp: the new model: other dynamics or another start, with the same states and actions.
        truth: as of `compare`.
        recovered: as of `compare`.
        reward: [S] or [S, A] a new task's reward, put in the place of both rewards: then only the
            recovered costs and budgets are on trial.
        budget_factors: scalar or [K], multiplies every budget, true and recovered: a recovered
            cost has a unit of its own, so a new true budget reaches it as a ratio.
        solver: as of `compare`.
        features: as of `compare`.
        seed: as of `compare`.
    """
    moved = [
        Objective(
            objective.reward if reward is None else reward,
            objective.costs,
            objective.budgets * budget_factors,
        )
        for objective in (truth, recovered)
    ]
    return compare(mdp, *moved, solver=solver, features=features, seed=seed)
