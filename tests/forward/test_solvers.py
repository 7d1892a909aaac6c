"""What every public solver must keep to, run over all of them."""

import dataclasses
import inspect

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import oracles
import tacit
from oracles import soft_objective
from strategies import Problem, examples, problems, soft_problems
from tacit import MDP, ColumnGeneration, Objective, OccupancyLP, SoftDual, Status

HARD = [ColumnGeneration(), OccupancyLP()]
SOFT = [SoftDual(temperature=0.3)]
EVERY = pytest.mark.parametrize("solver", [*HARD, *SOFT], ids=lambda s: type(s).__name__)
EXACT = pytest.mark.parametrize("solver", HARD, ids=lambda s: type(s).__name__)
# How far an answer may be from the truth: the tolerance of the certificate, with room for sums.
CLOSE = 1e-6


def test_every_public_solver_is_here():
    public = [getattr(tacit, name) for name in tacit.__all__]
    solvers = {cls for cls in public if inspect.isclass(cls) and hasattr(cls, "solve")}
    assert solvers == {type(solver) for solver in [*HARD, *SOFT]}


@EVERY
def test_a_solver_is_frozen_hyperparameters_and_one_verb(solver):
    assert dataclasses.is_dataclass(solver)
    assert hash(solver) == hash(dataclasses.replace(solver))
    with pytest.raises(dataclasses.FrozenInstanceError):
        solver.tolerance = 1.0
    parameters = inspect.signature(solver.solve).parameters
    assert list(parameters) == ["mdp", "objective", "guess", "throw"]
    assert parameters["throw"].default is True
    assert parameters["guess"].default is None
    assert all(parameters[name].kind.name == "KEYWORD_ONLY" for name in ("guess", "throw"))


@EVERY
@given(problem=soft_problems())
@examples(30)
def test_the_answer_is_consistent_and_certified(solver, problem):
    mdp, objective = problem.mdp, problem.objective
    solution = solver.solve(mdp, objective)
    assert solution.status is Status.CONVERGED
    assert solution.infeasibility is None
    assert solution.certificate.within(getattr(solver, "tolerance", CLOSE))
    assert solution.temperature == getattr(solver, "temperature", 0.0)
    oracles.judge_arrays(mdp, objective, solution)


@EXACT
@given(problem=problems(max_states=30))
@examples(60)
def test_the_hard_answer_is_the_programs(solver, problem):
    mdp, objective = problem.mdp, problem.objective
    solution = solver.solve(mdp, objective)
    optimum = oracles.occupancy_program(mdp, objective)
    oracles.judge_hard_optimum(mdp, objective, solution, optimum)


@EVERY
@given(problem=soft_problems())
@examples(15)
def test_the_same_question_has_the_same_answer_and_nothing_is_touched(solver, problem):
    mdp, objective = problem.mdp, problem.objective
    before = [np.array(a) for a in (*objective.tables(mdp), mdp.dense(), mdp.initial)]
    one, other = solver.solve(mdp, objective), solver.solve(mdp, objective)
    for field in ("policy", "visitation", "values", "multipliers", "spent"):
        assert_array_equal(getattr(one, field), getattr(other, field))
    after = [*objective.tables(mdp), mdp.dense(), mdp.initial]
    for old, new in zip(before, after, strict=True):
        assert_array_equal(old, new)


@EVERY
@given(problem=soft_problems(), seed=st.integers(0, 2**20))
@examples(20)
def test_relabelling_states_changes_nothing(solver, problem, seed):
    mdp, objective = problem.mdp, problem.objective
    order = np.random.default_rng(seed).permutation(problem.states)
    reward, costs = objective.tables(mdp)
    renamed = MDP(mdp.dense()[order][:, :, order], mdp.initial[order], mdp.discount)
    relabelled = Objective(reward[order], costs[:, order], objective.budgets)
    one, other = solver.solve(mdp, objective), solver.solve(renamed, relabelled)
    scale = max(1.0, abs(soft_objective(one)))
    assert soft_objective(other) == pytest.approx(soft_objective(one), abs=CLOSE * scale)
    judge_same_prices(mdp, objective, one, other)
    if one.temperature > 0:  # a soft optimum is unique; a hard one need not be
        assert_allclose(other.visitation, one.visitation[order], atol=1e-5 / (1 - mdp.discount))


