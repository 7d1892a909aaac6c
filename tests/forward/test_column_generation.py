"""The exact solver against the linear program, against enumeration, and against closed forms."""

import dataclasses

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import oracles
import tacit
from refusals import refusal
from strategies import Problem, examples, problems, sweep
from tacit import ColumnGeneration, Objective, Status
from tacit.forward.solution import visitation

TOLERANCE = 1e-6  # of the comparison with the oracle, which vouches for itself to 2e-8


@given(problems())
@examples(100)
def test_value_and_multipliers_agree_with_the_program(problem):
    mdp, objective = problem.mdp, problem.objective
    solution = ColumnGeneration().solve(mdp, objective)
    assert solution.status is Status.CONVERGED
    assert solution.certificate.within(ColumnGeneration().tolerance)
    assert solution.temperature == 0.0
    oracles.judge_arrays(mdp, objective, solution)
    optimum = oracles.occupancy_program(mdp, objective)
    oracles.judge_hard_optimum(mdp, objective, solution, optimum, tolerance=TOLERANCE)


@pytest.mark.parametrize("problem", sweep(0, 150), ids=repr)
def test_every_shape_agrees_with_the_program(problem):
    mdp, objective = problem.mdp, problem.objective
    solution = ColumnGeneration().solve(mdp, objective)
    assert solution.status is Status.CONVERGED
    optimum = oracles.occupancy_program(mdp, objective)
    oracles.judge_hard_optimum(mdp, objective, solution, optimum, tolerance=TOLERANCE)


@pytest.mark.parametrize(
    ("kind", "discount", "constraints"),
    [
        ("sparse", 0.999, 1),
        ("sparse", 0.9, 2),
        ("deterministic", 0.9, 1),
        ("deterministic", 0.999, 2),
        ("tied", 0.999, 1),
        ("tied", 0.9, 2),
        ("dense", 0.99, 3),
    ],
)
def test_beyond_the_size_of_direct_solves(kind, discount, constraints):
    # From about a hundred states on the chains are solved iteratively: another code path.
    problem = Problem(7, 110, 3, constraints, discount=discount, kind=kind, tightness=0.7)
    mdp, objective = problem.mdp, problem.objective
    solution = ColumnGeneration().solve(mdp, objective)
    assert solution.status is Status.CONVERGED
    oracles.judge_arrays(mdp, objective, solution)
    optimum = oracles.occupancy_program(mdp, objective)
    oracles.judge_hard_optimum(mdp, objective, solution, optimum, tolerance=TOLERANCE)


def slippery_grid(side: int, discount: float, order: np.ndarray) -> tuple[tacit.MDP, Objective]:
    """A grid whose moves fail three times in ten, its states taken in the given order."""
    rng = np.random.default_rng(0)
    row, column = np.divmod(np.arange(side**2), side)
    moves = np.array([(1, 0), (-1, 0), (0, 1), (0, -1)])
    near = np.clip(row[:, None] + moves[:, 0], 0, side - 1) * side
    near += np.clip(column[:, None] + moves[:, 1], 0, side - 1)
    weights = np.full((4, 4), 0.3 / 4) + 0.7 * np.eye(4)
    name = np.argsort(order)
    successors = np.repeat(name[near[order]][:, None, :], 4, axis=1)
    mdp = tacit.MDP(
        tacit.Successors(successors, np.broadcast_to(weights, successors.shape)),
        np.full(side**2, 1 / side**2),
        discount,
    )
    reward, cost = rng.uniform(size=(2, side**2))[:, order]
    free = ColumnGeneration().solve(mdp, Objective(reward))
    least = -ColumnGeneration().solve(mdp, Objective(-cost)).value
    halfway = 0.5 * least + 0.5 * float(free.visitation.sum(axis=1) @ cost)
    return mdp, Objective(reward, cost[None], [halfway])


@pytest.mark.parametrize("discount", [0.95, 0.999])
def test_relabelling_a_large_grid_changes_nothing(discount):
    # The preconditioner of the iterative solves follows the order of the states.
    side = 30
    shuffled = np.random.default_rng(1).permutation(side**2)
    plain, other = (
        ColumnGeneration().solve(*slippery_grid(side, discount, order))
        for order in (np.arange(side**2), shuffled)
    )
    assert plain.multipliers[0] > 0.01
    assert other.value == pytest.approx(plain.value, rel=1e-9)
    assert_allclose(other.multipliers, plain.multipliers, rtol=1e-6)
    assert_allclose(
        other.visitation, plain.visitation[shuffled], rtol=0, atol=1e-7 / (1 - discount)
    )


