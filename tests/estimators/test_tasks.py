"""Several tasks: what they share is known from all of them, and nothing else is shared."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import chi2, kstest

import tacit
from kinds import told
from tacit.estimators.convex import Convex
from tacit.estimators.likelihood import Likelihood
from tacit.estimators.recover import recover
from tacit.estimators.task import Task
from tacit.estimators.tasks import SharedLikelihood, shaped
from tacit.inference.boundary import Directions, ratio_p_value
from tacit.inference.findings import Kind
from tacit.likelihood.start import maximum
from tacit.likelihood.steps import StepsChain
from tacit.likelihood.ties import Tie
from tacit.model.features.design import Design
from tacit.recovery import RecoveryStatus

TEMPERATURE = 0.3
WEIGHTS = np.array([0.5, 0.3, 0.2])
PRICES = (0.6, 3.0)
REWARDS = {1: np.array([0.2, 0.5, 0.3]), 2: np.array([0.4, 0.2, 0.4]), 3: np.array([0.3, 0.3, 0.4])}


def task_of(
    seed,
    price,
    *,
    weights=WEIGHTS,
    reward=None,
    trajectories=10,
    steps=2000,
    draw=0,
    temperature=None,
):
    """A task on a random world whose expert pays this price for costs of these weights."""
    world = tacit.worlds.random(seed, states=8, actions=3, features=3)
    reward = REWARDS[seed] if reward is None else np.asarray(reward)
    objective = world.features.objective(reward, [weights], [0.0])
    gain, costs = objective.tables(world.mdp)
    solver = tacit.SoftDual(temperature=TEMPERATURE if temperature is None else temperature)
    expert = tacit.solve(world.mdp, tacit.Objective(gain - price * costs[0]), solver=solver)
    # Few trajectories by default: then steps are the independent units of standard errors.
    seen = tacit.simulate(
        world.mdp, expert.policy, trajectories=trajectories, steps=steps, seed=draw
    )
    return Task(world.mdp, world.features, seen)


@pytest.fixture(scope="module")
def pair():
    return [task_of(1, PRICES[0]), task_of(2, PRICES[1])]


@pytest.fixture(scope="module")
def joint(pair):
    return SharedLikelihood().fit(pair)


def tied(tasks, ties, leaders):
    """The likelihood of these tasks with such ties."""
    spaces = [Design.of(task.mdp, task.features) for task in tasks]
    seen = zip(tasks, spaces, strict=True)
    chains = [StepsChain.of(task.mdp, space, task.demonstrations) for task, space in seen]
    return shaped([Likelihood()] * len(chains), chains, ties, leaders)


def minimum_of(problem):
    """The minimum sought from every task's own."""
    alone = [maximum(chain, Likelihood()) for chain in problem.chains]
    z = problem.ties.start([one.z for one in alone])
    return problem.minimum(z, [one.parts[0] for one in alone], tolerance=1e-9, max_steps=300)


TIES = [
    (Tie.OWN, Tie.DIRECTION),
    (Tie.DIRECTION, Tie.DIRECTION),
    (Tie.SAME, Tie.OWN),
    (Tie.OWN, Tie.SAME),
]


# ---- the ties ------------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", TIES)
def test_ties_tie_weights_and_have_the_derivatives_they_claim(pair, ties):
    shape = tied(pair, ties, [1, 0])
    spaces = [chain.space for chain in shape.chains]
    assert np.abs(spaces[0].scales / spaces[1].scales - 1).max() > 1e-3  # units do differ
    random = np.random.default_rng(0)
    z = random.uniform(0.5, 2.0, len(shape.lower))
    theta = [x / space.scales for x, space in zip(shape.parameters(z), spaces, strict=True)]
    for tie, block in zip(ties, spaces[0].blocks, strict=True):
        ratio = theta[0][block] / theta[1][block]
        spread = np.ptp(ratio) / ratio.mean()
        # Rounding, or nothing in common.
        assert (spread < 1e-14) == (tie is not Tie.OWN)
        if tie is Tie.SAME:
            np.testing.assert_allclose(ratio, 1.0, rtol=1e-14)
    small = 1e-6
    for e in range(2):
        gradient = random.normal(size=spaces[e].size)
        for j in range(len(z)):
            step = small * (np.arange(len(z)) == j)
            up, down = shape.parameters(z + step)[e], shape.parameters(z - step)[e]
            # Central differences of a quadratic are exact but for rounding / step.
            slope = shape.ties.jacobian(e, z)[:, j]
            np.testing.assert_allclose((up - down) / (2 * small), slope, atol=1e-8)
            turned = shape.ties.jacobian(e, z + step) - shape.ties.jacobian(e, z - step)
            bend = gradient @ turned / (2 * small)
            np.testing.assert_allclose(bend, shape.ties.bend(e, gradient)[j], atol=1e-7)


@pytest.mark.parametrize("ties", TIES)
def test_parameters_that_keep_the_ties_are_found_again(pair, ties):
    shape = tied(pair, ties, [0, 1])
    z = np.linspace(0.5, 2.0, len(shape.lower))
    np.testing.assert_allclose(shape.ties.start(shape.parameters(z)), z, rtol=1e-12)


def test_a_problem_without_a_block_fixes_it_at_zero(pair):
    shape = tied(pair, (Tie.OWN, Tie.DIRECTION), [0, 1])
    assert shape.bilinear
    assert not shape.proven
    quiet = shape.without(1, [0])
    assert not quiet.bilinear
    z = np.clip(np.ones(len(shape.lower)), quiet.lower, quiet.upper)
    assert (quiet.parameters(z)[0][3:] == 0).all()
    assert (quiet.parameters(z)[1][3:] == 1).all()
    silent = shape.without(1, [0, 1])
    z = np.clip(np.ones(len(shape.lower)), silent.lower, silent.upper)
    assert all((x[3:] == 0).all() and (x[:3] > 0).all() for x in silent.parameters(z))
    assert silent.movable.sum() == 6


# ---- the search ----------------------------------------------------------------------------------


