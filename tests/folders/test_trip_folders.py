"""Problem folders of trips: `goal = "last"`, from the files to the report."""

import dataclasses
import json
import re
import shutil

import numpy as np
import pytest

import tacit
from tacit import Demonstrations, InvalidDemonstrations, InvalidModel
from tacit.cli import main
from tacit.folders.problem import Problem
from tacit.folders.runs import Run
from tacit.model.layout import Layout
from text_form import save_text
from travellers import GOALS, TRUTH, lengths, streets, travelled


@pytest.fixture(scope="module")
def problem() -> Problem:
    town = streets()
    features = lengths(town)
    seen = travelled(town, features.reward @ TRUTH, 150, GOALS)
    network = tacit.MDP(town.transitions, town.initial, 0.0, available=town.available)
    names = tuple(f"place {s}" for s in range(16))
    layout = Layout(4, 4, state_names=names, action_names=("west", "east", "north", "south"))
    return Problem(network, features, seen, layout=layout, goal="last", discount=1.0)


@pytest.mark.parametrize("text", [True, False])
def test_a_folder_of_trips_comes_back(problem, tmp_path, text):
    save_text(problem, tmp_path / "trips") if text else problem.save(tmp_path / "trips")
    again = Problem.load(tmp_path / "trips")
    assert (again.goal, again.discount, again.unended) == ("last", 1.0, "refuse")
    np.testing.assert_array_equal(again.trips.goals, problem.trips.goals)
    np.testing.assert_array_equal(again.mdp.available, problem.mdp.available)
    np.testing.assert_allclose(again.features.reward, problem.features.reward)


