"""The profile over discounts: a likelihood, a set that covers, and what moves along it."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2

import tacit
from experts import grid, pairs, policy_of, spread_visits
from kinds import told
from oracles import policy_visitation
from rates import coverage_verdict, rates_of
from tacit import MDP
from tacit.inference.findings import Kind

GRID = (0.5, 0.7, 0.8, 0.85, 0.9, 0.93, 0.96)


def expert(discount: float, strength: float = 400.0):
    """(world with this discount, [S, A] policy of a noisy expert there)."""
    world = grid()
    mdp = MDP(world.mdp.transitions, world.mdp.initial, discount)
    theta = [strength * world.reward_weights, *(0.05 * strength * w for w in world.cost_weights)]
    return mdp, policy_of(mdp, world.features, theta)


def profile(seen, grid_of=GRID, **options):
    world = grid()
    return tacit.checks.discount_profile(world.mdp, world.features, seen, grid_of, **options)


@pytest.fixture(scope="module")
def result():
    mdp, policy = expert(0.8)
    return profile(tacit.simulate(mdp, policy, trajectories=60, steps=150, seed=0))


def test_the_profile_is_the_likelihood_of_each_refit(result):
    seen = tacit.simulate(*expert(0.8), trajectories=60, steps=150, seed=0)
    for discount, total, found in zip(
        result.discounts, result.log_likelihood, result.recoveries, strict=True
    ):
        if found.identification.active.all():
            logs = np.log(found.solution.policy[seen.states, seen.actions])
            assert_allclose(total, logs.sum(), rtol=1e-8)  # the loss by another formula
        # Whoever is asked with this discount gets this answer.
        world = grid()
        mdp = MDP(world.mdp.transitions, world.mdp.initial, discount)
        again = tacit.recover(mdp, world.features, seen, estimator=tacit.Likelihood())
        assert_array_equal(again.reward_weights, found.reward_weights)


def test_the_true_discount_is_in_the_set_and_far_ones_are_not(result):
    assert result.inside[result.discounts == 0.8].all()
    assert not result.inside[result.discounts == 0.96].any()
    assert result.interval[0] <= 0.8 <= result.interval[1]
    assert result.best in result.discounts[result.inside]


def test_the_set_ends_where_a_chi_square_says():
    seen = tacit.simulate(*expert(0.8), trajectories=60, steps=150, seed=0)
    fine = profile(seen, np.linspace(0.6, 0.95, 36), estimator=tacit.Likelihood())
    gap = 2 * (fine.log_likelihood.max() - fine.log_likelihood)
    assert_array_equal(fine.inside, gap <= chi2.ppf(0.95, 1))
    # So fine that no neighbouring level would do.
    assert ((gap > chi2.ppf(0.9, 1)) & fine.inside).any()
    assert ((gap < chi2.ppf(0.99, 1)) & ~fine.inside).any()


def test_exact_counts_put_the_top_at_the_truth():
    # As many steps as to make every count its expectation to four digits: no noise is left.
    mdp, policy = expert(0.8)
    visits = spread_visits(policy_visitation(mdp, policy), 2_000_000)
    seen = pairs(np.round(visits[:, None] * policy))
    found = profile(seen, (0.7, 0.75, 0.8, 0.85, 0.9), estimator=tacit.Likelihood())
    assert found.best == 0.8
    assert_array_equal(found.inside, [False, False, True, False, False])
    assert told(found.sentences, Kind.NOTE, number=0.8)
    assert told(found.sentences, Kind.MISFIT, number=0.9)


@pytest.mark.study
def test_the_set_covers():
    mdp, policy = expert(0.8)
    hits = []
    for seed in range(24):
        seen = tacit.simulate(mdp, policy, trajectories=20, steps=60, seed=seed)
        found = profile(seen, (0.7, 0.75, 0.8, 0.85), estimator=tacit.Likelihood())
        hits.append(found.inside[found.discounts == 0.8][0])
    found = coverage_verdict(rates_of("the true discount", np.array(hits)))
    assert found.reached, found


def test_few_steps_cannot_tell():
    seen = tacit.simulate(*expert(0.8), trajectories=4, steps=10, seed=1)
    found = profile(seen, estimator=tacit.Likelihood())
    assert found.inside.all()
    assert found.sentences[0].kind is Kind.NOT_IDENTIFIED
    assert not told(found.sentences, Kind.MISFIT)


def test_sentences_say_how_the_answer_moves(result):
    assert result.sentences[0].kind is Kind.NOT_IDENTIFIED
    kept = [one for one, on in zip(result.recoveries, result.inside, strict=True) if on]
    weights = np.stack([np.concatenate([one.reward_weights, *one.cost_weights]) for one in kept])
    most = np.nanmax(np.ptp(weights, axis=0))
    named = [*kept[0].reward_names, *kept[0].cost_names[0]][int(np.argmax(np.ptp(weights, axis=0)))]
    assert most > 0.05, "the case at hand"
    (moved,) = told(result.sentences, Kind.NOT_IDENTIFIED, feature=named)
    assert moved.about.number == pytest.approx(most)
    assert told(result.sentences, Kind.ACTIVE, constraint=0)


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ([True, False, False], "Discounts below those tried may"),
        ([False, False, True], "Discounts above those tried may"),
        ([True, False, True], "Discounts below and above those tried may"),
    ],
)
def test_an_open_end_of_the_set_is_said(result, inside, said):
    few = replace(
        result,
        discounts=result.discounts[:3],
        log_likelihood=result.log_likelihood[:3],
        share_optimal=result.share_optimal[:3],
        inside=np.array(inside),
        recoveries=result.recoveries[:3],
    )
    assert any(said in sentence for sentence in few.sentences)


def test_columns_are_a_table(result):
    lengths = {len(column) for column in result.columns.values()}
    assert lengths == {len(result.discounts)}
    weights = result.columns["reward: row"]
    assert_array_equal(weights, [one.reward_weights[0] for one in result.recoveries])
    assert_array_equal(result.columns["price 0"], [r.multipliers[0] for r in result.recoveries])


def test_without_noise_the_share_of_optimal_steps_decides():
    world = grid()
    policy = tacit.solve(world.mdp, world.truth).policy
    seen = tacit.simulate(world.mdp, policy, trajectories=30, steps=60, seed=0)
    found = profile(seen)
    assert np.isnan(found.log_likelihood).all(), "the case at hand"
    assert found.inside[found.discounts == 0.9].all()
    assert_array_equal(found.inside, found.share_optimal == found.share_optimal.max())


def test_order_and_repeats_do_not_matter():
    seen = tacit.simulate(*expert(0.8), trajectories=4, steps=10, seed=1)
    one = profile(seen, (0.9, 0.5, 0.9), estimator=tacit.Likelihood())
    assert_array_equal(one.discounts, [0.5, 0.9])


@pytest.mark.parametrize("bad", [[], [1.0], [-0.1, 0.5], [np.nan]])
def test_impossible_discounts_are_refused(bad):
    seen = tacit.simulate(*expert(0.8), trajectories=2, steps=10, seed=1)
    with pytest.raises(tacit.InvalidModel, match="discounts"):
        profile(seen, bad)
