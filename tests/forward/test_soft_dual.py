"""The noisy expert: optimality by the KKT conditions, plain oracles, closed forms, and limits."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import oracles
import tacit
from oracles import soft_objective
from strategies import Problem, examples, soft_problems
from tacit import MDP, ColumnGeneration, Objective, SoftDual, Status, Successors

TEMPERATURES = st.sampled_from([0.05, 0.3, 3.0])


@given(soft_problems(), TEMPERATURES)
@examples(60)
def test_the_answer_satisfies_the_optimality_conditions(problem, temperature):
    # The dual is convex and smooth: these conditions are proof, whatever the solver did.
    mdp, objective = problem.mdp, problem.objective
    solution = SoftDual(temperature=temperature).solve(mdp, objective)
    assert solution.status is Status.CONVERGED
    assert solution.temperature == temperature
    assert solution.mixture is None
    oracles.judge_arrays(mdp, objective, solution)
    table = oracles.lagrangian(mdp, objective, solution.multipliers)
    values, policy = oracles.soft_values(mdp, table, temperature)
    size = max(1.0, np.abs(values).max())
    # A certificate of 1e-9 bounds the dual value; the policy follows with its square root.
    assert_allclose(solution.values, values, rtol=0, atol=1e-7 * size)
    assert_allclose(solution.policy, policy, rtol=0, atol=1e-4)
    dual, gradient = oracles.soft_dual(mdp, objective, solution.multipliers, temperature)
    scale = np.maximum(1.0, np.abs(objective.budgets))
    assert (gradient >= -1e-6 * scale).all()
    assert (np.abs(solution.multipliers * gradient) <= 1e-6 * max(1.0, abs(dual))).all()
    assert soft_objective(solution) == pytest.approx(dual, abs=1e-7 * max(1.0, abs(dual)))


@given(soft_problems(min_constraints=1, max_discount=0.9), TEMPERATURES)
@examples(15)
def test_no_descent_finds_a_lower_dual(problem, temperature):
    mdp, objective = problem.mdp, problem.objective
    solution = SoftDual(temperature=temperature).solve(mdp, objective)
    lowest, _ = oracles.soft_optimum(mdp, objective, temperature)
    dual, _ = oracles.soft_dual(mdp, objective, solution.multipliers, temperature)
    assert dual <= lowest + 1e-8 * max(1.0, abs(lowest))


@given(soft_problems())
@examples(20)
def test_less_noise_approaches_the_hard_optimum_within_the_entropy_bound(problem):
    mdp, objective = problem.mdp, problem.objective
    hard = ColumnGeneration().solve(mdp, objective).value
    slack = 1e-7 * max(1.0, abs(hard))
    last = np.inf
    for temperature in (3.0, 0.3, 0.05):
        soft = soft_objective(SoftDual(temperature=temperature).solve(mdp, objective))
        most = temperature * np.log(problem.actions) / (1 - problem.discount)
        assert hard - slack <= soft <= hard + most + slack
        assert soft <= last + slack  # entropy is never negative
        last = soft


@pytest.mark.parametrize("temperature", [1e-3, 0.1, 1.0, 50.0])
@pytest.mark.parametrize("budget", [0.5, 4.0, 9.9])
def test_one_state_by_hand(temperature, budget):
    # Earn 1 at cost 1, or nothing: the share x of the first action is budget / 10 if that binds,
    # and the price makes the log odds of x equal (1 - price) / temperature.
    mdp = MDP(np.ones((1, 2, 1)), [1.0], 0.9)
    objective = Objective([[1.0, 0.0]], [[[1.0, 0.0]]], [budget])
    solution = SoftDual(temperature=temperature).solve(mdp, objective)
    free = 1 / (1 + np.exp(-1 / temperature))
    share = min(budget / 10, free)
    price = max(0.0, 1.0 - temperature * np.log(share / (1 - share)))
    assert_allclose(solution.policy, [[share, 1 - share]], rtol=0, atol=1e-6)
    assert solution.multipliers[0] == pytest.approx(price, rel=1e-5, abs=1e-5 * temperature)
    assert solution.value == pytest.approx(10 * share, abs=1e-5)


def test_without_budgets_it_is_soft_value_iteration():
    problem = Problem(5, states=6, actions=4, constraints=0, discount=0.9, kind="dense")
    for temperature in (0.01, 1.0):
        solution = SoftDual(temperature=temperature).solve(problem.mdp, problem.objective)
        values, policy = oracles.soft_values(problem.mdp, problem.tables[0], temperature)
        assert_allclose(solution.values, values, rtol=1e-8)
        assert_allclose(solution.policy, policy, rtol=0, atol=1e-6)
        assert (solution.policy > 0).all()


@given(soft_problems(min_constraints=1), st.sampled_from([1, 2]))
@examples(30)
def test_a_solve_cut_short_certifies_honestly(problem, max_steps):
    mdp, objective = problem.mdp, problem.objective
    solver = SoftDual(temperature=0.3, max_steps=max_steps)
    solution = solver.solve(mdp, objective, throw=False)
    oracles.judge_certificate(mdp, objective, solution)
    lowest = soft_objective(SoftDual(temperature=0.3).solve(mdp, objective))
    scale = max(1.0, abs(soft_objective(solution)))
    bound = soft_objective(solution) + solution.certificate.duality_gap * scale
    assert bound >= lowest - 1e-7 * max(1.0, abs(lowest))
    over = (solution.spent - objective.budgets) / np.maximum(1.0, np.abs(objective.budgets))
    assert solution.certificate.violation >= over.max(initial=0.0) - 1e-12
    if solution.status is Status.CONVERGED:
        assert solution.certificate.within(solver.tolerance)
    else:
        assert solution.status is Status.TOLERANCE_MISSED
        with pytest.raises(tacit.NotConverged) as caught:
            solver.solve(mdp, objective)
        assert caught.value.result.certificate == solution.certificate


def test_a_hard_problem_is_missed_and_says_so():
    problem = Problem(3, 9, 2, 2, discount=0.9, kind="dense", tightness=0.8)
    solver = SoftDual(temperature=0.05, max_steps=1)
    solution = solver.solve(problem.mdp, problem.objective, throw=False)
    assert solution.status is Status.TOLERANCE_MISSED
    c = solution.certificate
    assert max(c.duality_gap, c.violation, c.slackness, c.flow_residual) > 1e-6


@pytest.mark.parametrize(
    ("seed", "discount", "tightness", "temperature"),
    [
        (238267, 0.99, 0.4, 0.01),
        (428526, 0.3, 0.8, 0.01),
        (713409, 0.0, 0.4, 0.003),
        (1032056, 0.9, 0.4, 0.001),
        (355110, 0.0, 0.8, 0.001),
    ],
)
def test_two_binding_budgets_at_a_low_temperature(seed, discount, tightness, temperature):
    # Nearly hard: the dual has edges, across which Newton's steps are too long.
    problem = Problem(seed, 9, 2, 2, discount, "dense", tightness, margin=0.02)
    solution = SoftDual(temperature=temperature).solve(problem.mdp, problem.objective)
    assert solution.status is Status.CONVERGED
    hard = ColumnGeneration().solve(problem.mdp, problem.objective).value
    most = temperature * np.log(2) / (1 - discount)
    assert hard - 1e-6 <= soft_objective(solution) <= hard + most + 1e-6


def test_a_solve_cut_short_beside_an_unlimited_budget():
    problem = Problem(3, 9, 2, 2, discount=0.9, kind="dense", tightness=0.8)
    objective = dataclasses.replace(
        problem.objective, budgets=[problem.objective.budgets[0], np.inf]
    )
    solver = SoftDual(temperature=0.05, max_steps=1)
    solution = solver.solve(problem.mdp, objective, throw=False)
    assert solution.status is Status.TOLERANCE_MISSED
    assert solution.multipliers[1] == 0.0
    oracles.judge_certificate(problem.mdp, objective, solution)


@pytest.mark.parametrize("extra", [0, 1])
def test_the_least_cost_is_met_only_in_the_limit(extra):
    # Action 0 is free, action 1 costs: budget 0 asks a noisy expert never to err.
    rng = np.random.default_rng(0)
    mdp = MDP(rng.dirichlet(np.ones(5), (5, 3)), np.full(5, 0.2), 0.9)
    costs = np.concatenate([np.ones((1, 5, 3)), rng.uniform(0, 1, (extra, 5, 3))])
    costs[0, :, 0] = 0.0
    objective = Objective(rng.normal(size=(5, 3)), costs, [0.0, *[100.0] * extra])
    solution = SoftDual(temperature=0.3).solve(mdp, objective)  # said, not raised
    assert solution.status is Status.AT_LEAST_COST
    assert np.isfinite(solution.multipliers).all()
    oracles.judge_certificate(mdp, objective, solution)
    # Close to the limit all the same: hardly anything is spent, at a high price.
    assert solution.spent[0] <= 1e-2
    assert solution.multipliers[0] > 1.0


def test_a_hair_above_the_least_cost_is_solved():
    mdp = MDP(np.ones((1, 2, 1)), [1.0], 0.9)
    objective = Objective([[1.0, 0.0]], [[[1.0, 0.0]]], [1e-3])
    solution = SoftDual(temperature=0.3).solve(mdp, objective)
    assert solution.status is Status.CONVERGED
    assert solution.multipliers[0] == pytest.approx(1 - 0.3 * np.log(1e-4 / (1 - 1e-4)), rel=1e-3)


@given(soft_problems(min_constraints=1, max_discount=0.9), st.integers(0, 2**20))
@examples(15)
def test_a_warm_start_changes_the_way_and_not_the_answer(problem, seed):
    mdp, objective = problem.mdp, problem.objective
    room = np.random.default_rng(seed).exponential(0.1, problem.constraints)
    nearby = dataclasses.replace(objective, budgets=objective.budgets + room)
    solver = SoftDual(temperature=0.3)
    cold = solver.solve(mdp, objective)
    warm = solver.solve(mdp, objective, guess=solver.solve(mdp, nearby))
    assert warm.status is Status.CONVERGED
    assert soft_objective(warm) == pytest.approx(soft_objective(cold), rel=1e-7, abs=1e-7)
    assert solver.solve(mdp, objective, guess=cold).iterations <= cold.iterations


def test_thousands_of_sparse_states():
    rng = np.random.default_rng(0)
    states = 2000
    successors = rng.integers(states, size=(states, 3, 4))
    weights = rng.dirichlet(np.ones(4), size=(states, 3))
    mdp = MDP(Successors(successors, weights), np.full(states, 1 / states), 0.95)
    reward, costs = rng.normal(size=(states, 3)), rng.uniform(size=(1, states, 3))
    least = SoftDual(temperature=0.3).solve(mdp, Objective(-10 * costs[0])).value / -10
    free = SoftDual(temperature=0.3).solve(mdp, Objective(reward))
    spent = float((free.visitation * costs[0]).sum())
    objective = Objective(reward, costs, [0.5 * least + 0.5 * spent])
    solution = SoftDual(temperature=0.3).solve(mdp, objective)
    assert solution.status is Status.CONVERGED
    assert solution.multipliers[0] > 0.1
    # The certificate once more, from sparse sums instead of dense ones.
    chain = mdp.sparse()
    quality = reward - solution.multipliers[0] * costs[0]
    quality = quality + 0.95 * (chain @ solution.values).reshape(states, 3)
    top = quality.max(axis=1)
    backup = top + 0.3 * np.log(np.exp((quality - top[:, None]) / 0.3).sum(axis=1))
    residual = max(0.0, float((backup - solution.values).max()))
    dual = mdp.initial @ solution.values + solution.multipliers @ objective.budgets
    assert dual + residual / 0.05 - soft_objective(solution) <= 2e-9 * max(1.0, abs(dual))
    flow = solution.visitation.sum(axis=1) - 0.95 * (chain.T @ solution.visitation.ravel())
    assert np.abs(flow - mdp.initial).sum() <= 1e-8


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.nan, np.inf])
def test_temperatures_that_make_no_sense_are_refused(temperature):
    problem = Problem(2, states=5, actions=3, constraints=1, discount=0.9, kind="dense")
    with pytest.raises(tacit.InvalidModel, match="temperature"):
        SoftDual(temperature=temperature).solve(problem.mdp, problem.objective)


@pytest.mark.parametrize("seed", range(6))
def test_several_budgets_and_little_noise_end_in_time(seed):
    """Stretched and rough steps among several prices once took five times as many."""
    world = tacit.worlds.random(seed, states=40, actions=3, constraints=3, tightness=0.3)
    solution = tacit.SoftDual(temperature=1e-4).solve(world.mdp, world.truth)
    assert solution.status is tacit.Status.CONVERGED
    assert solution.iterations <= 150


@pytest.mark.parametrize("change", [{"values": np.full(25, np.nan)}, {"multipliers": np.ones(3)}])
def test_a_guess_of_another_problem_is_no_harm(change):
    world = tacit.worlds.hill_grid(seed=0, tightness=0.5)
    solver = tacit.SoftDual(temperature=0.0025)
    solution = solver.solve(world.mdp, world.truth)
    again = solver.solve(world.mdp, world.truth, guess=dataclasses.replace(solution, **change))
    assert_allclose(again.multipliers, solution.multipliers, rtol=1e-9)
