"""Groups compared: differences with intervals and p-values, by hand and on the command line."""

import json
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from scipy.stats import norm

import tacit
from tacit.cli import main
from tacit.errors import InvalidModel
from tacit.estimators.likelihood import Likelihood
from tacit.estimators.tasks import SharedLikelihood
from tacit.model.layout import Layout
from tacit.show.differences import every_number
from tacit.show.page import recovery_document
from tacit.show.several import shared_weights
from tacit.show.tables import short

PHI = np.random.default_rng(1).uniform(size=(9, 2))
HEAT = (np.arange(9) % 3 == 1).astype(float)[:, None]


@pytest.fixture(scope="module")
def world():
    return tacit.worlds.hill_grid(seed=0, size=3).mdp


def demonstrations(mdp, price: float, seed: int):
    """Walks of somebody who likes the features 0.7 to 0.3, and minds heat at this price."""
    gain = PHI @ [0.7, 0.3] - price * HEAT[:, 0]
    truth = tacit.Objective(gain, np.zeros((0, 9)), np.zeros(0))
    expert = tacit.solve(mdp, truth, solver=tacit.SoftDual(temperature=0.2))
    return tacit.simulate(mdp, expert.policy, trajectories=40, steps=60, seed=seed)


@pytest.fixture(scope="module")
def problem(world):
    """Three groups: two alike, one that minds heat less."""
    parts = [demonstrations(world, *pair) for pair in ((0.6, 1), (0.6, 2), (0.1, 3))]
    seen = tacit.Demonstrations.from_trajectories(
        [part.trajectory(e) for part in parts for e in range(part.episodes)],
        groups=np.repeat(["ann", "bob", "cat/dog"], 40),
    )
    features = tacit.Features(PHI, [HEAT], ["food", "rest"], [["heat"]])
    return tacit.runs.Problem(world, features, seen, layout=Layout(3, 3))


@pytest.fixture(scope="module")
def recoveries(problem):
    task, seen = (problem.mdp, problem.features), problem.demonstrations
    return {
        name: tacit.recover(*task, seen.select(seen.groups == name), estimator=tacit.Likelihood())
        for name in ("ann", "bob", "cat/dog")
    }


def test_differences_are_those_of_the_numbers_and_their_errors(recoveries):
    told = tacit.many.differences(recoveries)
    assert told.names == ("ann", "bob", "cat/dog")
    assert len(told.rows) == 9  # food, rest and the price of heat, for three pairs
    assert not told.unjudged
    for row in told.rows:
        one, other = (recoveries[who].standardised for who in (row.first, row.second))
        if row.quantity == "price 0":
            values = [each.multipliers[0] for each in (one, other)]
            errors = [e.identification.multiplier_standard_errors[0] for e in (one, other)]
            ends = [e.identification.multiplier_intervals[0] for e in (one, other)]
        else:
            at = ("food", "rest").index(row.name)
            values = [each.reward_weights[at] for each in (one, other)]
            errors = [e.identification.reward_standard_errors[at] for e in (one, other)]
            ends = [e.identification.reward_intervals[at] for e in (one, other)]
        assert row.value == pytest.approx(values[0] - values[1])
        assert row.standard_error == pytest.approx(np.hypot(*errors))
        # Zou and Donner (2008), by hand: distances to the ends add up in squares.
        (below, above), (its_below, its_above) = (
            np.abs(own - value) for own, value in zip(ends, values, strict=True)
        )
        away = [np.hypot(below, its_above), np.hypot(above, its_below)]
        assert [row.low, row.high] == pytest.approx([row.value - away[0], row.value + away[1]])
        z = norm.ppf(0.975) * abs(row.value) / away[row.value < 0]
        assert row.p_value == pytest.approx(2 * norm.sf(z))
        assert (row.p_value < 0.05) == (row.low > 0 or row.high < 0)
    # Holm by hand: the smallest times nine, the next at least that and times eight, and so on.
    p = sorted(row.p_value for row in told.rows)
    steps = np.minimum(np.maximum.accumulate(p * np.arange(9, 0, -1)), 1)
    assert sorted(row.adjusted for row in told.rows) == pytest.approx(steps)
    clear = {(row.first, row.second, row.name) for row in told.rows if row.adjusted < 0.05}
    assert clear == {("ann", "cat/dog", "heat"), ("bob", "cat/dog", "heat")}
    assert len(told.columns["p_value"]) == 9
    with pytest.raises(InvalidModel, match="at least two"):
        tacit.many.differences({"ann": recoveries["ann"]})


