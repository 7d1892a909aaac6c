"""Algorithm 1: its gradients, its rules for what the paper leaves open, and what it finds."""

import time
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import oracles
from experts import exact
from kinds import told
from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidDemonstrations, InvalidModel, NotConverged
from tacit.estimators import assembly
from tacit.estimators.paper.alternating import Alternating, estimate_of_round
from tacit.estimators.paper.projection import first_weights, gradients, stride
from tacit.estimators.paper.rounds import begin, history_of, next_round, run_start, solve_round
from tacit.estimators.paper.setting import LoopSetting
from tacit.forward.column_generation import ColumnGeneration
from tacit.forward.policies import favourites, visitation_recursion, with_favourites
from tacit.forward.simulation import simulate
from tacit.forward.soft_dual import SoftDual
from tacit.forward.solution import Status, certify
from tacit.forward.solve import solve
from tacit.inference.expectations import expectations, pull_back
from tacit.inference.findings import Kind
from tacit.model.mdp import MDP
from tacit.model.objective import Features, Objective
from tacit.recovery import Recovery, RecoveryStatus
from tacit.worlds import hill_grid
from tacit.worlds import random as random_world


def distance(first: np.ndarray, second: np.ndarray) -> float:
    """Total variation of two normalised visitations."""
    return 0.5 * float(np.abs(first / first.sum() - second / second.sum()).sum())


def demonstrated(world, *, trajectories: int = 100, steps: int = 300, solver=None, seed: int = 0):
    """The expert's solution, and demonstrations of it."""
    expert = solve(world.mdp, world.truth, solver=solver)
    walks = simulate(world.mdp, expert.policy, trajectories=trajectories, steps=steps, seed=seed)
    return expert, walks


def central(function, point: np.ndarray, step: float) -> np.ndarray:
    """Central differences of a scalar function."""
    moves = step * np.eye(len(point))
    return np.array([(function(point + m) - function(point - m)) / (2 * step) for m in moves])


# --- the gradients of eq. 11 ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_gradient_of_the_stated_likelihood_is_its_finite_differences(seed):
    # Eq. 10 with causal entropy: log Z is p0 . V_soft at temperature 1, the multipliers are given.
    world = random_world(seed, states=7, actions=3, constraints=2, discount=0.8)
    mdp, features = world.mdp, world.features
    rng = np.random.default_rng(seed)
    walks = simulate(mdp, rng.dirichlet(np.ones(3), 7), trajectories=9, steps=40, seed=seed)
    seen = expectations(mdp, features, walks)
    prices = np.array([0.7, 2.0])
    sizes = np.cumsum([len(part) for part in seen.means])[:-1]

    def lagrangian(weights: np.ndarray) -> np.ndarray:
        w_r, *w_c = np.split(weights, sizes)
        reward, costs = features.objective(w_r, w_c, [0.0, 0.0]).tables(mdp)
        return reward - np.tensordot(prices, costs, 1)

    def loss(weights: np.ndarray) -> float:
        w_r, *w_c = np.split(weights, sizes)
        values, _ = oracles.soft_values(mdp, lagrangian(weights), 1.0)
        spent = sum(p * w @ mean for p, w, mean in zip(prices, w_c, seen.costs, strict=True))
        return float(mdp.initial @ values - w_r @ seen.reward + spent)

    weights = rng.random(sum(len(part) for part in seen.means))
    _, policy = oracles.soft_values(mdp, lagrangian(weights), 1.0)
    reached = pull_back(features, oracles.policy_visitation(mdp, policy))
    found = np.concatenate(gradients(seen, reached, prices))
    # Central differences of a function solved to 1e-12, step 1e-5: off by 1e-7 at most.
    assert found == pytest.approx(central(loss, weights, 1e-5), abs=1e-6)


@pytest.mark.parametrize("solver", [SoftDual(temperature=0.003), ColumnGeneration()])
def test_with_calibrated_budgets_the_solved_problem_has_that_gradient(solver):
    # The multiplier is now the problem's own, and by the envelope theorem drops out.
    world = hill_grid(3, tightness=0.5).in_gauge
    mdp, features = world.mdp, world.features
    _, walks = demonstrated(world, solver=SoftDual(temperature=0.003))
    seen = expectations(mdp, features, walks)

    def solved(weights: np.ndarray):
        w_r, w_c = weights[:2], weights[2:]
        objective = features.objective(w_r, [w_c], [w_c @ seen.costs[0]])
        return solver.solve(mdp, objective)

    def loss(weights: np.ndarray) -> float:
        solution = solved(weights)
        dual = mdp.initial @ solution.values + solution.multipliers @ [weights[2:] @ seen.costs[0]]
        return float(dual - weights[:2] @ seen.reward)

    weights = np.array([0.45, 0.55, 0.1, 0.4, 0.3, 0.2])
    solution = solved(weights)
    assert solution.multipliers[0] > 0.01
    reached = pull_back(features, solution.visitation)
    found = np.concatenate(gradients(seen, reached, solution.multipliers))
    # Certified to 1e-9 and stepped by 1e-4: 1e-5 of gradients that are 0.01 to 0.1.
    assert found == pytest.approx(central(loss, weights, 1e-4), abs=3e-5)
    assert np.abs(found).max() > 3e-3


