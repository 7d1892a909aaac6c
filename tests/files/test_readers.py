"""Tables of steps from anywhere: read alike however they are written, or refused in one line."""

import gzip
import io
import os
import pickle
import zipfile
from decimal import Decimal, localcontext
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refusals
from strategies import examples
from tacit import Demonstrations, InvalidDemonstrations
from tacit.files import tables
from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.parquet import check_parquet, read_columns
from tacit.files.wording import natural_order
from tacit.model.layout import Layout

HEAD = "episode,step,state,action\n"
ROOMS = Layout(state_names=("hall", "kitchen", "garden"), action_names=("stay", "go"))


def written(folder: Path, text: str | bytes, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


refused = partial(refusals.refused, kind=InvalidDemonstrations)


def columns(seen: Demonstrations) -> tuple:
    return seen.states.tolist(), seen.actions.tolist(), seen.offsets.tolist()


ROWS = [(0, 0, 3, 1), (0, 1, 2, 0), (1, 0, 5, 1)]
EXPECTED = ([3, 2, 5], [1, 0, 1], [0, 2, 3])


def as_text(rows, separator=",", end="\n") -> str:
    lines = [["episode", "step", "state", "action"], *rows]
    return "".join(separator.join(map(str, line)) + end for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        as_text(ROWS),
        *(as_text(ROWS, separator) for separator in ";\t|"),
        as_text(ROWS, end="\r\n"),
        as_text(ROWS, end="\r"),
        "\ufeff" + as_text(ROWS),
        "\ufeff" + as_text(ROWS, ";", "\r\n"),
        as_text(ROWS).rstrip("\n"),
        as_text(ROWS) + "\n\n",
        "\n" + as_text(ROWS),
        as_text(ROWS).replace("1,0,5,1", "\n1,0,5,1"),
        as_text(ROWS).replace("1,0,5,1", ",,,\n1,0,5,1"),
        as_text(ROWS).replace(",", " , "),
        as_text(ROWS[::-1]),
        as_text([ROWS[2], ROWS[0], ROWS[1]]),
        as_text([(e * 2**40, t, s, a) for e, t, s, a in ROWS]),
        as_text([(e * 2**40, t, s, a) for e, t, s, a in ROWS[::-1]]),
        as_text([("first" if e == 0 else "second", t, s, a) for e, t, s, a in ROWS]),
        as_text([("x" if e == 0 else 7, t, s, a) for e, t, s, a in ROWS]),
        as_text([(e, t, f'"{s}"', a) for e, t, s, a in ROWS]),
        'action,"a, note",state,step,episode\n1,"x\ny, z",3,0,0\n0,"",2,1,0\n1,"""",5,0,1\n',
        "note;note;episode;step;state;action\n,;,;0;0;3;1\n1,5;;0;1;2;0\n;;1;0;5;1\n",
    ],
)
def test_the_same_rows_are_read_however_they_are_written(tmp_path, text):
    assert columns(Demonstrations.load(written(tmp_path, text))) == EXPECTED


def test_names_with_spaces_and_letters_of_any_kind(tmp_path):
    folder = tmp_path / "Gärten und 庭"
    folder.mkdir()
    text = "episode,step,state,action\n0,0,garden,go\n0,1,hall,stay\n"
    seen = Demonstrations.load(written(folder, text, "Mäuse am Tag.csv"), ROOMS)
    assert columns(seen) == ([2, 0], [1, 0], [0, 2])


def test_text_and_parquet_and_arrays_hold_groups(tmp_path):
    seen = Demonstrations(
        [0, 1, 2, 0], [0, 0, 1, 1], [0, 1, 3, 4], ended=[True, False, True], groups=["b", "ä", "b"]
    )
    for ending in ("csv", "parquet", "npz"):
        path = tmp_path / f"seen.{ending}"
        seen.save(path)
        again = Demonstrations.load(path)
        assert again.groups.tolist() == ["b", "ä", "b"]
        assert again.ended.tolist() == [True, False, True]
        assert again.notes == ()
    assert seen.select([2, 1]).groups.tolist() == ["b", "ä"]
    assert seen.truncate(1).groups.tolist() == ["b", "ä", "b"]
    assert Demonstrations([0], [0], [0, 1]).select([0]).groups is None


