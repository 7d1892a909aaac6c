"""The rounds of Algorithm 1, lines 4 to 11, start by start, and the history they leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.engine.progress import pursue
from tacit.forward.policies import favourites, with_favourites
from tacit.forward.solution import (
    Certificate,
    Solution,
    Status,
    certify,
    priced,
    status_of,
)
from tacit.inverse.expectations import Blocks, Expectations, pull_back
from tacit.inverse.paper import Setting, budgets_of, later_of, visits_of
from tacit.inverse.paper.projection import first_weights, stride
from tacit.inverse.recovery import History
from tacit.model.ends import uniform_policy
from tacit.model.mdp import MDP, outside_policy
from tacit.model.objective import Objective

if TYPE_CHECKING:
    from tacit.inverse.paper.alternating import Alternating

# What the history keeps of a round: name -> number or vector.
Row = dict[str, Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Round:
    """One pass through lines 4 to 11, in the gauge: weights of L1 norm 1.

    Attributes:
        start: number of the start it belongs to.
        number: of the round within its start.
        weights: ([D], [D_1], ...) before the step.
        budgets: [K] of the problem that was solved.
        multipliers: [K] prices found.
        floors: [K] that they could not fall below.
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
    floors: np.ndarray
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
        """Smaller is better: feasible, converged, then by feature gap.

        Gaps within sampling noise are as good as each other; among those the policy that goes where
        the demonstrations go is preferred.
        """
        matched = self.gap <= noise
        rank = self.distance if matched else self.gap
        return self.infeasible, not self.converged(tolerance), not matched, rank

    def converged(self, tolerance: float) -> bool:
        """Whether the weights stay: no change, and no pull on a weight too small to show one."""
        return self.change <= tolerance and self.pull <= tolerance


@dataclass(frozen=True, eq=False)
class NextRound:
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
    _: KW_ONLY
    guess: Solution


def rounds(
    setting: Setting, *, start: int, free: bool = False, ahead: NextRound | None = None
) -> Iterator[tuple[Round, NextRound]]:
    """The rounds of one start, each with what the next one needs.

    A `free` start leaves the constraints out and fits the reward alone; `ahead` goes on with a
    start that was left.
    """
    mdp, features, seen, rules = setting
    guess, shown = _first_guess(mdp, seen)
    preferred = favourites(mdp, features, seen.visitation)
    if ahead is None:
        logs = first_weights(seen, seed=rules.seed, start=start)  # line 1
        ahead = NextRound(0, logs, None, later_of(mdp, features, rules, guess), guess=guess)
    for number in range(ahead.number, rules.max_steps):
        logs, before, later, guess = ahead.log_weights, ahead.before, ahead.later, ahead.guess
        weights = tuple(np.exp(part) for part in logs)
        budgets = budgets_of(setting, weights, later, free)
        floors = np.where(np.isfinite(budgets), rules.least_multiplier, 0.0)
        solution, budgets, raised = solve_round(setting, weights, budgets, floors, guess=guess)
        solution = with_favourites(solution, preferred)
        infeasible = solution.status in (Status.INFEASIBLE, Status.AT_LEAST_COST)
        prices = np.ones(len(budgets)) if infeasible else solution.multipliers
        visits = visits_of(mdp, rules, solution)  # line 5
        reached = pull_back(features, visits)  # line 6
        share = rules.share(number)
        taken = stride(  # lines 7 to 11
            seen, rules, logs=logs, reached=reached, prices=prices, share=share, free=free
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
            floors=floors * norms[1:] / norms[0],
            solution=solution,
            guess=guess,
            reached=reached,
            gap=seen.gap(reached),
            distance=_variation(visits, seen.visitation),
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
        ahead = NextRound(
            number + 1,
            taken.log_weights,
            travelled,
            later_of(mdp, features, rules, solution),
            guess=replace(solution, policy=policy),
        )
        yield made, ahead
        if made.converged(rules.tolerance):
            return


def solve_round(
    setting: Setting, weights: Blocks, budgets: np.ndarray, floors: np.ndarray, *, guess: Solution
) -> tuple[Solution, np.ndarray, bool]:
    """The solution for these weights, its budgets [K], and whether they were raised (line 4).

    A multiplier of at least `floors` [K] is the floor and that of the budget in the problem whose
    reward is reduced by the costs at the floor: 1 + nu of the paper's text. A budget that is slack
    there is lowered to what is spent, for which the floor is an optimal multiplier.
    """
    mdp, features, _, rules = setting
    objective = features.objective(weights[0], weights[1:], budgets)
    solution = _with_floors(mdp, rules, objective, floors, guess)
    raised = rules.budget == "calibrated" and solution.status is Status.INFEASIBLE
    if raised:
        # Sampled expectations may be lower than any policy's: allow what the thriftiest one spends.
        budgets = np.maximum(budgets, solution.spent)
        objective = features.objective(weights[0], weights[1:], budgets)
        solution = _with_floors(mdp, rules, objective, floors, guess)
    if solution.status not in (Status.INFEASIBLE, Status.AT_LEAST_COST):
        lowered = (floors > 0.0) & (solution.multipliers <= floors)
        budgets = np.where(lowered, np.minimum(budgets, solution.spent), budgets)
    return solution, budgets, raised


def _with_floors(
    mdp: MDP, rules: Alternating, objective: Objective, floors: np.ndarray, guess: Solution
) -> Solution:
    """The solution whose multipliers [K] are at least `floors`, budgets lowered where need be."""
    if not floors.any():
        return rules.solver.solve(mdp, objective, guess=guess, throw=False)
    reward, costs = objective.tables(mdp)
    reduced = Objective(priced(reward, costs, floors), costs, objective.budgets)
    guess = replace(guess, multipliers=np.maximum(guess.multipliers - floors, 0.0))
    found = rules.solver.solve(mdp, reduced, guess=guess, throw=False)
    value = float(np.vdot(found.visitation, reward))
    if found.status in (Status.INFEASIBLE, Status.AT_LEAST_COST):
        return replace(found, value=value)
    # The Lagrangian is the same, and so are its values: the proof of one problem is the other's.
    multipliers = floors + found.multipliers
    budgets = np.where(found.multipliers > 0.0, objective.budgets, found.spent)
    lowered = Objective(reward, costs, np.where(floors > 0.0, budgets, objective.budgets))
    certificate = certify(
        mdp, lowered, found.visitation, found.values, multipliers, temperature=found.temperature
    )
    return replace(found, multipliers=multipliers, value=value, certificate=certificate)


def _variation(first: np.ndarray, second: np.ndarray) -> float:
    """Total variation between two visitations [S, A], normalised."""
    return float(0.5 * np.abs(first / first.sum() - second / second.sum()).sum())


def _first_guess(mdp: MDP, seen: Expectations) -> tuple[Solution, np.ndarray]:
    """The demonstrated actions as a guess to start a solver from, and [S] where there are any."""
    visits = seen.visitation.sum(axis=1)
    shown = visits > 0
    policy = np.where(
        shown[:, None], seen.visitation / np.where(shown, visits, 1.0)[:, None], uniform_policy(mdp)
    )
    policy = outside_policy(mdp, policy)
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
        status=status_of(unknown, 0.0),
        certificate=unknown,
    )
    return guess, shown


