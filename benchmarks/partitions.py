"""Ten million steps that are never in memory as a whole: time and peak memory beside one file.

    python benchmarks/partitions.py

Writes benchmarks/results/partitions.json. The same steps lie in one Parquet file and in a folder of
many. Each row is a process of its own that recovers the weights with their standard errors by
`Likelihood`; its seconds do not count imports, its peak memory does. Of several workers, the peak
is that of the one who merges.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from provenance import about


@dataclass(frozen=True)
class Args:
    """Recovering from many steps in parts."""

    steps: int = 10_000_000
    length: int = 200
    """Steps of an episode."""
    files: int = 40
    out: Path = Path(__file__).parent / "results" / "partitions.json"


RECOVER = """
import json, re, sys, time
import tacit
if __name__ == "__main__":
    world = tacit.worlds.hill_grid(seed=1, tightness=0.5).in_gauge
    path, workers = sys.argv[1], int(sys.argv[2])
    few = tacit.Demonstrations([0, 1], [0, 1], [0, 2])
    tacit.recover(world.mdp, world.features, few, estimator=tacit.Likelihood(), throw=False)
    start = time.perf_counter()
    if workers:
        seen = tacit.data.PartitionedDemonstrations(path, workers=workers)
    else:
        seen = tacit.Demonstrations.load(path)
    found = tacit.recover(world.mdp, world.features, seen, estimator=tacit.Likelihood())
    seconds = time.perf_counter() - start
    peak = int(re.search("VmHWM:\\\\s+([0-9]+) kB", open("/proc/self/status").read())[1])
    print(json.dumps({
        "seconds": seconds,
        "peak_gib": peak / 2**20,
        "weights": found.reward_weights.tolist(),
        "errors": found.identification.reward_standard_errors.tolist(),
    }))
"""


def write(folder: Path, args: Args) -> tuple[Path, Path]:
    """(one file, a folder of files) with the same steps."""
    world = tacit.worlds.hill_grid(seed=1, tightness=0.5).in_gauge
    policy = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(0.01)).policy
    episodes = args.steps // args.length
    walks = tacit.simulate(world.mdp, policy, trajectories=episodes, steps=args.length, seed=0)
    one, many = folder / "one.parquet", folder / "many"
    walks.save(one)
    parts = np.array_split(np.arange(episodes), args.files)
    tacit.data.write_partitions((walks.select(part) for part in parts), many)
    return one, many


def measure(path: Path, workers: int) -> dict[str, Any]:
    """Seconds, peak memory and answer of a recovery in a process of its own."""
    script = path.parent / "recover.py"
    script.write_text(RECOVER)
    command = [sys.executable, str(script), str(path), str(workers)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main(args: Args) -> None:
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        one, many = write(Path(folder), args)
        cases = [("one file, in memory", one, 0)]
        cases += [(f"{args.files} files, {n} worker{'s' * (n > 1)}", many, n) for n in (1, 2)]
        rows = [{"case": name} | measure(path, workers) for name, path, workers in cases]
    whole = rows[0]
    for row in rows:
        weights, errors = np.array(row.pop("weights")), np.array(row.pop("errors"))
        if row is whole:
            reference = weights, errors
        row["weight_difference"] = float(np.abs(weights - reference[0]).max())
        row["error_difference"] = float(np.abs(errors / reference[1] - 1).max())
        print(json.dumps(row, indent=1))
    document = {
        **about(("tacit-irl", "polars", "joblib"), load=load),
        "steps": args.steps,
        "rows": rows,
    }
    args.out.parent.mkdir(exist_ok=True)
    args.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    import tyro

    main(tyro.cli(Args))
