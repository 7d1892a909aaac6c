"""A program: what is promised of failing disks, kills, signals and hostile files, put to the test.

    python tools/torture.py            # about half an hour on two quiet cores
    python tools/torture.py --quick    # some minutes, and writes nothing; `TORTURE=quick`
    python tools/torture.py --only fuzzers "faults of recover"
    python tools/torture.py --table    # attacks nothing: the page, from the result file

Every attack is drawn from a seed and counts its tries and how they ended; one that never met what
it looks for has failed, too. One that takes longer than its bound is cut off, which breaks no
promise and is said. Needs no root. Each is a process of its own, two at a time, the longest first.
Whenever one has ended its row is written, older rows of other attacks kept, to
benchmarks/results/torture.json, and from that file the table of docs/reliability.md and what is
said below it: with the load of the machine, which is what seconds mean, and with the seconds of one
core that it took, which mean the same under any load. The exit code is 1 where a promise was
broken, and 2 where none was but something was cut off.
"""

import argparse
import contextlib
import dataclasses
import functools
import io
import itertools
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
from datetime import UTC, datetime
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import answers
import tacit
from faulty import CALLS, failing, spread
from tacit.cli import main as command

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "torture.json"
PAGE = ROOT / "docs" / "reliability.md"
BETWEEN = re.compile(r"(<!-- torture -->\n).*?(<!-- /torture -->)", re.S)
KEPT = ("recovery.npz", "history.parquet", "report.html", "demonstrations.parquet", "problem.npz")
GIB = 2**30
BOUND = 3600.0  # seconds after which an attack is ended: several times what it takes


class Broken(AssertionError):
    """A promise that did not hold."""


class CutOff(Exception):
    """An attack that was not done in its time: nothing is known of the rest."""


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
        *("reproduce", "paper", "--size", "3", "--trajectories", "2", "--steps", "6"),
        *("--seeds", "1", "--budget", "binding", "--jobs", "2", "--quiet", "--out", "out"),
    ],
    "leaderboard": [
        *("leaderboard", "--worlds", "walls-1", "--methods", "Cloning", "--seeds", "1"),
        *("--jobs", "1", "--quiet", "--out", "out"),
    ],
}
# Every so many calls, of commands that write by the means of others and take seconds each.
STRIDES = {"demo": 10, "recover --by group": 4, "figures": 5}


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
    for name, estimator in (("one", "likelihood"), ("two", "convex")):
        run = ["recover", str(place / "problem"), "--estimator", estimator, *ESTIMATE[2:]]
        said(*run, "--out", str(place / name))
    inside = [str(place / one) if (place / one).exists() else one for one in WRITERS[key]]
    words = [str(place / one) if one.startswith("out") else one for one in inside]
    with spread(place / "site") if key == "reproduce" else contextlib.nullcontext() as order:
        return every_fault(key, place, words, order, 5 if quick else 1)


def every_fault(key: str, place: Path, words: list[str], order: Path | None, nth: int) -> Counter:
    """How a command ended under a fault at each call, or at every `nth` one.

    Args:
        key: of the command.
        place: its folder, which holds what it writes, "out".
        words: of the command.
        order: that its processes obey.
        nth: times as many calls are left out.
    """
    out, told, stride = place / "out", Counter(), STRIDES.get(key, 1) * nth
    prepare(key, out, place / "one")
    code, errors = said(*words)  # before any fault; the processes that it starts are used again
    if code not in (0, 3):
        raise Broken(f"{key} does not run at all: {errors[-300:]}")
    wanted, elsewhere = contents(out), 0
    for name in CALLS:
        for number in itertools.count(1, stride):
            prepare(key, out, place / "one")
            with failing(name, number, out if order else place, order=order) as met:
                code, errors = said(*words)
            elsewhere += met["elsewhere"]
            if not met["failed"]:
                break
            told[check_fault(key, place, words, wanted, code, errors, f"{name} {number}")] += 1
    if order is not None and not elsewhere:
        raise Broken("no other process ever wrote")
    if not told["refused in one line"]:
        raise Broken("no fault was ever met")
    return told


