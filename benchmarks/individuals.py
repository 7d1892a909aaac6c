"""How often intervals of means and spreads of individuals hold the truth.

    python benchmarks/individuals.py
    python benchmarks/individuals.py --draws 5    # a quick look; writes as well

A small world in which every individual has coefficients of its own: two of three vary, one is the
same for all. Few individuals and many, seen for long and for a short time. Asked are the means,
the spreads, the coefficients of single individuals, and how often the test says that the third
coefficient varies. Beside it, for the same data: how often clustered intervals of the pooled fit
hold what such fits are about, the fit to 1200 individuals. Writes
benchmarks/results/individuals.json, with verdicts by the rule of rates.py.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from provenance import about
from rates import coverage_verdict, rates_of

RESULTS = Path(__file__).parent / "results" / "individuals.json"
PACKAGES = ("tacit-irl", "numpy", "scipy")
MEAN, SPREAD = np.array([1.0, 0.5, 0.8]), np.array([0.5, 0.0, 0.3])
# Individuals, and steps of each.
CELLS = ((12, 100), (12, 400), (30, 100))
LENGTH = 10
QUESTIONS = ("means", "spreads", "individuals", "clustered")
# Large herds, and individuals in each, whose pooled fits clustered intervals are about.
HERDS, MANY = 4, 300


def herd(many: int, steps: int, seed: int) -> tuple[tacit.Recovery, np.ndarray]:
    """What was recovered from so many animals together, and their own coefficients."""
    fixed, rng = np.random.default_rng(5), np.random.default_rng(seed)
    moves, phi = fixed.dirichlet(np.ones(10), (10, 3)), fixed.normal(size=(10, 3, 2))
    cost = 2.0 * fixed.uniform(size=(10, 3, 1))
    mdp = tacit.MDP(moves, np.ones(10) / 10, 0.7)
    features = tacit.Features(phi, [cost], ["a", "b"], [["c"]])
    own = MEAN + SPREAD * rng.normal(size=(many, 3))
    parts = []
    for one, theta in enumerate(own):
        table = phi @ theta[:2] - cost[..., 0] * theta[2]
        policy = tacit.SoftDual(1.0).solve(mdp, tacit.Objective(table)).policy
        about = {"trajectories": steps // LENGTH, "steps": LENGTH, "seed": 1000 * seed + one}
        parts.append(tacit.simulate(mdp, policy, **about))
    seen = parts[0]
    for part in parts[1:]:
        seen = seen + part
    who = [f"{one:02d}" for one in range(many)]  # in the order of their names
    seen = replace(seen, individuals=np.repeat(who, steps // LENGTH))
    estimator = tacit.Likelihood(level=1.0)
    return tacit.recover(mdp, features, seen, estimator=estimator, throw=False), own


def pooled(steps: int) -> np.ndarray:
    """[3] coefficients of the pooled fit to very many individuals."""
    fits = [herd(MANY, steps, 90_000 + k)[0].parameters.estimates for k in range(HERDS)]
    return np.mean(fits, axis=0)


def held(many: int, steps: int, seed: int, about: np.ndarray) -> dict[str, Any]:
    """Question -> which intervals hold the truth; and which spreads the test finds."""
    recovery, own = herd(many, steps, seed)
    told = tacit.checks.individuals(recovery)

    def inside(ends: np.ndarray, truth: np.ndarray) -> np.ndarray:
        return (ends[..., 0] <= truth) & (truth <= ends[..., 1])

    return {
        "means": inside(told.intervals, MEAN),
        "spreads": inside(told.spread_intervals, SPREAD),
        "individuals": inside(told.estimate_intervals, own).ravel(),
        "found": told.spread_p_values < 0.05,
        "clustered": inside(recovery.parameters.intervals, about),
        "spread": told.spreads,
        "mean": told.means,
    }


def main() -> None:
    """Runs all draws and writes the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=100)
    given = parser.parse_args()
    rates = {name: [] for name in QUESTIONS}
    rows = []
    for many, steps in CELLS:
        about_all = pooled(steps)
        every = [held(many, steps, seed, about_all) for seed in range(given.draws)]
        cell = f"{many} individuals of {steps} steps"
        row: dict[str, Any] = {"cell": cell, "draws": given.draws}
        for name in QUESTIONS:
            table = np.array([one[name] for one in every])
            row[name] = float(table.mean())
            if name != "individuals":  # they share the doubt about the means
                rates[name] += rates_of(cell, table)
        for name in ("found", "spread", "mean"):
            row[name] = np.mean([one[name] for one in every], axis=0).tolist()
        rows.append(row)
        print(json.dumps(row), flush=True)
    verdicts = {name: coverage_verdict(found) for name, found in rates.items() if found}
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
