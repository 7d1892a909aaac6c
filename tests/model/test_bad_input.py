"""Bad input: one line that says what must hold, what was got, and where. Each case is a row."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

import refusals
import tacit
from refusals import refusal
from tacit import MDP, InvalidModel, Objective, Successors

GOOD = np.array(
    [
        [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]],
        [[0.0, 0.0, 1.0], [0.2, 0.3, 0.5]],
        [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
    ]
)
START = np.array([0.2, 0.3, 0.5])
LISTS = MDP(GOOD, START, 0.9).transitions


def changed(table: np.ndarray, index: tuple, entry: float) -> np.ndarray:
    """The table with one entry replaced."""
    table = np.array(table)
    table[index] = entry
    return table


def as_sparse(table: np.ndarray) -> sp.csr_array:
    return sp.csr_array(table.reshape(-1, table.shape[2]))


def as_lists(table: np.ndarray) -> Successors:
    states = np.broadcast_to(np.arange(table.shape[2]), table.shape)
    return Successors(states, table)


refused = partial(refusals.refused, kind=InvalidModel)


def test_a_refusal_is_a_value_error_of_tacit():
    assert issubclass(InvalidModel, tacit.TacitError)
    assert issubclass(InvalidModel, ValueError)


def test_the_good_model_is_accepted_in_every_form():
    for form in (GOOD, as_sparse(GOOD), as_lists(GOOD), LISTS):
        assert MDP(form, START, 0.9).states == 3


FORMS = pytest.mark.parametrize("form", [np.array, as_sparse, as_lists])


@FORMS
def test_a_row_that_does_not_sum_to_one(form):
    table = form(changed(GOOD, (1, 1, 2), 0.4))
    refused(lambda: MDP(table, START, 0.9), "distributions", "state 1, action 1", "sums to 0.9")


@FORMS
def test_the_worst_row_is_the_one_named(form):
    table = changed(changed(GOOD, (0, 0, 0), 0.51), (2, 1, 2), 3.0)
    refused(lambda: MDP(form(table), START, 0.9), "state 2, action 1", "sums to 3")


@FORMS
def test_a_row_of_nothing(form):
    table = form(changed(GOOD, (2, 0, 0), 0.0))
    refused(lambda: MDP(table, START, 0.9), "state 2, action 0", "sums to 0")


@FORMS
@pytest.mark.parametrize(("entry", "got"), [(-0.25, "-0.25"), (np.nan, "nan"), (-np.inf, "-inf")])
def test_a_negative_or_nan_probability(form, entry, got):
    table = form(changed(GOOD, (1, 1, 0), entry))
    refused(
        lambda: MDP(table, START, 0.9),
        "non-negative",
        "state 1, action 1, next state 0",
        f"has {got}",
    )


@FORMS
def test_an_infinite_probability(form):
    table = form(changed(GOOD, (1, 1, 0), np.inf))
    refused(lambda: MDP(table, START, 0.9), "state 1, action 1", "sums to inf")


@pytest.mark.parametrize(
    "order", [(1, 0, 2), (0, 2, 1), (1, 2, 0), (2, 0, 1)], ids=["ASS", "SSA", "AS'S", "S'SA"]
)
def test_transposed_dense_transitions(order):
    table = GOOD.transpose(order)
    refused(lambda: MDP(table, START, 0.9), "[S, A, S]", str(table.shape))


def test_dense_transitions_with_state_and_next_state_exchanged():
    # The shape is right, so only the rows can tell.
    refused(lambda: MDP(GOOD.transpose(2, 1, 0), START, 0.9), "distributions", "sums to")


@pytest.mark.parametrize("shape", [(3,), (3, 3), (2, 2, 3), (3, 2, 3, 1), ()])
def test_dense_transitions_of_another_shape(shape):
    refused(lambda: MDP(np.ones(shape), START, 0.9), "[S, A, S]", str(shape))


def test_transposed_sparse_transitions():
    refused(lambda: MDP(as_sparse(GOOD).T, START, 0.9), "[S * A, S]", "s * A + a", "(3, 6)")


def test_sparse_transitions_whose_rows_are_no_multiple_of_the_states():
    refused(lambda: MDP(sp.csr_array(np.ones((7, 3)) / 3), START, 0.9), "[S * A, S]", "(7, 3)")


def test_lists_of_different_shapes():
    lists = Successors(LISTS.states, LISTS.probabilities[:, :, :1])
    refused(lambda: MDP(lists, START, 0.9), "[S, A, B]", "(3, 2, 3) and (3, 2, 1)")


def test_transitions_that_are_no_numbers():
    refused(lambda: MDP([[["a", "b"]]], START, 0.9), "dense transitions", "numbers", "list")
    refused(lambda: MDP([[[1.0]], [[0.5, 0.5]]], START, 0.9), "dense transitions", "equally long")
    refused(lambda: MDP(GOOD.astype(complex), START, 0.9), "dense transitions", "complex128")
    refused(lambda: MDP(as_sparse(GOOD.astype(complex)), START, 0.9), "sparse", "complex128")


@pytest.mark.parametrize("discount", [1.0, 1.5, -0.1, np.nan, np.inf, "high", None, [0.9, 0.9]])
def test_a_discount_outside_its_range(discount):
    message = refused(lambda: MDP(GOOD, START, discount), "discount", "[0, 1)", "got")
    if isinstance(discount, float):
        assert f"got {discount:g}" in message


@pytest.mark.parametrize(
    ("initial", "words"),
    [
        ([0.5, 0.4, 0.0], ["sums to 0.9"]),
        ([1.0, 1.0, 1.0], ["sums to 3"]),
        ([1.5, -0.5, 0.0], ["state 1", "-0.5"]),
        ([0.5, 0.5, np.nan], ["state 2", "nan"]),
        ([np.inf, 0.0, 0.0], ["state 0", "inf"]),
        ([0.5, 0.5], ["(3,)", "(2,)"]),
        ([[0.2, 0.3, 0.5]], ["(3,)", "(1, 3)"]),
        (0, ["(3,)", "(1,)"]),
        (["a", "b", "c"], ["numbers", "list"]),
    ],
)
def test_an_initial_that_is_no_distribution(initial, words):
    refused(lambda: MDP(GOOD, initial, 0.9), "initial", *words)


@pytest.mark.parametrize("successor", [-1, 3, 2**31, 2**40])
def test_a_successor_out_of_range(successor):
    states = changed(LISTS.states.astype(np.int64), (2, 1, 0), successor)
    refused(
        lambda: MDP(Successors(states, LISTS.probabilities), START, 0.9),
        "0..2",
        "state 2, action 1",
        f"is {successor}",
    )


def test_a_successor_out_of_range_is_refused_even_where_it_has_no_weight():
    states = np.array([[[0, 5]]])
    refused(lambda: MDP(Successors(states, [[[1.0, 0.0]]]), [1.0], 0.9), "0..0", "is 5")


def test_successors_of_float_type():
    lists = Successors(LISTS.states.astype(float), LISTS.probabilities)
    refused(lambda: MDP(lists, START, 0.9), "successor states", "integers", "float64")


@pytest.mark.parametrize(
    "empty",
    [
        np.zeros((0, 2, 0)),
        np.zeros((3, 0, 3)),
        sp.csr_array((0, 3)),
        Successors(np.zeros((0, 2, 1), int), np.zeros((0, 2, 1))),
        Successors(np.zeros((3, 2, 0), int), np.zeros((3, 2, 0))),
    ],
    ids=["states", "actions", "sparse", "lists", "successors"],
)
def test_zero_states(empty):
    refused(lambda: MDP(empty, [], 0.9), "at least one state", "got (")


REWARD = np.arange(6.0).reshape(3, 2)
COSTS = np.ones((2, 3, 2))


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf])
def test_reward_that_is_no_number(entry):
    reward = changed(REWARD, (2, 1), entry)
    refused(lambda: Objective(reward), "reward", "finite", "entry (2, 1)", f"is {entry}")
    refused(lambda: Objective(reward[:, 1]), "reward", "entry (2,)", f"is {entry}")


@pytest.mark.parametrize("entry", [np.nan, np.inf])
def test_costs_that_are_no_numbers(entry):
    costs = changed(COSTS, (1, 0, 1), entry)
    refused(lambda: Objective(REWARD, costs, [1, 1]), "costs", "entry (1, 0, 1)", f"is {entry}")


@pytest.mark.parametrize("entry", [np.nan, -np.inf])
def test_budgets_that_are_no_numbers(entry):
    refused(lambda: Objective(REWARD, COSTS, [1, entry]), "budgets", "budget 1", f"is {entry}")


@pytest.mark.parametrize(
    ("costs", "budgets", "words"),
    [
        (COSTS, [1.0], ["(1,)", "2 cost tables"]),
        (COSTS, [1.0, 2.0, 3.0], ["(3,)", "2 cost tables"]),
        (COSTS, None, ["(0,)", "2 cost tables"]),
        (None, [1.0], ["(1,)", "0 cost tables"]),
        (COSTS, [[1.0, 2.0]], ["(1, 2)", "2 cost tables"]),
        (COSTS, ["a", "b"], ["budgets", "numbers"]),
    ],
)
def test_as_many_budgets_as_costs(costs, budgets, words):
    refused(lambda: Objective(REWARD, costs, budgets), "budgets", *words)


@pytest.mark.parametrize(
    ("reward", "costs", "words"),
    [
        (REWARD, np.ones((1, 4)), ["same states", "3 and 4"]),
        (REWARD, np.ones((1, 4, 2)), ["same states", "3 and 4"]),
        (REWARD, np.ones((1, 3, 5)), ["same actions", "2 and 5"]),
        (REWARD, np.ones(3), ["costs", "[K, S]", "(3,)"]),
        (REWARD, [[1.0, 2.0, 3.0], [1.0]], ["costs", "equally long"]),
        (np.ones((3, 2, 1)), None, ["reward", "[S]", "(3, 2, 1)"]),
        (5.0, None, ["reward", "()"]),
        ([], None, ["reward", "non-empty", "(0,)"]),
        ("gold", None, ["reward", "numbers", "str"]),
    ],
)
def test_tables_of_the_wrong_shape(reward, costs, words):
    refused(lambda: Objective(reward, costs, None if costs is None else [1.0]), *words)


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (Objective(np.zeros(4)), ["reward", "(3, 2)", "(4,)"]),
        (Objective(np.zeros((3, 5))), ["reward", "(3, 2)", "(3, 5)"]),
        (Objective(np.zeros((2, 3))), ["reward", "(3, 2)", "(2, 3)"]),
        (Objective(np.zeros(3), np.zeros((1, 3, 4)), [1]), ["costs", "(3, 2)", "(1, 3, 4)"]),
    ],
    ids=["states", "actions", "transposed", "costs"],
)
def test_an_objective_for_another_model(objective, words):
    refused(lambda: objective.tables(MDP(GOOD, START, 0.9)), *words)


SOLVERS = [
    tacit.ColumnGeneration,
    tacit.OccupancyLP,
    tacit.SoftDual,
]


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_objective_for_another_model_is_refused_by_every_solver(solver):
    mdp = MDP(GOOD, START, 0.9)
    refused(lambda: solver().solve(mdp, Objective(np.zeros(4))), "reward", "(3, 2)", "(4,)")
    refused(
        lambda: tacit.solve(mdp, Objective(np.zeros(4)), solver=solver(), throw=False), "reward"
    )


@pytest.mark.parametrize("solver", SOLVERS)
def test_infeasible_budgets_are_one_line_and_carry_the_proof(solver):
    mdp = MDP(GOOD, START, 0.9)
    with refusal(tacit.Infeasible) as caught:
        solver().solve(mdp, Objective(REWARD, np.ones((1, 3, 2)), [9.0]))
    # Every policy spends exactly 1 / (1 - 0.9) = 10.
    proof = caught.value.solution.infeasibility
    assert proof.least / proof.weights[0] == pytest.approx(10.0)
    assert proof.allowed / proof.weights[0] == pytest.approx(9.0)
    assert f"{proof.least:.6g}" in str(caught.value)
    assert f"{proof.allowed:.6g}" in str(caught.value)
    assert caught.value.cost == pytest.approx([10.0])
    assert caught.value.policy.shape == (3, 2)


@pytest.mark.parametrize("solver", SOLVERS)
def test_negative_costs_are_allowed(solver):
    mdp = MDP(GOOD, START, 0.9)
    solution = solver().solve(mdp, Objective(REWARD, -np.ones((1, 3, 2)), [-9.0]))
    assert solution.spent == pytest.approx([-10.0])