@pytest.mark.parametrize("discount", [0.9, 0.99])
def test_thousands_of_states_by_both_ways_of_pricing(discount):
    # One budget is priced along a line, at this size from rough policies to exact ones; beside a
    # second, slack budget it is priced by the master program instead.
    mdp, objective = slippery_grid(50, discount, np.random.default_rng(2).permutation(2500))
    reward, costs = objective.tables(mdp)
    line = ColumnGeneration().solve(mdp, objective)
    most = [*objective.budgets, 2 / (1 - discount)]
    master = ColumnGeneration().solve(mdp, Objective(reward, np.concatenate([costs, costs]), most))
    assert line.multipliers[0] > 0.01
    assert master.value == pytest.approx(line.value, rel=1e-9)
    assert_allclose(master.multipliers, [line.multipliers[0], 0.0], rtol=1e-6, atol=1e-9)
    flow = line.visitation.sum(axis=1) - discount * (mdp.sparse().T @ line.visitation.ravel())
    assert np.abs(flow - mdp.initial).sum() <= 1e-9
    assert line.spent[0] == pytest.approx(objective.budgets[0], rel=1e-9)


@given(problems(max_states=4, max_actions=3, max_constraints=1))
@examples(40)
def test_no_pair_of_deterministic_policies_does_better(problem):
    mdp, objective = problem.mdp, problem.objective
    best = oracles.brute_force(mdp, objective)
    value = ColumnGeneration().solve(mdp, objective).value
    assert value == pytest.approx(best, rel=1e-8, abs=1e-8)


@given(problems())
@examples(60)
def test_the_mixture_is_the_policy(problem):
    mdp, objective = problem.mdp, problem.objective
    solution = ColumnGeneration().solve(mdp, objective)
    mixture = solution.mixture
    assert mixture.policies.shape == (len(mixture.weights), problem.states)
    assert np.issubdtype(mixture.policies.dtype, np.integer)
    assert (mixture.weights > 0).all()
    assert mixture.weights.sum() == pytest.approx(1.0, abs=1e-12)
    # A vertex of the master has at most one policy a row: the budgets, and that weights sum to 1.
    assert len(mixture.weights) <= problem.constraints + 1
    average = sum(
        weight * oracles.policy_visitation(mdp, oracles.one_hot(policy, problem.actions))
        for weight, policy in zip(mixture.weights, mixture.policies, strict=True)
    )
    mass = 1 / (1 - problem.discount)
    assert_allclose(solution.visitation, average, rtol=0, atol=1e-9 * mass)
    # One draw an episode and the stationary policy are different ways to the same visitation.
    assert_allclose(visitation(mdp, solution.policy), average, rtol=0, atol=1e-9 * mass)


@given(problems(max_states=20), st.sampled_from([1, 2, 3]))
@examples(60)
def test_a_solve_cut_short_certifies_honestly(problem, max_steps):
    mdp, objective = problem.mdp, problem.objective
    solver = ColumnGeneration(max_steps=max_steps)
    solution = solver.solve(mdp, objective, throw=False)
    oracles.judge_arrays(mdp, objective, solution)
    judge_honesty(mdp, objective, solution)
    # The two ends of the first bracket, price 0 and least cost, are solved in any case.
    assert solution.iterations <= max(2, max_steps)
    if solution.status is not Status.CONVERGED:
        assert not solution.certificate.within(solver.tolerance)
        with refusal(tacit.NotConverged) as caught:
            solver.solve(mdp, objective)
        assert caught.value.result.certificate == solution.certificate


def judge_honesty(mdp, objective, solution):
    """Asserts that the certificate bounds how far the solution is from the optimum."""
    optimum = oracles.occupancy_program(mdp, objective)
    assert optimum.feasible
    assert solution.status in (Status.CONVERGED, Status.TOLERANCE_MISSED)
    scale = max(1.0, abs(solution.value))
    slack = 1e-7 * max(1.0, abs(optimum.value))  # of the oracle
    assert solution.value + solution.certificate.duality_gap * scale >= optimum.value - slack
    over = (solution.spent - objective.budgets) / np.maximum(1.0, np.abs(objective.budgets))
    assert solution.certificate.violation >= over.max(initial=0.0) - 1e-12


