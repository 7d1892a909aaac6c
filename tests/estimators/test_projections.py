"""Projections, in relative entropy and in the plain distance, by their optimality conditions."""

from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from strategies import examples
from tacit.estimators.paper.projection import (
    nearest_simplex,
    nearest_simplex_halfspace,
    project_simplex,
    project_simplex_halfspace,
)

# A projection is found to the last bits of its price; weights and means inherit a few of them.
EXACT = 1e-12


def divergence(weights: np.ndarray, logs: np.ndarray) -> float:
    """KL(w | point), for a point given by its logarithms."""
    kept = weights > 0
    return float(np.sum(weights[kept] * (np.log(weights[kept]) - logs[kept])))


@st.composite
def points(draw) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of a point, and a normal; some weights zero, some beyond the range of floats."""
    size = draw(st.sampled_from((3, 1, 2, 6)))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    logs = rng.normal(size=size) * draw(st.sampled_from((1.0, 0.0, 30.0, 2000.0)))
    normal = rng.normal(size=size) * draw(st.sampled_from((1.0, 1e-3, 1e6)))
    if draw(st.booleans()):
        normal = np.abs(normal)
    if size > 1 and draw(st.booleans()):
        logs[rng.integers(size)] = -np.inf
    return logs, normal


def inside(rng, normal: np.ndarray, bound: float, alive: np.ndarray) -> np.ndarray:
    """A random point of the simplex within the halfspace, zero where `alive` is not."""
    point = np.zeros(len(normal))
    point[alive] = rng.dirichlet(np.full(alive.sum(), 0.7))
    least = np.where(alive, normal, np.inf).argmin()
    corner = np.eye(len(normal))[least]
    over = point @ normal - bound
    if over > 0:  # move towards the cheapest corner until the bound is met
        share = over / (over + bound - normal[least])
        point = (1 - share) * point + share * corner
    return point


@examples(100)
@given(points())
def test_on_the_simplex_the_nearest_point_is_the_point_scaled(given_point):
    logs, _ = given_point
    found = project_simplex(logs)
    assert found.feasible
    assert found.price == 0.0
    assert found.weights.sum() == pytest.approx(1.0, abs=EXACT)
    alive = np.isfinite(logs)
    # Proportional: the logarithms differ by one constant, also where the weight underflows.
    shift = found.log_weights[alive] - logs[alive]
    assert np.ptp(shift) <= 1e-12 * max(1.0, np.abs(logs[alive]).max())
    assert (found.weights[~alive] == 0).all()


@examples(300)
@given(points(), st.sampled_from((0.3, 0.9, 0.01, 1.0, 1e-6)), st.integers(0, 2**20))
def test_the_halfspace_projection_meets_the_variational_inequality(given_point, room, seed):
    logs, normal = given_point
    alive = np.isfinite(logs)
    least, most = normal[alive].min(), normal[alive].max()
    scale = np.abs(normal).max()
    bound = least + room * (most - least)
    found = project_simplex_halfspace(logs, normal, bound)
    assert found.feasible
    weights = found.weights
    assert weights.sum() == pytest.approx(1.0, abs=EXACT)
    assert (weights[~alive] == 0).all()
    assert weights @ normal <= bound + EXACT * scale
    if found.price == np.inf:  # only the cheapest corner is left
        return
    # Stationarity: the tilt is one price for all; complementary slackness: unused bounds are free.
    spread = max(1.0, np.abs(logs[alive]).max(), found.price * scale)
    tilt = found.log_weights[alive] - logs[alive] + found.price * normal[alive]
    assert np.ptp(tilt) <= EXACT * spread
    assert found.price >= 0
    assert found.price * abs(weights @ normal - bound) <= 1e-9 * spread
    # No point of the set is nearer: the slope of the divergence towards any of them is upwards.
    rng = np.random.default_rng(seed)
    slope = np.zeros(len(logs))
    slope[alive] = found.log_weights[alive] - logs[alive]
    for _ in range(20):
        other = inside(rng, normal, bound, alive)
        assert (other - weights) @ slope >= -1e-9 * spread


@examples(100)
@given(points(), st.integers(0, 2**20))
def test_no_point_of_the_set_has_a_smaller_divergence(given_point, seed):
    logs, normal = given_point
    alive = np.isfinite(logs)
    bound = float(np.median(normal[alive]))
    found = project_simplex_halfspace(logs, normal, bound)
    nearest = divergence(found.weights, logs)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        other = divergence(inside(rng, normal, bound, alive), logs)
        assert other >= nearest - 1e-9 * max(1.0, abs(nearest))


@examples(100)
@given(points())
def test_a_bound_that_holds_already_changes_nothing(given_point):
    logs, normal = given_point
    free = project_simplex(logs)
    bound = free.weights @ np.where(np.isfinite(logs), normal, 0.0)
    found = project_simplex_halfspace(logs, normal, bound + 1e-9 * np.abs(normal).max())
    assert found.price == 0.0
    assert (found.log_weights == free.log_weights).all()


@examples(100)
@given(points())
def test_empty_exactly_below_the_least_entry_of_positive_weight(given_point):
    logs, normal = given_point
    alive = np.isfinite(logs)
    least = normal[alive].min()
    below = np.nextafter(least, -np.inf)
    assert not project_simplex_halfspace(logs, normal, below).feasible
    on_it = project_simplex_halfspace(logs, normal, least)
    assert on_it.feasible
    assert (on_it.weights[normal > least] == 0).all()
    # Both stand on the face of least cost, shared in proportion to the point.
    limit = project_simplex_halfspace(logs, normal, below)
    face = alive & (normal == least)
    assert limit.weights[face].sum() == pytest.approx(1.0, abs=EXACT)


@examples(60)
@given(points())
def test_a_tighter_bound_has_a_higher_price(given_point):
    logs, normal = given_point
    alive = np.isfinite(logs)
    least, most = normal[alive].min(), normal[alive].max()
    prices = [
        project_simplex_halfspace(logs, normal, least + room * (most - least)).price
        for room in (0.9, 0.6, 0.3, 0.1)
    ]
    assert all(b >= a * (1 - 1e-9) for a, b in pairwise(prices))


def test_two_weights_by_hand():
    # w = (1 - p, p), cost p <= 0.2: the bound alone decides, the price is log-odds over cost.
    found = project_simplex_halfspace(np.log([0.5, 0.5]), np.array([0.0, 1.0]), 0.2)
    assert found.weights == pytest.approx([0.8, 0.2], abs=EXACT)
    assert found.price == pytest.approx(np.log(4.0), rel=EXACT)


def test_the_face_of_least_cost_is_shared_as_the_point_shares_it():
    found = project_simplex_halfspace(np.log([0.2, 0.6, 0.2]), np.array([1.0, 1.0, 2.0]), 1.0)
    assert found.feasible
    assert found.price == np.inf
    assert found.weights == pytest.approx([0.25, 0.75, 0.0], abs=EXACT)


def test_a_weight_beyond_the_range_of_floats_comes_back():
    # exp(-2000) is 0 as a float; as a logarithm it is a weight like any other.
    found = project_simplex_halfspace(np.array([0.0, -2000.0]), np.array([1.0, 0.0]), 0.5)
    assert found.weights == pytest.approx([0.5, 0.5], abs=1e-9)
    assert found.price == pytest.approx(2000.0, rel=1e-12)


@pytest.mark.parametrize("bound", [np.inf, 0.4])
def test_no_point_of_the_set_is_nearer_in_the_plain_distance(bound):
    # The variational inequality: from the nearest point, every other lies behind the given one.
    rng = np.random.default_rng(3)
    zeros = 0
    for _ in range(100):
        point, normal = rng.normal(size=5), rng.random(5) + (0.0 if rng.random() < 0.8 else 0.3)
        if bound == np.inf:
            found = nearest_simplex(point)
        else:
            found = nearest_simplex_halfspace(point, normal, bound)
            assert found.feasible == (normal.min() <= bound)
            if not found.feasible:
                assert found.weights @ normal == pytest.approx(normal.min())
                continue
            assert found.weights @ normal <= bound + EXACT
            assert (found.price > 0) == (nearest_simplex(point).weights @ normal > bound)
        assert found.weights.sum() == pytest.approx(1.0, abs=EXACT)
        zeros += int((found.weights == 0).sum())
        others = [inside(rng, normal, bound, np.ones(5, bool)) for _ in range(20)]
        assert ((np.array(others) - found.weights) @ (found.weights - point) >= -EXACT).all()
    assert zeros > 50  # it reaches the edges, where a projection in relative entropy never is


def test_the_face_of_least_cost_is_all_that_is_left_at_its_bound():
    found = nearest_simplex_halfspace(np.array([0.9, 0.3, 0.2]), np.array([0.7, 0.4, 0.4]), 0.4)
    assert found.feasible
    assert found.weights == pytest.approx([0.0, 0.55, 0.45])
