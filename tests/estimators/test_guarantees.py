"""What is promised holds, and more data buy what was said."""

import numpy as np
import pytest

import tacit
from kinds import told
from tacit.inference.expectations import expectations, pull_back
from tacit.inference.findings import Kind, more_data_findings


@pytest.fixture(scope="module")
def watched():
    world = tacit.worlds.hill_grid(4, tightness=0.5)
    expert = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(temperature=0.0025))
    walks = tacit.simulate(world.mdp, expert.policy, trajectories=100, steps=500, seed=0)
    recovery = tacit.recover(world.mdp, world.features, walks, estimator=tacit.Likelihood())
    return world, expert, walks, recovery


def finding(recovery, kind, **about):
    return told(recovery.identification.findings, kind, **about)[0]


def test_the_guarantee_covers_the_true_expert(watched):
    world, expert, walks, recovery = watched
    seen = expectations(world.mdp, world.features, walks)
    reached = pull_back(world.features, recovery.solution.visitation)
    units = recovery.standard.deviations  # the sentence is about standardised features
    both = [
        seen.guarantee(reached, sampling, units)
        for sampling in (seen.hoeffding(), seen.bernstein())
    ]
    bounds = np.min(both, axis=0)
    assert finding(recovery, Kind.NOTE, feature=None).about.number == pytest.approx(bounds.max())
    maps = (world.features.reward, world.features.costs[0])
    for features, unit, bound in zip(maps, units, bounds, strict=True):
        ours = recovery.solution.visitation.sum(axis=1) @ features
        theirs = expert.visitation.sum(axis=1) @ features
        # The largest entry is the worst difference over all weights of L1 norm 1.
        assert (np.abs(ours - theirs) / unit).max() <= bound


def test_the_data_asked_for_halve_the_widest_interval(watched):
    world, expert, walks, recovery = watched
    assert finding(recovery, Kind.NOTE, number=3 * walks.episodes).about.feature is not None
    larger = tacit.simulate(world.mdp, expert.policy, trajectories=400, steps=500, seed=0)
    again = tacit.recover(world.mdp, world.features, larger, estimator=tacit.Likelihood())

    def widest(found):
        parts = (found.identification.reward_intervals, found.identification.cost_intervals[0])
        return max(np.ptp(part, axis=1).max() for part in parts)

    # Chance moves standard errors from 100 trajectories by about 7 %.
    assert widest(again) == pytest.approx(widest(recovery) / 2, rel=0.25)


def test_a_question_about_one_weight_is_its_interval(watched):
    *_, recovery = watched
    known = recovery.identification
    for j, row in enumerate(known.reward_intervals):
        assert known.interval(3.0 * np.eye(2)[j]) == tuple(3.0 * row)
        assert known.interval(-np.eye(2)[j], [np.zeros(4)]) == (-row[1], -row[0])
    # The multiplier is the sum of the priced cost weights.
    assert known.interval([0.0, 0.0], [np.ones(4)]) == tuple(known.multiplier_intervals[0])
    # All else is the delta method: the difference of two weights that sum to 1 is 2 w - 1.
    low, high = known.interval([1.0, -1.0])
    middle, error = recovery.reward_weights[0], known.reward_standard_errors[0]
    assert (low + high) / 2 == pytest.approx(2 * middle - 1)
    assert (high - low) / 2 == pytest.approx(2 * 1.959964 * error, rel=1e-6)
    # Nearly the price, so nearly its delta method: not from the table.
    near = known.interval([0.0, 0.0], [[1.0, 1.0, 1.0, 1.0 + 1e-9]])
    assert near[1] - near[0] == pytest.approx(
        2 * 1.959964 * known.multiplier_standard_errors[0], rel=1e-6
    )
    # Reward weights sum to one whatever the data say.
    assert known.interval([1.0, 1.0]) == pytest.approx((1.0, 1.0), abs=1e-9)


def test_a_question_of_the_wrong_length_is_refused(watched):
    *_, recovery = watched
    with pytest.raises(tacit.InvalidModel, match="must hold 2 finite numbers"):
        recovery.identification.interval([1.0])


