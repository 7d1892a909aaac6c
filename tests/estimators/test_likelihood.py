"""The step likelihood: optimality, invariances, what it refuses to claim, and bad days."""

import dataclasses
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.stats import norm

import experts
import oracles
import tacit
from experts import PRICE, drawn, grid, hill_expert, pairs, policy_of, spread_visits, tangle
from kinds import told
from refusals import refusal
from tacit import MDP, Demonstrations, Features, SoftDual
from tacit.cli import main
from tacit.engine.backends import backend_of
from tacit.estimators.likelihood import Likelihood
from tacit.folders.runs import Run
from tacit.inference.expectations import pull_back
from tacit.inference.findings import Kind
from tacit.likelihood.protocol import LARGEST
from tacit.likelihood.rescue import is_boundless
from tacit.likelihood.start import maximum
from tacit.likelihood.steps import StepsChain
from tacit.model.features.design import Design
from tacit.recovery import RecoveryStatus
from tacit.search.operators import Matrices
from tacit.search.smooth_dual import point_at
from tacit.show.quantities import NamedRecovery
from tacit.show.report import headlines

DONE = (RecoveryStatus.CONVERGED, RecoveryStatus.LOCAL_OPTIMUM)


def fit(seen, world=None, **options):
    world = grid() if world is None else world
    return Likelihood(**options).fit(world.mdp, world.features, seen)


sampled = partial(experts.sampled, trajectories=50, steps=400)


@pytest.fixture(scope="module")
def seen():
    return sampled()


@pytest.fixture(scope="module")
def found(seen):
    return fit(seen)


def points(recovery) -> np.ndarray:
    return np.concatenate(
        [recovery.reward_weights, *recovery.cost_weights, recovery.multipliers, recovery.budgets]
    )


def spreads(recovery) -> np.ndarray:
    known = recovery.identification
    return np.concatenate(
        [
            known.reward_standard_errors,
            *known.cost_standard_errors,
            known.multiplier_standard_errors,
            known.budget_standard_errors,
        ]
    )


def ends(recovery) -> np.ndarray:
    known = recovery.identification
    return np.concatenate(
        [
            known.reward_intervals,
            *known.cost_intervals,
            known.multiplier_intervals,
            known.budget_intervals,
        ]
    )


# --- the optimum ----------------------------------------------------------------------------------


def test_the_loss_is_minus_the_log_likelihood_of_every_step(seen, found):
    counts = seen.counts(grid().mdp)
    by_hand = -float((counts * np.log(found.solution.policy)).sum())
    assert found.history["loss"][0] == pytest.approx(by_hand, rel=1e-10)
    # ... and the policy is the Boltzmann policy of the numbers that are reported.
    theta = [found.reward_weights / found.temperature]
    theta.append(found.multipliers[0] * found.cost_weights[0] / found.temperature)
    policy = policy_of(grid().mdp, grid().features, theta)
    assert_allclose(found.solution.policy, policy, atol=1e-9)


def test_no_other_method_finds_likelier_parameters(seen, found):
    world = grid()
    steps = StepsChain.of(world.mdp, Design.of(world.mdp, world.features), seen)

    def loss(x):
        tried = point_at(backend_of(world.mdp), steps.dual, x, np.zeros(25), 1e-9)
        return float(tried.loss), tried.gradient

    for start in (np.full(6, 2.0), np.array([8.0, 1, 0, 0, 3, 3]), np.zeros(6)):
        answer = minimize(loss, start, jac=True, bounds=[(0, None)] * 6, method="L-BFGS-B")
        assert found.history["loss"][0] <= answer.fun + 1e-6


def test_the_coefficients_are_those_of_the_likelihood(seen):
    # loss(x) = b . V(x) - x . target for ANY x, not only at the optimum (MATH section 5).
    world = grid()
    steps = StepsChain.of(world.mdp, Design.of(world.mdp, world.features), seen)
    rng = np.random.default_rng(0)
    for x in rng.normal(size=(4, 6)) * 3:
        table = np.tensordot(x, steps.space.tables, 1)
        values, policy = oracles.soft_values(world.mdp, table, 1.0)
        by_hand = -float((steps.counts * np.log(policy)).sum())
        assert steps.start @ values - x @ steps.target == pytest.approx(by_hand, rel=1e-9)
    assert steps.start.sum() == pytest.approx((1 - world.mdp.discount) * seen.steps)


def test_the_truth_is_within_a_few_errors():
    world = grid()
    recovery = fit(sampled(trajectories=100, steps=2000, seed=2))
    _, visitation = hill_expert()
    budget = np.vdot(world.truth.tables(world.mdp)[1][0], visitation)
    truth = np.array([*world.reward_weights, *world.cost_weights[0], PRICE, budget])
    # Eight numbers at once: four errors is a chance of 1 in 2000.
    assert (np.abs(points(recovery) - truth) <= 4 * spreads(recovery)).all()
    assert np.abs(recovery.reward_weights - world.reward_weights).sum() < 0.05
    assert recovery.temperature == pytest.approx(0.0025, rel=0.05)
    (active,) = told(recovery.identification.findings, Kind.ACTIVE, constraint=0)
    assert active.about.number == recovery.identification.p_values[0] < 0.001


