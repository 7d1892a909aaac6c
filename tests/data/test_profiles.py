"""Rows of measurements as few states: imputed, scaled, clustered, stored with the run."""

import json
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.data.sources import MeasuredReader, Profiles
from tacit.errors import InvalidDemonstrations


def ward(path: Path, *, stays: int = 60, empty: bool = False, seed: int = 0) -> Path:
    """Stays with three kinds of rows, far apart, that end in one of two ways or in none."""
    rng = np.random.default_rng(seed)
    middles = np.array([[80.0, 4.0], [110.0, 1.0], [140.0, 2.5]])
    rows = ["stay,hour,sbp,lactate,dose,outcome"]
    for stay in range(stays):
        kind, outcome = rng.integers(3), ["died", "discharged", ""][stay % 3]
        for hour in range(8):
            sbp, lactate = middles[kind] + rng.normal(size=2) * [3, 0.1]
            drug = ["none", "some", "much"][rng.integers(3)]
            seen = "" if empty or rng.random() < 0.05 else f"{lactate:.2f}"
            rows.append(f"s{stay},{hour},{sbp:.1f},{seen},{drug},{outcome if hour == 7 else ''}")
            kind = rng.integers(3)
    path.write_text("\n".join([*rows, ""]))
    return path


WORDS = ["--episode", "stay", "--time", "hour", "--state", "sbp", "lactate", "--action", "dose"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ward")
    words = ["ingest", str(ward(folder / "ward.csv")), *WORDS, "--states", "3", "--ended"]
    words += ["outcome", "--reward", "scale(sbp) + died", "--cost", "C(action, base='none')"]
    assert main([*words, "--out", str(folder / "p")]) == 0
    assert main(["recover", str(folder / "p"), "--out", str(folder / "run"), "--quiet"]) == 0
    return folder


def test_states_are_the_kinds_of_rows_and_ends_are_states_of_their_own(run):
    problem = tacit.runs.Problem.load(run / "p")
    assert problem.layout.state_names == ("state 1", "state 2", "state 3", "died", "discharged")
    assert problem.mdp.ends.tolist() == [False] * 3 + [True] * 2
    seen = problem.demonstrations
    assert seen.ended.sum() == 40
    assert np.bincount(seen.final_states[seen.ended]).tolist() == [0, 0, 0, 20, 20]
    features = problem.features
    assert features.reward_names == ("scale(sbp)", "died")
    assert features.cost_names == (("action[much]", "action[some]"),)
    assert (features.costs[0][3:] == 0).all()  # nothing is given where nothing is done
    assert features.reward[..., 1].reshape(5, -1)[:, 0].tolist() == [0, 0, 0, 1, 0]


def test_a_profile_says_in_the_units_of_the_log_what_a_state_is(run):
    told = tacit.runs.Run.load(run / "run").extras["profiles"]["columns"]
    assert sorted(np.round(told["sbp"], -1)) == [80, 110, 140]
    page = (run / "run" / "report.html").read_text()
    assert "What the states are" in page


def test_other_rows_are_read_by_the_stored_states(run, tmp_path, capsys):
    later = ward(tmp_path / "later.csv", stays=9, seed=1)
    capsys.readouterr()
    assert main(["score", str(run / "run"), str(later), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 72
    one = tmp_path / "one.csv"  # three rows alone would make other clusters
    one.write_text("".join(later.read_text().splitlines(keepends=True)[:4]))
    assert main(["score", str(run / "run"), str(one)]) == 0


def test_profiles_are_what_is_stored_of_them():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 3)) * [1, 100, 0.01]
    rows[rng.random(rows.shape) < 0.1] = np.nan
    made = Profiles.of(rows, ["a", "b", "c"], 7)
    again = Profiles.from_stored(json.loads(json.dumps(made.stored())))
    assert np.array_equal(made(rows), again(rows))
    assert made.names[0] == "state 1"
    assert np.unique(made(rows)).tolist() == [*range(7)]
    scaled = Profiles.of(rows * [1000, 1, 1], ["a", "b", "c"], 7)  # units do not matter
    assert np.array_equal(made(rows), scaled(rows * [1000, 1, 1]))


@pytest.mark.parametrize("states", [[], ["--states", "3"]])
def test_a_column_without_any_number_is_one_line(states, tmp_path, capsys):
    log = ward(tmp_path / "ward.csv", stays=6, empty=True)
    assert main(["ingest", str(log), *WORDS, *states, "--out", str(tmp_path / "p")]) == 2
    line = capsys.readouterr().err.strip()
    assert "\n" not in line
    assert "'lactate' is missing in all" in line


def test_words_say_how_a_stay_ended(tmp_path):
    log = ward(tmp_path / "ward.csv", stays=6)
    reader = MeasuredReader(
        episode="stay",
        time="hour",
        measured=("sbp", "lactate"),
        action="dose",
        ended="outcome",
    )
    assert reader.read(log).ended.tolist() == [True, True, False] * 2
    ways = reader.outcomes(log)
    assert ways == {"s0": "died", "s1": "discharged", "s3": "died", "s4": "discharged"}
    text = log.read_text().replace("s0,3,", "s0,3,", 1).splitlines()
    first = next(i for i, row in enumerate(text) if row.startswith("s0,3,"))
    text[first] += "discharged"
    log.write_text("\n".join([*text, ""]))
    with pytest.raises(InvalidDemonstrations, match="must end in one way; s0"):
        reader.outcomes(log)
