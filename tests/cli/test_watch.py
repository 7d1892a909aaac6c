"""`tacit watch`: logs that grow, and what happens when it is stopped or the log is changed."""

import io
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import experts
import tacit
from tacit.cli import main
from tacit.files.arrays import read_arrays
from tacit.files.trees import unpack
from tacit.stream.following import Position, TextLog

THETA = [np.array([2.5, 1.5]), np.array([1.5, 0.5])]
DOUBLED = [THETA[0], 2.0 * THETA[1]]


def steps(theta, seed, many):
    world = place()
    policy = experts.policy_of(world.mdp, world.features, theta)
    return tacit.simulate(world.mdp, policy, trajectories=many, steps=20, seed=seed)


def place():
    return tacit.worlds.random(3, states=8, actions=3, constraints=1, features=2, tightness=0.5)


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    folder, world = tmp_path_factory.mktemp("watch") / "problem", place()
    tacit.runs.Problem(world.mdp, world.features, steps(THETA, 0, 100)).save(folder)
    return folder


@pytest.fixture(scope="module")
def rows():
    """Lines of a log, the price doubled after 1000 steps."""
    lines, number = ["episode,step,state,action\n"], 0
    for seen in (steps(THETA, 1, 50), steps(DOUBLED, 2, 150)):
        for states, actions in map(seen.trajectory, range(seen.episodes)):
            pairs = enumerate(zip(states, actions, strict=False))
            lines += [f"{number},{t},{s},{a}\n" for t, (s, a) in pairs]
            number += 1
    return lines


def watch(problem, log, out, *more, batch=200):
    words = ["watch", str(problem), str(log), "--out", str(out), "--once", "--batch", str(batch)]
    return main([*words, *more])


def bookmark(out):
    return unpack(read_arrays(out / "bookmark.npz"))


def same(one, other):
    """Whether two folders hold the same state to the last step."""
    first, second = bookmark(one), bookmark(other)
    assert first.position == second.position
    np.testing.assert_array_equal(first.tally.counts, second.tally.counts)
    np.testing.assert_allclose(first.state.history, second.state.history, atol=1e-9)
    assert first.predictions.log_likelihood == pytest.approx(second.predictions.log_likelihood)
    recoveries = [tacit.Recovery.load(out).parameters for out in (one, other)]
    np.testing.assert_allclose(recoveries[0].estimates, recoveries[1].estimates, rtol=1e-7)


