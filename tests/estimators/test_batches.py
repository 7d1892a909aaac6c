"""Many recoveries in one call are the recoveries one by one, and resampling agrees with theory."""

import subprocess
import sys

import joblib
import numpy as np
import pytest

import tacit
from tacit.engine.backends import Device
from tacit.engine.backends.linear_systems import eliminated
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.inference.expectations import expectations
from tacit.likelihood import lockstep

# The same search on the same numbers: what differs is the order of a few sums.
ROUNDING = 1e-9


def walks(world, *, temperature=0.0025, trajectories=20, steps=200, seed=0):
    expert = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(temperature=temperature))
    return tacit.simulate(
        world.mdp, expert.policy, trajectories=trajectories, steps=steps, seed=seed
    )


@pytest.fixture(scope="module")
def world():
    return tacit.worlds.hill_grid(seed=4, tightness=0.5)


@pytest.fixture(scope="module")
def many(world):
    return [walks(world, seed=seed) for seed in range(5)]


def assert_same(batch, alone):
    for n, recovery in enumerate(alone):
        np.testing.assert_allclose(
            batch.reward_weights[n], recovery.reward_weights, atol=ROUNDING, rtol=0
        )
        for k, weights in enumerate(recovery.cost_weights):
            np.testing.assert_allclose(batch.cost_weights[k][n], weights, atol=ROUNDING, rtol=0)
        np.testing.assert_allclose(batch.multipliers[n], recovery.multipliers, atol=ROUNDING)
        np.testing.assert_allclose(batch.budgets[n], recovery.budgets, atol=ROUNDING)
        assert batch.temperatures[n] == pytest.approx(recovery.temperature, rel=ROUNDING)


@pytest.mark.parametrize("chunk", [None, 2])
def test_a_batch_is_the_recoveries_one_by_one(world, many, chunk):
    batch = tacit.many.recover_many(
        world.mdp, world.features, many, chunk=chunk, estimator=tacit.Convex()
    )
    alone = [
        tacit.recover(world.mdp, world.features, d, estimator=tacit.Convex(), throw=False)
        for d in many
    ]
    assert len(batch) == len(many)
    assert batch.converged.all()
    assert_same(batch, alone)


def test_a_batch_of_likelihoods_is_too(world, many):
    batch = tacit.many.recover_many(world.mdp, world.features, many, estimator=tacit.Likelihood())
    keep_all = tacit.Likelihood(level=1.0)
    alone = [
        tacit.recover(world.mdp, world.features, d, estimator=keep_all, throw=False) for d in many
    ]
    assert_same(batch, alone)


def test_every_problem_may_have_its_own_world_and_features():
    worlds = [tacit.worlds.hill_grid(seed=seed, tightness=0.5) for seed in range(3)]
    many = [walks(w, trajectories=100) for w in worlds]
    batch = tacit.many.recover_many(
        [w.mdp for w in worlds], [w.features for w in worlds], many, estimator=tacit.Convex()
    )
    alone = [
        tacit.recover(w.mdp, w.features, d, estimator=tacit.Convex(), throw=False)
        for w, d in zip(worlds, many, strict=True)
    ]
    assert_same(batch, alone)


def test_visitations_serve_as_well_as_demonstrations(world, many):
    tables = np.stack([expectations(world.mdp, world.features, d).visitation for d in many])
    given = tacit.many.recover_many(world.mdp, world.features, tables, estimator=tacit.Convex())
    batch = tacit.many.recover_many(world.mdp, world.features, many, estimator=tacit.Convex())
    np.testing.assert_array_equal(given.parameters, batch.parameters)


def test_experts_without_noise_are_marked_and_held(world, many):
    optimal = tacit.solve(world.mdp, tacit.Objective(world.truth.reward)).visitation
    noisy = expectations(world.mdp, world.features, many[0]).visitation
    batch = tacit.many.recover_many(
        world.mdp, world.features, np.stack([optimal, noisy]), estimator=tacit.Convex()
    )
    assert batch.deterministic.tolist() == [True, False]
    assert batch.converged.all()
    # The ridge holds what would run off to infinity, at parameters that a person can read.
    assert np.abs(batch.parameters[0]).max() < 1000


