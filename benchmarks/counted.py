"""How often intervals hold the truth where the dynamics were counted, by number of counted steps.

    python benchmarks/counted.py --draws 60

Writes benchmarks/results/counted.json. Noisy experts that the model describes, on three families of
12 states and 3 actions: `rnd`, three random next states a pair; `ring`, steps to either side, or
none, that slip; `b5`, five random next states. Their worlds are counted from 150 to 5 000 steps of
states and actions at random. For each: the share of 95 % intervals that hold the truth, of
coefficients, of a reward weight, of the price over the noise, the price and the budget, with a
verdict by the rule of rates.py over the cells; the medians of what errors grow by, attenuation,
bias and share of unseen next states; and the same intervals with the dynamics taken for known.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import numpy as np

import tacit
from provenance import about
from rates import coverage_verdict, rates_of

STATES, ACTIONS, DISCOUNT = 12, 3, 0.9
THETA = np.array([2.0, 1.0, 1.5])  # two reward features, one cost
FAMILIES, STEPS = ("rnd", "ring", "b5"), (150, 300, 1000, 5000)
NUMBERS = ("coefficients", "reward weight", "price over noise", "price", "budget")
TOLD = ("growth", "attenuation", "bias", "unseen")


def world(family: str, rng: np.random.Generator) -> tacit.MDP:
    """A world of the family."""
    moves = np.zeros((STATES, ACTIONS, STATES))
    for s, a in np.ndindex(STATES, ACTIONS):
        if family == "ring":
            near = (s + np.array([-1, 0, 1])) % STATES
            moves[s, a, near] = 0.8 * (np.arange(3) == a) + 0.2 * rng.dirichlet(np.ones(3))
        else:
            many = 5 if family == "b5" else 3
            moves[s, a, rng.choice(STATES, many, replace=False)] = rng.dirichlet(np.ones(many))
    return tacit.MDP(moves, np.full(STATES, 1.0 / STATES), DISCOUNT)


def counted(mdp: tacit.MDP, steps: int, rng: np.random.Generator) -> tacit.MDP:
    """The world as known from so many steps."""
    states, actions = rng.integers(STATES, size=steps), rng.integers(ACTIONS, size=steps)
    chances = mdp.dense()[states, actions].cumsum(axis=1)
    following = (chances < rng.random((steps, 1))).sum(axis=1).clip(max=STATES - 1)
    shape = {"n_states": STATES, "n_actions": ACTIONS}
    return tacit.MDP.from_transitions(
        states, actions, following, **shape, initial=mdp.initial, discount=DISCOUNT
    )


def within(ends: np.ndarray, truth: float) -> float:
    """1 where the interval holds the truth; NaN where there is none."""
    low, high = ends
    return np.nan if np.isnan(low) else float(low <= truth <= high)


def held(found: tacit.Recovery, spent: float) -> dict[str, list[float]]:
    """Which intervals hold the truth; what the true expert spends is `spent`."""
    known, noise = found.identification, found.noise_prices
    own = [within(*pair) for pair in zip(found.parameters.intervals, THETA, strict=True)]
    return {
        "coefficients": own,
        "reward weight": [within(known.reward_intervals[0], THETA[0] / THETA[:2].sum())],
        "price over noise": [within(noise.intervals[0], THETA[2])],
        "price": [within(known.multiplier_intervals[0], THETA[2] / THETA[:2].sum())],
        "budget": [within(known.budget_intervals[0], spent)],
    }


def drawn(family: str, steps: int, draws: int) -> Iterator[tuple[dict, dict, list[float]]]:
    """What holds, counted and with the dynamics taken for known, and what is told of them."""
    for seed in range(draws):
        rng = np.random.default_rng([FAMILIES.index(family), seed])
        mdp = world(family, rng)
        features = tacit.Features(
            rng.random((STATES, ACTIONS, 2)), [rng.random((STATES, ACTIONS, 1))]
        )
        table = features.reward @ THETA[:2] - features.costs[0] @ THETA[2:]
        expert = tacit.solve(mdp, tacit.Objective(table), solver=tacit.SoftDual(temperature=1.0))
        seen = tacit.simulate(mdp, expert.policy, trajectories=60, steps=50, seed=seed)
        known = counted(mdp, steps, np.random.default_rng([steps, seed]))
        spent = float((expert.visitation * features.costs[0][..., 0]).sum())
        results = [
            tacit.Likelihood(level=1.0).fit(given, features, seen, throw=False)
            for given in (known, replace(known, evidence=None))
        ]
        told = results[0].identification.dynamics
        blank = [np.nan] * len(TOLD)
        values = blank if told is None else [getattr(told, name) for name in TOLD]
        yield held(results[0], spent), held(results[1], spent), values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=60, help="of each cell")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/counted.json")
    asked = parser.parse_args()
    cells, rates = [], {name: [] for name in NUMBERS}
    for family, steps in product(FAMILIES, STEPS):
        ours, plain, told = zip(*drawn(family, steps, asked.draws), strict=True)
        cell = {"family": family, "steps": steps, "draws": asked.draws}
        for name in NUMBERS:
            table = np.array([one[name] for one in ours])
            rates[name] += rates_of(f"{family} {steps}", table)
            cell[name] = float(np.nanmean(table))
            cell[f"{name}, dynamics taken for known"] = float(
                np.nanmean([one[name] for one in plain])
            )
        cell |= dict(zip(TOLD, np.nanmedian(told, axis=0).tolist(), strict=True))
        cells.append(cell)
        shares = "  ".join(f"{name} {cell[name]:.3f}" for name in NUMBERS)
        print(f"{family:4} {steps:5}  {shares}", flush=True)
    verdicts = {name: coverage_verdict(found) for name, found in rates.items()}
    for name, verdict in verdicts.items():
        print(f"{name}: {verdict}")
    body = about(["tacit-irl", "numpy", "scipy"]) | {
        "cells": cells,
        "verdicts": {name: asdict(verdict) for name, verdict in verdicts.items()},
    }
    asked.out.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