def finite_soft_policies(successor, reward, discount, steps):
    """[T, S, A] policies and V_1 [S] of the T-step soft recursion, deterministic dynamics."""
    values, policies = np.zeros(len(reward)), []
    for t in reversed(range(steps)):
        # Eq. 8 weighs step t by discount^t, and the temperature is 1 at every step.
        worth = discount**t * reward[:, None] + values[successor]
        best = worth.max(axis=1)
        values = best + np.log(np.exp(worth - best[:, None]).sum(axis=1))
        policies.append(np.exp(worth - values[:, None]))
    return np.array(policies[::-1]), values


@pytest.mark.parametrize("seed", range(3))
def test_gradient_agrees_with_every_trajectory_of_a_tiny_problem(seed):
    # Deterministic dynamics: the causal and the trajectory entropy are the same, and eq. 9 can be
    # summed over all 3^5 trajectories.
    rng = np.random.default_rng(seed)
    states, actions, steps, discount, price = 4, 3, 5, 0.7, 1.3
    successor = rng.integers(states, size=(states, actions))
    mdp = MDP(np.eye(states)[successor], np.eye(states)[0], discount)
    features = Features(rng.random((states, 2)), [rng.random((states, 2))])
    walks = simulate(mdp, np.full((states, actions), 1 / 3), trajectories=6, steps=steps, seed=seed)
    # Six trajectories of five steps: their sums, without tails, as the finite problem has none.
    powers = discount ** np.arange(steps)
    paths = walks.states.reshape(6, steps) if not mdp.absorbing.any() else None
    if paths is None:
        walks = simulate(
            mdp,
            np.full((states, actions), 1 / 3),
            trajectories=6,
            steps=steps,
            seed=seed,
            stop_when_absorbed=False,
        )
        paths = walks.states.reshape(6, steps)

    def sums(path) -> tuple[np.ndarray, np.ndarray]:
        return powers @ features.reward[path], powers @ features.costs[0][path]

    def visited(choice) -> list[int]:
        path = [0]
        for action in choice[:-1]:
            path.append(int(successor[path[-1], action]))
        return path

    every = [sums(visited(choice)) for choice in product(range(actions), repeat=steps)]
    empirical = [np.mean([sums(path)[block] for path in paths], axis=0) for block in range(2)]

    def log_partition(weights: np.ndarray) -> float:
        exponents = [weights[:2] @ r - price * weights[2:] @ c for r, c in every]
        return float(np.logaddexp.reduce(exponents))

    def loss(weights: np.ndarray) -> float:
        fit = weights[:2] @ empirical[0] - price * weights[2:] @ empirical[1]
        return log_partition(weights) - float(fit)

    weights = rng.random(4)
    table = features.reward @ weights[:2] - price * features.costs[0] @ weights[2:]
    policies, values = finite_soft_policies(successor, table, discount, steps)
    # The recursion sums the same exponentials.
    assert values[0] == pytest.approx(log_partition(weights), abs=1e-12)
    visits, total = np.eye(states)[0], np.zeros((states, actions))
    for t in range(steps):
        total += discount**t * visits[:, None] * policies[t]
        visits = np.bincount(
            successor.ravel(), weights=(visits[:, None] * policies[t]).ravel(), minlength=states
        )
    reached = pull_back(features, total)
    seen = expectations(mdp, features, walks)
    cut = [empirical[0] - seen.reward, empirical[1] - seen.costs[0]]  # tails, where absorbed
    found = gradients(seen, (reached[0] - cut[0], reached[1] - cut[1]), np.array([price]))
    assert np.concatenate(found) == pytest.approx(central(loss, weights, 1e-5), abs=1e-8)


def test_the_recursion_of_eq_5_makes_the_expectations_of_eq_6():
    world = hill_grid(0)
    policy = solve(world.mdp, world.truth, throw=False).policy
    finite = pull_back(world.features, visitation_recursion(world.mdp, policy, 400))
    exact = pull_back(world.features, oracles.policy_visitation(world.mdp, policy))
    for one, other in zip(finite, exact, strict=True):
        assert one == pytest.approx(other, rel=1e-12)  # 0.9^400 = 5e-19


# --- line by line ---------------------------------------------------------------------------------


def test_starts_are_positive_of_unit_norm_and_named_by_their_seed():
    world = hill_grid(0, tightness=0.5)
    seen = expectations(world.mdp, world.features, demonstrated(world)[1])
    for part in first_weights(seen, seed=3, start=0):
        assert np.linalg.norm(np.exp(part)) == pytest.approx(1.0)
        assert (np.exp(part) > 0).all()
    again, other = (first_weights(seen, seed=3, start=start) for start in (0, 1))
    assert (again[1] == first_weights(seen, seed=3, start=0)[1]).all()
    assert (again[1] != other[1]).all()


