"""Limits of parameters that the likelihood would have infinite, in closed form."""

import numpy as np
import pytest
from scipy.optimize import brentq

from tacit.inference.limits import lower_limits

MANY, FALL, LARGEST = 40.0, 0.5 * 1.6448536**2, 1e5


def logistic(x):
    """Loss of so many choices that all went the same way."""
    return MANY * np.log1p(np.exp(-x))


def limits(x, loss, refitted_loss, *, candidates=None, curvature=0.0, design=1.0):
    x = np.asarray(x)
    candidates = np.ones(len(x), bool) if candidates is None else np.asarray(candidates)
    about = {"loss": loss, "refitted_loss": refitted_loss, "largest": LARGEST, "design": design}
    return lower_limits(x, np.full(len(x), curvature), candidates, **about)


@pytest.mark.parametrize("design", [1.0, 2.5])
def test_the_limit_is_where_the_likelihood_has_fallen_by_its_quantile(design):
    found = limits([20.0], lambda x: logistic(x[0]), lambda j, v: logistic(v), design=design)
    exact = brentq(lambda x: logistic(x) - logistic(20.0) - design * FALL, 0.0, 20.0)
    assert found[0] == pytest.approx(exact, rel=1e-7)  # 30 bisections of 20


def test_a_parameter_below_zero_has_its_limit_there():
    found = limits([-20.0], lambda x: logistic(-x[0]), lambda j, v: logistic(-v))
    above = limits([20.0], lambda x: logistic(x[0]), lambda j, v: logistic(v))
    assert found == pytest.approx(-above)


def test_the_others_adapt():
    # Half of what the first loses the second makes up for.
    found = limits(
        [20.0, 1.0], lambda x: logistic(x[0] + 0.0 * x[1]), lambda j, v: 0.5 * logistic(v)
    )
    exact = brentq(lambda x: 0.5 * logistic(x) - logistic(20.0) - FALL, 0.0, 20.0)
    assert found[0] == pytest.approx(exact, rel=1 / 64)  # 8 bisections
    assert np.isnan(found[1])  # small: far from forbidding anything


def test_what_the_others_make_up_for_altogether_has_the_limit_0():
    assert limits([20.0], lambda x: logistic(x[0]), lambda j, v: 0.0)[0] == 0.0


def test_what_is_bounded_or_not_asked_for_has_no_limit():
    def parabola(x):
        return (x[0] - 20.0) ** 2

    def refitted(j, value):
        raise AssertionError("nothing is refitted")

    assert np.isnan(limits([20.0], parabola, refitted)).all()  # costs likelihood at infinity
    assert np.isnan(limits([20.0], lambda x: 0.0, refitted, curvature=2.0)).all()
    assert np.isnan(limits([20.0], lambda x: 0.0, refitted, candidates=[False])).all()
    assert np.isnan(limits([1.0], lambda x: 0.0, refitted)).all()