@EXACT
@given(problem=problems(max_states=25), seed=st.integers(0, 2**20))
@examples(30)
def test_relabelling_states_and_actions_of_any_shape_changes_nothing(solver, problem, seed):
    mdp, objective = problem.mdp, problem.objective
    rng = np.random.default_rng(seed)
    order, turn = rng.permutation(problem.states), rng.permutation(problem.actions)
    reward, costs = objective.tables(mdp)
    renamed = MDP(mdp.dense()[order][:, turn][:, :, order], mdp.initial[order], mdp.discount)
    relabelled = Objective(reward[order][:, turn], costs[:, order][:, :, turn], objective.budgets)
    one, other = solver.solve(mdp, objective), solver.solve(renamed, relabelled)
    assert other.value == pytest.approx(one.value, abs=CLOSE * max(1.0, abs(one.value)))
    judge_same_prices(mdp, objective, one, other)
    # Distinct random rewards make the optimum unique; ties do not.
    if problem.kind == "dense" and problem.discount <= 0.99:
        expected = one.visitation[order][:, turn]
        assert_allclose(other.visitation, expected, rtol=0, atol=1e-5 / (1 - mdp.discount))


def judge_same_prices(mdp, objective, one, other):
    """Asserts that the prices of both solutions are optimal for the first problem."""
    if one.temperature > 0:
        assert_allclose(other.multipliers, one.multipliers, rtol=1e-4, atol=1e-5)
        return
    scale = max(1.0, abs(one.value))
    for solution in (one, other):
        dual = oracles.dual_value(mdp, objective, solution.multipliers)
        assert dual == pytest.approx(one.value, abs=CLOSE * scale)


@EVERY
@given(problem=soft_problems())
@examples(12)
def test_every_storage_form_has_the_same_answer(solver, problem):
    mdp, objective = problem.mdp, problem.objective
    dense = mdp.dense()
    lists = tacit.Successors(np.broadcast_to(np.arange(problem.states), dense.shape), dense)
    forms = [sp.csr_array(dense.reshape(-1, problem.states)), lists]
    one = solver.solve(mdp, objective)
    for form in forms:
        other = solver.solve(MDP(form, mdp.initial, mdp.discount), objective)
        scale = max(1.0, abs(soft_objective(one)))
        assert soft_objective(other) == pytest.approx(soft_objective(one), abs=1e-8 * scale)
        assert_allclose(other.multipliers, one.multipliers, rtol=1e-6, atol=1e-8)


@EVERY
@given(problem=soft_problems())
@examples(12)
def test_state_tables_are_action_tables_that_do_not_care(solver, problem):
    mdp = problem.mdp
    reward, costs = (table[..., 0] for table in problem.objective.tables(mdp))
    assume(problem.constraints <= 1)
    # Budgets halfway between the least and the unconstrained cost: surely feasible.
    budgets = []
    for k in range(problem.constraints):
        spread = np.repeat(costs[k][:, None], problem.actions, axis=1)
        least = -oracles.best_policy(mdp, -spread)[0]
        most = oracles.best_policy(mdp, spread)[0]
        budgets.append(0.5 * least + 0.5 * most + 1e-3)
    by_state = solver.solve(mdp, Objective(reward, costs, budgets))
    wide = np.repeat(reward[:, None], problem.actions, axis=1)
    wide_costs = np.repeat(costs[:, :, None], problem.actions, axis=2)
    by_action = solver.solve(mdp, Objective(wide, wide_costs, budgets))
    assert_array_equal(by_state.visitation, by_action.visitation)
    assert_array_equal(by_state.multipliers, by_action.multipliers)


# --- theorems -------------------------------------------------------------------------------------


@EVERY
@given(problem=soft_problems(min_constraints=1), seed=st.integers(0, 2**20))
@examples(20)
def test_multipliers_are_slopes_of_the_value_in_the_budgets(solver, problem, seed):
    # The optimal value is concave in the budgets and the multipliers are a supergradient.
    mdp, objective = problem.mdp, problem.objective
    rng = np.random.default_rng(seed)
    wider = objective.budgets + rng.exponential(size=problem.constraints)
    one = solver.solve(mdp, objective)
    other = solver.solve(mdp, dataclasses.replace(objective, budgets=wider))
    gain = soft_objective(other) - soft_objective(one)
    slack = CLOSE * max(1.0, abs(soft_objective(one)))
    assert gain >= -slack
    assert gain <= one.multipliers @ (wider - objective.budgets) + slack
    assert gain >= other.multipliers @ (wider - objective.budgets) - slack


