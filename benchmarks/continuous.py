"""Recovery without a table: rows of worlds whose truth is known, fitted by projected likelihood.

    python benchmarks/continuous.py --draws 60 --longest 240

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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.special import logsumexp

import tacit
from provenance import about
from rates import coverage_verdict, rates_of
from tacit import Features, Measurements


@dataclass(frozen=True, eq=False, kw_only=True)
class Drawn:
    """Rows of a world, and what is true of it.

    Attributes:
        world: what is said of it.
        features: of rows.
        rows: of a noisy expert.
        truth: [D] coefficients.
        free: whether reward weights are of either sign.
        ratio: numbers of two coefficients, and how many times as large the first is.
    """

    world: tacit.Logged
    features: Any
    rows: Measurements
    truth: np.ndarray
    free: bool = True
    ratio: tuple[int, int, float] | None = None


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


# ----------------------------------------------------------------------------------- firm entry

GRID, FIRM = 6, np.array([0.5, 1.0, -1.0, 1.5, 1.0, 1.0, 1.0])


def tauchen(mean: float, width: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """([6] grid, [6, 6] chances) of an AR(1) with slope .6 and standard normal errors."""
    from scipy.stats import norm

    spread = 1.0 / np.sqrt(1.0 - 0.36)
    grid = mean + width * spread * np.linspace(-1, 1, GRID)
    half = 0.5 * (grid[1] - grid[0])
    centres = mean + 0.6 * (grid - mean)
    above = norm.cdf(grid[None] + half - centres[:, None])
    above[:, -1] = 1.0
    return grid, np.diff(above, axis=1, prepend=0.0)


def firm_payoffs(rows: np.ndarray) -> np.ndarray:
    """[n, 7] what entering pays, parameter by parameter; rows are z1 to z4, w, previous action."""
    z1, z2, z3, z4, w, previous = rows.T
    size, new = np.exp(w), 1.0 - previous
    columns = [size, z1 * size, z2 * size, -np.ones(len(rows)), -z3, -new, -z4 * new]
    return np.stack(columns, axis=1)


FIRM_VALUES: list[np.ndarray] = []


def firm_values() -> np.ndarray:
    """[6, 6, 6, 6, 6, 2, 2] what actions are worth to a soft firm, by state."""
    if not FIRM_VALUES:
        (shocks, moves), (sizes, growth) = tauchen(0.0), tauchen(0.5)
        axes = [shocks] * 4 + [sizes, np.array([0.0, 1.0])]
        rows = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 6)
        shape = (GRID,) * 5 + (2,)
        paid = (firm_payoffs(rows) @ FIRM).reshape(shape)
        values = np.zeros(shape)
        for _ in range(400):
            later = values
            for axis, matrix in enumerate([moves] * 4 + [growth]):
                later = np.moveaxis(np.tensordot(matrix, later, (1, axis)), 0, axis)
            stay, enter = (0.95 * later[..., a, None] for a in (0, 1))
            worth = np.stack([np.broadcast_to(stay, shape), paid + enter], axis=-1)
            values = logsumexp(worth, axis=-1)
        FIRM_VALUES.append(worth)
    return FIRM_VALUES[0]


def firm_entry(rows: int, seed: int, *, declared: bool = True) -> Drawn:
    """Firms that enter a market or not: 3 000 in 2 periods for 6 000 rows."""
    worth, random = firm_values(), np.random.default_rng(seed)
    (shocks, moves), (sizes, growth) = tauchen(0.0), tauchen(0.5)
    firms = max(rows // 2, 1)
    at = random.integers(GRID, size=(firms, 5))
    previous, seen, taken = np.zeros(firms, int), [], []
    laws = [moves] * 4 + [growth]
    for period in range(42):
        here = worth[(*at.T, previous)]
        chance = 1.0 / (1.0 + np.exp(here[:, 0] - here[:, 1]))
        done = (random.random(firms) < chance).astype(int)
        if period >= 40:
            places = [*(shocks[at[:, j]] for j in range(4)), sizes[at[:, 4]], previous]
            seen.append(np.stack(places, axis=1))
            taken.append(done)
        steps = [law[at[:, j]].cumsum(axis=1) for j, law in enumerate(laws)]
        draws = random.random((firms, 5, 1))
        at = np.stack([(draws[:, j] > step).sum(axis=1) for j, step in enumerate(steps)], axis=1)
        at, previous = at.clip(0, GRID - 1), done
    names = ("size", "z1 size", "z2 size", "fixed", "z3", "entry", "z4 entry")

    def payoff(k: int) -> Callable[[np.ndarray, int], np.ndarray]:
        return lambda rows, a: a * firm_payoffs(rows)[:, k]

    features = Features.from_functions(reward={name: payoff(k) for k, name in enumerate(names)})
    pairs = zip(np.stack(seen, axis=1), np.stack(taken, axis=1), strict=True)
    columns = ("z1", "z2", "z3", "z4", "w", "previous")
    drawn = Measurements.from_trajectories(list(pairs), columns=columns)
    world = tacit.Logged(0.95, exogenous=columns[:5] if declared else ())
    return Drawn(world=world, features=features, rows=drawn, truth=FIRM)


# ---------------------------------------------------------------------------------- two engines

REPLACE, KEEP = np.array([2.0, 2.5]), np.array([0.05, 0.08])


def engine_worth(price: float, cost: float, discount: float) -> tuple[np.ndarray, np.ndarray]:
    """([m] mileages, [m, 2] what keeping and replacing one module is worth)."""
    grid = np.linspace(0.0, 200.0, 2001)
    points, weights = np.polynomial.laguerre.laggauss(20)
    there = np.minimum(grid[:, None] + 5.0 * points, grid[-1])
    values = np.zeros(len(grid))
    for _ in range(2000):
        later = np.interp(there, grid, values) @ weights
        keep, renew = -cost * grid + discount * later, -price + discount * later[0] + 0.0 * grid
        worth = np.stack([keep, renew], axis=1)
        before, values = values, logsumexp(worth, axis=1)
        if np.abs(values - before).max() < 1e-10 * (1.0 + np.abs(values).max()):
            break
    return grid, worth


def left_after(rows: np.ndarray, action: int) -> np.ndarray:
    """[n, 2] mileages after replacing: action 2 * a1 + a2."""
    return rows * (1 - np.array([action // 2, action % 2]))


def two_engines(rows: int, seed: int, *, discount: float = 0.9) -> Drawn:
    """Two modules of a bus, each kept or replaced: 50 buses, 20 periods after 10."""
    random, buses = np.random.default_rng(seed), max(rows // 20, 2)
    tables = [engine_worth(REPLACE[j], KEEP[j], discount) for j in (0, 1)]
    here, seen, taken = np.zeros((buses, 2)), [], []
    for period in range(30):
        odds = [np.interp(here[:, j], g, w[:, 0] - w[:, 1]) for j, (g, w) in enumerate(tables)]
        renewed = random.random((2, buses)) < 1.0 / (1.0 + np.exp(np.array(odds)))
        action = 2 * renewed[0].astype(int) + renewed[1]
        if period >= 10:
            seen.append(here)
            taken.append(action)
        here = here * ~renewed.T + random.exponential(5.0, size=(buses, 2))
    features = Features.from_functions(
        reward={
            "replace 1": lambda rows, a: -float(a // 2) * np.ones(len(rows)),
            "replace 2": lambda rows, a: -float(a % 2) * np.ones(len(rows)),
            "mileage 1": lambda rows, a: -rows[:, 0] * (1 - a // 2),
            "mileage 2": lambda rows, a: -rows[:, 1] * (1 - a % 2),
        }
    )
    pairs = zip(np.stack([*seen, here], axis=1), np.stack(taken, axis=1), strict=True)
    drawn = Measurements.from_trajectories(list(pairs), columns=("first", "second"))
    basis = tacit.bases.Additive(tacit.bases.Polynomials(3))
    world = tacit.Logged(discount, basis=basis, after=left_after)
    truth = np.concatenate([REPLACE, KEEP])
    return Drawn(world=world, features=features, rows=drawn, truth=truth)


# ------------------------------------------------------------------------ bus with 7 covariates

WEIGHTS = 0.4 * np.array([1.0, -0.8, 0.6, -0.4, 0.5, -0.6, 0.7])
WEAR, RENEW = 0.6, 3.0
BUS: list[tuple] = []


def bus_worth() -> tuple:
    """([m] mileages, [k] indices, [m, k, 2] what keeping and replacing is worth)."""
    if not BUS:
        spread = float(np.linalg.norm(WEIGHTS)) / np.sqrt(1.0 - 0.25)
        miles, index = np.linspace(0, 20, 201), np.linspace(-4, 4, 41) * spread
        points, weights = np.polynomial.laguerre.laggauss(12)
        shocks, chances = np.polynomial.hermite_e.hermegauss(9)
        chances, own = chances / chances.sum(), float(np.linalg.norm(WEIGHTS))
        there = np.minimum(miles[:, None] + points, miles[-1])
        beside = np.clip(0.5 * index[:, None] + own * shocks, index[0], index[-1])
        values = np.zeros((len(miles), len(index)))
        for _ in range(600):
            along = np.stack([np.interp(there, miles, v) @ weights for v in values.T], axis=1)
            later = np.stack([np.interp(beside, index, v) @ chances for v in along])
            keep = -WEAR * miles[:, None] + 0.95 * later
            renew = np.broadcast_to(-RENEW - index + 0.95 * later[0], keep.shape)
            worth = np.stack([keep, renew], axis=2)
            values = logsumexp(worth, axis=2)
        BUS.append((miles, index, worth))
    return BUS[0]


def bus(rows: int, seed: int) -> Drawn:
    """A bus whose cost of replacing moves with seven covariates, none of which actions move."""
    from scipy.interpolate import RegularGridInterpolator

    miles, index, worth = bus_worth()
    odds = RegularGridInterpolator((miles, index), worth[..., 0] - worth[..., 1])
    random, steps = np.random.default_rng(seed), 100
    buses = max(rows // steps, 2)
    here, others = np.zeros(buses), random.normal(size=(buses, 7)) / np.sqrt(0.75)
    seen, taken = [], []
    for _ in range(steps + 1):
        seen.append(np.column_stack([here, others]))
        place = np.column_stack([here.clip(0, 20), (others @ WEIGHTS).clip(index[0], index[-1])])
        renewed = random.random(buses) < 1.0 / (1.0 + np.exp(odds(place)))
        taken.append(renewed.astype(int))
        here = here * ~renewed + random.exponential(1.0, size=buses)
        others = 0.5 * others + random.normal(size=others.shape)
    columns = ("mileage", *(f"y{j}" for j in range(7)))

    def covariate(j: int) -> Callable[[np.ndarray, int], np.ndarray]:
        return lambda rows, a: -a * rows[:, 1 + j]

    features = Features.from_functions(
        reward={
            "mileage": lambda rows, a: -(1 - a) * rows[:, 0],
            "replace": lambda rows, a: -a * np.ones(len(rows)),
            **{f"y{j}": covariate(j) for j in range(7)},
        }
    )
    pairs = zip(np.stack(seen, axis=1), np.stack(taken[:-1], axis=1), strict=True)
    drawn = Measurements.from_trajectories(list(pairs), columns=columns)

    def after(rows: np.ndarray, action: int) -> np.ndarray:
        return np.column_stack([rows[:, 0] * (1 - action), rows[:, 1:]])

    world = tacit.Logged(0.95, after=after)
    truth = np.concatenate([[WEAR, RENEW], WEIGHTS])
    return Drawn(world=world, features=features, rows=drawn, truth=truth)


# ------------------------------------------------------------------------------------ patients

PULLS, PRICES, HOURS, VITALS = np.array([0.0, 0.6, 1.2]), np.array([0.6, 1.5]), 12, 33
WARD: list[np.ndarray] = []


def next_vitals(pressure: np.ndarray, lactate: np.ndarray, pull: Any) -> tuple[Any, Any]:
    """Pressure and lactate an hour later, without the noise."""
    return 0.6 * pressure - 0.8 + pull, 0.7 * lactate - 0.3 * pressure


def ward_worth(values: np.ndarray, pressure: np.ndarray, lactate: np.ndarray) -> np.ndarray:
    """[n, 3] what nothing, fluids and a vasopressor are worth, with all that follows."""
    points, weights = np.polynomial.hermite_e.hermegauss(7)
    weights = weights / weights.sum()
    found = []
    for pull, price in zip(PULLS, [0.0, *PRICES], strict=True):
        high, low = next_vitals(pressure, lactate, pull)
        later = np.zeros(len(pressure))
        for i, j in np.ndindex(7, 7):
            places = np.stack([high + 0.5 * points[i], low + 0.5 * points[j]], axis=1)
            columns, parts = bilinear(np.clip((places + 4.0) / 8.0, 0.0, 1.0), VITALS)
            later += weights[i] * weights[j] * (values[columns] * parts).sum(axis=1)
        found.append(-2.0 * np.exp(-pressure / 2.0) - price + 0.8 * later)
    return np.stack(found, axis=1)


def patients(rows: int, seed: int, *, columns: int = 12, missing: float = 0.04) -> Drawn:
    """Stays of 12 hours: two of the columns matter, and treatments are avoided, one 2.5 times."""
    if not WARD:
        side = np.linspace(-4.0, 4.0, VITALS)
        nodes = [one.ravel() for one in np.meshgrid(side, side, indexing="ij")]
        values = np.zeros(VITALS**2)
        for _ in range(60):
            values = logsumexp(ward_worth(values, *nodes), axis=1)
        WARD.append(values)
    random, stays = np.random.default_rng(seed), max(rows // HOURS, 2)
    here, seen, taken = 1.5 * random.normal(size=(stays, 2)), [], []
    others = random.normal(size=(stays, columns - 2))
    for _ in range(HOURS):
        worth = ward_worth(WARD[0], *here.T)
        chances = np.exp(worth - logsumexp(worth, axis=1, keepdims=True)).cumsum(axis=1)
        done = (random.random((stays, 1)) > chances).sum(axis=1).clip(0, 2)
        row = np.concatenate([here, others], axis=1)
        seen.append(np.where(random.random(row.shape) < missing, np.nan, row))
        taken.append(done)
        here = np.stack(next_vitals(*here.T, PULLS[done]), axis=1)
        here = here + 0.5 * random.normal(size=here.shape)
        others = 0.5 * others + random.normal(size=others.shape)
    names = ("pressure", "lactate", *(f"other {j}" for j in range(columns - 2)))
    pairs = zip(np.stack(seen, axis=1), np.stack(taken, axis=1), strict=True)
    drawn = Measurements.from_trajectories(list(pairs), columns=names)
    features = Features.from_formula(reward="exp(-pressure / 2)", costs=["C(action, base='0')"])
    truth, ratio = np.array([-2.0, *PRICES]), (2, 1, 2.5)
    world = tacit.Logged(0.8)
    return Drawn(world=world, features=features, rows=drawn, truth=truth, ratio=ratio)


WORLDS: dict[str, Callable[[int, int], Drawn]] = {
    "patients": patients,
    "patients of three columns": partial(patients, columns=3, missing=0.0),
    "navigation": navigation,
    "firm entry": firm_entry,
    "two engines": two_engines,
    "two engines at .9999": partial(two_engines, discount=0.9999),
    "bus with 7 covariates": bus,
}
ROWS = {
    "patients": 10_800,
    "patients of three columns": 3600,
    "navigation": 2000,
    "firm entry": 6000,
    "two engines": 1000,
    "two engines at .9999": 1000,
    "bus with 7 covariates": 5000,
}
RESULTS = Path(__file__).parent / "results" / "continuous.json"


# ---------------------------------------------------------------------------------------- studies


def study(
    draw: Callable[[int, int], Drawn], draws: int, rows: int, longest: float = np.inf
) -> dict[str, Any]:
    """What so many recoveries of one world say together, or as many as begin within `longest`."""
    errors, held, seconds, kinds, unsettled, rejected, ratios = [], [], [], [], [], [], []
    started = time.perf_counter()
    for seed in range(draws):
        if seed > 1 and time.perf_counter() - started > longest:
            break
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
        unsettled.append(not np.isnan(found.basis.unsettled))
        rejected.append(np.nan if found.goodness.absence else found.goodness.p_value <= 0.05)
        if drawn.ratio is not None:
            above, below, true = drawn.ratio
            ends = known.ratio(above, below).interval
            ratios.append(ends[0] <= true <= ends[1])
    off, truth, draws = np.array(errors), drawn.truth, len(errors)
    missed = np.array(held).mean(axis=1) < 0.8
    warned = np.array(unsettled)
    more = {"coverage_of_ratio": float(np.mean(ratios))} if ratios else {}
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
        **more,
        "right_models_rejected": float(np.nanmean(rejected)),
        "draws_that_miss": int(missed.sum()),
        "of_these_unsettled": int((missed & warned).sum()),
        "others_unsettled": int((~missed & warned).sum()),
        "seconds": float(np.median(seconds)),
        "findings": dict(sorted(Counter(kind for one in kinds for kind in one).items())),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=[*WORLDS])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--rows", type=int, help="of all worlds; the usual number by default")
    parser.add_argument("--longest", type=float, default=np.inf, help="seconds a world")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    found = {}
    for name in asked.worlds:
        found[name] = study(WORLDS[name], asked.draws, asked.rows or ROWS[name], asked.longest)
        print(name, json.dumps(found[name], indent=1), flush=True)
    document = about(["tacit-irl", "numpy", "scipy"]) | {"worlds": found}
    asked.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
