"""Recovery without a table: rows of worlds whose truth is known, fitted by projected likelihood.

    python benchmarks/continuous.py --worlds navigation --draws 20 --rows 2000

Every world draws rows of a noisy expert, recovers from them with `tacit.Logged`, and prints the
relative L1 error of the coefficients, how often 95 % intervals hold them, and seconds a fit.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.special import logsumexp

import tacit
from provenance import about
from rates import coverage_verdict, rates_of
from tacit import Features, Measurements

RESULTS = Path(__file__).parent / "results" / "continuous.json"


@dataclass(frozen=True, eq=False, kw_only=True)
class Drawn:
    """Rows of a world, and what is true of it.

    Attributes:
        world: what is said of it.
        features: of rows.
        rows: of a noisy expert.
        truth: [D] coefficients.
        free: whether reward weights are of either sign.
    """

    world: tacit.Logged
    features: Any
    rows: Measurements
    truth: np.ndarray
    free: bool = True


# ------------------------------------------------------------------------------ navigation, d = 2

MOVES = np.array([[0.0, 0.0], [0.12, 0.0], [0.0, 0.12], [-0.12, 0.0], [0.0, -0.12]])
NOISE, SIDE = 0.05, 41


def goal(rows: np.ndarray, _: int) -> np.ndarray:
    """[n] closeness to a goal."""
    return np.exp(-((rows - [0.8, 0.8]) ** 2).sum(axis=1) / 0.08)


def east(rows: np.ndarray, _: int) -> np.ndarray:
    """[n] how far east."""
    return rows[:, 0]


def hill(rows: np.ndarray, _: int) -> np.ndarray:
    """[n] height of a hill on the way."""
    return np.exp(-((rows - [0.5, 0.5]) ** 2).sum(axis=1) / 0.04)


def bilinear(places: np.ndarray, side: int = SIDE) -> tuple[np.ndarray, np.ndarray]:
    """([n, 4], [n, 4]) nodes of the unit square around places, and their weights."""
    low = np.minimum((places * (side - 1)).astype(int), side - 2)
    share = places * (side - 1) - low
    corners, weights = [], []
    for i, j in np.ndindex(2, 2):
        corners.append((low[:, 0] + i) * side + low[:, 1] + j)
        weights.append(np.abs(1 - i - share[:, 0]) * np.abs(1 - j - share[:, 1]))
    return np.stack(corners, axis=1), np.stack(weights, axis=1)


def navigation_worth(truth: np.ndarray, discount: float) -> np.ndarray:
    """[nodes, A] what every action is worth at the nodes of a grid, to a soft expert."""
    points, weights = np.polynomial.hermite_e.hermegauss(5)
    weights = weights / weights.sum()
    axis = np.linspace(0, 1, SIDE)
    nodes = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=2).reshape(-1, 2)
    moves = []
    for move in MOVES:
        matrix = csr_array((len(nodes),) * 2)
        for i, j in np.ndindex(5, 5):
            there = np.clip(nodes + move + NOISE * points[[i, j]], 0, 1)
            columns, parts = bilinear(there)
            places = np.repeat(np.arange(len(nodes)), 4), columns.ravel()
            entries = weights[i] * weights[j] * parts.ravel()
            matrix = matrix + csr_array((entries, places), shape=matrix.shape)
        moves.append(matrix)
    paid = truth @ np.stack([goal(nodes, 0), east(nodes, 0), -hill(nodes, 0)])
    values = np.zeros(len(nodes))
    worth = np.zeros((len(nodes), len(MOVES)))
    for _ in range(300):
        worth = np.stack([paid + discount * (move @ values) for move in moves], axis=1)
        values = logsumexp(worth, axis=1)
    return worth


WORTH: dict[float, np.ndarray] = {}


def navigation(rows: int, seed: int, discount: float = 0.9) -> Drawn:
    """Walks on the unit square: five actions, a goal, a slope, a hill that is avoided."""
    truth, steps = np.array([3.0, 2.0, 2.0]), 50
    if discount not in WORTH:
        WORTH[discount] = navigation_worth(truth, discount)
    worth, random = WORTH[discount], np.random.default_rng(seed)
    walkers = max(rows // steps, 1)
    here, places, taken = random.random((walkers, 2)), [], []
    for _ in range(steps):
        columns, parts = bilinear(here)
        there = np.einsum("nk,nka->na", parts, worth[columns])
        chances = np.exp(there - logsumexp(there, axis=1, keepdims=True)).cumsum(axis=1)
        done = (random.random((walkers, 1)) > chances).sum(axis=1).clip(0, 4)
        places.append(here)
        taken.append(done)
        here = np.clip(here + MOVES[done] + NOISE * random.normal(size=here.shape), 0, 1)
    seen, actions = np.stack([*places, here], axis=1), np.stack(taken, axis=1)
    features = Features.from_functions(reward={"goal": goal, "east": east}, costs=[{"hill": hill}])
    pairs = list(zip(seen, actions, strict=True))
    drawn = Measurements.from_trajectories(pairs, columns=("x", "y"))
    return Drawn(world=tacit.Logged(discount), features=features, rows=drawn, truth=truth)


WORLDS: dict[str, Callable[[int, int], Drawn]] = {"navigation": navigation}


# ---------------------------------------------------------------------------------------- studies


def study(draw: Callable[[int, int], Drawn], draws: int, rows: int) -> dict[str, Any]:
    """What so many recoveries of one world say together."""
    errors, held, seconds, kinds = [], [], [], []
    for seed in range(draws):
        drawn = draw(rows, seed)
        options = tacit.Likelihood(free_reward=drawn.free, level=1.0)
        begun = time.perf_counter()
        found = tacit.recover(
            drawn.world, drawn.features, drawn.rows, estimator=options, throw=False
        )
        seconds.append(time.perf_counter() - begun)
        known = found.parameters
        errors.append(known.estimates - drawn.truth)
        low, high = known.intervals.T
        held.append((low <= drawn.truth) & (drawn.truth <= high))
        kinds.append(sorted({one.kind.name for one in found.identification.findings}))
    off, truth = np.array(errors), drawn.truth
    verdict = coverage_verdict(rates_of("coefficients", np.array(held), known.names))
    return {
        "draws": draws,
        "rows": drawn.rows.steps,
        "relative_error": float(np.abs(off).sum(axis=1).mean() / np.abs(truth).sum()),
        "bias": off.mean(axis=0).tolist(),
        "spread": off.std(axis=0).tolist(),
        "total_mean_squared_error": float((off**2).mean(axis=0).sum()),
        "coverage": np.array(held).mean(axis=0).tolist(),
        "verdict": str(verdict),
        "seconds": float(np.median(seconds)),
        "findings": dict(sorted(Counter(kind for one in kinds for kind in one).items())),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=[*WORLDS])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    found = {}
    for name in asked.worlds:
        found[name] = study(WORLDS[name], asked.draws, asked.rows)
        print(name, json.dumps(found[name], indent=1))
    if asked.out is not None:
        document = about(["tacit-irl", "numpy", "scipy"]) | {"worlds": found}
        asked.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
