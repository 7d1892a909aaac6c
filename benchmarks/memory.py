"""Peak memory of tacit and of its peers on the same grids, each in a process of its own.

    python benchmarks/memory.py

The paper's grid, discount 0.95. `before` is what the process holds once the packages are imported
and the model is built; `added` is what a solver takes on top of it at its peak, its own copy of the
model included, since the peers have one. Each runs at the setting that `forward.json` found fastest
for it at that size; what took longer than half a minute there is left out. Writes
benchmarks/results/memory.json.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

from provenance import about

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "memory.json"
DISCOUNT = 0.95
SIZES = (32, 100, 316, 1000)
# Seconds that one solve may take in forward.json to be measured here.
PATIENCE = 30.0


def status_gib(name: str) -> float:
    """VmHWM or VmRSS. Not by getrusage: there a child starts with its parent's peak."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None, "needs Linux"
    return int(found[1]) / 2**20


def forget_peak() -> float:
    """Gives back what is free, lets the peak count from now on, and says what is held."""
    gc.collect()
    # What malloc keeps for later would hide what a solver takes: budgets were placed by solving.
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return status_gib("VmRSS")


def jobs() -> list[dict[str, Any]]:
    """What forward.json shows to finish in time, with the settings that were fastest."""
    rows = json.loads((HERE / "results" / "forward.json").read_text())["rows"]
    return [
        {"size": size, **{name: row[name] for name in ("states", "task", "solver", "settings")}}
        for size in SIZES
        for row in rows
        if row["problem"] == f"hill {size}x{size}"
        and row["discount"] == DISCOUNT
        and row["task"] in ("constrained", "unconstrained")
        and row["status"] == "done"
        and row["seconds"] <= PATIENCE
    ]


def measured(job: dict[str, Any]) -> dict[str, Any]:
    """One solve here, and the memory it took."""
    sys.path.insert(0, str(HERE))
    import forward  # pyright: ignore[reportMissingImports]

    known = (forward.TACIT, *forward.CONSTRAINED, *forward.UNCONSTRAINED)
    (entrant,) = (one for one in known if one.name == job["solver"])
    (settings,) = (
        one for one in entrant.settings if not one or forward.describe(one) == job["settings"]
    )
    small, problem = (forward.hill(size, DISCOUNT, 0) for size in (5, job["size"]))
    if job["task"] == "unconstrained":
        small, problem = (one.wanting(one.objective.reward) for one in (small, problem))
    # Imports and compilation are part of `before`: they do not grow with the model.
    entrant.load(small, settings, 100.0)()[0]()
    before = forget_peak()
    run, read = entrant.load(problem, settings, 100.0)()
    status = read(run()).status
    peak = status_gib("VmHWM")
    return job | {
        "status": status,
        "before_gib": before,
        "added_gib": peak - before,
        "peak_gib": peak,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    if args.child:
        warnings.simplefilter("ignore")  # the peers' deprecations are not our business
        print(json.dumps(measured(json.loads(args.child))))
        return
    rows = []
    for job in jobs():
        command = [sys.executable, __file__, "--child", json.dumps(job)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            rows.append(job | {"status": f"failed: {reason}"})
        else:
            rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(json.dumps(rows[-1]), flush=True)
    names = ("tacit-irl", "numpy", "scipy", "highspy", "quantecon", "mdpsolver", "pymdptoolbox")
    report = {
        **about(names),
        "discount": DISCOUNT,
        "rows": rows,
    }
    args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