def check_fault(
    key: str,
    place: Path,
    words: list[str],
    wanted: dict[str, bytes],
    code: int,
    errors: str,
    fault: str,
) -> str:
    """How a command ended that met a fault; raises `Broken` where a promise is.

    Args:
        key: of the command.
        place: its folder, which holds what it writes, "out".
        words: of the command.
        wanted: what it writes without a fault.
        code: how it ended.
        errors: what it said.
        fault: the call that failed.
    """
    what, out = f"{key}, {fault}", place / "out"
    check_clear(code, errors, (0, 3, 4), what)
    if left := [path.name for path in place.rglob("*.part")]:
        raise Broken(f"{what}: left {left}")
    for file, content in contents(out).items():
        if content != wanted.get(file):
            raise Broken(f"{what}: {file} is not whole")
    outcome = "refused in one line" if code == 4 else "went on"
    again = ["--overwrite"] if key.startswith("recover") and out.exists() else []
    if key in ("simulate", "ingest", "demo"):
        shutil.rmtree(out, ignore_errors=True)
    code, errors = said(*words, *again)
    check_clear(code, errors, (0, 3), f"after {what}")
    if contents(out) != wanted:
        raise Broken(f"after {what}: other bytes than without a fault")
    return outcome


# --- kills ----------------------------------------------------------------------------------------


def kills(
    quick: bool, place: Path, *, size: int, tries: int, words: tuple[str, ...] = ()
) -> Counter:
    """Runs killed at random moments, each from empty caches, and resumed to the same answer.

    Args:
        quick: few.
        place: to work in.
        size: rows and columns of the grid; up to 14 nothing is compiled, above 16 the fit is.
        tries: runs to kill; those that are over before are not counted among them.
        words: further words of `tacit recover`.
    """
    make_problem(place / "problem", size=size)
    every = [sys.executable, "-m", "tacit", "recover", "problem", "--no-report", "--quiet"]
    every += ["--estimator", "likelihood", *words, "--resume", "--out"]

    def life(out: str) -> subprocess.Popen:
        names = ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR")
        caches = dict.fromkeys(names[:2], str(place / "caches"))
        found = {k: v for k, v in os.environ.items() if k not in names}
        found |= caches | {"PYTHONPATH": str(ROOT / "src")}
        return subprocess.Popen([*every, out], cwd=place, env=found, stderr=subprocess.PIPE)

    def whole(out: str) -> float:
        """Seconds that a run takes that nobody kills."""
        shutil.rmtree(place / "caches", ignore_errors=True)
        began, one = time.monotonic(), life(out)
        errors = one.communicate()[1]
        if one.returncode not in (0, 3):
            raise Broken(f"an unbroken run ended with {one.returncode}: {errors[-300:]}")
        return time.monotonic() - began

    longest, told, rng = whole("whole"), Counter(), random.Random(0)
    kept = (path for path in (place / "caches").rglob("*") if path.is_file())
    if any(kept) != (size > 14):
        raise Broken(f"{size * size} states: compiled or not, against what was meant")
    tries = max(2, tries // 20) if quick else tries
    while told["killed"] < tries:
        shutil.rmtree(place / "caches", ignore_errors=True)
        began, one = time.monotonic(), life("run")
        with contextlib.suppress(subprocess.TimeoutExpired):
            one.wait(rng.uniform(0.0, longest))
        one.kill()
        errors, code = one.communicate()[1], one.returncode
        if code == -signal.SIGKILL:
            told["killed"] += 1
            told["of these with a checkpoint"] += (place / "run" / "checkpoint.npz").exists()
            continue
        if code not in (0, 3):
            raise Broken(f"a resumed run ended with {code}: {errors[-300:]}")
        check_same(place)
        # A machine that is less busy than it was when the unbroken run was timed.
        longest = min(longest, time.monotonic() - began)
        told["ended before, with the same answer"] += 1
        if told["ended before, with the same answer"] > 10 + 2 * tries:
            raise Broken(f"runs end before they are killed: {dict(told)}")
    whole("run")
    check_same(place)
    told["the last one resumed to the same answer"] += 1
    if not quick and not told["of these with a checkpoint"]:
        raise Broken(f"no run that was killed had kept anything: {dict(told)}")
    return told


def check_same(place: Path) -> None:
    """Raises `Broken` unless the resumed run is the unbroken one; afterwards it is gone."""
    try:
        answers.check_same(*(tacit.Recovery.load(place / run) for run in ("whole", "run")))
    except AssertionError as error:
        raise Broken(f"not the answer of an unbroken run: {' '.join(str(error).split())}") from None
    shutil.rmtree(place / "run")


def signals(quick: bool, place: Path) -> Counter:
    """SIGINT and SIGTERM at random moments (`tools/signals.py`)."""
    tries = 10 if quick else 100
    words = [sys.executable, str(ROOT / "tools" / "signals.py"), str(tries), str(0.9 * BOUND)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=place)
    told = Counter(
        {m[1].strip(): int(m[2]) for m in re.finditer(r"^(\D+?) +(\d+) of", done.stdout, re.M)}
    )
    if done.returncode or not told["answered"] + told["answered at once"]:
        raise Broken(f"{dict(told)} {done.stderr[-300:]}")
    if told.total() < tries:
        raise CutOff(f"{told.total()} of {tries} signals were sent, none lost: {dict(told)}")
    return told


# --- files from elsewhere -------------------------------------------------------------------------


def fuzzers(quick: bool, place: Path) -> Counter:
    """Text and binary files with a few bytes changed: read, or refused in one line with a name."""
    sys.path.append(str(ROOT / "tests" / "files"))
    import test_fuzz_readers as fuzz

    (place / "good").mkdir()
    (place / "bad").mkdir()
    good, rng, told = fuzz.seeds(place / "good"), random.Random(0), Counter()
    for name, read in fuzz.CASES:
        form = "text" if name.endswith(".csv") else "binary"
        tries = 20 if name == "named.parquet" else 200 if quick else 2500
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


def chosen_tests(*words: str, mark: str = "study or not study") -> Callable[[bool, Path], Counter]:
    """An attack that is made of ordinary tests, chosen by these words of pytest and their marks."""

    def attack(quick: bool, place: Path) -> Counter:
        every = "not study" if quick and mark != "study" else mark
        run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, "-m", every]
        found = os.environ | {"PYTHONPATH": str(ROOT / "src"), "TACIT_EXAMPLES": "1"}
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
    if process.returncode is not None:  # it was over when a signal was to be sent
        return process.returncode, 0.0, errors
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_maxrss / 2**20, errors


