"""The feasible set: by hand, and blind to the units and shifts of a cost with its budget."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import oracles
import tacit
from strategies import examples, problems
from switch import NEVER, STAYS, TO_AND_FRO, TRUTH, TWO
from tacit.errors import InvalidModel
from tacit.judge.behaviour import (
    Behaviours,
    allowed,
    costly_pairs,
    feasible_agreement,
    sample_behaviours,
    set_agreement,
    weight_error,
)

CONSTRAINED = problems(max_states=10, max_actions=4, min_constraints=1, max_discount=0.99)

# The last one is half and half of those who stay and those who go to and fro.
BY_HAND = Behaviours(
    np.stack([NEVER, STAYS, TO_AND_FRO]), np.array([[1, 2]]), np.array([[0.5, 0.5]]), 7
)


def few(mdp, seed=0):
    return sample_behaviours(mdp, vertices=8, combinations=40, seed=seed)


# --- by hand --------------------------------------------------------------------------------------


def test_agreement_by_hand():
    # Staying in state 1 costs 0, 1, 0 and 0.5; being there costs 0, 1, 2/3 and 5/6.
    found = tacit.Objective([0, 0], [[0, 1]], [0.7])
    np.testing.assert_array_equal(allowed(TWO, TRUTH, BY_HAND), [True, False, True, True])
    np.testing.assert_array_equal(allowed(TWO, found, BY_HAND), [True, False, True, False])
    agreement = feasible_agreement(TWO, TRUTH, found, behaviours=BY_HAND)
    assert agreement.jaccard == pytest.approx(2 / 3)
    assert agreement.balanced == pytest.approx((2 / 3 + 1) / 2)
    assert (agreement.true_share, agreement.recovered_share) == (0.75, 0.5)
    assert (agreement.samples, agreement.seed) == (4, 7)
    # The other way round: all that is allowed is recovered, half of what is refused.
    back = feasible_agreement(TWO, found, TRUTH, behaviours=BY_HAND)
    assert back.jaccard == agreement.jaccard
    assert back.balanced == pytest.approx((1 + 1 / 2) / 2)


def test_a_constraint_that_allows_everything_or_nothing_knows_nothing():
    everything = tacit.Objective([0, 0])
    nothing = tacit.Objective([0, 0], [[0, 1]], [-1])
    for useless, jaccard in ((everything, 0.75), (nothing, 0.0)):
        agreement = feasible_agreement(TWO, TRUTH, useless, behaviours=BY_HAND)
        assert agreement.balanced == 0.5
        assert agreement.jaccard == jaccard
    # Two ways to refuse everything are the same, and so is a truth without a constraint.
    assert feasible_agreement(TWO, nothing, nothing, behaviours=BY_HAND).jaccard == 1.0
    assert feasible_agreement(TWO, nothing, nothing, behaviours=BY_HAND).balanced == 1.0
    assert feasible_agreement(TWO, everything, TRUTH, behaviours=BY_HAND).balanced == 0.75


def test_all_budgets_must_be_kept():
    both = tacit.Objective([0, 0], [[[0, 0], [1, 0]], [[0, 0], [0, 1]]], [0.5, 0.5])
    np.testing.assert_array_equal(allowed(TWO, both, BY_HAND), [True, False, False, True])


def test_sets_by_hand():
    scores = set_agreement([1, 1, 1, 0, 0], [1, 0, 0, 1, 0])
    assert scores.precision == 1 / 2
    assert scores.recall == 1 / 3
    assert scores.f1 == pytest.approx(2 / 5)
    assert scores.jaccard == 1 / 4
    empty = set_agreement([0, 0], [0, 0])
    assert (empty.f1, empty.jaccard) == (1, 1)
    assert np.isnan([empty.precision, empty.recall]).all()
    missed = set_agreement([1, 0], [0, 0])
    assert (missed.recall, missed.f1, missed.jaccard) == (0, 0, 0)
    assert np.isnan(missed.precision)
    with pytest.raises(InvalidModel, match="one shape"):
        set_agreement([1, 0], [1, 0, 0])


def test_costly_pairs_by_hand():
    # For ever, a cost of 1 sums to 2.
    assert costly_pairs(TWO, TRUTH).tolist() == [[False, False], [True, False]]
    either = tacit.Objective([0, 0], [[[0, 0], [1, 0]], [[0, 3], [0, 2]]], [0.5, 4.0])
    assert costly_pairs(TWO, either).tolist() == [[False, True], [True, False]]
    assert not costly_pairs(TWO, tacit.Objective([0, 0], [[0, 1]], [np.inf])).any()
    assert not costly_pairs(TWO, tacit.Objective([0, 0])).any()


def test_weight_errors_by_hand():
    assert weight_error([0.68, 0.32], [0.97, 0.03]) == pytest.approx(0.58)
    assert weight_error([1, 0], [0, 5]) == 2.0
    assert weight_error([2, 2], [0, 0]) == 1.0
    assert weight_error([1, -1], [1, 1]) == 1.0
    assert np.isnan(weight_error([0.5, 0.5], [np.nan, np.nan]))
    with pytest.raises(InvalidModel, match="as many"):
        weight_error([1, 0], [1, 0, 0])


# --- invariances ----------------------------------------------------------------------------------


@given(CONSTRAINED, st.sampled_from([1.0, 1e-5, 3.0, 1e4]))
@examples(40)
def test_the_feasible_set_is_blind_to_the_unit_shift_and_shaping_of_a_cost(problem, unit):
    mdp, truth = problem.mdp, problem.objective
    behaviours = few(mdp, problem.seed)
    rng = np.random.default_rng([problem.seed, 8])
    costs, budgets = [], []
    for cost, budget in zip(truth.tables(mdp)[1], truth.budgets, strict=True):
        shift, potential = rng.normal(), rng.normal(size=mdp.states)
        shaped = mdp.discount * mdp.dense() @ potential - potential[:, None]
        costs.append(unit * (cost + shift + shaped))
        # Every policy pays the shift for ever, and what it starts with is given back.
        budgets.append(unit * (budget + shift / (1 - mdp.discount) - mdp.initial @ potential))
    other = tacit.Objective(truth.reward, costs, budgets)
    # No behaviour so close to a budget that rounding could move it across.
    spent = behaviours.spent(truth.tables(mdp)[1])
    size = 1e-8 * (1 + np.abs(costs).max() / unit) / (1 - mdp.discount)
    clear = (np.abs(spent - truth.budgets) > size).all(axis=1)
    np.testing.assert_array_equal(
        allowed(mdp, truth, behaviours)[clear], allowed(mdp, other, behaviours)[clear]
    )


@given(CONSTRAINED)
@examples(40)
def test_agreement_is_one_with_itself_at_any_unit_and_stays_in_range(problem):
    mdp, truth = problem.mdp, problem.objective
    behaviours = few(mdp, problem.seed)
    rescaled = tacit.Objective(truth.reward, 0.1 * truth.costs, 0.1 * truth.budgets)
    same = feasible_agreement(mdp, truth, rescaled, behaviours=behaviours)
    assert (same.jaccard, same.balanced) == (1.0, 1.0)
    assert costly_pairs(mdp, truth).tolist() == costly_pairs(mdp, rescaled).tolist()
    rng = np.random.default_rng([problem.seed, 8])
    other = tacit.Objective(
        truth.reward, rng.random((2, mdp.states)), rng.random(2) / (1 - mdp.discount)
    )
    agreement = feasible_agreement(mdp, truth, other, behaviours=behaviours)
    assert 0 <= agreement.jaccard <= 1
    assert 0 <= agreement.balanced <= 1
    assert agreement.jaccard == feasible_agreement(mdp, other, truth, behaviours=behaviours).jaccard
    # Nested sets: a more generous budget allows all that was allowed.
    wider = tacit.Objective(truth.reward, truth.costs, truth.budgets + 1.0)
    nested = feasible_agreement(mdp, truth, wider, behaviours=behaviours)
    if nested.recovered_share > 0:
        assert nested.jaccard == pytest.approx(nested.true_share / nested.recovered_share)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12))
@examples(60)
def test_set_scores_stay_in_range_and_agree_with_each_other(pairs):
    truth, found = np.array(pairs).T
    scores, back = set_agreement(truth, found), set_agreement(found, truth)
    assert (scores.f1, scores.jaccard) == (back.f1, back.jaccard)
    np.testing.assert_equal((scores.precision, scores.recall), (back.recall, back.precision))
    assert scores.f1 == pytest.approx(2 * scores.jaccard / (1 + scores.jaccard))
    if scores.precision + scores.recall > 0:  # False for NaN
        harmonic = 2 / (1 / scores.precision + 1 / scores.recall) if scores.f1 else 0.0
        assert scores.f1 == pytest.approx(harmonic)
    assert (scores.jaccard == 1.0) == bool((truth == found).all())


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=6),
    st.floats(0.01, 100),
    st.integers(0, 1000),
)
@examples(60)
def test_weight_error_is_a_distance_of_directions(weights, scale, seed):
    first = np.array(weights)
    second = np.random.default_rng(seed).dirichlet(np.ones(len(first)))
    error = weight_error(first, second)
    assert 0 <= error <= 2 + 1e-12
    assert weight_error(second, first) == error
    if first.sum() > 1e-6:
        assert weight_error(scale * first, second) == pytest.approx(error, abs=1e-12)
        assert weight_error(first, scale * first) == pytest.approx(0, abs=1e-12)


# --- the behaviours asked about -------------------------------------------------------------------


def test_behaviours_are_visitations_of_optimal_policies():
    world = tacit.worlds.hill_grid(3)
    behaviours = sample_behaviours(world.mdp, features=world.features, vertices=20, seed=5)
    rows = oracles.flow_rows(world.mdp)
    for vertex in behaviours.vertices:
        np.testing.assert_allclose(rows @ vertex.ravel(), world.mdp.initial, atol=1e-12)
        assert (vertex > 0).sum(axis=1).max() == 1  # deterministic
    np.testing.assert_allclose(behaviours.weights.sum(axis=1), 1.0, atol=1e-15)
    assert (behaviours.members[:, 0] != behaviours.members[:, 1]).all()
    assert behaviours.members.min() == 0
    assert behaviours.members.max() == 19
    assert (behaviours.count, behaviours.seed) == (4020, 5)
    # Spending is linear in the visitation.
    costs = world.truth.tables(world.mdp)[1]
    mixed = np.einsum("nm,nmsa->nsa", behaviours.weights, behaviours.vertices[behaviours.members])
    np.testing.assert_allclose(
        behaviours.spent(costs)[20:], np.tensordot(mixed, costs, ((1, 2), (1, 2))), atol=1e-12
    )


def test_behaviours_do_not_depend_on_units_or_on_constant_features():
    world = tacit.worlds.random(2, states=8, features=3, tightness=0.5)
    plain = sample_behaviours(world.mdp, features=world.features, vertices=12, seed=1)
    again = sample_behaviours(world.mdp, features=world.features, vertices=12, seed=1)
    np.testing.assert_array_equal(plain.vertices, again.vertices)
    units = np.array([1e-4, 1.0, 1e3])
    scaled = tacit.Features(world.features.reward * units, [world.features.costs[0] + 1e7])
    other = sample_behaviours(world.mdp, features=scaled, vertices=12, seed=1)
    np.testing.assert_allclose(other.vertices, plain.vertices, atol=1e-9)
    flat = tacit.Features(np.full((8, 1), 0.1), [np.zeros((8, 1))])  # every policy is optimal
    assert np.isfinite(sample_behaviours(world.mdp, features=flat, vertices=2).vertices).all()
    with pytest.raises(InvalidModel, match="vertices must be at least 2"):
        sample_behaviours(world.mdp, vertices=1)


def test_binding_budgets_split_the_behaviours_where_random_policies_all_fail():
    # The reason for asking optimal policies: of random ones not one keeps a budget that binds.
    rng = np.random.default_rng(0)
    for seed in range(4):
        world = tacit.worlds.hill_grid(seed, tightness=0.5)
        behaviours = sample_behaviours(world.mdp, features=world.features, seed=seed)
        assert 0.02 < allowed(world.mdp, world.truth, behaviours).mean() < 0.98
        _, costs = world.truth.tables(world.mdp)
        for policy in rng.dirichlet(np.ones(4), (50, 25)):
            spent = np.vdot(costs[0], oracles.policy_visitation(world.mdp, policy))
            assert spent > world.truth.budgets[0]