def test_one_published_round_by_hand():
    # A binding budget of 1, so that lines 4 to 11 all act.
    world = hill_grid(1, hill="as-written")
    mdp, features = world.mdp, world.features
    _, walks = demonstrated(world)
    seen = expectations(mdp, features, walks)
    rules = Alternating.published(seed=7, max_steps=2, step_size=4.0)
    history = rules.fit(mdp, features, walks, throw=False).history
    w_r, w_c = (np.exp(part) for part in first_weights(seen, seed=7, start=0))
    solution = ColumnGeneration().solve(mdp, features.objective(w_r, [w_c], [1.0]), throw=False)
    reached = pull_back(features, solution.visitation)
    price = 1.0 if solution.status is Status.INFEASIBLE else solution.multipliers[0]
    w_r = w_r * np.exp(-4.0 * (reached[0] - seen.reward))
    w_c = w_c * np.exp(-4.0 * price * (seen.costs[0] - reached[1]))
    assert history["reward_weights"][1] == pytest.approx(w_r / w_r.sum(), rel=1e-9)
    # Line 11 by its optimality: proportional to v exp(-mu b), and within the halfspace.
    new = history["cost_weights_0"][1]
    tilt = np.log(new) - np.log(w_c)
    slope = np.polyfit(reached[1], tilt, 1)
    assert np.polyval(slope, reached[1]) == pytest.approx(tilt, abs=1e-6)
    if reached[1].min() <= 1.0:
        assert new @ reached[1] <= 1.0 + 1e-9


def two_by_two():
    """Expectations of demonstrations in a model with two reward and two cost features."""
    mdp = MDP([[[1.0]]], [1.0], 0.5)
    walks = Demonstrations([0] * 80, [0] * 80, [0, 40, 80])
    return expectations(mdp, Features([[1.0, 2.0]], [[[0.25, 2.0]]]), walks)


@pytest.mark.parametrize("bound", ["policy", "demonstrations"])
def test_the_halfspace_is_that_of_whom_the_option_names(bound):
    seen = two_by_two()
    assert seen.costs[0] == pytest.approx([0.5, 4.0])
    reached = (seen.reward, np.array([4.0, 0.5]))
    rules = Alternating.published(bound=bound)
    taken = stride(
        seen,
        rules,
        logs=(np.log([0.5, 0.5]), np.log([0.5, 0.5])),
        reached=reached,
        prices=np.zeros(1),
        share=1.0,
    )
    weights = np.exp(taken.log_weights[1])
    normal = reached[1] if bound == "policy" else seen.costs[0]
    assert weights @ normal == pytest.approx(1.0)  # 2.25 before: the bound is active
    assert weights @ normal[::-1] > 2.0


def test_a_weight_too_small_to_show_its_change_is_still_pulled():
    seen = two_by_two()
    taken = stride(
        seen,
        Alternating(band=0.0),
        logs=(np.array([0.0, -60.0]), np.log([0.5, 0.5])),
        reached=(
            seen.reward + np.array([0.0, -1.0]),
            seen.costs[0],
        ),  # the second feature is wanted more
        prices=np.ones(1),
        share=0.5,
    )
    assert taken.change < 1e-12
    # One unit of 0 span (scale 1), times the step size of 5.
    assert taken.pull == pytest.approx(5.0)


def test_rounds_are_in_the_gauge_from_the_first_one_on():
    world = hill_grid(3, tightness=0.5)
    _, walks = demonstrated(world)
    rules = Alternating(band=0.0, starts=1, max_steps=3)
    history = rules.fit(world.mdp, world.features, walks, throw=False).history
    for t in range(3):
        w_r, w_c = history["reward_weights"][t], history["cost_weights_0"][t]
        assert w_r.sum() == pytest.approx(1.0)
        assert w_c.sum() == pytest.approx(1.0)
        objective = world.features.objective(w_r, [w_c], history["budgets"][t])
        again = ColumnGeneration().solve(world.mdp, objective)
        assert again.multipliers == pytest.approx(history["multipliers"][t], rel=1e-6)
        assert again.multipliers[0] > 0


def test_rounds_are_ranked_feasible_then_resting_then_matched_then_near():
    world = hill_grid(3, tightness=0.5)
    seen = expectations(world.mdp, world.features, demonstrated(world)[1])
    rules = Alternating(starts=1, max_steps=1)
    setting = LoopSetting(world.mdp, world.features, seen, rules)
    any_round, _ = next_round(setting, begin(setting, 0))

    def rank(infeasible, change, gap, distance):
        made = replace(
            any_round,
            infeasible=infeasible,
            weight_change=change,
            projected_gradient=0.0,
            feature_gap=gap,
            visitation_distance=distance,
        )
        return made.rank(1e-4, 0.03)

    ordered = [
        rank(False, 0.0, 0.02, 0.1),  # at rest, matched within the noise, nearest behaviour
        rank(False, 0.0, 0.01, 0.2),
        rank(False, 0.0, 0.04, 0.0),
        rank(False, 0.0, 0.05, 0.0),
        rank(False, 1.0, 0.01, 0.0),
        rank(True, 0.0, 0.0, 0.0),
    ]
    assert ordered == sorted(ordered)
    assert len(set(ordered)) == len(ordered)


