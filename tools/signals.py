"""A program: `tacit recover` asked to end at many moments; none may be lost, and all go on.

    python tools/signals.py [TRIES [SECONDS]]

A warm process runs the command again and again, so that a try costs no start of Python and no
compiling; it tells when a run begins. From then on a random time is waited, anywhere within the
length of a whole run, and SIGINT or SIGTERM is sent. The command must end within four seconds with
130 or 143 and one line, or have been over before; a process that ended itself at once is followed
by a new one. Whenever a resumed run is whole it must be the answer of one that nobody interrupted.
Prints a table; the exit code is 1 where something was lost.
"""

import contextlib
import io
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import answers
import tacit
from tacit.cli import main as tacit_main

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
WORDS = ["recover", "problem", "--estimator", "convex", "--holdout", "0.3", "--no-report"]
PATIENCE = 4.0  # seconds within which an end must come


def make_problem(folder: Path) -> None:
    """A small problem; most of the time of its recovery is spent in JAX."""
    world = tacit.worlds.hill_grid(seed=0, size=6)
    solver = tacit.SoftDual(temperature=0.05)
    policy = tacit.solve(world.mdp, world.truth, solver=solver, throw=False).policy
    seen = tacit.simulate(world.mdp, policy, trajectories=20, steps=40, seed=0)
    tacit.runs.Problem(world.mdp, world.features, seen).save(folder)


def serve() -> None:
    """Runs the command once a line of standard input, into the folder that it names.

    Says "began", and then the exit code and whether it said one clear line. Asked "?", it says how
    many signals came while no command was there to hear them.
    """
    outside = list[int]()
    for number in CODES:
        signal.signal(number, lambda came, frame: outside.append(came))
    for line in sys.stdin:
        if line == "?\n":
            print(len(outside), flush=True)
            continue
        outside.clear()
        said = io.StringIO()
        print("began", flush=True)
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code = tacit_main([*WORDS, "--out", line.strip(), "--resume"])
        lines = [one for one in said.getvalue().splitlines() if one.startswith("tacit: ")]
        clear = len(lines) == int(code != 0) and "Traceback" not in said.getvalue()
        print(code, int(clear), flush=True)


class Server:
    """A warm process that runs the command."""

    def __init__(self, place: Path) -> None:
        self.place = place
        words = [sys.executable, __file__, "--serve"]
        pipe = subprocess.PIPE
        self.life = subprocess.Popen(words, cwd=place, stdin=pipe, stdout=pipe, stderr=pipe)

    def ask(self, line: str) -> str | None:
        """What it answers to a line: "began" to the name of a folder, a number to "?"."""
        assert self.life.stdin is not None
        self.life.stdin.write(f"{line}\n".encode())
        self.life.stdin.flush()
        return self.line(600.0)

    def line(self, seconds: float) -> str | None:
        """What it says next, "" where it has ended; None where it says nothing in time."""
        assert self.life.stdout is not None
        ready, _, _ = select.select([self.life.stdout], [], [], seconds)
        return self.life.stdout.readline().decode().strip() if ready else None

    def whole(self, out: str) -> float:
        """Seconds that a run takes that nobody interrupts."""
        begun = time.monotonic()
        self.ask(out)
        code, clear = (self.line(600.0) or "lost 0").split()
        assert (code, clear) == ("0", "1"), f"the run ended with {code}"
        return time.monotonic() - begun

    def attempt(self, rng: random.Random, longest: float) -> str:
        """How a run ended that was asked to at a random moment."""
        number = rng.choice([*CODES])
        self.ask("run")
        time.sleep(rng.uniform(0.0, longest))
        os.kill(self.life.pid, number)
        told = self.line(PATIENCE)
        if told is None:
            self.life.kill()
            return "LATE"
        if told == "":  # it ended at once, with the whole process
            said = (self.life.stderr.read() if self.life.stderr else b"").decode()
            clear = "tacit: " in said and "Traceback" not in said
            code = self.life.wait()
            return ("answered at once" if clear else "UNCLEAR") if code == CODES[number] else "LOST"
        code, clear = map(int, told.split())
        if code != CODES[number]:
            return "over before" if self.ask("?") == "1" else "LOST"
        return "answered" if clear else "UNCLEAR"


def main(tries: int, seconds: float) -> int:
    """The exit code, after so many tries or so many seconds."""
    rng, told, wholes, start = random.Random(0), Counter[str](), 0, time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        make_problem(place / "problem")
        server = Server(place)
        server.whole("whole")
        longest = server.whole("again")  # the first one compiled
        while told.total() < tries and time.monotonic() - start < seconds:
            if server.life.poll() is not None:
                server = Server(place)
                server.whole(f"warm-{wholes}-{told.total()}")
            told[server.attempt(rng, longest)] += 1
            if (place / "run" / "run.json").exists():
                wholes += check_same(place)
        if server.life.poll() is not None:
            server = Server(place)
        server.whole("run")
        wholes += check_same(place)
        server.life.kill()
        server.life.wait()
    for outcome, count in told.most_common():
        print(f"{outcome:18} {count:4} of {told.total()}")
    print(f"resumed to the same answer: {wholes}; a whole run takes {longest:.2f} s")
    return int(any(outcome.isupper() for outcome in told))


def check_same(place: Path) -> int:
    """1: the resumed run is the answer of the unbroken one; afterwards it is gone."""
    answers.check_same(*(tacit.Recovery.load(place / run) for run in ("whole", "run")))
    shutil.rmtree(place / "run")
    return 1


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        limits = [float(word) for word in sys.argv[1:]]
        sys.exit(main(int(limits[0]) if limits else 200, limits[1] if len(limits) > 1 else 240.0))
