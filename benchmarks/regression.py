"""Whether tacit has become slower, measured against its peers and never in seconds.

    python benchmarks/regression.py

Runs the rows of `forward.py --quick` (25 to 1 024 states, the peers beside tacit in the same
process) and compares each ratio, peer's time / tacit's time, with the committed results. A slower
machine slows both, so the ratio stays. A ratio that fell by more than 30 % is measured again: short
runs are noisy, and only what stays down counts. Exits with 1 and names the rows that fell.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "forward.json"
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


def main() -> None:
    import warnings

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="what to compare with")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # the peers' deprecations are not our business
    fallen, compared = judged(ratios(committed(args.results)["rows"]), quick_run)
    for fall in fallen:
        print(fall)
    print(f"{compared} ratios compared, {len(fallen)} fell by more than {ALLOWED:.0%}")
    if fallen:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
