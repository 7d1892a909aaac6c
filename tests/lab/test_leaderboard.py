"""Methods side by side: judged by the truth alone, resumable, own worlds and methods welcome."""

import contextlib
import json
import re
import shutil
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import tacit
from browser import browser
from tacit.cli import main
from tacit_lab import worlds
from tacit_lab.studies import Board
from tacit_lab.studies.contests import (
    OPTIMUM,
    PLACES,
    RANDOM,
    known_methods,
    played,
    resolved,
    told_more,
)
from tacit_lab.studies.leaderboard import compare_methods, document, ranks
from tacit_lab.transfers import Scales, changes, feasible_share, transfer_suite

ROOT = Path(__file__).resolve().parents[2]
MINE = """
import tacit
from tacit_lab.studies.contests import Place, PLACES

def likely(contest):
    return tacit.RewardOnly()

place = Place("the same grid", PLACES["hill-grid"].make)
"""


@pytest.fixture(scope="module")
def contest():
    return PLACES["hill-grid"].make(0)


def test_the_optimum_has_no_regret_and_random_actions_much(contest):
    rows = {row["method"]: row["metrics"] for row in played(contest, {})}
    for name, value in rows[OPTIMUM].items():
        if name.endswith(("regret", "violation")):
            assert value == pytest.approx(0.0, abs=1e-6), name
    assert rows[OPTIMUM]["share_safe"] == 1.0
    assert rows[RANDOM]["regret"] > 0.3
    assert rows[RANDOM]["log_likelihood"] == pytest.approx(-np.log(4))


def test_a_method_that_ignores_the_constraint_is_seen_to(contest):
    rows = {r["method"]: r["metrics"] for r in played(contest, known_of("RewardOnly", "Convex"))}
    assert rows["RewardOnly"]["same_violation"] > 0.5 > rows["Convex"]["same_violation"]


def test_a_method_that_must_be_told_more_says_so(contest):
    from dataclasses import replace

    row = played(replace(contest, known={}), known_of("LikeliestConstraints"))[0]
    assert row["metrics"] == {}
    assert "must be told reward_weights" in row["status"]
    assert row["told"] == ""


def test_a_method_is_told_only_what_the_world_says(contest):
    """Nobody knows the noise of what was recorded: no column may say that a method was told it."""
    from dataclasses import replace

    assert "temperature" in contest.known
    recorded = replace(contest, known={"free_reward": False})
    for one, said in ((contest, "noise"), (recorded, "")):
        rows = {row["method"]: row["told"] for row in played(one, known_of("Convex"))}
        assert rows == {"Convex": said, RANDOM: "", OPTIMUM: ""}
    known = contest.known
    assert told_more("ConstraintOnly", known) == "reward, noise"
    assert told_more("ConstraintOnly", {n: known[n] for n in known if "temp" not in n}) == "reward"


def test_each_change_changes_one_thing(contest):
    mdp, truth = contest.mdp, contest.truth
    found = changes(mdp, truth, truth)
    assert list(found) == ["same", "dynamics", "start", "budget", "reward"]
    for name, (world, wanted, asked) in found.items():
        same = (
            np.array_equal(world.dense(), mdp.dense()),
            np.array_equal(world.initial, mdp.initial),
        )
        assert same == (name != "dynamics", name != "start")
        assert np.array_equal(wanted.budgets, truth.budgets) == (name != "budget")
        assert np.array_equal(wanted.reward, truth.reward) == (name != "reward")
        assert np.array_equal(wanted.costs, asked.costs)
        assert np.allclose(world.dense().sum(axis=2), 1.0)


def test_what_was_forbidden_stays_forbidden_where_things_change():
    world = worlds.walls(1)
    shut = world.truth.costs[0] > 0
    into = world.mdp.expected_next(shut.astype(float)) > 0
    suite = transfer_suite(world.mdp, world.truth, world.truth)
    assert suite.share_safe == 1.0
    free = tacit.Objective(world.truth.reward, np.zeros((0, 49)), [])
    blind = transfer_suite(world.mdp, world.truth, free)
    assert blind.violations[0] == pytest.approx(1.0)
    assert into.any()


