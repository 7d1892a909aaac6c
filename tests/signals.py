"""A program: `tacit recover` asked to end at many moments; none may be lost, and all go on.

    python tests/signals.py [TRIES [SECONDS]]

Every try starts the command in a process of its own, waits until it works, and sends SIGINT or
SIGTERM after a random time; seeds make it the same every time, as far as clocks allow. It must end
within four seconds with 130 or 143 and one line, or have been over before. In the end the run is
resumed to the bits of one that nobody interrupted. Prints a table; the exit code is 1 where
something was lost.
"""

import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import tacit

WORDS = [sys.executable, "-m", "tacit", "recover", "problem", "--estimator", "convex"]
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


def make_problem(folder: Path) -> None:
    """A problem whose recovery takes a few seconds, most of them in JAX."""
    world = tacit.worlds.hill_grid(seed=0, size=12)
    solver = tacit.SoftDual(temperature=0.05)
    policy = tacit.solve(world.mdp, world.truth, solver=solver, throw=False).policy
    seen = tacit.simulate(world.mdp, policy, trajectories=30, steps=60, seed=0)
    tacit.runs.Problem(world.mdp, world.features, seen).save(folder)


def recover(place: Path, out: str, *more: str) -> subprocess.Popen[str]:
    """The command at work in a process of its own."""
    words = [*WORDS, "--out", out, "--holdout", "0.3", "--no-report", "--tolerance", "1e-12", *more]
    return subprocess.Popen(
        words, cwd=place, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )


def attempt(place: Path, rng: random.Random, longest: float) -> str:
    """How one interrupted life ended."""
    number = rng.choice([*CODES])
    life = recover(place, "run", "--resume")
    journal = place / "run" / "journal"
    while life.poll() is None and not journal.exists():
        time.sleep(0.01)
    time.sleep(rng.uniform(0.0, longest))
    if life.poll() is not None:
        return "over before"
    life.send_signal(number)
    asked = time.monotonic()
    _, said = life.communicate(timeout=60)
    if life.returncode != CODES[number]:
        # It may have been over, and on its way out, when it was asked.
        return "over before" if (place / "run" / "run.json").exists() else "LOST"
    if time.monotonic() - asked > 4.0:
        return "LATE"
    return "answered" if said.splitlines()[-1:] != [] and "Traceback" not in said else "UNCLEAR"


def main(tries: int, seconds: float) -> int:
    """The exit code, after so many tries or so many seconds."""
    rng, told, start = random.Random(0), Counter[str](), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        make_problem(place / "problem")
        begun = time.monotonic()
        recover(place, "whole").communicate()
        longest = time.monotonic() - begun
        for _ in range(tries):
            if time.monotonic() - start > seconds:
                break
            told[attempt(place, rng, longest)] += 1
            if (place / "run" / "run.json").exists():
                check_same(place)
        recover(place, "run", "--resume").communicate()
        check_same(place)
    for outcome, count in told.most_common():
        print(f"{outcome:12} {count:4} of {sum(told.values())}")
    return int(any(outcome.isupper() for outcome in told))


def check_same(place: Path) -> None:
    """The resumed run holds the bytes of the unbroken one; afterwards it is gone."""
    for name in ("recovery.npz", "history.parquet", "extras.npz"):
        whole, pieces = ((place / run / name).read_bytes() for run in ("whole", "run"))
        assert whole == pieces, f"{name} differs from that of an unbroken run"
    for path in sorted((place / "run").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


if __name__ == "__main__":
    limits = [float(word) for word in sys.argv[1:]]
    sys.exit(main(int(limits[0]) if limits else 200, limits[1] if len(limits) > 1 else 900.0))