@pytest.mark.parametrize("bound", ["policy", "demonstrations"])
def test_constraint_weights_stay_within_the_halfspace(bound):
    world = hill_grid(1, hill="as-written")
    _, walks = demonstrated(world)
    seen = expectations(world.mdp, world.features, walks)
    rules = Alternating.published(bound=bound, max_steps=40)
    history = rules.fit(world.mdp, world.features, walks, throw=False).history
    assert not history["empty"].any()
    if bound == "demonstrations":
        assert (history["cost_weights_0"][1:] @ seen.costs[0] <= 1.0 + 1e-9).all()
    assert history["cost_weights_0"].sum(axis=1) == pytest.approx(1.0)


def test_a_calibrated_budget_is_what_the_demonstrations_spend():
    world = hill_grid(2, tightness=0.5)
    _, walks = demonstrated(world)
    seen = expectations(world.mdp, world.features, walks)
    history = Alternating(starts=2).fit(world.mdp, world.features, walks, throw=False).history
    fitted = history["start"] >= 0
    spent = history["cost_weights_0"][fitted] @ seen.costs[0]
    budgets, raised = history["budgets"][fitted, 0], history["raised"][fitted]
    assert budgets[~raised] == pytest.approx(spent[~raised], rel=1e-9)
    assert (budgets[raised] >= spent[raised]).all()


# --- rules for what the paper leaves open ---------------------------------------------------------


def test_a_slack_budget_leaves_published_constraint_weights_where_they_are():
    world = hill_grid(0)  # budget 1 and the absolute hill: slack
    expert, walks = demonstrated(world)
    assert expert.multipliers[0] == 0
    recovery = Alternating.published().fit(world.mdp, world.features, walks, throw=False)
    weights = recovery.history["cost_weights_0"]
    idle = recovery.history["multipliers"][:, 0] == 0
    assert idle.all()
    assert weights == pytest.approx(np.tile(weights[0], (len(weights), 1)))
    assert recovery.multipliers[0] == 0
    assert np.isnan(recovery.cost_weights[0]).all()
    assert recovery.budgets[0] == np.inf
    assert not recovery.identification.active[0]
    assert told(recovery.identification.findings, Kind.SLACK, constraint=0)
    assert (recovery.objective.costs == 0).all()


def test_a_reward_that_explains_everything_needs_no_constraint():
    world = hill_grid(1)
    expert, walks = demonstrated(world)
    assert expert.multipliers[0] == 0
    recovery = Alternating().fit(world.mdp, world.features, walks)
    assert recovery.multipliers[0] == 0
    assert np.isnan(recovery.cost_weights[0]).all()
    assert distance(recovery.solution.visitation, expert.visitation) < 0.02
    assert told(recovery.identification.findings, Kind.INACTIVE, constraint=0)


def test_a_constraint_that_binds_by_chance_is_set_aside():
    # The budget of the truth is slack, but what the demonstrations spend is a budget that binds.
    world = hill_grid(1)
    mdp, features = world.mdp, world.features
    expert, walks = demonstrated(world)
    seen = expectations(mdp, features, walks)
    rules = Alternating()
    setting = LoopSetting(mdp, features, seen, rules)
    for start in range(12):
        last = run_start(setting, start, free=False).kept
        if last.converged(rules.tolerance) and last.multipliers[0] > 0:
            break
    assert last.multipliers[0] > 0
    found = estimate_of_round(setting, last, history_of([last.row]))
    recovery = assembly.recovery("", setting.mdp, setting.features, walks, found)
    assert recovery.multipliers[0] == 0
    assert recovery.solution.multipliers[0] == 0
    assert np.isnan(recovery.cost_weights[0]).all()
    assert told(recovery.identification.findings, Kind.INACTIVE)
    assert distance(recovery.solution.visitation, expert.visitation) < 0.05


def test_infeasible_rounds_are_counted_and_never_called_converged():
    # At discount 0.99 every policy spends more than 1, whatever the weights.
    world = hill_grid(0, discount=0.99, tightness=0.5)
    _, walks = demonstrated(world, trajectories=20)
    recovery = Alternating.published(max_steps=15).fit(
        world.mdp, world.features, walks, throw=False
    )
    infeasible = recovery.history["infeasible"]
    assert infeasible.any()
    # Line 7 uses multiplier 1 there.
    first = recovery.history["multipliers"][infeasible & (recovery.history["iteration"] > 0), 0]
    assert first == pytest.approx(1.0)
    assert told(recovery.identification.findings, Kind.NOTE, number=infeasible.sum())
    if infeasible.all():
        assert recovery.status is RecoveryStatus.NOT_CONVERGED
        assert np.isnan(recovery.multipliers).all()
        assert recovery.solution.status is Status.INFEASIBLE


def test_where_no_weights_meet_the_bound_the_simplex_alone_holds_them():
    mdp = MDP([[[1.0]]], [1.0], 0.9)  # one state: every weight spends at least 10
    walks = Demonstrations([0] * 50, [0] * 50, [0, 50])
    features = Features([[1.0, 2.0]], [[[1.0, 2.0]]])
    recovery = Alternating.published(max_steps=5).fit(mdp, features, walks, throw=False)
    assert (recovery.history["empty"] == 1).all()
    assert recovery.history["infeasible"].all()
    assert recovery.status is RecoveryStatus.NOT_CONVERGED
    empty = int((recovery.history["empty"] > 0).sum())
    assert told(recovery.identification.findings, Kind.NOTE, number=empty)


