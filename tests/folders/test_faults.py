"""Kills, full disks and failing calls: the old state or the new one, never something between."""

import errno
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tacit
import torture
from tacit.engine.progress import pursue, watching
from tacit.files.atomic import write_bytes
from tacit.folders.claims import claimed
from tacit.folders.runs import Run
from walks import problem, seen_by

LIVES = Path(__file__).parents[1] / "lives.py"
WORDS = ["--estimator", "alternating", "--starts", "2", "--max-steps", "6", "--no-report"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a problem of plain npz files, and the run that nobody interrupted."""
    place = tmp_path_factory.mktemp("lives")
    place.chmod(0o755)
    for parent in list(place.parents)[:2]:  # for somebody who is not its owner
        parent.chmod(0o755)
    task = problem("noisy")
    task.save(place / "problem")
    # Polars cannot be forked: the demonstrations as npz.
    (place / "problem" / "demonstrations.parquet").unlink()
    task.demonstrations.save(place / "problem" / "demonstrations.npz")
    from tacit.cli import main

    words = ["recover", str(place / "problem"), "--out", str(place / "whole"), *WORDS, "--quiet"]
    assert main(words) == 3
    return place


def lives(folder: Path, place: Path, *ways: str) -> dict[str, dict]:
    place.chmod(0o755)
    words = [sys.executable, str(LIVES), str(folder / "problem"), str(place), *ways]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def short_lives(folder, tmp_path_factory) -> tuple[Path, dict[str, dict]]:
    """The folder of lives that ended in every way but by being killed, and what came of each."""
    place = tmp_path_factory.mktemp("short")
    return place, lives(folder, place, "interrupt", "terminate", "room", "permission")


def same_as_unbroken(folder: Path, run: Path) -> None:
    names = ("recovery.npz", "history.parquet", "trajectories.parquet", "extras.npz")
    for name in names:
        assert (run / name).read_bytes() == (folder / "whole" / name).read_bytes(), name
    assert sorted(os.listdir(run)) == sorted([*names, "run.json"])  # no checkpoint, lock or debris
    assert Run.load(run).recovery.status is tacit.RecoveryStatus.NOT_CONVERGED


# --- ends of a process ----------------------------------------------------------------------------


@pytest.mark.study
@pytest.mark.parametrize("way", ["checkpoints", "random"])
def test_killed_again_and_again_it_ends_at_the_same_bits(folder, tmp_path, way):
    told = lives(folder, tmp_path, way)[way]
    assert told["code"] == 3  # six rounds are too few, and it says so
    assert told["kills"] >= (20 if way == "checkpoints" else 5)
    same_as_unbroken(folder, tmp_path / way / "run")


@pytest.mark.parametrize(
    ("way", "code", "word"), [("interrupt", 130, "interrupted"), ("terminate", 143, "terminated")]
)
def test_a_signal_leaves_a_run_that_can_be_gone_on_with(folder, short_lives, way, code, word):
    told = short_lives[1][way]
    assert told["code"] == code
    assert told["said"].splitlines()[-1] == f"tacit: {word}"
    assert "--resume" in told["said"]
    assert "Traceback" not in told["said"]
    assert told["left"] == ["checkpoint.npz"]
    assert told["again"] == 3
    same_as_unbroken(folder, short_lives[0] / way / "run")


# --- no room, no permission -----------------------------------------------------------------------


def test_a_file_that_may_not_grow_stops_the_run_in_one_line(folder, short_lives):
    told = short_lives[1]["room"]
    assert told["code"] == 4
    assert told["said"].splitlines()[-1].startswith("tacit: File too large")
    assert "Traceback" not in told["said"]
    assert not any(name.endswith((".part", ".next")) or name == ".lock" for name in told["left"])
    assert told["again"] == 3
    same_as_unbroken(folder, short_lives[0] / "room" / "run")


def test_a_folder_that_may_not_be_written_is_named(short_lives):
    told = short_lives[1]["permission"]
    assert told["code"] == 4
    assert told["said"].count("\n") == 1
    assert "Permission denied" in told["said"]
    assert told["left"] == []


@pytest.mark.skipif(os.name == "nt" or os.getuid() != 0, reason="mounting needs root")
def test_a_full_disk_stops_the_run_in_one_line(folder, tmp_path, capsys):
    from tacit.cli import main

    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48k", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        words = ["recover", str(folder / "problem"), "--out", str(small / "run"), *WORDS]
        assert main([*words, "--quiet"]) == 4
        said = capsys.readouterr().err
        assert said.startswith("tacit: No space left on device")
        assert said.count("\n") == 1
        assert not [path for path in small.rglob("*") if path.name.endswith((".part", ".next"))]
        assert not (small / "run" / "run.json").exists()
        subprocess.run(["mount", "-o", "remount,size=2m", str(small)], check=True)
        assert main([*words, "--resume", "--quiet"]) == 3
        same_as_unbroken(folder, small / "run")
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.parametrize("place", ["a file", "a folder in a file"])
def test_a_path_that_cannot_be_a_folder_is_named(folder, tmp_path, capsys, place):
    from tacit.cli import main

    (tmp_path / "taken").write_text("")
    out = tmp_path / "taken" / ("" if place == "a file" else "run")
    words = ["recover", str(folder / "problem"), "--out", str(out), *WORDS, "--quiet"]
    assert main(words) == 4
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "taken" in said


def test_a_bare_surrounding_is_enough(tmp_path):
    """No home, no locale, no terminal, one thread, a name with spaces and umlauts; in JAX."""
    home = tmp_path / "größe 5"
    problem("noisy").save(home / "das Problem")
    script = "import sys; from tacit.cli import main; sys.exit(main())"
    bare = {
        "PATH": os.environ["PATH"],
        "LANG": "C",
        "OMP_NUM_THREADS": "1",
        "POLARS_MAX_THREADS": "1",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    }
    words = ["recover", str(home / "das Problem"), "--out", str(home / "run"), "--no-report"]
    done = subprocess.run(
        [sys.executable, "-c", script, *words, "--estimator", "convex"],
        env=bare,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()
    assert Run.load(home / "run").recovery.estimator.startswith("Convex")


# --- failing calls --------------------------------------------------------------------------------


def fsync(descriptor: int) -> None:
    """Waits for no disk."""
    os.fstat(descriptor)


class Fails:
    """Makes the n-th call of a function of `os` fail; afterwards all of them, if `for_good`."""

    def __init__(self, patch: pytest.MonkeyPatch, name: str, number: int, *, for_good: bool):
        self.number, self.for_good, self.calls, self.over = number, for_good, 0, False
        # What a process does that has died: nothing, not even tidying up.
        watched = {name, *(("write", "fsync", "replace", "unlink", "rmdir") if for_good else ())}
        patch.setattr(os, "fsync", fsync)  # which calls there are is asked here, not their wait
        for one in sorted(watched):
            patch.setattr(os, one, self._failing(getattr(os, one), counted=one == name))

    def _failing(self, call, *, counted: bool):
        def instead(*arguments, **keywords):
            if counted and not self.over:
                self.calls += 1
            if (counted and self.calls == self.number and not self.over) or (
                self.over and self.for_good
            ):
                self.over = True
                if call.__name__ == "write" and len(arguments[1]) > 1:
                    call(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])  # half of it
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return call(*arguments, **keywords)

        return instead


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[Path, Run, Run]:
    """A folder with an old run, that run, and a new one."""
    recovery = tacit.recover(*seen_by()["exact"], estimator=tacit.Explanation())
    columns = {"episode": np.arange(3), "steps": np.arange(3)}
    old = Run(recovery, notes=("old",), trajectories=columns, extras={"a": {"b": 1}})
    weights = 0.5 * (recovery.reward_weights + 0.5)
    new = replace(old, recovery=replace(recovery, reward_weights=weights), notes=("new",))
    place = tmp_path_factory.mktemp("pair") / "run"
    old.save(place)
    return place, old, new


def is_one_of(folder: Path, old: Run, new: Run) -> str:
    """Which of the two the folder holds, every part of it."""
    found = Run.load(folder)
    wanted = {"old": old, "new": new}[found.notes[0]]
    assert (found.recovery.reward_weights == wanted.recovery.reward_weights).all()
    assert found.extras == wanted.extras
    return found.notes[0]


def made(folder: Path, run: Run, **options) -> None:
    """A run whose search is so short that it can be made a hundred times."""
    with claimed(folder, {"config": {"seed": 0}}, every=0.0, **options) as claim:
        with watching([claim.checkpoint]):
            end = pursue(
                "counting",
                0,
                lambda state, until: min(until, 6),
                step=lambda state: state,
                numbers=lambda state: {},
            )
        assert end == 6
        claim.finish(run)


@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("name", ["write", "fsync", "replace"])
def test_a_fault_at_any_call_leaves_the_old_run_or_the_new(tmp_path, pair, name, for_good):
    start, old, new = pair
    met, states = 0, []
    for number in range(1, 200):
        place = tmp_path / str(number)
        shutil.copytree(start, place)
        with pytest.MonkeyPatch.context() as patch:
            fails = Fails(patch, name, number, for_good=for_good)
            try:
                made(place, new, overwrite=True)
            except OSError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017
            if not fails.over:
                break
        met += 1
        states.append(is_one_of(place, old, new))
        if not for_good:  # who lives on tidies up
            assert not [path.name for path in place.iterdir() if path.name.endswith(".part")]
            assert not (place / ".lock").exists()
        # And the next one finds its way, whatever was left.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", fsync)
            made(place, new, overwrite=True)
        assert is_one_of(place, old, new) == "new"
        assert sorted(os.listdir(place)) == sorted(os.listdir(start))
    assert met >= 10
    assert states == sorted(states, reverse=True)  # old up to some call, new from there on
    assert {"old", "new"} == set(states) or name != "replace"


@pytest.mark.parametrize("name", ["write", "fsync", "replace"])
def test_a_single_file_is_the_old_one_or_the_new(tmp_path, name):
    path, states = tmp_path / "file", []
    for number in range(1, 5):
        path.write_bytes(b"old")
        with pytest.MonkeyPatch.context() as patch:
            fails = Fails(patch, name, number, for_good=True)
            try:
                write_bytes(path, b"new state")
            except OSError:
                assert fails.over
        states.append(path.read_bytes())
    assert set(states) <= {b"old", b"new state"}
    assert states[0] == b"old"
    assert states[-1] == b"new state"


def test_content_is_on_the_disk_before_its_name_and_the_name_before_the_end(tmp_path, monkeypatch):
    calls = []
    for name in ("write", "fsync", "replace"):
        call = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *a, call=call, name=name: (calls.append(name), call(*a))[1]
        )
    write_bytes(tmp_path / "file", b"content")
    assert calls == ["write", "fsync", "replace", "fsync"]


@pytest.mark.parametrize("name", torture.CALLS)
def test_a_fault_in_a_command_that_makes_a_folder_is_one_line(tmp_path, name):
    """Two of many; `tools/torture.py` takes every call of every command."""
    out = tmp_path / "out"
    words = ["simulate", "random", "--trajectories", "3", "--steps", "9", "--quiet", "--out"]
    for number in (1, 3):
        with torture.failing(name, number, tmp_path) as met:
            code, errors = torture.said(*words, str(out))
        torture.check_clear(code, errors, (0, 4), f"{name} {number}")
        assert (code == 4 and met["failed"]) or name == "unlink"  # nothing is taken away here
        assert not list(tmp_path.rglob("*.part"))
        shutil.rmtree(out, ignore_errors=True)
    assert torture.said(*words, str(out))[0] == 0


def test_what_is_said_of_a_campaign_holds_for_any_outcome():
    row = {"date": "2026-01-02", "run": "2026-01-02 03:04", "tries": 5, "seconds": 7, "load": 1}
    ended = {"held": (True, False), "broken": (False, False), "cut off": (False, True)}
    rows = [
        row | {"attack": name, "outcome": "as it went", "held": held, "cut": cut}
        for name, (held, cut) in zip(torture.ATTACKS, ended.values(), strict=False)
    ]
    page = {"machine": {"cores": 2}, "rows": rows}
    page["run"] = {"begun": "2026-01-02 03:04", "minutes": 31, "lanes": 2}
    assert [torture.verdict_of(one) for one in rows] == [*torture.VERDICTS]
    said, (one, two, three, *rest) = torture.sentences_of(page), torture.ATTACKS
    assert said.startswith(
        f"Of 3 attacks with 15 tries, 1 held; 1 broken ({two}); 1 cut off ({three})."
    )
    assert "All are of one run, begun on 2026-01-02 03:04 UTC, which took 31 minutes" in said
    assert f"Not met yet: {'; '.join(rest)}." in said
    rows[0]["run"] = "2025-01-02 03:04"
    said = torture.sentences_of(page)
    assert "2 are of one run" in said
    assert f"Of other runs, begun (UTC): 2025-01-02 03:04 ({one})." in said
