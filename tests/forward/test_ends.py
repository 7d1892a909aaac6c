"""Actions that are not there, episodes that end, discount 1: every solver against other ways."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog

import tacit
from strategies import examples
from tacit.forward.policies import policy_values
from tacit.forward.solution import Status, certify, soft_values, visitation
from tacit.model.lift import lift

ColumnGeneration, OccupancyLP, SoftDual = (
    tacit.ColumnGeneration,
    tacit.OccupancyLP,
    tacit.SoftDual,
)


def world(seed: int, discount: float, *, states=7, actions=3, constraints=0, random=True):
    """A restricted model with two ends, an objective that pays for being quick, and budgets."""
    rng = np.random.default_rng(seed)
    if random:
        table = rng.dirichlet(np.full(states, 0.3), (states, actions))
    else:
        table = np.eye(states)[rng.integers(states, size=(states, actions))]
    available = rng.random((states, actions)) < 0.7
    available[:, 0] = True
    available[-2:] = False
    table[:-2, 0] = 0.0
    table[np.arange(states - 2), 0, np.arange(1, states - 1)] = 1.0  # a way on for every state
    initial = np.r_[rng.dirichlet(np.ones(states - 2)), 0.0, 0.0]
    mdp = tacit.MDP(table, initial, discount, available=available)
    # No gains on the way: rounds never pay, with the noise of three actions at most 0.1 log 3.
    reward = -rng.uniform(0.2, 1.0, (states, actions))
    reward[-2:] = rng.normal(size=(2, 1))
    costs = rng.uniform(0.0, 1.0, (constraints, states, actions))
    costs[:, -2:] = rng.uniform(size=(constraints, 2, 1))
    garbage = ~available & ~mdp.ends[:, None]
    reward[garbage] = 1e6  # what is not there pays nothing
    budgets = np.array([])
    if constraints:
        free = ColumnGeneration().solve(mdp, tacit.Objective(reward))
        spent = np.einsum("ksa,sa->k", np.where(garbage, 0.0, costs), free.visitation)
        least = [
            -ColumnGeneration().solve(mdp, tacit.Objective(np.where(garbage, 0.0, -cost))).value
            for cost in costs
        ]
        mixed = ColumnGeneration().solve(mdp, tacit.Objective(np.where(garbage, 0, -costs.sum(0))))
        lowest = np.einsum("ksa,sa->k", np.where(garbage, 0.0, costs), mixed.visitation)
        budgets = np.maximum(lowest, least) + 0.3 * np.abs(spent - lowest) + 1e-3
    return mdp, tacit.Objective(reward, costs if constraints else None, budgets)


def by_program(mdp, objective) -> float:
    """The optimum by another linear program, over the pairs that are there and the arrivals."""
    reward, costs = objective.tables(mdp)
    pairs = np.argwhere(mdp.available)
    dense = mdp.dense()
    flow = np.zeros((mdp.states, len(pairs)))
    for column, (s, a) in enumerate(pairs):
        flow[s, column] += 1.0
        flow[:, column] -= mdp.discount * dense[s, a]
    # An end receives: what it pays is paid by the pairs that lead there.
    pay = np.array([reward[s, a] for s, a in pairs])
    spend = costs[:, pairs[:, 0], pairs[:, 1]]
    for end in np.flatnonzero(mdp.ends):
        pay -= flow[end] * reward[end, 0]
        spend -= flow[end] * costs[:, end, :1]
    rows = ~mdp.ends
    found = linprog(
        -pay,
        A_ub=spend if len(costs) else None,
        b_ub=objective.budgets if len(costs) else None,
        A_eq=flow[rows],
        b_eq=mdp.initial[rows],
        method="highs",
    )
    assert found.status == 0, found.message
    return -found.fun + float(mdp.initial[mdp.ends] @ reward[mdp.ends, 0])


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.9, 1.0]), st.integers(0, 2))
@examples(24)
def test_all_solvers_agree_with_a_linear_program(seed, discount, constraints):
    mdp, objective = world(seed, discount, constraints=constraints)
    want = by_program(mdp, objective)
    for solver in (ColumnGeneration(), OccupancyLP()):
        solution = tacit.solve(mdp, objective, solver=solver)
        assert solution.status is Status.CONVERGED
        # HiGHS meets its rows to 1e-10.
        assert solution.value == pytest.approx(want, rel=1e-7, abs=1e-7)
        has_the_outside_form(mdp, solution)
    # A little noise costs at most temperature * log A a step.
    quiet = tacit.solve(mdp, objective, solver=SoftDual(temperature=1e-3))
    steps = quiet.visitation[~mdp.ends].sum()
    assert want - 1e-3 * np.log(mdp.actions) * steps - 1e-6 <= quiet.value
    assert quiet.value <= want + 1e-6
    has_the_outside_form(mdp, quiet)


def has_the_outside_form(mdp, solution):
    """Nothing is done at ends or that is not there; the visitation is that of the policy."""
    assert_array_equal(solution.policy[~mdp.available], 0.0)
    assert_allclose(solution.policy[~mdp.ends].sum(axis=1), 1.0, atol=1e-12)
    assert_array_equal(solution.visitation[~mdp.ends & True][~mdp.available[~mdp.ends]], 0.0)
    rows = solution.visitation[mdp.ends]
    assert_allclose(rows, rows[:, :1] * np.ones(mdp.actions), atol=1e-15)
    assert_allclose(solution.visitation, visitation(mdp, solution.policy), atol=1e-6)
    if mdp.discount == 1.0:  # every episode ends once
        assert rows.sum() == pytest.approx(1.0, abs=1e-7)


@given(st.integers(0, 10_000), st.sampled_from([0.5, 0.9, 1.0]), st.booleans())
@examples(20)
def test_the_noisy_expert_meets_its_own_equations(seed, discount, random):
    mdp, objective = world(seed, discount, random=random)
    solution = tacit.solve(mdp, objective, solver=SoftDual(temperature=0.1))
    reward, _ = objective.tables(mdp)
    dense, values = mdp.dense(), solution.values
    for s in range(mdp.states):
        if mdp.ends[s]:
            assert values[s] == pytest.approx(reward[s, 0])
            continue
        worth = [
            (reward[s, a] + discount * dense[s, a] @ values) / 0.1
            for a in np.flatnonzero(mdp.available[s])
        ]
        assert values[s] == pytest.approx(0.1 * np.logaddexp.reduce(worth), abs=1e-9)
    got = policy_values(mdp, solution.policy, reward)
    assert mdp.initial @ got == pytest.approx(solution.value, abs=1e-8)


def acyclic(seed: int, layers=4, wide=3):
    """A network without circles: every link leads to the next layer, the last state ends it."""
    rng = np.random.default_rng(seed)
    states = layers * wide + 1
    table = np.zeros((states, 3, states))
    available = np.zeros((states, 3), bool)
    for s in range(states - 1):
        layer = s // wide + 1
        later = np.arange(layer * wide, min((layer + 1) * wide, states))
        reached = rng.choice(later, size=min(3, len(later)), replace=False)
        for a, t in enumerate(reached):
            table[s, a, t], available[s, a] = 1.0, True
    reward = rng.normal(size=(states, 3))
    reward[-1] = rng.normal()
    mdp = tacit.MDP(table, np.eye(states)[0], 1.0, available=available)
    return mdp, tacit.Objective(reward)


def paths(mdp, reward) -> list[tuple[tuple, float]]:
    """Every path from state 0 to the end, as (state, action) pairs, with what it pays."""
    following, found = mdp.dense().argmax(axis=2), []

    def walk(s, pairs, paid):
        if mdp.ends[s]:
            found.append((tuple(pairs), paid + reward[s, 0]))
        for a in np.flatnonzero(mdp.available[s]):
            walk(following[s, a], [*pairs, (s, int(a))], paid + reward[s, a])

    walk(0, [], 0.0)
    return found


@pytest.mark.parametrize("temperature", [0.0, 0.05, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_equals_the_enumeration_of_all_paths(seed, temperature):
    mdp, objective = acyclic(seed)
    every = paths(mdp, objective.reward)
    paid = np.array([pay for _, pay in every])
    assert len(every) > 10
    if temperature == 0.0:
        for solver in (ColumnGeneration(), OccupancyLP()):
            assert tacit.solve(mdp, objective, solver=solver).value == pytest.approx(paid.max())
        return
    solution = tacit.solve(mdp, objective, solver=SoftDual(temperature=temperature))
    whole = np.logaddexp.reduce(paid / temperature)
    assert solution.values[0] == pytest.approx(temperature * whole, rel=1e-12)
    want = np.zeros((mdp.states, mdp.actions))
    for pairs, pay in every:
        for pair in pairs:
            want[pair] += np.exp(pay / temperature - whole)
    want[-1] = 1.0 / mdp.actions
    assert_allclose(solution.visitation, want, atol=1e-10)
    assert solution.value == pytest.approx(np.exp(paid / temperature - whole) @ paid)


@pytest.mark.parametrize("constraints", [0, 1, 2])
@pytest.mark.parametrize("solver", [ColumnGeneration(), OccupancyLP(), SoftDual(temperature=0.1)])
def test_discount_one_is_the_limit_of_discounts(solver, constraints):
    for seed in range(3):
        mdp, objective = world(seed, 1.0, constraints=constraints)
        near = tacit.MDP(mdp.transitions, mdp.initial, 1 - 1e-6, available=mdp.available)
        here = tacit.solve(mdp, objective, solver=solver)
        # A millionth of rounding is a part of a certificate that divides by 1 - discount.
        there = solver.solve(near, objective, throw=False)
        # Values change by about 1e-6 times the length of what is left, which may be a hundred.
        assert_allclose(here.values, there.values, rtol=1e-3, atol=1e-3)
        assert here.value == pytest.approx(there.value, rel=1e-3, abs=1e-3)
        assert_allclose(here.multipliers, there.multipliers, rtol=1e-2, atol=1e-2)


@given(st.integers(0, 10_000))
@examples(15)
def test_ends_are_absorbing_states_that_pay_for_their_length(seed):
    """Below discount 1 a hard problem has an unrestricted twin: dear actions, paid rests."""
    mdp, objective = world(seed, 0.9)
    reward, _ = objective.tables(mdp)
    dense = mdp.dense()
    dense[mdp.ends] = np.eye(mdp.states)[mdp.ends][:, None]
    gone = ~mdp.available & ~mdp.ends[:, None]
    dense[gone] = np.eye(mdp.states)[np.argwhere(gone)[:, 0]]
    paid = np.where(gone, -1e4, reward)
    paid[mdp.ends] *= 1 - 0.9
    twin = tacit.solve(tacit.MDP(dense, mdp.initial, 0.9), tacit.Objective(paid))
    mine = tacit.solve(mdp, objective)
    assert_allclose(mine.values, twin.values, atol=1e-8)
    assert mine.value == pytest.approx(twin.value)


def ring(gain: float, *, noise: float = 0.0):
    """Three states in a ring that pays `gain` a step, with a way out of each to an end."""
    table = np.zeros((4, 2, 4))
    for s in range(3):
        table[s, 0, (s + 1) % 3], table[s, 0, s] = 1 - noise, noise
        table[s, 1, 3] = 1.0
    reward = np.array([[gain, 0.0]] * 3 + [[1.0, 1.0]])
    mdp = tacit.MDP(table, [1, 0, 0, 0], 1.0, available=[[1, 1]] * 3 + [[0, 0]])
    return mdp, reward


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("solver", [ColumnGeneration(), OccupancyLP(), SoftDual(temperature=0.1)])
def test_a_ring_that_pays_has_no_finite_value(solver, noise):
    mdp, reward = ring(0.01, noise=noise)
    solution = tacit.solve(mdp, tacit.Objective(reward), solver=solver, throw=False)
    assert solution.status is Status.UNBOUNDED
    assert not solution.certificate.within(1e6)
    with pytest.raises(tacit.NotConverged, match="no finite value at these weights"):
        tacit.solve(mdp, tacit.Objective(reward), solver=solver)
    # A budget on rounds makes it finite: ten steps at most, each worth 0.01.
    limited = tacit.Objective(reward, [[[1, 0]] * 3 + [[0, 0]]], [10.0])
    found = tacit.solve(mdp, limited, solver=solver)
    assert found.status is Status.CONVERGED
    assert found.spent[0] == pytest.approx(10.0, rel=1e-6)
    if solver != SoftDual(temperature=0.1):
        assert found.value == pytest.approx(1.1)


def test_noise_alone_can_make_going_round_pay():
    """exp(gain / t) of a ring with a way out is a geometric sum: finite below 0, infinite at 0."""
    for gain, temperature in ((-0.01, 0.1), (-1.0, 0.1), (-0.01, 5.0)):
        mdp, reward = ring(gain)
        solution = tacit.solve(mdp, tacit.Objective(reward), solver=SoftDual(temperature))
        # z = exp(gain / t) z + exp(1 / t), from every state of the ring.
        z = -temperature * np.log(-np.expm1(gain / temperature)) + 1.0
        assert_allclose(solution.values[:3], z, rtol=1e-9)
    table = np.zeros((2, 3, 2))
    table[0, :2, 0] = table[0, 2, 1] = 1.0
    mdp = tacit.MDP(table, [1, 0], 1.0, available=[[1, 1, 1], [0, 0, 0]])
    # Two ways to stay: 2 exp(-0.5 / t) is below 1 only for t < 0.72.
    stay = tacit.Objective([[-0.5, -0.5, 0.0], [0.0, 0.0, 0.0]])
    assert tacit.solve(mdp, stay, solver=SoftDual(0.7)).status is Status.CONVERGED
    lost = tacit.solve(mdp, stay, solver=SoftDual(0.75), throw=False)
    assert lost.status is Status.UNBOUNDED


def test_rounds_that_pay_nothing_are_no_trouble():
    mdp, reward = ring(0.0)
    for solver in (ColumnGeneration(), OccupancyLP()):
        solution = tacit.solve(mdp, tacit.Objective(reward), solver=solver)
        assert solution.value == pytest.approx(1.0)
        has_the_outside_form(mdp, solution)


@pytest.mark.parametrize("times", [1.0, 100.0, 1e4])
def test_nothing_underflows_at_a_low_temperature(times):
    mdp, objective = world(3, 1.0, states=40, random=False)
    sharp = tacit.Objective(times * objective.reward)
    solution = tacit.solve(mdp, sharp, solver=SoftDual(temperature=0.1))
    assert solution.status is Status.CONVERGED
    hard = tacit.solve(mdp, sharp)
    assert (solution.values >= hard.values - 1e-9 * times).all()
    assert (solution.values <= hard.values + 0.1 * np.log(3) * 60).all()


def chain(length: int, discount: float):
    """A line of states with a step on and a step back; the last one ends it."""
    states = np.arange(length)
    lists = np.stack([np.minimum(states + 1, length - 1), np.maximum(states - 1, 0)], axis=1)
    available = np.ones((length, 2), bool)
    available[-1] = False
    available[0, 1] = False
    transitions = tacit.Successors(lists[:, :, None], np.ones((length, 2, 1)))
    mdp = tacit.MDP(transitions, np.eye(length)[0], discount, available=available)
    return mdp, tacit.Objective(np.r_[np.full(length - 1, -1.0), 0.0])


def test_a_long_chain_is_solved():
    mdp, objective = chain(1000, 1.0)
    assert tacit.solve(mdp, objective).value == pytest.approx(-999)
    soft = tacit.solve(mdp, objective, solver=SoftDual(temperature=0.5))
    # With z = exp(V / t) of an endless line z(s) = r z(s + 1), r = e (1 + r^2), e = exp(-1 / t).
    e = np.exp(-1 / 0.5)
    r = (1 - np.sqrt(1 - 4 * e * e)) / (2 * e)
    assert np.diff(soft.values)[500] == pytest.approx(-0.5 * np.log(r), rel=1e-9)


def test_compiled_loops_and_arrays_agree():
    from tacit.engine import undiscounted_fixed_point
    from tacit.engine.backends import Host, compiled_in_double, soft_fixed_point
    from tacit.engine.backends.device import dense, sparse

    def undiscounted(backend, temperature, reward, guess, target):
        given = (temperature, reward, guess, target)
        return undiscounted_fixed_point(backend, soft_fixed_point, *given)

    iterate = compiled_in_double(undiscounted)
    mdp, objective = world(5, 1.0, states=80)
    reward = np.where(mdp.choices, objective.reward, 0.0)
    found = []
    for build in (Host, dense, sparse):
        values, policy, error = iterate(build(mdp), 0.1, reward, np.zeros(mdp.states), 1e-12)
        assert error < 1e-11
        found.append((values, policy))
        assert_array_equal(found[-1][1][~mdp.choices], 0.0)
    for values, policy in found[1:]:
        assert_allclose(values, found[0][0], atol=1e-10)
        assert_allclose(policy, found[0][1], atol=1e-9)


@pytest.mark.parametrize("discount", [0.9, 1.0])
def test_a_model_split_over_devices_has_the_same_answer(discount):
    mdp, objective = chain(300, discount)
    apart, _ = chain(300, discount)
    whole = tacit.solve(mdp, objective, solver=SoftDual(temperature=0.5))
    with tacit.scale.sharded():
        split = tacit.solve(apart, objective, solver=SoftDual(temperature=0.5), throw=False)
    assert_allclose(split.values, whole.values, rtol=1e-8)
    assert_allclose(split.policy, whole.policy, atol=1e-8)


def test_a_model_held_in_parts_says_that_it_knows_no_ends():

    mdp, _ = chain(20, 0.9)

    def rows(start, stop):
        lists = mdp.transitions
        return tacit.Successors(lists.states[start:stop], lists.probabilities[start:stop])

    with pytest.raises(tacit.InvalidModel, match="neither unavailable actions nor ends"):
        tacit.scale.ShardedMDP.from_rows(rows, 0, states=20, discount=0.9)
    with pytest.raises(tacit.InvalidModel, match=r"discount must be in \[0, 1\); got 1"):
        tacit.scale.ShardedMDP.from_rows(rows, 0, states=20, discount=1.0)


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.1]))
@examples(20)
def test_the_bound_holds_for_any_values_at_discount_one(seed, temperature):
    """Weak duality: whatever values are given, the gap is not below what is missing."""
    mdp, objective = world(seed, 1.0)
    best = tacit.solve(mdp, objective, solver=SoftDual(0.1) if temperature else None)
    top = mdp.initial @ best.values
    rng = np.random.default_rng(seed)
    for size in (1e-6, 0.1, 10.0):
        values = best.values + size * rng.normal(size=mdp.states)
        seen = certify(
            mdp, objective, best.visitation, values, np.zeros(0), temperature=temperature
        )
        assert seen.duality_gap >= -1e-9
        poor = visitation(mdp, np.eye(mdp.actions)[mdp.walk[0]])
        gap = certify(mdp, objective, poor, values, np.zeros(0), temperature=temperature)
        primal = np.vdot(poor, objective.reward)
        assert gap.duality_gap * max(1, abs(primal)) >= top - primal - 1e-9


@pytest.mark.parametrize("temperature", [0.0, 0.1])
def test_lifted_values_exceed_their_backup(temperature):
    found = 0
    for seed, size in itertools.product(range(40), (1e-8, 1e-3, 0.3)):
        mdp, objective = world(seed, 1.0)
        best = tacit.solve(mdp, objective, solver=SoftDual(0.1) if temperature else None)
        reward = np.where(mdp.choices, objective.reward, 0.0)
        values = best.values + size * np.random.default_rng(seed).normal(size=mdp.states)
        more = lift(mdp, reward, values, temperature)
        if more is None:
            continue
        found += 1
        utility = reward + mdp.dense() @ (values + more)
        utility = np.where(mdp.choices, utility, -np.inf)
        backed = soft_values(utility, temperature) if temperature else utility.max(axis=1)
        assert (backed <= values + more + 1e-12 * (1 + np.abs(values + more))).all()
    assert found > 30


@pytest.mark.parametrize("discount", [0.9, 1.0])
def test_a_solve_cut_short_says_so(discount):
    short = 0
    for seed in range(12):
        mdp, objective = world(seed, discount, constraints=2)
        rough = ColumnGeneration(max_steps=1).solve(mdp, objective, throw=False)
        want = by_program(mdp, objective)
        if rough.status is Status.CONVERGED:
            assert rough.value == pytest.approx(want, abs=1e-6)
        short += rough.status is Status.TOLERANCE_MISSED
        soft = SoftDual(max_steps=1).solve(mdp, objective, throw=False)
        done = SoftDual().solve(mdp, objective)
        close = np.allclose(soft.values, done.values, atol=1e-6)
        assert close or soft.status is not Status.CONVERGED
    assert short


def test_episodes_end_and_nobody_does_what_is_not_there():
    mdp, objective = world(2, 1.0)
    for policy in (tacit.solve(mdp, objective).policy, mdp.available / 3.0):
        policy = policy / np.maximum(policy.sum(axis=1, keepdims=True), 1e-300)
        seen = tacit.simulate(mdp, policy, trajectories=400, seed=1)
        assert seen.ended.all()
        assert mdp.ends[seen.final_states].all()
        assert mdp.available[seen.states, seen.actions].all()
        assert not mdp.ends[seen.states].any()
        counts = np.zeros((mdp.states, mdp.actions))
        np.add.at(counts, (seen.states, seen.actions), 1.0 / 400)
        want = visitation(mdp, policy)
        assert_allclose(counts[~mdp.ends], want[~mdp.ends], atol=6 * np.sqrt(want.sum() / 400))
    mixture = tacit.solve(*world(2, 1.0, constraints=1)).mixture
    assert tacit.simulate(mdp, mixture, trajectories=20).ended.all()


def test_faults_are_one_line():
    mdp, objective = world(0, 1.0)
    loop, _ = ring(0.0)
    stuck = np.array([[1.0, 0.0]] * 3 + [[0.0, 0.0]])
    with pytest.raises(tacit.InvalidModel, match=r"come to an end .* state 0 goes on for ever"):
        visitation(loop, stuck)
    with pytest.raises(tacit.InvalidModel, match="0 where an action is not available"):
        visitation(mdp, np.full((mdp.states, mdp.actions), 1 / 3))
    with pytest.raises(tacit.InvalidModel, match="0 where an action is not available"):
        tacit.simulate(mdp, np.full((mdp.states, mdp.actions), 1 / 3))
    started = tacit.MDP(mdp.transitions, np.eye(7)[6], 1.0, available=mdp.available)
    with pytest.raises(tacit.InvalidModel, match="initial gives state 6"):
        tacit.simulate(started, tacit.solve(mdp, objective).policy)
    assert list(itertools.chain(soft_values(np.array([[0.0, -np.inf]]), 0.1))) == [0.0]


def test_rounding_is_no_difference_between_the_actions_of_an_end():
    """Equal rows of features, summed in different orders by the library of linear algebra."""
    rng = np.random.default_rng(0)
    table = np.zeros((100, 7, 100))
    table[:, :, 0] = 1.0
    mdp = tacit.MDP(
        table, np.eye(100)[5], 0.9, available=np.repeat(np.arange(100)[:, None] % 3 > 0, 7, axis=1)
    )
    maps = rng.normal(size=(100, 7, 13))
    maps[mdp.ends] = maps[mdp.ends, :1]
    weights = rng.normal(size=13)
    objective = tacit.Features(maps).objective(weights)
    rounded = np.array(objective.reward)
    rounded[mdp.ends] = np.nextafter(rounded[mdp.ends], rng.choice([-9, 9], (34, 7)))
    for one in (objective, tacit.Objective(rounded)):
        assert tacit.solve(mdp, one).status is Status.CONVERGED
    rounded[0, 3] += 1e-6
    with pytest.raises(tacit.InvalidModel, match="state 0 has"):
        tacit.solve(mdp, tacit.Objective(rounded))
