"""Whether tacit has become slower, measured against its peers or its past, never in seconds.

    python benchmarks/regression.py                      # beside its peers
    git worktree add --detach ../then COMMIT
    python benchmarks/regression.py --against ../then    # beside itself as it was

The first runs the rows of `forward.py --quick` (25 to 1 024 states, the peers beside tacit in the
same process) and compares each ratio, peer's time / tacit's time, with the committed results. A
slower machine slows both, so the ratio stays. A ratio that fell by more than 30 % is measured
again: short runs are noisy, and only what stays down counts. Exits with 1 and names the rows that
fell.

The second runs warm solves and recoveries (tacit's own rows of `forward.py --quick`, soft solves,
what `recovery.py --quick` fits) in two processes that live side by side, one of each checkout, by
turns: every case of one, then of the other, round after round. It compares seconds of the
processor, with one thread. Everything is measured twice, with JAX loaded before and without: an
earlier commit may choose its engine by that. Ratios are time now / time then: above one is slower.
Writes benchmarks/results/regression.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "forward.json"
RATIOS = HERE / "results" / "regression.json"
PACKAGES = ("numpy", "scipy", "jax", "jaxlib", "numba", "highspy")
# One thread: what several do at once is no work of this process alone.
ALONE = {"OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
MOMENT = 0.1  # seconds of the processor for which a short case is repeated in one round
ALLOWED = 0.30  # the share of a ratio that may be lost
ATTEMPTS = 3  # a row must have fallen in each of so many runs

Key = tuple[str, float, str, str]  # problem, discount, task, peer


@dataclass(frozen=True)
class Fall:
    """A ratio that is lower than it was: peer's time / tacit's time, then and now."""

    key: Key
    before: float
    now: float

    def __str__(self) -> str:
        problem, discount, task, peer = self.key
        lost = 1.0 - self.now / self.before
        return (
            f"{problem}, {discount:g}, {task}, against {peer}: "
            f"{self.before:.3g} times then, {self.now:.3g} now, {lost:.0%} lost"
        )


def ratios(rows: Iterable[dict[str, Any]]) -> dict[Key, float]:
    """Peer's time / tacit's, by row; only where both finished, since a bound is no measurement."""
    done = {
        (row["problem"], row["discount"], row["task"], row["solver"]): row["seconds"]
        for row in rows
        if row["status"] == "done" and row["seconds"]
    }
    return {
        key: seconds / done[*key[:3], "tacit"]
        for key, seconds in done.items()
        if key[3] != "tacit" and (*key[:3], "tacit") in done
    }


def falls(before: dict[Key, float], now: dict[Key, float]) -> list[Fall]:
    """Rows known to both whose ratio fell by more than is allowed, the worst first."""
    lost = [
        Fall(key, before[key], now[key])
        for key in before.keys() & now.keys()
        if now[key] < (1.0 - ALLOWED) * before[key]
    ]
    return sorted(lost, key=lambda fall: fall.now / fall.before)


def judged(
    before: dict[Key, float], measure: Callable[[], dict[Key, float]], attempts: int = ATTEMPTS
) -> tuple[list[Fall], int]:
    """What fell in every attempt, and how many rows were compared.

    Raises:
        SystemExit: nothing could be compared.
    """
    best: dict[Key, float] = {}
    for _ in range(attempts):
        for key, ratio in measure().items():
            best[key] = max(ratio, best.get(key, 0.0))
        if not before.keys() & best.keys():
            raise SystemExit("no row of this run is in the committed results: are peers installed?")
        if not falls(before, best):
            break
    return falls(before, best), len(before.keys() & best.keys())


def committed(path: Path) -> dict[str, Any]:
    """The results as they were committed, even where a run has just written new ones."""
    shown = subprocess.run(
        ["git", "show", f"HEAD:./{path.name}"], cwd=path.parent, capture_output=True, check=False
    )
    text = shown.stdout if shown.returncode == 0 else path.read_bytes()
    return json.loads(text)


def quick_run() -> dict[Key, float]:
    """The ratios of the quick rows, measured now."""
    sys.path.insert(0, str(HERE))
    import forward  # pyright: ignore[reportMissingImports]

    rows = []
    for row in forward.benchmark(forward.Args(quick=True)):
        rows.append(dataclasses.asdict(row))
        print(".", end="", flush=True)
    print()
    return ratios(rows)


# --------------------------------------------------------------------------------------------------
# Beside itself as it was
# --------------------------------------------------------------------------------------------------


def solves() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Warm solves by name: tacit's rows of `forward.py --quick`, and the soft ones."""
    import forward  # pyright: ignore[reportMissingImports]
    import tacit

    problems = [
        (forward.hill(size, discount, 0), discount)
        for size in (5, 10, 32)
        for discount in (0.95, 0.99)
    ]
    problems.append((forward.random_sparse(300, 0.95, 0), 0.95))
    for problem, discount in problems:
        reward, costs = problem.objective.tables(problem.mdp)
        price = float(tacit.solve(problem.mdp, problem.objective).multipliers[0])
        noisy = tacit.SoftDual(temperature=forward.soft_temperature(discount))
        for task, objective, solver in (
            ("constrained", problem.objective, None),
            ("unconstrained", tacit.Objective(reward), None),
            ("priced", tacit.Objective(reward - price * costs[0]), None),
            ("soft", problem.objective, noisy),
        ):
            name = f"{problem.name}, {discount:g}, {task}"
            yield name, lambda m=problem.mdp, o=objective, s=solver: tacit.solve(m, o, solver=s)