def test_differences_of_weights_are_no_larger_than_weights_can_differ(world):
    features = tacit.Features(PHI, [HEAT], ["food", "rest"], [["heat"]])
    for seed in range(20):
        pair = {  # so few steps that standard errors of a share are larger than 1
            who: tacit.Likelihood(level=1.0).fit(
                world, features, demonstrations(world, 0.3, 100 * seed + n).select([0]), throw=False
            )
            for n, who in enumerate(("one", "other"))
        }
        for row in tacit.many.differences(pair).rows:
            if row.quantity == "reward":
                assert -1.0 - 1e-9 <= row.low <= row.value <= row.high <= 1.0 + 1e-9


def test_the_same_individuals_in_two_groups_are_not_independent(recoveries):
    apart = tacit.many.differences(recoveries)
    who = {"ann": ["a", "b", "c"], "bob": ["b", "c", "d"], "cat/dog": ["e"]}
    told = tacit.many.differences(recoveries, individuals=who)
    before = {(row.first, row.second, row.name): row for row in apart.rows}
    for row in told.rows:
        other = before[row.first, row.second, row.name]
        errors, ends = [], []
        for name in (row.first, row.second):
            known = recoveries[name].standardised.identification
            at = ("food", "rest", "heat").index(row.name)
            price = known.multiplier_standard_errors[0]
            errors.append([*known.reward_standard_errors, price][at])
            ends.append([*known.reward_intervals, known.multiplier_intervals[0]][at])
        if (row.first, row.second) == ("ann", "bob"):
            assert row.shared_individuals == 2
            assert row.standard_error == pytest.approx(sum(errors))
            # Both may be at their worst ends together.
            assert row.low == pytest.approx(ends[0][0] - ends[1][1])
            assert row.high == pytest.approx(ends[0][1] - ends[1][0])
            assert row.p_value > other.p_value
        else:
            assert row.shared_individuals == 0
            assert replace(row, adjusted=0.0) == replace(other, adjusted=0.0)
    assert [one.kind for one in told.doubts] == [tacit.Kind.ERRORS]
    assert told.doubts[0].about.number == 2
    assert not apart.doubts


