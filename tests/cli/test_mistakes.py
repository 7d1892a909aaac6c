"""The usual mistakes: each is refused in one line that says what to type instead."""

import json
import shlex

import numpy as np
import pytest

from rooms import folder
from tacit.cli import main
from tacit.data.sources.times import time_stamps

HEAD = "episode,step,state,action\n"
GOOD = HEAD + "a,0,hall,go on\na,1,hall,wait\n"


def told(tmp_path, capsys, text: str | bytes, file: str = "demonstrations.csv") -> str:
    place = folder(tmp_path / "rooms")
    (place / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    assert main(["check", str(place)]) in (2, 4)
    said = capsys.readouterr().err
    assert all(len(line) <= 320 for line in said.splitlines())
    return said.splitlines()[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("episode,step,room,action\na,0,hall,wait\n", ["'state'", "ingest LOG --state COLUMN"]),
        (HEAD + "a,2024-05-31 18:00,hall,wait\n", ["line 2", "ingest LOG --time step --every"]),
        (
            HEAD + "a,0,hall,wait\na,1,hall,NA\na,2,hall,wait\n",
            ["line 3", "ingest LOG --time step"],
        ),
        (HEAD + "a,0,hall,wait\na,0,hall,wait\n", ["line 3", "delete one of the two rows"]),
        (HEAD + "a,0,hall,wait\na,3,hall,wait\n", ["line 3", "splits episodes at gaps"]),
        (
            HEAD + "a,0,hal,wait\na,1,Kuche,wait\na,2,attic,wait\n",
            [
                "'hal' (did you mean 'hall'?)",
                "2 others",
                "'Kuche' (did you mean 'Küche'?)",
                "attic",
            ],
        ),
        (HEAD + "a,0,1.5,wait\na,1,2.5,wait\n", ["one other", "--x COLUMN --y COLUMN --cell"]),
        (HEAD + "a,0,99999999999999999999,wait\n", ["line 2", "take one of hall, Küche"]),
        (HEAD, ["at least one step", "add rows"]),
        ("", ["is empty", "name the columns episode, step, state, action"]),
        (b"PK\x03\x04" + bytes(30), ["spreadsheet", "save that as CSV"]),
        (GOOD.encode("utf-16"), ["UTF-16", "CSV UTF-8"]),
    ],
)
def test_a_mistake_in_the_log_says_what_to_type(tmp_path, capsys, text, words):
    said = told(tmp_path, capsys, text)
    for word in words:
        assert word in said, said


def test_a_decimal_comma_in_features_says_what_to_type(tmp_path, capsys):
    text = "state;sun;heat\nhall;0,5;0\nKüche;0;1\nsun room;1;0\n"
    assert "write a point" in told(tmp_path, capsys, text, "features.csv")


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (("1.0", "2.0"), ["'1.0'", "write 1,"]),
        (("1.5", "2.5"), ["'1.5'", "tacit ingest LOG --x COLUMN --y COLUMN"]),
        (("99999999999", "1"), ["99999999999", "number them from 0"]),
    ],
)
def test_states_that_are_no_states_say_what_to_type(tmp_path, capsys, cells, words):
    from tacit import Demonstrations, InvalidDemonstrations

    path = tmp_path / "log.csv"
    path.write_text(HEAD + "".join(f"a,{t},{cell},0\n" for t, cell in enumerate(cells)))
    with pytest.raises(InvalidDemonstrations) as caught:
        Demonstrations.load_named(path)
    for word in words:
        assert word in str(caught.value)


def test_spaces_around_names_are_no_mistake_and_check_lists_the_actions(tmp_path, capsys):
    place = folder(tmp_path / "rooms")
    spaced = " episode , step,state ,action\na, 0 , hall ,go on \na,1,Küche,\u00a0wait\n"
    (place / "demonstrations.csv").write_text(spaced, encoding="utf-8")
    assert main(["check", str(place), "--allow-impossible"]) == 0
    said = capsys.readouterr().out
    assert "action names    go on, wait" in said


LOG = """track,when,lon,lat,kind,depth
u 1,31.05.2024 18:00,8.000,52.000,wild,3
u 1,31.05.2024 18:15,8.004,52.000,wild,4
u 1,31.05.2024 18:30,8.004,52.003,wild,2
u 1,31.05.2024 18:45,NA,NA,wild,2
u 2,31.05.2024 18:00,8.016,52.003,tame,3
u 2,31.05.2024 18:15,8.012,52.006,tame,5
u 2,31.05.2024 18:30,8.008,52.003,tame,NA
u 3,31.05.2024 18:00,8.016,52.003,tame,3
u 3,31.05.2024 18:15,8.012,52.003,tame,5
"""