def test_expected_counts_give_the_truth_itself():
    world = grid()
    policy, visitation = hill_expert()
    counts = np.round(1e9 * visitation).astype(float)
    steps = StepsChain(
        world.mdp,
        Design.of(world.mdp, world.features),
        counts,
        counts.sum(axis=1) - world.mdp.discount * world.mdp.inflow(counts),
        visits=counts.sum(axis=1),
    )
    fitted = maximum(steps, Likelihood())
    assert steps.convex
    # Counts rounded to one in 1e8.
    assert_allclose(fitted.parts[0].policy, policy, atol=1e-6)


def test_a_global_certificate_exactly_where_the_weights_of_states_are_not_negative():
    world = grid()
    space = Design.of(world.mdp, world.features)
    policy, _ = hill_expert()
    # As often as one endless trajectory meets them: then every state keeps 1 - discount of it.
    share = np.linalg.matrix_power(oracles.policy_chain(world.mdp, policy), 10_000)[0]
    many = pairs(np.round(4e5 * share[:, None] * policy).astype(int))
    for demonstrations, convex in ((many, True), (sampled(trajectories=2, steps=40), False)):
        recovery = fit(demonstrations, level=1.0)
        steps = StepsChain.of(world.mdp, space, demonstrations)
        assert bool((steps.start >= 0).all()) is convex
        assert (recovery.status is RecoveryStatus.CONVERGED) is convex
        assert np.isfinite(recovery.certificate.objective_gap) == convex
        assert bool(told(recovery.identification.findings, Kind.LOCAL_OPTIMUM)) is not convex
    # Counts are rounded to whole steps, of which the rarest states have a handful.
    assert_allclose(fit(many).solution.policy, policy, atol=0.01)


def test_the_recovered_objective_solved_anew_gives_the_same_expert(found):
    again = SoftDual(temperature=found.temperature).solve(grid().mdp, found.objective)
    assert_allclose(again.policy, found.solution.policy, atol=1e-6)
    assert_allclose(again.multipliers, found.multipliers, rtol=1e-5)
    spent = pull_back(grid().features, found.solution.visitation)[1]
    assert found.budgets[0] == pytest.approx(found.cost_weights[0] @ spent, rel=1e-9)


def test_held_out_steps_are_likelier_than_by_chance(found):
    fresh = sampled(trajectories=20, steps=400, seed=99).counts(grid().mdp)
    ours = float((fresh * np.log(found.solution.policy)).sum()) / fresh.sum()
    truth = float((fresh * np.log(hill_expert()[0])).sum()) / fresh.sum()
    uniform = -np.log(4)
    assert ours > uniform + 0.1
    # Six parameters cost about six nats in all, 8 000 steps: next to nothing a step.
    assert ours == pytest.approx(truth, abs=0.005)


# --- invariances ----------------------------------------------------------------------------------


def test_shuffled_episodes_change_nothing(seen, found):
    order = np.random.default_rng(0).permutation(seen.episodes)
    other = fit(seen.select(order))
    assert_allclose(points(other), points(found), rtol=1e-9)
    assert_allclose(spreads(other), spreads(found), rtol=1e-6)


def test_relabelled_states_and_actions_change_nothing(seen, found):
    world = grid()
    rng = np.random.default_rng(1)
    states, actions = rng.permutation(25), rng.permutation(4)
    dense = np.empty((25, 4, 25))
    dense[np.ix_(states, actions, states)] = world.mdp.dense()
    initial, reward, cost = np.empty(25), np.empty((25, 2)), np.empty((25, 4))
    initial[states], reward[states] = world.mdp.initial, world.features.reward
    cost[states] = world.features.costs[0]
    other = Demonstrations(states[seen.states], actions[seen.actions], seen.offsets)
    features = Features(reward, [cost])
    recovery = Likelihood().fit(MDP(dense, initial, world.mdp.discount), features, other)
    assert_allclose(points(recovery), points(found), rtol=1e-6)
    assert_allclose(spreads(recovery), spreads(found), rtol=1e-4)
    assert_allclose(ends(recovery), ends(found), rtol=1e-4, atol=1e-6)


def test_every_episode_twice_is_the_same_point_with_smaller_errors(seen):
    few = seen.select(np.arange(20))  # below the number from which errors go by trajectory
    twice = few.select(np.repeat(np.arange(20), 2))
    one, two = fit(few, level=1.0), fit(twice, level=1.0)
    assert_allclose(points(two), points(one), rtol=1e-6)
    assert_allclose(two.parameters.outer, 2 * one.parameters.outer, rtol=1e-5)
    # Copies are no further evidence: actions that agree this well are no independent draws.
    assert one.goodness.adequate
    assert not two.goodness.adequate
    assert two.history["loss"][0] == pytest.approx(2 * one.history["loss"][0], rel=1e-9)