def test_groups_may_be_numbers_and_keep_their_zeros(tmp_path):
    text = "episode,state,action,group\n0,1,0,007\n1,1,0,7\n"
    assert Demonstrations.load(written(tmp_path, text)).groups.tolist() == ["007", "7"]


def test_names_are_found_and_sorted_as_people_do(tmp_path):
    text = HEAD + "a,0,room 10,go\na,1,room 2,stay\nb,0,hall,go\n"
    for name in ("rows.csv", "rows.parquet"):
        path = written(tmp_path, text)
        if name.endswith("parquet"):
            frame = pl.read_csv(path)
            path = tmp_path / name
            frame.with_columns(pl.col("state").cast(pl.Categorical)).write_parquet(path)
        seen, layout = Demonstrations.load_named(path)
        assert layout.state_names == ("hall", "room 2", "room 10")
        assert layout.action_names == ("go", "stay")
        assert columns(seen) == ([2, 1, 0], [0, 1, 0], [0, 2, 3])
        assert columns(Demonstrations.load(path, layout)) == columns(seen)


def test_natural_order_is_a_total_order_of_odd_names():
    names = ["a", "1", "01", "a10", "a2", "10", "2", "", "a2b", "٣"]
    assert natural_order(reversed(names)) == natural_order(names)
    assert natural_order(["a10", "a9", "10", "9"]) == ("9", "10", "a9", "a10")


def test_numbers_stay_numbers_where_only_actions_have_names(tmp_path):
    path = written(tmp_path, HEAD + "0,0,3,go\n0,1,4,stay\n")
    seen, layout = Demonstrations.load_named(path)
    assert seen.states.tolist() == [3, 4]
    assert (layout.state_names, layout.action_names) == ((), ("go", "stay"))


def test_names_that_are_numbers_are_names_where_the_layout_says_so(tmp_path):
    path = written(tmp_path, HEAD + "0,0,20,0\n0,1,10,1\n")
    layout = Layout(state_names=("10", "20"))
    assert Demonstrations.load(path, layout).states.tolist() == [1, 0]
    frame = pl.read_csv(path)
    frame.write_parquet(tmp_path / "rows.parquet")
    assert Demonstrations.load(tmp_path / "rows.parquet", layout).states.tolist() == [1, 0]


def test_the_last_state_may_have_a_name_or_be_unknown(tmp_path):
    text = (
        "episode,step,state,action,final_state\na,0,hall,go,\na,1,garden,go,attic\nb,0,hall,go,\n"
    )
    seen, layout = Demonstrations.load_named(written(tmp_path, text))
    assert layout.state_names == ("attic", "garden", "hall")
    assert seen.final_states.tolist() == [0, -1]


@pytest.mark.parametrize("flag", ["0,0,1", "1,1,1", "false,false,true", "TRUE,True,true"])
def test_an_end_may_be_marked_in_every_row_or_in_the_last(tmp_path, flag):
    rows = "".join(f"0,{t},1,0,{mark}\n" for t, mark in enumerate(flag.split(",")))
    path = written(tmp_path, "episode,step,state,action,ended\n" + rows + "1,0,1,0,0\n")
    assert Demonstrations.load(path).ended.tolist() == [True, False]


def test_what_was_assumed_is_said(tmp_path):
    seen = Demonstrations.load(written(tmp_path, "episode,state,action\n1,5,0\n0,3,1\n0,2,0\n"))
    assert columns(seen) == ([3, 2, 5], [1, 0, 0], [0, 2, 3])
    assert seen.notes == ("there is no column 'step': rows are taken in the order of the file",)
    assert seen.select([0]).notes == seen.notes
    seen = Demonstrations.load(written(tmp_path, HEAD + "0,1,5,0\n0,2,5,0\n1,1,5,0\n"))
    assert not seen.partial.any()
    assert "count from 1" in seen.notes[0]
    seen = Demonstrations.load(written(tmp_path, HEAD + "0,1,5,0\n0,2,5,0\n1,0,5,0\n"))
    assert seen.partial.tolist() == [True, False]
    assert seen.notes == ()
    seen = Demonstrations.load(written(tmp_path, "episode,step,state,action,groups\n0,0,1,1,x\n"))
    assert seen.notes == ("the column 'groups' is not read; if 'group' is meant, rename it",)
    seen = Demonstrations.load(
        written(tmp_path, "episode,step,state,action,next_state\n0,0,1,1,2\n")
    )
    (note,) = seen.notes
    assert "'next_state' is not read" in note
    assert "'final_state'" in note


