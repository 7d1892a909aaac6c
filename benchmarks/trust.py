"""Each way in which a recovery can be wrong, before and after its remedy, beside the truth.

    python benchmarks/trust.py                # runs, writes results/trust.json, draws
    python benchmarks/trust.py --only-draw    # draws docs/figures/trust-*.svg from the result file

Random worlds of 12 states, 3 actions and 3 features, 60 trajectories of 50 steps, a fresh draw
each; the published 6 x 6 grid for weights at 0. Of every draw one number that is asked for: the
truth, and what is found with its 95 % interval, by a model that is wrong and by the remedy that
docs/trust.md names. A verdict by the rule of rates.py: do the intervals of the remedies hold?
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

import tacit
from provenance import about
from rates import coverage_verdict, rates_of
from tacit.inference import gauged_intervals
from tacit.show.canvas import (
    FAINT,
    INK,
    MUTED,
    PAGE_WIDTH,
    axes_at,
    new_figure,
    series_colour,
    styled,
    svg,
)
from tacit_lab import worlds

HERE = Path(__file__).parent
RESULTS, FIGURES = HERE / "results" / "trust.json", HERE.parent / "docs" / "figures"
PACKAGES = ("tacit-irl", "numpy", "scipy", "jax")
TRAJECTORIES, STEPS = 60, 50
HALF = (PAGE_WIDTH - 0.5) / 2
NAMES = {
    "lapses": ("a random step in five", "plain", "lapses=True"),
    "missing": ("a feature is missing", "without it", "with it"),
    "discount": ("the demonstrator looks less far", "discount 0.9 taken", "its own discount"),
    "types": ("two types in one file", "one type", "two types"),
    "copies": ("a copy of the constraint", "told of the copy only", "told of both"),
    "dynamics": ("the dynamics were counted", "taken for known", "with their doubt"),
    "zeros": ("18 reward weights are 0", "chi-square cut", "simulated cut"),
}
Found = tuple[float, float, float]  # the number, the ends of its interval


def world_of(seed: int, constraints: int = 0) -> tacit.worlds.World:
    return tacit.worlds.random(
        500 + seed, states=12, actions=3, constraints=constraints, features=3
    )


def policy(world: tacit.worlds.World, theta: np.ndarray, discount: float = 0.9) -> np.ndarray:
    """[S, A] the noisy expert with these coefficients, in units of its noise."""
    mdp = replace(world.mdp, discount=discount)
    reward = tacit.Objective(world.features.reward @ theta)
    return tacit.solve(mdp, reward, solver=tacit.SoftDual(temperature=1.0)).policy


def seen_of(world: tacit.worlds.World, *policies: np.ndarray, seed: int) -> tacit.Demonstrations:
    rows = []
    for k, one in enumerate(policies):
        many = TRAJECTORIES // len(policies)
        drawn = tacit.simulate(world.mdp, one, trajectories=many, steps=STEPS, seed=100 * seed + k)
        rows += [drawn.trajectory(e) for e in range(many)]
    return tacit.Demonstrations.from_trajectories(rows)


def weight(recovery: tacit.Recovery, j: int = 0) -> Found:
    low, high = recovery.identification.reward_intervals[j]
    return float(recovery.reward_weights[j]), float(low), float(high)


def coefficient(recovery: tacit.Recovery, j: int = 0) -> Found:
    low, high = recovery.parameters.intervals[j]
    return float(recovery.parameters.estimates[j]), float(low), float(high)


def price(recovery: tacit.Recovery, k: int) -> Found:
    low, high = recovery.identification.multiplier_intervals[k]
    return float(recovery.multipliers[k]), float(low), float(high)


def theta_of(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(3, 2.0))


def lapses(seed: int) -> tuple[float, Found, Found]:
    world, theta = world_of(seed), theta_of(seed)
    seen = seen_of(world, 0.8 * policy(world, 20.0 * theta) + 0.2 / 3, seed=seed)
    task = (world.mdp, world.features, seen)
    plain, mended = (tacit.Likelihood(lapses=on).fit(*task, throw=False) for on in (False, True))
    return 20.0 * float(theta[0]), coefficient(plain), coefficient(mended)


def missing(seed: int) -> tuple[float, Found, Found]:
    """The first weight over the first two: what leaving the third out should not change."""
    world, theta = world_of(seed), theta_of(seed)
    seen = seen_of(world, policy(world, 10.0 * theta), seed=seed)
    maps = world.features.reward
    found = []
    for count in (2, 3):
        fitted = tacit.Likelihood().fit(
            world.mdp, tacit.Features(maps[..., :count]), seen, throw=False
        )
        ratio = fitted.parameters.ratio(1, 0)
        low, high = ratio.interval
        found.append((1 / (1 + ratio.estimate), 1 / (1 + high), 1 / (1 + low)))
    return float(theta[0] / theta[:2].sum()), found[0], found[1]


def discount(seed: int) -> tuple[float, Found, Found]:
    world, theta = world_of(seed), theta_of(seed)
    seen = seen_of(world, policy(world, 8.0 * theta, 0.3), seed=seed)
    plain = tacit.Likelihood().fit(world.mdp, world.features, seen, throw=False)
    profile = tacit.checks.discount_profile(
        world.mdp, world.features, seen, np.arange(0.1, 0.96, 0.1), estimator=tacit.Likelihood()
    )
    best = profile.columns["discount"][int(np.argmax(profile.columns["log_likelihood"]))]
    own = replace(world.mdp, discount=float(best))
    mended = tacit.Likelihood().fit(own, world.features, seen, throw=False)
    return float(theta[0]), weight(plain), weight(mended)


def types(seed: int) -> tuple[float, Found, Found]:
    world, theta = world_of(seed), theta_of(seed)
    other = np.roll(theta, 1)
    seen = seen_of(world, policy(world, 6 * theta), policy(world, 6 * other), seed=seed)
    plain = tacit.Likelihood().fit(world.mdp, world.features, seen, throw=False)
    found = tacit.Mixture(seed=seed).fit(world.mdp, world.features, seen, throw=False)
    own = min(found.types, key=lambda one: float(np.abs(one.reward_weights - theta).sum()))
    return float(theta[0]), weight(plain), weight(own)


def copies(seed: int) -> tuple[float, Found, Found]:
    """The price of a constraint that is none: it copies the true one, up to 2 %."""
    world, theta = world_of(seed, constraints=1), theta_of(seed)
    rng = np.random.default_rng(seed)
    cost = world.features.costs[0][..., :1]
    copy = cost * (1.0 + 0.02 * rng.standard_normal(cost.shape))
    table = world.features.reward @ (8.0 * theta) - 6.0 * cost[..., 0]
    act = tacit.solve(
        world.mdp, tacit.Objective(table), solver=tacit.SoftDual(temperature=1.0)
    ).policy
    seen = seen_of(world, act, seed=seed)
    alone = tacit.Features(world.features.reward, [copy])
    both = tacit.Features(world.features.reward, [cost, copy])
    plain, mended = (
        tacit.Likelihood().fit(world.mdp, told, seen, throw=False) for told in (alone, both)
    )
    return 0.0, price(plain, 0), price(mended, 1)


def dynamics(seed: int) -> tuple[float, Found, Found]:
    world, theta = world_of(seed), theta_of(seed)
    seen = seen_of(world, policy(world, 8.0 * theta), seed=seed)
    random = np.full((12, 3), 1.0 / 3.0)
    walk = tacit.simulate(world.mdp, random, trajectories=1, steps=150, seed=seed)
    counted = tacit.MDP.from_transitions(
        walk, n_states=12, n_actions=3, discount=0.9, initial=world.mdp.initial
    )
    known = tacit.MDP(counted.transitions, counted.initial, 0.9)
    plain = tacit.recover(
        known,
        world.features,
        seen,
        estimator=tacit.Likelihood(),
        allow_impossible=True,
        throw=False,
    )
    mended = tacit.recover(counted, world.features, seen, estimator=tacit.Likelihood(), throw=False)
    return float(theta[0]), weight(plain), weight(mended)


def zeros(seed: int) -> tuple[float, Found, Found]:
    world = worlds.six_by_six()
    expert = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(temperature=1.0))
    seen = tacit.simulate(world.mdp, expert.policy, trajectories=200, steps=100, seed=seed)
    rounds, found = gauged_intervals.ROUNDS, []
    for most in (0, rounds):
        gauged_intervals.ROUNDS = most  # none: the law that prices had before
        options = tacit.Likelihood(level=1.0)
        found.append(price(options.fit(world.mdp, world.features, seen, throw=False), 1))
    gauged_intervals.ROUNDS = rounds
    return float(expert.multipliers[1]), found[0], found[1]


STUDIES: dict[str, Callable[[int], tuple[float, Found, Found]]] = {
    "lapses": lapses,
    "missing": missing,
    "discount": discount,
    "types": types,
    "copies": copies,
    "dynamics": dynamics,
    "zeros": zeros,
}


def holds(row: dict, side: str) -> bool:
    return row[side][1] - 1e-9 <= row["truth"] <= row[side][2] + 1e-9


def drawn(name: str, rows: list[dict]) -> str:
    """True against found, before and after: one mark a draw, sorted by the truth."""
    from matplotlib.axes import Axes

    title, *sides = NAMES[name]
    with styled():
        figure = new_figure(PAGE_WIDTH, 2.55)
        for at, (side, words) in enumerate(zip(("before", "after"), sides, strict=True)):
            axes: Axes = axes_at(figure, 0.5 + at * HALF, 0.62, HALF - 0.4, 1.55)
            ordered = sorted(rows, key=lambda row: (row["truth"], row["after"][0]))
            finite = [x for row in rows for s in ("before", "after") for x in row[s]]
            finite = [x for x in finite if np.isfinite(x)] + [row["truth"] for row in rows]
            low, high = min(finite), max(finite)
            pad = 0.06 * (high - low or 1.0)
            for place, row in enumerate(ordered):
                point, least, most = row[side]
                good = holds(row, side)
                colour = series_colour(0) if good else series_colour(1)
                ends = np.clip([least, most], low - pad, high + pad)
                axes.plot([place, place], ends, color=colour, linewidth=2)
                axes.plot(place, point, "o" if good else "x", color=colour, markersize=5)
                axes.plot(
                    [place - 0.35, place + 0.35], [row["truth"]] * 2, color=INK, linewidth=1.6
                )
            axes.set_ylim(low - pad, high + pad)
            axes.set_xticks([])
            axes.grid(axis="y", color=FAINT, linewidth=0.6)
            count = sum(holds(row, side) for row in rows)
            axes.set_title(f"{words}: {count} of {len(rows)} hold", fontsize=9, loc="left")
        told = (
            "a column: a draw; bar: 95 % interval; black line: truth; cross: the interval misses it"
        )
        figure.text(0.5 / PAGE_WIDTH, 0.06, told, fontsize=8, color=MUTED)
        whole = title[0].upper() + title[1:]
        figure.text(0.5 / PAGE_WIDTH, 0.97, whole, fontsize=11, weight="bold", va="top", color=INK)
        return svg(figure)


def main() -> None:
    """Runs all draws, writes the result, draws the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=12)
    parser.add_argument("--only-draw", action="store_true")
    parser.add_argument("--only", choices=list(STUDIES), help="one failure alone; writes nothing")
    given = parser.parse_args()
    if not given.only_draw:
        studies = {}
        for name in [given.only] if given.only else STUDIES:
            rows = []
            for seed in range(given.draws):
                truth, before, after = STUDIES[name](seed)
                rows.append({"truth": truth, "before": before, "after": after})
            studies[name] = rows
            counts = [sum(holds(row, side) for row in rows) for side in ("before", "after")]
            print(name, counts, "of", len(rows), flush=True)
        held = {
            name: np.array([holds(row, "after") for row in rows]) for name, rows in studies.items()
        }
        rates = [rate for name, each in held.items() for rate in rates_of(name, each)]
        verdict = coverage_verdict(rates)
        print(f"after the remedies: {verdict}")
        if given.only:
            return
        result = {
            **about(PACKAGES),
            "verdict_after_the_remedies": asdict(verdict),
            "studies": studies,
        }
        RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    for name, rows in found["studies"].items():
        (FIGURES / f"trust-{name}.svg").write_text(drawn(name, rows), encoding="utf-8")


if __name__ == "__main__":
    main()
