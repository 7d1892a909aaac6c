"""How many states `Explanation` can take when all intervals must be there within a minute.

    python benchmarks/explanation_scale.py
    python benchmarks/explanation_scale.py --limit 5 --sizes 5 10    # a quick look; writes as well

The paper's grid with a binding budget and an exactly optimal demonstrator. The whole of
`tacit.recover(..., estimator=tacit.Explanation())` is timed: the point and the interval of every
weight. Each size is a process of its own, with its peak memory; it is stopped a little after the
limit, and no larger size is tried then. Writes benchmarks/results/explanation_scale.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import tacit
from provenance import about

RESULTS = Path(__file__).parent / "results" / "explanation_scale.json"
PACKAGES = ("tacit-irl", "numpy", "scipy", "numba", "highspy")
SIZES = (5, 10, 20, 32, 45, 64, 80, 100, 141, 200)
LIMIT = 60.0  # seconds: the largest size under it is the answer
GRACE = 30.0  # a run is stopped this long after the limit; making the world counts here


def measured(size: int) -> dict[str, Any]:
    """One recovery here, with what it found and the peak memory of this process."""
    world = tacit.worlds.hill_grid(0, size=size, discount=0.95, tightness=0.5)
    expert = tacit.solve(world.mdp, world.truth)
    seen = tacit.simulate(world.mdp, expert.policy, trajectories=100, steps=20 * size, seed=0)
    start = time.perf_counter()
    recovery = tacit.recover(
        world.mdp, world.features, seen, estimator=tacit.Explanation(), throw=False
    )
    seconds = time.perf_counter() - start
    known = recovery.identification
    widths = [
        float(high - low) for low, high in [*known.reward_intervals, *known.cost_intervals[0]]
    ]
    # Not by getrusage: on Linux a child starts with the peak of the process that started it.
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return {
        "size": size,
        "states": world.mdp.states,
        "actions": world.mdp.actions,
        "observed_steps": seen.steps,
        "intervals": len(widths),
        "widest": max(widths),
        "seconds": seconds,
        "status": recovery.status.name,
        "peak_gib": int(peak[1]) / 2**20 if peak else None,
    }


def apart(size: int, limit: float) -> dict[str, Any]:
    """The same in a process of its own; without a time where it was stopped."""
    command = [sys.executable, __file__, "--child", str(size)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit + GRACE, check=True
        )
    except subprocess.TimeoutExpired:
        return {"size": size, "states": size**2, "seconds": None, "status": "STOPPED"}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of one recovery")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measured(args.child)))
        return
    load = os.getloadavg()[0]
    rows: list[dict[str, Any]] = []
    for size in args.sizes:
        rows.append(apart(size, args.limit))
        print(json.dumps(rows[-1]), flush=True)
        save(args.out, rows, limit=args.limit, load=load)  # what is done is kept
        if rows[-1]["seconds"] is None or rows[-1]["seconds"] > args.limit:
            break


def save(path: Path, rows: list[dict[str, Any]], *, limit: float, load: float) -> None:
    inside = [row["states"] for row in rows if row["seconds"] and row["seconds"] <= limit]
    report = {
        **about(PACKAGES, load=load),
        "limit_seconds": limit,
        "grace_seconds": GRACE,
        "largest_states_within_the_limit": max(inside, default=0),
        "rows": rows,
    }
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
