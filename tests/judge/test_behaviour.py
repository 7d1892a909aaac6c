"""Likeness of behaviours: by hand, as theorems, and against the oracles."""

import numpy as np
import pytest
from hypothesis import given

import oracles
import tacit
from strategies import examples, policies, problems, random_policy
from switch import EXPERT, NEVER, PRICED, STAYS, TO_AND_FRO, TWO
from tacit.errors import InvalidModel
from tacit.judge.behaviour import (
    feature_gap,
    log_likelihood,
    policy_agreement,
    policy_distance,
    visitation_distance,
)
from tacit.judge.outcomes import lagrangian, lagrangian_regret

SMALL = problems(max_states=12, max_actions=4, max_discount=0.99)

POLICY = np.array([[0, 1], [0.6, 0.4]])
WAITS = np.array([[1.0, 0], [1, 0]])


# --- by hand --------------------------------------------------------------------------------------


def test_visitation_distance_by_hand():
    assert visitation_distance(TWO, EXPERT, EXPERT) == 0.0
    assert visitation_distance(TWO, EXPERT, NEVER) == 1.0  # nothing in common
    assert visitation_distance(TWO, EXPERT, STAYS) == pytest.approx((1 / 6 + 1 / 2 + 1 / 3) / 4)
    # Of the states alone: 7/6, 5/6 against 1, 1.
    states = visitation_distance(TWO, EXPERT.sum(axis=1), STAYS.sum(axis=1))
    assert states == pytest.approx(1 / 12)


def test_policy_distance_by_hand():
    visits = np.array([7 / 6, 5 / 6])
    assert policy_distance(POLICY, POLICY, visits=visits) == 0.0
    assert policy_distance(POLICY, WAITS, visits=visits) == pytest.approx(0.75)
    assert policy_distance(POLICY, WAITS, visits=12 * visits) == pytest.approx(0.75)


def test_policy_agreement_by_hand():
    visits = np.array([7 / 6, 5 / 6])
    assert policy_agreement(TWO, PRICED, POLICY, visits=visits) == 1.0
    # To wait in state 0 is wrong, whatever is done in state 1 is right.
    assert policy_agreement(TWO, PRICED, WAITS, visits=visits) == pytest.approx(5 / 12)
    # A little wrong is wrong; dust is not.
    for mass, expected in ((0.01, 5 / 12), (1e-9, 1.0)):
        mixed = np.array([[mass, 1 - mass], [1, 0]])
        assert policy_agreement(TWO, PRICED, mixed, visits=visits) == pytest.approx(expected)
    # The tie holds to the tolerance, in units of the largest gap anywhere, 1/3.
    for loss, expected in ((1e-8, 1.0), (1e-4, 7 / 12)):
        worse = PRICED - [[0, 0], [loss, 0]]
        stays = np.array([[0, 1.0], [1, 0]])
        for unit in (1.0, 1e-4, 1e4):
            found = policy_agreement(TWO, unit * worse, stays, visits=visits)
            assert found == pytest.approx(expected)
    generous = policy_agreement(TWO, PRICED, WAITS, visits=visits, tolerance=1.0)
    assert generous == 1.0


def test_log_likelihood_by_hand():
    policy = np.array([[0.25, 0.75], [1.0, 0.0]])
    seen = tacit.Demonstrations.from_trajectories([([0, 1], [1, 0]), ([0], [1])])
    assert log_likelihood(TWO, policy, seen) == pytest.approx(2 * np.log(0.75) / 3)
    slip = tacit.Demonstrations.from_trajectories([([0, 1], [1, 1])])
    assert log_likelihood(TWO, policy, slip) == -np.inf
    assert log_likelihood(TWO, np.full((2, 2), 0.5), slip) == pytest.approx(-np.log(2))
    stays = tacit.Demonstrations.from_trajectories([([1, 1], [0, 0])])
    assert log_likelihood(TWO, policy, stays) == 0.0
    with pytest.raises(InvalidModel, match="policy must have shape"):
        log_likelihood(TWO, policy[:1], seen)


def test_feature_gap_by_hand():
    # Both features, being in state 1 and staying there, sum to 0.5 in one trajectory and to 0 in
    # the other: mean 0.25, standard error 0.25. Who stays for ever collects 1 of each.
    features = tacit.Features([[0], [1]], [[[[0], [0]], [[8], [0]]]])
    seen = tacit.Demonstrations.from_trajectories([([0, 1], [1, 0]), ([0, 0], [0, 0])])
    found = feature_gap(TWO, STAYS, features=features, demonstrations=seen)
    assert found.gap == pytest.approx(3.0)  # (1 - 0.25) / 0.25 in either map, whatever its unit
    assert found.noise == pytest.approx(1.0)
    assert found.truncation == pytest.approx(2.0)  # cut off after 2 steps: 0.5 of 0.25
    # Going to and fro meets 2/3 of the first and nothing of the second.
    other = feature_gap(TWO, TO_AND_FRO, features=features, demonstrations=seen)
    assert other.gap == pytest.approx(np.sqrt(((5 / 3) ** 2 + 1) / 2))
    # Loose pairs have no discounted sums from the start.
    loose = tacit.Demonstrations.from_pairs([0, 1], [1, 0])
    assert np.isnan(feature_gap(TWO, STAYS, features=features, demonstrations=loose).gap)


