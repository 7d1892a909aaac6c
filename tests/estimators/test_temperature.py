"""A temperature that is given: one parameter less, and all that is told uses the knowledge."""

from typing import cast

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import tacit
from kinds import told
from tacit.inference.findings import Kind
from tacit.inference.profiles import landscape
from tacit.likelihood.start import maximum, within_temperature
from tacit.likelihood.steps import StepsChain, information
from tacit.model.features.design import Design
from tacit.search.algebra import least_squares
from tacit.show.quantities import NamedRecovery, weight_tables
from tacit.show.tables import Bar, Table

NOISE, PRICE = 0.3, 1.5


@pytest.fixture(scope="module")
def world():
    return tacit.worlds.random(3, states=8, actions=3, features=3, tightness=0.5)


@pytest.fixture(scope="module")
def seen(world):
    reward, costs = world.truth.tables(world.mdp)
    wanted = tacit.Objective(reward - PRICE * costs[0])
    expert = tacit.solve(world.mdp, wanted, solver=tacit.SoftDual(temperature=NOISE))
    return tacit.simulate(world.mdp, expert.policy, trajectories=20, steps=100, seed=1)


@pytest.fixture(scope="module")
def found(world, seen):
    return tacit.Likelihood(temperature=NOISE).fit(world.mdp, world.features, seen, throw=False)


@pytest.fixture(scope="module")
def unknowing(world, seen):
    return tacit.Likelihood().fit(world.mdp, world.features, seen, throw=False)


def lost(world, seen, theta):
    """Minus the log-likelihood of coefficients [D + D_0], by value iteration."""
    size = world.features.reward.shape[-1]
    gain = world.features.reward @ theta[:size] - world.features.costs[0] @ theta[size:]
    gain = gain[:, None] if gain.ndim == 1 else gain
    values, ahead = np.zeros(world.mdp.states), gain
    moves = np.stack([world.mdp.expected_next(e) for e in np.eye(world.mdp.states)], axis=-1)
    for _ in range(2000):
        ahead = gain + world.mdp.discount * moves @ values
        before, values = values, np.log(np.exp(ahead).sum(axis=1))
        if np.abs(values - before).max() < 1e-12:
            break
    return -float((seen.counts(world.mdp) * (ahead - values[:, None])).sum())


def test_it_is_the_likeliest_among_the_rewards_of_this_norm(world, seen, found):
    theta, size = found.parameters.estimates, world.features.reward.shape[-1]
    assert found.temperature == pytest.approx(NOISE, rel=1e-12)
    assert theta[:size].sum() == pytest.approx(1 / NOISE, rel=1e-12)
    best = minimize(
        lambda x: lost(world, seen, x),
        np.full(len(theta), 1.0),
        method="SLSQP",
        bounds=[(0.0, None)] * len(theta),
        constraints={"type": "eq", "fun": lambda x: x[:size].sum() - 1 / NOISE},
        options={"ftol": 1e-12, "maxiter": 300},
    )
    assert lost(world, seen, theta) <= best.fun + 1e-6  # of 2000 steps; finite differences
    assert -found.log_likelihood == pytest.approx(lost(world, seen, theta), rel=1e-10)
    assert_allclose(theta, best.x, atol=5e-3)


def test_what_is_known_beforehand_makes_the_rest_surer(found, unknowing):
    known, other = found.parameters, unknowing.parameters
    assert known.degrees == other.degrees - 1
    assert (known.standard_errors <= other.standard_errors * 1.1)[np.isfinite(known.z)].all()
    ends, wide = (one.identification.multiplier_intervals for one in (found, unknowing))
    assert np.ptp(ends) < np.ptp(wide)
    assert ends[0, 0] <= PRICE <= ends[0, 1]
    # The price is that over the noise times the noise, which is known: so are their errors.
    assert found.noise_prices.standard_errors[0] * NOISE == pytest.approx(
        found.identification.multiplier_standard_errors[0], rel=1e-3
    )
    assert len(told(found.identification.findings, Kind.ASSUMED, number=NOISE)) == 1
    assert not told(found.identification.findings, Kind.MISFIT)


@pytest.mark.parametrize("prior", [None, tacit.features.Ridge(3.0)])
def test_clustered_errors_are_the_same_wherever_they_are_asked_for(world, prior):
    reward, costs = world.truth.tables(world.mdp)
    wanted = tacit.Objective(reward - PRICE * costs[0])
    expert = tacit.solve(world.mdp, wanted, solver=tacit.SoftDual(temperature=NOISE))
    # One of the 5 % of draws in which the right model is said not to fit: errors are clustered.
    seen = tacit.simulate(world.mdp, expert.policy, trajectories=20, steps=100, seed=0)
    known = tacit.Likelihood(temperature=NOISE, prior=prior)
    found = known.fit(world.mdp, world.features, seen, throw=False)
    assert found.parameters.errors == "clustered"
    # What is known has ten thousand times the information of the steps.
    assert found.noise_prices.standard_errors[0] * NOISE == pytest.approx(
        found.identification.multiplier_standard_errors[0], rel=1e-3
    )


