"""Published methods against the numbers that their own repositories ship.

    TACIT_DATA=... python benchmarks/families.py

`LikeliestConstraints` on the ten sets of Scobee and Sastry (2020): wrong of found and recall, by
number of demonstrations. `InverseActionValues` on Objectworld (Kalweit et al. 2020): the "expected
value difference" as their evaluation computes it, with its own stopping rules, and the mean loss of
value V* - V that it hides, of the noisy policy, of the clone and of the optimum of the reward.
Needs the recordings. Writes benchmarks/results/families.json.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np

import tacit
from provenance import about
from tacit_lab import families, worlds

RESULTS = Path(__file__).parent / "results" / "families.json"
PACKAGES = ("tacit-irl", "numpy", "scipy", "jax")
ROWS = {
    1: (0.314, 0.678),
    5: (0.121, 0.756),
    10: (0.039, 0.767),
    20: (0.0, 0.778),
    100: (0.0, 0.778),
}
DIFFERENCES = {4: 15.312, 32: 8.817, 128: 2.606, 512: 2.045}
DISCOUNT = 0.9


def likeliest() -> dict[str, dict[str, float]]:
    """Wrong of found and recall on the ten sets, ours and as published."""
    world = worlds.recorded_nine_by_nine()
    true = set(np.array(world.features.cost_names[0])[world.cost_weights[0] > 0])
    method = families.LikeliestConstraints(world.reward_weights, 1.0, groups=worlds.COLOURS)
    rows = {}
    for n, (wrong, recall) in ROWS.items():
        start, found = time.perf_counter(), []
        for seen in world.demonstrations:
            few = seen.select(np.arange(seen.episodes) < n)
            names = {one.name for one in method.fit(world.mdp, world.features, few).forbidden}
            found.append([len(names - true) / max(len(names), 1), len(names & true) / len(true)])
        ours = np.mean(found, axis=0)
        rows[str(n)] = {
            "wrong_of_found": float(ours[0]),
            "published_wrong_of_found": wrong,
            "recall": float(ours[1]),
            "published_recall": recall,
            "seconds_a_set": (time.perf_counter() - start) / len(world.demonstrations),
        }
    return rows


def evaluated(moves: np.ndarray, worth: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """[S] values of a policy by sweeps in place until none moves by .001, as the source does."""
    chain, values = np.einsum("sa,sat->st", policy, moves), np.zeros(len(worth))
    while True:
        moved = 0.0
        for s in range(len(worth)):
            new = worth[s] + DISCOUNT * chain[s] @ values
            moved, values[s] = max(moved, abs(new - values[s])), new
        if moved < 1e-3:
            return values


def action_values() -> dict[str, dict[str, float]]:
    """The value differences of Objectworld, ours and as shipped."""
    rows = {}
    for n, shipped in DIFFERENCES.items():
        world = worlds.recorded_objectworld(n)
        mdp, moves, worth = world.mdp, world.mdp.dense(), DISCOUNT * world.reward_weights
        start = time.perf_counter()
        found = families.InverseActionValues().fit(mdp, world.features, world.demonstrations[0])
        seconds = time.perf_counter() - start
        values = np.zeros(len(worth))
        while True:  # value iteration in place until no state moves by .01, as the source does
            moved = 0.0
            for s in range(len(worth)):
                new = (moves[s] @ (worth + DISCOUNT * values)).max()
                moved, values[s] = max(moved, abs(new - values[s])), new
            if moved <= 1e-2:
                break
        choice = moves @ (worth + DISCOUNT * values)
        choice = np.exp(choice - choice.max(axis=1, keepdims=True))
        choice /= choice.sum(axis=1, keepdims=True)
        noisy = families.choice_probabilities(mdp, found)
        target, ours = (evaluated(moves, worth, policy) for policy in (choice, noisy))
        best = tacit.solve(mdp, world.truth).values

        def loss(policy: np.ndarray, mdp=mdp, world=world, best=best) -> float:
            from tacit.forward.policies import policy_values

            # In the worth of the cells that are passed, over which the weights are larger.
            gone = best - policy_values(mdp, policy, world.truth.reward)
            return DISCOUNT * float(gone.mean())

        clone = tacit.Cloning().fit(mdp, world.features, world.demonstrations[0])
        rows[str(n)] = {
            "difference": float(np.square(target - ours).mean()),
            "shipped_difference": shipped,
            "mean_loss_of_noisy_policy": loss(noisy),
            "mean_loss_of_clone": loss(clone.solution.policy),
            "mean_loss_of_optimum_of_reward": loss(found.solution.policy),
            "seconds": seconds,
        }
    return rows


def main() -> None:
    """Measures both and writes the result."""
    result = {
        "likeliest_constraints": likeliest(),
        "inverse_action_values": action_values(),
    }
    result = about(PACKAGES) | result
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps({k: v for k, v in result.items() if k != "modules"}, indent=2))


if __name__ == "__main__":
    main()