def test_the_joint_loss_has_the_gradient_and_curvature_it_claims(pair):
    shape = tied(pair, (Tie.OWN, Tie.DIRECTION), [0, 1])
    fitted = minimum_of(shape)
    random = np.random.default_rng(1)
    z = fitted.z * random.uniform(0.98, 1.02, len(fitted.z))

    def at(z):
        """One evaluation: the search is told to stop where it starts."""
        return shape.minimum(z, fitted.parts, tolerance=1e-9, max_steps=1)

    here = at(z)
    small = 1e-5
    for j in range(len(z)):
        step = small * (np.arange(len(z)) == j)
        rise = fitted.lagrangian(z + step) - fitted.lagrangian(z - step)
        # A loss of 4e4 is known to about 1e-9: 1e-4 of the quotient, 1e-6 of the gradient's scale.
        assert rise / (2 * small) == pytest.approx(here.gradient[j], abs=2e-3, rel=1e-5)
        curve = (at(z + step).gradient - at(z - step).gradient) / (2 * small)
        size = np.abs(here.curvature).max()
        # Truncation of second order in the step, relative to the largest entry.
        np.testing.assert_allclose(curve, here.curvature[j], atol=1e-5 * size)


def negative_log_likelihood(task, theta_reward, theta_cost):
    """By soft policy iteration in NumPy: knows nothing of the library's solvers."""
    features, mdp = task.features, task.mdp
    reward = features.reward @ theta_reward - features.costs[0] @ theta_cost
    transitions, values = mdp.dense(), np.zeros(mdp.states)
    for _ in range(50):
        quality = reward + mdp.discount * transitions @ values
        backup = logsumexp(quality, axis=1)
        policy = np.exp(quality - backup[:, None])
        if np.abs(backup - values).max() < 1e-12:
            break
        chain = np.einsum("sa,sat->st", policy, transitions)
        values += np.linalg.solve(np.eye(len(chain)) - mdp.discount * chain, backup - values)
    return -float((task.demonstrations.counts(mdp) * np.log(policy)).sum())


def test_an_independent_search_finds_nothing_better(pair, joint):
    best = float(joint.history["loss"][-1])

    def loss(y):  # two rewards, two sizes, one direction
        prices, weights = y[6:8], y[8:11]
        parts = [
            negative_log_likelihood(task, y[3 * e : 3 * e + 3], prices[e] * weights)
            for e, task in enumerate(pair)
        ]
        return sum(parts) / 1e4

    def packed(recoveries, weights):
        rewards = [one.reward_weights / one.temperature for one in recoveries]
        sizes = [one.multipliers[0] / one.temperature for one in recoveries]
        return np.concatenate([*rewards, sizes, weights])

    mine = packed(joint.recoveries, joint.cost_weights[0])
    # The same number by two roads; rounding of 4e4 terms.
    assert loss(mine) * 1e4 == pytest.approx(best, abs=1e-5)
    start = packed(joint.recoveries, np.ones(3) / 3)
    other = minimize(
        loss, start, bounds=[(0, None)] * 11, method="L-BFGS-B", options={"maxiter": 150}
    )
    # Numerical gradients stop early, at 1e-8 of the loss or so; never below a true minimum.
    assert other.fun * 1e4 >= best - 1e-5
    assert other.fun * 1e4 == pytest.approx(best, abs=0.5)
    found = other.x[8:11] / other.x[8:11].sum()
    np.testing.assert_allclose(found, joint.cost_weights[0], atol=0.01)


# ---- what comes back -----------------------------------------------------------------------------


def test_every_task_has_the_shared_weights_and_the_rest_is_its_own(pair, joint):
    assert joint.status is RecoveryStatus.LOCAL_OPTIMUM
    assert np.isnan(joint.certificate.objective_gap)
    assert joint.certificate.projected_gradient <= 1e-9
    known = joint.identification
    for e, (task, one) in enumerate(zip(pair, joint.recoveries, strict=True)):
        np.testing.assert_allclose(one.cost_weights[0], joint.cost_weights[0], rtol=1e-12)
        # The shared weights are one thing: every task knows them equally well.
        np.testing.assert_allclose(
            one.identification.cost_standard_errors[0], known.cost_standard_errors[0], rtol=1e-6
        )
        own = one.identification
        # Five standard errors: a chance of one in a million, and the seed is fixed.
        error = np.abs(one.cost_weights[0] - WEIGHTS)
        assert (error <= 5 * own.cost_standard_errors[0]).all()
        error = np.abs(one.reward_weights - REWARDS[e + 1])
        assert (error <= 5 * own.reward_standard_errors).all()
        assert abs(one.multipliers[0] - PRICES[e]) <= 5 * own.multiplier_standard_errors[0]
        # Far from every bound a profile is the normal law; it bends by the size of the errors.
        for weights, ends, spread in (
            (one.reward_weights, own.reward_intervals, own.reward_standard_errors),
            (one.cost_weights[0], own.cost_intervals[0], own.cost_standard_errors[0]),
            (one.multipliers, own.multiplier_intervals, own.multiplier_standard_errors),
            (one.budgets, own.budget_intervals, own.budget_standard_errors),
        ):
            normal = weights[:, None] + np.outer(1.96 * spread, [-1.0, 1.0])
            np.testing.assert_allclose(ends, normal, atol=0.2 * spread.max())
        assert one.temperature == pytest.approx(TEMPERATURE, rel=0.1)
        assert one.solution.status is tacit.Status.CONVERGED
        spent = one.objective.tables(task.mdp)[1][0]
        assert one.budgets[0] == pytest.approx(np.vdot(one.solution.visitation, spent), rel=1e-9)
    assert known.reward_intervals.shape == (0, 2)
    assert known.active.tolist() == [True]
    assert told(joint.findings, Kind.NOTE, constraint=0)
    assert not told(joint.findings, Kind.MISFIT)
    assert "task 1 of 2" in joint.recoveries[1].estimator
    page = joint.summary()
    assert page.count("agree on the weights of constraint 0") == 1  # a headline, no finding again
    assert "task: task 1" in page
    assert repr(joint).startswith("JointRecovery(LOCAL_OPTIMUM, tasks=2")


