"""How often intervals hold the truth, and how often constraints that do not exist are found.

    python benchmarks/interval_coverage.py

Writes benchmarks/results/coverage.json. Noisy experts that the model describes, on random worlds:
one and two constraints, prices of zero, weak and strong, features that are independent or
correlated, little and much data, dynamics known or counted from a walk of random actions. For each:
the share of 95 % intervals of reward weights, of cost weights and of prices that hold the truth,
also among the draws in which a constraint was dropped, and of prices among those in which their
constraint was found; how often an idle constraint, alone or as a
set of idle ones, is called active (familywise false alarms), and how often a real one is found; all
with Monte Carlo errors, and for each kind of number a verdict by the rule of rates.py. Cost weights
are those of constraints that were found: of others none are reported. The cells share the seconds
evenly: more time, more draws. `--cells all` draws every combination; `--cells thin` those that say
most about few steps, weak prices and false alarms.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from provenance import about
from rates import Rate, Verdict, coverage_verdict, rates_of, size_verdict

STATES, ACTIONS, DISCOUNT, NOISE, WORLDS = 8, 3, 0.9, 0.15, 6
PRICES = {"zero": 0.0, "weak": 0.1, "strong": 0.8}
COVERED = (
    "reward_weights",
    "reward_weights_where_dropped",
    "cost_weights",
    "prices",
    "prices_where_dropped",
)
# Of constraints that were found, alone: their price is too high more often than too low, which a
# finding says of those found barely.
SELECTED = "prices_where_found"


@dataclass(frozen=True)
class Args:
    """Coverage and false alarms."""

    seconds: int = 330
    """Of all cells together."""
    most: int = 400
    """Draws of a cell."""
    cells: str = "some"
    """Or "all": every combination; or "thin": few steps, weak prices, two idle constraints."""
    out: Path = Path(__file__).parent / "results" / "coverage.json"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What is drawn: constraints, how dear they are, and what there is to see."""

    constraints: int
    strength: str
    features: str = "independent"
    trajectories: int = 60
    steps: int = 50
    walk: int = 0  # steps that the dynamics are counted from; 0 where they are known


def some() -> list[Cell]:
    """The cells that say most, where time is short."""
    return [
        *(Cell(constraints=k, strength=strength) for k in (1, 2) for strength in PRICES),
        *(Cell(constraints=2, strength=one, features="correlated") for one in ("zero", "strong")),
        *(Cell(constraints=2, strength=one, trajectories=10, steps=20) for one in PRICES),
        *(Cell(constraints=k, strength="weak", trajectories=5, steps=10) for k in (1, 2)),
        Cell(constraints=2, strength="strong", trajectories=5, steps=10),
        *(Cell(constraints=2, strength=one, trajectories=100) for one in ("zero", "weak")),
        *(Cell(constraints=1, strength=one, walk=400) for one in ("zero", "strong")),
        Cell(constraints=2, strength="zero", walk=400),
    ]


def thin() -> list[Cell]:
    """Where intervals given what was found or dropped, and false alarms, are the hardest."""
    return [
        *(Cell(constraints=k, strength="weak", trajectories=5, steps=10) for k in (1, 2)),
        Cell(constraints=2, strength="zero", trajectories=10, steps=20),
        Cell(constraints=2, strength="weak", trajectories=10, steps=20),
        Cell(constraints=1, strength="weak", trajectories=60),
    ]


def every() -> list[Cell]:
    """All combinations."""
    sizes = ((5, 10), (10, 20), (60, 50), (100, 50))
    found = [
        Cell(constraints=k, strength=strength, features=kind, trajectories=m, steps=t)
        for k, strength, kind, (m, t) in product(
            (1, 2), PRICES, ("independent", "correlated"), sizes
        )
    ]
    counted = [
        Cell(constraints=k, strength=strength, walk=400) for k in (1, 2) for strength in PRICES
    ]
    return found + counted


def world(cell: Cell, seed: int) -> tuple[tacit.MDP, tacit.Features, list[np.ndarray]]:
    """A world, its features, and the true weights: of the reward, then of each constraint."""
    rng = np.random.default_rng(seed)
    moves = np.zeros((STATES, ACTIONS, STATES))
    for s, a in np.ndindex(STATES, ACTIONS):
        moves[s, a, rng.choice(STATES, 3, replace=False)] = rng.dirichlet(np.ones(3))
    mdp = tacit.MDP(moves, np.full(STATES, 1.0 / STATES), DISCOUNT)
    reward = rng.random((STATES, ACTIONS, 2))
    costs = [rng.random((STATES, ACTIONS, 2)) for _ in range(cell.constraints)]
    if cell.features == "correlated":  # with the reward, and with each other
        shared = rng.random((STATES, ACTIONS, 2))
        costs = [0.5 * shared + 0.25 * reward[..., ::-1] + 0.25 * cost for cost in costs]
    weights = [rng.dirichlet(3.0 * np.ones(2)) for _ in range(1 + cell.constraints)]
    return mdp, tacit.Features(reward, costs), weights


def prices(cell: Cell) -> np.ndarray:
    """[K] true prices; of two constraints the second is idle, so that one can be found wrongly."""
    found = np.zeros(cell.constraints)
    found[0] = PRICES[cell.strength]
    return found