def await_handlers(process: subprocess.Popen) -> None:
    """Waits until a process hears signals itself, or has ended: `python` has to begin first."""
    asked, status = 1 << (signal.SIGTERM - 1), Path(f"/proc/{process.pid}/status")
    for _ in range(600):
        now = status.read_text()
        caught = re.search(r"^SigCgt:\s*(\w+)", now, re.M)
        if caught is None or int(caught[1], 16) & asked or re.search(r"^State:\s*Z", now, re.M):
            return
        time.sleep(0.1)


def memory(
    quick: bool,
    place: Path,
    *,
    constraints: int,
    features: int,
    side: int = 317,
    seen: int = 10**7,
    surely: bool = True,
) -> Counter:
    """`tacit recover` of much within 4 GiB, to its end, which it has to call by its name.

    Args:
        quick: little of everything.
        place: to work in.
        constraints: how many.
        features: of reward and constraints together.
        side: rows and columns of the grid.
        seen: steps.
        surely: whether the search must come to its end; else it may say that it has not.
    """
    if quick:
        side, seen, features = 40, 10**4, min(features, 50)
    make_load(place / "problem", side=side, steps=seen, constraints=constraints, features=features)
    code, most, errors = peak(start(place, *LOADED, "--out", "run"))
    if code not in ((0,) if surely else (0, 3)) or "Traceback" in errors:
        raise Broken(f"exit code {code}: {errors[-400:]}")
    if most > 4.0:
        raise Broken(f"{most:.1f} GiB were in use")
    found = tacit.Recovery.load(place / "run")
    if (code == 3) != (found.status.name == "NOT_CONVERGED"):
        raise Broken(f"exit code {code} beside {found.status.name}")
    well = found.status.name in ("CONVERGED", "LOCAL_OPTIMUM")
    active = int(found.identification.active.sum())
    ended = f"converged, {active} of {constraints} constraints active"
    if not well:
        ended = f"{found.status.name}, as it says"
    told = f"{side * side} states, {seen} steps, {features} features: at most {most:.1f} GiB"
    return Counter({f"{told}; {ended}": 1})