def test_check_recover_and_report(problem, tmp_path, capsys):
    folder, run = tmp_path / "trips", tmp_path / "run"
    save_text(problem, folder)
    assert main(["check", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["summary"]["goals"] == len(GOALS)
    assert told["summary"]["discount"] == 1.0
    assert "likelihood" in told["choice"]
    assert not told["warnings"]
    assert main(["recover", str(folder), "--out", str(run), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    ours = tacit.recover(problem.trips)
    np.testing.assert_allclose(told["parameters"]["estimates"], ours.parameters.estimates)
    assert told["goodness"]["adequate"]
    held = Run.load(run)
    assert held.data["goals"] == len(GOALS)
    assert type(tacit.Recovery.load(run)) is type(ours)
    np.testing.assert_allclose(held.recovery.flows, ours.flows)
    np.testing.assert_allclose(held.recovery.solve(3).policy, ours.solve(3).policy, atol=1e-9)
    worst = held.trajectories
    goal = [f"place {g}" for g in problem.trips.goals[worst["episode"]]]
    assert list(worst["goal"]) == goal
    assert (np.diff(worst["z_score"]) >= 0).all()
    page = (run / "report.html").read_text()
    for words in ("Goals and flows", "place 12", "Coefficients of the model", "It wants less of"):
        assert words in page
    # Scored, its own trips are as likely as they were; others as their policies say.
    assert main(["score", str(run), str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["log_likelihood"] == pytest.approx(ours.log_likelihood, rel=1e-9)
    assert told["null_log_likelihood"] == pytest.approx(ours.null_log_likelihood, rel=1e-12)
    assert told["rho_squared"] == pytest.approx(ours.rho_squared)
    assert told["fits"]["goal"] == goal
    assert not any(one["kind"] == "MISFIT" for one in told["findings"])
    table = problem.features.reward @ TRUTH
    other = travelled(problem.mdp, table, 60, [0, 3], seed=7)  # nobody went to 0 before
    other.save(tmp_path / "other.npz")
    rows = tmp_path / "rows.csv"
    words = ["score", str(run), str(tmp_path / "other.npz"), "--out", str(rows)]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    policies = {g: ours.solve(g).policy for g in (0, 3)}
    own = other.final_states[other.episode]
    likely = [policies[g][s, a] for g, s, a in zip(own, other.states, other.actions, strict=True)]
    assert told["log_likelihood"] == pytest.approx(np.log(likely).sum(), rel=1e-6)
    best = [policies[g][s].argmax() for g, s in zip(own, other.states, strict=True)]
    assert told["hit_rate"] == pytest.approx((best == other.actions).mean())
    assert len(rows.read_text().splitlines()) == 61
    assert main(["score", str(run), str(tmp_path / "other.npz"), "--out", "x.txt"]) == 2
    # In an edited folder, here with a street closed and no trips, the same travellers flow anew.
    edited = tmp_path / "edited"
    shutil.copytree(folder, edited)
    (edited / "demonstrations.csv").unlink()
    moves = (edited / "transitions.csv").read_text().splitlines()
    kept = [line for line in moves if not line.startswith("place 5,east,")]
    assert len(kept) == len(moves) - 1
    (edited / "transitions.csv").write_text("\n".join([*kept, ""]))
    words = ["solve", str(edited), "--recovered", str(run), "--out", str(tmp_path / "flows")]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    answer = ours.counterfactual(closed=[(5, 1)], draws=0)
    np.testing.assert_allclose(told["flows"], answer.flows.estimate, rtol=1e-6, atol=1e-9)
    assert told["surplus"] == pytest.approx(float(answer.surplus.estimate), rel=1e-6)
    np.testing.assert_allclose(told["surplus_interval"], answer.surplus.interval, rtol=1e-4)
    assert (tmp_path / "flows" / "flows.csv").exists()
    lines = (edited / "features.csv").read_text().splitlines()
    fewer = [line for line in lines if ",east," not in line]  # a whole action is gone
    (edited / "features.csv").write_text("\n".join([*fewer, ""]))
    kept = [line for line in kept if ",east," not in line]
    (edited / "transitions.csv").write_text("\n".join([*kept, ""]))
    told = (edited / "problem.toml").read_text().splitlines()
    told = [line for line in told if not line.startswith("actions =")]
    (edited / "problem.toml").write_text("\n".join([*told, ""]))
    assert main(["solve", str(edited), "--recovered", str(run)]) == 2
    assert "it lacks 'east': keep all rows" in capsys.readouterr().err
    assert main(["solve", str(edited)]) == 2
    assert "recovered must name a run of trips" in capsys.readouterr().err
    # Asked again it is there already, and the same.
    assert main(["recover", str(folder), "--out", str(run), "--resume", "--quiet"]) == 0
    assert main(["report", str(run), "--quiet"]) == 0


def test_a_trip_that_is_none_is_named_with_its_line(problem, tmp_path, capsys):
    save_text(problem, tmp_path / "trips")
    path = tmp_path / "trips" / "demonstrations.csv"
    head, *rows = path.read_text().splitlines()
    columns = head.split(",")

    def written(*new: str) -> None:
        path.write_text("\n".join([head, *rows, *new, ""]))

    def row(step: int, state: str, action: str, final: str, ended: str = "true") -> str:
        cells = {"episode": "900", "step": str(step), "state": state, "action": action}
        cells |= {"ended": ended, "final_state": final}
        return ",".join(cells[name] for name in columns)

    line = len(rows) + 2
    for new, at, words in (
        # In the file the later step stands first: the line is that of the file.
        (
            [row(1, "place 1", "west", "place 1"), row(0, "place 0", "east", "place 1"),
             row(2, "place 0", "east", "place 1")],
            line, "passes its goal, place 1",
        ),
        ([row(0, "place 0", "east", "place 7")], line, "from place 0 by east to place 7"),
        ([row(0, "place 0", "east", "place 1", "false")], line, "did not end"),
    ):  # fmt: skip
        written(*new)
        with pytest.raises(InvalidDemonstrations, match=rf"line {at}: .*{words}"):
            Problem.load(tmp_path / "trips")
        assert main(["check", str(tmp_path / "trips")]) == 2
        assert re.search(rf"demonstrations\.csv, line {at}: ", capsys.readouterr().err)
    settings = tmp_path / "trips" / "problem.toml"
    settings.write_text('unended = "drop"\n' + settings.read_text())
    assert Problem.load(tmp_path / "trips").trips.goals[-1] == -2


def test_a_goal_without_a_way_from_the_start_is_named_with_its_line(tmp_path):
    folder = tmp_path / "oneway"
    folder.mkdir()
    (folder / "problem.toml").write_text(
        'discount = 1\ngoal = "last"\n[features]\nreward = ["length"]\n'
    )
    (folder / "features.csv").write_text("state,length\na,-1\nb,-1\nc,-1\nd,-1\n")
    (folder / "transitions.csv").write_text(
        "state,action,next_state,probability\na,go,b,1\nb,go,c,1\nb,stray,d,1\nd,go,d,1\n"
    )
    seen = "episode,step,state,action,final_state\n0,0,a,go,\n0,1,b,go,c\n1,0,d,go,c\n"
    (folder / "demonstrations.csv").write_text(seen)
    with pytest.raises(InvalidDemonstrations, match=r"line 4: .* goal c, and in d there is none"):
        Problem.load(folder)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('goal = "first"', "goal must be one of last"),
        ('unended = "drop"', "there is no goal"),
        ('goal = "last"\nunended = "guess"', "unended must be one of"),
    ],
)
def test_settings_of_trips_are_checked(problem, tmp_path, line, words):
    save_text(problem, tmp_path / "trips")
    path = tmp_path / "trips" / "problem.toml"
    path.write_text(line + "\n" + path.read_text().replace('goal = "last"\n', ""))
    with pytest.raises(InvalidModel, match=words):
        Problem.load(tmp_path / "trips")


def test_a_belief_about_trips_is_weighed(problem, tmp_path, capsys):
    folder, believed = tmp_path / "trips", tmp_path / "belief.toml"
    problem.save(folder)
    plain = tacit.recover(problem.trips).parameters
    name, sure = plain.names[0], 1e-4 * plain.standard_errors[0]
    believed.write_text(f'"{name}" = [{plain.estimates[0] + 1000 * sure}, {sure}]')
    asked = ["recover", str(folder), "--out", str(tmp_path / "run"), "--no-report", "--json"]
    assert main([*asked, "--belief", str(believed)]) == 0
    told = json.loads(capsys.readouterr().out)["extras"]["posterior"]
    assert told["means"][0] == pytest.approx(plain.estimates[0] + 1000 * sure, rel=1e-3)


def test_what_trips_do_not_answer_is_refused(problem, tmp_path, capsys):
    save_text(problem, tmp_path / "trips")
    words = ["recover", str(tmp_path / "trips"), "--out", str(tmp_path / "r")]
    assert main([*words, "--estimator", "convex"]) == 2
    assert "--estimator is not for trips" in capsys.readouterr().err


def test_trips_are_diagnosed_and_other_discounts_tried(problem, tmp_path, capsys):
    folder, run = tmp_path / "trips", tmp_path / "run"
    problem.save(folder)
    asked = ["--diagnose", "--discount-grid", "0.6", "1", "--json"]
    assert main(["recover", str(folder), "--out", str(run), *asked]) == 0
    told = json.loads(capsys.readouterr().out)["extras"]
    found = tacit.checks.diagnose(problem.trips)
    gains = {row["alternative"]: row["gain"] for row in told["diagnose"]["rows"]}
    assert gains == pytest.approx({row.alternative: row.gain for row in found.rows})
    assert told["discount_profile"]["discounts"] == [0.6, 1.0]
    page = (run / "report.html").read_text()
    assert "Which assumption do the demonstrations contradict?" in page


def test_one_task_is_scored_too(tmp_path, capsys):
    town = streets(discount=0.8)
    features = lengths(town)
    solution = tacit.solve(
        town, tacit.Objective(features.reward @ TRUTH), solver=tacit.SoftDual(temperature=1.0)
    )
    seen = tacit.simulate(town, solution.policy, trajectories=30, steps=20, seed=1)
    found = tacit.recover(town, features, seen, estimator=tacit.Likelihood(free_reward=True))
    told = tacit.checks.score(found, seen)
    assert told.log_likelihood == pytest.approx(found.log_likelihood, rel=1e-9)
    assert told.null_log_likelihood == pytest.approx(found.null_log_likelihood, rel=1e-12)
    assert told.rho_squared == pytest.approx(found.rho_squared)
    # At random an action is the likeliest one as often as one of those that are there is drawn.
    there = town.available.sum(axis=1)[seen.states]
    assert told.null_hit_rate == pytest.approx((1 / there).mean())
    assert told.null_hit_rate < told.hit_rate
    assert told.log_likelihood_error > 0
    wrong = Demonstrations.from_trajectories([([0, 0], [0, 1])])  # there is no west of 0
    lost = tacit.checks.score(found, wrong)
    assert (lost.impossible, lost.log_likelihood) == (1, -np.inf)
    assert lost.sentences[0].kind is tacit.Kind.MISFIT
    found.save(tmp_path / "run")
    seen.save(tmp_path / "seen.parquet")
    assert main(["score", str(tmp_path / "run"), str(tmp_path / "seen.parquet")]) == 0
    assert "hit rate" in capsys.readouterr().out


def test_a_folder_makes_link_sizes(problem, tmp_path, capsys):
    folder = tmp_path / "trips"
    save_text(problem, folder)
    path = folder / "problem.toml"
    text = path.read_text()
    first = problem.features.reward_names[0]
    path.write_text(text.replace("[features]", f'[features]\nlink_size = {{ "{first}" = -1.0 }}'))
    found = Problem.load(folder)
    sizes = tacit.checks.link_size(problem.trips, {first: -1.0})
    assert found.features.reward_names[-1] == "link size"
    np.testing.assert_allclose(found.features.reward[..., -1:], sizes.values, atol=1e-12)
    path.write_text(text.replace("[features]", "[features]\nlink_size = { nothing = -1.0 }"))
    assert main(["check", str(folder)]) == 2
    assert "must be of coefficients; got 'nothing'" in capsys.readouterr().err
    path.write_text(path.read_text().replace('goal = "last"', ""))
    assert main(["check", str(folder)]) == 2
    assert "link_size is about trips" in capsys.readouterr().err


def test_trips_are_held_out_resampled_and_compared_by_group(problem, tmp_path, capsys):
    groups = np.array(["left", "right"])[np.arange(150) % 2]
    seen = dataclasses.replace(problem.demonstrations, groups=groups)
    grouped = dataclasses.replace(problem, demonstrations=seen)
    folder, run = tmp_path / "trips", tmp_path / "run"
    grouped.save(folder)
    asked = ["--holdout", "0.3", "--groups", "--bootstrap", "20", "--no-report", "--json"]
    assert main(["recover", str(folder), "--out", str(run), *asked]) == 0
    told = json.loads(capsys.readouterr().out)
    held = tacit.checks.holdout(grouped.trips, share=0.3)
    found = told["extras"]["holdout"]["recovered"]["log_likelihood"]
    assert found == pytest.approx(held.recovered.log_likelihood)
    test = tacit.checks.equal_weights_test(grouped.trips)
    assert told["extras"]["groups"]["p_value"] == pytest.approx(test.p_value)
    drawn = tacit.recover(grouped.trips, bootstrap=20)
    ends = drawn.identification.reward_intervals
    np.testing.assert_allclose(told["reward_intervals"], ends, atol=1e-9)
    by = ["--by", "group", "--no-report", "--json"]
    assert main(["recover", str(folder), "--out", str(tmp_path / "by"), *by]) == 0
    capsys.readouterr()
    alone = tacit.Recovery.load(tmp_path / "by" / "left")
    assert alone.observed_steps == seen.select(groups == "left").steps
    own = dataclasses.replace(grouped, demonstrations=seen.select(groups == "left"))
    expected = tacit.recover(own.trips).parameters.estimates
    np.testing.assert_allclose(alone.parameters.estimates, expected, atol=1e-9)
    refused = ["--by", "group", "--share", "all", "--out", str(tmp_path / "no")]
    assert main(["recover", str(folder), *refused]) == 2
    assert "--share is not for trips" in capsys.readouterr().err


def test_what_travellers_refuse_is_asked_in_a_folder(problem, tmp_path, capsys):
    """There is no page to play with: every goal has a policy of its own."""
    table = problem.features.reward
    features = tacit.Features(np.stack([-table[..., 0], table[..., 2]], 2), [table[..., 1:2]])
    save_text(dataclasses.replace(problem, features=features), tmp_path / "trips")
    assert main(["recover", str(tmp_path / "trips"), "--out", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["multipliers"][0] > 0
    assert Run.load(tmp_path / "run").recovery.multipliers[0] > 0
