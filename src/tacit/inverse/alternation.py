"""The loop of Algorithm 1, one `Round` at a time. Line numbers are those of the paper.

With calibrated budgets the loop descends on one function. Let demonstrations with expectations EFE
be judged in the problem made of w_r, w_c and the budget w_c . EFE_c. What its best policy earns
more than they do, max w_r . (PFE_r - EFE_r) subject to w_c . PFE_c <= w_c . EFE_c, has just the
derivatives of the paper's eq. 11, PFE_r - EFE_r and multiplier * (EFE_c - PFE_c), and is 0 exactly
where the demonstrator is optimal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.forward.solution import Certificate, Solution, Status
from tacit.forward.visitation import visitation, visitation_recursion
from tacit.inverse.expectations import Blocks, Expectations, pull_back
from tacit.inverse.exponentiated import Yardsticks, first_weights, stride
from tacit.inverse.twins import favourites, with_favourites
from tacit.mdp import MDP
from tacit.objective import Features

if TYPE_CHECKING:
    from tacit.inverse.alternating import Alternating


@dataclass(frozen=True, eq=False)
class Round:
    """One pass through lines 4 to 11, in the gauge: weights of L1 norm 1.

    Attributes:
        start: number of the start it belongs to.
        number: of the round within its start.
        weights: ([D], [D_1], ...) before the step.
        budgets: [K] of the problem that was solved.
        multipliers: [K] prices found.
        solution: of that problem; of least violation where it has none.
        guess: that its solver was started from.
        reached: ([D], [D_1], ...) feature expectations of its policy.
        gap: their relative distance to the demonstrations'.
        distance: total variation between the normalised visitations of policy and demonstrations.
        loss: what the policy earns more than the demonstrations do.
        step: size of the step, as a share of the first one.
        change: L1 change of the weights that a step of full size would make.
        pull: largest favour, in the exponent of such a step, of one weight over the average.
        infeasible: whether no policy met the budgets.
        raised: whether budgets were raised to what can be met.
        empty: number of empty halfspaces.
        reversed: whether the step turned back on the one before.
    """

    start: int
    number: int
    weights: Blocks
    budgets: np.ndarray
    multipliers: np.ndarray
    solution: Solution
    guess: Solution
    reached: Blocks
    gap: float
    distance: float
    loss: float
    step: float
    change: float
    pull: float
    infeasible: bool
    raised: bool
    empty: int
    reversed: bool

    def rank(self, tolerance: float, noise: float) -> tuple[bool, bool, bool, float]:
        """Smaller is better: feasible, at rest, then by feature gap.

        Gaps within sampling noise are as good as each other; among those the policy that goes where
        the demonstrations go is preferred.
        """
        matched = self.gap <= noise
        rank = self.distance if matched else self.gap
        return self.infeasible, not self.rests(tolerance), not matched, rank

    def rests(self, tolerance: float) -> bool:
        """Whether the weights stay: no change, and no pull on a weight too small to show one."""
        return self.change <= tolerance and self.pull <= tolerance


def alternate(
    mdp: MDP,
    features: Features,
    seen: Expectations,
    sticks: Yardsticks,
    rules: Alternating,
    *,
    start: int,
    free: bool = False,
) -> Iterator[Round]:
    """The rounds of one start, until the weights rest or `rules.max_steps` are made.

    Args:
        mdp: the model.
        features: of reward and constraints.
        seen: expectations of the demonstrations (line 2).
        sticks: to measure their differences against.
        rules: the options.
        start: number of the random start.
        free: leave the constraints out and fit the reward alone.
    """
    logs = first_weights(seen, seed=rules.seed, start=start)  # line 1
    guess, shown = _first_guess(mdp, seen)
    later = _later(mdp, features, rules, guess)
    preferred = favourites(mdp, features, seen.visitation)
    before: np.ndarray | None = None
    for number in range(rules.max_steps):
        weights = tuple(np.exp(part) for part in logs)
        budgets = _budgets(features, seen, rules, weights, later, free)
        solution, budgets, raised = _solved(mdp, features, rules, weights, budgets, guess)
        solution = with_favourites(solution, preferred)
        infeasible = solution.status in (Status.INFEASIBLE, Status.AT_LEAST_COST)
        prices = np.ones(len(budgets)) if infeasible else solution.multipliers
        visits = visits_of(mdp, rules, solution)  # line 5
        reached = pull_back(features, visits)  # line 6
        share = rules.share(number)
        taken = stride(  # lines 7 to 11
            seen,
            sticks,
            rules,
            logs=logs,
            reached=reached,
            prices=prices,
            share=share,
            free=free,
        )
        norms = np.array([part.sum() for part in weights])
        current = tuple(part / norm for part, norm in zip(weights, norms, strict=True))
        travelled = np.concatenate(taken.moves)
        made = Round(
            start=start,
            number=number,
            weights=current,
            budgets=budgets / norms[1:],
            multipliers=prices * norms[1:] / norms[0],
            solution=solution,
            guess=guess,
            reached=reached,
            gap=seen.gap(reached),
            distance=_distance(visits, seen.visitation),
            loss=float(current[0] @ (reached[0] - seen.reward)),
            step=share,
            change=taken.change,
            pull=taken.pull,
            infeasible=infeasible,
            raised=raised,
            empty=taken.empty,
            reversed=before is not None and float(travelled @ before) < 0.0,
        )
        yield made
        if made.rests(rules.tolerance):
            return
        logs, before = taken.log_weights, travelled
        later = _later(mdp, features, rules, solution)
        # Other ties are broken in favour of what was demonstrated where that can be: policy
        # iteration leaves the actions it is given only for better ones.
        guess = replace(solution, policy=np.where(shown[:, None], guess.policy, solution.policy))


def visits_of(mdp: MDP, rules: Alternating, solution: Solution) -> np.ndarray:
    """[S, A] visitation of a solution, over the horizon that the rules ask for (line 5)."""
    if rules.steps is None:
        return solution.visitation
    return visitation_recursion(mdp, solution.policy, rules.steps)


def _budgets(
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


def _later(mdp: MDP, features: Features, rules: Alternating, solution: Solution) -> Blocks:
    """([D], [D_1], ...) what the policy collects after `rules.steps` steps.

    The problem to solve has no horizon: its budget is what cut-off demonstrations spend, and what
    the policy of the moment would have spent after them.
    """
    if rules.steps is None:
        return pull_back(features, np.zeros((mdp.states, mdp.actions)))
    whole = visitation(mdp, solution.policy)
    return pull_back(features, whole - visitation_recursion(mdp, solution.policy, rules.steps))


def _solved(
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


def _distance(first: np.ndarray, second: np.ndarray) -> float:
    """Total variation between two visitations [S, A], normalised."""
    return float(0.5 * np.abs(first / first.sum() - second / second.sum()).sum())


def _first_guess(mdp: MDP, seen: Expectations) -> tuple[Solution, np.ndarray]:
    """The demonstrated actions as a guess to start a solver from, and [S] where there are any."""
    visits = seen.visitation.sum(axis=1)
    shown = visits > 0
    policy = np.where(
        shown[:, None], seen.visitation / np.where(shown, visits, 1.0)[:, None], 1.0 / mdp.actions
    )
    constraints = np.zeros(len(seen.costs))
    unknown = Certificate(np.nan, np.nan, np.nan, np.nan)
    guess = Solution(
        policy=policy,
        visitation=seen.visitation,
        values=np.zeros(mdp.states),
        multipliers=constraints,
        value=np.nan,
        spent=constraints,
        temperature=0.0,
        status=Status.TOLERANCE_MISSED,
        certificate=unknown,
    )
    return guess, shown
