"""`tacit check`: what it says about problems that are wrong, and about those that are only odd."""

import json

import numpy as np
import pytest

import tacit
from rooms import ROOMS, changed, folder
from tacit import cli
from tacit.folders.check import check_problem, choice, dependent_features, impossible_moves


def check(capsys, place, *words):
    """(exit code, standard output, lines of standard error)."""
    code = cli.main(["check", str(place), *words])
    out, shown = capsys.readouterr()
    return code, out, shown.splitlines()


def test_a_good_problem_passes_and_is_described(tmp_path, capsys):
    code, out, errors = check(capsys, folder(tmp_path / "the räume"))
    assert (code, errors) == (0, [])
    for piece in ("states          3", "sun", "cost 0 made of  heat", "was picked"):
        assert piece in out
    assert "ok: the problem can be used" in out


def test_json_says_the_same_to_machines(tmp_path, capsys):
    place = folder(tmp_path / "p")
    code, out, _ = check(capsys, place, "--json")
    told = json.loads(out)
    assert code == 0
    assert told["ok"] is True
    assert told["errors"] == []
    assert told["summary"]["states"] == 3
    assert told["problem"] == str(place)
    assert "was picked" in told["choice"]


def test_several_faults_are_several_lines_and_code_2(tmp_path, capsys):
    place = folder(
        tmp_path / "p",
        features__csv=ROOMS["features.csv"].replace("0.5", "warm"),
        demonstrations__csv=ROOMS["demonstrations.csv"].replace("1,1,hall", "1,3,hall"),
    )
    code, out, errors = check(capsys, place)
    assert (code, out) == (2, "")
    assert len(errors) == 2
    assert all(line.startswith("tacit: ") for line in errors)
    told = "\n".join(errors)
    assert "features.csv, line 3: sun must be a finite number; got 'warm'" in told
    assert "demonstrations.csv" in told
    code, out, _ = check(capsys, place, "--json")
    assert code == 2
    assert len(json.loads(out)["errors"]) == 2


def warned(place) -> str:
    return "\n".join(check_problem(tacit.runs.Problem.load(place)))


def test_impossible_moves_are_told_with_the_worst_first(tmp_path, capsys):
    rows = [
        *((e, 0, "hall", "wait") for e in range(9)),
        *((e, 1, "sun room" if e < 6 else "Küche", "wait") for e in range(9)),
    ]
    lines = "\n".join(",".join(map(str, row)) for row in rows)
    seen = f"episode,step,state,action\n{lines}\n"
    place = folder(tmp_path / "p", demonstrations__csv=seen)
    problem = tacit.runs.Problem.load(place)
    moves = impossible_moves(problem.mdp, problem.demonstrations, problem.layout)
    assert moves == [("hall", "wait", "sun room", 6), ("hall", "wait", "Küche", 3)]
    code, out, errors = check(capsys, place)
    assert (code, len(errors)) == (2, 1)
    assert "9 observed moves have probability 0 (hall by wait to sun room, 6 times" in errors[0]
    assert "--allow-impossible" in errors[0]
    assert "ok: the problem" not in out
    words = ["recover", str(place), "--out", str(tmp_path / "run"), "--no-report", "--quiet"]
    assert cli.main(words) == 2
    assert "9 observed moves have probability 0" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert cli.main([*words, "--allow-impossible", "--holdout", "0.3"]) == 0
    findings = tacit.Recovery.load(tmp_path / "run").identification.findings
    assert [one.about.number for one in findings if one.about.trajectory == 0] == [9]
    capsys.readouterr()
    code, out, _ = check(capsys, place, "--allow-impossible")
    assert code == 0
    assert "9 observed moves have probability 0" in out
    assert "hall by wait to sun room, 6 times; hall by wait to Küche, 3 times" in out
    assert "the most frequent first" in out
    told = json.loads(check(capsys, place, "--json")[1])
    assert told["impossible_moves"][0] == {
        "state": "hall",
        "action": "wait",
        "next_state": "sun room",
        "count": 6,
    }


