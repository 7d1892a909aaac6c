"""Half of the question: each baseline is the joint model with part of it settled beforehand."""

import dataclasses
import re

import numpy as np
import pytest
from scipy.stats import chi2

import tacit
from tacit.estimators.baselines import ConstraintOnly, RewardOnly
from tacit.estimators.likelihood import Likelihood
from tacit.inference.expectations import expectations, pull_back
from tacit.recovery import RecoveryStatus

TEMPERATURE, MULTIPLIER = 0.3, 1.5


@pytest.fixture(scope="module")
def world():
    return tacit.worlds.random(3, states=8, actions=3, features=2, tightness=0.5)


def demonstrations_of(world, multiplier, *, trajectories=20, steps=2000, seed=0):
    """Steps of the noisy expert that pays this price for the cost."""
    reward, costs = world.truth.tables(world.mdp)
    wanted = tacit.Objective(reward - multiplier * costs[0])
    expert = tacit.solve(world.mdp, wanted, solver=tacit.SoftDual(temperature=TEMPERATURE))
    return tacit.simulate(
        world.mdp, expert.policy, trajectories=trajectories, steps=steps, seed=seed
    )


@pytest.fixture(scope="module")
def seen(world):
    return demonstrations_of(world, MULTIPLIER)


@pytest.fixture(scope="module")
def joint(world, seen):
    return Likelihood().fit(world.mdp, world.features, seen)


def fitted(estimator, world, seen):
    return estimator.fit(world.mdp, world.features, seen)


def loss(recovery):
    return float(recovery.history["loss"][0])


def likelihood_by_hand(world, seen, recovery):
    """Minus the log-likelihood of the steps under the policy that the recovery's solution holds."""
    return -float((seen.counts(world.mdp) * np.log(recovery.solution.policy)).sum())


def test_settling_more_beforehand_never_explains_more(world, seen, joint):
    # Nested models: the loss of each is a minimum over a subset of the next one's parameters.
    direction = fitted(ConstraintOnly(world.reward_weights), world, seen)
    size = fitted(ConstraintOnly(world.reward_weights, TEMPERATURE), world, seen)
    reward = fitted(RewardOnly(), world, seen)
    slack = 1e-9 * loss(joint)  # what the tolerance of the search leaves
    assert loss(joint) <= loss(direction) + slack
    assert loss(direction) <= loss(size) + slack
    assert loss(joint) < loss(reward) - 100.0  # the constraint was there, and is missed
    for recovery in (joint, direction, size, reward):
        # Rounding of 40 000 terms of order one.
        assert loss(recovery) == pytest.approx(likelihood_by_hand(world, seen, recovery), abs=1e-4)
        assert recovery.solution.status is tacit.Status.CONVERGED


def test_given_what_the_joint_fit_found_the_rest_of_it_comes_back(world, seen, joint):
    # A minimum over all parameters is a minimum over some of them, the others held there.
    found = fitted(ConstraintOnly(joint.reward_weights, joint.temperature), world, seen)
    # Both searches end within 1e-9 of a stationary point; weights move by its square root at most.
    np.testing.assert_allclose(found.cost_weights[0], joint.cost_weights[0], atol=1e-5)
    np.testing.assert_allclose(found.multipliers, joint.multipliers, rtol=1e-5)
    np.testing.assert_allclose(found.budgets, joint.budgets, rtol=1e-5)
    assert found.temperature == pytest.approx(joint.temperature, rel=1e-12)
    # What is known cannot hide behind anything else: at the same point every error is smaller.
    known, unknown = found.identification, joint.identification
    assert (known.cost_standard_errors[0] <= unknown.cost_standard_errors[0] * (1 + 1e-4)).all()
    assert (known.multiplier_standard_errors < 0.9 * unknown.multiplier_standard_errors).all()


