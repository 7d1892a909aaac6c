"""A program: what is promised of failing disks, kills, signals and hostile files, put to the test.

    python tests/torture.py            # about an hour on two quiet cores
    python tests/torture.py --quick    # about ten minutes; `make torture TORTURE=quick`
    python tests/torture.py --only fuzzers "faults of recover"

Every attack is drawn from a seed and counts its tries and how they ended; one that never met what
it looks for has failed, too. Needs no root. Prints a table at the end, and writes it, older rows of
other attacks kept, to benchmarks/results/torture.json and into docs/reliability.md, with the load
of the machine, which is what seconds mean. The exit code is 1 where a promise was broken.
"""

import argparse
import contextlib
import dataclasses
import errno
import functools
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import tacit
from tacit.cli import main as command

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "torture.json"
PAGE = ROOT / "docs" / "reliability.md"
BETWEEN = re.compile(r"(<!-- torture -->\n).*?(<!-- /torture -->)", re.S)
CALLS = ("open", "write", "fsync", "replace", "unlink")
KEPT = ("recovery.npz", "history.parquet", "report.html", "demonstrations.parquet", "mdp.npz")
GIB = 2**30


class Broken(AssertionError):
    """A promise that did not hold."""


def make_problem(
    folder: Path, *, size: int = 5, episodes: int = 20, steps: int = 30, groups: bool = False
) -> None:
    """A problem on the paper's grid, with a noisy expert, or with two groups of them."""
    world = tacit.worlds.hill_grid(seed=0, size=size, tightness=0.5)
    solver = tacit.SoftDual(temperature=0.05)
    policy = tacit.solve(world.mdp, world.truth, solver=solver, throw=False).policy
    seen = tacit.simulate(world.mdp, policy, trajectories=episodes, steps=steps, seed=0)
    if groups:
        seen = dataclasses.replace(seen, groups=[f"group {i % 2}" for i in range(episodes)])
    tacit.runs.Problem(world.mdp, world.features, seen).save(folder)


def said(*words: str) -> tuple[int, str]:
    """The exit code of a command in this process, and what it said on standard error."""
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        code = command(list(words))
    return code, errors.getvalue()


def check_clear(code: int, errors: str, allowed: tuple[int, ...], what: str) -> None:
    """Raises `Broken` unless a command ended as it may, with one line where it failed."""
    lines = [line for line in errors.splitlines() if line.startswith("tacit: ")]
    if code not in allowed or "Traceback" in errors or (code == 4 and len(lines) != 1):
        raise Broken(f"{what}: exit code {code}, said {errors[-400:]!r}")


# --- failing calls --------------------------------------------------------------------------------


@contextlib.contextmanager
def failing(name: str, number: int, within: Path) -> Iterator[Counter]:
    """The `number`-th call of a function of `os` that concerns a folder fails: no space left."""
    real, met = getattr(os, name), Counter()

    def concerns(argument: object) -> bool:
        if isinstance(argument, int):  # a descriptor
            with contextlib.suppress(OSError):
                return os.readlink(f"/proc/self/fd/{argument}").startswith(str(within))
            return False
        return str(argument).startswith(str(within))

    def instead(*arguments: object, **keywords: object) -> object:
        writes = name != "open" or bool(arguments[1] & (os.O_WRONLY | os.O_RDWR))  # type: ignore
        if writes and concerns(arguments[0]):
            met["calls"] += 1
            if met["calls"] == number:
                met["failed"] += 1
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments, **keywords)

    setattr(os, name, instead)
    try:
        yield met
    finally:
        setattr(os, name, real)


def contents(folder: Path) -> dict[str, bytes]:
    """The files that are the same in every run, by path; `Broken` where one is no whole file."""
    found = {}
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        if path.suffix == ".json":
            json.loads(path.read_text("utf-8"))
        elif path.suffix == ".html" and not path.read_text("utf-8").rstrip().endswith("</html>"):
            raise Broken(f"{path.name} is no whole page")
        if path.name in KEPT or path.suffix in (".svg", ".csv"):
            # The page of a study tells how long it took.
            if path.suffix == ".html" and (folder / "results.json").exists():
                continue
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def make_log(path: Path) -> None:
    """A table of positions, as `tacit ingest` reads it."""
    rng, log = random.Random(0), ["episode,x,y,height"]
    for episode in range(6):
        x, y = 2, 2
        for _ in range(30):
            log.append(f"{episode},{x + 0.5},{y + 0.5},{x * y}")
            dx, dy = rng.choice([(0, 1), (1, 0), (0, -1), (-1, 0)])
            x, y = min(max(x + dx, 0), 4), min(max(y + dy, 0), 4)
    path.write_text("\n".join(log) + "\n")


