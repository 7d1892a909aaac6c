"""Frames and files of measurements are read as they stand, and written so that nothing is lost."""

import datetime
from pathlib import Path

import numpy as np
import pandas
import polars
import pytest

import tacit

TABLE = {
    "stay": ["a", "b", "a", "b", "a"],
    "hour": [2, 1, 0, 0, 1],
    "sbp": [None, 110.0, 90.0, 120.0, 95.5],
    "lactate": [2.5, 1.5, float("nan"), 3.5, 4.5],
    "drug": [None, "none", "some", "none", "some"],
    "dead": [True, False, True, False, True],
    "who": ["x", "y", "x", "y", "x"],
}
STATE = ["sbp", "lactate"]
ROWS = [[90, np.nan], [95.5, 4.5], [120, 3.5], [110, 1.5], [np.nan, 2.5]]
NAMES = {"episode": "stay", "step": "hour", "action": "drug", "ended": "dead", "individual": "who"}


def read(frame=TABLE, state=STATE, **others):
    return tacit.Demonstrations.from_frame(frame, state=state, **(NAMES | others))


@pytest.mark.parametrize("form", [dict, polars.DataFrame, pandas.DataFrame, polars.LazyFrame])
def test_a_frame_of_measurements_is_read_whatever_its_form_and_order(form):
    seen = read(form(TABLE))
    assert isinstance(seen, tacit.Measurements)
    assert seen.columns == ("sbp", "lactate")
    np.testing.assert_array_equal(seen.observations, ROWS)
    assert seen.actions.tolist() == [1, 1, 0, 0]
    assert seen.action_names == ("none", "some")
    assert seen.final_states.tolist() == [4, -1]
    assert seen.ended.tolist() == [True, False]
    assert seen.individuals.tolist() == ["x", "y"]
    assert seen.names.tolist() == ["a", "b"]


@pytest.mark.parametrize("ending", ["parquet", "csv", "npz"])
def test_what_is_saved_is_loaded_again(tmp_path, ending):
    seen = read()
    path = tmp_path / f"rows.{ending}"
    seen.save(path)
    for again in (
        tacit.Measurements.load(path),
        tacit.Demonstrations.load(path, state=STATE),
    ):
        assert again.columns == seen.columns
        np.testing.assert_array_equal(again.observations, seen.observations)
        for name in ("actions", "offsets", "ended", "final_states", "individuals", "names"):
            np.testing.assert_array_equal(getattr(again, name), getattr(seen, name))
        assert again.action_names == seen.action_names
    if ending != "npz":
        assert "sbp and lactate are taken" in tacit.Measurements.load(path).notes[0]
    one = tacit.Demonstrations.load(path, state=["lactate"])
    np.testing.assert_array_equal(one.observations[:, 0], seen.observations[:, 1])


def test_numbers_keep_every_digit_in_text(tmp_path):
    random = np.random.default_rng(0)
    rows = random.normal(size=(200, 2)) * 10.0 ** random.integers(-9, 9, size=(200, 2))
    seen = tacit.Measurements.from_trajectories([(rows, random.integers(2, size=199))])
    seen.save(tmp_path / "rows.csv")
    again = tacit.Measurements.load(tmp_path / "rows.csv")
    np.testing.assert_array_equal(again.observations, seen.observations)


def test_a_measurement_may_be_called_weight_and_a_step_may_be_measured():
    table = {"id": [0, 0], "step": [0, 1], "weight": [70.5, 71.0], "action": [0, 1]}
    names = {"episode": "id", "state": ["weight", "step"]}
    seen = tacit.Demonstrations.from_frame(table, **names)
    assert seen.weights is None
    np.testing.assert_array_equal(seen.observations, [[70.5, 0], [71.0, 1]])


def test_a_row_with_nothing_in_it_ends_an_episode_and_others_keep_their_gaps():
    table = {
        "episode": [0, 0, 0],
        "step": [0, 1, 2],
        "x": [1.0, None, None],
        "action": [1, 0, None],
    }
    seen = tacit.Demonstrations.from_frame(table, state=["x"])
    np.testing.assert_array_equal(seen.observations, [[1.0], [np.nan]])
    assert seen.final_states.tolist() == [-1]


