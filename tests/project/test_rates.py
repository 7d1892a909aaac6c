"""The rule for rates: what is exactly right passes, what is wrong is caught."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from rates import Rate, coverage_verdict, mean_error, rates_of, size_verdict


def cells(counts, draws, *, shared=False):
    return [
        Rate(f"cell {k}", int(c), draws, "one" if shared else str(k)) for k, c in enumerate(counts)
    ]


@pytest.mark.parametrize(("many", "draws"), [(15, 400), (1, 400), (1, 20), (5, 100), (60, 50)])
@pytest.mark.parametrize("judge", [coverage_verdict, size_verdict])
def test_what_is_exactly_right_passes_in_99_of_100_studies(judge, many, draws):
    rng, studies = np.random.default_rng(many), 1500
    target = 0.95 if judge is coverage_verdict else 0.05
    drawn = rng.binomial(draws, target, size=(studies, many))
    failed = sum(not judge(cells(row, draws)).reached for row in drawn)
    # At 1 %, more than this in 1500 studies has a chance of 1 in 1000.
    assert failed <= binom.isf(1e-3, studies, 0.01)


def test_one_cell_of_fifteen_at_90_is_caught():
    right = [380] * 14
    found = coverage_verdict(cells([*right, 360], 400))
    assert (found.reached, found.failed) == (False, ("cell 14",))
    assert (found.worst, found.worst_share, found.worst_draws) == ("cell 14", 0.9, 400)
    one_cell = binomtest(360, 400, 0.95, alternative="less").pvalue
    assert found.worst_p_value == pytest.approx(15 * one_cell, rel=1e-9)
    drawn = np.random.default_rng(0).binomial(400, [0.95] * 14 + [0.9], size=(400, 15))
    caught = np.mean([not coverage_verdict(cells(row, 400)).reached for row in drawn])
    assert caught > 0.65  # .77 by the binomial law; Monte Carlo error .02


def test_a_bound_in_each_cell_would_let_chance_decide():
    # What the rule is for: 1 - P(each of 15 cells of 400 is at least .93).
    assert 1 - binom.sf(371, 400, 0.95) ** 15 == pytest.approx(0.37, abs=0.005)


def test_a_mean_that_is_too_low_is_caught_where_no_cell_is():
    found = coverage_verdict(cells([375] * 15, 400))
    assert found.failed == ()
    assert not found.reached  # .9375 with an error of .0028
    assert coverage_verdict(cells([376] * 15, 400)).reached  # .94: within .01
    assert coverage_verdict(cells([187], 200)).reached  # .935 of 200: an error of .015


def test_sides_are_each_other_s_mirror():
    held, erred = [372, 390, 351], [28, 10, 49]
    one, two = coverage_verdict(cells(held, 400)), size_verdict(cells(erred, 400))
    assert (one.failed, one.reached) == (two.failed, two.reached) == (("cell 2",), False)
    assert one.mean + two.mean == pytest.approx(1.0)
    assert one.worst_p_value == pytest.approx(two.worst_p_value)


def test_more_than_nominal_is_said_and_does_not_fail():
    for found in (coverage_verdict(cells([400, 380], 400)), size_verdict(cells([0, 20], 400))):
        assert found.reached
        assert found.beyond == ("cell 0",)
        assert "more than nominal: cell 0" in str(found)


def test_every_cell_that_holm_rejects_is_named():
    # p-values of .0003, .0038 and .2 in 3 cells: 3 and 2 times as large are below .01.
    found = coverage_verdict(cells([363, 367, 376], 400))
    alone = [binomtest(k, 400, 0.95, alternative="less").pvalue for k in (363, 367, 376)]
    assert (2 * alone[1] <= 0.01 < 3 * alone[1], alone[2] > 0.01) == (True, True)
    assert found.failed == ("cell 0", "cell 1")


def test_numbers_of_the_same_draws_err_together():
    apart, together = (cells([380] * 4, 400, shared=shared) for shared in (False, True))
    assert mean_error(together, 0.95) == pytest.approx(2 * mean_error(apart, 0.95))
    assert coverage_verdict(cells([375] * 4, 400, shared=True)).reached  # an error of .011
    assert not coverage_verdict(cells([370] * 15, 400)).reached


def test_a_rate_is_of_what_was_measured():
    table = np.array([[True, np.nan], [False, np.nan], [True, True]], float)
    one, two = rates_of("few steps", table, ["price", "weight"])
    assert (one.cell, one.count, one.draws) == ("few steps: price", 2, 3)
    assert (two.cell, two.count, two.draws) == ("few steps: weight", 1, 1)
    assert rates_of("few steps", np.array([True, False])) == [Rate("few steps", 1, 2, "few steps")]
    assert coverage_verdict([one, Rate("never", 0, 0, "never")]).cells == 1
    with pytest.raises(ValueError, match="got none"):
        coverage_verdict([Rate("never", 0, 0, "never")])
