"""The numbers of solves and recoveries of every kind, to be the same before and after a change.

python tools/net.py --write FILE                     # stores the numbers of today
python tools/net.py --against FILE [--only NAME...]  # compares with them; exit code 1 if they moved

The reference is `tools/net_numbers.npz`. Sentences are not kept: they may change.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import rooms
import tacit
from tacit_lab import guesses, transfers
from tacit_lab.worlds import published_values
from text_form import save_text

REFERENCE = Path(__file__).with_name("net_numbers.npz")
# What may move, each as a share of what is allowed (see `allowed`): 1 is the limit.
LIMIT = 1.0
# Simulated laws have at least so many draws.
DRAWS = 4000
# How a search went, not what it came to.
UNCOMPARED = ("history", "iterations", "certificate", "evaluations", "projected_gradient", ".steps")
# Arrays with more entries are stored as sums and a few projections on fixed random directions.
WHOLE = 128
PROJECTIONS = 6

Numbers = dict[str, np.ndarray]


# --- where the public names live ------------------------------------------------------------------


def name(*homes: str) -> Any:
    """What the first dotted path that exists stands for; the newest home comes first."""
    for home in homes:
        module, inside = home, ""
        while module:
            try:
                return (
                    attrgetter(inside)(import_module(module)) if inside else import_module(module)
                )
            except ModuleNotFoundError as error:
                if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                    raise  # the module is there, and one that it needs is not
            except AttributeError:
                pass
            module, _, last = module.rpartition(".")
            inside = f"{last}.{inside}".rstrip(".")
    raise AttributeError(f"none of these exists: {', '.join(homes)}")


recover_many = name("tacit.many.recover_many", "tacit.recover_many")
recover_each = name("tacit.many.recover_each", "tacit.recover_each")
discount_profile = name("tacit.checks.discount_profile", "tacit.discount_profile")
holdout = name("tacit.checks.holdout", "tacit.holdout")
equal_weights_test = name("tacit.checks.equal_weights_test", "tacit.equal_weights_test")
trajectory_fits = name("tacit.checks.trajectory_fits", "tacit.trajectory_fits")
price_curve = name("tacit.checks.price_curve", "tacit.price_curve")
Tally = name("tacit.data.Tally", "tacit.Tally")
Partitioned = name("tacit.data.PartitionedDemonstrations", "tacit.PartitionedDemonstrations")
write_partitions = name("tacit.data.write_partitions", "tacit.write_partitions")
Prior = name("tacit.data.Prior", "tacit.Prior")
Discretiser = name(
    "tacit.data.Discretiser", "tacit.data.sources.Discretiser", "tacit.sources.Discretiser"
)
rollouts = name("tacit.data.rollouts", "tacit.data.sources.rollouts", "tacit.sources.rollouts")
sharded = name("tacit.scale.sharded", "tacit.sharded")
ShardedMDP = name("tacit.scale.ShardedMDP", "tacit.ShardedMDP")
# The plain verbs exist in both houses, so the older names come first here.
solve_sharded = name("tacit.solve_sharded", "tacit.solve")
recover_sharded = name("tacit.recover_sharded", "tacit.recover")
RewardOnly = name("tacit.families.RewardOnly", "tacit.RewardOnly")
ConstraintOnly = name("tacit.families.ConstraintOnly", "tacit.ConstraintOnly")
Problem = name("tacit.runs.Problem", "tacit.folders.Problem", "tacit.Problem")
Run = name("tacit.runs.Run")
Task = name("tacit.Task", "tacit.many.Task")
main_command = name("tacit.cli.main")


# --- what is kept of an answer --------------------------------------------------------------------

SOLUTION = ("policy", "visitation", "visits", "values", "multipliers", "value", "spent")
SOLUTION += ("temperature", "status", "certificate", "mixture", "infeasibility", "iterations")
IDENTIFICATION = tuple(
    f"{what}_{kind}"
    for kind in ("intervals", "standard_errors")
    for what in ("reward", "cost", "multiplier", "budget")
)
RECOVERY = ("reward_weights", "cost_weights", "multipliers", "budgets", "temperature", "status")
RECOVERY += ("certificate", "history", "identification", "solution", "recoveries")
# Type -> the parts of it that are kept; of any other dataclass, all.
KEPT = {
    "Solution": SOLUTION,
    "ShardedSolution": SOLUTION,
    "Recovery": RECOVERY,
    "PowerStudy": (),
    "JointRecovery": RECOVERY,
    "ShardedRecovery": (*RECOVERY[:6], "standard_errors", "projected_gradient", "policy", "values"),
    "Identification": (*IDENTIFICATION, "active"),
    "MDP": ("dense", "initial", "discount"),
    "Tally": ("counts", "discounted", "starts", "cut", "squares", "longest", "ends", "episodes"),
}


def numbers(given: Any, prefix: str = "") -> Numbers:
    """Path -> array of every number and status in an answer: dataclasses, dicts, tuples, arrays."""
    if given is None:
        return {}
    if isinstance(given, Enum):
        return {prefix: np.array(given.name)}
    if type(given).__name__ == "History":
        parts = dict(given.columns)
    elif isinstance(given, dict):
        parts = given
    elif is_dataclass(given) and not isinstance(given, type):
        kept = KEPT.get(type(given).__name__, [field.name for field in fields(given)])
        parts = {part: getattr(given, part) for part in kept if hasattr(given, part)}
    elif isinstance(given, tuple | list) and not all(isinstance(x, int | float) for x in given):
        parts = dict(enumerate(given))
    else:
        array = np.asarray(given() if callable(given) else given)
        # Words other than statuses may change.
        return {prefix: array} if array.dtype.kind in "bif" else {}
    found: Numbers = {}
    for part, value in parts.items():
        found |= numbers(value, f"{prefix}.{part}".lstrip("."))
    return found


def reduced(array: np.ndarray) -> np.ndarray:
    """The array in one line; a large one as count of odd entries, sum, range and projections."""
    flat = array.astype(np.float64).ravel()
    if flat.size <= WHOLE:
        return flat
    sound = np.where(np.isfinite(flat), flat, 0.0)
    directions = np.random.default_rng(flat.size).standard_normal((PROJECTIONS, flat.size))
    sums = [(sound * one).sum() for one in directions / np.sqrt(flat.size)]
    ends = [np.count_nonzero(np.isnan(flat)), np.count_nonzero(np.isinf(flat)), sound.sum()]
    return np.array([flat.size, *ends, sound.min(), sound.max(), *sums])


# --- the cases ------------------------------------------------------------------------------------

CASES: dict[str, Callable[[], Any]] = {}


def case(function: Callable[[], Any]) -> Callable[[], Any]:
    """Adds a case under the name of its function."""
    CASES[function.__name__] = function
    return function


@cache
def grid(tightness: float = 0.5, seed: int = 4) -> Any:
    """The 5 x 5 grid of the paper in the gauge, one constraint."""
    return tacit.worlds.hill_grid(seed, tightness=tightness).in_gauge


@cache
def tangle(constraints: int = 2, by_action: bool = True) -> Any:
    """A small random world whose features depend on the action, or not."""
    return tacit.worlds.random(
        0,
        states=9,
        actions=3,
        constraints=constraints,
        by_action=by_action,
        tightness=0.5 if constraints else None,
    )


@cache
def large() -> Any:
    """More states than are solved as one dense array."""
    return tacit.worlds.random(
        3, states=300, actions=3, constraints=2, successors=4, discount=0.9, tightness=0.5
    )


@cache
def noisy_walks(world: Any, temperature: float, many: int = 60, steps: int = 100) -> Any:
    """Walks of the noisy expert of a world."""
    solver = tacit.SoftDual(temperature=temperature)
    policy = tacit.solve(world.mdp, world.truth, solver=solver).policy
    return tacit.simulate(world.mdp, policy, trajectories=many, steps=steps, seed=0)


@cache
def best_walks(world: Any, many: int = 40, steps: int = 100) -> Any:
    """Walks of the optimal expert of a world."""
    policy = tacit.solve(world.mdp, world.truth).policy
    return tacit.simulate(world.mdp, policy, trajectories=many, steps=steps, seed=0)


def grid_walks() -> Any:
    return noisy_walks(grid(), 0.0025)


def tangle_walks() -> Any:
    return noisy_walks(tangle(), 0.05)


def recovered(world: Any, walks: Any, estimator: Any, **options: Any) -> Any:
    """`recover` in a test world."""
    return tacit.recover(world.mdp, world.features, walks, estimator=estimator, **options)


@case
def solve_exact() -> Any:
    """Column generation with none to three constraints, and in the grid."""
    found = {}
    for constraints in range(4):
        world = tangle(constraints)
        found[f"K{constraints}"] = tacit.solve(world.mdp, world.truth)
    return found | {"grid": tacit.solve(grid().mdp, grid().truth)}


@case
def solve_exact_large() -> Any:
    """Column generation on successor lists."""
    return tacit.solve(large().mdp, large().truth)


@case
def solve_occupancy() -> Any:
    """The occupancy program with none to two constraints."""
    solver = tacit.OccupancyLP()
    return [tacit.solve(tangle(k).mdp, tangle(k).truth, solver=solver) for k in range(3)]


@case
def solve_soft() -> Any:
    """Noisy experts at several temperatures."""
    return {
        f"{where} {temperature}": tacit.solve(
            world.mdp, world.truth, solver=tacit.SoftDual(temperature=temperature)
        )
        for where, world in (("grid", grid()), ("K1", tangle(1)), ("K2", tangle(2)))
        for temperature in (0.01, 0.1, 1.0)
    }


@case
def solve_soft_large() -> Any:
    """A noisy expert on successor lists, in compiled loops."""
    return [
        tacit.solve(large().mdp, large().truth, solver=tacit.SoftDual(temperature=temperature))
        for temperature in (0.05, 0.5)
    ]


@case
def solve_infeasible() -> Any:
    """Budgets that no policy meets, by each solver."""
    truth = tangle().truth
    asked = tacit.Objective(truth.reward, truth.costs, [0.0, 0.0])
    solvers = (tacit.ColumnGeneration(), tacit.OccupancyLP(), tacit.SoftDual(temperature=0.1))
    return [tacit.solve(tangle().mdp, asked, solver=solver, throw=False) for solver in solvers]


@case
def solve_slack() -> Any:
    """Budgets that never bind, one of them infinite."""
    truth = tangle().truth
    asked = tacit.Objective(truth.reward, truth.costs, [np.inf, 1e3])
    solvers = (tacit.ColumnGeneration(), tacit.OccupancyLP(), tacit.SoftDual(temperature=0.1))
    return [tacit.solve(tangle().mdp, asked, solver=solver) for solver in solvers]


@case
def solve_published() -> Any:
    """The figure of the paper."""
    world = tacit.worlds.published_figure(tightness=0.5)
    noisy = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(temperature=0.01))
    exact = tacit.solve(world.mdp, world.truth)
    return {"exact": exact, "noisy": noisy, "values": published_values()}


@case
def worlds_drawn() -> Any:
    """The worlds themselves."""
    given = {
        "grid": grid(),
        "as written": tacit.worlds.hill_grid(1, hill="as-written", slip_to_intended=True),
        "tangle": tangle(),
        "by state": tangle(1, by_action=False),
        "margin": tacit.worlds.random(2, states=7, constraints=1),
    }
    return {
        where: {
            "mdp": world.mdp,
            "tables": world.truth.tables(world.mdp),
            "budgets": world.truth.budgets,
            "weights": [world.reward_weights, world.cost_weights],
        }
        for where, world in given.items()
    }


@case
def simulated() -> Any:
    """Walks of a random and of a deterministic policy, small world and large."""
    policy = tacit.solve(large().mdp, large().truth).policy
    far = tacit.simulate(large().mdp, policy, trajectories=20, steps=30, seed=5)
    return [
        [walks.states, walks.actions, walks.offsets, walks.final_states]
        for walks in (grid_walks(), best_walks(grid()), far)
    ]


@case
def prices() -> Any:
    """The price curve of a budget, exact and noisy."""
    world = tangle()
    noisy = tacit.SoftDual(temperature=0.1)
    exact = price_curve(world.mdp, world.truth, constraint=1, points=5)
    soft = price_curve(world.mdp, world.truth, points=4, solver=noisy)
    return [exact, soft]


@case
def likelihood() -> Any:
    """One constraint, features of states."""
    return recovered(grid(), grid_walks(), tacit.Likelihood())


@case
def likelihood_two_constraints() -> Any:
    """Two constraints, features of states and actions; rewards of any sign; loose pairs."""
    walks = tangle_walks()
    pairs = tacit.Demonstrations.from_pairs(walks.states, walks.actions)
    return [
        recovered(tangle(), walks, tacit.Likelihood()),
        recovered(tangle(), pairs, tacit.Likelihood(free_reward=True, level=0.5)),
    ]


@case
def likelihood_of_an_optimal_expert() -> Any:
    """No maximum, or hardly one: the ridge speaks."""
    return [
        recovered(world, best_walks(world), tacit.Likelihood(), throw=False)
        for world in (grid(), tangle(0))
    ]


@case
def likelihood_large() -> Any:
    """On successor lists."""
    walks = noisy_walks(large(), 0.05, 200, 50)
    return recovered(large(), walks, tacit.Likelihood(), throw=False)


@case
def convex() -> Any:
    """One constraint and two, with and without a ridge."""
    return [
        recovered(grid(), grid_walks(), tacit.Convex(), throw=False),
        recovered(tangle(), tangle_walks(), tacit.Convex(ridge=0.1, free_reward=True)),
    ]


@case
def convex_of_an_optimal_expert() -> Any:
    """No optimum without a ridge."""
    return [
        recovered(world, best_walks(world), tacit.Convex(), throw=False)
        for world in (grid(), tangle(0))
    ]


@case
def explanation() -> Any:
    """All explanations of an optimal expert, and a linear question."""
    found = recovered(grid(), best_walks(grid()), tacit.Explanation())
    asked = found.identification.interval([-1.0, 1.0], [np.zeros(4)])
    return {"found": found, "asked": np.array(asked)}


@case
def explanation_two_constraints() -> Any:
    """Two constraints, features of states and actions; rewards of any sign."""
    walks = best_walks(tangle())
    return [
        recovered(tangle(), walks, tacit.Explanation(free_reward=free)) for free in (False, True)
    ]


@case
def explanation_of_a_noisy_expert() -> Any:
    """Steps that no objective explains."""
    return recovered(grid(), grid_walks(), tacit.Explanation(), throw=False)


@case
def alternating() -> Any:
    """Calibrated budgets, for an optimal expert and for a noisy one."""
    noisy = tacit.Alternating(solver=tacit.SoftDual(temperature=0.0025), starts=1, max_steps=15)
    return [
        recovered(
            grid(), best_walks(grid()), tacit.Alternating(starts=2, max_steps=25), throw=False
        ),
        recovered(grid(), grid_walks(), noisy, throw=False),
    ]


@case
def alternating_published() -> Any:
    """The rules as printed, by either bound."""
    return [
        recovered(
            grid(),
            best_walks(grid()),
            tacit.Alternating.published(max_steps=25, bound=bound),
            throw=False,
        )
        for bound in ("policy", "demonstrations")
    ]


@case
def alternating_two_constraints() -> Any:
    """Two constraints."""
    estimator = tacit.Alternating(starts=1, max_steps=15)
    return recovered(tangle(), best_walks(tangle()), estimator, throw=False)


@case
def reward_only() -> Any:
    """By likelihood and by matching."""
    return [
        recovered(grid(), grid_walks(), RewardOnly()),
        recovered(tangle(), tangle_walks(), RewardOnly(matching=True, free_reward=True)),
    ]


@case
def constraint_only() -> Any:
    """With the temperature known, and not."""
    return [
        recovered(grid(), grid_walks(), ConstraintOnly(grid().reward_weights)),
        recovered(tangle(), tangle_walks(), ConstraintOnly(tangle().reward_weights, 0.05)),
    ]


@case
def picked() -> Any:
    """The automatic choice for a noisy and for an optimal expert, and where visits are few."""
    return [
        recovered(grid(), grid_walks(), None),
        recovered(tangle(1), best_walks(tangle(1)), None),
        recovered(grid(), grid_walks().select([0, 1]).truncate(20), None, throw=False),
    ]


def two_tasks() -> list[Any]:
    """The same demonstrator in two tasks."""
    places = (grid(), tacit.worlds.hill_grid(4, tightness=0.2, reward_weights=[0.9, 0.1]).in_gauge)
    return [Task(place.mdp, place.features, noisy_walks(place, 0.0025)) for place in places]


@case
def tasks() -> Any:
    """Several tasks that share cost weights."""
    return tacit.recover(two_tasks())


@case
def tasks_sharing_the_reward() -> Any:
    """Several tasks that share reward weights as well."""
    return tacit.recover(two_tasks(), share_reward=True)


@case
def many() -> Any:
    """Batches of demonstrations, of visitations and of counts."""
    world, walks = tangle(), tangle_walks()
    parts = [walks.select(range(first, first + 20)) for first in (0, 20, 40)]
    temperatures = (0.05, 0.1)
    tables = np.stack(
        [
            tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(temperature=t)).visitation
            for t in temperatures
        ]
    )
    asked = (world.mdp, world.features)
    return {
        "convex": recover_many(*asked, parts, estimator=tacit.Convex()),
        "likelihood": recover_many(*asked, parts, estimator=tacit.Likelihood()),
        "visitations": recover_many(*asked, tables, estimator=tacit.Convex()),
        "worlds": recover_many(
            [world.mdp] * 2, [world.features] * 2, tables, chunk=1, estimator=tacit.Convex()
        ),
    }


@case
def each() -> Any:
    """One recovery after another, each with its own estimator."""
    estimators = [tacit.Likelihood(), tacit.Convex()]
    return recover_each(two_tasks(), estimator=estimators, workers=1)


@case
def bootstrap() -> Any:
    """Intervals from resampled trajectories."""
    return [
        recovered(tangle(), tangle_walks(), kind, bootstrap=12, seed=3)
        for kind in (tacit.Convex(ridge=0.01), tacit.Likelihood())
    ]


@case
def tally() -> Any:
    """A recovery from sums, and the sums."""
    walks, mdp = grid_walks(), grid().mdp
    parts = [Tally.of(mdp, walks.select(range(first, first + 30))) for first in (0, 30)]
    whole = parts[0] + parts[1]
    return [whole, recovered(grid(), whole, tacit.Likelihood()), recovered(grid(), whole, None)]


@case
def partitions() -> Any:
    """A recovery from files."""
    walks = grid_walks()
    with tempfile.TemporaryDirectory() as folder:
        parts = [walks.select(range(first, first + 20)) for first in (0, 20, 40)]
        write_partitions(parts, Path(folder) / "parts")
        seen = Partitioned(Path(folder) / "parts", workers=1)
        found = [recovered(grid(), seen, kind) for kind in (tacit.Likelihood(), tacit.Convex())]
        return [*found, np.array([seen.episodes, seen.steps]), seen.tally(grid().mdp)]


@case
def split_inside() -> Any:
    """Plain verbs with a large model spread over the devices there are."""
    world = replace(large().mdp)  # without the engine that the other cases have kept with it
    with sharded():
        solution = tacit.solve(world, large().truth, solver=tacit.SoftDual(temperature=0.05))
        walks = noisy_walks(large(), 0.05, 200, 50)
        found = tacit.recover(world, large().features, walks, estimator=tacit.Likelihood(level=1.0))
    return [solution, found]


@case
def split_rows() -> Any:
    """A model given by rows."""
    world = large()
    lists, truth, features = world.mdp.transitions, world.truth, world.features
    model = ShardedMDP.from_rows(
        lambda i, j: tacit.Successors(lists.states[i:j], lists.probabilities[i:j]),
        lambda i, j: world.mdp.initial[i:j],
        states=world.mdp.states,
        discount=world.mdp.discount,
    )
    solution = solve_sharded(
        model,
        lambda i, j: tacit.Objective(truth.reward[i:j], truth.costs[:, i:j], truth.budgets),
        solver=tacit.SoftDual(temperature=0.05),
    )
    seen = noisy_walks(world, 0.05, 200, 50).counts(world.mdp)
    found = recover_sharded(
        model,
        lambda i, j: tacit.Features(features.reward[i:j], [c[i:j] for c in features.costs]),
        lambda i, j: seen[i:j],
        estimator=tacit.Likelihood(),
    )
    return [solution, found]


@cache
def explored() -> tuple[Any, Any, Any]:
    """(a world known from steps, its features, walks of a noisy expert)."""
    world = tangle(1, by_action=False)
    shape = (world.mdp.states, world.mdp.actions)
    even = np.full(shape, 1.0 / shape[1])
    walk = tacit.simulate(world.mdp, even, trajectories=1, steps=600, seed=1)
    mdp = tacit.MDP.from_transitions(
        walk,
        n_states=shape[0],
        n_actions=shape[1],
        discount=0.9,
        initial=world.mdp.initial,
        prior=Prior(0.5, "successors"),
    )
    return mdp, world.features, noisy_walks(world, 0.05)


@case
def estimated_dynamics() -> Any:
    """Transitions counted from steps under several beliefs, and others drawn from what is known."""
    mdp, _, walks = explored()
    others = [
        tacit.MDP.from_transitions(
            walks.truncate(20),
            n_states=9,
            n_actions=3,
            discount=0.9,
            prior=prior,
            unvisited=unvisited,
        )
        for prior, unvisited in ((Prior(2.0, "all"), "prior"), (Prior(1.0, "stay"), "stay"))
    ]
    drawn = mdp.evidence.draw(mdp.transitions, np.random.default_rng(0))
    return [mdp, others, drawn]


@case
def held_out() -> Any:
    """Prediction of episodes not seen, noisy and optimal."""
    found = holdout(grid().mdp, grid().features, grid_walks(), seed=2)
    best = tangle(1)
    return [found, holdout(best.mdp, best.features, best_walks(best))]


@case
def discounts() -> Any:
    """Other discounts."""
    world = tangle(1)
    walks = noisy_walks(world, 0.05)
    found = discount_profile(world.mdp, world.features, walks, [0.8, 0.9, 0.95])
    return [found, np.array([found.best, *found.interval])]


@case
def groups() -> Any:
    """Whether groups share their weights."""
    world = tangle(1)
    walks = noisy_walks(world, 0.05)
    names = np.repeat(["day", "night"], 30)
    seen = (world.mdp, world.features, walks, names)
    free = tacit.Likelihood(free_reward=True)
    return [
        equal_weights_test(*seen, draws=9),
        equal_weights_test(*seen, estimator=free, draws=9),
    ]


@case
def fits() -> Any:
    """How well each trajectory fits."""
    found = recovered(grid(), grid_walks(), tacit.Likelihood())
    return trajectory_fits(found, grid_walks().truncate(30), mdp=grid().mdp)


@case
def compared() -> Any:
    """A comparison with the truth, a transfer and the null distribution."""
    world = tangle()
    found = recovered(world, tangle_walks(), tacit.Likelihood())
    options: dict[str, Any] = {"features": world.features, "seed": 1}
    asked = (world.mdp, world.truth, found.objective)
    null = guesses.null_distribution(world.mdp, world.features, world.truth, draws=4, seed=2)
    return [
        tacit.compare(*asked, demonstrations=tangle_walks(), **options),
        tacit.compare(*asked, solver=tacit.SoftDual(temperature=0.05), **options),
        transfers.transfer(*asked, budget_factors=1.2, **options),
        null.values,
    ]


@case
def judged() -> Any:
    """The measures of the judge one by one."""
    judge, world, other = tacit.judge, tangle(), tangle(1)
    mdp, truth = world.mdp, world.truth
    best = tacit.solve(mdp, truth)
    soft = tacit.solve(mdp, truth, solver=tacit.SoftDual(temperature=0.1))
    (reward, costs), visits = truth.tables(mdp), best.visitation.sum(axis=1)
    drawn = judge.sample_behaviours(mdp, vertices=16, combinations=200, seed=1)
    looser = tacit.Objective(truth.reward, truth.costs, truth.budgets * 1.1)
    return {
        "canonical": judge.canonical(mdp, reward),
        "starc": judge.starc(mdp, reward, costs[0]),
        "correlation": judge.correlation(reward, costs[0]),
        "costly": judge.costly_pairs(mdp, truth),
        "feasible": judge.feasible_agreement(mdp, truth, looser, behaviours=drawn),
        "behaviours": drawn,
        "gap": judge.feature_gap(
            mdp, soft.visitation, features=world.features, demonstrations=tangle_walks()
        ),
        "gauged": judge.gauged_multipliers(mdp, truth, best.multipliers),
        "lagrangian": judge.lagrangian_regret(mdp, reward, soft.visitation, temperature=0.1),
        "likelihood": judge.log_likelihood(mdp, soft.policy, tangle_walks()),
        "errors": judge.multiplier_errors(best.multipliers, soft.multipliers),
        "agreement": judge.policy_agreement(mdp, reward, soft.policy, visits=visits),
        "distance": judge.policy_distance(best.policy, soft.policy, visits=visits),
        "regret": judge.regret(mdp, truth, soft.visitation, optimum=best.value),
        "violation": judge.violation(mdp, truth, best.visitation),
        "visitation": judge.visitation_distance(mdp, best.visitation, soft.visitation),
        "weights": judge.weight_error(world.reward_weights, other.cost_weights[0]),
        "null": [
            draw.reward_weights
            for draw in guesses.null_objectives(world.features, best.visitation, draws=3, seed=4)
        ],
    }


def lake_with_a_sink(source: Any) -> tuple[Any, np.ndarray]:
    """The frozen lake where time goes on after the end, in one more state; and its reward."""
    following, chances = np.full((17, 4, 3), 16), np.zeros((17, 4, 3))
    chances[16, :, 0] = 1.0
    reward = np.zeros((17, 4))
    for s, actions in source.P.items():
        for a, outcomes in actions.items():
            for b, (p, n, _, done) in enumerate(outcomes):
                following[s, a, b], chances[s, a, b] = 16 if done else n, p
            reward[s, a] = sum(p * r for p, _, r, _ in outcomes)
    start = np.append(source.initial_state_distrib, 0.0)
    return tacit.MDP(tacit.Successors(following, chances), start, 0.95), reward


@case
def frozen_lake() -> Any:
    """A Gymnasium world: solved, walked by its own environment, recovered."""
    try:
        import gymnasium
    except ModuleNotFoundError:
        return {}
    lake = gymnasium.make("FrozenLake-v1")
    mdp, reward = lake_with_a_sink(lake.unwrapped)
    charge = np.zeros((1, 17))
    charge[0, [5, 6, 9, 10]] = 1.0
    truth = tacit.Objective(reward, charge, [1.0])
    solution = tacit.solve(mdp, truth)
    noisy = tacit.solve(mdp, truth, solver=tacit.SoftDual(temperature=0.02))
    sink = np.full(16, 16)
    walks = rollouts(lake, noisy.policy, episodes=40, seed=0, max_steps=60, ends=sink)
    cost = tacit.features.one_hot(mdp, only=[5, 6, 9, 10])
    maps = tacit.features.combine(tacit.features.Map(reward[:, :, None], ["reward"]), [cost])
    found = tacit.recover(mdp, maps, walks, estimator=tacit.Likelihood(), throw=False)
    return [mdp, solution, noisy, walks.states, walks.actions, found]


@case
def features_built() -> Any:
    """Every builder of features, and a recovery with some of them."""
    made, world = tacit.features, grid()
    mdp, layout = world.mdp, world.layout
    places = made.coordinates(layout)
    parts = {
        "coordinates": places,
        "one hot": made.one_hot(layout, only=[3, 7]),
        "actions": made.action_one_hot(mdp, layout, only=[1]),
        "distance": made.distance_to([24, 4], mdp),
        "nearest": made.distance_to([24, 4], mdp, nearest=True, likely=0.5),
        "bumps": made.bumps([[1, 1], [3, 2]], [1.0, 1.5], places),
        "scaled": made.scaled(places),
        "product": made.product(places, made.one_hot(layout, only=[6])),
        "columns": made.columns({"state": [*range(25)], "heat": [0.5 * s for s in range(25)]}),
    }
    maps = made.combine(-parts["nearest"], [parts["bumps"]])
    found = tacit.recover(
        mdp, maps, grid_walks(), estimator=tacit.Likelihood(free_reward=True), throw=False
    )
    return {key: part.values for key, part in parts.items()} | {"found": found}


@case
def discretised() -> Any:
    """Points put into states, by clusters and by edges."""
    points = np.random.default_rng(0).normal(size=(200, 2))
    actions = np.random.default_rng(1).integers(0, 2, size=200)
    fitted = Discretiser.fit(points, bins=4)
    walks = fitted.demonstrations([(points[:101], actions[:100]), (points[101:], actions[101:])])
    mdp = tacit.MDP.from_transitions(
        walks, n_states=fitted.states, n_actions=2, discount=0.8, initial=0
    )
    return [fitted(points), walks.states, walks.actions, mdp]


@case
def text_folder() -> Any:
    """A folder of text files, recovered."""
    with tempfile.TemporaryDirectory() as folder:
        problem = Problem.load(rooms.folder(Path(folder) / "rooms"))
    seen = (problem.mdp, problem.features, problem.demonstrations)
    kinds = (tacit.Likelihood(), tacit.Explanation(), None)
    return [problem.mdp] + [tacit.recover(*seen, estimator=kind, throw=False) for kind in kinds]


@case
def folders_again() -> Any:
    """Problem and run, written and read again, as text and as archives."""
    world = tangle(1)
    walks = noisy_walks(world, 0.05)
    whole = Problem(world.mdp, world.features, walks, truth=world.truth, layout=world.layout)
    found = recovered(world, walks, tacit.Likelihood())
    kept = []
    with tempfile.TemporaryDirectory() as folder:
        for text in (False, True):
            (save_text if text else Problem.save)(whole, Path(folder) / f"problem {text}")
            again = Problem.load(Path(folder) / f"problem {text}")
            seen = (again.mdp, again.features, again.demonstrations)
            kept += [seen[0], tacit.recover(*seen, estimator=tacit.Likelihood())]
        Run(found).save(Path(folder) / "run")
        return [*kept, Run.load(Path(folder) / "run").recovery]


@case
def command() -> Any:
    """The command line, with every further question."""
    mdp, features, walks = explored()
    words = "--no-report --quiet --holdout 0.2 --discount-grid 0.85 0.9 --bootstrap 8 --seed 1"
    with tempfile.TemporaryDirectory() as folder:
        Problem(mdp, features, walks).save(Path(folder) / "problem")
        out = Path(folder) / "run"
        given = ["recover", str(Path(folder) / "problem"), "--out", str(out), *words.split()]
        with contextlib.redirect_stdout(io.StringIO()):
            code = main_command(given)
        run = Run.load(out)
    return [np.array(code), run.recovery, dict(run.trajectories)]


# --- stored and compared --------------------------------------------------------------------------


def ran(asked: list[str] | None = None) -> tuple[dict[str, Numbers], dict[str, float]]:
    """Case -> its numbers as stored, and case -> its seconds."""
    found, seconds = {}, {}
    for key in asked or CASES:
        began = time.perf_counter()
        whole = numbers(CASES[key]())
        found[key] = {
            path: array.ravel() if array.dtype.kind == "U" else reduced(array)
            for path, array in whole.items()
        }
        seconds[key] = time.perf_counter() - began
        if asked is None or len(asked) > 1:
            print(f"{key:34} {seconds[key]:6.2f} s", file=sys.stderr, flush=True)
    return found, seconds


def write(path: Path, found: dict[str, Numbers]) -> None:
    """All numbers in one line, all words in another, and what is where."""
    rows = [(f"{key}/{at}", array) for key, part in found.items() for at, array in part.items()]
    plain = [(at, array) for at, array in rows if array.dtype.kind != "U"]
    words = [(at, array.ravel()) for at, array in rows if array.dtype.kind == "U"]
    np.savez_compressed(
        path,
        names=np.array([at for at, _ in plain]),
        sizes=np.array([array.size for _, array in plain]),
        numbers=np.concatenate([array for _, array in plain]),
        word_names=np.array([at for at, _ in words]),
        word_sizes=np.array([array.size for _, array in words]),
        words=np.concatenate([array for _, array in words]),
    )


def read(path: Path = REFERENCE) -> dict[str, Numbers]:
    """Case -> its numbers."""
    found: dict[str, Numbers] = {}
    with np.load(path, allow_pickle=False) as stored:
        for names, sizes, line in (
            ("names", "sizes", "numbers"),
            ("word_names", "word_sizes", "words"),
        ):
            parts = np.split(stored[line], np.cumsum(stored[sizes])[:-1])
            for at, part in zip(stored[names], parts, strict=True):
                key, _, inside = str(at).partition("/")
                found.setdefault(key, {})[inside] = part
    return found


def allowed(at: str, a: np.ndarray) -> np.ndarray:
    """How far each entry of an array stored under this path may move.

    Interval ends by 1e-4 of their width, simulated p-values by 3 Monte Carlo errors,
    log-likelihoods by 1e-10 of their size, all else (parameters, policies, values: 1e-6 standard
    errors, which are about .1) by 1e-7 of the largest entry or of 1.
    """
    finite = np.where(np.isfinite(a), a, 0.0)
    largest = max(1.0, float(np.abs(finite).max(initial=0.0)))
    if "intervals" in at and a.size % 2 == 0 and a.size <= WHOLE:
        width = np.abs(np.diff(finite.reshape(-1, 2), axis=1))
        return (np.repeat(1e-4 * width, 2, axis=1) + 1e-7 * largest).reshape(a.shape)
    if "p_value" in at:
        chance = np.clip(finite, 1.0 / DRAWS, 1.0 - 1.0 / DRAWS)
        return 3.0 * np.sqrt(chance * (1.0 - chance) / DRAWS)
    return np.full(a.shape, (1e-10 if "log_likelihood" in at else 1e-7) * largest)


def difference(one: Numbers, other: Numbers) -> tuple[float, str]:
    """The largest difference, as a share of what is `allowed`, and where it is.

    Infinite where a word, a shape or what is there at all differs. NaN equals NaN.
    """
    worst, where = 0.0, ""
    for at in sorted({*one, *other}):
        if any(part in at for part in UNCOMPARED):
            continue
        if at not in one or at not in other:
            return np.inf, f"{at} is missing"
        a, b = np.asarray(one[at]), np.asarray(other[at])
        if a.shape != b.shape or (a.dtype.kind == "U") != (b.dtype.kind == "U"):
            return np.inf, f"{at}: {a.shape} and {b.shape}"
        if a.dtype.kind == "U":
            if (a != b).any():
                return np.inf, f"{at}: {a[a != b][0]} and {b[a != b][0]}"
            continue
        a, b = a.astype(float), b.astype(float)
        odd = ~(np.isfinite(a) & np.isfinite(b))
        if not np.array_equal(a[odd], b[odd], equal_nan=True):
            return np.inf, f"{at}: not finite at other places"
        if (~odd).any():
            far = float((np.abs(a - b)[~odd] / allowed(at, a)[~odd]).max())
            if far > worst:
                worst, where = far, at
    return worst, where


def main() -> int:
    """The exit code: 1 where a number moved."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", nargs="+", choices=CASES)
    asked = parser.parse_args()
    found, seconds = ran(asked.only)
    moved = 0
    stored = read(asked.against) if asked.against else {}
    for key, part in found.items():
        line = f"{key:34} {seconds[key]:6.2f} s"
        if asked.against:
            worst, where = difference(stored.get(key, {}), part)
            moved += worst > LIMIT
            line += f"  {worst:.1e} of what is allowed, {where}" if worst > 0.0 else "  bit for bit"
            line += "  MOVED" if worst > LIMIT else ""
        print(line)
    if asked.against and not asked.only:
        for key in sorted(set(stored) - set(found)):
            moved += 1
            print(f"{key:34} is stored, but no case has that name")
    print(f"{len(found)} cases, {sum(seconds.values()):.0f} s, {moved} moved")
    if asked.write:
        write(asked.write, found)
    return int(moved > 0)


if __name__ == "__main__":
    sys.exit(main())
