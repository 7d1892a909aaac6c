"""How time grows with the number of problems, of demonstrated steps, and of states.

    python benchmarks/curves.py
    python benchmarks/curves.py --longest 10      # leaves out what would take longer
    python benchmarks/curves.py --only gradient   # one of problems, steps, gradient

Problems: `Convex` on the paper's 5 x 5 grid, from one problem on, in one `recover_many` and as a
loop over `recover`. Steps: a Parquet file of that many steps is read and its weights recovered with
their standard errors by `Likelihood`. Gradient: one gradient of `Convex` with its Hessian, in all
weights of the paper's grid at discount 0.9, from 1 024 to a million states.

Times are the best of up to three after a first call that compiles. A size that would take longer
than `--longest` seconds, growing linearly, is left out. Writes benchmarks/results/curves.json.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from provenance import about

RESULTS = Path(__file__).parent / "results" / "curves.json"
PACKAGES = ("tacit-irl", "numpy", "scipy", "jax", "numba", "polars")
PROBLEMS = (1, 10, 100, 1_000, 10_000, 100_000)
SIZES = (32, 100, 316, 1000)  # grids of size x size states
STEPS = (10_000, 100_000, 1_000_000, 10_000_000)


def best_of(work: Callable[[], Any], repeats: int = 3, slow: float = 5.0) -> float:
    """Seconds of the fastest call after one that compiles; a slow one is made once more only."""
    times = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
        if len(times) > 1 and times[-1] > slow:
            break
    return min(times[1:])


def grid() -> tuple[Any, Any]:
    """The paper's grid and a noisy expert on it."""
    world = tacit.worlds.hill_grid(seed=0, tightness=0.5)
    return world, tacit.SoftDual(temperature=0.0025).solve(world.mdp, world.truth).policy


def visits(world: Any, policy: np.ndarray, problems: int) -> np.ndarray:
    """[problems, S, A] discounted visits of resampled trajectories."""
    walks = tacit.simulate(world.mdp, policy, trajectories=100, steps=200, seed=1)
    weight = world.mdp.discount**walks.step / (1 - world.mdp.discount**200)
    pairs = world.mdp.states * world.mdp.actions
    index = (walks.episode * world.mdp.states + walks.states) * world.mdp.actions + walks.actions
    tables = np.bincount(index, weight, 100 * pairs).reshape(100, pairs)
    draws = np.random.default_rng(0).multinomial(100, np.full(100, 0.01), problems)
    return (draws @ tables / 100).reshape(problems, world.mdp.states, world.mdp.actions)


def by_problems(longest: float) -> list[dict[str, Any]]:
    world, policy = grid()
    seen = [
        tacit.simulate(world.mdp, policy, trajectories=100, steps=200, seed=n) for n in range(100)
    ]

    def loop(count: int) -> None:
        for demonstrations in seen[:count]:
            tacit.recover(
                world.mdp, world.features, demonstrations, estimator=tacit.Convex(), throw=False
            )

    rows: list[dict[str, Any]] = []
    for way, sizes in (("one call", PROBLEMS), ("a loop", PROBLEMS[:3])):
        for count in sizes:
            before = [r for r in rows if r["way"] == way]
            if before and before[-1]["seconds"] * count / before[-1]["problems"] > longest:
                break
            if way == "one call":
                every = visits(world, policy, count)
                # A name bound now: `every` is another array in the next round.
                work = lambda every=every: tacit.many.recover_many(  # noqa: E731
                    world.mdp, world.features, every, estimator=tacit.Convex()
                )
            else:
                work = lambda count=count: loop(count)  # noqa: E731
            rows.append({"way": way, "problems": count, "seconds": best_of(work)})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def by_steps(longest: float) -> list[dict[str, Any]]:
    world, policy = grid()
    rows: list[dict[str, Any]] = []
    for steps in STEPS:
        if rows and rows[-1]["seconds"] * 10 > longest:
            break
        walks = tacit.simulate(world.mdp, policy, trajectories=steps // 1000, steps=1000, seed=0)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "walks.parquet"
            walks.save(path)
            read = best_of(lambda path=path: tacit.Demonstrations.load(path))

            def whole(path: Path = path) -> None:
                seen = tacit.Demonstrations.load(path)
                tacit.recover(
                    world.mdp, world.features, seen, estimator=tacit.Likelihood(), throw=False
                )

            rows.append({"steps": steps, "read_seconds": read, "seconds": best_of(whole)})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def by_states(longest: float) -> list[dict[str, Any]]:
    from tacit.engine.backends import backend_of
    from tacit.likelihood.steps import StepsChain
    from tacit.model.features.design import Design
    from tacit.search.smooth_dual import point_at

    rows: list[dict[str, Any]] = []
    for size in SIZES:
        if rows and rows[-1]["seconds"] * size**2 / rows[-1]["states"] > longest:
            break
        world = tacit.worlds.hill_grid(0, size=size, discount=0.9)
        mdp, space = world.mdp, Design.of(world.mdp, world.features)
        at, nothing = np.ones(space.size), np.zeros((mdp.states, mdp.actions))
        problem = StepsChain.matching(mdp, space, nothing).dual
        engine, start = backend_of(mdp), np.zeros(mdp.states)
        # Names bound now: each is another object in the next round.
        work = lambda e=engine, p=problem, x=at, v=start: point_at(e, p, x, v, 1e-9)  # noqa: E731
        row = {"states": mdp.states, "weights": space.size, "seconds": best_of(work)}
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


STUDIES = {"problems": by_problems, "steps": by_steps, "gradient": by_states}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--longest", type=float, default=240.0, help="seconds")
    parser.add_argument("--only", nargs="+", choices=STUDIES, default=list(STUDIES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    load = os.getloadavg()[0]
    kept = {}
    if set(args.only) < set(STUDIES) and args.out.exists():
        kept = json.loads(args.out.read_text("utf-8"))
    report: dict[str, Any] = {"parts": kept.get("parts", {})}
    for name, study in STUDIES.items():
        report[name] = study(args.longest) if name in args.only else kept.get(name, [])
    report["parts"] |= dict.fromkeys(args.only, about(PACKAGES, load=load))
    args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