def test_together_the_direction_is_known_better_than_alone(pair, joint):
    for task in pair:
        alone = Likelihood().fit(task.mdp, task.features, task.demonstrations)
        together = joint.identification.cost_standard_errors[0]
        # Information adds up; the two estimates it is taken at differ by their errors.
        assert (together <= 1.1 * alone.identification.cost_standard_errors[0]).all()


@pytest.mark.parametrize("trajectories", [10, 100])
def test_one_task_is_the_likelihood(trajectories):
    task = task_of(1, PRICES[0], trajectories=trajectories, steps=20000 // trajectories)
    one = SharedLikelihood().fit([task])
    direct = Likelihood().fit(task.mdp, task.features, task.demonstrations)
    own = one.recoveries[0]
    # The same search twice; both stop within 1e-9 of a stationary point.
    for name in ("reward_weights", "multipliers", "budgets", "temperature"):
        np.testing.assert_allclose(getattr(own, name), getattr(direct, name), rtol=1e-6)
    np.testing.assert_allclose(own.cost_weights[0], direct.cost_weights[0], rtol=1e-6)
    for name in ("reward", "cost", "multiplier", "budget"):
        for kind in ("intervals", "standard_errors"):
            mine = getattr(own.identification, f"{name}_{kind}")
            theirs = getattr(direct.identification, f"{name}_{kind}")
            np.testing.assert_allclose(mine, theirs, rtol=1e-5)
    assert direct.parameters.errors == ("fisher" if trajectories == 10 else "clustered")
    assert own.parameters.errors == direct.parameters.errors
    assert told(direct.identification.findings, Kind.ERRORS)
    assert own.status is direct.status
    assert one.status is direct.status
    # Constraints are tested by the same draws.
    tested = one.identification
    np.testing.assert_allclose(tested.p_values, direct.identification.p_values, rtol=1e-9)
    assert tested.selection is not None
    criteria = direct.identification.selection.criteria
    np.testing.assert_allclose(tested.selection.criteria, criteria, rtol=1e-9)
    # The fit is judged by the same draws.
    assert one.goodness.p_value == pytest.approx(direct.goodness.p_value, rel=1e-9)
    np.testing.assert_allclose(one.goodness.residuals, direct.goodness.residuals, atol=1e-4)


def test_a_task_that_the_model_does_not_fit_is_named_first(pair, joint):
    """An expert who errs at random in a third of its steps, beside one who does not."""
    assert joint.goodness.adequate
    assert not told(joint.findings, Kind.MISFIT)
    task = pair[1]
    table = tacit.Objective(task.features.reward @ REWARDS[2])
    erring = 2 / 3 * tacit.solve(task.mdp, table).policy + 1 / 9
    seen = tacit.simulate(task.mdp, erring, trajectories=10, steps=400, seed=0)
    found = recover([pair[0], Task(task.mdp, task.features, seen)])
    assert found.worst == 1
    assert not found.goodness.adequate
    assert found.recoveries[0].goodness.adequate
    assert found.findings[0].kind is Kind.MISFIT
    assert found.findings[0].startswith("Task 1: ")
    assert found.findings[0].about == found.recoveries[1].identification.findings[0].about
    assert found.summary().startswith("task 1 fits least: ")


def test_the_same_task_twice_is_the_task_with_all_steps_counted_twice(pair):
    task = pair[1]
    alone = Likelihood().fit(task.mdp, task.features, task.demonstrations)
    twice = SharedLikelihood().fit([task, task])
    np.testing.assert_allclose(twice.cost_weights[0], alone.cost_weights[0], rtol=1e-6)
    for one in twice.recoveries:
        np.testing.assert_allclose(one.multipliers, alone.multipliers, rtol=1e-6)
        np.testing.assert_allclose(one.reward_weights, alone.reward_weights, rtol=1e-6)
    # A shared direction has twice the information, less what a size of its own costs: never more
    # than sqrt(2) surer, and never less sure than one of them.
    ratio = (
        twice.identification.cost_standard_errors[0] / alone.identification.cost_standard_errors[0]
    )
    assert (ratio >= np.sqrt(0.5) * (1 - 1e-6)).all()
    assert (ratio < 1.0).all()
    everything = SharedLikelihood(share_reward=True, share_temperature=True).fit([task, task])
    np.testing.assert_allclose(everything.reward_weights, alone.reward_weights, rtol=1e-6)
    # A likelihood ratio of 0: the same task cannot disagree with itself.
    assert twice.history["loss"][1] == pytest.approx(twice.history["loss"][0], abs=1e-6)


def test_the_order_of_the_tasks_and_the_units_of_cost_do_not_matter(pair, joint):
    turned = SharedLikelihood().fit(pair[::-1])
    np.testing.assert_allclose(turned.cost_weights[0], joint.cost_weights[0], rtol=1e-6)
    factors = np.array([1e6, 1.0, 1e-6])
    scaled = [
        dataclasses.replace(
            task, features=tacit.Features(task.features.reward, [task.features.costs[0] * factors])
        )
        for task in pair
    ]
    other = SharedLikelihood().fit(scaled)
    expected = joint.cost_weights[0] / factors
    # The search is in scaled units and does the same, but for rounding.
    np.testing.assert_allclose(other.cost_weights[0], expected / expected.sum(), rtol=1e-5)
    np.testing.assert_allclose(
        other.recoveries[0].reward_weights, joint.recoveries[0].reward_weights, rtol=1e-5
    )


def test_sharing_more_never_explains_more(pair, joint):
    # Nested models: each loss is a minimum over a subset of the parameters of the one before.
    options = [
        SharedLikelihood(),
        SharedLikelihood(share_reward=True),
        SharedLikelihood(share_reward=True, share_temperature=True),
    ]
    losses = [float(joint.history["loss"][0])]
    for option in options:
        found = option.fit(pair)
        losses.append(float(found.history["loss"][-1]))
    # Nothing but the tolerance of the search: 1e-9 of a loss of 4e4.
    assert (np.diff(losses) >= -1e-4).all()
    assert losses[2] > losses[1] + 10  # these tasks do not share their rewards
    (apart,) = told(SharedLikelihood(share_reward=True).fit(pair).findings, Kind.MISFIT)
    assert apart.about.constraint is None  # the reward
    assert apart.about.number < 0.001


def test_a_shared_reward_is_one_direction_at_temperatures_of_their_own():
    reward = np.array([0.2, 0.5, 0.3])
    tasks = [
        task_of(1, 0.6, reward=reward, temperature=0.3),
        task_of(2, 1.5, reward=reward, temperature=0.15),
    ]
    found = recover(tasks, share_reward=True)
    assert found.reward_weights.shape == (3,)
    for one, temperature, price in zip(found.recoveries, (0.3, 0.15), (0.6, 1.5), strict=True):
        np.testing.assert_allclose(one.reward_weights, found.reward_weights, rtol=1e-12)
        assert one.temperature == pytest.approx(temperature, rel=0.1)
        known = one.identification
        assert abs(one.multipliers[0] - price) <= 5 * known.multiplier_standard_errors[0]
    known = found.identification
    assert (np.abs(found.reward_weights - reward) <= 5 * known.reward_standard_errors).all()
    assert (np.abs(found.cost_weights[0] - WEIGHTS) <= 5 * known.cost_standard_errors[0]).all()
    assert not told(found.findings, Kind.MISFIT)
    assert "weights of the reward" in found.summary()
    same = SharedLikelihood(share_reward=True, share_temperature=True).fit(tasks)
    assert same.recoveries[0].temperature == pytest.approx(same.recoveries[1].temperature)
    # Half the temperature for twice the noise of the other: the assumption is seen to be wrong.
    assert same.history["loss"][-1] > found.history["loss"][-1] + 100


def test_a_task_that_pays_no_price_says_nothing_about_the_weights(pair):
    paying, idle = pair[1], task_of(3, 0.0)
    found = SharedLikelihood().fit([idle, paying])
    alone = Likelihood().fit(paying.mdp, paying.features, paying.demonstrations)
    np.testing.assert_allclose(found.cost_weights[0], alone.cost_weights[0], rtol=1e-6)
    np.testing.assert_allclose(
        found.identification.cost_intervals[0], alone.identification.cost_intervals[0], rtol=1e-5
    )
    quiet = found.recoveries[0]
    assert quiet.multipliers.tolist() == [0.0]
    assert np.isnan(quiet.cost_weights[0]).all()
    assert quiet.budgets.tolist() == [np.inf]
    low, high = quiet.identification.multiplier_intervals[0]
    assert low == 0.0
    assert 0.0 < high < 0.5 * PRICES[0]  # far below any price that matters here
    assert told(found.findings, Kind.NOT_IDENTIFIED, constraint=0)
    assert told(found.findings, Kind.ACTIVE, constraint=0)
    assert told(quiet.identification.findings, Kind.INACTIVE, constraint=0)
    # Without a second size nothing is multiplied: as convex as the tasks themselves.
    assert found.status is alone.status


def test_no_task_pays_a_price():
    found = SharedLikelihood().fit([task_of(1, 0.0), task_of(2, 0.0)])
    assert np.isnan(found.cost_weights[0]).all()
    assert not found.identification.active.any()
    for one in found.recoveries:
        assert one.multipliers.tolist() == [0.0]
        assert one.solution.status is tacit.Status.CONVERGED
        assert 0.0 <= one.identification.multiplier_intervals[0, 1] < 0.5 * PRICES[0]
    assert told(found.findings, Kind.INACTIVE, constraint=0)
    assert "nothing these demonstrations show" in found.summary()
    kept = SharedLikelihood(likelihood=Likelihood(level=1.0)).fit([task_of(1, 0.0)])
    assert kept.history["loss"][-1] <= found.history["loss"][-1]


def test_one_cost_feature_has_no_direction_so_the_optimum_is_global():
    tasks = []
    for seed, price in ((1, 0.6), (2, 3.0)):
        task = task_of(seed, price, weights=np.array([1.0, 0.0, 0.0]), steps=20000)
        features = tacit.Features(task.features.reward, [task.features.costs[0][..., :1]])
        tasks.append(Task(task.mdp, features, task.demonstrations))
    found = SharedLikelihood().fit(tasks)
    assert found.status is RecoveryStatus.CONVERGED
    assert found.certificate.objective_gap < 1e-6
    for one, task in zip(found.recoveries, tasks, strict=True):
        direct = Likelihood().fit(task.mdp, task.features, task.demonstrations)
        assert direct.status is RecoveryStatus.CONVERGED
        np.testing.assert_allclose(one.multipliers, direct.multipliers, rtol=1e-6)
        np.testing.assert_allclose(one.cost_weights[0], [1.0])


def test_a_shared_weight_on_its_bound_has_the_same_limit_in_every_task():
    weights = np.array([0.6, 0.4, 0.0])
    tasks = [task_of(1, 0.8, weights=weights, draw=53), task_of(2, 2.0, weights=weights, draw=3)]
    found = SharedLikelihood().fit(tasks)
    assert found.cost_weights[0][2] == 0.0
    known = found.identification
    assert np.isnan(known.cost_standard_errors[0][2])
    low, high = known.cost_intervals[0][2]
    assert low == 0.0
    # The limit is about as far as the errors of the others reach.
    assert 0.0 < high < 4 * known.cost_standard_errors[0][0]
    for one in found.recoveries:
        # One profile, in units that bend differently: within a twentieth of its width.
        ends = one.identification.cost_intervals[0]
        np.testing.assert_allclose(ends, known.cost_intervals[0], atol=0.05 * high)


def test_loose_pairs_will_do(pair, joint):
    loose = [
        dataclasses.replace(
            task,
            demonstrations=tacit.Demonstrations.from_pairs(
                task.demonstrations.states, task.demonstrations.actions
            ),
        )
        for task in pair
    ]
    found = SharedLikelihood().fit(loose)
    np.testing.assert_allclose(found.cost_weights[0], joint.cost_weights[0], rtol=1e-5)
    assert np.isnan(found.certificate.feature_gap)


def test_two_constraints_each_have_their_direction():
    weights, prices = (WEIGHTS, WEIGHTS[::-1]), ((0.6, 2.0), (2.0, 0.6))
    tasks = []
    for seed in (1, 2):
        world = tacit.worlds.random(seed, states=8, actions=3, features=3, constraints=2)
        objective = world.features.objective(REWARDS[seed], weights, [0.0, 0.0])
        gain, costs = objective.tables(world.mdp)
        wanted = tacit.Objective(gain - np.tensordot(prices[seed - 1], costs, 1))
        expert = tacit.solve(world.mdp, wanted, solver=tacit.SoftDual(temperature=TEMPERATURE))
        seen = tacit.simulate(world.mdp, expert.policy, trajectories=10, seed=seed)
        tasks.append(Task(world.mdp, world.features, seen))
    found = SharedLikelihood().fit(tasks)
    known = found.identification
    for k in range(2):
        error = np.abs(found.cost_weights[k] - weights[k])
        assert (error <= 5 * known.cost_standard_errors[k]).all()
        for e, one in enumerate(found.recoveries):
            error = abs(one.multipliers[k] - prices[e][k])
            assert error <= 5 * one.identification.multiplier_standard_errors[k]
        assert told(found.findings, Kind.NOTE, constraint=k)


def test_of_two_constraints_that_can_stand_in_for_each_other_one_is_kept(pair, joint):
    doubled = [
        dataclasses.replace(
            task, features=tacit.Features(task.features.reward, [*task.features.costs] * 2)
        )
        for task in pair
    ]
    found = SharedLikelihood().fit(doubled)
    (either,) = found.identification.sets
    assert either.members == (0, 1)
    assert either.p_value < 0.05
    assert (found.identification.p_values > 0.05).all()
    assert told(found.findings, Kind.NOT_IDENTIFIED, constraints=(0, 1))
    assert found.identification.active.sum() == 1
    kept = int(found.identification.active.argmax())
    # The same model with one constraint; the tests drop the other, and the search starts anew.
    np.testing.assert_allclose(found.cost_weights[kept], joint.cost_weights[0], rtol=1e-5)
    assert np.isnan(found.cost_weights[1 - kept]).all()


def test_an_expert_without_noise_is_said_to_be_one(pair):
    world = tacit.worlds.random(3, states=8, actions=3, features=3, tightness=0.5)
    best = tacit.solve(world.mdp, tacit.Objective(world.features.reward @ REWARDS[3]))
    seen = tacit.simulate(world.mdp, best.policy, trajectories=10, steps=500)
    found = SharedLikelihood().fit([pair[1], Task(world.mdp, world.features, seen)])
    assert found.status is RecoveryStatus.EXPERT_DETERMINISTIC
    statuses = [one.status for one in found.recoveries]
    assert statuses == [RecoveryStatus.LOCAL_OPTIMUM, RecoveryStatus.EXPERT_DETERMINISTIC]
    assert told(found.findings, Kind.DETERMINISTIC)
    assert not told(found.findings, Kind.ERRORS)
    assert np.isnan(found.identification.cost_intervals[0]).all()
    # The ridge keeps every parameter finite and the numbers usable.
    assert np.isfinite(found.recoveries[1].reward_weights).all()
    assert found.recoveries[1].temperature > 1e-4


def test_a_reward_of_free_sign_is_shared_with_its_sign(pair):
    flip = np.array([1.0, -1.0, 1.0])
    tasks = [task_of(1, 0.6), task_of(2, 1.5, reward=REWARDS[1])]
    turned = [
        dataclasses.replace(
            task, features=tacit.Features(task.features.reward * flip, task.features.costs)
        )
        for task in tasks
    ]
    usual = recover(tasks, share_reward=True)
    free = recover(turned, share_reward=True, estimator=Likelihood(free_reward=True))
    np.testing.assert_allclose(free.reward_weights, usual.reward_weights * flip, rtol=1e-5)
    ends = free.identification.reward_intervals[1]
    np.testing.assert_allclose(ends, -usual.identification.reward_intervals[1][::-1], rtol=1e-4)


def test_a_cost_that_nobody_ever_incurs_is_forbidden_and_harms_no_other():
    # From the hub, stay or go up, left or right, and come back. All sides pay; left costs, and
    # right costs more than anybody would give.
    transitions = np.zeros((4, 4, 4))
    transitions[0] = np.eye(4)
    transitions[1:, :, 0] = 1.0
    reward, costs = np.array([[0.0], [1.0], [2.0], [3.0]]), np.eye(4)[:, 2:]
    tasks = []
    for start, size in ((0, 0.5), (1, 1.0)):
        mdp = tacit.MDP(transitions, np.eye(4)[start], 0.9)
        wanted = tacit.Objective(reward[:, 0] - costs @ [size, 60.0 * size])
        expert = tacit.solve(mdp, wanted, solver=tacit.SoftDual(temperature=1.0))
        seen = tacit.simulate(mdp, expert.policy, trajectories=5, steps=2000, seed=start)
        assert not (seen.states == 3).any()
        tasks.append(Task(mdp, tacit.Features(reward, [costs]), seen))
    found = SharedLikelihood().fit(tasks)
    assert told(found.findings, Kind.FORBIDDEN, feature="cost feature 1")
    low, high = found.identification.cost_intervals[0][1]
    assert high == np.inf
    assert 1.0 < low <= 60.0  # the data set a lower limit, and the truth is above it
    for one in found.recoveries:
        assert one.identification.cost_intervals[0][1][0] == pytest.approx(low, rel=1e-9)
    # The units are set by the other weight alone.
    assert found.cost_weights[0][0] == 1.0
    for one, size in zip(found.recoveries, (0.5, 1.0), strict=True):
        known = one.identification.multiplier_standard_errors[0]
        assert np.isfinite(known)
        assert abs(one.multipliers[0] - size) <= 5 * known


# ---- the tests that the library makes ------------------------------------------------------------


def test_tasks_with_different_costs_are_seen_to_disagree():
    tasks = [task_of(1, 1.5), task_of(2, 1.5, weights=WEIGHTS[::-1])]
    (apart,) = told(SharedLikelihood().fit(tasks).findings, Kind.MISFIT, constraint=0)
    assert apart.about.number < 0.001


def test_the_agreement_of_tasks_far_from_every_bound_is_a_chi_square(joint):
    alone, together = joint.history["loss"]
    (said,) = told(joint.findings, Kind.NOTE, constraint=0)
    # Three weights that sum to one leave two to disagree on.
    assert said.about.number == pytest.approx(chi2.sf(2 * (together - alone), 2), rel=1e-6)


def test_the_law_of_the_agreement_test_against_closed_forms():
    identity = [np.eye(2), np.eye(2)]
    everything = np.ones(4, bool)
    stacked = [np.eye(4)[:2], np.eye(4)[2:]]
    wide = Directions(stacked, everything, ~everything)
    narrow = Directions([np.eye(2), np.eye(2)], np.ones(2, bool), np.zeros(2, bool))
    # Two parameters shared by two tasks against four: a chi-square of two.
    assert ratio_p_value(3.0, identity, wide, narrow, levels=0.01) == pytest.approx(chi2.sf(3.0, 2))
    assert ratio_p_value(3.0, identity, wide, wide, levels=0.01) == 1.0
    # All shared but one, which is on its bound: half a chi-square of one.
    bounded = Directions([np.eye(2)], np.array([True, False]), np.array([False, True]))
    without = Directions([np.eye(2)[:, :1]], np.ones(1, bool), np.zeros(1, bool))
    found = ratio_p_value(1.5, [np.diag([3.0, 7.0])], bounded, without, levels=0.01)
    # Three standard errors of a law simulated with 2000 draws.
    assert found == pytest.approx(0.5 * chi2.sf(1.5, 1), abs=3 * 0.5 / np.sqrt(2000))


@pytest.fixture(scope="module")
def replicates():
    """Fits of tasks that share their costs, over and over."""
    return [
        SharedLikelihood().fit(
            [task_of(1, 1.5, draw=draw, steps=400), task_of(2, 3.0, draw=1000 + draw, steps=400)]
        )
        for draw in range(40)
    ]


@pytest.mark.study
def test_tasks_that_agree_are_seldom_said_to_disagree(replicates):
    chances = []
    for found in replicates:
        said = told(found.findings, Kind.NOTE, constraint=0)
        (said,) = said or told(found.findings, Kind.MISFIT, constraint=0)
        chances.append(said.about.number)
    # p-values of a true hypothesis are uniform; the test of that at one in a thousand.
    assert kstest(chances, "uniform").pvalue > 1e-3


@pytest.mark.study
def test_standard_errors_are_those_of_replicates(replicates):
    ratios = np.array(
        [
            (found.cost_weights[0] - WEIGHTS) / found.identification.cost_standard_errors[0]
            for found in replicates
        ]
    )
    # Mean squares of 40 draws of three numbers, two of them independent: 1 +- 3 * sqrt(2 / 80).
    assert 0.5 < np.nanmean(ratios**2) < 1.5


# ---- why to do it --------------------------------------------------------------------------------

PRICE = 0.05  # with a temperature of 0.0025: the paper's grid with a noisy expert


@pytest.mark.study
def test_two_tasks_beat_one_of_the_same_length_and_sharing_parameters_does_not():
    everything = Likelihood(level=1.0)
    errors = {}

    def note(name, weights, truth):
        errors.setdefault(name, []).append(np.abs(weights - truth).sum())

    for seed in range(6):
        here, there = hill_tasks(seed)
        truth = here.cost_weights[0]
        for name, world in (("one, here", here), ("one, there", there)):
            task = hill_task(world, PRICE, trajectories=100, seed=seed)
            alone = everything.fit(task.mdp, task.features, task.demonstrations)
            note(name, alone.cost_weights[0], truth)
        for name, shares in (("two, same price", (1.0, 1.0)), ("two, a tenth", (0.3, 3.0))):
            pair = [
                hill_task(world, share * PRICE, trajectories=50, seed=draw)
                for world, share, draw in zip(
                    (here, there), shares, (seed, 10**6 + seed), strict=True
                )
            ]
            found = SharedLikelihood(likelihood=everything).fit(pair)
            note(name, found.cost_weights[0], truth)
        note("two, a tenth, parameters shared", parameters_shared(pair), truth)
    medians = {name: round(float(np.median(row)), 3) for name, row in errors.items()}
    print(f"median L1 error of cost weights over 6 draws of 200 000 steps: {medians}")
    single = min(medians["one, here"], medians["one, there"])
    assert medians["two, same price"] < single
    # The prices are 0.3 and 3 times that of the single tasks.
    assert medians["two, a tenth"] < single
    assert medians["two, a tenth, parameters shared"] > 4 * medians["two, a tenth"]


def hill_tasks(seed):
    """The paper's grid, and the same hill with another start, corner to reach and reward."""
    here = tacit.worlds.hill_grid(seed).in_gauge
    share = np.random.default_rng(1000 + seed).random()
    there = tacit.worlds.hill_grid(seed, reward_weights=[share, 1 - share]).in_gauge
    start = np.eye(25)[4]
    old = there.features
    features = tacit.Features(old.reward.max(axis=0) - old.reward, old.costs, None, old.cost_names)
    return here, dataclasses.replace(
        there,
        mdp=dataclasses.replace(there.mdp, initial=start),
        features=features,
        truth=features.objective(there.reward_weights, there.cost_weights, there.truth.budgets),
    )


def hill_task(world, price, *, trajectories, seed):
    reward, costs = world.truth.tables(world.mdp)
    wanted = tacit.Objective(reward - price * costs[0])
    expert = tacit.solve(world.mdp, wanted, solver=tacit.SoftDual(temperature=0.0025))
    seen = tacit.simulate(world.mdp, expert.policy, trajectories=trajectories, seed=seed)
    return Task(world.mdp, world.features, seen)


def parameters_shared(tasks):
    """Cost weights when the tasks share multiplier * weights / temperature, as they do not."""
    fitted = minimum_of(tied(tasks, (Tie.OWN, Tie.SAME), [0, 0]))
    theta = fitted.x(0)[2:] / fitted.problem.chains[0].space.scales[2:]
    return theta / theta.sum()


# ---- the border ----------------------------------------------------------------------------------


def test_what_cannot_be_shared_is_refused(pair):
    task = pair[0]
    with pytest.raises(tacit.InvalidModel, match="at least one Task"):
        recover([])
    with pytest.raises(tacit.InvalidModel, match="task 1 is str"):
        recover([task, "task"])
    other = dataclasses.replace(
        task, features=tacit.Features(task.features.reward, [task.features.costs[0][..., :2]])
    )
    with pytest.raises(tacit.InvalidModel, match="same cost features"):
        recover([task, other])
    other = dataclasses.replace(
        task, features=tacit.Features(task.features.reward[..., :2], task.features.costs)
    )
    assert len(recover([task, other]).recoveries[1].reward_weights) == 2
    with pytest.raises(tacit.InvalidModel, match="same reward features"):
        recover([task, other], share_reward=True)
    with pytest.raises(tacit.InvalidModel, match="must share the reward"):
        SharedLikelihood(share_temperature=True).fit([task])
    with pytest.raises(tacit.InvalidModel, match="got Convex"):
        recover([task], estimator=Convex())
    with pytest.raises(tacit.InvalidModel, match="hold their own features"):
        recover([task], task.features)
    with pytest.raises(tacit.InvalidModel, match="several tasks; got one"):
        recover(task.mdp, task.features, task.demonstrations, share_reward=True)
    with pytest.raises(tacit.InvalidModel, match="max_steps"):
        recover([task], estimator=Likelihood(max_steps=0))
    with pytest.raises(tacit.InvalidDemonstrations):
        Task(task.mdp, task.features, "steps")


def test_a_search_cut_short_says_so(pair):
    with pytest.raises(tacit.NotConverged) as caught:
        recover(pair, estimator=Likelihood(max_steps=2))
    found = recover(pair, estimator=Likelihood(max_steps=2), throw=False)
    assert found.status is RecoveryStatus.NOT_CONVERGED
    assert caught.value.result.status is RecoveryStatus.NOT_CONVERGED
    assert found.certificate.projected_gradient > 1e-9
    assert all(one.status is RecoveryStatus.NOT_CONVERGED for one in found.recoveries)


def test_tasks_without_a_constraint_have_a_reward_and_a_summary():
    worlds = [tacit.worlds.random(s, states=8, actions=3, constraints=0) for s in (0, 1)]
    tasks = []
    for world in worlds:
        policy = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(0.2)).policy
        seen = tacit.simulate(world.mdp, policy, trajectories=20, steps=20, seed=1)
        tasks.append(tacit.Task(world.mdp, world.features, seen))
    found = tacit.recover(tasks, throw=False)
    assert [len(one.multipliers) for one in found.recoveries] == [0, 0]
    assert all((one.reward_weights != 0).any() for one in found.recoveries)
    assert found.summary()


