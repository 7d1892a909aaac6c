"""Logs become problems: an independent loop over the rows says what must come out."""

import ast
import csv
import json
import math
import re
import shlex
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tacit
from refusals import refusal
from tacit.checks import resolution_check
from tacit.cli import main
from tacit.data.sources import LogReader, clusters, hexagons, read_raster, square_cells
from tacit.data.sources.rasters import Raster
from tacit.data.sources.times import seconds
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.estimators.task import Task
from tacit.inference.findings import Kind


def ingest(log, **options):
    return LogReader(**options).read(log)


STEPS = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1), "stay": (0, 0)}


@pytest.mark.parametrize("make", [square_cells, hexagons])
def test_cells_cover_the_positions_and_moves_lead_where_they_point(make):
    points = np.random.default_rng(0).uniform((-3, 10), (4, 14), (300, 2))
    places = make(points, 0.9)
    state = places(points)
    assert state.min() >= 0
    distance = np.linalg.norm(points[:, None] - places.centres, axis=2)
    if make is hexagons:  # a hexagon holds what is nearest to its middle
        assert (state == distance.argmin(axis=1)).all()
    else:
        assert (np.abs(points - places.centres[state]) <= 0.45 + 1e-9).all()
    angle = {"east": 0, "north": 90, "west": 180, "south": -90}
    for a, move in enumerate(places.moves):
        there = places.neighbours[:, a] >= 0
        step = places.centres[places.neighbours[there, a]] - places.centres[there]
        assert np.allclose(step, step[0])  # the same from every cell
        words = [angle[word] for word in move.split("-") if word in angle]
        if move == "stay":
            assert np.allclose(step, 0)
        else:  # within half a right angle of what its name says
            mean = sum(np.exp(1j * np.radians(w)) for w in words)
            assert (complex(*step[0]) / mean).real > 0.7 * abs(complex(*step[0])) / abs(mean)
    assert places([[99.0, 99.0]]).tolist() == [-1]
    area = np.prod(np.ptp(places.corners()[0], axis=0))
    assert area == pytest.approx(0.81 if make is square_cells else 0.81 * 2 / math.sqrt(3))


def test_positions_on_edges_belong_to_one_cell():
    points = np.array([[0.0, 0.0], [0.3, 0.3], [0.6, 0.9], [0.1 * 3, 0.0]])
    places = square_cells(points, 0.3)
    assert (places(points) >= 0).all()
    assert places.names[places(points)[0]] == "A4"
    with pytest.raises(InvalidModel, match="take at least"):
        square_cells(points, 1e-6)
    assert clusters(points, 2).names == ("place 1", "place 2")


def walk(seed: int, fixes: int = 60):
    """(rows of a log, the cells as they were, the fixes that are missing) of one walker."""
    rng = np.random.default_rng(seed)
    row, column, cells, rows, lost = 2, 2, [], [], []
    for fix in range(fixes):
        moment = datetime(2024, 5, 1) + timedelta(
            minutes=30 * fix, seconds=int(rng.integers(-99, 99))
        )
        x, y = 10 * (column + rng.uniform(0.1, 0.9)), 10 * (4 - row + rng.uniform(0.1, 0.9))
        missing = rng.random() < 0.1
        lost += [fix] * missing
        cells.append((row, column))
        rows.append([moment.isoformat(), *(("NA", "-") if missing else (f"{x:.3f}", f"{y:.3f}"))])
        options = [m for m in STEPS.values() if 0 <= row + m[0] < 5 and 0 <= column + m[1] < 5]
        step = options[rng.integers(len(options))]
        row, column = row + step[0], column + step[1]
    return rows, cells, lost


