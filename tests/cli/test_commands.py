"""The verbs on problem folders, and the faults of the model as the command line tells them."""

import dataclasses
import inspect
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import tacit
from rooms import ROOMS, changed, folder
from tacit import cli
from tacit.files.arrays import read_arrays
from text_form import save_text


def tell(capsys, *words):
    """(exit code, standard output, standard error) of one command."""
    code = cli.main([str(word) for word in words])
    return code, *capsys.readouterr()


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """The paper's grid as a problem folder, with a budget that binds."""
    place = tmp_path_factory.mktemp("simulated") / "a grid"
    words = "simulate hill-grid --tightness 0.5 --trajectories 30 --steps 60 --quiet --out"
    assert cli.main([*words.split(), str(place)]) == 0
    return place


# --- simulate ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "states"),
    [
        ("hill-grid --size 4 --slip 0.1 --budget 5", 16),
        ("hill_grid --hill as-written --tightness 0.3", 25),
        ("published-figure", 25),
        ("random --states 6 --actions 2 --constraints 2 --features 2 --temperature 0.2", 6),
        ("FrozenLake-v1 --discount 0.95", 16),
        ("CliffWalking-v1", 48),
        ("Taxi-v4", 504),
    ],
)
def test_simulate_makes_a_problem_of_any_world(words, states, tmp_path, capsys):
    options = ["--out", tmp_path / "p", "--trajectories", 4, "--steps", 9]
    code, out, _ = tell(capsys, "simulate", *words.split(), *options, "--json")
    assert code == 0
    told = json.loads(out)
    assert told["states"] == states
    problem = tacit.runs.Problem.load(tmp_path / "p")
    assert problem.mdp.states == states
    assert problem.demonstrations.episodes == told["episodes"] == 4
    assert problem.truth is not None
    names = {path.name for path in (tmp_path / "p").iterdir()}
    assert names == {"problem.npz", "demonstrations.parquet", "problem.toml"}
    assert (tmp_path / "p" / "problem.toml").read_text() == "version = 1\n"


def test_simulate_is_the_same_for_the_same_seed(tmp_path, capsys):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        words = ["simulate", "published-figure", "--seed", seed, "--out", tmp_path / name]
        assert tell(capsys, *words)[0] == 0
    a, b, c = (tacit.runs.Problem.load(tmp_path / name).demonstrations.states for name in "abc")
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


@pytest.mark.parametrize(
    ("words", "code", "piece"),
    [
        ("hill-grit", 2, "did you mean hill-grid?"),
        ("FrozenLake", 2, "did you mean FrozenLake-v1?"),
        ("Nothing-v0", 2, "Gymnasium cannot make 'Nothing-v0'"),
        ("random --size 4", 2, "--size is no option of random"),
        ("random --states x", 2, "--states must be a whole number; got 'x'"),
        ("hill-grid --steps 0", 2, "--steps must be at least 1; got 0"),
        ("hill-grid --discount 1", 2, "discount must be in [0, 1), or 1 where"),
        ("hill-grid --temperature -1", 2, "--temperature must be a number, 0 or more"),
        ("hill-grid --budget 0.1", 3, "no policy meets the budgets"),
    ],
)
def test_simulate_refuses_what_cannot_be(words, code, piece, tmp_path, capsys):
    got, out, shown = tell(capsys, "simulate", *words.split(), "--out", tmp_path / "p")
    assert (got, out) == (code, "")
    assert shown.count("\n") == 1
    assert piece in shown
    assert list(tmp_path.iterdir()) == []


def test_defaults_are_those_of_the_library(capsys):
    words = re.sub("[│─╭╮╰╯]", " ", tell(capsys, "simulate", "--help")[1]).split()
    shown = " ".join(words)
    made = (tacit.simulate, tacit.worlds.random, tacit.worlds.hill_grid)
    for option, default in {
        name: given.default
        for function in made
        for name, given in inspect.signature(function).parameters.items()
        if given.default not in (None, inspect.Parameter.empty) and f"--{name} " in shown
    }.items():
        said = re.search(rf"--{option} .*?\(default: ([^);]*)", shown)[1]
        assert said == str(getattr(default, "value", default)), option
    shown = " ".join(re.sub("[│─╭╮╰╯]", " ", tell(capsys, "solve", "--help")[1]).split())
    assert f"reward (default: {tacit.SoftDual().temperature})" in shown


