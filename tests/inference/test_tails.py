"""Tails, roots and least squares with signs: SciPy's, exact sums, and what an optimum must hold."""

import decimal
import subprocess
import sys

import numpy as np
import pytest
from scipy import optimize, special

from tacit.inference import tails
from tacit.search import algebra


def test_tails_are_those_of_scipy():
    rng = np.random.default_rng(0)
    shape = np.exp(rng.uniform(np.log(0.5), np.log(1e4), 400))
    value = shape * np.exp(rng.normal(size=400) * np.minimum(3 / np.sqrt(shape), 3))
    below, above = tails.gamma_tails(shape, value)
    # Both sides compute a power of the value: digits are lost in its logarithm.
    np.testing.assert_allclose(below, special.gammainc(shape, value), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(above, special.gammaincc(shape, value), rtol=1e-12, atol=1e-300)
    z = rng.normal(size=200) * 5
    np.testing.assert_allclose(tails.normal_tail(z), special.ndtr(-z), rtol=1e-12)
    for p in (1e-300, 1e-8, 0.025, 0.3, 0.95, 0.975, 1 - 1e-12):
        np.testing.assert_allclose(tails.normal_quantile(p), special.ndtri(p), rtol=1e-12)
    for degrees, t in ((1, 2.0), (7, -1.5), (300, 3.1), (5000, 2.0)):
        one = tails.student_tail(degrees, t)
        np.testing.assert_allclose(one, special.stdtr(degrees, -t), rtol=1e-11)
    for top, bottom, ratio in ((1, 4, 0.3), (6, 90, 2.2), (40, 12, 1.0), (3, 5000, 4.0)):
        one = tails.ratio_tail(top, bottom, ratio)
        np.testing.assert_allclose(one, special.fdtrc(top, bottom, ratio), rtol=1e-11)


def exact_ratio_tail(top, bottom, value):
    """P(F > value) for an even `top`: a finite sum, in sixty digits."""
    with decimal.localcontext(prec=60):
        half = decimal.Decimal(bottom) / 2
        x = bottom / (bottom + top * decimal.Decimal(value))
        term, total = decimal.Decimal(1), decimal.Decimal(0)
        for j in range(top // 2):
            total, term = total + term, term * (half + j) / (j + 1) * (1 - x)
        return x**half * total


def test_far_tails_of_ratios_are_exact_sums():
    """Also far out, at 56 and 691 degrees beyond 90."""
    rng = np.random.default_rng(7)
    drawn = [
        (2 * int(rng.integers(1, 500)), int(rng.integers(1, 1000)), 10 ** rng.uniform(-3, 2.5))
        for _ in range(60)
    ]
    for top, bottom, value in [(56, 691, 90.0), *drawn]:
        exact = exact_ratio_tail(top, bottom, value)
        if exact > decimal.Decimal("1e-305"):
            # The exponent, up to 700, is a difference of numbers of up to 5000.
            assert tails.ratio_tail(top, bottom, value) == pytest.approx(float(exact), rel=5e-12)


def test_tails_have_their_ends():
    assert tails.chi_square_tail(3, 0.0) == 1.0
    assert tails.chi_square_tail(3, np.inf) == 0.0
    assert tails.chi_square_tail(1e6, 1e6) == pytest.approx(special.chdtrc(1e6, 1e6), rel=1e-12)
    assert tails.normal_quantile(0.0) == -np.inf
    assert tails.normal_quantile(1.0) == np.inf
    assert np.isnan(tails.normal_quantile(-1.0))
    assert tails.normal_quantile(0.5) == pytest.approx(0.0, abs=1e-15)


def test_crossings_take_few_steps():
    rng, counts = np.random.default_rng(3), []
    for _ in range(60):
        bend, turn, asked = rng.uniform(-0.6, 3.0), rng.uniform(0.05, 0.9), []

        def rise(t, bend=bend, turn=turn, asked=asked):
            asked.append(t)
            return t * (1.0 + bend * t) / (turn * (1.0 + bend * turn)) - 1.0

        found = algebra.crossing(rise, float(rng.uniform(0.0, 1.0)))
        assert found == pytest.approx(turn, abs=1e-6)
        assert len(set(asked)) == len(asked)  # no value is asked for twice
        counts.append(len(asked))
    # Both ends, the guess, and about five secants from a guess that knows nothing.
    assert np.mean(counts) < 9
    assert max(counts) < 15
    steps = []
    for guess in (0.31, 7.0, -1.0, np.inf):
        asked = []
        line = lambda t, asked=asked: asked.append(t) or t**1.1 / 0.3**1.1 - 1.0  # noqa: E731
        assert algebra.crossing(line, guess) == pytest.approx(0.3, abs=1e-6)
        steps.append(len(asked))
    assert steps[0] <= 6
    assert max(steps) <= 8


@pytest.mark.parametrize("beyond", [np.inf, 1e9, 0.2])
def test_a_jump_is_crossed_at_the_place_before(beyond):
    asked = []
    wall = lambda t: asked.append(t) or (beyond if t > 0.3 else -0.5)  # noqa: E731
    found = algebra.crossing(wall, 1.0)
    assert found == pytest.approx(0.3, abs=2e-7)
    assert wall(found) < 0.0
    assert len(asked) < 200  # 24 halvings, with two secants before each
    at_once = lambda t: -1.0 if t == 0.0 else beyond  # noqa: E731
    assert algebra.crossing(at_once, 0.5) == 0.0


@pytest.mark.parametrize("kind", ["plain", "copies", "stiff", "wide"])
def test_least_squares_have_their_signs(kind):
    """Of the same size as SciPy's, and with slopes that no weight could use."""
    rng = np.random.default_rng(2)
    for _ in range(10):
        m, n = (8, 20) if kind == "wide" else (int(rng.integers(4, 12)), int(rng.integers(1, 10)))
        rows = rng.normal(size=(m, n)) + 0.3
        if kind == "copies":  # columns and their opposites: parameters without a bound
            rows[:, n // 2 :] = -rows[:, : n - n // 2]
        if kind == "stiff":  # an equation, held by its weight
            rows[-1] *= 1e5
        goals = 3.0 * rng.normal(size=(20, m))
        found = [algebra.least_squares(rows, goal) for goal in goals]
        places, missed = np.array([z for z, _ in found]), np.array([size for _, size in found])
        assert (places >= 0).all()
        expected = [optimize.nnls(rows, goal, maxiter=100 * n)[1] for goal in goals]
        # The rounding of a stiff row is 1e5 times that of the others.
        loose = 1e-9 if kind == "stiff" else 1e-11
        np.testing.assert_allclose(missed, expected, rtol=loose, atol=loose)
        slopes = (goals - places @ rows.T) @ rows / np.linalg.norm(rows, axis=0)
        assert slopes.max() < loose * 1e2
        assert np.abs(slopes[places > 0]).max(initial=0.0) < loose * 1e2
        z, size = algebra.least_squares(rows, goals[0])
        np.testing.assert_allclose(rows @ z, rows @ places[0], atol=loose * 1e2)
        assert size == pytest.approx(missed[0])


def test_no_column_leaves_the_goal():
    place, missed = algebra.least_squares(np.zeros((2, 0)), np.array([3.0, 4.0]))
    assert (place.shape, missed) == ((0,), 5.0)


@pytest.mark.parametrize("signs", ["bound", "free"])
def test_one_equation_more_costs_what_least_squares_say(signs):
    """Whatever equation was asked about before: the same columns are only tried first."""
    rng = np.random.default_rng(5)
    for _ in range(8):
        m, n = int(rng.integers(3, 9)), int(rng.integers(1, 8))
        rows, goal = rng.normal(size=(m, n)) + 0.3, 3.0 * rng.normal(size=m)
        if signs == "free":  # two columns for a parameter without a bound: no inverse
            rows = np.concatenate([rows, -rows[:, :1]], axis=1)
        near = algebra.Approach(rows, goal)
        for _ in range(6):
            row = 1e5 * rng.normal(size=rows.shape[1])
            row[:1] = 0.0
            level = 1e5 * float(rng.normal())
            whole, aim = np.concatenate([rows, row[None]]), np.append(goal, level)
            expected = optimize.nnls(whole, aim, maxiter=1000)[1] ** 2
            # Of a level out of reach the square is left: rounding is a share of it.
            assert near.nearest(row, level)[1] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert algebra.Approach(np.eye(2), -np.ones(2)).nearest(np.array([1.0, 0.0]), -3.0)[1] == 11.0


def test_columns_that_an_equation_before_did_without_come_back():
    """Equations one after the other along a line, as an interval asks them."""
    rng = np.random.default_rng(6)
    for _ in range(12):
        rows, goal = rng.normal(size=(8, 6)) + 0.3, 3.0 * rng.normal(size=8)
        along = rng.normal(size=6)
        near = algebra.Approach(rows, goal)
        for level in np.linspace(-3.0, 3.0, 9).tolist():
            row = along + 0.1 * rng.normal(size=6)
            whole, aim = np.concatenate([rows, row[None]]), np.append(goal, level)
            expected = optimize.nnls(whole, aim, maxiter=1000)[1] ** 2
            assert near.nearest(row, level)[1] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("apart", [1e-12, 1e-9, 1e-7])
def test_columns_that_nearly_depend_are_left_to_least_squares(apart):
    """Two columns that differ by next to nothing: the inverse of their products has no digits."""
    rng = np.random.default_rng(8)
    for _ in range(5):
        rows = rng.uniform(0.5, 1.5, size=(6, 3))
        rows[:, 2] = rows[:, 1] + apart * rng.normal(size=6)
        goal = rows @ np.array([1.0, 2.0, 1.5]) + 0.01 * rng.normal(size=6)
        near = algebra.Approach(rows, goal)
        for level in (0.5, 2.0, 4.0):
            row = np.array([1.0, 2.0, -1.0])  # tells the two apart
            whole, aim = np.concatenate([rows, row[None]]), np.append(goal, level)
            expected = algebra.least_squares(whole, aim)[1] ** 2
            assert near.nearest(row, level)[1] == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_packages_find_their_names_when_asked():
    code = (
        "import sys, tacit; tacit.checks.trajectory_fits, tacit.data.Prior, tacit.Cloning;"
        "late = ['tacit.checks.assumptions', 'tacit.data.sources', 'scipy.optimize', 'jax'];"
        "assert not set(late) & set(sys.modules), set(late) & set(sys.modules);"
        "import tacit.checks.assumptions; assert callable(tacit.checks.diagnose);"
        "assert all(hasattr(tacit.checks, name) for name in tacit.checks.__all__);"
        "assert all(hasattr(tacit.data, name) for name in tacit.data.__all__);"
        "assert all(hasattr(tacit.data.sources, name) for name in tacit.data.sources.__all__);"
        "assert not hasattr(tacit.checks, 'nothing')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_weighted_products_in_blocks_are_those_at_once(monkeypatch):
    random = np.random.default_rng(0)
    rows, weights = random.normal(size=(3, 50)), random.random(50)
    expected = (rows * weights) @ rows.T
    assert (algebra.weighted_products(rows, weights) == expected).all()
    monkeypatch.setattr(algebra, "AT_ONCE", 7)
    np.testing.assert_allclose(algebra.weighted_products(rows, weights), expected, rtol=1e-12)
    assert algebra.weighted_products(rows[:, :0], weights[:0]).tolist() == [[0.0] * 3] * 3
