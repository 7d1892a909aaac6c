"""How long a machine that never ran tacit waits for its first answer.

    python benchmarks/first_answer.py
    python benchmarks/first_answer.py --repeats 1 --no-compiled   # a look

Every answer is the first of a new process with empty caches (HOME, XDG_CACHE_HOME and
NUMBA_CACHE_DIR name an empty folder), its imports included: an exact solve with no constraint, one
and two, a noisy solve, a recovery by `Likelihood`, and `tacit recover` on a text folder: until it
prints its answer, and until its report is written. Python's own byte code of tacit is there, as
after `pip install`; without it every process compiles the source, 0.3 to 0.4 seconds of work.

The worlds are the paper's grid of 5 x 5, 10 x 10 and 14 x 14 states and a model of 200 states in
which every state leads to every other. `compiled`, on the smallest, is the same process when told
to compile at once, as beyond 200 states and after 1.5 seconds of such work.

Seconds are of the clock, the least of the repeats, and of the processor; on a machine that others
use, the latter is what the work takes. Says which of JAX and numba were loaded. Writes
benchmarks/results/first_answer.json.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import tacit
from provenance import about

RESULTS = Path(__file__).parent / "results" / "first_answer.json"
PACKAGES = ("tacit-irl", "numpy", "scipy", "jax", "numba", "polars", "matplotlib")
WORLDS = {"grid 25": 5, "grid 100": 10, "grid 196": 14, "dense 200": 0}
TASKS = ("nothing", "exact", "exact 1", "exact 2", "noisy", "likelihood", "answer", "command")

# One process, one answer. What is timed begins with the first import.
CHILD = """
import io, json, resource, sys, time
began = time.perf_counter()
task, size, folder, compiled = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4] == "1"
import numpy as np
import tacit
if compiled:
    from tacit.engine import kernels
    kernels.ALLOWANCE = 0.0
    from tacit.engine import backends
    whole = backends._build
    backends._build = lambda mdp, mesh, _: whole(mdp, mesh, True)

def draw():
    if size:
        world = tacit.worlds.hill_grid(seed=0, size=size, tightness=0.5)
        return world.mdp, world.features, world.truth
    rng = np.random.default_rng(0)
    mdp = tacit.MDP(rng.dirichlet(np.full(200, 0.5), size=(200, 4)), np.full(200, 1 / 200), 0.95)
    features = tacit.Features(reward=rng.random((200, 6)), costs=[rng.random((200, 2))])
    return mdp, features, features.objective(np.full(6, 1 / 6), [np.full(2, 0.5)], [8.0])

def answer():
    if task == "nothing":
        return
    if task in ("answer", "command"):
        return command()
    mdp, features, truth = draw()
    if task == "exact":
        return tacit.solve(mdp, tacit.Objective(truth.reward))
    if task == "exact 1":
        return tacit.solve(mdp, truth, throw=False)
    if task == "exact 2":
        rng = np.random.default_rng(1)
        costs = np.concatenate([truth.tables(mdp)[1], rng.random((1, mdp.states, mdp.actions))])
        both = tacit.Objective(truth.reward, costs, [truth.budgets[0], 0.49 / (1 - mdp.discount)])
        return tacit.solve(mdp, both, throw=False)
    if task == "noisy":
        return tacit.solve(mdp, truth, solver=tacit.SoftDual(temperature=0.05), throw=False)
    if task == "likelihood":
        seen = tacit.Demonstrations.load(folder + "/demonstrations.csv")
        return tacit.recover(mdp, features, seen, estimator=tacit.Likelihood(), throw=False)

def command():
    from tacit.cli import main
    words = ["recover", folder, "--out", folder + "/run", "--estimator", "likelihood"]
    told, screen = Told(), sys.stdout
    sys.stdout = told
    code = main(words)
    sys.stdout = screen
    assert code in (0, 3), code
    return told.first if task == "answer" else None

def now():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter() - began, used.ru_utime + used.ru_stime

class Told(io.StringIO):
    first = None
    def write(self, text):
        self.first = self.first or now()
        return len(text)

seconds, processor = answer() if task == "answer" else (answer(), now())[1]
print(json.dumps({"seconds": seconds,
                  "processor_seconds": processor,
                  "loaded": [name for name in ("jax", "numba") if name in sys.modules]}))
"""

# The demonstrations of every world, as a text folder; made beforehand.
PROBLEM = """
import sys
code = sys.argv[1]
sys.argv = ["", "nothing", sys.argv[2], "", "0"]
exec(code)
from tacit.folders.problem import Problem
(mdp, features, truth) = draw()
policy = tacit.solve(mdp, truth, solver=tacit.SoftDual(temperature=0.05), throw=False).policy
seen = tacit.simulate(mdp, policy, trajectories=100, steps=50, seed=0)
Problem(mdp, features, seen).save({folder!r}, text=True)
"""


def ran(task: str, size: int, folder: str, compiled: bool) -> dict[str, Any]:
    """What one new process with empty caches says."""
    with tempfile.TemporaryDirectory() as home:
        places = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"), home)
        places |= {
            "OPENBLAS_NUM_THREADS": "1"
        }  # waiting threads count as busy, where cores are few
        words = [sys.executable, "-c", CHILD, task, str(size), folder, str(int(compiled))]
        done = subprocess.run(words, env=os.environ | places, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-compiled", action="store_true")
    parser.add_argument("--only", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    asked = parser.parse_args()
    load, rows = os.getloadavg()[0], []
    compileall.compile_dir(Path(tacit.__file__).parent, quiet=1)
    with tempfile.TemporaryDirectory() as place:
        for world in asked.worlds:
            size = WORLDS[world]
            folder = f"{place}/{size}"
            making = PROBLEM.format(folder=folder)
            subprocess.run([sys.executable, "-c", making, CHILD, str(size)], check=True)
            for task in asked.only:
                plain = asked.no_compiled or size != 5 or task in ("nothing", "answer")
                ways = [False] if plain else [False, True]
                if size != 5 and task == "nothing":
                    continue
                for compiled in ways:
                    found = []
                    for _ in range(1 if compiled else asked.repeats):
                        subprocess.run(["rm", "-rf", f"{folder}/run"], check=True)
                        found.append(ran(task, size, folder, compiled))
                    row = {"world": world, "task": task, "compiled": compiled}
                    for name in ("seconds", "processor_seconds"):
                        row[name] = round(min(one[name] for one in found), 3)
                    row["loaded"] = found[0]["loaded"]
                    rows.append(row)
                    print(row, flush=True)
    page = about(PACKAGES, load=load) | {"repeats": asked.repeats, "rows": rows}
    RESULTS.write_text(json.dumps(page, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
