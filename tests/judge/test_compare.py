"""The whole comparison: perfect for the truth in any gauge, and beside it what guessing gets."""

import dataclasses

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import oracles
import tacit
from strategies import Problem, examples, problems
from switch import TRUTH, TWO
from tacit.errors import Infeasible, InvalidModel
from tacit.judge import compare, sample_behaviours
from tacit.judge.outcomes import correlation
from tacit.worlds import published_figure
from tacit_lab.guesses import null_distribution, null_objectives
from tacit_lab.transfers import transfer

ERRORS = (
    "starc",
    "lagrangian_starc",
    "relative_regret",
    "violation",
    "relative_lagrangian_regret",
    "visitation_distance",
    "state_distance",
    "policy_distance",
)


def assert_perfect(comparison, tolerance, *, shaped=False):
    for name in ERRORS:
        assert abs(getattr(comparison, name)) <= tolerance, name
    assert (comparison.cost_starcs <= tolerance).all()
    assert (comparison.multiplier_errors <= tolerance * (1 + comparison.multipliers)).all()
    assert comparison.feasible_set.jaccard == comparison.feasible_set.balanced == 1.0
    assert shaped or comparison.costly_set.jaccard == 1.0  # the one that depends on shaping
    assert comparison.policy_agreement == pytest.approx(1.0) or comparison.temperature > 0


def few(mdp, seed=0):
    return sample_behaviours(mdp, vertices=6, combinations=30, seed=seed)


# --- by hand --------------------------------------------------------------------------------------


def test_a_recovery_that_misses_the_constraint_by_hand():
    # It stays in state 1: more reward than allowed, nothing lost at the true prices.
    found = compare(TWO, TRUTH, tacit.Objective([0, 2]))
    assert found.starc == 0.0
    # Canonical reward (-1, 1, 1, -1) / 4; with a third of the cost taken off
    # (-5, 5, 1, -1) / 24: unit vectors with product 12 / sqrt(4 * 52).
    assert found.lagrangian_starc == pytest.approx(0.5 * np.sqrt(2 - 24 / np.sqrt(208)))
    assert found.regret == pytest.approx(-1 / 6)
    assert found.relative_regret == pytest.approx(-1 / 6)
    assert found.violation == pytest.approx(1 / 2)
    np.testing.assert_allclose(found.excess, [1 / 2])
    assert found.lagrangian_regret == pytest.approx(0.0, abs=1e-12)
    price = np.sqrt(2 * 26 / 64) / 3 / 0.5
    np.testing.assert_allclose(found.multipliers, [price])
    assert found.recovered_multipliers.shape == (0,)
    np.testing.assert_allclose(found.multiplier_errors, [price])
    assert np.isnan(found.cost_starcs).all()
    assert np.isnan(found.cost_correlations).all()
    assert found.visitation_distance == pytest.approx(1 / 4)
    assert found.state_distance == pytest.approx(1 / 12)
    assert found.policy_agreement == 1.0
    assert found.policy_distance == pytest.approx(5 / 12 * 0.4)
    assert found.feasible_set.recovered_share == 1.0
    assert (found.costly_set.recall, found.costly_set.f1) == (0, 0)
    assert np.isnan(found.feature_gap.gap)
    assert np.isnan(found.log_likelihood)


def test_an_inactive_constraint_recovers_nothing_about_the_cost():
    # As a recovery reports one: a cost of 0 and no limit.
    found = compare(TWO, TRUTH, tacit.Objective([0, 1], [[0, 0]], [np.inf]))
    assert found.cost_starcs == pytest.approx([0.5])
    assert np.isnan(found.cost_correlations).all()
    np.testing.assert_array_equal(found.recovered_multipliers, [0.0])
    np.testing.assert_array_equal(found.multiplier_errors, found.multipliers)
    assert found.feasible_set.recovered_share == 1.0
    assert found.violation == pytest.approx(1 / 2)
    assert transfer(TWO, TRUTH, tacit.Objective([0, 1], [[0, 0]], [np.inf])).starc == 0.0


def test_a_recovery_that_wants_the_opposite_by_hand():
    # It never goes to state 1.
    found = compare(TWO, TRUTH, tacit.Objective([1, 0], [[[0, 0], [1, 0]]], [0.5]))
    assert found.starc == pytest.approx(1.0)
    assert found.reward_correlation == pytest.approx(-1.0)
    np.testing.assert_array_equal(found.cost_starcs, [0.0])
    np.testing.assert_allclose(found.cost_correlations, [1.0])
    assert found.regret == pytest.approx(5 / 6)
    assert found.violation == 0.0
    assert found.lagrangian_regret == pytest.approx(2 / 3)
    assert found.relative_lagrangian_regret == pytest.approx(1.0)
    assert found.visitation_distance == pytest.approx(1.0)
    assert found.feasible_set.jaccard == 1.0


