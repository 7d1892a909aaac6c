"""The fit of each trajectory: one pass, whatever the batches, and honest about chance."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tacit
from experts import grid, joined, sampled
from kinds import told
from tacit import Demonstrations
from tacit.checks import reliability
from tacit.checks.reliability import trajectory_fits
from tacit.inference.findings import Kind
from tacit.search.algebra import coarse


@pytest.fixture(scope="module")
def seen():
    return joined(sampled(), sampled(trajectories=7, steps=3, seed=1))


@pytest.fixture(scope="module")
def found(seen):
    world = grid()
    return tacit.recover(world.mdp, world.features, seen, estimator=tacit.Likelihood())


def test_each_number_is_what_a_loop_over_the_steps_gives(seen, found):
    policy = found.solution.policy
    result = trajectory_fits(found, seen)
    assert sorted(result.episode) == list(range(seen.episodes))
    for row, episode in enumerate(result.episode):
        states, actions = seen.trajectory(episode)
        logs = np.log(policy[states, actions])
        means = (policy[states] * np.log(policy[states])).sum(axis=1)
        squares = (policy[states] * np.log(policy[states]) ** 2).sum(axis=1)
        assert result.steps[row] == len(states)
        assert_allclose(result.log_likelihood[row], logs.mean(), rtol=1e-12)
        assert_allclose(result.expected[row], means.mean(), rtol=1e-12)
        z = (logs - means).sum() / np.sqrt((squares - means**2).sum())
        assert_allclose(result.z_score[row], z, rtol=1e-8)  # a difference of squares
        best = policy[states].max(axis=1) * (1 - 1e-6)  # corner moves tie, but for rounding
        assert_allclose(result.share_optimal[row], (policy[states, actions] >= best).mean())
    assert (np.diff(coarse(result.z_score)) >= 0).all(), "the worst first"


@pytest.mark.parametrize("size", [1, 2, 59, 60, 61, 500])
def test_batches_do_not_matter(seen, found, size, monkeypatch):
    whole = trajectory_fits(found, seen)
    monkeypatch.setattr(reliability, "BATCH", size)
    parts = trajectory_fits(found, seen)
    assert_array_equal(parts.episode, whole.episode)
    for name, column in whole.columns.items():
        assert_allclose(parts.columns[name], column, rtol=1e-9, err_msg=name)


def peak_memory(found, seen) -> int:
    """Bytes that NumPy takes beyond the demonstrations."""
    trajectory_fits(found, seen)  # what the first call imports
    tracemalloc.start()
    trajectory_fits(found, seen)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_is_that_of_a_batch(found, monkeypatch):
    monkeypatch.setattr(reliability, "BATCH", 10_000)
    # A dozen numbers of eight bytes for each of the 10 000 steps of a batch, not of all 200 000.
    assert peak_memory(found, sampled(trajectories=100, steps=2000)) < 10_000 * 12 * 8


def test_memory_does_not_know_the_size_of_the_world(found):
    # A table of episode x state x action would be 100 numbers an episode.
    assert peak_memory(found, sampled(trajectories=20_000, steps=1)) < 20_000 * 50 * 8


def exact_tail(policy: np.ndarray, states: list[int], total: float) -> float:
    """Chance that actions drawn in these states are this unlikely or more, by enumeration."""
    sums, chances = np.zeros(1), np.ones(1)
    for state in states:
        sums = np.add.outer(sums, np.log(policy[state])).ravel()
        chances = np.multiply.outer(chances, policy[state]).ravel()
    return float(chances[sums <= total + 1e-9].sum())


def test_chances_are_those_of_the_recovered_policy(found):
    # A skewed sum of eight steps. The gamma law is within the mesh of the discrete law, 0.01; the
    # normal law is off by 0.04.
    policy, worst = found.solution.policy, 0.0
    states = list(np.argsort(policy.max(axis=1))[[3, 5, 7, 9, 11, 13, 14, 15]])
    rng = np.random.default_rng(0)
    for _ in range(12):
        actions = [rng.choice(policy.shape[1], p=policy[s]) for s in states]
        result = trajectory_fits(found, Demonstrations.from_trajectories([(states, actions)]))
        total = float(result.log_likelihood[0] * len(states))
        worst = max(worst, abs(result.p_value[0] - exact_tail(policy, states, total)))
    assert worst < 0.02


def test_false_alarms_are_as_rare_as_said_even_for_short_trajectories(found):
    fresh = sampled(found.solution.policy, trajectories=2000, steps=12, seed=3)
    p_values = trajectory_fits(found, fresh).p_value
    # Four standard errors of a share of 2000. The normal law gives 0.0055 at 0.001.
    for level, room in ((0.05, 0.02), (0.2, 0.04), (0.001, 0.003)):
        assert abs((p_values <= level).mean() - level) < room, level


def test_a_stranger_is_found_and_named(found):
    stranger = sampled(np.full_like(found.solution.policy, 0.25), trajectories=1, seed=5)
    result = trajectory_fits(found, joined(sampled(), stranger, sampled(seed=9)))
    assert result.episode[0] == 40
    assert result.p_value[0] < 1e-6 < result.p_value[1:].min()
    assert told(result.sentences, Kind.MISFIT, trajectory=40)
    for usual in (sampled(), sampled(trajectories=1)):
        assert [one.kind for one in trajectory_fits(found, usual).sentences] == [Kind.NOTE]


# --- an expert without noise ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def optimal():
    world = grid()
    seen = sampled(tacit.solve(world.mdp, world.truth).policy, trajectories=20, steps=50)
    estimator = tacit.Explanation()
    return seen, tacit.recover(world.mdp, world.features, seen, estimator=estimator)


def test_without_noise_the_share_of_optimal_steps_is_given(optimal):
    seen, found = optimal
    result = trajectory_fits(found, seen, mdp=grid().mdp)
    assert (result.share_optimal == 1.0).all(), "an explanation explains every step"
    assert np.isnan(result.log_likelihood).all()
    assert np.isnan(result.p_value).all()
    assert not result.noisy
    assert [one.about.number for one in result.sentences] == [1.0]


def test_without_noise_the_worst_comes_first(optimal):
    seen, found = optimal
    world = grid()
    rng = np.random.default_rng(0)
    states, actions = (np.array(column) for column in seen.trajectory(3))
    actions = rng.integers(0, 4, len(actions))
    mixed = joined(seen, Demonstrations.from_trajectories([(states, actions)]))
    result = trajectory_fits(found, mixed, mdp=world.mdp)
    assert result.episode[0] == 20
    assert result.share_optimal[0] < 0.8
    assert told(result.sentences, Kind.NOTE, trajectory=20, number=result.share_optimal[0])
    # 99.9 % is never rounded to all.
    assert not result.sentences[0].startswith("All")


# --- bad days -------------------------------------------------------------------------------------


def test_steps_of_another_world_are_refused(found):
    with pytest.raises(tacit.InvalidDemonstrations, match=r"state must be in 0\.\.24.*episode 1"):
        trajectory_fits(found, Demonstrations.from_trajectories([([3], [0]), ([25], [0])]))
    with pytest.raises(tacit.InvalidDemonstrations, match=r"action must be in 0\.\.3"):
        trajectory_fits(found, Demonstrations.from_trajectories([([3], [4])]))


def test_a_certain_action_is_no_surprise_and_an_impossible_one_is():
    world = grid()
    seen = sampled(tacit.solve(world.mdp, world.truth).policy, trajectories=3, steps=20)
    found = tacit.recover(
        world.mdp, world.features, seen, estimator=tacit.Likelihood(), throw=False
    )
    policy = np.zeros_like(found.solution.policy)
    policy[:, 0] = 1.0
    certain = replace(found, solution=replace(found.solution, policy=policy))
    pair = Demonstrations.from_trajectories([([0, 1], [0, 0]), ([0, 1], [0, 1])])
    result = trajectory_fits(certain, pair)
    assert_array_equal(result.episode, [1, 0])
    assert_array_equal(result.z_score, [-np.inf, 0.0])
    assert_array_equal(result.p_value, [0.0, 1.0])
    assert np.isfinite(result.log_likelihood).all()
