"""Problem folders: both forms say the same, and every inconsistency is one line that says where."""

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tacit
from refusals import refusal
from rooms import ROOMS, changed, folder
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.trees import pack, unpack
from tacit.folders.check import check_problem
from tacit.folders.runs import data_hashes
from tacit.folders.settings import read_settings
from tacit.model.ends import uniform_policy
from text_form import save_text


@pytest.fixture
def rooms(tmp_path):
    return folder(tmp_path / "the rooms")


def saved(problem, place, *, text):
    """Writes a problem as tacit does, or as people do."""
    return save_text(problem, place) if text else problem.save(place)


def same_model(one, other):
    # A model normalises its rows when it is made, which moves the last bit once more.
    np.testing.assert_allclose(one.mdp.dense(), other.mdp.dense(), rtol=0, atol=4e-16)
    np.testing.assert_array_equal(one.mdp.initial, other.mdp.initial)
    assert one.mdp.discount == other.mdp.discount
    np.testing.assert_array_equal(one.features.reward, other.features.reward)
    for first, second in zip(one.features.costs, other.features.costs, strict=True):
        np.testing.assert_array_equal(first, second)
    assert one.layout == other.layout


def test_text_is_read_by_name(rooms):
    problem = tacit.runs.Problem.load(rooms)
    assert problem.layout.state_names == ("hall", "Küche", "sun room")
    assert problem.layout.action_names == ("go on", "wait")
    np.testing.assert_array_equal(problem.mdp.dense()[0, 0], [0.25, 0.75, 0])
    np.testing.assert_array_equal(problem.mdp.initial, [1, 0, 0])
    np.testing.assert_array_equal(problem.features.reward[:, 0], [0, 0.5, 1])
    assert problem.features.reward_names == ("sun",)
    assert problem.features.cost_names == (("heat",),)
    np.testing.assert_array_equal(problem.demonstrations.states, [0, 1, 2, 0, 0])
    np.testing.assert_array_equal(problem.demonstrations.actions, [0, 0, 1, 1, 0])
    assert problem.truth is None
    assert problem.notes == ()


WORLDS = {
    "grid": lambda: tacit.worlds.hill_grid(seed=1),
    "by action": lambda: tacit.worlds.random(seed=1, constraints=2, states=5),
    "by state": lambda: tacit.worlds.random(seed=1, by_action=False, constraints=0, states=4),
    "lake": lambda: tacit.worlds.gymnasium("FrozenLake-v1"),
}


@pytest.mark.parametrize("text", [False, True], ids=["npz", "text"])
def test_names_that_look_like_numbers_survive(text, tmp_path):
    world = tacit.worlds.random(seed=0, states=3, actions=2, by_action=False)
    layout = tacit.worlds.Layout(state_names=("2", "1", "30"), action_names=("1", "0"))
    seen = tacit.Demonstrations(
        [0, 1, 2, 1],
        [1, 0, 1, 1],
        [0, 3, 4],
        ended=[True, False],
        final_states=[2, -1],
        partial=[False, True],
        groups=["a", "b"],
    )
    notes = ("The transitions were guessed.",)
    problem = tacit.runs.Problem(
        world.mdp, world.features, seen, truth=None, layout=layout, notes=notes
    )
    saved(problem, tmp_path / "p", text=text)
    again = tacit.runs.Problem.load(tmp_path / "p")
    if not text:
        assert again.notes == notes
    assert again.layout.state_names == layout.state_names
    # Actions called 0 and 1 are places: their order is that of the numbers.
    shown = [again.layout.action_name(a).removeprefix("action ") for a in range(2)]
    renamed = {"1": 0, "0": 1}
    np.testing.assert_array_equal(again.demonstrations.states, seen.states)
    np.testing.assert_array_equal(
        [renamed[shown[a]] for a in again.demonstrations.actions], seen.actions
    )
    order = [shown.index("1"), shown.index("0")]
    np.testing.assert_allclose(again.mdp.dense()[:, order], world.mdp.dense(), rtol=0, atol=4e-16)
    for name in ("offsets", "ended", "final_states", "partial", "groups"):
        np.testing.assert_array_equal(getattr(again.demonstrations, name), getattr(seen, name))


