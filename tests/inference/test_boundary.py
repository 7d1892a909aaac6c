"""The law of a likelihood ratio where parameters have bounds, against solvers and closed forms."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls
from scipy.stats import chi2

from strategies import examples
from tacit.inference.boundary import MOST, Cone, RatioLaw
from tacit.inference.intervals import landscape

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


@given(SEEDS, st.sampled_from([1, 2, 5, 9, MOST, MOST + 1]))
@examples(25)
def test_gains_are_those_of_the_best_points_of_the_cone(seed, size):
    matrix, scores = alike(np.random.default_rng(seed), size)
    found = Cone(matrix).gains(scores)
    expected = [best(matrix, score) for score in scores]
    # Ascent in a larger cone stops at steps of 1e-9, which conditioning amplifies.
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


def test_faces_that_are_forgotten_are_made_again(monkeypatch):
    matrix, scores = alike(np.random.default_rng(4), 8)
    cone = Cone(matrix)
    kept = [cone.gains(part) for part in (scores, -scores, scores)]
    monkeypatch.setattr("tacit.inference.boundary.FACES", 3)
    forgetful = Cone(matrix)
    for one, part in zip(kept, (scores, -scores, scores), strict=True):
        np.testing.assert_allclose(forgetful.gains(part), one)


def test_columns_that_others_stand_in_for_gain_what_those_do():
    matrix, scores = alike(np.random.default_rng(3), 3)
    twice = np.r_[0, 1, 2, 2]
    found = Cone(matrix[np.ix_(twice, twice)]).gains(scores[:, twice])
    np.testing.assert_allclose(found, Cone(matrix).gains(scores), rtol=1e-6)


def test_without_bounds_at_work_the_ratio_is_a_chi_square_number():
    # The bounded parameter has nothing to do with the form.
    law = RatioLaw(np.diag([4.0, 1.0, 9.0]), np.array([False, False, True]), 20_000)
    drawn = law.ratios(np.array([1.0, -2.0, 0.0]))
    assert drawn is not None
    ratios, values = drawn
    for level in (0.5, 0.9, 0.95):
        # Four errors of a quantile of 20000 draws.
        assert np.mean(ratios <= chi2.ppf(level, 1)) == pytest.approx(level, abs=0.014)
    assert np.mean(values > 0) == pytest.approx(0.5, abs=0.014)


@pytest.mark.parametrize("correlation", [-0.9, 0.4, 0.9])
def test_one_bound_shifts_the_law_to_one_side(correlation):
    # Against the same two problems solved draw by draw, without any projection.
    information = np.array([[1.0, correlation, 0.2], [correlation, 1.0, 0.1], [0.2, 0.1, 1.0]])
    form, bounded = np.array([1.0, 0.0, -0.5]), np.array([False, True, False])
    law = RatioLaw(information, bounded, 400)
    drawn = law.ratios(form)
    assert drawn is not None
    scores = law._scores[0]
    signed = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, -1]])
    root = np.linalg.cholesky(information).T
    held = np.concatenate([root @ signed.T, 1e5 * (form @ signed.T)[None]])
    for score, ratio in zip(scores[::20], drawn[0][::20], strict=True):
        goal = np.linalg.solve(root.T, score)
        wide, narrow = nnls(root @ signed.T, goal)[1], nnls(held, np.append(goal, 0.0))[1]
        assert ratio == pytest.approx(narrow**2 - wide**2, abs=1e-5)
    cuts = [law.cut(form, side, 0.975) for side in (1.0, -1.0)]
    assert (cuts[0] - cuts[1]) * correlation < 0


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
