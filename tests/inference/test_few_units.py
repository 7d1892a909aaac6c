"""Few units: how far the fit follows them, and the degrees of freedom that they leave."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import t

from tacit.inference.few_units import FewUnits


def mean_of(sizes):
    """A mean of numbers with variance 1, so many from each unit."""
    information = np.asarray(sizes, dtype=float)[:, None, None]
    return FewUnits.of(information, np.array([True]))


def test_units_alike_are_an_ordinary_mean():
    units = mean_of([5.0] * 12)
    assert units.degrees(np.ones((1, 1)))[0] == pytest.approx(11.0)
    scores = np.random.default_rng(0).normal(size=(12, 1))
    adjusted = units.adjusted(scores)
    assert_allclose((adjusted**2).sum(), (scores**2).sum() * 12 / 11)
    wide = units.widened(np.eye(1))
    assert wide[0, 0] == pytest.approx((t.ppf(0.975, 11) / 1.959963984540054) ** 2)


@pytest.mark.parametrize("between", [0.0, 3.0])
def test_intervals_of_unequal_units_hold(between):
    """A weighted mean of units that differ by nothing, or by more than their numbers do."""
    sizes = np.array([2.0, 2, 2, 3, 4, 5, 6, 8, 15, 25])
    units, rng, draws = mean_of(sizes), np.random.default_rng(1), 4000
    degrees = units.degrees(np.ones((1, 1)))[0]
    truth = between * rng.normal(size=(draws, len(sizes)))
    means = truth + rng.normal(size=truth.shape) / np.sqrt(sizes)
    whole = (means * sizes).sum(axis=1) / sizes.sum()
    scores = (means - whole[:, None]) * sizes
    adjusted = scores / np.sqrt(1.0 - sizes / sizes.sum())
    assert_allclose(adjusted[0], units.adjusted(scores[0][:, None])[:, 0])
    errors = np.sqrt((adjusted**2).sum(axis=1)) / sizes.sum()
    held = (np.abs(whole) <= t.ppf(0.975, degrees) * errors).mean()
    normal = (np.abs(whole) <= 1.96 * errors).mean()
    # 4000 draws: a rate of .95 is known to .0034.
    assert held > 0.945
    assert normal < held
    assert degrees < 6.0


def test_variances_are_unbiased_where_scores_scatter_as_their_steps_do():
    rng, draws = np.random.default_rng(2), 3000
    tables = [rng.normal(size=(n, 2)) for n in (3, 4, 6, 8, 20)]
    information = np.stack([one.T @ one for one in tables])
    units = FewUnits.of(information, np.ones(2, bool))
    whole = np.linalg.inv(information.sum(axis=0))
    total = np.zeros((2, 2))
    for _ in range(draws):
        noise = [rng.normal(size=len(one)) for one in tables]
        sums = np.stack([one.T @ e for one, e in zip(tables, noise, strict=True)])
        scores = sums - information @ (whole @ sums.sum(axis=0))
        adjusted = units.adjusted(scores)
        total += adjusted.T @ adjusted / draws
    assert_allclose(total, information.sum(axis=0), rtol=0.1, atol=1.0)
    degrees = units.degrees(np.eye(2))
    assert (degrees > 1.0).all()
    assert (degrees < 4.0).all()


def test_parameters_that_are_held_have_no_part_in_it():
    information = np.stack([np.diag([n, 7.0]) for n in (2.0, 3.0, 4.0)])
    units = FewUnits.of(information, np.array([True, False]))
    scores = np.arange(6.0).reshape(3, 2)
    assert_allclose(units.adjusted(scores)[:, 1], scores[:, 1])
    assert np.isinf(units.degrees(np.array([[0.0, 1.0]]))).all()
    assert_allclose(units.widened(np.eye(2))[1], [0.0, 1.0])