def test_blocks_of_any_size_give_the_same_rows_and_lines(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    lines = [
        f'{e},{t},"room {rng.integers(12)}",{rng.integers(3)}' for e in range(9) for t in range(7)
    ]
    path = written(tmp_path, HEAD + "\n".join(lines) + "\n")
    whole, layout = Demonstrations.load_named(path)
    told = []
    for size in (64, 100, 257):
        monkeypatch.setattr(tables, "BLOCK", size)
        again, found = Demonstrations.load_named(path, progress=lambda *p: told.append(p))
        assert columns(again) == columns(whole)
        assert found == layout
    total = path.stat().st_size
    assert told[-1] == (total, total)
    assert len(told) > 20
    # Numbers first, names after a few blocks: the episodes found so far keep their labels.
    rows = "".join(f"{e},{t},1,0\n" for e in (*range(20), "x", 3.5) for t in range(3))
    path = written(tmp_path, HEAD + rows)
    assert Demonstrations.load(path).episodes == 22
    path = written(tmp_path, HEAD + rows + "007,0,1,0\n")
    refused(lambda: Demonstrations.load(path), "'007' beside '7': write 7", "line 68")
    path = written(tmp_path, HEAD + rows + "7,0,1,0\n")
    refused(lambda: Demonstrations.load(path), "episode 7 goes from step 0 to 0", "line 68")


def test_a_fault_in_a_later_block_is_named_with_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "BLOCK", 64)
    rows = [f'{e},0,1,0,"two\nlines, ""{e}"""' for e in range(30)]
    text = "episode,step,state,action,remark\n" + "\n".join(rows) + "\n"
    assert Demonstrations.load(written(tmp_path, text)).episodes == 30
    for bad in ("-1", "x", "4294967296"):
        path = written(tmp_path, text.replace("25,0,1,0", f"25,0,{bad},0"))
        refused(lambda p=path: Demonstrations.load(p), "line 52", "state", bad)
    path = written(tmp_path, text.replace("two\nlines", 'two"\nlines', 1))
    refused(lambda: Demonstrations.load(path), str(path), "line")


def test_rows_that_are_packed_are_not_unpacked(tmp_path):
    packed = gzip.compress(b"0,0,1,0\n", mtime=0)
    path = written(tmp_path, HEAD.encode() + packed)
    refused(lambda: Demonstrations.load(path), str(path), "line 2")


def test_parquet_is_read_in_slices(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "ROWS", 10)
    rng = np.random.default_rng(0)
    order = rng.permutation(95)
    frame = pl.DataFrame({"episode": order // 5, "step": order % 5, "state": order, "action": 0})
    frame.write_parquet(tmp_path / "rows.parquet", row_group_size=7)
    told = []
    seen = Demonstrations.load(tmp_path / "rows.parquet", progress=lambda *p: told.append(p))
    assert seen.states.tolist() == list(range(95))
    assert told[-1] == (95, 95)
    assert len(told) == 10


TABLE = st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1), min_size=1)


@given(TABLE, st.randoms(use_true_random=False), st.sampled_from([",", ";", "\t", "|"]))
@examples(40)
def test_shuffled_rows_come_back_in_order(tmp_path_factory, table, random, separator):
    rows = [(f"e{e}", t, s, a) for e, steps in enumerate(table) for t, (s, a) in enumerate(steps)]
    random.shuffle(rows)
    path = written(tmp_path_factory.mktemp("rows"), as_text(rows, separator))
    seen = Demonstrations.load(path)
    first = list(dict.fromkeys(row[0] for row in rows))  # named episodes: in order of the file
    for number, name in enumerate(first):
        states, actions = seen.trajectory(number)
        assert list(zip(states.tolist(), actions.tolist(), strict=True)) == table[int(name[1:])]


