"""Which budgets a policy keeps: certificates beside the cautious objective and the truth."""

import numpy as np
import pytest

import tacit
from experts import grid


@pytest.fixture(scope="module")
def noisy():
    """The recovery of a noisy expert on the grid, and its world."""
    world = grid(3)
    noise = 0.05 * float(np.ptp(world.truth.reward))
    policy = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(noise)).policy
    seen = tacit.simulate(world.mdp, policy, trajectories=60, steps=50, seed=3)
    estimator = tacit.Likelihood()
    return world, tacit.recover(world.mdp, world.features, seen, estimator=estimator, throw=False)


def test_what_the_cautious_objective_allows_is_certified(noisy):
    world, recovery = noisy
    caution = recovery.cautious(confidence=0.95)
    best = tacit.solve(world.mdp, caution)
    found = recovery.certify(best, confidence=0.95)
    assert found.safe
    assert (found.confidences >= 0.95 - 1e-3).all()
    _, costs = world.truth.tables(world.mdp)
    assert (np.tensordot(costs, best.visitation, 2) <= world.truth.budgets).all()


def test_a_greedy_policy_is_not_certified_and_a_timid_one_is(noisy):
    world, recovery = noisy
    greedy = tacit.solve(world.mdp, tacit.Objective(world.truth.reward))
    timid = tacit.solve(world.mdp, tacit.Objective(-world.truth.tables(world.mdp)[1][0]))
    assert recovery.certify(greedy).confidences[0] == 0.0
    assert not recovery.certify(greedy.policy).safe
    # Beyond, the set holds the absence of a price, and weights may then be anything.
    assert 0.5 < recovery.certify(timid).confidences[0] < 0.999
    kinds = [one.kind for one in recovery.certify(timid).findings]
    assert kinds == [tacit.Kind.NOTE, tacit.Kind.ASSUMED]


def test_a_larger_confidence_is_kept_by_fewer(noisy):
    world, recovery = noisy
    edge = tacit.solve(world.mdp, recovery.cautious(confidence=0.8))
    share = recovery.certify(edge).confidences[0]
    assert 0.8 - 1e-3 <= share < 0.999
    assert recovery.certify(edge, confidence=share - 1e-3).safe
    assert not recovery.certify(edge, confidence=share + 0.5 * (1.0 - share)).safe


def test_of_tasks_a_mixture_of_what_was_spent_is_certified():
    world = tacit.worlds.random(3, states=8, actions=3, constraints=1, features=2, tightness=0.5)
    tasks = []
    for e in range(2):
        reward = np.roll(np.asarray(world.truth.reward), e, axis=0)
        wanted = tacit.Objective(reward, world.truth.costs, world.truth.budgets)
        policy = tacit.solve(world.mdp, wanted, solver=tacit.SoftDual(0.3)).policy
        seen = tacit.simulate(world.mdp, policy, trajectories=100, steps=50, seed=e)
        tasks.append(tacit.Task(world.mdp, world.features, seen))
    joint = tacit.recover(tasks, throw=False)
    _, costs = world.truth.tables(world.mdp)
    timid = tacit.solve(world.mdp, tacit.Objective(-costs[0]))
    spent = [one.spending.means[0] for one in joint.recoveries]
    own = joint.certify(timid, world.mdp)
    below = [(own.spent[0] <= part).all() for part in spent]
    assert own.safe or not any(below)
    greedy = tacit.solve(world.mdp, tacit.Objective(costs[0]))
    assert not joint.certify(greedy, world.mdp).safe
    # The demonstrator itself is on the hull: within it, but not by the margins of sampling.
    found = joint.certify(tasks_policy(joint, 0), world.mdp)
    assert found.confidences[0] < 0.9


def tasks_policy(joint, e):
    return joint.recoveries[e].solution.policy


def test_a_policy_needs_a_world_and_what_was_spent(noisy, tmp_path):
    _, recovery = noisy
    recovery.save(tmp_path)
    loaded = tacit.Recovery.load(tmp_path)
    with pytest.raises(tacit.InvalidModel, match="give world="):
        loaded.certify(recovery.solution)
    with pytest.raises(tacit.InvalidModel, match="states and actions"):
        recovery.certify(np.full((16, 4), 0.25), tacit.worlds.hill_grid(0, size=4).mdp)