def test_errors_are_those_of_the_information_within_the_norm(world, seen):
    # The inverse information with the norm held: F^-1 - F^-1 a a' F^-1 / (a' F^-1 a).
    space = Design.of(world.mdp, world.features)
    steps = StepsChain.of(world.mdp, space, seen)
    fitted = within_temperature(maximum(steps, tacit.Likelihood()), NOISE, 300)
    known = fitted.problem.equalities
    assert fitted.converged
    assert_allclose(fitted.missing(fitted.z), 0.0, atol=1e-9)
    assert_allclose(known.values, 1.0 / NOISE)
    rng = np.random.default_rng(0)
    fisher = information(rng.random((space.size, 8, 3)), fitted.parts[0].policy, steps.visits)
    inverse, form = np.linalg.inv(fisher), known.matrix[0]
    right = inverse - np.outer(inverse @ form, form @ inverse) / (form @ inverse @ form)
    # What is known has ten thousand times the information of the steps.
    assert_allclose(
        np.linalg.inv(fisher + known.information(fisher)), right, atol=2e-3 * right.max()
    )
    moves = known.tangents(np.ones(space.size, bool))
    assert moves.shape == (space.size - 1, space.size)
    assert_allclose(moves @ form, 0.0, atol=1e-12)


def test_one_reward_feature_is_the_reward_that_is_known(world, seen):
    one = tacit.Features(world.features.reward[..., :1], world.features.costs)
    given = tacit.Likelihood(temperature=0.4).fit(world.mdp, one, seen, throw=False)
    same = tacit.ConstraintOnly([1.0], 0.4).fit(world.mdp, one, seen, throw=False)
    assert_allclose(given.multipliers, same.multipliers, rtol=1e-6)
    assert given.log_likelihood == pytest.approx(same.log_likelihood, rel=1e-10)
    for name in ("multiplier_intervals", "budget_intervals"):
        ends, others = getattr(given.identification, name), getattr(same.identification, name)
        assert_allclose(ends, others, rtol=1e-3)
    assert given.bic == pytest.approx(same.bic)


def test_no_coefficient_can_be_more_than_all_of_the_reward(world, seen):
    for noise in (NOISE, 3.0):  # at 3 one feature has all of it
        given = tacit.Likelihood(temperature=noise).fit(
            world.mdp, world.features, seen, throw=False
        )
        for kind in ("fisher", "clustered"):
            ends = given.parameters.with_errors(kind).intervals[:3]
            assert (ends[:, 1] <= (1 + 1e-9) / noise).all()
            assert (ends[:, 0] < ends[:, 1]).all()


def test_demonstrations_can_speak_against_it(world, seen):
    wrong = tacit.Likelihood(temperature=NOISE / 2).fit(
        world.mdp, world.features, seen, throw=False
    )
    assert [one for one in told(wrong.identification.findings, Kind.MISFIT) if "temperature" in one]


@pytest.mark.parametrize("zeros", [0, 5])
def test_the_law_of_its_test_is_that_of_fresh_draws(zeros):
    rng, size = np.random.default_rng(zeros), 2 + zeros
    rows = np.linalg.cholesky(np.eye(size) + 0.3 * np.ones((size, size))).T
    truth, form = np.r_[6.0, 6.0, np.zeros(zeros)], np.ones(size)
    chances = []
    for _ in range(30):
        goal = rows @ truth + rng.standard_normal(size)
        place, _ = least_squares(rows, goal)
        slope, law = rows.T @ (rows @ place - goal), rows.T @ rows
        bounds = {"lower": np.zeros(size), "upper": np.full(size, np.inf)}
        around = landscape(place, slope, law, **bounds, moving=np.ones(size, bool))
        chances.append(around.chance(form, -12.0, around.rise(form, -12.0)))
    assert np.mean(np.array(chances) < 0.05) <= 0.14  # 5 % of 30 draws, and two standard errors


def test_convex_keeps_to_it_as_well(world, seen):
    found = tacit.Convex(temperature=NOISE).fit(world.mdp, world.features, seen, throw=False)
    assert found.temperature == pytest.approx(NOISE, rel=1e-12)
    assert "temperature=0.3" in found.estimator
    plain = tacit.Convex().fit(world.mdp, world.features, seen, throw=False)
    same = tacit.Convex(temperature=plain.temperature).fit(
        world.mdp, world.features, seen, throw=False
    )
    assert_allclose(same.reward_weights, plain.reward_weights, atol=1e-6)
    assert_allclose(same.multipliers, plain.multipliers, atol=1e-5)