def test_a_policy_given_is_the_one_judged():
    waits = np.array([[1.0, 0], [1, 0]])
    found = compare(TWO, TRUTH, TRUTH, recovered_policy=waits)
    assert found.starc == 0.0
    assert found.regret == pytest.approx(5 / 6)
    assert found.policy_agreement == pytest.approx(5 / 12)
    assert found.policy_distance == pytest.approx(0.75)
    assert found.visitation_distance == pytest.approx(1.0)
    np.testing.assert_array_equal(found.multiplier_errors, [0.0])


# --- the truth in any gauge -----------------------------------------------------------------------


@given(problems(max_states=10, max_actions=4, max_discount=0.99))
@examples(40)
def test_the_truth_compared_with_itself_is_perfect(problem):
    mdp, truth = problem.mdp, problem.objective
    found = compare(mdp, truth, truth, behaviours=few(mdp))
    # One solve, one set of arrays: what is left is the solve's own 1e-9.
    assert_perfect(found, 1e-7)
    assert found.regret == 0.0


@given(st.integers(0, 10**6), st.integers(2, 8), st.sampled_from([0.3, 0.9, 0.95]))
@examples(40)
def test_the_truth_in_another_gauge_is_perfect(seed, states, discount):
    # Full support and budgets between two policies': one behaviour, one price is optimal.
    problem = Problem(seed, states, 3, 1 + seed % 2, discount, "dense", 0.7)
    mdp, truth = problem.mdp, problem.objective
    reward, costs = truth.tables(mdp)
    rng = np.random.default_rng([problem.seed, 8])

    def moved(table):
        potential = rng.normal(size=mdp.states)
        return table + mdp.discount * mdp.dense() @ potential - potential[:, None], (
            -mdp.initial @ potential
        )

    units = rng.uniform(0.2, 5, size=len(costs))
    shaped = [moved(cost) for cost in costs]
    other = tacit.Objective(
        7.0 * moved(reward)[0],
        [unit * table for unit, (table, _) in zip(units, shaped, strict=True)],
        units * (truth.budgets + [shift for _, shift in shaped]),
    )
    found = compare(mdp, truth, other, behaviours=few(mdp))
    # Two solves of one problem to 1e-9, their difference divided by gaps and widths.
    assert_perfect(found, 1e-5, shaped=True)


def test_scalars_are_the_fields_and_the_worst_constraint():
    world = tacit.worlds.random(1, states=8, constraints=2, tightness=0.5)
    guess = null_objectives(world.features, tacit.solve(world.mdp, world.truth).visitation)[0]
    found = compare(world.mdp, world.truth, guess.objective, behaviours=few(world.mdp))
    row = found.scalars()
    assert row["multiplier_error"] == found.multiplier_errors.max()
    assert row["cost_correlation"] == found.cost_correlations.min()
    assert row["cost_starc"] == found.cost_starcs.max()
    assert row["feasible_jaccard"] == found.feasible_set.jaccard
    for field in dataclasses.fields(found):
        if field.name in row and field.name != "feature_gap":
            np.testing.assert_equal(row[field.name], getattr(found, field.name))
    assert all(isinstance(number, float) for number in row.values())
    # Distances are in range for a guess, too, and a guess is no truth.
    for name in ERRORS[:2] + ERRORS[5:]:
        assert 0 < getattr(found, name) <= 1, name
    assert -1 <= found.relative_regret <= 1
    assert 0 < found.relative_lagrangian_regret <= 1
    assert "starc=" in repr(found)


def test_no_constraint_one_state_and_no_discount():
    alone = tacit.MDP([[[1.0], [1.0]]], [1.0], 0.0)
    truth = tacit.Objective([[1.0, 0.0]])
    assert_perfect(compare(alone, truth, truth), 1e-12)
    wrong = compare(alone, truth, tacit.Objective([[0.0, 1.0]]))
    assert wrong.relative_regret == 1.0
    assert wrong.starc == pytest.approx(1.0)
    indifferent = compare(alone, tacit.Objective([[2.0, 2.0]]), truth)
    assert indifferent.starc == pytest.approx(0.5)
    assert indifferent.relative_regret == 0.0


def test_an_infeasible_recovery_is_judged_by_its_least_violation_and_says_so():
    strict = tacit.Objective(TRUTH.reward, TRUTH.costs, [-0.5])
    found = compare(TWO, TRUTH, strict)
    assert found.recovered_status is tacit.Status.INFEASIBLE
    assert found.status is tacit.Status.CONVERGED
    assert found.violation == 0.0
    with pytest.raises(Infeasible):
        compare(TWO, strict, TRUTH)