def test_a_final_state_counts_as_a_move():
    mdp = tacit.MDP([[[1, 0]], [[0, 1]]], [1, 0], 0.5)
    seen = tacit.Demonstrations.from_trajectories([([0, 1], [0])])
    assert impossible_moves(mdp, seen, tacit.worlds.Layout()) == [
        ("state 0", "action 0", "state 1", 1)
    ]


@pytest.mark.parametrize(
    ("file", "old", "new", "piece"),
    [
        ("demonstrations.csv", "0,1,Küche,go on\n0,2,sun room,wait\n", "", "never visited (Küche"),
        ("demonstrations.csv", "1,0,hall,wait\n1,1,hall,go on\n", "", "one trajectory only"),
        ("demonstrations.csv", "1,1,hall,go on\n", "", "1 of 2 trajectories have one step only"),
        ("problem.toml", "0.9", "0.99", "cut off within the horizon 1 / (1 - discount) = 100"),
        ("problem.toml", '"hall"', '"Küche"', "begin where this world never starts (hall)"),
        ("features.csv", "0,0\nKüche,0.5,1", "0,0\nKüche,0.5,0", "heat is the same everywhere"),
        ("features.csv", "0.5,1\nsun room,1,0", "0.5,1\nsun room,1,2", "sun and heat are the same"),
    ],
)
def test_what_is_odd_is_a_warning(file, old, new, piece, tmp_path):
    assert piece not in warned(folder(tmp_path / "before"))
    assert piece in warned(changed(tmp_path / "after", file, old, new))


def test_a_deterministic_expert_is_a_warning(tmp_path):
    rows = "".join(f"{e},{t},hall,wait\n" for e in range(3) for t in range(5))
    place = folder(tmp_path / "p", demonstrations__csv="episode,step,state,action\n" + rows)
    assert "looks deterministic: 100%" in warned(place)


def test_features_that_depend_on_each_other_are_told_beyond_pairs():
    random = np.random.default_rng(0)
    free = random.random((8, 3))
    assert dependent_features(tacit.Features(free)) == []
    tied = np.column_stack([free, free @ [1.0, 2.0, -1.0]])
    (sentence,) = dependent_features(tacit.Features(tied, [free]))
    assert "The reward has 4 features" in sentence
    assert "only 3 are independent" in sentence
    twins = np.column_stack([free, free[:, 0]])  # told as a pair by another sentence
    assert dependent_features(tacit.Features(twins)) == []


def test_a_slack_budget_of_the_truth_is_a_warning():
    for budget, slack in ((0.9, False), (50.0, True)):
        world = tacit.worlds.hill_grid(seed=0, budget=budget)
        problem = tacit.runs.Problem(world.mdp, world.features, truth=world.truth)
        assert any("Constraint 0 is slack" in said for said in check_problem(problem)) == slack
        assert choice(problem) is None


def test_an_infeasible_truth_is_a_warning():
    world = tacit.worlds.hill_grid(seed=0, budget=0.1)
    problem = tacit.runs.Problem(world.mdp, world.features, truth=world.truth)
    assert any("No policy meets the budgets" in said for said in check_problem(problem))


def test_notes_about_estimated_transitions_are_shown(tmp_path, capsys):
    code, out, _ = check(capsys, folder(tmp_path / "p", transitions__csv=None))
    assert code == 0
    assert "note: The transitions were estimated from" in out
    assert "transitions     estimated from the demonstrations" in out


def test_groups_are_shown(tmp_path, capsys):
    lines = ROOMS["demonstrations.csv"].splitlines()
    grouped = [lines[0] + ",group", *(f"{line},mouse {line[0]}" for line in lines[1:])]
    place = folder(tmp_path / "p", demonstrations__csv="\n".join(grouped) + "\n")
    assert "mouse 0, mouse 1" in check(capsys, place)[1]