def test_scaled_constant_and_empty_features_leave_room_and_change_nothing_else(seen, found):
    world = grid()
    factors = np.array([1e6, 1e-6])
    wide = Features(
        np.concatenate([world.features.reward * factors, np.full((25, 1), 7.0)], axis=1),
        [np.concatenate([world.features.costs[0] * 1e-6, np.zeros((25, 1))], axis=1)],
        ("row", "column", "always"),
        [("a", "b", "c", "d", "never")],
    )
    recovery = Likelihood().fit(world.mdp, wide, seen)
    undone = recovery.reward_weights[:2] * factors
    assert_allclose(undone / undone.sum(), found.reward_weights, rtol=1e-6)
    assert_allclose(recovery.cost_weights[0][:4], found.cost_weights[0], rtol=1e-5)
    known, plain = recovery.identification, found.identification
    # They may have any weight, and take it from the others and from prices; upper ends stay.
    upper = plain.cost_intervals[0][:, 1]
    assert_allclose(known.cost_intervals[0][:4, 1], upper, rtol=1e-4, atol=1e-6)
    assert known.cost_intervals[0][:4, 0].tolist() == [0.0] * 4
    assert known.multiplier_intervals.tolist() == [[0.0, np.inf]]
    assert_allclose(known.budget_intervals[:, 1] * 1e6, plain.budget_intervals[:, 1], rtol=1e-4)
    assert known.budget_intervals[0, 0] == 0.0
    assert recovery.history["loss"][0] == pytest.approx(found.history["loss"][0], rel=1e-12)
    # Any weight would do for what influences nothing, and its own interval says so.
    assert known.reward_intervals[2].tolist() == [0.0, 1.0]
    assert known.cost_intervals[0][4].tolist() == [0.0, 1.0]
    for name in ("always", "never"):
        assert told(recovery.identification.findings, Kind.NOT_IDENTIFIED, feature=name)


def test_an_extreme_entry_does_not_cap_the_weight_of_its_feature():
    # One cell a thousand times as costly makes the range of the feature; the others still count.
    world = grid()
    costs = world.features.costs[0].copy()
    costs[24, 0] = 1e3 * costs[:, 0].max()
    features = Features(world.features.reward, [costs])
    theta = [np.array([4.0, 2.0]) / 0.01, np.array([8.0, 4.0, 2.0, 2.0])]
    policy = policy_of(world.mdp, features, theta)
    visits = spread_visits(oracles.policy_visitation(world.mdp, policy), 400_000)
    counts = drawn(np.random.default_rng(0), policy, visits)
    recovery = Likelihood().fit(world.mdp, features, pairs(counts))
    truth = theta[1] / theta[1].sum()
    errors = recovery.identification.cost_standard_errors[0]
    assert (np.abs(recovery.cost_weights[0] - truth) <= 4 * errors).all()
    assert errors[0] < 0.1


def test_loose_pairs_give_the_point_of_the_trajectories_they_come_from(seen, found):
    order = np.random.default_rng(2).permutation(seen.steps)
    loose = Demonstrations.from_pairs(seen.states[order], seen.actions[order])
    recovery = fit(loose)
    # The start of the search differs (no trajectories, no convex fit); the optimum does not.
    assert_allclose(points(recovery), points(found), rtol=1e-5)
    assert np.isnan(recovery.certificate.feature_gap)
    assert np.isnan(recovery.certificate.sampling_noise)
    assert told(recovery.identification.findings, Kind.ERRORS)
    assert recovery.parameters.errors == "fisher"


def test_partial_trajectories_are_used_without_their_start(seen, found):
    # Cut in two, the second half joined on its way: the same steps, other beginnings.
    states = seen.states.reshape(50, 400)
    actions = seen.actions.reshape(50, 400)
    halves = Demonstrations(
        np.concatenate([states[:, :200].ravel(), states[:, 200:].ravel()]),
        np.concatenate([actions[:, :200].ravel(), actions[:, 200:].ravel()]),
        np.arange(101) * 200,
        partial=np.arange(100) >= 50,
    )
    recovery = fit(halves)
    assert_allclose(points(recovery), points(found), rtol=1e-5)
    assert np.isfinite(recovery.certificate.feature_gap)  # from the halves that begin at the start


# --- what is not known ----------------------------------------------------------------------------


def test_a_constraint_that_is_not_there_is_not_made_up():
    policy, visitation = hill_expert(1, 0.0025, 0.0)
    counts = drawn(np.random.default_rng(4), policy, spread_visits(visitation, 20_000))
    recovery = fit(pairs(counts))
    known = recovery.identification
    assert known.active.tolist() == [False]
    assert recovery.multipliers.tolist() == [0.0]
    assert np.isnan(recovery.cost_weights[0]).all()
    assert np.isnan(known.cost_intervals[0]).all()
    assert recovery.budgets.tolist() == [np.inf]
    low, high = known.multiplier_intervals[0]
    assert low == 0.0
    assert 0.0 < high < 0.05  # how large a price could have gone unseen
    assert told(recovery.identification.findings, Kind.INACTIVE, constraint=0)
    assert_allclose(recovery.reward_weights, grid().reward_weights, atol=0.03)
    # Kept all the same if asked, the data decide how much of it there is.
    kept = fit(pairs(counts), level=1.0)
    assert kept.history["loss"][0] <= recovery.history["loss"][0] + 1e-9


def test_of_two_constraints_that_say_the_same_one_is_kept():
    world = tangle()
    costs = world.features.costs[0]
    alone, both = (Features(world.features.reward, [costs] * k) for k in (1, 2))
    policy = policy_of(world.mdp, alone, [world.reward_weights / 0.1, 6.0 * world.cost_weights[0]])
    seen = pairs(drawn(np.random.default_rng(1), policy, np.full(9, 5_000)))
    recovery = Likelihood().fit(world.mdp, both, seen)
    # Neither is needed beside the other; without both, the expert would not be explained.
    assert not recovery.identification.active.any()
    assert [one.members for one in recovery.identification.sets] == [(0, 1)]
    k = int(np.argmax(recovery.multipliers))
    assert (recovery.multipliers > 0).sum() == 1
    direct = Likelihood().fit(world.mdp, alone, seen)
    assert_allclose(recovery.cost_weights[k], direct.cost_weights[0], rtol=1e-5)
    assert recovery.history["loss"][0] == pytest.approx(direct.history["loss"][0], rel=1e-9)
    twins = ["cost 0 feature 0", "cost 0 feature 1", "cost 0 feature 2"]
    findings = recovery.identification.findings
    assert all(told(findings, Kind.NOT_IDENTIFIED, feature=name) for name in twins)