@pytest.mark.parametrize("text", [False, True], ids=["npz", "text"])
@pytest.mark.parametrize("world", WORLDS)
def test_what_is_saved_is_loaded(world, text, tmp_path):
    world = WORLDS[world]()
    uniform = uniform_policy(world.mdp)
    seen = tacit.simulate(world.mdp, uniform, trajectories=3, steps=7)
    problem = tacit.runs.Problem(
        world.mdp, world.features, seen, truth=world.truth, layout=world.layout
    )
    saved(problem, tmp_path / "new" / "problem", text=text)
    again = tacit.runs.Problem.load(tmp_path / "new" / "problem")
    same_model(problem, again)
    np.testing.assert_array_equal(again.demonstrations.states, seen.states)
    np.testing.assert_array_equal(again.demonstrations.final_states, seen.final_states)
    np.testing.assert_allclose(again.truth.costs, world.truth.costs, rtol=0, atol=1e-12 * text)
    if not text:  # a text table has one name for a column that the reward and a cost share
        assert again.features.cost_names == world.features.cost_names


def test_curves_stay_curves(rooms, tmp_path):
    problem = tacit.runs.Problem.load(rooms)
    grid = tacit.worlds.hill_grid(seed=0)
    height = np.arange(grid.mdp.states, dtype=float)
    features = tacit.features.combine(
        tacit.features.curve(height, "height"),
        [tacit.features.curve(height, "slope", shape="increasing")],
    )
    problem = replace(
        problem, mdp=grid.mdp, features=features, layout=grid.layout, demonstrations=None
    )
    problem.save(tmp_path / "again")
    again = tacit.runs.Problem.load(tmp_path / "again").features
    for one, other in zip(features.curves, again.curves, strict=True):
        assert (one.name, one.block) == (other.name, other.block)
        np.testing.assert_array_equal(one.basis.columns(height), other.basis.columns(height))


def test_saving_over_something_is_refused_and_leaves_it(rooms):
    problem = tacit.runs.Problem.load(rooms)
    before = sorted(path.name for path in rooms.iterdir())
    with pytest.raises(FileExistsError, match="not empty"):
        problem.save(rooms)
    assert sorted(path.name for path in rooms.iterdir()) == before
    assert [path.name for path in rooms.parent.iterdir()] == [rooms.name]