def test_moves_that_cannot_happen_are_found_with_their_place():
    transitions = np.zeros((3, 2, 3))
    transitions[0, :, 1] = transitions[1, :, 1] = transitions[2, :, 2] = 1.0
    mdp = tacit.MDP(transitions, [1.0, 0.0, 0.0], 0.9)
    features = tacit.Features(np.eye(3))
    seen = tacit.Demonstrations.from_trajectories([([0, 1], [0, 0]), ([0, 2, 0], [0, 1, 0])])
    likelihood = tacit.Likelihood()
    for tasks in ((mdp, features, seen), ([tacit.Task(mdp, features, seen)],)):
        with pytest.raises(
            tacit.InvalidDemonstrations, match="2 have none, the first in episode 1"
        ):
            tacit.recover(*tasks, estimator=likelihood)
    with pytest.raises(tacit.InvalidDemonstrations, match="from state 0 by action 0 to state 2"):
        tacit.many.recover_each([tacit.Task(mdp, features, seen)], workers=1)
    found = tacit.recover(
        mdp, features, seen, estimator=likelihood, allow_impossible=True, throw=False
    )
    said = finding(found, Kind.MISFIT, trajectory=1, state=0, action=0)
    assert said.about.number == 2
    assert "step 0" in said
    assert "to state 2" in said
    odd = tacit.Demonstrations.from_trajectories([([1, 1], [0, 1]), ([0, 1], [0, 0])])
    found = tacit.recover(mdp, features, odd, estimator=tacit.Likelihood(), throw=False)
    assert finding(found, Kind.MISFIT, trajectory=0, state=1, action=None).about.number == 1


def test_the_last_move_counts_and_estimated_dynamics_may_be_wrong():
    counts = np.zeros((2, 2, 2))
    counts[0, :, 0] = counts[1, :, 1] = 5
    given = tacit.MDP(counts / 5, [1.0, 0.0], 0.9)
    features = tacit.Features(np.eye(2))
    seen = tacit.Demonstrations.from_trajectories([([0, 0, 1], [0, 1])])
    with pytest.raises(tacit.InvalidDemonstrations, match="step 1: from state 0 by action 1 to"):
        tacit.recover(given, features, seen)
    guessed = tacit.MDP.from_transitions(
        [0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 1, 1], initial=[1.0, 0.0], discount=0.9, prior=0.0
    )
    found = tacit.recover(guessed, features, seen, throw=False)
    assert finding(found, Kind.MISFIT, trajectory=0, state=0, action=1).about.number == 1


def test_what_is_no_estimator_or_solver_is_refused_in_one_line(watched):
    world, _, walks, _ = watched
    for wrong in ("Convex", tacit.Convex):
        with pytest.raises(tacit.InvalidModel, match="estimator must be one like"):
            tacit.recover(world.mdp, world.features, walks, estimator=wrong)
    with pytest.raises(tacit.InvalidModel, match="solver must be one like"):
        tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual)
    with pytest.raises(tacit.InvalidModel, match="takes an MDP and an Objective"):
        tacit.solve(world.truth, world.mdp)


def test_a_slack_budget_has_no_upper_end():
    world = tacit.worlds.hill_grid(seed=0, tightness=0.5)
    loose = tacit.Objective(world.truth.reward, world.truth.costs, [50.0])
    policy = tacit.solve(world.mdp, loose).policy
    walks = tacit.simulate(world.mdp, policy, trajectories=100, steps=500, seed=0)
    found = tacit.recover(world.mdp, world.features, walks, estimator=tacit.Explanation())
    assert found.identification.multiplier_intervals[0, 0] == 0.0
    assert found.identification.budget_intervals[0, 1] == np.inf


def test_no_data_are_asked_for_what_they_cannot_tell(watched):
    walks = watched[2]
    ends = np.array([[0.4, 0.5], [0.0, 1.0], [0.5, np.inf]])
    (said,) = more_data_findings(["sun", "dark", "fire"], ends, walks, True)
    assert (said.about.feature, said.about.number) == ("sun", 300)
    assert more_data_findings(["dark", "fire"], ends[1:], walks, True) == []
