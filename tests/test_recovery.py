"""A recovery: what it says, that it survives the disk, and that a damaged folder does not load."""

import hashlib
import json
import os
from dataclasses import fields, replace

import numpy as np
import pytest

import tacit
import travellers
import walks
from refusals import refusal
from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidDemonstrations, InvalidModel, NotConverged
from tacit.estimators.paper.alternating import Alternating
from tacit.estimators.recover import DETERMINISTIC, choose, recover
from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.atomic import read_page, write_page
from tacit.forward.column_generation import ColumnGeneration
from tacit.forward.simulation import simulate
from tacit.forward.soft_dual import SoftDual
from tacit.forward.solve import solve
from tacit.inference.diagnostics import Identification
from tacit.inference.findings import Finding, Kind
from tacit.inference.sets import unidentified
from tacit.model.objective import Features
from tacit.recovery import (
    NO_PARAMETERS,
    History,
    Recovery,
    RecoveryCertificate,
    RecoveryStatus,
    delivered,
)
from tacit.worlds import hill_grid
from tacit.worlds import random as random_world


def example(*, solver=None, constraints: int = 2, budgets=None) -> Recovery:
    """A recovery made by hand, with names, intervals, a history and odd numbers in it."""
    world = random_world(3, states=6, actions=2, constraints=constraints)
    truth = world.truth
    if budgets is not None:
        truth = world.features.objective(world.reward_weights, world.cost_weights, budgets)
    solution = (solver or ColumnGeneration()).solve(world.mdp, truth, throw=False)
    known = unidentified(
        world.reward_weights,
        world.cost_weights,
        active=np.arange(constraints) == 0,
        findings=[Finding("Constraint 1 is not identified: it never mattered — «so be it».")],
    )
    known = replace(known, reward_intervals=[[0.0, 1.0], [0.25, np.inf], [np.nan, np.nan]])
    return Recovery(
        reward_weights=world.reward_weights,
        cost_weights=[w if k == 0 else w * np.nan for k, w in enumerate(world.cost_weights)],
        multipliers=[1.5, 0.0][:constraints],
        budgets=[2.0, np.inf][:constraints],
        temperature=solution.temperature,
        objective=truth,
        solution=solution,
        status=RecoveryStatus.NOT_CONVERGED,
        certificate=RecoveryCertificate(feature_gap=0.1 + 0.2, sampling_noise=np.inf),
        history=History(
            {
                "iteration": np.arange(3),
                "feature_gap": [0.5, np.nan, 1e-300],
                "raised": [True, False, True],
                "reward_weights": np.arange(9.0).reshape(3, 3),
                "multipliers": np.zeros((3, constraints)),
            }
        ),
        identification=known,
        estimator="Alternating(seed=3)",
        reward_names=("sun", "wind", "[rain]"),
        cost_names=(("a", "b", "c"),) * constraints,
    )