def test_a_run_goes_on_and_takes_methods_of_ones_own(tmp_path, monkeypatch, capsys):
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    out = tmp_path / "board"
    asked = ["--worlds", f"{file}:place", "--methods", "Cloning", f"{file}:likely"]
    words = ["leaderboard", *asked, "--seeds", "1", "--jobs", "1", "--out", str(out)]
    assert main(["--quiet", *words]) == 0
    results = json.loads((out / "results.json").read_text())
    [world] = results["worlds"]
    assert world["title"] == "the same grid"
    named = [row["method"] for row in world["methods"]]
    assert named == ["Cloning", f"{file}:likely", RANDOM, OPTIMUM]
    page = (out / "leaderboard.html").read_text()
    assert all(one.rpartition("/")[2] in page for one in named)
    if shutil.which("chromium"):
        with browser() as opened:
            shown = opened.open((out / "leaderboard.html").as_uri(), width=390)
            assert shown.evaluate("document.documentElement.scrollWidth") <= 390
            assert shown.faults() == []
    # Nothing is done twice.
    monkeypatch.setattr("tacit_lab.studies.leaderboard.perform", None)
    board = Board(
        worlds=(f"{file}:place",), methods=("Cloning", f"{file}:likely"), seeds=1, jobs=1, out=out
    )
    compare_methods(board)
    assert json.loads((out / "results.json").read_text()) == results
    assert main(["leaderboard", "--methods", "Lykelihood", "--out", str(tmp_path / "x")]) == 2
    assert "did you mean 'Likelihood'" in capsys.readouterr().err
    assert main(["leaderboard", "--worlds", "wall-1", "--out", str(tmp_path / "x")]) == 2
    assert "did you mean 'walls-1'" in capsys.readouterr().err


def test_what_is_not_a_world_or_method_of_ones_own_is_one_line(contest, tmp_path):
    file = tmp_path / "odd.py"
    file.write_text("def make(seed):\n    return None\n\nnumber = 3\n")
    for word, what, said in (
        ("make", "world", "a `Place`, whose `make` gives a contest; got function"),
        ("number", "method", "must be a function of a contest; got int"),
        ("other", "method", "must hold the method 'other'"),
    ):
        with pytest.raises(tacit.InvalidModel, match=re.escape(said)):
            resolved(f"{file}:{word}", {}, what)
    # A method that breaks, or gives no estimator, is a row that says so; the others go on.
    own = {"broken": lambda _: 1 / 0, "empty": lambda _: None, **known_of("Cloning")}
    rows = {row["method"]: row for row in played(contest, own)}
    assert rows["broken"]["status"] == "ZeroDivisionError: division by zero"
    assert "must give an estimator; got NoneType" in rows["empty"]["status"]
    assert rows["broken"]["metrics"] == rows["empty"]["metrics"] == {}
    assert rows["Cloning"]["metrics"]
    # One of tacit's own that breaks is a bug, and no row.
    with pytest.raises(ZeroDivisionError):
        played(contest, {"Cloning": own["broken"]})


def test_a_world_whose_data_are_not_there_is_a_row_that_says_so(tmp_path, monkeypatch):
    monkeypatch.delenv("TACIT_DATA", raising=False)
    board = Board(worlds=("objectworld",), methods=("Cloning",), seeds=1, jobs=1, out=tmp_path)
    page = compare_methods(board).read_text()
    assert "Not run: the recordings of objectworld are no part of tacit" in page


GROVE = """
import tacit
from tacit_lab.studies.contests import Place, noisy_contest

def make(seed):
    world = tacit.worlds.hill_grid(seed, size=3, tightness=0.5).in_gauge
    return noisy_contest(world, 0.01, (20, 30), seed)

grove = Place("A small grid from elsewhere", make)
hollow = Place("Gives nothing", lambda seed: None)
fallen = Place("Breaks", lambda seed: 1 / seed)

def copied(contest):
    return tacit.Cloning()
"""


def installed(folder, points):
    """A package as an installer leaves it, with these lines of entry points."""
    info = folder / "grove-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "grove.py").write_text(GROVE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: grove\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(points) + "\n")


