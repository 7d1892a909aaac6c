"""Run folders: one writer, whole or absent, every changed byte noticed, and able to stand alone."""

import dataclasses
import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tacit
from refusals import refusal
from tacit.checks.reliability import trajectory_fits
from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.atomic import LOCK, locked, read_page, write_page
from tacit.folders.claims import claimed, difference, identity
from tacit.folders.runs import Run, data_hashes
from tacit.inference.findings import Finding, Kind
from tacit.model.layout import Layout
from tacit.show.canvas import series_mark
from tacit.show.summary import data_summary
from walks import seen_by


@pytest.fixture(scope="module")
def run() -> Run:
    mdp, features, walks = seen_by()["noisy"]
    recovery = tacit.recover(mdp, features, walks, estimator=tacit.Likelihood())
    return Run(
        recovery,
        Layout(
            5, 5, directions=((-1, 0), (1, 0), (0, -1), (0, 1)), action_names=("N", "S", "W", "E")
        ),
        {"seed": 0, "command": "tacit recover größe"},
        data_summary(mdp, walks),
        notes=("The transitions were estimated.",),
        trajectories=trajectory_fits(recovery, walks, mdp=mdp).columns,
        extras={"holdout": {"sentences": ["So it is."], "score": [1.0, float("nan")]}},
        seed=0,
        hashes=data_hashes(mdp, features, walks),
    )


@pytest.fixture(scope="module")
def exact() -> tacit.Recovery:
    return tacit.recover(*seen_by()["exact"], estimator=tacit.Explanation())


# --- what is in it --------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_finding_without_a_number_is_no_reason_to_lose_a_run(run, tmp_path, number):
    odd = Finding("Nobody knows.", Kind.NOTE, number=number, feature="nan")
    known = replace(run.recovery.identification, findings=(odd,))
    replace(run, recovery=replace(run.recovery, identification=known)).save(tmp_path / "run")
    told = read_page(tmp_path / "run" / "run.json")["findings"]
    assert told == [{"sentence": "Nobody knows.", "kind": "NOTE", "about": {"feature": "nan"}}]
    assert Run.load(tmp_path / "run").recovery.identification.findings == (odd,)


def test_a_run_comes_back_whole(run, tmp_path):
    run.save(tmp_path / "a run")
    again = Run.load(tmp_path / "a run")
    for name in ("layout", "config", "data", "notes", "versions", "seed", "hashes"):
        assert getattr(again, name) == getattr(run, name), name
    assert again.data["states_visited"] == 25
    assert sorted(again.trajectories) == sorted(run.trajectories)
    for name, column in run.trajectories.items():
        assert_array_equal(again.trajectories[name], column)
    assert again.extras["holdout"]["sentences"] == ["So it is."]
    assert np.isnan(again.extras["holdout"]["score"][1])
    page = json.loads((tmp_path / "a run" / "run.json").read_text(encoding="utf-8"))
    assert page["status"] == run.recovery.status.name
    assert set(page["files"]) == {
        *("recovery.npz", "history.parquet", "trajectories.parquet", "extras.npz")
    }
    alone = tacit.Recovery.load(tmp_path / "a run")
    assert_array_equal(alone.reward_weights, run.recovery.reward_weights)


def leaves(tree, place=""):
    """(place, array, text or number) of everything a recovery holds, but what answers questions."""
    if dataclasses.is_dataclass(tree):
        parts = {part.name: getattr(tree, part.name) for part in dataclasses.fields(tree)}
        for name in sorted(parts.keys() - {"answer", "noticed", "origin", "study"}):
            yield from leaves(parts[name], f"{place}.{name}")
    elif isinstance(tree, Mapping):
        for name, part in tree.items():
            yield from leaves(part, f"{place}.{name}")
    elif isinstance(tree, tuple | list):
        for at, part in enumerate(tree):
            yield from leaves(part, f"{place}.{at}")
    else:
        yield place, type(tree), tree


def test_every_field_comes_back_with_its_type(run, exact, tmp_path):
    for at, recovery in enumerate((run.recovery, exact)):
        recovery.save(tmp_path / str(at))
        again = tacit.Recovery.load(tmp_path / str(at))
        for one, other in zip(leaves(recovery), leaves(again), strict=True):
            assert one[:2] == other[:2]
            assert_array_equal(one[2], other[2], err_msg=one[0])
        assert recovery.goodness.power == again.goodness.power  # kept as it was computed
        findings = recovery.identification.findings
        kinds = [(finding.kind, finding.about) for finding in findings]
        assert kinds == [(f.kind, f.about) for f in again.identification.findings]
        page = json.loads((tmp_path / str(at) / "run.json").read_text(encoding="utf-8"))
        assert [told["kind"] for told in page["findings"]] == [f.kind.name for f in findings]
        assert [told["sentence"] for told in page["findings"]] == [*findings]