# Each row: the text, and what the one line must say.
FAULTS = [
    (HEAD + "0,0,1,0\n0,1,,0\n", ["line 3", "state", "missing"]),
    (HEAD + "0,0,1,0\n0,1,1\n", ["line 3", "4 fields", "got 3"]),
    (HEAD + "0,0,1,0\n0,1,1,0,9\n", ["line 3", "4 fields", "got 5"]),
    (HEAD + "0,0,1,0\n\n0,1,nan,0\n", ["line 4", "state", "missing", "ingest LOG"]),
    (HEAD + "0,0,1,inf\n", ["line 2", "action", "integers", "'inf'"]),
    (HEAD + "0,0,1,0\n0,1,1.0,0\n", ["line 3", "state", "integers", "'1.0'"]),
    (HEAD + "0,0,True,0\n", ["line 2", "state", "integers", "'True'"]),
    (HEAD + "0,0,1,0\n0,1,hall,0\n", ["line 3", "state", "'hall'", "load_named"]),
    (HEAD + "0,0,-1,0\n", ["line 2", "state", "from 0", "-1"]),
    (HEAD + "0,0,1,0\n0,1,4294967296,0\n", ["line 3", "state", "2147483647", "4294967296"]),
    (HEAD + "0,0,1,0\n0,1,99999999999999999999999,0\n", ["line 3", "state", "999999999999"]),
    (HEAD + "0,-1,1,0\n", ["line 2", "step", "from 0", "-1"]),
    (HEAD + "0,0,1,0\n0,x,1,0\n", ["line 3", "step", "'x'"]),
    (HEAD + "0,0,1,0\n,1,1,0\n", ["line 3", "episode", "missing"]),
    (HEAD + "0,0,1,0\n0,1,2,0\n0,1,2,0\n", ["line 4", "once", "from step 1 to 1"]),
    (HEAD + "0,3,1,0\n0,1,2,0\n0,2,2,0\n0,0,2,0\n0,5,1,1\n", ["line 6", "from step 3 to 5"]),
    (HEAD + 'x,0,"\n1",0\nx,2,1,1\n', ["line 4", "episode x goes from step 0 to 2"]),
    (HEAD, ["at least one step", "none"]),
    ("", ["is empty", "episode"]),
    ("\n\n", ["is empty"]),
    ("0,0,3,1\n0,1,2,0\n", ["line 1", "name the columns", "header", "0, 0, 3, 1"]),
    ("episode,step,state,actoin\n0,0,1,1\n", ["the column 'action'", "mean 'actoin'?"]),
    ("episode,step,State,action\n0,0,1,1\n", ["the column 'state'", "mean 'State'?"]),
    ("episode,stpe,state,action\n0,0,1,1\n", ["the column 'step'", "mean 'stpe'?"]),
    ("trial,step,state,action\n0,0,1,1\n", ["the column 'episode'; it has trial, step"]),
    ("episode,state,state,action\n0,1,1,1\n", ["named once", "'state' is twice"]),
    ("episode,step,state,action,ended\n0,0,1,1,maybe\n", ["line 2", "ended", "true or false"]),
    ("episode,step,state,action,ended\n0,0,1,1,2\n", ["line 2", "ended", "got 2"]),
    (
        "episode,step,state,action,ended\n0,0,1,1,0\n0,1,1,1,1\n0,2,1,1,0\n",
        ["line 3", "ended", "last step"],
    ),
    (
        "episode,step,state,action,ended\n0,0,1,1,0\n0,1,1,1,1\n0,2,1,1,1\n",
        ["line 3", "ended", "last step"],
    ),
    ("episode,step,state,action,group\n0,0,1,1,a\n0,1,1,1,b\n", ["line 3", "group", "same"]),
    ("episode,step,state,action,group\n0,0,1,1,\n", ["line 2", "group", "missing"]),
    (
        "episode,step,state,action,final_state\n0,0,1,1,4\n0,1,1,1,5\n",
        ["line 2", "final_state", "same"],
    ),
    ("episode,step,state,action,final_state\n0,0,1,1,-2\n", ["line 2", "final_state", "-2"]),
    (HEAD.encode() + b"0,0,1,0\n0,1,\xff,0\n", ["line 3", "UTF-8", "0xff"]),
    (b"episode,st\xffp\n", ["line 1", "UTF-8"]),
    (HEAD + '0,0,"1,0\n0,1,1,0\n', ["line 2", "quote"]),
    (HEAD + '0,0,1,1\n0,1,1,"', ["line 2", "quote"]),
    (HEAD + '0,0,1,1\n0,1,1,"1', ["line 2", "quote"]),
    (b"\xff\xfe" + HEAD.encode("utf-16-le"), ["UTF-16", "UTF-8"]),
    (b"\x1f\x8b\x08\x00" + b"x" * 40, ["gzip", "unpack"]),
    (b"PAR1" + b"x" * 40, ["text table", "Parquet"]),
    (b"PK\x03\x04" + b"x" * 40, ["text table", "zip"]),
    (pickle.dumps({"state": [1]}), ["pickle", "never loaded"]),
    (HEAD + "0,0,1,0\n\x1f\x8b\x08\x00\n", ["line 3"]),
    (HEAD + "0,0,1,0\n00,0,1,0\n", ["line 3", "episode", "plainly", "'00'", "write 0"]),
    (HEAD + "00,0,1,0\n0,1,1,0\n", ["line 2", "episode", "plainly", "'00'"]),
    (HEAD + "7,0,1,0\n007,0,1,0\n", ["line 3", "episode", "'007'", "write 7"]),
    (HEAD + "1,0,1,0\n+1,1,1,0\n", ["line 3", "episode", "'+1'", "write 1"]),
    (HEAD + "0,0,1,0\n-0,1,1,0\n", ["line 3", "episode", "'-0'"]),
    (HEAD + '0,0,1,0\n"00",0,1,0\n', ["line 3", "episode", "'00'"]),
    ("episode,st\x00ep,state,action\n0,0,1,1\n", ["line 1", "name the columns", "damaged"]),
    ("\x1b[1mepisode,step,state,action\n0,0,1,1\n", ["line 1", "name the columns"]),
    ("episode,step,state,action,\ufffd\n0,0,1,1,1\n", ["line 1", "name the columns"]),
    ('episode,"step,state,action\n0,0,1,1\n', ["line 1", "name the columns", "quote"]),
    ("episode,step\rstate,action\n0,0,1,1\n", ["line 1", "name the columns"]),
    (HEAD + "0,0,1,0\n0,1,1\r2,0\n", ["line 3", "carriage return"]),
    (HEAD + "0,0,1,0\r\n0,1\r,1,0\r\n", ["line 3", "carriage return"]),
    (HEAD + '0,0,1,0\n"a\r\nb",1,1,0\n', ["line 3", "episode", "carriage return"]),
]