@EVERY
@given(problem=soft_problems(max_discount=0.9), seed=st.integers(0, 2**20))
@examples(15)
def test_potential_shaping_changes_the_value_by_the_potential_of_the_start(solver, problem, seed):
    mdp, objective = problem.mdp, problem.objective
    reward, costs = objective.tables(mdp)
    potential = np.random.default_rng(seed).normal(size=problem.states)
    shaping = mdp.discount * mdp.dense() @ potential - potential[:, None]
    one = solver.solve(mdp, objective)
    other = solver.solve(mdp, Objective(reward + shaping, costs, objective.budgets))
    expected = soft_objective(one) - mdp.initial @ potential
    assert soft_objective(other) == pytest.approx(expected, abs=1e-5)
    if one.temperature > 0:
        assert_allclose(other.policy, one.policy, atol=1e-4)


@EXACT
@given(problem=problems(max_states=20), factor=st.sampled_from([1e-3, 10.0, 1e4]))
@examples(30)
def test_scaling_reward_scales_value_and_prices_and_scaling_a_budget_its_price(
    solver, problem, factor
):
    mdp, objective = problem.mdp, problem.objective
    reward, costs = objective.tables(mdp)
    one = solver.solve(mdp, objective)
    rich = solver.solve(mdp, Objective(factor * reward, costs, objective.budgets))
    # The certificate is absolute below 1, so a small reward is held to what is left of it.
    assert rich.value == pytest.approx(factor * one.value, abs=CLOSE * max(1.0, abs(rich.value)))
    dear = Objective(reward, factor * costs, factor * objective.budgets)
    other = solver.solve(mdp, dear)
    assert other.value == pytest.approx(one.value, rel=1e-5, abs=1e-5)
    dual = oracles.dual_value(mdp, objective, factor * other.multipliers)
    assert dual == pytest.approx(one.value, rel=1e-5, abs=1e-5)


@given(problem=soft_problems())
@examples(40)
def test_the_entropy_bound_between_hard_and_soft(problem):
    mdp, objective = problem.mdp, problem.objective
    hard = ColumnGeneration().solve(mdp, objective)
    soft = SOFT[0].solve(mdp, objective)
    slack = CLOSE * max(1.0, abs(hard.value))
    most = soft.temperature * np.log(problem.actions) / (1 - problem.discount)
    assert hard.value <= soft_objective(soft) + slack
    assert soft_objective(soft) <= hard.value + most + slack
    # The noisy expert keeps the budgets, so it earns no more than the optimal one.
    assert soft.value <= hard.value + slack


@given(problem=problems(max_states=25))
@examples(40)
def test_the_two_exact_solvers_agree(problem):
    mdp, objective = problem.mdp, problem.objective
    one, other = (solver.solve(mdp, objective) for solver in HARD)
    assert one.value == pytest.approx(other.value, abs=CLOSE * max(1.0, abs(one.value)))
    judge_same_prices(mdp, objective, one, other)


# --- budgets --------------------------------------------------------------------------------------


@EVERY
def test_no_budget(solver):
    problem = Problem(1, states=6, actions=4, constraints=0, discount=0.9, kind="dense")
    solution = solver.solve(problem.mdp, problem.objective)
    assert solution.multipliers.shape == solution.spent.shape == (0,)
    assert solution.certificate.violation == solution.certificate.slackness == 0.0
    if solution.temperature == 0:
        best, _, _ = oracles.best_policy(problem.mdp, problem.tables[0])
        assert solution.value == pytest.approx(best, rel=1e-9)