def test_one_accelerated_lockstep_gives_the_same(world, many, monkeypatch):
    alone = tacit.many.recover_many(world.mdp, world.features, many, estimator=tacit.Convex())
    monkeypatch.setattr(lockstep, "this_device", lambda: Device(accelerator=True, memory=2**33))
    together = tacit.many.recover_many(world.mdp, world.features, many, estimator=tacit.Convex())
    # Elimination without pivoting instead of LAPACK: rounding, times the condition of the fit.
    np.testing.assert_allclose(together.parameters, alone.parameters, rtol=1e-6, atol=1e-7)


def test_elimination_without_pivoting_solves_chains(world):
    random = np.random.default_rng(0)
    policy = random.dirichlet(np.ones(world.mdp.actions), size=world.mdp.states)
    chain = np.einsum("sa,sat->st", policy, world.mdp.dense())
    matrix = np.eye(world.mdp.states) - 0.99 * chain
    right = random.normal(size=(world.mdp.states, 3))
    import jax

    with jax.enable_x64(True):
        found = np.asarray(eliminated(jax.numpy.asarray(matrix), jax.numpy.asarray(right)))
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-10)


def test_an_evaluation_of_a_small_batch_is_one_compiled_call(world, monkeypatch):
    calls = []
    inner = lockstep._evaluated
    monkeypatch.setattr(lockstep, "_evaluated", lambda *a, **k: calls.append(1) or inner(*a, **k))
    seen = [walks(world, trajectories=100, steps=500, seed=seed) for seed in range(3)]
    found = tacit.many.recover_many(world.mdp, world.features, seen, estimator=tacit.Convex())
    assert len(calls) == found.steps.max()  # the curvature says that larger ones are no better


def test_resampling_agrees_with_the_standard_errors(world):
    seen = walks(world, trajectories=100, steps=500)
    plain = tacit.recover(world.mdp, world.features, seen, estimator=tacit.Likelihood())
    drawn = tacit.recover(
        world.mdp, world.features, seen, estimator=tacit.Likelihood(), bootstrap=300
    )
    theory, resampled = plain.identification, drawn.identification
    # 300 draws know a standard deviation to 4 %, 100 trajectories the law itself to about 10 %.
    for kind in ("reward", "multiplier", "budget"):
        ratio = getattr(resampled, f"{kind}_standard_errors") / getattr(
            theory, f"{kind}_standard_errors"
        )
        assert np.all((ratio > 0.6) & (ratio < 1.6)), (kind, ratio)
    said = [one for one in resampled.findings if one.kind is tacit.Kind.ERRORS][-1]
    assert said.about.number == 300.0
    np.testing.assert_array_equal(plain.reward_weights, drawn.reward_weights)


def test_the_same_seed_resamples_the_same(world, many):
    task = (world.mdp, world.features, many[0])
    one, two = (tacit.recover(*task, estimator=tacit.Convex(), bootstrap=5) for _ in range(2))
    np.testing.assert_array_equal(
        one.identification.reward_intervals, two.identification.reward_intervals
    )
    said = [finding for finding in one.identification.findings if "resampled" in finding]
    assert len(said) == 1
    assert "too narrow" not in said[0]
    other = tacit.recover(*task, estimator=tacit.Convex(), bootstrap=5, seed=1)
    assert (other.identification.reward_intervals != one.identification.reward_intervals).any()


def test_processes_share_a_batch_if_joblib_is_told_so(world, many, monkeypatch):
    """Every problem is searched by itself: to the bit, whoever does it."""
    other = tacit.worlds.hill_grid(seed=5)
    mdps, features = [world.mdp, other.mdp, world.mdp], [world.features] * 3
    told = []
    here = tacit.many.recover_many(mdps, features, many[:3], estimator=tacit.Convex())
    monkeypatch.setattr(lockstep, "PIECES", 2)
    with joblib.parallel_config(n_jobs=2):
        there = tacit.many.recover_many(
            mdps, features, many[:3], callbacks=[told.append], estimator=tacit.Convex()
        )
    np.testing.assert_array_equal(there.reward_weights, here.reward_weights)
    np.testing.assert_array_equal(there.multipliers, here.multipliers)
    assert [event.step for event in told] == [2, 3]


