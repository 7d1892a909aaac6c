"""`tacit predict`: the numbers of the library, from a folder, and what it refuses."""

import json

import numpy as np
import polars
import pytest
from numpy.testing import assert_allclose

import tacit
from tacit.cli import main
from tacit.folders.problem import Problem
from tacit.folders.runs import Run
from tacit.model.layout import Layout
from travellers import GOALS, TRUTH, lengths, streets, travelled


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A problem and its run, from a folder that the run names by its whole path."""
    home = tmp_path_factory.mktemp("house")
    place = tacit.worlds.hill_grid(1, size=4, tightness=0.6)
    expert = tacit.solve(place.mdp, place.truth, solver=tacit.SoftDual(temperature=0.05))
    seen = tacit.simulate(place.mdp, expert.policy, trajectories=30, steps=40, seed=0)
    Problem(place.mdp, place.features, seen, layout=place.layout).save(home / "hills")
    words = ["recover", str(home / "hills"), "--out", str(home / "run"), "--no-report"]
    assert main([*words, "--estimator", "likelihood"]) == 0
    return home


def test_it_gives_the_numbers_of_the_library(folder, tmp_path, capsys):
    run, out = folder / "run", tmp_path / "chances.csv"
    problem = Problem.load(folder / "hills")
    assert main(["predict", str(run), "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    ours = tacit.recover(
        problem.mdp, problem.features, problem.seen, estimator=tacit.Likelihood()
    ).predict()
    frame, columns = ours.frame(problem.layout), told["predictions"]
    assert columns["state"] == frame["state"].to_list()
    for name in ("probability", "lower", "upper"):
        assert_allclose(columns[name], frame[name].to_numpy(), rtol=1e-5)
    assert told["method"] == ours.method
    written = polars.read_csv(out)
    assert_allclose(written["upper"].to_numpy(), columns["upper"])
    assert main(["predict", str(run)]) == 0
    assert "more rows" in capsys.readouterr().out


def test_places_are_named_on_the_line_or_in_a_table(folder, tmp_path, capsys):
    run, table = str(folder / "run"), tmp_path / "rows.csv"
    table.write_text('state\n"(0, 1)"\n"(2, 3)"\n')
    told = []
    for at in (["(0, 1)", "(2, 3)"], [str(table)]):
        assert main(["predict", run, "--at", *at, "--confidence", ".9", "--json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told[0]["predictions"] == told[1]["predictions"]
    assert set(told[0]["predictions"]["state"]) == {"(0, 1)", "(2, 3)"}
    assert told[0]["confidence"] == 0.9


def test_trips_have_goals(tmp_path, capsys):
    town = streets()
    features = lengths(town)
    seen = travelled(town, features.reward @ TRUTH, 100, GOALS)
    network = tacit.MDP(town.transitions, town.initial, 0.0, available=town.available)
    names = tuple(f"place {s}" for s in range(16))
    layout = Layout(4, 4, state_names=names, action_names=("west", "east", "north", "south"))
    problem = Problem(network, features, seen, layout=layout, goal="last", discount=1.0)
    run = tmp_path / "run"
    Run(tacit.recover(problem.trips), layout=layout).save(run)
    rows = tmp_path / "rows.csv"
    rows.write_text("state,goal\nplace 0,place 5\nplace 1,place 3\n")
    assert main(["predict", str(run), "--at", str(rows), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["predictions"]
    ours = tacit.Recovery.load(run).predict([0, 1], goals=[5, 3]).frame(layout)
    assert told["goal"] == ours["goal"].to_list()
    assert_allclose(told["probability"], ours["probability"].to_numpy())
    assert main(["predict", str(run), "--goal", "place 5"]) == 0
    assert "south" in capsys.readouterr().out
    assert main(["predict", str(run)]) == 2
    assert main(["predict", str(run), "--at", str(rows), "--goal", "place 5"]) == 2


def test_what_is_wrong_is_one_line_and_a_code(folder, tmp_path, capsys):
    run = str(folder / "run")
    empty = tmp_path / "rows.csv"
    empty.write_text("cell\nx\n")
    for words, code, said in (
        (["--at", "nowhere"], 2, "must be a state of the run"),
        (["--at", str(empty)], 2, "must have the column 'state'"),
        (["--at", str(tmp_path / "none.csv")], 4, "none.csv"),
        (["--out", "x.txt"], 2, ".csv or .parquet"),
        (["--confidence", "2"], 2, "confidence"),
        (["--part", "1"], 2, "part must be"),
        (["--goal", "(0, 1)"], 2, "goals are for trips"),
    ):
        assert main(["predict", run, *words]) == code
        error = capsys.readouterr().err
        assert said in error
        assert len(error.splitlines()) == 1
    assert main(["predict", str(tmp_path / "gone")]) == 4


def test_a_world_that_changed_is_refused_and_one_that_is_gone_is_said(folder, tmp_path, capsys):
    problem = Problem.load(folder / "hills")
    found = Run.load(folder / "run")
    for home, world in (("moved", problem.mdp), ("lost", None)):
        config = {**found.config, "problem": str(tmp_path / home)}
        if world is not None:
            turned = tacit.MDP(world.transitions, world.initial[::-1], world.discount)
            Problem(turned, problem.features, problem.seen).save(tmp_path / home)
        run = Run(found.recovery, layout=found.layout, config=config, hashes=found.hashes)
        run.save(tmp_path / f"{home}-run")
    assert main(["predict", str(tmp_path / "moved-run")]) == 2
    assert "mdp changed" in capsys.readouterr().err
    assert main(["predict", str(tmp_path / "lost-run"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "the world is not known" in told["absence"]
    assert np.isnan(np.array(told["predictions"]["lower"], float)).all()
    words = ["--problem", str(tmp_path / "moved")]
    assert main(["predict", str(tmp_path / "lost-run"), *words]) == 0