def test_a_fault_while_saving_leaves_nothing(rooms, tmp_path, monkeypatch):
    problem = tacit.runs.Problem.load(rooms)

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tacit.folders.problem.write_arrays", full)
    with pytest.raises(OSError, match="No space"):
        problem.save(tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == [rooms.name]


def test_names_and_numbers_may_both_be_used(tmp_path):
    numbers = ROOMS["demonstrations.csv"]
    for number, name in enumerate(["hall", "Küche", "sun room"]):
        numbers = numbers.replace(f",{name},", f",{number},")
    for number, name in enumerate(["go on", "wait"]):
        numbers = numbers.replace(f",{name}\n", f",{number}\n")
    seen = tacit.runs.Problem.load(
        folder(tmp_path / "a", demonstrations__csv=numbers)
    ).demonstrations
    named = tacit.runs.Problem.load(folder(tmp_path / "b")).demonstrations
    np.testing.assert_array_equal(seen.states, named.states)
    np.testing.assert_array_equal(seen.actions, named.actions)


def test_numbers_that_do_not_start_at_0_are_names(tmp_path):
    changed = {}
    for file, text in ROOMS.items():
        for number, name in ((1, "hall"), (2, "Küche"), (3, "sun room")):
            text = text.replace(name, str(number))
        changed[file.replace(".", "__")] = text
    problem = tacit.runs.Problem.load(folder(tmp_path / "a", **changed))
    assert problem.layout.state_names == ("1", "2", "3")
    np.testing.assert_array_equal(problem.demonstrations.states, [0, 1, 2, 0, 0])


def test_numbers_may_be_padded_with_zeros(tmp_path):
    padded = {}
    for file, text in ROOMS.items():
        for name, code in (("hall", "007"), ("Küche", "012"), ("sun room", "003")):
            text = text.replace(name, code)
        padded[file.replace(".", "__")] = text
    plain, coded = (
        tacit.runs.Problem.load(folder(tmp_path / name, **files))
        for name, files in (("a", {}), ("b", padded))
    )
    assert coded.layout.state_names == ("007", "012", "003")
    np.testing.assert_array_equal(coded.demonstrations.states, plain.demonstrations.states)
    twice = {file: text.replace("012", "7") for file, text in padded.items()}
    both = tacit.runs.Problem.load(folder(tmp_path / "c", **twice))
    assert both.layout.state_names == ("007", "7", "003")
    np.testing.assert_array_equal(both.demonstrations.states, plain.demonstrations.states)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("file", ["demonstrations.csv", "features.csv", "problem.toml"])
def test_a_pipe_is_not_waited_for(tmp_path, file):
    path = folder(tmp_path / "a", **{file.replace(".", "__"): None})
    os.mkfifo(path / file)
    with pytest.raises(OSError, match="is a pipe or a device"):
        tacit.runs.Problem.load(path)


def test_features_of_no_use_are_told_with_their_file(tmp_path):
    path = changed(tmp_path / "a", "features.csv", "0.5", "1e300")
    with pytest.raises(InvalidModel, match=r"features\.csv: reward features .* up to 1e\+300"):
        tacit.runs.Problem.load(path)


def test_dialects_of_text_are_read(tmp_path):
    odd = "\ufeff" + ROOMS["features.csv"].replace(",", ";").replace("\n", "\r\n")
    problem = tacit.runs.Problem.load(folder(tmp_path / "a", features__csv="\r\n" + odd[1:]))
    same_model(problem, tacit.runs.Problem.load(folder(tmp_path / "b")))
    (tmp_path / "a" / "features.csv").write_bytes(odd.encode())
    same_model(problem, tacit.runs.Problem.load(tmp_path / "a"))


def test_the_start_may_be_a_table_a_column_or_what_was_seen(tmp_path):
    shared = ROOMS["problem.toml"].replace(
        'initial = "hall"', 'initial = { hall = 0.25, "sun room" = 0.75 }'
    )
    assert tacit.runs.Problem.load(
        folder(tmp_path / "a", problem__toml=shared)
    ).mdp.initial.tolist() == [0.25, 0, 0.75]
    column = ROOMS["problem.toml"].replace('"hall"', '"sun"')
    table = "state,sun,heat\nhall,0.5,0\nKüche,0.5,1\nsun room,0,0\n"
    problem = tacit.runs.Problem.load(
        folder(tmp_path / "b", problem__toml=column, features__csv=table)
    )
    assert problem.mdp.initial.tolist() == [0.5, 0.5, 0]
    absent = ROOMS["problem.toml"].replace('initial = "hall"\n', "")
    problem = tacit.runs.Problem.load(folder(tmp_path / "c", problem__toml=absent))
    assert problem.mdp.initial.tolist() == [1, 0, 0]
    assert "2 episodes" in problem.notes[0]


def test_transitions_are_estimated_where_there_are_none(tmp_path):
    settings = ROOMS["problem.toml"] + '[transitions]\nprior = 0\nunvisited = "stay"\n'
    problem = tacit.runs.Problem.load(
        folder(tmp_path / "a", transitions__csv=None, problem__toml=settings)
    )
    dense = problem.mdp.dense()
    np.testing.assert_array_equal(dense[0, 0], [0, 1, 0])  # hall, go on: seen once with an outcome
    np.testing.assert_array_equal(dense[2, 0], [0, 0, 1])  # never seen: stays
    assert problem.layout.action_names == ("go on", "wait")
    assert "estimated from" in problem.notes[0]


def test_truth_may_be_given_as_text(tmp_path):
    settings = ROOMS["problem.toml"] + "[truth]\nreward = [2]\ncosts = [[1]]\nbudgets = [0.5]\n"
    truth = tacit.runs.Problem.load(folder(tmp_path / "a", problem__toml=settings)).truth
    np.testing.assert_array_equal(truth.reward, [0, 1, 2])
    np.testing.assert_array_equal(truth.costs, [[0, 1, 0]])


WITHOUT = "\n".join(
    line for line in ROOMS["transitions.csv"].splitlines() if not line.startswith("sun room")
)
# The sun room is an end: it may come last, and nothing is done in it.
ENDED = """episode,step,state,action,ended,final_state
0,0,hall,go on,true,sun room
0,1,Küche,go on,true,sun room
1,0,hall,wait,false,Küche
1,1,hall,go on,false,Küche
"""


def test_a_folder_says_the_version_of_its_form(rooms, tmp_path):
    """What people write need not; what is of a later form is refused with what to do."""
    tacit.runs.Problem.load(rooms).save(tmp_path / "saved")
    for place in (tmp_path / "saved", rooms):
        path = place / "problem.toml"
        text = path.read_text().replace("version = 1\n", "")
        for version, said in (
            (1, ""),
            (2, "version of the form must be at most 1, which this tacit reads; got 2: update"),
            (0, "version must be a positive whole number; got 0"),
            ('"new"', "version must be a positive whole number; got 'new'"),
        ):
            path.write_text(f"version = {version}\n{text}")
            if not said:
                assert tacit.runs.Problem.load(place).mdp.states == 3
                continue
            with pytest.raises(InvalidModel) as caught:
                tacit.runs.Problem.load(place)
            assert str(caught.value).startswith(str(path))
            assert said in str(caught.value)


def test_a_state_without_rows_ends_the_episode(tmp_path):
    place = folder(tmp_path / "a", transitions__csv=WITHOUT, demonstrations__csv=ENDED)
    (place / "problem.toml").write_text(ROOMS["problem.toml"].replace("0.9", "1"))
    problem = tacit.runs.Problem.load(place)
    assert problem.mdp.discount == 1.0
    assert problem.mdp.ends.tolist() == [False, False, True]
    assert problem.mdp.available.tolist() == [[True, True], [True, True], [False, False]]
    for text in (True, False):
        saved(problem, tmp_path / f"again {text}", text=text)
        again = tacit.runs.Problem.load(tmp_path / f"again {text}")
        same_model(again, problem)
        assert np.array_equal(again.mdp.available, problem.mdp.available)
        assert np.array_equal(again.demonstrations.final_states, [2, 1])


def test_a_pair_without_a_row_is_not_available(tmp_path):
    less = ROOMS["transitions.csv"].replace("Küche,wait,Küche,1\n", "")
    problem = tacit.runs.Problem.load(folder(tmp_path / "a", transitions__csv=less))
    assert not problem.mdp.ends.any()
    assert np.argwhere(~problem.mdp.available).tolist() == [[1, 1]]
    problem.save(tmp_path / "npz")
    saved = tacit.runs.Problem.load(tmp_path / "npz").mdp
    assert np.array_equal(saved.available, problem.mdp.available)


def test_states_are_said_to_stay_by_name_and_never_silently(tmp_path):
    place = folder(tmp_path / "a", transitions__csv=WITHOUT)
    settings = ROOMS["problem.toml"] + '[transitions]\nabsorbing = ["sun room"]\n'
    (place / "problem.toml").write_text(settings)
    problem = tacit.runs.Problem.load(place)
    assert problem.mdp.absorbing.tolist() == [False, False, True]
    assert not problem.mdp.restricted
    assert any("sun room" in note and note.kind.name == "ASSUMED" for note in problem.notes)


PAIRS = """state,action,sun,heat,available
hall,go on,0,0,1
hall,wait,0,1,1
Küche,go on,0.5,1,1
Küche,wait,0.25,1,{}
sun room,go on,1,0,1
sun room,wait,1,0,1
"""


def test_a_column_says_which_actions_are_available(tmp_path):
    # Given transitions: the column closes an action. Counted ones: nothing else can.
    for name, moves in (("given", ROOMS["transitions.csv"]), ("counted", None)):
        place = folder(tmp_path / name, features__csv=PAIRS.format(0), transitions__csv=moves)
        problem = tacit.runs.Problem.load(place)
        assert np.argwhere(~problem.mdp.available).tolist() == [[1, 1]]
        assert problem.features.reward[1, :, 0].tolist() == [0.5, 0.25]
    # A row by state says it of all actions: the sun room is an end.
    by_state = "state,sun,heat,available\nhall,0,0,1\nKüche,0.5,1,1\nsun room,1,0,0\n"
    place = folder(tmp_path / "ends", features__csv=by_state, demonstrations__csv=ENDED)
    assert tacit.runs.Problem.load(place).mdp.ends.tolist() == [False, False, True]
    # An unavailable pair needs no row of features; an end needs one row only.
    less = PAIRS.format(0).replace(",available", "").replace(",0\n", "\n").replace(",1\n", "\n")
    dropped = ("Küche,wait", "sun room,wait")
    lines = [line for line in less.splitlines() if not line.startswith(dropped)]
    moves = WITHOUT.replace("Küche,wait,Küche,1", "")
    place = folder(
        tmp_path / "less",
        features__csv="\n".join(lines),
        transitions__csv=moves,
        demonstrations__csv=ENDED,
    )
    problem = tacit.runs.Problem.load(place)
    assert problem.features.reward[2, :, 0].tolist() == [1.0, 1.0]


ENDS_FAULTS = {
    "no end": (
        {"problem__toml": ROOMS["problem.toml"].replace("0.9", "1")},
        ["problem.toml: discount = 1 needs an end", "'hall', 'Küche' and 'sun room'"],
    ),
    "one reaches none": (
        {
            "problem__toml": ROOMS["problem.toml"].replace("0.9", "1.0"),
            "transitions__csv": WITHOUT.replace("Küche,go on,sun room,1", "Küche,go on,Küche,1"),
            "demonstrations__csv": ENDED,
        },
        ["problem.toml: discount = 1 needs an end", "got 'hall' and 'Küche', from where"],
    ),
    "counted without an end": (
        {"problem__toml": ROOMS["problem.toml"].replace("0.9", "1"), "transitions__csv": None},
        ["problem.toml: discount = 1 needs an end"],
    ),
    "unavailable": (
        {"transitions__csv": ROOMS["transitions.csv"].replace("hall,wait,hall,1\n", "")},
        ["demonstrations.csv, line 5: every action taken", "got action 'wait' in state 'hall'"],
    ),
    "after an end": (
        {"transitions__csv": WITHOUT},
        ["demonstrations.csv, line 4: nothing may be done", "action 'wait' in state 'sun room'"],
    ),
    "counted but masked": (
        {
            "features__csv": PAIRS.format(1).replace("hall,wait,0,1,1", "hall,wait,0,1,0"),
            "transitions__csv": None,
        },
        ["demonstrations.csv, line 5: every action taken", "got action 'wait' in state 'hall'"],
    ),
    "available but empty": (
        {
            "features__csv": PAIRS.format(1),
            "transitions__csv": ROOMS["transitions.csv"].replace("Küche,wait,Küche,1\n", ""),
        },
        ["features.csv, line 5: available must be false where transitions.csv has no row"],
    ),
    "row of probability 0": (
        {"transitions__csv": ROOMS["transitions.csv"].replace("wait,Küche,1", "wait,Küche,0")},
        ["sums to 0 (line 6)", "not available has no row"],
    ),
    "features of an available pair": (
        {"features__csv": PAIRS.format(1).replace("Küche,wait,0.25,1,1\n", "")},
        ["features.csv", "state 'Küche' has none for action 'wait'"],
    ),
    "features that differ at an end": (
        {
            "features__csv": PAIRS.format(1)
            .replace(",available", "")
            .replace(",1\n", "\n")
            .replace("sun room,wait,1,0", "sun room,wait,2,0"),
            "transitions__csv": WITHOUT,
            "demonstrations__csv": ENDED,
        },
        ["reward features must be the same for all actions where an episode ends", "state 2"],
    ),
    "unknown column": (
        {"transitions__csv": ROOMS["transitions.csv"].replace("probability", "probability,x", 1)},
        ["transitions.csv: unknown column 'x'"],
    ),
    "misspelt column": (
        {"features__csv": PAIRS.format(1).replace("available", "avialable")},
        ["features.csv: unknown column 'avialable', did you mean 'available'?"],
    ),
    "stay": (
        {"problem__toml": ROOMS["problem.toml"] + '[transitions]\nabsorbing = "stay"\n'},
        ["transitions.absorbing must be a list of names", "'stay'"],
    ),
    "an absorbing state that is left": (
        {"problem__toml": ROOMS["problem.toml"] + '[transitions]\nabsorbing = ["sun room"]\n'},
        ["transitions.csv, line 7: nothing may leave 'sun room'"],
    ),
    "discount": (
        {"problem__toml": ROOMS["problem.toml"].replace("0.9", "1.5")},
        ["problem.toml: discount must be in [0, 1]; got 1.5"],
    ),
}


@pytest.mark.parametrize("fault", ENDS_FAULTS)
def test_faults_of_ends_and_choices_are_one_line_each(fault, tmp_path):
    changes, pieces = ENDS_FAULTS[fault]
    with refusal((InvalidModel, InvalidDemonstrations), *pieces):
        tacit.runs.Problem.load(folder(tmp_path / "p", **changes))


@pytest.mark.parametrize("part", ["transitions.csv", "features.csv", "truth of problem.toml"])
def test_a_part_given_twice_is_refused(part, rooms, tmp_path):
    place = tmp_path / "npz"
    tacit.runs.Problem.load(rooms).save(place)
    if part.endswith(".csv"):
        shutil.copy(rooms / part, place)
    else:
        with open(place / "problem.toml", "a", encoding="utf-8") as file:
            file.write("[truth]\nreward = [1.0]\n")
    with pytest.raises(InvalidModel, match=f"each part once; problem.npz .* so does {part}"):
        tacit.runs.Problem.load(place)


@pytest.mark.parametrize("held", [{}, {"version": 1}, {"mdp": None, "version": 1}, [1]])
def test_an_archive_of_something_else_is_one_line(held, rooms, tmp_path):
    tacit.runs.Problem.load(rooms).save(tmp_path / "npz")
    write_arrays(tmp_path / "npz" / "problem.npz", pack(held))
    with refusal(tacit.TacitError, match=r"problem.npz must hold a problem"):
        tacit.runs.Problem.load(tmp_path / "npz")


def test_an_archive_of_a_later_form_is_refused(rooms, tmp_path):
    tacit.runs.Problem.load(rooms).save(tmp_path / "npz")
    path = tmp_path / "npz" / "problem.npz"
    write_arrays(path, pack({**unpack(read_arrays(path)), "version": 99}))
    with pytest.raises(InvalidModel, match=r"problem.npz: version .* got 99: update tacit"):
        tacit.runs.Problem.load(tmp_path / "npz")


def test_a_missing_problem_and_a_file_are_told_apart(tmp_path):
    with pytest.raises(FileNotFoundError):
        tacit.runs.Problem.load(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        tacit.runs.Problem.load(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"needs features\.csv"):
        tacit.runs.Problem.load(tmp_path / "empty")


# (file, what to replace, by what, pieces of the one line)
TEXT_FAULTS = {
    "discount text": ("problem.toml", "0.9", '"high"', ["discount must be a number", "'high'"]),
    "discount bool": ("problem.toml", "0.9", "true", ["discount must be a number", "True"]),
    "no discount": ("problem.toml", "discount = 0.9", "", ["problem.toml", "discount = 0.9"]),
    "key": ("problem.toml", "discount", "discuont", ["'discuont'", "did you mean 'discount'?"]),
    "table key": ("problem.toml", "costs =", "cost =", ["[features]", "did you mean 'costs'?"]),
    "toml": ("problem.toml", "0.9", "", ["problem.toml must be TOML", "line 2"]),
    "start": ("problem.toml", '"hall"', '"hal"', ["initial", "'hal'", "did you mean 'hall'?"]),
    "start sum": (
        "problem.toml",
        '"hall"',
        "{ hall = 0.5 }",
        ["problem.toml: initial", "sums to 0.5"],
    ),
    "column": ("problem.toml", '"sun"', '"son"', ["features.reward", "'son'", "'sun'?"]),
    "costs": ("problem.toml", '[["heat"]]', "[3]", ["features.costs", '[["heat"]]']),
    "formula": (
        "problem.toml",
        '[["heat"]]',
        '["heat + son"]',
        ["problem.toml", "'son'", "'sun'?"],
    ),
    "code": (
        "problem.toml",
        '[["heat"]]',
        '["__import__(1)"]',
        ["features.costs[0]", "__import__", "allowed are columns"],
    ),
    "nan": ("features.csv", "0.5", "nan", ["features.csv, line 3", "sun", "'nan'", "finite"]),
    "infinite": ("features.csv", "0.5", "inf", ["features.csv, line 3", "sun", "'inf'"]),
    "text": ("features.csv", "0.5", "warm", ["features.csv, line 3", "sun", "'warm'"]),
    "hole": ("features.csv", "0.5", "", ["features.csv, line 3", "sun", "missing"]),
    "short row": ("features.csv", "0.5,1", "1", ["features.csv, line 3", "3 fields", "got 2"]),
    "state twice": ("features.csv", "Küche", "hall", ["line 3", "'hall'", "line 2"]),
    "no column": ("features.csv", "state,", "place,", ["features.csv", "'state'", "place"]),
    "no header": ("features.csv", "state,sun,heat\n", "", ["features.csv", "(state)"]),
    "column twice": ("features.csv", "heat", "sun", ["features.csv", "'sun' is twice"]),
    "no row": ("features.csv", "sun room,1,0\n", "", ["transitions.csv, line 7", "'sun room'"]),
    "probability": (
        "transitions.csv",
        "0.75",
        "x",
        ["transitions.csv, line 2", "probability", "'x'"],
    ),
    "negative": ("transitions.csv", "0.75", "-0.75", ["line 2", "[0, 1]", "-0.75"]),
    "no chance": ("transitions.csv", "0.75", "", ["line 2", "probability", "missing"]),
    "comma": ("transitions.csv", "0.75", '"0,75"', ["line 2", "'0,75'", "decimal comma"]),
    "underscore": ("transitions.csv", "0.75", "0_1", ["line 2", "finite", "'0_1'"]),
    "endless chance": ("transitions.csv", "0.75", "inf", ["line 2", "finite", "inf"]),
    "sum": ("transitions.csv", "0.75", "0.7", ["'hall'", "'go on'", "sums to 0.95", "line 2"]),
    "unknown": ("transitions.csv", "go on,sun room", "go on,sun rom", ["line 5", "'sun room'?"]),
    "repeat": ("transitions.csv", "go on,hall,0.25", "go on,Küche,0.25", ["line 3", "line 2"]),
    "misspelt": ("transitions.csv", "next_state", "nextstate", ["'next_state'", "'nextstate'?"]),
}


@pytest.mark.parametrize("fault", TEXT_FAULTS)
def test_every_fault_of_the_model_is_one_line_that_says_where(fault, tmp_path):
    file, old, new, pieces = TEXT_FAULTS[fault]
    place = changed(tmp_path / "p", file, old, new)
    with refusal(InvalidModel, *pieces):
        tacit.runs.Problem.load(place)


@pytest.mark.parametrize("file", ["features.csv", "transitions.csv", "problem.toml"])
@pytest.mark.parametrize("content", [b"", b"\x80\x04\x95\x00", b"PK\x03\x04\x00\xff", b"\xff\xfea"])
def test_other_files_under_these_names_are_refused(file, content, tmp_path):
    place = folder(tmp_path / "p")
    (place / file).write_bytes(content)
    with pytest.raises((InvalidModel, OSError), match=file):
        tacit.runs.Problem.load(place)


def test_parts_that_do_not_fit_each_other_are_refused():
    world = tacit.worlds.hill_grid(seed=0)
    other = tacit.worlds.hill_grid(seed=0, size=4)
    with pytest.raises(InvalidModel, match=r"with S, A = \(25, 4\); got \(16, 2\)"):
        tacit.runs.Problem(world.mdp, other.features)
    with pytest.raises(InvalidModel, match=r"5 x 5 cells"):
        tacit.runs.Problem(other.mdp, other.features, layout=world.layout)
    seen = tacit.Demonstrations.from_trajectories([([24], [0])])
    with pytest.raises(InvalidDemonstrations, match=r"0\.\.15"):
        tacit.runs.Problem(other.mdp, other.features, seen)


def test_no_settings_file_is_no_error(tmp_path):
    assert read_settings(tmp_path).discount is None


# --- any bytes under these names: an error of ours, or a problem; never a traceback ---------------


@pytest.fixture(scope="module")
def both_forms(tmp_path_factory):
    place = tmp_path_factory.mktemp("fuzzed")
    written = ROOMS["problem.toml"] + (
        "[names]\nactions = ['go on', 'wait']\n[grid]\nrows = 1\ncolumns = 3\n"
        "[transitions]\nprior = 1.0\nabsorbing = []\n"
        "[truth]\nreward = [1]\ncosts = [[1]]\nbudgets = [1]\n"
    )
    folder(place / "text", problem__toml=written)
    problem = tacit.runs.Problem.load(place / "text")
    problem.save(place / "npz")
    return place


PIECES = st.one_of(
    st.binary(max_size=4),
    st.sampled_from(
        [b"nan", b"-1", b"1e400", b"\n", b";", b'"', b"[", b"=", b"hall", b"true", b"2"]
    ),
)
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), PIECES), min_size=1, max_size=3)


