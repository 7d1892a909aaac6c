"""Laws of fitted coefficients and of their functions, against closed forms and a solver."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import ndtr

from tacit.inference.fitted_law import (
    BoundedQuadratic,
    FittedLaw,
    restricted_ratio_p_value,
    spread_of,
)

QUANTILE = 1.959963984540054


def law_of(centre, covariance, *, lower=-np.inf, blind=None) -> FittedLaw:
    """Coefficients with this law, each a number of its own."""
    centre = np.array(centre, float)
    size = len(centre)
    lower = np.broadcast_to(np.asarray(lower, float), (size,))
    return FittedLaw(
        point=np.maximum(centre, lower),
        centre=centre,
        jacobian=np.eye(size),
        information=np.linalg.inv(covariance),
        covariance=np.array(covariance, float),
        room=centre - lower,
        lower=lower,
        upper=np.full(size, np.inf),
        blind=np.zeros((0, size)) if blind is None else np.atleast_2d(blind),
        limited=np.zeros(0, int),
        limits=np.zeros(0),
    )


def test_nearest_places_are_those_of_a_solver():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(8, 4))
    matrix, pulls = root.T @ root, rng.normal(size=(6, 4))
    one_sided = np.array([True, False, True, False])
    found = BoundedQuadratic(matrix, one_sided).nearest(pulls)
    bounds = [(0, None) if one else (None, None) for one in one_sided]
    for place, pull in zip(found, pulls, strict=True):
        best = minimize(
            lambda y, pull=pull: y @ matrix @ y - 2 * y @ pull,
            np.ones(4),
            jac=lambda y, pull=pull: 2 * (matrix @ y - pull),
            bounds=bounds,
            method="L-BFGS-B",
            options={"ftol": 1e-15, "gtol": 1e-10},
        )
        assert_allclose(place, best.x, atol=1e-5)  # what the solver reaches


def test_without_bounds_a_function_has_the_delta_method():
    covariance = np.array([[0.01, 0.002], [0.002, 0.04]])
    law = law_of([1.0, 2.0], covariance)
    found = spread_of(lambda c: np.array([c[0] / c[1], 3.0 * c[0] - c[1], 7.0]), law)
    slopes = np.array([[0.5, -0.25], [3.0, -1.0], [0.0, 0.0]])
    errors = np.sqrt(np.einsum("ij,jk,ik->i", slopes, covariance, slopes))
    assert found.method == "delta"
    # Central differences of .05 standard errors: to its square, times a relative error of .1.
    assert_allclose(found.errors, errors, rtol=1e-4, atol=1e-12)
    ends = found.values[:, None] + np.outer(errors, [-QUANTILE, QUANTILE])
    assert_allclose(found.interval(0.95), ends, rtol=1e-4)


def test_at_a_bound_the_interval_is_a_profile_within_it():
    # Truth at the bound, the fit half an error beyond it.
    law = law_of([-0.5, 0.0], np.eye(2), lower=[0.0, -np.inf])
    found = spread_of(lambda c: np.array([c[0], c[1], c[0] + c[1]]), law)
    assert found.method == "profile"
    low, high = found.interval(0.95).T
    reach = np.hypot(0.5, QUANTILE)  # where the loss has risen by the quantile from its least
    assert_allclose([low[0], high[0]], [0.0, reach - 0.5], atol=1e-5)
    assert_allclose([low[1], high[1]], [-QUANTILE, QUANTILE], atol=1e-5)

    def excess(place) -> float:
        return (place[0] + 0.5) ** 2 + place[1] ** 2 - 0.25 - QUANTILE**2

    best = minimize(
        lambda y: -(y[0] + y[1]),
        [0.5, 0.5],
        bounds=[(0, None), (None, None)],
        constraints={"type": "ineq", "fun": lambda y: -excess(y)},
    )
    assert high[2] == pytest.approx(-best.fun, abs=1e-4)
    assert low[2] == pytest.approx(-QUANTILE, abs=1e-4)


@pytest.mark.parametrize("place", [-5.0, 8.0])
def test_far_from_its_bound_a_coefficient_is_as_if_there_were_none(place):
    covariance = np.array([[1.0, 0.5], [0.5, 1.0]])
    law = law_of([max(place, 0.0), 1.0], covariance)
    near = law_of([place, 1.0], covariance, lower=[0.0, -np.inf])
    form = np.array([[0.0, 1.0]])
    ends = near.ends(form, 0.95)[0]
    if place > 0:
        assert_allclose(ends, law.ends(form, 0.95)[0], atol=1e-5)
    else:  # held there, the other is known as given the first
        given = np.sqrt(0.75)
        middle = 0.5 * 5.0
        assert_allclose(ends, [middle - QUANTILE * given, middle + QUANTILE * given], atol=1e-4)


def test_a_function_that_bends_is_drawn():
    law = law_of([0.0], [[1.0]])
    found = spread_of(lambda c: c**2, law, draws=20_000)
    assert found.method == "draws"
    # Chi-square with one degree of freedom; four Monte Carlo errors of 10 000 pairs of draws.
    low, high = found.interval(0.95)[0]
    assert low == pytest.approx(0.00098, abs=5e-4)
    assert high == pytest.approx(5.024, abs=0.2)
    assert spread_of(lambda c: np.abs(c), law, draws=200).method == "draws"
    bent = spread_of(lambda c: np.exp(0.5 * c), law, draws=20_000)
    assert bent.method == "draws"  # by .4 of its error
    ends = np.exp(0.5 * QUANTILE * np.array([-1.0, 1.0]))
    assert_allclose(bent.interval(0.95)[0], ends, rtol=0.05)
    assert spread_of(lambda c: c + 1e-3 * c**2, law).method == "delta"


def test_what_the_data_leave_open_has_no_ends():
    covariance = 0.5 * np.ones((2, 2)) + 1e-9 * np.eye(2)
    law = law_of([1.0, 1.0], covariance, blind=[1.0, -1.0])
    found = spread_of(lambda c: np.array([c[0] - c[1], c[0] + c[1]]), law)
    assert found.is_open.tolist() == [True, False]
    assert np.isinf(found.interval(0.9)[0]).all()
    assert np.isfinite(found.interval(0.9)[1]).all()


def test_equations_at_a_bound_have_the_mixture_of_chi_squares():
    rows, goals = np.array([[1.0, 0.0]]), np.zeros(1)
    for centre in (0.3, 1.2, 2.5):
        law = law_of([centre, 0.0], np.eye(2), lower=[0.0, -np.inf])
        ratio, p_value = restricted_ratio_p_value(law, rows, goals, levels=0.05)
        assert ratio == pytest.approx(centre**2, rel=1e-4)
        # Half of the law is at 0: one side of the normal law. Three errors of 4000 draws.
        exact = float(ndtr(-centre))
        assert p_value == pytest.approx(exact, abs=3.0 * np.sqrt(exact / 4000) + 1e-3)
    law = law_of([-0.7, 0.0], np.eye(2), lower=[0.0, -np.inf])
    assert restricted_ratio_p_value(law, rows, goals, levels=0.05) == (0.0, 1.0)
    # Two at once, of which one is bounded: a half of each of two chi-square laws.
    law = law_of([1.0, 1.0], np.eye(2), lower=[0.0, -np.inf])
    ratio, p_value = restricted_ratio_p_value(law, np.eye(2), np.zeros(2), levels=0.05)
    assert ratio == pytest.approx(2.0, rel=1e-4)
    exact = 0.5 * 2.0 * ndtr(-np.sqrt(2.0)) + 0.5 * np.exp(-1.0)
    assert p_value == pytest.approx(float(exact), abs=0.025)