@pytest.mark.parametrize("constraints", [1, 3])
@pytest.mark.parametrize("max_steps", [1, 2])
def test_a_hard_problem_is_missed_and_says_so(constraints, max_steps):
    problem = Problem(3, 40, 5, constraints, discount=0.95, tightness=0.7)
    solver = ColumnGeneration(max_steps=max_steps)
    solution = solver.solve(problem.mdp, problem.objective, throw=False)
    assert solution.status is Status.TOLERANCE_MISSED
    c = solution.certificate
    assert max(c.duality_gap, c.violation, c.slackness) > 1e-4
    judge_honesty(problem.mdp, problem.objective, solution)
    oracles.judge_certificate(problem.mdp, problem.objective, solution)
    with pytest.raises(tacit.NotConverged, match="max_steps") as caught:
        solver.solve(problem.mdp, problem.objective)
    assert caught.value.result.status is Status.TOLERANCE_MISSED


@given(problems(max_states=25, min_constraints=1), st.integers(0, 2**20))
@examples(40)
def test_a_warm_start_changes_the_way_and_not_the_answer(problem, seed):
    mdp, objective = problem.mdp, problem.objective
    rng = np.random.default_rng(seed)
    nearby = dataclasses.replace(
        objective, budgets=objective.budgets + rng.exponential(0.1, problem.constraints)
    )
    solver = ColumnGeneration()
    guess = solver.solve(mdp, nearby)
    warm = solver.solve(mdp, objective, guess=guess)
    optimum = oracles.occupancy_program(mdp, objective)
    oracles.judge_arrays(mdp, objective, warm)
    oracles.judge_hard_optimum(mdp, objective, warm, optimum)
    # From its own answer there is next to nothing to do.
    again = solver.solve(mdp, objective, guess=warm)
    assert again.status is Status.CONVERGED
    assert again.iterations <= max(3, solver.solve(mdp, objective).iterations)


@pytest.mark.parametrize("constraints", [0, 1, 2])
@pytest.mark.parametrize("shape", [(5, 2, 1), (9, 3, 1), (9, 3, 0), (9, 3, 4)])
def test_a_guess_of_another_size_does_no_harm(shape, constraints):
    other = Problem(0, *shape, discount=0.9)
    problem = Problem(1, states=9, actions=3, constraints=constraints, discount=0.9)
    guess = ColumnGeneration().solve(other.mdp, other.objective)
    solution = ColumnGeneration().solve(problem.mdp, problem.objective, guess=guess)
    optimum = oracles.occupancy_program(problem.mdp, problem.objective)
    oracles.judge_hard_optimum(problem.mdp, problem.objective, solution, optimum)


@given(problems(max_states=25, min_constraints=1, max_constraints=3), st.floats(0.1, 0.9))
@examples(40)
def test_loose_tolerances_are_kept_and_tight_ones_reached(problem, share):
    mdp, objective = problem.mdp, problem.objective
    loose = ColumnGeneration(tolerance=1e-2 * share).solve(mdp, objective)
    assert loose.certificate.within(1e-2 * share)
    judge_honesty(mdp, objective, loose)


def test_a_chain_on_which_krylov_methods_stagnate():
    # Going round a cycle of states in random order, or staying: at 0.999 no iterative solve of the
    # chain converges, and the answer must not suffer.
    states = 1200
    rng = np.random.default_rng(0)
    order = rng.permutation(states)
    successors = np.tile(np.arange(states)[:, None, None], (1, 2, 1))
    successors[order, 0, 0] = np.roll(order, -1)
    mdp = tacit.MDP(
        tacit.Successors(successors, np.ones(successors.shape)), np.full(states, 1 / states), 0.999
    )
    costs = np.zeros((1, states, 2))
    costs[0, :, 0] = 1.0
    reward = rng.normal(size=(states, 1)) + 3.0 * costs[0]
    for count in (1, 2):
        objective = Objective(reward, np.repeat(costs, count, axis=0), [300.0, 400.0][:count])
        solution = ColumnGeneration().solve(mdp, objective)
        assert solution.status is Status.CONVERGED
        assert solution.multipliers[0] > 0.1
        oracles.judge_certificate(mdp, objective, solution)