# ---- options ------------------------------------------------------------------------------------


def test_bounds_and_fixed_values_hold_in_every_task_that_has_the_coefficient(pair, joint):
    free = [one.parameters.estimates for one in joint.recoveries]
    name, half = pair[0].features.reward_names[0], 0.5 * min(x[0] for x in free)
    bounded = recover(pair, estimator=Likelihood(bounds={name: (None, half)}))
    fixed = recover(pair, estimator=Likelihood(fixed={name: half}))
    for one, other in zip(bounded.recoveries, fixed.recoveries, strict=True):
        # Both are where the bound is: the searches end within their tolerance.
        np.testing.assert_allclose(one.parameters.estimates, other.parameters.estimates, rtol=1e-5)
        assert one.parameters.estimates[0] == pytest.approx(half, rel=1e-12)
        assert other.parameters.standard_errors[0] == 0.0
        assert told(other.identification.findings, Kind.ASSUMED, feature=name)
    assert bounded.history["loss"][-1] > joint.history["loss"][-1]


def test_a_start_leads_to_the_same_place(pair, joint):
    name = pair[0].features.reward_names[0]
    found = recover(pair, estimator=Likelihood(start={name: 1.0}))
    for one, other in zip(found.recoveries, joint.recoveries, strict=True):
        np.testing.assert_allclose(one.parameters.estimates, other.parameters.estimates, rtol=1e-4)


