"""`tacit recover`: its options reach the estimator, its answer is for people and for machines."""

import json
import os
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import tacit
from tacit.cli import main, parse
from tacit.cli.options import estimator_kind, methods, options_of
from tacit.cli.terminal import Answer
from tacit.folders.claims import claimed
from tacit.folders.runs import Run
from tacit_lab import families
from walks import problem, seen_by

ESTIMATORS = {
    "auto": None,
    "likelihood --level 0.01 --max-steps 7 --seed 3": tacit.Likelihood(
        level=0.01, max_steps=7, seed=3
    ),
    "convex --ridge 0.5 --tolerance 1e-6 --free-reward": tacit.Convex(
        free_reward=True, ridge=0.5, tolerance=1e-6
    ),
    "alternating --starts 2 --step-size 3 --band 0": tacit.Alternating(
        starts=2, step_size=3.0, band=0.0
    ),
    "alternating --update projected --multiplier at-least-one": tacit.Alternating(
        update="projected", multiplier="at-least-one"
    ),
    "explanation --free-reward": tacit.Explanation(free_reward=True),
    "reward-only --max-steps 9": tacit.RewardOnly(max_steps=9),
    "cloning": tacit.Cloning(),
    "maximum-entropy --ridge 0.1": families.MaximumEntropy(ridge=0.1),
    "likeliest-constraints --reward-weights 1 2": families.LikeliestConstraints([1.0, 2.0]),
    "posterior-constraints --reward-weights 1 2 --seed 3": families.PosteriorConstraints(
        [1.0, 2.0], seed=3
    ),
    "likelihood --temperature 0.5": tacit.Likelihood(temperature=0.5),
    "forbidden --reward 1 2 --temperature 3 --candidates states pairs": tacit.Forbidden(
        [1.0, 2.0], 3.0, candidates=("states", "pairs")
    ),
    "soft-constraint --reward-weights 1 2 --budget 0.5": families.SoftConstraint([1.0, 2.0], 0.5),
    "mixture --types auto --max-rounds 7": tacit.Mixture(types=None, max_rounds=7),
    "causal-entropy --no-free-reward": families.CausalEntropy(free_reward=False),
    "likelihood --prior ridge:0.5": tacit.Likelihood(prior=tacit.features.Ridge(0.5)),
    "constraint-only --reward-weights 1 2 --temperature 0.5": tacit.ConstraintOnly(
        [1.0, 2.0], temperature=0.5
    ),
}


@pytest.fixture
def folder(tmp_path) -> Path:
    problem("noisy").save(tmp_path / "problem")
    return tmp_path / "problem"


def estimator_of(words: str, known=None):
    """The estimator that a command line makes for a problem."""
    asked = parse(["recover", "a problem", *words.split()])
    return asked.options.make(known or problem("noisy"), seed=asked.running.seed)[0]


@pytest.mark.parametrize("words", ESTIMATORS)
def test_options_make_the_estimator(words):
    made = estimator_of(f"--estimator {words}")
    assert repr(made) == repr(ESTIMATORS[words])
    if made is not None:
        assert made == ESTIMATORS[words] or isinstance(made, tacit.Forbidden)
    asked = parse(["recover", "a problem", "--estimator", *words.split()])
    again = parse(shlex.split(asked.origin["command"])[1:])
    assert again == asked  # the command that a run remembers asks for the same


def test_several_types_are_a_mixture():
    assert repr(estimator_of("--types 3")) == repr(tacit.Mixture(types=3))
    asked = parse(["recover", "a problem", "--types", "2"])
    assert parse(shlex.split(asked.origin["command"])[1:]) == asked


def test_what_is_about_a_problem_is_read_with_it():
    words = "--estimator known-constraints --cost-weights 1 2 3 4 --budgets 0.5"
    assert estimator_of(words) == families.KnownConstraints([[1.0, 2.0, 3.0, 4.0]], [0.5])
    words = "--estimator likeliest-constraints --reward-weights 1 2 --sets a=1,2 b=3"
    assert dict(estimator_of(words).groups) == {"a": (1, 2), "b": (3,)}


