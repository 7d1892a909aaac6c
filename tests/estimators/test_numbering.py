"""Answers do not depend on how features, constraints, states and actions are numbered."""

from dataclasses import replace

import numpy as np
import pytest

import tacit

STATES, ACTIONS, EXPERT = 15, 3, tacit.SoftDual(temperature=0.5)


def tables(rng):
    """Moves, reward features, features of an idle constraint like the first, and of a real one."""
    moves = np.zeros((STATES, ACTIONS, STATES))
    for s, a in np.ndindex(STATES, ACTIONS):
        moves[s, a, rng.choice(STATES, 3, replace=False)] = rng.dirichlet(np.ones(3))
    reward = rng.normal(size=(STATES, ACTIONS, 3))
    idle = 0.8 * reward[..., :1] + 0.6 * rng.normal(size=(STATES, ACTIONS, 4))
    return moves, reward, idle, rng.normal(size=(STATES, ACTIONS, 1))


def world(moves):
    return tacit.MDP(moves, np.full(STATES, 1.0 / STATES), 0.9)


def fitted(mdp, reward, costs, seen):
    return tacit.Likelihood().fit(mdp, tacit.Features(reward, costs), seen, throw=False)


def assert_same(one, other):
    """Two answers are the same but for rounding; ends are searched for."""
    finite = np.isfinite(one)
    assert np.array_equal(finite, np.isfinite(other))
    np.testing.assert_allclose(np.where(finite, one, 0.0), np.where(finite, other, 0.0), atol=1e-6)


def renumbered(seen, states, actions):
    """The same steps where states[i] is called i, and actions[i] likewise."""
    called = np.argsort(states).astype(seen.states.dtype)
    return replace(
        seen,
        states=called[seen.states],
        final_states=called[seen.final_states],
        actions=np.argsort(actions)[seen.actions].astype(seen.actions.dtype),
    )


@pytest.mark.parametrize("seed", range(4))
def test_answers_depend_on_the_problem_alone(seed):
    rng = np.random.default_rng(seed)
    moves, reward, idle, real = tables(rng)
    gain = reward @ np.array([0.6, 0.4, 0.0]) - 0.6 * real[..., 0]
    policy = tacit.solve(world(moves), tacit.Objective(gain), solver=EXPERT).policy
    seen = tacit.simulate(world(moves), policy, trajectories=20, steps=20, seed=seed)
    usual = fitted(world(moves), reward, [idle, real], seen)
    known = usual.identification

    turn, own = np.array([2, 0, 1]), rng.permutation(4)
    turned = fitted(world(moves), reward[..., turn], [idle[..., own], real], seen).identification
    assert_same(known.reward_intervals[turn], turned.reward_intervals)
    assert_same(known.cost_intervals[0][own], turned.cost_intervals[0])
    assert_same(known.multiplier_intervals, turned.multiplier_intervals)
    assert_same(known.budget_intervals, turned.budget_intervals)
    assert_same(known.p_values, turned.p_values)

    swapped = fitted(world(moves), reward, [real, idle], seen).identification
    assert_same(known.reward_intervals, swapped.reward_intervals)
    assert_same(np.flip(known.multiplier_intervals, axis=0), swapped.multiplier_intervals)
    assert_same(np.flip(known.p_values), swapped.p_values)

    states, actions = rng.permutation(STATES), rng.permutation(ACTIONS)
    there = np.ix_(states, actions)
    again = renumbered(seen, states, actions)
    moved = world(moves[there][..., states])
    elsewhere = fitted(moved, reward[there], [idle[there], real[there]], again)
    assert_same(known.reward_intervals, elsewhere.identification.reward_intervals)
    assert_same(known.p_values, elsewhere.identification.p_values)
    parts = zip(usual.goodness.parts, elsewhere.goodness.parts, strict=True)
    assert {part.method for part in usual.goodness.parts} >= {"bootstrap"}  # laws are drawn
    for part, its in parts:
        assert_same(part.p_value, its.p_value)


@pytest.mark.parametrize("seed", [1, 2])
def test_draws_of_counted_dynamics_and_of_power_ask_for_no_numbers(seed):
    rng = np.random.default_rng(seed)
    moves, reward, _, real = tables(rng)
    gain = reward @ np.array([0.6, 0.4, 0.0]) - 0.6 * real[..., 0]
    policy = tacit.solve(world(moves), tacit.Objective(gain), solver=EXPERT).policy
    seen = tacit.simulate(world(moves), policy, trajectories=12, steps=30, seed=seed)
    turn, states, actions = np.array([2, 0, 1]), rng.permutation(STATES), rng.permutation(ACTIONS)
    there = np.ix_(states, actions)
    about = {"n_states": STATES, "n_actions": ACTIONS, "discount": 0.9}
    even = np.full(STATES, 1.0 / STATES)
    moved = renumbered(seen, states, actions)
    one, other = (tacit.MDP.from_transitions(s, initial=even, **about) for s in (seen, moved))
    usual = fitted(one, reward, [real], seen)
    elsewhere = fitted(other, reward[there][..., turn], [real[there]], moved)
    errors, again = (found.parameters.standard_errors for found in (usual, elsewhere))
    assert usual.identification.dynamics is not None
    assert usual.identification.dynamics.attenuation > 1.0  # of worlds that are drawn
    assert_same(errors, again[[1, 2, 0, 3]])
    assert_same(usual.identification.p_values, elsewhere.identification.p_values)
    known = fitted(world(moves), reward, [real], seen).goodness.power
    elsewhere = world(moves[there][..., states])
    others = fitted(elsewhere, reward[there][..., turn], [real[there]], moved).goodness.power
    assert len(known) >= 3
    for part, its in zip(known, others, strict=True):
        assert part.expert == its.expert
        assert_same([part.chance, part.low, part.high], [its.chance, its.low, its.high])
