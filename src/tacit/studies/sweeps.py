"""How accuracy grows with the data: the length of the demonstrations, and their number.

The paper saw accuracy grow with T. Two experts are asked: the paper's optimal one, with the budget
halfway, and a noisy one, for whom both the step likelihood and feature matching are well posed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.forward.policies import visitation
from tacit.forward.simulation import simulate
from tacit.forward.soft_dual import SoftDual
from tacit.forward.solve import solve
from tacit.inverse.paper.alternating import Alternating
from tacit.inverse.recover import recover
from tacit.judge.behaviour import visitation_distance, weight_error
from tacit.judge.null import null_objectives
from tacit.model.objective import Objective
from tacit.studies.draws import ESTIMATORS, world_of
from tacit.studies.records import (
    BINDING,
    CALIBRATED,
    HALFWAY,
    LIKELIHOOD,
    MATCHING,
    RANDOM,
    Block,
    Point,
    Settings,
    Sweep,
)
from tacit.worlds.world import World

# A noisy expert that prefers the best action clearly but not always, in rewards of the gauge.
TEMPERATURE, PRICE = 0.0025, 0.05
GUESSES = 20
# Steps after which a discounted sum at 0.9 is complete to nine digits.
LONG = 200

EXPERTS = {"noisy": (LIKELIHOOD, MATCHING), "optimal": (CALIBRATED,)}


def run_sweep(settings: Settings, seed: int) -> Sweep:
    """The `Sweep` of one seed: every length and every number of trajectories, with each expert."""
    world = world_of(settings, Block(BINDING, "", "", 1.0, HALFWAY), seed)
    points: list[Point] = []
    for expert, names in EXPERTS.items():
        policy = _policy(world, expert)
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
                found = _recover(world, name, seed, shown, steps)
                points.append(Point(study, expert, name, position, *_errors(world, policy, *found)))
        points.append(_null(world, expert, policy, seed))
    return Sweep(seed, points)


def _policy(world: World, expert: str) -> np.ndarray:
    """[S, A] what the expert does."""
    if expert == "optimal":
        return solve(world.mdp, world.truth).policy
    return solve(world.mdp, _priced(world.truth), solver=SoftDual(TEMPERATURE)).policy


def _priced(objective: Objective) -> Objective:
    return Objective(objective.reward - PRICE * objective.costs[0])


def _recover(
    world: World, name: str, seed: int, shown: Demonstrations, steps: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(reward weights, cost weights, visitation) that the estimator finds."""
    estimator = ESTIMATORS[name](seed)
    if isinstance(estimator, Alternating) and steps < LONG:
        # Policy and demonstrations are compared over the same T steps, as in the paper's eq. 5.
        estimator = replace(estimator, steps=steps)
    # Too little data can send parameters to infinity; the errors then say it.
    with np.errstate(over="ignore", invalid="ignore"):
        found = recover(world.mdp, world.features, shown, estimator=estimator, throw=False)
    return found.reward_weights, found.cost_weights[0], found.solution.visitation


def _errors(
    world: World,
    policy: np.ndarray,
    reward_weights: np.ndarray,
    cost_weights: np.ndarray,
    visits: np.ndarray,
) -> tuple[float, float, float]:
    return (
        weight_error(world.reward_weights, reward_weights),
        weight_error(world.cost_weights[0], cost_weights),
        visitation_distance(world.mdp, visitation(world.mdp, policy), visits),
    )


def _null(world: World, expert: str, policy: np.ndarray, seed: int) -> Point:
    """The median errors of random weights, judged by the expert's own kind of behaviour."""
    visits = visitation(world.mdp, policy)
    rows = []
    for guess in null_objectives(world.features, visits, draws=GUESSES, seed=seed):
        if expert == "optimal":
            solution = solve(world.mdp, guess.objective, throw=False)
        else:
            solution = solve(world.mdp, _priced(guess.objective), solver=SoftDual(TEMPERATURE))
        rows.append(
            _errors(world, policy, guess.reward_weights, guess.cost_weights[0], solution.visitation)
        )
    medians = np.median(np.array(rows), axis=0)
    return Point("both", expert, RANDOM, 0, *(float(median) for median in medians))
