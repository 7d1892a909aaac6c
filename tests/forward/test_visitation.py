"""Where a policy goes and what it collects: flow, duality of the two solves, and the recursion."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.sparse.linalg import spsolve

import oracles
import tacit
from refusals import refused
from strategies import examples, policies, problems, random_policy
from tacit.engine.kernels.chains import chain_solve, policy_chain, size_of
from tacit.errors import InvalidModel
from tacit.forward.policies import policy_values, visitation_recursion
from tacit.forward.solution import visitation
from tacit.model.mdp import MDP, Successors

# A solve with condition number up to 2 / (1 - discount) = 2000 on numbers rounded at 1e-16.
ACCURACY = 1e-11


@given(problems(max_constraints=0))
@examples(80)
def test_visitation_is_a_flow_of_the_right_size(problem):
    mdp, policy = problem.mdp, policies(problem)
    visits = visitation(mdp, policy)
    mass = 1 / (1 - problem.discount)
    assert visits.shape == (problem.states, problem.actions)
    assert (visits >= 0).all()
    assert visits.sum() == pytest.approx(mass, rel=ACCURACY)
    inflow = np.einsum("sa,sat->t", visits, problem.transitions)
    assert_allclose(
        visits.sum(axis=1), mdp.initial + problem.discount * inflow, rtol=0, atol=ACCURACY * mass
    )
    assert_allclose(visits, visits.sum(axis=1, keepdims=True) * policy, rtol=1e-12, atol=0)
    expected = oracles.policy_visitation(mdp, policy)
    assert_allclose(visits, expected, rtol=0, atol=ACCURACY * mass)


@given(problems(max_constraints=0), st.integers(0, 2**20))
@examples(60)
def test_values_and_visitation_are_dual(problem, seed):
    rng = np.random.default_rng(seed)
    mdp, policy = problem.mdp, policies(problem)
    table = rng.normal(size=(problem.states, problem.actions))
    values = policy_values(mdp, policy, table)
    mass = 1 / (1 - problem.discount)
    expected = oracles.policy_value(mdp, policy, table)
    assert_allclose(values, expected, rtol=0, atol=4 * ACCURACY * mass)
    assert mdp.initial @ values == pytest.approx(
        float((visitation(mdp, policy) * table).sum()), rel=1e-10, abs=1e-10 * mass
    )
    by_state = policy_values(mdp, policy, table[:, 0])
    spread = np.repeat(table[:, :1], problem.actions, axis=1)
    assert_allclose(by_state, policy_values(mdp, policy, spread), rtol=0, atol=ACCURACY * mass)


@given(problems(max_states=20, max_constraints=0), st.integers(1, 400))
@examples(60)
def test_the_recursion_misses_exactly_the_tail(problem, steps):
    mdp, policy = problem.mdp, policies(problem)
    full, part = visitation(mdp, policy), visitation_recursion(mdp, policy, steps)
    mass = 1 / (1 - problem.discount)
    tail = problem.discount**steps * mass
    # Every later step adds discount ** t, so the error in L1 is the tail: no more, and no less.
    assert (part <= full + ACCURACY * mass).all()
    assert np.abs(full - part).sum() == pytest.approx(tail, rel=1e-8, abs=1e-10 * mass)


@given(problems(max_states=8, max_constraints=0, max_discount=0.9))
@examples(20)
def test_the_recursion_is_the_sum_over_time(problem):
    mdp, policy = problem.mdp, policies(problem)
    chain = oracles.policy_chain(mdp, policy)
    total, law = np.zeros(problem.states), mdp.initial
    for t in range(7):
        total = total + problem.discount**t * law
        law = law @ chain
    assert_allclose(
        visitation_recursion(mdp, policy, 7), total[:, None] * policy, rtol=0, atol=1e-13
    )


def test_one_step_is_the_start():
    mdp = MDP(np.full((2, 1, 2), 0.5), [0.25, 0.75], 0.9)
    assert_allclose(visitation_recursion(mdp, np.ones((2, 1)), 1), [[0.25], [0.75]])


def test_a_cycle_by_hand():
    # 0 -> 1 -> 0 -> ...: visits to 0 at even times, 1 / (1 - discount ** 2).
    mdp = MDP([[[0.0, 1.0]], [[1.0, 0.0]]], [1.0, 0.0], 0.5)
    assert_allclose(visitation(mdp, np.ones((2, 1))), [[4 / 3], [2 / 3]], rtol=1e-14)
    values = policy_values(mdp, np.ones((2, 1)), np.array([3.0, 0.0]))
    assert_allclose(values, [4.0, 2.0], rtol=1e-14)


def test_discount_zero_sees_one_step():
    mdp = MDP(np.full((3, 2, 3), 1 / 3), [0.2, 0.3, 0.5], 0.0)
    policy = random_policy(0, 3, 2)
    assert_allclose(visitation(mdp, policy), mdp.initial[:, None] * policy, rtol=1e-14)
    table = np.arange(6.0).reshape(3, 2)
    assert_allclose(policy_values(mdp, policy, table), (policy * table).sum(axis=1), rtol=1e-14)


def large_sparse(states: int, discount: float, seed: int) -> MDP:
    rng = np.random.default_rng(seed)
    # Local moves, mostly onward: slow to mix, the hard case for an iterative solve.
    offsets = rng.integers(-15, 16, size=(states, 3, 4))
    offsets[:, :, 0] = 1
    successors = np.clip(np.arange(states)[:, None, None] + offsets, 0, states - 1)
    weights = rng.dirichlet([8.0, 1.0, 1.0, 1.0], size=(states, 3))
    return MDP(Successors(successors, weights), np.eye(states)[0], discount)


@pytest.mark.parametrize("discount", [0.5, 0.95, 0.99, 0.999])
def test_thousands_of_states_against_a_sparse_direct_solve(discount):
    mdp = large_sparse(4000, discount, seed=1)
    policy = random_policy(1, 4000, 3)
    chain = sum(
        sp.diags_array(policy[:, a]) @ mdp.sparse()[np.arange(4000) * 3 + a] for a in range(3)
    )
    system = (sp.eye_array(4000) - discount * chain).tocsc()
    visits = spsolve(system.T.tocsc(), mdp.initial)
    mass = 1 / (1 - discount)
    assert_allclose(visitation(mdp, policy), visits[:, None] * policy, rtol=0, atol=ACCURACY * mass)
    table = np.random.default_rng(2).normal(size=(4000, 3))
    values = spsolve(system, (policy * table).sum(axis=1))
    assert_allclose(policy_values(mdp, policy, table), values, rtol=0, atol=5 * ACCURACY * mass)


def test_a_chain_on_which_krylov_methods_stagnate():
    # One cycle through all states in random order: the spectrum lies on a circle, and no sweep in
    # the order of the states follows the flow.
    states = 1500
    order = np.random.default_rng(0).permutation(states)
    onward = np.empty((states, 1, 1), int)
    onward[order, 0, 0] = np.roll(order, -1)
    start = np.eye(states)[order[0]]
    mdp = MDP(Successors(onward, np.ones(onward.shape)), start, 0.999)
    visits = visitation(mdp, np.ones((states, 1)))[order, 0]
    expected = 0.999 ** np.arange(states) / (1 - 0.999**states)
    assert_allclose(visits, expected, rtol=1e-9)
    values = policy_values(mdp, np.ones((states, 1)), start)[order]
    # From the k-th state of the cycle the start is states - k steps away.
    away = (states - np.arange(states)) % states
    assert_allclose(values, 0.999**away / (1 - 0.999**states), rtol=1e-9)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (np.ones((2, 3)) / 3, ["(2, 2)", "(2, 3)"]),
        (np.ones(2), ["(2, 2)", "(2,)"]),
        ([[0.5, 0.5], [0.5, 0.6]], ["state 1", "0.6"]),
        ([[1.5, -0.5], [1.0, 0.0]], ["state 0", "-0.5"]),
        ([[1.0, 0.0], [np.nan, 1.0]], ["state 1", "nan"]),
    ],
)
def test_a_policy_that_is_none(policy, words):
    mdp = MDP(np.full((2, 2, 2), 0.5), [0.5, 0.5], 0.9)
    for call in (
        lambda: visitation(mdp, policy),
        lambda: visitation_recursion(mdp, policy, 3),
        lambda: policy_values(mdp, policy, np.zeros((2, 2))),
    ):
        refused(call, "policy", *words, kind=InvalidModel)


@pytest.mark.parametrize("shape", [(3,), (1,), (2, 3), (2, 2, 1), ()])
def test_a_table_that_does_not_fit(shape):
    mdp = MDP(np.full((2, 2, 2), 0.5), [0.5, 0.5], 0.9)
    with pytest.raises(InvalidModel) as caught:
        policy_values(mdp, np.full((2, 2), 0.5), np.zeros(shape))
    assert str(shape) in str(caught.value)


@pytest.mark.parametrize("steps", [0, -1])
def test_a_recursion_of_no_step(steps):
    mdp = MDP(np.full((2, 2, 2), 0.5), [0.5, 0.5], 0.9)
    with pytest.raises(InvalidModel, match=str(steps)):
        visitation_recursion(mdp, np.full((2, 2), 0.5), steps)


@pytest.mark.parametrize("transposed", [True, False])
def test_a_wild_guess_is_no_excuse_for_a_wild_answer(transposed):
    """Beside entries of 1e30 a residual of 1e14 looks like rounding; it must not pass for it."""
    world = tacit.worlds.hill_grid(seed=0, size=20, discount=0.99)
    mdp, random = world.mdp, np.random.default_rng(0)
    chain = policy_chain(mdp, random.dirichlet(np.ones(4), mdp.states))
    right = mdp.initial if transposed else random.random(mdp.states)
    guess = 1e30 * random.random(mdp.states)
    calm = chain_solve(mdp, *chain, right, transposed=transposed)
    wild = chain_solve(mdp, *chain, right, transposed=transposed, guess=guess)
    np.testing.assert_allclose(wild, calm, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [4, 15], ids=["eliminated", "iterated"])
@pytest.mark.parametrize("transposed", [True, False])
def test_several_right_sides_are_solved_as_each_alone(size, transposed):
    """Bit for bit: one chain, whether its factors are shared or not; no side at all is none."""
    mdp, random = tacit.worlds.hill_grid(seed=0, size=size).mdp, np.random.default_rng(0)
    chain = policy_chain(mdp, random.dirichlet(np.ones(4), mdp.states))
    right, guess = random.random((2, 3, mdp.states))
    together = chain_solve(mdp, *chain, right, transposed=transposed, guess=guess)
    for one, near, found in zip(right, guess, together, strict=True):
        alone = chain_solve(mdp, *chain, one, transposed=transposed, guess=near)
        np.testing.assert_array_equal(found, alone)
    assert chain_solve(mdp, *chain, right[:0], transposed=transposed).shape == (0, mdp.states)


def test_visits_of_one_state_along_long_paths():
    """The recurrence exploded here, and left a residual of 1e29 for the next round to mend."""
    world = tacit.worlds.hill_grid(seed=0, size=200, discount=0.99, budget=1.0)
    solution = tacit.solve(world.mdp, tacit.Objective(world.truth.reward))
    assert solution.certificate.flow_residual < 1e-12


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_has_no_size(place, bad):
    """No comparison sees NaN: what holds one is not as large as the rest of it."""
    for transposed in (True, False):
        entries = np.array([1.0, 5.0, 1e-20])
        assert size_of(entries, transposed) == (6.0 if transposed else 5.0)
        entries[place] = bad
        assert not np.isfinite(size_of(entries, transposed))


def test_no_number_in_no_number_out():
    mdp = tacit.worlds.hill_grid(seed=0, size=17).mdp
    chain = policy_chain(mdp, np.full((mdp.states, 4), 0.25))
    right = np.zeros(mdp.states)
    right[3] = np.nan
    assert np.isnan(chain_solve(mdp, *chain, right, transposed=False)).all()
    with pytest.raises(InvalidModel, match="finite"):
        policy_values(mdp, np.full((mdp.states, 4), 0.25), right)