@pytest.mark.parametrize(("text", "words"), FAULTS)
def test_a_bad_table_is_refused_in_one_line(tmp_path, text, words):
    path = written(tmp_path, text)
    kind = (InvalidDemonstrations, OSError)
    message = refused(lambda: Demonstrations.load(path), *words, kind=kind)
    assert str(path) in message
    assert os.listdir(tmp_path) == [path.name]


def hard_decimals() -> list[str]:
    """Texts of numbers, some as far from two neighbours as can be, and right beside there."""
    rng = np.random.default_rng(0)
    digits = rng.integers(0, 10, size=(300, 30))
    texts = ["0." + "".join(map(str, row[: 1 + k % 30])) for k, row in enumerate(digits)]
    for low in [*rng.random(100).tolist(), *(10.0 ** rng.uniform(-320, -300, 20)).tolist()]:
        with localcontext(prec=1100):  # all digits of the middle
            middle = format((Decimal(low) + Decimal(np.nextafter(low, 1.0))) / 2, "f")
        texts += [repr(low), middle, middle + "1", middle[:-1] + "49"]
    return [*texts, "1", "0", "5e-324", "1E-3", ".5", "+1."]


@pytest.mark.parametrize("odd", [None, "0.5 ", "0.50x"])
def test_reals_have_the_bits_that_python_gives_them(tmp_path, monkeypatch, odd):
    monkeypatch.setattr(tables, "BLOCK", 2**15)
    texts = hard_decimals()
    spelled = texts if odd is None else [*texts, odd]
    path = written(tmp_path, "name,x\n" + "".join(f"a,{text}\n" for text in spelled))
    column = tables.open_table(path, InvalidDemonstrations).read(("x",))["x"]
    if odd == "0.50x":
        refused(column.reals, f"line {len(spelled) + 1}", "finite", "0.50x")
        return
    expected = np.array([float(text) for text in spelled])
    np.testing.assert_array_equal(column.reals().view(np.int64), expected.view(np.int64))


