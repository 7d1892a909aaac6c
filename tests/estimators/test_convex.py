"""Maximum causal entropy: the truth from exact expectations, and the conditions of an optimum."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose

import oracles
import tacit
from experts import exact, grid, hill_expert, policy_of, tangle
from kinds import told
from tacit import MDP, Demonstrations, Features, SoftDual
from tacit.estimators.convex import Convex
from tacit.inference.expectations import expectations, pull_back
from tacit.inference.findings import Kind
from tacit.likelihood.problem import LikelihoodProblem
from tacit.likelihood.protocol import LARGEST
from tacit.likelihood.steps import StepsChain, information
from tacit.model.features.design import Design
from tacit.recovery import RecoveryStatus


def matched(world, visitation, **options):
    seen = exact(world.mdp, world.features, visitation)
    return Convex(**options).match(world.mdp, world.features, seen)


@pytest.fixture(scope="module")
def seen():
    """A hundred sampled trajectories of the noisy expert on the grid."""
    return tacit.simulate(grid().mdp, hill_expert()[0], trajectories=100, steps=300, seed=3)


def same_policy(world, recovery):
    """The Boltzmann policy that the recovered numbers make, by an oracle."""
    pairs = zip(recovery.multipliers, recovery.cost_weights, strict=True)
    theta = [recovery.reward_weights / recovery.temperature]
    theta += [np.nan_to_num(m * w / recovery.temperature) for m, w in pairs]
    return policy_of(world.mdp, world.features, theta)


@pytest.mark.parametrize("seed", [1, 2, 4])
@pytest.mark.parametrize("temperature", [0.0025, 0.01])
def test_exact_expectations_of_a_binding_expert_give_the_truth_back(seed, temperature):
    world = grid(seed)
    expert = SoftDual(temperature=temperature).solve(world.mdp, world.truth)
    assert expert.multipliers[0] > 0  # the budget binds
    recovery = matched(world, expert.visitation)
    assert recovery.status is RecoveryStatus.CONVERGED
    # The solver meets the budget to 1e-9; weak directions of the information amplify that.
    assert_allclose(recovery.reward_weights, world.reward_weights, atol=1e-4)
    assert_allclose(recovery.cost_weights[0], world.cost_weights[0], atol=1e-4)
    assert_allclose(recovery.multipliers, expert.multipliers, rtol=1e-4)
    assert_allclose(recovery.budgets, world.truth.budgets, rtol=1e-6)
    assert recovery.temperature == pytest.approx(temperature, rel=1e-4)
    assert recovery.certificate.feature_gap <= 1e-8
    assert recovery.identification.active.tolist() == [True]


def test_two_constraints_are_told_apart():
    world = tangle()
    theta = [
        world.reward_weights / 0.3,
        *(p * w for p, w in zip((2, 5), world.cost_weights, strict=True)),
    ]
    visitation = oracles.policy_visitation(world.mdp, policy_of(world.mdp, world.features, theta))
    recovery = matched(world, visitation)
    assert_allclose(recovery.reward_weights, world.reward_weights, atol=1e-4)
    for k in range(2):
        assert_allclose(recovery.cost_weights[k], world.cost_weights[k], atol=1e-4)
    assert_allclose(recovery.multipliers, [0.6, 1.5], rtol=1e-4)
    spent = pull_back(world.features, visitation)[1:]
    budgets = [w @ e for w, e in zip(world.cost_weights, spent, strict=True)]
    assert_allclose(recovery.budgets, budgets, rtol=1e-6)


def test_free_reward_weights_take_the_sign_of_the_truth():
    world = tangle(1)
    wanted = np.array([0.5, -0.3, 0.2])
    theta = [wanted / 0.2, *(2.0 * w for w in world.cost_weights)]
    visitation = oracles.policy_visitation(world.mdp, policy_of(world.mdp, world.features, theta))
    recovery = matched(world, visitation, free_reward=True)
    assert_allclose(recovery.reward_weights, wanted, atol=1e-4)
    held = matched(world, visitation)
    assert (held.reward_weights >= 0).all()
    assert held.reward_weights.sum() == pytest.approx(1.0)


def test_the_optimum_on_sampled_trajectories_meets_the_conditions(seen):
    world = grid()
    told = expectations(world.mdp, world.features, seen)
    recovery = Convex().fit(world.mdp, world.features, seen)
    reached = pull_back(
        world.features, oracles.policy_visitation(world.mdp, recovery.solution.policy)
    )
    # Convex and differentiable: these conditions are proof of the global optimum. The projected
    # gradient is 1e-9 of the largest expectation there is.
    for weights, mine, theirs, sign in (
        (recovery.reward_weights, reached[0], told.means[0], 1.0),
        (recovery.cost_weights[0], reached[1], told.means[1], -1.0),
    ):
        tight = weights > 0
        size = 1e-8 * np.abs(theirs).max()
        assert_allclose(mine[tight], theirs[tight], atol=size)
        # A feature without weight: the expert collects no more of it than wanted, pays no less.
        assert (sign * (mine - theirs)[~tight] >= -size).all()
        assert weights @ mine == pytest.approx(weights @ theirs, rel=1e-8)
    assert recovery.budgets[0] == pytest.approx(recovery.cost_weights[0] @ told.means[1], rel=1e-8)
    assert_allclose(same_policy(world, recovery), recovery.solution.policy, atol=1e-8)
    assert recovery.certificate.objective_gap <= 1e-12
    assert recovery.solution.status is tacit.Status.CONVERGED


def test_the_recovered_objective_solved_anew_gives_the_same_expert(seen):
    world = grid()
    recovery = Convex().fit(world.mdp, world.features, seen)
    again = SoftDual(temperature=recovery.temperature).solve(world.mdp, recovery.objective)
    assert_allclose(again.policy, recovery.solution.policy, atol=1e-6)
    assert_allclose(again.multipliers, recovery.multipliers, rtol=1e-5)


def test_no_other_parameters_have_a_lower_loss(seen):
    world = grid()
    space = Design.of(world.mdp, world.features)
    told = expectations(world.mdp, world.features, seen)
    recovery = Convex().fit(world.mdp, world.features, seen)

    def loss(x):
        values, _ = oracles.soft_values(world.mdp, np.tensordot(x, space.tables, 1), 1.0)
        return world.mdp.initial @ values - x @ space.pull_back(told.visitation)

    pairs = zip(recovery.multipliers, recovery.cost_weights, strict=True)
    theta = [recovery.reward_weights, *(m * w for m, w in pairs)]
    best = np.concatenate(theta) / recovery.temperature * space.scales
    assert recovery.history["loss"][0] == pytest.approx(loss(best), abs=1e-8)
    rng = np.random.default_rng(0)
    for _ in range(15):
        other = np.maximum(best * rng.lognormal(sigma=0.3, size=6) + rng.normal(size=6) * 0.1, 0)
        assert loss(other) >= loss(best) - 1e-9


def test_a_ridge_shrinks_and_the_budget_is_what_the_policy_spends(seen):
    world = grid()
    plain = Convex().fit(world.mdp, world.features, seen)
    pulled = Convex(ridge=0.1).fit(world.mdp, world.features, seen)
    assert pulled.temperature > plain.temperature
    assert pulled.status is RecoveryStatus.CONVERGED
    spent = pull_back(world.features, pulled.solution.visitation)[1]
    assert pulled.budgets[0] == pytest.approx(pulled.cost_weights[0] @ spent, rel=1e-9)


def with_idle(features: Features, factors=1.0, cost_factor: float = 1.0) -> Features:
    """The features scaled, a constant beside those of the reward and a zero beside the costs'."""
    return Features(
        np.concatenate([features.reward * factors, np.full((25, 1), 7.0)], axis=1),
        [np.concatenate([features.costs[0] * cost_factor, np.zeros((25, 1))], axis=1)],
        ("row", "column", "always"),
        [("a", "b", "c", "d", "never")],
    )


