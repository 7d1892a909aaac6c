"""Metrics where actions are missing, episodes end and nothing is discounted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tacit
from strategies import examples
from tacit import MDP, Objective
from tacit.judge.behaviour import (
    costly_pairs,
    policy_agreement,
    policy_distance,
    sample_behaviours,
    visitation_distance,
)
from tacit.judge.comparison import compare
from tacit.judge.outcomes import canonical, return_range, starc

DISCOUNTS = (0.7, 0.95, 1.0)


def network(seed: int, discount: float, *, ends: bool = True) -> MDP:
    """Six states, three actions, some of them missing; the last two states may be ends."""
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(6, 0.5), size=(6, 3))
    there = rng.random((6, 3)) < 0.6
    there[np.arange(6), rng.integers(3, size=6)] = True
    if ends:
        there[4:] = False
    start = np.append(np.full(4, 0.25), [0.0, 0.0])
    return MDP(table, start, discount, available=there)


def alike(mdp: MDP, table: np.ndarray) -> np.ndarray:
    """The table, the same for all actions at ends."""
    return np.where(mdp.ends[:, None], table[:, :1], table)


def returns(mdp: MDP, policy: np.ndarray, table: np.ndarray) -> float:
    """Expected discounted sum, by a dense linear solve."""
    chain = np.einsum("sa,sat->st", policy, mdp.dense())
    paid = np.where(mdp.ends, table[:, 0], (policy * table).sum(axis=1))
    return float(mdp.initial @ np.linalg.solve(np.eye(6) - mdp.discount * chain, paid))


def some_policy(mdp: MDP, rng: np.random.Generator) -> np.ndarray:
    weights = np.where(mdp.available, rng.random((6, 3)) + 0.1, 0.0)
    return weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)


@examples(40)
@given(seed=st.integers(0, 2**20), discount=st.sampled_from(DISCOUNTS))
def test_shaping_changes_no_canonical_table_and_no_order_of_policies(seed, discount):
    rng = np.random.default_rng(seed)
    mdp = network(seed, discount)
    reward, potential = alike(mdp, rng.normal(size=(6, 3))), rng.normal(size=6)
    shaped = alike(mdp, reward + discount * mdp.dense() @ potential - potential[:, None])
    # Sums of a dozen numbers of order 1, after a solve whose condition is the mean length.
    np.testing.assert_allclose(canonical(mdp, shaped), canonical(mdp, reward), atol=1e-8)
    assert starc(mdp, reward, 3.0 * shaped) < 1e-7
    assert starc(mdp, reward, -shaped) > 1 - 1e-7
    # The same difference for every policy: what no behaviour can tell.
    gaps = [
        returns(mdp, policy, shaped) - returns(mdp, policy, reward)
        for policy in (some_policy(mdp, rng) for _ in range(3))
    ]
    np.testing.assert_allclose(gaps, -mdp.initial @ potential, atol=1e-8)
    # And the canonical table pays every policy what the table does, less the uniform policy's.
    uniform = mdp.available / np.maximum(mdp.available.sum(axis=1, keepdims=True), 1)
    policy = some_policy(mdp, rng)
    gain = returns(mdp, policy, canonical(mdp, reward))
    expected = returns(mdp, policy, reward) - returns(mdp, uniform, reward)
    assert gain == pytest.approx(expected, abs=1e-8)
    assert not canonical(mdp, reward)[~mdp.available].any()


def test_a_constant_is_told_where_episodes_end_and_only_there():
    rng = np.random.default_rng(1)
    for ends in (True, False):
        mdp = network(3, 0.9, ends=ends)
        reward = alike(mdp, rng.normal(size=(6, 3)))
        moved = starc(mdp, reward, reward + 1.0)
        assert (moved > 0.05) if ends else (moved < 1e-9)  # a step costs: shorter ways are better
    # What an action that is not there pays means nothing.
    changed = np.where(mdp.available, reward, 1e3)
    assert starc(mdp, reward, changed) == 0.0


@pytest.mark.parametrize("discount", DISCOUNTS)
def test_everything_about_the_truth_itself_is_right(discount):
    rng = np.random.default_rng(2)
    mdp = network(5, discount)
    reward = alike(mdp, -0.1 - rng.random((6, 3)))
    costs = alike(mdp, rng.random((6, 3)))[None]
    best = tacit.solve(mdp, Objective(reward))
    least = tacit.solve(mdp, Objective(-costs[0]))
    spent = [float((visits * costs[0]).sum()) for visits in (best.visitation, least.visitation)]
    truth = Objective(reward, costs, [0.5 * sum(spent)])
    features = tacit.Features(reward[:, :, None], [costs[0][:, :, None]])
    found = compare(mdp, truth, truth, features=features)
    for name in ("starc", "regret", "violation", "visitation_distance", "policy_distance"):
        assert getattr(found, name) == pytest.approx(0.0, abs=1e-6), name
    assert found.lagrangian_regret == pytest.approx(0.0, abs=1e-6)
    assert found.policy_agreement == 1.0
    assert found.reward_correlation == pytest.approx(1.0)
    assert found.feasible_set.jaccard == 1.0
    assert 0 < found.feasible_set.true_share < 1
    worse = compare(mdp, truth, Objective(-reward - 3.0), features=features)
    assert worse.starc > 0.1
    assert worse.lagrangian_regret > 0.01
    assert 0 < worse.visitation_distance <= 1


def test_a_range_without_end_is_said_to_have_none():
    # Going round pays at discount 1, and for ever.
    table = np.zeros((2, 2, 2))
    table[0, 0, 0] = table[0, 1, 1] = 1.0
    mdp = MDP(table, [1, 0], 1.0, available=[[1, 1], [0, 0]])
    low, high = return_range(mdp, np.array([[1.0, 0.0], [0.0, 0.0]]))
    assert np.isinf(high)
    low, high = return_range(mdp, np.array([[-1.0, 0.0], [2.0, 2.0]]))
    assert high == pytest.approx(2.0)
    assert np.isinf(low)
    # Behaviours are asked for all the same: rewards are taken down until every step costs.
    asked = sample_behaviours(mdp, vertices=4, combinations=3)
    assert np.isfinite(asked.vertices).all()
    assert asked.vertices[:, 1].sum(axis=1) == pytest.approx(np.ones(4))  # all arrive


def test_distances_and_sets_leave_out_what_is_not_done():
    mdp = network(5, 1.0)
    rng = np.random.default_rng(0)
    first, second = some_policy(mdp, rng), some_policy(mdp, rng)
    visits = np.ones(6)
    gaps = 0.5 * np.abs(first - second).sum(axis=1)
    assert policy_distance(first, second, visits=visits) == pytest.approx(gaps[:4].mean())
    table = rng.random((6, 3))
    assert visitation_distance(mdp, table, table) == 0.0
    assert visitation_distance(mdp, table * [1, 0, 0], table * [0, 1, 1]) == 1.0
    reward = alike(mdp, -rng.random((6, 3)) - 0.1)
    best = tacit.solve(mdp, Objective(reward)).policy
    assert policy_agreement(mdp, reward, best, visits=visits) == 1.0
    # An end is paid for once; what is not available is in no set.
    costs = np.where(mdp.ends[:, None], 2.0, 100.0)[None] * np.ones((1, 6, 3))
    costs[0, 5] = 0.5
    found = costly_pairs(mdp, Objective(np.zeros(6), costs, [1.0]))
    assert found[4].all()
    assert not found[5].any()
    assert np.array_equal(found[:4], mdp.available[:4])