def test_the_activity_test_is_told_of_every_parameter(monkeypatch):
    # Tested, free, or on its bound beside the tested ones: each parameter is one of the three.
    calls = []

    def spy(ratio, fisher, tested, free, held, *, levels, seed, scatter):
        calls.append((tested, free, held))
        return 1.0

    monkeypatch.setattr("tacit.inference.activity.activity_p_value", spy)
    rng = np.random.default_rng(1)
    fit(pairs(rng.multinomial(400, np.full(4, 0.25), size=25)))
    tested, free, held = calls[0]
    assert tested.tolist() == [False] * 2 + [True] * 4
    assert held.any()
    assert (tested.astype(int) + free + held == 1).all()


def test_two_constraints_each_with_its_own_error_bars():
    world = tangle()
    theta = [world.reward_weights / 0.1, 6.0 * world.cost_weights[0], 0.0 * world.cost_weights[1]]
    policy = policy_of(world.mdp, world.features, theta)
    counts = drawn(np.random.default_rng(1), policy, np.full(9, 20_000))
    recovery = fit(pairs(counts), world)
    assert recovery.identification.active.tolist() == [True, False]
    errors = recovery.identification.cost_standard_errors[0]
    assert (np.abs(recovery.cost_weights[0] - world.cost_weights[0]) <= 4 * errors).all()
    assert np.isnan(recovery.cost_weights[1]).all()
    theta[2] = 4.0 * world.cost_weights[1]
    policy = policy_of(world.mdp, world.features, theta)
    counts = drawn(np.random.default_rng(1), policy, np.full(9, 20_000))
    recovery = fit(pairs(counts), world)
    assert recovery.identification.active.tolist() == [True, True]
    assert_allclose(recovery.multipliers, [0.6, 0.4], rtol=0.2)


def test_reward_alone():
    world = grid()
    alone = Features(world.features.reward)
    policy = policy_of(world.mdp, alone, [world.reward_weights / 0.005])
    seen = sampled(trajectories=30, steps=300, policy=policy)
    recovery = Likelihood().fit(world.mdp, alone, seen)
    assert recovery.cost_weights == ()
    assert recovery.identification.active.shape == (0,)
    errors = recovery.identification.reward_standard_errors
    assert (np.abs(recovery.reward_weights - world.reward_weights) <= 4 * errors).all()


def test_a_reward_of_free_sign():
    world = tangle(1)
    wanted = np.array([0.5, -0.3, 0.2])
    policy = policy_of(
        world.mdp, world.features, [wanted / 0.1, *(5 * w for w in world.cost_weights)]
    )
    counts = drawn(np.random.default_rng(3), policy, np.full(9, 20_000))
    recovery = fit(pairs(counts), world, free_reward=True)
    known = recovery.identification
    assert (np.abs(recovery.reward_weights - wanted) <= 4 * known.reward_standard_errors).all()
    assert known.reward_intervals[1, 1] < 0
    assert (known.reward_intervals[:, 0] <= wanted).all()
    assert (wanted <= known.reward_intervals[:, 1]).all()


def test_an_expert_who_wants_nothing_is_reported_so():
    policy = np.full((25, 4), 0.25)
    visits = spread_visits(oracles.policy_visitation(grid().mdp, policy), 20_000)
    recovery = fit(pairs(drawn(np.random.default_rng(0), policy, visits)))
    assert recovery.status in DONE
    assert_allclose(recovery.solution.policy, policy, atol=0.05)
    known = recovery.identification
    assert known.active.tolist() == [False]
    # Little or no reward was found; which one is anybody's guess.
    assert (known.reward_intervals[:, 0] <= 0.5).all()
    assert (known.reward_intervals[:, 1] >= 0.5).all()
    assert "eights of the reward" in recovery.summary()


def test_exactly_uniform_counts_need_neither_reward_nor_cost():
    recovery = fit(pairs(np.full((25, 4), 100)))
    assert np.isnan(recovery.reward_weights).all()
    assert recovery.multipliers.tolist() == [0.0]
    assert recovery.temperature == 1.0
    assert recovery.solution.status is tacit.Status.CONVERGED
    assert told(recovery.identification.findings, Kind.NOT_IDENTIFIED, feature=None)
    assert recovery.identification.reward_intervals.tolist() == [[0.0, 1.0]] * 2


# --- experts without noise, and forbidden costs ---------------------------------------------------


def hard_policy(world) -> np.ndarray:
    _, _, choice = oracles.best_policy(world.mdp, world.truth.tables(world.mdp)[0])
    return oracles.one_hot(choice, world.mdp.actions)


