"""Is a continuous environment cut finely enough? MountainCar of Gymnasium, by cells of three sizes.

    python benchmarks/cells.py

A driver who pumps, 15 % of the steps at random, is seen for 60 episodes; the dynamics are counted
from 200 episodes of another one. Every size is recovered, and `tacit.checks.resolution_check` says
whether the answer moves by more than its standard errors. Writes benchmarks/results/cells.json.
"""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium
import numpy as np

import tacit
from provenance import about
from tacit.data.sources import Discretiser, rollouts

RESULTS = Path(__file__).parent / "results" / "cells.json"
PACKAGES = ("tacit-irl", "gymnasium", "numpy", "jax")
BINS = (12, 6, 24)  # an axis: the one in use first


def driver(share: float, seed: int):
    """A policy that pushes where the car goes, and this share of its steps anywhere."""
    random = np.random.default_rng(seed)

    def drive(at: np.ndarray) -> int:
        if random.random() < share:
            return int(random.integers(3))
        return 2 if at[1] >= 0 else 0

    return drive


def task(bins: float) -> tacit.Task:
    """World, features and episodes in that many bins an axis, ends in a state of their own."""
    car = gymnasium.make("MountainCar-v0")
    sides = zip(car.observation_space.low, car.observation_space.high, strict=True)
    edges = [np.linspace(float(low), float(high), int(bins) + 1) for low, high in sides]
    cells = Discretiser.from_edges(edges, names=["position", "speed"])
    many = cells.states
    how = {"max_steps": 200, "discretiser": cells.with_ends(many)}
    seen = rollouts(car, driver(0.15, 0), episodes=60, **how)
    explored = rollouts(car, driver(0.5, 1), episodes=200, **how)
    mdp = tacit.MDP.from_transitions(explored, discount=0.97, n_states=many + 1, n_actions=3)
    places = np.vstack([cells.centres, [0.5, 0.0]])
    flag = np.exp(-8.0 * (places[:, 0] - 0.5) ** 2)
    speed = np.abs(places[:, 1]) / 0.07
    wanted = np.stack([flag, speed], axis=1)
    return tacit.Task(mdp, tacit.Features(wanted, [], ["near the flag", "speed"]), seen)


def main() -> None:
    """Fits all sizes and writes the result."""
    found = tacit.checks.resolution_check(task, BINS)
    result = {
        "bins": list(BINS),
        "states": found.states.tolist(),
        "names": list(found.names),
        "values": found.values.tolist(),
        "standard_errors": found.standard_errors.tolist(),
        "moves": found.moves.tolist(),
        "adequate": found.adequate,
        "noise": [one.temperature for one in found.recoveries],
        "sentences": [str(one) for one in found.sentences],
    }
    RESULTS.write_text(json.dumps({**about(PACKAGES), **result}, indent=1) + "\n")
    print(*found.sentences, sep="\n")


if __name__ == "__main__":
    main()
