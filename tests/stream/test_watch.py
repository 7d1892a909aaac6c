"""Alarms: what they promise, checked by inequalities and by sums written out."""

import numpy as np
import pytest
from scipy.special import logsumexp

import experts
import tacit
from tacit.stream.reference import NEVER, Reference
from tacit.stream.watch import LIFETIME

THETA = [np.array([2.5, 1.5]), np.array([1.5, 0.5])]


@pytest.fixture(scope="module")
def world():
    return tacit.worlds.random(3, states=8, actions=3, constraints=1, features=2, tightness=0.5)


def steps(world, theta, seed, many=100, length=20):
    policy = experts.policy_of(world.mdp, world.features, theta)
    return tacit.simulate(world.mdp, policy, trajectories=many, steps=length, seed=seed)


@pytest.fixture(scope="module")
def reference(world):
    seen = steps(world, THETA, 0)
    return tacit.recover(world.mdp, world.features, seen, estimator=tacit.Likelihood())


@pytest.fixture(scope="module")
def doubled(world):
    return [THETA[0], 2.0 * THETA[1]]


def log_likelihood(world, theta, counts):
    policy = experts.policy_of(world.mdp, world.features, np.split(theta, [2]))
    return float((counts * np.log(policy)).sum())


def test_no_demonstrator_of_the_set_is_likelier_than_the_bound(world, reference, doubled):
    known = Reference.of(reference, confidence=0.95)
    counts = steps(world, doubled, 1).counts(world.mdp)
    sums = known.sums(counts)[None]
    near, pulls = known.largest_near(sums)
    bound = known.largest(counts, float(pulls[0]))
    rng, scales = np.random.default_rng(0), known.chain.space.scales
    root = np.linalg.inv(np.linalg.cholesky(known.information)).T
    away = rng.normal(size=(300, len(known.centre)))
    away /= np.linalg.norm(away, axis=1)[:, None]
    places = known.centre + np.sqrt(known.radius) * away @ root.T
    inside = places[(places >= known.problem.lower).all(axis=1)]
    assert len(inside) > 50
    found = max(log_likelihood(world, x / scales, counts) for x in inside)
    assert found <= bound + 1e-9
    assert found > bound - 2.0  # and it is near: 300 points of the edge
    # To second order the bound is the same but for what bends more.
    assert near[0] + sums[0, 0] == pytest.approx(bound, abs=0.1 * abs(bound - sums[0, 0]) + 1.0)


def test_chances_of_a_change_outside_the_model_are_predictions(world, reference):
    known = Reference.of(reference, confidence=0.95)
    seen = steps(world, THETA, 2, many=3)
    each = []
    for belief in (3.0, 30.0):
        counts = belief * np.maximum(known.part.policy, NEVER)
        total = 0.0
        for s, a in zip(seen.states, seen.actions, strict=True):
            total += np.log(counts[s, a] / counts[s].sum())
            counts[s, a] += 1.0
        each.append(total)
    counts = seen.counts(world.mdp)
    sums = known.sums(counts)[None]
    outside = known.gains(sums, counts[None])[0, -1] + sums[0, 0]
    assert outside == pytest.approx(logsumexp(each) - np.log(2.0), abs=1e-8)


def test_evidence_is_the_sum_over_starts(world, reference):
    watch, known = tacit.Watch(reference), Reference.of(reference, confidence=0.95)
    batches = [steps(world, THETA, 10 + k, many=2).counts(world.mdp) for k in range(6)]
    total = -np.inf
    for first in range(6):
        counts = sum(batches[first:])
        sums = known.sums(counts)[None]
        gain = known.gains(sums, counts[None])[0] - known.largest_near(sums)[0]
        each = logsumexp(gain + np.log(known.shares)) + np.log(batches[first].sum())
        total = np.logaddexp(total, each)
    for k in range(6):
        watch.update(steps(world, THETA, 10 + k, many=2))
    assert np.log(watch.evidence) == pytest.approx(total, abs=1e-8)


def test_a_doubled_price_gives_an_alarm_that_stays(world, reference, doubled):
    watch = tacit.Watch(reference, run_length=1000)
    for k in range(10):
        assert watch.update(steps(world, THETA, 20 + k, many=10)) is watch
    assert (watch.level, watch.changed, watch.since, watch.alarm) == ("none", None, None, None)
    for k in range(15):
        watch.update(steps(world, doubled, 40 + k, many=10))
    assert watch.level == "alarm"
    assert watch.changed == "the price of constraint 0"
    assert abs(watch.since - 2000) <= 600
    assert 2000 < watch.alarm <= watch.steps == 5000
    assert {one.kind.name for one in watch.findings} == {"CHANGED", "NOTE"}
    for k in range(50):
        watch.update(steps(world, THETA, 60 + k, many=10))
    assert watch.level == "alarm"


@pytest.mark.parametrize("what", ["noise", "outside"])
def test_other_changes_are_called_by_their_name(world, reference, what):
    watch = tacit.Watch(reference)
    if what == "noise":
        policy = experts.policy_of(world.mdp, world.features, [0.4 * part for part in THETA])
    else:
        policy = experts.policy_of(world.mdp, world.features, THETA)[:, [2, 0, 1]]
    for k in range(20):
        more = tacit.simulate(world.mdp, policy, trajectories=10, steps=20, seed=k)
        watch.update(more)
    assert watch.level == "alarm"
    assert watch.changed == {"noise": "the noise", "outside": "the fit"}[what]
    assert watch.since <= 600


def test_steps_may_come_one_by_one(world, reference):
    seen = steps(world, THETA, 5, many=1, length=30)
    one, other = tacit.Watch(reference), tacit.Watch(reference)
    for s, a in zip(seen.states, seen.actions, strict=True):
        one.update((s, a))
    other.update((seen.states, seen.actions))
    assert one.steps == other.steps == 30
    assert len(one.history) == 30


def test_memory_does_not_grow_with_the_stream(world, reference):
    watch, most = tacit.Watch(reference), 0
    for k in range(600):
        watch.update((np.array([k % 8]), np.array([0])))
        most = max(most, len(watch.state.starts))
    # Those of 2-adic order v are kept for 8 * 2^v batches: half of that many at a time.
    assert most <= (LIFETIME / 2 + 1) * (np.log2(600) + 2)


def test_a_saved_watch_goes_on_as_if_it_had_not_stopped(world, reference, doubled, tmp_path):
    whole, path = tacit.Watch(reference), tmp_path / "watch.npz"
    tacit.Watch(reference).save(path)
    for k in range(12):
        more = steps(world, doubled, k, many=5)
        whole.update(more)
        tacit.Watch.load(path, reference).update(more).save(path)
    again = tacit.Watch.load(path, reference)
    assert (again.level, again.changed, again.since) == (whole.level, whole.changed, whole.since)
    np.testing.assert_array_equal(again.history, whole.history)
    with pytest.raises(tacit.InvalidModel, match="run length are the same"):
        tacit.Watch.load(path, reference, run_length=500)


def test_what_cannot_be_a_reference_is_refused(world, reference):
    seen = steps(world, THETA, 0)
    with pytest.raises(tacit.InvalidModel, match="Likelihood without lapses"):
        tacit.Watch(tacit.recover(world.mdp, world.features, seen, estimator=tacit.Convex()))
    with pytest.raises(tacit.InvalidModel, match="run_length"):
        tacit.Watch(reference, run_length=0)
    with pytest.raises(tacit.InvalidDemonstrations, match="update takes"):
        tacit.Watch(reference).update("steps")
