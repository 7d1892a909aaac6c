"""A soft constraint with a known reward and a given budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit import (
    MDP,
    ColumnGeneration,
    Features,
    Finding,
    InvalidModel,
    Kind,
    data,
    methods,
    policies,
)


@dataclass(frozen=True)
class SoftConstraint(methods.PointEstimator):
    """A soft constraint with a given budget (Gaurav et al. 2023).

    The reward is known. In turn: the cost, of weights in [0, 1], that makes the cheapest policy met
    so far dearest while the demonstrations stay within the budget (a linear program), and
    the best policy within the budget at it, until that does no better than they do.

    What they collect is what their clone does, so that some policy is within the budget.

    Known weakness: the budget, and with it the scale of the cost, must be known. Where the expert
    is noisy no cost makes it the best: the one that comes nearest is given, and the status says so.

    Attributes:
        reward_weights: [D] known weights of the reward features, of any size.
        budget: of the one constraint.
        tolerance: of returns and costs, per horizon and range.
        max_steps: most policies.
    """

    reward_weights: Sequence[float]
    budget: float
    tolerance: float = 1e-4
    max_steps: int = 100

    def find(self, mdp: MDP, features: Features, demonstrations: data.Observed) -> methods.Estimate:
        """The dearest cost, and the best policy within the budget at it."""
        from scipy.optimize import linprog

        if features.constraints != 1 or features.costs[0].min() < 0:
            raise InvalidModel("there must be one constraint, of features that are not negative")
        clone = methods.cloned_policy(mdp, methods.counts_of(mdp, demonstrations))
        seen = methods.pull_back(features, policies.visitation(mdp, clone))
        weights, _ = methods.known_weights(self.reward_weights, features)
        size, room = len(seen[1]), self.tolerance * mdp.horizon
        enough, spent = room * float(np.ptp(features.reward @ weights)), False
        cost, norm, points, losses, tried = np.zeros(size), 0.0, [], [], []
        while True:
            limit = self.budget / norm if norm else np.inf
            objective = features.objective(weights, [cost], [limit])
            solution = ColumnGeneration().solve(mdp, objective, throw=False)
            reached = methods.pull_back(features, solution.visitation)
            losses.append(float(weights @ (reached[0] - seen[0])))
            tried.append((cost, norm, objective, solution))
            if losses[-1] <= enough or len(points) == self.max_steps:
                break
            points.append(reached[1])
            rows = np.r_[np.c_[-np.array(points), np.ones(len(points))], [np.r_[seen[1], 0.0]]]
            bounds = [(0.0, 1.0)] * size + [(None, None)]
            limits = np.r_[np.zeros(len(points)), self.budget]
            program = linprog(np.r_[np.zeros(size), -1.0], rows, limits, bounds=bounds)
            if spent := program.status != 0 or -program.fun <= self.budget + room * 0.1:
                break  # no cost of these features explains why these were left out
            norm = float(program.x[:size].sum())
            cost = program.x[:size] / norm
        cost, norm, objective, solution = tried[int(np.argmin(losses))]
        said = [Finding("The reward weights and the budget were given.")]
        if spent:
            words = (
                "No cost of these features makes the demonstrations the best: they earn "
                f"{min(losses):.3g} less than what is left possible. They are noisy, or a cost "
                "feature is missing; ConstraintOnly counts noise."
            )
            said.insert(0, Finding(words, Kind.MISFIT, number=min(losses)))
        if not norm:
            words = "Constraint 0 was not needed, or nothing explains it."
            said.append(Finding(words, Kind.INACTIVE, constraint=0))
        return methods.Estimate(
            objective=objective,
            solution=solution,
            reward_weights=weights,
            cost_weights=[cost if norm else np.full(size, np.nan)],
            converged=spent or losses[-1] <= enough,
            unexplained=spent,
            findings=said,
            history={"loss": losses},
        )