def test_constraints_are_found_within_their_errors(world, seen):
    for temperature in (None, TEMPERATURE):
        found = fitted(ConstraintOnly(world.reward_weights, temperature), world, seen)
        np.testing.assert_array_equal(found.reward_weights, world.in_gauge.reward_weights)
        known = found.identification
        # Five standard errors: a chance of one in a million, and the seed is fixed.
        error = np.abs(found.cost_weights[0] - world.cost_weights[0])
        assert (error <= 5 * known.cost_standard_errors[0]).all()
        assert abs(found.multipliers[0] - MULTIPLIER) <= 5 * known.multiplier_standard_errors[0]
        assert found.temperature == pytest.approx(TEMPERATURE, rel=0.05)
        assert known.active.all()
        np.testing.assert_array_equal(known.reward_intervals.T, [found.reward_weights] * 2)
        assert (known.reward_standard_errors == 0).all()


def test_only_the_direction_of_a_known_reward_counts_and_the_temperature_is_in_its_units(
    world, seen
):
    for temperature in (None, TEMPERATURE):
        scaled = None if temperature is None else 7 * temperature
        one = fitted(ConstraintOnly(world.reward_weights, temperature), world, seen)
        other = fitted(ConstraintOnly(7 * world.reward_weights, scaled), world, seen)
        np.testing.assert_allclose(other.cost_weights[0], one.cost_weights[0], rtol=1e-9)
        np.testing.assert_allclose(other.multipliers, one.multipliers, rtol=1e-9)
        assert other.temperature == pytest.approx(one.temperature, rel=1e-12)


def test_a_reward_alone_is_the_likelihood_without_cost_features(world, seen):
    bare = tacit.Features(world.features.reward)
    direct = Likelihood().fit(world.mdp, bare, seen)
    found = fitted(RewardOnly(), world, seen)
    np.testing.assert_array_equal(found.reward_weights, direct.reward_weights)
    np.testing.assert_array_equal(
        found.identification.reward_intervals, direct.identification.reward_intervals
    )
    np.testing.assert_array_equal(found.solution.policy, direct.solution.policy)
    again = RewardOnly().fit(world.mdp, bare, seen)
    np.testing.assert_array_equal(again.reward_weights, direct.reward_weights)
    assert again.cost_weights == ()


def test_a_reward_alone_says_nothing_about_constraints(world, seen):
    found = fitted(RewardOnly(), world, seen)
    assert np.isnan(found.cost_weights[0]).all()
    assert found.multipliers.tolist() == [0.0]
    assert found.budgets.tolist() == [np.inf]
    assert found.objective.constraints == 1
    assert not found.objective.costs.any()
    known = found.identification
    assert not known.active.any()
    assert np.isnan(known.cost_intervals[0]).all()
    assert known.multiplier_intervals.shape == known.budget_intervals.shape == (1, 2)
    assert any("Constraint 0 was left out" in said for said in known.findings)
    assert "not identified" in found.summary()
    assert found.estimator.startswith("RewardOnly(")
    assert found.cost_names == world.features.cost_names


def test_matching_meets_the_reward_expectations(world, seen):
    found = fitted(RewardOnly(matching=True), world, seen)
    target = expectations(world.mdp, world.features, seen)
    reached = pull_back(world.features, found.solution.visitation)
    held = found.reward_weights == 0
    # First-order conditions of maximum causal entropy: equal where a weight is positive, at least
    # as much where it is held at 0. The gradient was driven to 1e-9 of the largest expectation.
    size = np.abs(world.features.reward).max() / (1 - world.mdp.discount)
    gap = reached[0] - target.reward
    assert (np.abs(gap[~held]) <= 1e-8 * size).all()
    assert (gap[held] >= -1e-8 * size).all()
    assert found.status is RecoveryStatus.CONVERGED
    # The gap in the certificate is over all maps, the costs that were left out included.
    assert found.certificate.feature_gap == pytest.approx(target.gap(reached), rel=1e-12)
    free = fitted(RewardOnly(matching=True, free_reward=True), world, seen)
    reached = pull_back(world.features, free.solution.visitation)
    assert (np.abs(reached[0] - target.reward) <= 1e-8 * size).all()


