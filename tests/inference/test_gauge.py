"""One expert, many units: what the gauge may and may not change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import oracles
from experts import PRICE, TEMPERATURE, grid, hill_expert, policy_of, tangle
from strategies import examples
from tacit import Features
from tacit.inference.gauge import Gauge
from tacit.model.features.design import Design

SEEDS = st.integers(0, 2**20)


def collected(world, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[D] discounted sums of the scaled, signed features at x, and [S, A] the policy."""
    space = Design.of(world.mdp, world.features)
    _, policy = oracles.soft_values(world.mdp, np.tensordot(x, space.tables, 1), 1.0)
    return space.pull_back(oracles.policy_visitation(world.mdp, policy)), policy


def numbers(space, x: np.ndarray, spent: np.ndarray) -> np.ndarray:
    """Everything that the Jacobian of a split is the derivative of."""
    found = Gauge.of(space, x, spent, np.zeros((space.size, space.size)))
    return np.concatenate(
        [found.reward_weights, *found.cost_weights, found.multipliers, found.budgets]
    )


def parameters(world, seed: int, *, signs: bool = False) -> np.ndarray:
    rng = np.random.default_rng([seed, 3])
    space = Design.of(world.mdp, world.features)
    x = rng.uniform(0.2, 2.0, space.size)
    if signs:
        x[space.blocks[0]] *= rng.choice([-1.0, 1.0], space.blocks[0].stop)
    return x


def test_the_truth_comes_back_from_its_parameters():
    world = grid()
    space = Design.of(world.mdp, world.features)
    theta = [world.reward_weights / TEMPERATURE, PRICE * world.cost_weights[0] / TEMPERATURE]
    x = np.concatenate(theta) * space.scales
    _, visitation = hill_expert()
    found = Gauge.of(space, x, space.pull_back(visitation), np.zeros((6, 6)))
    assert_allclose(found.reward_weights, world.reward_weights, rtol=1e-12)
    assert_allclose(found.cost_weights[0], world.cost_weights[0], rtol=1e-12)
    assert_allclose(found.multipliers, [PRICE], rtol=1e-12)
    assert found.temperature == pytest.approx(TEMPERATURE, rel=1e-12)
    # The budget is what the expert spends, in the user's own units.
    spent = np.vdot(world.truth.tables(world.mdp)[1][0], visitation)
    assert_allclose(found.budgets, [spent], rtol=1e-10)


@given(SEEDS, st.booleans())
@examples(4)
def test_jacobian_is_the_derivative_of_every_number(seed, signs):
    world = tangle()
    space = Design.of(world.mdp, world.features)
    x = parameters(world, seed, signs=signs)
    step = 1e-5
    ahead, behind = ([x + side * step * row for row in np.eye(space.size)] for side in (1, -1))
    spent = [[collected(world, point)[0] for point in side] for side in (ahead, behind)]
    reaction = (np.array(spent[0]) - np.array(spent[1])).T / (2 * step)
    found = Gauge.of(space, x, collected(world, x)[0], reaction)
    shifted = [
        np.stack([numbers(space, point, e) for point, e in zip(side, sums, strict=True)], axis=1)
        for side, sums in zip((ahead, behind), spent, strict=True)
    ]
    # Differences of values known to 1e-12 over 2e-5, and a third derivative of order one.
    assert_allclose(found.jacobian, (shifted[0] - shifted[1]) / (2 * step), atol=1e-5)


@given(SEEDS, st.sampled_from([1e-3, 0.5, 7.0]))
@examples(20)
def test_a_louder_expert_is_a_colder_one_and_nothing_else(seed, factor):
    world = tangle()
    space = Design.of(world.mdp, world.features)
    x, nothing = parameters(world, seed, signs=True), np.zeros((space.size, space.size))
    spent = np.arange(space.size, dtype=float)
    one, two = Gauge.of(space, x, spent, nothing), Gauge.of(space, factor * x, spent, nothing)
    assert two.temperature == pytest.approx(one.temperature / factor)
    assert np.abs(one.reward_weights).sum() == pytest.approx(1.0)
    for ours, theirs in zip(one.cost_weights, two.cost_weights, strict=True):
        assert ours.sum() == pytest.approx(1.0)
        assert_allclose(ours, theirs, rtol=1e-12)
    assert_allclose(one.reward_weights, two.reward_weights, rtol=1e-12)
    assert_allclose(one.multipliers, two.multipliers, rtol=1e-12)
    assert_allclose(one.budgets, two.budgets, rtol=1e-12)