def test_scaled_constant_and_empty_features_change_nothing_else():
    world = grid()
    _, visitation = hill_expert()
    plain = matched(world, visitation)
    factors = np.array([1e6, 1e-6])
    wide = with_idle(world.features, factors, 1e-6)
    recovery = Convex().match(world.mdp, wide, exact(world.mdp, wide, visitation))
    # Weights are per unit of a feature: undo the scale, and they are those of before.
    undone = recovery.reward_weights[:2] * factors
    assert_allclose(undone / undone.sum(), plain.reward_weights, atol=1e-7)
    assert_allclose(recovery.cost_weights[0][:4], plain.cost_weights[0], atol=1e-7)
    assert recovery.reward_weights[2] == 0.0
    assert recovery.cost_weights[0][4] == 0.0
    assert_allclose(recovery.solution.policy, plain.solution.policy, atol=1e-7)
    assert_allclose(recovery.budgets * 1e6, plain.budgets, rtol=1e-6)
    for name in ("always", "never"):
        assert told(recovery.identification.findings, Kind.NOT_IDENTIFIED, feature=name)


def test_truncated_constants_stay_without_weight():
    # Cut-off trajectories collect less of a constant than any policy does: a cost that would
    # explain it without limit, were constants not known to influence nothing.
    world = grid()
    seen = tacit.simulate(world.mdp, hill_expert()[0], trajectories=200, steps=60, seed=1)
    wide = with_idle(world.features)
    wide = Features(wide.reward, [wide.costs[0] + [0, 0, 0, 0, 3.0]])
    plain = Convex().fit(world.mdp, world.features, seen)
    recovery = Convex().fit(world.mdp, wide, seen)
    assert recovery.status is plain.status
    assert_allclose(recovery.reward_weights, [*plain.reward_weights, 0.0], atol=1e-7)
    assert_allclose(recovery.cost_weights[0], [*plain.cost_weights[0], 0.0], atol=1e-7)


