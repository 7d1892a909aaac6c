"""Regret, violation and prices in the true problem: by hand, by duality, against the oracles."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import oracles
import tacit
from strategies import examples, policies, problems, soft_problems
from switch import EXPERT, NEVER, PRICED, STAYS, TO_AND_FRO, TRUTH, TWO, shaping
from tacit.judge.outcomes import (
    excess,
    gauged_multipliers,
    lagrangian,
    lagrangian_regret,
    multiplier_errors,
    regret,
    relative,
    return_range,
    violation,
)

SMALL = problems(max_states=12, max_actions=4, max_discount=0.99)


# --- by hand --------------------------------------------------------------------------------------


def test_the_hand_made_problem_is_what_it_says():
    solution = tacit.solve(TWO, TRUTH)
    assert solution.value == pytest.approx(5 / 6, abs=1e-12)
    np.testing.assert_allclose(solution.multipliers, [1 / 3], atol=1e-12)
    np.testing.assert_allclose(solution.visitation, EXPERT, atol=1e-12)
    np.testing.assert_allclose(lagrangian(TWO, TRUTH, np.array([1 / 3])), PRICED, atol=1e-15)


@pytest.mark.parametrize(
    ("visits", "lost", "over", "beyond", "charged"),
    [
        (EXPERT, 0, 0, 0, 0),
        (NEVER, 5 / 6, 0, -1 / 2, 2 / 3),
        (STAYS, -1 / 6, 1 / 2, 1 / 2, 0),  # a violator earns more, and loses nothing at the prices
        (TO_AND_FRO, 1 / 6, 0, -1 / 2, 0),
    ],
    ids=["expert", "never", "stays", "to-and-fro"],
)
def test_outcomes_by_hand(visits, lost, over, beyond, charged):
    assert regret(TWO, TRUTH, visits, optimum=5 / 6) == pytest.approx(lost, abs=1e-15)
    assert violation(TWO, TRUTH, visits) == pytest.approx(over, abs=1e-15)
    np.testing.assert_allclose(excess(TWO, TRUTH, visits), [beyond], atol=1e-15)
    assert lagrangian_regret(TWO, PRICED, visits) == pytest.approx(charged, abs=1e-12)


def test_violation_takes_the_worst_constraint_and_large_budgets_relatively():
    truth = tacit.Objective([0, 1], [[[0, 0], [1, 0]], [[0, 30], [0, 0]]], [0.5, 20])
    assert violation(TWO, truth, STAYS) == pytest.approx(0.5)  # 0.5 / 1 against 10 / 20
    tighter = tacit.Objective(truth.reward, truth.costs, [0.9, 12])
    assert violation(TWO, tighter, STAYS) == pytest.approx(18 / 12)
    unlimited = tacit.Objective(truth.reward, truth.costs, [np.inf, np.inf])
    assert violation(TWO, unlimited, STAYS) == 0.0
    assert violation(TWO, tacit.Objective([0, 1]), STAYS) == 0.0


def test_ranges_by_hand():
    assert return_range(TWO, np.array([[0, 0], [1.0, 1]])) == pytest.approx((0, 1), abs=1e-12)
    assert return_range(TWO, PRICED) == pytest.approx((0, 2 / 3), abs=1e-12)
    assert return_range(TWO, np.full((2, 2), 3.0)) == pytest.approx((6, 6), abs=1e-12)
    assert relative(0.5, (1.0, 3.0)) == 0.25
    assert relative(0.0, (6.0, 6.0)) == 0.0
    assert relative(0.5, (6.0, 6.0)) == np.inf


def test_the_common_gauge_by_hand():
    # Canonical reward: entries of 1/4, norm 1/2. Canonical cost: -1/8, 1/8 and 5/8, -5/8.
    norm = np.sqrt(2 * (1 / 64 + 25 / 64))
    gauged = gauged_multipliers(TWO, TRUTH, np.array([1 / 3]))
    np.testing.assert_allclose(gauged, [norm / 3 / 0.5], rtol=1e-14)
    # A price for a reward that wants nothing, no price, and a cost that every policy pays alike.
    free = tacit.Objective([1, 1], TRUTH.costs, [0.5])
    assert gauged_multipliers(TWO, free, np.array([0.2])) == [np.inf]
    assert gauged_multipliers(TWO, free, np.array([0.0])) == [0.0]
    flat = tacit.Objective([0, 1], [[2, 2]], [4])
    assert gauged_multipliers(TWO, flat, np.array([0.2])) == [0.0]


def test_multiplier_errors_by_hand():
    np.testing.assert_array_equal(
        multiplier_errors(np.array([1.0, 2.0]), np.array([3.0, 2.0])), [2, 0]
    )
    np.testing.assert_array_equal(multiplier_errors(np.array([np.inf]), np.array([np.inf])), [0])
    np.testing.assert_array_equal(multiplier_errors(np.array([0.5, 0.0]), np.zeros(0)), [0.5, 0])
    assert np.isnan(multiplier_errors(np.array([0.5, 0.0]), np.array([1.0]))).all()


# --- theorems -------------------------------------------------------------------------------------


@given(SMALL)
@examples(80)
def test_lagrangian_regret_is_the_regret_with_overspending_charged(problem):
    # Strong duality: p0 . V*(reward - prices . costs) = value - prices . budgets.
    mdp, truth = problem.mdp, problem.objective
    solution = tacit.solve(mdp, truth)
    visits = oracles.policy_visitation(mdp, policies(problem))
    priced = lagrangian(mdp, truth, solution.multipliers)
    loss = lagrangian_regret(mdp, priced, visits)
    charged = solution.multipliers @ excess(mdp, truth, visits) if truth.constraints else 0.0
    expected = regret(mdp, truth, visits, optimum=solution.value) + charged
    # A solve is optimal to 1e-9 of its value, and slack to as much.
    size = 1e-8 * max(1.0, np.abs(priced).max() / (1 - mdp.discount))
    assert loss == pytest.approx(expected, abs=size)
    assert loss >= 0.0
    # The expert itself, and anybody who keeps the budgets.
    assert lagrangian_regret(mdp, priced, solution.visitation) <= size
    if violation(mdp, truth, visits) == 0:
        assert regret(mdp, truth, visits, optimum=solution.value) >= -size


@given(SMALL)
@examples(60)
def test_lagrangian_regret_agrees_with_the_oracle_and_is_blind_to_shaping(problem):
    mdp, (table, _) = problem.mdp, problem.tables
    visits = oracles.policy_visitation(mdp, policies(problem))
    best, _, _ = oracles.best_policy(mdp, table)
    size = 1e-9 * max(1.0, np.abs(table).max() / (1 - mdp.discount))
    loss = lagrangian_regret(mdp, table, visits)
    assert loss == pytest.approx(best - np.vdot(visits, table), abs=size)
    rng = np.random.default_rng([problem.seed, 9])
    moved = 1e-4 * (table + 3.0 + shaping(mdp, rng.normal(size=mdp.states)))
    assert lagrangian_regret(mdp, moved, visits) == pytest.approx(1e-4 * loss, abs=1e-3 * size)
    least, most = return_range(mdp, table)
    assert most == pytest.approx(best, abs=size)
    assert least - size <= np.vdot(visits, table) <= most + size


@given(soft_problems(), st.sampled_from([0.3, 3.0]))
@examples(16)
def test_lagrangian_regret_of_a_noisy_expert_is_a_divergence(problem, temperature):
    mdp, (table, _) = problem.mdp, problem.tables
    policy = policies(problem)
    visits = oracles.policy_visitation(mdp, policy)
    _, soft = oracles.soft_values(mdp, table, temperature)
    ratio = np.where(policy > 0, np.log(np.where(policy > 0, policy, 1.0) / soft), 0.0)
    expected = temperature * np.vdot(visits, ratio)
    loss = lagrangian_regret(mdp, table, visits, temperature=temperature)
    size = 1e-8 * max(1.0, np.abs(table).max() / (1 - mdp.discount))
    assert loss == pytest.approx(expected, abs=size)
    own = oracles.policy_visitation(mdp, soft)
    assert lagrangian_regret(mdp, table, own, temperature=temperature) <= size


@given(problems(max_states=12, max_actions=4, min_constraints=1, max_discount=0.99))
@examples(60)
def test_the_common_gauge_is_blind_to_units_shifts_and_shaping(problem):
    mdp, (reward, costs) = problem.mdp, problem.tables
    rng = np.random.default_rng([problem.seed, 8])
    multipliers = rng.exponential(size=len(costs))
    units = rng.uniform(0.1, 10, size=1 + len(costs))

    def moved(table, unit):
        return unit * (table + rng.normal() + shaping(mdp, rng.normal(size=mdp.states)))

    other = tacit.Objective(
        moved(reward, units[0]),
        [moved(cost, unit) for cost, unit in zip(costs, units[1:], strict=True)],
        np.ones(len(costs)),
    )
    plain = gauged_multipliers(
        mdp, tacit.Objective(reward, costs, np.ones(len(costs))), multipliers
    )
    gauged = gauged_multipliers(mdp, other, multipliers * units[0] / units[1:])
    np.testing.assert_allclose(gauged, plain, rtol=1e-9 / (1 - mdp.discount))
    assert (plain >= 0).all()


@given(problems(max_states=12, max_actions=4, min_constraints=1, max_discount=0.99))
@examples(30)
def test_violation_is_the_certificate_s(problem):
    mdp, truth = problem.mdp, problem.objective
    visits = oracles.policy_visitation(mdp, policies(problem))
    from tacit.forward.solution import certify

    certificate = certify(mdp, truth, visits, np.zeros(mdp.states), np.zeros(truth.constraints))
    assert violation(mdp, truth, visits) == pytest.approx(certificate.violation, rel=1e-12)
