"""Do intervals hold beside constraints that do nothing, and where nothing informs?

    python benchmarks/look_alikes.py

Writes benchmarks/results/look_alikes.json. A reward of two features is estimated together with a
constraint that costs nothing in truth but whose features resemble the first one: how often the 95 %
intervals of the reward weights and of the price hold, for similarities 0 to .98 and 1 to 8 features
of the constraint. The same for the price of a real constraint beside an idle one that resembles it,
and for weights where the steps are taken to depend on each other. Every draw has a world of its
own; the likelihood is the exact one. Then CliffWalking where nobody falls, so that the scale of the
reward is not told: how often its coefficients, its price and what is said of the fit are right.
Rates are judged by `rates`.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from provenance import about
from rates import Rate, coverage_verdict, rates_of

RESULTS = Path(__file__).parent / "results" / "look_alikes.json"
PACKAGES = ("tacit-irl", "numpy", "scipy")
STATES, ACTIONS, WEIGHTS = 12, 3, np.array([0.6, 0.4])
SIMILARITIES, FEATURES = (0.0, 0.5, 0.9, 0.98), (1, 2, 4, 8)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What is drawn.

    Attributes:
        similarity: correlation of the features of the idle constraint with what they resemble.
        features: how many it has.
        price: of a real constraint that they resemble; 0 where they resemble the reward.
        robust: whether errors are robust ones, by sampling weights of 1.
    """

    similarity: float
    features: int
    price: float = 0.0
    robust: bool = False


def cells() -> list[Cell]:
    """Idle constraints like a reward; like a real constraint; and with robust errors."""
    idle = [Cell(similarity=r, features=k) for r in SIMILARITIES for k in FEATURES]
    real = [Cell(similarity=r, features=k, price=1.0) for r in (0.5, 0.9) for k in (1, 4)]
    return [
        *idle,
        *real,
        *(replace(one, robust=True) for one in idle if one.similarity in (0, 0.9)),
    ]


def world(cell: Cell, seed: int) -> tuple[tacit.MDP, tacit.Features, np.ndarray]:
    """A world, its features, and its true prices [K], the idle constraint last."""
    rng = np.random.default_rng(seed)
    moves = np.zeros((STATES, ACTIONS, STATES))
    for s, a in np.ndindex(STATES, ACTIONS):
        moves[s, a, rng.choice(STATES, 3, replace=False)] = rng.dirichlet(np.ones(3))
    mdp = tacit.MDP(moves, np.full(STATES, 1.0 / STATES), 0.9)
    reward, own = rng.normal(size=(STATES, ACTIONS, 2)), rng.normal(size=(STATES, ACTIONS, 9))
    like = own[..., 8:] if cell.price else reward[..., :1]
    idle = cell.similarity * like + np.sqrt(1.0 - cell.similarity**2) * own[..., : cell.features]
    costs = [like, idle] if cell.price else [idle]
    return mdp, tacit.Features(reward, costs), np.append([cell.price] * (cell.price > 0), 0.0)


def draw(cell: Cell, seed: int) -> dict[str, float]:
    """Whether the intervals of one recovery hold the truth."""
    mdp, features, prices = world(cell, seed)
    table = features.reward @ WEIGHTS - prices[0] * features.costs[0][..., 0]
    expert = tacit.solve(mdp, tacit.Objective(table), solver=tacit.SoftDual(temperature=0.5))
    seen = tacit.simulate(mdp, expert.policy, trajectories=60, steps=50, seed=seed)
    if cell.robust:
        seen = replace(seen, weights=np.ones(seen.steps))
    found = tacit.Likelihood(seed=seed).fit(mdp, features, seen, throw=False)
    known = found.identification
    weights = held(known.reward_intervals, WEIGHTS)
    price = held(known.multiplier_intervals, prices)
    width = np.ptp(known.reward_intervals[0])
    return {"weight": weights[0], "price": price[0], "idle price": price[-1], "width": width}


def held(ends: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """[n] whether intervals [n, 2] hold the truth [n]; NaN where there is no interval."""
    inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    return np.where(np.isnan(ends).any(axis=1), np.nan, inside)


def cliff(seed: int, *, robust: bool) -> dict[str, bool]:
    """CliffWalking at temperature 1 with a price of 2 on the cells at the edge."""
    given = tacit.worlds.gymnasium("CliffWalking-v1", discount=0.95)
    mdp = given.mdp
    edge = (np.arange(mdp.states) // 12 == 2).astype(float)[:, None]
    features = tacit.Features(given.features.reward, [edge])
    objective = tacit.Objective(features.reward[..., 0] - 2.0 * edge)
    expert = tacit.solve(mdp, objective, solver=tacit.SoftDual(temperature=1.0))
    seen = tacit.simulate(mdp, expert.policy, trajectories=60, steps=200, seed=seed)
    if robust:
        seen = replace(seen, weights=np.ones(seen.steps))
    found = tacit.Likelihood(seed=seed).fit(mdp, features, seen, throw=False)
    coefficients = held(found.parameters.intervals, np.array([1.0, 2.0]))
    price = held(found.identification.multiplier_intervals, np.array([2.0]))
    return {
        "reward": bool(coefficients[0]),
        "edge": bool(coefficients[1]),
        "price": bool(price[0]),
        "adequate": found.goodness.adequate,
    }


def row(cell: Cell, draws: int) -> tuple[dict[str, Any], list[Rate]]:
    """What holds in one cell, and its rates."""
    found = [draw(cell, seed) for seed in range(draws)]
    name = " ".join(f"{key} {value}" for key, value in asdict(cell).items() if value)
    names = ["weight", "price", *(["idle price"] if cell.price else [])]
    table = np.array([[one[part] for part in names] for one in found], float)
    shares = {
        f"{part} held": round(float(np.nanmean(table[:, j])), 4) for j, part in enumerate(names)
    }
    width = round(float(np.median([one["width"] for one in found])), 4)
    numbers = {**asdict(cell), "draws": draws, **shares, "median_width": width}
    return numbers, rates_of(name or "independent", table, names)


def main() -> None:
    """Runs all draws and writes the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--walks", type=int, default=50)
    given = parser.parse_args()
    rows, rates = [], list[Rate]()
    for cell in cells():
        numbers, own = row(cell, given.draws)
        rows.append(numbers)
        rates += own
        print(json.dumps(numbers), flush=True)
    walks = []
    for robust in (False, True):
        found = [cliff(seed, robust=robust) for seed in range(given.walks)]
        wrong = {name: sum(not one[name] for one in found) for name in found[0]}
        walks.append({"robust": robust, "draws": given.walks, "wrong": wrong})
        print(json.dumps(walks[-1]), flush=True)
    parts = {
        "weights": [one for one in rates if one.cell.endswith(": weight")],
        "prices": [one for one in rates if one.cell.endswith("price")],
    }
    verdicts = {name: coverage_verdict(own) for name, own in parts.items()}
    for name, verdict in verdicts.items():
        print(f"{name}: {verdict}", flush=True)
    told = {name: asdict(verdict) for name, verdict in verdicts.items()}
    result = {**about(PACKAGES), "summary": told, "rows": rows, "cliff": walks}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
