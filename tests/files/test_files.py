"""Files are whole or absent, read back bit for bit, and damage is noticed."""

import errno
import os
import stat
import subprocess
import sys

import numpy as np
import pytest

from refusals import refusal
from tacit import Demonstrations, InvalidDemonstrations
from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.atomic import write_bytes
from tacit.files.tables import open_table


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
        ("episode,step,state\n0,0,1\n", "must have the column 'action'"),
        ("episode,step,state,action\n0,0,1,0\n0,0,2,0\n", "from step 0 to 0 (row 2"),
        ("episode,step,state,action\n0,0,1,0\n0,2,2,0\n", "from step 0 to 2 (row 2"),
        ("episode,step,state,action\n0,0,1.5,0\n", "must be integers"),
        ("episode,step,state,action\n0,0,hall,0\n", "must be integers"),
    ],
)
def test_a_bad_table_is_named_with_its_row(tmp_path, text, said):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with refusal(InvalidDemonstrations, said):
        Demonstrations.load(path)


def test_an_episode_recorded_from_a_later_step_is_partial(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("episode,step,state,action\n0,4,1,0\n0,5,2,0\n1,0,1,1\n")
    assert Demonstrations.load(path).partial.tolist() == [True, False]


def test_a_flipped_byte_is_noticed(tmp_path):
    path = tmp_path / "arrays.npz"
    numbers = np.arange(100.0)
    write_arrays(path, {"numbers": numbers})
    assert np.array_equal(read_arrays(path)["numbers"], numbers)
    content, unnoticed = path.read_bytes(), 0
    for place in range(0, len(content), 7):
        changed = bytearray(content)
        changed[place] ^= 1
        path.write_bytes(changed)
        try:
            found = read_arrays(path)
        except OSError:
            continue
        # What zip notes of dates and versions says nothing about the arrays.
        assert np.array_equal(found["numbers"], numbers)
        unnoticed += 1
    assert unnoticed < 15


def test_text_and_pickles_are_refused_in_plain_words(tmp_path):
    path = tmp_path / "notes.npz"
    path.write_text("these are no arrays")
    with pytest.raises(OSError, match="no npz archive"):
        read_arrays(path)
    np.savez(path, objects=np.array([{}], dtype=object))
    with pytest.raises(OSError, match="no arrays that can be read: Object arrays cannot be loaded"):
        read_arrays(path)


def test_an_archive_made_elsewhere_is_read_as_it_is(tmp_path):
    path = tmp_path / "elsewhere.npz"
    np.savez(path, states=[1, 2], actions=[0, 0], offsets=[0, 2])
    assert Demonstrations.load(path).steps == 2


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("old")

    def fail(descriptor, content):
        real(descriptor, content[:2])
        raise OSError("disk full")

    real = os.write
    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="disk full"):
        write_bytes(path, b"half")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_columns_are_read_whatever_separates_them(tmp_path, separator):
    path = tmp_path / "features.csv"
    path.write_text(f"\ufeffstate{separator}sun\nhall{separator}0.5\n", encoding="utf-8")
    columns = open_table(path, InvalidDemonstrations).read()
    assert columns["state"].cell(0) == "hall"
    assert columns["sun"].reals().tolist() == [0.5]


def test_an_unknown_ending_is_refused(tmp_path, demonstrations):
    with pytest.raises(InvalidDemonstrations, match=r"\.xlsx"):
        demonstrations.save(tmp_path / "seen.xlsx")


class Fault:
    """Fails one of the calls that reach the disk, and counts them all."""

    def __init__(self, monkeypatch):
        self.calls = []
        self.failing = None
        for name in ("write", "fsync", "close", "replace"):
            monkeypatch.setattr(os, name, self.watched(name, getattr(os, name)))

    def watched(self, name, real):
        def call(*arguments):
            if self.failing == len(self.calls):
                self.failing = None
                if name == "close":
                    real(*arguments)  # a descriptor is gone even where closing it fails
                raise OSError(errno.ENOSPC, "No space left on device")
            self.calls.append(name)
            return real(*arguments)

        return call


@pytest.mark.parametrize("ending", ["parquet", "csv", "npz"])
def test_a_full_disk_at_any_call_leaves_the_old_file_or_the_new_one(
    tmp_path, demonstrations, ending, monkeypatch
):
    path = tmp_path / f"seen.{ending}"
    demonstrations.select([0]).save(path)
    old = path.read_bytes()
    fault = Fault(monkeypatch)
    demonstrations.save(path)
    calls, new = fault.calls, path.read_bytes()
    # The file is flushed before it gets its name, the folder after.
    ends = ["fsync", "close", "replace", "fsync", "close"]
    assert calls[-5:] == ends
    assert set(calls[:-5]) == {"write"}
    for at, name in enumerate(calls):
        path.write_bytes(old)
        fault.calls, fault.failing = [], at
        with pytest.raises(OSError, match="No space left on device") as caught:
            demonstrations.save(path)
        assert fault.failing is None, "the fault was never met"
        assert str(path) in str(caught.value)
        renamed = at > calls.index("replace")
        assert path.read_bytes() == (new if renamed else old), name
        assert os.listdir(tmp_path) == [path.name]


def test_short_writes_are_continued(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda number, content: real(number, content[:3]))
    write_bytes(tmp_path / "file", b"seven bytes and more")
    assert (tmp_path / "file").read_bytes() == b"seven bytes and more"


def test_a_folder_that_cannot_be_flushed_is_no_failure(tmp_path, monkeypatch):
    real = os.fsync

    def unsupported(number):
        if stat.S_ISDIR(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        real(number)

    monkeypatch.setattr(os, "fsync", unsupported)
    write_bytes(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


LIMITED = """
import resource, sys
import tacit
seen = tacit.Demonstrations([0] * 20000, [1] * 20000, [0, 20000])
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
try:
    seen.save(sys.argv[1])
except OSError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("ending", ["csv", "npz"])
def test_a_file_too_large_for_the_disk_leaves_nothing(tmp_path, ending):
    path = tmp_path / f"seen.{ending}"
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"OSError [Errno {errno.EFBIG}] File too large: '{path}'\n"
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(tmp_path, demonstrations):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match=r"seen\.npz"):
        demonstrations.save(tmp_path / "seen.npz")


def test_a_folder_that_is_not_there_is_named(tmp_path, demonstrations):
    path = tmp_path / "nowhere" / "seen.csv"
    with pytest.raises(FileNotFoundError) as caught:
        demonstrations.save(path)
    assert str(caught.value) == f"[Errno 2] No such file or directory: '{path}'"
