"""Scores of episodes that the fit has not seen."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

import experts
import tacit
from experts import grid, hill_expert
from tacit import Demonstrations, Features
from tacit.inference.findings import Kind

sampled = partial(experts.sampled, steps=50)


def held(seen, **options):
    world = grid()
    return tacit.checks.holdout(world.mdp, world.features, seen, **options)


@pytest.fixture(scope="module")
def result():
    return held(sampled(), share=0.25, seed=3)


def test_episodes_are_kept_or_held_never_both(result):
    assert len(result.held) == 10
    assert sorted([*result.kept, *result.held]) == list(range(40))
    assert result.steps == 500
    assert_allclose(held(sampled(), share=0.25, seed=3).held, result.held)
    assert set(held(sampled(), share=0.25, seed=4).held) != set(result.held)


def test_scores_are_the_mean_log_likelihood_of_the_episodes_held(result):
    world, seen = grid(), sampled()
    again = tacit.recover(
        world.mdp, world.features, seen.select(result.kept), estimator=tacit.Likelihood()
    )
    steps = seen.select(result.held)
    logs = np.log(again.solution.policy[steps.states, steps.actions])
    # Two fits of the same steps to the same tolerance.
    assert_allclose(result.recovered.log_likelihood, logs.mean(), rtol=1e-7)
    by_episode = logs.reshape(10, 50).mean(axis=1)
    error = by_episode.std(ddof=1) / np.sqrt(10)
    assert_allclose(result.recovered.log_likelihood_error, error, rtol=1e-6)
    assert_allclose(result.uniform.log_likelihood, -np.log(4))
    alone = tacit.RewardOnly().fit(world.mdp, world.features, seen.select(result.kept))
    logs = np.log(alone.solution.policy[steps.states, steps.actions])
    assert_allclose(result.reward_only.log_likelihood, logs.mean(), rtol=1e-7)


def test_the_held_out_score_estimates_that_of_the_same_policy_on_new_data(result):
    fresh = sampled(trajectories=400, seed=99)
    policy = result.recovery.solution.policy
    truth = np.log(policy[fresh.states, fresh.actions]).mean()
    score = result.recovered
    # Four standard errors; that of `fresh` is six times smaller.
    assert abs(score.log_likelihood - truth) < 4 * score.log_likelihood_error


def test_a_constraint_that_matters_is_seen_on_new_episodes(result):
    assert result.recovered.lead == 0.0
    assert result.reward_only.lead > 3 * result.reward_only.lead_error
    scored, verdict = result.sentences
    assert (verdict.kind, verdict.about.number) == (Kind.NOTE, result.reward_only.lead)
    assert (len(result.held), result.steps) == (10, 500)
    assert scored.about.number == result.recovered.log_likelihood
    assert result.uniform.log_likelihood == pytest.approx(np.log(0.25))


def test_random_actions_are_not_predicted():
    result = held(sampled(np.full((25, 4), 0.25)), estimator=tacit.Likelihood())
    assert result.sentences[-1].kind is Kind.MISFIT


def test_a_constraint_that_never_was_is_not_credited():
    world = grid()
    free = hill_expert(price=0.0)[0]
    result = held(sampled(free), estimator=tacit.Likelihood())
    assert result.sentences[-1].kind is Kind.INACTIVE
    alone = Features(world.features.reward)
    again = tacit.checks.holdout(world.mdp, alone, sampled(free), estimator=tacit.Likelihood())
    assert again.reward_only.lead == 0.0
    verdict = again.sentences[-1]
    assert (verdict.kind, verdict.about.number) == (Kind.NOTE, again.uniform.lead)


def test_without_noise_optimal_steps_are_counted():
    world = grid()
    seen = sampled(tacit.solve(world.mdp, world.truth).policy)
    result = held(seen, estimator=tacit.Explanation())
    assert np.isnan(result.recovered.log_likelihood)
    # What was seen of an optimal expert need not show every action it may take.
    assert result.recovered.share_optimal > 0.9 > result.uniform.share_optimal
    assert result.sentences[0].about.number == result.recovered.share_optimal


def test_loose_pairs_and_two_episodes_can_be_held_out():
    seen = sampled(trajectories=300, steps=1)
    pairs = Demonstrations.from_pairs(seen.states, seen.actions)
    assert len(held(pairs, estimator=tacit.Likelihood()).held) == 60
    two = held(sampled(trajectories=2, steps=300), estimator=tacit.Likelihood())
    assert np.isnan(two.recovered.log_likelihood_error)
    assert "nan" not in " ".join(two.sentences)
    assert two.sentences[1].kind is Kind.NOT_IDENTIFIED


def test_what_cannot_be_held_out_is_refused():
    with pytest.raises(tacit.InvalidDemonstrations, match="at least 2 episodes; got 1"):
        held(sampled(trajectories=1))
    for share in (0.0, 1.0, -0.1, np.nan):
        with pytest.raises(tacit.InvalidModel, match="share must be between 0 and 1"):
            held(sampled(), share=share)
