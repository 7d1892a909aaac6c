"""One feature a cell: Objectworld with priors, beside IAVI and cloning; and 10 000 features.

    TACIT_DATA=folder python benchmarks/objectworld.py
    TACIT_DATA=folder python benchmarks/objectworld.py ridge 128 512
    TACIT_DATA=folder python benchmarks/objectworld.py distances 4 32 128 512
    TACIT_DATA=folder python benchmarks/objectworld.py fresh 4 32 128
    python benchmarks/objectworld.py large

Writes benchmarks/results/objectworld.json; with a prior and numbers of trajectories, these rows
alone, beside those that are there; "distances" are the four distances to objects with a smooth
prior, "fresh" new draws from the softmax of the true action values, and how often each wins.

The recorded trajectories of the world of 32 x 32 cells
(Kalweit et al. 2020), 4 to 512 of them. For each method: seconds, the mean over states of V* - V,
where V is the value of the optimum of the found reward (rewards paid by states), and the source's
own "EVD", the mean squared difference of the value of the found noisy policy from that of the
softmax of the true action values: the true optimum itself has 10.9 there. Then fits of a 100 x 100
grid, one feature a cell, with the peak of memory.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from provenance import about
from tacit_lab import families, worlds

NUMBERS = (4, 32, 128, 512)


@dataclass(frozen=True)
class Args:
    """Where to write, and how large the large world is."""

    side: int = 100
    trajectories: int = 2_000
    draws: int = 5
    out: Path = Path(__file__).parent / "results" / "objectworld.json"


class Judge:
    """Values in the true world, states paying."""

    def __init__(self, world: worlds.Recorded) -> None:
        self.mdp, worth = world.mdp, world.reward_weights * world.mdp.discount
        self.worth = np.repeat(worth[:, None], world.mdp.actions, axis=1)
        self.moves = world.mdp.dense()
        self.best = self.value(self.optimum(self.worth))
        arrival = (self.moves @ worth) + self.mdp.discount * (self.moves @ self._arrival(worth))
        soft = np.exp(arrival - arrival.max(axis=1, keepdims=True))
        self.expert = soft / soft.sum(axis=1, keepdims=True)
        self.soft = self.value(self.expert)

    def _arrival(self, worth: np.ndarray) -> np.ndarray:
        return (self.best - worth) / self.mdp.discount

    def optimum(self, reward: np.ndarray) -> np.ndarray:
        """[S, A] the best policy of a reward [S, A] without noise."""
        table = np.broadcast_to(reward.reshape(len(reward), -1), self.worth.shape)
        return tacit.solve(self.mdp, tacit.Objective(table)).policy

    def value(self, policy: np.ndarray) -> np.ndarray:
        """[S] what a policy is worth."""
        chain = np.einsum("sa,sat->st", policy, self.moves)
        system = np.eye(len(chain)) - self.mdp.discount * chain
        return np.linalg.solve(system, (policy * self.worth).sum(axis=1))

    def row(self, reward: np.ndarray | None, policy: np.ndarray) -> dict[str, float]:
        """The numbers of a found reward, and of the noisy policy found with it."""
        kept = {"evd": float(np.mean((self.soft - self.value(policy)) ** 2))}
        kept["policy_loss"] = float(np.mean(self.best - self.value(policy)))
        if reward is not None:
            lost = self.best - self.value(self.optimum(reward))
            kept["loss"] = float(np.mean(lost))
        return kept


def timed(call: Any) -> tuple[Any, dict[str, float]]:
    """What a call gives, and its seconds: on the clock, and of the processor."""
    clock, own = time.perf_counter(), time.process_time()
    found = call()
    seconds = {"seconds": time.perf_counter() - clock, "processor": time.process_time() - own}
    return found, seconds


def recorded(number: int, asked: list[str]) -> dict[str, Any]:
    """Every method on the recorded trajectories."""
    world = worlds.recorded_objectworld(number)
    judge, seen = Judge(world), world.demonstrations[0]
    rows: dict[str, Any] = {}
    uniform = np.full(judge.worth.shape, 1.0 / world.mdp.actions)
    rows["truth"] = judge.row(judge.worth, judge.optimum(judge.worth))
    rows["random actions"] = judge.row(None, uniform)
    priors = {"ridge": tacit.features.Ridge(), "smooth": tacit.features.Smooth()}
    priors["distances"] = tacit.features.Smooth()
    for name, prior in ((name, priors[name]) for name in asked):
        features = world.features
        if name == "distances":
            features = tacit.Features(world.tables["distances"].astype(float))
        estimator = tacit.Likelihood(free_reward=True, prior=prior)
        found, seconds = timed(lambda e=estimator, f=features: e.fit(world.mdp, f, seen))
        strength = float(found.history["strength"][-1])
        row = judge.row(found.objective.reward, found.solution.policy) | seconds
        row |= {"strength": strength, "held_out": float(found.history["held_out"][:-1].max())}
        given = tacit.Likelihood(free_reward=True, prior=type(prior)(strength))
        again, one = timed(lambda e=given, f=features: e.fit(world.mdp, f, seen))
        row |= {"one_fit_seconds": one["seconds"], "one_fit_processor": one["processor"]}
        row["projected_gradient"] = again.certificate.projected_gradient
        row["status"] = again.status.name
        rows[name] = row
    for name, family in (
        ("iavi", families.InverseActionValues()),
        ("cloning", tacit.Cloning()),
    ):
        found, seconds = timed(lambda f=family: f.fit(world.mdp, world.features, seen))
        noisy = world.tables["cloned_policy"].astype(float)
        noisy = noisy / noisy.sum(axis=1, keepdims=True)  # IAVI's noisy policy is the clone
        reward = found.objective.reward if name == "iavi" else None
        rows[name] = judge.row(reward, noisy) | seconds
    for name, row in rows.items():
        print(number, name, {k: round(v, 3) for k, v in row.items() if isinstance(v, float)})
    return rows


def fresh(number: int, draws: int) -> dict[str, Any]:
    """New trajectories of the recorded world: V* - V of each method, and the share of draws won.

    Ours is the optimum of the found reward: of the distances with a smooth prior from 4
    trajectories, of one feature a cell with a ridge from more. It must be better than IAVI's policy
    and than the optimum of IAVI's reward.
    """
    world = worlds.recorded_objectworld(512)
    judge, losses = Judge(world), {"ours": [], "iavi policy": [], "iavi reward": []}
    features, prior = world.features, tacit.features.Ridge()
    if number < 32:
        features = tacit.Features(world.tables["distances"].astype(float))
        prior = tacit.features.Smooth()
    for seed in range(draws):
        mdp = world.mdp
        seen = tacit.simulate(mdp, judge.expert, trajectories=number, steps=8, seed=seed)
        found = tacit.Likelihood(free_reward=True, prior=prior).fit(
            mdp, features, seen, throw=False
        )
        losses["ours"].append(judge.row(found.objective.reward, judge.expert)["loss"])
        iavi = families.InverseActionValues().fit(mdp, world.features, seen)
        clone = tacit.Cloning().fit(mdp, world.features, seen).solution.policy
        row = judge.row(iavi.objective.reward, clone)
        losses["iavi policy"].append(row["policy_loss"])
        losses["iavi reward"].append(row["loss"])
        print(number, seed, {name: round(values[-1], 3) for name, values in losses.items()})
    ours, *others = (np.array(values) for values in losses.values())
    won = float(np.mean(ours < np.minimum(*others)))
    means = {name: float(np.mean(values)) for name, values in losses.items()}
    return {"draws": draws, "mean_loss": means, "losses": losses, "share_won": won}


def large(args: Args) -> dict[str, Any]:
    """One fit of one feature a cell."""
    world = worlds.objectworld(0, size=args.side, objects=args.side * 5)
    noisy = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(temperature=0.5))
    seen = tacit.simulate(world.mdp, noisy.policy, trajectories=args.trajectories, steps=8, seed=0)
    rows = {}
    for name, prior in (
        ("ridge", tacit.features.Ridge(1.0)),
        ("smooth", tacit.features.Smooth(1.0)),
    ):
        estimator = tacit.Likelihood(free_reward=True, prior=prior)
        found, seconds = timed(lambda e=estimator: e.fit(world.mdp, world.features, seen))
        question = np.zeros(world.mdp.states)
        question[[0, 1]] = 1.0, -1.0
        ends, asked = timed(lambda f=found, q=question: f.identification.interval(q))
        rows[name] = seconds | {
            "projected_gradient": found.certificate.projected_gradient,
            "status": found.status.name,
            "one_interval_seconds": asked["seconds"],
            "interval": list(ends),
        }
        print(name, rows[name])
    rows["peak_bytes"] = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return rows | {"states": world.mdp.states, "steps": seen.steps}


def main(args: Args) -> None:
    """Measures and writes."""
    load = os.getloadavg()[0]

    def head() -> dict[str, Any]:
        return about(("tacit-irl", "numpy", "scipy", "jax", "numba"), load=load)

    result = json.loads(args.out.read_text()) if args.out.exists() else {}
    words = sys.argv[1:]
    asked = [word for word in words if not word.isdigit()] or ["ridge", "smooth"]
    if not words:
        result = {"large": large(args) | head()}
    if asked == ["large"]:
        result["large"] = large(args) | head()
        args.out.write_text(json.dumps(result, indent=1) + "\n")
        return
    if asked == ["fresh"]:
        for number in [int(word) for word in words if word.isdigit()] or NUMBERS:
            result.setdefault("fresh", {})[str(number)] = fresh(number, args.draws) | head()
            args.out.write_text(json.dumps(result, indent=1) + "\n")
        return
    for number in [int(word) for word in words if word.isdigit()] or NUMBERS:
        known = result.setdefault("recorded", {}).setdefault(str(number), {})
        known |= recorded(number, asked) | {f"made with {' and '.join(asked)}": head()}
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main(Args())