def test_budgets_are_raised_to_what_can_be_met():
    # The demonstrations stay in the cheap state all the time, which no policy can.
    likely, rare = [0.7, 0.3], [0.3, 0.7]
    mdp = MDP([[likely, rare], [likely, rare]], [0.5, 0.5], 0.9)
    walks = Demonstrations([0] * 300, [0] * 300, [0, 150, 300])
    features = Features([[0.0], [1.0]], [[[0.0], [1.0]]])
    recovery = Alternating(band=0.0, starts=1, max_steps=4).fit(mdp, features, walks, throw=False)
    assert recovery.history["raised"].all()
    assert not recovery.history["infeasible"].any()
    least, _, _ = oracles.best_policy(mdp, np.array([[0.0, 0.0], [-1.0, -1.0]]))
    assert recovery.budgets == pytest.approx([-least])
    assert told(recovery.identification.findings, Kind.UNATTAINABLE)


def test_an_oscillation_is_reported_and_the_best_round_kept():
    world = hill_grid(3, tightness=0.5)
    _, walks = demonstrated(world)
    rules = Alternating(budget="calibrated", step="constant", step_size=300.0, starts=1)
    recovery = rules.fit(world.mdp, world.features, walks, throw=False)
    assert recovery.status is RecoveryStatus.NOT_CONVERGED
    assert recovery.history["reversed"].mean() > 0.5
    assert told(recovery.identification.findings, Kind.NOT_CONVERGED)[0].about.number > 0.5
    feasible = ~recovery.history["infeasible"]
    best = recovery.history["feature_gap"][feasible].min()
    noise = recovery.certificate.sampling_noise
    assert recovery.certificate.feature_gap <= max(best, noise) + 1e-12


def test_cut_off_trajectories_are_matched_over_the_same_horizon():
    world = hill_grid(2, tightness=0.5)
    expert, walks = demonstrated(world, trajectories=400, steps=12)
    whole = Alternating(starts=3).fit(world.mdp, world.features, walks, throw=False)
    same = Alternating(starts=3, steps=12).fit(world.mdp, world.features, walks, throw=False)
    assert told(whole.identification.findings, Kind.TRUNCATED)
    assert not told(same.identification.findings, Kind.TRUNCATED)
    assert same.certificate.feature_gap < 0.5 * whole.certificate.feature_gap
    assert distance(same.solution.visitation, expert.visitation) < 0.1


# --- honesty --------------------------------------------------------------------------------------


def test_converged_means_that_every_expectation_is_matched():
    world = hill_grid(2, tightness=0.5)
    _, walks = demonstrated(world, steps=500)
    recovery = Alternating(starts=4).fit(world.mdp, world.features, walks)
    assert recovery.status is RecoveryStatus.CONVERGED
    seen = expectations(world.mdp, world.features, walks)
    solution = ColumnGeneration().solve(world.mdp, recovery.objective, guess=recovery.solution)
    reached = pull_back(world.features, solution.visitation)
    for r, mean, error in zip(reached, seen.means, seen.standard_errors, strict=True):
        assert (np.abs(r - mean) <= 2.5 * error + 1e-4).all()
    assert recovery.certificate.feature_gap == pytest.approx(seen.gap(reached), rel=1e-6)
    assert recovery.solution.status is Status.CONVERGED
    assert recovery.solution.multipliers == pytest.approx(recovery.multipliers, rel=1e-9)


def test_a_search_cut_short_does_not_say_converged():
    world = hill_grid(2, tightness=0.5)
    _, walks = demonstrated(world)
    rules = Alternating(max_steps=1, starts=1, band=0.0)
    with pytest.raises(NotConverged, match="before the tolerance") as caught:
        rules.fit(world.mdp, world.features, walks)
    kept = caught.value.result
    assert isinstance(kept, Recovery)
    assert kept.status is RecoveryStatus.NOT_CONVERGED
    assert kept.certificate.weight_change > rules.tolerance
    assert kept.reward_weights.sum() == pytest.approx(1.0)
    assert kept.cost_weights[0].sum() == pytest.approx(1.0)
    # The first round is off the gauge; what is handed back is not.
    assert kept.solution.multipliers == pytest.approx(kept.multipliers, rel=1e-9)
    assert kept.solution.value == pytest.approx(
        np.vdot(kept.solution.visitation, kept.objective.tables(world.mdp)[0])
    )


def test_a_rest_that_explains_nothing_is_a_local_optimum():
    # The published budget of 1 is slack under weights that sum to 1, although the expert's binds.
    world = hill_grid(0, tightness=0.5)
    _, walks = demonstrated(world)
    recovery = Alternating.published().fit(world.mdp, world.features, walks, throw=False)
    assert recovery.certificate.weight_change <= 1e-4
    assert recovery.certificate.feature_gap > 5 * recovery.certificate.sampling_noise
    assert recovery.status is RecoveryStatus.LOCAL_OPTIMUM
    assert told(recovery.identification.findings, Kind.MISFIT)


