"""The rounds of Algorithm 1, lines 4 to 11, start by start, and the history they leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.engine.progress import pursue
from tacit.estimators.paper.projection import Stride, first_weights, stride
from tacit.estimators.paper.setting import LoopSetting
from tacit.forward.policies import with_favourites
from tacit.forward.solution import (
    Certificate,
    Solution,
    Status,
    certify,
    priced,
    status_of,
)
from tacit.inference.expectations import Blocks, Expectations, pull_back
from tacit.model.ends import uniform_policy
from tacit.model.mdp import MDP, outside_policy
from tacit.model.objective import Objective
from tacit.recovery import History

if TYPE_CHECKING:
    from tacit.estimators.paper.alternating import Alternating

# What the history keeps of a round, beside its weights: the field of the same name.
HISTORY = (
    "start", "iteration", "feature_gap", "visitation_distance", "loss", "step", "weight_change",
    "projected_gradient", "infeasible", "raised", "empty", "reversed", "multipliers", "budgets",
)  # fmt: skip
# Fields of a round that events of the search carry.
EVENT_FIELDS = ("feature_gap", "loss", "weight_change", "projected_gradient")


@dataclass(frozen=True, eq=False, kw_only=True)
class Round:
    """One pass through lines 4 to 11, in the gauge: weights of L1 norm 1.

    Attributes:
        start: number of the start it belongs to.
        iteration: number of the round within its start.
        weights: ([D], [D_1], ...) before the step.
        budgets: [K] of the problem that was solved.
        multipliers: [K] prices found.
        floors: [K] that they could not fall below.
        solution: of that problem; of least violation where it has none.
        guess: that its solver was started from.
        reached: ([D], [D_1], ...) feature expectations of its policy.
        feature_gap: their relative distance to the demonstrations'.
        visitation_distance: total variation between the normalised visitations of policy and
            demonstrations.
        loss: what the policy earns more than the demonstrations do.
        step: size of the step, as a share of the first one.
        weight_change: L1 change of the weights that a step of full size would make.
        projected_gradient: largest favour, in the exponent of such a step, of one weight over the
            average.
        infeasible: whether no policy met the budgets.
        raised: whether budgets were raised to what can be met.
        empty: number of empty halfspaces.
        reversed: whether the step turned back on the one before.
    """

    start: int
    iteration: int
    weights: Blocks
    budgets: np.ndarray
    multipliers: np.ndarray
    floors: np.ndarray
    solution: Solution
    guess: Solution
    reached: Blocks
    feature_gap: float
    visitation_distance: float
    loss: float
    step: float
    weight_change: float
    projected_gradient: float
    infeasible: bool
    raised: bool
    empty: int
    reversed: bool

    def rank(self, tolerance: float, noise: float) -> tuple[bool, bool, bool, float]:
        """Smaller is better: feasible, converged, then by feature gap.

        Gaps within sampling noise are as good as each other; among those the policy that goes where
        the demonstrations go is preferred.
        """
        matched = self.feature_gap <= noise
        rank = self.visitation_distance if matched else self.feature_gap
        return self.infeasible, not self.converged(tolerance), not matched, rank

    def converged(self, tolerance: float) -> bool:
        """Whether the weights stay: no change, and no pull on a weight too small to show one."""
        return max(self.weight_change, self.projected_gradient) <= tolerance

    @property
    def row(self) -> dict[str, Any]:
        """Name -> number or vector that the history keeps."""
        names = ["reward_weights", *(f"cost_weights_{k}" for k in range(len(self.budgets)))]
        numbers = {name: getattr(self, name) for name in HISTORY}
        return numbers | dict(zip(names, self.weights, strict=True))


@dataclass(frozen=True, eq=False, kw_only=True)
class StartProgress:
    """Where one start stands after some rounds.

    Attributes:
        number: of the start.
        free: whether the constraints are left out and the reward alone is fitted.
        log_weights: ([D], [D_1], ...) to begin the next round with.
        later: ([D], [D_1], ...) what the last policy collects after the horizon.
        guess: to start the solver from.
        moves: the last step, flat; None before the first.
        kept: the best round; of a free start the last one.
        rows: of the history, one a round.
        over: whether no round follows.
    """

    number: int
    free: bool
    log_weights: Blocks
    later: Blocks
    guess: Solution
    moves: np.ndarray | None = None
    kept: Round | None = None
    rows: tuple[dict[str, Any], ...] = ()
    over: bool = False


def begin(setting: LoopSetting, number: int, *, free: bool = False) -> StartProgress:
    """The start before its first round."""
    logs = first_weights(setting.seen, seed=setting.rules.seed, start=number)  # line 1
    guess = _first_guess(setting.mdp, setting.seen)
    later = setting.later(guess)
    return StartProgress(number=number, free=free, log_weights=logs, later=later, guess=guess)


def next_round(setting: LoopSetting, at: StartProgress) -> tuple[Round, StartProgress]:
    """The next round of a start, and where the start stands after it."""
    seen, rules = setting.seen, setting.rules
    weights = tuple(np.exp(part) for part in at.log_weights)
    budgets = setting.budgets(weights, at.later, at.free)
    floors = np.where(np.isfinite(budgets), rules.least_multiplier, 0.0)
    solution, budgets, raised = solve_round(setting, weights, budgets, floors, guess=at.guess)
    solution = with_favourites(solution, setting.favourites)
    infeasible = solution.status in (Status.INFEASIBLE, Status.AT_LEAST_COST)
    prices = np.ones(len(budgets)) if infeasible else solution.multipliers
    visits = setting.visits(solution)  # line 5
    reached = pull_back(setting.features, visits)  # line 6
    share = rules.share(len(at.rows))
    step = stride(  # lines 7 to 11
        seen, rules, logs=at.log_weights, reached=reached, prices=prices, share=share, free=at.free
    )
    norms = np.array([part.sum() for part in weights])
    gauged = tuple(part / norm for part, norm in zip(weights, norms, strict=True))
    moves = np.concatenate(step.moves)
    made = Round(
        start=at.number,
        iteration=len(at.rows),
        weights=gauged,
        budgets=budgets / norms[1:],
        multipliers=prices * norms[1:] / norms[0],
        floors=floors * norms[1:] / norms[0],
        solution=solution,
        guess=at.guess,
        reached=reached,
        feature_gap=seen.gap(reached),
        visitation_distance=_variation(visits, seen.visitation),
        loss=float(gauged[0] @ (reached[0] - seen.reward)),
        step=share,
        weight_change=step.change,
        projected_gradient=step.pull,
        infeasible=infeasible,
        raised=raised,
        empty=step.empty,
        reversed=at.moves is not None and float(moves @ at.moves) < 0.0,
    )
    return made, _after_round(setting, at, made, step)


def _after_round(
    setting: LoopSetting, at: StartProgress, made: Round, step: Stride
) -> StartProgress:
    """Where a start stands after a round and its step."""
    seen, rules, solution = setting.seen, setting.rules, made.solution
    # Other ties are broken in favour of what was demonstrated where that can be: policy iteration
    # leaves the actions it is given only for better ones.
    is_visited = seen.visitation.any(axis=1, keepdims=True)
    policy = np.where(is_visited, at.guess.policy, solution.policy)
    rows = (*at.rows, made.row)
    return replace(
        at,
        log_weights=step.log_weights,
        later=setting.later(solution),
        guess=replace(solution, policy=policy),
        moves=np.concatenate(step.moves),
        kept=made if at.free else better_round(rules, at.kept, made, seen.noise),
        rows=rows,
        over=made.converged(rules.tolerance) or len(rows) >= rules.max_steps,
    )


def solve_round(
    setting: LoopSetting,
    weights: Blocks,
    budgets: np.ndarray,
    floors: np.ndarray,
    *,
    guess: Solution,
) -> tuple[Solution, np.ndarray, bool]:
    """The solution for these weights, its budgets [K], and whether they were raised (line 4).

    A multiplier of at least `floors` [K] is the floor and that of the budget in the problem whose
    reward is reduced by the costs at the floor: 1 + nu of the paper's text. A budget that is slack
    there is lowered to what is spent, for which the floor is an optimal multiplier.
    """
    mdp, features, rules = setting.mdp, setting.features, setting.rules
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
    solution = rules.solver.solve(mdp, reduced, guess=guess, throw=False)
    solution = replace(solution, value=float(np.vdot(solution.visitation, reward)))
    if solution.status in (Status.INFEASIBLE, Status.AT_LEAST_COST):
        return solution
    # The Lagrangian is the same, and so are its values: the proof of one problem is the other's.
    multipliers = floors + solution.multipliers
    budgets = np.where(solution.multipliers > 0.0, objective.budgets, solution.spent)
    lowered = Objective(reward, costs, np.where(floors > 0.0, budgets, objective.budgets))
    certificate = certify(
        mdp,
        lowered,
        solution.visitation,
        solution.values,
        multipliers,
        temperature=solution.temperature,
    )
    return replace(solution, multipliers=multipliers, certificate=certificate)


def _variation(first: np.ndarray, second: np.ndarray) -> float:
    """Total variation between two visitations [S, A], normalised."""
    return float(0.5 * np.abs(first / first.sum() - second / second.sum()).sum())


def _first_guess(mdp: MDP, seen: Expectations) -> Solution:
    """The demonstrated actions as a guess to start a solver from."""
    visits = seen.visitation.sum(axis=1, keepdims=True)
    shares = seen.visitation / np.where(visits > 0, visits, 1.0)
    policy = np.where(visits > 0, shares, uniform_policy(mdp))
    nothing = np.zeros(len(seen.costs))
    unknown = Certificate(np.nan, np.nan, np.nan, np.nan)
    return Solution(
        policy=outside_policy(mdp, policy),
        visitation=seen.visitation,
        values=np.zeros(mdp.states),
        multipliers=nothing,
        value=np.nan,
        spent=nothing,
        temperature=0.0,
        status=status_of(unknown, 0.0),
        certificate=unknown,
    )


def run_start(setting: LoopSetting, number: int, *, free: bool) -> StartProgress:
    """The `StartProgress` at its end, or where it was stopped."""
    mdp, features, seen, rules = setting.mdp, setting.features, setting.seen, setting.rules

    def advance(at: StartProgress, until: int | None) -> StartProgress:
        while not at.over and (until is None or len(at.rows) < until):
            _, at = next_round(setting, at)
        return at

    world = (mdp.transitions, mdp.initial, mdp.discount)
    return pursue(
        "alternation",
        begin(setting, number, free=free),
        advance,
        step=lambda at: len(at.rows),
        numbers=lambda at: {name: float(at.rows[-1][name]) for name in EVENT_FIELDS},
        inputs=(world, features.reward, features.costs, seen, repr(rules), number, free),
    )


def better_round(rules: Alternating, old: Round | None, new: Round | None, noise: float) -> Round:
    """The better of two rounds; the older one of equals."""
    rounds = [made for made in (old, new) if made is not None]
    return min(rounds, key=lambda made: made.rank(rules.tolerance, noise))


def history_of(rows: Sequence[dict[str, Any]]) -> History:
    """The `History` of these rows, one a round."""
    return History({name: np.array([row[name] for row in rows]) for name in rows[0]})