# --- solve ---------------------------------------------------------------------------------------


def test_solve_tells_value_prices_and_certificate(grid, capsys):
    code, out, _ = tell(capsys, "solve", grid)
    assert code == 0
    for piece in ("converged: value", "spent", "budget", "price", "duality gap"):
        assert piece in out
    problem = tacit.runs.Problem.load(grid)
    solution = tacit.solve(problem.mdp, problem.truth)
    told = json.loads(tell(capsys, "solve", grid, "--json")[1])
    assert told["value"] == solution.value
    assert told["multipliers"] == solution.multipliers.tolist()
    assert told["status"] == "CONVERGED"


@pytest.mark.parametrize("solver", ["column-generation", "occupancy-lp"])
def test_exact_solvers_agree_on_the_value(solver, grid, capsys):
    told = json.loads(tell(capsys, "solve", grid, "--solver", solver, "--json")[1])
    problem = tacit.runs.Problem.load(grid)
    # Both certify a relative gap of at most 1e-7.
    assert told["value"] == pytest.approx(tacit.solve(problem.mdp, problem.truth).value, rel=1e-6)


def test_a_noisy_expert_is_solved_at_its_temperature(grid, capsys):
    words = ["solve", grid, "--solver", "soft-dual", "--temperature", 0.01, "--json"]
    assert json.loads(tell(capsys, *words)[1])["temperature"] == 0.01


def test_the_price_curve_is_concave_and_written(grid, tmp_path, capsys):
    out = tmp_path / "solved"
    words = ["solve", grid, "--price-curve", 5, "--out", out, "--json"]
    curve = json.loads(tell(capsys, *words)[1])["price_curve"]
    slopes = np.diff(curve["values"]) / np.diff(curve["budgets"])
    assert (np.diff(slopes) <= 1e-9).all()  # concave up to rounding
    assert sorted(path.name for path in out.iterdir()) == [
        "policy.csv",
        "price_curve.csv",
        "solution.npz",
    ]
    assert read_arrays(out / "solution.npz")["policy"].shape == (25, 4)
    lines = (out / "policy.csv").read_text().splitlines()
    assert lines[0] == "state,up,down,left,right"
    assert len(lines) == 26


def test_an_infeasible_budget_is_proven_in_words_and_code_3(grid, tmp_path, capsys):
    problem = tacit.runs.Problem.load(grid)
    strict = tacit.Objective(problem.truth.reward, problem.truth.costs, [0.01])
    tacit.runs.Problem(problem.mdp, problem.features, truth=strict).save(tmp_path / "p")
    code, out, shown = tell(capsys, "solve", tmp_path / "p", "--out", tmp_path / "solved")
    assert (code, out) == (3, "")
    assert "even the one that spends least of cost 0 spends" in shown
    assert "its budget is 0.01" in shown
    assert shown.count("\n") == 1
    assert not (tmp_path / "solved").exists()


@pytest.mark.parametrize(
    ("words", "piece"),
    [
        ([], "must hold the truth to solve"),
        (["--price-curve", 1], "--price-curve must be 0, or at least 2"),
        (["--temperature", 1], "--temperature is an option of soft-dual"),
    ],
)
def test_solve_refuses_what_it_cannot_do(words, piece, tmp_path, capsys):
    code, _, shown = tell(capsys, "solve", folder(tmp_path / "p"), *words)
    assert code == 2
    assert piece in shown


# --- compare -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(grid, tmp_path_factory):
    """Two recoveries of the grid."""
    problem = tacit.runs.Problem.load(grid)
    place = tmp_path_factory.mktemp("runs")
    for name, estimator in (("sets", tacit.Explanation()), ("points", tacit.Convex(ridge=1e-6))):
        found = tacit.recover(
            problem.mdp, problem.features, problem.demonstrations, estimator=estimator, throw=False
        )
        found.save(place / name)
    return place