ESTIMATE = ["--estimator", "likelihood", "--quiet", "--no-report"]
FEW = ["--trajectories", "4", "--steps", "30"]
# Command -> its words, the last of which names what it writes. A "problem" with groups, "one" and
# "two", runs of it, and "log.csv" lie beside it.
WRITERS: dict[str, list[str]] = {
    "recover": ["recover", "problem", *ESTIMATE, "--out", "out"],
    "recover --by group": ["recover", "problem", "--by", "group", *ESTIMATE, "--out", "out"],
    "simulate": ["simulate", "random", *FEW, "--quiet", "--out", "out"],
    "ingest": [
        *("ingest", "log.csv", "--x", "x", "--y", "y", "--cell", "1", "--columns", "height"),
        *("--quiet", "--out", "out"),
    ],
    "report": ["report", "--quiet", "out"],
    "figures": ["figures", "one", "--format", "svg", "--quiet", "--out", "out"],
    "compare": ["compare", "one", "two", "--quiet", "--out", "out/page.html"],
    "score": ["score", "one", "problem", "--quiet", "--out", "out/scores.csv"],
    "demo": ["demo", "--quiet", "--out", "out"],
    "reproduce": [
        *("reproduce", "paper", *FEW, "--seeds", "1", "--budget", "binding", "--jobs", "2"),
        *("--quiet", "--out", "out"),
    ],
    "leaderboard": [
        *("leaderboard", "--worlds", "walls-1", "--methods", "Cloning", "--seeds", "1"),
        *("--jobs", "1", "--quiet", "--out", "out"),
    ],
}
# Every so many calls; and how many of each kind at most: these take seconds each.
STRIDES, MOST = (
    {"demo": 4, "recover --by group": 2},
    {"reproduce": 12, "leaderboard": 12, "demo": 8},
)


def prepare(key: str, out: Path, run: Path) -> None:
    """Makes what a command finds where it writes."""
    shutil.rmtree(out, ignore_errors=True)
    if key == "report":
        shutil.copytree(run, out)
    elif key in ("compare", "score"):
        out.mkdir()


def faults(quick: bool, place: Path, *, key: str) -> Counter:
    """A fault at every n-th open, write, fsync, rename and unlink of a command that writes."""
    make_problem(place / "problem", groups=True)
    make_log(place / "log.csv")
    told: Counter = Counter()
    for name, estimator in (("one", "likelihood"), ("two", "convex")):
        run = ["recover", str(place / "problem"), "--estimator", estimator, *ESTIMATE[2:]]
        said(*run, "--out", str(place / name))
    inside = [str(place / one) if (place / one).exists() else one for one in WRITERS[key]]
    words = [str(place / one) if one.startswith("out") else one for one in inside]
    out = place / "out"
    prepare(key, out, place / "one")
    code, errors = said(*words)
    if code not in (0, 3):
        raise Broken(f"{key} does not run at all: {errors[-300:]}")
    wanted = contents(out)
    most = 2 if quick and key in MOST else MOST.get(key, 10_000)
    stride = STRIDES.get(key, 1) * (5 if quick else 1)
    for name in CALLS:
        for number in range(1, most * stride + 1, stride):
            prepare(key, out, place / "one")
            with failing(name, number, place) as met:
                code, errors = said(*words)
            if not met["failed"]:
                break
            what = f"{key}, {name} {number}"
            check_clear(code, errors, (0, 3, 4), what)
            left = [path.name for path in place.rglob("*.part")]
            if left:
                raise Broken(f"{what}: left {left}")
            for file, content in contents(out).items():
                if content != wanted.get(file):
                    raise Broken(f"{what}: {file} is not whole")
            told["refused in one line" if code == 4 else "went on"] += 1
            again = ["--overwrite"] if key.startswith("recover") and out.exists() else []
            if key in ("simulate", "ingest", "demo"):
                shutil.rmtree(out, ignore_errors=True)
            code, errors = said(*words, *again)
            check_clear(code, errors, (0, 3), f"after {what}")
            if contents(out) != wanted:
                raise Broken(f"after {what}: other bytes than without a fault")
    if not told["refused in one line"]:
        raise Broken("no fault was ever met")
    return told


# --- kills ----------------------------------------------------------------------------------------


