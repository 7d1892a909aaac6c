"""Pairs of a state and what came before are the same world, with more to be said of it."""

import numpy as np
import pytest

import tacit
from tacit.model.features.memory import Memory

SIDE = 4
STATES = SIDE * SIDE


@pytest.fixture(scope="module")
def world():
    rows, columns = np.divmod(np.arange(STATES), SIDE)
    moves = np.zeros((STATES, 4, STATES))
    for a, (down, right) in enumerate([(-1, 0), (1, 0), (0, -1), (0, 1)]):
        there = (rows + down) % SIDE * SIDE + (columns + right) % SIDE
        moves[np.arange(STATES), a, there] += 0.9
        moves[np.arange(STATES), a, np.arange(STATES)] += 0.1
    return tacit.MDP(moves, np.full(STATES, 1.0 / STATES), 0.8)


@pytest.mark.parametrize("what", ["state", "action"])
def test_pairs_move_as_their_states_do(world, what):
    memory = Memory.of_last(world, what)
    values = np.random.default_rng(0).random(STATES)
    lifted = memory.mdp.expected_next(values[memory.now])
    np.testing.assert_allclose(lifted, world.expected_next(values)[memory.now])
    assert memory.mdp.initial.sum() == pytest.approx(1.0)
    assert (memory.before[memory.mdp.initial > 0] == -1).all()


def test_what_ignores_the_past_behaves_as_before(world):
    memory = Memory.of_last(world)
    reward = np.random.default_rng(1).random(STATES)
    plain = tacit.solve(world, tacit.Objective(reward), solver=tacit.SoftDual(0.5))
    pairs = tacit.solve(memory.mdp, tacit.Objective(reward[memory.now]), solver=tacit.SoftDual(0.5))
    np.testing.assert_allclose(pairs.policy, plain.policy[memory.now], atol=1e-7)


def test_the_price_of_turning_back_is_recovered(world):
    memory, rng = Memory.of_last(world), np.random.default_rng(2)
    wood = tacit.features.Map(rng.random((STATES, 1)), "wood")
    likes = memory.lifted(wood)
    back = memory.turning_back()
    wanted = 2.0 * likes.values - 1.5 * back.values[..., 0]
    expert = tacit.solve(memory.mdp, tacit.Objective(wanted), solver=tacit.SoftDual(1.0))
    walks = tacit.simulate(memory.mdp, expert.policy, trajectories=100, steps=40, seed=0)
    # Who watches sees states alone.
    ends = np.where(walks.final_states < 0, -1, memory.now[walks.final_states])
    seen = tacit.Demonstrations(
        memory.now[walks.states], walks.actions, walks.offsets, final_states=ends
    )
    again = memory.demonstrations(seen)
    np.testing.assert_array_equal(again.states, walks.states)
    np.testing.assert_array_equal(again.final_states, walks.final_states)
    features = tacit.features.combine(likes, [back])
    found = tacit.recover(memory.mdp, features, again, estimator=tacit.Likelihood())
    assert np.abs(found.parameters.estimates - [2.0, 1.5]).max() < 0.3
    alone = tacit.Features(wood.values)
    without = tacit.recover(world, alone, seen, estimator=tacit.Likelihood())
    # The serial part of the goodness says that history is wanted.
    assert "serial" in without.goodness.failed
    assert "serial" not in found.goodness.failed


def test_a_habit_is_a_feature_of_the_last_action(world):
    memory = Memory.of_last(world, "action")
    again = memory.repeating(np.arange(STATES) < 8, "as before")
    assert again.names == ("as before: False", "as before: True")
    chosen = memory.before >= 0
    assert (again.values.sum(axis=(1, 2))[chosen] == 1.0).all()
    assert not again.values[~chosen].any()


def test_of_joined_episodes_the_first_step_is_left_out(world):
    memory = Memory.of_last(world)
    seen = tacit.Demonstrations(
        [0, 1, 2, 5, 6, 7], [3, 3, 3, 3, 3, 3], [0, 3, 5, 6], partial=[True, False, True]
    )
    pairs = memory.demonstrations(seen)
    assert pairs.offsets.tolist() == [0, 2, 4]  # the last one had nothing but a first step
    told = [(int(memory.now[s]), int(memory.before[s])) for s in pairs.states]
    assert told == [(1, 0), (2, 1), (5, -1), (6, 5)]


def test_what_cannot_be_remembered_is_one_line(world):
    with pytest.raises(tacit.InvalidModel, match="'state' or 'action'"):
        Memory.of_last(world, "goal")
    memory = Memory.of_last(world)
    with pytest.raises(tacit.InvalidModel, match="last action"):
        memory.repeating()
    with pytest.raises(tacit.InvalidModel, match=r"one label a state, \[16\]"):
        memory.turning_back([1, 2])
    with pytest.raises(tacit.InvalidDemonstrations, match="state 10 after state 0 is not"):
        memory.demonstrations(tacit.Demonstrations([0, 10], [0, 0], [0, 2]))
