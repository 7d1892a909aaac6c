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
from tacit.inverse.expectations import Blocks, Expectations, pull_back
from tacit.inverse.exponentiated import Yardsticks, first_weights, stride
from tacit.inverse.round_problem import budgets_of, later_of, solved, visits_of
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


@dataclass(frozen=True, eq=False)
class Ahead:
    """What the next round needs.

    Attributes:
        number: of the round within its start.
        log_weights: ([D], [D_1], ...) to begin it with.
        before: the last step, flat; None before the first.
        later: ([D], [D_1], ...) what the last policy collects after the horizon.
        guess: to start the solver from.
    """

    number: int
    log_weights: Blocks
    before: np.ndarray | None
    later: Blocks
    guess: Solution


def rounds(
    mdp: MDP,
    features: Features,
    seen: Expectations,
    sticks: Yardsticks,
    rules: Alternating,
    *,
    start: int,
    free: bool = False,
    ahead: Ahead | None = None,
) -> Iterator[tuple[Round, Ahead]]:
    """The rounds of one start, each with what the next one needs.

    Args:
        mdp: the model.
        features: of reward and constraints.
        seen: expectations of the demonstrations (line 2).
        sticks: to measure their differences against.
        rules: the options.
        start: number of the random start.
        free: leave the constraints out and fit the reward alone.
        ahead: what the first round needs, to go on with a start that was left.
    """
    guess, shown = _first_guess(mdp, seen)
    preferred = favourites(mdp, features, seen.visitation)
    if ahead is None:
        logs = first_weights(seen, seed=rules.seed, start=start)  # line 1
        ahead = Ahead(0, logs, None, later_of(mdp, features, rules, guess), guess)
    for number in range(ahead.number, rules.max_steps):
        logs, before, later, guess = ahead.log_weights, ahead.before, ahead.later, ahead.guess
        weights = tuple(np.exp(part) for part in logs)
        budgets = budgets_of(features, seen, rules, weights, later, free)
        solution, budgets, raised = solved(mdp, features, rules, weights, budgets, guess)
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
        # Other ties are broken in favour of what was demonstrated where that can be: policy
        # iteration leaves the actions it is given only for better ones.
        policy = np.where(shown[:, None], guess.policy, solution.policy)
        ahead = Ahead(
            number + 1,
            taken.log_weights,
            travelled,
            later_of(mdp, features, rules, solution),
            replace(solution, policy=policy),
        )
        yield made, ahead
        if made.rests(rules.tolerance):
            return


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