def test_a_solution_of_another_problem_is_refused():
    unconstrained = tacit.solve(TWO, tacit.Objective([0, 1]))
    with pytest.raises(InvalidModel, match="true_solution must solve the true objective"):
        compare(TWO, TRUTH, TRUTH, true_solution=unconstrained)
    with pytest.raises(InvalidModel, match="recovered_solution must solve"):
        compare(TWO, TRUTH, TRUTH, recovered_solution=unconstrained)
    with pytest.raises(InvalidModel, match="policy must"):
        compare(TWO, TRUTH, TRUTH, recovered_policy=[[1, 1], [1, 0]])


def test_solutions_given_are_the_ones_used():
    world = tacit.worlds.random(3, states=8, tightness=0.5)
    solution = tacit.solve(world.mdp, world.truth)
    behaviours = few(world.mdp)
    given_ = compare(
        world.mdp,
        world.truth,
        world.truth,
        true_solution=solution,
        recovered_solution=solution,
        behaviours=behaviours,
    )
    assert given_.scalars() == pytest.approx(
        compare(world.mdp, world.truth, world.truth, behaviours=behaviours).scalars(), nan_ok=True
    )
    best = tacit.solve(world.mdp, tacit.Objective(world.truth.reward)).policy
    reckless = dataclasses.replace(
        solution, policy=best, visitation=oracles.policy_visitation(world.mdp, best)
    )
    found = compare(
        world.mdp, world.truth, world.truth, recovered_solution=reckless, behaviours=behaviours
    )
    assert found.violation > 0.01
    assert found.regret < -1e-3


# --- noisy experts and demonstrations -------------------------------------------------------------


def test_a_noisy_expert_is_solved_at_its_temperature():
    world = tacit.worlds.hill_grid(1, tightness=0.5)
    solver = tacit.SoftDual(temperature=0.002)
    expert = tacit.solve(world.mdp, world.truth, solver=solver)
    seen = tacit.simulate(world.mdp, expert.policy, trajectories=20, steps=200)
    options = {"features": world.features, "demonstrations": seen, "behaviours": few(world.mdp)}
    same = compare(world.mdp, world.truth, world.truth, solver=solver, **options)
    assert_perfect(same, 1e-6)
    assert same.temperature == 0.002
    assert np.isnan(same.policy_agreement)
    assert same.log_likelihood == same.true_log_likelihood
    assert -np.log(4) < same.log_likelihood < 0
    assert 0 < same.feature_gap.gap < 4 * same.feature_gap.noise
    # Judged as if it were exact, the same expert looks wrong, and its steps impossible.
    exact = compare(world.mdp, world.truth, world.truth, true_solution=expert, **options)
    assert exact.visitation_distance > 0.1
    assert exact.lagrangian_regret > 1e-4
    assert exact.log_likelihood == -np.inf
    assert exact.true_log_likelihood == same.true_log_likelihood


# --- transfer -------------------------------------------------------------------------------------


def test_transfer_to_another_start_is_a_comparison_there():
    world = tacit.worlds.random(4, states=8, tightness=0.5)
    start = tacit.MDP(world.mdp.transitions, np.eye(8)[3], world.mdp.discount)
    recovered = tacit.Objective(world.truth.costs[0], world.truth.costs, world.truth.budgets + 1)
    moved = transfer(start, world.truth, recovered, budget_factors=1.2, seed=3)
    by_hand = compare(
        start,
        tacit.Objective(world.truth.reward, world.truth.costs, 1.2 * world.truth.budgets),
        tacit.Objective(recovered.reward, recovered.costs, 1.2 * recovered.budgets),
        seed=3,
    )
    assert moved.scalars() == pytest.approx(by_hand.scalars(), nan_ok=True)


def test_a_right_constraint_carries_over_to_a_new_reward_and_a_new_budget():
    # The reward was not recovered, the constraint was, in a unit of its own.
    world = tacit.worlds.random(4, states=8, tightness=0.5)
    recovered = tacit.Objective(-world.truth.reward, 7 * world.truth.costs, 7 * world.truth.budgets)
    assert compare(world.mdp, world.truth, recovered, behaviours=few(world.mdp)).starc > 0.99
    task = np.random.default_rng(0).random((8, 3))
    moved = transfer(world.mdp, world.truth, recovered, reward=task, budget_factors=[1.1])
    assert_perfect(moved, 1e-7)
    wrong = tacit.Objective(
        world.truth.reward, world.truth.costs.max() - world.truth.costs, world.truth.budgets
    )
    failed = transfer(world.mdp, world.truth, wrong, reward=task, budget_factors=[1.1])
    assert failed.relative_lagrangian_regret > 1e-3
    assert failed.starc == 0.0  # the rewards are the new task's


# --- what guessing gets ---------------------------------------------------------------------------