def test_the_expert_itself_leaves_a_gap_of_the_size_of_the_noise():
    gaps = []
    for seed in range(8):
        world = tacit.worlds.hill_grid(seed, tightness=0.5)
        solution = tacit.solve(world.mdp, world.truth)
        seen = tacit.simulate(world.mdp, solution.policy, trajectories=50, steps=200, seed=seed)
        gap = feature_gap(
            world.mdp, solution.visitation, features=world.features, demonstrations=seen
        )
        gaps.append(gap.gap / gap.noise)
    # The noise is the root mean square of the gap; eight draws of few degrees of freedom each.
    assert 0.5 < np.sqrt(np.mean(np.square(gaps))) < 1.6


# --- theorems -------------------------------------------------------------------------------------


@given(SMALL)
@examples(50)
def test_visitation_distance_is_a_metric_and_bounds_returns(problem):
    mdp, (table, _) = problem.mdp, problem.tables
    one, two, three = (
        oracles.policy_visitation(mdp, random_policy(problem.seed + i, *table.shape))
        for i in range(3)
    )
    distance = visitation_distance(mdp, one, two)
    assert 0.0 <= distance <= 1.0
    assert distance == visitation_distance(mdp, two, one)
    assert visitation_distance(mdp, one, one) == 0.0
    around = visitation_distance(mdp, one, three) + visitation_distance(mdp, three, two)
    assert distance <= around + 1e-14
    apart = abs(np.vdot(one - two, table)) * (1 - mdp.discount)
    assert apart <= distance * np.ptp(table) + 1e-11
    assert visitation_distance(mdp, one.sum(axis=1), two.sum(axis=1)) <= distance + 1e-14


@given(SMALL)
@examples(60)
def test_agreement_on_one_s_own_visits_is_one_exactly_without_lagrangian_regret(problem):
    mdp, truth = problem.mdp, problem.objective
    solution = tacit.solve(mdp, truth)
    priced = lagrangian(mdp, truth, solution.multipliers)
    visits = solution.visitation.sum(axis=1)
    assert policy_agreement(mdp, priced, solution.policy, visits=visits) == 1.0
    policy = policies(problem)
    own = oracles.policy_visitation(mdp, policy)
    agreement = policy_agreement(mdp, priced, policy, visits=own.sum(axis=1))
    assert -1e-12 <= agreement <= 1.0
    loss = lagrangian_regret(mdp, priced, own)
    # Performance difference: the regret is the sum of the gaps of the actions taken.
    _, values, _ = oracles.best_policy(mdp, priced)
    gaps = values[:, None] - priced - mdp.discount * mdp.dense() @ values
    size = 1e-8 * max(1.0, np.abs(priced).max() / (1 - mdp.discount))
    assert loss == pytest.approx(np.vdot(own, gaps), abs=size)
    assert (agreement > 1 - 1e-9) == (loss <= 1e-5 * max(size * 1e8, gaps.max()))


@given(SMALL)
@examples(40)
def test_policy_agreement_is_blind_to_scale_shift_and_shaping(problem):
    mdp, (table, _) = problem.mdp, problem.tables
    policy, rng = policies(problem), np.random.default_rng([problem.seed, 8])
    visits = rng.random(mdp.states)
    shaped = mdp.discount * mdp.dense() @ (potential := rng.normal(size=mdp.states))
    expected = policy_agreement(mdp, table, policy, visits=visits)
    for moved in (1e-3 * table, 1e3 * table, table + 2.0, table + shaped - potential[:, None]):
        assert policy_agreement(mdp, moved, policy, visits=visits) == pytest.approx(expected)
    assert policy_agreement(mdp, 0 * table, policy, visits=visits) == pytest.approx(1.0)


@given(problems(max_states=8, max_actions=4, max_discount=0.9))
@examples(25)
def test_no_policy_explains_steps_better_than_their_own_frequencies(problem):
    # Gibbs' inequality; and the order of steps does not matter.
    mdp = problem.mdp
    shape = (mdp.states, mdp.actions)
    seen = tacit.simulate(
        mdp, random_policy(problem.seed, *shape), trajectories=3, steps=20, seed=problem.seed
    )
    counts = seen.counts(mdp)
    visits = counts.sum(axis=1, keepdims=True)
    frequencies = np.where(visits > 0, counts / np.maximum(visits, 1), 1 / mdp.actions)
    best = log_likelihood(mdp, frequencies, seen)
    other = log_likelihood(mdp, random_policy(problem.seed + 1, *shape), seen)
    assert other <= best + 1e-12
    assert best <= 0.0
    assert log_likelihood(mdp, frequencies, seen.select([2, 0, 1])) == pytest.approx(best)
    by_step = [np.log(frequencies[s, a]) for s, a in zip(seen.states, seen.actions, strict=True)]
    assert best == pytest.approx(np.mean(by_step))
