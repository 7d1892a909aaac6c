"""The second exact solver: the occupancy program itself, its options, and its vertex."""

from hypothesis import given

import oracles
from strategies import examples, problems
from tacit import OccupancyLP, Status


@given(problems())
@examples(60)
def test_value_and_multipliers_agree_with_the_dense_program(problem):
    mdp, objective = problem.mdp, problem.objective
    solution = OccupancyLP().solve(mdp, objective)
    assert solution.status is Status.CONVERGED
    assert solution.temperature == 0.0
    oracles.judge_arrays(mdp, objective, solution)
    optimum = oracles.occupancy_program(mdp, objective)
    oracles.judge_hard_optimum(mdp, objective, solution, optimum)


@given(problems(max_states=25))
@examples(40)
def test_a_vertex_randomises_in_at_most_as_many_states_as_there_are_budgets(problem):
    solution = OccupancyLP().solve(problem.mdp, problem.objective)
    visited = solution.visitation.sum(axis=1) > 1e-9
    mixed = ((solution.visitation > 1e-9).sum(axis=1) > 1) & visited
    assert mixed.sum() <= problem.constraints
