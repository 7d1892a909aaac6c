"""The certificate: what it must say, recomputed from its definitions, and what it must not hide."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from strategies import Problem, examples, policies, problems
from tacit.forward.solution import Certificate, certify
from tacit.model.mdp import MDP
from tacit.model.objective import Objective

NUMBERS = ("flow_residual", "violation", "duality_gap", "slackness")


def arbitrary(problem: Problem, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A policy's visitation, any values, any multipliers >= 0, none of them good."""
    rng = np.random.default_rng(seed)
    visitation = oracles.policy_visitation(problem.mdp, policies(problem))
    values = rng.normal(scale=3.0, size=problem.states) / (1 - problem.discount)
    multipliers = rng.exponential(size=problem.constraints)
    multipliers *= rng.integers(2, size=problem.constraints)
    return visitation, values, multipliers


@given(problems(max_states=12), st.integers(0, 2**20), st.sampled_from([0.0, 0.01, 1.0]))
@examples(80)
def test_it_equals_the_recomputation_on_arbitrary_arrays(problem, seed, temperature):
    mdp, objective = problem.mdp, problem.objective
    visitation, values, multipliers = arbitrary(problem, seed)
    rng = np.random.default_rng(seed)
    visitation = visitation * rng.uniform(0.5, 1.5, visitation.shape)  # no longer a flow
    budgets = np.where(rng.random(problem.constraints) < 0.3, np.inf, objective.budgets)
    multipliers[np.isinf(budgets)] = 0.0
    objective = dataclasses.replace(objective, budgets=budgets)
    certificate = certify(mdp, objective, visitation, values, multipliers, temperature=temperature)
    expected = oracles.recomputed_certificate(
        mdp, objective, visitation, values, multipliers, temperature=temperature
    )
    for name in NUMBERS:
        # Both sum at most 60 x 6 terms whose size is bounded by the largest value.
        size = 1.0 + np.abs(values).max() * (1 + 1 / (1 - problem.discount))
        assert getattr(certificate, name) == pytest.approx(
            expected[name], rel=1e-9, abs=1e-13 * size
        ), name
    assert isinstance(certificate.duality_gap, float)


@given(problems(max_states=12), st.integers(0, 2**20))
@examples(60)
def test_weak_duality_holds_for_any_values_and_any_multipliers(problem, seed):
    mdp, objective = problem.mdp, problem.objective
    reward, _ = objective.tables(mdp)
    visitation, values, multipliers = arbitrary(problem, seed)
    optimum = oracles.occupancy_program(mdp, objective).value
    certificate = certify(mdp, objective, visitation, values, multipliers)
    primal = float((visitation * reward).sum())
    reach = float(np.abs(reward).max()) / (1.0 - mdp.discount)
    bound = primal + certificate.duality_gap * oracles.certificate_scale(primal, reach)
    # The oracle vouches for its optimum to 2e-8.
    assert bound >= optimum - 1e-7 * max(1.0, abs(optimum))


@given(problems(max_states=10, max_discount=0.99), st.integers(0, 2**20), st.floats(0.01, 2.0))
@examples(40)
def test_soft_weak_duality_holds_for_any_policy_and_any_values(problem, seed, temperature):
    mdp = problem.mdp
    reward, costs = problem.objective.tables(mdp)
    visitation, values, multipliers = arbitrary(problem, seed)
    # Budgets at what the policy spends make it feasible: then no dual may lie below it.
    spent = np.einsum("ksa,sa->k", costs, visitation)
    objective = Objective(reward, costs, spent)
    certificate = certify(mdp, objective, visitation, values, multipliers, temperature=temperature)
    assert certificate.violation <= 1e-12  # two sums of the same terms
    assert certificate.duality_gap >= -1e-9
    soft, boltzmann = oracles.soft_values(mdp, reward, temperature)
    free = certify(
        mdp,
        Objective(reward),
        oracles.policy_visitation(mdp, boltzmann),
        soft,
        np.zeros(0),
        temperature=temperature,
    )
    # Zero at the optimum: value iteration stopped at 1e-13 of the values' size.
    assert free.within(1e-9)


@given(problems(max_states=12))
@examples(40)
def test_it_vanishes_at_the_optimum_of_the_program(problem):
    mdp, objective = problem.mdp, problem.objective
    optimum = oracles.occupancy_program(mdp, objective)
    _, values, _ = oracles.best_policy(mdp, oracles.lagrangian(mdp, objective, optimum.multipliers))
    certificate = certify(mdp, objective, optimum.visitation, values, optimum.multipliers)
    # The oracle's own accuracy, 2e-8 on the gap.
    assert certificate.within(1e-7)


def closed_form() -> tuple[MDP, Objective]:
    """Two actions in one state: 1 a step at cost 1, or nothing at no cost; budget 4 of 10."""
    mdp = MDP(np.ones((1, 2, 1)), [1.0], 0.9)
    return mdp, Objective([[1.0, 0.0]], [[[1.0, 0.0]]], [4.0])