def test_a_bound_binds_a_shared_direction_where_it_means_the_same_in_all(pair):
    same = [pair[0], dataclasses.replace(pair[0])]
    cost = Likelihood(bounds={pair[0].features.cost_names[0][0]: (0.0, 1.0)})
    with pytest.raises(tacit.InvalidModel, match="binds every task differently"):
        recover(same, estimator=cost)
    name = pair[0].features.reward_names[0]
    none = SharedLikelihood(share_reward=True, likelihood=Likelihood(fixed={name: 0.0}))
    assert all(
        one.parameters.estimates[0] == 0.0 for one in recover(same, estimator=none).recoveries
    )
    least = Likelihood(bounds={name: (0.0, 0.1)})
    found = recover(same, estimator=SharedLikelihood(True, True, least))
    assert [one.parameters.estimates[0] for one in found.recoveries] == pytest.approx([0.1, 0.1])
    with pytest.raises(tacit.InvalidModel, match="of a task"):
        recover(same, estimator=Likelihood(fixed={"nothing": 0.0}))


def named(task, prefix):
    """The task with an individual for every trajectory."""
    seen = task.demonstrations
    who = np.array([f"{prefix} {e}" for e in range(seen.episodes)])
    return dataclasses.replace(task, demonstrations=dataclasses.replace(seen, individuals=who))