def test_what_the_folder_knows_need_not_be_said(folder, tmp_path, capsys):
    from tacit.folders.problem import Problem

    known = Problem.load(folder)
    costs, weights = np.array([0.1, 0.2, 0.3, 0.4]), np.array([1.0, 2.5])
    truth = known.features.objective(weights, [costs], [0.75])
    full = replace(known, truth=truth)
    words = "--estimator known-constraints"
    assert estimator_of(words, full) == families.KnownConstraints([costs.tolist()], (0.75,))
    # What is said counts before what the folder holds, and nothing is taken that is not needed.
    assert estimator_of(f"{words} --budgets 0.5", full).budgets == (0.5,)
    for word, made in (
        ("safe-set", families.SafeSet(weights)),
        ("soft-constraint", families.SoftConstraint(weights, 0.75)),
        ("forbidden", tacit.Forbidden(candidates=("states", "actions"))),
    ):
        words = f"--estimator {word}"
        words += " --candidates states actions" if word == "forbidden" else ""
        assert repr(estimator_of(words, full)) == repr(made)
    # A truth that is not made of the features says nothing; nor does a folder without one.
    table = np.random.default_rng(0).random((known.mdp.states, known.mdp.actions))
    other = replace(known, truth=tacit.Objective(table, [table], [1.0]))
    for one in (other, replace(known, truth=None)):
        with pytest.raises(tacit.InvalidModel, match=r"--reward-weights must be given.*truth of"):
            estimator_of("--estimator safe-set", one)
    # The whole way: the truth of a folder is used, and an estimator that asks more says so.
    full.save(tmp_path / "full")
    out = ["--out", str(tmp_path / "run"), "--no-report"]
    assert main(["recover", str(tmp_path / "full"), *words.split()[:1], "safe-set", *out]) == 0
    printed = capsys.readouterr().out
    assert "SafeSet(reward_weights=(1.0, 2.5)" in printed
    assert "Taken from the truth of the folder: reward weights." in printed
    asked = ["--estimator", "penalty-constraints"]
    assert main(["recover", str(tmp_path / "full"), *asked, "--out", str(tmp_path / "r")]) == 2
    assert "--temperature must be given" in capsys.readouterr().err


def helping(capsys, *words: str) -> str:
    """The help of `recover` in one line, without its frames."""
    assert main(["recover", *words, "--help"]) == 0
    return " ".join(re.sub("[│─╭╮╰╯]", " ", capsys.readouterr().out).split())


@pytest.mark.parametrize("word", [word for word in get_args(methods()) if word != "auto"])
def test_help_of_an_estimator_names_its_options_with_their_defaults(capsys, word):
    shown = helping(capsys, "--estimator", word).partition(f"{word} options ")[2]
    for option in options_of(estimator_kind(word)):
        name = "no-" + option.word if option.default is True else option.word
        text = re.search(rf"--{name.replace('_', '-')} .*?\((default|required).*?\)", shown)[0]
        value = option.default
        if isinstance(value, int | float | str):
            assert f"(default: {value})" in text
        elif isinstance(value, tuple):
            assert f"(default: {' '.join(map(str, value))})" in text
        else:
            assert ("(required" if option.required else "(default: none)") in text
        assert len(text.split()) > 5  # the dataclass documents it, and that is shown