def test_expectations_no_policy_has_are_said_to_be_unattainable():
    world = grid()
    seen = tacit.simulate(world.mdp, hill_expert()[0], trajectories=3, steps=2, seed=0)
    recovery = Convex().fit(world.mdp, world.features, seen)
    assert recovery.status is RecoveryStatus.UNATTAINABLE
    assert told(recovery.identification.findings, Kind.UNATTAINABLE)
    assert recovery.certificate.feature_gap > 0.1
    assert np.isfinite(recovery.multipliers).all()


def test_an_expert_without_noise_is_said_to_look_deterministic():
    world = tangle()
    _, _, choice = oracles.best_policy(world.mdp, world.truth.tables(world.mdp)[0])
    policy = oracles.one_hot(choice, world.mdp.actions)
    recovery = matched(world, oracles.policy_visitation(world.mdp, policy))
    assert recovery.status is RecoveryStatus.EXPERT_DETERMINISTIC
    assert told(recovery.identification.findings, Kind.DETERMINISTIC)
    # The ridge keeps the numbers within reason, and the policy is nearly the expert's.
    assert recovery.temperature > 1e-4
    assert (recovery.solution.policy.argmax(axis=1) == choice).mean() > 0.8


def test_an_expert_who_wants_nothing_is_reported_so():
    world = grid()
    policy = np.full((25, 4), 0.25)
    recovery = matched(world, oracles.policy_visitation(world.mdp, policy))
    assert recovery.status is RecoveryStatus.CONVERGED
    assert np.isnan(recovery.reward_weights).all()
    assert recovery.multipliers.tolist() == [0.0]
    assert recovery.temperature == 1.0
    assert_allclose(recovery.solution.policy, policy, atol=1e-9)
    assert told(recovery.identification.findings, Kind.NOT_IDENTIFIED, feature=None)
    assert told(recovery.identification.findings, Kind.INACTIVE, constraint=0)
    assert "not identified" in recovery.summary()