def test_an_expert_that_pays_no_price_has_no_constraint(world):
    seen = demonstrations_of(world, 0.0)
    for temperature in (None, TEMPERATURE):
        found = fitted(ConstraintOnly(world.reward_weights, temperature), world, seen)
        assert found.multipliers.tolist() == [0.0]
        assert np.isnan(found.cost_weights[0]).all()
        assert not found.identification.active.any()
        # The truth, a price of 0, is within what is allowed; the end is in units of the reward.
        assert 0.0 <= found.identification.multiplier_intervals[0, 1] < 0.2 * MULTIPLIER
        kept = dataclasses.replace(ConstraintOnly(world.reward_weights, temperature), level=1.0)
        assert loss(fitted(kept, world, seen)) <= loss(found)


def test_the_activity_test_of_one_feature_with_everything_else_known_is_half_a_chi_square(world):
    seen = demonstrations_of(world, 0.0, seed=6)
    features = tacit.Features(world.features.reward, [world.features.costs[0][..., :1]])
    idle = ConstraintOnly(world.reward_weights, TEMPERATURE)
    found = idle.fit(world.mdp, features, seen)
    kept = dataclasses.replace(idle, level=1.0).fit(world.mdp, features, seen)
    ratio = 2 * (loss(found) - loss(kept))
    said = float(re.search(r"p = ([0-9.]+)", " ".join(found.identification.findings))[1])
    assert ratio > 0.1
    # Four standard errors of a law simulated with 4000 draws, and three printed digits.
    assert said == pytest.approx(0.5 * chi2.sf(ratio, 1), abs=4 * 0.5 / np.sqrt(4000))


def test_a_reward_of_free_sign_may_be_refused(world, seen):
    flipped = world.features.reward * np.array([1.0, -1.0])
    features = tacit.Features(flipped, world.features.costs)
    for matching in (False, True):
        usual = RewardOnly(matching).fit(world.mdp, world.features, seen)
        assert (usual.reward_weights > 0).all()
        free = RewardOnly(matching, free_reward=True).fit(world.mdp, features, seen)
        np.testing.assert_allclose(free.reward_weights, usual.reward_weights * [1, -1], atol=1e-6)


def test_of_two_constraints_that_can_stand_in_for_each_other_one_is_kept(world, seen):
    doubled = tacit.Features(world.features.reward, [*world.features.costs] * 2)
    for temperature in (None, TEMPERATURE):
        estimator = ConstraintOnly(world.reward_weights, temperature)
        found = estimator.fit(world.mdp, doubled, seen)
        assert [one.members for one in found.identification.sets] == [(0, 1)]
        kept = int(found.multipliers.argmax())
        assert (found.multipliers > 0).sum() == 1
        single = fitted(estimator, world, seen)
        np.testing.assert_allclose(found.cost_weights[kept], single.cost_weights[0], rtol=1e-5)


def test_questions_about_a_known_reward_are_asked_of_all_its_features(world, seen):
    found = fitted(ConstraintOnly(world.reward_weights), world, seen)
    ask, weights = found.identification.interval, found.reward_weights
    none = [np.zeros(2)]
    direction = np.array([2.0, -1.0])
    # A given weight has no error, and the price keeps the ends of the table.
    np.testing.assert_allclose(ask(direction, none), direction @ weights, rtol=1e-12)
    np.testing.assert_allclose(
        ask([0.0, 0.0], [[1.0, 1.0]]), found.identification.multiplier_intervals[0]
    )
    ends = np.array(ask([0.0, 0.0], [[1.0, -1.0]]))
    assert ends[0] < ends[1]
    np.testing.assert_allclose(ask(direction, [[1.0, -1.0]]), ends + direction @ weights)
    for wrong in ([1.0], [1.0, np.nan, 0.0], [[1.0, 2.0]]):
        with pytest.raises(tacit.InvalidModel, match="reward_direction"):
            ask(wrong, none)


def test_each_direction_is_checked_by_itself(world, seen, joint):
    # As many numbers in all as there are features, but not of each.
    for estimator in (joint, fitted(RewardOnly(), world, seen)):
        with pytest.raises(tacit.InvalidModel, match="reward_direction must hold 2"):
            estimator.identification.interval([1.0], [[1.0, 0.0, 0.0]])
    with pytest.raises(tacit.InvalidModel, match=r"cost_directions\[0\] must hold 2"):
        joint.identification.interval([1.0, 0.0], [[np.nan, 0.0]])


