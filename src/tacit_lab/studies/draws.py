"""The units of a study: a draw of the paper's grid, judged, and its sweep of the amount of data."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tacit import (
    Alternating,
    Convex,
    Demonstrations,
    Estimator,
    Explanation,
    Likelihood,
    Objective,
    Recovery,
    RecoveryStatus,
    RewardOnly,
    SoftDual,
    Solution,
    Status,
    compare,
    judge,
    methods,
    policies,
    recover,
    simulate,
    solve,
    worlds,
)
from tacit_lab.guesses import NullDraw, null_objectives
from tacit_lab.studies import (
    BINDING,
    CALIBRATED,
    EXPLANATION,
    FIGURE,
    HALFWAY,
    LIKELIHOOD,
    MATCHING,
    RANDOM,
    REWARD_ONLY,
    RULES,
    SLIDES,
    Block,
    Draw,
    EstimatorScore,
    Rules,
    StudySettings,
    Sweep,
    SweepPoint,
    Trace,
)

GUESSES = 20  # random weights a draw, for the null rows
PRICELESS = 1e-8  # a multiplier below it is none; true ones are about 0.01

# The experts of a sweep: the paper's optimal one with the budget halfway, and a noisy one, for whom
# both the step likelihood and feature matching are well posed. In rewards of the gauge the noisy
# one prefers the best action clearly but not always.
EXPERTS = {"noisy": (LIKELIHOOD, MATCHING), "optimal": (CALIBRATED,)}
TEMPERATURE, PRICE = 0.0025, 0.05
LONG = 200  # steps after which a discounted sum at 0.9 is complete to nine digits

# Name -> the estimator, from the seed of the draw and the rules chosen for Algorithm 1.
ESTIMATORS: dict[str, Callable[[int, Rules], Estimator]] = {
    RULES: lambda seed, rules: Alternating.published(seed=seed, **rules),
    SLIDES: lambda seed, rules: Alternating.published(seed=seed, bound="demonstrations", **rules),
    CALIBRATED: lambda seed, rules: Alternating(seed=seed, **rules),
    EXPLANATION: lambda seed, rules: Explanation(),
    MATCHING: lambda seed, rules: Convex(),
    LIKELIHOOD: lambda seed, rules: Likelihood(),
    REWARD_ONLY: lambda seed, rules: RewardOnly(),
}

# Of `Comparison.scalars`; the others are made here.
KEPT = [
    "starc",
    "cost_starc",
    "reward_correlation",
    "regret",
    "relative_regret",
    "violation",
    "relative_lagrangian_regret",
    "multiplier_error",
    "feasible_jaccard",
    "feasible_balanced",
    "visitation_distance",
    "state_distance",
    "feature_gap",
]


def world_of(settings: StudySettings, block: Block, seed: int) -> worlds.World:
    """The grid of a seed at the budget of a block, in the gauge; of seed -1 the published one."""
    if seed == FIGURE:
        world = worlds.published_figure(discount=settings.discount, tightness=block.tightness)
    else:
        world = worlds.hill_grid(
            seed,
            size=settings.size,
            discount=settings.discount,
            hill=settings.hill,
            budget=block.budget,
            tightness=block.tightness,
        )
    return world.in_gauge


def run_draw(settings: StudySettings, block: Block, seed: int) -> Draw:
    """The `Draw` of a seed at the budget of a block; the same but for the seconds each time."""
    world = world_of(settings, block, seed)
    mdp, truth = world.mdp, world.truth
    expert = solve(mdp, truth, throw=False)
    feasible = expert.status in (Status.CONVERGED, Status.AT_LEAST_COST)
    reward, costs = truth.tables(mdp)
    reckless = solve(mdp, Objective(reward))
    least = -float(mdp.initial @ judge.best_values(mdp, -costs[0]))
    scores: list[EstimatorScore] = []
    null: dict[str, list[float]] = {}
    noise = np.nan
    if feasible:
        shown = simulate(
            mdp,
            expert.policy,
            trajectories=settings.trajectories,
            steps=settings.steps,
            seed=max(seed, 0),
        )
        noise = methods.expectations(mdp, world.features, shown).noise
        scorer = _Judge(world, expert, shown)
        made = {name: make(max(seed, 0), settings.rules) for name, make in ESTIMATORS.items()}
        scores = [scorer.score(name, estimator) for name, estimator in made.items()]
        null = scorer.guesses(seed=max(seed, 0))
    return Draw(
        block=block.name,
        seed=seed,
        recipe=repr(world),
        feasible=feasible,
        binds=feasible and bool(expert.multipliers[0] > PRICELESS),
        budget=float(truth.budgets[0]),
        least=least,
        unconstrained=float(np.vdot(costs[0], reckless.visitation)),
        multiplier=float(expert.multipliers[0]),
        reward_weights=world.reward_weights.tolist(),
        cost_weights=world.cost_weights[0].tolist(),
        policy=expert.policy.tolist(),
        ties=optimal_actions(world, expert).tolist(),
        noise=float(noise),
        scores=scores,
        null=null,
    )


def optimal_actions(world: worlds.World, expert: Solution) -> np.ndarray:
    """[S, A] bool, the actions that are optimal at the true prices."""
    priced = judge.lagrangian(world.mdp, world.truth, expert.multipliers)
    worth = priced + world.mdp.discount * world.mdp.expected_next(
        judge.best_values(world.mdp, priced)
    )
    gaps = worth.max(axis=1, keepdims=True) - worth
    return gaps <= 1e-6 * gaps.max()  # as `policy_agreement` judges ties


def likeliest(solution: Solution) -> np.ndarray:
    """[S, A] the policy; of a noisy expert its most likely action alone."""
    if solution.temperature == 0.0:
        return solution.policy
    return np.eye(solution.policy.shape[1])[solution.policy.argmax(axis=1)]


class _Judge:
    """Scores recoveries of one draw, all on the same behaviours."""

    def __init__(self, world: worlds.World, expert: Solution, shown: Demonstrations) -> None:
        self.world, self.expert, self.shown = world, expert, shown
        self.behaviours: judge.Behaviours = judge.sample_behaviours(
            world.mdp, features=world.features
        )
        self.priced = judge.lagrangian(world.mdp, world.truth, expert.multipliers)

    def score(self, name: str, estimator: Estimator) -> EstimatorScore:
        """The score of an estimator on the demonstrations."""
        start = time.perf_counter()
        recovery = _recovered(self.world, self.shown, estimator)
        seconds = time.perf_counter() - start
        weights = recovery.reward_weights, returned_cost_weights(recovery)
        return EstimatorScore(
            estimator=name,
            metrics=self.metrics(recovery.objective, recovery.solution, *weights),
            reward_weights=weights[0].tolist(),
            cost_weights=weights[1].tolist(),
            active=bool(recovery.identification.active[0]),
            budget=float(recovery.budgets[0]),
            status=recovery.status.value,
            converged=recovery.status in (RecoveryStatus.CONVERGED, RecoveryStatus.LOCAL_OPTIMUM),
            iterations=_iterations(recovery),
            seconds=seconds,
            policy=recovery.solution.policy.tolist(),
            trace=_trace(recovery),
        )

    def guesses(self, *, seed: int) -> dict[str, list[float]]:
        """Every metric for random weights, one number a guess."""
        rows, visits = [], self.expert.visitation
        for guess in null_objectives(self.world.features, visits, draws=GUESSES, seed=seed):
            solution = solve(self.world.mdp, guess.objective, throw=False)
            weights = guess.reward_weights, guess.cost_weights[0]
            rows.append(self.metrics(guess.objective, solution, *weights))
        return {name: [row[name] for row in rows] for name in rows[0]}

    def metrics(
        self,
        objective: Objective,
        solution: Solution,
        reward_weights: np.ndarray,
        cost_weights: np.ndarray,
    ) -> dict[str, float]:
        """Every metric of a recovered objective and its solution."""
        world, mdp = self.world, self.world.mdp
        compared = compare(
            mdp,
            world.truth,
            objective,
            true_solution=self.expert,
            recovered_solution=solution,
            features=world.features,
            demonstrations=self.shown,
            behaviours=self.behaviours,
        ).scalars()
        policy, visits = likeliest(solution), self.expert.visitation.sum(axis=1)
        everywhere = np.ones(mdp.states)
        true_reward, reward = world.truth.reward, objective.reward
        numbers = {name: compared[name] for name in KEPT}
        numbers["reward_error"] = judge.weight_error(world.reward_weights, reward_weights)
        numbers["cost_error"] = judge.weight_error(world.cost_weights[0], cost_weights)
        numbers["policy_agreement"] = judge.policy_agreement(
            mdp, self.priced, policy, visits=visits
        )
        numbers["cells"] = judge.policy_agreement(mdp, self.priced, policy, visits=everywhere)
        # Of the weights: in the recovered objective an inactive constraint costs nothing.
        cost = world.features.costs[0] @ cost_weights
        numbers["cost_correlation"] = judge.correlation(world.truth.costs[0], cost)
        numbers["peak"] = _peak(world.truth.costs[0], cost)
        numbers["reward_spread"] = float(reward.std() / true_reward.std())
        return {name: float(number) for name, number in numbers.items()}


def _peak(true: np.ndarray, found: np.ndarray) -> float:
    """1 if the dearest state is found, 0 if not, NaN where the cost found is flat."""
    if not np.ptp(found) > 1e-12:  # or NaN
        return float("nan")
    close = 1e-9 * np.ptp(true)
    return float(true[int(found.argmax())] >= true.max() - close)


def returned_cost_weights(found: Recovery) -> np.ndarray:
    """[D_1] the cost weights; of Algorithm 1 those of the round kept, whatever their price."""
    columns = found.history.columns
    if not np.isnan(found.cost_weights[0]).any() or "cost_weights_0" not in columns:
        return found.cost_weights[0]
    return columns["cost_weights_0"][_kept(found)]


def _kept(found: Recovery) -> int:
    """The row of the history whose weights the recovery has."""
    columns = found.history.columns
    apart = np.abs(columns["reward_weights"] - found.reward_weights).sum(axis=1)
    if np.isfinite(found.cost_weights[0]).all():
        apart = apart + np.abs(columns["cost_weights_0"] - found.cost_weights[0]).sum(axis=1)
    return int(apart.argmin())


def _iterations(found: Recovery) -> int:
    columns = found.history.columns
    return int(columns["evaluations"][-1]) if "evaluations" in columns else len(found.history)


def _trace(found: Recovery) -> Trace | None:
    """The rounds of the start whose best round was kept."""
    columns = found.history.columns
    if not {"feature_gap", "weight_change", "multipliers", "start"} <= set(columns):
        return None
    kept = _kept(found)
    rounds = columns["start"] == columns["start"][kept]
    first = int(np.flatnonzero(rounds)[0])
    return Trace(
        feature_gap=_rounded(columns["feature_gap"][rounds]),
        weight_change=_rounded(columns["weight_change"][rounds]),
        multiplier=_rounded(columns["multipliers"][rounds][:, 0]),
        best=kept - first,
    )


def _rounded(numbers: np.ndarray) -> list[float]:
    """Five digits: enough to draw."""
    return [float(f"{number:.5g}") for number in numbers]


def run_sweep(settings: StudySettings, seed: int) -> Sweep:
    """The `Sweep` of one seed: every length and every number of trajectories, with each expert."""
    world = world_of(settings, Block(BINDING, "", "", 1.0, tightness=HALFWAY), seed)
    points: list[SweepPoint] = []
    for expert, names in EXPERTS.items():
        policy = _solved(world, world.truth, expert, throw=True).policy
        visits = policies.visitation(world.mdp, policy)
        # Alternation is the slowest by far: every other size.
        every = 2 if expert == "optimal" else 1
        lengths, counts = settings.lengths[::every], settings.counts[::every]
        sizes = [("steps", length, settings.trajectories, length) for length in lengths]
        sizes += [("trajectories", count, count, settings.steps) for count in counts]
        for study, position, trajectories, steps in sizes:
            shown = simulate(
                world.mdp, policy, trajectories=trajectories, steps=steps, seed=max(seed, 0)
            )
            for name in names:
                estimator = ESTIMATORS[name](seed, settings.rules)
                if isinstance(estimator, Alternating) and steps < LONG:
                    # Policy and demonstrations are compared over the same T steps, as in eq. 5.
                    estimator = replace(estimator, steps=steps)
                recovery = _recovered(world, shown, estimator)
                errors = _errors(world, visits, recovery, recovery.solution)
                points.append(SweepPoint(study, expert, name, position, **errors))
        # The median errors of random weights, judged by the expert's own kind of behaviour.
        rows = [
            _errors(world, visits, guess, _solved(world, guess.objective, expert, throw=False))
            for guess in null_objectives(world.features, visits, draws=GUESSES, seed=seed)
        ]
        medians = {name: float(np.median([row[name] for row in rows])) for name in rows[0]}
        points.append(SweepPoint("both", expert, RANDOM, 0, **medians))
    return Sweep(seed, points)


def _solved(world: worlds.World, objective: Objective, expert: str, *, throw: bool) -> Solution:
    """What an expert of this kind does with an objective."""
    if expert == "optimal":
        return solve(world.mdp, objective, throw=throw)
    priced = Objective(objective.reward - PRICE * objective.costs[0])
    return solve(world.mdp, priced, solver=SoftDual(TEMPERATURE))


def _recovered(world: worlds.World, shown: Demonstrations, estimator: Estimator) -> Recovery:
    # An optimal expert, or too little data, can send parameters to infinity; the results say so.
    with np.errstate(over="ignore", invalid="ignore"):
        return recover(world.mdp, world.features, shown, estimator=estimator, throw=False)


def _errors(
    world: worlds.World, visits: np.ndarray, found: Recovery | NullDraw, solution: Solution
) -> dict[str, float]:
    return {
        "reward_error": judge.weight_error(world.reward_weights, found.reward_weights),
        "cost_error": judge.weight_error(world.cost_weights[0], found.cost_weights[0]),
        "visitation_distance": judge.visitation_distance(world.mdp, visits, solution.visitation),
    }