def test_worlds_and_methods_of_another_package_are_found_by_its_entry_points(
    tmp_path, monkeypatch, capsys
):
    with contextlib.suppress(ImportError):  # once imported, it answers for the standard library
        import_module("importlib_metadata")
    points = ["[tacit.worlds]", "grove = grove:grove", "hollow = grove:hollow"]
    points += ["fallen = grove:fallen", "lost = nowhere:lost", "odd = grove:copied"]
    installed(tmp_path / "site", [*points, "[tacit.methods]", "copied = grove:copied"])
    monkeypatch.syspath_prepend(tmp_path / "site")
    words = ["--quiet", "leaderboard", "--seeds", "1", "--jobs", "1", "--out"]

    def run(name, *more):
        return main([*words, str(tmp_path / name), "--worlds", *more])

    assert run("board", "grove", "hollow", "fallen", "--methods", "copied", "Cloning") == 0
    held = json.loads((tmp_path / "board" / "results.json").read_text())["worlds"]
    found = {world["name"]: world for world in held}
    assert found["grove"]["title"] == "A small grid from elsewhere"
    own, ours, *_ = found["grove"]["methods"]
    assert (own["method"], ours["method"]) == ("copied", "Cloning")
    assert own["metrics"]["regret"] == ours["metrics"]["regret"]
    # What is not tacit's and breaks is a row that says so.
    assert "must give a contest; got NoneType" in found["hollow"]["absent"]
    assert "breaks at seed 0: ZeroDivisionError" in found["fallen"]["absent"]
    # A package that cannot be loaded is in nobody's way who does not ask for it.
    for name, said in (
        ("lost", "the world lost cannot be loaded: ModuleNotFoundError"),
        ("odd", "odd must be a `Place`, whose `make` gives a contest; got function"),
        ("groves", "did you mean 'grove'"),
    ):
        assert run("x", name) == 2
        assert said in capsys.readouterr().err
    installed(tmp_path / "twice", ["[tacit.worlds]", "walls-1 = grove:grove"])
    monkeypatch.syspath_prepend(tmp_path / "twice")
    assert run("x", "buses") == 2
    assert "must have a name of its own; 'walls-1' is one of tacit's" in capsys.readouterr().err


def known_of(*names):
    known = known_methods()
    return {name: known[name] for name in names}


def test_the_grid_of_hard_constraints_counts_what_is_found_and_what_is_wrong():
    contest = PLACES["nine-by-nine"].make(0)
    assert len(contest.forbidden) == 9
    told = {r["method"]: r["metrics"] for r in played(contest, known_of("Cloning"))}
    assert told["Cloning"]["recall"] == 0.0
    # Nothing is discounted there: regret is on the scale of random actions, which lose all of it.
    assert told[RANDOM]["regret"] == pytest.approx(1.0, abs=0.05)
    assert abs(told[OPTIMUM]["regret"]) < 1e-6


def test_walls_count_what_can_be_told_and_trips_that_arrive():
    contest = PLACES["walls-2"].make(0)
    # The middle one is shut in by the others, six have a neighbour that leads the same way.
    assert contest.decidable == {"state 18", "state 30"}
    told = {r["method"]: r["metrics"] for r in played(contest, known_of("Forbidden", "Cloning"))}
    found = told["Forbidden"]
    assert (found["wrong"], found["recall_decidable"]) == (0.0, 1.0)
    # The two that can be told are named; the others stand in pairs of which one is forbidden.
    assert found["recall"] == pytest.approx(2 / 9)
    assert found["feasible"] == pytest.approx(1.0)
    assert found["same_violation"] == 0.0
    assert told["Cloning"]["recall_decidable"] == 0.0


def test_a_share_of_trips_is_feasible_by_hand():
    # A pit to the left, a goal to the right, a step that does nothing: 1/2 never pay.
    table = np.zeros((3, 3, 3))
    table[0, 0, 1] = table[0, 1, 2] = table[0, 2, 0] = 1.0
    mdp = tacit.MDP(table, [1.0, 0, 0], 0.9, available=table.any(axis=2))
    truth = tacit.Objective([0.0, 0, 1], [[0.0, 1, 0]], [0.0])
    policy = np.array([[0.25, 0.25, 0.5], [0, 0, 0], [0, 0, 0]])
    assert feasible_share(mdp, truth, policy) == pytest.approx(0.5)
    paid = tacit.Objective([0.0, 0, 1], [[[0, 0, 1.0], [0, 0, 0], [0, 0, 0]]], [0.0])
    assert feasible_share(mdp, paid, policy) == pytest.approx(0.5)
    assert feasible_share(mdp, paid, np.eye(3)[[2, 0, 0]]) == 0.0