def test_a_vanishing_weight_that_should_grow_is_no_rest():
    world = hill_grid(2, tightness=0.5)
    _, walks = demonstrated(world)
    history = Alternating(starts=2).fit(world.mdp, world.features, walks, throw=False).history
    resting = (history["weight_change"] <= 1e-4) & (history["projected_gradient"] <= 1e-4)
    last = np.append(np.diff(history["start"]) != 0, True)
    # Only the last round of a start may rest, and the pull is never below what the change shows.
    assert not resting[~last].any()
    assert (history["projected_gradient"] >= -1e-15).all()


# --- what it finds --------------------------------------------------------------------------------


@pytest.mark.study
@pytest.mark.parametrize("hill", ["absolute", "as-written"])
def test_calibrated_budgets_recover_the_behaviour_of_the_paper_s_grids(hill):
    gaps, noises, distances, seconds = [], [], [], []
    # Five draws of the ten: the committed results of the reproduction hold all of them.
    for seed in range(5):
        world = hill_grid(seed, tightness=0.5, hill=hill)
        expert, walks = demonstrated(world, steps=2000, seed=seed)
        begun = time.process_time()
        recovery = Alternating().fit(world.mdp, world.features, walks, throw=False)
        seconds.append(time.process_time() - begun)
        gaps.append(recovery.certificate.feature_gap)
        noises.append(recovery.certificate.sampling_noise)
        distances.append(distance(recovery.solution.visitation, expert.visitation))
        assert recovery.status in (RecoveryStatus.CONVERGED, RecoveryStatus.NOT_CONVERGED)
    # The targets of the reproduction: prototypes reached 1.1 times the noise and 0.06.
    assert np.mean(gaps) <= 1.3 * np.mean(noises)
    assert np.mean(distances) <= 0.07
    assert np.median(seconds) < 2.0


@pytest.mark.parametrize("seed", range(10))
def test_exact_expectations_are_matched_exactly(seed):
    # Without sampling noise the demonstrator is optimal for its own weights, so the loop can rest
    # where its gradient is 0: the loss is 0 and every expectation is met.
    world = hill_grid(seed, tightness=0.5)
    expert = solve(world.mdp, world.truth)
    seen = exact(world.mdp, world.features, expert.visitation)
    rules = Alternating(band=0.0, starts=6, max_steps=300)
    best, _ = rules._best(LoopSetting(world.mdp, world.features, seen, rules))
    assert best.converged(rules.tolerance)
    assert (
        best.feature_gap <= 1e-4
    )  # a full step of 5 times the gap moves weights by less than 1e-4
    assert abs(best.loss) <= 1e-4 * np.abs(seen.reward).max()


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
def test_units_of_the_features_change_multipliers_and_budgets_only(scale):
    world = hill_grid(4, tightness=0.5)
    _, walks = demonstrated(world)
    rules = Alternating(starts=2, max_steps=60)
    one = rules.fit(world.mdp, world.features, walks, throw=False)
    cheaper = Features(world.features.reward, [scale * world.features.costs[0]])
    other = rules.fit(world.mdp, cheaper, walks, throw=False)
    assert other.reward_weights == pytest.approx(one.reward_weights, rel=1e-6)
    assert other.cost_weights[0] == pytest.approx(one.cost_weights[0], rel=1e-6)
    assert other.budgets == pytest.approx(scale * one.budgets, rel=1e-6)
    assert other.multipliers == pytest.approx(one.multipliers / scale, rel=1e-6)
    richer = Features(scale * world.features.reward, world.features.costs)
    other = rules.fit(world.mdp, richer, walks, throw=False)
    assert other.reward_weights == pytest.approx(one.reward_weights, rel=1e-6)
    assert other.multipliers == pytest.approx(scale * one.multipliers, rel=1e-6)


def test_a_noisy_expert_is_matched_by_the_soft_solver():
    world = hill_grid(3, tightness=0.5).in_gauge
    solver = SoftDual(temperature=0.0025)
    expert, walks = demonstrated(world, solver=solver, trajectories=400)
    recovery = Alternating(solver=solver, starts=3).fit(world.mdp, world.features, walks)
    assert recovery.temperature == 0.0025
    assert recovery.solution.temperature == 0.0025
    assert recovery.certificate.feature_gap <= 2 * recovery.certificate.sampling_noise
    assert distance(recovery.solution.visitation, expert.visitation) < 0.15


@pytest.mark.parametrize("constraints", [0, 2])
def test_any_number_of_constraints_on_state_action_features(constraints):
    world = random_world(
        1, states=10, actions=3, constraints=constraints, by_action=True,
        tightness=0.4 if constraints else None,
    )  # fmt: skip
    expert, walks = demonstrated(world, trajectories=200, steps=150)
    recovery = Alternating(starts=2).fit(world.mdp, world.features, walks, throw=False)
    assert recovery.multipliers.shape == (constraints,)
    assert len(recovery.cost_weights) == constraints
    assert recovery.identification.active.shape == (constraints,)
    assert recovery.certificate.feature_gap <= 3 * recovery.certificate.sampling_noise
    assert distance(recovery.solution.visitation, expert.visitation) < 0.15
    assert recovery.summary()


