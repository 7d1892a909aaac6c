"""What the published worlds ask of their methods, on fresh draws: walls, prices, safe sets.

    python benchmarks/published.py
    python benchmarks/published.py walls prices      # these parts alone

walls: `Forbidden` on walls 1 to 4 with noisy demonstrators, reward and noise known, 20 and 60
episodes: how many of the forbidden cells the data can tell at all (in the world that lacks all the
others), how many could be entered, how many are found, how many findings are wrong, and the
violation and the feasible reward of the best policy where what was found is shut.

prices: the 6 x 6 grid of Schlaginhaufen and Kamgarpour with 1000 x 100 steps and the noise given:
the two prices by the step likelihood, draw by draw, beside those with the reward known as well,
which is as well as they can be known.

tasks: the 3 x 3 grid of Lindner et al.: regret of `SafeSet`, in units of the reward and as a share
of best less worst (which is published), and whether a budget is broken, from n demonstrators whose
policies are known (as in their code) or who were seen 200 x 60 steps, without and with a
`confidence` of .95; for tasks like theirs, a new reward, new dynamics (random actions .2 while
learning). The tasks of a draw are the same however many demonstrators there are, as in their code,
so that regret can only fall with their number. Their features add up to a constant, so nothing lies
below the hull: ours is the best policy of their safe set, which their code approaches from within.

Writes benchmarks/results/published.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from provenance import about
from rates import Rate, size_verdict
from tacit_lab import families, transfers, worlds

RESULTS = Path(__file__).parent / "results" / "published.json"
PACKAGES = ("tacit-irl", "numpy", "scipy", "jax")
NOISE, WALL_DRAWS = 0.002, 5
PRICE_DRAWS, TRUE_PRICES = 20, (31.114, 5.033)
TASK_DRAWS, TASKS, DEMONSTRATORS = 12, 3, (1, 2, 4, 10, 30)
SURE = 0.95


def walls() -> dict[str, dict[str, float]]:
    """Cells that can be told, that are found and that are wrong, by setting and episodes."""
    rows = {}
    for number in (1, 2, 3, 4):
        world = worlds.walls(number)
        mdp, cells = world.mdp, np.flatnonzero(world.cost_weights[0] > 0)
        true = {f"state {s}" for s in cells}
        shut = np.isin(np.arange(mdp.states), cells).astype(float)
        left = mdp.available & (mdp.expected_next(shut) == 0)
        left = np.where(left.any(axis=1, keepdims=True), left, mdp.available)
        plain = tacit.Objective(world.truth.reward)
        policy = tacit.SoftDual(NOISE).solve(replace(mdp, available=left), plain).policy
        beside = mdp.dense()[shut == 0][:, :, cells].any(axis=(0, 1))
        for episodes in (20, 60):
            drawn = []
            for seed in range(WALL_DRAWS):
                seen = tacit.simulate(mdp, policy, trajectories=episodes, steps=200, seed=seed)
                estimator = tacit.Forbidden([1.0], NOISE, candidates=("states",))
                found = estimator.fit(mdp, world.features, seen)
                names = {one.name for one in found.forbidden}
                told = transfers.decidable(estimator, mdp, world.features, seen, true)
                suite = transfers.transfer_suite(mdp, world.truth, found)
                drawn.append(
                    {
                        "decidable": len(told),
                        "decidable_found": len(names & told),
                        "found": len(names & true),
                        "wrong": len(names - true),
                        "violation": float(suite.violations[0]),
                        "feasible_reward": transfers.feasible_share(mdp, world.truth, suite.policy),
                    }
                )
            means = {name: float(np.mean([row[name] for row in drawn])) for name in drawn[0]}
            rows[f"walls {number}, {episodes} episodes"] = {
                "forbidden": len(true),
                "beside_what_is_free": int(beside.sum()),
                "draws": WALL_DRAWS,
            } | means
    return rows


def prices() -> dict[str, object]:
    """Prices in units of the noise, draw by draw, with the reward unknown and known."""
    world = worlds.six_by_six()
    expert = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(temperature=1.0))
    assert np.allclose(expert.multipliers, TRUE_PRICES, atol=5e-4)
    methods = {
        "Likelihood": tacit.Likelihood(temperature=1.0),
        "ConstraintOnly": tacit.ConstraintOnly(world.reward_weights, 1.0),
    }
    found: dict[str, list[list[float]]] = {name: [] for name in methods}
    for seed in range(PRICE_DRAWS):
        seen = tacit.simulate(world.mdp, expert.policy, trajectories=1000, steps=100, seed=seed)
        for name, method in methods.items():
            recovery = method.fit(world.mdp, world.features, seen, throw=False)
            found[name].append((recovery.multipliers / recovery.temperature).tolist())
    rows: dict[str, object] = {"true": expert.multipliers.tolist(), "draws": PRICE_DRAWS}
    for name, drawn in found.items():
        relative = np.array(drawn) / expert.multipliers - 1.0
        rows[name] = {
            "median": np.median(drawn, axis=0).tolist(),
            "mean": np.mean(drawn, axis=0).tolist(),
            "relative_error_of_the_median": np.median(relative, axis=0).tolist(),
            "spread_of_a_draw": relative.std(axis=0, ddof=1).tolist(),
            "drawn": drawn,
        }
    return rows


def safe(
    seed: int, many: int, change: str, seen: bool, sure: float | None
) -> list[dict[str, float]]:
    """Regret of the safe policies of new tasks, in the reward and normalised, and their excess."""
    drawn = worlds.three_by_three(seed, random_actions=0.2 if change == "dynamics" else 0.0)
    place = worlds.three_by_three(seed)  # its moves are sure; the costs are those drawn
    rewards = worlds.demonstrator_rewards(drawn, TASKS + many, seed=seed)
    tasks, shown = rewards[:TASKS], []
    for k, weights in enumerate(rewards[TASKS:]):
        aim = drawn.features.objective(weights, drawn.cost_weights, drawn.truth.budgets)
        policy = tacit.solve(drawn.mdp, aim).policy
        known = (drawn.mdp, drawn.features, policy)
        if seen:
            walks = tacit.simulate(
                drawn.mdp, policy, trajectories=200, steps=60, seed=1000 * seed + k
            )
            known = tacit.Task(drawn.mdp, drawn.features, walks)
        shown.append(known)
    if change == "reward":
        tasks = worlds.demonstrator_rewards(drawn, TASKS, seed=seed + 5000, same=False)
    rows = []
    for weights in tasks:
        truth, least = (
            place.features.objective(sign * weights, drawn.cost_weights, drawn.truth.budgets)
            for sign in (1.0, -1.0)
        )
        reward, costs = truth.tables(place.mdp)
        best, worst = tacit.solve(place.mdp, truth).value, -tacit.solve(place.mdp, least).value
        method = families.SafeSet(weights, confidence=sure)
        told = method.solve(place.mdp, place.features, shown)
        found, kinds = told.solution, [one.kind for one in told.findings]
        regret = float(best - (reward * found.visitation).sum())
        over = np.tensordot(costs, found.visitation, 2) - drawn.truth.budgets
        share = regret / max(float(best - worst), 1e-12)
        rows.append(
            {
                "draw": seed,
                "regret": regret,
                "share": share,
                "excess": float(over.max()),
                "said": float(tacit.Kind.UNATTAINABLE in kinds),
            }
        )
    return rows


def tasks() -> dict[str, dict[str, Any]]:
    """Regret and safety by change and number of demonstrators."""
    rows = {}
    known = [(change, False, None) for change in ("same", "reward", "dynamics")]
    for change, seen, sure in [*known, ("reward", True, None), ("reward", True, SURE)]:
        for many in DEMONSTRATORS:
            drawn = [row for s in range(TASK_DRAWS) for row in safe(s, many, change, seen, sure)]
            table = {name: np.array([row[name] for row in drawn]) for name in drawn[0]}
            of_draw = table["share"].reshape(TASK_DRAWS, -1).mean(axis=1)
            who = f"{many} {'demonstrator' if many == 1 else 'demonstrators'}"
            name = f"{change}, {who}{' seen 200 x 60 steps' if seen else ''}"
            name += f", confidence {sure}" if sure else ""
            # The tasks of a draw have one safe set: a draw is unsafe where any of them is.
            unsafe = (table["excess"] > 1e-5).reshape(TASK_DRAWS, -1).any(axis=1)
            rows[name] = {
                "draws": TASK_DRAWS,
                "tasks": len(drawn),
                "mean_regret": float(table["regret"].mean()),
                "median_regret": float(np.median(table["regret"])),
                "mean_share": float(of_draw.mean()),
                "error_of_share": float(of_draw.std(ddof=1) / np.sqrt(TASK_DRAWS)),
                "unsafe_draws": int(unsafe.sum()),
                "unsafe": int((table["excess"] > 1e-5).sum()),
                "largest_excess": float(table["excess"].max()),
                "nobody_so_sure": int(table["said"].sum()),
            }
    return rows


def safety(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Verdict on draws that are unsafe although a confidence was asked for."""
    sure = {name: row for name, row in rows.items() if "confidence" in name}
    rates = [Rate(name, row["unsafe_draws"], row["draws"], name) for name, row in sure.items()]
    verdict = size_verdict(rates, 1.0 - SURE)
    print(f"unsafe where a confidence was asked for: {verdict}")
    return asdict(verdict)


PARTS: dict[str, Callable[[], Any]] = {"walls": walls, "prices": prices, "tasks": tasks}


def main() -> None:
    """Measures what was asked for and writes it beside what is there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all where none is given")
    asked = parser.parse_args().parts or list(PARTS)
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in asked:
        start = time.process_time()
        found = PARTS[name]()
        seconds = time.process_time() - start
        kept[name] = about(PACKAGES) | {"processor_seconds": seconds, "rows": found}
        if name == "tasks":
            kept[name]["verdict"] = safety(found)
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
        print(name, json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