def recoveries() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Warm recoveries by name: what the studies of `recovery.py` fit, and Algorithm 1.

    The model is warm, the demonstrations are new to it each time: no sums of theirs are kept.
    """
    import tacit

    worlds = [tacit.worlds.hill_grid(4, tightness=0.5)]
    worlds.append(tacit.worlds.hill_grid(4, tightness=0.5, reward_weights=[0.3, 0.7]))
    features = worlds[0].features

    def seen(world: Any, price: float) -> Any:
        weights = world.in_gauge
        tables = features.objective(weights.reward_weights, weights.cost_weights, [1.0])
        priced = tacit.Objective(tables.reward - price * tables.costs[0])
        policy = tacit.solve(world.mdp, priced, solver=tacit.SoftDual(temperature=0.0025)).policy
        return tacit.simulate(world.mdp, policy, trajectories=100, steps=2000, seed=1)

    best = tacit.solve(worlds[0].mdp, worlds[0].truth).policy
    optimal = tacit.simulate(worlds[0].mdp, best, trajectories=100, steps=2000, seed=1)
    priced, free = seen(worlds[0], 0.05), seen(worlds[0], 0.0)
    mdp = worlds[0].mdp
    for name, estimator, shown in (
        ("Likelihood", tacit.Likelihood(), priced),
        ("Likelihood, constraint not active", tacit.Likelihood(), free),
        ("Convex", tacit.Convex(), priced),
        ("Explanation", tacit.Explanation(), optimal),
        ("Alternating", tacit.Alternating(), optimal),
    ):
        yield (
            name,
            lambda e=estimator, d=shown: tacit.recover(
                mdp, features, dataclasses.replace(d), estimator=e, throw=False
            ),
        )
    both = [tacit.Task(world.mdp, features, seen(world, 0.05)) for world in worlds]
    yield "two tasks", lambda: tacit.recover(both, throw=False)


def work(jax_before: bool, only: str) -> None:
    """A process of one checkout: says its cases, then times each that it reads from its input."""
    warnings.simplefilter("ignore")
    if jax_before:
        import jax  # noqa: F401
    sys.path.insert(0, str(HERE))
    cases = {name: run for name, run in (*solves(), *recoveries()) if only in name}
    for run in cases.values():  # compiling, and what a model keeps
        run()
    print(json.dumps(list(cases)), flush=True)
    for line in sys.stdin:
        run, times = cases[json.loads(line)], []
        while not times or (sum(times) < MOMENT and len(times) < 200):
            began = time.process_time()
            run()
            times.append(time.process_time() - began)
        print(json.dumps(median(times)), flush=True)


def started(checkout: Path, jax_before: bool, only: str) -> subprocess.Popen[str]:
    """A process that runs the cases of this file with the tacit of a checkout."""
    words = [sys.executable, __file__, "--work", "--only", only]
    words += ["--jax-before"] if jax_before else []
    paths = [str((checkout / "src").resolve()), os.environ.get("PYTHONPATH", "")]
    around = {**os.environ, **ALONE, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.Popen(
        words, env=around, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def told(worker: subprocess.Popen[str], word: str | None = None) -> Any:
    """What the process says next, after it was told a word."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    if word is not None:
        worker.stdin.write(json.dumps(word) + "\n")
        worker.stdin.flush()
    line = worker.stdout.readline()
    if not line:
        raise SystemExit("one of the processes ended: what it said is above")
    return json.loads(line)