def test_the_same_seed_makes_the_same_recovery_whatever_the_order_of_trajectories():
    world = hill_grid(6, tightness=0.5)
    _, walks = demonstrated(world)
    rules = Alternating(starts=2, max_steps=40)
    one = rules.fit(world.mdp, world.features, walks, throw=False)
    again = rules.fit(world.mdp, world.features, walks, throw=False)
    assert (one.reward_weights == again.reward_weights).all()
    assert (one.history["feature_gap"] == again.history["feature_gap"]).all()
    shuffled = walks.select(np.random.default_rng(0).permutation(walks.episodes))
    other = rules.fit(world.mdp, world.features, shuffled, throw=False)
    assert other.reward_weights == pytest.approx(one.reward_weights, rel=1e-6)


def test_ties_go_to_what_was_demonstrated():
    # In a corner two moves into walls have the same consequences: only the demonstrations tell
    # which was made. This expert lives in the corner at the right, and bumps into one wall.
    world = hill_grid(4, tightness=0.5, hill="as-written")
    mdp, corner, twins = world.mdp, 4, (0, 3)
    assert mdp.dense()[corner, twins[0]] == pytest.approx(mdp.dense()[corner, twins[1]])
    for kept in twins:
        expert, _ = demonstrated(world)
        policy = expert.policy.copy()
        policy[corner] = np.eye(4)[kept]
        walks = simulate(mdp, policy, trajectories=100, steps=300)
        seen = expectations(mdp, world.features, walks)
        rules = Alternating(band=0.0, max_steps=30)
        other = sum(twins) - kept
        setting = LoopSetting(mdp, world.features, seen, rules)
        at = begin(setting, 0)
        while not at.over:
            made, at = next_round(setting, at)
            assert made.solution.policy[corner, other] == 0.0
            # Nothing else has changed: the arrays still make the certificate.
            w_r, w_c = made.weights
            objective = world.features.objective(w_r, [w_c], made.budgets)
            if made.iteration > 0:
                again = certify(
                    mdp,
                    objective,
                    made.solution.visitation,
                    made.solution.values,
                    made.solution.multipliers,
                )
                assert again.within(1e-8)
            mixed = sum(
                weight * oracles.policy_visitation(mdp, oracles.one_hot(taken, 4))
                for weight, taken in zip(
                    made.solution.mixture.weights, made.solution.mixture.policies, strict=True
                )
            )
            assert mixed == pytest.approx(made.solution.visitation, abs=1e-9)


def test_twins_that_differ_in_a_feature_are_told_apart():
    # The same moves, but one of them costs more: no longer the same consequences.
    mdp = MDP(np.ones((1, 2, 1)), [1.0], 0.5)
    taken = np.array([[0.0, 2.0]])
    alike, unlike = Features([[1.0]]), Features([[1.0]], [[[[0.0], [1.0]]]])
    assert favourites(mdp, alike, taken).tolist() == [[1, 1]]
    assert favourites(mdp, unlike, taken).tolist() == [[0, 1]]
    assert favourites(mdp, alike, np.zeros((1, 2))).tolist() == [[0, 1]]
    soft = SoftDual(temperature=1.0).solve(mdp, alike.objective([1.0]))
    assert with_favourites(soft, favourites(mdp, alike, taken)) is soft


# --- another update, another multiplier -----------------------------------------------------------


def test_both_updates_reach_the_optimum_where_it_is_unique():
    # A noisy expert known exactly: only its own weights match every expectation.
    world = random_world(
        0, states=6, actions=3, constraints=1, tightness=0.5, by_action=True
    ).in_gauge
    solver = SoftDual(temperature=0.3)
    expert = solve(world.mdp, world.truth, solver=solver)
    seen = exact(world.mdp, world.features, expert.visitation)
    for update, step_size in (("exponentiated", 30.0), ("projected", 10.0)):
        rules = Alternating(
            solver=solver, update=update, step_size=step_size, band=0.0, starts=1, max_steps=300
        )
        best, _ = rules._best(LoopSetting(world.mdp, world.features, seen, rules))
        assert best.converged(rules.tolerance)
        # Full steps that move a weight by less than 1e-4: the weights are that near, ten times.
        assert best.weights[0] == pytest.approx(world.reward_weights, abs=1e-3)
        assert best.weights[1] == pytest.approx(world.cost_weights[0], abs=1e-3)
        assert best.multipliers == pytest.approx(expert.multipliers, rel=1e-3)


