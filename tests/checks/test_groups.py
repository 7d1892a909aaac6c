"""Do groups want the same? Calibrated where they do, awake where they do not."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2

import tacit
from experts import policy_of
from rates import rates_of, size_verdict
from tacit import Demonstrations
from tacit.checks.groups import redrawn_counts
from tacit.inference.findings import Kind

EQUAL = ([1.2, 0.0], [0.8, 0.0])  # a reward and a cost weight on their bounds
OTHER = ([1.2, 0.0], [0.0, 2.4])
INNER = ([1.5, 1.5], [1.5, 1.5])
FREE = tacit.Likelihood(free_reward=True)


@cache
def world():
    return tacit.worlds.random(3, states=5, actions=3, constraints=1, features=2, tightness=0.5)


def policy(reward, cost, sharpness=1.0):
    theta = [sharpness * np.array(reward), sharpness * np.array(cost)]
    return policy_of(world().mdp, world().features, theta)


def drawn(policies, *, episodes=12, steps=15, seed=0):
    """Demonstrations of several policies one after the other, and the group of each episode."""
    parts = [
        tacit.simulate(world().mdp, each, trajectories=episodes, steps=steps, seed=100 * seed + g)
        for g, each in enumerate(policies)
    ]
    seen = Demonstrations.from_trajectories(
        part.trajectory(e) for part in parts for e in range(episodes)
    )
    return seen, np.repeat([f"group {g}" for g in range(len(parts))], episodes)


def compared(policies, *, episodes=12, steps=15, seed=0, **options):
    seen, groups = drawn(policies, episodes=episodes, steps=steps, seed=seed)
    return tacit.checks.equal_weights_test(world().mdp, world().features, seen, groups, **options)


def log_likelihood(recovery, seen) -> float:
    return float(np.log(recovery.solution.policy[seen.states, seen.actions]).sum())


def test_the_ratio_is_that_of_separate_and_common_fits():
    # Level 1 keeps every constraint, as the test does.
    keep = tacit.Likelihood(level=1.0)
    policies = [policy(*INNER), policy(*INNER, 1.3)]
    seen, groups = drawn(policies, episodes=40, steps=40)
    found = tacit.checks.equal_weights_test(
        world().mdp, world().features, seen, groups, estimator=keep, draws=0
    )
    parts = [*(seen.select(groups == name) for name in found.groups), seen]
    one, two, both = (
        log_likelihood(keep.fit(world().mdp, world().features, part), part) for part in parts
    )
    # Likelihoods of thousands of steps, each fit to 1e-9 a step.
    assert_allclose(found.ratio, 2 * (one + two - both), atol=1e-4)
    assert found.groups == ("group 0", "group 1")
    assert_array_equal(found.episodes, [40, 40])
    assert_array_equal(found.steps, [1600, 1600])


def test_the_law_is_a_chi_square_where_no_bound_is_near():
    found = compared([policy(*INNER)] * 3, episodes=60, steps=60)
    assert found.draws == 0
    assert found.degrees == 2 * 4  # two more groups, four parameters each
    assert_allclose(found.p_value, chi2.sf(found.ratio, 8))


def test_the_law_is_simulated_where_a_bound_is_met():
    found = compared([policy(*EQUAL)] * 2)
    assert found.draws == 199
    assert np.isnan(found.degrees)
    few = compared([policy(*EQUAL)] * 2, episodes=4, draws=19)
    assert few.draws == 19
    assert found.law != few.law  # too few episodes to deal them out again


@pytest.mark.study
@pytest.mark.parametrize(("episodes", "draws"), [(12, 19), (3, 19)], ids=["dealt", "redrawn"])
def test_equal_groups_are_rarely_called_different(episodes, draws):
    same = [policy(*EQUAL)] * 2
    steps = 180 // episodes
    p_values = np.array(
        [
            compared(same, episodes=episodes, steps=steps, seed=seed, draws=draws).p_value
            for seed in range(20)
        ]
    )
    assert (p_values <= 0.2).any()  # 20 of a fair test lack one with a chance of .01
    for level in (0.05, 0.2):
        found = size_verdict(rates_of("equal groups", p_values <= level), level)
        assert found.reached, found
    assert 0.3 < p_values.mean() < 0.7  # 0.5, standard error 0.065


def test_different_groups_are_told_apart():
    found = compared([policy(*EQUAL), policy(*OTHER)], episodes=30, steps=30)
    assert found.p_value == 1 / 200
    [verdict] = found.sentences
    assert (verdict.kind, verdict.about.number) == (Kind.MISFIT, found.p_value)


def test_the_seed_decides():
    one, two, other = (compared([policy(*EQUAL)] * 2, draws=29, seed=seed) for seed in (0, 0, 1))
    assert one.p_value == two.p_value
    assert one.ratio != other.ratio


def test_new_actions_are_drawn_from_the_common_policy_in_the_states_met():
    seen, _ = drawn([policy(*EQUAL)] * 2)
    own, random = policy(*OTHER), np.random.default_rng(0)
    visits = seen.counts(world().mdp).sum(axis=1).astype(int)
    tables = [redrawn_counts(random, own, visits) for _ in range(2000)]
    assert all((table.sum(axis=1) == visits).all() for table in tables)
    # Four standard errors of the mean of 2000 binomial counts, of variance at most visits / 4.
    error = np.sqrt(visits / 4 / 2000)[:, None]
    assert (np.abs(np.mean(tables, axis=0) - visits[:, None] * own) <= 4 * error + 1e-12).all()


def test_loose_pairs_keep_their_states():
    seen, groups = drawn([policy(*EQUAL)] * 2, episodes=60, steps=1)
    loose = Demonstrations.from_pairs(seen.states, seen.actions)
    found = tacit.checks.equal_weights_test(world().mdp, world().features, loose, groups, draws=19)
    assert "by drawing new actions" in found.law


def test_an_expert_without_noise_is_compared_all_the_same():
    best = tacit.solve(world().mdp, world().truth).policy
    found = compared([best, best], episodes=10, draws=19)
    assert found.p_value > 0.05
    assert np.isfinite(found.ratio)


def test_groups_of_the_demonstrations_are_taken():
    seen, groups = drawn([policy(*EQUAL)] * 2)
    named = replace(seen, groups=groups)
    task = (world().mdp, world().features)
    one = tacit.checks.equal_weights_test(*task, named, draws=0)
    assert one.ratio == tacit.checks.equal_weights_test(*task, seen, groups, draws=0).ratio
    assert one.groups == ("group 0", "group 1")


def test_groups_that_make_no_comparison_are_refused():
    seen, groups = drawn([policy(*EQUAL)] * 2)
    task = (world().mdp, world().features, seen)
    with pytest.raises(tacit.InvalidDemonstrations, match="group"):
        tacit.checks.equal_weights_test(*task)
    with pytest.raises(tacit.InvalidDemonstrations, match=r"one entry an episode \(24\); got 3"):
        tacit.checks.equal_weights_test(*task, groups[:3])
    with pytest.raises(tacit.InvalidDemonstrations, match="at least two groups"):
        tacit.checks.equal_weights_test(*task, ["a"] * 24)
    with pytest.raises(tacit.InvalidModel, match="use Likelihood"):
        tacit.checks.equal_weights_test(*task, groups, estimator=tacit.Convex())
    with pytest.raises(tacit.InvalidModel, match="draws must be at least 0"):
        tacit.checks.equal_weights_test(*task, groups, draws=-1)
