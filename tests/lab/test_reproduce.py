"""The paper reproduced: a unit is a pure function, a run resumes, a report says what was found."""

import dataclasses
import json
import math
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import tacit
from answers import units_of
from refusals import refusal
from tacit.cli import main
from tacit.errors import InvalidModel, TacitError
from tacit.show import Tone
from tacit_lab.studies import (
    BINDING,
    CALIBRATED,
    PUBLISHED,
    RANDOM,
    Draw,
    EstimatorScore,
    StudySettings,
    Sweep,
    SweepPoint,
    read_unit,
    write_unit,
)
from tacit_lab.studies import draws as drawing
from tacit_lab.studies import reproduce as studies
from tacit_lab.studies.conclusions import findings
from tacit_lab.studies.draws import ESTIMATORS
from tacit_lab.studies.tally import (
    Reproduction,
    command,
    published_correlations,
    recovered,
    tally,
    values,
)

# Half a dozen runs of the whole study: too long for every test of a change.
pytestmark = pytest.mark.study

# So little was seen that the reward alone matches it in most fits, which then end soon.
TINY = StudySettings(seeds=2, trajectories=3, steps=8, jobs=1)


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> StudySettings:
    """A tiny run, finished."""
    settings = dataclasses.replace(TINY, out=tmp_path_factory.mktemp("run"))
    assert studies.reproduce(settings) == settings.out / "report.html"
    return settings


@pytest.fixture
def without_report(monkeypatch):
    """Where units are what is tested, no page is drawn: that takes longer than a unit."""
    monkeypatch.setattr(studies, "_write_report", lambda settings: settings.out / "report.html")


@pytest.fixture(scope="module")
def run(done) -> Reproduction:
    return studies.load(done)


# settings --------------------------------------------------------------------------------


def test_both_blocks_by_default_and_one_where_asked():
    assert [block.name for block in StudySettings().blocks] == [PUBLISHED, BINDING]
    assert [block.name for block in StudySettings(budget="binding").blocks] == [BINDING]
    (own,) = StudySettings(budget=0.7).blocks
    assert (own.budget, own.tightness) == (0.7, None)