def test_what_is_no_table_at_all_is_a_matter_of_files(tmp_path):
    for content in (b"\x1f\x8b\x08\x00", b"PAR1....", pickle.dumps([1]), b"\xff\xfee\0"):
        refused(lambda c=content: Demonstrations.load(written(tmp_path, c)), kind=OSError)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD + "0,0,hall,go\n0,1,hal,go\n", ["line 3", "3 names", "'hal'", "mean 'hall'?"]),
        (HEAD + "0,0,hall,go\n0,1,1,go\n", ["line 3", "all integers or all names", "'1'"]),
        (HEAD + "0,0,1,go\n0,1,hall,go\n", ["line 3", "all integers or all names", "'hall'"]),
        (HEAD + "0,0,3,go\n", ["line 2", "state", "0 to 2", "got 3"]),
        (HEAD + "0,0,hall,2\n", ["line 2", "action", "0 to 1", "got 2"]),
    ],
)
def test_names_that_the_layout_lacks(tmp_path, text, words):
    path = written(tmp_path, text)
    refused(lambda: Demonstrations.load(path, ROOMS), *words)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (("hall", "1"), ["line 3", "all integers or all names", "'1'"]),
        (("1", "hall"), ["line 3", "all integers or all names", "'hall'"]),
        (("hall", "nan"), ["line 3", "missing"]),
        (("1.5", "2.5"), ["line 2", "integers", "'1.5'"]),
        (("true", "false"), ["line 2", "integers", "'true'"]),
        (("hall", ""), ["line 3", "missing"]),
    ],
)
def test_what_cannot_be_a_name_is_not_taken_for_one(tmp_path, values, words):
    text = HEAD + "".join(f"0,{t},{value},go\n" for t, value in enumerate(values))
    refused(lambda: Demonstrations.load_named(written(tmp_path, text)), "state", *words)


def test_a_number_too_large_for_the_model_is_named_with_its_line(tmp_path):
    path = written(tmp_path, HEAD + "0,0,1,0\n0,1,7,0\n")
    assert Demonstrations.load(path, states=8).steps == 2
    refused(lambda: Demonstrations.load(path, states=7), "line 3", "state", "0 to 6", "got 7")
    refused(lambda: Demonstrations.load(path, actions=1, states=2), "line 3", "got 7")
    saved = tmp_path / "rows.npz"
    Demonstrations.load(path).save(saved)
    refused(lambda: Demonstrations.load(saved, states=7), "state", "in 0..6", "step 1 has 7")


PARQUET = [
    ({"state": [1.5, 2.0]}, ["row 1", "state", "1.5", "Float64"]),
    ({"state": [1.0, float("nan")]}, ["row 2", "state", "nan"]),
    ({"state": [1.0, float("inf")]}, ["row 2", "state", "inf"]),
    ({"state": [True, False]}, ["row 1", "state", "True", "Boolean"]),
    ({"state": [1, None]}, ["row 2", "state", "missing"]),
    ({"state": [None, None]}, ["row 1", "state", "missing"]),
    ({"state": ["hall", "attic"]}, ["row 1", "state", "'hall'", "load_named"]),
    ({"state": [[1], [2]]}, ["row 1", "state", "[1]", "List"]),
    ({"state": pl.Series([2**63, 1], dtype=pl.UInt64)}, ["row 1", "state", "9223372036854775808"]),
    ({"state": pl.Series([1, 2**100], dtype=pl.Int128)}, ["row 2", "state", f"{2**100}"]),
    ({"action": [0, -3]}, ["row 2", "action", "-3"]),
    ({"step": [0.0, 1.0]}, ["row 1", "step", "0.0"]),
    ({"step": [0, 0]}, ["row 2", "from step 0 to 0"]),
    ({"episode": [0.5, 1.5]}, ["row 1", "episode", "0.5"]),
    ({"ended": [True, None]}, ["row 2", "ended", "missing"]),
    ({"ended": [0, 2]}, ["row 2", "ended", "2"]),
]


@pytest.mark.parametrize(("changes", "words"), PARQUET)
def test_a_bad_parquet_table_is_refused_in_one_line(tmp_path, changes, words):
    path = tmp_path / "rows.parquet"
    good = {"episode": [0, 0], "step": [0, 1], "state": [1, 2], "action": [0, 0]}
    pl.DataFrame({**good, **changes}).write_parquet(path)
    refused(lambda: Demonstrations.load(path), str(path), *words)


