"""A log of measurements from a file to an answer by two commands, and what is refused."""

import json

import numpy as np
import polars
import pytest
from numpy.testing import assert_allclose

import tacit
from tacit.cli import main
from tacit.folders.problem import Problem


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Stays of patients: who has a low pressure is given drugs, which have a price."""
    random, rows = np.random.default_rng(0), []
    for stay in range(120):
        state = random.normal(size=3)
        for hour in range(8):
            worth = np.array([0.0, -0.5 - 0.9 * state[0]])
            chances = np.exp(worth) / np.exp(worth).sum()
            action = random.choice(2, p=chances)
            seen = [None if random.random() < 0.03 else value for value in state]
            rows.append((f"stay {stay}", hour, *seen, ["nothing", "drug"][action]))
            state = [0.7, 0.8, 0.9] * state + [0.4 * action, 0.0, 0.0]
            state = state + 0.4 * random.normal(size=3)
    path = tmp_path_factory.mktemp("ward") / "log.csv"
    names = ["stay", "hour", "pressure", "lactate", "age", "given"]
    polars.DataFrame(rows, schema=names, orient="row").write_csv(path)
    return path


WORDS = ["--episode", "stay", "--time", "hour", "--action", "given"]
STATE = ["--state", "pressure", "lactate", "age"]
FORMULAS = ["--reward", "C(action)", "pressure:C(action)"]


@pytest.fixture(scope="module")
def folder(log):
    out = log.parent / "problem"
    assert main(["ingest", str(log), *WORDS, *STATE, *FORMULAS, "--out", str(out)]) == 0
    return out


def test_two_commands_give_the_numbers_of_the_library(folder, capsys):
    run = folder.parent / "run"
    assert main(["recover", str(folder), "--out", str(run), "--json"]) in (0, 3)
    told = json.loads(capsys.readouterr().out)
    ours = tacit.recover(Problem.load(folder), throw=False)
    assert_allclose(told["parameters"]["estimates"], ours.parameters.estimates, rtol=1e-6)
    loaded = tacit.Recovery.load(run)
    assert_allclose(loaded.parameters.estimates, ours.parameters.estimates)
    rows = [[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    assert_allclose(loaded.policy(rows), ours.policy(rows))
    assert (run / "report.html").exists()


def test_a_run_of_rows_predicts_at_the_rows_of_a_table(folder, tmp_path, capsys):
    run, asked = tmp_path / "run", tmp_path / "rows.csv"
    assert main(["recover", str(folder), "--out", str(run), "--no-report"]) in (0, 3)
    asked.write_text("age,pressure,lactate\n0.5,-1.0,0.1\n0.0,1.0,\n")
    capsys.readouterr()
    assert main(["predict", str(run), "--at", str(asked), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["predictions"]
    ours = tacit.Recovery.load(run).policy([[-1.0, 0.1, 0.5], [1.0, np.nan, 0.0]])
    assert_allclose(told["probability"], ours.ravel())
    assert told["action"] == ["drug", "nothing"] * 2
    assert all(np.array(told["lower"]) < ours.ravel())
    assert all(np.array(told["upper"]) > ours.ravel())
    assert main(["predict", str(run), "--at", "kitchen"]) == 2
    assert "pressure, lactate, age" in capsys.readouterr().err


def test_one_column_of_measurements_is_no_column_of_states(log, tmp_path):
    out = tmp_path / "problem"
    assert main(["ingest", str(log), *WORDS, "--state", "pressure", "--out", str(out)]) == 0
    assert Problem.load(out).seen.columns == ("pressure",)


def test_the_folder_is_read_again_as_it_was_written(folder, tmp_path):
    problem = Problem.load(folder)
    problem.save(tmp_path / "again")
    again = Problem.load(tmp_path / "again")
    assert again.settings == problem.settings
    assert_allclose(again.seen.observations, problem.seen.observations)
    assert again.seen.action_names == ("drug", "nothing")
    assert "lack" in again.notes[0]


def test_what_needs_a_table_of_states_says_so(folder, capsys):
    assert main(["solve", str(folder)]) == 2
    assert "without a table of states" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*STATE, "--reward", "presure"], "presure"),
        ([*STATE, "--reward", "__import__('os')"], "allowed are"),
        ([*STATE, "--cell", "3"], "each row a state of its own"),
        ([*STATE, "--exogenous", "sex"], "sex"),
        (["--state", "pressure", "--exogenous", "age"], "age"),
        (["--exogenous", "age"], "--state A B"),
        (["--state", "pressure", "stay"], "must be a number"),
    ],
)
def test_bad_words_are_one_line_and_leave_nothing(log, tmp_path, capsys, words, said):
    out = tmp_path / "problem"
    assert main(["ingest", str(log), *WORDS, *words, "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not out.exists()


def test_questions_beside_the_fit_are_answered_or_refused_in_one_line(folder, tmp_path, capsys):
    belief = tmp_path / "belief.toml"
    belief.write_text('"pressure:action[nothing]" = [0.5, 1.0]\n')
    words = ["recover", str(folder), "--no-report", "--json", "--out"]
    asked = ["--bootstrap", "2", "--holdout", "0.25", "--belief", str(belief)]
    assert main([*words, str(tmp_path / "asked"), *asked]) == 0
    capsys.readouterr()
    refused = ["--diagnose"], ["--close-untaken"], ["--estimator", "convex"]
    for more in refused:
        assert main([*words, str(tmp_path / "refused"), *more]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1


def test_strict_minds_a_basis_that_actions_are_too_rare_for(log, tmp_path, capsys):
    few = tmp_path / "few.csv"
    few.write_text("\n".join(log.read_text().splitlines()[:81]) + "\n")
    out = tmp_path / "problem"
    assert main(["ingest", str(few), *WORDS, *STATE, *FORMULAS, "--out", str(out)]) == 0
    capsys.readouterr()
    words = ["recover", str(out), "--no-report", "--out", str(tmp_path / "run"), "--json"]
    assert main([*words, "--strict"]) == 3
    assert "BASIS" in {one["kind"] for one in json.loads(capsys.readouterr().out)["findings"]}