def same(one, other) -> None:
    """Asserts that two values are the same bit for bit, whatever they are made of."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()
    elif isinstance(one, tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for name in one:
            same(one[name], other[name])
    elif hasattr(one, "__dataclass_fields__"):
        for field in fields(one):
            if not callable(getattr(one, field.name)):
                same(getattr(one, field.name), getattr(other, field.name))
    else:
        assert one == other or (one != one and other != other)


# --- the disk -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solver", "constraints", "budgets"),
    [
        (ColumnGeneration(), 2, None),
        (SoftDual(temperature=0.5), 1, None),
        (ColumnGeneration(), 0, None),
        (ColumnGeneration(), 2, [-50.0, -50.0]),  # infeasible: the proof is kept
    ],
)
def test_what_is_saved_is_what_is_loaded(tmp_path, solver, constraints, budgets):
    recovery = example(solver=solver, constraints=constraints, budgets=budgets)
    recovery.save(tmp_path / "deep" / "run")
    assert sorted(p.name for p in (tmp_path / "deep" / "run").iterdir()) == [
        "history.parquet",
        "recovery.npz",
        "run.json",
    ]
    loaded = Recovery.load(tmp_path / "deep" / "run")
    same(recovery, loaded)
    assert loaded.summary() == recovery.summary()


def test_a_fitted_recovery_survives(tmp_path):
    world = hill_grid(0, tightness=0.5)
    walks = simulate(world.mdp, solve(world.mdp, world.truth).policy, trajectories=20, steps=100)
    for features in (world.features, Features(world.features.reward)):
        fitted = Alternating(starts=1, max_steps=5).fit(world.mdp, features, walks, throw=False)
        fitted.save(tmp_path)
        same(fitted, Recovery.load(tmp_path))


def test_the_page_is_plain_json_for_people(tmp_path):
    example().save(tmp_path)

    def refuse(word: str):
        raise AssertionError(f"{word} is no JSON")

    text = (tmp_path / "run.json").read_text(encoding="utf-8")
    page = json.loads(text, parse_constant=refuse)
    assert page["status"] == "NOT_CONVERGED"
    assert page["certificate"]["feature_gap"] == 0.1 + 0.2
    assert page["certificate"]["sampling_noise"] == "inf"
    assert "«so be it»" in text
    assert set(page["versions"]) >= {"tacit", "numpy", "python", "jax", "scipy"}


@pytest.mark.parametrize("name", ["recovery.npz", "history.parquet", "run.json"])
def test_a_missing_part_is_named(tmp_path, name):
    example().save(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(OSError, match=name.replace(".", r"\.")):
        Recovery.load(tmp_path)


@pytest.mark.parametrize("name", ["recovery.npz", "history.parquet", "run.json"])
def test_garbage_is_refused_in_plain_words(tmp_path, name):
    example().save(tmp_path)
    (tmp_path / name).write_text("what is this")
    with pytest.raises(OSError, match=name.replace(".", r"\.")) as caught:
        Recovery.load(tmp_path)
    assert "pickle" not in str(caught.value)


# NumPy leaves a damaged archive open until it is collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_any_flipped_byte_of_the_numbers_is_noticed(tmp_path):
    example().save(tmp_path)
    path = tmp_path / "recovery.npz"
    content = path.read_bytes()
    loaded = Recovery.load(tmp_path)
    unnoticed = []
    for place in range(0, len(content), 97):
        changed = bytearray(content)
        changed[place] ^= 0x10
        path.write_bytes(bytes(changed))
        try:
            # Some bytes of a zip file (dates, attributes) mean nothing: then nothing has changed.
            same(loaded, Recovery.load(tmp_path))
        except OSError:
            continue
        except Exception as error:
            unnoticed.append((place, repr(error)))
    assert unnoticed == []


def test_parts_of_two_runs_do_not_make_one(tmp_path):
    example().save(tmp_path / "a")
    replace(example(), multipliers=[1.25, 0.0]).save(tmp_path / "b")
    os.replace(tmp_path / "b" / "recovery.npz", tmp_path / "a" / "recovery.npz")
    with pytest.raises(OSError, match="another run"):
        Recovery.load(tmp_path / "a")


def test_a_missing_array_is_noticed(tmp_path):
    example().save(tmp_path)
    with np.load(tmp_path / "recovery.npz") as archive:
        arrays = {name: archive[name] for name in archive.files if "checksums" not in name}
    del arrays["solution.values"]
    np.savez(tmp_path / "recovery.npz", **arrays)
    with pytest.raises(OSError, match="another run"):
        Recovery.load(tmp_path)


def test_a_full_disk_leaves_the_old_run_and_no_debris(tmp_path, monkeypatch):
    old = example()
    old.save(tmp_path)

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            replace(old, multipliers=[9.0, 0.0]).save(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    same(old, Recovery.load(tmp_path))


@pytest.mark.parametrize(
    ("version", "mend"),
    [
        (None, "saved before there were versions: recover again, tacit recover PROBLEM --out "),
        ("1", "saved before there were versions: recover again"),
        (99, "of version 1 of its form or less, which this tacit reads; it is of version 99: up"),
        (0, "it is of version 0"),
    ],
)
def test_a_run_of_another_form_is_refused_with_what_to_do(tmp_path, version, mend):
    example().save(tmp_path)
    page = read_page(tmp_path / "run.json")
    assert page["version"] == 1
    page.pop("version")
    write_page(tmp_path / "run.json", page if version is None else {**page, "version": version})
    for load in (Recovery.load, tacit.runs.Run.load):
        with refusal(tacit.TacitError, mend):
            load(tmp_path)
    example().save(tmp_path)  # who writes over it need not be able to read it
    same(example(), Recovery.load(tmp_path))


def test_a_run_is_read_wherever_its_classes_have_moved_since(tmp_path):
    example().save(tmp_path)
    path, page = tmp_path / "recovery.npz", read_page(tmp_path / "run.json")
    arrays = read_arrays(path)
    skeleton = str(arrays["skeleton"])
    for kind in (Recovery, tacit.RecoveryStatus, tacit.Objective):
        name = f'"{kind.__module__}.{kind.__qualname__}"'
        assert name in skeleton
        skeleton = skeleton.replace(name, f'"tacit.estimators.elsewhere.{kind.__qualname__}"')
    write_arrays(path, {**arrays, "skeleton": np.array(skeleton)})
    total = hashlib.sha256(path.read_bytes()).hexdigest()
    page["files"]["recovery.npz"] = total
    write_page(tmp_path / "run.json", page)
    same(example(), Recovery.load(tmp_path))


# --- words ----------------------------------------------------------------------------------------


def test_the_summary_says_what_is_wanted_refused_and_not_known():
    text = example().summary()
    lines = text.splitlines()
    wanted = lines[lines.index("What it wants: weights of the reward") + 2 :][:3]
    recovery = example()
    heaviest = recovery.reward_names[int(np.argmax(recovery.reward_weights))]
    assert wanted[0].split()[0] == heaviest
    assert all(name in text for name in recovery.reward_names)
    assert "[0.25, inf]" in text
    budgets = lines[lines.index("Budgets and prices") :]
    assert budgets[2].split()[:3] == ["constraint", "0", "2"]
    assert "1.5" in budgets[2].split()
    assert "Weights of the cost 1: not identified, nothing these demonstrations show." in text
    assert "stopped before the tolerance was met" in text
    assert "«so be it»" in text
    assert "nan" not in text
    assert max(map(len, lines)) <= 88


def test_a_summary_of_many_features_counts_the_rest():
    recovery = replace(
        example(),
        parameters=NO_PARAMETERS,
        reward_weights=np.full(40, 1 / 40),
        reward_names=[f"feature {j}" for j in range(40)],
        identification=replace(
            example().identification,
            reward_intervals=np.full((40, 2), np.nan),
            reward_standard_errors=np.full(40, np.nan),
        ),
    )
    assert "and 28 more" in recovery.summary()


def test_names_are_made_up_where_there_are_none():
    recovery = replace(example(), reward_names=(), cost_names=())
    assert recovery.reward_names == ("reward feature 0", "reward feature 1", "reward feature 2")
    assert recovery.cost_names[1][2] == "cost 1 feature 2"


def test_printing_is_short():
    assert repr(example()).startswith("Recovery(NOT_CONVERGED, reward_weights=[")
    assert len(repr(example())) < 120


def test_only_a_missed_tolerance_raises():
    for status in RecoveryStatus:
        recovery = replace(example(), status=status)
        assert delivered(recovery, throw=False) is recovery
        if status is RecoveryStatus.NOT_CONVERGED:
            with pytest.raises(NotConverged, match="before the tolerance") as caught:
                delivered(recovery, throw=True)
            assert caught.value.result is recovery
        else:
            assert delivered(recovery, throw=True) is recovery


# --- the nouns ------------------------------------------------------------------------------------


def test_arrays_of_a_recovery_are_its_own_and_read_only():
    weights = np.array([0.5, 0.25, 0.25])
    recovery = replace(example(), reward_weights=weights)
    weights[0] = 7.0
    assert recovery.reward_weights[0] == 0.5
    for array in (
        recovery.reward_weights,
        recovery.cost_weights[0],
        recovery.multipliers,
        recovery.history["feature_gap"],
        recovery.identification.reward_intervals,
        recovery.identification.active,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_an_estimator_without_intervals_says_so_by_nan():
    known = unidentified(np.ones(2), [np.ones(3), np.ones(1)], active=[True, False])
    assert isinstance(known, Identification)
    assert known.reward_intervals.shape == (2, 2)
    assert [part.shape for part in known.cost_intervals] == [(3, 2), (1, 2)]
    assert known.multiplier_intervals.shape == known.budget_intervals.shape == (2, 2)
    assert [part.shape for part in known.cost_standard_errors] == [(3,), (1,)]
    assert np.isnan(known.reward_intervals).all()
    assert np.isnan(known.budget_standard_errors).all()


def test_a_history_has_equally_long_columns():
    assert len(History({})) == 0
    assert len(History({"a": [1, 2]})) == 2
    with pytest.raises(AssertionError, match="equally long"):
        History({"a": [1, 2], "b": [1]})


# --- the verb -------------------------------------------------------------------------------------


def test_recover_checks_the_border_before_it_fits():
    class Never:
        def fit(self, *_, **__):
            raise AssertionError("the estimator was called")

    world = hill_grid(0)
    walks = Demonstrations([0], [0], [0, 1])
    with pytest.raises(InvalidDemonstrations, match="every action"):
        recover(world.mdp, world.features, Demonstrations([0], [9], [0, 1]), estimator=Never())
    with pytest.raises(InvalidModel, match="reward features"):
        recover(world.mdp, Features(np.ones((3, 1))), walks, estimator=Never())


def test_a_problem_is_recovered_as_what_it_holds_in_memory_or_from_its_folder(tmp_path):
    world = hill_grid(4, tightness=0.5)
    policy = SoftDual(temperature=0.0025).solve(world.mdp, world.truth).policy
    seen = simulate(world.mdp, policy, trajectories=30, steps=100, seed=0)
    known = {"start": {"row": 1.0}}
    problem = tacit.runs.Problem(world.mdp, world.features, seen, coefficients=known)
    problem.save(tmp_path / "p")
    plain = recover(world.mdp, world.features, seen, estimator=tacit.Likelihood(start={"row": 1.0}))
    for given in (problem, tmp_path / "p", str(tmp_path / "p")):
        found = recover(given)
        np.testing.assert_array_equal(found.reward_weights, plain.reward_weights)
        assert found.estimator == plain.estimator  # with what the folder knows of coefficients
    with pytest.raises(InvalidModel, match="their own features"):
        recover(problem, world.features)
    with pytest.raises(InvalidModel, match="is for --estimator likelihood"):
        recover(problem, estimator=tacit.Explanation())
    convex = recover(problem, estimator=tacit.Convex())
    begun = tacit.Convex(start={"row": 1.0}).fit(world.mdp, world.features, seen)
    np.testing.assert_array_equal(convex.reward_weights, begun.reward_weights)
    with pytest.raises(InvalidModel, match="mdp must be a MDP"):
        recover(7)


def test_a_problem_of_trips_is_recovered_as_trips():
    mdp = travellers.streets()
    features = travellers.lengths(mdp)
    seen = travellers.travelled(mdp, features.reward @ travellers.TRUTH, 60, travellers.GOALS)
    problem = tacit.runs.Problem(mdp, features, seen, goal="last", discount=1.0)
    found, plain = recover(problem), recover(tacit.Trips(mdp, features, seen, discount=1.0))
    np.testing.assert_array_equal(found.parameters.estimates, plain.parameters.estimates)


def test_recover_asks_the_estimator_and_raises_what_it_amounts_to():
    world = hill_grid(0, tightness=0.5)
    walks = simulate(world.mdp, solve(world.mdp, world.truth).policy, trajectories=9, steps=50)
    short = Alternating(starts=1, max_steps=1, band=0.0)
    kept = recover(world.mdp, world.features, walks, estimator=short, throw=False)
    assert kept.status is RecoveryStatus.NOT_CONVERGED
    with pytest.raises(NotConverged):
        recover(world.mdp, world.features, walks, estimator=short)
    assert kept.estimator == repr(short)


def test_an_expert_that_varies_is_taken_for_noisy_and_one_that_does_not_for_optimal():
    picked = {}
    for name in ("exact", "noisy"):
        estimator, reason = choose(*walks.seen_by()[name])
        picked[name] = type(estimator)
        assert reason.kind is Kind.CHOICE
        assert (reason.about.number > DETERMINISTIC) == (name == "exact")
    assert picked == {"exact": tacit.Explanation, "noisy": tacit.Likelihood}
