"""What Algorithm 1 is run on and holds itself to: yardsticks, and budgets (lines 5 to 7)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tacit.forward.policies import favourites, visitation_recursion
from tacit.forward.solution import Solution, visitation
from tacit.inference.expectations import Blocks, Expectations, pull_back
from tacit.model.mdp import MDP
from tacit.model.objective import Features

if TYPE_CHECKING:
    from tacit.estimators.paper.alternating import Alternating


@dataclass(frozen=True, eq=False)
class LoopSetting:
    """What Algorithm 1 is run on, and by which rules.

    Attributes:
        mdp: the model.
        features: what reward and costs may be made of.
        seen: expectations of the demonstrations.
        rules: of the run.
    """

    mdp: MDP
    features: Features
    seen: Expectations
    rules: Alternating

    @cached_property
    def favourites(self) -> np.ndarray:
        """[S, A] for each action, the one with the same consequences that was demonstrated most."""
        return favourites(self.mdp, self.features, self.seen.visitation)

    def visits(self, solution: Solution) -> np.ndarray:
        """[S, A] visitation of a solution, over the horizon that the rules ask for (line 5)."""
        if self.rules.steps is None:
            return solution.visitation
        return visitation_recursion(self.mdp, solution.policy, self.rules.steps)

    def reached(self, solution: Solution) -> Blocks:
        """([D], [D_1], ...) feature expectations of a solution (line 6)."""
        return pull_back(self.features, self.visits(solution))

    def later(self, solution: Solution) -> Blocks:
        """([D], [D_1], ...) what the policy collects after `rules.steps` steps.

        The problem to solve has no horizon: its budget is what cut-off demonstrations spend, and
        what the policy of the moment would have spent after them.
        """
        if self.rules.steps is None:
            return tuple(np.zeros(table.shape[-1]) for table in self.features.maps)
        whole = visitation(self.mdp, solution.policy)
        return pull_back(self.features, whole - self.visits(solution))

    def budgets(self, weights: Blocks, later: Blocks, free: bool) -> np.ndarray:
        """[K] budgets for these weights; `later` is what a policy collects after the horizon."""
        if free or self.rules.budget == "one":
            return np.full(self.features.constraints, np.inf if free else 1.0)
        parts = zip(weights[1:], self.seen.costs, later[1:], strict=True)
        return np.array([w @ (mean + after) for w, mean, after in parts])

    def within_bands(self, reached: Blocks) -> bool:
        """Whether every feature expectation is within its band of the demonstrations'."""
        # Identical trajectories have no standard error, and rounding is no difference.
        yards = yardsticks(self.seen, self.rules.band)
        parts = zip(reached, self.seen.means, *yards, strict=True)
        return all((np.abs(r - m) <= free + 1e-9 * scale).all() for r, m, scale, free in parts)


def yardsticks(seen: Expectations, band: float) -> tuple[tuple[float, ...], Blocks]:
    """What differences of feature expectations are measured against, block by block.

    The largest that discounted sums can show, and ([D], [D_1], ...) those that are no reason to
    step: without standard errors (one trajectory), none.
    """
    scales = tuple(float(span.max()) * seen.horizons.longest or 1.0 for span in seen.spans)
    return scales, tuple(band * np.nan_to_num(error) for error in seen.standard_errors)


def price_scale(features: Features, weights: Blocks) -> np.ndarray:
    """[K] reward over cost: the size of a multiplier that matters."""
    costs = weights[1:]
    tables = features.objective(weights[0], costs, np.zeros(len(costs)))
    reward = float(np.abs(tables.reward).max())
    return reward / np.maximum(np.array([np.abs(c).max() for c in tables.costs]), 1e-300)