def test_studies_stop_where_the_data_does():
    assert StudySettings().lengths == (20, 50, 100, 200, 500, 1000, 2000)
    assert StudySettings(steps=120).lengths == (20, 50, 100, 120)
    assert StudySettings(trajectories=20).counts == (5, 10, 20)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seeds", 0),
        ("trajectories", 1),
        ("steps", 0),
        ("size", 2),
        ("jobs", -1),
        ("discount", 1.0),
        ("budget", math.inf),
        ("budget", "tight"),
        ("hill", "steep"),
        ("update", "none"),
        ("multiplier", "two"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(field, value):
    with pytest.raises(InvalidModel, match=f"^{field} must"):
        StudySettings(**{field: value})


def test_the_rules_chosen_are_those_of_algorithm_1_and_name_the_run():
    chosen = StudySettings(update="projected", multiplier="at-least-one")
    for name, make in ESTIMATORS.items():
        usual, found = make(0, StudySettings().rules), make(0, chosen.rules)
        if isinstance(found, tacit.Alternating):
            assert found == dataclasses.replace(
                usual, update="projected", multiplier="at-least-one"
            )
        else:
            assert found == usual, name
    # Folders written before the choice existed can be continued, with the usual rules only.
    assert chosen.identity() == {**StudySettings().identity(), **chosen.rules}
    assert not set(chosen.rules) & set(StudySettings().identity())
    asked = "tacit reproduce --multiplier at-least-one --update projected"
    assert command(chosen) == asked  # what the report tells to type


# Units ------------------------------------------------------------------------------------------


def test_a_draw_is_the_world_of_its_seed_in_the_gauge(run):
    for draw in run.block(PUBLISHED):
        world = tacit.worlds.hill_grid(draw.seed).in_gauge
        np.testing.assert_array_equal(draw.reward_weights, world.reward_weights)
        np.testing.assert_array_equal(draw.cost_weights, world.cost_weights[0])
        assert sum(draw.cost_weights) == pytest.approx(1.0, abs=1e-12)  # rounding of a division
        assert draw.budget == world.truth.budgets[0]


def test_a_budget_binds_exactly_where_the_unconstrained_expert_breaks_it(run):
    for draw in run.draws:
        # The reward-optimal policy is unique here, so its cost is; 1e-9 is the solver's tolerance.
        assert draw.binds == (draw.unconstrained > draw.budget + 1e-9)
        assert draw.least <= draw.budget
    assert all(draw.binds for draw in run.block(BINDING))
    for draw in run.block(BINDING):
        halfway = (draw.least + draw.unconstrained) / 2
        assert draw.budget == pytest.approx(halfway, rel=1e-6)  # two solves to 1e-9 of costs of 1


def test_every_estimator_is_scored_beside_random_weights(run):
    for draw in run.draws:
        assert [score.estimator for score in draw.scores] == list(ESTIMATORS)
        for metric in draw.scores[0].metrics:
            assert len(draw.null[metric]) == drawing.GUESSES


def test_metrics_lie_in_their_ranges(run):
    unit = ("visitation_distance", "state_distance", "policy_agreement", "cells", "starc", "peak")
    for score in (score for draw in run.draws for score in draw.scores):
        for name in unit:
            assert math.isnan(score.metrics[name]) or -1e-12 <= score.metrics[name] <= 1 + 1e-12
        for name in ("reward_error", "cost_error"):
            assert math.isnan(score.metrics[name]) or 0 <= score.metrics[name] <= 2
        assert score.metrics["violation"] >= 0


def test_the_truth_itself_is_judged_without_error():
    settings = dataclasses.replace(TINY, budget="binding")
    world = drawing.world_of(settings, settings.blocks[0], 0)
    expert = tacit.solve(world.mdp, world.truth)
    shown = tacit.simulate(world.mdp, expert.policy, trajectories=20, steps=50, seed=0)
    judge = drawing._Judge(world, expert, shown)
    found = judge.metrics(world.truth, expert, world.reward_weights, world.cost_weights[0])
    for name in ("reward_error", "cost_error", "starc", "visitation_distance", "violation"):
        assert found[name] == pytest.approx(0.0, abs=1e-8)  # the solver's tolerance
    for name in ("policy_agreement", "cells", "peak", "reward_spread", "feasible_balanced"):
        assert found[name] == pytest.approx(1.0)


def test_optimal_actions_contain_what_the_expert_does(run):
    for draw in run.draws:
        taken = np.array(draw.policy) > 1e-6
        assert np.array(draw.ties)[taken].all()


def test_records_survive_their_file(run, tmp_path):
    path = tmp_path / "unit.json"
    for draw in run.draws:
        write_unit(path, draw)
        assert repr(read_unit(path, Draw)) == repr(draw)
    odd = Sweep(
        3,
        [
            SweepPoint(
                "steps",
                "noisy",
                "x",
                5,
                reward_error=math.nan,
                cost_error=math.inf,
                visitation_distance=-math.inf,
            )
        ],
    )
    write_unit(path, odd)
    back = read_unit(path, Sweep).points[0]
    assert math.isnan(back.reward_error)
    assert (back.cost_error, back.visitation_distance) == (math.inf, -math.inf)
    assert read_unit(path, Sweep).seed == 3


def test_an_infeasible_draw_is_reported_and_not_recovered_from():
    # Least costs are about 0.6 in the paper's units: nothing is within 0.1.
    settings = dataclasses.replace(TINY, budget=0.1)
    draw = drawing.run_draw(settings, settings.blocks[0], 0)
    assert not draw.feasible
    assert (draw.scores, draw.null, draw.binds) == ([], {}, False)
    assert draw.least > draw.budget


# Tally and findings -----------------------------------------------------------------------------


def test_the_count_of_policies_is_that_of_the_draws(run):
    draws = run.block(BINDING)
    name = run.estimators[-1]
    scores: list[EstimatorScore] = [score for draw in draws if (score := draw.score(name))]
    wrong = dataclasses.replace(scores[0], metrics={**scores[0].metrics, "cells": 0.5})
    right = dataclasses.replace(scores[0], metrics={**scores[0].metrics, "cells": 1.0})
    pair = [dataclasses.replace(draws[0], scores=[one]) for one in (wrong, right)]
    assert recovered(pair, name)["same_in_every_cell"] == 1
    assert recovered(pair, name)["draws"] == 2
    assert recovered(pair, "nobody")["draws"] == 0


def test_results_hold_the_null_row_and_every_draw(done, run):
    results = json.loads((done.out / "results.json").read_text())
    assert results == tally(run)
    for block in (PUBLISHED, BINDING):
        page = results["blocks"][block]
        assert RANDOM in page["estimators"]
        assert page["binding_by_seed"].keys() == {"0", "1"}
        noise = [draw.noise for draw in run.block(block)]
        assert page["sampling_noise_mean"] == pytest.approx(np.mean(noise), rel=1e-3)  # 4 digits
    assert len(results["draws"]) == 4
    assert {point["study"] for point in results["studies"]} == {"steps", "trajectories", "both"}


def test_published_correlations_are_those_of_the_printed_figure():
    # By hand from the slides: weights .68/.32 against .97/.03, two uncorrelated features.
    by_hand = (0.68 * 0.97 + 0.32 * 0.03) / math.hypot(0.68, 0.32) / math.hypot(0.97, 0.03)
    reward, cost = published_correlations()
    assert reward == pytest.approx(by_hand, rel=1e-12)
    assert cost == pytest.approx(0.975, abs=5e-4)  # the printed digits


def test_findings_follow_the_numbers(run):
    """The same run with other numbers says other things: nothing is remembered."""
    numbers = ("cells", "feature_gap", "visitation_distance", "reward_spread")

    def with_all(value):
        def score(old):
            return dataclasses.replace(
                old, metrics={**old.metrics, **dict.fromkeys(numbers, value)}
            )

        draws = tuple(
            dataclasses.replace(draw, scores=[score(old) for old in draw.scores])
            for draw in run.draws
        )
        return {found.label: found for found in findings(dataclasses.replace(run, draws=draws))}

    bad, good = with_all(0.5), with_all(1.0)
    policy, calibrated = "Is the policy recovered?", "Does a calibrated budget help?"
    assert (bad[policy].verdict, good[policy].verdict) == ("not confirmed", "confirmed")
    assert "0 of 2 draws" in bad[policy].text
    assert "2 of 2 draws" in good[policy].text
    assert bad[calibrated].tone is Tone.CAUTION
    assert "0.500 on average" in bad[calibrated].text
    assert with_all(0.0)[calibrated].verdict == "yes"


def test_values_of_random_weights_are_one_a_guess(run):
    draws = run.block(BINDING)
    assert len(values(draws, RANDOM, "starc")) == drawing.GUESSES * len(draws)


# The report -------------------------------------------------------------------------------------


def test_the_report_opens_with_the_findings_and_asks_no_network(done, run):
    page = (done.out / "report.html").read_text(encoding="utf-8")
    told = re.sub(r"<[^>]+>", "", page)
    for found in findings(run):
        assert found.text.split("`")[0][:60] in told
    assert page.index('id="findings"') < page.index("paper&#39;s figure")
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    assert "random weights" in told.lower()
    assert len(page) < 2_000_000


def test_every_draw_has_its_figure(done, run):
    from tacit_lab.studies.report import drawn, figure_name

    for draw in run.draws:
        assert drawn(draw)
        for score in drawn(draw):
            path = done.out / "figures" / f"{figure_name(draw, score.estimator)}.svg"
            assert path.read_text().startswith("<?xml")


# Resuming ---------------------------------------------------------------------------------------


def test_a_run_goes_on_with_identical_results(done, tmp_path, without_report):
    settings = dataclasses.replace(done, out=tmp_path, jobs=2)
    finished = units_of(done.out)
    (tmp_path / "settings.json").write_bytes((done.out / "settings.json").read_bytes())
    for name in ("units", "figures"):
        (tmp_path / name).mkdir()
    # All but three units were done before the interruption; half a file was left behind.
    missing = {"study-seed-001.json", "binding-seed-000.json", "published-published-draw.json"}
    for path in (done.out / "units").glob("*.json"):
        if path.name not in missing:
            (tmp_path / "units" / path.name).write_bytes(path.read_bytes())
    for path in (done.out / "figures").glob("*.svg"):
        if not path.name.startswith("binding-seed-000"):
            (tmp_path / "figures" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "units" / ".study-seed-001.json.1.part").write_text('{"seed": 1')
    kept = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "units").glob("*.json")}
    told, total = [], len(studies.tasks(settings))
    studies.reproduce(settings, callbacks=[told.append])
    # Every unit that was done now is told, with those that were done before.
    numbers = [(event.step, event.numbers["of"]) for event in told]
    assert numbers == [(total - left, total) for left in (2, 1, 0)]
    assert units_of(tmp_path) == finished
    now = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "units").glob("*.json")}
    assert {name: now[name] for name in kept} == kept, "a finished unit was done again"
    figures = sorted(path.name for path in (done.out / "figures").iterdir())
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == figures
    for name in figures:
        assert (tmp_path / "figures" / name).read_text() == (
            done.out / "figures" / name
        ).read_text()