@pytest.mark.parametrize(
    "file",
    [
        "text/problem.toml",
        "text/features.csv",
        "text/transitions.csv",
        "npz/problem.npz",
    ],
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=EDITS)
def test_no_bytes_make_a_traceback(file, edits, both_forms):
    path = both_forms / file
    good = path.read_bytes()
    bad = bytearray(good)
    for where, length, piece in edits:
        start = int(where * len(bad))
        bad[start : start + length] = piece
    said = ""
    try:
        path.write_bytes(bad)
        tacit.runs.Problem.load(path.parent)
    except (tacit.TacitError, OSError) as error:
        said = str(error)
    finally:
        path.write_bytes(good)
    assert "\n" not in said


def sparse_problem(states):
    """A ring of states with one indicator each, and half of them marked as costly."""
    ring = np.stack([np.arange(states), (np.arange(states) + 1) % states], axis=1)[:, :, None]
    mdp = tacit.MDP(tacit.model.mdp.Successors(ring, np.ones(ring.shape)), np.eye(states)[0], 0.9)
    marked = sp.csr_array((np.arange(states) % 2 * 0.25)[:, None])
    features = tacit.Features(sp.eye_array(states), [marked, np.ones((states, 1))])
    return tacit.runs.Problem(mdp, features)


def test_sparse_features_stay_sparse_in_an_archive(tmp_path):
    problem = sparse_problem(3000)
    problem.save(tmp_path / "p")
    assert (tmp_path / "p" / "problem.npz").stat().st_size < 800_000
    again = tacit.runs.Problem.load(tmp_path / "p").features
    assert [sp.issparse(table) for table in again.maps] == [True, True, False]
    for one, other in zip(problem.features.maps, again.maps, strict=True):
        assert abs(one - other).max() == 0
    assert again.reward_names == problem.features.reward_names
    warnings = check_problem(problem)
    assert any("3000 sparse features are too many to compare" in line for line in warnings)
    # Neither of them was written out on the way.
    assert "reward" not in vars(problem.features)
    assert "reward" not in vars(again)