@pytest.mark.parametrize("name", ["grid", "tangle"])
def test_an_expert_without_noise_has_no_blown_up_numbers(name):
    world = grid() if name == "grid" else tangle()
    seen = tacit.simulate(world.mdp, hard_policy(world), trajectories=40, steps=200, seed=0)
    recovery = fit(seen, world)
    assert recovery.status is RecoveryStatus.EXPERT_DETERMINISTIC
    assert told(recovery.identification.findings, Kind.DETERMINISTIC)
    # Scaled to range one, parameters of some hundreds would explain as well; the ridge says no.
    assert recovery.temperature > 1e-5
    assert np.isnan(recovery.identification.reward_intervals).all()
    assert np.isnan(recovery.identification.reward_standard_errors).all()
    chosen = seen.counts(world.mdp).argmax(axis=1)
    visited = seen.counts(world.mdp).sum(axis=1) >= 5
    likely = recovery.solution.policy[np.arange(len(chosen)), chosen]
    assert (likely[visited] > 0.45).all()  # a tie in the corner cannot be broken
    recovery.summary()


def constrained_optimum():
    """The optimum within a budget, which mixes two actions in one state, and what it does."""
    world = tacit.worlds.random(0, states=12, actions=3, constraints=1, features=3, tightness=0.5)
    policy = tacit.solve(world.mdp, world.truth).policy
    assert ((policy > 0).sum(axis=1) > 1).sum() == 1
    return world, tacit.simulate(world.mdp, policy, trajectories=40, steps=50, seed=0)


def test_one_mixed_choice_among_certain_ones_gives_no_maximum():
    # Twice the parameters change the mixture: the way to infinity keeps that one sum as it is.
    world, seen = constrained_optimum()
    steps = StepsChain.of(world.mdp, Design.of(world.mdp, world.features), seen)
    full = maximum(steps, Likelihood())
    lower = np.where(full.z > 1.0, 4.0 * full.z, 0.0)
    larger = full.refit(dataclasses.replace(full.problem, lower=lower))
    assert full.converged
    assert full.lagrangian(larger.z) < full.loss + 1e-6  # of 55 nats
    found = fit(seen, world)
    assert found.status is RecoveryStatus.EXPERT_DETERMINISTIC
    assert np.isnan(found.identification.reward_standard_errors).all()
    # No direction is blind (that would name several features), but the errors are endless.
    assert not told(found.identification.findings, Kind.NOT_IDENTIFIED, feature=None)
    assert found.identification.active.all()  # without the constraint it is 100 nats less likely
    batch = tacit.many.recover_many(world.mdp, world.features, [seen], estimator=Likelihood())
    assert batch.deterministic.all()


def test_a_direction_of_which_nothing_is_known_leads_to_no_infinite_maximum():
    bent = 10.0 * np.outer([1.0, -1.0], [1.0, -1.0])  # only the difference is known
    ends = {"lower": np.zeros(2), "upper": np.full(2, LARGEST), "threshold": 1e-3}
    given = {"curvature": Matrices(np.stack([bent, bent])), **ends}
    # Of the second small ones are unlikely: two that grow together, and no maximum.
    unlikely, minimum = np.array([0.0, 1.0]), np.array([10.5, 10.0])

    def loss(x, rows):
        return 5.0 * (x[:, 0] - x[:, 1] - 0.5) ** 2 + unlikely[rows] * np.exp(-x.sum(axis=1))

    def rise(x, rows):
        return loss(x, rows) - loss(minimum[None], rows)

    assert is_boundless(rise, np.stack([minimum, minimum]), **given).tolist() == [False, True]


def lava_world() -> tuple[MDP, Features]:
    """A grid without slips, started anywhere; lava in the middle, and three costly cells."""
    flat = tacit.worlds.hill_grid(seed=1, slip=0.0)
    costs = np.zeros((25, 4))
    costs[[12, 6, 16, 18], range(4)] = 1.0
    names = [("lava", "mud", "marsh", "bog")]
    features = Features(flat.features.reward, [costs], ("row", "column"), names)
    return MDP(flat.mdp.transitions, np.full(25, 0.04), 0.9), features


def lava_steps(theta, trajectories: int) -> Demonstrations:
    mdp, features = lava_world()
    policy = policy_of(mdp, features, [np.array([150.0, 100.0]), np.array(theta)])
    seen = tacit.simulate(mdp, policy, trajectories=trajectories, steps=30, seed=1)
    # Starting on the lava is no choice; walking into it would be.
    entered = (seen.states == 12) & (seen.step > 0)
    assert not entered.any()
    return seen


def test_a_cost_never_incurred_is_forbidden_and_harms_no_other_weight():
    mdp, features = lava_world()
    recovery = Likelihood().fit(mdp, features, lava_steps([60.0, 1.0, 0.5, 0.8], 400))
    known = recovery.identification
    assert recovery.status in DONE
    low, high = known.cost_intervals[0][0]
    assert high == np.inf
    assert low > 1.0  # dearer than the other three together, at the least
    assert np.isnan(known.cost_standard_errors[0][0])
    assert told(recovery.identification.findings, Kind.FORBIDDEN, feature="lava")
    # The other weights are in their own gauge, and right.
    others = recovery.cost_weights[0][1:]
    assert others.sum() == pytest.approx(1.0)
    truth = np.array([1.0, 0.5, 0.8]) / 2.3
    assert (known.cost_intervals[0][1:, 0] <= truth).all()
    assert (truth <= known.cost_intervals[0][1:, 1]).all()
    assert np.ptp(known.cost_intervals[0][1:], axis=1).max() < 0.5
    low, high = known.multiplier_intervals[0]
    assert low <= 2.3 / 250 <= high < 0.05
    assert "forbidden" in recovery.summary()