@EVERY
@given(problem=soft_problems(min_constraints=1))
@examples(12)
def test_unlimited_and_generous_budgets_cost_nothing(solver, problem):
    mdp = problem.mdp
    reward, costs = problem.objective.tables(mdp)
    free = solver.solve(mdp, Objective(reward))
    most = [oracles.best_policy(mdp, cost)[0] + 1.0 for cost in costs]
    for budgets in (np.full(problem.constraints, np.inf), most):
        solution = solver.solve(mdp, Objective(reward, costs, budgets))
        assert solution.status is Status.CONVERGED
        assert_allclose(solution.multipliers, 0.0, atol=1e-9)
        assert soft_objective(solution) == pytest.approx(soft_objective(free), abs=1e-7)


@EVERY
@given(problem=soft_problems(min_constraints=1))
@examples(12)
def test_an_unlimited_budget_beside_a_binding_one(solver, problem):
    mdp, objective = problem.mdp, problem.objective
    reward, costs = objective.tables(mdp)
    both = Objective(
        reward, np.concatenate([costs, -costs[:1]]), np.append(objective.budgets, np.inf)
    )
    one, other = solver.solve(mdp, objective), solver.solve(mdp, both)
    assert other.multipliers[-1] == 0.0
    assert soft_objective(other) == pytest.approx(soft_objective(one), abs=1e-6)


@EVERY
@given(problem=soft_problems(min_constraints=1))
@examples(12)
def test_the_same_constraint_twice_shares_its_price(solver, problem):
    mdp, objective = problem.mdp, problem.objective
    reward, costs = objective.tables(mdp)
    assume(problem.constraints == 1)
    twice = Objective(reward, np.concatenate([costs, costs]), np.repeat(objective.budgets, 2))
    one, other = solver.solve(mdp, objective), solver.solve(mdp, twice)
    assert soft_objective(other) == pytest.approx(soft_objective(one), abs=1e-6)
    if one.temperature > 0:
        assert other.multipliers.sum() == pytest.approx(one.multipliers.sum(), abs=1e-5)
    else:
        dual = oracles.dual_value(mdp, objective, other.multipliers.sum(keepdims=True))
        assert dual == pytest.approx(one.value, abs=CLOSE * max(1.0, abs(one.value)))


def knapsack(rewards, budgets, discount: float) -> tuple[MDP, Objective]:
    """One state; action k earns rewards[k] and uses budget k alone; the last action is idle."""
    count = len(rewards)
    mdp = MDP(np.ones((1, count + 1, 1)), [1.0], discount)
    costs = np.eye(count, count + 1)[:, None, :]
    return mdp, Objective([[*rewards, 0.0]], costs, budgets)


@EXACT
@pytest.mark.parametrize(
    ("budgets", "used", "prices"),
    [
        ([20.0, 20.0, 20.0], [10.0, 0.0, 0.0], [0.0, 0.0, 0.0]),  # none binds
        ([4.0, 20.0, 20.0], [4.0, 6.0, 0.0], [1.0, 0.0, 0.0]),  # one
        ([4.0, 3.0, 20.0], [4.0, 3.0, 3.0], [2.0, 1.0, 0.0]),  # two
        ([4.0, 3.0, 2.0], [4.0, 3.0, 2.0], [3.0, 2.0, 1.0]),  # all
        ([4.0, np.inf, 2.0], [4.0, 6.0, 0.0], [1.0, 0.0, 0.0]),
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [3.0, 2.0, 1.0]),  # all at the least cost
    ],
)
def test_zero_one_or_many_binding_budgets_by_hand(solver, budgets, used, prices):
    mdp, objective = knapsack([3.0, 2.0, 1.0], budgets, 0.9)
    solution = solver.solve(mdp, objective)
    assert solution.status in (Status.CONVERGED, Status.AT_LEAST_COST)
    assert_allclose(solution.spent, used, atol=1e-8)
    assert_allclose(solution.multipliers, prices, atol=1e-8)
    assert solution.value == pytest.approx(np.dot([3.0, 2.0, 1.0], used))


@EXACT
def test_discount_zero_is_a_choice_per_state(solver):
    # Start anywhere of two states; in each, earn 1 at cost 1 or 0.9 at no cost... budget one half.
    mdp = MDP(np.full((2, 2, 2), 0.5), [0.5, 0.5], 0.0)
    objective = Objective([[1.0, 0.9], [1.0, 0.0]], [[[1.0, 0.0], [1.0, 0.0]]], [0.5])
    solution = solver.solve(mdp, objective)
    assert solution.value == pytest.approx(0.95)
    assert_allclose(solution.policy, [[0.0, 1.0], [1.0, 0.0]], atol=1e-9)
    assert 0.1 - 1e-9 <= solution.multipliers[0] <= 1.0 + 1e-9