def interruptions(quick: bool, place: Path) -> Counter:
    """A recovery from ten million steps within 4 GiB, then ended at every stage: within 1 s."""
    side, seen, tries = (100, 10**6, 4) if quick else (317, 10**7, 10)
    make_load(place / "problem", side=side, steps=seen, constraints=1, features=6)
    words = (*LOADED, "--resume", "--out")
    began = time.monotonic()
    code, most, errors = peak(start(place, *words, "whole"))
    longest = time.monotonic() - began
    shown = errors.count(": step ")  # and how much was read, where that takes long enough to wait
    if code or most > 4.0 or (not quick and shown < 2):
        raise Broken(
            f"exit code {code}, {most:.1f} GiB, {shown} lines of progress: {errors[-300:]}"
        )
    rng, told, latest = random.Random(0), Counter(), 0.0
    shares = [(one + rng.random()) / tries for one in range(tries)]
    rng.shuffle(shares)
    met = 0
    while met < tries:
        shutil.rmtree(place / "run", ignore_errors=True)
        began, process = time.monotonic(), start(place, *words, "run")
        number = (signal.SIGINT, signal.SIGTERM)[met % 2]
        time.sleep(shares[met] * longest)
        await_handlers(process)
        sent = time.monotonic()
        process.send_signal(number)
        code, _, errors = peak(process)
        # While Python takes itself down, after all is written, a signal acts as the system has it.
        if code == 0 or (code == -number and (place / "run" / "run.json").exists()):
            # A machine that is less busy than it was when the unbroken run was timed.
            longest = min(longest, 0.9 * (sent - began))
            told["over before"] += 1
            if told["over before"] > 10 + 2 * tries:
                raise Broken(f"runs end before they are ended: {dict(told)}")
            continue
        met += 1
        latest = max(latest, time.monotonic() - sent)
        if code != 128 + number or "Traceback" in errors or list(place.rglob("*.part")):
            raise Broken(f"{number.name} ended with {code}: {errors[-300:]}")
        told[number.name] += 1
    if latest > 1.0 or not told["SIGINT"] or not told["SIGTERM"]:
        raise Broken(f"{dict(told)}, the slowest after {latest:.2f} s")
    if peak(start(place, *words, "run"))[0]:
        raise Broken("the last resumed run did not end well")
    check_same(place)
    size = f"{side * side} states, {seen} steps, at most {most:.1f} GiB, {longest:.0f} s"
    return told + Counter(
        {f"unbroken ({size})": 1, f"all answered within {latest:.2f} s, the last resumed": 1}
    )


VERDICTS = ("held", "broken", "cut off")
NAMES = "name_acts or becomes_markup or a_terminal_would or a_spreadsheet_would"
# The longest first.
ATTACKS: dict[str, Callable[[bool, Path], Counter]] = {
    "ten constraints": functools.partial(memory, constraints=10, features=22),
    "ten million steps": interruptions,
    "200 features, all states": functools.partial(
        memory, constraints=1, features=200, surely=False
    ),
    "kills, compiled": functools.partial(kills, size=17, tries=12),
    "faults of reproduce": functools.partial(faults, key="reproduce"),
    "studies": chosen_tests("tests", "-k", f"not (loses or {NAMES})", mark="study"),
    "kills": functools.partial(kills, size=14, tries=88, words=("--discount-grid", "0.8")),
    "200 features": functools.partial(memory, constraints=1, features=200, side=50, seen=10**5),
    "signals": signals,
    "fuzzers": fuzzers,
    **{f"faults of {key}": functools.partial(faults, key=key) for key in WRITERS},
    "hostile runs": chosen_tests("tests/folders/test_hostile.py", "-k", f"not ({NAMES})"),
    "hostile names": chosen_tests(
        "tests/folders/test_hostile.py",
        "tests/show/test_report.py",
        "tests/show/test_recovery_page.py",
        "-k",
        NAMES,
    ),
    "workers lost": chosen_tests("tests/many/test_cluster.py", "-k", "loses"),
    "partners lost": chosen_tests("tests/engine/test_sharding.py", "-k", "loses"),
}