def test_by_hand():
    mdp, objective = closed_form()
    # Optimal: cost 4, reward 4, price 1, and with that price nothing is worth anything.
    best = certify(mdp, objective, np.array([[4.0, 6.0]]), np.zeros(1), np.ones(1))
    assert best.within(1e-15)
    # Spend 5: one over a budget of 4, slack -1 at price 1 on the scale of the value 5. The dual is
    # still 4, so the gap is negative: the value is bought by the violation, and is not hidden.
    over = certify(mdp, objective, np.array([[5.0, 5.0]]), np.zeros(1), np.ones(1))
    assert over == Certificate(0.0, 0.25, pytest.approx(-0.2), pytest.approx(0.2))
    # Spend nothing at price 0: values 10, gap 10 - 0 on the scale 1.
    idle = certify(mdp, objective, np.array([[0.0, 10.0]]), np.array([10.0]), np.zeros(1))
    assert idle == Certificate(0.0, 0.0, pytest.approx(10.0), 0.0)
    # Values too low by 1: their Bellman residual is 0.1 a step, worth 1 in all, so nothing changes.
    low = certify(mdp, objective, np.array([[0.0, 10.0]]), np.array([9.0]), np.zeros(1))
    assert low.duality_gap == pytest.approx(10.0)
    # Values too high by 1 are feasible for the dual, and cost 1.
    high = certify(mdp, objective, np.array([[0.0, 10.0]]), np.array([11.0]), np.zeros(1))
    assert high.duality_gap == pytest.approx(11.0)
    # A visitation that is one per cent too large creates 0.1 of flow in every unit of time.
    flow = certify(mdp, objective, np.array([[4.04, 6.06]]), np.zeros(1), np.ones(1))
    assert flow.flow_residual == pytest.approx(0.01)


def test_by_hand_with_entropy():
    mdp, _ = closed_form()
    # Two equal actions, temperature 2: the value is 2 log 2 a step, the policy uniform.
    objective = Objective([[0.0, 0.0]])
    values = np.array([20 * np.log(2)])
    best = certify(mdp, objective, np.array([[5.0, 5.0]]), values, np.zeros(0), temperature=2.0)
    assert best.within(1e-14)
    # A deterministic policy has no entropy: all of it is missing.
    idle = certify(mdp, objective, np.array([[0.0, 10.0]]), values, np.zeros(0), temperature=2.0)
    assert idle.duality_gap == pytest.approx(20 * np.log(2))


def test_violation_is_relative_to_budgets_above_one_and_takes_the_worst():
    mdp = MDP(np.ones((1, 1, 1)), [1.0], 0.9)
    costs = np.array([1.0, 100.0, -1.0])[:, None, None]
    objective = Objective([[0.0]], costs, [9.5, 500.0, -10.5])
    certificate = certify(mdp, objective, np.array([[10.0]]), np.zeros(1), np.zeros(3))
    assert certificate.violation == pytest.approx(1.0)  # (1000 - 500) / 500
    objective = Objective([[0.0]], costs, [9.5, 1000.0, -10.5])
    certificate = certify(mdp, objective, np.array([[10.0]]), np.zeros(1), np.zeros(3))
    assert certificate.violation == pytest.approx(0.5 / 9.5)


def test_mass_below_zero_is_not_hidden():
    mdp, objective = closed_form()
    # The state total is right, so the flow alone would not notice.
    certificate = certify(mdp, objective, np.array([[-1.0, 11.0]]), np.zeros(1), np.ones(1))
    assert certificate.flow_residual >= 1.0 - 1e-12
    assert not certificate.within(1e-6)


def test_prices_below_zero_prove_nothing():
    mdp, objective = closed_form()
    certificate = certify(mdp, objective, np.array([[4.0, 6.0]]), np.zeros(1), np.array([-1.0]))
    assert certificate.duality_gap == np.inf
    assert not certificate.within(1e9)


def test_an_unlimited_budget_has_no_price():
    mdp, _ = closed_form()
    objective = Objective([[1.0, 0.0]], [[[1.0, 0.0]]], [np.inf])
    free = certify(mdp, objective, np.array([[10.0, 0.0]]), np.array([10.0]), np.zeros(1))
    assert free.within(1e-14)
    priced = certify(mdp, objective, np.array([[10.0, 0.0]]), np.zeros(1), np.ones(1))
    assert not priced.within(1e-6)
    assert priced.duality_gap == np.inf


@pytest.mark.parametrize("spoilt", range(3))
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_nan_certifies_nothing(spoilt, temperature):
    mdp = MDP(np.full((2, 2, 2), 0.5), [1.0, 0.0], 0.9)
    objective = Objective(np.ones((2, 2)), np.ones((1, 2, 2)), [20.0])
    worth = 10.0 * (1.0 + temperature * np.log(2))
    visitation = oracles.policy_visitation(mdp, np.full((2, 2), 0.5))
    arrays = [visitation, np.full(2, worth), np.zeros(1)]
    assert certify(mdp, objective, *arrays, temperature=temperature).within(1e-12)
    arrays[spoilt][-1] = np.nan
    assert not certify(mdp, objective, *arrays, temperature=temperature).within(1e9)


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_counts(name):
    good = Certificate(0.0, 0.0, 0.0, 0.0)
    assert good.within(0.0)
    bad = dataclasses.replace(good, **{name: 2e-6})
    assert not bad.within(1e-6)
    assert bad.within(3e-6)
    assert not dataclasses.replace(good, **{name: float("nan")}).within(np.inf)
    assert not dataclasses.replace(good, duality_gap=-2e-6).within(1e-6)