def test_a_problem_has_one_hash_whether_its_features_are_sparse_or_not():
    problem = sparse_problem(6)
    features = problem.features
    dense = tacit.Features(
        features.reward, features.costs, features.reward_names, features.cost_names
    )
    seen = tacit.Demonstrations([0, 1], [1, 1], [0, 2])
    assert data_hashes(problem.mdp, features, seen) == data_hashes(problem.mdp, dense, seen)
    large = sparse_problem(3000)
    small = data_hashes(large.mdp, large.features, seen)["features"]
    changed = 2.0 * large.features.maps[0]
    other = tacit.Features(changed, large.features.maps[1:])
    assert data_hashes(large.mdp, other, seen)["features"] != small
    assert "reward" not in vars(large.features)


ONE_HOT = '{ one_hot = "state" }'


def one_hot_rooms(place, features, **others):
    """The rooms with these lines under [features], and no truth."""
    settings = f'discount = 0.9\ninitial = "hall"\n[features]\n{features}\n'
    return folder(place, problem__toml=settings, **others)


def test_a_feature_a_state_needs_no_file(tmp_path):
    place = one_hot_rooms(tmp_path / "p", f"reward = {ONE_HOT}")
    (place / "features.csv").unlink()
    problem = tacit.runs.Problem.load(place)
    names = problem.layout.state_names
    assert sorted(names) == ["Küche", "hall", "sun room"]
    assert problem.features.reward_names == names
    assert sp.issparse(problem.features.maps[0])
    np.testing.assert_array_equal(problem.features.reward, np.eye(3))
    # Text says it in the same words again, archives hold its entries.
    for text in (True, False):
        saved(problem, tmp_path / f"again {text}", text=text)
        again = tacit.runs.Problem.load(tmp_path / f"again {text}").features
        assert sp.issparse(again.maps[0])
        assert again.reward_names == names
    assert not (tmp_path / "again True" / "features.csv").exists()


