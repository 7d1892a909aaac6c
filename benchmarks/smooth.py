"""How often bands of curves hold the truth, and how often curves of nothing are called something.

    python benchmarks/smooth.py --draws 60

Writes benchmarks/results/smooth.json. Noisy experts on a grid of 20 x 20 whose moves slip, with a
goal and four attributes of which one is a sharp step to them, one a smooth hump, one rises, and one
is nothing: all in the reward, or the step and the rising one as a cost. Curves are fitted to 1 000,
4 000 and 20 000 steps. For each: the share of pointwise 95 % bands that hold the truth at five
places of each curve, the share of simultaneous ones that hold all of it, the root mean square error
and, for the curve of nothing, how often it is called something at 5 %; with verdicts by the rule of
rates.py. Then the seconds of a fit at 1 024 states and 100 000 steps.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

import tacit
from provenance import about
from rates import coverage_verdict, rates_of, size_verdict
from tacit.inference.curves import Curve

DISCOUNT, SLIP = 0.9, 0.1
SIZES, LENGTH = (1_000, 4_000, 20_000), 50
LIKED = {
    "sharp": lambda x: -2.0 / (1.0 + np.exp(-20.0 * (x - 0.5))),
    "smooth": lambda x: 1.5 * np.exp(-((x - 0.4) ** 2) / 0.05),
    "rising": lambda x: -1.5 * x**2,
    "nothing": np.zeros_like,
}
FORMULAS = {
    "without a constraint": (
        "goal + s(sharp) + s(smooth) + s(rising, shape='decreasing') + s(nothing)",
        [],
    ),
    "with a constraint": (
        "goal + s(smooth) + s(nothing)",
        ["s(sharp) + s(rising, shape='increasing')"],
    ),
}
PLACES = np.array([0.1, 0.3, 0.5, 0.7, 0.9])  # quantiles of an attribute over the states


def field(side: int, rng: np.random.Generator) -> np.ndarray:
    """[S] a smooth random attribute from 0 to 1."""
    rows, columns = np.indices((side, side))
    waves = rng.normal(scale=12.0 / side, size=(8, 2))
    shifts = rng.uniform(0.0, 2.0 * np.pi, size=8)
    heights = np.cos(
        waves[:, 0, None, None] * rows + waves[:, 1, None, None] * columns + shifts[:, None, None]
    ).sum(axis=0)
    ranks = heights.ravel().argsort().argsort()  # every value as often as any other
    return ranks / ranks.max()


def grid(side: int) -> tacit.MDP:
    """A grid with four moves, of which some slip."""
    rows, columns = np.divmod(np.arange(side * side), side)
    each = []
    for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        there = (rows + down).clip(0, side - 1) * side + (columns + right).clip(0, side - 1)
        each.append(there)
    to = np.stack(each, axis=1)
    chances = np.full((len(to), 4, 4), SLIP / 4) + (1.0 - SLIP) * np.eye(4)
    following = np.repeat(to[:, None], 4, axis=1)
    start = np.full(len(to), 1.0 / len(to))
    return tacit.MDP(tacit.Successors(following, chances), start, DISCOUNT)


def drawn(side: int, steps: int, seed: int) -> tuple[tacit.MDP, dict, tacit.Demonstrations]:
    """A world, its attributes, and what an expert did."""
    rng, mdp = np.random.default_rng([side, seed]), grid(side)
    rows, columns = np.divmod(np.arange(side * side), side)
    middle = rng.uniform(0.2 * side, 0.8 * side, size=2)
    far = ((rows - middle[0]) ** 2 + (columns - middle[1]) ** 2) / side**2
    table = {"goal": np.exp(-10.0 * far), **{name: field(side, rng) for name in LIKED}}
    wanted = 2.0 * table["goal"] + sum(made(table[name]) for name, made in LIKED.items())
    solver = tacit.SoftDual(temperature=1.0)
    expert = tacit.solve(mdp, tacit.Objective(wanted), solver=solver)
    many = steps // LENGTH
    return (
        mdp,
        table,
        tacit.simulate(mdp, expert.policy, trajectories=many, steps=LENGTH, seed=seed),
    )


def truth_of(curve: Curve, made: Callable, values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """[n] the true curve as it is reported: less its mean, and that of a cost turned."""
    return (-1.0 if curve.block else 1.0) * (made(at) - made(values).mean())


def judged(found: tacit.Recovery, table: dict) -> dict[str, dict[str, np.ndarray]]:
    """What each curve tells: whether bands hold the truth, its error, whether it is something."""
    told = {}
    for curve in found.curves:
        name = curve.variables[0]
        values, made = table[name], LIKED[name]
        places = np.quantile(values, PLACES)
        here, whole = curve.at(places), curve.at(values, simultaneous=True)
        truth, everywhere = (truth_of(curve, made, values, at) for at in (places, values))
        told[name] = {
            "held": (here.lower <= truth) & (truth <= here.upper),
            "all held": np.all((whole.lower <= everywhere) & (everywhere <= whole.upper)),
            "error": np.sqrt(np.mean((whole.values - everywhere) ** 2)),
            "something": curve.p_value <= 0.05,
        }
    return told


def seconds(seed: int = 0) -> float:
    """Of a fit of three curves at 1 024 states and 100 000 steps, the second of two."""
    mdp, table, seen = drawn(32, 100_000, seed)
    formula = "goal + s(sharp) + s(smooth) + s(nothing)"
    features = tacit.Features.from_formula(formula, data=table)
    took = 0.0
    for _ in range(2):
        begun = time.perf_counter()
        tacit.Likelihood().fit(mdp, features, seen, throw=False)
        took = time.perf_counter() - begun
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=60, help="of each cell")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/smooth.json")
    asked = parser.parse_args()
    cells, pointwise, whole, sizes = [], [], [], []
    for steps in SIZES:
        told = {kind: [] for kind in FORMULAS}
        for kind, (reward, costs) in FORMULAS.items():
            for draw in range(asked.draws):
                mdp, table, seen = drawn(20, steps, [*FORMULAS].index(kind) * 10_000 + draw)
                features = tacit.Features.from_formula(reward, costs, data=table)
                found = tacit.Likelihood().fit(mdp, features, seen, throw=False)
                told[kind].append(judged(found, table))
        for kind, draws in told.items():
            for name in LIKED:
                here = f"{name}, {steps} steps, {kind}"
                each = {key: np.array([one[name][key] for one in draws]) for key in draws[0][name]}
                pointwise += rates_of(here, each["held"])
                whole += rates_of(here, each["all held"])
                sizes += rates_of(here, each["something"]) if name == "nothing" else []
                cell = {"curve": name, "steps": steps, "kind": kind, "draws": asked.draws}
                cell |= {key: float(np.mean(values)) for key, values in each.items()}
                cells.append(cell)
                print(here, {key: round(cell[key], 3) for key in each}, flush=True)
    verdicts = {
        "pointwise bands": coverage_verdict(pointwise),
        "simultaneous bands": coverage_verdict(whole),
        "curves of nothing called something": size_verdict(sizes),
    }
    for name, verdict in verdicts.items():
        print(f"{name}: {verdict}")
    took = seconds()
    print(f"1 024 states, 100 000 steps, three curves: {took:.2f} s")
    body = about(["tacit-irl", "numpy", "scipy"]) | {
        "cells": cells,
        "verdicts": {name: asdict(verdict) for name, verdict in verdicts.items()},
        "seconds of a fit": took,
    }
    asked.out.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