@pytest.mark.parametrize("problem", [p for p in sweep(11, 100) if p.constraints], ids=repr)
def test_budgets_exactly_at_what_can_be_met_together(problem):
    # The edge of feasibility: one ulp more would be infeasible, and rounding decides on which side
    # the budgets fall. The answer is certified, or says that it is at the least cost.
    mdp = problem.mdp
    reward, costs = problem.objective.tables(mdp)
    own = np.array([-oracles.best_policy(mdp, -cost)[0] for cost in costs])
    together, _ = oracles.least_violation(mdp, Objective(reward, costs, own))
    objective = Objective(reward, costs, own + together)
    solution = ColumnGeneration().solve(mdp, objective, throw=False)
    oracles.judge_arrays(mdp, objective, solution)
    if solution.status is Status.INFEASIBLE:  # by no more than the oracle's own rounding
        assert solution.certificate.violation <= 1e-9
    else:
        assert solution.status in (Status.CONVERGED, Status.AT_LEAST_COST)


def test_a_kink_where_a_whole_interval_of_multipliers_is_optimal():
    # Three actions in one state: (reward, cost) = (0, 0), (2, 1), (3, 2) a step. At a budget of
    # exactly one a step the value-against-budget curve turns from slope 2 to slope 1.
    mdp = tacit.MDP(np.ones((1, 3, 1)), [1.0], 0.9)
    objective = Objective([[0.0, 2.0, 3.0]], [[[0.0, 1.0, 2.0]]], [10.0])
    solution = ColumnGeneration().solve(mdp, objective)
    assert solution.value == pytest.approx(20.0)
    assert 1.0 - 1e-9 <= solution.multipliers[0] <= 2.0 + 1e-9
    interval = oracles.multiplier_interval(mdp, objective, 20.0, 0)
    assert interval == pytest.approx((1.0, 2.0), abs=1e-6)


@given(st.integers(0, 2**20), st.integers(2, 12), st.integers(2, 4))
@examples(40)
def test_the_budget_exactly_at_the_least_cost_has_the_smallest_price(seed, states, actions):
    # Action 0 is free and the others cost: least cost 0, exactly, and budget 0.
    problem = Problem(seed, states=states, actions=actions, constraints=1, discount=0.9)
    mdp = problem.mdp
    reward = problem.tables[0]
    costs = np.random.default_rng(seed).uniform(0.5, 1.5, (1, states, actions))
    costs[0, :, 0] = 0.0
    objective = Objective(reward, costs, [0.0])
    solution = ColumnGeneration().solve(mdp, objective)
    assert solution.status in (Status.CONVERGED, Status.AT_LEAST_COST)
    free = oracles.policy_value(mdp, oracles.one_hot(np.zeros(states, int), actions), reward)
    assert solution.value == pytest.approx(float(mdp.initial @ free), rel=1e-8, abs=1e-8)
    assert solution.spent == pytest.approx([0.0], abs=1e-9)
    # The optimal prices are a ray [smallest, inf): return its end.
    low, high = oracles.multiplier_interval(mdp, objective, float(mdp.initial @ free), 0)
    assert high == np.inf
    assert np.isfinite(solution.multipliers).all()
    assert solution.multipliers[0] == pytest.approx(low, rel=1e-5, abs=1e-6)


@given(problems(max_states=25, min_constraints=1, max_constraints=1))
@examples(40)
def test_the_budget_at_the_least_cost_up_to_rounding_is_feasible(problem):
    mdp = problem.mdp
    reward, costs = problem.objective.tables(mdp)
    least = oracles.least_cost(mdp, problem.objective, np.ones(1))
    objective = Objective(reward, costs, [least])
    solution = ColumnGeneration().solve(mdp, objective)
    assert solution.status in (Status.CONVERGED, Status.AT_LEAST_COST)
    scale = max(1.0, abs(least))
    assert solution.spent[0] <= least + 1e-8 * scale
    assert np.isfinite(solution.multipliers).all()
    oracles.judge_arrays(mdp, objective, solution)
    # Nothing within a hair less than the budget does better.
    shy = dataclasses.replace(objective, budgets=[least + 1e-9 * scale])
    assume(oracles.least_violation(mdp, shy)[0] < 0)
    upper = oracles.dual_value(mdp, objective, solution.multipliers)
    assert solution.value <= upper + 1e-7 * max(1.0, abs(upper))
