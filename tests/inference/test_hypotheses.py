"""Hypotheses about coefficients, and functions of them, as a person asks for them."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2

import tacit
from experts import grid, sampled
from tacit import Likelihood
from tacit.errors import InvalidModel
from tacit.inference.hypotheses import equations_of, linear_test
from tacit.inference.parameters import Parameters
from tacit.inference.quantities import function_of
from travellers import GOALS, TRUTH, lengths, streets, travelled

NAMES = ("road", "water", "hill by row")


@pytest.fixture(scope="module")
def seen():
    return sampled(trajectories=20)


@pytest.fixture(scope="module")
def found(seen):
    options = Likelihood(free_reward=True, level=1.0)
    return tacit.recover(grid().mdp, grid().features, seen, estimator=options)


def linear(words: str) -> tuple[list, list]:
    rows, goals = equations_of(words, NAMES)
    return rows.tolist(), goals.tolist()


def test_equations_are_parsed():
    assert linear("road - water = 0") == ([[1, -1, 0]], [0])
    assert linear("2 * road = 4*`hill by row` - 3") == ([[0.5, 0, -1]], [-0.75])
    assert linear("-road*.5 + 1e1 = 0") == ([[-1, 0, 0]], [-20])
    assert linear("road = water = 1") == ([[1, -1, 0], [0, 1, 0]], [0, 1])
    assert linear(" road=0 ,water = 2 ") == ([[1, 0, 0], [0, 1, 0]], [0, 2])
    odd = "te(x, y)", "a=b"
    rows, goals = equations_of("`te(x, y)` = 2*`a=b`, `a=b` = 1", odd)
    assert rows.tolist() == [[0.5, -1.0], [0.0, 1.0]]
    rows, goals = equations_of("road = water, water = road", NAMES)
    assert_allclose(np.abs(rows), [[0.5**0.5, 0.5**0.5, 0.0]])
    assert_allclose(goals, [0.0], atol=1e-15)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("road", "must be equations"),
        ("road + = 0", "names, numbers"),
        ("road water = 0", "got 'water'"),
        ("road / 2 = 0", "got '/ 2'"),
        ("__import__('os') = 0", "names, numbers"),
        ("rode = 0", "did you mean 'road'"),
        ("road * water = 0", "names, numbers"),
        ("1 = 1", "must name a coefficient"),
        ("road - road = 0", "must name a coefficient"),
        ("road = 1, road = 2", "must agree"),
        ("", "names, numbers"),
        ("road = ", "names, numbers"),
        ("hill by row = 0", "no coefficient is named 'hill'"),
    ],
)
def test_what_is_no_equation_is_refused_in_one_line(words, message):
    with pytest.raises(InvalidModel, match=message) as caught:
        equations_of(words, NAMES)
    assert "\n" not in str(caught.value)


def test_wald_tests_are_those_of_the_textbook(found):
    p, (a, b, *_) = found.parameters, found.parameters.names
    # No bound is in the way of the reward.
    alone = found.test(f"`{a}` = 0")
    assert alone.p_value == pytest.approx(p.p_values[0], rel=1e-6)
    both = found.test(f"`{a}` = `{b}`, `{b}` = 1")
    rows = np.array([[1.0, -1.0], [0.0, 1.0]])
    gaps, spread = rows @ p.estimates[:2] - [0.0, 1.0], rows @ p.covariance[:2, :2] @ rows.T
    assert both.statistic == pytest.approx(gaps @ np.linalg.solve(spread, gaps), rel=1e-6)
    assert (both.degrees, both.method) == (2, "wald")
    assert both.p_value == pytest.approx(chi2.sf(both.statistic, 2), rel=1e-6)
    assert_allclose(both.standard_errors, np.sqrt(np.diagonal(spread)), rtol=1e-6)
    assert repr(alone).startswith(f"HypothesisTest(`{a}` = 0; p_value")


def test_functions_have_the_errors_of_the_table(found):
    p = found.parameters
    every = found.function(lambda c: c)
    assert_allclose(every.estimate, p.estimates)
    assert (every.estimate.shape, every.interval.shape) == ((6,), (6, 2))
    # The reward is free: its intervals are Wald's, but for the bounds of the costs.
    first = found.function(lambda c: 2.0 * c[p.names[0]])
    assert float(first.standard_error) == pytest.approx(2.0 * p.standard_errors[0], rel=0.05)
    assert first.method in ("delta", "profile")
    wide = first.at(0.99).interval
    assert wide[0] < first.interval[0] < first.interval[1] < wide[1]
    assert "interval" in repr(first)
    with pytest.raises(InvalidModel, match="no coefficient is named"):
        found.function(lambda c: c["nothing"])
    with pytest.raises(InvalidModel, match="confidence"):
        first.at(1.0)


def test_without_errors_there_is_an_estimate_and_a_reason(seen):
    blind = tacit.recover(
        grid().mdp, grid().features, seen, estimator=tacit.Alternating(), throw=False
    )
    value = blind.function(lambda c: c[0])
    assert value.absence
    assert np.isnan(value.interval).all()
    assert np.isnan(value.standard_error)
    tested = blind.test(f"`{blind.parameters.names[0]}` = 0")
    assert tested.absence in repr(tested)
    assert np.isnan(tested.p_value)


def test_a_limit_on_one_side_is_an_end_of_every_function():
    plain = Parameters(
        names=("a", "b"),
        estimates=np.array([1.0, 7.0]),
        jacobian=np.eye(2),
        information=np.eye(2) * 100.0,
        outer=np.eye(2) * 100.0,
        scatter=np.full((2, 2), np.nan),
        gradient=np.zeros(2),
        free=np.array([True, False]),
        lower=np.full(2, -np.inf),
        limits=np.array([np.nan, 2.0]),
    )
    known, limited, bounded, both = (
        function_of(plain, function)
        for function in (
            lambda c: c["a"],
            lambda c: -c["b"],
            lambda c: 1.0 - np.exp(-5.0 * c["b"]),
            lambda c: np.array([c["a"] + np.exp(-c["b"]), c["b"]]),
        )
    )
    assert_allclose(known.interval, [1.0 - 0.196, 1.0 + 0.196], atol=1e-4)
    assert_allclose(limited.interval, [-np.inf, -2.0], atol=1e-9)
    assert_allclose(bounded.interval, [1.0 - np.exp(-10.0), 1.0], atol=1e-9)
    assert both.interval[0, 1] == pytest.approx(1.196 + np.exp(-2.0), abs=1e-4)
    assert both.interval[1].tolist() == [2.0, np.inf]
    assert np.isfinite(known.at(0.99).interval).all()
    assert np.isinf(bounded.at(0.99).interval).all()
    assert linear_test(plain, "b = 0").absence


def test_nested_fits_are_compared_by_their_likelihood(found, seen):
    world = grid()
    reward = tacit.recover(
        world.mdp,
        world.features.reward_alone,
        seen,
        estimator=Likelihood(free_reward=True),
    )
    test = found.compare_lr(reward)
    assert test.statistic == pytest.approx(2 * (found.log_likelihood - reward.log_likelihood))
    assert test.degrees == 4
    # At a bound the law is a mixture of chi-squares of fewer degrees: never a larger p-value.
    assert test.p_value <= chi2.sf(test.statistic, test.degrees) + 1 / 4000
    with pytest.raises(InvalidModel, match="coefficients of the full one"):
        reward.compare_lr(found)
    with pytest.raises(InvalidModel, match="fewer free coefficients"):
        found.compare_lr(found)
    other = tacit.recover(
        world.mdp,
        world.features.reward_alone,
        sampled(trajectories=10),
        estimator=Likelihood(free_reward=True),
    )
    with pytest.raises(InvalidModel, match="the same steps"):
        found.compare_lr(other)
    known = tacit.recover(
        world.mdp,
        world.features,
        seen,
        estimator=Likelihood(free_reward=True, level=1.0, fixed={found.parameters.names[0]: 1.0}),
    )
    assert found.compare_lr(known).degrees == 1
    assert found.compare_lr(known).hypothesis == f"{found.parameters.names[0]} = 1"
    assert "fixed beforehand" in known.test(f"`{found.parameters.names[0]}` = 2").absence
    with pytest.raises(InvalidModel, match="must not be likelier"):
        found.compare_lr(replace(reward, log_likelihood=found.log_likelihood + 5.0))


def test_a_ratio_without_bounds_is_a_chi_square():
    mdp, features = streets(), lengths(streets())
    trips = travelled(mdp, features.reward @ TRUTH, 80, GOALS, seed=2)
    few = tacit.Features(features.reward[..., :2], reward_names=features.reward_names[:2])
    whole, part = (
        tacit.recover(tacit.Trips(mdp, own, trips, discount=1.0)) for own in (features, few)
    )
    plain = replace(whole, parameters=whole.parameters.with_errors("fisher"))
    test = plain.compare_lr(part)
    assert test.p_value == pytest.approx(chi2.sf(test.statistic, 1), rel=1e-6)
    assert whole.parameters.errors == "clustered"  # scores scatter as those of trips
    assert whole.compare_lr(part).p_value == pytest.approx(test.p_value, abs=0.1)
    wald = whole.test(f"`{features.reward_names[2]}` = 0")
    # Both are about the same number, to the order of its bend within the error.
    assert test.statistic == pytest.approx(wald.statistic, rel=0.25)


def test_types_of_a_mixture_are_compared_by_name(seen):
    both = tacit.recover(
        grid().mdp, grid().features, seen, estimator=tacit.Mixture(types=2), throw=False
    )
    name = grid().features.reward_names[0]
    assert f"{name} (type 1)" in both.parameters.names
    test = both.test(f"`{name} (type 0)` = `{name} (type 1)`")
    assert test.absence or 0.0 <= test.p_value <= 1.0
