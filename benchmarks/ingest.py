"""Reading ten million steps: time beside Polars' own scan of the same file, and peak memory.

    python benchmarks/ingest.py

Writes benchmarks/results/ingest.json. Every file is written by Polars, not by tacit. The scan
`select(all().sum())` and `Demonstrations.load` take turns in one process, and the best of each
counts. The peak resident memory, imports included, is that of a process that reads the file once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars

from provenance import about
from tacit import Demonstrations


@dataclass(frozen=True)
class Args:
    """Reading large tables of steps."""

    steps: int = 10_000_000
    length: int = 100
    """Steps of an episode."""
    states: int = 500
    actions: int = 6
    repeats: int = 5
    out: Path = Path(__file__).parent / "results" / "ingest.json"


# Read the file once and say how many kibibytes of memory that took at its peak. (Not by getrusage:
# on Linux a child starts with the peak of the process that started it.)
PEAK = """
import re, sys
read = Demonstrations.load_named if sys.argv[2] == "named" else Demonstrations.load
seen = read(sys.argv[1])
print(re.search("VmHWM:\\\\s+([0-9]+) kB", open("/proc/self/status").read())[1])
"""

# (largest ratio of times, largest peak in GiB) that was promised, by row.
TARGETS = {"CSV": (4.0, 1.0), "Parquet": (15.0, 1.0)}


def tables(args: Args) -> dict[str, polars.DataFrame]:
    """The frames to write: numbers in order, names, and numbers in any order."""
    random = np.random.default_rng(0)
    row = np.arange(args.steps)
    plain = polars.DataFrame(
        {
            "episode": row // args.length,
            "step": row % args.length,
            "state": random.integers(args.states, size=args.steps),
            "action": random.integers(args.actions, size=args.steps),
        }
    )
    named = plain.with_columns(
        state=polars.format("room {}", "state"), action=polars.format("door {}", "action")
    )
    return {
        "numbers": plain,
        "named": named,
        "shuffled": plain.sample(fraction=1, shuffle=True, seed=0),
    }


def measure(path: Path, kind: str, args: Args) -> dict[str, Any]:
    """The best time of a scan and of a reading, and the peak memory of a reading."""
    scan = polars.scan_csv if path.suffix == ".csv" else polars.scan_parquet
    # A text has no sum: its lengths do.
    columns = polars.all() if kind != "named" else polars.all().cast(str).str.len_bytes()
    load = Demonstrations.load_named if kind == "named" else Demonstrations.load
    scans, loads = [], []
    for _ in range(args.repeats):
        start = time.perf_counter()
        scan(path).select(columns.sum()).collect()
        middle = time.perf_counter()
        load(path)
        scans.append(middle - start)
        loads.append(time.perf_counter() - middle)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(path), kind], check=True, capture_output=True, text=True
    )
    return {
        "megabytes": round(path.stat().st_size / 1e6, 1),
        "scan_seconds": min(scans),
        "load_seconds": min(loads),
        "ratio": min(loads) / min(scans),
        "peak_gib": int(done.stdout) / 2**20,
    }


def main(args: Args) -> None:
    rows = []
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        for kind, frame in tables(args).items():
            for name in ("CSV", "Parquet"):
                path = Path(folder) / f"{kind}.{name.lower()}"
                (frame.write_csv if name == "CSV" else frame.write_parquet)(path)
                row = {"table": kind, "format": name, "steps": len(frame)}
                rows.append(row | measure(path, kind, args))
                path.unlink()
                print(json.dumps(rows[-1], indent=1), flush=True)
    ratios = {(row["table"], row["format"]): row for row in rows}
    targets = [
        {
            "target": f"{name}: at most {ratio:g} times the scan, peak under {peak:g} GiB",
            "measured": f"{ratios['numbers', name]['ratio']:.1f} times, "
            f"{ratios['numbers', name]['peak_gib']:.2f} GiB",
            "reached": ratios["numbers", name]["ratio"] <= ratio
            and ratios["numbers", name]["peak_gib"] < peak,
        }
        for name, (ratio, peak) in TARGETS.items()
    ]
    document = {
        **about(("tacit-irl", "polars", "numpy"), load=load),
        "rows": rows,
        "targets": targets,
    }
    args.out.parent.mkdir(exist_ok=True)
    args.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(targets, indent=1))


if __name__ == "__main__":
    import tyro

    main(tyro.cli(Args))