def tried(tmp_path, capsys, text: str, *options: str) -> tuple[dict, list[str]]:
    """What `tacit ingest` of a log says for programs, and the words that it proposes to type."""
    log = tmp_path / "log of mine.csv"
    log.write_text(text, encoding="utf-8")
    made = str(tmp_path / "made")
    assert main(["ingest", str(log), *options, "--out", made, "--json"]) == 2
    said = json.loads(capsys.readouterr().out)
    words = shlex.split(said["try"])
    assert words[:3] == ["tacit", "ingest", str(log)]
    return said, words[1:]


@pytest.mark.parametrize(
    ("text", "given", "guess"),
    [
        (LOG, [], {"episode": "track", "x": "lon", "y": "lat", "time": "when", "group": "kind"}),
        (
            LOG.replace(",", ";").replace(".00", ",00"),
            ["--episode", "track", "--x", "lon", "--y", "lat"],
            {"columns": "depth", "time": "when"},
        ),
        (HEAD + "a,0,hall,wait\na,1,hall,NA\na,2,attic,go\na,3,hall,go\n", [], {"state": "state"}),
        ("Trial,Room No\n7,3\n7,4\n8,3\n8,4\n8,3\n", [], {"episode": "Trial", "state": "Room No"}),
    ],
)
def test_a_log_without_options_says_what_to_type_and_that_works(
    tmp_path, capsys, text, given, guess
):
    said, words = tried(tmp_path, capsys, text, *given)
    assert {role: said["guess"][role][0] for role in guess} == guess
    assert main(words) == 0
    assert "problem" in capsys.readouterr().out
    assert "COLUMN" not in words


def test_the_guess_takes_the_usual_time_step_and_a_width_that_moves_do_not_skip(tmp_path, capsys):
    _, words = tried(tmp_path, capsys, LOG)
    assert words[words.index("--every") + 1] == "15min"
    # 0.004 degrees of longitude are 274 m there, 0.003 of latitude 334 m.
    assert words[words.index("--cell") + 1] == "200"
    _, words = tried(tmp_path, capsys, LOG, "--hexagon", "400")
    assert "--cell" not in words
    assert words[words.index("--hexagon") + 1] == "400.0"


def test_a_guess_does_not_invent_columns(tmp_path, capsys):
    said, words = tried(tmp_path, capsys, "a,b\n0.5,0.25\n0.75,0.5\n")
    assert said["guess"] == {"columns": ["a", "b"]}
    assert words[words.index("--state") + 1] == words[words.index("--episode") + 1] == "COLUMN"


@pytest.mark.parametrize(
    ("texts", "first", "order"),
    [
        (["31.05.2024 18:30", "01.06.2024"], 1717180200, "day, month and year"),
        (["5/31/2024", "6/1/2024"], 1717113600, "month, day and year"),
        (["31/5/2024", "1/6/2024"], 1717113600, "day, month and year"),
        (["2024/05/31", "2024-06-01T00:00Z"], 1717113600, ""),
    ],
)
def test_dates_are_read_in_the_order_that_all_of_them_allow(texts, first, order):
    found, told_order = time_stamps(texts)
    assert (found[0], told_order) == (first, order)
    assert found[1] > found[0]


def test_dates_that_could_be_two_are_refused():
    assert not np.isfinite(time_stamps(["04/05/2024", "05/06/2024"])[0]).any()
    assert not np.isfinite(time_stamps(["04/31/2024", "31/04/2024"])[0]).any()


def test_a_stray_position_and_a_spreadsheet_in_a_folder_are_named(tmp_path, capsys):
    log = tmp_path / "log.csv"
    rows = "".join(f"a,{8 + n / 100},{n}\n" for n in range(40))
    log.write_text(f"id,x,y\n{rows}a,2e7,-3\n")
    words = ["ingest", str(log), "--episode", "id", "--x", "x", "--y", "y", "--cell", "0.1"]
    assert main([*words, "--out", str(tmp_path / "o")]) == 2
    assert "NA in the place of (20000000, -3)" in capsys.readouterr().err
    place = folder(tmp_path / "rooms", demonstrations__csv=None)
    (place / "demonstrations.xlsx").write_bytes(b"PK")
    assert main(["check", str(place)]) == 2
    assert "save the table as CSV" in capsys.readouterr().err


def test_a_word_in_the_place_of_a_number_or_auto_is_said(capsys):
    assert main(["recover", "nowhere", "--types", "two"]) == 2
    assert "--types must be a whole number or auto; got 'two'" in capsys.readouterr().err