def test_a_run_agrees_with_itself(runs, capsys):
    code, out, _ = tell(capsys, "compare", runs / "sets", runs / "sets", "--json")
    told = json.loads(out)
    assert code == 0
    assert told["policy_distance"] == told["visitation_distance"] == 0
    assert told["differ"] == []


def test_two_runs_stand_side_by_side(runs, capsys):
    code, out, _ = tell(capsys, "compare", runs / "sets", runs / "points")
    assert code == 0
    for piece in ("reward: row", "cost 0: hill by column", "price 0", "policy distance"):
        assert piece in out
    told = json.loads(tell(capsys, "compare", runs / "sets", runs / "points", "--json")[1])
    first = tacit.Recovery.load(runs / "sets").standardised
    assert told["numbers"]["sets"]["reward: row"][0] == first.reward_weights[0]
    ends = first.identification.reward_intervals[0].tolist()
    assert told["numbers"]["sets"]["reward: row"][1:] == ends
    raw = json.loads(
        tell(capsys, "compare", runs / "sets", runs / "points", "--json", "--raw-units")[1]
    )
    assert (
        raw["numbers"]["sets"]["reward: row"][0]
        == (tacit.Recovery.load(runs / "sets").reward_weights[0])
    )
    assert 0 < told["visitation_distance"] <= 1
    second = tacit.Recovery.load(runs / "points")
    visits = (first.solution.visitation + second.solution.visitation).sum(axis=1)
    apart = 0.5 * np.abs(first.solution.policy - second.solution.policy).sum(axis=1)
    expected = visits @ apart / visits.sum()
    assert told["policy_distance"] == pytest.approx(expected, rel=1e-12)  # the same sum


def test_runs_are_compared_by_names_not_by_places(tmp_path, capsys):
    ways = ROOMS["transitions.csv"].splitlines(keepends=True)
    other = ways[0] + "".join(sorted(ways[1:], key=lambda line: "wait" not in line))
    places = {
        "first": folder(tmp_path / "first"),
        "second": folder(tmp_path / "second", transitions__csv=other),
        "third": folder(
            tmp_path / "third",
            transitions__csv=other.replace("wait", "rest"),
            demonstrations__csv=ROOMS["demonstrations.csv"].replace("wait", "rest"),
        ),
    }
    for name, place in places.items():
        out = tmp_path / f"{name}-run"
        words = ("--estimator", "likelihood", "--no-report")
        assert tell(capsys, "recover", place, "--out", out, *words)[0] == 0
    policies = [
        tacit.Recovery.load(tmp_path / f"{n}-run").solution.policy for n in ("first", "second")
    ]
    assert np.abs(policies[0] - policies[1]).max() > 0.01  # the order of the actions is another
    out = tell(capsys, "compare", tmp_path / "first-run", tmp_path / "second-run", "--json")[1]
    # Two searches for the same optimum, each to 1e-9.
    assert json.loads(out)["policy_distance"] < 1e-6
    code, _, shown = tell(capsys, "compare", tmp_path / "first-run", tmp_path / "third-run")
    assert code == 2
    assert "action 'wait' is in the first only" in shown


def test_costs_in_other_units_are_not_judged(runs, tmp_path, capsys):
    found = tacit.Recovery.load(runs / "sets")
    far = found.identification.multiplier_intervals + 100.0
    ends = [found.cost_weights[0][:, None] + [0.0, 0.0]]
    known = dataclasses.replace(found.identification, cost_intervals=ends, multiplier_intervals=far)
    barred = [np.column_stack([ends[0][:, 0], np.full(len(ends[0]), np.inf)])]
    for name, its in (("weighed", ends), ("barred", barred)):
        changed = dataclasses.replace(known, cost_intervals=its)
        dataclasses.replace(found, identification=changed).save(tmp_path / name)
        words = ("compare", runs / "sets", tmp_path / name, "--json", "--raw-units")
        told = json.loads(tell(capsys, *words)[1])
        assert ("price 0" in told["differ"]) == (name == "weighed")
    out = tell(capsys, "compare", runs / "sets", tmp_path / "barred", "--raw-units")[1]
    assert "is forbidden in one of them only" in out