def attempt(name: str, *, quick: bool, note: Path) -> None:
    """Makes one attack, and notes how its tries ended."""
    told, broken, cut = Counter(), "", False
    with tempfile.TemporaryDirectory(prefix="torture-") as place:
        try:
            told = ATTACKS[name](quick, Path(place))
        except Broken as error:
            broken = str(error)
        except CutOff as error:
            broken, cut = str(error), True
        except Exception as error:  # a row of the table, not the end of the others
            broken = f"{type(error).__name__}: {error}"
    # What says more of tries that were counted already is no try.
    more = ("of these", "all answered", "the last one")
    tries = sum(count for outcome, count in told.items() if not outcome.startswith(more))
    ended = ", ".join(f"{outcome}: {count}" for outcome, count in told.most_common())
    row = {"attack": name, "tries": tries, "outcome": broken or ended, "held": not broken}
    row |= {"cut": True} if cut else {}
    note.write_text(json.dumps(row), "utf-8")


def run_all(names: list[str], *, quick: bool, lanes: int, bound: float) -> Iterator[dict]:
    """The row of each attack, as they end; each is a process of its own."""
    waiting, running = list(names), dict[int, tuple[str, float, Path, subprocess.Popen]]()
    with tempfile.TemporaryDirectory(prefix="torture-") as notes, contextlib.ExitStack() as last:
        last.callback(lambda: [_end(pid) for pid in running])
        while waiting or running:
            while waiting and len(running) < lanes:
                name, note = waiting.pop(0), Path(notes, str(len(waiting)))
                words = [sys.executable, __file__, "--note", str(note), "--only", name]
                # Gone with ours, however it ends.
                room = os.environ | {"TMPDIR": str(note) + ".room"}
                Path(room["TMPDIR"]).mkdir()
                words += ["--quick"] * quick
                one = subprocess.Popen(words, start_new_session=True, env=room)
                running[one.pid] = (name, time.monotonic(), note, one)
            ended, _, used = os.wait4(-1, os.WNOHANG)
            for pid, (_, began, *_) in running.items():
                if pid != ended and time.monotonic() > began + bound:
                    _end(pid)
            if ended not in running:
                time.sleep(0.5)
                continue
            name, began, note, one = running.pop(ended)
            one.returncode = 0
            took = time.monotonic() - began
            row = {"attack": name, "tries": 0, "held": False, "outcome": f"after {took:.0f} s"}
            row |= {"cut": True} if took > bound else {"outcome": "its process was lost"}
            if note.exists():
                row = json.loads(note.read_text("utf-8"))
            row["seconds"], row["core_seconds"] = round(took), round(used.ru_utime + used.ru_stime)
            yield row | {"load": round(os.getloadavg()[0])}


def _end(group: int) -> None:
    """Ends the processes of an attack."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def main() -> int:
    """The exit code: 1 where a promise was broken, 2 where only something was cut off."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer and smaller ones of each")
    parser.add_argument("--only", nargs="+", choices=ATTACKS, help="these attacks")
    parser.add_argument("--lanes", type=int, default=2, help="attacks at a time")
    parser.add_argument("--bound", type=float, default=BOUND, help="seconds of an attack")
    parser.add_argument("--table", action="store_true", help="write the page anew, attack nothing")
    parser.add_argument("--note", type=Path, help="make the one attack here, and note it in a file")
    asked = parser.parse_args()
    if asked.note is not None:
        attempt(asked.only[0], quick=asked.quick, note=asked.note)
        return 0
    if asked.table:
        write_page(json.loads(RESULTS.read_text("utf-8")))
        return 0
    began, rows, begun = time.monotonic(), [], datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    how = {"quick": asked.quick, "lanes": asked.lanes, "bound": asked.bound}
    load = os.getloadavg()[0]
    for row in run_all(asked.only or list(ATTACKS), **how):
        rows.append(row | {"run": begun})
        if not asked.quick:
            minutes = round((time.monotonic() - began) / 60)
            write(rows, {"begun": begun, "minutes": minutes, "lanes": asked.lanes}, load)
        print(f"{row['attack']:28} {verdict_of(row):8} {row['outcome']}")
        print(f"{'':28} {row['seconds']} s, {row['core_seconds']} s of one core", flush=True)
    spent = sum(row["core_seconds"] for row in rows)
    print(f"{len(rows)} attacks: {time.monotonic() - began:.0f} s, {spent} s of one core")
    verdicts = {verdict_of(row) for row in rows}
    return 1 if "broken" in verdicts else 2 if "cut off" in verdicts else 0