def test_the_limit_of_a_forbidden_cost_is_where_the_likelihood_has_fallen():
    # By brute force: hold the parameter at its limit, let all others adapt.
    mdp, features = lava_world()
    seen = lava_steps([60.0, 1.0, 0.5, 0.8], 400)
    recovery = Likelihood().fit(mdp, features, seen)
    steps = StepsChain.of(mdp, Design.of(mdp, features), seen)
    total = recovery.multipliers[0] / recovery.temperature
    limit = recovery.identification.cost_intervals[0][0, 0] * total
    best = maximum(steps, Likelihood())
    held = (best.held(np.arange(6) == 2, value) for value in (limit, 0.8 * limit))
    fallen = [less.loss - best.loss for less in held]
    # The limit is found to 1 part in 256 of the one with the others held.
    assert fallen[0] == pytest.approx(0.5 * 1.6448536**2, rel=0.05)
    assert fallen[1] > fallen[0]


def test_the_limit_of_a_forbidden_cost_lets_the_other_costs_adapt():
    # Two features charge for the lava: what one loses the other can take over, at the price of
    # the mud that it charges for as well. Held fixed, it would make the limit too high.
    mdp, features = lava_world()
    costs = features.costs[0].copy()
    costs[12, 1] = 1.0
    both = Features(features.reward, [costs], features.reward_names, features.cost_names)
    seen = lava_steps([60.0, 1.0, 0.5, 0.8], 60)
    recovery = Likelihood().fit(mdp, both, seen)
    low, high = recovery.identification.cost_intervals[0][0]
    assert high == np.inf
    steps = StepsChain.of(mdp, Design.of(mdp, both), seen)
    best = maximum(steps, Likelihood())
    limit = low * recovery.multipliers[0] / recovery.temperature
    at = np.arange(6) == 2
    adapted = best.held(at, limit)
    rise = 0.5 * 1.6448536**2
    assert adapted.loss - best.loss == pytest.approx(rise, rel=0.1)
    alone = best.lagrangian(np.where(at, limit, best.z))
    assert alone - best.loss > 1.2 * rise


def test_where_only_forbidden_costs_are_left_the_price_has_no_upper_limit():
    mdp, features = lava_world()
    recovery = Likelihood().fit(mdp, features, lava_steps([60.0, 0.0, 0.0, 0.0], 400))
    known = recovery.identification
    assert known.active.tolist() == [True]
    assert known.cost_intervals[0][0, 1] == np.inf
    assert known.multiplier_intervals[0, 1] == np.inf
    assert known.multiplier_intervals[0, 0] > 0
    assert told(recovery.identification.findings, Kind.FORBIDDEN, feature="lava")


# --- bad days -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("trajectories", "steps"), [(1, 1), (1, 3), (1, 20), (3, 5)])
def test_hardly_any_data_gives_a_sane_answer(trajectories, steps):
    recovery = fit(sampled(trajectories=trajectories, steps=steps))
    assert recovery.status in (*DONE, RecoveryStatus.EXPERT_DETERMINISTIC)
    assert np.isfinite(recovery.solution.policy).all()
    assert 0 < recovery.temperature < np.inf
    assert not (ends(recovery)[:, 0] > ends(recovery)[:, 1]).any()
    (unseen,) = told(recovery.identification.findings, Kind.ASSUMED)
    assert unseen.about.number >= 25 - trajectories * steps
    recovery.summary()


def test_trajectories_too_short_to_begin_from_do_not_mislead_the_search():
    # No policy collects what two steps do, so the convex fit of the same data runs far away; the
    # likelihood of the steps is none the worse for it.
    short = sampled(trajectories=300, steps=2, seed=5)
    whole = fit(short, level=1.0)
    loose = fit(Demonstrations.from_pairs(short.states, short.actions), level=1.0)
    assert whole.history["evaluations"][0] < 60
    assert whole.history["loss"][0] == pytest.approx(loose.history["loss"][0], rel=1e-8)
    assert whole.history["loss"][0] < short.steps * np.log(4)


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.99, 0.999])
def test_any_discount(discount):
    base = tangle(3)
    world = dataclasses.replace(base, mdp=MDP(base.mdp.transitions, base.mdp.initial, discount))
    # Features of actions: even a blind expert shows what it wants.
    theta = [world.reward_weights / 0.3, *(3.0 * w for w in world.cost_weights)]
    reward, costs = world.features.objective(theta[0], theta[1:], np.zeros(2)).tables(world.mdp)
    wanted = tacit.Objective(reward - costs.sum(axis=0))
    policy = SoftDual(temperature=1.0).solve(world.mdp, wanted).policy
    counts = drawn(np.random.default_rng(0), policy, np.full(9, 5_000))
    recovery = fit(pairs(counts), world, level=1.0)
    assert recovery.status in DONE
    assert_allclose(recovery.solution.policy, policy, atol=0.03)


def test_without_a_future_features_of_states_say_nothing():
    world = grid()
    mdp = MDP(world.mdp.transitions, world.mdp.initial, 0.0)
    recovery = Likelihood().fit(mdp, world.features, sampled(trajectories=5, steps=50))
    assert np.isnan(recovery.reward_weights).all()
    assert told(recovery.identification.findings, Kind.NOT_IDENTIFIED, feature="row")
    assert recovery.identification.multiplier_intervals.tolist() == [[0.0, np.inf]]


