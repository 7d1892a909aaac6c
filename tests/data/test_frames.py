"""Frames become demonstrations, names survive, and what is missing is never a name."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

import tacit
from house import house
from tacit import Demonstrations, InvalidDemonstrations
from tacit.model.layout import Layout

ROWS = {
    "who": ["fox 007"] * 3 + ["fox 12"] * 2,
    "t": [2, 0, 1, 1, 0],
    "cell": ["wood", "den", "field", "wood", "den"],
    "move": ["stay", "east", "east", None, "east"],
    "sex": ["f", "f", "f", "m", "m"],
}
COLUMNS = {"episode": "who", "step": "t", "state": "cell", "action": "move", "group": "sex"}


class Cells:
    """A stand-in for a pandas frame: columns of NumPy objects, missing cells NaN."""

    def __init__(self, columns):
        self.columns = [*columns]
        self._of = columns

    def __getitem__(self, name):
        cells = [np.nan if cell is None else cell for cell in self._of[name]]
        return np.array(cells, dtype=object)


def same(one: Demonstrations, other: Demonstrations) -> bool:
    names = ("states", "actions", "offsets", "ended", "final_states", "partial")
    return all(np.array_equal(getattr(one, n), getattr(other, n)) for n in names)


@pytest.mark.parametrize("make", [pl.DataFrame, pl.LazyFrame, dict, Cells])
def test_every_kind_of_frame_gives_what_the_file_gives(tmp_path, make):
    seen = Demonstrations.from_frame(make(ROWS), **COLUMNS)
    frame = pl.DataFrame(ROWS).rename({theirs: ours for ours, theirs in COLUMNS.items()})
    frame.write_csv(tmp_path / "log.csv", null_value="NA")
    loaded, layout = Demonstrations.load_named(tmp_path / "log.csv")
    assert same(seen, loaded)
    assert (
        seen.layout
        == layout
        == Layout(state_names=("den", "field", "wood"), action_names=("east", "stay"))
    )
    assert seen.names.tolist() == ["fox 007", "fox 12"]
    assert seen.groups.tolist() == ["f", "m"]
    # The last row of fox 12 has no action: its state is where the last action led.
    assert seen.lengths.tolist() == [3, 1]
    assert layout.state_names[seen.final_states[1]] == "wood"
    assert any("no action in their last row" in note for note in seen.notes)


def test_pandas_frames_are_read():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS)
    assert same(
        Demonstrations.from_frame(frame, **COLUMNS),
        Demonstrations.from_frame(pl.DataFrame(ROWS), **COLUMNS),
    )


def test_whole_numbers_that_missing_ones_made_floats_are_whole_numbers():
    frame = {"episode": [5, 5, 5], "state": [0.0, 2.0, 1.0], "action": [1.0, 0.0, np.nan]}
    seen = Demonstrations.from_frame(frame, step=None)
    assert seen.states.tolist() == [0, 2]
    assert seen.final_states.tolist() == [1]
    assert seen.names.tolist() == ["5"]
    with pytest.raises(InvalidDemonstrations, match=r"state must be integers .* got 0.5"):
        Demonstrations.from_frame({**frame, "state": [0.5, 2.0, 1.0]}, step=None)


def test_pandas_frames_of_every_kind_of_column():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS)
    wanted = Demonstrations.from_frame(ROWS, **COLUMNS)
    for one in (frame, frame.convert_dtypes(), frame.astype({"sex": "category"})):
        assert same(Demonstrations.from_frame(one, **COLUMNS), wanted)
    with pytest.raises(InvalidDemonstrations, match=r"it is the index, reset_index\(\)"):
        Demonstrations.from_frame(frame.set_index("who"), **COLUMNS)
    twice = pandas.concat([frame, frame["move"]], axis=1)
    with pytest.raises(InvalidDemonstrations, match="'move' once; it has several"):
        Demonstrations.from_frame(twice, **COLUMNS)


def test_a_column_that_is_not_there_is_named_with_a_near_one():
    with pytest.raises(InvalidDemonstrations, match=r"'cells', its state.*did you mean 'cell'"):
        Demonstrations.from_frame(ROWS, **{**COLUMNS, "state": "cells"})
    with pytest.raises(InvalidDemonstrations, match="pandas or Polars"):
        Demonstrations.from_frame([1, 2])
    with pytest.raises(InvalidDemonstrations, match="did you mean 'individual'"):
        Demonstrations.from_frame(ROWS, **COLUMNS, individuals="who")


@pytest.mark.parametrize("void", ["NA", "NaN", "null", "", "-"])
def test_a_missing_action_splits_or_is_refused_and_is_no_action(tmp_path, void):
    path = tmp_path / "log.csv"
    rows = ["a,0,x,go", "a,1,y,go", f"a,2,x,{void}", "a,3,y,go", "a,4,y,go", f"b,0,{void},{void}"]
    path.write_text("\n".join(["episode,step,state,action", *rows, ""]))
    with pytest.raises(InvalidDemonstrations, match=r"line 4: action must be there.*ingest LOG"):
        Demonstrations.load_named(path)
    frame = pl.read_csv(path, infer_schema=False)
    seen = Demonstrations.from_frame(frame.with_columns(pl.col("step").cast(int)), missing="split")
    assert seen.layout.action_names == ("go",)
    assert seen.names.tolist() == ["a", "a (2)"]
    assert seen.lengths.tolist() == [2, 2]
    assert seen.partial.tolist() == [False, True]
    assert seen.final_states.tolist() == [0, -1]  # the row without an action still tells where
    assert len(seen.notes) == 2


def test_pieces_keep_names_of_their_own_where_the_log_has_such_names_already():
    frame = {"episode": ["a"] * 5 + ["a (2)"] * 3, "step": [0, 1, 2, 3, 4, 0, 1, 2]}
    frame |= {"state": ["x"] * 8, "action": ["go", None, "go", None, "go", "go", None, "go"]}
    seen = Demonstrations.from_frame(frame, missing="split")
    assert seen.names.tolist() == ["a", "a (3)", "a (4)", "a (2)", "a (2) (2)"]


def test_a_missing_name_is_a_name_where_it_is_listed():
    frame = {"episode": ["a"] * 2, "state": [0, 1], "action": ["-", "go"]}
    layout = Layout(action_names=("go", "-"))
    seen = Demonstrations.from_frame(frame, layout, step=None)
    assert seen.actions.tolist() == [1, 0]
    assert seen.layout.action_names == ("go", "-")


def test_padded_numbers_are_names_unless_they_clash(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("episode,step,state,action\n007,0,1,0\n100,0,1,0\n008,0,1,0\n")
    seen = Demonstrations.load(path)
    assert seen.names.tolist() == ["007", "100", "008"]
    assert seen.episode_name(2) == "008"
    for ending in ("csv", "parquet", "npz"):
        copy = tmp_path / f"copy.{ending}"
        seen.save(copy)
        again = Demonstrations.load(copy)
        assert again.names.tolist() == seen.names.tolist()
        assert same(again, seen)
    path.write_text("episode,step,state,action\n007,0,1,0\n7,0,1,0\n")
    with pytest.raises(InvalidDemonstrations, match="'007' beside '7'"):
        Demonstrations.load(path)


def test_individuals_and_names_follow_a_selection():
    frame = {"episode": [1, 2, 3], "state": [0, 1, 0], "action": [0, 0, 1], "individual": [*"aba"]}
    seen = Demonstrations.from_frame(frame, step=None)
    chosen = seen.select([2, 0, 0])
    assert chosen.names.tolist() == ["3", "1", "1"]
    assert chosen.individuals.tolist() == ["a", "a", "a"]
    # Names that stand for two episodes now would join them in a table: numbers do not.
    assert np.asarray(chosen.table()["episode"]).tolist() == [0, 1, 2]
    assert np.asarray(seen.table()["individual"]).tolist() == ["a", "b", "a"]


def counted(weights):
    """A frame of episodes in the house, each with its weight, and the same written out."""
    mdp, features, truth, _ = house()
    policy = tacit.solve(mdp, truth, solver=tacit.SoftDual(temperature=0.3)).policy
    seen = tacit.simulate(mdp, policy, trajectories=len(weights), steps=30, seed=1)
    columns = {name: np.asarray(part) for name, part in seen.table().items()}
    written = seen.select(np.repeat(np.arange(len(weights)), weights))
    return mdp, features, {**columns, "weight": weights[columns["episode"]]}, written


def test_a_weight_is_as_many_episodes(tmp_path):
    weights = np.array([1, 3, 2, 1, 1, 4, 1, 2] * 5)
    mdp, features, frame, written = counted(weights)
    pl.DataFrame(frame).write_csv(tmp_path / "log.csv")
    for seen in (
        Demonstrations.from_frame({**frame, "weight": frame["weight"].astype(float)}),
        Demonstrations.from_frame(
            {**{k: v for k, v in frame.items() if k != "weight"}, "n": frame["weight"]}, weight="n"
        ),
        Demonstrations.load(tmp_path / "log.csv"),
    ):
        assert seen.episodes == weights.sum()
        assert len({*seen.names}) == seen.episodes
        assert seen.names[[0, len(weights)]].tolist() == ["0", "1 x2"]
        assert seen.notes[-1].startswith(f"{len(weights)} episodes stand for {weights.sum()}")
    one, other = (tacit.recover(mdp, features, each) for each in (seen, written))
    # The same sums in another order: the last digits of a search that ends at 1e-9.
    for name in ("estimates", "standard_errors", "p_values"):
        parts = [getattr(found.parameters, name) for found in (one, other)]
        assert_allclose(*parts, rtol=1e-6, atol=1e-8)
    assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-12)
    assert one.goodness.p_value == pytest.approx(other.goodness.p_value, rel=1e-6)
    # Without weights it is another answer: the test could fail.
    plain = tacit.recover(mdp, features, written.select(np.cumsum(weights) - weights))
    assert not np.allclose(plain.parameters.estimates, one.parameters.estimates, rtol=1e-3)


def weighted(weight):
    """A frame of two episodes, the first of two steps, with this weight in each row."""
    return {"episode": [0, 0, 1], "state": [0, 1, 0], "action": [0, 0, 0], "weight": weight}


@pytest.mark.parametrize("weight", [[1, 2, 2], [0.5, 0.5, 1.0], ["0.5", "0.5", "1"]])
def test_a_weight_that_is_no_count_is_taken_for_a_sampling_weight_and_said(weight):
    seen = Demonstrations.from_frame(weighted(weight), step=None)
    assert seen.episodes == 2
    assert np.array_equal(seen.weights, np.array(weight, float))
    assert "sampling weights, not for counts" in seen.notes[-1]


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        ([0, 0, 1], r"row 1: weight must be a number above 0; got 0: leave out"),
        (["", 1, 1], r"row 1: weight must be a number above 0; it is missing"),
        ([2**30, 2**30, 1], "fit into memory"),
    ],
)
def test_a_weight_that_cannot_count_is_refused(weight, words):
    with pytest.raises(InvalidDemonstrations, match=words):
        Demonstrations.from_frame(weighted(weight), step=None)