def test_a_reward_alone_can_be_used_with_caution(world, seen):
    """What was spent is data, whoever is asked about the reward."""
    found = fitted(RewardOnly(), world, seen).cautious()
    assert found.constraints > 0
    assert np.isfinite(found.budgets).all()


def test_what_makes_no_sense_is_refused(world, seen):
    with pytest.raises(tacit.InvalidModel, match="not all 0"):
        ConstraintOnly([0.0, 0.0])
    with pytest.raises(tacit.InvalidModel, match="finite"):
        ConstraintOnly([np.nan, 1.0])
    with pytest.raises(tacit.InvalidModel, match="temperature"):
        ConstraintOnly([1.0, 1.0], temperature=0.0)
    with pytest.raises(tacit.InvalidModel, match=r"shape \(2,\); got \(3,\)"):
        fitted(ConstraintOnly([1.0, 1.0, 1.0]), world, seen)
    with pytest.raises(tacit.InvalidModel, match="max_steps"):
        fitted(RewardOnly(max_steps=0), world, seen)


def test_a_search_cut_short_says_so(world, seen):
    with pytest.raises(tacit.NotConverged):
        fitted(ConstraintOnly(world.reward_weights, 0.5, max_steps=1), world, seen)
    short = RewardOnly(max_steps=1).fit(world.mdp, world.features, seen, throw=False)
    assert short.status is RecoveryStatus.NOT_CONVERGED
    assert short.certificate.projected_gradient > 1e-6


def test_estimators_print_as_the_call_that_makes_them():
    given = ConstraintOnly(np.array([0.5, 2.0]), temperature=0.25)
    assert eval(repr(given)) == given
    assert eval(repr(RewardOnly(matching=True))) == RewardOnly(matching=True)


def test_a_known_reward_is_kept_where_costs_could_do_without_it():
    # It stays about state 3 of 5. Refusing all other states says so as well as any reward, and
    # better than that of the last state, towards which it goes at first.
    moves = np.zeros((5, 2, 5))
    for s in range(5):
        moves[s, 0, max(s - 1, 0)] = moves[s, 1, min(s + 1, 4)] = 1.0
    mdp = tacit.MDP(moves, np.eye(5)[0], 0.8)
    features = tacit.Features(np.eye(5)[:, 4:], [np.eye(5)])
    expert = tacit.solve(mdp, tacit.Objective(np.eye(5)[3]), solver=tacit.SoftDual(temperature=0.5))
    shown = tacit.simulate(mdp, expert.policy, trajectories=30, steps=40, seed=1)
    assert Likelihood().fit(mdp, features, shown).parameters.estimates[0] == 0.0
    found = ConstraintOnly([1.0]).fit(mdp, features, shown)
    assert found.parameters.estimates[0] > 0.0
    alone = RewardOnly().fit(mdp, features, shown)
    assert found.temperature == pytest.approx(alone.temperature)
    told = [one.about for one in found.identification.findings if one.about.number is not None]
    lost = [one.number for one in told if one.feature == "the known reward"]
    assert len(lost) == 1
    assert lost[0] >= 0.0
    # A noise that is given is kept without a word.
    fixed = ConstraintOnly([1.0], 0.5).fit(mdp, features, shown)
    assert fixed.parameters.estimates[0] == pytest.approx(2.0)


def test_a_given_noise_does_not_run_away(world):
    # Hardly any noise: doubling a coefficient that was given is no way to explain more.
    reward, _ = world.truth.tables(world.mdp)
    expert = tacit.solve(
        world.mdp, tacit.Objective(reward), solver=tacit.SoftDual(temperature=0.01)
    )
    shown = tacit.simulate(world.mdp, expert.policy, trajectories=5, steps=20, seed=2)
    found = ConstraintOnly(world.reward_weights, 0.01).fit(
        world.mdp, world.features, shown, throw=False
    )
    assert found.status is not RecoveryStatus.EXPERT_DETERMINISTIC
    assert found.temperature == pytest.approx(0.01 / np.abs(world.reward_weights).sum())
