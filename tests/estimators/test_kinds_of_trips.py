"""Lapses of travellers, and types of them: the likelihood of trips of unknown kinds."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import networks
import tacit
from kinds import told
from tacit import Kind
from tacit.estimators.trips.world import Trips, at_ends, goal_world
from travellers import GOALS, TRUTH, lengths, streets, travelled

APART = np.array([-1.3, -3.0, 0.0]), np.array([-1.3, 0.0, -3.0])


@cache
def town() -> tuple[tacit.MDP, tacit.Features]:
    """A square of streets and their attributes."""
    mdp = streets(6)
    return mdp, lengths(mdp)


@cache
def soft(coefficients: tuple[float, ...], goal: int, discount: float) -> np.ndarray:
    """[S, A] the policy of a trip, by value iteration."""
    mdp, features = town()
    world = goal_world(mdp, goal, mdp.initial, discount)
    table = (features.reward @ np.array(coefficients))[None]
    return networks.soft_values(world, at_ends(mdp, world, table)[0])[1]


@cache
def lapsing() -> Trips:
    """Trips of which a tenth of the steps is random."""
    mdp, features = town()
    seen = travelled(mdp, features.reward @ TRUTH, 300, GOALS, lapses=0.1)
    return Trips(mdp, features, seen, discount=1.0)


@cache
def two_types(discount: float = 1.0) -> Trips:
    """Trips of two types, the first half of one."""
    mdp, features = town()
    first, second = (
        travelled(mdp, features.reward @ theta, 150, GOALS, seed=seed, discount=discount)
        for seed, theta in enumerate(APART)
    )
    return Trips(mdp, features, first + second, discount=discount)


def test_lapses_of_travellers_are_found():
    found = tacit.recover(lapsing(), estimator=tacit.Likelihood(True, lapses=True))
    plain = tacit.recover(lapsing(), estimator=tacit.Likelihood(True))
    low, high = found.lapses.interval
    assert low <= 0.1 <= high
    assert found.lapses.p_value < 1e-4
    assert found.bic < plain.bic - 5
    ends = found.parameters.at(0.999).intervals
    assert ((ends[:, 0] <= TRUTH) & (ends[:, 1] >= TRUTH)).all()
    assert found.goodness.p_value > 0.01
    assert "lapses=True" in found.estimator
    # The likelihood is that of the mixed policies at the places where trips came by.
    places = found.choices(lapsing().demonstrations)
    likely = (places.counts * np.log(np.maximum(places.policy, 1e-300))).sum()
    assert found.log_likelihood == pytest.approx(likely, rel=1e-12)
    assert told(found.identification.findings, Kind.ASSUMED, number=found.lapses.share)


def test_a_share_of_lapses_that_is_given_stays():
    found = tacit.recover(lapsing(), estimator=tacit.Likelihood(True, lapses=0.1))
    assert found.lapses.share == 0.1
    assert np.isnan(found.lapses.p_value)
    drawn = tacit.recover(lapsing(), estimator=tacit.Likelihood(True, lapses=0.1), bootstrap=4)
    np.testing.assert_array_equal(drawn.reward_weights, found.reward_weights)
    ends = [one.identification.reward_intervals for one in (found, drawn)]
    assert not np.array_equal(*ends)


@pytest.mark.parametrize("discount", [1.0, 0.95])
def test_types_of_travellers_are_the_likeliest(discount):
    trips = two_types(discount)
    found = tacit.recover(trips, estimator=tacit.Mixture(free_reward=True))
    seen = trips.demonstrations
    rows = [seen.trajectory(e) for e in range(seen.episodes)]

    def chances(theta) -> list[float]:
        """Logarithms of those of the trips."""
        policies = {goal: soft(tuple(theta), goal, discount) for goal in GOALS}
        pairs = zip(rows, trips.goals.tolist(), strict=True)
        return [np.log(policies[goal][s[: len(a)], a]).sum() for (s, a), goal in pairs]

    def observed(thetas, shares) -> float:
        each = np.array([chances(one) for one in thetas]) + np.log(shares)[:, None]
        return float(np.logaddexp.reduce(each, axis=0).sum())

    at, shares = np.stack([one.parameters.estimates for one in found.types]), found.shares
    top = observed(at, shares)
    assert found.log_likelihood == pytest.approx(top, abs=1e-6)
    assert top > observed(APART, (0.5, 0.5)) - 1e-9
    for k, j in ((0, 0), (1, 2)):
        step = np.zeros_like(at)
        step[k, j] = 1e-4
        slope = (observed(at + step, shares) - observed(at - step, shares)) / 2e-4
        assert abs(slope) < 0.01  # at a maximum; a standard error is 0.1, the curvature 1e2
    apart = np.subtract(*map(chances, APART))
    clear = np.abs(apart) > 3.0
    right = float((found.assigned == np.repeat([0, 1], 150))[clear].mean())
    assert clear.sum() > 50
    assert max(right, 1.0 - right) > 0.95
    order = [0, 1] if right > 0.5 else [1, 0]
    for k, truth in zip(order, APART, strict=True):
        ends = found.types[k].parameters.at(0.999).intervals
        assert ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).all()
    assert found.degrees == 7


def test_types_of_travellers_are_saved_shown_and_chosen(tmp_path):
    trips = two_types()
    found = tacit.recover(trips, estimator=tacit.Mixture(types=None, most=2, free_reward=True))
    assert len(found.types) == 2
    found.save(tmp_path / "run")
    again = tacit.Mixture.load(tmp_path / "run")
    assert again.summary() == found.summary()
    columns = tacit.export.memberships(found, trips.demonstrations)
    assert sorted(columns["number"].tolist()) == list(range(300))


def test_a_prior_on_every_type_of_travellers_is_that_of_one_where_there_is_one():
    trips, prior = two_types(), tacit.features.Ridge(5.0)
    mixed = tacit.recover(trips, estimator=tacit.Mixture(types=1, free_reward=True, prior=prior))
    alone = tacit.recover(trips, estimator=tacit.Likelihood(free_reward=True, prior=prior))
    np.testing.assert_allclose(
        mixed.types[0].parameters.estimates, alone.parameters.estimates, atol=1e-7
    )
    types = [
        tacit.recover(
            trips, estimator=tacit.Mixture(free_reward=True, prior=tacit.features.Ridge(strength))
        )
        for strength in (1e-6, 5.0)
    ]
    sizes = [sum((one.parameters.estimates**2).sum() for one in found.types) for found in types]
    assert sizes[0] > sizes[1]
    assert types[0].log_likelihood > types[1].log_likelihood
