"""Prices beside many weights at 0: do their intervals hold the truth in the published 6 x 6 grid?

    python benchmarks/zeros.py
    python benchmarks/zeros.py --draws 3    # a quick look; writes as well

18 of the 20 reward weights of `tacit_lab.worlds.six_by_six` are 0, and the expert is noisy. Every
draw simulates N trajectories of 100 steps and recovers reward and prices. Writes
benchmarks/results/zeros.json: how often the 95 % intervals of the two prices, of the prices over
the temperature, and of the prices where the temperature is given, hold the truth, with a verdict on
each by the rule of rates.py.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

import tacit
from provenance import about
from rates import coverage_verdict, rates_of
from tacit_lab import worlds

RESULTS = Path(__file__).parent / "results" / "zeros.json"
PACKAGES = ("tacit-irl", "numpy", "scipy", "jax")
SIZES = (100, 1000)


def held(intervals: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """[K] whether the intervals [K, 2] hold the truth [K]."""
    return (intervals[:, 0] <= truth) & (truth <= intervals[:, 1])


def main() -> None:
    """Runs all draws and writes the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=50)
    given = parser.parse_args()
    world, rows = worlds.six_by_six(), []
    expert = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(temperature=1.0))
    truth = expert.multipliers
    rates = {name: [] for name in ("prices", "prices over temperature", "temperature given")}
    for size in SIZES:
        prices, stable, points, ratios, given_held, given_points = [], [], [], [], [], []
        for seed in range(given.draws):
            seen = tacit.simulate(world.mdp, expert.policy, trajectories=size, steps=100, seed=seed)
            found = tacit.Likelihood(level=1.0).fit(world.mdp, world.features, seen, throw=False)
            prices.append(held(found.identification.multiplier_intervals, truth))
            stable.append(held(found.noise_prices.intervals, truth))  # the temperature is 1
            points.append(found.multipliers)
            ratios.append(found.noise_prices.estimates)
            knowing = tacit.Likelihood(level=1.0, temperature=1.0)
            known = knowing.fit(world.mdp, world.features, seen, throw=False)
            given_held.append(held(known.identification.multiplier_intervals, truth))
            given_points.append(known.multipliers)
        row = {
            "trajectories": size,
            "draws": given.draws,
            "prices_held": np.mean(prices, axis=0).tolist(),
            "prices_over_temperature_held": np.mean(stable, axis=0).tolist(),
            "median_prices": np.median(points, axis=0).tolist(),
            "median_prices_over_temperature": np.median(ratios, axis=0).tolist(),
            "prices_held_temperature_given": np.mean(given_held, axis=0).tolist(),
            "median_prices_temperature_given": np.median(given_points, axis=0).tolist(),
            "mean_prices_temperature_given": np.mean(given_points, axis=0).tolist(),
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
        for name, every in zip(rates, (prices, stable, given_held), strict=True):
            rates[name] += rates_of(f"{size} trajectories", np.array(every))
    verdicts = {name: coverage_verdict(found) for name, found in rates.items()}
    for name, verdict in verdicts.items():
        print(f"{name}: {verdict}")
    result = {
        **about(PACKAGES),
        "truth": truth.tolist(),
        "verdicts": {name: asdict(verdict) for name, verdict in verdicts.items()},
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