def test_a_constraint_may_have_a_feature_a_state_beside_columns(tmp_path):
    lines = f'reward = ["sun"]\ncosts = [["heat"], {ONE_HOT}]'
    problem = tacit.runs.Problem.load(one_hot_rooms(tmp_path / "p", lines))
    assert [sp.issparse(table) for table in problem.features.maps] == [False, False, True]
    assert problem.features.cost_names == (("heat",), problem.layout.state_names)
    save_text(problem, tmp_path / "again")
    again = tacit.runs.Problem.load(tmp_path / "again").features
    assert [sp.issparse(table) for table in again.maps] == [False, False, True]
    for one, other in zip(problem.features.costs, again.costs, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (
            'reward = { one_hot = "stat" }',
            "features.reward must be a formula, a list of columns, or { one_",
        ),
        (
            'reward = { onehot = "state" }',
            "features.reward must be a formula, a list of columns, or { one_",
        ),
        (f'reward = ["sun"]\ncosts = {ONE_HOT}', "features.costs must be one list of columns"),
        ("reward = []", "features.reward must name at least one column; got none"),
        (f"reward = {ONE_HOT}\ncosts = [[]]", "features.costs[0] must name at least one column"),
    ],
)
def test_a_wrong_one_hot_is_one_line(tmp_path, features, said):
    place = one_hot_rooms(tmp_path / "p", features)
    with refusal(InvalidModel, said, "problem.toml"):
        tacit.runs.Problem.load(place)