def verdict_of(row: dict) -> str:
    """How an attack ended, in a word or two."""
    return "held" if row["held"] else "cut off" if row.get("cut") else "broken"


def write(rows: list[dict], run: dict, load: float) -> None:
    """Writes the rows, in place of older ones of the same attacks, to result file and page.

    Args:
        rows: of this run.
        run: when it began, the minutes since, attacks at a time.
        load: of the machine before.
    """
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from provenance import about, every_module

    packages = ("tacit-irl", "numpy", "jax", "numba", "polars")
    page = about(packages, load=load, command="make torture", modules=every_module()) | {"run": run}
    found = json.loads(RESULTS.read_text("utf-8"))["rows"] if RESULTS.exists() else []
    every = {row["attack"]: row for row in found}
    every |= {row["attack"]: row | {"date": page["date"]} for row in rows}
    page["rows"] = [every[name] for name in ATTACKS if name in every]
    RESULTS.write_text(json.dumps(page, indent=1) + "\n", "utf-8")
    write_page(page)


def write_page(page: dict) -> None:
    """Writes the table and what is said of it into the documentation."""
    lines = "\n".join(["", *table_of(page["rows"]), "", sentences_of(page), "", ""])
    PAGE.write_text(BETWEEN.sub(lambda m: m[1] + lines + m[2], PAGE.read_text("utf-8")), "utf-8")


def table_of(rows: list[dict]) -> list[str]:
    """The lines of the table."""
    lines = [
        "| attack | date | tries | outcome | seconds | of one core | load |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        said = " ".join(row["outcome"].split()).replace("|", "/")
        ended = said if row["held"] else f"**{verdict_of(row)}**: {said[:200]}"
        took = f"{row['seconds']} | {row.get('core_seconds', '')} | {row.get('load', '')}"
        lines.append(f"| {row['attack']} | {row['date']} | {row['tries']} | {ended} | {took} |")
    return lines


def sentences_of(page: dict) -> str:
    """What is said below the table: how many held, of which runs they are, under which load."""
    rows, run = page["rows"], page.get("run", {})
    by = {word: [row["attack"] for row in rows if verdict_of(row) == word] for word in VERDICTS}
    counts = [f"{len(by['held'])} held"]
    counts += [
        f"{len(by[word])} {word} ({', '.join(by[word])})" for word in VERDICTS[1:] if by[word]
    ]
    tries = sum(row["tries"] for row in rows)
    said = [f"Of {len(rows)} attacks with {tries} tries, {'; '.join(counts)}."]
    own = [row["attack"] for row in rows if run and row.get("run") == run["begun"]]
    others = [row["attack"] for row in rows if row["attack"] not in own]
    missing = [name for name in ATTACKS if name not in {row["attack"] for row in rows}]
    if own:
        every = "All are" if not others else f"{len(own)} {'is' if len(own) == 1 else 'are'}"
        cores = page["machine"]["cores"]
        said.append(
            f"{every} of one run, begun on {run['begun']} UTC, which took {run['minutes']} "
            f"minutes, {run['lanes']} attacks at a time, on {cores} cores."
        )
    if others:
        begun = {row["attack"]: row.get("run") or row["date"] for row in rows}
        which = [
            f"{when} ({', '.join(name for name in others if begun[name] == when)})"
            for when in sorted({begun[name] for name in others})
        ]
        said.append(f"Of other runs, begun (UTC): {'; '.join(which)}.")
    if missing:
        said.append(f"Not met yet: {'; '.join(missing)}.")
    loads = [row["load"] for row in rows if "load" in row]
    if loads and max(loads) > 2 * page["machine"]["cores"]:
        said.append(
            f"Under a load of up to {max(loads)} an attack had a small part of a core: seconds "
            "tell of the machine's other work then, those of one core of the attack."
        )
    return " ".join(said)


if __name__ == "__main__":
    sys.exit(main())