def test_guesses_are_flat_on_the_simplex_and_spend_what_the_expert_spends():
    world = tacit.worlds.random(5, states=8, constraints=2, features=3, tightness=0.5)
    expert = tacit.solve(world.mdp, world.truth)
    guesses = null_objectives(world.features, expert.visitation, draws=2000, seed=2)
    for guess in guesses[:20]:
        _, costs = guess.objective.tables(world.mdp)
        spent = np.tensordot(costs, expert.visitation, 2)
        np.testing.assert_allclose(guess.objective.budgets, spent, rtol=1e-12)
        made = world.features.objective(guess.reward_weights, guess.cost_weights, spent)
        np.testing.assert_array_equal(made.reward, guess.objective.reward)
        np.testing.assert_array_equal(made.costs, guess.objective.costs)
    for weights in (
        np.stack([guess.reward_weights for guess in guesses]),
        np.stack([guess.cost_weights[1] for guess in guesses]),
    ):
        assert (weights >= 0).all()
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-12)
        # A flat Dirichlet: each weight has distribution function 1 - (1 - x)^2; mean 1/3 and
        # standard deviation sqrt(2/36); five standard errors of 2000 draws.
        np.testing.assert_allclose(weights.mean(axis=0), 1 / 3, atol=5 * np.sqrt(2 / 36 / 2000))
        below = (weights <= 0.1).mean(axis=0)
        np.testing.assert_allclose(below, 0.19, atol=5 * np.sqrt(0.19 * 0.81 / 2000))
    # The first ones stay when more are asked for; another seed names others.
    again = null_objectives(world.features, expert.visitation, draws=3, seed=2)
    for one, other in zip(again, guesses, strict=False):
        np.testing.assert_array_equal(one.objective.costs, other.objective.costs)
    fresh = null_objectives(world.features, expert.visitation, draws=1, seed=3)[0]
    assert not np.array_equal(fresh.reward_weights, guesses[0].reward_weights)
    with pytest.raises(InvalidModel, match="draws must be at least 1"):
        null_objectives(world.features, expert.visitation, draws=0)


def test_the_null_distribution_holds_every_metric_and_the_truth_beats_it():
    world = tacit.worlds.hill_grid(2, tightness=0.5)
    expert = tacit.solve(world.mdp, world.truth)
    seen = tacit.simulate(world.mdp, expert.policy, trajectories=10, steps=100)
    behaviours = sample_behaviours(world.mdp, features=world.features, vertices=32)
    null = null_distribution(
        world.mdp,
        world.features,
        world.truth,
        draws=30,
        seed=4,
        reward_weights=world.reward_weights,
        cost_weights=world.cost_weights,
        demonstrations=seen,
        behaviours=behaviours,
    )
    truth = compare(
        world.mdp,
        world.truth,
        world.truth,
        features=world.features,
        demonstrations=seen,
        behaviours=behaviours,
    ).scalars()
    assert null.values.shape == (30, len(null.names))
    assert set(null.names) == {*truth, "reward_weight_error", "cost_weight_error"}
    for name in ("starc", "lagrangian_regret", "visitation_distance", "feature_gap"):
        # A guess may be lucky, above all against the noise of few demonstrations.
        assert null.share_below(name, truth[name]) <= (0.3 if name == "feature_gap" else 0.1), name
        assert null.quantile(name, 0.1) <= null.quantile(name) <= null.quantile(name, 0.9)
        assert null.quantile(name) == np.sort(null.of(name))[14]
    assert (null.of("feasible_jaccard") < 1).any()
    assert null.share_below("starc", null.of("starc").max()) == 1.0
    # One row by hand: the third guess.
    guess = null_objectives(world.features, expert.visitation, draws=3, seed=4)[2]
    third = compare(world.mdp, world.truth, guess.objective, behaviours=behaviours)
    assert null.of("starc")[2] == third.starc
    assert null.of("feasible_balanced")[2] == third.feasible_set.balanced
    error = np.abs(guess.reward_weights - world.reward_weights).sum()
    assert null.of("reward_weight_error")[2] == pytest.approx(error)
    with pytest.raises(InvalidModel, match="no metric 'nonsense'"):
        null.of("nonsense")


def test_random_weights_correlate_on_the_published_grid():
    # Why correlation alone says little: a guess has a high one, too.
    world = published_figure()
    guesses = null_objectives(world.features, np.full((25, 4), 0.1), draws=400)
    rewards = [correlation(world.truth.reward, g.objective.reward) for g in guesses]
    costs = [correlation(world.truth.costs[0], g.objective.costs[0]) for g in guesses]
    assert np.median(rewards) > 0.85
    assert np.median(costs) > 0.85


def test_undefined_metrics_have_no_quantile():
    world = tacit.worlds.random(6, states=5, constraints=0)
    null = null_distribution(world.mdp, world.features, world.truth, draws=2)
    assert np.isnan(null.quantile("multiplier_error"))
    assert null.quantile("violation") == 0.0
    assert "cost_weight_error" not in null.names