def test_a_feature_a_state_needs_to_know_the_states(tmp_path):
    place = one_hot_rooms(tmp_path / "p", f"reward = {ONE_HOT}")
    (place / "features.csv").unlink()
    (place / "transitions.csv").unlink()
    with pytest.raises(InvalidModel, match=r"problem.toml must list states in \[names\]"):
        tacit.runs.Problem.load(place)
    with open(place / "problem.toml", "a", encoding="utf-8") as file:
        file.write('[names]\nstates = ["hall", "Küche", "sun room"]\n')
    assert tacit.runs.Problem.load(place).features.sizes == (3,)


def test_formulas_of_a_folder_are_those_of_python(tmp_path):
    features = "state,action,cover,slope,road\n" + "".join(
        f"{s},{a},{cover},{slope},{road}\n"
        for s, cover, slope in [("hall", "wood", 1), ("Küche", "stone", 4), ("sun room", "wood", 9)]
        for a, road in [("go on", slope / 2), ("wait", 0)]
    )
    text = ROOMS["problem.toml"].replace('["sun"]', '"C(cover) + sqrt(slope)"')
    text = text.replace('[["heat"]]', '["road:slope", ["road"]]').partition("[truth]")[0]
    place = folder(tmp_path / "p", features__csv=features, problem__toml=text)
    problem = tacit.runs.Problem.load(place)
    made = tacit.Features.from_formula(
        "C(cover) + sqrt(slope)",
        ["road:slope", "road"],
        data=place / "features.csv",
        layout=problem.layout,
    )
    assert problem.features.reward_names == made.reward_names == ("cover[wood]", "sqrt(slope)")
    assert problem.features.cost_names == made.cost_names == (("road:slope",), ("road",))
    found, kept = problem.features, problem.mdp.available
    assert np.array_equal(found.reward[kept], made.reward[kept])
    for one, other in zip(found.costs, made.costs, strict=True):
        assert np.array_equal(one[kept], other[kept])
