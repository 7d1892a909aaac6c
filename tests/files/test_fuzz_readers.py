"""Damaged files: a reader answers with a value, a `TacitError` or an `OSError`, nothing else."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tacit
from strategies import examples
from tacit import Demonstrations
from tacit.errors import TacitError
from tacit.files.arrays import read_arrays
from tacit.files.parquet import read_columns
from tacit.files.tables import open_table

SEEN = Demonstrations(
    [3, 1, 2, 0, 4],
    [0, 1, 1, 0, 2],
    [0, 2, 5],
    ended=[True, False],
    final_states=[6, -1],
    partial=[False, True],
    groups=["a", "b"],
)

# Pieces that formats are sensitive to.
PIECES = [
    *(bytes([byte]) for byte in (0, 1, 10, 13, 34, 44, 45, 59, 127, 128, 255)),
    b"\r\n",
    b'""',
    b",,,",
    b"nan",
    b"1e9",
    b"-1",
    b"99999999999999999999",
    b"0" * 30,
    b"\xef\xbb\xbf",
    b"\x1f\x8b\x08",
    b"PAR1",
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"\xff\xff\xff\x7f",
    b"\xff" * 8,
    b"\x80\x04",
    "é".encode(),
    b"\xe9",
    b"\xed\xa0\x80",
]


@st.composite
def damage(draw) -> list[tuple]:
    """A few changes of a file; places are fractions of its length."""
    place = st.floats(0, 1, allow_nan=False)
    change = st.one_of(
        st.tuples(st.just("flip"), place, st.integers(0, 7)),
        st.tuples(st.just("set"), place, st.binary(min_size=1, max_size=4)),
        st.tuples(st.just("insert"), place, st.one_of(st.sampled_from(PIECES), st.binary())),
        st.tuples(st.just("cut"), place, st.integers(1, 40)),
        st.tuples(st.just("repeat"), place, st.integers(1, 40)),
        st.tuples(st.just("end"), place, st.just(0)),
    )
    return draw(st.lists(change, min_size=1, max_size=4))


def damaged(content: bytes, changes: list[tuple]) -> bytes:
    data = bytearray(content)
    for kind, place, how in changes:
        at = min(int(place * len(data)), max(len(data) - 1, 0))
        if kind == "flip" and data:
            data[at] ^= 1 << how
        elif kind == "set":
            data[at : at + len(how)] = how
        elif kind == "insert":
            data[at:at] = how
        elif kind == "cut":
            del data[at : at + how]
        elif kind == "repeat":
            data[at:at] = data[at : at + how]
        elif kind == "end":
            del data[at:]
    return bytes(data)


def seeds(folder) -> dict[str, bytes]:
    """Good files, by name."""
    for ending in ("csv", "parquet", "npz"):
        SEEN.save(folder / f"seen.{ending}")
    names = 'episode;step;state;action\r\nx;0;hall;go\r\nx;1;"a; b";stay\r\ny;0;hall;go\r\n'
    (folder / "named.csv").write_bytes(b"\xef\xbb\xbf" + names.encode())
    frame = pl.DataFrame({"episode": ["x", "x"], "state": ["a", "b"], "action": [0, 1]})
    frame.write_parquet(folder / "named.parquet", compression="snappy")
    np.savez_compressed(
        folder / "model.npz", successors=np.zeros((3, 2, 2), int), names=np.array(["a", "bé"])
    )
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return seeds(tmp_path_factory.mktemp("good"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("damaged")


def survives(read, path) -> str:
    """What came out: "read", or the kind of the error, which is one line."""
    try:
        read(path)
    except (TacitError, OSError) as error:
        message = str(error)
        assert "\n" not in message
        assert path.name in message
        return type(error).__name__
    return "read"


def read_cells(path):
    table = open_table(path, TacitError)
    table.require("step")
    table.read()["step"].integers()


CASES = [
    ("seen.csv", Demonstrations.load),
    ("seen.csv", Demonstrations.load_named),
    ("named.csv", Demonstrations.load_named),
    ("seen.csv", read_cells),
    ("seen.parquet", Demonstrations.load),
    ("named.parquet", Demonstrations.load_named),
    ("seen.parquet", read_columns),
    ("seen.npz", Demonstrations.load),
    ("model.npz", read_arrays),
]


@pytest.mark.parametrize(("name", "read"), CASES, ids=lambda case: getattr(case, "__name__", case))
def test_a_damaged_file_is_read_or_refused_in_one_line(files, folder, name, read):
    path = folder / name
    path.write_bytes(files[name])
    assert survives(read, path) == "read"
    outcomes = set()

    @given(damage())
    @examples(150)
    def attempt(changes):
        path.write_bytes(damaged(files[name], changes))
        outcomes.add(survives(read, path))

    attempt()
    assert outcomes - {"read"}  # damage that is never noticed tests nothing


@given(st.binary(max_size=200), st.sampled_from(["csv", "parquet", "npz", "tsv", "pkl", "txt"]))
@examples(100)
def test_any_bytes_under_any_name(tmp_path_factory, content, ending):
    path = tmp_path_factory.mktemp("bytes") / f"seen.{ending}"
    path.write_bytes(content)
    assert survives(Demonstrations.load, path) in ("InvalidDemonstrations", "OSError")


# Cells rather than bytes: most of these tables get past the header.
CELL = st.sampled_from(
    ["0", "1", "2", "-1", "", " ", "hall", "1.5", "nan", "true", '"', '""', "é", "9" * 25, "0x1"]
)


@given(st.lists(st.lists(CELL, min_size=3, max_size=6), max_size=6), st.sampled_from(",;\t|"))
@examples(150)
def test_any_cells_under_a_good_header(tmp_path_factory, rows, separator):
    path = tmp_path_factory.mktemp("cells") / "seen.csv"
    lines = [["episode", "step", "state", "action", "final_state"], *rows]
    path.write_text("\n".join(separator.join(line) for line in lines))
    survives(Demonstrations.load, path)
    survives(Demonstrations.load_named, path)


PROBLEM = {
    "problem.toml": """discount = 0.9