def test_reward_alone_needs_no_constraints():
    world = grid()
    alone = Features(world.features.reward)
    policy = policy_of(world.mdp, alone, [world.reward_weights / 0.005])
    told = exact(world.mdp, alone, oracles.policy_visitation(world.mdp, policy))
    recovery = Convex().match(world.mdp, alone, told)
    assert_allclose(recovery.reward_weights, world.reward_weights, atol=1e-5)
    assert recovery.cost_weights == ()
    assert recovery.budgets.shape == (0,)


def test_a_constraint_that_is_not_needed_is_not_made_up():
    world = tangle(2)
    theta = [world.reward_weights / 0.3, 2.0 * world.cost_weights[0], np.zeros(3)]
    visitation = oracles.policy_visitation(world.mdp, policy_of(world.mdp, world.features, theta))
    recovery = matched(world, visitation)
    assert_allclose(recovery.cost_weights[0], world.cost_weights[0], atol=1e-4)
    # At the truth its parameters are 0 and so is their gradient: rounding may leave a trace.
    assert recovery.multipliers[1] <= 1e-6


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.99])
def test_any_discount(discount):
    base = tangle(3)
    mdp = MDP(base.mdp.transitions, base.mdp.initial, discount)
    world = dataclasses.replace(base, mdp=mdp)
    theta = [world.reward_weights / 0.3, *(2.0 * w for w in world.cost_weights)]
    policy = policy_of(mdp, world.features, theta)
    recovery = matched(world, oracles.policy_visitation(mdp, policy))
    assert recovery.status is RecoveryStatus.CONVERGED
    assert_allclose(recovery.solution.policy, policy, atol=1e-5)


def test_information_of_the_expert_is_not_singular_where_the_truth_was_found():
    # What "wherever the information matrix is non-singular" means in the tests above.
    world = grid()
    space = Design.of(world.mdp, world.features)
    _, visitation = hill_expert()
    chain = StepsChain.matching(world.mdp, space, visitation)
    problem = LikelihoodProblem.of(chain, np.zeros(6), np.full(6, LARGEST))
    fitted = problem.minimum(np.zeros(6), tolerance=1e-9, max_steps=300)
    scores = chain.scores(fitted.parts[0])
    fisher = information(scores, fitted.parts[0].policy, visitation.sum(axis=1))
    assert_allclose(fisher, fitted.curvature, atol=1e-8 * np.abs(fisher).max())
    units = np.sqrt(np.diagonal(fisher))
    assert np.linalg.eigvalsh(fisher / np.outer(units, units)).min() > 1e-6


def test_a_search_cut_short_says_so(seen):
    world = grid()
    with pytest.raises(tacit.NotConverged) as caught:
        Convex(max_steps=2).fit(world.mdp, world.features, seen)
    short = caught.value.result
    assert short.status is RecoveryStatus.NOT_CONVERGED
    assert short.certificate.projected_gradient > 1e-9
    again = Convex(max_steps=2).fit(world.mdp, world.features, seen, throw=False)
    assert again.status is RecoveryStatus.NOT_CONVERGED


@pytest.mark.parametrize(
    "options", [{"ridge": -1.0}, {"ridge": np.nan}, {"tolerance": 0.0}, {"max_steps": 0}]
)
def test_hyperparameters_out_of_range(options, seen):
    with pytest.raises(tacit.InvalidModel, match="ridge must be at least 0"):
        Convex(**options).fit(grid().mdp, grid().features, seen)


def test_input_of_another_world(seen):
    world, other = grid(), tangle()
    with pytest.raises(tacit.InvalidModel, match="reward features must have shape"):
        Convex().fit(world.mdp, other.features, seen)
    with pytest.raises(tacit.InvalidDemonstrations, match="every state must be in"):
        Convex().fit(other.mdp, other.features, seen)
    told = exact(world.mdp, world.features, hill_expert()[1])
    with pytest.raises(tacit.InvalidModel, match="visitation"):
        Convex().match(other.mdp, other.features, told)
    loose = Demonstrations.from_pairs([0, 1], [0, 1])
    with pytest.raises(tacit.InvalidDemonstrations, match="use Likelihood"):
        Convex().fit(world.mdp, world.features, loose)
