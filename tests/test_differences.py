"""Groups compared: differences with intervals and p-values, by hand and on the command line."""

import json

import numpy as np
import pytest
from scipy.stats import norm

import tacit
from tacit.cli import main
from tacit.errors import InvalidModel
from tacit.model import Layout

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
        one, other = recoveries[row.first], recoveries[row.second]
        if row.quantity == "price 0":
            values = [each.multipliers[0] for each in (one, other)]
            errors = [e.identification.multiplier_standard_errors[0] for e in (one, other)]
        else:
            at = ("food", "rest").index(row.name)
            values = [each.reward_weights[at] for each in (one, other)]
            errors = [e.identification.reward_standard_errors[at] for e in (one, other)]
        assert row.value == pytest.approx(values[0] - values[1])
        assert row.standard_error == pytest.approx(np.hypot(*errors))
        z = row.value / row.standard_error
        assert row.p_value == pytest.approx(2 * norm.sf(abs(z)))
        assert [row.low, row.high] == pytest.approx(
            row.value + norm.ppf([0.025, 0.975]) * row.standard_error
        )
    # Holm by hand: the smallest times nine, the next at least that and times eight, and so on.
    p = sorted(row.p_value for row in told.rows)
    steps = np.minimum(np.maximum.accumulate(p * np.arange(9, 0, -1)), 1)
    assert sorted(row.adjusted for row in told.rows) == pytest.approx(steps)
    clear = {(row.first, row.second, row.name) for row in told.rows if row.adjusted < 0.05}
    assert clear == {("ann", "cat/dog", "heat"), ("bob", "cat/dog", "heat")}
    assert len(told.columns["p_value"]) == 9
    with pytest.raises(InvalidModel, match="at least two"):
        tacit.many.differences({"ann": recoveries["ann"]})


def test_groups_are_recovered_apart_and_compared_on_a_page(problem, tmp_path, capsys):
    problem.save(tmp_path / "problem")
    out = tmp_path / "runs"
    words = ["recover", str(tmp_path / "problem"), "--estimator", "likelihood", "--out", str(out)]
    assert main([*words, "--by", "group", "--no-report", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
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
    assert (tmp_path / "page-forest.svg").exists()
    assert main(["compare", str(out / "ann"), str(out / "bob"), "--json"]) == 0
    pair = json.loads(capsys.readouterr().out)
    assert len(pair["differences"]) == 3
    assert {"name", "first", "second", "differs"} <= pair["numbers"][0].keys()


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
