"""Distances of tables: by hand, and blind to exactly what no behaviour can tell."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import oracles
from strategies import examples, policies, problems
from switch import TWO, shaping
from tacit.errors import InvalidModel
from tacit.judge.outcomes import canonical, canonical_norm, correlation, starc
from tacit.worlds import published_figure
from tacit_lab.worlds import published_values

SMALL = problems(max_states=12, max_actions=4, max_discount=0.99)
SCALES = st.sampled_from([1.0, 1e-6, 1e-3, 7.0, 1e6])

# In the two states of `switch`.
IN_ONE = [0.0, 1.0]  # being in state 1
SWITCHING = [[0.0, 1.0], [0.0, 1.0]]


def drawn(problem, salt):
    return np.random.default_rng([problem.seed, salt]).normal(
        size=(problem.states, problem.actions)
    )


# --- by hand --------------------------------------------------------------------------------------


def test_canonical_by_hand():
    # The uniform policy's values are (0.5, 1.5): half of each next value, and 1 in state 1.
    np.testing.assert_allclose(canonical(TWO, IN_ONE), [[-0.25, 0.25], [0.25, -0.25]], atol=1e-15)
    # Switching is worth 1 everywhere under the uniform policy.
    np.testing.assert_allclose(canonical(TWO, SWITCHING), [[-0.5, 0.5], [-0.5, 0.5]], atol=1e-15)
    assert canonical_norm(TWO, IN_ONE) == pytest.approx(0.5, abs=1e-15)


def test_starc_by_hand():
    # The two canonical tables above are orthogonal: half the diagonal of the unit square.
    assert starc(TWO, IN_ONE, SWITCHING) == pytest.approx(np.sqrt(0.5), abs=1e-15)
    both = np.add(SWITCHING, np.reshape(IN_ONE, (2, 1)))  # unit vectors (1, 0) and (1, 2) / sqrt 5
    expected = 0.5 * np.sqrt(2 - 2 / np.sqrt(5))
    assert starc(TWO, IN_ONE, both) == pytest.approx(expected, abs=1e-15)


def test_starc_of_opposites_is_one_and_of_nothing_one_half():
    assert starc(TWO, IN_ONE, np.negative(IN_ONE)) == pytest.approx(1.0, abs=1e-15)
    assert starc(TWO, IN_ONE, [3.0, 3.0]) == 0.5
    assert starc(TWO, [0.0, 0.0], [0.1, 0.1]) == 0.0


def test_correlation_by_hand():
    # Deviations (-1, 0, 1) and (-1, 1, 0): 1 / (sqrt 2 * sqrt 2).
    assert correlation([1, 2, 3], [0, 2, 1]) == pytest.approx(0.5, abs=1e-15)
    assert correlation([[1, 2], [3, 4]], [[-2, -4], [-6, -8]]) == pytest.approx(-1.0, abs=1e-15)
    assert np.isnan(correlation([1, 2], [0.1, 0.1]))
    assert np.isnan(correlation([0.1, 0.1, 0.1], [0, 1, 2]))


def test_correlations_of_the_published_figure():
    values, features = published_values(), published_figure().features
    # From two printed digits a cell to the three digits known of it.
    assert correlation(values.cost, values.recovered_cost) == pytest.approx(0.975, abs=5e-4)
    # Row and column are uncorrelated and spread alike: the cosine of the two weight vectors.
    weights = [values.reward_weights, values.recovered_reward_weights]
    cosine = (0.68 * 0.97 + 0.32 * 0.03) / np.hypot(0.68, 0.32) / np.hypot(0.97, 0.03)
    assert correlation(*(features.reward @ w for w in weights)) == pytest.approx(cosine, abs=1e-14)


def test_tables_of_other_shapes_are_refused():
    with pytest.raises(InvalidModel, match="one shape"):
        correlation([1, 2], [1, 2, 3])
    with pytest.raises(InvalidModel, match="reward must have shape"):
        starc(TWO, [1, 2, 3], [1, 2])


# --- theorems -------------------------------------------------------------------------------------


@given(SMALL)
@examples(60)
def test_canonical_tables_keep_every_difference_of_returns(problem):
    mdp, table = problem.mdp, drawn(problem, 5)
    shaped = canonical(mdp, table)
    one = oracles.policy_visitation(mdp, policies(problem))
    other = oracles.policy_visitation(mdp, np.full(table.shape, 1 / mdp.actions))
    # Rounding: a visitation sums to 1 / (1 - discount), a value is as large again.
    size = 1e-13 * np.abs(table).max() / (1 - mdp.discount) ** 2
    assert np.vdot(one - other, shaped) == pytest.approx(np.vdot(one - other, table), abs=size)
    # Under the uniform policy nothing is better than anything else.
    np.testing.assert_allclose(shaped.mean(axis=1), 0.0, atol=size)


@given(SMALL, SCALES, SCALES)
@examples(100)
def test_starc_is_blind_to_scale_shift_and_shaping(problem, first_scale, second_scale):
    mdp = problem.mdp
    first, second = drawn(problem, 5), drawn(problem, 6)
    rng = np.random.default_rng([problem.seed, 7])
    moved = [
        scale * (table + rng.normal() + shaping(mdp, rng.normal(size=mdp.states)))
        for scale, table in ((first_scale, first), (second_scale, second))
    ]
    expected = starc(mdp, first, second)
    # Rounding of a solve whose condition is 1 / (1 - discount), relative to what is left of a
    # normal table; where that is nothing (one action) both distances are exactly 0.
    tolerance = 1e-11 / (1 - mdp.discount)
    assert starc(mdp, *moved) == pytest.approx(expected, abs=tolerance)
    assert starc(mdp, first, moved[0]) == pytest.approx(0.0, abs=tolerance)


@given(SMALL)
@examples(60)
def test_starc_is_a_pseudometric_in_the_unit_interval(problem):
    mdp = problem.mdp
    a, b, c = (drawn(problem, salt) for salt in (5, 6, 7))
    assert starc(mdp, a, a) == 0.0
    assert starc(mdp, a, b) == starc(mdp, b, a)
    assert 0.0 <= starc(mdp, a, b) <= 1.0
    assert starc(mdp, a, c) <= starc(mdp, a, b) + starc(mdp, b, c) + 1e-15
    # Canonical tables fill S * (A - 1) dimensions: in several, random ones are not parallel.
    if mdp.states * (mdp.actions - 1) >= 3:
        assert starc(mdp, a, b) > 1e-3


@given(SMALL)
@examples(40)
def test_shaping_alone_wants_nothing(problem):
    mdp = problem.mdp
    rng = np.random.default_rng([problem.seed, 7])
    nothing = shaping(mdp, rng.normal(size=mdp.states)) + rng.normal()
    assert canonical_norm(mdp, nothing) == 0.0


@given(st.lists(st.floats(-10, 10), min_size=3, max_size=8), st.floats(0.01, 100), st.floats(-5, 5))
@examples(60)
def test_correlation_is_blind_to_scale_and_shift(entries, scale, shift):
    first = np.array(entries)
    second = np.random.default_rng(len(entries)).normal(size=len(entries))
    expected = correlation(first, second)
    if np.isnan(expected) or np.ptp(first) < 1e-3:  # a shift would round the differences away
        return
    assert -1.0 <= expected <= 1.0
    assert correlation(second, first) == pytest.approx(expected, abs=1e-15)
    # Relative rounding of the shifted entries, which are up to 1e4 times their spread.
    assert correlation(scale * first + shift, second) == pytest.approx(expected, abs=1e-9)
    assert correlation(-first, second) == pytest.approx(-expected, abs=1e-12)