def draw(cell: Cell, seed: int) -> dict[str, Any]:
    """One recovery against the truth."""
    mdp, features, weights = world(cell, seed % WORLDS)
    price = prices(cell)
    table = features.reward @ weights[0]
    for cost, own, dear in zip(features.costs, weights[1:], price, strict=True):
        table = table - dear * (cost @ own)
    solver = tacit.SoftDual(temperature=NOISE)
    policy = tacit.solve(mdp, tacit.Objective(table), solver=solver).policy
    seen = tacit.simulate(mdp, policy, trajectories=cell.trajectories, steps=cell.steps, seed=seed)
    known = mdp
    if cell.walk:
        random = np.full((STATES, ACTIONS), 1.0 / ACTIONS)
        walked = tacit.simulate(mdp, random, trajectories=1, steps=cell.walk, seed=10**6 + seed)
        known = tacit.MDP.from_transitions(
            walked, n_states=STATES, n_actions=ACTIONS, discount=DISCOUNT, initial=mdp.initial
        )
    found = tacit.Likelihood(seed=seed).fit(known, features, seen, throw=False)
    told = found.identification
    idle = set(np.flatnonzero(price == 0).tolist())
    alarm = any(told.active[k] for k in idle)
    alarm = alarm or any(set(one.members) <= idle for one in told.sets)
    real = [k for k in range(len(price)) if price[k] > 0]
    hits = [told.active[k] or told.set_of(k) is not None for k in real]
    ends = [told.cost_intervals[k] for k in real]
    inside = [_holds(part, weights[1 + k]) for k, part in zip(real, ends, strict=True)]
    return {
        "reward": _holds(told.reward_intervals, weights[0]),
        "costs": np.concatenate([*inside, np.full(2 * (len(price) - len(real)), np.nan)]),
        "price": _holds(told.multiplier_intervals, price),
        "selected": _selected(found, price),
        "dropped": bool((found.multipliers == 0).any()),
        "alarm": alarm if idle else np.nan,
        "found": float(np.mean(hits)) if real else np.nan,
        "count": float(told.selection.count) if told.selection is not None else np.nan,
        "misfit": not found.goodness.adequate,
    }


def _selected(recovery: tacit.Recovery, price: np.ndarray) -> np.ndarray:
    """[K] whether price intervals hold of real constraints found by themselves; NaN of others."""
    found = np.asarray(recovery.identification.active) & (price > 0)
    held = _holds(recovery.identification.multiplier_intervals, price)
    return np.where(found, held, np.nan)


def _holds(ends: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """[n] whether intervals [n, 2] hold the truth [n]; NaN where there is no interval."""
    held = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    return np.where(np.isnan(ends).any(axis=1), np.nan, held)


def share(draws: list[Any]) -> dict[str, float] | None:
    """Mean over the draws, each of one number or several, and its Monte Carlo error; or None."""
    found = [np.asarray(one, float) for one in draws]
    kept = np.array([np.nanmean(one) for one in found if not np.isnan(one).all()])
    if not len(kept):
        return None
    error = float(kept.std())
    if kept.max() <= 1.0:  # a share of 0 or 1 has an error as well: one of each more
        smooth = (kept.sum() + 1.0) / (len(kept) + 2.0)
        error = max(error, float(np.sqrt(smooth * (1.0 - smooth))))
    error /= float(np.sqrt(len(kept)))
    return {"mean": round(float(kept.mean()), 4), "error": round(error, 4)}


def row(cell: Cell, seconds: float, most: int) -> dict[str, Any]:
    """What holds in one cell, from as many draws as there is time for."""
    began, draws = time.perf_counter(), []
    while len(draws) < most and (time.perf_counter() - began < seconds or len(draws) < 10):
        draws.append(draw(cell, len(draws)))

    def all_of(name: str, *, dropped: bool = False) -> list[Any]:
        return [one[name] for one in draws if one["dropped"] or not dropped]

    kinds = {
        "reward_weights": all_of("reward"),
        "reward_weights_where_dropped": all_of("reward", dropped=True),
        "cost_weights": all_of("costs"),
        "prices": all_of("price"),
        "prices_where_dropped": all_of("price", dropped=True),
        SELECTED: all_of("selected"),
        "false_alarms": all_of("alarm"),
    }
    source = ", ".join(str(value) for value in asdict(cell).values())
    return {
        **asdict(cell),
        "draws": len(draws),
        **{name: share(found) for name, found in kinds.items()},
        "found": share(all_of("found")),
        "count_by_bic": share(all_of("count")),
        "misfit_said": share(all_of("misfit")),
        "rates": {
            name: [asdict(rate) for rate in rates_of(source, np.array(found, float))]
            for name, found in kinds.items()
            if found
        },
    }


def verdicts(rows: list[dict[str, Any]]) -> dict[str, Verdict]:
    """Kind of number -> the verdict over all cells that have any."""
    found = {}
    for name in (*COVERED, SELECTED, "false_alarms"):
        rates = [Rate(**rate) for row in rows for rate in row["rates"].get(name, ())]
        if any(rate.draws for rate in rates):
            found[name] = (size_verdict if name == "false_alarms" else coverage_verdict)(rates)
    return found


def main(args: Args) -> None:
    load = os.getloadavg()[0]
    rows, asked = [], {"some": some, "all": every, "thin": thin}[args.cells]()
    draw(asked[0], 0)  # compiles
    for cell in asked:
        rows.append(row(cell, args.seconds / len(asked), args.most))
        print(json.dumps(rows[-1]), flush=True)
    settings = {name: getattr(args, name) for name in ("seconds", "most", "cells")}
    judged = verdicts(rows)
    for name, verdict in judged.items():
        print(f"{name}: {verdict}", flush=True)
    written = {
        **about(["tacit-irl", "numpy", "scipy", "jax", "numba"], load=load),
        "settings": settings,
        "verdicts": {name: asdict(verdict) for name, verdict in judged.items()},
        "rows": rows,
    }
    args.out.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for field in fields(Args):
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    main(Args(**vars(parser.parse_args())))
