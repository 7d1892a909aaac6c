"""Sets that hold at all times, and how much more must be seen."""

from dataclasses import replace

import numpy as np
import pytest

import experts
import tacit
from tacit.stream.anytime import falls_behind

THETA = [np.array([2.5, 1.5]), np.array([1.5, 0.5])]


@pytest.fixture(scope="module")
def world():
    return tacit.worlds.random(3, states=8, actions=3, constraints=1, features=2, tightness=0.5)


def steps(world, seed, many=50, theta=THETA):
    policy = experts.policy_of(world.mdp, world.features, theta)
    return tacit.simulate(world.mdp, policy, trajectories=many, steps=20, seed=seed)


def recovered(world, seen):
    return tacit.recover(world.mdp, world.features, seen, estimator=tacit.Likelihood())


@pytest.fixture(scope="module")
def later(world):
    recovery = recovered(world, steps(world, 0))
    for seed in range(1, 6):
        recovery = recovery.updated(steps(world, seed))
    return recovery


def test_every_batch_is_predicted_by_what_came_before(world):
    first, parts = recovered(world, steps(world, 0)), [steps(world, seed) for seed in (1, 2)]
    second = first.updated(parts[0])
    third, total = second.updated(parts[1]), 0.0
    for before, part in zip((first, second), parts, strict=True):
        share = 0.1 / (0.1 + before.observed_steps)
        chances = (1.0 - share) * before.behaviour + share / 3.0
        total += np.log(chances[part.states, part.actions]).sum()
    assert third.origin.predictions.log_likelihood == pytest.approx(total, rel=1e-12)
    counts = sum(part.counts(world.mdp) for part in parts)
    assert np.array_equal(third.origin.predictions.counts, counts)


def test_intervals_are_those_of_the_set(world, later):
    found, rng = later.anytime(), np.random.default_rng(0)
    here = later.parameters
    assert found.names == here.names
    drawn = here.estimates + rng.normal(size=(200, 4)) * 2.0 * here.standard_errors
    inside = [x for x in drawn if falls_behind(later, x) <= np.log(20.0)]
    assert 20 < len(inside) < 200
    ends = found.intervals
    assert all((ends[:, 0] <= x).all() and (x <= ends[:, 1]).all() for x in inside)
    # Nothing of the set lies at an end but one point: the others are fitted there.
    bounded = np.maximum(ends[:, 0], 0.0)
    assert np.array_equal(ends[:, 0], bounded)
    assert falls_behind(later, np.concatenate(THETA)) <= np.log(20.0)
    ratio = np.diff(ends, axis=1) / np.diff(here.intervals, axis=1)
    assert (ratio > 1.2).all()  # looking at any time has a price
    assert (ratio < 4.0).all()
    wider = np.diff(later.anytime(confidence=0.99).intervals, axis=1)
    assert (wider > np.diff(ends, axis=1)).all()


def test_a_set_from_which_all_have_fallen_behind_is_empty(later):
    sure = replace(later.origin.predictions, log_likelihood=0.0)  # nothing was ever a surprise
    found = later.with_origin(replace(later.origin, predictions=sure)).anytime()
    assert found.leeway < 0
    assert np.isnan(found.intervals).all()
    assert found.finding.kind is tacit.Kind.MISFIT


def test_there_is_no_set_without_predictions(world):
    recovery = recovered(world, steps(world, 0))
    with pytest.raises(tacit.InvalidModel, match="predicted"):
        recovery.anytime()
    with pytest.raises(tacit.InvalidModel, match="predicted"):
        recovery.updated(steps(world, 1), forget=1000).anytime()


def test_four_times_the_steps_halve_an_interval(world, later):
    now = np.diff(later.identification.cost_intervals[0][0])[0]
    found = later.more_needed(0.5 * now, "cost feature 0")
    assert found.now == pytest.approx(now)
    assert found.steps == pytest.approx(3.0 * later.observed_steps)
    assert found.trajectories == pytest.approx(found.steps / 20.0)
    low, high = found.steps_interval
    assert low < found.steps < high
    more = later.updated(steps(world, 7, many=round(found.trajectories)))
    after = np.diff(more.identification.cost_intervals[0][0])[0]
    assert after == pytest.approx(0.5 * now, rel=0.2)
    assert later.more_needed(2.0 * now, "cost feature 0").steps == 0.0


def test_more_needed_names_what_it_is_about(later):
    widest = later.more_needed(0.01)
    ends = later.identification
    assert widest.now == max(
        np.diff(ends.reward_intervals).max(),
        np.diff(ends.cost_intervals[0]).max(),
        np.diff(ends.multiplier_intervals).max(),
    )
    assert str(widest.name) in str(widest)
    with pytest.raises(tacit.InvalidModel, match="no weight or price"):
        later.more_needed(0.1, "prise 0")
    with pytest.raises(tacit.InvalidModel, match="width"):
        later.more_needed(0.0)