@EVERY
@pytest.mark.parametrize("discount", [0.0, 0.9])
def test_a_single_action_leaves_no_choice(solver, discount):
    chain = np.array([[[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0]]])
    mdp = MDP(chain, [1.0, 0.0, 0.0], discount)
    visits = oracles.policy_visitation(mdp, np.ones((3, 1)))[:, 0]
    solution = solver.solve(mdp, Objective([1.0, 2.0, 3.0], [[1.0, 0.0, 0.0]], [visits[0] + 0.1]))
    assert_allclose(solution.policy, 1.0)
    assert_allclose(solution.visitation[:, 0], visits, rtol=1e-12)
    assert solution.value == pytest.approx(visits @ [1.0, 2.0, 3.0])
    assert_allclose(solution.multipliers, 0.0, atol=1e-12)


@EXACT
def test_ties_everywhere(solver):
    # Nothing matters: every policy is optimal, every budget at most half used.
    mdp = MDP(np.full((4, 3, 4), 0.25), np.full(4, 0.25), 0.95)
    solution = solver.solve(mdp, Objective(np.zeros((4, 3)), np.ones((2, 4, 3)), [40.0, 50.0]))
    assert solution.value == pytest.approx(0.0, abs=1e-9)
    assert_allclose(solution.multipliers, 0.0, atol=1e-9)
    assert_allclose(solution.spent, 20.0, rtol=1e-9)