def test_prices_are_compared_in_units_of_the_noise():
    from dataclasses import replace

    contest = PLACES["six-by-six"].make(0)
    np.testing.assert_allclose(contest.prices, [31.114, 5.033], atol=5e-4)
    rows = {r["method"]: r["metrics"] for r in played(contest, known_of("ConstraintOnly"))}
    found = tacit.ConstraintOnly(contest.known["reward_weights"], 1.0).fit(
        contest.mdp, contest.features, contest.seen
    )
    own = np.abs(found.multipliers / found.temperature / contest.prices - 1).max()
    assert rows["ConstraintOnly"]["price_error"] == pytest.approx(own, rel=1e-6)
    assert own < 0.25  # three standard errors of a price
    (row, *_) = played(replace(contest, prices=None), known_of("ConstraintOnly"))
    assert "price_error" not in row["metrics"]


def test_ranks_and_their_critical_difference():
    def row(name, *values):
        return {"method": name, "metrics": {"violation": {"values": list(values)}}}

    first = [row("a", 0.0, 1.0), row("b", 0.5, 2.0), row("c", 0.5, 0.5), row(RANDOM, 9.0, 9.0)]
    second = [row("a", 0.1, 0.1), row("b", 0.2, 0.2), row("c", 0.3, 0.3), row("d", 0.0, 0.0)]
    third = [row("a", 0.1, 0.1), row("b", 0.2)]  # one draw of b failed: this world does not count
    worlds = [{"methods": rows, "draws": 2} for rows in (first, second, third)]
    found, apart = ranks({"worlds": worlds}, "violation")
    assert found == {
        "a": [1.0, 2.0, 1.0, 1.0],
        "b": [2.5, 3.0, 2.0, 2.0],
        "c": [2.5, 1.0, 3.0, 3.0],
    }
    assert apart == pytest.approx(2.343 * np.sqrt(3 * 4 / (6 * 4)), abs=2e-3)  # Demsar, table 5
    assert ranks({"worlds": worlds[:1]}, "regret")[0] == {}


def test_a_slack_budget_is_a_unit_of_violations():
    world = worlds.six_by_six(2)
    unit = Scales.of(world.mdp, world.truth).beyond
    # Of seed 2 the best for the reward alone hardly breaks a budget.
    np.testing.assert_allclose(unit.min(), 0.1 * 0.02)


def test_a_method_that_must_know_a_budget_is_told_it(contest):
    (row, *_) = played(contest, known_of("SoftConstraint"))
    assert row["metrics"]["violation"] < 0.01


def test_the_table_says_in_how_many_of_the_draws_misfit_was_said():
    kept = json.loads((ROOT / "benchmarks/results/leaderboard.json").read_text(encoding="utf-8"))
    world = next(one for one in kept["worlds"] if one["name"] == "hill-grid")
    likelihood = next(one for one in world["methods"] if one["method"] == "Likelihood")
    assert (likelihood["misfits"], world["draws"]) == (1, 3)
    (section,) = document(kept | {"worlds": [world]}).sections[-1:]
    table = section.blocks[0]
    row = next(row for row in table.rows if row.cells[0] == "Likelihood")
    assert row.cells[-1].endswith("1 of 3")


def test_methods_are_compared_on_ones_own_demonstrations(tmp_path):
    world = tacit.worlds.hill_grid(seed=1, size=3, tightness=0.5)
    expert = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(temperature=0.05))
    seen = tacit.simulate(world.mdp, expert.policy, trajectories=40, steps=30, seed=0)
    folder = tmp_path / "own"
    tacit.runs.Problem(world.mdp, world.features, seen).save(folder)
    board = Board(
        worlds=(str(folder),),
        methods=("Likelihood", "Cloning"),
        seeds=1,
        jobs=1,
        out=tmp_path / "b",
    )
    compare_methods(board)
    (found,) = json.loads((tmp_path / "b" / "results.json").read_text())["worlds"]
    assert "Nobody knows the truth" in found["said"]
    means = {row["method"]: row["metrics"]["log_likelihood"]["mean"] for row in found["methods"]}
    assert [*means] == ["Likelihood", "Cloning", "Random actions"]
    assert means["Likelihood"] > means["Random actions"]
    assert "regret" not in found["methods"][0]["metrics"]