def kills(quick: bool, place: Path) -> Counter:
    """Runs killed at random moments, each from empty caches, and resumed to the same bytes."""
    make_problem(place / "problem", size=16)
    words = [sys.executable, "-m", "tacit", "recover", "problem", "--no-report", "--quiet"]
    words += ["--estimator", "likelihood", "--resume", "--out"]

    def life(out: str, caches: Path) -> subprocess.Popen:
        names = ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR")
        found = os.environ | dict.fromkeys(names, str(caches)) | {"PYTHONPATH": str(ROOT / "src")}
        return subprocess.Popen([*words, out], cwd=place, env=found, stderr=subprocess.PIPE)

    began = time.monotonic()
    first = life("whole", place / "kept")
    if first.wait() not in (0, 3):
        raise Broken(f"an unbroken run ended with {first.returncode}: {first.stderr.read()[-300:]}")
    longest, told, rng = time.monotonic() - began, Counter(), random.Random(0)
    tries, until = (4, time.monotonic() + 150) if quick else (100, time.monotonic() + 900)
    while told.total() < tries and time.monotonic() < until:
        caches = place / f"caches-{told.total()}"
        one = life("run", caches)
        with contextlib.suppress(subprocess.TimeoutExpired):
            one.wait(rng.uniform(0.1, 1.1) * longest)
        one.kill()
        code = one.wait()
        told["killed" if code == -signal.SIGKILL else "over before"] += 1
        shutil.rmtree(caches, ignore_errors=True)
        if code in (0, 3):
            check_same(place)
    if not told["killed"]:
        raise Broken("no run was ever killed")
    if life("run", place / "last").wait() not in (0, 3):
        raise Broken("the last resumed run did not end well")
    check_same(place)
    told["resumed to the same bytes"] += 1
    return told


def check_same(place: Path) -> None:
    """Raises `Broken` unless the resumed run is the unbroken one; afterwards it is gone."""
    for name in ("recovery.npz", "history.parquet"):
        if (place / "run" / name).read_bytes() != (place / "whole" / name).read_bytes():
            raise Broken(f"{name} differs from that of an unbroken run")
    shutil.rmtree(place / "run")


def signals(quick: bool, place: Path) -> Counter:
    """SIGINT and SIGTERM at random moments (`tests/signals.py`)."""
    words = [sys.executable, str(ROOT / "tests" / "signals.py"), *(("10", "150") if quick else ())]
    done = subprocess.run(words, capture_output=True, text=True, cwd=place)
    told = Counter(
        {m[1].strip(): int(m[2]) for m in re.finditer(r"^(\D+?) +(\d+) of", done.stdout, re.M)}
    )
    if done.returncode or not told["answered"] + told["answered at once"]:
        raise Broken(f"{dict(told)} {done.stderr[-300:]}")
    return told


# --- files from elsewhere -------------------------------------------------------------------------


def fuzzers(quick: bool, place: Path) -> Counter:
    """Text and binary files with a few bytes changed: read, or refused in one line with a name."""
    import test_fuzz_readers as fuzz

    (place / "good").mkdir()
    (place / "bad").mkdir()
    good, rng, told = fuzz.seeds(place / "good"), random.Random(0), Counter()
    for name, read in fuzz.CASES:
        form = "text" if name.endswith(".csv") else "binary"
        tries = 20 if name == "named.parquet" else 200 if quick else 4000
        for _ in range(tries):
            changes = []
            for _ in range(rng.randint(1, 4)):
                kind = rng.choice(["flip", "set", "insert", "cut", "repeat", "end"])
                piece = rng.choice([*fuzz.PIECES, rng.randbytes(4)])
                amount = {"flip": rng.randrange(8), "set": piece, "insert": piece}
                changes.append((kind, rng.random(), amount.get(kind, rng.randint(1, 40))))
            path = place / "bad" / name
            path.write_bytes(fuzz.damaged(good[name], changes))
            try:
                outcome = fuzz.survives(read, path)
            except AssertionError as error:
                raise Broken(f"{name}: {changes}: {error}") from None
            told[f"{form} {'read' if outcome == 'read' else 'refused'}"] += 1
    for form in ("text", "binary"):
        if not told[f"{form} refused"]:
            raise Broken(f"no damage of {form} files was ever noticed")
    return told