def test_another_run_in_the_same_folder_is_refused_in_one_line(done):
    other = dataclasses.replace(done, discount=0.8)
    with refusal(TacitError, match=r"discount 0\.9 there, 0\.8 asked.*--out"):
        studies.reproduce(other)


def test_the_number_of_processes_is_no_part_of_a_run(done):
    before = (done.out / "report.html").read_text()
    studies.reproduce(dataclasses.replace(done, jobs=2))  # nothing to do
    assert (done.out / "report.html").read_text() == before


@pytest.mark.parametrize(("jobs", "everyone"), [(1, False), (2, False), (2, True)])
def test_ctrl_c_leaves_what_is_done(jobs, everyone, tmp_path):
    """A shell asks one process; a terminal all of them, workers too."""
    # Many units, each done soon.
    size = "--seeds 200 --size 3 --trajectories 2 --steps 5"
    words = f"reproduce {size} --jobs {jobs} --out {tmp_path}"
    process = subprocess.Popen(
        [sys.executable, "-m", "tacit", *words.split()],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
        start_new_session=True,
    )
    units = tmp_path / "units"
    end = time.monotonic() + 120  # a busy machine
    while not list(units.glob("*.json")) and time.monotonic() < end:
        time.sleep(0.05)
    (os.killpg if everyone else os.kill)(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "tacit: interrupted", said
    left = list(units.glob("*.json"))
    assert left
    for path in left:
        json.loads(path.read_text())
    assert not list(units.glob(".*.part"))
    assert not (tmp_path / "report.html").exists()


# Progress ---------------------------------------------------------------------------------------


def test_quiet_is_quiet_in_every_process(done, tmp_path, without_report, capfd):
    for name in ("units", "figures"):
        (tmp_path / name).mkdir()
        for path in (done.out / name).iterdir():
            if path.name != "binding-seed-001.json":  # among the quickest
                (tmp_path / name / path.name).write_bytes(path.read_bytes())
    words = ["--seeds", "2", "--trajectories", "3", "--steps", "8", "--jobs", "1"]
    capfd.readouterr()
    assert main(["reproduce", *words, "--out", str(tmp_path), "--quiet"]) == 0
    assert (tmp_path / "units" / "binding-seed-001.json").exists()
    assert capfd.readouterr() == ("", "")


# What is written about it ------------------------------------------------------------------------

RESULTS = ("reproduce.json", "reproduce-as-written.json")


def test_the_committed_results_keep_what_was_promised(repository):
    """Calibrated budgets, both hill formulas: the acceptance numbers of the reproduction."""
    for name in RESULTS:
        page = json.loads((repository / "benchmarks" / "results" / name).read_text())
        block = page["blocks"][BINDING]
        metrics = block["estimators"][CALIBRATED]["metrics"]
        assert block["draws"] == 10
        assert metrics["feature_gap"]["mean"] <= 1.3 * block["sampling_noise_mean"]
        assert metrics["visitation_distance"]["mean"] <= 0.07
