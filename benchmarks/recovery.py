"""What the estimators recover, in numbers: errors, coverage, tests, larger worlds.

    python benchmarks/recovery.py            # everything: about twenty minutes on two cores
    python benchmarks/recovery.py --quick    # a twentieth of the draws, nothing written

Prints a table and writes benchmarks/results/recovery.json. Every row names its target; random
weights are scored beside the estimators. Experts: the paper's grid with 100 x 2000 steps, noisy
ones at temperature 0.0025 and multiplier 0.05 (rewards of L1 weight norm 1), optimal ones with the
budget halfway between least and unconstrained cost.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from provenance import about
from rates import coverage_verdict, rates_of, size_verdict
from tacit.forward.solution import visitation
from tacit.inference.parameters import inverse_information
from tacit.likelihood.problem import Fit, LikelihoodProblem
from tacit.likelihood.protocol import LARGEST
from tacit.likelihood.steps import StepsChain, information
from tacit.model.features.design import Design


@dataclass(frozen=True)
class Args:
    """Recovery benchmark."""

    draws: int = 200
    """Hill grids in the studies of errors."""
    replicates: int = 2000
    """Repetitions of one draw in the studies of coverage and of the activity test."""
    trajectories: int = 100
    steps: int = 2000
    temperature: float = 0.0025
    multiplier: float = 0.05
    coverage_seed: int = 4
    """The draw of the coverage study, fixed beforehand: the first with every weight at least four
    standard errors from 0."""
    jobs: int = 2
    only: tuple[str, ...] = ()
    """Names of studies to run; all by default."""
    quick: bool = False
    out: Path = Path(__file__).parent / "results" / "recovery.json"


def noisy_expert(world: Any, args: Args, multiplier: float | None = None) -> np.ndarray:
    """[S, A] the Boltzmann policy of the true reward less the priced cost, in the gauge."""
    truth = world.in_gauge
    tables = world.features.objective(truth.reward_weights, truth.cost_weights, [1.0])
    price = args.multiplier if multiplier is None else multiplier
    priced = tacit.Objective(tables.reward - price * tables.costs[0])
    return tacit.solve(
        world.mdp, priced, solver=tacit.SoftDual(temperature=args.temperature)
    ).policy


def watched(world: Any, policy: np.ndarray, args: Args, seed: int) -> Any:
    """Demonstrations of a policy."""
    return tacit.simulate(
        world.mdp, policy, trajectories=args.trajectories, steps=args.steps, seed=seed
    )


def many(task: Callable[..., Any], items: range, args: Args) -> list[Any]:
    """The results of a task over items, in order, on `jobs` processes."""
    from joblib import Parallel, delayed

    return Parallel(n_jobs=args.jobs)(delayed(task)(item, args) for item in items)


def matched(mdp: tacit.MDP, space: Design, reached: np.ndarray) -> Fit:
    """The fit that collects what a visitation [S, A] does."""
    chain = StepsChain.matching(mdp, space, reached)
    lower, upper = space.lower(free_reward=False), np.full(space.size, LARGEST)
    problem = LikelihoodProblem.of(chain, lower, upper)
    return problem.minimum(np.zeros(space.size), tolerance=1e-11, max_steps=300)


def weight_errors(world: Any, recovery: Any) -> tuple[float, float, float]:
    """L1 error of reward and cost weights, and the correlation of the cost tables."""
    truth = world.in_gauge
    cost = recovery.cost_weights[0]
    reward_error = float(np.abs(recovery.reward_weights - truth.reward_weights).sum())
    if np.isnan(cost).any():
        return reward_error, 2.0, 0.0  # nothing recovered counts as the largest error
    cost_error = float(np.abs(cost - truth.cost_weights[0]).sum())
    table = world.features.costs[0]
    alike = float(np.corrcoef(table @ cost, table @ truth.cost_weights[0])[0, 1])
    return reward_error, cost_error, alike


# --------------------------------------------------------------------------------------------------
# One function a study; each returns rows
# --------------------------------------------------------------------------------------------------


def _noisy_draw(seed: int, args: Args) -> dict[str, Any]:
    world = tacit.worlds.hill_grid(seed, tightness=0.5)
    policy = noisy_expert(world, args)
    seen = watched(world, policy, args, seed)
    row: dict[str, Any] = {}
    for name, estimator in (("Likelihood", tacit.Likelihood()), ("Convex", tacit.Convex())):
        start = time.perf_counter()
        recovery = tacit.recover(world.mdp, world.features, seen, estimator=estimator, throw=False)
        row[name] = (*weight_errors(world, recovery), time.perf_counter() - start)
    rng = np.random.default_rng(seed)
    truth = world.in_gauge
    reward, cost = rng.dirichlet(np.ones(2)), rng.dirichlet(np.ones(4))
    table = world.features.costs[0]
    row["random weights"] = (
        float(np.abs(reward - truth.reward_weights).sum()),
        float(np.abs(cost - truth.cost_weights[0]).sum()),
        float(np.corrcoef(table @ cost, table @ truth.cost_weights[0])[0, 1]),
        0.0,
    )
    return row


def noisy(args: Args) -> list[dict[str, Any]]:
    """Errors of the noisy estimators over many draws."""
    found = many(_noisy_draw, range(args.draws), args)
    rows = []
    for name in found[0]:
        table = np.array([row[name] for row in found])
        medians = np.median(table, axis=0)
        rows.append(
            {
                "study": "noisy expert, median over draws",
                "estimator": name,
                "draws": len(found),
                "reward_L1": medians[0],
                "cost_L1": medians[1],
                "cost_correlation": medians[2],
                "reward_L1_quartiles": np.quantile(table[:, 0], [0.25, 0.75]).tolist(),
                "cost_L1_quartiles": np.quantile(table[:, 1], [0.25, 0.75]).tolist(),
                "target": "Likelihood: reward <= 0.015, cost <= 0.20, correlation >= 0.995",
            }
        )
    return rows


def exact(args: Args) -> list[dict[str, Any]]:
    """Exact expectations of the noisy expert: the truth, wherever the information is regular."""
    worst, singular = [], 0
    for seed in range(args.draws):
        world = tacit.worlds.hill_grid(seed, tightness=0.5)
        policy = noisy_expert(world, args)
        space, truth = Design.of(world.mdp, world.features), world.in_gauge
        fitted = matched(world.mdp, space, visitation(world.mdp, policy))
        _, blind = inverse_information(fitted.curvature, np.ones(space.size, bool))
        theta = fitted.z / space.scales
        reward, cost = theta[:2] / theta[:2].sum(), theta[2:] / theta[2:].sum()
        error = max(
            np.abs(reward - truth.reward_weights).max(), np.abs(cost - truth.cost_weights[0]).max()
        )
        if len(blind):
            singular += 1
        else:
            worst.append(error)
    return [
        {
            "study": "exact expectations, noisy expert",
            "estimator": "Convex",
            "draws": args.draws,
            "largest_weight_error": float(np.max(worst)),
            "singular_draws": singular,
            "target": "<= 1e-4 wherever the information matrix is regular",
        }
    ]


def _coverage_one(number: int, args: Args) -> Any:
    world = tacit.worlds.hill_grid(args.coverage_seed, tightness=0.5)
    policy = noisy_expert(world, args)
    seen = watched(world, policy, args, 10_000 + number)
    recovery = tacit.recover(
        world.mdp, world.features, seen, estimator=tacit.Likelihood(), throw=False
    )
    known = recovery.identification
    points = np.concatenate(
        [recovery.reward_weights, recovery.cost_weights[0], recovery.multipliers, recovery.budgets]
    )
    ends = np.concatenate(
        [
            known.reward_intervals,
            known.cost_intervals[0],
            known.multiplier_intervals,
            known.budget_intervals,
        ]
    )
    return points, ends


def coverage(args: Args) -> list[dict[str, Any]]:
    """How often nominal 95 % intervals contain the truth, and errors against the information."""
    world = tacit.worlds.hill_grid(args.coverage_seed, tightness=0.5)
    policy = noisy_expert(world, args)
    truth, space = world.in_gauge, Design.of(world.mdp, world.features)
    reached = visitation(world.mdp, policy)
    budget = float((reached * (world.features.costs[0] @ truth.cost_weights[0])[:, None]).sum())
    true = np.concatenate(
        [truth.reward_weights, truth.cost_weights[0], [args.multiplier], [budget]]
    )
    found = many(_coverage_one, range(args.replicates), args)
    points, ends = (np.array(part) for part in zip(*found, strict=True))
    held = (ends[:, :, 0] <= true) & (true <= ends[:, :, 1])
    inside = held.mean(axis=0)

    # The information of as many steps under the true policy bounds every unbiased estimate.
    fitted = matched(world.mdp, space, reached)
    from tacit.forward.policies import visitation_recursion
    from tacit.inference.gauge import Gauge

    undiscounted = tacit.MDP(world.mdp.transitions, world.mdp.initial, 1 - 1e-12)
    visits = visitation_recursion(undiscounted, policy, args.steps).sum(axis=1)
    scores = fitted.problem.chains[0].scores(fitted.parts[0])
    fisher = args.trajectories * information(scores, policy, visits)
    reaction = information(scores, policy, reached.sum(axis=1))
    jacobian = Gauge.of(space, fitted.z, space.pull_back(reached), reaction).jacobian
    bound = np.sqrt(np.diagonal(jacobian @ np.linalg.inv(fisher) @ jacobian.T))
    spread = np.sqrt(((points - true) ** 2).mean(axis=0))
    names = [*world.features.reward_names, *world.features.cost_names[0], "multiplier", "budget"]
    verdict = coverage_verdict(rates_of("coverage", held, names))
    print(f"coverage: {verdict}")
    return [
        {
            "study": "coverage of nominal 95 % intervals",
            "estimator": "Likelihood",
            "replicates": args.replicates,
            "number": name,
            "truth": true[j],
            "standard_errors_from_0": true[j] / bound[j],
            "coverage": inside[j],
            "error_over_cramer_rao": spread[j] / bound[j],
            "verdict_over_all_numbers": asdict(verdict),
            "target": "95 % over all numbers by the rule of rates.py; error within 15 %",
        }
        for j, name in enumerate(names)
    ]


def _activity_one(number: int, args: Args) -> tuple[bool, bool]:
    world = tacit.worlds.hill_grid(args.coverage_seed, tightness=0.5)
    verdicts = []
    for price in (0.0, args.multiplier):
        seen = watched(world, noisy_expert(world, args, price), args, 20_000 + number)
        recovery = tacit.recover(
            world.mdp, world.features, seen, estimator=tacit.Likelihood(), throw=False
        )
        verdicts.append(bool(recovery.identification.active[0]))
    return verdicts[0], verdicts[1]


def activity(args: Args) -> list[dict[str, Any]]:
    """False alarms and power of the test whether a constraint is active."""
    found = np.array(many(_activity_one, range(args.replicates), args))
    verdict = size_verdict(rates_of("false alarms", found[:, 0]))
    print(f"activity: {verdict}")
    return [
        {
            "study": "constraint-activity test at level 5 %",
            "estimator": "Likelihood",
            "replicates": args.replicates,
            "false_alarms": found[:, 0].mean(),
            "power": found[:, 1].mean(),
            "verdict_of_false_alarms": asdict(verdict),
            "target": "5 % by the rule of rates.py; power >= 95 %",
        }
    ]


def _optimal_draw(seed: int, args: Args) -> tuple[bool, float, float]:
    world = tacit.worlds.hill_grid(seed, tightness=0.5)
    best = tacit.solve(world.mdp, world.truth)
    seen = watched(world, best.policy, args, seed)
    start = time.perf_counter()
    recovery = tacit.recover(
        world.mdp, world.features, seen, estimator=tacit.Explanation(), throw=False
    )
    seconds = time.perf_counter() - start
    truth, known = world.in_gauge, recovery.identification
    slack = 1e-7
    inside = all(
        ((ends[:, 0] - slack <= point) & (point <= ends[:, 1] + slack)).all()
        for ends, point in (
            (known.reward_intervals, truth.reward_weights),
            (known.cost_intervals[0], truth.cost_weights[0]),
        )
    )
    reward, costs = world.truth.tables(world.mdp)
    priced = reward - best.multipliers[0] * costs[0]
    optimum = tacit.solve(world.mdp, tacit.Objective(priced)).value
    regret = optimum - float((recovery.solution.visitation * priced).sum())
    return inside, regret / max(abs(optimum), 1e-12), seconds


def optimal(args: Args) -> list[dict[str, Any]]:
    """Optimal experts: truth inside the set, recovered policy without regret."""
    found = many(_optimal_draw, range(args.draws), args)
    inside, regret, seconds = (np.array(part) for part in zip(*found, strict=True))
    return [
        {
            "study": "optimal expert",
            "estimator": "Explanation",
            "draws": args.draws,
            "truth_inside": inside.mean(),
            "largest_relative_regret": regret.max(),
            "without_regret_1e-6": (regret <= 1e-6).mean(),
            "seconds_median": np.median(seconds),
            "target": "truth inside in every draw; regret <= 1e-6 in every draw",
        }
    ]


def _tasks_draw(seed: int, args: Args) -> dict[str, float]:
    """Cost-weight errors of one task, and of two of half the length each, one at a tenth the price.

    The second task has the same costs and another reward: what both refuse is the constraint.
    """
    from dataclasses import replace

    share = np.random.default_rng(1000 + seed).uniform()
    here = tacit.worlds.hill_grid(seed, tightness=0.5)
    there = tacit.worlds.hill_grid(seed, tightness=0.5, reward_weights=[share, 1 - share])
    truth, half = here.in_gauge.cost_weights[0], replace(args, trajectories=args.trajectories // 2)

    def task(world: Any, price: float, length: Args, draw: int) -> Any:
        seen = watched(world, noisy_expert(world, args, price), length, draw)
        return tacit.Task(world.mdp, world.features, seen)

    def error(weights: np.ndarray) -> float:
        return 2.0 if np.isnan(weights).any() else float(np.abs(weights - truth).sum())

    errors = {}
    for name, world in (("one task", here), ("the other task", there)):
        whole = task(world, args.multiplier, args, seed)
        alone = tacit.recover(
            whole.mdp, whole.features, whole.demonstrations,
            estimator=tacit.Likelihood(), throw=False,
        )  # fmt: skip
        errors[name] = error(alone.cost_weights[0])
    for name, factor in (("two tasks", 1.0), ("two tasks, one at a tenth of the price", 0.1)):
        both = [
            task(here, args.multiplier, half, seed),
            task(there, factor * args.multiplier, half, 5000 + seed),
        ]
        joint = tacit.recover(both, throw=False)
        errors[name] = error(np.asarray(joint.cost_weights[0]))
    return errors


def tasks(args: Args) -> list[dict[str, Any]]:
    """Two tasks of half the length each against one of the whole length."""
    found = many(_tasks_draw, range(args.draws), args)
    return [
        {
            "study": "several tasks, same number of steps in all, median over draws",
            "estimator": name,
            "draws": args.draws,
            "cost_L1": float(np.median([row[name] for row in found])),
            "target": "two tasks: smaller than one",
        }
        for name in found[0]
    ]


def timing(args: Args) -> list[dict[str, Any]]:
    """One recovery with intervals on the paper's grid, 200 000 steps."""
    world = tacit.worlds.hill_grid(args.coverage_seed, tightness=0.5)
    seen = watched(world, noisy_expert(world, args), args, 1)
    times = []
    for _ in range(6):
        start = time.perf_counter()
        tacit.recover(world.mdp, world.features, seen, estimator=tacit.Likelihood(), throw=False)
        times.append(time.perf_counter() - start)
    return [
        {
            "study": "time of one recovery with intervals, 5 x 5, 200 000 steps",
            "estimator": "Likelihood",
            "first_seconds": times[0],
            "best_of_5_seconds": min(times[1:]),
            "target": "under 0.2 s after compilation",
        }
    ]


