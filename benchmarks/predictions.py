"""How often intervals of predictions, what-ifs and functions of coefficients hold the truth.

    python benchmarks/predictions.py
    python benchmarks/predictions.py --draws 3    # a quick look; writes as well

Small worlds of four kinds: one task whose coefficients are far from their bounds, one with costs
that are 0 and so on them, trips to four goals, and two tasks that share a cost. Every draw
simulates demonstrations and recovers; asked are the chances of every action, the discounted sums of
all features after two ways are closed, the change of these sums and of the log-sum (surplus), all
flows, the ratio of two coefficients, elasticities of all sums in the first feature, and what one
unit more of it in two states does to flows. Writes benchmarks/results/predictions.json: how often
the 95 % intervals hold the truth, with a verdict on each question by the rule of rates.py, and how
often they were made by draws.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from provenance import about
from rates import coverage_verdict, rates_of

RESULTS = Path(__file__).parent / "results" / "predictions.json"
PACKAGES = ("tacit-irl", "numpy", "scipy", "jax")
QUESTIONS = (
    "chances", "sums", "changes of sums", "surplus", "changes of flows", "ratio", "elasticities",
    "marginal effects",
)  # fmt: skip
SIDE, GOALS = 4, (3, 5, 12, 15)
CLOSED = [(5, 1), (10, 2)]
# Draws of the coefficients where a number bends within its error.
INNER = 200


@dataclass(frozen=True)
class Cell:
    """One kind of world.

    Attributes:
        name: of the cell.
        theta: [P] coefficients that are true.
        recovery: seed -> what was recovered from a fresh draw.
        asked: what a prediction needs to be told.
    """

    name: str
    theta: np.ndarray
    recovery: Callable[[int], Any]
    asked: dict[str, Any]


def features(seed: int, theta: np.ndarray) -> tacit.Features:
    """Two features of the reward and one cost for every other coefficient, of states."""
    tables = np.random.default_rng(seed).random((SIDE * SIDE, len(theta)))
    return tacit.Features(tables[:, :2], [tables[:, 2:]])


def policy_of(mdp: tacit.MDP, own: tacit.Features, theta: np.ndarray) -> np.ndarray:
    """[S, A] of the noisy demonstrator with these coefficients."""
    found = own.objective(theta[:2], [theta[2:]], [0.0])
    charged = np.asarray(found.reward) - np.asarray(found.costs)[0]
    return tacit.SoftDual(1.0).solve(mdp, tacit.Objective(charged)).policy


def one_task(name: str, theta: np.ndarray, trajectories: int) -> Cell:
    """A grid of 16 states."""
    mdp, own = tacit.worlds.hill_grid(1, size=SIDE).mdp, features(7, theta)
    policy = policy_of(mdp, own, theta)

    def recovery(seed: int) -> tacit.Recovery:
        seen = tacit.simulate(mdp, policy, trajectories=trajectories, steps=40, seed=seed)
        return tacit.recover(mdp, own, seen, estimator=tacit.Likelihood(level=1.0))

    return Cell(name, theta, recovery, {})


def two_tasks(theta: np.ndarray) -> Cell:
    """Two grids with rewards of their own, one cost and one price."""
    worlds = [tacit.worlds.hill_grid(seed, size=SIDE).mdp for seed in (1, 2)]
    own = [features(seed, theta) for seed in (7, 8)]
    policies = [policy_of(mdp, one, theta) for mdp, one in zip(worlds, own, strict=True)]

    def recovery(seed: int) -> tacit.Recovery:
        seen = [
            tacit.simulate(mdp, policy, trajectories=40, steps=40, seed=1000 * e + seed)
            for e, (mdp, policy) in enumerate(zip(worlds, policies, strict=True))
        ]
        tasks = [tacit.Task(*task) for task in zip(worlds, own, seen, strict=True)]
        joint = tacit.recover(tasks, estimator=tacit.Likelihood(level=1.0))
        return joint.recoveries[1]

    return Cell("two tasks", theta, recovery, {})


def trips() -> Cell:
    """A square of streets, and travellers to four goals."""
    states, there = np.zeros((SIDE**2, 4, 1), np.int32), np.zeros((SIDE**2, 4), bool)
    for at in range(SIDE**2):
        for action, (down, across) in enumerate([(0, -1), (0, 1), (-1, 0), (1, 0)]):
            row, column = at // SIDE + down, at % SIDE + across
            if 0 <= row < SIDE and 0 <= column < SIDE:
                states[at, action, 0], there[at, action] = row * SIDE + column, True
    moves = tacit.Successors(states, there[:, :, None].astype(float))
    start = np.full(SIDE**2, 1 / SIDE**2)
    mdp, theta = tacit.MDP(moves, start, 0.9, available=there), np.array([-1.5, -0.7, 0.4])
    table = np.random.default_rng(0).random((SIDE**2, 4, 3))
    table[..., 0] += 1.0
    own, many = tacit.Features(table), 120

    def travelled(seed: int) -> tacit.Demonstrations:
        parts = []
        for e, goal in enumerate(GOALS):
            open_ = there.copy()
            open_[goal] = False
            begin = np.where(np.arange(SIDE**2) == goal, 0.0, 1.0) / (SIDE**2 - 1)
            world = tacit.MDP(moves, begin, 1.0, available=open_)
            pays = table @ theta
            pays[goal] = 0.0  # an arrival is no action
            policy = tacit.SoftDual(1.0).solve(world, tacit.Objective(pays)).policy
            share = many // len(GOALS)
            own_seed = 10 * seed + e
            parts.append(
                tacit.simulate(world, policy, trajectories=share, steps=500, seed=own_seed)
            )
        return parts[0] + parts[1] + parts[2] + parts[3]

    def recovery(seed: int) -> tacit.Recovery:
        return tacit.recover(tacit.Trips(mdp, own, travelled(seed), discount=1.0))

    return Cell("trips", theta, recovery, {"goals": GOALS[1]})


def answers(found: Any, asked: dict[str, Any], draws: int) -> tuple[list[Any], Any]:
    """The quantities of one recovery, in the order of the questions but for chances."""
    chances = found.predict(draws=draws, **asked)
    after = found.counterfactual(closed=CLOSED, draws=draws)
    ratio = found.function(lambda c: c[1] / c[0])
    name = found.parameters.names[0]
    elastic = found.elasticities(name, draws=draws)
    effect = found.marginal_effects(name, at=[6, 9], draws=draws)
    parts = [after.sums, after.sum_change, after.surplus, after.flow_change, ratio]
    parts += [elastic.sums, effect.flows]
    return parts, chances


def held(cell: Cell, seed: int) -> tuple[dict[str, np.ndarray], dict[str, bool]]:
    """Question -> which intervals hold the truth, and which were made by draws."""
    found = cell.recovery(seed)
    true = replace(found.parameters, estimates=cell.theta, unrestricted=None)
    truth, chances = answers(replace(found, parameters=true), cell.asked, 0)
    told, guessed = answers(found, cell.asked, INNER)
    there = guessed.available & (guessed.available.sum(axis=1) > 1)[:, None]
    pairs = {"chances": (chances.probabilities[there], guessed.intervals[there])}
    rows = zip(QUESTIONS[1:], truth, told, strict=True)
    pairs |= {name: (one.estimate.ravel(), other.interval) for name, one, other in rows}
    inside = {}
    for name, (value, interval) in pairs.items():
        low, high = np.moveaxis(np.asarray(interval).reshape(-1, 2), 1, 0)
        # What cannot change, such as the flow where nobody goes, has an interval without width.
        slack = 1e-7 * (1.0 + np.abs(value))
        inside[name] = (low - slack <= value) & (value <= high + slack)
    methods = zip(QUESTIONS, (guessed, *told), strict=True)
    return inside, {name: one.method == "draws" for name, one in methods}


def main() -> None:
    """Runs all draws and writes the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=100)
    given = parser.parse_args()
    cells = [
        one_task("far from bounds", np.array([4.0, 3.0, 2.5, 3.0]), 120),
        one_task("costs of 0", np.array([4.0, 3.0, 0.0, 2.0, 0.0]), 40),
        trips(),
        two_tasks(np.array([4.0, 3.0, 2.0, 1.0])),
    ]
    rates = {name: [] for name in QUESTIONS}
    rows = []
    for cell in cells:
        every = [held(cell, seed) for seed in range(given.draws)]
        row: dict[str, Any] = {"world": cell.name, "draws": given.draws}
        for name in QUESTIONS:
            table = np.array([inside[name] for inside, _ in every])
            row[name] = float(table.mean())
            row[f"{name}, by draws"] = float(np.mean([drawn[name] for _, drawn in every]))
            rates[name] += rates_of(cell.name, table)
        rows.append(row)
        print(json.dumps(row), flush=True)
    verdicts = {name: coverage_verdict(found) for name, found in rates.items()}
    for name, verdict in verdicts.items():
        print(f"{name}: {verdict}")
    result = {
        **about(PACKAGES),
        "verdicts": {name: asdict(verdict) for name, verdict in verdicts.items()},
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
