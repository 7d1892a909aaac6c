"""What is believed after the demonstrations, with and without belief beforehand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import truncnorm

import tacit
from experts import policy_of
from kinds import told
from tacit.checks.beliefs import truncated
from tacit.inference.findings import Kind


@pytest.fixture(scope="module")
def task():
    """A world and long demonstrations in it."""
    world = tacit.worlds.random(500, states=12, actions=3, constraints=0, features=3)
    theta = 8.0 * np.array([0.3, 0.3, 0.4])
    policy = policy_of(world.mdp, world.features, [theta])
    seen = tacit.simulate(world.mdp, policy, trajectories=60, steps=200, seed=1)
    return {"mdp": world.mdp, "features": world.features, "demonstrations": seen}


@pytest.fixture(scope="module")
def found(task):
    """A recovery from long demonstrations, no coefficient near its bound."""
    return tacit.Likelihood().fit(*task.values(), throw=False)


def test_long_data_without_belief_give_the_intervals_of_the_recovery(found):
    known = found.parameters.with_errors("fisher")
    after = tacit.checks.posterior(found)
    inside = (known.estimates - known.lower) > 4.0 * known.standard_errors
    assert inside.all()
    # 4000 draws: an end of an interval is off by 0.04 standard errors; four times that.
    gap = np.abs(after.intervals - known.intervals)[inside] / known.standard_errors[inside, None]
    assert gap.max() < 0.16
    assert (after.draws >= known.lower).all()
    assert told(after.findings, Kind.ERRORS)[0].about.number == 0.0


def test_belief_and_data_weigh_by_their_precision(found):
    name = found.parameters.names[0]
    plain = tacit.checks.posterior(found)
    wanted = plain.means[0] + 3.0 * plain.deviations[0]
    sure = tacit.checks.posterior(found, {name: (wanted, 1e-3 * plain.deviations[0])})
    assert sure.means[0] == pytest.approx(wanted, abs=0.01 * plain.deviations[0])
    even = tacit.checks.posterior(found, {name: (wanted, plain.deviations[0])})
    # As sure as the data: half of the way, and the deviation shrinks by the root of two.
    assert even.means[0] == pytest.approx((plain.means[0] + wanted) / 2, rel=0.05)
    assert even.deviations[0] == pytest.approx(plain.deviations[0] / np.sqrt(2), rel=0.1)
    vague = tacit.checks.posterior(found, {name: (wanted, 1e6 * plain.deviations[0])})
    assert_allclose(vague.means, plain.means, rtol=0.02, atol=0.1 * plain.deviations.max())


def test_draws_within_bounds_have_the_law_of_a_cut_normal():
    mean, precision = np.array([-1.0, 2.0]), np.diag([1.0, 0.25])
    draws = truncated(np.random.default_rng(0), mean, precision, np.array([0.0, -np.inf]))
    law = truncnorm(1.0, np.inf, loc=-1.0)
    assert draws[:, 0].min() >= 0
    for share in (0.1, 0.5, 0.9):  # three standard errors of a quantile of 4000 draws
        assert (draws[:, 0] <= law.ppf(share)).mean() == pytest.approx(share, abs=0.025)
    assert draws[:, 1].mean() == pytest.approx(2.0, abs=0.1)


def test_bad_requests_are_one_line(found):
    with pytest.raises(tacit.InvalidModel, match="names are"):
        tacit.checks.posterior(found, {"nothing": (1.0, 1.0)})
    for pair in ((1.0, 0.0), (1.0, 1e-320), (1e308, 1.0), (np.nan, 1.0)):
        with pytest.raises(tacit.InvalidModel, match="positive standard"):
            tacit.checks.posterior(found, {found.parameters.names[0]: pair})
    with pytest.raises(tacit.InvalidModel, match="confidence"):
        tacit.checks.posterior(found, confidence=0.0)