def test_a_run_stands_against_the_truth(runs, grid, capsys):
    code, out, _ = tell(capsys, "compare", runs / "sets", grid, "--json", "--raw-units")
    told = json.loads(out)
    assert code == 0
    scaled = json.loads(tell(capsys, "compare", runs / "sets", grid, "--json")[1])
    shown = {"numbers": [], "differ": []}
    assert {**scaled, **shown} == {**told, **shown}  # judged alike
    world = tacit.worlds.hill_grid(seed=0, tightness=0.5).in_gauge
    true = {name: one[0] for name, one in told["numbers"][f"truth of {grid}"].items()}
    # Least squares on 25 states: exact up to rounding.
    assert true["reward: column"] == pytest.approx(world.reward_weights[1], abs=1e-9)
    assert true["cost 0: border by row"] == pytest.approx(world.cost_weights[0][2], abs=1e-9)
    assert true["budget 0"] == pytest.approx(world.truth.budgets[0], rel=1e-9)
    assert told["regret"] is not None


def test_runs_of_other_worlds_are_refused(runs, tmp_path, capsys):
    assert tell(capsys, "simulate", "random", "--out", tmp_path / "p", "--steps", 5)[0] == 0
    code, _, shown = tell(capsys, "compare", runs / "sets", tmp_path / "p")
    assert code == 2
    assert "must be a run of" in shown
    assert tell(capsys, "compare", tmp_path / "nowhere", runs / "sets")[0] == 4
    code, _, shown = tell(capsys, "compare", folder(tmp_path / "rooms"), runs / "sets")
    assert (code, "a problem, not a run; tacit recover makes one" in shown) == (4, True)
    code, _, shown = tell(capsys, "recover", runs / "sets", "--out", tmp_path / "run")
    assert (code, "a run, not a problem" in shown) == (4, True)


# --- faults, as the command line tells them ------------------------------------------------------

# name: (file, what to replace, by what, pieces of the line, exit code)
FAULTS = {
    "discount 1": (
        "problem.toml",
        "0.9",
        "1",
        ["problem.toml", "discount", "needs an end", "'hall'"],
        2,
    ),
    "unknown key": ("problem.toml", "initial", "intial", ["'intial'", "'initial'?"], 2),
    "NaN": ("features.csv", "0.5", "NaN", ["features.csv, line 3", "sun", "'NaN'"], 2),
    "infinity": ("features.csv", "0.5", "-inf", ["features.csv, line 3", "sun", "'-inf'"], 2),
    "row sum": ("transitions.csv", "0.75", "0.7", ["'hall'", "'go on'", "0.95"], 2),
    "state": ("demonstrations.csv", "1,0,hall", "1,0,hal", ["demonstrations.csv", "'hal'"], 2),
    "number": ("demonstrations.csv", "1,0,hall", "1,0,7", ["demonstrations.csv", "7"], 2),
    "negative": ("demonstrations.csv", "1,0,hall", "1,0,-1", ["demonstrations.csv", "-1"], 2),
    "float": ("demonstrations.csv", "1,0,hall", "1,0,0.5", ["demonstrations.csv", "0.5"], 2),
    "gap": ("demonstrations.csv", "1,1,hall", "1,2,hall", ["demonstrations.csv", "step"], 2),
    "column": ("demonstrations.csv", "action\n", "acton\n", ["demonstrations.csv", "'action'"], 2),
    "empty": ("demonstrations.csv", ROOMS["demonstrations.csv"], "", ["demonstrations.csv"], 2),
}