def test_who_is_in_two_tasks_is_one_unit():
    task = task_of(1, PRICES[1], trajectories=100, steps=50)
    both = SharedLikelihood(share_reward=True, share_temperature=True)
    one, two, apart = (
        both.fit(tasks).parameters
        for tasks in (
            [named(task, "a")],
            [named(task, "a"), named(task, "a")],
            [named(task, "a"), named(task, "b")],
        )
    )
    assert [each.errors for each in (one, two, apart)] == ["clustered"] * 3
    assert [each.trajectories for each in (one, two, apart)] == [100, 100, 200]
    # Twice the score of everybody, squared; or the score of twice as many. The reward comes first.
    reward = np.s_[:3, :3]
    np.testing.assert_allclose(two.scatter[reward], 4.0 * one.scatter[reward], rtol=1e-4)
    np.testing.assert_allclose(apart.scatter[reward], 2.0 * one.scatter[reward], rtol=1e-4)


@pytest.mark.parametrize("strength", [3.0, None])
def test_one_task_under_a_prior_is_the_likelihood_under_it(pair, strength):
    (task, _), options = pair, tacit.Likelihood(prior=tacit.features.Ridge(strength))
    alone = tacit.recover(task, estimator=options, throw=False)
    joint = tacit.recover([task], estimator=options, throw=False)
    (own,) = joint.recoveries
    one, other = own.parameters, alone.parameters
    np.testing.assert_allclose(one.estimates, other.estimates, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(one.standard_errors, other.standard_errors, rtol=1e-5)
    assert joint.log_likelihood == pytest.approx(alone.log_likelihood)
    assert Kind.ASSUMED in {one.kind for one in own.identification.findings}


def test_a_prior_pulls_tasks_that_share_a_direction(pair):
    free, pulled = (
        tacit.recover(pair, estimator=tacit.Likelihood(level=1.0, prior=prior), throw=False)
        for prior in (None, tacit.features.Ridge(5.0))
    )
    assert np.isnan(pulled.agreement).all()
    first, second = (one.cost_weights[0] for one in pulled.recoveries)
    np.testing.assert_allclose(first, second)
    sizes = [(one.parameters.estimates**2).sum() for one in (free, pulled)]
    assert sizes[1] < sizes[0]
    assert pulled.log_likelihood < free.log_likelihood


def test_tasks_are_resampled_together():
    tasks = [task_of(seed, 3.0, trajectories=60, steps=50) for seed in (1, 2)]
    plain, drawn = (recover(tasks, bootstrap=draws, seed=0) for draws in (0, 60))
    for one, other in zip(plain.recoveries, drawn.recoveries, strict=True):
        np.testing.assert_array_equal(one.reward_weights, other.reward_weights)
        errors = [each.identification.reward_standard_errors for each in (one, other)]
        # A standard error of 60 draws is off by a tenth, and theory's is of the model.
        assert np.abs(np.log(errors[1] / errors[0])).max() < 0.5
    ends = [one.identification.cost_intervals[0] for one in drawn.recoveries]
    assert any(np.array_equal(drawn.identification.cost_intervals[0], one) for one in ends)
    # Somebody's trajectories are drawn with them in every task.
    alone = [named(task, "a") for task in tasks[:1] * 2]
    both = SharedLikelihood(share_reward=True, share_temperature=True)
    twice = recover(alone, estimator=both, bootstrap=20).recoveries
    single = recover(alone[:1], estimator=both, bootstrap=20).recoveries
    errors = [found[0].identification.reward_standard_errors for found in (twice, single)]
    np.testing.assert_allclose(errors[0], errors[1], rtol=1e-3)


def test_what_one_task_that_does_not_fit_says_of_its_constraints_is_the_likelihoods():
    """Two kinds of experts in one task: its trajectories scatter more than the model knows."""
    each = [task_of(1, price, draw=3, trajectories=30, steps=30) for price in (0.0, 1.5)]
    first, other = (task.demonstrations for task in each)
    task = dataclasses.replace(each[0], demonstrations=first + other)
    alone = recover(task.mdp, task.features, task.demonstrations, estimator=Likelihood())
    joint = recover([task])
    assert alone.goodness.verdict == "misfit"
    np.testing.assert_allclose(joint.identification.p_values, alone.identification.p_values)


def test_one_task_of_known_temperature_is_the_likelihood(pair):
    known = Likelihood(temperature=TEMPERATURE)
    alone = recover(pair[0].mdp, pair[0].features, pair[0].demonstrations, estimator=known)
    found = recover(pair[:1], estimator=known).recoveries[0]
    for name in ("estimates", "standard_errors"):
        ours, theirs = (getattr(one.parameters, name) for one in (found, alone))
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    np.testing.assert_allclose(
        found.identification.reward_intervals, alone.identification.reward_intervals, rtol=1e-4
    )


@pytest.mark.parametrize("share_reward", [False, True])
def test_a_known_temperature_sets_the_size_of_every_reward(pair, share_reward):
    tasks = [pair[0], task_of(1, PRICES[1], draw=3) if share_reward else pair[1]]
    found = recover(tasks, estimator=Likelihood(temperature=TEMPERATURE), share_reward=share_reward)
    for one in found.recoveries:
        assert one.temperature == pytest.approx(TEMPERATURE, rel=1e-9)
        assert one.goodness.adequate
    assert np.nanmin(found.agreement) > 0.001
    assert np.isnan(found.agreement[0]) == (not share_reward)
    assert told(found.identification.findings, Kind.ASSUMED, number=TEMPERATURE)
    rewards = [one.parameters.estimates[:3] for one in found.recoveries]
    assert np.allclose(*rewards, rtol=1e-9) == share_reward