initial = "hall"

[names]
actions = ["stay", "go"]

[features]
reward = ["sun"]
costs = [["heat"]]

[truth]
reward = [1.0]
costs = [[1.0]]
budgets = [0.5]
""",
    "transitions.csv": """state,action,next_state,probability
hall,stay,hall,1.0
hall,go,garden,0.75
hall,go,hall,0.25
garden,stay,garden,1.0
garden,go,hall,1.0
""",
    "features.csv": "state,sun,heat\nhall,0.0,0.0\ngarden,1.0,0.5\n",
    "demonstrations.csv": """episode,step,state,action
a,0,hall,go
a,1,garden,stay
b,0,hall,stay
""",
}


@pytest.fixture(scope="module", params=["text", "arrays"])
def problem(request, tmp_path_factory):
    """The folder of a good problem, and the content of its files."""
    folder = tmp_path_factory.mktemp("problem")
    for name, text in PROBLEM.items():
        (folder / name).write_text(text)
    if request.param == "arrays":
        saved = tmp_path_factory.mktemp("saved") / "problem"
        tacit.runs.Problem.load(folder).save(saved)
        folder = saved
    return folder, {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_problem_with_one_damaged_file_is_read_or_refused_in_one_line(problem):
    folder, content = problem
    names = sorted(content)
    assert len(names) >= 3
    outcomes = set()

    @given(st.sampled_from(names), damage())
    @examples(150)
    def attempt(name, changes):
        (folder / name).write_bytes(damaged(content[name], changes))
        try:
            outcomes.add(survives(tacit.runs.Problem.load, folder))
        finally:
            (folder / name).write_bytes(content[name])

    assert survives(tacit.runs.Problem.load, folder) == "read"
    attempt()
    assert {"InvalidModel", "OSError"} & outcomes
