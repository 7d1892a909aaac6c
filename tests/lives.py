"""A program for tests: lives of `tacit recover` in forked children, ended in many ways.

Forking saves the second that a fresh Python needs; only estimators without JAX can be forked.
Usage: python lives.py PROBLEM FOLDER WAY...; each way has a folder of its own in FOLDER. Prints one
line of JSON: way -> what came of it. "permission" must be the last.
"""

import functools
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

import tacit
import tacit.folders.claims as resume
from tacit.cli import main

PROBLEM, FOLDER, CHOSEN = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
WORDS = ["--estimator", "alternating", "--starts", "2", "--max-steps", "6", "--no-report"]
MOST_LIVES = 150
FEWEST_KILLS = 5  # before a life may end

resume.claimed = functools.partial(resume.claimed, every=0.0)


def recover(out: Path, *more: str) -> int:
    return main(["recover", PROBLEM, "--out", str(out), *WORDS, *more])


def born(life, errors: Path) -> int:
    """The number of a child that lives so; its standard error goes to a file."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os._exit(life())
    return child


def ended(child: int) -> int:
    """Its exit code, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def lived(life) -> tuple[int, str]:
    errors = FOLDER / "errors"
    return ended(born(life, errors)), errors.read_text()


def killed_at_a_rename(out: Path, number: int, *, before: bool) -> int:
    """A life that is killed as it makes a rename: the first is of an empty checkpoint."""
    rename, count = os.replace, 0

    def replace(source, target):
        nonlocal count
        count += 1
        if count == number and before:
            os.kill(os.getpid(), signal.SIGKILL)
        rename(source, target)
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = replace
    return recover(out, "--resume")


def killed_at_each_checkpoint() -> dict:
    """One life a checkpoint; then, while the run is written down, one life a rename."""
    out, kills, number, known = FOLDER / "run", 0, 2, None
    for life in range(MOST_LIVES):
        # Every third time just before the rename: that checkpoint is lost and made again.
        before = life % 3 == 1 and number == 2
        code, _ = lived(
            lambda number=number, before=before: killed_at_a_rename(out, number, before=before)
        )
        if code != -signal.SIGKILL:
            return {"kills": kills, "code": code}
        kills += 1
        stages = {path.name: path.read_bytes() for path in out.glob("checkpoint.npz")}
        number = 2 if stages != known or before else number + 1
        known = stages
    return {"kills": kills, "code": None}


def killed_at_random() -> dict:
    """Lives killed within the time of an unbroken one; begun anew where one ends too early."""
    rng, out, kills = random.Random(0), FOLDER / "run", 0
    began = time.monotonic()
    lived(lambda: recover(FOLDER / "unbroken", "--quiet"))
    whole = time.monotonic() - began
    for _ in range(MOST_LIVES):
        began = time.monotonic()
        child = born(lambda: recover(out, "--resume"), FOLDER / "errors")
        # Longer and longer, so that it ends at last.
        time.sleep(rng.uniform(0.0, whole * (0.9 + 0.1 * kills)))
        os.kill(child, signal.SIGKILL)
        code = ended(child)
        if code == -signal.SIGKILL:
            kills += 1
        elif kills >= FEWEST_KILLS:
            return {"kills": kills, "code": code}
        else:  # the machine is quicker than it was
            whole = min(whole, 0.8 * (time.monotonic() - began))
            shutil.rmtree(out)
    return {"kills": kills, "code": None}


def signalled_at_a_checkpoint(out: Path, number: int) -> int:
    """A life that gets a signal as it has made its first checkpoint after the empty one."""
    rename, made = os.replace, 0

    def replace(source, target):
        nonlocal made
        rename(source, target)
        made += Path(target).name == "checkpoint.npz"
        if made == 2:
            made += 1
            os.kill(os.getpid(), number)

    os.replace = replace
    return recover(out, "--resume")


def signalled(number: int) -> dict:
    """A life that is asked to end once it has made a checkpoint, and the life after it."""
    out = FOLDER / "run"
    code, said = lived(lambda: signalled_at_a_checkpoint(out, number))
    left = sorted(path.name for path in out.iterdir())
    again, _ = lived(lambda: recover(out, "--resume"))
    return {"code": code, "said": said, "left": left, "again": again}


def without_room() -> dict:
    """No file may grow beyond a size: what a full disk is to one without root."""
    out = FOLDER / "run"

    def life() -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
        return recover(out, "--resume")

    code, said = lived(life)
    left = sorted(str(path.relative_to(out)) for path in out.rglob("*"))
    again, _ = lived(lambda: recover(out, "--resume"))
    return {"code": code, "said": said, "left": left, "again": again}


def without_permission() -> dict:
    """As somebody who may read the folder and not write to it."""
    out = FOLDER / "run"
    out.mkdir()
    out.chmod(0o555)
    recover(FOLDER / "other", "--quiet")  # loads all it needs, which others may not read

    def life() -> int:
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        return recover(out)

    code, said = lived(life)
    return {"code": code, "said": said, "left": sorted(os.listdir(out))}


WAYS = {
    "checkpoints": killed_at_each_checkpoint,
    "random": killed_at_random,
    "interrupt": functools.partial(signalled, signal.SIGINT),
    "terminate": functools.partial(signalled, signal.SIGTERM),
    "room": without_room,
    "permission": without_permission,
}


def load_what_a_life_loads() -> None:
    """Imports here all that a whole life imports, so that no life has to do it again."""
    told = FOLDER / "loaded.json"

    def life() -> int:
        recover(FOLDER / "first", "--quiet")
        told.write_text(json.dumps(sorted(sys.modules)))
        return 0

    code, said = lived(life)
    assert code == 0, said
    for name in json.loads(told.read_text()):
        if name.partition(".")[0] in ("importlib", "rich", "scipy", "tacit", "tyro"):
            importlib.import_module(name)
    told.unlink()
    shutil.rmtree(FOLDER / "first")
    assert not {"jax", "polars"} & set(sys.modules), "their threads do not survive a fork"


if __name__ == "__main__":
    # The compiled loops, once in this process and without a folder: a run on disk needs Polars.
    seen = tacit.runs.Problem.load(PROBLEM)
    rules = tacit.Alternating(starts=2, max_steps=6)
    tacit.recover(seen.mdp, seen.features, seen.demonstrations, estimator=rules, throw=False)
    load_what_a_life_loads()
    place, told = FOLDER, {}
    for way in CHOSEN:
        FOLDER = place / way
        FOLDER.mkdir(0o755)
        told[way] = WAYS[way]()
    print(json.dumps(told))
