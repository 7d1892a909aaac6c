"""Features people can write: what the builders compute, and what they call it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
import tacit
from refusals import refusal
from tacit import MDP, InvalidModel, TacitError
from tacit.model import features
from tacit.model.layout import Layout

# A line of four places; "swim" jumps from the shore into the water, which nothing leaves.
NAMES = Layout(state_names=("home", "road", "shore", "water"), action_names=("walk", "swim"))
NEXT = np.array([[1, 0], [2, 1], [1, 3], [3, 3]])
LINE = MDP(np.eye(4)[NEXT], [1, 0, 0, 0], 0.9)


def test_one_hot_columns_are_the_states():
    all_of_them = features.one_hot(NAMES)
    assert all_of_them.names == NAMES.state_names
    assert np.array_equal(all_of_them.values, np.eye(4))
    some = features.one_hot(LINE, NAMES, only=["water", "road"])
    assert some.names == ("water", "road")
    assert np.array_equal(some.values, np.eye(4)[:, [3, 1]])
    assert features.one_hot(3).names == ("state 0", "state 1", "state 2")


def test_action_one_hot_says_what_is_done():
    found = features.action_one_hot(LINE, NAMES, only="swim")
    assert found.names == ("swim",)
    assert np.array_equal(found.values[:, :, 0], [[0, 1]] * 4)


def test_coordinates_of_a_grid_and_of_points():
    grid = features.coordinates(Layout(2, 3))
    assert grid.names == ("row", "column")
    assert grid.values.tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    sink = Layout(1, 2, state_names=("a", "b", "the end"))
    with pytest.raises(InvalidModel, match="'the end' lies off the grid: give the coordinates"):
        features.coordinates(sink)
    assert features.coordinates([[1.0], [2.0]], ["height"]).names == ("height",)


def test_bumps_fade_with_distance():
    points = features.coordinates(Layout(1, 5))
    found = features.bumps([[0, 0], [0, 3]], [1.0, 2.0], points)
    away = np.arange(5)
    # From the formula, in another order of operations: rounding only.
    assert np.allclose(found.values[:, 0], np.exp(-(away**2) / 2), rtol=1e-12)
    assert np.allclose(found.values[:, 1], np.exp(-((away - 3) ** 2) / 8), rtol=1e-12)
    assert found.names == ("near (0, 0)", "near (0, 3)")
    assert features.bumps([[0, 0]], 1.0, points, names=["the corner"]).names == ("the corner",)
    with pytest.raises(InvalidModel, match="widths must be positive"):
        features.bumps([[0, 0]], 0.0, points)
    with pytest.raises(InvalidModel, match=r"centres must have shape \[C, 2\]"):
        features.bumps([[0, 0, 0]], 1.0, points)


def test_distance_follows_the_direction_of_the_steps():
    found = features.distance_to(["water", "road"], LINE, NAMES, unreachable=99)
    assert found.names == ("distance to water", "distance to road")
    assert found.values.tolist() == [[3, 1], [2, 0], [1, 1], [0, 99]]
    with pytest.raises(InvalidModel, match="distance to road: no way leads there from water: pass"):
        features.distance_to("road", LINE, NAMES)
    either = features.distance_to(["water", "road"], LINE, NAMES, nearest=True)
    assert either.names == ("distance to water or road",)
    assert either.values[:, 0].tolist() == [1, 0, 1, 0]


def test_distance_is_what_a_search_step_by_step_finds():
    mdp = tacit.worlds.random(5, states=30, actions=2, constraints=0, successors=2).mdp
    steps = mdp.dense().max(axis=1) > 0.3
    reached, expected, frontier = {4}, np.full(30, 1e3), {4}
    expected[4] = 0
    for away in range(1, 31):
        frontier = {s for s in range(30) if steps[s, list(reached)].any()} - reached
        expected[list(frontier)] = away
        reached |= frontier
    found = features.distance_to(4, mdp, likely=0.3, unreachable=1e3)
    assert np.array_equal(found.values[:, 0], expected)


def test_distance_on_a_grid_and_in_a_straight_line():
    layout = Layout(3, 3)
    assert features.distance_to("(0, 0)", layout).values[8, 0] == 4  # four neighbours
    rays = Layout(3, 3, directions=((1, 1), (-1, -1), (0, 1), (0, -1), (1, 0), (-1, 0)))
    assert features.distance_to(0, rays).values[8, 0] == 2  # along the diagonal
    straight = features.distance_to(0, features.coordinates(layout), layout)
    assert straight.names == ("distance to (0, 0)",)
    assert straight.values[5, 0] == pytest.approx(np.sqrt(5), rel=1e-12)


def written(path, text: str):
    path.write_text(text, encoding="utf-8")
    return path


def test_columns_of_a_file_in_any_order(tmp_path):
    table = written(
        tmp_path / "f.csv", "state,sun,heat\nwater,3,1\nhome,0,0.5\nshore,2,0\nroad,1,4\n"
    )
    found = features.columns(table, layout=NAMES)
    assert found.names == ("sun", "heat")
    assert found.values.tolist() == [[0, 0.5], [1, 4], [2, 0], [3, 1]]
    assert features.columns(table, ["heat"], NAMES).values[:, 0].tolist() == [0.5, 4, 0, 1]
    windows = "\ufeffstate;sun\r\n" + "".join(f"{s};{s > 150}e0\r\n" for s in range(200))
    text = windows.replace("True", "0.5").replace("False", "0")  # halves begin far down
    found = features.columns(written(tmp_path / "w.csv", text))
    assert found.values[:, 0].tolist() == [0.0] * 151 + [0.5] * 49
    numbered = {"place": [1, 0], "sun": [5.0, 6.0]}
    assert features.columns(numbered, state="place").values[:, 0].tolist() == [6, 5]
    import polars

    frame = polars.DataFrame({"state": ["b", "a"], "sun": [1, 2]})
    frame.write_parquet(tmp_path / "f.parquet")
    layout = Layout(state_names=("a", "b"))
    for source in (frame, tmp_path / "f.parquet"):
        assert features.columns(source, "sun", layout).values[:, 0].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("state,sun\nhome,1\nroad,2\nshore,3\n", "'water' is missing (3 rows for 4 states)"),
        (
            "state,sun\nhome,1\nroad,2\nhome,3\n",
            "must have one row; line 2 has it too",
        ),
        ("state,sun\nhome,1\nmoon,2\n", "line 3: state must be a state in 0..3 or the"),
        ("state,sun\nhome,1\n1,2\n", "must name every state once"),  # names and numbers
        (
            "state,sun\nhome,1\n\nroad,hot\nshore,1\nwater,1\n",
            "line 4: sun must be a finite number; got 'hot'",
        ),
        ("state;sun\r\nhome;1\r\nroad;\r\nshore;1\r\nwater;1\r\n", "number; it is missing"),
        ("state,sun\nhome,1\nroad,inf\nshore,1\nwater,1\n", "number; got 'inf'"),
        ("state,sun\n0,1\n9,2\n", "line 3: state must be a state in 0..3"),
        ("state,sun\n0,1\n1.5,2\n", "line 3: state must be a state in 0..3"),
        ("state,sun\n0,1\n1\n", "line 3: every row must have 2 fields (state, sun); got 1"),
        (
            "state,sun,wind\n0\n1,1,1\n",
            "line 2: every row must have 3 fields (state, sun, wind); got 1",
        ),
        ("state,sun,sun\n0,1,2\n", "line 1: every column must be named once; 'sun' is twice"),
        ("place,sun\n0,1\n", "must have the column 'state'"),
        ("state\n0\n", "at least one row and one column of features"),
        ("state,sun\n", "at least one row and one column of features"),
        ("\n\n", "is empty; its first line must name the columns"),
    ],
)
def test_a_bad_table_is_one_line_with_its_place(tmp_path, text, words):
    with refusal(InvalidModel, "f.csv", words):
        features.columns(written(tmp_path / "f.csv", text), layout=NAMES)


def test_columns_that_are_not_there_or_need_names(tmp_path):
    table = written(tmp_path / "f.csv", "state,sun\nhome,1\n")
    with pytest.raises(InvalidModel, match="has no column 'rain'; got the columns state, sun"):
        features.columns(table, ["rain"], NAMES)
    with pytest.raises(InvalidModel, match=r"line 2.*or a layout names it; got 'home'"):
        features.columns(table)
    with pytest.raises(OSError, match=r"nothing\.csv"):
        features.columns(tmp_path / "nothing.csv")


CELLS = st.text(alphabet='ab01.,;-"\n\r\t\x00 e\ufeff', max_size=12)


@given(
    st.one_of(
        st.binary(max_size=60),
        CELLS.map(lambda text: b"state,sun\n" + text.encode()),
        CELLS.map(lambda text: b'"' + text.encode() + b'"\n1'),
    )
)
def test_no_bytes_make_a_traceback(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "fuzzed.csv"
    path.write_bytes(content)
    said = "read"
    try:
        features.columns(path, layout=Layout(state_names=("a", "b")))
    except (TacitError, OSError) as error:
        said = str(error)
    assert len(said.splitlines()) == 1  # one line, whatever the file holds


def test_maps_add_multiply_scale_and_turn():
    sun = features.Map([[0.0], [2.0], [4.0]], ["sun"])
    both = features.Map(np.arange(12.0).reshape(3, 2, 2), ["a", "b"])
    joined = sun + both
    assert joined.names == ("sun", "a", "b")
    assert joined.values.shape == (3, 2, 3)
    assert np.array_equal(joined.values[:, :, 0], [[0, 0], [2, 2], [4, 4]])
    assert np.array_equal(joined["b"].values[..., 0], both.values[..., 1])
    times = features.product(sun, both)
    assert times.names == ("sun times a", "sun times b")
    assert np.array_equal(times.values, sun.values[:, None, :] * both.values)
    wide = features.product(both, both.renamed("c", "d") + (sun + -sun))
    assert wide.names[5] == "b times d"
    assert wide.names[1] == "a times d"
    assert np.array_equal(wide.values[..., 1], both.values[..., 0] * both.values[..., 1])
    assert np.array_equal(wide.values[..., 3], both.values[..., 0] * -sun.values)
    assert features.scaled(sun).values[:, 0].tolist() == [0, 0.5, 1]
    assert features.scaled(sun, -1, 1).values[:, 0].tolist() == [-1, 0, 1]
    assert (-sun).names == ("minus sun",)
    assert (-sun).values[:, 0].tolist() == [0, -2, -4]
    assert sun.renamed("light").names == ("light",)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda sun: sun + sun, "'sun' is there twice"),
        (lambda sun: sun + features.one_hot(2), "same states; got 3 (sun) and 2 (state 0)"),
        (lambda sun: sun["rain"], "no feature is called 'rain'; there are ['sun']"),
        (lambda _: features.Map([[np.nan]], ["sun"]), "'sun' must be finite; it is nan in state 0"),
        (lambda _: features.Map([[1, 2]], ["sun"]), "2 feature columns need as many names; got 1"),
        (lambda sun: features.combine(sun, sun), "write costs=[map]"),
        (lambda _: features.combine(np.eye(2)), "reward must be a map of tacit.features"),
        (lambda _: features.one_hot(NAMES, only="moon"), "no state is called 'moon'; known are"),
        (lambda _: features.one_hot(NAMES, only=[7]), "in 0..3; got 7"),
        (lambda _: features.distance_to(0, Layout(state_names=("a",))), "is no grid"),
        (lambda _: features.scaled(features.Map([[1], [1]], "flat")), "'flat' is the same"),
    ],
)
def test_what_makes_no_sense_is_refused(build, words):
    sun = features.Map([[0.0], [2.0], [4.0]], ["sun"])
    with pytest.raises(InvalidModel) as caught:
        build(sun)
    assert words in str(caught.value)


def test_a_recovery_speaks_the_names():
    near = features.scaled(-features.distance_to("water", LINE, NAMES))
    wanted = features.combine(
        reward=near.renamed("closeness to water") + features.one_hot(NAMES, only="home"),
        costs=[features.action_one_hot(LINE, NAMES, only="swim")],
    )
    assert wanted.reward_names == ("closeness to water", "home")
    assert wanted.cost_names == (("swim",),)
    assert wanted.reward.shape == (4, 2)
    assert wanted.costs[0].shape == (4, 2, 1)
    reward, costs = wanted.objective([0.9, 0.1], [[1.0]], [1.0]).tables(LINE)
    policy = oracles.soft_values(LINE, (reward - 0.1 * costs[0]) / 0.2, 1.0)[1]
    seen = tacit.simulate(LINE, policy, trajectories=60, steps=8, seed=0)
    found = tacit.recover(LINE, wanted, seen, estimator=tacit.Likelihood())
    assert "closeness to water" in found.summary()
