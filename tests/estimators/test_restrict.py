"""Linear equations between coefficients: `Likelihood(restrict=...)` keeps them, at what cost."""

import numpy as np
import pytest

import tacit
from travellers import GOALS, TRUTH, lengths, streets, travelled


@pytest.fixture(scope="module")
def walk():
    """Two rewards of the same weight, half of it for a third, and a road that costs."""
    rng = np.random.default_rng(3)
    world = tacit.MDP(rng.dirichlet(np.ones(12), (12, 3)), np.ones(12) / 12, 0.8)
    phi, road = rng.normal(size=(12, 3, 3)), rng.uniform(size=(12, 3, 1))
    features = tacit.Features(phi, [road], ["a", "b", "third one"], [["road"]])
    truth = tacit.Objective(phi @ [1.0, 1.0, 0.5] - road[..., 0])
    expert = tacit.solve(world, truth, solver=tacit.SoftDual(temperature=1.0))
    seen = tacit.simulate(world, expert.policy, trajectories=60, steps=30, seed=1)
    return world, features, seen


def fit(walk, **options):
    return tacit.recover(*walk, estimator=tacit.Likelihood(level=1.0, **options))


def test_equations_hold_and_true_ones_sharpen_what_is_left(walk):
    full, tied = fit(walk), fit(walk, restrict=["a = b", "`third one` = 0.5 * a"])
    a, b, third, _ = tied.parameters.estimates
    assert a == pytest.approx(b, rel=1e-6)
    assert third == pytest.approx(0.5 * a, rel=1e-6)
    assert tied.degrees == full.degrees - 2
    assert tied.log_likelihood < full.log_likelihood
    errors, freely = tied.parameters.standard_errors, full.parameters.standard_errors
    assert (errors[:2] < freely[:2]).all()
    assert abs(a - 1.0) < 3.0 * errors[0]
    (said,) = [one for one in tied.identification.findings if "told to keep" in one]
    assert said.about.number == pytest.approx(full.log_likelihood - tied.log_likelihood, rel=1e-6)


def test_it_is_the_fit_of_the_merged_feature(walk):
    world, features, seen = walk
    phi = features.reward
    merged = tacit.Features(
        np.stack([phi[..., 0] + phi[..., 1], phi[..., 2]], axis=2),
        features.costs,
        ["a and b", "third one"],
        [["road"]],
    )
    tied, other = fit(walk, restrict=["a = b"]), fit((world, merged, seen))
    assert tied.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-9)
    assert np.allclose(tied.parameters.estimates[1:], other.parameters.estimates, rtol=1e-5)
    # Equations are counted as information 10 000 times as large as that of the steps.
    errors = tied.parameters.standard_errors[1:]
    assert np.allclose(errors, other.parameters.standard_errors, rtol=1e-2)


def test_the_ratio_of_a_restricted_fit_agrees_with_the_test_of_its_equation(walk):
    full = fit(walk)
    for equation, is_true in (("a = b", True), ("a = 2 * b", False)):
        tied = fit(walk, restrict=[equation])
        ratio, wald = full.compare_lr(tied), full.test(equation)
        assert ratio.degrees == 1
        assert (ratio.p_value > 0.01) == is_true
        assert ratio.statistic == pytest.approx(wald.statistic, rel=0.35, abs=0.2)
        assert ratio.hypothesis == equation


@pytest.mark.parametrize(
    ("restrict", "says"),
    [
        ("a = b", "a list of equations"),
        (["a = c"], "no coefficient is named 'c'"),
        (["a"], "must be equations"),
        (["a + b = -1"], "possible within the bounds"),
    ],
)
def test_bad_equations_are_one_line(walk, restrict, says):
    with pytest.raises(tacit.InvalidModel, match=says):
        fit(walk, restrict=restrict)


def test_a_cost_that_a_test_may_leave_out_is_given_no_size(walk):
    with pytest.raises(tacit.InvalidModel, match="level=1"):
        tacit.recover(*walk, estimator=tacit.Likelihood(restrict=["road = 1"]))
    kept = fit(walk, restrict=["road = 1"])
    assert kept.parameters.estimates[-1] == pytest.approx(1.0, rel=1e-6)


def test_several_tasks_are_refused(walk):
    tasks = [tacit.Task(*walk), tacit.Task(*walk)]
    with pytest.raises(tacit.InvalidModel, match="one task"):
        tacit.recover(tasks, estimator=tacit.Likelihood(restrict=["a = b"]))


def test_resampled_fits_keep_equations(walk):
    estimator = tacit.Likelihood(level=1.0, restrict=["a = b"])
    found = tacit.recover(*walk, estimator=estimator, bootstrap=4)
    assert np.allclose(*found.replicates.coefficients.T[:2], rtol=1e-6)


def test_trips_keep_equations_too():
    town, table = streets(), lengths(streets())
    trips = travelled(town, table.reward @ TRUTH, 80, GOALS)
    names = table.reward_names
    estimator = tacit.Likelihood(free_reward=True, restrict=[f"`{names[0]}` = 2 * `{names[1]}`"])
    found = tacit.recover(tacit.Trips(town, table, trips), estimator=estimator)
    first, second, _ = found.parameters.estimates
    assert first == pytest.approx(2.0 * second, rel=1e-6)
    assert abs(first + 1.5) < 4.0 * found.parameters.standard_errors[0]