def tests(*words: str) -> Callable[[bool, Path], Counter]:
    """An attack that is made of ordinary tests, chosen by these words of pytest."""

    def attack(quick: bool, place: Path) -> Counter:
        every = "not study" if quick else "study or not study"
        run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, "-m", every]
        found = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(run, cwd=ROOT, env=found, capture_output=True, text=True)
        told = Counter(
            {m[2]: int(m[1]) for m in re.finditer(r"(\d+) (passed|failed|skipped)", done.stdout)}
        )
        if done.returncode or not told["passed"]:
            raise Broken(f"{dict(told)} {done.stdout[-500:]}")
        return told

    return attack


# --- much of everything ---------------------------------------------------------------------------


def make_load(folder: Path, *, side: int, steps: int, constraints: int, features: int) -> None:
    """A problem on a grid that is walked everywhere, by one whom every constraint holds back.

    Args:
        folder: to write.
        side: rows and columns of the grid.
        steps: seen in all, a thousand an episode.
        constraints: how many.
        features: of reward and constraints together, shared out evenly: bumps on the grid.
    """
    import numpy as np

    rng, (row, column) = np.random.default_rng(0), np.divmod(np.arange(side * side), side)

    def bumps(count: int) -> np.ndarray:
        middle, width = rng.uniform(0, side, (count, 2)), rng.uniform(0.05, 0.2, count) * side
        away = (row[:, None] - middle[:, 0]) ** 2 + (column[:, None] - middle[:, 1]) ** 2
        return np.exp(-away / (2.0 * width**2))

    each = features // (constraints + 1)
    costs = [bumps(each) for _ in range(constraints)]
    reward = bumps(features - each * constraints)
    worth = reward @ rng.uniform(0.0, 1.0, reward.shape[1])
    worth = worth - sum(cost @ rng.uniform(0.0, 1.0, each) for cost in costs)
    moves = tacit.worlds.hill_grid(seed=0, size=side).mdp.transitions
    mdp = tacit.MDP(moves, np.full(side * side, 1.0 / side**2), 0.9)
    solver = tacit.SoftDual(temperature=0.2)
    policy = tacit.solve(mdp, tacit.Objective(worth), solver=solver, throw=False).policy
    seen = tacit.simulate(mdp, policy, trajectories=steps // 1000, steps=1000, seed=0)
    tacit.runs.Problem(mdp, tacit.Features(reward, costs), seen).save(folder)


LOADED = ("--no-report", "--estimator", "likelihood")


def start(place: Path, *words: str, gibibytes: float = 4.0) -> subprocess.Popen:
    """`tacit recover` of a problem within a limit of memory, in a process of its own."""
    # By a shell: between fork and exec a process with JAX in it must do nothing.
    limit = f'ulimit -d {int(gibibytes * GIB) // 1024} && exec "$0" "$@"'
    return subprocess.Popen(
        ["sh", "-c", limit, sys.executable, "-m", "tacit", "recover", "problem", *words],
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def peak(process: subprocess.Popen) -> tuple[int, float, str]:
    """(exit code, GiB that were in use at most, standard error) of a process, waited for."""
    assert process.stderr is not None
    errors = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_maxrss / 2**20, errors


def memory(quick: bool, place: Path, *, constraints: int, features: int, steps: int = 0) -> Counter:
    """`tacit recover` of ten million steps in a hundred thousand states within 4 GiB."""
    side, seen = (60, 10**5) if quick else (317, 10**7)
    make_load(place / "problem", side=side, steps=seen, constraints=constraints, features=features)
    few = ["--max-steps", str(steps)] if steps else []
    began = time.monotonic()
    code, most, errors = peak(start(place, *LOADED, *few, "--out", "run"))
    if code not in (0, 3) or "Traceback" in errors:
        raise Broken(f"exit code {code}: {errors[-400:]}")
    if most > 4.0:
        raise Broken(f"{most:.1f} GiB were in use")
    told = f"{side * side} states, {seen} steps: at most {most:.1f} GiB"
    told += f", {time.monotonic() - began:.0f} s at a load of {os.getloadavg()[0]:.0f}"
    return Counter({told + (f", stopped after {steps} steps of every fit" if steps else ""): 1})


def interruptions(quick: bool, place: Path) -> Counter:
    """SIGINT and SIGTERM at random moments of a recovery from ten million steps: within 1 s."""
    side, seen = (100, 10**6) if quick else (317, 10**7)
    make_load(place / "problem", side=side, steps=seen, constraints=1, features=6)
    words = (*LOADED, "--resume", "--out")
    began = time.monotonic()
    code, _, errors = peak(start(place, *words, "whole"))
    longest = time.monotonic() - began
    shown = [word for word in ("demonstrations read", "fit 1: step") if word in errors]
    if code not in (0, 3) or (not quick and len(shown) < 2):
        raise Broken(f"exit code {code}, progress of {shown}: {errors[-400:]}")
    rng, told, latest = random.Random(0), Counter(), 0.0
    for one in range(8 if quick else 20):
        process, number = start(place, *words, "run"), (signal.SIGINT, signal.SIGTERM)[one % 2]
        time.sleep(rng.uniform(0.3, longest))
        sent = time.monotonic()
        process.send_signal(number)
        code, _, errors = peak(process)
        # While Python takes itself down, after all is written, a signal acts as the system has it.
        if code in (0, 3) or (code == -number and (place / "run" / "run.json").exists()):
            told["over before"] += 1
            shutil.rmtree(place / "run")
            continue
        latest = max(latest, time.monotonic() - sent)
        if code != 128 + number or "Traceback" in errors or list(place.rglob("*.part")):
            raise Broken(f"{number.name} ended with {code}: {errors[-300:]}")
        told[number.name] += 1
    if latest > 1.0 or not told["SIGINT"] or not told["SIGTERM"]:
        raise Broken(f"{dict(told)}, the slowest after {latest:.2f} s")
    if peak(start(place, *words, "run"))[0] not in (0, 3):
        raise Broken("the last resumed run did not end well")
    check_same(place)
    return Counter(
        {f"{name}, answered after {latest:.2f} s at most": n for name, n in told.items()}
    )


ATTACKS: dict[str, Callable[[bool, Path], Counter]] = {
    **{f"faults of {key}": functools.partial(faults, key=key) for key in WRITERS},
    "kills": kills,
    "signals": signals,
    "fuzzers": fuzzers,
    "hostile runs": tests("tests/test_hostile.py"),
    "hostile names": tests(
        *("tests/test_hostile.py", "tests/test_report.py", "tests/test_recovery_page.py"),
        *("-k", "name_acts or becomes_markup or a_terminal_would or a_spreadsheet_would"),
    ),
    "workers lost": tests("tests/test_cluster.py", "-k", "loses"),
    "partners lost": tests("tests/test_sharding.py", "-k", "loses"),
    "interruptions": interruptions,
    "memory": functools.partial(memory, constraints=1, features=6),
    "memory, ten constraints": functools.partial(memory, constraints=10, features=22),
    "memory, 200 features": functools.partial(memory, constraints=1, features=200, steps=3),
}


def main() -> int:
    """The exit code: 1 where a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=ATTACKS)
    asked = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    rows = []
    for name in asked.only or ATTACKS:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="torture-") as place:
            try:
                told, broken = ATTACKS[name](asked.quick, Path(place)), ""
            except Broken as error:
                told, broken = Counter(), str(error)
        ended = ", ".join(f"{outcome}: {count}" for outcome, count in told.most_common())
        rows.append(
            {
                "attack": name,
                "tries": told.total(),
                "outcome": broken or ended,
                "held": not broken,
                "seconds": round(time.monotonic() - began),
                "load": round(os.getloadavg()[0]),
            }
        )
        write(rows, quick=asked.quick)
        print(f"{name:14} {'held' if not broken else 'BROKEN':6} {broken or ended}", flush=True)
    return int(not all(row["held"] for row in rows))


def write(rows: list[dict], *, quick: bool) -> None:
    """Writes the rows, in place of older ones of the same attacks, to result file and page."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from provenance import about

    page = about(("tacit-irl", "numpy", "jax", "numba", "polars"), command="make torture")
    found = json.loads(RESULTS.read_text("utf-8"))["rows"] if RESULTS.exists() else []
    every = {row["attack"]: row for row in found}
    every |= {row["attack"]: row | {"date": page["date"], "quick": quick} for row in rows}
    ordered = [every[name] for name in ATTACKS if name in every]
    RESULTS.write_text(json.dumps(page | {"rows": ordered}, indent=1) + "\n", "utf-8")
    table = [
        "",
        "| attack | date | tries | outcome | seconds | load |",
        "|---|---|---|---|---|---|",
    ]
    for row in ordered:
        verdict = row["outcome"] if row["held"] else "**broken**: " + row["outcome"][:200]
        day = row["date"] + (", quick" if row["quick"] else "")
        took = f"{row['seconds']} | {row.get('load', '')}"
        table.append(f"| {row['attack']} | {day} | {row['tries']} | {verdict} | {took} |")
    lines = "\n".join([*table, "", ""])
    PAGE.write_text(BETWEEN.sub(lambda m: m[1] + lines + m[2], PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
