"""Value and price against a budget: concave, and priced by its slope."""

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose

import oracles
import tacit
from experts import grid, tangle
from kinds import told
from strategies import examples, problems
from tacit import Objective
from tacit.checks.prices import price_curve
from tacit.forward.solution import Status
from tacit.inference.findings import Kind

# Solvers meet their certificates to 1e-9 of the value; sums and differences of a few.
CLOSE = 1e-7


def with_budget(objective, k, budget):
    budgets = objective.budgets.copy()
    budgets[k] = budget
    return Objective(objective.reward, objective.costs, budgets)


@pytest.fixture(scope="module")
def curve():
    world = grid()
    return price_curve(world.mdp, world.truth, points=15)


def test_values_are_those_of_the_linear_program(curve):
    world = grid()
    for budget, value in zip(curve.budgets, curve.values, strict=True):
        best = oracles.occupancy_program(world.mdp, with_budget(world.truth, 0, budget + 1e-9))
        assert_allclose(value, best.value, atol=CLOSE)


def test_the_curve_runs_from_the_least_cost_to_where_the_budget_is_slack(curve):
    world = grid()
    least = oracles.least_cost(world.mdp, world.truth, np.ones(1))
    assert_allclose(curve.budgets[0], least, atol=1e-9)
    free = tacit.solve(world.mdp, with_budget(world.truth, 0, np.inf))
    assert_allclose(curve.values[-1], free.value, atol=1e-9)
    # A little less would be missed.
    less = tacit.solve(world.mdp, with_budget(world.truth, 0, curve.budgets[-1] - 1e-4))
    assert less.value < free.value - 1e-9
    assert_allclose(curve.spent, curve.budgets, atol=1e-9)


def test_every_point_is_certified(curve):
    assert len(curve.certificates) == len(curve) == 15
    assert all(one.within(1e-9) for one in curve.certificates)
    assert all(status is Status.CONVERGED for status in curve.statuses)


def assert_priced_by_slope(curve):
    """Every price supports the whole curve: value <= value_p + price_p * (budget - budget_p)."""
    worth = curve.values + curve.noise
    scale = max(1.0, np.abs(worth).max(), np.abs(curve.budgets).max())
    for p, price in enumerate(curve.multipliers):
        line = worth[p] + price * (curve.budgets - curve.budgets[p])
        assert (worth <= line + CLOSE * scale * (1.0 + price)).all(), p
    assert (np.diff(curve.multipliers) <= CLOSE * (1.0 + curve.multipliers[:-1])).all()
    assert (np.diff(worth) >= -CLOSE * scale).all()


def test_the_price_is_the_slope(curve):
    assert_priced_by_slope(curve)
    # Where both sides have one slope the price is that, to the rounding of a difference.
    world, straight = grid(), 0
    for p in range(1, len(curve) - 1):
        near = [
            tacit.solve(world.mdp, with_budget(world.truth, 0, curve.budgets[p] + step)).value
            for step in (-1e-6, 0.0, 1e-6)
        ]
        slopes = np.diff(near) / 1e-6
        if np.isclose(*slopes, rtol=1e-5):
            assert_allclose(slopes[0], curve.multipliers[p], rtol=1e-5)
            straight += 1
    assert straight > 5, "the case at hand"


@given(problem=problems())
@examples(12)
def test_any_problem_has_a_concave_curve(problem):
    mdp, objective = problem.mdp, problem.objective
    if objective.constraints == 0:
        return
    found = price_curve(mdp, objective, constraint=objective.constraints - 1, points=5)
    if len(found) > 1:
        ok = [s in (Status.CONVERGED, Status.AT_LEAST_COST) for s in found.statuses]
        assert all(ok)
        # At the least cost the price may be anything above the first slope, and huge.
        assert_priced_by_slope(found)


def test_the_other_budgets_are_kept():
    world = tangle()
    for k in (0, 1):
        found = price_curve(world.mdp, world.truth, constraint=k, points=6)
        assert_allclose(found.spent, found.budgets, atol=1e-9)
        for budget, value in zip(found.budgets[1:], found.values[1:], strict=True):
            best = oracles.occupancy_program(world.mdp, with_budget(world.truth, k, budget))
            assert_allclose(value, best.value, atol=CLOSE)


def test_solvers_agree(curve):
    world = grid()
    other = price_curve(world.mdp, world.truth, points=15, solver=tacit.OccupancyLP())
    assert_allclose(other.values, curve.values, atol=CLOSE)


def test_a_noisy_expert_has_a_smooth_curve():
    world = grid()
    solver = tacit.SoftDual(temperature=0.0025)
    found = price_curve(world.mdp, world.truth, points=8, solver=solver)
    assert all(one.within(1e-8) for one in found.certificates)
    assert_priced_by_slope(found)
    assert found.multipliers[-1] <= 1e-9
    middle = 3
    near = [found.budgets[middle] + step for step in (-1e-5, 1e-5)]
    worth = []
    for budget in near:
        one = solver.solve(world.mdp, with_budget(world.truth, 0, budget))
        worth.append(one.value + 0.0025 * oracles.causal_entropy(one.visitation))
    # A central difference of a smooth curve: its own error is of second order.
    assert_allclose((worth[1] - worth[0]) / 2e-5, found.multipliers[middle], rtol=1e-4)


def test_a_budget_that_never_matters_is_one_point():
    world = grid()
    constant = Objective(world.truth.reward, np.ones((1, 25)), [100.0])
    found = price_curve(world.mdp, constant)
    assert len(found) == 1
    assert found.multipliers[0] == 0.0
    assert told(found.sentences, Kind.SLACK, constraint=0)


def test_the_curve_ends_where_more_buys_nothing():
    # Two actions earn 1, at costs of 2 and 1; a third earns and costs nothing. One step.
    stay = tacit.MDP(np.ones((1, 3, 1)), [1.0], 0.0)
    ties = Objective([[1.0, 1.0, 0.0]], [[[2.0, 1.0, 0.0]]], [5.0])
    found = price_curve(stay, ties, points=3)
    assert_allclose(found.budgets, [0.0, 0.5, 1.0], atol=1e-12)
    assert_allclose(found.values, [0.0, 0.5, 1.0], atol=1e-12)


def test_sentences_say_the_ends(curve):
    text = " ".join(curve.sentences)
    assert f"{curve.budgets[0]:.4g}" in text
    assert f"price of one unit falls from {curve.multipliers[0]:.4g} to 0" in text


def test_what_makes_no_curve_is_refused():
    world = grid()
    with pytest.raises(tacit.InvalidModel, match="constraint must be one of the 1"):
        price_curve(world.mdp, world.truth, constraint=1)
    with pytest.raises(tacit.InvalidModel, match="points must be at least 2"):
        price_curve(world.mdp, world.truth, points=1)
    two = Objective(world.truth.reward, np.stack([world.truth.costs[0]] * 2), [1.0, 1e-6])
    with pytest.raises(tacit.Infeasible):
        price_curve(world.mdp, two)
