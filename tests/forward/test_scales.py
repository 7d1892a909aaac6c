"""Units are nobody's business: a cost of 1e-12 a step is kept like one of 1."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tacit
from tacit.forward.solution import Status, certify
from tacit.model.features.design import Design

WORLD = tacit.worlds.random(3, states=10, actions=3, constraints=2, features=3, tightness=0.5)
NOISE = 0.05


def solver(kind: str, unit: float = 1.0):
    return {
        "columns": tacit.ColumnGeneration(),
        "program": tacit.OccupancyLP(),
        "soft": tacit.SoftDual(temperature=NOISE * unit),
    }[kind]


def first(count: int) -> tacit.Objective:
    truth = WORLD.truth
    return tacit.Objective(truth.reward, truth.costs[:count], truth.budgets[:count])


@pytest.mark.parametrize("kind", ["columns", "program", "soft"])
@pytest.mark.parametrize("count", [1, 2])
def test_solutions_do_not_depend_on_the_units(kind, count):
    plain = first(count)
    found = tacit.solve(WORLD.mdp, plain, solver=solver(kind))
    assert (found.multipliers > 0).any()
    for gain, cost in ((1.0, 1e-9), (1.0, 1e-12), (1e-9, 1.0), (1e-7, 1e-12), (1e8, 1e9)):
        small = tacit.Objective(plain.reward * gain, plain.costs * cost, plain.budgets * cost)
        again = tacit.solve(WORLD.mdp, small, solver=solver(kind, gain))
        assert again.status is Status.CONVERGED
        # Numbers that a solver to 1e-9 (a linear program: 1e-7) may miss, in any unit alike.
        assert_allclose(again.spent / cost, found.spent, rtol=1e-6)
        assert again.value / gain == pytest.approx(found.value, rel=1e-6)
        assert_allclose(again.multipliers * cost / gain, found.multipliers, rtol=1e-4, atol=1e-6)
        assert_allclose(again.policy, found.policy, atol=1e-5)


def test_a_small_violation_of_a_small_budget_is_seen():
    plain, unit = first(1), 1e-12
    small = tacit.Objective(plain.reward, plain.costs * unit, plain.budgets * unit)
    reckless = tacit.solve(WORLD.mdp, tacit.Objective(plain.reward))
    numbers = [
        certify(WORLD.mdp, one, reckless.visitation, reckless.values, np.zeros(1))
        for one in (plain, small)
    ]
    assert numbers[0].violation > 0.01
    # In small units the scale is what can be spent, never 1.
    assert numbers[1].violation > 0.01


def test_a_proof_in_small_units_is_a_proof():
    plain = first(2)
    for unit in (1.0, 1e-11):
        budgets = plain.budgets * np.array([0.5, 1.0]) * unit
        small = tacit.Objective(plain.reward, plain.costs * unit, budgets)
        found = tacit.solve(WORLD.mdp, small, throw=False)
        assert found.status is Status.INFEASIBLE
        proof = found.infeasibility
        _, costs = small.tables(WORLD.mdp)
        table = np.tensordot(proof.weights, costs, 1)
        least = -tacit.solve(WORLD.mdp, tacit.Objective(-table / unit)).value * unit
        assert proof.least == pytest.approx(least, rel=1e-9)
        assert proof.allowed == pytest.approx(proof.weights @ budgets, rel=1e-9)
        assert proof.least > proof.allowed


@pytest.mark.parametrize("kind", ["columns", "program", "soft"])
def test_budgets_near_the_least_cost_end_alike_with_one_and_two(kind):
    reward, costs = WORLD.truth.tables(WORLD.mdp)
    least = -tacit.solve(WORLD.mdp, tacit.Objective(-costs[0])).value
    # On both sides of the room for rounding, 1e-12, not on its edge: there the last bit decides.
    for off in (-1e-6, -1e-8, -1e-10, -1e-11, -2e-12, -5e-13, 0.0, 1e-12, 1e-10, 1e-6):
        budget = least * (1.0 + off)
        problems = (
            tacit.Objective(reward, costs[:1], [budget]),
            tacit.Objective(reward, [costs[0], 0.5 * costs[0]], [budget, budget]),
        )
        one, two = (
            tacit.solve(WORLD.mdp, each, solver=solver(kind), throw=False) for each in problems
        )
        assert one.status is two.status, off
        assert one.status is not Status.TOLERANCE_MISSED


def test_two_solvers_agree_on_rewards_in_the_millions():
    """HiGHS stops at once where its tolerance is finer than the rounding of the numbers."""
    for seed in (25, 38, 46, 53):
        rng = np.random.default_rng(seed)
        mdp = tacit.MDP(rng.dirichlet(np.full(3, 0.5), size=(3, 2)), np.full(3, 1 / 3), 0.5)
        wanted = tacit.Objective(1e6 * rng.normal(size=(3, 2)), rng.random((1, 3, 2)), [1.1])
        found = [tacit.solve(mdp, wanted, solver=solver(kind)) for kind in ("columns", "program")]
        assert found[1].status is Status.CONVERGED
        assert found[0].value == pytest.approx(found[1].value, rel=1e-7)


def far_from_zero(shift: float, *, restricted: bool) -> tuple[tacit.MDP, tacit.Features]:
    """A world with features of states and of pairs, shifted by so many of their ranges."""
    mdp, features = WORLD.mdp, WORLD.features
    if restricted:
        available = np.ones((mdp.states, mdp.actions), bool)
        available[::3, 1] = False
        mdp = tacit.MDP(mdp.transitions, mdp.initial, mdp.discount, available=available)
    reward = np.random.default_rng(0).random((mdp.states, 3))
    maps = [reward, *features.costs]
    maps = [one + shift * np.ptp(one.reshape(-1, one.shape[-1]), axis=0) for one in maps]
    return mdp, tacit.Features(maps[0], maps[1:])


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize("shift", [1e3, -1e6])
def test_features_far_from_zero_are_fitted_like_those_near_it(shift, restricted, many, monkeypatch):
    mdp, near = far_from_zero(0.0, restricted=restricted)
    far = far_from_zero(shift, restricted=restricted)[1]
    theta = [np.array([2.0, 0.0, 1.0]), np.array([0.5, 0.5, 0.0]), np.zeros(3)]
    priced = near.objective(theta[0], theta[1:], np.zeros(2))
    gain = tacit.Objective(priced.tables(mdp)[0] - priced.tables(mdp)[1].sum(axis=0))
    policy = tacit.solve(mdp, gain, solver=tacit.SoftDual(temperature=1.0)).policy
    seen = tacit.simulate(mdp, policy, trajectories=40, steps=50, seed=0)
    if many:
        monkeypatch.setattr("tacit.likelihood.steps.MANY_FEATURES", 5)
    one, other = (
        tacit.recover(mdp, features, seen, estimator=tacit.Likelihood(), throw=False)
        for features in (near, far)
    )
    assert one.certificate.projected_gradient <= 1e-8
    assert one.status is other.status
    digits = max(1e-6, 1e-9 * abs(shift))  # a shift of a million ranges leaves ten digits of them
    assert_allclose(other.parameters.estimates, one.parameters.estimates, rtol=digits, atol=1e-6)
    assert_allclose(other.parameters.intervals, one.parameters.intervals, rtol=digits, atol=1e-5)
    # Each step costs as much more as the features were shifted.
    span = [np.ptp(table.reshape(-1, 3), axis=0) for table in near.costs]
    more = [shift * weights @ w for weights, w in zip(one.cost_weights, span, strict=True)]
    longer = np.array(more) / (1.0 - mdp.discount)
    kept = np.isfinite(one.budgets)
    assert kept.any()
    assert_allclose(other.budgets[kept], (one.budgets + longer)[kept], rtol=1e-6)
    assert other.solution.certificate.duality_gap <= 1e-6 * (1.0 + abs(other.solution.value))
    batch = tacit.many.recover_many(mdp, far, [seen], estimator=tacit.Likelihood())
    if not many:
        assert_allclose(batch.budgets[0][kept], other.budgets[kept], rtol=1e-3)


def test_where_episodes_end_a_shift_counts_their_steps():
    """There it does move actions, and is left as it is."""
    mdp, features = far_from_zero(1e3, restricted=False)
    available = np.ones((mdp.states, mdp.actions), bool)
    available[0] = False
    ended = tacit.MDP(mdp.transitions, mdp.initial, mdp.discount, available=available)
    assert ended.ends.any()
    assert (Design.of(mdp, features).offsets != 0).all()
    assert not Design.of(ended, features).offsets.any()
    assert np.abs(Design.of(mdp, features).tables).max() <= 0.5 + 1e-9