def test_shared_individuals_are_known_where_runs_are_compared(problem, tmp_path, capsys):
    """The same four walkers in both groups, by name."""
    seen = problem.demonstrations.select(problem.demonstrations.groups != "cat/dog")
    who = np.array([f"walker {e % 4}" for e in range(seen.episodes)])
    named = replace(problem, demonstrations=replace(seen, individuals=who))
    named.save(tmp_path / "problem")
    out, words = tmp_path / "runs", ["--estimator", "likelihood", "--by", "group", "--json"]
    assert main(["recover", str(tmp_path / "problem"), *words, "--out", str(out)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {row["shared_individuals"] for row in told["differences"]} == {4}
    assert "ERRORS" in {one["kind"] for one in told["findings"]}
    assert "share no individuals" in (out / "compare.html").read_text("utf-8")
    assert main(["compare", str(out), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["differences"] == told["differences"]


def test_doubts_about_single_recoveries_are_told_with_their_differences(recoveries):
    found = {name: recoveries[name] for name in ("ann", "cat/dog")}
    assert not tacit.many.differences(found).doubts
    poor = replace(found["ann"].goodness, adequate=False, p_value=0.01)
    found["ann"] = replace(found["ann"], goodness=poor, reward_weights=np.full(2, np.nan))
    told = tacit.many.differences(found)
    assert [(one.kind, one.about.number) for one in told.doubts] == [(tacit.Kind.MISFIT, 0.01)]
    assert told.sentences[-1].startswith("ann: ")
    # Without a reward prices are in units of the noise, which are not those of the other.
    assert not told.rows
    assert "price 0 over the noise heat (ann, cat/dog: in other units)" in told.unjudged
    assert "reward food (ann, cat/dog: without error bars)" in told.unjudged
    said = next(one for one in told.sentences if one.kind is tacit.Kind.NOT_IDENTIFIED)
    assert "--groups tests all their weights together" in said


def test_groups_are_recovered_apart_and_compared_on_a_page(problem, tmp_path, capsys):
    problem.save(tmp_path / "problem")
    out = tmp_path / "runs"
    words = ["recover", str(tmp_path / "problem"), "--estimator", "likelihood", "--out", str(out)]
    assert main([*words, "--by", "group", "--no-report", "--holdout", "0.2"]) == 0
    said = capsys.readouterr().out
    for name in ("ann", "bob", "cat-dog"):  # what was asked of each group is told, too
        asked = tacit.runs.Run.load(out / name).extras["holdout"]["sentences"]
        assert f"{name.replace('-', '/')}: {asked[0]}" in said
    again = ["--by", "group", "--no-report", "--holdout", "0.2", "--json", "--resume"]
    assert main([*words, *again]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["extras"].keys() == {"ann", "bob", "cat/dog"}
    assert told["runs"] == [str(out / name) for name in ("ann", "bob", "cat-dog")]
    assert {row["name"] for row in told["differences"] if row["adjusted"] < 0.05} == {"heat"}
    run = tacit.runs.Run.load(out / "cat-dog")
    assert run.data["groups"] == {"cat/dog": 40}
    assert "--only cat/dog" in run.config["command"]
    page = tmp_path / "page.html"
    assert main(["compare", str(out / "ann"), str(out / "nobody"), "--out", str(page)]) == 4
    assert "there is no such folder" in capsys.readouterr().err
    assert main(["compare", str(out), "--out", str(page)]) == 0
    said = capsys.readouterr().out
    assert "price 0: heat" in said
    assert "p by Holm" in said
    text = page.read_text(encoding="utf-8")
    for name in ("ann", "bob", "cat-dog"):
        assert name in text
    # Weights are of sum one, prices of any size: each have an axis of their own.
    assert (tmp_path / "page-forest.svg").read_text("utf-8").count('<g id="axes_') == 2
    assert main(["compare", str(out / "ann"), str(out / "bob"), "--json"]) == 0
    pair = json.loads(capsys.readouterr().out)
    assert len(pair["differences"]) == 3
    assert pair["numbers"].keys() == {"ann", "bob"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "cat"], "one of the groups ann, bob, cat/dog; got 'cat'"),
        (["--share", "all"], "--share is for --by group"),
    ],
)
def test_what_cannot_be_compared_is_said(problem, tmp_path, capsys, words, message):
    problem.save(tmp_path / "problem")
    assert main(["recover", str(tmp_path / "problem"), "--out", str(tmp_path / "r"), *words]) == 2
    assert message in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "problem")]) == 2


@pytest.fixture
def named(problem, tmp_path):
    """Two groups, one of which is called as the folder of the fit that they share."""
    seen = problem.demonstrations
    few = seen.select(seen.groups != "bob")
    groups = np.where(few.groups == "ann", "Joint", "compare.html")
    replace(problem, demonstrations=replace(few, groups=groups)).save(tmp_path / "problem")
    return ["recover", str(tmp_path / "problem"), "--by", "group", "--out", str(tmp_path / "runs")]


