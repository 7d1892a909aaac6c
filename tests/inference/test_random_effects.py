"""Restricted likelihood of individuals, where textbooks have the answer in closed form."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tacit.inference.random_effects import NormalEffects


def balanced(seed=0, many=15, precision=4.0, spread=1.0, mean=2.0):
    """Individuals of one coefficient, all measured equally well: analysis of variance."""
    rng = np.random.default_rng(seed)
    seen = mean + spread * rng.standard_normal(many) + rng.standard_normal(many) / precision**0.5
    information = np.full((many, 1, 1), precision)
    return seen, NormalEffects(
        information=information,
        pull=precision * seen[:, None],
        varying=np.array([0]),
        spread=np.array([0.1]),
    ).fitted()


def test_balanced_individuals_are_an_analysis_of_variance():
    seen, found = balanced()
    variance = seen.var(ddof=1)
    assert float(found.spread[0]) == pytest.approx(np.sqrt(variance - 0.25), rel=1e-4)
    assert float(found.means[0]) == pytest.approx(seen.mean())
    assert float(found.covariance[0, 0]) == pytest.approx(variance / len(seen), rel=1e-4)
    assert float(found.degrees[0]) == pytest.approx(len(seen) - 1, rel=0.01)
    share = (variance - 0.25) / variance
    assert_allclose(found.individuals[:, 0], seen.mean() + share * (seen - seen.mean()), rtol=1e-4)
    # What is left of an individual, and the doubt about the mean that it is shrunken to.
    left = share * 0.25 + (1.0 - share) ** 2 * variance / len(seen)
    assert_allclose(found.individual_covariance[:, 0, 0], left, rtol=1e-3)


def test_individuals_who_are_alike_have_no_spread():
    _, found = balanced(seed=3, spread=0.0, precision=0.5)
    assert float(found.spread[0]) == 0.0
    assert found.spread_p_value(0) == pytest.approx(1.0)
    low, high = found.spread_interval(0, 0.95)
    assert low == 0.0
    assert high > 0.0
    assert np.isinf(found.degrees).all()


def test_the_loss_is_that_of_the_marginal_law():
    """Beside the density of a normal law, with everything but constants."""
    rng = np.random.default_rng(1)
    many, size = 6, 3
    roots = rng.normal(size=(many, size, size))
    information = roots @ roots.transpose(0, 2, 1) + np.eye(size)
    seen = rng.normal(size=(many, size))
    pull = np.einsum("gij,gj->gi", information, seen)
    varying = np.array([0, 2])
    places = np.eye(size)[:, varying]

    def restricted(spread):
        covariances = [
            np.linalg.inv(one) + places @ np.diag(spread**2) @ places.T for one in information
        ]
        precisions = [np.linalg.inv(one) for one in covariances]
        whole = sum(precisions)
        pairs = zip(precisions, seen, strict=True)
        mean = np.linalg.solve(whole, sum(p @ y for p, y in pairs))
        rest = seen - mean
        square = sum(y @ p @ y for p, y in zip(precisions, rest, strict=True))
        logs = sum(np.linalg.slogdet(one)[1] for one in covariances)
        return 0.5 * (square + logs + np.linalg.slogdet(whole)[1]), mean

    base = NormalEffects(information=information, pull=pull, varying=varying, spread=np.ones(2))
    first, second = np.array([0.3, 0.8]), np.array([1.2, 0.0])
    difference = restricted(first)[0] - restricted(second)[0]
    assert base.at(first).loss - base.at(second).loss == pytest.approx(difference)
    assert_allclose(base.at(first).means, restricted(first)[1])
    assert_allclose(base.at(second).effects[:, 1], 0.0)


def test_nobody_needs_to_tell_everything():
    """An individual whose likelihood is flat in a direction is no obstacle."""
    information = np.array([np.diag([4.0, 0.0]), np.diag([0.0, 4.0]), np.diag([3.0, 3.0])])
    pull = np.einsum("gij,gj->gi", information, np.array([[1.0, 9.0], [9.0, 2.0], [1.2, 1.8]]))
    found = NormalEffects(
        information=information, pull=pull, varying=np.array([0, 1]), spread=np.ones(2)
    )
    assert np.isfinite(found.individuals).all()
    assert found.individuals[0, 1] == pytest.approx(found.means[1])
