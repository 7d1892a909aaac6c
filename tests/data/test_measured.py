"""A log of measurements becomes rows, each a state of its own."""

import numpy as np
import pytest

from tacit.data.sources import MeasuredReader, is_measured
from tacit.errors import InvalidDemonstrations

LOG = """stay,hour,sbp,lactate,drug,died
a,2024-03-01 10:00,120,1.5,none,0
b,2024-03-01 09:00,88,,fluid,0
a,2024-03-01 09:00,110,2.5,fluid,0
a,2024-03-01 11:00,101,1.0,,0
b,2024-03-01 10:00,95,3.5,none,1
"""
READER = MeasuredReader(
    episode="stay", time="hour", measured=("sbp", "lactate"), action="drug", ended="died"
)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    return path


def test_rows_are_in_the_order_of_time_whatever_that_of_the_file(log):
    seen = READER.read(log)
    assert seen.columns == ("sbp", "lactate")
    assert seen.action_names == ("fluid", "none")
    np.testing.assert_array_equal(seen.column("sbp"), [110, 120, 88, 95, 101])
    assert np.isnan(seen.column("lactate")[2])
    assert seen.actions.tolist() == [0, 1, 0, 1]
    assert seen.ended.tolist() == [False, True]
    assert seen.final_states.tolist() == [4, -1]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("88,", "low,", "line 3.*must be a number"),
        ("a,2024-03-01 11:00", "a,2024-03-01 10:00", "a time of its own; a has"),
        (",died", ",dead", "must have the column 'died'"),
        ("none,1", "none,perhaps", "true or false"),
    ],
)
def test_what_cannot_be_read_is_one_line(log, old, new, said):
    log.write_text(LOG.replace(old, new))
    with pytest.raises(InvalidDemonstrations, match=said) as caught:
        READER.read(log)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("cells", "measured"),
    [
        ([0.37 * n for n in range(30)], True),
        ([f"{0.37 * n:.2f}" for n in range(28)] + ["", "low"], True),
        ([0.5 * (n % 4) for n in range(30)], False),  # shelves 0, 0.5, 1 and 1.5
        (list(range(30)), False),  # states by number, each seen once
        ([f"room {n}" for n in range(30)], False),
        ([""] * 30, False),
    ],
)
def test_numbers_with_fractions_that_seldom_come_again_are_measurements(tmp_path, cells, measured):
    path = tmp_path / "log.csv"
    path.write_text("who,x\n" + "".join(f"a,{cell}\n" for cell in cells))
    assert is_measured(path, "x") is measured
    assert not is_measured(path, "y")
