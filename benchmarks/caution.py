"""Budgets under new dynamics: how far a recovered objective breaks the true ones, and a cautious.

    python benchmarks/caution.py
    python benchmarks/caution.py --draws 3    # a quick look; writes as well

What was recovered in one world is solved in another: the paper's grid with more or less slip, from
another start, and random worlds of two constraints with other transitions. There the spending is
judged against the TRUE budgets, and the reward against that of the best policy within them. Draws
whose true budgets no policy of the new world can meet are left out, and counted. Three answers:
the recovered objective, `recovery.cautious()` for any world, `recovery.cautious(mdp)` for this one.
A cautious answer at confidence .95 may break a budget in 5 %: a verdict by the rule of rates.py.
Writes benchmarks/results/caution.json.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

import tacit
from provenance import about
from rates import Rate, size_verdict

RESULTS = Path(__file__).parent / "results" / "caution.json"
PACKAGES = ("tacit-irl", "numpy", "scipy", "jax", "highspy")
# Trajectories and steps of the demonstrations.
SIZES = ((20, 30), (60, 50), (300, 100))
CHANGES = ("slip 0.1", "slip 0.5", "another start", "other transitions")
ANSWERS = ("recovered", "cautious, any world", "cautious, this world")


def worlds_of(change: str, seed: int) -> tuple[tacit.worlds.World, tacit.MDP]:
    """A world, and the one that what was recovered there is used in."""
    if change == "other transitions":
        world = tacit.worlds.random(
            seed, states=12, actions=3, constraints=2, features=3, tightness=0.5
        )
        other = tacit.worlds.random(seed + 1000, states=12, actions=3, constraints=2).mdp
        mixed = 0.7 * world.mdp.dense() + 0.3 * other.dense()
        return world, tacit.MDP(mixed, world.mdp.initial, world.mdp.discount)
    world = tacit.worlds.hill_grid(seed=seed, tightness=0.5).in_gauge
    if change == "another start":
        start = np.zeros(world.mdp.states)
        start[[4, 12]] = 0.5
        return world, tacit.MDP(world.mdp.dense(), start, world.mdp.discount)
    slip = float(change.split()[1])
    return world, tacit.worlds.hill_grid(seed=seed, tightness=0.5, slip=slip).mdp


def judged(mdp: tacit.MDP, truth: tacit.Objective, given: tacit.Objective, best: float) -> dict:
    """How far the best policy for an objective breaks the true budgets, and its share of reward."""
    try:
        solution = tacit.solve(mdp, given)
    except tacit.Infeasible:
        return {"infeasible": True}
    reward, costs = truth.tables(mdp)
    spent = np.tensordot(costs, solution.visitation, 2)
    over = (spent - truth.budgets) / truth.budgets
    return {
        "over": float(over.max()),
        "reward": float(np.vdot(reward, solution.visitation)) / best,
        "share": float(getattr(given, "share", 1.0)),
    }


def draw(change: str, noisy: bool, size: tuple[int, int], seed: int) -> dict[str, dict] | None:
    """One recovery and its three answers; None where the truth cannot be kept in the new world."""
    world, other = worlds_of(change, seed)
    truth = world.truth
    kept = tacit.solve(other, truth, throw=False)
    if kept.status.name == "INFEASIBLE":
        return None
    reward, _ = truth.tables(world.mdp)
    solver = tacit.SoftDual(temperature=0.05 * float(np.ptp(reward))) if noisy else None
    policy = tacit.solve(world.mdp, truth, solver=solver).policy
    trajectories, steps = size
    seen = tacit.simulate(world.mdp, policy, trajectories=trajectories, steps=steps, seed=seed)
    estimator = tacit.Likelihood(seed=seed) if noisy else tacit.Explanation()
    found = tacit.recover(world.mdp, world.features, seen, estimator=estimator, throw=False)
    answers = [lambda: found.objective, found.cautious, lambda: found.cautious(other)]
    result = {}
    for name, answer in zip(ANSWERS, answers, strict=True):
        try:
            result[name] = judged(other, truth, answer(), kept.value)
        except tacit.Infeasible:
            result[name] = {"infeasible": True}
    return result


def summary(draws: list[dict[str, dict] | None]) -> dict[str, object]:
    """The row of one setting."""
    told = [one for one in draws if one is not None]
    row: dict[str, object] = {"draws": len(told), "left_out": len(draws) - len(told)}
    for name in ANSWERS:
        found = [one[name] for one in told if "over" in one[name]]
        over = np.array([one["over"] for one in found])
        row[name] = {
            "solved": len(found),
            "breaks": int((over > 1e-6).sum()),
            "broken": float((over > 1e-6).mean()) if len(over) else None,
            "worst": float(over.max().clip(0)) if len(over) else None,
            "median_reward": float(np.median([one["reward"] for one in found])) if found else None,
            "whole": float(np.mean([one["share"] == 1.0 for one in found])) if found else None,
        }
    return row


def main() -> None:
    """Runs all draws and writes the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=20, help="of each setting")
    given = parser.parse_args()
    rows = []
    for change in CHANGES:
        for noisy in (True, False):
            for size in SIZES:
                draws = [draw(change, noisy, size, seed) for seed in range(given.draws)]
                row = {
                    "change": change,
                    "expert": "noisy" if noisy else "optimal",
                    "trajectories": size[0],
                    "steps": size[1],
                    **summary(draws),
                }
                rows.append(row)
                print(json.dumps(row), flush=True)
    verdicts = {}
    for name in ANSWERS[1:]:
        rates = []
        for row in rows:
            cell = f"{row['change']}, {row['expert']}, {row['trajectories']}"
            rates.append(Rate(cell, row[name]["breaks"], row[name]["solved"], cell))
        verdicts[name] = size_verdict(rates)
        print(f"{name}: {verdicts[name]}")
    result = {
        **about(PACKAGES),
        "verdicts": {name: asdict(verdict) for name, verdict in verdicts.items()},
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