def everything(place) -> dict[str, bytes]:
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("verb", ["check", "solve", "recover"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_a_code_and_nothing_written(fault, verb, tmp_path, capsys):
    file, old, new, pieces, expected = FAULTS[fault]
    changed(tmp_path / "p", file, old, new)
    before = everything(tmp_path)
    words = [verb, tmp_path / "p"] + ([] if verb == "check" else ["--out", tmp_path / "new"])
    code, out, shown = tell(capsys, *words)
    assert code == expected
    assert out == ""
    assert shown.startswith("tacit: ")
    assert shown.count("\n") == 1
    for piece in pieces:
        assert piece in shown
    assert "Traceback" not in shown
    assert everything(tmp_path) == before
    assert "Traceback" in tell(capsys, *words, "--debug")[2] or verb == "check"


@pytest.mark.parametrize(
    ("content", "piece"),
    [
        (b"", "problem.npz"),
        (b"\x80\x04\x95\x05\x00\x00\x00\x00", "pickle"),
        (b"plain text", "problem.npz"),
        ("truncated", "problem.npz"),
        ("flipped", "problem.npz"),
    ],
)
def test_a_damaged_archive_cannot_be_read(content, piece, grid, tmp_path, capsys):
    tacit.runs.Problem.load(grid).save(tmp_path / "p")
    path = tmp_path / "p" / "problem.npz"
    good = path.read_bytes()
    if content == "truncated":
        content = good[: len(good) // 2]
    elif content == "flipped":
        content = bytearray(good)
        content[len(good) // 2] ^= 1
    path.write_bytes(content)
    code, out, shown = tell(capsys, "check", tmp_path / "p")
    assert (code, out) == (4, "")
    assert shown.count("\n") == 1
    assert piece in shown


def test_paths_that_are_not_what_they_should_be(grid, tmp_path, capsys):
    assert tell(capsys, "check", tmp_path / "nowhere")[0] == 4
    (tmp_path / "file").write_text("")
    code, _, shown = tell(capsys, "check", tmp_path / "file")
    assert code == 4
    assert "must be a folder" in shown
    place = folder(tmp_path / "p", features__csv=None)
    (place / "features.csv").mkdir()
    code, _, shown = tell(capsys, "check", place)
    assert code == 4
    assert "features.csv" in shown
    code, _, shown = tell(capsys, "simulate", "random", "--out", grid)
    assert code == 4
    assert "not empty" in shown
    assert tell(capsys, "simulate", "random", "--out", tmp_path / "file")[0] == 4
    assert tell(capsys, "simulate", "random", "--out", tmp_path / "file" / "inside")[0] == 4


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_a_folder_that_may_not_be_written_is_code_4(tmp_path):
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked").chmod(0o555)
    # Root may write anywhere: become nobody in a process of its own, once everything is imported.
    code = """if True:
        import os, sys
        from tacit import cli
        words = "simulate random --states 3 --steps 3 --quiet --out".split()
        assert cli.main([*words, sys.argv[1] + "/open"]) == 0
        os.chdir(sys.argv[1])
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        sys.exit(cli.main([*words, "locked/p"]))
    """
    tmp_path.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    (tmp_path / "locked").chmod(0o755)
    assert done.returncode == 4, done.stderr
    assert "Permission denied" in done.stderr
    assert list((tmp_path / "locked").iterdir()) == []


FULL = """
import resource, signal, sys
from tacit import cli
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.skipif(os.name != "posix", reason="limits are those of POSIX")
def test_a_full_disk_is_code_4_and_leaves_nothing(tmp_path):
    words = ["simulate", "hill-grid", "--out", tmp_path / "p"]
    done = subprocess.run(
        [sys.executable, "-c", FULL, *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 4, done.stderr
    assert done.stderr.count("\n") == 1
    assert str(tmp_path / "p") in done.stderr
    assert ".part" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def bare(*words, **environment) -> subprocess.CompletedProcess[bytes]:
    """A command without home, terminal or locale."""
    given = {"PATH": os.environ["PATH"], "LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0"}
    return subprocess.run(
        [sys.executable, "-m", "tacit", *map(str, words)],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env=given | environment,
        check=False,
    )


def test_no_home_no_terminal_and_no_locale_are_enough(tmp_path):
    place = folder(tmp_path / "räume mit leerzeichen")
    ascii_only = {"PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0"}
    done = bare("check", place, **ascii_only)
    assert done.returncode == 0, done.stderr
    assert b"\x1b" not in done.stdout
    assert b"ok: the problem can be used" in done.stdout
    assert done.stderr == b""
    (place / "features.csv").write_text("state,sun\nKüche,heiß\n", encoding="utf-8")
    done = bare("check", place, **ascii_only)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") >= 1
    assert b"Traceback" not in done.stderr


STREETS = {
    "problem.toml": """
discount = 1
initial = "home"
[features]
reward = ["length"]
costs = [["toll"]]
[truth]
reward = [-1.0]
costs = [[1.0]]
budgets = [0.6]
""",
    "features.csv": "state,length,toll\nhome,1,0\nbridge,1,1\nford,3,0\nlane,2,0\nwork,0,0\n",
    "transitions.csv": """state,action,next_state,probability
home,left,bridge,1
home,right,ford,1
home,straight,lane,1
bridge,straight,work,1
ford,straight,work,1
ford,left,lane,1
lane,straight,work,1
lane,left,bridge,1
""",
}


@pytest.mark.parametrize("solver", ["column-generation", "occupancy-lp", "soft-dual"])
def test_streets_that_end_are_solved_without_a_discount(solver, tmp_path, capsys):
    (tmp_path / "p").mkdir()
    for name, text in STREETS.items():
        (tmp_path / "p" / name).write_text(text)
    noise = ["--temperature", 0.01] if solver == "soft-dual" else []
    words = ["solve", tmp_path / "p", "--solver", solver, *noise, "--out", tmp_path / "s"]
    code, out, _ = tell(capsys, *words, "--json")
    found = json.loads(out)
    assert (code, found["status"]) == (0, "CONVERGED")
    # Six in ten by the bridge, 2 long, and four by the lane, 3 long: a toll saves 1.
    assert found["value"] == pytest.approx(-2.4, abs=1e-3)
    assert found["spent"] == [pytest.approx(0.6, abs=1e-6)]
    assert found["multipliers"] == [pytest.approx(1.0, abs=0.05)]
    policy = read_arrays(tmp_path / "s" / "solution.npz")["policy"]
    assert (policy[4] == 0).all()
    assert policy[1].tolist() == [0, 0, 1]


def test_check_and_recover_say_what_is_not_available(tmp_path, capsys):
    (tmp_path / "p").mkdir()
    for name, text in STREETS.items():
        (tmp_path / "p" / name).write_text(text)
    known = tacit.runs.Problem.load(tmp_path / "p")
    soft = tacit.solve(known.mdp, known.truth, solver=tacit.SoftDual(temperature=1.0))
    seen = tacit.simulate(known.mdp, soft.policy, trajectories=40, steps=20)
    assert seen.ended.all()
    told = tacit.runs.Problem(known.mdp, known.features, seen, layout=known.layout)
    save_text(told, tmp_path / "seen")
    code, out, _ = tell(capsys, "check", tmp_path / "seen", "--json")
    told = json.loads(out)
    assert (code, told["summary"]["ends"], told["summary"]["discount"]) == (0, 1, 1.0)
    assert told["summary"]["states visited"] == len(set(seen.states)) + 1  # and the end
    assert tacit.show.summary.data_summary(known.mdp, seen)["states_visited"] == len(
        {*seen.states.tolist(), *seen.final_states.tolist()}
    )
    kinds = [(one["kind"], one["about"].get("number")) for one in told["findings"]]
    assert kinds[:2] == [("ASSUMED", 4), ("ASSUMED", 1)]
    assert "left in bridge" in told["notes"][0]
    assert "work" in told["notes"][1]
    words = ["recover", tmp_path / "seen", "--out", tmp_path / "run", "--no-report", "--json"]
    code, out, _ = tell(capsys, *words)
    told = json.loads(out)
    assert code == 0
    assert "4 of 12 pairs" in told["notes"][-2]
    assert ("ASSUMED", 4) in [(f["kind"], f["about"].get("number")) for f in told["findings"]]
    cut = tacit.Demonstrations.from_trajectories([([0], [0]), ([0, 1, 4], [0, 2])])
    tacit.runs.Problem(known.mdp, known.features, cut, truth=None, layout=known.layout).save(
        tmp_path / "cut"
    )
    _, out, _ = tell(capsys, "check", tmp_path / "cut", "--json")
    assert any("1 of 2 trajectories do not reach an end" in w for w in json.loads(out)["warnings"])