def test_a_class_of_elsewhere_is_not_made(run, tmp_path):
    run.recovery.save(tmp_path)
    arrays = read_arrays(tmp_path / "recovery.npz")
    text = str(arrays["skeleton"]).replace("tacit.recovery.History", "subprocess.Popen")
    write_arrays(tmp_path / "recovery.npz", arrays | {"skeleton": np.array(text)})
    page = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    content = (tmp_path / "recovery.npz").read_bytes()
    page["files"]["recovery.npz"] = hashlib.sha256(content).hexdigest()
    write_page(tmp_path / "run.json", page)
    with pytest.raises(OSError, match="not expected here"):
        tacit.Recovery.load(tmp_path)


def test_a_recovery_saved_by_itself_is_a_run(run, tmp_path):
    run.recovery.save(tmp_path)
    again = Run.load(tmp_path)
    assert again.layout == Layout()
    assert again.extras == again.trajectories == {}


def test_a_loaded_likelihood_answers_linear_questions(run, tmp_path):
    run.save(tmp_path)
    known, again = run.recovery.identification, Run.load(tmp_path).recovery.identification
    for question in (([1.0, 0.0], []), ([1.0, -1.0], [np.arange(4.0)]), ([0.0, 0.0], [np.ones(4)])):
        assert again.interval(*question) == known.interval(*question)
    assert np.isfinite(again.interval([1.0, -1.0], [np.zeros(4)])).all()
    twice = tmp_path / "twice"
    Run.load(tmp_path).save(twice)
    assert (twice / "recovery.npz").read_bytes() == (tmp_path / "recovery.npz").read_bytes()


def test_a_loaded_set_answers_after_saving_twice(exact, tmp_path):
    exact.save(tmp_path / "a")
    tacit.Recovery.load(tmp_path / "a").save(tmp_path / "b")
    again = tacit.Recovery.load(tmp_path / "b").identification
    for j in range(2):
        # Inequalities broken by 1e-9 move an end by about as much.
        assert again.interval(np.eye(2)[j], [np.zeros(4)]) == pytest.approx(
            tuple(exact.identification.reward_intervals[j]), abs=1e-7
        )
    with pytest.raises(tacit.InvalidModel, match="cost_directions"):
        again.interval([1.0, 0.0], [])


def test_several_tasks_are_saved_together(run, tmp_path):
    tasks = [tacit.Task(*seen_by()["noisy"])] * 2
    joint = tacit.recover(tasks, throw=False)
    joint.save(tmp_path / "joint")
    again = tacit.JointRecovery.load(tmp_path / "joint")
    assert (again.summary(), again.status) == (joint.summary(), joint.status)
    for one, other in zip(again.recoveries, joint.recoveries, strict=True):
        assert_array_equal(one.solution.policy, other.solution.policy)
        assert one.identification.findings == other.identification.findings
    same = tacit.Recovery.load(tmp_path / "joint")
    assert (type(same), same.summary()) == (tacit.JointRecovery, joint.summary())
    with pytest.raises(OSError, match="several tasks"):
        type(run).load(tmp_path / "joint")
    weights, prices = joint.plot().axes  # one mark a task and row, where the numbers are
    for panel, each in ((weights, "reward_weights"), (prices, "multipliers")):
        marks = [line for line in panel.lines if line.get_ls() == "None"]
        drawn = [
            [m.get_xdata()[0] for m in marks if m.get_marker() == series_mark(k)] for k in (0, 1)
        ]
        wanted = [getattr(one.standardised, each) for one in joint.recoveries]
        assert all(np.isin(w, d).all() for w, d in zip(wanted, drawn, strict=True))
        assert sum(map(len, drawn)) == len(marks)
    run.save(tmp_path / "single")
    with pytest.raises(OSError, match="one task"):
        tacit.JointRecovery.load(tmp_path / "single")