def test_help_says_first_what_one_needs_first_and_shows_how(capsys):
    shown = helping(capsys)
    first = shown.partition("question options")[0]
    for name in ("out", "estimator", "resume", "overwrite", "by", "raw-units"):
        assert f"--{name} " in first
    assert shown.count("tacit recover mouse") + shown.count("tacit recover foxes") == 3
    assert "--level FLOAT" not in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--ridge 1", "--ridge is an option of convex, constraint-as-reward, known-constraints"),
        ("--estimator convex --starts 3", "--starts is an option of alternating"),
        ("--free-reward", "is auto: give --estimator likelihood, or leave out --free-reward"),
        ("--estimator constraint-only", "--reward-weights must be given"),
        ("--estimator safe-set", "--reward-weights must be given"),
        ("--holdout 1.5", "--holdout must be in [0, 1); got 1.5"),
        ("--discount-grid 0.9 1", "--discount-grid must be in [0, 1): a discount of 1 needs ends"),
        ("--resume --overwrite", "--resume continues, --overwrite begins again"),
        ("--seed -1", "--seed must be at least 0; got -1"),
        ("--estimator explanation --bootstrap 5", "--bootstrap works with likelihood or convex"),
        ("--groups", "needs demonstrations with a column `group`; got none"),
        ("--estimator lasso", "must be one of"),
        ("--estimator likelyhood", "got 'likelyhood', did you mean likelihood?"),
        ("--estimator forbiden", "got 'forbiden', did you mean forbidden?"),
        ("--estimator known-constraints --budgets 1", "--cost-weights must be given"),
        ("--estimator known-constraints --cost-weights 1 --budgets 1", "must be 4 numbers, one a"),
        ("--estimator soft-constraint --reward-weights 1 1 --budgets 1", "--budgets is an option"),
        ("--estimator soft-constraint --reward-weights 1 1 --budget 1 2", "unknown option or word"),
        ("--estimator convex --sets a=1", "--sets is an option of forbidden"),
        (
            "--estimator forbidden --candidates state",
            "candidates must be of states, actions, features, pairs; got 'state'",
        ),
        ("--estimator forbidden --sets a", "--sets must be words like NAME=STATE,STATE"),
        ("--estimator forbidden --sets a=1,99", "a names no state '99'"),
        ("--estimator forbidden --sets a=1,2 b=2", "groups must not overlap"),
        ("--estimator forbidden --sets a=0", "must not be taken by a demonstration; 'a' is: ep"),
        ("--estimator forbidden --candidates actions", "there must be something that no demonstr"),
    ],
)
def test_what_makes_no_sense_is_one_line(folder, capsys, words, said):
    out = folder.parent / "run"
    assert main(["recover", str(folder), "--out", str(out), *words.split()]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert said in told.err.splitlines()[-1]
    assert "Traceback" not in told.err
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--groups", "needs at least two groups; all are 'day'"),
        ("--holdout 0.5", "--holdout needs at least 2 episodes; got 1"),
        ("--bootstrap 5", "--bootstrap needs at least 2 episodes; got 1"),
    ],
)
def test_what_the_data_cannot_answer_is_said_before_the_fit(folder, capsys, words, said):
    (folder / "demonstrations.parquet").unlink()
    alone = problem("noisy").demonstrations.select([0])
    replace(alone, groups=np.array(["day"])).save(folder / "demonstrations.parquet")
    out = folder.parent / "run"
    assert main(["recover", str(folder), "--out", str(out), *words.split()]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1  # no line about progress
    assert not out.exists()


def test_the_seed_reaches_what_is_random(folder):
    words = ["recover", str(folder), "--no-report", "--quiet", "--bootstrap", "5", "--seed"]
    runs = []
    for seed in ("1", "2"):
        out = folder.parent / f"run {seed}"
        assert main([*words, seed, "--out", str(out)]) == 0
        runs.append(Run.load(out).recovery)
        assert f"seed={seed}" in runs[-1].estimator
    one, other = (run.identification.reward_intervals for run in runs)
    assert (one != other).any()


def test_nothing_seen_is_nothing_to_recover_from(folder, capsys):
    (folder / "demonstrations.parquet").unlink()
    assert main(["recover", str(folder), "--out", str(folder.parent / "run")]) == 2
    assert "must hold demonstrations to recover from" in capsys.readouterr().err
    assert not (folder.parent / "run").exists()


def test_a_folder_of_somebody_else_is_left_alone(folder, capsys):
    before = sorted(path.name for path in folder.iterdir())
    for out in (folder, folder.parent):
        assert main(["recover", str(folder), "--out", str(out)]) == 4
        told = capsys.readouterr().err
        assert told == f"tacit: the folder holds other things than a run: {out}\n"
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_second_writer_is_refused(folder, capsys):
    out = folder.parent / "run"
    with claimed(out, {}):
        assert main(["recover", str(folder), "--out", str(out)]) == 4
        told = capsys.readouterr().err
    assert told.startswith(f"tacit: {out} is being written by process {os.getpid()} on ")
    assert told.count("\n") == 1


def test_machines_get_numbers_and_people_words(folder, capsys):
    words = ["recover", str(folder), "--out", str(folder.parent / "run"), "--no-report"]
    assert main([*words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    recovery = tacit.recover(*seen_by()["noisy"])
    assert list(data["reward_weights"].values()) == recovery.reward_weights.tolist()
    assert data["status"] == recovery.status.name
    assert data["data"]["steps"] == 20 * 40
    findings = recovery.identification.findings
    assert [one["sentence"] for one in data["findings"]] == list(findings)
    assert {one["kind"] for one in data["findings"]} <= set(tacit.Kind.__members__)
    assert data["parameters"]["estimates"] == recovery.parameters.estimates.tolist()
    assert data["parameters"]["names"] == list(recovery.parameters.names)
    for name in ("log_likelihood", "null_log_likelihood", "aic", "bic"):
        assert data[name] == getattr(recovery, name)
    assert main([*words, "--resume"]) == 0
    told = capsys.readouterr().out
    assert recovery.summary().splitlines()[0] in told
    assert f"written: {folder.parent / 'run'}" in told
    assert main([*words, "--resume", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_further_questions_are_part_of_the_run(folder, capsys):
    task = problem("noisy")
    (folder / "demonstrations.parquet").unlink()
    named = np.array(["day", "night"] * 10)
    replace(task.demonstrations, groups=named).save(folder / "demonstrations.parquet")
    out = folder.parent / "run"
    words = ["recover", str(folder), "--out", str(out), "--no-report", "--estimator", "likelihood"]
    assert main([*words, "--quiet"]) == 0
    run = Run.load(out)
    assert "--groups tests whether" in run.notes[-1]
    assert run.data["groups"] == {"day": 10, "night": 10}
    numbers = run.trajectories["episode"]
    assert (run.trajectories["group"] == named[numbers]).all()
    asked = ["--groups", "--discount-grid", "0.8", "0.9", "--diagnose", "--overwrite"]
    assert main([*words, *asked]) == 0
    run = Run.load(out)
    questions = ["discount_profile", "groups", "diagnose"]
    assert [*run.extras] == questions
    told = capsys.readouterr().out
    for name in questions:
        assert run.extras[name]["sentences"][0] in told
    assert run.extras["diagnose"]["text"] in told


def test_intervals_by_resampling(folder):
    out = folder.parent / "run"
    words = ["recover", str(folder), "--out", str(out), "--no-report", "--quiet"]
    assert main([*words, "--estimator", "convex", "--bootstrap", "12"]) == 0
    run = Run.load(out)
    assert run.config["bootstrap"] == 12
    # Convex has no intervals of its own.
    assert np.isfinite(run.recovery.identification.reward_intervals).all()


def test_figures_for_papers(tmp_path, capsys):
    folder, run = tmp_path / "problem", tmp_path / "run"
    words = ["--temperature", "0.1", "--trajectories", "20", "--steps", "40"]
    assert main(["--quiet", "simulate", "hill-grid", "--out", str(folder), *words]) == 0
    assert main(["--quiet", "recover", str(folder), "--out", str(run), "--no-report"]) == 0
    out = tmp_path / "figures"
    capsys.readouterr()
    words = ["--format", "svg", "--width", "120", "--out", str(out)]
    assert main(["--json", "figures", str(run), *words]) == 0
    written = [Path(one) for one in json.loads(capsys.readouterr().out)["figures"]]
    assert {path.stem for path in written} >= {"weights", "prices", "reward", "policy", "flows"}
    for path in written:
        width = float(re.search(r'width="([0-9.]+)pt"', path.read_text())[1])
        assert width == pytest.approx(120 / 25.4 * 72, rel=1e-3)
    for bad in ("wide", "12", "nan"):
        assert main(["figures", str(run), "--width", bad]) == 2
        assert "width must be" in capsys.readouterr().err


def test_a_belief_is_weighed_against_the_data(folder, tmp_path, capsys):
    believed = tmp_path / "belief.toml"
    believed.write_text("row = [300.0, 50.0]\n'hill by row' = [10, 2]\n")
    words = ["--estimator", "likelihood", "--no-report", "--out", str(tmp_path / "run")]
    asked = ["recover", str(folder), *words, "--belief", str(believed)]
    assert main(asked) == 0
    assert "hill by row" in capsys.readouterr().out
    run = Run.load(tmp_path / "run")
    after = tacit.checks.posterior(run.recovery, {"row": (300.0, 50.0), "hill by row": (10.0, 2.0)})
    assert run.extras["posterior"]["means"] == pytest.approx(after.means)
    assert run.extras["posterior"]["columns"]["from"] == pytest.approx(after.intervals[:, 0])
    assert main([*asked, "--resume"]) == 0
    believed.write_text("row = [200.0, 50.0]\n")  # another belief is another run
    assert main([*asked, "--resume"]) == 2
    for text, complaint in (
        ("rwo = [300.0, 50.0]", "'rwo'"),
        ("row = [1.0, 0.0]", "positive standard deviation"),
        ("row = 3", "positive standard deviation"),
        ("row", "must be TOML"),
    ):
        believed.write_text(text)
        capsys.readouterr()
        assert main([*asked, "--overwrite"]) == 2
        shown = capsys.readouterr().err
        assert complaint in shown
        assert shown.count("\n") == 1


def test_the_answer_is_told_before_anything_is_drawn(folder, tmp_path, capsys, monkeypatch):
    told = []

    def drawn(run, folder, **options):
        told.append(capsys.readouterr().out)
        return Answer(["page"], {"report": "page"})

    monkeypatch.setattr("tacit.cli.report.write_report", drawn)
    run = str(tmp_path / "run")
    assert main(["recover", str(folder), "--out", run]) == 0
    rest = capsys.readouterr().out
    assert "Status:" in told[0]
    assert rest == f"written: {run}, page\n"
    assert main(["recover", str(folder), "--out", run, "--overwrite", "--json"]) == 0
    assert told[1] == ""  # for machines all is one answer, at the end
    json.loads(capsys.readouterr().out)
    assert main(["recover", str(folder), "--out", run, "--resume"]) == 0
    assert "Status:" in told[2]


def test_a_report_of_several_runs_names_them(folder, tmp_path, capsys):
    for name in ("east", "west"):
        out = tmp_path / "groups" / name
        assert main(["recover", str(folder), "--out", str(out), "--quiet", "--no-report"]) in (0, 3)
    capsys.readouterr()
    assert main(["report", str(tmp_path / "groups")]) == 2
    said = capsys.readouterr().err
    assert "east, west" in said
    assert "puts all of them on one page" in said
    assert main(["report", str(tmp_path / "groups" / "east")]) == 0


def test_help_begins_with_the_six_options_that_one_needs_first(capsys):
    assert parse(["recover", "--help"]) is None
    said = capsys.readouterr().out
    first = said[said.index("show this help") : said.index("printing options")]
    words = re.findall(r"^\W*(--[\w-]+)", first, re.M)
    assert words == ["--out", "--estimator", "--resume", "--overwrite", "--by", "--raw-units"]
    assert len(re.findall(r"^tacit recover \w+ --", said, re.M)) == 3
