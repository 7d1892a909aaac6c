"""Arrays of offline reinforcement learning become measurements, cut where episodes are."""

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.data.sources import Discretiser, from_offline

ROWS = np.arange(12.0).reshape(6, 2)
DATA = {
    "observations": ROWS.astype(np.float32),
    "actions": np.array([0, 1, 0, 2, 1, 1]),
    "rewards": np.zeros(6),
    "terminals": np.array([False, True, False, False, False, False]),
    "timeouts": np.array([False, False, False, True, False, False]),
}
AFTER = np.array([[2, 3], [90, 91], [6, 7], [80, 81], [10, 11], [70, 71]], float)


def test_episodes_end_at_terminals_and_are_cut_at_timeouts():
    seen = from_offline(DATA, columns=["x", "y"])
    assert seen.columns == ("x", "y")
    assert seen.offsets.tolist() == [0, 2, 4, 6]
    assert seen.ended.tolist() == [True, False, False]
    assert seen.final_states.tolist() == [-1, -1, -1]
    np.testing.assert_array_equal(seen.observations, ROWS)
    assert seen.actions.tolist() == DATA["actions"].tolist()


def test_rows_after_last_actions_are_those_of_next_observations():
    seen = from_offline(DATA | {"next_observations": AFTER})
    assert seen.final_states.tolist() == [6, 7, 8]
    np.testing.assert_array_equal(seen.observations[6:], AFTER[[1, 3, 5]])
    # Nothing else says that an episode was cut after the fourth row.
    bare = {name: part for name, part in DATA.items() if name != "timeouts"}
    other = from_offline(bare | {"next_observations": AFTER})
    assert other.offsets.tolist() == [0, 2, 4, 6]
    assert other.ended.tolist() == [True, False, False]
    assert other.notes
    alone = from_offline(bare)
    assert alone.offsets.tolist() == [0, 2, 6]
    assert alone.notes


def test_a_file_of_arrays_is_read_by_itself(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, **DATA)
    for seen in (from_offline(path), tacit.Demonstrations.load(path)):
        assert isinstance(seen, tacit.Measurements)
        np.testing.assert_array_equal(seen.observations, ROWS)
    some = tacit.Demonstrations.load(path, state=["x1"])
    np.testing.assert_array_equal(some.observations, ROWS[:, 1:])


def test_continuous_actions_go_through_a_discretiser():
    pushes = Discretiser.from_edges([[-1.0, 0.0, 1.0]], names=["push"])
    data = DATA | {"actions": np.array([[-0.5], [0.5], [0.1], [-0.1], [0.9], [0.3]])}
    seen = from_offline(data, action_discretiser=pushes)
    assert seen.actions.tolist() == [0, 1, 1, 0, 1, 1]
    assert seen.action_names[0].startswith("push in")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"actions": np.full(6, 0.5)}, "cut actions into classes first.*action_discretiser"),
        ({"actions": np.zeros((6, 3))}, r"shape \(6, 3\)"),
        ({"actions": np.full(6, -1)}, "whole numbers from 0"),
        ({"actions": np.array(["a"] * 6)}, "actions must be an array of real numbers"),
        ({"actions": [0, 1]}, "actions 2"),
        ({"observations": np.full((6, 2), np.inf)}, "must be finite"),
        ({"observations": [["a"]] * 6}, "real numbers"),
        ({"next_observations": np.zeros((6, 3))}, r"\[n, 2\]"),
        ({"terminals": np.full(6, 0.5)}, "terminals must be true or false"),
        (
            {"observations": np.zeros((0, 2)), "actions": [], "terminals": [], "timeouts": []},
            "as many rows",
        ),
    ],
)
def test_what_is_no_offline_data_is_refused_in_one_line(change, words):
    with pytest.raises(tacit.InvalidDemonstrations, match=words) as refusal:
        from_offline(DATA | change)
    assert "\n" not in str(refusal.value)


def test_arrays_that_are_missing_are_named():
    data = {"observation": ROWS, "actions": [0] * 6, "terminals": [0] * 6}
    with pytest.raises(tacit.InvalidDemonstrations, match="did you mean 'observation'"):
        from_offline(data)


def test_arrays_of_offline_learning_become_a_problem_in_one_command(tmp_path, capsys):
    rng = np.random.default_rng(0)
    arrays = {
        "observations": rng.normal(size=(40, 2)).astype(np.float32),
        "actions": rng.integers(3, size=40),
        "terminals": np.arange(40) % 20 == 19,
        "timeouts": np.arange(40) % 20 == 9,
    }
    np.savez(tmp_path / "walks.npz", **arrays)
    words = [
        "ingest",
        str(tmp_path / "walks.npz"),
        "--state",
        "speed",
        "angle",
        "--reward",
        "speed",
    ]
    assert main([*words, "--out", str(tmp_path / "p")]) == 0
    rows = tacit.runs.Problem.load(tmp_path / "p").demonstrations
    assert rows.columns == ("speed", "angle")
    assert (rows.episodes, rows.steps) == (4, 40)
    assert rows.ended.tolist() == [False, True, False, True]
    assert main([*words, "--states", "4", "--out", str(tmp_path / "q")]) == 0
    states = tacit.runs.Problem.load(tmp_path / "q").layout.state_names
    assert states == ("state 1", "state 2", "state 3", "state 4", "terminal")
    assert main([*words, "--episode", "who", "--out", str(tmp_path / "r")]) == 2
    assert "--episode is for tables" in capsys.readouterr().err