@pytest.mark.parametrize("temperature", [1e-5, 1e-3, 10.0, 1e4])
def test_any_temperature(temperature):
    policy, visitation = hill_expert(1, temperature, 0.05)
    counts = drawn(np.random.default_rng(1), policy, spread_visits(visitation, 20_000))
    recovery = fit(pairs(counts))
    # Nobody can be told from an expert without noise, or without anything but noise.
    allowed = (*DONE, RecoveryStatus.EXPERT_DETERMINISTIC)
    assert recovery.status in allowed
    assert np.isfinite(recovery.solution.policy).all()
    assert not (ends(recovery)[:, 0] > ends(recovery)[:, 1]).any()
    if temperature == 1e-3:
        assert recovery.status in DONE
        assert recovery.temperature == pytest.approx(temperature, rel=0.3)
    recovery.summary()


def test_one_state():
    mdp = MDP(np.ones((1, 3, 1)), [1.0], 0.9)
    features = Features([[[1.0], [0.0], [0.0]]], [[[[0.0], [1.0], [0.0]]]])
    # Three actions, log odds 1 and -2 against the third: two parameters fit them exactly.
    policy = np.exp([1.0, -2.0, 0.0])
    policy /= policy.sum()
    counts = np.round(1e6 * policy)[None]
    recovery = Likelihood().fit(mdp, features, pairs(counts.astype(int)))
    assert recovery.temperature == pytest.approx(1.0, rel=1e-2)
    assert recovery.multipliers[0] == pytest.approx(2.0, rel=1e-2)
    assert recovery.budgets[0] == pytest.approx(10 * policy[1], rel=1e-2)
    assert_allclose(recovery.solution.policy[0], policy, atol=1e-5)


def test_one_action_leaves_nothing_to_choose():
    rng = np.random.default_rng(0)
    mdp = MDP(rng.dirichlet(np.ones(4), (4, 1)), np.full(4, 0.25), 0.9)
    features = Features(rng.random((4, 2)), [rng.random((4, 2))])
    seen = tacit.simulate(mdp, np.ones((4, 1)), trajectories=5, steps=20, seed=0)
    recovery = Likelihood().fit(mdp, features, seen)
    assert np.isnan(recovery.reward_weights).all()
    assert len(told(recovery.identification.findings, Kind.NOT_IDENTIFIED, feature=None)) == 2
    assert recovery.history["loss"][0] == pytest.approx(0.0, abs=1e-12)


def test_states_nobody_visited_are_said_so_and_do_no_harm(seen):
    counts = seen.counts(grid().mdp)
    counts[[3, 4, 20, 24]] = 0
    recovery = fit(pairs(counts.astype(int)))
    assert recovery.status in DONE
    assert told(recovery.identification.findings, Kind.ASSUMED, number=4)


def test_a_search_cut_short_says_so(seen):
    with pytest.raises(tacit.NotConverged) as caught:
        fit(seen, max_steps=2)
    short = caught.value.result
    assert short.status is RecoveryStatus.NOT_CONVERGED
    assert short.certificate.projected_gradient > 1e-9
    assert np.isnan(ends(short)[: len(points(short)) - 2]).all()
    world = grid()
    again = Likelihood(max_steps=2).fit(world.mdp, world.features, seen, throw=False)
    assert again.status is RecoveryStatus.NOT_CONVERGED


@pytest.mark.parametrize(
    "options",
    [
        {"level": 0.0},
        {"level": 2.0},
        {"level": -0.1},
        {"level": np.nan},
        {"tolerance": 0.0},
        {"tolerance": -1.0},
        {"max_steps": 0},
        {"level": "a"},
        {"max_steps": None},
        {"seed": -1},
        {"seed": 1.5},
        {"lapses": "x"},
        {"free_reward": "yes"},
        {"free_reward": 1},
        {"prior": 3},
        {"bounds": [1, 2]},
        {"fixed": 10},
        {"start": "heat"},
    ],
)
def test_hyperparameters_out_of_range(options, seen):
    with refusal(tacit.InvalidModel, match=f"{next(iter(options))} must be"):
        fit(seen, **options)
    world = grid()
    task, types = tacit.Task(world.mdp, world.features, seen), tacit.Mixture(types=2)
    for asked in (
        lambda: tacit.recover([task], estimator=Likelihood(**options)),
        lambda: dataclasses.replace(types, **_of_mixture(options)).fit(
            world.mdp, world.features, seen
        ),
    ):
        with refusal(tacit.InvalidModel):
            asked()


def _of_mixture(options):
    """The same of a mixture, which calls evaluations rounds and has no lapses."""
    names = {"max_steps": "max_rounds", "lapses": "types"}
    return {names.get(name, name): value for name, value in options.items()}


def test_a_value_beyond_all_bounds_is_not_fixed(seen):
    with refusal(tacit.InvalidModel, match="must be .* at most in size; got 1e\\+300"):
        fit(seen, fixed={0: 1e300})