@given(SEEDS)
@examples(5)
def test_the_gauge_describes_the_same_expert(seed):
    world = tangle()
    mdp, features = world.mdp, world.features
    space = Design.of(mdp, features)
    x = parameters(world, seed)
    spent, policy = collected(world, x)
    found = Gauge.of(space, x, spent, np.zeros((space.size, space.size)))
    theta = [found.reward_weights / found.temperature]
    prices = zip(found.multipliers, found.cost_weights, strict=True)
    theta += [m * w / found.temperature for m, w in prices]
    # Value iteration stops at 1e-13 of the values, which the policy sees through exp.
    assert_allclose(policy_of(mdp, features, theta), policy, atol=1e-9)
    visitation = oracles.policy_visitation(mdp, policy)
    objective = features.objective(found.reward_weights, found.cost_weights, found.budgets)
    spent = np.einsum("ksa,sa->k", objective.tables(mdp)[1], visitation)
    assert_allclose(spent, found.budgets, rtol=1e-9)


def test_an_inactive_constraint_has_no_weights():
    world = tangle()
    space = Design.of(world.mdp, world.features)
    x = parameters(world, 1)
    whole = Gauge.of(space, x, np.ones(space.size), np.zeros((space.size, space.size)))
    x[space.blocks[1]] = 0.0
    found = Gauge.of(space, x, np.ones(space.size), np.zeros((space.size, space.size)))
    assert found.multipliers[0] == 0.0
    assert np.isnan(found.cost_weights[0]).all()
    assert found.budgets[0] == np.inf
    assert_allclose(found.reward_weights, whole.reward_weights)
    assert_allclose(found.cost_weights[1], whole.cost_weights[1])
    assert_allclose(found.multipliers[1], whole.multipliers[1])


def test_without_a_reward_the_noise_is_the_unit():
    world = tangle()
    space = Design.of(world.mdp, world.features)
    x = parameters(world, 2)
    x[space.blocks[0]] = 0.0
    found = Gauge.of(space, x, np.ones(space.size), np.zeros((space.size, space.size)))
    assert found.temperature == 1.0
    assert np.isnan(found.reward_weights).all()
    for k, block in enumerate(space.blocks[1:]):
        theta = x[block] / space.scales[block]
        assert found.multipliers[k] == pytest.approx(theta.sum())
        assert_allclose(found.cost_weights[k], theta / theta.sum())
    assert np.isnan(found.jacobian[space.blocks[0]]).all()
    assert np.isfinite(found.jacobian[space.size : space.size + 2]).all()


def test_a_forbidden_cost_leaves_the_other_weights_what_they_are():
    world = grid()
    space = Design.of(world.mdp, world.features)
    x = np.array([2.0, 1.0, 300.0, 1.0, 2.0, 3.0])
    shut = np.array([False, False, True, False, False, False])
    nothing = np.zeros((6, 6))
    found = Gauge.of(space, x, np.ones(6), nothing, unbounded=shut)
    x[2] = 0.0
    plain = Gauge.of(space, x, np.ones(6), nothing)
    assert_allclose(found.cost_weights[0][1:], plain.cost_weights[0][1:], rtol=1e-12)
    assert_allclose(found.multipliers, plain.multipliers, rtol=1e-12)
    # Where nothing else is left, the forbidden cost is the constraint.
    alone = Gauge.of(space, np.array([2.0, 1, 300, 0, 0, 0]), np.ones(6), nothing, unbounded=shut)
    assert_allclose(alone.cost_weights[0], [1, 0, 0, 0])
    assert alone.multipliers[0] > 0


@given(SEEDS)
@examples(10)
def test_weights_and_multipliers_are_the_ratios_they_are_said_to_be(seed):
    world = tangle()
    space = Design.of(world.mdp, world.features)
    x = parameters(world, seed, signs=True)
    parts = Gauge.of(space, x, x).ratios
    found = Gauge.of(space, x, np.ones(space.size), np.zeros((space.size, space.size)))
    below = parts.bottoms @ x + parts.constants
    assert_allclose(below, parts.sizes, rtol=1e-12)
    listed = np.concatenate([found.reward_weights, *found.cost_weights, found.multipliers])
    assert_allclose(parts.tops @ x / below, listed, rtol=1e-12)


def test_scaled_features_have_range_one_and_constants_vanish():
    table = np.array([[0.0, 3.0, 5e6, 0.0], [1e-6, 3.0, 1e6, 0.0], [3e-6, 3.0, 2e6, 0.0]])
    mdp = tangle().mdp
    features = Features(np.repeat(table, 3, axis=0), [np.repeat(table[:, :1], 3, axis=0)])
    space = Design.of(mdp, features)
    assert_allclose(np.ptp(space.tables, axis=(1, 2)), [1.0, 0.0, 1.0, 0.0, 1.0])
    assert_allclose(space.scales, [3e-6, 3.0, 4e6, 1.0, 3e-6])
    assert (space.tables[1] == 0).all()
    assert_allclose(space.signs, [1, 1, 1, 1, -1])
    # The first and the last are one feature: what is wanted, and what is refused.
    assert_allclose(space.tables[0], -space.tables[4])
    assert space.names == (*features.reward_names, *features.cost_names[0])
    assert space.lower(free_reward=True).tolist() == [-np.inf] * 4 + [0.0]
    assert space.lower(free_reward=False).tolist() == [0.0] * 5
