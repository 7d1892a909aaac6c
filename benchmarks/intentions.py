"""Intentions on demonstrators whose truth is known: who follows what when, and one called two.

    python benchmarks/intentions.py
    python benchmarks/intentions.py --draws 3 --alone 3    # a quick look; writes as well

Random worlds of 12 states, 3 actions and 3 features; 20 trajectories of 80 steps. Two rewards that
last 5, 15 or 50 steps: the share of steps assigned right among those whose intention the true
policies and chances are sure of by .9, by a model that has to find all of them; how often 95 %
intervals hold the true coefficients, the true share of the steps and the true dwell time. One
reward: how often more than one intention is taken (count=None), by the rule of rates.py.
Writes benchmarks/results/intentions.json.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

import tacit
from provenance import about
from rates import coverage_verdict, rates_of, size_verdict

RESULTS = Path(__file__).parent / "results" / "intentions.json"
PACKAGES = ("tacit-irl", "numpy", "scipy", "jax")
TRAJECTORIES, STEPS, SURE, DWELLS = 20, 80, 0.9, (5.0, 15.0, 50.0)


def world_of(seed: int) -> tacit.worlds.World:
    """One random world."""
    return tacit.worlds.random(2000 + seed, states=12, actions=3, constraints=0, features=3)


def policy(world: tacit.worlds.World, theta: np.ndarray) -> np.ndarray:
    """[S, A] the noisy expert with these coefficients, in units of its noise."""
    reward = world.features.objective(theta, [], []).reward
    solver = tacit.SoftDual(temperature=1.0)
    return tacit.solve(world.mdp, tacit.Objective(reward), solver=solver).policy


def walks(
    world: tacit.worlds.World, policies: list[np.ndarray], dwell: float, seed: int
) -> tuple[tacit.Demonstrations, np.ndarray]:
    """(demonstrations, [N] the true intention of each step)."""
    mdp, rng, rows = world.mdp, np.random.default_rng(seed), []
    law = np.stack([mdp.expected_next(one) for one in np.eye(mdp.states)], axis=2)
    for _ in range(TRAJECTORIES):
        state, who = rng.choice(mdp.states, p=mdp.initial), int(rng.integers(len(policies)))
        for step in range(STEPS):
            if step and len(policies) > 1 and rng.random() < 1.0 / dwell:
                who = 1 - who
            action = rng.choice(mdp.actions, p=policies[who][state])
            rows.append((state, action, who))
            state = rng.choice(mdp.states, p=law[state, action])
    states, actions, who = np.array(rows).T
    ends = np.arange(TRAJECTORIES + 1) * STEPS
    return tacit.Demonstrations(states, actions, ends), who


def sure(seen: tacit.Demonstrations, policies: list[np.ndarray], dwell: float) -> np.ndarray:
    """[N] bool, the steps whose intention the truth is sure of: one pass forward, one back."""
    chances = np.stack([p[seen.states, seen.actions] for p in policies], axis=1)
    stay = 1.0 - 1.0 / dwell
    table, known = np.array([[stay, 1 - stay], [1 - stay, stay]]), np.empty(chances.shape)
    for begin, end in zip(seen.offsets[:-1], seen.offsets[1:], strict=True):
        ahead = np.full((end - begin, 2), 0.5)
        for n in range(end - begin):
            before = np.full(2, 0.5) if n == 0 else ahead[n - 1] @ table
            ahead[n] = before * chances[begin + n]
            ahead[n] /= ahead[n].sum()
        back = np.ones(2)
        for n in range(end - begin - 1, -1, -1):
            known[begin + n] = ahead[n] * back / (ahead[n] * back).sum()
            back = table @ (back * chances[begin + n])
            back /= back.sum()
    return known.max(axis=1) > SURE


def two_intentions(seed: int, dwell: float) -> dict[str, object]:
    """One draw of two rewards that switch."""
    world, rng = world_of(seed), np.random.default_rng(seed)
    theta = 9.0 * rng.dirichlet(np.ones(3))
    truth = [theta, np.roll(theta, 1)]
    policies = [policy(world, one) for one in truth]
    seen, who = walks(world, policies, dwell, seed)
    estimator = tacit.Intentions(count=2, free_reward=True, seed=seed)
    found = tacit.recover(world.mdp, world.features, seen, estimator=estimator, throw=False)
    order = np.array([0, 1] if (found.followed == who).mean() >= 0.5 else [1, 0])
    clear, right = sure(seen, policies, dwell), found.followed == order[who]
    held = []
    for k, one in zip(order.tolist(), truth, strict=True):
        ends = found.intentions[k].parameters.intervals
        # Over random worlds a constant of the reward may be free: what is infinite holds it.
        held.append(((ends[:, 0] <= one) & (one <= ends[:, 1])).tolist())
    share = float((who == 0).mean())
    low, high = found.share_intervals[order[0]]
    dwells = found.dwell_intervals[0]
    return {
        "clear": int(clear.sum()),
        "right": int(right[clear].sum()),
        "coefficients": held,
        "share": bool(low <= share <= high),
        "dwell": ((dwells[:, 0] <= dwell) & (dwell <= dwells[:, 1])).tolist(),
        "converged": bool(found.status is not tacit.RecoveryStatus.NOT_CONVERGED),
    }


def taken(seed: int) -> int:
    """The number of intentions that is taken where there is one."""
    world, rng = world_of(seed), np.random.default_rng(seed)
    seen, _ = walks(world, [policy(world, 9.0 * rng.dirichlet(np.ones(3)))], 1.0, seed)
    estimator = tacit.Intentions(count=None, most=2, starts=3, free_reward=True, seed=seed)
    found = tacit.recover(world.mdp, world.features, seen, estimator=estimator, throw=False)
    return len(found.intentions)


def main() -> None:
    """Runs all draws and writes the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=30, help="of each dwell time")
    parser.add_argument("--alone", type=int, default=60, help="draws of one reward")
    given = parser.parse_args()
    two, rates = {}, []
    for dwell in DWELLS:
        draws = [two_intentions(seed, dwell) for seed in range(given.draws)]
        for name in ("coefficients", "share", "dwell"):
            held = np.array([np.ravel(one[name]) for one in draws], float)
            rates += rates_of(f"{name}, {dwell:g} steps", held)
        clear, right = (sum(one[name] for one in draws) for name in ("clear", "right"))
        each = [one["right"] / max(one["clear"], 1) for one in draws]
        two[f"{dwell:g}"] = {
            "draws": given.draws,
            "clear": clear,
            "right": right,
            "share_right": right / clear,
            "least_share_right": min(each),
            "not_converged": sum(not one["converged"] for one in draws),
        }
        print(dwell, two[f"{dwell:g}"], flush=True)
    counts = [taken(seed) for seed in range(given.alone)]
    coverage = coverage_verdict(rates)
    size = size_verdict(rates_of("one called two", np.array(counts) > 1))
    print(coverage, size, sep="\n")
    result = {
        **about(PACKAGES),
        "two_intentions": two,
        "coverage": asdict(coverage),
        "one_called_two": {"draws": given.alone, "two": sum(n > 1 for n in counts)},
        "verdict_of_one_called_two": asdict(size),
    }
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