@pytest.mark.parametrize(
    ("estimator", "word"),
    [
        (tacit.Likelihood(temperature=0.0), "positive"),
        (tacit.Convex(temperature=-1.0), "positive"),
        (tacit.Likelihood(temperature=True), "positive"),
        (tacit.Likelihood(temperature=cast("float", "0.3")), "positive"),
        (
            tacit.Likelihood(temperature=1.0, bounds={0: (0.0, 0.1), 1: (0, 0.1), 2: (0, 0.1)}),
            "0.3",
        ),
        (tacit.Likelihood(temperature=1.0, free_reward=True), "sign"),
    ],
)
def test_bad_temperatures_are_refused(world, seen, estimator, word):
    with pytest.raises(tacit.InvalidModel, match=word):
        estimator.fit(world.mdp, world.features, seen)


def test_what_is_known_of_coefficients_is_known_beside_the_temperature(world, seen, found):
    """A bound that holds nothing changes nothing; a value that is right changes nothing either."""
    best = found.parameters.estimates
    for asked in ({"bounds": {0: (0.0, 1.0 / NOISE)}}, {"fixed": {0: float(best[0])}}):
        options = tacit.Likelihood(temperature=NOISE, level=1.0, **asked)
        same = options.fit(world.mdp, world.features, seen, throw=False)
        assert_allclose(same.parameters.estimates, best, rtol=1e-6)
        assert_allclose(same.parameters.estimates[:3].sum(), 1.0 / NOISE)
    held = tacit.Likelihood(temperature=NOISE, bounds={0: (0.0, 0.5 * float(best[0]))}).fit(
        world.mdp, world.features, seen, throw=False
    )
    assert held.parameters.estimates[0] == pytest.approx(0.5 * best[0])
    assert held.parameters.estimates[:3].sum() == pytest.approx(1.0 / NOISE)
    assert held.log_likelihood < found.log_likelihood


def test_a_ridge_pulls_within_the_given_temperature(world, seen):
    plain, pulled = (
        tacit.Convex(temperature=NOISE, ridge=ridge).fit(
            world.mdp, world.features, seen, throw=False
        )
        for ridge in (0.0, 0.5)
    )
    assert pulled.temperature == pytest.approx(NOISE, rel=1e-12)
    assert pulled.multipliers.sum() < plain.multipliers.sum()


def test_types_of_a_known_temperature_all_have_it(world, seen):
    mixture = tacit.Mixture(types=2, starts=4, temperature=NOISE, level=1.0)
    mixed = tacit.recover(world.mdp, world.features, seen, estimator=mixture, throw=False)
    for one in mixed.types:
        assert one.temperature == pytest.approx(NOISE, rel=1e-9)
        assert told(one.identification.findings, Kind.ASSUMED, number=NOISE)
    free = tacit.recover(
        world.mdp, world.features, seen, estimator=tacit.Mixture(types=2, starts=4), throw=False
    )
    assert mixed.degrees < free.degrees


def test_what_knows_no_temperature_says_so(world, seen):
    for estimator in (tacit.Likelihood(temperature=0.5), tacit.Convex(temperature=0.5)):
        with pytest.raises(tacit.InvalidModel, match="temperature"):
            tacit.many.recover_many(world.mdp, world.features, [seen], estimator=estimator)


def test_prices_over_the_noise_are_said(found):
    html, shown_first = found._repr_html_(), found.standardised.noise_prices
    assert "Price over noise" in html
    assert f"{shown_first.estimates[0]:.3g}" in html
    low, high = shown_first.intervals[0]
    assert f"{shown_first.estimates[0]:.3g} [{low:.3g}, {high:.3g}]" in found.summary()
    layout = tacit.worlds.Layout(state_names=tuple(map(str, range(8))))
    (table,) = [
        one
        for one in weight_tables(NamedRecovery(found, layout))
        if isinstance(one, Table) and one.caption == "Budgets and prices"
    ]
    at = [column.name for column in table.columns].index("Price over noise")
    shown = table.rows[0].cells[at]
    assert isinstance(shown, Bar)
    assert shown.value == found.noise_prices.estimates[0]


def test_a_temperature_that_is_given_is_no_degree_of_freedom(world, seen):
    for estimator in (tacit.Convex, tacit.Likelihood):
        free = estimator().fit(world.mdp, world.features, seen, throw=False)
        told = estimator(temperature=free.temperature).fit(
            world.mdp, world.features, seen, throw=False
        )
        assert told.parameters.degrees == free.parameters.degrees - 1
        assert told.log_likelihood == pytest.approx(free.log_likelihood, abs=1e-3)
        assert free.bic - told.bic == pytest.approx(np.log(seen.steps), abs=1e-2)