def test_a_growing_log_ends_in_an_alarm_that_runs_a_command_once(problem, rows, tmp_path, capsys):
    log, out, told = tmp_path / "log.csv", tmp_path / "out", tmp_path / "told"
    code = f"import os; open({str(told)!r}, 'a').write(os.environ['TACIT_CHANGED'] + chr(10))"
    command = ["--exec", f'{sys.executable} -c "{code}"']
    for end in (1, 700, 1001, 2500, len(rows)):
        log.write_text("".join(rows[:end]))
        assert watch(problem, log, out, *command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("none" in line for line in lines)
    assert "alarm, the price of constraint 0 since step" in lines[-1]
    assert told.read_text() == "the price of constraint 0\n"
    assert "Evidence of a change" in (out / "watch.html").read_text()
    assert 'http-equiv="refresh"' in (out / "watch.html").read_text()
    found = bookmark(out)
    assert found.position.rows == found.state.steps == 4000
    counts = tacit.Recovery.load(out).observed_steps
    assert counts == 2000 + 4000  # of the problem, and of the log
    assert main(["report", str(out)]) == 0


def test_a_line_that_is_being_written_waits(rows, tmp_path):
    log, position = tmp_path / "log.csv", Position()
    log.write_text("".join(rows[:11])[:-3])
    frames, position = TextLog(log).read(position, 100)
    assert (position.rows, len(frames[0])) == (9, 9)
    log.write_text("".join(rows[:11]))
    assert TextLog(log).read(position, 100)[1].rows == 10


def test_killed_and_begun_again_nothing_is_lost_or_counted_twice(problem, rows, tmp_path):
    log, out, whole = tmp_path / "log.csv", tmp_path / "out", tmp_path / "whole"
    log.write_text("".join(rows[:1201]))
    assert watch(problem, log, whole, batch=40) == 0
    words = [sys.executable, "-m", "tacit", "watch", str(problem), str(log), "--out", str(out)]
    rng, kills = np.random.default_rng(0), 0
    while kills < 4:
        process = subprocess.Popen([*words, "--once", "--batch", "40"], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()  # one batch at least
        time.sleep(float(rng.uniform(0.0, 0.4)))
        process.send_signal(signal.SIGKILL)
        process.stdout.close()
        process.wait()
        kills += 1
    assert 0 < bookmark(out).position.rows < 1200
    assert watch(problem, log, out, batch=40) == 0
    same(out, whole)


def test_a_log_that_is_not_what_it_was_is_one_line(problem, rows, tmp_path, capsys):
    log, out = tmp_path / "log.csv", tmp_path / "out"
    log.write_text("".join(rows[:401]))
    assert watch(problem, log, out) == 0
    wrong = {
        "must not shrink": rows[:200],
        "must keep its columns": ["episode,step,state,what\n", *rows[1:601]],
        "must only grow": [rows[0], "9" + rows[1], *rows[2:601]][:600] + ["0,0,0,0\n"] * 50,
        "goes back": [*rows[:401], *rows[300:400], *rows[300:400]],
        "integers from 0 to 7": [*rows[:401], *["900,0,8,0\n"] * 200],
    }
    kept = bookmark(out)
    for words, lines in wrong.items():
        if words == "must only grow":
            lines = [rows[0], *rows[2:402], *rows[402:700]]
        log.write_text("".join(lines))
        capsys.readouterr()
        assert watch(problem, log, out) == 2, words
        error = capsys.readouterr().err
        assert words in error
        assert error.count("\n") == 1
        assert bookmark(out).position == kept.position
    log.write_text("".join(rows[:801]))
    assert watch(problem, log, out) == 0
    assert bookmark(out).position.rows == 800
    assert watch(problem, log, out, batch=100) == 2  # other batches would be other evidence
    assert "batch" in capsys.readouterr().err


def test_a_folder_of_other_things_is_left_alone(problem, rows, tmp_path, capsys):
    log, out = tmp_path / "log.csv", tmp_path / "out"
    log.write_text("".join(rows[:201]))
    out.mkdir()
    (out / "letters.txt").write_text("dear")
    assert watch(problem, log, out) == 4
    assert "other things" in capsys.readouterr().err
    assert main(["recover", str(problem), "--out", str(tmp_path / "run"), "--no-report"]) == 0
    assert watch(problem, log, tmp_path / "run") == 2
    assert "not of a watch" in capsys.readouterr().err


def test_files_of_a_folder_are_read_in_the_order_of_their_names(problem, rows, tmp_path, capsys):
    import polars

    log, folder = tmp_path / "log.csv", tmp_path / "parts"
    log.write_text("".join(rows[:1001]))
    assert watch(problem, log, tmp_path / "text") == 0
    folder.mkdir()
    whole = polars.read_csv(log)
    for number, (first, last) in enumerate([(0, 350), (350, 360), (360, 1000)]):
        whole[first:last].write_parquet(folder / f"part-{number}.parquet")
        assert watch(problem, folder, tmp_path / "out", "--every", "1") == 0
    found, wanted = bookmark(tmp_path / "out"), bookmark(tmp_path / "text")
    np.testing.assert_array_equal(found.tally.counts, wanted.tally.counts)
    whole[:10].write_parquet(folder / "part-00.parquet")
    capsys.readouterr()
    assert watch(problem, folder, tmp_path / "out") == 2
    assert "in the order of names" in capsys.readouterr().err


def test_standard_input_is_followed_and_may_begin_again(problem, rows, tmp_path, monkeypatch):
    out, whole, log = tmp_path / "out", tmp_path / "whole", tmp_path / "log.csv"
    log.write_text("".join(rows[:801]))
    assert watch(problem, log, whole) == 0
    for end in (401, 801):
        text = io.TextIOWrapper(io.BytesIO("".join(rows[:end]).encode()))
        monkeypatch.setattr(sys, "stdin", text)
        assert watch(problem, "-", out, "--again") == 0
    np.testing.assert_array_equal(bookmark(out).tally.counts, bookmark(whole).tally.counts)
    np.testing.assert_allclose(bookmark(out).state.history, bookmark(whole).state.history)
