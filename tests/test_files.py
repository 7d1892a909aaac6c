"""Files are whole or absent, read back bit for bit, and damage is noticed."""

import os

import numpy as np
import pytest

from tacit import Demonstrations, InvalidDemonstrations
from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.atomic import write_atomically


@pytest.fixture
def demonstrations():
    return Demonstrations(
        [3, 1, 2, 0, 4],
        [0, 1, 1, 0, 2],
        [0, 2, 5],
        ended=[True, False],
        final_states=[6, -1],
        partial=[False, True],
    )


@pytest.mark.parametrize("ending", ["parquet", "csv", "npz"])
def test_demonstrations_come_back_as_they_were(tmp_path, demonstrations, ending):
    path = tmp_path / f"seen by day.{ending}"
    demonstrations.save(path)
    again = Demonstrations.load(path)
    for name in ("states", "actions", "offsets", "ended", "final_states", "partial"):
        assert np.array_equal(getattr(again, name), getattr(demonstrations, name)), name
    assert os.listdir(tmp_path) == [path.name]  # no temporary file is left


def test_rows_may_come_in_any_order(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("episode,step,state,action\n7,1,2,1\n3,0,5,0\n7,0,1,0\n")
    seen = Demonstrations.load(path)
    assert seen.states.tolist() == [5, 1, 2]
    assert seen.offsets.tolist() == [0, 1, 3]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("episode,step,state\n0,0,1\n", "'action' is missing"),
        ("episode,step,state,action\n0,0,1,0\n0,0,2,0\n", "from step 0 to 0 (row 2"),
        ("episode,step,state,action\n0,0,1,0\n0,2,2,0\n", "from step 0 to 2 (row 2"),
        ("episode,step,state,action\n0,0,1.5,0\n", "must be integers"),
        ("episode,step,state,action\n0,0,hall,0\n", "must be integers"),
    ],
)
def test_a_bad_table_is_named_with_its_row(tmp_path, text, said):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(InvalidDemonstrations) as caught:
        Demonstrations.load(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_episode_recorded_from_a_later_step_is_partial(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("episode,step,state,action\n0,4,1,0\n0,5,2,0\n1,0,1,1\n")
    assert Demonstrations.load(path).partial.tolist() == [True, False]


def test_a_flipped_byte_is_noticed(tmp_path):
    path = tmp_path / "arrays.npz"
    numbers = np.arange(100.0)
    write_arrays(path, {"numbers": numbers})
    assert np.array_equal(read_arrays(path)["numbers"], numbers)
    content = bytearray(path.read_bytes())
    content[content.find(np.float64(50.0).tobytes())] ^= 1
    path.write_bytes(content)
    with pytest.raises(OSError, match=r"damaged|read"):
        read_arrays(path)


def test_text_and_pickles_are_refused_in_plain_words(tmp_path):
    path = tmp_path / "notes.npz"
    path.write_text("these are no arrays")
    with pytest.raises(OSError, match="no npz archive"):
        read_arrays(path)
    np.savez(path, objects=np.array([{}], dtype=object))
    with pytest.raises(OSError, match="no arrays that can be read"):
        read_arrays(path)


def test_an_archive_made_elsewhere_is_read_as_it_is(tmp_path):
    path = tmp_path / "elsewhere.npz"
    np.savez(path, states=[1, 2], actions=[0, 0], offsets=[0, 2])
    assert Demonstrations.load(path).steps == 2


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def fail(file):
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_an_unknown_ending_is_refused(tmp_path, demonstrations):
    with pytest.raises(InvalidDemonstrations, match=r"\.xlsx"):
        demonstrations.save(tmp_path / "seen.xlsx")