def beside(
    then: Path, now: Path, *, jax_before: bool, rounds: int, only: str
) -> list[dict[str, Any]]:
    """One row a case, of two checkouts measured by turns."""
    workers = [started(place, jax_before, only) for place in (then, now)]
    try:
        names, _ = (told(worker) for worker in workers)
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for turn in range(rounds):
            order = (0, 1) if turn % 2 == 0 else (1, 0)
            for name in names:
                taken = {which: told(workers[which], name) for which in order}
                times[name].append((taken[0], taken[1]))
            print(".", end="", flush=True)
        print()
        return [slowdown(name, jax_before, times[name]) for name in names]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def slowdown(name: str, jax_before: bool, times: list[tuple[float, float]]) -> dict[str, Any]:
    """The row of a case: median milliseconds then and now, and the median of the rounds' ratios."""
    then, now = zip(*times, strict=True)
    each = sorted(b / a for a, b in times)
    return {
        "case": name,
        "jax_loaded_before": jax_before,
        "then_ms": round(1e3 * median(then), 4),
        "now_ms": round(1e3 * median(now), 4),
        "ratio": round(median(each), 3),
        "least_and_largest": [round(each[0], 3), round(each[-1], 3)],
        "least_over_least": round(min(now) / min(then), 3),
    }


def compare(then: Path, *, rounds: int, only: str, out: Path) -> None:
    """Measures this checkout beside another, prints the ratios and writes them."""
    from provenance import about, commit

    now, load = HERE.parent, os.getloadavg()[0]
    commits = {"then": commit(then), "now": commit(now)}
    rows = []
    for jax_before in (False, True):
        rows += beside(then, now, jax_before=jax_before, rounds=rounds, only=only)
    for row in rows:
        loaded = "JAX loaded before" if row["jax_loaded_before"] else "as it comes"
        text = f"{row['case']:36} {loaded:18} {row['then_ms']:10.3f} {row['now_ms']:10.3f} ms"
        print(f"{text} {row['ratio']:6.2f} times")
    shown = f"python benchmarks/regression.py --against CHECKOUT --rounds {rounds}"
    shown += f" --only {only!r}" if only else ""
    head = about(PACKAGES, load=load, command=shown)
    document = {**head, **commits, "unit": "CPU seconds, one thread", "rows": rows}
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="what to compare with")
    parser.add_argument("--against", type=Path, help="another checkout, instead of the peers")
    parser.add_argument("--rounds", type=int, default=7, help="turns that each checkout takes")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--out", type=Path, default=RATIOS, help="where the ratios go")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--jax-before", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(args.jax_before, args.only)
    if args.against is not None:
        return compare(args.against, rounds=args.rounds, only=args.only, out=args.out)
    warnings.simplefilter("ignore")  # the peers' deprecations are not our business
    fallen, compared = judged(ratios(committed(args.results)["rows"]), quick_run)
    for fall in fallen:
        print(fall)
    print(f"{compared} ratios compared, {len(fallen)} fell by more than {ALLOWED:.0%}")
    if fallen:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
