"""The law of a likelihood ratio where parameters have bounds, against solvers and closed forms."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls
from scipy.stats import chi2

from strategies import examples
from tacit.inference.boundary import Cone, RatioLaw
from tacit.inference.profiles import CUT, landscape

SEEDS = st.integers(0, 2**20)


def alike(rng, size):
    """An information of parameters that resemble each other, and scores of that covariance."""
    root = rng.normal(size=(2 * size + 2, size)) + 1.5 * rng.normal(size=(2 * size + 2, 1))
    return root.T @ root, rng.normal(size=(40, len(root))) @ root


def best(matrix, score):
    """The largest 2 y . score - y' matrix y over y >= 0, as non-negative least squares."""
    root = np.linalg.cholesky(matrix).T
    goal = np.linalg.solve(root.T, score)
    return goal @ goal - nnls(root, goal)[1] ** 2


@given(SEEDS, st.sampled_from([1, 2, 5, 9, 24, 80]))
@examples(25)
def test_gains_are_those_of_the_best_points_of_the_cone(seed, size):
    matrix, scores = alike(np.random.default_rng(seed), size)
    found = Cone(matrix).gains(scores)
    expected = [best(matrix, score) for score in scores]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@given(SEEDS)
@examples(15)
def test_a_square_more_is_the_cone_of_the_matrix_with_it(seed):
    rng = np.random.default_rng(seed)
    matrix, scores = alike(rng, 6)
    across, cone = rng.normal(size=6), Cone(matrix)
    start = cone.maxima(scores) > 0
    found = cone.maxima(scores, across=across, start=start)
    expected = Cone(matrix + np.outer(across, across)).maxima(scores)
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())


def test_columns_that_others_stand_in_for_gain_what_those_do():
    matrix, scores = alike(np.random.default_rng(3), 3)
    twice = np.r_[0, 1, 2, 2]
    found = Cone(matrix[np.ix_(twice, twice)]).gains(scores[:, twice])
    np.testing.assert_allclose(found, Cone(matrix).gains(scores), rtol=1e-6)


def test_without_bounds_at_work_the_ratio_is_a_chi_square_number():
    # The bounded parameter has nothing to do with the form.
    law = RatioLaw(np.diag([4.0, 1.0, 9.0]), np.array([False, False, True]), 2000)
    ratios = law.ratios(np.array([1.0, -2.0, 0.0]))
    assert ratios is not None
    drawn = ratios.at(np.arange(len(ratios)))
    for level in (0.5, 0.9, 0.95):
        # The score of the form is drawn by its quantiles, 16000 of them.
        assert np.mean(drawn <= chi2.ppf(level, 1)) == pytest.approx(level, abs=1e-3)
        assert ratios.share_beyond(chi2.ppf(level, 1)) == pytest.approx(1.0 - level, abs=1e-3)
    assert np.mean(ratios.values > 0) == 0.5
    # On one side half of them are 0.
    assert law.cut(np.array([1.0, -2.0, 0.0]), 1.0, 0.975) == pytest.approx(CUT, rel=1e-3)


@pytest.mark.parametrize("correlation", [-0.9, 0.4, 0.9])
def test_one_bound_shifts_the_law_to_one_side(correlation):
    # Against the same two problems solved draw by draw, without any projection.
    information = np.array([[1.0, correlation, 0.2], [correlation, 1.0, 0.1], [0.2, 0.1, 1.0]])
    form, bounded = np.array([1.0, 0.0, -0.5]), np.array([False, True, False])
    law = RatioLaw(information, bounded, 2000)
    scores = np.random.default_rng(2).multivariate_normal(np.zeros(3), information, 4000)
    signed = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, -1]])
    root = np.linalg.cholesky(information).T
    rows = np.concatenate([root @ signed.T, 1e5 * (form @ signed.T)[None]])
    drawn, signs = [], []
    for score in scores:
        goal = np.linalg.solve(root.T, score)
        place, wide = nnls(root @ signed.T, goal)
        drawn.append(nnls(rows, np.append(goal, 0.0))[1] ** 2 - wide**2)
        signs.append(form @ signed.T @ place)
    for side in (1.0, -1.0):
        expected = np.where(side * np.array(signs) > 0, drawn, 0.0)
        share = np.mean(expected > law.cut(form, side, 0.975))
        # Four errors of a share of 4000 draws.
        assert share == pytest.approx(0.025, abs=0.01)
    ratios = law.ratios(form)
    assert ratios is not None
    assert ratios.share_beyond(2.0) == pytest.approx(np.mean(np.array(drawn) > 2.0), abs=0.025)
    cuts = [law.cut(form, side, 0.975) for side in (1.0, -1.0)]
    assert (cuts[0] - cuts[1]) * correlation < 0


@given(SEEDS, st.sampled_from([1, 3, 10, 30]))
@examples(10)
def test_what_is_left_out_of_a_law_does_not_matter(seed, size):
    """Ratios are worked out where they may be among the largest: the others are no larger."""
    rng = np.random.default_rng(seed)
    matrix, _ = alike(rng, size + 2)
    form = np.append(rng.normal(size=2), -0.1 * rng.random(size))
    law = RatioLaw(matrix, np.arange(size + 2) >= 2)
    ratios = law.ratios(form)
    assert ratios is not None
    every = ratios.at(np.arange(len(ratios)))
    # Maxima are found to 1e-10 of the scores, which conditioning amplifies.
    assert (every <= ratios.values**2 + 1e-6 * (1.0 + every)).all()
    for side in (1.0, -1.0):
        one_sided = np.where(side * ratios.values > 0, every, 0.0)
        for level in (0.5, 0.9, 0.975):
            found = law.cut(form, side, level)
            assert found == pytest.approx(np.quantile(one_sided, level), rel=1e-6, abs=1e-6)
    share = np.mean(every >= 2.0)
    assert ratios.share_beyond(2.0) == pytest.approx(share, abs=2.0 / len(ratios))


def test_what_only_rounding_leaves_of_bounded_parameters_has_a_law():
    """Of 12 parameters free ones know all about 6: what is left of these is rounding."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 6))
    rows = np.concatenate([rows, rows @ rng.normal(size=(6, 6))], axis=1)
    rows[:, 6:] += 1e-9 * rng.normal(size=(30, 6))
    law = RatioLaw(rows.T @ rows, np.arange(12) >= 6)
    cut = law.cut(np.arange(12) == 0.0, 1.0, 0.975)
    assert np.isfinite(cut)


def test_a_sum_of_what_may_all_be_0_has_no_cut():
    law = RatioLaw(np.eye(3), np.array([True, True, False]))
    assert law.ratios(np.array([1.0, -1.0, 0.0])) is None
    assert law.cut(np.array([1.0, -1.0, 0.0]), 1.0, 0.975) == np.inf


def test_intervals_of_many_weights_keep_few_laws():
    """Every end may ask for a law of its own, with megabytes of faces."""
    size, random = 60, np.random.default_rng(0)
    rows = random.normal(size=(200, size))
    nothing = np.zeros(size)
    around = landscape(
        nothing,
        nothing,
        rows.T @ rows,
        lower=nothing,
        upper=np.full(size, np.inf),
        moving=np.ones(size, bool),
    )
    tracemalloc.start()
    held = []
    for j in range(36):
        around.cut(np.where(np.arange(size) == j, 1.0, -0.1), -0.01 * j, 1.0)
        held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert held[-1] < 1.5 * held[11]