STUDIES = {
    "noisy": noisy,
    "exact": exact,
    "timing": timing,
    "optimal": optimal,
    "tasks": tasks,
    "coverage": coverage,
    "activity": activity,
}


def main(args: Args) -> None:
    if args.quick:
        from dataclasses import replace

        args = replace(args, draws=max(args.draws // 20, 4), replicates=args.replicates // 20)
    rows = []
    for name, study in STUDIES.items():
        if args.only and name not in args.only:
            continue
        start = time.perf_counter()
        fresh = study(args)
        for row in fresh:
            rows.append({"name": name, **row})
            print({k: _short(v) for k, v in rows[-1].items()})
        print(f"-- {name}: {time.perf_counter() - start:.1f} s", flush=True)
    if args.quick:
        return
    kept, parts = [], {}
    if args.only and args.out.exists():
        before = json.loads(args.out.read_text())
        kept, parts = [r for r in before["rows"] if r["name"] not in args.only], before["parts"]
    names = ("tacit-irl", "jax", "jaxlib", "numpy", "scipy", "numba", "highspy")
    parts |= dict.fromkeys(args.only or STUDIES, about(names))
    document = {"parts": parts, "rows": kept + rows}
    args.out.parent.mkdir(exist_ok=True)
    args.out.write_text(json.dumps(document, indent=1, default=float) + "\n")


def _short(value: Any) -> Any:
    return round(value, 5) if isinstance(value, float) else value


if __name__ == "__main__":
    import tyro

    main(tyro.cli(Args))