def file_of(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("episode,step,x,action\n0,0,1,0\n0,1,two,1\n", r"line 3: x must be a .* got 'two': code"),
        ("episode,step,x,action\n0,0,1,0\n\n0,1,inf,1\n", "line 4: x must be a finite number"),
        ("episode;step;x;action\n0;0;1,5;0\n", "line 2: .*a point instead of the decimal comma"),
        ("episode,step,y,action\n0,0,1,0\n", "must have the column 'x'"),
        ("episode,step,x\n0,0,1\n", "must have the column 'action'"),
        ("episode,step,x,action\n0,0,1,0.25\n0,1,2,0.5\n", "line 2.*cut actions into classes"),
        ("episode,step,x,action\n0,0,1,0\n0,2,1,0\n", "goes from step 0 to 2"),
        ("episode,step,x,action\n0,0,1,\n0,1,1,0\n", "line 2: action must be there"),
        ("episode,step,x,x,action\n0,0,1,1,0\n", "'x' is twice"),
        ("episode,step,x,action\n", "at least one step"),
    ],
)
def test_a_bad_table_is_refused_by_line(tmp_path, text, words):
    with pytest.raises(tacit.InvalidDemonstrations, match=words) as refusal:
        tacit.Demonstrations.load(file_of(tmp_path, text), state=["x"])
    assert "\n" not in str(refusal.value)


def test_a_bad_cell_of_a_long_table_is_found_by_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr("tacit.files.tables.BLOCK", 100)
    lines = ["episode,step,x,action", *(f"0,{step},1.5,0" for step in range(50)), "0,50,one,0"]
    with pytest.raises(tacit.InvalidDemonstrations, match="line 52: x must be a finite number"):
        tacit.Demonstrations.load(file_of(tmp_path, "\n".join(lines)), state=["x"])


def test_a_table_of_numbered_states_needs_to_be_asked_for_measurements(tmp_path):
    path = file_of(tmp_path, "episode,step,x,action\n0,0,1,0\n")
    with pytest.raises(tacit.InvalidDemonstrations, match=r"state=\[\.\.\.\]"):
        tacit.Demonstrations.load(path)
    bare = file_of(tmp_path, "episode,step,action\n0,0,0\n")
    with pytest.raises(tacit.InvalidDemonstrations, match="columns of measurements"):
        tacit.Measurements.load(bare)
    plain = tmp_path / "plain.npz"
    tacit.Demonstrations.from_trajectories([([0, 1], [0, 1])]).save(plain)
    with pytest.raises(tacit.InvalidDemonstrations, match="'observations'"):
        tacit.Measurements.load(plain)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sbp": ["low"] * 5}, "row 1: sbp must be a finite number; got 'low'"),
        ({"sbp": [datetime.date(2020, 1, 1)] * 5}, "sbp must be a finite number"),
        ({"drug": [0.5, 0.25, 0.125, 0.5, 0.5]}, "cut actions into classes"),
    ],
)
def test_a_bad_frame_is_refused_in_one_line(change, words):
    with pytest.raises(tacit.InvalidDemonstrations, match=words) as refusal:
        read(TABLE | change)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ([], "at least one column"),
        (["sbp", "lactat"], "did you mean 'lactate'"),
        (["action"], "rename it"),
    ],
)
def test_columns_that_cannot_be_measurements_are_refused(state, words):
    with pytest.raises(tacit.InvalidDemonstrations, match=words):
        read(TABLE | {"action": [0] * 5}, state)


def test_a_measurement_with_a_name_of_a_table_is_not_saved_as_one(tmp_path):
    pairs = [([[70.0], [71.0]], [0, 1])]
    seen = tacit.Measurements.from_trajectories(pairs, columns=["weight"])
    with pytest.raises(tacit.InvalidDemonstrations, match=r"save it as \.npz"):
        seen.save(tmp_path / "rows.parquet")
    seen.save(tmp_path / "rows.npz")
    assert tacit.Measurements.load(tmp_path / "rows.npz").columns == ("weight",)