def test_three_walks_that_are_alike_and_certain_have_no_maximum_with_lapses():
    world = tacit.worlds.hill_grid(seed=3, size=3)
    surest = tacit.solve(world.mdp, world.truth).policy.argmax(axis=1)
    policy = np.eye(world.mdp.actions)[surest]
    walk = tacit.simulate(world.mdp, policy, trajectories=1, steps=3, seed=0)
    found = Likelihood(lapses=True).fit(world.mdp, world.features, walk + walk + walk)
    assert found.status is RecoveryStatus.EXPERT_DETERMINISTIC


def test_input_of_another_world(seen):
    world, other = grid(), tangle()
    with pytest.raises(tacit.InvalidModel, match="reward features must have shape"):
        Likelihood().fit(world.mdp, other.features, seen)
    with pytest.raises(tacit.InvalidDemonstrations, match="every state must be in"):
        Likelihood().fit(other.mdp, other.features, seen)
    with pytest.raises(tacit.InvalidDemonstrations, match="every action must be in"):
        fit(Demonstrations.from_pairs([0], [7]))
    with pytest.raises(tacit.InvalidDemonstrations, match="must be Demonstrations"):
        Likelihood().fit(world.mdp, world.features, [([0], [1])])


# --- a feature that points the wrong way ----------------------------------------------------------


def chosen(*counts: tuple[int, int]):
    """One state a pair of counts: who does 0 there gets more of its feature, who does 1 none."""
    many = len(counts)
    mdp = MDP(np.eye(many)[:, None].repeat(2, axis=1), np.full(many, 1.0 / many), 0.9)
    table = np.zeros((many, 2, many))
    table[np.arange(many), 0, np.arange(many)] = 1.0
    features = Features(table, reward_names=["pain", "nausea"][:many])
    states = np.repeat(np.arange(many), [sum(pair) for pair in counts])
    actions = np.concatenate([np.repeat([0, 1], pair) for pair in counts])
    return mdp, features, Demonstrations.from_pairs(states, actions)


def turned(recovery) -> dict[str, float | None]:
    """The features that are said to point the wrong way, with their p-values."""
    misfits = told(recovery.identification.findings, Kind.MISFIT)
    return {f.about.feature: f.about.number for f in misfits if f.about.feature is not None}


def test_a_feature_that_is_avoided_is_named_by_the_score_at_its_bound():
    recovery = Likelihood().fit(*chosen((14, 26)))
    # By hand: a step has score 1/2 or -1/2 and information 1/4.
    z = 0.5 * (26 - 14) / np.sqrt(40 / 4)
    assert turned(recovery) == {"pain": pytest.approx(norm.sf(z), rel=1e-9)}
    assert recovery.identification.findings[0].about.feature == "pain"
    free = Likelihood(free_reward=True).fit(*chosen((14, 26)))
    assert free.reward_weights[0] == -1.0
    assert not turned(free)
    # With a second feature that is not avoided Holm's method asks for twice as much.
    assert not turned(Likelihood().fit(*chosen((14, 26), (20, 20))))
    assert set(turned(Likelihood().fit(*chosen((8, 32), (30, 10))))) == {"pain"}
    assert set(turned(Likelihood().fit(*chosen((8, 32), (8, 32))))) == {"pain", "nausea"}


def test_command_and_page_say_first_that_a_feature_is_avoided(tmp_path, capsys):
    tacit.runs.Problem(*chosen((14, 46))).save(tmp_path / "problem")
    out = tmp_path / "run"
    assert main(["recover", str(tmp_path / "problem"), "--out", str(out)]) == 0
    first = capsys.readouterr().out.partition("Findings\n")[2]
    assert first.startswith("The demonstrations speak for a negative weight of pain")
    run = Run.load(out)
    assert not run.recovery.goodness.adequate  # which is said, and does not hide the sign
    heads = headlines(NamedRecovery(run.recovery, run.layout))
    assert [one.label for one in heads[:3]] == ["Does the model fit?", "Warnings", "What it wants"]
    assert heads[1].text.startswith("The demonstrations speak for a negative weight of pain")


def test_a_feature_that_points_the_right_way_or_tells_nothing_is_not_named():
    for counts in ((26, 14), (20, 20), (17, 23)):
        recovery = Likelihood().fit(*chosen(counts))
        assert not told(recovery.identification.findings, Kind.MISFIT)


@pytest.mark.parametrize("estimator", [Likelihood(), tacit.Convex()])
def test_worse_than_chance_is_said(estimator):
    # Pain until an end: who is held to a reward of 0 would rather stay, where there is a choice.
    mdp = MDP(
        np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0]] * 2]),
        [1.0, 0.0],
        0.9,
        available=[[True, True], [False, False]],
    )
    features = Features(np.array([[1.0], [0.0]]), reward_names=["pain"])
    paths = [([0] * n, [0] * (n - 1) + [1]) for n in [1, 1, 1, 2] * 8]

    def fitted(features):
        return estimator.fit(mdp, features, Demonstrations.from_trajectories(paths))

    wrong = fitted(features)
    short = wrong.null_log_likelihood - wrong.log_likelihood
    assert short > 1.0
    (finding,) = [
        f for f in told(wrong.identification.findings, Kind.MISFIT) if "worse than chance" in f
    ]
    assert finding.about.number == pytest.approx(short)
    right = fitted(Features(-features.reward, reward_names=["comfort"]))
    assert right.log_likelihood > right.null_log_likelihood
    assert not told(right.identification.findings, Kind.MISFIT)
    assert not turned(right)