def test_small_whole_numbers_of_any_width_are_read_from_parquet(tmp_path):
    path = tmp_path / "rows.parquet"
    kinds = {"episode": pl.UInt8, "step": pl.Int16, "state": pl.UInt64, "action": pl.Int8}
    frame = pl.DataFrame({"episode": [0, 0], "step": [0, 1], "state": [1, 2], "action": [0, 1]})
    frame.with_columns(ended=pl.Series([0, 1], dtype=pl.UInt8)).cast(kinds).write_parquet(path)
    seen = Demonstrations.load(path)
    assert columns(seen) == ([1, 2], [0, 1], [0, 2])
    assert seen.ended.tolist() == [True]


def test_texts_of_parquet_are_held_to_the_same(tmp_path):
    path, good = tmp_path / "rows.parquet", {"state": [1, 2], "action": [0, 0]}
    for episode, words in (["0", "00"], "plainly"), (["a", "a\rb"], "carriage return"):
        pl.DataFrame({"episode": episode, **good}).write_parquet(path)
        refused(lambda: Demonstrations.load(path), str(path), "row 2", "episode", words)


def test_a_large_damaged_parquet_file_is_refused_in_one_line(tmp_path):
    path = tmp_path / "rows.parquet"
    rng = np.random.default_rng(0)
    rows = {"episode": np.arange(200_000) // 10, "state": rng.integers(0, 2**31, 200_000)}
    frame = pl.DataFrame({**rows, "action": rng.integers(0, 2**31, 200_000)})
    frame.write_parquet(path, compression="uncompressed", row_group_size=50_000)
    content = path.read_bytes()
    assert len(content) > 2**21
    assert Demonstrations.load(path).steps == 200_000
    for at in (4, len(content) - 400):  # the head of a page, and the footer
        path.write_bytes(content[:at] + b"\xff" * 48 + content[at + 48 :])
        refused(lambda: Demonstrations.load(path), str(path), "read", kind=OSError)


def test_a_length_in_parquet_that_cannot_be_is_refused(tmp_path):
    path = tmp_path / "rows.parquet"
    good = pl.DataFrame({"episode": ["x", "x"], "state": [1, 2], "action": [0, 1]})
    good.write_parquet(path, compression="uncompressed")
    assert Demonstrations.load(path).steps == 2
    content = path.read_bytes()
    path.write_bytes(content[:16] + b"\xff\xff\xff\x7f" + content[20:])
    refused(lambda: Demonstrations.load(path), str(path), "read", "specification", kind=OSError)


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz"])
def test_no_file_a_folder_a_pickle_and_an_oversized_file(tmp_path, ending):
    path = tmp_path / f"seen.{ending}"
    refused(lambda: Demonstrations.load(path), str(path), kind=FileNotFoundError)
    path.mkdir()
    refused(lambda: Demonstrations.load(path), str(path), "folder", kind=IsADirectoryError)
    path.rmdir()
    path.write_bytes(pickle.dumps({"states": [1]}))
    refused(lambda: Demonstrations.load(path), str(path), "pickle", "never", kind=OSError)
    Demonstrations(np.zeros(1000, int), np.zeros(1000, int), [0, 1000]).save(path)
    words = ("bytes", "200", "largest")
    refused(lambda: Demonstrations.load(path, largest=200), str(path), *words, kind=OSError)


@pytest.mark.parametrize("ending", ["parquet", "npz"])
def test_empty_cut_off_and_foreign_files(tmp_path, ending):
    path = tmp_path / f"seen.{ending}"
    Demonstrations([3, 1, 2], [0, 1, 1], [0, 3]).save(path)
    content = path.read_bytes()
    for cut in (0, 1, 4, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:cut])
        refused(lambda: Demonstrations.load(path), str(path), "read", kind=OSError)
    path.write_text(as_text(ROWS))
    refused(lambda: Demonstrations.load(path), str(path), "read", kind=OSError)


def test_endings_in_capitals_are_the_same(tmp_path):
    assert columns(Demonstrations.load(written(tmp_path, as_text(ROWS), "ROWS.CSV"))) == EXPECTED


def test_unknown_endings_and_pickles_by_name(tmp_path):
    path = written(tmp_path, "x", "seen.xlsx")
    refused(lambda: Demonstrations.load(path), ".parquet, .csv or .npz", "seen.xlsx")
    path = written(tmp_path, "x", "seen.pkl")
    refused(lambda: Demonstrations.load(path), "pickle", "never loaded", kind=OSError)


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header, {"descr": "|i1", "fortran_order": False, "shape": (2**25,)}
        )
        archive.writestr("states.npy", header.getvalue() + bytes(2**25))
    assert path.stat().st_size < 2**16
    refused(lambda: read_arrays(path, largest=2**20), "33,5", "1,048,576", kind=OSError)
    assert len(read_arrays(path)["states"]) == 2**25