@pytest.mark.parametrize("temperature", [0.0, 0.05])
def test_one_plus_nu_is_the_larger_of_one_and_the_optimal_multiplier(temperature):
    solver = SoftDual(temperature=temperature) if temperature else ColumnGeneration()
    text, usual = Alternating(solver, multiplier="at-least-one"), Alternating(solver)
    met = set()
    for seed, tightness in product(range(3), (0.2, 0.9)):
        world = random_world(seed, states=6, actions=3, constraints=1, tightness=tightness)
        mdp, features, truth = world.mdp, world.features, world.truth
        weights = (world.reward_weights, *world.cost_weights)
        guess = solve(mdp, truth, solver=solver)
        plain = LoopSetting(mdp, features, None, usual)  # what was seen does not matter here
        one, budgets, _ = solve_round(plain, weights, truth.budgets, np.zeros(1), guess=guess)
        assert budgets == pytest.approx(truth.budgets)
        raised = replace(plain, rules=text)
        two, lowered, _ = solve_round(raised, weights, truth.budgets, np.ones(1), guess=guess)
        assert two.multipliers == pytest.approx(np.maximum(one.multipliers, 1.0), rel=1e-6)
        objective = features.objective(weights[0], weights[1:], lowered)
        again = certify(
            mdp, objective, two.visitation, two.values, two.multipliers, temperature=temperature
        )
        assert again.within(1e-8)  # for the budget given back its price is optimal
        assert two.value == pytest.approx(np.vdot(two.visitation, truth.tables(mdp)[0]))
        met.add(bool(one.multipliers[0] > 1))
        if one.multipliers[0] > 1:
            assert lowered == pytest.approx(truth.budgets, rel=1e-9)
            assert two.value == pytest.approx(one.value, rel=1e-7)
        else:  # more is paid than the budget asks for: the best of reward less cost
            reward, costs = truth.tables(mdp)
            priced = solve(mdp, Objective(reward - costs[0]), solver=solver)
            assert two.policy == pytest.approx(priced.policy, abs=1e-6)
            assert lowered == pytest.approx(two.spent)
            assert lowered[0] <= truth.budgets[0] + 1e-9
    assert met == {True, False}


def test_with_one_plus_nu_the_weights_of_a_slack_budget_move():
    # The published budget of 1 is slack here: the algorithm's price of 0 leaves the weights alone.
    world = hill_grid(0, tightness=0.5)
    _, walks = demonstrated(world)
    seen = expectations(world.mdp, world.features, walks)
    moved = {}
    for multiplier in ("optimal", "at-least-one"):
        rules = Alternating.published(multiplier=multiplier)
        setting = LoopSetting(world.mdp, world.features, seen, rules)
        made, ahead = next_round(setting, begin(setting, 0))
        before = first_weights(seen, seed=0, start=0)
        steps = gradients(seen, made.reached, np.full(1, made.solution.multipliers[0]))
        expected = before[1] - rules.step_size * steps[1]
        moved[multiplier] = ahead.log_weights[1] - expected  # a constant: divided by their sum
        assert np.ptp(moved[multiplier]) < 1e-12
        assert made.multipliers[0] * np.exp(before[0]).sum() / np.exp(before[1]).sum() == (
            pytest.approx(0.0 if multiplier == "optimal" else 1.0)
        )
    rules = replace(rules, max_steps=20)
    found = rules.fit(world.mdp, world.features, walks, throw=False)
    assert found.multipliers[0] >= 1.0 - 1e-12
    assert found.budgets[0] < 1.0
    held = [f for f in told(found.identification.findings, Kind.NOTE) if f.about.constraint == 0]
    assert any(f.about.number == len(found.history) - 1 for f in held)


# --- options --------------------------------------------------------------------------------------


def test_words_are_choices_and_the_estimator_prints_as_its_call():
    rules = Alternating(budget="one", bound="demonstrations", step="constant")
    assert (rules.budget, rules.bound, rules.step) == ("one", "demonstrations", "constant")
    assert eval(repr(rules)) == rules
    published = Alternating.published()
    assert (published.budget, published.step) == ("one", "constant")
    assert published.bound == "policy"
    assert Alternating.published(bound="demonstrations").bound == "demonstrations"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": "two"}, "budget must be 'calibrated' or 'one'"),
        ({"update": "none"}, "update must be 'exponentiated' or 'projected'"),
        ({"multiplier": 1}, "multiplier must be 'optimal' or 'at-least-one'"),
        ({"step": "none"}, "step must be 'decaying' or 'constant'"),
        ({"step_size": 0.0}, "step_size"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"band": -1.0}, "band"),
        ({"starts": 0}, "starts"),
        ({"max_steps": 0}, "max_steps"),
        ({"steps": 0}, "steps must be at least 1"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(InvalidModel, match=message):
        Alternating(**options)


def test_loose_pairs_have_no_discounted_sums():
    world = hill_grid(0, tightness=0.5)
    _, walks = demonstrated(world, trajectories=2, steps=5)
    loose = Demonstrations(
        walks.states, walks.actions, walks.offsets, partial=np.ones(walks.episodes, bool)
    )
    with pytest.raises(InvalidDemonstrations, match="trajectories"):
        Alternating().fit(world.mdp, world.features, loose)


def test_one_trajectory_is_enough_to_run():
    world = hill_grid(0, tightness=0.5)
    _, walks = demonstrated(world, trajectories=1, steps=200)
    recovery = Alternating(starts=1, max_steps=20).fit(
        world.mdp, world.features, walks, throw=False
    )
    assert np.isnan(recovery.certificate.sampling_noise)
    assert np.isfinite(recovery.certificate.feature_gap)
