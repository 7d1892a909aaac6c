"""The usual mistakes: each is refused in one line that says what to type instead."""

import pytest

from rooms import folder
from tacit.cli import main

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
        (HEAD + "a,0,hall,wait\na,1,hall,NA\na,2,hall,wait\n", ["line 3", "--missing split"]),
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