@EVERY
def test_a_textbook_machine(solver):
    # Run or replace a machine in one of three states of wear.
    wear = np.zeros((3, 2, 3))
    wear[:, 1, 0] = 1.0  # replace
    wear[0, 0], wear[1, 0], wear[2, 0] = [0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]
    mdp = MDP(wear, [1.0, 0.0, 0.0], 0.5)
    earn = np.array([[2.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    replacements = np.array([[[0.0, 1.0]] * 3])
    free = solver.solve(mdp, Objective(earn))
    few = solver.solve(mdp, Objective(earn, replacements, [0.05]))
    assert few.spent[0] <= 0.05 + 1e-8
    assert soft_objective(few) < soft_objective(free)
    # By hand, the unconstrained optimum runs in 0 and 1 and replaces in 2:
    # v2 = v0 / 2, v1 = 1 + v1 / 4 + v2 / 4, v0 = 2 + v0 / 4 + v1 / 4.
    if free.temperature == 0:
        v0 = (2 + 1 / 3) / (0.75 - 1 / 24)
        assert free.value == pytest.approx(v0, rel=1e-9)


# --- infeasible budgets ---------------------------------------------------------------------------


def impossible(problem: Problem, share: float) -> Objective:
    """The problem with budgets above each least cost and below what can be met together."""
    mdp = problem.mdp
    reward, costs = problem.objective.tables(mdp)
    own = [-oracles.best_policy(mdp, -cost)[0] for cost in costs]
    together, _ = oracles.least_violation(mdp, Objective(reward, costs, own))
    if problem.constraints == 1:
        return Objective(reward, costs, np.array(own) - share * (1.0 + abs(own[0])))
    assume(together > 1e-3 * (1.0 + np.abs(own).max()))
    return Objective(reward, costs, np.array(own) + share * together)


def judge_infeasible(mdp, objective, solution):
    """Asserts that the proof holds and that no policy violates less."""
    assert solution.status is Status.INFEASIBLE
    proof = solution.infeasibility
    assert (proof.weights >= 0).all()
    least = oracles.least_cost(mdp, objective, proof.weights)
    allowed = float(proof.weights @ objective.budgets)
    size = 1e-8 * max(1.0, abs(least))
    assert proof.least == pytest.approx(least, abs=size)
    assert proof.allowed == pytest.approx(allowed, abs=size)
    assert least > allowed
    assert proof.least > proof.allowed
    over = solution.spent - objective.budgets
    plain, _ = oracles.least_violation(mdp, objective)
    # "Largest violation" as in the certificate: budgets above 1 count relative to themselves.
    scale = np.maximum(1.0, np.abs(objective.budgets))
    relative, _ = oracles.least_violation(mdp, objective, scale=scale)
    smallest = over.max() - plain, (over / scale).max() - relative
    assert min(smallest) <= 1e-6 * max(1.0, plain), smallest
    assert solution.certificate.violation > 0


@EXACT
@given(
    problem=problems(max_states=20, min_constraints=1),
    share=st.sampled_from([0.01, 0.5, 0.99]),
)
@examples(40)
def test_impossible_budgets_are_proven_alone_and_together(solver, problem, share):
    mdp = problem.mdp
    objective = impossible(problem, share)
    solution = solver.solve(mdp, objective, throw=False)
    oracles.judge_arrays(mdp, objective, solution)
    judge_infeasible(mdp, objective, solution)
    with pytest.raises(tacit.Infeasible) as caught:
        solver.solve(mdp, objective)
    assert_array_equal(caught.value.policy, solution.policy)
    assert_array_equal(caught.value.cost, solution.spent)


@EVERY
@given(
    problem=soft_problems(min_constraints=1, max_discount=0.9), share=st.sampled_from([0.05, 0.6])
)
@examples(15)
def test_impossible_budgets_are_proven_by_every_solver(solver, problem, share):
    mdp = problem.mdp
    objective = impossible(problem, share)
    judge_infeasible(mdp, objective, solver.solve(mdp, objective, throw=False))


@EVERY
def test_each_budget_possible_and_both_together_not(solver):
    # One state, two actions: each uses one resource at every step. Budgets of 4 + 4 for 10 steps.
    mdp = MDP(np.ones((1, 2, 1)), [1.0], 0.9)
    objective = Objective([[1.0, 2.0]], [[[1.0, 0.0]], [[0.0, 1.0]]], [4.0, 4.0])
    with pytest.raises(tacit.Infeasible) as caught:
        solver.solve(mdp, objective)
    proof = caught.value.solution.infeasibility
    assert proof.weights[0] == pytest.approx(proof.weights[1], rel=1e-6)
    assert proof.least / proof.weights[0] == pytest.approx(10.0, rel=1e-6)
    assert proof.allowed / proof.weights[0] == pytest.approx(8.0, rel=1e-6)
    assert_allclose(caught.value.cost, [5.0, 5.0], atol=1e-5)


# --- the free function ----------------------------------------------------------------------------


@EVERY
def test_solve_is_the_solver(solver):
    problem = Problem(2, states=5, actions=3, constraints=1, discount=0.9, kind="dense")
    one = tacit.solve(problem.mdp, problem.objective, solver=solver)
    other = solver.solve(problem.mdp, problem.objective)
    assert_array_equal(one.visitation, other.visitation)


def test_solve_is_exact_unless_told_otherwise():
    problem = Problem(2, states=5, actions=3, constraints=1, discount=0.9, kind="dense")
    solution = tacit.solve(problem.mdp, problem.objective)
    assert solution.temperature == 0.0
    optimum = oracles.occupancy_program(problem.mdp, problem.objective)
    assert solution.value == pytest.approx(optimum.value, rel=1e-9)
    infeasible = Objective(problem.tables[0], np.ones((1, 5, 3)), [9.0])
    with pytest.raises(tacit.Infeasible):
        tacit.solve(problem.mdp, infeasible)
    quiet = tacit.solve(problem.mdp, infeasible, throw=False)
    assert quiet.status is Status.INFEASIBLE


@EVERY
@pytest.mark.parametrize("setting", [{"tolerance": 0.0}, {"tolerance": np.nan}, {"max_steps": 0}])
def test_settings_that_make_no_sense_are_refused(solver, setting):
    name, number = next(iter(setting.items()))
    if name not in {field.name for field in dataclasses.fields(solver)}:
        pytest.skip(f"{type(solver).__name__} has no {name}")
    problem = Problem(2, states=5, actions=3, constraints=1, discount=0.9, kind="dense")
    with pytest.raises(tacit.InvalidModel, match=f"{name}.*{number}"):
        dataclasses.replace(solver, **setting).solve(problem.mdp, problem.objective)