@dataclass(frozen=True, eq=False)
class Start:
    """Where one start stands: what the next round needs, the round to keep, all rows so far.

    Kept is the best round, or the last one if the start is free of constraints.
    """

    ahead: NextRound | None
    kept: Round | None
    rows: tuple[Row, ...]
    over: bool


def run_start(setting: Setting, *, start: int, free: bool) -> Start:
    """The `Start` at its end, or where it was stopped."""
    mdp, features, seen, rules = setting
    under_way: Iterator[tuple[Round, NextRound]] | None = None

    def further(here: Start, until: int | None) -> Start:
        nonlocal under_way
        if under_way is None:  # the first call, whether from the start or from where it was left
            under_way = rounds(setting, start=start, free=free, ahead=here.ahead)
        while not here.over and (until is None or len(here.rows) < until):
            made, ahead = next(under_way)
            kept = made if free else better_round(rules, here.kept, made, seen.noise)
            over = made.converged(rules.tolerance) or ahead.number >= rules.max_steps
            here = Start(ahead, kept, (*here.rows, history_row(made)), over)
        return here

    def numbers(here: Start) -> dict[str, float]:
        last = here.rows[-1]
        names = ("feature_gap", "loss", "weight_change", "projected_gradient")
        return {name: float(last[name]) for name in names}

    world = (mdp.transitions, mdp.initial, mdp.discount)
    return pursue(
        "alternation",
        Start(None, None, (), over=False),
        further,
        step=lambda here: len(here.rows),
        numbers=numbers,
        inputs=(world, features.reward, features.costs, seen, repr(rules), start, free),
    )


def better_round(rules: Alternating, old: Round | None, new: Round | None, noise: float) -> Round:
    """The better of two rounds; the older one of equals."""
    found = [made for made in (old, new) if made is not None]
    return min(found, key=lambda made: made.rank(rules.tolerance, noise))


def history_row(made: Round) -> Row:
    """What the history keeps of a round."""
    weights = {f"cost_weights_{k}": part for k, part in enumerate(made.weights[1:])}
    return {
        "start": made.start,
        "iteration": made.number,
        "feature_gap": made.gap,
        "visitation_distance": made.distance,
        "loss": made.loss,
        "step": made.step,
        "weight_change": made.change,
        "projected_gradient": made.pull,
        "infeasible": made.infeasible,
        "raised": made.raised,
        "empty": made.empty,
        "reversed": made.reversed,
        "multipliers": np.asarray(made.multipliers),
        "budgets": np.asarray(made.budgets),
        "reward_weights": made.weights[0],
        **weights,
    }


def history_of(rows: Sequence[Row]) -> History:
    """The `History` of these rows, one a round."""
    return History({name: np.array([row[name] for row in rows]) for name in rows[0]})