def test_a_header_that_promises_more_than_is_there(tmp_path):
    path = tmp_path / "huge.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (2**50,)}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("states.npy", header.getvalue())
    refused(lambda: read_arrays(path), str(path), "1125899906842624", kind=OSError)


def test_a_parquet_file_that_declares_too_many_rows(tmp_path, monkeypatch):
    path = tmp_path / "many.parquet"
    frame = pl.DataFrame({"episode": np.zeros(2**20, int), "state": 0, "action": 0})
    frame.write_parquet(path)
    assert path.stat().st_size < 2**20
    refused(lambda: Demonstrations.load(path, largest=2**24), "25,165,824", kind=OSError)
    monkeypatch.setattr(check_parquet, "__kwdefaults__", {"largest": 2**24})
    refused(lambda: read_columns(path), "25,165,824", kind=OSError)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"states": [1.5]}, ["states", "integers", "float64"]),
        ({"states": [float("nan")]}, ["states", "integers"]),
        ({"states": ["hall"]}, ["states", "integers"]),
        ({"states": [True]}, ["states", "integers", "bool"]),
        ({"states": [-1]}, ["state", "in 0..", "has -1"]),
        ({"states": [[1]]}, ["states", "one column"]),
        ({"actions": [2**40]}, ["actions", "32 bits", "row 0 is 1099511627776"]),
        ({"actions": [0, 0]}, ["states and actions", "1 and 2"]),
        ({"offsets": [0, 2]}, ["offsets", "(1)"]),
        ({"offsets": [0.0, 1.0]}, ["offsets", "integers"]),
        ({"ended": ["no"]}, ["ended", "true or false"]),
        ({"ended": [float("nan")]}, ["ended", "true or false"]),
        ({"partial": [2]}, ["partial", "true or false"]),
        ({"final_states": [-2]}, ["final state", "in 0..", "has -2"]),
        ({"groups": ["a", "b"]}, ["groups", "(1)", "(2,)"]),
        ({"groups": [0.5]}, ["groups", "names", "0.5"]),
    ],
)
def test_bad_arrays_are_refused_in_one_line(tmp_path, arrays, words):
    path = tmp_path / "seen.npz"
    good = {"states": [1], "actions": [0], "offsets": [0, 1]}
    write_arrays(path, {name: np.array(part) for name, part in {**good, **arrays}.items()})
    refused(lambda: Demonstrations.load(path), str(path), *words)


def test_a_missing_array_names_the_near_one(tmp_path):
    path = tmp_path / "seen.npz"
    write_arrays(path, {"state": np.array([1]), "actions": np.array([0])})
    refused(lambda: Demonstrations.load(path), "'states'", "mean 'state'?")


def test_lists_of_names_are_looked_up():
    layout = Layout(state_names=("a", "b"))
    seen = Demonstrations.from_trajectories(
        [(["a", "b"], [0]), (["b"], [1])], layout, groups=["x", "y"]
    )
    assert seen.states.tolist() == [0, 1]
    assert seen.final_states.tolist() == [1, -1]
    wrong = [(["c"], [0])]
    refused(
        lambda: Demonstrations.from_trajectories(wrong, layout), "trajectory 0", "states", "'c'"
    )


@pytest.mark.parametrize("gap", ["", "\n", "\n\n\n"])
def test_blank_lines_below_the_header_count(tmp_path, gap):
    path = tmp_path / "steps.csv"
    path.write_text(f"episode,step,state,action\n{gap}0,0,1,1\n0,1,1,1,9\n", encoding="utf-8")
    with pytest.raises(InvalidDemonstrations, match=f"line {3 + len(gap)}:.* got 5"):
        Demonstrations.load(path)


def test_the_line_of_a_late_header_is_named(tmp_path):
    path = tmp_path / "steps.csv"
    path.write_text("\n\nepisode,step,state,state,action\n0,0,1,1,1\n", encoding="utf-8")
    with pytest.raises(InvalidDemonstrations, match=r"line 3:.*'state'"):
        Demonstrations.load(path)