def test_progress_is_told_after_every_chunk(world, many):
    told = []
    tacit.many.recover_many(
        world.mdp, world.features, many, chunk=2, callbacks=[told.append], estimator=tacit.Convex()
    )
    assert [event.step for event in told] == [2, 4, 5]


def test_bad_batches_are_refused_in_one_line(world, many):
    task = (world.mdp, world.features)
    with pytest.raises(InvalidDemonstrations, match="at least one problem"):
        tacit.many.recover_many(*task, [], estimator=tacit.Convex())
    with pytest.raises(InvalidModel, match="mdp must be one MDP, or one a problem, 5; got 2"):
        tacit.many.recover_many([world.mdp] * 2, world.features, many, estimator=tacit.Convex())
    with pytest.raises(InvalidModel, match="works with Convex or Likelihood; got Explanation"):
        tacit.many.recover_many(*task, many, estimator=tacit.Explanation())
    with pytest.raises(InvalidModel, match=r"\[N, S, A\]"):
        tacit.many.recover_many(*task, np.ones((2, 3, 4)), estimator=tacit.Convex())
    other = tacit.worlds.hill_grid(seed=4, discount=0.5)
    with pytest.raises(InvalidModel, match="share states, actions and discount"):
        tacit.many.recover_many(
            [world.mdp] * 4 + [other.mdp], world.features, many, estimator=tacit.Convex()
        )
    with pytest.raises(InvalidModel, match="bootstrap works with Convex or Likelihood"):
        tacit.recover(*task, many[0], estimator=tacit.Explanation(), bootstrap=10)
    with pytest.raises(InvalidDemonstrations, match="at least two trajectories"):
        tacit.recover(*task, many[0].select([0]), estimator=tacit.Likelihood(), bootstrap=10)


def test_budgets_of_held_experts_are_what_they_spend(world):
    """The likelihood's start is no distribution: nothing is spent from there."""
    optimal = tacit.solve(world.mdp, tacit.Objective(world.truth.reward))
    seen = tacit.simulate(world.mdp, optimal.policy, trajectories=30, steps=200, seed=0)
    batch = tacit.many.recover_many(
        world.mdp, world.features, [seen] * 2, estimator=tacit.Likelihood()
    )
    assert batch.deterministic.all()
    most = tacit.solve(world.mdp, tacit.Objective(world.features.costs[0].max(axis=-1))).value
    assert (np.abs(batch.budgets) <= most).all()


@pytest.mark.parametrize("chunk", [0, -1])
def test_a_chunk_is_at_least_one(world, many, chunk):
    with pytest.raises(InvalidModel, match="chunk must be at least 1"):
        tacit.many.recover_many(
            world.mdp, world.features, many[:2], chunk=chunk, estimator=tacit.Convex()
        )


ALL_AT_ONCE = """
import joblib
from tacit.engine import each
with joblib.parallel_config(backend="multiprocessing", n_jobs=2):
    assert list(each(abs, [(-1,), (-2,)])) == [1, 2]
"""


def test_an_engine_that_hands_back_all_at_once_will_do():
    """As Ray's does, which is made of this one. It forks, so in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", ALL_AT_ONCE], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("replicates", [1, -3, 2.5, "20"])
def test_a_wrong_number_of_replicates_is_refused_before_the_work(world, many, replicates):
    told = []
    with pytest.raises(InvalidModel, match="bootstrap must be a whole number of at least 2"):
        tacit.recover(
            world.mdp,
            world.features,
            many[0],
            estimator=tacit.Convex(),
            bootstrap=replicates,
            callbacks=[told.append],
        )
    assert not told
