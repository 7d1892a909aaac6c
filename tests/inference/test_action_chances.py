"""Chances of actions with intervals, for every kind of recovery."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tacit
from experts import grid, policy_of, sampled
from rates import coverage_verdict, rates_of
from tacit import Features, Likelihood
from tacit.errors import InvalidModel
from tacit.model.layout import Layout
from travellers import GOALS, TRUTH, lengths, streets, travelled

QUANTILE = 1.959963984540054


@pytest.fixture(scope="module")
def seen():
    return sampled(trajectories=20)


@pytest.fixture(scope="module")
def found(seen):
    return tacit.recover(grid().mdp, grid().features, seen, estimator=Likelihood())


@pytest.fixture(scope="module")
def trips():
    mdp, features = streets(), lengths(streets())
    walks = travelled(mdp, features.reward @ TRUTH, 80, GOALS, seed=2)
    return tacit.recover(tacit.Trips(mdp, features, walks, discount=1.0))


def test_chances_are_those_of_the_recovered_policy(found):
    prediction = found.predict()
    assert_allclose(prediction.probabilities, found.solution.policy, atol=1e-9)
    assert_allclose(prediction.probabilities.sum(axis=1), 1.0)
    low, high = np.moveaxis(prediction.intervals, 2, 0)
    assert ((low <= prediction.probabilities) & (prediction.probabilities <= high)).all()
    assert ((low >= 0) & (high <= 1)).all()
    some = found.predict([3, 7])
    assert_allclose(some.probabilities, prediction.probabilities[[3, 7]])
    assert_allclose(some.intervals, prediction.intervals[[3, 7]], rtol=1e-5)
    wide = some.at(0.99).intervals
    assert (wide[..., 0] < some.intervals[..., 0]).all()
    assert (wide[..., 1] > some.intervals[..., 1]).all()


@pytest.mark.parametrize(
    "estimator",
    [
        tacit.Convex(),
        tacit.Explanation(),
        tacit.Alternating(),
        tacit.RewardOnly(),
        tacit.Cloning(),
        Likelihood(prior=tacit.features.Ridge(1.0)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_every_estimator_predicts_what_it_recovered(estimator, seen):
    found = tacit.recover(grid().mdp, grid().features, seen, estimator=estimator, throw=False)
    prediction = found.predict()
    assert_allclose(prediction.probabilities, found.behaviour, atol=1e-6)
    there = prediction.available & (prediction.available.sum(axis=1) > 1)[:, None]
    known = np.isfinite(prediction.intervals[there]).all()
    assert known != bool(prediction.absence)


def test_without_bounds_log_odds_have_the_delta_method():
    # A reward of two free weights, far from any bound: derivatives by differences of an oracle.
    world, features = grid().mdp, grid().features.reward_alone
    truth = [np.array([2.0, -3.0])]
    walks = tacit.simulate(
        world, policy_of(world, features, truth), trajectories=100, steps=40, seed=3
    )
    found = tacit.recover(world, features, walks, estimator=Likelihood(free_reward=True))
    p, prediction = found.parameters, found.predict()
    assert prediction.method == "delta"

    def odds(theta):
        chances = policy_of(world, features, [theta])
        return np.log(chances / (1.0 - chances))

    slopes = []
    for step in 1e-4 * np.eye(2):
        slopes.append((odds(p.estimates + step) - odds(p.estimates - step)) / 2e-4)
    errors = np.sqrt(np.einsum("isa,ij,jsa->sa", slopes, p.covariance, slopes))
    ends = odds(p.estimates)[..., None] + errors[..., None] * [-QUANTILE, QUANTILE]
    # Differences leave about the square of their step.
    assert_allclose(prediction.intervals, 1.0 / (1.0 + np.exp(-ends)), rtol=1e-5)


def test_trips_are_predicted_on_the_way_to_their_goals(trips):
    every = trips.predict(goals=5)
    assert set(every.labels["goal"]) == {5}
    policy = trips.solve(5).policy
    assert_allclose(every.probabilities, policy[every.labels["state"]], atol=1e-6)
    mixed = trips.predict([2, 0, 1, 0], goals=[12, 5, 3, 12])
    assert mixed.labels["state"].tolist() == [2, 0, 1, 0]
    for row, (state, goal) in enumerate([(2, 12), (0, 5), (1, 3), (0, 12)]):
        alone = trips.predict([state], goals=goal)
        assert_allclose(mixed.probabilities[row], alone.probabilities[0], atol=1e-9)
        assert_allclose(mixed.intervals[row], alone.intervals[0], rtol=1e-6)
    choices, at, step = trips.choice_model([2, 0], [12, 5]), trips.parameters.estimates, 1e-5
    for j, scores in enumerate(choices.scored(at)[1]):
        move = step * np.eye(3)[j]
        up, down = (choices.scored(at + sign * move)[0] for sign in (1.0, -1.0))
        with np.errstate(invalid="ignore", divide="ignore"):
            slopes = (np.log(up) - np.log(down)) / (2.0 * step)
        assert_allclose(scores[choices.available], slopes[choices.available], atol=1e-8)


def test_parts_are_asked_for_by_number(seen):
    world, features = grid().mdp, grid().features
    halves = seen.select(np.arange(20) < 10), seen.select(np.arange(20) >= 10)
    joint = tacit.recover([tacit.Task(world, features, half) for half in halves])
    for e, one in enumerate(joint.recoveries):
        assert_allclose(joint.predict(part=e).probabilities, one.solution.policy, atol=1e-8)
    with pytest.raises(InvalidModel, match="say which"):
        joint.predict()
    with pytest.raises(InvalidModel, match="from 0 to 1"):
        joint.predict(part=2)
    with pytest.raises(InvalidModel, match="not recovered by itself"):
        joint.recoveries[0].updated(seen)
    mixed = tacit.recover(
        world, features, seen, estimator=tacit.Mixture(types=2, starts=2), throw=False
    )
    chances = mixed.predict(part=1).probabilities
    assert_allclose(chances, mixed.types[1].solution.policy, atol=1e-8)


def test_lapses_are_mixed_in(seen):
    found = tacit.recover(
        grid().mdp, grid().features, seen, estimator=Likelihood(lapses=0.1), throw=False
    )
    prediction = found.predict()
    assert_allclose(prediction.probabilities, found.behaviour, atol=1e-9)
    assert (prediction.intervals[..., 0] > 0.9 * 0.1 / grid().mdp.actions).all()


def test_other_worlds_and_recoveries_that_were_loaded_are_told_theirs(found, tmp_path):
    found.save(tmp_path / "run")
    loaded = tacit.Recovery.load(tmp_path / "run")
    bare = loaded.predict()
    assert "give world=" in bare.absence
    assert_allclose(bare.probabilities, found.solution.policy)
    assert np.isnan(bare.intervals).all()
    told = loaded.predict(world=grid().mdp, features=grid().features)
    assert_allclose(told.intervals, found.predict().intervals, rtol=1e-6)
    other = grid(2)
    there = found.predict(world=other.mdp)
    sizes = np.cumsum([len(found.reward_names)])
    theta = np.split(found.parameters.estimates, sizes)
    assert_allclose(there.probabilities, policy_of(other.mdp, grid().features, theta), atol=1e-7)
    noiseless = replace(found, temperature=0.0).predict([1])
    assert "noise of the demonstrator is not known" in noiseless.absence


def test_frames_name_what_they_show(found):
    frame = found.predict([2]).frame()
    assert frame.columns == ["state", "action", "probability", "lower", "upper"]
    assert frame["action"].to_list() == [f"action {a}" for a in range(4)]
    names = Layout(
        state_names=tuple(f"room {s}" for s in range(25)), action_names=("n", "s", "w", "e")
    )
    assert found.predict([2]).frame(names).row(1)[:2] == ("room 2", "s")
    assert "25 places" in repr(found.predict())


def test_what_cannot_be_asked_is_refused_in_one_line(found, trips):
    one = Features(grid().features.reward[..., :1], grid().features.costs)
    for ask, words in (
        (lambda: found.predict([99]), "numbers from 0 to 24"),
        (lambda: found.predict(["room"]), "numbers from 0 to 24"),
        (lambda: found.predict([0.5]), "numbers from 0 to 24"),
        (lambda: found.predict(goals=3), "goals are for trips"),
        (lambda: found.predict(features=one), "must be those of the recovery"),
        (lambda: found.predict(confidence=2.0), "confidence"),
        (lambda: trips.predict(), "need goals"),
        (lambda: trips.predict(goals=[3, 5]), "for one goal"),
        (lambda: trips.predict([1, 2, 4], goals=[3, 5]), "one or 3"),
        (lambda: trips.predict([3], goals=3), "not be the goal"),
    ):
        with pytest.raises(InvalidModel, match=words) as caught:
            ask()
        assert "\n" not in str(caught.value)


@pytest.mark.study
def test_intervals_of_chances_hold_as_often_as_they_say():
    world = grid()
    theta = [np.array([3.0, 2.0]), np.array([0.0, 1.5, 1.0, 0.0])]
    truth, hits = policy_of(world.mdp, world.features, theta), []
    for seed in range(200):
        walks = tacit.simulate(world.mdp, truth, trajectories=40, steps=40, seed=seed)
        found = tacit.recover(world.mdp, world.features, walks, estimator=Likelihood(level=1.0))
        low, high = np.moveaxis(found.predict().intervals, 2, 0)
        hits.append(((low <= truth) & (truth <= high)).ravel())
    assert coverage_verdict(rates_of("chances", np.array(hits))).reached
