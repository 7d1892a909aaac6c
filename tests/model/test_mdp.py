"""The model: three ways to give it, one storage, two linear maps, one the other transposed."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tacit
from strategies import Problem, examples, problems
from tacit.model.mdp import MDP, Successors
from tacit.model.transitions import shared_successors, successor_lists

# Rows are divided by their sums and repeats added up: a few roundings of numbers below 1.
ROUNDING = 1e-14


def shuffled_lists(dense: np.ndarray, seed: int) -> Successors:
    """The same transitions as lists: unsorted, with repeats and padding of probability 0."""
    rng = np.random.default_rng(seed)
    count, actions, _ = dense.shape
    width = 2 * count + 3
    states = rng.integers(count, size=(count, actions, width))
    probabilities = np.zeros(states.shape)
    for s, a in np.ndindex(count, actions):
        half = rng.uniform(0.1, 0.9, count)
        entries = [
            (t, dense[s, a, t] * part) for t in range(count) for part in (half[t], 1 - half[t])
        ]
        for slot, index in enumerate(rng.permutation(width)[: len(entries)]):
            states[s, a, index], probabilities[s, a, index] = entries[slot]
    return Successors(states, probabilities)


def every_form(problem: Problem) -> list:
    dense = problem.transitions
    matrix = dense.reshape(-1, problem.states)
    return [
        dense,
        dense.tolist(),
        np.asfortranarray(dense),
        sp.csr_matrix(matrix),
        sp.csr_array(matrix),
        sp.coo_array(matrix),
        sp.csc_array(matrix),
        shuffled_lists(dense, problem.seed),
        successor_lists(dense),
    ]


@given(problems(max_states=9, max_actions=4, max_constraints=0))
@examples(40)
def test_every_form_is_the_same_model(problem):
    start = problem.mdp.initial
    for form in every_form(problem):
        mdp = MDP(form, start, problem.discount)
        assert (mdp.states, mdp.actions) == (problem.states, problem.actions)
        assert_allclose(mdp.dense(), problem.transitions, rtol=0, atol=ROUNDING)
        assert_allclose(
            mdp.sparse().toarray().reshape(problem.transitions.shape),
            problem.transitions,
            rtol=0,
            atol=ROUNDING,
        )
        assert_array_equal(mdp.transitions.states, problem.mdp.transitions.states)


@given(problems(max_constraints=0))
@examples(40)
def test_stored_lists_are_sorted_merged_and_in_range(problem):
    lists = problem.mdp.transitions
    assert lists.states.dtype == np.int32
    assert lists.probabilities.dtype == np.float64
    assert ((lists.states >= 0) & (lists.states < problem.states)).all()
    assert_allclose(lists.probabilities.sum(axis=2), 1.0, rtol=0, atol=ROUNDING)
    # Real entries first, strictly increasing; no list is wider than its longest row.
    real = lists.probabilities > 0
    assert (real[:, :, :-1] >= real[:, :, 1:]).all()
    rising = np.diff(lists.states, axis=2) > 0
    assert (rising | ~real[:, :, 1:]).all()
    assert real.sum(axis=2).max() == lists.states.shape[2]


@given(problems(max_constraints=0), st.integers(0, 2**20))
@examples(60)
def test_the_two_maps_are_what_they_say_and_transposes(problem, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=problem.states)
    table = rng.normal(size=(problem.states, problem.actions))
    mdp = problem.mdp
    expected = np.einsum("sat,t->sa", problem.transitions, values)
    # Sums of at most 60 x 6 products of order 1.
    assert_allclose(mdp.expected_next(values), expected, rtol=0, atol=1e-12)
    inflow = np.einsum("sat,sa->t", problem.transitions, table)
    assert_allclose(mdp.inflow(table), inflow, rtol=0, atol=1e-12)
    assert np.vdot(table, mdp.expected_next(values)) == pytest.approx(
        values @ mdp.inflow(table), rel=1e-10, abs=1e-11
    )


@given(problems(max_constraints=0))
@examples(40)
def test_sharing_next_states_between_actions_loses_nothing(problem):
    layout = shared_successors(problem.mdp.transitions)
    states = np.broadcast_to(layout.states, layout.probabilities.shape)
    table = np.zeros(problem.transitions.shape)
    s, a, _ = np.indices(layout.probabilities.shape, sparse=True)
    np.add.at(table, (s, a, states), layout.probabilities)
    assert_allclose(table, problem.transitions, rtol=0, atol=ROUNDING)


def test_sharing_happens_where_actions_lead_to_the_same_places_and_only_there():
    everywhere = Problem(seed=0, states=6, actions=3, constraints=0, discount=0.9, kind="dense")
    assert everywhere.mdp.packed.states.shape == (6, 1, 6)
    scattered = np.zeros((40, 6, 40))
    for a in range(6):
        scattered[np.arange(40), a, (np.arange(40) + 5 * a + 1) % 40] = 1.0
    assert MDP(scattered, np.full(40, 1 / 40), 0.9).packed.states.shape == (40, 6, 1)


def test_rows_of_float32_are_rows_and_become_exact():
    rng = np.random.default_rng(0)
    rough = rng.dirichlet(np.ones(7), (7, 2)).astype(np.float32)
    mdp = MDP(rough, np.float32([1 / 7] * 7), np.float32(0.5))
    assert_allclose(mdp.dense().sum(axis=2), 1.0, rtol=0, atol=ROUNDING)
    assert mdp.initial.sum() == pytest.approx(1.0, abs=ROUNDING)
    assert mdp.initial.dtype == np.float64
    assert isinstance(mdp.discount, float)


def test_absorbing_states_are_those_that_no_action_leaves():
    table = np.zeros((4, 2, 4))
    table[0, :, 0] = 1.0  # stays
    table[1, 0, 1] = table[1, 1, 0] = 1.0  # leaves by one action
    table[2, :, 2] = 1.0 - 1e-7  # leaves once in ten million steps: still leaves
    table[2, :, 3] = 1e-7
    table[3, :, 3] = 1.0 + 1e-9  # a row that is a row only up to rounding
    assert_array_equal(MDP(table, [1, 0, 0, 0], 0.9).absorbing, [True, False, False, True])
    repeated = Successors([[[0, 0]]], [[[0.5, 0.5]]])
    assert_array_equal(MDP(repeated, [1], 0.9).absorbing, [True])


def test_the_model_owns_its_arrays_and_they_do_not_change():
    dense = np.full((2, 1, 2), 0.5)
    initial = np.array([0.5, 0.5])
    mdp = MDP(dense, initial, 0.9)
    dense[:], initial[:] = 7.0, 7.0
    assert_array_equal(mdp.dense(), np.full((2, 1, 2), 0.5))
    assert_array_equal(mdp.initial, [0.5, 0.5])
    for array in (mdp.initial, mdp.transitions.states, mdp.transitions.probabilities):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(AttributeError):
        mdp.discount = 0.5
    # Entry (0, 1) in two halves: merged in the model, left alone in the caller's matrix.
    halves = sp.csr_array(([0.5, 0.25, 0.25, 1.0], [0, 1, 1, 0], [0, 3, 4]), shape=(2, 2))
    assert_array_equal(MDP(halves, [1, 0], 0.9).dense()[:, 0], [[0.5, 0.5], [1.0, 0.0]])
    assert halves.nnz == 4
    halves.data[:] = 1.0  # still the caller's own, still writable


def test_the_smallest_model():
    mdp = MDP([[[1.0]]], [1.0], 0.0)
    assert (mdp.states, mdp.actions, mdp.discount) == (1, 1, 0.0)
    assert_array_equal(mdp.absorbing, [True])
    assert_array_equal(mdp.expected_next(np.array([3.0])), [[3.0]])
    assert repr(mdp) == "MDP(states=1, actions=1, successors=1, discount=0)"


def test_a_used_model_travels_with_all_its_digits():
    """What an engine keeps with the model would lose half of its bits on the way."""
    world = tacit.worlds.hill_grid(seed=4, tightness=0.5)
    solver = tacit.SoftDual(temperature=0.0025)
    before = solver.solve(world.mdp, world.truth)
    there = pickle.loads(pickle.dumps(world.mdp))  # as joblib sends it
    after = solver.solve(there, world.truth)
    assert_array_equal(after.policy, before.policy)
    assert after.certificate == before.certificate


# ---- actions that are not there, and ends


def restricted(seed: int = 0, *, discount: float = 0.9, states: int = 6, actions: int = 3) -> MDP:
    """A random model with an end, its last state, and some actions missing."""
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.ones(states), (states, actions))
    available = rng.random((states, actions)) < 0.7
    available[:, 0] = True
    available[-1] = False
    return MDP(table, np.full(states, 1 / states), discount, available=available)


def test_everything_is_there_by_default():
    mdp = MDP(np.eye(2)[:, None], [1, 0], 0.9)
    assert mdp.available.dtype == bool
    assert mdp.available.all()
    assert not mdp.available.flags.writeable
    assert not mdp.restricted
    assert not mdp.ends.any()
    assert mdp.choices is mdp.available
    assert mdp.horizon == 1.0 / (1.0 - 0.9)
    assert "ends" not in repr(mdp)


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.9, 1.0]))
@examples(30)
def test_rows_that_are_not_there_are_empty_in_every_form(seed, discount):
    mdp = restricted(seed, discount=discount)
    dense = mdp.dense()
    assert_array_equal(dense.sum(axis=2) > 0, mdp.available)
    assert_array_equal(mdp.ends, [False] * 5 + [True])
    assert_array_equal(mdp.choices.sum(axis=1) >= 1, True)
    assert mdp.choices[-1].tolist() == [True, False, False]
    garbage = np.where(mdp.available[:, :, None], dense, 17.0)
    lists = successor_lists(np.where(mdp.available[:, :, None], dense, 1 / 6))
    strange = Successors(np.where(mdp.available[:, :, None], lists.states, -5), lists.probabilities)
    start = mdp.initial
    for form in (garbage, dense, sp.csr_array(dense.reshape(-1, 6)), strange, mdp.transitions):
        same = MDP(form, start, discount, available=mdp.available.astype(int))
        assert_allclose(same.dense(), dense, rtol=0, atol=ROUNDING)
        assert_array_equal(same.available, mdp.available)
    values = np.random.default_rng(seed).normal(size=6)
    flows = np.random.default_rng(seed + 1).normal(size=(6, 3))
    for large in (False, True):
        if large:  # past the one dense product of tiny models
            mdp.__dict__["_matrix"] = None
        assert_allclose(mdp.expected_next(values), dense @ values, rtol=0, atol=ROUNDING)
        assert_allclose(mdp.inflow(flows), np.einsum("sa,sat->t", flows, dense), atol=1e-13)
    assert_allclose(mdp.sparse().toarray().reshape(dense.shape), dense, rtol=0, atol=0)
    assert mdp.transitions.states.max() < 6
    assert mdp.packed.states.max() < 6
    kept = pickle.loads(pickle.dumps(mdp))
    assert_array_equal(kept.available, mdp.available)
    assert "ends=1" in repr(mdp)


def test_a_state_that_only_ends_is_not_absorbing():
    table = np.zeros((3, 1, 3))
    table[0, 0, 1] = table[1, 0, 1] = 1.0
    mdp = MDP(table, [1, 0, 0], 0.9, available=[[1], [1], [0]])
    assert_array_equal(mdp.absorbing, [False, True, False])
    assert_array_equal(mdp.ends, [False, False, True])


def test_the_shortest_walk_has_the_least_expected_length():
    # Two ways from 0: one step that works in one of ten, or two sure ones.
    table = np.zeros((3, 2, 3))
    table[0, 0, 2], table[0, 0, 0] = 0.1, 0.9
    table[0, 1, 1] = table[1, 0, 2] = 1.0
    mdp = MDP(table, [1, 0, 0], 1.0, available=[[1, 1], [1, 0], [0, 0]])
    actions, lengths = mdp.walk
    assert_array_equal(actions, [1, 0, 0])
    assert_allclose(lengths, [3, 2, 1], rtol=1e-14)
    assert mdp.horizon == pytest.approx(3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"available": None}, "got 1, and no state is an end"),
        ({"available": np.ones((3, 2))}, "got 1, and no state is an end"),
        ({"available": [[1, 1], [1, 1], [0, 0]]}, r"state 1 reaches none"),
        ({"available": [[1, 1], [1, 1]]}, r"available must have shape \[S, A\] = \(3, 2\)"),
        ({"available": np.full((3, 2), 0.5)}, "must hold true or false"),
        ({"available": np.full((3, 2), "yes")}, "must hold true or false"),
        ({"discount": 1.5}, "1 where every state can reach an end"),
    ],
)
def test_what_an_end_needs_is_said(change, words):
    table = np.zeros((3, 2, 3))
    table[0, :, 2] = table[1, :, 1] = table[2, :, 2] = 1.0
    given_as = {"discount": 1.0, "available": [[1, 1], [0, 0], [0, 0]]} | change
    assert MDP(table, [1, 0, 0], 1.0, available=[[1, 1], [0, 0], [0, 0]]).discount == 1.0
    with pytest.raises(tacit.InvalidModel, match=words):
        MDP(table, [1, 0, 0], **given_as)


def test_an_available_row_must_not_be_empty():
    table = np.zeros((2, 2, 2))
    table[0, 0, 1] = 1.0
    with pytest.raises(tacit.InvalidModel, match=r"\(state 0, action 1\) sums to 0: where the act"):
        MDP(table, [1, 0], 0.9, available=[[1, 1], [0, 0]])


def test_nothing_is_done_at_an_end_so_all_actions_pay_alike():
    mdp = restricted()
    reward = np.random.default_rng(0).normal(size=(6, 3))
    with pytest.raises(tacit.InvalidModel, match=r"reward must be the same .* state 5 has"):
        tacit.Objective(reward).tables(mdp)
    with pytest.raises(tacit.InvalidModel, match=r"reward features must be the same .* state 5"):
        tacit.Features(np.stack([np.ones((6, 3)), reward], axis=2)).check(mdp)
    reward[5] = 2.0
    tacit.Objective(reward).tables(mdp)
    uneven = np.stack([reward, reward + np.arange(3)])
    with pytest.raises(tacit.InvalidModel, match=r"cost 1 must be the same .* state 5"):
        tacit.Objective(reward, uneven, [1, 1]).tables(mdp)