@pytest.mark.parametrize(
    "name",
    ["run.json", "recovery.npz", "history.parquet", "trajectories.parquet", "extras.npz"],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_flipped_byte_of_any_file_is_noticed(run, tmp_path, name):
    run.save(tmp_path)
    path = tmp_path / name
    content = path.read_bytes()
    places = np.unique(np.linspace(0, len(content) - 1, 60).astype(int))
    for place in places:
        changed = bytearray(content)
        changed[place] ^= 0x01
        path.write_bytes(changed)
        with refusal(OSError, match=name.replace(".", r"\.")):
            Run.load(tmp_path)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(OSError, match=name.replace(".", r"\.")):
        Run.load(tmp_path)
    path.write_bytes(content)
    Run.load(tmp_path)


def test_a_new_run_over_an_old_one_leaves_nothing_of_it(run, tmp_path):
    run.save(tmp_path)
    replace(run, notes=("new",), trajectories={}).save(tmp_path)
    again = Run.load(tmp_path)
    assert (again.notes, again.trajectories) == (("new",), {})
    assert sorted(os.listdir(tmp_path)) == sorted(
        ["run.json", *read_page(tmp_path / "run.json")["files"]]
    )


def test_a_recovery_saved_by_itself_is_not_lost_either(run, tmp_path):
    run.recovery.save(tmp_path)
    with pytest.raises(FileExistsError, match="holds a run"), claimed(tmp_path, {"config": {}}):
        pass


def test_a_damaged_run_can_be_written_over(run, tmp_path):
    run.save(tmp_path)
    page = tmp_path / "run.json"
    page.write_bytes(page.read_bytes().replace(b"config", b"confog"))
    with pytest.raises(OSError, match="damaged"), claimed(tmp_path, {}, resume=True):
        pass
    with claimed(tmp_path, {}, overwrite=True) as claim:
        claim.finish(run)
    assert Run.load(tmp_path).notes == run.notes


@pytest.mark.parametrize("options", [{}, {"resume": True}, {"overwrite": True}])
@pytest.mark.parametrize("name", ["2025/notes.md", "thesis.txt"])
def test_a_folder_of_others_is_let_be(tmp_path, name, options):
    theirs = tmp_path / name
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("precious")
    other = pytest.raises(FileExistsError, match="other things than a run")
    with other, claimed(tmp_path, {}, **options):
        pass
    assert theirs.read_text() == "precious"
    assert len(os.listdir(tmp_path)) == 1


def test_bad_input_leaves_no_run_to_go_on_with(tmp_path):
    def fail(folder):
        with claimed(folder, {}) as claim:
            claim.checkpoint.keep("fit 1", np.ones(3))
            claim.checkpoint.flush()
            raise tacit.InvalidModel("not with these data")

    with pytest.raises(tacit.InvalidModel):
        fail(tmp_path / "new")
    assert os.listdir(tmp_path) == []
    (tmp_path / "old").mkdir()
    with pytest.raises(tacit.InvalidModel):
        fail(tmp_path / "old")
    assert os.listdir(tmp_path / "old") == []


def test_only_its_own_debris_is_removed(run, tmp_path):
    debris = [".recovery.npz.12.part", "..recovery.npz.next.12.part", ".extras.npz.next"]
    others = [".download.12.part", ".notes.next", "recovery.npz.bak"]
    for name in (*debris, *others):
        (tmp_path / name).write_text("")
    run.save(tmp_path)
    left = set(os.listdir(tmp_path))
    assert left == {*others, "run.json", *read_page(tmp_path / "run.json")["files"]}


# --- one writer -----------------------------------------------------------------------------------


def test_two_writers_in_one_process_are_refused(tmp_path):
    written_by = pytest.raises(OSError, match="is being written by")
    with locked(tmp_path), written_by as caught, locked(tmp_path):
        pass
    said = str(caught.value)
    assert f"process {os.getpid()} on {platform.node()}" in said
    assert "\n" not in said
    with locked(tmp_path):
        pass
    assert os.listdir(tmp_path) == []


def test_a_second_process_is_refused_and_a_dead_ones_lock_is_not(tmp_path):
    script = (
        "import sys, os, signal\n"
        "from pathlib import Path\n"
        "from tacit.files.atomic import locked\n"
        "with locked(Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    words = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(OSError, match=f"process {other.pid}"), claimed(tmp_path, {}):
            pass
        other.communicate()
    assert other.returncode == -9
    assert (tmp_path / LOCK).exists()  # a killed process tidies nothing up
    with claimed(tmp_path, {}):
        assert (tmp_path / LOCK).read_text().splitlines()[0] == str(os.getpid())


GONE = 2**22 + 1  # beyond the largest process number of Linux


@pytest.mark.parametrize(
    ("holder", "free"),
    [
        (f"{GONE}\n{platform.node()}\n", True),
        (f"{GONE}\nelsewhere\n", False),  # nobody can tell from here
        ("half a na", True),
        ("", True),
    ],
)
def test_a_lock_is_stale_when_its_process_is_gone(tmp_path, holder, free):
    (tmp_path / LOCK).write_text(holder)
    if free:
        with locked(tmp_path):
            pass
        assert not (tmp_path / LOCK).exists()
    else:
        with pytest.raises(OSError, match="is being written by"), locked(tmp_path):
            pass
        assert (tmp_path / LOCK).exists()


# --- what it depends on ---------------------------------------------------------------------------


def test_every_part_of_the_data_counts():
    mdp, features, walks = seen_by()["noisy"]
    first = data_hashes(mdp, features, walks)
    assert first == data_hashes(mdp, features, walks)
    other = data_hashes(replace(mdp, discount=0.8), features, walks)
    assert [name for name in first if first[name] != other[name]] == ["mdp"]
    named = replace(features, reward_names=["a", "b"])
    other = data_hashes(mdp, named, walks)
    assert [name for name in first if first[name] != other[name]] == ["features"]
    actions = walks.actions.copy()
    actions[-1] = (actions[-1] + 1) % 4
    other = data_hashes(mdp, features, replace(walks, actions=actions))
    assert [name for name in first if first[name] != other[name]] == ["demonstrations"]


def test_differences_are_told_in_one_line(tmp_path):
    held = identity({"seed": 0, "grid": (0.8, 0.9)}, {"mdp": "abc"})
    assert (
        difference(tmp_path, held, identity({"seed": 0, "grid": [0.8, 0.9]}, {"mdp": "abc"}))
        is None
    )
    said = difference(tmp_path, held, identity({"seed": 1}, {"mdp": "abd"}))
    assert said is not None
    for part in ("data mdp: abc there, abd now", "setting seed: 0 there, 1 now", "grid"):
        assert part in said
    assert "\n" not in said