def test_a_group_called_joint_keeps_apart_from_what_the_groups_share(named, tmp_path, capsys):
    words = ["--estimator", "likelihood", "--share", "costs", "--no-report", "--json"]
    assert main([*named, *words]) == 0
    told = json.loads(capsys.readouterr().out)
    runs = [tmp_path / "runs" / f"group-{name}" for name in ("Joint", "compare.html")]
    assert told["runs"] == [str(run) for run in runs]
    assert [tacit.runs.Run.load(run).data["groups"] for run in runs] == [
        {"Joint": 40},
        {"compare.html": 40},
    ]
    shared = tacit.JointRecovery.load(told["shared"])
    assert [len(one.reward_weights) for one in shared.recoveries] == [2, 2]
    assert not (tmp_path / "runs" / "compare.html").exists()  # the page's name is free


def test_what_groups_share_is_tested_and_shown_beside_their_own(named, tmp_path, capsys):
    words = ["--estimator", "likelihood", "--share", "all", "--no-report", "--json"]
    assert main([*named, *words]) == 0
    told = json.loads(capsys.readouterr().out)
    joint = tacit.JointRecovery.load(told["shared"]).standardised
    assert joint.agreement.shape == (2,)
    tested = joint.agreement[np.isfinite(joint.agreement)]
    by_hand = np.minimum(np.maximum.accumulate(np.sort(tested) * np.arange(len(tested), 0, -1)), 1)
    assert sorted(row["about"]["number"] for row in told["agreement"]) == pytest.approx(by_hand)
    # Found again where only the folder is named.
    place = tmp_path / "compared.html"
    assert main(["compare", str(tmp_path / "runs"), "--out", str(place), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agreement"] == told["agreement"]
    page = place.read_text("utf-8")
    own = {n: tacit.runs.Run.load(n).recovery.standardised for n in told["runs"]}
    _, table = every_number({**own, "shared": shared_weights(joint)})
    shown = {row.cells[0]: row.cells[-1] for row in table.rows}
    for name, weight in zip(joint.recoveries[0].reward_names, joint.reward_weights, strict=True):
        assert shown[name].value == weight
        assert short(float(weight)) in page
    assert [one for one in shown.values() if one is None]  # prices are of each
    for row in told["agreement"]:
        assert row["sentence"] in unescape(page)
    whole = recovery_document(tacit.runs.Run.load(told["shared"], several=True))
    assert whole.headlines[0].text.partition(" fits")[0] in ("Joint", "compare.html")
    kept = [one.label for one in whole.headlines if one.label in ("Joint", "compare.html")]
    assert kept == ["Joint", "compare.html"]  # as they are called


def test_a_shared_fit_that_is_cut_short_decides_the_exit_code(named, tmp_path, capsys, monkeypatch):
    """Each group by itself converges: what is asked of the estimator is asked of the shared one."""
    search = SharedLikelihood.search

    def cut(options, tasks):
        asked.append(options)
        return search(replace(options, likelihood=Likelihood(max_steps=2)), tasks)

    asked = []
    monkeypatch.setattr(SharedLikelihood, "search", cut)
    words = [*named, "--share", "all", "--estimator", "likelihood", "--level", "0.01"]
    assert main([*words, "--no-report", "--quiet"]) == 3
    assert "with all shared: stopped before" in capsys.readouterr().err
    assert [one.likelihood.level for one in asked] == [0.01]
    assert tacit.runs.Run.load(tmp_path / "runs" / "group-Joint").recovery.status.name != (
        "NOT_CONVERGED"
    )


def test_what_no_shared_fit_knows_is_refused_before_any_fit(named, tmp_path, capsys):
    for words, said in (
        (["--estimator", "convex"], "--share"),
        (["--estimator", "likelihood", "--prior", "sparse"], "sparse"),
    ):
        assert main([*named, "--share", "costs", *words]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_groups_share_costs_under_a_prior(named, tmp_path):
    words = ["--share", "costs", "--estimator", "likelihood", "--prior", "ridge:1", "--no-report"]
    assert main([*named, *words, "--quiet"]) == 0
    (place,) = (tmp_path / "runs").rglob("shared")
    joint = tacit.JointRecovery.load(place)
    assert np.isnan(joint.agreement).all()
