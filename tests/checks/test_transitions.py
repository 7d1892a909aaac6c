"""What transition laws license, by what they are defined by."""

import numpy as np
import pytest

import tacit

STATES, ACTIONS = 6, 3


def law(seed, discount=0.9):
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.ones(STATES), size=(STATES, ACTIONS))
    return tacit.MDP(moves, np.full(STATES, 1 / STATES), discount)


def task(mdp):
    features = tacit.Features(np.random.default_rng(0).random((STATES, 2)))
    policy = np.full((STATES, ACTIONS), 1 / ACTIONS)
    return tacit.Task(mdp, features, tacit.simulate(mdp, policy, trajectories=2, steps=5, seed=0))


def shaping(mdp, values):
    return values[:, None] - mdp.discount * mdp.dense() @ values


def test_laws_apart_leave_a_constant_open_and_no_more():
    worlds = [law(0), law(1)]
    found = tacit.checks.transfer([task(one) for one in worlds])
    assert (found.open, found.tasks) == (0, (0, 1))
    assert 0.0 < found.angle < np.pi / 2
    rng = np.random.default_rng(0)
    for _ in range(200):  # near a shaping of both, a table is near a constant
        one, other = (shaping(world, rng.normal(size=STATES)) for world in worlds)
        table = 0.5 * (one + other)
        spaces = [np.stack([shaping(w, v).ravel() for v in np.eye(STATES)], axis=1) for w in worlds]
        missed = [
            np.linalg.norm(table.ravel() - space @ np.linalg.lstsq(space, table.ravel())[0])
            for space in spaces
        ]
        away = np.linalg.norm(table - table.mean())
        assert away <= found.magnification * max(missed) + 1e-9


def test_the_same_law_leaves_all_shaping_open():
    found = tacit.checks.transfer([task(law(0)), task(law(0))])
    assert found.open == STATES - 1
    assert np.isnan(found.angle)
    assert found.sentences[0].kind is tacit.Kind.NOT_IDENTIFIED


def test_of_several_tasks_the_best_two_count():
    found = tacit.checks.transfer([task(law(0)), task(law(0)), task(law(2))])
    assert found.open == 0
    assert 2 in found.tasks
    with pytest.raises(tacit.InvalidModel, match="at least two"):
        tacit.checks.transfer([task(law(0))])


def counted(truth, each, seed):
    rng = np.random.default_rng(seed)
    states, actions = (part.ravel() for part in np.indices((STATES, ACTIONS)))
    states, actions = np.repeat(states, each), np.repeat(actions, each)
    after = [
        rng.choice(STATES, p=truth.dense()[s, a]) for s, a in zip(states, actions, strict=True)
    ]
    return tacit.MDP.from_transitions(
        states,
        actions,
        np.array(after),
        n_states=STATES,
        n_actions=ACTIONS,
        prior=0.0,
        initial=truth.initial,
        discount=truth.discount,
    )


def test_rewards_that_explain_a_policy_are_as_near_as_is_said():
    truth, rng = law(0), np.random.default_rng(0)
    for seed in range(5):
        world = counted(truth, 200, seed)
        found = tacit.checks.counted_accuracy(world)
        values = rng.random((300, STATES)) / (1.0 - truth.discount)
        moved = max(np.abs(shaping(truth, v) - shaping(world, v)).max() for v in values)
        assert moved <= found.accuracy


def test_the_steps_that_are_asked_for_suffice():
    found = tacit.checks.counted_accuracy(counted(law(0), 50, 0), wanted=2.0)
    assert found.accuracy > 2.0
    enough = tacit.checks.counted_accuracy(counted(law(0), 50 + int(found.more.max()), 0))
    assert enough.accuracy == pytest.approx(2.0, rel=0.01)
    with pytest.raises(tacit.InvalidModel, match="counted"):
        tacit.checks.counted_accuracy(law(0))