def expected(name, cells, lost):
    """The episodes of a walker: (name, cells, moves), cut at what is missing."""
    names = {step: move for move, step in STEPS.items()}
    pieces, current = [], []
    for fix, cell in enumerate([*cells, None]):
        if cell is None or fix in lost:
            pieces += [current] if current else []
            current = []
        else:
            current.append(cell)
    found = []
    for number, piece in enumerate(pieces):
        called = name if number == 0 else f"{name} ({number + 1})"
        moves = [names[b[0] - a[0], b[1] - a[1]] for a, b in pairwise(piece)]
        if moves:
            found.append((called, [f"{'ABCDE'[c]}{r + 1}" for r, c in piece], moves))
    return found


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A shuffled log of three walkers, and what must become of it."""
    rows, truth = [], []
    for number in range(3):
        name = f"fox {number:03d}"
        own, cells, lost = walk(number)
        rows += [[name, *row, "dogs" if number else "vixens", number] for row in own]
        truth += expected(name, cells, lost)
    np.random.default_rng(5).shuffle(rows)
    path = tmp_path_factory.mktemp("log") / "log.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([["who", "when", "x", "y", "sex", "age"], *rows])
    return path, truth


COLUMNS = {"episode": "who", "time": "when", "x": "x", "y": "y"}


def test_a_log_becomes_the_episodes_that_a_loop_finds(log):
    path, truth = log
    found = ingest(path, **COLUMNS, every="30min", cell=10, group="sex", columns=["age"])
    seen, layout = found.demonstrations, found.layout
    assert {*seen.names.tolist()} == {name for name, _, _ in truth}
    told = {name: (cells, moves) for name, cells, moves in truth}
    for e, name in enumerate(seen.names.tolist()):
        states, actions = seen.trajectory(e)
        cells = [layout.state_names[s] for s in [*states, seen.final_states[e]]]
        assert (cells, [layout.action_names[a] for a in actions]) == told[name]
        assert seen.partial[e] == ("(" in name)
        assert seen.individuals[e] == name[:7]
        assert seen.groups[e] == ("vixens" if name.startswith("fox 000") else "dogs")
    assert layout.rows == layout.columns == 5
    # The known world makes every move that was seen.
    mdp = found.mdp(0.9)
    assert tacit.data.Tally.of(mdp, seen).steps == seen.steps
    following = found.moves[seen.states, seen.actions]
    inside = np.append(seen.episode[1:] == seen.episode[:-1], False)
    assert (following[inside] == seen.states[1:][inside[:-1]]).all()
    assert found.features["age"].min() >= 0
    frame = pl.read_csv(path, null_values=["NA", "-"], try_parse_dates=True)
    again = ingest(frame, **COLUMNS, every="30min", cell=10)
    assert np.array_equal(again.demonstrations.states, seen.states)
    assert np.array_equal(again.demonstrations.actions, seen.actions)
    # The track of a fox counts as often as its column says, all pieces of it.
    frame = frame.with_columns(often=pl.col("age") + 1)
    counted = ingest(frame, **COLUMNS, every="30min", cell=10, weight="often").demonstrations
    often = [int(name[4:7]) + 1 for name in again.demonstrations.names.tolist()]
    assert counted.episodes == sum(often) > seen.episodes
    assert counted.steps == np.dot(often, again.demonstrations.lengths)


def test_a_move_beyond_a_neighbour_and_surplus_rows_are_told():
    frame = {
        "who": ["a"] * 6,
        "t": [0.0, 1.0, 1.2, 2.0, 3.0, 4.1],
        "x": [0.5, 1.5, 9.0, 4.5, 4.5, 5.5],
        "y": [0.5] * 6,
    }
    found = ingest(frame, episode="who", time="t", every=1, x="x", y="y", cell=1, radius=1)
    names = [found.layout.state_names[s] for s in found.demonstrations.states]
    assert names == ["A1", "E1", "E1"]
    assert [found.layout.action_names[a] for a in found.demonstrations.actions] == [
        "east",
        "stay",
        "east",
    ]
    assert any("1 of 4 moves" in note for note in found.notes)
    assert any("1 of 6 rows were left out" in note for note in found.notes)


def test_states_of_the_log_make_moves_to_each_other():
    frame = {"who": ["a"] * 4, "room": ["den", "hall", "hall", "den"], "kind": [*"xyyx"]}
    found = ingest(frame, episode="who", state="room", columns=["kind"])
    assert found.layout.action_names == ("stay", "to den", "to hall")
    assert found.moves.tolist() == [[0, -1, 1], [1, 0, -1]]
    assert found.features["kind: y"].tolist() == [0.0, 1.0]
    with_actions = ingest(
        {**frame, "did": ["go", "NA", "go", "-"]}, episode="who", state="room", action="did"
    )
    assert with_actions.layout.action_names == ("go",)
    assert with_actions.demonstrations.names.tolist() == ["a", "a (2)"]
    assert with_actions.moves is None


def test_maps_are_read_and_averaged_over_cells(tmp_path):
    places = square_cells([[0.1, 0.1], [3.9, 1.9]], 2.0)  # A1 and B1
    values = np.arange(8.0).reshape(2, 4)
    np.save(tmp_path / "a.npy", values)
    lines = ["ncols 4", "nrows 2", "xllcorner 0", "yllcorner 0", "cellsize 1", "NODATA_value 7"]
    lines += [" ".join(map(str, row)) for row in values]
    (tmp_path / "a.asc").write_text("\n".join(lines))
    assert read_raster(tmp_path / "a.npy").over(places).tolist() == [2.5, 4.5]
    assert read_raster(tmp_path / "a.asc").over(places).tolist() == [2.5, pytest.approx(11 / 3)]
    image = pytest.importorskip("PIL.Image")
    tags = pytest.importorskip("PIL.TiffImagePlugin").ImageFileDirectory_v2()
    tags[33550], tags[33922] = (1.0, 1.0, 0.0), (0.0, 0.0, 0.0, 0.0, 2.0, 0.0)
    tags.tagtype[33550] = tags.tagtype[33922] = 12
    image.fromarray(values.astype(np.float32)).save(tmp_path / "a.tif", tiffinfo=tags)
    assert read_raster(tmp_path / "a.tif").over(places).tolist() == [2.5, 4.5]
    assert Raster(values, 1.0, 2.0, (1.0, 1.0)).corner == (1.0, 0.0)
    (tmp_path / "b.asc").write_text("ncols 4\nnrows 2\n1 2")
    with pytest.raises(InvalidModel, match="cellsize is missing"):
        read_raster(tmp_path / "b.asc")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"episode": "fox"}, "'fox', given for episode.*it has who"),
        ({"every": "30"}, "needs a unit, such as 15min"),
        ({"every": "half"}, "s, min, h or d"),
        ({"cell": None}, "one of cell, hexagon and clusters"),
        ({"state": "x"}, "states .--state., or two of positions .--x and --y.; not both"),
        ({"time": "sex"}, "line 2: sex must be a time stamp.*2024-05-31 18:30"),
        ({"x": "sex"}, "line 2: sex must be a number"),
    ],
)
def test_what_is_wrong_with_a_log_is_said_with_what_to_type(log, change, words):
    with pytest.raises((InvalidDemonstrations, InvalidModel), match=words):
        ingest(log[0], **{**COLUMNS, "every": "30min", "cell": 10, **change})


def test_a_log_that_is_not_there_is_said_before_its_columns(tmp_path, capsys):
    (tmp_path / "foxes.csv").write_text("fox,x\n")
    assert main(["ingest", str(tmp_path / "foxs.csv"), "--out", str(tmp_path / "out")]) == 4
    assert "no such log (did you mean 'foxes.csv'?)" in capsys.readouterr().err


def test_decimal_commas_are_asked_about(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("id;x;y\na;0,5;0,5\na;1,5;0,5\n")
    with pytest.raises(InvalidDemonstrations, match=r"--decimal-comma, or write 0\.5"):
        ingest(path, episode="id", x="x", y="y", cell=1)
    found = ingest(path, episode="id", x="x", y="y", cell=1, decimal_comma=True)
    assert found.demonstrations.steps == 1
    assert [seconds(t) for t in ("15min", "2 h", "1.5d", "10s")] == [900, 7200, 129600, 10]


def test_degrees_become_metres():
    frame = {"id": ["a"] * 2, "lon": [10.0, 10.02], "lat": [60.0, 60.0]}
    found = ingest(frame, episode="id", x="lon", y="lat", cell=1000)
    assert np.ptp(found.points[:, 0]) == pytest.approx(0.02 * 111_320 / 2, rel=1e-6)


def test_the_command_writes_a_problem_that_can_be_used(log, tmp_path, capsys):
    path, _ = log
    folder = tmp_path / "foxes"
    asked = "--episode who --time when --every 30min --x x --y y --hexagon 12 --group sex"
    words = shlex.split(asked)
    assert main(["ingest", str(path), *words, "--out", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["groups"] == "vixens, dogs" or told["groups"] == "dogs, vixens"
    assert (folder / "cells.png").read_bytes().startswith(b"\x89PNG")
    problem = tacit.runs.Problem.load(folder)
    assert problem.demonstrations.steps == told["steps"]
    assert problem.features.reward_names == ("east", "north", "staying")
    assert main(["check", str(folder)]) == 0
    assert "fox" not in capsys.readouterr().err
    assert main(["ingest", str(path), *words, "--out", str(folder)]) == 4  # it is taken
    words[words.index("--hexagon")] = "--cells"
    assert main(["ingest", str(path), *words]) == 2
    assert "--cell" in capsys.readouterr().err


def test_the_resolution_check_tells_states_that_change_the_answer():
    mdp = tacit.worlds.hill_grid(seed=0, size=3).mdp
    phi = np.random.default_rng(1).uniform(size=(9, 2))
    features = tacit.Features(phi)

    def make(size: float) -> Task:
        weights = [0.2, 0.8] if size == 3 else [0.8, 0.2]
        truth = tacit.Objective(phi @ weights, np.zeros((0, 9)), np.zeros(0))
        expert = tacit.solve(mdp, truth, solver=tacit.SoftDual(temperature=0.1))
        seen = tacit.simulate(mdp, expert.policy, trajectories=40, steps=30, seed=0)
        return Task(mdp, features, seen)

    same = resolution_check(make, [1, 2], estimator=tacit.Likelihood())
    assert same.adequate
    assert np.nanmax(same.moves) == 0
    other = resolution_check(make, [1, 3], estimator=tacit.Likelihood())
    assert not other.adequate
    # The oracle: how far the truths are apart, in the error bars that were said.
    assert other.moves.max() == pytest.approx(0.6 / other.standard_errors.max(), rel=0.5)
    assert other.sentences[0].kind is Kind.MISFIT
    with pytest.raises(InvalidModel, match="at least two"):
        resolution_check(make, [1])


def test_two_names_tell_episodes_apart_that_begin_again_for_each_individual(tmp_path):
    """Semicolons, decimal commas, zones, NA, and trip 1 of each cow."""
    lines = ["Tier;Fahrt;Zeitpunkt;Breite;Länge"]
    for cow in ("Kuh 7", "Ochse"):
        for trip in (1, 2):
            for k in range(6):
                place = "NA;NA" if k == 4 else f"52,{1000 + k:04d};8,{4000 + 10 * k:04d}"
                time = f"2023-07-0{trip}T06:{10 * k:02d}:00+02:00"
                lines.append(f"{cow};{trip};{time};{place}")
    log = tmp_path / "kuehe.csv"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    asked = {"time": "Zeitpunkt", "every": "10min", "x": "Länge", "y": "Breite", "cell": 100.0}
    asked |= {"episode": "Fahrt", "individual": "Tier", "decimal_comma": True}
    found = ingest(log, **asked)
    seen = found.demonstrations
    assert seen.names.tolist() == ["Kuh 7 1", "Kuh 7 2", "Ochse 1", "Ochse 2"]
    assert seen.individuals.tolist() == ["Kuh 7", "Kuh 7", "Ochse", "Ochse"]
    assert seen.lengths.tolist() == [3, 3, 3, 3]  # to the fix that is missing
    assert len(found.layout.state_names) > 1  # degrees, by their German names
    text = log.read_text("utf-8").replace("Länge", "east").replace("Breite", "north")
    log.write_text(text, encoding="utf-8")
    with pytest.raises(tacit.InvalidDemonstrations, match="all positions lie in one cell"):
        ingest(log, **(asked | {"x": "east", "y": "north"}))


PATIENTS = """patient;date;clinic;grade;given;pain;load
a;01.02.2024;North;mild;wait;2,5;0
a;08.02.2024;North;MILD;pill;2,1;1
a;15.02.2024;North;N/A;wait;2,2;0
a;22.02.2024;North;severe;pill;8,0;1
a;29.02.2024;North;mild;wait;1,5;0
b;01.02.2024;north;severe;wait;7,5;0
b;08.02.2024;north;mild;pill;2,0;1
b;15.02.2024;north;mild;wait;2,4;0
"""


def test_what_would_be_silently_wrong_in_a_log_of_words_is_told(tmp_path, capsys):
    path = tmp_path / "patients.csv"
    path.write_text(PATIENTS)
    assert main(["ingest", str(path), "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    # Neither column of words has a name that says which it is: both are asked for.
    assert "--state COLUMN --action COLUMN" in told["try"]
    roles = {"episode": "patient", "time": "date", "state": "grade", "group": "clinic"}
    columns = ("pain", "load")
    found = ingest(path, **roles, action="given", columns=columns, decimal_comma=True)
    assert found.layout.state_names == ("MILD", "mild", "severe")  # N/A is no state
    told = "\n".join(found.notes)
    assert "states differ in capitals or spaces only and count apart: 'MILD' and 'mild'" in told
    assert "groups differ in capitals or spaces only and count apart: 'North' and 'north'" in told
    assert "load depends on the action" in told
    assert "pain depends" not in told  # it depends on the state
    moved = ingest(path, **roles, columns=columns, decimal_comma=True)
    assert not any("depends" in note for note in moved.notes)  # no action was told
    path.write_text(PATIENTS.replace("grade;given", "severity;treatment"))
    assert main(["ingest", str(path), "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert "--state severity --action treatment" in told["try"]


def test_the_foxes_of_the_docs_get_their_truth_back():
    """What made the log lies within the intervals that docs/foxes.md prints (run by test_docs)."""
    page = (Path(__file__).parents[2] / "docs" / "foxes.md").read_text("utf-8")
    likes = ast.literal_eval(re.search(r"^LIKES = (.*)$", page, re.M)[1])
    minds = ast.literal_eval(re.search(r"^MINDS = (\{.*?\})", page, re.M)[1])
    wanted = {f"reward: {name}": (one, one) for name, one in likes.items()}
    wanted["price 0"] = (minds["country"], minds["town"])  # the order of the columns
    for name, truths in wanted.items():
        line = re.search(rf"^  {name} .*$", page, re.M)[0]
        ends = re.findall(r"\[([\d.]+), ([\d.]+)\]", line)
        assert len(ends) == 2, line
        for truth, (low, high) in zip(truths, ends, strict=True):
            assert float(low) <= truth <= float(high), line


def visits(lengths, **others):
    """A log of patients, each with visits so many days after the one before."""
    days = np.concatenate([np.append(0.0, np.cumsum(part)) for part in lengths])
    who = np.repeat(np.arange(len(lengths)), [len(part) + 1 for part in lengths])
    start = datetime(2024, 1, 8)
    stamps = [(start + timedelta(days=float(day))).isoformat(" ", "minutes") for day in days]
    return {"who": [f"p{n}" for n in who], "when": stamps, **others}


@pytest.mark.parametrize("option", ["sampling_weight", "action_columns"])
def test_a_column_that_is_not_there_is_asked_for_by_its_option(tmp_path, option):
    (tmp_path / "log.csv").write_text("episode,room,did\na,x,go\na,y,go\n")
    asked = {option: ["height"] if option == "action_columns" else "height"}
    with pytest.raises(tacit.InvalidDemonstrations, match=f"to --{option.replace('_', '-')}$"):
        ingest(tmp_path / "log.csv", episode="episode", state="room", action="did", **asked)


def test_a_column_is_a_feature_of_states_or_of_actions_not_both(tmp_path):
    (tmp_path / "log.csv").write_text("episode,room,did,dose\na,x,go,1\na,y,go,2\n")
    both = {"columns": ["dose"], "action_columns": ["dose"]}
    with pytest.raises(tacit.InvalidModel, match="not to both; got 'dose'"):
        ingest(tmp_path / "log.csv", episode="episode", state="room", action="did", **both)


def test_visits_that_drift_are_steps_and_a_clock_that_jitters_is_a_clock():
    random = np.random.default_rng(0)
    lengths = [random.integers(6, 9, 24) for _ in range(20)]
    asked = {"episode": "who", "time": "when", "every": "7d", "state": "room", "action": "did"}
    rooms = {"room": [f"r{n}" for n in random.integers(0, 3, 500)], "did": ["go", "stay"] * 250}
    seen = ingest(visits(lengths, **rooms), **asked)
    assert seen.demonstrations.episodes == 20
    assert not seen.demonstrations.partial.any()
    assert seen.demonstrations.steps == 500
    assert any("drift" in note for note in seen.notes)
    # A gap of three weeks is one all the same, and a visit of the next day is spare.
    lengths[0][5], lengths[1][5] = 21, 1
    # So is one after two days, but not the next two days on: four are nearer to a week than none.
    lengths[2][5] = lengths[2][6] = 2
    seen = ingest(visits(lengths, **rooms), **asked)
    assert seen.demonstrations.episodes == 21
    assert seen.demonstrations.steps == 498
    # About the same day of every week, two in a row may be 2 or 12 days apart, and none is spare.
    late = np.pad(random.uniform(-2.9, 2.9, (20, 24)), ((0, 0), (1, 0)))
    about = np.diff(7.0 * np.arange(25) + late)
    assert about.min() < 3.5
    seen = ingest(visits(about, **rooms), **asked)
    assert seen.demonstrations.episodes == 20
    assert not any("drift" in note for note in seen.notes)


def test_columns_by_action_are_means_of_each_pair(tmp_path, capsys):
    random = np.random.default_rng(0)
    count = 400
    state, did = random.integers(0, 3, count), random.integers(0, 3, count)
    state[did == 2] = 0  # the third is done in one state only
    pain = 2.0 * did + state + random.normal(0, 0.1, count)
    told = [f"{value:.6f}" if n % 9 else "NA" for n, value in enumerate(pain)]
    log = {
        "patient": [f"p{n // 20}" for n in range(count)],
        "ward": [f"w{s}" for s in state],
        "drug": [("none", "low", "high")[a] for a in did],
        "age": [str(n // 20) for n in range(count)],
        "pain": told,
        "weight": [f"{1 + n // 20 % 3 / 2}" for n in range(count)],
    }
    lines = [",".join(log), *(",".join(row) for row in zip(*log.values(), strict=True))]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    asked = ["--episode", "patient", "--state", "ward", "--action", "drug", "--columns", "age"]
    asked += ["--action-columns", "pain", "--cost", "pain", "--sampling-weight", "weight"]
    command = ["ingest", str(tmp_path / "log.csv"), *asked, "--out", str(tmp_path / "problem")]
    assert main(command) == 0
    problem = tacit.folders.problem.Problem.load(tmp_path / "problem")
    names = problem.layout.action_names
    table = problem.features.costs[0][..., 0]
    for s in range(3):
        for a, name in enumerate(names):
            rows = (state == s) & (did == ("none", "low", "high").index(name))
            known = rows & np.array([cell != "NA" for cell in told])
            if known.any():
                assert table[s, a] == pytest.approx(pain[known].mean(), abs=1e-6)
            else:  # as elsewhere
                assert name == "high"
                assert table[s, a] == pytest.approx(table[0, a])
    assert problem.features.reward.ndim == 2 or (np.ptp(problem.features.reward, axis=1) == 0).all()
    np.testing.assert_allclose(problem.demonstrations.weights, np.array(log["weight"], float))
    run = ["recover", str(tmp_path / "problem"), "--out", str(tmp_path / "run"), "--no-report"]
    assert main([*run, "--estimator", "likelihood", "--free-reward"]) == 0
    found = tacit.Recovery.load(tmp_path / "run")
    assert found.parameters.weighted
    assert found.parameters.with_errors("fisher").reason
    assert main([*run[:3], str(tmp_path / "again"), "--bootstrap", "9"]) == 2
    told = capsys.readouterr().err
    assert "leave out such options, or the weights" in told
    assert "--sampling-weight" in told
    assert "dataclasses" not in told


@pytest.mark.parametrize(
    ("clinic", "weight", "said"),
    [
        ("north", "0", "ipw must be a number above 0; got '0': leave out its row"),
        ("north", "-1", "ipw must be a number above 0; got '-1': correct it, or leave out its row"),
        ("north", "x", "ipw must be a number above 0; got 'x': correct it, or leave out its row"),
        ("north", "", "ipw must be a number above 0; it is missing: correct it, or leave out "),
        ("", "1", "clinic must be a name; it is missing: fill it in, or leave out --group"),
    ],
)
def test_a_bad_weight_or_group_is_refused_by_line_and_by_its_own_name(
    tmp_path, clinic, weight, said
):
    rows = ["a,ill,pill,north,2", "a,NA,pill,north,1", "a,well,,north,1"]
    rows = [*rows, f"b,ill,rest,{clinic},{weight}", "b,ill,pill,south,1"]
    (tmp_path / "log.csv").write_text("\n".join(["who,how,did,clinic,ipw", *rows]))
    asked = {"episode": "who", "state": "how", "action": "did", "group": "clinic"}
    with refusal(tacit.InvalidDemonstrations, f"log.csv, line 5: {said}"):
        ingest(tmp_path / "log.csv", **asked, sampling_weight="ipw")


def test_ends_end_episodes_and_nothing_is_done_there(tmp_path):
    rows = ["a,ill,pill", "a,well,NA", "b,ill,rest", "b,ill,pill", "b,gone,", "c,ill,rest"]
    (tmp_path / "log.csv").write_text("\n".join(["who,how,did", *rows, "c,ill,pill"]))
    asked = {"episode": "who", "state": "how", "action": "did", "ends": ["well", "gone"]}
    log = ingest(tmp_path / "log.csv", **asked)
    assert log.demonstrations.ended.tolist() == [True, True, False]
    mdp = log.mdp(0.9)
    names = log.layout.state_names
    assert [names[s] for s in np.flatnonzero(mdp.ends)] == ["gone", "well"]
    # Where moves are the actions, none leads out of an end.
    moved = ingest(tmp_path / "log.csv", **{**asked, "action": None})
    assert (moved.moves[[names.index("gone"), names.index("well")]] == -1).all()
    assert moved.mdp(0.9).ends.sum() == 2
    with pytest.raises(InvalidDemonstrations, match="did you mean 'well'"):
        ingest(tmp_path / "log.csv", **{**asked, "ends": ["wel"]})
    with pytest.raises(InvalidDemonstrations, match="nothing must be done in an end"):
        ingest(tmp_path / "log.csv", **{**asked, "ends": ["ill"]})


@pytest.mark.parametrize("ends", [[], ["C1"]])
def test_ends_among_cells_have_no_moves(tmp_path, ends):
    rows = [f"{who},{x + 0.5},0.5" for who in "ab" for x in range(3)]
    (tmp_path / "log.csv").write_text("\n".join(["who,x,y", *rows]))
    log = ingest(tmp_path / "log.csv", episode="who", x="x", y="y", cell=1.0, ends=ends)
    names, there = log.layout.state_names, (log.moves != -1).any(axis=1)
    assert [name for name, out in zip(names, there, strict=True) if not out] == ends


def tracks_with_maps(folder: Path) -> list[str]:
    """A log of 6 animals on maps of land cover, slope and roads: the words of `ingest`."""
    rng, size = np.random.default_rng(3), 8
    lines = ["animal,hour,x,y"]
    for animal in range(6):
        at = rng.integers(size, size=2)
        for hour in range(60):
            lines.append(f"a{animal},{hour},{at[0] + 0.5},{at[1] + 0.5}")
            at = np.clip(at + rng.integers(-1, 2, 2), 0, size - 1)
    (folder / "log.csv").write_text("\n".join(lines) + "\n")
    maps = {
        "cover": rng.integers(1, 4, (size, size)),
        "slope": rng.uniform(1, 9, (size, size)).round(2),
        "road": (rng.random((size, size)) < 0.3).astype(int),
    }
    for name, values in maps.items():
        head = f"ncols {size}\nnrows {size}\nxllcorner 0\nyllcorner 0\ncellsize 1\n"
        rows = "\n".join(" ".join(map(str, row)) for row in values.tolist())
        (folder / f"{name}.asc").write_text(head + rows + "\n")
    words = ["ingest", str(folder / "log.csv"), "--episode", "animal", "--time", "hour"]
    words += ["--x", "x", "--y", "y", "--cell", "1", "--classes", "cover", "--out"]
    return [*words, str(folder / "p"), "--maps", *(f"{n}={folder / n}.asc" for n in maps)]


def test_formulas_name_what_may_matter(tmp_path):
    words = tracks_with_maps(tmp_path)
    costs = ["--cost", "road", "road:C(cover)"]
    assert main([*words, "--reward", "C(cover) + scale(slope)", *costs]) == 0
    features = tacit.runs.Problem.load(tmp_path / "p").features
    *classes, slope, staying, length = features.reward_names
    assert (slope, staying, length) == ("scale(slope)", "staying", "step length")
    assert len(classes) == 2
    assert all(name.startswith("cover: ") for name in classes)
    assert features.cost_names == (("road",), tuple(f"road:{name}" for name in classes))
    products = features.costs[0] * features.reward[..., :2]
    assert np.allclose(features.costs[1], products)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--reward", "slope + slop"], ["'slop'", "did you mean 'slope'?"]),
        (["--reward", "open('x')"], ["open", "allowed are columns"]),
        (["--cost", "road:forest"], ["'forest'"]),
    ],
)
def test_formulas_that_cannot_be_are_refused_in_one_line(words, said, tmp_path, capsys):
    assert main([*tracks_with_maps(tmp_path), *words]) == 2
    line = capsys.readouterr().err.strip()
    assert "\n" not in line
    for one in said:
        assert one in line
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    ("dates", "words"),
    [
        (
            ("03/04/2023 10:00", "04/04/2023 10:00"),
            "day 3 of month 4 or day 4 of month 3.*2023-04-03",
        ),
        (("13/04/2023 10:00", "14/04/2023 10:00"), ""),
        (("04/13/2023 10:00", "04/14/2023 10:00"), ""),
    ],
)
def test_a_date_of_which_nobody_knows_the_order_is_refused_with_the_reason(tmp_path, dates, words):
    path = tmp_path / "log.csv"
    rows = [f"a,{date},{x},1" for x, date in enumerate([*dates, *dates])]
    path.write_text("\n".join(["id,time,x,y", *rows]) + "\n")
    columns = {"episode": "id", "time": "time", "x": "x", "y": "y", "cell": 1}
    if words:
        with pytest.raises(InvalidDemonstrations, match=words):
            ingest(path, **columns)
    else:
        assert ingest(path, **columns).demonstrations.steps