def test_a_misspelt_name_is_told_by_its_line_or_as_a_warning(tmp_path, capsys):
    wrong = ROOMS["demonstrations.csv"].replace("Küche", "Kuche")
    place = folder(tmp_path / "state", transitions__csv=None, demonstrations__csv=wrong)
    code, _, shown = check(capsys, place)
    assert code == 2
    assert (
        "demonstrations.csv, line 3: state must be one of the 3 names of features.csv" in shown[0]
    )
    wrong = ROOMS["demonstrations.csv"].replace("go on", "run", 1)
    place = folder(tmp_path / "listed", demonstrations__csv=wrong)
    assert "one of the 2 names of transitions.csv; got 'run'" in check(capsys, place)[2][0]
    named = ROOMS["problem.toml"] + '\n[names]\nactions = ["go on", "wait"]\n'
    place = folder(tmp_path / "named", demonstrations__csv=wrong, problem__toml=named)
    assert "one of the 2 names of problem.toml; got 'run'" in check(capsys, place)[2][0]
    rows = "".join(f"{e},{t},hall,go on\n" for e in range(2, 22) for t in range(5))
    seen = ROOMS["demonstrations.csv"] + rows  # 'go on' 103 times, 'wait' twice
    assert "typing error" not in warned(
        folder(tmp_path / "right", transitions__csv=None, demonstrations__csv=seen)
    )
    seen = seen.replace("go on", "goon", 1)
    place = folder(tmp_path / "action", transitions__csv=None, demonstrations__csv=seen)
    assert "Action 'goon' was taken 1 times, 'go on' 102 times" in warned(place)


HOUSE = """state,action,next_state,probability
hall,stay,hall,1
hall,go,den,1
den,stay,den,1
den,go,roof,1
"""
DAYS = """episode,step,state,action,ended,final_state
monday,0,hall,go,true,roof
monday,1,den,go,true,roof
"""
NO_END = "discount = 1 needs an end, a state without transitions, that every state can reach; got "


@pytest.mark.parametrize(
    ("top", "moves", "days", "table", "file", "said"),
    [
        ("discount = 1", "yard,stay,yard,1\n", "", None, "problem.toml", NO_END + "'yard', from"),
        ("discount = 1", "roof,go,roof,1\n", "", None, "problem.toml", NO_END + "'hall', 'den'"),
        (
            'discount = 1\ngoal = "last"',
            "yard,stay,yard,1\n",
            "tuesday,0,hall,stay,true,yard\n",
            None,
            "demonstrations.csv, line 4",
            "has the goal yard, and in hall there is none",
        ),
        (
            "discount = 0.9",
            "yard,stay,yard,1\n",
            "tuesday,0,yard,go,false,yard\n",
            None,
            "demonstrations.csv, line 4",
            "got action 'go' in state 'yard'",
        ),
        ("discount = 0.9", "roof,go,roof,0\n", "", None, "transitions.csv", "sums to 0 (line 6)"),
        (
            "discount = 0.9",
            "",
            "",
            "state,available\nhall,true\nden,true\nroof,true\n",
            "features.csv, line 4",
            "available must be false where transitions.csv has no row; got true",
        ),
    ],
    ids=["no way to an end", "no end", "goal", "unavailable", "empty row", "empty pair"],
)
def test_worlds_that_cannot_be_are_one_line(
    tmp_path, capsys, *, top, moves, days, table, file, said
):
    place = folder(
        tmp_path / "p",
        problem__toml=f'{top}\ninitial = "hall"\n[features]\nreward = {{ one_hot = "state" }}\n',
        transitions__csv=HOUSE + moves,
        demonstrations__csv=DAYS + days,
        features__csv=table,
    )
    code, out, errors = check(capsys, place)
    assert (code, out, len(errors)) == (2, "", 1)
    assert f"{place}/{file}" in errors[0]
    assert said in errors[0]
